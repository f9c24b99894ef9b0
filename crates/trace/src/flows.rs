//! The flows of a capture, and the messages on them.
//!
//! A flow is what two ends with their ports exchange over one protocol; a SYN with another sequence number begins a new one
//! between the same ends. The table is bounded: when it is full, the flow that was silent longest goes, and that is
//! counted.
//!
//! Must never look at a packet's bytes.

mod order;
mod writes;

use std::hash::BuildHasher;
use std::net::IpAddr;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tollgate_checksum::prefetch;
use tollgate_wire::tcp::Flags;

use crate::anonymise::Anonymiser;
use crate::decode::{Segment, Transport};
use crate::rows::{
    Carried, Counted, End, Ending, Ends, FlowRow, MessageRow, PacketRow, Protocol, Rows,
};
use order::Order;
use writes::{Direction, Write};

/// Bounds of flows and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows that are remembered at once, at least 1; some 350 bytes each.
    pub flows: usize,
    /// A silence of a sender that ends what its application wrote, in nanoseconds.
    pub pause_ns: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flows: 1 << 18,
            // Longer than a round trip across the world, for which a sender waits when its window is full, and than most
            // retransmission timeouts.
            pause_ns: 1_000_000_000,
        }
    }
}

/// Counts made in passing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Flows that have begun.
    pub flows: u64,
    /// Flows that went, open as they were, since the table was full.
    pub evicted: u64,
    /// Places where bytes of a connection are missing or come late.
    pub gaps: u64,
    /// Rows of messages.
    pub messages: u64,
}

/// Bytes that come from memory together.
const CACHE_LINE: usize = 64;
/// A table of more flows than this is not in the nearer caches, so it is worth it to fetch a flow before it is needed.
const FLOWS_IN_CACHE: usize = 1 << 10;

/// Both ends in an order that does not depend on who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    low: u128,
    high: u128,
    /// The lower end's port in the upper half.
    ports: u32,
    protocol: Protocol,
    is_v4: bool,
}

impl Key {
    /// The key, and whether the sender is the lower end.
    #[inline]
    fn of(transport: &Transport) -> (Self, bool) {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.to_bits().into(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let (source, destination) = (&transport.source, &transport.destination);
        let one = (bits(source.address), source.port);
        let other = (bits(destination.address), destination.port);
        let from_low = one <= other;
        let (low, high) = if from_low { (one, other) } else { (other, one) };
        let key = Self {
            low: low.0,
            high: high.0,
            ports: u32::from(low.1) << 16 | u32::from(high.1),
            protocol: transport.protocol(),
            is_v4: source.address.is_ipv4(),
        };
        (key, from_low)
    }
}

struct Flow {
    key: Key,
    id: u64,
    /// Ends in the form of the rows, which may be anonymised.
    ends: Ends,
    client_is_low: bool,
    first_ns: i64,
    last_ns: i64,
    opened: bool,
    reset: bool,
    /// Tells whether the client, and the server, has sent a FIN.
    finished: [bool; 2],
    /// Traffic that the client sent, and that the server sent.
    carried: [Carried; 2],
    directions: [Direction; 2],
}

impl Flow {
    fn ending(&self, otherwise: Ending) -> Ending {
        if self.reset {
            Ending::Reset
        } else if self.finished == [true, true] {
            Ending::Closed
        } else {
            otherwise
        }
    }

