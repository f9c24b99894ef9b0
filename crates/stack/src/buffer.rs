//! The pool: fixed frames in one region, with headroom for every header.
//!
//! One pool serves one stack, or two stacks in one thread that hand frames to each other. All frames lie in one region,
//! so that the region can be given to a network interface or to another process. A frame is counted, not copied: a
//! segment that waits for its acknowledgment and the link that is sending it hold the same frame. Payload is written at
//! [`PAYLOAD_OFFSET`], so that headers are put in front of it without moving it, and the frame's record carries the
//! partial checksum of the payload.
//!
//! The pool must never allocate after it is made, and never know what the bytes mean.

mod frame;
mod free;
pub mod mbuf;

use crate::memory_area::MemoryArea;
use crate::time::Instant;
use alloc::vec::Vec;
use core::hint::cold_path;
use core::num::NonZeroU64;
use frame::FrameSize;
pub use frame::{Frame, RxChecksum, SUMMED_FROM};
use free::Free;
use tollgate_checksum::{Accumulator, prefetch};
use tollgate_region::Region;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::{Flags, SackBlock};

/// The place where payload begins in a frame that the stack fills: room for the longest link, IP and TCP headers, and a cache
/// line's alignment for the copy.
pub const PAYLOAD_OFFSET: usize = 192;

/// Bytes of the largest frame of a pool.
pub(crate) const LARGEST_FRAME: usize = 1 << FrameSize::K64 as u32;

/// Frames of a pool at most.
const MOST_FRAMES: usize = 1 << 24;

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

/// Which frame of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct FrameId(u32);

impl FrameId {
    /// No frame: the end of a chain.
    pub(crate) const NONE: Self = Self(u32::MAX);

    #[inline(always)]
    pub(crate) const fn is_none(self) -> bool {
        self.0 == u32::MAX
    }

    #[inline(always)]
    pub(crate) const fn is_some(self) -> bool {
        self.0 != u32::MAX
    }

    /// Position of the frame in the pool's region.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The record of a frame: one cache line beside the region.
///
/// A frame can wait in one sender's and in one receiver's chain at the same time (both ends in one thread share the
/// pool), so both views are kept.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Meta {
    pub(crate) refs: u16,
    pub(crate) tx_len: u16,
    pub(crate) tx_next: FrameId,
    /// Sequence number of the first byte.
    pub(crate) tx_seq: SeqNumber,
    /// Sequence number after the last byte, SYN and FIN counted.
    pub(crate) tx_end: SeqNumber,
    pub(crate) tx_sum: Accumulator,
    /// When it was sent, nanoseconds, or nothing once it was sent again (Karn's algorithm). Before it is sent it means nothing.
    pub(crate) sent_once_at: Option<NonZeroU64>,
    pub(crate) tx_flags: Flags,
    pub(crate) transmissions: Transmissions,
    /// While the frame is the last of its queue and waits: fewer bytes than this may be in it after a small write, with
    /// nothing else looked at (see [`crate::tcp::fast::coalesce`]). Otherwise zero.
    pub(crate) tx_limit: u16,
    pub(crate) rx_offset: u16,
    pub(crate) rx_next: FrameId,
    pub(crate) rx_seq: SeqNumber,
    pub(crate) rx_len: u16,
    /// Of the first of a chain of segments out of order: the last one, and how many there are.
    pub(crate) rx_last: FrameId,
    pub(crate) rx_count: u16,
    /// When it was sent last, in units of [`Meta::RESENT_UNIT`], where it was sent more than once.
    pub(crate) resent_at: u32,
}

/// Times that a frame of a send queue was sent, and marks of the scoreboard (RFC 6675, 2; RFC 8985, 5.2). They lie in one byte, so
/// that a frame that is queued has no mark left from the one before, at no cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Transmissions(u8);

impl Transmissions {
    const COUNT: u8 = 0x1f;
    /// The peer has it, as a selective acknowledgment says.
    pub(crate) const SACKED: u8 = 1 << 7;
    /// It is taken for lost.
    pub(crate) const LOST: u8 = 1 << 6;
    /// It was sent again since it was taken for lost, and that is on its way.
    pub(crate) const RESENT: u8 = 1 << 5;

