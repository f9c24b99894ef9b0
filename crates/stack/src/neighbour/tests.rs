use super::*;
use crate::buffer::Pool;
use alloc::vec::Vec;
use proptest::prelude::*;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const C: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// More frames than any test lets wait.
const ENOUGH: usize = 2 * PENDING + 1;
const OTHER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn frame(pool: &mut Pool, mark: u8) -> Frame {
    pool.frame_from(&[mark]).unwrap()
}

/// Releases the frames and says how they were marked.
fn marks(pool: &mut Pool, frames: impl Iterator<Item = Frame>) -> Vec<u8> {
    frames
        .map(|frame| {
            let mark = pool.frame(&frame)[0];
            pool.release(frame.id);
            mark
        })
        .collect()
}

fn poll(cache: &mut Cache<Ipv4Addr>, now: Instant) -> Vec<Action<Ipv4Addr>> {
    let mut actions = Vec::new();
    cache.poll(now, &mut |action| actions.push(action));
    actions
}

/// Queues a frame; says whether the caller has to ask, and the marks of the frames that were dropped for it.
fn queue(
    cache: &mut Cache<Ipv4Addr>,
    pool: &mut Pool,
    ip: Ipv4Addr,
    mark: u8,
    now: Instant,
) -> (bool, Vec<u8>) {
    let frame = frame(pool, mark);
    assert_eq!(cache.lookup(ip, now), Lookup::Wait, "{ip} is known");
    let kept = cache.keep(ip, frame, ENOUGH, now);
    (kept.ask, marks(pool, kept.dropped))
}

/// `ip` was heard to be at `mac`; no template holds any address.
fn hear(
    cache: &mut Cache<Ipv4Addr>,
    ip: Ipv4Addr,
    mac: MacAddr,
    heard: Heard,
    now: Instant,
) -> Update<Ipv4Addr> {
    cache.heard(ip, mac, heard, &mut |_| false, now)
}

/// Tells whether the cache takes note of `ip`.
fn is_noted(
    cache: &mut Cache<Ipv4Addr>,
    ip: Ipv4Addr,
    mac: MacAddr,
    heard: Heard,
    now: Instant,
) -> bool {
    matches!(hear(cache, ip, mac, heard, now), Update::Known { .. })
}

/// The frames that wait for `ip`, whose answer comes now, and who had to make room.
fn answered(cache: &mut Cache<Ipv4Addr>, ip: Ipv4Addr, now: Instant) -> (Frames, Option<Ipv4Addr>) {
    match hear(cache, ip, MAC, Heard::Other, now) {
        Update::Known {
            changed: true,
            pending,
            evicted,
        } => (pending, evicted),
        other => panic!("{ip} was not asked for: {other:?}"),
    }
}

#[test]
fn frames_wait_for_the_answer_and_leave_in_order() {
    let (mut cache, mut pool) = (Cache::new(8), Pool::new(8, 2048));
    assert_eq!(cache.lookup(A, at(0)), Lookup::Wait);
    assert_eq!(
        queue(&mut cache, &mut pool, A, 1, at(0)),
        (true, Vec::new())
    );
    assert_eq!(
        queue(&mut cache, &mut pool, A, 2, at(0)),
        (false, Vec::new())
    );
    let (pending, _) = answered(&mut cache, A, at(0));
    assert_eq!(marks(&mut pool, pending), [1, 2]);
    assert_eq!(cache.lookup(A, at(1)), Lookup::Found(MAC));
    assert_eq!(pool.available(), 8);
}

#[test]
fn the_latest_frames_are_kept() {
    let (mut cache, mut pool) = (Cache::new(8), Pool::new(2 * PENDING, 256));
    for mark in 1..=PENDING as u8 {
        assert_eq!(queue(&mut cache, &mut pool, A, mark, at(0)).1, []);
    }
    assert_eq!(
        queue(&mut cache, &mut pool, A, 200, at(0)),
        (false, alloc::vec![1])
    );
    let (pending, _) = answered(&mut cache, A, at(0));
    let kept = marks(&mut pool, pending);
    assert_eq!((kept.len(), kept[0], kept[PENDING - 1]), (PENDING, 2, 200));
}

