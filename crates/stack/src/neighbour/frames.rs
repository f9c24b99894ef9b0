//! Frames that wait for a neighbour's link address. They are the pool's: whoever takes them out sends or releases them.

use crate::buffer::Frame;
use alloc::collections::VecDeque;

/// At most [`PENDING`](super::PENDING) frames, first in, first out.
#[must_use]
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Frames {
    pub(super) frames: VecDeque<Frame>,
}

impl Frames {
    pub(super) fn one(frame: Frame) -> Self {
        Self {
            frames: [frame].into(),
        }
    }

    /// Appends a frame; the oldest comes out when there are `most`.
    pub(super) fn push(&mut self, frame: Frame, most: usize) -> Option<Frame> {
        let oldest = if self.len() < most { None } else { self.next() };
        self.frames.push_back(frame);
        oldest
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }
}

impl Iterator for Frames {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        self.frames.pop_front()
    }
}
