//! Responses of several segments over the kernel's paths, measured per packet.
//!
//! Loopback has an MTU of 65,536 bytes, on which a response is one packet, and on any device several segments travel as one skb
//! (GSO). So that a response is packets of Ethernet's size, as in the paper, the device must be told; [`Carrier`] names
//! both ways, which tell apart what segmentation offload does:
//!
//! | | `kernel-loopback` | `kernel-veth` |
//! |---|---|---|
//! | [`Carrier::Packets`] | a loopback of our own, MTU 1500, gso_max_segs 1 | a pair of our own, gso_max_segs 1 at both ends |
//! | [`Carrier::Gso`] | the machine's loopback, TCP_MAXSEG on both sockets | the pair as it is made |
//!
//! GRO runs on neither: loopback has none, and veth's is off unless it is switched on. Namespaces need CAP_SYS_ADMIN.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::net::Shutdown;
use tollgate_run::{Mode, PathId};

use super::own_loopback::{Cut, OwnLoopback};
use super::socket::{self, End, Options};
use super::veth::{Devices, Pair};
use super::{Network, PATH, thread_id, thread_name};
use crate::cores::{self, Cores, KEEPING, Pinned};
use crate::error::Error;
use crate::path::KernelEnds;
use crate::per_packet::{MTU, REQUEST, SEGMENT, ask, asked, check};
use crate::slice::{Control, Server};
use crate::stamps::Stamps;

/// Round trips that a slice makes before those that are timed.
pub const WARM_UP: u32 = 4;

/// Carrier of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// Every segment is a packet.
    Packets,
    /// Several segments travel as one skb.
    Gso,
}

impl Carrier {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Packets => "a packet for each segment",
            Self::Gso => "GSO",
        }
    }
}

/// Network of the ends.
enum Home {
    /// The machine's loopback.
    Loopback,
    /// One of our own.
    OwnLoopback(OwnLoopback),
    /// A pair of veth devices.
    Veth(Arc<Pair>),
}

impl Home {
    fn find(path: PathId, carrier: Carrier) -> Result<Self, Error> {
        Ok(match (path, carrier) {
            (PathId::KernelLoopback, Carrier::Packets) => {
                Self::OwnLoopback(OwnLoopback::make(MTU, Cut::IntoPackets)?)
            }
            (PathId::KernelLoopback, Carrier::Gso) => Self::Loopback,
            (PathId::KernelVeth, Carrier::Packets) => Self::Veth(Arc::new(Pair::of_packets()?)),
            (PathId::KernelVeth, Carrier::Gso) => Self::Veth(Pair::shared(Devices::DEFAULT)?),
            _ => {
                return Err(Error::Unsupported {
                    path,
                    asked: "responses of several packets over the kernel".to_owned(),
                    has: "its own".to_owned(),
                });
            }
        })
    }

    fn pair(&self, mode: Mode) -> Result<(End, End, u16), Error> {
        let mut options = Options {
            nodelay: true,
            waiting: mode.waiting,
            max_segment: None,
        };
        match self {
            Self::Loopback => {
                // What the other end is told counts without TCP's timestamps.
                options.max_segment = Some((SEGMENT + 12) as u32);
                socket::pair(&options, &Network::Loopback)
            }
            Self::OwnLoopback(own) => own.within(|| socket::pair(&options, &Network::Loopback)),
            Self::Veth(pair) => socket::pair(&options, &Network::Veth(Arc::clone(pair))),
        }
    }

    fn namespaces(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Self::Loopback => Vec::new(),
            Self::OwnLoopback(own) => vec![own.namespace()],
            Self::Veth(pair) => pair.namespaces(),
        }
    }

    /// Refuses when its devices are there no more.
    fn present(&self) -> Result<(), Error> {
        match self {
            Self::Loopback | Self::OwnLoopback(_) => Ok(()),
            Self::Veth(pair) => pair.present(),
        }
    }

    /// The reason behind a failure.
    fn explain(&self, error: Error) -> Error {
        self.present().err().unwrap_or(error)
    }

    const fn describe(&self, carrier: Carrier) -> &'static str {
        match (self, carrier) {
            (Self::Loopback, _) => {
                "the machine's loopback, MTU 65536, TCP_MAXSEG 1460, segments of 1448 bytes together in one skb of up to 64 KiB \
                 (GSO), never taken apart; no GRO"
            }
            (Self::OwnLoopback(_), _) => {
                "a loopback in a network namespace of its own, MTU 1500, every segment a packet (gso_max_segs 1); no GRO"
            }
            (Self::Veth(_), Carrier::Packets) => {
                "a veth pair between two network namespaces, MTU 1500, every segment a packet (gso_max_segs 1); GRO off"
            }
            (Self::Veth(_), Carrier::Gso) => {
                "a veth pair between two network namespaces, MTU 1500, segments of 1448 bytes together in one skb of up to 64 KiB \
                 (GSO), never taken apart; GRO off"
            }
        }
    }
}