/// RFC 1122, 2.3.2.1: "The recommended maximum rate is 1 per second per destination."
#[test]
fn questions_come_once_a_second_and_three_times() {
    let (mut cache, mut pool) = (Cache::new(8), Pool::new(8, 2048));
    assert!(queue(&mut cache, &mut pool, A, 1, at(0)).0);
    assert_eq!(cache.next(), Some(at(1)));
    assert_eq!(poll(&mut cache, Instant::from_nanos(999_999_999)), []);
    assert_eq!(poll(&mut cache, at(1)), [Action::Ask(A)]);
    assert_eq!(poll(&mut cache, at(1)), []);
    assert!(!queue(&mut cache, &mut pool, A, 2, at(1)).0);
    assert_eq!(poll(&mut cache, at(2)), [Action::Ask(A)]);
    let failed = poll(&mut cache, at(3))
        .into_iter()
        .flat_map(|action| match action {
            Action::Fail(A, frames) => frames,
            other => panic!("{other:?}"),
        });
    assert_eq!(marks(&mut pool, failed), [1, 2]);
    assert_eq!(cache.next(), None);
    assert!(queue(&mut cache, &mut pool, A, 3, at(3)).0);
}

#[test]
fn an_entry_in_use_is_asked_for_again_before_it_ends() {
    let mut cache = Cache::new(8);
    assert!(is_noted(&mut cache, A, MAC, Heard::Request, at(0)));
    let stale = 19 * 60;
    assert_eq!(cache.lookup(A, at(stale - 1)), Lookup::Found(MAC));
    assert_eq!(poll(&mut cache, at(stale)), [Action::Stale(A)]);
    assert_eq!(cache.lookup(A, at(stale)), Lookup::Found(MAC));
    assert_eq!(cache.next(), Some(at(stale)));
    assert_eq!(poll(&mut cache, at(stale)), [Action::Ask(A)]);
    assert!(is_noted(&mut cache, A, MAC, Heard::Other, at(stale + 1)));
    assert_eq!(poll(&mut cache, at(stale + 2)), []);
    assert_eq!(cache.lookup(A, at(2 * stale)), Lookup::Found(MAC));
    // Nobody answers this time.
    assert_eq!(cache.lookup(A, at(2 * stale + 1)), Lookup::Found(MAC));
    assert_eq!(
        poll(&mut cache, at(2 * stale + 1)),
        [Action::Ask(A), Action::Stale(A)]
    );
    for second in 2..=3 {
        assert_eq!(poll(&mut cache, at(2 * stale + second)), [Action::Ask(A)]);
    }
    assert_eq!(poll(&mut cache, at(2 * stale + 4)), [Action::Silent(A)]);
    assert_eq!(cache.lookup(A, at(2 * stale + 4)), Lookup::Wait);
}

#[test]
fn a_neighbour_that_is_doubted_is_asked_for_at_once() {
    let mut cache = Cache::new(8);
    cache.doubt(A, at(0));
    assert_eq!(poll(&mut cache, at(0)), []);
    assert!(is_noted(&mut cache, A, MAC, Heard::Request, at(0)));
    cache.doubt(A, at(0));
    assert_eq!(poll(&mut cache, at(0)), []);
    cache.doubt(A, at(5));
    assert_eq!(poll(&mut cache, at(5)), [Action::Ask(A)]);
    // Again and again does not ask more often.
    cache.doubt(A, at(5));
    assert_eq!(poll(&mut cache, at(5)), []);
    assert!(is_noted(&mut cache, A, MAC, Heard::Other, at(6)));
    assert_eq!(poll(&mut cache, at(7)), []);
    cache.doubt(A, at(8));
    for second in 8..=10 {
        assert_eq!(poll(&mut cache, at(second)), [Action::Ask(A)]);
    }
    assert_eq!(poll(&mut cache, at(11)), [Action::Silent(A)]);
}

