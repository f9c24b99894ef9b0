//! IPv6 (RFC 8200): the fixed header and the chain of extension headers behind it.
//!
//! [`upper`] follows the chain for readers of captures, [`chain`](mod@chain) as a destination must.

pub mod chain;

use crate::ethernet::{EtherType, MacAddr};
use crate::{Malformed, be16, be32};
use core::net::Ipv6Addr;
use tollgate_checksum::Partial;

/// The largest flow label (RFC 8200, 3): 20 bits.
pub const MAX_FLOW_LABEL: u32 = 0xf_ffff;
/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;
/// The Ethernet type of IPv6 (RFC 2464).
pub const ETHERTYPE: u16 = EtherType::Ipv6.to_u16();
/// Bytes of a packet that every link carries (RFC 8200, 5).
pub const MIN_MTU: u16 = 1280;
/// Bytes of a fragment header (RFC 8200, 4.5).
pub const FRAGMENT_LEN: usize = 8;

/// Numbers of protocols and extension headers that the stack knows (IANA).
pub mod protocol {
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// A fragment header.
    pub const FRAGMENT: u8 = 44;
    /// ICMPv6 (RFC 4443).
    pub const ICMP: u8 = 58;
    /// Nothing follows (RFC 8200, 4.7).
    pub const NO_NEXT_HEADER: u8 = 59;
}

/// All nodes of the link (RFC 4291, 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of the link (RFC 4291, 2.7.1).
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// The group that every owner of an address with the same last 24 bits is in (RFC 4291, 2.7.1).
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(
        0xff02,
        0,
        0,
        0,
        0,
        1,
        0xff00 | a as u16,
        u16::from_be_bytes([b, c]),
    )
}

/// The link address of a group on Ethernet (RFC 2464, 7).
pub const fn multicast_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// The pseudo header that upper layers sum in front of their own bytes (RFC 8200, 8.1).
#[inline]
pub fn pseudo_header(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, len: u32) -> Partial {
    addresses_sum(source, destination)
        + Partial::from_be_word(u16::from(protocol))
        + Partial::from_be_word((len >> 16) as u16)
        + Partial::from_be_word(len as u16)
}

/// The sum of both addresses, in either order.
pub fn addresses_sum(one: Ipv6Addr, other: Ipv6Addr) -> Partial {
    let sum = |address: Ipv6Addr| {
        let octets = address.octets();
        let (words, _) = octets.as_chunks::<4>();
        words.iter().fold(Partial::ZERO, |sum, word| {
            sum + Partial::from_ne_u32(u32::from_ne_bytes(*word))
        })
    };
    sum(one) + sum(other)
}

/// Extension headers by their number (IANA, "IPv6 Extension Header Types").
mod extension {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const DESTINATION: u8 = 60;
    pub(super) const MOBILITY: u8 = 135;
    pub(super) const HIP: u8 = 139;
    pub(super) const SHIM6: u8 = 140;
}

/// Options of a hop-by-hop header: one byte of padding (RFC 8200, 4.2), and the length of a jumbogram (RFC 2675, 2).
const PAD1: u8 = 0;
const JUMBO_PAYLOAD: u8 = 0xc2;

/// The fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Differentiated services and ECN (RFC 8200, 7).
    pub traffic_class: u8,
    /// Label of the flow, 20 bits (RFC 6437); 0 for none.
    pub flow_label: u32,
    /// Bytes behind the fixed header, extension headers included; 0 for a jumbogram (RFC 2675) and for what a host
    /// captures before its device cuts it.
    pub payload_len: u16,
    /// Next header: an extension header or the protocol.
    pub next_header: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// From whom.
    pub source: Ipv6Addr,
    /// To whom.
    pub destination: Ipv6Addr,
}

impl Header {
    /// Reads the header at the front of `packet` and checks its length against the packet's.
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        let header = Self::parse_front(packet)?;
        if packet.len() < HEADER_LEN + usize::from(header.payload_len) {
            return Err(Malformed::Truncated);
        }
        Ok(header)
    }

    /// The header's bytes.
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & MAX_FLOW_LABEL;
        out[..4].copy_from_slice(&word.to_be_bytes());
        out[4..6].copy_from_slice(&self.payload_len.to_be_bytes());
        out[6] = self.next_header;
        out[7] = self.hop_limit;
        out[8..24].copy_from_slice(&self.source.octets());
        out[24..].copy_from_slice(&self.destination.octets());
        out
    }

    /// Reads the header at the front of `packet`, of which only the front may have been captured: the length that it
    /// names is not held against the slice.
    pub fn parse_front(packet: &[u8]) -> Result<Self, Malformed> {
        let Some((head, _)) = packet.split_first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::Truncated);
        };
        if head[0] >> 4 != 6 {
            return Err(Malformed::Version);
        }
        let address = |at: usize| {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&head[at..at + 16]);
            Ipv6Addr::from(bytes)
        };
        let word = be32(head, 0);
        Ok(Self {
            traffic_class: (word >> 20) as u8,
            flow_label: word & MAX_FLOW_LABEL,
            payload_len: be16(head, 4),
            next_header: head[6],
            hop_limit: head[7],
            source: address(8),
            destination: address(24),
        })
    }
}

