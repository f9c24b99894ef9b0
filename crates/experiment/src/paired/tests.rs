use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// A cell whose truth is known.
#[derive(Debug, Clone, Copy)]
struct Truth {
    quotient: f64,
    /// Deviation of the logarithm of a round's quotient.
    scatter: f64,
    /// Seconds of a round.
    cost: f64,
}

/// Rounds on a machine that now and then slows one of the two down by 60 %, by a clock of their own.
struct Synthetic {
    cells: Vec<Truth>,
    random: ChaCha8Rng,
    now: f64,
    rounds: Vec<[u32; 2]>,
    disturbed: f64,
}

impl Synthetic {
    fn new(cells: &[Truth], seed: u64, disturbed: f64) -> Self {
        Self {
            cells: cells.to_vec(),
            random: ChaCha8Rng::seed_from_u64(seed),
            now: 0.0,
            rounds: vec![[0; 2]; cells.len()],
            disturbed,
        }
    }

    /// A sample that is as good as normal, of deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.random::<f64>()).sum::<f64>() - 6.0
    }
}

impl Rounds for Synthetic {
    fn round(&mut self, cell: usize, is_trial: bool) -> Option<f64> {
        let Truth {
            quotient,
            scatter,
            cost,
        } = self.cells[cell];
        self.now += cost * self.random.random_range(0.8..1.2);
        self.rounds[cell][usize::from(!is_trial)] += 1;
        let mut log = quotient.ln() + scatter * self.normal();
        for sign in [1.0, -1.0] {
            if self.random.random::<f64>() < self.disturbed {
                log += sign * 1.6f64.ln();
            }
        }
        Some(log.exp())
    }

    fn now(&self) -> Duration {
        Duration::from_secs_f64(self.now)
    }

    fn is_stopped(&self) -> bool {
        false
    }
}

const CELLS: [Truth; 4] = [
    Truth {
        quotient: 1.0,
        scatter: 0.01,
        cost: 0.002,
    },
    Truth {
        quotient: 1.02,
        scatter: 0.08,
        cost: 0.002,
    },
    Truth {
        quotient: 3.0,
        scatter: 0.03,
        cost: 0.004,
    },
    Truth {
        quotient: 1e5,
        scatter: 0.02,
        cost: 0.08,
    },
];

fn within(seconds: f64) -> Limits {
    Limits {
        until: Some(Duration::from_secs_f64(seconds)),
        most: None,
    }
}

/// The share of intervals that hold the truth, cell by cell.
fn coverage(disturbed: f64, seconds: f64) -> Vec<f64> {
    const RUNS: u64 = 400;
    let mut held = [0u32; CELLS.len()];
    for seed in 0..RUNS {
        let mut rounds = Synthetic::new(&CELLS, seed, disturbed);
        let quotients = run(&mut rounds, CELLS.len(), within(seconds));
        for ((held, quotients), truth) in held.iter_mut().zip(&quotients).zip(&CELLS) {
            let interval = stats::median(quotients).unwrap().interval;
            *held += u32::from(interval.contains(truth.quotient));
        }
    }
    held.iter()
        .map(|&held| f64::from(held) / RUNS as f64)
        .collect()
}

/// Order statistics make intervals of 95 % at least; of 400 runs 3 % fewer is chance.
#[test]
fn intervals_hold_the_truth_on_a_quiet_machine_and_on_a_busy_one() {
    for disturbed in [0.0, 0.25] {
        for share in coverage(disturbed, 2.5) {
            assert!((0.92..=1.0).contains(&share), "{disturbed}: {share}");
        }
    }
}

/// The contrast: whoever stops when an interval leaves out "no difference" finds differences where there are none.
#[test]
fn intervals_that_decide_when_to_stop_hold_the_truth_less_often() {
    const RUNS: u64 = 400;
    const MOST: usize = 200;
    let mut held = 0;
    for seed in 0..RUNS {
        let mut rounds = Synthetic::new(&CELLS[..1], seed, 0.0);
        let mut quotients: Vec<f64> = Vec::new();
        let interval = loop {
            quotients.extend(rounds.round(0, false));
            let Ok(estimate) = stats::median(&quotients) else {
                continue;
            };
            if !estimate.interval.contains(1.0) || quotients.len() == MOST {
                break estimate.interval;
            }
        };
        held += u64::from(interval.contains(CELLS[0].quotient));
    }
    assert!(held < 85 * RUNS / 100, "{held}");
}

