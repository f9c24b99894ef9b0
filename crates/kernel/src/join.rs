//! Events joined to the messages that they belong to.
//!
//! The kernel's gates know skbs, sockets and threads; a ledger knows messages. What ties them together is the sequence range:
//! a message is known by its last byte, and it passes a gate when the piece with that byte does. So the times at the gates of one
//! message lie one behind the other, however often it was cut into segments (GSO, a small MTU) or put together again (GRO,
//! coalescing in the socket's queue); a piece that completes several messages is a passage of each.
//!
//! | gate | what it tells | how it is tied to a message |
//! |---|---|---|
//! | of a packet | flow, sequence range | every message that ends in the range |
//! | of a receiving socket | all before a sequence number has come this far | every message that ends before it and had not passed |
//! | where a send begins | flow, first sequence number, thread | the message that begins there |
//! | of a thread | the thread only | the message that this thread sends, waits for or reads |
//!
//! A retransmission is a second passage of the same message, which `tollgate_gate::join` judges. Pure acknowledgments carry no
//! byte and are no passage of any. Times are never changed; what belongs to no message is counted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tollgate_gate::{Gate, PacketId};

use crate::event::{Event, Flow};

pub mod per_packet;

/// Ends of a connection that we drive, and the size of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The port of the far end.
    pub server_port: u16,
    /// The thread of the near end.
    pub client: u32,
    /// The thread of the far end.
    pub server: u32,
    /// Bytes of every message.
    pub size: u32,
}

impl Transfer {
    /// The thread that sends on a flow and the one that reads from it.
    const fn ends(&self, flow: Flow) -> (u32, u32) {
        if flow.destination() == self.server_port {
            (self.client, self.server)
        } else {
            (self.server, self.client)
        }
    }
}

/// Counts of a slice's events by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that were read.
    pub read: u64,
    /// Events of packets that hold no last byte of a message: its other segments, and acknowledgments.
    pub inner: u64,
    /// Events that could be tied to no message.
    pub unmatched: u64,
    /// Messages whose reader was awake already when they were queued.
    pub reader_awake: u64,
}

impl Counts {
    /// Adds the counts of another slice.
    pub fn merge(&mut self, other: &Self) {
        self.read += other.read;
        self.inner += other.inner;
        self.unmatched += other.unmatched;
        self.reader_awake += other.reader_awake;
    }
}

/// Events as the ledger's join takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tied {
    /// The passages; [`PacketId`]s are numbers of messages, each used once.
    pub events: Vec<tollgate_gate::Event>,
    /// Counts of the events by their fate.
    pub counts: Counts,
}

/// Ties the events of one connection's slices to messages. It remembers where messages begin from slice to slice.
#[derive(Clone, Debug)]
pub struct Joiner {
    transfer: Transfer,
    flows: HashMap<Flow, Stream>,
    next: u32,
}

/// One direction of a connection.
#[derive(Clone, Debug)]
struct Stream {
    /// The sequence number at which some message ends.
    border: u32,
    /// Messages by the sequence number of their end.
    numbers: HashMap<u32, PacketId>,
    /// The end up to which each gate of the receiving socket has been passed.
    passed: HashMap<Gate, u32>,
    /// The last message that was queued (or passed the gate that stands for it) and whose reader has not been seen to run since, and
    /// when.
    queued: Option<(PacketId, u64)>,
    /// The last message that was queued and whose `send()` has not returned since.
    sent: Option<PacketId>,
}

/// A thread, within a slice.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    /// When it called `send()`, until the message is known.
    sends: Option<u64>,
    /// When it was last seen to begin to run, until the message is known.
    runs: Option<u64>,
    /// The message that it reads.
    reads: Option<PacketId>,
}

impl Joiner {
    /// For one connection.
    pub fn new(transfer: Transfer) -> Self {
        Self {
            transfer,
            flows: HashMap::new(),
            next: 0,
        }
    }

    /// The connection.
    pub const fn transfer(&self) -> Transfer {
        self.transfer
    }

    /// The messages of the slice that was tied last that packets told of: each with its flow and the sequence number behind its last
    /// byte.
    pub fn messages(&self) -> impl Iterator<Item = (PacketId, Flow, u32)> {
        self.flows.iter().flat_map(|(&flow, stream)| {
            (stream.numbers.iter()).map(move |(&end, &message)| (message, flow, end))
        })
    }

