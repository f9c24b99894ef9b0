//! Default routers and the prefixes of the link (RFC 4861, 5.1 and 6.3): from a destination to its next hop.
//!
//! This module must never send anything; which router answers is the neighbour cache's to find out, and told by
//! [`Routers::mark`].

use crate::time::Instant;
use alloc::vec::Vec;
use core::mem;
use core::net::Ipv6Addr;
use core::time::Duration;
use tollgate_wire::ndp::Prefix;

/// Routers and prefixes that are kept, at most: who is on the link could advertise any number. RFC 4861, 6.3.4 asks for two
/// routers at least.
const MOST_ROUTERS: usize = 8;
const MOST_PREFIXES: usize = 32;
/// RFC 4861, 10: `MAX_RTR_SOLICITATIONS`, `RTR_SOLICITATION_INTERVAL`.
const SOLICITATIONS: u8 = 3;
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(4);

/// End of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It is configured: no message of a router or neighbour ends it.
    Configured,
    /// It was advertised for ever, until an advertisement says something else.
    Never,
    /// It was advertised until then.
    At(Instant),
}

impl End {
    const fn instant(self) -> Option<Instant> {
        match self {
            Self::Configured | Self::Never => None,
            Self::At(at) => Some(at),
        }
    }

    fn is_past(self, now: Instant) -> bool {
        self.instant().is_some_and(|at| at <= now)
    }
}

/// A default router.
#[derive(Clone, Copy, Debug)]
struct Router {
    address: Ipv6Addr,
    end: End,
    /// It did not answer when it was asked last.
    failed: bool,
}

/// A prefix whose hosts are on the link.
#[derive(Clone, Copy, Debug)]
struct OnLink {
    prefix: Ipv6Addr,
    len: u8,
    end: End,
}

/// The lists.
#[derive(Debug, Default)]
pub(crate) struct Routers {
    /// The routers in the order in which they are chosen.
    routers: Vec<Router>,
    on_link: Vec<OnLink>,
    /// Number of the lists as they are: another one when a next hop may have become another.
    version: u32,
    /// Solicitations that are left, and when the next is due.
    solicit: Option<(u8, Instant)>,
}

/// Tells whether `address` begins with the first `len` bits of `prefix`.
fn begins_with(address: Ipv6Addr, prefix: Ipv6Addr, len: u8) -> bool {
    let differing = address.to_bits() ^ prefix.to_bits();
    differing.leading_zeros() >= u32::from(len.min(128))
}

impl Routers {
    /// Number of the lists as they are. Next hops that were chosen by another one may not be right any more.
    pub(crate) const fn version(&self) -> u32 {
        self.version
    }

    const fn changed(&mut self) {
        self.version = self.version.wrapping_add(1);
    }

    /// Adds a router that needs not advertise itself.
    pub(crate) fn configure(&mut self, address: Ipv6Addr) {
        self.changed();
        self.routers.push(Router {
            address,
            end: End::Configured,
            failed: false,
        });
    }

    /// Adds a prefix that needs not be advertised.
    pub(crate) fn configure_prefix(&mut self, prefix: Ipv6Addr, len: u8) {
        self.changed();
        let end = End::Configured;
        self.on_link.push(OnLink { prefix, len, end });
    }

    /// Begins to ask for routers at `at` (RFC 4861, 6.3.7).
    pub(crate) fn solicit(&mut self, at: Instant) {
        self.solicit = Some((SOLICITATIONS, at));
    }

    /// Takes a router's advertisement of itself, whose lifetime is in seconds; says whether it was a default router and is none
    /// any more (RFC 4861, 6.3.4).
    pub(crate) fn advertised(&mut self, address: Ipv6Addr, lifetime: u16, now: Instant) -> bool {
        if lifetime == 0 {
            return self.forget(address);
        }
        let end = End::At(now + Duration::from_secs(u64::from(lifetime)));
        let has_room = self.routers.len() < MOST_ROUTERS;
        let known = self.routers.iter_mut().find(|r| r.address == address);
        match known {
            Some(router) => {
                if router.end != End::Configured {
                    router.end = end;
                }
                if mem::take(&mut router.failed) {
                    self.changed();
                }
            }
            None if has_room => {
                self.routers.push(Router {
                    address,
                    end,
                    failed: false,
                });
                self.changed();
            }
            None => {}
        }
        self.solicit = None;
        false
    }

    /// A router is none any more, unless it is configured; says whether it was one.
    pub(crate) fn forget(&mut self, address: Ipv6Addr) -> bool {
        let before = self.routers.len();
        self.routers
            .retain(|router| router.address != address || router.end == End::Configured);
        let was_one = self.routers.len() != before;
        if was_one {
            self.changed();
        }
        was_one
    }

    /// Notes whether a neighbour answers, if it is a router; says whether another one is chosen now. One that does not answer is
    /// chosen again behind all others (RFC 4861, 6.3.6: round robin where none is known to be reachable).
    pub(crate) fn mark(&mut self, address: Ipv6Addr, answers: bool) -> bool {
        let before = self.chosen();
        let Some(at) = self.routers.iter().position(|r| r.address == address) else {
            return false;
        };
        self.routers[at].failed = !answers;
        if !answers {
            self.routers[at..].rotate_left(1);
        }
        let changes = self.chosen() != before;
        if changes {
            self.changed();
        }
        changes
    }

