//! RFC 5681 (congestion control), RFC 6582 (NewReno), RFC 3465 (appropriate byte counting) and RFC 3042 (limited transmit); the
//! initial window is RFC 6928's.

use crate::peer::*;
use std::time::Duration;
use tollgate_stack::config::CongestionControl;
use tollgate_stack::{ConnId, Info};

fn info(peer: &mut Peer, conn: ConnId) -> Info {
    peer.stack().info(conn).expect("it is there")
}

/// A NewReno connection with `segments` segments of 1,000 bytes queued, of which the initial window has been sent: ten.
fn with_queue(segments: u32) -> (Peer, ConnId) {
    let (mut peer, conn) = Peer::established_with(|config| {
        config.mechanisms.congestion = CongestionControl::NewReno;
    });
    peer.send(conn, 1, 1000 * segments as usize);
    for n in 0..10.min(segments) {
        peer.expect(ack().seq(1 + 1000 * n).ack(1).len(1000));
    }
    peer.expect_nothing();
    (peer, conn)
}

/// RFC 6928, 2: "min (10*MSS, max (2*MSS, 14600))"
#[test]
fn the_initial_window_is_ten_segments() {
    let (mut peer, conn) = with_queue(30);
    assert_eq!(info(&mut peer, conn).congestion_window, 10_000);
}

/// RFC 5681, 3.1: "if the SYN or SYN/ACK is lost, the initial window used by a sender after a correctly transmitted SYN MUST
/// be one segment consisting of at most SMSS bytes."
#[test]
fn after_a_lost_syn_the_initial_window_is_one_segment() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn());
    peer.expect_after(s(1), syn());
    peer.inject(syn_ack().seq(0).ack(1).mss(MSS));
    peer.expect(ack().seq(1).ack(1));
    peer.send(conn, 1, 5000);
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.expect_nothing();
}

/// RFC 9293, 3.8.2, MUST-19: "A TCP endpoint MUST implement the basic congestion control algorithms slow start, congestion
/// avoidance, and exponential backoff of RTO". ABC-2, RFC 3465, 2.2: the window grows by the bytes that an acknowledgment
/// covers and that were not acknowledged before, by L = 2 * SMSS at most.
#[test]
fn slow_start_adds_what_is_acknowledged_up_to_two_segments() {
    let (mut peer, conn) = with_queue(60);
    let (mut acked, mut window) = (1, 10_000);
    for (bytes, grows) in [
        (2000, 2000),
        (1000, 1000),
        (2000, 2000),
        (3000, 2000),
        (5000, 2000),
    ] {
        acked += bytes;
        window += grows;
        peer.inject(ack().seq(1).ack(acked));
        assert_eq!(info(&mut peer, conn).congestion_window, window);
        assert_eq!(peer.drain().len() as u32, (bytes + grows) / 1000);
    }
    acked += 300;
    peer.inject(ack().seq(1).ack(acked));
    assert_eq!(info(&mut peer, conn).congestion_window, window + 300);
    peer.ignore();
}

/// RFC 5681, 3.1: "During congestion avoidance, cwnd is incremented by roughly 1 full-sized segment per round-trip time
/// (RTT)." ABC-1, RFC 3465, 2.1: "When bytes_acked becomes greater than or equal to the value of the congestion window,
/// bytes_acked is reduced by the value of cwnd. Next, cwnd is incremented by a full-sized segment (SMSS)."
#[test]
fn congestion_avoidance_adds_a_segment_per_window() {
    // However many segments an acknowledgment covers.
    for segments in [1, 2, 4] {
        let (mut peer, conn) = after_recovery();
        let before = info(&mut peer, conn);
        assert!(
            before.congestion_window >= before.slow_start_threshold,
            "{before:?}"
        );
        let mut acked = 1 + before.bytes_acknowledged as u32;
        let mut counted = 0;
        for _ in 0..4 {
            let window = info(&mut peer, conn).congestion_window;
            while counted < window {
                assert_eq!(info(&mut peer, conn).congestion_window, window);
                acked += 1000 * segments;
                counted += 1000 * segments;
                peer.inject(ack().seq(1).ack(acked));
                peer.ignore();
            }
            counted -= window;
            assert_eq!(info(&mut peer, conn).congestion_window, window + 1000);
        }
    }
}

/// ABC-3, RFC 3465, 2.3: after a timeout an acknowledgment may cover what had arrived before it, so L is one segment in the slow
/// start that follows.
#[test]
fn slow_start_after_a_timeout_adds_one_segment_for_each_acknowledgment() {
    let (mut peer, conn) = with_queue(40);
    peer.wait(s(10));
    peer.drain();
    assert_eq!(info(&mut peer, conn).congestion_window, 1000);
    for (acked, window) in [(1001, 2000), (4001, 3000), (4501, 3500), (9001, 4500)] {
        peer.inject(ack().seq(1).ack(acked));
        peer.drain();
        assert_eq!(info(&mut peer, conn).congestion_window, window);
    }
}

