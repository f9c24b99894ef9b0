//! Neighbour discovery (RFC 4861, 4): its messages behind the first four bytes of ICMPv6, and their options.
//!
//! A message is taken whole or not at all: an option without length makes it invalid (RFC 4861, 6.1 and 7.1). Options that
//! are not known are passed over. Hop limit and checksum are the caller's to check.

use crate::ethernet::MacAddr;
use crate::icmpv6::Discovery;
use crate::{Malformed, be16, be32};
use core::net::Ipv6Addr;

/// Bytes of the ICMPv6 header without a body: type, code, checksum.
const ICMP: usize = 4;
/// Bytes of a solicitation or advertisement of a neighbour in front of its options.
const NEIGHBOUR_LEN: usize = 24;
/// Bytes of a router's advertisement in front of its options.
const ROUTER_LEN: usize = 16;
/// Bytes of a redirect in front of its options.
const REDIRECT_LEN: usize = 40;
/// Bytes of an option that holds a link address of Ethernet.
const LINK_LEN: usize = 8;
/// Bytes of the nonce option with a nonce of six bytes (RFC 3971, 5.3.2).
const NONCE_LEN: usize = 8;
/// Bytes of the longest message that [`Solicitation`] and [`Advertisement`] write.
pub const MAX_LEN: usize = NEIGHBOUR_LEN + LINK_LEN + NONCE_LEN;

/// Numbers of the options (IANA).
mod kind {
    pub(super) const SOURCE_LINK: u8 = 1;
    pub(super) const TARGET_LINK: u8 = 2;
    pub(super) const PREFIX: u8 = 3;
    pub(super) const MTU: u8 = 5;
    pub(super) const NONCE: u8 = 14;
}

/// A nonce of six bytes, by which a node knows its own solicitation again (RFC 7527).
pub type Nonce = [u8; 6];

/// A prefix that a router advertises (RFC 4861, 4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Leading bits that count, 0 to 128.
    pub len: u8,
    /// Its hosts are on the link.
    pub on_link: bool,
    /// Addresses may be made of it (RFC 4862).
    pub autonomous: bool,
    /// Seconds for which it is valid; `u32::MAX` for ever.
    pub valid: u32,
    /// Seconds for which addresses of it are preferred; `u32::MAX` for ever.
    pub preferred: u32,
    /// The prefix, whose other bits mean nothing.
    pub prefix: Ipv6Addr,
}

/// An option that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Option6 {
    /// The sender's link address.
    SourceLink(MacAddr),
    /// The target's link address.
    TargetLink(MacAddr),
    /// A prefix.
    Prefix(Prefix),
    /// The MTU of the link.
    Mtu(u32),
    /// A nonce.
    Nonce(Nonce),
}

/// Options of a message whose lengths have been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    /// Checks the lengths of all options.
    fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let len = rest.get(1).map_or(0, |&words| usize::from(words) * 8);
            if len == 0 {
                return Err(Malformed::Option);
            }
            rest = rest.get(len..).ok_or(Malformed::Option)?;
        }
        Ok(Self { rest: bytes })
    }
}

impl Iterator for Options<'_> {
    type Item = Option6;

    /// The next option that is known and has the length of its kind.
    fn next(&mut self) -> Option<Option6> {
        loop {
            let len = usize::from(*self.rest.get(1)?) * 8;
            let (option, rest) = self.rest.split_at_checked(len)?;
            self.rest = rest;
            let known = match (option[0], len) {
                (kind::SOURCE_LINK, LINK_LEN) => Some(Option6::SourceLink(MacAddr(six(option)))),
                (kind::TARGET_LINK, LINK_LEN) => Some(Option6::TargetLink(MacAddr(six(option)))),
                (kind::NONCE, NONCE_LEN) => Some(Option6::Nonce(six(option))),
                (kind::MTU, 8) => Some(Option6::Mtu(be32(option, 4))),
                (kind::PREFIX, 32) if option[2] <= 128 => Some(Option6::Prefix(Prefix {
                    len: option[2],
                    on_link: option[3] & 0x80 != 0,
                    autonomous: option[3] & 0x40 != 0,
                    valid: be32(option, 4),
                    preferred: be32(option, 8),
                    prefix: address(option, 16),
                })),
                _ => None,
            };
            if known.is_some() {
                return known;
            }
        }
    }
}

