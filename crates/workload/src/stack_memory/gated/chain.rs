//! What slices with gates and without make of the way of a message. It owns no session and takes no time.

use tollgate_gate::span::Place;
use tollgate_gate::{Clock, Gate, GateSet, JoinStats, STACK, Span};

use super::{FIRST, LAST};

/// The mean of the middle half of some values; none of nothing.
pub(super) fn middle(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let beside = sorted.len() / 4;
    let middle = &sorted[beside..sorted.len() - beside];
    (!middle.is_empty()).then(|| middle.iter().sum::<f64>() / middle.len() as f64)
}

/// What a time was in each of many slices: the mean of the slice, as a share of a round trip in the slice right before it. Gates are
/// seen one after the other, and a machine that is quicker while one of them is looked at would move it against the others; a
/// share does not move with the machine.
///
/// Nothing is left out of a slice, because the times of messages and those of batches of round trips would not lose alike.
#[derive(Debug, Clone, Default)]
pub(super) struct Slices {
    pub(super) shares: Vec<f64>,
    /// Times behind them.
    pub(super) n: u64,
}

impl Slices {
    /// Adds a slice whose times were these, `n` of them, when a round trip took `beside_ns`.
    pub(super) fn add(&mut self, mean_ns: Option<f64>, n: u64, beside_ns: f64) {
        let share = mean_ns.map(|mean_ns| mean_ns / beside_ns);
        self.shares.extend(share.filter(|share| share.is_finite()));
        self.n += n;
    }

    fn merge(&mut self, other: &Self) {
        self.shares.extend_from_slice(&other.shares);
        self.n += other.n;
    }

    /// The mean of the middle half of the slices; none without a slice.
    fn middle_share(&self) -> Option<f64> {
        middle(&self.shares)
    }
}

/// The way of a message, gate by gate: how long after `send()` was called it came to each.
///
/// The spans follow as differences, so they sum to the time from the first gate to the last whatever the processor overlaps;
/// what a reading hides or adds is the same at every gate and falls out.
///
/// Every time is the mean of the middle half of the slices, so slices in which others took the processor away do not move it. It is
/// measured against the round trip beside it through the same code with its gates asleep: the branch that each gate is when nobody
/// wants it lies in every span, and neither it nor a machine whose speed drifts moves the shares.
#[derive(Debug, Clone)]
pub struct Chain {
    /// By gate, how long after the first it was passed.
    pub(super) reached: Vec<(Gate, Slices)>,
    /// By gate, how long after the first the last was passed with that gate between them.
    pub(super) crossed: Vec<(Gate, Slices)>,
    /// A round trip through the code that was compiled without gates, in nanoseconds, slice by slice.
    pub(super) ungated_ns: Vec<f64>,
    /// A round trip with all gates asleep, as a share of one of those.
    pub(super) asleep: Slices,
    /// A round trip with two gates.
    pub(super) gated: Slices,
    /// From the first gate to the first gate of the message that answers; none where only some round trips are recorded.
    pub(super) turns: Slices,
    pub(super) stats: JoinStats,
    pub(super) recorded: u64,
    clock: Clock,
}

impl Chain {
    pub(super) fn new(clock: Clock) -> Self {
        let gates = STACK.gates().without(FIRST);
        let nothing = |gates: GateSet| gates.iter().map(|gate| (gate, Slices::default())).collect();
        Self {
            reached: nothing(gates),
            crossed: nothing(gates.without(LAST)),
            ungated_ns: Vec::new(),
            asleep: Slices::default(),
            gated: Slices::default(),
            turns: Slices::default(),
            stats: JoinStats::default(),
            recorded: 0,
            clock,
        }
    }

    /// Adds all that another run of the same spec saw.
    pub fn merge(&mut self, other: &Self) {
        // Both list the same gates in the same order.
        let reached = self.reached.iter_mut().zip(&other.reached);
        let crossed = self.crossed.iter_mut().zip(&other.crossed);
        for ((_, times), (_, more)) in reached.chain(crossed) {
            times.merge(more);
        }
        self.ungated_ns.extend_from_slice(&other.ungated_ns);
        self.asleep.merge(&other.asleep);
        self.gated.merge(&other.gated);
        self.turns.merge(&other.turns);
        self.stats.merge(&other.stats);
        self.recorded += other.recorded;
    }

    /// The mean time from the first gate to `gate` in nanoseconds, the cost of a passage subtracted; 0 at the first gate, none at a gate that no message passed.
    pub fn reached_ns(&self, gate: Gate) -> Option<f64> {
        if gate == FIRST {
            return Some(0.0);
        }
        let (_, times) = self.reached.iter().find(|(other, _)| *other == gate)?;
        Some(self.ns(times)? - self.passage_ns()?)
    }

