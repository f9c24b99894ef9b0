//! The fit: spans, gate costs and the closure from the slices of a path, each with its interval.
//!
//! `tau` is the mean over the blocks of their slices without gates, and a block's speed is its own mean over that. The other
//! unknowns fall into two systems that share none. What round trips with gates take more than the block's without gives the
//! whole effect of each gate. Times between neighbouring gates give the spans, times the block's speed, and what each gate adds
//! beside itself.
//!
//! Intervals: blocks are drawn with replacement, the systems solved again, and the standard deviation of what comes out is
//! widened by Student's t of the number of blocks. The closure of each draw is computed from that draw's spans, so the
//! interval of a sum is never the sum of intervals.
//!
//! Gates that are compiled into the code cost something even when none is wanted. The spans include that, so it is measured on its
//! own, in slices with disabled gates beside slices without. The sum of the spans is held against the round trip through code with
//! disabled gates, and their cost is a row of its own.
//!
//! The split of a gate's cost between the span before it and the span behind it is not observable. Moving time from one to the
//! other changes no sum. [`Split`] states the assumption, and the intervals of spans include its error. Sums of neighbouring spans
//! and the closure do not depend on it.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::packets::PacketTime;
use crate::trips::Slice;
use crate::way::{Station, Way};

mod blocks;
mod coarse;

use blocks::{Block, Others};
pub use coarse::Coarse;

/// Draws of the bootstrap: the standard deviation of so many is known to 4 %.
const DRAWS: usize = 400;
/// The fewest blocks that an interval is told from.
pub const LEAST_BLOCKS: usize = 6;

/// Assumption on the split of a gate's cost between the span before it and the span behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Split {
    /// The share that falls on the span behind it lies between these.
    Share {
        /// The least that is possible.
        least: f64,
        /// The most.
        most: f64,
    },
    /// The gates of a kind, which a number tells from other kinds, run the same code around the reading of the clock. So the cost of
    /// the cheapest of them falls alike at all, and shifts no span between two of them. What one costs beyond may fall on either
    /// side; the cheapest is taken at the upper end of its interval, since chance is in the spans' intervals already.
    Alike(u8),
}

impl Split {
    /// Nothing is known: all before the clock is read, or all behind.
    pub const UNKNOWN: Self = Self::Share {
        least: 0.0,
        most: 1.0,
    };

    const fn middle(self) -> f64 {
        match self {
            Self::Share { least, most } => f64::midpoint(least, most),
            Self::Alike(_) => 0.5,
        }
    }

    /// Largest error of a sum of spans from the unknown split of the costs of the gates at its ends.
    fn unknown(way: &Way, splits: &[Self], beside: &[Figure], spans: &[usize]) -> f64 {
        let gates = splits.len();
        let ends = (0..gates).filter_map(|gate| {
            let before = spans.contains(&way.span_of((gate + gates - 1) % gates));
            let behind = spans.contains(&way.span_of(gate));
            (before != behind).then_some((gate, behind))
        });
        let ends: Vec<(usize, bool)> = ends.collect();
        let unknown = |&(gate, _): &(usize, bool)| match splits[gate] {
            Self::Alike(kind) => {
                let alike = ends.iter().filter(|(end, _)| splits[*end] == splits[gate]);
                let begins = alike.clone().filter(|(_, begins)| *begins).count();
                if 2 * begins != alike.count() {
                    return beside[gate].ns.abs() / 2.0;
                }
                let all = splits.iter().zip(beside);
                let all = all.filter(|(split, _)| **split == Self::Alike(kind));
                let upper = all.map(|(_, cost)| cost.ns + cost.half_width);
                let least = upper.fold(f64::INFINITY, f64::min);
                (beside[gate].ns - least).max(0.0) / 2.0
            }
            Self::Share { least, most } => (most - least) / 2.0 * beside[gate].ns.abs(),
        };
        ends.iter().map(unknown).sum()
    }
}

/// A value with its 95 % interval, in nanoseconds for each round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The value, in the middle of its interval.
    pub ns: f64,
    /// Half the width of the interval.
    pub half_width: f64,
}

impl Figure {
    /// Tells whether the interval holds a value.
    pub fn contains(&self, ns: f64) -> bool {
        (self.ns - ns).abs() <= self.half_width
    }
}

