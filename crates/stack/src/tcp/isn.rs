//! Secrets and what is drawn from them: initial sequence numbers (RFC 6528), timestamp offsets (RFC 7323, 5.4), ports
//! (RFC 6056, algorithm 4), identifications of IP datagrams (RFC 7739), flow labels (RFC 6437).

use crate::demux::{FlowKey, Sip, Vacant};
use crate::destinations::Ends;
use crate::random::Random;
use crate::tcp::slow::fast_open::Cookies;
use crate::time::Instant;
use alloc::boxed::Box;
use core::net::Ipv4Addr;
use tollgate_wire::SeqNumber;
use tollgate_wire::ipv6;

/// Counters of ports that were given out (TABLE_LENGTH of RFC 6056, 3.3.4): peers that share one take every second port,
/// and search longer once the range was gone through.
const PORT_COUNTERS: usize = 256;

/// Counters of identifications. Destinations that share one use it up together, so there are more than of ports.
const IDENTIFICATIONS: usize = 1024;

/// The identifications of datagrams between two addresses: where they begin, and which counter counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identifications(u64);

impl Identifications {
    /// Those of nobody.
    pub(crate) const NONE: Self = Self(0);
}

/// Keys for each purpose, drawn from the stack's seed so that knowing one tells nothing of the others.
#[derive(Clone, Debug)]
pub(crate) struct Secrets {
    table: [u64; 2],
    timestamp: Sip,
    port: Sip,
    cookie: Sip,
    /// Cookies of Fast Open.
    pub(crate) fast_open: Cookies,
    identification: Sip,
    /// Of pairs of IPv6 addresses.
    destinations: [u64; 2],
    /// Of interface identifiers (RFC 7217, 5).
    pub(crate) interface: Sip,
    flow: Sip,
    identifications: Box<[u16; IDENTIFICATIONS]>,
    /// For limits and ports of UDP.
    pub(crate) random: Random,
    port_counters: Box<[u32; PORT_COUNTERS]>,
    /// The last answers of three hashes, which hosts that talk to the same peer again ask for again.
    last_timestamp: (FlowKey, u64),
    last_port: (FlowKey, u64),
    last_identification: (FlowKey, u64),
    /// The last flow of datagrams, its ports, and its label.
    last_flow: (Ends, u32, u32),
}

impl Secrets {
    pub(crate) fn new(seed: [u64; 4]) -> Self {
        let draw = |purpose: u32| {
            let half = |which: u32| {
                let label = FlowKey {
                    remote: purpose,
                    local: which,
                    ports: 0,
                };
                Sip::new([seed[0], seed[1]]).flow::<2, 4>(label)
                    ^ Sip::new([seed[2], seed[3]]).flow::<2, 4>(label)
            };
            [half(0), half(1)]
        };
        let (timestamp, port) = (Sip::new(draw(2)), Sip::new(draw(3)));
        let identification = Sip::new(draw(5));
        let none = FlowKey::default();
        Self {
            last_timestamp: (none, timestamp.flow::<2, 4>(none)),
            last_port: (none, port.flow::<2, 4>(none)),
            last_identification: (none, identification.flow::<2, 4>(none)),
            last_flow: ([0; 32], 0, 0),
            table: draw(0),
            timestamp,
            port,
            cookie: Sip::new(draw(4)),
            identification,
            fast_open: Cookies::new(Sip::new(draw(7))),
            destinations: draw(8),
            interface: Sip::new(draw(9)),
            flow: Sip::new(draw(10)),
            identifications: Box::new([0; IDENTIFICATIONS]),
            random: Random::new(draw(6)),
            port_counters: Box::new([0; PORT_COUNTERS]),
        }
    }

    pub(crate) const fn table_key(&self) -> [u64; 2] {
        self.table
    }

    pub(crate) const fn destinations_key(&self) -> [u64; 2] {
        self.destinations
    }

    /// The identification of the next datagram between two addresses that may be fragmented: a counter that begins
    /// anywhere (RFC 7739, 5.3), so that what one host is sent tells nothing of what others are. Both hashes are halves of one.
    pub(crate) fn next_identification(
        &mut self,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: u8,
    ) -> u16 {
        let identifications = self.identifications(source, destination, protocol);
        self.next_of(identifications)
    }

    /// The identifications of datagrams between two addresses.
    pub(crate) fn identifications(
        &mut self,
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: u8,
    ) -> Identifications {
        let key = FlowKey {
            remote: u32::from(destination),
            local: u32::from(source),
            ports: protocol.into(),
        };
        let hash = remembered(&mut self.last_identification, &self.identification, key);
        Identifications(hash)
    }

    /// The next one of them.
    #[inline(always)]
    pub(crate) fn next_of(&mut self, Identifications(hash): Identifications) -> u16 {
        let counter = &mut self.identifications[(hash >> 32) as usize % IDENTIFICATIONS];
        *counter = counter.wrapping_add(1);
        (hash as u16).wrapping_add(*counter)
    }

    /// The label of a flow that `key` tells from all others: hard to guess, and never zero, which would be none (RFC 6437, 3).
    pub(crate) fn flow_label(&self, key: FlowKey) -> u32 {
        let label = self.flow.flow::<2, 4>(key) as u32 & ipv6::MAX_FLOW_LABEL;
        label.max(1)
    }

    /// The label of what is sent between two addresses and two ports, as they lie in a packet that comes in.
    pub(crate) fn flow_label_between(&mut self, ends: &Ends, ports: u32) -> u32 {
        let (known_ends, known_ports, label) = &self.last_flow;
        if known_ends == ends && *known_ports == ports && *label != 0 {
            return *label;
        }
        let hash = self.flow.pair(ends);
        let label = self.flow_label(FlowKey {
            remote: hash as u32,
            local: (hash >> 32) as u32,
            ports,
        });
        self.last_flow = (*ends, ports, label);
        label
    }

