//! Trains of segments over the kernel's loopback.
//!
//! Loopback has an MTU of 65,536 bytes, on which a response is one packet. So that it becomes a train of packets of Ethernet's size,
//! as in the paper, there are two ways, and they tell apart what segmentation offload does:
//!
//! - [`Carrier::OwnLoopback`]: a loopback of our own ([`super::own_loopback`]) with an MTU of 1,500 bytes, on which every segment
//!   travels as a packet of its own. It needs CAP_SYS_ADMIN.
//! - [`Carrier::Segments`]: the machine's loopback with TCP_MAXSEG on both sockets. TCP cuts segments of Ethernet's size, but they
//!   travel as one skb of up to 64 KiB (GSO), which is never taken apart on the way.
//!
//! Loopback has no GRO: packets reach TCP as they were sent.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::net::Shutdown;

use super::own_loopback::{Device, within};
use super::socket::{self, End, Options};
use super::{PATH, thread_id, thread_name};
use crate::cores::{self, Cores, Pinned};
use crate::error::Error;
use crate::path::{KernelEnds, Mode};
use crate::slice::{Control, Server};
use crate::trains::{MTU, REQUEST, SEGMENT, Trains, ask, asked, check};

/// Round trips that a slice makes before those that are timed.
pub const WARM_UP: u32 = 4;

/// What carries the segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// A loopback of our own on which every segment is a packet.
    OwnLoopback,
    /// The machine's loopback, on which several segments travel as one skb.
    Segments,
}

impl Carrier {
    /// What it is called in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OwnLoopback => "a packet for each segment",
            Self::Segments => "GSO",
        }
    }

    /// What it is, in words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::OwnLoopback => {
                "a loopback in a network namespace of its own, MTU 1500, every segment a packet (gso_max_segs 1, no GRO)"
            }
            Self::Segments => {
                "the machine's loopback, MTU 65536, TCP_MAXSEG 1460, segments of 1448 bytes together in one skb of up to 64 KiB \
                 (GSO), never taken apart"
            }
        }
    }
}

/// Two ends on the kernel's loopback.
pub struct KernelTrains {
    carrier: Carrier,
    cores: Cores,
    control: Arc<Control>,
    near: End,
    thread: Option<JoinHandle<()>>,
    threads: (u32, u32),
    far_port: u16,
    namespace: Option<OwnedFd>,
    congestion: String,
    request: [u8; REQUEST],
    response: Vec<u8>,
}

impl KernelTrains {
    /// Connects the ends. The calling thread is the one that asks.
    ///
    /// # Errors
    /// What the system refused; [`Carrier::OwnLoopback`] needs CAP_SYS_ADMIN.
    pub fn open(carrier: Carrier, mode: Mode) -> Result<Self, Error> {
        let cores = Cores::choose(mode.placement)?;
        let mut options = Options {
            nodelay: true,
            waiting: mode.waiting,
            max_segment: None,
        };
        let ((near, far, far_port), namespace) = match carrier {
            Carrier::OwnLoopback => {
                let device = Device {
                    mtu: MTU as u32,
                    segments: 1,
                };
                let (pair, namespace) = within(device, || socket::pair(&options))?;
                (pair, Some(namespace))
            }
            Carrier::Segments => {
                options.max_segment = Some((SEGMENT + 12) as u32);
                (socket::pair(&options)?, None)
            }
        };
        let congestion = near.congestion()?;
        let control = Arc::new(Control::new());
        let (tell, told) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name(thread_name())
            .spawn({
                let control = Arc::clone(&control);
                move || {
                    // Nobody listens when the ends could not be opened after all.
                    let _ = tell.send(thread_id());
                    serve(&far, cores.far, &control);
                }
            })
            .map_err(|error| Error::system(PATH, "starting a thread", error))?;
        let threads = (thread_id(), told.recv().unwrap_or(0));
        Ok(Self {
            carrier,
            cores,
            control,
            near,
            thread: Some(thread),
            threads,
            far_port,
            namespace,
            congestion,
            request: [0; REQUEST],
            response: Vec::new(),
        })
    }

