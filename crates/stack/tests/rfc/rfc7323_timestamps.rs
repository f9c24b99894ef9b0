//! RFC 7323: window scaling, timestamps, and protection against wrapped sequence numbers (PAWS).

use crate::peer::*;
use tollgate_stack::counters::Drop;
use tollgate_stack::{Config, ConnId, State};
use tollgate_wire::tcp::Timestamps;

fn both(config: &mut Config) {
    config.timestamps = true;
    config.window_scaling = true;
}

fn stamps_only(config: &mut Config) {
    config.timestamps = true;
}

/// A connection with timestamps; the peer's last was 1000. Returns the stack's last one, too.
fn stamped() -> (Peer, ConnId, u32) {
    let mut peer = Peer::with(stamps_only);
    let conn = peer.accepted_with_stamps(1000);
    peer.send(conn, 1, 10);
    let sent = peer.expect(ack().seq(1).ack(1).len(10));
    let ours = sent.header.options.timestamps.expect("a timestamp");
    assert_eq!(ours.echo, 1000);
    peer.inject(ack().seq(1).ack(11).stamps(1000, ours.value));
    (peer, conn, ours.value)
}

/// 2.2: "both sides MUST send Window Scale options in their <SYN> segments to enable window scaling in either direction".
#[test]
fn scaling_is_used_only_when_both_offer_it() {
    // Offered by us; the peer does not answer it.
    let mut peer = Peer::with(|config| config.window_scaling = true);
    let conn = peer.connect();
    let ours = peer.expect(syn()).header.options.window_scale;
    assert!(
        ours.is_some_and(|shift| shift > 0),
        "256 KiB need a shift, {ours:?} was offered"
    );
    peer.inject(syn_ack().seq(0).ack(1).mss(MSS).win(1000));
    peer.expect(ack().seq(1).ack(1).win(0xffff));
    let info = peer.stack().info(conn).unwrap();
    assert_eq!(
        (
            info.send_window_shift,
            info.receive_window_shift,
            info.receive_window
        ),
        (0, 0, 0xffff)
    );
    // Offered by the peer; we do not.
    let mut peer = Peer::new();
    peer.listen();
    peer.inject(syn().seq(0).mss(MSS).scale(7));
    assert_eq!(
        peer.expect(syn_ack().seq(0).ack(1))
            .header
            .options
            .window_scale,
        None
    );
    // The peer does not offer it: only when the SYN had the option may the SYN,ACK have it.
    let mut peer = Peer::with(|config| config.window_scaling = true);
    peer.listen();
    peer.inject(syn().seq(0).mss(MSS));
    assert_eq!(
        peer.expect(syn_ack().seq(0).ack(1))
            .header
            .options
            .window_scale,
        None
    );
    // Both.
    let mut peer = Peer::with(|config| config.window_scaling = true);
    let conn = peer.accepted(syn().seq(0).mss(MSS).scale(7));
    let info = peer.stack().info(conn).unwrap();
    assert_eq!(info.send_window_shift, 7);
    assert!(info.receive_window_shift > 0);
}

/// 2.2: "The window field in a segment where the SYN bit is set (i.e., a <SYN> or <SYN,ACK>) MUST NOT be scaled."; 2.3: the
/// window of every other segment is shifted.
#[test]
fn the_window_of_a_syn_is_not_scaled() {
    let mut peer = Peer::with(|config| config.window_scaling = true);
    let conn = peer.connect();
    peer.expect(syn().win(0xffff));
    peer.inject(syn_ack().seq(0).ack(1).mss(MSS).scale(4).win(1000));
    let sent = peer.expect(ack().seq(1).ack(1));
    assert_eq!(peer.stack().info(conn).unwrap().send_window, 1000);
    let shift = peer.stack().info(conn).unwrap().receive_window_shift;
    let offered = u32::from(sent.header.window) << shift;
    assert!(
        (200_000..=262_144).contains(&offered),
        "{offered} bytes are offered"
    );
    peer.inject(ack().seq(1).ack(1).win(1000));
    assert_eq!(peer.stack().info(conn).unwrap().send_window, 16_000);
}

