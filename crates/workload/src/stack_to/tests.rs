//! Our stack to servers of the kernel, beside it and on an interface that it shares.

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
        Self::each_carrying(DEFAULT_MTU)
    }

    /// One for each, whose interface carries this MTU.
    fn each_carrying(mtu: usize) -> impl Iterator<Item = Self> {
        let ways: [fn(Shared) -> Way; 2] = [Way::Packet, Way::Xdp];
        ways.into_iter().filter_map(move |way| {
            let path = way(shared(None)).path();
            let side = KernelSide::new(path, KERNEL_DEVICE);
            let side = side
                .inspect_err(|reason| tollgate_skip::skipped!("{reason}"))
                .ok()?;
            let ours = OurSide::join(&side, mtu, Offload::Checksum).unwrap();
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

#[test]
fn mtu_is_no_more_than_what_an_interface_carries() {
    const CARRIES: usize = 1_400;
    // More than a full segment, each way.
    let spec = Spec::new(Workload::Rr, 4_000).with_mode(Placement::OneCore, Waiting::Blocking);
    for net in Net::each_carrying(CARRIES) {
        let echo = net.side.within(|| Ok(listen(echo))).unwrap();
        let server = SocketAddr::new(net.side.address().into(), echo);
        for (asked, expected) in [(None, "1400"), (Some(1_300), "1300")] {
            let to = net.to(server, None).with_mtu(asked);
            net.run(|| {
                let mut session = to.open(&spec).unwrap();
                let mut samples = Samples::new(session.timing());
                session.run(3, &mut samples).unwrap();
                let settings = session.settings();
                let mtu = settings.iter().find(|(name, _)| *name == "mtu");
                assert_eq!(mtu.unwrap().1, expected, "{}", net.path);
            });
        }
        let too_much = net.to(server, None).with_mtu(Some(1_500));
        net.run(|| {
            let error = too_much.open(&spec).err().expect("it is too much");
            let words = error.to_string();
            assert!(
                words.contains("1500 bytes") && words.contains("carries 1400"),
                "{words}"
            );
        });
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
                    let spec =
                        Spec::new(Workload::Rr, 4).with_mode(Placement::OneCore, Waiting::Blocking);
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
            let mut end = End::beside(PathId::StackTap, &spec, link, DEFAULT_MTU, place).unwrap();
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
