//! Checksum redundancy avoidance between two stacks of ours over a veth pair of Linux, by packet sockets and by AF_XDP.

mod linux;

use linux::{in_a_namespace, until};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::Command;
use std::time::Instant;
use tollgate_link::packet::Packet;
use tollgate_link::xdp::{self, Mode, Xdp};
use tollgate_link::{InterfaceConfig, host};
use tollgate_stack::config::{ChecksumPolicy, LanEvidence};
use tollgate_stack::link::Integrity;
use tollgate_stack::{Checksums, ConnId, Link, Pool, Received, Stack};

const MTU: usize = 1500;
const PORT: u16 = 80;
/// Interfaces, and the addresses of the stacks there.
const ENDS: [(&str, Ipv4Addr); 2] = [
    ("left", Ipv4Addr::new(198, 18, 9, 1)),
    ("right", Ipv4Addr::new(198, 18, 9, 2)),
];
/// Messages that go both ways: enough for the agreement and for segments without sums after it.
const MESSAGES: usize = 64;

const fn place(address: Ipv4Addr) -> InterfaceConfig {
    InterfaceConfig {
        address,
        prefix: 24,
        gateway: None,
        ipv6: None,
    }
}

/// Makes the pair of devices.
fn pair() {
    let [(left, _), (right, _)] = ENDS;
    host::ip(&["link", "add", left, "type", "veth", "peer", "name", right]).unwrap();
    for (name, _) in ENDS {
        host::ip(&["link", "set", name, "up"]).unwrap();
    }
}

/// A stack with redundancy avoidance at one end of the pair.
struct Host<L> {
    stack: Stack,
    link: L,
    pool: Pool,
    begun: Instant,
}

impl<L: Link> Host<L> {
    fn new(mut link: L, pool: Pool, place: InterfaceConfig, evidence: LanEvidence) -> Self {
        let mut config = place.config();
        config.mechanisms.checksum = ChecksumPolicy::RedundancyAvoidance;
        config.mechanisms.lan_evidence = evidence;
        let config = config.for_link(&mut link);
        let begun = Instant::now();
        Self {
            stack: Stack::new(config, MTU, tollgate_stack::Instant::from_nanos(1 << 40)).unwrap(),
            link,
            pool,
            begun,
        }
    }

    fn active(&mut self) -> tollgate_stack::Active<'_> {
        let now = (1 << 40) + self.begun.elapsed().as_nanos() as u64;
        self.stack
            .at(tollgate_stack::Instant::from_nanos(now), &mut self.pool)
    }

    fn poll(&mut self) {
        let now = (1 << 40) + self.begun.elapsed().as_nanos() as u64;
        self.stack
            .at(tollgate_stack::Instant::from_nanos(now), &mut self.pool)
            .poll(&mut self.link);
    }

    fn receives(&mut self, conn: ConnId, expected: &[u8]) -> Option<()> {
        let mut buffer = [0; 64];
        match self.active().receive(conn, &mut buffer).unwrap() {
            Received::Data(len) => {
                assert_eq!(&buffer[..len], expected);
                Some(())
            }
            Received::Nothing => None,
            Received::End => panic!("the peer has closed"),
        }
    }
}

/// Has two stacks talk, and gives how their connection has checksums at each end, and the messages that came without.
fn talk<L: Link>(hosts: &mut [Host<L>; 2]) -> ([Checksums; 2], u64) {
    let listener = hosts[1].active().listen(PORT, 1).unwrap();
    let to = SocketAddrV4::new(ENDS[1].1, PORT);
    let client = hosts[0].active().connect(to).unwrap();
    let server = until("a connection", || {
        hosts.iter_mut().for_each(Host::poll);
        hosts[1].active().accept(listener).ok()
    });
    let conns = [client, server];
    for number in 0..MESSAGES {
        // Both send at a time, so that acknowledgments without data pass as well.
        for (host, conn) in hosts.iter_mut().zip(conns) {
            assert_eq!(host.active().send(conn, &[number as u8; 32]), Ok(32));
        }
        for (at, conn) in conns.into_iter().enumerate() {
            until("a message", || {
                hosts.iter_mut().for_each(Host::poll);
                hosts[at].receives(conn, &[number as u8; 32])
            });
        }
        until("all acknowledgments", || {
            hosts.iter_mut().for_each(Host::poll);
            let mut left = hosts.iter_mut().zip(conns);
            left.all(|(host, conn)| host.active().info(conn).unwrap().in_flight == 0)
                .then_some(())
        });
    }
    let how = [0, 1].map(|at| hosts[at].active().info(conns[at]).unwrap().checksums);
    let unverified = hosts
        .iter()
        .map(|host| host.stack.counters().unverified)
        .min();
    (how, unverified.unwrap())
}