    /// It is queued.
    pub(crate) const NONE: Self = Self(0);
    /// It was sent once.
    pub(crate) const ONE: Self = Self(1);

    /// Tells whether it was never sent.
    #[inline(always)]
    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Times that it was sent, at most 31.
    pub(crate) const fn count(self) -> u8 {
        self.0 & Self::COUNT
    }

    /// It is sent again.
    pub(crate) const fn increment(&mut self) {
        self.0 += (self.0 & Self::COUNT != Self::COUNT) as u8;
    }

    /// Tells whether one of these marks is set.
    pub(crate) const fn is(self, marks: u8) -> bool {
        self.0 & marks != 0
    }

    pub(crate) const fn mark(&mut self, marks: u8) {
        self.0 |= marks & !Self::COUNT;
    }

    pub(crate) const fn unmark(&mut self, marks: u8) {
        self.0 &= !marks | Self::COUNT;
    }
}

const _: () = assert!(size_of::<Meta>() == CACHE_LINE);

impl Meta {
    const FREE: Self = Self {
        refs: 0,
        tx_len: 0,
        tx_next: FrameId::NONE,
        tx_seq: SeqNumber(0),
        tx_end: SeqNumber(0),
        tx_sum: Accumulator::ZERO,
        sent_once_at: None,
        tx_flags: Flags(0),
        transmissions: Transmissions::NONE,
        resent_at: 0,
        tx_limit: 0,
        rx_offset: 0,
        rx_next: FrameId::NONE,
        rx_seq: SeqNumber(0),
        rx_len: 0,
        rx_last: FrameId::NONE,
        rx_count: 0,
    };

    /// Nanoseconds of the unit of `resent_at`, as a power of two: 64 ns. It goes round in 275 s.
    const RESENT_UNIT: u32 = 6;

    /// Nanoseconds to which the time of the last transmission is known.
    pub(crate) const SENT_UNIT_NS: u64 = 1 << Self::RESENT_UNIT;

    /// Notes that it is sent again.
    pub(crate) fn send_again_at(&mut self, now: Instant) {
        self.transmissions.increment();
        self.sent_once_at = None;
        self.resent_at = (now.as_nanos() >> Self::RESENT_UNIT) as u32;
    }

    /// It counts as never sent.
    pub(crate) fn forget_sending(&mut self) {
        self.transmissions = Transmissions::NONE;
        self.sent_once_at = None;
    }

    /// When it was sent last, nanoseconds, at most 275 s ago, to 64 ns. What was sent at one time has one value, whenever it is asked
    /// for: order of sending is told by it.
    pub(crate) fn last_sent_ns(&self, now: Instant) -> u64 {
        let units = match self.sent_once_at {
            Some(at) => at.get() >> Self::RESENT_UNIT,
            None => {
                let now = now.as_nanos() >> Self::RESENT_UNIT;
                let age = (now as u32).wrapping_sub(self.resent_at);
                now.saturating_sub(u64::from(age))
            }
        };
        units << Self::RESENT_UNIT
    }

    /// Sequence numbers that it takes, those of a SYN or FIN included.
    pub(crate) fn sequence_len(&self) -> u32 {
        self.tx_end - self.tx_seq
    }

    /// Payload that it has, as a block of selective acknowledgments.
    pub(crate) fn payload_block(&self) -> SackBlock {
        SackBlock {
            start: self.tx_seq,
            end: self.tx_seq + u32::from(self.tx_len),
        }
    }