/// 2.3: "If a Window Scale option is received with a shift.cnt value larger than 14, the TCP SHOULD log the error but MUST
/// use 14 instead of the specified value."
#[test]
fn a_shift_above_14_counts_as_14() {
    for (offered, used) in [(13, 13), (14, 14), (15, 14), (255, 14)] {
        let mut peer = Peer::with(|config| config.window_scaling = true);
        let conn = peer.accepted(syn().seq(0).mss(MSS).scale(offered));
        assert_eq!(peer.stack().info(conn).unwrap().send_window_shift, used);
        assert_eq!(peer.stack().info(conn).unwrap().send_window, 0xffff << used);
    }
}

/// 3.2: "The TCP MAY send the TSopt in an initial <SYN> segment [...] and MAY send a TSopt in <SYN,ACK> only if it received a
/// TSopt in the initial <SYN> segment for the connection." "Once TSopt has been successfully negotiated, that is both <SYN>
/// and <SYN,ACK> contain TSopt, the TSopt MUST be sent in every non-<RST> segment".
#[test]
fn timestamps_are_used_only_when_both_offer_them() {
    let mut peer = Peer::with(stamps_only);
    let conn = peer.connect();
    assert!(peer.expect(syn()).header.options.timestamps.is_some());
    peer.inject(syn_ack().seq(0).ack(1).mss(MSS));
    assert!(
        peer.expect(ack().seq(1).ack(1))
            .header
            .options
            .timestamps
            .is_none()
    );
    assert!(!peer.stack().info(conn).unwrap().timestamps);

    let mut peer = Peer::with(stamps_only);
    peer.listen();
    peer.inject(syn().seq(0).mss(MSS));
    assert!(
        peer.expect(syn_ack().seq(0).ack(1))
            .header
            .options
            .timestamps
            .is_none()
    );

    let mut peer = Peer::new();
    peer.listen();
    peer.inject(syn().seq(0).mss(MSS).stamps(1, 0));
    assert!(
        peer.expect(syn_ack().seq(0).ack(1))
            .header
            .options
            .timestamps
            .is_none()
    );

    let (mut peer, conn, _) = stamped();
    peer.send(conn, 11, 2000);
    for sent in peer.drain() {
        assert!(sent.header.options.timestamps.is_some());
    }
    peer.stack().shutdown(conn).unwrap();
    peer.advance(s(2));
    let sent = peer.drain();
    assert!(
        !sent.is_empty()
            && sent
                .iter()
                .all(|sent| sent.header.options.timestamps.is_some())
    );
}

/// 3.2: "When the ACK bit is set in an outgoing segment, the sender MUST echo a recently received TSval sent by the remote
/// TCP in the TSval field of a Timestamps option."; the clock of ours runs forward, by between 1 ms and 1 s a tick (5.4).
#[test]
fn timestamps_are_echoed_and_ours_run_forward() {
    let (mut peer, conn, mut last) = stamped();
    for n in 1..5 {
        peer.advance(s(1));
        let value = 1000 + n;
        peer.inject(
            ack()
                .seq(1 + 10 * (n - 1))
                .ack(11)
                .stamps(value, last)
                .len(10),
        );
        peer.advance(ms(50));
        let sent = peer.expect(ack().seq(11).ack(1 + 10 * n));
        let Timestamps { value: ours, echo } = sent.header.options.timestamps.unwrap();
        assert_eq!(echo, value);
        let ticks = ours.wrapping_sub(last);
        assert!(
            (1..=1100).contains(&ticks),
            "{ticks} ticks in about a second"
        );
        last = ours;
    }
    assert_eq!(peer.read(conn, 100), stream(1, 40));
}

