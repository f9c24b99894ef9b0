//! Calls of sockets where two of them meet: what one holds, limits or asks for, and what the next one makes of it.

use crate::peer::*;
use tollgate_stack::socket::KeepAlive;
use tollgate_stack::{Boundary, ConnId, Error, Open, Received, SocketOption, State};
use tollgate_wire::tcp::{FastOpenCookie, Flags};

const KEEP: KeepAlive = KeepAlive {
    idle: s(8),
    interval: s(1),
    count: 3,
};

fn set(peer: &mut Peer, conn: ConnId, option: SocketOption) {
    assert_eq!(peer.stack().set_option(conn, option), Ok(()));
    peer.poll();
}

/// A call that says that more follows, whose bytes wait.
fn hold(peer: &mut Peer, conn: ConnId, bytes: usize) {
    let data = stream(1, bytes);
    let taken = peer.stack().send_with(conn, &data, Boundary::More);
    assert_eq!(taken, Ok(bytes));
    peer.poll();
    peer.expect_nothing();
}

/// The end is told when everything has been read, also to a reader whose buffer has no room.
#[test]
fn posted_buffer_without_room_leaves_what_arrives() {
    let (mut peer, conn) = Peer::established();
    peer.leave([ack().seq(1).ack(1).len(10), fin().seq(11).ack(1)]);
    assert_eq!(peer.poll_receive(conn, &mut []), Ok(Received::Nothing));
    peer.expect(ack().seq(1).ack(12));
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    assert_eq!(peer.poll_receive(conn, &mut []), Ok(Received::End));
    // So it is with an error.
    let (mut peer, conn) = Peer::established();
    peer.leave([ack().seq(1).ack(1).len(10), rst().seq(11)]);
    assert_eq!(peer.poll_receive(conn, &mut []), Ok(Received::Nothing));
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    assert_eq!(peer.poll_receive(conn, &mut []), Err(Error::Reset));
}

/// Small writes that go behind a segment that Nagle's algorithm holds are bounded as all others.
#[test]
fn low_water_mark_bounds_small_writes() {
    for set_late in [false, true] {
        let (mut peer, conn) = Peer::established();
        let low_water = SocketOption::NotSentLowWater(Some(100));
        if !set_late {
            set(&mut peer, conn, low_water);
        }
        peer.send(conn, 1, 10);
        peer.expect(ack().seq(1).ack(1).len(10));
        peer.send(conn, 11, 100);
        if set_late {
            set(&mut peer, conn, low_water);
        }
        peer.expect_nothing();
        let refused = peer.stack().send(conn, &stream(111, 1));
        assert_eq!(refused, Err(Error::WouldBlock));
    }
}

#[test]
fn low_water_mark_bounds_urgent_data() {
    let (mut peer, conn) = Peer::established();
    set(&mut peer, conn, SocketOption::NotSentLowWater(Some(100)));
    peer.inject(ack().seq(1).ack(1).win(0));
    let data = stream(1, 1000);
    assert_eq!(peer.stack().send_urgent(conn, &data), Ok(100));
    peer.poll();
    peer.expect(ack().flag(Flags::URG).seq(1).ack(1));
    assert_eq!(
        peer.stack().send_urgent(conn, &data[100..]),
        Err(Error::WouldBlock)
    );
}

/// The call after the one that says that more follows ends the wait, also where a window holds the bytes.
#[test]
fn more_ends_behind_a_window() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).win(2000));
    let data = stream(1, 2500);
    assert_eq!(
        peer.stack().send_with(conn, &data, Boundary::More),
        Ok(2500)
    );
    peer.poll();
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.expect(ack().seq(1001).ack(1).len(1000));
    peer.send(conn, 2501, 100);
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(2001).win(2000));
    peer.expect(ack().seq(2001).ack(1).len(600));
}

#[test]
fn urgent_data_ends_more() {
    let (mut peer, conn) = Peer::established();
    hold(&mut peer, conn, 10);
    assert_eq!(peer.stack().send_urgent(conn, &stream(11, 10)), Ok(10));
    peer.poll();
    peer.expect(ack().flag(Flags::URG).seq(1).ack(1).len(20));
}

/// A call ends the wait for more, and its own bytes are refused: nothing else would ever let those go that waited.
#[test]
fn bytes_that_waited_for_more_go_where_more_is_refused() {
    for urgent in [false, true] {
        let (mut peer, conn) = Peer::established();
        set(&mut peer, conn, SocketOption::NotSentLowWater(Some(100)));
        hold(&mut peer, conn, 100);
        let refused = if urgent {
            peer.stack().send_urgent(conn, &stream(101, 1))
        } else {
            peer.stack().send(conn, &stream(101, 1))
        };
        assert_eq!(refused, Err(Error::WouldBlock));
        peer.poll();
        peer.expect(ack().seq(1).ack(1).len(100));
        while peer.next_ready().is_some() {}
        peer.inject(ack().seq(1).ack(101));
        let (_, ready) = peer.next_ready().expect("there is room");
        assert!(ready.writable());
    }
}

