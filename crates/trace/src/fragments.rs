//! Fragmented datagrams, put together from the lengths of their parts (RFC 791, 3.2; RFC 8200, 4.5).
//!
//! The stack's own reassembly holds frames of its pool until a reader takes the payload, and knows IPv4 only. Here nobody
//! takes payload: what is kept is the front, where the ports are, and which bytes have come. So a datagram of which
//! only the fronts of its fragments were captured counts as well.
//!
//! Must never hold payload, nor more than [`LIMIT`] datagrams.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use crate::decode::{Datagram, FragmentRange};

/// Datagrams that wait for parts.
pub const LIMIT: usize = 4_096;
/// Time that they wait, by the capture's clock (RFC 1122, 3.3.2, and RFC 8200, 4.5: 60 s).
const TIMEOUT_NS: i64 = 60_000_000_000;
/// Bytes at the front that are kept: a TCP header with options at most.
const FRONT: usize = 60;
/// Stretches of one datagram between which something is missing.
const STRETCHES: usize = 64;
/// The longest payload of a datagram (RFC 791, 3.1; RFC 8200, 4.5).
const LONGEST: u32 = 65_535;

/// Key that the fragments of one datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: IpAddr,
    destination: IpAddr,
    identification: u32,
    /// Of IPv4; the fragments of an IPv6 packet may name other headers than the first one's.
    protocol: Option<u8>,
}

/// A datagram of which something is missing.
#[derive(Debug)]
struct Partial {
    /// The number of this datagram among several under one key, for the order of age.
    serial: u64,
    began_ns: i64,
    /// Behind the first fragment's headers.
    protocol: u8,
    front: [u8; FRONT],
    /// The captured bytes of the front, as bits.
    has: u64,
    /// Stretches of bytes that have come, in order, neither touching nor overlapping.
    stretches: Vec<(u32, u32)>,
    /// Bytes of payload in all, when the last fragment has come.
    total: Option<u32>,
    fragments: u32,
}

/// A datagram of which everything has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    protocol: u8,
    source: IpAddr,
    destination: IpAddr,
    front: [u8; FRONT],
    captured: usize,
    len: u32,
    /// In how many fragments.
    pub fragments: u32,
    /// When the first of them was captured.
    pub began_ns: i64,
}

impl Whole {
    /// The datagram whose front was captured.
    pub fn datagram(&self) -> Datagram<'_> {
        Datagram {
            protocol: self.protocol,
            source: self.source,
            destination: self.destination,
            payload: &self.front[..self.captured],
            len: self.len,
            anomaly: None,
            part: None,
        }
    }
}

/// Counts of fragments by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// Datagrams that were put together.
    pub whole: u64,
    /// Fragments that came twice.
    pub duplicates: u64,
    /// Datagrams whose parts overlapped or contradicted each other; they count for nothing (RFC 5722).
    pub contradictory: u64,
    /// Datagrams that were given up: after 60 s, for want of room, or at the end.
    pub incomplete: u64,
}

/// The fragments that wait.
#[derive(Debug, Default)]
pub struct Fragments {
    partials: HashMap<Key, Partial>,
    /// The oldest first; one that is no longer there is passed over.
    ages: VecDeque<(Key, u64)>,
    serial: u64,
    fates: Fates,
}

impl Fragments {
    /// Takes a part; gives the whole when it was the last one missing.
    pub fn push(
        &mut self,
        datagram: &Datagram<'_>,
        part: FragmentRange,
        time_ns: i64,
    ) -> Option<Whole> {
        let key = Key {
            source: datagram.source,
            destination: datagram.destination,
            identification: part.identification,
            protocol: datagram.source.is_ipv4().then_some(datagram.protocol),
        };
        self.expire(time_ns);
        if !self.partials.contains_key(&key) {
            self.make_room();
            self.serial += 1;
            self.ages.push_back((key, self.serial));
        }
        let serial = self.serial;
        let partial = self.partials.entry(key).or_insert_with(|| Partial {
            serial,
            began_ns: time_ns,
            protocol: datagram.protocol,
            front: [0; FRONT],
            has: 0,
            stretches: Vec::new(),
            total: None,
            fragments: 0,
        });
        match partial.put(datagram, part) {
            Ok(()) => {}
            Err(Misfit::Duplicate) => {
                self.fates.duplicates += 1;
                return None;
            }
            Err(Misfit::Contradiction) => {
                self.fates.contradictory += 1;
                self.partials.remove(&key);
                return None;
            }
        }
        let total = partial
            .total
            .filter(|total| partial.stretches == [(0, *total)])?;
        let whole = Whole {
            protocol: partial.protocol,
            source: key.source,
            destination: key.destination,
            front: partial.front,
            captured: (partial.has.trailing_ones() as usize).min(FRONT),
            len: total,
            fragments: partial.fragments,
            began_ns: partial.began_ns,
        };
        self.partials.remove(&key);
        self.fates.whole += 1;
        Some(whole)
    }

