//! Prints the median time of each path, workload and size, to try them by hand.
//!
//! `cargo run --release -p tollgate-workload --example paths -- [iterations]`

use std::process::ExitCode;

use tollgate_run::Workload;
use tollgate_stats::Samples;
use tollgate_workload::{Error, Session, Spec, paths};

const SIZES: [usize; 4] = [4, 200, 1400, 8000];
const SLICES: u64 = 8;

fn main() -> ExitCode {
    if let Some(outcome) = tollgate_workload::maybe_run() {
        return match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&error.to_string()),
        };
    }
    let iterations = match std::env::args().nth(1).map(|text| text.parse::<u64>()) {
        None => 4000,
        Some(Ok(iterations)) if iterations >= SLICES => iterations,
        Some(_) => return fail("iterations: a number from 8 on is needed"),
    };
    for &workload in Workload::ALL {
        println!(
            "\n{workload}, median ns per iteration{}",
            rate_note(workload)
        );
        print!("{:<40}", "path");
        for size in SIZES {
            print!("{:>18}", format!("{size} B"));
        }
        println!();
        if let Err(error) = table(workload, iterations) {
            return fail(&error.to_string());
        }
    }
    ExitCode::SUCCESS
}

fn fail(text: &str) -> ExitCode {
    eprintln!("{text}");
    ExitCode::FAILURE
}

fn rate_note(workload: Workload) -> &'static str {
    match workload {
        Workload::Stream => ", and ns per byte of the whole",
        Workload::Rr | Workload::Crr => "",
    }
}

/// A session and what it has measured.
type Cell = (Box<dyn Session>, Samples);

/// All sessions are open at once and take turns, as in an experiment.
fn table(workload: Workload, iterations: u64) -> Result<(), Error> {
    let mut rows: Vec<(String, Vec<Cell>)> = Vec::new();
    for path in paths() {
        for mode in path.capabilities().modes {
            if !path.capabilities().workloads.contains(&workload) {
                continue;
            }
            let mut cells = Vec::new();
            for size in SIZES {
                let spec = Spec::new(workload, size).with_mode(mode.placement, mode.waiting);
                let session = path.open(&spec)?;
                let samples = session.new_samples();
                cells.push((session, samples));
            }
            rows.push((format!("{} {mode}", path.id()), cells));
        }
    }
    for _ in 0..SLICES {
        for (_, cells) in &mut rows {
            for (session, samples) in cells {
                session.run(iterations / SLICES, samples)?;
            }
        }
    }
    for (name, cells) in &rows {
        print!("{name:<40}");
        for (_, samples) in cells {
            let median = samples
                .quantile_ns(0.5)
                .map_or("-".to_owned(), |ns| ns.to_string());
            let text = match workload {
                Workload::Stream => {
                    format!(
                        "{median} {:.3}",
                        samples.elapsed_ns() as f64 / samples.bytes() as f64
                    )
                }
                Workload::Rr | Workload::Crr => median,
            };
            print!("{text:>18}");
        }
        println!();
    }
    Ok(())
}