/// 5.4: "the TS clock offset" of different peers: what one learns tells nothing of another's.
#[test]
fn the_clock_that_a_peer_sees_is_its_own() {
    let values: Vec<u32> = (0..8)
        .map(|secret| {
            let mut peer = Peer::with(|config| {
                config.timestamps = true;
                config.seed = [1, 1, 1, secret];
            });
            peer.connect();
            peer.expect(syn()).header.options.timestamps.unwrap().value
        })
        .collect();
    let mut unique = values.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), values.len());
}

/// 5.3, R1: "If there is a Timestamps option in the arriving segment, SEG.TSval < TS.Recent, TS.Recent is valid [...], and if
/// the RST bit is not set, then treat the arriving segment as not acceptable: Send an acknowledgment in reply [...] and drop the
/// segment."
#[test]
fn an_old_timestamp_is_dropped_and_acknowledged() {
    let (mut peer, conn, ours) = stamped();
    for old in [999, 0, 1000u32.wrapping_sub(1 << 31) + 1] {
        peer.inject(ack().seq(1).ack(11).stamps(old, ours).len(10));
        let sent = peer.expect(ack().seq(11).ack(1));
        assert_eq!(sent.header.options.timestamps.unwrap().echo, 1000);
    }
    assert!(peer.read(conn, 100).is_empty());
    assert_eq!(peer.stack.counters().drops(Drop::Paws), 3);
    // Equal is not old; later neither, over the wrap as well.
    peer.inject(ack().seq(1).ack(11).stamps(1000, ours).len(10));
    peer.inject(
        ack()
            .seq(11)
            .ack(11)
            .stamps(1000 + (1 << 31) - 1, ours)
            .len(10),
    );
    peer.expect(ack().seq(11).ack(21));
    assert_eq!(peer.read(conn, 100), stream(1, 20));
}

/// 5.3, R1: "if the RST bit is not set": a reset is not judged by its timestamp, and needs none.
#[test]
fn a_reset_is_not_subject_to_paws() {
    let (mut peer, conn, ours) = stamped();
    peer.inject(rst().seq(1).stamps(5, ours));
    assert_eq!(peer.state(conn), State::Closed);
    let (mut peer, conn, _) = stamped();
    peer.inject(rst().seq(1));
    assert_eq!(peer.state(conn), State::Closed);
}

/// 3.2: "If a non-<RST> segment is received without a TSopt, a TCP SHOULD silently drop the segment."
#[test]
fn a_segment_without_the_option_is_dropped_in_silence() {
    let (mut peer, conn, ours) = stamped();
    peer.inject(ack().seq(1).ack(11).len(10));
    peer.inject(fin().seq(1).ack(11));
    peer.expect_nothing();
    assert!(peer.read(conn, 100).is_empty());
    assert_eq!(peer.state(conn), State::Established);
    peer.inject(ack().seq(1).ack(11).stamps(1001, ours).len(10));
    assert_eq!(peer.read(conn, 100), stream(1, 10));
    peer.ignore();
}

/// 4.3: "(2) If: SEG.TSval >= TS.Recent and SEG.SEQ <= Last.ACK.sent, then SEG.TSval is copied to TS.Recent": the earliest
/// segment that an acknowledgment stands for is echoed, not the latest.
#[test]
fn a_delayed_acknowledgment_echoes_the_first_of_its_segments() {
    let (mut peer, _conn, ours) = stamped();
    peer.inject(ack().seq(1).ack(11).stamps(1001, ours).len(10));
    peer.inject(ack().seq(11).ack(11).stamps(1005, ours).len(10));
    let sent = peer.expect(ack().seq(11).ack(21));
    assert_eq!(sent.header.options.timestamps.unwrap().echo, 1001);
}