    /// Makes it the record of a segment that is queued and sent at once, the last of its queue: `len` bytes from `seq` to
    /// `end`, in which a FIN counts, and their sum.
    #[inline(always)]
    pub(crate) fn send_at_once(
        &mut self,
        (seq, end): (SeqNumber, SeqNumber),
        len: u16,
        sum: Accumulator,
        flags: Flags,
        now: Instant,
    ) {
        // One count is the send queue's, one the link's.
        self.refs = 2;
        self.tx_len = len;
        self.tx_seq = seq;
        self.tx_end = end;
        self.tx_sum = sum;
        self.tx_flags = flags;
        self.tx_next = FrameId::NONE;
        self.transmissions = Transmissions::ONE;
        self.tx_limit = 0;
        self.sent_once_at = NonZeroU64::new(now.as_nanos());
    }
}

/// A buffer that the application holds: payload received without a copy, or payload to be sent without one.
///
/// It stands for one count on its frame: give it to a send call or back with [`Pool::free`].
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub struct Buffer {
    pub(crate) id: FrameId,
    pub(crate) offset: u16,
    pub(crate) len: u16,
}

impl Buffer {
    /// Bytes in the buffer.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Tells whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// A frame that was just taken for a segment ([`Pool::take`]).
pub(crate) struct Taken<'a, const N: usize> {
    pub(crate) id: FrameId,
    pub(crate) meta: &'a mut Meta,
    /// The bytes in front of the payload: where the headers go.
    pub(crate) head: &'a mut [u8; N],
    pub(crate) payload: &'a mut [u8],
}

/// The pool.
#[derive(Debug)]
pub struct Pool {
    region: Region,
    meta: Vec<Meta>,
    free: Free,
    reserve: usize,
    /// A quarter of the frames.
    crowded: usize,
    frame_size: FrameSize,
}

impl Pool {
    /// Makes a pool of `frames` frames (at most 2^24), each of `frame_size` bytes, rounded up to a power of two between
    /// 2 KiB and 64 KiB.
    pub fn new(frames: usize, frame_size: usize) -> Self {
        let frames = frames.clamp(1, MOST_FRAMES);
        let frame_size = FrameSize::holding(frame_size);
        Self::of(
            Region::zeroed(frames << frame_size as u32),
            frames,
            frame_size,
        )
    }

    /// Makes a pool of as many frames as a region has room for (at most 2^24), each of `frame_size` bytes, rounded as by
    /// [`Pool::new`]. A link that shares the region with a device keeps a count of each frame that the device may write to.
    pub fn in_region(region: Region, frame_size: usize) -> Self {
        let frame_size = FrameSize::holding(frame_size);
        let frames = (region.len() >> frame_size as u32).min(MOST_FRAMES);
        Self::of(region, frames, frame_size)
    }

    fn of(region: Region, frames: usize, frame_size: FrameSize) -> Self {
        let mut meta = alloc::vec![Meta::FREE; frames];
        let mut free = Free::NONE;
        for (index, meta) in meta.iter_mut().enumerate().rev() {
            free.add(FrameId(index as u32), meta);
        }
        Self {
            region,
            meta,
            free,
            reserve: (frames / 8).max(4).min(frames / 2),
            crowded: frames / 4,
            frame_size,
        }
    }

    /// The place where the pool's memory begins: frame `id` lies `id.index()` times [`Pool::frame_size`] behind it. Never read it through this.
    pub fn start_of_region(&mut self) -> *mut u8 {
        self.region.as_mut_ptr()
    }

    /// Bytes of the pool's memory.
    pub(crate) const fn region_len(&self) -> usize {
        self.meta.len() << self.frame_size as u32
    }

    /// Memory of what is known of each frame.
    pub(crate) const fn records(&self) -> MemoryArea {
        MemoryArea::reserved(&self.meta)
    }

    /// Bytes of a frame that serves IP packets of `mtu` bytes, [`MAX_MTU`](crate::MAX_MTU) at most. With smaller frames
    /// than its MTU needs a stack sends, and asks its peers for, smaller segments.
    pub const fn frame_size_for(mtu: usize) -> usize {
        // Link header and payload offset are the only bytes that are not the IP packet's.
        (PAYLOAD_OFFSET + mtu).next_power_of_two()
    }

