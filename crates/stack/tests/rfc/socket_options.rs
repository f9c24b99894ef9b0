//! Socket options: what a call asks for, and the segments that show it.

use crate::peer::*;
use std::net::SocketAddrV4;
use std::num::NonZeroU8;
use tollgate_stack::socket::KeepAlive;
use tollgate_stack::{Boundary, ConnId, Error, Open, SocketOption, State};
use tollgate_wire::tcp::Flags;

fn set(peer: &mut Peer, conn: ConnId, option: SocketOption) {
    assert_eq!(peer.stack().set_option(conn, option), Ok(()));
    peer.poll();
}

fn send_with(peer: &mut Peer, conn: ConnId, from: u32, bytes: usize, boundary: Boundary) {
    let data = stream(from, bytes);
    assert_eq!(peer.stack().send_with(conn, &data, boundary), Ok(bytes));
    peer.poll();
}

/// A full segment goes, what is left waits until the cork is pulled.
#[test]
fn cork_holds_a_partial_segment_until_it_is_pulled() {
    let (mut peer, conn) = Peer::established();
    set(&mut peer, conn, SocketOption::NoDelay(true));
    set(&mut peer, conn, SocketOption::Cork(true));
    peer.send(conn, 1, 300);
    peer.expect_nothing();
    peer.send(conn, 301, 1000);
    peer.expect(ack().seq(1).ack(1).len(1000));
    peer.expect_nothing();
    // Not even when nothing is in flight any more.
    peer.inject(ack().seq(1).ack(1001));
    peer.expect_nothing();
    set(&mut peer, conn, SocketOption::Cork(false));
    peer.expect(ack().flag(Flags::PSH).seq(1001).ack(1).len(300));
    peer.send(conn, 1301, 10);
    peer.expect(ack().seq(1301).ack(1).len(10));
}

/// 3.9.1.2, MUST-60: without a PUSH flag the sender "MUST NOT buffer data indefinitely".
#[test]
fn corked_segment_waits_200_milliseconds_at_most() {
    let (mut peer, conn) = Peer::established();
    set(&mut peer, conn, SocketOption::Cork(true));
    peer.send(conn, 1, 300);
    peer.expect_after(ms(200), ack().seq(1).ack(1).len(300));
    let info = peer.stack().info(conn).expect("it is there");
    assert_eq!((info.timeouts, info.retransmits), (0, 0));
    // The cork is still in.
    peer.send(conn, 301, 300);
    peer.expect_nothing();
    peer.inject(ack().seq(1).ack(301));
    peer.expect_after(ms(200), ack().seq(301).ack(1).len(300));
}

/// The timer that ends the wait is not taken for that of what is sent meanwhile.
#[test]
fn segment_that_fills_up_has_a_timeout_of_its_own() {
    for pulled in [false, true] {
        let (mut peer, conn) = Peer::established();
        set(&mut peer, conn, SocketOption::Cork(true));
        peer.send(conn, 1, 300);
        peer.advance(ms(190));
        peer.expect_nothing();
        if pulled {
            set(&mut peer, conn, SocketOption::Cork(false));
            peer.expect(ack().seq(1).ack(1).len(300));
        } else {
            peer.send(conn, 301, 700);
            peer.expect(ack().seq(1).ack(1).len(1000));
        }
        let rto = peer.stack().info(conn).expect("it is there").rto;
        let waited = peer.wait(s(10));
        assert!(waited + TICK >= rto, "{waited:?} of {rto:?}");
        peer.next().expect("it is sent again");
    }
}

#[test]
fn fin_is_not_corked() {
    let (mut peer, conn) = Peer::established();
    set(&mut peer, conn, SocketOption::Cork(true));
    peer.send(conn, 1, 300);
    assert_eq!(peer.stack().shutdown(conn), Ok(()));
    peer.poll();
    peer.expect(fin().seq(1).ack(1).len(300));
}

