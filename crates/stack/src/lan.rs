//! Evidence that a neighbour is on the same LAN: the units of the spanning tree protocol that hosts announce themselves by
//! (Kay and Pasquale 1996, VI.E).
//!
//! A host that knows the scheme sends a unit right after each of its ARP packets. Bridges pass no such unit on (IEEE 802.1D,
//! 7.12.3) and routers ignore it. So whoever hears one from a neighbour's link address knows that no bridge and no router lies
//! between. A router that answers for others (proxy ARP) and a bridge in between are told by their silence.
//!
//! | | Kay and Pasquale | here |
//! |---|---|---|
//! | sent after | answers to ARP requests | requests, too: they teach our address as answers do |
//! | contents | such that no bridge expects bridging | the last of all roots, older than its own maximum age: bridges drop it unread (IEEE 802.1D, 9.3.4) |
//! | counts as evidence | any unit | only such a unit: a switch that answers ARP for others may take part in the spanning tree itself |
//!
//! Not told are bridges that forward units against the standard, as Linux's does unless its `stp_state` is 1. Where ports are
//! guarded against units (BPDU guard), a switch may shut the port of a host that sends them; the mechanism is off by default.
//!
//! This module must never send anything, and never hold more than its capacity.

use crate::neighbour::{REACHABLE, STALE};
use crate::time::Instant;
use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;
use tollgate_wire::bpdu::{Bpdu, BridgeId, Configuration, Time};
use tollgate_wire::ethernet::MacAddr;

/// Time for which a unit counts: as long as an entry of the neighbour cache lasts that is not confirmed. Each confirmation is an
/// ARP answer, which brings another unit.
const LASTS: Duration = Duration::from_secs(REACHABLE.as_secs() + STALE.as_secs());

/// The unit by which a host announces itself.
pub(crate) fn announcement(mac: MacAddr) -> Bpdu {
    let host = BridgeId {
        // The last choice as a root.
        priority: u16::MAX,
        address: mac.0,
    };
    Bpdu::Configuration(Configuration {
        root: host,
        bridge: host,
        // The recommended values (IEEE 802.1D, 8.10.2), and a second more than the highest age.
        message_age: Time::seconds(21),
        max_age: Time::seconds(20),
        hello_time: Time::seconds(2),
        forward_delay: Time::seconds(15),
        ..Configuration::default()
    })
}

/// Tells whether a unit is a host's announcement and not a bridge's.
pub(crate) fn is_announcement(unit: &Bpdu) -> bool {
    match unit {
        Bpdu::Configuration(configuration) => configuration.message_age > configuration.max_age,
        Bpdu::TopologyChange | Bpdu::Rapid(_) => false,
    }
}

/// The hosts that have announced themselves.
#[derive(Debug)]
pub(crate) struct Announced {
    heard: BTreeMap<[u8; 6], Instant>,
    /// Entries of `heard` in the order in which they were heard.
    order: BTreeSet<(Instant, [u8; 6])>,
    capacity: usize,
}

impl Announced {
    /// Makes room for `capacity` hosts, at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            heard: BTreeMap::new(),
            order: BTreeSet::new(),
            capacity: capacity.max(1),
        }
    }

    /// Takes note that a host has announced itself. Where there are too many, the one that was heard longest ago goes.
    pub(crate) fn hear(&mut self, mac: MacAddr, now: Instant) {
        if !mac.is_unicast() {
            return;
        }
        if let Some(before) = self.heard.insert(mac.0, now) {
            self.order.remove(&(before, mac.0));
        }
        self.order.insert((now, mac.0));
        if self.heard.len() > self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.heard.remove(&oldest);
        }
    }

    /// Tells whether a host has announced itself lately.
    pub(crate) fn knows(&self, mac: MacAddr, now: Instant) -> bool {
        self.heard
            .get(&mac.0)
            .is_some_and(|&heard| now - heard <= LASTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn mac(last: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, last])
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn announcement_is_no_bridge_s_unit() {
        assert!(is_announcement(&announcement(mac(1))));
        assert!(!is_announcement(&Bpdu::TopologyChange));
        let Bpdu::Configuration(configuration) = announcement(mac(1)) else {
            panic!("bridges read only configuration units of hosts");
        };
        let bridge = Configuration {
            message_age: Time(0),
            ..configuration
        };
        assert!(!is_announcement(&Bpdu::Configuration(bridge)));
        assert!(!is_announcement(&Bpdu::Rapid(configuration)));
    }

    #[test]
    fn announcement_counts_for_twenty_minutes() {
        let mut announced = Announced::new(4);
        announced.hear(mac(1), at(100));
        assert!(!announced.knows(mac(2), at(100)));
        assert!(announced.knows(mac(1), at(100 + 20 * 60)));
        assert!(!announced.knows(mac(1), at(101 + 20 * 60)));
        announced.hear(mac(1), at(101 + 20 * 60));
        assert!(announced.knows(mac(1), at(102 + 20 * 60)));
    }

    #[test]
    fn flood_of_announcements_stays_within_the_capacity() {
        let mut announced = Announced::new(3);
        announced.hear(mac(1), at(1));
        for host in 2..200 {
            announced.hear(mac(host), at(u64::from(host)));
            announced.hear(MacAddr::BROADCAST, at(u64::from(host)));
            assert!(announced.heard.len() <= 3);
            assert_eq!(announced.heard.len(), announced.order.len());
        }
        assert!(!announced.knows(mac(1), at(200)));
        assert!(announced.knows(mac(199), at(200)));
    }
}
