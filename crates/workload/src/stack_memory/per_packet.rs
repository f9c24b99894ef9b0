//! Responses of several segments over `stack-memory`, with gates or without, for a ledger.
//!
//! Like [`super::traced`] it has two copies of the code, gates read the clock in order, and a [`Fault`] has copies of its own. Both
//! ends run on one thread in turn, so the places of a message's events in the traces are known: nothing is guessed. A segment is
//! known by its sequence number. The driver and the link take bursts: such a gate is passed, and its clock read, once for all
//! segments of a burst.
//!
//! It must never choose gates, and never judge a time.

use tollgate_gate::join::GATES;
use tollgate_gate::record::{Ordered, Stamp};
use tollgate_gate::{Clock, Event, Gate, GateSet, PacketId, Recorder, Ticks, Trace};
use tollgate_link::Side;
use tollgate_run::{Placement, Waiting, Workload};
use tollgate_stack::config::Mechanisms;

use super::PATH;
use super::hosts::{Hosts, Time};
use super::traced::BATCH;
use crate::clock::gate_clock;
use crate::cores::{Cores, Pinned};
use crate::error::Error;
use crate::input::InputCounts;
use crate::per_packet::{MTU, REQUEST, SEGMENT, ask, asked, check};
use crate::spec::Spec;
use crate::stack_gates::{Fault, Faulty, Forget, Gates, Ungated};
use crate::stack_host;

/// Round trips that a slice makes before those that are timed.
pub const WARM_UP: u32 = 8;
/// The gates that a segment or its message passes. The reader's buffer is posted, so there is none where it takes a segment.
pub const PASSED: GateSet = GateSet::of(&[
    Gate::SocketOutBegin,
    Gate::TcpOutBegin,
    Gate::IpOutBegin,
    Gate::DeviceQueueIn,
    Gate::DriverOutBegin,
    Gate::DriverOutEnd,
    Gate::DriverInBegin,
    Gate::IpInBegin,
    Gate::DemuxBegin,
    Gate::TcpInBegin,
    Gate::SocketQueued,
    Gate::SocketInEnd,
]);
/// Events that each end has room for in a slice; those beyond are counted as lost.
const CAPACITY: usize = 1 << 16;

/// The times at which one segment, or one message as a whole, passed the gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    at: [Option<Ticks>; GATES],
}

impl Passed {
    const NOWHERE: Self = Self { at: [None; GATES] };

    /// The time at `gate`; none when it was not seen there.
    pub const fn at(&self, gate: Gate) -> Option<Ticks> {
        self.at[gate as usize]
    }

    fn first(&mut self, gate: Gate, ticks: Ticks) {
        self.at[gate as usize].get_or_insert(ticks);
    }

    fn last(&mut self, gate: Gate, ticks: Ticks) {
        self.at[gate as usize] = Some(ticks);
    }
}

/// A message on its way from one end to the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its segments in their order.
    pub segments: Vec<Passed>,
    /// The message as a whole: its first byte where the send begins, then its last segment, then the return of the last read.
    pub whole: Passed,
}

/// Events of a slice with gates.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// The messages in their order: request, response, request, and so on.
    pub messages: Vec<Message>,
    /// All readings of the clock by gates, whatever passed, in order of time.
    pub passages: Vec<(Ticks, Gate)>,
    /// Events that found no room.
    pub lost: u64,
    /// Events of data that belong to no segment.
    pub unmatched: u64,
}

/// Two of our stacks, one of which asks the other.
pub struct StackPacketSession {
    ends: Ends,
    gating: Gating,
    cores: Cores,
    spec: Spec,
    clock: Clock,
    fault: Option<Fault>,
    /// The sequence numbers of the next request and of the next response; learnt when the ends are opened.
    begins: (u32, u32),
}

/// The stacks and the applications on them.
struct Ends {
    hosts: Hosts,
    request: [u8; REQUEST],
    out: Vec<u8>,
    inn: Vec<u8>,
    message: u64,
}

/// Gates that are told where each message ends.
trait Legs: Gates + Forget {
    fn message_ended(&mut self);
}

impl Legs for Ungated {
    fn message_ended(&mut self) {}
}

impl<G: Legs> Legs for Faulty<'_, G> {
    fn message_ended(&mut self) {
        self.gates.message_ended();
    }
}

/// The gates of both ends.
struct Gating {
    client: OneEnd,
    server: OneEnd,
    clock: Clock,
    /// The ends of messages: the events and the vain asks of both ends until then.
    marks: Vec<Mark>,
}

/// Events of the client and of the server.
type Mark = (usize, usize);