#[test]
fn an_entry_without_use_ends_after_twenty_minutes() {
    let (mut cache, mut pool) = (Cache::new(8), Pool::new(8, 2048));
    assert!(is_noted(&mut cache, A, MAC, Heard::Request, at(0)));
    assert_eq!(cache.next(), Some(at(1140)));
    assert_eq!(poll(&mut cache, at(1140)), [Action::Stale(A)]);
    assert_eq!(cache.next(), Some(at(1200)));
    assert_eq!(cache.lookup(A, at(1200)), Lookup::Wait);
    assert!(queue(&mut cache, &mut pool, A, 1, at(1200)).0);
    assert!(is_noted(&mut cache, B, MAC, Heard::Request, at(0)));
    assert_eq!(poll(&mut cache, at(1200)), [Action::Gone(B)]);
    assert!(!is_noted(&mut cache, B, MAC, Heard::Other, at(1200)));
}

#[test]
fn only_requests_to_this_host_make_entries() {
    let mut cache = Cache::new(8);
    assert!(!is_noted(&mut cache, A, MAC, Heard::Other, at(0)));
    assert_eq!(cache.lookup(A, at(0)), Lookup::Wait);
    assert!(!is_noted(
        &mut cache,
        A,
        MacAddr::BROADCAST,
        Heard::Request,
        at(0)
    ));
    assert!(!is_noted(
        &mut cache,
        A,
        MacAddr::default(),
        Heard::Request,
        at(0)
    ));
    assert!(!is_noted(
        &mut cache,
        Ipv4Addr::UNSPECIFIED,
        MAC,
        Heard::Request,
        at(0)
    ));
    assert!(!is_noted(
        &mut cache,
        Ipv4Addr::BROADCAST,
        MAC,
        Heard::Request,
        at(0)
    ));
    assert!(!is_noted(
        &mut cache,
        Ipv4Addr::new(224, 0, 0, 1),
        MAC,
        Heard::Request,
        at(0)
    ));
    let known = |changed| Update::Known {
        changed,
        pending: Frames::default(),
        evicted: None,
    };
    assert_eq!(
        hear(&mut cache, A, MAC, Heard::Request, at(0)),
        known(false)
    );
    assert_eq!(
        hear(&mut cache, A, OTHER_MAC, Heard::Other, at(1)),
        known(true)
    );
    assert_eq!(cache.lookup(A, at(1)), Lookup::Found(OTHER_MAC));
}

#[test]
fn a_flood_of_requests_does_not_drive_out_neighbours_in_use() {
    let mut cache = Cache::new(4);
    for ip in [A, B] {
        assert!(is_noted(&mut cache, ip, MAC, Heard::Request, at(0)));
        assert_eq!(cache.lookup(ip, at(0)), Lookup::Found(MAC));
    }
    for host in 0..1000u32 {
        let ip = Ipv4Addr::from_bits(0x0a01_0000 + host);
        let now = at(u64::from(host) / 100);
        assert!(is_noted(&mut cache, ip, OTHER_MAC, Heard::Request, now));
        assert!(cache.entries.len() <= 4);
    }
    assert_eq!(cache.lookup(A, at(20)), Lookup::Found(MAC));
    assert_eq!(cache.lookup(B, at(20)), Lookup::Found(MAC));
}

