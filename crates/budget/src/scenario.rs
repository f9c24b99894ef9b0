//! The scenarios: what is counted, each by its name.
//!
//! A scenario sets two stacks up, warms them, and then does its operation so many times while Callgrind counts. It
//! checks afterwards that what happened is what it is for (everything predicted, every octet arrived), and it tells how
//! many operations there were and how often counting was switched on.

mod connections;
mod datagrams;
mod parts;
mod round_trip;
mod stream;
mod tap;

use crate::Error;
use crate::callgrind::counted_by_gates;
use crate::hosts::Hosts;
use crate::toggle::{self, GateToggle, bits};
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;
use tollgate_gate::{Gate, PacketId, Recorder};
use tollgate_stack::Config;
use tollgate_stack::config::{ChecksumPolicy, Ipv6, Nagle};

/// Octets of an IP packet in every scenario.
pub const MTU: usize = 1500;
/// Octets of payload in a full segment: the MTU without IP and TCP headers and the timestamp option.
pub const SEGMENT: usize = MTU - 20 - 20 - 12;

/// Work that a scenario did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Operations that were counted.
    pub operations: u64,
    /// The count of pairs of switching counting on and off.
    pub pairs: u64,
}

/// A piece of work that can be counted.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// The definition of an operation, and its counted part.
    pub about: &'static str,
    /// Operations that the table counts. The count per operation depends on it only by what happens rarely, such as a
    /// tick of the timers.
    pub count: u64,
    run: fn(u64) -> Result<Done, Error>,
}

/// Every scenario.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "empty",
        about: "counting switched on and off again",
        count: 1_000,
        run: empty,
    },
    Scenario {
        name: "ruler",
        about: "100 instructions that do nothing, between two gates",
        count: 1_000,
        run: ruler,
    },
    round_trip::RR_64,
    round_trip::RR_64_COPY_ONLY,
    round_trip::RR_1400,
    round_trip::RR_64_IPV6,
    round_trip::RR_64_EVENTS,
    round_trip::RR_64_AMONG_100K,
    round_trip::RR_64_AROUND_10K,
    datagrams::UDP_RR_64,
    datagrams::UDP_RR_64_QUEUED,
    datagrams::UDP_RR_64_IPV6,
    datagrams::UDP_RR_1400,
    stream::WRITES_16K,
    stream::WRITES_64,
    tap::TRAINS_IN,
    tap::SEGMENTS_IN,
    tap::JUMBOS_IN,
    connections::OPEN_CLOSE,
    connections::OPEN_FIRST,
    connections::OPEN_LAST,
    connections::IDLE_0,
    connections::IDLE_1,
    connections::IDLE_1K,
    connections::IDLE_100K,
    parts::RECEIVE_PATH,
    parts::SEND_PATH,
    parts::TCP_INPUT_RECEIVER,
    parts::TCP_INPUT_SENDER,
    parts::TCP_OUTPUT,
    parts::TCP_OUTPUT_UNTEMPLATED,
    parts::TIMER_RESET,
    parts::IP_IN,
    parts::IP_OUT,
    parts::LOOKUP_CACHED,
    parts::LOOKUP_HASHED,
    parts::SEND_DATA,
    parts::RECEIVE_DATA,
    parts::RECEIVE_ACK,
    parts::WHEEL_INSERT,
    parts::WHEEL_CANCEL,
];

/// The scenario of that name.
///
/// # Errors
/// [`Error::UnknownScenario`], with the names that there are.
pub fn find(name: &str) -> Result<&'static Scenario, Error> {
    SCENARIOS
        .iter()
        .find(|scenario| scenario.name == name)
        .ok_or_else(|| Error::UnknownScenario {
            given: name.to_owned(),
            known: SCENARIOS
                .iter()
                .map(|scenario| scenario.name)
                .collect::<Vec<_>>()
                .join(", "),
        })
}

