//! RFC 6298: the retransmission timer.

use crate::peer::*;
use std::time::Duration;
use tollgate_stack::ConnId;
use tollgate_stack::config::{MtuProbing, Prediction};

fn rto(peer: &mut Peer, conn: ConnId) -> Duration {
    peer.stack().info(conn).expect("it is there").rto
}

/// A connection on which the round trip of one exchange was `round_trip`.
fn measured(round_trip: Duration) -> (Peer, ConnId) {
    let mut peer = Peer::new();
    let listener = peer.listen();
    peer.inject(syn().seq(0).mss(MSS));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.advance(round_trip);
    peer.inject(ack().seq(1).ack(1));
    let conn = peer.stack().accept(listener).unwrap();
    (peer, conn)
}

/// 2.1: "Until a round-trip time (RTT) measurement has been made for a segment sent between the sender and receiver, the
/// sender SHOULD set RTO <- 1 second"; 5.5: "The host MUST set RTO <- RTO * 2 ('back off the timer')."
#[test]
fn a_syn_is_sent_again_after_one_second_and_then_backed_off() {
    let mut peer = Peer::new();
    peer.connect();
    peer.expect(syn());
    for seconds in [1, 2, 4, 8, 16, 32] {
        peer.expect_after(s(seconds), syn());
    }
}

/// A SYN,ACK is sent again after one second, and then backed off, as a SYN is.
#[test]
fn a_syn_ack_is_sent_again_after_one_second_and_then_backed_off() {
    let mut peer = Peer::new();
    peer.listen();
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    for seconds in [1, 2, 4, 8] {
        peer.expect_after(s(seconds), syn_ack().seq(0).ack(1));
    }
}

/// RFC 9293, 3.8.1, MUST-18: "The RTO MUST be computed according to the algorithm in [RFC 6298], including Karn's algorithm
/// for taking RTT samples". 2.2: "When the first RTT measurement R is made, the host MUST set SRTT <- R, RTTVAR <- R/2, RTO <- SRTT + max (G,
/// K*RTTVAR) where K = 4"; 2.3: "RTTVAR <- (1 - beta) * RTTVAR + beta * |SRTT - R'|, SRTT <- (1 - alpha) * SRTT + alpha *
/// R'".
#[test]
fn the_timeout_follows_the_round_trips() {
    let (mut peer, conn) = measured(ms(400));
    let close = |a: Duration, b: Duration| a.abs_diff(b) < Duration::from_micros(1);
    let info = peer.stack().info(conn).unwrap();
    assert!(
        close(info.rtt, ms(400)) && close(info.rtt_variation, ms(200)),
        "{info:?}"
    );
    assert!(
        info.rto >= ms(1200) && info.rto <= ms(1200) + SLACK,
        "{:?}",
        info.rto
    );
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    peer.advance(ms(800));
    peer.inject(ack().seq(1).ack(11));
    let info = peer.stack().info(conn).unwrap();
    assert!(
        close(info.rtt, ms(450)) && close(info.rtt_variation, ms(250)),
        "{info:?}"
    );
    assert!(
        info.rto >= ms(1450) && info.rto <= ms(1450) + SLACK,
        "{:?}",
        info.rto
    );
    peer.send(conn, 11, 10);
    peer.expect(ack().seq(11).ack(1).len(10));
    let at = info.rto;
    let waited = peer.wait(s(10));
    assert!(
        waited + SLACK >= at && waited <= at + SLACK,
        "{waited:?} instead of {at:?}"
    );
    peer.expect(ack().seq(11).ack(1).len(10));
}

/// 2.4: the timeout has a lower bound, which can be configured (the RFC asks for a second; the default here is 200 ms, as
/// hosts have it today); 2.5: "A maximum value MAY be placed on RTO provided it is at least 60 seconds."
#[test]
fn the_timeout_has_bounds() {
    let (mut peer, conn) = measured(Duration::from_micros(50));
    assert!(rto(&mut peer, conn) >= ms(200) && rto(&mut peer, conn) <= ms(200) + SLACK);
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    let mut longest = Duration::ZERO;
    for _ in 0..12 {
        let waited = peer.wait(s(100));
        peer.expect(ack().seq(1).ack(1).len(10));
        assert!(waited + SLACK >= longest && waited <= s(60) + SLACK);
        longest = longest.max(waited);
    }
    assert!(longest + SLACK >= s(60), "{longest:?}");
    let (mut peer, conn) = Peer::established_with(|config| config.min_rto = s(1));
    assert!(rto(&mut peer, conn) >= s(1));
}

