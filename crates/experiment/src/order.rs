//! Orders of turns, drawn anew for each round.
//!
//! One that always comes behind the same other finds its caches. One that is always first finds what waits for a round to begin. Seeds
//! are fixed, so orders are those of every run.

use std::collections::HashMap;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

const SEED: u64 = 1;

/// Random orders, one after the other.
#[derive(Debug)]
pub(crate) struct Order(ChaCha8Rng);

impl Order {
    pub(crate) fn new() -> Self {
        Self(ChaCha8Rng::seed_from_u64(SEED))
    }

    /// Places of so many things, in the next order.
    pub(crate) fn of(&mut self, count: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..count).collect();
        places.shuffle(&mut self.0);
        places
    }

    /// Puts groups into the next order, and what is in each: what has the same key stays together.
    pub(crate) fn shuffle_groups<T>(&mut self, all: &mut [T], key: impl Fn(&T) -> usize) {
        all.shuffle(&mut self.0);
        let mut ranks: HashMap<usize, usize> = HashMap::new();
        for one in &*all {
            let next = ranks.len();
            ranks.entry(key(one)).or_insert(next);
        }
        all.sort_by_key(|one| ranks[&key(one)]);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use tollgate_run::{PathId, Workload};

    use super::*;
    use crate::context::{Cancel, Context, Options, Progress};
    use crate::interleave::{self, Matrix};

    /// Keeps what runs, in its order.
    #[derive(Default)]
    struct Kept(RefCell<Vec<String>>);

    impl Progress for Kept {
        fn update(&self, what: &str, _done: f64, _left: Duration) {
            self.0.borrow_mut().push(what.to_owned());
        }
    }

    #[test]
    fn sizes_of_an_interleaved_run_take_turns_in_orders_that_differ() {
        let options = Options {
            paths: Some(vec![PathId::StackMemory]),
            sizes: Some(vec![4, 200]),
            iterations: Some(8),
            repetitions: Some(20),
            ..Options::default()
        };
        let kept = Kept::default();
        let context = Context::new(options, None, Cancel::default(), &kept);
        let matrix = Matrix::of(Workload::Rr, &context).unwrap();
        assert_eq!(matrix.variants.len(), 1);
        interleave::run("test", matrix, &[4, 200], &context).unwrap();
        let kept = kept.0.borrow();
        let turns: Vec<&String> = kept
            .iter()
            .filter(|what| what.contains(" of 20, "))
            .collect();
        assert_eq!(turns.len(), 40, "{turns:?}");
        let small_first = turns.chunks(2).filter(|turn| turn[0].ends_with(", 4 B"));
        let small_first = small_first.count();
        assert!((5..=15).contains(&small_first), "{small_first} of 20");
    }

    #[test]
    fn each_comes_first_about_as_often() {
        let mut order = Order::new();
        let mut first = [0; 4];
        for _ in 0..400 {
            let places = order.of(4);
            first[places[0]] += 1;
            let mut sorted = places;
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
        }
        assert!(
            first.iter().all(|times| (70..=130).contains(times)),
            "{first:?}"
        );
    }

    #[test]
    fn groups_stay_together_in_every_order() {
        let mut order = Order::new();
        let (mut firsts, mut first_of_group) = ([0; 3], [0; 2]);
        for _ in 0..300 {
            // Two variants at three sizes.
            let mut all: Vec<(usize, usize)> = (0..6).map(|one| (one % 2, one / 2)).collect();
            order.shuffle_groups(&mut all, |one| one.1);
            assert!(all.chunks(2).all(|pair| pair[0].1 == pair[1].1), "{all:?}");
            firsts[all[0].1] += 1;
            first_of_group[all[2].0] += 1;
        }
        assert!(
            firsts.iter().all(|times| (70..=130).contains(times)),
            "{firsts:?}"
        );
        assert!(
            first_of_group
                .iter()
                .all(|times| (110..=190).contains(times))
        );
    }
}
