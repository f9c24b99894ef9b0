//! Header prediction over IPv6: what is predicted, what is not, and that no damaged segment passes for a predicted one.

mod common;

use common::{PORT, Pair, address_v6, config_v6, pattern};
use tollgate_checksum::Kernel;
use tollgate_link::Side;
use tollgate_stack::config::{Demux, Prediction};
use tollgate_stack::counters::{Drop, Miss};
use tollgate_stack::{ConnId, Instant, Link, ListenerId, Received, SocketOption};
use tollgate_wire::ipv6;

fn pair() -> Pair {
    Pair::with(config_v6(1), config_v6(2), 1500)
}

/// Opens a connection to B over IPv6.
fn open(pair: &mut Pair, listener: ListenerId) -> (ConnId, ConnId) {
    let client = pair.a().connect((address_v6(2), PORT)).unwrap();
    pair.settle();
    (client, pair.b().accept(listener).unwrap())
}

/// Sends a request from A and its response from B, each into a posted buffer.
fn round_trip(pair: &mut Pair, (client, server): (ConnId, ConnId), request: &[u8]) {
    let mut buffer = [0; 2048];
    pair.now = Instant::from_nanos(pair.now.as_nanos() + 300);
    pair.a().send(client, request).unwrap();
    pair.poll_a();
    let end = &mut pair.cable.end(Side::B);
    let got = pair
        .b
        .at(pair.now, &mut pair.pool)
        .poll_receive(end, server, &mut buffer);
    assert_eq!(got, Ok(Received::Data(request.len())));
    assert_eq!(&buffer[..request.len()], request);
    pair.b().send(server, request).unwrap();
    pair.poll_b();
    let end = &mut pair.cable.end(Side::A);
    let got = pair
        .a
        .at(pair.now, &mut pair.pool)
        .poll_receive(end, client, &mut buffer);
    assert_eq!(got, Ok(Received::Data(request.len())));
    assert_eq!(&buffer[..request.len()], request);
}

/// The only frame on its way to B, taken off the cable.
fn take_from_b(pair: &mut Pair) -> Vec<u8> {
    let mut frames = Vec::new();
    pair.cable.end(Side::B).receive(&mut pair.pool, &mut frames);
    assert_eq!(frames.len(), 1);
    let bytes = pair.pool.frame(&frames[0]).to_vec();
    pair.pool.release(frames[0].id);
    bytes
}

#[test]
fn request_response_is_predicted_whole() {
    let mut pair = pair();
    let listener = pair.listen();
    let ends = open(&mut pair, listener);
    // The first of each end finds its way.
    round_trip(&mut pair, ends, &pattern(64, 0));
    let before = (*pair.a.counters(), *pair.b.counters());
    for n in 0..1000u32 {
        round_trip(&mut pair, ends, &pattern(64, n as u8));
    }
    for (now, before) in [(pair.a.counters(), before.0), (pair.b.counters(), before.1)] {
        assert_eq!(now.predicted - before.predicted, 1000, "{now:?}");
        assert_eq!(now.misses, before.misses);
        assert_eq!(now.frames_in - before.frames_in, 1000);
    }
    pair.a.check_consistency(&pair.pool).unwrap();
    pair.b.check_consistency(&pair.pool).unwrap();
}

/// Both versions at once, and two connections of each, so that the guess of what comes next fails as often as it can.
#[test]
fn versions_and_connections_alternate_and_all_are_predicted() {
    let mut pair = pair();
    let (first_client, first_server) = pair.connect();
    let v4_client = pair.open();
    let listener = pair.b().listen(PORT + 1, 16).unwrap();
    let v6 = [0, 1].map(|_| {
        let client = pair.a().connect((address_v6(2), PORT + 1)).unwrap();
        pair.settle();
        (client, pair.b().accept(listener).unwrap())
    });
    for &ends in &v6 {
        round_trip(&mut pair, ends, b"first");
    }
    round_trip(&mut pair, (first_client, first_server), b"first");
    let before = (*pair.a.counters(), *pair.b.counters());
    for n in 0..100u32 {
        round_trip(&mut pair, v6[0], &pattern(64, n as u8));
        round_trip(
            &mut pair,
            (first_client, first_server),
            &pattern(100, n as u8),
        );
        round_trip(&mut pair, v6[1], &pattern(65, n as u8));
    }
    for (now, before) in [(pair.a.counters(), before.0), (pair.b.counters(), before.1)] {
        assert_eq!(now.predicted - before.predicted, 300, "{now:?}");
        assert_eq!(now.misses, before.misses);
    }
    pair.a().abort(v4_client).unwrap();
}

