//! Selective acknowledgments (RFC 2018, RFC 2883), what is lost (RFC 6675, RFC 8985), and how much is sent meanwhile (RFC 9937).

use crate::peer::*;
use std::time::Duration;
use tollgate_stack::config::RetransmitCopy;
use tollgate_stack::counters::Drop;
use tollgate_stack::{Config, CongestionState, ConnId, Info, SocketOption};
use tollgate_wire::tcp::Flags;

/// The round trip of these scripts.
const ROUND_TRIP: Duration = Duration::from_millis(40);

fn info(peer: &mut Peer, conn: ConnId) -> Info {
    peer.stack().info(conn).expect("it is there")
}

/// A connection with selective acknowledgments that the peer has opened.
fn selective() -> (Peer, ConnId) {
    selective_with(|_| {})
}

/// The same, with a changed configuration.
fn selective_with(change: impl FnOnce(&mut Config)) -> (Peer, ConnId) {
    let mut peer = Peer::with(change);
    let conn = peer.accepted_after(syn().mss(MSS).sack_permitted(), ROUND_TRIP);
    assert!(info(&mut peer, conn).selective_acknowledgments);
    (peer, conn)
}

/// Such a connection with `segments` segments of 1,000 bytes in flight since a round trip. One before them was acknowledged after that time.
fn in_flight(segments: u32) -> (Peer, ConnId) {
    in_flight_with(segments, |_| {})
}

/// The same, with a changed configuration.
fn in_flight_with(segments: u32, change: impl FnOnce(&mut Config)) -> (Peer, ConnId) {
    let (mut peer, conn) = selective_with(change);
    peer.send(conn, 1, 1000);
    peer.ignore();
    peer.advance(ROUND_TRIP);
    peer.inject(ack().seq(1).ack(1001));
    peer.send(conn, 1001, 1000 * segments as usize);
    for n in 0..segments {
        peer.expect(ack().seq(1001 + 1000 * n).ack(1).len(1000));
    }
    peer.expect_nothing();
    peer.advance(ROUND_TRIP);
    peer.expect_nothing();
    (peer, conn)
}

/// The peer tells that it has these bytes behind 1001, which it waits for.
fn tell(peer: &mut Peer, ranges: &[(u32, u32)]) {
    tell_at(peer, 1001, ranges);
}

fn tell_at(peer: &mut Peer, next: u32, ranges: &[(u32, u32)]) {
    let blocks = peer.blocks(ranges);
    peer.inject(ack().seq(1).ack(next).sack(blocks));
}

/// SACK-1. RFC 2018, 2: "It MAY be sent in a SYN by a TCP that has been extended to receive (and presumably process) the SACK option
/// once the connection has opened. It MUST NOT be sent on non-SYN segments."
#[test]
fn permission_is_in_every_first_syn_and_in_the_answer_to_one_that_has_it() {
    let mut peer = Peer::new();
    peer.connect();
    assert!(peer.expect(syn()).header.options.sack_permitted);
    for asked in [false, true] {
        let mut peer = Peer::new();
        peer.listen();
        let first = syn().mss(MSS);
        peer.inject(if asked { first.sack_permitted() } else { first });
        let answer = peer.expect(syn_ack().seq(0).ack(1));
        assert_eq!(answer.header.options.sack_permitted, asked);
    }
    let (mut peer, conn) = in_flight(1);
    assert!(info(&mut peer, conn).selective_acknowledgments);
    peer.inject(ack().seq(1).ack(2001).len(10));
    let next = peer.wait(Duration::from_secs(1));
    assert!(next < Duration::from_millis(500));
    assert!(
        !peer
            .next()
            .expect("an acknowledgment")
            .header
            .options
            .sack_permitted
    );
}

