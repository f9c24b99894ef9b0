use super::*;
use crate::Side;
use crate::memory::Memory;
use proptest::prelude::*;
use std::num::NonZeroU64;

const MS: Duration = Duration::from_millis(1);

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn pool() -> Pool {
    Pool::new(4096, 2048)
}

/// Sends one frame of `len` bytes for each number, its first four bytes the number.
fn send<L: Link>(
    link: &mut L,
    pool: &mut Pool,
    numbers: impl IntoIterator<Item = u32>,
    len: usize,
) {
    for number in numbers {
        let mut bytes = vec![0x55; len];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        let mut burst = vec![pool.frame_from(&bytes).unwrap()];
        link.transmit(pool, &mut burst);
        assert!(burst.is_empty());
    }
}

fn receive<L: Link>(link: &mut L, pool: &mut Pool) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    loop {
        let before = frames.len();
        link.receive(pool, &mut frames);
        if frames.len() == before {
            break;
        }
    }
    let read = |frame: Frame| {
        let bytes = pool.frame(&frame).to_vec();
        pool.release(frame.id);
        bytes
    };
    frames.into_iter().map(read).collect()
}

fn numbers(frames: &[Vec<u8>]) -> Vec<u32> {
    frames
        .iter()
        .map(|bytes| u32::from_be_bytes(bytes[..4].try_into().unwrap()))
        .collect()
}

/// Sends `count` frames of 100 bytes through `faults` at time 0, then lets time pass until none is held.
fn run(faults: Faults, seed: u64, count: u32) -> (Vec<Vec<u8>>, Stats) {
    let mut pool = pool();
    let mut cable = Memory::with_capacity(1500, 4096);
    let mut fault = Fault::on_transmit(cable.end(Side::A), faults, seed);
    send(&mut fault, &mut pool, 0..count, 100);
    while let Some(next) = fault.next_event() {
        fault.set_now(next);
        fault.poll(&mut pool);
    }
    let stats = *fault.stats();
    assert_eq!(fault.held(), 0);
    let arrived = receive(&mut cable.end(Side::B), &mut pool);
    assert_eq!(pool.available(), pool.capacity());
    (arrived, stats)
}

fn half() -> Probability {
    Probability::new(0.5).unwrap()
}

#[test]
fn without_faults_everything_passes_in_order() {
    let (arrived, stats) = run(Faults::default(), 1, 50);
    assert_eq!(numbers(&arrived), (0..50).collect::<Vec<_>>());
    assert_eq!(
        stats,
        Stats {
            offered: 50,
            passed: 50,
            ..Stats::default()
        }
    );
}

#[test]
fn drops_about_as_many_as_it_should() {
    let faults = Faults {
        drop: Probability::new(0.1).unwrap(),
        ..Faults::default()
    };
    let (arrived, stats) = run(faults, 7, 4000);
    assert_eq!(arrived.len() as u64, 4000 - stats.dropped);
    // Six standard deviations of a binomial distribution; the seed is fixed.
    assert!(stats.dropped.abs_diff(400) < 114, "{}", stats.dropped);
    let (arrived, stats) = run(
        Faults {
            drop: Probability::ALWAYS,
            ..Faults::default()
        },
        7,
        9,
    );
    assert!(arrived.is_empty());
    assert_eq!(stats.dropped, 9);
}

#[test]
fn one_fault_does_not_change_the_decisions_of_another() {
    let alone = run(
        Faults {
            drop: half(),
            ..Faults::default()
        },
        3,
        200,
    )
    .0;
    let faults = Faults {
        drop: half(),
        truncate: half(),
        corrupt: half(),
        corrupt_at: Corrupt::From(20),
        ..Faults::default()
    };
    let together = run(
        Faults {
            truncate: Probability::NEVER,
            ..faults
        },
        3,
        200,
    )
    .0;
    assert_eq!(numbers(&alone), numbers(&together));
    assert_eq!(run(faults, 3, 200).1.dropped, 200 - alone.len() as u64);
}

