//! `tollgate-bench`: the ratios of times of the performance table, each within this run. What `make bench` runs.
//!
//! A bar that is missed is shown and fails nothing: times depend on the machine. It is a program of its own, so that the
//! program whose instructions are counted holds nothing else.

use std::process::ExitCode;
use tollgate_budget::bench::{self, Effort};

fn main() -> ExitCode {
    // Paths of two processes start this program again for their other end.
    if let Some(outcome) = tollgate_workload::maybe_run() {
        return match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        };
    }
    let mut effort = Effort::FULL;
    let mut json = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--quick" => effort = Effort::QUICK,
            "--json" => json = true,
            _ => {
                eprintln!("tollgate-bench: unknown argument `{argument}`; known: --quick, --json");
                return ExitCode::from(2);
            }
        }
    }
    let lines = bench::run(effort);
    if json {
        match serde_json::to_string_pretty(&lines) {
            Ok(text) => println!("{text}"),
            Err(error) => return fail(&error.to_string()),
        }
    } else {
        print!("{}", bench::table(&lines));
        println!("\n{}", bench::verdict(&lines));
    }
    ExitCode::SUCCESS
}

fn fail(what: &str) -> ExitCode {
    eprintln!("tollgate-bench: {what}");
    ExitCode::FAILURE
}
