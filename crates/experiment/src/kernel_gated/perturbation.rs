//! By how much gates make a round trip longer, and which of many do most.
//!
//! It owns what is made of the rounds' ratios; it must never judge how much is too much.

use crate::stats::{Interval, median, typical};

/// By how much gates make a round trip longer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Perturbation {
    /// As a part of it.
    pub(crate) share: f64,
    /// The 95 % interval; none of few rounds.
    pub(crate) interval: Option<Interval>,
    /// The rounds that told it.
    pub(crate) rounds: usize,
}

impl Perturbation {
    /// From how many times as long it was in each round; none of none.
    pub(super) fn of(longer: &[f64]) -> Option<Self> {
        let less_one = |interval: Interval| Interval {
            low: interval.low - 1.0,
            high: interval.high - 1.0,
        };
        Some(match median(longer) {
            Ok(known) => Self {
                share: known.value - 1.0,
                interval: Some(less_one(known.interval)),
                rounds: longer.len(),
            },
            Err(_) => Self {
                share: typical(longer)? - 1.0,
                interval: None,
                rounds: longer.len(),
            },
        })
    }

    /// The place where it is most, by the rounds of each. The greatest of many numbers is one that came out too great; so every other
    /// round chooses, and the rounds between tell how much it is. Both halves do so in turn, and the greater counts.
    pub(super) fn worst<Place: Copy>(places: &[(Place, Vec<f64>)]) -> Option<(Place, Self)> {
        let half = |longer: &[f64], first: usize| {
            let rounds: Vec<f64> = longer.iter().copied().skip(first).step_by(2).collect();
            Self::of(&rounds)
        };
        let told = |chooses: usize, tells: usize| {
            let chosen = places.iter().filter_map(|(place, longer)| {
                Some((half(longer, chooses)?.share, *place, half(longer, tells)?))
            });
            chosen.max_by(|a, b| a.0.total_cmp(&b.0))
        };
        let both = [told(0, 1), told(1, 0)].into_iter().flatten();
        both.map(|(_, place, perturbation)| (place, perturbation))
            .max_by(|a, b| a.1.share.total_cmp(&b.1.share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_is_told_by_rounds_that_did_not_choose_it() {
        let lucky = [1.20, 1.03, 1.20, 1.03, 1.20, 1.03].to_vec();
        let places = [
            ("usual", vec![1.04; 6]),
            ("lucky", lucky),
            ("worst", vec![1.05; 6]),
        ];
        let (place, worst) = Perturbation::worst(&places).unwrap();
        assert_eq!(place, "worst");
        assert!((worst.share - 0.05).abs() < 1e-9);
        assert_eq!((worst.interval, worst.rounds), (None, 3));
        // One round cannot both choose and tell.
        assert_eq!(Perturbation::worst(&[("once", vec![1.05])]), None);
    }

    #[test]
    fn rounds_enough_have_an_interval() {
        let longer = [1.03, 1.04, 1.05, 1.06, 1.07, 1.08, 1.50];
        let known = Perturbation::of(&longer).unwrap();
        assert!((known.share - 0.06).abs() < 1e-9);
        assert!(known.interval.unwrap().contains(0.06));
        assert_eq!(Perturbation::of(&[]), None);
    }
}
