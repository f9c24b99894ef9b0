//! The host's addresses of IPv4 and its routes: adding and removing them while the stack runs, the next hop of a destination and
//! the source of what goes there (RFC 1122, 3.3.1.1, 3.3.4.3).
//!
//! The first address stands in the configuration, and 0.0.0.0 there means that the host has none. When it goes, the next one
//! takes its place. `crate::conflict` asks whether another host has an address, and announces and defends it.
//!
//! An address that goes takes its connections with it: they end with [`Error::TimedOut`], which is what Linux tells in the end
//! when nothing can be sent from the address any more. Nothing is sent to the peer. Listeners stay and wait for its return.
//!
//! The longest prefix that matches gives the next hop. An address's own network is such a prefix, and is taken where a route
//! has one of the same length. A destination without a route is taken to be on the link.
//!
//! The predicted paths never come here: a connection's template holds the next hop, and each change walks the connections.

use crate::config::Config;
use crate::conflict::Stage;
use crate::link::MIN_MTU;
use crate::socket::Error;
use crate::stack::{Active, Stack};
use crate::tcp::slow::syn::Sizes;
use crate::tcp::tcb::State;
use alloc::vec::Vec;
use core::hint::cold_path;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tollgate_gate::Recorder;

/// State of an address of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressState {
    /// Other hosts are asked whether they have it: it is not ours yet (RFC 5227, 2.1).
    Tentative,
    /// Ours.
    Assigned,
    /// Another host's: not ours, or no longer ours. It stands in the list until it is removed.
    Duplicate,
}

/// An address of this host, as [`Stack::addresses`] tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// The address.
    pub address: Ipv4Addr,
    /// Leading bits that name its network, 0 to 32.
    pub prefix_len: u8,
    /// State.
    pub state: AddressState,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network; bits behind the prefix are zero.
    pub destination: Ipv4Addr,
    /// Leading bits that name the network: 0 for the default route, to 32 for that of one host.
    pub prefix_len: u8,
    /// The router, on the link; none when the network's hosts are on the link.
    pub gateway: Option<Ipv4Addr>,
}

impl Route {
    /// The route to all destinations that no other route leads to.
    pub const fn default_by(gateway: Ipv4Addr) -> Self {
        Self {
            destination: Ipv4Addr::UNSPECIFIED,
            prefix_len: 0,
            gateway: Some(gateway),
        }
    }

    fn holds(&self, ip: Ipv4Addr) -> bool {
        is_within(ip, (self.destination, self.prefix_len))
    }

    fn is_same_network(&self, other: &Self) -> bool {
        (self.destination, self.prefix_len) == (other.destination, other.prefix_len)
    }
}

/// The bits of a prefix of this length, 0 to 32.
pub(crate) fn mask(prefix_len: u8) -> u32 {
    u32::MAX
        .checked_shl(32 - u32::from(prefix_len.min(32)))
        .unwrap_or(0)
}

/// Tells whether an address lies in a network.
fn is_within(ip: Ipv4Addr, (network, prefix_len): (Ipv4Addr, u8)) -> bool {
    (u32::from(ip) ^ u32::from(network)) & mask(prefix_len) == 0
}

/// Tells whether a host can have an address, whatever its network.
fn is_host(ip: Ipv4Addr) -> bool {
    !(ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || ip.is_broadcast())
}

/// Configured routes, the longest prefix first, those of one length in the order in which they came.
#[derive(Debug)]
pub(crate) struct Routes {
    list: Vec<Route>,
}

impl Routes {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            list: config.gateway.map(Route::default_by).into_iter().collect(),
        }
    }

    fn add(&mut self, route: Route) -> Result<(), Error> {
        if self.list.iter().any(|known| known.is_same_network(&route)) {
            return Err(Error::InUse);
        }
        let at = self
            .list
            .partition_point(|known| known.prefix_len >= route.prefix_len);
        self.list.insert(at, route);
        Ok(())
    }

    fn to(&self, ip: Ipv4Addr) -> Option<&Route> {
        self.list.iter().find(|route| route.holds(ip))
    }
}

