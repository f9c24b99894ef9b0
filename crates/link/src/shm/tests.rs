use super::*;
use proptest::prelude::*;
use std::thread;
use tollgate_checksum::Partial;
use tollgate_stack::buffer::{PAYLOAD_OFFSET, RxChecksum};

fn pool() -> Pool {
    Pool::new(256, 2048)
}

fn links(config: Config, kernel: Option<Kernel>) -> (Segment, ShmLink, ShmLink) {
    let segment = Segment::create(config).unwrap();
    let [a, b] = [Side::A, Side::B].map(|side| ShmLink::new(&segment, side, kernel).unwrap());
    (segment, a, b)
}

fn bytes(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number * 37 + at * 11) as u8).collect()
}

/// Sends one frame; what the link did not take is given back.
fn send(link: &mut ShmLink, pool: &mut Pool, bytes: &[u8]) -> bool {
    let mut burst = vec![pool.frame_from(bytes).unwrap()];
    link.transmit(pool, &mut burst);
    let taken = burst.is_empty();
    burst.into_iter().for_each(|frame| pool.release(frame.id));
    taken
}

fn receive(link: &mut ShmLink, pool: &mut Pool) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    link.receive(pool, &mut frames);
    let read = |frame: Frame| {
        let bytes = pool.frame(&frame).to_vec();
        pool.release(frame.id);
        bytes
    };
    frames.into_iter().map(read).collect()
}

#[test]
fn frames_of_all_sizes_arrive_summed_and_placed_for_the_copy() {
    for kernel in [None, Some(Kernel::HALFWORD), Some(Kernel::best())] {
        let (_segment, mut a, mut b) = links(Config::default(), kernel);
        let mut pool = pool();
        for len in MIN_FRAME..=1514 {
            let sent = bytes(len, len);
            assert!(send(&mut a, &mut pool, &sent));
            let mut frames = Vec::new();
            b.receive(&mut pool, &mut frames);
            let frame = frames.pop().unwrap();
            assert_eq!(pool.frame(&frame), sent);
            assert_eq!(usize::from(frame.offset) + 66, PAYLOAD_OFFSET);
            match (frame.checksum, kernel) {
                (RxChecksum::Complete(sum), Some(_)) => {
                    let expected = Kernel::HALFWORD.sum(&sent[SUMMED_FROM..]);
                    assert_eq!(sum.finish(), expected.finish(), "{len} bytes");
                }
                (checksum, kernel) => {
                    assert_eq!(checksum, RxChecksum::Unknown);
                    assert!(kernel.is_none() || len < SUMMED_FROM);
                }
            }
            pool.release(frame.id);
        }
        assert_eq!(pool.available(), 256);
        assert_eq!((a.stats().sent, b.stats().received), (1501, 1501));
    }
}

#[test]
fn nothing_behind_the_header_sums_to_nothing() {
    let (_segment, mut a, mut b) = links(Config::default(), Some(Kernel::best()));
    let mut pool = pool();
    send(&mut a, &mut pool, &[7; SUMMED_FROM]);
    let mut frames = Vec::new();
    b.receive(&mut pool, &mut frames);
    assert_eq!(frames[0].checksum, RxChecksum::Complete(Partial::ZERO));
}

#[test]
fn bad_sizes_are_counted_and_given_back() {
    let (_segment, mut a, mut b) = links(Config::default(), None);
    let mut pool = pool();
    for len in [0, 13, 1515, 2000] {
        assert!(send(&mut a, &mut pool, &bytes(1, len)));
    }
    assert_eq!((a.stats().bad_size, a.stats().sent), (4, 0));
    assert_eq!(pool.available(), 256);
    assert!(receive(&mut b, &mut pool).is_empty());
    assert_eq!(a.mtu(), 1500);
}

