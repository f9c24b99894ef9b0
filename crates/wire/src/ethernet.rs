//! Ethernet II frames (RFC 894).

use crate::{Malformed, be16};
use core::fmt;

/// Bytes of the header: destination, source, type.
pub const HEADER_LEN: usize = 14;

/// A 48-bit link address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All ones.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Tells whether the group bit is set (broadcast included).
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Tells whether a single station can own this address.
    #[inline]
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self != Self([0; 6])
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Protocol that a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtherType {
    /// IPv4 (0x0800).
    Ipv4,
    /// ARP (0x0806).
    Arp,
    /// IPv6 (0x86dd, RFC 2464).
    Ipv6,
    /// Anything else.
    Other(u16),
}

impl EtherType {
    /// The number on the wire.
    pub const fn to_u16(self) -> u16 {
        match self {
            EtherType::Ipv4 => 0x0800,
            EtherType::Arp => 0x0806,
            EtherType::Ipv6 => 0x86dd,
            EtherType::Other(n) => n,
        }
    }

    /// From the number on the wire.
    pub const fn from_u16(number: u16) -> Self {
        match number {
            0x0800 => EtherType::Ipv4,
            0x0806 => EtherType::Arp,
            0x86dd => EtherType::Ipv6,
            n => EtherType::Other(n),
        }
    }

    /// The payload's bytes, where the field says those instead of a type (IEEE 802.3: up to 1,500).
    pub const fn payload_len(self) -> Option<usize> {
        match self {
            EtherType::Other(n @ ..=1500) => Some(n as usize),
            EtherType::Ipv4 | EtherType::Arp | EtherType::Ipv6 | EtherType::Other(_) => None,
        }
    }
}

/// An Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// To whom.
    pub destination: MacAddr,
    /// From whom.
    pub source: MacAddr,
    /// Protocol of the payload.
    pub ethertype: EtherType,
}

impl Header {
    /// Reads the header at the front of `frame`.
    pub fn parse(frame: &[u8]) -> Result<Self, Malformed> {
        let Some((head, _)) = frame.split_first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::Truncated);
        };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..] = *head;
        Ok(Self {
            destination: MacAddr([d0, d1, d2, d3, d4, d5]),
            source: MacAddr([s0, s1, s2, s3, s4, s5]),
            ethertype: EtherType::from_u16(be16(head, 12)),
        })
    }

    /// The header's bytes.
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..6].copy_from_slice(&self.destination.0);
        out[6..12].copy_from_slice(&self.source.0);
        out[12..].copy_from_slice(&self.ethertype.to_u16().to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_survives_the_way_out_and_in() {
        let header = Header {
            destination: MacAddr([1, 2, 3, 4, 5, 6]),
            source: MacAddr([7, 8, 9, 10, 11, 12]),
            ethertype: EtherType::Arp,
        };
        assert_eq!(Header::parse(&header.to_bytes()), Ok(header));
        assert_eq!(
            Header::parse(&header.to_bytes()[..13]),
            Err(Malformed::Truncated)
        );
    }

    #[test]
    fn small_numbers_are_lengths() {
        assert_eq!(EtherType::from_u16(38).payload_len(), Some(38));
        assert_eq!(EtherType::from_u16(1500).payload_len(), Some(1500));
        assert_eq!(EtherType::from_u16(1501).payload_len(), None);
        assert_eq!(EtherType::Ipv4.payload_len(), None);
    }

    #[test]
    fn address_classes() {
        assert!(MacAddr::BROADCAST.is_multicast());
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_unicast());
        assert!(!MacAddr::default().is_unicast());
    }
}
