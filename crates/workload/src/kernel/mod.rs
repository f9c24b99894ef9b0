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
mod client;
pub(crate) mod offload;
mod own_loopback;
pub mod per_packet;
pub mod remote;
mod server;
mod server_thread;
mod socket;
mod software_stamps;
#[cfg(test)]
mod tests;
mod uring;
mod veth;
mod zero_copy;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::net::Shutdown;
use tollgate_run::{Mode, PathId, Placement, Waiting, Workload};
use tollgate_stats::{Samples, Timing};

use crate::cores::Cores;
use crate::error::Error;
use crate::link_kind::LinkKind;
use crate::path::{Capabilities, KernelEnds, Path, Session};
use crate::sockets::{Sockets, Transport};
use crate::spec::Spec;

pub use offload::{driver, features};
pub use veth::{KernelVeth, Pair};

pub(crate) use server::Job;
pub(crate) use server_thread::ServerThread;
pub(crate) use socket::{Options, accept, congestion_of, datagrams_with, stream_to};

use client::{ClientEnd, ClientSockets};
use own_loopback::{Cut, OwnLoopback};
use server_thread::{thread_id, thread_name};

const PATH: PathId = PathId::KernelLoopback;

/// Destinations among which `crr` spreads its connections.
const LISTENERS: usize = 16;
/// The place where the ends are.
#[derive(Debug, Clone)]
enum Network {
    /// Both in the process's own namespace, on 127.0.0.1.
    Loopback,
    /// Both in a namespace that has nothing else, on its 127.0.0.1.
    OwnLoopback(Arc<OwnLoopback>),
    /// Each in a namespace of its own.
    Veth(Arc<Pair>),
}

impl Network {
    /// The path whose ends are here.
    const fn path(&self) -> PathId {
        match self {
            Self::Loopback | Self::OwnLoopback(_) => PathId::KernelLoopback,
            Self::Veth(_) => PathId::KernelVeth,
        }
    }

    /// The address of the client.
    fn client_address(&self) -> Ipv4Addr {
        match self {
            Self::Loopback | Self::OwnLoopback(_) => Ipv4Addr::LOCALHOST,
            Self::Veth(pair) => pair.client_address(),
        }
    }

    /// The address that the server listens on.
    fn server_address(&self) -> Ipv4Addr {
        match self {
            Self::Loopback | Self::OwnLoopback(_) => Ipv4Addr::LOCALHOST,
            Self::Veth(pair) => pair.server_address(),
        }
    }

    /// Makes a socket where the client is.
    fn client<T: Send>(&self, make: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        match self {
            Self::Loopback => make(),
            Self::OwnLoopback(own) => own.within(make),
            Self::Veth(pair) => pair.client(make),
        }
    }

    /// Makes a socket where the server is.
    fn server<T: Send>(&self, make: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        match self {
            Self::Loopback => make(),
            Self::OwnLoopback(own) => own.within(make),
            Self::Veth(pair) => pair.server(make),
        }
    }
}

/// The path `kernel-loopback`.
#[derive(Debug, Clone, Copy)]
pub struct KernelLoopback {
    mtu: Option<usize>,
}

impl KernelLoopback {
    /// The path over the machine's loopback, as that is.
    pub const DEFAULT: Self = Self { mtu: None };

    /// The path over a loopback with this MTU in a network namespace of its own (it takes root); the machine's stays as it is.
    pub const fn with_mtu(mtu: usize) -> Self {
        Self { mtu: Some(mtu) }
    }

    fn place(self) -> Result<Network, Error> {
        Ok(match self.mtu {
            None => Network::Loopback,
            Some(mtu) => Network::OwnLoopback(Arc::new(OwnLoopback::make(mtu, Cut::Default)?)),
        })
    }
}

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
            links: &[LinkKind::Ethernet],
        }
    }

    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error> {
        self.capabilities().check(PATH, spec)?;
        if self.mtu.is_some() && spec.workload == Workload::Crr {
            // Its new sockets would belong to the namespace of the thread that runs the session.
            return Err(Error::Unsupported {
                path: PATH,
                asked: "crr over a loopback of its own".to_owned(),
                has: "rr and stream there".to_owned(),
            });
        }
        if spec.workload == Workload::Stream && spec.sockets != Sockets::PLAIN {
            return Ok(Box::new(bulk::BulkSession::open(spec, &self.place()?)?));
        }
        Ok(Box::new(KernelSession::open(spec, self.place()?)?))
    }
}

/// The congestion control of datagrams, in words.
pub(crate) const NO_CONGESTION: &str = "none (udp)";

struct KernelSession {
    place: Network,
    cores: Cores,
    congestion: String,
    client: ClientEnd,
    server: ServerThread,
    /// The timed end's thread.
    thread: u32,
    server_ports: Vec<u16>,
    failed: bool,
}

