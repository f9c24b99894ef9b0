//! TCP checksums that Linux completes: the field holds the sum of the pseudo-header alone, and the virtio-net header says where it is
//! (virtio 1.2, 5.1.6.2.1, "Packet Transmission").
//!
//! Linux completes it where the frame leaves the host, and a socket of the host takes it as it is. Whatever the field held before is
//! written over.

use super::header;
use super::layout::{
    ADDRESSES, ADDRESSES_V6, ETHER_TYPE, FRAGMENT, IP, NEXT_V6, PROTOCOL, TCP, TCP_V6, V4_PLAIN,
    be16,
};
use tollgate_checksum::{Partial, sum_header};
use tollgate_wire::ethernet::EtherType;
use tollgate_wire::{ipv4, ipv6, tcp};

/// Offset of the checksum in the header of TCP (RFC 9293, 3.1).
const CHECKSUM: usize = 16;

/// Leaves the checksum of a frame with a TCP segment to Linux; gives the header that says so. Others stay as they are: their checksums are
/// complete.
#[inline]
pub(crate) fn leave(frame: &mut [u8]) -> [u8; header::LEN] {
    match tcp_at(frame) {
        Some(at) if frame.len() >= at + tcp::HEADER_LEN => {
            let len = frame.len() - at;
            put_pseudo_header(frame, at, len);
            header::unfinished(at, CHECKSUM)
        }
        _ => header::COMPLETE,
    }
}

/// Offset of the TCP header: none in fragments, and behind options or extension headers.
#[inline(always)]
pub(super) fn tcp_at(frame: &[u8]) -> Option<usize> {
    let front = frame.first_chunk::<TCP>()?;
    let ether_type = be16(front, ETHER_TYPE);
    let fragment = be16(front, FRAGMENT) & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK);
    if ether_type == EtherType::Ipv4.to_u16() {
        let tcp = front[IP] == V4_PLAIN && front[PROTOCOL] == ipv4::protocol::TCP && fragment == 0;
        tcp.then_some(TCP)
    } else {
        let tcp = ether_type == EtherType::Ipv6.to_u16() && front[NEXT_V6] == ipv6::protocol::TCP;
        (tcp && frame.len() >= TCP_V6).then_some(TCP_V6)
    }
}

/// Puts the sum of the pseudo-header into the checksum of a TCP segment of `len` bytes whose header begins at `at`, as [`tcp_at`] has
/// found.
#[inline(always)]
pub(super) fn put_pseudo_header(frame: &mut [u8], at: usize, len: usize) {
    let addresses = if at == TCP { ADDRESSES } else { ADDRESSES_V6 };
    let sum = sum_header(&frame[addresses..at])
        + Partial::from_be_word(ipv4::protocol::TCP.into())
        + Partial::from_be_word(len as u16);
    frame[at + CHECKSUM..][..2].copy_from_slice(&sum.fold().to_ne_bytes());
}

#[cfg(test)]
mod tests;