#[test]
fn more_is_waited_for_until_a_call_says_nothing_of_it() {
    let (mut peer, conn) = Peer::established();
    set(&mut peer, conn, SocketOption::NoDelay(true));
    send_with(&mut peer, conn, 1, 100, Boundary::More);
    send_with(&mut peer, conn, 101, 100, Boundary::More);
    peer.expect_nothing();
    peer.send(conn, 201, 100);
    peer.expect(ack().flag(Flags::PSH).seq(1).ack(1).len(300));
    // It holds for one call only.
    peer.send(conn, 301, 100);
    peer.expect(ack().seq(301).ack(1).len(100));
    // Where nothing was left to wait, the next call goes as any other.
    send_with(&mut peer, conn, 401, 1000, Boundary::More);
    peer.expect(ack().seq(401).ack(1).len(1000));
    peer.send(conn, 1401, 100);
    peer.expect(ack().seq(1401).ack(1).len(100));
    send_with(&mut peer, conn, 1501, 100, Boundary::More);
    peer.inject(ack().seq(1).ack(1501));
    peer.expect_after(ms(200), ack().seq(1501).ack(1).len(100));
}

#[test]
fn records_do_not_share_a_segment() {
    let (mut peer, conn) = Peer::established();
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(1).len(10));
    send_with(&mut peer, conn, 11, 100, Boundary::EndOfRecord);
    peer.expect_nothing();
    peer.send(conn, 111, 50);
    // What is not the last that is queued does not wait for Nagle's algorithm.
    peer.expect(ack().flag(Flags::PSH).seq(11).ack(1).len(100));
    peer.expect_nothing();
    send_with(&mut peer, conn, 161, 1200, Boundary::EndOfRecord);
    peer.expect(ack().seq(111).ack(1).len(1000));
    peer.expect_nothing();
    peer.send(conn, 1361, 20);
    peer.expect(ack().flag(Flags::PSH).seq(1111).ack(1).len(250));
    peer.inject(ack().seq(1).ack(1361));
    peer.expect(ack().seq(1361).ack(1).len(20));
}

/// Bytes that the application is refused are the record's as well, so nothing ends in front of them.
#[test]
fn record_that_is_taken_in_part_does_not_end() {
    let (mut peer, conn) = Peer::established_with(|config| config.send_buffer = 4096);
    peer.inject(ack().seq(1).ack(1).win(0));
    let data = stream(1, 5000);
    assert_eq!(
        peer.stack().send_with(conn, &data, Boundary::EndOfRecord),
        Ok(4096)
    );
    peer.inject(ack().seq(1).ack(1).win(4000));
    peer.ignore();
    peer.inject(ack().seq(1).ack(4001).win(4000));
    // The rest of the record joins its last segment.
    let rest = &data[4096..];
    assert_eq!(
        peer.stack().send_with(conn, rest, Boundary::EndOfRecord),
        Ok(904)
    );
    peer.poll();
    peer.expect(ack().seq(4001).ack(1).len(96));
    peer.inject(ack().seq(1).ack(4097));
    peer.expect(ack().flag(Flags::PSH).seq(4097).ack(1).len(904));
}

#[test]
fn low_water_mark_bounds_what_is_not_sent() {
    let (mut peer, conn) = Peer::established();
    set(&mut peer, conn, SocketOption::NotSentLowWater(Some(2000)));
    let data = stream(1, 60_000);
    while peer.next_ready().is_some() {}
    // Ten segments are in flight, and so many bytes wait.
    assert_eq!(peer.stack().send(conn, &data), Ok(12_000));
    peer.poll();
    assert_eq!(peer.drain().len(), 10);
    assert_eq!(peer.stack().send(conn, &data), Err(Error::WouldBlock));
    assert_eq!(peer.next_ready(), None);
    // What is acknowledged lets all go that waited.
    peer.inject(ack().seq(1).ack(2001));
    let ready = peer.next_ready().expect("there is room").1;
    assert!(ready.writable());
    let info = peer.stack().info(conn).expect("it is there");
    assert_eq!(info.unsent, 0);
    peer.ignore();
    let bad = SocketOption::NotSentLowWater(Some(0));
    assert_eq!(peer.stack().set_option(conn, bad), Err(Error::BadOption));
    set(&mut peer, conn, SocketOption::NotSentLowWater(None));
    assert_eq!(peer.stack().send(conn, &data[12_000..]), Ok(48_000));
    peer.ignore();
}

