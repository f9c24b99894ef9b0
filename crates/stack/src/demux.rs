//! From the addresses and ports of a segment to its connection: a keyed hash and a table of slots.
//!
//! The hash is SipHash-1-3 (Aumasson and Bernstein, 2012, with fewer rounds) under 128 random bits. Without the key
//! nobody can choose addresses and ports that meet in the table, so a flood of connections costs no more for each than
//! honest ones do. The table is open-addressed with linear probing, at most five eighths full, and deletes by shifting back, so
//! that it never slows down with age. It holds a part of the hash and the slot of the connection; whether the connection
//! is the one is for the caller to say, who has the key at hand in the TCB.
//!
//! A connection over IPv6 has in place of both addresses the id of their pair in `crate::destinations` and a mark. The mark
//! lies where IPv4 has the local address, and is a group's address, which no host has. Its other bits are a secret of the
//! pair, so that nobody can send a packet of IPv4 that has the key.
//!
//! This module must never know what a slot stands for, nor grow after it is made.

use crate::memory_area::MemoryArea;
use alloc::boxed::Box;
use alloc::vec;
use core::net::Ipv4Addr;

/// Both ends of a connection, as the bytes lie in a packet that comes in, each word loaded in the machine's own order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(C)]
pub struct FlowKey {
    /// Source address.
    pub remote: u32,
    /// Destination address.
    pub local: u32,
    /// Source port, then destination port.
    pub ports: u32,
}

impl FlowKey {
    /// Equality in two compares, which `==` is not compiled to.
    #[inline(always)]
    pub const fn is(self, other: Self) -> bool {
        self.addresses() == other.addresses() && self.ports == other.ports
    }

    /// The key of a pair of IPv6 addresses, its ports zero: its id, and 28 bits that are secret.
    pub(crate) const fn of_pair(id: u32, secret: u32) -> Self {
        let [a, b, c, d] = secret.to_be_bytes();
        Self {
            remote: id,
            local: u32::from_ne_bytes([a & 0x0f | 0xe0, b, c, d]),
            ports: 0,
        }
    }

    /// The id of the pair of addresses, for a connection over IPv6.
    #[inline(always)]
    pub(crate) const fn pair(self) -> Option<u32> {
        let [first, ..] = self.local.to_ne_bytes();
        if first & 0xf0 == 0xe0 {
            Some(self.remote)
        } else {
            None
        }
    }

    /// A copy of the key with other ports: the remote one first.
    pub(crate) const fn with_ports(self, remote: u16, local: u16) -> Self {
        let ([a, b], [c, d]) = (remote.to_be_bytes(), local.to_be_bytes());
        Self {
            ports: u32::from_ne_bytes([a, b, c, d]),
            ..self
        }
    }

    /// Both addresses in one word, in the order of memory.
    #[inline(always)]
    pub(crate) const fn addresses(self) -> u64 {
        let (first, second) = (self.remote as u64, self.local as u64);
        if cfg!(target_endian = "little") {
            first | second << 32
        } else {
            first << 32 | second
        }
    }

    /// A copy of the key with another local port.
    #[inline(always)]
    pub(crate) fn to_port(self, port: u16) -> Self {
        let [a, b, ..] = self.ports.to_ne_bytes();
        let [c, d] = port.to_be_bytes();
        Self {
            ports: u32::from_ne_bytes([a, b, c, d]),
            ..self
        }
    }

    /// The key of the packets that come from `remote` to `local`, each an address and a port.
    #[inline]
    pub fn new(remote: (Ipv4Addr, u16), local: (Ipv4Addr, u16)) -> Self {
        let [a, b] = remote.1.to_be_bytes();
        let [c, d] = local.1.to_be_bytes();
        Self {
            remote: u32::from_ne_bytes(remote.0.octets()),
            local: u32::from_ne_bytes(local.0.octets()),
            ports: u32::from_ne_bytes([a, b, c, d]),
        }
    }
}

/// The hash of a [`FlowKey`] under a table's key: 31 bits, and one that marks an entry as taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct FlowHash(u32);

impl FlowHash {
    /// No key's hash.
    pub(crate) const NONE: Self = Self(0);
    const TAKEN: u32 = 1 << 31;

