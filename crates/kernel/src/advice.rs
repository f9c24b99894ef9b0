//! Advice: changes that would make a plan better, found by choosing again with more features.

use std::fmt;

use tollgate_gate::Gate;

use crate::hook::{HOOKS, Hook, Need};
use crate::plan::{KernelFeature, KernelFeatures, Plan, Traffic};

/// Something that users can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// This build or this kernel has nothing to begin with.
    Everything,
    /// The process may load no programs.
    Privilege,
    /// The kernel has no netfilter links.
    Netfilter,
    /// The kernel lacks a tracepoint.
    Tracepoint {
        /// Its name.
        name: &'static str,
        /// The first Linux that has it.
        since: &'static str,
    },
    /// The kernel allows no programs on functions, or never calls them.
    Functions,
    /// The process has another clock than the kernel.
    Clock,
}

/// Tracepoints that are younger than Linux 5.15, and the first Linux with them (their commits are in v6.16-rc1 and v6.3-rc1).
const YOUNG: [(&str, &str); 2] = [("tcp_sendmsg_locked", "6.16"), ("sk_data_ready", "6.3")];

/// The most gates that are listed by name.
const LISTED: usize = 8;

/// Effect of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The change.
    pub change: Change,
    /// Gates that it would take, at least, of those that are not taken.
    pub more: Vec<Gate>,
    /// Gates that it would take with a better hook.
    pub finer: Vec<Gate>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str(
                "run as root (or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN) a build with the feature bpf, on a kernel with \
                 CONFIG_DEBUG_INFO_BTF",
            ),
            Self::Privilege => {
                f.write_str("run as root, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN")
            }
            Self::Netfilter => f.write_str("Linux 6.4 or later, which has netfilter links"),
            Self::Tracepoint { name, since } => {
                write!(f, "Linux {since} or later, which has the tracepoint {name}")
            }
            Self::Functions => f.write_str(
                "a kernel that lets programs onto functions (fentry: CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS, and \
                 kernel.ftrace_enabled=1)",
            ),
            Self::Clock => f.write_str("run outside of a time namespace"),
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |gates: &[Gate]| {
            let names: Vec<&str> = gates.iter().map(|gate| gate.name()).collect();
            names.join(", ")
        };
        match self.more.as_slice() {
            [] => write!(
                f,
                "{}: a better hook for {}",
                self.change,
                list(&self.finer)
            ),
            [one] => write!(f, "{}: 1 more boundary ({})", self.change, one.name()),
            more => {
                let bound = if self.change == Change::Privilege {
                    "at least "
                } else {
                    ""
                };
                write!(f, "{}: {bound}{} more boundaries", self.change, more.len())?;
                // Nearly all need no list.
                if more.len() <= LISTED {
                    write!(f, " ({})", list(more))?;
                }
                Ok(())
            }
        }
    }
}

/// Changes that would make the plan of these features better, each change alone. Nothing when none would.
pub fn advice(kernel_features: &KernelFeatures, traffic: Traffic) -> Vec<Advice> {
    let now = Plan::choose(kernel_features, traffic);
    changes(kernel_features)
        .into_iter()
        .filter_map(|(change, upgraded)| {
            let upgraded = Plan::choose(&upgraded, traffic);
            let mut advice = Advice {
                change,
                more: Vec::new(),
                finer: Vec::new(),
            };
            for (before, after) in now.boundaries().iter().zip(upgraded.boundaries()) {
                match (before.hook, after.hook) {
                    (None, Some(_)) => advice.more.push(after.gate),
                    (Some(old), Some(new)) if rank(new) < rank(old) => {
                        advice.finer.push(after.gate)
                    }
                    (_, _) => {}
                }
            }
            (!advice.more.is_empty() || !advice.finer.is_empty()).then_some(advice)
        })
        .collect()
}

/// The place of a hook among those of its gate, the best first.
fn rank(hook: &Hook) -> Option<usize> {
    Hook::of(hook.gate).position(|other| other == hook)
}

