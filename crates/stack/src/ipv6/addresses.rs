//! Own addresses: how they are made, tried for duplicates (RFC 4862, 5.4), preferred, deprecated and given up (5.5.4), and
//! which of them is the source of a packet (RFC 6724, 5).
//!
//! This module must never send anything: [`Addresses::poll`] says what is to be sent.

use super::InterfaceId;
use crate::demux::Sip;
use crate::random::Random;
use crate::time::Instant;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;
use tollgate_wire::ethernet::MacAddr;
use tollgate_wire::ipv6;
use tollgate_wire::ndp::{Nonce, Prefix};

/// Addresses that are made of prefixes, at most: who is on the link could advertise any number.
const MOST_MADE: usize = 16;
/// The network of link-local addresses (RFC 4291, 2.5.6).
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);
/// Other identifiers that are tried for an address that is taken (RFC 7217, 6: `IDGEN_RETRIES`).
const MOST_RETRIES: u8 = 3;
/// RFC 4861, 10: `MAX_RTR_SOLICITATION_DELAY`, the longest random delay of the first message (RFC 4862, 5.4.2).
pub(crate) const MAX_DELAY_MS: u32 = 1000;
/// RFC 4862, 5.5.3, e: an unauthenticated advertisement leaves an address at least two hours of its life.
const TWO_HOURS: Duration = Duration::from_secs(2 * 3600);

/// State of an own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressState {
    /// It is being tried for duplicates: not ours yet.
    Tentative,
    /// Ours.
    Preferred,
    /// Ours, but new connections do not begin with it.
    Deprecated,
    /// Another host's: not ours.
    Duplicate,
}

/// An own address, as [`Stack::ipv6_addresses`](crate::Stack::ipv6_addresses) tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// The address.
    pub address: Ipv6Addr,
    /// Leading bits that name its network.
    pub prefix_len: u8,
    /// State.
    pub state: AddressState,
}

/// Source of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Given by configuration or application: it has no end.
    Given,
    /// Made of a prefix, at the try of this number; the link-local one has no end.
    Made(u8),
}

/// An address.
#[derive(Clone, Copy, Debug)]
struct Own {
    address: Ipv6Addr,
    prefix_len: u8,
    state: AddressState,
    origin: Origin,
    /// Solicitations that are left to be sent, and when the next one, or success, is due. Only while it is tentative.
    tries_left: u8,
    due: Instant,
    nonce: Nonce,
    preferred_until: Option<Instant>,
    valid_until: Option<Instant>,
}

impl Own {
    const fn is_ours(&self) -> bool {
        matches!(
            self.state,
            AddressState::Preferred | AddressState::Deprecated
        )
    }

    /// When time next changes it.
    fn next(&self) -> Option<Instant> {
        match self.state {
            AddressState::Tentative => Some(self.due),
            AddressState::Preferred => min(self.preferred_until, self.valid_until),
            AddressState::Deprecated | AddressState::Duplicate => self.valid_until,
        }
    }
}

/// Request of [`Addresses::poll`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A solicitation of this address, from the unspecified one, with a nonce.
    Try(Ipv6Addr, Nonce),
    /// The address is ours now.
    Ours(Ipv6Addr),
    /// The address is ours no longer.
    Gone(Ipv6Addr),
}

/// Secrets and settings that addresses are made by.
#[derive(Clone, Copy)]
pub(crate) struct Maker {
    pub(crate) mac: MacAddr,
    pub(crate) ids: InterfaceId,
    /// The secret of RFC 7217, 5.
    pub(crate) secret: Sip,
    /// Solicitations of each address.
    pub(crate) checks: u8,
}

impl Maker {
    /// An address of a prefix of 64 bits, at the try of this number.
    fn address(self, prefix: Ipv6Addr, retry: u8) -> Ipv6Addr {
        let id = match self.ids {
            InterfaceId::LinkAddress => modified_eui64(self.mac),
            InterfaceId::Opaque => self.opaque((prefix.to_bits() >> 64) as u64, retry),
        };
        with_id(prefix, id)
    }
}

