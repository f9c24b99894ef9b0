//! TIME-WAIT (RFC 9293, 3.6.1) in one cache line per connection.
//!
//! All wait equally long, so they stand in the order in which they end. When there are too many the oldest is let go.

use crate::buffer::CACHE_LINE;
use crate::demux::{FlowHash, FlowKey};
use crate::memory_area::MemoryArea;
use crate::time::Tick;
use alloc::vec::Vec;
use tollgate_wire::SeqNumber;

const NONE: u32 = u32::MAX;

/// The bit of a table's slot that says that it is a TIME-WAIT's.
pub(crate) const SLOT_BIT: u32 = 1 << 31;

/// State that is kept of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeWait {
    pub(crate) key: FlowKey,
    /// The key's hash, under which the table has it.
    pub(crate) hash: FlowHash,
    pub(crate) snd_nxt: SeqNumber,
    pub(crate) rcv_nxt: SeqNumber,
    pub(crate) ts_recent: u32,
    pub(crate) ts_offset: u32,
    pub(crate) until: Tick,
    /// When the last segment was sent or received.
    pub(crate) since: Tick,
    previous: u32,
    next: u32,
    /// The window that we last offered, as on the wire.
    pub(crate) window: u16,
    pub(crate) timestamps: bool,
    /// The peer's FIN has not come, and nobody waited for it any longer.
    pub(crate) fin_is_due: bool,
    /// AE, CWR and ECE of what is answered (RFC 3168, 6.1.3; RFC 9768, 3.2).
    pub(crate) ecn_bits: u8,
}

const _: () = assert!(size_of::<TimeWait>() <= CACHE_LINE);

/// All connections in TIME-WAIT.
#[derive(Debug)]
pub(crate) struct TimeWaitTable {
    entries: Vec<TimeWait>,
    free: u32,
    oldest: u32,
    newest: u32,
    len: usize,
    capacity: usize,
}

impl TimeWaitTable {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: Vec::with_capacity(capacity),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            len: 0,
            capacity,
        }
    }

    /// Memory of the entries.
    pub(crate) const fn memory(&self) -> MemoryArea {
        MemoryArea::reserved(&self.entries)
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, index: u32) -> Option<&TimeWait> {
        self.entries.get(index as usize)
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut TimeWait> {
        self.entries.get_mut(index as usize)
    }

    /// All entries with their indexes, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &TimeWait)> {
        core::iter::successors(Some(self.oldest), |&index| Some(self.get(index)?.next))
            .map_while(|index| Some((index, self.get(index)?)))
            .take(self.len)
    }

    /// The entry that ends first, when the table is full and it must make room.
    pub(crate) fn must_go(&self) -> Option<u32> {
        (self.len >= self.capacity).then_some(self.oldest)
    }

    /// Adds an entry that ends after all others; the caller has made room.
    #[inline]
    pub(crate) fn insert(&mut self, mut entry: TimeWait) -> u32 {
        entry.previous = self.newest;
        entry.next = NONE;
        let index = if self.free != NONE {
            let index = self.free;
            self.free = self.entries[index as usize].next;
            self.entries[index as usize] = entry;
            index
        } else {
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        };
        match self.newest {
            NONE => self.oldest = index,
            newest => self.entries[newest as usize].next = index,
        }
        self.newest = index;
        self.len += 1;
        index
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, index: u32) {
        let TimeWait { previous, next, .. } = self.entries[index as usize];
        match previous {
            NONE => self.oldest = next,
            previous => self.entries[previous as usize].next = next,
        }
        match next {
            NONE => self.newest = previous,
            next => self.entries[next as usize].previous = previous,
        }
        let entry = &mut self.entries[index as usize];
        entry.key = FlowKey::default();
        entry.next = self.free;
        self.free = index;
        self.len -= 1;
    }

    /// Makes an entry the one that ends last.
    pub(crate) fn restart(&mut self, index: u32, until: Tick) -> u32 {
        let entry = self.entries[index as usize];
        self.remove(index);
        self.insert(TimeWait { until, ..entry })
    }

    /// The first entry whose time is up.
    pub(crate) fn expired(&self, now: Tick) -> Option<u32> {
        self.get(self.oldest)
            .is_some_and(|entry| entry.until.reached(now))
            .then_some(self.oldest)
    }

    /// When the first entry ends.
    pub(crate) fn next(&self) -> Option<Tick> {
        self.get(self.oldest).map(|entry| entry.until)
    }
}

impl TimeWait {
    /// An entry for [`TimeWaitTable::insert`].
    pub(crate) fn new(
        (key, hash): (FlowKey, FlowHash),
        snd_nxt: SeqNumber,
        rcv_nxt: SeqNumber,
        now: Tick,
        until: Tick,
    ) -> Self {
        Self {
            key,
            hash,
            snd_nxt,
            rcv_nxt,
            ts_recent: 0,
            ts_offset: 0,
            until,
            since: now,
            previous: NONE,
            next: NONE,
            window: 0,
            timestamps: false,
            fin_is_due: false,
            ecn_bits: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u32) -> TimeWait {
        let key = FlowKey {
            remote: n,
            local: 0,
            ports: 0,
        };
        TimeWait::new(
            (key, FlowHash::NONE),
            SeqNumber(n),
            SeqNumber(0),
            Tick(n),
            Tick(n + 10),
        )
    }

    #[test]
    fn entries_end_in_order_and_places_are_used_again() {
        let mut table = TimeWaitTable::new(3);
        let a = table.insert(entry(1));
        let b = table.insert(entry(2));
        let c = table.insert(entry(3));
        assert_eq!(table.must_go(), Some(a));
        table.remove(b);
        assert_eq!(table.len(), 2);
        assert_eq!(table.must_go(), None);
        assert_eq!(table.insert(entry(4)), b);
        assert_eq!(table.expired(Tick(10)), None);
        assert_eq!(table.expired(Tick(11)), Some(a));
        table.remove(a);
        assert_eq!(table.next(), Some(Tick(13)));
        let c = table.restart(c, Tick(30));
        assert_eq!(table.next(), Some(Tick(14)));
        table.remove(b);
        assert_eq!(table.next(), Some(Tick(30)));
        table.remove(c);
        assert_eq!(table.next(), None);
        assert_eq!(table.len(), 0);
    }
}
