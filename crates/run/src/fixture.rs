//! Runs for the tests of what is made of runs.

use super::{Clock, Experiment, Host, Run, Schema, Tool, VERSION};

/// Of a machine that tells nothing of itself, with a clock of 1 GHz.
#[must_use]
pub fn run_of(experiments: Vec<Experiment>) -> Run {
    Run {
        schema: Schema::TollgateRun,
        version: VERSION,
        tool: Tool {
            name: "tollgate".to_owned(),
            version: "0.1.0".to_owned(),
            git: None,
        },
        started: std::time::SystemTime::UNIX_EPOCH.into(),
        elapsed_s: 1.0,
        command: String::new(),
        quick: false,
        host: Host::read_from(std::path::Path::new("no such tree")),
        remote: None,
        clock: Clock {
            source: "tsc".to_owned(),
            hz: 1e9,
            read_cost_ns: 10.0,
            resolution_ns: 1.0,
        },
        controls: Vec::new(),
        experiments,
        warnings: Vec::new(),
    }
}

/// The main parts of a full report that was measured on a virtual machine with two processors, at two sizes.
///
/// # Panics
/// When the file that this crate holds is no run, which a test rules out.
#[must_use]
pub fn report() -> Run {
    serde_json::from_str(include_str!("../fixtures/report.json")).expect("the fixture is a run")
}
