//! Transfers over a path that drops long packets in silence, between two hosts, in virtual time (RFC 4821, RFC 8899).

mod common;

use common::path::Path;
use common::{PORT, config, pattern};
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;
use tollgate_link::fault::{Faults, Probability, Rate};
use tollgate_stack::config::{Ipv6, LossRecovery, Mechanisms, MtuProbing};
use tollgate_stack::{Config, Received};

/// Bytes of an Ethernet header.
const ETHERNET: u16 = 14;

/// Bytes after which the pattern that is sent begins anew.
const PERIOD: u64 = 4096;

/// A transfer from one host to the other.
struct World {
    hosts: Path,
    sent: u64,
    received: u64,
    data: Vec<u8>,
}

fn address(v6: bool, host: u8) -> SocketAddr {
    if v6 {
        let host = u16::from(host);
        (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host), PORT).into()
    } else {
        ([10, 0, 0, host], PORT).into()
    }
}

fn host(n: u8, v6: bool, mechanisms: Mechanisms) -> Config {
    let mut config = config(n);
    config.mechanisms = mechanisms;
    if v6 {
        let SocketAddr::V6(own) = address(true, n) else {
            unreachable!("it is asked for");
        };
        config.ipv6 = Some(Ipv6 {
            address: Some((*own.ip(), 64)),
            duplicate_checks: 0,
            router_advertisements: false,
            ..Ipv6::default()
        });
    }
    config
}

/// Faults of a path: 4 Mb/s, 10 ms one way, packets up to `longest` bytes, and this share of losses in a hundred.
fn path(longest: u16, loss: f64) -> Faults {
    Faults {
        longest: Some(longest + ETHERNET),
        drop: Probability::new(loss / 100.0).unwrap(),
        rate: Some(Rate {
            bits_per_second: std::num::NonZeroU64::new(4_000_000).unwrap(),
            queue: 30_000,
        }),
        delay: Duration::from_millis(10),
        limit: 4096,
        ..Faults::default()
    }
}

impl World {
    fn new(v6: bool, mechanisms: Mechanisms, faults: Faults, seed: u64) -> Self {
        // What goes back is short, and arrives.
        let back = Faults {
            drop: Probability::NEVER,
            ..faults
        };
        let hosts = [1, 2].map(|n| (host(n, v6, mechanisms), address(v6, n).ip()));
        Self {
            hosts: Path::new(hosts, [faults, back], seed),
            sent: 0,
            received: 0,
            data: pattern(PERIOD as usize, 0),
        }
    }

    fn work(&mut self) {
        for _ in 0..10_000 {
            self.hosts.poll();
            let data = &self.data;
            let mut stack = self
                .hosts
                .sender
                .stack
                .at(self.hosts.now, &mut self.hosts.pool);
            while let Ok(taken) = {
                let from = (self.sent % PERIOD) as usize;
                stack.send(self.hosts.conn, &data[from..])
            } {
                self.sent += taken as u64;
            }
            stack.flush(&mut self.hosts.sender.link);
            let mut moved = false;
            if let Some(conn) = self.hosts.accepted {
                let mut buffer = [0; 8192];
                let mut stack = self
                    .hosts
                    .receiver
                    .stack
                    .at(self.hosts.now, &mut self.hosts.pool);
                while let Ok(Received::Data(n)) = stack.receive(conn, &mut buffer) {
                    let mut got = &buffer[..n];
                    while !got.is_empty() {
                        let expected = &data[(self.received % PERIOD) as usize..];
                        let (chunk, rest) = got.split_at(got.len().min(expected.len()));
                        assert!(expected.starts_with(chunk), "at byte {}", self.received);
                        self.received += chunk.len() as u64;
                        got = rest;
                    }
                    moved = true;
                }
                stack.flush(&mut self.hosts.receiver.link);
            }
            let silent = self.hosts.sender.stack.device_queue_len() == 0
                && self.hosts.receiver.stack.device_queue_len() == 0;
            if silent && !moved {
                return;
            }
        }
        panic!("the hosts never fall silent");
    }

    /// Lets time pass while the sender sends all that it can.
    fn pass(&mut self, duration: Duration) {
        let end = self.hosts.now + duration;
        for n in 0u32.. {
            if self.hosts.now >= end {
                return;
            }
            self.work();
            // It walks the whole pool.
            if n.is_multiple_of(256) {
                self.hosts
                    .sender
                    .stack
                    .check_consistency(&self.hosts.pool)
                    .unwrap();
            }
            let next = self.hosts.next_event().unwrap_or(end);
            self.hosts.now = next.max(self.hosts.now + Duration::from_nanos(1)).min(end);
        }
    }

    /// Bytes of the packet of a full segment.
    fn packet(&mut self, v6: bool) -> u16 {
        let info = self.hosts.info();
        info.mss + 32 + if v6 { 40 } else { 20 }
    }

