//! ARP for IPv4 over Ethernet (RFC 826).

use crate::ethernet::MacAddr;
use crate::{Malformed, be16};
use core::net::Ipv4Addr;

/// Bytes of an ARP packet for IPv4 over Ethernet.
pub const PACKET_LEN: usize = 28;

/// Asks or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Asks for the link address of the target address.
    Request,
    /// The sender has it.
    Reply,
}

/// An ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Asks or answers.
    pub operation: Operation,
    /// The sender's link address.
    pub sender_mac: MacAddr,
    /// The sender's IPv4 address.
    pub sender_ip: Ipv4Addr,
    /// The target's link address (zero in a request).
    pub target_mac: MacAddr,
    /// The target's IPv4 address.
    pub target_ip: Ipv4Addr,
}

impl Packet {
    /// Reads a packet; other hardware or protocol types are [`Malformed::Field`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some((packet, _)) = bytes.split_first_chunk::<PACKET_LEN>() else {
            return Err(Malformed::Truncated);
        };
        // Hardware type Ethernet, protocol type IPv4, address lengths 6 and 4.
        if packet[..6] != [0, 1, 8, 0, 6, 4] {
            return Err(Malformed::Field);
        }
        let mac = |at: usize| {
            let mut bytes = [0; 6];
            bytes.copy_from_slice(&packet[at..at + 6]);
            MacAddr(bytes)
        };
        let ip =
            |at: usize| Ipv4Addr::new(packet[at], packet[at + 1], packet[at + 2], packet[at + 3]);
        Ok(Self {
            operation: match be16(packet, 6) {
                1 => Operation::Request,
                2 => Operation::Reply,
                _ => return Err(Malformed::Field),
            },
            sender_mac: mac(8),
            sender_ip: ip(14),
            target_mac: mac(18),
            target_ip: ip(24),
        })
    }

    /// The packet's bytes.
    pub fn to_bytes(&self) -> [u8; PACKET_LEN] {
        let mut out = [0; PACKET_LEN];
        out[..6].copy_from_slice(&[0, 1, 8, 0, 6, 4]);
        out[7] = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        out[8..14].copy_from_slice(&self.sender_mac.0);
        out[14..18].copy_from_slice(&self.sender_ip.octets());
        out[18..24].copy_from_slice(&self.target_mac.0);
        out[24..28].copy_from_slice(&self.target_ip.octets());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_survives_the_way_out_and_in() {
        let packet = Packet {
            operation: Operation::Reply,
            sender_mac: MacAddr([1, 2, 3, 4, 5, 6]),
            sender_ip: Ipv4Addr::new(10, 0, 0, 1),
            target_mac: MacAddr([7, 8, 9, 10, 11, 12]),
            target_ip: Ipv4Addr::new(10, 0, 0, 2),
        };
        let bytes = packet.to_bytes();
        assert_eq!(Packet::parse(&bytes), Ok(packet));
        assert_eq!(Packet::parse(&bytes[..27]), Err(Malformed::Truncated));
        let mut other = bytes;
        other[7] = 9;
        assert_eq!(Packet::parse(&other), Err(Malformed::Field));
    }
}
