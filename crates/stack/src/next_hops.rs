//! Connections by next hop: which header templates hold a neighbour's link address.
//!
//! A doubly linked list for each next hop, through a side table of two words for each connection's place. Joining and
//! leaving take constant time, and what becomes of a neighbour concerns its own connections only. A list is circular by
//! way of its head, so that leaving does not have to know which list it is.
//!
//! # Lazy use
//!
//! A place is in the list of its TCB's next hop, or in none when that is unspecified. It stays there when its connection
//! ends, since the next one in the same place mostly has the same next hop: then neither opening nor closing comes here.
//! Whoever goes through a list takes out the places that have no connection; each was put in once, so this is constant
//! for each connection.
//!
//! Lists that became empty stay until new ones have doubled their number. This module must never look at a connection.
//!
//! Over IPv6 it is the destinations of [`crate::destinations`] that hold link addresses: they stand in lists of the same
//! kind, and a connection in the list of its destination.

use crate::memory_area::MemoryArea;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// Marks a link that leads to a head, whose index is in the other bits.
const HEAD: u32 = 1 << 31;
/// In place of a link: the place is in no list.
const NONE: u32 = u32::MAX;
/// Heads below this number are never looked through for empty ones.
const FEW: usize = 16;

/// Bytes of a connection's links.
pub(crate) const BYTES_PER_CONNECTION: usize = size_of::<Links>();

/// The neighbours of a member in its list.
#[derive(Clone, Copy, Debug)]
struct Links {
    next: u32,
    prev: u32,
}

impl Links {
    /// In no list.
    const NONE: Self = Self {
        next: NONE,
        prev: NONE,
    };
}

#[derive(Clone, Copy, Debug)]
struct Head<A> {
    next_hop: A,
    links: Links,
}

/// The lists. Connections are named by their places.
#[derive(Debug)]
pub(crate) struct NextHops<A = Ipv4Addr> {
    members: Vec<Links>,
    heads: Vec<Head<A>>,
    by_address: BTreeMap<A, u32>,
    /// Heads that no address has.
    free: Vec<u32>,
    /// The head that was last joined: connections mostly follow one another by one next hop.
    last: u32,
    /// Empty lists are looked for when there are this many.
    sweep_at: usize,
}

impl<A: Copy + Ord> NextHops<A> {
    /// Makes lists for places `0..capacity`, whose memory is touched as [`NextHops::add_place`] comes to them.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            members: Vec::with_capacity(capacity),
            heads: Vec::new(),
            by_address: BTreeMap::new(),
            free: Vec::new(),
            last: NONE,
            sweep_at: FEW,
        }
    }

    /// Memory of the members' places.
    pub(crate) const fn memory(&self) -> MemoryArea {
        MemoryArea::reserved(&self.members)
    }

    /// Adds the next place, which is in no list.
    pub(crate) fn add_place(&mut self) {
        self.members.push(Links::NONE);
    }

    /// Moves a place from its list, if it is in one, to that of `next_hop`.
    #[cold]
    #[inline(never)]
    pub(crate) fn change(&mut self, place: u32, next_hop: A) {
        self.leave(place);
        self.join(place, next_hop);
    }

    /// Puts a place into the list of a next hop. It must be in none.
    #[inline]
    fn join(&mut self, place: u32, next_hop: A) {
        let index = match self.heads.get(self.last as usize) {
            Some(head) if head.next_hop == next_hop => self.last,
            _ => self.head_of(next_hop),
        };
        let head = &mut self.heads[index as usize];
        let next = core::mem::replace(&mut head.links.next, place);
        self.links_mut(next).prev = place;
        let prev = index | HEAD;
        *self.links_mut(place) = Links { next, prev };
    }

    /// Takes a place out of its list. No effect when it is in none.
    #[inline]
    pub(crate) fn leave(&mut self, place: u32) {
        let links = self.links_mut(place);
        let Links { next, prev } = core::mem::replace(links, Links::NONE);
        if next != NONE {
            self.links_mut(next).prev = prev;
            self.links_mut(prev).next = next;
        }
    }

    /// The first place in the list of `next_hop`.
    pub(crate) fn first(&self, next_hop: A) -> Option<u32> {
        let &head = self.by_address.get(&next_hop)?;
        member(self.heads[head as usize].links.next)
    }

    /// The place behind `place` in its list.
    pub(crate) fn after(&self, place: u32) -> Option<u32> {
        member(self.members[place as usize].next)
    }

    /// The links that `link` leads to.
    #[inline]
    fn links_mut(&mut self, link: u32) -> &mut Links {
        if link & HEAD == 0 {
            &mut self.members[link as usize]
        } else {
            &mut self.heads[(link & !HEAD) as usize].links
        }
    }

    /// The head of a next hop's list, which is made if it is not there.
    #[cold]
    #[inline(never)]
    fn head_of(&mut self, next_hop: A) -> u32 {
        self.last = match self.by_address.get(&next_hop) {
            Some(&index) => index,
            None => self.new_head(next_hop),
        };
        self.last
    }

    fn new_head(&mut self, next_hop: A) -> u32 {
        if self.by_address.len() >= self.sweep_at {
            self.sweep();
        }
        let index = self.free.pop().unwrap_or(self.heads.len() as u32);
        let empty = index | HEAD;
        let head = Head {
            next_hop,
            links: Links {
                next: empty,
                prev: empty,
            },
        };
        match self.heads.get_mut(index as usize) {
            Some(place) => *place = head,
            None => self.heads.push(head),
        }
        self.by_address.insert(next_hop, index);
        index
    }

    /// Lets go of the heads of empty lists. As many must be made before the next time as are left now, so that this is
    /// constant for each.
    fn sweep(&mut self) {
        let (heads, free) = (&self.heads, &mut self.free);
        self.by_address.retain(|_, &mut index| {
            let is_used = heads[index as usize].links.next & HEAD == 0;
            if !is_used {
                free.push(index);
            }
            is_used
        });
        self.sweep_at = FEW.max(2 * self.by_address.len());
    }
}

