//! The hooks: for each gate the places in the kernel where it can be taken, the best first.

use tollgate_gate::Gate;

/// Kernel feature that a hook needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Need {
    /// A tracepoint of this name, with its types (BTF).
    Tracepoint(&'static str),
    /// A BPF netfilter link at this hook of IP.
    Netfilter(Netfilter),
    /// A function of this name, by which segments pass a program at its entry (fentry).
    Function(&'static str),
    /// Calls of our own process, and a clock of ours that is the kernel's.
    OwnCall,
    /// Sockets of our own, and stamps of the kernel for them (SO_TIMESTAMPING). Such stamps come with no sequence number, so they
    /// stand only where no program does.
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
    /// Name that users know it by.
    pub name: &'static str,
    /// The name of its BPF program; none where no program is needed.
    pub program: Option<&'static str>,
    /// Kernel feature that it needs.
    pub need: Need,
    /// The function that segments of IPv6 pass instead.
    pub ipv6: Option<Function>,
}

/// A function of the kernel and the program at its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Function {
    /// The function's name.
    pub name: &'static str,
    /// The program's name.
    pub program: &'static str,
}

const fn tracepoint(gate: Gate, name: &'static str) -> Hook {
    Hook {
        gate,
        name,
        program: Some(name),
        need: Need::Tracepoint(name),
        ipv6: None,
    }
}

const fn netfilter(gate: Gate, name: &'static str, program: &'static str, at: Netfilter) -> Hook {
    Hook {
        gate,
        name,
        program: Some(program),
        need: Need::Netfilter(at),
        ipv6: None,
    }
}

/// A function with the same arguments wherever it is; its name as users know it has `fentry` in front.
const fn function(gate: Gate, name: &'static str, of: Function) -> Hook {
    Hook {
        gate,
        name,
        program: Some(of.program),
        need: Need::Function(of.name),
        ipv6: None,
    }
}

const fn own_call(gate: Gate, name: &'static str) -> Hook {
    Hook {
        gate,
        name,
        program: None,
        need: Need::OwnCall,
        ipv6: None,
    }
}

const fn own_socket(gate: Gate, name: &'static str) -> Hook {
    Hook {
        gate,
        name,
        program: None,
        need: Need::OwnSocket,
        ipv6: None,
    }
}

/// All hooks, by gate in the order of the way, the finest first.
///
/// A tracepoint stands before a function, since it needs no trampoline. A function stands before a netfilter link: it lies where
/// the segment goes from one layer to the other, while netfilter's hook comes when IP has found the route and written its header
/// (LOCAL_OUT), or when it has not handed the segment over yet (LOCAL_IN). The functions that are named are called by pointer or from
/// another file, so that no compiler has put a copy of them into their caller.
///
/// sys_enter and sys_exit come last: while one of them is attached every system call of every thread takes its slow path.
pub static HOOKS: &[Hook] = &[
    own_call(Gate::SocketOutBegin, "clock before send()"),
    Hook {
        program: Some("sys_enter_send"),
        ..tracepoint(Gate::SocketOutBegin, "sys_enter")
    },
    tracepoint(Gate::TcpOutBegin, "tcp_sendmsg_locked"),
    function(
        Gate::TcpOutBegin,
        "fentry tcp_sendmsg_locked",
        Function {
            name: "tcp_sendmsg_locked",
            program: "fentry_tcp_sendmsg_locked",
        },
    ),
    Hook {
        ipv6: Some(Function {
            name: "inet6_csk_xmit",
            program: "fentry_inet6_csk_xmit",
        }),
        ..function(
            Gate::IpOutBegin,
            "fentry ip_queue_xmit",
            Function {
                name: "ip_queue_xmit",
                program: "fentry_ip_queue_xmit",
            },
        )
    },
    netfilter(
        Gate::IpOutBegin,
        "netfilter LOCAL_OUT",
        "nf_local_out",
        Netfilter::LocalOut,
    ),
    tracepoint(Gate::DeviceQueueIn, "net_dev_queue"),
    own_socket(Gate::DeviceQueueIn, "SO_TIMESTAMPING TX_SCHED"),
    tracepoint(Gate::DriverOutBegin, "net_dev_start_xmit"),
    own_socket(Gate::DriverOutBegin, "SO_TIMESTAMPING TX_SOFTWARE"),
    tracepoint(Gate::DriverOutEnd, "netif_rx_entry"),
    own_socket(Gate::DriverOutEnd, "SO_TIMESTAMPING RX_SOFTWARE"),
    tracepoint(Gate::IpInBegin, "netif_receive_skb"),
    Hook {
        ipv6: Some(Function {
            name: "tcp_v6_rcv",
            program: "fentry_tcp_v6_rcv",
        }),
        ..function(
            Gate::DemuxBegin,
            "fentry tcp_v4_rcv",
            Function {
                name: "tcp_v4_rcv",
                program: "fentry_tcp_v4_rcv",
            },
        )
    },
    netfilter(
        Gate::DemuxBegin,
        "netfilter LOCAL_IN",
        "nf_local_in",
        Netfilter::LocalIn,
    ),
    tracepoint(Gate::TcpInBegin, "tcp_probe"),
    tracepoint(Gate::SocketQueued, "sk_data_ready"),
    function(
        Gate::SocketQueued,
        "fentry sock_def_readable",
        Function {
            name: "sock_def_readable",
            program: "fentry_sock_def_readable",
        },
    ),
    own_socket(
        Gate::SocketQueued,
        "SO_TIMESTAMPING TX_ACK of what it answers",
    ),
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

    /// The functions that its programs are put on.
    pub fn functions(&self) -> impl Iterator<Item = &'static str> {
        let own = match self.need {
            Need::Function(name) => Some(name),
            Need::Tracepoint(_) | Need::Netfilter(_) | Need::OwnCall | Need::OwnSocket => None,
        };
        own.into_iter().chain(self.ipv6.map(|ipv6| ipv6.name))
    }
}
