//! Events joined to the segments of messages that are cut into several.
//!
//! A request is answered by a response of many segments, a *train*. A segment is known by its place: it is the so many bytes that
//! begin at a whole number of segments from where its message begins, and it passes a gate when the piece with its last byte does.
//! A piece may be one segment, a part of one, or several that travel as one skb (GSO), lie in one skb of the socket's queue
//! (coalescing), or are told of at once (a reader that lags behind); all segments that a piece completes then pass at one time.
//!
//! Beside its segments each message has a passage as a whole, whose times lie one behind the other: the call that sends it, the
//! first byte's arrival in TCP, then the passages of its last segment, the return of the call that reads its last byte, and the
//! call that answers.
//!
//! The beginning of a message is not guessed: both ends talk in turn, so it follows from the number and length of earlier messages.
//! Whoever drives the ends tells [`PacketJoiner::tie`] and [`PacketJoiner::advance`] of every slice. Which passage counts when a
//! segment passes a gate twice (a retransmission) is for `tollgate_gate::join` to judge. Nothing is left out in silence: what
//! belongs to no segment is counted.

use std::collections::HashMap;

use tollgate_gate::{Gate, PacketId};

use super::Counts;
use crate::event::{Event, Flow};

/// One of the two directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Leg {
    /// From the end that asks.
    Request,
    /// From the end that answers.
    Response,
}

/// The messages of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceMessages {
    /// Requests, and so responses.
    pub messages: u32,
    /// Bytes of a request, at least 1.
    pub request: u32,
    /// Bytes of a response, at least 1.
    pub response: u32,
    /// Bytes of a full segment, at least 1.
    pub segment: u32,
}

/// Meaning of a [`PacketId`] of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentOrMessage {
    /// A segment.
    Segment {
        /// Of a request or of a response.
        leg: Leg,
        /// The number of its message in the slice.
        message: u32,
        /// Its place in the message, from 0.
        index: u32,
    },
    /// A message as a whole.
    Message {
        /// A request or a response.
        leg: Leg,
        /// Its number in the slice.
        message: u32,
    },
}

impl SliceMessages {
    const fn bytes(&self, leg: Leg) -> u32 {
        match leg {
            Leg::Request => self.request,
            Leg::Response => self.response,
        }
    }

    /// The segments of a message.
    pub const fn segments(&self, leg: Leg) -> u32 {
        self.bytes(leg).div_ceil(self.segment)
    }

    /// All bytes that go one way in the slice.
    const fn length(&self, leg: Leg) -> u32 {
        self.bytes(leg).wrapping_mul(self.messages)
    }

    /// Ids of one leg: those of its segments, message by message, then those of its messages.
    const fn ids(&self, leg: Leg) -> u32 {
        self.messages * (self.segments(leg) + 1)
    }

    const fn first_id(&self, leg: Leg) -> u32 {
        match leg {
            Leg::Request => 0,
            Leg::Response => self.ids(Leg::Request),
        }
    }

    const fn segment_id(&self, leg: Leg, message: u32, index: u32) -> PacketId {
        PacketId(self.first_id(leg) + message * self.segments(leg) + index)
    }

    const fn message_id(&self, leg: Leg, message: u32) -> PacketId {
        PacketId(self.first_id(leg) + self.messages * self.segments(leg) + message)
    }

    /// Meaning of an id; none for one that the slice does not have.
    pub fn part(&self, id: PacketId) -> Option<SegmentOrMessage> {
        let (leg, number) = match id.0.checked_sub(self.ids(Leg::Request)) {
            None => (Leg::Request, id.0),
            Some(number) => (Leg::Response, number),
        };
        let segments = self.messages * self.segments(leg);
        if number < segments {
            Some(SegmentOrMessage::Segment {
                leg,
                message: number / self.segments(leg),
                index: number % self.segments(leg),
            })
        } else {
            (number < self.ids(leg)).then_some(SegmentOrMessage::Message {
                leg,
                message: number - segments,
            })
        }
    }