/// 5.1: "Every time a packet containing data is sent (including a retransmission), if the timer is not running, start it";
/// 5.5: back-off by two each time.
#[test]
fn data_is_sent_again_with_back_off() {
    let (mut peer, conn) = measured(ms(100));
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    let mut interval = rto(&mut peer, conn);
    for _ in 0..6 {
        let waited = peer.wait(s(100));
        assert!(
            waited + SLACK >= interval && waited <= interval + SLACK,
            "{waited:?} instead of {interval:?}"
        );
        peer.expect(ack().seq(1).ack(1).len(10));
        interval *= 2;
    }
}

/// 5.2: "When all outstanding data has been acknowledged, turn off the retransmission timer."
#[test]
fn nothing_is_sent_again_when_all_is_acknowledged() {
    let (mut peer, conn) = measured(ms(100));
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    peer.inject(ack().seq(1).ack(11));
    peer.advance(s(100));
    peer.expect_nothing();
}

/// 5.3: "When an ACK is received that acknowledges new data, restart the retransmission timer so that it will expire after
/// RTO seconds (for the current value of RTO)."
#[test]
fn new_acknowledgments_restart_the_timer() {
    let (mut peer, conn) = measured(ms(100));
    peer.send(conn, 1, 10_000);
    peer.drain();
    for n in 1..=8 {
        peer.advance(ms(150));
        peer.inject(ack().seq(1).ack(1 + 1000 * n));
        peer.expect_nothing();
    }
    let at = rto(&mut peer, conn);
    let waited = peer.wait(s(10));
    assert!(
        waited + SLACK >= at && waited <= at + SLACK,
        "{waited:?} instead of {at:?}"
    );
    peer.expect(ack().seq(8001).ack(1).len(1000));
    peer.ignore();
    // An acknowledgment of nothing new does not.
    let (mut peer, conn) = measured(ms(100));
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    let at = rto(&mut peer, conn);
    peer.advance(at / 2);
    peer.inject(ack().seq(1).ack(1));
    let waited = peer.wait(s(10));
    assert!(waited <= at / 2 + SLACK, "{waited:?} after half of {at:?}");
    peer.expect(ack().seq(1).ack(1).len(10));
}

/// 5.4: "Retransmit the earliest segment that has not been acknowledged by the TCP receiver."
#[test]
fn the_earliest_segment_is_sent_again() {
    let (mut peer, conn) = measured(ms(100));
    peer.send(conn, 1, 3000);
    peer.drain();
    peer.inject(ack().seq(1).ack(1001));
    peer.wait(s(10));
    peer.expect(ack().seq(1001).ack(1).len(1000));
    peer.expect_nothing();
}

/// 3: "RTT samples MUST NOT be made using segments that were retransmitted (and thus for which it is ambiguous whether the
/// reply was for the first instance of the packet or a later instance)." (Karn's algorithm)
#[test]
fn a_retransmitted_segment_is_not_timed() {
    let (mut peer, conn) = measured(ms(100));
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    let before = peer.stack().info(conn).unwrap();
    peer.wait(s(10));
    peer.expect(ack().seq(1).ack(1).len(10));
    peer.advance(ms(1));
    peer.inject(ack().seq(1).ack(11));
    let after = peer.stack().info(conn).unwrap();
    assert_eq!(
        (after.rtt, after.rtt_variation),
        (before.rtt, before.rtt_variation)
    );
}

/// 5: "Note that after retransmitting, once a new RTT measurement is obtained (which can only happen when new data has been
/// sent and acknowledged), the computations outlined in Section 2 are performed, including the computation of RTO, which may
/// result in 'collapsing' RTO back down after it has been subject to exponential back off"; before that, RFC 9293, 3.8.2:
/// "keeping the backed-off value until a subsequent segment with new data has been sent and acknowledged without
/// retransmission".
#[test]
fn the_timeout_stays_backed_off_until_something_is_timed() {
    let (mut peer, conn) = measured(ms(100));
    let first = rto(&mut peer, conn);
    peer.send(conn, 1, 10);
    for _ in 0..4 {
        peer.expect(ack().seq(1).ack(1).len(10));
        peer.wait(s(100));
    }
    peer.expect(ack().seq(1).ack(1).len(10));
    peer.inject(ack().seq(1).ack(11));
    assert_eq!(rto(&mut peer, conn), first * 16);
    peer.send(conn, 11, 10);
    peer.expect(ack().seq(11).ack(1).len(10));
    peer.advance(ms(100));
    peer.inject(ack().seq(1).ack(21));
    assert!(rto(&mut peer, conn) <= first);
}

