//! Reassembly of IPv4 datagrams (RFC 791, 3.2; RFC 815; RFC 1122, 3.3.2).
//!
//! Fragments are held as the pool frames in which they came; nothing is copied before the datagram is whole and its
//! owner gathers it. Fragments that overlap are never what an honest sender makes: as in RFC 5722, they drop their whole
//! datagram, and what still comes of it is dropped as well. The same range twice is a duplicate: the first counts.
//!
//! # Bounds
//!
//! So many datagrams and so many frames are held, and no more; a datagram is given up 60 s after its first fragment came
//! (RFC 1122: a fixed time of 60 to 120 s). Datagrams of one source address take at most half of either, and a
//! source that wants more gives up its own oldest. When all is taken, the oldest datagram of all goes. A single source
//! thus drives out others only until it has its half.
//!
//! This module must never own a pool: each [`Frame`] that it is given comes back in a [`Datagram`], in an [`Expired`] or
//! by way of the `release` of [`Reassembler::push`].

use crate::buffer::{Frame, Pool};
use crate::time::Instant;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;
use tollgate_wire::ipv4::{Header, MORE_FRAGMENTS, OFFSET_MASK};

/// How long fragments wait for the rest of their datagram.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Octets of the longest datagram, header included.
const LONGEST: usize = 65_535;

/// Bounds of what is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Datagrams, at least 2.
    pub(crate) datagrams: usize,
    /// Frames in all, at least 2.
    pub(crate) frames: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            datagrams: 16,
            frames: 256,
        }
    }
}

/// Why a fragment was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It carries nothing.
    Empty,
    /// It is not the last and carries no multiple of 8 octets.
    Misaligned,
    /// Its datagram would be longer than 65,535 octets.
    TooLong,
    /// Its frame ends before its payload.
    Truncated,
    /// The same range of the datagram is held already.
    Duplicate,
    /// It overlaps another, or they contradict each other about the end: the whole datagram is dropped.
    Overlap,
    /// Its datagram was dropped because of an overlap before.
    Discarded,
    /// Its datagram was given up for others, or had more frames than one source may take.
    Evicted,
}

/// What became of a fragment.
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
    /// Where in the frame (counted from its `offset`) the IP payload begins.
    pub(crate) payload_at: u16,
    /// Where in the datagram's payload this part begins.
    pub(crate) offset: u16,
    /// Octets of this part.
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
    header: Header,
    fragments: Vec<Fragment>,
    len: u16,
}

impl Datagram {
    /// The header of the first fragment, with the whole datagram's length and neither offset nor "more fragments".
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// Octets of payload.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// The parts, in order and without gaps; the first one's frame begins with the datagram's own headers.
    #[cfg(test)]
    pub(crate) fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// Copies payload into `out` and says how many octets: all, or as many as `out` has room for.
    pub(crate) fn copy_into(&self, pool: &Pool, out: &mut [u8]) -> usize {
        let mut copied = 0;
        for fragment in &self.fragments {
            let start = usize::from(fragment.payload_at);
            let octets = pool
                .frame(&fragment.frame)
                .get(start..start + usize::from(fragment.len))
                .unwrap_or_default();
            let room = &mut out[copied..];
            let n = octets.len().min(room.len());
            room[..n].copy_from_slice(&octets[..n]);
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
    header: Option<Header>,
    fragments: Vec<Fragment>,
}

impl Expired {
    /// Header and frame of the datagram's first fragment, if that came: then its sender is told that the time was
    /// exceeded (RFC 1122, 3.3.2), with the octets of that frame.
    pub(crate) fn first(&self) -> Option<(&Header, &Fragment)> {
        self.header.as_ref().zip(self.fragments.first())
    }

    /// The frames, to be released.
    pub(crate) fn into_frames(self) -> impl Iterator<Item = Frame> {
        self.fragments.into_iter().map(|fragment| fragment.frame)
    }
}

/// What fragments of one datagram have in common (RFC 791).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    identification: u16,
}

/// A datagram of which something is missing.
#[derive(Debug)]
struct Partial {
    key: Key,
    deadline: Instant,
    /// Header of the first fragment, when it has come.
    header: Option<Header>,
    /// Ordered by offset, without overlaps.
    fragments: Vec<Fragment>,
    /// Octets of payload held.
    held: usize,
    /// Octets of payload in all, when the last fragment has come.
    total: Option<usize>,
    /// Fragments overlapped: nothing is held, and what still comes is dropped.
    discarded: bool,
}

impl Partial {
    fn new(key: Key, deadline: Instant) -> Self {
        Self {
            key,
            deadline,
            header: None,
            fragments: Vec::new(),
            held: 0,
            total: None,
            discarded: false,
        }
    }