    /// Offset that is added to the clock in our timestamps, for all connections of the two addresses (RFC 7323, 5.4).
    #[inline]
    pub(crate) fn timestamp_offset(&mut self, key: FlowKey) -> u32 {
        remembered(
            &mut self.last_timestamp,
            &self.timestamp,
            FlowKey { ports: 0, ..key },
        ) as u32
    }

    /// The first port to try for a connection to a peer; each call moves on. Both hashes of RFC 6056, 3.3.4, are halves of
    /// one: the offset, and which counter counts.
    pub(crate) fn next_port_offset(&mut self, key: FlowKey) -> u32 {
        let hash = remembered(&mut self.last_port, &self.port, key);
        let counter = &mut self.port_counters[(hash >> 32) as usize % PORT_COUNTERS];
        *counter = counter.wrapping_add(1);
        (hash as u32).wrapping_add(*counter)
    }

    /// Sets what [`Secrets::next_port_offset`] says next for a peer.
    #[cfg(test)]
    pub(crate) fn set_next_port_offset(&mut self, key: FlowKey, offset: u32) {
        let hash = remembered(&mut self.last_port, &self.port, key);
        let counter = offset.wrapping_sub(hash as u32).wrapping_sub(1);
        self.port_counters[(hash >> 32) as usize % PORT_COUNTERS] = counter;
    }

    /// The keyed part of a SYN cookie.
    pub(crate) fn cookie(&self, key: FlowKey, salt: u32) -> u32 {
        let first = self.cookie.flow::<2, 4>(key);
        let label = FlowKey {
            remote: first as u32,
            local: (first >> 32) as u32,
            ports: salt,
        };
        self.cookie.flow::<2, 4>(label) as u32
    }
}

/// ISN = M + F(localip, localport, remoteip, remoteport, secretkey), where M is a clock of 4 us (RFC 6528, 3).
///
/// F is the half of the table's SipHash-1-3 that the table does not use, so that a connection is hashed once. The halves of a
/// pseudorandom function's value are independent: a peer that works F out from the numbers that it is given learns neither
/// another connection's, nor where any connection lies in the table.
#[inline(always)]
pub(crate) fn initial_sequence_number(vacant: Vacant, now: Instant) -> SeqNumber {
    let clock = (now.as_nanos() / 4000) as u32;
    SeqNumber(clock.wrapping_add(vacant.other_half()))
}

/// The hash of `key`, which is the last one's when the key is.
#[inline]
fn remembered(last: &mut (FlowKey, u64), sip: &Sip, key: FlowKey) -> u64 {
    if last.0 != key {
        *last = (key, sip.flow::<2, 4>(key));
    }
    last.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demux::{Search, Table};
    use alloc::vec;

    #[test]
    fn what_is_remembered_is_what_would_be_hashed() {
        let mut secrets = Secrets::new([1, 2, 3, 4]);
        let key = |remote, ports| FlowKey {
            remote,
            local: 9,
            ports,
        };
        let first = secrets.timestamp_offset(key(1, 5));
        assert_eq!(secrets.timestamp_offset(key(1, 6)), first);
        assert_ne!(secrets.timestamp_offset(key(2, 5)), first);
        assert_eq!(secrets.timestamp_offset(key(1, 5)), first);
        let first = secrets.next_port_offset(key(1, 5));
        assert_eq!(secrets.next_port_offset(key(1, 5)), first.wrapping_add(1));
        let other = secrets.next_port_offset(key(1, 6));
        assert_ne!(other, first.wrapping_add(2));
        // Another peer has another counter.
        assert_eq!(secrets.next_port_offset(key(1, 5)), first.wrapping_add(2));
        let none = FlowKey::default();
        assert_eq!(
            Secrets::new([1, 2, 3, 4]).timestamp_offset(none),
            secrets.timestamp_offset(none)
        );
    }

    /// RFC 6056, 3.3.4: what is opened to one peer leaves the order of ports to another alone, which with one counter for all
    /// would go through the range in steps and meet ports that are taken.
    #[test]
    fn peers_in_turn_each_go_through_all_ports() {
        const PORTS: usize = 28_232;
        let mut secrets = Secrets::new([1, 2, 3, 4]);
        let mut taken = vec![false; 4 * PORTS];
        for n in 0..4 * PORTS {
            let peer = n % 4;
            let key = FlowKey {
                remote: peer as u32,
                local: 9,
                ports: 7,
            };
            let port = secrets.next_port_offset(key) as usize % PORTS;
            let slot = &mut taken[peer * PORTS + port];
            assert!(!*slot, "peer {peer} was given a port twice");
            *slot = true;
        }
    }

    #[test]
    fn sequence_numbers_differ_by_connection_and_move_with_the_clock() {
        let table = |seed| Table::new(4, Secrets::new(seed).table_key());
        let first = table([1, 2, 3, 4]);
        let key = FlowKey {
            remote: 1,
            local: 2,
            ports: 3,
        };
        let isn = |table: &Table, ports, us: u64| {
            let Search::Vacant(vacant) = table.search(FlowKey { ports, ..key }, |_| false) else {
                panic!("a table without entries found one");
            };
            initial_sequence_number(vacant, Instant::from_nanos(us * 1000))
        };
        assert_ne!(isn(&first, 3, 0), isn(&first, 4, 0));
        assert_eq!(isn(&first, 3, 4000) - isn(&first, 3, 0), 1000);
        assert_ne!(isn(&table([1, 2, 3, 5]), 3, 0), isn(&first, 3, 0));
    }
}