/// Cost of one gate in a round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateCost {
    /// The gate.
    pub station: Station,
    /// Its whole effect on a round trip, wherever it falls: how much it disturbs.
    pub whole: Figure,
    /// The part that it adds to the two spans beside it.
    pub beside: Figure,
}

/// The most that may be left open, as a share of the round trip: the whole interval of a closure that closes lies within it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit(pub f64);

impl Limit {
    /// Both ends on one core.
    pub const ONE_CORE: Self = Self(0.03);
    /// Each end on its own core.
    pub const TWO_CORES: Self = Self(0.05);
}

/// Verdict on a closure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// The interval holds 0, and both its ends are within the limit.
    Closes,
    /// The interval does not hold 0.
    DoesNotClose,
    /// The interval holds 0 and reaches beyond the limit. With so many times as many blocks one around the same value would either
    /// lie within the limit or not hold 0.
    CannotTell {
        /// Blocks that are needed, over those that there are.
        times: f64,
    },
}

/// The round trip without gates, and what disabled gates add to it, less the sum of the spans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Closure {
    /// The unattributed time; negative when the spans sum to more.
    pub left: Figure,
    /// The round trip without gates, in nanoseconds.
    pub of_ns: f64,
}

impl Closure {
    /// Judges the closure: it closes where no value of its interval is beyond the limit.
    pub fn verdict(&self, limit: Limit) -> Verdict {
        if !self.left.contains(0.0) {
            Verdict::DoesNotClose
        } else if self.most_open() <= limit.0 {
            Verdict::Closes
        } else {
            let (open, limit) = (self.left.ns.abs(), limit.0 * self.of_ns);
            let distance = open.max(limit - open);
            Verdict::CannotTell {
                times: (self.left.half_width / distance).powi(2),
            }
        }
    }

    /// The most that may be left open, as a share of the round trip: the end of the interval that is farther from 0.
    pub fn most_open(&self) -> f64 {
        (self.left.ns.abs() + self.left.half_width) / self.of_ns
    }
}

/// The ledger of a path at one size.
#[derive(Clone, Debug)]
pub struct Ledger {
    way: Way,
    /// The round trip without gates.
    pub total: Figure,
    /// The spans, in the order of the way ([`Way::span_of`]); the last one is the application's turn.
    pub spans: Vec<Figure>,
    /// The gates, in the order of the way.
    pub gates: Vec<GateCost>,
    /// The cost of gates while all of them are disabled; none where they are taken away instead.
    pub disabled: Option<Figure>,
    /// The round trip, and what disabled gates add to it, less the sum of the spans.
    pub closure: Closure,
    /// The cost of gates at other places than beside themselves: the sum of their whole effects less their parts beside them.
    pub elsewhere: Figure,
    /// The cost of all gates of the way together in a round trip.
    pub perturbation: Figure,
    /// Times of packets of responses; empty where messages are one packet.
    pub packets: BTreeMap<PacketTime, Figure>,
    /// Passages of each gate in a round trip beside those of the messages, in the order of the way.
    pub within: Vec<f64>,
    /// Each time of packets, in the order in which solutions have them, and how far splits may move it.
    unknown_of_packets: BTreeMap<PacketTime, f64>,
    /// The ends of each coarse span, in the order in which solutions have them.
    coarse: Vec<coarse::Ends>,
    /// Slices, with gates and without.
    pub slices: usize,
    /// Blocks.
    pub blocks: usize,
    splits: Vec<Split>,
    draws: Draws,
}

/// The reason why there is no ledger.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoLedger {
    /// Round trips could not be run.
    #[error("{0}")]
    Failed(String),
    /// Too few blocks.
    #[error("{have} blocks of slices were measured, and intervals need {LEAST_BLOCKS}")]
    TooFewBlocks {
        /// Those that there are.
        have: usize,
    },
    /// A block without a slice without gates.
    #[error("block {0} has no slice without gates, so its speed is not known")]
    NoControl(u32),
    /// The slices do not tell all spans and gates apart.
    #[error("the slices do not tell all spans and gates apart: more blocks are needed")]
    Undetermined,
    /// Ledgers whose blocks were not run in turns have no difference with an interval.
    #[error("the blocks of the two ledgers were not run in turns")]
    Unpaired,
    /// A slice whose times do not belong to its set.
    #[error("a slice with {gates} gates has {times} times between them")]
    Mismatch {
        /// Gates of its set on the way.
        gates: usize,
        /// Times that it has.
        times: usize,
    },
}