    /// The segments whose last byte lies in the bytes from `from` to before `to`, counted from the slice's first of that leg.
    fn ending_in(&self, leg: Leg, from: u32, to: u32) -> impl Iterator<Item = (u32, u32)> {
        let (bytes, segments) = (self.bytes(leg), self.segments(leg));
        // Segments that end before this many bytes.
        let ended = move |bytes_before: u32| {
            let (message, into) = (bytes_before / bytes, bytes_before % bytes);
            message * segments + into / self.segment
        };
        (ended(from)..ended(to)).map(move |number| (number / segments, number % segments))
    }
}

/// The events of a slice, tied to segments and messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tied {
    /// Events in the form that `tollgate_gate::join` takes; [`SliceMessages::part`] resolves their ids.
    pub events: Vec<tollgate_gate::Event>,
    /// The processor on which each was seen; that of the last where one was seen several times.
    processors: HashMap<(PacketId, Gate), u16>,
    /// Counts of the events by their fate.
    pub counts: Counts,
    /// Pieces of more than one segment, and the segments in them.
    pub joint: (u64, u64),
    /// Pieces at all gates of packets.
    pub pieces: u64,
    /// Passages of segments without a byte: they are part of no message, but lie between the gates of some.
    pub acknowledgments: u64,
}

impl Tied {
    /// The processor on which a packet passed a gate; none when it was not seen there.
    pub fn processor(&self, packet: PacketId, gate: Gate) -> Option<u16> {
        self.processors.get(&(packet, gate)).copied()
    }

    fn note(&mut self, event: &Event, gate: Gate, packet: PacketId) {
        self.events.push(tollgate_gate::Event {
            ticks: event.ticks(),
            packet,
            gate,
        });
        self.processors.insert((packet, gate), event.cpu);
    }
}

/// Ties the events of one connection, slice by slice.
#[derive(Clone, Debug)]
pub struct PacketJoiner {
    /// The port of the end that answers.
    server_port: u16,
    /// The thread of the end that asks, and that of the end that answers.
    threads: (u32, u32),
    /// The sequence number at which the next message of each leg begins.
    begins: HashMap<Leg, u32>,
}

impl PacketJoiner {
    /// For the connection to `server_port` on which the thread `client` asks and `server` answers.
    pub fn new(server_port: u16, client: u32, server: u32) -> Self {
        Self {
            server_port,
            threads: (client, server),
            begins: HashMap::new(),
        }
    }

    fn leg(&self, flow: Flow) -> Leg {
        if flow.destination() == self.server_port {
            Leg::Request
        } else {
            Leg::Response
        }
    }

    /// The thread that reads a leg.
    const fn reader(&self, leg: Leg) -> u32 {
        match leg {
            Leg::Request => self.threads.1,
            Leg::Response => self.threads.0,
        }
    }

    /// Learns where messages begin from a slice with a gate of packets, or the one where a send begins; gives whether both legs are
    /// known. The slice's own messages are counted as gone by.
    pub fn learn(&mut self, events: &[Event], expected: &SliceMessages) -> bool {
        let mut first: Vec<&Event> = events
            .iter()
            .filter(|event| !event.is_up_to() && !event.is_acknowledgment())
            .collect();
        first.sort_by_key(|event| event.ktime);
        for event in first {
            if let Some(flow) = event.flow() {
                self.begins.entry(self.leg(flow)).or_insert(event.seq);
            }
        }
        self.advance(expected);
        self.begins.len() == 2
    }

    /// A slice went by, tied or not.
    pub fn advance(&mut self, expected: &SliceMessages) {
        for (leg, begin) in &mut self.begins {
            *begin = begin.wrapping_add(expected.length(*leg));
        }
    }

    /// Ties the events of the slice that comes next, and counts it as gone by.
    pub fn tie(&mut self, events: &[Event], expected: &SliceMessages) -> Tied {
        let mut tied = Tied::default();
        let mut sorted: Vec<&Event> = events.iter().collect();
        // At equal times the order of the way decides; the sort is stable, so a processor's own order stands otherwise.
        sorted.sort_by_key(|event| (event.ktime, event.gate()));
        tied.counts.read = sorted.len() as u64;
        let mut slice = Slice {
            joiner: self,
            expected,
            reached: HashMap::new(),
            begun: HashMap::new(),
            chunks: HashMap::new(),
            calls: HashMap::new(),
            returns: HashMap::new(),
            copied: HashMap::new(),
            tied,
        };
        for event in sorted {
            if event.is_acknowledgment() {
                slice.tied.acknowledgments += 1;
            } else {
                slice.take(event);
            }
        }
        let tied = slice.finish();
        self.advance(expected);
        tied
    }
}

