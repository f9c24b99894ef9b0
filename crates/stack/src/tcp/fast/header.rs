//! Header fields of a frame that carries TCP in IPv4 without IP options, or in IPv6 without extension headers, by name.
//!
//! Most hosts send only two layouts: a TCP header without options ([`PLAIN`] bytes with what lies before it), and one with
//! the timestamp option as RFC 7323, appendix A recommends it ([`STAMPED`] bytes). Both have the same fields at the same places
//! up to the options. A frame that is too short for its layout never gets here: it is an array of that size.
//!
//! With IPv6 the TCP header lies [`LEAD`] bytes further behind. Such a frame is read as that many bytes that lead, and an
//! array of the same size as with IPv4. So all fields of TCP have one place.

use crate::buffer::{Frame, RxChecksum, SUMMED_FROM};
use crate::demux::FlowKey;
use crate::destinations::Ends;
use crate::tcp::tcb::Tcb;
use crate::tcp::template::{PLAIN, STAMPED};
use tollgate_checksum::{Accumulator, Kernel, Partial, sum_header};
use tollgate_wire::{SeqNumber, ipv4, ipv6};

/// Bytes of the Ethernet header (IEEE 802.3).
pub(super) const ETHERNET: usize = 14;
/// Bytes by which the headers of IPv6 are longer (RFC 8200, 3).
pub(super) const LEAD: usize = 20;
/// Bytes of an IPv4 header without options (RFC 791, 3.1).
pub(super) const IPV4: usize = 20;
/// Offset of the TCP header.
const TCP: usize = ETHERNET + IPV4;

/// EtherType, then version, header length and service.
const TYPE_AND_VERSION: usize = 12;
/// Total length (RFC 791, 3.1).
const TOTAL_LEN: usize = ETHERNET + 2;
/// Flags and fragment offset, time to live, protocol.
const FRAGMENT_AND_PROTOCOL: usize = ETHERNET + 6;
/// Source address; the destination follows, then both ports: they are summed and compared together.
pub(super) const ADDRESSES: usize = ETHERNET + 12;
const DESTINATION: usize = ETHERNET + 16;
const PORTS: usize = TCP;
const SEQUENCE: usize = TCP + 4;
const ACKNOWLEDGMENT: usize = TCP + 8;
/// Data offset and flags.
const OFFSET_AND_FLAGS: usize = TCP + 12;
const WINDOW: usize = TCP + 14;
const CHECKSUM: usize = TCP + 16;
/// Offset of the options.
pub(super) const OPTIONS: usize = PLAIN;
/// TSval of the timestamp option in its recommended layout: behind two NOPs, kind and length.
const TIMESTAMP: usize = OPTIONS + 4;

/// Data offset of a header without options, as the byte that it stands in.
const PLAIN_OFFSET: u8 = 0x50;
/// NOP, NOP, kind 8, length 10 (RFC 7323, appendix A).
const TIMESTAMP_LAYOUT: u32 = 0x0101_080a;

