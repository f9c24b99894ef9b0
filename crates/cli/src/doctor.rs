//! `tollgate doctor`: what can be measured here, what cannot and why, and what would make it better.

mod checks;
mod gates;
mod interface;
mod links;
mod privileges;
mod self_test;

use std::borrow::Cow;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use tollgate_gate::Clock;
use tollgate_run::{Mode, PathId, Workload, format::counted};
use tollgate_workload::{Error as PathError, Path, Spec, find};

use crate::args::{Doctor, GlobalArgs};
use crate::error::Error;
use crate::output;
use crate::results;
use crate::wrap::wrapped;

/// Round trips that prove that a path works.
const TRIAL: u64 = 64;

/// State of a thing that was checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// Good state.
    Good,
    /// Numbers are right, but could be better.
    Improvable,
    /// Something cannot be measured.
    Missing,
}

impl State {
    const fn sign(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Improvable => "--",
            Self::Missing => "no",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: Cow<'static, str>,
    state: State,
    /// Finding of the check.
    found: String,
    /// Advice for a better state.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// A path in one of its modes.
#[derive(Debug, Serialize)]
struct Tried {
    path: PathId,
    /// None when the path is not there at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    workloads: Vec<String>,
    state: State,
    /// The median of a few 64-byte round trips, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    round_trip_ns: Option<u64>,
    /// The reason why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// All that was looked at.
#[derive(Debug, Serialize)]
struct Findings {
    schema: &'static str,
    version: u32,
    checks: Vec<Check>,
    paths: Vec<Tried>,
    /// The links between our stack and Linux.
    links: Vec<links::Link>,
    /// The hook plan of the kernel's gates.
    gates: gates::Report,
}

/// The schema of what --json writes, and its version.
const SCHEMA: &str = "tollgate.doctor";
const VERSION: u32 = 1;

/// Findings of one interface.
#[derive(Debug, Serialize)]
struct OnInterface {
    schema: &'static str,
    version: u32,
    interface: interface::Interface,
}

/// Looks at one interface, and says what was found.
fn on_interface(name: &str, doctor: &Doctor, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let findings = OnInterface {
        schema: SCHEMA,
        version: VERSION,
        interface: interface::look_at(name)?,
    };
    results::put(
        &doctor.json,
        global,
        || json(&findings),
        || {
            let checks = &findings.interface.checks;
            let text = text_of_interface(name, checks, output::colour(global.color));
            wrapped(&text, output::width())
        },
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Looks, and says what was found.
pub(crate) fn run(doctor: &Doctor, global: &GlobalArgs) -> Result<ExitCode, Error> {
    if doctor.self_test {
        return self_test::run(doctor, global);
    }
    if doctor.links_here {
        links::print_here()?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &doctor.on {
        return on_interface(name, doctor, global);
    }
    let findings = Findings {
        schema: SCHEMA,
        version: VERSION,
        checks: checks::all(&Clock::calibrate()),
        paths: PathId::ALL
            .iter()
            // What it can do is the other host's to say.
            .filter(|&&path| path != PathId::KernelRemote)
            .flat_map(|&path| try_path(path))
            .collect(),
        links: links::all(),
        gates: gates::Report::of(
            &tollgate_kernel::kernel_features(),
            &tollgate_kernel::hook_support(),
        ),
    };
    results::put(
        &doctor.json,
        global,
        || json(&findings),
        || {
            let text = text(&findings, output::colour(global.color));
            wrapped(&text, output::width())
        },
    )?;
    Ok(ExitCode::SUCCESS)
}

fn json(findings: &impl Serialize) -> Result<String, Error> {
    Ok(serde_json::to_string_pretty(findings)? + "\n")
}

/// Every mode of a path, tried.
fn try_path(id: PathId) -> Vec<Tried> {
    let Some(path) = find(id) else {
        return vec![Tried {
            path: id,
            mode: None,
            workloads: Vec::new(),
            state: State::Missing,
            round_trip_ns: None,
            reason: Some("this build does not have it".to_owned()),
        }];
    };
    let capabilities = path.capabilities();
    capabilities
        .modes
        .iter()
        .map(|mode| {
            let outcome = try_mode(path, *mode);
            Tried {
                path: id,
                mode: Some(mode.to_string()),
                workloads: capabilities
                    .workloads
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
                state: if outcome.is_ok() {
                    State::Good
                } else {
                    State::Missing
                },
                round_trip_ns: outcome.as_ref().ok().copied(),
                reason: outcome.err().map(|error| error.to_string()),
            }
        })
        .collect()
}

/// The median of a few round trips whose bytes are compared.
fn try_mode(path: &dyn Path, mode: Mode) -> Result<u64, PathError> {
    let spec = Spec::new(Workload::Rr, 64)
        .with_mode(mode.placement, mode.waiting)
        .verified();
    let mut session = path.open(&spec)?;
    let mut samples = session.new_samples();
    session.run(TRIAL, &mut samples)?;
    Ok(samples.quantile_ns(0.5).unwrap_or(0))
}

/// The painter of signs by their state.
fn paint_with(colour: bool) -> impl Fn(State, &str) -> String + Copy {
    move |state, text| match (colour, state) {
        (false, _) => text.to_owned(),
        (true, State::Good) => format!("\x1b[32m{text}\x1b[0m"),
        (true, State::Improvable) => format!("\x1b[33m{text}\x1b[0m"),
        (true, State::Missing) => format!("\x1b[1;31m{text}\x1b[0m"),
    }
}

fn text(findings: &Findings, colour: bool) -> String {
    let paint = paint_with(colour);
    let mut out = String::from("This machine\n");
    out.push_str(&rows(&findings.checks, paint));
    out.push_str("\nPaths, each tried with a few verified round trips of 64 bytes\n");
    let width = findings
        .paths
        .iter()
        .map(|tried| name(tried).len())
        .max()
        .unwrap_or(0);
    for tried in &findings.paths {
        let sign = paint(tried.state, tried.state.sign());
        let found = match (tried.round_trip_ns, &tried.reason) {
            (Some(ns), _) => format!(
                "{:>9.2} us   {}",
                ns as f64 / 1e3,
                tried.workloads.join(", ")
            ),
            (None, Some(reason)) => reason.clone(),
            (None, None) => String::new(),
        };
        out.push_str(&format!("  {sign}  {:width$}  {found}\n", name(tried)));
    }
    out.push_str(&links::text(&findings.links, paint));
    out.push_str(&findings.gates.text(paint));
    let improvable = findings
        .checks
        .iter()
        .filter(|check| check.advice.is_some())
        .count()
        + findings
            .links
            .iter()
            .filter(|link| link.advice.is_some())
            .count()
        + findings.gates.advice.len();
    out.push_str(&closing(improvable));
    out
}

/// One line for each check, with its advice below.
fn rows(checks: &[Check], paint: impl Fn(State, &str) -> String) -> String {
    let mut out = String::new();
    let width = checks.iter().map(|check| check.name.len()).max();
    let width = width.unwrap_or(0);
    for check in checks {
        let sign = paint(check.state, check.state.sign());
        let name = &*check.name;
        out.push_str(&format!("  {sign}  {name:width$}  {}\n", check.found));
        if let Some(advice) = &check.advice {
            out.push_str(&format!("      {:width$}  -> {advice}\n", ""));
        }
    }
    out
}

/// The last line: how many things have advice.
fn closing(improvable: usize) -> String {
    match improvable {
        0 => "\nNothing to improve.\n".to_owned(),
        n => format!(
            "\n{} how.\n",
            counted(
                n as u64,
                "thing could be better; the arrow says",
                "things could be better; the arrows say"
            )
        ),
    }
}

/// The text on one interface.
fn text_of_interface(name: &str, checks: &[Check], colour: bool) -> String {
    format!(
        "Interface {name}, its links each opened and closed again\n{}{}",
        rows(checks, paint_with(colour)),
        closing(checks.iter().filter(|check| check.advice.is_some()).count())
    )
}

fn name(tried: &Tried) -> String {
    match &tried.mode {
        Some(mode) => format!("{}, {mode}", tried.path),
        None => tried.path.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_aligned_and_told_with_advice() {
        let findings = Findings {
            schema: "tollgate.doctor",
            version: 1,
            checks: vec![
                Check {
                    name: "clock".into(),
                    state: State::Good,
                    found: "TSC, 2.60 GHz".into(),
                    advice: None,
                },
                Check {
                    name: "valgrind".into(),
                    state: State::Missing,
                    found: "not installed, so instructions are not counted".into(),
                    advice: Some("apt-get install valgrind".into()),
                },
            ],
            paths: vec![
                Tried {
                    path: PathId::PeerSmoltcp,
                    mode: Some("1 core, polling".into()),
                    workloads: vec!["rr".into(), "crr".into()],
                    state: State::Good,
                    round_trip_ns: Some(1_234),
                    reason: None,
                },
                Tried {
                    path: PathId::StackShm,
                    mode: None,
                    workloads: Vec::new(),
                    state: State::Missing,
                    round_trip_ns: None,
                    reason: Some("this build does not have it".into()),
                },
            ],
            links: vec![links::Link {
                name: "packet".into(),
                without_root: true,
                state: State::Improvable,
                found: "works with little room".into(),
                advice: Some("raise it".into()),
            }],
            gates: gates::Report::of(
                &tollgate_kernel::KernelFeatures::none("this build has none"),
                &[],
            ),
        };
        insta::assert_snapshot!(text(&findings, false), @r"
        This machine
          ok  clock     TSC, 2.60 GHz
          no  valgrind  not installed, so instructions are not counted
                        -> apt-get install valgrind

        Paths, each tried with a few verified round trips of 64 bytes
          ok  peer-smoltcp, 1 core, polling       1.23 us   rr, crr
          no  stack-shm                      this build does not have it

        Links between our stack and Linux, each tried here and without root (unshare -rn), with verified round trips
          --  packet, without root  works with little room
                                    -> raise it

        Gates of the kernel, each kind of hook tried
          no  kernel types (BTF)                   this build has none
          no  tracepoints with types               this build has none
          no  netfilter links                      this build has none
          no  function entries (fentry)            this build has none
          no  stamps of sockets (SO_TIMESTAMPING)  this build has none
          no  our clock is the kernel's            this build has none
          No boundary can be taken, so the kernel's rows are left out.
              -> run as root (or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN) a build with the feature bpf, on a kernel with CONFIG_DEBUG_INFO_BTF: 14 more boundaries

        3 things could be better; the arrows say how.
        ");
        assert!(text(&findings, true).contains("\x1b[1;31mno\x1b[0m"));
    }
}
