//! RFC 1146: alternate checksums, of which the stack knows number 3, which leaves them out (IANA, "TCP Alternate Checksum
//! Numbers"; Kay and Pasquale 1996, VI.C).

use super::peer::*;
use tollgate_stack::config::ChecksumPolicy;
use tollgate_stack::link::Integrity;
use tollgate_stack::{Checksums, Config, ConnId, State};
use tollgate_wire::tcp::{Flags, NO_CHECKSUM};

/// The place of TCP's checksum in an IP packet.
const FIELD: std::ops::Range<usize> = 36..38;

fn willing(config: &mut Config) {
    config.integrity = Integrity::Crc;
    config.mechanisms.checksum = ChecksumPolicy::RedundancyAvoidance;
}

fn asking(mut seg: Seg, number: u8) -> Seg {
    seg.options.alternate_checksum = Some(number);
    seg
}

fn confirming(mut seg: Seg) -> Seg {
    seg.options.empty_checksum_data = true;
    seg
}

/// Gives the stack a segment whose checksum is left out.
fn inject_unsummed(peer: &mut Peer, seg: &Seg) {
    let mut packet = peer.packet(seg);
    packet[FIELD].fill(0);
    peer.inject_packet(&packet);
}

fn checksums(peer: &mut Peer, conn: ConnId) -> Checksums {
    peer.stack().info(conn).expect("it is there").checksums
}

/// A connection that the peer has opened, and both leave checksums out.
fn agreed() -> (Peer, ConnId) {
    let mut peer = Peer::with(willing);
    let listener = peer.listen();
    peer.inject(asking(syn().mss(MSS), NO_CHECKSUM));
    let answer = peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(answer.header.options.alternate_checksum, Some(NO_CHECKSUM));
    peer.inject(confirming(ack().seq(1).ack(1)));
    let conn = peer.stack().accept(listener).expect("it is complete");
    assert_eq!(checksums(&mut peer, conn), Checksums::Redundant);
    (peer, conn)
}

/// CSUM-1: "If both SYN segments carry the Alternate Checksum Request option, and both specify the same algorithm, that
/// algorithm must be used for the remainder of the connection."
#[test]
fn algorithm_that_both_syns_ask_for_is_used() {
    let (mut peer, conn) = agreed();
    peer.send(conn, 1, 300);
    let (_, segment) = peer.next_packet().expect("data");
    assert_eq!(segment[16..18], [0, 0]);
    inject_unsummed(&mut peer, &ack().seq(1).ack(301).len(200));
    assert_eq!(peer.read(conn, 500), stream(1, 200));
}

/// CSUM-1, for a connection that the stack opens.
#[test]
fn algorithm_is_asked_for_in_the_first_syn() {
    let mut peer = Peer::with(willing);
    let conn = peer.connect();
    let first = peer.expect(syn());
    assert_eq!(first.header.options.alternate_checksum, Some(NO_CHECKSUM));
    peer.inject(asking(syn_ack().seq(0).ack(1).mss(MSS), NO_CHECKSUM));
    let last = peer.expect(ack().seq(1).ack(1));
    assert!(last.header.options.empty_checksum_data);
    inject_unsummed(&mut peer, &ack().seq(1).ack(1).len(100));
    assert_eq!(peer.read(conn, 500), stream(1, 100));
    assert_eq!(checksums(&mut peer, conn), Checksums::Redundant);
}