/// 4.3, (B): "When there is a hole in the sequence space [...] An ACK for an out-of-order segment SHOULD, therefore, contain
/// the timestamp from the most recent segment that advanced RCV.NXT."; (C): the segment that fills the hole is echoed.
#[test]
fn around_a_hole_the_echo_is_that_of_the_segment_that_advanced() {
    let (mut peer, _conn, ours) = stamped();
    peer.inject(ack().seq(1).ack(11).stamps(1001, ours).len(10));
    peer.advance(ms(50));
    peer.expect(ack().seq(11).ack(11));
    peer.inject(ack().seq(21).ack(11).stamps(1003, ours).len(10));
    assert_eq!(
        peer.expect(ack().seq(11).ack(11))
            .header
            .options
            .timestamps
            .unwrap()
            .echo,
        1001
    );
    peer.inject(ack().seq(11).ack(11).stamps(1002, ours).len(10));
    assert_eq!(
        peer.expect(ack().seq(11).ack(31))
            .header
            .options
            .timestamps
            .unwrap()
            .echo,
        1002
    );
}

/// 4.3: a segment outside of the window does not touch TS.Recent.
#[test]
fn an_unacceptable_segment_does_not_move_ts_recent() {
    let (mut peer, _conn, ours) = stamped();
    peer.inject(ack().seq(1 << 20).ack(11).stamps(5000, ours).len(10));
    assert_eq!(
        peer.expect(ack().seq(11).ack(1))
            .header
            .options
            .timestamps
            .unwrap()
            .echo,
        1000
    );
    peer.inject(ack().seq(1).ack(11).stamps(1001, ours).len(10));
    assert!(peer.wait(s(1)) < ms(100));
    assert_eq!(
        peer.expect(ack().seq(11).ack(11))
            .header
            .options
            .timestamps
            .unwrap()
            .echo,
        1001
    );
}

/// RFC 4987, 3.6: a cookie keeps window scaling in the timestamp that comes back.
#[test]
fn a_cookie_keeps_the_options_when_there_are_timestamps() {
    let mut peer = Peer::with(both);
    let listener = peer.stack().listen(PORT, 1).unwrap();
    peer.inject(syn().seq(0).mss(1400).scale(5).stamps(1, 0));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.port += 1;
    peer.inject(syn().seq(0).mss(1400).scale(5).stamps(1, 0));
    let answer = peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(peer.stack.counters().syn_cookies_sent, 1);
    assert!(answer.header.options.window_scale.is_some());
    let ours = answer.header.options.timestamps.unwrap().value;
    peer.inject(ack().seq(1).ack(1).win(100).stamps(2, ours));
    let conn = peer.stack().accept(listener).unwrap();
    let info = peer.stack().info(conn).unwrap();
    assert_eq!(
        (info.send_window_shift, info.send_window, info.timestamps),
        (5, 3200, true)
    );
    // The largest MSS that a cookie can name and the peer takes, less the option.
    assert!(info.mss <= 1400 - 12 && info.mss >= 1300, "{}", info.mss);
}

