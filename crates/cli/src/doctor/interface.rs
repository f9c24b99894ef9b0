//! An interface of the host, looked at, and tried as `stack-packet` and `stack-xdp` would have it.
//!
//! It changes no setting. What is attached for a trial is detached after it, and the interface is compared with what it was before.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tollgate_link::{USUAL_MTU, host};
use tollgate_run::format::{counted, list, whole};
use tollgate_workload::kernel::{driver, features};
use tollgate_workload::links::{Mode, OpenedLinks, open_links_on};

use super::checks::check;
use super::{Check, State, links};
use crate::error::Error;

/// Queues on which `stack-xdp` receives at most.
const MOST_QUEUES: u64 = 256;
/// Time that a driver may take to come back after a trial.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause between two looks at it meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

/// Findings of an interface.
#[derive(Debug, Serialize)]
pub(super) struct Interface {
    /// Its name.
    name: String,
    pub(super) checks: Vec<Check>,
}

/// An interface as `ip -d -j link show` prints it, without what changes by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct IpLink {
    flags: Vec<String>,
    mtu: u64,
    promiscuity: Option<u64>,
    allmulti: Option<u64>,
    num_rx_queues: Option<u64>,
    num_tx_queues: Option<u64>,
    linkinfo: Option<LinkInfo>,
    xdp: Option<Program>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct LinkInfo {
    info_kind: Option<String>,
}

/// XDP programs of an interface: the modes of linux/if_link.h, where 4 stands for several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Program {
    mode: Option<u64>,
    prog: Option<ProgramId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ProgramId {
    id: Option<u64>,
    name: Option<String>,
}

/// Settings of an interface at one time: those that `ip` shows, and its offloads.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Settings {
    shown: Result<IpLink, String>,
    offloads: Result<Vec<(&'static str, bool)>, String>,
}

impl Settings {
    fn of(interface: &str) -> Self {
        let shown = host::output_of_ip(&["-d", "-j", "link", "show", "dev", interface]);
        Self {
            shown: shown
                .map_err(|error| error.to_string())
                .and_then(|json| parsed(&json)),
            offloads: features(interface).map_err(|error| error.to_string()),
        }
    }

    /// Names of what differs.
    fn changed_from(&self, before: &Self) -> Vec<&'static str> {
        let (Ok(is), Ok(was)) = (&self.shown, &before.shown) else {
            return if self == before {
                Vec::new()
            } else {
                vec!["what ip shows"]
            };
        };
        [
            ("state", is.flags != was.flags),
            ("MTU", is.mtu != was.mtu),
            (
                "link addresses",
                (is.promiscuity, is.allmulti) != (was.promiscuity, was.allmulti),
            ),
            ("XDP program", is.xdp != was.xdp),
            ("offloads", self.offloads != before.offloads),
            (
                "queues",
                (is.num_rx_queues, is.num_tx_queues) != (was.num_rx_queues, was.num_tx_queues),
            ),
        ]
        .into_iter()
        .filter_map(|(what, differs)| differs.then_some(what))
        .collect()
    }
}

/// The one interface of what `ip` printed.
fn parsed(json: &[u8]) -> Result<IpLink, String> {
    let all: Vec<IpLink> =
        serde_json::from_slice(json).map_err(|error| format!("what ip printed: {error}"))?;
    all.into_iter()
        .next()
        .ok_or_else(|| "ip printed nothing".to_owned())
}

/// Looks at an interface, and tries its links.
///
/// # Errors
/// An interface that is not there.
pub(super) fn look_at(name: &str) -> Result<Interface, Error> {
    // First, since nothing else is worth saying of one that is not there.
    tollgate_link::mtu_on(name, None)?;
    let before = Settings::of(name);
    let driver = driver(name).map_err(|error| error.to_string());
    let opened = open_links_on(name)?;
    let checks = judge(name, &before, driver, &opened)
        .into_iter()
        .chain([afterwards(name, &before)])
        .collect();
    Ok(Interface {
        name: name.to_owned(),
        checks,
    })
}

/// Judgement of an interface and its links.
fn judge(
    name: &str,
    settings: &Settings,
    driver: Result<String, String>,
    opened: &OpenedLinks,
) -> Vec<Check> {
    let mut checks = vec![device(name, settings, &driver)];
    if let Ok(shown) = &settings.shown {
        checks.extend([
            mtu(name, shown, opened.mtu),
            queues(name, shown),
            program(name, shown),
        ]);
    }
    checks.push(offloads(name, settings));
    checks.push(packet(opened));
    checks.extend(xdp(name, settings, driver.as_deref() == Ok("veth"), opened));
    checks
}