#[test]
fn a_full_ring_leaves_frames_with_the_sender() {
    let (_segment, mut a, mut b) = links(
        Config {
            slots: 4,
            ..Config::default()
        },
        None,
    );
    let mut pool = pool();
    let mut burst: Vec<_> = (0..6)
        .map(|number| pool.frame_from(&bytes(number, 60)).unwrap())
        .collect();
    a.transmit(&mut pool, &mut burst);
    assert_eq!(burst.len(), 2);
    assert_eq!(a.stats().full, 1);
    assert_eq!(a.wait(Duration::ZERO), WaitOutcome::TimedOut);
    assert_eq!(
        receive(&mut b, &mut pool),
        [0, 1, 2, 3].map(|number| bytes(number, 60))
    );
    assert_eq!(a.wait(Duration::ZERO), WaitOutcome::Ready);
    a.transmit(&mut pool, &mut burst);
    assert!(burst.is_empty());
    assert_eq!(a.wait(Duration::ZERO), WaitOutcome::TimedOut);
    assert_eq!(
        receive(&mut b, &mut pool),
        [4, 5].map(|number| bytes(number, 60))
    );
}

#[test]
fn an_empty_pool_leaves_frames_in_the_ring() {
    let (_segment, mut a, mut b) = links(Config::default(), None);
    let mut ample = pool();
    (0..3).for_each(|number| assert!(send(&mut a, &mut ample, &bytes(number, 60))));
    let mut scarce = Pool::new(2, 2048);
    let mut frames = Vec::new();
    b.receive(&mut scarce, &mut frames);
    assert_eq!((frames.len(), b.stats().no_frame), (2, 1));
    frames.drain(..).for_each(|frame| scarce.release(frame.id));
    assert_eq!(receive(&mut b, &mut scarce), [bytes(2, 60)]);
}

#[test]
fn half_of_the_reserve_stays_when_frames_arrive() {
    let (_segment, mut a, mut b) = links(Config::default(), None);
    let mut ample = pool();
    (0..80).for_each(|number| assert!(send(&mut a, &mut ample, &bytes(number, 60))));
    // Of 64 frames 8 are the reserve.
    let mut scarce = Pool::new(64, 2048);
    let mut taken = Vec::new();
    for _ in 0..3 {
        b.receive(&mut scarce, &mut taken);
    }
    assert_eq!((taken.len(), scarce.available()), (60, 4));
    assert_eq!(b.stats().no_frame, 2);
    // What is not taken stays in the ring, in order.
    let first = taken.remove(0);
    scarce.release(first.id);
    assert_eq!(receive(&mut b, &mut scarce), [bytes(60, 60)]);
    taken.drain(..).for_each(|frame| scarce.release(frame.id));
    assert_eq!(receive(&mut b, &mut scarce).len(), 19);
    assert_eq!(scarce.available(), 64);
}

#[test]
fn wait_pauses_while_the_pool_has_no_frame_to_spare() {
    for waiting in [Waiting::BusyPoll, Waiting::Sleep] {
        let config = Config {
            waiting,
            ..Config::default()
        };
        let (_segment, mut a, mut b) = links(config, None);
        let mut ample = pool();
        (0..2).for_each(|number| assert!(send(&mut a, &mut ample, &bytes(number, 60))));
        let mut scarce = Pool::new(1, 2048);
        let held = scarce.alloc().unwrap();
        assert_eq!(b.wait(Duration::ZERO), WaitOutcome::Ready);
        assert_eq!(receive(&mut b, &mut scarce).len(), 0);
        // Not at once again, but soon: nobody says when a frame comes free.
        assert_eq!(b.wait(Duration::ZERO), WaitOutcome::TimedOut);
        assert_eq!(b.wait(Duration::from_secs(3600)), WaitOutcome::Ready);
        // What was sent before the peer closed still counts.
        drop(a);
        assert_eq!(b.wait(Duration::from_secs(3600)), WaitOutcome::Ready);
        scarce.release(held);
        assert_eq!(receive(&mut b, &mut scarce), [bytes(0, 60)]);
        assert_eq!(b.wait(Duration::from_secs(3600)), WaitOutcome::Ready);
        assert_eq!(receive(&mut b, &mut scarce), [bytes(1, 60)]);
        assert_eq!(b.wait(Duration::ZERO), WaitOutcome::PeerGone);
    }
}

#[test]
fn frames_that_the_pool_cannot_hold_are_lost_and_counted() {
    let (_segment, mut a, mut b) = links(
        Config {
            mtu: 9000,
            ..Config::default()
        },
        None,
    );
    let mut large = Pool::new(4, Pool::frame_size_for(9000));
    assert!(send(&mut a, &mut large, &bytes(1, 9014)));
    assert!(send(&mut a, &mut large, &bytes(2, 60)));
    assert_eq!(receive(&mut b, &mut pool()), [bytes(2, 60)]);
    assert_eq!(b.stats().bad_length, 1);
}

