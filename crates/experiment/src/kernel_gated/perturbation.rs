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

    /// The size and the span where it is most, by the rounds of each span at each size: the first by every other round, the second by
    /// those between. A single place tells it poorly, so the whole of its size and the whole of its span have as much of a say as
    /// itself. None where a round cannot both choose and tell.
    pub(super) fn chosen(longer: &[Vec<Vec<f64>>]) -> Option<[(usize, usize); 2]> {
        let most = |half: usize| {
            let share = |rounds: &Vec<f64>| {
                let told: Vec<f64> = every_other(rounds, half).collect();
                Some(Self::of(&told)?.share)
            };
            let shares: Vec<Vec<Option<f64>>> = longer
                .iter()
                .map(|spans| spans.iter().map(share).collect())
                .collect();
            let of_span = |span: usize| average(shares.iter().filter_map(|spans| spans[span]));
            let places = shares.iter().enumerate().flat_map(|(size, spans)| {
                let of_size = average(spans.iter().flatten().copied());
                let place = move |(span, share): (usize, &Option<f64>)| {
                    Some(((size, span), (*share)? + of_size + of_span(span)))
                };
                spans.iter().enumerate().filter_map(place)
            });
            let worst = places.max_by(|a, b| a.1.total_cmp(&b.1));
            worst.map(|(place, _)| place)
        };
        Some([most(0)?, most(1)?])
    }

    /// What it is at the places that were chosen, by the rounds of each. The greatest of many numbers is one that came out too great, so
    /// a round tells it at the place that the others have chosen.
    pub(super) fn at_chosen(longer: [&[f64]; 2]) -> Option<Self> {
        let [first, second] = longer;
        let told = every_other(first, 1).chain(every_other(second, 0));
        Self::of(&told.collect::<Vec<_>>())
    }
}

fn average(shares: impl Iterator<Item = f64> + Clone) -> f64 {
    shares.clone().sum::<f64>() / shares.count() as f64
}

/// Every other round, from the first or the second on.
fn every_other(longer: &[f64], first: usize) -> impl Iterator<Item = f64> {
    longer.iter().copied().skip(first).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_tells_it_where_the_others_have_chosen() {
        let usual = vec![1.04; 6];
        let lucky = vec![1.09, 1.03, 1.09, 1.03, 1.09, 1.03];
        let worst = vec![1.08; 6];
        let rounds = [
            vec![usual.clone(), lucky.clone()],
            vec![usual.clone(), worst.clone()],
        ];
        assert_eq!(Perturbation::chosen(&rounds), Some([(0, 1), (1, 1)]));
        let told = Perturbation::at_chosen([&lucky, &worst]).unwrap();
        // Three rounds tell 3 % of the one, three 8 % of the other; none of them what made it be chosen.
        assert!((told.share - 0.055).abs() < 1e-9, "{told:?}");
        assert_eq!(told.rounds, 6);
        // One round cannot both choose and tell.
        assert_eq!(Perturbation::chosen(&[vec![vec![1.05]]]), None);
    }

    #[test]
    fn a_place_is_chosen_with_its_size_and_its_span() {
        let at = |share: f64| vec![1.0 + share; 2];
        // The greatest of all stands alone; gates of the second span disturb more elsewhere, most at the second size.
        let rounds = [
            vec![at(0.060), at(0.030)],
            vec![at(0.020), at(0.058)],
            vec![at(0.020), at(0.045)],
            vec![at(0.020), at(0.045)],
        ];
        assert_eq!(Perturbation::chosen(&rounds), Some([(1, 1); 2]));
        // A place that was never measured is not chosen, and counts for nobody.
        let rounds = [vec![Vec::new(), at(0.01)], vec![Vec::new(), at(0.02)]];
        assert_eq!(Perturbation::chosen(&rounds), Some([(1, 1); 2]));
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
