//! Explicit congestion notification (RFC 3168).

use crate::peer::*;
use std::time::Duration;
use tollgate_stack::config::Ecn;
use tollgate_stack::{ConnId, Info};
use tollgate_wire::tcp::Flags;

/// The round trip of these scripts.
const ROUND_TRIP: Duration = Duration::from_millis(40);
/// Flags of a SYN that asks for it.
const SETUP: Flags = Flags(Flags::ECE.0 | Flags::CWR.0);
/// Codepoints of the IP header (RFC 3168, 5).
const ECT0: u8 = 0b10;
const CE: u8 = 0b11;

fn info(peer: &mut Peer, conn: ConnId) -> Info {
    peer.stack().info(conn).expect("it is there")
}

fn new() -> Peer {
    Peer::with(|config| config.mechanisms.ecn = Ecn::Classic)
}

/// A connection that the peer has opened, on which both ends have agreed.
fn agreed() -> (Peer, ConnId) {
    let mut peer = new();
    let listener = peer.listen();
    peer.inject(syn().mss(MSS).sack_permitted().flag(SETUP));
    let answer = peer.expect(syn_ack().flag(Flags::ECE).seq(0).ack(1));
    // 6.1.1: neither SYN nor answer is ECN-capable itself.
    assert_eq!(answer.ip.tos, 0);
    peer.advance(ROUND_TRIP);
    peer.inject(ack().seq(1).ack(1));
    let conn = peer.stack().accept(listener).expect("it is open");
    assert!(info(&mut peer, conn).ecn);
    (peer, conn)
}

/// Such a connection, with a window of segments in flight since a round trip.
fn in_flight() -> (Peer, ConnId) {
    let (mut peer, conn) = agreed();
    peer.send(conn, 1, 40_000);
    peer.ignore();
    peer.advance(ROUND_TRIP);
    (peer, conn)
}

/// Gives the stack a segment whose packet bears this codepoint.
fn inject_with(peer: &mut Peer, seg: &Seg, codepoint: u8) {
    let mut packet = peer.packet(seg);
    packet[1] = codepoint;
    fill_ip_checksum(&mut packet);
    peer.inject_packet(&packet);
}

/// ECN-1, SHLD-8. RFC 3168, 6.1.1: "an ECN-setup SYN packet [has] both the ECE and CWR flags"; the answer "only the ECE flag". A host that "has
/// received [...] non-ECN-setup" packets does not mark data.
#[test]
fn both_ends_agree_or_nothing_is_marked() {
    let mut peer = new();
    let conn = peer.connect();
    let first = peer.expect(syn().flag(SETUP));
    assert_eq!(first.ip.tos, 0);
    peer.inject(syn_ack().mss(MSS).ack(1).flag(Flags::ECE));
    peer.ignore();
    assert!(info(&mut peer, conn).ecn);
    peer.send(conn, 1, 1000);
    let data = peer.next().expect("data");
    assert_eq!(data.ip.tos, ECT0);
    // Without the flag, and with both as a peer sends them that reflects them.
    for flags in [Flags(0), SETUP] {
        let mut peer = new();
        let conn = peer.connect();
        peer.expect(syn().flag(SETUP));
        peer.inject(syn_ack().mss(MSS).ack(1).flag(flags));
        peer.ignore();
        assert!(!info(&mut peer, conn).ecn);
        peer.send(conn, 1, 1000);
        assert_eq!(peer.next().expect("data").ip.tos, 0);
    }
    let mut peer = new();
    peer.accepted(syn().mss(MSS));
    // Who has it switched off asks for nothing and agrees on nothing.
    let mut peer = Peer::new();
    peer.accepted(syn().mss(MSS).flag(SETUP));
    let mut peer = Peer::new();
    peer.connect();
    peer.expect(syn());
}

/// ECN-2. RFC 3168, 6.1.1.1: a host that gets no answer "MAY resend the SYN [...] with CWR and ECE cleared"; 6.1.1: it has sent a
/// "non-ECN-setup SYN" then and marks nothing.
#[test]
fn syn_that_is_dropped_for_its_flags_goes_without_them() {
    let mut peer = new();
    let conn = peer.connect();
    peer.expect(syn().flag(SETUP));
    peer.expect_after(s(1), syn());
    peer.inject(syn_ack().mss(MSS).ack(1).flag(Flags::ECE));
    peer.ignore();
    assert!(!info(&mut peer, conn).ecn);
    peer.send(conn, 1, 1000);
    assert_eq!(peer.next().expect("data").ip.tos, 0);
}

