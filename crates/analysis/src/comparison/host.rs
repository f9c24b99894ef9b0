//! In what two machines differ, as far as their runs describe them.

use serde::Serialize;
use tollgate_run::{FarEnd, Host, Reading, Run, Setting};

/// A fact that is not the same on both machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostDifference {
    /// What it is, like `kernel` or `mitigation spectre_v2`.
    pub name: String,
    /// In the first run.
    pub a: String,
    /// In the second.
    pub b: String,
}

/// Facts that differ, of the hosts and of those at the far end, where both runs have one.
pub(super) fn differences(a: &Run, b: &Run) -> Vec<HostDifference> {
    let mut found = of_hosts(&a.host, &b.host);
    match (&a.far, &b.far) {
        (Some(a), Some(b)) => {
            found.extend(
                of_hosts(&a.host, &b.host)
                    .into_iter()
                    .map(|one| HostDifference {
                        name: format!("far end: {}", one.name),
                        ..one
                    }),
            )
        }
        (None, None) => {}
        (a, b) => {
            let text = |far: &Option<FarEnd>| {
                if far.is_some() {
                    "another host"
                } else {
                    "none"
                }
            };
            found.push(HostDifference {
                name: "far end".to_owned(),
                a: text(a).to_owned(),
                b: text(b).to_owned(),
            });
        }
    }
    found
}

/// In the order in which a host is described. Frequencies of the moment are left out: they always differ.
fn of_hosts(a: &Host, b: &Host) -> Vec<HostDifference> {
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
    all.list("mitigation", mitigations(a), mitigations(b));
    let settings = |list: &Option<Reading<Vec<Setting>>>| {
        readings(list.as_ref(), |list| {
            list.iter()
                .map(|one| (one.name.clone(), one.state.clone()))
                .collect()
        })
    };
    all.list("sysctl", settings(&a.sysctls), settings(&b.sysctls));
    all.list("offload", settings(&a.offloads), settings(&b.offloads));
    all.found
}

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
    found: Vec<HostDifference>,
}

impl Facts {
    fn add(&mut self, name: String, a: String, b: String) {
        if a != b {
            self.found.push(HostDifference { name, a, b });
        }
    }

    fn fact<T>(&mut self, name: &str, a: &Reading<T>, b: &Reading<T>, text: impl Fn(&T) -> String) {
        let text = |reading: &Reading<T>| match reading {
            Reading::Value { value } => text(value),
            Reading::NotAvailable { reason } => format!("not available: {reason}"),
        };
        self.add(name.to_owned(), text(a), text(b));
    }

    fn list(&mut self, what: &str, a: Named, b: Named) {
        match (a, b) {
            (Ok(a), Ok(b)) => {
                let state = |list: &[(String, String)], name: &str| {
                    list.iter()
                        .find(|(one, _)| one == name)
                        .map_or_else(|| "not there".to_owned(), |(_, state)| state.clone())
                };
                for (name, was) in &a {
                    self.add(format!("{what} {name}"), was.clone(), state(&b, name));
                }
                for (name, is) in b
                    .iter()
                    .filter(|(name, _)| a.iter().all(|(one, _)| one != name))
                {
                    self.add(format!("{what} {name}"), "not there".to_owned(), is.clone());
                }
            }
            (a, b) => {
                let text = |named: Named| named.map_or_else(|reason| reason, |_| "read".to_owned());
                self.add(format!("{what}s"), text(a), text(b));
            }
        }
    }
}
