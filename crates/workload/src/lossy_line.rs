//! Transfers over a line with faults into a socket of Linux, from our stack or from another socket of Linux.
//!
//! Both senders meet the same wrapper ([`Faulty`]) in front of a tap device of the receiver, with the same faults and the same seed. For
//! Linux as the sender a thread of this process carries frames between that wrapper and a tap device of the sender's own. No
//! device offloads anything: each frame is one segment, so a fault meets the same bytes whoever sends them.
//!
//! It owns both ends and the line, and counts what arrives. It must never judge which of the two is better.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpListener};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
pub use tollgate_link::fault::{Faults, Probability, Rate, Stats};
use tollgate_link::faulty::Faulty;
use tollgate_link::tap::{Offloads, Tap};
use tollgate_link::{WaitMode, WaitableBeside, Waiter, host};
use tollgate_run::PathId;
use tollgate_stack::buffer::Frame;
use tollgate_stack::config::Segmentation;
use tollgate_stack::{Error as Refusal, Instant as Present, Link, Pool, State};

use crate::clock::now_ns;
use crate::error::Error;
use crate::kernel::stream_to;
use crate::namespace;
use crate::spec::Spec;
use crate::stack_host::{self, CLIENT, DEFAULT_MTU, PORT, PREFIX};
use crate::stack_link::KernelSide;

const PATH: PathId = PathId::StackTap;
/// The name of each device, in its namespace.
const DEVICE: &str = "tollgate0";
/// Frames of a pool: those that the line holds, both ways, and those that a sender keeps.
const FRAMES: usize = 8192;
/// Bytes that a sender gives at once.
const WRITE: usize = 64 * 1024;
/// The longest sleep before somebody looks whether the transfer is over.
const NAP: Duration = Duration::from_millis(20);
/// Time in which a connection must be open.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sender of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// Our stack.
    Stack,
    /// A socket of Linux, with CUBIC.
    Linux,
}

/// A line, and how long something is sent over it.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    /// Faults of both directions.
    pub faults: Faults,
    /// Number that the faults follow from.
    pub seed: u64,
    /// Duration from the moment when the connection is accepted.
    pub lasts: Duration,
}

/// Outcome of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transferred {
    /// Bytes that the receiver has read in that time.
    pub bytes: u64,
    /// Frames of the way from the sender.
    pub forth: Stats,
    /// Frames of the way back.
    pub back: Stats,
}

impl Line {
    /// Sends as much as goes for its time. `spec` has the mechanisms of our stack.
    ///
    /// # Errors
    /// Those of the system; it takes root, or CAP_SYS_ADMIN. [`Error::Timeout`] when no connection comes to be.
    pub fn transfer(&self, sender: Sender, spec: &Spec) -> Result<Transferred, Error> {
        let side = KernelSide::new(PATH, DEVICE)?;
        let tap = side.within(device)?;
        side.bring_up(DEFAULT_MTU)?;
        let to = SocketAddrV4::new(side.address(), PORT);
        let listener = side.within(|| {
            TcpListener::bind(to).map_err(|error| Error::system(PATH, "listening", error))
        })?;
        let mut line = Faulty::new(tap, self.faults, self.seed);
        line.set_segmentation(Segmentation::PerPacket);
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let receiver = scope.spawn(|| receive(&listener, self.lasts, &over));
            let sent = match sender {
                Sender::Stack => from_stack(line, spec, to, &over),
                Sender::Linux => from_linux(line, to, &over),
            };
            over.store(true, Ordering::Relaxed);
            let received = receiver.join().unwrap_or_else(|_| Err(panicked()));
            // Without a sender nothing arrives, so its reason comes first.
            let [back, forth] = sent?;
            Ok(Transferred {
                bytes: received?,
                forth,
                back,
            })
        })
    }
}

#[cold]
fn panicked() -> Error {
    Error::Peer {
        path: PATH,
        reason: "its thread has panicked".to_owned(),
    }
}

