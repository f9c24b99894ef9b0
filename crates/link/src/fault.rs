//! A wrapper around any link that loses, damages, duplicates, delays and reorders frames, the same way for the same seed.
//!
//! Time is an argument ([`Fault::set_now`]), so that a network with delays runs in virtual time: [`Fault::next_event`]
//! says when the next held frame is due, and the next `transmit`, `receive` or [`Fault::poll`] at or after that time lets
//! it go. One wrapper works on one direction; two of them nest.
//!
//! A frame may be shared with the sender's retransmission queue. Whatever is changed, comes twice, or is held while its
//! sender goes on is therefore copied into a frame of its own first: the wire must never write into, nor be written by,
//! what the sender keeps. When the pool has no frame to spare for that, the frame is lost and [`Stats::starved`] says so:
//! frames that are held must not keep a stack from receiving.

mod behind;
mod faults;
mod finish;
mod mark;
mod random;
mod text;

pub use faults::{Corrupt, Faults, Probability, ProbabilityError, Rate, Reorder};
pub use text::FaultsError;

use behind::Behind;
pub(crate) use random::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;
use std::time::Duration;
use tollgate_stack::buffer::{Frame, Pool, RxChecksum};
use tollgate_stack::config::Segmentation;
use tollgate_stack::link::{BURST, Integrity, Link};
use tollgate_stack::time::Instant;

/// Direction that a [`Fault`] works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Transmit,
    Receive,
}

/// Counts of the faults so far, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Frames that came in.
    pub offered: u64,
    /// Frames that went out, duplicates included.
    pub passed: u64,
    /// Lost by [`Faults::longest`].
    pub too_long: u64,
    /// Lost by [`Faults::drop`].
    pub dropped: u64,
    /// Shortened.
    pub truncated: u64,
    /// Damaged.
    pub corrupted: u64,
    /// Copies made by [`Faults::duplicate`].
    pub duplicated: u64,
    /// Lost because the line's queue was full.
    pub queue_full: u64,
    /// Marked instead of waiting unnoticed ([`Faults::mark_from`]).
    pub marked: u64,
    /// Lost because [`Faults::limit`] frames were held.
    pub over_limit: u64,
    /// Held back behind later ones.
    pub reordered: u64,
    /// Lost, or not duplicated, because the pool had no frame to spare for a copy or for being held.
    pub starved: u64,
}

/// A frame that waits for its time.
#[derive(Debug)]
struct Held {
    due: Instant,
    /// Place in the order of arrival.
    number: u64,
    frame: Frame,
}

impl Held {
    const fn key(&self) -> (Instant, u64) {
        (self.due, self.number)
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// One random stream for each fault. Each is drawn from once for every frame, whatever the other faults do to it; what
/// only some frames need comes from `detail`.
#[derive(Debug)]
struct Streams {
    drop: Random,
    truncate: Random,
    corrupt: Random,
    duplicate: Random,
    jitter: Random,
    reorder: Random,
    detail: Random,
}

impl Streams {
    const fn new(seed: u64) -> Self {
        Self {
            drop: Random::new(seed, 1),
            truncate: Random::new(seed, 2),
            corrupt: Random::new(seed, 3),
            duplicate: Random::new(seed, 4),
            jitter: Random::new(seed, 5),
            reorder: Random::new(seed, 6),
            detail: Random::new(seed, 7),
        }
    }
}

/// Decisions about one frame's way before it is on it.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// Nanoseconds on top of the delay.
    jitter: u64,
    reorder: bool,
}

/// A faulty link.
///
/// Frames that it holds stand for counts on their pool frames: [`drain`](Self::drain) it before it is dropped. It decides how the
/// inner link sends segments: ask it, and not the link inside.
#[derive(Debug)]
pub struct Fault<L> {
    inner: L,
    direction: Direction,
    /// Segmentation as asked for; [`Fault::tell_segmentation`] decides.
    segmentation: Segmentation,
    /// Frames that were sent may have been damaged, and may be held still.
    has_damaged: bool,
    wire: Wire,
}

impl<L: Link> Fault<L> {
    /// Makes what is sent over `inner` meet `faults`.
    pub fn on_transmit(inner: L, faults: Faults, seed: u64) -> Self {
        Self::new(inner, Direction::Transmit, faults, seed)
    }

    /// Makes what arrives over `inner` meet `faults`.
    pub fn on_receive(inner: L, faults: Faults, seed: u64) -> Self {
        Self::new(inner, Direction::Receive, faults, seed)
    }

    fn new(inner: L, direction: Direction, faults: Faults, seed: u64) -> Self {
        let mut fault = Self {
            inner,
            direction,
            segmentation: Segmentation::default(),
            has_damaged: false,
            wire: Wire::new(faults, seed),
        };
        fault.tell_segmentation();
        fault
    }