    /// What the kernel's gates have to watch.
    pub fn ends(&self) -> KernelEnds<'_> {
        KernelEnds {
            near: self.threads.0,
            far: self.threads.1,
            far_ports: vec![self.far_port],
            namespaces: self.namespace.iter().map(AsFd::as_fd).collect(),
        }
    }

    fn slice(
        &mut self,
        response: usize,
        round_trips: u32,
        each: &mut dyn FnMut(f64),
    ) -> Result<(), Error> {
        let _pinned = Pinned::to(self.cores.near)
            .map_err(|error| Error::system(PATH, "pinning a thread", error))?;
        ask(&mut self.request, response);
        self.response.resize(response.max(self.response.len()), 0);
        let all = u64::from(WARM_UP) + u64::from(round_trips);
        self.control.begin(PATH, all, || Ok(()))?;
        for number in 0..all {
            let begun = Instant::now();
            self.near.send_all(&self.request, &self.control)?;
            self.near
                .recv_exact(&mut self.response[..response], &self.control)?;
            if number >= u64::from(WARM_UP) {
                each(begun.elapsed().as_nanos() as f64);
            }
        }
        self.control.finish(PATH, || Ok(()))
    }
}

/// The body of the thread that answers.
fn serve(far: &End, core: usize, control: &Control) {
    let mut server = Server::new(control);
    let outcome = cores::pin(core)
        .map_err(|error| Error::system(PATH, "pinning a thread", error))
        .and_then(|()| answer(far, &mut server, control));
    match outcome {
        // The ends were dropped in the middle of a slice: nobody is left to be told.
        Ok(()) => {}
        Err(_) if control.is_quit() => {}
        Err(error) => server.fail(&error.to_string()),
    }
}

fn answer(far: &End, server: &mut Server<'_>, control: &Control) -> Result<(), Error> {
    let mut request = [0; REQUEST];
    let mut response = Vec::new();
    let mut message = 0;
    while let Some(messages) = server.next_order() {
        server.ready();
        for _ in 0..messages {
            far.recv_exact(&mut request, control)?;
            let length = asked(&request, PATH, message)?;
            message += 1;
            response.resize(length.max(response.len()), 1);
            far.send_all(&response[..length], control)?;
        }
        server.done();
    }
    Ok(())
}

impl Trains for KernelTrains {
    fn run(
        &mut self,
        response: usize,
        round_trips: u32,
        each: &mut dyn FnMut(f64),
    ) -> Result<(), Error> {
        check(response)?;
        let outcome = self.slice(response, round_trips, each);
        match (outcome, self.control.failure()) {
            (Err(_), Some(reason)) => Err(Error::Peer { path: PATH, reason }),
            (outcome, _) => outcome,
        }
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("carrier", self.carrier.describe().to_owned()),
            ("congestion", self.congestion.clone()),
            ("nagle", "off".to_owned()),
            ("cores", self.cores.describe()),
        ]
    }
}

impl Drop for KernelTrains {
    fn drop(&mut self) {
        self.control.quit();
        let _ = self.near.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Placement, Waiting};

    const MODE: Mode = Mode {
        placement: Placement::OneCore,
        waiting: Waiting::Blocking,
    };

    fn count(trains: &mut KernelTrains, response: usize) -> usize {
        let mut times = 0;
        trains
            .run(response, 3, &mut |ns| times += usize::from(ns > 0.0))
            .unwrap();
        times
    }

    #[test]
    fn one_connection_carries_responses_of_any_size() {
        let mut trains = KernelTrains::open(Carrier::Segments, MODE).unwrap();
        for response in [256, 65_536, 1, 1_448] {
            assert_eq!(count(&mut trains, response), 3);
        }
        assert!(trains.run(0, 1, &mut |_| ()).is_err());
        assert!(trains.ends().namespaces.is_empty());
        assert_ne!(trains.ends().near, trains.ends().far);
    }

    #[test]
    fn a_loopback_of_its_own_leaves_the_machines_alone() {
        let before = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        match KernelTrains::open(Carrier::OwnLoopback, MODE) {
            Ok(mut trains) => {
                assert_eq!(count(&mut trains, 65_536), 3);
                assert_eq!(trains.ends().namespaces.len(), 1);
            }
            Err(error) if !rustix::process::geteuid().is_root() => {
                println!("skipped, needs root: {error}");
            }
            Err(error) => panic!("{error}"),
        }
        let after = std::fs::read_to_string("/sys/class/net/lo/mtu").unwrap();
        assert_eq!(before, after);
    }
}
