//! Parts of a packet's way, between gates.
//!
//! Each scenario sends one segment for an operation and counts one end's passage through the gates that it names; the
//! other end, and everything else that is needed for it, is not counted.

use super::{Done, SEGMENT, Scenario, hosts, pattern, require};
use crate::Error;
use crate::callgrind::{counted_by_gates, toggle_collect};
use crate::hosts::{Ends, Hosts};
use crate::toggle::{GateToggle, bits, pairs};
use std::time::Duration;
use tollgate_gate::Gate;
use tollgate_link::Side;
use tollgate_stack::config::{ChecksumPolicy, Demux, HeaderTemplate, Nagle};
use tollgate_stack::socket::{KeepAlive, SocketOption};

/// Received by IP, up to the socket queue, the checksum left out.
const RECEIVE: u32 = bits(&[
    Gate::IpInBegin,
    Gate::ChecksumInBegin,
    Gate::ChecksumInEnd,
    Gate::SocketQueued,
]);
/// From `send()` to the device queue.
const SEND: u32 = bits(&[Gate::SocketOutBegin, Gate::DeviceQueueIn]);
/// TCP input up to its end, the checksum left out. Counting is switched off by hand when `poll` returns.
const TCP_INPUT: u32 = bits(&[Gate::TcpInBegin, Gate::ChecksumInBegin, Gate::ChecksumInEnd]);
/// From `send()` to IP.
const TCP_OUT: u32 = bits(&[Gate::SocketOutBegin, Gate::IpOutBegin]);
/// IP input.
const IP_INPUT: u32 = bits(&[Gate::IpInBegin, Gate::DemuxBegin]);
/// IP output.
const IP_OUTPUT: u32 = bits(&[Gate::IpOutBegin, Gate::DeviceQueueIn]);
/// From addresses and ports to the connection.
const LOOKUP: u32 = bits(&[Gate::DemuxBegin, Gate::TcpInBegin]);

const COUNT: u64 = 5_000;

pub(super) const RECEIVE_PATH: Scenario = Scenario {
    name: "receive-path",
    about: "a segment of 64 bytes with a new acknowledgment: ip.in.begin to tcp.in.checksum.begin, and \
            tcp.in.checksum.end to socket.queue.in",
    count: COUNT,
    run: |count| receive::<RECEIVE>("receive-path", Demux::CacheHash, 1, count),
};

pub(super) const SEND_PATH: Scenario = Scenario {
    name: "send-path",
    about: "a segment of 1 byte with an acknowledgment, checksum policy off: socket.out.begin to device.queue.in",
    count: COUNT,
    run: send::<SEND>,
};

pub(super) const TCP_INPUT_RECEIVER: Scenario = Scenario {
    name: "tcp-input-receiver",
    about: "the first of two full segments of a one-way stream, at its receiver: tcp.in.begin to tcp.in.checksum.begin, \
            and tcp.in.checksum.end to the return of poll()",
    count: COUNT,
    run: |count| one_way("tcp-input-receiver", Counted::InputOfData, count),
};

pub(super) const TCP_INPUT_SENDER: Scenario = Scenario {
    name: "tcp-input-sender",
    about: "the acknowledgment of two full segments, at their sender: tcp.in.begin to tcp.in.checksum.begin, and \
            tcp.in.checksum.end to the return of poll()",
    count: COUNT,
    run: |count| one_way("tcp-input-sender", Counted::InputOfAcknowledgment, count),
};

pub(super) const TCP_OUTPUT: Scenario = Scenario {
    name: "tcp-output",
    about: "a segment of 1 byte with an acknowledgment, checksum policy off: socket.out.begin to ip.out.begin, the \
            socket's call and the headers of all layers included",
    count: COUNT,
    run: send::<TCP_OUT>,
};

pub(super) const TCP_OUTPUT_UNTEMPLATED: Scenario = Scenario {
    name: "tcp-output-untemplated",
    about: "the same segment as tcp-output, its headers written field by field and summed anew, on the way of output \
            that is not predicted: socket.out.begin to ip.out.begin",
    count: COUNT,
    run: untemplated,
};