/// 5.5: "If a connection remains idle long enough for the timestamp clock of the other TCP to wrap its sign bit, then the
/// value saved in TS.Recent will become too old"; "We therefore require that an implementation of PAWS include a mechanism to
/// 'invalidate' the TS.Recent value when a connection is idle for more than 24 days."
#[test]
fn a_connection_comes_to_life_after_24_days() {
    const DAY: u64 = 86_400;
    for (days, outdated) in [(23, false), (25, true), (40, true), (60, true)] {
        let (mut peer, conn, ours) = stamped();
        peer.advance(s(days * DAY));
        peer.ignore();
        // A clock of 1 ms that has gone half round, and a little, would look like an old one.
        let stamp = 1000u32.wrapping_add(1 << 31).wrapping_add(5);
        peer.inject(ack().seq(1).ack(11).stamps(stamp, ours).len(10));
        let sent = peer.wait(s(1)) < s(1);
        assert!(sent, "after {days} days nothing was sent");
        let sent = peer.next().unwrap();
        let echo = sent.header.options.timestamps.unwrap().echo;
        let taken = peer.read(conn, 100).len();
        assert_eq!(
            (sent.ack, echo, taken),
            if outdated {
                (11, stamp, 10)
            } else {
                (1, 1000, 0)
            },
            "after {days} days"
        );
        // From then on it counts again.
        if outdated {
            peer.inject(ack().seq(11).ack(11).stamps(stamp - 1, ours).len(10));
            peer.expect(ack().seq(11).ack(11));
            assert!(peer.read(conn, 100).is_empty());
            peer.inject(ack().seq(11).ack(11).stamps(stamp + 1, ours).len(10));
            assert_eq!(peer.read(conn, 100), stream(11, 10));
            peer.advance(ms(50));
            peer.ignore();
        }
    }
    // A connection on which something arrives all the time does not forget.
    let (mut peer, conn, ours) = stamped();
    let mut stamp = 1000;
    for day in 0..30 {
        peer.advance(s(DAY));
        stamp += 86_400_000;
        peer.inject(ack().seq(1 + day).ack(11).stamps(stamp, ours).len(1));
        assert_eq!(peer.read(conn, 100).len(), 1);
        peer.advance(ms(50));
        peer.ignore();
    }
    peer.inject(ack().seq(31).ack(11).stamps(stamp - 1, ours).len(1));
    peer.expect(ack().seq(11).ack(31));
    assert!(peer.read(conn, 100).is_empty());
}

/// 2.4: "The receiver MUST honor, as in window, any segment that would have been in window for any <ACK> sent by the
/// receiver." and "SHOULD track the actual maximum window sequence number": what the peer sees of the right edge is rounded
/// down to the shift's granularity and so moves left by less than that, as RFC 7323, appendix F, describes. It cannot be
/// otherwise: an edge that names only every 2^shift-th byte from RCV.NXT on could only move right with each byte. What was
/// once offered is taken.
#[test]
fn what_a_rounded_window_once_offered_is_taken() {
    let mut peer = Peer::with(|config| {
        both(config);
        config.receive_buffer = 1 << 20;
    });
    let listener = peer.listen();
    peer.inject(syn().seq(0).mss(MSS).scale(7).stamps(1000, 0));
    let answer = peer.expect(syn_ack().seq(0).ack(1));
    let shift = answer.header.options.window_scale.unwrap();
    assert!(shift > 0);
    let ours = answer.header.options.timestamps.unwrap().value;
    peer.inject(ack().seq(1).ack(1).stamps(1000, ours));
    let conn = peer.stack().accept(listener).unwrap();
    let (mut seq, mut furthest, mut edge) = (1, 0, 0);
    let mut went_left = false;
    // The reader does not read, so that the edge stands; the sizes are no multiples of the granularity.
    while edge == 0 || seq + 2000 < furthest {
        peer.inject(ack().seq(seq).ack(1).stamps(1000, ours).len(997));
        seq += 997;
        peer.advance(ms(50));
        for sent in peer.drain() {
            let now = sent.ack + (u32::from(sent.header.window) << shift);
            assert!(now + (1 << shift) > edge, "from {edge} to {now}");
            went_left |= now < edge;
            edge = now;
            furthest = furthest.max(now);
        }
    }
    assert!(went_left && edge < furthest, "nothing was rounded");
    while seq < furthest {
        let len = (furthest - seq).min(997);
        peer.inject(ack().seq(seq).ack(1).stamps(1000, ours).len(len as usize));
        seq += len;
    }
    peer.advance(ms(50));
    assert_eq!(peer.drain().last().map(|sent| sent.ack), Some(furthest));
    assert_eq!(peer.read(conn, 1 << 21).len() as u32, furthest - 1);
    peer.ignore();
}