/// ECN-3. RFC 3168, 6.1.4 to 6.1.6: acknowledgments without data, what is sent again and probes of a window are not ECN-capable.
#[test]
fn only_new_data_is_marked() {
    let (mut peer, conn) = agreed();
    peer.send(conn, 1, 2000);
    for sent in peer.drain() {
        assert_eq!(sent.ip.tos, ECT0);
    }
    peer.inject(ack().seq(1).ack(1).len(1000));
    peer.inject(ack().seq(1001).ack(1).len(1000));
    let answer = peer.expect(ack().seq(2001).ack(2001));
    assert_eq!(answer.ip.tos, 0);
    // The probe of the tail and the timeout.
    for _ in 0..2 {
        peer.wait(s(5));
        assert_eq!(peer.next().expect("data").ip.tos, 0);
        peer.ignore();
    }
    peer.inject(ack().seq(2001).ack(2001).win(0));
    peer.send(conn, 2001, 1000);
    peer.ignore();
    peer.wait(s(5));
    let probe = peer.next().expect("a probe");
    assert_eq!((probe.seq, probe.ip.tos), (2001, 0));
    peer.ignore();
}

/// ECN-4. RFC 3168, 6.1.3: the receiver "sets the ECE flag in subsequent ACK packets [...] until it receives a CWR packet".
#[test]
fn mark_is_echoed_until_the_peer_has_reacted() {
    let (mut peer, conn) = agreed();
    inject_with(&mut peer, &ack().seq(1).ack(1).len(1000), CE);
    peer.inject(ack().seq(1001).ack(1).len(1000));
    peer.expect(ack().flag(Flags::ECE).seq(1).ack(2001));
    inject_with(&mut peer, &ack().seq(2001).ack(1).len(1000), ECT0);
    peer.send(conn, 1, 500);
    peer.expect(ack().flag(Flags::ECE).seq(1).ack(3001).len(500));
    peer.inject(ack().flag(Flags::CWR).seq(3001).ack(501).len(1000));
    peer.inject(ack().seq(4001).ack(501).len(1000));
    peer.expect(ack().seq(501).ack(5001));
    // 6.1.3: a mark on the packet that says so begins anew.
    inject_with(
        &mut peer,
        &ack().flag(Flags::CWR).seq(5001).ack(501).len(1000),
        CE,
    );
    peer.inject(ack().seq(6001).ack(501).len(1000));
    peer.expect(ack().flag(Flags::ECE).seq(501).ack(7001));
}

