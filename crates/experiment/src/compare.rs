//! Sentences that compare paths, computed from an interleaved run.
//!
//! A path is represented by the quickest of its modes at that size, which a ratio of paths takes from other sessions than it compares
//! ([`Outcome::ratio_of_quickest`]). A ratio whose interval holds 1 is no difference.

use tollgate_run::{PathId, format};
use tollgate_stats::Estimate;

use crate::claim::{Claim, Evidence, Finding, Refusal};
use crate::interleave::Variant;
use crate::outcome::{Figure, Outcome};

/// The first size at which anything was measured, and what each of the paths takes there.
pub(crate) fn at_first_size(
    outcome: &Outcome,
    paths: &[PathId],
    figure: Figure,
    finding: &mut Finding,
) -> Option<(usize, String)> {
    let at = (0..outcome.sizes.len()).find(|&at| is_measured(outcome, at, figure))?;
    Some((
        outcome.sizes[at],
        at_size(outcome, paths, at, figure, finding)?,
    ))
}

/// Compares the paths at the last size.
pub(crate) fn at_last_size(
    outcome: &Outcome,
    paths: &[PathId],
    figure: Figure,
    finding: &mut Finding,
) -> Option<(usize, String)> {
    let at = (0..outcome.sizes.len()).rfind(|&at| is_measured(outcome, at, figure))?;
    Some((
        outcome.sizes[at],
        at_size(outcome, paths, at, figure, finding)?,
    ))
}

fn is_measured(outcome: &Outcome, at: usize, figure: Figure) -> bool {
    PathId::ALL
        .iter()
        .any(|&path| outcome.quickest(path, at, figure).is_some())
}

/// Says the time of each measured path at one size; of others when none of these was measured. Figures without sufficient evidence
/// go to the finding.
fn at_size(
    outcome: &Outcome,
    paths: &[PathId],
    at: usize,
    figure: Figure,
    finding: &mut Finding,
) -> Option<String> {
    let is_there = |path: &&PathId| outcome.quickest(**path, at, figure).is_some();
    let shown: Vec<PathId> = [paths, PathId::ALL]
        .into_iter()
        .map(|paths| paths.iter().filter(is_there).copied().collect())
        .find(|shown: &Vec<PathId>| !shown.is_empty())?;
    let mut phrases = Vec::new();
    for path in shown {
        let Some(variant) = outcome.quickest(path, at, figure) else {
            continue;
        };
        let phrase = outcome.matrix.variants[variant].phrase();
        let claim = Evidence::of(&outcome.cell(variant, at, figure)).and_then(Evidence::amount);
        let what = format!("{phrase} at {}", format::bytes(outcome.sizes[at]));
        if let Some(claim) = finding.claim(what, claim) {
            phrases.push(format!("{} over {phrase}", shown_as(&claim, figure)));
        }
    }
    (!phrases.is_empty()).then(|| format::list(&phrases))
}

fn shown_as(claim: &Claim, figure: Figure) -> String {
    match figure {
        Figure::Median => claim.duration(),
        Figure::PerByte | Figure::ProcessorPerByte => {
            format!("{} ns per byte", claim.significant())
        }
        Figure::Rate => format!("{} GB/s", claim.times(1e-9).significant()),
    }
}

/// Claims how many times one variant takes what another takes, over the sessions that both have; refused of one session.
pub(crate) fn ratio(
    outcome: &Outcome,
    ours: usize,
    theirs: usize,
    at: usize,
    figure: Figure,
) -> Result<Claim, Refusal> {
    let ratio = outcome.ratio(ours, theirs, at, figure);
    claim(outcome, ratio, [ours, theirs], at)
}

fn claim(
    outcome: &Outcome,
    ratio: Option<Estimate>,
    variants: [usize; 2],
    at: usize,
) -> Result<Claim, Refusal> {
    let ratio = ratio.ok_or(Refusal::NoInterval)?;
    let [ours, theirs] = variants.map(|variant| outcome.measurements[variant][at].operations());
    Evidence::new(ratio.value, Some(ratio.interval.into()), ours.min(theirs)).amount()
}