/// The six bytes behind an option's kind and length.
fn six(option: &[u8]) -> [u8; 6] {
    let mut bytes = [0; 6];
    bytes.copy_from_slice(&option[2..8]);
    bytes
}

/// An address; the caller has checked the length.
fn address(bytes: &[u8], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    Ipv6Addr::from(octets)
}

/// A neighbour's solicitation (RFC 4861, 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// Whose link address is asked for.
    pub target: Ipv6Addr,
    /// The link address of the sender. It is not there in duplicate address detection.
    pub source_link: Option<MacAddr>,
    /// The nonce (RFC 7527).
    pub nonce: Option<Nonce>,
}

impl Solicitation {
    /// Reads a message of ICMPv6 that is one by its type.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let (target, options) = neighbour(message)?;
        let mut solicitation = Self {
            target,
            source_link: None,
            nonce: None,
        };
        for option in options {
            match option {
                Option6::SourceLink(mac) => solicitation.source_link = Some(mac),
                Option6::Nonce(nonce) => solicitation.nonce = Some(nonce),
                Option6::TargetLink(_) | Option6::Prefix(_) | Option6::Mtu(_) => {}
            }
        }
        Ok(solicitation)
    }

    /// Writes the message with a zero checksum field; says how long it is.
    pub fn emit(&self, out: &mut [u8; MAX_LEN]) -> usize {
        let mut len = emit_neighbour(out, Discovery::NeighbourSolicitation, 0, self.target);
        if let Some(mac) = self.source_link {
            len = emit_six(out, len, kind::SOURCE_LINK, mac.0);
        }
        if let Some(nonce) = self.nonce {
            len = emit_six(out, len, kind::NONCE, nonce);
        }
        len
    }
}

/// A neighbour's advertisement (RFC 4861, 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// The sender is a router.
    pub router: bool,
    /// It answers a solicitation.
    pub solicited: bool,
    /// It replaces what was known.
    pub overrides: bool,
    /// Whose link address it tells.
    pub target: Ipv6Addr,
    /// The link address of the target.
    pub target_link: Option<MacAddr>,
}

impl Advertisement {
    const ROUTER: u8 = 0x80;
    const SOLICITED: u8 = 0x40;
    const OVERRIDE: u8 = 0x20;

    /// Reads a message of ICMPv6 that is one by its type.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let (target, mut options) = neighbour(message)?;
        let flags = message[ICMP];
        let target_link = options.find_map(|option| match option {
            Option6::TargetLink(mac) => Some(mac),
            Option6::SourceLink(_) | Option6::Prefix(_) | Option6::Mtu(_) | Option6::Nonce(_) => {
                None
            }
        });
        Ok(Self {
            router: flags & Self::ROUTER != 0,
            solicited: flags & Self::SOLICITED != 0,
            overrides: flags & Self::OVERRIDE != 0,
            target,
            target_link,
        })
    }

    /// Writes the message with a zero checksum field; says how long it is.
    pub fn emit(&self, out: &mut [u8; MAX_LEN]) -> usize {
        let flag = |is: bool, bit: u8| if is { bit } else { 0 };
        let flags = flag(self.router, Self::ROUTER)
            | flag(self.solicited, Self::SOLICITED)
            | flag(self.overrides, Self::OVERRIDE);
        let len = emit_neighbour(out, Discovery::NeighbourAdvertisement, flags, self.target);
        match self.target_link {
            Some(mac) => emit_six(out, len, kind::TARGET_LINK, mac.0),
            None => len,
        }
    }
}

/// A router's advertisement (RFC 4861, 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterAdvertisement<'a> {
    /// Hop limit of packets; 0 says nothing.
    pub hop_limit: u8,
    /// Seconds for which the router is a default router; 0 says that it is none.
    pub lifetime: u16,
    /// Milliseconds for which a neighbour is reachable after a sign of it; 0 says nothing.
    pub reachable_ms: u32,
    /// Milliseconds between solicitations; 0 says nothing.
    pub retransmit_ms: u32,
    /// Its options.
    pub options: Options<'a>,
}