    /// Bytes of the largest IP packet that a frame holds behind its headroom, `mtu` at most.
    pub(crate) const fn bound_mtu(&self, mtu: u16) -> u16 {
        let room = self.payload_room();
        if room < mtu as usize {
            room as u16
        } else {
            mtu
        }
    }

    /// The place where a frame begins in the region.
    #[inline(always)]
    const fn start(&self, id: FrameId) -> usize {
        id.index() << self.frame_size as u32
    }

    /// Bytes of each frame.
    #[inline(always)]
    pub const fn frame_size(&self) -> usize {
        1 << self.frame_size as u32
    }

    /// Frames in all.
    pub fn capacity(&self) -> usize {
        self.meta.len()
    }

    /// Frames that nobody holds.
    #[inline(always)]
    pub const fn available(&self) -> usize {
        self.free.count
    }

    /// Takes a frame, counted once, or nothing when the pool is empty.
    #[inline(always)]
    pub fn alloc(&mut self) -> Option<FrameId> {
        if self.free.others.is_none() {
            cold_path();
            self.free.gather(&mut self.meta);
        }
        let id = self.free.others;
        // The end of the list is an id that no frame has.
        let meta = self.meta.get_mut(id.index())?;
        self.free.others = meta.tx_next;
        meta.refs = 1;
        self.free.count -= 1;
        Some(id)
    }

    /// Takes a frame for what arrives, counted once, unless the pool [is scarce](Pool::is_scarce). A link that gets none lets
    /// what has arrived wait where it is, or loses it, and counts that.
    #[inline(always)]
    pub fn alloc_for_receive(&mut self) -> Option<FrameId> {
        if self.is_scarce() {
            cold_path();
            return None;
        }
        self.alloc()
    }

    /// Tells whether no more than half of the reserve is left, without which nothing that was received could be acknowledged. No
    /// link takes frames then, be it for what arrives or to hold what it delays.
    #[inline(always)]
    pub const fn is_scarce(&self) -> bool {
        self.free.count <= self.reserve / 2
    }

    /// Tells whether only the reserve is left.
    #[inline(always)]
    pub(crate) const fn is_low(&self) -> bool {
        self.free.count <= self.reserve
    }

    /// Tells whether less than a quarter of the frames is free.
    #[inline(always)]
    pub(crate) const fn is_crowded(&self) -> bool {
        self.free.count < self.crowded
    }

    /// Bytes of payload that the free frames beside the reserve hold.
    pub(crate) const fn free_payload(&self) -> usize {
        self.free.count.saturating_sub(self.reserve) * self.payload_room()
    }

    /// Tells whether a quarter of the reserve is used, `passing` frames apart that a link has taken for what has just arrived. The
    /// rest is for what links take in and for acknowledgments: nothing that waits for an application may hold it.
    pub(crate) const fn is_short(&self, passing: usize) -> bool {
        self.free.count + passing <= self.reserve - self.reserve / 4
    }

    /// Tells whether `len` bytes fit behind the received payload of a frame that nobody else holds.
    #[inline(always)]
    pub(crate) fn has_room_behind_received(&self, id: FrameId, len: u16) -> bool {
        let meta = self.meta(id);
        let end = usize::from(meta.rx_offset) + usize::from(meta.rx_len);
        // The largest frames hold one byte more than `rx_len` counts.
        let room = self.frame_size().min(usize::from(u16::MAX));
        meta.refs == 1 && end + usize::from(len) <= room
    }

    /// Copies `len` bytes at `from.1` of a frame behind the received payload of frame `to`, if there is room and nobody
    /// else holds that; says whether it was so.
    #[inline(always)]
    pub(crate) fn append_received(&mut self, to: FrameId, from: (FrameId, u16), len: u16) -> bool {
        if !self.has_room_behind_received(to, len) {
            return false;
        }
        let meta = self.meta_mut(to);
        let end = usize::from(meta.rx_offset) + usize::from(meta.rx_len);
        meta.rx_len += len;
        self.copy_within(from.0, usize::from(from.1), to, end, usize::from(len));
        true
    }