/// A fragment header (RFC 8200, 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Of this part in the fragmentable part of the packet, in bytes.
    pub offset: u16,
    /// Tells whether more parts follow.
    pub more: bool,
    /// Identification that the fragments of one packet have in common.
    pub identification: u32,
}

impl Fragment {
    /// Reads the header at the front of `bytes`, and the number of what follows it.
    pub fn parse(bytes: &[u8]) -> Result<(u8, Self), Malformed> {
        let Some((head, _)) = bytes.split_first_chunk::<FRAGMENT_LEN>() else {
            return Err(Malformed::Truncated);
        };
        let word = be16(head, 2);
        let fragment = Self {
            offset: word & 0xfff8,
            more: word & 1 != 0,
            identification: be32(head, 4),
        };
        Ok((head[0], fragment))
    }

    /// Tells whether it is all of its packet (RFC 6946).
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }

    /// The header's bytes, in front of `next_header`.
    pub fn to_bytes(&self, next_header: u8) -> [u8; FRAGMENT_LEN] {
        let mut out = [next_header, 0, 0, 0, 0, 0, 0, 0];
        let word = self.offset & 0xfff8 | u16::from(self.more);
        out[2..4].copy_from_slice(&word.to_be_bytes());
        out[4..].copy_from_slice(&self.identification.to_be_bytes());
        out
    }
}

/// Header behind the extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper {
    /// The protocol behind the last extension header that was followed.
    pub protocol: u8,
    /// Bytes of all extension headers.
    pub offset: usize,
    /// The fragment header, if there was one. The chain of a fragment that is not the first ends at it.
    pub fragment: Option<Fragment>,
    /// Bytes behind the fixed header, as a hop-by-hop header at the chain's beginning names them (RFC 2675, 2).
    pub jumbo_len: Option<u32>,
}

/// Follows the extension headers in `payload`, which is what lies behind the fixed header, beginning with `next_header`.
/// An encrypted payload is a protocol like any other.
pub fn upper(mut next_header: u8, payload: &[u8]) -> Result<Upper, Malformed> {
    let mut offset = 0;
    let mut fragment = None;
    let mut jumbo_len = None;
    loop {
        let len = match next_header {
            extension::HOP_BY_HOP
            | extension::ROUTING
            | extension::DESTINATION
            | extension::MOBILITY
            | extension::HIP
            | extension::SHIM6 => 8 + 8 * usize::from(second(payload, offset)?),
            extension::FRAGMENT => 8,
            // RFC 4302, 2.2: in words of four bytes, less two.
            extension::AUTHENTICATION => 8 + 4 * usize::from(second(payload, offset)?),
            protocol => {
                return Ok(Upper {
                    protocol,
                    offset,
                    fragment,
                    jumbo_len,
                });
            }
        };
        let Some(header) = payload.get(offset..offset + len) else {
            return Err(Malformed::Truncated);
        };
        if next_header == extension::HOP_BY_HOP && offset == 0 {
            jumbo_len = jumbo(&header[2..]);
        }
        offset += len;
        let is_fragment = next_header == extension::FRAGMENT;
        next_header = header[0];
        if is_fragment {
            let (_, found) = Fragment::parse(header)?;
            fragment = Some(found);
            if found.offset != 0 {
                return Ok(Upper {
                    protocol: next_header,
                    offset,
                    fragment,
                    jumbo_len,
                });
            }
        }
    }
}

/// The length that a jumbo payload option among these names.
fn jumbo(mut options: &[u8]) -> Option<u32> {
    loop {
        match options {
            [PAD1, rest @ ..] => options = rest,
            [JUMBO_PAYLOAD, 4, rest @ ..] if rest.len() >= 4 => return Some(be32(rest, 0)),
            [_, len, rest @ ..] => options = rest.get(usize::from(*len)..)?,
            _ => return None,
        }
    }
}

