//! Values of arguments, and flags, that several commands take: how they are read, and what is said of one that cannot be.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use tollgate_experiment::context::Replayed;
use tollgate_experiment::experiments;
use tollgate_kernel::filter::Filter;
use tollgate_run::{PathId, Placement, Waiting, Workload};
use tollgate_sampling::Categories;
use tollgate_workload::remote::{PORT, Target};
use tollgate_workload::{FaultyLink, LinkKind, MAX_SIZE, Mechanisms, UnknownSetting};

use crate::nearest::unknown;

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Destination of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sink {
    /// Standard output.
    Stdout,
    /// A file.
    File(PathBuf),
}

/// The flag `--json`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Json {
    /// Write JSON to FILE, or to standard output instead of the tables when FILE is `-` or left out.
    #[arg(long = "json", value_name = "FILE", num_args = 0..=1, default_missing_value = "-", value_parser = sink, value_hint = ValueHint::FilePath)]
    pub(crate) to: Option<Sink>,
}

pub(crate) fn path(given: &str) -> Result<PathId, String> {
    let known: Vec<&str> = PathId::ALL.iter().map(|path| path.name()).collect();
    given.parse().map_err(|_| unknown("path", given, &known))
}

/// A mechanism of Tollgate's stack and its value, by name.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    name: String,
    value: String,
}

impl Setting {
    /// The mechanism's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sets the mechanism.
    pub(crate) fn apply(&self, mechanisms: &mut Mechanisms) -> Result<(), UnknownSetting> {
        mechanisms.set(&self.name, &self.value)
    }
}

pub(crate) fn mechanism(given: &str) -> Result<Setting, String> {
    let (name, value) = given
        .split_once('=')
        .ok_or_else(|| format!("`{given}` is no NAME=VALUE, such as prediction=off"))?;
    let setting = Setting {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    match setting.apply(&mut Mechanisms::default()) {
        Ok(()) => Ok(setting),
        Err(reason) => Err(format!("`{given}`: {reason}")),
    }
}

/// The help of `--set`: each mechanism with its values, the default first.
pub(crate) fn mechanisms_help() -> String {
    let mut help = String::from(
        "Switch mechanisms of Tollgate's stack, at both ends. The first value of each is the default:\n",
    );
    for switch in Mechanisms::SWITCHES {
        help.push_str(&format!(
            "\n  {}: {}",
            switch.name,
            switch.values.join(", ")
        ));
    }
    help.push_str("\n\ndocs/stack.md says what each of them does.");
    help
}

pub(crate) fn link(given: &str) -> Result<FaultyLink, String> {
    let known: Vec<_> = LinkKind::ALL.iter().map(|link| link.name()).collect();
    let name = given.split(',').next().unwrap_or_default();
    match known.contains(&name) {
        true => given.parse(),
        false => Err(unknown("link", name, &known)),
    }
}

pub(crate) fn target(given: &str) -> Result<Target, String> {
    given.parse()
}

pub(crate) fn listen(given: &str) -> Result<SocketAddr, String> {
    given
        .parse()
        .or_else(|_| Ok(SocketAddr::new(given.parse()?, PORT)))
        .map_err(|_: std::net::AddrParseError| {
            format!(
                "unknown address `{given}`; give one of this host as ADDR or ADDR:PORT, over IPv6 as [ADDR]:PORT"
            )
        })
}

pub(crate) fn experiment(given: &str) -> Result<&'static str, String> {
    let known: Vec<&'static str> = experiments::all().iter().map(|one| one.name()).collect();
    known
        .iter()
        .copied()
        .find(|name| *name == given)
        .ok_or_else(|| unknown("experiment", given, &known))
}

pub(crate) fn categories(given: &str) -> Result<Box<Categories>, String> {
    let text = std::fs::read_to_string(given).map_err(|error| format!("{given}: {error}"))?;
    let read = Categories::parse(given, &text);
    read.map(Box::new).map_err(|error| error.to_string())
}

/// A capture, replayed into a cache of connections for each host.
#[cfg(feature = "sql")]
pub(crate) fn capture(given: &str) -> Result<Box<Replayed>, String> {
    use tollgate_experiment::context::ReplayedHost;
    use tollgate_trace::tcb_cache::Replay;
    let file = std::fs::File::open(given).map_err(|error| format!("{given}: {error}"))?;
    let replay = Replay::of(file).map_err(|error| format!("{given} {error}"))?;
    let all = replay.caches.all();
    if all.segments == 0 {
        return Err(format!("{given} holds no TCP segment"));
    }
    let hosts = replay.caches.hosts().into_iter();
    Ok(Box::new(Replayed {
        file: given.to_owned(),
        hosts: hosts
            .map(|(address, counts)| ReplayedHost {
                address,
                segments: counts.segments,
                hits: counts.hits,
                connections: counts.connections,
            })
            .collect(),
        all: (all.segments, all.hits),
        damaged_places: replay.damage.places,
    }))
}

#[cfg(not(feature = "sql"))]
pub(crate) fn capture(given: &str) -> Result<Box<Replayed>, String> {
    Err(format!(
        "{given} cannot be read: captures were left out when this command was built; `make traces` builds one that reads them, \
         target/traces/tollgate"
    ))
}

