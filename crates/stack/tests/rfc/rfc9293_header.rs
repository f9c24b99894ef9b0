//! RFC 9293, 3.1, 3.2 and 3.7.1: the header, its checksum and its options.

use crate::peer::*;
use tollgate_stack::State;
use tollgate_stack::counters::Drop;
use tollgate_wire::tcp::Flags;

/// 3.1, MUST-1: "The window size MUST be treated as an unsigned number, or else large window sizes will appear like
/// negative windows"
#[test]
fn a_window_above_32767_is_not_negative() {
    for window in [0x7fff, 0x8000, 0xffff] {
        let (mut peer, conn) = Peer::established();
        peer.inject(ack().seq(1).ack(1).win(window));
        assert_eq!(
            peer.stack().info(conn).unwrap().send_window,
            u32::from(window)
        );
        peer.send(conn, 1, 1000);
        peer.expect(ack().seq(1).ack(1).len(1000));
    }
}

/// 3.1, MUST-2: "The sender MUST generate it". The scripted peer verifies the checksum of every segment; here segments of
/// every kind and of odd lengths go by it.
#[test]
fn every_segment_has_a_right_checksum() {
    let (mut peer, conn) = Peer::connected();
    for (from, len) in [(1, 1), (2, 3), (5, 999)] {
        peer.send(conn, from, len);
        peer.expect(ack().seq(from).ack(1).len(len));
        peer.inject(ack().seq(1).ack(from + len as u32));
    }
    peer.send(conn, 1004, 7);
    peer.expect(ack().seq(1004).ack(1).len(7));
    peer.wait(s(5));
    peer.expect(ack().seq(1004).ack(1).len(7));
    peer.stack().abort(conn).unwrap();
    peer.expect(rst_ack().seq(1011).ack(1));
}

/// 3.1, MUST-3: "and the receiver MUST check it"
#[test]
fn a_segment_with_a_wrong_checksum_is_dropped_in_silence() {
    let (mut peer, conn) = Peer::established();
    for at in [0, 4, 8, 13, 14, 16, 20, 25] {
        let mut segment = peer.segment(&ack().seq(1).ack(1).len(10));
        segment[at] ^= 0x10;
        let packet = ip_packet(6, PEER, STACK, &segment);
        peer.inject_packet(&packet);
    }
    peer.expect_nothing();
    assert_eq!(peer.stack.counters().drops(Drop::Checksum), 8);
    assert!(peer.read(conn, 100).is_empty());
    // The pseudo-header counts: the same segment from another address.
    let segment = peer.segment(&ack().seq(1).ack(1).len(10));
    let packet = ip_packet(6, std::net::Ipv4Addr::new(10, 0, 0, 3), STACK, &segment);
    peer.inject_packet(&packet);
    peer.expect_nothing();
    assert_eq!(peer.stack.counters().drops(Drop::Checksum), 9);
}

/// 3.1, MUST-4: "the following options MUST be supported": end of options, no operation, MSS; 3.2, MUST-64: "receivers MUST
/// be prepared to process options even if they do not begin on a word boundary"
#[test]
fn the_mandatory_options_are_understood_at_any_alignment() {
    let [high, low] = 700u16.to_be_bytes();
    for options in [
        vec![2, 4, high, low],
        vec![1, 2, 4, high, low, 0, 0, 0],
        vec![1, 1, 1, 2, 4, high, low, 0],
        vec![2, 4, high, low, 0, 2, 4, 0],
    ] {
        let mut peer = Peer::new();
        let conn = peer.accepted(syn().seq(0).raw_options(&options));
        assert_eq!(peer.stack().info(conn).unwrap().mss, 700, "{options:?}");
    }
}

/// 3.1, MUST-5: "A TCP implementation MUST be able to receive a TCP Option in any segment"; MUST-6: "MUST ignore without
/// error any TCP Option it does not implement"
#[test]
fn options_may_be_in_any_segment_and_unknown_ones_are_skipped() {
    let (mut peer, conn) = Peer::established();
    // An experimental option (RFC 6994), and SACK blocks that were never negotiated.
    peer.inject(
        ack()
            .seq(1)
            .ack(1)
            .raw_options(&[253, 6, 0xde, 0xad, 1, 2, 1, 1])
            .len(10),
    );
    peer.inject(
        ack()
            .seq(11)
            .ack(1)
            .raw_options(&[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2])
            .len(10),
    );
    peer.expect(ack().seq(1).ack(21));
    assert_eq!(peer.read(conn, 100), stream(1, 20));
    // In the FIN and in the acknowledgment of ours, too.
    peer.inject(fin().seq(21).ack(1).raw_options(&[254, 4, 0, 0]));
    peer.expect(ack().seq(1).ack(22));
    assert_eq!(peer.state(conn), State::CloseWait);
}

/// 3.1, MUST-7: "TCP implementations MUST be prepared to handle an illegal option length (e.g., zero)"
#[test]
fn illegal_option_lengths_do_no_harm() {
    let (mut peer, conn) = Peer::established();
    for options in [
        [253, 0, 0, 0],
        [253, 1, 0, 0],
        [253, 5, 0, 0],
        [253, 255, 0, 0],
        [2, 3, 0, 0],
        [1, 1, 1, 253],
    ] {
        peer.inject(ack().seq(1).ack(1).raw_options(&options).len(10));
    }
    peer.expect_nothing();
    assert_eq!(peer.stack.counters().drops(Drop::Malformed), 6);
    peer.inject(ack().seq(1).ack(1).len(10));
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    peer.expect_after(ms(40), ack().seq(1).ack(11));
}

