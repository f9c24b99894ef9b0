//! Buffers that grow with what a connection needs, and what bounds them.

use crate::peer::*;
use std::time::Duration;
use tollgate_stack::config::Tuning;
use tollgate_stack::{Config, ConnId, Info, ListenerId, SocketOption};

/// The round trip of these scripts, as the handshake shows it.
const ROUND_TRIP: Duration = Duration::from_millis(50);
/// Bytes that buffers begin with.
const SMALL: u32 = 64 * 1024;
const MOST: u32 = 1 << 20;

fn small(config: &mut Config) {
    config.window_scaling = true;
    config.send_buffer = SMALL;
    config.receive_buffer = SMALL;
    config.max_send_buffer = MOST;
    config.max_receive_buffer = MOST;
}

fn info(peer: &mut Peer, conn: ConnId) -> Info {
    peer.stack().info(conn).expect("it is there")
}

/// A connection from the peer's current port whose handshake took a round trip.
fn opened(peer: &mut Peer, listener: ListenerId) -> ConnId {
    peer.inject(syn().mss(MSS).scale(7));
    peer.expect(syn_ack().seq(0).ack(1));
    peer.advance(ROUND_TRIP);
    peer.inject(ack().seq(1).ack(1));
    peer.stack().accept(listener).expect("it is complete")
}

/// Fills the window once a round trip, `rounds` times; the application reads what `reads` says. Returns where the peer is.
fn fill(peer: &mut Peer, conn: ConnId, mut at: u32, rounds: u32, reads: bool) -> u32 {
    for _ in 0..rounds {
        let window = info(peer, conn).receive_window;
        for _ in 0..window / 1000 {
            peer.inject(ack().seq(at).ack(1).len(1000));
            at += 1000;
        }
        while reads && !peer.read(conn, 1 << 20).is_empty() {}
        peer.advance(ROUND_TRIP);
        peer.ignore();
    }
    at
}

#[test]
fn receive_buffer_grows_to_twice_what_is_read_in_a_round_trip() {
    let mut peer = Peer::with(small);
    let listener = peer.listen();
    let conn = opened(&mut peer, listener);
    let at = fill(&mut peer, conn, 1, 3, true);
    let grown = info(&mut peer, conn).receive_buffer;
    assert!(grown >= 3 * SMALL / 2, "{grown}");
    assert_eq!(peer.stack.grown_buffers(), u64::from(grown - SMALL));
    fill(&mut peer, conn, at, 16, true);
    let told = info(&mut peer, conn);
    assert_eq!(told.receive_buffer, MOST);
    // The peer is told.
    assert!(told.receive_window > MOST - 200_000, "{told:?}");
    assert_eq!(peer.stack().abort(conn), Ok(()));
    peer.ignore();
    assert_eq!(peer.stack.grown_buffers(), 0);
}

/// A window that is full since nobody reads is no reason to take more.
#[test]
fn receive_buffer_does_not_grow_while_nobody_reads() {
    let mut peer = Peer::with(small);
    let listener = peer.listen();
    let conn = opened(&mut peer, listener);
    fill(&mut peer, conn, 1, 8, false);
    assert_eq!(info(&mut peer, conn).receive_buffer, SMALL);
}

/// Slow senders need no more than they have.
#[test]
fn receive_buffer_does_not_grow_for_a_slow_sender() {
    let mut peer = Peer::with(small);
    let listener = peer.listen();
    let conn = opened(&mut peer, listener);
    for n in 0..200 {
        peer.inject(ack().seq(1 + 1000 * n).ack(1).len(1000));
        peer.advance(ROUND_TRIP);
        peer.ignore();
        peer.read(conn, 2000);
    }
    assert_eq!(info(&mut peer, conn).receive_buffer, SMALL);
}

#[test]
fn buffers_do_not_grow_where_tuning_is_off() {
    let mut peer = Peer::with(|config| {
        small(config);
        config.mechanisms.tuning = Tuning::Off;
    });
    let listener = peer.listen();
    let conn = opened(&mut peer, listener);
    fill(&mut peer, conn, 1, 8, true);
    assert_eq!(info(&mut peer, conn).receive_buffer, SMALL);
    let data = stream(1, 200_000);
    assert_eq!(peer.stack().send(conn, &data), Ok(SMALL as usize));
    peer.ignore();
    assert_eq!(peer.stack.grown_buffers(), 0);
}

/// Buffers have grown by a quarter of the pool's payload at most, whoever has it.
#[test]
fn buffers_share_a_quarter_of_the_pool() {
    let mut peer = Peer::with(small);
    peer.pool = tollgate_stack::Pool::new(512, tollgate_stack::Pool::frame_size_for(1500));
    let listener = peer.listen();
    let mut grown = Vec::new();
    for _ in 0..3 {
        let conn = opened(&mut peer, listener);
        fill(&mut peer, conn, 1, 10, true);
        grown.push(info(&mut peer, conn).receive_buffer - SMALL);
        peer.port += 1;
    }
    let share = 512 * 2048 / 4;
    let sum: u32 = grown.iter().sum();
    assert!(sum <= share && sum > share / 2, "{grown:?}");
    assert_eq!(u64::from(sum), peer.stack.grown_buffers());
    assert_eq!(grown[2], 0, "{grown:?}");
}

#[test]
fn send_buffer_grows_to_twice_the_window_when_the_application_is_refused() {
    let mut peer = Peer::with(|config| {
        small(config);
        config.send_buffer = 4096;
    });
    let listener = peer.listen();
    let conn = opened(&mut peer, listener);
    let data = stream(1, 500_000);
    // The initial window is ten segments.
    assert_eq!(peer.stack().send(conn, &data), Ok(20_000));
    peer.poll();
    assert_eq!(peer.drain().len(), 10);
    peer.inject(ack().seq(1).ack(10_001));
    let window = info(&mut peer, conn).congestion_window;
    assert!(window > 10_000, "the window has grown");
    let taken = peer
        .stack()
        .send(conn, &data[20_000..])
        .expect("there is room");
    peer.ignore();
    assert_eq!(info(&mut peer, conn).send_buffer, 2 * window);
    assert_eq!(20_000 - 10_000 + taken, 2 * window as usize);
}

#[test]
fn send_buffer_stays_as_the_application_has_chosen_it() {
    let mut peer = Peer::with(small);
    let listener = peer.listen();
    let conn = opened(&mut peer, listener);
    peer.stack()
        .set_option(conn, SocketOption::SendBuffer(5000))
        .expect("it is open");
    let data = stream(1, 50_000);
    assert_eq!(peer.stack().send(conn, &data), Ok(5000));
    peer.ignore();
    assert_eq!(info(&mut peer, conn).send_buffer, 5000);
}
