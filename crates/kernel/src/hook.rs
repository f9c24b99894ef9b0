//! The hooks: for each gate the places in the kernel where it can be taken, the best first.

use tollgate_gate::Gate;

/// What a hook needs of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// A tracepoint of this name, with its types (BTF).
    Tracepoint(&'static str),
    /// A BPF netfilter link at this hook of IP.
    Netfilter(Netfilter),
    /// A function of this name that can be traced (fentry).
    Function(&'static str),
    /// That we make the calls ourselves, and that our clock is the kernel's.
    OwnCall,
    /// That the sockets are ours, and that the kernel stamps for them (SO_TIMESTAMPING). Such stamps come with no sequence
    /// number, so they stand only where no program does.
    OwnSocket,
}

/// The hooks of netfilter that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Netfilter {
    /// NF_INET_LOCAL_IN.
    LocalIn,
    /// NF_INET_LOCAL_OUT.
    LocalOut,
}

impl Netfilter {
    /// Its number in the kernel.
    pub const fn number(self) -> i32 {
        match self {
            Self::LocalIn => 1,
            Self::LocalOut => 3,
        }
    }
}

/// A place where a gate is taken.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Hook {
    /// The gate.
    pub gate: Gate,
    /// What users know it by.
    pub name: &'static str,
    /// The name of its BPF program; that of the twin has `_twin` behind it. None where no program is needed.
    pub program: Option<&'static str>,
    /// What it needs.
    pub need: Need,
}

const fn tracepoint(gate: Gate, name: &'static str) -> Hook {
    Hook {
        gate,
        name,
        program: Some(name),
        need: Need::Tracepoint(name),
    }
}

const fn own_call(gate: Gate, name: &'static str) -> Hook {
    Hook {
        gate,
        name,
        program: None,
        need: Need::OwnCall,
    }
}

const fn own_socket(gate: Gate, name: &'static str) -> Hook {
    Hook {
        gate,
        name,
        program: None,
        need: Need::OwnSocket,
    }
}

/// All hooks, by gate in the order of the way, the finest first.
///
/// sys_enter and sys_exit come last: while one of them is attached every system call of every thread takes its slow path.
pub static HOOKS: &[Hook] = &[
    own_call(Gate::SocketOutBegin, "clock before send()"),
    Hook {
        program: Some("sys_enter_send"),
        ..tracepoint(Gate::SocketOutBegin, "sys_enter")
    },
    tracepoint(Gate::TcpOutBegin, "tcp_sendmsg_locked"),
    Hook {
        gate: Gate::TcpOutBegin,
        name: "fentry tcp_sendmsg_locked",
        program: Some("fentry_tcp_sendmsg_locked"),
        need: Need::Function("tcp_sendmsg_locked"),
    },
    Hook {
        gate: Gate::IpOutBegin,
        name: "netfilter LOCAL_OUT",
        program: Some("nf_local_out"),
        need: Need::Netfilter(Netfilter::LocalOut),
    },
    Hook {
        gate: Gate::IpOutBegin,
        name: "fentry __ip_local_out",
        program: Some("fentry_ip_local_out"),
        need: Need::Function("__ip_local_out"),
    },
    tracepoint(Gate::DeviceQueueIn, "net_dev_queue"),
    own_socket(Gate::DeviceQueueIn, "SO_TIMESTAMPING TX_SCHED"),
    tracepoint(Gate::DriverOutBegin, "net_dev_start_xmit"),
    own_socket(Gate::DriverOutBegin, "SO_TIMESTAMPING TX_SOFTWARE"),
    tracepoint(Gate::DriverOutEnd, "netif_rx_entry"),
    own_socket(Gate::DriverOutEnd, "SO_TIMESTAMPING RX_SOFTWARE"),
    tracepoint(Gate::IpInBegin, "netif_receive_skb"),
    Hook {
        gate: Gate::DemuxBegin,
        name: "netfilter LOCAL_IN",
        program: Some("nf_local_in"),
        need: Need::Netfilter(Netfilter::LocalIn),
    },
    Hook {
        gate: Gate::DemuxBegin,
        name: "fentry ip_local_deliver",
        program: Some("fentry_ip_local_deliver"),
        need: Need::Function("ip_local_deliver"),
    },
    tracepoint(Gate::TcpInBegin, "tcp_probe"),
    tracepoint(Gate::SocketQueued, "sk_data_ready"),
    Hook {
        gate: Gate::SocketQueued,
        name: "fentry sock_def_readable",
        program: Some("fentry_sock_def_readable"),
        need: Need::Function("sock_def_readable"),
    },
    tracepoint(Gate::ReaderRuns, "sched_switch"),
    tracepoint(Gate::SocketInBegin, "skb_copy_datagram_iovec"),
    own_call(Gate::SocketInEnd, "clock after recv()"),
    Hook {
        program: Some("sys_exit_receive"),
        ..tracepoint(Gate::SocketInEnd, "sys_exit")
    },
    own_call(Gate::SocketOutEnd, "clock after send()"),
    Hook {
        program: Some("sys_exit_send"),
        ..tracepoint(Gate::SocketOutEnd, "sys_exit")
    },
];

impl Hook {
    /// The hooks of a gate, the finest first.
    pub fn of(gate: Gate) -> impl Iterator<Item = &'static Self> {
        HOOKS.iter().filter(move |hook| hook.gate == gate)
    }
}
