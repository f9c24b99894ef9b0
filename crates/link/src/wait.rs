//! Waiting for a link, so that any link gives a path.
//!
//! It owns what a waiter asks of a link and is told. It never decides how long to wait: the deadline is the caller's.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::time::Duration;
use tollgate_stack::link::Link;

/// Outcome of [`Waitable::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// There is something to receive, or room for what the last `transmit` left behind.
    Ready,
    /// Nothing happened in the given time.
    TimedOut,
    /// The other end or the device has gone, and there is nothing left to receive.
    PeerGone,
}

/// A link that can be waited for.
pub trait Waitable: Link {
    /// Waits until there is something to receive, or room for what the last `transmit` left behind, for `timeout` at most.
    fn wait(&self, timeout: Duration) -> WaitOutcome;

    /// Tells whether it holds a part of what it was given, which leaves when it is polled.
    fn is_sending(&self) -> bool {
        false
    }

    /// Frames of the pool that it keeps for the kernel to receive into.
    fn kept(&self) -> usize {
        0
    }

    /// Tells whether segments that it is given together cost less than one by one, so that a sender lets them gather.
    fn gathers(&self) -> bool {
        false
    }

    /// Tells whether nothing will come or leave any more, as far as can be told without a system call.
    fn is_gone(&self) -> bool {
        false
    }
}

/// A link that is waited for by a descriptor, so that another descriptor can be waited for beside it.
pub trait WaitableBeside: Waitable {
    /// Waits like [`Waitable::wait`], and until `other` can be read; tells of the link, and whether `other` can be read.
    fn wait_beside(&self, other: BorrowedFd<'_>, timeout: Duration) -> (WaitOutcome, bool);
}

/// Waits until a descriptor can be read, or written where `room` is wanted, for `timeout` at most.
pub(crate) fn wait_for(fd: BorrowedFd<'_>, room: bool, timeout: Duration) -> WaitOutcome {
    wait(&mut [PollFd::from_borrowed_fd(fd, wanted(room))], timeout)
}

/// Waits until one of several descriptors can be read, or written where `room` is wanted, or until `other` can be read, for `timeout` at
/// most; tells whether `other` can.
pub(crate) fn wait_among<'a>(
    fds: impl Iterator<Item = BorrowedFd<'a>>,
    room: bool,
    other: Option<BorrowedFd<'a>>,
    timeout: Duration,
) -> (WaitOutcome, bool) {
    let link = fds.map(|fd| PollFd::from_borrowed_fd(fd, wanted(room)));
    let others = usize::from(other.is_some());
    let other = other.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let mut polled: Vec<_> = other.into_iter().chain(link).collect();
    match poll(&mut polled, timeout) {
        Some(outcome) => (outcome, false),
        None => {
            let (other, link) = polled.split_at(others);
            (
                found(link),
                other.iter().any(|one| !one.revents().is_empty()),
            )
        }
    }
}

/// Pauses until `other` can be read; the link is to be tried again then.
pub(crate) fn pause_beside(other: BorrowedFd<'_>, pause: Duration) -> (WaitOutcome, bool) {
    let other = wait_for(other, false, pause) != WaitOutcome::TimedOut;
    (WaitOutcome::Ready, other)
}

const fn wanted(room: bool) -> PollFlags {
    if room {
        PollFlags::IN.union(PollFlags::OUT)
    } else {
        PollFlags::IN
    }
}

fn wait(polled: &mut [PollFd<'_>], timeout: Duration) -> WaitOutcome {
    poll(polled, timeout).unwrap_or_else(|| found(polled))
}

/// Polls descriptors; none where something was found, else the outcome.
fn poll(polled: &mut [PollFd<'_>], timeout: Duration) -> Option<WaitOutcome> {
    let timeout = Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    match rustix::event::poll(polled, Some(&timeout)) {
        Ok(0) | Err(Errno::INTR | Errno::AGAIN | Errno::NOMEM) => Some(WaitOutcome::TimedOut),
        Ok(_) => None,
        Err(_) => Some(WaitOutcome::PeerGone),
    }
}

/// The outcome of what was found at a link's descriptors.
fn found(polled: &[PollFd<'_>]) -> WaitOutcome {
    let found = polled
        .iter()
        .fold(PollFlags::empty(), |all, one| all | one.revents());
    let bad = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    if found.intersects(bad) && !found.contains(PollFlags::IN) {
        WaitOutcome::PeerGone
    } else if found.is_empty() {
        WaitOutcome::TimedOut
    } else {
        WaitOutcome::Ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    const MOMENT: Duration = Duration::from_millis(1);

    #[test]
    fn descriptors_are_waited_for_by_what_is_wanted_of_them() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        assert_eq!(wait_for(ours.as_fd(), false, MOMENT), WaitOutcome::TimedOut);
        assert_eq!(wait_for(ours.as_fd(), true, MOMENT), WaitOutcome::Ready);
        theirs.write_all(b"x").unwrap();
        assert_eq!(wait_for(ours.as_fd(), false, MOMENT), WaitOutcome::Ready);
        assert_eq!(
            wait_for(ours.as_fd(), false, Duration::MAX),
            WaitOutcome::Ready
        );
    }

    #[test]
    fn either_of_two_descriptors_ends_the_wait() {
        let (link, mut frames) = UnixStream::pair().unwrap();
        let (other, mut bytes) = UnixStream::pair().unwrap();
        let wait = |timeout| {
            let link = std::iter::once(link.as_fd());
            wait_among(link, false, Some(other.as_fd()), timeout)
        };
        assert_eq!(wait(MOMENT), (WaitOutcome::TimedOut, false));
        bytes.write_all(b"x").unwrap();
        assert_eq!(wait(Duration::MAX), (WaitOutcome::TimedOut, true));
        frames.write_all(b"x").unwrap();
        assert_eq!(wait(Duration::MAX), (WaitOutcome::Ready, true));
    }

    #[test]
    fn a_descriptor_that_failed_is_gone() {
        // The end of a pipe that nobody reads any more.
        let (read, write) = rustix::pipe::pipe().unwrap();
        drop(read);
        assert_eq!(
            wait_for(write.as_fd(), false, MOMENT),
            WaitOutcome::PeerGone
        );
    }
}
