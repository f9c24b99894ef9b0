//! RFC 9293, 3.10.7.4: a segment arrives for a connection.

use crate::peer::*;
use tollgate_stack::{Error, State};
use tollgate_wire::tcp::Flags;

/// The receive window of [`Peer::established`].
const WINDOW: u32 = 65_535;

/// Table 6, length 0, window above 0: "RCV.NXT =< SEG.SEQ < RCV.NXT+RCV.WND"; and the right edge itself, from where a peer
/// acknowledges that has filled the window.
#[test]
fn an_empty_segment_must_begin_in_the_window() {
    for (seq, acceptable) in [
        (1, true),
        (WINDOW + 1, true),
        (WINDOW + 2, false),
        (0, false),
    ] {
        let (mut peer, conn) = Peer::established();
        peer.send(conn, 1, 10);
        peer.expect(ack().seq(1).ack(1).len(10));
        peer.inject(ack().seq(seq).ack(11));
        if acceptable {
            peer.expect_nothing();
            assert_eq!(peer.stack().info(conn).unwrap().in_flight, 0, "at {seq}");
        } else {
            // "If an incoming segment is not acceptable, an acknowledgment should be sent in reply".
            peer.expect(ack().seq(11).ack(1));
            assert_eq!(peer.stack().info(conn).unwrap().in_flight, 10, "at {seq}");
            peer.inject(ack().seq(1).ack(11));
        }
    }
}

/// Table 6, length and window above 0: "RCV.NXT =< SEG.SEQ < RCV.NXT+RCV.WND or RCV.NXT =< SEG.SEQ+SEG.LEN-1 <
/// RCV.NXT+RCV.WND"
#[test]
fn a_segment_must_begin_or_end_in_the_window() {
    // Relative numbers around the window: the connection has received ten bytes, so they stand at 11.
    let edge = 1 + WINDOW;
    for (seq, len, expected) in [
        (1, 10, 11),
        (1, 11, 12),
        (11, 1, 12),
        (edge - 1, 1, 11),
        (edge - 1, 100, 11),
        (edge, 1, 11),
        (edge + 1000, 10, 11),
    ] {
        let (mut peer, conn) = Peer::established();
        peer.inject(ack().seq(1).ack(1).len(10));
        peer.advance(ms(50));
        peer.expect(ack().seq(1).ack(11));
        peer.inject(ack().seq(seq).ack(1).len(len));
        peer.advance(ms(50));
        peer.expect(ack().seq(1).ack(expected));
        assert_eq!(
            peer.read(conn, 100),
            stream(1, expected as usize - 1),
            "{len} bytes at {seq}"
        );
    }
}

/// A connection with a closed receive window, 4,096 bytes unread.
fn with_window_closed() -> (Peer, tollgate_stack::ConnId) {
    let (mut peer, conn) = Peer::established_with(|config| config.receive_buffer = 4096);
    for n in 0..4 {
        peer.inject(ack().seq(1 + 1024 * n).ack(1).len(1024));
    }
    peer.ignore();
    assert_eq!(peer.stack().info(conn).unwrap().receive_window, 0);
    (peer, conn)
}

/// Table 6, window 0: an empty segment "SEG.SEQ = RCV.NXT", any other "not acceptable"; 3.8.6.1: "it must still send an
/// acknowledgment showing its next expected sequence number and current window (zero)".
#[test]
fn nothing_is_taken_into_a_closed_window() {
    let (mut peer, conn) = with_window_closed();
    peer.inject(ack().seq(4097).ack(1).len(1));
    peer.expect(ack().seq(1).ack(4097).win(0));
    peer.inject(ack().seq(5000).ack(1));
    peer.expect(ack().seq(1).ack(4097).win(0));
    peer.inject(ack().seq(4097).ack(1));
    peer.expect_nothing();
    assert_eq!(peer.read(conn, 10_000), stream(1, 4096));
    peer.expect(ack().seq(1).ack(4097).win(4096));
}