impl Stack {
    /// Tells whether `ip` is an address of this host.
    #[inline(always)]
    pub(crate) fn is_ours(&self, ip: Ipv4Addr) -> bool {
        if ip == self.config.ip {
            return !ip.is_unspecified();
        }
        if self.addresses.is_empty() {
            return false;
        }
        cold_path();
        self.addresses.iter().any(|&(own, _)| own == ip)
    }

    /// Tells whether `ip` is a broadcast address on one of our networks.
    #[inline]
    pub(crate) fn is_broadcast(&self, ip: Ipv4Addr) -> bool {
        let directed = |&(own, prefix_len): &(Ipv4Addr, u8)| {
            let host = !mask(prefix_len);
            host > 1 && u32::from(ip) == u32::from(own) | host
        };
        self.config.is_broadcast(ip) || self.addresses.iter().any(directed)
    }

    /// The addresses that are ours with their prefixes, the first one first.
    fn assigned(&self) -> impl Iterator<Item = (Ipv4Addr, u8)> {
        let first = (self.config.ip, self.config.prefix_len);
        let first = (!first.0.is_unspecified()).then_some(first);
        first.into_iter().chain(self.addresses.iter().copied())
    }

    /// The router or host that packets for `destination` are handed to.
    pub(crate) fn next_hop_to(&self, destination: Ipv4Addr) -> Ipv4Addr {
        let Some(route) = self.routes.to(destination) else {
            return destination;
        };
        let connected = self
            .assigned()
            .filter(|&network| is_within(destination, network))
            .map(|(_, prefix_len)| prefix_len)
            .max();
        // A broadcast is for the link.
        if !self.is_broadcast(destination)
            && connected.is_none_or(|connected| route.prefix_len > connected)
        {
            route.gateway.unwrap_or(destination)
        } else {
            destination
        }
    }

    /// The address that packets for `destination` come from: the one whose network holds the next hop, the longest prefix
    /// first, else the first. Unspecified where the host has none.
    #[inline]
    pub(crate) fn source_to(&self, destination: Ipv4Addr) -> Ipv4Addr {
        if self.addresses.is_empty() {
            return self.config.ip;
        }
        cold_path();
        let next_hop = self.next_hop_to(destination);
        self.assigned()
            .filter(|&network| is_within(next_hop, network))
            // The first of the longest.
            .reduce(|best, next| if next.1 > best.1 { next } else { best })
            .map_or(self.config.ip, |(own, _)| own)
    }

    /// The address that a datagram to `to` comes from: `local`, where one is chosen. None goes to this host or to a loopback (RFC 1122,
    /// 3.2.1.3), nor to a group, whose link address is not known here (RFC 1112, 6.4).
    #[inline]
    pub(crate) fn source_of_datagram_v4(
        &self,
        local: Option<IpAddr>,
        to: Ipv4Addr,
    ) -> Result<Ipv4Addr, Error> {
        if to.is_unspecified() || to.is_loopback() || to.is_multicast() || self.is_ours(to) {
            return Err(Error::BadAddress);
        }
        match local {
            None => Some(self.source_to(to))
                // RFC 1122, 3.2.1.3, a: only a host that is learning its address sends without one.
                .filter(|source| !source.is_unspecified())
                .ok_or(Error::Unreachable),
            Some(IpAddr::V4(local)) if self.is_ours(local) => Ok(local),
            Some(_) => Err(Error::BadAddress),
        }
    }

    /// The address that a datagram over IPv6 comes from (RFC 4291, 2.5.2 and 2.5.3). It may go to a group.
    pub(crate) fn source_of_datagram_v6(
        &self,
        local: Option<IpAddr>,
        to: Ipv6Addr,
    ) -> Result<Ipv6Addr, Error> {
        let addresses = &self.ipv6.addresses;
        if to.is_unspecified() || to.is_loopback() || addresses.is_ours(to) {
            return Err(Error::BadAddress);
        }
        match local {
            None => addresses.source_for(to).ok_or(Error::Unreachable),
            Some(IpAddr::V6(local)) if addresses.is_ours(local) => Ok(local),
            Some(_) => Err(Error::BadAddress),
        }
    }