impl KernelSession {
    fn open(spec: &Spec, place: Network) -> Result<Self, Error> {
        let cores = Cores::choose(spec.placement)?;
        let options = Options::of(spec);
        let mut wakes = None;
        let (client, job, listeners, server_ports, congestion) = match spec.workload {
            Workload::Rr if spec.sockets.transport.is_datagram() => {
                let connected = spec.sockets.transport == Transport::Udp;
                let (client, server) = socket::datagram_pair(&options, &place, connected)?;
                // It does not learn from the client that the session is over.
                wakes = Some(server.again()?);
                (
                    ClientSockets::Connection(client),
                    Job::Connection(server),
                    Vec::new(),
                    // The gates know TCP.
                    Vec::new(),
                    NO_CONGESTION.to_owned(),
                )
            }
            Workload::Rr | Workload::Stream => {
                let (client, server, port) = socket::pair(&options, &place)?;
                let congestion = client.congestion()?;
                (
                    ClientSockets::Connection(client),
                    Job::Connection(server),
                    Vec::new(),
                    vec![port],
                    congestion,
                )
            }
            Workload::Crr => {
                let (listeners, addresses) = place.server(|| {
                    listen_for(spec.workload, &options, place.server_address().into())
                })?;
                let congestion = congestion_of(&listeners[0])?;
                let ports = addresses.iter().map(SocketAddr::port).collect();
                (
                    ClientSockets::Destinations(addresses),
                    Job::Listeners,
                    listeners,
                    ports,
                    congestion,
                )
            }
        };
        let server = ServerThread::start(
            place.path(),
            spec,
            options,
            cores.server,
            job,
            listeners,
            wakes,
        )?;
        let client = ClientEnd::new(
            spec,
            KernelLoopback::DEFAULT.capabilities().timing(spec),
            cores.client,
            options,
            client,
            Arc::clone(server.control()),
            Arc::clone(server.stamps()),
        );
        Ok(Self {
            place,
            cores,
            congestion,
            client,
            server,
            thread: thread_id(),
            server_ports,
            failed: false,
        })
    }

    fn slice(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        self.client.slice(iterations, samples, &mut self.server)
    }
}

/// The listeners that a workload's server has, on free ports of the address.
pub(crate) fn listen_for(
    workload: Workload,
    options: &Options,
    address: IpAddr,
) -> Result<(Vec<OwnedFd>, Vec<SocketAddr>), Error> {
    let count = match workload {
        Workload::Rr | Workload::Stream => 1,
        Workload::Crr => LISTENERS,
    };
    let mut listeners = Vec::with_capacity(count);
    let mut addresses = Vec::with_capacity(count);
    for _ in 0..count {
        let (listener, address) = socket::listen(options, address)?;
        listeners.push(listener);
        addresses.push(address);
    }
    Ok((listeners, addresses))
}

impl Session for KernelSession {
    fn run(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Poisoned { path: PATH });
        }
        samples.check_timing(self.client.timing())?;
        let outcome = match (&self.place, self.client.client()) {
            // New sockets are made all along, and they belong to the namespace of the thread that makes them.
            (Network::Veth(pair), ClientSockets::Destinations(_)) => {
                let pair = Arc::clone(pair);
                pair.enter_client()
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
        match (outcome, self.server.control().failure()) {
            (Err(_), Some(reason)) => Err(Error::Peer { path: PATH, reason }),
            (outcome, _) => outcome,
        }
    }

    fn timing(&self) -> Timing {
        self.client.timing()
    }

    fn kernel_ends(&self) -> Option<KernelEnds<'_>> {
        Some(KernelEnds {
            client: self.thread,
            server: self.server.id(),
            server_ports: self.server_ports.clone(),
            namespaces: match &self.place {
                Network::OwnLoopback(own) => vec![own.namespace()],
                Network::Loopback | Network::Veth(_) => Vec::new(),
            },
            stamps: self.client.stamps(),
        })
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![
            ("congestion", self.congestion.clone()),
            self.client.spec.nagle_setting(),
            ("cores", self.cores.describe()),
            ("ends", "two threads".to_owned()),
        ];
        if let Network::OwnLoopback(own) = &self.place {
            settings.push((
                "device",
                format!(
                    "a loopback in a network namespace of its own, MTU {}",
                    own.mtu()
                ),
            ));
        }
        if let ClientSockets::Destinations(addresses) = self.client.client() {
            settings.push(("destinations", addresses.len().to_string()));
        }
        settings
    }
}

impl Drop for KernelSession {
    fn drop(&mut self) {
        self.server.control().quit();
        // The other end may sleep in recv; it returns when this end is shut down. A socket that is no longer connected refuses,
        // and then nobody sleeps on it.
        if let ClientSockets::Connection(end) = self.client.client() {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}
