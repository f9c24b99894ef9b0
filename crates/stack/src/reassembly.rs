//! Reassembly of IPv4 datagrams (RFC 791, 3.2; RFC 815; RFC 1122, 3.3.2) and of IPv6 packets (RFC 8200, 4.5).
//!
//! Both versions share what is held and its bounds; [`Front`] is what they differ in.
//!
//! Fragments are held as the pool frames in which they came; nothing is copied before the datagram is whole and its
//! owner gathers it. Fragments that overlap are never what an honest sender makes: as in RFC 5722, they drop their whole
//! datagram, and what still comes of it is dropped as well. The same range twice is a duplicate: the first counts.
//!
//! # Bounds
//!
//! So many frames are held, and no more: a number that is configured, and a share of the pool. A datagram is given up
//! 60 s after its first fragment came (RFC 1122: a fixed time of 60 to 120 s; RFC 8200: 60 s). Datagrams of one source address take at
//! most half, and a source that wants more gives up its own. When all is taken, the datagram goes that has waited
//! longest for a fragment.
//!
//! A single source thus drives out others only until it has its half. A flood from made-up sources has to fill all
//! frames between two fragments of a datagram to drive that out. (Linux takes no new datagrams while its memory for
//! fragments is full, so there the flood's stay for half a minute, and nobody else's come in.)
//!
//! This module must never own a pool: each [`Frame`] that it is given comes back in a [`Datagram`], in an [`Expired`] or
//! by way of the `release` of [`Reassembler::push`].

use crate::buffer::{Frame, Pool};
use crate::tcp::ecn::CE;
use crate::time::Instant;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use front::Key;
pub(crate) use front::{Front, FrontV4, FrontV6};

mod front;

/// Time for which fragments wait for the rest of their datagram.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// The codepoint of a sender that does not take marks (RFC 3168, 5).
const NOT_ECT: u8 = 0b00;
/// Bytes of the longest datagram, headers included that its length field counts.
const LONGEST: usize = 65_535;

/// Bounds of what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Datagrams, at least 2. It bounds those that hold no frame, because fragments of them overlapped.
    pub(crate) datagrams: usize,
    /// Frames in all, at least 2.
    pub(crate) frames: usize,
}

/// Frames that the pool can spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Frames in all, at least 2; the limit counts if it is lower.
    pub(crate) frames: usize,
    /// True when more frames may be held than are now.
    pub(crate) may_grow: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            datagrams: 256,
            frames: 256,
        }
    }
}

/// The reason why a fragment was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It carries nothing.
    Empty,
    /// It is not the last and carries no multiple of 8 bytes.
    Misaligned,
    /// Its datagram would be longer than 65,535 bytes.
    TooLong,
    /// Its frame ends before its payload.
    Truncated,
    /// The reassembler holds this range of the datagram already.
    Duplicate,
    /// It overlaps another, or they contradict each other about the end: the whole datagram is dropped.
    Overlap,
    /// It completes a datagram of which one fragment is marked by the network and another says that its sender does not take
    /// marks (RFC 3168, 5.3).
    Marks,
    /// Its datagram was dropped because of an overlap before.
    Discarded,
    /// Its datagram was given up for others, or had more frames than one source may take, or there is no room for any.
    Evicted,
}

/// Outcome of taking in a fragment.
#[must_use]
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It waits for the rest.
    Held,
    /// It was the last one missing.
    Complete(Datagram),
    /// It was dropped, and with it, when the reason says so, its datagram.
    Dropped(
        #[cfg_attr(
            not(test),
            expect(dead_code, reason = "the stack counts frames, whatever the reason")
        )]
        Reason,
    ),
}

/// A part of a datagram's payload, in the frame in which it came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// The frame as it came.
    pub(crate) frame: Frame,
    /// The place where in the frame (counted from its `offset`) the IP payload begins.
    pub(crate) payload_at: u16,
    /// The place where in the datagram's payload this part begins.
    pub(crate) offset: u16,
    /// Bytes of this part.
    pub(crate) len: u16,
}

impl Fragment {
    fn end(&self) -> usize {
        usize::from(self.offset) + usize::from(self.len)
    }
}

/// A whole datagram, of one or more fragments.
#[must_use]
#[derive(Debug)]
pub(crate) struct Datagram {
    front: Front,
    fragments: Vec<Fragment>,
    len: u16,
}

impl Datagram {
    /// The headers of the first fragment, with the whole datagram's length and neither offset nor "more fragments".
    pub(crate) fn front(&self) -> &Front {
        &self.front
    }

