//! Our stack to a server of anybody's: beside the kernel of this host, and an echo or a discard behind it.
//!
//! Over `stack-tap` the device is in the network namespace of the process, and the kernel is our router. So the server may be on this
//! host or on any that this one forwards packets to. Over `stack-packet` and `stack-xdp` our stack has an address of its own on an
//! interface of the host, and reaches what is on that network and behind its router. All carry both versions of IP. Nothing but the bytes of the workload crosses: rr,
//! of connections and of datagrams, and crr take an echo (RFC 862), streams a discard (RFC 863), and streams that come to us a chargen (RFC 864).

use std::net::{IpAddr, SocketAddr};

use tollgate_link::host::Beside;
use tollgate_link::packet::Packet;
use tollgate_link::xdp::{self, Mode, Xdp};
use tollgate_link::{InterfaceConfig, Waitable};
use tollgate_run::{PathId, Workload};
use tollgate_stack::Pool;
use tollgate_stats::{Samples, Timing};

use crate::cores::Cores;
use crate::error::Error;
use crate::path::{Capabilities, Path, Session};
use crate::remote::Target;
use crate::slice::OtherEnd;
use crate::spec::Spec;
use crate::stack_end::{Client, End, Peer};
use crate::stack_host::{self, DEFAULT_MTU};
use crate::stack_link;

pub use tollgate_link::xdp::Checksums;

/// An interface that our stack shares with the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// Its name.
    pub interface: String,
    /// Our place on its network.
    pub place: InterfaceConfig,
    /// Checksums of what AF_XDP receives.
    pub checksums: Checksums,
}

/// The way on which our stack reaches the networks of its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// By a tap device beside the kernel.
    Tap,
    /// By a packet socket on an interface.
    Packet(Shared),
    /// By AF_XDP on an interface.
    Xdp(Shared),
}

impl Way {
    /// The path of this way.
    pub const fn path(&self) -> PathId {
        match self {
            Self::Tap => PathId::StackTap,
            Self::Packet(_) => PathId::StackPacket,
            Self::Xdp(_) => PathId::StackXdp,
        }
    }
}

/// The path to a server.
#[derive(Debug, Clone)]
pub struct StackTo {
    way: Way,
    to: SocketAddr,
}

impl StackTo {
    /// The path to this server. Over a tap device a loopback address stands for this host, which our stack reaches by the kernel's
    /// address on the link; the server must listen there.
    ///
    /// # Errors
    /// [`Error::Remote`] when the name is not known, and [`Error::Unsupported`] for a server over IPv6 where our stack has no such
    /// address.
    pub fn new(way: Way, target: &Target) -> Result<Self, Error> {
        let to = target.resolve()?;
        match &way {
            Way::Packet(shared) | Way::Xdp(shared)
                if to.is_ipv6() && shared.place.ipv6.is_none() =>
            {
                Err(Error::Unsupported {
                    path: way.path(),
                    asked: format!("a server at {}", to.ip()),
                    has: "IPv4 alone without an address of IPv6; add --address 2001:db8::7/64"
                        .to_owned(),
                })
            }
            Way::Tap | Way::Packet(_) | Way::Xdp(_) => Ok(Self { way, to }),
        }
    }

    /// Our place on the network of an interface, over the server's version of IP alone, and its address in words.
    fn on(&self, shared: &Shared) -> (InterfaceConfig, String) {
        let place = InterfaceConfig {
            ipv6: shared.place.ipv6.filter(|_| self.to.is_ipv6()),
            ..shared.place
        };
        let ours: IpAddr = match place.ipv6 {
            Some(ipv6) => ipv6.address.into(),
            None => place.address.into(),
        };
        (place, format!("{}, as {ours}", shared.interface))
    }

    /// Our place beside the kernel, over the server's version of IP alone, and the server's address as seen from there.
    fn beside(&self, beside: &Beside) -> Result<(InterfaceConfig, SocketAddr), Error> {
        let here = self.to.ip().is_loopback();
        match (self.to.ip(), beside.ipv6) {
            (IpAddr::V4(server), _) => {
                let server = if here {
                    beside.network.kernel()
                } else {
                    server
                };
                let to = SocketAddr::new(server.into(), self.to.port());
                Ok((beside.network.into(), to))
            }
            (IpAddr::V6(server), Some(network)) => {
                let server = if here { network.kernel() } else { server };
                let to = SocketAddr::new(server.into(), self.to.port());
                Ok((beside.into(), to))
            }
            (IpAddr::V6(_), None) => Err(Error::Unsupported {
                path: self.way.path(),
                asked: format!("a server at {}", self.to.ip()),
                has: "IPv4 here, since this host has IPv6 switched off".to_owned(),
            }),
        }
    }

