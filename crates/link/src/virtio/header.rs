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

/// The frame stands for several segments over IPv4 (`VIRTIO_NET_HDR_GSO_TCPV4`).
const TCP_V4: u8 = 1;

/// Header of a train: bytes of its headers and of each segment's payload, and where the checksum begins and lies behind that.
pub(crate) fn segmented(headers: usize, segment: usize, checksum: (usize, usize)) -> [u8; LEN] {
    let mut header = [0; LEN];
    header[0] = NEEDS_CSUM;
    header[1] = TCP_V4;
    let numbers = [headers, segment, checksum.0, checksum.1];
    for (to, number) in header[2..].chunks_exact_mut(2).zip(numbers) {
        to.copy_from_slice(&(number as u16).to_ne_bytes());
    }
    header
}

/// Reads what the kernel vouches for.
pub(crate) const fn checksum(header: &[u8; LEN]) -> RxChecksum {
    if header[0] & (NEEDS_CSUM | DATA_VALID) != 0 {
        RxChecksum::Verified
    } else {
        RxChecksum::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_host_and_verified_ones_are_vouched_for() {
        let flagged = |flags| checksum(&[flags, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(flagged(NEEDS_CSUM), RxChecksum::Verified);
        assert_eq!(flagged(DATA_VALID), RxChecksum::Verified);
        assert_eq!(flagged(0), RxChecksum::Unknown);
        // VIRTIO_NET_HDR_F_RSC_INFO.
        assert_eq!(flagged(4), RxChecksum::Unknown);
    }
}