/// RFC 7661: what an application never used says nothing of the path, so cwnd grows only while it limits the sender.
#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let (mut peer, conn) = Peer::established();
    let mut at = 1;
    for _ in 0..50 {
        peer.send(conn, at, 100);
        peer.expect(ack().seq(at).ack(1).len(100));
        at += 100;
        peer.inject(ack().seq(1).ack(at));
    }
    assert_eq!(info(&mut peer, conn).congestion_window, 10_000);
}

/// RFC 5681, 3.2: "The TCP sender SHOULD use the 'fast retransmit' algorithm to detect and repair loss, based on incoming
/// duplicate ACKs. The fast retransmit algorithm uses the arrival of 3 duplicate ACKs [...] as an indication that a segment
/// has been lost." Step 2: ssthresh is set to max (FlightSize / 2, 2*SMSS); step 3: "cwnd set to ssthresh plus
/// 3*SMSS".
#[test]
fn the_third_duplicate_retransmits() {
    let (mut peer, conn) = with_queue(10);
    for _ in 0..2 {
        peer.inject(ack().seq(1).ack(1));
        peer.expect_nothing();
    }
    assert_eq!(info(&mut peer, conn).congestion_window, 10_000);
    peer.inject(ack().seq(1).ack(1));
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.expect_nothing();
    let now = info(&mut peer, conn);
    assert_eq!(
        (now.slow_start_threshold, now.congestion_window),
        (5000, 8000)
    );
    assert_eq!((now.fast_retransmits, now.timeouts), (1, 0));
    // Step 4: "For each additional duplicate ACK received (after the third), cwnd MUST be incremented by SMSS."
    peer.inject(ack().seq(1).ack(1));
    assert_eq!(info(&mut peer, conn).congestion_window, 9000);
    // Everything at once: RFC 6582, 3.2, step 3, "full acknowledgment".
    peer.inject(ack().seq(1).ack(10_001));
    assert_eq!(info(&mut peer, conn).congestion_window, 2000);
    peer.expect_nothing();
}

/// RFC 5681, 2: "an acknowledgment is considered a 'duplicate' [...] when (a) the receiver of the ACK has outstanding data, (b)
/// the incoming acknowledgment carries no data, (c) the SYN and FIN bits are both off, (d) the acknowledgment number is
/// equal to the greatest acknowledgment received [...] and (e) the advertised window [...] equals the advertised window in
/// the last incoming acknowledgment."
#[test]
fn what_is_not_a_duplicate_does_not_count() {
    // (a)
    let (mut peer, conn) = Peer::established();
    for _ in 0..5 {
        peer.inject(ack().seq(1).ack(1));
    }
    peer.expect_nothing();
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    // (b)
    let (mut peer, conn) = with_queue(10);
    for n in 0..6 {
        peer.inject(ack().seq(1 + 10 * n).ack(1).len(10));
    }
    assert!(peer.drain().iter().all(|sent| sent.data.is_empty()));
    // (e)
    for n in 0..6 {
        peer.inject(ack().seq(61).ack(1).win(60_000 + n));
    }
    assert!(peer.drain().iter().all(|sent| sent.data.is_empty()));
    assert_eq!(info(&mut peer, conn).fast_retransmits, 0);
}

/// RFC 3042, 2: limited transmit "calls for a TCP sender to transmit new data upon the arrival of the first two
/// consecutive duplicate ACKs", and "the congestion window (cwnd) MUST NOT be changed when these new segments are transmitted".
#[test]
fn the_first_two_duplicates_send_new_segments() {
    let (mut peer, conn) = with_queue(30);
    peer.inject(ack().seq(1).ack(1));
    peer.expect(ack().seq(10_001).ack(1).len(1000));
    peer.inject(ack().seq(1).ack(1));
    peer.expect(ack().seq(11_001).ack(1).len(1000));
    peer.expect_nothing();
    assert_eq!(info(&mut peer, conn).congestion_window, 10_000);
}