/// Each change that can be thought of, and the features with it.
fn changes(kernel_features: &KernelFeatures) -> Vec<(Change, KernelFeatures)> {
    let with = |change: fn(&mut KernelFeatures)| {
        let mut upgraded = kernel_features.clone();
        change(&mut upgraded);
        upgraded
    };
    if !kernel_features.types.works() {
        let everything = with(|upgraded| {
            upgraded.types = KernelFeature::Works;
            upgraded.tracepoints = KernelFeature::Works;
            upgraded.clock = KernelFeature::Works;
            upgraded.tracepoint_names = tracepoints().map(str::to_owned).collect();
            allow_functions(upgraded);
        });
        return vec![(Change::Everything, everything)];
    }
    if !kernel_features.tracepoints.works() {
        let privilege = with(|upgraded| upgraded.tracepoints = KernelFeature::Works);
        return vec![(Change::Privilege, privilege)];
    }
    let mut changes = Vec::new();
    if !kernel_features.netfilter.works() {
        changes.push((
            Change::Netfilter,
            with(|upgraded| upgraded.netfilter = KernelFeature::Works),
        ));
    }
    for (name, since) in YOUNG {
        if !kernel_features.tracepoint_names.contains(name) {
            let mut upgraded = kernel_features.clone();
            upgraded.tracepoint_names.insert(name.to_owned());
            changes.push((Change::Tracepoint { name, since }, upgraded));
        }
    }
    if !kernel_features.functions.works() {
        changes.push((Change::Functions, with(allow_functions)));
    }
    if !kernel_features.clock.works() {
        changes.push((
            Change::Clock,
            with(|upgraded| upgraded.clock = KernelFeature::Works),
        ));
    }
    changes
}

fn allow_functions(kernel_features: &mut KernelFeatures) {
    kernel_features.functions = KernelFeature::Works;
    kernel_features.unfit_functions.clear();
    let names = HOOKS.iter().flat_map(Hook::functions);
    kernel_features.function_names = names.map(str::to_owned).collect();
}

/// The tracepoints that gates need.
fn tracepoints() -> impl Iterator<Item = &'static str> {
    HOOKS.iter().filter_map(|hook| match hook.need {
        Need::Tracepoint(name) => Some(name),
        Need::Netfilter(_) | Need::Function(_) | Need::OwnCall | Need::OwnSocket => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn refused() -> KernelFeature {
        KernelFeature::Refused("no".to_owned())
    }

    /// Linux 6.18 where programs on functions are forbidden.
    fn new_kernel() -> KernelFeatures {
        KernelFeatures {
            types: KernelFeature::Works,
            tracepoints: KernelFeature::Works,
            netfilter: KernelFeature::Works,
            functions: refused(),
            sockets: KernelFeature::Works,
            clock: KernelFeature::Works,
            tracepoint_names: tracepoints().map(str::to_owned).collect(),
            function_names: BTreeSet::new(),
            unfit_functions: BTreeMap::new(),
        }
    }

    fn lines(kernel_features: &KernelFeatures) -> Vec<String> {
        let all = advice(kernel_features, Traffic::Ours);
        all.iter().map(Advice::to_string).collect()
    }

    #[test]
    fn a_new_kernel_lacks_only_better_hooks() {
        let lines = lines(&new_kernel());
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].ends_with("a better hook for ip.out.begin, demux.begin"),
            "{lines:?}"
        );
    }

    #[test]
    fn where_everything_works_nothing_is_better() {
        let mut kernel_features = new_kernel();
        allow_functions(&mut kernel_features);
        assert_eq!(lines(&kernel_features), [""; 0]);
    }

    #[test]
    fn an_old_kernel_is_told_what_each_version_would_bring() {
        let mut kernel_features = new_kernel();
        kernel_features.netfilter = refused();
        kernel_features
            .tracepoint_names
            .remove("tcp_sendmsg_locked");
        assert_eq!(
            lines(&kernel_features)[..2],
            [
                "Linux 6.4 or later, which has netfilter links: 2 more boundaries (ip.out.begin, demux.begin)",
                "Linux 6.16 or later, which has the tracepoint tcp_sendmsg_locked: 1 more boundary (tcp.out.begin)",
            ]
        );
    }

    #[test]
    fn nobody_is_told_what_root_would_get_at_least() {
        let mut kernel_features = new_kernel();
        kernel_features.tracepoints = refused();
        kernel_features.netfilter = refused();
        assert_eq!(
            lines(&kernel_features),
            [
                "run as root, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN: at least 5 more boundaries (tcp.out.begin, \
                 ip.in.begin, tcp.in.begin, reader.runs, socket.in.begin)"
            ]
        );
    }

    #[test]
    fn young_tracepoints_are_among_those_that_gates_need() {
        for (name, _) in YOUNG {
            assert!(tracepoints().any(|needed| needed == name), "{name}");
        }
    }
}