/// SACK-2. RFC 2018, 3: "If the data receiver has not received a SACK-Permitted option for a given connection, it MUST NOT send SACK
/// options on that connection."
#[test]
fn without_permission_nothing_is_told() {
    let (mut peer, _) = Peer::established();
    peer.inject(ack().seq(1001).ack(1).len(1000));
    let answer = peer.expect(ack().seq(1).ack(1));
    assert_eq!(peer.told(&answer), []);
    peer.inject(ack().seq(1).ack(1).len(1000));
    peer.expect(ack().seq(1).ack(2001));
    peer.inject(ack().seq(1).ack(1).len(1000));
    let answer = peer.expect(ack().seq(1).ack(2001));
    assert_eq!(peer.told(&answer), []);
}

/// SACK-3. RFC 2018, 4: "The first SACK block [...] MUST specify the contiguous block of data containing the segment which triggered
/// this ACK"; "The SACK option SHOULD be filled out by repeating the most recently reported SACK blocks".
#[test]
fn newest_range_is_told_first_and_at_once() {
    let (mut peer, _) = selective();
    for (at, told) in [
        (1001, &[(1001, 2001)][..]),
        (3001, &[(3001, 4001), (1001, 2001)]),
        (5001, &[(5001, 6001), (3001, 4001), (1001, 2001)]),
        (2001, &[(1001, 4001), (5001, 6001)]),
    ] {
        peer.inject(ack().seq(at).ack(1).len(1000));
        let answer = peer.expect(ack().seq(1).ack(1));
        assert_eq!(peer.told(&answer), told);
        peer.expect_nothing();
    }
    peer.inject(ack().seq(1).ack(1).len(1000));
    let answer = peer.expect(ack().seq(1).ack(4001));
    assert_eq!(peer.told(&answer), [(5001, 6001)]);
    peer.inject(ack().seq(4001).ack(1).len(1000));
    let answer = peer.expect(ack().seq(1).ack(6001));
    assert_eq!(peer.told(&answer), []);
}

/// SACK-4. RFC 2018, 4: "If sent at all, SACK options SHOULD be included in all ACKs which do not ACK the highest sequence number in the
/// data receiver's queue." A segment with data has no room for them, so an acknowledgment without data goes before it.
#[test]
fn data_does_not_keep_ranges_from_being_told() {
    let (mut peer, conn) = selective();
    peer.send(conn, 1, 1000);
    peer.ignore();
    peer.send(conn, 1001, 1000);
    peer.ignore();
    peer.inject(ack().seq(1001).ack(1001).len(1000));
    let answer = peer.expect(ack().seq(2001).ack(1));
    assert_eq!(peer.told(&answer), [(1001, 2001)]);
    peer.expect_nothing();
}

/// SACK-5. RFC 2883, 4: "The D-SACK block [...] SHOULD be the first SACK block"; "each duplicate contiguous sequence of data received is
/// reported in at most one D-SACK block"; within a range out of order, the second block is that range.
#[test]
fn duplicate_is_told_once_and_before_all_ranges() {
    let (mut peer, _) = selective();
    peer.inject(ack().seq(1).ack(1).len(1000));
    peer.inject(ack().seq(1).ack(1).len(1000));
    let answer = peer.expect(ack().seq(1).ack(1001));
    assert_eq!(peer.told(&answer), [(1, 1001)]);
    // 4.2.2: within what is out of order.
    for at in [2001, 3001] {
        peer.inject(ack().seq(at).ack(1).len(1000));
        peer.expect(ack().seq(1).ack(1001));
    }
    peer.inject(ack().seq(2001).ack(1).len(1000));
    let answer = peer.expect(ack().seq(1).ack(1001));
    assert_eq!(peer.told(&answer), [(2001, 3001), (2001, 4001)]);
    // 4.1.2: in part before what is expected.
    peer.inject(ack().seq(501).ack(1).len(1000));
    let answer = peer.expect(ack().seq(1).ack(1501));
    assert_eq!(peer.told(&answer), [(501, 1001), (2001, 4001)]);
    peer.inject(ack().seq(6001).ack(1).len(100));
    let answer = peer.expect(ack().seq(1).ack(1501));
    assert_eq!(peer.told(&answer), [(6001, 6101), (2001, 4001)]);
}

