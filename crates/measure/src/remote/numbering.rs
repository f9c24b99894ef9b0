//! One host's events, tied to round trips by numbers that both hosts know.
//!
//! A packet's number comes from its place in the connection's bytes, of which all messages before are known. A stamp's is its place
//! among those of its thread. A thread that begins to run stands between what is known to come before and behind it. So what one
//! host has missed costs that round trip only.
//!
//! It must never compare the times of two hosts, and never guess a number from how long something took.

use std::collections::HashMap;

use tollgate_gate::{Gate, GateSet, PacketId, Ticks};
use tollgate_kernel::{Event, Flow, Joiner, Transfer};

use crate::way::{Host, Station, is_out};

/// The messages of each direction in a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    /// Messages that were sent before on the connection.
    pub(super) before: u32,
    /// Those of the slice that come first, and are not measured.
    pub(super) warm_up: u32,
    /// Those of the slice behind them.
    pub(super) measured: u32,
}

impl Numbers {
    const fn all(self) -> u32 {
        self.warm_up + self.measured
    }
}

/// Numbers the messages of one connection on one host.
pub(super) struct Numbering {
    host: Host,
    joiner: Joiner,
    /// The sequence numbers at which the connection's first message began: there, and back.
    origins: [Option<u32>; 2],
}

/// Times by number and gate.
type Times = HashMap<(u32, Gate), Vec<u64>>;

impl Numbering {
    pub(super) fn new(host: Host, transfer: Transfer) -> Self {
        Self {
            host,
            joiner: Joiner::new(transfer),
            origins: [None; 2],
        }
    }

    pub(super) const fn transfer(&self) -> Transfer {
        self.joiner.transfer()
    }

    /// Learns from a connection's first slice where its messages begin.
    pub(super) fn learn(&mut self, events: &[Event]) {
        // A socket that has a part of its first message tells of the one before, which there is none of.
        let mut packets = packets(events);
        packets.retain(|event| !event.is_up_to());
        let tied = self.joiner.tie(&packets);
        let ends = self.ends();
        let mut first: [Option<(Ticks, u32)>; 2] = [None; 2];
        for event in &tied.events {
            let Some(&(flow, end)) = ends.get(&event.packet) else {
                continue;
            };
            if flow.is_of_socket() {
                continue;
            }
            let first = &mut first[self.leg(flow)];
            if first.is_none_or(|(at, _)| event.ticks < at) {
                *first = Some((event.ticks, end.wrapping_sub(self.transfer().size)));
            }
        }
        self.origins = first.map(|first| first.map(|(_, origin)| origin));
    }

    /// Ties a slice's events: the number of what they belong to is twice that of the round trip, one more for the response.
    pub(super) fn tie(
        &mut self,
        events: &[Event],
        numbers: Numbers,
        timed_from: u64,
    ) -> Vec<tollgate_gate::Event> {
        let mut times = self.of_packets(events, numbers);
        let mut runs = Vec::new();
        let mut stamps: HashMap<Gate, Vec<u64>> = HashMap::new();
        for event in events.iter().filter(|event| event.flow().is_none()) {
            match event.gate() {
                Some(Gate::ReaderRuns) => runs.push(event.ktime),
                Some(gate) => stamps.entry(gate).or_default().push(event.ktime),
                None => {}
            }
        }
        for (gate, mut stamps) in stamps {
            stamps.sort_unstable();
            // Each message has one, so others than all of them tell no numbers.
            if stamps.len() == numbers.all() as usize {
                times.extend(
                    (0..)
                        .zip(stamps)
                        .map(|(number, at)| ((number, gate), vec![at])),
                );
            }
        }
        if !runs.is_empty() {
            runs.sort_unstable();
            let found = self.readers(&runs, &times, numbers, timed_from);
            times.extend(
                found
                    .into_iter()
                    .map(|(number, at)| ((number, Gate::ReaderRuns), vec![at])),
            );
        }
        let measured = times.into_iter().filter_map(|((number, gate), times)| {
            let number = number.checked_sub(numbers.warm_up)?;
            Some((number, gate, times))
        });
        let mut tied = Vec::new();
        for (number, gate, times) in measured {
            let station = Station {
                host: self.host,
                gate,
            };
            let packet = PacketId(2 * number + u32::from(!station.is_of_request()));
            tied.extend(times.into_iter().map(|at| tollgate_gate::Event {
                ticks: Ticks(at),
                packet,
                gate,
            }));
        }
        tied
    }