fn packets(integrity: Integrity, evidence: LanEvidence) -> [Host<Packet>; 2] {
    ENDS.map(|(name, address)| {
        let place = place(address);
        let link = Packet::open(name, place.addresses(), MTU)
            .unwrap()
            .with_integrity(integrity);
        let pool = Pool::new(512, Pool::frame_size_for(MTU));
        Host::new(link, pool, place, evidence)
    })
}

#[test]
fn stacks_on_packet_sockets_agree_by_either_evidence() {
    for evidence in [LanEvidence::Subnet, LanEvidence::SpanningTree] {
        in_a_namespace(move || {
            pair();
            let (how, unverified) = talk(&mut packets(Integrity::Memory, evidence));
            assert_eq!(how, [Checksums::Redundant; 2], "{evidence:?}");
            assert!(unverified > 0, "{evidence:?}");
        });
    }
}

#[test]
fn veth_pair_that_nobody_vouches_for_is_unguarded() {
    in_a_namespace(|| {
        pair();
        let place = place(ENDS[0].1);
        let link = Packet::open(ENDS[0].0, place.addresses(), MTU).unwrap();
        assert_eq!(link.integrity(), Integrity::Unprotected);
        let hosts = &mut packets(Integrity::Unprotected, LanEvidence::Subnet);
        assert_eq!(talk(hosts), ([Checksums::Unguarded; 2], 0));
    });
}

/// Tells whether a port of a bridge forwards, as `ip` says.
fn forwards(port: &str) -> bool {
    let shown = Command::new("ip")
        .args(["-d", "link", "show", "dev", port])
        .output();
    String::from_utf8_lossy(&shown.unwrap().stdout).contains("state forwarding")
}

/// A bridge drops announcements, which is what `spanning-tree` goes by. One of Linux that takes no part in the spanning tree, which is its
/// default, forwards them against the standard.
#[test]
fn bridge_between_keeps_checksums_by_the_spanning_tree() {
    for (evidence, takes_part, expected) in [
        (LanEvidence::Subnet, "1", [Checksums::Redundant; 2]),
        // Who opens offers before the other's address is known.
        (
            LanEvidence::SpanningTree,
            "1",
            [Checksums::Declined, Checksums::Unproven],
        ),
        (LanEvidence::SpanningTree, "0", [Checksums::Redundant; 2]),
    ] {
        in_a_namespace(move || {
            // The shortest delay before a port forwards: 2 s in each of two states (IEEE 802.1D, 8.10.2).
            let bridge = ["link", "add", "bridge", "type", "bridge"];
            let settings = ["stp_state", takes_part, "forward_delay", "200"];
            host::ip(&[&bridge[..], &settings].concat()).unwrap();
            for (name, _) in ENDS {
                let port = &format!("{name}-port");
                host::ip(&["link", "add", name, "type", "veth", "peer", "name", port]).unwrap();
                host::ip(&["link", "set", port, "master", "bridge"]).unwrap();
                host::ip(&["link", "set", port, "up"]).unwrap();
                host::ip(&["link", "set", name, "up"]).unwrap();
            }
            host::ip(&["link", "set", "bridge", "up"]).unwrap();
            // Addresses are asked for three times within 3 s (RFC 1122, 2.3.2.1), and then nobody is there.
            until("ports that forward", || {
                ENDS.iter()
                    .all(|(name, _)| forwards(&format!("{name}-port")))
                    .then_some(())
            });
            let (how, _) = talk(&mut packets(Integrity::Memory, evidence));
            assert_eq!(how, expected, "{evidence:?}, {takes_part}");
        });
    }
}

#[test]
fn stacks_on_af_xdp_agree_by_either_evidence() {
    for evidence in [LanEvidence::Subnet, LanEvidence::SpanningTree] {
        in_a_namespace(move || {
            pair();
            let open = |(interface, address): (&'static str, Ipv4Addr)| {
                let place = place(address);
                let opened = Xdp::open(&xdp::Config {
                    interface,
                    addresses: place.addresses(),
                    mtu: MTU,
                    frames: 512,
                    // Frames are verified unless both ends agree: trust would hide what is left out.
                    checksums: xdp::Checksums::Verify,
                    modes: &Mode::ALL,
                });
                opened.map(|(link, pool)| {
                    let link = link.with_integrity(Integrity::Memory);
                    Host::new(link, pool, place, evidence)
                })
            };
            match (open(ENDS[0]), open(ENDS[1])) {
                (Ok(left), Ok(right)) => {
                    let (how, unverified) = talk(&mut [left, right]);
                    assert_eq!(how, [Checksums::Redundant; 2], "{evidence:?}");
                    assert!(unverified > 0, "{evidence:?}");
                }
                (Err(error), _) | (_, Err(error)) => {
                    tollgate_skip::skipped!("no AF_XDP here: {error}");
                }
            }
        });
    }
}