/// SACK-6. RFC 2018, 5: "the data sender SHOULD [...] skip SACKed data during any later retransmission." RFC 6675, 5, with three
/// segments sacked: what is lost goes again, and only that.
#[test]
fn only_what_is_missing_is_sent_again() {
    let (mut peer, conn) = in_flight(10);
    tell(&mut peer, &[(2001, 3001)]);
    peer.expect_nothing();
    tell(&mut peer, &[(2001, 4001)]);
    peer.expect_nothing();
    // The first and the fifth are missing.
    tell(&mut peer, &[(2001, 5001)]);
    peer.expect(ack().seq(1001).ack(1).len(1000));
    peer.expect_nothing();
    for end in [7001, 8001, 9001] {
        tell(&mut peer, &[(6001, end), (2001, 5001)]);
    }
    peer.expect(ack().seq(5001).ack(1).len(1000));
    peer.expect_nothing();
    let now = info(&mut peer, conn);
    assert_eq!(
        (now.retransmits, now.fast_retransmits, now.timeouts),
        (2, 1, 0)
    );
    peer.advance(ROUND_TRIP);
    peer.inject(ack().seq(1).ack(11_001));
    peer.expect_nothing();
    // RFC 9937, 6: the window is what the controller has asked for.
    let now = info(&mut peer, conn);
    assert_eq!(now.congestion_window, now.slow_start_threshold);
}

/// SACK-7. RFC 8985, 6.2: fewer than three segments sacked mean a loss only after a quarter of the shortest round trip.
#[test]
fn single_sacked_segment_waits_for_the_reordering_window() {
    let (mut peer, conn) = in_flight(3);
    let smoothed = info(&mut peer, conn).rtt;
    tell(&mut peer, &[(2001, 3001)]);
    peer.expect_nothing();
    let waited = peer.wait(Duration::from_secs(1));
    assert_eq!(smoothed.as_millis(), ROUND_TRIP.as_millis());
    let window = ROUND_TRIP / 4;
    assert!(
        waited >= window && waited < window + 3 * TICK,
        "{waited:?} {window:?}"
    );
    peer.expect(ack().seq(1001).ack(1).len(1000));
    assert_eq!(info(&mut peer, conn).timeouts, 0);
}

/// SACK-8. RFC 8985, 6.2, steps 3 and 4: a segment that comes late and in time is not sent again, and the window stays open from then on.
#[test]
fn late_segment_is_not_sent_again() {
    let (mut peer, conn) = in_flight(10);
    tell(&mut peer, &[(2001, 3001)]);
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(3001));
    // Three are sacked now, but segments have been seen to change places.
    tell_at(&mut peer, 3001, &[(4001, 8001)]);
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(11_001));
    peer.expect_nothing();
    let now = info(&mut peer, conn);
    assert_eq!((now.retransmits, now.fast_retransmits), (0, 0));
    assert_eq!(now.slow_start_threshold, u32::MAX);
}

/// A connection on which segments have changed places, and whose peer has then reported a duplicate: RACK's window is two quarters of the
/// shortest round trip.
fn with_a_wider_window() -> (Peer, ConnId) {
    let (mut peer, conn) = in_flight(2);
    tell(&mut peer, &[(2001, 3001)]);
    peer.inject(ack().seq(1).ack(3001));
    tell_at(&mut peer, 3001, &[(1001, 2001)]);
    assert_eq!(
        info(&mut peer, conn).reordering_window,
        Some(ROUND_TRIP / 2)
    );
    (peer, conn)
}

