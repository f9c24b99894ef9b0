//! Connections from a local port of the application's own choice (RFC 9293, 3.9.1.1: the local port of OPEN).

mod common;

use common::{PORT, Pair, config};
use std::net::{Ipv4Addr, SocketAddrV4};
use tollgate_stack::{ConnId, Error, Open, State};

const FROM: u16 = 1021;

fn from(port: u16) -> Open<'static> {
    Open {
        local_port: Some(port),
        ..Open::default()
    }
}

fn open(pair: &mut Pair, to_port: u16) -> Result<ConnId, Error> {
    let to = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), to_port);
    let opened = pair.a().connect_with(to, &from(FROM));
    pair.settle();
    opened
}

#[test]
fn local_port_is_that_of_the_connection() {
    let mut pair = Pair::new();
    let listener = pair.listen();
    let client = open(&mut pair, PORT).unwrap();
    assert_eq!(pair.a().state(client), State::Established);
    assert_eq!(pair.a().info(client).unwrap().local.port(), FROM);
    let server = pair.b().accept(listener).unwrap();
    assert_eq!(pair.b().info(server).unwrap().remote.port(), FROM);
}

#[test]
fn local_port_may_serve_several_peers_but_each_once() {
    let mut pair = Pair::new();
    pair.listen();
    pair.b().listen(PORT + 1, 4).unwrap();
    let first = open(&mut pair, PORT).unwrap();
    assert_eq!(open(&mut pair, PORT), Err(Error::InUse));
    let second = open(&mut pair, PORT + 1).unwrap();
    assert_eq!(pair.a().state(second), State::Established);
    assert_eq!(pair.a.connections(), 2);
    // From another of the stack's addresses it is another connection.
    let other = Ipv4Addr::new(10, 0, 0, 11);
    pair.a.add_address(other, 24).unwrap();
    let to = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), PORT);
    let open_there = Open {
        local: Some(other.into()),
        ..from(FROM)
    };
    let third = pair.a().connect_with(to, &open_there).unwrap();
    pair.settle();
    assert_eq!(pair.a().state(third), State::Established);
    pair.a().abort(first).unwrap();
    pair.settle();
    assert!(open(&mut pair, PORT).is_ok());
}

/// Closes a connection from A; TIME-WAIT is A's.
fn close(pair: &mut Pair, client: ConnId, server: ConnId) {
    pair.a().close(client).unwrap();
    pair.settle();
    pair.b().close(server).unwrap();
    pair.settle();
    assert_eq!(pair.a.time_waits(), 1);
}

#[test]
fn local_port_in_time_wait_is_used_again_by_newer_timestamps() {
    let mut pair = Pair::new();
    let listener = pair.listen();
    let client = open(&mut pair, PORT).unwrap();
    let server = pair.b().accept(listener).unwrap();
    close(&mut pair, client, server);
    // RFC 6191: in the same tick the peer could not tell the new SYN from an old one.
    assert_eq!(open(&mut pair, PORT), Err(Error::InUse));
    pair.pass(10_000_000);
    let client = open(&mut pair, PORT).unwrap();
    assert_eq!(pair.a().state(client), State::Established);
    assert_eq!(pair.a.time_waits(), 0);
}

#[test]
fn local_port_in_time_wait_is_refused_without_timestamps() {
    let mut a = config(1);
    a.timestamps = false;
    let mut pair = Pair::with(a, config(2), common::MTU);
    let listener = pair.listen();
    let client = open(&mut pair, PORT).unwrap();
    let server = pair.b().accept(listener).unwrap();
    close(&mut pair, client, server);
    pair.pass(10_000_000);
    assert_eq!(open(&mut pair, PORT), Err(Error::InUse));
    assert_eq!(pair.a.time_waits(), 1);
    pair.pass(61_000_000_000);
    assert!(open(&mut pair, PORT).is_ok());
}

#[test]
fn local_port_zero_is_refused() {
    let mut pair = Pair::new();
    let to = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), PORT);
    assert_eq!(pair.a().connect_with(to, &from(0)), Err(Error::BadAddress));
    assert_eq!(pair.a.connections(), 0);
}

#[test]
fn local_port_of_a_listener_is_its_own_argument() {
    let mut pair = Pair::new();
    assert_eq!(
        pair.b().listen_with(PORT, 4, &from(FROM)),
        Err(Error::BadOption)
    );
}
