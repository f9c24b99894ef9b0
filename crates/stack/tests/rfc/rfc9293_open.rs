//! RFC 9293, 3.5 and 3.10.7.1 to 3.10.7.3: opening, and segments that find no connection.

use crate::peer::*;
use tollgate_stack::{Error, State};
use tollgate_wire::tcp::Flags;

/// 3.10.7.1: "If the ACK bit is off, sequence number zero is used, <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>"
#[test]
fn closed_answers_a_segment_without_ack_by_a_reset_that_acknowledges_it() {
    let mut peer = Peer::new();
    peer.inject(syn().seq(0));
    peer.expect(rst_ack().seq(0).ack(1));
    peer.inject(fin().without(Flags::ACK).seq(10).len(5));
    peer.expect(rst_ack().seq(0).ack(16));
}

/// 3.10.7.1: "If the ACK bit is on, <SEQ=SEG.ACK><CTL=RST>"
#[test]
fn closed_answers_a_segment_with_ack_by_a_reset_with_its_number() {
    let mut peer = Peer::new();
    peer.inject(ack().seq(5).ack(77).len(3));
    peer.expect(rst().seq(77));
    peer.inject(syn_ack().seq(0).ack(9));
    peer.expect(rst().seq(9));
}

/// 3.10.7.1: "An incoming segment containing a RST is discarded."
#[test]
fn closed_never_answers_a_reset() {
    let mut peer = Peer::new();
    peer.inject(rst().seq(5));
    peer.inject(rst_ack().seq(5).ack(1));
    peer.expect_nothing();
}

/// 3.10.7.2: "First, check for a RST: An incoming RST should be ignored."
#[test]
fn listen_ignores_a_reset() {
    let mut peer = Peer::new();
    peer.listen();
    peer.inject(rst().seq(0));
    peer.inject(rst_ack().seq(0).ack(5));
    peer.expect_nothing();
    assert_eq!(peer.stack.connections(), 0);
}

/// 3.10.7.2: "An acceptable reset segment should be formed for any arriving ACK-bearing segment. [...]
/// <SEQ=SEG.ACK><CTL=RST>"
#[test]
fn listen_answers_an_acknowledgment_by_a_reset() {
    let mut peer = Peer::new();
    peer.listen();
    peer.inject(ack().seq(1).ack(33));
    peer.expect(rst().seq(33));
    peer.inject(syn_ack().seq(1).ack(34));
    peer.expect(rst().seq(34));
    assert_eq!(peer.stack.connections(), 0);
}

/// 3.10.7.2: "Fourth, other data or control: This should not be reached. Drop the segment and return."
#[test]
fn listen_drops_what_is_neither_syn_ack_nor_reset() {
    let mut peer = Peer::new();
    peer.listen();
    peer.inject(fin().without(Flags::ACK).seq(0).len(3));
    peer.expect_nothing();
}

/// 3.5, figure 6, and 3.10.7.2: "ISS should be selected and a SYN segment sent of the form
/// <SEQ=ISS><ACK=RCV.NXT><CTL=SYN,ACK>"; 3.10.7.4: "If SND.UNA < SEG.ACK =< SND.NXT, then enter ESTABLISHED state"
#[test]
fn a_passive_open_goes_from_listen_by_syn_received_to_established() {
    let mut peer = Peer::new();
    let listener = peer.listen();
    peer.inject(syn().seq(0).mss(MSS));
    peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(peer.stack().accept(listener), Err(Error::WouldBlock));
    peer.inject(ack().seq(1).ack(1));
    peer.expect_nothing();
    let conn = peer.stack().accept(listener).unwrap();
    assert_eq!(peer.state(conn), State::Established);
}

/// 3.10.7.3: "If SND.UNA > ISS (our SYN has been ACKed), change the connection state to ESTABLISHED, form an ACK segment
/// <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>"
#[test]
fn an_active_open_goes_from_syn_sent_to_established() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    assert_eq!(peer.state(conn), State::SynSent);
    peer.expect(syn().seq(0));
    peer.inject(syn_ack().seq(0).ack(1).mss(MSS));
    peer.expect(ack().seq(1).ack(1));
    assert_eq!(peer.state(conn), State::Established);
    let (told, ready) = peer.next_ready().unwrap();
    assert!(told == conn && ready.connected() && ready.writable());
}

