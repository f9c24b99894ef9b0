//! Deterministic simulation of two stacks on a faulty cable, in virtual time.
//!
//! Everything that happens in a run follows from a scenario and a seed: faults, sizes, pauses, addresses' secrets, the
//! time at which it begins. A run fails when a byte is lost, doubled, changed or moved, when a connection does not
//! reach its end, when a frame does not come back to the pool, when a wakeup is lost, or when deadlines storm.
//!
//! The runs never read a clock and never use threads.
//!
//! Every scenario runs with any setting of the mechanisms (`matrix`).

mod complete;
mod end;
pub mod matrix;
mod network;
mod police;
mod random;
pub mod scenario;
mod trace;
mod world;

pub use scenario::Scenario;
pub use world::{Summary, run};

/// The command that runs one seed of a scenario again, with its segments printed.
pub fn replay_command(scenario: &Scenario, seed: u64) -> String {
    let settings: String = scenario
        .settings
        .iter()
        .map(|(name, value)| format!(" --set {name}={value}"))
        .collect();
    format!(
        "cargo run -p tollgate-stack --example simulate -- --scenario {}{settings} --seed {seed} --trace",
        scenario.name
    )
}

/// Prints how to run a seed again when the run panics.
pub struct Replay<'a> {
    scenario: &'a Scenario,
    seed: u64,
}

impl<'a> Replay<'a> {
    /// Watches over one run.
    pub const fn new(scenario: &'a Scenario, seed: u64) -> Self {
        Self { scenario, seed }
    }
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay: {}", replay_command(self.scenario, self.seed));
        }
    }
}
