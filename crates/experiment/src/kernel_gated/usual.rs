//! The usual course of a slice's round trips: the middle half of them by their time.
//!
//! A processor that is taken away now and then, or a wakeup that goes a longer way, lengthens some round trips by many times what
//! is looked for. Means of the spans sum to the mean of the round trips only over the same round trips, so what is left out is not
//! chosen span by span but by the whole round trip's time, by one rule in slices with gates and without. With gates a round trip
//! lasts from one request's passage of the first gate to the next one's: the other end of each span then falls into it whichever
//! span it is.
//!
//! It owns that choice. It must never judge what is left over.

use std::ops::Range;

use tollgate_gate::{Gate, Passage, TickScale, Ticks};
use tollgate_stats::interquartile;

/// A request and its response at a span's gates.
#[derive(Debug, Clone)]
pub(super) struct Trip {
    /// From this request's passage of the first gate to the next one's.
    ns: f64,
    pub(super) messages: [Passage; 2],
}

/// Of the messages that gates saw one after the other, from a request on, the round trips whose request passed the first gate within
/// `counted`. The last has no next request, so it is left out; a message that was missed lengthens the round trip around it, as any
/// other disturbance does.
pub(super) fn trips(
    passages: &[Passage],
    (from, to): (Gate, Gate),
    counted: &Range<u64>,
    scale: TickScale,
) -> Vec<Trip> {
    let mut passed: Vec<(Ticks, &Passage)> = passages
        .iter()
        .filter(|passage| passage.at(to).is_some())
        .filter_map(|passage| Some((passage.at(from)?, passage)))
        .collect();
    passed.sort_by_key(|(from, _)| *from);
    passed
        .windows(3)
        .step_by(2)
        .filter(|three| counted.contains(&three[0].0.0))
        .map(|three| Trip {
            ns: scale.ns_between(three[0].0, three[2].0),
            messages: [*three[0].1, *three[1].1],
        })
        .collect()
}

/// The usual ones.
pub(super) fn usual(trips: Vec<Trip>) -> Vec<Trip> {
    interquartile(trips, |trip| trip.ns)
}

/// What both messages of a round trip take from one gate to the other, in nanoseconds; none of no round trip.
pub(super) fn mean_ns(trips: &[Trip], (from, to): (Gate, Gate), scale: TickScale) -> Option<f64> {
    let passages = trips.iter().flat_map(|trip| &trip.messages);
    let sum: f64 = passages
        .filter_map(|passage| Some(scale.ns_between(passage.at(from)?, passage.at(to)?)))
        .sum();
    (!trips.is_empty()).then(|| sum / trips.len() as f64)
}

/// How long they took as wholes, on average, in nanoseconds; none of no round trip.
pub(super) fn whole_ns(trips: &[Trip]) -> Option<f64> {
    let sum: f64 = trips.iter().map(|trip| trip.ns).sum();
    (!trips.is_empty()).then(|| sum / trips.len() as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_gate::{Event, JoinPlan, KERNEL, PacketId, Recorded, Span, join};

    use super::*;

    const SCALE: TickScale = TickScale::NANOSECONDS;

    fn span() -> &'static Span {
        KERNEL
            .spans()
            .iter()
            .find(|span| span.from == Gate::IpOutBegin)
            .unwrap()
    }

    fn ends() -> (Gate, Gate) {
        (span().from, span().to)
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
        let trips = trips(&passages(&messages), ends(), &(0..u64::MAX), SCALE);
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
        let trips = usual(trips(&passages(&messages), ends(), &(0..u64::MAX), SCALE));
        assert_eq!(trips.len(), 20);
        assert_eq!(mean_ns(&trips, ends(), SCALE), Some(200.0));
        assert_eq!(mean_ns(&[], ends(), SCALE), None);
    }

    #[test]
    fn a_missed_message_is_one_long_round_trip() {
        let mut messages: Vec<(u64, u64)> = (0..41).map(|at| (1_000 * at, 10)).collect();
        messages.remove(15);
        let all = trips(&passages(&messages), ends(), &(0..u64::MAX), SCALE);
        let long = all.iter().filter(|trip| trip.ns > 2_000.0).count();
        assert_eq!((all.len(), long), (19, 1));
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
            let all = trips(&passages(&messages), ends(), &(0..u64::MAX), SCALE);
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