    /// The path becomes another.
    fn change(&mut self, faults: Faults) {
        self.hosts.sender.link.set_faults(faults);
    }
}

fn mechanisms(probing: MtuProbing) -> Mechanisms {
    Mechanisms {
        mtu_probing: probing,
        ..Mechanisms::HOST
    }
}

/// RFC 4821, 7.7 and 7.3: a transfer over a path that drops packets of more than 1,300 bytes goes on, and ends close to that.
#[test]
fn transfer_over_a_black_hole_comes_close_to_what_it_takes() {
    for v6 in [false, true] {
        for probing in [MtuProbing::BlackHole, MtuProbing::Always] {
            for recovery in LossRecovery::ALL {
                let mut mechanisms = mechanisms(probing);
                mechanisms.recovery = *recovery;
                let mut world = World::new(v6, mechanisms, path(1300, 0.0), 1);
                world.pass(Duration::from_secs(8));
                let packet = world.packet(v6);
                let told = format!("IPv6 {v6}, {probing:?}, {recovery:?}: {packet}");
                assert!(packet <= 1300 && packet > 1292, "{told}");
                // 4 Mb/s are 460 kB/s; a few seconds go by before the black hole is known.
                assert!(world.received > 1_500_000, "{told}, {}", world.received);
                let counters = world.hosts.sender.stack.counters();
                let met = u64::from(probing == MtuProbing::BlackHole);
                assert_eq!(counters.black_holes, met, "{told}");
                assert!(counters.mtu_probes < 40, "{told}, {}", counters.mtu_probes);
            }
        }
    }
}

/// Without probing nothing that is longer arrives.
#[test]
fn transfer_over_a_black_hole_stops_without_probing() {
    let mut world = World::new(false, mechanisms(MtuProbing::Off), path(1300, 0.0), 1);
    world.pass(Duration::from_secs(20));
    assert_eq!(world.received, 0);
    assert_eq!(world.hosts.sender.stack.counters().mtu_probes, 0);
}

/// RFC 8899, 5.1.1: ten minutes after the search its end a path that takes more by then is found.
#[test]
fn path_that_takes_more_is_found_after_ten_minutes() {
    for v6 in [false, true] {
        let mut world = World::new(v6, mechanisms(MtuProbing::BlackHole), path(1300, 0.0), 2);
        world.pass(Duration::from_secs(8));
        let low = world.packet(v6);
        world.change(path(1500, 0.0));
        world.pass(Duration::from_secs(5));
        assert_eq!(world.packet(v6), low);
        // Nobody has to send meanwhile.
        world.hosts.now = world.hosts.now + Duration::from_secs(600);
        world.pass(Duration::from_secs(4));
        assert_eq!(world.packet(v6), 1500);
    }
}

/// A path that comes to take less, in silence, in the middle of a transfer.
#[test]
fn path_that_takes_less_is_found_again() {
    for v6 in [false, true] {
        let mut world = World::new(v6, mechanisms(MtuProbing::BlackHole), path(1500, 0.0), 3);
        world.pass(Duration::from_secs(2));
        assert_eq!(world.packet(v6), 1500);
        assert_eq!(world.hosts.sender.stack.counters().mtu_probes, 0);
        world.change(path(1400, 0.0));
        world.pass(Duration::from_secs(8));
        let packet = world.packet(v6);
        assert!(packet <= 1400 && packet > 1392, "{packet}");
    }
}

/// With random losses beside those of probes the search comes to its end all the same, and never to a size that does not pass.
#[test]
fn losses_beside_the_probes_do_not_mislead_it_upwards() {
    for seed in 0..3 {
        let mut world = World::new(false, mechanisms(MtuProbing::Always), path(1300, 1.0), seed);
        world.pass(Duration::from_secs(10));
        let packet = world.packet(false);
        assert!(packet <= 1300, "{packet}");
        assert!(packet > 1200, "{packet}");
        assert!(world.received > 1_000_000, "{}", world.received);
    }
}

/// The default sends the same packets as without probing where nothing is lost.
#[test]
fn default_probes_nothing_while_nothing_is_lost() {
    let mut outcomes = [MtuProbing::BlackHole, MtuProbing::Off].map(|probing| {
        let mut world = World::new(false, mechanisms(probing), path(1500, 0.0), 4);
        world.pass(Duration::from_secs(2));
        (
            world.received,
            *world.hosts.sender.stack.counters(),
            world.packet(false),
        )
    });
    let [with, without] = &mut outcomes;
    assert_eq!((with.0, with.2), (without.0, without.2));
    assert_eq!((with.1.mtu_probes, with.1.black_holes), (0, 0));
    assert_eq!(with.1.predicted, without.1.predicted);
}
