use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A TCP sequence number: arithmetic is modulo 2^32 and order is circular (RFC 9293, 3.4).
///
/// ```
/// use tollgate_wire::SeqNumber;
/// let last = SeqNumber(u32::MAX);
/// assert!(last.before(last + 1));
/// assert_eq!((last + 5) - last, 5);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// Tells whether `self` comes before `other` on the circle (`self < other`).
    #[inline(always)]
    pub const fn before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Tells whether `self` comes before `other` or equals it.
    #[inline(always)]
    pub const fn at_or_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) <= 0
    }

    /// Tells whether `self` lies in `[start, end]`, both ends included, on the circle.
    #[inline(always)]
    pub const fn within(self, start: Self, end: Self) -> bool {
        self.0.wrapping_sub(start.0) <= end.0.wrapping_sub(start.0)
    }

    /// The later of two numbers that lie less than 2^31 apart.
    #[inline(always)]
    pub const fn latest(self, other: Self) -> Self {
        if self.before(other) { other } else { self }
    }

    /// The earlier of two numbers that lie less than 2^31 apart.
    #[inline(always)]
    pub const fn earliest(self, other: Self) -> Self {
        if other.before(self) { other } else { self }
    }

    /// Distance of `self` behind `earlier`, signed.
    #[inline(always)]
    pub const fn signed_distance(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }
}

impl Add<u32> for SeqNumber {
    type Output = Self;
    #[inline(always)]
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for SeqNumber {
    #[inline(always)]
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for SeqNumber {
    type Output = Self;
    #[inline(always)]
    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

impl Sub for SeqNumber {
    /// Bytes from `other` forward to `self`.
    type Output = u32;
    #[inline(always)]
    fn sub(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0)
    }
}

impl fmt::Debug for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_circular() {
        let a = SeqNumber(u32::MAX - 1);
        assert!(a.before(a + 3));
        assert!(!(a + 3).before(a));
        assert!(a.at_or_before(a));
        assert_eq!(a.latest(a + 3), a + 3);
        assert_eq!(a.earliest(a + 3), a);
        assert_eq!((a + 3).signed_distance(a), 3);
        assert_eq!(a.signed_distance(a + 3), -3);
    }

    #[test]
    fn within_includes_both_ends_across_the_wrap() {
        let start = SeqNumber(u32::MAX);
        assert!(start.within(start, start + 2));
        assert!((start + 2).within(start, start + 2));
        assert!(!(start + 3).within(start, start + 2));
        assert!(!(start - 1).within(start, start + 2));
    }
}