    /// Opens a session over a link.
    fn over<L: Waitable + 'static>(
        &self,
        spec: &Spec,
        link: (L, Pool),
        (place, to): (InterfaceConfig, SocketAddr),
        device: String,
    ) -> Result<Box<dyn Session>, Error> {
        let path = self.way.path();
        let cores = Cores::choose(spec.placement)?;
        let mut end = End::beside(path, spec, link, DEFAULT_MTU, place)?;
        let refused = |error: Error| {
            let reason = format!(
                "{error}; name HOST:PORT of an echo for rr and crr, of a discard for stream, of a chargen for stream --reverse \
                 (tollgate serve --listen 0.0.0.0 --echo 7 --discard 9 --chargen 19)"
            );
            Error::stack(path, "connecting to the server of --to", reason)
        };
        match spec.workload {
            Workload::Rr if spec.is_datagrams() => {
                end.open_datagrams(spec, 0, to)?;
            }
            Workload::Rr | Workload::Stream => end.connect(to, || Ok(())).map_err(refused)?,
            Workload::Crr => {
                // That connection is to find out whether anybody is there.
                end.connect(to, || Ok(())).map_err(refused)?;
                end.close()?;
                end.closed(|| Ok(()))?;
            }
        }
        let timing = stack_link::CAPABILITIES.timing(spec);
        let client = Client::new(spec, timing, cores.client, end, vec![to]);
        let mut client = client.with_peer(Peer::Service);
        if spec.is_datagrams() {
            // This one is to find out whether anybody is there.
            client.datagrams(&mut Nobody).map_err(refused)?;
        }
        Ok(Box::new(ServiceSession {
            path,
            client,
            cores,
            to,
            device,
            failed: false,
        }))
    }
}

impl Path for StackTo {
    fn id(&self) -> PathId {
        self.way.path()
    }

    fn capabilities(&self) -> Capabilities {
        stack_link::CAPABILITIES
    }

    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error> {
        let path = self.way.path();
        stack_link::check(path, spec)?;
        let mtu = DEFAULT_MTU;
        match &self.way {
            Way::Tap => {
                let beside =
                    Beside::open(None, mtu).map_err(|error| Error::stack(path, MAKING, error))?;
                let device = format!("{}, beside the kernel", beside.tap.name());
                let where_to = self.beside(&beside)?;
                let link = (beside.tap, stack_host::pool(path, mtu));
                self.over(spec, link, where_to, device)
            }
            Way::Packet(shared) => {
                let (place, device) = self.on(shared);
                let link = Packet::open(&shared.interface, place.addresses(), mtu)
                    .map_err(|error| Error::stack(path, MAKING, error))?;
                let link = (link, stack_host::pool(path, mtu));
                self.over(spec, link, (place, self.to), device)
            }
            Way::Xdp(shared) => {
                let (place, device) = self.on(shared);
                let link = Xdp::open(&xdp::Config {
                    interface: &shared.interface,
                    addresses: place.addresses(),
                    mtu,
                    frames: stack_host::pool_frames(path, mtu),
                    checksums: shared.checksums,
                    modes: &Mode::ALL,
                })
                .map_err(|error| Error::stack(path, MAKING, error))?;
                let device = format!("{device} ({})", link.0.mode());
                self.over(spec, link, (place, self.to), device)
            }
        }
    }
}

/// The work that fails where a link cannot be made, in words.
const MAKING: &str = "making its link";

/// A server that is not told of slices.
struct Nobody;

impl OtherEnd for Nobody {
    fn begin(&mut self, _iterations: u64) -> Result<(), Error> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// A session of our stack with a server.
struct ServiceSession<L: Waitable> {
    path: PathId,
    client: Client<L>,
    cores: Cores,
    to: SocketAddr,
    /// The device in words.
    device: String,
    failed: bool,
}

impl<L: Waitable> Session for ServiceSession<L> {
    fn run(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Poisoned { path: self.path });
        }
        samples.check_timing(self.client.timing())?;
        let outcome = self.client.slice(iterations, samples, &mut Nobody);
        self.failed = outcome.is_err();
        outcome.map_err(|error| {
            self.client.end.poll();
            if self.client.end.link().is_gone() {
                return Error::Vanished {
                    path: self.path,
                    device: match self.path {
                        PathId::StackTap => "of the run",
                        _ => "that it shares",
                    },
                };
            }
            error
        })
    }

    fn timing(&self) -> Timing {
        self.client.timing()
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let spec = self.client.spec();
        let checksums = self.client.end.checksums(spec);
        let mut settings = stack_host::settings(self.path, spec, DEFAULT_MTU, checksums);
        settings.push(("cores", self.cores.describe()));
        settings.push(("server", self.to.to_string()));
        settings.push(("device", self.device.clone()));
        settings
    }
}

