//! Cells between two processes: each cell is a slot of the segment's ring, and the ring is the receive FIFO.

use super::ring::Peek;
use super::{Config, STARVED_PAUSE, ShmLink, WaitOutcome, Waitable, Waiting};
use crate::atm::{Adapter, Atm, Line, RECEIVE_FIFO};
use std::time::Duration;
use tollgate_stack::link::MIN_MTU;
use tollgate_wire::atm::{CELL, Cell};

/// Slots of a ring for cells: the power of two that holds a receive FIFO.
const SLOTS: usize = RECEIVE_FIFO.next_power_of_two();

impl Config {
    /// A segment whose slots hold a cell each, for [`Line`].
    #[must_use]
    pub const fn for_cells(waiting: Waiting) -> Self {
        Self {
            mtu: MIN_MTU,
            slots: SLOTS,
            waiting,
        }
    }
}

impl Line for ShmLink {
    /// Cells that fit until [`RECEIVE_FIFO`] wait. To a peer that is gone or broke the protocol everything fits, and is
    /// counted as unwanted.
    #[inline]
    fn room(&mut self) -> usize {
        if self.stats.broken {
            return RECEIVE_FIFO;
        }
        let kept = self.segment.config().slots.saturating_sub(RECEIVE_FIFO);
        match self.transmit.room(kept + 1) {
            Ok(free) if free > kept => free - kept,
            Ok(_) if self.peer_closed() => RECEIVE_FIFO,
            Ok(_) => 0,
            Err(_) => {
                self.give_up();
                RECEIVE_FIFO
            }
        }
    }

    #[inline]
    fn send(&mut self, cell: &Cell) {
        if self.stats.broken || !self.transmit.push(cell) {
            self.stats.unwanted += 1;
        } else {
            self.stats.sent += 1;
        }
    }

    fn end_sending(&mut self, waiting: bool) {
        self.wants_room = waiting;
        self.stats.full += u64::from(waiting);
        self.wake_for_frames();
    }

    #[inline]
    fn receive(&mut self) -> Option<Cell> {
        while !self.stats.broken {
            let cell = match self.receive.peek() {
                Peek::Empty => return None,
                Peek::Frame(bytes) => match bytes.len() {
                    CELL => {
                        let mut cell = [0; CELL];
                        cell.copy_from_slice(bytes);
                        Some(cell)
                    }
                    _ => None,
                },
                Peek::BadLength => None,
                Peek::Broken => {
                    self.give_up();
                    return None;
                }
            };
            self.receive.advance();
            match cell {
                Some(cell) => {
                    self.stats.received += 1;
                    return Some(cell);
                }
                None => self.stats.bad_length += 1,
            }
        }
        None
    }

    fn end_receiving(&mut self, starved: bool) {
        self.starved = starved;
        self.receive.give_back();
        self.wake_for_room();
    }
}

impl Waitable for Atm<Adapter, ShmLink> {
    /// Waits as that of [`ShmLink`] does. While a packet waits for a frame of the pool, that is a millisecond at most.
    fn wait(&self, timeout: Duration) -> WaitOutcome {
        if !self.adapter().is_starved() || timeout < STARVED_PAUSE {
            return self.line().wait(timeout);
        }
        match self.line().wait(STARVED_PAUSE) {
            // The packet is there; the pool may have a frame for it by now.
            WaitOutcome::TimedOut | WaitOutcome::PeerGone | WaitOutcome::Ready => {
                WaitOutcome::Ready
            }
        }
    }

    fn is_sending(&self) -> bool {
        self.adapter().is_sending()
    }

    fn is_gone(&self) -> bool {
        self.line().is_gone()
    }
}