/// The unknowns, solved once.
#[derive(Clone, Debug)]
struct Solution {
    total: f64,
    spans: Vec<f64>,
    beside: Vec<f64>,
    whole: Vec<f64>,
    disabled: Option<f64>,
    /// The cost in a round trip of gate passages that are not the messages' own.
    within: f64,
    packets: Vec<Option<f64>>,
    coarse: Vec<Option<f64>>,
}

impl Solution {
    fn sum(&self, spans: &[usize]) -> f64 {
        spans.iter().map(|&span| self.spans[span]).sum()
    }

    /// The round trip, and the cost of disabled gates, less the sum of some spans.
    fn left(&self, spans: impl IntoIterator<Item = usize>) -> f64 {
        let sum: f64 = spans.into_iter().map(|span| self.spans[span]).sum();
        self.total + self.disabled() - sum
    }

    fn disabled(&self) -> f64 {
        self.disabled.unwrap_or(0.0)
    }

    fn perturbation(&self) -> f64 {
        self.disabled() + self.whole.iter().sum::<f64>()
    }

    fn elsewhere(&self) -> f64 {
        self.whole.iter().sum::<f64>() - self.beside.iter().sum::<f64>() - self.within
    }
}

/// The solution of all blocks, and those of blocks that were drawn.
#[derive(Clone, Debug)]
struct Draws {
    all: Solution,
    /// None of a draw that does not tell all spans and gates apart.
    drawn: Vec<Option<Solution>>,
    /// The numbers of the blocks, and the seed of the draws: ledgers with equal ones drew the same blocks.
    of: (Vec<u32>, u64),
}

/// Part of a ledger that two ledgers may differ in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LedgerTerm<'a> {
    /// The round trip without gates.
    Total,
    /// Some spans together, by their places.
    Spans(&'a [usize]),
    /// The cost of all gates in a round trip.
    Perturbation,
    /// The cost of all gates beside themselves.
    Beside,
    /// The cost of gates elsewhere.
    Elsewhere,
    /// The closure: what the spans leave open of the round trip.
    Closure,
}

impl LedgerTerm<'_> {
    fn of(self, solution: &Solution) -> f64 {
        match self {
            Self::Total => solution.total,
            Self::Spans(spans) => solution.sum(spans),
            Self::Perturbation => solution.perturbation(),
            Self::Beside => solution.beside.iter().sum(),
            Self::Elsewhere => solution.elsewhere(),
            Self::Closure => solution.left(0..solution.spans.len()),
        }
    }
}

impl Draws {
    /// Half of a 95 % interval, over the standard deviation of what was drawn, where so many intervals shall hold together
    /// (Bonferroni's correction).
    fn widen(&self, intervals: usize) -> f64 {
        let count = self.of.0.len() as f64;
        // Means of n blocks scatter by a factor of (n - 1) / n less among draws than among repetitions.
        student_t(count - 1.0, intervals) * (count / (count - 1.0)).sqrt()
    }

    /// A value with its interval, which is `more` wider to either side.
    fn figure(&self, of: impl Fn(&Solution) -> f64, more: f64) -> Figure {
        let values: Vec<f64> = self.drawn.iter().flatten().map(&of).collect();
        Figure {
            ns: of(&self.all),
            half_width: self.widen(1) * deviation(&values) + more,
        }
    }

    /// Estimates a value that a draw may lack; none when half of them do. So many intervals hold together.
    fn known(
        &self,
        of: impl Fn(&Solution) -> Option<f64>,
        more: f64,
        intervals: usize,
    ) -> Option<Figure> {
        let drawn = self.drawn.iter().flatten();
        let values: Vec<Option<f64>> = drawn.map(&of).collect();
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        (2 * known.len() > values.len()).then_some(Figure {
            ns: of(&self.all)?,
            half_width: self.widen(intervals) * deviation(&known) + more,
        })
    }

