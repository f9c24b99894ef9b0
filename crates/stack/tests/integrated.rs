//! Copy and checksum in one pass (Wolman et al. 1994, 4.1.1): payload is summed once on its way out, whatever the sizes, and a
//! reader's posted buffer tells nothing of a segment that is damaged.

mod common;

use common::{PORT, config, pattern};
use std::net::SocketAddrV4;
use tollgate_stack::config::Nagle;
use tollgate_stack::counters::{Drop, Miss};
use tollgate_stack::{ConnId, Error, Frame, Instant, Link, Pool, Received, Stack};

/// An end of a wire that carries bytes, so that the hosts share no frame.
#[derive(Default)]
struct Wire {
    mtu: usize,
    to: Vec<Vec<u8>>,
    from: Vec<Vec<u8>>,
}

impl Link for Wire {
    fn mtu(&self) -> usize {
        self.mtu
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        for frame in frames.drain(..) {
            self.from.push(pool.frame(&frame).to_vec());
            pool.release(frame.id);
        }
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        // Where the pool is empty the frame is lost, as on any device.
        frames.extend(self.to.drain(..).flat_map(|raw| pool.frame_from(&raw)));
    }
}

/// A host with a pool of its own.
struct Host {
    stack: Stack,
    pool: Pool,
    wire: Wire,
}

impl Host {
    fn poll(&mut self, now: Instant) {
        self.stack.at(now, &mut self.pool).poll(&mut self.wire);
    }

    fn send(&mut self, now: Instant, conn: ConnId, data: &[u8]) -> Result<usize, Error> {
        self.stack.at(now, &mut self.pool).send(conn, data)
    }
}

/// A sender and a receiver, and an established connection.
struct Way {
    sender: Host,
    receiver: Host,
    conn: ConnId,
    peer: ConnId,
    now: Instant,
    frames: u64,
}

/// Setup of a way.
#[derive(Clone, Copy, Debug)]
struct Setup {
    mtu: usize,
    nagle: Nagle,
    receive_buffer: u32,
}

impl Way {
    fn new(setup: Setup) -> Self {
        let now = Instant::from_nanos(1 << 40);
        let [mut sender, mut receiver] = [1, 2].map(|host| {
            let mut config = config(host);
            config.mechanisms.nagle = setup.nagle;
            config.receive_buffer = setup.receive_buffer;
            Host {
                stack: Stack::new(config, setup.mtu, now).unwrap(),
                pool: Pool::new(1024, Pool::frame_size_for(setup.mtu)),
                wire: Wire {
                    mtu: setup.mtu,
                    ..Wire::default()
                },
            }
        });
        let mut active = receiver.stack.at(now, &mut receiver.pool);
        let listener = active.listen(PORT, 1).unwrap();
        let to = SocketAddrV4::new(receiver.stack.config().ip, PORT);
        let mut active = sender.stack.at(now, &mut sender.pool);
        let conn = active.connect(to).unwrap();
        let mut way = Self {
            sender,
            receiver,
            conn,
            peer: conn,
            now,
            frames: 0,
        };
        for _ in 0..4 {
            way.turn(|_| true);
        }
        let receiver = &mut way.receiver;
        let mut active = receiver.stack.at(now, &mut receiver.pool);
        way.peer = active.accept(listener).unwrap();
        way
    }

    /// Lets both hosts send and take in what there is, frames of the sender only where `arrives` says so of their number.
    fn turn(&mut self, arrives: impl Fn(u64) -> bool) {
        self.sender.poll(self.now);
        for frame in self.sender.wire.from.drain(..) {
            self.frames += 1;
            if arrives(self.frames) {
                self.receiver.wire.to.push(frame);
            }
        }
        self.receiver.poll(self.now);
        let receiver = &mut self.receiver;
        receiver
            .stack
            .at(self.now, &mut receiver.pool)
            .flush(&mut receiver.wire);
        self.sender.wire.to.append(&mut receiver.wire.from);
    }

    fn read(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut buffer = [0; 8192];
        let receiver = &mut self.receiver;
        let mut active = receiver.stack.at(self.now, &mut receiver.pool);
        while let Ok(Received::Data(n)) = active.receive(self.peer, &mut buffer) {
            out.extend_from_slice(&buffer[..n]);
        }
        out
    }

    /// Sends a stream by writes of `size` bytes while every `lost`th frame is lost, and holds it against what arrives.
    fn stream(&mut self, size: usize, total: usize, lost: u64) {
        let data = pattern(total, 7);
        let (mut written, mut read) = (0, 0);
        while read < total {
            for _ in 0..64 {
                let end = total.min((written / size + 1) * size);
                match self.sender.send(self.now, self.conn, &data[written..end]) {
                    Ok(taken) => written += taken,
                    Err(Error::WouldBlock) => break,
                    Err(error) => panic!("{error}"),
                }
                if written == total {
                    break;
                }
            }
            self.turn(|frame| lost == 0 || frame % lost != 0);
            let got = self.read();
            assert!(got == data[read..read + got.len()], "another byte came");
            read += got.len();
            // A few milliseconds, so that what is lost is sent again.
            self.now = Instant::from_nanos(self.now.as_nanos() + 7_000_000);
        }
    }
}

/// Bytes of a stream by writes of a size over links of an MTU.
fn total(mtu: usize, size: usize) -> usize {
    (40 * mtu)
        .clamp(3000, 120_000)
        .min(3000 * size)
        .max(3 * size)
}

