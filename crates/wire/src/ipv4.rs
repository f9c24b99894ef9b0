//! IPv4 (RFC 791).

use crate::{Malformed, be16};
use core::net::Ipv4Addr;
use tollgate_checksum::{Partial, sum_header};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;

/// Protocol numbers that the stack knows (IANA).
pub mod protocol {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
}

/// "Don't fragment" in the flags and offset word.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// "More fragments" in the flags and offset word.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// The offset, in units of 8 bytes, in the flags and offset word.
pub const OFFSET_MASK: u16 = 0x1fff;

/// An IPv4 header, options skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the header, options included (20 to 60).
    pub header_len: u8,
    /// Differentiated services and ECN.
    pub tos: u8,
    /// Bytes of header and payload.
    pub total_len: u16,
    /// Identification for reassembly.
    pub identification: u16,
    /// Flags and fragment offset as on the wire.
    pub flags_and_offset: u16,
    /// Hops left.
    pub ttl: u8,
    /// Protocol that the datagram carries.
    pub protocol: u8,
    /// From whom.
    pub source: Ipv4Addr,
    /// To whom.
    pub destination: Ipv4Addr,
}

impl Header {
    /// Reads the header at the front of `packet` and checks its lengths against the packet's.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        let header = Self::parse_front(packet)?;
        if header.total_len < u16::from(header.header_len) {
            return Err(Malformed::Length);
        }
        if packet.len() < usize::from(header.total_len) {
            return Err(Malformed::Truncated);
        }
        Ok(header)
    }

    /// Reads the header at the front of `packet`, of which only the front may have been captured: the total length is not
    /// held against anything. It is zero in what a host captures before its device cuts it into segments.
    #[inline]
    pub fn parse_front(packet: &[u8]) -> Result<Self, Malformed> {
        let Some((head, _)) = packet.split_first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::Truncated);
        };
        if head[0] >> 4 != 4 {
            return Err(Malformed::Version);
        }
        let header_len = (head[0] & 0xf) * 4;
        if usize::from(header_len) < HEADER_LEN {
            return Err(Malformed::Length);
        }
        Ok(Self {
            header_len,
            tos: head[1],
            total_len: be16(head, 2),
            identification: be16(head, 4),
            flags_and_offset: be16(head, 6),
            ttl: head[8],
            protocol: head[9],
            source: Ipv4Addr::new(head[12], head[13], head[14], head[15]),
            destination: Ipv4Addr::new(head[16], head[17], head[18], head[19]),
        })
    }

    /// Tells whether the header checksum of a packet that [`Header::parse`] accepted is right.
    #[inline]
    pub fn checksum_is_valid(packet: &[u8]) -> bool {
        let header_len = usize::from(packet[0] & 0xf) * 4;
        sum_header(&packet[..header_len]).is_valid()
    }

    /// Offset of the payload in the whole datagram, in bytes.
    pub const fn fragment_offset(&self) -> u16 {
        (self.flags_and_offset & OFFSET_MASK) * 8
    }

    /// Tells whether more fragments follow.
    pub const fn more_fragments(&self) -> bool {
        self.flags_and_offset & MORE_FRAGMENTS != 0
    }

    /// Tells whether the packet is a fragment of a larger datagram.
    pub const fn is_fragment(&self) -> bool {
        self.flags_and_offset & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Bytes of payload.
    pub const fn payload_len(&self) -> usize {
        self.total_len as usize - self.header_len as usize
    }

    /// The bytes of a header without options, checksum filled in. `header_len` is taken as 20.
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0] = 0x45;
        out[1] = self.tos;
        out[2..4].copy_from_slice(&self.total_len.to_be_bytes());
        out[4..6].copy_from_slice(&self.identification.to_be_bytes());
        out[6..8].copy_from_slice(&self.flags_and_offset.to_be_bytes());
        out[8] = self.ttl;
        out[9] = self.protocol;
        out[12..16].copy_from_slice(&self.source.octets());
        out[16..20].copy_from_slice(&self.destination.octets());
        let checksum = sum_header(&out).finish();
        out[10..12].copy_from_slice(&checksum.to_ne_bytes());
        out
    }
}

/// The pseudo header that TCP and UDP sum in front of their own bytes (RFC 9293, 3.1).
#[inline]
pub fn pseudo_header(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, len: u16) -> Partial {
    Partial::from_ne_u32(u32::from_ne_bytes(source.octets()))
        + Partial::from_ne_u32(u32::from_ne_bytes(destination.octets()))
        + Partial::from_be_word(u16::from(protocol))
        + Partial::from_be_word(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        Header {
            header_len: 20,
            tos: 0,
            total_len: 60,
            identification: 0x1c46,
            flags_and_offset: DONT_FRAGMENT,
            ttl: 64,
            protocol: protocol::TCP,
            source: Ipv4Addr::new(172, 16, 10, 99),
            destination: Ipv4Addr::new(172, 16, 10, 12),
        }
    }

    #[test]
    fn header_survives_the_way_out_and_in_with_the_known_checksum() {
        let mut packet = [0u8; 60];
        packet[..20].copy_from_slice(&sample().to_bytes());
        assert_eq!(packet[10..12], [0xb1, 0xe6]);
        assert_eq!(Header::parse(&packet), Ok(sample()));
        assert!(Header::checksum_is_valid(&packet));
        packet[15] ^= 1;
        assert!(!Header::checksum_is_valid(&packet));
    }

    #[test]
    fn lengths_are_checked() {
        let mut packet = [0u8; 60];
        packet[..20].copy_from_slice(&sample().to_bytes());
        assert_eq!(Header::parse(&packet[..59]), Err(Malformed::Truncated));
        assert_eq!(Header::parse(&packet[..19]), Err(Malformed::Truncated));
        packet[0] = 0x44;
        assert_eq!(Header::parse(&packet), Err(Malformed::Length));
        packet[0] = 0x65;
        assert_eq!(Header::parse(&packet), Err(Malformed::Version));
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&19u16.to_be_bytes());
        assert_eq!(Header::parse(&packet), Err(Malformed::Length));
    }

    #[test]
    fn fragment_fields() {
        let mut header = sample();
        assert!(!header.is_fragment());
        header.flags_and_offset = MORE_FRAGMENTS | 3;
        assert!(header.is_fragment() && header.more_fragments());
        assert_eq!(header.fragment_offset(), 24);
    }
}
