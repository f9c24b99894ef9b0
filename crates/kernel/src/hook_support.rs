//! Kinds of hooks that a kernel may offer and that no gate is taken with: they come where a gate has a better hook, or where none of
//! the way's boundaries is. They are tried all the same, so that a plan can be judged by what else there would be.

use tollgate_gate::Gate;

use crate::plan::KernelFeature;

/// A kind of hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Programs at the packets of a control group (cgroup_skb), Linux 4.10.
    CgroupPackets,
    /// Programs at what sockets of a control group do (sock_ops), Linux 4.13.
    SocketOperations,
    /// Time stamps of transmission that sock_ops programs ask for, Linux 6.15.
    SocketStamps,
    /// Links to the traffic control of an interface (tcx), Linux 6.6.
    TcExpress,
    /// Filters of the queueing discipline clsact, Linux 4.5.
    TcClassic,
    /// Programs where a driver receives (XDP), Linux 4.8.
    Xdp,
    /// Breakpoints at instructions of the kernel (kprobes), by perf_event_open(2) since Linux 4.17.
    Kprobes,
}

/// Kind of point that a hook is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPoint {
    /// At the boundary of this gate.
    At(Gate),
    /// At none of the boundaries; where instead.
    Elsewhere(&'static str),
}

impl Kind {
    /// Every kind, in the order of the way out and in.
    pub const ALL: [Self; 7] = [
        Self::CgroupPackets,
        Self::SocketOperations,
        Self::SocketStamps,
        Self::TcExpress,
        Self::TcClassic,
        Self::Xdp,
        Self::Kprobes,
    ];

    /// Name that users know it by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::CgroupPackets => "cgroup_skb",
            Self::SocketOperations => "sock_ops",
            Self::SocketStamps => "sock_ops transmit stamps",
            Self::TcExpress => "tcx links",
            Self::TcClassic => "clsact filters",
            Self::Xdp => "XDP",
            Self::Kprobes => "kprobes",
        }
    }

    /// The point that it is attached to.
    pub const fn point(self) -> HookPoint {
        match self {
            Self::CgroupPackets => HookPoint::Elsewhere(
                "it comes within IP, between netfilter's POST_ROUTING and the neighbour",
            ),
            Self::SocketOperations => HookPoint::Elsewhere(
                "it tells of connections and round-trip times, of no boundary of a message",
            ),
            Self::SocketStamps | Self::TcExpress | Self::TcClassic => {
                HookPoint::At(Gate::DeviceQueueIn)
            }
            Self::Xdp => HookPoint::At(Gate::IpInBegin),
            // Wherever functions are taken; this is where they are nearest to the boundary.
            Self::Kprobes => HookPoint::At(Gate::IpOutBegin),
        }
    }
}

/// A kind of hook, and whether this kernel allows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookSupport {
    /// The kind.
    pub kind: Kind,
    /// Tells whether it was tried and works.
    pub support: KernelFeature,
}
