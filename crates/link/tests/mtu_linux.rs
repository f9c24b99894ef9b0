//! Interfaces that carry less than Ethernet, shared with the host: one end of a veth pair, with Linux at the other.

mod linux;

use linux::{in_a_namespace, until};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};
use tollgate_link::packet::Packet;
use tollgate_link::xdp::{Checksums, Config, Mode, Xdp};
use tollgate_link::{InterfaceConfig, OpenError, host, mtu_on};
use tollgate_stack::buffer::Frame;
use tollgate_stack::config::{Segmentation, TailProbe, Tuning};
use tollgate_stack::counters::Counters;
use tollgate_stack::link::Integrity;
use tollgate_stack::{Error, Link, Pool, Received, Stack};

/// Bytes of the largest IP packet on the interface that is shared.
const MTU: usize = 1_400;
/// Bytes of the largest on Linux's end, as a host behind a router has it: what it offers leaves our segments too long.
const MTU_OF_LINUX: usize = 1_500;
/// Bytes of an Ethernet header.
const HEADER: usize = 14;
/// Bytes that go each way.
const STREAM: usize = 1 << 20;
/// Bytes of socket buffers: fewer segments than the 256 that the ring of a veth device holds.
const BUFFER: u32 = 128 * 1024;
/// Linux's end.
const KERNEL: Ipv4Addr = Ipv4Addr::new(198, 18, 9, 1);
const PLACE: InterfaceConfig = InterfaceConfig {
    address: Ipv4Addr::new(198, 18, 9, 2),
    prefix: 24,
    gateway: None,
    ipv6: None,
};

fn stream(seed: usize) -> Vec<u8> {
    (seed..seed + STREAM)
        .map(|at| (at ^ at >> 8) as u8)
        .collect()
}

/// Makes the pair of devices. Linux sends nothing again for the mere reason that a machine is busy.
fn pair() {
    let ends = ["type", "veth", "peer", "name", "theirs"];
    host::ip(&[&["link", "add", "ours"][..], &ends].concat()).unwrap();
    host::bring_up("theirs", KERNEL, 24, MTU_OF_LINUX).unwrap();
    host::ip(&["link", "set", "ours", "mtu", &MTU.to_string(), "up"]).unwrap();
    let patient = ["198.18.9.0/24", "dev", "theirs", "rto_min", "60s"];
    host::ip(&[&["route", "replace"][..], &patient].concat()).unwrap();
    fs::write("/proc/sys/net/ipv4/tcp_early_retrans", "0").unwrap();
}

/// Segments that Linux has sent again in this network namespace.
fn sent_again_by_linux() -> u64 {
    let said = fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut lines = said.lines().filter(|line| line.starts_with("Tcp:"));
    let mut words = || lines.next().unwrap().split_whitespace();
    let (names, numbers) = (words(), words());
    let mut both = names.zip(numbers);
    let (_, number) = both.find(|(name, _)| *name == "RetransSegs").unwrap();
    number.parse().unwrap()
}

/// A link that notes how long the frames are that pass it.
struct Noting<L> {
    inner: L,
    longest_sent: usize,
    longest_received: usize,
}

fn longest(frames: &[Frame], so_far: usize) -> usize {
    let lengths = frames.iter().map(|frame| usize::from(frame.len));
    lengths.fold(so_far, usize::max)
}

impl<L: Link> Link for Noting<L> {
    fn mtu(&self) -> usize {
        self.inner.mtu()
    }

    fn integrity(&self) -> Integrity {
        self.inner.integrity()
    }

    fn set_segmentation(&mut self, segmentation: Segmentation) {
        self.inner.set_segmentation(segmentation);
    }

    fn complete_checksums(&mut self, wanted: bool) -> bool {
        self.inner.complete_checksums(wanted)
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.longest_sent = longest(frames, self.longest_sent);
        self.inner.transmit(pool, frames);
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.inner.receive(pool, frames);
        self.longest_received = longest(frames, self.longest_received);
    }
}

/// Takes a stream from our stack and sends one back.
fn peer(listener: &TcpListener) {
    let (mut socket, _) = listener.accept().unwrap();
    let mut came = vec![0; STREAM];
    socket.read_exact(&mut came).unwrap();
    assert!(came == stream(1), "other bytes");
    socket.write_all(&stream(2)).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
}