#[inline(always)]
fn be16<const N: usize>(head: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

#[inline(always)]
fn be32<const N: usize>(head: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

#[inline(always)]
fn ne32<const N: usize>(head: &[u8; N], at: usize) -> u32 {
    // A chunk and not its bytes one by one, so that a mask leaves it one load.
    u32::from_ne_bytes(head[at..].first_chunk().copied().unwrap_or_default())
}

/// Tells whether options follow the TCP header, as its data offset says.
#[inline(always)]
pub(super) fn has_options<const N: usize>(head: &[u8; N]) -> bool {
    head[OFFSET_AND_FLAGS] != PLAIN_OFFSET
}

/// Bytes of the IP packet.
#[inline(always)]
pub(super) fn total_len<const N: usize>(head: &[u8; N]) -> u16 {
    be16(head, TOTAL_LEN)
}

/// The connection's key: addresses and ports as they lie there.
#[inline(always)]
pub(super) fn key<const N: usize>(head: &[u8; N]) -> FlowKey {
    FlowKey {
        remote: ne32(head, ADDRESSES),
        local: ne32(head, DESTINATION),
        ports: ports(head),
    }
}

/// SEG.SEQ.
#[inline(always)]
pub(super) fn sequence<const N: usize>(head: &[u8; N]) -> SeqNumber {
    SeqNumber(be32(head, SEQUENCE))
}

/// SEG.ACK.
#[inline(always)]
pub(super) fn acknowledgment<const N: usize>(head: &[u8; N]) -> SeqNumber {
    SeqNumber(be32(head, ACKNOWLEDGMENT))
}

/// Data offset and flags.
#[inline(always)]
pub(super) fn offset_and_flags<const N: usize>(head: &[u8; N]) -> u16 {
    be16(head, OFFSET_AND_FLAGS)
}

/// Data offset and flags as they lie there.
#[inline(always)]
pub(super) fn offset_and_flags_ne<const N: usize>(head: &[u8; N]) -> u16 {
    let bytes = head[OFFSET_AND_FLAGS..].first_chunk().copied();
    u16::from_ne_bytes(bytes.unwrap_or_default())
}

/// The window field, not scaled.
#[inline(always)]
pub(super) fn window_field<const N: usize>(head: &[u8; N]) -> u16 {
    be16(head, WINDOW)
}

/// SEG.WND, scaled.
#[inline(always)]
pub(super) fn window<const N: usize>(head: &[u8; N], tcb: &Tcb) -> u32 {
    u32::from(window_field(head)).wrapping_shl(u32::from(tcb.snd_shift))
}

/// The checksum field as it lies there.
#[inline(always)]
pub(super) fn checksum<const N: usize>(head: &[u8; N]) -> [u8; 2] {
    [head[CHECKSUM], head[CHECKSUM + 1]]
}

/// Tells whether the options are the timestamp option in its recommended layout, as far as `N` bytes hold options.
#[inline(always)]
pub(super) fn has_timestamp_layout<const N: usize>(head: &[u8; N]) -> bool {
    N == PLAIN || be32(head, OPTIONS) == TIMESTAMP_LAYOUT
}

/// TSval, when the layout has one.
#[inline(always)]
pub(super) fn timestamp<const N: usize>(head: &[u8; N]) -> Option<u32> {
    (N == STAMPED).then(|| be32(head, TIMESTAMP))
}

/// Tells whether a frame that begins so is addressed to us.
#[inline(always)]
fn is_to<const N: usize>(front: &[u8; N], mac_word: u64) -> bool {
    let to = u64::from_ne_bytes([
        front[0], front[1], front[2], front[3], front[4], front[5], front[6], front[7],
    ]);
    to.to_le() << 16 == mac_word
}

/// Tells whether a frame is addressed to us and carries an unfragmented TCP segment behind an IPv4 header without options.
#[inline(always)]
pub(super) fn is_tcp<const N: usize>(head: &[u8; N], mac_word: u64) -> bool {
    const IPV4_WITHOUT_OPTIONS: u32 = u32::from_ne_bytes([0x08, 0x00, 0x45, 0]);
    // Of the service one bit counts: a packet that a router has marked (CE, RFC 3168, 5) is not predicted, nor is one of ECT(1).
    const NOT_THE_SERVICE: u32 = u32::from_ne_bytes([0xff, 0xff, 0xff, 1]);
    const PROTOCOL: u32 = u32::from_ne_bytes([0, 0, 0, ipv4::protocol::TCP]);
    // More fragments, fragment offset, reserved bit apart; protocol.
    const WHOLE_PACKET: u32 = u32::from_ne_bytes([0x3f, 0xff, 0, 0xff]);
    is_to(head, mac_word)
        && ne32(head, TYPE_AND_VERSION) & NOT_THE_SERVICE == IPV4_WITHOUT_OPTIONS
        && ne32(head, FRAGMENT_AND_PROTOCOL) & WHOLE_PACKET == PROTOCOL
}

/// Offset of the payload length behind the frame's beginning (RFC 8200, 3).
const PAYLOAD_LEN: usize = ETHERNET + 4;
/// Behind the leading bytes: the next header, and both addresses, the source's first.
const NEXT_HEADER: usize = ETHERNET + 6 - LEAD;
const ADDRESSES_V6: usize = ETHERNET + 8 - LEAD;

/// Tells whether a frame is addressed to us and carries TCP right behind an IPv6 header.
#[inline(always)]
pub(super) fn is_tcp_v6<const N: usize>(lead: &[u8; LEAD], head: &[u8; N], mac_word: u64) -> bool {
    const IPV6: u32 = u32::from_ne_bytes([0x86, 0xdd, 0x60, 0]);
    // Of the traffic class one bit counts, as with IPv4. The flow label does not.
    const NOT_CLASS_AND_LABEL: u32 = u32::from_ne_bytes([0xff, 0xff, 0xf0, 0x10]);
    is_to(lead, mac_word)
        && ne32(lead, TYPE_AND_VERSION) & NOT_CLASS_AND_LABEL == IPV6
        && head[NEXT_HEADER] == ipv6::protocol::TCP
}

/// Bytes of the IP packet that begin as far before TCP as with IPv4.
#[inline(always)]
pub(super) fn total_len_v6(lead: &[u8; LEAD]) -> u16 {
    be16(lead, PAYLOAD_LEN).wrapping_add(IPV4 as u16)
}

/// Both addresses, the source's first.
#[inline(always)]
pub(super) fn ends_v6<const N: usize>(head: &[u8; N]) -> &Ends {
    const {
        assert!(ADDRESSES_V6 + 32 == TCP && TCP <= N);
    }
    match head[ADDRESSES_V6..].first_chunk() {
        Some(ends) => ends,
        None => &[0; 32],
    }
}

/// Both ports as they lie there.
#[inline(always)]
pub(super) fn ports<const N: usize>(head: &[u8; N]) -> u32 {
    ne32(head, PORTS)
}

/// Tells whether the checksum of the IP header is right.
#[inline(always)]
pub(super) fn ip_header_is_intact<const N: usize>(head: &[u8; N]) -> bool {
    head[ETHERNET..TCP]
        .first_chunk::<IPV4>()
        .is_some_and(|header| Accumulator::of(header).is_valid())
}

/// Tells whether pseudo-header, TCP header with its option, and payload are intact, behind `L` bytes that lead. Addresses and TCP
/// header lie next to each other.
#[inline(always)]
pub(super) fn is_intact<const L: usize, const N: usize>(
    head: &[u8; N],
    total_len: u16,
    payload: Accumulator,
) -> bool {
    const LONG: usize = STAMPED - ADDRESSES;
    const SHORT: usize = PLAIN - ADDRESSES;
    const LONG_V6: usize = STAMPED - ADDRESSES_V6;
    const SHORT_V6: usize = PLAIN - ADDRESSES_V6;
    if L == LEAD {
        is_valid_from::<N, ADDRESSES_V6, LONG_V6, SHORT_V6>(head, total_len, payload)
    } else {
        is_valid_from::<N, ADDRESSES, LONG, SHORT>(head, total_len, payload)
    }
}

/// Tells whether the sum from `AT` on is right, of a header with `LONG` or `SHORT` bytes from there.
#[inline(always)]
fn is_valid_from<const N: usize, const AT: usize, const LONG: usize, const SHORT: usize>(
    head: &[u8; N],
    total_len: u16,
    payload: Accumulator,
) -> bool {
    let length_and_protocol =
        Partial::from_be_word(total_len - IPV4 as u16 + u16::from(ipv4::protocol::TCP));
    let length_and_protocol = Accumulator::from(length_and_protocol);
    match head[AT..].first_chunk::<LONG>() {
        Some(long) => length_and_protocol.with(payload, long).is_valid(),
        None => head[AT..]
            .first_chunk::<SHORT>()
            .is_some_and(|short| length_and_protocol.with(payload, short).is_valid()),
    }
}

/// The sum of a payload that stays where it is, or what the link knows of it.
#[inline(never)]
pub(super) fn sum_in_place(kernel: Kernel, frame: &Frame, bytes: &[u8], payload: &[u8]) -> Partial {
    match frame.checksum {
        // The link's sum ends with the frame; padding, if any, is not the segment's.
        RxChecksum::Complete(sum) if payload.as_ptr_range().end == bytes.as_ptr_range().end => {
            sum.sub(sum_header(&bytes[SUMMED_FROM..bytes.len() - payload.len()]))
        }
        _ => kernel.sum(payload),
    }
}