/// 3.5, MUST-10: "A TCP implementation MUST support simultaneous open attempts"; figure 7.
#[test]
fn a_simultaneous_open_goes_by_syn_received_to_established() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn().seq(0));
    peer.inject(syn().seq(0).mss(MSS));
    peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(peer.state(conn), State::SynReceived);
    peer.inject(syn_ack().seq(0).ack(1).mss(MSS));
    assert_eq!(peer.state(conn), State::Established);
    // The peer may be waiting for an acknowledgment of its SYN,ACK; it must not be another SYN.
    peer.expect(ack().seq(1).ack(1));
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(1).len(10));
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(11).len(10));
}

/// 3.5, figure 7, line 6 lost: the peer's acknowledgment without SYN completes a simultaneous open as well.
#[test]
fn a_simultaneous_open_is_completed_by_a_plain_acknowledgment() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn().seq(0));
    peer.inject(syn().seq(0).mss(MSS));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.inject(ack().seq(1).ack(1));
    assert_eq!(peer.state(conn), State::Established);
    peer.expect_nothing();
}

/// 3.10.7.3: "If there are other controls or text in the segment, queue them for processing after the ESTABLISHED state
/// has been reached": bytes that came with the SYN are not acknowledged before, so the peer sends them again.
#[test]
fn data_on_the_syn_of_a_simultaneous_open_is_not_lost() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn().seq(0));
    peer.inject(syn().seq(0).mss(MSS).data(&stream(1, 10)));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.inject(ack().seq(1).ack(1).len(10));
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    peer.expect_after(ms(40), ack().seq(1).ack(11));
}

/// 3.5: "so long as the receiving TCP endpoint doesn't deliver the data to the user until it is clear the data is valid"
#[test]
fn data_on_the_syn_of_a_passive_open_is_delivered_once_and_only_after_the_handshake() {
    let mut peer = Peer::new();
    let listener = peer.listen();
    peer.inject(syn().seq(0).mss(MSS).data(&stream(1, 10)));
    peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(peer.stack().accept(listener), Err(Error::WouldBlock));
    peer.inject(ack().seq(1).ack(1).len(10));
    let conn = peer.stack().accept(listener).unwrap();
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    peer.expect_after(ms(40), ack().seq(1).ack(11));
}

/// 3.10.7.3: "If there are other controls or text in the segment, then continue processing at the sixth step"
#[test]
fn data_and_fin_on_a_syn_ack_are_taken() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn().seq(0));
    peer.inject(
        syn_ack()
            .seq(0)
            .ack(1)
            .mss(MSS)
            .flag(Flags::FIN)
            .data(&stream(1, 10)),
    );
    peer.expect(ack().seq(1).ack(12));
    assert_eq!(peer.state(conn), State::CloseWait);
    assert_eq!(peer.read(conn, 100), stream(1, 10));
}

/// 3.10.7.3: "If SEG.ACK =< ISS or SEG.ACK > SND.NXT, send a reset (unless the RST bit is set, if so drop the segment and
/// return) <SEQ=SEG.ACK><CTL=RST>"; figure 8.
#[test]
fn syn_sent_answers_an_acknowledgment_of_something_else_by_a_reset() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn().seq(0));
    for number in [0, 2, 1000] {
        peer.inject(syn_ack().seq(0).ack(number));
        peer.expect(rst().seq(number));
        peer.inject(rst_ack().seq(0).ack(number));
        peer.expect_nothing();
    }
    assert_eq!(peer.state(conn), State::SynSent);
    // "TCP Peer A will continue to try to establish the connection" (3.5.1).
    peer.inject(syn_ack().seq(0).ack(1));
    peer.expect(ack().seq(1).ack(1));
}

/// 3.10.7.3: "If the ACK was acceptable, then signal to the user 'error: connection reset', drop the segment, enter
/// CLOSED state, delete TCB, and return. Otherwise (no ACK), drop the segment and return."
#[test]
fn syn_sent_is_refused_by_a_reset_that_acknowledges_the_syn_only() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn().seq(0));
    peer.inject(rst().seq(0));
    assert_eq!(peer.state(conn), State::SynSent);
    peer.inject(rst_ack().seq(0).ack(1));
    assert_eq!(peer.state(conn), State::Closed);
    assert_eq!(peer.stack().receive(conn, &mut [0; 1]), Err(Error::Refused));
    peer.expect_nothing();
}

