//! Two hosts that speak IPv6 on a cable, in virtual time: addresses, neighbours, connections, from the first packet on.

mod common;

use common::{PORT, Pair, address_v6, config, config_v6, pattern};
use std::net::{Ipv6Addr, SocketAddr};
use tollgate_checksum::sum_header;
use tollgate_link::Side;
use tollgate_stack::config::{Ecn, InterfaceId, Ipv6};
use tollgate_stack::counters::Drop;
use tollgate_stack::ipv6::AddressState;
use tollgate_stack::{Config, Error, FastOpen, Link, Open, Stack, State};
use tollgate_wire::ethernet::{self, EtherType};
use tollgate_wire::icmpv6::Message;
use tollgate_wire::ipv6::{self, protocol};

fn pair() -> Pair {
    Pair::with(config_v6(1), config_v6(2), 1500)
}

fn to_b(port: u16) -> SocketAddr {
    (address_v6(2), port).into()
}

fn check(pair: &Pair) {
    pair.a.check_consistency(&pair.pool).unwrap();
    pair.b.check_consistency(&pair.pool).unwrap();
}

#[test]
fn connection_opens_carries_bytes_both_ways_and_closes() {
    let mut pair = pair();
    let frames = pair.pool.available();
    let listener = pair.listen();
    let client = pair.a().connect(to_b(PORT)).unwrap();
    pair.settle();
    check(&pair);
    let server = pair.b().accept(listener).unwrap();
    let info = pair.b().info(server).unwrap();
    assert_eq!(info.local, to_b(PORT));
    assert_eq!(info.remote.ip(), address_v6(1));
    // The link's MTU less 60 bytes of headers and 12 of the timestamp option.
    assert_eq!(info.mss, 1500 - 60 - 12);
    let bytes = pattern(100_000, 3);
    let (mut sent, mut got) = (0, Vec::new());
    while got.len() < bytes.len() {
        if let Ok(taken) = pair.a().send(client, &bytes[sent..]) {
            sent += taken;
        }
        pair.settle();
        got.extend(pair.read_b(server));
        pair.settle();
        check(&pair);
    }
    assert_eq!(got, bytes);
    pair.b().send(server, b"back").unwrap();
    pair.settle();
    assert_eq!(pair.read_a(client), b"back");
    pair.a().close(client).unwrap();
    pair.settle();
    pair.b().close(server).unwrap();
    pair.settle();
    check(&pair);
    assert_eq!(pair.a.time_waits(), 1);
    pair.pass(120_000_000_000);
    assert_eq!((pair.a.time_waits(), pair.b.connections()), (0, 0));
    assert_eq!(pair.pool.available(), frames);
}

/// RFC 7413 over IPv6: the first connection gets a cookie, the second has 1,440 bytes in its SYN, options included.
#[test]
fn data_goes_in_a_syn() {
    let mut pair = pair();
    let frames = pair.pool.available();
    let open = Open {
        fast_open: 4,
        ..Open::default()
    };
    let listener = pair.b().listen_with(PORT, 4, &open).unwrap();
    let request = pattern(5_000, 7);
    for outcome in [FastOpen::CookieReceived, FastOpen::DataAcknowledged] {
        let opened = pair
            .a()
            .connect_with_data(to_b(PORT), &Open::default(), &request);
        let (client, taken) = opened.unwrap();
        assert_eq!(taken, request.len());
        let in_syn = match outcome {
            // MSS, selective acknowledgments, timestamps, scale, cookie.
            FastOpen::DataAcknowledged => 1440 - 4 - 12 - 4 - 12,
            _ => 0,
        };
        assert_eq!(pair.a().info(client).unwrap().in_flight, 1 + in_syn);
        check(&pair);
        // The last segment is partial and waits for the delayed acknowledgment.
        pair.pass(100_000_000);
        check(&pair);
        let server = pair.b().accept(listener).unwrap();
        assert!(pair.read_b(server) == request);
        assert_eq!(pair.a().info(client).unwrap().fast_open, outcome);
        pair.a().close(client).unwrap();
        pair.settle();
        pair.b().close(server).unwrap();
        pair.pass(61_000_000_000);
        check(&pair);
    }
    assert_eq!(pair.b.counters().fast_opens_accepted, 1);
    assert_eq!(pair.pool.available(), frames);
}