/// Runs the scenario `name` with `count` operations. Under Callgrind they are counted; without it nothing is measured.
///
/// # Errors
/// [`Error::UnknownScenario`], and what the scenario finds wrong with its own course.
pub fn run_scenario(name: &str, count: u64) -> Result<Done, Error> {
    (find(name)?.run)(count)
}

/// Two hosts with room for `connections`, Nagle off, under a checksum policy.
fn hosts(connections: usize, policy: ChecksumPolicy) -> Result<Hosts, Error> {
    Hosts::new(connections, MTU, |config: &mut Config| {
        config.mechanisms.nagle = Nagle::Off;
        config.mechanisms.checksum = policy;
    })
}

/// Two hosts that have addresses of IPv6 as well, which have told their groups.
fn hosts_over_ipv6() -> Result<Hosts, Error> {
    let mut hosts = Hosts::new(16, MTU, |config| {
        config.mechanisms.nagle = Nagle::Off;
        let [.., n] = config.ip.octets();
        config.ipv6 = Some(Ipv6 {
            address: Some((Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n.into()), 64)),
            duplicate_checks: 0,
            router_advertisements: false,
            ..Ipv6::default()
        });
    })?;
    // Groups are reported twice, a second apart (RFC 9777, 6.1).
    for _ in 0..10 {
        hosts.tick(1_000_000_000);
        hosts.settle();
    }
    Ok(hosts)
}

/// An octet pattern that no field repeats.
fn pattern(len: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8)
        .collect()
}

/// An error unless `holds`.
fn require(name: &'static str, holds: bool, what: impl FnOnce() -> String) -> Result<(), Error> {
    if holds {
        Ok(())
    } else {
        Err(Error::Derailed { name, what: what() })
    }
}

const RULER: u32 = bits(&[Gate::IpInBegin, Gate::SocketQueued]);

fn empty(count: u64) -> Result<Done, Error> {
    let mut recorder = GateToggle::<RULER>;
    counted_by_gates(|| {
        for _ in 0..count {
            recorder.pass(Gate::IpInBegin, PacketId(0));
            recorder.pass(Gate::SocketQueued, PacketId(0));
        }
    });
    Ok(Done {
        operations: count,
        pairs: count * toggle::pairs(RULER),
    })
}

fn ruler(count: u64) -> Result<Done, Error> {
    let mut recorder = GateToggle::<RULER>;
    counted_by_gates(|| {
        for _ in 0..count {
            recorder.pass(Gate::IpInBegin, PacketId(0));
            crate::callgrind::hundred_instructions();
            recorder.pass(Gate::SocketQueued, PacketId(0));
        }
    });
    Ok(Done {
        operations: count,
        pairs: count * toggle::pairs(RULER),
    })
}

/// Octets by which the resident memory of this process grows when `connections` connections are opened between two
/// hosts, both ends; buffers apart, as none are in use.
///
/// # Errors
/// The stacks' refusal; [`Error::File`] when the system does not tell its memory.
pub fn resident_bytes(connections: usize) -> Result<u64, Error> {
    let mut hosts = hosts(connections, ChecksumPolicy::Always)?;
    // One connection touches what is there once.
    hosts.connect_many(1)?;
    let before = resident()?;
    let opened = hosts.connect_many(connections - 1)?;
    let after = resident()?;
    // The handles that the scenario itself keeps are not the stacks'.
    let handles = size_of_val(opened.as_slice()) as u64;
    Ok(after.saturating_sub(before).saturating_sub(handles))
}

/// Octets of resident memory, from `/proc/self/smaps_rollup`.
fn resident() -> Result<u64, Error> {
    let path = std::path::Path::new("/proc/self/smaps_rollup");
    let wrong = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    let text = std::fs::read_to_string(path).map_err(wrong)?;
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix("Rss:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse::<u64>().ok())
        .ok_or_else(|| wrong(std::io::Error::other("there is no line `Rss:`")))?;
    Ok(kib * 1024)
}
