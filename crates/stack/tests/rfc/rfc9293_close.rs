//! RFC 9293, 3.6 and the closing states of 3.10; TIME-WAIT with RFC 6191 and RFC 1337.

use crate::peer::*;
use tollgate_stack::{ConnId, Error, Received, State};

/// The normal close of figure 12, from our side, up to TIME-WAIT. The handle is kept.
fn in_time_wait() -> (Peer, ConnId) {
    let (mut peer, conn) = Peer::established();
    close_first(&mut peer, conn);
    (peer, conn)
}

fn close_first(peer: &mut Peer, conn: ConnId) {
    peer.stack().shutdown(conn).unwrap();
    peer.expect(fin().seq(1).ack(1));
    peer.inject(ack().seq(1).ack(2));
    peer.inject(fin().seq(1).ack(2));
    peer.expect(ack().seq(2).ack(2));
    assert_eq!(peer.state(conn), State::TimeWait);
}

/// 3.6, figure 12, TCP peer A: FIN-WAIT-1, FIN-WAIT-2, TIME-WAIT.
#[test]
fn an_active_close_goes_by_both_fin_waits_to_time_wait() {
    let (mut peer, conn) = Peer::established();
    peer.stack().shutdown(conn).unwrap();
    peer.expect(fin().seq(1).ack(1));
    assert_eq!(peer.state(conn), State::FinWait1);
    peer.inject(ack().seq(1).ack(2));
    assert_eq!(peer.state(conn), State::FinWait2);
    peer.inject(fin().seq(1).ack(2));
    peer.expect(ack().seq(2).ack(2));
    assert_eq!(peer.state(conn), State::TimeWait);
    assert_eq!(peer.stack().receive(conn, &mut [0; 1]), Ok(Received::End));
    assert_eq!(peer.stack().close(conn), Ok(()));
    assert_eq!((peer.stack.connections(), peer.stack.time_waits()), (0, 1));
}

/// 3.6, figure 12, TCP peer B: CLOSE-WAIT, LAST-ACK, CLOSED.
#[test]
fn a_passive_close_goes_by_close_wait_and_last_ack_to_closed() {
    let (mut peer, conn) = Peer::established();
    peer.inject(fin().seq(1).ack(1));
    peer.expect(ack().seq(1).ack(2));
    assert_eq!(peer.state(conn), State::CloseWait);
    assert_eq!(peer.stack().receive(conn, &mut [0; 1]), Ok(Received::End));
    peer.stack().shutdown(conn).unwrap();
    peer.expect(fin().seq(1).ack(2));
    assert_eq!(peer.state(conn), State::LastAck);
    peer.inject(ack().seq(2).ack(2));
    assert_eq!(peer.state(conn), State::Closed);
    assert_eq!(peer.stack().close(conn), Ok(()));
    assert_eq!((peer.stack.connections(), peer.stack.time_waits()), (0, 0));
}

/// 3.6, figure 13: CLOSING, TIME-WAIT.
#[test]
fn a_simultaneous_close_goes_by_closing_to_time_wait() {
    let (mut peer, conn) = Peer::established();
    peer.stack().shutdown(conn).unwrap();
    peer.expect(fin().seq(1).ack(1));
    peer.inject(fin().seq(1).ack(1));
    peer.expect(ack().seq(2).ack(2));
    assert_eq!(peer.state(conn), State::Closing);
    peer.inject(ack().seq(2).ack(2));
    assert_eq!(peer.state(conn), State::TimeWait);
}

/// 3.10.7.4: "FIN-WAIT-1 STATE: If our FIN has been ACKed (perhaps in this segment), then enter TIME-WAIT"
#[test]
fn a_fin_that_acknowledges_ours_leads_from_fin_wait_1_to_time_wait() {
    let (mut peer, conn) = Peer::established();
    peer.stack().shutdown(conn).unwrap();
    peer.expect(fin().seq(1).ack(1));
    peer.inject(fin().seq(1).ack(2));
    peer.expect(ack().seq(2).ack(2));
    assert_eq!(peer.state(conn), State::TimeWait);
}

/// 3.6.1: "a host is permitted to continue sending data in the open direction on a half-closed connection"; here the peer
/// does, in our FIN-WAIT-1 and FIN-WAIT-2.
#[test]
fn data_is_received_after_our_half_is_closed() {
    let (mut peer, conn) = Peer::established();
    peer.stack().shutdown(conn).unwrap();
    peer.expect(fin().seq(1).ack(1));
    peer.inject(ack().seq(1).ack(1).len(10));
    peer.inject(ack().seq(11).ack(1).len(10));
    peer.expect(ack().seq(2).ack(21));
    peer.inject(ack().seq(21).ack(2).len(10));
    assert_eq!(peer.state(conn), State::FinWait2);
    assert_eq!(peer.read(conn, 100), stream(1, 30));
    peer.inject(fin().seq(31).ack(2).len(5));
    peer.expect(ack().seq(2).ack(37));
    assert_eq!(peer.state(conn), State::TimeWait);
    assert_eq!(peer.read(conn, 100), stream(31, 5));
    assert_eq!(peer.stack().receive(conn, &mut [0; 1]), Ok(Received::End));
}