/// RFC 6582, 3.2, step 3: "If this ACK does not acknowledge all of the data up to and including recover, then this is a
/// partial ACK. In this case, retransmit the first unacknowledged segment. Deflate the congestion window by the amount of
/// new data acknowledged [...] If the partial ACK acknowledges at least one SMSS of new data, then add back SMSS bytes".
#[test]
fn a_partial_acknowledgment_retransmits_the_next_hole() {
    let (mut peer, conn) = with_queue(10);
    for _ in 0..3 {
        peer.inject(ack().seq(1).ack(1));
    }
    peer.expect(ack().seq(1).ack(1).len(1000));
    for hole in [3001, 6001] {
        let before = info(&mut peer, conn).congestion_window;
        peer.inject(ack().seq(1).ack(hole));
        peer.expect(ack().seq(hole).ack(1).len(1000));
        peer.expect_nothing();
        assert_eq!(
            info(&mut peer, conn).congestion_window,
            (before - 3000).max(1000) + 1000
        );
    }
    assert_eq!(info(&mut peer, conn).fast_retransmits, 1);
    peer.inject(ack().seq(1).ack(10_001));
    // min (ssthresh, max(FlightSize, SMSS) + SMSS)
    assert_eq!(info(&mut peer, conn).congestion_window, 2000);
}

/// RFC 6582, 3.2, step 2: duplicates of what was sent before the last recovery do not begin another one ("Cumulative
/// Acknowledgment field covers more than recover").
#[test]
fn a_recovery_is_not_begun_twice_for_one_window() {
    let (mut peer, conn) = with_queue(10);
    for _ in 0..3 {
        peer.inject(ack().seq(1).ack(1));
    }
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.inject(ack().seq(1).ack(5001));
    peer.expect(ack().seq(5001).ack(1).len(1000));
    let threshold = info(&mut peer, conn).slow_start_threshold;
    for _ in 0..5 {
        peer.inject(ack().seq(1).ack(5001));
    }
    peer.expect_nothing();
    let now = info(&mut peer, conn);
    assert_eq!(
        (now.fast_retransmits, now.slow_start_threshold),
        (1, threshold)
    );
}

/// RFC 5681, 3.1: "Furthermore, upon a timeout [...] cwnd MUST be set to no more than the loss window, LW, which equals 1
/// full-sized segment"; equation 4: ssthresh = max (FlightSize / 2, 2*SMSS), and when the segment has been retransmitted
/// by the timer before, "the value of ssthresh is held constant".
#[test]
fn a_timeout_sets_the_window_to_one_segment_and_halves_the_threshold_once() {
    let (mut peer, conn) = with_queue(10);
    peer.wait(s(10));
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.expect_nothing();
    let now = info(&mut peer, conn);
    assert_eq!(
        (
            now.congestion_window,
            now.slow_start_threshold,
            now.timeouts
        ),
        (1000, 5000, 1)
    );
    peer.wait(s(10));
    peer.expect(ack().seq(1).ack(1).len(1000));
    let now = info(&mut peer, conn);
    assert_eq!(
        (
            now.congestion_window,
            now.slow_start_threshold,
            now.timeouts
        ),
        (1000, 5000, 2)
    );
    // Slow start from there.
    peer.inject(ack().seq(1).ack(1001));
    assert_eq!(info(&mut peer, conn).congestion_window, 2000);
    assert_eq!(
        peer.drain().iter().map(|sent| sent.seq).collect::<Vec<_>>(),
        [1001, 2001]
    );
    peer.inject(ack().seq(1).ack(10_001));
    assert_eq!(info(&mut peer, conn).in_flight, 0);
}

/// A connection in congestion avoidance, with plenty queued.
fn after_recovery() -> (Peer, ConnId) {
    let (mut peer, conn) = with_queue(100);
    for _ in 0..3 {
        peer.inject(ack().seq(1).ack(1));
    }
    let sent = peer.drain();
    let end = sent
        .iter()
        .map(|part| part.seq + part.data.len() as u32)
        .max()
        .unwrap();
    peer.inject(ack().seq(1).ack(end));
    peer.ignore();
    // Slow start up to the threshold.
    while info(&mut peer, conn).congestion_window < info(&mut peer, conn).slow_start_threshold {
        let now = info(&mut peer, conn);
        let next = 1 + now.bytes_acknowledged as u32 + 1000;
        peer.inject(ack().seq(1).ack(next));
        peer.ignore();
    }
    (peer, conn)
}