    /// The half of a keyed hash that the table uses.
    #[inline(always)]
    pub(crate) const fn of(halves: u64) -> Self {
        Self(halves as u32 | Self::TAKEN)
    }

    /// Which of `1 << bits` lists of connections (`bits` at most 31) belongs to this hash.
    pub const fn list(self, bits: u32) -> u32 {
        (self.0 & !Self::TAKEN) & ((1 << bits) - 1)
    }
}

/// The state of SipHash (Aumasson and Bernstein 2012, section 2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sip {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl Sip {
    /// Initialisation with the 128-bit key, as its two little-endian words. The half of the first SipRound that the
    /// first word does not touch is done here, once for all hashes.
    pub(crate) fn new(key: [u64; 2]) -> Self {
        let mut state = Self {
            v0: key[0] ^ 0x736f_6d65_7073_6575,
            v1: key[1] ^ 0x646f_7261_6e64_6f6d,
            v2: key[0] ^ 0x6c79_6765_6e65_7261,
            v3: key[1] ^ 0x7465_6462_7974_6573,
        };
        state.left_half();
        state
    }

    /// First half of a SipRound, over `v0` and `v1`.
    #[inline(always)]
    fn left_half(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v0 = self.v0.rotate_left(32);
    }

    /// Second half of a SipRound: `v2` and `v3`, then across.
    #[inline(always)]
    fn right_half(&mut self) {
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v2 = self.v2.rotate_left(32);
    }

    /// `n` SipRounds.
    #[inline(always)]
    fn rounds(&mut self, n: usize) {
        for _ in 0..n {
            self.left_half();
            self.right_half();
        }
    }

    /// SipHash-C-D of the 12 bytes of `key`: one whole word, and one with the rest and the length.
    #[inline(always)]
    pub(crate) fn flow<const C: usize, const D: usize>(mut self, key: FlowKey) -> u64 {
        let first = u64::from(key.remote.to_le()) | u64::from(key.local.to_le()) << 32;
        let last = u64::from(key.ports.to_le()) | (size_of::<FlowKey>() as u64) << 56;
        self.v3 ^= first;
        self.right_half();
        self.rounds(C - 1);
        self.v0 ^= first;
        self.v3 ^= last;
        self.rounds(C);
        self.v0 ^= last;
        self.v2 ^= 0xff;
        self.rounds(D);
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }
}

impl Sip {
    /// SipHash-2-4 of two IPv6 addresses.
    pub(crate) fn pair(mut self, ends: &[u8; 32]) -> u64 {
        let (words, _) = ends.as_chunks::<8>();
        let length = 32u64 << 56;
        let words = words.iter().map(|word| u64::from_le_bytes(*word));
        for (n, word) in words.chain([length]).enumerate() {
            self.v3 ^= word;
            if n == 0 {
                // Half of the first round was done when the key was taken.
                self.right_half();
                self.rounds(1);
            } else {
                self.rounds(2);
            }
            self.v0 ^= word;
        }
        self.v2 ^= 0xff;
        self.rounds(4);
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }
}

/// Bytes of an entry.
pub(crate) const BYTES_PER_ENTRY: usize = size_of::<u64>();

/// Share of the entries that may be taken: a search then looks at 1.8 entries for what is there and at 4.1 for what is not (Knuth, The Art of
/// Computer Programming, vol. 3, 6.4, algorithm L).
const FULLEST: (usize, usize) = (5, 8);

/// The table holds as many slots as it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Outcome of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Search {
    /// The slot that was looked for.
    Found(u32),
    /// There is none, and here it would be put.
    Vacant(Vacant),
}

/// A free entry of the table for one key. It is the key's only until anything is added or taken out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacant {
    halves: u64,
    position: usize,
}

impl Vacant {
    /// The hash of the key.
    #[inline(always)]
    pub(crate) const fn hash(self) -> FlowHash {
        FlowHash::of(self.halves)
    }

    /// 32 bits of the keyed hash that say nothing of [`Vacant::hash`], which is of its other half: whoever is told them
    /// learns nothing about where connections lie in the table.
    #[inline(always)]
    pub(crate) const fn other_half(self) -> u32 {
        (self.halves >> 32) as u32
    }
}