    /// Bytes of payload.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// The parts, in order and without gaps; the first one's frame begins with the datagram's own headers.
    pub(crate) fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// Copies payload into `out` and says how many bytes: all, or as many as `out` has room for.
    pub(crate) fn copy_into(&self, pool: &Pool, out: &mut [u8]) -> usize {
        let mut copied = 0;
        for fragment in &self.fragments {
            let start = usize::from(fragment.payload_at);
            let bytes = pool
                .frame(&fragment.frame)
                .get(start..start + usize::from(fragment.len))
                .unwrap_or_default();
            let room = &mut out[copied..];
            let n = bytes.len().min(room.len());
            room[..n].copy_from_slice(&bytes[..n]);
            copied += n;
        }
        copied
    }

    /// The frames, to be released.
    pub(crate) fn into_frames(self) -> impl Iterator<Item = Frame> {
        self.fragments.into_iter().map(|fragment| fragment.frame)
    }
}

/// A datagram whose time is up.
#[must_use]
#[derive(Debug)]
pub(crate) struct Expired {
    front: Option<Front>,
    fragments: Vec<Fragment>,
}

impl Expired {
    /// Headers and frame of the datagram's first fragment, if that came: then its sender is told that the time was
    /// exceeded (RFC 1122, 3.3.2; RFC 8200, 4.5), with the bytes of that frame.
    pub(crate) fn first(&self) -> Option<(&Front, &Fragment)> {
        self.front.as_ref().zip(self.fragments.first())
    }

    /// The frames, to be released.
    pub(crate) fn into_frames(self) -> impl Iterator<Item = Frame> {
        self.fragments.into_iter().map(|fragment| fragment.frame)
    }
}

/// Datagrams and frames of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    datagrams: usize,
    frames: usize,
}

/// A set of codepoints of explicit congestion notification.
#[derive(Clone, Copy, Debug, Default)]
struct Codepoints(u8);

impl Codepoints {
    const fn add(&mut self, codepoint: u8) {
        self.0 |= 1 << codepoint;
    }

    const fn has(self, codepoint: u8) -> bool {
        self.0 & 1 << codepoint != 0
    }
}

/// A datagram of which something is missing.
#[derive(Debug)]
struct Partial {
    deadline: Instant,
    /// Number of the latest fragment, counted over all datagrams.
    latest: u64,
    /// Headers of the first fragment, when it has come.
    front: Option<Front>,
    /// Ordered by offset, without overlaps.
    fragments: Vec<Fragment>,
    /// Bytes of payload held.
    held: usize,
    /// Bytes of payload in all, when the last fragment has come.
    total: Option<usize>,
    /// The codepoints of explicit congestion notification that came.
    codepoints: Codepoints,
    /// Fragments overlapped: nothing is held, and what still comes is dropped.
    discarded: bool,
}

impl Partial {
    fn new(deadline: Instant, latest: u64) -> Self {
        Self {
            deadline,
            latest,
            front: None,
            fragments: Vec::new(),
            held: 0,
            total: None,
            codepoints: Codepoints::default(),
            discarded: false,
        }
    }

    /// The place where a part belongs among the fragments, or why it does not.
    fn place(&self, offset: usize, end: usize, last: bool) -> Result<usize, Reason> {
        let at = self
            .fragments
            .partition_point(|fragment| usize::from(fragment.offset) < offset);
        let behind = self.fragments.get(at);
        if behind.is_some_and(|same| usize::from(same.offset) == offset && same.end() == end)
            && last == (self.total == Some(end))
        {
            return Err(Reason::Duplicate);
        }
        let before_end = at
            .checked_sub(1)
            .map_or(0, |before| self.fragments[before].end());
        let overlaps =
            before_end > offset || behind.is_some_and(|behind| end > usize::from(behind.offset));
        let contradicts = match self.total {
            Some(total) => last || end > total,
            None => {
                last && self
                    .fragments
                    .last()
                    .is_some_and(|highest| highest.end() > end)
            }
        };
        if overlaps || contradicts {
            Err(Reason::Overlap)
        } else {
            Ok(at)
        }
    }

    /// Tells whether nothing is missing. Fragments do not overlap, so counting bytes is enough.
    fn is_complete(&self) -> bool {
        self.total == Some(self.held)
    }

    /// Tells whether nothing will be missing when a part from `offset` to `end` has been put into its place.
    fn completes(&self, offset: usize, end: usize, last: bool) -> bool {
        let total = if last { Some(end) } else { self.total };
        total == Some(self.held + end - offset)
    }
}

/// The fragments that wait.
#[derive(Debug)]
pub(crate) struct Reassembler {
    limits: Limits,
    partials: BTreeMap<Key, Partial>,
    /// The datagrams by their deadlines.
    by_deadline: BTreeSet<(Instant, Key)>,
    /// The datagrams by their latest fragments.
    by_latest: BTreeSet<(u64, Key)>,
    shares: BTreeMap<IpAddr, Share>,
    /// Frames in all datagrams.
    frames: usize,
    /// Fragments that were counted.
    count: u64,
}

