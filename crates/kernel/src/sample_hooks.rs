//! Hooks for each gate of a sample, the finest first, and the choice among them on this kernel.

use crate::hook::{Function, Need, Netfilter};
use crate::plan::KernelFeatures;

/// A place where samples pass.
#[derive(Debug, PartialEq, Eq)]
pub struct Hook {
    /// The boundary that it takes, in words.
    pub boundary: &'static str,
    /// Name that users know it by.
    pub name: &'static str,
    /// Its BPF program.
    pub program: &'static str,
    /// Kernel feature that it needs.
    pub need: Need,
    /// The function that segments of IPv6 pass instead.
    pub ipv6: Option<Function>,
    /// Loss where no hook of this boundary can be had.
    pub without: Without,
}

/// Consequence of a missing boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// Nothing can be observed.
    Nothing,
    /// Two rows are joined.
    Joined,
    /// The rows on both sides of it stay empty.
    Hole,
}

const fn tracepoint(boundary: &'static str, name: &'static str, without: Without) -> Hook {
    Hook {
        boundary,
        name,
        program: name,
        need: Need::Tracepoint(name),
        ipv6: None,
        without,
    }
}

/// A function in the place of a hook, or before it.
const fn function(of: &Hook, name: &'static str, at: Function, ipv6: Option<Function>) -> Hook {
    Hook {
        boundary: of.boundary,
        name,
        program: at.program,
        need: Need::Function(at.name),
        ipv6,
        without: of.without,
    }
}

const SENT: Hook = tracepoint("a send", "tcp_sendmsg_locked", Without::Nothing);
const RECEIVED: Hook = tracepoint("a receive returns", "sock_recv_length", Without::Nothing);
const READY: Hook = tracepoint("the reader is told", "sk_data_ready", Without::Nothing);
const IP_OUT: Hook = Hook {
    boundary: IP_OUT_BOUNDARY,
    name: "netfilter LOCAL_OUT",
    program: "nf_local_out",
    need: Need::Netfilter(Netfilter::LocalOut),
    ipv6: None,
    without: Without::Joined,
};
const DEMUX: Hook = Hook {
    boundary: DEMUX_BOUNDARY,
    name: "netfilter LOCAL_IN",
    program: "nf_local_in",
    need: Need::Netfilter(Netfilter::LocalIn),
    ipv6: None,
    without: Without::Joined,
};
/// Boundary at which a segment leaves TCP.
pub const IP_OUT_BOUNDARY: &str = "from TCP to IP";
/// Boundary at which a segment comes to TCP.
pub const DEMUX_BOUNDARY: &str = "from IP to TCP";
/// Boundary that separates the time of a reader's own code between two system calls.
pub const RETURNED_BOUNDARY: &str = "a reader returns to its code";
/// Boundary at which a reader's call begins.
pub const CALLED_BOUNDARY: &str = "a reader calls the kernel";
/// Boundary at which the driver has taken a segment.
pub const DRIVER_END_BOUNDARY: &str = "the driver returns";
const RUNS_BOUNDARY: &str = "a thread runs";
/// The program that takes segments from wires, too, in the place of the one at the same tracepoint.
pub const WIRE: (&str, &str) = ("netif_receive_skb", "netif_receive_wire");

