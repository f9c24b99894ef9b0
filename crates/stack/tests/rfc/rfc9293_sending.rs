//! RFC 9293, 3.7.4, 3.8.3, 3.8.4, 3.8.6.3, 3.9.1.2: Nagle, failures, keepalive, delayed acknowledgments, PUSH.

use crate::peer::*;
use std::time::Duration;
use tollgate_stack::config::Prediction;
use tollgate_stack::socket::KeepAlive;
use tollgate_stack::{Config, ConnId, Error, Frame, Link, Pool, Received, SocketOption, State};
use tollgate_wire::tcp::Flags;

/// 3.7.4, SHLD-7: "If there is unacknowledged data [...] then the sending TCP endpoint buffers all user data (regardless of
/// the PSH bit) until the outstanding data has been acknowledged or until the TCP endpoint can send a full-sized segment"
#[test]
fn nagle_holds_a_short_segment_while_anything_is_unacknowledged() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    for n in 0..5 {
        peer.send(conn, 11 + 10 * n, 10);
    }
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(11));
    peer.expect(ack().seq(11).ack(1).len(50));
    peer.send(conn, 61, 400);
    peer.expect_nothing();
    peer.send(conn, 461, 700);
    peer.expect(ack().seq(61).ack(1).len(1000));
    peer.expect_nothing();
}

/// 3.7.4, MUST-17: "there MUST be a way for an application to disable the Nagle algorithm on an individual connection"
#[test]
fn nagle_can_be_disabled() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    peer.send(conn, 11, 10);
    peer.expect_nothing();
    // What was held goes out at once.
    peer.stack()
        .set_option(conn, SocketOption::NoDelay(true))
        .unwrap();
    peer.expect(ack().seq(11).ack(1).len(10));
    peer.send(conn, 21, 10);
    peer.expect(ack().seq(21).ack(1).len(10));
    peer.stack()
        .set_option(conn, SocketOption::NoDelay(false))
        .unwrap();
    peer.send(conn, 31, 10);
    peer.expect_nothing();
}

/// 3.9.1.2, MUST-60: without a PUSH flag the sender "MUST NOT buffer data indefinitely": when everything before is
/// acknowledged the rest goes, with no further call.
#[test]
fn data_is_not_buffered_indefinitely() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 1010);
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(1001));
    peer.expect(ack().seq(1001).ack(1).len(10));
}

/// 3.9.1.2, MUST-61: "MUST set the PSH bit in the last buffered segment (i.e., when there is no more queued data to be
/// sent)"
#[test]
fn the_last_segment_is_pushed() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 3000);
    assert!(
        !peer
            .expect(ack().seq(1).ack(1).len(1000))
            .header
            .flags
            .has(Flags::PSH)
    );
    assert!(
        !peer
            .expect(ack().seq(1001).ack(1).len(1000))
            .header
            .flags
            .has(Flags::PSH)
    );
    peer.expect(ack().flag(Flags::PSH).seq(2001).ack(1).len(1000));
    peer.inject(ack().seq(1).ack(3001));
    peer.send(conn, 3001, 1);
    peer.expect(ack().flag(Flags::PSH).seq(3001).ack(1).len(1));
}

/// SHLD-27 and SHLD-28: "to send the largest possible segment": many short calls make full segments.
#[test]
fn short_calls_are_packed_into_full_segments() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 1);
    peer.expect(ack().seq(1).ack(1).len(1));
    for n in 0..20 {
        peer.send(conn, 2 + 100 * n, 100);
    }
    peer.expect(ack().seq(2).ack(1).len(1000));
    // The acknowledgment of the last one is delayed, since no other follows.
    peer.expect(ack().seq(1002).ack(1).len(1000));
    peer.expect_nothing();
}

