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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADERS: usize = 34;
    const FRAMES: usize = 400;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn header(source: u32, identification: u16, offset: usize, len: usize, more: bool) -> Header {
        let more = if more { MORE_FRAGMENTS } else { 0 };
        Header {
            header_len: 20,
            tos: 0,
            total_len: 20 + len as u16,
            identification,
            flags_and_offset: more | (offset / 8) as u16,
            ttl: 64,
            protocol: 17,
            source: Ipv4Addr::from_bits(0x0a00_0000 + source),
            destination: Ipv4Addr::new(10, 9, 9, 9),
        }
    }

    /// A reassembler and the pool of its frames.
    struct Bench {
        reassembler: Reassembler,
        pool: Pool,
    }

    impl Bench {
        fn new(limits: Limits) -> Self {
            Self {
                reassembler: Reassembler::new(limits),
                pool: Pool::new(FRAMES, 2048),
            }
        }

        fn push_as(&mut self, header: Header, payload: &[u8], now: Instant) -> Outcome {
            let mut octets = alloc::vec![0; HEADERS];
            octets.extend_from_slice(payload);
            let frame = self.pool.frame_from(&octets).unwrap();
            let pool = &mut self.pool;
            let outcome =
                self.reassembler
                    .push(&header, frame, HEADERS as u16, now, &mut |frame| {
                        pool.release(frame.id)
                    });
            if !matches!(outcome, Outcome::Complete(_)) {
                self.check_bounds();
            }
            outcome
        }

        /// Pushes `data[offset..][..len]` of datagram 1 of source 1.
        fn push(&mut self, data: &[u8], offset: usize, len: usize) -> Outcome {
            let more = offset + len < data.len();
            self.push_as(
                header(1, 1, offset, len, more),
                &data[offset..offset + len],
                at(0),
            )
        }

        /// Every frame is free or held, and what is held is within the limits.
        fn check_bounds(&self) {
            let Reassembler {
                limits,
                partials,
                frames,
            } = &self.reassembler;
            let held: usize = partials.iter().map(|partial| partial.fragments.len()).sum();
            assert_eq!((*frames, self.pool.available()), (held, FRAMES - held));
            assert!(partials.len() <= limits.datagrams && held <= limits.frames);
            for partial in partials {
                let own = || {
                    partials
                        .iter()
                        .filter(|other| other.key.source == partial.key.source)
                };
                assert!(own().count() <= limits.datagrams / 2);
                assert!(own().map(|own| own.fragments.len()).sum::<usize>() <= limits.frames / 2);
            }
        }

        /// The payload of a complete datagram, whose frames are released.
        fn gather(&mut self, outcome: Outcome) -> Vec<u8> {
            let Outcome::Complete(datagram) = outcome else {
                panic!("{outcome:?}")
            };
            let mut out = alloc::vec![0; datagram.len()];
            assert_eq!(datagram.copy_into(&self.pool, &mut out), out.len());
            assert_eq!(datagram.header().payload_len(), out.len());
            assert!(!datagram.header().is_fragment());
            datagram
                .into_frames()
                .for_each(|frame| self.pool.release(frame.id));
            self.check_bounds();
            out
        }

        /// Gives up what is overdue; the number of datagrams, and the payloads of first fragments.
        fn poll(&mut self, now: Instant) -> (usize, Vec<Vec<u8>>) {
            let (mut count, mut firsts) = (0, Vec::new());
            let pool = &mut self.pool;
            self.reassembler.poll(now, &mut |expired| {
                count += 1;
                if let Some((header, first)) = expired.first() {
                    assert_eq!(header.fragment_offset(), 0);
                    firsts.push(pool.frame(&first.frame)[usize::from(first.payload_at)..].to_vec());
                }
                expired
                    .into_frames()
                    .for_each(|frame| pool.release(frame.id));
            });
            self.check_bounds();
            (count, firsts)
        }
    }

    fn reason(outcome: Outcome) -> Reason {
        match outcome {
            Outcome::Dropped(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    fn data(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7 + i / 256) as u8).collect()
    }

    #[test]
    fn fragments_in_reverse_order_make_the_datagram() {
        let (mut bench, data) = (Bench::new(Limits::default()), data(100));
        assert!(matches!(bench.push(&data, 64, 36), Outcome::Held));
        assert!(matches!(bench.push(&data, 32, 32), Outcome::Held));
        assert_eq!(bench.reassembler.next(), Some(at(60)));
        let outcome = bench.push(&data, 0, 32);
        assert_eq!(bench.gather(outcome), data);
        assert_eq!(
            (bench.reassembler.frames(), bench.reassembler.next()),
            (0, None)
        );
    }

    #[test]
    fn a_packet_that_is_no_fragment_is_whole() {
        let mut bench = Bench::new(Limits::default());
        let outcome = bench.push(b"hello", 0, 5);
        assert_eq!(bench.gather(outcome), b"hello");
        let outcome = bench.push(b"", 0, 0);
        assert_eq!(bench.gather(outcome), b"");
    }

    #[test]
    fn gathering_stops_where_the_room_ends() {
        let (mut bench, data) = (Bench::new(Limits::default()), data(40));
        assert!(matches!(bench.push(&data, 0, 16), Outcome::Held));
        let Outcome::Complete(datagram) = bench.push(&data, 16, 24) else {
            panic!("all fragments came")
        };
        let mut out = [0; 20];
        assert_eq!(datagram.copy_into(&bench.pool, &mut out), 20);
        assert_eq!(out, data[..20]);
        assert_eq!(datagram.fragments().len(), 2);
    }

    #[test]
    fn fragments_that_cannot_be_right_are_dropped() {
        let mut bench = Bench::new(Limits::default());
        assert_eq!(
            reason(bench.push_as(header(1, 1, 0, 0, true), &[], at(0))),
            Reason::Empty
        );
        assert_eq!(
            reason(bench.push_as(header(1, 1, 8, 0, false), &[], at(0))),
            Reason::Empty
        );
        assert_eq!(
            reason(bench.push_as(header(1, 1, 0, 9, true), &[0; 9], at(0))),
            Reason::Misaligned
        );
        assert_eq!(
            reason(bench.push_as(header(1, 1, 65_528, 8, false), &[0; 8], at(0))),
            Reason::TooLong
        );
        assert_eq!(
            reason(bench.push_as(header(1, 1, 65_504, 12, false), &[0; 12], at(0))),
            Reason::TooLong
        );
        assert_eq!(
            reason(bench.push_as(header(1, 1, 0, 16, true), &[0; 15], at(0))),
            Reason::Truncated
        );
        assert!(bench.reassembler.partials.is_empty());
        assert!(matches!(
            bench.push_as(header(1, 1, 65_504, 11, false), &[0; 11], at(0)),
            Outcome::Held
        ));
    }

    #[test]
    fn a_long_first_header_cannot_make_the_datagram_too_long() {
        let mut bench = Bench::new(Limits {
            datagrams: 4,
            frames: 200,
        });
        let mut offset = 1600;
        while offset < 65_504 {
            let len = 1600.min(65_504 - offset);
            assert!(matches!(
                bench.push_as(header(1, 1, offset, len, true), &data(len), at(0)),
                Outcome::Held
            ));
            offset += len;
        }
        assert!(matches!(
            bench.push_as(header(1, 1, 65_504, 8, false), &[0; 8], at(0)),
            Outcome::Held
        ));
        let first = Header {
            header_len: 60,
            total_len: 1660,
            ..header(1, 1, 0, 1600, true)
        };
        assert_eq!(
            reason(bench.push_as(first, &data(1600), at(0))),
            Reason::TooLong
        );
        assert!(bench.reassembler.partials.is_empty());
    }

    #[test]
    fn the_first_of_two_equal_ranges_counts() {
        let (mut bench, data) = (Bench::new(Limits::default()), data(48));
        assert!(matches!(bench.push(&data, 16, 32), Outcome::Held));
        assert_eq!(
            reason(bench.push_as(header(1, 1, 16, 32, false), &[0xff; 32], at(0))),
            Reason::Duplicate
        );
        let outcome = bench.push(&data, 0, 16);
        assert_eq!(bench.gather(outcome), data);
    }

    #[test]
    fn contradictions_drop_the_datagram_and_what_still_comes() {
        // Each list ends with the fragment that contradicts: offset, octets, and whether more follow.
        let cases: [&[(usize, usize, bool)]; 9] = [
            &[(0, 32, true), (24, 16, true)],
            &[(24, 16, true), (0, 32, true)],
            &[(16, 16, true), (0, 64, true)],
            &[(0, 64, true), (16, 16, true)],
            &[(0, 32, true), (0, 24, true)],
            &[(32, 16, false), (48, 8, true)],
            &[(32, 16, true), (16, 8, false)],
            &[(32, 16, false), (48, 16, false)],
            &[(32, 16, false), (32, 16, true)],
        ];
        for case in cases {
            let mut bench = Bench::new(Limits::default());
            let (last, others) = case.split_last().unwrap();
            for &(offset, len, more) in others {
                assert!(matches!(
                    bench.push_as(header(1, 1, offset, len, more), &data(len), at(0)),
                    Outcome::Held
                ));
            }
            let (offset, len, more) = *last;
            let outcome = bench.push_as(header(1, 1, offset, len, more), &data(len), at(1));
            assert_eq!(reason(outcome), Reason::Overlap, "{case:?}");
            assert_eq!(bench.reassembler.frames(), 0);
            assert_eq!(
                reason(bench.push_as(header(1, 1, 128, 8, true), &[0; 8], at(2))),
                Reason::Discarded
            );
            // An identification can be used again when the time is up, and another one at once.
            assert!(matches!(
                bench.push_as(header(1, 2, 0, 8, true), &[0; 8], at(3)),
                Outcome::Held
            ));
            assert_eq!(bench.poll(at(60)), (1, Vec::new()));
            assert!(matches!(
                bench.push_as(header(1, 1, 0, 8, true), &[0; 8], at(60)),
                Outcome::Held
            ));
        }
    }

    /// RFC 1122, 3.3.2: "If this timeout expires, the partially-reassembled datagram MUST be discarded and an ICMP Time
    /// Exceeded message sent to the source host (if fragment zero has been received)."
    #[test]
    fn time_runs_from_the_first_arrival_and_the_first_fragment_is_handed_over() {
        let (mut bench, data) = (Bench::new(Limits::default()), data(64));
        assert!(matches!(
            bench.push_as(header(1, 1, 8, 8, true), &data[8..16], at(0)),
            Outcome::Held
        ));
        assert!(matches!(
            bench.push_as(header(1, 1, 0, 8, true), &data[..8], at(50)),
            Outcome::Held
        ));
        assert!(matches!(
            bench.push_as(header(1, 2, 8, 8, true), &data[8..16], at(10)),
            Outcome::Held
        ));
        assert_eq!(bench.poll(at(59)), (0, Vec::new()));
        assert_eq!(bench.poll(at(60)), (1, alloc::vec![data[..8].to_vec()]));
        assert_eq!(bench.reassembler.next(), Some(at(70)));
        assert_eq!(bench.poll(at(70)), (1, Vec::new()));
        assert_eq!(bench.reassembler.next(), None);
    }

    #[test]
    fn one_source_cannot_drive_out_the_others_datagrams() {
        let mut bench = Bench::new(Limits {
            datagrams: 8,
            frames: 64,
        });
        for source in 2..6 {
            assert!(matches!(
                bench.push_as(header(source, 7, 0, 8, true), &[1; 8], at(0)),
                Outcome::Held
            ));
        }
        for identification in 0..1000 {
            assert!(matches!(
                bench.push_as(header(1, identification, 0, 8, true), &[2; 8], at(1)),
                Outcome::Held
            ));
        }
        for source in 2..6 {
            let outcome = bench.push_as(header(source, 7, 8, 8, false), &[1; 8], at(2));
            assert_eq!(bench.gather(outcome), [1; 16]);
        }
        assert_eq!(bench.reassembler.partials.len(), 4);
    }

    #[test]
    fn one_source_gets_half_of_the_frames() {
        let mut bench = Bench::new(Limits {
            datagrams: 8,
            frames: 64,
        });
        assert!(matches!(
            bench.push_as(header(2, 7, 0, 8, true), &[1; 8], at(0)),
            Outcome::Held
        ));
        for part in 0..32 {
            assert!(matches!(
                bench.push_as(header(1, 1, part * 8, 8, true), &[2; 8], at(1)),
                Outcome::Held
            ));
        }
        assert_eq!(bench.reassembler.frames(), 33);
        assert_eq!(
            reason(bench.push_as(header(1, 1, 256, 8, true), &[2; 8], at(1))),
            Reason::Evicted
        );
        assert_eq!(bench.reassembler.frames(), 1);
        let outcome = bench.push_as(header(2, 7, 8, 8, false), &[1; 8], at(2));
        assert_eq!(bench.gather(outcome), [1; 16]);
    }

    #[test]
    fn a_flood_from_everywhere_stays_within_the_bounds() {
        let mut bench = Bench::new(Limits {
            datagrams: 8,
            frames: 20,
        });
        for i in 0..2000u32 {
            let header = header(i % 37, (i % 5) as u16, (i as usize * 8) % 640, 8, true);
            _ = bench.push_as(header, &[0; 8], at(u64::from(i) / 100));
        }
        assert!(bench.reassembler.frames() > 0);
        let (count, _) = bench.poll(at(100));
        assert!((1..=8).contains(&count));
        assert_eq!(
            (bench.pool.available(), bench.reassembler.frames()),
            (FRAMES, 0)
        );
    }

    proptest! {
        #[test]
        fn any_split_in_any_order_with_duplicates_makes_the_datagram(
            cuts in prop::collection::btree_set(1usize..200, 1..40),
            tail in 1usize..=8,
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..120),
        ) {
            let mut bounds: Vec<usize> = core::iter::once(0).chain(cuts.iter().map(|cut| cut * 8)).collect();
            let data = data(bounds[bounds.len() - 1] + tail);
            bounds.push(data.len());
            let parts: Vec<(usize, usize)> = bounds.windows(2).map(|pair| (pair[0], pair[1] - pair[0])).collect();
            // A random walk over the parts, repeats and all, and then those that it left out.
            let mut walk: Vec<usize> = order.iter().map(|index| index.index(parts.len())).collect();
            walk.extend((0..parts.len()).rev());
            let mut bench = Bench::new(Limits::default());
            let mut seen = alloc::vec![false; parts.len()];
            for part in walk {
                let (offset, len) = parts[part];
                let outcome = bench.push(&data, offset, len);
                let duplicate = core::mem::replace(&mut seen[part], true);
                if duplicate {
                    prop_assert_eq!(reason(outcome), Reason::Duplicate);
                } else if seen.iter().all(|seen| *seen) {
                    prop_assert_eq!(bench.gather(outcome), data);
                    break;
                } else {
                    prop_assert!(matches!(outcome, Outcome::Held), "{:?}", outcome);
                }
            }
            prop_assert_eq!(bench.pool.available(), FRAMES);
        }

        /// Fragments at random: a datagram is only ever made of octets that were sent at their offset, and no frame is
        /// lost.
        #[test]
        fn nonsense_keeps_the_bounds_and_loses_no_frame(
            packets in prop::collection::vec((0u32..3, 0u16..3, 0usize..6, 0usize..34, any::<bool>(), 0u64..4), 1..200),
            datagrams in 2usize..6,
            frames in 2usize..12,
        ) {
            let (mut bench, data) = (Bench::new(Limits { datagrams, frames }), data(100));
            let mut now = 0;
            for (source, identification, offset, len, more, wait) in packets {
                now += wait * wait;
                bench.poll(at(now));
                let header = header(source, identification, offset * 8, len, more);
                let outcome = bench.push_as(header, &data[offset * 8..offset * 8 + len], at(now));
                if let Outcome::Complete(_) = outcome {
                    let payload = bench.gather(outcome);
                    let start = if header.is_fragment() { 0 } else { offset * 8 };
                    prop_assert_eq!(&payload[..], &data[start..start + payload.len()]);
                }
            }
            bench.poll(at(now + 60));
            prop_assert_eq!(bench.pool.available(), FRAMES);
        }
    }
}
