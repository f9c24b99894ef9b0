//! From passages of messages to the means of a slice.
//!
//! A round trip is a request and its response. Gates tell it from the request's passage of their first gate to that of the next
//! request; so the times between neighbouring gates, round the end of the way, sum to it. The interquartile half of the round
//! trips is chosen by the whole round trip, and all means are over the same round trips: so means sum as well.
//!
//! It must never choose a round trip by the time between two of its gates.

use tollgate_gate::{GateSet, Passage, TickScale, Ticks};

use crate::schedule::Probes;
use crate::way::Way;

/// Mean of the interquartile half of some round trips, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub ns: f64,
    /// Round trips in it, or batches of them.
    pub count: u32,
}

/// One slice: round trips that were run one after the other with one set of gates.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// The block that it belongs to.
    pub block: u32,
    /// The gates that were there.
    pub probes: Probes,
    /// Interquartile mean of the round trips by the application's clock.
    pub total: Mean,
    /// For each gate of the set, in the order of the way, the mean time to the next gate of the set, both messages of a round
    /// trip together, in nanoseconds. The last one leads round the end of the way. Empty where no gate records.
    pub between: Vec<f64>,
}

/// The means between the gates of a set, for each round trip of a batch; none when fewer than four batches are whole.
///
/// A batch is as many round trips as one reading of the application's clock spans: what is chosen by whole batches there is
/// chosen by whole batches here.
pub fn between(
    way: &Way,
    set: GateSet,
    passages: &[Passage],
    batch: usize,
    scale: TickScale,
) -> Option<Vec<f64>> {
    let places = way.places(set).into_iter();
    let gates: Vec<_> = places.map(|place| way.gates()[place]).collect();
    let mut messages: Vec<Vec<Ticks>> = passages
        .iter()
        .filter_map(|passage| gates.iter().map(|&gate| passage.at(gate)).collect())
        .collect();
    messages.sort_by_key(|times| times.first().copied());
    // A message's last time leads to the first gate of the next one.
    let messages: Vec<Vec<f64>> = messages
        .windows(2)
        .map(|pair| between_gates(&pair[0], &pair[1], scale).collect())
        .collect();
    let mut batches: Vec<(f64, Vec<f64>)> = messages
        .chunks_exact(2 * batch)
        .map(|messages| {
            let mut sums = vec![0.0; gates.len()];
            for parts in messages {
                for (sum, part) in sums.iter_mut().zip(parts) {
                    *sum += part / batch as f64;
                }
            }
            (sums.iter().sum(), sums)
        })
        .collect();
    batches.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = interquartile(&batches)?;
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
        let means = between(&way(), set, &passages(&messages), 1, SCALE).unwrap();
        assert_near(&means, &[200.0, 60.0, 40.0]);
        let without = set.without(Gate::SocketQueued);
        let means = between(&way(), without, &passages(&messages), 1, SCALE).unwrap();
        assert_near(&means, &[260.0, 40.0]);
    }

    #[test]
    fn batches_are_chosen_as_a_whole() {
        // In batches of four, each fourth round trip takes 60 more at its second gate; one batch is held up at its first.
        let mut messages = Vec::new();
        let mut at = 0;
        for trip in 0..37 {
            let more = [0, 0, 0, 60][trip % 4];
            let late = if trip == 11 { 1_000_000 } else { 0 };
            for parts in [[100 + late, 30], [100, 30 + more]] {
                messages.push((at, parts));
                at += parts[0] + parts[1] + 20;
            }
        }
        let set = GateSet::of(&GATES);
        let means = between(&way(), set, &passages(&messages), 4, SCALE).unwrap();
        assert_near(&means, &[200.0, 75.0, 40.0]);
        let single = between(&way(), set, &passages(&messages), 1, SCALE).unwrap();
        assert_near(&single, &[200.0, 60.0, 40.0]);
        assert_eq!(
            between(&way(), set, &passages(&messages[..24]), 4, SCALE),
            None
        );
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
        assert_eq!(between(&way(), GateSet::of(&GATES), &[], 1, SCALE), None);
    }
}
