//! Two processes over shared memory: Clark, Jacobson, Romkey and Salwen's (1989) "two address spaces".
//!
//! A [`Segment`] holds a ring for each direction (`ring`), the words by which the sides wake each other (`protocol`), and
//! who took which side. [`ShmLink`] is one side of it. A frame is copied from the sender's pool into a slot and from the
//! slot into the receiver's pool; the second copy adds up the checksum in the same pass.
//!
//! The peer is not trusted: whatever it writes into the segment can lose frames and be counted in [`Stats`], but never
//! makes this side read or write outside of the segment, panic, or wait longer than it asked to. All `unsafe`
//! code is in `ring`, `segment` and the making of a link.
#![allow(unsafe_code)]

mod cells;
mod protocol;
mod ring;
mod segment;
mod sync;

pub use segment::{AttachError, Config, CreateError, Segment};

use crate::Side;
use crate::take::{Taken, take};
use crate::{WaitOutcome, Waitable};
use protocol::For;
use ring::{Consumer, MIN_FRAME, Peek, Producer};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};
use rustix::thread::futex;
use std::cell::{Cell, OnceCell};
use std::hint;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use sync::{AtomicU32, Ordering};
use tollgate_checksum::Kernel;
use tollgate_stack::buffer::{Frame, Pool, SUMMED_FROM};
use tollgate_stack::link::{BURST, Integrity, Link};

/// Time that a side sleeps before it checks that its peer still lives.
const SLICE: Duration = Duration::from_millis(50);

/// Pause before a side asks again for frames of a pool that had none to spare: about a tick of the stack's timers.
const STARVED_PAUSE: Duration = Duration::from_millis(1);

/// Looks at the ring between two looks at the clock, when busy polling.
const SPINS: u32 = 256;

/// Behaviour of a side while there is nothing to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Waiting {
    /// Looks again and again: the fastest, at the cost of a core. Nobody ever has to be woken.
    BusyPoll = 0,
    /// Sleeps, and is woken. Every burst costs its sender a fence and a look at the peer's sleep word.
    Sleep = 1,
}

/// A side of a segment cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// It was taken before. A side is taken once in a segment's life.
    #[error("side {side:?} of the segment was taken by process {by}; make a new segment")]
    Taken {
        /// The side.
        side: Side,
        /// The process that took it.
        by: u32,
    },
}

/// Counts so far, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Given to the peer.
    pub sent: u64,
    /// Taken from the peer.
    pub received: u64,
    /// Not sent: shorter than an Ethernet header or longer than the MTU allows.
    pub bad_size: u64,
    /// Not sent: the peer has closed its side, died, or broken the protocol.
    pub unwanted: u64,
    /// Bursts that found too little room in the ring.
    pub full: u64,
    /// Times that a burst was left in the ring because the pool had no frame to spare.
    pub no_frame: u64,
    /// Lost: arrived with a length that cannot be, or does not fit into the pool's frames.
    pub bad_length: u64,
    /// Tells whether the peer broke the protocol (an index or turn that cannot be). The link then neither sends nor receives.
    pub broken: bool,
    /// Wake-ups that were sent to the peer.
    pub wakes: u64,
}

/// One side of a segment.
///
/// Dropping it closes the side; the peer can still receive what was sent.
#[derive(Debug)]
pub struct ShmLink {
    transmit: Producer,
    receive: Consumer,
    kernel: Option<Kernel>,
    waiting: Waiting,
    mtu: usize,
    /// The last `transmit` left frames behind.
    wants_room: bool,
    /// The last `receive` left frames in the ring because the pool had none to spare.
    starved: bool,
    side: Side,
    peer: OnceCell<Peer>,
    /// When the peer was looked for last.
    looked_for_peer: Cell<Instant>,
    stats: Stats,
    /// Keeps the rings' memory mapped.
    segment: Segment,
}

/// The process on the other side, by a handle that says when it ends.
#[derive(Debug)]
enum Peer {
    Process(OwnedFd),
    /// It had ended before a handle was made.
    Dead,
}