#[cold]
fn late(doing: &'static str) -> Error {
    Error::Timeout {
        path: PATH,
        doing,
        seconds: PATIENCE.as_secs(),
    }
}

/// A tap device in the calling thread's namespace that offloads nothing.
fn device() -> Result<Tap, Error> {
    let fail = |error| Error::stack(PATH, "making a tap device", error);
    let mut tap = Tap::create(DEVICE, DEFAULT_MTU).map_err(fail)?;
    tap.set_offloads(Offloads::Nothing).map_err(fail)?;
    tap.set_segmentation(Segmentation::PerPacket);
    Ok(tap)
}

fn pool() -> Pool {
    Pool::new(FRAMES, Pool::frame_size_for(DEFAULT_MTU))
}

/// Takes what arrives on the first connection for its time, and counts it. `over` ends it early, and is set at the end.
fn receive(listener: &TcpListener, lasts: Duration, over: &AtomicBool) -> Result<u64, Error> {
    let fail = |doing| move |error| Error::system(PATH, doing, error);
    listener.set_nonblocking(true).map_err(fail("listening"))?;
    let begun = Instant::now();
    let mut conn = loop {
        match listener.accept() {
            Ok((conn, _)) => break conn,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(fail("accepting")(error)),
        }
        if over.load(Ordering::Relaxed) || begun.elapsed() > PATIENCE {
            return Err(late("waiting for a connection"));
        }
        thread::sleep(Duration::from_millis(1));
    };
    let end = Instant::now() + lasts;
    conn.set_nonblocking(false)
        .and_then(|()| conn.set_read_timeout(Some(NAP)))
        .map_err(fail("setting up a socket"))?;
    let mut buffer = vec![0; 4 * WRITE];
    let mut bytes = 0;
    while Instant::now() < end && !over.load(Ordering::Relaxed) {
        match conn.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => bytes += len as u64,
            Err(error) if is_empty_handed(error.kind()) => {}
            Err(error) => return Err(fail("receiving")(error)),
        }
    }
    over.store(true, Ordering::Relaxed);
    // A reset: nothing is left behind that would keep the namespace.
    let _ = sockopt::set_socket_linger(&conn, Some(Duration::ZERO));
    Ok(bytes)
}