/// 3.8.6.3, MUST-40: "the delay MUST be less than 0.5 seconds"; SHLD-18.
#[test]
fn an_acknowledgment_is_delayed_by_less_than_half_a_second() {
    let (mut peer, _conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).len(10));
    peer.expect_after(ms(40), ack().seq(1).ack(11));
    // Neither can it be configured to be longer.
    let mut config = Config::new(STACK_MAC, STACK, 24, [0; 4]);
    config.delayed_ack = ms(500);
    assert_eq!(config.validate().unwrap_err().field, "delayed_ack");
    let (mut peer, _conn) = Peer::established_with(|config| config.delayed_ack = ms(490));
    peer.inject(ack().seq(1).ack(1).len(10));
    let waited = peer.wait(s(10));
    assert!(waited < ms(500), "{waited:?}");
    peer.expect(ack().seq(1).ack(11));
}

/// 3.8.6.3, SHLD-19: "An ACK SHOULD be generated for at least every second full-sized segment"
#[test]
fn every_second_segment_is_acknowledged_at_once() {
    let (mut peer, _conn) = Peer::established();
    for n in 0..10 {
        peer.inject(ack().seq(1 + 1000 * n).ack(1).len(1000));
        if n % 2 == 1 {
            peer.expect(ack().seq(1).ack(1001 + 1000 * n));
        } else {
            peer.expect_nothing();
        }
    }
}

/// 3.8.6.3, SHLD-19; RFC 5681, 4.2: "an implementor should indeed only deviate from this requirement after careful consideration of
/// the implications". Segments that were one frame when they came are acknowledged by the last one's acknowledgment, as by Linux.
#[test]
fn a_train_is_acknowledged_once() {
    // Where nothing is predicted each segment is looked at alone, and every second one is acknowledged.
    if crate::mechanisms().prediction == Prediction::Off {
        return;
    }
    let segments = |from: u32, count: u32| {
        (from..from + count).map(|n| ack().seq(1 + 1000 * n).ack(1).len(1000))
    };
    let (mut peer, conn) = Peer::established();
    peer.inject_train(segments(0, 45));
    peer.expect(ack().seq(1).ack(45_001));
    peer.expect_nothing();
    assert_eq!(peer.read(conn, 45_000), stream(1, 45_000));
    // The window has opened again.
    peer.ignore();
    // One segment alone is delayed as ever.
    peer.inject_train(segments(45, 1));
    peer.expect_nothing();
    peer.inject_train(segments(46, 3));
    peer.expect(ack().seq(1).ack(49_001));
    assert_eq!(peer.read(conn, 4_000), stream(45_001, 4_000));
    peer.ignore();
    // It is bounded: a train of many small segments is acknowledged on the way.
    peer.inject_train((0..100).map(|n| ack().seq(49_001 + 10 * n).ack(1).len(10)));
    peer.expect(ack().seq(1).ack(49_641));
    peer.expect(ack().seq(1).ack(50_001));
    peer.expect_nothing();
    // Behind a hole each segment asks for what is missing (RFC 5681, 4.2).
    peer.inject_train((101..104).map(|n| ack().seq(49_001 + 10 * n).ack(1).len(10)));
    for _ in 101..104 {
        peer.expect(ack().seq(1).ack(50_001));
    }
}

/// The segments of a train behind its first are looked at in short; what is found out is the same.
#[test]
fn a_train_brings_what_its_segments_would() {
    for posted in [0, 1, 999, 2_500, 10_000, 40_000] {
        for missing in [None, Some(0), Some(1), Some(7), Some(19)] {
            let read = |as_train: bool| {
                let mut peer = Peer::with(|config| config.timestamps = true);
                let conn = peer.accepted_with_stamps(100);
                let segments = (0..20)
                    .filter(|&n| Some(n) != missing)
                    .map(|n| ack().seq(1 + 1000 * n).ack(1).len(1000).stamps(101, 0));
                if as_train {
                    peer.leave_train(segments);
                } else {
                    peer.leave(segments);
                }
                let mut buffer = vec![0; posted];
                let mut all = Vec::new();
                while let Ok(Received::Data(count)) = peer.poll_receive(conn, &mut buffer) {
                    all.extend_from_slice(&buffer[..count]);
                }
                peer.poll();
                all.extend(peer.read(conn, 20_000));
                // The last acknowledgment may be delayed.
                peer.advance(ms(100));
                let last = peer.drain().last().map(|sent| sent.ack);
                let predicted = peer.stack.counters().predicted;
                (all, (last, predicted, peer.pool.available()))
            };
            let (train, alone) = (read(true), read(false));
            let expected = stream(1, missing.unwrap_or(20) as usize * 1000);
            assert!(
                train.0 == expected && alone.0 == expected,
                "{posted} {missing:?}"
            );
            assert_eq!(train.1, alone.1, "{posted} {missing:?}");
        }
    }
}