    /// Ties the events of one slice, in which no message may be under way at the beginning or at the end. The first slice must
    /// have a gate that sees where a message begins: one of a packet, or the one where a send begins.
    pub fn tie(&mut self, events: &[Event]) -> Tied {
        let mut sorted: Vec<&Event> = events.iter().collect();
        // At equal times the order of the way decides; the sort is stable, so a processor's own order stands otherwise.
        sorted.sort_by_key(|event| (event.ktime, event.gate()));
        for stream in self.flows.values_mut() {
            stream.begin();
        }
        let mut slice = Slice {
            tied: Tied::default(),
            threads: HashMap::new(),
            ways: Ways::of(&sorted),
        };
        for event in sorted {
            slice.tied.counts.read += 1;
            if event.is_acknowledgment() {
                slice.tied.counts.inner += 1;
                continue;
            }
            let Some(gate) = event.gate() else {
                slice.tied.counts.unmatched += 1;
                continue;
            };
            match event.flow() {
                Some(flow) => self.take_flow(&mut slice, event, gate, flow),
                None => self.take_thread(&mut slice, event, gate),
            }
        }
        slice.tied
    }

    fn take_flow(&mut self, slice: &mut Slice, event: &Event, gate: Gate, flow: Flow) {
        let size = self.transfer.size.max(1);
        let (sender, reader) = self.transfer.ends(flow);
        let stream = match self.flows.entry(flow) {
            Entry::Occupied(known) => known.into_mut(),
            // What has come so far tells no border between messages.
            Entry::Vacant(_) if event.is_up_to() => {
                slice.tied.counts.unmatched += 1;
                return;
            }
            Entry::Vacant(new) => new.insert(Stream::new(event.seq)),
        };
        let (first, last) = if event.is_up_to() {
            let last = stream.border_at_or_before(event.seq, size);
            let from = *stream
                .passed
                .entry(gate)
                .or_insert_with(|| last.wrapping_sub(size));
            (from.wrapping_add(size), last)
        } else if gate == Gate::TcpOutBegin {
            // A send that begins in the middle of a message is its second part.
            let border = stream.border_at_or_before(event.seq, size);
            if border != event.seq {
                slice.tied.counts.inner += 1;
                return;
            }
            (border.wrapping_add(size), border.wrapping_add(size))
        } else {
            let behind = stream.border_at_or_before(event.seq, size);
            let last = stream.border_at_or_before(event.seq.wrapping_add(event.len), size);
            (behind.wrapping_add(size), last)
        };
        let mut end = first;
        let mut any = false;
        while last.wrapping_sub(end) as i32 >= 0 {
            any = true;
            let id = *stream.numbers.entry(end).or_insert_with(|| {
                self.next += 1;
                PacketId(self.next)
            });
            stream.border = end;
            slice.note(event.ktime, gate, id);
            if slice.ways.begins == Some(gate)
                && let Some(at) = slice.thread(sender).sends.take()
            {
                slice.note(at, Gate::SocketOutBegin, id);
            }
            if slice.ways.arrives == Some(gate) {
                slice.thread(reader).reads = Some(id);
            }
            if gate == slice.ways.wakes
                && let Some((before, at)) = stream.queued.replace((id, event.ktime))
            {
                slice.tied.counts.reader_awake += 1;
                slice.note(at, Gate::ReaderRuns, before);
            }
            match gate {
                Gate::SocketQueued => stream.sent = Some(id),
                Gate::SocketInBegin | Gate::SocketInEnd => {
                    let thread = slice.thread(reader);
                    thread.reads = Some(id);
                    if let Some(at) = thread.runs.take() {
                        slice.note(at, Gate::ReaderRuns, id);
                    }
                }
                _ => {}
            }
            end = end.wrapping_add(size);
        }
        if event.is_up_to() {
            stream.passed.insert(gate, last);
        }
        if !any {
            slice.tied.counts.inner += 1;
        }
    }

