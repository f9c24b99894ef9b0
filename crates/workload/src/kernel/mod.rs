//! `kernel-loopback`: Linux TCP over 127.0.0.1.
//!
//! The two ends are two threads of this process, which share nothing but the sockets and the words that start and stop a
//! slice: the timed end runs on the thread that calls [`Session::run`], the other on a thread of its own. To TCP and to the
//! scheduler two threads with their own sockets are what two processes are, but for the address space switch when both are
//! on one core, which a pair of processes would pay on top.
//!
//! Settings: TCP_NODELAY on both ends unless the spec wants Nagle, TCP_CONGESTION `cubic` where the kernel lets us and what
//! it has otherwise (the settings of the session say which), socket buffers as the kernel tunes them.
//!
//! Waiting: a blocking end sleeps in recv(2); a busy-polling end calls recv(2) with MSG_DONTWAIT again and again. Two
//! threads on one core cannot busy poll: each would burn the other's time until the scheduler takes it away.
//!
//! `crr`: the client connects, sends, reads the response, shuts down its sending side, reads the server's FIN and closes;
//! the server closes when it has read the client's FIN. So an iteration has a defined end, no connection is reset, and it
//! is the client that is left in TIME-WAIT, as in life. A port in TIME-WAIT cannot serve the same four-tuple for a minute
//! (RFC 9293, section 3.6.1), and at tens of thousands of connections a second the 28,232 ephemeral ports to one destination
//! would be gone in a second or two. Therefore the server listens on 16 ports and both ends move on to the next after every
//! 1,024 connections. Linux keeps at most `tcp_max_tw_buckets` connections in TIME-WAIT (at most 262,144 by default) and
//! drops the state of later ones at once, so no destination ever holds more than 16,384 of them. SO_LINGER with a zero
//! time would free the ports too, but by a reset, which is another protocol exchange than the one to be measured.
//! A connection of `crr` costs two option calls (TCP_NODELAY, TCP_CONGESTION) on top of socket, connect, send, recv,
//! shutdown, recv and close; the accepted side inherits its options from the listener.
//!
//! Nothing hangs: blocking calls have timeouts (the client of `crr` relies on the server's, which closes the connection),
//! polling loops look at a deadline. Dropping a session wakes its thread, joins it and closes every socket.

mod bulk;
mod offload;
mod own_loopback;
mod server;
mod socket;
mod software_stamps;
#[cfg(test)]
mod tests;
pub mod trains;
mod veth;
mod zero_copy;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use rustix::net::Shutdown;

use crate::cores::{Cores, Pinned};
use crate::error::Error;
use crate::path::{Capabilities, KernelEnds, Mode, Path, PathId, Session};
use crate::payload::{check, fill, request_seed, response_seed};
use crate::samples::{Laps, Samples, Timing};
use crate::slice::Control;
use crate::sockets::{Sockets, Transport};
use crate::spec::{Placement, Spec, Waiting, Workload};
use crate::stamps::{Stamper, Stamps};

pub use veth::KernelVeth;

use server::{Job, serve};
use socket::{End, Options};

const PATH: PathId = PathId::KernelLoopback;

/// Destinations among which `crr` spreads its connections.
const LISTENERS: usize = 16;
/// Connections before `crr` moves on to the next destination.
const CONNECTIONS_EACH: u64 = 1024;

/// Which of the listeners the connection with this number goes to.
fn destination(connection: u64) -> usize {
    (connection / CONNECTIONS_EACH) as usize % LISTENERS
}

/// Where the ends are.
#[derive(Debug, Clone)]
enum Place {
    /// Both in the process's own namespace, on 127.0.0.1.
    Loopback,
    /// Each in a namespace of its own.
    Veth(Arc<veth::Pair>),
}

impl Place {
    /// The address of the near end.
    fn near_address(&self) -> Ipv4Addr {
        match self {
            Self::Loopback => Ipv4Addr::LOCALHOST,
            Self::Veth(pair) => pair.near_address(),
        }
    }

    /// The address that the far end listens on.
    fn far_address(&self) -> Ipv4Addr {
        match self {
            Self::Loopback => Ipv4Addr::LOCALHOST,
            Self::Veth(pair) => pair.far_address(),
        }
    }

    /// Makes a socket where the near end is.
    fn near<T: Send>(&self, make: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        match self {
            Self::Loopback => make(),
            Self::Veth(pair) => pair.near(make),
        }
    }

    /// Makes a socket where the far end is.
    fn far<T: Send>(&self, make: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        match self {
            Self::Loopback => make(),
            Self::Veth(pair) => pair.far(make),
        }
    }
}

/// The path `kernel-loopback`.
#[derive(Debug, Clone, Copy)]
pub struct KernelLoopback;

