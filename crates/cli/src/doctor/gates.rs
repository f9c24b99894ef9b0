//! The hook plan of the kernel's gates, as the doctor tells it.

use serde::Serialize;
use tollgate_gate::GateSet;
use tollgate_kernel::{
    HookPoint, HookSupport, KernelFeature, KernelFeatures, Kind, Plan, Traffic, advice,
};

use super::State;

/// A boundary of the kernel's way.
#[derive(Debug, Serialize)]
struct Boundary {
    gate: &'static str,
    state: State,
    /// The hook that takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hook: Option<&'static str>,
    /// Finer hooks that could not be had, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missed: Vec<String>,
}

/// A kind of hook that was tried.
#[derive(Debug, Serialize)]
struct Tried {
    name: &'static str,
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// A kind of hook that no gate is taken with.
#[derive(Debug, Serialize)]
struct Other {
    name: &'static str,
    /// Tells whether the kernel allows it.
    allowed: bool,
    /// The reason why it is not needed, or was refused.
    reason: String,
}

/// The hook plan, and what would make it better.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The kinds of hooks.
    tried: Vec<Tried>,
    boundaries: Vec<Boundary>,
    /// The rows of the ledger that the plan gives, in the order of the way.
    rows: Vec<&'static str>,
    /// The other kinds of hooks, in the order of the way.
    others: Vec<Other>,
    pub(super) advice: Vec<String>,
}

impl Report {
    pub(super) fn of(kernel_features: &KernelFeatures, hook_support: &[HookSupport]) -> Self {
        let plan = Plan::choose(kernel_features, Traffic::Ours);
        let boundaries: Vec<Boundary> = plan
            .boundaries()
            .iter()
            .map(|boundary| Boundary {
                gate: boundary.gate.name(),
                state: match (boundary.hook, boundary.missed.is_empty()) {
                    (None, _) => State::Missing,
                    // Another hook at the same place, dearer or newer.
                    (Some(_), false) => State::Improvable,
                    (Some(_), true) => State::Good,
                },
                hook: boundary.hook.map(|hook| hook.name),
                missed: boundary
                    .missed
                    .iter()
                    .map(|(hook, reason)| {
                        // What was refused altogether has been told.
                        let refused = kernel_features.of(hook.need).reason();
                        let reason = refused.map_or(reason.as_str(), |_| "refused, as above");
                        format!("{}: {reason}", hook.name)
                    })
                    .collect(),
            })
            .collect();
        Self {
            tried: kinds(kernel_features)
                .map(|(name, feature)| Tried {
                    name,
                    state: if feature.works() {
                        State::Good
                    } else {
                        State::Missing
                    },
                    reason: feature.reason().map(str::to_owned),
                })
                .collect(),
            rows: plan
                .table(GateSet::EMPTY)
                .map(|table| table.spans().iter().map(|span| span.name).collect())
                .unwrap_or_default(),
            boundaries,
            others: hook_support
                .iter()
                .map(|hook_support| Other::of(hook_support, &plan))
                .collect(),
            advice: advice(kernel_features, Traffic::Ours)
                .iter()
                .map(ToString::to_string)
                .collect(),
        }
    }

    pub(super) fn text(&self, paint: impl Fn(State, &str) -> String) -> String {
        let mut out = String::from("\nGates of the kernel, each kind of hook tried\n");
        let width = self.tried.iter().map(|tried| tried.name.len()).max();
        let width = width.unwrap_or(0);
        for tried in &self.tried {
            out.push_str(&format!(
                "  {}  {:width$}  {}\n",
                paint(tried.state, tried.state.sign()),
                tried.name,
                tried.reason.as_deref().unwrap_or("works")
            ));
        }
        if self.rows.is_empty() {
            out.push_str("  No boundary can be taken, so the kernel's rows are left out.\n");
        } else {
            out.push_str("\nBoundaries of the kernel, and the hooks that take them\n");
            let width = self.boundaries.iter().map(|one| one.gate.len()).max();
            let width = width.unwrap_or(0);
            for boundary in &self.boundaries {
                let hook = boundary.hook.unwrap_or("none, so its rows are joined");
                let missed = match boundary.missed.as_slice() {
                    [] => String::new(),
                    missed => format!(" ({})", missed.join("; ")),
                };
                out.push_str(&format!(
                    "  {}  {:width$}  {hook}{missed}\n",
                    paint(boundary.state, boundary.state.sign()),
                    boundary.gate
                ));
            }
        }
        for advice in &self.advice {
            out.push_str(&format!("      -> {advice}\n"));
        }
        if !self.others.is_empty() {
            out.push_str("\nOther hooks, each tried\n");
        }
        let width = self.others.iter().map(|other| other.name.len()).max();
        let width = width.unwrap_or(0);
        for other in &self.others {
            let state = if other.allowed {
                State::Good
            } else {
                State::Improvable
            };
            out.push_str(&format!(
                "  {}  {:width$}  {}\n",
                paint(state, state.sign()),
                other.name,
                other.reason
            ));
        }
        out
    }
}

