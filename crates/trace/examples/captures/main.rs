//! Foreign captures, read by the trace reader and by tshark, and compared packet by packet.
//!
//! `captures DIRECTORY [LIST]`: every file below the directory that bears the mark of a pcap or pcapng is compared, plain
//! or compressed. A folder of the directory is a project. LIST has the known differences; its default is
//! tests/captures.reasons. The exit code is 0 when each difference is known and each known one is there, 1 otherwise, and 2
//! for a wrong call.

mod align;
mod compare;
mod frame;
mod known;
mod ours;
mod outcome;
mod rules;
mod show;
mod theirs;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use compare::{Comparison, Difference};
use frame::Aspect;
use known::List;
use outcome::Outcome;

const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/captures.reasons");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (directory, list) = match &arguments[..] {
        [directory] => (directory, LIST),
        [directory, list] => (directory, list.as_str()),
        _ => {
            eprintln!("usage: captures DIRECTORY [LIST]");
            return ExitCode::from(2);
        }
    };
    match run(Path::new(directory), Path::new(list)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("captures: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Compares all files; whether everything is explained.
fn run(directory: &Path, list: &Path) -> Result<bool, String> {
    let named = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(list).map_err(|error| named(list, &error))?;
    let known = List::parse(&text).map_err(|wrong| named(list, &wrong))?;
    let version = theirs::version().map_err(|error| format!("tshark cannot be run: {error}"))?;
    let mut files = Vec::new();
    walk(directory, &mut files).map_err(|error| named(directory, &error))?;
    let outcomes = compare_all(directory, &files)?;
    if outcomes.is_empty() {
        return Err(named(directory, &"there is no capture"));
    }
    let summary = outcome::summary(&outcomes, &known);
    print!("{}", show::report(&summary, &version));
    Ok(summary.unexplained.is_empty() && summary.stale.is_empty())
}

/// The files below a folder, in the order of their names.
fn walk(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries: io::Result<Vec<_>> = std::fs::read_dir(directory)?.collect();
    let mut paths: Vec<_> = entries?.iter().map(std::fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            walk(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Compares the files, several at a time, and gives the outcomes in the order of the files. What bears no mark of a capture
/// is left out.
fn compare_all(directory: &Path, files: &[PathBuf]) -> Result<Vec<(String, Outcome)>, String> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let work = || {
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let name = path.strip_prefix(directory).unwrap_or(path);
            let name = name.display().to_string();
            let outcome = compare_one(path).map_err(|error| format!("{name}: {error}"));
            if let Some(outcome) = outcome.transpose()
                && let Ok(mut outcomes) = outcomes.lock()
            {
                outcomes.push((name, outcome));
            }
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    let mut outcomes = outcomes.into_inner().map_err(|error| error.to_string())?;
    outcomes.sort_by(|(one, _), (other, _)| one.cmp(other));
    outcomes
        .into_iter()
        .map(|(name, outcome)| Ok((name, outcome?)))
        .collect()
}

/// Compares one file; nothing when it bears no mark of a capture.
fn compare_one(path: &Path) -> io::Result<Option<Outcome>> {
    let ours = match ours::read(path) {
        Err(ours::Failure::NoCapture) => return Ok(None),
        other => other,
    };
    let theirs = theirs::read(path)?;
    if theirs.frames.is_empty() && theirs.stopped.is_some() {
        return Ok(Some(Outcome::NotComparable));
    }
    Ok(Some(Outcome::Compared(match ours {
        Ok(ours) => compare::compare(&ours, &theirs),
        Err(ours::Failure::NoCapture) => Comparison::default(),
        Err(ours::Failure::Refused(why)) => Comparison {
            frames: theirs.frames.len(),
            differences: vec![Difference {
                frame: 1,
                aspect: Aspect::Refused,
                text: why,
                rule: None,
            }],
        },
    })))
}