    /// Moves time on. It never goes back: an earlier time is ignored.
    pub fn set_now(&mut self, now: Instant) {
        self.wire.now = self.wire.now.max(now);
    }

    /// When the next held frame is due, nothing when none is held. A frame that is due but that the inner link has no room
    /// for is due now.
    pub fn next_event(&self) -> Option<Instant> {
        self.wire.next_event()
    }

    /// Tells whether the inner link had no room for what is due. It is waited for then, and not for time to pass.
    pub fn wants_room(&self) -> bool {
        self.direction == Direction::Transmit && !self.wire.ready.is_empty()
    }

    /// Lets go what is due. `transmit` and `receive` do so as well.
    pub fn poll(&mut self, pool: &mut Pool) {
        self.wire.release_due();
        self.forward(pool);
    }

    /// Changes what is done to the frames that come from now on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.wire.faults = faults;
        self.tell_segmentation();
    }

    /// Tells the inner link how segments leave: alone from the first fault on that may change their bytes, whatever was asked for. The
    /// checksum of a train is made of the bytes that it has by then, and would be right for the damage.
    fn tell_segmentation(&mut self) {
        self.has_damaged |= self.direction == Direction::Transmit && self.wire.faults.damages();
        self.inner.set_segmentation(if self.has_damaged {
            Segmentation::PerPacket
        } else {
            self.segmentation
        });
    }

    /// Counts of the faults so far.
    pub const fn stats(&self) -> &Stats {
        &self.wire.stats
    }

    /// Frames that are held.
    pub fn held(&self) -> usize {
        self.wire.held() + self.wire.ready.len()
    }

    /// Gives every held frame back to `pool`.
    pub fn drain(&mut self, pool: &mut Pool) {
        self.wire.drain(pool);
    }

    /// The link inside.
    pub const fn inner(&self) -> &L {
        &self.inner
    }

    /// The link inside, to be changed.
    pub const fn inner_mut(&mut self) -> &mut L {
        &mut self.inner
    }

    /// Gives what is ready to the inner link, when this is the side that it is for.
    fn forward(&mut self, pool: &mut Pool) {
        if self.direction == Direction::Transmit && !self.wire.ready.is_empty() {
            let offered = self.wire.ready.len();
            self.inner.transmit(pool, &mut self.wire.ready);
            self.wire.stats.passed += (offered - self.wire.ready.len()) as u64;
        }
    }
}

impl<L: Link> Link for Fault<L> {
    fn mtu(&self) -> usize {
        self.inner.mtu()
    }

    /// The inner link's, unless damage is among the faults: nobody would notice it.
    fn integrity(&self) -> Integrity {
        if self.wire.faults.damages() {
            Integrity::Unprotected
        } else {
            self.inner.integrity()
        }
    }

    fn set_segmentation(&mut self, segmentation: Segmentation) {
        self.segmentation = segmentation;
        self.tell_segmentation();
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        match self.direction {
            Direction::Transmit => {
                self.wire.release_due();
                self.wire.apply_faults(pool, frames);
                self.forward(pool);
                self.wire.own_ready(pool);
            }
            Direction::Receive => self.inner.transmit(pool, frames),
        }
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        match self.direction {
            Direction::Transmit => {
                self.poll(pool);
                self.inner.receive(pool, frames);
            }
            Direction::Receive => {
                self.wire.release_due();
                let mut arrived = mem::take(&mut self.wire.arrived);
                self.inner.receive(pool, &mut arrived);
                self.wire.apply_faults(pool, &mut arrived);
                self.wire.arrived = arrived;
                let count = self.wire.ready.len().min(BURST);
                frames.extend(self.wire.ready.drain(..count));
                self.wire.stats.passed += count as u64;
                self.wire.own_ready(pool);
            }
        }
    }
}

/// The wire between the two ends, whichever side it is on.
#[derive(Debug)]
struct Wire {
    faults: Faults,
    random: Streams,
    now: Instant,
    /// When the line of limited speed has sent all that it has.
    line_free: Instant,
    /// The latest due time given to a frame that keeps its place.
    last_due: Instant,
    /// Frames that have met the line, copies included.
    carried: u64,
    delayed: BinaryHeap<Reverse<Held>>,
    behind: Behind,
    /// Frames whose time has come, in order.
    ready: Vec<Frame>,
    arrived: Vec<Frame>,
    scratch: Vec<u8>,
    stats: Stats,
}

impl Wire {
    fn new(faults: Faults, seed: u64) -> Self {
        Self {
            faults,
            random: Streams::new(seed),
            now: Instant::ZERO,
            line_free: Instant::ZERO,
            last_due: Instant::ZERO,
            carried: 0,
            delayed: BinaryHeap::new(),
            behind: Behind::default(),
            ready: Vec::new(),
            arrived: Vec::new(),
            scratch: Vec::new(),
            stats: Stats::default(),
        }
    }