    /// Takes a frame for a segment of `len` bytes of payload and puts it behind `tail`, unless that is
    /// [`FrameId::NONE`]. Its count is yet to be set.
    #[inline(always)]
    pub(crate) fn take<const N: usize>(
        &mut self,
        tail: FrameId,
        len: usize,
    ) -> Option<Taken<'_, N>> {
        let id = self.free.others;
        if !self.has_room(id, len) {
            cold_path();
            let id = self.choose_after_all(len)?;
            return self.taken(id, tail, len);
        }
        self.free.others = self.meta.get(id.index())?.tx_next;
        self.free.count -= 1;
        self.taken(id, tail, len)
    }

    /// The slow path of [`Pool::take`], when nothing is where it looks first.
    #[cold]
    #[inline(never)]
    fn choose_after_all(&mut self, len: usize) -> Option<FrameId> {
        self.free.gather(&mut self.meta);
        let id = self.free.others;
        if !self.has_room(id, len) {
            return None;
        }
        self.free.others = self.meta.get(id.index())?.tx_next;
        self.free.count -= 1;
        self.free.replenish(&self.meta);
        Some(id)
    }

    /// Like [`Pool::take`], of a frame that was asked for ahead. It leaves the frames of the reserve: those without which
    /// nothing could be received or acknowledged any more, and so none of the sender's frames would ever come back.
    #[inline(always)]
    pub(crate) fn take_for_sending<const N: usize>(
        &mut self,
        tail: FrameId,
        len: usize,
    ) -> Option<Taken<'_, N>> {
        if self.is_low() {
            return None;
        }
        let id = self.free.chosen[0];
        if !self.has_room(id, len) {
            cold_path();
            let id = self.choose_after_all(len)?;
            return self.taken(id, tail, len);
        }
        let next = self.free.choose(&self.meta);
        self.ask_for(next);
        self.taken(id, tail, len)
    }

    /// Asks for the lines of a frame's headers and of the first bytes of its payload.
    #[inline(always)]
    fn ask_for(&self, id: FrameId) {
        let first = self
            .region
            .as_ptr()
            .wrapping_add(self.start(id) + PAYLOAD_OFFSET - CACHE_LINE - 2);
        for line in 0..3 {
            prefetch(first.wrapping_add(line * CACHE_LINE));
        }
    }

    /// Tells whether frame `id` is one of the pool's and there are `len` bytes behind its headers.
    #[inline(always)]
    const fn has_room(&self, id: FrameId, len: usize) -> bool {
        // An id that no frame has stands for bytes that the region has not.
        self.start(id) + PAYLOAD_OFFSET + len <= self.region.len()
    }

    /// Frame `id`, of which [`Pool::has_room`] says yes, behind `tail`.
    #[inline(always)]
    fn taken<const N: usize>(
        &mut self,
        id: FrameId,
        tail: FrameId,
        len: usize,
    ) -> Option<Taken<'_, N>> {
        const { assert!(N <= PAYLOAD_OFFSET) };
        let end = self.start(id) + PAYLOAD_OFFSET;
        let bytes = self.region.get_mut(end - N..end + len)?;
        let (head, payload) = bytes.split_first_chunk_mut()?;
        if tail.is_some()
            && let Some(tail) = self.meta.get_mut(tail.index())
        {
            tail.tx_next = id;
        }
        Some(Taken {
            id,
            meta: &mut self.meta[id.index()],
            head,
            payload,
        })
    }

    /// Counts one more holder.
    #[inline(always)]
    pub fn retain(&mut self, id: FrameId) {
        self.meta[id.index()].refs += 1;
    }

    /// Counts one holder less and takes the frame back when it was the last.
    #[inline(always)]
    pub fn release(&mut self, id: FrameId) {
        let meta = &mut self.meta[id.index()];
        debug_assert!(
            meta.refs > 0,
            "a frame is released once more than it was held"
        );
        meta.refs = meta.refs.wrapping_sub(1);
        if meta.refs == 0 {
            self.free.add(id, meta);
        }
    }

    /// Tells whether somebody else holds the frame as well.
    #[inline(always)]
    pub fn is_shared(&self, id: FrameId) -> bool {
        self.meta[id.index()].refs > 1
    }

    #[inline(always)]
    pub(crate) fn meta(&self, id: FrameId) -> &Meta {
        &self.meta[id.index()]
    }

    /// The frame's record, or nothing for [`FrameId::NONE`].
    #[inline(always)]
    pub(crate) fn meta_if(&self, id: FrameId) -> Option<&Meta> {
        self.meta.get(id.index())
    }

    /// The received payload of a frame that waits in a queue, and the frame's record; nothing for [`FrameId::NONE`].
    #[inline(always)]
    pub(crate) fn received(&self, id: FrameId) -> Option<(&[u8], &Meta)> {
        let meta = self.meta.get(id.index())?;
        let start = self.start(id) + usize::from(meta.rx_offset);
        let payload = self.region.get(start..start + usize::from(meta.rx_len))?;
        Some((payload, meta))
    }

    /// Like [`Pool::meta_if`], to be written.
    #[inline(always)]
    pub(crate) fn meta_mut_if(&mut self, id: FrameId) -> Option<&mut Meta> {
        self.meta.get_mut(id.index())
    }

    /// The `N` bytes in front of a frame's payload; always there, as long as `N` is at most [`PAYLOAD_OFFSET`].
    #[inline(always)]
    pub(crate) fn front<const N: usize>(&mut self, id: FrameId) -> Option<&mut [u8; N]> {
        const { assert!(N <= PAYLOAD_OFFSET) };
        let end = self.start(id) + PAYLOAD_OFFSET;
        self.region.get_mut(end - N..end)?.first_chunk_mut()
    }

    #[inline(always)]
    pub(crate) fn meta_mut(&mut self, id: FrameId) -> &mut Meta {
        &mut self.meta[id.index()]
    }

    /// Bytes of payload that a frame has room for.
    #[inline(always)]
    pub(crate) const fn payload_room(&self) -> usize {
        self.frame_size() - PAYLOAD_OFFSET
    }

    /// A frame's record and `len` bytes behind its payload.
    #[inline(always)]
    pub(crate) fn behind(&mut self, id: FrameId, len: usize) -> Option<(&mut Meta, &mut [u8])> {
        let start = self.start(id) + PAYLOAD_OFFSET;
        let meta = self.meta.get_mut(id.index())?;
        let start = start + usize::from(meta.tx_len);
        Some((meta, self.region.get_mut(start..start + len)?))
    }

    /// A frame's record, `len` bytes behind its payload, and the payload's length with them, when [`Meta::tx_limit`] allows for them.
    #[inline(always)]
    pub(crate) fn coalesce_room(
        &mut self,
        id: FrameId,
        len: usize,
    ) -> Option<(&mut Meta, &mut [u8], u16)> {
        let start = self.start(id) + PAYLOAD_OFFSET;
        let meta = self.meta.get_mut(id.index())?;
        let before = usize::from(meta.tx_len);
        let filled = before + len;
        if filled >= usize::from(meta.tx_limit) {
            cold_path();
            return None;
        }
        let room = self.region.get_mut(start + before..start + filled)?;
        Some((meta, room, filled as u16))
    }

    /// The bytes of all frames, [`Pool::frame_size`] of each, in the order of [`FrameId::index`].
    pub fn region_mut(&mut self) -> &mut [u8] {
        &mut self.region
    }

    /// All bytes of a frame.
    #[inline(always)]
    pub fn bytes(&self, id: FrameId) -> &[u8] {
        let start = self.start(id);
        &self.region[start..start + (1 << self.frame_size as u32)]
    }

    /// The bytes that `frame` stands for, to be changed.
    #[inline(always)]
    pub fn frame_mut(&mut self, frame: &Frame) -> &mut [u8] {
        let start = self.start(frame.id) + usize::from(frame.offset);
        match self.region.get_mut(start..start + usize::from(frame.len)) {
            Some(bytes) => bytes,
            None => {
                cold_path();
                &mut []
            }
        }
    }

    /// All bytes of a frame, to be written.
    #[inline(always)]
    pub fn bytes_mut(&mut self, id: FrameId) -> &mut [u8] {
        let start = self.start(id);
        &mut self.region[start..start + (1 << self.frame_size as u32)]
    }

    /// Copies the first `len` bytes of payload from one frame to another.
    pub(crate) fn copy_payload(&mut self, from: FrameId, to: FrameId, len: usize) {
        self.copy_within(from, PAYLOAD_OFFSET, to, PAYLOAD_OFFSET, len);
    }

    /// Copies bytes from one place of a frame to a place of another; what would leave a frame is left out.
    pub(crate) fn copy_within(
        &mut self,
        from: FrameId,
        from_at: usize,
        to: FrameId,
        to_at: usize,
        len: usize,
    ) {
        let len = len.min(self.frame_size().saturating_sub(from_at.max(to_at)));
        let start = self.start(from) + from_at;
        let target = self.start(to) + to_at;
        self.region.copy_within(start..start + len, target);
    }

    /// The bytes that `frame` stands for; empty when it points outside its pool frame.
    #[inline(always)]
    pub fn frame(&self, frame: &Frame) -> &[u8] {
        let start = self.start(frame.id) + usize::from(frame.offset);
        match self.region.get(start..start + usize::from(frame.len)) {
            Some(bytes) => bytes,
            None => {
                cold_path();
                &[]
            }
        }
    }

    /// The first `N` bytes that `frame` stands for, which are known to be its own.
    #[inline(always)]
    pub(crate) fn head<const N: usize>(&self, frame: &Frame) -> Option<&[u8; N]> {
        let start = self.start(frame.id) + usize::from(frame.offset);
        self.region.get(start..start + N)?.first_chunk()
    }

    /// Copies `bytes` into a new frame. A link that receives takes its frames by [`Pool::alloc_for_receive`].
    ///
    /// # Errors
    /// [`NoFrame`] when the pool is empty or the bytes do not fit.
    pub fn frame_from(&mut self, bytes: &[u8]) -> Result<Frame, NoFrame> {
        if bytes.len() > self.frame_size() {
            return Err(NoFrame);
        }
        let id = self.alloc().ok_or(NoFrame)?;
        self.bytes_mut(id)[..bytes.len()].copy_from_slice(bytes);
        Ok(Frame {
            id,
            offset: 0,
            len: bytes.len() as u16,
            checksum: RxChecksum::Unknown,
        })
    }

    /// A buffer for `len` bytes of payload that the application fills and sends without a copy.
    ///
    /// # Errors
    /// [`NoFrame`] when the pool is empty or `len` does not fit into one frame.
    pub fn buffer(&mut self, len: usize) -> Result<Buffer, NoFrame> {
        if len > self.frame_size() - PAYLOAD_OFFSET {
            return Err(NoFrame);
        }
        let id = self.alloc().ok_or(NoFrame)?;
        Ok(Buffer {
            id,
            offset: PAYLOAD_OFFSET as u16,
            len: len as u16,
        })
    }

    /// The buffer's bytes.
    pub fn payload(&self, buffer: &Buffer) -> &[u8] {
        let start = self.start(buffer.id) + usize::from(buffer.offset);
        &self.region[start..start + usize::from(buffer.len)]
    }

    /// The buffer's bytes, to be written.
    pub fn payload_mut(&mut self, buffer: &mut Buffer) -> &mut [u8] {
        let start = self.start(buffer.id) + usize::from(buffer.offset);
        &mut self.region[start..start + usize::from(buffer.len)]
    }

    /// Gives a buffer back.
    pub fn free(&mut self, buffer: Buffer) {
        self.release(buffer.id);
    }
}

/// The pool has no frame for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFrame;

impl core::fmt::Display for NoFrame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the buffer pool is empty or its frames are too small; make the pool larger")
    }
}

impl core::error::Error for NoFrame {}

#[cfg(test)]
mod tests;
