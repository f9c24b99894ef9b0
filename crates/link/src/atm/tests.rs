//! Segmentation and reassembly as inverses, what a changed stream of cells gives, and the link over memory and shared memory.

use super::*;
use crate::Side;
use crate::shm::{self, Segment, ShmLink, Waiting};
use proptest::prelude::*;

const AALS: [Aal; 2] = [Aal::Aal34, Aal::Aal5];
const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const LIMIT: usize = 4_000;

/// The cells of payloads, one after the other.
fn cells(aal: Aal, payloads: &[Vec<u8>]) -> Vec<Cell> {
    let mut segmenter = Segmenter::new(aal, CHANNEL);
    let mut all = Vec::new();
    for payload in payloads {
        let (front, rest) = payload.split_at(payload.len() / 3);
        assert!(segmenter.begin([front, rest]));
        let count = segmenter.left();
        let before = all.len();
        all.extend(segmenter.by_ref());
        assert_eq!(all.len() - before, count);
    }
    all
}

/// The payloads of cells, and what was counted.
fn payloads(aal: Aal, cells: &[Cell]) -> (Vec<Vec<u8>>, ReassemblyStats) {
    let mut reassembler = Reassembler::new(aal, CHANNEL, LIMIT);
    let mut all = Vec::new();
    for cell in cells {
        all.extend(reassembler.push(cell).map(<[u8]>::to_vec));
    }
    (all, *reassembler.stats())
}

/// Tells whether something was found to be wrong.
fn finds(stats: &ReassemblyStats) -> bool {
    let quiet = ReassemblyStats {
        cells: stats.cells,
        payloads: stats.payloads,
        ..ReassemblyStats::default()
    };
    *stats != quiet
}

/// Tells whether `some` is `all` with elements left out.
fn is_part(some: &[Vec<u8>], all: &[Vec<u8>]) -> bool {
    let mut rest = all.iter();
    some.iter().all(|one| rest.any(|other| other == one))
}

fn three_payloads() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let lengths = prop_oneof![1usize..200, 1usize..LIMIT];
    let payload = (lengths, any::<u64>(), any::<bool>()).prop_map(|(len, seed, zeros)| {
        let mut random = Random::new(seed, 1);
        let mut byte = || if zeros { 0 } else { random.next_u32() as u8 };
        (0..len).map(|_| byte()).collect()
    });
    proptest::collection::vec(payload, 3)
}

