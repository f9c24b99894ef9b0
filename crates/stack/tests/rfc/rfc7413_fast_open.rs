//! TCP Fast Open at the server (RFC 7413).

use crate::peer::*;
use tollgate_stack::{ConnId, Error, ListenerId, Open, Received, State};
use tollgate_wire::tcp::{FastOpenCookie, Flags};

/// A host with a listener that takes data in SYNs of `limit` connections.
fn listening(limit: u16) -> (Peer, ListenerId) {
    let mut peer = Peer::new();
    let open = Open {
        fast_open: limit,
        ..Open::default()
    };
    let listener = peer
        .stack()
        .listen_with(PORT, 16, &open)
        .expect("the port is free");
    (peer, listener)
}

fn asking(mut first: Seg, cookie: FastOpenCookie) -> Seg {
    first.options.fast_open = Some(cookie);
    first
}

/// The cookie that the server gives a peer who asks.
fn cookie(peer: &mut Peer) -> FastOpenCookie {
    peer.port += 1;
    peer.inject(asking(syn().mss(MSS), FastOpenCookie::REQUEST));
    let answer = peer.expect(syn_ack().seq(0).ack(1));
    let cookie = answer.header.options.fast_open.expect("a cookie");
    peer.inject(rst_ack().seq(1).ack(1));
    peer.port += 1;
    cookie
}

/// A SYN with a cookie and ten bytes.
fn with_data(cookie: FastOpenCookie) -> Seg {
    asking(syn().mss(MSS), cookie).data(&stream(1, 10))
}

/// Holds what the stack keeps twice against each other.
fn check(peer: &Peer) {
    let verdict = peer.stack.check_consistency(&peer.pool);
    assert!(verdict.is_ok(), "{verdict:?}");
}

fn accept(peer: &mut Peer, listener: ListenerId) -> Result<ConnId, Error> {
    check(peer);
    let accepted = peer.stack().accept(listener);
    check(peer);
    accepted
}

/// TFO-1. RFC 7413, 4.1.1, 4.2.1: a client that asks is given a cookie of 4 to 16 bytes, which depends on its address.
#[test]
fn cookie_is_given_to_who_asks() {
    let (mut peer, _) = listening(4);
    let first = cookie(&mut peer);
    assert_eq!(first.as_slice().len(), 8);
    // It is the address's, whatever the port.
    assert_eq!(cookie(&mut peer), first);
    // Another host gives another one.
    let mut other = Peer::with(|config| config.seed = [9, 9, 9, 9]);
    let open = Open {
        fast_open: 4,
        ..Open::default()
    };
    assert!(other.stack().listen_with(PORT, 4, &open).is_ok());
    assert_ne!(cookie(&mut other), first);
}

/// TFO-2. RFC 7413, 4.1.1: without Fast Open the option means nothing, and nothing is said of it.
#[test]
fn cookie_is_not_given_where_fast_open_is_off() {
    let mut peer = Peer::new();
    let listener = peer.listen();
    peer.inject(asking(syn().mss(MSS), FastOpenCookie::REQUEST).len(10));
    let answer = peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(answer.header.options.fast_open, None);
    assert_eq!(accept(&mut peer, listener), Err(Error::WouldBlock));
}