/// 5.7: "If the timer expires awaiting the ACK of a SYN segment and the TCP implementation is using an RTO less than 3
/// seconds, the RTO MUST be re-initialized to 3 seconds when data transmission begins (i.e., after the three-way handshake
/// completes)."
#[test]
fn after_a_lost_syn_data_begins_with_three_seconds() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn());
    peer.expect_after(s(1), syn());
    peer.inject(syn_ack().seq(0).ack(1).mss(MSS));
    peer.expect(ack().seq(1).ack(1));
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    peer.expect_after(s(3), ack().seq(1).ack(1).len(10));

    let mut peer = Peer::new();
    let listener = peer.listen();
    peer.inject(syn().seq(0).mss(MSS));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.expect_after(s(1), syn_ack().seq(0).ack(1));
    peer.inject(ack().seq(1).ack(1));
    let conn = peer.stack().accept(listener).unwrap();
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    peer.expect_after(s(3), ack().seq(1).ack(1).len(10));
}

/// RFC 7323, 4.1: with timestamps the answer says which SYN it is to, so the round trip is measured, and 5.7 has nothing to be careful
/// about. Linux does so, too. It is so with prediction and without.
#[test]
fn answer_to_a_repeated_syn_is_timed_by_its_echo() {
    for prediction in [Prediction::Bidirectional, Prediction::Off] {
        for (answered, took) in [(1, ms(40)), (0, ms(1040))] {
            let new = || {
                Peer::with(|config| {
                    config.timestamps = true;
                    config.mechanisms.prediction = prediction;
                })
            };
            let timed = |peer: &mut Peer, conn| {
                let rtt = peer.stack().info(conn).unwrap().rtt;
                assert!(rtt.abs_diff(took) < ms(2), "{rtt:?} instead of {took:?}");
                let rto = rto(peer, conn);
                assert!(rto >= 3 * took && rto < 3 * took + ms(250), "{rto:?}");
                peer.stack.check_consistency(&peer.pool).unwrap();
            };
            let stamp = |sent: &Sent| sent.header.options.timestamps.expect("offered").value;

            let mut peer = new();
            let conn = peer.connect();
            let (first, second) = (peer.expect(syn()), peer.expect_after(s(1), syn()));
            let echo = [stamp(&first), stamp(&second)][answered];
            peer.advance(ms(40));
            peer.inject(syn_ack().seq(0).ack(1).mss(MSS).stamps(7, echo));
            peer.expect(ack().seq(1).ack(1));
            timed(&mut peer, conn);
            // What follows is predicted again, where anything is. An answer ends quick acknowledgments.
            peer.send(conn, 1, 10);
            peer.ignore();
            peer.inject(ack().seq(1).ack(11).stamps(8, echo));
            let before = peer.stack.counters().predicted;
            peer.inject(ack().seq(1).ack(11).stamps(8, echo).data(b"x"));
            let predicted = peer.stack.counters().predicted - before;
            assert_eq!(predicted, u64::from(prediction != Prediction::Off));

            let mut peer = new();
            let listener = peer.listen();
            peer.inject(syn().seq(0).mss(MSS).stamps(7, 0));
            let answer = || syn_ack().seq(0).ack(1);
            let (first, second) = (peer.expect(answer()), peer.expect_after(s(1), answer()));
            let echo = [stamp(&first), stamp(&second)][answered];
            peer.advance(ms(40));
            peer.inject(ack().seq(1).ack(1).stamps(7, echo));
            let conn = peer.stack().accept(listener).unwrap();
            timed(&mut peer, conn);
        }
    }
}

