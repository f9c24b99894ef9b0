use super::free::AHEAD;
use super::*;
use proptest::prelude::*;

#[test]
fn frames_are_counted_and_come_back() {
    let mut pool = Pool::new(2, 2048);
    let a = pool.alloc().unwrap();
    let b = pool.alloc().unwrap();
    assert_ne!(a, b);
    assert_eq!(pool.alloc(), None);
    pool.retain(a);
    assert!(pool.is_shared(a));
    pool.release(a);
    assert_eq!(pool.available(), 0);
    pool.release(a);
    pool.release(b);
    assert_eq!(pool.available(), 2);
}

/// The order in which segments were sent is told by it: what was sent at one time must not seem to be sent at another later on.
#[test]
fn last_transmission_has_one_time_whenever_it_is_asked_for() {
    let at = |ns: u64| Instant::from_nanos(ns);
    let mut pool = Pool::new(1, 2048);
    let id = pool.alloc().unwrap();
    let meta = pool.meta_mut(id);
    meta.sent_once_at = NonZeroU64::new((1 << 40) + 77);
    for later in 0..200 {
        assert_eq!(meta.last_sent_ns(at((1 << 41) + later)), (1 << 40) + 64);
    }
    meta.send_again_at(at((1 << 41) + 77));
    for later in 0..200 {
        let now = at((1 << 41) + 1_000_000 + later);
        assert_eq!(meta.last_sent_ns(now), (1 << 41) + 64);
    }
}

#[test]
fn a_frame_is_taken_with_its_head_and_payload_and_put_behind_the_last() {
    let mut pool = Pool::new(16, 2048);
    let first = pool.take::<66>(FrameId::NONE, 3).unwrap();
    let tail = first.id;
    first.meta.refs = 1;
    first.meta.tx_next = FrameId::NONE;
    first.head.fill(1);
    first.payload.copy_from_slice(&[2; 3]);
    let second = pool.take_for_sending::<0>(tail, 0).unwrap();
    let id = second.id;
    second.meta.refs = 1;
    assert_eq!(pool.meta(tail).tx_next, id);
    assert_eq!(
        pool.bytes(tail)[PAYLOAD_OFFSET - 66..PAYLOAD_OFFSET],
        [1; 66]
    );
    assert_eq!(pool.bytes(tail)[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 3], [2; 3]);
    assert_eq!(pool.available(), 14);

    // More than the region holds, or the reserve: nothing is taken, and the last frame still is.
    assert!(pool.take::<0>(id, usize::MAX / 2).is_none());
    assert_eq!(pool.available(), 14);
    while let Some(taken) = pool.take_for_sending::<0>(FrameId::NONE, 1) {
        taken.meta.refs = 1;
    }
    assert!(pool.is_low() && pool.available() > 0);
    assert!(pool.take::<0>(FrameId::NONE, 1).is_some());
    pool.release(tail);
    pool.release(id);
}

#[test]
fn what_comes_free_is_not_sent_at_once() {
    let mut pool = Pool::new(64, 2048);
    let mut send = || {
        let taken = pool.take_for_sending::<66>(FrameId::NONE, 1).unwrap();
        taken.meta.refs = 1;
        let id = taken.id;
        pool.release(id);
        id
    };
    let sent: Vec<FrameId> = (0..3 * AHEAD).map(|_| send()).collect();
    for ids in sent.windows(AHEAD) {
        assert!(ids[1..].iter().all(|id| *id != ids[0]));
    }
    // Few frames take turns: they stay in the caches.
    assert_eq!(sent[AHEAD + 1..2 * AHEAD + 2], sent[..AHEAD + 1]);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc,
    Take,
    Send,
    Release(usize),
}

proptest! {
    /// Whoever takes them and in whatever order they come back: no frame is taken twice, and each that is free can be had,
    /// the reserve apart.
    #[test]
    fn every_free_frame_can_be_had(
        frames in 1usize..24,
        steps in prop::collection::vec(
            prop_oneof![
                1 => Just(Step::Alloc),
                1 => Just(Step::Take),
                2 => Just(Step::Send),
                2 => (0usize..24).prop_map(Step::Release),
            ],
            1..120,
        ),
    ) {
        let mut pool = Pool::new(frames, 2048);
        let mut held: Vec<FrameId> = Vec::new();
        for step in steps {
            let free = frames - held.len();
            prop_assert_eq!(pool.available(), free);
            let counted = |taken: Taken<'_, 66>| {
                taken.meta.refs = 1;
                taken.id
            };
            let (got, expected) = match step {
                Step::Alloc => (pool.alloc(), free > 0),
                Step::Take => (pool.take(FrameId::NONE, 1).map(counted), free > 0),
                Step::Send => {
                    let low = pool.is_low();
                    (pool.take_for_sending(FrameId::NONE, 1).map(counted), !low)
                }
                Step::Release(at) => {
                    if !held.is_empty() {
                        pool.release(held.swap_remove(at % held.len()));
                    }
                    continue;
                }
            };
            prop_assert_eq!(got.is_some(), expected);
            if let Some(id) = got {
                prop_assert!(!held.contains(&id));
                held.push(id);
            }
        }
    }
}

#[test]
fn buffers_do_not_exceed_their_frame() {
    let mut pool = Pool::new(1, 2048);
    assert_eq!(pool.buffer(2048 - PAYLOAD_OFFSET + 1), Err(NoFrame));
    let mut buffer = pool.buffer(5).unwrap();
    pool.payload_mut(&mut buffer).copy_from_slice(b"hello");
    assert_eq!(pool.payload(&buffer), b"hello");
    pool.free(buffer);
    assert_eq!(pool.available(), 1);
    assert_eq!(pool.frame_from(&[0; 2049]), Err(NoFrame));
}

#[test]
fn frame_sizes_hold_the_mtu() {
    assert_eq!(Pool::frame_size_for(1500), 2048);
    assert!(Pool::frame_size_for(9000) >= 9000 + PAYLOAD_OFFSET);
}
