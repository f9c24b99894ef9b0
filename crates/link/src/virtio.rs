//! Frames whose checksums and segmentation are offloaded to Linux, by the virtio-net header in front of each (virtio 1.2, 5.1.6).
//!
//! It owns the header and the segments that leave behind one header, for every link that has it. It never makes a system call.

pub(crate) mod header;
pub(crate) mod train;