/// 3.8.3, MUST-20 (c): "When the number of transmissions of the same segment reaches a threshold R2 greater than R1, close
/// the connection."; SHLD-11: "The value of R2 SHOULD correspond to at least 100 seconds."
#[test]
fn a_silent_peer_is_given_up_after_r2() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    peer.advance(s(15 * 60));
    assert_eq!(peer.state(conn), State::Established);
    let sent = peer.drain();
    assert!(
        sent.len() > 3
            && sent
                .iter()
                .all(|again| again.seq == 1 && again.data.len() == 10)
    );
    peer.advance(s(2));
    assert_eq!(peer.state(conn), State::Closed);
    assert_eq!(
        peer.stack().receive(conn, &mut [0; 1]),
        Err(Error::TimedOut)
    );
    assert!(
        std::iter::from_fn(|| peer.next_ready())
            .any(|(told, ready)| told == conn && ready.closed())
    );
    assert_eq!(peer.stack().close(conn), Err(Error::TimedOut));
    peer.expect(rst_ack().seq(11).ack(1));
    assert_eq!(peer.pool.available(), peer.pool.capacity());
}

/// 3.8.3, MUST-21: "An application MUST be able to set the value for R2 for a particular connection."; 3.10.8, USER TIMEOUT.
#[test]
fn the_user_timeout_can_be_set_for_a_connection() {
    let (mut peer, conn) = Peer::established();
    peer.stack()
        .set_option(conn, SocketOption::UserTimeout(Some(s(5))))
        .unwrap();
    // It runs only while something is unacknowledged.
    peer.advance(s(100));
    assert_eq!(peer.state(conn), State::Established);
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    ends_after(&mut peer, conn, s(5));
}

/// Lets time pass; the user timeout ends the connection after that time.
#[track_caller]
fn ends_after(peer: &mut Peer, conn: ConnId, time: Duration) {
    peer.advance(time - SLACK);
    assert_eq!(peer.state(conn), State::Established);
    peer.advance(2 * SLACK);
    assert_eq!(peer.state(conn), State::Closed);
    assert_eq!(peer.stack().close(conn), Err(Error::TimedOut));
    peer.ignore();
}

/// RFC 5482, 1: "The TCP user timeout controls how long transmitted data may remain unacknowledged": it begins with the
/// data, not with a probe.
#[test]
fn the_user_timeout_begins_before_a_tail_loss_probe() {
    let mut peer = Peer::new();
    let conn = peer.accepted_after(syn().mss(MSS).sack_permitted(), ms(40));
    peer.stack()
        .set_option(conn, SocketOption::UserTimeout(Some(s(5))))
        .unwrap();
    peer.send(conn, 1, 10);
    peer.advance(s(2));
    assert_eq!(peer.stack().info(conn).expect("it is there").tail_probes, 1);
    ends_after(&mut peer, conn, s(3));
}