/// "If the RCV.WND is zero, no segments will be acceptable, but special allowance should be made to accept valid ACKs,
/// URGs, and RSTs."
#[test]
fn acknowledgments_are_taken_while_the_window_is_closed() {
    let (mut peer, conn) = with_window_closed();
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(4097).len(10));
    peer.inject(ack().seq(4097).ack(11).len(5));
    assert_eq!(peer.stack().info(conn).unwrap().in_flight, 0);
    peer.expect(ack().seq(11).ack(4097).win(0));
}

/// 3.4, MUST-66: "A TCP receiver MUST process the RST and URG fields of all incoming segments, even when the receive window
/// is zero"
#[test]
fn a_reset_is_taken_while_the_window_is_closed() {
    let (mut peer, conn) = with_window_closed();
    peer.inject(rst().seq(4098));
    assert_eq!(peer.state(conn), State::Established);
    peer.inject(rst().seq(4097));
    assert_eq!(peer.state(conn), State::Closed);
}

/// 3.5.3, SHLD-2: "TCP implementations SHOULD allow a received RST segment to include data"
#[test]
fn a_reset_may_carry_data() {
    let (mut peer, conn) = Peer::established();
    peer.inject(rst().seq(1).data(b"out of memory"));
    assert_eq!(peer.state(conn), State::Closed);
    let (mut peer, conn) = with_window_closed();
    peer.inject(rst().seq(4097).data(b"out of memory"));
    assert_eq!(peer.state(conn), State::Closed);
}

/// "If a segment's contents straddle the boundary between old and new, only the new parts are processed."
#[test]
fn only_the_new_part_of_a_segment_is_processed() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).len(100));
    peer.inject(ack().seq(51).ack(1).len(100));
    peer.expect(ack().seq(1).ack(151));
    assert_eq!(peer.read(conn, 1000), stream(1, 150));
}

/// "trimming off any portions that lie outside the window (including SYN and FIN)"
#[test]
fn what_lies_beyond_the_window_is_cut_off() {
    let (mut peer, conn) = Peer::established_with(|config| config.receive_buffer = 4096);
    peer.inject(ack().seq(1).ack(1).len(1400));
    peer.inject(ack().seq(1401).ack(1).len(1400));
    peer.ignore();
    peer.inject(fin().seq(2801).ack(1).len(1400));
    peer.expect(ack().seq(1).ack(4097).win(0));
    assert_eq!(peer.state(conn), State::Established);
    assert_eq!(peer.read(conn, 10_000), stream(1, 4096));
    peer.expect(ack().seq(1).ack(4097).win(4096));
    peer.inject(fin().seq(4097).ack(1).len(104));
    peer.expect(ack().seq(1).ack(4202));
    assert_eq!(peer.state(conn), State::CloseWait);
}

/// SHLD-31: "Segments with higher beginning sequence numbers SHOULD be held for later processing"; MAY-13 and RFC 5681,
/// 4.2: out-of-order segments are acknowledged at once.
#[test]
fn segments_out_of_order_are_held_and_put_together() {
    let (mut peer, conn) = Peer::established();
    for seq in [401, 201, 101, 301] {
        peer.inject(ack().seq(seq).ack(1).len(100));
        peer.expect(ack().seq(1).ack(1));
    }
    // Overlaps of what is held change nothing.
    peer.inject(ack().seq(151).ack(1).len(200));
    peer.expect(ack().seq(1).ack(1));
    assert!(peer.read(conn, 1000).is_empty());
    peer.inject(ack().seq(1).ack(1).len(100));
    peer.expect(ack().seq(1).ack(501));
    assert_eq!(peer.read(conn, 1000), stream(1, 500));
}

