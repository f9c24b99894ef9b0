//! Sets of gates: what a slice of a run carries.

use crate::Gate;

/// A set of gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct GateSet(u32);

const _: () = assert!(Gate::ALL.len() <= u32::BITS as usize);

impl GateSet {
    /// No gate.
    pub const EMPTY: Self = Self(0);
    /// Every gate.
    pub const ALL: Self = Self::of(Gate::ALL);

    /// The set of `gates`.
    pub const fn of(gates: &[Gate]) -> Self {
        let mut set = Self::EMPTY;
        let mut i = 0;
        while i < gates.len() {
            set = set.with(gates[i]);
            i += 1;
        }
        set
    }

    /// This set and `gate`.
    #[must_use]
    pub const fn with(self, gate: Gate) -> Self {
        Self(self.0 | 1 << gate as u8)
    }

    /// This set without `gate`.
    #[must_use]
    pub const fn without(self, gate: Gate) -> Self {
        Self(self.0 & !(1 << gate as u8))
    }

    /// The gates of either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Tells whether `gate` is in the set.
    #[inline(always)]
    pub const fn contains(self, gate: Gate) -> bool {
        self.0 & (1 << gate as u8) != 0
    }

    /// The number of gates.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Tells whether there is no gate.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The gates in the order of the way.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Gate> {
        Gate::ALL
            .iter()
            .copied()
            .filter(move |&gate| self.contains(gate))
    }

    /// The first gate on the way.
    pub fn first(self) -> Option<Gate> {
        self.iter().next()
    }

    /// The last gate on the way.
    pub fn last(self) -> Option<Gate> {
        self.iter().next_back()
    }
}

impl FromIterator<Gate> for GateSet {
    fn from_iter<I: IntoIterator<Item = Gate>>(gates: I) -> Self {
        gates.into_iter().fold(Self::EMPTY, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let set = GateSet::of(&[Gate::SocketInEnd, Gate::TcpOutBegin]);
        assert_eq!(set.len(), 2);
        assert!(set.contains(Gate::TcpOutBegin) && !set.contains(Gate::IpOutBegin));
        assert_eq!(set.first(), Some(Gate::TcpOutBegin));
        assert_eq!(set.last(), Some(Gate::SocketInEnd));
        assert_eq!(
            set.without(Gate::SocketInEnd).without(Gate::TcpOutBegin),
            GateSet::EMPTY
        );
        assert_eq!(GateSet::ALL.len(), Gate::ALL.len());
        assert_eq!(GateSet::EMPTY.first(), None);
    }
}