/// All hooks, by boundary in the order of the way, the finest first; in the same order as those of gates ([`crate::hook::HOOKS`]).
pub static HOOKS: &[Hook] = &[
    SENT,
    function(
        &SENT,
        "fentry tcp_sendmsg_locked",
        Function {
            name: "tcp_sendmsg_locked",
            program: "fentry_tcp_sendmsg_locked",
        },
        None,
    ),
    function(
        &IP_OUT,
        "fentry ip_queue_xmit",
        Function {
            name: "ip_queue_xmit",
            program: "fentry_ip_queue_xmit",
        },
        Some(Function {
            name: "inet6_csk_xmit",
            program: "fentry_inet6_csk_xmit",
        }),
    ),
    IP_OUT,
    tracepoint("the device queue", "net_dev_queue", Without::Hole),
    tracepoint("the driver begins", "net_dev_start_xmit", Without::Hole),
    tracepoint(DRIVER_END_BOUNDARY, "net_dev_xmit", Without::Hole),
    tracepoint("the queue of IP", "netif_rx_entry", Without::Hole),
    tracepoint("IP begins", "netif_receive_skb", Without::Nothing),
    function(
        &DEMUX,
        "fentry tcp_v4_rcv",
        Function {
            name: "tcp_v4_rcv",
            program: "fentry_tcp_v4_rcv",
        },
        Some(Function {
            name: "tcp_v6_rcv",
            program: "fentry_tcp_v6_rcv",
        }),
    ),
    DEMUX,
    tracepoint("TCP begins", "tcp_probe", Without::Hole),
    READY,
    function(
        &READY,
        "fentry sock_def_readable",
        Function {
            name: "sock_def_readable",
            program: "fentry_sock_def_readable",
        },
        None,
    ),
    tracepoint(RUNS_BOUNDARY, "sched_switch", Without::Hole),
    tracepoint(RETURNED_BOUNDARY, "sys_exit", Without::Joined),
    tracepoint(CALLED_BOUNDARY, "sys_enter", Without::Joined),
    tracepoint("the copy begins", "skb_copy_datagram_iovec", Without::Hole),
    RECEIVED,
    function(
        &RECEIVED,
        "fexit tcp_recvmsg",
        Function {
            name: "tcp_recvmsg",
            program: "fexit_tcp_recvmsg",
        },
        None,
    ),
];

/// The hooks that are taken on this kernel, and what stays without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// One for each boundary that can be taken, in the order of the way.
    pub taken: Vec<&'static Hook>,
    /// Their programs, each with its hook.
    pub programs: Vec<(&'static Hook, &'static str)>,
    /// Boundaries that cannot, and why.
    pub missing: Vec<(&'static Hook, String)>,
}

impl Choice {
    /// The finest hooks that these features allow.
    pub fn of(kernel_features: &KernelFeatures) -> Self {
        let mut choice = Self {
            taken: Vec::new(),
            programs: Vec::new(),
            missing: Vec::new(),
        };
        let mut rest = HOOKS;
        while let Some(first) = rest.first() {
            let count = rest
                .iter()
                .take_while(|hook| hook.boundary == first.boundary)
                .count();
            let (these, others) = rest.split_at(count);
            rest = others;
            let mut reasons = Vec::new();
            let taken = these.iter().find(|hook| {
                let lacks = kernel_features.lacks(hook.need);
                let has = lacks.is_none();
                reasons.extend(lacks);
                has
            });
            match taken {
                Some(hook) => {
                    choice.taken.push(hook);
                    let ipv6 = hook
                        .ipv6
                        .filter(|ipv6| kernel_features.lacks(Need::Function(ipv6.name)).is_none());
                    let programs = std::iter::once(hook.program).chain(ipv6.map(|at| at.program));
                    choice
                        .programs
                        .extend(programs.map(|program| (hook, program)));
                }
                None => choice.missing.push((first, reasons.join("; "))),
            }
        }
        choice
    }

    /// Tells whether the boundary is taken.
    pub fn takes(&self, boundary: &str) -> bool {
        self.taken.iter().any(|hook| hook.boundary == boundary)
    }

    /// Programs that a message runs which is read without waiting for it.
    pub fn gates_of_a_message(&self) -> usize {
        let runs = |hook: &&Hook| match hook.boundary {
            RUNS_BOUNDARY => 0,
            // One by who sends, one by who reads.
            RETURNED_BOUNDARY | CALLED_BOUNDARY => 2,
            _ => 1,
        };
        self.taken.iter().map(runs).sum()
    }