/// RFC 7413, 4.1.3.1: a SYN that is too long for the path goes again without data, and the path's MTU is known from then on.
#[test]
fn syn_that_is_too_long_goes_again_without_data() {
    let mut pair = pair();
    let open = Open {
        fast_open: 4,
        ..Open::default()
    };
    let listener = pair.b().listen_with(PORT, 4, &open).unwrap();
    let opened = pair
        .a()
        .connect_with_data(to_b(PORT), &Open::default(), b"ask");
    let (client, _) = opened.unwrap();
    pair.settle();
    pair.a().abort(client).unwrap();
    pair.settle();
    assert_eq!(pair.b().accept(listener), Err(Error::WouldBlock));
    let request = pattern(5_000, 7);
    let opened = pair
        .a()
        .connect_with_data(to_b(PORT), &Open::default(), &request);
    let (client, _) = opened.unwrap();
    pair.poll_a();
    // A router takes the SYN.
    let mut taken = Vec::new();
    pair.cable.end(Side::B).receive(&mut pair.pool, &mut taken);
    let packet = pair.pool.frame(&taken[0])[14..].to_vec();
    assert!(packet.len() > 1400);
    for frame in taken {
        pair.pool.release(frame.id);
    }
    let error = Message::PacketTooBig { mtu: 1300 };
    let mut bytes = error.to_bytes().to_vec();
    bytes.extend_from_slice(&packet[..1232]);
    let sum = ipv6::pseudo_header(
        address_v6(9),
        address_v6(1),
        protocol::ICMP,
        bytes.len() as u32,
    ) + sum_header(&bytes);
    bytes[2..4].copy_from_slice(&sum.finish().to_ne_bytes());
    let header = ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: bytes.len() as u16,
        next_header: protocol::ICMP,
        hop_limit: 64,
        source: address_v6(9),
        destination: address_v6(1),
    };
    let ethernet = ethernet::Header {
        destination: pair.a.config().mac,
        source: pair.b.config().mac,
        ethertype: EtherType::Ipv6,
    };
    let frame = [&ethernet.to_bytes()[..], &header.to_bytes()[..], &bytes[..]].concat();
    let frame = pair.pool.frame_from(&frame).unwrap();
    pair.cable
        .end(Side::B)
        .transmit(&mut pair.pool, &mut vec![frame]);
    pair.pass(100_000_000);
    check(&pair);
    let server = pair.b().accept(listener).unwrap();
    assert!(pair.read_b(server) == request);
    let info = pair.a().info(client).unwrap();
    assert_eq!(
        (info.fast_open, info.mss),
        (FastOpen::Unanswered, 1300 - 60 - 12)
    );
}

#[test]
fn connection_is_refused_where_nobody_listens() {
    let mut pair = pair();
    let client = pair.a().connect(to_b(PORT)).unwrap();
    pair.settle();
    assert_eq!(pair.a().close(client), Err(Error::Refused));
    assert_eq!(pair.b.counters().resets_sent, 1);
}

#[test]
fn connection_to_nobody_is_unreachable() {
    let mut pair = pair();
    let client = pair.a().connect((address_v6(77), PORT)).unwrap();
    pair.pass(4_000_000_000);
    assert_eq!(pair.a().state(client), State::Closed);
    assert_eq!(pair.a().close(client), Err(Error::Unreachable));
    // Without a router nothing else is reached, and that is said at once.
    let far = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1);
    assert_eq!(pair.a().connect((far, PORT)), Err(Error::Unreachable));
}

#[test]
fn host_without_ipv6_neither_takes_nor_sends_it() {
    let mut pair = Pair::with(config_v6(1), config(2), 1500);
    pair.a().connect(to_b(PORT)).unwrap();
    pair.pass(2_000_000_000);
    assert!(pair.b.counters().drops(Drop::UnknownProtocol) > 0);
    assert_eq!(
        pair.b().connect((address_v6(1), PORT)),
        Err(Error::Unreachable)
    );
}

/// RFC 4862, 5.4: an address that is tried is not ours before a second has passed without a sign of another's.
#[test]
fn address_is_ours_once_it_has_been_tried() {
    let tried = |n| Config {
        ipv6: config_v6(n).ipv6.map(|ipv6| Ipv6 {
            duplicate_checks: 1,
            ..ipv6
        }),
        ..config_v6(n)
    };
    let mut pair = Pair::with(tried(1), tried(2), 1500);
    let states = |stack: &Stack| -> Vec<AddressState> {
        stack.ipv6_addresses().map(|own| own.state).collect()
    };
    assert_eq!(states(&pair.a), [AddressState::Tentative; 2]);
    assert_eq!(pair.a().connect(to_b(PORT)), Err(Error::Unreachable));
    pair.pass(2_100_000_000);
    assert_eq!(states(&pair.a), [AddressState::Preferred; 2]);
    let listener = pair.listen();
    pair.a().connect(to_b(PORT)).unwrap();
    pair.settle();
    assert!(pair.b().accept(listener).is_ok());
}