pub(super) const TIMER_RESET: Scenario = Scenario {
    name: "timer-reset",
    about: "send() and poll() for the third of three segments in flight, of which the acknowledgment of two starts the \
            retransmission timer anew",
    count: COUNT,
    run: timer_reset,
};

pub(super) const IP_IN: Scenario = Scenario {
    name: "ip-in",
    about: "ip.in.begin to demux.begin; the header's checksum is verified later, with TCP's",
    count: COUNT,
    run: |count| receive::<IP_INPUT>("ip-in", Demux::CacheHash, 1, count),
};

pub(super) const IP_OUT: Scenario = Scenario {
    name: "ip-out",
    about: "ip.out.begin to device.queue.in; the header is written before, with TCP's, from one template",
    count: COUNT,
    run: send::<IP_OUTPUT>,
};

pub(super) const LOOKUP_CACHED: Scenario = Scenario {
    name: "lookup-cached",
    about: "demux.begin to tcp.in.begin, the connection of the last segment",
    count: COUNT,
    run: |count| receive::<LOOKUP>("lookup-cached", Demux::CacheHash, 1, count),
};

pub(super) const LOOKUP_HASHED: Scenario = Scenario {
    name: "lookup-hashed",
    about: "demux.begin to tcp.in.begin, another connection than that of the last segment, of 1,000",
    count: COUNT,
    run: |count| receive::<LOOKUP>("lookup-hashed", Demux::CacheHash, 1_000, count),
};

pub(super) const SEND_DATA: Scenario = Scenario {
    name: "send-data",
    about: "send() and poll() for one full segment of a one-way stream",
    count: COUNT,
    run: |count| one_way("send-data", Counted::Sending, count),
};

pub(super) const RECEIVE_DATA: Scenario = Scenario {
    name: "receive-data",
    about: "poll() and receive() for the first of two full segments of a one-way stream",
    count: COUNT,
    run: |count| one_way("receive-data", Counted::Receiving, count),
};

pub(super) const RECEIVE_ACK: Scenario = Scenario {
    name: "receive-ack",
    about: "poll() for the acknowledgment of two full segments",
    count: COUNT,
    run: |count| one_way("receive-ack", Counted::Acknowledged, count),
};

pub(super) const WHEEL_INSERT: Scenario = Scenario {
    name: "wheel-insert",
    about: "a keepalive time that is earlier than all before: the connection's entry in the wheel moves",
    count: COUNT,
    run: wheel_insert,
};

pub(super) const WHEEL_CANCEL: Scenario = Scenario {
    name: "wheel-cancel",
    about: "abort() of an idle connection: its entry in the wheel is taken out",
    count: COUNT,
    run: wheel_cancel,
};

/// Round trips of 64 bytes of which the server's receipt is counted by `GATES`; into the socket queue, not into a posted
/// buffer.
fn receive<const GATES: u32>(
    name: &'static str,
    demux: Demux,
    connections: usize,
    count: u64,
) -> Result<Done, Error> {
    let mut hosts = Hosts::new(connections, super::MTU, |config| {
        config.mechanisms.nagle = Nagle::Off;
        config.mechanisms.demux = demux;
    })?;
    let all = hosts.connect_many(connections)?;
    let mut buffer = [0; 64];
    for &ends in all.iter().cycle().take(2 * all.len().max(50)) {
        hosts.round_trip(ends, &[7; 64], &mut buffer);
    }
    let (missed, hits) = (hosts.misses(), hosts.server.counters().cache_hits());
    counted_by_gates(|| {
        for &ends in all.iter().cycle().take(count as usize) {
            queued_round_trip::<GATES>(&mut hosts, ends, &mut buffer);
        }
    });
    let (missed, hits) = (
        hosts.misses() - missed,
        hosts.server.counters().cache_hits() - hits,
    );
    require(name, missed == 0, || {
        format!("{missed} segments were not predicted")
    })?;
    let expected = if connections == 1 { count } else { 0 };
    require(name, hits == expected, || {
        format!("{hits} lookups of {count} hit the cache")
    })?;
    Ok(Done {
        operations: count,
        pairs: count * pairs(GATES),
    })
}

