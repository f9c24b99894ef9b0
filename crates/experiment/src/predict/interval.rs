//! Intervals of predicted times, which are to hold nine tenths of the measured ones.
//!
//! A [`Curve`] is costs, and what they leave at the sizes that were measured, in proportion between two of them. What is left is taken
//! for a Brownian motion over the logarithm of the size: its mean between two sizes is that straight line, and its variance that of a
//! Brownian bridge; beyond the first and the last size it grows with the distance. How fast it moves is found by leaving out one size
//! after the other. To that comes by how much a measured time repeats itself, of the sizes around and of the one that is told.
//!
//! The number of deviations in an interval is not taken from a normal distribution, since costs miss some sizes by a step. It is
//! the quantile of the errors of all ways of a table, each over its prediction from the other sizes of its way (split conformal
//! prediction; Lei et al. 2018). So the estimator that predicts is the one that is tested.

use tollgate_run::Cell;

use super::fit::{CostModel, Curve};

/// The share of measurements that an interval is to hold.
pub(super) const HELD: f64 = 0.9;
/// The least that a time is taken to differ from run to run of the same code, as the deviation of its logarithm: a clock's.
const LEAST_DEVIATION: f64 = 1e-3;
/// The most that the upper end of an interval may be of the lower one: wider than that it tells nothing.
const WIDEST: f64 = 10.0;
/// The reasons why a prediction has no interval.
const FEW_SIZES: &str = "too few sizes to leave out";
const TOO_WIDE: &str = "the run's own times scatter so much that its ends are over 10 times apart";
/// Student's quantile of 97.5 % for so few sessions that a half-width of 95 % has this many deviations.
const DEVIATIONS_OF_95: f64 = 2.0;

/// A time that was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Bytes of the message.
    pub(super) size: f64,
    pub(super) ns: f64,
    /// The variance of the logarithm of the time, as it repeats itself.
    noise: f64,
}

impl Point {
    /// A time with half of its 95 % interval, if it has one.
    pub(super) fn new(size: f64, ns: f64, half: Option<f64>) -> Self {
        let deviation = half.map_or(0.0, |half| half / ns / DEVIATIONS_OF_95);
        Self {
            size,
            ns,
            noise: deviation.max(LEAST_DEVIATION).powi(2),
        }
    }

    /// The time of a cell, with its interval; none where it has none.
    pub(super) fn of(size: f64, cell: &Cell) -> Option<Self> {
        let measured = cell.measured()?;
        let half = measured.ci.map(|ci| (ci.high - ci.low) / 2.0);
        Some(Self::new(size, measured.value, half))
    }

    /// The size and the time alone.
    pub(super) const fn pair(&self) -> (f64, f64) {
        (self.size, self.ns)
    }
}

/// The most that times of all sizes can be off together, as half a 95 % interval and a share: what differs between the repetitions of
/// a run, at the median over the sizes. The residuals of a fit do not show it, since all sizes of a repetition have it.
pub(super) fn shared_error(points: &[Point]) -> f64 {
    let mut noise: Vec<f64> = points.iter().map(|one| one.noise).collect();
    noise.sort_by(f64::total_cmp);
    DEVIATIONS_OF_95 * tollgate_stats::middle(&noise).unwrap_or_default().sqrt()
}

/// The error of a size that was left out, and what it may come from.
#[derive(Debug, Clone, Copy)]
struct LeftOut {
    /// The logarithm of what was told over what was measured.
    error: f64,
    /// The variance of the motion that moves by one in one logarithmic unit.
    distance: f64,
    /// The variance of measuring.
    noise: f64,
}

impl LeftOut {
    /// The error over the deviation of a motion that moves so fast.
    fn standardized(&self, motion: f64) -> f64 {
        self.error / (motion * self.distance + self.noise).sqrt()
    }
}

/// Variances of a prediction at a size: of motion and of measuring.
fn variances(points: &[Point], size: f64) -> (f64, f64) {
    let after = points.partition_point(|one| one.size < size);
    match (after.checked_sub(1).map(|at| points[at]), points.get(after)) {
        (Some(low), Some(high)) => {
            let whole = (high.size / low.size).ln();
            let at = (size / low.size).ln() / whole;
            (
                whole * at * (1.0 - at),
                low.noise * (1.0 - at).powi(2) + high.noise * at.powi(2),
            )
        }
        (Some(end), None) | (None, Some(&end)) => ((size / end.size).ln().abs(), end.noise),
        (None, None) => (0.0, 0.0),
    }
}

