//! A link whose frames meet faults in both directions, in real time.
//!
//! It owns the clock that [`fault`](crate::fault) is given, and lets go what is due whenever it is asked for frames. So a program
//! uses it like the link inside. It never decides which faults there are.

use crate::fault::{Fault, Faults, Stats};
use crate::wait::{WaitOutcome, Waitable, WaitableBeside};
use std::os::fd::BorrowedFd;
use std::time::Duration;
use tollgate_stack::buffer::{Frame, Pool};
use tollgate_stack::config::Segmentation;
use tollgate_stack::link::{Integrity, Link};
use tollgate_stack::time::Instant;

/// A faulty link in real time.
#[derive(Debug)]
pub struct Faulty<L> {
    line: Fault<Fault<L>>,
    began: std::time::Instant,
}

impl<L: Link> Faulty<L> {
    /// Makes what is sent and what arrives over `inner` meet `faults`, each direction by its own stream of `seed`.
    pub fn new(inner: L, faults: Faults, seed: u64) -> Self {
        Self {
            line: Fault::on_transmit(
                Fault::on_receive(inner, faults, seed),
                faults,
                seed.wrapping_add(1),
            ),
            began: std::time::Instant::now(),
        }
    }

    /// Changes what is done to the frames of both directions from now on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.line.set_faults(faults);
        self.line.inner_mut().set_faults(faults);
    }

    /// The link inside.
    pub const fn inner(&self) -> &L {
        self.line.inner().inner()
    }

    /// The link inside, to be changed.
    pub const fn inner_mut(&mut self) -> &mut L {
        self.line.inner_mut().inner_mut()
    }

    /// Counts of what was sent, and of what arrived.
    pub const fn stats(&self) -> [&Stats; 2] {
        [self.line.stats(), self.line.inner().stats()]
    }

    /// Frames that are held.
    pub fn held(&self) -> usize {
        self.line.held() + self.line.inner().held()
    }

    /// Gives every held frame back to `pool`, before the link is dropped.
    pub fn drain(&mut self, pool: &mut Pool) {
        self.line.drain(pool);
        self.line.inner_mut().drain(pool);
    }

    fn present(&self) -> Instant {
        let nanos = self.began.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn read_clock(&mut self) {
        let now = self.present();
        self.line.set_now(now);
        self.line.inner_mut().set_now(now);
    }

    /// Time until the next held frame is due, at most `timeout`.
    fn until_due(&self, timeout: Duration) -> Duration {
        let now = self.present();
        let due = [self.line.next_event(), self.line.inner().next_event()];
        let due = due.into_iter().flatten().min();
        due.map_or(timeout, |due| {
            timeout.min(Duration::from_nanos(due.nanos_since(now)))
        })
    }
}

impl<L: Link> Link for Faulty<L> {
    fn mtu(&self) -> usize {
        self.line.mtu()
    }

    fn integrity(&self) -> Integrity {
        self.line.integrity()
    }

    fn set_segmentation(&mut self, segmentation: Segmentation) {
        self.line.set_segmentation(segmentation);
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.read_clock();
        self.line.transmit(pool, frames);
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.read_clock();
        self.line.receive(pool, frames);
    }
}

/// The outcome of waiting for a frame of the link or for one that is held.
fn held_or(outcome: WaitOutcome, short: bool) -> WaitOutcome {
    match outcome {
        WaitOutcome::TimedOut if short => WaitOutcome::Ready,
        outcome => outcome,
    }
}

impl<L: Waitable> Waitable for Faulty<L> {
    fn wait(&self, timeout: Duration) -> WaitOutcome {
        let nap = self.until_due(timeout);
        held_or(self.inner().wait(nap), nap < timeout)
    }

    fn is_sending(&self) -> bool {
        self.line.held() > 0 || self.inner().is_sending()
    }

    fn kept(&self) -> usize {
        self.inner().kept()
    }

    fn gathers(&self) -> bool {
        self.inner().gathers()
    }

    fn is_gone(&self) -> bool {
        self.inner().is_gone()
    }
}

impl<L: WaitableBeside> WaitableBeside for Faulty<L> {
    fn wait_beside(&self, other: BorrowedFd<'_>, timeout: Duration) -> (WaitOutcome, bool) {
        let nap = self.until_due(timeout);
        let (outcome, readable) = self.inner().wait_beside(other, nap);
        (held_or(outcome, nap < timeout), readable)
    }
}