/// RFC 4862, 5.4: two hosts with one address never both have it.
#[test]
fn two_hosts_do_not_come_to_have_one_address() {
    let same = |n| Config {
        ipv6: Some(Ipv6 {
            address: Some((address_v6(9), 64)),
            router_advertisements: false,
            interface_id: InterfaceId::LinkAddress,
            ..Ipv6::default()
        }),
        ..config(n)
    };
    let mut pair = Pair::with(same(1), same(2), 1500);
    pair.pass(3_000_000_000);
    let owns = |stack: &Stack| {
        let mut own = stack.ipv6_addresses();
        own.any(|own| own.address == address_v6(9) && own.is_ours())
    };
    assert!(!owns(&pair.a) || !owns(&pair.b));
    let conflicts = pair.a.counters().address_conflicts + pair.b.counters().address_conflicts;
    assert!(conflicts > 0);
    // The link-local ones differ.
    let link_local = |stack: &Stack| stack.ipv6_addresses().filter(|own| own.is_ours()).count();
    assert!(link_local(&pair.a) >= 1 && link_local(&pair.b) >= 1);
}

#[test]
fn echo_is_answered_to_address_and_to_group() {
    let mut pair = pair();
    for to in [address_v6(2), "ff02::1".parse().unwrap()] {
        pair.a().ping(to, 7, 9, &[1, 2, 3]).unwrap();
        pair.settle();
        let echo = pair.a().next_echo().expect("an answer");
        assert_eq!((echo.identifier, echo.sequence), (7, 9));
        assert_eq!(echo.data, [1, 2, 3]);
        assert_eq!(pair.a().next_echo(), None);
    }
}

/// RFC 4291, 2.5.5.2; RFC 3493, 3.7 and 5.3.
#[test]
fn listeners_serve_one_version_or_both() {
    let mut pair = pair();
    let any_v4 = Open {
        local: Some("0.0.0.0".parse().unwrap()),
        ..Open::default()
    };
    let any = Open {
        local: Some("::".parse().unwrap()),
        ..Open::default()
    };
    let any_v6 = Open {
        ipv6_only: true,
        ..any
    };
    let both = pair.b().listen_with(100, 4, &any).unwrap();
    assert_eq!(pair.b().listen_with(100, 4, &any_v4), Err(Error::InUse));
    assert_eq!(pair.b().listen_with(100, 4, &any_v6), Err(Error::InUse));
    let v4 = pair.b().listen_with(101, 4, &any_v4).unwrap();
    let v6 = pair.b().listen_with(101, 4, &any_v6).unwrap();
    let own_v4 = pair.b.config().ip;
    let mapped: SocketAddr = (own_v4.to_ipv6_mapped(), 101).into();
    for to in [(own_v4, 100).into(), to_b(100), mapped, to_b(101)] {
        pair.a().connect(to).unwrap();
    }
    pair.settle();
    let mut remote = |listener| {
        let conn = pair.b().accept(listener).unwrap();
        pair.b().info(conn).unwrap().remote.is_ipv4()
    };
    assert_eq!([remote(both), remote(both)], [true, false]);
    assert_eq!([remote(v4), remote(v6)], [true, false]);
}

/// A listener whose backlog is full answers by cookies, which need nothing kept but the pair of addresses.
#[test]
fn cookies_open_connections() {
    let mut pair = pair();
    let listener = pair.b().listen(PORT, 1).unwrap();
    let clients: Vec<_> = (0..3)
        .map(|_| pair.a().connect(to_b(PORT)).unwrap())
        .collect();
    // Everything but the first finds the backlog full.
    pair.settle();
    // What the others send asks again for the room that was not there.
    for client in clients {
        pair.a().send(client, b"asks again").unwrap();
    }
    assert!(pair.b.counters().syn_cookies_sent > 0);
    let mut accepted = 0;
    for _ in 0..20 {
        while pair.b().accept(listener).is_ok() {
            accepted += 1;
        }
        pair.pass(500_000_000);
        check(&pair);
    }
    assert_eq!(accepted, 3);
}