    fn row(&self, ending: Ending) -> FlowRow {
        FlowRow {
            flow: self.id,
            ends: self.ends,
            first_ns: self.first_ns,
            last_ns: self.last_ns,
            opened: self.opened,
            ending,
            to_server: self.carried[CLIENT],
            to_client: self.carried[SERVER],
        }
    }
}

/// Tells whether the end with this port is the server, as far as ports tell: its is the lower, as one below 1,024 (RFC 6335, 6) always is
/// beside another. No service listens on port 0, which says that nobody waits for an answer (RFC 768).
const fn is_service(port: u16, other: u16) -> bool {
    port != 0 && (other == 0 || port < other)
}

/// Indices of the two directions.
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// The table of flows.
pub struct Flows {
    limits: Limits,
    anonymiser: Option<Anonymiser>,
    /// Slots by their flow's key, which stands with the flow alone: what a packet needs of both lies in few places.
    by_key: HashTable<u32>,
    hasher: RandomState,
    slots: Vec<Flow>,
    order: Order,
    /// The number of the next flow.
    next_id: u64,
    tally: Tally,
}

impl Flows {
    /// An empty table, whose flows are numbered from `first_id` on.
    pub fn new(limits: Limits, anonymiser: Option<Anonymiser>, first_id: u64) -> Self {
        Self {
            limits,
            anonymiser,
            by_key: HashTable::new(),
            hasher: RandomState::default(),
            slots: Vec::new(),
            order: Order::new(),
            next_id: first_id,
            tally: Tally::default(),
        }
    }

    /// Counts so far.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Tells whether it takes long until what a packet needs has come from memory, so that [`Self::fetch`] is worth it.
    #[inline]
    pub fn is_out_of_cache(&self) -> bool {
        self.slots.len() > FLOWS_IN_CACHE
    }

    /// Begins to fetch what [`Self::push`] will need for this segment or datagram.
    #[inline]
    pub fn fetch(&self, transport: &Transport) {
        let (key, _) = Key::of(transport);
        // Whose hash is alike is the flow but for one time in a hundred or so; to look at its key would be to wait for it.
        if let Some(&slot) = self.by_key.find(self.hasher.hash_one(key), |_| true) {
            self.fetch_slot(slot);
            self.order.fetch(slot as usize);
        }
    }

    /// All of a flow that was silent for a while is far away, and all of it is needed.
    #[inline]
    fn fetch_slot(&self, slot: u32) {
        let flow = std::ptr::from_ref(&self.slots[slot as usize]).cast::<u8>();
        for line in (0..size_of::<Flow>()).step_by(CACHE_LINE) {
            prefetch(flow.wrapping_add(line));
        }
    }

    /// Takes a segment or datagram that came in `packets` packets, the first of them captured at `began_ns`.
    ///
    /// # Errors
    /// Errors of `rows`.
    #[inline]
    pub fn push<R: Rows>(
        &mut self,
        transport: &Transport,
        time_ns: i64,
        (packets, began_ns): (u32, i64),
        rows: &mut R,
    ) -> Result<(), R::Error> {
        let (key, from_low) = Key::of(transport);
        let slot = match self.find(&key) {
            Some(slot) if !self.is_another(slot, transport, from_low) => slot,
            Some(slot) => {
                self.give(slot, Ending::Open, rows)?;
                self.renew(slot, transport, key, from_low, time_ns);
                slot
            }
            None => self.begin(transport, key, from_low, time_ns, rows)?,
        };
        self.order.touch(slot);
        let flow = &mut self.slots[slot];
        let to_server = from_low == flow.client_is_low;
        flow.first_ns = flow.first_ns.min(time_ns);
        flow.last_ns = flow.last_ns.max(time_ns);
        let size = transport.size;
        let carried = &mut flow.carried[usize::from(!to_server)];
        carried.packets += u64::from(packets);
        carried.bytes += u64::from(size);
        carried.segments += u64::from(size > 0 || transport.segment.is_none());
        rows.packet(&PacketRow {
            time_ns,
            flow: flow.id,
            to_server,
            size,
            flags: transport.segment.map_or(0, |segment| segment.flags.0),
        })?;
        let mut messages = Messages {
            rows,
            tally: &mut self.tally,
        };
        match &transport.segment {
            Some(segment) => {
                messages.segment(flow, to_server, segment, size, time_ns, &self.limits)
            }
            None => {
                carried.writes += 1;
                let row = MessageRow {
                    time_ns: began_ns,
                    flow: flow.id,
                    to_server,
                    size,
                    packets,
                    counted: Counted::AsBoth,
                    again: false,
                };
                messages.give(&row, &flow.ends)
            }
        }
    }

