//! RFC 9293, 3.8.6: managing the window, probes, silly windows.

use crate::peer::*;
use tollgate_stack::{Error, Received, SocketOption, State};

/// 3.8.6.1, MUST-36: "Probing of zero (offered) windows MUST be supported"; SHLD-29: "SHOULD send the first zero-window
/// probe when a zero window has existed for the retransmission timeout period"; SHLD-30: "SHOULD increase exponentially the
/// interval between successive probes".
#[test]
fn a_zero_window_is_probed_with_back_off() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).win(0));
    let rto = peer.stack().info(conn).unwrap().rto;
    peer.send(conn, 1, 100);
    let mut interval = rto;
    for _ in 0..12 {
        let waited = peer.wait(s(100));
        assert!(
            waited >= interval - SLACK && waited <= interval + SLACK,
            "{waited:?} instead of {interval:?}"
        );
        peer.expect(ack().seq(1).ack(1).len(1));
        peer.inject(ack().seq(1).ack(1).win(0));
        interval = (interval * 2).min(s(60));
    }
    // The window opens: the byte that was probed with goes at once, and what Nagle's algorithm holds follows it.
    peer.inject(ack().seq(1).ack(1).win(65_535));
    peer.expect(ack().seq(1).ack(1).len(1));
    peer.inject(ack().seq(1).ack(2).win(65_535));
    peer.expect(ack().seq(2).ack(1).len(99));
}

/// 3.8.6.1, MUST-37: "As long as the receiving TCP peer continues to send acknowledgments in response to the probe
/// segments, the sending TCP peer MUST allow the connection to stay open"
#[test]
fn a_zero_window_may_last_while_probes_are_answered() {
    let (mut peer, conn) = Peer::established();
    peer.stack()
        .set_option(conn, SocketOption::UserTimeout(Some(s(300))))
        .unwrap();
    peer.inject(ack().seq(1).ack(1).win(0));
    peer.send(conn, 1, 100);
    for _ in 0..100 {
        peer.wait(s(100));
        peer.expect(ack().seq(1).ack(1).len(1));
        peer.inject(ack().seq(1).ack(1).win(0));
    }
    assert_eq!(peer.state(conn), State::Established);
    // Without answers the time runs.
    peer.advance(s(500));
    peer.ignore();
    assert_eq!(peer.state(conn), State::Closed);
    assert_eq!(peer.stack().close(conn), Err(Error::TimedOut));
}

/// 3.8.6.1: a probe that the peer takes, its window still closed, is followed by the next byte.
#[test]
fn a_probe_that_is_taken_is_not_sent_again() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).win(0));
    peer.send(conn, 1, 100);
    peer.wait(s(100));
    peer.expect(ack().seq(1).ack(1).len(1));
    peer.inject(ack().seq(1).ack(2).win(0));
    peer.wait(s(100));
    peer.expect(ack().seq(2).ack(1).len(1));
    peer.inject(ack().seq(1).ack(3).win(5000));
    peer.expect(ack().seq(3).ack(1).len(98));
    peer.inject(ack().seq(1).ack(101));
}

/// 3.10.7.4: a peer whose window is closed takes a segment without data at RCV.NXT alone. It has not taken the probe, so what goes
/// behind it would acknowledge nothing, and both would wait for each other.
#[test]
fn acknowledgments_lie_in_a_window_that_is_probed() {
    for stamped in [false, true] {
        let (mut peer, conn) = match stamped {
            false => Peer::established(),
            true => {
                let mut peer = Peer::with(|config| config.timestamps = true);
                let conn = peer.accepted_with_stamps(7);
                (peer, conn)
            }
        };
        let from_peer = |seq: u32| match stamped {
            false => ack().seq(seq).ack(1).win(0),
            true => ack().seq(seq).ack(1).win(0).stamps(8, 0),
        };
        peer.inject(from_peer(1));
        peer.send(conn, 1, 100);
        peer.wait(s(100));
        peer.expect(ack().seq(1).ack(1).len(1));
        peer.inject(from_peer(1).len(1_000));
        peer.inject(from_peer(1_001).len(1_000));
        peer.expect(ack().seq(1).ack(2_001).len(0));
        // A gap is told at once, in its place, too.
        peer.inject(from_peer(3_001).len(1_000));
        peer.expect(ack().seq(1).ack(2_001).len(0));
        assert_eq!(peer.read(conn, 10_000).len(), 2_000);
        peer.ignore();
        // A RST that the peer takes, too (RFC 5961, 3.2).
        peer.stack().abort(conn).unwrap();
        peer.expect(rst_ack().seq(1).ack(2_001));
    }
}

