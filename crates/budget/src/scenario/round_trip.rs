//! Request-response round trips: both applications' calls, both stacks, the link, everything between.

use super::{Done, Scenario, hosts, hosts_over_ipv6, pattern, require};
use crate::Error;
use crate::callgrind::counted;
use crate::hosts::{Ends, Hosts};
use tollgate_stack::config::ChecksumPolicy;

pub(super) const RR_64: Scenario = Scenario {
    name: "rr-64",
    about: "a round trip of 64 bytes: send, flush and poll_receive at each end, both stacks, the link, checksums, timestamps",
    count: 20_000,
    run: |count| alone("rr-64", 64, ChecksumPolicy::Always, count),
};

pub(super) const RR_64_COPY_ONLY: Scenario = Scenario {
    name: "rr-64-copy-only",
    about: "the same with the checksum policy off at both ends",
    count: 20_000,
    run: |count| alone("rr-64-copy-only", 64, ChecksumPolicy::Off, count),
};

pub(super) const RR_1400: Scenario = Scenario {
    name: "rr-1400",
    about: "a round trip of 1,400 bytes, as rr-64",
    count: 20_000,
    run: |count| alone("rr-1400", 1400, ChecksumPolicy::Always, count),
};

pub(super) const RR_64_IPV6: Scenario = Scenario {
    name: "rr-64-ipv6",
    about: "rr-64 over IPv6",
    count: 20_000,
    run: over_ipv6,
};

pub(super) const RR_64_EVENTS: Scenario = Scenario {
    name: "rr-64-events",
    about: "a round trip of 64 bytes as event loops make it: send, poll, next_event until there is none, receive and flush at each end",
    count: 20_000,
    run: events,
};

pub(super) const RR_64_AMONG_100K: Scenario = Scenario {
    name: "rr-64-among-100k",
    about: "rr-64 while 100,000 other connections are open",
    count: 20_000,
    run: |count| around("rr-64-among-100k", 100_001, 1, count),
};

pub(super) const RR_64_AROUND_10K: Scenario = Scenario {
    name: "rr-64-around-10k",
    about: "rr-64, each round trip on the next of 10,000 connections",
    count: 20_000,
    run: |count| around("rr-64-around-10k", 10_000, 10_000, count),
};

/// Round trips on the only connection.
fn alone(
    name: &'static str,
    size: usize,
    policy: ChecksumPolicy,
    count: u64,
) -> Result<Done, Error> {
    let mut hosts = hosts(16, policy)?;
    let ends = vec![hosts.connect()?];
    trips(name, &mut hosts, &ends, size, count)
}

/// Round trips on the only connection, over IPv6.
fn over_ipv6(count: u64) -> Result<Done, Error> {
    let mut hosts = hosts_over_ipv6()?;
    let ends = vec![hosts.connect()?];
    trips("rr-64-ipv6", &mut hosts, &ends, 64, count)
}

/// Round trips of two event loops on the only connection.
fn events(count: u64) -> Result<Done, Error> {
    let name = "rr-64-events";
    let mut hosts = hosts(16, ChecksumPolicy::Always)?;
    let ends = hosts.connect()?;
    let message = pattern(64);
    // As long as event loops have it: longer than what arrives at once.
    let mut buffer = vec![0; 4096];
    on_events(&mut hosts, ends, 100, &message, &mut buffer);
    let missed = hosts.misses();
    buffer.fill(0);
    let mut complete = 0;
    counted(|| complete = on_events(&mut hosts, ends, count, &message, &mut buffer));
    require(
        name,
        complete == count && buffer.starts_with(&message),
        || format!("{complete} responses were complete"),
    )?;
    all_predicted(name, hosts.misses() - missed, count)
}

/// Makes round trips by events; the number of those that were complete.
#[inline(never)]
fn on_events(hosts: &mut Hosts, ends: Ends, count: u64, message: &[u8], buffer: &mut [u8]) -> u64 {
    let mut complete = 0;
    for _ in 0..count {
        let got = hosts.event_round_trip(ends, message, buffer);
        complete += u64::from(got == message.len());
    }
    complete
}

/// Round trips that go round the last `used` of `open` connections.
fn around(name: &'static str, open: usize, used: usize, count: u64) -> Result<Done, Error> {
    let mut hosts = hosts(open, ChecksumPolicy::Always)?;
    let ends = hosts.connect_many(open)?;
    trips(name, &mut hosts, &ends[open - used..], 64, count)
}

/// Warm-up, then `count` counted round trips in turn over `ends`.
fn trips(
    name: &'static str,
    hosts: &mut Hosts,
    ends: &[Ends],
    size: usize,
    count: u64,
) -> Result<Done, Error> {
    let message = pattern(size);
    let mut buffer = vec![0; size];
    for &pair in ends {
        for _ in 0..if ends.len() == 1 { 100 } else { 2 } {
            hosts.round_trip(pair, &message, &mut buffer);
        }
    }
    let missed = hosts.misses();
    buffer.fill(0);
    if let [pair] = *ends {
        counted(|| on_one(hosts, pair, count, &message, &mut buffer));
    } else {
        counted(|| on_many(hosts, ends, count, &message, &mut buffer));
    }
    require(name, buffer == message, || {
        "the response differs from the request".to_owned()
    })?;
    all_predicted(name, hosts.misses() - missed, count)
}

/// Gives what was done, unless segments were not predicted.
fn all_predicted(name: &'static str, missed: u64, count: u64) -> Result<Done, Error> {
    require(name, missed == 0, || {
        format!("{missed} segments were not predicted")
    })?;
    Ok(Done {
        operations: count,
        pairs: 1,
    })
}

#[inline(never)]
fn on_one(hosts: &mut Hosts, ends: Ends, count: u64, message: &[u8], buffer: &mut [u8]) {
    for _ in 0..count {
        hosts.round_trip(ends, message, buffer);
    }
}

#[inline(never)]
fn on_many(hosts: &mut Hosts, ends: &[Ends], count: u64, message: &[u8], buffer: &mut [u8]) {
    let mut next = 0;
    for _ in 0..count {
        hosts.round_trip(ends[next], message, buffer);
        next = if next + 1 == ends.len() { 0 } else { next + 1 };
    }
}
