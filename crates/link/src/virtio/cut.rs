//! Large frames in: the headers of the segments that one frame of Linux stands for (segmentation offload towards us, virtio 1.2,
//! 5.1.6.4.1).
//!
//! Linux hands a frame of up to 64 KB over uncut, and says how much payload each of its segments has. Here the headers of each of
//! them are made, as a NIC that segments would: length, identification, sequence number, flags. Payload is none of its business: it
//! lies where the segments will be before this is asked ([`inlet`](super::inlet)).
//!
//! The transport checksum stays that of the large frame. Nobody may look at it: the link vouches for every segment.

use super::header::{Kind, Received};
use super::layout::{self, LONGEST, be16, be32, put16, put32};
use tollgate_checksum::Partial;
use tollgate_wire::tcp::Flags;
use tollgate_wire::{ipv4, ipv6, tcp, udp};

/// Offset of the length in a UDP header (RFC 768).
const UDP_LENGTH: usize = 4;
/// Offsets of the payload length and the next header (RFC 8200, 3).
const IPV6: usize = ipv6::HEADER_LEN;

/// Bytes of the headers of most segments: IPv4, and TCP with timestamps.
const STAMPED: usize = layout::TCP + tcp::HEADER_LEN + tcp::TIMESTAMP_OPTION_LEN;

/// Flags that only the last segment has (as Linux segments, `tcp_gso_segment`).
const LAST: u8 = Flags::FIN.0 | Flags::PSH.0;
/// The flag that only the first segment has (RFC 3168, 6.1.2).
const FIRST: u8 = Flags::CWR.0;

/// Version of IP of a large frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    /// With the sum of its header without length, identification and checksum.
    V4 {
        identification: u16,
        sum: Partial,
    },
    V6,
}

/// Transport of a large frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Tcp { sequence: u32, flags: u8 },
    Udp,
}

/// The segments that a large frame stands for.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    headers: [u8; LONGEST],
    /// Bytes of the headers.
    len: usize,
    /// Offset of the transport header.
    at: usize,
    /// Bytes of payload of each segment but the last.
    segment: usize,
    /// Bytes of payload in all.
    payload: usize,
    network: Network,
    transport: Transport,
}

impl Cut {
    /// The segments of a frame of `total` bytes that begins with `front`; none when it is no frame that can be cut.
    #[inline]
    pub(crate) fn of(front: &[u8], total: usize, said: &Received) -> Option<Self> {
        let segment = usize::from(said.segment);
        let (at, protocol, network) = match front.get(layout::IP)? >> 4 {
            4 => of_ipv4(front)?,
            6 => of_ipv6(front)?,
            _ => return None,
        };
        let (len, transport) = match (said.kind, protocol) {
            (Kind::Tcp, ipv4::protocol::TCP) => {
                let header = front.get(at..)?.first_chunk::<{ tcp::HEADER_LEN }>()?;
                let len = 4 * usize::from(header[12] >> 4);
                let sequence = be32(header, 4);
                let flags = header[13];
                let transport = Transport::Tcp { sequence, flags };
                (Some(len).filter(|&len| len >= tcp::HEADER_LEN)?, transport)
            }
            (Kind::Udp, ipv4::protocol::UDP) => (udp::HEADER_LEN, Transport::Udp),
            _ => return None,
        };
        let len = at + len;
        let payload = total.checked_sub(len).filter(|&payload| payload != 0)?;
        let mut headers = [0; LONGEST];
        headers.get_mut(..len)?.copy_from_slice(front.get(..len)?);
        (segment != 0).then_some(Self {
            headers,
            len,
            at,
            segment,
            payload,
            network,
            transport,
        })
    }

    /// Bytes of the headers of each segment.
    #[inline]
    pub(crate) const fn headers_len(&self) -> usize {
        self.len
    }

    /// Bytes of payload of each segment but the last.
    #[inline]
    pub(crate) const fn segment(&self) -> usize {
        self.segment
    }

    /// Number of segments.
    #[inline]
    pub(crate) const fn count(&self) -> usize {
        self.payload.div_ceil(self.segment)
    }

    /// Tells whether an acknowledgment of the last segment stands for all: they are of a stream.
    #[inline]
    pub(crate) const fn is_stream(&self) -> bool {
        matches!(self.transport, Transport::Tcp { .. })
    }

    /// Bytes of payload of a segment.
    #[inline]
    pub(crate) fn payload_of(&self, number: usize) -> usize {
        (self.payload - number * self.segment).min(self.segment)
    }

    /// Writes the headers of a segment, which are as long as `to`.
    #[inline]
    pub(crate) fn write(&self, number: usize, to: &mut [u8]) {
        debug_assert_eq!(to.len(), self.len);
        match (to.first_chunk_mut::<STAMPED>(), self.headers.first_chunk()) {
            // Bytes whose number the compiler knows are copied without a call.
            (Some(to), Some(from)) if self.len == STAMPED => *to = *from,
            _ => to.copy_from_slice(&self.headers[..self.len]),
        }
        let payload = self.payload_of(number);
        match self.network {
            Network::V4 {
                identification,
                sum,
            } => {
                let total = (self.len - layout::IP + payload) as u16;
                // As Linux segments (inet_gso_segment).
                let own = identification.wrapping_add(number as u16);
                let sum = sum + Partial::from_be_word(total) + Partial::from_be_word(own);
                put16(to, layout::TOTAL_LENGTH, total);
                put16(to, layout::IDENTIFICATION, own);
                to[layout::IP_CHECKSUM..][..2].copy_from_slice(&sum.finish().to_ne_bytes());
            }
            Network::V6 => {
                let behind = (self.len - layout::IP - IPV6 + payload) as u16;
                put16(to, layout::LENGTH_V6, behind);
            }
        }
        match self.transport {
            Transport::Tcp { sequence, flags } => {
                let own = sequence.wrapping_add((number * self.segment) as u32);
                put32(to, self.at + 4, own);
                let mut kept = flags;
                if number + 1 != self.count() {
                    kept &= !LAST;
                }
                if number != 0 {
                    kept &= !FIRST;
                }
                to[self.at + 13] = kept;
            }
            Transport::Udp => put16(to, self.at + UDP_LENGTH, (udp::HEADER_LEN + payload) as u16),
        }
    }
}

/// Offset of the transport header of an IPv4 packet, and which it is; none where it is a fragment.
fn of_ipv4(front: &[u8]) -> Option<(usize, u8, Network)> {
    let header = front.get(..layout::TCP)?;
    let len = 4 * usize::from(header[layout::IP] & 0xf);
    let fragment = be16(header, layout::FRAGMENT) & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK);
    if len < ipv4::HEADER_LEN || fragment != 0 {
        return None;
    }
    let mut rest = [0; 60];
    let rest = &mut rest[..len];
    rest.copy_from_slice(front.get(layout::IP..layout::IP + len)?);
    for at in [
        layout::TOTAL_LENGTH,
        layout::IDENTIFICATION,
        layout::IP_CHECKSUM,
    ] {
        put16(rest, at - layout::IP, 0);
    }
    let network = Network::V4 {
        identification: be16(header, layout::IDENTIFICATION),
        sum: tollgate_checksum::sum_header(rest),
    };
    Some((layout::IP + len, header[layout::PROTOCOL], network))
}

/// Offset of the transport header of an IPv6 packet without extension headers, and which it is.
fn of_ipv6(front: &[u8]) -> Option<(usize, u8, Network)> {
    let at = layout::IP + IPV6;
    let header = front.get(..at)?;
    Some((at, header[layout::NEXT_V6], Network::V6))
}

#[cfg(test)]
pub(crate) mod tests;
