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

use super::passage::{InPlace, Lengthened};
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

/// A span's time in each round trip, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Taken {
    /// As it was measured.
    raw: f64,
    /// What of it gates cost, by their twins.
    probes: f64,
}

/// One turn through all spans, at one size.
#[derive(Debug, Clone)]
pub(super) struct Round {
    /// By span of the table: nanoseconds for each round trip.
    spans: Vec<Option<Taken>>,
    /// The round trip without gates, of each slice.
    ungated: Vec<f64>,
    /// How much longer gates made the round trips of a slice.
    pub(super) lengthened: Vec<Lengthened>,
}

impl Round {
    pub(super) fn new(table: SpanTable) -> Self {
        Self {
            spans: vec![None; table.spans().len()],
            ungated: Vec::new(),
            lengthened: Vec::new(),
        }
    }

    /// Notes a slice with the gates of a span, in which a passage cost `probe_ns` by its twin.
    pub(super) fn add_span(
        &mut self,
        index: usize,
        span: &Span,
        trips: &[Trip],
        scale: TickScale,
        probe_ns: f64,
    ) {
        let mut sum = Taken {
            raw: 0.0,
            probes: 0.0,
        };
        for passage in trips.iter().flat_map(|trip| &trip.messages) {
            if let (Some(from), Some(to)) = (passage.at(span.from), passage.at(span.to)) {
                sum.raw += scale.ns_between(from, to);
                sum.probes += probe_ns;
            }
        }
        if let Some(slot) = self.spans.get_mut(index)
            && !trips.is_empty()
        {
            let each = |sum: f64| sum / trips.len() as f64;
            *slot = Some(Taken {
                raw: each(sum.raw),
                probes: each(sum.probes),
            });
        }
    }

    pub(super) fn add_ungated(&mut self, ns: f64) {
        self.ungated.push(ns);
    }

    /// The round trip less the sum of the spans, when a passage costs so many times what its twin shows; none when a span was
    /// not measured.
    fn residual(&self, table: SpanTable, factor: f64) -> Option<f64> {
        let spans = table.spans().iter().zip(&self.spans);
        let sum: Option<f64> = spans
            .filter(|(span, _)| span.place == Place::OnTheWay)
            .map(|(_, taken)| taken.map(|taken| taken.raw - factor * taken.probes))
            .sum();
        let total = self.ungated.iter().sum::<f64>() / self.ungated.len() as f64;
        Some(total - sum?).filter(|residual| residual.is_finite())
    }
}

/// How far the mean of a span over the rounds reaches to either side with 95 % confidence, in nanoseconds for each round trip; none of
/// fewer than two rounds that measured it.
pub(super) fn reach(rounds: &[Round], index: usize) -> Option<f64> {
    let times: Vec<f64> = rounds
        .iter()
        .filter_map(|round| {
            let taken = round.spans.get(index)?.as_ref()?;
            Some(taken.raw - taken.probes)
        })
        .collect();
    let estimate = mean(&times).ok()?;
    Some(estimate.interval.high - estimate.value)
}

/// The mean of what the rounds leave open, with its 95 % interval, in nanoseconds; none of fewer than two whole rounds.
///
/// What a passage costs was found from the same rounds, so the interval is that of the jackknife: each round is left out in turn,
/// of the mean and of what the cost is found from. It reaches further by what of that cost is not known.
pub(super) fn residual(
    rounds: &[Round],
    table: SpanTable,
    in_place: Option<&InPlace>,
) -> Option<(f64, Interval)> {
    let open = |factor: f64| -> Vec<(usize, f64)> {
        let rounds = rounds.iter().enumerate();
        rounds
            .filter_map(|(at, round)| Some((at, round.residual(table, factor)?)))
            .collect()
    };
    let average = |residuals: &[(usize, f64)], without: Option<usize>| {
        let kept = residuals.iter().filter(|(at, _)| Some(*at) != without);
        let (sum, n) = kept.fold((0.0, 0.0), |(sum, n), (_, open)| (sum + open, n + 1.0));
        sum / n
    };
    let all = open(in_place.map_or(1.0, InPlace::factor));
    let (value, n) = (average(&all, None), all.len() as f64);
    let pseudo: Vec<f64> = all
        .iter()
        .map(|&(at, _)| {
            let others = open(in_place.map_or(1.0, |in_place| in_place.without(at)));
            n * value - (n - 1.0) * average(&others, Some(at))
        })
        .collect();
    let spread = mean(&pseudo).ok()?.interval;
    let unknown = in_place.map_or(0.0, |in_place| {
        let [none, whole] = [1.0, in_place.whole()].map(|factor| average(&open(factor), None));
        (whole - none).abs() / 2.0
    });
    let reach = (spread.high - spread.low) / 2.0 + unknown;
    Some((
        value,
        Interval {
            low: value - reach,
            high: value + reach,
        },
    ))
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
        let taken = Taken {
            raw: 200.0,
            probes: 20.0,
        };
        assert_eq!(round.spans[0], Some(taken));
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
                spans: vec![
                    Some(Taken {
                        raw: 109.0,
                        probes: 10.0
                    });
                    KERNEL.spans().len()
                ],
                ungated: vec![total - 1.0, total + 1.0],
                lengthened: Vec::new(),
            })
            .collect();
        let (value, interval) = residual(&rounds, KERNEL, None).unwrap();
        assert!((value - 13.0).abs() < 1e-9, "{value}");
        assert!(interval.contains(-10.0) && interval.contains(36.0) && !interval.contains(40.0));
        assert!(residual(&rounds[..1], KERNEL, None).is_none());
        let wider = InPlace::of(&vec![
            vec![Lengthened {
                by_ns: 12.0,
                by_twins_ns: 10.0
            }];
            3
        ])
        .unwrap();
        let (open, within) = residual(&rounds, KERNEL, Some(&wider)).unwrap();
        let spans = f64::from(
            u8::try_from(
                KERNEL
                    .spans()
                    .iter()
                    .filter(|span| span.place == Place::OnTheWay)
                    .count(),
            )
            .unwrap(),
        );
        // A tenth of each passage's 10 ns goes, and another tenth of it may.
        assert!((open - value - spans).abs() < 1e-9, "{open}");
        let further = (within.high - within.low - interval.high + interval.low) / 2.0;
        assert!((further - spans).abs() < 1e-9, "{further}");
        assert_eq!(reach(&rounds, 3), Some(0.0));
        assert_eq!(reach(&rounds[..1], 3), None);
        let mut partial = rounds;
        partial[0].spans[3] = None;
        partial[1].ungated.clear();
        assert!(residual(&partial, KERNEL, None).is_none());
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
