//! Files by HTTP/1.1: GET and HEAD, ranges, conditions, connections that are kept, requests that do not wait for answers.
//!
//! [`request`] reads what a peer asks, [`root`] opens what it may have, [`answer`] decides what it is told (RFC 9110), and
//! [`Connection`] is the order of these on one connection (RFC 9112). Files are sent in pieces as the peer takes them, so their size
//! costs no memory. Nothing that a peer sends is trusted: what it may make us keep is one request's head.

mod answer;
mod conditions;
mod media;
mod request;
mod root;

pub use root::Root;

use std::io;
use std::rc::Rc;
use std::time::Duration;

use answer::{Answer, Shape, Status};
use request::Request;
use root::FileRange;

use crate::pipe::{Progress, TURNS};
use crate::sockets::{Stream, unless_blocked};

/// The longest head of a request, in bytes; RFC 9112, 3 asks for 8,000 of its first line at least.
const LONGEST_HEAD: usize = 16 * 1024;
/// Bytes of answers that gather before they are sent: those to requests that came together leave together.
const GATHER: usize = 16 * 1024;
/// Time that a peer has to close its direction, once ours is closed.
const LINGER: Duration = Duration::from_secs(5);

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    root: Rc<Root>,
    /// Received and not understood yet.
    input: Vec<u8>,
    /// Bytes of a request's content that are still to come, and are thrown away.
    skip: u64,
    /// Heads and short contents to be sent.
    output: Vec<u8>,
    /// Bytes of `output` that have been sent.
    sent: usize,
    /// The file that follows `output`.
    file: Option<FileRange>,
    state: State,
    /// The peer has closed its direction.
    peer_ended: bool,
}

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Requests are answered.
    Open,
    /// The answer under way is the last one.
    Last,
    /// Our direction is closed; what the peer still sends is thrown away, so that no reset destroys what it has to read
    /// (RFC 9112, 9.6).
    Lingers,
}

impl Connection {
    pub(crate) const fn new(root: Rc<Root>) -> Self {
        Self {
            root,
            input: Vec::new(),
            skip: 0,
            output: Vec::new(),
            sent: 0,
            file: None,
            state: State::Open,
            peer_ended: false,
        }
    }

    /// The time for which nothing may move, at most `patience`. The peer has all that was sent where it is `delivered`.
    pub(crate) fn patience(&self, patience: Duration, delivered: bool) -> Duration {
        match self.state {
            State::Lingers if delivered => LINGER.min(patience),
            State::Open | State::Last | State::Lingers => patience,
        }
    }

    /// Tells whether a part of an answer has not been handed over yet.
    pub(crate) const fn is_sending(&self) -> bool {
        self.sent < self.output.len() || self.file.is_some()
    }

    /// Reads requests and sends answers, as far as that goes.
    pub(crate) fn go(
        &mut self,
        stream: &mut impl Stream,
        scratch: &mut [u8],
        moved: &mut u64,
    ) -> io::Result<Progress> {
        for _ in 0..TURNS {
            let more = match self.state {
                State::Open => self.take_requests(scratch)?,
                State::Last => false,
                State::Lingers => match unless_blocked(stream.receive(scratch))? {
                    None => return Ok(Progress::Wait),
                    Some(0) => return Ok(Progress::Done),
                    Some(_) => continue,
                },
            };
            if let Some(progress) = self.send(stream, scratch, moved)? {
                return Ok(progress);
            }
            if self.state == State::Last {
                stream.shutdown()?;
                self.state = State::Lingers;
                continue;
            }
            if more {
                continue;
            }
            if self.peer_ended {
                return Ok(Progress::Done);
            }
            let room = LONGEST_HEAD.saturating_sub(self.input.len());
            let room = scratch.len().min(room.max(1));
            match unless_blocked(stream.receive(&mut scratch[..room]))? {
                None => return Ok(Progress::Wait),
                Some(0) => self.peer_ended = true,
                Some(count) => {
                    *moved += count as u64;
                    self.arrived(&scratch[..count]);
                }
            }
        }
        Ok(Progress::Again)
    }

