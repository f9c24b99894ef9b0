//! The systems of equations, block by block, so that any draw of blocks is solved from sums.
//!
//! Owns the weights: they come from a first fit of all blocks, in which every time counts by its own size.

use std::collections::BTreeMap;

use super::{LEAST_BLOCKS, NoLedger, Solution, Split};
use crate::linear::Normal;
use crate::schedule::Probes;
use crate::trips::Slice;
use crate::way::Way;

/// Classes by size in which the scatter of times between gates is looked at.
const CLASSES: usize = 8;
/// The standard deviation of a normal distribution over its median absolute deviation.
const NORMAL_OVER_MAD: f64 = 1.4826;
/// The least standard deviation of a mean that is believed, in nanoseconds: below the resolution of the clocks.
const LEAST_DEVIATION: f64 = 0.1;

/// The systems of one block.
pub(super) struct Block {
    /// The mean of its slices without gates, in nanoseconds.
    control: f64,
    /// That, over the mean of all blocks.
    speed: f64,
    /// Unknowns: the spans, then what each gate adds beside itself.
    between: Normal,
    /// Unknowns: the whole effect of each gate, then that of all of them asleep.
    whole: Normal,
}

/// A time between two neighbouring gates of a slice.
struct Between {
    block: usize,
    terms: Vec<(usize, f64)>,
    ns: f64,
}

/// The systems of all blocks.
pub(super) fn of(way: &Way, splits: &[Split], slices: &[Slice]) -> Result<Vec<Block>, NoLedger> {
    let mut by_block: BTreeMap<u32, Vec<&Slice>> = BTreeMap::new();
    for slice in slices {
        by_block.entry(slice.block).or_default().push(slice);
    }
    if by_block.len() < LEAST_BLOCKS {
        return Err(NoLedger::TooFewBlocks {
            have: by_block.len(),
        });
    }
    let controls: Vec<f64> = by_block
        .iter()
        .map(|(&number, slices)| control(slices).ok_or(NoLedger::NoControl(number)))
        .collect::<Result<_, _>>()?;
    let of_all = controls.iter().sum::<f64>() / controls.len() as f64;
    let mut blocks = Vec::with_capacity(controls.len());
    let asleep = has_asleep(slices);
    let mut times = Vec::new();
    for (slices, control) in by_block.values().zip(controls) {
        let speed = control / of_all;
        let mut whole = Normal::new(way.len() + usize::from(asleep));
        for slice in slices {
            if slice.probes == Probes::Absent {
                continue;
            }
            let places = way.places(slice.probes.active());
            times.extend(between(way, splits, slice, &places, (blocks.len(), speed))?);
            let terms = places.iter().map(|&place| (place, 1.0));
            let terms: Vec<_> = terms.chain(asleep.then_some((way.len(), 1.0))).collect();
            whole.observe(&terms, slice.total.ns - control, 1.0);
        }
        blocks.push(Block {
            control,
            speed,
            between: Normal::new(2 * way.len()),
            whole,
        });
    }
    let mut first = Normal::new(2 * way.len());
    for time in &times {
        let weight = time.ns.abs().max(LEAST_DEVIATION).powi(-2);
        first.observe(&time.terms, time.ns, weight);
    }
    let found = first.solve().ok_or(NoLedger::Undetermined)?;
    for (time, deviation) in times.iter().zip(deviations(&times, &found)) {
        blocks[time.block]
            .between
            .observe(&time.terms, time.ns, deviation.powi(-2));
    }
    Ok(blocks)
}

/// The unknowns that some blocks tell; none when they do not tell all.
pub(super) fn solve(way: &Way, blocks: &[&Block]) -> Option<Solution> {
    let mut between = Normal::new(2 * way.len());
    let unknowns = blocks.first().map_or(0, |block| block.whole.len());
    let mut whole = Normal::new(unknowns);
    let (mut control, mut speed) = (0.0, 0.0);
    for block in blocks {
        between.add(&block.between);
        whole.add(&block.whole);
        control += block.control / blocks.len() as f64;
        speed += block.speed / blocks.len() as f64;
    }
    let mut spans = between.solve()?;
    let beside = spans.split_off(way.len());
    for span in &mut spans {
        *span *= speed;
    }
    let mut whole = whole.solve()?;
    let asleep = whole.split_off(way.len()).pop();
    Some(Solution {
        total: control,
        spans,
        beside,
        whole,
        asleep,
    })
}

/// Whether gates that are asleep were measured.
fn has_asleep(slices: &[Slice]) -> bool {
    slices.iter().any(|slice| slice.probes == Probes::Asleep)
}

/// The mean of the slices without gates.
fn control(slices: &[&Slice]) -> Option<f64> {
    let without: Vec<f64> = slices
        .iter()
        .filter(|slice| slice.probes == Probes::Absent)
        .map(|slice| slice.total.ns)
        .collect();
    (!without.is_empty()).then(|| without.iter().sum::<f64>() / without.len() as f64)
}

/// The times of a slice as observations.
fn between(
    way: &Way,
    splits: &[Split],
    slice: &Slice,
    places: &[usize],
    (block, speed): (usize, f64),
) -> Result<Vec<Between>, NoLedger> {
    if slice.between.len() != places.len() {
        return Err(NoLedger::Mismatch {
            gates: places.len(),
            times: slice.between.len(),
        });
    }
    let next = places.iter().cycle().skip(1);
    let times = places.iter().zip(next).zip(&slice.between);
    let observed = times.map(|((&from, &to), &ns)| {
        let spans = way.spans_between(from, to).map(|span| (span, speed));
        let beside = |place: usize, share: f64| (way.len() + place, share);
        let behind = splits[from].middle();
        let before = 1.0 - splits[to].middle();
        let mut terms: Vec<_> = spans.collect();
        if from == to {
            terms.push(beside(from, behind + before));
        } else {
            terms.extend([beside(from, behind), beside(to, before)]);
        }
        Between { block, terms, ns }
    });
    Ok(observed.collect())
}

/// The standard deviation of each time, from how far times of about its size lie from the first fit.
fn deviations(times: &[Between], found: &[f64]) -> Vec<f64> {
    let fitted = |time: &Between| -> f64 {
        let terms = time.terms.iter();
        terms
            .map(|&(unknown, factor)| factor * found[unknown])
            .sum()
    };
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by(|&a, &b| times[a].ns.total_cmp(&times[b].ns));
    let mut deviations = vec![LEAST_DEVIATION; times.len()];
    for class in order.chunks(times.len().div_ceil(CLASSES).max(1)) {
        let mut away: Vec<f64> = class
            .iter()
            .map(|&time| (times[time].ns - fitted(&times[time])).abs())
            .collect();
        away.sort_by(f64::total_cmp);
        let deviation = NORMAL_OVER_MAD * away[away.len() / 2];
        for &time in class {
            deviations[time] = deviation.max(LEAST_DEVIATION);
        }
    }
    deviations
}