/// 3.8.6, MUST-34: "a sending TCP peer MUST be robust against window shrinking, which may cause the 'usable window' to
/// become negative"; SHLD-15: "the sender SHOULD NOT send new data"; SHLD-16: "SHOULD retransmit normally the old
/// unacknowledged data between SND.UNA and SND.UNA+SND.WND"
#[test]
fn a_window_that_shrinks_is_obeyed() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 4000);
    for n in 0..4 {
        peer.expect(ack().seq(1 + 1000 * n).ack(1).len(1000));
    }
    peer.inject(ack().seq(1).ack(1001).win(1000));
    peer.send(conn, 4001, 2000);
    peer.expect_nothing();
    peer.wait(s(10));
    peer.expect(ack().seq(1001).ack(1).len(1000));
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(4001).win(2000));
    peer.expect(ack().seq(4001).ack(1).len(1000));
    peer.expect(ack().seq(5001).ack(1).len(1000));
    peer.inject(ack().seq(1).ack(6001));
    assert_eq!(peer.stack().info(conn).unwrap().in_flight, 0);
}

/// 3.8.6, MUST-35: "If the window shrinks to zero, the TCP implementation MUST probe it in the standard way"; SHLD-17:
/// "SHOULD NOT time out the connection if data beyond the right window edge is not acknowledged".
#[test]
fn a_window_that_shrinks_to_zero_is_probed_and_does_not_time_out() {
    let (mut peer, conn) = Peer::established();
    peer.stack()
        .set_option(conn, SocketOption::UserTimeout(Some(s(300))))
        .unwrap();
    peer.send(conn, 1, 2000);
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.expect(ack().seq(1001).ack(1).len(1000));
    peer.inject(ack().seq(1).ack(1).win(0));
    for _ in 0..30 {
        assert!(peer.wait(s(100)) < s(61));
        // One byte, as the path may have come to take no more than that.
        peer.expect(ack().seq(1).ack(1).len(1));
        peer.expect_nothing();
        peer.inject(ack().seq(1).ack(1).win(0));
    }
    assert_eq!(peer.state(conn), State::Established);
    peer.inject(ack().seq(1).ack(1).win(65_535));
    let sent = peer.drain();
    assert_eq!(sent.first().map(|first| first.seq), Some(1));
    peer.inject(ack().seq(1).ack(2001));
    peer.ignore();
    assert_eq!(peer.stack().info(conn).unwrap().in_flight, 0);
}

/// 3.8.6.2.1, MUST-38: "A TCP implementation MUST include a SWS avoidance algorithm in the sender": a window that opens by
/// little draws no small segment, until half of the largest window can be used.
#[test]
fn the_sender_does_not_fill_a_silly_window() {
    let mut peer = Peer::new();
    let listener = peer.listen();
    peer.inject(syn().seq(0).mss(MSS).win(1600));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.inject(ack().seq(1).ack(1).win(1600));
    let conn = peer.stack().accept(listener).unwrap();
    peer.send(conn, 1, 3000);
    peer.expect(ack().seq(1).ack(1).len(1000));
    // 600 are usable: less than a segment and less than 800.
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(1001).win(700));
    peer.expect_nothing();
    // Half of the largest window may be used.
    peer.inject(ack().seq(1).ack(1001).win(800));
    peer.expect(ack().seq(1001).ack(1).len(800));
    peer.inject(ack().seq(1).ack(1801).win(1600));
    peer.expect(ack().seq(1801).ack(1).len(200));
    peer.expect(ack().seq(2001).ack(1).len(1000));
}

/// 3.8.6.2.1: "To avoid a resulting deadlock, it is necessary to have a timeout to force transmission of data, overriding
/// the SWS avoidance algorithm."
#[test]
fn a_silly_window_is_used_after_a_timeout() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).win(100));
    peer.send(conn, 1, 1000);
    peer.expect_nothing();
    let waited = peer.wait(s(10));
    assert!(waited >= ms(100) && waited <= s(1) + SLACK, "{waited:?}");
    peer.expect(ack().seq(1).ack(1).len(100));
    peer.inject(ack().seq(1).ack(101).win(65_535));
    peer.expect(ack().seq(101).ack(1).len(900));
}