impl<'a> RouterAdvertisement<'a> {
    /// Reads a message of ICMPv6 that is one by its type.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let Some((head, options)) = message.split_first_chunk::<ROUTER_LEN>() else {
            return Err(Malformed::Truncated);
        };
        Ok(Self {
            hop_limit: head[4],
            lifetime: be16(head, 6),
            reachable_ms: be32(head, 8),
            retransmit_ms: be32(head, 12),
            options: Options::parse(options)?,
        })
    }
}

/// A redirect (RFC 4861, 4.5): a better first hop for a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The better first hop: a router's link-local address, or the destination itself.
    pub target: Ipv6Addr,
    /// The destination.
    pub destination: Ipv6Addr,
    /// The link address of the target.
    pub target_link: Option<MacAddr>,
}

impl Redirect {
    /// Reads a message of ICMPv6 that is one by its type, and checks what can be seen in it alone (RFC 4861, 8.1).
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let Some((head, options)) = message.split_first_chunk::<REDIRECT_LEN>() else {
            return Err(Malformed::Truncated);
        };
        let (target, destination) = (address(head, 8), address(head, 24));
        let is_router = target.is_unicast_link_local();
        if destination.is_multicast() || !is_router && target != destination {
            return Err(Malformed::Field);
        }
        let target_link = Options::parse(options)?.find_map(|option| match option {
            Option6::TargetLink(mac) => Some(mac),
            Option6::SourceLink(_) | Option6::Prefix(_) | Option6::Mtu(_) | Option6::Nonce(_) => {
                None
            }
        });
        Ok(Self {
            target,
            destination,
            target_link,
        })
    }
}

/// A router's solicitation with the sender's link address (RFC 4861, 4.1), its checksum field zero.
pub fn router_solicitation(source_link: MacAddr) -> [u8; 8 + LINK_LEN] {
    let mut out = [0; 8 + LINK_LEN];
    out[0] = Discovery::RouterSolicitation.number();
    let [a, b, c, d, e, f] = source_link.0;
    out[8..].copy_from_slice(&[kind::SOURCE_LINK, 1, a, b, c, d, e, f]);
    out
}

/// The target and the options of a neighbour's message.
fn neighbour(message: &[u8]) -> Result<(Ipv6Addr, Options<'_>), Malformed> {
    let Some((head, options)) = message.split_first_chunk::<NEIGHBOUR_LEN>() else {
        return Err(Malformed::Truncated);
    };
    let target = address(head, 8);
    // RFC 4861, 7.1.1 and 7.1.2.
    if target.is_multicast() {
        return Err(Malformed::Field);
    }
    Ok((target, Options::parse(options)?))
}

/// Writes what lies in front of a neighbour's options; says how long that is.
fn emit_neighbour(out: &mut [u8; MAX_LEN], kind: Discovery, flags: u8, target: Ipv6Addr) -> usize {
    out[..8].copy_from_slice(&[kind.number(), 0, 0, 0, flags, 0, 0, 0]);
    out[8..NEIGHBOUR_LEN].copy_from_slice(&target.octets());
    NEIGHBOUR_LEN
}