/// The table: from hashes to slots.
#[derive(Debug)]
pub struct Table {
    sip: Sip,
    /// The hash in the upper half, the slot in the lower; zero when the entry is free.
    entries: Box<[u64]>,
    len: usize,
    capacity: usize,
}

impl Table {
    /// Makes a table for `capacity` slots (at most 2^30), under a key of 128 random bits that nobody else knows. Its
    /// memory, 13 to 26 bytes for each slot, is zero and untouched until it is used.
    pub fn new(capacity: usize, key: [u64; 2]) -> Self {
        let capacity = capacity.clamp(1, 1 << 30);
        // Never full: every search ends at a free entry.
        let (taken, of) = FULLEST;
        let least = capacity * of / taken + 1;
        let entries = vec![0; least.next_power_of_two()].into_boxed_slice();
        Self {
            sip: Sip::new(key),
            entries,
            len: 0,
            capacity,
        }
    }

    /// Memory of the entries.
    pub(crate) const fn memory(&self) -> MemoryArea {
        MemoryArea {
            start: self.entries.as_ptr().cast(),
            bytes: size_of_val(&*self.entries),
            is_written: false,
        }
    }

    /// Entries that are taken.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The hash of `key`.
    #[inline]
    pub fn hash(&self, key: FlowKey) -> FlowHash {
        FlowHash::of(self.sip.flow::<1, 3>(key))
    }

    /// The slot of `key` for which `matches` says yes, or where it would be put.
    #[inline(always)]
    pub(crate) fn search(&self, key: FlowKey, matches: impl FnMut(u32) -> bool) -> Search {
        let halves = self.sip.flow::<1, 3>(key);
        match self.find_or_end(FlowHash::of(halves), matches) {
            Ok(slot) => Search::Found(slot),
            Err(position) => Search::Vacant(Vacant { halves, position }),
        }
    }

    /// The slot that was inserted under `hash` and for which `matches` says yes.
    #[inline(always)]
    pub fn find(&self, hash: FlowHash, matches: impl FnMut(u32) -> bool) -> Option<u32> {
        self.find_or_end(hash, matches).ok()
    }

    /// The same, or the free entry at which the search ended.
    #[inline(always)]
    fn find_or_end(
        &self,
        hash: FlowHash,
        mut matches: impl FnMut(u32) -> bool,
    ) -> Result<u32, usize> {
        let mut position = self.home(hash);
        loop {
            let entry = self.entries[position];
            if (entry >> 32) as u32 == hash.0 && matches(entry as u32) {
                return Ok(entry as u32);
            }
            if entry == 0 {
                return Err(position);
            }
            position = self.behind(position);
        }
    }

    /// Adds `slot` under `hash`. The same pair must not be in the table.
    ///
    /// # Errors
    /// [`Full`] when the table holds its capacity.
    pub fn insert(&mut self, hash: FlowHash, slot: u32) -> Result<(), Full> {
        let mut position = self.home(hash);
        while self.entries[position] != 0 {
            position = self.behind(position);
        }
        self.put(position, hash, slot)
    }

    /// Adds `slot` where a search has just ended.
    ///
    /// # Errors
    /// Those of [`Table::insert`].
    #[inline(always)]
    pub(crate) fn insert_at(&mut self, vacant: Vacant, slot: u32) -> Result<(), Full> {
        debug_assert_eq!(
            Err(vacant.position),
            self.find_or_end(vacant.hash(), |_| false),
            "the table was changed since the search"
        );
        self.put(vacant.position, vacant.hash(), slot)
    }

    #[inline(always)]
    fn put(&mut self, position: usize, hash: FlowHash, slot: u32) -> Result<(), Full> {
        if self.len == self.capacity {
            return Err(Full);
        }
        self.entries[position] = pack(hash, slot);
        self.len += 1;
        Ok(())
    }