/// MUST-58: "the processing of received segments MUST be implemented to aggregate ACK segments whenever possible";
/// MUST-59: "if the TCP endpoint is processing a series of queued segments, it MUST process them all before sending any
/// ACK segments"
#[test]
fn filling_a_gap_in_front_of_many_segments_draws_one_acknowledgment() {
    let (mut peer, conn) = Peer::established();
    for n in 1..8 {
        peer.inject(ack().seq(1 + 100 * n).ack(1).len(100));
        peer.expect(ack().seq(1).ack(1));
    }
    peer.inject(fin().seq(801).ack(1));
    peer.expect(ack().seq(1).ack(1));
    peer.inject(ack().seq(1).ack(1).len(100));
    peer.expect(ack().seq(1).ack(802));
    peer.expect_nothing();
    assert_eq!(peer.state(conn), State::CloseWait);
}

/// "This acknowledgment should be piggybacked on a segment being transmitted if possible without incurring undue delay."
#[test]
fn an_acknowledgment_rides_on_data() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).len(10));
    peer.expect_nothing();
    peer.send(conn, 1, 5);
    peer.expect(ack().seq(1).ack(11).len(5));
    peer.advance(ms(100));
    peer.expect_nothing();
}

/// "Fifth, check the ACK field: if the ACK bit is off, drop the segment and return"
#[test]
fn a_segment_without_acknowledgment_is_dropped() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().without(Flags::ACK).flag(Flags::PSH).seq(1).len(10));
    peer.inject(fin().without(Flags::ACK).seq(1));
    peer.expect_nothing();
    assert!(peer.read(conn, 10).is_empty());
    assert_eq!(peer.state(conn), State::Established);
}

/// "If the ACK acks something not yet sent (SEG.ACK > SND.NXT), then send an ACK, drop the segment, and return."
#[test]
fn an_acknowledgment_of_what_was_not_sent_is_answered_and_its_segment_dropped() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(2).len(10));
    peer.expect(ack().seq(1).ack(1));
    assert!(peer.read(conn, 10).is_empty());
}

/// "If the ACK is a duplicate (SEG.ACK =< SND.UNA), it can be ignored": its data is taken all the same.
#[test]
fn data_with_an_old_acknowledgment_is_taken() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    peer.inject(ack().seq(1).ack(11));
    peer.inject(ack().seq(1).ack(1).len(10));
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    peer.expect_after(ms(40), ack().seq(11).ack(11));
}

/// "Any segments on the retransmission queue that are thereby entirely acknowledged are removed": one that is acknowledged
/// in part stays, and is sent again.
#[test]
fn a_segment_that_is_acknowledged_in_part_stays_in_the_queue() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 2000);
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.expect(ack().seq(1001).ack(1).len(1000));
    peer.inject(ack().seq(1).ack(1501));
    assert_eq!(peer.stack().info(conn).unwrap().in_flight, 500);
    peer.wait(s(10));
    let again = peer.next().unwrap();
    let end = again.seq + again.data.len() as u32;
    assert!(
        again.seq <= 1501 && end == 2001,
        "bytes {} to {end} were sent again",
        again.seq
    );
    peer.inject(ack().seq(1).ack(2001));
    assert_eq!(peer.stack().info(conn).unwrap().in_flight, 0);
}

/// "The check here prevents using old segments to update the window."
#[test]
fn an_old_segment_does_not_change_the_send_window() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).len(10).win(5000));
    peer.inject(ack().seq(11).ack(1).len(10).win(6000));
    peer.expect(ack().seq(1).ack(21));
    assert_eq!(peer.stack().info(conn).unwrap().send_window, 6000);
    // The first one again, then with more behind it: its window is older.
    peer.inject(ack().seq(1).ack(1).len(10).win(100));
    peer.inject(ack().seq(1).ack(1).len(21).win(200));
    peer.ignore();
    assert_eq!(peer.stack().info(conn).unwrap().send_window, 6000);
}

/// 3.10.7.4: the FIN of a segment out of order counts when everything before it is there.
#[test]
fn a_fin_out_of_order_waits_for_the_bytes_before_it() {
    let (mut peer, conn) = Peer::established();
    peer.inject(fin().seq(101).ack(1).len(50));
    peer.expect(ack().seq(1).ack(1));
    assert_eq!(peer.state(conn), State::Established);
    peer.inject(ack().seq(1).ack(1).len(100));
    peer.expect(ack().seq(1).ack(152));
    assert_eq!(peer.state(conn), State::CloseWait);
    assert_eq!(peer.read(conn, 1000), stream(1, 150));
}

