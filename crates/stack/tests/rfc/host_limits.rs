//! Limits on what strangers can make a host hold, send or do (RFC 1122, RFC 1812, RFC 4987).

use crate::peer::*;
use tollgate_wire::{ipv4, udp};

/// A UDP datagram of the peer to `to_port`, without a checksum.
fn datagram(from_port: u16, to_port: u16, data: &[u8]) -> Vec<u8> {
    let header = udp::Header {
        source_port: from_port,
        destination_port: to_port,
        len: (udp::HEADER_LEN + data.len()) as u16,
        no_checksum: true,
    };
    let octets = [&header.to_bytes(), data].concat();
    ip_packet(ipv4::protocol::UDP, PEER, STACK, &octets)
}

/// RFC 1812, 4.3.2.8: the rate of ICMP errors is limited, and it must not be the same in each period: an attacker could
/// count what others have provoked.
#[test]
fn icmp_errors_are_limited_in_rate() {
    let mut peer = Peer::new();
    let mut sizes = Vec::new();
    for _ in 0..5 {
        let mut errors = 0;
        for _ in 0..200 {
            peer.inject_packet(&datagram(5000, 999, b"x"));
            while peer.next_packet().is_some() {
                errors += 1;
            }
        }
        sizes.push(errors);
        peer.advance(ms(100));
    }
    assert!(
        sizes.iter().all(|&errors| (40..=80).contains(&errors)),
        "{sizes:?}"
    );
    assert!(sizes.iter().any(|&errors| errors != sizes[0]), "{sizes:?}");
    let withheld = peer.stack.counters().icmp_errors_limited;
    assert_eq!(withheld, 1000 - sizes.iter().sum::<u64>());
}