    /// Keeps what has arrived, but for the content of a request.
    fn arrived(&mut self, bytes: &[u8]) {
        let skipped = skipped(&mut self.skip, bytes.len());
        self.input.extend_from_slice(&bytes[skipped..]);
    }

    /// Answers the requests that have arrived whole, until a file is to be sent or enough has gathered. Tells whether more may
    /// have arrived.
    fn take_requests(&mut self, scratch: &mut [u8]) -> io::Result<bool> {
        let mut input = std::mem::take(&mut self.input);
        let mut taken = 0;
        let more = loop {
            if self.state != State::Open {
                break false;
            }
            if self.file.is_some() || self.output.len() >= GATHER {
                break true;
            }
            let rest = &input[taken..];
            match request::parse(rest) {
                Ok(None) if rest.len() < LONGEST_HEAD => break false,
                Ok(None) => self.refuse(request::too_long(rest)),
                Err(status) => self.refuse(status),
                Ok(Some((request, head))) => {
                    let answer = answer::answer(&self.root, &request);
                    self.take_answer(answer, &request, scratch)?;
                    taken += head;
                    if let Some(content) = request.content {
                        self.skip = content;
                        taken += skipped(&mut self.skip, input.len() - taken);
                    }
                }
            }
        };
        // Memory is for those that wait, and nothing is read behind the last request.
        if self.state == State::Open && taken < input.len() {
            input.drain(..taken);
            self.input = input;
        }
        Ok(more)
    }

    /// A request that is not understood is the last: nobody knows where the next one begins.
    fn refuse(&mut self, status: Status) {
        Answer::refusal(status).write(&mut self.output, Shape::OF_A_REFUSAL);
        self.state = State::Last;
    }

    fn take_answer(
        &mut self,
        answer: Answer,
        request: &Request<'_>,
        scratch: &mut [u8],
    ) -> io::Result<()> {
        let shape = Shape {
            version: request.version,
            closes: request.closes(),
            content: request.method.wants_content(),
        };
        if shape.closes {
            self.state = State::Last;
        }
        answer.write(&mut self.output, shape);
        let Some(mut part) = answer.part.filter(|part| shape.content && part.left > 0) else {
            return Ok(());
        };
        // What fits goes with the head.
        let room = GATHER.saturating_sub(self.output.len()).min(scratch.len());
        if part.left > room as u64 {
            self.file = Some(part);
            return Ok(());
        }
        while part.left > 0 {
            let count = part.read(scratch)?;
            self.output.extend_from_slice(&scratch[..count]);
            part.advance(count);
        }
        Ok(())
    }

    /// Sends what there is; gives why it has to stop before nothing is left.
    fn send(
        &mut self,
        stream: &mut impl Stream,
        scratch: &mut [u8],
        moved: &mut u64,
    ) -> io::Result<Option<Progress>> {
        while self.sent < self.output.len() {
            match unless_blocked(stream.send(&self.output[self.sent..]))? {
                None => return Ok(Some(Progress::Wait)),
                Some(count) => {
                    *moved += count as u64;
                    self.sent += count;
                }
            }
        }
        self.output = Vec::new();
        self.sent = 0;
        for _ in 0..TURNS {
            let Some(part) = &mut self.file else {
                return Ok(None);
            };
            let read = part.read(scratch)?;
            let Some(count) = unless_blocked(stream.send(&scratch[..read]))? else {
                return Ok(Some(Progress::Wait));
            };
            *moved += count as u64;
            part.advance(count);
            if part.left == 0 {
                self.file = None;
            }
        }
        Ok(self.file.is_some().then_some(Progress::Again))
    }
}

/// Bytes, of those that are there, which are to be skipped; as many fewer are to be skipped then.
fn skipped(skip: &mut u64, there: usize) -> usize {
    let count = usize::try_from(*skip).unwrap_or(usize::MAX).min(there);
    *skip -= count as u64;
    count
}

#[cfg(test)]
mod tests;