/// 3.1, Reserved: "must be ignored in received segments"; ECE and CWR are the same to a host that does not use ECN.
#[test]
fn reserved_bits_and_ecn_bits_are_ignored() {
    let (mut peer, conn) = Peer::established();
    let mut segment = peer.segment(&ack().flag(Flags::ECE | Flags::CWR).seq(1).ack(1).len(10));
    segment[12] |= 0x0f;
    fill_checksum(&mut segment, PEER, STACK);
    let packet = ip_packet(6, PEER, STACK, &segment);
    peer.inject_packet(&packet);
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    peer.expect_after(ms(40), ack().seq(1).ack(11));
}

/// 3.10.2 and 3.10.3, CLOSED: "error: connection does not exist"
#[test]
fn a_stale_handle_is_no_connection() {
    let (mut peer, conn) = Peer::established();
    peer.stack().abort(conn).unwrap();
    peer.expect(rst_ack().seq(1).ack(1));
    assert_eq!(peer.stack().send(conn, b"x"), Err(Error::NotConnected));
    assert_eq!(
        peer.stack().receive(conn, &mut [0; 1]),
        Err(Error::NotConnected)
    );
    assert_eq!(peer.stack().close(conn), Err(Error::NotConnected));
    assert_eq!(peer.stack().abort(conn), Err(Error::NotConnected));
    assert_eq!(peer.state(conn), State::Closed);
}

/// 3.10: "all arithmetic on sequence numbers, acknowledgment numbers, windows, et cetera, is modulo 2^32": the peer's cross
/// the end of the space.
#[test]
fn sequence_numbers_wrap() {
    let (mut peer, conn) = Peer::established();
    // The peer's numbers begin 256 before the wrap.
    peer.inject(ack().seq(1).ack(1).len(1000));
    peer.inject(ack().seq(1001).ack(1).len(1000));
    peer.expect(ack().seq(1).ack(2001));
    assert_eq!(peer.read(conn, 5000), stream(1, 2000));
    assert_eq!(peer.stack().info(conn).unwrap().bytes_received, 2000);
}

/// 3.10.7.4, SHLD-31: "Segments with higher beginning sequence numbers SHOULD be held for later processing": behind a hole as
/// many as the window has room for, however small they are.
#[test]
fn small_segments_behind_a_hole_fill_the_window() {
    let (mut peer, conn) = Peer::established();
    let mut at = 101;
    while at + 100 <= 1 + WINDOW {
        peer.inject(ack().seq(at).ack(1).len(100));
        at += 100;
    }
    peer.ignore();
    peer.inject(ack().seq(1).ack(1).len(100));
    assert_eq!(peer.drain().last().map(|sent| sent.ack), Some(at));
    assert!(peer.read(conn, 1 << 17) == stream(1, at as usize - 1));
    peer.ignore();
}

/// SHLD-31, the same with full segments in a large window.
#[test]
fn full_segments_behind_a_hole_fill_a_large_window() {
    let mut peer = Peer::with(|config| {
        config.window_scaling = true;
        config.receive_buffer = 1 << 20;
    });
    let conn = peer.accepted(syn().mss(1460).scale(7));
    // The SYN's window could not name it.
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    peer.inject(ack().seq(1).ack(11));
    let window = peer.stack().info(conn).unwrap().receive_window;
    assert!(window > 1_000_000, "a window of {window}");
    let mut at = 1461;
    while at + 1460 <= 1 + window {
        peer.inject(ack().seq(at).ack(11).len(1460));
        at += 1460;
    }
    peer.ignore();
    peer.inject(ack().seq(1).ack(11).len(1460));
    assert_eq!(peer.drain().last().map(|sent| sent.ack), Some(at));
    assert!(peer.read(conn, 1 << 21) == stream(1, at as usize - 1));
    peer.ignore();
}

