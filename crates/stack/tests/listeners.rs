//! Listeners: their events, their backlog, and connections that leave before they are accepted.

mod common;
#[path = "sim/craft.rs"]
#[allow(dead_code)]
mod craft;

use common::{PORT, Pair, config};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use tollgate_link::Side;
use tollgate_stack::{ConnId, Error, Event, Link, ListenerId, Pool, State};
use tollgate_wire::ethernet::MacAddr;
use tollgate_wire::tcp::{Flags, Options};
use tollgate_wire::{SeqNumber, tcp};

/// The server's link address and address.
const MAC_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// A network that the server reaches by way of host A.
const FAR: u32 = 0xc000_0000;

fn far(n: u32) -> Ipv4Addr {
    Ipv4Addr::from(FAR + n)
}

/// A server with a router that everybody far away is behind.
fn server(frames: usize, backlog: u16) -> (Pair, ListenerId) {
    let mut b = config(2);
    b.gateway = Some(Ipv4Addr::new(10, 0, 0, 1));
    b.max_connections = usize::from(u16::MAX) + 16;
    let mut pair = Pair::with(config(1), b, common::MTU);
    pair.pool = Pool::new(frames, 2048);
    pair.b()
        .add_neighbour(Ipv4Addr::new(10, 0, 0, 1), MacAddr([2, 0, 0, 0, 0, 1]));
    let listener = pair.b().listen(PORT, backlog).unwrap();
    (pair, listener)
}

/// Gives B a segment from far away, and returns what B sends because of it.
fn inject(pair: &mut Pair, from: u32, flags: Flags, seq: u32, ack: u32) -> Vec<tcp::Header> {
    let header = tcp::Header {
        options: Options {
            mss: flags.has(Flags::SYN).then_some(1460),
            ..Options::default()
        },
        ..craft::header(1000, PORT, flags, SeqNumber(seq), SeqNumber(ack))
    };
    let bytes = craft::tcp(MAC_B, far(from), B, &header, &[]);
    let mut burst = vec![pair.pool.frame_from(&bytes).unwrap()];
    pair.cable.end(Side::A).transmit(&mut pair.pool, &mut burst);
    pair.poll_b();
    let mut sent = Vec::new();
    pair.cable.end(Side::A).receive(&mut pair.pool, &mut sent);
    sent.into_iter()
        .filter_map(|frame| {
            let parsed = craft::parse_tcp(pair.pool.frame(&frame));
            pair.pool.release(frame.id);
            parsed.map(|(_, header, _)| header)
        })
        .collect()
}

/// The listener's handshake with `from`; the sequence number of B's SYN.
fn shake_hands(pair: &mut Pair, from: u32) -> u32 {
    let sent = inject(pair, from, Flags::SYN, 0, 0);
    let answer = sent.iter().find(|header| header.flags.has(Flags::SYN));
    let iss = answer.expect("a SYN,ACK").seq.0;
    inject(pair, from, Flags::ACK, 1, iss + 1);
    iss
}

fn remote(pair: &mut Pair, conn: ConnId) -> IpAddr {
    pair.b().info(conn).unwrap().remote.ip()
}

/// The events that B has, of listeners only.
fn told(pair: &mut Pair) -> Vec<(ListenerId, u64)> {
    std::iter::from_fn(|| pair.b().next_event())
        .filter_map(|event| match event {
            Event::Listener { listener, token } => Some((listener, token)),
            Event::Connection { .. } | Event::Datagrams { .. } => None,
        })
        .collect()
}

#[test]
fn listener_event_comes_once_until_accept_is_called() {
    let (mut pair, listener) = server(1024, 16);
    assert_eq!(told(&mut pair), []);
    inject(&mut pair, 0, Flags::SYN, 0, 0);
    // Half open is not yet to be accepted.
    assert_eq!(told(&mut pair), []);
    shake_hands(&mut pair, 1);
    shake_hands(&mut pair, 2);
    assert_eq!(told(&mut pair), [(listener, 0)]);
    shake_hands(&mut pair, 3);
    assert_eq!(told(&mut pair), []);
    let accepted = std::iter::from_fn(|| pair.b().accept(listener).ok()).count();
    assert_eq!(accepted, 3);
    assert_eq!(told(&mut pair), []);
    shake_hands(&mut pair, 4);
    assert_eq!(told(&mut pair), [(listener, 0)]);
}

#[test]
fn listener_event_comes_again_when_accept_leaves_connections() {
    let (mut pair, listener) = server(1024, 16);
    for n in 0..3 {
        shake_hands(&mut pair, n);
    }
    for n in 0..3 {
        assert_eq!(told(&mut pair), [(listener, 0)]);
        let conn = pair.b().accept(listener).unwrap();
        assert_eq!(remote(&mut pair, conn), far(n));
    }
    assert_eq!(told(&mut pair), []);
}

