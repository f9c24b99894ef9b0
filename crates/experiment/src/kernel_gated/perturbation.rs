//! By how much gates make a round trip longer, and which of many do most.
//!
//! It owns what is made of the rounds' ratios; it must never judge how much is too much.

use tollgate_stats::{Interval, interquartile_mean, median};

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
                share: interquartile_mean(longer)? - 1.0,
                interval: None,
                rounds: longer.len(),
            },
        })
    }
}

/// How many times as long as without gates round trips took with them: of each round, by size and by the span whose gates they were.
#[derive(Debug)]
pub(super) struct Longer(pub(super) Vec<Places>);

/// One number for each span at each size; none where it was not measured.
pub(super) type Places = Vec<Vec<Option<f64>>>;

impl Longer {
    /// The size and the span where gates do most: the first by every other round, the second by those between. None where a round
    /// cannot both choose and tell.
    pub(super) fn most(&self) -> Option<[(usize, usize); 2]> {
        Some([self.chosen_by(0)?, self.chosen_by(1)?])
    }

    fn chosen_by(&self, half: usize) -> Option<(usize, usize)> {
        let first = self.0.first()?;
        let at = |size: usize, span: usize| {
            let rounds = every_other(&self.0, half);
            let told: Vec<f64> = rounds.filter_map(|round| round[size][span]).collect();
            Some(1.0 + Perturbation::of(&told)?.share)
        };
        let sizes = first.iter().enumerate();
        let usual =
            sizes.map(|(size, spans)| (0..spans.len()).map(|span| at(size, span)).collect());
        let usual: Places = usual.collect();
        let places =
            (0..usual.len()).flat_map(|size| (0..usual[size].len()).map(move |span| (size, span)));
        let summed = places.filter_map(|place| Some((place, summed(&usual, place)?)));
        let worst = summed.max_by(|a, b| a.1.total_cmp(&b.1));
        worst.map(|(place, _)| place)
    }

    /// What it is at the places of [`Self::most`]. The greatest of many numbers is one that came out too great, so a round tells it at
    /// the place that the others have chosen.
    pub(super) fn told_at(&self, [first, second]: [(usize, usize); 2]) -> Option<Perturbation> {
        let at = |half: usize, place: (usize, usize)| {
            every_other(&self.0, half).filter_map(move |round| summed(round, place))
        };
        let told = at(1, first).chain(at(0, second));
        Perturbation::of(&told.collect::<Vec<_>>())
    }
}

/// What the size does under the gates of all spans and the span's gates do at all sizes, together: one place for itself tells poorly what
/// its gates do, and in runs of 22 rounds the places differed from this sum by no more than noise. None where one of the two was not measured.
fn summed(places: &Places, (size, span): (usize, usize)) -> Option<f64> {
    let of = |values: &mut dyn Iterator<Item = &Option<f64>>| {
        interquartile_mean(&values.flatten().copied().collect::<Vec<_>>())
    };
    let of_size = of(&mut places[size].iter())?;
    let of_span = of(&mut places.iter().map(|spans| &spans[span]))?;
    Some(of_size + of_span - of(&mut places.iter().flatten())?)
}

/// Every other round, from the first or the second on.
fn every_other(rounds: &[Places], first: usize) -> impl Iterator<Item = &Places> {
    rounds.iter().skip(first).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What gates of two spans do at three sizes, in percent.
    fn round(places: [[f64; 2]; 3]) -> Places {
        let times = |spans: [f64; 2]| spans.map(|share| Some(1.0 + share / 100.0)).to_vec();
        places.map(times).to_vec()
    }

    #[test]
    fn a_round_tells_it_where_the_others_have_chosen() {
        // One half of the rounds was disturbed at the second span, the other at the first.
        let lucky = round([[3.0, 9.0], [2.0, 8.0], [1.0, 7.0]]);
        let other = round([[5.0, 3.0], [4.0, 2.0], [3.0, 1.0]]);
        let rounds = Longer([lucky.clone(), other].into_iter().cycle().take(6).collect());
        let most = rounds.most().unwrap();
        assert_eq!(most, [(0, 1), (0, 0)]);
        // Each tells 3 % where the others have chosen; none of them what made it be chosen.
        let told = rounds.told_at(most).unwrap();
        assert!((told.share - 0.03).abs() < 1e-9, "{told:?}");
        assert_eq!(told.rounds, 6);
        // One round cannot both choose and tell.
        assert_eq!(Longer(vec![lucky]).most(), None);
        assert_eq!(Longer(Vec::new()).most(), None);
    }

    #[test]
    fn a_place_is_told_by_its_size_and_its_span() {
        // A single place stands out, which says little; the second span disturbs more at all other sizes, and most at the first.
        let rounds = Longer(vec![round([[4.0, 6.0], [9.0, 5.0], [2.0, 4.0]]); 2]);
        let most = rounds.most().unwrap();
        assert_eq!(most[0].1, 1);
        let even = Longer(vec![round([[4.0, 6.0], [3.0, 5.0], [2.0, 4.0]]); 8]);
        let most = even.most().unwrap();
        assert_eq!(most, [(0, 1); 2]);
        let told = even.told_at(most).unwrap();
        assert!((told.share - 0.06).abs() < 1e-9, "{told:?}");
        assert!(told.interval.is_some());
    }

    #[test]
    fn what_was_not_measured_has_no_say() {
        let whole = round([[4.0, 6.0], [3.0, 5.0], [2.0, 4.0]]);
        let mut broken_off = whole.clone();
        for spans in &mut broken_off {
            spans[1] = None;
        }
        let rounds = Longer(vec![whole.clone(), whole, broken_off]);
        let most = rounds.most().unwrap();
        assert_eq!(most, [(0, 1); 2]);
        let told = rounds.told_at(most).unwrap();
        assert!((told.share - 0.06).abs() < 1e-9);
        assert_eq!(told.rounds, 2);
        let mut one_size = round([[4.0, 6.0], [3.0, 5.0], [2.0, 4.0]]);
        one_size[0] = vec![None; 2];
        assert_eq!(Longer(vec![one_size; 2]).most(), Some([(1, 1); 2]));
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
