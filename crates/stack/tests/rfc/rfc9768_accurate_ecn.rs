//! More accurate feedback of explicit congestion notification (RFC 9768).

use crate::peer::*;
use std::time::Duration;
use tollgate_stack::config::Ecn;
use tollgate_stack::{ConnId, Info};
use tollgate_wire::tcp::{AccurateEcn, Flags};

/// The round trip of these scripts.
const ROUND_TRIP: Duration = Duration::from_millis(40);
/// Codepoints of the IP header (RFC 3168, 5).
const NOT_ECT: u8 = 0b00;
const ECT1: u8 = 0b01;
const ECT0: u8 = 0b10;
const CE: u8 = 0b11;

fn info(peer: &mut Peer, conn: ConnId) -> Info {
    peer.stack().info(conn).expect("it is there")
}

fn new() -> Peer {
    Peer::with(|config| config.mechanisms.ecn = Ecn::Accurate)
}

/// AE, CWR and ECE of a segment.
fn bits(sent: &Sent) -> u8 {
    u8::from(sent.header.accurate_ecn) << 2 | sent.header.flags.0 >> 6
}

/// The next segment of the stack, whose three bits are these.
fn next_with(peer: &mut Peer, expected: u8) -> Sent {
    let sent = peer.next().expect("a segment");
    assert_eq!(bits(&sent), expected, "{sent:?}");
    sent
}

/// Gives the stack a segment whose packet bears this codepoint.
fn inject_with(peer: &mut Peer, seg: &Seg, codepoint: u8) {
    let mut packet = peer.packet(seg);
    packet[1] = codepoint;
    fill_ip_checksum(&mut packet);
    peer.inject_packet(&packet);
}

/// A connection that the peer has opened, on which both ends have agreed on counters. The peer's acknowledgment bears these bits.
fn opened_by_peer(confirms: u8) -> (Peer, ConnId) {
    let mut peer = new();
    let listener = peer.listen();
    peer.inject(syn().mss(MSS).sack_permitted().ecn_bits(0b111));
    let answer = next_with(&mut peer, 0b010);
    assert_eq!(answer.ip.tos, NOT_ECT);
    let counters = answer.header.options.accurate_ecn.expect("an option");
    assert_eq!(
        (counters.ect0, counters.ce, counters.ect1),
        (Some(1), None, None)
    );
    peer.advance(ROUND_TRIP);
    peer.inject(ack().seq(1).ack(1).ecn_bits(confirms));
    let conn = peer.stack().accept(listener).expect("it is open");
    assert!(info(&mut peer, conn).marked_packets.is_some());
    (peer, conn)
}

/// ACC-1. RFC 9768, 3.1.1 and 3.1.2, table 2: a client asks by all three bits and takes up what the answer says: counters, classic feedback
/// or none. An answer with the reserved bits counts as agreement (3.1.3).
#[test]
fn client_takes_up_what_the_server_knows() {
    for (answer, ecn, counts) in [
        (0b010, true, true),
        (0b011, true, true),
        (0b100, true, true),
        (0b110, true, true),
        (0b101, true, true),
        (0b001, true, false),
        (0b000, false, false),
        (0b111, false, false),
    ] {
        let mut peer = new();
        let conn = peer.connect();
        let sent = next_with(&mut peer, 0b111);
        assert_eq!(sent.header.options.accurate_ecn, None);
        peer.inject(syn_ack().mss(MSS).ack(1).ecn_bits(answer));
        let told = info(&mut peer, conn);
        assert_eq!(told.ecn, ecn, "{answer:03b}");
        assert_eq!(told.marked_packets.is_some(), counts, "{answer:03b}");
        // 3.2.2.1: the acknowledgment tells that the answer came as Not-ECT.
        next_with(&mut peer, if counts { 0b010 } else { 0 });
        peer.send(conn, 1, 500);
        let data = peer.next().expect("data");
        assert_eq!(bits(&data), if counts { 5 } else { 0 });
        // 3.2.2.3: where the SYN did not arrive as Not-ECT nothing is sent as ECN-capable.
        let capable = ecn && !matches!(answer, 0b011 | 0b100 | 0b110);
        assert_eq!(
            data.ip.tos,
            if capable { ECT0 } else { NOT_ECT },
            "{answer:03b}"
        );
    }
}