/// Nothing else would tell a program that was refused, while the peer's window is closed. It is told by the rule of acknowledgments:
/// where half of what it may have queued is free.
#[test]
fn refused_program_is_told_of_room_that_an_option_makes() {
    use SocketOption::{NotSentLowWater, SendBuffer};
    let low = NotSentLowWater(Some(2000));
    let cases = [
        (SendBuffer(4096), SendBuffer(8191), false),
        (SendBuffer(4096), SendBuffer(8192), true),
        (low, NotSentLowWater(Some(3999)), false),
        (low, NotSentLowWater(Some(4000)), true),
        (low, NotSentLowWater(None), true),
        // Of what is unsent the mark decides, not the buffer.
        (low, SendBuffer(1 << 20), false),
    ];
    for (before, after, told) in cases {
        let (mut peer, conn) = Peer::established();
        peer.inject(ack().seq(1).ack(1).win(0));
        set(&mut peer, conn, before);
        let data = stream(1, 10_000);
        let taken = peer.stack().send(conn, &data).expect("there is room");
        let rest = &data[taken..];
        assert_eq!(peer.stack().send(conn, rest), Err(Error::WouldBlock));
        while peer.next_ready().is_some() {}
        set(&mut peer, conn, after);
        let event = peer.next_ready().map(|(_, ready)| ready.writable());
        assert_eq!(event, told.then_some(true), "{before:?}, then {after:?}");
        // It is told once, and only who was refused.
        set(&mut peer, conn, after);
        assert_eq!(peer.next_ready(), None);
        if told {
            assert!(peer.stack().send(conn, rest).is_ok());
        }
    }
}

#[test]
fn largest_segment_is_offered_and_kept_to() {
    for passive in [false, true] {
        let mut peer = Peer::new();
        let open = Open {
            max_segment: Some(700),
            ..Open::default()
        };
        let conn = if passive {
            let listener = peer
                .stack()
                .listen_with(PORT, 4, &open)
                .expect("it is free");
            peer.inject(syn().mss(MSS));
            let answer = peer.expect(syn_ack().seq(0).ack(1));
            assert_eq!(answer.header.options.mss, Some(700));
            peer.inject(ack().seq(1).ack(1));
            peer.stack().accept(listener).expect("it is complete")
        } else {
            peer.port = 80;
            let to = SocketAddrV4::new(PEER, 80);
            let conn = peer.stack().connect_with(to, &open).expect("it is free");
            peer.local = peer.stack().info(conn).expect("it is there").local.port();
            assert_eq!(peer.expect(syn()).header.options.mss, Some(700));
            // Again, too.
            peer.wait(s(10));
            assert_eq!(peer.expect(syn()).header.options.mss, Some(700));
            peer.inject(syn_ack().seq(0).ack(1).mss(MSS));
            peer.expect(ack().seq(1).ack(1));
            conn
        };
        let info = peer.stack().info(conn).expect("it is there");
        assert_eq!((info.mss, info.receive_mss), (700, 700));
        peer.send(conn, 1, 700);
        peer.expect(ack().seq(1).ack(1).len(700));
    }
}

#[test]
fn largest_segment_stands_in_cookies() {
    let mut peer = Peer::new();
    let open = Open {
        max_segment: Some(400),
        ..Open::default()
    };
    let listener = peer
        .stack()
        .listen_with(PORT, 1, &open)
        .expect("it is free");
    peer.inject(syn().mss(MSS));
    peer.ignore();
    peer.port += 1;
    peer.inject(syn().mss(MSS));
    let answer = peer.expect(syn_ack().seq(0).ack(1));
    assert_eq!(answer.header.options.mss, Some(400));
    assert_eq!(peer.stack.counters().syn_cookies_sent, 1);
    peer.inject(ack().seq(1).ack(1));
    let conn = peer.stack().accept(listener).expect("it is complete");
    // The cookie stands for 536, the largest of its values that the peer takes.
    assert_eq!(peer.stack().info(conn).expect("it is there").mss, 400);
}

#[test]
fn segments_below_64_bytes_cannot_be_asked_for() {
    let mut peer = Peer::new();
    let open = Open {
        max_segment: Some(63),
        ..Open::default()
    };
    let to = SocketAddrV4::new(PEER, 80);
    assert_eq!(peer.stack().connect_with(to, &open), Err(Error::BadOption));
    assert_eq!(
        peer.stack().listen_with(PORT, 1, &open),
        Err(Error::BadOption)
    );
}