impl Path for KernelLoopback {
    fn id(&self) -> PathId {
        PATH
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            workloads: Workload::ALL,
            modes: &[
                Mode {
                    placement: Placement::TwoCores,
                    waiting: Waiting::Blocking,
                },
                Mode {
                    placement: Placement::TwoCores,
                    waiting: Waiting::BusyPoll,
                },
                Mode {
                    placement: Placement::OneCore,
                    waiting: Waiting::Blocking,
                },
            ],
            round_trip_timing: Timing::Each,
            stream_timing: Timing::Batch(16),
        }
    }

    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error> {
        self.capabilities().check(PATH, spec)?;
        if spec.workload == Workload::Stream && spec.sockets != Sockets::PLAIN {
            return Ok(Box::new(bulk::BulkSession::open(spec, &Place::Loopback)?));
        }
        Ok(Box::new(KernelSession::open(spec, Place::Loopback)?))
    }
}

struct KernelSession {
    spec: Spec,
    place: Place,
    timing: Timing,
    cores: Cores,
    options: Options,
    congestion: String,
    control: Arc<Control>,
    near: Near,
    /// The other end's UDP socket, which does not learn from this one that the session is over.
    far: Option<End>,
    listeners: Arc<Vec<OwnedFd>>,
    thread: Option<JoinHandle<()>>,
    /// The ids of the timed end's thread and of the other's.
    threads: (u32, u32),
    far_ports: Vec<u16>,
    stamps: Arc<Stamps>,
    stamper: Stamper,
    out: Vec<u8>,
    inn: Vec<u8>,
    /// Messages (rr, crr) since the session was opened.
    message: u64,
    /// Bytes that have been streamed since the session was opened.
    streamed: u64,
    failed: bool,
}

/// What the timed end talks through.
enum Near {
    /// One connection for the whole session.
    Connection(End),
    /// A connection for each iteration, to these destinations in turn.
    Destinations(Vec<SocketAddrV4>),
}

impl KernelSession {
    fn open(spec: &Spec, place: Place) -> Result<Self, Error> {
        let cores = Cores::choose(spec.placement)?;
        let options = Options {
            nodelay: !spec.nagle.unwrap_or(false),
            waiting: spec.waiting,
            max_segment: None,
        };
        let control = Arc::new(Control::new());
        let mut wakes = None;
        let (near, job, listeners, far_ports, congestion) = match spec.workload {
            Workload::Rr if spec.sockets.transport == Transport::Udp => {
                let (near, far) = socket::datagram_pair(&options, &place)?;
                wakes = Some(far.again()?);
                (
                    Near::Connection(near),
                    Job::Connection(far),
                    Vec::new(),
                    // The gates know TCP.
                    Vec::new(),
                    "none (udp)".to_owned(),
                )
            }
            Workload::Rr | Workload::Stream => {
                let (near, far, port) = socket::pair(&options, &place)?;
                let congestion = near.congestion()?;
                (
                    Near::Connection(near),
                    Job::Connection(far),
                    Vec::new(),
                    vec![port],
                    congestion,
                )
            }
            Workload::Crr => {
                let mut listeners = Vec::with_capacity(LISTENERS);
                let mut addresses = Vec::with_capacity(LISTENERS);
                for _ in 0..LISTENERS {
                    let (listener, address) =
                        place.far(|| socket::listen(&options, place.far_address()))?;
                    listeners.push(listener);
                    addresses.push(address);
                }
                let congestion = socket::congestion_of(&listeners[0])?;
                let ports = addresses.iter().map(SocketAddrV4::port).collect();
                (
                    Near::Destinations(addresses),
                    Job::Listeners,
                    listeners,
                    ports,
                    congestion,
                )
            }
        };
        let listeners = Arc::new(listeners);
        let stamps = Arc::new(Stamps::default());
        let (tell, told) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name(thread_name())
            .spawn({
                let (spec, control, listeners) =
                    (spec.clone(), Arc::clone(&control), Arc::clone(&listeners));
                let stamps = Arc::clone(&stamps);
                move || {
                    // Nobody listens when the session could not be opened after all.
                    let _ = tell.send(thread_id());
                    serve(
                        &spec, options, cores.far, &control, job, &listeners, &stamps,
                    );
                }
            })
            .map_err(|error| Error::system(PATH, "starting a thread", error))?;
        let threads = (thread_id(), told.recv().unwrap_or(0));
        Ok(Self {
            timing: KernelLoopback.capabilities().timing(spec),
            cores,
            options,
            congestion,
            control,
            near,
            far: wakes,
            listeners,
            thread: Some(thread),
            threads,
            far_ports,
            stamps,
            stamper: Stamper::new(false),
            out: vec![0; spec.size],
            inn: vec![0; spec.size],
            message: 0,
            streamed: 0,
            failed: false,
            spec: spec.clone(),
            place,
        })
    }