    /// The growth of a value since another ledger whose blocks took turns with these: each draw is of the same blocks of both, so
    /// the interval holds what they share, and what they do not.
    fn growth(
        &self,
        since: &Self,
        of: impl Fn(&Solution) -> f64,
        intervals: usize,
    ) -> Result<Figure, NoLedger> {
        if self.of != since.of {
            return Err(NoLedger::Unpaired);
        }
        let pairs = self.drawn.iter().zip(&since.drawn);
        let growths = pairs.filter_map(|(now, then)| Some(of(now.as_ref()?) - of(then.as_ref()?)));
        let growths: Vec<f64> = growths.collect();
        if growths.len() < DRAWS / 2 {
            return Err(NoLedger::Undetermined);
        }
        Ok(Figure {
            ns: of(&self.all) - of(&since.all),
            half_width: self.widen(intervals) * deviation(&growths),
        })
    }
}

impl Ledger {
    /// Fits the model to slices; `splits` are those of the gates, in the order of the way.
    ///
    /// # Errors
    /// [`NoLedger`].
    ///
    /// # Panics
    /// When there is not one split for each gate.
    pub fn fit(way: &Way, splits: &[Split], slices: &[Slice], seed: u64) -> Result<Self, NoLedger> {
        assert_eq!(splits.len(), way.len(), "one split for each gate");
        let others = Others::of(way, slices);
        let blocks = blocks::of(way, splits, slices, &others)?;
        let all = blocks::solve(way, &others, &blocks.iter().collect::<Vec<_>>());
        let all = all.ok_or(NoLedger::Undetermined)?;
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut drawn = Vec::with_capacity(DRAWS);
        for _ in 0..DRAWS {
            let some: Vec<&Block> = (0..blocks.len())
                .map(|_| &blocks[random.random_range(0..blocks.len())])
                .collect();
            // Where blocks are few, a draw may lack the sets that tell two gates apart.
            drawn.push(blocks::solve(way, &others, &some));
        }
        if drawn.iter().flatten().count() < DRAWS / 2 {
            return Err(NoLedger::Undetermined);
        }
        let numbers = blocks.iter().map(|block| block.number).collect();
        let of = (numbers, seed);
        let draws = Draws { all, drawn, of };
        let mut ledger = Self::from_draws(way, splits, draws, slices.len(), blocks.len());
        ledger.coarse.clone_from(&others.coarse);
        ledger.add_packets(splits, others);
        Ok(ledger)
    }

    /// The sum of some times of packets, with an interval of its own but for what is not known of splits; none where one is missing.
    pub fn sum_of_packets(&self, times: &[PacketTime]) -> Option<Figure> {
        let unknown = times
            .iter()
            .map(|time| self.unknown_of_packets.get(time).copied());
        let unknown: f64 = unknown.sum::<Option<f64>>()?;
        let known: Vec<PacketTime> = self.unknown_of_packets.keys().copied().collect();
        let places: Vec<usize> = times
            .iter()
            .filter_map(|time| known.binary_search(time).ok())
            .collect();
        let sum = |one: &Solution| {
            places
                .iter()
                .map(|&at| one.packets[at])
                .sum::<Option<f64>>()
        };
        self.draws.known(sum, unknown, 1)
    }

    /// Adds the times of packets. A gate's cost falls on both sides of it, for a packet as for a message.
    fn add_packets(&mut self, splits: &[Split], others: Others) {
        let beside: Vec<Figure> = self.gates.iter().map(|cost| cost.beside).collect();
        let unknowns = others.times.iter().map(|&time| {
            let (from, to) = time.ends(splits.len());
            // Between two passages of one gate its cost lies whole.
            let unknown = if from == to {
                0.0
            } else {
                blocks::probe_cost_share(&self.way)
                    * Split::unknown(&self.way, splits, &beside, &[from])
            };
            (time, unknown)
        });
        self.unknown_of_packets = unknowns.collect();
        let times = self.unknown_of_packets.iter().enumerate();
        let known = times.filter_map(|(at, (&time, &unknown))| {
            Some((time, self.draws.known(|one| one.packets[at], unknown, 1)?))
        });
        self.packets = known.collect();
        self.within = others.within;
    }

