//! The account of a connection (RFC 9293, 3.10.6, STATUS; Linux's TCP_INFO) beside what a script knows.

use crate::peer::*;
use std::time::Duration;
use tollgate_stack::config::TailProbe;
use tollgate_stack::socket::KeepAlive;
use tollgate_stack::{CongestionState, ConnId, Info, SocketOption};

const ROUND_TRIP: Duration = Duration::from_millis(40);

fn info(peer: &mut Peer, conn: ConnId) -> Info {
    peer.stack().info(conn).expect("it is there")
}

/// A connection with selective acknowledgments and four segments of 1,000 bytes in flight since a round trip, after one that was
/// acknowledged. Nothing is probed: beside the handshake's round trip of no time this one is long.
fn in_flight() -> (Peer, ConnId) {
    let mut peer = Peer::with(|config| config.mechanisms.tail_probe = TailProbe::Off);
    let conn = peer.accepted(syn().mss(MSS).sack_permitted());
    peer.send(conn, 1, 1000);
    peer.ignore();
    peer.advance(ROUND_TRIP);
    peer.inject(ack().seq(1).ack(1001));
    peer.send(conn, 1001, 4000);
    peer.ignore();
    peer.advance(ROUND_TRIP);
    (peer, conn)
}

#[test]
fn young_connection_has_what_its_handshake_says() {
    let mut peer = Peer::with(|config| config.send_buffer = 100_000);
    let conn = peer.accepted(syn().mss(MSS));
    let told = info(&mut peer, conn);
    assert_eq!((told.mss, told.receive_mss), (1000, 1460));
    assert_eq!((told.send_buffer, told.receive_buffer), (100_000, 65_535));
    assert_eq!(told.congestion_state, CongestionState::Open);
    assert_eq!((told.backoff, told.probes), (0, 0));
    assert_eq!((told.bytes_sent, told.bytes_delivered), (0, 0));
    assert_eq!(told.oldest_unacknowledged, None);
    assert_eq!(told.min_rtt, None);
    assert_eq!(told.ack_delay, ms(40));
}

#[test]
fn timestamps_are_taken_off_both_segment_sizes() {
    let mut peer = Peer::with(|config| config.timestamps = true);
    let conn = peer.accepted_with_stamps(7);
    let told = info(&mut peer, conn);
    assert_eq!((told.mss, told.receive_mss), (988, 1448));
}

/// Every byte is counted where it is, from the call that queues it to its acknowledgment.
#[test]
fn bytes_are_queued_then_in_flight_then_delivered() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 1500);
    peer.ignore();
    let told = info(&mut peer, conn);
    assert_eq!((told.in_flight, told.unsent), (1000, 500));
    assert_eq!((told.bytes_sent, told.bytes_acknowledged), (1000, 0));
    peer.advance(ms(7));
    let age = info(&mut peer, conn)
        .oldest_unacknowledged
        .expect("one is out");
    assert!(age >= ms(7) && age < ms(9), "{age:?}");
    peer.inject(ack().seq(1).ack(1001));
    peer.ignore();
    let told = info(&mut peer, conn);
    assert_eq!((told.in_flight, told.unsent), (500, 0));
    assert_eq!((told.bytes_sent, told.bytes_delivered), (1500, 1000));
    // Neither the SYN nor a FIN is a byte.
    peer.stack().shutdown(conn).expect("it is open");
    peer.ignore();
    assert_eq!(info(&mut peer, conn).bytes_sent, 1500);
    peer.inject(ack().seq(1).ack(1502));
    let told = info(&mut peer, conn);
    assert_eq!((told.bytes_sent, told.bytes_delivered), (1500, 1500));
}

#[test]
fn unread_bytes_are_counted_until_they_are_read() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).len(600));
    peer.inject(ack().seq(601).ack(1).len(400));
    peer.ignore();
    assert_eq!(info(&mut peer, conn).unread, 1000);
    assert_eq!(peer.read(conn, 700).len(), 700);
    assert_eq!(info(&mut peer, conn).unread, 300);
    peer.inject(fin().seq(1001).ack(1));
    peer.advance(ms(2));
    peer.ignore();
    assert_eq!(info(&mut peer, conn).unread, 300);
    assert_eq!(peer.read(conn, 700).len(), 300);
    let told = info(&mut peer, conn);
    assert_eq!((told.unread, told.bytes_received), (0, 1000));
}

