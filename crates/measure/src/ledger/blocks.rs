//! The systems of equations, block by block, so that any draw of blocks is solved from sums.
//!
//! Owns the weights: they come from a first fit of all blocks, in which every time counts by its own size.

use std::collections::{BTreeMap, BTreeSet};

use super::coarse::{self, CoarseSum};
use super::{LEAST_BLOCKS, NoLedger, Solution, Split};
use crate::linear::Normal;
use crate::packets::{Crossing, PacketTime};
use crate::schedule::Probes;
use crate::trips::Slice;
use crate::way::{Way, neighbours};

/// Classes by size in which the scatter of times between gates is looked at.
const CLASSES: usize = 8;
/// The standard deviation of a normal distribution over its median absolute deviation.
const NORMAL_OVER_MAD: f64 = 1.4826;
/// The least standard deviation of a mean that is believed, in nanoseconds: below the resolution of the clocks.
const LEAST_DEVIATION: f64 = 0.1;

/// The systems of one block.
pub(super) struct Block {
    /// Its number in the run.
    pub(super) number: u32,
    /// The mean of its slices without gates, in nanoseconds.
    control: f64,
    /// That, over the mean of all blocks.
    speed: f64,
    /// Unknowns: the spans, then what each gate adds beside itself.
    between: Normal,
    /// Unknowns: the whole effect of each gate, then that of all of them disabled.
    whole: Normal,
    /// Times of packets, in the order of [`Others::times`].
    packets: Vec<TimeSum>,
    /// Coarse spans, in the order of [`Others::coarse`].
    coarse: Vec<CoarseSum>,
}

/// Sums over the slices of a block that have a time of packets: of its products with the block's speed.
#[derive(Clone, Default)]
struct TimeSum {
    squares: f64,
    ns: f64,
    gates: BTreeMap<usize, f64>,
}

impl TimeSum {
    fn add(&mut self, time: PacketTime, crossing: &Crossing, splits: &[Split], speed: f64) {
        self.squares += speed * speed;
        self.ns += speed * crossing.ns;
        let (from, to) = time.ends(splits.len());
        let behind = splits[from].middle();
        let before = 1.0 - splits[to].middle();
        let ends = [
            (from, crossing.share * behind),
            (to, crossing.share * before),
        ];
        for (place, count) in crossing.gates.iter().copied().chain(ends) {
            *self.gates.entry(place).or_default() += speed * count;
        }
    }
}

/// Packets beside the way of messages.
pub(super) struct Others {
    /// For each gate the passages within times between gates, in a round trip with that gate.
    pub(super) within: Vec<f64>,
    /// Times of packets.
    pub(super) times: Vec<PacketTime>,
    /// The ends of coarse spans.
    pub(super) coarse: Vec<coarse::Ends>,
}

impl Others {
    pub(super) fn of(way: &Way, slices: &[Slice]) -> Self {
        let mut within = vec![0.0; way.len()];
        let mut with = vec![0.0; way.len()];
        let mut times = BTreeSet::new();
        for slice in slices {
            for place in way.places(slice.probes.stations()) {
                with[place] += 1.0;
            }
            for &(place, count) in slice.crossings.within.iter().flatten() {
                within[place] += count;
            }
            times.extend(slice.crossings.times.iter().map(|&(time, _)| time));
        }
        for (within, with) in within.iter_mut().zip(with) {
            *within /= f64::max(with, 1.0);
        }
        Self {
            within,
            times: times.into_iter().collect(),
            coarse: coarse::of(way, slices),
        }
    }
}

/// The share of a gate's cost beside itself that falls on one message at it.
pub(super) fn probe_cost_share(way: &Way) -> f64 {
    1.0 / way.passages() as f64
}

/// A time between two neighbouring gates of a slice.
struct Between {
    block: usize,
    terms: Vec<(usize, f64)>,
    ns: f64,
}

/// The systems of all blocks.
pub(super) fn of(
    way: &Way,
    splits: &[Split],
    slices: &[Slice],
    others: &Others,
) -> Result<Vec<Block>, NoLedger> {
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
    let disabled = has_disabled(slices);
    let mut times = Vec::new();
    for ((&number, slices), control) in by_block.iter().zip(controls) {
        let speed = control / of_all;
        let mut whole = Normal::new(way.len() + usize::from(disabled));
        let mut packets = vec![TimeSum::default(); others.times.len()];
        let mut sums = vec![CoarseSum::default(); others.coarse.len()];
        for slice in slices {
            if slice.probes == Probes::Uninstrumented {
                continue;
            }
            let places = way.places(slice.probes.stations());
            times.extend(between(
                (way, splits),
                slice,
                &places,
                (blocks.len(), speed),
            )?);
            for (time, crossing) in &slice.crossings.times {
                if let Ok(at) = others.times.binary_search(time) {
                    packets[at].add(*time, crossing, splits, speed);
                }
            }
            for (ends, ns) in coarse::times(way, slice) {
                if let Ok(at) = others.coarse.binary_search(&ends) {
                    sums[at].add(ends, splits, speed, ns);
                }
            }
            let terms = places.iter().map(|&place| (place, 1.0));
            let terms: Vec<_> = terms.chain(disabled.then_some((way.len(), 1.0))).collect();
            whole.observe(&terms, slice.total.ns - control, 1.0);
        }
        blocks.push(Block {
            number,
            control,
            speed,
            between: Normal::new(way.spans() + way.len()),
            whole,
            packets,
            coarse: sums,
        });
    }
    // Weights come from fitted times alone: an observed one that is long by chance would have less weight, and spans come out too short.
    let even = vec![1.0; times.len()];
    let found = fitted_with(way, &times, &even)?;
    let relative: Vec<f64> = times
        .iter()
        .map(|time| time.fitted(&found).abs().max(LEAST_DEVIATION))
        .collect();
    let found = fitted_with(way, &times, &relative)?;
    for (time, deviation) in times.iter().zip(deviations(&times, &found)) {
        blocks[time.block]
            .between
            .observe(&time.terms, time.ns, deviation.powi(-2));
    }
    Ok(blocks)
}

