//! Round trips of datagrams: both applications' calls, both stacks, the link, everything between.

use super::{Done, Scenario, hosts, hosts_over_ipv6, pattern, require};
use crate::Error;
use crate::callgrind::counted;
use crate::hosts::{Datagrams, Hosts};
use tollgate_stack::config::ChecksumPolicy;

pub(super) const UDP_RR_64: Scenario = Scenario {
    name: "udp-rr-64",
    about: "a round trip of 64 bytes over UDP: udp_send, flush and udp_poll_receive at each end, both stacks, the link, checksums",
    count: 20_000,
    run: |count| posted("udp-rr-64", 64, count),
};

pub(super) const UDP_RR_64_QUEUED: Scenario = Scenario {
    name: "udp-rr-64-queued",
    about: "the same by udp_send, poll and udp_receive_into at each end",
    count: 20_000,
    run: |count| {
        let mut hosts = hosts(16, ChecksumPolicy::Always)?;
        trips(&mut hosts, "udp-rr-64-queued", 64, count, queued_around)
    },
};

pub(super) const UDP_RR_64_IPV6: Scenario = Scenario {
    name: "udp-rr-64-ipv6",
    about: "udp-rr-64 over IPv6",
    count: 20_000,
    run: |count| trips(&mut hosts_over_ipv6()?, "udp-rr-64-ipv6", 64, count, around),
};

pub(super) const UDP_RR_1400: Scenario = Scenario {
    name: "udp-rr-1400",
    about: "a round trip of 1,400 bytes, as udp-rr-64",
    count: 20_000,
    run: |count| posted("udp-rr-1400", 1400, count),
};

/// Makes so many round trips with a message and a buffer; the number of those that were complete.
type Around = fn(&mut Hosts, Datagrams, u64, &[u8], &mut [u8]) -> u64;

/// Round trips with posted buffers over IPv4.
fn posted(name: &'static str, size: usize, count: u64) -> Result<Done, Error> {
    let mut hosts = hosts(16, ChecksumPolicy::Always)?;
    trips(&mut hosts, name, size, count, around)
}

fn trips(
    hosts: &mut Hosts,
    name: &'static str,
    size: usize,
    count: u64,
    around: Around,
) -> Result<Done, Error> {
    // A connection resolves the addresses.
    hosts.connect()?;
    let sockets = hosts.bind_datagrams()?;
    let message = pattern(size);
    let mut buffer = vec![0; size];
    around(hosts, sockets, 100, &message, &mut buffer);
    buffer.fill(0);
    let before = hosts.predicted_datagrams();
    let mut complete = 0;
    counted(|| complete = around(hosts, sockets, count, &message, &mut buffer));
    require(name, complete == count && buffer == message, || {
        format!("{complete} responses were complete")
    })?;
    let predicted = hosts.predicted_datagrams() - before;
    require(name, predicted == 2 * count, || {
        format!("{predicted} datagrams were predicted")
    })?;
    Ok(Done {
        operations: count,
        pairs: 1,
    })
}

#[inline(never)]
fn around(
    hosts: &mut Hosts,
    sockets: Datagrams,
    count: u64,
    message: &[u8],
    buffer: &mut [u8],
) -> u64 {
    let mut complete = 0;
    for _ in 0..count {
        complete += u64::from(hosts.datagram_round_trip(sockets, message, buffer));
    }
    complete
}

#[inline(never)]
fn queued_around(
    hosts: &mut Hosts,
    sockets: Datagrams,
    count: u64,
    message: &[u8],
    buffer: &mut [u8],
) -> u64 {
    let mut complete = 0;
    for _ in 0..count {
        complete += u64::from(hosts.queued_datagram_round_trip(sockets, message, buffer));
    }
    complete
}
