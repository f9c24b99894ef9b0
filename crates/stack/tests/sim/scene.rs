//! Two hosts with a connection that streams while others do harm.
#![allow(dead_code)]

use crate::common::{self, Pair, config, pattern};
use crate::craft;
use std::net::Ipv4Addr;
use tollgate_link::Side;
use tollgate_stack::{Config, ConnId, Instant, Link, Pool, SocketOption};
use tollgate_wire::ethernet::MacAddr;
use tollgate_wire::tcp::Header;

/// The place where the honest client is.
pub const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The place where the server is.
pub const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The client's link address.
pub const MAC_A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// The server's link address.
pub const MAC_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// Two hosts with a connection that streams while others do harm.
pub struct Scene {
    pub pair: Pair,
    pub client: ConnId,
    pub server: ConnId,
    pub sent: Vec<u8>,
    pub got: Vec<u8>,
}

impl Scene {
    pub fn new(b: Config, frames: usize) -> Self {
        let mut pair = Pair::with(config(1), b, common::MTU);
        pair.pool = Pool::new(frames, Pool::frame_size_for(common::MTU));
        let (client, server) = pair.connect();
        pair.a()
            .set_option(client, SocketOption::NoDelay(true))
            .expect("the connection is there");
        Self {
            pair,
            client,
            server,
            sent: Vec::new(),
            got: Vec::new(),
        }
    }

    /// Puts frames on the wire towards a host.
    pub fn inject(&mut self, to: Side, frames: &[Vec<u8>]) {
        let mut burst: Vec<_> = frames
            .iter()
            .filter_map(|bytes| self.pair.pool.frame_from(bytes).ok())
            .collect();
        while !burst.is_empty() {
            self.pair
                .cable
                .end(to.other())
                .transmit(&mut self.pair.pool, &mut burst);
            match to {
                Side::A => self.pair.poll_a(),
                Side::B => self.pair.poll_b(),
            }
        }
    }

    /// Sends a little more on the connection, lets a little time pass, and reads what has arrived.
    pub fn stream(&mut self, bytes: usize) {
        let data = pattern(bytes, self.sent.len() as u8);
        if let Ok(taken) = self.pair.a().send(self.client, &data) {
            self.sent.extend_from_slice(&data[..taken]);
        }
        self.pair.now = Instant::from_nanos(self.pair.now.as_nanos() + 100_000);
        self.pair.settle();
        let read = self.pair.read_b(self.server);
        self.got.extend(read);
    }

    /// Waits for everything and says that nothing is missing; closes, and says that every frame came back.
    pub fn ends_well(mut self) {
        for _ in 0..200 {
            if self.got.len() == self.sent.len() {
                break;
            }
            self.pair.pass(100_000_000);
            let read = self.pair.read_b(self.server);
            self.got.extend(read);
        }
        assert!(
            self.got == self.sent,
            "{} bytes of {} arrived",
            self.got.len(),
            self.sent.len()
        );
        assert_eq!(self.pair.a().close(self.client), Ok(()));
        self.pair.pass(100_000_000);
        assert_eq!(self.pair.b().close(self.server), Ok(()));
        self.give_up();
    }

    /// Lets everything time out, and says that every frame came back.
    pub fn give_up(mut self) {
        self.pair.pass(1_200_000_000_000);
        assert_eq!(
            (self.pair.a.connections(), self.pair.b.connections()),
            (0, 0)
        );
        assert_eq!(self.pair.pool.available(), self.pair.pool.capacity());
    }

    /// The header of the next segment that A sends to B: where the connection stands. One byte is sent for it.
    pub fn overhear(&mut self) -> Header {
        // Nothing is in flight that an answer could be about.
        self.pair.pass(100_000_000);
        self.pair
            .a()
            .send(self.client, b"!")
            .expect("there is room");
        self.sent.push(b'!');
        self.pair.poll_a();
        let mut frames = Vec::new();
        self.pair
            .cable
            .end(Side::B)
            .receive(&mut self.pair.pool, &mut frames);
        let (_, header, _) = frames
            .iter()
            .find_map(|f| craft::parse_tcp(self.pair.pool.frame(f)))
            .expect("a segment");
        self.pair
            .cable
            .end(Side::A)
            .transmit(&mut self.pair.pool, &mut frames);
        self.stream(0);
        header
    }
}

/// A host that lets strangers in by way of A, its router.
pub fn victim() -> Config {
    let mut b = config(2);
    b.gateway = Some(A);
    b.max_connections = 256;
    b
}

/// Numbers that look random, the same for the same seed.
pub fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11
    }
}
