//! IPv6 of the host (RFC 8200, 4291, 4861, 4862): the state of its interface, in which no packet is sent or read.
//!
//! | file | does |
//! |---|---|
//! | `addresses` | own addresses: made, tried for duplicates, preferred, deprecated, given up; the choice of a source |
//! | `routers` | default routers and prefixes of the link: the next hop of a packet |
//! | `input` | the way in: header, extension headers, protocol |
//! | `fragments` | fragments, and packets that were put together from them |
//! | `output` | the way out of everything that has no template |
//! | `discovery` | messages of neighbour discovery, and what is due |
//! | `redirect` | redirects, and what becomes of them |
//! | `groups` | groups that the host is in, and when they are told of |
//! | `listener` | messages of multicast listener discovery |
//! | `icmp` | ICMPv6: echo and errors |
//! | `walk` | other next hops for the destinations and another MTU for the connections, a few in each tick |
//! | `tcp` | headers of TCP segments that have no template, and the addresses of a connection |
//!
//! A stack without [`Config::ipv6`](crate::Config::ipv6) drops every packet of IPv6 and sends none.

pub(crate) mod addresses;
mod discovery;
mod fragments;
mod groups;
mod icmp;
mod input;
mod listener;
mod output;
mod redirect;
pub(crate) mod routers;
mod tcp;
mod walk;

use crate::random::Random;
use crate::time::Instant;
pub(crate) use addresses::is_unicast;
pub use addresses::{AddressState, OwnAddress, link_local};
use core::net::Ipv6Addr;
use core::time::Duration;
use routers::Routers;
pub(crate) use tcp::Addresses;

/// RFC 4861, 10: `REACHABLE_TIME`, `RETRANS_TIMER`.
const REACHABLE: Duration = Duration::from_secs(30);
const RETRANSMIT: Duration = Duration::from_secs(1);
/// RFC 4861, 6.3.4 asks for a new random value "at least every few hours"; it is drawn when a router says a new base, and then.
const REACHABLE_AGAIN: Duration = Duration::from_secs(2 * 3600);
/// Hop limit of neighbour discovery, which no router lets through (RFC 4861, 3.1).
pub(crate) const NDP_HOP_LIMIT: u8 = 255;

/// Source of the interface identifiers of addresses that the stack makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum InterfaceId {
    /// A secret of the stack and the prefix (RFC 7217): another one in each network, the same one in each run with the same
    /// seed.
    #[default]
    Opaque,
    /// The link address (RFC 4291, appendix A).
    LinkAddress,
}

/// Configuration of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// An address beside the link-local one, with the leading bits that name its network; addresses in that are neighbours.
    pub address: Option<(Ipv6Addr, u8)>,
    /// The router to all other networks, beside those that advertise themselves.
    pub gateway: Option<Ipv6Addr>,
    /// Source of interface identifiers.
    pub interface_id: InterfaceId,
    /// Solicitations by which each address is tried for duplicates, a second apart (RFC 4862, 5.1: `DupAddrDetectTransmits`); 0
    /// takes addresses untried.
    pub duplicate_checks: u8,
    /// Ask for routers, and take what they advertise: addresses, prefixes, times, hop limit and MTU (RFC 4861, 6.3; RFC 4862,
    /// 5.5).
    pub router_advertisements: bool,
    /// Take redirects: routers say of which neighbour a destination is nearer (RFC 4861, 8.3).
    pub redirects: bool,
}

impl Default for Ipv6 {
    fn default() -> Self {
        Self {
            address: None,
            gateway: None,
            interface_id: InterfaceId::default(),
            duplicate_checks: 1,
            router_advertisements: true,
            redirects: true,
        }
    }
}

/// The interface.
#[derive(Debug)]
pub(crate) struct Interface {
    /// Configuration; none where IPv6 is off.
    pub(crate) config: Option<Ipv6>,
    pub(crate) addresses: addresses::Addresses,
    pub(crate) routers: Routers,
    groups: groups::Groups,
    walk: walk::Walk,
    /// The walk over the connections that follows another MTU of the link.
    mtu_walk: walk::Walk,
    /// Hop limit of our packets.
    pub(crate) hop_limit: u8,
    /// Bytes of a packet on the link, as the router says or the link has it.
    pub(crate) mtu: u16,
    base_reachable: Duration,
    retransmit: Duration,
    /// When the time for which neighbours are reachable is drawn anew.
    draw_at: Instant,
}

impl Interface {
    /// Makes the interface of a host with this hop limit and MTU.
    pub(crate) fn new(config: Option<Ipv6>, hop_limit: u8, mtu: u16) -> Self {
        Self {
            config,
            addresses: addresses::Addresses::default(),
            routers: Routers::default(),
            groups: groups::Groups::default(),
            walk: walk::Walk::default(),
            mtu_walk: walk::Walk::default(),
            hop_limit,
            mtu,
            base_reachable: REACHABLE,
            retransmit: RETRANSMIT,
            draw_at: Instant::ZERO,
        }
    }

    /// Tells whether the host speaks IPv6.
    pub(crate) const fn is_on(&self) -> bool {
        self.config.is_some()
    }

    /// When something is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        // Groups of new addresses are joined at once.
        let joins = self.groups.is_behind(self.addresses.version());
        let due = [
            joins.then_some(Instant::ZERO),
            self.addresses.next(),
            self.routers.next(),
            self.groups.next(),
            self.walk.next(),
            self.mtu_walk.next(),
        ];
        due.into_iter().flatten().min()
    }

    /// The time for which a neighbour is reachable, drawn between half and one and a half of the base (RFC 4861, 6.3.2), and that
    /// between solicitations; none where they were drawn lately.
    fn draw_times(&mut self, random: &mut Random, now: Instant) -> Option<(Duration, Duration)> {
        if now < self.draw_at {
            return None;
        }
        self.draw_at = now + REACHABLE_AGAIN;
        let base = self.base_reachable.as_millis() as u32;
        let reachable = base / 2 + random.below(base + 1);
        Some((Duration::from_millis(u64::from(reachable)), self.retransmit))
    }
}