#[test]
fn a_burst_is_bounded() {
    let (_segment, mut a, mut b) = links(Config::default(), None);
    let mut pool = pool();
    (0..40).for_each(|number| assert!(send(&mut a, &mut pool, &bytes(number, 60))));
    assert_eq!(receive(&mut b, &mut pool).len(), BURST);
    assert_eq!(receive(&mut b, &mut pool).len(), 40 - BURST);
}

#[test]
fn a_side_is_taken_once() {
    let (segment, a, _b) = links(Config::default(), None);
    let by = std::process::id();
    let again = ShmLink::new(&segment, Side::A, None);
    assert_eq!(again.err(), Some(ClaimError::Taken { side: Side::A, by }));
    drop(a);
    assert!(ShmLink::new(&segment, Side::A, None).is_err());
}

#[test]
fn a_side_is_taken_once_whatever_the_peer_writes() {
    let (segment, _a, _b) = links(Config::default(), None);
    for side in [Side::A, Side::B] {
        segment.words(side).owner.store(0, Ordering::Release);
        let by = std::process::id();
        let again = ShmLink::new(&segment, side, None);
        assert_eq!(again.err(), Some(ClaimError::Taken { side, by }));
    }
}

#[test]
fn a_closed_side_is_seen_after_what_it_sent() {
    for waiting in [Waiting::BusyPoll, Waiting::Sleep] {
        let (_segment, mut a, mut b) = links(
            Config {
                waiting,
                slots: 2,
                ..Config::default()
            },
            None,
        );
        let mut pool = pool();
        assert!(!b.peer_closed() && b.peer_alive());
        send(&mut a, &mut pool, &bytes(1, 60));
        drop(a);
        assert!(b.peer_closed());
        assert_eq!(b.wait(Duration::from_secs(60)), WaitOutcome::Ready);
        assert_eq!(receive(&mut b, &mut pool), [bytes(1, 60)]);
        assert_eq!(b.wait(Duration::from_secs(60)), WaitOutcome::PeerGone);
        // Nobody will ever make room: what does not fit is given back.
        (0..3).for_each(|number| assert!(send(&mut b, &mut pool, &bytes(number, 60))));
        assert_eq!((b.stats().sent, b.stats().unwanted), (2, 1));
        assert_eq!(pool.available(), 256);
    }
}

#[test]
fn waiting_ends_with_the_time_given() {
    for waiting in [Waiting::BusyPoll, Waiting::Sleep] {
        let (_segment, a, _b) = links(
            Config {
                waiting,
                ..Config::default()
            },
            None,
        );
        assert_eq!(a.wait(Duration::from_millis(2)), WaitOutcome::TimedOut);
    }
}

#[test]
fn a_process_that_has_ended_is_noticed() {
    for waiting in [Waiting::BusyPoll, Waiting::Sleep] {
        let segment = Segment::create(Config {
            waiting,
            ..Config::default()
        })
        .unwrap();
        let a = ShmLink::new(&segment, Side::A, None).unwrap();
        assert!(a.peer_alive(), "nobody has taken the side");
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        segment
            .words(Side::B)
            .owner
            .store(child.id(), Ordering::Release);
        assert!(a.peer_alive());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!a.peer_alive());
        // By many short waits, and by a long one.
        for timeout in [Duration::ZERO, Duration::from_millis(1)] {
            let gone = |_| {
                thread::sleep(Duration::from_micros(100));
                a.wait(timeout) == WaitOutcome::PeerGone
            };
            assert!((0..100_000).any(gone), "{timeout:?}");
        }
        assert_eq!(a.wait(Duration::from_secs(60)), WaitOutcome::PeerGone);
    }
}

