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

    /// Time until the next held frame is due, at most `timeout`. What the link inside has no room for waits for that link, and all
    /// that is sent later behind it.
    fn until_due(&self, timeout: Duration) -> Duration {
        let now = self.present();
        let sent = match self.line.wants_room() {
            true => None,
            false => self.line.next_event(),
        };
        let due = [sent, self.line.inner().next_event()];
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
        if self.line.wants_room() {
            // Last, so that the link inside knows what it is waited for.
            self.line.poll(pool);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A link that takes nothing while it is full, and notes for how long it is waited for.
    #[derive(Default)]
    struct Full {
        full: bool,
        refused: bool,
        waited: Cell<Duration>,
    }

    impl Link for Full {
        fn mtu(&self) -> usize {
            1_500
        }

        fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
            self.refused = self.full;
            if !self.full {
                frames.drain(..).for_each(|frame| pool.release(frame.id));
            }
        }

        fn receive(&mut self, _pool: &mut Pool, _frames: &mut Vec<Frame>) {
            self.refused = false;
        }
    }

    impl Waitable for Full {
        fn wait(&self, timeout: Duration) -> WaitOutcome {
            self.waited.set(timeout);
            WaitOutcome::TimedOut
        }
    }

    #[test]
    fn frames_without_room_are_waited_for_by_the_link_inside() {
        const LONG: Duration = Duration::from_secs(3_600);
        let faults = "delay=1ms".parse().unwrap();
        let full = Full {
            full: true,
            ..Full::default()
        };
        let mut link = Faulty::new(full, faults, 1);
        let mut pool = Pool::new(16, 2_048);
        let mut burst = vec![pool.frame_from(&[1; 60]).unwrap()];
        link.transmit(&mut pool, &mut burst);
        // A frame that is delayed ends the wait when it is due.
        assert_eq!(link.wait(LONG), WaitOutcome::Ready);
        assert!(link.inner().waited.get() <= Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(2));
        link.receive(&mut pool, &mut Vec::new());
        burst.push(pool.frame_from(&[2; 60]).unwrap());
        link.transmit(&mut pool, &mut burst);
        std::thread::sleep(Duration::from_millis(2));
        link.receive(&mut pool, &mut Vec::new());
        assert!(link.inner().refused, "it knows that it has no room");
        assert_eq!(link.wait(LONG), WaitOutcome::TimedOut);
        assert_eq!(link.inner().waited.get(), LONG);
        link.inner_mut().full = false;
        link.receive(&mut pool, &mut Vec::new());
        assert_eq!((link.held(), pool.available()), (0, pool.capacity()));
    }
}