/// A round trip whose request goes through the server's socket queue.
#[inline(never)]
fn queued_round_trip<const GATES: u32>(
    hosts: &mut Hosts,
    (client, server): Ends,
    buffer: &mut [u8; 64],
) {
    let a = &mut hosts.client.at(hosts.now, &mut hosts.pool);
    a.send(client, &[7; 64]).expect("there is room");
    a.poll(&mut hosts.cable.end(Side::A));
    hosts
        .server
        .recorded(hosts.now, &mut hosts.pool, GateToggle::<GATES>)
        .poll(&mut hosts.cable.end(Side::B));
    hosts.tick(100);
    let b = &mut hosts.server.at(hosts.now, &mut hosts.pool);
    b.receive(server, buffer).expect("the connection is open");
    b.send(server, buffer).expect("there is room");
    b.poll(&mut hosts.cable.end(Side::B));
    hosts.poll_client();
    hosts
        .client
        .at(hosts.now, &mut hosts.pool)
        .receive(client, buffer)
        .expect("the connection is open");
    hosts.tick(100);
    while hosts.server_event().is_some() {}
    while hosts.client_event().is_some() {}
}

/// Round trips of one byte, checksum policy off, of which the client's `send()` is counted by `GATES`.
fn send<const GATES: u32>(count: u64) -> Result<Done, Error> {
    send_from::<GATES>(hosts(16, ChecksumPolicy::Off)?, count)
}

/// TCP output without header templates.
fn untemplated(count: u64) -> Result<Done, Error> {
    let hosts = Hosts::new(16, super::MTU, |config| {
        config.mechanisms.nagle = Nagle::Off;
        config.mechanisms.checksum = ChecksumPolicy::Off;
        config.mechanisms.template = HeaderTemplate::Off;
    })?;
    send_from::<TCP_OUT>(hosts, count)
}

fn send_from<const GATES: u32>(mut hosts: Hosts, count: u64) -> Result<Done, Error> {
    let ends = hosts.connect()?;
    let mut octet = [0];
    for _ in 0..100 {
        hosts.round_trip(ends, &[7], &mut octet);
    }
    let missed = hosts.misses();
    counted_by_gates(|| {
        for _ in 0..count {
            gated_send::<GATES>(&mut hosts, ends.0);
            hosts.poll_client();
            hosts.poll_server();
            let b = &mut hosts.server.at(hosts.now, &mut hosts.pool);
            b.receive(ends.1, &mut octet)
                .expect("the connection is open");
            hosts.tick(100);
            b_answers(&mut hosts, ends, &mut octet);
        }
    });
    let missed = hosts.misses() - missed;
    require("send-path", missed == 0, || {
        format!("{missed} segments were not predicted")
    })?;
    Ok(Done {
        operations: count,
        pairs: count * pairs(GATES),
    })
}

#[inline(never)]
fn gated_send<const GATES: u32>(hosts: &mut Hosts, conn: tollgate_stack::ConnId) {
    hosts
        .client
        .recorded(hosts.now, &mut hosts.pool, GateToggle::<GATES>)
        .send(conn, &[7])
        .expect("there is room");
}

/// The response to a request that was read.
#[inline(never)]
fn b_answers(hosts: &mut Hosts, ends: Ends, octet: &mut [u8; 1]) {
    let b = &mut hosts.server.at(hosts.now, &mut hosts.pool);
    b.send(ends.1, octet).expect("there is room");
    b.poll(&mut hosts.cable.end(Side::B));
    hosts.poll_client();
    hosts
        .client
        .at(hosts.now, &mut hosts.pool)
        .receive(ends.0, octet)
        .expect("the connection is open");
    hosts.tick(100);
    hosts.drain_events();
}

/// Counted part of a one-way stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// TCP input of a data segment.
    InputOfData,
    /// TCP input of an acknowledgment.
    InputOfAcknowledgment,
    /// The calls that send a segment.
    Sending,
    /// The calls that receive one.
    Receiving,
    /// The call that takes an acknowledgment.
    Acknowledged,
}

