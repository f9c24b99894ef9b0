//! Two hosts talk: handshake, data both ways, close, echo, datagrams.

mod common;

use common::{PORT, Pair, config, pattern};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use tollgate_checksum::Kernel;
use tollgate_link::Side;
use tollgate_stack::config::ChecksumPolicy;
use tollgate_stack::counters::Miss;
use tollgate_stack::{Error, Event, Received, SocketOption, State};

#[test]
fn a_connection_opens_carries_data_both_ways_and_closes() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
    assert_eq!(pair.a().state(client), State::Established);
    assert_eq!(pair.b().state(server), State::Established);

    let request = pattern(20_000, 1);
    assert_eq!(pair.a().send(client, &request), Ok(20_000));
    // The last, partial segment waits for an acknowledgment, which is delayed.
    pair.pass(100_000_000);
    assert!(pair.read_b(server) == request);
    let answer = pattern(5, 2);
    assert_eq!(pair.b().send(server, &answer), Ok(5));
    pair.settle();
    assert_eq!(pair.read_a(client), answer);

    pair.a().close(client).unwrap();
    pair.settle();
    assert_eq!(pair.b().receive(server, &mut [0; 8]), Ok(Received::End));
    assert_eq!(pair.b().state(server), State::CloseWait);
    pair.b().close(server).unwrap();
    pair.settle();
    assert_eq!(pair.a.time_waits(), 1);
    assert_eq!(pair.a.connections() + pair.b.connections(), 0);
    pair.pass(61_000_000_000);
    assert_eq!(pair.a.time_waits(), 0);
    assert_eq!(pair.pool.available(), pair.pool.capacity());
}

#[test]
fn request_response_is_predicted_whole() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
    let mut buffer = [0; 2048];
    let before = (*pair.a.counters(), *pair.b.counters());
    for n in 0..1000u32 {
        pair.now = tollgate_stack::Instant::from_nanos(pair.now.as_nanos() + 300);
        let request = pattern(64, n as u8);
        pair.a().send(client, &request).unwrap();
        pair.poll_a();
        let end = &mut pair.cable.end(Side::B);
        let got = pair
            .b
            .at(pair.now, &mut pair.pool)
            .poll_receive(end, server, &mut buffer);
        assert_eq!(got, Ok(Received::Data(64)));
        assert_eq!(buffer[..64], request);
        pair.b().send(server, &buffer[..64]).unwrap();
        pair.poll_b();
        let end = &mut pair.cable.end(Side::A);
        let got = pair
            .a
            .at(pair.now, &mut pair.pool)
            .poll_receive(end, client, &mut buffer);
        assert_eq!(got, Ok(Received::Data(64)));
        assert_eq!(buffer[..64], request);
    }
    let (a, b) = (pair.a.counters(), pair.b.counters());
    assert_eq!(a.predicted - before.0.predicted, 1000, "{a:?}");
    assert_eq!(b.predicted - before.1.predicted, 1000, "{b:?}");
    assert_eq!(a.misses, before.0.misses);
    assert_eq!(b.misses, before.1.misses);
}

/// Writes of every size go behind a segment that Nagle's algorithm holds, with each kernel and without checksums.
#[test]
fn small_writes_fill_the_segment_that_waits() {
    let kernels = Kernel::all().map(|kernel| (kernel, ChecksumPolicy::Always));
    for (kernel, policy) in kernels.chain([(Kernel::best(), ChecksumPolicy::Off)]) {
        let adjusted = |host| {
            let mut config = config(host);
            config.kernel = kernel;
            config.mechanisms.checksum = policy;
            config
        };
        let mut pair = Pair::with(adjusted(1), adjusted(2), common::MTU);
        let (client, server) = pair.connect();
        let mut sent = Vec::new();
        for (n, len) in [1, 64, 3, 0, 200, 63, 127, 128, 1, 1447, 1448, 64]
            .into_iter()
            .cycle()
            .take(120)
            .enumerate()
        {
            let message = pattern(len, n as u8);
            assert_eq!(pair.a().send(client, &message), Ok(len));
            sent.extend_from_slice(&message);
        }
        pair.pass(1_000_000_000);
        assert!(pair.read_b(server) == sent, "{kernel:?}, {policy:?}");
        let counters = pair.b.counters();
        assert_eq!(counters.misses[Miss::Checksum as usize], 0, "{kernel:?}");
    }
}