    /// Gives all that is still there, the flow that was silent longest first.
    ///
    /// # Errors
    /// Errors of `rows`.
    pub fn finish<R: Rows>(mut self, rows: &mut R) -> Result<Tally, R::Error> {
        let mut next = self.order.oldest();
        while let Some(slot) = next {
            self.give(slot, Ending::Open, rows)?;
            next = self.order.newer(slot);
        }
        Ok(self.tally)
    }

    /// The flow under `key`. As Clark et al. 1989 saw, it is most often the one of the packet before.
    #[inline]
    fn find(&self, key: &Key) -> Option<usize> {
        let newest = self.order.newest();
        if newest.is_some_and(|slot| self.slots[slot].key == *key) {
            return newest;
        }
        let is_it = |&slot: &u32| {
            self.fetch_slot(slot);
            self.slots[slot as usize].key == *key
        };
        let slot = self.by_key.find(self.hasher.hash_one(key), is_it)?;
        Some(*slot as usize)
    }

    /// Tells whether a segment opens another connection between the same ends.
    fn is_another(&self, slot: usize, transport: &Transport, from_low: bool) -> bool {
        let Some(segment) = &transport.segment else {
            return false;
        };
        if !segment.flags.has(Flags::SYN) || segment.flags.has(Flags::ACK) {
            return false;
        }
        let flow = &self.slots[slot];
        let way = usize::from(from_low != flow.client_is_low);
        flow.directions[way]
            .first
            .is_some_and(|first| first != segment.seq)
            || flow.directions[way].first.is_none() && flow.carried[way].packets > 0
    }

    /// Begins a flow in a slot of its own, or in that of the flow that was silent longest.
    fn begin<R: Rows>(
        &mut self,
        transport: &Transport,
        key: Key,
        from_low: bool,
        time_ns: i64,
        rows: &mut R,
    ) -> Result<usize, R::Error> {
        let full = self.slots.len() >= self.limits.flows.clamp(1, u32::MAX as usize);
        let slot = match self.order.oldest().filter(|_| full) {
            None => {
                let flow = self.flow(transport, key, from_low, time_ns);
                self.slots.push(flow);
                self.order.add();
                self.slots.len() - 1
            }
            Some(slot) => {
                if self.slots[slot].ending(Ending::Evicted) == Ending::Evicted {
                    self.tally.evicted += 1;
                }
                self.give(slot, Ending::Evicted, rows)?;
                let hash = self.hasher.hash_one(self.slots[slot].key);
                let its = |&other: &u32| other as usize == slot;
                if let Ok(entry) = self.by_key.find_entry(hash, its) {
                    entry.remove();
                }
                self.renew(slot, transport, key, from_low, time_ns);
                slot
            }
        };
        let (hasher, slots) = (&self.hasher, &self.slots);
        let hash_of = |&slot: &u32| hasher.hash_one(slots[slot as usize].key);
        self.by_key
            .insert_unique(hasher.hash_one(key), slot as u32, hash_of);
        Ok(slot)
    }

    /// Puts a new flow into a slot.
    fn renew(
        &mut self,
        slot: usize,
        transport: &Transport,
        key: Key,
        from_low: bool,
        time_ns: i64,
    ) {
        self.slots[slot] = self.flow(transport, key, from_low, time_ns);
    }

