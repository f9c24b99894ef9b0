//! Two hosts on a cable, in virtual time.
#![allow(dead_code)]

pub mod path;

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};
use tollgate_link::Side;
use tollgate_link::memory::Memory;
use tollgate_stack::config::Ipv6;
use tollgate_stack::{Active, Config, ConnId, Instant, ListenerId, Pool, Received, Stack};
use tollgate_wire::ethernet::MacAddr;

pub const MTU: usize = 1500;
pub const PORT: u16 = 7;

pub fn config(host: u8) -> Config {
    let mac = MacAddr([2, 0, 0, 0, 0, host]);
    Config::new(
        mac,
        Ipv4Addr::new(10, 0, 0, host),
        24,
        [u64::from(host), 2, 3, 4],
    )
}

/// The address of a host over IPv6.
pub fn address_v6(host: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, host.into())
}

/// A host with an address of IPv6 that is taken untried, and no router.
pub fn config_v6(host: u8) -> Config {
    Config {
        ipv6: Some(Ipv6 {
            address: Some((address_v6(host), 64)),
            duplicate_checks: 0,
            router_advertisements: false,
            ..Ipv6::default()
        }),
        ..config(host)
    }
}

/// Two stacks, the pool that they share, the cable between them, and the time.
pub struct Pair {
    pub pool: Pool,
    pub a: Stack,
    pub b: Stack,
    pub cable: Memory,
    pub now: Instant,
}

impl Pair {
    pub fn new() -> Self {
        Self::with(config(1), config(2), MTU)
    }

    pub fn with(a: Config, b: Config, mtu: usize) -> Self {
        let now = Instant::from_nanos(1 << 40);
        Self {
            pool: Pool::new(4096, Pool::frame_size_for(mtu)),
            a: Stack::new(a, mtu, now).unwrap(),
            b: Stack::new(b, mtu, now).unwrap(),
            cable: Memory::new(mtu),
            now,
        }
    }

    pub fn a(&mut self) -> Active<'_> {
        self.a.at(self.now, &mut self.pool)
    }

    pub fn b(&mut self) -> Active<'_> {
        self.b.at(self.now, &mut self.pool)
    }

    pub fn poll_a(&mut self) {
        self.a
            .at(self.now, &mut self.pool)
            .poll(&mut self.cable.end(Side::A));
    }

    pub fn poll_b(&mut self) {
        self.b
            .at(self.now, &mut self.pool)
            .poll(&mut self.cable.end(Side::B));
    }

    /// Polls both until nothing moves.
    pub fn settle(&mut self) {
        for _ in 0..1000 {
            self.poll_a();
            self.poll_b();
            if self.cable.is_idle()
                && self.a.device_queue_len() == 0
                && self.b.device_queue_len() == 0
            {
                return;
            }
        }
        panic!("the hosts never fall silent");
    }

    /// Lets time pass, polling at every deadline.
    pub fn pass(&mut self, nanos: u64) {
        let end = self.now.as_nanos() + nanos;
        self.settle();
        for _ in 0..100_000 {
            let next = [
                self.a.next_deadline(self.now),
                self.b.next_deadline(self.now),
            ]
            .into_iter()
            .flatten()
            .min();
            let Some(next) = next.filter(|next| next.as_nanos() <= end) else {
                self.now = Instant::from_nanos(end);
                self.settle();
                return;
            };
            self.now = Instant::from_nanos(next.as_nanos().max(self.now.as_nanos() + (1 << 20)));
            self.settle();
        }
        panic!("deadlines never end");
    }

    pub fn listen(&mut self) -> ListenerId {
        self.b().listen(PORT, 16).unwrap()
    }

    /// An established connection: the client's handle on A, the server's on B.
    pub fn connect(&mut self) -> (ConnId, ConnId) {
        let listener = self.listen();
        let client = self.open();
        let server = self.b().accept(listener).unwrap();
        (client, server)
    }

    pub fn open(&mut self) -> ConnId {
        let to = SocketAddrV4::new(self.b.config().ip, PORT);
        let client = self.a().connect(to).unwrap();
        self.settle();
        client
    }

    pub fn read_b(&mut self, conn: ConnId) -> Vec<u8> {
        let mut out = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(Received::Data(n)) = self.b().receive(conn, &mut buffer) {
            out.extend_from_slice(&buffer[..n]);
        }
        out
    }

    pub fn read_a(&mut self, conn: ConnId) -> Vec<u8> {
        let mut out = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(Received::Data(n)) = self.a().receive(conn, &mut buffer) {
            out.extend_from_slice(&buffer[..n]);
        }
        out
    }
}

pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed) ^ (i >> 8) as u8)
        .collect()
}