/// ACC-2. RFC 9768, 3.1.2, table 2, and 3.1.3: a server agrees on counters, on classic feedback or on none, as it is asked, and its answer tells
/// of the codepoint of the SYN. Where the mechanism is the classic one, the third bit is not looked at.
#[test]
fn server_agrees_on_what_it_is_asked() {
    for (asked, answer) in [
        (0b111, 0b010),
        (0b011, 0b001),
        (0b000, 0b000),
        (0b001, 0b010),
        (0b110, 0b010),
    ] {
        let mut peer = new();
        peer.listen();
        peer.inject(syn().mss(MSS).ecn_bits(asked));
        next_with(&mut peer, answer);
    }
    for (codepoint, answer) in [(NOT_ECT, 0b010), (ECT1, 0b011), (ECT0, 0b100), (CE, 0b110)] {
        let mut peer = new();
        peer.listen();
        inject_with(&mut peer, &syn().mss(MSS).ecn_bits(0b111), codepoint);
        next_with(&mut peer, answer);
    }
    let mut classic = Peer::with(|config| config.mechanisms.ecn = Ecn::Classic);
    classic.listen();
    classic.inject(syn().mss(MSS).ecn_bits(0b111));
    next_with(&mut classic, 0b001);
}

/// ACC-3. RFC 9768, 3.1.4.1: a SYN asks twice and then goes without the bits; the answer decides all the same.
#[test]
fn syn_that_is_not_answered_goes_without_the_bits() {
    let mut peer = new();
    let conn = peer.connect();
    next_with(&mut peer, 0b111);
    for expected in [0b111, 0b000] {
        peer.wait(s(5));
        next_with(&mut peer, expected);
        peer.ignore();
    }
    peer.inject(syn_ack().mss(MSS).ack(1).ecn_bits(0b010));
    next_with(&mut peer, 0b010);
    assert!(info(&mut peer, conn).marked_packets.is_some());
}

/// ACC-4. RFC 9768, 3.2.3.2.2 and 3.1.5: an answer that is lost goes without the option, then without the bits; then the server sends nothing as
/// ECN-capable, and counts all the same.
#[test]
fn answer_that_is_lost_goes_without_option_and_bits() {
    let mut peer = new();
    let listener = peer.listen();
    peer.inject(syn().mss(MSS).ecn_bits(0b111));
    assert!(
        next_with(&mut peer, 0b010)
            .header
            .options
            .accurate_ecn
            .is_some()
    );
    for expected in [0b010, 0b000] {
        peer.wait(s(5));
        let again = next_with(&mut peer, expected);
        assert_eq!(again.header.options.accurate_ecn, None);
        peer.ignore();
    }
    peer.inject(ack().seq(1).ack(1).ecn_bits(0b010));
    let conn = peer.stack().accept(listener).expect("it is open");
    peer.send(conn, 1, 500);
    let data = next_with(&mut peer, 5);
    assert_eq!(data.ip.tos, NOT_ECT);
    inject_with(&mut peer, &ack().seq(1).ack(501).ecn_bits(5).len(500), CE);
    next_with(&mut peer, 6);
}

/// ACC-5. RFC 9768, 3.1.5: a peer that asks for both kinds of feedback in one handshake is reset.
#[test]
fn two_kinds_of_handshake_end_the_connection() {
    for (first, second) in [(0b111, 0b011), (0b011, 0b111)] {
        let mut peer = new();
        peer.listen();
        peer.inject(syn().mss(MSS).ecn_bits(first));
        peer.ignore();
        peer.inject(syn().mss(MSS).ecn_bits(second));
        let reset = peer.next().expect("a RST");
        assert!(reset.header.flags.has(Flags::RST), "{reset:?}");
    }
    // One that asks for none after that gets an answer, and nothing that is ECN-capable.
    let mut peer = new();
    let listener = peer.listen();
    peer.inject(syn().mss(MSS).ecn_bits(0b111));
    peer.ignore();
    inject_with(&mut peer, &syn().mss(MSS), ECT0);
    next_with(&mut peer, 0b100);
    peer.inject(ack().seq(1).ack(1).ecn_bits(0b010));
    let conn = peer.stack().accept(listener).expect("it is open");
    peer.send(conn, 1, 500);
    assert_eq!(next_with(&mut peer, 5).ip.tos, NOT_ECT);
}