/// 3.1: a data offset below five words, or beyond the segment, is no header.
#[test]
fn impossible_data_offsets_do_no_harm() {
    let (mut peer, conn) = Peer::established();
    for words in [0, 4, 15] {
        let mut segment = peer.segment(&ack().seq(1).ack(1).len(10));
        segment[12] = words << 4;
        fill_checksum(&mut segment, PEER, STACK);
        let packet = ip_packet(6, PEER, STACK, &segment);
        peer.inject_packet(&packet);
    }
    peer.expect_nothing();
    assert_eq!(peer.stack.counters().drops(Drop::Malformed), 3);
    assert!(peer.read(conn, 100).is_empty());
}

/// 3.1: options that the data offset counts and the packet does not hold are no data.
#[test]
fn header_that_the_packet_cuts_off_does_no_harm() {
    let mut peer = Peer::with(|config| config.timestamps = true);
    let conn = peer.accepted_with_stamps(1);
    for bytes in 0..12 {
        let seg = ack().seq(1).ack(1).win(1000).len(bytes);
        let mut segment = peer.segment(&seg);
        segment[12] = 8 << 4;
        fill_checksum(&mut segment, PEER, STACK);
        let packet = ip_packet(6, PEER, STACK, &segment);
        peer.inject_packet(&packet);
    }
    peer.expect_nothing();
    assert_eq!(peer.stack.counters().drops(Drop::Malformed), 12);
    assert!(peer.read(conn, 100).is_empty());
}

/// 3.1, MUST-68: "All TCP Options except [EOL and NOP] MUST have length fields"; MUST-69: "The content of the header beyond
/// the End of Option List Option MUST be header padding of zeros"; 3.2, MUST-65: the MSS option "MUST NOT be sent in other
/// segments". The scripted peer checks these of every segment; here those with the most options go by it.
#[test]
fn options_that_are_sent_are_well_formed() {
    let mut peer = Peer::with(|config| {
        config.timestamps = true;
        config.window_scaling = true;
    });
    let conn = peer.connect();
    let sent = peer.expect(syn());
    let ours = sent.header.options;
    assert_eq!(
        (
            ours.mss,
            ours.window_scale.is_some(),
            ours.timestamps.is_some()
        ),
        (Some(1460), true, true)
    );
    assert_eq!(sent.raw_options.len() % 4, 0);
    peer.inject(
        syn_ack()
            .seq(0)
            .ack(1)
            .mss(MSS)
            .scale(2)
            .stamps(5, ours.timestamps.unwrap().value),
    );
    let sent = peer.expect(ack().seq(1).ack(1));
    assert!(sent.header.options.mss.is_none() && sent.header.options.timestamps.is_some());
    peer.send(conn, 1, 10);
    assert!(
        peer.expect(ack().seq(1).ack(1).len(10))
            .header
            .options
            .timestamps
            .is_some()
    );
}

/// 3.7.1, MUST-14: "TCP endpoints MUST implement both sending and receiving the MSS Option"; SHLD-5: "SHOULD send an MSS
/// Option in every SYN segment"; MUST-67: the value is at most
/// "MMS_R - 20", what a packet of the link can carry, options not counted (RFC 6691).
#[test]
fn the_mss_option_is_sent_on_every_syn_and_fits_the_link() {
    for (mtu, mss) in [(1500, 1460), (9000, 8960), (576, 536)] {
        let mut peer = Peer::on_link(mtu, |config| config.timestamps = true);
        peer.connect();
        assert_eq!(peer.expect(syn()).header.options.mss, Some(mss));
        let mut peer = Peer::on_link(mtu, |_| {});
        peer.listen();
        peer.inject(syn().seq(0));
        assert_eq!(
            peer.expect(syn_ack().seq(0).ack(1)).header.options.mss,
            Some(mss)
        );
    }
}

/// 3.7.1, MUST-15: "If an MSS Option is not received at connection setup, TCP implementations MUST assume a default send
/// MSS of 536"
#[test]
fn without_the_option_the_send_mss_is_536() {
    let mut peer = Peer::new();
    let conn = peer.accepted(syn().seq(0));
    peer.send(conn, 1, 1072);
    peer.expect(ack().seq(1).ack(1).len(536));
    peer.expect(ack().seq(537).ack(1).len(536));

    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn());
    peer.inject(syn_ack().seq(0).ack(1));
    peer.expect(ack().seq(1).ack(1));
    assert_eq!(peer.stack().info(conn).unwrap().mss, 536);
}

/// 3.7.1, MUST-16: "the 'effective send MSS' MUST be the smaller of the send MSS [...] and the largest transmission size
/// permitted by the IP layer"; TCPhdrsize counts the options.
#[test]
fn the_effective_mss_is_the_smaller_of_the_peers_and_the_links_less_options() {
    for (offered, mtu, effective) in [
        (1000, 1500, 1000),
        (1460, 1500, 1460),
        (9000, 1500, 1460),
        (1460, 576, 536),
    ] {
        let mut peer = Peer::on_link(mtu, |_| {});
        let conn = peer.accepted(syn().seq(0).mss(offered));
        peer.send(conn, 1, 2 * effective);
        peer.expect(ack().seq(1).ack(1).len(effective));
        peer.expect(ack().seq(1 + effective as u32).ack(1).len(effective));
    }
    let mut peer = Peer::with(|config| config.timestamps = true);
    let conn = peer.accepted_with_stamps(1);
    peer.send(conn, 1, 988);
    peer.expect(ack().seq(1).ack(1).len(988).flag(Flags::PSH));
    assert_eq!(peer.stack().info(conn).unwrap().mss, MSS - 12);
}

/// 3.2: the MSS option counts on a SYN only.
#[test]
fn the_mss_option_on_another_segment_is_ignored() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).mss(100).len(10));
    assert_eq!(peer.stack().info(conn).unwrap().mss, MSS);
    peer.expect_after(ms(40), ack().seq(1).ack(11));
}
