//! The port: what the stack asks of a link.

use crate::buffer::{Frame, LARGEST_FRAME, PAYLOAD_OFFSET, Pool};
use crate::mechanisms::Segmentation;
use alloc::vec::Vec;
use tollgate_wire::ethernet;

/// Frames in a burst, about the most that a link gives at a time.
pub const BURST: usize = 32;

/// Bytes of the largest IP packet that a stack sends and receives: 65,344. It lies behind the headroom of the largest pool
/// frame, and with its Ethernet header a frame's length fits into 16 bits.
pub const MAX_MTU: usize = {
    let in_frame = LARGEST_FRAME - PAYLOAD_OFFSET;
    let in_length = u16::MAX as usize - ethernet::HEADER_LEN;
    if in_frame < in_length {
        in_frame
    } else {
        in_length
    }
};

/// Bytes of the smallest MTU that a link may have (RFC 791, 3.2: every module forwards 68 bytes unfragmented).
pub const MIN_MTU: usize = 68;

/// The way in which a link keeps damaged frames from their receiver. Where one does, checksums above it can be redundant (Kay and
/// Pasquale 1996, VI.A).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Integrity {
    /// None that the stack may rely on.
    #[default]
    Unprotected,
    /// A CRC of each frame, made and verified by the interfaces at both ends, as in Ethernet and FDDI.
    Crc,
    /// Frames do not leave the host's memory, which guards them as it guards the application's data.
    Memory,
}

impl Integrity {
    /// Tells whether damage on the link is noticed.
    pub const fn guards(self) -> bool {
        matches!(self, Self::Crc | Self::Memory)
    }
}

/// Something that moves frames.
///
/// Frames move in bursts, as vectors whose elements change hands; a link whose other end lives in the same thread can
/// swap whole vectors. Links nest: a wrapper (`fault`, `capture`) is a link around a link.
pub trait Link {
    /// Bytes of the largest IP packet, [`MIN_MTU`] to [`MAX_MTU`].
    fn mtu(&self) -> usize;

    /// Protection of frames against damage. A stack is told of it when it is made
    /// ([`Config::integrity`](crate::Config::integrity)).
    fn integrity(&self) -> Integrity {
        Integrity::Unprotected
    }

    /// Sends bursts of segments so from now on. A link that takes every frame alone has nothing to change; one around another link
    /// tells it, or says no for a reason of its own. Whoever makes a stack and its link tells the link what the stack's mechanisms are.
    #[inline(always)]
    fn set_segmentation(&mut self, _segmentation: Segmentation) {}

    /// Completes the checksums of TCP in what is sent from now on, where this is wanted; tells whether it does so. The field may hold anything
    /// then. Segments behind IP options keep what they have. A link whose frames somebody reads or changes on the way has them complete, and
    /// says no. [`Config::for_link`](crate::Config::for_link) asks.
    #[inline(always)]
    fn complete_checksums(&mut self, _wanted: bool) -> bool {
        false
    }

    /// Takes frames from the front of `frames`, as many as it has room for. Those are its own: it gives each back to
    /// the pool when it is sent. What it leaves in `frames` stays the stack's.
    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>);

    /// Appends frames that have arrived to `frames`, about [`BURST`] at most; they are the stack's from then on. Frames that the
    /// link copies into come from [`Pool::alloc_for_receive`].
    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>);

    /// All frames that have arrived, for a link that has them in a vector: whoever asks takes them from there and empties it.
    /// A link that fetches them first says nothing, and is asked by [`Link::receive`].
    #[inline(always)]
    fn arrived(&mut self) -> Option<&mut Vec<Frame>> {
        None
    }
}

impl<L: Link + ?Sized> Link for &mut L {
    #[inline(always)]
    fn mtu(&self) -> usize {
        (**self).mtu()
    }

    #[inline(always)]
    fn integrity(&self) -> Integrity {
        (**self).integrity()
    }

    #[inline(always)]
    fn set_segmentation(&mut self, segmentation: Segmentation) {
        (**self).set_segmentation(segmentation);
    }

    #[inline(always)]
    fn complete_checksums(&mut self, wanted: bool) -> bool {
        (**self).complete_checksums(wanted)
    }

    #[inline(always)]
    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        (**self).transmit(pool, frames);
    }

    #[inline(always)]
    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        (**self).receive(pool, frames);
    }

    #[inline(always)]
    fn arrived(&mut self) -> Option<&mut Vec<Frame>> {
        (**self).arrived()
    }
}
