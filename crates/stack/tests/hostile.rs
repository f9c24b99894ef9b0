//! Floods: of SYNs, of segments outside of the window, of single bytes, of errors, echoes and fragments; and a pool that
//! runs out.
//!
//! In all of it no frame is lost to the pool, nothing grows without bound, and the stream of a connection that had
//! nothing to do with it arrives whole.

mod common;
#[path = "sim/craft.rs"]
mod craft;
#[path = "sim/scene.rs"]
mod scene;

use common::{PORT, config, pattern};
use scene::{A, B, MAC_A, MAC_B, Scene, numbers, victim};
use std::net::{Ipv4Addr, SocketAddrV4};
use tollgate_link::Side;
use tollgate_stack::counters::Drop;
use tollgate_stack::{Error, Event, Link, State};
use tollgate_wire::tcp::{Flags, Header, Options};
use tollgate_wire::{SeqNumber, ipv4};

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
fn every_second_byte_does_not_take_the_pool() {
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
    for byte in 0..600 {
        for &(from, ours, theirs) in &attackers {
            let header = craft::header(from.1, PORT, Flags::ACK, ours + 1 + 2 * byte, theirs);
            scene.inject(Side::B, &[craft::tcp(MAC_B, from.0, B, &header, b"x")]);
        }
        if byte % 4 == 0 {
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

/// An application that was refused for want of frames is told when there are some, although nothing of its own is on
/// its way.
#[test]
fn a_refusal_by_a_full_pool_is_followed_by_an_event() {
    let mut scene = Scene::new(config(2), 64);
    let client = scene.client;
    scene.stream(3000);
    let writable = |scene: &mut Scene| {
        std::iter::from_fn(|| scene.pair.a().next_event()).any(|event| {
            matches!(event, Event::Connection { conn, ready, .. } if conn == client && ready.writable())
        })
    };
    let refused: [fn(&mut Scene) -> Error; 2] = [
        |scene| scene.pair.a().send(scene.client, b"x").unwrap_err(),
        |scene| {
            // A buffer is a frame already, but it would keep it from others.
            let buffer = scene.pair.pool.buffer(10).unwrap();
            let (error, buffer) = scene
                .pair
                .a()
                .send_buffer(scene.client, buffer)
                .unwrap_err();
            scene.pair.pool.free(buffer);
            error
        },
    ];
    scene.pair.pass(1_000_000_000);
    writable(&mut scene);
    for send in refused {
        let mut held: Vec<_> = std::iter::from_fn(|| scene.pair.pool.alloc()).collect();
        for _ in 0..2 {
            scene.pair.pool.release(held.pop().unwrap());
        }
        assert_eq!(send(&mut scene), Error::WouldBlock);
        scene.pair.pass(1_000_000_000);
        assert!(!writable(&mut scene));
        for id in held {
            scene.pair.pool.release(id);
        }
        // It need not be asked for: the stack wants to be polled by itself.
        let deadline = scene.pair.a.next_deadline(scene.pair.now).unwrap();
        assert!(deadline.nanos_since(scene.pair.now) <= 300_000_000);
        scene.pair.now = deadline;
        scene.pair.settle();
        assert!(writable(&mut scene));
        scene.pair.pass(1_000_000);
        assert!(!writable(&mut scene));
    }
    scene.stream(1000);
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
    // Answers to this one are kept.
    scene.pair.b().ping(A, 1, 1, b"x").unwrap();
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
            [0, 0, 0, 0, 0, low % 2, high, low],
            &pattern(1400, 1),
        );
        scene.inject(Side::B, &[request, reply]);
        if n % 8 == 0 {
            scene.stream(900);
        }
    }
    let mut echoes = 0;
    while let Some(echo) = scene.pair.b().next_echo() {
        assert_eq!(echo.identifier, 1);
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
        let more = if next().is_multiple_of(4) {
            0
        } else {
            ipv4::MORE_FRAGMENTS
        };
        let bytes = pattern(8 + next() as usize % 1400 / 8 * 8, 3);
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
                &bytes,
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
