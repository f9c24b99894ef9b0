//! LLC encapsulation of routed PDUs (RFC 2684, 5.1): an LLC header, an OUI and an EtherType in front of each packet.
//!
//! A virtual channel has two ends, so nothing else of an Ethernet header is carried.

/// Bytes of the header.
pub const HEADER: usize = 8;

/// LLC of unnumbered information to SNAP, and the OUI that an EtherType follows (RFC 2684, 5.1).
const FRONT: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

/// The header in front of a packet of this EtherType.
#[must_use]
pub const fn header(ether_type: u16) -> [u8; HEADER] {
    let [a, b, c, d, e, f] = FRONT;
    let [high, low] = ether_type.to_be_bytes();
    [a, b, c, d, e, f, high, low]
}

/// EtherType and packet of an encapsulated one; nothing when it is encapsulated in another way, or too short.
#[must_use]
pub fn parse(pdu: &[u8]) -> Option<(u16, &[u8])> {
    let (header, packet) = pdu.split_first_chunk::<HEADER>()?;
    let [front @ .., high, low] = header;
    (*front == FRONT).then_some((u16::from_be_bytes([*high, *low]), packet))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_is_encapsulated_as_in_the_rfc() {
        // RFC 2684, 5.1.
        assert_eq!(header(0x0800), [0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
        let mut pdu = [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3];
        pdu[..HEADER].copy_from_slice(&header(0x0806));
        assert_eq!(parse(&pdu), Some((0x0806, &[1, 2, 3][..])));
        for at in 0..6 {
            let mut other = pdu;
            other[at] ^= 1;
            assert_eq!(parse(&other), None);
        }
        assert_eq!(parse(&pdu[..7]), None);
    }
}
