//! The schedule of a block: which set of gates each of its slices carries.
//!
//! In a block the gates of the way are dealt at random into sets, as cards are, several times over. So every gate is in as many
//! sets as every other one, and which gates share a set is chance alone: what a gate costs is not confounded with what others
//! cost. A third of the slices are without gates. Where disabled gates cost something, a quarter are, and another quarter have all gates
//! disabled. All slices of a block come in random order, so drift within it falls on all alike.

use rand::Rng;
use rand::seq::SliceRandom;
use tollgate_gate::GateSet;

use crate::way::{Host, Stations, Way};

/// Gates that are present and record in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probes {
    /// Code without gates.
    Uninstrumented,
    /// Code with gates, none of which is wanted.
    Disabled,
    /// Code with gates, of which these record.
    Active(Stations),
}

impl Probes {
    /// The gates that record on this host.
    pub fn active(self) -> GateSet {
        self.stations().on(Host::Local)
    }

    /// The gates that record on any host.
    pub fn stations(self) -> Stations {
        match self {
            Self::Uninstrumented | Self::Disabled => Stations::default(),
            Self::Active(set) => set,
        }
    }
}

/// The fewest and the most gates of a set. With fewer, the cost of a gate is found from few comparisons; with more, a round
/// trip is disturbed more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sets {
    /// The fewest gates of a set; at least 2.
    pub least: usize,
    /// The most gates of a set; less than twice `least` leaves gates over.
    pub most: usize,
}

impl Sets {
    /// Three to five gates.
    pub const DEFAULT: Self = Self { least: 3, most: 5 };
    /// Two gates, for `--gentle`: a set of three takes what is left over of an odd number.
    pub const GENTLE: Self = Self { least: 2, most: 3 };
}

/// Deals of the gates of the way in a block.
const DEALS: usize = 2;

/// Plans the slices of a block, in the order in which they run; `disabled` says that disabled gates cost something.
///
/// # Panics
/// When `sets` begins below 2 or is empty: such sets have no neighbours.
pub fn block(way: &Way, sets: Sets, disabled: bool, random: &mut impl Rng) -> Vec<Probes> {
    assert!(
        2 <= sets.least && sets.least <= sets.most,
        "sets of {} to {} gates",
        sets.least,
        sets.most
    );
    let mut slices = Vec::new();
    for _ in 0..DEALS {
        let mut gates: Vec<_> = way.stations().collect();
        gates.shuffle(random);
        for size in sizes(gates.len(), sets, random) {
            slices.push(Probes::Active(gates.drain(..size).collect()));
        }
    }
    // Half as many again, so a third of all.
    let without = slices.len().div_ceil(2);
    slices.extend(std::iter::repeat_n(Probes::Uninstrumented, without));
    if disabled {
        slices.extend(std::iter::repeat_n(Probes::Disabled, without));
    }
    slices.shuffle(random);
    slices
}

/// Sizes of sets that sum to `total`, drawn at random. A way that is shorter than the least set is one set.
fn sizes(total: usize, sets: Sets, random: &mut impl Rng) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut left = total;
    while left > 0 {
        let fits = |size: &usize| {
            let rest = left - size;
            // The rest can be dealt when some number of sets holds it.
            rest == 0 || rest.div_ceil(sets.most) * sets.least <= rest
        };
        let choices: Vec<usize> = (sets.least..=sets.most.min(left)).filter(fits).collect();
        let size = match choices.len() {
            0 => left,
            count => choices[random.random_range(0..count)],
        };
        sizes.push(size);
        left -= size;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use tollgate_gate::Gate;

    use super::*;

    proptest! {
        #[test]
        fn each_gate_is_in_as_many_sets_and_a_third_have_none(
            count in 3usize..14, seed in any::<u64>(), gentle in any::<bool>(), disabled in any::<bool>()
        ) {
            let way = Way::new(Gate::ALL[..count].to_vec()).unwrap();
            let sets = if gentle { Sets::GENTLE } else { Sets::DEFAULT };
            let slices = block(&way, sets, disabled, &mut ChaCha8Rng::seed_from_u64(seed));
            let of = |probes| slices.iter().filter(|&&one| one == probes).count();
            let active: Vec<GateSet> = slices
                .iter()
                .map(|one| one.active())
                .filter(|set| !set.is_empty())
                .collect();
            for &gate in way.gates() {
                prop_assert_eq!(active.iter().filter(|set| set.contains(gate)).count(), DEALS);
            }
            let without = active.len().div_ceil(2);
            prop_assert_eq!(of(Probes::Uninstrumented), without);
            prop_assert_eq!(of(Probes::Disabled), if disabled { without } else { 0 });
            for set in active {
                prop_assert!((sets.least..=sets.most).contains(&set.len()), "{}", set.len());
            }
        }
    }

    #[test]
    fn every_two_gates_come_to_share_a_set() {
        let way = Way::new(Gate::ALL[..13].to_vec()).unwrap();
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let slices: Vec<GateSet> = (0..60)
            .flat_map(|_| block(&way, Sets::DEFAULT, false, &mut random))
            .map(Probes::active)
            .collect();
        for &a in way.gates() {
            for &b in way.gates() {
                let share = slices
                    .iter()
                    .filter(|set| set.contains(a) && set.contains(b));
                assert!(share.count() > 5, "{} and {}", a.name(), b.name());
            }
        }
    }
}