impl<L: Waitable> Drop for ServiceSession<L> {
    fn drop(&mut self) {
        self.client.end.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::thread;
    use std::time::{Duration, Instant};

    use tollgate_link::InterfaceConfigV6;
    use tollgate_run::{Offload, Placement, Waiting};

    use super::*;
    use crate::namespace;
    use crate::slice::PATIENCE;
    use crate::sockets::{Sockets, Transport};
    use crate::stack_link::KernelSide;
    use crate::stack_veth::{KERNEL_DEVICE, OUR_DEVICE, OurSide};

    /// A listener over both versions of IP whose connections are each served by a thread that ends with them.
    fn listen(serve: fn(TcpStream)) -> u16 {
        let any = (Ipv6Addr::UNSPECIFIED, 0);
        let listener = TcpListener::bind(any)
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                thread::spawn(move || serve(stream.unwrap()));
            }
        });
        port
    }

    fn echo(mut stream: TcpStream) {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            stream.write_all(&buffer[..count]).unwrap();
        }
    }

    fn discard(mut stream: TcpStream) {
        while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}
    }

    fn chargen(mut stream: TcpStream) {
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    }

    /// Does something in a namespace of its own, where there is one.
    fn alone(work: impl FnOnce() + Send) {
        match namespace::make(PathId::StackTap) {
            Ok(own) => namespace::within(PathId::StackTap, own.as_fd(), || {
                work();
                Ok(())
            })
            .unwrap(),
            Err(reason) => tollgate_skip::skipped!("{reason}"),
        }
    }

    fn to(port: u16) -> StackTo {
        beside_at("127.0.0.1", port)
    }

    fn beside_at(address: &str, port: u16) -> StackTo {
        let target = format!("{address}:{port}").parse().unwrap();
        StackTo::new(Way::Tap, &target).unwrap()
    }

    /// An echo of datagrams, over the version of IP of its address.
    fn listen_for_datagrams(address: IpAddr) -> u16 {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while let Ok((count, from)) = socket.recv_from(&mut buffer) {
                socket.send_to(&buffer[..count], from).unwrap();
            }
        });
        port
    }

    /// An echo of datagrams that keeps those of these numbers, of all that come to it, until the next one comes.
    fn echo_that_is_late(is_late: fn(u64) -> bool) -> u16 {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = socket.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut buffer, mut kept) = ([0; 4096], Vec::new());
            for number in 1.. {
                let (count, from) = socket.recv_from(&mut buffer).unwrap();
                kept.push((buffer[..count].to_vec(), from));
                if !is_late(number) {
                    for (answer, to) in kept.drain(..) {
                        socket.send_to(&answer, to).unwrap();
                    }
                }
            }
        });
        port
    }

    fn datagrams_of(size: usize) -> Spec {
        Spec::new(Workload::Rr, size)
            .with_mode(Placement::OneCore, Waiting::Blocking)
            .over(Sockets {
                transport: Transport::Udp,
                ..Sockets::PLAIN
            })
            .verified()
    }

    /// The first datagram finds out whether anybody is there. Late responses are those of no later request.
    #[test]
    fn datagrams_that_are_lost_are_counted_and_sent_again() {
        alone(|| {
            let echo = echo_that_is_late(|number| number == 1 || number == 20);
            let mut spec = datagrams_of(80);
            spec.warmup = 0;
            let mut session = to(echo).open(&spec).unwrap();
            let mut samples = session.new_samples();
            session.run(30, &mut samples).unwrap();
            assert_eq!((samples.lost(), samples.operations()), (1, 29));
            assert_eq!(samples.bytes(), 29 * 2 * 80);
            // The time in which it was missed is that of no trip.
            let sum = samples.sum_ns();
            assert_eq!(sum, u128::from(samples.elapsed_ns()));
        });
    }

    #[test]
    fn datagrams_that_are_all_lost_are_an_error() {
        alone(|| {
            let echo = echo_that_is_late(|number| number > 1);
            let mut session = to(echo).open(&datagrams_of(80)).unwrap();
            let mut samples = session.new_samples();
            let error = session.run(3, &mut samples).unwrap_err();
            let Error::Timeout { seconds, .. } = error else {
                panic!("{error}");
            };
            assert_eq!(seconds, PATIENCE.as_secs());
        });
    }

    /// Runs round trips of datagrams over a path to the echo.
    fn run_datagrams(to: &StackTo) {
        for size in [1, 1_400, 20_000] {
            let mut session = to.open(&datagrams_of(size)).unwrap();
            let mut samples = session.new_samples();
            session.run(20, &mut samples).unwrap();
            assert_eq!(samples.bytes(), 20 * 2 * size as u64);
        }
    }

    /// Ports of an echo, a discard and a chargen in the calling thread's namespace.
    fn listen_all() -> [u16; 3] {
        [listen(echo), listen(discard), listen(chargen)]
    }

    /// Runs every workload over a path to the server of its port.
    fn run_all(to: impl Fn(u16) -> StackTo, [echo, discard, chargen]: [u16; 3]) {
        for (workload, port) in [
            (Workload::Rr, echo),
            (Workload::Crr, echo),
            (Workload::Stream, discard),
            (Workload::Stream, chargen),
        ] {
            for size in [1, 1_448, 20_000] {
                let reverse = port == chargen;
                let spec = Spec {
                    verify: !reverse,
                    ..Spec::new(workload, size)
                        .with_mode(Placement::OneCore, Waiting::Blocking)
                        .reversed(reverse)
                };
                let mut session = to(port).open(&spec).unwrap();
                let mut samples = session.new_samples();
                session.run(20, &mut samples).unwrap();
                session.run(3, &mut samples).unwrap();
                assert_eq!(samples.operations(), 23, "{workload} {size} {reverse}");
            }
        }
    }

    #[test]
    fn every_workload_runs_against_an_echo_a_discard_or_a_chargen() {
        alone(|| run_all(to, listen_all()));
    }

    #[test]
    fn bytes_that_a_chargen_has_sent_ahead_are_not_timed() {
        // As much as a slice times, all of it sent before.
        const SIZE: usize = 1_000;
        fn little(mut stream: TcpStream) {
            stream.write_all(&[b'x'; 20 * SIZE]).unwrap();
        }
        alone(|| {
            let spec = Spec::new(Workload::Stream, SIZE)
                .with_mode(Placement::OneCore, Waiting::Blocking)
                .reversed(true);
            let mut session = to(listen(little)).open(&spec).unwrap();
            let mut samples = session.new_samples();
            let error = session.run(20, &mut samples).unwrap_err();
            assert!(matches!(error, Error::Closed { .. }), "{error}");
            assert_eq!(samples.operations(), 0);
        });
    }

    #[test]
    fn datagrams_go_to_an_echo_over_both_versions_of_ip() {
        alone(|| {
            let echo = listen_for_datagrams(Ipv4Addr::UNSPECIFIED.into());
            run_datagrams(&to(echo));
            let nobody = Spec::new(Workload::Rr, 4)
                .with_mode(Placement::OneCore, Waiting::Blocking)
                .over(Sockets {
                    transport: Transport::Udp,
                    ..Sockets::PLAIN
                });
            let error = to(9).open(&nobody).err().expect("nobody listens");
            assert!(error.to_string().contains("of an echo for rr"), "{error}");
            if std::fs::exists("/proc/net/if_inet6").unwrap() {
                let echo = listen_for_datagrams(Ipv6Addr::UNSPECIFIED.into());
                run_datagrams(&beside_at("[::1]", echo));
            } else {
                tollgate_skip::skipped!("this host does not speak IPv6");
            }
        });
    }

    #[test]
    fn every_workload_runs_over_ipv6() {
        alone(|| {
            if std::fs::exists("/proc/net/if_inet6").unwrap() {
                run_all(|port| beside_at("[::1]", port), listen_all());
            } else {
                tollgate_skip::skipped!("this host does not speak IPv6");
            }
        });
    }

    /// The kernel's address over IPv6 on the network of an interface.
    const KERNEL_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
    /// Our stack's.
    const STACK_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    /// That of the host with which our stack shares the interface: it has the solicited-node group of ours.
    const HOST_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x100, 1);

    /// A place over IPv6 with this address.
    fn place_v6(address: Ipv6Addr, is_tried: bool) -> InterfaceConfigV6 {
        InterfaceConfigV6 {
            address,
            prefix: 64,
            gateway: None,
            is_tried,
        }
    }

    /// An interface of a host that our stack shares, and its neighbour, which is the kernel in another namespace.
    struct Net {
        way: fn(Shared) -> Way,
        path: PathId,
        side: KernelSide,
        ours: OurSide,
    }

    impl Net {
        /// One for each link that shares an interface; none, with the reason printed, where this process may not.
        fn each() -> impl Iterator<Item = Self> {
            let ways: [fn(Shared) -> Way; 2] = [Way::Packet, Way::Xdp];
            ways.into_iter().filter_map(|way| {
                let path = way(shared(None)).path();
                let side = KernelSide::new(path, KERNEL_DEVICE);
                let side = side
                    .inspect_err(|reason| tollgate_skip::skipped!("{reason}"))
                    .ok()?;
                let ours = OurSide::join(&side, DEFAULT_MTU, Offload::Checksum).unwrap();
                side.bring_up(DEFAULT_MTU).unwrap();
                Some(Self {
                    way,
                    path,
                    side,
                    ours,
                })
            })
        }

        /// One for each, on which host and neighbour have addresses of IPv6.
        fn each_over_ipv6() -> impl Iterator<Item = Self> {
            let speaks = std::fs::exists("/proc/net/if_inet6").unwrap();
            if !speaks {
                tollgate_skip::skipped!("this host does not speak IPv6");
            }
            Self::each().filter(move |net| {
                if speaks {
                    net.neighbour_has(KERNEL_V6);
                    let host = || add_address(net.path, OUR_DEVICE, HOST_V6);
                    net.ours.within(host).unwrap();
                }
                speaks
            })
        }

        fn neighbour_has(&self, address: Ipv6Addr) {
            let add = || add_address(self.path, KERNEL_DEVICE, address);
            self.side.within(add).unwrap();
        }

        /// The path from a place to a server of the neighbour.
        fn to(&self, server: SocketAddr, ipv6: Option<InterfaceConfigV6>) -> StackTo {
            let target = server.to_string().parse().unwrap();
            StackTo::new((self.way)(shared(ipv6)), &target).unwrap()
        }

        /// Does something in the namespace of the interface.
        fn run(&self, work: impl FnOnce() + Send) {
            let work = || {
                work();
                Ok(())
            };
            self.ours.within(work).unwrap();
        }
    }

    fn shared(ipv6: Option<InterfaceConfigV6>) -> Shared {
        Shared {
            interface: OUR_DEVICE.to_owned(),
            place: InterfaceConfig {
                address: stack_host::address(stack_host::CLIENT),
                prefix: stack_host::PREFIX,
                gateway: None,
                ipv6,
            },
            checksums: Checksums::Trust,
        }
    }

    fn add_address(path: PathId, device: &str, address: Ipv6Addr) -> Result<(), Error> {
        let address = format!("{address}/64");
        namespace::ip(path, &["address", "add", &address, "dev", device, "nodad"])
    }

    #[test]
    fn every_workload_runs_from_an_interface_that_is_shared() {
        for net in Net::each() {
            let ports = net.side.within(|| Ok(listen_all())).unwrap();
            let server = IpAddr::V4(net.side.address());
            net.run(|| run_all(|port| net.to((server, port).into(), None), ports));
        }
    }

    /// Exchanges of the host's own sockets with the neighbour, over new connections and datagrams, until they are to end.
    fn talk(net: &Net, echo: u16, datagrams: u16, rounds: &AtomicU32, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            // The neighbour asks for the host's address again, in the group that is also ours.
            let host = HOST_V6.to_string();
            let forget = ["neigh", "flush", "to", &host, "dev", KERNEL_DEVICE];
            net.side
                .within(|| namespace::ip(net.path, &forget))
                .unwrap();
            let mut stream = TcpStream::connect((KERNEL_V6, echo)).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(b"the host's").unwrap();
            let mut answer = [0; 10];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"the host's");
            let socket = UdpSocket::bind((HOST_V6, 0)).unwrap();
            socket.set_read_timeout(Some(PATIENCE / 10)).unwrap();
            // The queue of a device that our stack keeps busy may be full.
            let is_answered = (0..10).any(|_| {
                let to = (KERNEL_V6, datagrams);
                socket.send_to(b"a datagram", to).unwrap();
                socket.recv(&mut answer).is_ok()
            });
            assert!(is_answered && &answer == b"a datagram");
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until the host has begun and ended a round.
    fn await_round(rounds: &AtomicU32) {
        let begun = rounds.load(Ordering::Relaxed);
        let until = Instant::now() + PATIENCE;
        while rounds.load(Ordering::Relaxed) < begun + 2 {
            assert!(Instant::now() < until, "the host does not get on");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn interfaces_that_are_shared_carry_ipv6_beside_that_of_the_host() {
        for net in Net::each_over_ipv6() {
            let ports = net.side.within(|| Ok(listen_all())).unwrap();
            let datagrams = net
                .side
                .within(|| Ok(listen_for_datagrams(KERNEL_V6.into())))
                .unwrap();
            let at = |port| SocketAddr::new(KERNEL_V6.into(), port);
            let (rounds, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
            let host = || {
                talk(&net, ports[0], datagrams, &rounds, &is_over);
                Ok(())
            };
            thread::scope(|scope| {
                let host = scope.spawn(|| net.ours.within(host));
                let stack = scope.spawn(|| {
                    net.run(|| {
                        let untried = Some(place_v6(STACK_V6, false));
                        run_all(|port| net.to(at(port), untried), ports);
                        run_datagrams(&net.to(at(datagrams), untried));
                        let tried = Some(place_v6(STACK_V6, true));
                        run_datagrams(&net.to(at(datagrams), tried));
                        // The host does not live on the time between our sessions.
                        let spec = Spec::new(Workload::Rr, 4)
                            .with_mode(Placement::OneCore, Waiting::Blocking);
                        let session = net.to(at(ports[0]), untried).open(&spec).unwrap();
                        await_round(&rounds);
                        drop(session);
                    });
                });
                let outcome = stack.join();
                is_over.store(true, Ordering::Relaxed);
                host.join().unwrap().unwrap();
                eprintln!("{}: {rounds:?} rounds of the host's", net.path);
                outcome.unwrap();
            });
        }
    }

    #[test]
    fn addresses_that_a_neighbour_has_are_refused() {
        let spec = Spec::new(Workload::Rr, 4).with_mode(Placement::OneCore, Waiting::Blocking);
        for net in Net::each_over_ipv6() {
            let server = SocketAddr::new(KERNEL_V6.into(), 7);
            let refuses = |address: Ipv6Addr, taken: Ipv6Addr| {
                let to = net.to(server, Some(place_v6(address, true)));
                net.run(|| {
                    let error = to.open(&spec).err().expect("another has it").to_string();
                    let words = format!("another host of the network has {taken} already");
                    assert!(error.contains(&words), "{error}");
                });
            };
            refuses(KERNEL_V6, KERNEL_V6);
            let [_, link_local] = shared(Some(place_v6(STACK_V6, true)))
                .place
                .addresses()
                .ipv6
                .unwrap();
            net.neighbour_has(link_local);
            refuses(STACK_V6, link_local);
        }
    }

    #[test]
    fn full_segments_are_those_of_the_version_of_ip() {
        alone(|| {
            let spec = Spec::new(Workload::Rr, 4).with_mode(Placement::OneCore, Waiting::Blocking);
            for server in ["127.0.0.1", "[::1]"] {
                let beside = Beside::open(None, DEFAULT_MTU).unwrap();
                if server == "[::1]" && beside.ipv6.is_none() {
                    return tollgate_skip::skipped!("this host does not speak IPv6");
                }
                let (place, to) = beside_at(server, listen(echo)).beside(&beside).unwrap();
                let link = (beside.tap, stack_host::pool(PathId::StackTap, DEFAULT_MTU));
                let mut end =
                    End::beside(PathId::StackTap, &spec, link, DEFAULT_MTU, place).unwrap();
                end.connect(to, || Ok(())).unwrap();
                assert_eq!(end.segment(), end.mss(), "{server}");
            }
        });
    }

    #[test]
    fn servers_over_ipv6_want_such_an_address_on_an_interface() {
        let target = "[2001:db8::2]:7".parse().unwrap();
        let error = StackTo::new(Way::Packet(shared(None)), &target).unwrap_err();
        assert!(error.to_string().contains("--address 2001:db8"), "{error}");
        let place = Some(place_v6(STACK_V6, true));
        StackTo::new(Way::Packet(shared(place)), &target).unwrap();
    }

    #[test]
    fn a_server_that_is_not_there_is_told_with_advice() {
        alone(|| {
            let spec = Spec::new(Workload::Rr, 4).with_mode(Placement::OneCore, Waiting::Blocking);
            let error = to(9).open(&spec).err().expect("nobody listens");
            assert!(error.to_string().contains("of an echo for rr"), "{error}");
        });
    }
}
