//! Tail loss probes (RFC 8985, 7).

use crate::peer::*;
use std::time::Duration;
use tollgate_stack::config::TailProbe;
use tollgate_stack::{Config, ConnId, Info};

/// The round trip of these scripts.
const ROUND_TRIP: Duration = Duration::from_millis(40);

fn info(peer: &mut Peer, conn: ConnId) -> Info {
    peer.stack().info(conn).expect("it is there")
}

/// A connection whose round trips take [`ROUND_TRIP`], with `segments` segments of 1,000 bytes in flight.
fn in_flight(segments: u32) -> (Peer, ConnId) {
    in_flight_with(segments, |_| {})
}

fn in_flight_with(segments: u32, change: impl FnOnce(&mut Config)) -> (Peer, ConnId) {
    let mut peer = Peer::with(change);
    let conn = peer.accepted_after(syn().mss(MSS).sack_permitted(), ROUND_TRIP);
    peer.send(conn, 1, 1000 * segments as usize);
    for n in 0..segments {
        peer.expect(ack().seq(1 + 1000 * n).ack(1).len(1000));
    }
    peer.expect_nothing();
    (peer, conn)
}

fn window(peer: &mut Peer, conn: ConnId) -> (u32, u32) {
    let now = info(peer, conn);
    (now.congestion_window, now.slow_start_threshold)
}

/// TLP-1. RFC 8985, 7.2: "PTO = 2 * SRTT"; 7.3: where nothing is unsent, "retransmit the highest-sequence segment sent so far". What its
/// answer shows to be lost goes again at once.
#[test]
fn last_segment_is_sent_again_after_two_round_trips() {
    let (mut peer, conn) = in_flight(4);
    peer.advance(ROUND_TRIP);
    // The last two are lost.
    peer.inject(ack().seq(1).ack(2001));
    peer.expect_after(2 * ROUND_TRIP, ack().seq(3001).ack(1).len(1000));
    peer.expect_nothing();
    assert_eq!(info(&mut peer, conn).tail_probes, 1);
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
    peer.advance(ROUND_TRIP);
    let told = peer.blocks(&[(3001, 4001)]);
    peer.inject(ack().seq(1).ack(2001).sack(told));
    // A quarter of a round trip may be reordering.
    let waited = peer.wait(ROUND_TRIP);
    assert!(waited < ROUND_TRIP / 2, "{waited:?}");
    peer.expect(ack().seq(2001).ack(1).len(1000));
    peer.advance(ROUND_TRIP);
    peer.inject(ack().seq(1).ack(4001));
    let now = info(&mut peer, conn);
    assert_eq!((now.timeouts, now.fast_retransmits), (0, 1));
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

/// TLP-2. RFC 8985, 7.3: "If an unsent segment exists and the receive window allows new data to be sent" it is the probe, whatever the
/// congestion window; 7.4.2: its acknowledgment says nothing more.
#[test]
fn new_data_is_the_probe_where_there_is_some() {
    let (mut peer, conn) = in_flight(10);
    peer.send(conn, 10_001, 4000);
    peer.ignore();
    let sent = 1 + info(&mut peer, conn).in_flight;
    let before = window(&mut peer, conn);
    let probe = peer.expect_after(2 * ROUND_TRIP, ack().seq(sent).ack(1).len(1000));
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(probe.seq + 1000));
    let after = window(&mut peer, conn);
    assert_eq!(after.1, before.1);
    assert!(after.0 >= before.0);
    peer.ignore();
    assert_eq!(info(&mut peer, conn).retransmits, 0);
}

/// TLP-3. RFC 8985, 7.2: "PTO += TLP.max_ack_delay" for a single segment, and it is no later than the timeout, whose place it takes here.
#[test]
fn lone_segment_is_probed_when_the_timeout_has_come() {
    let (mut peer, conn) = in_flight(1);
    let timeout = info(&mut peer, conn).rto;
    let before = window(&mut peer, conn);
    peer.expect_after(timeout, ack().seq(1).ack(1).len(1000));
    let now = info(&mut peer, conn);
    assert_eq!((now.tail_probes, now.timeouts), (1, 0));
    assert_eq!(window(&mut peer, conn), before);
    // RFC 8985, 7.3: one probe, and then the timeout, armed anew.
    peer.expect_after(timeout, ack().seq(1).ack(1).len(1000));
    let now = info(&mut peer, conn);
    assert_eq!((now.tail_probes, now.timeouts), (1, 1));
}