/// Ping-pong of two threads that sleep: a wake-up that is lost shows as a time-out.
#[test]
fn no_wakeup_is_lost() {
    let (_segment, mut a, mut b) = links(
        Config {
            waiting: Waiting::Sleep,
            slots: 2,
            ..Config::default()
        },
        None,
    );
    const COUNT: usize = 5000;
    let bounce = |link: &mut ShmLink, first: bool| {
        let mut pool = Pool::new(8, 2048);
        for number in 0..COUNT {
            if first {
                assert!(send(link, &mut pool, &bytes(number, 60)));
            }
            while link.receive.is_empty() {
                assert_eq!(link.wait(Duration::from_secs(30)), WaitOutcome::Ready);
            }
            assert_eq!(receive(link, &mut pool), [bytes(number, 60)]);
            if !first {
                assert!(send(link, &mut pool, &bytes(number, 60)));
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| bounce(&mut b, false));
        bounce(&mut a, true);
    });
}

/// One way through a ring of two slots: both sides sleep, one for frames, the other for room.
#[test]
fn a_sender_that_waits_for_room_is_woken() {
    const COUNT: usize = 5000;
    let (_segment, mut a, mut b) = links(
        Config {
            waiting: Waiting::Sleep,
            slots: 2,
            ..Config::default()
        },
        None,
    );
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut pool = Pool::new(8, 2048);
            let mut burst = Vec::new();
            let mut made = 0;
            while made < COUNT || !burst.is_empty() {
                while made < COUNT && burst.len() < 4 {
                    burst.push(pool.frame_from(&bytes(made, 60)).unwrap());
                    made += 1;
                }
                a.transmit(&mut pool, &mut burst);
                if !burst.is_empty() {
                    assert_eq!(a.wait(Duration::from_secs(30)), WaitOutcome::Ready);
                }
            }
        });
        let mut pool = Pool::new(8, 2048);
        let mut number = 0;
        while number < COUNT {
            assert_eq!(b.wait(Duration::from_secs(30)), WaitOutcome::Ready);
            for arrived in receive(&mut b, &mut pool) {
                assert_eq!(arrived, bytes(number, 60));
                number += 1;
            }
        }
    });
}

#[test]
fn an_index_out_of_range_ends_the_link_without_harm() {
    let (segment, mut a, _b) = links(
        Config {
            slots: 2,
            ..Config::default()
        },
        None,
    );
    let mut pool = pool();
    // The index of what B consumed lies in B's third pair of lines.
    segment.scribble(128 * 6, &u64::MAX.to_ne_bytes());
    (0..5).for_each(|number| assert!(send(&mut a, &mut pool, &bytes(number, 60))));
    assert!(a.stats().broken && a.peer_closed());
    assert_eq!((a.stats().sent, a.stats().unwanted), (2, 3));
    assert_eq!(pool.available(), 256);
    assert_eq!(a.wait(Duration::from_secs(60)), WaitOutcome::PeerGone);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Any bytes that a peer writes: this side neither panics nor hangs, gives no frame that is longer than the link's, and loses
    /// no pool frame.
    #[test]
    fn a_hostile_peer_does_no_harm(
        rounds in proptest::collection::vec(
            (proptest::collection::vec((0usize..10_000, proptest::collection::vec(any::<u8>(), 1..40)), 0..6), 0usize..6),
            1..12,
        ),
        words in proptest::collection::vec((0u64..8, 0u64..5, any::<u16>()), 0..8),
        sleep: bool,
    ) {
        let waiting = if sleep { Waiting::Sleep } else { Waiting::BusyPoll };
        let (segment, mut a, mut b) = links(Config { mtu: 400, slots: 4, waiting }, Some(Kernel::best()));
        let mut pool = pool();
        // Plausible words with any length, in the ring that A reads.
        for (turn, slot, len) in words {
            let slots_from_b = 4096 + 4096;
            let word = turn << 32 | u64::from(len);
            segment.scribble(slots_from_b + slot as usize % 4 * 448, &word.to_ne_bytes());
        }
        for (writes, count) in rounds {
            for (offset, bytes) in writes {
                // The first page holds the indices: hit it more often.
                let offset = if offset < 6000 { offset % 1024 } else { offset };
                segment.scribble(offset.min(segment.size() - bytes.len()), &bytes);
            }
            for number in 0..count {
                send(&mut a, &mut pool, &bytes(number, 60 + number));
                send(&mut b, &mut pool, &bytes(number, 60 + number));
            }
            for bytes in receive(&mut a, &mut pool) {
                prop_assert!((MIN_FRAME..=414).contains(&bytes.len()));
            }
            a.wait(Duration::ZERO);
            a.peer_alive();
        }
        prop_assert_eq!(pool.available(), 256);
    }
}