/// Two full segments and their acknowledgment for each operation.
fn one_way(name: &'static str, what: Counted, count: u64) -> Result<Done, Error> {
    let mut hosts = hosts(16, ChecksumPolicy::Always)?;
    let ends = hosts.connect()?;
    let segment = pattern(SEGMENT);
    let mut buffer = vec![0; SEGMENT];
    begin_behind_an_acknowledgment(&mut hosts, ends, &segment, &mut buffer);
    let missed = hosts.misses();
    let mut drawn = 0;
    counted_by_gates(|| {
        for _ in 0..count {
            drawn += two_segments(&mut hosts, ends, &segment, &mut buffer, Some(what));
        }
    });
    let missed = hosts.misses() - missed;
    require(name, missed == 0, || {
        format!("{missed} segments were not predicted")
    })?;
    require(name, drawn == count as usize, || {
        format!("{drawn} acknowledgments were drawn by {count} pairs")
    })?;
    require(name, buffer == segment, || {
        "the octets differ from those that were sent".to_owned()
    })?;
    let per_operation = match what {
        Counted::InputOfData | Counted::InputOfAcknowledgment => 2,
        Counted::Sending | Counted::Receiving | Counted::Acknowledged => 1,
    };
    Ok(Done {
        operations: count,
        pairs: count * per_operation,
    })
}

/// Warms a stream up. Every second segment draws an acknowledgment: the next one is the first behind one that did.
fn begin_behind_an_acknowledgment(
    hosts: &mut Hosts,
    ends: Ends,
    segment: &[u8],
    buffer: &mut [u8],
) {
    for _ in 0..200 {
        two_segments(hosts, ends, segment, buffer, None);
    }
    loop {
        send_segment(hosts, ends, segment);
        hosts.poll_server();
        read_segment(hosts, ends, buffer);
        let drawn = hosts.cable.waiting_for(Side::A) != 0;
        hosts.settle();
        if drawn {
            break;
        }
    }
}

/// Sends two segments, one after the other; returns how many acknowledgments the second has drawn.
#[inline(never)]
fn two_segments(
    hosts: &mut Hosts,
    ends: Ends,
    segment: &[u8],
    buffer: &mut [u8],
    what: Option<Counted>,
) -> usize {
    match what {
        Some(Counted::Sending) => {
            toggle_collect();
            send_segment(hosts, ends, segment);
            toggle_collect();
        }
        _ => send_segment(hosts, ends, segment),
    }
    match what {
        Some(Counted::Receiving) => {
            toggle_collect();
            hosts.poll_server();
            read_segment(hosts, ends, buffer);
            toggle_collect();
        }
        Some(Counted::InputOfData) => {
            input(hosts, Side::B);
            read_segment(hosts, ends, buffer);
        }
        _ => {
            hosts.poll_server();
            read_segment(hosts, ends, buffer);
        }
    }
    hosts.tick(100);
    send_segment(hosts, ends, segment);
    hosts.poll_server();
    read_segment(hosts, ends, buffer);
    let drawn = hosts.cable.waiting_for(Side::A);
    match what {
        Some(Counted::Acknowledged) => {
            toggle_collect();
            hosts.poll_client();
            toggle_collect();
        }
        Some(Counted::InputOfAcknowledgment) => input(hosts, Side::A),
        _ => hosts.poll_client(),
    }
    hosts.tick(100);
    hosts.drain_events();
    drawn
}

#[inline(never)]
fn send_segment(hosts: &mut Hosts, ends: Ends, segment: &[u8]) {
    let a = &mut hosts.client.at(hosts.now, &mut hosts.pool);
    a.send(ends.0, segment).expect("there is room");
    a.poll(&mut hosts.cable.end(Side::A));
}

#[inline(never)]
fn read_segment(hosts: &mut Hosts, ends: Ends, buffer: &mut [u8]) {
    hosts
        .server
        .at(hosts.now, &mut hosts.pool)
        .receive(ends.1, buffer)
        .expect("the connection is open");
}

/// A turn of one end with TCP input counted.
#[inline(never)]
fn input(hosts: &mut Hosts, side: Side) {
    let stack = match side {
        Side::A => &mut hosts.client,
        Side::B => &mut hosts.server,
    };
    stack
        .recorded(hosts.now, &mut hosts.pool, GateToggle::<TCP_INPUT>)
        .poll(&mut hosts.cable.end(side));
    toggle_collect();
}