#[test]
fn duplicates_are_copies_in_frames_of_their_own() {
    let mut pool = pool();
    let mut cable = Memory::new(1500);
    let faults = Faults {
        duplicate: Probability::ALWAYS,
        ..Faults::default()
    };
    let mut fault = Fault::on_transmit(cable.end(Side::A), faults, 1);
    send(&mut fault, &mut pool, [9], 64);
    assert_eq!(fault.stats().duplicated, 1);
    let mut frames = Vec::new();
    cable.end(Side::B).receive(&mut pool, &mut frames);
    assert_eq!(frames.len(), 2);
    assert_ne!(frames[0].id, frames[1].id);
    assert_eq!(pool.frame(&frames[0]), pool.frame(&frames[1]));
}

#[test]
fn corruption_spares_what_the_sender_keeps() {
    let mut pool = pool();
    let mut cable = Memory::new(1500);
    let faults = Faults {
        corrupt: Probability::ALWAYS,
        corrupt_at: Corrupt::From(66),
        ..Faults::default()
    };
    let mut fault = Fault::on_transmit(cable.end(Side::A), faults, 1);
    let frame = pool.frame_from(&[0; 100]).unwrap();
    pool.retain(frame.id);
    let kept = Frame { ..frame };
    fault.transmit(&mut pool, &mut vec![frame]);
    let mut arrived = Vec::new();
    cable.end(Side::B).receive(&mut pool, &mut arrived);
    assert_eq!(pool.frame(&kept), [0; 100]);
    assert!(!pool.is_shared(kept.id));
    let damaged = pool.frame(&arrived[0]);
    assert_eq!(damaged[..66], [0; 66]);
    assert!((1..=3).contains(&damaged.iter().map(|byte| byte.count_ones()).sum::<u32>()));
}

#[test]
fn damage_takes_back_what_a_link_said_about_the_checksum() {
    for faults in [
        Faults {
            corrupt: Probability::ALWAYS,
            ..Faults::default()
        },
        Faults {
            truncate: Probability::ALWAYS,
            ..Faults::default()
        },
    ] {
        let mut pool = pool();
        let mut cable = Memory::new(1500);
        let frame = pool.frame_from(&[0; 100]).unwrap();
        cable.end(Side::A).transmit(
            &mut pool,
            &mut vec![Frame {
                checksum: RxChecksum::Verified,
                ..frame
            }],
        );
        let mut fault = Fault::on_receive(cable.end(Side::B), faults, 1);
        let mut arrived = Vec::new();
        fault.receive(&mut pool, &mut arrived);
        assert_eq!(arrived[0].checksum, RxChecksum::Unknown);
        assert!(arrived[0].len < 100 || pool.frame(&arrived[0]) != [0; 100]);
        assert_eq!(fault.stats().corrupted + fault.stats().truncated, 1);
    }
}

#[test]
fn short_frames_escape_corruption_of_the_payload() {
    let faults = Faults {
        corrupt: Probability::ALWAYS,
        corrupt_at: Corrupt::From(100),
        ..Faults::default()
    };
    let (arrived, stats) = run(faults, 1, 5);
    assert_eq!(arrived.len(), 5);
    assert_eq!(stats.corrupted, 0);
    assert!(
        arrived
            .iter()
            .all(|bytes| bytes[4..].iter().all(|&byte| byte == 0x55))
    );
}

#[test]
fn truncation_keeps_between_one_byte_and_all_but_one() {
    let (arrived, stats) = run(
        Faults {
            truncate: Probability::ALWAYS,
            ..Faults::default()
        },
        1,
        2000,
    );
    assert_eq!(stats.truncated, 2000);
    let lengths = arrived.iter().map(Vec::len);
    assert_eq!((lengths.clone().min(), lengths.max()), (Some(1), Some(99)));
}

