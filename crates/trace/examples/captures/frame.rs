//! Subject of the comparison: one frame, as either program sees it.

use std::fmt;
use std::net::IpAddr;

use tollgate_trace::rows::Protocol;

/// A frame of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Nanoseconds since 1970-01-01 UTC.
    pub time_ns: Option<i64>,
    /// Bytes on the wire.
    pub wire_len: u32,
    /// Bytes captured.
    pub captured: u32,
    /// The outermost segment or datagram.
    pub transport: Option<Transport>,
}

/// A segment or datagram. What a program does not say is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transport {
    pub protocol: Protocol,
    /// Source and destination.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// Likewise.
    pub ports: Option<(u16, u16)>,
    /// Bytes of user data.
    pub size: Option<i64>,
    /// The control bits of TCP.
    pub flags: Option<u8>,
    /// The flow's number; each program numbers its own way.
    pub flow: u64,
}

/// The aspect in which two frames, or two files, differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Aspect {
    /// The reader refuses a file that tshark reads.
    Refused,
    /// The number of frames; counted are those that one program has more.
    Frames,
    Time,
    /// Bytes on the wire, or captured.
    Length,
    /// Only tshark sees TCP or UDP.
    Missing,
    /// Only the reader sees TCP or UDP.
    Extra,
    /// TCP or UDP.
    Protocol,
    Addresses,
    Ports,
    /// Bytes of user data.
    Size,
    Flags,
    /// A flow goes on for one program and begins for the other.
    Flow,
}

impl Aspect {
    pub const ALL: [Self; 12] = [
        Self::Refused,
        Self::Frames,
        Self::Time,
        Self::Length,
        Self::Missing,
        Self::Extra,
        Self::Protocol,
        Self::Addresses,
        Self::Ports,
        Self::Size,
        Self::Flags,
        Self::Flow,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Frames => "frames",
            Self::Time => "time",
            Self::Length => "length",
            Self::Missing => "missing",
            Self::Extra => "extra",
            Self::Protocol => "protocol",
            Self::Addresses => "addresses",
            Self::Ports => "ports",
            Self::Size => "size",
            Self::Flags => "flags",
            Self::Flow => "flow",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|aspect| aspect.name() == name)
    }
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
