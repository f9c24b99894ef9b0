//! Random scripts of datagrams against a stack that predicts them and against one that does not: what arrives at sockets, what
//! is sent, and all counters of losses must not differ.
//!
//! The scripts change whatever a prediction is made of: addresses, routes, link addresses, MTUs, sockets, policies, time. They
//! send frames that are damaged, in fragments, for others, or not UDP in between.

#[path = "datagrams/play.rs"]
mod play;

use play::{HOSTS, OWN, OWN_MAC, OWN_V6, Play, ROUTER_V6, Random, Variant, frame, icmp_v6};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tollgate_stack::Error;
use tollgate_stack::config::Mechanisms;
use tollgate_stack::counters::Drop;
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::icmpv6::Discovery;
use tollgate_wire::{ipv4, ipv6};

/// Plays the script of each seed with and without prediction.
fn compare(seeds: std::ops::Range<u64>, posts: bool, lazy: bool) {
    let mut predicted = 0;
    for seed in seeds {
        let play = |predicts, posts| {
            let variant = Variant {
                predicts,
                posts,
                lazy,
            };
            Play::new(seed, variant).play(400)
        };
        let (ours, general) = (play(true, posts), play(false, false));
        assert_eq!(general.predicted, 0);
        predicted += ours.predicted;
        let differs = ours
            .told
            .iter()
            .zip(&general.told)
            .position(|(a, b)| a != b);
        if let Some(at) = differs {
            panic!(
                "seed {seed}, line {at}:\n{}\n{}",
                ours.told[at], general.told[at]
            );
        }
        assert_eq!(ours.told.len(), general.told.len(), "seed {seed}");
        assert_eq!(ours.got, general.got, "seed {seed}");
        assert_eq!(ours.errors, general.errors, "seed {seed}");
        assert_eq!(ours.counters, general.counters, "seed {seed}");
    }
    assert!(predicted > 2_000, "{predicted} datagrams were predicted");
}

#[test]
fn prediction_changes_neither_datagrams_nor_frames_nor_counters() {
    compare(0..60, false, true);
}

#[test]
fn posted_readers_get_what_queues_would_hold() {
    compare(1_000..1_060, true, false);
}

/// A host with a socket on each of some ports.
fn host(ports: &[u16]) -> Play {
    let variant = Variant {
        predicts: true,
        posts: false,
        lazy: false,
    };
    let mut play = Play::with(Mechanisms::DEFAULT, Random::new("one", 0), variant);
    for &port in ports {
        let id = play.stack.at(play.now, &mut play.pool).udp_bind(port);
        play.sockets.push((port, id.unwrap()));
    }
    play
}

impl Play {
    /// Sends a datagram from the first socket; the frame that it leaves in.
    fn send_one(&mut self, to: IpAddr) -> Vec<u8> {
        let id = self.sockets[0].1;
        let mut active = self.stack.at(self.now, &mut self.pool);
        active
            .udp_send(id, SocketAddr::new(to, 9), &[1; 64])
            .unwrap();
        let mut sent = self.sent().into_iter();
        sent.find(|frame| frame.ends_with(&[1; 64]))
            .expect("it is sent")
    }
}

#[test]
fn templates_have_the_link_addresses_that_neighbours_have_now() {
    let mut play = host(&[7]);
    for to in [HOSTS[0], HOSTS[4]] {
        for mac in [MacAddr([2; 6]), MacAddr([4; 6])] {
            let mut active = play.stack.at(play.now, &mut play.pool);
            active.add_neighbour(to, mac);
            for _ in 0..3 {
                assert_eq!(play.send_one(to)[..6], mac.0, "to {to}");
            }
        }
    }
    // Nobody is the neighbour that all are.
    let broadcast = HOSTS[8];
    let mut active = play.stack.at(play.now, &mut play.pool);
    active.add_neighbour(broadcast, MacAddr([2; 6]));
    for _ in 0..3 {
        assert_eq!(play.send_one(broadcast)[..6], [0xff; 6]);
    }
}

#[test]
fn errors_are_told_for_a_minute_from_the_last_predicted_datagram() {
    let mut play = host(&[7]);
    let mut active = play.stack.at(play.now, &mut play.pool);
    active.add_neighbour(HOSTS[0], MacAddr([2; 6]));
    for _ in 0..2 {
        play.send_one(HOSTS[0]);
    }
    play.now = play.now + Duration::from_millis(900);
    let frame = play.send_one(HOSTS[0]);
    play.sent = Some(frame[ethernet::HEADER_LEN..].to_vec());
    play.now = play.now + Duration::from_millis(59_900);
    play.unreachable();
    play.sent();
    let id = play.sockets[0].1;
    let mut active = play.stack.at(play.now, &mut play.pool);
    assert!(matches!(
        active.udp_receive(id),
        Err(Error::Refused | Error::Unreachable)
    ));
}

