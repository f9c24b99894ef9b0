//! Sentences that compare paths, computed from an interleaved run.
//!
//! A path is represented by the quickest of its modes at that size. A ratio whose interval holds 1 is told as no difference.

use tollgate_workload::PathId;

use crate::interleave::Contender;
use crate::outcome::{Figure, Outcome};
use crate::words;

/// The first size at which anything was measured, and what each of the paths takes there.
pub(crate) fn at_first_size(
    outcome: &Outcome,
    paths: &[PathId],
    figure: Figure,
) -> Option<(usize, String)> {
    (0..outcome.sizes.len())
        .find_map(|at| Some((outcome.sizes[at], at_size(outcome, paths, at, figure)?)))
}

/// What each of the paths takes at one size, those that were measured; when none of them was, what others take.
pub(crate) fn at_size(
    outcome: &Outcome,
    paths: &[PathId],
    at: usize,
    figure: Figure,
) -> Option<String> {
    let tell = |&path: &PathId| {
        let contender = outcome.quickest(path, at, figure)?;
        let value = outcome.value(contender, at, figure)?;
        let phrase = outcome.line_up.contenders[contender].phrase();
        Some(format!("{} over {phrase}", shown(value, figure)))
    };
    [paths, PathId::ALL].into_iter().find_map(|paths| {
        let told: Vec<String> = paths.iter().filter_map(tell).collect();
        (!told.is_empty()).then(|| words::list(&told))
    })
}

fn shown(value: f64, figure: Figure) -> String {
    match figure {
        Figure::Median => words::duration(value),
        Figure::PerByte => format!("{} ns per byte", words::significant(value)),
        Figure::Rate => format!("{} GB/s", words::significant(value / 1e9)),
    }
}

/// How path `a` stands to path `b` at the first and at the last size that both have.
pub(crate) fn over_sizes(
    outcome: &Outcome,
    a: PathId,
    b: PathId,
    figure: Figure,
) -> Option<String> {
    let at = |at: usize| {
        let (ours, theirs) = (
            outcome.quickest(a, at, figure)?,
            outcome.quickest(b, at, figure)?,
        );
        let ratio = outcome.ratio(ours, theirs, at, figure)?;
        let contenders = &outcome.line_up.contenders;
        Some(Standing {
            size: outcome.sizes[at],
            ours: contenders[ours],
            theirs: contenders[theirs],
            ratio: (!ratio.interval.contains(1.0)).then_some(ratio.value),
        })
    };
    let standings: Vec<Standing> = (0..outcome.sizes.len()).filter_map(at).collect();
    let (first, last) = (standings.first()?, standings.last()?);
    let size = words::bytes(first.size);
    let mut text = match first.ratio {
        Some(ratio) => format!(
            "{a} takes {} times as long as {b} at {size}",
            words::factor(ratio)
        ),
        None => format!("{a} and {b} take equally long at {size}, as far as this run tells"),
    };
    if last.size != first.size {
        let size = words::whole(last.size as u64);
        let same = last.ours == first.ours && last.theirs == first.theirs;
        let whom = if same {
            String::new()
        } else {
            format!(" ({} and {})", last.ours.label(), last.theirs.label())
        };
        text.push_str(&match last.ratio {
            Some(ratio) => format!(", {} times at {size}{whom}", words::factor(ratio)),
            None => format!(", equally long at {size}{whom}"),
        });
    }
    Some(text)
}

/// How two paths stand to each other at one size.
struct Standing {
    size: usize,
    ours: Contender,
    theirs: Contender,
    /// None when no difference was shown.
    ratio: Option<f64>,
}

#[cfg(test)]
mod tests {
    use tollgate_stats::{Samples, Timing};
    use tollgate_workload::{Mode, Placement, Waiting, Workload};

    use super::*;
    use crate::interleave::LineUp;

    fn outcome(ours: [u64; 2], theirs: [u64; 2]) -> Outcome {
        let mode = Mode {
            placement: Placement::OneCore,
            waiting: Waiting::BusyPoll,
        };
        let contender = |path| Contender::new(path, mode);
        let line_up = LineUp {
            workload: Workload::Rr,
            contenders: vec![
                contender(PathId::StackMemory),
                contender(PathId::PeerSmoltcp),
            ],
            absent: Vec::new(),
        };
        let mut outcome = Outcome::new(line_up, vec![4, 8_000]);
        for (contender, sizes) in [ours, theirs].into_iter().enumerate() {
            for (at, ns) in sizes.into_iter().enumerate() {
                for place in 0..8 {
                    let mut samples = Samples::new(Timing::Each);
                    samples.record(ns + place % 3, 1);
                    outcome.measurements[contender][at].add_slice((0, place), &samples);
                }
            }
        }
        outcome
    }

    fn sentence(ours: [u64; 2], theirs: [u64; 2]) -> String {
        over_sizes(
            &outcome(ours, theirs),
            PathId::StackMemory,
            PathId::PeerSmoltcp,
            Figure::Median,
        )
        .unwrap()
    }

    #[test]
    fn ratios_become_words() {
        assert_eq!(
            sentence([400, 3_000], [1_000, 1_000]),
            "stack-memory takes 0.40 times as long as peer-smoltcp at 4 bytes, 3.0 times at 8,000"
        );
        assert_eq!(
            sentence([1_000, 400], [1_000, 1_000]),
            "stack-memory and peer-smoltcp take equally long at 4 bytes, as far as this run tells, 0.40 times at 8,000"
        );
    }

    #[test]
    fn the_first_size_tells_what_each_takes() {
        let (size, told) = at_first_size(
            &outcome([400, 0], [12_000, 0]),
            &[
                PathId::KernelLoopback,
                PathId::PeerSmoltcp,
                PathId::StackMemory,
            ],
            Figure::Median,
        )
        .unwrap();
        assert_eq!(size, 4);
        assert_eq!(
            told,
            "12.0 us over peer-smoltcp (1 core, polling) and 401 ns over stack-memory (1 core, polling)"
        );
    }

    #[test]
    fn a_path_that_was_not_run_is_not_compared() {
        let outcome = outcome([1, 1], [1, 1]);
        assert_eq!(
            over_sizes(&outcome, PathId::StackShm, PathId::BareShm, Figure::Median),
            None
        );
    }
}
