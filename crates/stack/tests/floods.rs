//! Floods of strangers, each of ten times the frames of the server's pool, beside a connection that goes on.
//!
//! The bar for every flood: an established connection completes at least 95 % of the round trips that it completes without
//! the flood, and a new connection is accepted meanwhile. Afterwards every frame is back in the pool. The flood takes a
//! tenth of the line (`sim/line.rs`), so what is lost beyond that is lost in the stack.

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
use tollgate_stack::socket::KeepAlive;
use tollgate_stack::{ConnId, Error, Received, SocketOption, State};
use tollgate_wire::ethernet::MacAddr;
use tollgate_wire::tcp::{Flags, Header, Options};
use tollgate_wire::{SeqNumber, ipv4, udp};

/// Round trips that must be completed of 100 that are completed without the flood.
const BAR: u64 = 95;
/// A port that nobody listens on.
const CLOSED: u16 = 9;
/// A host that floods by a connection of its own.
const STRANGER: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 77), 4000);

/// A host outside of the server's network, for each number another.
fn made_up(number: u64) -> Ipv4Addr {
    Ipv4Addr::from(0xc000_0000 | number as u32 & 0x0fff_ffff)
}

/// SYNs of made-up hosts, without options.
fn syns(port: u16) -> Make {
    let mut next = numbers(1);
    Box::new(move |_, _| {
        let (from, source, iss) = (made_up(next()), next() as u16 | 1, SeqNumber(next() as u32));
        let syn = craft::header(source, port, Flags::SYN, iss, SeqNumber(0));
        craft::tcp(MAC_B, from, B, &syn, &[])
    })
}