/// A slice while its events are tied.
struct Slice<'a> {
    joiner: &'a PacketJoiner,
    expected: &'a SliceMessages,
    /// Bytes up to which a receiving socket's gates have been passed.
    reached: HashMap<(Leg, Gate), u32>,
    /// Messages that have set out.
    begun: HashMap<Leg, u32>,
    /// The last piece that went to TCP.
    chunks: HashMap<Leg, (Event, u32)>,
    /// The sending calls of each thread so far.
    calls: HashMap<u32, Vec<Event>>,
    /// The last return of each thread from reading, since it last sent.
    returns: HashMap<u32, Event>,
    /// The message whose last byte each thread has copied, until the call returns.
    copied: HashMap<u32, PacketId>,
    tied: Tied,
}

impl Slice<'_> {
    fn take(&mut self, event: &Event) {
        let taken = match (event.gate(), event.flow()) {
            (None, _) => false,
            (Some(gate), None) => self.take_thread(event, gate),
            (Some(gate), Some(flow)) => {
                let leg = self.joiner.leg(flow);
                self.take_piece(event, gate, leg)
            }
        };
        if !taken {
            self.tied.counts.unmatched += 1;
        }
    }

    /// Offset of a sequence number in the slice; none when it lies outside.
    fn place(&self, leg: Leg, seq: u32) -> Option<u32> {
        let into = seq.wrapping_sub(*self.joiner.begins.get(&leg)?);
        (into <= self.expected.length(leg)).then_some(into)
    }

    fn take_piece(&mut self, event: &Event, gate: Gate, leg: Leg) -> bool {
        // A FIN takes a sequence number behind the last byte, and tells of all that lies before it.
        let ends = event.is_up_to() && self.place(leg, event.seq.wrapping_sub(1)).is_some();
        let at = match self.place(leg, event.seq) {
            Some(at) => at,
            None if ends => self.expected.length(leg),
            None => return false,
        };
        if !event.is_up_to() && event.gate() < Some(Gate::DriverInBegin) {
            self.begin_message(leg, at / self.expected.bytes(leg));
        }
        if gate == Gate::TcpOutBegin {
            self.take_chunk(event, leg, at);
            return true;
        }
        let (from, to) = if event.is_up_to() {
            let reached = self.reached.entry((leg, gate)).or_insert(0);
            let from = *reached;
            *reached = from.max(at);
            (from, *reached)
        } else {
            let Some(to) = self.place(leg, event.seq.wrapping_add(event.len)) else {
                return false;
            };
            (at, to)
        };
        self.pass(event, gate, leg, from, to);
        true
    }

    fn pass(&mut self, event: &Event, gate: Gate, leg: Leg, from: u32, to: u32) {
        let expected = self.expected;
        let mut segments = 0;
        for (message, index) in expected.ending_in(leg, from, to) {
            segments += 1;
            self.tied
                .note(event, gate, expected.segment_id(leg, message, index));
            if index + 1 < expected.segments(leg) {
                continue;
            }
            let whole = expected.message_id(leg, message);
            // Where a send begins the first byte counts.
            if gate != Gate::TcpOutBegin {
                self.tied.note(event, gate, whole);
            }
            if gate == Gate::SocketInBegin {
                self.copied.insert(self.joiner.reader(leg), whole);
            }
        }
        match segments {
            0 => self.tied.counts.inner += 1,
            1 => self.tied.pieces += 1,
            _ => {
                self.tied.pieces += 1;
                self.tied.joint.0 += 1;
                self.tied.joint.1 += segments;
            }
        }
    }

    /// A packet of a message sets out: its sender has read what came before, whether or not a gate saw the call that sends.
    fn begin_message(&mut self, leg: Leg, message: u32) {
        let begun = self.begun.entry(leg).or_insert(0);
        if message >= *begun {
            *begun = message + 1;
            self.end_reading(leg, message, None);
        }
    }

    /// A send takes its next bytes: what went before has been taken whole.
    fn take_chunk(&mut self, event: &Event, leg: Leg, at: u32) {
        self.end_chunk(leg, at);
        let bytes = self.expected.bytes(leg);
        let message = at / bytes;
        if at.is_multiple_of(bytes) && message < self.expected.messages {
            let whole = self.expected.message_id(leg, message);
            // A send that waits for memory asks again.
            if self
                .chunks
                .get(&leg)
                .is_none_or(|(_, before)| *before != at)
            {
                self.tied.note(event, Gate::TcpOutBegin, whole);
                let call = self
                    .calls
                    .get(&event.thread)
                    .and_then(|calls| calls.last())
                    .copied();
                if let Some(call) = call {
                    self.tied.note(&call, Gate::SocketOutBegin, whole);
                }
            }
        }
        self.chunks.insert(leg, (*event, at));
    }

    fn end_chunk(&mut self, leg: Leg, at: u32) {
        if let Some((chunk, from)) = self.chunks.get(&leg).copied() {
            // A message is one send: no piece reaches beyond its end.
            let bytes = self.expected.bytes(leg);
            let to = at.min((from / bytes + 1) * bytes);
            if to > from {
                self.pass(&chunk, Gate::TcpOutBegin, leg, from, to);
            }
        }
    }

    fn take_thread(&mut self, event: &Event, gate: Gate) -> bool {
        let leg = match event.thread {
            thread if thread == self.joiner.threads.0 => Leg::Request,
            thread if thread == self.joiner.threads.1 => Leg::Response,
            _ => return false,
        };
        match gate {
            Gate::SocketOutBegin => {
                let calls = self.calls.entry(event.thread).or_default();
                calls.push(*event);
                let sent = calls.len() as u32 - 1;
                self.end_reading(leg, sent, Some(event));
                true
            }
            Gate::SocketInEnd => {
                // The first return after the last byte was copied, where that can be seen; else the last before the next send.
                match self.copied.remove(&event.thread) {
                    Some(whole) => self.tied.note(event, gate, whole),
                    None => {
                        self.returns.insert(event.thread, *event);
                    }
                }
                true
            }
            _ => false,
        }
    }

    /// An end has read what came before its message `sent`: the first request before the first response, and so on.
    fn end_reading(&mut self, leg: Leg, sent: u32, call: Option<&Event>) {
        let (thread, read) = match leg {
            Leg::Request => (
                self.joiner.threads.0,
                sent.checked_sub(1).map(|message| (Leg::Response, message)),
            ),
            Leg::Response => (self.joiner.threads.1, Some((Leg::Request, sent))),
        };
        let returned = self.returns.remove(&thread);
        let Some((leg, message)) = read.filter(|(_, message)| *message < self.expected.messages)
        else {
            return;
        };
        let whole = self.expected.message_id(leg, message);
        if let Some(returned) = returned {
            self.tied.note(&returned, Gate::SocketInEnd, whole);
        }
        if let Some(call) = call {
            self.tied.note(call, Gate::ApplicationEnd, whole);
        }
    }

    /// Numbers calls where no gate saw sends begin in TCP, when there is one for each message.
    fn note_calls(&mut self, leg: Leg) {
        let thread = match leg {
            Leg::Request => self.joiner.threads.0,
            Leg::Response => self.joiner.threads.1,
        };
        let calls = self.calls.remove(&thread).unwrap_or_default();
        if self.chunks.contains_key(&leg) || calls.len() != self.expected.messages as usize {
            return;
        }
        for (call, message) in calls.iter().zip(0..) {
            let whole = self.expected.message_id(leg, message);
            self.tied.note(call, Gate::SocketOutBegin, whole);
        }
    }

    fn finish(mut self) -> Tied {
        for leg in [Leg::Request, Leg::Response] {
            self.end_chunk(leg, self.expected.length(leg));
            self.note_calls(leg);
        }
        // Behind the last response no message sets out.
        self.end_reading(Leg::Request, self.expected.messages, None);
        self.tied
    }
}

#[cfg(test)]
mod tests;