#[test]
fn listener_event_comes_for_a_connection_between_accept_and_the_next_event() {
    let (mut pair, listener) = server(1024, 16);
    shake_hands(&mut pair, 0);
    assert_eq!(told(&mut pair), [(listener, 0)]);
    // Nobody has seen the queue empty: the last accept has taken the only one.
    pair.b().accept(listener).unwrap();
    shake_hands(&mut pair, 1);
    assert_eq!(told(&mut pair), [(listener, 0)]);
    pair.b().accept(listener).unwrap();
    assert_eq!(pair.b().accept(listener), Err(Error::WouldBlock));
    shake_hands(&mut pair, 2);
    assert_eq!(told(&mut pair), [(listener, 0)]);
}

#[test]
fn listener_event_needs_a_connection_that_still_waits() {
    let (mut pair, listener) = server(1024, 16);
    let iss = shake_hands(&mut pair, 0);
    inject(&mut pair, 0, Flags::RST, 1, iss + 1);
    assert_eq!(told(&mut pair), []);
    shake_hands(&mut pair, 1);
    assert_eq!(told(&mut pair), [(listener, 0)]);
}

#[test]
fn listener_event_carries_the_token_of_its_listener() {
    let (mut pair, listener) = server(1024, 16);
    let other = pair.b().listen(PORT + 1, 16).unwrap();
    pair.b().set_listener_token(listener, 70).unwrap();
    pair.b().set_listener_token(other, 80).unwrap();
    shake_hands(&mut pair, 0);
    pair.a().connect(SocketAddrV4::new(B, PORT + 1)).unwrap();
    pair.settle();
    assert_eq!(told(&mut pair), [(listener, 70), (other, 80)]);
    // A connection's own token is not touched by the time in the queue.
    let conn = pair.b().accept(listener).unwrap();
    let event = pair.b().next_event().unwrap();
    assert!(
        matches!(event, Event::Connection { conn: told, token: 0, ready } if told == conn && ready.connected())
    );
    pair.b().close_listener(other).unwrap();
    assert_eq!(
        pair.b().set_listener_token(other, 1),
        Err(Error::NotConnected)
    );
}

#[test]
fn listener_event_is_not_told_of_a_closed_listener() {
    let (mut pair, mut listener) = server(1024, 16);
    for n in 0..3 {
        shake_hands(&mut pair, n);
        pair.b().close_listener(listener).unwrap();
        // The next one takes the same place.
        listener = pair.b().listen(PORT, 16).unwrap();
    }
    assert_eq!(told(&mut pair), []);
    shake_hands(&mut pair, 4);
    assert_eq!(told(&mut pair), [(listener, 0)]);
}

#[test]
fn backlog_of_65535_counts_what_comes_by_cookies() {
    // Room for a SYN,ACK each, and to spare.
    let (mut pair, listener) = server(1 << 17, u16::MAX);
    for n in 0..u32::from(u16::MAX) {
        inject(&mut pair, n, Flags::SYN, 0, 0);
    }
    assert_eq!(pair.b.connections(), usize::from(u16::MAX));
    assert_eq!(pair.b.counters().syn_cookies_sent, 0);
    // The next ones are answered by cookies; one of them comes back, and leaves the count as it was.
    let late = u32::from(u16::MAX);
    shake_hands(&mut pair, late);
    assert_eq!(pair.b.counters().syn_cookies_accepted, 1);
    inject(&mut pair, late + 1, Flags::SYN, 0, 0);
    assert_eq!(pair.b.counters().syn_cookies_sent, 2);
    let conn = pair.b().accept(listener).unwrap();
    assert_eq!(remote(&mut pair, conn), far(late));
}

#[test]
fn queue_keeps_its_order_when_some_leave() {
    let (mut pair, listener) = server(1024, 16);
    let numbers: Vec<u32> = (0..6).map(|n| shake_hands(&mut pair, n)).collect();
    // The first, one in the middle, and the last.
    for n in [0, 3, 5] {
        inject(&mut pair, n, Flags::RST, 1, numbers[n as usize] + 1);
    }
    assert_eq!(pair.b.connections(), 3);
    let seven = shake_hands(&mut pair, 7);
    let next = |pair: &mut Pair| {
        let conn = pair.b().accept(listener)?;
        Ok(remote(pair, conn))
    };
    assert_eq!(next(&mut pair), Ok(far(1).into()));
    inject(&mut pair, 7, Flags::RST, 1, seven + 1);
    shake_hands(&mut pair, 8);
    assert_eq!(next(&mut pair), Ok(far(2).into()));
    assert_eq!(next(&mut pair), Ok(far(4).into()));
    assert_eq!(next(&mut pair), Ok(far(8).into()));
    assert_eq!(next(&mut pair), Err(Error::WouldBlock));
}

