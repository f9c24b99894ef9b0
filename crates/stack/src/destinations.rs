//! The destination cache (RFC 4861, 5.1): pairs of IPv6 addresses that packets are exchanged between, each with its next
//! hop, the next hop's link address and the MTU of the path.
//!
//! A pair has a small id, which the key of a connection holds where that of IPv4 holds both addresses
//! ([`FlowKey::of_pair`]). So a TCB is as large for either version, and whatever finds connections by their keys serves both.
//! Hashes are not made of ids, which come and go, but of the pair's label, a keyed hash of both addresses. So sequence
//! numbers, timestamps, ports and cookies are those of the addresses.
//!
//! # Bounds
//!
//! Whatever arrives for TCP enters its pair here, so most pairs of a flood are nobody's. When the pairs have doubled since
//! the last time, those that no connection and no TIME-WAIT names are let go ([`Destinations::sweep`]): a constant number
//! of steps for each that was entered. Until then an id stays what it is; nobody may keep one across the entry of
//! another pair, unless a connection names it.
//!
//! This module must never look at a connection, nor send anything.

use crate::demux::{FlowHash, FlowKey, Sip, Table};
use crate::next_hops::NextHops;
use crate::time::Instant;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use tollgate_checksum::Accumulator;
use tollgate_wire::ethernet::MacAddr;

/// Pairs below this number are never looked through.
const FEW: usize = 64;
/// Most pairs: ids of more would not fit the lists that connections stand in.
const MOST: usize = 1 << 24;

/// Time for which a router's word on the MTU of a path counts (RFC 8201, 5.3: about 10 minutes).
const PMTU_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Addresses that no key has, that of a free connection included.
const NOBODYS: u64 = u64::MAX;

/// Both addresses as they lie in a packet that comes in: the remote one, then ours.
pub(crate) type Ends = [u8; 32];

/// A pair of addresses. The data path looks at the first 64 bytes alone.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Destination {
    pub(crate) ends: Ends,
    /// Addresses of the keys of its connections, as [`FlowKey::addresses`] has them; [`NOBODYS`] when it is free.
    pub(crate) key: u64,
    /// First bytes of the link header, as in [`Tcb::link`](crate::tcp::tcb::Tcb): the next hop's address, zeros while it is not
    /// known, and the first two bytes of ours.
    pub(crate) link: [u8; 8],
    /// Keyed hash of both addresses.
    label: u64,
    /// The sum of both addresses, folded.
    pub(crate) sum: u16,
    /// Bytes of a packet that the path takes (RFC 8201); those that the device takes where no router has told less. What routers
    /// say of the link is not in it.
    pub(crate) mtu: u16,
    /// Bits of the pair's keys that are secret.
    secret: u32,
    /// The router or host that packets are handed to.
    pub(crate) next_hop: Ipv6Addr,
    /// When the path is taken to have become wider, where a router has told an MTU.
    widen_at: Option<Instant>,
}

impl Destination {
    const FREE: Self = Self {
        ends: [0; 32],
        key: NOBODYS,
        link: [0; 8],
        label: 0,
        sum: 0,
        mtu: 0,
        secret: 0,
        next_hop: Ipv6Addr::UNSPECIFIED,
        widen_at: None,
    };

    /// Tells whether no pair is here.
    pub(crate) const fn is_free(&self) -> bool {
        self.key == NOBODYS
    }

    /// The remote address.
    pub(crate) fn remote(&self) -> Ipv6Addr {
        self.halves().0
    }

    /// Our address.
    pub(crate) fn local(&self) -> Ipv6Addr {
        self.halves().1
    }

    fn halves(&self) -> (Ipv6Addr, Ipv6Addr) {
        let (halves, _) = self.ends.as_chunks::<16>();
        (Ipv6Addr::from(halves[0]), Ipv6Addr::from(halves[1]))
    }

    /// Tells whether the next hop's link address is known.
    #[inline(always)]
    pub(crate) fn is_reached(&self) -> bool {
        // Two bytes of the eight are ours.
        u64::from_be_bytes(self.link) >> 16 != 0
    }

