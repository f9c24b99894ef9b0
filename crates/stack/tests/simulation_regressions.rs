//! Failures that the simulation found, replayed by hand: each of these once hung for ever or lost its count.

mod common;

use common::{Pair, config, pattern};
use tollgate_link::Side;
use tollgate_stack::config::{Nagle, RetransmitCopy, TailProbe};
use tollgate_stack::{ConnId, Instant, Link};

/// Throws away what is on its way to a host.
fn lose(pair: &mut Pair, to: Side) {
    let mut frames = Vec::new();
    pair.cable.end(to).receive(&mut pair.pool, &mut frames);
    for frame in frames {
        pair.pool.release(frame.id);
    }
}

/// Throws away what is on its way to a host and carries nothing.
fn lose_answers(pair: &mut Pair, to: Side) {
    const HEADERS: u16 = 66;
    let mut frames = Vec::new();
    pair.cable.end(to).receive(&mut pair.pool, &mut frames);
    let (mut full, empty): (Vec<_>, Vec<_>) =
        frames.into_iter().partition(|frame| frame.len > HEADERS);
    for frame in empty {
        pair.pool.release(frame.id);
    }
    pair.cable
        .end(to.other())
        .transmit(&mut pair.pool, &mut full);
}

fn pass(pair: &mut Pair, millis: u64) {
    pair.now = Instant::from_nanos(pair.now.as_nanos() + millis * 1_000_000);
}

/// Sends what is left in both directions, reads both, and says that everything came.
fn carry(
    pair: &mut Pair,
    (client, server): (ConnId, ConnId),
    texts: [&[u8]; 2],
    mut got: [Vec<u8>; 2],
    mut sent: [usize; 2],
) {
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
    assert!(
        got[0] == texts[0],
        "{} of {} bytes arrived at b",
        got[0].len(),
        texts[0].len()
    );
    assert!(
        got[1] == texts[1],
        "{} of {} bytes arrived at a",
        got[1].len(),
        texts[1].len()
    );
    pair.a().close(client).unwrap();
    pair.pass(100_000_000);
    pair.b().close(server).unwrap();
    pair.pass(100_000_000_000);
    assert_eq!(pair.a.connections() + pair.b.connections(), 0);
    assert_eq!(pair.pool.available(), pair.pool.capacity());
}

/// Both ends' data arrives, every acknowledgment is lost, and both go back to their first byte: an acknowledgment must
/// still carry a sequence number that the other end accepts.
#[test]
fn two_ends_that_both_timed_out_still_hear_each_other() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
    let texts = [pattern(4 * 1448, 1), pattern(4 * 1448, 2)];
    let sent = [
        pair.a().send(client, &texts[0]).unwrap(),
        pair.b().send(server, &texts[1]).unwrap(),
    ];
    // The data of both crosses and arrives; the answers do not.
    pair.poll_b();
    pair.poll_a();
    lose_answers(&mut pair, Side::B);
    pair.poll_b();
    lose(&mut pair, Side::A);
    let heard = |info: tollgate_stack::Info| (info.bytes_received, info.bytes_acknowledged);
    assert_eq!(heard(pair.a().info(client).unwrap()), (4 * 1448, 0));
    assert_eq!(heard(pair.b().info(server).unwrap()), (4 * 1448, 0));
    for _ in 0..400 {
        pass(&mut pair, 2);
        pair.poll_a();
        pair.poll_b();
        lose(&mut pair, Side::A);
        lose(&mut pair, Side::B);
    }
    assert!(
        pair.a().info(client).unwrap().timeouts > 0 && pair.b().info(server).unwrap().timeouts > 0
    );
    carry(
        &mut pair,
        (client, server),
        [&texts[0], &texts[1]],
        [Vec::new(), Vec::new()],
        sent,
    );
}

/// A receive buffer that holds less than a segment opens its window by half of itself.
#[test]
fn a_buffer_smaller_than_a_segment_opens_its_window() {
    let small = |host| {
        let mut config = config(host);
        config.receive_buffer = 4096;
        config.max_receive_buffer = 0;
        config.send_buffer = 4096;
        config
    };
    let mut pair = Pair::with(small(1), small(2), 9000);
    let ends = pair.connect();
    let texts = [pattern(30_000, 1), pattern(30_000, 2)];
    carry(
        &mut pair,
        ends,
        [&texts[0], &texts[1]],
        [Vec::new(), Vec::new()],
        [0, 0],
    );
}

