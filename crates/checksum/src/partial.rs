//! The value types: an unfolded ones-complement sum and the final checksum.
//!
//! Owns the arithmetic of RFC 1071 section 2 (order of bytes, odd offsets, combining) and of
//! RFC 1624 (incremental update). It never reads a buffer: that is the kernels' work.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// A ones-complement sum that is not yet folded to 16 bits.
///
/// The words summed are the 16-bit words of the data in native byte order, the first word
/// starting at an even offset; an odd last byte is padded with a zero byte behind it
/// (RFC 1071 section 1). The arithmetic is modulo 2³² − 1 with end-around carry; as
/// 2³² − 1 is a multiple of 0xFFFF, folding afterwards gives the 16-bit sum.
///
/// Zero has two representations, as always in ones-complement. A sum over data folds to 0
/// only when every byte was zero; any other multiple of 0xFFFF folds to 0xFFFF. Addition
/// keeps this, so kernels that sum in a different order still agree after folding.
///
/// Equality compares the folded sums, since the unfolded bits depend on the order of summing.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Partial(u32);

impl Partial {
    /// The sum of no data.
    pub const ZERO: Self = Self(0);

    /// The sum of one header word whose value is given in host order: `from_be_word(0x0800)` is
    /// the sum of the two bytes `08 00`.
    #[inline]
    #[must_use]
    pub const fn from_be_word(word: u16) -> Self {
        Self(word.to_be() as u32)
    }

    /// The sum that folds to `sum` ([`Partial::fold`]).
    #[inline]
    #[must_use]
    pub const fn from_folded(sum: u16) -> Self {
        Self(sum as u32)
    }

    /// The sum of four bytes as they lie in memory, loaded native-endian.
    #[inline]
    #[must_use]
    pub const fn from_ne_u32(raw: u32) -> Self {
        Self(raw)
    }

    /// The sum of eight bytes as they lie in memory, loaded native-endian.
    #[inline]
    #[must_use]
    pub const fn from_ne_u64(raw: u64) -> Self {
        // As in `fold`: the upper half becomes high + low + carry.
        Self((raw.wrapping_add(raw.rotate_left(32)) >> 32) as u32)
    }

    /// The sum of words given in host order and added up in 64 bits without a carry out, such as header fields before
    /// they are written: one byte swap for all of them.
    #[inline]
    #[must_use]
    pub const fn from_be_sum(sum: u64) -> Self {
        Self(Self::from_ne_u64(sum).0.to_be())
    }

    /// The bits, to be added up in 64 bits and given to [`Partial::from_ne_u64`].
    #[inline]
    #[must_use]
    pub const fn to_ne_u32(self) -> u32 {
        self.0
    }

    /// The sum of both parts, each of which starts at an even offset.
    #[inline]
    #[must_use]
    #[allow(clippy::should_implement_trait)] // the trait is implemented too; this one is const
    pub const fn add(self, other: Self) -> Self {
        let (sum, carry) = self.0.overflowing_add(other.0);
        // With a carry the sum is at most 2^32 - 2, so this does not overflow.
        Self(sum.wrapping_add(carry as u32))
    }

    /// Takes out a part that was summed in before.
    ///
    /// After everything is taken out, the sum is the zero that folds to 0xFFFF.
    #[inline]
    #[must_use]
    #[allow(clippy::should_implement_trait)] // as for `add`
    pub const fn sub(self, other: Self) -> Self {
        self.add(Self(!other.0))
    }

    /// The sum of the same bytes when they start at an odd offset: each 16-bit word with its
    /// bytes swapped (RFC 1071 section 2(B)). Applied twice it gives the same sum again.
    #[inline]
    #[must_use]
    pub const fn at_odd_offset(self) -> Self {
        // Rotating by 8 multiplies by 256 modulo 2^32 - 1, hence also modulo 2^16 - 1, where
        // it is the byte swap.
        Self(self.0.rotate_left(8))
    }

    /// The sum of `self`, made over `len_so_far` bytes, followed by the bytes of `next`.
    #[inline]
    #[must_use]
    pub const fn append(self, len_so_far: usize, next: Self) -> Self {
        // A rotation by 16 changes nothing that is left after folding, so only whether the length is odd matters.
        self.add(Self(
            next.0.rotate_left((len_so_far as u32).wrapping_mul(8)),
        ))
    }