/// Two ends on a path of the kernel.
pub struct KernelPacketSession {
    path: PathId,
    carrier: Carrier,
    cores: Cores,
    control: Arc<Control>,
    client: End,
    thread: Option<JoinHandle<()>>,
    threads: (u32, u32),
    server_port: u16,
    // Dropped after the ends, so that they are closed in namespaces that are still there.
    home: Home,
    congestion: String,
    request: [u8; REQUEST],
    response: Vec<u8>,
    /// The ends stamp nothing: the gates at system calls stand where a response begins and ends.
    stamps: Stamps,
}

impl KernelPacketSession {
    /// Connects the ends. The calling thread is the one that asks.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a path that is not the kernel's, else what the system refused; namespaces need CAP_SYS_ADMIN.
    pub fn open(path: PathId, carrier: Carrier, mode: Mode) -> Result<Self, Error> {
        Self::connect(path, carrier, mode).map_err(|error| error.on(path))
    }

    fn connect(path: PathId, carrier: Carrier, mode: Mode) -> Result<Self, Error> {
        let cores = Cores::choose(mode.placement)?;
        let home = Home::find(path, carrier)?;
        let (client, server, server_port) = home.pair(mode)?;
        let congestion = client.congestion()?;
        let control = Arc::new(Control::new());
        let (tell, told) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name(thread_name())
            .spawn({
                let control = Arc::clone(&control);
                move || {
                    // Nobody listens when the ends could not be opened after all.
                    let _ = tell.send(thread_id());
                    serve(&server, cores.server, &control);
                }
            })
            .map_err(|error| Error::system(PATH, "starting a thread", error))?;
        let threads = (thread_id(), told.recv().unwrap_or(0));
        Ok(Self {
            path,
            carrier,
            cores,
            control,
            client,
            thread: Some(thread),
            threads,
            server_port,
            home,
            congestion,
            request: [0; REQUEST],
            response: Vec::new(),
            stamps: Stamps::default(),
        })
    }

    /// The threads and ports that the kernel's gates watch.
    pub fn ends(&self) -> KernelEnds<'_> {
        KernelEnds {
            client: self.threads.0,
            server: self.threads.1,
            server_ports: vec![self.server_port],
            namespaces: self.home.namespaces(),
            stamps: &self.stamps,
        }
    }

    fn slice(
        &mut self,
        response: usize,
        round_trips: u32,
        each: &mut dyn FnMut(f64),
    ) -> Result<(), Error> {
        let _pinned = Pinned::to(self.cores.client)
            .map_err(|error| Error::system(PATH, "pinning a thread", error))?;
        ask(&mut self.request, response);
        self.response.resize(response.max(self.response.len()), 0);
        let all = u64::from(WARM_UP) + u64::from(round_trips);
        self.control.begin(PATH, all, || Ok(()))?;
        let mut begun = Instant::now();
        for number in 0..all {
            self.client.send_all(&self.request, &self.control)?;
            self.client
                .recv_exact(&mut self.response[..response], &self.control)?;
            let ended = Instant::now();
            if number >= u64::from(WARM_UP) {
                each(ended.duration_since(begun).as_nanos() as f64);
            }
            begun = ended;
        }
        still_pinned(self.cores.client)?;
        self.control.finish(PATH, || Ok(()))
    }
}

fn still_pinned(core: usize) -> Result<(), Error> {
    cores::still_pinned(core).map_err(|error| Error::system(PATH, KEEPING, error))
}

