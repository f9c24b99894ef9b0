//! Prints the round trip of Tollgate's paths beside what each is held against, size by size, in slices that take turns.
//!
//! `cargo run --release -p tollgate-workload --example ratios -- [slices] [memory|shm]`

use std::process::ExitCode;

use tollgate_run::{PathId, Placement, Waiting, Workload};
use tollgate_workload::{Error, Spec, find};

const SIZES: [usize; 8] = [4, 20, 80, 200, 500, 1400, 4000, 8000];
/// Round trips in a slice.
const SLICE: u64 = 500;

/// A path and what it is held against.
const PAIRS: [(&str, PathId, PathId, Placement); 2] = [
    (
        "memory",
        PathId::StackMemory,
        PathId::PeerSmoltcp,
        Placement::OneCore,
    ),
    (
        "shm",
        PathId::StackShm,
        PathId::BareShm,
        Placement::TwoCores,
    ),
];

fn main() -> ExitCode {
    let outcome = tollgate_workload::maybe_run().unwrap_or_else(|| {
        let mut arguments = std::env::args().skip(1);
        let slices = arguments
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or(40);
        let which = arguments.next();
        table(slices, which.as_deref())
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn table(slices: u64, which: Option<&str>) -> Result<(), Error> {
    for (name, ours, other, placement) in PAIRS {
        if which.is_some_and(|which| which != name) {
            continue;
        }
        println!(
            "\nns per round trip, busy polling, {slices} slices of {SLICE}; median, and the 10th percentile"
        );
        println!("{:>6} {:>22} {:>22} {:>14}", "bytes", ours, other, "ratios");
        for size in SIZES {
            let spec = Spec::new(Workload::Rr, size).with_mode(placement, Waiting::BusyPoll);
            let mut sessions = Vec::new();
            for id in [ours, other] {
                let path = find(id).ok_or(Error::Closed {
                    path: id,
                    doing: "looking for the path",
                })?;
                let session = path.open(&spec)?;
                let samples = session.new_samples();
                sessions.push((session, samples));
            }
            for _ in 0..slices {
                for (session, samples) in &mut sessions {
                    session.run(SLICE, samples)?;
                }
            }
            let at = |index: usize, q: f64| {
                let (_, samples) = &sessions[index];
                samples.quantile_ns(q).map_or(f64::NAN, |ns| ns as f64)
            };
            let cell = |index| format!("{:.0} {:.0}", at(index, 0.5), at(index, 0.1));
            let ratio = |q| at(0, q) / at(1, q);
            println!(
                "{size:>6} {:>22} {:>22} {:>14}",
                cell(0),
                cell(1),
                format!("{:.2} {:.2}", ratio(0.5), ratio(0.1))
            );
        }
    }
    Ok(())
}
