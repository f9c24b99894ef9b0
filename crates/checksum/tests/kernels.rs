//! Every kernel against the definition of RFC 1071, at every length, alignment and split.

use proptest::prelude::*;
use tollgate_checksum::{Kernel, Partial, sum_header};

/// The longest message that is tried at every length.
const LONGEST: usize = if cfg!(miri) { 270 } else { 9000 };
/// From one length to the next; Miri is slow.
const LENGTH_STEP: usize = if cfg!(miri) { 7 } else { 1 };
/// Bytes around a copy that must stay.
const GUARD: u8 = 0xA5;

/// The sum as RFC 1071 section 1 defines it, written without any of the crate's code.
fn reference(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for pair in bytes.chunks(2) {
        let second = pair.get(1).copied().unwrap_or(0);
        sum += u64::from(u16::from_ne_bytes([pair[0], second]));
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// Random bytes from a seed (SplitMix64).
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bytes.extend_from_slice(&(word ^ (word >> 31)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Checks one kernel on `src`, summing it and copying it to `offset` bytes into a guarded buffer.
fn check(kernel: Kernel, src: &[u8], expected: u16, buffer: &mut Vec<u8>, offset: usize) {
    assert_eq!(
        kernel.sum(src).fold(),
        expected,
        "sum: {} of {} bytes",
        kernel.name(),
        src.len()
    );
    check_copy(kernel, Kernel::copy_and_sum, src, expected, buffer, offset);
    check_copy(kernel, few, src, expected, buffer, offset);
}

fn few(kernel: &Kernel, dst: &mut [u8], src: &[u8]) -> Partial {
    let before = dst.to_vec();
    match kernel.copy_and_sum_few(dst, src) {
        Some(sum) => {
            assert!(kernel.takes_as_few(src.len()));
            sum.narrow()
        }
        None => {
            assert!(!kernel.takes_as_few(src.len()));
            assert_eq!(dst, before, "bytes were copied and refused");
            kernel.copy_and_sum(dst, src)
        }
    }
}

/// Checks one of a kernel's two ways to copy and sum.
fn check_copy(
    kernel: Kernel,
    copy: fn(&Kernel, &mut [u8], &[u8]) -> Partial,
    src: &[u8],
    expected: u16,
    buffer: &mut Vec<u8>,
    offset: usize,
) {
    let what = || {
        format!(
            "{} of {} bytes, copied to offset {offset}",
            kernel.name(),
            src.len()
        )
    };
    let end = offset + src.len();
    buffer.clear();
    buffer.resize(end + 64, GUARD);
    let copied = copy(&kernel, &mut buffer[offset..end], src).fold();
    assert_eq!(copied, expected, "copied and summed: {}", what());
    assert!(&buffer[offset..end] == src, "the copy differs: {}", what());
    assert!(
        buffer[..offset] == [GUARD; 64][..offset],
        "wrote before: {}",
        what()
    );
    assert!(buffer[end..] == [GUARD; 64], "wrote behind: {}", what());
}

/// Folded sums of every prefix of `bytes`.
fn reference_of_prefixes(bytes: &[u8]) -> Vec<u16> {
    let mut sums = vec![0];
    let mut even = 0u64;
    for pair in bytes.chunks(2) {
        let fold = |sum: u64| {
            if sum == 0 {
                0
            } else {
                ((sum - 1) % 0xFFFF + 1) as u16
            }
        };
        sums.push(fold(even + u64::from(u16::from_ne_bytes([pair[0], 0]))));
        if let [first, second] = *pair {
            even += u64::from(u16::from_ne_bytes([first, second]));
            sums.push(fold(even));
        }
    }
    sums
}

fn every_length_of(bytes: &[u8]) {
    let expected = reference_of_prefixes(bytes);
    assert_eq!(expected.len(), bytes.len() + 1);
    let mut buffer = Vec::new();
    for kernel in every_kernel() {
        for (len, &expected) in expected.iter().enumerate().step_by(LENGTH_STEP) {
            check(kernel, &bytes[..len], expected, &mut buffer, len % 64);
        }
    }
}

#[test]
fn every_length_of_all_ones() {
    every_length_of(&vec![0xFF; LONGEST]);
}

#[test]
fn every_length_of_zeros() {
    every_length_of(&vec![0; LONGEST.min(1200)]);
}

#[test]
fn every_length_of_random_bytes() {
    every_length_of(&noise(LONGEST, 1071));
}

#[test]
fn the_prefix_sums_are_the_reference() {
    let bytes = noise(100, 7);
    for (len, sum) in reference_of_prefixes(&bytes).into_iter().enumerate() {
        assert_eq!(sum, reference(&bytes[..len]));
    }
}

#[test]
fn every_alignment_of_source_and_copy() {
    let bytes = noise(1600 + 64, 1624);
    let mut buffer = Vec::new();
    let lengths: &[usize] = if cfg!(miri) {
        &[21, 133]
    } else {
        &[1, 7, 20, 33, 64, 127, 128, 200, 513, 1400, 1600]
    };
    for kernel in Kernel::all() {
        for &len in lengths {
            for start in (0..64).step_by(LENGTH_STEP) {
                let src = &bytes[start..start + len];
                let expected = reference(src);
                for offset in [0, start, (7 * start + 13) % 64] {
                    check(kernel, src, expected, &mut buffer, offset);
                }
            }
        }
    }
}

/// Lengths around 64 KiB and beyond one block of every kernel.
#[cfg(not(miri))] // Miri is too slow for it.
#[test]
fn long_messages() {
    let mut buffer = Vec::new();
    let ones = vec![0xFF; (3 << 20) + 300];
    let random = noise((3 << 20) + 300, 3);
    for len in [
        65_535,
        65_536,
        (1 << 20) - 1,
        1 << 20,
        (2 << 20) + 77,
        (3 << 20) + 299,
    ] {
        for bytes in [&ones[..len], &random[..len]] {
            let expected = reference(bytes);
            for kernel in Kernel::all() {
                check(kernel, bytes, expected, &mut buffer, len % 32);
            }
        }
    }
}

#[test]
fn rfc1071_section_3_by_every_kernel() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    for kernel in Kernel::all() {
        assert_eq!(
            kernel.sum(&bytes).finish().to_be_u16(),
            0x220d,
            "{}",
            kernel.name()
        );
    }
    assert_eq!(sum_header(&bytes).finish().to_be_u16(), 0x220d);
}

#[test]
fn header_sum_at_every_length() {
    let random = noise(128, 60);
    for bytes in [&random[..], &[0xFF; 128], &[0; 128]] {
        for len in (0..=bytes.len()).step_by(LENGTH_STEP) {
            assert_eq!(
                sum_header(&bytes[..len]).fold(),
                reference(&bytes[..len]),
                "{len}"
            );
        }
    }
}

#[test]
fn kernels_have_names_and_are_found_by_them() {
    let names: Vec<_> = Kernel::all().map(|kernel| kernel.name()).collect();
    assert_eq!(&names[..2], ["halfword", "unrolled"]);
    for &name in &names {
        assert_eq!(
            Kernel::by_name(name).map(|kernel| kernel.name()),
            Some(name)
        );
        assert_eq!(names.iter().filter(|&&other| other == name).count(), 1);
    }
    assert_eq!(Some(&Kernel::best().name()), names.last());
    assert!(Kernel::by_name("none such").is_none());
    assert_eq!(format!("{:?}", Kernel::HALFWORD), "Kernel(\"halfword\")");
}

/// Every kernel in one pass and in two.
fn every_kernel() -> impl Iterator<Item = Kernel> {
    Kernel::all().flat_map(|kernel| [kernel, kernel.separate()])
}

#[test]
fn separate_kernel_has_its_name_and_no_way_of_its_own_with_few_bytes() {
    for kernel in Kernel::all() {
        let separate = kernel.separate();
        assert_eq!(separate.name(), kernel.name());
        assert!(!separate.takes_as_few(1));
        assert_eq!(separate.copy_and_sum_few(&mut [0], &[1]).map(|_| ()), None);
    }
}

#[test]
fn what_sums_nothing_is_not_taken_apart() {
    let mut copy = [0; 200];
    let sum = Kernel::COPY_ONLY
        .separate()
        .copy_and_sum(&mut copy, &[7; 200]);
    assert_eq!((sum.fold(), copy), (0, [7; 200]));
}

fn any_kernel() -> impl Strategy<Value = Kernel> {
    proptest::sample::select(every_kernel().collect::<Vec<_>>())
}

/// Bytes at an alignment: how many to leave out in front, and the message behind them.
fn message() -> impl Strategy<Value = (usize, Vec<u8>)> {
    (0usize..64, 0..=LONGEST, any::<u64>())
        .prop_map(|(start, len, seed)| (start, noise(start + len, seed)))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 512 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_kernel_equals_the_halfword_loop(
        kernel in any_kernel(),
        (start, bytes) in message(),
        offset in 0usize..64,
    ) {
        let src = &bytes[start..];
        let expected = Kernel::HALFWORD.sum(src).fold();
        prop_assert_eq!(expected, reference(src));
        check(kernel, src, expected, &mut Vec::new(), offset);
    }

    #[test]
    fn pieces_combine_to_the_whole(
        kernel in any_kernel(),
        (start, bytes) in message(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let src = &bytes[start..];
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(src.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(src.len());
        let mut total = Partial::ZERO;
        let mut done = 0;
        for cut in cuts {
            total = total.append(done, kernel.sum(&src[done..cut]));
            done = cut;
        }
        prop_assert_eq!(total.fold(), reference(src));
    }

    #[test]
    fn either_part_follows_from_the_whole_and_the_other(
        kernel in any_kernel(),
        (start, bytes) in message(),
        cut in any::<prop::sample::Index>(),
    ) {
        let src = &bytes[start..];
        let cut = cut.index(src.len() + 1);
        let whole = kernel.sum(src);
        let (front, rest) = (kernel.sum(&src[..cut]), kernel.sum(&src[cut..]));
        // Zero has two representations; a header, which is not zeros alone, makes them one.
        let header = Partial::from_be_word(0x4500);
        prop_assert_eq!(header + whole.behind(cut, front), header + rest);
        prop_assert_eq!(header + whole.in_front(cut, rest), header + front);
    }

    #[test]
    fn an_odd_split_swaps_the_second_part(
        kernel in any_kernel(),
        (start, bytes) in message(),
        cut in any::<prop::sample::Index>(),
    ) {
        let src = &bytes[start..];
        prop_assume!(src.len() >= 2);
        let cut = cut.index(src.len()) | 1;
        prop_assume!(cut <= src.len());
        let second = kernel.sum(&src[cut..]).at_odd_offset();
        prop_assert_eq!(kernel.sum(&src[..cut]) + second, kernel.sum(src));
    }

    #[test]
    fn taking_out_what_was_added_leaves_the_rest(a in any::<u32>(), b in any::<u32>()) {
        let (a, b) = (Partial::from_ne_u32(a), Partial::from_ne_u32(b));
        let left = (a + b) - b;
        // Ones-complement has two zeros, which only a zero can be confused with.
        prop_assert!(left == a || (left.fold() % 0xFFFF == 0 && a.fold() % 0xFFFF == 0));
    }

    #[test]
    fn an_updated_checksum_is_the_checksum_of_the_changed_header(
        header in proptest::collection::vec(any::<u16>(), 10..30),
        at in any::<prop::sample::Index>(),
        new in any::<u32>(),
    ) {
        // A header is never all zeros, which is what equation 3 asks for.
        let mut header = header;
        header[0] = 0x4500;
        let sum = |words: &[u16]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            sum_header(&bytes).finish()
        };
        let before = sum(&header);
        let at = 1 + at.index(header.len() - 2);
        let word = (new >> 16) as u16;
        let mut changed = header.clone();
        let old = std::mem::replace(&mut changed[at], word);
        prop_assert_eq!(before.update(old, word), sum(&changed));
        let old = u32::from(old) << 16 | u32::from(std::mem::replace(&mut changed[at + 1], new as u16));
        prop_assert_eq!(before.update_u32(old, new), sum(&changed));
    }

    #[test]
    fn a_word_in_the_place_of_zeros_is_an_update(
        header in proptest::collection::vec(any::<u16>(), 10..30),
        word in 1u16..,
    ) {
        let mut header = header;
        (header[0], header[1]) = (0x4500, 0);
        let sum = |words: &[u16]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            sum_header(&bytes).finish()
        };
        let without = sum(&header);
        header[1] = word;
        prop_assert_eq!(without.with_word(word.to_be()), sum(&header));
        prop_assert_eq!(without.with_word(word.to_be()), without.update(0, word));
    }

    #[test]
    fn wide_words_are_their_bytes(raw in any::<u64>()) {
        let bytes = raw.to_ne_bytes();
        prop_assert_eq!(Partial::from_ne_u64(raw).fold(), reference(&bytes));
        let word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        prop_assert_eq!(Partial::from_ne_u32(word).fold(), reference(&bytes[..4]));
        let word = u16::from_be_bytes([bytes[0], bytes[1]]);
        prop_assert_eq!(Partial::from_be_word(word).fold(), reference(&bytes[..2]));
    }

    #[test]
    fn data_with_its_checksum_is_valid_and_with_a_flipped_bit_is_not(
        payload in proptest::collection::vec(any::<u16>(), 1..40),
        bit in any::<prop::sample::Index>(),
    ) {
        let mut bytes: Vec<u8> = payload.iter().flat_map(|word| word.to_be_bytes()).collect();
        let checksum = Kernel::best().sum(&bytes).finish();
        bytes.extend_from_slice(&checksum.to_ne_bytes());
        prop_assert!(Kernel::best().sum(&bytes).is_valid());
        let bit = bit.index(8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!Kernel::best().sum(&bytes).is_valid());
    }
}

/// With checksums off everything is copied and nothing summed.
#[test]
fn copy_only_says_zero() {
    let kernel = Kernel::COPY_ONLY;
    let mut buffer = Vec::new();
    for len in [0, 1, 63, 64, 127, 128, 1448] {
        let src = noise(len, len as u64);
        assert_eq!(kernel.sum(&src).fold(), 0);
        check_copy(kernel, Kernel::copy_and_sum, &src, 0, &mut buffer, 3);
        check_copy(kernel, few, &src, 0, &mut buffer, 3);
    }
    assert!(Kernel::all().all(|one| one.name() != kernel.name()));
}