/// The length field of an extension header.
fn second(payload: &[u8], offset: usize) -> Result<u8, Malformed> {
    payload.get(offset + 1).copied().ok_or(Malformed::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tollgate_checksum::sum_header;

    #[test]
    fn the_fixed_header_is_read() {
        let mut packet = [0; 48];
        packet[0] = 0x60;
        packet[4..8].copy_from_slice(&[0, 8, 17, 64]);
        packet[23] = 1;
        packet[39] = 2;
        let header = Header::parse_front(&packet[..40]).unwrap();
        assert_eq!((header.payload_len, header.next_header), (8, 17));
        assert_eq!(header.source, Ipv6Addr::LOCALHOST);
        assert_eq!(header.destination, Ipv6Addr::from(2));
        assert_eq!(header.hop_limit, 64);
        assert_eq!(Header::parse(&packet), Ok(header));
        assert_eq!(Header::parse(&packet[..47]), Err(Malformed::Truncated));
        assert_eq!(
            Header::parse_front(&packet[..39]),
            Err(Malformed::Truncated)
        );
        packet[0] = 0x45;
        assert_eq!(Header::parse_front(&packet), Err(Malformed::Version));
    }

    #[test]
    fn groups_have_the_addresses_of_the_rfcs() {
        // RFC 4291, 2.7.1.
        let address: Ipv6Addr = "4037::1:800:200e:8c6c".parse().unwrap();
        let group: Ipv6Addr = "ff02::1:ff0e:8c6c".parse().unwrap();
        assert_eq!(solicited_node(address), group);
        assert_eq!(
            multicast_mac(group),
            MacAddr([0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c])
        );
    }

    proptest! {
        #[test]
        fn headers_survive_the_way_out_and_in(
            traffic_class: u8,
            flow_label in 0u32..1 << 20,
            next_header: u8,
            hop_limit: u8,
            addresses: (u128, u128),
            offset: u16,
            more: bool,
            identification: u32,
        ) {
            let header = Header {
                traffic_class,
                flow_label,
                payload_len: 0,
                next_header,
                hop_limit,
                source: addresses.0.into(),
                destination: addresses.1.into(),
            };
            prop_assert_eq!(Header::parse(&header.to_bytes()), Ok(header));
            let fragment = Fragment { offset: offset & 0xfff8, more, identification };
            prop_assert_eq!(Fragment::parse(&fragment.to_bytes(next_header)), Ok((next_header, fragment)));
        }

        /// RFC 8200, 8.1, byte by byte.
        #[test]
        fn pseudo_header_is_that_of_the_rfc(addresses: (u128, u128), protocol: u8, len: u32) {
            let mut bytes = [0; 40];
            bytes[..16].copy_from_slice(&addresses.0.to_be_bytes());
            bytes[16..32].copy_from_slice(&addresses.1.to_be_bytes());
            bytes[32..36].copy_from_slice(&len.to_be_bytes());
            bytes[39] = protocol;
            let sum = pseudo_header(addresses.0.into(), addresses.1.into(), protocol, len);
            prop_assert_eq!(sum, sum_header(&bytes));
        }
    }

    #[test]
    fn extension_headers_are_followed_to_the_protocol() {
        let mut payload = [0; 40];
        // Hop-by-hop of 16 bytes, authentication of 12, then UDP.
        payload[..2].copy_from_slice(&[51, 1]);
        payload[16..18].copy_from_slice(&[17, 1]);
        assert_eq!(
            upper(0, &payload),
            Ok(Upper {
                protocol: 17,
                offset: 28,
                fragment: None,
                jumbo_len: None
            })
        );
        assert_eq!(upper(0, &payload[..20]), Err(Malformed::Truncated));
        assert_eq!(upper(0, &[]), Err(Malformed::Truncated));
    }

    #[test]
    fn a_jumbogram_s_length_is_found_among_the_options() {
        // Padding of one byte and of three, then the option of RFC 2675, 2.
        let mut payload = [17, 1, 0, 1, 1, 0, 0xc2, 4, 0, 1, 2, 3, 0, 0, 0, 0];
        assert_eq!(upper(0, &payload).unwrap().jumbo_len, Some(0x0001_0203));
        payload[6] = 0x05;
        assert_eq!(upper(0, &payload).unwrap().jumbo_len, None);
        // Behind another header it is no hop-by-hop header's.
        let later = [&[0, 0, 1, 4, 0, 0, 0, 0][..], &payload].concat();
        assert_eq!(upper(60, &later).unwrap().jumbo_len, None);
        // Options that end within one.
        payload[5] = 200;
        assert_eq!(upper(0, &payload).unwrap().jumbo_len, None);
    }

    #[test]
    fn a_later_fragment_ends_the_chain() {
        let payload = [60, 0, 0x05, 0xa9, 0, 0, 0, 7, 0xff, 0xff];
        let found = upper(44, &payload).unwrap();
        assert_eq!((found.protocol, found.offset), (60, 8));
        assert_eq!(
            found.fragment,
            Some(Fragment {
                offset: 0x5a8,
                more: true,
                identification: 7
            })
        );
    }
}
