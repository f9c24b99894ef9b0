//! Large frames of Linux on an interface that our stack shares: one end of a veth pair, whose other end leaves segments uncut.

mod linux;

use linux::{in_a_namespace, until};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use tollgate_link::packet::Packet;
use tollgate_link::xdp::{Checksums, Config, Mode, Xdp};
use tollgate_link::{Addresses, InterfaceConfig, InterfaceConfigV6, WaitOutcome, Waitable, host};
use tollgate_stack::{Link, Pool, Received, Stack};

const MTU: usize = 1500;
/// Linux's end.
const KERNEL: Ipv4Addr = Ipv4Addr::new(198, 18, 9, 1);
const PLACE: InterfaceConfig = InterfaceConfig {
    address: Ipv4Addr::new(198, 18, 9, 2),
    prefix: 24,
    gateway: None,
    ipv6: Some(InterfaceConfigV6 {
        address: Ipv6Addr::new(0x2001, 2, 0, 9, 0, 0, 0xab, 0xcdef),
        prefix: 64,
        gateway: None,
        is_tried: false,
    }),
};
/// Link addresses of the groups of its addresses: the global one's, the link-local one's, all nodes'.
const GROUPS: [&str; 3] = [
    "33:33:ff:ab:cd:ef",
    "33:33:ff:12:09:02",
    "33:33:00:00:00:01",
];
/// Bytes of a stream: many large frames, and a last segment that is not full.
const STREAM: usize = 1_000_003;

fn stream() -> Vec<u8> {
    (0..STREAM).map(|at| (at ^ at >> 8) as u8).collect()
}

/// Makes the pair of devices.
fn pair() {
    host::ip(&[
        "link", "add", "ours", "type", "veth", "peer", "name", "theirs",
    ])
    .unwrap();
    host::bring_up("theirs", KERNEL, 24, MTU).unwrap();
    host::ip(&["link", "set", "ours", "up"]).unwrap();
}

/// Takes a stream from Linux after so many short messages, and gives the counts of the link.
fn take(short: usize) -> tollgate_link::packet::Stats {
    pair();
    let mut link = Packet::open("ours", PLACE.addresses(), MTU).unwrap();
    let listener = TcpListener::bind((KERNEL, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let sender = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.set_nodelay(true).unwrap();
        for _ in 0..short {
            socket.write_all(b"x").unwrap();
            socket.read_exact(&mut [0]).unwrap();
        }
        socket.write_all(&stream()).unwrap();
    });
    let begin = Instant::now();
    let now = || {
        let nanos = (1 << 40) + begin.elapsed().as_nanos() as u64;
        tollgate_stack::Instant::from_nanos(nanos)
    };
    let config = PLACE.config().for_link(&mut link);
    let mut stack = Stack::new(config, MTU, now()).unwrap();
    let mut pool = Pool::new(1024, Pool::frame_size_for(MTU));
    let conn = stack.at(now(), &mut pool).connect(to).unwrap();
    let (mut read, mut answered) = (Vec::new(), 0);
    let mut buffer = vec![0; 64 * 1024];
    until("the end of the stream", || {
        let mut active = stack.at(now(), &mut pool);
        active.poll(&mut link);
        let over = loop {
            match active.receive(conn, &mut buffer) {
                Ok(Received::Data(len)) => read.extend_from_slice(&buffer[..len]),
                Ok(Received::End) => break true,
                Ok(Received::Nothing) => break false,
                Err(error) => panic!("{error}"),
            }
        };
        while answered < short.min(read.len()) && active.send(conn, b"y").is_ok() {
            answered += 1;
        }
        active.flush(&mut link);
        over.then_some(())
    });
    sender.join().unwrap();
    assert!(read.split_off(short) == stream(), "other bytes");
    assert!(read.iter().all(|&byte| byte == b'x'));
    *link.stats()
}

#[test]
fn large_frames_are_cut() {
    in_a_namespace(|| {
        let stats = take(0);
        assert!(stats.large > 0, "{stats:?}");
        assert_eq!(stats.too_long, 0, "{stats:?}");
    });
}

#[test]
fn large_frames_after_many_short_ones_are_cut_once_one_is_lost() {
    in_a_namespace(|| {
        let stats = take(1_000);
        assert!(stats.large > 0, "{stats:?}");
        assert!(stats.too_long > 0, "{stats:?}");
    });
}

