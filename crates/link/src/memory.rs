//! Two ends in one thread that share a pool: a burst is handed over by swapping vectors.
//!
//! No byte is copied and no frame is counted: the count that a frame stands for moves with it. So what arrives takes nothing
//! from the pool, and the reserve that other links leave is not touched. This is the link on
//! which a stack's own cost is measured, so it must never do work that a stack could be blamed for: a burst of any length
//! goes in with one swap, when nothing waits there, and a stack takes it out where it lies.

use crate::Side;
use std::cell::RefCell;
use std::mem;
use std::rc::Rc;
use tollgate_stack::buffer::{Frame, Pool};
use tollgate_stack::link::{BURST, Integrity, Link};

/// A cable between two stacks of one thread, which share one [`Pool`].
///
/// The stacks reach it through short-lived [`End`]s, one at a time:
///
/// ```
/// use tollgate_link::{Side, memory::Memory};
/// use tollgate_stack::{Link, Pool};
///
/// let mut pool = Pool::new(4, 2048);
/// let mut cable = Memory::new(1500);
/// let mut burst = vec![pool.frame_from(b"fourteen bytes and more").unwrap()];
/// cable.end(Side::A).transmit(&mut pool, &mut burst);
/// let mut arrived = Vec::new();
/// cable.end(Side::B).receive(&mut pool, &mut arrived);
/// assert_eq!(pool.frame(&arrived[0]), b"fourteen bytes and more");
/// # pool.release(arrived.pop().unwrap().id);
/// ```
#[derive(Debug)]
pub struct Memory {
    to_a: Vec<Frame>,
    to_b: Vec<Frame>,
    mtu: usize,
    capacity: usize,
}

impl Memory {
    /// Frames that wait in each direction at most, unless [`with_capacity`](Self::with_capacity) says otherwise.
    pub const CAPACITY: usize = 2 * BURST;

    /// A cable for IP packets of at most `mtu` bytes that holds [`Self::CAPACITY`] frames in each direction.
    pub fn new(mtu: usize) -> Self {
        Self::with_capacity(mtu, Self::CAPACITY)
    }

    /// A cable that holds `capacity` frames, at least one, in each direction. What has no room stays with its sender;
    /// what has arrived is given to its receiver all at once.
    pub fn with_capacity(mtu: usize, capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self {
            to_a: Vec::with_capacity(capacity),
            to_b: Vec::with_capacity(capacity),
            mtu,
            capacity,
        }
    }

    /// One end of the cable, for as long as a stack needs it.
    #[inline(always)]
    pub const fn end(&mut self, side: Side) -> End<'_> {
        let (inbound, outbound) = match side {
            Side::A => (&mut self.to_a, &mut self.to_b),
            Side::B => (&mut self.to_b, &mut self.to_a),
        };
        End {
            inbound,
            outbound,
            mtu: self.mtu,
            capacity: self.capacity,
        }
    }

    /// Frames on their way to `side`.
    pub const fn waiting_for(&self, side: Side) -> usize {
        match side {
            Side::A => self.to_a.len(),
            Side::B => self.to_b.len(),
        }
    }

    /// Tells whether no frame is on its way.
    #[inline(always)]
    pub const fn is_idle(&self) -> bool {
        self.to_a.is_empty() && self.to_b.is_empty()
    }

    /// Gives every frame that is on its way back to `pool`, as when the cable is cut.
    pub fn drain(&mut self, pool: &mut Pool) {
        for frame in self.to_a.drain(..).chain(self.to_b.drain(..)) {
            pool.release(frame.id);
        }
    }
}

/// One end of a [`Memory`] link.
#[derive(Debug)]
pub struct End<'a> {
    inbound: &'a mut Vec<Frame>,
    outbound: &'a mut Vec<Frame>,
    mtu: usize,
    capacity: usize,
}

