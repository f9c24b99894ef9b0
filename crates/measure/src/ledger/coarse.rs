//! Coarse spans: the time between two gates of a slice that had no gate in between, held against the sum of the fine spans there.
//!
//! One fit takes all times, coarse ones and fine ones, so a difference between the two would only make its residuals larger. It is what
//! gates inside cost and do not cost beside themselves: the closure of a part of the way, which is not hidden by the noise of the rest.
//!
//! It must never change a span: what it tells is a witness alone.

use std::collections::{BTreeMap, BTreeSet};

use super::{Figure, LEAST_BLOCKS, Ledger, Solution, Split};
use crate::trips::Slice;
use crate::way::{Way, neighbours};

/// The places of the two gates at the ends of a coarse span.
pub(super) type Ends = (usize, usize);

/// A coarse span. Figures are of a round trip.
#[derive(Clone, Debug, PartialEq)]
pub struct Coarse {
    /// The places of the gates at its ends, on the way.
    pub ends: (usize, usize),
    /// The spans that lie in it, in their order.
    pub spans: Vec<usize>,
    /// The time from slices that had both gates and none in between.
    pub direct: Figure,
    /// That, less the sum of the spans. Both have the same gates at their ends, so what is not known of splits does not count.
    pub left: Figure,
    /// Tells whether it differs from the sum: with intervals that hold together for all coarse spans of the ledger, in 95 of 100 cases.
    pub differs: bool,
}

/// Sums over the times of a block that are one coarse span: of their products with the block's speed.
#[derive(Clone, Default)]
pub(super) struct CoarseSum {
    squares: f64,
    ns: f64,
    /// Factors of what the gates at the ends add.
    behind: f64,
    before: f64,
}

impl CoarseSum {
    pub(super) fn add(&mut self, ends: Ends, splits: &[Split], speed: f64, ns: f64) {
        self.squares += speed * speed;
        self.ns += speed * ns;
        self.behind += speed * splits[ends.0].middle();
        self.before += speed * (1.0 - splits[ends.1].middle());
    }

    /// The coarse span that the sums of some blocks tell, at this mean speed; none where none of them has a time.
    pub(super) fn solve<'a>(
        sums: impl Iterator<Item = &'a Self>,
        ends: Ends,
        beside: &[f64],
        speed: f64,
    ) -> Option<f64> {
        let (mut squares, mut ns) = (0.0, 0.0);
        for sum in sums {
            squares += sum.squares;
            ns += sum.ns - sum.behind * beside[ends.0] - sum.before * beside[ends.1];
        }
        (squares > 0.0).then(|| speed * ns / squares)
    }
}

/// The times of a slice that are one coarse span of messages alone: their ends, and the time.
pub(super) fn times(way: &Way, slice: &Slice) -> Vec<(Ends, f64)> {
    let places = way.places(slice.probes.stations());
    let neighbours: Vec<Ends> = neighbours(&places).collect();
    let times = way.times(&places);
    let times = times.iter().zip(&slice.between).enumerate();
    let coarse = times.filter_map(|(at, (pairs, &ns))| {
        let [pair] = pairs[..] else {
            return None;
        };
        let within = slice.crossings.within.get(at);
        let others = within.is_some_and(|within| !within.is_empty());
        let ends = neighbours[pair];
        let spans: Vec<(usize, f64)> = way.spans_between(ends.0, ends.1).collect();
        // Half a span is not known by itself.
        let whole = spans.iter().all(|(_, share)| *share == 1.0);
        (!others && whole && spans.len() > 1).then_some((ends, ns))
    });
    coarse.collect()
}

/// The coarse spans that enough blocks have: a quarter of them, and as many as an interval needs.
pub(super) fn of(way: &Way, slices: &[Slice]) -> Vec<Ends> {
    let mut blocks: BTreeMap<Ends, BTreeSet<u32>> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for slice in slices {
        all.insert(slice.block);
        for (ends, _) in times(way, slice) {
            blocks.entry(ends).or_default().insert(slice.block);
        }
    }
    let least = LEAST_BLOCKS.max(all.len().div_ceil(4));
    let enough = blocks
        .into_iter()
        .filter(|(_, blocks)| blocks.len() >= least);
    enough.map(|(ends, _)| ends).collect()
}

impl Ledger {
    /// The coarse spans that are known, each beside the sum of its fine ones.
    pub fn coarse(&self) -> Vec<Coarse> {
        let beside: Vec<Figure> = self.gates.iter().map(|cost| cost.beside).collect();
        let count = self.coarse.len();
        let coarse = self.coarse.iter().enumerate().filter_map(|(at, &ends)| {
            let spans = self.way.spans_between(ends.0, ends.1);
            let spans: Vec<usize> = spans.map(|(span, _)| span).collect();
            let unknown = Split::unknown(&self.way, &self.splits, &beside, &spans);
            let direct = |one: &Solution| one.coarse[at];
            let left = |one: &Solution| Some(one.coarse[at]? - one.sum(&spans));
            let together = self.draws.known(left, 0.0, count)?;
            Some(Coarse {
                ends,
                direct: self.draws.known(direct, unknown, 1)?,
                left: self.draws.known(left, 0.0, 1)?,
                differs: !together.contains(0.0),
                spans,
            })
        });
        coarse.collect()
    }
}