proptest! {
    #[test]
    fn reassembly_is_the_inverse_of_segmentation(payloads_in in three_payloads()) {
        for aal in AALS {
            let (out, stats) = payloads(aal, &cells(aal, &payloads_in));
            prop_assert_eq!(&out, &payloads_in);
            prop_assert!(!finds(&stats), "{:?}", stats);
        }
    }

    #[test]
    fn loss_of_any_cell_is_found(payloads_in in three_payloads(), at: prop::sample::Index) {
        for aal in AALS {
            let mut all = cells(aal, &payloads_in);
            let lost = at.index(all.len());
            all.remove(lost);
            // What follows shows it when it was the end of all.
            all.extend(cells(aal, &[vec![1; 90]]));
            let (out, stats) = payloads(aal, &all);
            let sent: Vec<_> = payloads_in.iter().cloned().chain([vec![1; 90]]).collect();
            prop_assert!(is_part(&out, &sent));
            prop_assert!(out.len() < sent.len());
            let whole_pdu = payloads_in.iter().any(|payload| cells(aal, std::slice::from_ref(payload)).len() == 1);
            prop_assert!(finds(&stats) || whole_pdu, "{:?}", stats);
        }
    }

    #[test]
    fn duplication_of_any_cell_is_found(payloads_in in three_payloads(), at: prop::sample::Index) {
        for aal in AALS {
            let mut all = cells(aal, &payloads_in);
            let twice = at.index(all.len());
            all.insert(twice, all[twice]);
            let (out, stats) = payloads(aal, &all);
            // A PDU of one cell that comes twice is two right ones: only what lies above can tell.
            let again: Vec<_> = payloads_in.iter().flat_map(|one| [one.clone(), one.clone()]).collect();
            prop_assert!(is_part(&out, &again));
            prop_assert!(finds(&stats) || out.len() > payloads_in.len(), "{:?}", stats);
        }
    }

    #[test]
    fn neighbours_that_change_places_are_found(payloads_in in three_payloads(), at: prop::sample::Index) {
        for aal in AALS {
            let mut all = cells(aal, &payloads_in);
            if all.len() < 2 {
                continue;
            }
            let first = at.index(all.len() - 1);
            let same = all[first] == all[first + 1];
            let both_whole = [first, first + 1].iter().all(|&at| payloads(aal, &all[at..=at]).0.len() == 1);
            all.swap(first, first + 1);
            let (out, stats) = payloads(aal, &all);
            if same {
                prop_assert_eq!(&out, &payloads_in);
            } else if both_whole {
                prop_assert_eq!(out.len(), payloads_in.len());
            } else {
                prop_assert!(is_part(&out, &payloads_in));
                prop_assert!(finds(&stats), "{:?}", stats);
            }
        }
    }

    #[test]
    fn a_wrong_bit_anywhere_is_found(payloads_in in three_payloads(), at: prop::sample::Index) {
        for aal in AALS {
            let mut all = cells(aal, &payloads_in);
            let bit = at.index(8 * CELL * all.len());
            all[bit / (8 * CELL)][bit / 8 % CELL] ^= 0x80 >> (bit % 8);
            let (out, stats) = payloads(aal, &all);
            prop_assert!(is_part(&out, &payloads_in));
            prop_assert!(out.len() < payloads_in.len());
            prop_assert!(finds(&stats));
        }
    }

    #[test]
    fn any_cells_are_taken_without_a_panic(seed: u64, count in 0usize..200) {
        let mut random = Random::new(seed, 2);
        for aal in AALS {
            let mut reassembler = Reassembler::new(aal, CHANNEL, 100).without_crc();
            for _ in 0..count {
                let mut payload = [0; 48];
                payload.fill_with(|| random.next_u32() as u8);
                // No multiplexing, and often a plausible length.
                payload[1] = 0;
                payload[0] &= 0xfc;
                payload[46] = [44 << 2, 8 << 2, payload[46]][random.below(3) as usize];
                let end = random.below(2) == 1;
                let header = tollgate_wire::atm::Header::user_data(CHANNEL, end);
                let cell = tollgate_wire::atm::cell(header, &payload);
                let out = reassembler.push(&cell).map(<[u8]>::len);
                prop_assert!(out.is_none_or(|len| len <= 100));
            }
        }
    }
}

#[test]
fn cells_sixteen_apart_change_places_unseen_by_aal34() {
    let mut random = Random::new(1, 1);
    let payload: Vec<u8> = (0..1_400).map(|_| random.next_u32() as u8).collect();
    for (aal, seen) in [(Aal::Aal34, false), (Aal::Aal5, true)] {
        let mut all = cells(aal, std::slice::from_ref(&payload));
        all.swap(3, 19);
        let (out, stats) = payloads(aal, &all);
        assert_eq!(finds(&stats), seen, "{aal:?}");
        assert_eq!(out.is_empty(), seen, "{aal:?}");
        assert!(!out.contains(&payload));
    }
}

#[test]
fn sixteen_lost_cells_are_found_by_length() {
    let payload = vec![3; 1_400];
    let mut all = cells(Aal::Aal34, &[payload]);
    all.drain(4..20);
    let (out, stats) = payloads(Aal::Aal34, &all);
    assert!(out.is_empty());
    assert_eq!((stats.bad_sequence, stats.bad_length), (0, 1));
}

#[test]
fn an_end_of_another_pdu_is_found_by_its_tag() {
    let payload = vec![3; 1_400];
    let all = cells(Aal::Aal34, &[payload.clone(), payload]);
    let each = all.len() / 2;
    assert_eq!(each, 32);
    // The end of the first and all but the end of the second are lost: 32 cells, so the sequence goes on.
    let rest: Vec<Cell> = all[..each - 1]
        .iter()
        .chain(&all[2 * each - 1..])
        .copied()
        .collect();
    let (out, stats) = payloads(Aal::Aal34, &rest);
    assert!(out.is_empty());
    assert_eq!((stats.bad_sequence, stats.bad_tags), (0, 1));
}

