//! Buffers of applications that lie where a spec says.
//!
//! The place of a buffer in its page, against that of the frames which it is copied to and from, decides what a copy takes: some
//! loads then look like stores that are still under way. An allocator that serves the same calls gives the same places again, so
//! chance has to be asked for. It must never move a buffer, since a session keeps its places for life.

use std::ops::{Deref, DerefMut};

/// Bytes after which places repeat themselves for a processor: loads and stores are told apart by the last 12 bits of their addresses
/// first (Intel, "64 and IA-32 Architectures Optimization Reference Manual", "4-KByte aliasing").
pub const PAGE: usize = 4096;
/// The granularity of places: what allocators align to.
pub const STEP: usize = 16;

/// Bytes that begin a given number of bytes behind where the allocator has put them.
#[derive(Debug)]
pub(crate) struct Placed {
    bytes: Vec<u8>,
    from: usize,
}

impl Placed {
    /// Makes `len` times `value`, `from` bytes further behind than the allocator would have them.
    pub(crate) fn new(value: u8, len: usize, from: usize) -> Self {
        Self {
            bytes: vec![value; from + len],
            from,
        }
    }
}

impl Deref for Placed {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

impl DerefMut for Placed {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_lie_behind_the_allocators_place() {
        let mut placed = Placed::new(7, 3, 2 * STEP);
        assert_eq!(*placed, [7, 7, 7]);
        let start = placed.bytes.as_ptr();
        assert_eq!(placed.as_ptr().addr() - start.addr(), 2 * STEP);
        placed[0] = 0;
        assert_eq!(*placed, [0, 7, 7]);
    }
}