/// SACK-8. RFC 8985, 6.2, step 1: RACK.min_RTT is of all round trips that are measured, not only of those while something is lost.
#[test]
fn shortest_round_trip_is_also_one_without_loss() {
    let (mut peer, conn) = selective();
    assert_eq!(info(&mut peer, conn).min_rtt, None);
    // The window takes ten segments, and so limits what is sent.
    peer.send(conn, 1, 20_000);
    peer.ignore();
    peer.advance(ROUND_TRIP);
    peer.inject(ack().seq(1).ack(2001));
    let clean = info(&mut peer, conn);
    assert_eq!(
        (clean.min_rtt, clean.fast_retransmits),
        (Some(ROUND_TRIP), 0)
    );
    peer.ignore();
    peer.advance(ROUND_TRIP);
    // These have taken twice as long, and have changed places.
    tell_at(&mut peer, 2001, &[(3001, 4001)]);
    peer.inject(ack().seq(1).ack(4001));
    let marked = info(&mut peer, conn);
    assert_eq!(marked.min_rtt, Some(ROUND_TRIP));
    assert_eq!(marked.reordering_window, Some(ROUND_TRIP / 4));
    peer.ignore();
}

/// SACK-8. RFC 8985, 6.2, step 4: "the RACK.reo_wnd_persist is decremented by 1" when "exiting Fast or RTO recovery".
#[test]
fn wider_window_is_not_kept_for_more_than_sixteen_timeouts() {
    let (mut peer, conn) = with_a_wider_window();
    for n in 0..16 {
        assert_eq!(
            info(&mut peer, conn).reordering_window,
            Some(ROUND_TRIP / 2)
        );
        peer.send(conn, 3001 + 1000 * n, 1000);
        while info(&mut peer, conn).timeouts == n as u16 {
            peer.ignore();
            peer.wait(Duration::from_secs(60));
        }
        peer.ignore();
        peer.inject(ack().seq(1).ack(4001 + 1000 * n));
        assert_eq!(
            info(&mut peer, conn).congestion_state,
            CongestionState::Open
        );
    }
    assert_eq!(
        info(&mut peer, conn).reordering_window,
        Some(ROUND_TRIP / 4)
    );
}

/// SACK-9. RFC 8985, 3: "RACK can detect lost retransmissions", by what was sent after them.
#[test]
fn lost_retransmission_is_found_without_a_timeout() {
    let (mut peer, conn) = in_flight(10);
    peer.send(conn, 11_001, 20_000);
    tell(&mut peer, &[(2001, 6001)]);
    peer.expect(ack().seq(1001).ack(1).len(1000));
    tell(&mut peer, &[(2001, 11_001)]);
    let new: Vec<u32> = peer.drain().iter().map(|sent| sent.seq).collect();
    assert_eq!(new[0], 11_001, "{new:?}");
    peer.advance(ROUND_TRIP);
    // New data arrives that was sent after the retransmission, which does not.
    tell(&mut peer, &[(2001, 12_001)]);
    let again: Vec<u32> = peer.drain().iter().map(|sent| sent.seq).collect();
    assert!(again.contains(&1001), "{again:?}");
    assert_eq!(info(&mut peer, conn).timeouts, 0);
}

/// SACK-10. RFC 2018, 8, and RFC 6675, 5.1: after a timeout everything may be sent again but what is sacked; where the first segment is
/// said to be there and is not acknowledged, the peer has dropped it, and nothing is believed any more.
#[test]
fn after_a_timeout_what_is_sacked_is_not_sent_again_unless_it_was_dropped() {
    for dropped in [false, true] {
        let (mut peer, conn) = in_flight(4);
        tell(&mut peer, &[(3001, 4001)]);
        peer.ignore();
        if dropped {
            peer.inject(ack().seq(1).ack(3001));
            peer.ignore();
        }
        let first = if dropped { 3001 } else { 1001 };
        while info(&mut peer, conn).timeouts == 0 {
            peer.ignore();
            peer.wait(Duration::from_secs(2));
        }
        peer.expect(ack().seq(first).ack(1).len(1000));
        if dropped {
            peer.inject(ack().seq(1).ack(4001));
            peer.expect(ack().seq(4001).ack(1).len(1000));
        } else {
            peer.inject(ack().seq(1).ack(2001));
            peer.expect(ack().seq(2001).ack(1).len(1000));
            peer.inject(ack().seq(1).ack(4001));
            peer.expect(ack().seq(4001).ack(1).len(1000));
        }
        peer.expect_nothing();
    }
}

