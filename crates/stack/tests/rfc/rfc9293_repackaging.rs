//! RFC 9293, 3.8.6: "The sending TCP peer packages the data to be transmitted into segments that fit the current window, and may
//! repackage segments on the retransmission queue. Such repackaging is not required but may be helpful."

use crate::peer::*;
use std::time::Duration;
use tollgate_stack::{Boundary, ConnId, SocketOption};
use tollgate_wire::tcp::Flags;

/// A connection without Nagle's algorithm, with selective acknowledgments, that has this many segments of `len` bytes in flight.
fn small_segments(count: u32, len: u32) -> (Peer, ConnId) {
    let mut peer = Peer::new();
    let conn = peer.accepted_after(syn().mss(MSS).sack_permitted(), ms(40));
    let no_delay = SocketOption::NoDelay(true);
    assert_eq!(peer.stack().set_option(conn, no_delay), Ok(()));
    for n in 0..count {
        let seq = 1 + n * len;
        peer.send(conn, seq, len as usize);
        peer.expect(ack().seq(seq).ack(1).len(len as usize));
    }
    (peer, conn)
}

/// Waits until the retransmission timer has fired.
fn time_out(peer: &mut Peer, conn: ConnId) {
    let before = peer.stack().info(conn).expect("it is there").timeouts;
    while peer.stack().info(conn).expect("it is there").timeouts == before {
        // What a tail loss probe sends is not asked for.
        peer.ignore();
        peer.advance(ms(1));
    }
    check(peer);
}

fn check(peer: &Peer) {
    let verdict = peer.stack.check_consistency(&peer.pool);
    assert!(verdict.is_ok(), "{verdict:?}");
}

fn tell(peer: &mut Peer, next: u32, ranges: &[(u32, u32)]) {
    let blocks = peer.blocks(ranges);
    peer.inject(ack().seq(1).ack(next).sack(blocks));
    check(peer);
}

#[test]
fn small_segments_are_sent_again_as_one() {
    let (mut peer, conn) = small_segments(40, 15);
    time_out(&mut peer, conn);
    peer.expect(ack().flag(Flags::PSH).seq(1).ack(1).len(600));
    peer.expect_nothing();
    let held = peer.pool.capacity() - peer.pool.available();
    assert_eq!(held, 1, "frames are given back");
    // A part of it was received before.
    peer.inject(ack().seq(1).ack(301));
    check(&peer);
    peer.inject(ack().seq(1).ack(601));
    check(&peer);
    let info = peer.stack().info(conn).expect("it is there");
    assert_eq!((info.in_flight, info.bytes_acknowledged), (0, 600));
    assert_eq!(peer.pool.available(), peer.pool.capacity());
}

#[test]
fn segments_are_joined_up_to_the_mss_and_the_window() {
    let (mut peer, conn) = small_segments(8, 300);
    time_out(&mut peer, conn);
    peer.expect(ack().seq(1).ack(1).len(900));
    peer.expect_nothing();
    // The peer's window has become smaller: two of the next three fit.
    peer.inject(ack().seq(1).ack(901).win(700));
    check(&peer);
    peer.expect(ack().seq(901).ack(1).len(600));
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(1501).win(5000));
    peer.expect(ack().seq(1501).ack(1).len(900));
    peer.inject(ack().seq(1).ack(2401).win(5000));
    peer.expect_nothing();
}

#[test]
fn end_of_a_record_stays_the_end_of_a_segment_and_a_fin_is_joined() {
    let (mut peer, conn) = small_segments(2, 10);
    let record = peer
        .stack()
        .send_with(conn, &stream(21, 10), Boundary::EndOfRecord);
    assert_eq!(record, Ok(10));
    peer.send(conn, 31, 10);
    assert_eq!(peer.stack().shutdown(conn), Ok(()));
    peer.ignore();
    time_out(&mut peer, conn);
    peer.expect(ack().flag(Flags::PSH).seq(1).ack(1).len(30));
    peer.expect(fin().seq(31).ack(1).len(10));
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(42));
    check(&peer);
}

/// Segments that the peer has stay out, and so do those that are not lost.
#[test]
fn lost_neighbours_are_repaired_as_one_segment() {
    let (mut peer, conn) = small_segments(12, 100);
    peer.advance(Duration::from_millis(40));
    // The first, the third and the fourth are lost; the last two are on their way.
    tell(&mut peer, 1, &[(101, 201)]);
    tell(&mut peer, 1, &[(401, 1001), (101, 201)]);
    peer.expect(ack().seq(1).ack(1).len(100));
    peer.expect(ack().seq(201).ack(1).len(200));
    peer.expect_nothing();
    let info = peer.stack().info(conn).expect("it is there");
    assert_eq!((info.lost, info.resent, info.sacked), (300, 300, 700));
    tell(&mut peer, 201, &[(401, 1201)]);
    peer.expect_nothing();
    tell(&mut peer, 1201, &[]);
    let info = peer.stack().info(conn).expect("it is there");
    assert_eq!((info.retransmits, info.in_flight), (2, 0));
    assert_eq!(info.bytes_retransmitted, 300);
}

/// After a timeout what the peer has lies between two segments.
#[test]
fn what_the_peer_has_is_not_sent_again() {
    let (mut peer, conn) = small_segments(6, 10);
    tell(&mut peer, 1, &[(21, 31)]);
    time_out(&mut peer, conn);
    peer.expect(ack().seq(1).ack(1).len(20));
    peer.expect(ack().flag(Flags::PSH).seq(31).ack(1).len(30));
    peer.expect_nothing();
    tell(&mut peer, 31, &[]);
    tell(&mut peer, 61, &[]);
    assert_eq!(peer.pool.available(), peer.pool.capacity());
}

/// A timeout was for nothing only where all that was sent again has arrived twice, and not a part of it (RFC 2883, 5).
#[test]
fn part_of_a_segment_that_arrived_twice_undoes_nothing() {
    for (twice, undone) in [((1, 21), 0), ((1, 31), 0), ((1, 41), 1)] {
        let (mut peer, conn) = small_segments(4, 10);
        time_out(&mut peer, conn);
        peer.expect(ack().seq(1).ack(1).len(40));
        peer.inject(ack().seq(1).ack(41));
        tell(&mut peer, 41, &[twice]);
        let info = peer.stack().info(conn).expect("it is there");
        assert_eq!(info.undone_recoveries, undone, "{twice:?}");
    }
}
