//! One-way streams: both ends and their acknowledgments, per full segment of payload.

use super::{Done, MTU, SEGMENT, Scenario, pattern, require};
use crate::Error;
use crate::callgrind::counted;
use crate::hosts::{Ends, Hosts};
use tollgate_link::Side;
use tollgate_stack::{ConnId, Received};

pub(super) const WRITES_16K: Scenario = Scenario {
    name: "stream-16k",
    about: "1,448 bytes of a one-way stream, writes of 16 KiB, reads of up to 64 KiB into a posted buffer, Nagle on, \
            both ends and the acknowledgments",
    count: 20_000,
    run: |count| stream("stream-16k", 16 * 1024, 1, count),
};

pub(super) const WRITES_64: Scenario = Scenario {
    name: "stream-64",
    about: "the same with writes of 64 bytes, 256 of them for a turn of each stack",
    count: 10_000,
    run: |count| stream("stream-64", 64, 256, count),
};

/// Octets of the reader's buffer.
const READ: usize = 64 * 1024;
/// Nanoseconds between turns.
const TURN: u64 = 1_000;

/// Segments' worth of payload in writes of `size`; the receiver has its turn after `writes` of them.
fn stream(name: &'static str, size: usize, writes: usize, segments: u64) -> Result<Done, Error> {
    let mut hosts = Hosts::new(16, MTU, |_| {})?;
    let ends = hosts.connect()?;
    let message = pattern(size);
    let mut buffer = vec![0; READ];
    // The congestion window opens, and the queues find their lengths.
    send(&mut hosts, ends, 4 << 20, &message, writes, &mut buffer);
    let missed = hosts.misses();
    let mut bytes = 0;
    counted(|| {
        bytes = send(
            &mut hosts,
            ends,
            segments * SEGMENT as u64,
            &message,
            writes,
            &mut buffer,
        )
    });
    let missed = hosts.misses() - missed;
    require(name, missed == 0, || {
        format!("{missed} segments were not predicted")
    })?;
    Ok(Done {
        operations: bytes / SEGMENT as u64,
        pairs: 1,
    })
}

/// Sends and receives at least `total` octets; returns how many were received.
#[inline(never)]
fn send(
    hosts: &mut Hosts,
    ends: Ends,
    total: u64,
    message: &[u8],
    writes: usize,
    buffer: &mut [u8],
) -> u64 {
    let mut received = 0;
    let mut at = 0;
    while received < total {
        at = write(hosts, ends.0, message, writes, at);
        hosts.poll_client();
        hosts.tick(TURN);
        let server = &mut hosts.server.at(hosts.now, &mut hosts.pool);
        while let Ok(Received::Data(bytes)) =
            server.poll_receive(&mut hosts.cable.end(Side::B), ends.1, buffer)
        {
            received += bytes as u64;
        }
        hosts.poll_client();
    }
    received
}

/// The application's writes, of which the first begins at `at` of the message; returns where the next would.
#[inline(never)]
fn write(hosts: &mut Hosts, conn: ConnId, message: &[u8], writes: usize, mut at: usize) -> usize {
    let client = &mut hosts.client.at(hosts.now, &mut hosts.pool);
    for _ in 0..writes {
        // What was not taken is offered again, as an application does.
        match client.send(conn, &message[at..]) {
            Ok(taken) if at + taken == message.len() => at = 0,
            Ok(taken) => at += taken,
            Err(_) => break,
        }
    }
    at
}
