use super::*;
use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use tollgate_wire::ipv4::{Header, MORE_FRAGMENTS};
use tollgate_wire::ipv6;

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
        let room = Room {
            frames: FRAMES,
            may_grow: true,
        };
        self.push_into(room, header, payload, now)
    }

    fn push_into(&mut self, room: Room, header: Header, payload: &[u8], now: Instant) -> Outcome {
        let front = FrontV4 {
            header,
            unicast: true,
        };
        self.push_front(room, Front::V4(front), payload, now)
    }

    fn push_front(&mut self, room: Room, front: Front, payload: &[u8], now: Instant) -> Outcome {
        let mut bytes = alloc::vec![0; HEADERS];
        bytes.extend_from_slice(payload);
        let frame = self.pool.frame_from(&bytes).unwrap();
        let pool = &mut self.pool;
        let outcome =
            self.reassembler
                .push(&front, (frame, HEADERS as u16), room, now, &mut |frame| {
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
            by_deadline,
            by_latest,
            shares,
            frames,
            ..
        } = &self.reassembler;
        let held: usize = partials
            .values()
            .map(|partial| partial.fragments.len())
            .sum();
        assert_eq!((*frames, self.pool.available()), (held, FRAMES - held));
        assert!(partials.len() <= limits.datagrams && held <= limits.frames);
        let mut counted: BTreeMap<IpAddr, Share> = BTreeMap::new();
        for (key, partial) in partials {
            let share = counted.entry(key.source).or_default();
            share.datagrams += 1;
            share.frames += partial.fragments.len();
            assert!(by_deadline.contains(&(partial.deadline, *key)));
            assert!(by_latest.contains(&(partial.latest, *key)));
            assert_eq!(partial.discarded, partial.fragments.is_empty());
        }
        assert_eq!(&counted, shares);
        assert_eq!(
            (by_deadline.len(), by_latest.len()),
            (partials.len(), partials.len())
        );
        for share in counted.values() {
            assert!(share.datagrams <= limits.datagrams / 2);
            assert!(share.frames <= limits.frames / 2);
        }
    }

    /// The payload of a complete datagram, whose frames are released.
    fn gather(&mut self, outcome: Outcome) -> Vec<u8> {
        let Outcome::Complete(datagram) = outcome else {
            panic!("{outcome:?}")
        };
        let mut out = alloc::vec![0; datagram.len()];
        assert_eq!(datagram.copy_into(&self.pool, &mut out), out.len());
        if let Front::V4(FrontV4 { header, .. }) = datagram.front() {
            assert_eq!(header.payload_len(), out.len());
            assert!(!header.is_fragment());
        }
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
            if let Some((front, first)) = expired.first() {
                assert_eq!(front.offset(), 0);
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
    // Each list ends with the fragment that contradicts: offset, bytes, and whether more follow.
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

/// Made-up sources have one fragment each, so no share holds them back.
#[test]
fn trickle_of_first_fragments_leaves_others_datagrams() {
    let mut bench = Bench::new(Limits::default());
    let data = data(45 * 8);
    let mut stranger = 100;
    for part in 0..45 {
        let more = part < 44;
        let header_of_part = header(1, 1, part * 8, 8, more);
        let outcome = bench.push_as(header_of_part, &data[part * 8..][..8], at(0));
        if !more {
            assert_eq!(bench.gather(outcome), data);
            break;
        }
        assert!(matches!(outcome, Outcome::Held), "{outcome:?}");
        for _ in 0..200 {
            stranger += 1;
            let first = header(stranger, 1, 0, 8, true);
            assert!(matches!(
                bench.push_as(first, &[0; 8], at(0)),
                Outcome::Held
            ));
        }
    }
    assert!(bench.reassembler.frames() > 200);
}

#[test]
fn pool_without_room_keeps_the_number_of_frames() {
    let mut bench = Bench::new(Limits::default());
    let none = Room {
        frames: FRAMES,
        may_grow: false,
    };
    let refused = bench.push_into(none, header(1, 1, 0, 8, true), &[1; 8], at(0));
    assert_eq!(reason(refused), Reason::Evicted);
    assert!(bench.reassembler.partials.is_empty());
    for source in 2..5 {
        let outcome = bench.push_as(header(source, 1, 0, 8, true), &[1; 8], at(0));
        assert!(matches!(outcome, Outcome::Held));
    }
    // Another takes the place of the one that has waited longest.
    let outcome = bench.push_into(none, header(5, 1, 0, 8, true), &[1; 8], at(0));
    assert!(matches!(outcome, Outcome::Held));
    assert_eq!(bench.reassembler.frames(), 3);
    let late = bench.push_into(none, header(2, 1, 16, 8, true), &[1; 8], at(0));
    assert!(matches!(late, Outcome::Held), "datagram 2 begins anew");
    // What completes a datagram gives frames back.
    let outcome = bench.push_into(none, header(4, 1, 8, 8, false), &[1; 8], at(0));
    assert_eq!(bench.gather(outcome), [1; 16]);
    assert_eq!(bench.reassembler.frames(), 2);
}

#[test]
fn share_of_the_pool_bounds_what_is_held() {
    let mut bench = Bench::new(Limits::default());
    let room = Room {
        frames: 10,
        may_grow: true,
    };
    for source in 0..100 {
        let first = header(source, 1, 0, 8, true);
        assert!(matches!(
            bench.push_into(room, first, &[0; 8], at(0)),
            Outcome::Held
        ));
        assert!(bench.reassembler.frames() <= 10);
    }
    for part in 0..5 {
        let more = header(7, 9, part * 8, 8, true);
        assert!(matches!(
            bench.push_into(room, more, &[0; 8], at(0)),
            Outcome::Held
        ));
    }
    let own = bench.push_into(room, header(7, 9, 40, 8, true), &[0; 8], at(0));
    assert_eq!(reason(own), Reason::Evicted);
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

/// The headers of a fragment of IPv6 behind 8 bytes of extension headers.
fn front_v6(source: u128, identification: u32, offset: usize, len: usize, more: bool) -> Front {
    Front::V6(FrontV6 {
        header: ipv6::Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: (16 + len) as u16,
            next_header: 60,
            hop_limit: 64,
            source: Ipv6Addr::from_bits(source),
            destination: Ipv6Addr::from_bits(9),
        },
        fragment: ipv6::Fragment {
            offset: offset as u16,
            more,
            identification,
        },
        extensions: 8,
        protocol: offset as u8,
        named_at: 40,
        unicast: true,
    })
}

/// Reassembly byte by byte, without bounds and time: what arrived is where it belongs, or nothing is any more.
#[derive(Default)]
struct Naive {
    bytes: BTreeMap<usize, u8>,
    parts: BTreeSet<(usize, usize, bool)>,
    dead: bool,
}

impl Naive {
    /// The whole, if this was the last part that was missing.
    fn push(&mut self, start: usize, part: &[u8], more: bool) -> Option<Vec<u8>> {
        let end = start + part.len();
        if self.dead || self.parts.contains(&(start, end, more)) {
            return None;
        }
        self.parts.insert((start, end, more));
        let ends: BTreeSet<usize> = self
            .parts
            .iter()
            .filter(|(_, _, more)| !more)
            .map(|&(_, end, _)| end)
            .collect();
        let lasts = self.parts.iter().filter(|(_, _, more)| !more).count();
        let total = ends.first().copied();
        self.dead = lasts > 1 || (start..end).any(|at| self.bytes.contains_key(&at));
        self.bytes.extend((start..end).zip(part.iter().copied()));
        let beyond = self.bytes.last_key_value().map_or(0, |(&at, _)| at + 1);
        self.dead |= total.is_some_and(|total| beyond > total);
        let is_whole = !self.dead && total == Some(self.bytes.len());
        is_whole.then(|| core::mem::take(self).bytes.into_values().collect())
    }
}

/// Both versions share the bounds, and addresses of one are never those of the other.
#[test]
fn versions_share_what_is_held() {
    let mut bench = Bench::new(Limits {
        datagrams: 8,
        frames: 8,
    });
    let room = Room {
        frames: FRAMES,
        may_grow: true,
    };
    for source in 0..4 {
        let outcome = bench.push_as(header(source, 1, 0, 8, true), &[1; 8], at(0));
        assert!(matches!(outcome, Outcome::Held));
    }
    for source in 0..6 {
        let front = front_v6(source, 1, 0, 8, true);
        assert!(matches!(
            bench.push_front(room, front, &[1; 8], at(0)),
            Outcome::Held
        ));
    }
    // The first two of IPv4 had waited longest.
    assert_eq!(bench.reassembler.frames(), 8);
    let outcome = bench.push_as(header(3, 1, 8, 8, false), &[1; 8], at(0));
    assert_eq!(bench.gather(outcome).len(), 16);
    let outcome = bench.push_as(header(1, 1, 8, 8, false), &[1; 8], at(0));
    assert!(matches!(outcome, Outcome::Held));
}

proptest! {
    /// RFC 8200, 4.5, beside a reassembly that knows bytes alone.
    #[test]
    fn fragments_of_ipv6_make_what_a_naive_reassembly_makes(
        packets in prop::collection::vec(
            (0u128..2, 0u32..2, 0usize..6, 1usize..4, prop::bool::weighted(0.7), 0usize..8),
            1..60,
        ),
    ) {
        let mut bench = Bench::new(Limits::default());
        let mut naive: BTreeMap<(u128, u32), Naive> = BTreeMap::new();
        let room = Room { frames: FRAMES, may_grow: true };
        for (n, (source, id, place, words, more, short)) in packets.into_iter().enumerate() {
            let len = if more { words * 8 } else { words * 8 - short };
            let (start, part) = (place * 8, alloc::vec![n as u8; len]);
            // All of it is an atomic fragment, which does not come here.
            if start == 0 && !more {
                continue;
            }
            let expected = naive.entry((source, id)).or_default().push(start, &part, more);
            let front = front_v6(source, id, start, len, more);
            let outcome = bench.push_front(room, front, &part, at(0));
            match (expected, outcome) {
                (Some(expected), outcome @ Outcome::Complete(_)) => {
                    prop_assert_eq!(bench.gather(outcome), expected);
                }
                (None, Outcome::Held | Outcome::Dropped(_)) => {}
                (expected, outcome) => prop_assert!(false, "{:?} {:?}", expected, outcome),
            }
        }
        bench.poll(at(60));
        prop_assert_eq!(bench.pool.available(), FRAMES);
    }

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

    /// Fragments at random: a datagram is only ever made of bytes that were sent at their offset, and no frame is
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
