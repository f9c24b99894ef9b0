//! Our stack as the sender of many streams, over a tap device.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tollgate_link::tap::Tap;
use tollgate_link::{WaitMode, Waiter};
use tollgate_stack::{ConnId, Error as Refusal, Event, Instant as Present, Pool, Stack};

use super::{ManyStreams, NAP, OPENING, PATH, PATIENCE, WRITE, late};
use crate::clock::now_ns;
use crate::error::Error;
use crate::spec::Spec;
use crate::stack_host::{self, CLIENT, DEFAULT_MTU};

/// Frames of the pool: six for each of ten thousand connections, which is 128 MB.
const FRAMES: usize = 64 * 1024;
/// Writes after which the device is asked for frames.
const WRITES: usize = 4;

/// Our stack with its connections.
pub(super) struct Sender {
    stack: Stack,
    pool: Pool,
    link: Tap,
    waiter: Waiter,
    conns: Vec<ConnId>,
    connections: usize,
    /// Connections that may take bytes, by their place.
    writable: VecDeque<usize>,
    /// Tells of each connection whether it is among those.
    waits: Vec<bool>,
}

impl Sender {
    pub(super) fn new(streams: &ManyStreams, mut link: Tap, spec: &Spec) -> Result<Self, Error> {
        let now = Present::from_nanos(now_ns());
        Ok(Self {
            stack: stack_host::stack_for(PATH, spec, CLIENT, &mut link, now, streams.connections)?,
            pool: Pool::new(FRAMES, Pool::frame_size_for(DEFAULT_MTU)),
            link,
            waiter: Waiter::new(WaitMode::Block),
            conns: Vec::with_capacity(streams.connections),
            connections: streams.connections,
            writable: VecDeque::with_capacity(streams.connections),
            waits: vec![false; streams.connections],
        })
    }

    /// Opens the connections and sends on all of them until it is over.
    pub(super) fn send(mut self, to: SocketAddr, over: &AtomicBool) -> Result<(), Error> {
        let fail = |error: Refusal| Error::stack(PATH, "opening connections", error);
        let begun = Instant::now();
        let mut open = 0;
        while open < self.connections {
            if begun.elapsed() > PATIENCE {
                return Err(late());
            }
            let now = Present::from_nanos(now_ns());
            let mut active = self.stack.at(now, &mut self.pool);
            while self.conns.len() < self.connections.min(open + OPENING) {
                let conn = active.connect(to).map_err(fail)?;
                active
                    .set_token(conn, self.conns.len() as u64)
                    .map_err(fail)?;
                self.conns.push(conn);
            }
            active.flush(&mut self.link);
            let opened = self.turn();
            if opened == 0 {
                self.rest();
            }
            open += opened;
            if over.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
        let data = vec![0; WRITE];
        while !over.load(Ordering::Relaxed) {
            for _ in 0..WRITES {
                let Some(place) = self.writable.pop_front() else {
                    break;
                };
                let now = Present::from_nanos(now_ns());
                let mut active = self.stack.at(now, &mut self.pool);
                match active.send(self.conns[place], &data) {
                    Ok(len) if len == data.len() => self.writable.push_back(place),
                    // The stack says when it takes more.
                    Ok(_) | Err(Refusal::WouldBlock) => self.waits[place] = false,
                    // The receiver resets the connections at the end.
                    Err(_) if over.load(Ordering::Relaxed) => return Ok(()),
                    Err(error) => return Err(Error::stack(PATH, "sending", error)),
                }
                active.flush(&mut self.link);
            }
            self.turn();
            if self.writable.is_empty() {
                self.rest();
            }
        }
        Ok(())
    }

    /// Takes what has come, and gives how many connections came to be open.
    fn turn(&mut self) -> usize {
        let now = Present::from_nanos(now_ns());
        let mut active = self.stack.at(now, &mut self.pool);
        active.poll(&mut self.link);
        let mut opened = 0;
        while let Some(event) = active.next_event() {
            let Event::Connection { ready, token, .. } = event else {
                continue;
            };
            opened += usize::from(ready.connected());
            let place = token as usize;
            if (ready.writable() || ready.connected() || ready.closed()) && !self.waits[place] {
                self.waits[place] = true;
                self.writable.push_back(place);
            }
        }
        active.flush(&mut self.link);
        opened
    }

    /// Waits until something comes or is due.
    fn rest(&mut self) {
        let now = Present::from_nanos(now_ns());
        let due = self.stack.next_deadline(now);
        self.waiter.sleep(&self.link, due, now, NAP);
    }
}
