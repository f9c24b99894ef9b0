//! What hosts that mean harm can do: random and changed frames, floods, spoofed errors, and a pool that runs out.
//!
//! In all of it no frame is lost to the pool, nothing grows without bound, and the stream of a connection that had
//! nothing to do with it arrives whole.

mod common;
#[path = "sim/craft.rs"]
mod craft;

use common::{PORT, Pair, config, pattern};
use proptest::prelude::*;
use std::net::{Ipv4Addr, SocketAddrV4};
use tollgate_link::Side;
use tollgate_stack::counters::Drop;
use tollgate_stack::{Config, ConnId, Error, Instant, Link, Pool, SocketOption, Stack, State};
use tollgate_wire::ethernet::{EtherType, MacAddr};
use tollgate_wire::tcp::{Flags, Header, Options, Timestamps};
use tollgate_wire::{SeqNumber, ipv4};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const MAC_A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const MAC_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

/// Two hosts with a connection that streams while others do harm.
struct Scene {
    pair: Pair,
    client: ConnId,
    server: ConnId,
    sent: Vec<u8>,
    got: Vec<u8>,
}

impl Scene {
    fn new(b: Config, frames: usize) -> Self {
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
    fn inject(&mut self, to: Side, frames: &[Vec<u8>]) {
        let mut burst: Vec<_> = frames
            .iter()
            .filter_map(|octets| self.pair.pool.frame_from(octets).ok())
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
    fn stream(&mut self, octets: usize) {
        let data = pattern(octets, self.sent.len() as u8);
        if let Ok(taken) = self.pair.a().send(self.client, &data) {
            self.sent.extend_from_slice(&data[..taken]);
        }
        self.pair.now = Instant::from_nanos(self.pair.now.as_nanos() + 100_000);
        self.pair.settle();
        let read = self.pair.read_b(self.server);
        self.got.extend(read);
    }

    /// Waits for everything and says that nothing is missing; closes, and says that every frame came back.
    fn ends_well(mut self) {
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
            "{} octets of {} arrived",
            self.got.len(),
            self.sent.len()
        );
        assert_eq!(self.pair.a().close(self.client), Ok(()));
        self.pair.pass(100_000_000);
        assert_eq!(self.pair.b().close(self.server), Ok(()));
        self.give_up();
    }

    /// Lets everything time out, and says that every frame came back.
    fn give_up(mut self) {
        self.pair.pass(1_200_000_000_000);
        assert_eq!(
            (self.pair.a.connections(), self.pair.b.connections()),
            (0, 0)
        );
        assert_eq!(self.pair.pool.available(), self.pair.pool.capacity());
    }

    /// The header of the next segment that A sends to B: where the connection stands. One octet is sent for it.
    fn overhear(&mut self) -> Header {
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
fn victim() -> Config {
    let mut b = config(2);
    b.gateway = Some(A);
    b.max_connections = 256;
    b
}

fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11
    }
}

#[test]
fn a_flood_of_syns_costs_nobody_anything() {
    let mut scene = Scene::new(victim(), 4096);
    let mut next = numbers(1);
    let mut late = None;
    for round in 0..3125 {
        let syns: Vec<_> = (0..32)
            .map(|_| {
                let from = Ipv4Addr::from(0xc000_0000 | next() as u32 & 0x0fff_ffff);
                let options = Options {
                    mss: Some(1460),
                    ..Options::default()
                };
                let syn = craft::header(
                    next() as u16 | 1,
                    PORT,
                    Flags::SYN,
                    SeqNumber(next() as u32),
                    SeqNumber(0),
                );
                craft::tcp(MAC_B, from, B, &Header { options, ..syn }, &[])
            })
            .collect();
        scene.inject(Side::B, &syns);
        scene.stream(300);
        if round == 1000 {
            late = Some(scene.pair.a().connect(SocketAddrV4::new(B, PORT)).unwrap());
        }
        assert!(scene.pair.b.connections() <= 1 + 16 + 1);
    }
    let counters = *scene.pair.b.counters();
    assert!(
        counters.syn_cookies_sent >= 99_900,
        "{} cookies",
        counters.syn_cookies_sent
    );
    // Who asked honestly in the midst of it is in, by a cookie.
    assert_eq!(counters.syn_cookies_accepted, 1);
    let late = late.unwrap();
    assert_eq!(scene.pair.a().state(late), State::Established);
    assert_eq!(scene.pair.a().send(late, b"hello"), Ok(5));
    scene.pair.settle();
    assert_eq!(scene.sent.len(), 300 * 3125);
    assert_eq!(scene.pair.a().abort(late), Ok(()));
    scene.pair.settle();
    scene.ends_well();
}

#[test]
fn a_flood_of_syns_from_the_local_network_locks_nobody_out() {
    let mut b = config(2);
    b.prefix_len = 8;
    b.max_neighbours = 16;
    b.max_connections = 64;
    let mut scene = Scene::new(b, 4096);
    let mut next = numbers(2);
    for _ in 0..300 {
        let syns: Vec<_> = (0..32)
            .map(|_| {
                let from = Ipv4Addr::from(0x0a10_0000 | next() as u32 & 0x000f_ffff);
                let syn = craft::header(
                    next() as u16 | 1,
                    PORT,
                    Flags::SYN,
                    SeqNumber(next() as u32),
                    SeqNumber(0),
                );
                craft::tcp(MAC_B, from, B, &syn, &[])
            })
            .collect();
        scene.inject(Side::B, &syns);
        scene.stream(300);
    }
    let late = scene.pair.open();
    scene.pair.pass(3_000_000_000);
    assert_eq!(scene.pair.a().state(late), State::Established);
    assert_eq!(scene.pair.a().abort(late), Ok(()));
    scene.pair.settle();
    scene.ends_well();
}

#[test]
fn segments_outside_of_the_window_change_nothing() {
    let mut scene = Scene::new(victim(), 4096);
    let mut next = numbers(3);
    let begin = scene.pair.now;
    let before = *scene.pair.b.counters();
    for round in 0..400 {
        let at = if round % 50 == 0 {
            Some(scene.overhear())
        } else {
            None
        };
        let Some(last) = at else {
            scene.stream(500);
            continue;
        };
        for n in 0..400u32 {
            // In the window but not in place, just outside, far away; with and without a plausible timestamp.
            let offset = match n % 4 {
                0 => 2000 + next() as u32 % 200_000,
                1 => 5_000_000 + next() as u32 % 1_000_000,
                2 => 0u32.wrapping_sub(1 + next() as u32 % 1_000_000),
                _ => 1 << 30 | next() as u32,
            };
            let flags = [
                Flags::RST,
                Flags::RST | Flags::ACK,
                Flags::SYN,
                Flags::SYN | Flags::ACK,
                Flags::ACK,
                Flags::ACK | Flags::FIN,
            ][next() as usize % 6];
            // What is acknowledged has never been sent: a blind attacker does not know what was.
            let ack = if flags.any(Flags::RST | Flags::SYN) {
                last.ack
            } else {
                last.ack + (1 << 24)
            };
            let stamps = (n % 3 != 0).then_some(last.options.timestamps).flatten();
            let header = craft::header(last.source_port, PORT, flags, last.seq + offset, ack);
            let options = Options {
                timestamps: stamps,
                ..Options::default()
            };
            let payload = pattern(next() as usize % 100, 200);
            scene.inject(
                Side::B,
                &[craft::tcp(
                    MAC_B,
                    A,
                    B,
                    &Header { options, ..header },
                    &payload,
                )],
            );
        }
        scene.stream(500);
    }
    let counters = *scene.pair.b.counters();
    assert_eq!(scene.pair.b().state(scene.server), State::Established);
    let periods = (scene.pair.now - begin).as_nanos() as u64 / (256 << 20) + 2;
    let challenges = counters.challenge_acks - before.challenge_acks;
    assert!(
        challenges > 0 && challenges <= 100 * periods,
        "{challenges} challenges in {periods} periods"
    );
    assert!(counters.challenge_acks_limited > before.challenge_acks_limited);
    scene.ends_well();
}

/// Opens a connection to B by hand; returns our and B's next sequence numbers.
fn open_by_hand(scene: &mut Scene, from: (Ipv4Addr, u16)) -> (SeqNumber, SeqNumber) {
    scene.pair.settle();
    let iss = SeqNumber(77);
    let syn = craft::header(from.1, PORT, Flags::SYN, iss, SeqNumber(0));
    let options = Options {
        mss: Some(1460),
        ..Options::default()
    };
    scene.inject(
        Side::B,
        &[craft::tcp(
            MAC_B,
            from.0,
            B,
            &Header { options, ..syn },
            &[],
        )],
    );
    let mut frames = Vec::new();
    scene
        .pair
        .cable
        .end(Side::A)
        .receive(&mut scene.pair.pool, &mut frames);
    let mut theirs = None;
    for frame in frames {
        if let Some((_, header, _)) = craft::parse_tcp(scene.pair.pool.frame(&frame))
            && header.destination_port == from.1
        {
            theirs = Some(header.seq + 1);
        }
        scene.pair.pool.release(frame.id);
    }
    let theirs = theirs.expect("a SYN was answered");
    let ack = craft::header(from.1, PORT, Flags::ACK, iss + 1, theirs);
    scene.inject(Side::B, &[craft::tcp(MAC_B, from.0, B, &ack, &[])]);
    (iss + 1, theirs)
}

#[test]
fn every_second_octet_does_not_take_the_pool() {
    let mut b = victim();
    b.user_timeout = std::time::Duration::from_secs(100);
    let mut scene = Scene::new(b, 1024);
    let listener_full = 12;
    let mut attackers = Vec::new();
    for n in 0..listener_full {
        let from = (Ipv4Addr::new(192, 0, 2, n), 4000 + u16::from(n));
        let (ours, theirs) = open_by_hand(&mut scene, from);
        attackers.push((from, ours, theirs));
    }
    for octet in 0..600 {
        for &(from, ours, theirs) in &attackers {
            let header = craft::header(from.1, PORT, Flags::ACK, ours + 1 + 2 * octet, theirs);
            scene.inject(Side::B, &[craft::tcp(MAC_B, from.0, B, &header, b"x")]);
        }
        if octet % 4 == 0 {
            scene.stream(700);
        }
        let free = scene.pair.pool.available();
        assert!(
            free >= scene.pair.pool.capacity() / 16,
            "{free} frames are left"
        );
    }
    assert!(scene.pair.b.counters().out_of_order > 500);
    assert!(scene.sent.len() > 100 * 700);
    // The attackers' connections end with a RST each, and their frames come back.
    for (from, ours, _) in attackers {
        let header = craft::header(from.1, PORT, Flags::RST, ours, SeqNumber(0));
        scene.inject(Side::B, &[craft::tcp(MAC_B, from.0, B, &header, &[])]);
    }
    scene.ends_well();
}

#[test]
fn a_full_pool_refuses_and_loses_nothing() {
    let mut scene = Scene::new(config(2), 64);
    scene.stream(3000);
    // Somebody holds every frame that is left, but for the reserve.
    let mut held: Vec<_> = std::iter::from_fn(|| scene.pair.pool.alloc()).collect();
    for _ in 0..8 {
        scene.pair.pool.release(held.pop().unwrap());
    }
    let data = pattern(100_000, 7);
    let mut accepted = 0;
    while let Ok(taken) = scene.pair.a().send(scene.client, &data[accepted..]) {
        assert!(taken > 0);
        accepted += taken;
        assert!(accepted < data.len());
    }
    assert_eq!(
        scene.pair.a().send(scene.client, &data[accepted..]),
        Err(Error::WouldBlock)
    );
    scene.sent.extend_from_slice(&data[..accepted]);
    let empty: Vec<_> = std::iter::from_fn(|| scene.pair.pool.alloc()).collect();
    assert_eq!(
        scene.pair.a().send(scene.client, b"x"),
        Err(Error::WouldBlock)
    );
    assert_eq!(scene.pair.a().ping(B, 1, 1, b"x"), Err(Error::NoFrame));
    assert_eq!(
        scene.pair.a().connect(SocketAddrV4::new(B, PORT)),
        Err(Error::NoFrame)
    );
    scene.pair.pass(3_000_000_000);
    for id in held.into_iter().chain(empty) {
        scene.pair.pool.release(id);
    }
    scene.stream(0);
    let taken = scene
        .pair
        .a()
        .send(scene.client, &data[accepted..])
        .unwrap();
    scene
        .sent
        .extend_from_slice(&data[accepted..accepted + taken]);
    scene.ends_well();
}

#[test]
fn spoofed_errors_are_not_believed() {
    let mut scene = Scene::new(victim(), 4096);
    // Something is in flight, and stays there: the cable is cut while the errors come.
    scene.stream(1000);
    let last = scene.overhear();
    let quoted = |from: u16, seq: SeqNumber| {
        let header = craft::header(from, PORT, Flags::ACK, seq, SeqNumber(0));
        let frame = craft::tcp(MAC_B, A, B, &header, &[]);
        frame[14..14 + 28].to_vec()
    };
    let in_flight = last.seq + 1;
    scene
        .pair
        .a()
        .send(scene.client, &pattern(1000, 1))
        .unwrap();
    scene.sent.extend(pattern(1000, 1));
    let before = *scene.pair.a.counters();
    let mtu_before = scene.pair.a().info(scene.client).unwrap().mss;
    let mut next = numbers(5);
    let errors: [[u8; 4]; 5] = [
        [3, 0, 0, 0],
        [3, 1, 0, 0],
        [3, 2, 0, 0],
        [3, 3, 0, 0],
        [11, 0, 0, 0],
    ];
    for n in 0..2000u32 {
        let [kind, code, ..] = errors[n as usize % errors.len()];
        let blind = quoted(
            last.source_port,
            SeqNumber(next() as u32 | 1 << 31) + in_flight.0,
        );
        scene.inject(
            Side::A,
            &[craft::icmp(
                MAC_A,
                B,
                A,
                [kind, code, 0, 0, 0, 0, 0, 0],
                &blind,
            )],
        );
        let needed = craft::icmp(MAC_A, B, A, [3, 4, 0, 0, 0, 0, 0, 68], &blind);
        let strange_port = quoted(next() as u16 & 0x3fff, in_flight);
        scene.inject(
            Side::A,
            &[
                needed,
                craft::icmp(MAC_A, B, A, [3, 3, 0, 0, 0, 0, 0, 0], &strange_port),
            ],
        );
    }
    let counters = *scene.pair.a.counters();
    let implausible = counters.drops(Drop::IcmpImplausible) - before.drops(Drop::IcmpImplausible);
    assert!(
        implausible >= 5000,
        "{implausible} errors were not believed"
    );
    assert_eq!(scene.pair.a().info(scene.client).unwrap().mss, mtu_before);
    // One that quotes what is in flight is soft, whatever it says; the path's MTU is never below 576.
    scene
        .pair
        .a()
        .send(scene.client, &pattern(1000, 2))
        .unwrap();
    scene.sent.extend(pattern(1000, 2));
    let known = quoted(last.source_port, in_flight);
    for [kind, code, ..] in errors {
        scene.inject(
            Side::A,
            &[craft::icmp(
                MAC_A,
                B,
                A,
                [kind, code, 0, 0, 0, 0, 0, 0],
                &known,
            )],
        );
    }
    scene.inject(
        Side::A,
        &[craft::icmp(MAC_A, B, A, [3, 4, 0, 0, 0, 0, 0, 68], &known)],
    );
    assert_eq!(scene.pair.a().state(scene.client), State::Established);
    assert!(scene.pair.a().info(scene.client).unwrap().mss >= 576 - 40 - 12);
    scene.stream(5000);
    scene.ends_well();
}

#[test]
fn floods_of_echoes_are_bounded() {
    let mut scene = Scene::new(victim(), 1024);
    for n in 0..2000u16 {
        let [high, low] = n.to_be_bytes();
        let from = Ipv4Addr::new(198, 51, 100, n as u8);
        let request = craft::icmp(
            MAC_B,
            from,
            B,
            [8, 0, 0, 0, high, low, 0, 0],
            &pattern(1400, 1),
        );
        let reply = craft::icmp(
            MAC_B,
            from,
            B,
            [0, 0, 0, 0, high, low, 0, 0],
            &pattern(1400, 1),
        );
        scene.inject(Side::B, &[request, reply]);
        if n % 8 == 0 {
            scene.stream(900);
        }
    }
    let mut echoes = 0;
    while scene.pair.b().next_echo().is_some() {
        echoes += 1;
    }
    assert!(
        (1..=64).contains(&echoes),
        "{echoes} answers that nobody asked for were kept"
    );
    assert!(scene.sent.len() >= 200 * 900);
    scene.ends_well();
}

#[test]
fn floods_of_fragments_are_bounded() {
    let mut b = victim();
    b.reassembly_frames = 100;
    let mut scene = Scene::new(b, 1024);
    let mut next = numbers(6);
    for n in 0..5000u32 {
        let from = Ipv4Addr::new(198, 51, 100, (next() % 40) as u8);
        let protocol = [1, 6, 17, 99][next() as usize % 4];
        let offset = (next() as u16 % 8000) & ipv4::OFFSET_MASK;
        let more = if next() % 4 == 0 {
            0
        } else {
            ipv4::MORE_FRAGMENTS
        };
        let octets = pattern(8 + next() as usize % 1400 / 8 * 8, 3);
        let id = next() as u16 % 20;
        scene.inject(
            Side::B,
            &[craft::ip(
                MAC_B,
                from,
                B,
                protocol,
                id,
                offset | more,
                &octets,
            )],
        );
        assert!(scene.pair.pool.capacity() - scene.pair.pool.available() <= 100 + 16);
        if n % 16 == 0 {
            scene.stream(900);
        }
    }
    assert!(scene.pair.b.counters().drops(Drop::Reassembly) > 1000);
    assert!(scene.sent.len() >= 200 * 900);
    scene.ends_well();
}

/// A frame that somebody else made up.
#[derive(Clone, Debug)]
enum Hostile {
    Raw(Vec<u8>),
    /// Behind our link address.
    Ethernet(u16, Vec<u8>),
    Ip {
        from: u32,
        protocol: u8,
        flags_and_offset: u16,
        id: u16,
        payload: Vec<u8>,
    },
    Icmp {
        head: [u8; 8],
        data: Vec<u8>,
    },
    Tcp {
        port: u16,
        flags: u8,
        seq: u32,
        ack: u32,
        window: u16,
        options: Vec<u8>,
        payload: Vec<u8>,
    },
    /// The last frame of the connection with one octet changed.
    Changed {
        at: prop::sample::Index,
        by: u8,
    },
    /// The same with its end cut off.
    Cut(prop::sample::Index),
}

fn hostile() -> impl Strategy<Value = Hostile> {
    let octets = |most| prop::collection::vec(any::<u8>(), 0..most);
    prop_oneof![
        octets(200).prop_map(Hostile::Raw),
        (
            prop_oneof![Just(0x0800u16), Just(0x0806), any::<u16>()],
            octets(120)
        )
            .prop_map(|(t, o)| Hostile::Ethernet(t, o)),
        (
            any::<u32>(),
            prop_oneof![Just(1u8), Just(6), Just(17), any::<u8>()],
            any::<u16>(),
            0..4u16,
            octets(160)
        )
            .prop_map(
                |(from, protocol, flags_and_offset, id, payload)| Hostile::Ip {
                    from,
                    protocol,
                    flags_and_offset,
                    id,
                    payload
                }
            ),
        (
            prop_oneof![Just(0u8), Just(3), Just(8), Just(11), Just(12), any::<u8>()],
            any::<[u8; 7]>(),
            octets(80)
        )
            .prop_map(|(kind, rest, data)| {
                let mut head = [kind, 0, 0, 0, 0, 0, 0, 0];
                head[1] = rest[0] % 8;
                head[4..].copy_from_slice(&rest[3..]);
                Hostile::Icmp { head, data }
            }),
        (
            prop_oneof![Just(PORT), any::<u16>()],
            any::<u8>(),
            any::<(u32, u32, u16)>(),
            octets(41),
            octets(60)
        )
            .prop_map(
                |(port, flags, (seq, ack, window), options, payload)| Hostile::Tcp {
                    port,
                    flags,
                    seq,
                    ack,
                    window,
                    options,
                    payload
                }
            ),
        (any::<prop::sample::Index>(), 1..=255u8).prop_map(|(at, by)| Hostile::Changed { at, by }),
        any::<prop::sample::Index>().prop_map(Hostile::Cut),
    ]
}

/// A TCP segment with any options, in a frame.
fn segment(from: Ipv4Addr, header: &Header, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut frame = craft::tcp(MAC_B, from, B, header, &[options, payload].concat());
    // The options, padded with what follows, belong to the header; sums are made anew.
    let words = 5 + options.len() / 4;
    frame[14 + 20 + 12] = (words as u8) << 4;
    frame[14 + 20 + 16..14 + 20 + 18].fill(0);
    let tcp = &frame[34..];
    let sum =
        ipv4::pseudo_header(from, B, 6, tcp.len() as u16) + tollgate_checksum::sum_header(tcp);
    frame[14 + 20 + 16..14 + 20 + 18].copy_from_slice(&sum.finish().to_ne_bytes());
    frame
}

impl Hostile {
    fn frame(&self, last: &[u8]) -> Vec<u8> {
        let stranger = Ipv4Addr::new(203, 0, 113, 5);
        match self {
            Hostile::Raw(octets) => octets.clone(),
            Hostile::Ethernet(kind, octets) => {
                craft::ethernet(MAC_B, EtherType::from_u16(*kind), octets)
            }
            Hostile::Ip {
                from,
                protocol,
                flags_and_offset,
                id,
                payload,
            } => craft::ip(
                MAC_B,
                Ipv4Addr::from(*from),
                B,
                *protocol,
                *id,
                *flags_and_offset,
                payload,
            ),
            Hostile::Icmp { head, data } => craft::icmp(MAC_B, stranger, B, *head, data),
            Hostile::Tcp {
                port,
                flags,
                seq,
                ack,
                window,
                options,
                payload,
            } => {
                let header =
                    craft::header(4711, *port, Flags(*flags), SeqNumber(*seq), SeqNumber(*ack));
                segment(
                    stranger,
                    &Header {
                        window: *window,
                        ..header
                    },
                    options,
                    payload,
                )
            }
            Hostile::Changed { at, by } => {
                let mut frame = last.to_vec();
                let at = at.index(frame.len());
                frame[at] ^= by;
                frame
            }
            Hostile::Cut(at) => last[..at.index(last.len())].to_vec(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn made_up_frames_do_nothing_to_a_connection(frames in prop::collection::vec(hostile(), 1..120)) {
        let mut scene = Scene::new(victim(), 512);
        for burst in frames.chunks(4) {
            scene.pair.a().send(scene.client, &pattern(200, 9)).unwrap();
            scene.sent.extend(pattern(200, 9));
            scene.pair.poll_a();
            let mut real = Vec::new();
            scene.pair.cable.end(Side::B).receive(&mut scene.pair.pool, &mut real);
            let last = real.last().map_or_else(|| vec![0; 60], |frame| scene.pair.pool.frame(frame).to_vec());
            let burst: Vec<_> = burst.iter().map(|hostile| hostile.frame(&last)).collect();
            scene.inject(Side::B, &burst);
            scene.pair.cable.end(Side::A).transmit(&mut scene.pair.pool, &mut real);
            scene.stream(100);
        }
        // The neighbour that a made-up ARP may have told lies about speaks for itself.
        let now = scene.pair.now;
        scene.pair.b.at(now, &mut scene.pair.pool).add_neighbour(A, MAC_A);
        scene.ends_well();
    }

    /// Segments in the connection's own name and near its own numbers may end it, and do nothing worse.
    #[test]
    fn segments_near_the_window_do_no_worse_than_end_the_connection(
        segments in prop::collection::vec(
            (any::<u8>(), -70_000i32..70_000, -3000i32..3000, any::<u16>(), any::<Option<i8>>(), 0usize..1400),
            1..150,
        ),
        close in any::<bool>(),
    ) {
        let mut scene = Scene::new(victim(), 256);
        let last = scene.overhear();
        let stamps = last.options.timestamps.unwrap();
        if close {
            scene.pair.b().shutdown(scene.server).unwrap();
        }
        for (flags, seq, ack, window, stamp, len) in segments {
            let header = Header {
                window,
                options: Options {
                    timestamps: stamp.map(|by| Timestamps {
                        value: stamps.value.wrapping_add_signed(i32::from(by)),
                        echo: stamps.echo,
                    }),
                    ..Options::default()
                },
                ..craft::header(
                    last.source_port,
                    PORT,
                    Flags(flags),
                    SeqNumber(last.seq.0.wrapping_add_signed(seq / 16 * 8)),
                    SeqNumber(last.ack.0.wrapping_add_signed(ack / 8)),
                )
            };
            scene.inject(Side::B, &[craft::tcp(MAC_B, A, B, &header, &vec![1; len])]);
            scene.pair.now = Instant::from_nanos(scene.pair.now.as_nanos() + 3_000_000);
            // It may be refused by now.
            let _ = scene.pair.b().send(scene.server, &[7; 300]);
            scene.pair.poll_b();
            scene.pair.poll_a();
            let free = scene.pair.pool.available();
            prop_assert!(free <= scene.pair.pool.capacity());
        }
        // Ends that an attacker has pulled apart are given up by their applications.
        let _ = scene.pair.a().abort(scene.client);
        let _ = scene.pair.b().abort(scene.server);
        scene.give_up();
    }
}

/// A stack that is polled by nobody else keeps nothing that it does not name.
#[test]
fn a_stack_alone_with_noise_gives_every_frame_back() {
    let now = Instant::from_nanos(1 << 40);
    let mut pool = Pool::new(64, 2048);
    let mut stack = Stack::new(config(2), 1500, now).unwrap();
    let mut cable = tollgate_link::memory::Memory::new(1500);
    let mut next = numbers(8);
    for n in 0..20_000u64 {
        let octets: Vec<u8> = (0..next() % 120).map(|_| next() as u8).collect();
        let mut frame = vec![
            pool.frame_from(&craft::ethernet(MAC_B, EtherType::Ipv4, &octets))
                .unwrap(),
        ];
        cable.end(Side::A).transmit(&mut pool, &mut frame);
        stack
            .at(Instant::from_nanos(now.as_nanos() + n * 1000), &mut pool)
            .poll(&mut cable.end(Side::B));
    }
    assert_eq!(pool.available(), pool.capacity());
    assert_eq!(stack.counters().frames_in, 20_000);
}
