//! RFC 9293, 3.6 and the closing states of 3.10; TIME-WAIT with RFC 6191 and RFC 1337.

use crate::peer::*;
use tollgate_stack::{ConnId, Error, Received, State};
use tollgate_wire::tcp::Flags;

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

/// A connection in TIME-WAIT whose last timestamp from the peer was 1001.
fn in_time_wait_with_stamps() -> Peer {
    let mut peer = Peer::with(|config| config.timestamps = true);
    let conn = peer.accepted_with_stamps(1000);
    peer.stack().close(conn).unwrap();
    let sent = peer.expect(fin().seq(1).ack(1));
    let stamp = sent.header.options.timestamps.unwrap().value;
    peer.inject(fin().seq(1).ack(2).stamps(1001, stamp));
    peer.expect(ack().seq(2).ack(2));
    peer
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
    // Faster than the clock of initial sequence numbers, which moves by 250 bytes a millisecond.
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
    let mut peer = in_time_wait_with_stamps();
    peer.isn = peer.isn.wrapping_sub(100_000);
    peer.inject(syn().seq(0).stamps(1001, 0));
    let answer = peer.next().unwrap();
    assert!(answer.header.flags == Flags::ACK && peer.stack.time_waits() == 1);
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

/// 3.10.7.4, "FIN-WAIT-2 STATE": the peer's FIN is acknowledged, and TIME-WAIT begins, also where it comes so late; SHLD-3: data that
/// nobody can read any more is answered by a RST.
#[test]
fn what_comes_after_fin_wait_2_has_ended_is_answered() {
    let late = || {
        let (mut peer, conn) = Peer::established();
        peer.stack().close(conn).unwrap();
        peer.expect(fin().seq(1).ack(1));
        peer.inject(ack().seq(1).ack(2));
        peer.advance(s(61));
        assert_eq!((peer.stack.connections(), peer.stack.time_waits()), (0, 1));
        peer
    };
    let mut peer = late();
    for _ in 0..2 {
        peer.inject(fin().seq(1).ack(2));
        peer.expect(ack().seq(2).ack(2));
        // It waits anew.
        peer.advance(s(59));
        assert_eq!(peer.stack.time_waits(), 1);
    }
    peer.advance(s(2));
    assert_eq!(peer.stack.time_waits(), 0);
    for with_fin in [false, true] {
        let mut peer = late();
        let data = if with_fin { fin() } else { ack() };
        peer.inject(data.seq(1).ack(2).len(100));
        let answer = peer.next().expect("an answer");
        assert!(answer.header.flags.has(Flags::RST) && answer.seq == 2);
        assert_eq!(peer.stack.time_waits(), 0);
    }
    // A made-up segment ends nothing.
    let mut peer = late();
    peer.inject(ack().seq(5000).ack(2).len(100));
    peer.expect(ack().seq(2).ack(1));
    assert_eq!(peer.stack.time_waits(), 1);
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

/// 3.10.7.4, "Eighth, check the FIN bit": a FIN that overtook the data before it counts as soon as that data is there.
#[test]
fn fin_that_overtook_its_data_closes_with_it() {
    let (mut peer, conn) = Peer::established();
    peer.inject(fin().seq(101).ack(1));
    peer.ignore();
    assert_eq!(peer.state(conn), State::Established);
    peer.inject(ack().seq(1).ack(1).len(100));
    assert_eq!(peer.state(conn), State::CloseWait);
    assert_eq!(peer.read(conn, 200), stream(1, 100));
    assert_eq!(peer.stack().receive(conn, &mut [0; 1]), Ok(Received::End));
    // Its acknowledgment may be delayed.
    peer.advance(ms(50));
    assert_eq!(peer.drain().last().map(|sent| sent.ack), Some(102));
}

/// 3.10.4: "Queue this request until all preceding SENDs have been segmentized; then send a FIN segment": a FIN that found no
/// frame goes when there is one, whatever else is sent before.
#[test]
fn fin_that_found_no_frame_is_sent_later() {
    let (mut peer, conn) = Peer::established();
    let taken: Vec<_> = std::iter::from_fn(|| peer.pool.alloc()).collect();
    peer.stack().shutdown(conn).unwrap();
    peer.expect_nothing();
    for id in taken {
        peer.pool.release(id);
    }
    // Something out of order is acknowledged at once.
    peer.inject(ack().seq(101).ack(1).len(10));
    let waited = peer.wait(s(60));
    assert_eq!(peer.next().expect("the acknowledgment").ack, 1);
    assert!(waited <= SLACK, "{waited:?}");
    peer.advance(s(1));
    let sent = peer.drain();
    assert!(
        sent.iter().any(|sent| sent.header.flags.has(Flags::FIN)),
        "no FIN in a second"
    );
    peer.inject(ack().seq(1).ack(2));
    assert_eq!(peer.state(conn), State::FinWait2);
}

/// 3.8.6.1 keeps a connection open while probes are answered; RFC 6429 lets the host end it all the same. One that the
/// application has closed does not hold its frames for ever.
#[test]
fn orphan_with_a_closed_window_is_given_up() {
    let (mut peer, conn) = Peer::established_with(|config| config.user_timeout = s(300));
    peer.inject(ack().seq(1).ack(1).win(0));
    peer.send(conn, 1, 5000);
    peer.stack().close(conn).unwrap();
    let start = peer.now;
    let mut last = None;
    while peer.stack.connections() != 0 && peer.now - start < s(1000) {
        peer.wait(s(100));
        for sent in peer.drain() {
            if sent.header.flags.has(Flags::RST) {
                last = Some(sent);
            } else {
                peer.inject(ack().seq(1).ack(1).win(0));
            }
        }
    }
    let waited = peer.now - start;
    assert_eq!(peer.stack.connections(), 0, "after {waited:?}");
    assert!(waited + SLACK >= s(300) && waited <= s(361), "{waited:?}");
    assert!(last.is_some(), "the peer is not told");
    assert_eq!(peer.pool.available(), peer.pool.capacity());
}

/// SHLD-4; RFC 6191, 2: with timestamps on both SYNs a later timestamp opens a new connection. An earlier one is an old duplicate, whatever
/// its sequence number.
#[test]
fn older_timestamp_does_not_reopen_from_time_wait() {
    let mut peer = in_time_wait_with_stamps();
    peer.isn = peer.isn.wrapping_add(100_000);
    peer.inject(syn().seq(0).mss(MSS).stamps(1000, 0));
    peer.ignore();
    assert_eq!((peer.stack.connections(), peer.stack.time_waits()), (0, 1));
    peer.inject(syn().seq(0).mss(MSS).stamps(1002, 0));
    peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!((peer.stack.connections(), peer.stack.time_waits()), (1, 0));
}

/// 3.6.1, MAY-2: "it MAY accept a new SYN from the remote TCP endpoint to reopen the connection directly from TIME-WAIT
/// state": accepting needs somebody who listens. Else one made-up SYN would end TIME-WAIT (RFC 1337).
#[test]
fn syn_to_a_closed_port_does_not_end_time_wait() {
    let mut peer = Peer::new();
    let listener = peer.listen();
    peer.inject(syn().mss(MSS));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.inject(ack().seq(1).ack(1));
    let conn = peer.stack().accept(listener).unwrap();
    peer.stack().close_listener(listener).unwrap();
    close_first(&mut peer, conn);
    peer.stack().close(conn).unwrap();
    peer.isn = peer.isn.wrapping_add(100_000);
    peer.inject(syn().seq(0).mss(MSS));
    peer.ignore();
    assert_eq!(peer.stack.time_waits(), 1);
}

/// RFC 793, 2.6: "An acknowledgment by TCP does not guarantee that the data has been delivered to the end user, but only that
/// the receiving TCP has taken the responsibility to do so.": what was acknowledged is still read after a reset, or after the
/// connection was given up; then the error comes.
#[test]
fn acknowledged_data_is_read_before_the_error() {
    for error in [Error::Reset, Error::TimedOut] {
        let (mut peer, conn) = Peer::established();
        peer.inject(ack().seq(1).ack(1).len(10));
        peer.expect_after(ms(40), ack().seq(1).ack(11));
        if error == Error::Reset {
            peer.inject(rst().seq(11));
        } else {
            peer.send(conn, 1, 10);
            peer.advance(s(20 * 60));
            peer.ignore();
        }
        assert_eq!(peer.state(conn), State::Closed);
        let mut buffer = [0; 7];
        for (from, len) in [(1, 7), (8, 3)] {
            let read = peer.stack().receive(conn, &mut buffer);
            assert_eq!(read, Ok(Received::Data(len)), "before {error:?}");
            assert_eq!(buffer[..len], stream(from, len));
        }
        assert_eq!(peer.stack().receive(conn, &mut buffer), Err(error));
        assert_eq!(peer.stack().close(conn), Err(error));
        assert_eq!(peer.pool.available(), peer.pool.capacity());
    }
}

/// 3.10.7.4, eighth: "advance RCV.NXT over the FIN": a peer that has sent bytes behind its own FIN still closes with it, and
/// those bytes are not delivered.
#[test]
fn bytes_behind_the_fin_do_not_hide_it() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(11).ack(1).len(20));
    peer.inject(fin().seq(6).ack(1).len(5));
    peer.ignore();
    peer.inject(ack().seq(1).ack(1).len(5));
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    assert_eq!(peer.state(conn), State::CloseWait);
    peer.ignore();
}