/// 4.1: "A TSecr value received in a segment MAY be used to update the averaged RTT measurement only if the segment advances
/// the left edge of the send window": the echo tells which of a segment's transmissions is acknowledged, so that
/// retransmitted segments are timed as well.
#[test]
fn retransmitted_segment_is_timed_by_its_echo() {
    let (mut peer, conn, _) = stamped();
    let before = peer.stack().info(conn).unwrap();
    assert!(before.rtt < ms(2), "{before:?}");
    peer.send(conn, 11, 10);
    peer.expect(ack().seq(11).ack(1).len(10));
    peer.wait(s(10));
    let again = peer.expect(ack().seq(11).ack(1).len(10));
    let stamp = again.header.options.timestamps.unwrap().value;
    peer.advance(ms(80));
    peer.inject(ack().seq(1).ack(21).stamps(1001, stamp));
    let after = peer.stack().info(conn).unwrap();
    // An eighth of 80 ms, or all of it where it counts as the first measurement.
    assert!(
        after.rtt >= ms(9) && after.rtt <= ms(82),
        "{:?} after a round trip of 80 ms",
        after.rtt
    );
}

/// 4.1 and RFC 6298, 5: a new measurement may "result in 'collapsing' RTO back down after it has been subject to exponential
/// back off". With timestamps the acknowledgment that ends an outage is one.
#[test]
fn echo_of_a_retransmission_ends_the_back_off() {
    let (mut peer, conn, _) = stamped();
    peer.send(conn, 11, 10);
    let mut last = peer.expect(ack().seq(11).ack(1).len(10));
    for _ in 0..7 {
        peer.wait(s(100));
        last = peer.expect(ack().seq(11).ack(1).len(10));
    }
    let backed_off = peer.wait(s(100));
    assert!(backed_off > s(20), "{backed_off:?}");
    last = peer.next().unwrap_or(last);
    let stamp = last.header.options.timestamps.unwrap().value;
    peer.advance(ms(10));
    peer.inject(ack().seq(1).ack(21).stamps(1001, stamp));
    let timeout = peer.stack().info(conn).unwrap().rto;
    assert!(timeout < s(1), "{timeout:?}");
    peer.send(conn, 21, 10);
    peer.expect(ack().seq(21).ack(1).len(10));
    peer.expect_after(timeout, ack().seq(21).ack(1).len(10));
}

/// 4.3 and RFC 5961, 4.2 and 5.2: a segment that is discarded says nothing of the peer's clock. Else one made-up number would
/// shut the peer's own segments out.
#[test]
fn discarded_segment_does_not_move_ts_recent() {
    let acknowledges_too_much = ack().seq(1).ack(9999).len(10);
    let syn_in_the_window = syn().seq(1);
    for discarded in [acknowledges_too_much, syn_in_the_window] {
        let (mut peer, conn, ours) = stamped();
        peer.inject(discarded.stamps(900_000, ours));
        let answer = peer.expect(ack().seq(11).ack(1));
        assert_eq!(answer.header.options.timestamps.unwrap().echo, 1000);
        peer.inject(ack().seq(1).ack(11).stamps(1001, ours).len(10));
        assert_eq!(peer.read(conn, 100), stream(1, 10));
        peer.expect_after(ms(40), ack().seq(11).ack(11));
    }
}

/// 3.2: "Once TSopt has been successfully negotiated, [...] the TSopt MUST be sent in every non-<RST> segment for the duration
/// of the connection, and SHOULD be sent in an <RST> segment."
#[test]
fn reset_of_a_connection_has_a_timestamp() {
    let (mut peer, conn, ours) = stamped();
    peer.advance(ms(100));
    peer.stack().abort(conn).unwrap();
    let reset = peer.expect(rst_ack().seq(11).ack(1));
    let stamps = reset.header.options.timestamps.expect("a timestamp");
    assert_eq!(stamps.echo, 1000);
    assert!((90..=110).contains(&stamps.value.wrapping_sub(ours)));
}