impl Reassembler {
    /// Makes a reassembler that holds nothing yet.
    pub(crate) fn new(limits: Limits) -> Self {
        let limits = Limits {
            datagrams: limits.datagrams.max(2),
            frames: limits.frames.max(2),
        };
        Self {
            limits,
            partials: BTreeMap::new(),
            by_deadline: BTreeSet::new(),
            by_latest: BTreeSet::new(),
            shares: BTreeMap::new(),
            frames: 0,
            count: 0,
        }
    }

    /// Takes the packet in `frame`, whose headers are `front` and whose part of the datagram begins `payload_at` bytes behind
    /// the frame's `offset`. Frames that are not needed any more go to `release`: this one, or those of datagrams that
    /// are dropped or have to make room, which is what `room` says. A packet that is no fragment is a whole datagram.
    pub(crate) fn push(
        &mut self,
        front: &Front,
        (frame, payload_at): (Frame, u16),
        room: Room,
        now: Instant,
        release: &mut dyn FnMut(Frame),
    ) -> Outcome {
        if let Err(reason) = front.check(&frame, payload_at) {
            release(frame);
            return Outcome::Dropped(reason);
        }
        let len = front.len() as u16;
        let fragment = Fragment {
            frame,
            payload_at,
            offset: front.offset(),
            len,
        };
        if !front.is_fragment() {
            return Outcome::Complete(Datagram {
                front: *front,
                fragments: alloc::vec![fragment],
                len,
            });
        }
        let key = front.key();
        let part = (
            usize::from(fragment.offset),
            fragment.end(),
            !front.more_fragments(),
        );
        match self.make_place(key, part, room, now, release) {
            Ok(at) => self.put(key, at, front, fragment, release),
            Err(reason) => {
                release(fragment.frame);
                Outcome::Dropped(reason)
            }
        }
    }

    /// Gives up the datagrams whose time is up at `now`, each to `expired`.
    pub(crate) fn poll(&mut self, now: Instant, expired: &mut dyn FnMut(Expired)) {
        while let Some(&(deadline, key)) = self.by_deadline.first()
            && deadline <= now
        {
            if let Some(Partial {
                front, fragments, ..
            }) = self.take(key)
            {
                expired(Expired { front, fragments });
            }
        }
    }