/// 3.10.7.4: "If the RCV.WND is zero, no segments will be acceptable, but special allowance should be made to accept valid
/// ACKs": the same holds for a window that the peer has filled, all but a hole. Its acknowledgments come from the window's
/// right edge.
#[test]
fn acknowledgment_from_the_right_edge_of_the_window_counts() {
    let (mut peer, conn) = Peer::established_with(|config| config.receive_buffer = 4096);
    peer.send(conn, 1, 1000);
    peer.expect(ack().seq(1).ack(1).len(1000));
    for (seq, len) in [(1001, 1000), (2001, 1000), (3001, 1096)] {
        peer.inject(ack().seq(seq).ack(1).len(len));
        peer.expect(ack().seq(1001).ack(1));
    }
    peer.inject(ack().seq(4097).ack(1001));
    assert_eq!(peer.stack().info(conn).unwrap().in_flight, 0);
    peer.advance(s(10));
    peer.expect_nothing();
    // The hole is filled.
    peer.inject(ack().seq(1).ack(1001).len(1000));
    peer.expect(ack().seq(1001).ack(4097).win(0));
    assert_eq!(peer.read(conn, 5000), stream(1, 4096));
    peer.ignore();
}

/// 3.10.7.4: "special allowance should be made to accept valid ACKs" where data cannot be taken. When only the reserve of the
/// pool is left, data in order goes to readers that have nothing to read yet. Else one connection that is not read takes the
/// last frame, and then no acknowledgment can come in that would set any free.
#[test]
fn reserve_of_the_pool_is_left_to_acknowledgments() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).len(1400));
    peer.send(conn, 1, 1000);
    peer.expect(ack().seq(1).ack(1401).len(1000));
    let mut taken = Vec::new();
    while peer.pool.available() > peer.pool.capacity() / 8 {
        taken.push(peer.pool.alloc().expect("the pool is not empty"));
    }
    let left = peer.pool.available();
    for _ in 0..20 {
        peer.inject(ack().seq(1401).ack(1001).len(1400));
    }
    peer.advance(ms(50));
    assert!(peer.drain().iter().all(|sent| sent.ack == 1401));
    assert_eq!(peer.stack().info(conn).unwrap().in_flight, 0);
    assert!(
        peer.pool.available() >= left,
        "{} frames of {left} are left",
        peer.pool.available()
    );
    // What fits behind that which waits costs no frame.
    for n in 0..20 {
        peer.inject(ack().seq(1401 + n).ack(1001).len(1));
    }
    peer.ignore();
    assert!(peer.pool.available() >= left);
    assert_eq!(peer.read(conn, 2000), stream(1, 1420));
    // Now there is nothing to read.
    peer.inject(ack().seq(1421).ack(1001).len(1400));
    assert_eq!(peer.read(conn, 2000), stream(1421, 1400));
    for id in taken {
        peer.pool.release(id);
    }
    peer.expect_after(ms(40), ack().seq(1001).ack(2821));
}

/// 3.10.7.4: "Segments with higher beginning sequence numbers SHOULD be held", and what begins before the window and ends
/// behind it is taken as far as it fits: such a segment lies in the window, although neither of its ends does.
#[test]
fn segment_around_the_whole_window_is_taken_where_it_fits() {
    let (mut peer, conn) = Peer::established_with(|config| config.receive_buffer = 4096);
    for (seq, len) in [(1, 1400), (1401, 1400), (2801, 700)] {
        peer.inject(ack().seq(seq).ack(1).len(len));
    }
    peer.ignore();
    assert!(peer.stack().info(conn).unwrap().receive_window < 1000);
    peer.inject(ack().seq(3401).ack(1).len(1460));
    peer.ignore();
    assert_eq!(peer.read(conn, 5000), stream(1, 4096));
    peer.ignore();
}