    /// By message of the joiner, its flow and the sequence number behind its last byte.
    fn ends(&self) -> HashMap<PacketId, (Flow, u32)> {
        let messages = self.joiner.messages();
        messages.map(|(id, flow, end)| (id, (flow, end))).collect()
    }

    /// The direction of a flow: 0 for requests, 1 for responses.
    fn leg(&self, flow: Flow) -> usize {
        usize::from(flow.destination() != self.transfer().server_port)
    }

    /// Passages of packets, in the slice's numbers.
    fn of_packets(&mut self, events: &[Event], numbers: Numbers) -> Times {
        let tied = self.joiner.tie(&packets(events));
        let ends = self.ends();
        let size = self.transfer().size.max(1);
        let number = |id: PacketId| {
            let &(flow, end) = ends.get(&id)?;
            let origin = if flow.is_of_socket() {
                // It counts from 0 in every slice.
                0
            } else {
                self.origins[self.leg(flow)]?.wrapping_add(numbers.before.wrapping_mul(size))
            };
            let bytes = end.wrapping_sub(origin);
            let number = (bytes / size).checked_sub(1)?;
            (bytes % size == 0 && number < numbers.all()).then_some(number)
        };
        let mut times = Times::new();
        for event in &tied.events {
            // Without threads the joiner takes a message that is queued behind another for one whose reader ran.
            if event.gate != Gate::ReaderRuns
                && let Some(number) = number(event.packet)
            {
                let times = times.entry((number, event.gate)).or_default();
                times.push(event.ticks.0);
            }
        }
        times
    }

    /// The moments at which the reader began to run, by the number of what it was woken for.
    fn readers(
        &self,
        runs: &[u64],
        times: &Times,
        numbers: Numbers,
        timed_from: u64,
    ) -> Vec<(u32, u64)> {
        if times.is_empty() {
            return self.readers_alone(runs, numbers, timed_from);
        }
        let mut known: Vec<Known> = (0..numbers.all()).map(|_| Known::default()).collect();
        for (&(number, gate), times) in times {
            let Some(one) = known.get_mut(number as usize) else {
                continue;
            };
            let (first, last) = (times.iter().min(), times.iter().max());
            let (Some(&first), Some(&last)) = (first, last) else {
                continue;
            };
            if is_out(gate) {
                one.out = Some(
                    one.out
                        .map_or((first, last), |(a, b)| (a.min(first), b.max(last))),
                );
            } else if gate < Gate::ReaderRuns {
                one.before = one.before.max(Some(last));
            } else {
                one.behind = Some(one.behind.map_or(first, |at| at.min(first)));
            }
        }
        let mut found = Vec::new();
        for number in 0..known.len() {
            let one = &known[number];
            let neighbour = |at: Option<usize>| at.and_then(|at| known.get(at));
            // A client sends before it reads, a server behind that.
            let (sent, sends) = match self.host {
                Host::Local => (Some(number), number.checked_add(1)),
                Host::Remote => (number.checked_sub(1), Some(number)),
            };
            let earlier = neighbour(number.checked_sub(1));
            let begin = one
                .before
                .or_else(|| Some(neighbour(sent)?.out?.1))
                .or_else(|| earlier?.behind);
            let end = one
                .behind
                .or_else(|| Some(neighbour(sends)?.out?.0))
                .or_else(|| neighbour(number.checked_add(1))?.before);
            let within = runs.iter().copied().filter(|&at| {
                begin.is_none_or(|begin| begin <= at) && end.is_none_or(|end| at <= end)
            });
            let woken = if one.before.is_some() {
                within.min()
            } else {
                within.max()
            };
            found.extend(woken.map(|at| (number as u32, at)));
        }
        found
    }