    /// Counts of the fragments by their fate, those that still wait being given up.
    pub fn finish(mut self) -> Fates {
        self.fates.incomplete += self.partials.len() as u64;
        self.fates
    }

    /// Gives up those whose time is over.
    fn expire(&mut self, now_ns: i64) {
        while let Some(&(key, serial)) = self.ages.front() {
            match self.partials.get(&key) {
                Some(partial) if partial.serial == serial => {
                    if now_ns.saturating_sub(partial.began_ns) < TIMEOUT_NS {
                        return;
                    }
                    self.give_up(&key);
                }
                Some(_) | None => {}
            }
            self.ages.pop_front();
        }
    }

    fn make_room(&mut self) {
        while self.partials.len() >= LIMIT {
            let Some((key, serial)) = self.ages.pop_front() else {
                return;
            };
            if self.partials.get(&key).is_some_and(|p| p.serial == serial) {
                self.give_up(&key);
            }
        }
        // What was put together in the meantime leaves its age behind.
        if self.ages.len() >= 2 * LIMIT {
            let partials = &self.partials;
            self.ages
                .retain(|(key, serial)| partials.get(key).is_some_and(|p| p.serial == *serial));
        }
    }

    fn give_up(&mut self, key: &Key) {
        self.partials.remove(key);
        self.fates.incomplete += 1;
    }
}

/// The reason why a part does not fit.
enum Misfit {
    Duplicate,
    Contradiction,
}

impl Partial {
    fn put(&mut self, datagram: &Datagram<'_>, part: FragmentRange) -> Result<(), Misfit> {
        let start = u32::from(part.offset);
        let end = start.saturating_add(datagram.len);
        let misaligned = part.more && !datagram.len.is_multiple_of(8);
        let contradicts = match self.total {
            Some(total) => end > total || (!part.more && end != total),
            None => !part.more && self.stretches.last().is_some_and(|last| last.1 > end),
        };
        if datagram.len == 0 || end > LONGEST || misaligned || contradicts {
            return Err(Misfit::Contradiction);
        }
        let at = self.stretches.partition_point(|stretch| stretch.1 < start);
        match self.stretches.get(at).copied() {
            Some((from, to)) if from <= start && end <= to && start < to => {
                return Err(Misfit::Duplicate);
            }
            Some((from, to)) if start < to && from < end => return Err(Misfit::Contradiction),
            // Touches the one before; what follows may touch, too.
            Some((from, to)) if to == start => {
                match self.stretches.get(at + 1).copied() {
                    Some((next, _)) if next < end => return Err(Misfit::Contradiction),
                    Some((next, last)) if next == end => {
                        self.stretches[at] = (from, last);
                        self.stretches.remove(at + 1);
                    }
                    _ => self.stretches[at] = (from, end),
                };
            }
            Some((from, to)) if from == end => self.stretches[at] = (start, to),
            _ if self.stretches.len() == STRETCHES => return Err(Misfit::Contradiction),
            _ => self.stretches.insert(at, (start, end)),
        }
        if !part.more {
            self.total = Some(end);
        }
        if part.offset == 0 {
            self.protocol = datagram.protocol;
        }
        self.fragments += 1;
        let bytes = (usize::from(part.offset)..FRONT).zip(datagram.payload);
        for (place, byte) in bytes {
            self.front[place] = *byte;
            self.has |= 1 << place;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