#[test]
fn an_interface_that_is_deleted_ends_an_idle_link() {
    in_a_namespace(|| {
        for is_down in [false, true] {
            pair();
            let link = Packet::open("ours", PLACE.addresses(), MTU).unwrap();
            let wait = || link.wait(Duration::from_millis(1));
            if is_down {
                host::ip(&["link", "set", "ours", "down"]).unwrap();
                // The error of going down is taken off, and the link may come up again.
                until("an idle wait", || {
                    (wait() == WaitOutcome::TimedOut).then_some(())
                });
            }
            host::ip(&["link", "del", "ours"]).unwrap();
            until("the end of the link", || {
                (wait() == WaitOutcome::PeerGone).then_some(())
            });
        }
    });
}

/// Tells whether an interface takes frames for the link address of our place, and for those of its groups.
fn is_registered() -> bool {
    let output = Command::new("bridge")
        .args(["fdb", "show", "dev", "ours"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_there = |mac: &str| said.contains(mac);
    let registered = is_there(&PLACE.addresses().mac.to_string());
    // The host itself is in that of all nodes where it speaks IPv6.
    let [groups @ .., all_nodes] = GROUPS;
    assert!(!registered || is_there(all_nodes), "{said}");
    for group in groups {
        assert_eq!(is_there(group), registered, "{group}: {said}");
    }
    registered
}

#[test]
fn links_register_their_address_as_long_as_they_live() {
    if Command::new("bridge").arg("-V").output().is_err() {
        return tollgate_skip::skipped!("bridge of iproute2 is not installed");
    }
    in_a_namespace(|| {
        pair();
        assert!(!is_registered());
        let packet = Packet::open("ours", PLACE.addresses(), MTU).unwrap();
        assert!(is_registered());
        drop(packet);
        assert!(!is_registered());
        let xdp = Xdp::open(&Config {
            interface: "ours",
            addresses: PLACE.addresses(),
            mtu: MTU,
            frames: 64,
            checksums: Checksums::Trust,
            modes: &Mode::ALL,
        });
        let xdp = match xdp {
            Ok(xdp) => xdp,
            Err(error) => return tollgate_skip::skipped!("no AF_XDP here: {error}"),
        };
        assert!(is_registered());
        drop(xdp);
        assert!(!is_registered());
    });
}

/// The kernel takes a VLAN's tag off before a packet socket sees the frame.
#[test]
fn frames_of_a_vlan_stay_with_the_host() {
    in_a_namespace(|| {
        pair();
        let Addresses { mac, ipv4, ipv6 } = PLACE.addresses();
        let mut link = Packet::open("ours", PLACE.addresses(), MTU).unwrap();
        let mut other = Packet::open("theirs", PLACE.addresses(), MTU).unwrap();
        let mut pool = Pool::new(64, Pool::frame_size_for(MTU));
        let frame = |tag: &[u8], ether_type: u16, at: usize, address: &[u8]| {
            let mut packet = [0; 60];
            packet[at..at + address.len()].copy_from_slice(address);
            let header = [&mac.0[..], &[2; 6], tag, &ether_type.to_be_bytes()];
            [&header.concat()[..], &packet].concat()
        };
        let each = |tag: &[u8]| {
            [
                frame(tag, 0x0800, 16, &ipv4.octets()),
                frame(tag, 0x86dd, 24, &ipv6.unwrap()[0].octets()),
            ]
        };
        let priority_alone = [0x81, 0, 0xe0, 0];
        let sent = [each(&[0x81, 0, 0, 7]), each(&priority_alone)].concat();
        let mut sending = Vec::new();
        sending.extend(sent.iter().map(|frame| pool.frame_from(frame).unwrap()));
        other.transmit(&mut pool, &mut sending);
        assert!(sending.is_empty());
        let mut came = Vec::new();
        until("the frames of no VLAN", || {
            link.receive(&mut pool, &mut came);
            (came.len() >= 2).then_some(())
        });
        let came: Vec<_> = came.iter().map(|frame| pool.frame(frame)).collect();
        // Those of no VLAN, without their tags.
        assert_eq!(came, each(&[]));
    });
}