/// Says how path `a` stands to path `b` at the first and at the last size that both have.
pub(crate) fn over_sizes(
    outcome: &Outcome,
    a: PathId,
    b: PathId,
    figure: Figure,
    finding: &mut Finding,
) {
    let mut standings = Vec::new();
    for at in 0..outcome.sizes.len() {
        let pair = outcome
            .quickest(a, at, figure)
            .zip(outcome.quickest(b, at, figure));
        let Some((ours, theirs)) = pair else { continue };
        let ratio = outcome.ratio_of_quickest(a, b, at, figure);
        let claim = claim(outcome, ratio, [ours, theirs], at);
        let variants = &outcome.matrix.variants;
        standings.push((outcome.sizes[at], variants[ours], variants[theirs], claim));
    }
    let last = standings.len().saturating_sub(1);
    let ends: Vec<&(usize, Variant, Variant, Result<Claim, Refusal>)> = standings
        .iter()
        .enumerate()
        .filter(|(at, _)| *at == 0 || *at == last)
        .map(|(_, standing)| standing)
        .collect();
    let mut clause: Option<(String, Variant, Variant)> = None;
    for (size, ours, theirs, claim) in ends {
        let what = format!("{a} against {b} at {}", format::bytes(*size));
        let Some(claim) = finding.claim(what, claim.clone()) else {
            continue;
        };
        let speed = claim.speed();
        clause = Some(match clause {
            None => {
                let size = format::bytes(*size);
                let text = match speed {
                    Some(speed) => format!("{a} is {speed} than {b} at {size}"),
                    None => format!("{a} and {b} show no difference at {size}"),
                };
                (text, *ours, *theirs)
            }
            Some((text, first_ours, first_theirs)) => {
                let size = format::whole(*size as u64);
                let whom = if *ours == first_ours && *theirs == first_theirs {
                    String::new()
                } else {
                    format!(" ({} and {})", ours.label(), theirs.label())
                };
                let speed = speed.unwrap_or_else(|| "no difference".to_owned());
                (
                    format!("{text}, {speed} at {size}{whom}"),
                    first_ours,
                    first_theirs,
                )
            }
        });
    }
    if let Some((text, ..)) = clause {
        finding.say(text);
    }
}

#[cfg(test)]
mod tests {
    use tollgate_run::{Mode, Placement, Waiting, Workload};
    use tollgate_stats::{Samples, Timing};

    use super::*;
    use crate::interleave::Matrix;

    /// Eight sessions of so many operations for each path and size.
    fn outcome(ours: [u64; 2], theirs: [u64; 2], operations: u64) -> Outcome {
        let mode = Mode {
            placement: Placement::OneCore,
            waiting: Waiting::BusyPoll,
        };
        let variant = |path| Variant::new(path, mode);
        let matrix = Matrix {
            workload: Workload::Rr,
            variants: vec![variant(PathId::StackMemory), variant(PathId::PeerSmoltcp)],
            unavailable: Vec::new(),
        };
        let mut outcome = Outcome::new(matrix, vec![4, 8_000]);
        for (variant, sizes) in [ours, theirs].into_iter().enumerate() {
            for (at, ns) in sizes.into_iter().enumerate() {
                for place in 0..8 {
                    let mut samples = Samples::new(Timing::Each);
                    for _ in 0..operations {
                        samples.record(ns + u64::from(place % 3), 1);
                    }
                    outcome.measurements[variant][at].add_slice((place, 0), &samples);
                }
            }
        }
        outcome
    }

    fn sentence(ours: [u64; 2], theirs: [u64; 2], operations: u64) -> String {
        let mut finding = Finding::default();
        over_sizes(
            &outcome(ours, theirs, operations),
            PathId::StackMemory,
            PathId::PeerSmoltcp,
            Figure::Median,
            &mut finding,
        );
        finding.finish().into()
    }

    #[test]
    fn ratios_become_words() {
        assert_eq!(
            sentence([400, 3_000], [1_000, 1_000], 200),
            "Stack-memory is 2.5 times faster than peer-smoltcp at 4 bytes, 3.0 times slower at 8,000."
        );
        assert_eq!(
            sentence([1_000, 400], [1_000, 1_000], 200),
            "Stack-memory and peer-smoltcp show no difference at 4 bytes, 2.5 times faster at 8,000."
        );
    }

    #[test]
    fn ratios_of_few_operations_are_refused() {
        assert_eq!(
            sentence([400, 3_000], [1_000, 1_000], 64),
            "This run cannot tell stack-memory against peer-smoltcp at 4 bytes and stack-memory against peer-smoltcp at 8,000 \
             bytes (512 operations, fewer than 1,000)."
        );
    }

    #[test]
    fn the_first_size_tells_what_each_takes() {
        let outcome = outcome([400, 0], [12_000, 0], 200);
        let paths = [
            PathId::KernelLoopback,
            PathId::PeerSmoltcp,
            PathId::StackMemory,
        ];
        let mut finding = Finding::default();
        let (size, takes) = at_first_size(&outcome, &paths, Figure::Median, &mut finding).unwrap();
        assert_eq!(size, 4);
        assert_eq!(
            takes,
            "12.0 us over peer-smoltcp (1 core, polling) and 401 ns over stack-memory (1 core, polling)"
        );
    }

    #[test]
    fn a_path_that_was_not_run_is_not_compared() {
        let outcome = outcome([1, 1], [1, 1], 200);
        let mut finding = Finding::default();
        let (a, b) = (PathId::StackShm, PathId::BareShm);
        over_sizes(&outcome, a, b, Figure::Median, &mut finding);
        assert!(finding.is_empty());
    }
}
