//! The virtio-net header in front of each frame of a tap device (virtio 1.2, 5.1.6): what it says of checksums and of segmentation.
//!
//! Linux reads and writes its ten bytes in the byte order of the processor, unless told otherwise.

use tollgate_stack::buffer::RxChecksum;

/// Bytes of the header.
pub(crate) const LEN: usize = 10;

/// The transport checksum holds the sum of the pseudo-header alone: the frame has not left the host
/// (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
const NEEDS_CSUM: u8 = 1;
/// The transport checksum was verified (`VIRTIO_NET_HDR_F_DATA_VALID`).
const DATA_VALID: u8 = 2;

/// Header of a frame whose checksums are complete.
pub(crate) const COMPLETE: [u8; LEN] = [0; LEN];

/// The frame stands for several segments over IPv4 (`VIRTIO_NET_HDR_GSO_TCPV4`), over IPv6 (`VIRTIO_NET_HDR_GSO_TCPV6`), or for
/// several UDP datagrams over either (`VIRTIO_NET_HDR_GSO_UDP_L4`).
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP_L4: u8 = 5;
/// Its first segment has CWR (`VIRTIO_NET_HDR_GSO_ECN`).
const ECN: u8 = 0x80;

/// Header of a frame whose transport checksum Linux completes: it begins at `from` and lies `field` bytes behind that.
pub(crate) fn unfinished(from: usize, field: usize) -> [u8; LEN] {
    with(0, [0, 0, from, field])
}

/// Header of a train over IPv4 or IPv6: bytes of its headers and of each segment's payload, and where the checksum begins and lies behind
/// that.
pub(crate) fn segmented(
    over_ipv6: bool,
    headers: usize,
    segment: usize,
    (from, field): (usize, usize),
) -> [u8; LEN] {
    let kind = if over_ipv6 { TCP_V6 } else { TCP_V4 };
    with(kind, [headers, segment, from, field])
}

fn with(kind: u8, numbers: [usize; 4]) -> [u8; LEN] {
    let mut header = [0; LEN];
    header[0] = NEEDS_CSUM;
    header[1] = kind;
    for (to, number) in header[2..].chunks_exact_mut(2).zip(numbers) {
        to.copy_from_slice(&(number as u16).to_ne_bytes());
    }
    header
}

/// Segments that a frame stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Itself.
    Whole,
    /// Segments of TCP.
    Tcp,
    /// Datagrams of UDP.
    Udp,
    /// Something that was not offered.
    Unknown,
}

/// Header of a frame that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    /// The kernel vouches for its transport checksum.
    pub(crate) checksum: RxChecksum,
    pub(crate) kind: Kind,
    /// Bytes of payload of each segment, where it stands for several.
    pub(crate) segment: u16,
}

impl Received {
    /// Reads the header.
    #[inline(always)]
    pub(crate) const fn of(header: &[u8; LEN]) -> Self {
        let checksum = if header[0] & (NEEDS_CSUM | DATA_VALID) != 0 {
            RxChecksum::Verified
        } else {
            RxChecksum::Unknown
        };
        let kind = match header[1] & !ECN {
            0 => Kind::Whole,
            TCP_V4 | TCP_V6 => Kind::Tcp,
            UDP_L4 => Kind::Udp,
            _ => Kind::Unknown,
        };
        Self {
            checksum,
            kind,
            segment: u16::from_ne_bytes([header[4], header[5]]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_host_and_verified_ones_are_vouched_for() {
        let flagged = |flags| Received::of(&[flags, 0, 0, 0, 0, 0, 0, 0, 0, 0]).checksum;
        assert_eq!(flagged(NEEDS_CSUM), RxChecksum::Verified);
        assert_eq!(flagged(DATA_VALID), RxChecksum::Verified);
        assert_eq!(flagged(0), RxChecksum::Unknown);
        // VIRTIO_NET_HDR_F_RSC_INFO.
        assert_eq!(flagged(4), RxChecksum::Unknown);
    }

    #[test]
    fn large_frames_say_what_they_stand_for() {
        let typed = |kind| Received::of(&[NEEDS_CSUM, kind, 0, 0, 0, 0, 0, 0, 0, 0]).kind;
        assert_eq!(typed(0), Kind::Whole);
        assert_eq!(typed(TCP_V4), Kind::Tcp);
        assert_eq!(typed(TCP_V6 | ECN), Kind::Tcp);
        assert_eq!(typed(UDP_L4), Kind::Udp);
        // VIRTIO_NET_HDR_GSO_UDP, fragmentation of UDP, was not offered.
        assert_eq!(typed(3), Kind::Unknown);
        for over_ipv6 in [false, true] {
            let sized = Received::of(&segmented(over_ipv6, 66, 1448, (34, 16)));
            assert_eq!((sized.kind, sized.segment), (Kind::Tcp, 1448));
        }
        assert_eq!(Received::of(&unfinished(34, 16)).kind, Kind::Whole);
    }
}