    /// The sum of the bytes behind the first `len`, which have the sum `front`, where `self` is the sum of all.
    ///
    /// If the rest is zeros alone, this is the zero that folds to 0xFFFF, as for [`sub`](Self::sub). That makes no
    /// difference to a checksum over anything else than zeros.
    #[inline]
    #[must_use]
    pub const fn behind(self, len: usize, front: Self) -> Self {
        Self(self.sub(front).0.rotate_right((len as u32).wrapping_mul(8)))
    }

    /// The sum of the first `len` bytes, where what lies behind them has the sum `rest`, and `self` is the sum of all. Its zero
    /// is that of [`behind`](Self::behind).
    #[inline]
    #[must_use]
    pub const fn in_front(self, len: usize, rest: Self) -> Self {
        self.sub(Self(rest.0.rotate_left((len as u32).wrapping_mul(8))))
    }

    /// The 16-bit sum, in native byte order and not complemented.
    #[inline]
    #[must_use]
    pub const fn fold(self) -> u16 {
        // The lower half of the sum of both rotations carries into the upper half, which
        // is then low + high + carry.
        (self.0.wrapping_add(self.0.rotate_left(16)) >> 16) as u16
    }

    /// The checksum: folded and complemented.
    #[inline]
    #[must_use]
    pub const fn finish(self) -> Checksum {
        Checksum(!self.fold())
    }

    /// Tells whether data that was summed together with its checksum field is intact: the sum
    /// folds to 0xFFFF (RFC 1071 section 1).
    ///
    /// All-zero input folds to 0 and is not valid: the checksum of zeros is 0xFFFF.
    #[inline]
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.fold() == 0xFFFF
    }
}

/// A ones-complement sum in 64 bits, modulo 2⁶⁴ − 1, which is a multiple of 0xFFFF as well: what is added up before it
/// is folded.
///
/// ```
/// use tollgate_checksum::{Kernel, Accumulator};
///
/// let header: [u8; 20] = [0x45, 0, 0, 0x3c, 0x1c, 0x46, 0x40, 0, 0x40, 6, 0xb1, 0xe6, 172, 16, 10, 99, 172, 16, 10, 12];
/// assert!(Accumulator::of(&header).is_valid());
/// assert_eq!(Accumulator::of(&header).narrow(), Kernel::UNROLLED.sum(&header));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Accumulator(pub(crate) u64);

impl Accumulator {
    /// The sum of no data.
    pub const ZERO: Self = Self(0);
}

impl Accumulator {
    /// The sum of as many bytes as the compiler knows, from an even offset: one add-with-carry for every eight of them.
    #[inline(always)]
    #[must_use]
    pub fn of<const N: usize>(bytes: &[u8; N]) -> Self {
        Self(0).then(bytes)
    }

    /// The sum of `self` and of `bytes`, both from an even offset.
    #[inline(always)]
    #[must_use]
    pub fn then<const N: usize>(self, bytes: &[u8; N]) -> Self {
        Self::chain(self.0, false, bytes)
    }

    /// The sum of `self`, of `other`, and of `bytes`, each from an even offset.
    #[inline(always)]
    #[must_use]
    pub fn with<const N: usize>(self, other: Self, bytes: &[u8; N]) -> Self {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Self::chain(sum, carry, bytes)
    }

