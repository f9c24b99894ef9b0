//! Places of header fields in an Ethernet frame, and how numbers lie there.

use tollgate_wire::{ethernet, ipv4, ipv6, tcp};

/// Offset of the IP header.
pub(crate) const IP: usize = ethernet::HEADER_LEN;
/// Offset of the transport header behind an IPv4 header without options.
pub(crate) const TCP: usize = IP + ipv4::HEADER_LEN;
/// Offset of the transport header behind an IPv6 header without extension headers.
pub(crate) const TCP_V6: usize = IP + ipv6::HEADER_LEN;
/// Bytes of the longest headers: IPv4 and TCP with all options that there is room for.
pub(crate) const LONGEST: usize = IP + 60 + tcp::MAX_HEADER_LEN;

// RFC 791, 3.1.
pub(crate) const ETHER_TYPE: usize = 12;
pub(crate) const TOTAL_LENGTH: usize = IP + 2;
pub(crate) const IDENTIFICATION: usize = IP + 4;
pub(crate) const FRAGMENT: usize = IP + 6;
pub(crate) const PROTOCOL: usize = IP + 9;
pub(crate) const IP_CHECKSUM: usize = IP + 10;
pub(crate) const ADDRESSES: usize = IP + 12;

// RFC 8200, 3.
pub(crate) const LENGTH_V6: usize = IP + 4;
pub(crate) const NEXT_V6: usize = IP + 6;
pub(crate) const ADDRESSES_V6: usize = IP + 8;

/// Version 4, and a header of five words.
pub(crate) const V4_PLAIN: u8 = 0x45;

/// Two bytes at a place.
#[inline(always)]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Four bytes at a place.
#[inline(always)]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Puts two bytes to a place.
#[inline(always)]
pub(crate) fn put16(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

/// Puts four bytes to a place.
#[inline(always)]
pub(crate) fn put32(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
}