fn device(name: &str, settings: &Settings, driver: &Result<String, String>) -> Check {
    let driver = match driver {
        Ok(driver) => format!("driver {driver}"),
        Err(reason) => format!("no driver that tells ({reason})"),
    };
    match &settings.shown {
        Err(reason) => check(
            "interface",
            State::Improvable,
            format!("{driver}; {reason}"),
        ),
        Ok(shown) if !shown.flags.iter().any(|flag| flag == "UP") => {
            check("interface", State::Missing, format!("{driver}; it is down"))
                .advice(format!("ip link set {name} up"))
        }
        Ok(shown) => {
            let kind = shown
                .linkinfo
                .as_ref()
                .and_then(|info| info.info_kind.as_deref());
            let kind = kind.map_or(String::new(), |kind| format!("; kind {kind}"));
            check(
                "interface",
                State::Good,
                format!("{driver}{kind}; it is up"),
            )
        }
    }
}

fn mtu(name: &str, shown: &IpLink, usual: usize) -> Check {
    let carries = shown.mtu;
    if carries < USUAL_MTU as u64 {
        let found = format!(
            "{} bytes, so our stack has that in place of 1,500",
            whole(carries)
        );
        return check("MTU", State::Improvable, found).advice(format!(
            "ip link set {name} mtu {USUAL_MTU}, where the network carries that"
        ));
    }
    let more = if carries > usual as u64 {
        "; --mtu asks for more than 1,500"
    } else {
        ""
    };
    check(
        "MTU",
        State::Good,
        format!("{} bytes{more}", whole(carries)),
    )
}

fn queues(name: &str, shown: &IpLink) -> Check {
    let (Some(receive), Some(send)) = (shown.num_rx_queues, shown.num_tx_queues) else {
        return check(
            "queues",
            State::Improvable,
            "ip does not tell how many there are",
        );
    };
    let found = format!(
        "{} to receive, {} to send; stack-xdp sends on queue 0 alone",
        whole(receive),
        whole(send)
    );
    if receive > MOST_QUEUES {
        let found = format!("{found} and receives on the first {MOST_QUEUES} at most");
        return check("queues", State::Improvable, found).advice(format!(
            "ethtool -L {name} combined {MOST_QUEUES}, if it uses more"
        ));
    }
    check("queues", State::Good, found)
}

fn program(name: &str, shown: &IpLink) -> Check {
    let Some(program) = &shown.xdp else {
        return check("XDP program", State::Good, "none is attached");
    };
    let mode = match program.mode {
        Some(1) => "in native mode",
        Some(2) => "in generic mode",
        Some(3) => "on the adapter itself",
        _ => "in several modes",
    };
    let id = program.prog.as_ref().and_then(|program| program.id);
    let id = id.map_or(String::new(), |id| format!(", number {id}"));
    let title = program
        .prog
        .as_ref()
        .and_then(|program| program.name.as_deref());
    let title = title.map_or(String::new(), |title| format!(", {title}"));
    check(
        "XDP program",
        State::Missing,
        format!("another one is attached {mode}{id}{title}, and stack-xdp needs its place"),
    )
    .advice(format!(
        "end the program that has attached it, or take it off: ip link set {name} xdp off"
    ))
}

fn offloads(name: &str, settings: &Settings) -> Check {
    let features = match &settings.offloads {
        Ok(features) => features,
        Err(reason) => {
            return check(
                "offloads",
                State::Improvable,
                format!("not known: {reason}"),
            );
        }
    };
    let named = |wanted: bool| -> Vec<String> {
        let names = features.iter().filter(|(_, is_on)| *is_on == wanted);
        names.map(|(name, _)| (*name).to_owned()).collect()
    };
    let (on, off) = (named(true), named(false));
    let found = match (on.is_empty(), off.is_empty()) {
        (true, _) => "all are off".to_owned(),
        (_, true) => format!("{} are on", list(&on)),
        _ => format!("on: {}; off: {}", on.join(", "), off.join(", ")),
    };
    let is_missed = off
        .iter()
        .any(|one| ["tx-checksum", "tso"].contains(&one.as_str()));
    if is_missed {
        let found = format!("{found}; Linux does what stack-packet leaves to the device");
        return check("offloads", State::Improvable, found).advice(format!(
            "ethtool -K {name} tx on tso on, where the driver has them"
        ));
    }
    check("offloads", State::Good, found)
}

fn packet(opened: &OpenedLinks) -> Check {
    match &opened.packet {
        Err(reason) => check("packet", State::Missing, reason.to_string()),
        Ok((buffer, asked)) if buffer < asked => {
            let (found, advice) = links::little_room(*buffer, *asked);
            check("packet", State::Improvable, found).advice(advice)
        }
        Ok(_) => check(
            "packet",
            State::Good,
            "can be opened: stack-packet runs here",
        ),
    }
}

