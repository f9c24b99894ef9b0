//! Frames on their way into the kernel: a burst becomes messages, and one system call takes them.
//!
//! A message is a frame, or a train of segments that follow each other. No payload is moved: the parts are gathered by the kernel.

use super::{EMPTY, NO_MESSAGE};
use crate::socket;
use crate::virtio::header;
use crate::virtio::train::{self, Train};
use crate::virtio::unfinished;
use rustix::io::Errno;
use std::os::fd::AsFd;
use tollgate_stack::buffer::{Frame, Pool};

/// Messages of one system call at most.
const MESSAGES: usize = 16;
/// Parts of all of them at most: a header, the headers of a train and its payloads for each.
const PARTS: usize = 2 * MESSAGES + 2 * train::MOST;

/// The way in which frames leave.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Segments leave in trains.
    pub(super) gathers: bool,
    /// Linux, or the interface, completes checksums of TCP.
    pub(super) completes: bool,
}

/// Progress of one system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// Frames that the kernel has taken.
    pub(super) frames: usize,
    /// Trains among them.
    pub(super) trains: usize,
    /// Frames of the message behind them, on which an error bears.
    pub(super) next: usize,
}

/// One message of a call.
struct Message {
    frames: usize,
    /// Headers of a train; a frame alone has its own.
    train: Option<Train>,
    header: [u8; header::LEN],
}

impl Outgoing {
    pub(super) const fn new() -> Self {
        Self {
            gathers: true,
            completes: false,
        }
    }

    /// A message of the first of these frames, and of those that make a train with it within `most` frames.
    #[inline]
    fn message(&self, pool: &mut Pool, (first, rest): (&Frame, &[Frame]), most: usize) -> Message {
        let most = train::MOST.min(most).saturating_sub(1);
        let behind = &rest[..rest.len().min(most)];
        if let Some((mut train, more)) = self.train(pool, first, behind) {
            let header = train.finish();
            return Message {
                frames: 1 + more,
                train: Some(train),
                header,
            };
        }
        let header = if self.completes {
            unfinished::leave(pool.frame_mut(first))
        } else {
            header::COMPLETE
        };
        Message {
            frames: 1,
            train: None,
            header,
        }
    }

    /// A train of the first frame and of as many as join it, one at least.
    #[inline]
    fn train(&self, pool: &Pool, first: &Frame, behind: &[Frame]) -> Option<(Train, usize)> {
        if !self.gathers || behind.is_empty() {
            return None;
        }
        let mut train = Train::begin(pool.frame(first))?;
        let frames = behind.iter().map(|frame| pool.frame(frame));
        let more = frames.take_while(|frame| train.take(frame)).count();
        (more > 0).then_some((train, more))
    }

    /// Gives the kernel as many of these frames as go into one system call, `longest` of them in a train at most.
    pub(super) fn send(
        &self,
        socket: impl AsFd,
        pool: &mut Pool,
        frames: &[Frame],
        longest: usize,
    ) -> (Sent, Result<(), Errno>) {
        let mut messages = [const { None }; MESSAGES];
        let (mut count, mut covered) = (0, 0);
        for place in &mut messages {
            // Every frame is a part, and every message has two more.
            let room = PARTS.saturating_sub(covered + 2 * (count + 1));
            let Some(offered) = frames[covered..].split_first().filter(|_| room > 0) else {
                break;
            };
            let message = self.message(pool, offered, room.min(longest));
            covered += message.frames;
            count += 1;
            *place = Some(message);
        }
        let mut parts = [EMPTY; PARTS];
        let mut headers = [NO_MESSAGE; MESSAGES];
        let parts_at = parts.as_mut_ptr();
        let (mut used, mut at) = (0, 0);
        for (message, to) in messages.iter().flatten().zip(&mut headers) {
            let first = used;
            let mut add = |bytes: &[u8]| {
                parts[used] = libc::iovec {
                    iov_base: bytes.as_ptr().cast_mut().cast(),
                    iov_len: bytes.len(),
                };
                used += 1;
            };
            add(&message.header);
            let own = &frames[at..at + message.frames];
            match &message.train {
                None => own.iter().for_each(|frame| add(pool.frame(frame))),
                Some(train) => {
                    let len = train.headers().len();
                    add(train.headers());
                    own.iter().for_each(|frame| add(&pool.frame(frame)[len..]));
                }
            }
            at += message.frames;
            to.msg_hdr.msg_iov = parts_at.wrapping_add(first);
            to.msg_hdr.msg_iovlen = (used - first) as _;
        }
        // SAFETY: the parts point into the pool and to headers on this stack. All of it outlives the call, which only reads.
        let outcome = unsafe { socket::send_messages(socket, &mut headers[..count]) };
        let taken = *outcome.as_ref().unwrap_or(&0);
        let mut gone = messages.iter().flatten();
        let mut sent = Sent {
            frames: 0,
            trains: 0,
            next: 0,
        };
        for message in gone.by_ref().take(taken) {
            sent.frames += message.frames;
            sent.trains += usize::from(message.train.is_some());
        }
        sent.next = gone.next().map_or(0, |message| message.frames);
        (sent, outcome.map(|_| ()))
    }
}