/// A segment that waits takes no more than the send buffer does, also when that has become smaller meanwhile.
#[test]
fn small_writes_stop_at_the_end_of_the_send_buffer() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
    pair.a()
        .set_option(client, SocketOption::SendBuffer(8192))
        .unwrap();
    let mut taken = 0;
    while let Ok(bytes) = pair.a().send(client, &[7; 64]) {
        taken += bytes;
        if taken == 4096 + 640 {
            pair.a()
                .set_option(client, SocketOption::SendBuffer(5000))
                .unwrap();
        }
    }
    assert_eq!(taken, 5000);
    pair.pass(1_000_000_000);
    assert_eq!(pair.read_b(server).len(), 5000);
    assert_eq!(pair.pool.available(), pair.pool.capacity());
}

/// One message takes no more than the send buffer does where segments are longer than it, be it set before or in the middle.
#[test]
fn a_long_segment_stops_at_the_end_of_the_send_buffer() {
    let mut pair = Pair::with(config(1), config(2), 9000);
    let (client, server) = pair.connect();
    for (buffer, taken) in [(5000, 5000), (1 << 16, 8000), (6000, 6000)] {
        pair.a()
            .set_option(client, SocketOption::SendBuffer(buffer))
            .unwrap();
        assert_eq!(pair.a().send(client, &[7; 8000]), Ok(taken));
        pair.pass(1_000_000_000);
        assert_eq!(pair.read_b(server).len(), taken);
    }
}

/// Data that would wait behind a FIN is refused, and the FIN stays behind the data that was written before.
#[test]
fn nothing_is_written_behind_a_fin_that_waits() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
    assert_eq!(pair.a().send(client, &[1; 10]), Ok(10));
    assert_eq!(pair.a().send(client, &[2; 10]), Ok(10));
    pair.a().shutdown(client).unwrap();
    assert_eq!(pair.a().send(client, &[3; 10]), Err(Error::Shutdown));
    pair.pass(1_000_000_000);
    assert_eq!(pair.read_b(server).len(), 20);
    assert_eq!(pair.b().receive(server, &mut [0; 8]), Ok(Received::End));
}

#[test]
fn a_refused_connection_says_so() {
    let mut pair = Pair::new();
    let to = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), PORT);
    let client = pair.a().connect(to).unwrap();
    pair.settle();
    assert_eq!(pair.a().receive(client, &mut [0; 8]), Err(Error::Refused));
    assert_eq!(pair.a().close(client), Err(Error::Refused));
    assert_eq!(pair.a.connections(), 0);
    assert_eq!(pair.pool.available(), pair.pool.capacity());
}

#[test]
fn nobody_at_the_address_is_unreachable() {
    let mut pair = Pair::new();
    let to = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 77), PORT);
    let client = pair.a().connect(to).unwrap();
    pair.pass(10_000_000_000);
    assert_eq!(pair.a().close(client), Err(Error::Unreachable));
    assert_eq!(pair.pool.available(), pair.pool.capacity());
}

#[test]
fn echoes_come_back_also_in_fragments() {
    let mut pair = Pair::new();
    for len in [0, 56, 1472, 1473, 20_000, 65_507] {
        let data = pattern(len, 9);
        pair.a()
            .ping(Ipv4Addr::new(10, 0, 0, 2), 5, len as u16, &data)
            .unwrap();
        pair.settle();
        // The first echo waits for the neighbour.
        let echo = pair
            .a()
            .next_echo()
            .unwrap_or_else(|| panic!("no echo of {len} bytes"));
        assert_eq!(echo.data, data);
    }
    assert_eq!(pair.pool.available(), pair.pool.capacity());
}

