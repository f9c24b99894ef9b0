//! `tollgate`: the command. Arguments, progress, output and exit codes; what is measured and how is in the crates below.
//!
//! Exit codes: 0 done, 1 the measurement failed, 2 bad usage, 130 stopped by Ctrl-C.

mod alone;
#[cfg(feature = "sql")]
mod answered;
mod args;
mod compare;
mod derived;
mod doctor;
mod error;
mod estimate;
mod input;
mod interrupt;
mod list;
mod manual;
mod measure;
mod nearest;
mod observe;
mod offered;
mod output;
mod progress;
mod results;
#[cfg(feature = "sql")]
mod runs;
mod save;
mod serve;
mod show;
#[cfg(feature = "sql")]
mod trace;
mod values;
mod wrap;

use std::process::ExitCode;

use args::{Command, ExperimentCommand};
use error::Error;

fn main() -> ExitCode {
    interrupt::leave_to_the_parent();
    if let Some(outcome) = tollgate_workload::maybe_run() {
        return match outcome {
            Ok(()) => ExitCode::SUCCESS,
            // The parent has been told the reason and reports it.
            Err(_) => ExitCode::FAILURE,
        };
    }
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(stop) => return stop.print(),
    };
    let outcome = match &cli.command {
        Command::Report(report) => measure::report(report, &cli.global),
        Command::Rr(workload) => {
            measure::workload("rr-by-size", "rr-coverage", workload, &cli.global)
        }
        Command::Crr(workload) => measure::workload("crr", "crr-coverage", workload, &cli.global),
        Command::Stream(workload) => measure::workload(
            "stream-by-write-size",
            "stream-coverage",
            workload,
            &cli.global,
        ),
        Command::Ablate(args) => measure::ablate(args, &cli.global),
        Command::Experiment(ExperimentCommand::List(list)) => list::list(list, &cli.global),
        Command::Experiment(ExperimentCommand::Run(run)) => measure::experiments(run, &cli.global),
        Command::Serve(serve) => serve::run(serve, &cli.global),
        Command::Observe(observe) => observe::run(observe, &cli.global),
        #[cfg(feature = "sql")]
        Command::Trace(command) => trace::run(command, &cli.global),
        #[cfg(not(feature = "sql"))]
        Command::Trace { rest: _ } => Err(Error::NoTables("trace")),
        #[cfg(feature = "sql")]
        Command::Runs(command) => runs::run(command, &cli.global),
        #[cfg(not(feature = "sql"))]
        Command::Runs { rest: _ } => Err(Error::NoTables("runs")),
        Command::Show(args) => show::run(args, &cli.global),
        Command::Predict(asked) => derived::predict(asked, &cli.global),
        Command::Papers(args) => derived::papers(args, &cli.global),
        Command::Estimate(args) => estimate::run(args, &cli.global),
        Command::Compare(asked) => compare::run(asked, &cli.global),
        Command::Doctor(doctor) => doctor::run(doctor, &cli.global),
        Command::Completions { shell } => manual::completions(*shell),
        Command::Man { into } => manual::pages(into),
        Command::Scenario(scenario) => measure::scenario(scenario),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

/// Says in one line what went wrong.
fn fail(error: &Error) -> ExitCode {
    // A reader that has gone away wants to hear nothing more.
    if !matches!(error, Error::Closed) {
        output::say(&format!("error: {error}"));
    }
    error.exit_code()
}