    /// All addresses of the host, those that are ours first.
    pub fn addresses(&self) -> impl Iterator<Item = OwnAddress> {
        let ours = self.assigned().map(|own| (own, AddressState::Assigned));
        let others = self.claims.iter().filter_map(|claim| match claim.stage {
            Stage::Probing { .. } => Some((claim.own, AddressState::Tentative)),
            Stage::Lost => Some((claim.own, AddressState::Duplicate)),
            Stage::Announcing { .. } | Stage::Held => None,
        });
        ours.chain(others)
            .map(|((address, prefix_len), state)| OwnAddress {
                address,
                prefix_len,
                state,
            })
    }

    /// All routes that were configured, the longest prefix first. The networks of the addresses are not among them.
    pub fn routes(&self) -> &[Route] {
        &self.routes.list
    }

    /// Checks that the host can be given an address.
    fn check_new(&self, (ip, prefix_len): (Ipv4Addr, u8)) -> Result<(), Error> {
        let host = !mask(prefix_len);
        // RFC 1122, 3.2.1.3: neither all zeros nor all ones, where the network has more than two addresses (RFC 3021).
        let number = u32::from(ip) & host;
        let is_special = host > 1 && (number == 0 || number == host);
        if prefix_len > 32 || !is_host(ip) || is_special || self.is_broadcast(ip) {
            return Err(Error::BadAddress);
        }
        if self.addresses().any(|own| own.address == ip) {
            return Err(Error::InUse);
        }
        Ok(())
    }

    /// Gives the host an address that is certain to be its own, with `prefix_len` leading bits, 0 to 32, that name its network.
    /// It is ours at once, announced, and defended once in ten seconds, but never given up (RFC 5227, 2.4 c).
    /// [`Active::probe_address`] asks first.
    ///
    /// # Errors
    /// [`Error::BadAddress`] for an address that is no unicast host's, [`Error::InUse`] for one that the host has.
    pub fn add_address(&mut self, ip: Ipv4Addr, prefix_len: u8) -> Result<(), Error> {
        self.check_new((ip, prefix_len))?;
        self.assign((ip, prefix_len));
        self.claims.announce((ip, prefix_len));
        Ok(())
    }

    /// Makes an address ours.
    pub(crate) fn assign(&mut self, own: (Ipv4Addr, u8)) {
        if self.config.ip.is_unspecified() {
            (self.config.ip, self.config.prefix_len) = own;
        } else {
            self.addresses.push(own);
        }
        self.forget_templates();
        self.ways_changed = true;
    }

    /// The MTU of the link for IPv4, in bytes.
    pub const fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Adds a route.
    ///
    /// # Errors
    /// [`Error::BadAddress`] where bits are set behind the prefix, the prefix is longer than 32 bits or the router is no
    /// unicast host or this one; [`Error::InUse`] where there is a route to the network.
    pub fn add_route(&mut self, route: Route) -> Result<(), Error> {
        let bits = u32::from(route.destination);
        let is_router = |ip| is_host(ip) && !self.is_broadcast(ip) && !self.is_ours(ip);
        if route.prefix_len > 32
            || bits & !mask(route.prefix_len) != 0
            || !route.gateway.is_none_or(is_router)
        {
            return Err(Error::BadAddress);
        }
        self.routes.add(route)?;
        self.forget_templates();
        self.ways_changed = true;
        Ok(())
    }

    /// Removes a route.
    ///
    /// # Errors
    /// [`Error::BadAddress`] for a route that is not there.
    pub fn remove_route(&mut self, route: Route) -> Result<(), Error> {
        let at = self.routes.list.iter().position(|known| *known == route);
        self.routes.list.remove(at.ok_or(Error::BadAddress)?);
        self.forget_templates();
        self.ways_changed = true;
        Ok(())
    }
}