    /// The next hop's link address, if it is known.
    pub(crate) fn known_link(&self) -> Option<MacAddr> {
        let [a, b, c, d, e, f, ..] = self.link;
        let mac = MacAddr([a, b, c, d, e, f]);
        (mac != MacAddr::default()).then_some(mac)
    }
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Destinations {
    pairs: Vec<Destination>,
    /// By hash of both addresses.
    table: Table,
    free: Vec<u32>,
    /// Pairs by next hop.
    next_hops: NextHops<Ipv6Addr>,
    /// Pairs whose path takes less than the device, by when that is forgotten.
    narrow: BTreeSet<(Instant, u32)>,
    /// Pairs that are not named are looked for when there are this many.
    sweep_at: usize,
    sip: Sip,
}

/// Both addresses in the order in which [`Destination::ends`] has them.
pub(crate) fn ends(remote: Ipv6Addr, local: Ipv6Addr) -> Ends {
    let mut ends = [0; 32];
    ends[..16].copy_from_slice(&remote.octets());
    ends[16..].copy_from_slice(&local.octets());
    ends
}

/// The first bytes of a link header.
const fn link(next_hop: MacAddr, own: MacAddr) -> [u8; 8] {
    let ([a, b, c, d, e, f], [g, h, ..]) = (next_hop.0, own.0);
    [a, b, c, d, e, f, g, h]
}

impl Destinations {
    /// Makes a cache for the pairs of `connections`, those in TIME-WAIT included, under a key that nobody else knows.
    pub(crate) fn new(connections: usize, key: [u64; 2]) -> Self {
        // Twice as many as are named, and those that a sweep leaves.
        let capacity = (2 * connections + FEW).min(MOST);
        Self {
            pairs: Vec::new(),
            table: Table::new(capacity, key),
            free: Vec::new(),
            next_hops: NextHops::new(0),
            narrow: BTreeSet::new(),
            sweep_at: FEW,
            sip: Sip::new(key),
        }
    }

    /// The id of a pair that is here.
    pub(crate) fn find(&self, ends: &Ends) -> Option<u32> {
        let hash = FlowHash::of(self.sip.pair(ends));
        self.table
            .find(hash, |id| self.pairs[id as usize].ends == *ends)
    }

    /// Tells whether pairs that nobody names have to go before another is entered.
    pub(crate) fn is_full(&self) -> bool {
        self.pairs.len() - self.free.len() >= self.sweep_at
    }

    /// Enters a pair that is not here, with its next hop, the MTU of its link and our link address; says which id it has. Nothing
    /// where more connections name pairs than there may be.
    pub(crate) fn enter(
        &mut self,
        ends: Ends,
        next_hop: Ipv6Addr,
        mtu: u16,
        own: MacAddr,
    ) -> Option<u32> {
        let label = self.sip.pair(&ends);
        let id = self.free.pop().unwrap_or(self.pairs.len() as u32);
        if self.table.insert(FlowHash::of(label), id).is_err() {
            if (id as usize) < self.pairs.len() {
                self.free.push(id);
            }
            return None;
        }
        let secret = (label >> 32) as u32;
        let pair = Destination {
            ends,
            key: FlowKey::of_pair(id, secret).addresses(),
            link: link(MacAddr::default(), own),
            label,
            sum: Accumulator::of(&ends).narrow().fold(),
            mtu,
            secret,
            next_hop,
            widen_at: None,
        };
        match self.pairs.get_mut(id as usize) {
            Some(place) => *place = pair,
            None => {
                self.pairs.push(pair);
                self.next_hops.add_place();
            }
        }
        self.next_hops.change(id, next_hop);
        Some(id)
    }

    /// Lets go of all pairs but those that `is_named` says yes to.
    pub(crate) fn sweep(&mut self, is_named: impl Fn(u32) -> bool) {
        for id in 0..self.pairs.len() as u32 {
            let pair = &mut self.pairs[id as usize];
            if pair.is_free() || is_named(id) {
                continue;
            }
            if let Some(at) = pair.widen_at {
                self.narrow.remove(&(at, id));
            }
            self.table.remove(FlowHash::of(pair.label), id);
            *pair = Destination::FREE;
            self.next_hops.leave(id);
            self.free.push(id);
        }
        self.sweep_at = FEW.max(2 * (self.pairs.len() - self.free.len()));
    }