/// ACC-6. RFC 9768, 3.2.2.1, table 3: the acknowledgment of the answer tells of the answer's codepoint, and of that of an answer that comes again.
#[test]
fn acknowledgment_tells_of_the_codepoint_of_the_answer() {
    for (codepoint, expected, counter) in [
        (NOT_ECT, 0b010, 5),
        (ECT1, 0b011, 5),
        (ECT0, 0b100, 5),
        (CE, 0b110, 6),
    ] {
        let mut peer = new();
        let conn = peer.connect();
        next_with(&mut peer, 0b111);
        let answer = syn_ack().mss(MSS).ack(1).ecn_bits(0b010);
        inject_with(&mut peer, &answer, codepoint);
        assert!(
            next_with(&mut peer, expected)
                .header
                .options
                .accurate_ecn
                .is_some()
        );
        peer.advance(s(1));
        inject_with(&mut peer, &answer, codepoint);
        next_with(&mut peer, expected);
        peer.send(conn, 1, 500);
        next_with(&mut peer, counter);
    }
}

/// ACC-7. RFC 9768, 3.2.2.2, 3.2.2.5.1 and 3.2.3.3: marks are counted modulo eight and told of at once, bytes in the option.
#[test]
fn receiver_counts_marks() {
    let (mut peer, _) = opened_by_peer(0b010);
    let data = |n: u32| ack().seq(1 + 1000 * n).ack(1).ecn_bits(5).len(1000);
    let option = |sent: Sent| {
        let counters: AccurateEcn = sent.header.options.accurate_ecn.expect("an option");
        (counters.ect0, counters.ce)
    };
    inject_with(&mut peer, &data(0), ECT0);
    inject_with(&mut peer, &data(1), ECT0);
    assert_eq!(option(next_with(&mut peer, 5)), (Some(2001), None));
    // The first marked one at once, then every second.
    inject_with(&mut peer, &data(2), CE);
    assert_eq!(option(next_with(&mut peer, 6)), (Some(2001), Some(1000)));
    inject_with(&mut peer, &data(3), CE);
    assert!(peer.next().is_none());
    inject_with(&mut peer, &data(4), CE);
    assert_eq!(option(next_with(&mut peer, 0)), (Some(2001), Some(3000)));
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

/// ACC-8. RFC 9768, 3.2.2.2 and 3.1.5; RFC 3168, 6.1.2: marks that the counter tells of reduce the window, once for a window. CWR is not sent.
#[test]
fn sender_takes_counted_marks_for_congestion() {
    let (mut peer, conn) = opened_by_peer(0b010);
    peer.send(conn, 1, 40_000);
    for sent in peer.drain() {
        assert_eq!((bits(&sent), sent.ip.tos), (5, ECT0));
    }
    let before = info(&mut peer, conn);
    peer.advance(ROUND_TRIP);
    peer.inject(ack().seq(1).ack(2001).ecn_bits(5));
    assert_eq!(info(&mut peer, conn).marked_packets, Some(0));
    peer.inject(ack().seq(1).ack(4001).ecn_bits(7));
    let reduced = info(&mut peer, conn);
    assert_eq!(reduced.marked_packets, Some(2));
    assert!(reduced.congestion_window < before.congestion_window);
    assert_eq!(reduced.congestion_window, reduced.slow_start_threshold);
    peer.inject(ack().seq(1).ack(6001).ecn_bits(1));
    let more = info(&mut peer, conn);
    assert_eq!(more.marked_packets, Some(4));
    assert_eq!(more.slow_start_threshold, reduced.slow_start_threshold);
    // One that is older says nothing.
    peer.inject(ack().seq(1).ack(6001).ecn_bits(7));
    assert_eq!(info(&mut peer, conn).marked_packets, Some(4));
    assert!(peer.drain().iter().all(|sent| bits(sent) == 5));
    assert_eq!((more.retransmits, more.timeouts), (0, 0));
    assert_eq!(peer.stack.check_consistency(&peer.pool), Ok(()));
}

/// ACC-9. RFC 9768, 3.2.2.5.2: where the counter may have gone round it is taken to have, unless an option says that no byte was marked.
#[test]
fn counter_that_may_have_gone_round_has() {
    for (option, marked) in [(false, 8), (true, 0)] {
        let (mut peer, conn) = opened_by_peer(0b010);
        peer.send(conn, 1, 40_000);
        peer.ignore();
        peer.advance(ROUND_TRIP);
        let mut told = ack().seq(1).ack(9001).ecn_bits(5);
        told.options.accurate_ecn = option.then_some(AccurateEcn {
            ect0: Some(9001),
            ..AccurateEcn::default()
        });
        peer.inject(told);
        assert_eq!(info(&mut peer, conn).marked_packets, Some(marked));
        peer.ignore();
    }
}

/// ACC-10. RFC 9768, 3.2.2.1, table 4, 3.2.2.3 and 3.2.2.4: bits that say that something changes or clears them end what is sent as
/// ECN-capable; cleared ones are not listened to any more. What arrives is counted all the same.
#[test]
fn changed_bits_end_what_is_sent_as_capable() {
    for (confirms, capable, listens) in [
        (0b010, true, true),
        (0b001, true, true),
        (0b011, false, true),
        (0b100, false, true),
        (0b110, false, true),
        (0b000, false, false),
    ] {
        let (mut peer, conn) = opened_by_peer(confirms);
        peer.send(conn, 1, 4000);
        let sent = peer.drain();
        let codepoint = if capable { ECT0 } else { NOT_ECT };
        assert!(
            sent.iter().all(|sent| sent.ip.tos == codepoint),
            "{confirms:03b}"
        );
        let before = info(&mut peer, conn).congestion_window;
        peer.inject(ack().seq(1).ack(2001).ecn_bits(7));
        let reduced = info(&mut peer, conn).congestion_window < before;
        assert_eq!(reduced, listens, "{confirms:03b}");
        inject_with(&mut peer, &ack().seq(1).ack(2001).ecn_bits(7).len(500), CE);
        let answer = peer.drain().pop().expect("an answer");
        assert_eq!(bits(&answer), 6);
    }
    // The first counter of all is zero.
    let (mut peer, conn) = opened_by_peer(0b010);
    peer.send(conn, 1, 4000);
    peer.ignore();
    peer.inject(ack().seq(1).ack(2001).ecn_bits(0));
    peer.send(conn, 4001, 1000);
    let sent = peer.drain();
    assert!(!sent.is_empty() && sent.iter().all(|sent| sent.ip.tos == NOT_ECT));
}

/// RFC 9768, 3.2.2.5.2 and appendix A.2: the counter is held against packets, however short: eight that are all marked, of which one
/// acknowledgment tells, bring it back to where it was.
#[test]
fn short_segments_are_packets() {
    for option in [false, true] {
        let (mut peer, conn) = opened_by_peer(0b010);
        let no_delay = tollgate_stack::SocketOption::NoDelay(true);
        peer.stack().set_option(conn, no_delay).unwrap();
        peer.send(conn, 1, 100);
        peer.ignore();
        peer.advance(ROUND_TRIP);
        peer.inject(ack().seq(1).ack(101).ecn_bits(5));
        for n in 0..8 {
            peer.send(conn, 101 + 100 * n, 100);
        }
        assert_eq!(peer.drain().len(), 8);
        peer.advance(ROUND_TRIP);
        let before = info(&mut peer, conn);
        let mut told = ack().seq(1).ack(901).ecn_bits(5);
        told.options.accurate_ecn = option.then_some(AccurateEcn {
            ect0: Some(101),
            ce: Some(800),
            ..AccurateEcn::default()
        });
        peer.inject(told);
        let after = info(&mut peer, conn);
        assert_eq!(after.marked_packets, Some(8), "with option: {option}");
        assert!(after.congestion_window < before.congestion_window);
        peer.send(conn, 901, 100);
        assert_eq!(peer.next().expect("data").ip.tos & 3, ECT0);
    }
}

/// ACC-12. RFC 9768, 3.2: the counter is in every segment, also in those that answer in TIME-WAIT.
#[test]
fn counter_is_told_in_time_wait() {
    let (mut peer, conn) = opened_by_peer(0b010);
    inject_with(&mut peer, &ack().seq(1).ack(1).len(500).ecn_bits(5), CE);
    next_with(&mut peer, 6);
    peer.read(conn, 500);
    peer.stack().close(conn).expect("it is there");
    next_with(&mut peer, 6);
    peer.inject(fin().seq(501).ack(2).ecn_bits(5));
    next_with(&mut peer, 6);
    assert_eq!(peer.stack.time_waits(), 1);
    peer.inject(fin().seq(501).ack(2).ecn_bits(5));
    next_with(&mut peer, 6);
}
