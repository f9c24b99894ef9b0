//! Streams of many connections at once, from our stack over a tap device into sockets of Linux.
//!
//! Both ends are threads of this process, each on its own core. The sender is a loop over the stack's events, as a server has one: it
//! gives each connection in turn as much as one write takes, and comes back to a connection that takes no more when the stack says so.
//! The receiver reads what comes, by epoll(7), and counts it for each connection.
//!
//! It owns both ends and the device. It must never judge what is fair.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::net::sockopt;
use tollgate_link::Waitable as _;
use tollgate_link::tap::Tap;
use tollgate_run::{PathId, Placement};
use tollgate_stack::{ConnId, Error as Refusal, Event, Instant as Present, Pool, Stack};

use crate::clock::now_ns;
use crate::cores::{Cores, Pinned};
use crate::error::Error;
use crate::spec::Spec;
use crate::stack_host::{self, CLIENT, DEFAULT_MTU, PORT};
use crate::stack_link::KernelSide;

const PATH: PathId = PathId::StackTap;
/// The name of the device, in its namespace.
const DEVICE: &str = "tollgate0";
/// Frames of the pool: six for each of ten thousand connections, which is 128 MB.
const FRAMES: usize = 64 * 1024;
/// Bytes that are given to a connection at once.
const WRITE: usize = 64 * 1024;
/// Bytes that the receiver takes of a connection at once.
const READ: usize = 256 * 1024;
/// Writes after which the device is asked for frames.
const WRITES: usize = 4;
/// Connections that are opened at once: fewer than may wait to be accepted.
const OPENING: usize = 64;
/// Connections that may wait to be accepted (net.core.somaxconn is 4,096).
const BACKLOG: i32 = 4096;
/// The longest sleep before somebody looks whether it is over.
const NAP: Duration = Duration::from_millis(20);
/// Time in which the connections must be open.
const PATIENCE: Duration = Duration::from_secs(60);
/// Readers that have something, told at once.
const EVENTS: usize = 512;

/// Streams at the same time, and how long their bytes are counted.
#[derive(Debug, Clone, Copy)]
pub struct ManyStreams {
    /// Connections: at most as many as there are dynamic ports, 16,384 (RFC 6335, 6).
    pub connections: usize,
    /// Time before that, in which windows grow.
    pub warm_up: Duration,
    /// Duration of the count.
    pub lasts: Duration,
}

impl ManyStreams {
    /// Sends on all connections, and gives the bytes that each of the receivers has read in that time. `spec` has the mechanisms of our
    /// stack.
    ///
    /// # Errors
    /// Those of the system; it takes root, or CAP_SYS_ADMIN, and a descriptor for each connection. [`Error::Timeout`] when not all of
    /// them come to be.
    pub fn run(&self, spec: &Spec) -> Result<Vec<u64>, Error> {
        let cores = Cores::choose(Placement::TwoCores)?;
        tollgate_link::host::raise_descriptor_limit();
        let side = KernelSide::new(PATH, DEVICE)?;
        let tap = side.within(|| {
            Tap::create(DEVICE, DEFAULT_MTU)
                .map_err(|error| Error::stack(PATH, "making a tap device", error))
        })?;
        side.bring_up(DEFAULT_MTU)?;
        let to = SocketAddrV4::new(side.address(), PORT);
        let listener = side.within(|| listen(to))?;
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let _pinned = pinned(cores.server)?;
                let outcome = self.receive(&listener, &over);
                over.store(true, Ordering::Relaxed);
                outcome
            });
            let sender = pinned(cores.client)
                .and_then(|_pinned| Sender::new(self, tap, spec)?.send(to.into(), &over));
            over.store(true, Ordering::Relaxed);
            let received = receiver.join().unwrap_or_else(|_| {
                Err(Error::Peer {
                    path: PATH,
                    reason: "its thread has panicked".to_owned(),
                })
            });
            // Without a sender nothing arrives, so its reason comes first.
            sender.and(received)
        })
    }

    /// Accepts all connections, reads what comes, and counts it once windows have grown.
    fn receive(&self, listener: &TcpListener, over: &AtomicBool) -> Result<Vec<u64>, Error> {
        let fail = |doing| move |error: std::io::Error| Error::system(PATH, doing, error);
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| Error::system(PATH, "making an epoll instance", error))?;
        let mut readers: Vec<TcpStream> = Vec::with_capacity(self.connections);
        let mut bytes = vec![0_u64; self.connections];
        let mut buffer = vec![0; READ];
        let mut ready = Vec::with_capacity(EVENTS);
        let begun = Instant::now();
        let mut counts_from = None;
        loop {
            while readers.len() < self.connections {
                match listener.accept() {
                    Ok((reader, _)) => {
                        reader.set_nonblocking(true).map_err(fail("accepting"))?;
                        let place = epoll::EventData::new_u64(readers.len() as u64);
                        epoll::add(&poll, &reader, place, epoll::EventFlags::IN)
                            .map_err(|error| Error::system(PATH, "watching a socket", error))?;
                        readers.push(reader);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(fail("accepting")(error)),
                }
            }
            let now = Instant::now();
            match counts_from {
                None if readers.len() == self.connections => {
                    counts_from = Some((now + self.warm_up, false));
                }
                None if now - begun > PATIENCE => return Err(late()),
                Some((from, false)) if now >= from => {
                    bytes.fill(0);
                    counts_from = Some((now, true));
                }
                Some((from, true)) if now >= from + self.lasts => break,
                _ => {}
            }
            if over.load(Ordering::Relaxed) {
                // The sender says why.
                return Err(closed());
            }
            ready.clear();
            let nap = if counts_from.is_none() {
                Duration::from_millis(1)
            } else {
                NAP
            };
            let nap = rustix::time::Timespec {
                tv_sec: 0,
                tv_nsec: i64::from(nap.subsec_nanos()),
            };
            epoll::wait(
                &poll,
                rustix::buffer::spare_capacity(&mut ready),
                Some(&nap),
            )
            .map_err(|error| Error::system(PATH, "waiting for bytes", error))?;
            for event in &ready {
                let place = event.data.u64() as usize;
                match readers[place].read(&mut buffer) {
                    Ok(0) => return Err(closed()),
                    Ok(len) => bytes[place] += len as u64,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(fail("receiving")(error)),
                }
            }
        }
        over.store(true, Ordering::Relaxed);
        // Resets: nothing is left behind that would keep the namespace.
        for reader in &readers {
            let _ = sockopt::set_socket_linger(reader, Some(Duration::ZERO));
        }
        Ok(bytes)
    }
}

