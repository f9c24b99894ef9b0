//! Traffic that gates watch, the points they are attached to, and their events: plain values that every build has.

use std::os::fd::BorrowedFd;

use crate::event::Event;

/// Threads that can be watched.
pub const THREADS: usize = 4;
/// Events that a processor has room for unless told otherwise.
pub const ROOM: u32 = 1 << 14;

/// Traffic whose packets, calls and wakeups are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Connections with one of these ports at either end.
    pub ports: Vec<u16>,
    /// Threads, by their id; at most [`THREADS`].
    pub threads: Vec<u32>,
    /// Tells whether segments without a byte are recorded as well ([`Event::is_acknowledgment`]).
    pub acknowledgments: bool,
}

/// Events that the programs recorded since the last time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The events, in the order of each processor, one processor after the other.
    pub events: Vec<Event>,
    /// Events that found no room, or whose program was already running on the processor.
    pub lost: u64,
}

/// A network namespace in which gates are attached.
#[derive(Clone, Copy, Debug)]
pub enum Namespace<'a> {
    /// The one of the calling thread.
    Own,
    /// The one behind this descriptor (`/proc/PID/ns/net`, `/run/netns/NAME`).
    Of(BorrowedFd<'a>),
}