/// SO_LINGER with no time.
#[test]
fn closing_may_reset() {
    let (mut peer, conn) = Peer::established();
    set(&mut peer, conn, SocketOption::AbortOnClose(true));
    peer.send(conn, 1, 100);
    peer.expect(ack().seq(1).ack(1).len(100));
    assert_eq!(peer.stack().close(conn), Ok(()));
    peer.poll();
    peer.expect(rst_ack().seq(101).ack(1));
    assert_eq!(peer.stack.connections(), 0);
}

/// 3.9.2, MUST-49: the TTL can be configured, here for a connection.
#[test]
fn time_to_live_is_that_of_the_socket_from_its_first_segment_to_its_last() {
    let mut peer = Peer::new();
    let open = Open {
        ttl: NonZeroU8::new(3),
        ..Open::default()
    };
    peer.port = 80;
    let to = SocketAddrV4::new(PEER, 80);
    let conn = peer.stack().connect_with(to, &open).expect("it is free");
    peer.local = peer.stack().info(conn).expect("it is there").local.port();
    assert_eq!(peer.expect(syn()).ip.ttl, 3);
    peer.inject(syn_ack().seq(0).ack(1).mss(MSS));
    assert_eq!(peer.expect(ack().seq(1).ack(1)).ip.ttl, 3);
    peer.send(conn, 1, 1000);
    assert_eq!(peer.expect(ack().seq(1).ack(1).len(1000)).ip.ttl, 3);
    set(
        &mut peer,
        conn,
        SocketOption::TimeToLive(NonZeroU8::new(255)),
    );
    peer.inject(ack().seq(1).ack(1001).len(10));
    peer.wait(ms(100));
    assert_eq!(peer.expect(ack().seq(1001).ack(11)).ip.ttl, 255);
    set(&mut peer, conn, SocketOption::TimeToLive(None));
    peer.send(conn, 1001, 10);
    assert_eq!(peer.expect(ack().seq(1001).ack(11).len(10)).ip.ttl, 64);
    set(&mut peer, conn, SocketOption::TimeToLive(NonZeroU8::new(9)));
    assert_eq!(peer.stack().abort(conn), Ok(()));
    peer.poll();
    assert_eq!(peer.expect(rst_ack().seq(1011).ack(11)).ip.ttl, 9);
}

/// A peer that had to wait for a delayed acknowledgment does not wait again.
#[test]
fn segments_after_a_delay_that_ran_out_are_acknowledged_at_once() {
    let (mut peer, _conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).len(10));
    peer.expect_after(ms(40), ack().seq(1).ack(11));
    for n in 1..=16 {
        peer.inject(ack().seq(1 + 10 * n).ack(1).len(10));
        peer.expect(ack().seq(1).ack(11 + 10 * n));
    }
    peer.inject(ack().seq(171).ack(1).len(10));
    peer.expect_after(ms(40), ack().seq(1).ack(181));
}

/// Answers carry acknowledgments: where the application answers, none goes alone.
#[test]
fn quick_acknowledgments_end_with_an_answer() {
    let (mut peer, conn) = Peer::established();
    peer.inject(ack().seq(1).ack(1).len(10));
    peer.expect_after(ms(40), ack().seq(1).ack(11));
    assert_eq!(
        peer.stack
            .settings(conn)
            .expect("it is there")
            .quick_acknowledgments,
        16
    );
    peer.send(conn, 1, 10);
    peer.expect(ack().seq(1).ack(11).len(10));
    for n in 1..5 {
        peer.inject(ack().seq(1 + 10 * n).ack(1 + 10 * n).len(10));
        peer.expect_nothing();
        peer.send(conn, 1 + 10 * n, 10);
        peer.expect(ack().seq(1 + 10 * n).ack(11 + 10 * n).len(10));
    }
}

/// RFC 5681, 3.1: after the loss of a SYN the peer's window is one segment, and it waits for each acknowledgment.
#[test]
fn first_segments_after_a_lost_syn_are_acknowledged_at_once() {
    let mut peer = Peer::new();
    let listener = peer.listen();
    peer.inject(syn().mss(MSS));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.wait(s(10));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.inject(ack().seq(1).ack(1));
    peer.stack().accept(listener).expect("it is complete");
    peer.inject(ack().seq(1).ack(1).len(1000));
    peer.expect(ack().seq(1).ack(1001));
}