#[test]
fn backlog_has_room_again_when_some_leave() {
    let (mut pair, _) = server(1024, 4);
    let complete: Vec<u32> = (0..2).map(|n| shake_hands(&mut pair, n)).collect();
    let half: Vec<u32> = (2..4)
        .map(|n| inject(&mut pair, n, Flags::SYN, 0, 0)[0].seq.0)
        .collect();
    assert_eq!(pair.b.counters().syn_cookies_sent, 0);
    inject(&mut pair, 4, Flags::SYN, 0, 0);
    assert_eq!(pair.b.counters().syn_cookies_sent, 1);
    inject(&mut pair, 0, Flags::RST, 1, complete[0] + 1);
    inject(&mut pair, 3, Flags::RST, 1, half[1] + 1);
    inject(&mut pair, 5, Flags::SYN, 0, 0);
    inject(&mut pair, 6, Flags::SYN, 0, 0);
    assert_eq!(pair.b.counters().syn_cookies_sent, 1);
    inject(&mut pair, 7, Flags::SYN, 0, 0);
    assert_eq!(pair.b.counters().syn_cookies_sent, 2);
}

#[test]
fn close_listener_resets_its_own_connections_only() {
    let (mut pair, listener) = server(1024, 16);
    let other = pair.b().listen(PORT + 1, 16).unwrap();
    let client = |pair: &mut Pair| {
        let conn = pair.a().connect(SocketAddrV4::new(B, PORT + 1)).unwrap();
        pair.settle();
        conn
    };
    let waiting = client(&mut pair);
    shake_hands(&mut pair, 0);
    let accepted = pair.b().accept(listener).unwrap();
    shake_hands(&mut pair, 1);
    inject(&mut pair, 2, Flags::SYN, 0, 0);
    shake_hands(&mut pair, 3);
    assert_eq!(pair.b.connections(), 5);

    pair.b().close_listener(listener).unwrap();
    assert_eq!(pair.b().close_listener(listener), Err(Error::NotConnected));
    assert_eq!(pair.b.connections(), 2);
    assert_eq!(pair.b().state(accepted), State::Established);
    pair.poll_b();
    let mut sent = Vec::new();
    pair.cable.end(Side::A).receive(&mut pair.pool, &mut sent);
    let mut reset: Vec<_> = sent
        .iter()
        .filter_map(|frame| craft::parse_tcp(pair.pool.frame(frame)))
        .map(|(ip, header, _)| {
            assert!(header.flags.has(Flags::RST));
            ip.destination
        })
        .collect();
    for frame in sent {
        pair.pool.release(frame.id);
    }
    reset.sort();
    assert_eq!(reset, [far(1), far(2), far(3)]);
    let server = pair.b().accept(other).unwrap();
    assert_eq!(remote(&mut pair, server), pair.a.config().ip);
    assert_eq!(pair.a().state(waiting), State::Established);
}

/// RFC 4987, 3.6: a cookie is for a backlog that half-open connections fill. Where complete ones do, the SYN stays unanswered: a client
/// that has its answer would wait for ever for a server that is to speak first.
#[test]
fn a_client_is_answered_when_there_is_room_to_queue_it() {
    let (mut pair, listener) = server(256, 1);
    shake_hands(&mut pair, 1);
    assert!(inject(&mut pair, 2, Flags::SYN, 0, 0).is_empty());
    assert_eq!(pair.b.counters().syn_cookies_sent, 0);
    pair.b().accept(listener).unwrap();
    shake_hands(&mut pair, 2);
    assert!(pair.b().accept(listener).is_ok());
}

/// The table of connections is full: a cookie could not become a connection, so the SYN stays unanswered and comes again.
#[test]
fn a_full_table_answers_no_syn() {
    let mut b = config(2);
    b.gateway = Some(Ipv4Addr::new(10, 0, 0, 1));
    b.max_connections = 1;
    let mut pair = Pair::with(config(1), b, common::MTU);
    pair.b()
        .add_neighbour(Ipv4Addr::new(10, 0, 0, 1), MacAddr([2, 0, 0, 0, 0, 1]));
    let listener = pair.b().listen(PORT, 8).unwrap();
    shake_hands(&mut pair, 1);
    let conn = pair.b().accept(listener).unwrap();
    assert!(inject(&mut pair, 2, Flags::SYN, 0, 0).is_empty());
    pair.b().abort(conn).unwrap();
    shake_hands(&mut pair, 2);
    assert!(pair.b().accept(listener).is_ok());
}
