//! Gates that sleep: their programs stay attached and return at once.
//!
//! A hook that is entered costs more than half of what a gate does, and what is done there the rest, mostly the reading of the clock.
//! Whoever drives the traffic can spare it that rest for some of the messages. It owns one word that the programs read; which messages
//! are followed it must never know.

use std::sync::atomic::{AtomicU32, Ordering};

use super::system::Mapped;

/// Puts gates to sleep and wakes them, from any thread.
pub struct Doze {
    memory: Mapped,
}

// SAFETY: of the mapping only one atomic is ever touched.
unsafe impl Sync for Doze {}

impl Doze {
    /// Of a mapping that begins with the word that the programs read.
    pub(super) const fn new(memory: Mapped) -> Self {
        Self { memory }
    }

    /// From now on the programs return at once.
    pub fn sleep(&self) {
        self.asleep().store(1, Ordering::Relaxed);
    }

    /// From now on they record again.
    pub fn wake(&self) {
        self.asleep().store(0, Ordering::Relaxed);
    }

    fn asleep(&self) -> &AtomicU32 {
        let slot = self.memory.slot::<AtomicU32>(0);
        // SAFETY: the word lies at the beginning of a page that stays mapped as long as `self`, and every bit pattern of it is valid.
        unsafe { slot.as_ref() }
    }
}

impl std::fmt::Debug for Doze {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let asleep = self.asleep().load(Ordering::Relaxed) != 0;
        f.debug_struct("Doze").field("asleep", &asleep).finish()
    }
}
