//! The usual course of a slice's round trips: the middle half of them by their time.
//!
//! A processor that is taken away now and then, or a wakeup that goes a longer way, lengthens some round trips by many times what
//! is looked for. Means of the spans sum to the mean of the round trips only over the same round trips, so what is left out is not
//! chosen span by span but by the whole round trip's time, by one rule in slices with gates and without. With gates a round trip
//! lasts from one request's passage of the first gate to the next one's: the other end of each span then falls into it whichever
//! span it is.
//!
//! It owns that choice, and what it makes of the rounds of a run. It must never judge how close is close enough.

use tollgate_gate::span::Place;
use tollgate_gate::{Passage, Span, SpanTable, TickScale, Ticks};

use crate::stats::{Interval, mean, middle_half};

/// A request and its response at a span's gates.
#[derive(Debug, Clone)]
pub(super) struct Trip {
    /// From this request's passage of the first gate to the next one's.
    ns: f64,
    pub(super) messages: [Passage; 2],
}

/// The round trips that passed both gates of a span. The last has no next request, so it is left out; a message that was missed
/// lengthens the round trip around it, as any other disturbance does.
pub(super) fn trips(passages: &[Passage], span: &Span, scale: TickScale) -> Vec<Trip> {
    let mut passed: Vec<(Ticks, &Passage)> = passages
        .iter()
        .filter(|passage| passage.at(span.to).is_some())
        .filter_map(|passage| Some((passage.at(span.from)?, passage)))
        .collect();
    passed.sort_by_key(|(from, _)| *from);
    passed
        .windows(3)
        .step_by(2)
        .map(|three| Trip {
            ns: scale.ns_between(three[0].0, three[2].0),
            messages: [*three[0].1, *three[1].1],
        })
        .collect()
}

/// The usual ones.
pub(super) fn usual(trips: Vec<Trip>) -> Vec<Trip> {
    middle_half(trips, |trip| trip.ns)
}

/// One turn through all spans, at one size.
#[derive(Debug, Clone)]
pub(super) struct Round {
    /// By span of the table: nanoseconds for each round trip, without what gates cost.
    spans: Vec<Option<f64>>,
    /// The round trip without gates, of each slice.
    ungated: Vec<f64>,
}

impl Round {
    pub(super) fn new(table: SpanTable) -> Self {
        Self {
            spans: vec![None; table.spans().len()],
            ungated: Vec::new(),
        }
    }

    /// Notes a slice with the gates of a span, in which a passage cost `probe_ns`.
    pub(super) fn add_span(
        &mut self,
        index: usize,
        span: &Span,
        trips: &[Trip],
        scale: TickScale,
        probe_ns: f64,
    ) {
        let mut sum = 0.0;
        for passage in trips.iter().flat_map(|trip| &trip.messages) {
            if let (Some(from), Some(to)) = (passage.at(span.from), passage.at(span.to)) {
                sum += scale.ns_between(from, to) - probe_ns;
            }
        }
        if let Some(slot) = self.spans.get_mut(index)
            && !trips.is_empty()
        {
            *slot = Some(sum / trips.len() as f64);
        }
    }

    pub(super) fn add_ungated(&mut self, ns: f64) {
        self.ungated.push(ns);
    }

    /// The round trip less the sum of the spans; none when one of them was not measured.
    fn residual(&self, table: SpanTable) -> Option<f64> {
        let spans = table.spans().iter().zip(&self.spans);
        let sum: Option<f64> = spans
            .filter(|(span, _)| span.place == Place::OnTheWay)
            .map(|(_, ns)| *ns)
            .sum();
        let total = self.ungated.iter().sum::<f64>() / self.ungated.len() as f64;
        Some(total - sum?).filter(|residual| residual.is_finite())
    }
}