#[test]
fn datagrams_for_a_closed_socket_do_not_go_to_its_successor() {
    let mut play = host(&[7]);
    let source = Ipv4Addr::new(10, 0, 0, 2);
    let header = ipv4::Header {
        header_len: 20,
        tos: 0,
        total_len: 29,
        identification: 0,
        flags_and_offset: 0,
        ttl: 64,
        protocol: ipv4::protocol::UDP,
        source,
        destination: OWN,
    };
    let packet = [&header.to_bytes()[..], &[0, 9, 0, 7, 0, 9, 0, 0, 42]].concat();
    let bytes = frame(OWN_MAC, MacAddr([2; 6]), EtherType::Ipv4, &packet);
    play.inject(&bytes);
    play.sent();
    assert_eq!(play.stack.counters().predicted_datagrams, 1);
    let id = play.sockets[0].1;
    let mut active = play.stack.at(play.now, &mut play.pool);
    active.udp_close(id).unwrap();
    let successor = active.udp_bind(8).unwrap();
    play.inject(&bytes);
    play.sent();
    assert_eq!(play.stack.counters().drops(Drop::NoSocket), 1);
    let mut active = play.stack.at(play.now, &mut play.pool);
    assert_eq!(active.udp_receive(successor), Err(Error::WouldBlock));
}

/// A router's advertisement with its link address, for `lifetime` seconds, and options.
fn advertisement(lifetime: u16, options: &[u8]) -> Vec<u8> {
    let mut message = vec![Discovery::RouterAdvertisement.number(), 0, 0, 0, 64, 0];
    message.extend(lifetime.to_be_bytes());
    message.extend([0; 8]);
    message.extend([1, 1, 2, 2, 2, 2, 2, 2]);
    message.extend(options);
    icmp_v6(MacAddr([2; 6]), (ROUTER_V6, ipv6::ALL_NODES), &message)
}

/// The source of a datagram over IPv6.
fn source(frame: &[u8]) -> Ipv6Addr {
    ipv6::Header::parse(&frame[ethernet::HEADER_LEN..])
        .unwrap()
        .source
}

#[test]
fn templates_of_ipv6_come_from_the_address_that_is_the_source_now() {
    let mut play = host(&[7]);
    let mut active = play.stack.at(play.now, &mut play.pool);
    active.add_neighbour(HOSTS[4], MacAddr([2; 6]));
    for _ in 0..3 {
        assert_eq!(source(&play.send_one(HOSTS[4])), OWN_V6);
    }
    let nearer = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 3);
    let mut active = play.stack.at(play.now, &mut play.pool);
    active.add_ipv6_address(nearer, 127).unwrap();
    assert_eq!(source(&play.send_one(HOSTS[4])), nearer);
}

#[test]
fn templates_of_ipv6_end_with_their_router() {
    let mut play = host(&[7]);
    play.inject(&advertisement(3, &[]));
    play.sent();
    play.now = play.now + Duration::from_millis(2_500);
    for _ in 0..3 {
        play.send_one(HOSTS[7]);
    }
    play.now = play.now + Duration::from_millis(600);
    play.sent();
    let id = play.sockets[0].1;
    let mut active = play.stack.at(play.now, &mut play.pool);
    let sent = active.udp_send(id, SocketAddr::new(HOSTS[7], 9), &[1; 64]);
    assert_eq!(sent, Err(Error::Unreachable));
}

#[test]
fn templates_of_ipv6_end_when_their_source_is_deprecated() {
    let mut play = host(&[7]);
    // The network of the destination: addresses are made of it, preferred for two seconds.
    let mut prefix = vec![3, 4, 64, 0x40];
    prefix.extend(7_200u32.to_be_bytes());
    prefix.extend(2u32.to_be_bytes());
    prefix.extend([0; 4]);
    prefix.extend([0x20, 1, 0xd, 0xb8, 0, 9, 0, 0]);
    prefix.extend([0; 8]);
    play.inject(&advertisement(1_800, &prefix));
    play.sent();
    play.now = play.now + Duration::from_millis(1_500);
    play.sent();
    for _ in 0..3 {
        assert_ne!(source(&play.send_one(HOSTS[7])), OWN_V6);
    }
    play.now = play.now + Duration::from_millis(600);
    play.sent();
    assert_eq!(source(&play.send_one(HOSTS[7])), OWN_V6);
}
