//! Two adapters in one thread: each writes into the other's receive FIFO.

use super::{Adapter, Atm, Config, Line, RECEIVE_FIFO};
use crate::Side;
use std::collections::VecDeque;
use tollgate_wire::atm::Cell;

/// Two adapters and the line between them. Stacks reach it through short-lived [`Atm`]s, one at a time, as they reach a
/// [`Memory`](crate::memory::Memory).
#[derive(Debug)]
pub struct Cable {
    a: Adapter,
    b: Adapter,
    to_a: VecDeque<Cell>,
    to_b: VecDeque<Cell>,
}

impl Cable {
    /// A line between adapters of these configurations.
    #[must_use]
    pub fn new(a: Config, b: Config) -> Self {
        Self {
            a: Adapter::new(a),
            b: Adapter::new(b),
            to_a: VecDeque::with_capacity(RECEIVE_FIFO),
            to_b: VecDeque::with_capacity(RECEIVE_FIFO),
        }
    }

    /// One end, for as long as a stack needs it.
    pub const fn end(&mut self, side: Side) -> Atm<&mut Adapter, MemoryLine<'_>> {
        let (adapter, inbound, outbound) = match side {
            Side::A => (&mut self.a, &mut self.to_a, &mut self.to_b),
            Side::B => (&mut self.b, &mut self.to_b, &mut self.to_a),
        };
        Atm {
            adapter,
            line: MemoryLine { inbound, outbound },
        }
    }

    /// One end's adapter.
    #[must_use]
    pub const fn adapter(&self, side: Side) -> &Adapter {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }

    /// Tells whether no cell is on its way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let waits = |adapter: &Adapter| adapter.is_sending() || adapter.is_starved();
        self.to_a.is_empty() && self.to_b.is_empty() && !waits(&self.a) && !waits(&self.b)
    }
}

/// One end of the line of a [`Cable`].
#[derive(Debug)]
pub struct MemoryLine<'a> {
    inbound: &'a mut VecDeque<Cell>,
    outbound: &'a mut VecDeque<Cell>,
}

impl Line for MemoryLine<'_> {
    #[inline]
    fn room(&mut self) -> usize {
        RECEIVE_FIFO.saturating_sub(self.outbound.len())
    }

    #[inline]
    fn send(&mut self, cell: &Cell) {
        self.outbound.push_back(*cell);
    }

    fn end_sending(&mut self, _waiting: bool) {}

    #[inline]
    fn receive(&mut self) -> Option<Cell> {
        self.inbound.pop_front()
    }

    fn end_receiving(&mut self, _starved: bool) {}
}