/// The mean of what the rounds leave open, with its 95 % interval, in nanoseconds; none of fewer than two whole rounds.
pub(super) fn residual(rounds: &[Round], table: SpanTable) -> Option<(f64, Interval)> {
    let residuals: Vec<f64> = rounds
        .iter()
        .filter_map(|round| round.residual(table))
        .collect();
    let estimate = mean(&residuals).ok()?;
    Some((estimate.value, estimate.interval))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_gate::{Event, Gate, JoinPlan, KERNEL, PacketId, Recorded, join};

    use super::*;

    const SCALE: TickScale = TickScale::NANOSECONDS;

    fn span() -> &'static Span {
        KERNEL
            .spans()
            .iter()
            .find(|span| span.from == Gate::IpOutBegin)
            .unwrap()
    }

    /// Messages that pass the first gate at these times, and the second so much later.
    fn passages(messages: &[(u64, u64)]) -> Vec<Passage> {
        let events: Vec<Event> = messages
            .iter()
            .zip(0..)
            .flat_map(|(&(at, takes), number)| {
                [(at, span().from), (at + takes, span().to)].map(|(at, gate)| Event {
                    ticks: Ticks(at),
                    packet: PacketId(number),
                    gate,
                })
            })
            .collect();
        let recorded = Recorded {
            events: &events,
            lost: 0,
        };
        join([recorded], JoinPlan::new(span().gates(), SCALE)).passages
    }

    #[test]
    fn the_last_one_is_no_round_trip() {
        let messages: Vec<(u64, u64)> = (0..10).map(|at| (1_000 * at, 10)).collect();
        let trips = trips(&passages(&messages), span(), SCALE);
        let times: Vec<f64> = trips.iter().map(|trip| trip.ns).collect();
        // That of 8,000 has no next one.
        assert_eq!(times, [2_000.0; 4]);
    }

    #[test]
    fn a_long_round_trip_goes_with_its_spans() {
        let mut at = 0;
        let mut messages = Vec::new();
        for number in 0..41 {
            messages.push((at, 100));
            // The third response waits long in the span that is measured, and the fifth somewhere else.
            let (inside, outside) = match number {
                5 => (1_000_000, 0),
                9 => (0, 1_000_000),
                _ => (0, 0),
            };
            messages.push((at + 500, 100 + inside));
            at += 1_000 + inside + outside;
        }
        let trips = usual(trips(&passages(&messages), span(), SCALE));
        assert_eq!(trips.len(), 20);
        let mut round = Round::new(KERNEL);
        round.add_span(0, span(), &trips, SCALE, 10.0);
        assert_eq!(round.spans[0], Some(2.0 * (100.0 - 10.0)));
    }

    #[test]
    fn a_missed_message_is_one_long_round_trip() {
        let mut messages: Vec<(u64, u64)> = (0..41).map(|at| (1_000 * at, 10)).collect();
        messages.remove(15);
        let all = trips(&passages(&messages), span(), SCALE);
        let long = all.iter().filter(|trip| trip.ns > 2_000.0).count();
        assert_eq!((all.len(), long), (19, 1));
    }

    #[test]
    fn rounds_tell_what_is_open_and_how_well_that_is_known() {
        let rounds: Vec<Round> = [1_290.0, 1_310.0, 1_300.0]
            .iter()
            .map(|&total| Round {
                // 13 spans on the way; what runs beside it counts for nothing.
                spans: KERNEL.spans().iter().map(|_| Some(99.0)).collect(),
                ungated: vec![total - 1.0, total + 1.0],
            })
            .collect();
        let (value, interval) = residual(&rounds, KERNEL).unwrap();
        assert!((value - 13.0).abs() < 1e-9, "{value}");
        assert!(interval.contains(-10.0) && interval.contains(36.0) && !interval.contains(40.0));
        assert!(residual(&rounds[..1], KERNEL).is_none());
        let mut partial = rounds;
        partial[0].spans[3] = None;
        partial[1].ungated.clear();
        assert!(residual(&partial, KERNEL).is_none());
    }

    proptest! {
        /// Whatever the other spans do, those of the chosen round trips and the rest of these sum to the chosen round trips.
        #[test]
        fn what_is_chosen_sums_to_the_round_trips(
            times in prop::collection::vec((1u64..1_000, 0u64..1_000, 1u64..1_000, 0u64..1_000_000), 2..60)
        ) {
            let mut at = 0;
            let mut messages = Vec::new();
            let mut rest = Vec::new();
            for &(request, between, response, after) in &times {
                messages.push((at, request));
                messages.push((at + request + between, response));
                rest.push(between + after);
                at += request + between + response + after;
            }
            let all = trips(&passages(&messages), span(), SCALE);
            prop_assert_eq!(all.len(), times.len() - 1);
            for trip in usual(all) {
                let inside: f64 = trip.messages.iter()
                    .map(|passage| SCALE.ns_between(passage.at(span().from).unwrap(), passage.at(span().to).unwrap()))
                    .sum();
                prop_assert!(trip.ns >= inside);
                prop_assert!(rest.iter().any(|&rest| (trip.ns - inside - rest as f64).abs() < 1e-6));
            }
        }
    }
}