    /// Takes `slot` under `hash` out; false when it is not in the table.
    pub fn remove(&mut self, hash: FlowHash, slot: u32) -> bool {
        let Some(mut gap) = self.position(hash, slot) else {
            return false;
        };
        // Close the gap: an entry behind it moves there unless that would put it in front of its home.
        let mask = self.entries.len() - 1;
        let mut position = self.behind(gap);
        loop {
            let entry = self.entries[position];
            if entry == 0 {
                break;
            }
            let home = self.home(FlowHash((entry >> 32) as u32));
            if position.wrapping_sub(home) & mask >= position.wrapping_sub(gap) & mask {
                self.entries[gap] = entry;
                gap = position;
            }
            position = self.behind(position);
        }
        self.entries[gap] = 0;
        self.len -= 1;
        true
    }

    /// Puts `new` in the place of `old` under `hash`; false when `old` is not in the table.
    #[inline]
    pub(crate) fn replace(&mut self, hash: FlowHash, old: u32, new: u32) -> bool {
        let Some(position) = self.position(hash, old) else {
            return false;
        };
        self.entries[position] = pack(hash, new);
        true
    }

    /// The place where `slot` under `hash` stands.
    fn position(&self, hash: FlowHash, slot: u32) -> Option<usize> {
        let wanted = pack(hash, slot);
        let mut position = self.home(hash);
        loop {
            let entry = self.entries[position];
            if entry == wanted {
                return Some(position);
            }
            if entry == 0 {
                return None;
            }
            position = self.behind(position);
        }
    }

    /// The place where the search for `hash` begins.
    #[inline(always)]
    fn home(&self, hash: FlowHash) -> usize {
        hash.0 as usize & (self.entries.len() - 1)
    }

    /// The position behind `position`, at the end the first.
    #[inline(always)]
    fn behind(&self, position: usize) -> usize {
        (position + 1) & (self.entries.len() - 1)
    }
}