/// SACK-11. RFC 2883, 5, and RFC 9438, 4.9: when all that was sent again had arrived already, the windows of before come back.
#[test]
fn recovery_for_nothing_is_undone() {
    let (mut peer, conn) = in_flight(10);
    let before = info(&mut peer, conn);
    tell(&mut peer, &[(2001, 6001)]);
    peer.expect(ack().seq(1001).ack(1).len(1000));
    assert!(info(&mut peer, conn).slow_start_threshold < u32::MAX);
    peer.inject(ack().seq(1).ack(11_001));
    tell_at(&mut peer, 11_001, &[(1001, 2001)]);
    let after = info(&mut peer, conn);
    assert_eq!(after.undone_recoveries, 1);
    assert!(after.congestion_window >= before.congestion_window);
    assert_eq!(after.slow_start_threshold, u32::MAX);
    peer.expect_nothing();
}

/// SACK-11. RFC 2883, 5: a duplicate that the network has made of something else says nothing of what was sent again.
#[test]
fn duplicate_of_something_else_undoes_nothing() {
    let (mut peer, conn) = in_flight(10);
    tell(&mut peer, &[(2001, 6001)]);
    peer.expect(ack().seq(1001).ack(1).len(1000));
    let during = info(&mut peer, conn);
    peer.inject(ack().seq(1).ack(11_001));
    tell_at(&mut peer, 11_001, &[(3001, 4001)]);
    let after = info(&mut peer, conn);
    assert_eq!(after.undone_recoveries, 0);
    assert_eq!(after.slow_start_threshold, during.slow_start_threshold);
}

/// RFC 8985, 6.2, step 3: "If a never-retransmitted segment that's below RACK.fack is (selectively) acknowledged, it has been delivered
/// out of order." Where an acknowledgment was lost, the next brings two ranges, the newer one first, and nothing was out of order.
#[test]
fn ranges_of_one_acknowledgment_are_no_reordering() {
    let (mut peer, conn) = in_flight(10);
    tell(&mut peer, &[(4001, 8001), (2001, 3001)]);
    assert_eq!(info(&mut peer, conn).reordering_window, None);
    // So what is missing is lost at once.
    peer.expect(ack().seq(1001).ack(1).len(1000));
    peer.expect(ack().seq(3001).ack(1).len(1000));
}

/// RFC 6675, 5, step C: a segment counts as sent again only when it was. A copy of it takes a frame; what is no longer the first gets
/// none of the reserve, and goes as soon as there are frames.
#[test]
fn what_found_no_frame_does_not_count_as_sent_again() {
    let (mut peer, conn) = in_flight_with(10, |config| {
        config.mechanisms.retransmit = RetransmitCopy::Copy;
    });
    let mut taken = Vec::new();
    while !peer.pool.is_scarce() {
        taken.extend(peer.pool.alloc());
    }
    // What arrives needs some.
    for id in taken.drain(..4) {
        peer.pool.release(id);
    }
    tell(&mut peer, &[(4001, 8001), (2001, 3001)]);
    peer.expect(ack().seq(1001).ack(1).len(1000));
    peer.expect_nothing();
    let now = info(&mut peer, conn);
    assert_eq!((now.retransmits, now.bytes_retransmitted), (1, 1000));
    let refused = peer.stack.counters().drops(Drop::NoFrame);
    assert_eq!(refused, 1);
    for id in taken {
        peer.pool.release(id);
    }
    tell(&mut peer, &[(4001, 9001), (2001, 3001)]);
    peer.expect(ack().seq(3001).ack(1).len(1000));
    peer.inject(ack().seq(1).ack(11_001));
    let now = info(&mut peer, conn);
    assert_eq!((now.retransmits, now.timeouts, now.in_flight), (2, 0, 0));
    assert_eq!(peer.pool.available(), peer.pool.capacity());
}