/// Each operation has three segments in flight and takes the acknowledgment of the first two, then of the third.
fn timer_reset(count: u64) -> Result<Done, Error> {
    let mut hosts = hosts(16, ChecksumPolicy::Always)?;
    let ends = hosts.connect()?;
    let segment = pattern(SEGMENT);
    let mut buffer = vec![0; SEGMENT];
    begin_behind_an_acknowledgment(&mut hosts, ends, &segment, &mut buffer);
    let missed = hosts.misses();
    let mut drawn = 0;
    counted_by_gates(|| {
        for _ in 0..count {
            drawn += three_in_flight(&mut hosts, ends, &segment, &mut buffer);
        }
    });
    let missed = hosts.misses() - missed;
    require("timer-reset", missed == 0, || {
        format!("{missed} segments were not predicted")
    })?;
    require("timer-reset", drawn == count as usize, || {
        format!("{drawn} acknowledgments were drawn by {count} pairs")
    })?;
    Ok(Done {
        operations: count,
        pairs: count,
    })
}

/// Returns how many acknowledgments the first two segments have drawn.
#[inline(never)]
fn three_in_flight(hosts: &mut Hosts, ends: Ends, segment: &[u8], buffer: &mut [u8]) -> usize {
    for _ in 0..2 {
        send_segment(hosts, ends, segment);
        hosts.poll_server();
        read_segment(hosts, ends, buffer);
    }
    let drawn = hosts.cable.waiting_for(Side::A);
    // The poll that sends the third takes the acknowledgment.
    toggle_collect();
    send_segment(hosts, ends, segment);
    toggle_collect();
    hosts.tick(100);
    // The third is acknowledged with a fourth.
    hosts.poll_server();
    read_segment(hosts, ends, buffer);
    send_segment(hosts, ends, segment);
    hosts.poll_server();
    read_segment(hosts, ends, buffer);
    hosts.poll_client();
    hosts.tick(100);
    hosts.drain_events();
    drawn
}

/// Each operation sets a connection's keepalive time earlier than its wheel entry.
fn wheel_insert(count: u64) -> Result<Done, Error> {
    let connections = 1_000;
    let mut hosts = hosts(connections, ChecksumPolicy::Always)?;
    let all = hosts.connect_many(connections)?;
    // What opening has set runs out: the entries in the wheel move far away.
    for _ in 0..1_000 {
        hosts.tick(1 << 20);
        hosts.settle();
    }
    counted_by_gates(|| {
        for (n, ends) in (0..count).zip(all.iter().cycle()) {
            // Days, then minutes: each round of the connections sets them to an earlier time.
            let idle = Duration::from_secs(3_600 - 600 * (n / connections as u64) - n % 60);
            let keep = KeepAlive {
                idle,
                interval: Duration::from_secs(1),
                count: 3,
            };
            set_keepalive(&mut hosts, ends.0, keep);
        }
    });
    Ok(Done {
        operations: count,
        pairs: count,
    })
}

#[inline(never)]
fn set_keepalive(hosts: &mut Hosts, conn: tollgate_stack::ConnId, keep: KeepAlive) {
    let stack = &mut hosts.client.at(hosts.now, &mut hosts.pool);
    toggle_collect();
    let outcome = stack.set_option(conn, SocketOption::KeepAlive(Some(keep)));
    toggle_collect();
    outcome.expect("the connection is open");
}

/// Each operation aborts a connection.
fn wheel_cancel(count: u64) -> Result<Done, Error> {
    let mut hosts = hosts(count as usize, ChecksumPolicy::Always)?;
    let all = hosts.connect_many(count as usize)?;
    counted_by_gates(|| {
        for ends in &all {
            abort(&mut hosts, ends.0);
            hosts.settle();
            hosts.drain_events();
        }
    });
    Ok(Done {
        operations: count,
        pairs: count,
    })
}

#[inline(never)]
fn abort(hosts: &mut Hosts, conn: tollgate_stack::ConnId) {
    let stack = &mut hosts.client.at(hosts.now, &mut hosts.pool);
    toggle_collect();
    let outcome = stack.abort(conn);
    toggle_collect();
    outcome.expect("the connection is open");
}
