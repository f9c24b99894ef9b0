//! IPv6 (RFC 8200): the fixed header and the chain of extension headers behind it.
//!
//! Only what a reader needs: nothing here writes.

use crate::{Malformed, be16, be32};
use core::net::Ipv6Addr;

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;
/// The Ethernet type of IPv6 (RFC 2464).
pub const ETHERTYPE: u16 = 0x86dd;

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
    /// Bytes behind the fixed header, extension headers included; 0 for a jumbogram (RFC 2675) and for what a host
    /// captures before its device cuts it.
    pub payload_len: u16,
    /// Next header: an extension header or the protocol.
    pub next_header: u8,
    /// From whom.
    pub source: Ipv6Addr,
    /// To whom.
    pub destination: Ipv6Addr,
}

impl Header {
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
        Ok(Self {
            payload_len: be16(head, 4),
            next_header: head[6],
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
            let word = be16(header, 2);
            let found = Fragment {
                offset: word & 0xfff8,
                more: word & 1 != 0,
                identification: be32(header, 4),
            };
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
        assert_eq!(
            Header::parse_front(&packet[..39]),
            Err(Malformed::Truncated)
        );
        packet[0] = 0x45;
        assert_eq!(Header::parse_front(&packet), Err(Malformed::Version));
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
