//! Obstacles of packets on this machine: netfilter rules, queueing disciplines and attached BPF programs.
//!
//! Each fact comes from the tool that administrators use for it. A tool that is missing or refuses says why, and nothing is guessed in
//! its place. This module never changes a setting.

use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Reading, Setting};

/// Work of the kernel on packets beside its protocols.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Rules of netfilter, by nft or else by iptables-save.
    pub netfilter_rules: Reading<u64>,
    /// The root queueing disciplines of each device, by tc; several of one device are joined by commas.
    pub qdiscs: Reading<Vec<Setting>>,
    /// Devices with an XDP program, by ip.
    pub xdp_programs: Reading<u64>,
    /// BPF filters at the ingress and egress of all devices, by tc.
    pub tc_programs: Reading<u64>,
    /// BPF programs attached to control groups, by bpftool.
    pub cgroup_programs: Reading<u64>,
}

impl Network {
    /// Reads the description of this machine.
    #[must_use]
    pub fn read() -> Self {
        Self::read_by(&output)
    }

    /// Reads the description with a tool runner, which gives what a command line prints.
    fn read_by(run: &dyn Fn(&[&str]) -> Result<String, String>) -> Self {
        let json = |command: &[&str]| parse(command, &run(command)?);
        let links = json(&["ip", "-j", "link", "show"]);
        Self {
            netfilter_rules: netfilter_rules(run).into(),
            qdiscs: json(&["tc", "-j", "qdisc", "show"])
                .map(|all| qdiscs(&all))
                .into(),
            xdp_programs: links
                .clone()
                .map(|all| count(&all, |link| link.get("xdp").is_some()))
                .into(),
            tc_programs: links.and_then(|all| tc_programs(&all, &json)).into(),
            cgroup_programs: json(&["bpftool", "-j", "cgroup", "tree"])
                .map(|all| {
                    let programs = |group: &Value| group["programs"].as_array().map_or(0, Vec::len);
                    items(&all).map(|group| programs(group) as u64).sum()
                })
                .into(),
        }
    }
}

/// Output of a command, or the reason why it prints nothing of use.
fn output(command: &[&str]) -> Result<String, String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("there is no command to run".to_owned());
    };
    let done = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&done.stderr);
    let why = errors.lines().next().unwrap_or("no reason given").trim();
    Err(format!("{program} failed: {why}"))
}

