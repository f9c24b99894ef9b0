//! The way of a round trip: its gates in the order in which a message passes them.

use tollgate_gate::{Gate, GateSet};

/// A closed way: behind the last gate of a message lies the first gate of the next one.
///
/// Span `i` leads from gate `i` to the gate behind it; the last span leads from the last gate to the first gate of the next
/// message, which is the application's turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    gates: Vec<Gate>,
}

/// A list of gates that is no way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoWay {
    /// Fewer gates than a comparison with and without one of them needs.
    #[error("a way needs at least {LEAST} gates, and {0} were given")]
    TooShort(usize),
    /// A gate that is there twice.
    #[error("the gate {} is there twice", .0.name())]
    Twice(Gate),
}

/// The fewest gates of a way: two stay when one of them is left out.
const LEAST: usize = 3;

impl Way {
    /// A way through these gates, in the order in which a message passes them.
    ///
    /// # Errors
    /// [`NoWay`] for fewer than three gates, or a gate that is there twice.
    pub fn new(gates: Vec<Gate>) -> Result<Self, NoWay> {
        if gates.len() < LEAST {
            return Err(NoWay::TooShort(gates.len()));
        }
        let mut seen = GateSet::EMPTY;
        for &gate in &gates {
            if seen.contains(gate) {
                return Err(NoWay::Twice(gate));
            }
            seen = seen.with(gate);
        }
        Ok(Self { gates })
    }

    /// The gates in their order.
    pub fn gates(&self) -> &[Gate] {
        &self.gates
    }

    /// Number of gates, which is the number of spans.
    pub fn len(&self) -> usize {
        self.gates.len()
    }

    /// Always false: a way has at least three gates.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The places on the way of the gates in a set, in the order of the way.
    pub fn places(&self, set: GateSet) -> Vec<usize> {
        let places = self.gates.iter().enumerate();
        places
            .filter(|(_, gate)| set.contains(**gate))
            .map(|(place, _)| place)
            .collect()
    }

    /// The spans from one place to another, round the end of the way where the second does not lie behind the first.
    pub(crate) fn spans_between(&self, from: usize, to: usize) -> impl Iterator<Item = usize> {
        let len = self.len();
        let count = (to + len - from - 1) % len + 1;
        (from..from + count).map(move |span| span % len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(count: usize) -> Vec<Gate> {
        Gate::ALL[..count].to_vec()
    }

    #[test]
    fn spans_between_places_go_round_the_end() {
        let way = Way::new(gates(4)).unwrap();
        let between = |from, to| way.spans_between(from, to).collect::<Vec<_>>();
        assert_eq!(between(0, 1), [0]);
        assert_eq!(between(1, 3), [1, 2]);
        assert_eq!(between(3, 0), [3]);
        assert_eq!(between(2, 1), [2, 3, 0]);
        assert_eq!(between(2, 2), [2, 3, 0, 1]);
    }

    #[test]
    fn a_way_has_each_gate_once_and_three_at_least() {
        assert_eq!(Way::new(gates(2)), Err(NoWay::TooShort(2)));
        let mut twice = gates(3);
        twice.push(twice[1]);
        assert_eq!(Way::new(twice.clone()), Err(NoWay::Twice(twice[1])));
    }

    #[test]
    fn places_are_in_the_order_of_the_way() {
        let mut backwards = gates(5);
        backwards.reverse();
        let way = Way::new(backwards).unwrap();
        let set = GateSet::of(&[Gate::ALL[0], Gate::ALL[3]]);
        assert_eq!(way.places(set), [1, 4]);
    }
}