/// A time that is shorter than the retransmission timeout, or in which nobody polls, still lets one retransmission be answered.
#[test]
fn the_user_timeout_lets_one_retransmission_be_answered() {
    let (mut peer, conn) = Peer::established();
    peer.stack()
        .set_option(conn, SocketOption::UserTimeout(Some(ms(100))))
        .unwrap();
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    peer.expect_after(ms(200), ack().seq(1).ack(1).len(10));
    peer.inject(ack().seq(1).ack(11));
    peer.send(conn, 11, 10);
    peer.expect(ack().seq(11).ack(1).len(10));
    peer.now = peer.now + s(100);
    peer.expect(ack().seq(11).ack(1).len(10));
    ends_after(&mut peer, conn, ms(100));
}

/// 3.8.3: the time begins anew with each acknowledgment of something new.
#[test]
fn progress_starts_the_user_timeout_anew() {
    let (mut peer, conn) = Peer::established();
    peer.stack()
        .set_option(conn, SocketOption::UserTimeout(Some(s(5))))
        .unwrap();
    let mut at = 1;
    for _ in 0..10 {
        peer.send(conn, at, 10);
        peer.advance(s(3));
        at += 10;
        peer.inject(ack().seq(1).ack(at));
        peer.ignore();
    }
    assert_eq!(peer.state(conn), State::Established);
}

/// 3.8.3, MUST-22 (appendix B): "SYN retransmissions MUST be handled in the general way just described for data
/// retransmissions, including notification of the application layer."; MUST-23: "R2 for a SYN segment MUST be set large
/// enough to provide retransmission of the segment for at least 3 minutes"
#[test]
fn a_syn_is_retransmitted_for_three_minutes_and_then_given_up() {
    let mut peer = Peer::new();
    let conn = peer.connect();
    peer.expect(syn());
    peer.advance(s(180) - SLACK);
    assert_eq!(peer.state(conn), State::SynSent);
    let sent = peer.drain();
    assert!(
        sent.len() >= 6
            && sent
                .iter()
                .all(|again| again.header.flags == Flags::SYN && again.seq == 0)
    );
    peer.advance(s(1));
    assert_eq!(peer.state(conn), State::Closed);
    assert!(
        std::iter::from_fn(|| peer.next_ready())
            .any(|(told, ready)| told == conn && ready.closed())
    );
    assert_eq!(peer.stack().close(conn), Err(Error::TimedOut));
    peer.ignore();
}

/// A SYN,ACK is given up after three minutes: a connection that stays half open leaves its place in the backlog.
#[test]
fn a_half_open_connection_is_given_up_after_three_minutes() {
    let mut peer = Peer::new();
    peer.listen();
    peer.inject(syn().seq(0));
    peer.advance(s(180) - SLACK);
    assert_eq!(peer.stack.connections(), 1);
    let sent = peer.drain();
    let is_answer = |again: &Sent| again.header.flags == Flags::SYN | Flags::ACK && again.seq == 0;
    assert!(sent.len() >= 6 && sent.iter().all(is_answer));
    peer.advance(s(1));
    assert_eq!(peer.stack.connections(), 0);
    assert!(peer.stack().next_event().is_none());
    peer.ignore();
}

fn keep_alive(idle: Duration, interval: Duration, count: u8) -> SocketOption {
    SocketOption::KeepAlive(Some(KeepAlive {
        idle,
        interval,
        count,
    }))
}

/// 3.8.4, MUST-25: "they MUST default to off"
#[test]
fn keepalive_is_off_by_default() {
    let (mut peer, conn) = Peer::established();
    peer.advance(s(3 * 24 * 3600));
    peer.expect_nothing();
    assert_eq!(peer.state(conn), State::Established);
}

/// 3.8.4, MUST-24: "the application MUST be able to turn them on or off for each TCP connection"; MUST-27: "This interval
/// MUST be configurable"; SHLD-12: "An implementation SHOULD send a keep-alive segment with no data"; "SEG.SEQ = SND.NXT-1".
#[test]
fn keepalive_can_be_turned_on_and_off() {
    let (mut peer, conn) = Peer::established();
    for idle in [s(10), s(7200)] {
        peer.stack()
            .set_option(conn, keep_alive(idle, s(5), 3))
            .unwrap();
        peer.expect_after(idle, ack().seq(0).ack(1));
        peer.inject(ack().seq(1).ack(1));
    }
    peer.stack()
        .set_option(conn, SocketOption::KeepAlive(None))
        .unwrap();
    peer.advance(s(10 * 3600));
    peer.expect_nothing();
}