/// 3.6.1, MAY-2: a new SYN may reopen a connection from TIME-WAIT if it "assigns its initial sequence number for the new
/// connection to be larger than the largest sequence number it used on the previous connection incarnation": a cookie cannot,
/// so a listener without room leaves TIME-WAIT as it is, and the SYN comes again.
#[test]
fn full_listener_does_not_end_time_wait() {
    let mut peer = Peer::new();
    let listener = peer.stack().listen(PORT, 1).unwrap();
    peer.inject(syn().seq(0).mss(MSS));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.inject(ack().seq(1).ack(1));
    let conn = peer.stack().accept(listener).unwrap();
    close_first(&mut peer, conn);
    peer.stack().close(conn).unwrap();
    assert_eq!(peer.stack.time_waits(), 1);
    // Another peer takes the only place.
    peer.port += 1;
    peer.inject(syn().seq(0).mss(MSS));
    peer.ignore();
    peer.port -= 1;
    peer.isn = peer.isn.wrapping_add(100_000);
    peer.inject(syn().seq(0).mss(MSS));
    peer.ignore();
    assert_eq!(peer.stack.time_waits(), 1);
}

/// 3.10.4: "queue this until all preceding SENDs have been segmentized, then form a FIN segment and send it": a FIN for which
/// there was no frame at first may join a segment that goes again after a timeout, and is acknowledged with it.
#[test]
fn fin_that_found_no_frame_joins_a_segment_that_is_sent_again() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 3000);
    peer.ignore();
    let mut taken: Vec<_> = std::iter::from_fn(|| peer.pool.alloc()).collect();
    // For the segment that is sent again.
    peer.pool.release(taken.pop().unwrap());
    peer.stack().shutdown(conn).unwrap();
    peer.wait(s(10));
    peer.expect(ack().seq(1).ack(1).len(1000));
    for id in taken {
        peer.pool.release(id);
    }
    peer.advance(ms(500));
    peer.ignore();
    peer.inject(ack().seq(1).ack(1001));
    peer.ignore();
    peer.inject(ack().seq(1).ack(3002));
    peer.ignore();
    assert_eq!(peer.state(conn), State::FinWait2);
}

/// RFC 6191, 2: where the timestamps are equal, which they are within a tick of the peer's clock, the sequence number decides.
#[test]
fn equal_timestamp_and_a_later_number_open_a_new_connection() {
    let mut peer = in_time_wait_with_stamps();
    peer.isn = peer.isn.wrapping_add(100_000);
    peer.inject(syn().seq(0).stamps(1001, 0));
    peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(peer.stack.time_waits(), 0);
}
