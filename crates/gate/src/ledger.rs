//! The ledger: what each span costs, and whether the sum explains the total that was measured without gates.
//!
//! A ledger is about one *unit*, a message or a round trip ([`Scope`]). Slices of a run fill it: a [`Slice`] says which
//! gates were active, over how many units, and what a passage cost; its passages fill the rows whose two gates were
//! active. So the slices of a rotation each fill other rows, and ledgers of several repetitions [merge](Ledger::merge).
//!
//! How it adds up:
//! - A row's time *per unit* is the sum of its passages over the units of the slices that measured it. A message of several
//!   segments passes TCP several times, and all of them count.
//! - A row's *own* time is its time less that of the spans inside it. Own times sum to the times of the spans on the way.
//! - The probe's cost is subtracted from each span: once per passage, and once more for every gate that was passed inside.
//!   Percentiles are shifted by the row's mean of that. Both figures are kept. A net time may come out below zero where a
//!   span is shorter than a step of the clock.
//! - *Unattributed* is the ungated total less the sum of the spans. It is negative when the spans overlap (segments of one
//!   message under way at once) or when gates disturbed what they measured by more than their own cost.
//!
//! This module never decides how close is close enough; the caller does.

mod wolman;

use crate::distribution::{Distribution, Summary};
use crate::id::Kind;
use crate::join::{JoinStats, Joined, Passage};
use crate::set::GateSet;
use crate::span::{Place, Span, SpanTable};
use crate::ticks::TickScale;

pub use wolman::{WolmanLabel, WolmanLine};

/// What a ledger is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// One message, from `send()` to the return of `recv()`.
    Message,
    /// A message and its answer.
    RoundTrip,
}

impl Scope {
    /// The messages in a unit.
    pub const fn messages(self) -> u32 {
        match self {
            Self::Message => 1,
            Self::RoundTrip => 2,
        }
    }
}

/// Which number of a distribution stands for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Statistic {
    /// The mean: the only one whose parts sum to the whole exactly.
    Mean,
    /// The mean of all but the longest hundredth: nearly unmoved by a processor that was taken away now and then, and
    /// not bound to the steps of the clock. Parts sum to the whole nearly.
    TrimmedMean,
    /// The median: unmoved, but a whole number of the clock's steps, which is coarse for short spans. Parts sum to the
    /// whole only roughly.
    Median,
}

impl Statistic {
    fn of(self, distribution: &Distribution) -> Option<f64> {
        match self {
            Self::Mean => distribution.mean_ns(),
            Self::TrimmedMean => distribution.trimmed_mean_ns(),
            Self::Median => distribution.quantile_ns(0.5),
        }
    }
}

/// A part of a run in which the same gates were active.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// The gates that were active.
    pub active: GateSet,
    /// The units (messages or round trips) whose packets were recorded; with sampling those that were picked.
    pub units: u64,
    /// The cost of one passage in nanoseconds, by a twin in place ([`twin_cost`](crate::record::twin_cost)).
    pub probe_ns: f64,
    /// The conversion of the ticks.
    pub scale: TickScale,
}

/// What was seen of one span.
#[derive(Clone, Debug, Default)]
struct Tally {
    /// As measured.
    raw: Distribution,
    /// The probe's cost within all of them.
    probe_sum_ns: f64,
    units: u64,
    unmatched: u64,
}

impl Tally {
    fn add(&mut self, span: &Span, slice: &Slice, passage: &Passage) {
        match (passage.at(span.from), passage.at(span.to)) {
            (Some(from), Some(to)) => {
                let raw = slice.scale.ns_between(from, to);
                let probes = 1 + passage.seen_between(span.from, span.to);
                self.raw.record_ns(raw);
                self.probe_sum_ns += slice.probe_ns * probes as f64;
            }
            (None, None) => {}
            _ => self.unmatched += 1,
        }
    }

    fn merge(&mut self, other: &Self) {
        self.raw.merge(&other.raw);
        self.probe_sum_ns += other.probe_sum_ns;
        self.units += other.units;
        self.unmatched += other.unmatched;
    }

    /// The probe's cost in a passage; none without a passage.
    fn probe_mean_ns(&self) -> Option<f64> {
        (self.raw.n() > 0).then(|| self.probe_sum_ns / self.raw.n() as f64)
    }

    /// None when no slice measured the span; zero when none of the units passed it.
    fn per_unit_ns(&self, statistic: Statistic) -> Option<f64> {
        (self.units > 0).then(|| {
            let passages_per_unit = self.raw.n() as f64 / self.units as f64;
            let raw = statistic.of(&self.raw).unwrap_or(0.0);
            let probe = self.probe_mean_ns().unwrap_or(0.0);
            (raw - probe) * passages_per_unit
        })
    }
}

