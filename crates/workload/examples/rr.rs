//! Runs one slice of round trips on a one-core path and prints the median: something to hang a profiler on.
//!
//! `valgrind --tool=callgrind target/release/examples/rr peer-smoltcp 20 2000`, less the same with 1000, counts the
//! instructions of a round trip.

use std::process::ExitCode;

use tollgate_run::{PathId, Placement, Waiting, Workload};
use tollgate_workload::{Error, Spec, find};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, size, iterations] = &arguments[..] else {
        eprintln!("usage: rr PATH SIZE ITERATIONS");
        return ExitCode::from(2);
    };
    let (Ok(size), Ok(iterations)) = (size.parse(), iterations.parse()) else {
        eprintln!("SIZE and ITERATIONS are numbers");
        return ExitCode::from(2);
    };
    match path
        .parse()
        .map_err(Into::into)
        .and_then(|id| run(id, size, iterations))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(id: PathId, size: usize, iterations: u64) -> Result<(), Error> {
    let spec = Spec::new(Workload::Rr, size).with_mode(Placement::OneCore, Waiting::BusyPoll);
    let path = find(id).ok_or(Error::Closed {
        path: id,
        doing: "looking for the path",
    })?;
    let mut session = path.open(&spec)?;
    let mut samples = session.new_samples();
    session.run(iterations, &mut samples)?;
    if let Some(median) = samples.quantile_ns(0.5) {
        println!("{median} ns");
    }
    Ok(())
}
