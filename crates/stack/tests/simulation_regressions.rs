//! What the simulation found, told by hand: each of these once hung for ever or lost its count.

mod common;

use common::{Pair, config, pattern};
use tollgate_link::Side;
use tollgate_stack::{ConnId, Instant, Link};

/// Throws away what is on its way to a host.
fn lose(pair: &mut Pair, to: Side) {
    let mut frames = Vec::new();
    pair.cable.end(to).receive(&mut pair.pool, &mut frames);
    for frame in frames {
        pair.pool.release(frame.id);
    }
}

fn pass(pair: &mut Pair, millis: u64) {
    pair.now = Instant::from_nanos(pair.now.as_nanos() + millis * 1_000_000);
}

/// Sends what is left in both directions, reads both, and says that everything came.
fn carry(pair: &mut Pair, (client, server): (ConnId, ConnId), texts: [&[u8]; 2], mut got: [Vec<u8>; 2], mut sent: [usize; 2]) {
    for _ in 0..300 {
        if let Ok(taken) = pair.a().send(client, &texts[0][sent[0]..]) {
            sent[0] += taken;
        }
        if let Ok(taken) = pair.b().send(server, &texts[1][sent[1]..]) {
            sent[1] += taken;
        }
        pair.pass(50_000_000);
        got[0].extend(pair.read_b(server));
        got[1].extend(pair.read_a(client));
        if got[0].len() == texts[0].len() && got[1].len() == texts[1].len() {
            break;
        }
    }
    assert!(got[0] == texts[0], "{} of {} octets arrived at b", got[0].len(), texts[0].len());
    assert!(got[1] == texts[1], "{} of {} octets arrived at a", got[1].len(), texts[1].len());
    pair.a().close(client).unwrap();
    pair.pass(100_000_000);
    pair.b().close(server).unwrap();
    pair.pass(100_000_000_000);
    assert_eq!(pair.a.connections() + pair.b.connections(), 0);
    assert_eq!(pair.pool.available(), pair.pool.capacity());
}

/// Both ends' data arrives, every acknowledgment is lost, and both go back to their first octet: an acknowledgment must
/// still carry a sequence number that the other end accepts.
#[test]
fn two_ends_that_both_timed_out_still_hear_each_other() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
    let texts = [pattern(6000, 1), pattern(6000, 2)];
    let sent = [pair.a().send(client, &texts[0]).unwrap(), pair.b().send(server, &texts[1]).unwrap()];
    pair.poll_a();
    pair.poll_b();
    // The data arrives; the answers do not.
    pair.poll_a();
    lose(&mut pair, Side::A);
    lose(&mut pair, Side::B);
    pair.poll_b();
    lose(&mut pair, Side::A);
    for _ in 0..400 {
        pass(&mut pair, 2);
        pair.poll_a();
        pair.poll_b();
        lose(&mut pair, Side::A);
        lose(&mut pair, Side::B);
    }
    assert!(pair.a().info(client).unwrap().timeouts > 0 && pair.b().info(server).unwrap().timeouts > 0);
    carry(&mut pair, (client, server), [&texts[0], &texts[1]], [Vec::new(), Vec::new()], sent);
}

/// A receive buffer that holds less than a segment opens its window by half of itself.
#[test]
fn a_buffer_smaller_than_a_segment_opens_its_window() {
    let small = |host| {
        let mut config = config(host);
        config.receive_buffer = 4096;
        config.send_buffer = 4096;
        config
    };
    let mut pair = Pair::with(small(1), small(2), 9000);
    let ends = pair.connect();
    let texts = [pattern(30_000, 1), pattern(30_000, 2)];
    carry(&mut pair, ends, [&texts[0], &texts[1]], [Vec::new(), Vec::new()], [0, 0]);
}

/// Both readers sleep until both windows are closed and both senders probe; then both read.
#[test]
fn two_ends_that_both_probe_still_hear_each_other() {
    for millis in [10, 300, 5_000, 60_000] {
        let tiny = |host| {
            let mut config = config(host);
            config.receive_buffer = 4096;
            config
        };
        let mut pair = Pair::with(tiny(1), tiny(2), 1500);
        let (client, server) = pair.connect();
        let texts = [pattern(20_000, 1), pattern(20_000, 2)];
        let sent = [pair.a().send(client, &texts[0]).unwrap(), pair.b().send(server, &texts[1]).unwrap()];
        pair.pass(millis * 1_000_000);
        let steps = pair.a.counters().frames_in;
        assert!(steps < 400, "{steps} frames while nobody reads");
        carry(&mut pair, (client, server), [&texts[0], &texts[1]], [Vec::new(), Vec::new()], sent);
    }
}

/// The peer's window takes the front of a segment and closes: the rest is probed for and sent from where it ends.
#[test]
fn a_segment_that_was_taken_in_part_goes_on_behind_that_part() {
    for window in [4096, 4100, 5000, 5800] {
        let tiny = |host| {
            let mut config = config(host);
            config.receive_buffer = window;
            config
        };
        let mut pair = Pair::with(config(1), tiny(2), 1500);
        let (client, server) = pair.connect();
        let text = pattern(30_000, 1);
        let mut sent = pair.a().send(client, &text).unwrap();
        let mut got = Vec::new();
        for round in 0..400 {
            // What is sent is lost now and then, so that whole segments go again into what is left of the window.
            pair.poll_a();
            if round % 3 == 1 {
                lose(&mut pair, Side::B);
            }
            pair.poll_b();
            if round % 5 == 2 {
                lose(&mut pair, Side::A);
            }
            pass(&mut pair, 37);
            let mut buffer = [0; 700];
            if round % 4 == 0
                && let Ok(tollgate_stack::Received::Data(n)) = pair.b().receive(server, &mut buffer)
            {
                got.extend_from_slice(&buffer[..n]);
            }
            let in_flight = pair.a().info(client).unwrap().in_flight;
            assert!(in_flight <= 6000, "{in_flight} octets are in flight");
            if let Ok(taken) = pair.a().send(client, &text[sent..]) {
                sent += taken;
            }
        }
        carry(&mut pair, (client, server), [&text, &[]], [got, Vec::new()], [sent, 0]);
    }
}
