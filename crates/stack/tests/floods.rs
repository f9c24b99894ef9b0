//! Floods of strangers, each of ten times the frames of the server's pool, beside a connection that goes on.
//!
//! The bar for every flood: an established connection completes at least 95 % of the round trips that it completes without
//! the flood, and a new connection is accepted meanwhile. Afterwards every frame is back in the pool.
//!
//! A flood takes a tenth of the line (`sim/line.rs`). The control, a flood that the stack ignores, shows that this costs far
//! less than the bar allows, so what else is lost is lost in the stack.
//! Beside the floods stand scripts of two hosts, for what a stranger or a slow application can make a host hold or forget.

mod common;
#[path = "sim/craft.rs"]
mod craft;
#[path = "sim/line.rs"]
mod line;
#[path = "sim/scene.rs"]
mod scene;

use common::{PORT, Pair, config};
use line::{FLOOD, FLOOD_INTERVAL, FLOOD_TIME, FRAMES, MILLISECOND, Make, SECOND, World};
use scene::{B, MAC_B, numbers, victim};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use tollgate_link::Side;
use tollgate_stack::config::Prediction;
use tollgate_stack::counters::Drop;
use tollgate_stack::socket::KeepAlive;
use tollgate_stack::{ConnId, Error, Received, SocketOption, State};
use tollgate_wire::ethernet::MacAddr;
use tollgate_wire::tcp::{Flags, Header, Options};
use tollgate_wire::{SeqNumber, ipv4, udp};

/// Round trips that must be completed of 100 that are completed without the flood.
const BAR: u64 = 95;
/// A port that nobody listens on.
const CLOSED: u16 = 9;
/// A UDP port whose socket nobody reads.
const UNREAD: u16 = 11;
/// A host that floods by a connection of its own.
const STRANGER: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 77), 4000);
/// The sequence number of its first byte.
const FIRST: SeqNumber = SeqNumber(78);

/// A host outside of the server's network, for each number another.
fn made_up(number: u64) -> Ipv4Addr {
    Ipv4Addr::from(0xc000_0000 | number as u32 & 0x0fff_ffff)
}

/// One of 250 addresses on the server's network that nobody has.
fn made_up_neighbour(number: u64) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 3 + (number % 250) as u8)
}

/// SYNs without options, from hosts that `from` makes up.
fn syns(port: u16, from: fn(u64) -> Ipv4Addr) -> Make {
    let mut next = numbers(1);
    Box::new(move |_, _| {
        let (source, iss) = (next() as u16 | 1, SeqNumber(next() as u32));
        let syn = craft::header(source, port, Flags::SYN, iss, SeqNumber(0));
        craft::tcp(MAC_B, from(next()), B, &syn, &[])
    })
}

/// Segments outside of the measured connection's window, above and below it, half of them within 1 MiB.
fn out_of_window_segments() -> Make {
    let mut next = numbers(3);
    Box::new(move |_, heard| {
        let last = heard.client.expect("there were round trips");
        let least = if next().is_multiple_of(2) { 19 } else { 29 };
        let distance = (1 << least) + next() as u32 % (1 << least);
        let seq = if next().is_multiple_of(2) {
            last.seq + distance
        } else {
            last.seq + distance.wrapping_neg()
        };
        let flags = [
            Flags::ACK,
            Flags::ACK | Flags::FIN,
            Flags::RST,
            Flags::SYN,
            Flags::SYN | Flags::ACK,
        ];
        let flags = flags[next() as usize % flags.len()];
        let header = craft::header(last.source_port, PORT, flags, seq, last.ack);
        let options = Options {
            timestamps: last.options.timestamps,
            ..Options::default()
        };
        craft::tcp(MAC_B, scene::A, B, &Header { options, ..header }, &[])
    })
}