    /// A flow that begins with this segment or datagram.
    fn flow(&mut self, transport: &Transport, key: Key, from_low: bool, time_ns: i64) -> Flow {
        let id = self.next_id;
        self.next_id += 1;
        self.tally.flows += 1;
        let flags = transport.segment.map_or(Flags(0), |segment| segment.flags);
        let from_server = if flags.has(Flags::SYN) {
            // Who answers one is the server.
            flags.has(Flags::ACK)
        } else {
            is_service(transport.source.port, transport.destination.port)
        };
        let shown = |end: End| End {
            address: match &self.anonymiser {
                Some(anonymiser) => anonymiser.address(end.address),
                None => end.address,
            },
            port: end.port,
        };
        let (source, destination) = (shown(transport.source), shown(transport.destination));
        let (client, server) = if from_server {
            (destination, source)
        } else {
            (source, destination)
        };
        Flow {
            key,
            id,
            ends: Ends {
                protocol: key.protocol,
                client,
                server,
            },
            client_is_low: from_low != from_server,
            first_ns: time_ns,
            last_ns: time_ns,
            opened: flags.has(Flags::SYN),
            reset: false,
            finished: [false; 2],
            carried: [Carried::default(); 2],
            directions: [Direction::default(); 2],
        }
    }

    /// Gives what a flow still holds, and its row.
    fn give<R: Rows>(
        &mut self,
        slot: usize,
        otherwise: Ending,
        rows: &mut R,
    ) -> Result<(), R::Error> {
        let flow = &mut self.slots[slot];
        let mut messages = Messages {
            rows,
            tally: &mut self.tally,
        };
        for way in [CLIENT, SERVER] {
            if let Some(write) = flow.directions[way].end() {
                messages.write(flow, way == CLIENT, write)?;
            }
        }
        rows.flow(&flow.row(flow.ending(otherwise)))
    }
}

/// Messages on their way to the rows.
struct Messages<'a, R> {
    rows: &'a mut R,
    tally: &'a mut Tally,
}

impl<R: Rows> Messages<'_, R> {
    #[inline]
    fn segment(
        &mut self,
        flow: &mut Flow,
        to_server: bool,
        segment: &Segment,
        size: u32,
        time_ns: i64,
        limits: &Limits,
    ) -> Result<(), R::Error> {
        let way = usize::from(!to_server);
        flow.reset |= segment.flags.has(Flags::RST);
        flow.finished[way] |= segment.flags.has(Flags::FIN);
        if size == 0 {
            return match flow.directions[way].without_data(segment) {
                Some(write) => self.write(flow, to_server, write),
                None => Ok(()),
            };
        }
        let taken = flow.directions[way].data(segment, size, time_ns, limits.pause_ns);
        self.tally.gaps += u64::from(taken.gap);
        if taken.fresh > 0
            && let Some(write) = flow.directions[1 - way].end()
        {
            self.write(flow, !to_server, write)?;
        }
        if let Some(write) = taken.before {
            self.write(flow, to_server, write)?;
        }
        let alone = taken
            .ended
            .is_some_and(|write| write.packets == 1 && write.bytes == size);
        let again = taken.fresh == 0;
        flow.carried[way].again += u64::from(again);
        flow.carried[way].writes += u64::from(alone);
        let row = MessageRow {
            time_ns,
            flow: flow.id,
            to_server,
            size,
            packets: 1,
            counted: if alone {
                Counted::AsBoth
            } else {
                Counted::AsSegment
            },
            again,
        };
        self.give(&row, &flow.ends)?;
        match taken.ended {
            Some(write) if !alone => self.write(flow, to_server, write),
            _ => Ok(()),
        }
    }

    /// Gives a write of more than one segment, or one whose end was only known later.
    fn write(&mut self, flow: &mut Flow, to_server: bool, write: Write) -> Result<(), R::Error> {
        flow.carried[usize::from(!to_server)].writes += 1;
        let row = MessageRow {
            time_ns: write.began_ns,
            flow: flow.id,
            to_server,
            size: write.bytes,
            packets: write.packets,
            counted: Counted::AsWrite,
            again: false,
        };
        self.give(&row, &flow.ends)
    }

    #[inline]
    fn give(&mut self, row: &MessageRow, ends: &Ends) -> Result<(), R::Error> {
        self.tally.messages += 1;
        self.rows.message(row, ends)
    }
}

#[cfg(test)]
mod tests;