impl<R: Recorder> Active<'_, R> {
    /// The router or host that packets for `destination` are handed to.
    pub(crate) fn next_hop(&self, destination: Ipv4Addr) -> Ipv4Addr {
        self.stack.next_hop_to(destination)
    }

    /// Gives the host an address when no other host on the link has it, which takes four to seven seconds of questions
    /// (RFC 5227, 2.1). [`Stack::addresses`] tells how that stands. When another host claims it later, twice within ten
    /// seconds, it is given up.
    ///
    /// # Errors
    /// Those of [`Stack::add_address`].
    pub fn probe_address(&mut self, ip: Ipv4Addr, prefix_len: u8) -> Result<(), Error> {
        self.stack.check_new((ip, prefix_len))?;
        let random = &mut self.stack.secrets.random;
        self.stack.claims.probe((ip, prefix_len), self.now, random);
        Ok(())
    }

    /// Takes an address from the host, whatever its state. Connections from it end with [`Error::TimedOut`].
    ///
    /// # Errors
    /// [`Error::BadAddress`] for an address that the host does not have.
    pub fn remove_address(&mut self, ip: Ipv4Addr) -> Result<(), Error> {
        let claimed = self.stack.claims.remove(ip);
        if self.stack.is_ours(ip) {
            self.unassign(ip);
            Ok(())
        } else if claimed {
            Ok(())
        } else {
            Err(Error::BadAddress)
        }
    }

    /// Changes the MTU of the link for IPv4: 68 bytes (RFC 791) to that which the stack was made with. Segments of open
    /// connections become no longer than it allows.
    ///
    /// # Errors
    /// [`Error::BadOption`] for one out of that range.
    pub fn set_mtu(&mut self, mtu: u16) -> Result<(), Error> {
        if !(MIN_MTU..=usize::from(self.stack.link_mtu)).contains(&usize::from(mtu)) {
            return Err(Error::BadOption);
        }
        self.stack.mtu = mtu;
        let first = self.stack.first_mtu;
        self.stack.first_mtu = first.with_v4(&self.stack.config, mtu);
        self.stack.forget_templates();
        self.stack.sizes = Sizes::default();
        for index in 0..self.stack.tcbs.len() {
            let tcb = &self.stack.tcbs[index];
            if !matches!(tcb.state, State::Closed | State::TimeWait) && tcb.key.pair().is_none() {
                self.path_mtu(index, mtu);
            }
        }
        Ok(())
    }

    /// Makes an address no longer ours.
    pub(crate) fn unassign(&mut self, ip: Ipv4Addr) {
        let stack = &mut *self.stack;
        stack.addresses.retain(|&(own, _)| own != ip);
        if stack.config.ip == ip {
            let next = (!stack.addresses.is_empty()).then(|| stack.addresses.remove(0));
            (stack.config.ip, stack.config.prefix_len) =
                next.unwrap_or((Ipv4Addr::UNSPECIFIED, 32));
        }
        stack.forget_templates();
        stack.ways_changed = true;
        self.end_connections_from(ip.into());
        self.choose_ways();
    }

    /// Ends the connections from an address that is no longer ours, with [`Error::TimedOut`], and those in TIME-WAIT. The peer is
    /// told nothing.
    pub(crate) fn end_connections_from(&mut self, ip: IpAddr) {
        let is_from = |stack: &Stack, key| stack.ends_of(key).1.ip() == ip;
        for index in 0..self.stack.tcbs.len() {
            let tcb = &self.stack.tcbs[index];
            if tcb.state != State::Closed && is_from(self.stack, tcb.key) {
                self.kill(index, Error::TimedOut);
            }
        }
        let waits: Vec<u32> = (self.stack.time_wait.iter())
            .filter(|(_, entry)| is_from(self.stack, entry.key))
            .map(|(index, _)| index)
            .collect();
        for index in waits {
            self.forget_time_wait(index);
        }
    }

    /// Gives each connection the next hop that its destination has by what was added or removed since the last call.
    pub(crate) fn choose_ways(&mut self) {
        if !core::mem::take(&mut self.stack.ways_changed) {
            return;
        }
        for index in 0..self.stack.tcbs.len() {
            let tcb = &self.stack.tcbs[index];
            if matches!(tcb.state, State::Closed | State::TimeWait) || tcb.key.pair().is_some() {
                continue;
            }
            let first = match self.stack.extension(index) {
                Some(extension) => extension.route.as_ref().map(|route| route.first()),
                None => None,
            };
            let next_hop = self.next_hop(first.unwrap_or(tcb.remote_ip()));
            if next_hop != self.stack.tcbs[index].next_hop {
                self.go_by_hop(index, next_hop);
            }
        }
    }
}