/// The gates of one end.
struct OneEnd {
    trace: Trace<Ordered>,
    /// The segment that joined the device queue last: the driver takes all that is there, and does not say what.
    queued: PacketId,
    /// The time at which the link was asked; what came of it is seen behind it.
    asked: Option<Ticks>,
    /// Times at which it was asked and nothing came.
    vain: Vec<Ticks>,
    /// The segment that was read last.
    read: Option<PacketId>,
}

impl OneEnd {
    fn new(clock: Clock) -> Self {
        Self {
            trace: Trace::new(clock, GateSet::EMPTY, CAPACITY),
            queued: PacketId::default(),
            asked: None,
            vain: Vec::with_capacity(CAPACITY),
            read: None,
        }
    }

    fn forget(&mut self) {
        self.trace.clear();
        self.vain.clear();
        (self.asked, self.read) = (None, None);
    }

    /// All readings of the clock.
    fn passages(&self) -> impl Iterator<Item = (Ticks, Gate)> {
        let events = self.trace.events().iter();
        let vain = self.vain.iter().chain(&self.asked);
        events
            .map(|event| (event.ticks, event.gate))
            .chain(vain.map(|&ticks| (ticks, Gate::DriverInBegin)))
    }
}

impl Gating {
    fn new(clock: Clock) -> Self {
        Self {
            client: OneEnd::new(clock),
            server: OneEnd::new(clock),
            clock,
            marks: Vec::new(),
        }
    }

    fn start(&mut self, active: GateSet) {
        for end in [&mut self.client, &mut self.server] {
            end.trace.set_active(active);
        }
        self.forget();
    }

    #[inline(always)]
    fn end(&mut self, side: Side) -> &mut OneEnd {
        match side {
            Side::A => &mut self.client,
            Side::B => &mut self.server,
        }
    }
}

impl Forget for Gating {
    fn forget(&mut self) {
        self.client.forget();
        self.server.forget();
        self.marks.clear();
        self.marks.push((0, 0));
    }
}

impl Legs for Gating {
    #[inline(always)]
    fn message_ended(&mut self) {
        let events = |end: &OneEnd| end.trace.events().len();
        self.marks
            .push((events(&self.client), events(&self.server)));
    }
}

impl Gates for Gating {
    const FREQUENT: bool = true;

    type Recorder<'a> = At<'a>;

    #[inline(always)]
    fn at(&mut self, side: Side) -> At<'_> {
        let clock = self.clock;
        At {
            end: self.end(side),
            clock,
        }
    }

    #[inline(always)]
    fn returned(&mut self, side: Side) {
        let end = self.end(side);
        if let Some(packet) = end.read.take() {
            end.trace.pass(Gate::SocketInEnd, packet);
        }
    }
}

/// The recorder of one end.
struct At<'a> {
    end: &'a mut OneEnd,
    clock: Clock,
}

impl Recorder for At<'_> {
    const ON: bool = true;
    type Lent<'b>
        = &'b mut Self
    where
        Self: 'b;

    #[inline(always)]
    fn lend(&mut self) -> &mut Self {
        self
    }

    #[inline(always)]
    fn pass(&mut self, gate: Gate, packet: PacketId) {
        let end = &mut *self.end;
        match gate {
            Gate::DeviceQueueIn => {
                end.queued = packet;
                end.trace.pass(gate, packet);
            }
            Gate::DriverOutBegin | Gate::DriverOutEnd => end.trace.pass(gate, end.queued),
            Gate::DriverInBegin => {
                if end.trace.active().contains(gate) {
                    // As long as events find room this does; the allocation is as large.
                    end.vain.extend(end.asked);
                    end.asked = Some(Ordered::stamp(&self.clock));
                }
            }
            Gate::IpInBegin => {
                if let Some(asked) = end.asked.take() {
                    end.trace.pass_at(Gate::DriverInBegin, packet, asked);
                }
                end.trace.pass(gate, packet);
            }
            // The reader's buffer is posted: what is queued is read, and where the call returns is seen from outside.
            Gate::SocketQueued => {
                end.trace.pass(gate, packet);
                end.read = Some(packet);
            }
            Gate::SocketInBegin => end.read = Some(packet),
            Gate::SocketInEnd => {}
            _ => end.trace.pass(gate, packet),
        }
    }
}

impl Ends {
    fn prepare(&mut self, response: usize) {
        ask(&mut self.request, response);
        self.out.resize(response.max(self.out.len()), 1);
        self.inn.resize(response.max(self.inn.len()), 0);
    }

