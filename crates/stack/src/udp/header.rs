//! Header fields of a frame that carries UDP right behind an IPv4 header without options, or an IPv6 header without extension
//! headers, by name.
//!
//! With IPv6 the UDP header lies [`LEAD`] bytes further behind. Such a frame is read as that many bytes that lead, and an array of
//! [`HEADERS`] bytes as with IPv4. So the fields of UDP have one place.

use tollgate_checksum::Accumulator;
use tollgate_wire::{ethernet, ipv4, ipv6, udp};

/// Bytes of all headers over IPv4, or behind the leading bytes.
pub(super) const HEADERS: usize = UDP + udp::HEADER_LEN;
/// Bytes by which the headers of IPv6 are longer (RFC 8200, 3).
pub(super) const LEAD: usize = ipv6::HEADER_LEN - ipv4::HEADER_LEN;
/// Bytes of all headers over IPv6.
pub(super) const HEADERS_V6: usize = LEAD + HEADERS;

const IP: usize = ethernet::HEADER_LEN;
/// Offset of the UDP header.
const UDP: usize = IP + ipv4::HEADER_LEN;
/// EtherType, then version and header length.
const TYPE_AND_VERSION: usize = 12;
/// Flags and fragment offset, time to live, protocol.
const FRAGMENT_AND_PROTOCOL: usize = IP + 6;
/// Source address; the destination follows, then the UDP header: they are summed together.
const ADDRESSES: usize = IP + 12;
/// Behind the leading bytes: the next header, and both addresses.
const NEXT_HEADER: usize = IP + 6 - LEAD;
const ADDRESSES_V6: usize = IP + 8 - LEAD;
const CHECKSUM: usize = UDP + 6;

/// Headers, behind the bytes that lead.
pub(super) type Head = [u8; HEADERS];
/// Addresses and UDP header, as they are summed.
type Summed = [u8; HEADERS - ADDRESSES];
type SummedV6 = [u8; HEADERS - ADDRESSES_V6];

/// A source and a destination address as they lie in a packet: those of IPv4 in the last eight bytes, behind zeros.
pub(super) type Addresses = [u8; 32];

/// `N` bytes from `at`, which the compiler knows to be there.
#[inline(always)]
fn chunk<const N: usize>(head: &[u8], at: usize) -> [u8; N] {
    head.get(at..)
        .and_then(<[u8]>::first_chunk)
        .copied()
        .unwrap_or([0; N])
}

#[inline(always)]
fn be16(head: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(chunk(head, at))
}

#[inline(always)]
fn ne32(head: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(chunk(head, at))
}

/// Tells whether a frame is addressed to us and carries a whole datagram right behind its IP header: behind that of IPv4, or, where
/// bytes lead, of IPv6.
#[inline(always)]
pub(super) fn is_datagram<const L: usize>(lead: &[u8; L], head: &Head, mac_word: u64) -> bool {
    const IPV4: u32 = u32::from_ne_bytes([0x08, 0x00, 0x45, 0]);
    // Type and version; the service does not count.
    const NOT_THE_SERVICE: u32 = u32::from_ne_bytes([0xff, 0xff, 0xff, 0]);
    const IPV6: u32 = u32::from_ne_bytes([0x86, 0xdd, 0x60, 0]);
    const NOT_CLASS_AND_LABEL: u32 = u32::from_ne_bytes([0xff, 0xff, 0xf0, 0]);
    const PROTOCOL: u32 = u32::from_ne_bytes([0, 0, 0, ipv4::protocol::UDP]);
    // More fragments, fragment offset; protocol.
    const WHOLE_PACKET: u32 = u32::from_ne_bytes([0x3f, 0xff, 0, 0xff]);
    let front: &[u8] = if L == 0 { head } else { lead };
    let to = u64::from_ne_bytes(chunk(front, 0)).to_le() << 16;
    let word = ne32(front, TYPE_AND_VERSION);
    if L == 0 {
        to == mac_word
            && word & NOT_THE_SERVICE == IPV4
            && ne32(head, FRAGMENT_AND_PROTOCOL) & WHOLE_PACKET == PROTOCOL
    } else {
        to == mac_word
            && word & NOT_CLASS_AND_LABEL == IPV6
            && head[NEXT_HEADER] == ipv6::protocol::UDP
    }
}

/// Both addresses.
#[inline(always)]
pub(super) fn addresses<const L: usize>(head: &Head) -> Addresses {
    if L == 0 {
        let mut addresses = [0; 32];
        addresses[24..].copy_from_slice(&chunk::<8>(head, ADDRESSES));
        addresses
    } else {
        chunk(head, ADDRESSES_V6)
    }
}

/// Tells whether a packet has these addresses, which are of its version.
#[inline(always)]
pub(super) fn has_addresses<const L: usize>(head: &Head, addresses: &Addresses) -> bool {
    if L == 0 {
        chunk::<8>(head, ADDRESSES) == chunk::<8>(addresses, 24)
    } else {
        chunk::<32>(head, ADDRESSES_V6) == *addresses
    }
}

/// Bytes behind the IP header, as that says.
#[inline(always)]
pub(super) fn ip_payload_len<const L: usize>(lead: &[u8; L], head: &Head) -> u16 {
    if L == 0 {
        be16(head, IP + 2).wrapping_sub(ipv4::HEADER_LEN as u16)
    } else {
        be16(lead, IP + 4)
    }
}

/// The sender's port.
#[inline(always)]
pub(super) fn source_port(head: &Head) -> u16 {
    be16(head, UDP)
}

/// The receiver's port.
#[inline(always)]
pub(super) fn destination_port(head: &Head) -> u16 {
    be16(head, UDP + 2)
}

/// Bytes of header and payload.
#[inline(always)]
pub(super) fn len(head: &Head) -> u16 {
    be16(head, UDP + 4)
}

/// Tells whether the sender has left the checksum out.
#[inline(always)]
pub(super) fn has_no_checksum(head: &Head) -> bool {
    chunk::<2>(head, CHECKSUM) == [0, 0]
}

/// Tells whether the checksum of the IPv4 header is right.
#[inline(always)]
pub(super) fn ip_header_is_intact(head: &Head) -> bool {
    Accumulator::of(&chunk::<{ ipv4::HEADER_LEN }>(head, IP)).is_valid()
}

/// The sum of pseudo-header and UDP header of a datagram of `len` bytes.
#[inline(always)]
pub(super) fn sum<const L: usize>(head: &Head, len: u16) -> Accumulator {
    let rest = Accumulator::from_be_sum(u64::from(len) + u64::from(ipv4::protocol::UDP));
    if L == 0 {
        let summed: Summed = chunk(head, ADDRESSES);
        rest.then(&summed)
    } else {
        let summed: SummedV6 = chunk(head, ADDRESSES_V6);
        rest.then(&summed)
    }
}
