//! Neighbour discovery (RFC 4861): solicitations and advertisements of neighbours and routers, in and out, and what is due.
//!
//! Every message must have come with a hop limit of 255, which no router lets through (6.1, 7.1, 8.1).

use super::addresses::{Due, MAX_DELAY_MS, Maker};
use super::input::Arrived;
use super::{AddressState, NDP_HOP_LIMIT, OwnAddress};
use crate::counters::Drop;
use crate::destinations::Destinations;
use crate::neighbour::{Action, Heard, Update};
use crate::socket::Error;
use crate::stack::{Active, Stack};
use crate::tcp::tcb::State;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;
use tollgate_checksum::{Partial, sum_header};
use tollgate_gate::Recorder;
use tollgate_wire::ethernet::MacAddr;
use tollgate_wire::icmpv6::Discovery;
use tollgate_wire::ipv6::{self, MIN_MTU, protocol};
use tollgate_wire::ndp::{
    Advertisement, MAX_LEN, Option6, RouterAdvertisement, Solicitation, router_solicitation,
};

/// Bits of the prefixes that addresses are made of: what an interface identifier leaves (RFC 4862, 5.5.3, d; RFC 2464, 4).
const MADE_PREFIX_LEN: u8 = 64;

impl Stack {
    fn maker(&self) -> Maker {
        let config = self.ipv6.config.unwrap_or_default();
        Maker {
            mac: self.config.mac,
            ids: config.interface_id,
            secret: self.secrets.interface,
            checks: config.duplicate_checks,
        }
    }

    /// Begins with the addresses that the configuration gives and a link-local one.
    pub(crate) fn start_ipv6(&mut self, now: crate::Instant) {
        let Some(config) = self.ipv6.config else {
            return;
        };
        let maker = self.maker();
        let random = &mut self.secrets.random;
        let addresses = &mut self.ipv6.addresses;
        addresses.make_link_local(maker, random, now);
        if let Some((address, len)) = config.address {
            addresses.give((address, len), config.duplicate_checks, random, now);
            self.ipv6.routers.configure_prefix(address, len);
        }
        if let Some(gateway) = config.gateway {
            self.ipv6.routers.configure(gateway);
        }
        if config.router_advertisements {
            let delay = Duration::from_millis(u64::from(random.below(MAX_DELAY_MS)));
            self.ipv6.routers.solicit(now + delay);
        }
        if config.duplicate_checks == 0 {
            self.ipv6.addresses.poll(Duration::ZERO, now, &mut |_| {});
        }
        self.draw_neighbour_times(now);
    }

    /// Draws the times of neighbours anew, where that is due.
    fn draw_neighbour_times(&mut self, now: crate::Instant) {
        let random = &mut self.secrets.random;
        if let Some((reachable, interval)) = self.ipv6.draw_times(random, now) {
            self.neighbours6.set_times(reachable, interval);
        }
    }