/// TLP-4. RFC 8985, 7.4: the probe has repaired a loss when more is acknowledged than its segment, "(Invoke congestion control to react to
/// the loss event the probe has repaired)"; a D-SACK of it, or a duplicate without blocks, says that nothing was lost.
#[test]
fn repaired_loss_counts_unless_a_duplicate_is_reported() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Then {
        Reported,
        Bare,
        More,
    }
    for then in [Then::Reported, Then::Bare, Then::More] {
        let (mut peer, conn) = in_flight(2);
        let before = window(&mut peer, conn);
        peer.expect_after(2 * ROUND_TRIP, ack().seq(1001).ack(1).len(1000));
        peer.inject(ack().seq(1).ack(2001));
        let told = peer.blocks(&[(1001, 2001)]);
        match then {
            Then::Reported => peer.inject(ack().seq(1).ack(2001).sack(told)),
            Then::Bare => peer.inject(ack().seq(1).ack(2001)),
            Then::More => {}
        }
        peer.send(conn, 2001, 1000);
        peer.expect(ack().seq(2001).ack(1).len(1000));
        peer.advance(ROUND_TRIP);
        peer.inject(ack().seq(1).ack(3001));
        let after = window(&mut peer, conn);
        if then == Then::More {
            assert!(after.0 < before.0 && after.1 < before.1, "{after:?}");
        } else {
            assert!(after.0 >= before.0, "{then:?}: {after:?}");
            assert_eq!(after.1, before.1, "{then:?}");
        }
        assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
    }
}

/// TLP-5. RFC 8985, 7.3: another probe only when "the sender has obtained" a round trip since the last one; until then the timeout comes.
#[test]
fn second_probe_waits_for_a_round_trip_that_was_measured() {
    let (mut peer, conn) = in_flight(2);
    peer.expect_after(2 * ROUND_TRIP, ack().seq(1001).ack(1).len(1000));
    peer.inject(ack().seq(1).ack(1001));
    let timeout = info(&mut peer, conn).rto;
    let again = peer.expect_after(timeout, ack().seq(1001).ack(1).len(1000));
    assert_eq!(again.seq, 1001);
    let now = info(&mut peer, conn);
    assert_eq!((now.tail_probes, now.timeouts), (1, 1));
    peer.inject(ack().seq(1).ack(2001));
    peer.ignore();
    // A segment that is acknowledged ends the timeout, the next ones are probed for.
    peer.send(conn, 2001, 1000);
    peer.ignore();
    peer.advance(ROUND_TRIP);
    peer.inject(ack().seq(1).ack(3001));
    peer.send(conn, 3001, 2000);
    peer.ignore();
    let probed = info(&mut peer, conn).tail_probes;
    peer.wait(s(10));
    assert_eq!(info(&mut peer, conn).tail_probes, probed + 1);
    peer.ignore();
}

/// TLP-6. RFC 8985, 7.2: probes need selective acknowledgments; and they can be switched off.
#[test]
fn without_selective_acknowledgments_or_the_mechanism_there_is_no_probe() {
    for permitted in [false, true] {
        let mut peer = Peer::with(|config| {
            if permitted {
                config.mechanisms.tail_probe = TailProbe::Off;
            }
        });
        let first = syn().mss(MSS);
        let first = if permitted {
            first.sack_permitted()
        } else {
            first
        };
        let conn = peer.accepted_after(first, ROUND_TRIP);
        peer.send(conn, 1, 4000);
        peer.ignore();
        let timeout = info(&mut peer, conn).rto;
        peer.expect_after(timeout, ack().seq(1).ack(1).len(1000));
        let now = info(&mut peer, conn);
        assert_eq!((now.tail_probes, now.timeouts), (0, 1));
    }
}

/// TLP-7. RFC 8985, 7.2: segments that keep coming back move the probe on, so a flight that is answered is not probed for.
#[test]
fn answered_flight_is_not_probed_for() {
    let (mut peer, conn) = in_flight(8);
    for n in 1..8 {
        peer.advance(ROUND_TRIP);
        peer.inject(ack().seq(1).ack(1 + 1000 * n));
        peer.expect_nothing();
    }
    assert_eq!(info(&mut peer, conn).tail_probes, 0);
}

/// RFC 8985, 7.2: "If SRTT is not available", PTO is a second, when the retransmission timer fires as well. The peer's SYN comes twice,
/// so the handshake's round trip is not known.
#[test]
fn nothing_is_probed_for_before_a_round_trip_is_known() {
    let mut peer = Peer::new();
    let listener = peer.listen();
    for _ in 0..2 {
        peer.inject(syn().mss(MSS).sack_permitted());
        peer.expect(syn_ack().seq(0).ack(1));
        peer.advance(Duration::from_millis(300));
        peer.ignore();
    }
    peer.inject(ack().seq(1).ack(1));
    let conn = peer.stack().accept(listener).expect("it is open");
    peer.send(conn, 1, 4000);
    peer.ignore();
    let waited = peer.wait(s(10));
    assert!(waited >= Duration::from_millis(900), "{waited:?}");
    peer.ignore();
    assert_eq!(info(&mut peer, conn).tail_probes, 0);
}