#[test]
fn datagrams_arrive_and_a_closed_port_answers() {
    let mut pair = Pair::new();
    let a = pair.a().udp_bind(1000).unwrap();
    let b = pair.b().udp_bind(2000).unwrap();
    assert_eq!(pair.b().udp_bind(2000), Err(Error::InUse));
    let to = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 2000);
    for len in [0, 1, 1472, 9000] {
        let data = pattern(len, 3);
        pair.a().udp_send(a, to, &data).unwrap();
        pair.settle();
        let (from, got) = pair.b().udp_receive(b).unwrap();
        assert_eq!(from, SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), 1000)));
        assert_eq!(got, data);
    }
    let closed = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 2001);
    pair.a().udp_send(a, closed, b"x").unwrap();
    pair.settle();
    assert_eq!(pair.a().udp_receive(a), Err(Error::Refused));
    assert_eq!(pair.a().udp_receive(a), Err(Error::WouldBlock));
    assert_eq!(pair.pool.available(), pair.pool.capacity());
}

#[test]
fn a_window_closes_and_opens_again() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
    let text = pattern(1_000_000, 4);
    let mut sent = 0;
    for _ in 0..10 {
        if let Ok(n) = pair.a().send(client, &text[sent..]) {
            sent += n;
        }
        pair.pass(1_000_000_000);
    }
    // The reader's buffer and the sender's are full, or the pool is at its reserve.
    let refusal = loop {
        match pair.a().send(client, &text[sent..]) {
            Ok(n) => sent += n,
            Err(refusal) => break refusal,
        }
    };
    assert!(sent < text.len());
    assert_eq!(refusal, Error::WouldBlock);
    let mut got = Vec::new();
    while got.len() < text.len() {
        got.extend(pair.read_b(server));
        pair.pass(1_000_000);
        if sent < text.len()
            && let Ok(n) = pair.a().send(client, &text[sent..])
        {
            sent += n;
        }
        pair.settle();
    }
    assert!(got == text);
    pair.a().abort(client).unwrap();
    pair.settle();
    assert_eq!(pair.b().receive(server, &mut [0; 8]), Err(Error::Reset));
    assert_eq!(pair.b().close(server), Err(Error::Reset));
    assert_eq!(pair.pool.available(), pair.pool.capacity());
}

#[test]
fn buffers_are_sent_and_received_without_a_copy() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
    let mut buffer = pair.pool.buffer(1000).unwrap();
    pair.pool
        .payload_mut(&mut buffer)
        .copy_from_slice(&pattern(1000, 5));
    pair.a().send_buffer(client, buffer).unwrap();
    pair.settle();
    let got = pair.b().receive_buffer(server).unwrap().unwrap();
    assert_eq!(pair.pool.payload(&got), pattern(1000, 5));
    // Sent back as it is.
    pair.b().send_buffer(server, got).unwrap();
    pair.settle();
    assert_eq!(pair.read_a(client), pattern(1000, 5));
    pair.a().abort(client).unwrap();
    pair.b().abort(server).unwrap();
    pair.settle();
    assert_eq!(pair.pool.available(), pair.pool.capacity());
}

#[test]
fn events_that_nobody_takes_do_not_pile_up() {
    let mut pair = Pair::new();
    let listener = pair.listen();
    for _ in 0..50 {
        let client = pair.open();
        // Asked before the connection is accepted: its events wait for that.
        assert_eq!(
            pair.b().next_event(),
            Some(Event::Listener { listener, token: 0 })
        );
        assert_eq!(pair.b().next_event(), None);
        let server = pair.b().accept(listener).unwrap();
        let event = pair.b().next_event().unwrap();
        assert!(
            matches!(event, Event::Connection { conn, ready, .. } if conn == server && ready.connected())
        );
        pair.a().send(client, b"x").unwrap();
        pair.settle();
        pair.a().abort(client).unwrap();
        pair.settle();
        assert_eq!(pair.b().close(server), Err(Error::Reset));
    }
    let left = std::iter::from_fn(|| pair.a().next_event()).count();
    assert_eq!(left, 0);
    assert_eq!(pair.pool.available(), pair.pool.capacity());
}