#[test]
fn answer_takes_the_place_of_the_least_recently_used_neighbour() {
    let (mut cache, mut pool) = (Cache::new(2), Pool::new(8, 2048));
    assert!(is_noted(&mut cache, A, MAC, Heard::Request, at(0)));
    assert!(is_noted(&mut cache, B, MAC, Heard::Request, at(0)));
    assert_eq!(cache.lookup(B, at(1)), Lookup::Found(MAC));
    assert_eq!(cache.lookup(A, at(2)), Lookup::Found(MAC));
    // A question alone costs nobody's place.
    assert!(queue(&mut cache, &mut pool, C, 1, at(3)).0);
    assert_eq!(cache.lookup(A, at(3)), Lookup::Found(MAC));
    assert_eq!(cache.known.len(), 2);
    // B was used before A.
    let (pending, evicted) = answered(&mut cache, C, at(3));
    assert_eq!(marks(&mut pool, pending), [1]);
    assert_eq!(evicted, Some(B));
    // A request finds no room among neighbours that are used.
    assert!(!is_noted(&mut cache, B, MAC, Heard::Request, at(4)));
    assert_eq!(cache.lookup(A, at(4)), Lookup::Found(MAC));
}

#[test]
fn question_takes_the_place_of_the_oldest_question() {
    let (mut cache, mut pool) = (Cache::new(2), Pool::new(8, 2048));
    assert!(queue(&mut cache, &mut pool, A, 1, at(0)).0);
    assert!(queue(&mut cache, &mut pool, B, 2, at(1)).0);
    assert_eq!(
        queue(&mut cache, &mut pool, A, 3, at(2)),
        (false, Vec::new())
    );
    assert_eq!(
        queue(&mut cache, &mut pool, C, 4, at(2)),
        (true, alloc::vec![1, 3])
    );
    assert_eq!(cache.entries.len(), 2);
}

#[test]
fn neighbour_that_a_template_holds_makes_room_last() {
    let (mut cache, mut pool) = (Cache::new(4), Pool::new(8, 2048));
    let host = |n: u32| Ipv4Addr::from_bits(0x0a00_0100 + n);
    for ip in [A, B] {
        assert!(is_noted(&mut cache, ip, MAC, Heard::Configured, at(0)));
    }
    for n in 0..100 {
        let now = at(u64::from(n) + 1);
        assert!(queue(&mut cache, &mut pool, host(n), 0, now).0);
        let mut held = |ip| ip == A || ip == B;
        let Update::Known {
            pending, evicted, ..
        } = cache.heard(host(n), MAC, Heard::Other, &mut held, now)
        else {
            panic!("it was asked for");
        };
        assert_eq!(marks(&mut pool, pending), [0]);
        assert_eq!(evicted, n.checked_sub(2).map(host));
        assert_eq!(cache.known.len(), (n as usize + 3).min(4));
    }
    assert_eq!(cache.lookup(A, at(101)), Lookup::Found(MAC));
    assert_eq!(cache.lookup(B, at(101)), Lookup::Found(MAC));
    // Where all are held, the newcomer that has answered is not shut out.
    assert!(queue(&mut cache, &mut pool, C, 1, at(102)).0);
    let Update::Known {
        pending, evicted, ..
    } = cache.heard(C, MAC, Heard::Other, &mut |_| true, at(102))
    else {
        panic!("it was asked for");
    };
    assert_eq!(marks(&mut pool, pending), [1]);
    assert!(evicted.is_some());
    assert_eq!(cache.known.len(), 4);
}

/// Linux calls this time `locktime`.
#[test]
fn contradiction_within_a_second_is_not_believed() {
    let mut cache = Cache::new(8);
    assert!(is_noted(&mut cache, A, MAC, Heard::Request, at(0)));
    let forged = Instant::from_nanos(999_999_999);
    assert_eq!(
        hear(&mut cache, A, OTHER_MAC, Heard::Other, forged),
        Update::Locked
    );
    // It does not lengthen the time either.
    assert!(is_noted(&mut cache, A, OTHER_MAC, Heard::Other, at(1)));
    assert_eq!(cache.lookup(A, at(1)), Lookup::Found(OTHER_MAC));
    // The configuration is believed at any time.
    assert!(is_noted(&mut cache, A, MAC, Heard::Configured, at(1)));
    assert_eq!(cache.lookup(A, at(1)), Lookup::Found(MAC));
}