/// Readers that say nothing of what they wait for, as event loops do: each segment is another connection's than the one before.
#[test]
fn connections_in_turn_are_predicted_where_no_reader_waits() {
    for demux in [Demux::CacheHash, Demux::Hash, Demux::List] {
        let [a, b] = [config_v6(1), config_v6(2)].map(|mut config| {
            config.mechanisms.demux = demux;
            config
        });
        let mut pair = Pair::with(a, b, 1500);
        let listener = pair.listen();
        let ends = [0, 1, 2].map(|_| open(&mut pair, listener));
        for &ends in &ends {
            round_trip(&mut pair, ends, b"first");
        }
        let before = pair.b.counters().predicted;
        for n in 0..30u8 {
            for (client, server) in ends {
                pair.a().send(client, &pattern(64, n)).unwrap();
                pair.poll_a();
                pair.poll_b();
                assert_eq!(pair.read_b(server), pattern(64, n));
                // Its acknowledgment.
                pair.b().send(server, b"so").unwrap();
                pair.settle();
                assert_eq!(pair.read_a(client), b"so");
            }
        }
        assert_eq!(pair.b.counters().predicted - before, 90, "{demux:?}");
    }
}

/// With prediction off at one end, and at both, the same bytes arrive.
#[test]
fn stream_is_the_same_with_prediction_and_without() {
    for off in [[true, false], [false, true], [true, true], [false, false]] {
        let [a, b] = [config_v6(1), config_v6(2)].map(|mut config| {
            let [.., n] = config.ip.octets();
            if off[usize::from(n) - 1] {
                config.mechanisms.prediction = Prediction::Off;
            }
            config
        });
        let mut pair = Pair::with(a, b, 1500);
        let listener = pair.listen();
        let (client, server) = open(&mut pair, listener);
        let bytes = pattern(200_000, 9);
        let (mut sent, mut got) = (0, Vec::new());
        while got.len() < bytes.len() {
            if let Ok(taken) = pair.a().send(client, &bytes[sent..]) {
                sent += taken;
            }
            pair.settle();
            got.extend(pair.read_b(server));
            pair.settle();
        }
        assert!(got == bytes);
        assert_eq!(pair.b.counters().predicted == 0, off[1]);
        pair.a.check_consistency(&pair.pool).unwrap();
        pair.b.check_consistency(&pair.pool).unwrap();
    }
}

/// Every byte of a frame from its type on, changed: the segment is taken by nobody, or says the same as before.
#[test]
fn damaged_segment_is_not_predicted() {
    // What a receiver need not look at: traffic class apart from ECN, flow label, hop limit.
    let ignored = |at: usize| matches!(at, 14..=17 | 21);
    for at in 12..86 + 64 {
        let mut pair = pair();
        let listener = pair.listen();
        let ends = open(&mut pair, listener);
        round_trip(&mut pair, ends, &pattern(64, 1));
        let request = pattern(64, 2);
        pair.a().send(ends.0, &request).unwrap();
        pair.poll_a();
        let before = *pair.b.counters();
        let mut frame = take_from_b(&mut pair);
        assert_eq!(frame.len(), 86 + 64);
        frame[at] ^= 0x04;
        let mut burst = vec![pair.pool.frame_from(&frame).unwrap()];
        pair.cable.end(Side::A).transmit(&mut pair.pool, &mut burst);
        let mut buffer = [0; 2048];
        let end = &mut pair.cable.end(Side::B);
        let got = pair
            .b
            .at(pair.now, &mut pair.pool)
            .poll_receive(end, ends.1, &mut buffer);
        let taken = got == Ok(Received::Data(64));
        assert_eq!(taken, ignored(at), "byte {at}: {got:?}");
        if taken {
            assert_eq!(&buffer[..64], request, "byte {at}");
        } else {
            assert_eq!(pair.b.counters().predicted, before.predicted, "byte {at}");
        }
        pair.b.check_consistency(&pair.pool).unwrap();
        // It comes again, whole.
        pair.pass(2_000_000_000);
        let mut all = pair.read_b(ends.1);
        if taken {
            all = buffer[..64].to_vec();
        }
        assert_eq!(all, request, "byte {at}");
    }
}