    #[inline(always)]
    fn round_trip<G: Legs>(&mut self, response: usize, gates: &mut G) -> Result<(), Error> {
        self.hosts.read_clock();
        let mut request = [0; REQUEST];
        self.hosts
            .carry(Side::A, &self.request, &mut request, gates)?;
        let length = asked(&request, PATH, self.message)?;
        self.message += 1;
        gates.message_ended();
        self.hosts.carry(
            Side::B,
            &self.out[..length],
            &mut self.inn[..response],
            gates,
        )?;
        gates.message_ended();
        Ok(())
    }
}

/// A slice that is to be timed.
struct Timed<'a> {
    ends: &'a mut Ends,
    clock: Clock,
    response: usize,
    batches: u64,
}

impl Timed<'_> {
    #[inline(never)]
    fn run<G: Legs>(&mut self, gates: &mut G, lap: &mut dyn FnMut(f64)) -> Result<(), Error> {
        self.ends.hosts.catch_up();
        for _ in 0..WARM_UP {
            self.ends.round_trip(self.response, gates)?;
        }
        gates.forget();
        let mut last = self.clock.now();
        for _ in 0..self.batches {
            for _ in 0..BATCH {
                self.ends.round_trip(self.response, gates)?;
            }
            let now = self.clock.now();
            lap(self.clock.ns_between(last, now) / BATCH as f64);
            last = now;
        }
        Ok(())
    }
}

impl StackPacketSession {
    /// Connects the ends, with these mechanisms but for Nagle's algorithm: a response is one write for each segment, which it would hold
    /// back.
    ///
    /// # Errors
    /// The failure of the path.
    pub fn open(mechanisms: Mechanisms) -> Result<Self, Error> {
        let spec = Spec::new(Workload::Rr, REQUEST)
            .with_mode(Placement::OneCore, Waiting::BusyPoll)
            .with_mechanisms(mechanisms)
            .with_nagle(false);
        let mut hosts = Hosts::new(&spec, MTU, Time::Real)?;
        hosts.connect()?;
        hosts.accept()?;
        let clock = gate_clock();
        let mut per_packet = Self {
            ends: Ends {
                hosts,
                request: [0; REQUEST],
                out: Vec::new(),
                inn: Vec::new(),
                message: 0,
            },
            gating: Gating::new(clock),
            cores: Cores::choose(Placement::OneCore)?,
            spec,
            clock,
            fault: None,
            begins: (0, 0),
        };
        per_packet.learn()?;
        Ok(per_packet)
    }

    /// The clock of all times.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The segments that the stacks have received so far, the client end's first.
    pub fn input_counts(&self) -> [InputCounts; 2] {
        self.ends.hosts.counters().map(InputCounts::of)
    }

    /// Puts a fault beside a gate, or takes it away, from the next slice on.
    pub const fn set_fault(&mut self, fault: Option<Fault>) {
        self.fault = fault;
    }