/// 3.8.4, MUST-26: "Keep-alive packets MUST only be sent when no sent data is outstanding, and no data or acknowledgment
/// packets have been received for the connection within an interval"
#[test]
fn keepalive_waits_for_a_silent_interval() {
    let (mut peer, conn) = Peer::established();
    peer.stack()
        .set_option(conn, keep_alive(s(100), s(10), 3))
        .unwrap();
    peer.advance(s(60));
    peer.inject(ack().seq(1).ack(1).len(10));
    peer.expect_after(ms(40), ack().seq(1).ack(11));
    let waited = peer.wait(s(1000));
    assert!(waited + ms(40) >= s(100), "a probe {waited:?} after data");
    peer.expect(ack().seq(0).ack(11));
    // The answer is an acknowledgment that was received: silence begins anew.
    peer.inject(ack().seq(11).ack(1));
    peer.expect_after(s(100), ack().seq(0).ack(11));
    peer.inject(ack().seq(11).ack(1));
    // Data is outstanding: the retransmission timer asks, and no probe is sent.
    peer.advance(s(99));
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(11).len(10));
    peer.advance(s(30));
    let sent = peer.drain();
    assert!(!sent.is_empty() && sent.iter().all(|again| again.data.len() == 10));
    peer.inject(ack().seq(11).ack(11));
}

/// 3.8.4, MUST-29: "it MUST NOT interpret failure to respond to any specific probe as a dead connection"
#[test]
fn keepalive_tolerates_lost_answers_and_gives_up_after_its_count() {
    let (mut peer, conn) = Peer::established();
    peer.stack()
        .set_option(conn, keep_alive(s(100), s(10), 3))
        .unwrap();
    peer.expect_after(s(100), ack().seq(0).ack(1));
    peer.expect_after(s(10), ack().seq(0).ack(1));
    peer.expect_after(s(10), ack().seq(0).ack(1));
    peer.advance(s(9));
    peer.inject(ack().seq(1).ack(1));
    assert_eq!(peer.state(conn), State::Established);
    peer.expect_after(s(100), ack().seq(0).ack(1));
    peer.expect_after(s(10), ack().seq(0).ack(1));
    peer.expect_after(s(10), ack().seq(0).ack(1));
    peer.advance(s(11));
    assert_eq!(peer.state(conn), State::Closed);
    assert_eq!(peer.stack().close(conn), Err(Error::TimedOut));
    peer.ignore();
}

/// 3.8.4, the other end: a probe is answered.
#[test]
fn a_keepalive_probe_is_answered() {
    let (mut peer, _conn) = Peer::established();
    peer.inject(ack().seq(0).ack(1));
    peer.expect(ack().seq(1).ack(1));
    // With the one byte of garbage of old implementations.
    peer.inject(ack().seq(0).ack(1).data(b"?"));
    peer.expect(ack().seq(1).ack(1));
}

/// 3.8.4, MUST-29: an answer is an answer whatever its window. A peer whose reader is slow drains its buffer between two
/// probes and names another window each time.
#[test]
fn keepalive_answers_with_other_windows_count() {
    let (mut peer, conn) = Peer::established();
    peer.stack()
        .set_option(conn, keep_alive(s(100), s(10), 3))
        .unwrap();
    for n in 0..10 {
        peer.expect_after(s(100), ack().seq(0).ack(1));
        peer.inject(ack().seq(1).ack(1).win(1000 + n));
    }
    assert_eq!(peer.state(conn), State::Established);
}

