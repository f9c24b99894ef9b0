//! The connection of a segment that is not of the same connection as the one before.

use super::header;
use crate::config::Demux;
use crate::counters::Miss;
use crate::demux::{FlowKey, Search};
use crate::destinations::Ends;
use crate::stack::Stack;
use crate::tcp::slow::time_wait::SLOT_BIT;

impl Stack {
    /// The connection by the table (or the list), remembered for the next segment.
    #[inline(never)]
    pub(super) fn look_up<const N: usize>(&mut self, head: &[u8; N]) -> Search {
        self.look_up_key(header::key(head))
    }

    #[inline(always)]
    fn look_up_key(&mut self, key: FlowKey) -> Search {
        self.counters.cache_misses += 1;
        let listed = match self.config.mechanisms.demux {
            Demux::CacheHash | Demux::Hash => None,
            Demux::List => self.tcbs.iter().position(|tcb| tcb.key == key),
        };
        let search = match listed {
            Some(index) => Search::Found(index as u32),
            None => self.search_as::<false>(key),
        };
        if let Search::Found(slot) = search
            && slot & SLOT_BIT == 0
            && self.config.mechanisms.demux == Demux::CacheHash
        {
            self.cached = slot as usize;
        }
        search
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
        Ok(self.look_up_key(key))
    }
}