#[cold]
fn late() -> Error {
    Error::Timeout {
        path: PATH,
        doing: "opening the connections",
        seconds: PATIENCE.as_secs(),
    }
}

#[cold]
fn closed() -> Error {
    Error::Closed {
        path: PATH,
        doing: "receiving",
    }
}

fn pinned(cpu: usize) -> Result<Pinned, Error> {
    Pinned::to(cpu).map_err(|error| Error::system(PATH, "pinning a thread", error))
}

/// A listener in the calling thread's namespace that many may wait at.
fn listen(at: SocketAddrV4) -> Result<TcpListener, Error> {
    let fail = |error: std::io::Error| Error::system(PATH, "listening", error);
    let listener = TcpListener::bind(at).map_err(fail)?;
    listener.set_nonblocking(true).map_err(fail)?;
    // Once more, since the standard library asks for 128.
    rustix::net::listen(&listener, BACKLOG).map_err(|error| fail(error.into()))?;
    Ok(listener)
}

/// Our stack with its connections.
struct Sender {
    stack: Stack,
    pool: Pool,
    link: Tap,
    conns: Vec<ConnId>,
    connections: usize,
    /// Connections that may take bytes, by their place.
    writable: VecDeque<usize>,
    /// Tells of each connection whether it is among those.
    waits: Vec<bool>,
}

impl Sender {
    fn new(streams: &ManyStreams, mut link: Tap, spec: &Spec) -> Result<Self, Error> {
        let now = Present::from_nanos(now_ns());
        Ok(Self {
            stack: stack_host::stack_for(PATH, spec, CLIENT, &mut link, now, streams.connections)?,
            pool: Pool::new(FRAMES, Pool::frame_size_for(DEFAULT_MTU)),
            link,
            conns: Vec::with_capacity(streams.connections),
            connections: streams.connections,
            writable: VecDeque::with_capacity(streams.connections),
            waits: vec![false; streams.connections],
        })
    }

    /// Opens the connections and sends on all of them until it is over.
    fn send(mut self, to: SocketAddr, over: &AtomicBool) -> Result<(), Error> {
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
            open += self.turn(true);
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
            self.turn(self.writable.is_empty());
        }
        Ok(())
    }

    /// Takes what has come, after a wait for it where nothing else is to be done; gives how many connections came to be open.
    fn turn(&mut self, idle: bool) -> usize {
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
        if idle && opened == 0 && self.writable.is_empty() {
            let due = self.stack.next_deadline(now);
            let due = due.map_or(NAP, |due| Duration::from_nanos(due.nanos_since(now)));
            self.link.wait(due.min(NAP));
        }
        opened
    }
}

#[cfg(test)]
mod tests {
    use tollgate_run::Workload;

    use super::*;

    #[test]
    fn every_connection_gets_its_part() {
        if let Err(error) = crate::namespace::make(PATH) {
            tollgate_skip::skipped!("no network namespace can be made (root): {error}");
        }
        let streams = ManyStreams {
            connections: 300,
            warm_up: Duration::from_millis(200),
            lasts: Duration::from_millis(500),
        };
        match streams.run(&Spec::new(Workload::Stream, 1)) {
            Ok(bytes) => {
                assert_eq!(bytes.len(), 300);
                assert!(bytes.iter().all(|&bytes| bytes > 0), "{bytes:?}");
            }
            Err(reason @ Error::Cores { .. }) => tollgate_skip::skipped!("{reason}"),
            Err(error) => panic!("{error}"),
        }
    }
}