/// A number of bytes; `k` and `M` are powers of 1,024, as iperf3 and netperf have them.
fn bytes(given: &str) -> Option<usize> {
    let (number, scale) = match given.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1 << 10),
        None => match given.strip_suffix('M') {
            Some(number) => (number, 1 << 20),
            None => (given, 1),
        },
    };
    let number = number.parse::<usize>().ok()?;
    number.checked_mul(scale)
}

/// Bytes of a message or a write.
pub(crate) fn size(given: &str) -> Result<usize, String> {
    bytes(given)
        .filter(|size| (1..=MAX_SIZE).contains(size))
        .ok_or_else(|| {
            format!(
                "unknown size `{given}`; a size is a number of bytes from 1 to {MAX_SIZE}, like 200, 4k or 1M"
            )
        })
}

/// Bytes of the largest IP packet of a path: what every module forwards whole (RFC 791, 3.2), and what its length field holds.
pub(crate) fn mtu(given: &str) -> Result<usize, String> {
    const LEAST: usize = 68;
    const MOST: usize = 65_535;
    bytes(given)
        .filter(|mtu| (LEAST..=MOST).contains(mtu))
        .ok_or_else(|| {
            format!(
                "unknown MTU `{given}`; an MTU is a number of bytes from {LEAST} to {MOST}, like 1500 or 9k"
            )
        })
}

/// One size, or all of a paper's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sizes(pub(crate) Vec<usize>);

/// A number of bytes, or the name of a paper's list.
pub(crate) fn sizes(given: &str) -> Result<Sizes, String> {
    if let Some(named) = tollgate_experiment::sizes::named(given) {
        return Ok(Sizes(named));
    }
    let known = tollgate_experiment::sizes::NAMES.map(|(name, told)| format!("{name} ({told})"));
    size(given)
        .map(|size| Sizes(vec![size]))
        .map_err(|error| format!("{error}, or a list: {}", known.join(", ")))
}

pub(crate) fn cores(given: &str) -> Result<Placement, String> {
    match given {
        "1" => Ok(Placement::OneCore),
        "2" => Ok(Placement::TwoCores),
        _ => Err(format!(
            "unknown number of cores `{given}`; known: 1 (both ends on one core), 2 (each on its own)"
        )),
    }
}

pub(crate) fn ablated(given: &str) -> Result<Workload, String> {
    match given {
        "rr" => Ok(Workload::Rr),
        "stream" => Ok(Workload::Stream),
        _ => Err(unknown("workload", given, &["rr", "stream"])),
    }
}

pub(crate) fn wait(given: &str) -> Result<Waiting, String> {
    match given {
        "block" | "blocking" => Ok(Waiting::Blocking),
        "poll" | "busy-poll" => Ok(Waiting::BusyPoll),
        _ => Err(unknown("way of waiting", given, &["block", "poll"])),
    }
}

pub(crate) fn duration(given: &str) -> Result<Duration, String> {
    let at = given
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(given.len());
    let (number, unit) = given.split_at(at);
    let scale = match unit {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        _ => f64::NAN,
    };
    number
        .parse::<f64>()
        .ok()
        .map(|number| number * scale)
        .filter(|seconds| (0.001..=86_400.0).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| {
            format!("unknown time `{given}`; give it as 500ms, 10s or 2min, a day at most")
        })
}

pub(crate) fn short_duration(given: &str) -> Result<Duration, String> {
    match given.strip_suffix("us").map(str::parse::<f64>) {
        Some(Ok(us)) if (0.001..=1e9).contains(&us) => Ok(Duration::from_secs_f64(us / 1e6)),
        Some(_) => Err(format!(
            "unknown time `{given}`; give it as 500us, 1ms or 1s"
        )),
        None => duration(given),
    }
}

pub(crate) fn filter(given: &str) -> Result<Filter, String> {
    Filter::parse(given).map_err(|error| {
        let under = " ".repeat(error.column - 1);
        format!("the filter is not understood at {error}\n  {given}\n  {under}^")
    })
}

pub(crate) fn percent(given: &str) -> Result<f64, String> {
    given
        .parse()
        .ok()
        .filter(|percent| (0.01..=100.0).contains(percent))
        .ok_or_else(|| format!("unknown share `{given}`; give it in percent, from 0.01 to 100"))
}

pub(crate) fn line_rate(given: &str) -> Result<u64, String> {
    amount(given)
        .filter(|rate| (1e6..=1e13).contains(rate))
        .map(|rate| rate as u64)
        .ok_or_else(|| {
            format!("unknown line rate `{given}`; give bits per second as 100M, 1G or 2.5G, from 1M to 10T")
        })
}

/// A number with a prefix for thousands.
pub(crate) fn amount(given: &str) -> Option<f64> {
    let at = given
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(given.len());
    let (number, unit) = given.split_at(at);
    let scale = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        _ => f64::NAN,
    };
    number.parse::<f64>().ok().map(|number| number * scale)
}

pub(crate) fn sink(given: &str) -> Result<Sink, String> {
    if given == "-" {
        return Ok(Sink::Stdout);
    }
    if experiments::find(given).is_some() {
        return Err(format!(
            "--json takes `{given}` for its file; write --json=- or put --json last"
        ));
    }
    Ok(Sink::File(PathBuf::from(given)))
}
