//! RFC 5961: resets, SYNs and data made up by somebody who sees nothing of the connection.

use crate::peer::*;
use tollgate_stack::State;

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
        for seq in [0, theirs, theirs + 100, 1 << 30, 1 << 31] {
            peer.inject(syn().seq(seq));
            peer.expect(ack().seq(ours).ack(theirs));
            peer.inject(syn_ack().seq(seq).ack(ours));
            peer.expect(ack().seq(ours).ack(theirs));
        }
        assert_eq!(peer.state(conn), target);
        peer.advance(ms(1));
        peer.expect_nothing();
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
    }
    assert!(peer.read(conn, 100).is_empty());
    // The oldest that is allowed.
    peer.inject(ack().seq(1).ack(1u32.wrapping_sub(WINDOW)).len(10));
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    peer.expect_after(ms(40), ack().seq(1).ack(11));
}

/// 7: "In order to alleviate multiple RSTs/SYNs from triggering multiple challenge ACKs, an ACK throttling mechanism is
/// suggested"
#[test]
fn challenges_are_limited() {
    let (mut peer, conn) = Peer::established();
    for n in 0..1000 {
        peer.inject(rst().seq(100 + n));
    }
    let answers = peer.drain().len();
    assert!((1..=200).contains(&answers), "{answers} answers");
    let counters = *peer.stack.counters();
    assert_eq!(
        counters.challenge_acks + counters.challenge_acks_limited,
        1000
    );
    assert_eq!(peer.state(conn), State::Established);
    // Later there are answers again.
    peer.advance(s(5));
    peer.inject(rst().seq(100));
    peer.expect(ack().seq(1).ack(1));
}