/// Sends a stream and takes the one that comes back; gives the link and the counts of the stack.
fn transfer<L: Link>(link: L, mut pool: Pool) -> (Noting<L>, Counters) {
    let mut link = Noting {
        inner: link,
        longest_sent: 0,
        longest_received: 0,
    };
    let listener = TcpListener::bind((KERNEL, 0)).unwrap();
    let to: SocketAddr = listener.local_addr().unwrap();
    let linux = thread::spawn(move || peer(&listener));
    let begin = Instant::now();
    let now = || {
        let nanos = (1 << 40) + begin.elapsed().as_nanos() as u64;
        tollgate_stack::Instant::from_nanos(nanos)
    };
    let mut config = PLACE.config().for_link(&mut link);
    config.mechanisms.tail_probe = TailProbe::Off;
    config.mechanisms.tuning = Tuning::Off;
    config.min_rto = Duration::from_secs(50);
    (config.send_buffer, config.receive_buffer) = (BUFFER, BUFFER);
    let mtu = link.mtu();
    let mut stack = Stack::new(config, mtu, now()).unwrap();
    let conn = stack.at(now(), &mut pool).connect(to).unwrap();
    let out = stream(1);
    let (mut sent, mut back) = (0, Vec::new());
    let mut buffer = vec![0; 64 * 1024];
    until("the end of the stream", || {
        let mut active = stack.at(now(), &mut pool);
        active.poll(&mut link);
        let is_over = loop {
            match active.receive(conn, &mut buffer) {
                Ok(Received::Data(len)) => back.extend_from_slice(&buffer[..len]),
                Ok(Received::End) => break true,
                Ok(Received::Nothing) => break false,
                Err(error) => panic!("{error}"),
            }
        };
        while sent < STREAM {
            match active.send(conn, &out[sent..]) {
                Ok(count) => sent += count,
                Err(Error::WouldBlock | Error::NotConnected) => break,
                Err(error) => panic!("{error}"),
            }
        }
        if is_over {
            active.close(conn).unwrap();
        }
        active.flush(&mut link);
        is_over.then_some(())
    });
    assert!(back == stream(2), "other bytes came back");
    linux.join().unwrap();
    (link, *stack.counters())
}

/// The streams filled segments up to the MTU and no further, and nothing was sent again.
fn is_whole<L>(link: &Noting<L>, counters: &Counters) {
    assert_eq!(
        (link.longest_sent, link.longest_received),
        (HEADER + MTU, HEADER + MTU)
    );
    assert_eq!((counters.retransmits, counters.timeouts), (0, 0));
    assert_eq!(sent_again_by_linux(), 0);
}

/// An MTU that is more than the interface carries is refused with both numbers.
fn is_refused(error: &OpenError) {
    assert!(
        matches!(
            error,
            OpenError::BeyondInterface {
                mtu: 1_401,
                carries: MTU,
                ..
            }
        ),
        "{error:?}"
    );
    let words = error.to_string();
    assert!(words.contains("1401") && words.contains("1400"), "{words}");
}

#[test]
fn packet_sockets_keep_to_the_mtu_of_their_interface() {
    in_a_namespace(|| {
        pair();
        assert_eq!(mtu_on("ours", None), Ok(MTU));
        is_refused(&Packet::open("ours", PLACE.addresses(), MTU + 1).unwrap_err());
        let link = Packet::open("ours", PLACE.addresses(), MTU).unwrap();
        let (mut link, counters) = transfer(link, Pool::new(1024, Pool::frame_size_for(MTU)));
        is_whole(&link, &counters);
        let stats = *link.inner.stats();
        assert_eq!((stats.too_long, stats.refused), (0, 0), "{stats:?}");
        // Trains were among them, whose segments Linux cuts.
        assert!(stats.trains > 0, "{stats:?}");
    });
}

#[test]
fn af_xdp_keeps_to_the_mtu_of_its_interface() {
    in_a_namespace(|| {
        pair();
        let open = |mtu| {
            Xdp::open(&Config {
                interface: "ours",
                addresses: PLACE.addresses(),
                mtu,
                frames: 1024,
                checksums: Checksums::Trust,
                modes: &Mode::ALL,
            })
        };
        is_refused(&open(MTU + 1).unwrap_err());
        let (link, pool) = match open(mtu_on("ours", None).unwrap()) {
            Ok(opened) => opened,
            Err(error) => return tollgate_skip::skipped!("no AF_XDP here: {error}"),
        };
        let (link, counters) = transfer(link, pool);
        is_whole(&link, &counters);
        let stats = link.inner.stats();
        assert_eq!(
            (stats.too_long, stats.refused, stats.dropped),
            (0, 0, 0),
            "{stats:?}"
        );
    });
}