/// Both readers sleep until both windows are closed and both senders probe; then both read.
#[test]
fn two_ends_that_both_probe_still_hear_each_other() {
    for millis in [10, 300, 5_000, 60_000] {
        let tiny = |host| {
            let mut config = config(host);
            config.receive_buffer = 4096;
            config.max_receive_buffer = 0;
            config
        };
        let mut pair = Pair::with(tiny(1), tiny(2), 1500);
        let (client, server) = pair.connect();
        let texts = [pattern(20_000, 1), pattern(20_000, 2)];
        let sent = [
            pair.a().send(client, &texts[0]).unwrap(),
            pair.b().send(server, &texts[1]).unwrap(),
        ];
        pair.pass(millis * 1_000_000);
        let steps = pair.a.counters().frames_in;
        assert!(steps < 400, "{steps} frames while nobody reads");
        carry(
            &mut pair,
            (client, server),
            [&texts[0], &texts[1]],
            [Vec::new(), Vec::new()],
            sent,
        );
    }
}

/// A segment grows while it waits to be sent again, and the peer, whose window is closed now, acknowledges what it was
/// before: the rest is probed for, and sent, from where that ends.
#[test]
fn a_segment_that_is_acknowledged_in_part_goes_on_behind_that_part() {
    let mut sender = config(1);
    // Frames that the reader holds are not the sender's, so that the sender may put more into them.
    sender.mechanisms.retransmit = RetransmitCopy::Copy;
    sender.mechanisms.nagle = Nagle::Off;
    // The timeout is what sends again.
    sender.mechanisms.tail_probe = TailProbe::Off;
    let mut reader = config(2);
    reader.receive_buffer = 4096;
    let mut pair = Pair::with(sender, reader, 1500);
    let (client, server) = pair.connect();
    let text = pattern(4146, 1);
    let writes = [0..1448, 1448..2896, 2896..3996, 3996..4096];
    for write in writes {
        let len = write.len();
        assert_eq!(pair.a().send(client, &text[write]), Ok(len));
    }
    pair.poll_a();
    pair.poll_b();
    lose(&mut pair, Side::A);
    // The timeout: only the first segment goes again, and the last one takes up fifty bytes more.
    for _ in 0..400 {
        pass(&mut pair, 1);
        pair.poll_a();
        if pair.cable.waiting_for(Side::B) != 0 {
            break;
        }
    }
    assert_eq!(pair.a().info(client).unwrap().timeouts, 1);
    assert_eq!(pair.a().send(client, &text[4096..]), Ok(50));
    pair.settle();
    let info = pair.a().info(client).unwrap();
    assert_eq!((info.bytes_acknowledged, info.send_window), (4096, 0));
    assert_eq!((info.in_flight, info.unsent), (0, 50));
    pair.pass(3_000_000_000);
    let info = pair.a().info(client).unwrap();
    assert_eq!((info.in_flight, info.unsent), (1, 49));
    carry(
        &mut pair,
        (client, server),
        [&text, &[]],
        [Vec::new(), Vec::new()],
        [4146, 0],
    );
}

/// A probe goes back to the first byte that is not acknowledged; what it acknowledges is news all the same, and so is
/// its window. Nothing may be sent into a window that has closed in the meantime.
#[test]
fn the_window_of_a_probe_counts_when_it_acknowledges_more() {
    let tiny = |host| {
        let mut config = config(host);
        config.receive_buffer = 4096;
        config.max_receive_buffer = 0;
        config.mechanisms.nagle = Nagle::Off;
        config
    };
    let mut pair = Pair::with(tiny(1), tiny(2), 1500);
    let (client, server) = pair.connect();
    let texts = [pattern(9000, 1), pattern(9000, 2)];
    let mut sent = [0, 0];
    // B closes A's window; A probes.
    sent[0] = pair.a().send(client, &texts[0]).unwrap();
    pair.pass(1_000_000_000);
    // A's window closes, too; what A says of that is lost, but for its probes.
    sent[1] = pair.b().send(server, &texts[1][..4096]).unwrap();
    pair.poll_b();
    pair.poll_a();
    lose(&mut pair, Side::B);
    pair.pass(4_000_000_000);
    assert_eq!(pair.b().info(server).unwrap().send_window, 0);
    if let Ok(taken) = pair.b().send(server, &texts[1][sent[1]..]) {
        sent[1] += taken;
    }
    carry(
        &mut pair,
        (client, server),
        [&texts[0], &texts[1]],
        [Vec::new(), Vec::new()],
        sent,
    );
}