/// After a timeout, too, output waits at the segment that found no frame.
#[test]
fn after_a_timeout_what_found_no_frame_goes_as_the_first() {
    let (mut peer, conn) = in_flight_with(4, |config| {
        config.mechanisms.retransmit = RetransmitCopy::Copy;
    });
    let mut taken = Vec::new();
    while !peer.pool.is_scarce() {
        taken.extend(peer.pool.alloc());
    }
    for id in taken.drain(..4) {
        peer.pool.release(id);
    }
    while info(&mut peer, conn).timeouts == 0 {
        peer.ignore();
        peer.wait(Duration::from_secs(2));
    }
    peer.expect(ack().seq(1001).ack(1).len(1000));
    // The window has room for two, and there is a frame for one. The other becomes the first.
    for next in [2001, 3001, 4001] {
        peer.inject(ack().seq(1).ack(next));
        peer.expect(ack().seq(next).ack(1).len(1000));
        peer.expect_nothing();
        let verdict = peer.stack.check_consistency(&peer.pool);
        assert!(verdict.is_ok(), "{verdict:?}");
    }
    peer.inject(ack().seq(1).ack(5001));
    assert_eq!(info(&mut peer, conn).timeouts, 1);
    for id in taken {
        peer.pool.release(id);
    }
    assert_eq!(peer.pool.available(), peer.pool.capacity());
}

/// SACK-12. RFC 9937, 6: while losses are repaired, as much is sent as the controller's reduction allows of what is delivered.
#[test]
fn flight_comes_down_in_proportion() {
    let (mut peer, conn) = in_flight(10);
    peer.send(conn, 11_001, 40_000);
    peer.ignore();
    let before = info(&mut peer, conn).in_flight;
    let mut sent = 0;
    for n in 1..10 {
        tell(&mut peer, &[(2001, 2001 + 1000 * n)]);
        sent += peer.drain().len();
    }
    let now = info(&mut peer, conn);
    // Nine are delivered and one is lost; what is in flight is near the threshold.
    let flight = before - 10_000 + 1000 * sent as u32;
    let threshold = now.slow_start_threshold;
    assert!(flight.abs_diff(threshold) <= 2000, "{flight} {now:?}");
}

/// SACK-13. RFC 2018, 5, and RFC 5961: blocks that cannot be true change nothing.
#[test]
fn blocks_about_what_was_not_sent_are_ignored() {
    let (mut peer, conn) = in_flight(5);
    for ranges in [
        &[(7001, 9001)][..],
        &[(2001, 7001)],
        &[(4001, 2001)],
        &[(2001, 2001)],
        &[(0x8000_0000, 0x8000_1000)],
    ] {
        tell(&mut peer, ranges);
    }
    peer.advance(ROUND_TRIP);
    peer.expect_nothing();
    let now = info(&mut peer, conn);
    assert_eq!((now.retransmits, now.fast_retransmits), (0, 0));
    peer.inject(ack().seq(1).ack(6001));
    peer.expect_nothing();
}