    #[inline(always)]
    fn chain<const N: usize>(mut sum: u64, mut carry: bool, bytes: &[u8; N]) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        let (halves, rest) = rest.as_chunks::<4>();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        for word in words {
            (sum, carry) = sum.carrying_add(u64::from_ne_bytes(*word), carry);
        }
        for half in halves {
            (sum, carry) = sum.carrying_add(u64::from(u32::from_ne_bytes(*half)), carry);
        }
        if !rest.is_empty() {
            (sum, carry) = sum.carrying_add(u64::from(u32::from_ne_bytes(last)), carry);
        }
        // With a carry the sum is at most 2^64 - 2, so this does not overflow.
        Self(sum.wrapping_add(u64::from(carry)))
    }

    /// The sum of header fields whose values are given in host order and that were added up without a carry out.
    #[inline(always)]
    #[must_use]
    pub const fn from_be_sum(sum: u64) -> Self {
        // Reversing eight bytes swaps the bytes of each word, and the order of words does not matter.
        Self(sum.to_be())
    }

    /// The sum of both, each of which starts at an even offset.
    #[inline(always)]
    #[must_use]
    #[allow(clippy::should_implement_trait)] // this one is const
    pub const fn add(self, other: Self) -> Self {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Self(sum.wrapping_add(carry as u64))
    }

    /// The sum of `self`, made over `len_so_far` bytes, followed by the bytes of `next`.
    #[inline(always)]
    #[must_use]
    pub const fn append(self, len_so_far: usize, next: Self) -> Self {
        // As in `Partial::append`, modulo 2^64 - 1.
        self.add(Self(
            next.0.rotate_left((len_so_far as u32).wrapping_mul(8)),
        ))
    }

    /// Like [`Accumulator::add`] for a part in 32 bits.
    #[inline(always)]
    #[must_use]
    pub const fn add_partial(self, other: Partial) -> Self {
        self.add(Self(other.0 as u64))
    }

    /// Like [`Partial::finish`].
    #[inline(always)]
    #[must_use]
    pub const fn finish(self) -> Checksum {
        self.narrow().finish()
    }

    /// Narrows the sum to 32 bits.
    #[inline(always)]
    #[must_use]
    pub const fn narrow(self) -> Partial {
        Partial::from_ne_u64(self.0)
    }

    /// Like [`Partial::is_valid`], without folding: the sum is a multiple of 0xFFFF and not that of zeros alone.
    #[inline(always)]
    #[must_use]
    pub const fn is_valid(self) -> bool {
        // The multiples of an odd number are those that its inverse modulo 2^64 makes small.
        const INVERSE: u64 = 0xFFFE_FFFE_FFFE_FFFF;
        const _: () = assert!(INVERSE.wrapping_mul(0xFFFF) == 1);
        self.0.wrapping_mul(INVERSE).wrapping_sub(1) < u64::MAX / 0xFFFF
    }
}

impl From<Partial> for Accumulator {
    #[inline(always)]
    fn from(sum: Partial) -> Self {
        Self(u64::from(sum.0))
    }
}

impl Add for Partial {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self::add(self, other)
    }
}

impl AddAssign for Partial {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = Self::add(*self, other);
    }
}

impl Sub for Partial {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self::sub(self, other)
    }
}

impl SubAssign for Partial {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        *self = Self::sub(*self, other);
    }
}

impl PartialEq for Partial {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.fold() == other.fold()
    }
}

impl Eq for Partial {}

impl fmt::Debug for Partial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Partial({:#010x}, bytes {:02x?})",
            self.0,
            self.fold().to_ne_bytes()
        )
    }
}

/// A final checksum, ready to be stored in its header field.
///
/// The value 0 is what UDP over IPv4 uses to say "no checksum"; there a computed 0 is sent as
/// 0xFFFF (RFC 768), which is for the caller to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Checksum(u16);

impl Checksum {
    /// The checksum after a 16-bit word at an even offset, in native byte order, took the place of zeros. Of other words
    /// than zero it is what [`update`](Self::update) gives, in fewer steps.
    #[inline(always)]
    #[must_use]
    pub const fn with_word(self, word: u16) -> Self {
        // RFC 1624, equation 3: ~(~HC + m') is HC - m' with the borrow taken around.
        let (difference, borrow) = self.0.overflowing_sub(word);
        Self(difference.wrapping_sub(borrow as u16))
    }

    /// The two bytes as they go on the wire.
    #[inline]
    #[must_use]
    pub const fn to_ne_bytes(self) -> [u8; 2] {
        self.0.to_ne_bytes()
    }

    /// The checksum whose two bytes are on the wire as given.
    #[inline]
    #[must_use]
    pub const fn from_ne_bytes(bytes: [u8; 2]) -> Self {
        Self(u16::from_ne_bytes(bytes))
    }

    /// The value of the field as Wireshark prints it.
    #[inline]
    #[must_use]
    pub const fn to_be_u16(self) -> u16 {
        u16::from_be(self.0)
    }

    /// The checksum after a 16-bit word at an even offset changed from `old` to `new`, both
    /// given in host order: HC' = ~(~HC + ~m + m'), RFC 1624 equation 3.
    #[inline]
    #[must_use]
    pub const fn update(self, old: u16, new: u16) -> Self {
        self.replace(Partial(old.to_be() as u32), Partial(new.to_be() as u32))
    }

    /// Like [`update`](Self::update) for a 32-bit field, such as an address, at an even offset.
    #[inline]
    #[must_use]
    pub const fn update_u32(self, old: u32, new: u32) -> Self {
        self.replace(Partial(old.to_be()), Partial(new.to_be()))
    }

