//! Runs simulations of the stack: one seed again with its segments printed, or many for a soak.
//!
//! ```text
//! simulate --list
//! simulate --scenario loss-5 --seed 17 --trace
//! simulate --scenario loss-5 --set prediction=off --seed 17 --trace
//! simulate --seeds 1000                          every scenario
//! simulate --set buffers=mbufs --seeds 1000      every scenario, with that value of the mechanism
//! simulate --matrix --seeds 10                   every scenario with each value of each mechanism
//! simulate --matrix --scenario loss-5            that scenario with each value
//! simulate --matrix --for 600                    seed after seed until 600 seconds have passed
//! ```
//!
//! `--keep-going` goes on behind a failure. A line tells what the seeds of a scenario did, or those of a row of the matrix.

#[path = "../tests/sim/mod.rs"]
mod sim;

use sim::matrix::{self, Settings};
use sim::{Scenario, Summary};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Arguments {
    scenario: Option<String>,
    settings: Vec<String>,
    matrix: bool,
    first: u64,
    seeds: Option<u64>,
    lasts: Option<Duration>,
    trace: bool,
    list: bool,
    keep_going: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments::default();
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or(format!("{argument} wants a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text} is not a number"));
        match argument.as_str() {
            "--scenario" => parsed.scenario = Some(value()?),
            "--set" => parsed.settings.push(value()?),
            "--matrix" => parsed.matrix = true,
            "--seed" => parsed.first = number(value()?)?,
            "--seeds" => parsed.seeds = Some(number(value()?)?),
            "--for" => parsed.lasts = Some(Duration::from_secs(number(value()?)?)),
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
    if parsed.matrix && !parsed.settings.is_empty() {
        return Err("--matrix sets each mechanism by itself; leave --set out".to_owned());
    }
    if parsed.seeds.is_some() && parsed.lasts.is_some() {
        return Err("--seeds or --for, not both".to_owned());
    }
    Ok(parsed)
}

/// Scenarios whose runs one line tells of.
struct Row {
    name: String,
    scenarios: Vec<Scenario>,
}

/// The scenarios that are asked for.
fn rows(arguments: &Arguments) -> Result<Vec<Row>, String> {
    let settings = Settings::parse(arguments.settings.iter().map(String::as_str))?;
    let rows = if arguments.matrix {
        let row = |settings: Settings| Row {
            name: settings.to_string(),
            scenarios: matrix::row(&settings),
        };
        matrix::variants().into_iter().map(row).collect()
    } else {
        let row = |scenario: Scenario| {
            let scenario = scenario.with_settings(settings.clone());
            Row {
                name: scenario.title(),
                scenarios: vec![scenario],
            }
        };
        sim::scenario::all().into_iter().map(row).collect()
    };
    let Some(name) = &arguments.scenario else {
        return Ok(rows);
    };
    let rows: Vec<Row> = rows
        .into_iter()
        .map(|mut row| {
            row.scenarios.retain(|scenario| scenario.name == *name);
            row
        })
        .filter(|row| !row.scenarios.is_empty())
        .collect();
    match rows.is_empty() {
        false => Ok(rows),
        true => Err(format!("there is no scenario {name}; --list names them")),
    }
}

fn main() -> ExitCode {
    let asked = arguments().and_then(|arguments| Ok((rows(&arguments)?, arguments)));
    let (rows, arguments) = match asked {
        Ok(asked) => asked,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    if arguments.list {
        for scenario in rows.iter().flat_map(|row| &row.scenarios) {
            println!("{}", scenario.title());
        }
        return ExitCode::SUCCESS;
    }
    let mut totals: Vec<Totals> = rows.iter().map(|_| Totals::default()).collect();
    let begin = Instant::now();
    match arguments.lasts {
        None => {
            let seeds = arguments.seeds.unwrap_or(1);
            for (row, totals) in rows.iter().zip(&mut totals) {
                totals.run(row, arguments.first, seeds, &arguments);
                totals.print(row);
            }
        }
        Some(lasts) => {
            let mut seed = arguments.first;
            while begin.elapsed() < lasts && (arguments.keep_going || failures(&totals) == 0) {
                for (row, totals) in rows.iter().zip(&mut totals) {
                    totals.run(row, seed, 1, &arguments);
                }
                seed += 1;
            }
            rows.iter()
                .zip(&totals)
                .for_each(|(row, totals)| totals.print(row));
        }
    }
    if arguments.matrix {
        let runs = totals.iter().map(|totals| totals.runs).sum::<u64>();
        let failures = failures(&totals);
        let seconds = begin.elapsed().as_secs_f64();
        println!("{failures} of {runs} runs failed, {seconds:.0} s");
    }
    match failures(&totals) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn failures(totals: &[Totals]) -> u64 {
    totals.iter().map(|totals| totals.failures).sum()
}

/// Sums of the runs of a row.
#[derive(Default)]
struct Totals {
    runs: u64,
    failures: u64,
    bytes: u64,
    frames: u64,
    hurt: u64,
    retransmits: u64,
    predicted: u64,
    idle: u64,
    longest: Duration,
}

impl Totals {
    /// Runs seeds of a row's scenarios.
    fn run(&mut self, row: &Row, first: u64, seeds: u64, arguments: &Arguments) {
        for scenario in &row.scenarios {
            for seed in first..first + seeds {
                if !self.add(scenario, seed, arguments) && !arguments.keep_going {
                    break;
                }
            }
        }
    }

    /// Runs a seed; tells whether it holds.
    fn add(&mut self, scenario: &Scenario, seed: u64, arguments: &Arguments) -> bool {
        let _replay = sim::Replay::new(scenario, seed);
        let run = || sim::run(scenario, seed, arguments.trace);
        let outcome = match arguments.keep_going {
            // A panic was printed when it happened.
            true => {
                catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("a panic".to_owned()))
            }
            false => run(),
        };
        self.runs += 1;
        match outcome {
            Ok(summary) => {
                self.note(&summary);
                true
            }
            Err(failure) => {
                self.failures += 1;
                println!("{} failed with seed {seed}: {failure}", scenario.title());
                println!("replay: {}", sim::replay_command(scenario, seed));
                false
            }
        }
    }

    fn note(&mut self, summary: &Summary) {
        self.bytes += summary.bytes;
        self.frames += summary.frames;
        self.hurt += summary.hurt;
        self.retransmits += summary.retransmits;
        self.predicted += summary.predicted;
        self.idle += summary.idle_steps;
        self.longest = self.longest.max(summary.took);
    }

    fn print(&self, row: &Row) {
        println!(
            "{}: {} failures in {} runs; {} bytes in {} frames, {} hurt, {} sent again, {} predicted, {} idle steps, at most {:.1?}",
            row.name,
            self.failures,
            self.runs,
            self.bytes,
            self.frames,
            self.hurt,
            self.retransmits,
            self.predicted,
            self.idle,
            self.longest
        );
    }
}