    /// The addresses of this host, link-local and others, with their states.
    pub fn ipv6_addresses(&self) -> impl Iterator<Item = OwnAddress> {
        self.ipv6.addresses.iter()
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Gives the host another address of IPv6, whose first `prefix_len` bits name a network of neighbours. It is ours when it has
    /// been tried for duplicates, a second or two later.
    ///
    /// # Errors
    /// [`Error::BadAddress`] for an address that is no unicast host's, a length of 0 or more than 128, and where IPv6 is off;
    /// [`Error::InUse`] for one that the host has.
    pub fn add_ipv6_address(&mut self, address: Ipv6Addr, prefix_len: u8) -> Result<(), Error> {
        let config = self.stack.ipv6.config.ok_or(Error::BadAddress)?;
        if !super::addresses::is_unicast(address) || !(1..=128).contains(&prefix_len) {
            return Err(Error::BadAddress);
        }
        let random = &mut self.stack.secrets.random;
        let ipv6 = &mut self.stack.ipv6;
        let is_new = ipv6.addresses.give(
            (address, prefix_len),
            config.duplicate_checks,
            random,
            self.now,
        );
        if !is_new {
            return Err(Error::InUse);
        }
        ipv6.routers.configure_prefix(address, prefix_len);
        if config.duplicate_checks == 0 {
            ipv6.addresses.poll(Duration::ZERO, self.now, &mut |_| {});
        }
        self.choose_next_hops();
        Ok(())
    }

    pub(super) fn discovery_input(
        &mut self,
        arrived: &Arrived,
        kind: Discovery,
        code: u8,
        message: &[u8],
    ) {
        // RFC 6980, 5: in fragments it can be hidden from whoever guards the link.
        let is_taken = !arrived.fragmented
            && arrived.header.hop_limit == NDP_HOP_LIMIT
            && code == 0
            && match kind {
                Discovery::NeighbourSolicitation => self.solicitation(arrived, message),
                Discovery::NeighbourAdvertisement => self.advertisement(arrived, message),
                Discovery::RouterAdvertisement => self.router_advertisement(arrived, message),
                Discovery::Redirect => self.redirect_input(arrived, message),
                // We are no router.
                Discovery::RouterSolicitation => true,
            };
        if !is_taken {
            self.stack.counters.dropped(Drop::Malformed);
        }
    }

    /// RFC 4861, 7.2.3, and RFC 4862, 5.4.3; says whether the message is valid (7.1.1).
    fn solicitation(&mut self, arrived: &Arrived, message: &[u8]) -> bool {
        let Ok(solicitation) = Solicitation::parse(message) else {
            return false;
        };
        let (source, target) = (arrived.header.source, solicitation.target);
        let is_try = source.is_unspecified();
        let to_group = arrived.header.destination == ipv6::solicited_node(target);
        if is_try && (!to_group || solicitation.source_link.is_some()) {
            return false;
        }
        let addresses = &self.stack.ipv6.addresses;
        if addresses.is_tentative(target) {
            // Another host tries the same address at the same time; who only asks for it learns nothing.
            if is_try && !addresses.is_own_nonce(target, solicitation.nonce) {
                self.address_is_taken(target);
            }
            return true;
        }
        if !addresses.is_ours(target) {
            return true;
        }
        if let Some(mac) = solicitation.source_link {
            self.neighbour_named(source, mac);
        }
        let destination = if is_try { ipv6::ALL_NODES } else { source };
        self.advertise((target, destination), !is_try);
        true
    }

    /// Advertises an address of ours (RFC 4861, 7.2.4).
    fn advertise(&mut self, ends: (Ipv6Addr, Ipv6Addr), solicited: bool) {
        let mut message = [0; MAX_LEN];
        let advertisement = Advertisement {
            router: false,
            solicited,
            overrides: true,
            target: ends.0,
            target_link: Some(self.stack.config.mac),
        };
        let len = advertisement.emit(&mut message);
        self.send_discovery(ends, None, &mut message[..len]);
    }

    /// RFC 4861, 7.2.5, and RFC 4862, 5.4.4; says whether the message is valid (7.1.2).
    fn advertisement(&mut self, arrived: &Arrived, message: &[u8]) -> bool {
        let Ok(advertisement) = Advertisement::parse(message) else {
            return false;
        };
        if advertisement.solicited && arrived.header.destination.is_multicast() {
            return false;
        }
        let target = advertisement.target;
        let addresses = &self.stack.ipv6.addresses;
        if addresses.is_tentative(target) {
            self.address_is_taken(target);
            return true;
        }
        if addresses.is_ours(target) {
            // RFC 4862, 5.4.4: what is to be done is not said; it is counted.
            self.stack.counters.address_conflicts += 1;
            return true;
        }
        let flags = (advertisement.solicited, advertisement.overrides);
        let mac = advertisement.target_link;
        let destinations = &self.stack.destinations;
        let is_held = &mut |ip| destinations.first_by(ip).is_some();
        let neighbours = &mut self.stack.neighbours6;
        let update = neighbours.advertised(target, mac, flags, is_held, self.now);
        // RFC 4861, 7.2.5: what updates the link address, or confirms it, says of a router, too, whether it is one.
        let counts = matches!(update, Update::Known { .. } | Update::Same);
        if let Some(mac) = neighbours.known_mac(target) {
            self.neighbour_updated(target, mac, update);
        }
        let routers = &mut self.stack.ipv6.routers;
        let changes = counts
            && if advertisement.router {
                routers.mark(target, true)
            } else {
                routers.forget(target) || routers.mark(target, true)
            };
        if changes {
            self.choose_next_hops();
        }
        true
    }

    /// RFC 4861, 6.3.4, and RFC 4862, 5.5.3; says whether the message is valid (RFC 4861, 6.1.2).
    fn router_advertisement(&mut self, arrived: &Arrived, message: &[u8]) -> bool {
        let Ok(advertisement) = RouterAdvertisement::parse(message) else {
            return false;
        };
        let router = arrived.header.source;
        if !router.is_unicast_link_local() {
            return false;
        }
        let config = self.stack.ipv6.config.unwrap_or_default();
        if !config.router_advertisements {
            return true;
        }
        let link_mtu = self.stack.link_mtu;
        let maker = self.stack.maker();
        let ipv6 = &mut self.stack.ipv6;
        ipv6.routers
            .advertised(router, advertisement.lifetime, self.now);
        if advertisement.hop_limit != 0 {
            ipv6.hop_limit = advertisement.hop_limit;
            self.stack.template.set_hop_limit(advertisement.hop_limit);
        }
        let told = |ms: u32| (ms != 0).then(|| Duration::from_millis(u64::from(ms)));
        // RFC 4861, 6.2.1: at most an hour.
        if let Some(reachable) = told(advertisement.reachable_ms.min(3_600_000))
            && reachable != ipv6.base_reachable
        {
            ipv6.base_reachable = reachable;
            ipv6.draw_at = self.now;
        }
        if let Some(interval) = told(advertisement.retransmit_ms.min(60_000)) {
            ipv6.retransmit = interval;
            ipv6.draw_at = self.now;
        }
        for option in advertisement.options {
            match option {
                Option6::Mtu(mtu) if (u32::from(MIN_MTU)..=u32::from(link_mtu)).contains(&mtu) => {
                    self.link_takes(mtu as u16);
                }
                Option6::Prefix(prefix) if prefix.prefix.is_unicast_link_local() => {}
                Option6::Prefix(prefix) => {
                    let ipv6 = &mut self.stack.ipv6;
                    if prefix.on_link {
                        ipv6.routers.take_prefix(&prefix, self.now);
                    }
                    let is_made = prefix.autonomous
                        && prefix.len == MADE_PREFIX_LEN
                        && prefix.preferred <= prefix.valid
                        && !prefix.prefix.is_multicast();
                    if is_made {
                        let random = &mut self.stack.secrets.random;
                        ipv6.addresses.take_prefix(&prefix, maker, random, self.now);
                    }
                }
                Option6::SourceLink(mac) => self.neighbour_named(router, mac),
                Option6::Mtu(_) | Option6::TargetLink(_) | Option6::Nonce(_) => {}
            }
        }
        self.choose_next_hops();
        true
    }

    /// The link takes packets of `mtu` bytes: what is sent from now on is no longer, also on connections that are open, a few of
    /// which are looked at in each tick.
    fn link_takes(&mut self, mtu: u16) {
        let stack = &mut *self.stack;
        if stack.ipv6.mtu == mtu {
            return;
        }
        stack.ipv6.mtu = mtu;
        stack.first_mtu = stack.first_mtu.with_v6(&stack.config, mtu);
        stack.forget_templates();
        stack
            .ipv6
            .mtu_walk
            .begin(mtu.into(), stack.tcbs.len() as u32);
        self.bound_connections();
    }

    /// Goes on with the walk over the connections that follows another MTU.
    fn bound_connections(&mut self) {
        let connections = self.stack.tcbs.len() as u32;
        for index in self.stack.ipv6.mtu_walk.step(connections, self.now) {
            let index = index as usize;
            let tcb = &self.stack.tcbs[index];
            if !matches!(tcb.state, State::Closed | State::TimeWait) && tcb.key.pair().is_some() {
                self.path_mtu(index, self.stack.ipv6.mtu);
            }
        }
    }

    /// A neighbour is named with its link address in a message that proves nothing about the way to it.
    pub(super) fn neighbour_named(&mut self, ip: Ipv6Addr, mac: MacAddr) {
        let destinations = &self.stack.destinations;
        let is_held = &mut |ip| destinations.first_by(ip).is_some();
        let neighbours = &mut self.stack.neighbours6;
        let update = neighbours.named(ip, mac, is_held, self.now);
        self.neighbour_updated(ip, mac, update);
    }

    /// Does what an update of the neighbour cache asks for. Destinations look the link address up again with their next packet,
    /// so that the cache sees its use.
    fn neighbour_updated(&mut self, ip: Ipv6Addr, mac: MacAddr, update: Update<Ipv6Addr>) {
        match update {
            Update::Ignored | Update::Same => {}
            Update::Locked => self.stack.counters.neighbour_changes_limited += 1,
            Update::Doubted => self.set_links(ip, MacAddr::default()),
            Update::Known {
                pending, evicted, ..
            } => {
                if let Some(evicted) = evicted {
                    self.set_links(evicted, MacAddr::default());
                }
                for frame in pending {
                    self.device_output(mac, frame);
                }
                self.set_links(ip, MacAddr::default());
            }
        }
    }

    /// Adds an answer to the neighbour cache without asking.
    pub(crate) fn configured_neighbour(&mut self, ip: Ipv6Addr, mac: MacAddr) {
        let destinations = &self.stack.destinations;
        let is_held = &mut |ip| destinations.first_by(ip).is_some();
        let neighbours = &mut self.stack.neighbours6;
        let update = neighbours.heard(ip, mac, Heard::Configured, is_held, self.now);
        self.neighbour_updated(ip, mac, update);
    }

    /// A tentative address is another host's.
    fn address_is_taken(&mut self, address: Ipv6Addr) {
        let maker = self.stack.maker();
        let random = &mut self.stack.secrets.random;
        let addresses = &mut self.stack.ipv6.addresses;
        if addresses.is_taken(address, maker, random, self.now) {
            self.stack.counters.address_conflicts += 1;
        }
    }

    /// Routers or prefixes may be others: destinations are handed to the neighbours that they belong to now, a few in each
    /// tick.
    fn choose_next_hops(&mut self) {
        self.stack.udp.forget();
        let destinations = self.stack.destinations.ids().count() as u32;
        let ipv6 = &mut self.stack.ipv6;
        ipv6.walk.begin(ipv6.routers.version(), destinations);
        self.walk_destinations();
    }

    /// Goes on with the walk over the destinations.
    fn walk_destinations(&mut self) {
        let own = self.stack.config.mac;
        let destinations = self.stack.destinations.ids().count() as u32;
        for id in self.stack.ipv6.walk.step(destinations, self.now) {
            self.stack.udp.forget();
            self.stack.counters.next_hops_chosen_again += 1;
            let pair = self.stack.destinations.get(id);
            if let Some(pair) = pair.filter(|pair| !pair.is_free()) {
                let next_hop = self.stack.ipv6.routers.next_hop(pair.remote());
                let next_hop = next_hop.unwrap_or(Ipv6Addr::UNSPECIFIED);
                self.stack.destinations.redirect(id, next_hop, own);
            }
        }
    }

    /// Asks for a neighbour's link address: itself where one is known, and otherwise its group (RFC 4861, 7.2.2 and 7.3.3).
    pub(super) fn solicit(&mut self, target: Ipv6Addr) {
        let Some(source) = self.stack.ipv6.addresses.source_for(target) else {
            return;
        };
        let known = self.stack.neighbours6.known_mac(target);
        let destination = match known {
            Some(_) => target,
            None => ipv6::solicited_node(target),
        };
        let solicitation = Solicitation {
            target,
            source_link: Some(self.stack.config.mac),
            nonce: None,
        };
        let mut message = [0; MAX_LEN];
        let len = solicitation.emit(&mut message);
        self.send_discovery((source, destination), known, &mut message[..len]);
    }

    /// Completes a message by its checksum, and queues it: for this link address, for the group that it goes to, or for the
    /// neighbour, once that is known.
    fn send_discovery(
        &mut self,
        ends: (Ipv6Addr, Ipv6Addr),
        link: Option<MacAddr>,
        message: &mut [u8],
    ) {
        let len = message.len() as u32;
        let sum: Partial =
            ipv6::pseudo_header(ends.0, ends.1, protocol::ICMP, len) + sum_header(message);
        message[2..4].copy_from_slice(&sum.finish().to_ne_bytes());
        let group = ends.1.is_multicast().then(|| ipv6::multicast_mac(ends.1));
        let known = || self.stack.neighbours6.known_mac(ends.1);
        match link.or(group).or_else(known) {
            Some(mac) => self.queue_discovery(mac, ends, message),
            // Whoever asks without naming itself is looked for as any other (RFC 4861, 7.2.4).
            None => self.queue_discovery_unresolved(ends, message),
        }
    }

    pub(crate) fn ipv6_timers(&mut self) {
        self.stack.draw_neighbour_times(self.now);
        self.neighbour_timers_v6();
        self.widen_paths();
        let mut due = Vec::new();
        let interval = self.stack.ipv6.retransmit;
        self.stack
            .ipv6
            .addresses
            .poll(interval, self.now, &mut |what| due.push(what));
        // A group is joined before its address is tried (RFC 4862, 5.4.2).
        self.report_groups();
        for what in due {
            match what {
                Due::Try(target, nonce) => {
                    let solicitation = Solicitation {
                        target,
                        source_link: None,
                        nonce: Some(nonce),
                    };
                    let mut message = [0; MAX_LEN];
                    let len = solicitation.emit(&mut message);
                    let ends = (Ipv6Addr::UNSPECIFIED, ipv6::solicited_node(target));
                    self.send_discovery(ends, None, &mut message[..len]);
                }
                // RFC 9777, 5.2.14: what was told from the unspecified address is told again from a valid one.
                Due::Ours(address) if address.is_unicast_link_local() => {
                    self.stack.ipv6.groups.tell_again(self.now);
                }
                Due::Ours(_) => {}
                Due::Gone(address) => {
                    self.stack.forget_templates();
                    self.end_connections_from(address.into());
                }
            }
        }
        let (solicits, is_gone) = self.stack.ipv6.routers.poll(self.now);
        if solicits {
            self.solicit_routers();
        }
        if is_gone {
            self.choose_next_hops();
        }
        self.walk_destinations();
        self.bound_connections();
    }

    /// Asks for routers: with our link address, where we have an address to send from (RFC 4861, 4.1).
    fn solicit_routers(&mut self) {
        let mut message = router_solicitation(self.stack.config.mac);
        let (source, len) = match self.stack.ipv6.addresses.link_local() {
            Some(source) => (source, message.len()),
            None => (Ipv6Addr::UNSPECIFIED, 8),
        };
        self.send_discovery((source, ipv6::ALL_ROUTERS), None, &mut message[..len]);
    }

    /// Takes paths to be as wide as the link again whose routers have not told an MTU for long (RFC 8201, 5.3).
    fn widen_paths(&mut self) {
        let mtu = self.stack.link_mtu;
        while let Some(pair) = self.stack.destinations.widen(mtu, self.now) {
            self.stack.udp.forget();
            let list = Destinations::list_of(pair);
            let mut user = self.stack.neighbours_and_users().1.first(list);
            while let Some(place) = user {
                user = self.stack.neighbours_and_users().1.after(place);
                self.path_is_wider(place as usize);
            }
        }
    }

    fn neighbour_timers_v6(&mut self) {
        let mut actions = Vec::new();
        self.stack
            .neighbours6
            .poll(self.now, &mut |action| actions.push(action));
        for action in actions {
            match action {
                Action::Ask(ip) => self.solicit(ip),
                // The next packet by way of it looks it up, and so begins the delay of RFC 4861, 7.3.3.
                Action::Stale(ip) => self.set_links(ip, MacAddr::default()),
                // Nobody has asked it: it may well be there.
                Action::Gone(ip) => self.set_links(ip, MacAddr::default()),
                Action::Silent(ip) => {
                    self.set_links(ip, MacAddr::default());
                    self.neighbour_failed(ip);
                }
                Action::Fail(ip, frames) => {
                    for frame in frames {
                        self.neighbour_is_missing(&frame);
                        self.drop_frame(frame.id, Drop::Unresolved);
                    }
                    // What can go another way is not given up.
                    self.neighbour_failed(ip);
                    self.next_hop_v6_failed(ip);
                }
            }
        }
    }

    /// A neighbour is not reachable: if it is the router that is chosen, another one is, and redirects to any other neighbour are
    /// undone (RFC 4861, 7.3.3).
    fn neighbour_failed(&mut self, ip: Ipv6Addr) {
        let routers = &mut self.stack.ipv6.routers;
        if routers.mark(ip, false) {
            self.choose_next_hops();
        } else if routers.chosen() != Some(ip) {
            self.undo_redirects(ip);
        }
    }
}

impl OwnAddress {
    /// Tells whether connections can be opened to the address.
    pub const fn is_ours(&self) -> bool {
        matches!(
            self.state,
            AddressState::Preferred | AddressState::Deprecated
        )
    }
}