/// ECN-5. RFC 3168, 6.1.2: an echo is taken as a loss, "at most once every window of data"; "sets the CWR flag in the TCP header of the
/// first new data packet sent after the window reduction". Nothing is sent again.
#[test]
fn echo_reduces_the_window_once() {
    let (mut peer, conn) = in_flight();
    let before = info(&mut peer, conn);
    peer.inject(ack().flag(Flags::ECE).seq(1).ack(2001));
    let reduced = info(&mut peer, conn);
    assert!(reduced.congestion_window < before.congestion_window);
    assert_eq!(reduced.congestion_window, reduced.slow_start_threshold);
    peer.ignore();
    for n in [4001, 6001, 8001] {
        peer.inject(ack().flag(Flags::ECE).seq(1).ack(n));
    }
    assert_eq!(
        info(&mut peer, conn).slow_start_threshold,
        reduced.slow_start_threshold
    );
    let told: Vec<bool> = peer
        .drain()
        .iter()
        .map(|sent| sent.header.flags.has(Flags::CWR))
        .collect();
    assert_eq!(told.first(), Some(&true), "{told:?}");
    assert_eq!(told.iter().filter(|told| **told).count(), 1);
    peer.inject(ack().seq(1).ack(10_001));
    // The next window may be reduced again.
    peer.ignore();
    let sent = 1 + 10_000 + info(&mut peer, conn).in_flight;
    peer.inject(ack().flag(Flags::ECE).seq(1).ack(sent));
    let again = info(&mut peer, conn);
    assert!(again.slow_start_threshold < reduced.slow_start_threshold);
    assert_eq!((again.retransmits, again.timeouts), (0, 0));
    peer.ignore();
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

/// ECN-6. RFC 3168, 6.1.2: a loss in a window that has been reacted to is repaired, and the window is not reduced again.
#[test]
fn loss_in_a_window_that_was_reduced_reduces_it_no_more() {
    let (mut peer, conn) = in_flight();
    peer.inject(ack().flag(Flags::ECE).seq(1).ack(1001));
    peer.ignore();
    let reduced = info(&mut peer, conn);
    let told = peer.blocks(&[(2001, 5001)]);
    peer.inject(ack().flag(Flags::ECE).seq(1).ack(1001).sack(told));
    let again: Vec<u32> = peer.drain().iter().map(|sent| sent.seq).collect();
    assert!(again.contains(&1001), "{again:?}");
    let now = info(&mut peer, conn);
    assert_eq!(now.slow_start_threshold, reduced.slow_start_threshold);
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

/// ECN-6, where the first reduction was for nothing and has been taken back (RFC 3708): the next loss is one that nothing was done for.
#[test]
fn loss_in_a_window_whose_reduction_was_taken_back_reduces_it() {
    let (mut peer, conn) = in_flight();
    let before = info(&mut peer, conn);
    let told = peer.blocks(&[(2001, 5001)]);
    peer.inject(ack().seq(1).ack(1001).sack(told));
    assert!(info(&mut peer, conn).slow_start_threshold < before.congestion_window);
    // It has arrived twice: it was late.
    let told = peer.blocks(&[(1001, 2001)]);
    peer.inject(ack().seq(1).ack(5001).sack(told));
    let now = info(&mut peer, conn);
    assert_eq!(now.undone_recoveries, 1);
    assert_eq!(now.slow_start_threshold, before.slow_start_threshold);
    peer.ignore();
    let told = peer.blocks(&[(6001, 9001)]);
    peer.inject(ack().seq(1).ack(5001).sack(told));
    let reduced = info(&mut peer, conn);
    assert!(
        reduced.slow_start_threshold < now.congestion_window,
        "{reduced:?}"
    );
    peer.ignore();
    let sent = 5001 + reduced.in_flight;
    peer.inject(ack().seq(1).ack(sent));
    let now = info(&mut peer, conn);
    assert_eq!(now.congestion_window, reduced.slow_start_threshold);
    peer.ignore();
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

/// ECN-5. A reduction stays where the peer echoes a mark in the same window, even when the loss that it was for was none.
#[test]
fn reduction_is_not_taken_back_where_a_mark_is_echoed() {
    let (mut peer, conn) = in_flight();
    let told = peer.blocks(&[(2001, 5001)]);
    peer.inject(ack().seq(1).ack(1001).sack(told));
    let reduced = info(&mut peer, conn).slow_start_threshold;
    let told = peer.blocks(&[(1001, 2001)]);
    peer.inject(ack().flag(Flags::ECE).seq(1).ack(2001));
    peer.inject(ack().seq(1).ack(5001).sack(told));
    let now = info(&mut peer, conn);
    assert_eq!(
        (now.undone_recoveries, now.slow_start_threshold),
        (0, reduced)
    );
    peer.ignore();
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

/// ECN-7. RFC 3168, 5: where nothing was agreed on, marks and flags say nothing; data arrives all the same.
#[test]
fn marks_and_echoes_without_agreement_change_nothing() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 4000);
    peer.ignore();
    let before = info(&mut peer, conn);
    inject_with(
        &mut peer,
        &ack().flag(Flags::ECE).seq(1).ack(2001).len(1000),
        CE,
    );
    peer.inject(ack().seq(1001).ack(2001).len(1000));
    let answers = peer.drain();
    assert!(
        answers
            .iter()
            .all(|sent| sent.ip.tos == 0 && !sent.header.flags.any(SETUP))
    );
    assert_eq!(peer.read(conn, 4000).len(), 2000);
    let after = info(&mut peer, conn);
    assert_eq!(after.slow_start_threshold, before.slow_start_threshold);
}

/// ECN-8. RFC 3168, 6.1.1: a SYN that is answered by a cookie finds no agreement, since nothing is kept of it.
#[test]
fn cookie_agrees_on_nothing() {
    let mut peer = Peer::with(|config| config.mechanisms.ecn = Ecn::Classic);
    let listener = peer.stack().listen(PORT, 1).expect("the port is free");
    peer.inject(syn().mss(MSS).flag(SETUP));
    peer.expect(syn_ack().flag(Flags::ECE).seq(0).ack(1));
    // The backlog is full of one that is half open.
    peer.port += 1;
    peer.inject(syn().mss(MSS).flag(SETUP));
    let answer = peer.next().expect("an answer");
    assert_eq!(answer.header.flags, Flags::SYN | Flags::ACK);
    assert_eq!(peer.stack.counters().syn_cookies_sent, 1);
    peer.inject(ack().seq(1).ack(1));
    let conn = peer.stack().accept(listener).expect("it is open");
    assert!(!info(&mut peer, conn).ecn);
}

/// RFC 8985, 7.4.2, and RFC 3168, 6.1.2: a loss that a tail probe has repaired reduces the window, the peer is told, and an echo of the
/// same window of data reduces nothing.
#[test]
fn a_loss_that_a_probe_repaired_is_told_and_counts_for_its_window() {
    let mut peer = Peer::with(|config| config.mechanisms.ecn = Ecn::Classic);
    let listener = peer.listen();
    let first = syn().flag(Flags(Flags::ECE.0 | Flags::CWR.0));
    peer.inject(first.mss(MSS).sack_permitted());
    peer.next().expect("an answer");
    peer.advance(Duration::from_millis(40));
    peer.inject(ack().seq(1).ack(1));
    let conn = peer.stack().accept(listener).expect("it is open");
    peer.send(conn, 1, 10_000);
    peer.ignore();
    peer.wait(s(1));
    peer.ignore();
    assert_eq!(peer.stack().info(conn).unwrap().tail_probes, 1);
    peer.inject(ack().seq(1).ack(10_001));
    peer.send(conn, 10_001, 3000);
    peer.ignore();
    // Something sent after the probe is acknowledged, and nothing came twice.
    peer.inject(ack().seq(1).ack(11_001));
    let threshold = peer.stack().info(conn).unwrap().slow_start_threshold;
    assert!(threshold < 10_000);
    peer.send(conn, 13_001, 1000);
    peer.inject(ack().flag(Flags::ECE).seq(1).ack(12_001));
    let later = peer.stack().info(conn).unwrap().slow_start_threshold;
    assert_eq!(later, threshold);
    let told = peer.next().expect("it fits into the window now");
    assert!(told.seq == 13_001 && told.header.flags.has(Flags::CWR));
}

/// ECN-10. RFC 3168, 5.3: "Reassembly of a fragmented packet MUST NOT lose indications of congestion"; a mark is put on no packet of
/// which another fragment is not ECN-capable: that is dropped.
#[test]
fn mark_on_a_fragment_is_not_lost() {
    let part = |packet: &[u8], from: usize, to: usize, (fields, codepoint): (u16, u8)| {
        let mut part = [&packet[..20], &packet[20 + from..20 + to]].concat();
        part[1] = codepoint;
        part[2..4].copy_from_slice(&((20 + to - from) as u16).to_be_bytes());
        part[6..8].copy_from_slice(&fields.to_be_bytes());
        fill_ip_checksum(&mut part);
        part
    };
    for (codepoints, echoes) in [
        ([ECT0, ECT0], Some(false)),
        ([ECT0, CE], Some(true)),
        ([CE, ECT0], Some(true)),
        ([0, CE], None),
        ([CE, 0], None),
    ] {
        let (mut peer, _) = agreed();
        let packet = peer.packet(&ack().seq(1).ack(1).len(1600));
        let end = packet.len() - 20;
        let first = (0x2000, codepoints[0]);
        peer.inject_packet(&part(&packet, 0, 800, first));
        peer.inject_packet(&part(&packet, 800, end, (100, codepoints[1])));
        peer.advance(ms(50));
        let told = peer.drain().pop();
        assert_eq!(told.map(|sent| sent.header.flags.has(Flags::ECE)), echoes);
        assert_eq!(
            peer.pool.available(),
            peer.pool.capacity() - usize::from(echoes.is_some())
        );
    }
}

/// ECN-3. RFC 3168, 6.1.5: what is sent again is not ECN-capable, nor is the byte that probed a closed window before (6.1.6).
#[test]
fn byte_of_a_probe_is_not_marked_when_it_goes_again() {
    let (mut peer, conn) = agreed();
    peer.send(conn, 1, 1000);
    peer.ignore();
    peer.inject(ack().seq(1).ack(1001).win(0));
    peer.send(conn, 1001, 3000);
    peer.wait(s(5));
    let probe = peer.next().expect("a probe");
    assert_eq!((probe.seq, probe.ip.tos), (1001, 0));
    // The peer has not taken it, and opens its window.
    peer.inject(ack().seq(1).ack(1001).win(60_000));
    let sent = peer.drain();
    assert_eq!((sent[0].seq, sent[0].ip.tos), (1001, 0));
    for new in sent.iter().filter(|sent| sent.seq > 1001) {
        assert_eq!(new.ip.tos, ECT0);
    }
    assert_eq!(sent.len(), 4);
    peer.inject(ack().seq(1).ack(4001).win(60_000));
    peer.send(conn, 4001, 1000);
    assert_eq!(peer.next().expect("data").ip.tos, ECT0);
}

/// ECN-4. RFC 3168, 6.1.3: a mark that the peer has not reacted to is echoed in TIME-WAIT as well.
#[test]
fn mark_is_echoed_in_time_wait() {
    let (mut peer, conn) = agreed();
    inject_with(&mut peer, &ack().seq(1).ack(1).len(1000), CE);
    peer.read(conn, 1000);
    peer.stack().close(conn).expect("it is there");
    peer.expect(fin().flag(Flags::ECE).seq(1).ack(1001));
    peer.inject(fin().seq(1001).ack(2));
    peer.expect(ack().flag(Flags::ECE).seq(2).ack(1002));
    assert_eq!(peer.stack.time_waits(), 1);
    peer.inject(fin().seq(1001).ack(2));
    peer.expect(ack().flag(Flags::ECE).seq(2).ack(1002));
}
