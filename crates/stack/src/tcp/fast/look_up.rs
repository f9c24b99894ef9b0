//! The connection of a segment that is not of the same connection as the one before.

use super::header;
use crate::config::Demux;
use crate::demux::Search;
use crate::stack::Stack;
use crate::tcp::slow::time_wait::SLOT_BIT;

impl Stack {
    /// The connection by the table (or the list), remembered for the next segment.
    #[inline(never)]
    pub(super) fn look_up<const N: usize>(&mut self, head: &[u8; N]) -> Search {
        let key = header::key(head);
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
}