/// 3.10.7.3: "Fifth, if neither of the SYN or RST bits is set, then drop the segment and return."
#[test]
fn syn_sent_drops_what_has_neither_syn_nor_reset() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn().seq(0));
    peer.inject(ack().seq(1).ack(1).len(5));
    peer.inject(fin().seq(1).ack(1));
    peer.expect_nothing();
    assert_eq!(peer.state(conn), State::SynSent);
}

/// 3.5, MUST-11: "a TCP implementation MUST keep track of whether a connection has reached SYN-RECEIVED state as the
/// result of a passive OPEN or an active OPEN"; 3.10.7.4: "return this connection to LISTEN state [...] The user need not
/// be informed."
#[test]
fn syn_received_from_a_passive_open_goes_back_to_listen_on_a_reset() {
    let mut peer = Peer::new();
    let listener = peer.listen();
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.inject(rst().seq(1));
    assert_eq!(peer.stack.connections(), 0);
    assert!(peer.stack().next_event().is_none());
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.inject(ack().seq(1).ack(1));
    assert!(peer.stack().accept(listener).is_ok());
}

/// MUST-11; 3.10.7.4: "If this connection was initiated with an active OPEN (i.e., came from SYN-SENT state), then the
/// connection was refused; signal the user 'connection refused'."
#[test]
fn syn_received_from_an_active_open_is_refused_by_a_reset() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn().seq(0));
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.inject(rst().seq(1));
    assert_eq!(peer.state(conn), State::Closed);
    assert_eq!(peer.stack().receive(conn, &mut [0; 1]), Err(Error::Refused));
}

/// 3.10.7.4, SYN-RECEIVED: "If the segment acknowledgment is not acceptable, form a reset segment <SEQ=SEG.ACK><CTL=RST>"
#[test]
fn syn_received_answers_an_acknowledgment_of_something_else_by_a_reset() {
    let mut peer = Peer::new();
    peer.listen();
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    for number in [0, 2] {
        peer.inject(ack().seq(1).ack(number));
        peer.expect(rst().seq(number));
    }
    assert_eq!(peer.stack.connections(), 1);
}

/// 3.8.1 and 3.10.8: a SYN that comes again finds its answer lost, and is answered again with the same numbers.
#[test]
fn syn_received_answers_the_same_syn_again_alike() {
    let mut peer = Peer::new();
    peer.listen();
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    let iss = peer.iss;
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(peer.iss, iss);
    assert_eq!(peer.stack.connections(), 1);
}

/// 3.10.7.4, SYN-RECEIVED and "Eighth, check the FIN bit": "Enter the CLOSE-WAIT state."
#[test]
fn syn_received_takes_data_and_fin_with_the_last_acknowledgment() {
    let mut peer = Peer::new();
    let listener = peer.listen();
    peer.inject(syn().seq(0).mss(MSS));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.inject(fin().seq(1).ack(1).len(10));
    peer.expect(ack().seq(1).ack(12));
    let conn = peer.stack().accept(listener).unwrap();
    assert_eq!(peer.state(conn), State::CloseWait);
    assert_eq!(peer.read(conn, 100), stream(1, 10));
}

/// 3.10.4, SYN-SENT: "Delete the TCB"; the SYN,ACK that comes then finds nobody.
#[test]
fn closing_in_syn_sent_deletes_the_connection() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn().seq(0));
    assert_eq!(peer.stack().close(conn), Ok(()));
    assert_eq!(peer.stack.connections(), 0);
    peer.inject(syn_ack().seq(0).ack(1));
    peer.expect(rst().seq(1));
}

/// 3.10.4, SYN-RECEIVED: "If no SENDs have been issued and there is no pending data to send, then form a FIN segment and
/// send it, and enter FIN-WAIT-1 state"
#[test]
fn closing_in_syn_received_sends_a_fin() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn().seq(0));
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(peer.stack().shutdown(conn), Ok(()));
    peer.expect(fin().seq(1).ack(1));
    peer.inject(ack().seq(1).ack(1));
    assert_eq!(peer.state(conn), State::FinWait1);
    peer.inject(ack().seq(1).ack(2));
    assert_eq!(peer.state(conn), State::FinWait2);
}

/// The same; the FIN is acknowledged by the segment that completes the handshake.
#[test]
fn a_fin_sent_in_syn_received_may_be_acknowledged_with_the_syn() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn().seq(0));
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(peer.stack().shutdown(conn), Ok(()));
    peer.expect(fin().seq(1).ack(1));
    peer.inject(ack().seq(1).ack(2));
    assert_eq!(peer.state(conn), State::FinWait2);
}