#[test]
fn bytes_are_summed_once_on_send_whatever_the_sizes() {
    let mut again = Vec::new();
    let mut retransmits = 0;
    for mtu in [68, 296, 576, 1500, 4352, 9000] {
        for size in [
            1, 2, 3, 7, 16, 64, 107, 108, 109, 536, 1000, 1024, 1447, 1448, 1449, 2896, 4096, 5000,
            8192, 16_384, 65_535, 65_536,
        ] {
            for (nagle, lost) in [
                (Nagle::On, 0),
                (Nagle::Off, 0),
                (Nagle::On, 9),
                (Nagle::Off, 9),
            ] {
                let mut way = Way::new(Setup {
                    mtu,
                    nagle,
                    receive_buffer: 256 * 1024,
                });
                let total = total(mtu, size);
                way.stream(size, total, lost);
                let counters = way.sender.stack.counters();
                assert_eq!(way.sender.stack.summed(), total as u64);
                let twice = counters.summed_again as f64 / total as f64;
                assert!(
                    twice <= 0.01,
                    "MTU {mtu}, writes of {size}, {nagle:?}: {twice}"
                );
                again.push(counters.summed_again);
                retransmits += counters.retransmits;
                assert_eq!(way.receiver.stack.counters().drops(Drop::Checksum), 0);
            }
        }
    }
    assert!(retransmits > 1000, "{retransmits} segments were sent again");
}

#[test]
fn segments_that_a_window_cuts_are_summed_by_the_shorter_part() {
    let mut way = Way::new(Setup {
        mtu: 9000,
        nagle: Nagle::Off,
        receive_buffer: 4096,
    });
    way.stream(60_001, 120_002, 13);
    let counters = way.sender.stack.counters();
    assert_eq!(way.receiver.stack.counters().drops(Drop::Checksum), 0);
    assert_eq!(way.sender.stack.summed(), 120_002);
    assert!(counters.summed_again > 0, "no segment was cut");
    // A segment of 8,948 bytes is cut at 4,096 and at 8,192: 4,096 and 756 bytes are summed again, not all and then the rest.
    let share = counters.summed_again as f64 / 120_002.0;
    assert!(share < 0.6, "{share}");
}

#[test]
fn connections_that_are_over_are_still_counted() {
    let mut way = Way::new(Setup {
        mtu: 1500,
        nagle: Nagle::On,
        receive_buffer: 65_536,
    });
    way.stream(1000, 5000, 0);
    let (now, conn) = (way.now, way.conn);
    way.sender
        .stack
        .at(now, &mut way.sender.pool)
        .close(conn)
        .unwrap();
    for _ in 0..3 {
        way.turn(|_| true);
    }
    let (now, peer) = (way.now, way.peer);
    way.receiver
        .stack
        .at(now, &mut way.receiver.pool)
        .close(peer)
        .unwrap();
    for _ in 0..3 {
        way.turn(|_| true);
    }
    assert_eq!(way.sender.stack.connections(), 0);
    assert_eq!(way.sender.stack.summed(), 5000);
    assert_eq!(way.receiver.stack.summed(), 0);
}

#[test]
fn damaged_segment_leaves_the_posted_readers_count_and_draws_no_acknowledgment() {
    for at in [66, 67, 100, 565] {
        let mut way = Way::new(Setup {
            mtu: 1500,
            nagle: Nagle::Off,
            receive_buffer: 65_536,
        });
        let data = pattern(500, 3);
        assert_eq!(way.sender.send(way.now, way.conn, &data), Ok(500));
        way.sender.poll(way.now);
        let [sent] = &way.sender.wire.from[..] else {
            panic!("one frame was sent");
        };
        let mut damaged = sent.clone();
        damaged[at] ^= 0x20;
        way.sender.wire.from.clear();
        way.receiver.wire.to.push(damaged);
        let mut buffer = [0xee; 2000];
        let receiver = &mut way.receiver;
        let mut active = receiver.stack.at(way.now, &mut receiver.pool);
        let found = active.poll_receive(&mut receiver.wire, way.peer, &mut buffer);
        assert_eq!(found, Ok(Received::Nothing));
        let info = active.info(way.peer).unwrap();
        assert_eq!(info.bytes_received, 0);
        assert_eq!(receiver.stack.counters().misses(Miss::Checksum), 1);
        assert_eq!(receiver.stack.counters().drops(Drop::Checksum), 1);
        // Not at once, and not with the delayed acknowledgments.
        for _ in 0..10 {
            way.receiver.poll(way.now);
            assert!(way.receiver.wire.from.is_empty());
            way.now = Instant::from_nanos(way.now.as_nanos() + 10_000_000);
        }
        // The segment comes again, and then whole.
        let mut got = 0;
        for _ in 0..100 {
            way.sender.poll(way.now);
            way.receiver.wire.to.append(&mut way.sender.wire.from);
            let receiver = &mut way.receiver;
            let mut active = receiver.stack.at(way.now, &mut receiver.pool);
            let room = &mut buffer[got..];
            if let Received::Data(more) = active
                .poll_receive(&mut receiver.wire, way.peer, room)
                .unwrap()
            {
                got += more;
            }
            way.now = Instant::from_nanos(way.now.as_nanos() + 10_000_000);
        }
        assert_eq!(got, 500);
        assert!(buffer[..500] == data);
        assert_eq!(way.sender.stack.counters().summed_again, 0);
    }
}