/// The body of the thread that answers.
fn serve(server: &End, core: usize, control: &Control) {
    let mut orders = Server::new(control);
    let outcome = cores::pin(core)
        .map_err(|error| Error::system(PATH, "pinning a thread", error))
        .and_then(|()| answer(server, &mut orders, core, control));
    match outcome {
        // The ends were dropped in the middle of a slice: nobody is left to be told.
        Ok(()) => {}
        Err(_) if control.is_quit() => {}
        Err(error) => orders.fail(&error.to_string()),
    }
}

fn answer(
    server: &End,
    orders: &mut Server<'_>,
    core: usize,
    control: &Control,
) -> Result<(), Error> {
    let mut request = [0; REQUEST];
    let mut response = Vec::new();
    let mut message = 0;
    while let Some(messages) = orders.next_order() {
        orders.ready();
        for _ in 0..messages {
            server.recv_exact(&mut request, control)?;
            let length = asked(&request, PATH, message)?;
            message += 1;
            response.resize(length.max(response.len()), 1);
            server.send_all(&response[..length], control)?;
        }
        still_pinned(core)?;
        orders.done();
    }
    Ok(())
}

impl KernelPacketSession {
    /// Runs so many round trips with responses of `response` bytes; `each` gets the time of every one in nanoseconds. Each begins
    /// where the one before it ends.
    ///
    /// # Errors
    /// [`Error::Size`], else what went wrong on the path.
    pub fn run(
        &mut self,
        response: usize,
        round_trips: u32,
        each: &mut dyn FnMut(f64),
    ) -> Result<(), Error> {
        check(response)?;
        self.home.present()?;
        let outcome = self.slice(response, round_trips, each);
        match (outcome, self.control.failure()) {
            (Err(_), Some(reason)) => Err(self.home.explain(Error::Peer {
                path: self.path,
                reason,
            })),
            (outcome, _) => outcome.map_err(|error| self.home.explain(error.on(self.path))),
        }
    }

    /// Settings that a reader has to know to repeat it, as names and values.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("carrier", self.home.describe(self.carrier).to_owned()),
            ("congestion", self.congestion.clone()),
            ("nagle", "off".to_owned()),
            ("cores", self.cores.describe()),
        ]
    }
}

impl Drop for KernelPacketSession {
    fn drop(&mut self) {
        self.control.quit();
        let _ = self.client.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_run::{Placement, Waiting};

    const MODE: Mode = Mode {
        placement: Placement::OneCore,
        waiting: Waiting::Blocking,
    };

    fn count(per_packet: &mut KernelPacketSession, response: usize) -> usize {
        let mut times = 0;
        per_packet
            .run(response, 3, &mut |ns| times += usize::from(ns > 0.0))
            .unwrap();
        times
    }

    #[test]
    fn one_connection_carries_responses_of_any_size() {
        let path = PathId::KernelLoopback;
        let mut per_packet = KernelPacketSession::open(path, Carrier::Gso, MODE).unwrap();
        for response in [256, 65_536, 1, 1_448] {
            assert_eq!(count(&mut per_packet, response), 3);
        }
        assert!(per_packet.run(0, 1, &mut |_| ()).is_err());
        assert!(per_packet.ends().namespaces.is_empty());
        assert_ne!(per_packet.ends().client, per_packet.ends().server);
        assert!(KernelPacketSession::open(PathId::StackMemory, Carrier::Gso, MODE).is_err());
    }

    #[test]
    fn devices_of_our_own_leave_the_machines_alone() {
        let before = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        for (path, carrier, namespaces) in [
            (PathId::KernelLoopback, Carrier::Packets, 1),
            (PathId::KernelVeth, Carrier::Packets, 2),
            (PathId::KernelVeth, Carrier::Gso, 2),
        ] {
            match KernelPacketSession::open(path, carrier, MODE) {
                Ok(mut per_packet) => {
                    assert_eq!(count(&mut per_packet, 65_536), 3);
                    assert_eq!(per_packet.ends().namespaces.len(), namespaces);
                }
                Err(error) if !rustix::process::geteuid().is_root() => {
                    println!("{path} is skipped, needs root: {error}");
                }
                Err(error) => panic!("{error}"),
            }
        }
        let after = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        assert_eq!(before, after);
    }
}