/// The member that a link leads to, if it does not lead back to the head.
fn member(link: u32) -> Option<u32> {
    (link & HEAD == 0).then_some(link)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn members(lists: &NextHops, next_hop: Ipv4Addr) -> Vec<u32> {
        let mut all: Vec<u32> =
            core::iter::successors(lists.first(next_hop), |&place| lists.after(place)).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn lists_hold_who_joined_and_did_not_leave() {
        let mut lists = NextHops::new(8);
        (0..8).for_each(|_| lists.add_place());
        for (place, next_hop) in [(0, A), (1, B), (2, A), (3, A)] {
            lists.join(place, next_hop);
        }
        lists.leave(2);
        // In no list any more: no effect.
        lists.leave(2);
        assert_eq!(members(&lists, A), [0, 3]);
        assert_eq!(members(&lists, B), [1]);
        lists.leave(1);
        assert_eq!(lists.first(B), None);
        lists.change(1, A);
        assert_eq!(members(&lists, A), [0, 1, 3]);
    }

    #[test]
    fn empty_lists_do_not_pile_up() {
        let mut lists = NextHops::new(2);
        (0..2).for_each(|_| lists.add_place());
        lists.join(0, A);
        for n in 0..10_000 {
            lists.join(1, Ipv4Addr::from_bits(0x0a01_0000 + n));
            lists.leave(1);
        }
        assert!(lists.heads.len() <= 2 * FEW, "{}", lists.heads.len());
        assert_eq!(members(&lists, A), [0]);
    }

    proptest! {
        #[test]
        fn lists_are_as_a_map_of_sets_would_be(
            steps in prop::collection::vec((0u32..40, 0u8..40, any::<bool>()), 1..150),
        ) {
            let mut lists = NextHops::new(4);
            (0..40).for_each(|_| lists.add_place());
            let mut model: BTreeMap<u32, Ipv4Addr> = BTreeMap::new();
            for (place, host, joins) in steps {
                lists.leave(place);
                model.remove(&place);
                if joins {
                    let next_hop = Ipv4Addr::new(10, 0, 0, host);
                    lists.join(place, next_hop);
                    model.insert(place, next_hop);
                }
            }
            for host in 0..40 {
                let next_hop = Ipv4Addr::new(10, 0, 0, host);
                let wanted: Vec<u32> = model
                    .iter()
                    .filter(|(_, hop)| **hop == next_hop)
                    .map(|(&place, _)| place)
                    .collect();
                prop_assert_eq!(members(&lists, next_hop), wanted);
            }
        }
    }
}