#[test]
fn all_fragments_of_a_datagram_wait_while_few_others_do() {
    let (mut cache, mut pool) = (Cache::new(8), Pool::new(256, 256));
    let may_wait = 2 * PENDING;
    let mut offer = |cache: &mut Cache<Ipv4Addr>, ip| {
        assert_eq!(cache.lookup(ip, at(0)), Lookup::Wait);
        let offered = frame(&mut pool, 1);
        let kept = cache.keep(ip, offered, may_wait, at(0));
        assert!(kept.refused.is_none());
        kept.dropped.count()
    };
    // RFC 791: 65,515 bytes of payload, in pieces of 1,480.
    for _ in 0..65_515_usize.div_ceil(1_480) {
        assert_eq!(offer(&mut cache, A), 0);
    }
    // Another one's do not fit beside them, but some of them do.
    let dropped: usize = (0..PENDING).map(|_| offer(&mut cache, B)).sum();
    assert_eq!(cache.waiting, may_wait / 2);
    assert_eq!(dropped, 45 + PENDING - may_wait / 2);
    for _ in 0..FEW {
        assert_eq!(offer(&mut cache, C), 0);
    }
    assert_eq!(offer(&mut cache, C), 1);
}

/// One that has more than a few waiting gives up two frames for the latest when all that may wait do.
#[test]
fn every_frame_that_makes_room_comes_back() {
    let (mut cache, mut pool) = (Cache::new(8), Pool::new(16, 256));
    let may_wait = 10;
    let mut offer = |cache: &mut Cache<Ipv4Addr>, ip, mark| {
        assert_eq!(cache.lookup(ip, at(0)), Lookup::Wait);
        let offered = frame(&mut pool, mark);
        let kept = cache.keep(ip, offered, may_wait, at(0));
        marks(&mut pool, kept.refused.into_iter().chain(kept.dropped))
    };
    for mark in 1..=5 {
        assert_eq!(offer(&mut cache, A, mark), []);
    }
    for (ip, mark) in [(B, 6), (B, 7), (C, 8), (C, 9), (C, 10)] {
        assert_eq!(offer(&mut cache, ip, mark), []);
    }
    assert_eq!(offer(&mut cache, A, 11), [1, 2]);
    assert_eq!(cache.waiting, may_wait - 1);
}

#[test]
fn frames_wait_within_their_limit() {
    let (mut cache, mut pool) = (Cache::new(8), Pool::new(16, 2048));
    let mut offer = |cache: &mut Cache<Ipv4Addr>, ip, mark, may_wait| {
        let offered = frame(&mut pool, mark);
        assert_eq!(cache.lookup(ip, at(0)), Lookup::Wait, "{ip} is known");
        let kept = cache.keep(ip, offered, may_wait, at(0));
        marks(&mut pool, kept.refused.into_iter().chain(kept.dropped))
    };
    for mark in 1..=3 {
        assert_eq!(offer(&mut cache, A, mark, 4), []);
    }
    assert_eq!(offer(&mut cache, B, 4, 4), []);
    // No room for a new address; for an old one, the latest frame stays.
    assert_eq!(offer(&mut cache, C, 5, 4), [5]);
    assert_eq!(offer(&mut cache, C, 6, 4), [6]);
    assert_eq!(offer(&mut cache, B, 7, 4), [4]);
    assert_eq!(offer(&mut cache, B, 8, 0), [8]);
    assert_eq!(cache.waiting, 4);
    let (pending, _) = answered(&mut cache, A, at(0));
    assert_eq!(marks(&mut pool, pending), [1, 2, 3]);
    assert_eq!(cache.waiting, 1);
    // An address of which no frame was kept fails as well.
    for second in 1..3 {
        poll(&mut cache, at(second));
    }
    let mut failed = Vec::new();
    for action in poll(&mut cache, at(3)) {
        if let Action::Fail(ip, frames) = action {
            failed.push((ip, marks(&mut pool, frames)));
        }
    }
    assert_eq!(failed, [(B, alloc::vec![7]), (C, Vec::new())]);
    assert_eq!(cache.waiting, 0);
}