    /// Notes that the path of a pair takes only packets of `mtu` bytes, for [`PMTU_TIMEOUT`] from `now` on.
    pub(crate) fn narrow(&mut self, id: u32, mtu: u16, now: Instant) {
        let Some(pair) = self.pairs.get_mut(id as usize) else {
            return;
        };
        if mtu >= pair.mtu {
            return;
        }
        pair.mtu = mtu;
        let at = now + PMTU_TIMEOUT;
        if let Some(before) = pair.widen_at.replace(at) {
            self.narrow.remove(&(before, id));
        }
        self.narrow.insert((at, id));
    }

    /// Takes a path to be as wide as the device again, whose packets have `mtu` bytes, when its time is up; says which, until none is.
    pub(crate) fn widen(&mut self, mtu: u16, now: Instant) -> Option<u32> {
        let &(at, id) = self.narrow.first()?;
        if at > now {
            return None;
        }
        self.narrow.pop_first();
        let pair = self.pairs.get_mut(id as usize)?;
        pair.mtu = mtu;
        pair.widen_at = None;
        Some(id)
    }

    /// When [`Destinations::widen`] has something to do.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.narrow.first().map(|&(at, _)| at)
    }

    /// The list of [`NextHops`] that the connections of a pair stand in: an address that no next hop has.
    pub(crate) const fn list_of(id: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(0xe000_0000 | id)
    }

    /// The pair of an id.
    #[inline(always)]
    pub(crate) fn get(&self, id: u32) -> Option<&Destination> {
        self.pairs.get(id as usize)
    }

    /// The pair of a connection's key, if it is one over IPv6.
    #[inline(always)]
    pub(crate) fn of(&self, key: FlowKey) -> Option<&Destination> {
        // A key of IPv4 is no pair's, whatever stands in the place of the id.
        self.pairs
            .get(key.remote as usize)
            .filter(|pair| pair.key == key.addresses())
    }

    /// Tells whether a connection's key is of these addresses and ports.
    #[inline(always)]
    pub(crate) fn is_of(&self, key: FlowKey, ends: &Ends, ports: u32) -> bool {
        self.of(key)
            .is_some_and(|pair| key.ports == ports && pair.ends == *ends)
    }

    /// The key of a pair's connections, its ports zero.
    pub(crate) fn key(&self, id: u32) -> FlowKey {
        let secret = self.get(id).map_or(0, |pair| pair.secret);
        FlowKey::of_pair(id, secret)
    }

    /// A key from which hashes are made: the label of the pair in place of id and mark.
    pub(crate) fn label(&self, id: u32, ports: u32) -> FlowKey {
        let label = self.get(id).map_or(0, |pair| pair.label);
        FlowKey {
            remote: label as u32,
            local: (label >> 32) as u32,
            ports,
        }
    }

    /// Sets the link address of one pair's next hop.
    pub(crate) fn set_link(&mut self, id: u32, mac: MacAddr, own: MacAddr) {
        if let Some(pair) = self.pairs.get_mut(id as usize) {
            pair.link = link(mac, own);
        }
    }

    /// The sum of the addresses of a key of either version, as they lie in memory, to be added up further.
    pub(crate) fn addresses_sum(&self, key: FlowKey) -> u64 {
        match key.pair() {
            None => u64::from(key.remote) + u64::from(key.local),
            Some(id) => self.get(id).map_or(0, |pair| u64::from(pair.sum)),
        }
    }

    /// Bytes of a packet that the path of a key's connection takes, `mtu` at most.
    pub(crate) fn bound_mtu(&self, key: FlowKey, mtu: u16) -> u16 {
        let pair = key.pair().and_then(|id| self.get(id));
        pair.map_or(mtu, |pair| pair.mtu.min(mtu))
    }