/// 3.8.6.2.2, MUST-39: "A TCP implementation MUST include a SWS avoidance algorithm in the receiver": the right edge stays
/// where it is until it can move by a segment.
#[test]
fn the_receiver_does_not_offer_a_silly_window() {
    let (mut peer, conn) = Peer::established_with(|config| config.receive_buffer = 4096);
    for n in 0..4 {
        peer.inject(ack().seq(1 + 1024 * n).ack(1).len(1024));
    }
    peer.ignore();
    assert_eq!(peer.stack().info(conn).unwrap().receive_window, 0);
    // Reading a little opens nothing, whoever asks.
    for n in 0..9 {
        assert_eq!(peer.read(conn, 100).len(), 100);
        peer.expect_nothing();
        peer.inject(ack().seq(4097).ack(1).len(1));
        peer.expect(ack().seq(1).ack(4097).win(0));
        assert_eq!(
            peer.stack().info(conn).unwrap().receive_window,
            0,
            "after {} bytes",
            100 * (n + 1)
        );
    }
    // More than half of the buffer opens it, unasked. The third frame, of which 672 bytes are left, counts for 928: half of
    // what it holds.
    assert_eq!(peer.read(conn, 1500).len(), 1500);
    peer.expect(ack().seq(1).ack(4097).win(4096 - 1024 - 928));
    // The rest is offered when there is something to acknowledge.
    assert_eq!(peer.read(conn, 5000).len(), 4096 - 2400);
    peer.expect_nothing();
    peer.inject(ack().seq(4097).ack(1).len(100));
    peer.expect_after(ms(40), ack().seq(1).ack(4197).win(4096 - 928));
}

/// 3.8.6, SHLD-14: "A TCP receiver SHOULD NOT shrink the window, i.e., move the right window edge to the left"
#[test]
fn the_right_edge_never_moves_left() {
    let (mut peer, conn) = Peer::established_with(|config| config.receive_buffer = 8192);
    let mut edge = 0;
    let mut at = 1;
    for n in 0..40 {
        let free = peer.stack().info(conn).unwrap().receive_window;
        let len = (37 * n % 500).min(free as usize);
        if len > 0 {
            peer.inject(ack().seq(at).ack(1).len(len));
            at += len as u32;
        }
        if n % 3 == 0 {
            peer.read(conn, 200);
        }
        peer.advance(ms(50));
        for sent in peer.drain() {
            let now = sent.ack + u32::from(sent.header.window);
            assert!(now >= edge, "the edge moved from {edge} to {now}");
            edge = now;
        }
    }
    assert!(edge > 8192, "the window never opened");
}

/// 3.8.6.2.2: the window opens by "min( Fr * RCV.BUFF, Eff.snd.MSS )", so that a buffer smaller than a segment opens too.
#[test]
fn a_buffer_smaller_than_a_segment_opens_again() {
    let mut peer = Peer::on_link(9000, |config| config.receive_buffer = 4096);
    let conn = peer.accepted(syn().seq(0).mss(8960));
    for round in 0..5 {
        let at = 1 + 4096 * round;
        peer.inject(ack().seq(at).ack(1).len(4096));
        peer.advance(ms(50));
        peer.expect(ack().seq(1).ack(at + 4096).win(0));
        assert_eq!(peer.read(conn, 5000), stream(at, 4096));
        peer.expect(ack().seq(1).ack(at + 4096).win(4096));
    }
}

/// 3.8.6, MUST-34: "a sending TCP peer MUST be robust against window shrinking"; MUST-35: a window that shrinks to zero is
/// probed; SHLD-17: "SHOULD NOT time out the connection if data beyond the right window edge is not acknowledged". The peer
/// may have had that data all the time: it acknowledges it when it has room again.
#[test]
fn shrunken_window_does_not_forget_what_was_sent() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 10_000);
    for n in 0..10 {
        peer.expect(ack().seq(1 + 1000 * n).ack(1).len(1000));
    }
    // The acknowledgments are lost.
    peer.wait(s(10));
    peer.expect(ack().seq(1).ack(1).len(1000));
    // The peer keeps what it has, and has no room for anything else.
    peer.inject(ack().seq(1).ack(1).win(0));
    peer.wait(s(100));
    assert_eq!(peer.next().expect("a probe").seq, 1);
    peer.ignore();
    peer.inject(ack().seq(1).ack(1).win(65_535));
    peer.ignore();
    peer.inject(ack().seq(1).ack(10_001).win(65_535));
    peer.expect_nothing();
    let info = peer.stack().info(conn).unwrap();
    assert_eq!(
        (info.bytes_acknowledged, info.in_flight, info.unsent),
        (10_000, 0, 0)
    );
    peer.advance(s(20 * 60));
    peer.expect_nothing();
    assert_eq!(peer.state(conn), State::Established);
}

