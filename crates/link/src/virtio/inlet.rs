//! Reading frames, large ones where their segments will be.
//!
//! Linux hands a frame of up to 64 KB over by one readv(2). It is scattered over frames of the pool: headers and the payload of the
//! first segment into one, the payload of each other segment into one of its own, with room for headers in front. Where the cuts lie
//! is predicted from the last large frame, whose headers and segments most have. So the stack gets ordinary segments, and the
//! kernel's copy is the only one. Bytes behind the predicted places, or at the wrong ones, lie in a buffer of 64 KB, and are copied.
//!
//! Frames for segments are taken from the pool while large frames come: a sixteenth of it at most. They are given back once
//! [`PATIENCE`] reads have brought none.
//!
//! It needs a descriptor that gives one frame for each readv(2), with a virtio-net header in front: it never asks which.

#![allow(unsafe_code)]

use super::cut::Cut;
use super::header::{self, Kind, Received};
use crate::take::PLACED_AT;
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;
use tollgate_stack::buffer::{Frame, FrameId, PAYLOAD_OFFSET, Pool, RxChecksum};
use tollgate_stack::link::BURST;
use tollgate_wire::{ethernet, ipv6};

/// Bytes of the largest frame (RFC 8200, 3: the header is not counted in the length), and one more, by which longer ones are known.
const LARGEST: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN + u16::MAX as usize + 1;
/// Segments behind the first for which frames are ready at most: 64 KiB of payload at an MTU of 1500 bytes are 46.
const MOST: usize = 45;
/// The share of the pool that may be ready for segments.
const SHARE: usize = 16;
/// Reads without a large frame after which none is expected any more.
const PATIENCE: u32 = 64;

/// Outcome of reading once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// Frames have come, more than one where Linux gave a large one.
    Frames,
    /// Nothing has arrived.
    Nothing,
    /// The pool has no frame to spare.
    NoFrame,
    /// The frame was longer than the MTU allows, or no frame that can be cut, and is lost.
    Refused,
    /// The system says so.
    Failed(Errno),
}

/// Burst of frames that was read.
#[derive(Debug)]
pub(crate) struct Burst {
    /// Frames that were read, a large one as one.
    pub(crate) passed: usize,
    /// Those of them that were refused.
    pub(crate) refused: usize,
    /// The reason why it ended.
    pub(crate) end: End,
}

/// Reason why a burst ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Enough have come.
    Enough,
    /// Nothing more has arrived.
    Nothing,
    /// The pool has no frame to spare.
    NoFrame,
    /// The system says so.
    Failed(Errno),
}

/// Frames that the next burst takes at most, after one of `wanted` frames brought `came`. It doubles while that many come, so that an
/// answer which comes alone is not followed by a second system call before the stack has it.
#[inline]
pub(crate) const fn next_burst(wanted: usize, came: usize) -> usize {
    if came < wanted {
        return if came == 0 { 1 } else { came };
    }
    if 2 * wanted < BURST {
        2 * wanted
    } else {
        BURST
    }
}

/// Places of the cuts that are expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Bytes of the headers and of the first segment's payload.
    first: usize,
    /// Bytes of payload of the others.
    other: usize,
    /// Frames for others.
    others: usize,
}

impl Layout {
    /// Bytes that it has places for.
    const fn covered(&self) -> usize {
        self.first + self.others * self.other
    }
}

/// Reads frames into the pool.
#[derive(Debug)]
pub(crate) struct Inlet {
    /// Bytes of a frame that no place was predicted for, at their offsets in it.
    spill: Box<[u8]>,
    /// Frames that are ready for segments; the last ones are used first.
    spare: Vec<FrameId>,
    /// Bytes of headers and payload of the first segment of the last large frame, and of payload of the others.
    last: (usize, usize),
    /// Reads without a large frame until none is expected.
    patience: u32,
    cuts: Cuts,
}

/// Counts so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cuts {
    /// Large frames.
    pub(crate) large: u64,
    /// Frames of which bytes had to be copied.
    pub(crate) moved: u64,
    /// Segments that were lost for want of a frame.
    pub(crate) lost: u64,
}

impl Inlet {
    pub(crate) fn new() -> Self {
        Self {
            spill: vec![0; LARGEST].into(),
            spare: Vec::with_capacity(MOST),
            last: (0, 0),
            patience: 0,
            cuts: Cuts::default(),
        }
    }