fn parse(command: &[&str], text: &str) -> Result<Value, String> {
    // These tools print nothing at all where there is nothing to list.
    if text.trim().is_empty() {
        return Ok(Value::Array(Vec::new()));
    }
    serde_json::from_str(text)
        .map_err(|error| format!("{} printed no JSON: {error}", command.join(" ")))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn count(list: &Value, is: impl Fn(&Value) -> bool) -> u64 {
    items(list).filter(|one| is(one)).count() as u64
}

/// Counts rules by nft, which also lists those that iptables-nft made; where it is missing by iptables-save.
fn netfilter_rules(run: &dyn Fn(&[&str]) -> Result<String, String>) -> Result<u64, String> {
    let nft = ["nft", "-j", "list", "ruleset"];
    let by_nft = run(&nft).and_then(|text| parse(&nft, &text));
    match by_nft {
        Ok(all) => Ok(count(&all["nftables"], |one| one.get("rule").is_some())),
        Err(why) => match run(&["iptables-save"]) {
            Ok(text) => Ok(text.lines().filter(|line| line.starts_with("-A ")).count() as u64),
            Err(neither) => Err(format!("{why}; {neither}")),
        },
    }
}

fn qdiscs(all: &Value) -> Vec<Setting> {
    let mut found: Vec<Setting> = Vec::new();
    for one in items(all) {
        let (Some(device), Some(kind)) = (one["dev"].as_str(), one["kind"].as_str()) else {
            continue;
        };
        match found.iter_mut().find(|setting| setting.name == device) {
            Some(setting) => setting.state = format!("{}, {kind}", setting.state),
            None => found.push(Setting {
                name: device.to_owned(),
                state: kind.to_owned(),
            }),
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn tc_programs(
    links: &Value,
    json: &dyn Fn(&[&str]) -> Result<Value, String>,
) -> Result<u64, String> {
    let mut sum = 0;
    for device in items(links).filter_map(|link| link["ifname"].as_str()) {
        for side in ["ingress", "egress"] {
            let filters = json(&["tc", "-j", "filter", "show", "dev", device, side])?;
            // A filter is listed once for its chain and once with its options.
            sum += count(&filters, |one| {
                one["kind"] == "bpf" && one["options"].is_object()
            });
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output_of(command: &[&str]) -> Result<String, String> {
        let text = match command {
            ["nft", ..] => {
                r#"{"nftables": [{"metainfo": {}}, {"table": {}}, {"chain": {}}, {"rule": {}}, {"rule": {}}]}"#
            }
            ["tc", "-j", "qdisc", ..] => {
                r#"[{"kind": "mq", "dev": "eth0"}, {"kind": "fq", "dev": "eth0"}, {"kind": "noqueue", "dev": "br0"}]"#
            }
            ["ip", ..] => r#"[{"ifname": "br0"}, {"ifname": "eth0", "xdp": {"mode": 1}}]"#,
            ["tc", _, "filter", "show", "dev", "eth0", "egress"] => {
                r#"[{"kind": "bpf"}, {"kind": "bpf", "options": {"handle": "0x1"}}, {"kind": "u32", "options": {}}]"#
            }
            ["tc", ..] => "",
            ["bpftool", ..] => {
                r#"[{"cgroup": "/a", "programs": [{"id": 1}, {"id": 2}]}, {"cgroup": "/b", "programs": [{"id": 3}]}]"#
            }
            _ => return Err("not asked for".to_owned()),
        };
        Ok(text.to_owned())
    }

    #[test]
    fn network_facts_are_read_from_their_tools() {
        let network = Network::read_by(&output_of);
        assert_eq!(network.netfilter_rules.value(), Some(&2));
        let qdiscs: Vec<String> = network
            .qdiscs
            .value()
            .unwrap()
            .iter()
            .map(|one| format!("{} {}", one.name, one.state))
            .collect();
        assert_eq!(qdiscs, ["br0 noqueue", "eth0 mq, fq"]);
        assert_eq!(network.xdp_programs.value(), Some(&1));
        assert_eq!(network.tc_programs.value(), Some(&1));
        assert_eq!(network.cgroup_programs.value(), Some(&3));
    }

    #[test]
    fn netfilter_rules_are_counted_by_iptables_where_nft_is_missing() {
        let run = |command: &[&str]| match command {
            ["iptables-save"] => {
                Ok("*filter\n-A INPUT -j DROP\n-A OUTPUT -j LOG\nCOMMIT\n".to_owned())
            }
            _ => Err(format!("{} cannot be run", command[0])),
        };
        let network = Network::read_by(&run);
        assert_eq!(network.netfilter_rules.value(), Some(&2));
        assert!(
            matches!(&network.qdiscs, Reading::NotAvailable { reason } if reason == "tc cannot be run")
        );
        assert!(
            matches!(&network.tc_programs, Reading::NotAvailable { reason } if reason == "ip cannot be run")
        );
    }

    #[test]
    fn network_facts_without_tools_say_why() {
        let network = Network::read_by(&|command: &[&str]| Err(format!("{} is gone", command[0])));
        assert!(
            matches!(&network.netfilter_rules, Reading::NotAvailable { reason } if reason == "nft is gone; iptables-save is gone")
        );
        let garbage = Network::read_by(&|_: &[&str]| Ok("no JSON".to_owned()));
        assert!(
            matches!(&garbage.cgroup_programs, Reading::NotAvailable { reason } if reason.starts_with("bpftool -j cgroup tree printed no JSON"))
        );
    }

    #[test]
    fn a_tool_that_is_missing_or_fails_says_so() {
        assert!(
            output(&["tollgate-no-such-tool"])
                .unwrap_err()
                .contains("cannot be run")
        );
        assert!(output(&["false"]).unwrap_err().starts_with("false failed"));
        assert_eq!(output(&["true"]).unwrap(), "");
    }
}