impl ShmLink {
    /// Takes one side of `segment`. With a `kernel`, frames that arrive are summed while they are copied; without one they
    /// are only copied.
    ///
    /// # Errors
    /// [`ClaimError::Taken`] when somebody took the side before.
    pub fn new(segment: &Segment, side: Side, kernel: Option<Kernel>) -> Result<Self, ClaimError> {
        let owner = segment.words(side).owner;
        owner
            .compare_exchange(0, std::process::id(), Ordering::AcqRel, Ordering::Acquire)
            .map_err(|by| ClaimError::Taken { side, by })?;
        if !segment.claim(side) {
            let by = std::process::id();
            return Err(ClaimError::Taken { side, by });
        }
        let segment = segment.clone();
        // SAFETY: the side was never taken by way of this mapping, which the peer cannot change. So this is the only producer of the
        // ring in it, and the link owns a share of the segment. Who maps the file once more is a peer.
        let transmit = unsafe { segment.ring_from(side) };
        // SAFETY: as above, the only consumer.
        let receive = unsafe { segment.ring_from(side.other()) };
        let Config { mtu, waiting, .. } = segment.config();
        Ok(Self {
            transmit: Producer::new(transmit),
            receive: Consumer::new(receive),
            kernel,
            waiting,
            mtu,
            wants_room: false,
            starved: false,
            side,
            peer: OnceCell::new(),
            looked_for_peer: Cell::new(Instant::now()),
            stats: Stats::default(),
            segment,
        })
    }

    /// Counts so far.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Tells whether the peer has closed its side, or broken the protocol, so that nothing more will come than what
    /// [`receive`](Link::receive) still finds. It costs a load; a peer that died without closing is found by
    /// [`peer_alive`](Self::peer_alive) and [`wait`](Self::wait).
    pub fn peer_closed(&self) -> bool {
        self.stats.broken
            || self
                .segment
                .words(self.side.other())
                .closed
                .load(Ordering::Acquire)
                != 0
    }

    /// Tells whether the peer's process lives, as far as can be told; `true` while nobody has taken the other side. It costs a
    /// system call. The peer's number is taken from the segment, so both must live in one PID namespace.
    pub fn peer_alive(&self) -> bool {
        let owner = self
            .segment
            .words(self.side.other())
            .owner
            .load(Ordering::Acquire);
        if owner == 0 {
            return true;
        }
        let peer = self.peer.get_or_init(|| {
            let pid = i32::try_from(owner).ok().and_then(Pid::from_raw);
            let handle =
                pid.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
            handle.map_or(Peer::Dead, Peer::Process)
        });
        match peer {
            Peer::Dead => false,
            // The handle becomes readable when the process ends.
            Peer::Process(handle) => {
                let mut handle = [PollFd::new(handle, PollFlags::IN)];
                !matches!(
                    rustix::event::poll(
                        &mut handle,
                        Some(&Timespec {
                            tv_sec: 0,
                            tv_nsec: 0
                        })
                    ),
                    Ok(1)
                )
            }
        }
    }

    /// Tells whether a call of `receive` or `transmit` would get on.
    #[inline(always)]
    fn is_ready(&self) -> bool {
        !self.stats.broken
            && (!self.starved && !self.receive.is_empty()
                || (self.wants_room && self.transmit.has_news()))
    }

    /// Tells whether there is something to receive, once the pool has a frame for it.
    fn has_frames(&self) -> bool {
        !self.stats.broken && !self.receive.is_empty()
    }

    fn spin(&self) {
        for _ in 0..SPINS {
            if self.is_ready() {
                return;
            }
            hint::spin_loop();
        }
    }

    fn sleep(&self, time: Duration) {
        let word = self.segment.words(self.side).sleep;
        let what = if self.wants_room {
            For::FramesOrRoom
        } else {
            For::Frames
        };
        protocol::announce(word, what);
        if !self.is_ready() && !self.peer_closed() {
            let time = Timespec {
                tv_sec: time.as_secs() as i64,
                tv_nsec: time.subsec_nanos().into(),
            };
            // Woken, timed out, interrupted or refused: the caller looks for itself what there is.
            let _ = futex::wait(word, futex::Flags::empty(), what as u32, Some(&time));
        }
        protocol::retract(word);
    }

    /// Sends nothing and receives nothing any more: the peer cannot be dealt with.
    #[cold]
    fn give_up(&mut self) {
        self.stats.broken = true;
    }

    /// Gives frames back that nobody will read.
    #[cold]
    fn discard(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.stats.unwanted += frames.len() as u64;
        self.wants_room = false;
        for frame in frames.drain(..) {
            pool.release(frame.id);
        }
    }

    /// Wakes the peer when it sleeps, after frames were published.
    #[inline(always)]
    fn wake_for_frames(&mut self) {
        if self.waiting == Waiting::Sleep {
            let peer = self.segment.words(self.side.other()).sleep;
            if protocol::must_wake_for_frames(peer) {
                self.stats.wakes += 1;
                wake(peer);
            }
        }
    }

    /// Wakes the peer when it sleeps for room, after slots were given back.
    #[inline(always)]
    fn wake_for_room(&mut self) {
        if self.waiting == Waiting::Sleep {
            let peer = self.segment.words(self.side.other()).sleep;
            if protocol::must_wake_for_room(peer) {
                self.stats.wakes += 1;
                wake(peer);
            }
        }
    }
}