impl Maker {
    /// RFC 7217, 5: a keyed hash of prefix, interface and number of the try.
    fn opaque(self, network: u64, retry: u8) -> u64 {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&network.to_be_bytes());
        bytes[8..14].copy_from_slice(&self.mac.0);
        bytes[14] = retry;
        self.secret.pair(&bytes)
    }
}

/// The address of a prefix of 64 bits with an interface identifier.
const fn with_id(prefix: Ipv6Addr, id: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(prefix.to_bits() >> 64 << 64 | id as u128)
}

/// The link-local address that a stack makes of its link address ([`InterfaceId::LinkAddress`]).
pub const fn link_local(mac: MacAddr) -> Ipv6Addr {
    with_id(LINK_LOCAL, modified_eui64(mac))
}

/// RFC 4291, appendix A: the bit for universal addresses inverted, and `fffe` in the middle.
const fn modified_eui64(mac: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = mac.0;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// Tells whether a host can have an address, and packets to it can be on a link: no group, and neither loopback nor an address of
/// IPv4 in IPv6's form (RFC 4291, 2.5.3 and 2.5.5.2).
pub(crate) const fn is_unicast(address: Ipv6Addr) -> bool {
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || address.to_ipv4_mapped().is_some())
}

fn min(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

/// The addresses.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    own: Vec<Own>,
    /// Number of the addresses as they are: another one when one has come, gone, or turned out to be another host's.
    version: u32,
}

impl Addresses {
    /// Number of the addresses as they are: another one when they have other [groups](Self::groups).
    pub(crate) const fn version(&self) -> u32 {
        self.version
    }

    /// The solicited-node groups of addresses that are ours or tried (RFC 4861, 7.2.1; RFC 4862, 5.4.2).
    pub(crate) fn groups(&self) -> impl Iterator<Item = Ipv6Addr> + Clone {
        let wanted = |own: &&Own| own.state != AddressState::Duplicate;
        let own = self.own.iter().filter(wanted);
        own.map(|own| ipv6::solicited_node(own.address))
    }

    /// Adds an address that is given, with a random nonce; says whether it is new.
    pub(crate) fn give(
        &mut self,
        (address, prefix_len): (Ipv6Addr, u8),
        checks: u8,
        random: &mut Random,
        now: Instant,
    ) -> bool {
        let ends = (None, None);
        self.add(
            (address, prefix_len),
            Origin::Given,
            ends,
            checks,
            random,
            now,
        )
    }

    /// Makes the link-local address (RFC 4862, 5.3).
    pub(crate) fn make_link_local(&mut self, maker: Maker, random: &mut Random, now: Instant) {
        let address = maker.address(LINK_LOCAL, 0);
        let ends = (None, None);
        self.add(
            (address, 64),
            Origin::Made(0),
            ends,
            maker.checks,
            random,
            now,
        );
    }

    fn add(
        &mut self,
        (address, prefix_len): (Ipv6Addr, u8),
        origin: Origin,
        (preferred_until, valid_until): (Option<Instant>, Option<Instant>),
        checks: u8,
        random: &mut Random,
        now: Instant,
    ) -> bool {
        if self.own.iter().any(|own| own.address == address) {
            return false;
        }
        // Hosts that start together do not all ask at once (RFC 4862, 5.4.2).
        let delay = u64::from(random.below(MAX_DELAY_MS));
        let [_, _, nonce @ ..] = random.next().to_be_bytes();
        self.version = self.version.wrapping_add(1);
        self.own.push(Own {
            address,
            prefix_len,
            state: AddressState::Tentative,
            origin,
            tries_left: checks,
            due: match checks {
                0 => now,
                _ => now + Duration::from_millis(delay),
            },
            nonce,
            preferred_until,
            valid_until,
        });
        true
    }