    /// Settings that a reader has to know to repeat it, as names and values.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let checksums = stack_host::in_software(&self.spec);
        let mut settings = stack_host::settings(PATH, &self.spec, MTU, checksums);
        settings.push(("cores", self.cores.describe()));
        settings
    }

    /// Learns the sequence numbers of both directions from the first segment of each.
    fn learn(&mut self) -> Result<(), Error> {
        self.gating.start(GateSet::of(&[Gate::TcpOutBegin]));
        self.ends.prepare(1);
        self.ends.round_trip(1, &mut self.gating)?;
        let begin = |end: &OneEnd| end.trace.events().first().map_or(0, |first| first.packet.0);
        self.begins = (begin(&self.gating.client), begin(&self.gating.server));
        self.went_by(1, 1);
        Ok(())
    }

    fn went_by(&mut self, round_trips: u64, response: usize) {
        let (request, answer) = &mut self.begins;
        // Sequence numbers come round.
        let round_trips = round_trips as u32;
        *request = request.wrapping_add((REQUEST as u32).wrapping_mul(round_trips));
        *answer = answer.wrapping_add((response as u32).wrapping_mul(round_trips));
    }

    /// Runs a slice of whole batches, through the code without gates, or with these gates; `lap` gets the time of a round trip in
    /// each batch, in nanoseconds. Round trips follow each other without a pause.
    ///
    /// # Errors
    /// [`Error::Size`], else what went wrong on the path.
    pub fn slice(
        &mut self,
        gates: Option<GateSet>,
        response: usize,
        round_trips: u64,
        lap: &mut dyn FnMut(f64),
    ) -> Result<Recording, Error> {
        check(response)?;
        let _pinned = Pinned::to(self.cores.client)
            .map_err(|error| Error::system(PATH, "pinning a thread", error))?;
        let batches = round_trips.div_ceil(BATCH).max(1);
        self.ends.prepare(response);
        self.gating.start(gates.unwrap_or(GateSet::EMPTY));
        let mut timed = Timed {
            ends: &mut self.ends,
            clock: self.clock,
            response,
            batches,
        };
        let gating = &mut self.gating;
        match (gates, &self.fault) {
            (None, None) => timed.run(&mut Ungated, lap),
            (Some(_), None) => timed.run(gating, lap),
            (None, Some(fault)) => timed.run(&mut Faulty::new(&mut Ungated, fault), lap),
            (Some(_), Some(fault)) => timed.run(&mut Faulty::new(gating, fault), lap),
        }?;
        self.went_by(u64::from(WARM_UP), response);
        let recording = match gates {
            Some(set) if !set.is_empty() => self.recording(response),
            _ => Recording::default(),
        };
        self.went_by(batches * BATCH, response);
        Ok(recording)
    }

    fn recording(&self, response: usize) -> Recording {
        let Gating {
            client,
            server,
            marks,
            ..
        } = &self.gating;
        let mut recording = Recording {
            messages: Vec::with_capacity(marks.len()),
            passages: client.passages().chain(server.passages()).collect(),
            lost: client.trace.lost() + server.trace.lost(),
            unmatched: 0,
        };
        recording.passages.sort_unstable();
        let (mut request, mut answer) = self.begins;
        for (number, legs) in marks.windows(2).enumerate() {
            let client = &client.trace.events()[legs[0].0..legs[1].0];
            let server = &server.trace.events()[legs[0].1..legs[1].1];
            let unmatched = &mut recording.unmatched;
            recording.messages.push(if number % 2 == 1 {
                let message = message(server, client, answer, response, unmatched);
                answer = answer.wrapping_add(response as u32);
                message
            } else {
                let message = message(client, server, request, REQUEST, unmatched);
                request = request.wrapping_add(REQUEST as u32);
                message
            });
        }
        recording
    }
}

/// Assembles one message, which begins at sequence number `begin`, from the events of the sender and of the receiver.
fn message(out: &[Event], inn: &[Event], begin: u32, bytes: usize, unmatched: &mut u64) -> Message {
    let mut segments = vec![Passed::NOWHERE; bytes.div_ceil(SEGMENT)];
    let mut whole = Passed::NOWHERE;
    let place = |packet: PacketId| {
        let into = packet.0.wrapping_sub(begin) as usize;
        (into < bytes).then_some(into / SEGMENT)
    };
    // Segments that have left in bursts.
    let mut left = [0; GATES];
    for event in out.iter().filter(|event| event.gate < Gate::DriverInBegin) {
        if event.gate == Gate::SocketOutBegin {
            whole.first(event.gate, event.ticks);
            continue;
        }
        let Some(index) = place(event.packet) else {
            // An acknowledgment has the number of the data that will follow it.
            *unmatched += u64::from(event.packet.0 != begin.wrapping_add(bytes as u32));
            continue;
        };
        match event.gate {
            Gate::DriverOutBegin | Gate::DriverOutEnd => {
                let left = &mut left[event.gate as usize];
                for segment in &mut segments[(*left).min(index)..=index] {
                    segment.first(event.gate, event.ticks);
                }
                *left = index + 1;
            }
            gate => {
                segments[index].first(gate, event.ticks);
                if gate == Gate::TcpOutBegin {
                    whole.first(gate, event.ticks);
                }
            }
        }
    }
    for event in inn.iter().filter(|event| event.gate >= Gate::DriverInBegin) {
        let Some(index) = place(event.packet) else {
            *unmatched += 1;
            continue;
        };
        match event.gate {
            Gate::SocketInEnd => whole.last(event.gate, event.ticks),
            // It stands for all that came with it, which lie behind.
            Gate::DriverInBegin => {
                for segment in &mut segments[index..] {
                    segment.last(event.gate, event.ticks);
                }
            }
            gate => segments[index].last(gate, event.ticks),
        }
    }
    if let Some(last) = segments.last() {
        for (to, from) in whole.at.iter_mut().zip(last.at) {
            *to = to.or(from);
        }
    }
    Message { segments, whole }
}

#[cfg(test)]
mod tests {
    use tollgate_gate::delay::Wait;

    use super::*;

    fn event(gate: Gate, packet: u32, ticks: u64) -> Event {
        Event {
            ticks: Ticks(ticks),
            packet: PacketId(packet),
            gate,
        }
    }