/// Tells whether a call with a timeout has found nothing to do.
fn is_empty_handed(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

/// Sends by our stack until it is over; gives the counts of what was sent and of what arrived here.
fn from_stack(
    mut line: Faulty<Tap>,
    spec: &Spec,
    to: SocketAddrV4,
    over: &AtomicBool,
) -> Result<[Stats; 2], Error> {
    let fail = |error: Refusal| Error::stack(PATH, "sending", error);
    let mut pool = pool();
    let now = Present::from_nanos(now_ns());
    let mut stack = stack_host::stack(PATH, spec, CLIENT, &mut line, now)?;
    let conn = stack.at(now, &mut pool).connect(to).map_err(fail)?;
    let data = vec![0; WRITE];
    let mut waiter = Waiter::new(WaitMode::Block);
    let begun = Instant::now();
    while !over.load(Ordering::Relaxed) {
        let now = Present::from_nanos(now_ns());
        let mut active = stack.at(now, &mut pool);
        active.poll(&mut line);
        match active.state(conn) {
            State::SynSent if begun.elapsed() > PATIENCE => return Err(late("connecting")),
            State::SynSent => {}
            State::Established => loop {
                match active.send(conn, &data) {
                    Ok(_) => {}
                    Err(Refusal::WouldBlock) => break,
                    Err(error) => return Err(fail(error)),
                }
            },
            // The receiver resets the connection at the end.
            _ if over.load(Ordering::Relaxed) => break,
            _ => {
                return Err(Error::Closed {
                    path: PATH,
                    doing: "sending",
                });
            }
        }
        active.flush(&mut line);
        waiter.sleep(&line, stack.next_deadline(now), now, NAP);
    }
    let stats = line.stats().map(|stats| *stats);
    line.drain(&mut pool);
    Ok(stats)
}

/// Sends by Linux, from a namespace with a device of its own.
fn from_linux(line: Faulty<Tap>, to: SocketAddrV4, over: &AtomicBool) -> Result<[Stats; 2], Error> {
    let namespace = namespace::make(PATH)?;
    let own = namespace::within(PATH, namespace.as_fd(), || {
        let own = device()?;
        host::bring_up(DEVICE, stack_host::address(CLIENT), PREFIX, DEFAULT_MTU)
            .map_err(|error| namespace::set_up(PATH, error))?;
        Ok(own)
    })?;
    thread::scope(|scope| {
        let carrier = scope.spawn(|| carry(line, own, over));
        let sent = namespace::within(PATH, namespace.as_fd(), || write(to, over));
        over.store(true, Ordering::Relaxed);
        let stats = carrier.join().map_err(|_| panicked());
        sent.and(stats)
    })
}

/// Carries frames between the line and the sender's device until it is over.
fn carry(mut line: Faulty<Tap>, mut own: Tap, over: &AtomicBool) -> [Stats; 2] {
    let mut pool = pool();
    let (mut forth, mut back): (Vec<Frame>, Vec<Frame>) = (Vec::new(), Vec::new());
    while !over.load(Ordering::Relaxed) {
        own.receive(&mut pool, &mut forth);
        line.transmit(&mut pool, &mut forth);
        line.receive(&mut pool, &mut back);
        own.transmit(&mut pool, &mut back);
        line.wait_beside(own.as_fd(), NAP);
    }
    let stats = line.stats().map(|stats| *stats);
    line.drain(&mut pool);
    stats
}

/// Connects a socket and writes to it until it is over.
fn write(to: SocketAddrV4, over: &AtomicBool) -> Result<(), Error> {
    let fail = |doing| move |error| Error::system(PATH, doing, error);
    let mut conn = stream_to(to, PATIENCE).map_err(|error| error.on(PATH))?;
    conn.set_write_timeout(Some(NAP))
        .and_then(|()| conn.set_nodelay(true))
        .map_err(fail("setting up a socket"))?;
    let data = vec![0; WRITE];
    while !over.load(Ordering::Relaxed) {
        match conn.write(&data) {
            Ok(_) => {}
            Err(error) if is_empty_handed(error.kind()) => {}
            // The receiver resets the connection at the end.
            Err(_) if over.load(Ordering::Relaxed) => break,
            Err(error) => return Err(fail("sending")(error)),
        }
    }
    let _ = sockopt::set_socket_linger(&conn, Some(Duration::ZERO));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use tollgate_run::Workload;

    use super::*;

    /// A line of 10 Mb/s and a round trip of 20 ms.
    fn line(loss: f64) -> Line {
        Line {
            faults: Faults {
                drop: Probability::new(loss).unwrap(),
                rate: Some(Rate {
                    bits_per_second: NonZeroU64::new(10_000_000).unwrap(),
                    queue: 25_000,
                }),
                delay: Duration::from_millis(10),
                limit: 2048,
                ..Faults::default()
            },
            seed: 1,
            lasts: Duration::from_secs(1),
        }
    }

    #[test]
    fn both_senders_fill_a_line_and_meet_its_faults() {
        if let Err(error) = namespace::make(PATH) {
            tollgate_skip::skipped!("no network namespace can be made (root): {error}");
        }
        let spec = Spec::new(Workload::Stream, 1);
        for sender in [Sender::Stack, Sender::Linux] {
            let whole = line(0.0).transfer(sender, &spec).unwrap();
            // A second of the line is 1.25 MB, less headers and the beginning.
            assert!(whole.bytes < 1_250_000, "{sender:?}: {whole:?}");
            assert!(whole.bytes > 500_000, "{sender:?}: {whole:?}");
            let lost = line(0.1).transfer(sender, &spec).unwrap();
            assert!(lost.forth.dropped > 0, "{sender:?}: {lost:?}");
            assert!(lost.bytes < whole.bytes, "{sender:?}: {lost:?}");
        }
    }
}