    fn slice(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        let _pinned = Pinned::to(self.cores.near)
            .map_err(|error| Error::system(PATH, "pinning a thread", error))?;
        let size = self.spec.size as u64;
        let warmup = match self.spec.workload {
            Workload::Rr | Workload::Crr => u64::from(self.spec.warmup),
            Workload::Stream => 0,
        };
        self.stamper.begin(&self.stamps, iterations + warmup);
        if let Near::Connection(end) = &self.near {
            end.begin_stamps(&self.stamper)?;
        }
        self.control.begin(PATH, iterations + warmup, || Ok(()))?;
        for _ in 0..warmup {
            self.round_trip()?;
        }
        let mut laps = Laps::start(self.timing, samples)?;
        match self.spec.workload {
            Workload::Rr | Workload::Crr => {
                for _ in 0..iterations {
                    self.round_trip()?;
                    laps.lap(samples);
                }
                laps.finish(samples, 2 * iterations * size, false);
            }
            Workload::Stream => {
                for _ in 0..iterations {
                    self.write()?;
                    laps.lap(samples);
                }
                laps.flush(samples);
                self.await_acknowledgement()?;
                laps.finish(samples, iterations * size, true);
            }
        }
        if let Near::Connection(end) = &self.near {
            end.end_stamps(&mut self.stamper)?;
        }
        self.stamper.end(&self.stamps);
        self.control.finish(PATH, || Ok(()))
    }

    #[inline]
    fn round_trip(&mut self) -> Result<(), Error> {
        let message = self.message;
        self.message += 1;
        if self.spec.verify {
            fill(&mut self.out, request_seed(message), 0);
        }
        match &self.near {
            Near::Connection(end) => {
                end.send_message(&self.out, &self.control, &mut self.stamper)?;
                end.recv_message(&mut self.inn, &self.control, &mut self.stamper)?;
            }
            Near::Destinations(addresses) => {
                let end = End::connect(&addresses[destination(message)], &self.options)?;
                end.send_message(&self.out, &self.control, &mut self.stamper)?;
                end.recv_message(&mut self.inn, &self.control, &mut self.stamper)?;
                end.shutdown(Shutdown::Write)?;
                end.recv_end(&self.control)?;
            }
        }
        if self.spec.verify {
            check(&self.inn, response_seed(message), 0).map_err(|offset| Error::Corrupt {
                path: PATH,
                what: "response",
                message,
                offset,
            })?;
        }
        Ok(())
    }

    #[inline]
    fn write(&mut self) -> Result<(), Error> {
        if self.spec.verify {
            fill(&mut self.out, STREAM_SEED, self.streamed);
        }
        self.streamed += self.spec.size as u64;
        match &self.near {
            Near::Connection(end) => end.send_all(&self.out, &self.control),
            Near::Destinations(_) => Err(Error::Closed {
                path: PATH,
                doing: "streaming without a connection",
            }),
        }
    }

    /// Waits for the byte by which the reader says that it has read the whole slice.
    fn await_acknowledgement(&mut self) -> Result<(), Error> {
        match &self.near {
            Near::Connection(end) => {
                if !self.options.nodelay {
                    end.push()?;
                }
                end.recv_exact(&mut [0], &self.control)
            }
            Near::Destinations(_) => Err(Error::Closed {
                path: PATH,
                doing: "streaming without a connection",
            }),
        }
    }
}

/// The seed of the bytes that are streamed.
const STREAM_SEED: u64 = 0x5eed;

/// A name for the other end's thread that no other session has; Linux shows 15 characters of it.
fn thread_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("tg-peer-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The calling thread's id.
fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

impl Session for KernelSession {
    fn run(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Poisoned { path: PATH });
        }
        samples.check_timing(self.timing)?;
        let outcome = match (&self.place, &self.near) {
            // New sockets are made all along, and they belong to the namespace of the thread that makes them.
            (Place::Veth(pair), Near::Destinations(_)) => {
                let pair = Arc::clone(pair);
                pair.enter_near()
                    .and_then(|()| self.slice(iterations, samples).and(pair.leave()))
                    .inspect_err(|_| {
                        // After a failure in the middle; that of leaving itself is told already.
                        let _ = pair.leave();
                    })
            }
            _ => self.slice(iterations, samples),
        };
        self.failed = outcome.is_err();
        // When the other end has failed, its reason says more than the closed connection on this side.
        match (outcome, self.control.failure()) {
            (Err(_), Some(reason)) => Err(Error::Peer { path: PATH, reason }),
            (outcome, _) => outcome,
        }
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn kernel_ends(&self) -> Option<KernelEnds<'_>> {
        Some(KernelEnds {
            near: self.threads.0,
            far: self.threads.1,
            far_ports: self.far_ports.clone(),
            namespaces: Vec::new(),
            stamps: &self.stamps,
        })
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![
            ("congestion", self.congestion.clone()),
            (
                "nagle",
                if self.options.nodelay { "off" } else { "on" }.to_owned(),
            ),
            ("cores", self.cores.describe()),
            ("ends", "two threads".to_owned()),
        ];
        if let Near::Destinations(addresses) = &self.near {
            settings.push(("destinations", addresses.len().to_string()));
        }
        settings
    }
}

impl Drop for KernelSession {
    fn drop(&mut self) {
        self.control.quit();
        // The other end may sleep in recv or accept; both return when their socket is shut down. A socket that is no
        // longer connected refuses, and then nobody sleeps on it.
        if let Near::Connection(end) = &self.near {
            let _ = end.shutdown(Shutdown::Both);
        }
        if let Some(end) = &self.far {
            let _ = end.shutdown(Shutdown::Both);
        }
        for listener in self.listeners.iter() {
            let _ = rustix::net::shutdown(listener, Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}