const _: () = assert!(SUMMED_FROM > MIN_FRAME);

impl Link for ShmLink {
    #[inline(always)]
    fn mtu(&self) -> usize {
        self.mtu
    }

    /// Frames are copied from memory to memory by the processors of one host. What a peer does on purpose no checksum notices.
    fn integrity(&self) -> Integrity {
        Integrity::Memory
    }

    #[inline]
    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        if frames.is_empty() {
            return;
        }
        if self.stats.broken {
            return self.discard(pool, frames);
        }
        let Ok(room) = self.transmit.room(frames.len()) else {
            self.give_up();
            return self.discard(pool, frames);
        };
        let count = room.min(frames.len());
        for frame in frames.drain(..count) {
            if self.transmit.push(pool.frame(&frame)) {
                self.stats.sent += 1;
            } else {
                self.stats.bad_size += 1;
            }
            pool.release(frame.id);
        }
        if count > 0 {
            self.wake_for_frames();
        }
        self.wants_room = !frames.is_empty();
        if self.wants_room {
            self.stats.full += 1;
            if self.peer_closed() {
                self.discard(pool, frames);
            }
        }
    }

    #[inline]
    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        if self.stats.broken {
            return;
        }
        self.starved = false;
        let mut passed = 0;
        while passed < BURST {
            match self.receive.peek() {
                Peek::Empty => break,
                Peek::Frame(bytes) => match take(bytes, self.kernel.as_ref(), pool) {
                    Taken::Frame(frame) => {
                        frames.push(frame);
                        self.stats.received += 1;
                    }
                    Taken::NoFrame => {
                        self.stats.no_frame += 1;
                        self.starved = true;
                        break;
                    }
                    Taken::TooLong => self.stats.bad_length += 1,
                },
                Peek::BadLength => self.stats.bad_length += 1,
                Peek::Broken => {
                    self.give_up();
                    break;
                }
            }
            self.receive.advance();
            passed += 1;
        }
        if passed > 0 {
            self.receive.give_back();
            self.wake_for_room();
        }
    }
}

impl Waitable for ShmLink {
    /// Waits until there is something to receive, or room for the frames that the last `transmit` left behind, for
    /// `timeout` at most. The segment's [`Config::waiting`] says whether it polls or sleeps. After a `receive` for
    /// which the pool had no frame to spare, it waits a millisecond before frames that are left in the ring count
    /// again.
    fn wait(&self, timeout: Duration) -> WaitOutcome {
        if self.is_ready() {
            return WaitOutcome::Ready;
        }
        let start = Instant::now();
        loop {
            // Whatever the peer sent, it sent before it closed: look for frames after the flag.
            let closed = self.peer_closed();
            if self.is_ready() {
                return WaitOutcome::Ready;
            }
            let starves = self.starved && self.has_frames();
            if closed && !starves {
                return WaitOutcome::PeerGone;
            }
            let now = Instant::now();
            let waited = now.duration_since(start);
            let left = timeout.saturating_sub(waited);
            let pause = STARVED_PAUSE.saturating_sub(waited);
            if starves && pause.is_zero() && !left.is_zero() {
                return WaitOutcome::Ready;
            }
            // Each wait of many may be shorter than a slice.
            if now.duration_since(self.looked_for_peer.get()) >= SLICE {
                self.looked_for_peer.set(now);
                if !self.peer_alive() {
                    return if self.has_frames() {
                        WaitOutcome::Ready
                    } else {
                        WaitOutcome::PeerGone
                    };
                }
            }
            if left.is_zero() {
                return WaitOutcome::TimedOut;
            }
            let longest = if starves { pause } else { SLICE };
            match self.waiting {
                Waiting::BusyPoll => self.spin(),
                Waiting::Sleep => self.sleep(left.min(longest)),
            }
        }
    }

    fn is_gone(&self) -> bool {
        self.stats.broken
    }
}

impl Drop for ShmLink {
    fn drop(&mut self) {
        // Release: everything that was sent is seen by whoever sees the side closed.
        self.segment
            .words(self.side)
            .closed
            .store(1, Ordering::Release);
        let peer = self.segment.words(self.side.other()).sleep;
        if protocol::must_wake_for_frames(peer) {
            wake(peer);
        }
    }
}

/// Wakes the side that sleeps on `word`.
#[cold]
fn wake(word: &AtomicU32) {
    // It fails only for addresses that are no futex.
    let _ = futex::wake(word, futex::Flags::empty(), 1);
}

// Miri maps no files; it is given the ring alone.
#[cfg(all(test, not(miri)))]
mod tests;
