//! From passages of messages to the means of a slice.
//!
//! A round trip is a request and its response. Gates tell it from the request's passage of their first gate to that of the next
//! request; so the times between neighbouring gates, round the end of the way, sum to it. Over two hosts the clocks' offset falls
//! out of the sum of the times there and back, which is one time. The interquartile half of the round trips is chosen by the whole round trip, and all means are over the same round trips: so means sum as well.
//!
//! It must never choose a round trip by the time between two of its gates.

use std::collections::{HashMap, HashSet};

use tollgate_gate::{PacketId, Passage, TickScale, Ticks};

use crate::packets::Crossings;
use crate::schedule::Probes;
use crate::way::{Station, Stations, Way};

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
    /// trip together, in nanoseconds. The last one leads round the end of the way. Where the set has gates on two hosts, the times
    /// that lead to the other host and back are one, at the place of the first. Empty where no gate records.
    pub between: Vec<f64>,
    /// Passages within these times by packets beside the messages' way, and times of packets.
    pub crossings: Crossings,
}

/// Message, or round trip over two hosts, that passed the gates of a set, with its times in the order of the way.
pub(crate) struct Message {
    pub(crate) packet: PacketId,
    /// The last one is that of the next message at the first gate, once messages are [`chosen`].
    pub(crate) times: Vec<Ticks>,
}

impl Message {
    /// Times from each gate to the next one, the last to the first gate of the next message.
    fn between(&self, scale: TickScale) -> impl Iterator<Item = f64> {
        let pairs = self.times.windows(2);
        pairs.map(move |pair| scale.ns_between(pair[0], pair[1]))
    }

    /// Time until the next message, which one clock tells.
    fn whole(&self, scale: TickScale) -> f64 {
        let ends = self.times.first().zip(self.times.last());
        ends.map_or(0.0, |(&first, &last)| scale.ns_between(first, last))
    }
}

/// The messages that passed all gates of a set, in the order of time.
///
/// Over two hosts a passage's number is twice that of its round trip, and one more for the response; a message may have one passage
/// for each host.
pub(crate) fn messages(way: &Way, set: Stations, passages: &[Passage]) -> Vec<Message> {
    let stations: Vec<Station> = way.stations().filter(|one| set.contains(*one)).collect();
    let mut messages: Vec<Message> = if way.is_of_two_hosts() {
        round_trips(&stations, passages)
    } else {
        let message = |passage: &Passage| {
            let times = stations.iter().map(|one| passage.at(one.gate));
            Some(Message {
                packet: passage.packet,
                times: times.collect::<Option<_>>()?,
            })
        };
        passages.iter().filter_map(message).collect()
    };
    messages.sort_by_key(|message| message.times.first().copied());
    messages
}

/// The round trips over two hosts that passed all these gates.
fn round_trips(stations: &[Station], passages: &[Passage]) -> Vec<Message> {
    let mut times: HashMap<u32, Vec<Option<Ticks>>> = HashMap::new();
    for passage in passages {
        let PacketId(number) = passage.packet;
        let times = times
            .entry(number / 2)
            .or_insert_with(|| vec![None; stations.len()]);
        let is_request = number % 2 == 0;
        for (time, station) in times.iter_mut().zip(stations) {
            if station.is_of_request() == is_request {
                *time = time.or(passage.at(station.gate));
            }
        }
    }
    let whole = |(number, times): (u32, Vec<Option<Ticks>>)| {
        Some(Message {
            packet: PacketId(number),
            times: times.into_iter().collect::<Option<_>>()?,
        })
    };
    times.into_iter().filter_map(whole).collect()
}

/// The messages of the interquartile half of the batches; none when fewer than four batches are whole.
///
/// A batch is as many round trips as one reading of the application's clock spans: what is chosen by whole batches there is
/// chosen by whole batches here.
pub(crate) fn chosen(
    way: &Way,
    mut messages: Vec<Message>,
    batch: usize,
    scale: TickScale,
) -> Option<Vec<Message>> {
    // A message's last time leads to the first gate of the next one.
    let next: Vec<(PacketId, Ticks)> = messages
        .iter()
        .skip(1)
        .filter_map(|message| Some((message.packet, *message.times.first()?)))
        .collect();
    messages.truncate(next.len());
    for (message, &(_, next)) in messages.iter_mut().zip(&next) {
        message.times.push(next);
    }
    if way.is_of_two_hosts() {
        // Round trips have numbers, so one before a gap is known to be none.
        let mut next = next.iter();
        messages.retain(|message| {
            next.next()
                .is_some_and(|(next, _)| next.0 == message.packet.0 + 1)
        });
    }
    let in_batch = way.passages() * batch;
    let mut batches: Vec<(f64, usize)> = messages
        .chunks_exact(in_batch)
        .enumerate()
        .map(|(number, messages)| {
            let times = messages.iter().map(|message| message.whole(scale));
            (times.sum(), number)
        })
        .collect();
    batches.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half: HashSet<usize> = interquartile(&batches)?
        .iter()
        .map(|&(_, number)| number)
        .collect();
    let messages = messages.into_iter().enumerate();
    let of_half = messages.filter(|(at, _)| half.contains(&(at / in_batch)));
    Some(of_half.map(|(_, message)| message).collect())
}

/// The means of the times that the gates of a set tell ([`Way::times`]), for each round trip of the messages that are [`chosen`].
pub(crate) fn between(way: &Way, set: Stations, chosen: &[Message], scale: TickScale) -> Vec<f64> {
    let times = way.times(&way.places(set));
    let each = way.passages() as f64 / chosen.len() as f64;
    let mut means = vec![0.0; times.len()];
    for message in chosen {
        let between: Vec<f64> = message.between(scale).collect();
        for (mean, pairs) in means.iter_mut().zip(&times) {
            // Summed first: one way between the hosts alone is as large as the offset of their clocks.
            let time: f64 = pairs.iter().map(|&pair| between[pair]).sum();
            *mean += each * time;
        }
    }
    means
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
    use tollgate_gate::{Event, Gate, GateSet, JoinPlan, PacketId, Recorded, join};

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
        let fine = means(set, &messages, 1).unwrap();
        assert_near(&fine, &[200.0, 60.0, 40.0]);
        let without = set.without(Gate::SocketQueued);
        let coarse = means(without, &messages, 1).unwrap();
        assert_near(&coarse, &[260.0, 40.0]);
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
        let batches = means(set, &messages, 4).unwrap();
        assert_near(&batches, &[200.0, 75.0, 40.0]);
        let single = means(set, &messages, 1).unwrap();
        assert_near(&single, &[200.0, 60.0, 40.0]);
        assert_eq!(means(set, &messages[..24], 4), None);
    }

    fn means(set: GateSet, messages: &[(u64, [u64; 2])], batch: usize) -> Option<Vec<f64>> {
        let way = way();
        let set = set.into();
        let messages = super::messages(&way, set, &passages(messages));
        let chosen = chosen(&way, messages, batch, SCALE)?;
        Some(between(&way, set, &chosen, SCALE))
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
        assert_eq!(means(GateSet::of(&GATES), &[], 1), None);
    }
}