/// The handshake of [`STRANGER`], then whatever `make` makes of our first sequence number, the server's, and what it has
/// acknowledged of ours.
fn by_hand(
    mut make: impl FnMut(SeqNumber, SeqNumber, u32) -> (Header, &'static [u8]) + 'static,
) -> Make {
    let iss = SeqNumber(77);
    let mut theirs = None;
    Box::new(move |_, heard| {
        if let Some(answer) = &heard.answer
            && answer.flags.has(Flags::SYN)
        {
            theirs = Some(answer.seq + 1);
        }
        let (header, payload) = match (theirs, &heard.answer) {
            (Some(theirs), Some(answer)) => make(iss + 1, theirs, answer.ack - (iss + 1)),
            _ => (
                craft::header(STRANGER.1, PORT, Flags::SYN, iss, SeqNumber(0)),
                &[][..],
            ),
        };
        craft::tcp(MAC_B, STRANGER.0, B, &header, payload)
    })
}

/// Single bytes in order, 64 beyond what was acknowledged at most, then again from there.
fn single_bytes() -> Make {
    let mut next = 0;
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

/// What one run came to.
struct Run {
    round_trips: u64,
    /// The connection that was opened in the middle of it was accepted before its end.
    accepted: bool,
    world: World,
}

fn run(mut world: World, flood: Option<Make>) -> Run {
    let frames = if flood.is_some() { FLOOD } else { 0 };
    // The congestion window and the timers find their places.
    world.round_trips(10 * MILLISECOND);
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

/// Holds a flood against the bar; returns the world as the flood has left it.
#[track_caller]
fn survives(world: impl Fn() -> World, flood: Make) -> World {
    let without = run(world(), None);
    let with = run(world(), Some(flood));
    // The line itself allows one round trip in about 23 µs.
    assert!(without.round_trips > 3000 && without.accepted);
    let figures = format!(
        "{} round trips with the flood, {} without; new connection accepted: {}; at least {} of {} frames free; {} frames starved",
        with.round_trips,
        without.round_trips,
        with.accepted,
        with.world.server.least,
        with.world.server.pool.capacity(),
        with.world.server.starved,
    );
    println!("{figures}");
    assert!(
        with.round_trips * 100 >= without.round_trips * BAR && with.accepted,
        "{figures}"
    );
    with.world
}

/// The control: what a flood costs on the line alone is far above the bar.
#[test]
fn flood_to_another_host_costs_no_round_trips() {
    let elsewhere = MacAddr([2, 0, 0, 0, 0, 3]);
    let flood: Make = Box::new(move |_, _| {
        let syn = craft::header(1, PORT, Flags::SYN, SeqNumber(0), SeqNumber(0));
        craft::tcp(elsewhere, STRANGER.0, B, &syn, &[])
    });
    survives(|| World::new(16), flood).ends_well();
}

#[test]
fn syn_flood_below_backlog_leaves_round_trips() {
    survives(|| World::new(16_000), syns(PORT)).ends_well();
}

#[test]
fn syn_flood_above_backlog_leaves_round_trips() {
    survives(|| World::new(16), syns(PORT)).ends_well();
}

#[test]
fn syn_flood_to_closed_port_leaves_round_trips() {
    survives(|| World::new(16), syns(CLOSED)).ends_well();
}

#[test]
fn out_of_window_flood_at_own_connection_leaves_round_trips() {
    let mut next = numbers(3);
    let flood: Make = Box::new(move |_, heard| {
        let last = heard.client.expect("there were round trips");
        // Above the window and below it; acknowledgments, SYNs and RSTs.
        let offset = (1 << 24) + next() as u32 % (1 << 30);
        let offset = if next().is_multiple_of(2) {
            offset
        } else {
            0u32.wrapping_sub(offset)
        };
        let flags = [Flags::ACK, Flags::ACK | Flags::SYN, Flags::RST, Flags::SYN];
        let flags = flags[next() as usize % flags.len()];
        let header = craft::header(last.source_port, PORT, flags, last.seq + offset, last.ack);
        let options = Options {
            timestamps: last.options.timestamps,
            ..Options::default()
        };
        craft::tcp(MAC_B, scene::A, B, &Header { options, ..header }, &[])
    });
    let mut world = survives(|| World::new(16), flood);
    let (client, server) = world.measured();
    assert_eq!(world.client().state(client), State::Established);
    assert_eq!(world.server().state(server), State::Established);
    world.ends_well();
}

#[test]
fn out_of_window_flood_at_other_connection_leaves_round_trips() {
    let mut established = false;
    let flood = by_hand(move |first, theirs, _| {
        let seq = if established {
            first + (1 << 24)
        } else {
            first
        };
        established = true;
        (
            craft::header(STRANGER.1, PORT, Flags::ACK, seq, theirs),
            b"",
        )
    });
    survives(|| World::new(16), flood).ends_well();
}

#[test]
fn single_byte_flood_to_sleeping_reader_leaves_round_trips() {
    let mut world = survives(|| World::new(16), single_bytes());
    world.pass(SECOND);
    let answer = world.heard.answer.expect("the stranger was answered");
    let (_, sleeper) = *world
        .accepted
        .iter()
        .find(|(from, _)| *from.ip() == STRANGER.0)
        .expect("it was accepted");
    // What was acknowledged is there to be read: SYN and bytes.
    let read = read_all(&mut world, sleeper);
    assert_eq!(SeqNumber(77) + 1 + read.len() as u32, answer.ack);
    assert!(!read.is_empty());
    world.ends_well();
}

#[test]
fn echo_flood_of_made_up_neighbours_leaves_round_trips() {
    let flood: Make = Box::new(|n, _| {
        let from = Ipv4Addr::new(10, 0, 0, 3 + (n % 250) as u8);
        let [high, low] = (n as u16).to_be_bytes();
        craft::icmp(MAC_B, from, B, [8, 0, 0, 0, 0, 1, high, low], &[])
    });
    survives(|| World::new(16), flood).ends_well();
}

#[test]
fn empty_datagram_flood_leaves_round_trips() {
    let bound = || {
        let mut world = World::new(16);
        world.server().udp_bind(CLOSED).expect("the port is free");
        world
    };
    survives(bound, empty_datagrams(CLOSED)).ends_well();
}

/// Everything that there is to read of a connection of the server's.
fn read_all(world: &mut World, conn: ConnId) -> Vec<u8> {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(Received::Data(n)) = world.server().receive(conn, &mut buffer) {
        read.extend_from_slice(&buffer[..n]);
        world.turn_server();
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

/// Nobody floods: a client sends 256 messages of 100 bytes, which the application leaves unread, to a pool of 256 frames.
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

#[test]
fn syn_ack_holds_no_frame_once_it_is_sent() {
    const SYNS: u64 = 1100;
    let mut server = victim();
    server.max_connections = 16_384;
    let mut world = World::with(server, FRAMES, 4096);
    let free = world.server.pool.available();
    world.begin_flood(syns(PORT));
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

/// The application has closed; the peer answers every probe of its closed window and never opens it (RFC 6429, 4: the host may
/// end it).
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
    let socket = world.server().udp_bind(CLOSED).expect("the port is free");
    world.begin_flood(empty_datagrams(CLOSED));
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
    world.begin_flood(empty_datagrams(CLOSED));
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
    /// What a limit of 1,000 a second leaves room for beside a burst; a stack without a limit sends ten times as many.
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