/// RFC 9293, 3.8.2, MUST-19; RFC 6582, 3.2, step 2: a third duplicate begins a recovery when the "Cumulative Acknowledgment
/// field covers more than recover". What was recovered last, or the first number of all, may be half the circle of
/// sequence numbers ago, 2 GiB.
#[test]
fn fast_retransmission_works_after_two_gibibytes() {
    const SEGMENT: u32 = 59_000;
    let mut peer = Peer::on_link(60_000, |config| {
        config.window_scaling = true;
        config.send_buffer = 1 << 20;
    });
    let conn = peer.accepted(syn().mss(SEGMENT as u16).scale(6));
    let zeros = vec![0; SEGMENT as usize];
    let mut at = 1;
    while at < (1 << 31) + (1 << 20) {
        assert_eq!(peer.stack().send(conn, &zeros), Ok(zeros.len()));
        peer.ignore();
        at += SEGMENT;
        peer.inject(ack().seq(1).ack(at));
    }
    for _ in 0..10 {
        assert_eq!(peer.stack().send(conn, &zeros), Ok(zeros.len()));
    }
    for _ in 0..2 {
        peer.inject(ack().seq(1).ack(at));
    }
    peer.ignore();
    peer.inject(ack().seq(1).ack(at));
    peer.expect(ack().seq(at).ack(1).data(&zeros));
    let now = info(&mut peer, conn);
    assert_eq!((now.fast_retransmits, now.timeouts), (1, 0));
    peer.ignore();
}

/// A window of more than 30 segments with nothing in flight, and a timeout.
fn grown_window() -> (Peer, ConnId, u32, Duration) {
    let (mut peer, conn) = with_queue(60);
    for n in 1..=60 {
        peer.inject(ack().seq(1).ack(1 + 1000 * n));
        peer.ignore();
    }
    let Info {
        congestion_window: grown,
        rto,
        ..
    } = info(&mut peer, conn);
    assert!(grown >= 30_000, "{grown}");
    (peer, conn, grown, rto)
}

/// CC-7; RFC 2861, 3.1: for each timeout's time without data "the window is decayed by a factor of two".
#[test]
fn window_of_an_idle_connection_is_halved_with_each_timeout() {
    let (mut peer, conn, grown, timeout) = grown_window();
    // Nothing of that is forgotten in less than a timeout.
    peer.advance(timeout / 2);
    assert_eq!(info(&mut peer, conn).congestion_window, grown);
    // The quiet is measured from a look at the connection, within a timeout of the last segment.
    peer.advance(timeout * 3 / 2);
    assert_eq!(info(&mut peer, conn).congestion_window, grown / 2);
    // A quarter would be less than the initial window.
    peer.advance(timeout);
    assert_eq!(info(&mut peer, conn).congestion_window, 10_000);
}

/// CC-7; RFC 5681, 4.1: what is sent after a long silence is no more than "RW = min(IW,cwnd)".
#[test]
fn long_silence_leaves_the_initial_window() {
    let (mut peer, conn, ..) = grown_window();
    peer.advance(s(10));
    peer.send(conn, 60_001, 60_000);
    for n in 0..10 {
        peer.expect(ack().seq(60_001 + 1000 * n).ack(1).len(1000));
    }
    peer.expect_nothing();
    // Slow start from there.
    peer.inject(ack().seq(1).ack(61_001));
    peer.expect(ack().seq(70_001).ack(1).len(1000));
    peer.expect(ack().seq(71_001).ack(1).len(1000));
}

/// CC-7; RFC 5681, 4.1 and 3.1: a connection that sends little is not idle, and what it loses then leaves a part of what was in flight
/// ("FlightSize"), whatever the window.
#[test]
fn trickle_keeps_the_window_and_a_loss_leaves_a_part_of_the_flight() {
    let (mut peer, conn, grown, timeout) = grown_window();
    let mut at = 60_001;
    for _ in 0..40 {
        peer.send(conn, at, 1000);
        peer.ignore();
        peer.advance(timeout / 4);
        at += 1000;
        peer.inject(ack().seq(1).ack(at));
    }
    assert_eq!(info(&mut peer, conn).congestion_window, grown);
    peer.send(conn, at, 5000);
    peer.ignore();
    for _ in 0..3 {
        peer.inject(ack().seq(1).ack(at));
    }
    peer.ignore();
    // NewReno's half (equation 4).
    assert_eq!(info(&mut peer, conn).slow_start_threshold, 2500);
}

/// RFC 7661, the same with a sender that is limited by the peer's window while more is queued: cwnd does not grow far beyond
/// what was ever in flight.
#[test]
fn window_of_the_peer_limits_the_growth() {
    let mut peer = Peer::new();
    let listener = peer.listen();
    peer.inject(syn().mss(MSS).win(15_000));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.inject(ack().seq(1).ack(1).win(15_000));
    let conn = peer.stack().accept(listener).unwrap();
    peer.send(conn, 1, 200_000);
    for n in 1..=150 {
        peer.inject(ack().seq(1).ack(1 + 1000 * n).win(15_000));
        peer.ignore();
    }
    let now = info(&mut peer, conn);
    assert_eq!(now.in_flight, 15_000);
    assert!(
        now.congestion_window <= 30_000,
        "cwnd is {}, and no more than 15,000 were ever in flight",
        now.congestion_window
    );
}