#[test]
fn bytes_that_waited_for_more_go_with_an_empty_buffer() {
    let (mut peer, conn) = Peer::established();
    hold(&mut peer, conn, 100);
    let empty = peer.stack().pool().buffer(0).expect("there are frames");
    assert_eq!(peer.stack().send_buffer(conn, empty), Ok(()));
    peer.poll();
    peer.expect(ack().seq(1).ack(1).len(100));
}

/// The time that counts is that since the data was sent, whenever it is said how long that may be.
#[test]
fn user_timeout_counts_for_what_is_being_sent_again() {
    for (asked, left) in [(s(20), s(14)), (s(2), s(0))] {
        let (mut peer, conn) = Peer::established();
        peer.send(conn, 1, 10);
        peer.advance(s(1) + SLACK);
        peer.drain();
        assert_ne!(peer.stack().info(conn).expect("it is there").timeouts, 0);
        peer.advance(s(5));
        set(&mut peer, conn, SocketOption::UserTimeout(Some(asked)));
        peer.advance(left.saturating_sub(s(1)) + SLACK);
        assert_eq!(peer.state(conn) == State::Closed, left == s(0));
        peer.advance(s(2));
        assert_eq!(peer.state(conn), State::Closed);
        peer.drain();
        assert_eq!(peer.stack().close(conn), Err(Error::TimedOut));
    }
}

/// The handshake may take longer than the timer's first look.
#[test]
fn keepalive_may_be_asked_for_before_the_handshake() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn());
    set(&mut peer, conn, SocketOption::KeepAlive(Some(KEEP)));
    peer.advance(s(2));
    peer.ignore();
    peer.inject(syn_ack().seq(0).ack(1).mss(MSS));
    peer.expect(ack().seq(1).ack(1));
    peer.advance(s(20));
    assert_eq!(peer.drain().len(), 3);
    assert_eq!(peer.state(conn), State::Closed);
}

/// A connection that is over is not probed, nor does it end a second time.
#[test]
fn keepalive_leaves_time_wait_alone() {
    // Deadlines are exact to two ticks.
    for ticks in 0..2 {
        let (mut peer, conn) = Peer::established();
        assert_eq!(peer.stack().shutdown(conn), Ok(()));
        peer.expect(fin().seq(1).ack(1));
        peer.inject(fin().seq(1).ack(2));
        peer.expect(ack().seq(2).ack(2));
        assert_eq!(peer.state(conn), State::TimeWait);
        peer.advance(s(5) + ticks * TICK);
        set(&mut peer, conn, SocketOption::KeepAlive(Some(KEEP)));
        peer.advance(s(30));
        peer.expect_nothing();
        assert_eq!(peer.stack().close(conn), Ok(()));
    }
}

/// Until the handshake is complete Nagle's algorithm is off. Then it is what was asked for meanwhile.
#[test]
fn no_delay_of_an_early_connection_lasts() {
    let mut peer = Peer::new();
    let open = Open {
        fast_open: 4,
        ..Open::default()
    };
    let listener = peer
        .stack()
        .listen_with(PORT, 16, &open)
        .expect("the port is free");
    let mut first = syn().mss(MSS);
    first.options.fast_open = Some(FastOpenCookie::REQUEST);
    peer.inject(first);
    let answer = peer.expect(syn_ack().seq(0).ack(1));
    let cookie = answer.header.options.fast_open;
    peer.inject(rst_ack().seq(1).ack(1));
    for off in [false, true] {
        peer.port += 1;
        let mut first = syn().mss(MSS).len(10);
        first.options.fast_open = cookie;
        peer.inject(first.seq(0).data(&stream(1, 10)));
        peer.expect(syn_ack().seq(0).ack(11));
        let conn = peer.stack().accept(listener).expect("it has data");
        let no_delay = |peer: &Peer| peer.stack.settings(conn).expect("it is there").no_delay;
        assert!(!no_delay(&peer));
        set(&mut peer, conn, SocketOption::NoDelay(off));
        assert_eq!(no_delay(&peer), off);
        peer.send(conn, 1, 10);
        peer.expect(ack().seq(1).ack(11).len(10));
        peer.send(conn, 11, 10);
        peer.expect(ack().seq(11).ack(11).len(10));
        peer.inject(ack().seq(11).ack(11));
        assert_eq!(no_delay(&peer), off);
        peer.send(conn, 21, 10);
        if off {
            peer.expect(ack().seq(21).ack(11).len(10));
        }
        peer.expect_nothing();
    }
}
