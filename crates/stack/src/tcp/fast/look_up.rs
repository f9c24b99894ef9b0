//! The connection of a segment: the same as that of the one before, or another.

use super::header::{self, LEAD};
use crate::config::Demux;
use crate::counters::Miss;
use crate::demux::{FlowKey, Search};
use crate::destinations::{Destinations, Ends};
use crate::stack::Stack;
use crate::tcp::slow::time_wait::SLOT_BIT;
use crate::tcp::tcb::Tcb;

/// Tells whether a segment, behind `L` bytes that lead, is of this connection.
#[inline(always)]
pub(super) fn is_of<const L: usize, const N: usize>(
    tcb: &Tcb,
    head: &[u8; N],
    destinations: &Destinations,
) -> bool {
    if L == LEAD {
        destinations.is_of(tcb.key, header::ends_v6(head), header::ports(head))
    } else {
        tcb.key.is(header::key(head))
    }
}

impl Stack {
    /// The connection of a segment over IPv4.
    #[inline(never)]
    pub(super) fn look_up<const N: usize>(&mut self, head: &[u8; N]) -> Search {
        self.look_up_key::<false>(header::key(head))
    }

    /// The connection of a segment over IPv6.
    ///
    /// # Errors
    /// [`Miss::NoConnection`] when nothing is known of its addresses.
    #[inline(never)]
    pub(super) fn look_up_v6(&mut self, ends: &Ends, ports: u32) -> Result<Search, Miss> {
        let id = self.destinations.find(ends).ok_or(Miss::NoConnection)?;
        let key = FlowKey {
            ports,
            ..self.destinations.key(id)
        };
        Ok(self.look_up_key::<true>(key))
    }

    /// The connection by the table (or the list), remembered for the next segment.
    #[inline(always)]
    fn look_up_key<const V6: bool>(&mut self, key: FlowKey) -> Search {
        self.counters.cache_misses += 1;
        let listed = match self.config.mechanisms.demux {
            Demux::CacheHash | Demux::Hash => None,
            Demux::List => self.tcbs.iter().position(|tcb| tcb.key == key),
        };
        let search = match listed {
            Some(index) => Search::Found(index as u32),
            None => self.search_as::<V6>(key),
        };
        if let Search::Found(slot) = search
            && slot & SLOT_BIT == 0
            && self.config.mechanisms.demux == Demux::CacheHash
        {
            self.cached = slot as usize;
        }
        search
    }
}
