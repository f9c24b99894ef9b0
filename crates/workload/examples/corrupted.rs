//! Corrupted frames for Tollgate's stack with checksums on: the application part of `wolman-errors`, for as many frames as one likes.
//!
//! `cargo run --release -p tollgate-workload --example corrupted -- [FRAMES]`; ten million unless told otherwise. `make corrupted` and
//! `make soak` run it. The seeds are fixed, so the same number of frames gives the same counts. Ends with 1 where an application read
//! wrong bytes from a frame whose checksum fails.

use std::process::ExitCode;

use tollgate_workload::errors::{self, Handed, IN_MEMORY};

/// Frames that are corrupted unless told otherwise.
const FRAMES: u64 = 10_000_000;
/// Parts of the frames of a kind, each with a seed of its own.
const PARTS: u64 = 8;

fn main() -> ExitCode {
    let given = std::env::args().nth(1);
    let frames = match given.as_deref().map_or(Ok(FRAMES), str::parse) {
        Ok(frames) if frames > 0 => frames,
        _ => {
            eprintln!("usage: corrupted [FRAMES]");
            return ExitCode::from(2);
        }
    };
    match run(frames) {
        Ok(all) if all.wrong_seen > 0 => {
            eprintln!(
                "corrupted: an application read wrong bytes {} times from frames whose checksum fails: a defect of the stack",
                all.wrong_seen
            );
            ExitCode::FAILURE
        }
        Ok(all) if all.injected < frames => {
            eprintln!(
                "corrupted: only {} of {frames} frames were corrupted",
                all.injected
            );
            ExitCode::FAILURE
        }
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("corrupted: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Corrupts the frames, prints the counts, and gives their sum.
fn run(frames: u64) -> Result<Handed, tollgate_workload::Error> {
    let row = |name: &str, one: &Handed| {
        println!(
            "{name:<34} {:>10} {:>14} {:>14} {:>22} {:>22}",
            one.injected, one.seen, one.unseen, one.wrong_unseen, one.wrong_seen
        );
    };
    println!(
        "{:<34} {:>10} {:>14} {:>14} {:>22} {:>22}",
        "", "", "checksum", "checksum", "wrong bytes read,", "wrong bytes read,"
    );
    println!(
        "{:<34} {:>10} {:>14} {:>14} {:>22} {:>22}",
        "damage", "frames", "fails", "holds", "checksum holds", "checksum fails"
    );
    let mut all = Handed::default();
    let units = IN_MEMORY.len() as u64 * PARTS;
    for (at, &damage) in (0..).zip(&IN_MEMORY) {
        let mut sum = Handed::default();
        for part in 0..PARTS {
            let unit = at * PARTS + part;
            // The first ones have one frame more where it does not come out even.
            let count = frames / units + u64::from(unit < frames % units);
            sum = sum.plus(&errors::application(damage, count, unit + 1, || true)?);
        }
        row(damage.name(), &sum);
        all = all.plus(&sum);
    }
    row("all", &all);
    Ok(all)
}