#[test]
fn delay_holds_each_frame_and_keeps_the_order() {
    let mut pool = pool();
    let mut cable = Memory::new(1500);
    let faults = Faults {
        delay: 5 * MS,
        jitter: 4 * MS,
        ..Faults::default()
    };
    let mut fault = Fault::on_transmit(cable.end(Side::A), faults, 1);
    send(&mut fault, &mut pool, 0..20, 60);
    assert_eq!(fault.held(), 20);
    let first = fault.next_event().unwrap();
    assert!((at(5)..=at(9)).contains(&first));
    fault.set_now(Instant::from_nanos(first.as_nanos() - 1));
    fault.poll(&mut pool);
    assert_eq!(fault.held(), 20);
    fault.set_now(at(9));
    fault.set_now(at(3));
    fault.poll(&mut pool);
    assert_eq!(fault.next_event(), None);
    let arrived = receive(&mut cable.end(Side::B), &mut pool);
    assert_eq!(numbers(&arrived), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_held_frame_is_not_the_senders_any_more() {
    let mut pool = pool();
    let mut cable = Memory::new(1500);
    let mut fault = Fault::on_transmit(
        cable.end(Side::A),
        Faults {
            delay: MS,
            ..Faults::default()
        },
        1,
    );
    let frame = pool.frame_from(&[1; 60]).unwrap();
    let id = frame.id;
    pool.retain(id);
    fault.transmit(&mut pool, &mut vec![frame]);
    assert!(!pool.is_shared(id));
    pool.bytes_mut(id).fill(2);
    fault.set_now(at(1));
    fault.poll(&mut pool);
    assert_eq!(receive(&mut cable.end(Side::B), &mut pool), [vec![1; 60]]);
}

#[test]
fn an_empty_pool_loses_frames_and_says_so() {
    let mut pool = Pool::new(1, 2048);
    let mut cable = Memory::new(1500);
    let faults = Faults {
        duplicate: Probability::ALWAYS,
        delay: MS,
        ..Faults::default()
    };
    let mut fault = Fault::on_transmit(cable.end(Side::A), faults, 1);
    let frame = pool.frame_from(&[1; 60]).unwrap();
    let id = frame.id;
    pool.retain(id);
    fault.transmit(&mut pool, &mut vec![frame]);
    assert_eq!(fault.stats().starved, 2);
    assert_eq!(fault.held(), 0);
    pool.release(id);
    assert_eq!(pool.available(), 1);
}

#[test]
fn held_frames_leave_the_pool_what_receiving_needs() {
    let delay = Faults {
        delay: MS,
        ..Faults::default()
    };
    let reorder = Faults {
        reorder: Probability::ALWAYS,
        reorder_by: Reorder::Frames(9, MS),
        ..Faults::default()
    };
    for faults in [delay, reorder] {
        // Of 64 frames 8 are the reserve.
        let mut pool = Pool::new(64, 2048);
        let mut cable = Memory::with_capacity(1500, 64);
        let mut fault = Fault::on_transmit(cable.end(Side::A), faults, 1);
        while let Ok(frame) = pool.frame_from(&[1; 60]) {
            fault.transmit(&mut pool, &mut vec![frame]);
            if fault.stats().offered == 100 {
                break;
            }
        }
        // Half of it is left to those who receive, and to the frame that would be held as the next.
        assert_eq!((fault.held(), pool.available()), (59, 5));
        assert_eq!(fault.stats().starved, 41);
        let received = pool.alloc_for_receive().unwrap();
        pool.release(received);
        fault.set_now(at(5));
        fault.poll(&mut pool);
        assert_eq!(fault.held(), 0);
        assert_eq!(receive(&mut cable.end(Side::B), &mut pool).len(), 59);
        assert_eq!(pool.available(), 64);
    }
}

#[test]
fn one_frame_at_a_time_is_held_when_the_pool_is_scarce() {
    let mut pool = Pool::new(64, 2048);
    let held: Vec<_> = (0..61).map(|_| pool.alloc().unwrap()).collect();
    let mut cable = Memory::new(1500);
    let faults = Faults {
        delay: MS,
        ..Faults::default()
    };
    let mut fault = Fault::on_transmit(cable.end(Side::A), faults, 1);
    send(&mut fault, &mut pool, 0..3, 60);
    assert_eq!((fault.held(), fault.stats().starved), (1, 2));
    fault.set_now(at(1));
    send(&mut fault, &mut pool, 3..5, 60);
    assert_eq!((fault.held(), fault.stats().starved), (1, 3));
    fault.set_now(at(2));
    fault.poll(&mut pool);
    let arrived = receive(&mut cable.end(Side::B), &mut pool);
    assert_eq!(numbers(&arrived), [0, 3]);
    held.into_iter().for_each(|id| pool.release(id));
    assert_eq!(pool.available(), 64);
}

#[test]
fn copies_leave_the_pool_half_of_its_reserve() {
    let faults = Faults {
        duplicate: Probability::ALWAYS,
        ..Faults::default()
    };
    let mut pool = Pool::new(64, 2048);
    let mut cable = Memory::with_capacity(1500, 64);
    let mut fault = Fault::on_transmit(cable.end(Side::A), faults, 1);
    send(&mut fault, &mut pool, 0..32, 60);
    assert_eq!((fault.stats().duplicated, fault.stats().starved), (30, 2));
    assert_eq!(pool.available(), 2);
}

#[test]
fn a_frame_held_back_comes_after_so_many_later_ones() {
    let mut pool = pool();
    let mut cable = Memory::new(1500);
    let faults = Faults {
        reorder_by: Reorder::Frames(2, 10 * MS),
        delay: 2 * MS,
        ..Faults::default()
    };
    let mut fault = Fault::on_transmit(cable.end(Side::A), faults, 1);
    send(&mut fault, &mut pool, 0..3, 60);
    fault.set_faults(Faults {
        reorder: Probability::ALWAYS,
        ..faults
    });
    send(&mut fault, &mut pool, [3], 60);
    fault.set_faults(faults);
    send(&mut fault, &mut pool, 4..8, 60);
    fault.set_now(at(2));
    fault.poll(&mut pool);
    let arrived = receive(&mut cable.end(Side::B), &mut pool);
    assert_eq!(numbers(&arrived), [0, 1, 2, 4, 5, 3, 6, 7]);
}

#[test]
fn a_frame_held_back_does_not_wait_for_ever() {
    let mut pool = pool();
    let mut cable = Memory::new(1500);
    let faults = Faults {
        reorder: Probability::ALWAYS,
        reorder_by: Reorder::Frames(1, 10 * MS),
        ..Faults::default()
    };
    let mut fault = Fault::on_transmit(cable.end(Side::A), faults, 1);
    send(&mut fault, &mut pool, [1], 60);
    assert_eq!(fault.next_event(), Some(at(10)));
    fault.set_now(at(10));
    let mut none = Vec::new();
    fault.receive(&mut pool, &mut none);
    assert_eq!(numbers(&receive(&mut cable.end(Side::B), &mut pool)), [1]);
}

#[test]
fn reordering_by_time_lets_later_frames_pass() {
    let faults = Faults {
        reorder: half(),
        reorder_by: Reorder::Time(3 * MS),
        ..Faults::default()
    };
    let (arrived, stats) = run(faults, 5, 100);
    let mut order = numbers(&arrived);
    let split = order
        .iter()
        .zip(&order[1..])
        .position(|(a, b)| a > b)
        .unwrap();
    assert_eq!(stats.reordered, 99 - split as u64);
    assert!(order[split + 1..].is_sorted());
    order.sort_unstable();
    assert_eq!(order, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_line_sends_at_its_rate_and_its_queue_overflows() {
    let mut pool = pool();
    let mut cable = Memory::new(1500);
    // 100 bytes take 1 ms.
    let rate = Rate {
        bits_per_second: NonZeroU64::new(800_000).unwrap(),
        queue: 350,
    };
    let mut fault = Fault::on_transmit(
        cable.end(Side::A),
        Faults {
            rate: Some(rate),
            ..Faults::default()
        },
        1,
    );
    send(&mut fault, &mut pool, 0..5, 100);
    assert_eq!(fault.stats().queue_full, 2);
    let mut expected = Vec::new();
    for (ms, number) in [(1, 0), (2, 1), (3, 2)] {
        assert_eq!(fault.next_event(), Some(at(ms)));
        fault.set_now(at(ms));
        fault.poll(&mut pool);
        fault.poll(&mut pool);
        expected.push(number);
        assert_eq!(fault.stats().passed, expected.len() as u64);
    }
    // An idle line takes a frame that is longer than its queue.
    fault.set_now(at(10));
    send(&mut fault, &mut pool, [9], 1000);
    assert_eq!(fault.next_event(), Some(at(20)));
    fault.drain(&mut pool);
    assert_eq!(fault.next_event(), None);
    assert_eq!(
        numbers(&receive(&mut cable.end(Side::B), &mut pool)),
        expected
    );
    assert_eq!(pool.available(), pool.capacity());
}

#[test]
fn what_is_held_is_limited() {
    let faults = Faults {
        delay: MS,
        limit: 10,
        ..Faults::default()
    };
    let (arrived, stats) = run(faults, 1, 25);
    assert_eq!(numbers(&arrived), (0..10).collect::<Vec<_>>());
    assert_eq!(stats.over_limit, 15);
}

#[test]
fn a_full_inner_link_holds_frames_up() {
    let mut pool = pool();
    let mut cable = Memory::with_capacity(1500, 1);
    let mut fault = Fault::on_transmit(
        cable.end(Side::A),
        Faults {
            limit: 3,
            ..Faults::default()
        },
        1,
    );
    send(&mut fault, &mut pool, 0..6, 60);
    assert_eq!(
        (fault.held(), fault.stats().over_limit, fault.stats().passed),
        (3, 2, 1)
    );
    assert_eq!(fault.next_event(), Some(Instant::ZERO));
    fault.drain(&mut pool);
    cable.drain(&mut pool);
    assert_eq!(pool.available(), pool.capacity());
}

#[test]
fn the_receive_side_gives_bursts_of_bounded_length() {
    let mut pool = pool();
    let mut cable = Memory::with_capacity(1500, 100);
    send(&mut cable.end(Side::A), &mut pool, 0..80, 60);
    let mut fault = Fault::on_receive(cable.end(Side::B), Faults::default(), 1);
    let mut arrived = Vec::new();
    fault.receive(&mut pool, &mut arrived);
    assert_eq!(arrived.len(), BURST);
    assert_eq!(fault.held(), 80 - BURST);
    let rest = receive(&mut fault, &mut pool);
    assert_eq!(numbers(&rest), (BURST as u32..80).collect::<Vec<_>>());
}

#[test]
fn link_that_damages_guards_nothing() {
    struct Guarding;
    impl Link for Guarding {
        fn mtu(&self) -> usize {
            1500
        }
        fn integrity(&self) -> Integrity {
            Integrity::Crc
        }
        fn transmit(&mut self, _: &mut Pool, _: &mut Vec<Frame>) {}
        fn receive(&mut self, _: &mut Pool, _: &mut Vec<Frame>) {}
    }
    let damage = Faults {
        corrupt: half(),
        ..Faults::default()
    };
    let loss = Faults {
        drop: half(),
        ..Faults::default()
    };
    let of = |fault: Fault<Guarding>| (fault.integrity(), fault.mtu());
    let unprotected = (Integrity::Unprotected, 1500);
    assert_eq!(of(Fault::on_transmit(Guarding, damage, 1)), unprotected);
    assert_eq!(of(Fault::on_receive(Guarding, damage, 1)), unprotected);
    assert_eq!(of(Fault::on_transmit(Guarding, loss, 1)).0, Integrity::Crc);
}

#[test]
fn segments_that_may_be_damaged_leave_alone() {
    use tollgate_stack::config::Segmentation;

    #[derive(Default)]
    struct Told(Segmentation);
    impl Link for Told {
        fn mtu(&self) -> usize {
            1500
        }
        fn set_segmentation(&mut self, segmentation: Segmentation) {
            self.0 = segmentation;
        }
        fn transmit(&mut self, _: &mut Pool, _: &mut Vec<Frame>) {}
        fn receive(&mut self, _: &mut Pool, _: &mut Vec<Frame>) {}
    }
    let loss = Faults {
        drop: half(),
        ..Faults::default()
    };
    let damage = [
        Faults {
            corrupt: half(),
            ..loss
        },
        Faults {
            truncate: half(),
            ..loss
        },
    ];
    for damage in damage {
        let mut line = crate::faulty::Faulty::new(Told::default(), damage, 1);
        assert_eq!(line.inner().0, Segmentation::PerPacket);
        line.set_segmentation(Segmentation::Gso);
        assert_eq!(line.inner().0, Segmentation::PerPacket);

        let mut line = crate::faulty::Faulty::new(Told::default(), loss, 1);
        assert_eq!(line.inner().0, Segmentation::Gso);
        line.set_segmentation(Segmentation::PerPacket);
        line.set_faults(Faults::default());
        assert_eq!(line.inner().0, Segmentation::PerPacket, "as asked for");
        line.set_segmentation(Segmentation::Gso);
        line.set_faults(damage);
        assert_eq!(line.inner().0, Segmentation::PerPacket);
        line.set_faults(loss);
        assert_eq!(
            line.inner().0,
            Segmentation::PerPacket,
            "damaged frames may be held"
        );
    }
    let arriving = Fault::on_receive(Told::default(), damage[0], 1);
    assert_eq!(arriving.inner().0, Segmentation::Gso);
}

fn probabilities() -> impl Strategy<Value = Probability> {
    prop_oneof![Just(0.0), 0.0..=0.6].prop_map(|chance| Probability::new(chance).unwrap())
}

fn any_faults() -> impl Strategy<Value = Faults> {
    let chances = (
        probabilities(),
        probabilities(),
        probabilities(),
        probabilities(),
        probabilities(),
    );
    let times = (0u64..3, 0u64..3, 0u16..5, 0u64..4);
    let rate = proptest::option::of((100_000u64..10_000_000, 0usize..3000));
    // Frames of the runs have 100 bytes.
    let longest = proptest::option::of(99u16..102);
    (chances, times, rate, longest, 0usize..60).prop_map(
        |((drop, truncate, corrupt, duplicate, reorder), times, rate, longest, limit)| {
            let (delay, jitter, frames, time) = times;
            let time = Duration::from_millis(time);
            Faults {
                longest,
                drop,
                truncate,
                corrupt,
                corrupt_at: Corrupt::Anywhere,
                duplicate,
                rate: rate.map(|(speed, queue)| Rate {
                    bits_per_second: NonZeroU64::new(speed).unwrap(),
                    queue,
                }),
                mark_from: rate.map(|(_, queue)| queue / 2),
                delay: Duration::from_millis(delay),
                jitter: Duration::from_millis(jitter),
                reorder,
                reorder_by: if frames == 0 {
                    Reorder::Time(time)
                } else {
                    Reorder::Frames(frames, time)
                },
                limit,
            }
        },
    )
}

proptest! {
    #[test]
    fn the_same_seed_does_the_same_and_every_frame_is_accounted_for(faults in any_faults(), seed: u64) {
        let (arrived, stats) = run(faults, seed, 40);
        prop_assert_eq!(&run(faults, seed, 40), &(arrived.clone(), stats));
        let lost = stats.too_long + stats.dropped + stats.queue_full + stats.over_limit + stats.starved;
        prop_assert_eq!(stats.offered + stats.duplicated, stats.passed + lost);
        prop_assert_eq!(stats.passed, arrived.len() as u64);
        prop_assert_eq!(stats.starved, 0);
    }

    #[test]
    fn delay_jitter_and_rate_keep_the_order(delay in 0u64..5, jitter in 0u64..5, speed in 1_000u64..1_000_000, seed: u64) {
        let rate = Rate { bits_per_second: NonZeroU64::new(speed).unwrap(), queue: usize::MAX };
        let faults = Faults { delay: MS * delay as u32, jitter: MS * jitter as u32, rate: Some(rate), ..Faults::default() };
        prop_assert_eq!(numbers(&run(faults, seed, 30).0), (0..30).collect::<Vec<_>>());
    }
}

#[test]
fn frames_longer_than_a_black_hole_lets_through_vanish() {
    let faults = Faults {
        longest: Some(100),
        ..Faults::default()
    };
    let mut pool = pool();
    let mut cable = Memory::new(1500);
    let mut fault = Fault::on_transmit(cable.end(Side::A), faults, 1);
    send(&mut fault, &mut pool, 0..3, 100);
    send(&mut fault, &mut pool, 3..8, 101);
    assert_eq!(fault.stats().too_long, 5);
    assert_eq!(fault.stats().passed, 3);
    assert_eq!(
        numbers(&receive(&mut cable.end(Side::B), &mut pool)),
        [0, 1, 2]
    );
    assert_eq!(pool.available(), pool.capacity());
}