/// CSUM-2: "Otherwise, the standard TCP checksum algorithm must be used for the entire connection."
#[test]
fn different_algorithms_mean_the_standard_one() {
    for number in [None, Some(0), Some(1), Some(2)] {
        let mut first = syn().mss(MSS);
        first.options.alternate_checksum = number;
        let mut peer = Peer::with(willing);
        let listener = peer.listen();
        peer.inject(first);
        let answer = peer.expect(syn_ack().seq(0).ack(1));
        assert_eq!(answer.header.options.alternate_checksum, None);
        peer.inject(confirming(ack().seq(1).ack(1)));
        let conn = peer.stack().accept(listener).expect("it is complete");
        // What the stack sends is verified by the peer.
        peer.send(conn, 1, 300);
        peer.expect(ack().seq(1).ack(1).len(300));
        assert_eq!(checksums(&mut peer, conn), Checksums::Declined);

        let mut peer = Peer::with(willing);
        let conn = peer.connect();
        peer.expect(syn());
        let mut answer = syn_ack().seq(0).ack(1).mss(MSS);
        answer.options.alternate_checksum = number;
        peer.inject(answer);
        let last = peer.expect(ack().seq(1).ack(1));
        assert!(!last.header.options.empty_checksum_data);
        peer.send(conn, 1, 300);
        peer.expect(ack().seq(1).ack(1).len(300));
        inject_unsummed(&mut peer, &ack().seq(1).ack(301).len(100));
        assert_eq!(peer.read(conn, 500), []);
    }
}

/// CSUM-3: "Any segment with the SYN bit set must always use the standard TCP checksum algorithm."
#[test]
fn syn_uses_the_standard_checksum() {
    let mut peer = Peer::with(willing);
    peer.listen();
    inject_unsummed(&mut peer, &asking(syn().mss(MSS), NO_CHECKSUM));
    peer.expect_nothing();
    // The peer verifies whatever it expects.
    peer.inject(asking(syn().mss(MSS), NO_CHECKSUM));
    peer.expect(syn_ack().seq(0).ack(1));
}

/// CSUM-4: "any segment with the RST bit set must use the standard TCP checksum."
#[test]
fn reset_uses_the_standard_checksum() {
    let (mut peer, conn) = agreed();
    inject_unsummed(&mut peer, &rst().seq(1));
    assert_eq!(peer.state(conn), State::Established);
    assert_eq!(peer.stack().abort(conn), Ok(()));
    peer.expect(rst_ack().seq(1).ack(1));
    let (mut peer, conn) = agreed();
    peer.inject(rst().seq(1));
    assert_eq!(peer.state(conn), State::Closed);
}

/// CSUM-5: "The option may not be sent in any segment that does not have the SYN bit set."
#[test]
fn request_is_sent_with_a_syn_only() {
    let mut peer = Peer::with(willing);
    let conn = peer.connect();
    peer.expect(syn());
    peer.inject(asking(syn_ack().seq(0).ack(1).mss(MSS), NO_CHECKSUM));
    let mut sent = vec![peer.expect(ack().seq(1).ack(1))];
    peer.send(conn, 1, 5_000);
    sent.extend(peer.drain());
    assert_eq!(peer.stack().close(conn), Ok(()));
    sent.extend(peer.drain());
    assert!(sent.len() > 2);
    for segment in sent {
        assert!(!segment.header.flags.has(Flags::SYN));
        assert_eq!(segment.header.options.alternate_checksum, None);
    }
}

/// CSUM-6: "An otherwise acceptable segment carrying this option [...] with an inappropriate number of data octets for the
/// chosen alternate checksum algorithm is in error and must be discarded; a RST-segment must be generated". Number 3 has no
/// data. Other lengths are skipped as options that nobody knows, so that a device on the way cannot end connections.
#[test]
fn checksum_data_of_another_length_are_skipped() {
    let (mut peer, conn) = agreed();
    peer.inject(ack().seq(1).ack(1).raw_options(&[15, 4, 9, 9]).len(50));
    assert_eq!(peer.read(conn, 500), stream(1, 50));
    assert_eq!(peer.state(conn), State::Established);
    // Nor is one a confirmation.
    let mut peer = Peer::with(willing);
    let listener = peer.listen();
    peer.inject(asking(syn().mss(MSS), NO_CHECKSUM));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.inject(ack().seq(1).ack(1).raw_options(&[15, 3, 9, 1]));
    let conn = peer.stack().accept(listener).expect("it is complete");
    assert_eq!(checksums(&mut peer, conn), Checksums::Negotiating);
}
