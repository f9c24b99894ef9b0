//! MTUs up to the largest, and pools whose frames are smaller than the MTU.

mod common;

use common::{MTU, Pair, config, pattern};
use tollgate_link::Side;
use tollgate_stack::config::Ipv6;
use tollgate_stack::{Instant, Link, MAX_MTU, Pool, Received, SocketOption, Stack};
use tollgate_wire::tcp::{Flags, Header};
use tollgate_wire::{ethernet, ipv4};

/// Sends `len` bytes each way at once and reads them.
fn transfer(pair: &mut Pair, len: usize) {
    let (client, server) = pair.connect();
    let there = pattern(len, 1);
    let back = pattern(len, 2);
    let (mut sent, mut answered) = (0, 0);
    let (mut got_there, mut got_back) = (Vec::new(), Vec::new());
    for _ in 0..2000 {
        sent += pair.a().send(client, &there[sent..]).unwrap_or(0);
        answered += pair.b().send(server, &back[answered..]).unwrap_or(0);
        pair.settle();
        got_there.extend(pair.read_b(server));
        got_back.extend(pair.read_a(client));
        if (got_there.len(), got_back.len()) == (len, len) {
            break;
        }
        pair.pass(10_000_000);
    }
    assert!(
        got_there == there,
        "{} of {len} bytes arrived",
        got_there.len()
    );
    assert!(
        got_back == back,
        "{} of {len} bytes came back",
        got_back.len()
    );
    pair.a().close(client).unwrap();
    pair.settle();
    pair.b().close(server).unwrap();
    pair.pass(61_000_000_000);
    assert_eq!(pair.pool.available(), pair.pool.capacity());
}

/// Hosts on a link of `mtu` bytes, with frames of `frame` bytes.
fn hosts(mtu: usize, frame: usize, timestamps: bool) -> Pair {
    let host = |n| {
        let mut config = config(n);
        config.timestamps = timestamps;
        config.receive_buffer = 1 << 20;
        config
    };
    let mut pair = Pair::with(host(1), host(2), mtu);
    pair.pool = Pool::new(512, frame);
    pair
}

#[test]
fn mtu_beyond_the_largest_is_refused() {
    let now = Instant::from_nanos(1);
    for mtu in [0, 67, MAX_MTU + 1, 65_521, 65_535, usize::MAX] {
        let error = Stack::new(config(1), mtu, now).unwrap_err();
        assert_eq!(error.field, "mtu");
        assert!(error.range.contains("65,344"), "{error}");
    }
    for mtu in [68, MTU, MAX_MTU] {
        assert!(Stack::new(config(1), mtu, now).is_ok());
    }
}

#[test]
fn short_and_full_segments_that_wait_in_one_of_the_largest_frames_are_all_read() {
    let mut pair = hosts(MAX_MTU, Pool::frame_size_for(MAX_MTU), true);
    let (client, server) = pair.connect();
    // The window of the handshake holds 65,535 bytes; what follows opens it.
    let before = pattern(20_000, 0);
    pair.a().send(client, &before).unwrap();
    pair.settle();
    assert!(pair.read_b(server) == before);
    pair.pass(100_000_000);
    pair.a()
        .set_option(client, SocketOption::NoDelay(true))
        .unwrap();
    // The second part is packed into a frame of its own, and with the third behind it that holds as many bytes as a frame has: one more
    // than 16 bits count.
    let mss = usize::from(pair.a().info(client).unwrap().mss);
    let data = pattern(100 + 65_536, 1);
    let (first, rest) = data.split_at(100);
    let (short, full) = rest.split_at(rest.len() - mss);
    for part in [first, short, full] {
        assert_eq!(pair.a().send(client, part).unwrap(), part.len());
        pair.settle();
    }
    assert!(pair.read_b(server) == data);
}

#[test]
fn peer_with_a_window_of_one_segment_does_not_wait_for_the_delay() {
    let mut pair = hosts(MAX_MTU, Pool::frame_size_for(MAX_MTU), true);
    let (client, server) = pair.connect();
    // A full segment leaves less of the handshake's window, 65,535 bytes, than the rest takes.
    let data = pattern(65_536, 1);
    let sent = pair.a().send(client, &data).unwrap();
    assert_eq!(sent, data.len());
    let mut got = Vec::new();
    let mut buffer = vec![0; data.len()];
    for _ in 0..4 {
        pair.poll_a();
        let Pair {
            b,
            pool,
            cable,
            now,
            ..
        } = &mut pair;
        let link = &mut cable.end(Side::B);
        let read = b.at(*now, pool).poll_receive(link, server, &mut buffer);
        if let Ok(Received::Data(read)) = read {
            got.extend_from_slice(&buffer[..read]);
        }
        pair.poll_b();
    }
    assert_eq!(got.len(), data.len());
    assert!(got == data);
}

