//! Runs the random tests of the stack: one seed again with its frames printed, or many.
//!
//! ```text
//! random differential --setting widest --versus prediction-off --seeds 100000
//! random differential --setting widest --versus prediction-off --seed 17 --trace
//! random consistency --setting widest --versus default --seeds 1000
//! random liveness --setting shrinking-loss --seeds 1000
//! random everything --seeds 300
//! ```
//!
//! `everything` runs the three with every setting and every value of every mechanism, and prints how each failure is replayed.
//! A differential seed that fails is printed with its first difference, and with `--trace` as the shortest script that
//! still fails.

#[path = "../tests/random/mod.rs"]
mod random;

use random::differential::{self, Versus};
use random::liveness;
use random::script::{self, Script};
use std::process::ExitCode;
use std::time::{Duration, Instant};

struct Arguments {
    test: String,
    setting: Option<String>,
    versus: Versus,
    first: u64,
    seeds: u64,
    trace: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut given = std::env::args().skip(1);
    let mut parsed = Arguments {
        test: given.next().unwrap_or_default(),
        setting: None,
        versus: differential::by_name("prediction-off").ok_or("there is no prediction-off")?,
        first: 0,
        seeds: 1,
        trace: false,
    };
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or(format!("{argument} wants a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text} is not a number"));
        match argument.as_str() {
            "--setting" => parsed.setting = Some(value()?),
            "--versus" => {
                let name = value()?;
                parsed.versus = differential::by_name(&name).ok_or(format!("no switch {name}"))?;
            }
            "--seed" | "--first" => parsed.first = number(value()?)?,
            "--seeds" => parsed.seeds = number(value()?)?,
            "--trace" => parsed.trace = true,
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
    let outcome = arguments().and_then(|arguments| run(&arguments));
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// Runs what is asked for; returns how many runs failed.
fn run(arguments: &Arguments) -> Result<u64, String> {
    let name = arguments.setting.as_deref();
    let begin = Instant::now();
    let failures = match arguments.test.as_str() {
        "differential" => scripts(arguments, |script| {
            differential::compare(script, &arguments.versus).map(|_| ())
        })?,
        "consistency" => scripts(arguments, |script| {
            differential::consistent(script, &arguments.versus).map(|_| ())
        })?,
        "liveness" => {
            let name = name.unwrap_or("shrinking-loss");
            let setting = liveness::setting(name).ok_or(format!("there is no setting {name}"))?;
            live(arguments, &setting)
        }
        "everything" => {
            let (runs, failures) = everything(arguments);
            report(runs, failures, begin);
            return Ok(failures);
        }
        _ => return Err("differential, consistency, liveness or everything?".to_owned()),
    };
    report(arguments.seeds, failures, begin);
    Ok(failures)
}

/// Says how many runs failed since `begin`.
fn report(runs: u64, failures: u64, begin: Instant) {
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{failures} of {runs} runs failed, {:.0} runs per second",
        runs as f64 / seconds
    );
}

/// Runs all tests with all settings and mechanisms; returns how many runs there were, and how many failed.
fn everything(arguments: &Arguments) -> (u64, u64) {
    let (mut runs, mut failures) = (0, 0);
    let mut note = |test: &str, setting: &str, versus: &str, seed, failure: Option<String>| {
        runs += 1;
        if let Some(failure) = failure {
            failures += 1;
            let replay = random::replay_command(test, setting, versus, seed);
            println!("{failure}\n    {replay}");
        }
    };
    let all = differential::all();
    for seed in arguments.first..arguments.first + arguments.seeds {
        for setting in &script::SETTINGS {
            let script = differential::script(setting, seed);
            for versus in &all {
                let name = versus.name.as_str();
                let differs = differential::compare(&script, versus).err();
                note("differential", setting.name, name, seed, differs);
                let contradicts = differential::consistent(&script, versus).err();
                note("consistency", setting.name, name, seed, contradicts);
            }
        }
        for setting in &liveness::SETTINGS {
            let failure = match liveness::run(setting, seed, false) {
                Ok(summary) => summary.inconsistency,
                Err(failure) => Some(failure),
            };
            note("liveness", setting.name, "default", seed, failure);
        }
    }
    (runs, failures)
}

/// Runs the scripts of all seeds.
fn scripts(
    arguments: &Arguments,
    run: impl Fn(&Script) -> Result<(), String>,
) -> Result<u64, String> {
    let name = arguments.setting.as_deref().unwrap_or("widest");
    let setting = script::setting(name).ok_or(format!("there is no setting {name}"))?;
    let mut failures = 0;
    for seed in arguments.first..arguments.first + arguments.seeds {
        let script = differential::script(&setting, seed);
        let Err(failure) = run(&script) else { continue };
        failures += 1;
        println!("seed {seed}: {failure}");
        if arguments.trace {
            let class = class_of(&failure);
            let least = script
                .minimised(|less| run(less).is_err_and(|failure| class_of(&failure) == class));
            differential::show(&least, &arguments.versus);
            if let Err(failure) = run(&least) {
                println!("{failure}");
            }
        }
    }
    Ok(failures)
}

/// The rule that failures of one kind broke, or nothing.
fn class_of(failure: &str) -> Option<&str> {
    let rule = failure.strip_prefix("inconsistent: ")?;
    Some(rule.split_once(',')?.0)
}

/// Runs the liveness test with all seeds.
fn live(arguments: &Arguments, setting: &liveness::Setting) -> u64 {
    let mut failures = 0;
    let mut slowest = Duration::ZERO;
    let mut contradictions = 0;
    for seed in arguments.first..arguments.first + arguments.seeds {
        match liveness::run(setting, seed, arguments.trace) {
            Ok(summary) => {
                slowest = slowest.max(summary.took);
                if let Some(found) = summary.inconsistency {
                    contradictions += 1;
                    println!("seed {seed}: {found}");
                }
            }
            Err(failure) => {
                failures += 1;
                println!("seed {seed}: {failure}");
            }
        }
    }
    println!(
        "{contradictions} runs with a contradiction, at most {slowest:.1?} after the peer became good"
    );
    failures
}
