//! Error bounds of the x86 vector kernels, which need only two operations per vector.
//!
//! Vectors are summed in 64-bit lanes. Addition modulo 2⁶⁴ costs one operation per vector but
//! loses the carries, and as 2⁶⁴ ≡ 1 (mod 2¹⁶ − 1), each carry is worth exactly 1. Their number C in
//! a lane follows from the wrapping sum W = T mod 2⁶⁴ and any estimate of the true sum
//! T = W + C·2⁶⁴ that is good to less than 2⁶⁴. The estimate is made of averages, which never overflow:
//! a binary tree of 2ᵏ − 1 `vpavgw` over 2ᵏ vectors, then one shift and one addition for the whole
//! group.
//!
//! Count in units of 2⁴⁸, the weight of the upper 16-bit word of a lane. `vpavgw` gives
//! (p + q + 1) >> 1, which is (p + q) / 2 plus 0 or 1/2. Each level of the tree adds at most 1/2 to the
//! mean, so the root, read as a 64-bit number t, is at least the mean of the group's lanes
//! and above it by at most k/2 in each of its four words: by k/2 · (1 + 2⁻¹⁶ + 2⁻³² + 2⁻⁴⁸) units.
//! Taking a unit as 2¹⁶, `t >> (32 - k)` is 2ᵏ · t, rounded down by less than 2⁻¹⁶ units. So a
//! group's estimate differs from its true sum by e units with
//!
//! > −2⁻¹⁶ < e < k · 2ᵏ⁻¹ · (1 + 2⁻¹⁵).
//!
//! Over a block of at most 2¹⁶ groups, let B be the sum of the groups' upper bounds, and let the sum of
//! the estimates, H, start at [`START`], one unit: it exceeds T by more than 0 and less than
//! B + 1 units, and exceeds T with W rounded down to 2⁻¹⁶ units by less than B + 2. As long as
//! B + 2 ≤ 2¹⁶ units, which is 2³² in the scale of H, H − (W >> 32) has C in its upper half, exactly.
//!
//! The lane's worth is then C plus the upper plus the lower half of W, as 2³² ≡ 1 too.

/// Initial value of the sum of the estimates: one unit.
pub(crate) const START: u64 = 1 << 16;

/// Length of a block at most, in rounds of the main loop, which takes `2^k` vectors each. Groups of `2^k` vectors for
/// each `k` in `rest` may follow once.
pub(crate) const fn rounds_in_block(k: u32, rest: &[u32]) -> u64 {
    let mut fixed = 2 << 15;
    let mut index = 0;
    while index < rest.len() {
        fixed += upper_bound(rest[index]);
        index += 1;
    }
    ((1 << 31) - fixed) / upper_bound(k)
}

/// The upper bound of e for a group of `2^k` vectors, in units of 2⁻¹⁵.
const fn upper_bound(k: u32) -> u64 {
    ((k as u64) << k) / 2 * ((1 << 15) + 1)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;

    /// A group of `2^k` vectors of `width` bytes, each filled with one 16-bit word, such that every average in
    /// the tree rounds up and the last one gives `root`.
    pub(crate) fn worst_group(k: u32, width: usize, root: u16) -> Vec<u8> {
        fn words(k: u32, root: u16) -> Vec<u16> {
            if k == 0 {
                return vec![root];
            }
            [words(k - 1, root - 1), words(k - 1, root)].concat()
        }
        let vectors = words(k, root).into_iter();
        vectors
            .flat_map(|word| word.to_ne_bytes().repeat(width / 2))
            .collect()
    }

    #[test]
    fn the_worst_group_is_as_bad_as_the_bound_says() {
        for k in 1..=4 {
            let words: Vec<u64> = worst_group(k, 2, 100)
                .chunks(2)
                .map(|word| u64::from(u16::from_ne_bytes([word[0], word[1]])))
                .collect();
            let mut tree = words.clone();
            while tree.len() > 1 {
                tree = tree
                    .chunks(2)
                    .map(|pair| (pair[0] + pair[1]).div_ceil(2))
                    .collect();
            }
            let error = (tree[0] << k) - words.iter().sum::<u64>();
            assert_eq!(error, u64::from(k) << (k - 1));
            assert_eq!(error, upper_bound(k) >> 15);
        }
    }

    #[test]
    fn a_block_uses_the_estimates_range_up() {
        for (k, rest) in [(4, &[3, 2, 2][..]), (3, &[2, 1, 0, 0])] {
            let rounds = rounds_in_block(k, rest);
            let used = |rounds: u64| {
                let rest: u64 = rest.iter().map(|&k| upper_bound(k)).sum();
                rounds * upper_bound(k) + rest + (2 << 15)
            };
            assert!(used(rounds) <= 1 << 31 && used(rounds + 1) > 1 << 31);
        }
    }
}
