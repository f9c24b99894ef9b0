use proptest::prelude::*;
use tollgate_wire::ipv4::protocol::UDP;

use super::*;
use crate::capture::{LinkType, Packet};
use crate::craft;
use crate::decode;

/// The parts of a UDP datagram with `size` bytes of user data, at most `most` bytes each.
fn parts(size: usize, most: usize, identification: u16) -> Vec<Vec<u8>> {
    let whole = craft::udp((1, 2), size);
    let chunks: Vec<&[u8]> = whole.chunks(most).collect();
    let last = chunks.len() - 1;
    chunks
        .iter()
        .enumerate()
        .map(|(at, chunk)| {
            let more = if at == last { 0 } else { 0x2000 };
            let word = (at * most / 8) as u16 | more;
            craft::fragment(true, UDP, chunk, word, identification)
        })
        .collect()
}

fn push(fragments: &mut Fragments, bytes: &[u8], time_ns: i64) -> Option<Whole> {
    let packet = Packet {
        time_ns,
        link: LinkType::Raw,
        wire_len: bytes.len() as u32,
        bytes,
    };
    let datagram = decode::datagram(&packet).unwrap();
    fragments.push(&datagram, datagram.part.unwrap(), time_ns)
}

fn size(whole: &Whole) -> u32 {
    decode::transport(&whole.datagram()).unwrap().size
}

#[test]
fn a_datagram_is_whole_when_its_last_part_has_come() {
    let mut fragments = Fragments::default();
    let parts = parts(8_192, 1_480, 7);
    let (last, first) = parts.split_last().unwrap();
    for part in first {
        assert_eq!(push(&mut fragments, part, 5), None);
    }
    let whole = push(&mut fragments, last, 9).unwrap();
    assert_eq!(
        (size(&whole), whole.fragments, whole.began_ns),
        (8_192, 6, 5)
    );
    assert_eq!(fragments.finish().whole, 1);
}

#[test]
fn a_part_twice_counts_once_and_a_part_that_overlaps_spoils_all() {
    let mut fragments = Fragments::default();
    let parts = parts(100, 40, 7);
    assert_eq!(push(&mut fragments, &parts[0], 0), None);
    assert_eq!(push(&mut fragments, &parts[0], 0), None);
    // Begins within the first.
    let overlapping = craft::fragment(true, UDP, &[0; 40], 0x2000 | 2, 7);
    assert_eq!(push(&mut fragments, &overlapping, 0), None);
    assert_eq!(push(&mut fragments, &parts[1], 0), None);
    assert_eq!(push(&mut fragments, &parts[2], 0), None);
    let fates = fragments.finish();
    assert_eq!((fates.duplicates, fates.contradictory), (1, 1));
    assert_eq!((fates.whole, fates.incomplete), (0, 1));
}

#[test]
fn what_waits_longer_than_a_minute_or_among_too_many_is_given_up() {
    let mut fragments = Fragments::default();
    let parts = parts(100, 80, 1);
    push(&mut fragments, &parts[0], 0);
    assert_eq!(push(&mut fragments, &parts[1], TIMEOUT_NS), None);
    assert_eq!(fragments.finish().incomplete, 2);

    let mut fragments = Fragments::default();
    for identification in 0..=LIMIT as u16 {
        push(&mut fragments, &self::parts(100, 80, identification)[0], 0);
    }
    assert_eq!(fragments.partials.len(), LIMIT);
    assert!(push(&mut fragments, &self::parts(100, 80, 1)[1], 0).is_some());
    assert_eq!(push(&mut fragments, &self::parts(100, 80, 0)[1], 0), None);
}

#[test]
fn ages_do_not_pile_up() {
    let mut fragments = Fragments::default();
    for at in 0..5 * LIMIT {
        let parts = parts(100, 80, at as u16);
        push(&mut fragments, &parts[0], 0);
        assert!(push(&mut fragments, &parts[1], 0).is_some());
    }
    assert!(fragments.ages.len() <= 2 * LIMIT + 1);
}

proptest! {
    #[test]
    fn parts_make_a_whole_in_any_order(
        size in 1..5_000_usize,
        most in (2..200_usize).prop_map(|words| words * 8),
        order in any::<u64>(),
    ) {
        let mut parts = parts(size, most, 3);
        prop_assume!(parts.len() > 1 && parts.len() <= STRETCHES);
        let mut state = order;
        for at in (1..parts.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            parts.swap(at, (state >> 33) as usize % (at + 1));
        }
        let mut fragments = Fragments::default();
        let wholes: Vec<Whole> = parts
            .iter()
            .filter_map(|part| push(&mut fragments, part, 0))
            .collect();
        prop_assert_eq!(wholes.len(), 1);
        prop_assert_eq!(self::size(&wholes[0]) as usize, size);
        prop_assert_eq!(wholes[0].fragments as usize, parts.len());
    }
}

/// RFC 8200, 4.5. The length on the wire is the capture's word alone where IP names none.
#[test]
fn fragment_beyond_the_longest_datagram_contradicts() {
    let mut part = craft::fragment(true, UDP, &[0; 16], 0x1fff, 7);
    part[2..4].fill(0);
    for wire_len in [100, 1 << 20, u32::MAX] {
        let mut fragments = Fragments::default();
        let packet = Packet {
            time_ns: 0,
            link: LinkType::Raw,
            wire_len,
            bytes: &part,
        };
        let datagram = decode::datagram(&packet).unwrap();
        assert_eq!(fragments.push(&datagram, datagram.part.unwrap(), 0), None);
        let fates = fragments.finish();
        assert_eq!((fates.contradictory, fates.incomplete), (1, 0));
    }
}