/// A row of the ledger.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The span.
    pub span: &'static Span,
    /// The time of one passage as measured, spans inside included; none when no passage was seen.
    pub raw: Option<Summary>,
    /// The mean cost of the probe in it; none when no passage was seen.
    pub probe_mean_ns: Option<f64>,
    /// The time of one passage less the probe's cost; none when no passage was seen.
    pub net: Option<Summary>,
    /// The mean time per unit, spans inside included; none when no slice measured the span.
    pub per_unit_ns: Option<f64>,
    /// The same less the spans inside it: what the row adds to the sum. Where a span inside was not measured, its time
    /// stays here.
    pub own_per_unit_ns: Option<f64>,
    /// Packets that were seen at one of the two gates only.
    pub unmatched: u64,
    /// Passages that ran backwards, because two processors noted the ends in the wrong order; they count as they are in
    /// the mean, and as zero in the percentiles.
    pub backwards: u64,
}

/// Two ledgers that are about different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Their spans differ.
    #[error("the ledgers have different spans")]
    Spans,
    /// One is about messages and the other about round trips.
    #[error("one ledger is about messages and the other about round trips")]
    Scope,
}

/// The spans of a message or a round trip.
#[derive(Clone, Debug)]
pub struct Ledger {
    table: SpanTable,
    scope: Scope,
    tallies: Vec<Tally>,
    ungated: Distribution,
    gated: Distribution,
    stats: JoinStats,
}

impl Ledger {
    /// An empty ledger over the spans of `table`.
    pub fn new(table: SpanTable, scope: Scope) -> Self {
        Self {
            table,
            scope,
            tallies: vec![Tally::default(); table.spans().len()],
            ungated: Distribution::new(),
            gated: Distribution::new(),
            stats: JoinStats::default(),
        }
    }

    /// Adds what a slice saw. It fills the rows whose two gates were active.
    pub fn add_slice(&mut self, slice: &Slice, joined: &Joined) {
        for (span, tally) in self.table.spans().iter().zip(&mut self.tallies) {
            if slice.active.contains(span.from) && slice.active.contains(span.to) {
                tally.units += slice.units;
                for passage in &joined.passages {
                    tally.add(span, slice, passage);
                }
            }
        }
        self.stats.merge(&joined.stats);
    }

    /// Adds the time of one unit in nanoseconds, measured in a slice without gates.
    pub fn add_ungated_ns(&mut self, ns: f64) {
        self.ungated.record_ns(ns);
    }

    /// Adds the time of one unit in nanoseconds, measured in a slice with gates.
    pub fn add_gated_ns(&mut self, ns: f64) {
        self.gated.record_ns(ns);
    }

    /// Adds all that another ledger of the same kind saw.
    ///
    /// # Errors
    ///
    /// When the other is about other spans or another unit; nothing is added then.
    pub fn merge(&mut self, other: &Self) -> Result<(), MergeError> {
        if self.table != other.table {
            return Err(MergeError::Spans);
        }
        if self.scope != other.scope {
            return Err(MergeError::Scope);
        }
        for (tally, more) in self.tallies.iter_mut().zip(&other.tallies) {
            tally.merge(more);
        }
        self.ungated.merge(&other.ungated);
        self.gated.merge(&other.gated);
        self.stats.merge(&other.stats);
        Ok(())
    }

    /// Counts each passage of the span at an index so far as costing so many times what [`Slice::probe_ns`] said, when that has been found out.
    pub fn scale_probes(&mut self, factor: impl Fn(usize) -> f64) {
        for (index, tally) in self.tallies.iter_mut().enumerate() {
            tally.probe_sum_ns *= factor(index);
        }
    }

    /// What the ledger is about.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Its spans.
    pub fn table(&self) -> SpanTable {
        self.table
    }

    /// The rows in the order of the way, each span followed by those inside it.
    pub fn rows(&self) -> Vec<Row> {
        self.table
            .spans()
            .iter()
            .zip(&self.tallies)
            .enumerate()
            .map(|(index, (span, tally))| {
                let raw = tally.raw.summary();
                let probe_mean_ns = tally.probe_mean_ns();
                Row {
                    span,
                    raw,
                    probe_mean_ns,
                    net: raw.zip(probe_mean_ns).map(|(raw, probe)| raw.less(probe)),
                    per_unit_ns: tally.per_unit_ns(Statistic::Mean),
                    own_per_unit_ns: self.own_per_unit_ns(index, Statistic::Mean),
                    unmatched: tally.unmatched,
                    backwards: tally.raw.below_zero(),
                }
            })
            .collect()
    }

