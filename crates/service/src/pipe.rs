//! One direction of bytes: from where they are received to where they are sent.
//!
//! It keeps what has been received and cannot be sent yet, which is one read at most: then it reads no more, and the sender's
//! window closes. So a reader that never reads costs bounded memory.

use std::io;

use crate::sockets::{Stream, unless_blocked};

/// Reads before others have their turn.
pub(crate) const TURNS: usize = 16;

/// State of a connection after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It waits for an event.
    Wait,
    /// It could go on, and lets others go first.
    Again,
    /// It is done.
    Done,
}

/// The bytes of one direction.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    /// Received and not sent.
    pending: Vec<u8>,
    /// Bytes of `pending` that have been sent.
    sent: usize,
    /// The sender's end has come.
    ended: bool,
    /// The end has been passed on.
    done: bool,
}

impl Pipe {
    /// Moves what there is, by way of `scratch`, and gives how many bytes were received.
    pub(crate) fn go(
        &mut self,
        stream: &mut impl Stream,
        scratch: &mut [u8],
        moved: &mut u64,
    ) -> io::Result<Progress> {
        for _ in 0..TURNS {
            if !self.send_pending(stream)? {
                return Ok(Progress::Wait);
            }
            if self.done {
                return Ok(Progress::Done);
            }
            if self.ended {
                stream.shutdown()?;
                self.done = true;
                return Ok(Progress::Done);
            }
            match unless_blocked(stream.receive(scratch))? {
                None => return Ok(Progress::Wait),
                Some(0) => self.ended = true,
                Some(count) => {
                    *moved += count as u64;
                    let sent = unless_blocked(stream.send(&scratch[..count]))?.unwrap_or(0);
                    self.pending.extend_from_slice(&scratch[sent..count]);
                }
            }
        }
        Ok(Progress::Again)
    }

    /// Moves what a sender that is over had sent before. It is done when nothing more comes, and passes no end on.
    pub(crate) fn pass_rest(
        &mut self,
        stream: &mut impl Stream,
        scratch: &mut [u8],
        moved: &mut u64,
    ) -> io::Result<Progress> {
        for _ in 0..TURNS {
            if !self.send_pending(stream)? {
                return Ok(Progress::Wait);
            }
            if self.ended {
                return Ok(Progress::Done);
            }
            // Its end, its reason and nothing yet are all the same now.
            let count = stream.receive(scratch).unwrap_or(0);
            if count == 0 {
                return Ok(Progress::Done);
            }
            *moved += count as u64;
            self.pending.extend_from_slice(&scratch[..count]);
        }
        Ok(Progress::Again)
    }

    /// Tells whether it reads, and so learns when its sender is over.
    pub(crate) const fn reads(&self) -> bool {
        self.pending.is_empty() && !self.ended
    }

    /// Sends what is kept; tells whether nothing is left.
    fn send_pending(&mut self, stream: &mut impl Stream) -> io::Result<bool> {
        while self.sent < self.pending.len() {
            match unless_blocked(stream.send(&self.pending[self.sent..]))? {
                None => return Ok(false),
                Some(count) => self.sent += count,
            }
        }
        // Memory is for those that wait.
        if self.sent > 0 {
            self.pending = Vec::new();
            self.sent = 0;
        }
        Ok(true)
    }
}

/// An end of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    From,
    To,
}

/// Two streams joined into one direction.
pub(crate) struct Joined<'a, A, B> {
    from: &'a mut A,
    to: &'a mut B,
    /// The end whose call failed last.
    pub(crate) failed: Option<End>,
}

impl<'a, A, B> Joined<'a, A, B> {
    pub(crate) const fn new(from: &'a mut A, to: &'a mut B) -> Self {
        Self {
            from,
            to,
            failed: None,
        }
    }

    /// Notes whose call failed.
    fn noted<T>(&mut self, end: End, outcome: io::Result<T>) -> io::Result<T> {
        if outcome.is_err() {
            self.failed = Some(end);
        }
        outcome
    }
}

impl<A: Stream, B: Stream> Stream for Joined<'_, A, B> {
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let outcome = self.from.receive(into);
        self.noted(End::From, outcome)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let outcome = self.to.send(bytes);
        self.noted(End::To, outcome)
    }

    fn failure(&mut self) -> io::Result<()> {
        self.from.failure().and_then(|()| self.to.failure())
    }

    fn unacknowledged(&mut self) -> io::Result<u64> {
        self.to.unacknowledged()
    }

    fn shutdown(&mut self) -> io::Result<()> {
        let outcome = self.to.shutdown();
        self.noted(End::To, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::testing::Script;

    #[test]
    fn bytes_that_cannot_be_sent_are_kept_and_nothing_more_is_read() {
        let mut stream = Script::new(b"abcdefgh", true);
        stream.room = 3;
        let (mut pipe, mut scratch, mut moved) = (Pipe::default(), [0; 4], 0);
        assert_eq!(
            pipe.go(&mut stream, &mut scratch, &mut moved).unwrap(),
            Progress::Wait
        );
        assert_eq!((stream.sent.as_slice(), stream.left()), (&b"abc"[..], 4));
        stream.room = 100;
        assert_eq!(
            pipe.go(&mut stream, &mut scratch, &mut moved).unwrap(),
            Progress::Done
        );
        assert_eq!(stream.sent, b"abcdefgh");
        assert!(stream.shut);
        assert_eq!(moved, 8);
    }

    #[test]
    fn a_sender_that_never_ends_lets_others_go_first() {
        let mut stream = Script::new(&[7; 1000], false);
        let (mut pipe, mut scratch) = (Pipe::default(), [0; 10]);
        assert_eq!(
            pipe.go(&mut stream, &mut scratch, &mut 0).unwrap(),
            Progress::Again
        );
        assert_eq!(stream.sent.len(), 10 * TURNS);
    }
}
