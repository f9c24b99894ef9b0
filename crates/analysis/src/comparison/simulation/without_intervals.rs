//! Rows without an interval, which only several runs a side can judge.

use super::*;

/// Noise of each row from run to run, beyond that of its path, as standard deviations of the logarithm of one run's number.
#[derive(Debug, Clone, Copy)]
enum Rows {
    /// All alike.
    Even(f64),
    /// One in three by three times as much.
    OneInThree(f64),
    /// From one in eight by 0.5 % to one in eight by 64 %.
    Uneven,
}

impl Rows {
    fn deviation(self, at: usize) -> f64 {
        match self {
            Self::Even(deviation) => deviation,
            Self::OneInThree(deviation) if at % 3 == 2 => 3.0 * deviation,
            Self::OneInThree(deviation) => deviation,
            Self::Uneven => 0.005 * 2.0_f64.powi((at % 8) as i32),
        }
    }
}

/// Rows that keep their interval.
#[derive(Debug, Clone, Copy)]
enum Kept {
    None,
    /// Those of the first half of the paths.
    Paths,
    /// One of two in each run, at random.
    Half,
}

/// Runs of six paths at eight sizes, each path by 3 %, whose numbers have no interval but for some.
struct Noisy {
    runs: usize,
    rows: Rows,
    kept: Kept,
}

impl Noisy {
    fn run(&self, dice: &mut Dice, slower: impl Fn(&str) -> f64) -> Run {
        let mut run = paths_run(dice, BY_PATH, slower);
        for (path, row) in run.experiments[0].tables[0].rows.iter_mut().enumerate() {
            for (column, cell) in row.cells.iter_mut().enumerate() {
                let has_interval = match self.kept {
                    Kept::None => false,
                    Kept::Paths => path < PATHS.len() / 2,
                    Kept::Half => dice.uniform() < 0.5,
                };
                let deviation = self.rows.deviation(9 * path + column);
                let Cell::Value(number) = cell else { continue };
                let value = number.value * (deviation * dice.normal()).exp();
                let half = 1.96 * deviation.hypot(ONE_OF_TWO * ROWS);
                *number = Measured {
                    value,
                    ci: has_interval.then(|| Interval {
                        low: value * (-half).exp(),
                        high: value * half.exp(),
                    }),
                    ..Measured::default()
                };
            }
        }
        run
    }

    /// Compares two sides, of which the second has one path that takes so many times as long.
    fn compared(&self, dice: &mut Dice, factor: f64) -> Comparison {
        let [a, b] = [1.0, factor].map(|factor| -> Vec<Run> {
            let slower = |path: &str| {
                if path.starts_with("kernel-veth") {
                    factor
                } else {
                    1.0
                }
            };
            (0..self.runs).map(|_| self.run(dice, slower)).collect()
        });
        let [a, b] = [&a, &b].map(|runs| runs.iter().collect::<Vec<&Run>>());
        compare(&a, &b, &Options::default()).unwrap()
    }
}

const ROWS_OF_ALL: [Rows; 3] = [Rows::Even(0.02), Rows::OneInThree(0.02), Rows::Uneven];
const KEPT: [Kept; 3] = [Kept::None, Kept::Paths, Kept::Half];

#[test]
fn rows_without_an_interval_are_judged_by_several_runs_a_side_only() {
    for (runs, judged) in [(1, 0), (2, 48), (3, 48)] {
        let noisy = Noisy {
            runs,
            rows: Rows::Even(0.02),
            kept: Kept::None,
        };
        let comparison = noisy.compared(&mut Dice(7), 1.0);
        assert_eq!(comparison.judged, judged);
        assert_eq!(
            comparison.paths.len(),
            if judged > 0 { PATHS.len() } else { 0 }
        );
        let one_run = |row: &Change| match row.verdict {
            Verdict::NotJudged { reason } => reason.contains("one run a side shows no spread"),
            _ => false,
        };
        assert_eq!(comparison.rows.iter().all(one_run), judged == 0);
    }
}

#[test]
fn equal_sides_without_intervals_are_not_told_apart() {
    const PAIRS: usize = 200;
    for (at, runs) in [2, 3, 6].into_iter().enumerate() {
        for rows in ROWS_OF_ALL {
            for kept in KEPT {
                let noisy = Noisy { runs, rows, kept };
                let mut dice = Dice(2_200 + at as u64);
                let mut alarms = 0;
                for _ in 0..PAIRS {
                    let comparison = noisy.compared(&mut dice, 1.0);
                    assert_eq!(comparison.judged, 48);
                    alarms += usize::from(!is_clean(&comparison));
                }
                // One in twenty, and two standard deviations of the count.
                assert!(
                    alarms <= 16,
                    "{alarms} of {PAIRS}: {rows:?}, {kept:?}, {runs} a side"
                );
            }
        }
    }
}

#[test]
fn a_path_without_intervals_that_is_a_tenth_slower_is_found() {
    const PAIRS: usize = 100;
    for (runs, paths, rows) in [(3, 80, 50), (4, 90, 80), (6, 99, 95)] {
        let noisy = Noisy {
            runs,
            rows: Rows::Even(0.01),
            kept: Kept::None,
        };
        let mut dice = Dice(2_300);
        let (mut found, mut rows_found) = (0, 0);
        for _ in 0..PAIRS {
            let comparison = noisy.compared(&mut dice, 1.1);
            let is_path = |one: &&PathChange| one.path.as_deref() == Some("kernel-veth");
            let path = comparison.paths.iter().find(is_path).unwrap();
            found += usize::from(path.verdict == Verdict::Regression);
            let worse = comparison.with(&Verdict::Regression);
            rows_found += worse
                .filter(|one| one.place.row.starts_with("kernel-veth"))
                .count();
        }
        assert!(
            found * 100 >= paths * PAIRS,
            "{found} of {PAIRS}, {runs} a side"
        );
        let all = 8 * PAIRS;
        assert!(
            rows_found * 100 >= rows * all,
            "{rows_found} of {all}, {runs} a side"
        );
    }
}

#[test]
fn false_discoveries_among_rows_without_intervals_are_a_twentieth_beside_true_ones() {
    const PAIRS: usize = 100;
    for runs in [2, 3, 6] {
        for rows in ROWS_OF_ALL {
            let noisy = Noisy {
                runs,
                rows,
                kept: Kept::Half,
            };
            let mut dice = Dice(2_400);
            let mut sum = 0.0;
            for _ in 0..PAIRS {
                let comparison = noisy.compared(&mut dice, 2.0);
                let told = || {
                    comparison
                        .rows
                        .iter()
                        .filter(|one| one.verdict != Verdict::NoDifference)
                };
                let wrong = told()
                    .filter(|one| !one.place.row.starts_with("kernel-veth"))
                    .count();
                sum += wrong as f64 / told().count().max(1) as f64;
            }
            let share = sum / PAIRS as f64;
            assert!(share <= 0.06, "{share}: {rows:?}, {runs} a side");
        }
    }
}