/// 3.6.1, the other way round: we send in CLOSE-WAIT; 3.10.4: "Queue this request until all preceding SENDs have been
/// segmentized; then send a FIN segment, enter LAST-ACK state."
#[test]
fn data_is_sent_after_the_peers_half_is_closed() {
    let (mut peer, conn) = Peer::established();
    peer.inject(fin().seq(1).ack(1));
    peer.expect(ack().seq(1).ack(2));
    peer.send(conn, 1, 1500);
    peer.expect(ack().seq(1).ack(2).len(1000));
    peer.stack().shutdown(conn).unwrap();
    peer.expect(fin().seq(1001).ack(2).len(500));
    assert_eq!(peer.state(conn), State::LastAck);
    peer.inject(ack().seq(2).ack(1502));
    assert_eq!(peer.state(conn), State::Closed);
}

/// 3.6: "No further SENDs from the user will be accepted by the TCP implementation"; 3.10.2: "Return 'error: connection
/// closing' and do not service request."
#[test]
fn nothing_is_accepted_for_sending_after_close() {
    let (mut peer, conn) = Peer::established();
    peer.stack().shutdown(conn).unwrap();
    peer.expect(fin().seq(1).ack(1));
    assert_eq!(peer.stack().send(conn, b"x"), Err(Error::Shutdown));
    // 3.10.4: "as long as a second FIN is not emitted".
    assert_eq!(peer.stack().shutdown(conn), Err(Error::Shutdown));
    peer.expect_nothing();
}

/// 3.6: "All segments preceding and including FIN will be retransmitted until acknowledged."
#[test]
fn a_fin_is_retransmitted() {
    let (mut peer, conn) = Peer::established();
    peer.stack().shutdown(conn).unwrap();
    peer.expect(fin().seq(1).ack(1));
    peer.wait(s(10));
    peer.expect(fin().seq(1).ack(1));
    peer.inject(ack().seq(1).ack(2));
    assert_eq!(peer.state(conn), State::FinWait2);
}

/// 3.10.7.4, CLOSE-WAIT, CLOSING, LAST-ACK: "This should not occur since a FIN has been received from the remote side.
/// Ignore the segment text."
#[test]
fn text_behind_the_peers_fin_is_ignored() {
    let (mut peer, conn) = Peer::established();
    peer.inject(fin().seq(1).ack(1));
    peer.expect(ack().seq(1).ack(2));
    peer.inject(ack().seq(2).ack(1).len(10));
    peer.advance(s(1));
    peer.expect_nothing();
    assert_eq!(peer.stack().receive(conn, &mut [0; 10]), Ok(Received::End));
    assert_eq!(peer.state(conn), State::CloseWait);
}

/// 3.10.7.4: "CLOSE-WAIT STATE: Remain in the CLOSE-WAIT state."
#[test]
fn the_peers_fin_again_is_acknowledged_again() {
    let (mut peer, conn) = Peer::established();
    for _ in 0..2 {
        peer.inject(fin().seq(1).ack(1));
        peer.expect(ack().seq(1).ack(2));
        assert_eq!(peer.state(conn), State::CloseWait);
    }
}

/// 3.6, SHLD-3: "If such a host issues a CLOSE call while received data is still pending in the TCP connection [...] its
/// TCP implementation SHOULD send a RST to show that data was lost"
#[test]
fn closing_with_unread_data_resets() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).len(10));
    assert_eq!(peer.stack().close(conn), Ok(()));
    peer.expect(rst_ack().seq(1).ack(11));
    assert_eq!(peer.stack.connections(), 0);
}

/// 3.6, SHLD-3: "or if new data is received after CLOSE is called"
#[test]
fn data_after_close_is_answered_by_a_reset() {
    let (mut peer, conn) = Peer::established();
    assert_eq!(peer.stack().close(conn), Ok(()));
    peer.expect(fin().seq(1).ack(1));
    peer.inject(ack().seq(1).ack(2));
    peer.inject(ack().seq(1).ack(2).len(10));
    peer.expect(rst_ack().seq(2).ack(1));
    assert_eq!(peer.stack.connections(), 0);
}