impl Link for End<'_> {
    #[inline(always)]
    fn mtu(&self) -> usize {
        self.mtu
    }

    /// Nothing is moved: what arrives lies where its sender wrote it. Linux leaves checksums out on its loopback for the same
    /// reason.
    fn integrity(&self) -> Integrity {
        Integrity::Memory
    }

    #[inline(always)]
    fn transmit(&mut self, _pool: &mut Pool, frames: &mut Vec<Frame>) {
        if self.outbound.is_empty() && frames.len() <= self.capacity {
            mem::swap(self.outbound, frames);
        } else {
            append(self.outbound, frames, self.capacity);
        }
    }

    #[inline(always)]
    fn receive(&mut self, _pool: &mut Pool, frames: &mut Vec<Frame>) {
        if self.inbound.is_empty() {
            return;
        }
        if frames.is_empty() {
            mem::swap(self.inbound, frames);
        } else {
            append(frames, self.inbound, usize::MAX);
        }
    }

    #[inline(always)]
    fn arrived(&mut self) -> Option<&mut Vec<Frame>> {
        Some(self.inbound)
    }
}

/// One end of a [`Memory`] link that lives as long as its host, for wrappers that keep what they wrap.
#[derive(Debug)]
pub struct OwnedEnd {
    cable: Rc<RefCell<Memory>>,
    side: Side,
}

impl OwnedEnd {
    /// Both ends of a cable for IP packets of at most `mtu` bytes that holds `capacity` frames in each direction.
    pub fn pair(mtu: usize, capacity: usize) -> [Self; 2] {
        let cable = Rc::new(RefCell::new(Memory::with_capacity(mtu, capacity)));
        [Side::A, Side::B].map(|side| Self {
            cable: Rc::clone(&cable),
            side,
        })
    }

    /// Tells whether no frame is on its way, in either direction.
    pub fn is_idle(&self) -> bool {
        self.cable.borrow().is_idle()
    }
}

impl Link for OwnedEnd {
    fn mtu(&self) -> usize {
        self.cable.borrow().mtu
    }

    fn integrity(&self) -> Integrity {
        Integrity::Memory
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        let mut cable = self.cable.borrow_mut();
        cable.end(self.side).transmit(pool, frames);
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        let mut cable = self.cable.borrow_mut();
        cable.end(self.side).receive(pool, frames);
    }
}