    /// Reads at most `wanted` frames of at most `longest` bytes, or large ones, and puts them behind `frames`: no further one once they
    /// are a burst of the stack.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        fd: BorrowedFd<'_>,
        pool: &mut Pool,
        longest: usize,
        wanted: usize,
        frames: &mut Vec<Frame>,
    ) -> Burst {
        let before = frames.len();
        let (mut passed, mut refused) = (0, 0);
        let end = loop {
            if passed == wanted || frames.len() - before >= BURST {
                break End::Enough;
            }
            match self.read(fd, pool, longest, frames) {
                Read::Frames => {}
                Read::Refused => refused += 1,
                Read::Nothing => break End::Nothing,
                Read::NoFrame => break End::NoFrame,
                Read::Failed(error) => break End::Failed(error),
            }
            passed += 1;
        };
        Burst {
            passed,
            refused,
            end,
        }
    }

    /// Reads one frame of at most `longest` bytes, or a large one whose segments have no more, and puts it behind `frames`.
    #[inline]
    pub(crate) fn read(
        &mut self,
        fd: BorrowedFd<'_>,
        pool: &mut Pool,
        longest: usize,
        frames: &mut Vec<Frame>,
    ) -> Read {
        let Some(first) = pool.alloc_for_receive() else {
            return Read::NoFrame;
        };
        let layout = self.expect(pool, longest);
        let mut header = header::COMPLETE;
        let outcome = if layout.others == 0 {
            let place = &mut pool.bytes_mut(first)[PLACED_AT..PLACED_AT + layout.first];
            let mut parts = [
                IoSliceMut::new(&mut header),
                IoSliceMut::new(place),
                IoSliceMut::new(&mut self.spill[layout.first..]),
            ];
            rustix::io::readv(fd, &mut parts)
        } else {
            self.scatter(fd, pool, first, &layout, &mut header)
        };
        let outcome = match outcome {
            Ok(read) => {
                let said = Received::of(&header);
                match read.checked_sub(header::LEN) {
                    // One frame where it belongs.
                    Some(len) if said.kind == Kind::Whole && len <= layout.first => {
                        frames.push(Frame {
                            id: first,
                            offset: PLACED_AT as u16,
                            len: len as u16,
                            checksum: said.checksum,
                        });
                        return Read::Frames;
                    }
                    Some(len) => {
                        self.place_frame(pool, first, &layout, longest, (len, said), frames)
                    }
                    None => Read::Refused,
                }
            }
            Err(Errno::AGAIN) => Read::Nothing,
            Err(error) => Read::Failed(error),
        };
        if outcome != Read::Frames {
            pool.release(first);
        }
        outcome
    }

    /// Counts so far.
    #[inline]
    pub(crate) const fn cuts(&self) -> &Cuts {
        &self.cuts
    }

    /// The places for the frame that is read next.
    #[inline]
    fn expect(&mut self, pool: &mut Pool, longest: usize) -> Layout {
        if self.patience == 0 {
            return Layout {
                first: longest.min(pool.frame_size() - PLACED_AT),
                other: 0,
                others: 0,
            };
        }
        self.patience -= 1;
        if self.patience == 0 {
            for id in self.spare.drain(..) {
                pool.release(id);
            }
        } else {
            let (first, other) = self.last;
            let of_a_frame = (LARGEST - first) / other;
            let most = of_a_frame.min(MOST).min(pool.capacity() / SHARE);
            while self.spare.len() < most
                && let Some(id) = pool.alloc_for_receive()
            {
                self.spare.push(id);
            }
        }
        let (first, other) = self.last;
        Layout {
            first,
            other,
            others: self.spare.len().min((LARGEST - first) / other),
        }
    }

    /// Reads a frame into all the places that are expected.
    fn scatter(
        &mut self,
        fd: BorrowedFd<'_>,
        pool: &mut Pool,
        first: FrameId,
        layout: &Layout,
        header: &mut [u8; header::LEN],
    ) -> Result<usize, Errno> {
        let size = pool.frame_size();
        let region = pool.region_mut();
        let ends = region.len();
        let base = region.as_mut_ptr();
        let place = |id: FrameId, at: usize, len: usize| {
            let start = id.index() * size + at;
            assert!(at + len <= size && start + len <= ends);
            // SAFETY: the bytes are those of a frame in the region (checked above).
            let first = unsafe { base.add(start) };
            // SAFETY: the region is borrowed while the parts live, and no two parts have a byte in common: each frame was allocated by
            // us, is held by nobody else, and is asked for once.
            IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(first, len) })
        };
        let mut parts: [IoSliceMut<'_>; MOST + 3] =
            std::array::from_fn(|_| IoSliceMut::new(&mut []));
        parts[0] = IoSliceMut::new(header);
        parts[1] = place(first, PLACED_AT, layout.first);
        let others = self.spare.iter().rev().take(layout.others);
        for (part, &id) in parts[2..].iter_mut().zip(others) {
            *part = place(id, PAYLOAD_OFFSET, layout.other);
        }
        let count = 2 + layout.others;
        parts[count] = IoSliceMut::new(&mut self.spill[layout.covered()..]);
        rustix::io::readv(fd, &mut parts[..=count])
    }

    /// Makes frames of what was read: a large frame, or one that lies where segments were expected.
    fn place_frame(
        &mut self,
        pool: &mut Pool,
        first: FrameId,
        layout: &Layout,
        longest: usize,
        (total, said): (usize, Received),
        frames: &mut Vec<Frame>,
    ) -> Read {
        if total >= LARGEST {
            return Read::Refused;
        }
        if said.kind == Kind::Whole {
            if total > longest.min(pool.frame_size() - PLACED_AT) {
                return Read::Refused;
            }
            self.gather(pool, first, layout, total);
            pool.bytes_mut(first)[PLACED_AT..][..total].copy_from_slice(&self.spill[..total]);
            self.cuts.moved += 1;
            frames.push(Frame {
                id: first,
                offset: PLACED_AT as u16,
                len: total as u16,
                checksum: said.checksum,
            });
            return Read::Frames;
        }
        let front = &pool.bytes(first)[PLACED_AT..][..layout.first.min(total)];
        let cut = Cut::of(front, total, &said).filter(|cut| {
            let len = cut.headers_len() + cut.segment();
            len <= longest
                && PLACED_AT + len <= pool.frame_size()
                && PAYLOAD_OFFSET + cut.segment() <= pool.frame_size()
                && said.checksum == RxChecksum::Verified
        });
        let Some(cut) = cut else {
            // Where the headers did not fit into the place of the first segment, they will now.
            self.patience = self.patience.min(1);
            return Read::Refused;
        };
        self.cuts.large += 1;
        self.cut(pool, first, layout, total, &cut, frames);
        self.last = (cut.headers_len() + cut.segment(), cut.segment());
        self.patience = PATIENCE;
        Read::Frames
    }

    /// Makes frames of a large one.
    fn cut(
        &mut self,
        pool: &mut Pool,
        first: FrameId,
        layout: &Layout,
        total: usize,
        cut: &Cut,
        frames: &mut Vec<Frame>,
    ) {
        let (headers, segment) = (cut.headers_len(), cut.segment());
        let as_expected =
            layout.first == headers + segment && (layout.others == 0 || layout.other == segment);
        let in_place = if as_expected { layout.others } else { 0 };
        if !as_expected {
            self.gather(pool, first, layout, total);
            let len = headers + cut.payload_of(0);
            pool.bytes_mut(first)[PLACED_AT..][..len].copy_from_slice(&self.spill[..len]);
            self.cuts.moved += 1;
        }
        let count = cut.count();
        let followed = if cut.is_stream() {
            RxChecksum::VerifiedInTrain
        } else {
            RxChecksum::Verified
        };
        for number in 0..count {
            let payload = cut.payload_of(number);
            let (id, offset) = if number == 0 {
                (first, PLACED_AT)
            } else {
                let id = if number <= in_place {
                    self.spare.pop()
                } else {
                    let id = self.spare.pop().or_else(|| pool.alloc_for_receive());
                    if let Some(id) = id {
                        let from = &self.spill[headers + number * segment..][..payload];
                        pool.bytes_mut(id)[PAYLOAD_OFFSET..][..payload].copy_from_slice(from);
                        self.cuts.moved += 1;
                    }
                    id
                };
                let Some(id) = id else {
                    self.cuts.lost += (count - number) as u64;
                    if let Some(last) = frames.last_mut() {
                        last.checksum = RxChecksum::Verified;
                    }
                    return;
                };
                (id, PAYLOAD_OFFSET - headers)
            };
            cut.write(number, &mut pool.bytes_mut(id)[offset..offset + headers]);
            frames.push(Frame {
                id,
                offset: offset as u16,
                len: (headers + payload) as u16,
                checksum: if number + 1 == count {
                    RxChecksum::Verified
                } else {
                    followed
                },
            });
        }
    }

    /// Copies the bytes of a frame that lie in places to their offsets in the spill, which has all of it then.
    #[cold]
    fn gather(&mut self, pool: &Pool, first: FrameId, layout: &Layout, total: usize) {
        let len = layout.first.min(total);
        self.spill[..len].copy_from_slice(&pool.bytes(first)[PLACED_AT..][..len]);
        let mut at = len;
        for &id in self.spare.iter().rev().take(layout.others) {
            let len = layout.other.min(total - at);
            self.spill[at..at + len].copy_from_slice(&pool.bytes(id)[PAYLOAD_OFFSET..][..len]);
            at += len;
        }
    }
}

#[cfg(test)]
mod tests;
