//! Frames on their way over a link, their sizes, and what the link knows of their checksums.

use super::FrameId;
use tollgate_checksum::Partial;

/// Knowledge about the transport checksum of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RxChecksum {
    /// Nothing: the stack sums the bytes itself.
    #[default]
    Unknown,
    /// The link summed every byte behind the first [`SUMMED_FROM`] while it copied them (a NIC's "checksum complete").
    Complete(Partial),
    /// The link vouches for the transport checksum.
    Verified,
    /// Verified; and the next frame of the burst is the next segment of the same connection, since both were one when they came
    /// (segmentation offload). That one's acknowledgment stands for this one's.
    VerifiedInTrain,
}

impl RxChecksum {
    /// Tells whether the link vouches for the transport checksum.
    #[inline(always)]
    pub const fn is_verified(self) -> bool {
        matches!(self, Self::Verified | Self::VerifiedInTrain)
    }

    /// State of a frame that no other need follow.
    #[must_use]
    pub const fn alone(self) -> Self {
        match self {
            Self::Unknown | Self::Complete(_) | Self::Verified => self,
            Self::VerifiedInTrain => Self::Verified,
        }
    }
}

/// Bytes in front of what [`RxChecksum::Complete`] covers: an Ethernet and an optionless IPv4 header.
pub const SUMMED_FROM: usize = 34;

/// One frame on its way over a link: which bytes of which pool frame.
///
/// A `Frame` stands for one count on its pool frame. Whoever drops one without [`Pool::release`](super::Pool::release) leaks the frame.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// Which frame.
    pub id: FrameId,
    /// The place where the Ethernet header begins.
    pub offset: u16,
    /// Bytes from there.
    pub len: u16,
    /// The receiving link's knowledge about the checksum.
    pub checksum: RxChecksum,
}

impl Frame {
    /// Hands the frame's count over to the copy; the original must not be used any more.
    #[inline(always)]
    pub(crate) fn hand_over(&self) -> Self {
        Self {
            id: self.id,
            offset: self.offset,
            len: self.len,
            checksum: self.checksum,
        }
    }
}

/// Bytes of a frame, each as the power of two that it is. The compiler knows from it that no position in the region is
/// added up beyond the range.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(super) enum FrameSize {
    K2 = 11,
    K4,
    K8,
    K16,
    K32,
    K64,
}

impl FrameSize {
    /// The smallest that holds `bytes`, or the largest.
    pub(super) const fn holding(bytes: usize) -> Self {
        match bytes {
            0..=2_048 => Self::K2,
            2_049..=4_096 => Self::K4,
            4_097..=8_192 => Self::K8,
            8_193..=16_384 => Self::K16,
            16_385..=32_768 => Self::K32,
            _ => Self::K64,
        }
    }
}
