//! The virtio-net header in front of each frame of a tap device (virtio 1.2, 5.1.6): what it says of checksums.
//!
//! Linux reads and writes its ten bytes in the byte order of the processor, unless told otherwise.

use tollgate_stack::buffer::RxChecksum;

/// Bytes of the header.
pub(super) const LEN: usize = 10;

/// The transport checksum holds the sum of the pseudo-header alone: the frame has not left the host
/// (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
const NEEDS_CSUM: u8 = 1;
/// The transport checksum was verified (`VIRTIO_NET_HDR_F_DATA_VALID`).
const DATA_VALID: u8 = 2;

/// Header of a frame whose checksums are complete.
pub(super) const COMPLETE: [u8; LEN] = [0; LEN];

/// Reads what the kernel vouches for.
pub(super) const fn checksum(header: &[u8; LEN]) -> RxChecksum {
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
