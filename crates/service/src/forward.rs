//! A connection that is forwarded: two connections, and a direction of bytes each way.
//!
//! It owns what becomes of one side when the other is over. An end of a direction is passed on as an end, an error as a reset behind
//! all that the side had sent before.

use std::io;

use crate::pipe::{End, Joined, Pipe, Progress};
use crate::sockets::Stream;

/// A side of a connection that is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Front,
    Kernel,
}

/// Both directions of a connection that is forwarded.
#[derive(Debug)]
pub(crate) struct Forward {
    /// The side whose connection is made, since the other's was accepted.
    made: Side,
    /// That connection is established.
    connected: bool,
    /// From the front to the kernel.
    out: Pipe,
    back: Pipe,
    /// The side that is over, and the reason.
    failed: Option<(Side, io::Error)>,
}

impl Forward {
    /// The directions of a connection for which one is made at this side.
    pub(crate) fn to(made: Side) -> Self {
        Self {
            made,
            connected: false,
            out: Pipe::default(),
            back: Pipe::default(),
            failed: None,
        }
    }

    /// Notes that one side has become ready.
    pub(crate) fn ready(&mut self, side: Side, writable: bool) {
        self.connected |= writable && side == self.made;
    }

    /// The side that is over by an error, while the other one takes what it had sent.
    pub(crate) fn failed(&self) -> Option<Side> {
        self.failed.as_ref().map(|(side, _)| *side)
    }

    /// Moves what there is in both directions.
    ///
    /// # Errors
    /// The reason why one side is over, once the other has all that came from it, or is over as well.
    pub(crate) fn go(
        &mut self,
        front: &mut impl Stream,
        joined: Option<&mut impl Stream>,
        scratch: &mut [u8],
        moved: &mut u64,
    ) -> io::Result<Progress> {
        let Some(joined) = joined else {
            return Ok(Progress::Wait);
        };
        if !self.connected {
            // Who has gone meanwhile is not connected any more.
            match self.made {
                Side::Front => joined.failure()?,
                Side::Kernel => front.failure()?,
            }
            return Ok(Progress::Wait);
        }
        if self.failed.is_none() {
            match self.both(front, joined, scratch, moved) {
                Ok(progress) => return Ok(progress),
                Err(failed) => self.failed = Some(failed),
            }
        }
        let progress = match self.failed() {
            Some(Side::Front) => rest(&mut self.out, front, joined, scratch, moved),
            Some(Side::Kernel) => rest(&mut self.back, joined, front, scratch, moved),
            None => return Ok(Progress::Wait),
        };
        match (progress, self.failed.take()) {
            (Ok(progress @ (Progress::Wait | Progress::Again)), failed) => {
                self.failed = failed;
                Ok(progress)
            }
            (Ok(Progress::Done), Some((_, error))) => Err(error),
            (Ok(Progress::Done), None) => Ok(Progress::Done),
            (Err(error), _) => Err(error),
        }
    }

    /// Moves what there is between two sides of which none has failed.
    fn both(
        &mut self,
        front: &mut impl Stream,
        joined: &mut impl Stream,
        scratch: &mut [u8],
        moved: &mut u64,
    ) -> Result<Progress, (Side, io::Error)> {
        let mut way = Joined::new(front, joined);
        let out = self.out.go(&mut way, scratch, moved);
        let side = match way.failed {
            Some(End::To) => Side::Kernel,
            Some(End::From) | None => Side::Front,
        };
        let out = out.map_err(|error| (side, error))?;
        let mut way = Joined::new(joined, front);
        let back = self.back.go(&mut way, scratch, moved);
        let side = match way.failed {
            Some(End::To) => Side::Front,
            Some(End::From) | None => Side::Kernel,
        };
        let back = back.map_err(|error| (side, error))?;
        // An end that is not read cannot tell that it is over in any other way.
        if !self.out.reads() {
            front.failure().map_err(|error| (Side::Front, error))?;
        }
        if !self.back.reads() {
            joined.failure().map_err(|error| (Side::Kernel, error))?;
        }
        Ok(match (out, back) {
            (Progress::Done, Progress::Done) => Progress::Done,
            (Progress::Again, _) | (_, Progress::Again) => Progress::Again,
            (Progress::Wait | Progress::Done, Progress::Wait | Progress::Done) => Progress::Wait,
        })
    }
}

/// Passes on what a side that is over had sent. It is done when the other side has acknowledged all: a reset would destroy the rest.
fn rest(
    pipe: &mut Pipe,
    from: &mut impl Stream,
    to: &mut impl Stream,
    scratch: &mut [u8],
    moved: &mut u64,
) -> io::Result<Progress> {
    to.failure()?;
    let progress = pipe.pass_rest(&mut Joined::new(from, to), scratch, moved)?;
    if progress == Progress::Done && to.unacknowledged()? > 0 {
        return Ok(Progress::Wait);
    }
    Ok(progress)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockets::testing::Script;

    fn go(forward: &mut Forward, front: &mut Script, kernel: &mut Script) -> io::Result<Progress> {
        forward.go(front, Some(kernel), &mut [0; 8], &mut 0)
    }

    #[test]
    fn forward_passes_on_what_came_before_a_reset() {
        let mut forward = Forward::to(Side::Kernel);
        forward.ready(Side::Kernel, true);
        let mut client = Script::new(b"more of a request", false);
        let mut server = Script::new(b"the answer of a server that goes", false);
        server.fails = true;
        client.room = 10;
        let progress = go(&mut forward, &mut client, &mut server);
        assert_eq!(progress.unwrap(), Progress::Wait);
        assert_eq!(client.sent, b"the answer");
        client.room = 1_000;
        client.unacknowledged = 5;
        let progress = go(&mut forward, &mut client, &mut server);
        assert_eq!(progress.unwrap(), Progress::Wait);
        assert_eq!(client.sent, b"the answer of a server that goes");
        assert!(!client.shut);
        client.unacknowledged = 0;
        let error = go(&mut forward, &mut client, &mut server).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn forward_ends_with_a_client_that_goes_before_it_is_connected() {
        for made in [Side::Kernel, Side::Front] {
            let mut forward = Forward::to(made);
            let mut sides = [Script::new(b"", false), Script::new(b"", false)];
            let [front, kernel] = &mut sides;
            let progress = go(&mut forward, front, kernel);
            assert_eq!(progress.unwrap(), Progress::Wait);
            match made {
                Side::Kernel => front.fails = true,
                Side::Front => kernel.fails = true,
            }
            assert!(go(&mut forward, front, kernel).is_err());
        }
    }
}