fn left_out(points: &[Point], cost_model: CostModel) -> Vec<LeftOut> {
    let each = (0..points.len()).filter_map(|at| {
        let mut others = points.to_vec();
        let own = others.remove(at);
        let pairs: Vec<(f64, f64)> = others.iter().map(Point::pair).collect();
        let predicted = Curve::fit(&pairs, cost_model)?.at(own.size);
        let (distance, noise) = variances(&others, own.size);
        Some(LeftOut {
            error: (predicted / own.ns).ln(),
            distance,
            noise: noise + own.noise,
        })
    });
    each.filter(|one| one.error.is_finite()).collect()
}

/// Speed of the residual's motion: the one at which errors are as large as their deviations say, on average.
fn motion(errors: &[LeftOut]) -> f64 {
    let excess = |motion: f64| -> f64 {
        let squares = errors.iter().map(|one| one.standardized(motion).powi(2));
        squares.sum::<f64>() - errors.len() as f64
    };
    let mut high = 1.0;
    if excess(0.0) <= 0.0 || excess(high) > 0.0 {
        return if excess(0.0) <= 0.0 { 0.0 } else { high };
    }
    let mut low = 0.0;
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if excess(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// A way whose times can be told with intervals.
#[derive(Debug, Clone)]
pub(super) struct Teller {
    curve: Curve,
    points: Vec<Point>,
    motion: f64,
    /// The variance of measuring one more time.
    noise: f64,
    /// The number of deviations in an interval; none where there are too few errors.
    half_width_factor: Option<f64>,
}

/// A time that is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Predicted {
    pub(super) ns: f64,
    /// The interval that is to hold [`HELD`] of what is measured, or why there is none.
    pub(super) interval: Result<(f64, f64), &'static str>,
}

impl Predicted {
    /// Tells whether the interval holds a time; none without an interval.
    pub(super) fn holds(&self, ns: f64) -> Option<bool> {
        let (low, high) = self.interval.ok()?;
        Some((low..=high).contains(&ns))
    }
}

/// The ways of a table, each by the times that it takes, the sizes ascending; none of a way that no costs can be fitted to.
pub(super) fn tellers(ways: &[(Vec<Point>, CostModel)]) -> Vec<Option<Teller>> {
    let errors: Vec<Vec<LeftOut>> = ways
        .iter()
        .map(|(points, cost_model)| left_out(points, *cost_model))
        .collect();
    let mut all: Vec<f64> = errors
        .iter()
        .flat_map(|errors| standardized(errors))
        .collect();
    all.sort_by(f64::total_cmp);
    // The next error is as likely to have any place among these.
    let rank = ((all.len() + 1) as f64 * HELD).ceil() as usize;
    let half_width_factor = rank.checked_sub(1).and_then(|at| all.get(at)).copied();
    let teller = |((points, cost_model), errors): (&(Vec<Point>, CostModel), &Vec<LeftOut>)| {
        let pairs: Vec<(f64, f64)> = points.iter().map(Point::pair).collect();
        let mut noise: Vec<f64> = points.iter().map(|one| one.noise).collect();
        noise.sort_by(f64::total_cmp);
        Some(Teller {
            curve: Curve::fit(&pairs, *cost_model)?,
            points: points.clone(),
            motion: motion(errors),
            noise: tollgate_stats::middle(&noise)?,
            half_width_factor,
        })
    };
    ways.iter().zip(&errors).map(teller).collect()
}

/// The sizes of the errors of a way, each over what the others make of it.
fn standardized(errors: &[LeftOut]) -> Vec<f64> {
    let each = (0..errors.len()).filter(|_| errors.len() > 1);
    each.map(|at| {
        let mut others = errors.to_vec();
        let own = others.remove(at);
        own.standardized(motion(&others)).abs()
    })
    .collect()
}

impl Teller {
    /// Predicts the time of a message of so many bytes in the run that the times are from.
    pub(super) fn at(&self, size: f64) -> Predicted {
        self.at_another_time(size, 0.0)
    }

    /// Predicts its time in another run, which differs from this one as a whole by this deviation of the logarithm.
    pub(super) fn at_another_time(&self, size: f64, between_runs: f64) -> Predicted {
        let ns = self.curve.at(size);
        let (distance, noise) = variances(&self.points, size);
        let variance = self.motion * distance + noise + self.noise + between_runs.powi(2);
        let interval = self.half_width_factor.ok_or(FEW_SIZES).and_then(|times| {
            let factor = (times * variance.sqrt()).exp();
            if factor * factor <= WIDEST {
                Ok((ns / factor, ns * factor))
            } else {
                Err(TOO_WIDE)
            }
        });
        Predicted { ns, interval }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const SIZES: [f64; 8] = [4.0, 20.0, 80.0, 200.0, 500.0, 1_400.0, 4_000.0, 8_000.0];
    const NEW: [f64; 8] = [
        40.0, 120.0, 300.0, 1_000.0, 2_500.0, 6_000.0, 12_000.0, 16_000.0,
    ];
    const WAYS: usize = 8;
    /// Deviation between two measurements of a time.
    const NOISE: f64 = 0.01;

    fn normal(random: &mut ChaCha8Rng) -> f64 {
        let (a, b): (f64, f64) = (random.random(), random.random());
        (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// A machine whose times bend about its costs by some percent, and have a step somewhere.
    struct Machine {
        message: f64,
        byte: f64,
        bend: (f64, f64, f64),
        step: (f64, f64),
    }

    impl Machine {
        fn new(random: &mut ChaCha8Rng) -> Self {
            Self {
                message: 1_000.0 * random.random_range(1.0..30.0),
                byte: random.random_range(0.05..0.5),
                bend: (
                    random.random_range(0.0..0.06),
                    random.random_range(0.5..1.5),
                    random.random_range(0.0..6.0),
                ),
                step: (
                    random.random_range(0.0..0.08),
                    random.random_range(1.0..10.0_f64).exp(),
                ),
            }
        }

        fn at(&self, size: f64) -> f64 {
            let (height, pace, phase) = self.bend;
            let bend = height * (pace * size.ln() + phase).sin();
            let step = if size > self.step.1 { self.step.0 } else { 0.0 };
            (self.message + self.byte * size) * (bend + step).exp()
        }

        fn measured(&self, size: f64, random: &mut ChaCha8Rng) -> f64 {
            self.at(size) * (NOISE * normal(random)).exp()
        }
    }

    /// The share of new sizes that the intervals hold, over so many seeds, when all differs from the run as a whole by a deviation; and
    /// the same of intervals that know of the noise alone.
    fn held(seeds: u64, between_runs: f64) -> (f64, f64) {
        let (mut held, mut by_noise, mut all) = (0, 0, 0);
        for seed in 1..=seeds {
            let random = &mut ChaCha8Rng::seed_from_u64(seed);
            let machines: Vec<Machine> = (0..WAYS).map(|_| Machine::new(random)).collect();
            let ways: Vec<(Vec<Point>, CostModel)> = machines
                .iter()
                .map(|machine| {
                    let points = SIZES.map(|size| {
                        let ns = machine.measured(size, random);
                        Point::new(size, ns, Some(ns * NOISE * DEVIATIONS_OF_95))
                    });
                    (points.to_vec(), CostModel::Whole)
                })
                .collect();
            for (machine, teller) in machines.iter().zip(tellers(&ways)) {
                let teller = teller.unwrap();
                let factor = (between_runs * normal(random)).exp();
                for size in NEW {
                    let predicted = teller.at_another_time(size, between_runs);
                    let is = factor * machine.measured(size, random);
                    held += u32::from(predicted.holds(is).unwrap());
                    by_noise += u32::from((is / predicted.ns).ln().abs() < 1.645 * NOISE);
                    all += 1;
                }
            }
        }
        let share = |held: u32| f64::from(held) / f64::from(all);
        (share(held), share(by_noise))
    }

    #[test]
    fn intervals_hold_nine_tenths_of_new_sizes() {
        let (held, by_noise) = held(100, 0.0);
        assert!((0.85..=0.95).contains(&held), "{held}");
        assert!(by_noise < 0.75, "{by_noise}");
    }

    #[test]
    fn intervals_of_another_run_hold_nine_tenths() {
        let (held, _) = held(100, 0.03);
        assert!((0.85..=0.95).contains(&held), "{held}");
    }

    #[test]
    fn few_sizes_tell_no_interval() {
        let points = SIZES.map(|size| Point::new(size, 1_000.0 + size, None));
        let predicted = tellers(&[(points.to_vec(), CostModel::Whole)])[0]
            .clone()
            .unwrap();
        // Eight errors have no ninth tenth.
        assert_eq!(predicted.at(40.0).interval, Err(FEW_SIZES));
        let both = tellers(&vec![(points.to_vec(), CostModel::Whole); 2]);
        let predicted = both[0].as_ref().unwrap().at(40.0);
        let (low, high) = predicted.interval.unwrap();
        assert!(
            low < 1_040.0 && 1_040.0 < high && high / low < 1.02,
            "{predicted:?}"
        );
        assert_eq!(predicted.holds(1_040.0), Some(true));
        assert_eq!(predicted.holds(2_000.0), Some(false));
        assert!(tellers(&[(points[..2].to_vec(), CostModel::Whole)])[0].is_none());
    }

    #[test]
    fn intervals_of_costs_hold_what_all_sizes_of_a_repetition_share() {
        use crate::predict::fit::Costs;
        const REPETITIONS: usize = 6;
        let (message, byte) = (2_000.0, 0.3);
        let held = |shared: f64, seeds: u64| {
            let (mut held, mut by_fit) = (0, 0);
            for seed in 1..=seeds {
                let random = &mut ChaCha8Rng::seed_from_u64(seed);
                let factors: Vec<f64> = (0..REPETITIONS)
                    .map(|_| (shared * normal(random)).exp())
                    .collect();
                let points = SIZES.map(|size| {
                    let times: Vec<f64> = factors
                        .iter()
                        .map(|factor| {
                            (message + byte * size) * factor * (NOISE * normal(random)).exp()
                        })
                        .collect();
                    let cell = tollgate_stats::over_sessions(&times).unwrap();
                    let half = (cell.interval.high - cell.interval.low) / 2.0;
                    Point::new(size, cell.value, Some(half))
                });
                let pairs = points.map(|point| point.pair());
                let costs = Costs::fit(&pairs, CostModel::Whole).unwrap();
                let holds = |costs: Costs| {
                    let ci = costs.per_message.unwrap().ci.unwrap();
                    u32::from((ci.low..=ci.high).contains(&message))
                };
                held += holds(costs.widened(shared_error(&points)));
                by_fit += holds(costs);
            }
            [held, by_fit].map(|held| f64::from(held) / seeds as f64)
        };
        let [widened, by_fit] = held(0.1, 200);
        assert!(widened >= 0.9, "{widened}");
        assert!(by_fit < 0.5, "{by_fit}");
    }

    #[test]
    fn intervals_that_tell_nothing_are_left_out() {
        let way = |half: f64| {
            let points = SIZES.map(|size| {
                let bent = (1_000.0 + size) * (0.05 * size.ln().sin()).exp();
                Point::new(size, bent, Some(half * bent))
            });
            (points.to_vec(), CostModel::Whole)
        };
        let at = |half: f64| {
            let tellers = tellers(&[way(half), way(0.02), way(0.02)]);
            tellers[0].as_ref().unwrap().at(40.0)
        };
        assert!(at(0.02).interval.is_ok());
        // Times that are known within 400 times themselves.
        let predicted = at(400.0);
        assert_eq!(predicted.interval, Err(TOO_WIDE));
        assert_eq!(predicted.holds(1_040.0), None);
    }

    #[test]
    fn intervals_widen_with_the_distance() {
        let bent = |size: f64| (1_000.0 + size) * (0.05 * size.ln().sin()).exp();
        let points = SIZES
            .map(|size| Point::new(size, bent(size), None))
            .to_vec();
        let tellers = tellers(&vec![(points, CostModel::Whole); 3]);
        let width = |size: f64| {
            let predicted = tellers[0].as_ref().unwrap().at(size);
            let (low, high) = predicted.interval.unwrap();
            high / low
        };
        assert!(width(2_400.0) > width(3_900.0));
        assert!(width(30_000.0) > width(10_000.0));
    }
}