/// TFO-3. RFC 7413, 4.2.2: with a valid cookie the data is acknowledged with the SYN and delivered, and the server may answer before
/// the handshake is complete.
#[test]
fn request_in_a_syn_is_answered_before_the_handshake_is_complete() {
    let (mut peer, listener) = listening(4);
    let cookie = cookie(&mut peer);
    peer.inject(with_data(cookie));
    let answer = peer.expect(syn_ack().seq(0).ack(11));
    assert_eq!(answer.header.options.fast_open, None);
    let conn = accept(&mut peer, listener).expect("it can be accepted");
    assert_eq!(peer.state(conn), State::SynReceived);
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    peer.send(conn, 1, 300);
    peer.expect(ack().flag(Flags::PSH).seq(1).ack(11).len(300));
    peer.send(conn, 301, 1000);
    peer.expect(ack().seq(301).ack(11).len(1000));
    check(&peer);
    // The acknowledgment of the answer completes the handshake.
    peer.inject(ack().seq(11).ack(1301));
    check(&peer);
    assert_eq!(peer.state(conn), State::Established);
    let told = peer.stack().info(conn).expect("it is there");
    assert_eq!((told.bytes_acknowledged, told.bytes_received), (1300, 10));
    assert_eq!(told.in_flight, 0);
    // From here on it is a connection as any other, Nagle's algorithm included.
    peer.send(conn, 1301, 10);
    peer.expect(ack().seq(1301).ack(11).len(10));
    peer.send(conn, 1311, 10);
    peer.expect_nothing();
    peer.inject(ack().seq(11).ack(1311).len(5));
    peer.expect(ack().seq(1311).ack(16).len(10));
    assert_eq!(peer.stack.counters().fast_opens_accepted, 1);
}

/// TFO-4. RFC 7413, 4.2.2: the data of a SYN whose cookie is not valid is not acknowledged; the answer brings a valid one.
#[test]
fn data_with_a_made_up_cookie_is_left_to_be_sent_again() {
    let (mut peer, listener) = listening(4);
    let good = cookie(&mut peer);
    peer.inject(with_data(FastOpenCookie::of_eight([7; 8])));
    let answer = peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(answer.header.options.fast_open, Some(good));
    assert_eq!(accept(&mut peer, listener), Err(Error::WouldBlock));
    peer.inject(ack().seq(1).ack(1).data(&stream(1, 10)));
    let conn = accept(&mut peer, listener).expect("it is complete");
    assert_eq!(peer.read(conn, 100), stream(1, 10));
}

/// TFO-5. RFC 7413, 4.1.2: cookies expire; here one is good in its hour and the next.
#[test]
fn cookie_expires() {
    let (mut peer, _) = listening(4);
    let old = cookie(&mut peer);
    peer.advance(s(3600));
    peer.inject(with_data(old));
    peer.expect(syn_ack().seq(0).ack(11));
    peer.inject(rst_ack().seq(11).ack(1));
    peer.port += 1;
    peer.advance(s(3600));
    peer.inject(with_data(old));
    let answer = peer.expect(syn_ack().seq(0).ack(1));
    assert!(
        answer
            .header
            .options
            .fast_open
            .is_some_and(|new| new != old)
    );
}

/// TFO-6. RFC 7413, 5.1: the number of connections with early data is limited; beyond that the data is left to be sent again. One
/// that its client resets goes on counting for a while.
#[test]
fn connections_with_early_data_are_limited() {
    let (mut peer, listener) = listening(2);
    let cookie = cookie(&mut peer);
    peer.inject(with_data(cookie));
    peer.expect(syn_ack().seq(0).ack(11));
    peer.port += 1;
    peer.inject(with_data(cookie));
    peer.expect(syn_ack().seq(0).ack(11));
    // The second is reset, and still counts.
    peer.inject(rst().seq(11));
    peer.port += 1;
    peer.inject(with_data(cookie));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.inject(rst().seq(1));
    peer.port += 1;
    peer.advance(ms(60_500));
    peer.ignore();
    peer.inject(with_data(cookie));
    peer.expect(syn_ack().seq(0).ack(11));
    // Who completes the handshake makes room.
    peer.inject(ack().seq(11).ack(1));
    check(&peer);
    peer.port += 1;
    peer.inject(with_data(cookie));
    peer.expect(syn_ack().seq(0).ack(11));
    peer.inject(ack().seq(11).ack(1));
    while let Ok(conn) = accept(&mut peer, listener) {
        peer.stack().abort(conn).expect("it is there");
    }
    peer.ignore();
}

