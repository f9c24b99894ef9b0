//! Runs simulations of the stack: one seed again with its segments printed, or many for a soak.
//!
//! ```text
//! simulate --list
//! simulate --scenario loss-5 --seed 17 --trace
//! simulate --seeds 1000                          every scenario
//! simulate --scenario everything --seeds 100000
//! ```

#[path = "../tests/sim/mod.rs"]
mod sim;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

struct Arguments {
    scenario: Option<String>,
    first: u64,
    seeds: u64,
    trace: bool,
    list: bool,
    keep_going: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments {
        scenario: None,
        first: 0,
        seeds: 1,
        trace: false,
        list: false,
        keep_going: false,
    };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or(format!("{argument} wants a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text} is not a number"));
        match argument.as_str() {
            "--scenario" => parsed.scenario = Some(value()?),
            "--seed" => parsed.first = number(value()?)?,
            "--seeds" => parsed.seeds = number(value()?)?,
            "--trace" => parsed.trace = true,
            "--list" => parsed.list = true,
            "--keep-going" => parsed.keep_going = true,
            other => {
                return Err(format!(
                    "{other} is not an argument; see the head of this example"
                ));
            }
        }
    }
    Ok(parsed)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let scenarios = match &arguments.scenario {
        None => sim::scenario::all(),
        Some(name) => match sim::scenario::by_name(name) {
            Some(scenario) => vec![scenario],
            None => {
                eprintln!("there is no scenario {name}; --list names them");
                return ExitCode::from(2);
            }
        },
    };
    if arguments.list {
        for scenario in scenarios {
            println!("{}", scenario.name);
        }
        return ExitCode::SUCCESS;
    }
    let mut failures = 0u64;
    for scenario in scenarios {
        failures += soak(&scenario, &arguments);
    }
    if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs the seeds of one scenario; returns how many failed.
fn soak(scenario: &sim::Scenario, arguments: &Arguments) -> u64 {
    let mut failures = 0;
    let mut bytes = 0;
    let mut frames = 0;
    let mut hurt = 0;
    let mut retransmits = 0;
    let mut predicted = 0;
    let mut idle = 0;
    let mut took = std::time::Duration::ZERO;
    for seed in arguments.first..arguments.first + arguments.seeds {
        let _replay = sim::Replay::new(&scenario.name, seed);
        let run = || sim::run(scenario, seed, arguments.trace);
        let outcome = match arguments.keep_going {
            // A panic was printed when it happened.
            true => {
                catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("a panic".to_owned()))
            }
            false => run(),
        };
        match outcome {
            Ok(summary) => {
                bytes += summary.bytes;
                frames += summary.frames;
                hurt += summary.hurt;
                retransmits += summary.retransmits;
                predicted += summary.predicted;
                idle += summary.idle_steps;
                took = took.max(summary.took);
            }
            Err(failure) => {
                failures += 1;
                println!("{} failed with seed {seed}: {failure}", scenario.name);
                println!("replay: {}", sim::replay_command(&scenario.name, seed));
                if !arguments.keep_going {
                    break;
                }
            }
        }
    }
    println!(
        "{}: {failures} failures; {bytes} bytes in {frames} frames, {hurt} hurt, {retransmits} sent again, {predicted} predicted, \
         {idle} idle steps, at most {took:.1?}",
        scenario.name
    );
    failures
}
