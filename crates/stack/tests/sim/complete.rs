//! Completion of TCP's checksums, as tap devices and packet sockets do it for a stack that leaves them to the link.

use tollgate_checksum::{Partial, sum_header};
use tollgate_wire::{ethernet, ipv4, ipv6, tcp};

/// Writes the checksum of a segment of TCP over whatever its field holds; others, fragments, and segments behind IP options stay as they
/// are.
pub fn complete(frame: &mut [u8]) {
    const IP: usize = ethernet::HEADER_LEN;
    let (at, addresses) = match frame[12..] {
        [
            8,
            0,
            0x45,
            _,
            _,
            _,
            _,
            _,
            high,
            low,
            _,
            ipv4::protocol::TCP,
            ..,
        ] if high & 0x3f | low == 0 => (IP + ipv4::HEADER_LEN, IP + 12),
        [0x86, 0xdd, _, _, _, _, _, _, ipv6::protocol::TCP, ..] => (IP + ipv6::HEADER_LEN, IP + 8),
        _ => return,
    };
    let (front, segment) = frame.split_at_mut(at);
    if segment.len() < tcp::HEADER_LEN {
        return;
    }
    segment[16..18].fill(0);
    let sum = sum_header(&front[addresses..])
        + Partial::from_be_word(ipv4::protocol::TCP.into())
        + Partial::from_be_word(segment.len() as u16)
        + sum_header(segment);
    segment[16..18].copy_from_slice(&sum.finish().to_ne_bytes());
}
