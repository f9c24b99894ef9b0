//! The headers that Linux writes in place of the link's own when it captures on all interfaces: "cooked", version 1 and 2
//! (the link types 113 and 276 of the tcpdump group).

use crate::{Malformed, be16};

/// Octets of version 1: packet type, hardware type, address length, address, protocol.
pub const V1_LEN: usize = 16;
/// Octets of version 2: protocol, reserved, interface, hardware type, packet type, address length, address.
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
}