    const fn replace(self, old: Partial, new: Partial) -> Self {
        Partial(!self.0 as u32)
            .add(Partial(!old.0))
            .add(new)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> Partial {
        let mut sum = Partial::ZERO;
        for pair in bytes.chunks(2) {
            let second = pair.get(1).copied().unwrap_or(0);
            sum += Partial::from_be_word(u16::from_be_bytes([pair[0], second]));
        }
        sum
    }

    /// RFC 1071 section 3: the sum of these bytes is ddf2 in normal order.
    const RFC1071: [u8; 8] = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];

    #[test]
    fn rfc1071_section_3_example() {
        assert_eq!(of(&RFC1071).fold().to_ne_bytes(), [0xdd, 0xf2]);
        assert_eq!(of(&RFC1071).finish().to_be_u16(), !0xddf2);
        assert_eq!(of(&RFC1071).finish().to_ne_bytes(), [0x22, 0x0d]);
        assert_eq!(
            Partial::from_ne_u64(u64::from_ne_bytes(RFC1071)),
            of(&RFC1071)
        );
    }

    #[test]
    fn rfc1071_section_3_broken_at_an_odd_offset() {
        let head = of(&RFC1071[..3]);
        let tail = of(&RFC1071[3..]);
        assert_eq!(head.append(3, tail), of(&RFC1071));
        assert_eq!(head + tail.at_odd_offset(), of(&RFC1071));
        assert_eq!(of(&RFC1071[..2]).append(2, of(&RFC1071[2..])), of(&RFC1071));
    }

    /// RFC 1624 section 4: with equation 3 the result is 0x0000, where the equation of
    /// RFC 1141 gives 0xFFFF.
    #[test]
    fn rfc1624_section_4_example() {
        let hc = Checksum::from_ne_bytes([0xdd, 0x2f]);
        assert_eq!(hc.update(0x5555, 0x3285).to_be_u16(), 0x0000);
        let back = Checksum::from_ne_bytes([0, 0]).update(0x3285, 0x5555);
        assert_eq!(back.to_be_u16(), 0xdd2f);
    }

    #[test]
    fn update_of_an_address_is_the_update_of_its_halves() {
        let hc = Checksum::from_ne_bytes([0x12, 0x34]);
        let (old, new) = (0x0a00_0001, 0xc0a8_01fe);
        let halves = hc.update(0x0a00, 0xc0a8).update(0x0001, 0x01fe);
        assert_eq!(hc.update_u32(old, new), halves);
    }

    #[test]
    fn both_zeros() {
        assert_eq!(Partial::ZERO.fold(), 0);
        assert!(!Partial::ZERO.is_valid());
        assert_eq!(Partial::from_ne_u32(u32::MAX).fold(), 0xFFFF);
        assert!(Partial::from_ne_u32(u32::MAX).is_valid());
        let p = of(&RFC1071);
        assert_eq!((p - p).fold(), 0xFFFF);
        let mut q = p;
        q -= p;
        assert!(q.is_valid());
        // 1 + (2^32 - 1) wraps and must not become the other zero.
        let wrapped = Partial::from_ne_u32(1).add(Partial::from_ne_u32(u32::MAX));
        assert_eq!(wrapped.fold(), 1);
        // Both halves of a 64-bit word carry.
        assert_eq!(Partial::from_ne_u64(u64::MAX).fold(), 0xFFFF);
    }

    #[test]
    fn fold_is_the_remainder_for_every_pair_of_halves_at_the_edges() {
        for high in [0u32, 1, 2, 0x7fff, 0x8000, 0xfffe, 0xffff] {
            for low in (0u32..=0xffff).step_by(if cfg!(miri) { 257 } else { 1 }) {
                let raw = high << 16 | low;
                let expected = if raw == 0 { 0 } else { (raw - 1) % 0xffff + 1 };
                assert_eq!(u32::from(Partial::from_ne_u32(raw).fold()), expected);
            }
        }
    }

    #[test]
    fn sub_takes_out_what_was_added() {
        let header = of(&[0x45, 0, 0, 0x3c, 0x1c, 0x46, 0x40, 0]);
        let length = Partial::from_be_word(0x003c);
        let without = of(&[0x45, 0, 0, 0, 0x1c, 0x46, 0x40, 0]);
        assert_eq!(header - length, without);
        assert_eq!((header - length) + length, header);
    }

    #[test]
    fn at_odd_offset_swaps_the_bytes() {
        for raw in [0u32, 1, 0x1234, 0xffff, 0x1234_5678, 0xdead_beef, u32::MAX] {
            let p = Partial::from_ne_u32(raw);
            assert_eq!(p.at_odd_offset().fold(), p.fold().swap_bytes());
            assert_eq!(p.at_odd_offset().at_odd_offset(), p);
        }
    }
}