/// 3.6, MUST-12: "the local application MUST be informed whether it closed normally or was aborted"
#[test]
fn the_application_learns_whether_the_peer_closed_or_aborted() {
    let (mut peer, conn) = Peer::established();
    peer.inject(fin().seq(1).ack(1));
    peer.expect(ack().seq(1).ack(2));
    assert_eq!(peer.stack().receive(conn, &mut [0; 1]), Ok(Received::End));
    assert!(peer.next_ready().unwrap().1.end());

    let (mut peer, conn) = Peer::established();
    peer.inject(rst().seq(1));
    assert!(peer.next_ready().unwrap().1.closed());
    assert_eq!(peer.stack().receive(conn, &mut [0; 1]), Err(Error::Reset));
    assert_eq!(peer.stack().send(conn, b"x"), Err(Error::Reset));
    assert_eq!(peer.stack().close(conn), Err(Error::Reset));
    assert_eq!(peer.stack().close(conn), Err(Error::NotConnected));
}

/// 3.10.5: "Send a reset segment: <SEQ=SND.NXT><CTL=RST> [...] all segments queued for transmission [...] should be
/// flushed. Delete the TCB"
#[test]
fn an_abort_resets_and_forgets() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 100);
    peer.expect(ack().seq(1).ack(1).len(100));
    assert_eq!(peer.stack().abort(conn), Ok(()));
    peer.expect(rst_ack().seq(101).ack(1));
    assert_eq!(peer.stack.connections(), 0);
    assert_eq!(peer.pool.available(), peer.pool.capacity());
}

/// 3.10.7.4, "Second, check the RST bit", ESTABLISHED to CLOSE-WAIT: "any outstanding RECEIVEs and SEND should receive
/// 'reset' responses. All segment queues should be flushed."; CLOSING and LAST-ACK: "enter the CLOSED state, delete the
/// TCB, and return".
#[test]
fn a_reset_ends_the_connection_in_every_state() {
    for target in [
        State::Established,
        State::FinWait1,
        State::FinWait2,
        State::CloseWait,
        State::Closing,
        State::LastAck,
    ] {
        let (mut peer, conn) = Peer::established();
        let mut next = 1;
        if matches!(target, State::CloseWait | State::LastAck) {
            peer.inject(fin().seq(1).ack(1));
            next = 2;
        }
        if !matches!(target, State::Established | State::CloseWait) {
            peer.stack().shutdown(conn).unwrap();
        }
        match target {
            State::FinWait2 => peer.inject(ack().seq(1).ack(2)),
            State::Closing => {
                peer.inject(fin().seq(1).ack(1));
                next = 2;
            }
            _ => {}
        }
        peer.drain();
        assert_eq!(peer.state(conn), target);
        peer.inject(rst().seq(next));
        assert_eq!(peer.state(conn), State::Closed, "from {target:?}");
        // In CLOSING and LAST-ACK both sides have closed: nothing is lost.
        let lost = !matches!(target, State::Closing | State::LastAck);
        assert_eq!(
            peer.stack().close(conn),
            if lost { Err(Error::Reset) } else { Ok(()) },
            "from {target:?}"
        );
        assert_eq!(peer.pool.available(), peer.pool.capacity());
        peer.expect_nothing();
    }
}

/// 3.6.1, MUST-13: "When a connection is closed actively, it MUST linger in the TIME-WAIT state for a time 2xMSL"
#[test]
fn time_wait_lasts_twice_the_segment_lifetime() {
    let (mut peer, conn) = in_time_wait();
    peer.stack().close(conn).unwrap();
    peer.advance(s(60) - SLACK);
    assert_eq!(peer.stack.time_waits(), 1);
    peer.inject(ack().seq(2).ack(2).len(1));
    peer.expect(ack().seq(2).ack(2));
    peer.advance(2 * SLACK);
    assert_eq!(peer.stack.time_waits(), 0);
    peer.inject(ack().seq(2).ack(2));
    peer.expect(rst().seq(2));
}

/// 3.10.7.4: "The only thing that can arrive in this state is a retransmission of the remote FIN. Acknowledge it, and
/// restart the 2 MSL timeout."
#[test]
fn the_peers_fin_again_restarts_time_wait() {
    let (mut peer, conn) = in_time_wait();
    peer.stack().close(conn).unwrap();
    peer.advance(s(50));
    peer.inject(fin().seq(1).ack(2));
    peer.expect(ack().seq(2).ack(2));
    peer.advance(s(59));
    assert_eq!(peer.stack.time_waits(), 1);
    peer.advance(s(2));
    assert_eq!(peer.stack.time_waits(), 0);
}

