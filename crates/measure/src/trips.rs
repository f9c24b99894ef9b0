//! From passages of messages to the means of a slice.
//!
//! A round trip is a request and its response. Gates tell it from the request's passage of their first gate to that of the next
//! request; so the times between neighbouring gates, round the end of the way, sum to it. The interquartile half of the round
//! trips is chosen by the whole round trip, and all means are over the same round trips: so means sum as well.
//!
//! It must never choose a round trip by the time between two of its gates.

use tollgate_gate::{GateSet, Passage, TickScale, Ticks};

use crate::way::Way;

/// Mean of the interquartile half of some round trips, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub ns: f64,
    /// Round trips in it.
    pub count: u32,
}

/// One slice: round trips that were run one after the other with one set of gates.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The block that it belongs to.
    pub block: u32,
    /// The gates that were attached.
    pub set: GateSet,
    /// Interquartile mean of the round trips by the application's clock.
    pub total: Mean,
    /// For each gate of the set, in the order of the way, the mean time to the next gate of the set, both messages of a round
    /// trip together, in nanoseconds. The last one leads round the end of the way. Empty for the empty set.
    pub between: Vec<f64>,
}

/// The means between the gates of a set; none when fewer than four round trips are whole.
pub fn between(
    way: &Way,
    set: GateSet,
    passages: &[Passage],
    scale: TickScale,
) -> Option<Vec<f64>> {
    let gates: Vec<_> = way
        .places(set)
        .into_iter()
        .map(|place| way.gates()[place])
        .collect();
    let mut messages: Vec<Vec<Ticks>> = passages
        .iter()
        .filter_map(|passage| gates.iter().map(|&gate| passage.at(gate)).collect())
        .collect();
    messages.sort_by_key(|times| times.first().copied());
    let trips = messages.windows(3).step_by(2).map(|three| {
        let [request, response, next] = three else {
            unreachable!("windows of three")
        };
        between_gates(request, response, scale)
            .zip(between_gates(response, next, scale))
            .map(|(there, back)| there + back)
            .collect::<Vec<f64>>()
    });
    let mut trips: Vec<(f64, Vec<f64>)> = trips.map(|parts| (parts.iter().sum(), parts)).collect();
    trips.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = interquartile(&trips)?;
    let mut means = vec![0.0; gates.len()];
    for (_, parts) in half {
        for (mean, part) in means.iter_mut().zip(parts) {
            *mean += part / half.len() as f64;
        }
    }
    Some(means)
}

/// Times from each gate to the next one, the last to the first gate of the next message.
fn between_gates<'a>(
    message: &'a [Ticks],
    next: &'a [Ticks],
    scale: TickScale,
) -> impl Iterator<Item = f64> + 'a {
    let ends = message.iter().skip(1).chain(next.first());
    message
        .iter()
        .zip(ends)
        .map(move |(&from, &to)| scale.ns_between(from, to))
}

/// Interquartile mean of round trips; none of fewer than four.
pub fn mean(mut round_trips_ns: Vec<f64>) -> Option<Mean> {
    round_trips_ns.sort_by(f64::total_cmp);
    let half = interquartile(&round_trips_ns)?;
    Some(Mean {
        ns: half.iter().sum::<f64>() / half.len() as f64,
        count: u32::try_from(half.len()).unwrap_or(u32::MAX),
    })
}

/// The half between the quartiles of what is sorted; none of fewer than four.
fn interquartile<T>(sorted: &[T]) -> Option<&[T]> {
    let quarter = sorted.len() / 4;
    (quarter > 0).then(|| &sorted[quarter..sorted.len() - quarter])
}

#[cfg(test)]
mod tests {
    use tollgate_gate::{Event, Gate, JoinPlan, PacketId, Recorded, join};

    use super::*;

    const SCALE: TickScale = TickScale::NANOSECONDS;
    const GATES: [Gate; 3] = [Gate::SocketOutBegin, Gate::SocketQueued, Gate::SocketInEnd];

    fn way() -> Way {
        Way::new(GATES.to_vec()).unwrap()
    }

    /// Passages of messages that begin at these times and take so long to each next gate.
    fn passages(messages: &[(u64, [u64; 2])]) -> Vec<Passage> {
        let events: Vec<Event> = messages
            .iter()
            .zip(0..)
            .flat_map(|(&(at, [first, second]), number)| {
                let times = [at, at + first, at + first + second];
                times.into_iter().zip(GATES).map(move |(at, gate)| Event {
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
        join([recorded], JoinPlan::new(GateSet::of(&GATES), SCALE)).passages
    }

    #[test]
    fn means_between_gates_sum_to_the_round_trips() {
        // A message takes 100 and 30, and the application 20; every ninth round trip takes much longer somewhere.
        let mut at = 0;
        let mut messages = Vec::new();
        for trip in 0..40 {
            for _ in 0..2 {
                let late = if trip % 9 == 4 { 1_000_000 } else { 0 };
                messages.push((at, [100, 30 + late]));
                at += 150 + late;
            }
        }
        let set = GateSet::of(&GATES);
        let means = between(&way(), set, &passages(&messages), SCALE).unwrap();
        assert_near(&means, &[200.0, 60.0, 40.0]);
        let without = set.without(Gate::SocketQueued);
        let means = between(&way(), without, &passages(&messages), SCALE).unwrap();
        assert_near(&means, &[260.0, 40.0]);
    }

    fn assert_near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        let near = found
            .iter()
            .zip(expected)
            .all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near, "{found:?}");
    }

    #[test]
    fn few_round_trips_have_no_mean() {
        assert_eq!(mean(vec![1.0, 2.0, 3.0]), None);
        let mean = mean(vec![1_000.0, 3.0, 2.0, 1.0]).unwrap();
        assert_eq!((mean.ns, mean.count), (2.5, 2));
        assert_eq!(between(&way(), GateSet::of(&GATES), &[], SCALE), None);
    }
}