    /// Takes a prefix that may be used for addresses (RFC 4862, 5.5.3, behind the checks of flags and prefix).
    pub(crate) fn take_prefix(
        &mut self,
        prefix: &Prefix,
        maker: Maker,
        random: &mut Random,
        now: Instant,
    ) {
        let end = |seconds: u32| match seconds {
            u32::MAX => None,
            seconds => Some(now + Duration::from_secs(u64::from(seconds))),
        };
        let (preferred, valid) = (end(prefix.preferred), end(prefix.valid));
        let network = prefix.prefix.to_bits() >> 64;
        let mut made = self.own.iter_mut().filter(|own| {
            matches!(own.origin, Origin::Made(_)) && own.address.to_bits() >> 64 == network
        });
        if let Some(own) = made.next() {
            own.preferred_until = preferred;
            let left = own.valid_until.map(|until| until - now);
            let told = valid.map(|until| until - now);
            let is_longer = match (told, left) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(told), Some(left)) => told > left,
            };
            if is_longer || told.is_some_and(|told| told > TWO_HOURS) {
                own.valid_until = valid;
            } else if left.is_none_or(|left| left > TWO_HOURS) {
                own.valid_until = Some(now + TWO_HOURS);
            }
            if own.state == AddressState::Deprecated && preferred.is_none_or(|until| until > now) {
                own.state = AddressState::Preferred;
            }
            return;
        }
        let many = |own: &&Own| matches!(own.origin, Origin::Made(_));
        if prefix.valid == 0 || self.own.iter().filter(many).count() > MOST_MADE {
            return;
        }
        let address = maker.address(prefix.prefix, 0);
        let made = (address, prefix.len);
        let ends = (preferred, valid);
        self.add(made, Origin::Made(0), ends, maker.checks, random, now);
    }

    /// Another host has the address: a tentative one is a duplicate, and where it was made by a secret another one is tried (RFC
    /// 7217, 6). Says whether there was such a one.
    pub(crate) fn is_taken(
        &mut self,
        address: Ipv6Addr,
        maker: Maker,
        random: &mut Random,
        now: Instant,
    ) -> bool {
        let Some(own) = self
            .own
            .iter_mut()
            .find(|own| own.address == address && own.state == AddressState::Tentative)
        else {
            return false;
        };
        own.state = AddressState::Duplicate;
        self.version = self.version.wrapping_add(1);
        let ends = (own.preferred_until, own.valid_until);
        let prefix_len = own.prefix_len;
        if let Origin::Made(retry @ 0..MOST_RETRIES) = own.origin
            && maker.ids == InterfaceId::Opaque
        {
            let another = (maker.address(address, retry + 1), prefix_len);
            let origin = Origin::Made(retry + 1);
            self.own.retain(|own| own.address != address);
            self.add(another, origin, ends, maker.checks, random, now);
        }
        true
    }

    /// Tells whether a packet with this nonce is our own solicitation that came back (RFC 7527).
    pub(crate) fn is_own_nonce(&self, target: Ipv6Addr, nonce: Option<Nonce>) -> bool {
        let mut own = self.own.iter();
        own.any(|own| own.address == target && Some(own.nonce) == nonce)
    }

    /// Tells whether an address is ours.
    pub(crate) fn is_ours(&self, address: Ipv6Addr) -> bool {
        let mut own = self.own.iter();
        own.any(|own| own.address == address && own.is_ours())
    }

    /// Tells whether an address is being tried for duplicates.
    pub(crate) fn is_tentative(&self, address: Ipv6Addr) -> bool {
        let mut own = self.own.iter();
        own.any(|own| own.address == address && own.state == AddressState::Tentative)
    }

    /// Tells whether this host listens to a group: all nodes, or a solicited-node group of an address (RFC 4291, 2.8).
    pub(crate) fn is_member(&self, group: Ipv6Addr) -> bool {
        group == ipv6::ALL_NODES
            || self
                .own
                .iter()
                .any(|own| ipv6::solicited_node(own.address) == group)
    }

    /// Every address with its state.
    pub(crate) fn iter(&self) -> impl Iterator<Item = OwnAddress> {
        self.own.iter().map(|own| OwnAddress {
            address: own.address,
            prefix_len: own.prefix_len,
            state: own.state,
        })
    }

    /// The link-local address, once it is ours.
    pub(crate) fn link_local(&self) -> Option<Ipv6Addr> {
        let mut own = self.own.iter();
        own.find(|own| own.is_ours() && own.address.is_unicast_link_local())
            .map(|own| own.address)
    }

    /// The source of packets to `destination` (RFC 6724, 5: rules 1, 2, 3, 6 and 8; the others are about several interfaces,
    /// mobile hosts and temporary addresses).
    pub(crate) fn source_for(&self, destination: Ipv6Addr) -> Option<Ipv6Addr> {
        let mut best: Option<&Own> = None;
        for own in self.own.iter().filter(|own| own.is_ours()) {
            if best.is_none_or(|best| is_better(own, best, destination)) {
                best = Some(own);
            }
        }
        best.map(|own| own.address)
    }

    /// Does what is due at `now`. `interval` lies between solicitations.
    pub(crate) fn poll(&mut self, interval: Duration, now: Instant, act: &mut dyn FnMut(Due)) {
        self.own.retain_mut(|own| {
            if own.valid_until.is_some_and(|until| until <= now) {
                act(Due::Gone(own.address));
                self.version = self.version.wrapping_add(1);
                return false;
            }
            if own.state == AddressState::Tentative && own.due <= now {
                if own.tries_left == 0 {
                    own.state = AddressState::Preferred;
                    act(Due::Ours(own.address));
                } else {
                    own.tries_left -= 1;
                    own.due = now + interval;
                    act(Due::Try(own.address, own.nonce));
                }
            }
            if own.state == AddressState::Preferred
                && own.preferred_until.is_some_and(|until| until <= now)
            {
                own.state = AddressState::Deprecated;
            }
            true
        });
    }

    /// When something is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.own.iter().filter_map(Own::next).min()
    }
}

