//! A link that has no room: nobody asks it without a pause, and nobody sleeps for ever.

mod common;

use common::{Pair, pattern};
use std::net::Ipv4Addr;
use tollgate_link::Side;
use tollgate_stack::{Frame, Link, Pool};

/// Nanoseconds of a tick of the stack's timers.
const TICK: u64 = 1 << 20;
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// A link that takes `room` frames and throws them away; nothing arrives.
struct Narrow {
    room: usize,
    asked: usize,
}

impl Link for Narrow {
    fn mtu(&self) -> usize {
        common::MTU
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.asked += 1;
        for frame in frames.drain(..self.room.min(frames.len())) {
            self.room -= 1;
            pool.release(frame.id);
        }
    }

    fn receive(&mut self, _pool: &mut Pool, _frames: &mut Vec<Frame>) {}
}

/// A host that knows its neighbour and has `frames` frames queued for the link.
fn host(frames: u16) -> Pair {
    let mut pair = Pair::new();
    let mac = pair.b.config().mac;
    pair.a().add_neighbour(B, mac);
    ping(&mut pair, frames);
    pair
}

fn ping(pair: &mut Pair, frames: u16) {
    for n in 0..frames {
        pair.a().ping(B, 1, n, b"x").unwrap();
    }
}

fn deadline(pair: &Pair) -> Option<u64> {
    let deadline = pair.a.next_deadline(pair.now)?;
    Some(deadline.nanos_since(pair.now))
}

#[test]
fn frames_that_no_link_was_asked_for_are_due_now() {
    let pair = host(3);
    assert_eq!(deadline(&pair), Some(0));
    assert!(!pair.a.wants_link());
}

#[test]
fn full_link_is_asked_again_a_tick_later() {
    let asks: [fn(&mut Pair, &mut Narrow); 2] = [
        |pair, link| pair.a.at(pair.now, &mut pair.pool).poll(link),
        |pair, link| pair.a.at(pair.now, &mut pair.pool).flush(link),
    ];
    for ask in asks {
        let mut pair = host(3);
        let mut link = Narrow { room: 1, asked: 0 };
        for _ in 0..3 {
            ask(&mut pair, &mut link);
            assert_eq!(pair.a.device_queue_len(), 2);
            assert!(pair.a.wants_link());
            let later = deadline(&pair).unwrap();
            assert!((1..=TICK).contains(&later), "{later} ns");
            pair.now = pair.a.next_deadline(pair.now).unwrap();
            assert_eq!(deadline(&pair), Some(0));
        }
        // Room for one more, and then for all.
        link.room = 1;
        ask(&mut pair, &mut link);
        assert_eq!(pair.a.device_queue_len(), 1);
        assert_ne!(deadline(&pair), Some(0));
        link.room = 9;
        ask(&mut pair, &mut link);
        assert!(!pair.a.wants_link());
        assert_ne!(deadline(&pair), Some(0));
        // What comes in the same tick is due at once.
        ping(&mut pair, 1);
        assert_eq!(deadline(&pair), Some(0));
        assert!(!pair.a.wants_link());
    }
}

#[test]
fn dead_link_is_asked_once_in_a_tick() {
    let mut pair = host(3);
    let mut link = Narrow { room: 0, asked: 0 };
    let end = pair.now.as_nanos() + 100 * TICK;
    let mut polls = 0;
    while pair.now.as_nanos() < end {
        pair.a.at(pair.now, &mut pair.pool).poll(&mut link);
        polls += 1;
        let next = pair.a.next_deadline(pair.now).unwrap();
        assert!(next > pair.now);
        pair.now = next;
    }
    assert!((100..=101).contains(&polls), "{polls}");
    // A poll asks before it receives and after it.
    assert!(link.asked <= 2 * polls);
}

#[test]
fn output_that_waited_for_room_is_due_now() {
    let mut pair = Pair::new();
    let (client, _) = pair.connect();
    let data = pattern(200_000, 1);
    assert_eq!(pair.a().send(client, &data), Ok(data.len()));
    // More than the cable holds is in the device queue.
    pair.settle();
    pair.pass(200_000_000);
    let mut queue = pair.a.device_queue_len();
    assert_eq!(queue, 0);
    let mut narrow = Narrow { room: 0, asked: 0 };
    ping(&mut pair, 256);
    assert_eq!(pair.a().send(client, &data[..4000]), Ok(4000));
    let now = pair.now;
    pair.a.at(now, &mut pair.pool).poll(&mut narrow);
    assert!(pair.a.wants_link());
    assert_ne!(deadline(&pair), Some(0));
    // All of it goes; what the connection had to hold back follows into the queue, and nobody has refused that.
    narrow.room = 256;
    pair.a.at(now, &mut pair.pool).flush(&mut narrow);
    queue = pair.a.device_queue_len();
    assert!(queue > 0);
    assert!(!pair.a.wants_link());
    assert_eq!(deadline(&pair), Some(0));
    pair.a
        .at(now, &mut pair.pool)
        .poll(&mut pair.cable.end(Side::A));
    assert_eq!(pair.a.device_queue_len(), 0);
    // Nothing is left that the link could be asked for.
    assert_ne!(deadline(&pair), Some(0));
}
