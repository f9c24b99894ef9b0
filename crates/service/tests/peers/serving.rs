//! A server of ours in a place, on a thread of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tollgate_link::fault::Faults;
use tollgate_link::faulty::Faulty;
use tollgate_link::host::{self, Beside};
use tollgate_link::tap::Tap;
use tollgate_service::{Counts, KernelSockets, Root, Server, Service, Sockets, StackSockets};
use tollgate_stack::config::Mechanisms;

use crate::sandbox::{PATIENCE, Sandbox};

/// Bytes of an Ethernet header.
pub const ETHERNET_HEADER: usize = 14;

/// A TCP/IP that serves.
#[derive(Clone, Copy, Debug)]
pub enum On {
    Kernel,
    /// Our stack on a tap device.
    Tap(OnTap),
}

/// A tap device whose frames meet faults, and the stack on it.
#[derive(Clone, Copy, Debug)]
pub struct OnTap {
    pub mtu: usize,
    pub faults: Faults,
    /// Seed by which frames meet faults.
    pub seed: u64,
    pub mechanisms: Mechanisms,
}

impl Default for OnTap {
    fn default() -> Self {
        Self {
            mtu: 1500,
            faults: Faults::default(),
            seed: 5,
            mechanisms: Mechanisms::DEFAULT,
        }
    }
}

impl OnTap {
    /// Tells whether IPv6 gets through, which takes 1,280 bytes on every way and is cut to no less (RFC 8200, 5).
    pub fn carries_v6(&self) -> bool {
        let passes = self.faults.longest.map_or(usize::MAX, usize::from);
        self.mtu.min(passes.saturating_sub(ETHERNET_HEADER)) >= 1280
    }
}

/// Our stack on a tap device without faults.
pub fn tap() -> On {
    On::Tap(OnTap::default())
}

/// Service under test.
#[derive(Clone, Debug)]
pub enum What {
    Http(PathBuf),
    Echo,
    Discard,
    Chargen,
    Forward(SocketAddr),
    Outward(SocketAddr),
}

/// A server that runs until it is ended.
pub struct Serving {
    /// The addresses of what is served, in order, over IPv4.
    pub at: Vec<SocketAddr>,
    /// Those over IPv6, as far as there are.
    pub at_v6: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    idle: Arc<AtomicU64>,
    thread: Option<JoinHandle<Counts>>,
}

impl Serving {
    /// Starts a server on these ports.
    pub fn start(place: &Sandbox, on: On, what: &[(u16, What)]) -> Self {
        Self::start_with(place, on, what, None)
    }

    /// Starts a server on these ports, that has this patience.
    pub fn start_with(
        place: &Sandbox,
        on: On,
        what: &[(u16, What)],
        patience: Option<Duration>,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let idle = Arc::new(AtomicU64::new(0));
        let (tell, told) = mpsc::channel();
        let what = what.to_vec();
        let thread = thread::scope(|scope| {
            // The namespace is entered by a thread that ends with the server.
            let (control, tell) = ((Arc::clone(&stop), Arc::clone(&idle)), tell);
            scope
                .spawn(move || {
                    place.enter();
                    thread::spawn(move || match on {
                        On::Kernel => {
                            let sockets = KernelSockets::new([127, 0, 0, 1].into()).unwrap();
                            serve(sockets, (&what, patience), &tell, &control, |_| true)
                        }
                        On::Tap(on) => {
                            let beside = Beside::open(None, on.mtu).unwrap();
                            let mut config = tollgate_link::InterfaceConfig::from(&beside).config();
                            let link = Faulty::new(beside.tap, on.faults, on.seed);
                            config.mechanisms = on.mechanisms;
                            // ARP has no checksum: by a damaged answer Linux sends to nobody for a minute.
                            if on.faults.damages() {
                                let (ip, mac) = (config.ip.to_string(), config.mac.to_string());
                                let device = link.inner().name();
                                let to = ["neigh", "replace", &ip, "lladdr", &mac];
                                let on = ["nud", "permanent", "dev", device];
                                host::ip(&[&to[..], &on].concat()).unwrap();
                            }
                            // Linux believes routers alone unless it is asked to look for black holes (RFC 4821).
                            if on.faults.longest.is_some() {
                                fs::write("/proc/sys/net/ipv4/tcp_mtu_probing", "1").unwrap();
                            }
                            let sockets =
                                StackSockets::new(config, link, tollgate_service::FRAMES).unwrap();
                            serve(sockets, (&what, patience), &tell, &control, is_whole)
                        }
                    })
                })
                .join()
                .unwrap()
        });
        let all = told.recv_timeout(PATIENCE).expect("the server stands");
        Self {
            at: all.iter().map(|at| at[0]).collect(),
            at_v6: all.iter().filter_map(|at| at.get(1).copied()).collect(),
            stop,
            idle,
            thread: Some(thread),
        }
    }

    /// Connections that were ended since nothing moved.
    pub fn idle(&self) -> u64 {
        self.idle.load(Ordering::Relaxed)
    }

    /// The URL of a path where the first service is HTTP.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.at[0])
    }

    /// Ends it, and gives its counts. Every frame is back by then, and no connection is left.
    pub fn end(mut self) -> Counts {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .take()
            .unwrap()
            .join()
            .expect("the server ended well")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Every frame is back in the pool; what the link still holds is let go.
fn is_whole(stack: &mut StackSockets<Faulty<Tap>>) -> bool {
    if stack.stack().connections() > 0 {
        return false;
    }
    let (link, pool) = stack.link_and_pool();
    link.drain(pool);
    pool.available() == pool.capacity()
}

fn serve<S: Sockets>(
    sockets: S,
    (what, patience): (&[(u16, What)], Option<Duration>),
    tell: &mpsc::Sender<Vec<Vec<SocketAddr>>>,
    (stop, idle): &(Arc<AtomicBool>, Arc<AtomicU64>),
    mut is_whole: impl FnMut(&mut S) -> bool,
) -> Counts {
    let mut server = Server::new(sockets).unwrap();
    if let Some(patience) = patience {
        server.set_patience(patience);
    }
    let mut at = Vec::new();
    for (port, what) in what {
        let service = match what {
            What::Http(directory) => Service::Http(Rc::new(Root::open(directory).unwrap())),
            What::Echo => Service::Echo,
            What::Discard => Service::Discard,
            What::Chargen => Service::Chargen,
            What::Forward(to) => Service::Forward(*to),
            What::Outward(to) => {
                at.push(server.serve_outward(*port, *to).unwrap());
                continue;
            }
        };
        let datagrams = server.serve_datagrams(*port, &service).unwrap();
        let connections = server.serve(*port, service).unwrap();
        assert!(datagrams.is_empty() || datagrams == connections);
        at.push(connections);
    }
    tell.send(at).unwrap();
    while !stop.load(Ordering::Relaxed) {
        server.poll_once(Duration::from_millis(20)).unwrap();
        idle.store(server.counts().idle, Ordering::Relaxed);
    }
    // What was closed in good order gets the time to be acknowledged.
    let until = Instant::now() + PATIENCE;
    while !(server.counts().open == 0 && is_whole(server.sockets_mut())) {
        if Instant::now() >= until {
            panic!("frames or connections are left: {:?}", server.counts());
        }
        server.poll_once(Duration::from_millis(20)).unwrap();
    }
    server.counts()
}
