//! Round trips of datagrams: both applications' calls, both stacks, the link, everything between.

use super::{Done, Scenario, hosts, pattern, require};
use crate::Error;
use crate::callgrind::counted;
use crate::hosts::{Datagrams, Hosts};
use tollgate_stack::config::ChecksumPolicy;

pub(super) const UDP_RR_64: Scenario = Scenario {
    name: "udp-rr-64",
    about: "a round trip of 64 bytes over UDP: udp_send, poll and udp_receive_into at each end, both stacks, the link, checksums",
    count: 20_000,
    run: |count| trips("udp-rr-64", 64, count),
};

pub(super) const UDP_RR_1400: Scenario = Scenario {
    name: "udp-rr-1400",
    about: "a round trip of 1,400 bytes, as udp-rr-64",
    count: 20_000,
    run: |count| trips("udp-rr-1400", 1400, count),
};

fn trips(name: &'static str, size: usize, count: u64) -> Result<Done, Error> {
    let mut hosts = hosts(16, ChecksumPolicy::Always)?;
    // A connection resolves the addresses.
    hosts.connect()?;
    let sockets = hosts.bind_datagrams()?;
    let message = pattern(size);
    let mut buffer = vec![0; size];
    around(&mut hosts, sockets, 100, &message, &mut buffer);
    buffer.fill(0);
    let mut complete = 0;
    counted(|| complete = around(&mut hosts, sockets, count, &message, &mut buffer));
    require(name, complete == count && buffer == message, || {
        format!("{complete} responses were complete")
    })?;
    Ok(Done {
        operations: count,
        pairs: 1,
    })
}

/// Makes round trips; the number of those that were complete.
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