/// Writes an option of six bytes behind the first `len`; says where it ends.
fn emit_six(out: &mut [u8; MAX_LEN], len: usize, kind: u8, bytes: [u8; 6]) -> usize {
    out[len..len + 2].copy_from_slice(&[kind, 1]);
    out[len + 2..len + 8].copy_from_slice(&bytes);
    len + 8
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    const MAC: MacAddr = MacAddr([2, 3, 4, 5, 6, 7]);

    /// RFC 4861, 8.1.
    #[test]
    fn redirect_names_a_router_or_the_destination() {
        let router: Ipv6Addr = "fe80::9".parse().unwrap();
        let far: Ipv6Addr = "2001:db8:9::1".parse().unwrap();
        let message = |target: Ipv6Addr, destination: Ipv6Addr| {
            let mut message = vec![137, 0, 0, 0, 0, 0, 0, 0];
            message.extend(target.octets());
            message.extend(destination.octets());
            message.extend([2, 1, 2, 3, 4, 5, 6, 7]);
            message
        };
        let redirect = Redirect {
            target: router,
            destination: far,
            target_link: Some(MAC),
        };
        assert_eq!(Redirect::parse(&message(router, far)), Ok(redirect));
        let on_link = Redirect::parse(&message(far, far)).unwrap();
        assert_eq!(on_link.target, far);
        let other = "2001:db8:9::2".parse().unwrap();
        let group = "ff02::1".parse().unwrap();
        for (target, destination) in [(other, far), (router, group), (group, group)] {
            let message = message(target, destination);
            assert_eq!(Redirect::parse(&message), Err(Malformed::Field));
        }
        let message = message(router, far);
        assert_eq!(Redirect::parse(&message[..39]), Err(Malformed::Truncated));
        assert_eq!(Redirect::parse(&message[..41]), Err(Malformed::Option));
    }

    #[test]
    fn router_advertisement_is_read_with_its_options() {
        let mut message = vec![134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 117, 48, 0, 0, 3, 232];
        message.extend([1, 1, 2, 3, 4, 5, 6, 7]);
        message.extend([5, 1, 0, 0, 0, 0, 5, 0]);
        // Not known: passed over.
        message.extend([24, 1, 0, 0, 0, 0, 0, 0]);
        message.extend([3, 4, 64, 0xc0, 0, 0, 0, 10, 0, 0, 0, 9, 0, 0, 0, 0]);
        message.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let advertisement = RouterAdvertisement::parse(&message).unwrap();
        assert_eq!(advertisement.lifetime, 1800);
        assert_eq!(advertisement.reachable_ms, 30_000);
        assert_eq!(advertisement.retransmit_ms, 1000);
        let options: Vec<Option6> = advertisement.options.collect();
        let prefix = Prefix {
            len: 64,
            on_link: true,
            autonomous: true,
            valid: 10,
            preferred: 9,
            prefix: "2001:db8::".parse().unwrap(),
        };
        assert_eq!(
            options,
            [
                Option6::SourceLink(MAC),
                Option6::Mtu(1280),
                Option6::Prefix(prefix)
            ]
        );
        // RFC 4861, 6.1.2: all options have a length greater than zero.
        message.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(RouterAdvertisement::parse(&message), Err(Malformed::Option));
    }

    #[test]
    fn router_solicitation_names_the_link_address() {
        let message = router_solicitation(MAC);
        assert_eq!(message[0], 133);
        let mut options = Options::parse(&message[8..]).unwrap();
        assert_eq!(options.next(), Some(Option6::SourceLink(MAC)));
    }

    #[test]
    fn target_that_is_a_group_is_refused() {
        let mut out = [0; MAX_LEN];
        let solicitation = Solicitation {
            target: crate::ipv6::ALL_NODES,
            source_link: None,
            nonce: None,
        };
        let len = solicitation.emit(&mut out);
        assert_eq!(Solicitation::parse(&out[..len]), Err(Malformed::Field));
    }

    proptest! {
        #[test]
        fn messages_survive_the_way_out_and_in(
            target in 0u128..0xff << 120,
            link: Option<[u8; 6]>,
            nonce: Option<[u8; 6]>,
            flags: (bool, bool, bool),
        ) {
            let mut out = [0; MAX_LEN];
            let solicitation = Solicitation {
                target: target.into(),
                source_link: link.map(MacAddr),
                nonce,
            };
            let len = solicitation.emit(&mut out);
            prop_assert_eq!(Solicitation::parse(&out[..len]), Ok(solicitation));
            let advertisement = Advertisement {
                router: flags.0,
                solicited: flags.1,
                overrides: flags.2,
                target: target.into(),
                target_link: link.map(MacAddr),
            };
            let len = advertisement.emit(&mut out);
            prop_assert_eq!(Advertisement::parse(&out[..len]), Ok(advertisement));
            // A message that ends early is none.
            prop_assert!(Advertisement::parse(&out[..len - 1]).is_err());
        }

        #[test]
        fn options_of_any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(options) = Options::parse(&bytes) {
                prop_assert!(options.count() <= bytes.len() / 8);
            }
        }
    }
}
