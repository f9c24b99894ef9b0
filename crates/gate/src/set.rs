//! Sets of gates, and the plan by which gates take turns.
//!
//! A gate costs time, and many gates at once make the way that they measure longer. So where we drive the workload,
//! each slice of a run carries only the two gates of one span; [`rotation`] lists the slices.

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

    /// Whether `gate` is in the set.
    #[inline(always)]
    pub const fn contains(self, gate: Gate) -> bool {
        self.0 & (1 << gate as u8) != 0
    }

    /// The number of gates.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is no gate.
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

/// The slices of a rotation: the pairs of gates that are neighbours in `gates`, in the order of the way.
///
/// Each pair measures the way between its two gates with no other gate active. With fewer than two gates there are no
/// slices. A pair counts as neighbours among `gates`, not among all gates: leave the checksum gates out to measure TCP
/// as a whole. [`SpanTable::rotation`](crate::SpanTable::rotation) gives the pairs of a span table, inner spans
/// included.
pub fn rotation(gates: GateSet) -> impl Iterator<Item = GateSet> {
    gates
        .iter()
        .zip(gates.iter().skip(1))
        .map(|(from, to)| GateSet::of(&[from, to]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn rotation_without_two_gates_has_no_slice() {
        assert_eq!(rotation(GateSet::EMPTY).count(), 0);
        assert_eq!(rotation(GateSet::of(&[Gate::IpInBegin])).count(), 0);
    }

    proptest! {
        #[test]
        fn rotation_covers_the_way_pair_by_pair(picks in proptest::collection::vec(any::<bool>(), Gate::ALL.len())) {
            let picked = Gate::ALL.iter().copied().zip(&picks).filter(|(_, pick)| **pick);
            let gates: GateSet = picked.map(|(gate, _)| gate).collect();
            let slices: Vec<GateSet> = rotation(gates).collect();
            prop_assert_eq!(slices.len(), gates.len().saturating_sub(1));
            for slice in &slices {
                prop_assert_eq!(slice.len(), 2);
            }
            for pair in slices.windows(2) {
                prop_assert_eq!(pair[0].last(), pair[1].first());
            }
            if !slices.is_empty() {
                let all = slices.iter().fold(GateSet::EMPTY, |all, slice| all.union(*slice));
                prop_assert_eq!(all, gates);
            }
        }
    }
}
