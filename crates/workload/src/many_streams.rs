//! Streams of many connections at once into sockets of Linux: from our stack over a tap device, and from Linux over a pair of veth devices.
//!
//! Both ends are threads of this process, each on its own core. The sender is a loop over events, as a server has one: it gives each
//! connection in turn as much as one write takes, and comes back to a connection that takes no more when the stack, or epoll(7), says so.
//! The receiver reads what comes, by epoll(7), and counts it for each connection.
//!
//! It owns both ends and the devices. It must never judge what is fair.

mod linux;
mod stack;

use std::io::{ErrorKind, Read};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::net::sockopt;
use rustix::thread::UnshareFlags;
use tollgate_link::tap::Tap;
use tollgate_run::{PathId, Placement};

use crate::cores::{Cores, Pinned};
use crate::error::Error;
use crate::kernel::Pair;
use crate::spec::Spec;
use crate::stack_host::{DEFAULT_MTU, PORT};
use crate::stack_link::KernelSide;

const PATH: PathId = PathId::StackTap;
/// The name of the device, in its namespace.
const DEVICE: &str = "tollgate0";
/// Bytes that are given to a connection at once.
const WRITE: usize = 64 * 1024;
/// Bytes that the receiver takes of a connection at once.
const READ: usize = 256 * 1024;
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
    /// Sends on all connections from our stack, and gives the bytes that each of the receivers has read in that time. `spec` has the
    /// mechanisms of our stack.
    ///
    /// # Errors
    /// Those of the system; it takes root, or CAP_SYS_ADMIN, and at each end a descriptor for each connection. [`Error::Timeout`] when not all of
    /// them come to be.
    pub fn from_stack(&self, spec: &Spec) -> Result<Vec<u64>, Error> {
        let side = KernelSide::new(PATH, DEVICE)?;
        let tap = side.within(|| {
            Tap::create(DEVICE, DEFAULT_MTU)
                .map_err(|error| Error::stack(PATH, "making a tap device", error))
        })?;
        side.bring_up(DEFAULT_MTU)?;
        let to = SocketAddrV4::new(side.address(), PORT);
        let listener = side.within(|| listen(to))?;
        self.run(&listener, |over| {
            stack::Sender::new(self, tap, spec)?.send(to.into(), over)
        })
    }

    /// Sends on all connections from sockets of Linux, with CUBIC, over a pair of veth devices.
    ///
    /// # Errors
    /// Those of [`from_stack`](Self::from_stack).
    pub fn from_linux(&self) -> Result<Vec<u64>, Error> {
        let between = || {
            let pair = Pair::new()?;
            let to = SocketAddrV4::new(pair.server_address(), PORT);
            let listener = pair.server(|| listen(to))?;
            self.run(&listener, |over| {
                linux::Sender::new(self, &pair, to, over)?.send(over)
            })
        };
        between().map_err(|error| error.on(PathId::KernelVeth))
    }

    /// Sends by `send`, on a core of its own, until the receiver of `listener` has counted.
    fn run(
        &self,
        listener: &TcpListener,
        send: impl FnOnce(&AtomicBool) -> Result<(), Error>,
    ) -> Result<Vec<u64>, Error> {
        let cores = Cores::choose(Placement::TwoCores)?;
        tollgate_link::host::raise_descriptor_limit();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let _pinned = pinned(cores.server)?;
                let outcome = own_descriptors().and_then(|()| self.receive(listener, &over));
                over.store(true, Ordering::Relaxed);
                outcome
            });
            let sent = pinned(cores.client).and_then(|_pinned| send(&over));
            over.store(true, Ordering::Relaxed);
            let received = receiver.join().unwrap_or_else(|_| {
                Err(Error::Peer {
                    path: PATH,
                    reason: "its thread has panicked".to_owned(),
                })
            });
            // Without a sender nothing arrives, so its reason comes first.
            sent.and(received)
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
            let patience = nap(if counts_from.is_none() {
                Duration::from_millis(1)
            } else {
                NAP
            });
            let room = rustix::buffer::spare_capacity(&mut ready);
            epoll::wait(&poll, room, Some(&patience))
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

/// A duration of less than a second, as the system takes it.
fn nap(duration: Duration) -> rustix::time::Timespec {
    rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

fn pinned(cpu: usize) -> Result<Pinned, Error> {
    Pinned::to(cpu).map_err(|error| Error::system(PATH, "pinning a thread", error))
}

/// Gives the calling thread descriptors of its own from here on, besides those that there are: both ends together would need more
/// than one table may hold on many systems.
#[expect(unsafe_code)]
fn own_descriptors() -> Result<(), Error> {
    // SAFETY: the thread uses no descriptor that another makes from here on, and what it makes stays in it and ends with it.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FILES) }
        .map_err(|error| Error::system(PATH, "making a table of descriptors", error))
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
        let ours = || streams.from_stack(&Spec::new(Workload::Stream, 1));
        let linux = || streams.from_linux();
        for run in [&ours as &dyn Fn() -> Result<Vec<u64>, Error>, &linux] {
            match run() {
                Ok(bytes) => {
                    assert_eq!(bytes.len(), 300);
                    assert!(bytes.iter().all(|&bytes| bytes > 0), "{bytes:?}");
                }
                Err(reason @ Error::Cores { .. }) => tollgate_skip::skipped!("{reason}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