    /// Numbers the wakes of readers where no other gate of this host is there: each message wakes the reader once. A client also
    /// waits before the first message and behind the last one; a server waits before the first.
    fn readers_alone(&self, runs: &[u64], numbers: Numbers, timed_from: u64) -> Vec<(u32, u64)> {
        let measured = numbers.measured as usize;
        let of_messages = match self.host {
            Host::Local => {
                let first = runs.partition_point(|&at| at < timed_from);
                runs.get(first..first + measured)
            }
            Host::Remote => runs
                .len()
                .checked_sub(measured)
                .and_then(|first| runs.get(first..)),
        };
        let of_messages = of_messages.unwrap_or_default().iter().copied();
        (numbers.warm_up..).zip(of_messages).collect()
    }
}

/// Passages of one round trip at a host.
#[derive(Default, Clone, Copy)]
struct Known {
    /// Its first and last passage on the way out.
    out: Option<(u64, u64)>,
    /// Its last passage on the way in, before the reader runs.
    before: Option<u64>,
    /// Its first passage behind that.
    behind: Option<u64>,
}

/// The events that are not of threads.
fn packets(events: &[Event]) -> Vec<Event> {
    let packets = events.iter().filter(|event| event.flow().is_some());
    packets.copied().collect()
}

/// The gates at which every measured message was seen.
pub(super) fn gates_of_all(tied: &[tollgate_gate::Event], measured: u32) -> GateSet {
    let mut seen: HashMap<Gate, std::collections::HashSet<PacketId>> = HashMap::new();
    for event in tied {
        seen.entry(event.gate).or_default().insert(event.packet);
    }
    let all = seen
        .into_iter()
        .filter(|(_, messages)| messages.len() == measured as usize);
    all.map(|(gate, _)| gate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: u16 = 7;
    const TRANSFER: Transfer = Transfer {
        server_port: PORT,
        client: 11,
        server: 22,
        size: 4,
    };
    const NUMBERS: Numbers = Numbers {
        before: 2,
        warm_up: 1,
        measured: 3,
    };
    /// Sequence numbers run over within the slice.
    const ORIGIN: u32 = u32::MAX - 13;

    fn flow(there: bool) -> Flow {
        let ports = if there {
            40_000 << 16 | u32::from(PORT)
        } else {
            u32::from(PORT) << 16 | 40_000
        };
        Flow {
            ports,
            addresses: 1,
        }
    }

    fn packet(at: u64, gate: Gate, there: bool, number: u32) -> Event {
        Event::of_packet(at, gate, flow(there), ORIGIN.wrapping_add(4 * number), 4)
    }

    /// A client's numbering that knows where messages begin, which two were sent before.
    fn learned() -> Numbering {
        let mut numbering = Numbering::new(Host::Local, TRANSFER);
        let events = [0, 1].map(|number| {
            let at = u64::from(number);
            [
                packet(10 * at + 1, Gate::DriverOutBegin, true, number),
                packet(10 * at + 2, Gate::IpInBegin, false, number),
            ]
        });
        numbering.learn(events.as_flattened());
        numbering
    }

    /// Times by number of what was tied, at a gate.
    fn tied(events: &[Event], gate: Gate) -> Vec<(u32, u64)> {
        let tied = learned().tie(events, NUMBERS, 0);
        let at_gate = tied.iter().filter(|event| event.gate == gate);
        let mut times: Vec<(u32, u64)> = at_gate.map(|one| (one.packet.0, one.ticks.0)).collect();
        times.sort_unstable();
        times
    }

    #[test]
    fn packets_have_the_numbers_of_their_bytes_whichever_are_missing() {
        for missing in 2..6 {
            let events = (2..6).filter(|&number| number != missing);
            let events: Vec<Event> = events
                .map(|number| packet(u64::from(100 * number), Gate::IpInBegin, false, number))
                .collect();
            let expected = (3..6).filter(|&number| number != missing);
            let expected: Vec<(u32, u64)> = expected
                .map(|number| (2 * (number - 3) + 1, u64::from(100 * number)))
                .collect();
            assert_eq!(tied(&events, Gate::IpInBegin), expected, "{missing}");
        }
    }

    #[test]
    fn part_of_a_first_message_is_no_message_before_it() {
        let mut numbering = Numbering::new(Host::Local, TRANSFER);
        let begins = ORIGIN;
        // Three bytes of four have come to the socket, then all.
        numbering.learn(&[
            Event::of_packet(1, Gate::IpInBegin, flow(false), begins, 3),
            Event::of_stream(2, Gate::SocketQueued, flow(false), begins.wrapping_add(3)),
            Event::of_packet(3, Gate::IpInBegin, flow(false), begins.wrapping_add(3), 1),
            Event::of_stream(4, Gate::SocketQueued, flow(false), begins.wrapping_add(4)),
        ]);
        assert_eq!(numbering.origins, [None, Some(begins)]);
    }

    #[test]
    fn packets_of_no_message_of_the_slice_are_left_out() {
        let events = [
            packet(1, Gate::IpInBegin, false, 6),
            packet(2, Gate::IpInBegin, false, 1),
        ];
        assert_eq!(tied(&events, Gate::IpInBegin), []);
    }

    #[test]
    fn stamps_have_the_numbers_of_their_calls_when_all_are_there() {
        let stamps = [10, 20, 30, 40].map(|at| Event::of_thread(at, Gate::SocketOutBegin, 11));
        assert_eq!(
            tied(&stamps, Gate::SocketOutBegin),
            [(0, 20), (2, 30), (4, 40)]
        );
        assert_eq!(tied(&stamps[1..], Gate::SocketOutBegin), []);
    }

    #[test]
    fn readers_run_between_what_is_known() {
        let runs = |times: &[u64]| -> Vec<Event> {
            let events = times.iter();
            events
                .map(|&at| Event::of_thread(at, Gate::ReaderRuns, 11))
                .collect()
        };
        // Arrivals, and behind each the first time that the reader runs.
        let mut events: Vec<Event> = (2..6)
            .map(|number| packet(u64::from(100 * number), Gate::IpInBegin, false, number))
            .collect();
        events.extend(runs(&[190, 205, 310, 350, 520]));
        assert_eq!(tied(&events, Gate::ReaderRuns), [(1, 310), (5, 520)]);
        // Returns of the call, and before each the last time.
        let mut events: Vec<Event> = [200, 300, 400, 500]
            .map(|at| Event::of_thread(at, Gate::SocketInEnd, 11))
            .to_vec();
        events.extend(runs(&[190, 270, 290, 390, 490, 550]));
        assert_eq!(
            tied(&events, Gate::ReaderRuns),
            [(1, 290), (3, 390), (5, 490)]
        );
        // Alone, one for each message, and one more when the slice ends.
        assert_eq!(
            tied(&runs(&[190, 290, 390, 490]), Gate::ReaderRuns),
            [(1, 190), (3, 290), (5, 390)]
        );
        assert_eq!(tied(&runs(&[190, 290]), Gate::ReaderRuns), []);
    }

    #[test]
    fn gates_that_miss_a_message_are_not_of_all() {
        let event = |gate, number| tollgate_gate::Event {
            ticks: Ticks(0),
            packet: PacketId(number),
            gate,
        };
        let tied = [
            event(Gate::IpInBegin, 1),
            event(Gate::IpInBegin, 3),
            event(Gate::SocketInEnd, 1),
            event(Gate::SocketInEnd, 1),
        ];
        assert_eq!(gates_of_all(&tied, 2), GateSet::of(&[Gate::IpInBegin]));
    }
}