/// Scope of an address (RFC 4291, 2.7; RFC 6724, 3.1), as the number that a group's has.
fn scope(address: Ipv6Addr) -> u8 {
    let [first, second, ..] = address.octets();
    if first == 0xff {
        second & 0xf
    } else if address.is_unicast_link_local() || address.is_loopback() {
        2
    } else {
        14
    }
}

/// Label of the policy table (RFC 6724, 2.1).
fn label(address: Ipv6Addr) -> u8 {
    let [first, second, ..] = address.segments();
    let bits = address.to_bits();
    match first {
        _ if address.is_loopback() => 0,
        _ if bits >> 32 == 0xffff => 4,
        0x2002 => 2,
        0x2001 if second == 0 => 5,
        0xfc00..=0xfdff => 13,
        0xfec0..=0xfeff => 11,
        0x3ffe => 12,
        _ if bits >> 32 == 0 => 3,
        _ => 1,
    }
}

/// Tells whether one address is a better source than another.
fn is_better(own: &Own, other: &Own, destination: Ipv6Addr) -> bool {
    // Rule 1: the same address.
    if own.address == destination || other.address == destination {
        return own.address == destination;
    }
    // Rule 2: the appropriate scope.
    let (a, b, wanted) = (scope(own.address), scope(other.address), scope(destination));
    if a != b {
        return if a < b { a >= wanted } else { b < wanted };
    }
    // Rule 3: no deprecated one.
    let deprecated = |own: &Own| own.state == AddressState::Deprecated;
    if deprecated(own) != deprecated(other) {
        return deprecated(other);
    }
    // Rule 6: the label of the destination.
    let matches = |own: &Own| label(own.address) == label(destination);
    if matches(own) != matches(other) {
        return matches(own);
    }
    // Rule 8: the longest prefix in common, up to that of the source.
    let common = |own: &Own| {
        let differing = own.address.to_bits() ^ destination.to_bits();
        differing.leading_zeros().min(u32::from(own.prefix_len))
    };
    common(own) > common(other)
}

#[cfg(test)]
mod tests;