#[test]
fn miss_of_a_connection_that_is_known_is_told_as_over_ipv4() {
    let mut pair = pair();
    let listener = pair.listen();
    let (client, server) = open(&mut pair, listener);
    round_trip(&mut pair, (client, server), b"hello");
    let before = pair.b.counters().misses(Miss::Sequence);
    // The first of two segments is lost.
    pair.a().send(client, b"lost").unwrap();
    pair.poll_a();
    take_from_b(&mut pair);
    let no_delay = SocketOption::NoDelay(true);
    pair.a().set_option(client, no_delay).unwrap();
    pair.a().send(client, b"kept").unwrap();
    pair.poll_a();
    pair.poll_b();
    assert_eq!(pair.b.counters().misses(Miss::Sequence), before + 1);
    pair.pass(2_000_000_000);
    assert_eq!(pair.read_b(server), b"lostkept");
}

/// Two words of an address change places, so that its checksum stays right: the segment is another connection's, or nobody's.
#[test]
fn segment_of_another_pair_of_addresses_is_not_predicted() {
    for address in [22, 38] {
        let mut pair = pair();
        let listener = pair.listen();
        let ends = open(&mut pair, listener);
        round_trip(&mut pair, ends, b"hello");
        pair.a().send(ends.0, b"forged").unwrap();
        pair.poll_a();
        let mut frame = take_from_b(&mut pair);
        frame[address..address + 4].rotate_left(2);
        let mut burst = vec![pair.pool.frame_from(&frame).unwrap()];
        pair.cable.end(Side::A).transmit(&mut pair.pool, &mut burst);
        let before = pair.b.counters().predicted;
        pair.poll_b();
        assert_eq!(pair.b.counters().predicted, before, "address at {address}");
        assert_eq!(pair.read_b(ends.1), b"");
    }
}

/// A packet that ends within the options that its data offset counts has no bytes for the reader.
#[test]
fn header_that_the_packet_cuts_off_is_not_predicted() {
    let mut pair = pair();
    let listener = pair.listen();
    let ends = open(&mut pair, listener);
    round_trip(&mut pair, ends, b"hello");
    pair.a().send(ends.0, b"again").unwrap();
    pair.poll_a();
    let whole = take_from_b(&mut pair);
    let before = pair.b.counters().predicted;
    for options in 0..12u8 {
        let len = 20 + options;
        let mut frame = whole[..54 + usize::from(len)].to_vec();
        frame[14 + 5] = len;
        let tcp = &mut frame[54..];
        // A window of another size, so that it says something without data.
        tcp[14] ^= 1;
        tcp[16..18].fill(0);
        let sum = ipv6::pseudo_header(
            address_v6(1),
            address_v6(2),
            ipv6::protocol::TCP,
            len.into(),
        ) + Kernel::HALFWORD.sum(tcp);
        tcp[16..18].copy_from_slice(&sum.finish().to_ne_bytes());
        let mut burst = vec![pair.pool.frame_from(&frame).unwrap()];
        pair.cable.end(Side::A).transmit(&mut pair.pool, &mut burst);
        pair.poll_b();
        assert_eq!(
            pair.b.counters().drops(Drop::Malformed),
            u64::from(options) + 1
        );
    }
    assert_eq!(pair.b.counters().predicted, before);
    assert_eq!(pair.read_b(ends.1), b"");
}