    /// The time per unit of the span at `index`, less the spans inside it; none when it was not measured.
    pub fn own_per_unit_ns(&self, index: usize, statistic: Statistic) -> Option<f64> {
        let whole = self.tallies.get(index)?.per_unit_ns(statistic)?;
        let inside: f64 = self
            .table
            .inner(index)
            .filter_map(|inner| self.tallies.get(inner)?.per_unit_ns(statistic))
            .sum();
        Some(whole - inside)
    }

    /// The spans on the way that no slice measured; their time is in the unattributed row.
    pub fn missing(&self) -> Vec<&'static Span> {
        self.table
            .spans()
            .iter()
            .zip(&self.tallies)
            .filter(|(span, tally)| span.place == Place::OnTheWay && tally.units == 0)
            .map(|(span, _)| span)
            .collect()
    }

    /// The sum of the spans on the way, per unit; none when no span was measured.
    pub fn sum_ns(&self, statistic: Statistic) -> Option<f64> {
        self.sum_of(
            |span| span.place == Place::OnTheWay,
            |index| self.tallies[index].per_unit_ns(statistic),
        )
    }

    /// The own times of all spans of one kind, per unit; none when none was measured. Both kinds together give
    /// [`Self::sum_ns`].
    pub fn kind_ns(&self, kind: Kind, statistic: Statistic) -> Option<f64> {
        self.sum_of(
            |span| span.kind == kind && span.place != Place::Beside,
            |index| {
                let outer = self.table.outer(index);
                // Without its outer span an inner one is not part of the sum.
                let counts = outer.is_none_or(|outer| self.tallies[outer].units > 0);
                counts
                    .then(|| self.own_per_unit_ns(index, statistic))
                    .flatten()
            },
        )
    }

    fn sum_of(
        &self,
        counts: impl Fn(&Span) -> bool,
        ns: impl Fn(usize) -> Option<f64>,
    ) -> Option<f64> {
        self.table
            .spans()
            .iter()
            .enumerate()
            .filter(|(_, span)| counts(span))
            .filter_map(|(index, _)| ns(index))
            .fold(None, |sum, ns| Some(sum.unwrap_or(0.0) + ns))
    }

    /// The total that was measured without gates; none when none was.
    pub fn ungated(&self) -> Option<Summary> {
        self.ungated.summary()
    }

    /// The total that was measured with gates; none when none was.
    pub fn gated(&self) -> Option<Summary> {
        self.gated.summary()
    }

    /// The ungated total less the sum of the spans, per unit. It may be negative. None without a total or without a
    /// span.
    pub fn unattributed_ns(&self, statistic: Statistic) -> Option<f64> {
        Some(statistic.of(&self.ungated)? - self.sum_ns(statistic)?)
    }

    /// The unattributed share of the ungated total, signed; none without a total above zero or without a span.
    pub fn closure_by(&self, statistic: Statistic) -> Option<f64> {
        let total = statistic.of(&self.ungated).filter(|&total| total > 0.0)?;
        Some(self.unattributed_ns(statistic)? / total)
    }

    /// [`Self::closure_by`] the mean.
    pub fn closure(&self) -> Option<f64> {
        self.closure_by(Statistic::Mean)
    }

    /// Whether the sum of the spans lies within a share of `within` (0.02 is 2 %) of the ungated total. A ledger that
    /// has no total or no span does not close.
    pub fn closes(&self, within: f64) -> bool {
        self.closure()
            .is_some_and(|residual| residual.abs() <= within)
    }

    /// What the gates themselves cost: the gated total over the ungated one, less 1. None without both totals.
    pub fn perturbation(&self, statistic: Statistic) -> Option<f64> {
        let ungated = statistic.of(&self.ungated).filter(|&total| total > 0.0)?;
        Some(statistic.of(&self.gated)? / ungated - 1.0)
    }

    /// What became of the events: lost ones, the join rate.
    pub fn join_stats(&self) -> JoinStats {
        self.stats
    }

    /// Events that the recorders had no room for.
    pub fn lost_events(&self) -> u64 {
        self.stats.lost
    }

    /// The share of passages seen at both ends of what was active; none when there is no passage.
    pub fn join_rate(&self) -> Option<f64> {
        self.stats.join_rate()
    }
}

#[cfg(test)]
mod tests;