/// TFO-7. RFC 7413, 4.2.2: a SYN that comes again is answered again; its data is not delivered twice to one connection.
#[test]
fn syn_that_comes_again_delivers_nothing_twice() {
    let (mut peer, listener) = listening(4);
    let cookie = cookie(&mut peer);
    peer.inject(with_data(cookie));
    peer.expect(syn_ack().seq(0).ack(11));
    let conn = accept(&mut peer, listener).expect("it can be accepted");
    peer.inject(with_data(cookie));
    peer.expect(syn_ack().seq(0).ack(11));
    // So it is after a timeout of the server's, which does not send its answer before the handshake's.
    peer.wait(s(10));
    peer.expect(syn_ack().seq(0).ack(11));
    peer.inject(ack().seq(11).ack(1));
    assert_eq!(peer.state(conn), State::Established);
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    let mut buffer = [0; 10];
    assert_eq!(
        peer.stack().receive(conn, &mut buffer),
        Ok(Received::Nothing)
    );
}

/// An application that closes at once still sends its answer.
#[test]
fn answer_and_end_may_come_before_the_handshake() {
    let (mut peer, listener) = listening(4);
    let cookie = cookie(&mut peer);
    peer.inject(with_data(cookie));
    peer.expect(syn_ack().seq(0).ack(11));
    let conn = accept(&mut peer, listener).expect("it can be accepted");
    peer.read(conn, 100);
    peer.send(conn, 1, 20);
    peer.expect(ack().seq(1).ack(11).len(20));
    assert_eq!(peer.stack().close(conn), Ok(()));
    peer.poll();
    peer.expect(fin().seq(21).ack(11));
    peer.inject(fin().seq(11).ack(22));
    peer.advance(ms(2));
    peer.expect(ack().seq(22).ack(12));
    assert_eq!(peer.stack.connections(), 0);
}

/// A client that resets is reported as such, and leaves nothing behind.
#[test]
fn reset_before_the_handshake_is_told() {
    let (mut peer, listener) = listening(4);
    let cookie = cookie(&mut peer);
    peer.inject(with_data(cookie));
    peer.expect(syn_ack().seq(0).ack(11));
    let conn = accept(&mut peer, listener).expect("it can be accepted");
    peer.inject(rst().seq(11));
    assert_eq!(peer.state(conn), State::Closed);
    peer.read(conn, 100);
    assert_eq!(peer.stack().close(conn), Err(Error::Reset));
    // Nor does one that nobody has accepted.
    peer.port += 1;
    peer.inject(with_data(cookie));
    peer.expect(syn_ack().seq(0).ack(11));
    peer.inject(rst().seq(11));
    assert_eq!(accept(&mut peer, listener), Err(Error::WouldBlock));
    assert_eq!(peer.stack.connections(), 0);
    assert_eq!(peer.pool.available(), peer.pool.capacity());
}

/// A connection whose listener is closed before its handshake is complete is counted by no other listener (RFC 7413, 5.1).
#[test]
fn connection_of_a_closed_listener_is_counted_by_no_other() {
    for ends_by_reset in [false, true] {
        let (mut peer, first) = listening(1);
        let cookie = cookie(&mut peer);
        peer.inject(with_data(cookie));
        peer.expect(syn_ack().seq(0).ack(11));
        let conn = accept(&mut peer, first).expect("it can be accepted");
        let of_first = (peer.port, peer.iss);
        assert_eq!(peer.stack().close_listener(first), Ok(()));
        check(&peer);
        // The next listener takes its place, and its one early connection.
        let open = Open {
            fast_open: 1,
            ..Open::default()
        };
        let second = peer.stack().listen_with(PORT, 16, &open);
        let second = second.expect("the port is free");
        check(&peer);
        peer.port += 1;
        peer.inject(with_data(cookie));
        peer.expect(syn_ack().seq(0).ack(11));
        accept(&mut peer, second).expect("it can be accepted");
        // The first connection goes on as before.
        (peer.port, peer.iss) = of_first;
        if ends_by_reset {
            peer.inject(rst().seq(11));
        } else {
            peer.inject(ack().seq(11).ack(1));
            assert_eq!(peer.state(conn), State::Established);
            assert_eq!(peer.read(conn, 100), stream(1, 10));
        }
        check(&peer);
        // The second listener has no room still.
        peer.port += 2;
        peer.inject(with_data(cookie));
        peer.expect(syn_ack().seq(0).ack(1));
    }
}