#[test]
fn rounds_go_to_where_intervals_would_be_widest() {
    let mut rounds = Synthetic::new(&CELLS, 1, 0.0);
    let quotients = run(&mut rounds, CELLS.len(), within(8.0));
    let made: Vec<usize> = quotients.iter().map(Vec::len).collect();
    assert!(made[1] > 5 * made[0] && made[1] > 2 * made[2], "{made:?}");
    let widths = quotients.iter().map(|quotients| {
        let estimate = stats::median(quotients).unwrap();
        (estimate.interval.high - estimate.interval.low) / estimate.value
    });
    let even = run(
        &mut Synthetic::new(&CELLS, 1, 0.0),
        CELLS.len(),
        Limits {
            until: None,
            most: Some((8.0 / 0.088) as u32),
        },
    );
    let wide = stats::median(&even[1]).unwrap().interval;
    let widest = widths.fold(0.0, f64::max);
    assert!(
        widest < (wide.high - wide.low) / CELLS[1].quotient,
        "{widest}"
    );
}

#[test]
fn trial_counts_for_nothing_else_and_time_is_kept() {
    let mut rounds = Synthetic::new(&CELLS, 2, 0.0);
    let quotients = run(&mut rounds, CELLS.len(), within(6.0));
    for (made, quotients) in rounds.rounds.iter().zip(&quotients) {
        assert!(made[0] >= TRIAL_ROUNDS[0] && made[0] <= TRIAL_ROUNDS[1]);
        assert_eq!(made[1] as usize, quotients.len());
    }
    assert!(rounds.now > 5.7 && rounds.now < 6.1, "{}", rounds.now);
}

#[test]
fn little_time_leaves_two_rounds_and_a_limit_ends_them() {
    let mut rounds = Synthetic::new(&CELLS, 3, 0.0);
    let quotients = run(&mut rounds, CELLS.len(), within(0.001));
    assert!(
        quotients
            .iter()
            .all(|quotients| quotients.len() == ALWAYS as usize)
    );
    let limits = Limits {
        until: Some(Duration::from_secs(5)),
        most: Some(3),
    };
    let quotients = run(&mut Synthetic::new(&CELLS, 4, 0.0), CELLS.len(), limits);
    assert!(quotients.iter().all(|quotients| quotients.len() == 3));
}

#[test]
fn cells_that_scatter_alike_have_as_many_rounds() {
    let trial = |logs: &[f64]| Trial {
        logs: logs.to_vec(),
        took: 1.0,
        has_failed: false,
    };
    let still = [trial(&[0.0; 4]), trial(&[0.5; 4])];
    let plan = allot(&still, 50.0, f64::INFINITY);
    assert!((plan[0].rounds - 100.0).abs() < 1e-3, "{plan:?}");
    assert_eq!(plan[0], plan[1]);
    let failed = Trial {
        has_failed: true,
        ..Trial::default()
    };
    let plan = allot(&[still[0].clone(), failed], 50.0, f64::INFINITY);
    assert_eq!(plan[1].rounds, 0.0);
    assert!((plan[0].rounds - 200.0).abs() < 1e-3, "{plan:?}");
}

#[test]
fn plain_quotients_have_the_fewest_rounds() {
    let trial = |quotient: f64, took: f64| Trial {
        logs: [1.0, 1.1, 1.2, 1.3]
            .map(|factor: f64| (quotient * factor).ln())
            .to_vec(),
        took,
        has_failed: false,
    };
    let trials = [trial(2.0, 0.04), trial(4e4, 0.64), trial(1e-4, 0.64)];
    let plan = allot(&trials, 12.0, f64::INFINITY);
    assert_eq!([plan[1].rounds, plan[2].rounds], [LEAST; 2]);
    let left = 12.0 - 2.0 * LEAST * 0.16;
    assert!((plan[0].rounds - left / 0.01).abs() < 1.0, "{plan:?}");
}