/// The same: a FIN of any other number is no retransmission. It is answered, and nothing more.
#[test]
fn another_fin_does_not_restart_time_wait() {
    let (mut peer, conn) = in_time_wait();
    peer.stack().close(conn).unwrap();
    peer.advance(s(50));
    for seq in [0, 2, 1000] {
        peer.inject(fin().seq(seq).ack(2));
        peer.expect(ack().seq(2).ack(2));
    }
    peer.advance(s(11));
    assert_eq!(peer.stack.time_waits(), 0);
}

/// RFC 1337, 3 (F1): "Ignore RST segments in TIME-WAIT state."
#[test]
fn a_reset_does_not_end_time_wait() {
    let (mut peer, conn) = in_time_wait();
    peer.stack().close(conn).unwrap();
    peer.inject(rst().seq(2));
    peer.inject(rst_ack().seq(2).ack(2));
    peer.expect_nothing();
    assert_eq!(peer.stack.time_waits(), 1);
}

/// 3.6.1, MAY-2: "it MAY accept a new SYN from the remote TCP endpoint to reopen the connection directly from TIME-WAIT
/// state, if it: (1) assigns its initial sequence number for the new connection to be larger than the largest sequence
/// number it used on the previous connection incarnation"
#[test]
fn a_new_syn_reopens_from_time_wait_with_a_larger_number() {
    let (mut peer, conn) = Peer::established();
    let old_iss = peer.iss;
    // Faster than the clock of initial sequence numbers, which moves by 250 octets a millisecond.
    let mut at = 1;
    for _ in 0..500 {
        peer.send(conn, at, 1000);
        peer.expect(ack().seq(at).ack(1).len(1000));
        at += 1000;
        peer.inject(ack().seq(1).ack(at));
    }
    peer.stack().close(conn).unwrap();
    peer.expect(fin().seq(at).ack(1));
    peer.inject(fin().seq(1).ack(at + 1));
    peer.expect(ack().seq(at + 1).ack(2));
    assert_eq!(peer.stack.time_waits(), 1);
    // An old number does not.
    peer.inject(syn().seq(1));
    peer.expect(ack().seq(at + 1).ack(2));
    peer.isn = peer.isn.wrapping_add(1000);
    peer.inject(syn().seq(0).mss(MSS));
    peer.expect(syn_ack().seq(0).ack(1));
    assert!(
        peer.iss.wrapping_sub(old_iss) > at,
        "the new connection's numbers overlap those of the old one"
    );
    assert_eq!((peer.stack.connections(), peer.stack.time_waits()), (1, 0));
}

/// SHLD-4; RFC 6191, 2: a SYN with a later timestamp than the last connection's opens a new one, whatever its sequence
/// number; one with an earlier timestamp and number does not.
#[test]
fn timestamps_tell_a_new_syn_in_time_wait() {
    let mut peer = Peer::with(|config| config.timestamps = true);
    let conn = peer.accepted_with_stamps(1000);
    peer.stack().close(conn).unwrap();
    let stamp = peer
        .expect(fin().seq(1).ack(1))
        .header
        .options
        .timestamps
        .unwrap()
        .value;
    peer.inject(fin().seq(1).ack(2).stamps(1001, stamp));
    peer.expect(ack().seq(2).ack(2));
    peer.isn = peer.isn.wrapping_sub(100_000);
    peer.inject(syn().seq(0).stamps(1001, 0));
    let answer = peer.next().unwrap();
    assert!(answer.header.flags == tollgate_wire::tcp::Flags::ACK && peer.stack.time_waits() == 1);
    peer.inject(syn().seq(0).stamps(1002, 0));
    peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(peer.stack.time_waits(), 0);
}

/// RFC 1122, 4.2.2.13: a connection that the application has closed does not wait for the peer's FIN for ever.
#[test]
fn fin_wait_2_without_an_application_ends() {
    let (mut peer, conn) = Peer::established();
    peer.stack().close(conn).unwrap();
    peer.expect(fin().seq(1).ack(1));
    peer.inject(ack().seq(1).ack(2));
    peer.advance(s(59));
    assert_eq!((peer.stack.connections(), peer.stack.time_waits()), (1, 0));
    peer.advance(s(2));
    assert_eq!((peer.stack.connections(), peer.stack.time_waits()), (0, 1));
}

/// The same, with an application that only closed its half: it may wait as long as it likes.
#[test]
fn fin_wait_2_with_an_application_stays() {
    let (mut peer, conn) = Peer::established();
    peer.stack().shutdown(conn).unwrap();
    peer.expect(fin().seq(1).ack(1));
    peer.inject(ack().seq(1).ack(2));
    peer.advance(s(7200));
    assert_eq!(peer.state(conn), State::FinWait2);
    peer.inject(ack().seq(1).ack(2).len(10));
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    peer.expect_after(ms(40), ack().seq(2).ack(11));
}