/// The modes of AF_XDP, each with what it is good for here.
fn xdp(name: &str, settings: &Settings, is_veth: bool, opened: &OpenedLinks) -> Vec<Check> {
    let fastest = opened.xdp.iter().find(|(_, outcome)| outcome.is_ok());
    let fastest = fastest.map(|(mode, _)| *mode);
    let modes = opened.xdp.iter().map(|(mode, outcome)| {
        let row = format!("xdp, {mode}");
        match outcome {
            Err(reason) => check(row, State::Missing, reason.to_string()),
            Ok(queues) => {
                let taken = match Some(*mode) == fastest {
                    true => "stack-xdp takes it",
                    false => "stack-xdp takes a faster one",
                };
                let queues = counted(*queues as u64, "queue", "queues");
                check(
                    row,
                    State::Good,
                    format!("can be opened on {queues}; {taken}"),
                )
            }
        }
    });
    let mut checks: Vec<Check> = modes.collect();
    let has_gro = |all: &Vec<(&str, bool)>| all.contains(&("gro", true));
    let place = opened
        .xdp
        .iter()
        .position(|(mode, _)| Some(*mode) == fastest);
    if let Some(taken) = place.and_then(|place| checks.get_mut(place)) {
        let is_generic = fastest == Some(Mode::Generic);
        taken.advice = if is_generic && settings.offloads.as_ref().is_ok_and(has_gro) {
            Some(format!(
                "ethtool -K {name} gro off: behind the driver frames have been put together, and stack-xdp loses those"
            ))
        } else if is_veth {
            Some(
                "add --trust-checksums to stack-xdp: what comes from this host has checksums that are only begun"
                    .to_owned(),
            )
        } else if is_generic {
            Some(links::BETTER_DEVICE.to_owned())
        } else {
            None
        };
        if is_generic {
            taken.state = State::Improvable;
        }
    }
    checks
}

/// Comparison of the interface with what it was before the trials, once its driver has had time to come back.
fn afterwards(name: &str, before: &Settings) -> Check {
    let until = Instant::now() + PATIENCE;
    let changed = loop {
        let changed = Settings::of(name).changed_from(before);
        if changed.is_empty() || Instant::now() >= until {
            break changed;
        }
        std::thread::sleep(PAUSE);
    };
    let names: Vec<String> = changed.iter().map(|&what| what.to_owned()).collect();
    match names.is_empty() {
        true => check(
            "afterwards",
            State::Good,
            "the interface is as it was before the trials",
        ),
        false => check(
            "afterwards",
            State::Improvable,
            format!("not as it was before the trials: {}", list(&names)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One end of a veth pair, in the output of iproute2 6.1.
    const VETH: &str = r#"[{"ifindex":2,"link":"kernel","ifname":"ours","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],
        "mtu":1500,"qdisc":"noqueue","operstate":"UP","promiscuity":0,"allmulti":0,"linkinfo":{"info_kind":"veth"},
        "num_tx_queues":2,"num_rx_queues":2}]"#;

    fn settings(json: &str, offloads: &[(&'static str, bool)]) -> Settings {
        Settings {
            shown: parsed(json.as_bytes()),
            offloads: Ok(offloads.to_vec()),
        }
    }

    fn opened(modes: [Option<usize>; 3]) -> OpenedLinks {
        let refused = || tollgate_link::OpenError::Missing {
            name: "ours".to_owned(),
        };
        OpenedLinks {
            mtu: 1_500,
            packet: Ok((8 << 20, 8 << 20)),
            xdp: std::iter::zip(Mode::ALL, modes)
                .map(|(mode, queues)| (mode, queues.ok_or_else(refused)))
                .collect(),
        }
    }

    fn judged(settings: &Settings, driver: &str, opened: &OpenedLinks) -> String {
        let checks = judge("ours", settings, Ok(driver.to_owned()), opened);
        super::super::rows(&checks, |_, sign| sign.to_owned())
    }

    #[test]
    fn interface_in_order_is_said_row_by_row() {
        let all_on = [("tx-checksum", true), ("tso", true), ("gro", false)];
        let veth = settings(VETH, &all_on);
        insta::assert_snapshot!(judged(&veth, "veth", &opened([None, Some(2), Some(2)])));
    }

    #[test]
    fn obstacles_of_an_interface_have_advice() {
        let poor = VETH
            .replace("\"MULTICAST\",\"UP\"", "\"MULTICAST\"")
            .replace("1500", "1400")
            .replace("\"num_rx_queues\":2", "\"num_rx_queues\":300")
            .replace(
                "\"allmulti\":0",
                r#""allmulti":0,"xdp":{"mode":2,"prog":{"id":7,"name":"guard"}}"#,
            );
        let poor = settings(&poor, &[("tx-checksum", false), ("gro", true)]);
        insta::assert_snapshot!(judged(&poor, "slow", &opened([None, None, Some(1)])));
    }

    #[test]
    fn changes_of_an_interface_are_named() {
        let before = settings(VETH, &[("gro", true)]);
        assert_eq!(before.changed_from(&before), [""; 0]);
        let promiscuous = VETH.replace("\"promiscuity\":0", "\"promiscuity\":1");
        let after = settings(&promiscuous, &[("gro", false)]);
        assert_eq!(after.changed_from(&before), ["link addresses", "offloads"]);
        let unknown = Settings {
            shown: Err("ip is not there".to_owned()),
            ..before.clone()
        };
        assert_eq!(unknown.changed_from(&before), ["what ip shows"]);
        assert_eq!(unknown.changed_from(&unknown), [""; 0]);
        assert!(parsed(b"[]").is_err() && parsed(b"no JSON").is_err());
    }
}