    /// The time of a span of one message, in nanoseconds. It may come out a little below zero.
    pub fn span_ns(&self, span: &Span) -> Option<f64> {
        Some(self.reached_ns(span.to)? - self.reached_ns(span.from)?)
    }

    /// The time of the span of [`STACK`] at `index` less the spans inside it: what it adds to [`Self::message_ns`]. A span
    /// inside that no message passed takes nothing.
    pub fn own_ns(&self, index: usize) -> Option<f64> {
        let spans = STACK.spans();
        let whole = self.span_ns(spans.get(index)?)?;
        let inside = STACK.inner(index);
        let inside: f64 = inside
            .filter_map(|inner| self.span_ns(spans.get(inner)?))
            .sum();
        Some(whole - inside)
    }

    /// The sum of all spans on the way, in nanoseconds; none when one of them was not measured. It is
    /// [`Self::message_ns`], added up from its parts.
    pub fn sum_ns(&self) -> Option<f64> {
        STACK
            .spans()
            .iter()
            .filter(|span| span.place == Place::OnTheWay)
            .map(|span| self.span_ns(span))
            .sum()
    }

    /// The time of a whole message, from `send()` to the return of the read, in nanoseconds.
    pub fn message_ns(&self) -> Option<f64> {
        self.reached_ns(LAST)
    }

    /// The time of a round trip in slices without gates, in nanoseconds.
    pub fn ungated_ns(&self) -> Option<f64> {
        middle(&self.ungated_ns)
    }

    /// A time in nanoseconds, on the machine as it usually was, through code without gates.
    fn ns(&self, slices: &Slices) -> Option<f64> {
        Some(slices.middle_share()? * self.ungated_ns()?)
    }

    /// What an application does between the return of its read and its next `send()`, in nanoseconds; none where only some round
    /// trips were recorded.
    pub fn application_ns(&self) -> Option<f64> {
        Some(self.ns(&self.turns)? - self.passage_ns()? - self.message_ns()?)
    }

    /// What two messages and the applications' turns leave of the ungated round trip, signed, in nanoseconds: what else gates disturb.
    /// Where the turns are not known they are in it.
    pub fn unattributed_ns(&self) -> Option<f64> {
        let application = self.application_ns().unwrap_or(0.0);
        Some(self.ungated_ns()? - 2.0 * (self.message_ns()? + application))
    }

    /// The unattributed share of the ungated round trip, signed; none without a round trip longer than nothing.
    pub fn closure(&self) -> Option<f64> {
        let total = self.ungated_ns().filter(|&total| total > 0.0)?;
        Some(self.unattributed_ns()? / total)
    }

    /// How many times as long a round trip takes with all gates asleep as through code without any; none without a slice.
    pub fn asleep(&self) -> Option<f64> {
        self.asleep.middle_share()
    }

    /// What two active gates and the recording cost: the gated round trip over the ungated one, less 1.
    pub fn perturbation(&self) -> Option<f64> {
        Some(self.gated.middle_share()? * self.asleep()? - 1.0)
    }

    /// What a passage of a gate adds in place, in nanoseconds; none where no message passed a gate between the first and the last. It
    /// may be much less than reading the clock takes by itself, where the processor goes on with what comes behind.
    pub fn probe_ns(&self) -> Option<f64> {
        Some(self.passage_ns()? * self.asleep()?)
    }

    /// The same as a part of times that are brought to code without gates: by how much the way from the first gate to the last is longer
    /// with another between them, on average over the gates that messages pass.
    fn passage_ns(&self) -> Option<f64> {
        let (_, last) = self.reached.iter().find(|(gate, _)| *gate == LAST)?;
        let without = self.ns(last)?;
        let crossed = self.crossed.iter();
        let costs: Vec<f64> = crossed
            .filter_map(|(_, times)| Some(self.ns(times)? - without))
            .collect();
        (!costs.is_empty()).then(|| costs.iter().sum::<f64>() / costs.len() as f64)
    }

    /// What became of the events: lost ones, the join rate.
    pub const fn join_stats(&self) -> JoinStats {
        self.stats
    }

    /// The messages that were timed to the gate that fewest were timed to; 0 when a gate was not passed.
    pub fn least_messages(&self) -> u64 {
        self.reached
            .iter()
            .map(|(_, times)| times.n)
            .min()
            .unwrap_or(0)
    }

    /// The round trips that were recorded.
    pub const fn recorded(&self) -> u64 {
        self.recorded
    }

    /// The clock that took all times.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }
}