/// RFC 9293, 3.8.6.1, with marks: a window that closes over a hole is probed, and everything but what is sacked goes again when it opens.
#[test]
fn window_that_opens_again_finds_marks_and_window_in_order() {
    let (mut peer, conn) = in_flight(4);
    let sacked = peer.blocks(&[(2001, 3001)]);
    peer.inject(ack().seq(1).ack(1001).win(0).sack(sacked));
    peer.advance(Duration::from_secs(3));
    peer.ignore();
    assert_eq!(info(&mut peer, conn).timeouts, 0, "it is no timeout");
    peer.inject(ack().seq(1).ack(1001).sack(sacked));
    let consistent = peer.stack.check_consistency(&peer.pool);
    assert_eq!(consistent, Ok(()));
    let mut next = 1001;
    while next != 5001 {
        let again: Vec<u32> = peer.drain().iter().map(|sent| sent.seq).collect();
        assert!(!again.contains(&2001), "{again:?}");
        next = if next == 1001 { 3001 } else { next + 1000 };
        peer.inject(ack().seq(1).ack(next));
    }
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

/// SACK-3. After a timeout everything is sent again but what the peer has. What is written then goes behind that, and not into a segment
/// that will not be sent.
#[test]
fn what_is_written_after_a_timeout_goes_behind_a_short_segment_that_the_peer_has() {
    for closes in [false, true] {
        let (mut peer, conn) = selective();
        peer.stack()
            .set_option(conn, SocketOption::NoDelay(true))
            .expect("it is there");
        peer.send(conn, 1, 2500);
        peer.ignore();
        // The last, of 500 bytes, has arrived.
        tell_at(&mut peer, 1, &[(2001, 2501)]);
        peer.ignore();
        peer.wait(Duration::from_secs(5));
        peer.ignore();
        peer.wait(Duration::from_secs(5));
        peer.ignore();
        if closes {
            peer.stack().shutdown(conn).expect("it is open");
        } else {
            peer.send(conn, 2501, 100);
        }
        assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
        // The peer gets what is sent again, and says so.
        tell_at(&mut peer, 1001, &[(2001, 2501)]);
        peer.inject(ack().seq(1).ack(2501));
        let sent = peer.drain();
        let new = sent.iter().find(|sent| sent.seq == 2501);
        let new = new.expect("what is new is sent");
        assert_eq!(new.data.len(), if closes { 0 } else { 100 });
        assert_eq!(new.header.flags.has(Flags::FIN), closes);
        assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
    }
}

/// RFC 2018, 4: "The first SACK block [...] MUST specify the contiguous block of data containing the segment which triggered this ACK",
/// also where a part of it has fallen out of the blocks; RFC 2883, 4: what is there already is a duplicate.
#[test]
fn first_block_is_whole_among_many() {
    let mut peer = Peer::new();
    peer.accepted_after(syn().mss(MSS).sack_permitted(), ms(40));
    for n in 1..=6 {
        peer.inject(ack().seq(1 + n * 2000).ack(1).len(1000));
        peer.ignore();
    }
    let told = |peer: &mut Peer, seq, len| {
        peer.inject(ack().seq(seq).ack(1).len(len));
        let sent = peer.next().expect("an acknowledgment");
        peer.told(&sent)
    };
    // Behind the first, and between the second and the third.
    assert_eq!(told(&mut peer, 3001, 500)[0], (2001, 3501));
    assert_eq!(told(&mut peer, 5001, 1000)[0], (4001, 7001));
    assert_eq!(
        told(&mut peer, 4001, 100)[..2],
        [(4001, 4101), (4001, 7001)]
    );
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

/// RFC 2018, 8: what was told of is kept, also where a longer segment takes its place while frames are short.
#[test]
fn what_was_told_of_is_kept_in_a_low_pool() {
    let mut peer = Peer::new();
    peer.accepted_after(syn().mss(MSS).sack_permitted(), ms(40));
    peer.inject(ack().seq(5001).ack(1).len(1000));
    peer.inject(ack().seq(1001).ack(1).len(100));
    peer.ignore();
    let mut held = Vec::new();
    while peer.pool.available() >= peer.pool.capacity() / 4 {
        held.push(peer.stack().pool().buffer(1).expect("there is one"));
    }
    peer.inject(ack().seq(1001).ack(1).len(1000));
    peer.ignore();
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
    peer.inject(ack().seq(1).ack(1).len(1000));
    let last = peer.drain().last().map(|sent| sent.ack);
    assert_eq!(last, Some(2001));
}