    #[test]
    fn burst_passes_its_gates_together() {
        let begin = u32::MAX - 100;
        let second = begin.wrapping_add(SEGMENT as u32);
        let out = [
            event(Gate::SocketOutBegin, begin, 1),
            event(Gate::DeviceQueueIn, begin, 10),
            event(Gate::DeviceQueueIn, second, 20),
            event(Gate::DriverOutBegin, second, 30),
            event(Gate::DriverOutEnd, second, 40),
        ];
        let inn = [
            event(Gate::DriverInBegin, begin, 50),
            event(Gate::IpInBegin, begin, 60),
            event(Gate::IpInBegin, second, 80),
            event(Gate::IpInBegin, begin - 5_000, 90),
            event(Gate::SocketInEnd, second, 99),
        ];
        let mut unmatched = 0;
        let message = message(&out, &inn, begin, SEGMENT + 1, &mut unmatched);
        let at = |index: usize, gate| message.segments[index].at(gate).map(|ticks| ticks.0);
        assert_eq!(at(0, Gate::DeviceQueueIn), Some(10));
        assert_eq!(at(1, Gate::DeviceQueueIn), Some(20));
        for index in [0, 1] {
            assert_eq!(at(index, Gate::DriverOutEnd), Some(40));
            assert_eq!(at(index, Gate::DriverInBegin), Some(50));
        }
        assert_eq!(at(1, Gate::IpInBegin), Some(80));
        assert_eq!(message.whole.at(Gate::IpInBegin), Some(Ticks(80)));
        assert_eq!(message.whole.at(Gate::SocketOutBegin), Some(Ticks(1)));
        assert_eq!(message.whole.at(Gate::SocketInEnd), Some(Ticks(99)));
        assert_eq!(unmatched, 1);
    }

    #[test]
    fn segments_are_seen_at_every_gate_of_any_set_with_a_fault_and_without() {
        let mut per_packet = StackPacketSession::open(Mechanisms::DEFAULT).unwrap();
        let wait = Wait::calibrate(gate_clock(), 30.0);
        for fault in [None, Some(Gate::IpInBegin), Some(Gate::SocketInEnd)] {
            per_packet.set_fault(fault.map(|gate| Fault { gate, wait }));
            for response in [256, 8_192, 65_536] {
                for set in [
                    PASSED,
                    GateSet::of(&[Gate::DriverOutBegin, Gate::DriverInBegin]),
                    GateSet::of(&[Gate::IpInBegin, Gate::SocketQueued, Gate::SocketInEnd]),
                ] {
                    let mut laps = 0;
                    let recording = per_packet
                        .slice(Some(set), response, 16, &mut |_| laps += 1)
                        .unwrap();
                    assert_eq!((laps, recording.lost, recording.unmatched), (1, 0, 0));
                    assert_eq!(recording.messages.len(), 32);
                    for (number, message) in recording.messages.iter().enumerate() {
                        let bytes = if number % 2 == 1 { response } else { REQUEST };
                        assert_eq!(message.segments.len(), bytes.div_ceil(SEGMENT));
                        let times: Vec<_> = set.iter().map(|gate| message.whole.at(gate)).collect();
                        assert!(times.iter().all(Option::is_some), "{set:?} {times:?}");
                        assert!(times.is_sorted(), "{set:?} {times:?}");
                        let packets = GateSet::of(&[Gate::SocketOutBegin, Gate::SocketInEnd]);
                        let of_packets = || set.iter().filter(|&gate| !packets.contains(gate));
                        for segment in &message.segments {
                            let times: Vec<_> = of_packets().map(|gate| segment.at(gate)).collect();
                            assert!(times.iter().all(Option::is_some), "{set:?} {times:?}");
                            assert!(times.is_sorted(), "{set:?} {times:?}");
                        }
                    }
                }
                let without = per_packet.slice(None, response, 16, &mut |_| ()).unwrap();
                assert_eq!(without.passages, []);
            }
        }
        assert!(per_packet.slice(None, 0, 16, &mut |_| ()).is_err());
    }

    #[test]
    fn passages_are_all_readings_of_the_clock() {
        let mut per_packet = StackPacketSession::open(Mechanisms::DEFAULT).unwrap();
        let gates = GateSet::of(&[Gate::SocketOutBegin, Gate::SocketInEnd]);
        let recording = per_packet.slice(Some(gates), 256, 16, &mut |_| ()).unwrap();
        assert_eq!(recording.passages.len(), 2 * 2 * 16);
        assert!(recording.passages.is_sorted());
        let queued = GateSet::of(&[Gate::SocketQueued]);
        let recording = per_packet
            .slice(Some(queued), 65_536, 16, &mut |_| ())
            .unwrap();
        assert_eq!(recording.passages.len(), (1 + 46) * 16);
    }
}