    fn held(&self) -> usize {
        self.delayed.len() + self.behind.len()
    }

    fn next_event(&self) -> Option<Instant> {
        if !self.ready.is_empty() {
            return Some(self.now);
        }
        let delayed = self.delayed.peek().map(|Reverse(held)| held.due);
        let behind = self.behind.next_deadline();
        delayed
            .into_iter()
            .chain(behind)
            .min()
            .map(|due| due.max(self.now))
    }

    /// Takes all of `frames` and makes each meet the faults.
    fn apply_faults(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        for mut frame in frames.drain(..) {
            self.stats.offered += 1;
            // The one that it is followed by may be lost.
            frame.checksum = frame.checksum.alone();
            self.meet(pool, frame);
        }
    }

    /// The faults up to duplication.
    fn meet(&mut self, pool: &mut Pool, frame: Frame) {
        let drop = self.faults.drop.happens(self.random.drop.next_u32());
        let truncate = self
            .faults
            .truncate
            .happens(self.random.truncate.next_u32());
        let corrupt = self.faults.corrupt.happens(self.random.corrupt.next_u32());
        let duplicate = self
            .faults
            .duplicate
            .happens(self.random.duplicate.next_u32());
        let path = Path {
            jitter: self
                .random
                .jitter
                .below(nanos(self.faults.jitter).saturating_add(1)),
            reorder: self.faults.reorder.happens(self.random.reorder.next_u32()),
        };
        let too_long = self
            .faults
            .longest
            .is_some_and(|longest| frame.len > longest);
        if too_long {
            self.stats.too_long += 1;
            pool.release(frame.id);
            return;
        }
        if drop {
            self.stats.dropped += 1;
            pool.release(frame.id);
            return;
        }
        let mut frame = frame;
        if truncate && frame.len > 1 {
            // Only the handle's length changes: what a sharer sees stays whole.
            frame.len = 1 + self.random.detail.below(u64::from(frame.len) - 1) as u16;
            frame.checksum = RxChecksum::Unknown;
            self.stats.truncated += 1;
        }
        if corrupt {
            let Some(own) = self.own(pool, frame) else {
                return;
            };
            frame = own;
            self.corrupt(pool, &mut frame);
        }
        if !duplicate {
            return self.carry(pool, frame, path);
        }
        let copy = (!pool.is_scarce())
            .then(|| self.copy(pool, &frame))
            .flatten();
        let Some(copy) = copy else {
            self.stats.starved += 1;
            return self.carry(pool, frame, path);
        };
        self.stats.duplicated += 1;
        self.carry(pool, frame, path);
        let path = Path {
            jitter: self
                .random
                .detail
                .below(nanos(self.faults.jitter).saturating_add(1)),
            reorder: self.faults.reorder.happens(self.random.detail.next_u32()),
        };
        self.carry(pool, copy, path);
    }

