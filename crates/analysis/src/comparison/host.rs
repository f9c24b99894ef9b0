//! Differences between two machines, as far as their runs describe them.

use serde::Serialize;
use tollgate_run::{Host, Network, Reading, RemoteEnd, Run, Setting};

/// A fact that is not the same on both machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostDifference {
    /// The name of the fact, like `kernel` or `mitigation spectre_v2`.
    pub name: String,
    /// In the first run.
    pub a: String,
    /// In the second.
    pub b: String,
}

/// Facts of two machines: the equal ones and the different ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Compared {
    pub(super) differences: Vec<HostDifference>,
    /// Facts that both descriptions hold.
    pub(super) looked_at: Vec<String>,
    /// Facts that one of them does not hold, or neither.
    pub(super) not_known: Vec<String>,
}

/// Compares the hosts, and those at the remote end, where both runs have one.
pub(super) fn compared(a: &Run, b: &Run) -> Compared {
    let Facts {
        found: mut compared,
    } = of_hosts(&a.host, &b.host);
    let found = &mut compared.differences;
    match (&a.remote, &b.remote) {
        (Some(a), Some(b)) => found.extend(
            of_hosts(&a.host, &b.host)
                .found
                .differences
                .into_iter()
                .map(|one| HostDifference {
                    name: format!("remote end: {}", one.name),
                    ..one
                }),
        ),
        (None, None) => {}
        (a, b) => {
            let text = |remote: &Option<RemoteEnd>| {
                if remote.is_some() {
                    "another host"
                } else {
                    "none"
                }
            };
            found.push(HostDifference {
                name: "remote end".to_owned(),
                a: text(a).to_owned(),
                b: text(b).to_owned(),
            });
        }
    }
    compared
}

/// In the order in which a host is described. Frequencies of the moment are left out: they always differ.
fn of_hosts(a: &Host, b: &Host) -> Facts {
    let mut all = Facts::default();
    all.fact("kernel", &a.kernel, &b.kernel, Clone::clone);
    all.fact("processor", &a.cpu_model, &b.cpu_model, Clone::clone);
    all.fact("cores", &a.cores, &b.cores, u32::to_string);
    all.fact("memory", &a.memory_bytes, &b.memory_bytes, |bytes| {
        format!("{bytes} bytes")
    });
    all.fact("hypervisor", &a.hypervisor, &b.hypervisor, Clone::clone);
    all.fact("governor", &a.governor, &b.governor, Clone::clone);
    let mitigations = |host: &Host| {
        readings(Some(&host.mitigations), |list| {
            list.iter()
                .map(|one| (one.name.clone(), one.state.clone()))
                .collect()
        })
    };
    all.list("mitigation", "mitigations", mitigations(a), mitigations(b));
    let settings = |list: Option<&Reading<Vec<Setting>>>| {
        readings(list, |list| {
            list.iter()
                .map(|one| (one.name.clone(), one.state.clone()))
                .collect()
        })
    };
    let [sysctls, offloads] = [
        [a.sysctls.as_ref(), b.sysctls.as_ref()],
        [a.offloads.as_ref(), b.offloads.as_ref()],
    ]
    .map(|both| both.map(settings));
    let [of_a, of_b] = sysctls;
    all.list("sysctl", "sysctls", of_a, of_b);
    let [of_a, of_b] = offloads;
    all.list("offload", "offloads", of_a, of_b);
    let networks = [a.network.as_ref(), b.network.as_ref()];
    let [of_a, of_b] = networks.map(|network| settings(network.map(|one| &one.qdiscs)));
    all.list("qdisc of", "qdiscs", of_a, of_b);
    let counts: [(&str, OfNetwork); 4] = [
        ("netfilter rules", |one| &one.netfilter_rules),
        ("XDP programs", |one| &one.xdp_programs),
        ("tc programs", |one| &one.tc_programs),
        ("cgroup programs", |one| &one.cgroup_programs),
    ];
    for (name, of) in counts {
        let [of_a, of_b] = networks.map(|network| {
            readings(network.map(of), |count| {
                vec![(String::new(), count.to_string())]
            })
        });
        all.list(name, name, of_a, of_b);
    }
    all
}

/// A count of a network's description.
type OfNetwork = fn(&Network) -> &Reading<u64>;

/// The named facts of a list; or why there are none.
type Named = Result<Vec<(String, String)>, String>;

fn readings<T>(reading: Option<&Reading<T>>, named: impl Fn(&T) -> Vec<(String, String)>) -> Named {
    match reading {
        Some(Reading::Value { value }) => Ok(named(value)),
        Some(Reading::NotAvailable { reason }) => Err(format!("not available: {reason}")),
        None => Err("not recorded by the tollgate that made this run".to_owned()),
    }
}

#[derive(Default)]
struct Facts {
    found: Compared,
}

impl Facts {
    fn add(&mut self, name: String, a: String, b: String) {
        if a != b {
            self.found.differences.push(HostDifference { name, a, b });
        }
    }

    fn compare_field(&mut self, name: &str, is_known: bool) {
        let list = if is_known {
            &mut self.found.looked_at
        } else {
            &mut self.found.not_known
        };
        list.push(name.to_owned());
    }

    fn fact<T>(&mut self, name: &str, a: &Reading<T>, b: &Reading<T>, text: impl Fn(&T) -> String) {
        self.compare_field(name, a.value().and(b.value()).is_some());
        let text = |reading: &Reading<T>| match reading {
            Reading::Value { value } => text(value),
            Reading::NotAvailable { reason } => format!("not available: {reason}"),
        };
        self.add(name.to_owned(), text(a), text(b));
    }

    fn list(&mut self, what: &str, all: &str, a: Named, b: Named) {
        self.compare_field(all, a.is_ok() && b.is_ok());
        let named = |name: &str| format!("{what} {name}").trim_end().to_owned();
        match (a, b) {
            (Ok(a), Ok(b)) => {
                let state = |list: &[(String, String)], name: &str| {
                    list.iter()
                        .find(|(one, _)| one == name)
                        .map_or_else(|| "not there".to_owned(), |(_, state)| state.clone())
                };
                for (name, was) in &a {
                    self.add(named(name), was.clone(), state(&b, name));
                }
                for (name, is) in b
                    .iter()
                    .filter(|(name, _)| a.iter().all(|(one, _)| one != name))
                {
                    self.add(named(name), "not there".to_owned(), is.clone());
                }
            }
            (a, b) => {
                let text = |named: Named| named.map_or_else(|reason| reason, |_| "read".to_owned());
                self.add(all.to_owned(), text(a), text(b));
            }
        }
    }
}
