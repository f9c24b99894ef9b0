//! Connections that come and go, and connections that are idle.

use super::{Done, MTU, Scenario, hosts, require};
use crate::Error;
use crate::callgrind::counted;
use crate::hosts::Hosts;
use std::time::Duration;
use tollgate_stack::config::{ChecksumPolicy, Nagle};

pub(super) const OPEN_CLOSE: Scenario = Scenario {
    name: "open-close",
    about: "connect, accept, one byte each way, close at both ends, every event taken, and the end of one TIME-WAIT",
    count: 8_000,
    run: open_close,
};

pub(super) const OPEN_FIRST: Scenario = Scenario {
    name: "open-first",
    about: "connect and accept: the first 1,000 connections",
    count: 1_000,
    run: |count| open("open-first", 0, count),
};

pub(super) const OPEN_LAST: Scenario = Scenario {
    name: "open-last",
    about: "connect and accept: 1,000 connections when 99,000 are open",
    count: 1_000,
    run: |count| open("open-last", 99_000, count),
};

pub(super) const IDLE_0: Scenario = Scenario {
    name: "idle-0",
    about: "a poll with nothing to do, no socket",
    count: 20_000,
    run: |count| idle(0, count),
};

pub(super) const IDLE_1: Scenario = Scenario {
    name: "idle-1",
    about: "a poll with nothing to do, 1 connection",
    count: 20_000,
    run: |count| idle(1, count),
};

pub(super) const IDLE_1K: Scenario = Scenario {
    name: "idle-1k",
    about: "a poll with nothing to do, 1,000 connections",
    count: 20_000,
    run: |count| idle(1_000, count),
};

pub(super) const IDLE_100K: Scenario = Scenario {
    name: "idle-100k",
    about: "a poll with nothing to do, 100,000 connections",
    count: 20_000,
    run: |count| idle(100_000, count),
};

/// Nanoseconds between two connections: about what one takes.
const BETWEEN: u64 = 1_500;

fn open_close(count: u64) -> Result<Done, Error> {
    // TIME-WAIT is short, so that it ends as often as it begins from the warm-up on.
    let mut hosts = Hosts::new(16, MTU, |config| {
        config.mechanisms.nagle = Nagle::Off;
        config.msl = Duration::from_millis(2);
    })?;
    for _ in 0..count {
        open_and_close(&mut hosts)?;
    }
    let mut outcome = Ok(());
    let open = hosts.client.connections() + hosts.server.connections();
    counted(|| {
        for _ in 0..count {
            outcome = open_and_close(&mut hosts);
            if outcome.is_err() {
                return;
            }
        }
    });
    outcome?;
    let left = hosts.client.connections() + hosts.server.connections();
    require("open-close", left == open, || {
        format!("{left} connections are left over")
    })?;
    require("open-close", hosts.client.time_waits() > 0, || {
        "no connection is in TIME-WAIT".to_owned()
    })?;
    Ok(Done {
        operations: count,
        pairs: 1,
    })
}

/// Connect, one byte each way, close at both ends: the calls that an application makes, and its events.
#[inline(never)]
fn open_and_close(hosts: &mut Hosts) -> Result<(), Error> {
    let ends = hosts.connect()?;
    let mut octet = [0];
    hosts.round_trip(ends, &[7], &mut octet);
    hosts.close(ends)?;
    hosts.tick(BETWEEN);
    Ok(())
}

/// Opens `before` connections, then `count` that are counted.
fn open(name: &'static str, before: usize, count: u64) -> Result<Done, Error> {
    let mut hosts = hosts(100_000, ChecksumPolicy::Always)?;
    // One that is not counted: the peers' link addresses are found by it.
    hosts.connect_many(before.max(1))?;
    let mut outcome = Ok(Vec::new());
    counted(|| outcome = hosts.connect_many(count as usize));
    let opened = outcome?.len() as u64;
    require(name, opened == count, || {
        format!("{opened} connections were opened")
    })?;
    Ok(Done {
        operations: count,
        pairs: 1,
    })
}

fn idle(connections: usize, count: u64) -> Result<Done, Error> {
    let mut hosts = hosts(connections, ChecksumPolicy::Always)?;
    hosts.connect_many(connections)?;
    // Every timer that opening has set runs out.
    for _ in 0..1_000 {
        hosts.tick(1 << 20);
        hosts.settle();
    }
    hosts.drain_events();
    counted(|| polls(&mut hosts, count));
    Ok(Done {
        operations: count,
        pairs: 1,
    })
}

/// Polls with the time standing still, as in a loop that spins.
#[inline(never)]
fn polls(hosts: &mut Hosts, count: u64) {
    for _ in 0..count {
        hosts.poll_client();
    }
}