/// The kinds of hooks in the order in which they are told.
fn kinds(kernel_features: &KernelFeatures) -> impl Iterator<Item = (&'static str, &KernelFeature)> {
    [
        ("kernel types (BTF)", &kernel_features.types),
        ("tracepoints with types", &kernel_features.tracepoints),
        ("netfilter links", &kernel_features.netfilter),
        ("function entries (fentry)", &kernel_features.functions),
        (
            "stamps of sockets (SO_TIMESTAMPING)",
            &kernel_features.sockets,
        ),
        ("our clock is the kernel's", &kernel_features.clock),
    ]
    .into_iter()
}

impl Other {
    fn of(hook_support: &HookSupport, plan: &Plan) -> Self {
        let reason = match (&hook_support.support, hook_support.kind.point()) {
            (KernelFeature::Refused(reason), _) => reason.clone(),
            (KernelFeature::Works, HookPoint::Elsewhere(point)) => {
                format!("allowed, not needed: {point}")
            }
            (KernelFeature::Works, HookPoint::At(gate)) => match plan.hook(gate) {
                Some(hook) => format!("allowed, not needed: {} takes {}", hook.name, gate.name()),
                None if hook_support.kind == Kind::Kprobes => format!(
                    "allowed, but no program takes {} with it: it would get registers and no types, and a trap for each segment; what \
                     is advised above takes the same boundaries for less",
                    gate.name()
                ),
                None => format!("allowed, but no program takes {} with it", gate.name()),
            },
        };
        Self {
            name: hook_support.kind.name(),
            allowed: hook_support.support.works(),
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(report: &Report) -> String {
        report.text(|_, sign| sign.to_owned())
    }

    #[test]
    fn a_kernel_without_gates_says_why_and_what_to_do() {
        let report = Report::of(&KernelFeatures::none("not root"), &[]);
        insta::assert_snapshot!(plain(&report), @r"

        Gates of the kernel, each kind of hook tried
          no  kernel types (BTF)                   not root
          no  tracepoints with types               not root
          no  netfilter links                      not root
          no  function entries (fentry)            not root
          no  stamps of sockets (SO_TIMESTAMPING)  not root
          no  our clock is the kernel's            not root
          No boundary can be taken, so the kernel's rows are left out.
              -> run as root (or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN) a build with the feature bpf, on a kernel with CONFIG_DEBUG_INFO_BTF: 14 more boundaries
        ");
    }

    #[test]
    fn a_boundary_that_is_missing_joins_rows_and_is_advised_on() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let kernel_features = KernelFeatures {
            types: KernelFeature::Works,
            tracepoints: KernelFeature::Works,
            netfilter: KernelFeature::Refused("came with Linux 6.4".to_owned()),
            functions: KernelFeature::Refused("EPERM".to_owned()),
            clock: KernelFeature::Refused("in a time namespace".to_owned()),
            sockets: KernelFeature::Works,
            tracepoint_names: names(&["net_dev_queue", "net_dev_start_xmit", "netif_receive_skb"]),
            function_names: names(&[]),
            unfit_functions: std::collections::BTreeMap::new(),
        };
        let hook_support = [
            HookSupport {
                kind: Kind::TcExpress,
                support: KernelFeature::Works,
            },
            HookSupport {
                kind: Kind::Kprobes,
                support: KernelFeature::Refused("this kernel has none".to_owned()),
            },
        ];
        let kprobes = HookSupport {
            kind: Kind::Kprobes,
            support: KernelFeature::Works,
        };
        let told = &Report::of(&kernel_features, &[kprobes]).others[0].reason;
        assert!(
            told.contains("ip.out.begin") && told.contains("advised"),
            "{told}"
        );
        let report = Report::of(&kernel_features, &hook_support);
        assert_eq!(report.rows, ["device.queue", "driver + ip.queue"]);
        let text = plain(&report);
        assert!(
            text.contains("ok  device.queue.in   net_dev_queue"),
            "{text}"
        );
        for part in [
            "netfilter LOCAL_OUT: refused, as above",
            "ok  tcx links  allowed, not needed: net_dev_queue takes device.queue.in",
            "--  kprobes    this kernel has none",
            "-> Linux 6.4 or later, which has netfilter links: 2 more boundaries (ip.out.begin, demux.begin)",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