/// 3.10.7.4: "If (SND.WL1 < SEG.SEQ or (SND.WL1 = SEG.SEQ and SND.WL2 =< SEG.ACK)), set SND.WND <- SEG.WND, set SND.WL1 <-
/// SEG.SEQ": each segment in order moves SND.WL1. Else it lies behind half the circle of sequence numbers after 2 GiB, and a
/// window update counts as old.
#[test]
fn window_update_counts_after_two_gibibytes() {
    const SEGMENT: u32 = 59_000;
    let mut peer = Peer::on_link(60_000, |_| {});
    let conn = peer.accepted(syn().mss(MSS));
    let mut buffer = vec![0; SEGMENT as usize];
    let mut at = 1;
    while at < (1 << 31) + (1 << 20) {
        peer.inject_zeros(ack().seq(at).ack(1), SEGMENT as usize);
        let read = peer.stack().receive(conn, &mut buffer);
        assert_eq!(read, Ok(Received::Data(SEGMENT as usize)));
        peer.ignore();
        at += SEGMENT;
    }
    peer.advance(ms(50));
    peer.ignore();
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(at).len(10));
    peer.inject(ack().seq(at).ack(11).win(0));
    peer.send(conn, 11, 10);
    peer.expect_nothing();
    peer.inject(ack().seq(at).ack(11).win(65_535));
    peer.expect(ack().seq(11).ack(at).len(10));
}

/// 3.10.7.4: "The check here prevents using old segments to update the window.": a segment that was overtaken by a window
/// update does not undo it.
#[test]
fn window_of_an_overtaken_segment_is_not_taken() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(101).ack(1).win(50_000));
    assert_eq!(peer.stack().info(conn).unwrap().send_window, 50_000);
    peer.inject(ack().seq(1).ack(1).win(200).len(100));
    assert_eq!(peer.read(conn, 200), stream(1, 100));
    assert_eq!(peer.stack().info(conn).unwrap().send_window, 50_000);
    peer.expect_after(ms(40), ack().seq(1).ack(101));
}

/// 3.8.6.2.1, MUST-38: "To avoid a resulting deadlock, it is necessary to have a timeout to force transmission of data,
/// overriding the SWS avoidance algorithm": it runs from when the data began to wait, whatever the peer sends meanwhile.
#[test]
fn silly_window_is_used_after_a_timeout_while_the_peer_sends() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).win(100));
    peer.send(conn, 1, 1000);
    peer.expect_nothing();
    let timeout = peer.stack().info(conn).unwrap().rto;
    let start = peer.now;
    let mut sent = Vec::new();
    for n in 0..40 {
        peer.advance(ms(50));
        peer.inject(ack().seq(1 + n).ack(1).win(100).len(1));
        peer.read(conn, 10);
        sent = peer.drain();
        sent.retain(|part| !part.data.is_empty());
        if !sent.is_empty() {
            break;
        }
    }
    let first = sent.first().expect("what fits into the window is sent");
    assert_eq!((first.seq, first.data.len()), (1, 100));
    let waited = peer.now - start;
    assert!(
        waited <= timeout + ms(50) + SLACK,
        "{waited:?} instead of {timeout:?}"
    );
    peer.advance(ms(50));
    peer.ignore();
}

/// 3.8.6.2.1, MUST-38: data is sent "if a maximum-sized segment can be sent, i.e., if: min(D,U) >= Eff.snd.MSS": also the last
/// one, when a window held it back and then opens.
#[test]
fn full_last_segment_goes_when_the_window_opens() {
    // The congestion window.
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 11_000);
    for n in 0..10 {
        peer.expect(ack().seq(1 + 1000 * n).ack(1).len(1000));
    }
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(5001));
    peer.expect(ack().seq(10_001).ack(1).len(1000));
    // The peer's.
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).win(3000));
    peer.send(conn, 1, 4000);
    for n in 0..3 {
        peer.expect(ack().seq(1 + 1000 * n).ack(1).len(1000));
    }
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(1001).win(3000));
    peer.expect(ack().seq(3001).ack(1).len(1000));
}