    fn corrupt(&mut self, pool: &mut Pool, frame: &mut Frame) {
        let first = match self.faults.corrupt_at {
            Corrupt::Anywhere => 0,
            Corrupt::From(first) => first,
        };
        if frame.len <= first {
            return;
        }
        let whole = pool.frame_mut(frame);
        if frame.checksum.is_verified() {
            finish::finish_checksum(whole);
        }
        let bytes = &mut whole[usize::from(first)..];
        // Neighbouring bits, so that two flips never undo each other.
        let flips = 1 + self.random.detail.below(3);
        let bits = bytes.len() as u64 * 8;
        let at = self.random.detail.below(bits);
        for bit in (at..bits.min(at + flips)).map(|bit| bit as usize) {
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        frame.checksum = RxChecksum::Unknown;
        self.stats.corrupted += 1;
    }

    /// Line, delay and reordering: when, and behind whom, the frame goes out.
    fn carry(&mut self, pool: &mut Pool, frame: Frame, path: Path) {
        self.carried += 1;
        let number = self.carried;
        let mut due = self.now;
        if let Some(rate) = self.faults.rate {
            let Some(sent) = self.send_over(rate, &frame) else {
                self.stats.queue_full += 1;
                pool.release(frame.id);
                return;
            };
            due = sent;
        }
        let frame = match self.faults.mark_from {
            Some(from) if self.waiting(due) > from as u128 => {
                let Some(frame) = self.mark(pool, frame) else {
                    return;
                };
                frame
            }
            _ => frame,
        };
        // Never before the one in front.
        due = (due + self.faults.delay + Duration::from_nanos(path.jitter)).max(self.last_due);
        match self.faults.reorder_by {
            Reorder::Time(time) if path.reorder => {
                if let Some(frame) = self.admit(pool, frame) {
                    self.stats.reordered += 1;
                    self.delayed.push(Reverse(Held {
                        due: due + time,
                        number,
                        frame,
                    }));
                }
            }
            Reorder::Frames(frames, time) if path.reorder && frames > 0 => {
                if let Some(frame) = self.admit(pool, frame) {
                    self.stats.reordered += 1;
                    self.behind.push(number, (frames, due + time), frame);
                }
            }
            _ => {
                self.last_due = due;
                if due > self.now {
                    if let Some(frame) = self.admit(pool, frame) {
                        self.delayed.push(Reverse(Held { due, number, frame }));
                    }
                } else if self.ready.len() < self.faults.limit {
                    self.ready.push(frame);
                    self.let_past(number);
                } else {
                    self.stats.over_limit += 1;
                    pool.release(frame.id);
                }
            }
        }
    }

    /// Bytes that wait in front of a line that is free at `free`.
    fn waiting(&self, free: Instant) -> u128 {
        let speed = self
            .faults
            .rate
            .map_or(0, |rate| u128::from(rate.bits_per_second.get()));
        u128::from(free.nanos_since(self.now)) * speed / 8_000_000_000
    }

    /// When the last bit of the frame leaves the line; nothing when it finds the queue full.
    fn send_over(&mut self, rate: Rate, frame: &Frame) -> Option<Instant> {
        let speed = u128::from(rate.bits_per_second.get());
        let waiting = self.waiting(self.line_free);
        if waiting > 0 && waiting + u128::from(frame.len) > rate.queue as u128 {
            return None;
        }
        let time = (u128::from(frame.len) * 8_000_000_000).div_ceil(speed);
        let time = Duration::from_nanos(u64::try_from(time).unwrap_or(u64::MAX));
        self.line_free = self.line_free.max(self.now) + time;
        Some(self.line_free)
    }

    /// Makes a frame that will be held the wire's own, if there is room for it. While the pool is scarce one frame at a time is
    /// held: who waits for frames to come free may be waiting for this one to arrive.
    fn admit(&mut self, pool: &mut Pool, frame: Frame) -> Option<Frame> {
        let refused = if self.held() >= self.faults.limit {
            &mut self.stats.over_limit
        } else if pool.is_scarce() && self.held() > 0 {
            &mut self.stats.starved
        } else {
            return self.own(pool, frame);
        };
        *refused += 1;
        pool.release(frame.id);
        None
    }

    /// Moves every frame whose time has come to the ready ones.
    fn release_due(&mut self) {
        while self
            .delayed
            .peek()
            .is_some_and(|Reverse(held)| held.due <= self.now)
        {
            let Some(Reverse(held)) = self.delayed.pop() else {
                break;
            };
            self.ready.push(held.frame);
            self.let_past(held.number);
        }
        self.behind.release_due(self.now, &mut self.ready);
    }

    /// Counts frame `number` for those that it has overtaken, and lets go the ones for which it was the last.
    fn let_past(&mut self, number: u64) {
        self.behind.let_past(number, &mut self.ready);
    }

    /// Makes the ready frames that the next hop had no room for the wire's own, before their sender goes on.
    fn own_ready(&mut self, pool: &mut Pool) {
        if self.ready.iter().any(|frame| pool.is_shared(frame.id)) {
            let ready = mem::take(&mut self.ready);
            for frame in ready {
                if let Some(own) = self.own(pool, frame) {
                    self.ready.push(own);
                }
            }
        }
    }

    /// The frame itself when nobody shares it, else a copy in its place; nothing, and one frame lost, when the pool is
    /// empty.
    fn own(&mut self, pool: &mut Pool, frame: Frame) -> Option<Frame> {
        if !pool.is_shared(frame.id) {
            return Some(frame);
        }
        let copy = self.copy(pool, &frame);
        if copy.is_none() {
            self.stats.starved += 1;
        }
        pool.release(frame.id);
        copy
    }

    /// A copy of the frame at the same place of a new pool frame.
    fn copy(&mut self, pool: &mut Pool, frame: &Frame) -> Option<Frame> {
        self.scratch.clear();
        self.scratch.extend_from_slice(pool.frame(frame));
        let id = pool.alloc()?;
        let copy = Frame { id, ..*frame };
        pool.frame_mut(&copy).copy_from_slice(&self.scratch);
        Some(copy)
    }

    fn drain(&mut self, pool: &mut Pool) {
        let delayed = self.delayed.drain().map(|Reverse(held)| held.frame);
        let behind = self.behind.drain();
        for frame in delayed.chain(behind).chain(self.ready.drain(..)) {
            pool.release(frame.id);
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
