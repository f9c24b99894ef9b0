//! The memory that the programs of the gates share with us.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Cursor;
use crate::event::Event;
use crate::programs::Mapped;

/// The cursor of a processor.
pub(super) fn cursor(cursors: &Mapped, index: usize) -> &Cursor {
    let slot = cursors.slot::<Cursor>(index);
    // SAFETY: a cursor has atomics and padding only, for which every bit pattern is valid; a mapping begins at a page and
    // lives as long as the reference.
    unsafe { slot.as_ref() }
}

/// Takes the event out of a slot and leaves it empty; none when its program is still writing it.
pub(super) fn take_event(events: &Mapped, index: usize) -> Option<Event> {
    let slot = events.slot::<Event>(index);
    // SAFETY: the time is the first field, aligned to 8 in an array of 32 bytes each, and every bit pattern is valid.
    let ktime = unsafe { AtomicU64::from_ptr(slot.cast::<u64>().as_ptr()) };
    let at = ktime.load(Ordering::Acquire);
    if at == 0 {
        return None;
    }
    // SAFETY: the program has finished with the slot, since it writes the time last, and takes it again only after the tail
    // has moved past it.
    let mut event = unsafe { slot.read_volatile() };
    event.ktime = at;
    ktime.store(0, Ordering::Release);
    Some(event)
}