#[test]
fn quick_acknowledgments_can_be_asked_for_and_ended() {
    let (mut peer, conn) = Peer::established();
    set(&mut peer, conn, SocketOption::QuickAcknowledgments(true));
    peer.inject(ack().seq(1).ack(1).len(10));
    peer.expect(ack().seq(1).ack(11));
    set(&mut peer, conn, SocketOption::QuickAcknowledgments(false));
    peer.inject(ack().seq(11).ack(1).len(10));
    peer.expect_nothing();
    peer.expect_after(ms(40), ack().seq(1).ack(21));
}

/// RFC 6056, 3.2: the range of ports is the host's to choose.
#[test]
fn local_ports_come_from_the_configured_range() {
    let mut peer = Peer::with(|config| config.ephemeral_ports = (65_532, 65_535));
    let to = SocketAddrV4::new(PEER, 80);
    let mut ports: Vec<u16> = (0..4)
        .map(|_| {
            let conn = peer.stack().connect(to).expect("one is free");
            peer.stack().info(conn).expect("it is there").local.port()
        })
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, [65_532, 65_533, 65_534, 65_535]);
    assert_eq!(peer.stack().connect(to), Err(Error::NoPort));
    peer.ignore();
    for range in [(0, 9), (9, 8)] {
        let mut config = *peer.stack.config();
        config.ephemeral_ports = range;
        let invalid = config.validate().expect_err("that is no range");
        assert_eq!(invalid.field, "ephemeral_ports");
    }
}

/// RFC 5482, 3: the local user timeout is the application's; it also ends what keepalive would keep up longer.
#[test]
fn user_timeout_ends_keepalive_early() {
    let keep = KeepAlive {
        idle: s(10),
        interval: s(10),
        count: 100,
    };
    for (timeout, probes) in [(None, 100), (Some(s(35)), 3)] {
        let (mut peer, conn) = Peer::established();
        set(&mut peer, conn, SocketOption::KeepAlive(Some(keep)));
        set(&mut peer, conn, SocketOption::UserTimeout(timeout));
        peer.advance(s(3600));
        assert_eq!(peer.state(conn), State::Closed);
        assert_eq!(peer.drain().len(), probes);
        assert_eq!(peer.stack().close(conn), Err(Error::TimedOut));
    }
}

#[test]
fn settings_are_what_was_set() {
    let (mut peer, conn) = Peer::established();
    let before = peer.stack.settings(conn).expect("it is there");
    assert!(!before.cork && !before.abort_on_close && before.reports);
    assert_eq!((before.keep_alive, before.user_timeout), (None, None));
    assert_eq!((before.not_sent_low_water, before.ttl), (None, None));
    let keep = KeepAlive {
        idle: s(80),
        interval: s(8),
        count: 5,
    };
    for option in [
        SocketOption::NoDelay(true),
        SocketOption::Cork(true),
        SocketOption::QuickAcknowledgments(true),
        SocketOption::SendBuffer(50_000),
        SocketOption::NotSentLowWater(Some(7000)),
        SocketOption::KeepAlive(Some(keep)),
        SocketOption::UserTimeout(Some(s(30))),
        SocketOption::AbortOnClose(true),
        SocketOption::Diffserv(46),
        SocketOption::TimeToLive(NonZeroU8::new(5)),
        SocketOption::Reports(false),
    ] {
        set(&mut peer, conn, option);
    }
    let after = peer.stack.settings(conn).expect("it is there");
    assert!(after.no_delay && after.cork && after.abort_on_close && !after.reports);
    assert_eq!(after.quick_acknowledgments, 16);
    assert_eq!((after.send_buffer, after.receive_buffer), (50_000, 65_535));
    assert_eq!(after.not_sent_low_water, Some(7000));
    assert_eq!((after.diffserv, after.ttl), (46, NonZeroU8::new(5)));
    // Rounded up to ticks of a millisecond.
    let kept = after.keep_alive.expect("it is on");
    assert!(kept.idle >= keep.idle && kept.idle < keep.idle + 2 * TICK);
    assert_eq!(kept.count, 5);
    let timeout = after.user_timeout.expect("it is set");
    assert!(timeout >= s(30) && timeout < s(30) + 2 * TICK);
}