#[test]
fn an_entry_that_has_ended_makes_room_for_its_successor() {
    let (mut cache, mut pool) = (Cache::new(2), Pool::new(8, 2048));
    assert!(is_noted(&mut cache, A, MAC, Heard::Request, at(0)));
    assert!(is_noted(&mut cache, B, MAC, Heard::Request, at(1000)));
    assert_eq!(cache.lookup(B, at(1000)), Lookup::Found(MAC));
    assert_eq!(cache.lookup(A, at(1199)), Lookup::Found(MAC));
    assert!(queue(&mut cache, &mut pool, A, 1, at(1200)).0);
    assert_eq!(cache.lookup(B, at(1200)), Lookup::Found(MAC));
}

#[derive(Clone, Debug)]
enum Step {
    Send(u8),
    Hear(u8, bool, bool),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u8..8).prop_map(Step::Send),
        2 => (0u8..8, any::<bool>(), any::<bool>())
            .prop_map(|(host, request, moved)| Step::Hear(host, request, moved)),
        3 => prop_oneof![0u64..3_000, 1_100_000u64..1_210_000].prop_map(Step::Wait),
    ]
}

proptest! {
    /// Frames that the cache holds and frames that came back are together all that it was given; it asks for no address twice within a
    /// second unless its entry was given up; it is never late.
    #[test]
    fn no_frame_is_lost_and_no_neighbour_pestered(
        steps in prop::collection::vec(step(), 1..150),
        may_wait in 0usize..12,
    ) {
        let (mut cache, mut pool) = (Cache::new(5), Pool::new(64, 2048));
        let mut now = at(1);
        let mut asked: Vec<(Ipv4Addr, Instant)> = Vec::new();
        let address = |host: u8| Ipv4Addr::new(10, 0, 0, host + 1);
        for step in steps {
            match step {
                Step::Send(host) => {
                    let ip = address(host);
                    let frame = frame(&mut pool, host);
                    if cache.lookup(ip, now) == Lookup::Wait {
                        let kept = cache.keep(ip, frame, may_wait, now);
                        let released = kept.refused.into_iter().chain(kept.dropped);
                        released.for_each(|frame| pool.release(frame.id));
                        asked.retain(|(ip, _)| cache.entries.contains_key(ip));
                        if kept.ask {
                            asked.push((ip, now));
                        }
                    } else {
                        pool.release(frame.id);
                    }
                }
                Step::Hear(host, request, moved) => {
                    let heard = if request { Heard::Request } else { Heard::Other };
                    let mac = if moved { OTHER_MAC } else { MAC };
                    let mut held = |ip: Ipv4Addr| ip.octets()[3].is_multiple_of(2);
                    match cache.heard(address(host), mac, heard, &mut held, now) {
                        Update::Known { pending, evicted, .. } => {
                            prop_assert!(evicted.is_none_or(|ip| !cache.entries.contains_key(&ip)));
                            pending.for_each(|frame| pool.release(frame.id));
                            asked.retain(|(ip, _)| *ip != address(host));
                        }
                        Update::Ignored | Update::Same | Update::Doubted | Update::Locked => {}
                    }
                    asked.retain(|(ip, _)| cache.entries.contains_key(ip));
                }
                Step::Wait(millis) => {
                    now = now + Duration::from_millis(millis);
                    for action in poll(&mut cache, now) {
                        match action {
                            Action::Fail(_, frames) => {
                                frames.for_each(|frame| pool.release(frame.id));
                            }
                            Action::Stale(ip) => prop_assert!(cache.entries.contains_key(&ip)),
                            Action::Gone(ip) | Action::Silent(ip) => prop_assert!(!cache.entries.contains_key(&ip)),
                            Action::Ask(ip) => {
                                let earlier = asked.iter().rfind(|(other, _)| *other == ip);
                                prop_assert!(earlier.is_none_or(|(_, then)| now - *then >= ASK_INTERVAL));
                                asked.push((ip, now));
                            }
                        }
                    }
                    prop_assert!(cache.next().is_none_or(|next| next > now));
                    prop_assert_eq!(poll(&mut cache, now), []);
                }
            }
            prop_assert!(cache.known.len() <= 5 && cache.asked.len() <= 5);
            prop_assert_eq!(cache.known.len() + cache.asked.len(), cache.entries.len());
            prop_assert_eq!(cache.wakes.len(), cache.entries.len());
            for (ip, entry) in &cache.entries {
                prop_assert!(entry.wake <= entry.deadline(Ipv4Addr::STALE));
                prop_assert!(cache.wakes.contains(&(entry.wake, *ip)));
            }
            let waiting: usize = cache
                .entries
                .values()
                .map(|entry| match &entry.state {
                    State::Incomplete { pending, .. } => pending.len(),
                    State::Known { .. } => 0,
                })
                .sum();
            prop_assert_eq!(waiting + pool.available(), pool.capacity());
            prop_assert_eq!(waiting, cache.waiting);
            prop_assert!(waiting <= may_wait);
        }
        for _ in 0..=TRIES {
            now = now + ASK_INTERVAL;
            for action in poll(&mut cache, now) {
                if let Action::Fail(_, frames) = action {
                    frames.for_each(|frame| pool.release(frame.id));
                }
            }
        }
        prop_assert_eq!(pool.available(), pool.capacity());
    }
}