#[test]
fn largest_mtu_carries_full_segments_both_ways() {
    for timestamps in [true, false] {
        let mut pair = hosts(MAX_MTU, Pool::frame_size_for(MAX_MTU), timestamps);
        assert_eq!(pair.pool.frame_size(), 65_536);
        transfer(&mut pair, 1_000_000);
    }
}

#[test]
fn largest_mtu_fills_a_segment_by_small_writes() {
    let mut pair = hosts(MAX_MTU, Pool::frame_size_for(MAX_MTU), true);
    let (client, server) = pair.connect();
    let mss = usize::from(pair.a().info(client).unwrap().mss);
    assert_eq!(mss, MAX_MTU - 52);
    // The first is on its way, so that Nagle's algorithm holds what follows until a segment is full.
    pair.a().send(client, b"x").unwrap();
    for piece in pattern(mss + 700, 3).chunks(701) {
        assert_eq!(pair.a().send(client, piece), Ok(piece.len()));
    }
    pair.pass(100_000_000);
    let mut expected = b"x".to_vec();
    expected.extend(pattern(mss + 700, 3));
    assert!(pair.read_b(server) == expected);
}

#[test]
fn frames_smaller_than_the_mtu_bound_the_segments() {
    for timestamps in [true, false] {
        let mut pair = hosts(9000, 2048, timestamps);
        transfer(&mut pair, 100_000);
        let mut pair = hosts(MAX_MTU, 32_768, timestamps);
        transfer(&mut pair, 1_000_000);
    }
}

/// The first frame that a host sends after an ARP request: its SYN.
fn syn(pair: &mut Pair) -> Header {
    let mac = pair.b.config().mac;
    let to = std::net::SocketAddrV4::new(pair.b.config().ip, common::PORT);
    let ip = *to.ip();
    pair.a().add_neighbour(ip, mac);
    let conn = pair.a().connect(to).unwrap();
    pair.poll_a();
    let mut sent = Vec::new();
    pair.cable.end(Side::B).receive(&mut pair.pool, &mut sent);
    let frame = sent.pop().unwrap();
    let segment = &pair.pool.frame(&frame)[ethernet::HEADER_LEN + ipv4::HEADER_LEN..];
    let header = Header::parse(segment).unwrap();
    pair.pool.release(frame.id);
    pair.a().abort(conn).unwrap();
    header
}

#[test]
fn frames_smaller_than_the_mtu_bound_the_mss_that_is_offered() {
    for (mtu, frame, mss) in [
        (1500, 2048, 1460),
        (1856, 2048, 1816),
        // 2,048 bytes less the headroom of 192 and the headers of 40.
        (9000, 2048, 1816),
        (9000, 16_384, 8960),
    ] {
        for timestamps in [true, false] {
            let mut pair = hosts(mtu, frame, timestamps);
            let header = syn(&mut pair);
            assert_eq!(header.flags, Flags::SYN);
            assert_eq!(header.options.mss, Some(mss), "{mtu} {frame}");
        }
    }
}

/// The sizes of a connection that was opened before are not those of one that is opened after.
#[test]
fn mtu_that_changes_holds_for_the_next_connection() {
    let mut pair = Pair::with(config(1), config(2), MTU);
    let (before, _) = pair.connect();
    assert_eq!(pair.a().info(before).unwrap().mss, MTU as u16 - 40 - 12);
    pair.a().set_mtu(1000).unwrap();
    assert_eq!(pair.a().info(before).unwrap().mss, 1000 - 40 - 12);
    let after = pair.open();
    assert_eq!(pair.a().info(after).unwrap().mss, 1000 - 40 - 12);
    pair.a.check_consistency(&pair.pool).unwrap();
}

/// RFC 8200, 5: every link of IPv6 carries 1,280 bytes.
#[test]
fn ipv6_on_a_link_that_cannot_carry_it_is_refused() {
    let mut config = config(1);
    config.ipv6 = Some(Ipv6::default());
    let refused = |mtu| Stack::new(config, mtu, Instant::ZERO).err();
    assert_eq!(refused(1280), None);
    assert_eq!(refused(1279).map(|refusal| refusal.field), Some("mtu"));
}