/// The handshake of [`STRANGER`], then segments that `make` makes of three numbers: its own first sequence number, the server's,
/// and the count of its bytes that the server has acknowledged.
fn by_hand(
    mut make: impl FnMut(SeqNumber, SeqNumber, u32) -> (Header, &'static [u8]) + 'static,
) -> Make {
    Box::new(move |_, heard| {
        let (header, payload) = match (heard.iss, &heard.answer) {
            (Some(iss), Some(answer)) => make(FIRST, iss + 1, answer.ack - FIRST),
            _ => (
                craft::header(STRANGER.1, PORT, Flags::SYN, FIRST - 1, SeqNumber(0)),
                &[][..],
            ),
        };
        craft::tcp(MAC_B, STRANGER.0, B, &header, payload)
    })
}

/// Single bytes in order.
fn single_bytes() -> Make {
    single_bytes_from(0)
}

/// Single bytes in order from byte `next` on, 64 beyond what was acknowledged at most, then again from there.
fn single_bytes_from(mut next: u32) -> Make {
    by_hand(move |first, theirs, acknowledged| {
        if next < acknowledged || next - acknowledged >= 64 {
            next = acknowledged;
        }
        let flags = Flags::ACK | Flags::PSH;
        let header = craft::header(STRANGER.1, PORT, flags, first + next, theirs);
        next += 1;
        (header, b"x")
    })
}

/// Datagrams without payload to `port`.
fn empty_datagrams(port: u16) -> Make {
    let mut next = numbers(2);
    Box::new(move |n, _| {
        let header = udp::Header {
            source_port: next() as u16 | 1,
            destination_port: port,
            len: udp::HEADER_LEN as u16,
            no_checksum: true,
        };
        craft::ip(
            MAC_B,
            made_up(next()),
            B,
            ipv4::protocol::UDP,
            n as u16,
            0,
            &header.to_bytes(),
        )
    })
}

/// The outcome of one run.
struct Run {
    round_trips: u64,
    /// The connection that was opened in the middle of it was accepted before its end.
    accepted: bool,
    world: World,
}

fn run(prediction: Prediction, backlog: u16, flood: Option<Make>) -> Run {
    let mut server = line::roomy();
    server.mechanisms.prediction = prediction;
    let mut world = World::with(server, FRAMES, backlog);
    world.server().udp_bind(UNREAD).expect("the port is free");
    // The congestion window and the timers find their places.
    world.round_trips(10 * MILLISECOND);
    let frames = if flood.is_some() { FLOOD } else { 0 };
    if let Some(make) = flood {
        world.begin_flood(make);
    }
    let mut round_trips = world.round_trips(FLOOD_TIME / 2);
    let late = world.connect();
    round_trips += world.round_trips(FLOOD_TIME / 2);
    assert_eq!(world.end_flood(), frames);
    let accepted =
        world.client().state(late) == State::Established && world.accepted_as(late).is_some();
    Run {
        round_trips,
        accepted,
        world,
    }
}

/// Holds a flood against the bar, with prediction and without. `after` looks at the world as the flood has left it; then
/// everything is closed, and every frame must be back.
#[track_caller]
fn survives(backlog: u16, flood: impl Fn() -> Make, after: impl Fn(&mut World)) {
    for prediction in [Prediction::Bidirectional, Prediction::Off] {
        let without = run(prediction, backlog, None);
        let mut with = run(prediction, backlog, Some(flood()));
        // Two frames of 130 bytes and the way there and back take 22.5 µs.
        assert!(without.round_trips > FLOOD_TIME / 23_000 && without.accepted);
        let server = &with.world.server;
        let figures = format!(
            "prediction {prediction:?}: {} round trips with the flood, {} without; a new connection was accepted: {}; \
             {} of {} frames were free at least; {} frames found no room",
            with.round_trips,
            without.round_trips,
            with.accepted,
            server.least,
            server.pool.capacity(),
            server.starved,
        );
        println!("{figures}");
        assert!(server.stack.counters().frames_in + server.starved > u64::from(FLOOD));
        assert!(
            with.round_trips * 100 >= without.round_trips * BAR && with.accepted,
            "{figures}"
        );
        after(&mut with.world);
        with.world.ends_well();
    }
}

/// The control: a flood that the stack has nothing to do with costs far less on the line than the bar allows.
#[test]
fn flood_to_another_host_leaves_round_trips() {
    let flood = || -> Make {
        Box::new(move |_, _| {
            let syn = craft::header(1, PORT, Flags::SYN, SeqNumber(0), SeqNumber(0));
            craft::tcp(MacAddr([2, 0, 0, 0, 0, 3]), STRANGER.0, B, &syn, &[])
        })
    };
    survives(16, flood, |_| {});
}

#[test]
fn syn_flood_below_backlog_leaves_round_trips() {
    survives(16_000, || syns(PORT, made_up), |_| {});
}

#[test]
fn syn_flood_above_backlog_leaves_round_trips() {
    survives(
        16,
        || syns(PORT, made_up),
        |world| {
            let cookies = world.server.stack.counters().syn_cookies_sent;
            assert!(cookies > u64::from(FLOOD) * 9 / 10, "{cookies} cookies");
        },
    );
}

#[test]
fn syn_flood_of_made_up_neighbours_leaves_round_trips() {
    survives(16, || syns(PORT, made_up_neighbour), unresolved);
}

#[test]
fn syn_flood_to_closed_port_leaves_round_trips() {
    survives(
        16,
        || syns(CLOSED, made_up),
        |world| most_were_dropped(world, Drop::NoSocket),
    );
}

#[test]
fn out_of_window_flood_at_own_connection_leaves_round_trips() {
    survives(16, out_of_window_segments, |world| {
        let (client, server) = world.measured();
        assert_eq!(world.client().state(client), State::Established);
        assert_eq!(world.server().state(server), State::Established);
        most_were_dropped(world, Drop::Unacceptable);
    });
}

#[test]
fn out_of_window_flood_at_other_connection_leaves_round_trips() {
    let flood = || {
        let mut established = false;
        by_hand(move |first, theirs, _| {
            let seq = if established {
                first + (1 << 24)
            } else {
                first
            };
            established = true;
            let header = craft::header(STRANGER.1, PORT, Flags::ACK, seq, theirs);
            (header, b"")
        })
    };
    survives(16, flood, |world| {
        let other = strangers(world);
        assert_eq!(world.server().state(other), State::Established);
        most_were_dropped(world, Drop::Unacceptable);
    });
}

#[test]
fn single_byte_flood_to_sleeping_reader_leaves_round_trips() {
    survives(16, single_bytes, |world| {
        world.pass(SECOND);
        // What was acknowledged is there to be read.
        let sleeper = strangers(world);
        let read = read_all(world, sleeper).len() as u32;
        let answer = world.heard.answer.expect("the stranger was answered");
        assert!(read > 0);
        assert_eq!(answer.ack, FIRST + read);
        // There is room again: a sender that was refused goes on.
        world.begin_flood(single_bytes_from(read));
        world.pass(64 * FLOOD_INTERVAL);
        world.end_flood();
        world.pass(SECOND);
        assert!(!read_all(world, sleeper).is_empty());
    });
}

#[test]
fn echo_flood_of_made_up_neighbours_leaves_round_trips() {
    let flood = || -> Make {
        Box::new(|n, _| {
            let [high, low] = (n as u16).to_be_bytes();
            let head = [8, 0, 0, 0, 0, 1, high, low];
            craft::icmp(MAC_B, made_up_neighbour(n.into()), B, head, &[])
        })
    };
    survives(16, flood, unresolved);
}

#[test]
fn empty_datagram_flood_leaves_round_trips() {
    survives(16, || empty_datagrams(UNREAD), |_| {});
}

/// The flood was what it was meant to be: most of it was dropped for this reason.
#[track_caller]
fn most_were_dropped(world: &World, reason: Drop) {
    let dropped = world.server.stack.counters().drops(reason);
    assert!(dropped > u64::from(FLOOD) / 2, "{dropped} were dropped");
}

/// Answers to neighbours that are not there were dropped.
fn unresolved(world: &mut World) {
    let dropped = world.server.stack.counters().drops(Drop::Unresolved);
    assert!(dropped > 0);
}

/// The server's handle of [`STRANGER`]'s connection.
fn strangers(world: &World) -> ConnId {
    let from = std::net::SocketAddr::from(STRANGER);
    let accepted = world.accepted.iter().find(|&&(peer, _)| peer == from);
    accepted.expect("it was accepted").1
}

/// Everything that there is to read of a connection of the server's.
fn read_all(world: &mut World, conn: ConnId) -> Vec<u8> {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(Received::Data(n)) = world.server().receive(conn, &mut buffer) {
        read.extend_from_slice(&buffer[..n]);
        world.work_server();
    }
    read
}

/// An application that waits for its backend reads nothing of its client meanwhile; the backend's answer must arrive.
#[test]
fn backend_answer_arrives_while_client_sends_single_bytes() {
    let mut world = World::new(16);
    let (backend, proxy) = world.measured();
    world.begin_flood(single_bytes());
    world.pass(FLOOD_TIME / 2);
    world.end_flood();
    assert_eq!(world.client().send(backend, b"the answer"), Ok(10));
    world.pass(SECOND);
    let answer = read_all(&mut world, proxy);
    assert_eq!(
        String::from_utf8_lossy(&answer),
        "the answer",
        "{} frames are free",
        world.server.pool.available()
    );
    world.ends_well();
}

/// Nobody floods: a client sends 256 messages of 100 bytes to a pool of 256 frames, and the application does not read them.
#[test]
fn unread_small_messages_leave_other_connections_working() {
    const MESSAGES: usize = 256;
    let mut world = World::with(victim(), MESSAGES, 16);
    world.round_trips(10 * MILLISECOND);
    let before = world.round_trips(100 * MILLISECOND);
    let sender = world.connect();
    world.pass(MILLISECOND);
    let reader = world.accepted_as(sender).expect("it was accepted");
    let no_delay = SocketOption::NoDelay(true);
    assert_eq!(world.client().set_option(sender, no_delay), Ok(()));
    for number in 0..MESSAGES {
        let message = [number as u8; 100];
        assert_eq!(world.client().send(sender, &message), Ok(100));
        world.pass(MILLISECOND);
    }
    let after = world.round_trips(100 * MILLISECOND);
    assert!(
        after * 100 >= before * BAR,
        "{after} round trips beside unread messages, {before} before; {} frames are free",
        world.server.pool.available()
    );
    // Late or not, all of it arrives once the application reads.
    let mut read = Vec::new();
    for _ in 0..1200 {
        read.extend(read_all(&mut world, reader));
        world.pass(100 * MILLISECOND);
    }
    let sent: Vec<u8> = (0..MESSAGES).flat_map(|n| [n as u8; 100]).collect();
    assert!(
        read == sent,
        "{} bytes of {} arrived",
        read.len(),
        sent.len()
    );
    world.ends_well();
}

/// The server answers a client that has just come with 100 kB, which the client reads. Returns the nanoseconds that it takes,
/// at most 10 s.
fn answer_to_newcomer(world: &mut World) -> u64 {
    const LEN: usize = 100_000;
    const STEP: u64 = MILLISECOND / 10;
    let client = world.connect();
    world.pass(MILLISECOND);
    let server = world.accepted_as(client).expect("it was accepted");
    let no_delay = SocketOption::NoDelay(true);
    assert_eq!(world.server().set_option(server, no_delay), Ok(()));
    let began = world.now;
    let (mut sent, mut read) = (0, 0);
    let mut buffer = [0; LEN];
    while read < LEN && world.now < began + 10 * SECOND {
        if let Ok(taken) = world.server().send(server, &buffer[sent..]) {
            sent += taken;
        }
        world.pass(STEP);
        while let Ok(Received::Data(taken)) = world.client().receive(client, &mut buffer) {
            read += taken;
        }
    }
    world.now - began
}

/// Nobody floods: 16 clients send what an application does not read, twice as much as the pool holds.
#[test]
fn unread_streams_leave_other_connections_working() {
    const STREAMS: usize = 16;
    const EACH: usize = 256 * 1024;
    for prediction in [Prediction::Bidirectional, Prediction::Off] {
        let mut server = victim();
        server.mechanisms.prediction = prediction;
        let mut world = World::with(server, FRAMES, 32);
        world.round_trips(10 * MILLISECOND);
        let before = world.round_trips(100 * MILLISECOND);
        let answer_before = answer_to_newcomer(&mut world);
        let streams: Vec<_> = (0..STREAMS).map(|_| world.connect()).collect();
        world.pass(MILLISECOND);
        let mut sent = [0; STREAMS];
        for _ in 0..100 {
            for (sent, &stream) in sent.iter_mut().zip(&streams) {
                while *sent < EACH
                    && let Ok(taken) = world.client().send(stream, &[7; 4096])
                {
                    *sent += taken;
                }
            }
            world.pass(10 * MILLISECOND);
        }
        assert_eq!(sent, [EACH; STREAMS]);
        let free = world.server.pool.available();
        let after = world.round_trips(100 * MILLISECOND);
        let answer_after = answer_to_newcomer(&mut world);
        let figures = format!(
            "prediction {prediction:?}: {after} round trips beside unread streams, {before} before; an answer took {} us, \
             {} before; {free} frames were free",
            answer_after / 1000,
            answer_before / 1000,
        );
        println!("{figures}");
        assert!(after * 100 >= before * BAR, "{figures}");
        assert!(answer_after <= 2 * answer_before, "{figures}");
        // All of it arrives once the application reads.
        let mut read = [0; STREAMS];
        let mut rounds = 0;
        while read != sent && rounds < 100 {
            for (read, &stream) in read.iter_mut().zip(&streams) {
                let reader = world.accepted_as(stream).expect("it was accepted");
                *read += read_all(&mut world, reader).len();
            }
            world.pass(100 * MILLISECOND);
            rounds += 1;
        }
        println!("read after {rounds} rounds");
        assert_eq!(read, sent);
        world.ends_well();
    }
}

#[test]
fn syn_ack_holds_no_frame_once_it_is_sent() {
    const SYNS: u64 = 1100;
    let mut world = World::new(4096);
    let free = world.server.pool.available();
    world.begin_flood(syns(PORT, made_up));
    world.pass(SYNS * FLOOD_INTERVAL);
    assert_eq!(u64::from(world.end_flood()), SYNS);
    world.pass(MILLISECOND);
    let held = free - world.server.pool.available();
    let (_, server) = world.measured();
    let sent = world.server().send(server, &[1; 64]);
    assert_eq!((held, sent), (0, Ok(64)), "frames held, and a message sent");
    let (client, _) = world.measured();
    world.pass(MILLISECOND);
    let mut buffer = [0; 100];
    assert_eq!(
        world.client().receive(client, &mut buffer),
        Ok(Received::Data(64))
    );
    world.ends_well();
}

/// The application has closed, and the peer answers every probe of its closed window without ever opening it. RFC 6429 lets the
/// host end such a connection.
#[test]
fn orphan_with_closed_window_ends_after_user_timeout() {
    let mut server = victim();
    server.user_timeout = Duration::from_secs(100);
    let mut world = World::with(server, FRAMES, 16);
    let (_, server) = world.measured();
    let mut queued = 0;
    for _ in 0..20 {
        while let Ok(taken) = world.server().send(server, &[7; 1000]) {
            queued += taken;
        }
        world.pass(SECOND);
    }
    let info = world.server().info(server).expect("it is there");
    assert_eq!(info.send_window, 0, "{queued} bytes were queued");
    assert!(info.unsent > 0);
    assert_eq!(world.server().close(server), Ok(()));
    // A probe may go a whole retransmission timeout of 60 s after the user timeout has passed.
    world.pass((100 + 60 + 5) * SECOND);
    let server = &world.server;
    let held = server.pool.capacity() - server.pool.available();
    assert_eq!((server.stack.connections(), held), (0, 0));
}

/// A datagram without payload is charged to the queue's 256 KiB with its headers (20 + 8 bytes) at least.
#[test]
fn empty_datagrams_queue_is_bounded() {
    const MOST: usize = 256 * 1024 / (20 + 8);
    let mut world = World::new(16);
    let socket = world.server().udp_bind(UNREAD).expect("the port is free");
    world.begin_flood(empty_datagrams(UNREAD));
    world.pass(3 * FLOOD_TIME);
    assert_eq!(world.end_flood(), 3 * FLOOD);
    world.pass(MILLISECOND);
    let mut queued = 0;
    while world.server().udp_receive(socket).is_ok() {
        queued += 1;
    }
    assert!(
        (1..=MOST).contains(&queued),
        "{queued} datagrams were queued"
    );
    // Room is there again.
    world.begin_flood(empty_datagrams(UNREAD));
    world.pass(10 * FLOOD_INTERVAL);
    world.end_flood();
    world.pass(MILLISECOND);
    assert!(world.server().udp_receive(socket).is_ok());
    world.ends_well();
}

#[test]
fn keepalive_probes_respect_device_queue() {
    const QUEUE: usize = 2;
    let mut server = victim();
    server.device_queue = QUEUE;
    let mut world = World::with(server, FRAMES, 64);
    let clients: Vec<_> = (0..20).map(|_| world.connect()).collect();
    world.pass(SECOND);
    let keep = KeepAlive {
        idle: Duration::from_secs(10),
        interval: Duration::from_secs(5),
        count: 3,
    };
    for &client in &clients {
        let server = world.accepted_as(client).expect("it was accepted");
        let option = SocketOption::KeepAlive(Some(keep));
        assert_eq!(world.server().set_option(server, option), Ok(()));
    }
    world.pass(9 * SECOND);
    world.server.blocked = true;
    let mut most = 0;
    for _ in 0..20 {
        world.pass(100 * MILLISECOND);
        most = most.max(world.server.stack.device_queue_len());
    }
    world.server.blocked = false;
    assert!(
        (1..=QUEUE).contains(&most),
        "{most} frames in a queue for {QUEUE}"
    );
    // Every connection is probed after all, and lives.
    world.pass(60 * SECOND);
    for client in clients {
        let server = world.accepted_as(client).expect("the client is there");
        assert_eq!(world.server().state(server), State::Established);
    }
    world.ends_well();
}

/// Keepalive probes, one a second for ten seconds, are answered while 5,000 SYNs a second go to a closed port.
#[test]
fn keepalive_is_answered_during_syn_flood_to_closed_port() {
    const SYNS_PER_SECOND: u64 = 5000;
    let mut world = World::new(16);
    let (client, _) = world.measured();
    let keep = KeepAlive {
        idle: Duration::from_secs(1),
        interval: Duration::from_secs(1),
        count: 3,
    };
    let option = SocketOption::KeepAlive(Some(keep));
    assert_eq!(world.client().set_option(client, option), Ok(()));
    world.begin_flood_every(SECOND / SYNS_PER_SECOND, syns(CLOSED, made_up));
    world.pass(10 * SECOND);
    world.end_flood();
    assert_eq!(world.client().state(client), State::Established);
    world.ends_well();
}

#[test]
fn stale_handle_stays_stale_for_100_000_lives() {
    let mut a = config(1);
    a.max_connections = 1;
    let mut pair = Pair::with(a, config(2), common::MTU);
    let to = SocketAddrV4::new(B, PORT);
    let first = pair.a().connect(to).expect("there is a place");
    assert_eq!(pair.a().abort(first), Ok(()));
    for life in 1..=100_000 {
        let conn = pair.a().connect(to).expect("the place is free again");
        assert_ne!(conn, first, "after {life} lives");
        assert_eq!(pair.a().state(first), State::Closed, "after {life} lives");
        assert_eq!(pair.a().abort(first), Err(Error::NotConnected));
        assert_eq!(pair.a().abort(conn), Ok(()));
        pair.poll_a();
        pair.cable.drain(&mut pair.pool);
    }
    assert_eq!(pair.cable.waiting_for(Side::B), 0);
}

/// Eight connections come at once to a backlog of two, and the application accepts late.
#[test]
fn established_client_is_not_reset_by_full_backlog() {
    let mut world = World::with(victim(), FRAMES, 2);
    world.accepting = false;
    let clients: Vec<_> = (0..8).map(|_| world.connect()).collect();
    let mut hello = [false; 8];
    let mut reset = 0;
    for round in 0..600 {
        world.accepting = round >= 10;
        for (&client, said) in clients.iter().zip(&mut hello) {
            *said = *said || world.client().send(client, b"hello") == Ok(5);
        }
        world.pass(100 * MILLISECOND);
        reset = clients
            .iter()
            .filter(|&&client| world.client().receive(client, &mut [0]) == Err(Error::Reset))
            .count();
        if reset > 0 {
            break;
        }
    }
    assert!(
        world.server.stack.counters().syn_cookies_sent > 0,
        "the backlog was full"
    );
    assert_eq!(reset, 0, "clients of 8 were reset");
    for client in clients {
        let server = world.accepted_as(client).expect("it was accepted");
        assert_eq!(read_all(&mut world, server), b"hello");
    }
    world.ends_well();
}

/// Errors are limited over all hosts, as RFC 1812, 4.3.2.8, asks of routers; the first one is sent.
#[test]
fn datagrams_to_closed_ports_draw_limited_errors() {
    const DATAGRAMS: u32 = 10_000;
    /// Room for a limit of 1,000 a second and a burst. A stack without a limit sends ten times as many.
    const MOST: u64 = 1000;
    let mut world = World::new(16);
    world.begin_flood(empty_datagrams(CLOSED));
    world.pass(FLOOD_INTERVAL);
    world.end_flood();
    world.pass(MILLISECOND);
    assert_eq!(world.heard.icmp_errors, 1);
    world.begin_flood(empty_datagrams(CLOSED));
    world.pass(u64::from(DATAGRAMS) * FLOOD_INTERVAL);
    assert_eq!(world.end_flood(), DATAGRAMS);
    world.pass(MILLISECOND);
    let errors = world.heard.icmp_errors;
    assert!(errors <= MOST, "{errors} errors for {DATAGRAMS} datagrams");
    world.ends_well();
}