/// An entry. It is never zero, since a hash is not.
#[inline(always)]
fn pack(hash: FlowHash, slot: u32) -> u64 {
    u64::from(hash.0) << 32 | u64::from(slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

    fn counting() -> FlowKey {
        FlowKey {
            remote: u32::from_ne_bytes([0, 1, 2, 3]),
            local: u32::from_ne_bytes([4, 5, 6, 7]),
            ports: u32::from_ne_bytes([8, 9, 10, 11]),
        }
    }

    /// The table of results that comes with the reference implementation of SipHash-2-4, at length 12.
    #[test]
    fn siphash_2_4_gives_the_reference_vector() {
        let hash = Sip::new(KEY).flow::<2, 4>(counting());
        assert_eq!(
            hash.to_le_bytes(),
            [0xfb, 0xe5, 0x0e, 0x86, 0xbc, 0x8f, 0x1e, 0x75]
        );
    }

    /// Values of an independent implementation that gives the reference vectors of SipHash-2-4, with rounds 1 and 3;
    /// the second is also what Rust's `DefaultHasher` makes of the same bytes.
    #[test]
    fn siphash_1_3_gives_known_values() {
        assert_eq!(
            Sip::new(KEY).flow::<1, 3>(counting()),
            0x78a3_84b1_57b4_d9a2
        );
        assert_eq!(
            Sip::new([0, 0]).flow::<1, 3>(counting()),
            0xa6ba_f4fb_0f9f_e1c2
        );
    }

    /// Entry of the reference table at length 32.
    #[test]
    fn siphash_2_4_of_a_pair_gives_the_reference_vector() {
        let ends = core::array::from_fn(|at| at as u8);
        assert_eq!(
            Sip::new(KEY).pair(&ends).to_le_bytes(),
            [0xce, 0x7c, 0xf2, 0x72, 0x2f, 0x51, 0x27, 0x71]
        );
    }

    #[test]
    fn key_of_a_pair_is_no_host_s() {
        let key = FlowKey::of_pair(7, 0xffff_ffff).with_ports(1, 2);
        assert_eq!(key.pair(), Some(7));
        let local = Ipv4Addr::from(key.local.to_ne_bytes());
        assert!(local.is_multicast());
        let host = Ipv4Addr::new(10, 0, 0, 1);
        assert_eq!(FlowKey::new((host, 1), (host, 2)).pair(), None);
        assert_eq!(
            key.to_port(9),
            FlowKey::of_pair(7, u32::MAX).with_ports(1, 9)
        );
    }

    #[test]
    fn a_key_is_what_lies_in_the_packet() {
        let key = FlowKey::new(
            (Ipv4Addr::new(10, 0, 0, 1), 0x1234),
            (Ipv4Addr::new(10, 0, 0, 2), 80),
        );
        let packet = [10, 0, 0, 1, 10, 0, 0, 2, 0x12, 0x34, 0, 80];
        let word = |at: usize| {
            u32::from_ne_bytes([packet[at], packet[at + 1], packet[at + 2], packet[at + 3]])
        };
        assert_eq!(
            key,
            FlowKey {
                remote: word(0),
                local: word(4),
                ports: word(8)
            }
        );
    }

    #[test]
    fn every_bit_of_the_key_counts() {
        let table = Table::new(4, KEY);
        let base = table.hash(counting());
        for bit in 0..32 {
            let mut keys = [counting(); 3];
            keys[0].remote ^= 1 << bit;
            keys[1].local ^= 1 << bit;
            keys[2].ports ^= 1 << bit;
            assert!(keys.iter().all(|key| table.hash(*key) != base));
        }
        assert_ne!(Table::new(4, [KEY[0], KEY[1] ^ 1]).hash(counting()), base);
    }

    #[test]
    fn a_full_table_refuses_and_still_finds() {
        let mut table = Table::new(5, KEY);
        let hash = table.hash(counting());
        for slot in 0..5 {
            assert_eq!(table.insert(hash, slot), Ok(()));
        }
        assert_eq!(table.insert(hash, 5), Err(Full));
        assert_eq!(table.find(hash, |slot| slot == 4), Some(4));
        assert_eq!(table.find(hash, |slot| slot == 5), None);
        assert!(table.remove(hash, 2));
        assert!(!table.remove(hash, 2));
        assert_eq!(table.insert(hash, 5), Ok(()));
        assert_eq!(table.find(hash, |slot| slot == 5), Some(5));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u32),
        Remove(u32),
        Replace(u32, u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        let slot = 0u32..40;
        prop_oneof![
            3 => slot.clone().prop_map(Step::Insert),
            2 => slot.clone().prop_map(Step::Remove),
            1 => (slot.clone(), slot).prop_map(|(old, new)| Step::Replace(old, new)),
        ]
    }

    proptest! {
        /// Slots get their hashes from a short list: all equal, at neighbouring homes, and around the table's end.
        #[test]
        fn the_table_does_what_a_plain_map_does(
            hashes in prop::collection::vec(prop_oneof![0u32..4, 60u32..64, any::<u32>()], 1..6),
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let hash_of = |slot: u32| FlowHash(hashes[slot as usize % hashes.len()] | FlowHash::TAKEN);
            let mut table = Table::new(32, KEY);
            let mut model: Vec<(u32, FlowHash)> = Vec::new();
            for step in steps {
                match step {
                    Step::Insert(slot) if model.iter().any(|(held, _)| *held == slot) => {}
                    Step::Insert(slot) => {
                        let full = model.len() == 32;
                        prop_assert_eq!(table.insert(hash_of(slot), slot), if full { Err(Full) } else { Ok(()) });
                        if !full {
                            model.push((slot, hash_of(slot)));
                        }
                    }
                    Step::Remove(slot) => {
                        let held = model.iter().position(|entry| *entry == (slot, hash_of(slot)));
                        prop_assert_eq!(table.remove(hash_of(slot), slot), held.is_some());
                        if let Some(at) = held {
                            model.swap_remove(at);
                        }
                    }
                    Step::Replace(_, new) if model.iter().any(|(held, _)| *held == new) => {}
                    Step::Replace(old, new) => {
                        let held = model.iter().position(|entry| *entry == (old, hash_of(old)));
                        prop_assert_eq!(table.replace(hash_of(old), old, new), held.is_some());
                        if let Some(at) = held {
                            model[at].0 = new;
                        }
                    }
                }
                for slot in 0..40 {
                    let held = model.iter().find(|(held, _)| *held == slot);
                    let hash = held.map_or(hash_of(slot), |(_, hash)| *hash);
                    prop_assert_eq!(table.find(hash, |found| found == slot), held.map(|_| slot));
                }
                prop_assert_eq!(table.entries.iter().filter(|entry| **entry != 0).count(), model.len());
            }
        }
    }
}
