//! Which frame is taken next.
//!
//! Frames for segments with data are chosen ahead, and the pool asks for their lines then. A frame that was held until its
//! acknowledgment has mostly left the caches: with ten thousand connections, each of which holds its last one, whoever
//! took at once what comes free would wait for memory in every round trip.
//!
//! This module must never lose a frame, nor give one out twice.

use super::{FrameId, Meta};
use core::mem;

/// Segments ahead at which a frame is chosen and prefetched. That is time enough for a way to memory and back, and
/// few enough for the nearest cache to hold them. All but one of the ids are moved at once.
pub(super) const AHEAD: usize = 5;

/// The free frames.
#[derive(Debug)]
pub(super) struct Free {
    /// The ones for the next segments, the first of them first; [`FrameId::NONE`] where there was none left to choose.
    pub(super) chosen: [FrameId; AHEAD],
    /// The first of the others; they follow by `tx_next`.
    pub(super) others: FrameId,
    /// Number of free frames, chosen or not.
    pub(super) count: usize,
}

impl Free {
    pub(super) const NONE: Self = Self {
        chosen: [FrameId::NONE; AHEAD],
        others: FrameId::NONE,
        count: 0,
    };

    /// Chooses another frame, since the first chosen one is taken; returns it, if there is one.
    #[inline(always)]
    pub(super) fn choose(&mut self, meta: &[Meta]) -> FrameId {
        let id = self.others;
        // The end of the list is an id that no frame has.
        if let Some(meta) = meta.get(id.index()) {
            self.others = meta.tx_next;
        }
        self.chosen.copy_within(1.., 0);
        self.chosen[AHEAD - 1] = id;
        self.count -= 1;
        id
    }

    /// Frame `id`, whose record is `meta`, has come free.
    #[inline(always)]
    pub(super) fn add(&mut self, id: FrameId, meta: &mut Meta) {
        meta.tx_next = self.others;
        self.others = id;
        self.count += 1;
    }

    /// Puts what was chosen back to the others.
    #[cold]
    pub(super) fn gather(&mut self, meta: &mut [Meta]) {
        for id in &mut self.chosen {
            if let Some(meta) = meta.get_mut(id.index()) {
                meta.tx_next = mem::replace(&mut self.others, *id);
            }
            *id = FrameId::NONE;
        }
    }

    /// Chooses as many as there are, after [`Free::gather`].
    #[cold]
    pub(super) fn replenish(&mut self, meta: &[Meta]) {
        for id in &mut self.chosen {
            let Some(meta) = meta.get(self.others.index()) else {
                return;
            };
            *id = mem::replace(&mut self.others, meta.tx_next);
        }
    }
}