    /// Ids that have been given out, free ones included.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.pairs.len() as u32
    }

    /// The first pair by way of a next hop.
    pub(crate) fn first_by(&self, next_hop: Ipv6Addr) -> Option<u32> {
        self.next_hops.first(next_hop)
    }

    /// The next pair behind `id` by way of the same next hop.
    pub(crate) fn next_by(&self, id: u32) -> Option<u32> {
        self.next_hops.after(id)
    }

    /// Hands the packets of a pair to another next hop, whose link address is to be looked up.
    pub(crate) fn redirect(&mut self, id: u32, next_hop: Ipv6Addr, own: MacAddr) {
        if let Some(pair) = self.pairs.get_mut(id as usize)
            && pair.next_hop != next_hop
        {
            pair.next_hop = next_hop;
            pair.link = link(MacAddr::default(), own);
            self.next_hops.change(id, next_hop);
        }
    }

    /// Sets the link address of a next hop in all of its pairs, with the first bytes of ours; zeros when it is not known.
    pub(crate) fn set_links(&mut self, next_hop: Ipv6Addr, mac: MacAddr, own: MacAddr) {
        let mut next = self.next_hops.first(next_hop);
        while let Some(id) = next {
            self.pairs[id as usize].link = link(mac, own);
            next = self.next_hops.after(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: MacAddr = MacAddr([8; 6]);

    fn host(n: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n)
    }

    fn cache() -> Destinations {
        Destinations::new(100, [1, 2])
    }

    fn enter(cache: &mut Destinations, n: u16) -> u32 {
        cache
            .enter(ends(host(n), host(0)), host(n), 1500, OWN)
            .unwrap()
    }

    #[test]
    fn pair_is_found_by_both_addresses() {
        let mut cache = cache();
        let first = enter(&mut cache, 1);
        let second = enter(&mut cache, 2);
        assert_ne!(first, second);
        assert_eq!(cache.find(&ends(host(1), host(0))), Some(first));
        assert_eq!(cache.find(&ends(host(0), host(1))), None);
        let pair = cache.get(second).unwrap();
        assert_eq!((pair.remote(), pair.local()), (host(2), host(0)));
        assert_eq!(pair.key, cache.key(second).addresses());
        assert_eq!(cache.key(second).pair(), Some(second));
    }

    /// Numbers that a label chooses go on where they were, whichever id the pair has had in between.
    #[test]
    fn label_is_of_the_addresses_and_not_of_the_id() {
        let mut cache = cache();
        let first = enter(&mut cache, 1);
        let label = cache.label(first, 9);
        cache.sweep(|_| false);
        assert_eq!(cache.find(&ends(host(1), host(0))), None);
        enter(&mut cache, 2);
        let again = enter(&mut cache, 1);
        assert_ne!(again, first);
        assert_eq!(cache.label(again, 9), label);
    }

    #[test]
    fn sweep_leaves_what_is_named() {
        let mut cache = cache();
        let ids: Vec<u32> = (1..=FEW as u16).map(|n| enter(&mut cache, n)).collect();
        assert!(cache.is_full());
        cache.sweep(|id| id == ids[5]);
        assert!(!cache.is_full());
        for (n, &id) in ids.iter().enumerate() {
            let found = cache.find(&ends(host(n as u16 + 1), host(0)));
            assert_eq!(found, (n == 5).then_some(id));
        }
        assert_eq!(cache.first_by(host(6)), Some(ids[5]));
        assert_eq!(cache.first_by(host(7)), None);
        // Ids of those that went are used again.
        assert!(enter(&mut cache, 500) < FEW as u32);
    }

    #[test]
    fn link_address_reaches_the_pairs_of_its_next_hop_alone() {
        let mut cache = cache();
        let mac = MacAddr([2, 3, 4, 5, 6, 7]);
        let first = enter(&mut cache, 1);
        let other = enter(&mut cache, 2);
        cache.redirect(other, host(9), OWN);
        cache.set_links(host(9), mac, OWN);
        assert_eq!(cache.get(other).unwrap().link, [2, 3, 4, 5, 6, 7, 8, 8]);
        assert_eq!(cache.get(first).unwrap().known_link(), None);
        assert_eq!(cache.get(other).unwrap().known_link(), Some(mac));
    }
}