/// 3.8.4, MUST-27: "This interval MUST be configurable": the time to the next probe counts from the answer to the last, also
/// where an unanswered one would have been repeated later than that.
#[test]
fn keepalive_interval_counts_from_the_last_answer() {
    let (mut peer, conn) = Peer::established();
    peer.stack()
        .set_option(conn, keep_alive(s(10), s(75), 3))
        .unwrap();
    for _ in 0..5 {
        peer.expect_after(s(10), ack().seq(0).ack(1));
        peer.inject(ack().seq(1).ack(1));
    }
    // Without an answer the interval holds.
    peer.expect_after(s(10), ack().seq(0).ack(1));
    peer.expect_after(s(75), ack().seq(0).ack(1));
}

/// A link that has no room for any frame.
struct Full;

impl Link for Full {
    fn mtu(&self) -> usize {
        1500
    }

    fn transmit(&mut self, _: &mut Pool, _: &mut Vec<Frame>) {}

    fn receive(&mut self, _: &mut Pool, _: &mut Vec<Frame>) {}
}

/// 3.8.4: the probes of many connections that are due at the same time wait for room in the device queue, as everything else
/// does, and go when there is some.
#[test]
fn keepalive_probes_wait_for_room_in_the_device_queue() {
    const CONNECTIONS: u16 = 20;
    let mut peer = Peer::with(|config| config.device_queue = 2);
    let listener = peer.stack().listen(PORT, CONNECTIONS).unwrap();
    for n in 0..CONNECTIONS {
        peer.port = 40_000 + n;
        peer.inject(syn().mss(MSS));
        peer.expect(syn_ack().seq(0).ack(1));
        peer.inject(ack().seq(1).ack(1));
        let conn = peer.stack().accept(listener).unwrap();
        let every_ten_seconds = keep_alive(s(10), s(10), 3);
        peer.stack().set_option(conn, every_ten_seconds).unwrap();
    }
    peer.now = peer.now + s(10) + SLACK;
    peer.stack.at(peer.now, &mut peer.pool).poll(&mut Full);
    let queued = peer.stack.device_queue_len();
    assert!(queued <= 2, "{queued} frames in a queue for 2");
    peer.advance(s(5));
    let mut asked = Vec::new();
    while let Some((_, segment)) = peer.next_packet() {
        asked.push([segment[2], segment[3]]);
    }
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked.len(), usize::from(CONNECTIONS), "peers were asked");
}

/// 3.8.6.3, MUST-40: "the delay MUST be less than 0.5 seconds", also on a host that had nothing to do for a month, and so did
/// not ask the stack for anything.
#[test]
fn timers_work_after_a_month_without_a_poll() {
    for days in [1, 25, 30, 50, 60, 100] {
        let mut peer = Peer::new();
        peer.poll();
        peer.now = peer.now + s(days * 24 * 3600);
        let conn = peer.accepted(syn().mss(MSS));
        peer.inject(ack().seq(1).ack(1).len(10));
        let waited = peer.wait(s(10));
        assert!(waited < ms(500), "{waited:?} after {days} days");
        peer.expect(ack().seq(1).ack(11));
        assert_eq!(peer.read(conn, 100), stream(1, 10));
        // And again.
        peer.send(conn, 1, 10);
        peer.expect(ack().seq(1).ack(11).len(10));
        let waited = peer.wait(s(10));
        assert!(waited < s(1), "sent again {waited:?} after {days} days");
        peer.expect(ack().seq(1).ack(11).len(10));
    }
}

/// 3.9.1.2, MUST-61: "MUST set the PSH bit in the last buffered segment (i.e., when there is no more queued data to be sent)",
/// also when it is sent again.
#[test]
fn last_segment_is_pushed_when_it_is_sent_again() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 1500);
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.inject(ack().seq(1).ack(1001));
    peer.expect(ack().flag(Flags::PSH).seq(1001).ack(1).len(500));
    for _ in 0..2 {
        peer.wait(s(10));
        peer.expect(ack().flag(Flags::PSH).seq(1001).ack(1).len(500));
    }
}
