//! Order of flows by their silence, the longest first.
//!
//! A packet of one among many thousand flows finds little of what it needs in the caches. The order stands in a table of its own,
//! eight bytes for each flow, so that moving one to the front does not reach into the flows beside it.

use tollgate_checksum::prefetch;

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Neighbours {
    newer: u32,
    older: u32,
}

/// Slots of flows, from the one that was silent longest to the newest.
#[derive(Debug)]
pub(super) struct Order {
    slots: Vec<Neighbours>,
    newest: u32,
    oldest: u32,
}

impl Order {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// The newest slot, if there is one.
    #[inline]
    pub(super) fn newest(&self) -> Option<usize> {
        (self.newest != NONE).then_some(self.newest as usize)
    }

    /// The slot that was silent longest, if there is one.
    pub(super) fn oldest(&self) -> Option<usize> {
        (self.oldest != NONE).then_some(self.oldest as usize)
    }

    /// The slot that was touched next after this one, if there is one.
    pub(super) fn newer(&self, slot: usize) -> Option<usize> {
        let newer = self.slots.get(slot)?.newer;
        (newer != NONE).then_some(newer as usize)
    }

    /// Begins to fetch what [`Self::touch`] will need for a slot.
    #[inline]
    pub(super) fn fetch(&self, slot: usize) {
        prefetch(std::ptr::from_ref(&self.slots[slot]).cast());
    }

    /// Adds the next slot, which is the newest then.
    pub(super) fn add(&mut self) {
        let slot = self.slots.len() as u32;
        self.slots.push(Neighbours {
            newer: NONE,
            older: NONE,
        });
        self.link(slot);
    }

    /// Makes a slot the newest.
    #[inline]
    pub(super) fn touch(&mut self, slot: usize) {
        if self.newest as usize != slot {
            let Neighbours { newer, older } = self.slots[slot];
            // It is not the newest, so there is a newer one.
            self.slots[newer as usize].older = older;
            match self.slots.get_mut(older as usize) {
                Some(neighbours) => neighbours.newer = newer,
                None => self.oldest = newer,
            }
            self.link(slot as u32);
        }
    }

    /// Puts a slot in front of the newest.
    fn link(&mut self, slot: u32) {
        let before = self.newest;
        match self.slots.get_mut(before as usize) {
            Some(neighbours) => neighbours.newer = slot,
            None => self.oldest = slot,
        }
        self.slots[slot as usize] = Neighbours {
            newer: NONE,
            older: before,
        };
        self.newest = slot;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn oldest_first(order: &Order) -> Vec<usize> {
        std::iter::successors(order.oldest(), |&slot| order.newer(slot)).collect()
    }

    #[test]
    fn nothing_has_no_order() {
        let order = Order::new();
        assert_eq!((order.newest(), order.oldest()), (None, None));
        assert_eq!(order.newer(0), None);
    }

    proptest! {
        /// A list that moves each touched slot to its end gives the same order.
        #[test]
        fn it_is_the_order_of_the_last_touches(touches in prop::collection::vec(0usize..12, 0..60)) {
            let mut order = Order::new();
            let mut expected: Vec<usize> = Vec::new();
            for slot in touches {
                if slot < expected.len() {
                    order.touch(slot);
                    expected.retain(|&other| other != slot);
                    expected.push(slot);
                } else {
                    order.add();
                    expected.push(expected.len());
                }
                prop_assert_eq!(order.newest(), expected.last().copied());
                prop_assert_eq!(oldest_first(&order), expected.clone());
            }
        }
    }
}