/// Moves frames from the front of `from` until `to` holds `capacity`.
#[cold]
#[inline(never)]
fn append(to: &mut Vec<Frame>, from: &mut Vec<Frame>, capacity: usize) {
    let room = capacity.saturating_sub(to.len()).min(from.len());
    to.extend(from.drain(..room));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn frames(pool: &mut Pool, numbers: impl IntoIterator<Item = u8>) -> Vec<Frame> {
        numbers
            .into_iter()
            .map(|number| pool.frame_from(&[number; 60]).unwrap())
            .collect()
    }

    fn numbers(pool: &mut Pool, frames: Vec<Frame>) -> Vec<u8> {
        let read = |frame: Frame| {
            let number = pool.frame(&frame)[0];
            pool.release(frame.id);
            number
        };
        frames.into_iter().map(read).collect()
    }

    #[test]
    fn a_burst_moves_whole_and_both_ways() {
        let mut pool = Pool::new(8, 2048);
        let mut cable = Memory::new(1500);
        let mut burst = frames(&mut pool, [1, 2, 3]);
        cable.end(Side::A).transmit(&mut pool, &mut burst);
        assert!(burst.is_empty());
        assert_eq!(cable.waiting_for(Side::B), 3);
        let mut answer = frames(&mut pool, [4]);
        cable.end(Side::B).transmit(&mut pool, &mut answer);
        let mut arrived = Vec::new();
        cable.end(Side::B).receive(&mut pool, &mut arrived);
        assert_eq!(numbers(&mut pool, arrived), [1, 2, 3]);
        let mut arrived = Vec::new();
        cable.end(Side::A).receive(&mut pool, &mut arrived);
        assert_eq!(numbers(&mut pool, arrived), [4]);
        assert!(cable.is_idle());
        assert_eq!(pool.available(), 8);
        assert_eq!(cable.end(Side::A).mtu(), 1500);
        assert_eq!(Side::A.other(), Side::B);
    }

    #[test]
    fn what_has_arrived_is_taken_where_it_lies() {
        let mut pool = Pool::new(8, 2048);
        let mut cable = Memory::new(1500);
        let mut burst = frames(&mut pool, [1, 2]);
        cable.end(Side::A).transmit(&mut pool, &mut burst);
        let mut end = cable.end(Side::B);
        let arrived = end.arrived().unwrap();
        let taken = mem::take(arrived);
        assert_eq!(numbers(&mut pool, taken), [1, 2]);
        assert_eq!(cable.end(Side::B).arrived(), Some(&mut Vec::new()));
        assert!(cable.is_idle());
        assert_eq!(pool.available(), 8);
    }

    #[test]
    fn owned_ends_share_a_cable() {
        let mut pool = Pool::new(8, 2048);
        let [mut a, mut b] = OwnedEnd::pair(1500, 2);
        let mut burst = frames(&mut pool, [1, 2, 3]);
        a.transmit(&mut pool, &mut burst);
        assert!(!b.is_idle());
        let mut arrived = Vec::new();
        b.receive(&mut pool, &mut arrived);
        assert_eq!(numbers(&mut pool, arrived), [1, 2]);
        assert!(a.is_idle());
        assert_eq!(numbers(&mut pool, burst), [3]);
        assert_eq!((a.mtu(), b.mtu()), (1500, 1500));
    }

    #[test]
    fn what_has_no_room_stays_with_the_sender() {
        let mut pool = Pool::new(8, 2048);
        let mut cable = Memory::with_capacity(1500, 2);
        let mut burst = frames(&mut pool, [1, 2, 3, 4]);
        cable.end(Side::A).transmit(&mut pool, &mut burst);
        assert_eq!(burst.len(), 2);
        cable.end(Side::A).transmit(&mut pool, &mut burst);
        assert_eq!(burst.len(), 2);
        let mut arrived = Vec::new();
        cable.end(Side::B).receive(&mut pool, &mut arrived);
        assert_eq!(numbers(&mut pool, arrived), [1, 2]);
        cable.end(Side::A).transmit(&mut pool, &mut burst);
        cable.drain(&mut pool);
        assert!(cable.is_idle());
        assert_eq!(pool.available(), 8);
    }

    #[test]
    fn arrival_takes_no_frame_from_the_pool() {
        let mut pool = Pool::new(3, 2048);
        let mut cable = Memory::new(1500);
        let mut burst = frames(&mut pool, [1, 2, 3]);
        cable.end(Side::A).transmit(&mut pool, &mut burst);
        assert_eq!(pool.available(), 0);
        let mut arrived = Vec::new();
        cable.end(Side::B).receive(&mut pool, &mut arrived);
        assert_eq!(numbers(&mut pool, arrived), [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn behaves_as_two_bounded_queues(steps in proptest::collection::vec((any::<bool>(), any::<bool>(), 0usize..6), 0..80)) {
            const CAPACITY: usize = 5;
            let mut pool = Pool::new(64, 2048);
            let mut cable = Memory::with_capacity(1500, CAPACITY);
            let mut model = [VecDeque::new(), VecDeque::new()];
            let mut next = 0u8;
            for (to_b, send, count) in steps {
                let side = if to_b { Side::A } else { Side::B };
                let queue = &mut model[usize::from(to_b)];
                if send {
                    let mut burst = frames(&mut pool, (0..count).map(|i| next.wrapping_add(i as u8)));
                    let taken = count.min(CAPACITY - queue.len());
                    queue.extend((0..taken).map(|i| next.wrapping_add(i as u8)));
                    next = next.wrapping_add(count as u8);
                    cable.end(side).transmit(&mut pool, &mut burst);
                    prop_assert_eq!(burst.len(), count - taken);
                    numbers(&mut pool, burst);
                } else {
                    let mut arrived = frames(&mut pool, (0..count % 2).map(|_| 255));
                    cable.end(side.other()).receive(&mut pool, &mut arrived);
                    let mut expected = vec![255; count % 2];
                    expected.extend(queue.drain(..));
                    prop_assert_eq!(numbers(&mut pool, arrived), expected);
                }
            }
            cable.drain(&mut pool);
            prop_assert_eq!(pool.available(), 64);
        }
    }
}
