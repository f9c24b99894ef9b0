//! The hook plan: which boundary is taken by which hook, and what stays unresolved.
//!
//! A pure function of what a kernel allows ([`KernelFeatures`]), so that it can be tested for kernels that are not running.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_gate::{Gate, GateSet, KERNEL, SpanTable};

use crate::hook::{Hook, Need};

/// Traffic whose calls are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// A workload that we drive: the threads that call can read the clock themselves.
    Ours,
    /// Traffic that is there already: only the kernel sees its calls.
    Others,
}

impl Traffic {
    /// Tells whether there is somebody who can take such a hook.
    fn allows(self, need: Need) -> bool {
        match need {
            Need::OwnCall | Need::OwnSocket => self == Self::Ours,
            Need::Tracepoint(_) | Need::Netfilter(_) | Need::Function(_) => true,
        }
    }
}

/// Tells whether a kind of hook works here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelFeature {
    /// It was tried and works.
    Works,
    /// It was tried and refused, or cannot be tried; why.
    Refused(String),
}

impl KernelFeature {
    /// Tells whether it works.
    pub const fn works(&self) -> bool {
        matches!(self, Self::Works)
    }

    /// The reason why it does not.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Works => None,
            Self::Refused(reason) => Some(reason),
        }
    }
}

/// Features that a kernel allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFeatures {
    /// The kernel's types (BTF), without which no program finds its fields.
    pub types: KernelFeature,
    /// BPF programs on tracepoints with types (tp_btf).
    pub tracepoints: KernelFeature,
    /// BPF netfilter links (Linux 6.4).
    pub netfilter: KernelFeature,
    /// BPF programs at the entry of functions (fentry).
    pub functions: KernelFeature,
    /// The kernel stamps for sockets of ours (SO_TIMESTAMPING); it takes no privilege.
    pub sockets: KernelFeature,
    /// Our clock and the kernel's tell the same time, so that stamps of ours lie among those of the gates.
    pub clock: KernelFeature,
    /// The tracepoints that the kernel's types name, of those that hooks need.
    pub tracepoint_names: BTreeSet<String>,
    /// The functions that the kernel's types name, of those that hooks need.
    pub function_names: BTreeSet<String>,
    /// Those of them that take no program, or whose program is not called when segments pass, and why.
    pub unfit_functions: BTreeMap<String, String>,
}

impl KernelFeatures {
    /// A kernel that allows nothing, for this reason.
    pub fn none(reason: &str) -> Self {
        let refused = || KernelFeature::Refused(reason.to_owned());
        Self {
            types: refused(),
            tracepoints: refused(),
            netfilter: refused(),
            functions: refused(),
            sockets: refused(),
            clock: refused(),
            tracepoint_names: BTreeSet::new(),
            function_names: BTreeSet::new(),
            unfit_functions: BTreeMap::new(),
        }
    }

    /// Tells whether the kind of hook works that has this need.
    pub const fn of(&self, need: Need) -> &KernelFeature {
        match need {
            Need::Tracepoint(_) => &self.tracepoints,
            Need::Netfilter(_) => &self.netfilter,
            Need::Function(_) => &self.functions,
            Need::OwnCall => &self.clock,
            Need::OwnSocket => &self.sockets,
        }
    }

    /// The reason why this kernel does not have what a hook needs; none when it has.
    pub(crate) fn lacks(&self, need: Need) -> Option<String> {
        let refused = |kernel_feature: &KernelFeature| kernel_feature.reason().map(str::to_owned);
        match need {
            Need::Tracepoint(name) => refused(&self.tracepoints).or_else(|| {
                (!self.tracepoint_names.contains(name))
                    .then(|| format!("this kernel has no tracepoint {name}"))
            }),
            Need::Netfilter(_) => refused(&self.netfilter),
            Need::OwnCall => refused(&self.clock),
            Need::OwnSocket if self.tracepoints.works() => {
                Some("programs see more, and do not go with it".to_owned())
            }
            Need::OwnSocket => refused(&self.clock).or_else(|| refused(&self.sockets)),
            Need::Function(name) => refused(&self.functions).or_else(|| {
                if self.function_names.contains(name) {
                    self.unfit_functions.get(name).cloned()
                } else {
                    Some(format!("this kernel's types name no function {name}"))
                }
            }),
        }
    }
}