/// RFC 9293, 3.8.1, MUST-18; 5.3: "restart the retransmission timer so that it will expire after RTO seconds (for the current
/// value of RTO)": also when the current value is much smaller than the one that the timer was last set to.
#[test]
fn timer_is_set_earlier_after_an_outage() {
    // An outage makes segments shorter, too.
    let off = MtuProbing::Off;
    let (mut peer, conn) = Peer::established_with(|config| config.mechanisms.mtu_probing = off);
    peer.send(conn, 1, 100_000);
    peer.ignore();
    // Long enough for the back-off to reach its bound.
    peer.advance(s(200));
    peer.ignore();
    // The path works again. Something is outstanding all the time.
    for n in 1..=40 {
        peer.inject(ack().seq(1).ack(1 + 1000 * n));
        assert!(!peer.drain().is_empty(), "after {n} segments");
    }
    let at = rto(&mut peer, conn);
    assert!(at < s(1), "{at:?} after new round trips");
    // It fails once more.
    let waited = peer.wait(s(100));
    assert!(
        waited <= at + SLACK,
        "{waited:?} instead of {at:?} for what was lost"
    );
    peer.expect(ack().seq(40_001).ack(1).len(1000));
}

/// RFC 9293, 3.8.1, MUST-18; 2.3: "RTO <- SRTT + max (G, K*RTTVAR)" follows round trips of any length. Those of 3 s, as over a
/// slow satellite or in a bloated queue, are waited for; so are longer ones, up to the maximum of 2.5.
#[test]
fn long_round_trips_are_waited_for() {
    for (round_trip, exchanges) in [(s(3), 30), (s(20), 12)] {
        let (mut peer, conn) = Peer::established();
        let mut settled = None;
        for n in 0..exchanges {
            let at = 1 + 10 * n;
            peer.send(conn, at, 10);
            peer.advance(round_trip);
            peer.inject(ack().seq(1).ack(at + 10));
            peer.ignore();
            if n == 5 {
                settled = Some(peer.stack().info(conn).unwrap().retransmits);
            }
        }
        let info = peer.stack().info(conn).unwrap();
        assert_eq!(
            Some(info.retransmits),
            settled,
            "left: retransmissions in the end; right: after six round trips of {round_trip:?}"
        );
        assert!(
            info.rto >= round_trip && info.rto <= s(60) + SLACK,
            "{:?} with round trips of {round_trip:?}",
            info.rto
        );
    }
}

/// RFC 9293, 3.8.1, MUST-18; 3: "RTT samples MUST NOT be made using segments that were retransmitted (and thus for which it
/// is ambiguous whether the reply was for the first instance of the packet or a later instance)". A segment that was sent
/// once and waited behind a lost one is no better: its reply waited for the retransmission.
#[test]
fn segment_behind_a_hole_is_not_timed() {
    let (mut peer, conn) = measured(ms(1));
    peer.send(conn, 1, 2000);
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.expect(ack().seq(1001).ack(1).len(1000));
    let before = peer.stack().info(conn).unwrap();
    peer.wait(s(10));
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.advance(ms(2));
    // The second one was there already.
    peer.inject(ack().seq(1).ack(2001));
    let after = peer.stack().info(conn).unwrap();
    assert_eq!(
        (after.rtt, after.rtt_variation),
        (before.rtt, before.rtt_variation)
    );
}

/// RFC 9293, 3.8.1, MUST-18; 2.4: "Research suggests that a large minimum RTO is needed to keep TCP conservative and avoid
/// spurious retransmissions": on a path whose round trips are all alike, too, the peer may delay an acknowledgment. So what
/// is added to SRTT has the minimum as its lower bound, as hosts have it today.
#[test]
fn even_round_trips_leave_room_for_a_delayed_acknowledgment() {
    let (mut peer, conn) = measured(ms(300));
    let mut at = 1;
    for _ in 0..60 {
        peer.send(conn, at, 10);
        peer.expect(ack().seq(at).ack(1).len(10));
        peer.advance(ms(300));
        at += 10;
        peer.inject(ack().seq(1).ack(at));
    }
    let timeout = rto(&mut peer, conn);
    assert!(
        timeout >= ms(500) && timeout <= ms(500) + SLACK,
        "{timeout:?}"
    );
    peer.send(conn, at, 10);
    peer.expect(ack().seq(at).ack(1).len(10));
    peer.advance(ms(300) + ms(190));
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(at + 10));
}