#[test]
fn pdus_that_are_too_long_are_discarded_to_their_end() {
    for aal in AALS {
        let (out, stats) = payloads(aal, &cells(aal, &[vec![1; LIMIT + 90], vec![2; 30]]));
        assert_eq!(out, [vec![2; 30]], "{aal:?}");
        assert_eq!(stats.too_long, 1, "{aal:?}");
    }
    assert!(!Segmenter::new(Aal::Aal5, CHANNEL).begin([&[0; 65_000], &[0; 536]]));
    assert!(!Segmenter::new(Aal::Aal5, CHANNEL).begin([&[], &[]]));
}

#[test]
fn cells_of_other_channels_are_left_alone() {
    let other = Channel {
        path: 0,
        channel: 33,
    };
    let mut segmenter = Segmenter::new(Aal::Aal5, other);
    assert!(segmenter.begin([&[1; 100], &[]]));
    let strange: Vec<Cell> = segmenter.collect();
    let ours = cells(Aal::Aal5, &[vec![2; 100]]);
    let mixed: Vec<Cell> = ours
        .iter()
        .zip(&strange)
        .flat_map(|(a, b)| [*a, *b])
        .collect();
    let (out, stats) = payloads(Aal::Aal5, &mixed);
    assert_eq!(out, [vec![2; 100]]);
    assert_eq!(stats.other_channel, strange.len() as u64);
}

fn config(aal: Aal, side: Side) -> Config {
    match side {
        Side::A => Config::new(aal, A, B),
        Side::B => Config::new(aal, B, A),
    }
}

fn cable(aal: Aal, change: impl Fn(&mut Config)) -> Cable {
    let [a, b] = [Side::A, Side::B].map(|side| {
        let mut config = config(aal, side);
        change(&mut config);
        config
    });
    Cable::new(a, b)
}

fn pool(frames: usize) -> Pool {
    Pool::new(frames, Pool::frame_size_for(MTU))
}

