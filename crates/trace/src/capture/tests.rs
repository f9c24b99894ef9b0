use proptest::prelude::*;
use tollgate_wire::tcp::Flags;

use super::*;
use crate::craft;

/// Takes all packets.
fn each<R: Read>(capture: &mut Capture<R>, mut take: impl FnMut(Packet<'_>)) {
    loop {
        match capture.step() {
            Step::Packet(packet) => take(packet),
            Step::Other => {}
            Step::End => return,
        }
    }
}

/// Times in nanoseconds and lengths of all packets, and the damage.
fn read(file: &[u8]) -> (Vec<(i64, usize)>, Damage) {
    let mut capture = Capture::new(file).unwrap();
    let mut packets = Vec::new();
    each(&mut capture, |packet| {
        packets.push((packet.time_ns, packet.bytes.len()));
    });
    let (_, damage) = capture.finish().unwrap();
    (packets, damage)
}

fn frames(n: usize) -> Vec<Vec<u8>> {
    (0..n)
        .map(|at| craft::tcp_frame(true, at as u32, Flags::ACK, at % 500))
        .collect()
}

const EPOCH_NS: i64 = craft::EPOCH as i64 * 1_000_000_000;

#[test]
fn both_byte_orders_and_both_units_of_pcap_are_read() {
    let frame = craft::tcp_frame(true, 1, Flags::ACK, 10);
    for swapped in [false, true] {
        let mut file = craft::pcap_header(1, swapped);
        file.extend(craft::pcap_record(5, &frame, 0, swapped));
        assert_eq!(
            read(&file),
            (vec![(EPOCH_NS + 5_000_000, 64)], Damage::default())
        );
    }
    let mut file = craft::pcap(&[frame]);
    file[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
    file[24 + 4..24 + 8].copy_from_slice(&7_u32.to_le_bytes());
    assert_eq!(read(&file).0, [(EPOCH_NS + 7, 64)]);
}

#[test]
fn fractions_beyond_a_second_are_carried_into_the_seconds() {
    let frame = craft::tcp_frame(true, 1, Flags::ACK, 10);
    // Nanoseconds under the magic of microseconds: in every record, in some, in the last.
    for odd in [vec![0, 1, 2, 3], vec![1], vec![1, 2], vec![3]] {
        let mut file = craft::pcap_header(1, false);
        let mut times = Vec::new();
        for n in 0..4u32 {
            let micros = if odd.contains(&n) { 1_000_000 + n } else { n };
            let at = file.len();
            file.extend(craft::pcap_record(0, &frame, 0, false));
            file[at + 4..at + 8].copy_from_slice(&micros.to_le_bytes());
            times.push((EPOCH_NS + i64::from(micros) * 1_000, 64));
        }
        let (packets, damage) = read(&file);
        assert_eq!(packets, times);
        assert_eq!((damage.places, damage.skipped_bytes), (0, 0));
    }
    // A record that leads nowhere is damage all the same.
    let mut file = craft::pcap(&frames(3));
    let whole = file.clone();
    let odd = craft::pcap_header(1, false).len();
    file[odd + 4..odd + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    file[odd + 8..odd + 12].copy_from_slice(&77_u32.to_le_bytes());
    let (packets, damage) = read(&file);
    assert_eq!(packets, read(&whole).0[1..]);
    assert_eq!(damage.places, 1);
}

#[test]
fn pcapng_has_a_unit_of_time_for_each_interface() {
    let frame = craft::tcp_frame(true, 1, Flags::ACK, 10);
    let offset = 100_i64.to_le_bytes();
    let file = [
        craft::section(),
        craft::interface(1, &[]),
        craft::interface(1, &[(9, &[9]), (14, &offset)]),
        craft::interface(1, &[(9, &[0x80 | 10])]),
        craft::enhanced(0, 3, &frame),
        craft::enhanced(1, 3, &frame),
        craft::block(5, &[0; 16]),
        craft::enhanced(2, 512, &frame),
        craft::enhanced(9, 0, &frame),
    ]
    .concat();
    let (packets, damage) = read(&file);
    let times: Vec<i64> = packets.iter().map(|packet| packet.0).collect();
    assert_eq!(times, [3_000, 100_000_000_003, 500_000_000]);
    assert_eq!(damage.without_interface, 1);
    assert_eq!(damage.clock_steps, 1);
}

/// A packet names its interface by number, so a description that cannot be read must not move the next one up.
#[test]
fn interface_too_short_to_be_read_keeps_its_number() {
    let frame = craft::tcp_frame(true, 1, Flags::ACK, 10);
    let file = [
        craft::section(),
        craft::block(1, &[113, 0]),
        craft::interface(1, &[]),
        craft::enhanced(0, 3, &frame),
        craft::enhanced(1, 5, &frame),
    ]
    .concat();
    let (packets, damage) = read(&file);
    let times: Vec<i64> = packets.iter().map(|packet| packet.0).collect();
    assert_eq!(times, [5_000]);
    assert_eq!(damage.without_interface, 1);
}

#[test]
fn a_section_in_the_other_byte_order_is_read() {
    let mut section = craft::section();
    let mut interface = craft::interface(1, &[]);
    for block in [&mut section, &mut interface] {
        for word in block.chunks_exact_mut(4) {
            word.reverse();
        }
    }
    // Version and link type are half a word.
    section[12..16].copy_from_slice(&[0, 1, 0, 0]);
    interface[8..12].copy_from_slice(&[0, 1, 0, 0]);
    let capture = [section, interface].concat();
    let mut capture = Capture::new(&capture[..]).unwrap();
    each(&mut capture, |packet| panic!("{packet:?}"));
    assert_eq!(*capture.damage(), Damage::default());
}

#[test]
fn what_is_no_capture_is_refused_by_name() {
    let refused = |file: &[u8]| match Capture::new(file) {
        Err(refused) => refused.to_string(),
        Ok(_) => panic!("taken"),
    };
    assert_eq!(refused(b""), "is empty: it holds no byte, and no packet");
    assert!(refused(b"GET / HTTP/1.1\r\n\r\n").starts_with("is neither pcap nor pcapng"));
    let mut variant = craft::pcap_header(1, false);
    variant[..4].copy_from_slice(&0xa1b2_cd34_u32.to_le_bytes());
    assert!(refused(&variant).contains("a1b2cd34"));
    assert_eq!(
        refused(&craft::pcap_header(1, true)[..20]),
        "is a pcap that ends within its header, after 20 bytes; no packet of it is there"
    );
    assert!(refused(&craft::section()[..16]).starts_with("is a pcapng that ends"));
}

#[test]
fn a_version_that_nobody_described_is_refused() {
    let refused = |file: &[u8]| Capture::new(file).err().unwrap().to_string();
    for swapped in [false, true] {
        let mut pcap = craft::pcap_header(1, swapped);
        pcap[if swapped { 5 } else { 4 }] = 3;
        assert_eq!(
            refused(&pcap),
            "is a pcap of version 3; version 2 is what is read"
        );
    }
    let mut pcapng = [craft::section(), craft::interface(1, &[])].concat();
    pcapng[12] = 2;
    assert_eq!(
        refused(&pcapng),
        "is a pcapng of version 2; version 1 is what is read"
    );
}

#[test]
fn a_later_section_of_an_unknown_version_is_damage() {
    let frame = craft::tcp_frame(true, 1, Flags::ACK, 10);
    let section = |version: u8| {
        let mut section = craft::section();
        section[12] = version;
        let rest = [
            craft::interface(1, &[]),
            craft::enhanced(0, version.into(), &frame),
        ];
        [section, rest.concat()].concat()
    };
    let (packets, damage) = read(&[section(1), section(2), section(1)].concat());
    assert_eq!(packets, [(1_000, 64), (1_000, 64)]);
    assert_eq!(damage.places, 1);
    assert_eq!(damage.skipped_bytes, section(2).len() as u64);
}

#[test]
fn a_time_that_overflows_is_damage() {
    let frame = craft::tcp_frame(true, 1, Flags::ACK, 10);
    let distant = i64::MAX.to_le_bytes();
    let file = [
        craft::section(),
        craft::interface(1, &[]),
        craft::interface(1, &[(9, &[0])]),
        craft::interface(1, &[(14, &distant)]),
        craft::interface(1, &[(9, &[0x80 | 10])]),
        craft::enhanced(0, u64::MAX / 2_000, &frame),
        craft::enhanced(0, u64::MAX, &frame),
        craft::enhanced(1, 1 << 34, &frame),
        craft::enhanced(2, 0, &frame),
        craft::enhanced(3, u64::MAX, &frame),
        craft::enhanced(0, 1, &frame),
    ]
    .concat();
    let (packets, damage) = read(&file);
    let times: Vec<i64> = packets.iter().map(|packet| packet.0).collect();
    assert_eq!(times, [(u64::MAX / 2_000) as i64 * 1_000, 1_000]);
    let block = craft::enhanced(0, 0, &frame).len() as u64;
    assert_eq!((damage.places, damage.skipped_bytes), (4, 4 * block));
}

#[test]
fn a_cut_file_gives_all_whole_packets_and_counts_the_rest() {
    for pcapng in [false, true] {
        let frames = frames(20);
        let file = if pcapng {
            let mut file = [craft::section(), craft::interface(1, &[])].concat();
            for frame in &frames {
                file.extend(craft::enhanced(0, 0, frame));
            }
            file
        } else {
            craft::pcap(&frames)
        };
        let (all, none) = read(&file);
        assert_eq!((all.len(), none), (20, Damage::default()));
        let (packets, damage) = read(&file[..file.len() - 1]);
        assert_eq!(packets, all[..19]);
        assert!(damage.cut_bytes > 0);
    }
}

#[test]
fn a_damaged_place_costs_what_is_damaged() {
    let frames = frames(50);
    let whole = craft::pcap(&frames);
    let (all, _) = read(&whole);
    // The captured length of the 21st record.
    let at = 24
        + frames[..20]
            .iter()
            .map(|frame| 16 + frame.len())
            .sum::<usize>();
    let mut file = whole.clone();
    file[at + 8..at + 12].copy_from_slice(&[0xff; 4]);
    let (packets, damage) = read(&file);
    assert_eq!(packets.len(), 49);
    assert_eq!(packets[20..], all[21..]);
    assert_eq!(damage.places, 1);
    assert_eq!(damage.skipped_bytes, 16 + frames[20].len() as u64);

    let mut file = [craft::section(), craft::interface(1, &[])].concat();
    for (at, frame) in frames.iter().enumerate() {
        let mut block = craft::enhanced(0, 0, frame);
        if at == 20 {
            block[4] ^= 0x55;
        }
        file.extend(block);
    }
    let (packets, damage) = read(&file);
    assert_eq!(packets.len(), 49);
    assert_eq!(damage.places, 1);
}

#[test]
fn garbage_behind_a_header_ends() {
    let mut state = 1_u64;
    let garbage: Vec<u8> = (0..3_000_000)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    for front in [
        craft::pcap(&frames(3)),
        [craft::section(), craft::interface(1, &[])].concat(),
    ] {
        let file = [front, garbage.clone()].concat();
        let (_, damage) = read(&file);
        assert!(
            damage.skipped_bytes + damage.cut_bytes > 2_900_000,
            "{damage:?}"
        );
    }
}

proptest! {
    /// Any file: reading it ends, and no packet is longer than what was on the wire.
    #[test]
    fn any_bytes_behind_any_header_are_read_to_the_end(
        bytes in prop::collection::vec(any::<u8>(), 0..4_000),
        pcapng in any::<bool>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut file = if pcapng {
            let blocks = frames(5).iter().flat_map(|frame| craft::enhanced(0, 0, frame)).collect();
            [craft::section(), craft::interface(1, &[]), blocks].concat()
        } else {
            craft::pcap(&frames(5))
        };
        for (at, byte) in flips {
            let at = at.index(file.len());
            file[at] = byte;
        }
        file.extend(bytes);
        if let Ok(mut capture) = Capture::new(&file[..]) {
            each(&mut capture, |packet| assert!(packet.bytes.len() <= packet.wire_len as usize));
            let (content, damage) = capture.finish().unwrap();
            prop_assert_eq!(content.bytes, file.len() as u64);
            prop_assert!(damage.skipped_bytes + damage.cut_bytes <= file.len() as u64);
        }
    }
}

#[test]
fn a_file_of_nothing_but_beginnings_of_long_records_is_read_to_its_end() {
    // The longest record that is believed is asked for at each of them; were as much moved every time, this would take hours.
    let mut file = craft::pcap_header(1, false);
    file[16..20].copy_from_slice(&0x00ff_ffff_u32.to_le_bytes());
    file.extend([0xff; 16]);
    for _ in 0..1 << 18 {
        let words = [craft::EPOCH, 0, 0x00ff_fff1, 0x00ff_fff1];
        file.extend(words.into_iter().flat_map(u32::to_le_bytes));
    }
    let (packets, damage) = read(&file);
    assert_eq!(packets, []);
    let lost = damage.skipped_bytes + damage.cut_bytes;
    assert_eq!(lost, file.len() as u64 - 24);
}

#[test]
fn what_lies_behind_a_damaged_beginning_is_read() {
    let mut file = craft::pcap(&frames(5));
    file.splice(24..24, [0xee; 100]);
    let (packets, damage) = read(&file);
    assert_eq!(packets.len(), 5);
    assert_eq!((damage.places, damage.skipped_bytes), (1, 100));
}

/// Bytes without an end that are no packet.
struct Garbage {
    front: Vec<u8>,
    given: u64,
}

impl Read for Garbage {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.front.is_empty() {
            let n = self.front.as_slice().read(into)?;
            self.front.drain(..n);
            return Ok(n);
        }
        into.fill(0xee);
        self.given += into.len() as u64;
        Ok(into.len())
    }
}

#[test]
fn garbage_is_read_a_little_at_a_time() {
    let pcapng = [craft::section(), craft::interface(1, &[])].concat();
    for front in [craft::pcap_header(1, false), pcapng] {
        let source = Garbage { front, given: 0 };
        let mut capture = Capture::new(source).unwrap();
        let mut skipped = 0;
        for _ in 0..100 {
            assert_eq!(capture.step(), Step::Other);
            let more = capture.damage().skipped_bytes - skipped;
            assert!(more <= 2 << 20, "{more} bytes at once");
            skipped += more;
        }
        assert!(skipped > 10 << 20, "{skipped} bytes in all");
        assert_eq!(capture.damage().places, 1);
    }
}
