//! Loops that wait for a link: whether they sleep, look again, or look again for a while before they sleep.
//!
//! It owns that decision, the length of a sleep, and counts of both. It reads no clock: the present time is the caller's, who also says
//! when something has come.

use crate::wait::{WaitOutcome, Waitable, WaitableBeside};
use std::fs;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use tollgate_stack::Instant;

/// Numbers of the processors that are online (the kernel's Documentation/admin-guide/cputopology). Those that the thread may use say less:
/// who is pinned to one may have it alone.
const PROCESSORS: &str = "/sys/devices/system/cpu/online";

/// Way in which a loop waits for its link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitMode {
    /// It sleeps until a frame comes or a timer is due.
    #[default]
    Block,
    /// It looks again and again, and keeps its processor.
    Poll,
    /// It polls for [`Waiter::WINDOW`] after something has come, and then sleeps.
    Adaptive,
}

/// Counts of a loop that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitCounts {
    /// Sleeps.
    pub sleeps: u64,
    /// Decisions to look again instead, each after a look that found nothing.
    pub looks: u64,
}

/// Decision of a loop that waits: to look again or to sleep.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    mode: WaitMode,
    window: Duration,
    /// The end of the window, where the loop adapts.
    polls_until: Instant,
    /// Frames that had come by the last look.
    frames: u64,
    counts: WaitCounts,
}

impl Waiter {
    /// Time for which an adaptive loop polls after something has come. A sleep and its end take some 10 us, so polling for a few times that
    /// costs at most a few times what the sleep would have (Karlin, Li, Manasse and Owicki 1991).
    pub const WINDOW: Duration = Duration::from_micros(50);

    /// A loop that waits in this way. One that adapts does not poll on a machine with one processor: it would only keep others from making
    /// what it waits for.
    pub fn new(mode: WaitMode) -> Self {
        let alone = mode == WaitMode::Adaptive
            && fs::read_to_string(PROCESSORS).is_ok_and(|online| is_one(&online));
        Self::with_window(mode, if alone { Duration::ZERO } else { Self::WINDOW })
    }

    /// A loop that polls for this time after something has come, where it adapts.
    pub const fn with_window(mode: WaitMode, window: Duration) -> Self {
        Self {
            mode,
            window,
            polls_until: Instant::ZERO,
            frames: 0,
            counts: WaitCounts {
                sleeps: 0,
                looks: 0,
            },
        }
    }

    /// The way in which it waits.
    pub const fn mode(&self) -> WaitMode {
        self.mode
    }

    /// The time for which it polls after something has come, where it adapts.
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// Counts so far.
    pub const fn counts(&self) -> WaitCounts {
        self.counts
    }

    /// Takes note that something has come by now.
    pub fn found(&mut self, now: Instant) {
        self.polls_until = now + self.window;
    }

    /// Takes note of how many frames have come by now since the stack was made ([`frames_in`](tollgate_stack::counters::Counters)).
    pub fn saw(&mut self, frames: u64, now: Instant) {
        if frames != self.frames {
            self.frames = frames;
            self.found(now);
        }
    }

    /// Decides, after a look that found nothing, whether to look again instead of sleeping.
    #[inline(always)]
    pub fn looks_again(&mut self, now: Instant) -> bool {
        let again = match self.mode {
            WaitMode::Block => false,
            WaitMode::Poll => true,
            WaitMode::Adaptive => now < self.polls_until,
        };
        self.counts.looks += u64::from(again);
        again
    }

    /// Sleeps until the link is ready, a timer is `due`, or for `most`.
    pub fn sleep(
        &mut self,
        link: &impl Waitable,
        due: Option<Instant>,
        now: Instant,
        most: Duration,
    ) -> WaitOutcome {
        self.counts.sleeps += 1;
        link.wait(nap(due, now, most))
    }

    /// Sleeps like [`Waiter::sleep`], and until `other` can be read; tells of the link, and whether `other` can be read.
    pub fn sleep_beside(
        &mut self,
        link: &impl WaitableBeside,
        other: BorrowedFd<'_>,
        due: Option<Instant>,
        now: Instant,
        most: Duration,
    ) -> (WaitOutcome, bool) {
        self.counts.sleeps += 1;
        link.wait_beside(other, nap(due, now, most))
    }
}

/// Tells whether a list of processors has one.
fn is_one(online: &str) -> bool {
    online.trim().parse::<u32>().is_ok()
}

/// The time until a timer is due, at most `most`.
fn nap(due: Option<Instant>, now: Instant, most: Duration) -> Duration {
    due.map_or(most, |due| {
        most.min(Duration::from_nanos(due.nanos_since(now)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_micros(50);

    const fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    #[test]
    fn blocking_loops_sleep_and_polling_ones_never_do() {
        let mut block = Waiter::with_window(WaitMode::Block, WINDOW);
        let mut poll = Waiter::with_window(WaitMode::Poll, WINDOW);
        for now in [at(0), at(10), at(1_000_000)] {
            block.found(now);
            assert!(!block.looks_again(now));
            assert!(poll.looks_again(now));
        }
        assert_eq!(block.counts().looks, 0);
        assert_eq!(poll.counts().looks, 3);
    }

    #[test]
    fn adaptive_loops_poll_for_a_while_after_the_last_frame() {
        let mut waiter = Waiter::with_window(WaitMode::Adaptive, WINDOW);
        waiter.saw(0, at(100));
        assert!(!waiter.looks_again(at(100)), "nothing has come yet");
        waiter.saw(1, at(100));
        assert!(waiter.looks_again(at(149)));
        assert!(!waiter.looks_again(at(150)), "the window is over");
        // The same frames begin no window, and others do.
        waiter.saw(1, at(151));
        assert!(!waiter.looks_again(at(151)));
        waiter.saw(3, at(200));
        waiter.saw(4, at(240));
        assert!(waiter.looks_again(at(289)));
        assert!(!waiter.looks_again(at(290)));
        assert_eq!(waiter.counts().looks, 2);
    }

    #[test]
    fn machines_with_one_processor_are_known() {
        assert!(is_one("0\n"));
        for online in ["0-1\n", "0,2\n", "0-3,8-11\n", ""] {
            assert!(!is_one(online), "{online}");
        }
        let polls = |mode| Waiter::new(mode).window() > Duration::ZERO;
        assert!(polls(WaitMode::Poll));
        let online = fs::read_to_string(PROCESSORS).unwrap_or_default();
        assert_eq!(polls(WaitMode::Adaptive), !is_one(&online));
    }

    #[test]
    fn sleeps_end_when_a_timer_is_due() {
        let most = Duration::from_millis(50);
        assert_eq!(nap(None, at(5), most), most);
        assert_eq!(nap(Some(at(7)), at(5), most), Duration::from_micros(2));
        assert_eq!(nap(Some(at(5)), at(7), most), Duration::ZERO);
        assert_eq!(nap(Some(at(1_000_000)), at(5), most), most);
    }
}
