//! Random tests of one stack: what the differential and the liveness test share with each other, with the fuzz targets and
//! with the example that replays a seed.
//!
//! Everything in a run follows from its numbers: a seed, or a fuzzer's bytes.
#![allow(dead_code, reason = "each user needs a part")]

#[path = "../sim/complete.rs"]
mod complete;
#[path = "../sim/craft.rs"]
mod craft;
pub mod differential;
mod ipv6;
pub mod liveness;
mod marks;
pub mod numbers;
mod peer;
pub mod play;
mod ranges;
pub mod script;
#[path = "../sim/random.rs"]
mod splitmix;
#[path = "../sim/trace.rs"]
mod trace;
mod wire;

/// Number of runs of a test: `TOLLGATE_RANDOM_RUNS`, or `runs`.
pub fn runs(runs: u64) -> u64 {
    match std::env::var("TOLLGATE_RANDOM_RUNS") {
        Ok(text) => text.parse().expect("TOLLGATE_RANDOM_RUNS is a number"),
        Err(_) => runs,
    }
}

/// Failures that are told in full.
const TOLD: usize = 3;

/// Runs each seed of a setting and fails with those that do, each with the command that replays it.
pub fn hold(
    setting: &str,
    seeds: impl Iterator<Item = u64>,
    run: impl Fn(u64) -> Result<(), String>,
    replay: impl Fn(u64) -> String,
) {
    let mut runs = 0;
    let mut failures = Vec::new();
    for seed in seeds {
        runs += 1;
        if let Err(failure) = run(seed) {
            failures.push(format!(
                "seed {seed}: {failure}\n  replay: {}",
                replay(seed)
            ));
        }
    }
    let count = failures.len();
    failures.truncate(TOLD);
    assert!(
        count == 0,
        "{count} of {runs} runs of {setting} failed:\n{}",
        failures.join("\n")
    );
}

/// The command that runs one seed again, with its frames printed.
pub fn replay_command(test: &str, setting: &str, versus: &str, seed: u64) -> String {
    format!(
        "cargo run --release -p tollgate-stack --example random -- {test} --setting {setting} --versus {versus} --seed {seed} --trace"
    )
}