/// A hole is first a disorder, then a loss that is repaired.
#[test]
fn marks_of_the_scoreboard_are_told() {
    let (mut peer, conn) = in_flight();
    let blocks = peer.blocks(&[(2001, 3001)]);
    peer.inject(ack().seq(1).ack(1001).sack(blocks));
    let told = info(&mut peer, conn);
    assert_eq!(told.congestion_state, CongestionState::Disorder);
    assert_eq!((told.sacked, told.lost, told.resent), (1000, 0, 0));
    assert_eq!(
        (told.bytes_delivered, told.bytes_acknowledged),
        (2000, 1000)
    );
    let blocks = peer.blocks(&[(2001, 5001)]);
    peer.inject(ack().seq(1).ack(1001).sack(blocks));
    peer.expect(ack().seq(1001).ack(1).len(1000));
    let told = info(&mut peer, conn);
    assert_eq!(told.congestion_state, CongestionState::Recovery);
    assert_eq!((told.sacked, told.lost, told.resent), (3000, 1000, 1000));
    assert_eq!((told.retransmits, told.bytes_retransmitted), (1, 1000));
    assert_eq!(told.bytes_sent, 6000);
    assert_eq!(told.reordering_window, None);
    let shortest = told.min_rtt.expect("something was lost");
    assert!(shortest >= ROUND_TRIP && shortest < ROUND_TRIP + ms(2));
    // It was late and not lost: the peer has it twice.
    let blocks = peer.blocks(&[(1001, 2001)]);
    peer.inject(ack().seq(1).ack(5001).sack(blocks));
    let told = info(&mut peer, conn);
    assert_eq!(told.congestion_state, CongestionState::Open);
    assert_eq!((told.reported_duplicates, told.undone_recoveries), (1, 1));
    assert_eq!((told.sacked, told.lost, told.resent), (0, 0, 0));
}

#[test]
fn segment_that_comes_late_opens_a_reordering_window() {
    let (mut peer, conn) = in_flight();
    let blocks = peer.blocks(&[(2001, 3001)]);
    peer.inject(ack().seq(1).ack(1001).sack(blocks));
    peer.inject(ack().seq(1).ack(3001));
    let told = info(&mut peer, conn);
    let shortest = told.min_rtt.expect("something came late");
    assert_eq!(told.reordering_window, Some((shortest / 4).min(told.rtt)));
    assert!(told.rtt > ms(5) && shortest >= ROUND_TRIP);
}

#[test]
fn timeouts_in_a_row_are_told_until_one_is_answered() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 500);
    peer.ignore();
    for n in 1..=3 {
        peer.wait(s(60));
        peer.expect(ack().seq(1).ack(1).len(500));
        let told = info(&mut peer, conn);
        assert_eq!(told.congestion_state, CongestionState::Loss);
        assert_eq!((told.backoff, told.probes), (n, 0));
        assert_eq!(told.bytes_sent, 500 + 500 * u64::from(n));
        assert_eq!(told.unsent, 0);
    }
    peer.inject(ack().seq(1).ack(501));
    let told = info(&mut peer, conn);
    assert_eq!((told.backoff, told.timeouts), (0, 3));
    assert_eq!(told.congestion_state, CongestionState::Open);
}

#[test]
fn unanswered_probes_are_told() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).win(0));
    peer.send(conn, 1, 10);
    for n in 1..=2 {
        peer.wait(s(60));
        peer.ignore();
        assert_eq!(info(&mut peer, conn).probes, n);
    }
    // The probe was a byte.
    peer.inject(ack().seq(1).ack(2));
    peer.expect(ack().seq(2).ack(1).data(&stream(2, 9)));
    assert_eq!(info(&mut peer, conn).probes, 0);
    peer.inject(ack().seq(1).ack(11));
    let keep = KeepAlive {
        idle: s(10),
        interval: s(1),
        count: 9,
    };
    peer.stack()
        .set_option(conn, SocketOption::KeepAlive(Some(keep)))
        .expect("it is open");
    for n in 1..=3 {
        peer.wait(s(60));
        peer.ignore();
        assert_eq!(info(&mut peer, conn).probes, n);
    }
    peer.inject(ack().seq(1).ack(11));
    assert_eq!(info(&mut peer, conn).probes, 0);
}