/// The unknowns that all times tell, each time with this standard deviation.
fn fitted_with(way: &Way, times: &[Between], deviations: &[f64]) -> Result<Vec<f64>, NoLedger> {
    let mut all = Normal::new(way.spans() + way.len());
    for (time, deviation) in times.iter().zip(deviations) {
        all.observe(&time.terms, time.ns, deviation.powi(-2));
    }
    all.solve().ok_or(NoLedger::Undetermined)
}

/// The unknowns that some blocks tell; none when they do not tell all.
pub(super) fn solve(way: &Way, others: &Others, blocks: &[&Block]) -> Option<Solution> {
    let mut between = Normal::new(way.spans() + way.len());
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
    let beside = spans.split_off(way.spans());
    for span in &mut spans {
        *span *= speed;
    }
    let mut whole = whole.solve()?;
    let disabled = whole.split_off(way.len()).pop();
    Some(Solution {
        total: control,
        within: within(way, &beside, &others.within),
        packets: packets(way, others.times.len(), &beside, speed, blocks),
        coarse: (others.coarse.iter().enumerate())
            .map(|(at, &ends)| {
                let sums = blocks.iter().map(|block| &block.coarse[at]);
                CoarseSum::solve(sums, ends, &beside, speed)
            })
            .collect(),
        spans,
        beside,
        whole,
        disabled,
    })
}

/// Cost in a round trip of passages that are not the messages' own.
fn within(way: &Way, beside: &[f64], counts: &[f64]) -> f64 {
    let costs = beside.iter().zip(counts);
    costs
        .map(|(cost, count)| probe_cost_share(way) * cost * count)
        .sum()
}

/// The times of packets without gates; none where no block has one.
fn packets(
    way: &Way,
    times: usize,
    beside: &[f64],
    speed: f64,
    blocks: &[&Block],
) -> Vec<Option<f64>> {
    let time = |at: usize| {
        let (mut squares, mut ns) = (0.0, 0.0);
        for sum in blocks.iter().map(|block| &block.packets[at]) {
            let gates = sum.gates.iter();
            squares += sum.squares;
            ns += sum.ns
                - gates
                    .map(|(&place, count)| count * probe_cost_share(way) * beside[place])
                    .sum::<f64>();
        }
        (squares > 0.0).then(|| speed * ns / squares)
    };
    (0..times).map(time).collect()
}

/// Tells whether disabled gates were measured.
fn has_disabled(slices: &[Slice]) -> bool {
    slices.iter().any(|slice| slice.probes == Probes::Disabled)
}

/// The mean of the slices without gates.
fn control(slices: &[&Slice]) -> Option<f64> {
    let without: Vec<f64> = slices
        .iter()
        .filter(|slice| slice.probes == Probes::Uninstrumented)
        .map(|slice| slice.total.ns)
        .collect();
    (!without.is_empty()).then(|| without.iter().sum::<f64>() / without.len() as f64)
}

/// The times of a slice as observations.
fn between(
    (way, splits): (&Way, &[Split]),
    slice: &Slice,
    places: &[usize],
    (block, speed): (usize, f64),
) -> Result<Vec<Between>, NoLedger> {
    let times = way.times(places);
    if slice.between.len() != times.len() {
        return Err(NoLedger::Mismatch {
            gates: places.len(),
            times: slice.between.len(),
        });
    }
    let neighbours: Vec<(usize, usize)> = neighbours(places).collect();
    let times = times.iter().zip(&slice.between).enumerate();
    let observed = times.map(|(at, (pairs, &ns))| {
        let beside = |place: usize, share: f64| (way.spans() + place, share);
        let mut terms: Vec<_> = Vec::new();
        for &(from, to) in pairs.iter().map(|&pair| &neighbours[pair]) {
            let spans = way.spans_between(from, to);
            terms.extend(spans.map(|(span, share)| (span, share * speed)));
            terms.push(beside(from, splits[from].middle()));
            terms.push(beside(to, 1.0 - splits[to].middle()));
        }
        for &(place, count) in slice.crossings.within.get(at).into_iter().flatten() {
            terms.push(beside(place, probe_cost_share(way) * count));
        }
        Between { block, terms, ns }
    });
    Ok(observed.collect())
}

impl Between {
    /// The time by these unknowns.
    fn fitted(&self, found: &[f64]) -> f64 {
        let terms = self.terms.iter();
        terms
            .map(|&(unknown, factor)| factor * found[unknown])
            .sum()
    }
}

/// The standard deviation of each time, from how far times of about its fitted size lie from that.
fn deviations(times: &[Between], found: &[f64]) -> Vec<f64> {
    let fitted: Vec<f64> = times.iter().map(|time| time.fitted(found)).collect();
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by(|&a, &b| fitted[a].total_cmp(&fitted[b]));
    let mut deviations = vec![LEAST_DEVIATION; times.len()];
    for class in order.chunks(times.len().div_ceil(CLASSES).max(1)) {
        let mut away: Vec<f64> = class
            .iter()
            .map(|&time| (times[time].ns - fitted[time]).abs())
            .collect();
        away.sort_by(f64::total_cmp);
        let deviation = NORMAL_OVER_MAD * away[away.len() / 2];
        for &time in class {
            deviations[time] = deviation.max(LEAST_DEVIATION);
        }
    }
    deviations
}