/// Link addresses that are certain until a time are those that lookups find until then, without a trace.
#[test]
fn certain_addresses_are_those_that_lookups_find_and_leave_as_they_are() {
    let stale = at(REACHABLE.as_secs());
    let just_before = |until: Instant| Instant::from_nanos(until.as_nanos() - 1);
    let mut cache = Cache::new(4);
    assert_eq!(cache.certain(A, at(0)), None);
    let mut pool = Pool::new(8, 2048);
    assert!(queue(&mut cache, &mut pool, B, 1, at(0)).0);
    assert_eq!(cache.certain(B, at(0)), None, "it is asked for");
    let _ = hear(&mut cache, A, MAC, Heard::Request, at(0));
    assert_eq!(cache.certain(A, at(0)), None, "nobody has used it");

    let looks = |cache: &mut Cache<Ipv4Addr>, now| {
        assert_eq!(cache.lookup(A, now), Lookup::Found(MAC));
        let (mac, until) = cache.certain(A, now).unwrap();
        assert_eq!(mac, MAC);
        let before = alloc::format!("{cache:?}");
        assert_eq!(cache.lookup(A, just_before(until)), Lookup::Found(MAC));
        assert_eq!(alloc::format!("{cache:?}"), before);
        // Then a lookup says something else, or leaves a trace.
        let found = cache.lookup(A, until);
        assert!(found == Lookup::Wait || alloc::format!("{cache:?}") != before);
        until
    };
    assert_eq!(looks(&mut cache, at(5)), at(6));
    let soon = Instant::from_nanos(stale.as_nanos() - 1_000);
    assert_eq!(looks(&mut cache, soon), stale);
    // It is asked for by now.
    assert_eq!(looks(&mut cache, stale), soon + USE_INTERVAL);
    let end = stale + STALE;
    let soon = Instant::from_nanos(end.as_nanos() - 1_000);
    assert_eq!(looks(&mut cache, soon), end);
    // A stale one that nobody has asked for would be.
    let _ = hear(&mut cache, C, MAC, Heard::Configured, at(0));
    assert_eq!(cache.certain(C, stale), None);
}