    /// Tells whether both ends of a system call are taken, so that a reader's own code is told from the kernel.
    pub fn takes_calls(&self) -> bool {
        self.takes(RETURNED_BOUNDARY) && self.takes(CALLED_BOUNDARY)
    }

    /// Programs that a message runs outside of its way and its gates' programs: its last gate's call, and where both ends of system
    /// calls are taken the entry and the exit of its sender's and the exit of its reader's.
    pub fn calls_beside_the_way(&self) -> usize {
        if self.takes_calls() { 4 } else { 1 }
    }

    /// The first boundary without which nothing can be observed, and why it cannot be taken.
    pub fn stopped_by(&self) -> Option<&(&'static Hook, String)> {
        self.missing
            .iter()
            .find(|(hook, _)| hook.without == Without::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::KernelFeature;

    fn all() -> KernelFeatures {
        let mut kernel_features = KernelFeatures::none("");
        kernel_features.types = KernelFeature::Works;
        kernel_features.tracepoints = KernelFeature::Works;
        kernel_features.netfilter = KernelFeature::Works;
        kernel_features.functions = KernelFeature::Works;
        for hook in HOOKS {
            match hook.need {
                Need::Tracepoint(name) => kernel_features.tracepoint_names.insert(name.to_owned()),
                Need::Function(name) => kernel_features.function_names.insert(name.to_owned()),
                Need::Netfilter(_) | Need::OwnCall | Need::OwnSocket => false,
            };
            let ipv6 = hook.ipv6.map(|ipv6| ipv6.name.to_owned());
            kernel_features.function_names.extend(ipv6);
        }
        kernel_features
    }

    #[test]
    fn a_kernel_that_allows_everything_gives_one_hook_for_each_boundary() {
        let choice = Choice::of(&all());
        assert!(choice.missing.is_empty() && choice.stopped_by().is_none());
        assert_eq!(choice.taken.len(), 15);
        let names: Vec<&str> = choice.programs.iter().map(|(_, name)| *name).collect();
        assert_eq!(names.len(), 17);
        assert_eq!(choice.gates_of_a_message(), 12 + 4);
        for name in [
            "fentry_ip_queue_xmit",
            "fentry_inet6_csk_xmit",
            "sk_data_ready",
        ] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
    }

    #[test]
    fn functions_stand_in_for_netfilter_links_and_newer_tracepoints() {
        let mut old = all();
        old.netfilter = KernelFeature::Refused("Linux 6.1 has none".to_owned());
        old.tracepoint_names.remove("tcp_sendmsg_locked");
        old.tracepoint_names.remove("sk_data_ready");
        old.tracepoint_names.remove("sock_recv_length");
        let names: Vec<&str> = Choice::of(&old)
            .taken
            .iter()
            .map(|hook| hook.name)
            .collect();
        for name in [
            "fentry tcp_sendmsg_locked",
            "fentry ip_queue_xmit",
            "fentry tcp_v4_rcv",
            "fentry sock_def_readable",
            "fexit tcp_recvmsg",
        ] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
    }

    #[test]
    fn rows_are_joined_where_neither_can_be_had() {
        let mut poor = all();
        poor.netfilter = KernelFeature::Refused("not in this kernel".to_owned());
        poor.functions = KernelFeature::Refused("not permitted".to_owned());
        let choice = Choice::of(&poor);
        assert!(!choice.takes(IP_OUT_BOUNDARY) && !choice.takes(DEMUX_BOUNDARY));
        assert_eq!(choice.stopped_by(), None);
        assert_eq!(choice.missing[0].1, "not permitted; not in this kernel");
    }

    #[test]
    fn without_the_senders_gate_nothing_is_observed() {
        let choice = Choice::of(&KernelFeatures::none("no BTF"));
        assert_eq!(
            choice
                .stopped_by()
                .map(|(hook, why)| (hook.name, why.as_str())),
            Some(("tcp_sendmsg_locked", "no BTF; no BTF"))
        );
    }
}
