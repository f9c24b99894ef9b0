//! The headers that Linux writes in place of the link's own when it captures on all interfaces: "cooked", version 1 and 2
//! (the link types 113 and 276 of the tcpdump group).

use crate::{Malformed, be16};

/// Bytes of version 1: packet type, hardware type, address length, address, protocol.
pub const V1_LEN: usize = 16;
/// Bytes of version 2: protocol, reserved, interface, hardware type, packet type, address length, address.
pub const V2_LEN: usize = 20;

/// The Ethernet type in a header of version 1.
pub fn v1_protocol(packet: &[u8]) -> Result<u16, Malformed> {
    if packet.len() < V1_LEN {
        return Err(Malformed::Truncated);
    }
    Ok(be16(packet, 14))
}

/// The Ethernet type in a header of version 2.
pub fn v2_protocol(packet: &[u8]) -> Result<u16, Malformed> {
    if packet.len() < V2_LEN {
        return Err(Malformed::Truncated);
    }
    Ok(be16(packet, 0))
}

/// A header of version 2, to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct V2<'a> {
    /// The Ethernet type.
    pub protocol: u16,
    /// The interface's index.
    pub interface: u32,
    /// Kind of that interface (ARPHRD_ of linux/if_arp.h).
    pub hardware: u16,
    /// For whom the packet is (PACKET_ of linux/if_packet.h).
    pub kind: u8,
    /// The sender's address; of more than 8 bytes, the first 8 are written.
    pub sender: &'a [u8],
}

impl V2<'_> {
    /// The header.
    pub fn emit(&self) -> [u8; V2_LEN] {
        let mut header = [0; V2_LEN];
        header[..2].copy_from_slice(&self.protocol.to_be_bytes());
        header[4..8].copy_from_slice(&self.interface.to_be_bytes());
        header[8..10].copy_from_slice(&self.hardware.to_be_bytes());
        header[10] = self.kind;
        let sender = &self.sender[..self.sender.len().min(8)];
        header[11] = sender.len() as u8;
        header[12..12 + sender.len()].copy_from_slice(sender);
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_stands_where_each_version_has_it() {
        let mut v1 = [0; V1_LEN];
        v1[14] = 8;
        assert_eq!(v1_protocol(&v1), Ok(0x0800));
        assert_eq!(v1_protocol(&v1[..15]), Err(Malformed::Truncated));
        let mut v2 = [0; V2_LEN];
        v2[..2].copy_from_slice(&[0x86, 0xdd]);
        assert_eq!(v2_protocol(&v2), Ok(0x86dd));
        assert_eq!(v2_protocol(&v2[..19]), Err(Malformed::Truncated));
    }
    #[test]
    fn what_is_written_has_its_fields_in_their_places() {
        let header = V2 {
            protocol: 0x86dd,
            interface: 3,
            hardware: 772,
            kind: 4,
            sender: &[1, 2, 3, 4, 5, 6],
        };
        let bytes = header.emit();
        assert_eq!(v2_protocol(&bytes), Ok(0x86dd));
        assert_eq!(
            bytes,
            [
                0x86, 0xdd, 0, 0, 0, 0, 0, 3, 3, 4, 4, 6, 1, 2, 3, 4, 5, 6, 0, 0
            ]
        );
        let long = V2 {
            sender: &[7; 20],
            ..header
        };
        assert_eq!(long.emit()[11..], [8, 7, 7, 7, 7, 7, 7, 7, 7]);
    }
}