    fn take_thread(&mut self, slice: &mut Slice, event: &Event, gate: Gate) {
        let ends = |flow: &Flow| self.transfer.ends(*flow);
        match gate {
            Gate::SocketOutBegin => {
                let thread = slice.thread(event.thread);
                thread.sends = Some(event.ktime);
                if let Some(read) = thread.reads.take() {
                    slice.note(event.ktime, Gate::ApplicationEnd, read);
                }
                if slice.ways.begins.is_none() {
                    self.begin_unseen(slice, event);
                }
            }
            Gate::ReaderRuns => {
                let queued = self
                    .flows
                    .iter_mut()
                    .find(|(flow, _)| ends(flow).1 == event.thread)
                    .and_then(|(_, stream)| stream.queued.take());
                match queued {
                    Some((id, _)) => slice.note(event.ktime, gate, id),
                    None => slice.thread(event.thread).runs = Some(event.ktime),
                }
            }
            Gate::SocketInEnd => {
                let next = &mut self.next;
                let thread = slice.thread(event.thread);
                let id = *thread.reads.get_or_insert_with(|| {
                    *next += 1;
                    PacketId(*next)
                });
                let runs = thread.runs.take();
                if let Some(at) = runs {
                    slice.note(at, Gate::ReaderRuns, id);
                }
                slice.note(event.ktime, gate, id);
            }
            Gate::SocketOutEnd => {
                let sent = self
                    .flows
                    .iter_mut()
                    .find(|(flow, _)| ends(flow).0 == event.thread)
                    .and_then(|(_, stream)| stream.sent.take());
                match sent {
                    Some(id) => slice.note(event.ktime, gate, id),
                    None => slice.tied.counts.unmatched += 1,
                }
            }
            _ => slice.tied.counts.unmatched += 1,
        }
    }

    /// Begins a message that no gate of packets sees: what the thread sends is what the other one is woken for and reads.
    fn begin_unseen(&mut self, slice: &mut Slice, event: &Event) {
        let transfer = self.transfer;
        let mut flows = self.flows.iter_mut();
        let Some((flow, stream)) = flows.find(|(flow, _)| transfer.ends(**flow).0 == event.thread)
        else {
            return;
        };
        self.next += 1;
        let id = PacketId(self.next);
        stream.queued = Some((id, event.ktime));
        slice.thread(transfer.ends(*flow).1).reads = Some(id);
        slice.thread(event.thread).sends = None;
        slice.note(event.ktime, Gate::SocketOutBegin, id);
    }
}

/// A slice while its events are tied.
struct Slice {
    tied: Tied,
    threads: HashMap<u32, Thread>,
    ways: Ways,
}

/// Gates of packets that stand for what threads do in a slice, from the events that it has.
#[derive(Clone, Copy)]
struct Ways {
    /// The first gate that sees a message: it tells which one a thread has sent.
    begins: Option<Gate>,
    /// The last gate before the reader: it tells which one a thread will read.
    arrives: Option<Gate>,
    /// The gate behind which a message waits for its reader to run.
    wakes: Gate,
}

impl Ways {
    fn of(events: &[&Event]) -> Self {
        let gates = || {
            let packets = events.iter().filter(|event| !event.is_acknowledgment());
            let packets = packets.filter(|event| event.flow().is_some());
            packets.filter_map(|event| event.gate())
        };
        let arrives = gates().filter(|&gate| gate <= Gate::SocketQueued).max();
        let runs = |event: &&&Event| event.gate() == Some(Gate::ReaderRuns);
        let is_woken = events.iter().any(|event| runs(&event));
        Self {
            begins: gates().min(),
            arrives,
            wakes: arrives.filter(|_| is_woken).unwrap_or(Gate::SocketQueued),
        }
    }
}

impl Slice {
    fn note(&mut self, ktime: u64, gate: Gate, packet: PacketId) {
        self.tied.events.push(tollgate_gate::Event {
            ticks: tollgate_gate::Ticks(ktime),
            packet,
            gate,
        });
    }

    fn thread(&mut self, thread: u32) -> &mut Thread {
        self.threads.entry(thread).or_default()
    }
}

impl Stream {
    fn new(border: u32) -> Self {
        Self {
            border,
            numbers: HashMap::new(),
            passed: HashMap::new(),
            queued: None,
            sent: None,
        }
    }

    /// Clears the state that a slice begins without.
    fn begin(&mut self) {
        self.numbers.clear();
        self.passed.clear();
        self.queued = None;
        self.sent = None;
    }

    /// The last border between messages that does not lie behind `seq`.
    fn border_at_or_before(&self, seq: u32, size: u32) -> u32 {
        let since = i64::from(seq.wrapping_sub(self.border) as i32);
        let into = since.rem_euclid(i64::from(size));
        seq.wrapping_sub(into as u32)
    }
}

#[cfg(test)]
mod tests;
