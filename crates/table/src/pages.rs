//! Numbers as the bytes of Parquet's encodings (parquet-format, Encodings.md): bit packing, the hybrid of runs and packed bits,
//! differences.
//!
//! Must never know what a column means, nor what a page is.

/// Values of a block of differences, and of each of the parts that have a width of their own. Parquet wants multiples of 128 and of
/// 32.
const BLOCK: usize = 128;
const PART: usize = 32;
/// Values that are packed together in the hybrid.
const GROUP: usize = 8;

/// Bits that the largest value takes.
pub(crate) const fn width(most: u64) -> u32 {
    64 - most.leading_zeros()
}

/// Appends values of `width` bits each, the lowest first (at most 64 bits, and no value has more). What is left of the last byte
/// is zero.
fn pack(values: impl IntoIterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    let (mut held, mut bits) = (0_u128, 0);
    for value in values {
        held |= u128::from(value) << bits;
        bits += width;
        if bits >= 64 {
            out.extend_from_slice(&(held as u64).to_le_bytes());
            held >>= 64;
            bits -= 64;
        }
    }
    let rest = (held as u64).to_le_bytes();
    out.extend_from_slice(&rest[..bits.div_ceil(8) as usize]);
}

/// ULEB128.
fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Small numbers of either sign as small numbers.
fn zigzag(value: i64, out: &mut Vec<u8>) {
    varint(((value << 1) ^ (value >> 63)) as u64, out);
}

/// Appends keys of a dictionary as RLE_DICTIONARY: their width, then one run when they are all alike, else packed bits.
pub(crate) fn keys(keys: &[u32], most: u32, out: &mut Vec<u8>) {
    // There are readers that take no width of 0.
    let width = width(most.into()).max(1);
    out.push(width as u8);
    match keys {
        [first, rest @ ..] if rest.iter().all(|key| key == first) => {
            varint((keys.len() as u64) << 1, out);
            out.extend_from_slice(&first.to_le_bytes()[..width.div_ceil(8) as usize]);
        }
        _ => {
            let groups = keys.len().div_ceil(GROUP);
            varint((groups as u64) << 1 | 1, out);
            let padding = std::iter::repeat_n(0, groups * GROUP - keys.len());
            let values = keys.iter().map(|key| u64::from(*key)).chain(padding);
            pack(values, width, out);
        }
    }
}

/// Appends numbers as DELTA_BINARY_PACKED. Differences wrap, so numbers without a sign may be given as those with one.
pub(crate) fn deltas(values: &[i64], out: &mut Vec<u8>) {
    varint(BLOCK as u64, out);
    varint((BLOCK / PART) as u64, out);
    varint(values.len() as u64, out);
    let Some((first, rest)) = values.split_first() else {
        return zigzag(0, out);
    };
    zigzag(*first, out);
    let mut previous = *first;
    for block in rest.chunks(BLOCK) {
        let mut deltas = [0; BLOCK];
        for (delta, value) in deltas.iter_mut().zip(block) {
            *delta = value.wrapping_sub(previous);
            previous = *value;
        }
        let deltas = &deltas[..block.len()];
        let least = deltas.iter().copied().min().unwrap_or(0);
        let above = |delta: &i64| delta.wrapping_sub(least) as u64;
        zigzag(least, out);
        let mut widths = [0; BLOCK / PART];
        for (bits, part) in widths.iter_mut().zip(deltas.chunks(PART)) {
            *bits = width(part.iter().map(above).fold(0, |all, one| all | one)) as u8;
        }
        out.extend_from_slice(&widths);
        for (bits, part) in widths.iter().zip(deltas.chunks(PART)) {
            let padding = std::iter::repeat_n(0, PART - part.len());
            let values = part.iter().map(above).chain(padding);
            pack(values, (*bits).into(), out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out);
        out
    }

    /// The examples of Encodings.md.
    #[test]
    fn the_specification_s_examples() {
        let packed = of(|out| pack(0..8, 3, out));
        assert_eq!(packed, [0b1000_1000, 0b1100_0110, 0b1111_1010]);
        // 7, 5, 3, 1, 2, 3, 4, 5: the block's least difference is -2, and the widest of the rest takes 2 bits.
        let deltas = of(|out| deltas(&[7, 5, 3, 1, 2, 3, 4, 5], out));
        assert_eq!(deltas[..6], [128, 1, 4, 8, 14, 3]);
        assert_eq!(deltas[6..10], [2, 0, 0, 0]);
        assert_eq!(deltas[10..12], [0b1100_0000, 0b0011_1111]);
        assert_eq!(deltas.len(), 18);
    }

    #[test]
    fn keys_that_are_alike_are_one_run() {
        assert_eq!(of(|out| keys(&[3; 1_000], 3, out)), [2, 0xd0, 0x0f, 3]);
        assert_eq!(of(|out| keys(&[0; 3], 0, out)), [1, 6, 0]);
        assert_eq!(of(|out| keys(&[0, 1, 1], 1, out)), [1, 3, 0b110]);
    }
}
