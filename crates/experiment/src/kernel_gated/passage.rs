//! What a passage of a gate costs in the run.
//!
//! A twin shows what a program costs that has just run: its code, the headers it reads and the memory it writes are warm. The gate
//! itself finds them colder, and what runs behind it finds its own things colder for it. Both are seen in the round trips, which are
//! longer with gates than without, slice by slice; how much longer against what the twins show is one number for a run, pooled
//! over spans and sizes, since a single slice tells it poorly.
//!
//! How much of what lies beyond the twin falls into the span and how much behind it, nothing tells. So a passage is taken to cost
//! the middle between none of it and all, and half of it is an error that no number of rounds makes smaller.
//!
//! The spans take no part in this, so their sum is still held against a total that knows nothing of them. It owns what a passage
//! costs; it must never look at that sum.

use std::collections::BTreeMap;

use tollgate_gate::{Event, Gate, GateSet};

use crate::stats::middle_half;

/// Gates whose hooks are called for more than the messages: for every system call, and whenever a thread runs. What they make of
/// a round trip lies mostly outside the span that they bound.
const BUSY: GateSet = GateSet::of(&[
    Gate::SocketOutBegin,
    Gate::SocketOutEnd,
    Gate::ReaderRuns,
    Gate::SocketInEnd,
    Gate::ApplicationEnd,
]);

/// How much longer the round trips of a slice were with gates, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lengthened {
    /// As it was measured.
    pub(super) by_ns: f64,
    /// As the twins would have it.
    pub(super) by_twins_ns: f64,
}

/// What the passages of a slice cost in each round trip by their twins; none where a gate's twin was not measured yet, or its
/// hook is called for more than the messages.
pub(super) fn by_twins(
    events: &[Event],
    round_trips: u64,
    probes: &BTreeMap<Gate, f64>,
) -> Option<f64> {
    let costs = events.iter().map(|event| {
        let known = probes.get(&event.gate).copied();
        known.filter(|_| !BUSY.contains(event.gate))
    });
    let sum: Option<f64> = costs.sum();
    sum.map(|sum| sum / round_trips as f64)
        .filter(|ns| *ns > 0.0)
}

/// What a passage costs against what its twin shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InPlace {
    whole: f64,
    /// The same without one of the rounds.
    without: Vec<f64>,
}

impl InPlace {
    /// From the slices of each round; none when a round more or less decides whether there is anything to tell it from.
    pub(super) fn of(rounds: &[Vec<Lengthened>]) -> Option<Self> {
        let leaving_out = |left_out: Option<usize>| {
            let rounds = rounds.iter().enumerate();
            let kept = rounds.filter(|(at, _)| Some(*at) != left_out);
            factor(kept.flat_map(|(_, slices)| slices.iter().copied()))
        };
        Some(Self {
            whole: leaving_out(None)?,
            without: (0..rounds.len())
                .map(|at| leaving_out(Some(at)))
                .collect::<Option<_>>()?,
        })
    }

    /// What is taken as the cost of a passage.
    pub(crate) const fn factor(&self) -> f64 {
        f64::midpoint(1.0, self.whole)
    }

    /// The same without one of the rounds; of all when there was no such round.
    pub(super) fn without(&self, round: usize) -> f64 {
        f64::midpoint(1.0, self.without.get(round).copied().unwrap_or(self.whole))
    }

    /// How much longer the round trips are with gates, against what the twins show.
    pub(crate) const fn whole(&self) -> f64 {
        self.whole
    }
}

/// The slices that are usual for the run; a disturbed one would count for dozens of the others.
fn factor(slices: impl Iterator<Item = Lengthened>) -> Option<f64> {
    let usual = middle_half(slices.collect(), |slice| slice.by_ns / slice.by_twins_ns);
    let by: f64 = usual.iter().map(|slice| slice.by_ns).sum();
    let by_twins: f64 = usual.iter().map(|slice| slice.by_twins_ns).sum();
    Some(by / by_twins).filter(|factor| factor.is_finite())
}

#[cfg(test)]
mod tests {
    use tollgate_gate::{PacketId, Ticks};

    use super::*;

    fn event(gate: Gate) -> Event {
        Event {
            ticks: Ticks(0),
            packet: PacketId(0),
            gate,
        }
    }

    #[test]
    fn twins_tell_of_packets_alone() {
        let probes = BTreeMap::from([
            (Gate::IpOutBegin, 40.0),
            (Gate::DeviceQueueIn, 60.0),
            (Gate::ReaderRuns, 50.0),
        ]);
        let both = [Gate::IpOutBegin, Gate::DeviceQueueIn].map(event);
        assert_eq!(by_twins(&both, 2, &probes), Some(50.0));
        let unknown = [Gate::IpOutBegin, Gate::DriverOutBegin].map(event);
        assert_eq!(by_twins(&unknown, 2, &probes), None);
        let busy = [Gate::IpOutBegin, Gate::ReaderRuns].map(event);
        assert_eq!(by_twins(&busy, 2, &probes), None);
        assert_eq!(by_twins(&[], 2, &probes), None);
    }

    #[test]
    fn a_disturbed_slice_does_not_count() {
        let usual = |by_ns| Lengthened {
            by_ns,
            by_twins_ns: 200.0,
        };
        let round = vec![usual(240.0), usual(250.0), usual(260.0), usual(250.0)];
        let mut rounds = vec![round; 4];
        let cost = InPlace::of(&rounds).unwrap();
        assert_eq!((cost.whole(), cost.factor()), (1.25, 1.125));
        rounds[2][1] = usual(1e6);
        let cost = InPlace::of(&rounds).unwrap();
        assert!((cost.whole() - 1.25).abs() < 0.01);
        assert!((cost.without(2) - 1.125).abs() < 1e-9);
    }

    #[test]
    fn one_round_tells_nothing() {
        let slice = Lengthened {
            by_ns: 1.0,
            by_twins_ns: 1.0,
        };
        assert_eq!(InPlace::of(&[vec![slice]]), None);
        assert_eq!(InPlace::of(&[]), None);
        assert_eq!(InPlace::of(&[vec![slice], Vec::new()]), None);
    }
}
