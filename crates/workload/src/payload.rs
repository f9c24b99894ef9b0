//! The bytes that the ends send each other when they are to be compared.
//!
//! A message's bytes follow from its seed and their place in it, so that the receiver can make them anew: a lost, doubled
//! or displaced piece shows, also one of a whole segment's length.

use tollgate_run::PathId;

use crate::error::Error;

/// The seed of the bytes that are streamed.
pub(crate) const STREAM_SEED: u64 = 0x5eed;

/// The eight bytes at word `index` of the stream with this seed: SplitMix64 (Steele, Lea and Flood 2014, figure 17) of
/// their place.
pub(crate) fn word(seed: u64, index: u64) -> [u8; 8] {
    let mut z = seed
        .rotate_left(32)
        .wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).to_le_bytes()
}

/// Walks the bytes from `offset` on in pieces that lie in one word each: (start in buffer, the word's bytes).
fn pieces(len: usize, offset: u64) -> impl Iterator<Item = (usize, u64, usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= len {
            return None;
        }
        let place = offset + at as u64;
        let skip = (place % 8) as usize;
        let count = (8 - skip).min(len - at);
        let piece = (at, place / 8, skip, count);
        at += count;
        Some(piece)
    })
}

/// Fills `buffer` with the bytes that lie at `offset` and after in the stream with this seed.
pub fn fill(buffer: &mut [u8], seed: u64, offset: u64) {
    for (at, index, skip, count) in pieces(buffer.len(), offset) {
        buffer[at..at + count].copy_from_slice(&word(seed, index)[skip..skip + count]);
    }
}

/// Compares `buffer` with the bytes that lie at `offset` and after in the stream with this seed.
///
/// # Errors
/// The place in the stream of the first byte that differs.
pub fn check(buffer: &[u8], seed: u64, offset: u64) -> Result<(), u64> {
    for (at, index, skip, count) in pieces(buffer.len(), offset) {
        let want = &word(seed, index)[skip..skip + count];
        let got = &buffer[at..at + count];
        if want != got {
            let first = want.iter().zip(got).take_while(|(w, g)| w == g).count();
            return Err(offset + (at + first) as u64);
        }
    }
    Ok(())
}

/// Compares bytes that a path has streamed, of which `offset` came before.
///
/// # Errors
/// [`Error::Corrupt`], with the place of the first byte that differs.
pub(crate) fn check_stream(path: PathId, buffer: &[u8], offset: u64) -> Result<(), Error> {
    check(buffer, STREAM_SEED, offset).map_err(|offset| Error::Corrupt {
        path,
        what: "stream",
        message: 0,
        offset,
    })
}

/// The seed of the `message`th request of a session.
pub fn request_seed(message: u64) -> u64 {
    message * 2
}

/// The seed of the `message`th response of a session.
pub fn response_seed(message: u64) -> u64 {
    message * 2 + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_differ() {
        let mut seen = std::collections::HashSet::new();
        for seed in 0..64 {
            for index in 0..64 {
                assert!(
                    seen.insert(word(seed, index)),
                    "seed {seed} word {index} seen before"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn filling_in_pieces_equals_filling_at_once(len in 0usize..300, cut in 0usize..300, seed: u64, offset in 0u64..1 << 40) {
            let cut = cut.min(len);
            let mut whole = vec![0; len];
            fill(&mut whole, seed, offset);
            let mut parts = vec![0; len];
            let (a, b) = parts.split_at_mut(cut);
            fill(a, seed, offset);
            fill(b, seed, offset + cut as u64);
            prop_assert_eq!(&whole, &parts);
            prop_assert_eq!(check(&whole, seed, offset), Ok(()));
        }

        #[test]
        fn a_changed_byte_is_found(len in 1usize..300, place in 0usize..300, flip in 1u8.., seed: u64, offset in 0u64..1 << 40) {
            let place = place % len;
            let mut buffer = vec![0; len];
            fill(&mut buffer, seed, offset);
            buffer[place] ^= flip;
            prop_assert_eq!(check(&buffer, seed, offset), Err(offset + place as u64));
        }
    }
}