/// A frame for the other end with a packet of `len` bytes.
fn frame(pool: &mut Pool, len: usize, seed: u8) -> Frame {
    let header = ethernet::Header {
        destination: B,
        source: A,
        ethertype: ethernet::EtherType::Ipv4,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend((0..len).map(|i| (i as u8).wrapping_mul(3) ^ seed));
    pool.frame_from(&bytes).unwrap()
}

/// The frames' bytes; the frames go back.
fn bytes(pool: &mut Pool, frames: Vec<Frame>) -> Vec<Vec<u8>> {
    let read = |frame: Frame| {
        let bytes = pool.frame(&frame).to_vec();
        pool.release(frame.id);
        bytes
    };
    frames.into_iter().map(read).collect()
}

#[test]
fn frames_cross_the_cable_with_the_addresses_of_its_ends() {
    for aal in AALS {
        let mut pool = pool(16);
        let mut cable = cable(aal, |config| config.kernel = Some(Kernel::best()));
        let mut burst = vec![frame(&mut pool, 40, 1), frame(&mut pool, 28, 2)];
        let sent: Vec<_> = burst
            .iter()
            .map(|frame| pool.frame(frame).to_vec())
            .collect();
        cable.end(Side::A).transmit(&mut pool, &mut burst);
        assert!(burst.is_empty());
        let mut arrived = Vec::new();
        cable.end(Side::B).receive(&mut pool, &mut arrived);
        assert!(cable.is_idle());
        let summed =
            tollgate_stack::buffer::RxChecksum::Complete(Kernel::best().sum(&sent[0][34..]));
        assert_eq!(arrived[0].checksum, summed);
        assert_eq!(bytes(&mut pool, arrived), sent);
        assert_eq!(pool.available(), 16);
        let stats = cable.adapter(Side::A).stats();
        assert_eq!(
            (stats.sent, cable.adapter(Side::B).stats().received),
            (2, 2)
        );
        assert_eq!(cable.end(Side::A).mtu(), 9_188);
    }
}

#[test]
fn the_largest_frames_have_the_cells_that_the_standards_say() {
    // 8 bytes of LLC, then 8 of headers and trailers, in 44 or 48 bytes a cell.
    for (aal, count) in [(Aal::Aal34, 210), (Aal::Aal5, 192)] {
        let mut pool = pool(8);
        let mut cable = cable(aal, |_| {});
        let mut burst = vec![frame(&mut pool, MTU + 1, 1), frame(&mut pool, MTU, 2)];
        let sent = pool.frame(&burst[1]).to_vec();
        cable.end(Side::A).transmit(&mut pool, &mut burst);
        let stats = cable.adapter(Side::A).stats();
        assert_eq!((stats.bad_size, stats.cells_sent), (1, count));
        let mut arrived = Vec::new();
        cable.end(Side::B).receive(&mut pool, &mut arrived);
        assert_eq!(bytes(&mut pool, arrived), [sent]);
    }
}

#[test]
fn a_line_that_waits_fills_both_fifos_and_loses_nothing() {
    for aal in AALS {
        let mut pool = pool(32);
        let mut cable = cable(aal, |_| {});
        let mut burst: Vec<_> = (0..5).map(|seed| frame(&mut pool, MTU, seed)).collect();
        let sent: Vec<_> = burst
            .iter()
            .map(|frame| pool.frame(frame).to_vec())
            .collect();
        cable.end(Side::A).transmit(&mut pool, &mut burst);
        // One whole frame and a part of the second; three stay with the stack.
        assert_eq!(burst.len(), 3);
        assert_eq!(
            cable.adapter(Side::A).stats().cells_sent,
            RECEIVE_FIFO as u64
        );
        assert_eq!(cable.adapter(Side::A).stats().transmit_full, 1);
        let mut arrived = Vec::new();
        for _ in 0..10 {
            cable.end(Side::B).receive(&mut pool, &mut arrived);
            cable.end(Side::A).transmit(&mut pool, &mut burst);
        }
        assert!(cable.is_idle() && burst.is_empty());
        assert_eq!(bytes(&mut pool, arrived), sent);
        assert!(!finds(cable.adapter(Side::B).reassembly()));
        assert_eq!(pool.available(), 32);
    }
}

#[test]
fn what_waits_goes_on_when_the_sender_polls() {
    let mut pool = pool(8);
    let mut cable = cable(Aal::Aal5, |_| {});
    let mut burst = vec![frame(&mut pool, MTU, 1), frame(&mut pool, MTU, 2)];
    cable.end(Side::A).transmit(&mut pool, &mut burst);
    assert!(burst.is_empty());
    let mut arrived = Vec::new();
    cable.end(Side::B).receive(&mut pool, &mut arrived);
    cable.end(Side::A).receive(&mut pool, &mut burst);
    cable.end(Side::B).receive(&mut pool, &mut arrived);
    assert_eq!(bytes(&mut pool, arrived).len(), 2);
    assert!(burst.is_empty() && cable.is_idle());
}

#[test]
fn a_line_that_does_not_wait_overflows_the_receive_fifo() {
    let mut pool = pool(8);
    let mut cable = cable(Aal::Aal5, |config| config.when_full = WhenFull::Lose);
    let mut burst: Vec<_> = (0..2).map(|seed| frame(&mut pool, MTU, seed)).collect();
    let first = pool.frame(&burst[0]).to_vec();
    cable.end(Side::A).transmit(&mut pool, &mut burst);
    assert!(burst.is_empty());
    let stats = *cable.adapter(Side::A).stats();
    assert_eq!(stats.overflowed, 2 * 192 - RECEIVE_FIFO as u64);
    assert_eq!((stats.cells_sent, stats.transmit_full), (2 * 192, 0));
    let mut arrived = Vec::new();
    cable.end(Side::B).receive(&mut pool, &mut arrived);
    assert_eq!(bytes(&mut pool, arrived), [first]);
    // The next frame is behind a rest without an end, so both are lost; the one after it arrives.
    for (seed, count) in [(7, 0), (8, 1)] {
        let mut burst = vec![frame(&mut pool, 500, seed)];
        cable.end(Side::A).transmit(&mut pool, &mut burst);
        let mut arrived = Vec::new();
        cable.end(Side::B).receive(&mut pool, &mut arrived);
        assert_eq!(bytes(&mut pool, arrived).len(), count);
    }
    assert_eq!(cable.adapter(Side::B).reassembly().bad_length, 1);
}

#[test]
fn frames_wait_in_the_link_while_the_pool_is_scarce() {
    let mut pool = pool(16);
    let mut cable = cable(Aal::Aal34, |_| {});
    let mut burst: Vec<_> = (0..3).map(|seed| frame(&mut pool, 300, seed)).collect();
    cable.end(Side::A).transmit(&mut pool, &mut burst);
    let hoarded: Vec<_> = std::iter::from_fn(|| pool.alloc()).collect();
    let mut arrived = Vec::new();
    cable.end(Side::B).receive(&mut pool, &mut arrived);
    assert!(arrived.is_empty() && cable.adapter(Side::B).is_starved());
    assert_eq!(cable.adapter(Side::B).stats().no_frame, 1);
    for id in hoarded {
        pool.release(id);
    }
    cable.end(Side::B).receive(&mut pool, &mut arrived);
    assert_eq!(bytes(&mut pool, arrived).len(), 3);
    assert!(cable.is_idle());
}

#[test]
fn noise_is_that_of_its_seed_and_no_wrong_frame_arrives() {
    let run = |aal, seed| {
        let mut pool = pool(64);
        let mut cable = cable(aal, |config| {
            config.seed = seed;
            config.noise = Noise {
                lose: Probability::new(0.01).unwrap(),
                damage: Probability::new(0.02).unwrap(),
            };
        });
        let mut sent = Vec::new();
        let mut arrived = Vec::new();
        for seed in 0..200u8 {
            let mut burst = vec![frame(&mut pool, 400, seed)];
            sent.push(pool.frame(&burst[0]).to_vec());
            cable.end(Side::A).transmit(&mut pool, &mut burst);
            let mut frames = Vec::new();
            cable.end(Side::B).receive(&mut pool, &mut frames);
            arrived.extend(bytes(&mut pool, frames));
        }
        assert!(is_part(&arrived, &sent));
        assert!(arrived.len() < sent.len() && arrived.len() > sent.len() / 3);
        let stats = *cable.adapter(Side::A).stats();
        assert!(stats.lost > 0 && stats.damaged > 0);
        (arrived, stats, *cable.adapter(Side::B).reassembly())
    };
    for aal in AALS {
        assert_eq!(run(aal, 1), run(aal, 1));
        assert_ne!(run(aal, 1).2, run(aal, 2).2);
    }
}

/// Two ends of one segment, in this process.
#[cfg(not(miri))]
fn two_ends(aal: Aal) -> [Atm<Adapter, ShmLink>; 2] {
    let segment = Segment::create(shm::Config::for_cells(Waiting::BusyPoll)).unwrap();
    [Side::A, Side::B].map(|side| {
        let line = ShmLink::new(&segment, side, None).unwrap();
        Atm::new(Adapter::new(config(aal, side)), line)
    })
}

#[cfg(not(miri))]
#[test]
fn shared_memory_carries_cells_as_memory_does() {
    for aal in AALS {
        let [mut a, mut b] = two_ends(aal);
        let mut pool = pool(32);
        let mut burst: Vec<_> = (0..5).map(|seed| frame(&mut pool, MTU, seed)).collect();
        let sent: Vec<_> = burst
            .iter()
            .map(|frame| pool.frame(frame).to_vec())
            .collect();
        a.transmit(&mut pool, &mut burst);
        assert_eq!(burst.len(), 3);
        assert_eq!(a.adapter().stats().cells_sent, RECEIVE_FIFO as u64);
        let mut arrived = Vec::new();
        for _ in 0..10 {
            b.receive(&mut pool, &mut arrived);
            a.transmit(&mut pool, &mut burst);
        }
        assert_eq!(bytes(&mut pool, arrived), sent);
        assert!(!a.adapter().is_sending());
        assert_eq!(pool.available(), 32);
    }
}

#[cfg(not(miri))]
#[test]
fn cells_for_a_peer_that_is_gone_are_counted() {
    let [mut a, b] = two_ends(Aal::Aal5);
    drop(b);
    let mut pool = pool(32);
    let mut burst: Vec<_> = (0..5).map(|seed| frame(&mut pool, MTU, seed)).collect();
    for _ in 0..4 {
        a.transmit(&mut pool, &mut burst);
    }
    assert!(burst.is_empty() && !a.adapter().is_sending());
    assert_eq!(pool.available(), 32);
    let stats = a.line().stats();
    assert!(stats.unwanted > 0, "{stats:?}");
}
