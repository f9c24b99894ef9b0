//! RFC 5961: resets, SYNs and data made up by somebody who sees nothing of the connection.

use crate::peer::*;
use tollgate_stack::{ConnId, State};
use tollgate_wire::tcp::Flags;

/// The window of [`Peer::established`].
const WINDOW: u32 = 65_535;

/// 3.2: "If the RST bit is set and the sequence number exactly matches the next expected sequence number (RCV.NXT), then TCP
/// MUST reset the connection."
#[test]
fn a_reset_with_the_exact_number_resets() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).len(10));
    peer.inject(rst().seq(11));
    assert_eq!(peer.state(conn), State::Closed);
    peer.expect_nothing();
}

/// 3.2: "If the RST bit is set and the sequence number does not exactly match the next expected sequence value, yet is
/// within the current receive window, TCP MUST send an acknowledgment (challenge ACK): <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>"
#[test]
fn a_reset_elsewhere_in_the_window_is_challenged() {
    let (mut peer, conn) = Peer::established();
    for seq in [2, 1000, WINDOW] {
        peer.inject(rst().seq(seq));
        peer.expect(ack().seq(1).ack(1));
        // Challenges are limited.
        peer.advance(s(1));
    }
    assert_eq!(peer.state(conn), State::Established);
    assert_eq!(peer.stack.counters().challenge_acks, 3);
    // The peer that did mean it answers with the number that it was told.
    peer.inject(rst().seq(1));
    assert_eq!(peer.state(conn), State::Closed);
}

/// 3.2: "If the RST bit is set and the sequence number is outside the current receive window, silently drop the segment."
#[test]
fn a_reset_outside_of_the_window_is_dropped_in_silence() {
    let (mut peer, conn) = Peer::established();
    for seq in [0, 1 + WINDOW, 1 << 31, u32::MAX] {
        peer.inject(rst().seq(seq));
        // Not even when its data reaches into the window.
        peer.inject(rst().seq(seq).data(b"12345"));
    }
    peer.expect_nothing();
    assert_eq!(peer.state(conn), State::Established);
}

/// A connection in a synchronized state, and the next sequence numbers: the peer's and ours.
fn in_state(target: State) -> (Peer, ConnId, (u32, u32)) {
    let (mut peer, conn) = Peer::established();
    let (mut theirs, mut ours) = (1, 1);
    if matches!(target, State::CloseWait | State::LastAck) {
        peer.inject(fin().seq(1).ack(1));
        theirs = 2;
    }
    if !matches!(target, State::Established | State::CloseWait) {
        peer.stack().shutdown(conn).unwrap();
        ours = 2;
    }
    match target {
        State::FinWait2 => peer.inject(ack().seq(1).ack(2)),
        State::Closing => {
            peer.inject(fin().seq(1).ack(1));
            theirs = 2;
        }
        _ => {}
    }
    peer.drain();
    assert_eq!(peer.state(conn), target);
    (peer, conn, (theirs, ours))
}

/// 4.2: "If the SYN bit is set, irrespective of the sequence number, TCP MUST send an ACK (also referred to as challenge
/// ACK) to the remote peer: <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>. After sending the acknowledgment, TCP MUST drop the
/// unacceptable segment and stop processing further."
#[test]
fn a_syn_is_challenged_in_every_synchronized_state() {
    for target in [
        State::Established,
        State::FinWait1,
        State::FinWait2,
        State::CloseWait,
        State::Closing,
        State::LastAck,
    ] {
        // The SYN that began the connection, the next number, and others.
        for seq in [Some(0), None, Some(100), Some(1 << 30), Some(1 << 31)] {
            for acknowledges in [false, true] {
                // Each on a connection of its own, since challenges are limited.
                let (mut peer, conn, (theirs, ours)) = in_state(target);
                let seq = seq.unwrap_or(theirs);
                peer.inject(if acknowledges {
                    syn_ack().seq(seq).ack(ours)
                } else {
                    syn().seq(seq)
                });
                peer.expect(ack().seq(ours).ack(theirs));
                assert_eq!(peer.state(conn), target);
                peer.advance(ms(1));
                peer.expect_nothing();
            }
        }
    }
}

/// 5.2: "All incoming segments whose ACK value doesn't satisfy the above condition MUST be discarded and an ACK sent back":
/// (SND.UNA - MAX.SND.WND) <= SEG.ACK <= SND.NXT.
#[test]
fn data_with_an_acknowledgment_out_of_range_is_discarded() {
    let (mut peer, conn) = Peer::established();
    for number in [2, 1000, 1 << 31, 1u32.wrapping_sub(WINDOW + 1)] {
        peer.inject(ack().seq(1).ack(number).len(10));
        peer.expect(ack().seq(1).ack(1));
        // Each connection is challenged once in half a second.
        peer.advance(s(1));
    }
    assert!(peer.read(conn, 100).is_empty());
    // The oldest that is allowed.
    peer.inject(ack().seq(1).ack(1u32.wrapping_sub(WINDOW)).len(10));
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    peer.expect_after(ms(40), ack().seq(1).ack(11));
}