    fn from_draws(way: &Way, splits: &[Split], draws: Draws, slices: usize, blocks: usize) -> Self {
        let beside = (0..way.len()).map(|place| draws.figure(|one| one.beside[place], 0.0));
        let beside: Vec<Figure> = beside.collect();
        let spans = (0..way.spans()).map(|span| sum(way, &draws, splits, &beside, &[span]));
        let gates = way.stations().enumerate().map(|(place, station)| GateCost {
            station,
            whole: draws.figure(|one| one.whole[place], 0.0),
            beside: beside[place],
        });
        Self {
            total: draws.figure(|one| one.total, 0.0),
            spans: spans.collect(),
            gates: gates.collect(),
            disabled: draws
                .all
                .disabled
                .map(|_| draws.figure(Solution::disabled, 0.0)),
            closure: closure(&draws, 0..way.spans()),
            elsewhere: draws.figure(Solution::elsewhere, 0.0),
            perturbation: draws.figure(Solution::perturbation, 0.0),
            packets: BTreeMap::new(),
            within: Vec::new(),
            unknown_of_packets: BTreeMap::new(),
            coarse: Vec::new(),
            way: way.clone(),
            slices,
            blocks,
            splits: splits.to_vec(),
            draws,
        }
    }

    /// The way that it is of.
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// The closure of a sum that holds these spans only, by their places.
    ///
    /// # Panics
    /// When there is no such span.
    pub fn closure_of(&self, spans: &[usize]) -> Closure {
        closure(&self.draws, spans.iter().copied())
    }

    /// Several spans together, such as a layer, with an interval of its own. The gates between two of them cancel, so what is not
    /// known of their splits does not count.
    ///
    /// # Panics
    /// When there is no such span.
    pub fn sum_of(&self, spans: &[usize]) -> Figure {
        let beside: Vec<Figure> = self.gates.iter().map(|cost| cost.beside).collect();
        sum(&self.way, &self.draws, &self.splits, &beside, spans)
    }

    /// The growth of a part since another ledger of the same way, whose blocks took turns with these. Splits are equal in both, so
    /// what is not known of them does not count. Where so many `intervals` are looked at, all of them hold in 95 of 100 cases.
    ///
    /// Blocks of one session each give intervals for that session; of the path they are where each block has sessions of its own
    /// ([`crate::gated::run_anew`]).
    ///
    /// # Errors
    /// [`NoLedger::Unpaired`], [`NoLedger::Undetermined`].
    ///
    /// # Panics
    /// When there is no such span.
    pub fn growth_since(
        &self,
        other: &Self,
        term: LedgerTerm<'_>,
        intervals: usize,
    ) -> Result<Figure, NoLedger> {
        let of = |one: &Solution| term.of(one);
        self.draws.growth(&other.draws, of, intervals)
    }

    /// The spans that are shorter than the whole interval of the closure: it would not show that one of them was left out.
    pub fn unseen_by_closure(&self) -> impl Iterator<Item = usize> {
        let width = 2.0 * self.closure.left.half_width;
        let spans = self.spans.iter().enumerate();
        spans
            .filter(move |(_, figure)| figure.ns <= width)
            .map(|(span, _)| span)
    }
}

/// The standard deviation.
fn deviation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (count - 1.0)).sqrt()
}

/// The value of Student's t distribution that 2.5 % exceed, divided among so many intervals.
fn student_t(degrees: f64, intervals: usize) -> f64 {
    let beyond = 0.025 / intervals.max(1) as f64;
    // Parameters are valid for one degree or more, and there are at least LEAST_BLOCKS - 1.
    StudentsT::new(0.0, 1.0, degrees).map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - beyond))
}

fn sum(way: &Way, draws: &Draws, splits: &[Split], beside: &[Figure], spans: &[usize]) -> Figure {
    let unknown = Split::unknown(way, splits, beside, spans);
    draws.figure(|one| one.sum(spans), unknown)
}

fn closure(draws: &Draws, spans: impl IntoIterator<Item = usize> + Clone) -> Closure {
    Closure {
        left: draws.figure(|one| one.left(spans.clone()), 0.0),
        of_ns: draws.all.total,
    }
}

#[cfg(test)]
mod tests;