    /// Where a part belongs among the fragments, or why it does not.
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

    /// Whether nothing is missing. Fragments do not overlap, so counting octets is enough.
    fn is_complete(&self) -> bool {
        self.total == Some(self.held)
    }
}

/// The fragments that wait.
#[derive(Debug)]
pub(crate) struct Reassembler {
    limits: Limits,
    /// The oldest first.
    partials: Vec<Partial>,
    /// Frames in all of them.
    frames: usize,
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
            partials: Vec::with_capacity(limits.datagrams),
            frames: 0,
        }
    }

    /// Takes the packet in `frame`, whose IP header is `header` and whose IP payload begins `payload_at` octets behind
    /// the frame's `offset`. Frames that are not needed any more go to `release`: this one, or those of datagrams that
    /// are dropped or have to make room. A packet that is no fragment is a whole datagram.
    pub(crate) fn push(
        &mut self,
        header: &Header,
        frame: Frame,
        payload_at: u16,
        now: Instant,
        release: &mut dyn FnMut(Frame),
    ) -> Outcome {
        let offset = usize::from(header.fragment_offset());
        let end = offset + header.payload_len();
        if let Err(reason) = check(header, &frame, payload_at) {
            release(frame);
            return Outcome::Dropped(reason);
        }
        let len = header.payload_len() as u16;
        let fragment = Fragment {
            frame,
            payload_at,
            offset: header.fragment_offset(),
            len,
        };
        if !header.is_fragment() {
            return Outcome::Complete(Datagram {
                header: *header,
                fragments: alloc::vec![fragment],
                len,
            });
        }
        let key = Key {
            source: header.source,
            destination: header.destination,
            protocol: header.protocol,
            identification: header.identification,
        };
        match self.make_place(key, offset, end, !header.more_fragments(), now, release) {
            Ok((index, at)) => self.put(index, at, header, fragment, release),
            Err(reason) => {
                release(fragment.frame);
                Outcome::Dropped(reason)
            }
        }
    }

    /// Gives up the datagrams whose time is up at `now`, each to `expired`.
    pub(crate) fn poll(&mut self, now: Instant, expired: &mut dyn FnMut(Expired)) {
        while self
            .partials
            .first()
            .is_some_and(|oldest| oldest.deadline <= now)
        {
            let Partial {
                header, fragments, ..
            } = self.partials.remove(0);
            self.frames -= fragments.len();
            expired(Expired { header, fragments });
        }
    }

    /// When [`Reassembler::poll`] has something to do.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.partials.first().map(|oldest| oldest.deadline)
    }

    /// Frames held.
    #[cfg(test)]
    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Finds the datagram of `key`, or begins it, and the place in it for a part; gives up others as the bounds ask for.
    fn make_place(
        &mut self,
        key: Key,
        offset: usize,
        end: usize,
        last: bool,
        now: Instant,
        release: &mut dyn FnMut(Frame),
    ) -> Result<(usize, usize), Reason> {
        let at = match self.position(key) {
            Some(index) if self.partials[index].discarded => return Err(Reason::Discarded),
            Some(index) => match self.partials[index].place(offset, end, last) {
                Ok(at) => at,
                Err(reason) => {
                    if reason == Reason::Overlap {
                        self.discard(index, release);
                    }
                    return Err(reason);
                }
            },
            None => {
                self.make_room_for_datagram(key.source, release);
                self.partials.push(Partial::new(key, now + TIMEOUT));
                0
            }
        };
        self.make_room_for_frame(key.source, release);
        // The datagram itself may have been what had to go.
        self.position(key)
            .map(|index| (index, at))
            .ok_or(Reason::Evicted)
    }

    /// Puts a fragment into its place.
    fn put(
        &mut self,
        index: usize,
        at: usize,
        header: &Header,
        fragment: Fragment,
        release: &mut dyn FnMut(Frame),
    ) -> Outcome {
        let partial = &mut self.partials[index];
        if fragment.offset == 0 {
            partial.header = Some(*header);
        }
        if !header.more_fragments() {
            partial.total = Some(fragment.end());
        }
        partial.held += usize::from(fragment.len);
        partial.fragments.insert(at, fragment);
        self.frames += 1;
        if !partial.is_complete() {
            return Outcome::Held;
        }
        let Partial {
            header,
            fragments,
            held,
            ..
        } = self.partials.remove(index);
        self.frames -= fragments.len();
        // The first fragment's header may be longer than the one by which the last was checked.
        let whole = header.and_then(|header| whole_header(header, held));
        match whole {
            Some(header) => Outcome::Complete(Datagram {
                header,
                fragments,
                len: held as u16,
            }),
            None => {
                fragments
                    .into_iter()
                    .for_each(|fragment| release(fragment.frame));
                Outcome::Dropped(Reason::TooLong)
            }
        }
    }

    /// Where the datagram of `key` stands.
    fn position(&self, key: Key) -> Option<usize> {
        self.partials.iter().position(|partial| partial.key == key)
    }

    /// Drops what a datagram holds, and remembers that it is dropped.
    fn discard(&mut self, index: usize, release: &mut dyn FnMut(Frame)) {
        let partial = &mut self.partials[index];
        partial.discarded = true;
        self.frames -= partial.fragments.len();
        partial
            .fragments
            .drain(..)
            .for_each(|fragment| release(fragment.frame));
    }

    /// Gives up the oldest datagram for which `wanted` says yes.
    fn evict(&mut self, wanted: impl Fn(&Partial) -> bool, release: &mut dyn FnMut(Frame)) {
        if let Some(index) = self.partials.iter().position(wanted) {
            self.discard(index, release);
            self.partials.remove(index);
        }
    }

    /// Sees to it that `source` may begin one more datagram.
    fn make_room_for_datagram(&mut self, source: Ipv4Addr, release: &mut dyn FnMut(Frame)) {
        let own = self
            .partials
            .iter()
            .filter(|partial| partial.key.source == source)
            .count();
        if own >= self.limits.datagrams / 2 {
            self.evict(|partial| partial.key.source == source, release);
        }
        if self.partials.len() >= self.limits.datagrams {
            self.evict(|_| true, release);
        }
    }

    /// Sees to it that `source` may have one more frame.
    fn make_room_for_frame(&mut self, source: Ipv4Addr, release: &mut dyn FnMut(Frame)) {
        let own = self
            .partials
            .iter()
            .filter(|partial| partial.key.source == source);
        if own.map(|partial| partial.fragments.len()).sum::<usize>() >= self.limits.frames / 2 {
            self.evict(
                |partial| partial.key.source == source && !partial.fragments.is_empty(),
                release,
            );
        }
        if self.frames >= self.limits.frames {
            self.evict(|partial| !partial.fragments.is_empty(), release);
        }
    }
}

/// Checks that hold for a packet on its own.
fn check(header: &Header, frame: &Frame, payload_at: u16) -> Result<(), Reason> {
    let len = header.payload_len();
    if header.is_fragment() && len == 0 {
        Err(Reason::Empty)
    } else if header.more_fragments() && !len.is_multiple_of(8) {
        Err(Reason::Misaligned)
    } else if usize::from(header.header_len) + usize::from(header.fragment_offset()) + len > LONGEST
    {
        Err(Reason::TooLong)
    } else if usize::from(payload_at) + len > usize::from(frame.len) {
        Err(Reason::Truncated)
    } else {
        Ok(())
    }
}

/// The header of a whole datagram from that of its first fragment, if its length can be expressed.
fn whole_header(first: Header, len: usize) -> Option<Header> {
    let total_len = u16::try_from(usize::from(first.header_len) + len).ok()?;
    let flags_and_offset = first.flags_and_offset & !(MORE_FRAGMENTS | OFFSET_MASK);
    Some(Header {
        total_len,
        flags_and_offset,
        ..first
    })
}

#[cfg(test)]
mod tests;