/// 7: "In order to alleviate multiple RSTs/SYNs from triggering multiple challenge ACKs, an ACK throttling mechanism is
/// suggested": one in half a second for each connection.
#[test]
fn challenges_are_limited() {
    let (mut peer, conn) = Peer::established();
    for _ in 0..3 {
        for n in 0..1000 {
            peer.inject(rst().seq(100 + n));
        }
        // The limit is for all of them.
        peer.inject(syn().seq(100));
        peer.inject(ack().seq(1 << 20).ack(1));
        peer.expect(ack().seq(1).ack(1));
        peer.expect_nothing();
        // A segment with data is answered: its sender waits for an acknowledgment.
        for _ in 0..3 {
            peer.inject(ack().seq(0).ack(1).data(b"?"));
            peer.expect(ack().seq(1).ack(1));
        }
        peer.advance(ms(500) + SLACK);
    }
    assert_eq!(peer.stack.counters().challenge_acks, 3);
    assert_eq!(peer.state(conn), State::Established);
}

/// 5.2: MAX.SND.WND is "the largest window that the local sender has ever received from its peer": the range of acceptable
/// acknowledgments grows with the peer's window.
#[test]
fn range_of_acknowledgments_follows_the_largest_window() {
    let mut peer = Peer::with(|config| config.window_scaling = true);
    let listener = peer.listen();
    peer.inject(syn().mss(MSS).scale(7));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.inject(ack().seq(1).ack(1).win(512));
    let conn = peer.stack().accept(listener).unwrap();
    assert_eq!(peer.stack().info(conn).unwrap().send_window, 1 << 16);
    // The peer's buffer grows to 4 MiB.
    let mut at = 1;
    for _ in 0..200 {
        peer.send(conn, at, 1000);
        peer.expect(ack().seq(at).ack(1).len(1000));
        at += 1000;
        peer.inject(ack().seq(1).ack(at).win(1 << 15));
    }
    assert_eq!(peer.stack().info(conn).unwrap().send_window, 1 << 22);
    // Data that was overtaken by acknowledgments of 150,000 bytes.
    peer.inject(ack().seq(1).ack(at - 150_000).win(1 << 15).len(10));
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    assert_eq!(peer.stack.counters().challenge_acks, 0);
    peer.expect_after(ms(40), ack().seq(at).ack(11));
}

/// Two connections of one stack, from ports 40,000 and 40,001, with their initial sequence numbers.
fn two_connections() -> (Peer, [(u16, u32); 2]) {
    let mut peer = Peer::new();
    let listener = peer.listen();
    let ends = [40_000, 40_001].map(|port| {
        peer.port = port;
        peer.inject(syn().mss(MSS));
        peer.expect(syn_ack().seq(0).ack(1));
        peer.inject(ack().seq(1).ack(1));
        peer.stack().accept(listener).expect("it is complete");
        (port, peer.iss)
    });
    (peer, ends)
}

/// 7: an attacker who has a connection of his own counts the challenges that he gets. Their number must not tell whether
/// somebody else's connection was challenged, for then his made-up reset hit the window there (CVE-2016-5696).
#[test]
fn challenges_of_a_connection_tell_nothing_of_another() {
    let answers = |another_is_challenged: bool| {
        let (mut peer, [own, other]) = two_connections();
        // No timer of the handshake plays a part.
        peer.advance(s(2));
        if another_is_challenged {
            (peer.port, peer.iss) = other;
            peer.inject(rst().seq(100));
            peer.expect(ack().seq(1).ack(1));
        }
        (peer.port, peer.iss) = own;
        for n in 0..500 {
            peer.inject(rst().seq(100 + n));
        }
        peer.drain().len()
    };
    let (alone, beside_another) = (answers(false), answers(true));
    assert!(alone >= 1, "no challenge at all");
    assert_eq!(alone, beside_another);
}

/// 7, the limit's other side: a flood of SYNs to a closed port takes no answers away from connections. A keepalive probe that
/// is not answered ends an idle connection at the peer.
#[test]
fn keepalive_probes_are_answered_while_syns_flood_a_closed_port() {
    let (mut peer, conn) = Peer::established();
    let (port, iss) = (peer.port, peer.iss);
    for probe in 0..10 {
        peer.advance(s(1));
        peer.local = 99;
        for n in 0..300 {
            peer.port = 50_000 + n;
            peer.inject(syn());
        }
        peer.ignore();
        (peer.local, peer.port, peer.iss) = (PORT, port, iss);
        peer.inject(ack().seq(0).ack(1));
        assert!(peer.next().is_some(), "no answer to probe {probe}");
    }
    assert_eq!(peer.state(conn), State::Established);
}

/// 7, the same with noise on somebody's own connection: a SYN to a closed port is still refused, and does not time out.
#[test]
fn syn_to_a_closed_port_is_refused_while_a_connection_makes_noise() {
    let (mut peer, _conn) = Peer::established();
    let (port, iss) = (peer.port, peer.iss);
    for attempt in 0..10 {
        peer.advance(s(1));
        for n in 0..300 {
            peer.inject(rst().seq(100 + n));
            // Outside of the window.
            peer.inject(ack().seq(100_000 + n).ack(1));
        }
        peer.ignore();
        (peer.local, peer.port) = (99, 50_000);
        peer.inject(syn());
        let answer = peer.next();
        assert!(
            answer.is_some_and(|sent| sent.header.flags.has(Flags::RST)),
            "attempt {attempt} was not refused"
        );
        (peer.local, peer.port, peer.iss) = (PORT, port, iss);
    }
}

/// 7: answers to segments that anybody can make up are limited, those to SYNs below the window as well.
#[test]
fn answers_to_old_syns_are_limited() {
    for seq in [0, 5] {
        let (mut peer, _) = Peer::established();
        let mut answers = 0;
        for _ in 0..100 {
            peer.inject(syn().seq(seq).mss(MSS));
            answers += peer.drain().len();
        }
        assert_eq!(answers, 1, "to {seq}");
    }
}
