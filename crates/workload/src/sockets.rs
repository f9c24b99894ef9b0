//! Use of sockets by a workload: the transport, the call that sends bytes, the reader's wait.
//!
//! The default is what every path does. Datagrams run over our stack as well; what else differs runs on kernel paths only.
//! [`Sockets::check`] refuses what does not go together.

use serde::{Deserialize, Serialize};
use tollgate_run::{Offload, PathId, Placement, Waiting, Workload};
use tollgate_stack::config::{ChecksumKernel, ChecksumPolicy, LanEvidence};

use crate::error::Error;
use crate::spec::Spec;

/// The largest UDP payload over IPv4 (RFC 768, RFC 791): 65,535 less both headers.
pub const MAX_DATAGRAM: usize = 65_507;

/// The transport protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP: a message is a datagram. Request-response only. Sockets of the kernel are connected, those of our stack name the other end
    /// with each.
    Udp,
    /// UDP over sockets of the kernel that are not connected: each sendto(2) names the other end.
    UdpSendto,
}

/// Call by which a stream's bytes are handed to the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sending {
    /// send(2): they are copied.
    #[default]
    Copy,
    /// sendfile(2) from a file in memory.
    Sendfile,
    /// splice(2) from a file in memory into a pipe and from there into the socket.
    Splice,
    /// send(2) with MSG_ZEROCOPY; a slice ends when all completions are read.
    ZeroCopy,
    /// IORING_OP_SEND of io_uring, one submission a write: they are copied.
    #[serde(rename = "io-uring")]
    Uring,
    /// IORING_OP_SEND_ZC of io_uring; a slice ends when all notifications are read.
    #[serde(rename = "io-uring-zero-copy")]
    UringZeroCopy,
}

/// State of a stream's reader when data arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// Any state: the writer does not wait for the reader.
    #[default]
    Free,
    /// The reader waits in recv(2) with its buffer before each write; the writer goes on when it has read.
    Posted,
    /// The data of each write lie in the socket before the reader asks for them.
    Late,
}

/// Mechanisms of Tollgate's stack that datagrams have, by name; all others are TCP's.
pub const DATAGRAM_MECHANISMS: [&str; 3] = [
    ChecksumPolicy::NAME,
    ChecksumKernel::NAME,
    LanEvidence::NAME,
];

/// Tells whether a path has request-response over UDP.
pub const fn carries_datagrams(path: PathId) -> bool {
    match path {
        PathId::KernelLoopback
        | PathId::KernelVeth
        | PathId::StackMemory
        | PathId::StackShm
        | PathId::StackTap
        | PathId::StackPacket
        | PathId::StackXdp => true,
        PathId::KernelRemote | PathId::PeerSmoltcp | PathId::BareShm => false,
    }
}

impl Transport {
    /// Tells whether a message is a datagram.
    pub const fn is_datagram(self) -> bool {
        match self {
            Self::Tcp => false,
            Self::Udp | Self::UdpSendto => true,
        }
    }
}

tollgate_run::names!(Transport, "transport", Tcp => "tcp", Udp => "udp", UdpSendto => "udp-sendto");
tollgate_run::names!(Sending, "way of sending", Copy => "copy", Sendfile => "sendfile", Splice => "splice", ZeroCopy => "zero-copy",
    Uring => "io-uring", UringZeroCopy => "io-uring-zero-copy");
tollgate_run::names!(Reading, "way of reading", Free => "free", Posted => "posted", Late => "late");

/// Use of sockets by a workload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sockets {
    /// The transport protocol.
    pub transport: Transport,
    /// The call that sends a stream's bytes.
    pub sending: Sending,
    /// The state of a stream's reader when data arrive.
    pub reading: Reading,
    /// Bytes of memory through which a stream's writes, and reads of the same size, walk before they come back to the
    /// first. 0 is the default: writes repeat one buffer, and the reader takes what it finds, up to 64 KiB at once.
    pub memory: usize,
    /// The offloads of the path's devices.
    pub offload: Offload,
}

impl Sockets {
    /// The default.
    pub const PLAIN: Self = Self {
        transport: Transport::Tcp,
        sending: Sending::Copy,
        reading: Reading::Free,
        memory: 0,
        offload: Offload::Usual,
    };

    /// Refuses what the path, or the workload, cannot do with this.
    ///
    /// # Errors
    /// [`Error::Unsupported`], which names what there is, and [`Error::Datagram`].
    pub(crate) fn check(&self, path: PathId, spec: &Spec) -> Result<(), Error> {
        if *self == Self::PLAIN {
            return Ok(());
        }
        let refused = |asked: String, has: &str| Error::Unsupported {
            path,
            asked,
            has: has.to_owned(),
        };
        let datagrams = Self {
            transport: Transport::Udp,
            ..Self::PLAIN
        };
        if self.transport.is_datagram() && !carries_datagrams(path) {
            return Err(refused(format!("{} over udp", spec.workload), "tcp"));
        }
        if !path.is_kernel() && *self != datagrams {
            return Err(refused(
                "kernel sockets in another way than plain TCP and UDP".to_owned(),
                "its own sockets",
            ));
        }
        if self.offload != Offload::Usual && path != PathId::KernelVeth {
            return Err(refused(
                "devices whose offload is switched".to_owned(),
                "devices that it does not own",
            ));
        }
        if self.transport.is_datagram() {
            if spec.workload != Workload::Rr {
                return Err(refused(
                    format!("{} over udp", spec.workload),
                    "rr over udp",
                ));
            }
            if spec.size > MAX_DATAGRAM {
                return Err(Error::Datagram {
                    size: spec.size,
                    max: MAX_DATAGRAM,
                });
            }
        }
        let bulk =
            self.sending != Sending::Copy || self.reading != Reading::Free || self.memory > 0;
        if bulk && spec.workload != Workload::Stream {
            return Err(refused(
                format!(
                    "{} with a way of sending or reading of its own",
                    spec.workload
                ),
                "stream with one",
            ));
        }
        if bulk && spec.waiting == Waiting::BusyPoll {
            return Err(refused(
                "a polling stream of this kind".to_owned(),
                "blocking",
            ));
        }
        if self.reading == Reading::Late && spec.placement != Placement::OneCore {
            return Err(refused("a late reader on two cores".to_owned(), "one core"));
        }
        Ok(())
    }
}