    /// Takes a prefix whose hosts are on the link, or are no longer (RFC 4861, 6.3.4). One that is configured stays as it is.
    pub(crate) fn take_prefix(&mut self, prefix: &Prefix, now: Instant) {
        let end = match prefix.valid {
            u32::MAX => End::Never,
            seconds => End::At(now + Duration::from_secs(u64::from(seconds))),
        };
        let same = |one: &OnLink| {
            one.len == prefix.len && begins_with(one.prefix, prefix.prefix, prefix.len)
        };
        let before = self.on_link.len();
        if prefix.valid == 0 {
            self.on_link
                .retain(|one| !same(one) || one.end == End::Configured);
        } else if let Some(known) = self.on_link.iter_mut().find(|one| same(one)) {
            if known.end != End::Configured {
                known.end = end;
            }
        } else if self.on_link.len() < MOST_PREFIXES {
            self.on_link.push(OnLink {
                prefix: prefix.prefix,
                len: prefix.len,
                end,
            });
        }
        if self.on_link.len() != before {
            self.changed();
        }
    }

    /// The neighbour that packets for a destination are handed to (RFC 4861, 5.2): itself on the link, otherwise a router that
    /// answers, if there is one, or any. Without a router there is none.
    pub(crate) fn next_hop(&self, destination: Ipv6Addr) -> Option<Ipv6Addr> {
        let on_link = destination.is_multicast()
            || destination.is_unicast_link_local()
            || self
                .on_link
                .iter()
                .any(|one| begins_with(destination, one.prefix, one.len));
        if on_link {
            return Some(destination);
        }
        self.chosen()
    }

    /// The router for what is elsewhere: the first that answers, or else the first.
    pub(crate) fn chosen(&self) -> Option<Ipv6Addr> {
        let answers = self.routers.iter().find(|router| !router.failed);
        answers.or(self.routers.first()).map(|r| r.address)
    }

    /// Lets go of what has ended, and says whether a solicitation is due and whether a router has gone.
    pub(crate) fn poll(&mut self, now: Instant) -> (bool, bool) {
        let before = self.routers.len() + self.on_link.len();
        self.routers.retain(|router| !router.end.is_past(now));
        self.on_link.retain(|one| !one.end.is_past(now));
        let is_gone = self.routers.len() + self.on_link.len() != before;
        if is_gone {
            self.changed();
        }
        let Some((left, at)) = self.solicit else {
            return (false, is_gone);
        };
        if at > now {
            return (false, is_gone);
        }
        self.solicit = match left {
            0 | 1 => None,
            left => Some((left - 1, now + SOLICITATION_INTERVAL)),
        };
        (true, is_gone)
    }

    /// When something is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        let routers = self.routers.iter().filter_map(|r| r.end.instant());
        let prefixes = self.on_link.iter().filter_map(|one| one.end.instant());
        let solicit = self.solicit.map(|(_, at)| at);
        routers.chain(prefixes).chain(solicit).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const OTHER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
    const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 9);
    const NEAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 9);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn prefix(valid: u32) -> Prefix {
        Prefix {
            len: 64,
            on_link: true,
            autonomous: false,
            valid,
            preferred: 0,
            prefix: NEAR,
        }
    }

    #[test]
    fn next_hop_is_the_neighbour_or_a_router_that_answers() {
        let mut routers = Routers::default();
        assert_eq!(routers.next_hop(FAR), None);
        assert_eq!(routers.next_hop(OTHER), Some(OTHER));
        routers.advertised(ROUTER, 1800, at(0));
        assert_eq!(routers.next_hop(NEAR), Some(ROUTER));
        routers.take_prefix(&prefix(100), at(0));
        assert_eq!(routers.next_hop(NEAR), Some(NEAR));
        routers.advertised(OTHER, 1800, at(0));
        assert!(routers.mark(ROUTER, false));
        assert_eq!(routers.next_hop(FAR), Some(OTHER));
        // RFC 4861, 6.3.6: without one that answers it is any.
        routers.mark(OTHER, false);
        assert_eq!(routers.next_hop(FAR), Some(ROUTER));
    }

    #[test]
    fn lists_forget_what_has_ended_or_is_withdrawn() {
        let mut routers = Routers::default();
        routers.advertised(ROUTER, 10, at(0));
        routers.take_prefix(&prefix(20), at(0));
        assert_eq!(routers.next(), Some(at(10)));
        assert_eq!(routers.poll(at(10)), (false, true));
        assert_eq!(routers.next_hop(FAR), None);
        routers.take_prefix(&prefix(0), at(11));
        assert_eq!(routers.next_hop(NEAR), None);
        routers.advertised(ROUTER, 10, at(11));
        assert!(routers.advertised(ROUTER, 0, at(12)));
        assert_eq!(routers.next(), None);
    }

    #[test]
    fn lists_have_an_end() {
        let mut routers = Routers::default();
        for n in 0..100 {
            let n = Ipv6Addr::from_bits(ROUTER.to_bits() + n);
            routers.advertised(n, 10, at(0));
            let prefix = Prefix {
                prefix: Ipv6Addr::from_bits(n.to_bits() << 64),
                ..prefix(9)
            };
            routers.take_prefix(&prefix, at(0));
        }
        assert_eq!(routers.routers.len(), MOST_ROUTERS);
        assert_eq!(routers.on_link.len(), MOST_PREFIXES);
    }

    #[test]
    fn routers_are_asked_for_three_times() {
        let mut routers = Routers::default();
        routers.solicit(at(1));
        assert_eq!(routers.poll(at(0)), (false, false));
        for n in 0..3 {
            assert_eq!(routers.next(), Some(at(1 + 4 * n)));
            assert_eq!(routers.poll(at(1 + 4 * n)), (true, false));
        }
        assert_eq!(routers.next(), None);
        routers.solicit(at(20));
        routers.advertised(ROUTER, 1800, at(19));
        assert_eq!(routers.poll(at(20)), (false, false));
    }
}
