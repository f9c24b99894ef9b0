//! Frames whose checksums and segmentation are offloaded to Linux, by the virtio-net header in front of each (virtio 1.2, 5.1.6).
//!
//! It owns the header, the checksums that Linux completes ([`unfinished`]), the segments that leave behind one header ([`train`]) and those
//! that come behind one ([`inlet`], [`cut`]), for every link that has it. The one system call that it makes is readv(2) of a frame.

mod cut;
pub(crate) mod header;
pub(crate) mod inlet;
mod layout;
pub(crate) mod train;
pub(crate) mod unfinished;
