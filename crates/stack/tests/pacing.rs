//! Pacing over a path of some length, between two hosts, in virtual time.

mod common;

use common::config;
use common::path::Path;
use std::time::Duration;
use tollgate_link::fault::Faults;
use tollgate_stack::config::Pacing;
use tollgate_stack::{Error, Received};

/// Nanoseconds of a tick of the stack: its timers fire at most so late.
const TICK: u64 = 1 << 20;

/// A sender and a receiver that reads whatever comes.
struct World(Path);

impl World {
    /// A connection over a path whose round trip takes `round_trip`.
    fn new(pacing: Pacing, round_trip: Duration) -> Self {
        let faults = Faults {
            delay: round_trip / 2,
            limit: 8192,
            ..Faults::default()
        };
        let host = |n| {
            let mut config = config(n);
            config.mechanisms.pacing = pacing;
            (config.send_buffer, config.receive_buffer) = (1 << 20, 1 << 20);
            (config, config.ip.into())
        };
        Self(Path::new([host(1), host(2)], [faults; 2], 1))
    }

    /// Does what is to be done now.
    fn work(&mut self) {
        for _ in 0..100 {
            self.0.poll();
            let mut buffer = [0; 65_536];
            if let Some(conn) = self.0.accepted {
                let mut active = self.0.receiver.stack.at(self.0.now, &mut self.0.pool);
                while let Ok(Received::Data(_)) = active.receive(conn, &mut buffer) {}
            }
        }
    }

    /// Lets time pass, from one event to the next.
    fn pass(&mut self, time: Duration) {
        let end = self.0.now + time;
        while self.0.now < end {
            self.work();
            let next = self.0.next_event().unwrap_or(end);
            assert!(next > self.0.now, "an event of the past");
            self.0.now = next.min(end);
        }
        self.work();
        self.0.sender.stack.check_consistency(&self.0.pool).unwrap();
    }

    /// Fills the send buffer.
    fn fill(&mut self) {
        let mut active = self.0.sender.stack.at(self.0.now, &mut self.0.pool);
        loop {
            match active.send(self.0.conn, &[7; 16_384]) {
                Ok(_) => {}
                Err(Error::WouldBlock) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
        active.flush(&mut self.0.sender.link);
    }

    /// Bytes that are sent in each of `ticks` ticks.
    fn sent_in(&mut self, ticks: usize) -> Vec<u64> {
        let mut sent = Vec::new();
        for _ in 0..ticks {
            let before = self.0.info().bytes_sent;
            self.fill();
            self.pass(Duration::from_nanos(TICK));
            sent.push(self.0.info().bytes_sent - before);
        }
        sent
    }
}

/// Without it what was sent together stays together, since its acknowledgments come together.
#[test]
fn window_is_spread_over_the_round_trip() {
    for (pacing, spread) in [(Pacing::On, true), (Pacing::Off, false)] {
        let mut world = World::new(pacing, Duration::from_millis(20));
        world.pass(Duration::from_millis(30));
        world.sent_in(120);
        let rate = world.0.info().pacing_rate;
        assert_eq!(rate.is_some(), spread);
        let sent = world.sent_in(19);
        let idle = sent.iter().filter(|&&bytes| bytes == 0).count();
        // In slow start a window goes in half of a round trip.
        assert_eq!(idle <= 9, spread, "{pacing:?}: {sent:?}");
        if let Some(rate) = rate {
            // The rate grows meanwhile, and a tick's worth may have been left over.
            let most = 2 * rate * TICK / 1_000_000_000 + 4 * 1448;
            assert!(sent.iter().all(|&bytes| bytes <= most), "{most}: {sent:?}");
        }
    }
}

#[test]
fn short_path_is_not_paced() {
    let mut world = World::new(Pacing::On, Duration::from_millis(1));
    world.pass(Duration::from_millis(3));
    world.sent_in(40);
    let info = world.0.info();
    assert!(info.congestion_window > 20 * 1448, "{info:?}");
    assert_eq!(info.pacing_rate, None);
}

/// RFC 5681, 4.1: after a timeout's time of silence the window is the initial one, which may go at once.
#[test]
fn silence_ends_pacing_with_the_large_window() {
    let mut world = World::new(Pacing::On, Duration::from_millis(20));
    world.pass(Duration::from_millis(30));
    world.sent_in(120);
    assert!(world.0.info().pacing_rate.is_some());
    world.pass(Duration::from_secs(3));
    let info = world.0.info();
    assert_eq!((info.in_flight, info.pacing_rate), (0, None));
    let sent = world.sent_in(1);
    assert_eq!(sent, [10 * 1448]);
}