/// 3.5.1, figure 9: a peer that has rebooted and opens anew is told what is expected, resets the old connection, and can
/// open the new one.
#[test]
fn a_half_open_connection_is_discovered_by_the_peers_new_syn() {
    let (mut peer, conn) = Peer::established();
    peer.inject(syn().seq(500_000));
    peer.expect(ack().seq(1).ack(1));
    peer.inject(rst().seq(1));
    assert_eq!(peer.state(conn), State::Closed);
    assert_eq!(peer.stack().close(conn), Err(Error::Reset));
    peer.isn = peer.isn.wrapping_add(500_000);
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
}

/// 3.5.1, figure 10: data for a connection that the peer has forgotten draws a reset, which ends ours.
#[test]
fn a_half_open_connection_is_discovered_by_sending_into_it() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    peer.inject(rst().seq(1));
    assert_eq!(peer.stack().send(conn, b"x"), Err(Error::Reset));
}

/// RFC 4987, 3.6: a listener without room answers SYNs without keeping anything, and still makes connections of the
/// acknowledgments that come back.
#[test]
fn beyond_the_backlog_cookies_are_sent_and_taken() {
    let mut peer = Peer::new();
    let listener = peer.stack().listen(PORT, 1).unwrap();
    peer.inject(syn().seq(0));
    peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(peer.stack.connections(), 1);
    peer.port += 1;
    peer.inject(syn().seq(0).mss(1200));
    peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(peer.stack.connections(), 1);
    assert_eq!(peer.stack.counters().syn_cookies_sent, 1);
    // A number that was not made here is refused.
    peer.inject(ack().seq(1).ack(5));
    peer.expect(rst().seq(5));
    peer.inject(ack().seq(1).ack(1).len(10));
    let conn = peer.stack().accept(listener).unwrap();
    assert_eq!(peer.stack().info(conn).unwrap().remote.port(), peer.port);
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    peer.expect_after(ms(40), ack().seq(1).ack(11));
    assert_eq!(peer.stack.counters().syn_cookies_accepted, 1);
}

/// 3.10.1: the accept queue holds complete connections in the order in which they came to be.
#[test]
fn connections_are_accepted_in_order() {
    let mut peer = Peer::new();
    let listener = peer.listen();
    let ports = [40_000, 40_001, 40_002];
    let mut numbers = Vec::new();
    for port in ports {
        peer.port = port;
        peer.inject(syn().seq(0));
        peer.expect(syn_ack().seq(0).ack(1));
        numbers.push(peer.iss);
    }
    for (port, iss) in ports.into_iter().zip(numbers).rev() {
        (peer.port, peer.iss) = (port, iss);
        peer.inject(ack().seq(1).ack(1));
    }
    for port in ports.into_iter().rev() {
        let conn = peer.stack().accept(listener).unwrap();
        assert_eq!(peer.stack().info(conn).unwrap().remote.port(), port);
    }
}

/// RFC 4987, 3.6: whoever returns a cookie believes that it is connected. While the accept queue is full its acknowledgment is
/// dropped and not answered by a reset; its data, which acknowledges the same, opens the connection when there is room.
#[test]
fn cookie_that_returns_to_a_full_queue_opens_later() {
    let mut peer = Peer::new();
    let listener = peer.stack().listen(PORT, 2).unwrap();
    let mut clients = Vec::new();
    for n in 0..8 {
        peer.port = 40_000 + n;
        peer.inject(syn().mss(MSS));
        peer.expect(syn_ack().seq(0).ack(1));
        clients.push((peer.port, peer.iss));
    }
    assert!(peer.stack.counters().syn_cookies_sent > 0);
    for &client in &clients {
        (peer.port, peer.iss) = client;
        peer.inject(ack().seq(1).ack(1));
        peer.expect_nothing();
    }
    let mut accepted = Vec::new();
    for &client in &clients {
        while let Ok(conn) = peer.stack().accept(listener) {
            accepted.push(conn);
        }
        (peer.port, peer.iss) = client;
        peer.inject(ack().seq(1).ack(1).len(10));
        peer.expect_after(ms(40), ack().seq(1).ack(11));
    }
    while let Ok(conn) = peer.stack().accept(listener) {
        accepted.push(conn);
    }
    assert_eq!(accepted.len(), clients.len());
    for conn in accepted {
        assert_eq!(peer.read(conn, 100), stream(1, 10));
    }
}