/// Destinations come and go, and connections that stay keep theirs.
#[test]
fn destinations_that_nobody_names_make_room() {
    let mut pair = pair();
    let listener = pair.listen();
    let client = pair.a().connect(to_b(PORT)).unwrap();
    pair.settle();
    let server = pair.b().accept(listener).unwrap();
    for n in 1000..3000u16 {
        let nobody = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, n);
        let conn = pair.a().connect((nobody, PORT)).unwrap();
        pair.a().abort(conn).unwrap();
    }
    check(&pair);
    pair.a().send(client, b"still here").unwrap();
    pair.settle();
    assert_eq!(pair.read_b(server), b"still here");
    assert_eq!(pair.a().info(client).unwrap().remote, to_b(PORT));
}

/// RFC 4861, 7.3: half a minute after a neighbour was heard its next use asks it again, and a connection that lasts goes on.
#[test]
fn neighbour_that_went_stale_is_asked_again() {
    let mut pair = pair();
    let listener = pair.listen();
    let client = pair.a().connect(to_b(PORT)).unwrap();
    pair.settle();
    let server = pair.b().accept(listener).unwrap();
    for _ in 0..5 {
        pair.pass(100_000_000_000);
        pair.a().send(client, b"x").unwrap();
        pair.pass(10_000_000_000);
        assert_eq!(pair.read_b(server), b"x");
    }
    let solicited = pair.a.counters().drops(Drop::Unresolved);
    assert_eq!(solicited, 0);
}

#[test]
fn datagrams_go_both_ways_and_errors_come_back() {
    let mut pair = pair();
    let a = pair.a().udp_bind(1000).unwrap();
    let b = pair.b().udp_bind(2000).unwrap();
    pair.a().udp_send(a, to_b(2000), b"there").unwrap();
    pair.settle();
    let (from, bytes) = pair.b().udp_receive(b).unwrap();
    assert_eq!(
        (from, &bytes[..]),
        ((address_v6(1), 1000).into(), &b"there"[..])
    );
    pair.b().udp_send(b, from, b"back").unwrap();
    pair.settle();
    assert_eq!(pair.a().udp_receive(a).unwrap().1, b"back");
    pair.a().udp_send(a, to_b(2001), b"nobody").unwrap();
    pair.settle();
    assert_eq!(pair.a().udp_receive(a), Err(Error::Refused));
}

/// RFC 3168, 5 and RFC 8200, 7: the field for marks is the two lowest bits of the traffic class.
#[test]
fn marks_of_congestion_lie_in_the_traffic_class() {
    let ecn = |n| {
        let mut config = config_v6(n);
        config.mechanisms.ecn = Ecn::Classic;
        config
    };
    let mut pair = Pair::with(ecn(1), ecn(2), 1500);
    let listener = pair.listen();
    let client = pair.a().connect(to_b(PORT)).unwrap();
    pair.settle();
    let server = pair.b().accept(listener).unwrap();
    assert!(pair.b().info(server).unwrap().ecn);
    let before = pair.a().info(client).unwrap();
    assert!(before.ecn);
    let bytes = pattern(1_000, 3);
    pair.a().send(client, &bytes).unwrap();
    pair.poll_a();
    let mut cable = pair.cable.end(Side::B);
    let frames = cable.arrived().expect("a cable has its frames in a vector");
    assert_eq!(frames.len(), 1);
    // The version has four bits; a router on the way sets both of the field.
    let class = &mut pair.pool.bytes_mut(frames[0].id)[usize::from(frames[0].offset) + 15];
    assert_eq!(*class >> 4 & 0b11, 0b10);
    *class |= 0b11 << 4;
    pair.pass(500_000_000);
    assert_eq!(pair.read_b(server), bytes);
    let after = pair.a().info(client).unwrap();
    assert!(
        after.congestion_window < before.congestion_window,
        "{} of {}",
        after.congestion_window,
        before.congestion_window
    );
    check(&pair);
}

/// Whoever sleeps until the next deadline does not wake over and over for what is looked at in the next tick.
#[test]
fn deadline_is_not_in_the_past_once_a_tick_was_polled() {
    let mut pair = pair();
    let now = pair.now;
    pair.settle();
    for stack in [&pair.a, &pair.b] {
        let next = stack.next_deadline(now);
        assert!(next.is_none_or(|next| next > now), "{next:?}");
    }
}
