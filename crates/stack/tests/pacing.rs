//! Pacing over a path of some length, between two hosts, in virtual time.

mod common;

use common::{PORT, config};
use std::time::Duration;
use tollgate_link::fault::{Fault, Faults};
use tollgate_link::memory::OwnedEnd;
use tollgate_stack::config::Pacing;
use tollgate_stack::{ConnId, Error, Event, Info, Instant, Pool, Received, Stack};

const MTU: usize = 1500;
/// Nanoseconds of a tick of the stack: its timers fire at most so late.
const TICK: u64 = 1 << 20;

struct Host {
    stack: Stack,
    link: Fault<OwnedEnd>,
}

/// A sender and a receiver that reads whatever comes.
struct World {
    sender: Host,
    receiver: Host,
    pool: Pool,
    now: Instant,
    conn: ConnId,
    accepted: Option<ConnId>,
}

impl World {
    /// A connection over a path whose round trip takes `round_trip`.
    fn new(pacing: Pacing, round_trip: Duration) -> Self {
        let now = Instant::from_nanos(1 << 40);
        let [near, far] = OwnedEnd::pair(MTU, 8192);
        let faults = Faults {
            delay: round_trip / 2,
            limit: 8192,
            ..Faults::default()
        };
        let host = |n, end, seed| {
            let mut config = config(n);
            config.mechanisms.pacing = pacing;
            (config.send_buffer, config.receive_buffer) = (1 << 20, 1 << 20);
            Host {
                stack: Stack::new(config, MTU, now).unwrap(),
                link: Fault::on_transmit(end, faults, seed),
            }
        };
        let (mut sender, mut receiver) = (host(1, near, 1), host(2, far, 2));
        let mut pool = Pool::new(16_384, Pool::frame_size_for(MTU));
        receiver.stack.at(now, &mut pool).listen(PORT, 4).unwrap();
        let to = (config(2).ip, PORT);
        let conn = sender.stack.at(now, &mut pool).connect(to).unwrap();
        Self {
            sender,
            receiver,
            pool,
            now,
            conn,
            accepted: None,
        }
    }

    /// Does what is to be done now.
    fn work(&mut self) {
        for _ in 0..100 {
            for host in [&mut self.sender, &mut self.receiver] {
                host.link.set_now(self.now);
                host.link.poll(&mut self.pool);
            }
            for host in [&mut self.sender, &mut self.receiver] {
                host.stack.at(self.now, &mut self.pool).poll(&mut host.link);
            }
            let mut active = self.receiver.stack.at(self.now, &mut self.pool);
            while let Some(event) = active.next_event() {
                if let Event::Listener { listener, .. } = event {
                    self.accepted = active.accept(listener).ok();
                }
            }
            let mut buffer = [0; 65_536];
            if let Some(conn) = self.accepted {
                while let Ok(Received::Data(_)) = active.receive(conn, &mut buffer) {}
            }
        }
    }

    /// Lets time pass, from one event to the next.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.work();
            let hosts = [&self.sender, &self.receiver];
            let events = hosts.map(|host| {
                let events = [host.stack.next_deadline(self.now), host.link.next_event()];
                events.into_iter().flatten().min()
            });
            let next = events.into_iter().flatten().min().unwrap_or(end);
            assert!(next > self.now, "an event of the past");
            self.now = next.min(end);
        }
        self.work();
        self.sender.stack.check_consistency(&self.pool).unwrap();
    }

    /// Fills the send buffer.
    fn fill(&mut self) {
        let mut active = self.sender.stack.at(self.now, &mut self.pool);
        loop {
            match active.send(self.conn, &[7; 16_384]) {
                Ok(_) => {}
                Err(Error::WouldBlock) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
        active.flush(&mut self.sender.link);
    }

    fn info(&mut self) -> Info {
        let active = self.sender.stack.at(self.now, &mut self.pool);
        active.info(self.conn).unwrap()
    }

    /// Bytes that are sent in each of `ticks` ticks.
    fn sent_in(&mut self, ticks: usize) -> Vec<u64> {
        let mut sent = Vec::new();
        for _ in 0..ticks {
            let before = self.info().bytes_sent;
            self.fill();
            self.pass(Duration::from_nanos(TICK));
            sent.push(self.info().bytes_sent - before);
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
        let rate = world.info().pacing_rate;
        assert_eq!(rate.is_some(), spread);
        let sent = world.sent_in(19);
        let idle = sent.iter().filter(|&&bytes| bytes == 0).count();
        assert_eq!(idle <= 4, spread, "{pacing:?}: {sent:?}");
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
    let info = world.info();
    assert!(info.congestion_window > 20 * 1448, "{info:?}");
    assert_eq!(info.pacing_rate, None);
}

/// RFC 5681, 4.1: after a timeout's time of silence the window is the initial one, which may go at once.
#[test]
fn silence_ends_pacing_with_the_large_window() {
    let mut world = World::new(Pacing::On, Duration::from_millis(20));
    world.pass(Duration::from_millis(30));
    world.sent_in(120);
    assert!(world.info().pacing_rate.is_some());
    world.pass(Duration::from_secs(3));
    let info = world.info();
    assert_eq!((info.in_flight, info.pacing_rate), (0, None));
    let sent = world.sent_in(1);
    assert_eq!(sent, [10 * 1448]);
}