/// Hooks by which a gate is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// The gate.
    pub gate: Gate,
    /// Its hook; none when it stays unresolved.
    pub hook: Option<&'static Hook>,
    /// The BPF programs of the hook that take it, which are none where whoever makes the calls does.
    pub programs: Vec<&'static str>,
    /// Finer hooks that could not be had, and why; also the hook itself, where it does not see IPv6.
    pub missed: Vec<(&'static Hook, String)>,
}

impl Boundary {
    /// The finest of the hooks of a gate that these features allow.
    fn choose(gate: Gate, kernel_features: &KernelFeatures, traffic: Traffic) -> Self {
        let mut boundary = Self {
            gate,
            hook: None,
            programs: Vec::new(),
            missed: Vec::new(),
        };
        for hook in Hook::of(gate).filter(|hook| traffic.allows(hook.need)) {
            if let Some(reason) = kernel_features.lacks(hook.need) {
                boundary.missed.push((hook, reason));
                continue;
            }
            boundary.hook = Some(hook);
            boundary.programs.extend(hook.program);
            if let Some(ipv6) = hook.ipv6 {
                match kernel_features.lacks(Need::Function(ipv6.name)) {
                    None => boundary.programs.push(ipv6.program),
                    Some(reason) => boundary
                        .missed
                        .push((hook, format!("it does not see IPv6: {reason}"))),
                }
            }
            break;
        }
        boundary
    }
}

/// Hooks of the boundaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    boundaries: Vec<Boundary>,
}

impl Plan {
    /// The finest set of hooks that these features allow.
    pub fn choose(kernel_features: &KernelFeatures, traffic: Traffic) -> Self {
        let boundaries = KERNEL
            .gates()
            .iter()
            .filter(|&gate| gate != Gate::ApplicationEnd)
            .map(|gate| Boundary::choose(gate, kernel_features, traffic))
            .collect();
        Self { boundaries }
    }

    /// Every gate of the kernel's way and how it is taken, in the order of the way.
    pub fn boundaries(&self) -> &[Boundary] {
        &self.boundaries
    }

    /// Boundary by which a gate is taken; none for one that is not on the kernel's way.
    pub fn boundary(&self, gate: Gate) -> Option<&Boundary> {
        self.boundaries
            .iter()
            .find(|boundary| boundary.gate == gate)
    }

    /// The hook of a gate; none when it stays unresolved.
    pub fn hook(&self, gate: Gate) -> Option<&'static Hook> {
        self.boundary(gate)?.hook
    }

    /// The gates that are taken. The application's end is that of the answer's first gate.
    pub fn gates(&self) -> GateSet {
        let mut gates: GateSet = self
            .boundaries
            .iter()
            .filter(|boundary| boundary.hook.is_some())
            .map(|boundary| boundary.gate)
            .collect();
        if gates.contains(Gate::SocketOutBegin) {
            gates = gates.with(Gate::ApplicationEnd);
        }
        gates
    }

    /// Tells whether a gate is taken by a program.
    pub fn has_programs(&self) -> bool {
        self.boundaries
            .iter()
            .any(|boundary| !boundary.programs.is_empty())
    }

    /// The gates that whoever makes the calls takes, by a clock or by a socket.
    pub fn own_calls(&self) -> GateSet {
        self.boundaries
            .iter()
            .filter(|boundary| boundary.hook.is_some_and(|hook| hook.program.is_none()))
            .map(|boundary| boundary.gate)
            .collect()
    }

    /// The spans between the gates that are taken, without those in `except`; rows whose boundary is missing are joined. None
    /// when fewer than two gates are taken.
    pub fn table(&self, except: GateSet) -> Option<SpanTable> {
        KERNEL.joined(
            self.gates()
                .iter()
                .filter(|&gate| !except.contains(gate))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests;