    /// When [`Reassembler::poll`] has something to do.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.by_deadline.first().map(|&(deadline, _)| deadline)
    }

    /// Frames held.
    #[cfg(test)]
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Finds the datagram of `key`, or begins it, and the place in it for a part, given by its bounds and whether it is the
    /// last; gives up others as the bounds ask for.
    fn make_place(
        &mut self,
        key: Key,
        (offset, end, last): (usize, usize, bool),
        room: Room,
        now: Instant,
        release: &mut dyn FnMut(Frame),
    ) -> Result<usize, Reason> {
        let at = match self.partials.get(&key) {
            Some(partial) if partial.discarded => return Err(Reason::Discarded),
            Some(partial) => match partial.place(offset, end, last) {
                Ok(at) if partial.completes(offset, end, last) => return Ok(at),
                Ok(at) => at,
                Err(reason) => {
                    if reason == Reason::Overlap {
                        self.discard(key, release);
                    }
                    return Err(reason);
                }
            },
            None => {
                if !self.make_room_for_frame(key.source, room, release) {
                    return Err(Reason::Evicted);
                }
                self.make_room_for_datagram(key.source, release);
                self.begin(key, now);
                return Ok(0);
            }
        };
        let has_room = self.make_room_for_frame(key.source, room, release);
        // The datagram itself may have been what had to go.
        if has_room && self.partials.contains_key(&key) {
            Ok(at)
        } else {
            Err(Reason::Evicted)
        }
    }

    /// Puts a fragment into its place.
    fn put(
        &mut self,
        key: Key,
        at: usize,
        front: &Front,
        fragment: Fragment,
        release: &mut dyn FnMut(Frame),
    ) -> Outcome {
        let Some(partial) = self.partials.get_mut(&key) else {
            release(fragment.frame);
            return Outcome::Dropped(Reason::Evicted);
        };
        if fragment.offset == 0 {
            partial.front = Some(*front);
        }
        if !front.more_fragments() {
            partial.total = Some(fragment.end());
        }
        partial.codepoints.add(front.codepoint());
        partial.held += usize::from(fragment.len);
        partial.fragments.insert(at, fragment);
        self.count += 1;
        self.by_latest.remove(&(partial.latest, key));
        partial.latest = self.count;
        self.by_latest.insert((partial.latest, key));
        let is_complete = partial.is_complete();
        self.frames += 1;
        self.shares.entry(key.source).or_default().frames += 1;
        if !is_complete {
            return Outcome::Held;
        }
        let Some(Partial {
            front,
            fragments,
            held,
            codepoints,
            ..
        }) = self.take(key)
        else {
            return Outcome::Dropped(Reason::Evicted);
        };
        let is_marked = codepoints.has(CE);
        // The first fragment's headers may be longer than those by which the last was checked.
        let whole = front
            .and_then(|front| front.whole(held, is_marked))
            .ok_or(Reason::TooLong);
        // RFC 3168, 5.3: a mark is not lost, nor put on what its sender has not declared capable of it.
        let contradicts = is_marked && codepoints.has(NOT_ECT);
        match whole.and_then(|front| {
            if contradicts {
                Err(Reason::Marks)
            } else {
                Ok(front)
            }
        }) {
            Ok(front) => Outcome::Complete(Datagram {
                front,
                fragments,
                len: held as u16,
            }),
            Err(reason) => {
                fragments
                    .into_iter()
                    .for_each(|fragment| release(fragment.frame));
                Outcome::Dropped(reason)
            }
        }
    }

    /// Begins a datagram, which holds nothing yet.
    fn begin(&mut self, key: Key, now: Instant) {
        self.count += 1;
        let partial = Partial::new(now + TIMEOUT, self.count);
        self.by_deadline.insert((partial.deadline, key));
        self.by_latest.insert((partial.latest, key));
        self.shares.entry(key.source).or_default().datagrams += 1;
        self.partials.insert(key, partial);
    }

    /// Takes a datagram out, with what it holds.
    fn take(&mut self, key: Key) -> Option<Partial> {
        let partial = self.partials.remove(&key)?;
        self.by_deadline.remove(&(partial.deadline, key));
        self.by_latest.remove(&(partial.latest, key));
        self.frames -= partial.fragments.len();
        if let Some(share) = self.shares.get_mut(&key.source) {
            share.datagrams -= 1;
            share.frames -= partial.fragments.len();
            if share.datagrams == 0 {
                self.shares.remove(&key.source);
            }
        }
        Some(partial)
    }

    /// Drops what a datagram holds, and remembers that it is dropped.
    fn discard(&mut self, key: Key, release: &mut dyn FnMut(Frame)) {
        let Some(partial) = self.partials.get_mut(&key) else {
            return;
        };
        partial.discarded = true;
        self.frames -= partial.fragments.len();
        if let Some(share) = self.shares.get_mut(&key.source) {
            share.frames -= partial.fragments.len();
        }
        partial
            .fragments
            .drain(..)
            .for_each(|fragment| release(fragment.frame));
    }

    /// Gives a datagram up.
    fn evict(&mut self, key: Option<Key>, release: &mut dyn FnMut(Frame)) -> bool {
        let Some(partial) = key.and_then(|key| self.take(key)) else {
            return false;
        };
        partial
            .fragments
            .into_iter()
            .for_each(|fragment| release(fragment.frame));
        true
    }

    /// The datagram that has waited longest for a fragment.
    fn longest_waiting(&self) -> Option<Key> {
        self.by_latest.first().map(|&(_, key)| key)
    }

    /// The one of these of a source. It looks through what the source holds, which only one that has its half asks for.
    fn longest_waiting_of(&self, source: IpAddr) -> Option<Key> {
        self.partials
            .range(Key::all_of(source))
            .min_by_key(|(_, partial)| partial.latest)
            .map(|(&key, _)| key)
    }

    /// The share that a source holds.
    fn share_of(&self, source: IpAddr) -> Share {
        self.shares.get(&source).copied().unwrap_or_default()
    }

    /// Sees to it that `source` may begin one more datagram.
    fn make_room_for_datagram(&mut self, source: IpAddr, release: &mut dyn FnMut(Frame)) {
        if self.share_of(source).datagrams >= self.limits.datagrams / 2 {
            self.evict(self.longest_waiting_of(source), release);
        }
        if self.partials.len() >= self.limits.datagrams {
            self.evict(self.longest_waiting(), release);
        }
    }

    /// Sees to it that `source` may have one more frame, if need be at the cost of the datagram that it is for. Returns
    /// whether it may.
    fn make_room_for_frame(
        &mut self,
        source: IpAddr,
        room: Room,
        release: &mut dyn FnMut(Frame),
    ) -> bool {
        let limit = self.limits.frames.min(room.frames.max(2));
        let held = if room.may_grow { limit } else { self.frames };
        // The new frame is one of those that may be held.
        let Some(others) = held.min(limit).checked_sub(1) else {
            return false;
        };
        while self.share_of(source).frames >= limit / 2
            && self.evict(self.longest_waiting_of(source), release)
        {}
        while self.frames > others && self.evict(self.longest_waiting(), release) {}
        true
    }
}

#[cfg(test)]
mod tests;
