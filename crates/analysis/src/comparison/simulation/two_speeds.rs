//! A machine that changes between two speeds while a run goes on, as a virtual processor does whose core others use now and then.

use tollgate_run::ControlMean;

use super::*;

/// Looks at the control benchmark in a run.
const LOOKS: usize = 150;
/// The logarithm by which the benchmark is slower at the second speed: 515 ns became 900 ns.
const SLOWER: f64 = 0.56;
/// The probability that the speed changes between two looks.
const CHANGES: f64 = 0.05;
/// Sessions of a row, each at one of the speeds; the row is their median.
const SESSIONS: usize = 11;
/// The path that is made slower.
const CHANGED: &str = "kernel-remote";
/// Its place among [`PATHS`]; each feels a fifth more of the speed than the one before.
const PLACE: usize = 2;

/// A run's account of its control benchmark.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shown {
    /// The median of the looks, as older versions saved it.
    Median,
    /// Their mean.
    Mean,
    /// Their mean, and rows of the benchmark's own path.
    Rows,
}

/// The speeds of a run look by look, slow ones true; it begins at either.
fn speeds(dice: &mut Dice) -> Vec<bool> {
    let mut is_slow = dice.uniform() < 0.5;
    let look = |_| {
        is_slow ^= dice.uniform() < CHANGES;
        is_slow
    };
    (0..LOOKS).map(look).collect()
}

/// A run of six paths at eight sizes.
fn run_at(dice: &mut Dice, shown: Shown, slower: impl Fn(&str) -> f64) -> Run {
    let speeds = speeds(dice);
    let between = Between {
        path: 0.015,
        ..Between::default()
    };
    let mut run = paths_run(dice, between, slower);
    // Paths take turns, so the sessions of a size see the same speeds on each.
    let is_slow: Vec<bool> = (0..8)
        .map(|_| {
            let sessions = (0..SESSIONS).map(|_| speeds[(dice.uniform() * LOOKS as f64) as usize]);
            2 * sessions.filter(|slow| *slow).count() > SESSIONS
        })
        .collect();
    let rows = &mut run.experiments[0].tables[0].rows;
    for (at, row) in rows.iter_mut().enumerate() {
        for (cell, is_slow) in row.cells.iter_mut().zip(&is_slow) {
            let Cell::Value(number) = cell else { continue };
            let felt = if *is_slow {
                at as f64 / 5.0 * SLOWER
            } else {
                0.0
            };
            let value = number.value * felt.exp();
            *cell = known(value, 1.96 * ONE_OF_TWO * ROWS * value);
        }
    }
    if shown != Shown::Rows {
        rows.retain(|row| !row.label.starts_with("peer-smoltcp"));
    }
    let mut look = |slow: &bool| if *slow { SLOWER } else { 0.0 } + 0.01 * dice.normal();
    let mut logs: Vec<f64> = speeds.iter().map(&mut look).collect();
    let neighbours: f64 = logs.windows(2).map(|two| (two[1] - two[0]).powi(2)).sum();
    let looks = LOOKS as f64;
    let mean = ControlMean {
        ns: 515.0 * (logs.iter().sum::<f64>() / looks).exp(),
        error: (neighbours / 2.0 / (looks - 1.0) / looks).sqrt(),
    };
    logs.sort_by(f64::total_cmp);
    let quantile = |at: usize| 515.0 * logs[at].exp();
    run.controls = vec![Control {
        median_ns: quantile(LOOKS / 2),
        low_ns: quantile(LOOKS / 4),
        high_ns: quantile(3 * LOOKS / 4),
        mean: (shown != Shown::Median).then_some(mean),
        n: LOOKS as u64,
        ..control(Cores::One, "peer-smoltcp", 515.0)
    }];
    run
}

/// In how many of 100 pairs, of so many runs a side, a path that takes so many times as long is found, and in how many any other is.
fn detections(seed: u64, shown: Shown, runs: usize, factor: f64) -> [usize; 2] {
    assert!(PATHS[PLACE].0.starts_with(CHANGED));
    let mut dice = Dice(seed);
    let mut counts = [0; 2];
    for _ in 0..100 {
        let mut side = |factor: f64| -> Vec<Run> {
            let slower = |path: &str| {
                if path.starts_with(CHANGED) {
                    factor
                } else {
                    1.0
                }
            };
            (0..runs)
                .map(|_| run_at(&mut dice, shown, slower))
                .collect()
        };
        let (a, b) = (side(1.0), side(factor));
        let [a, b] = [&a, &b].map(|runs| runs.iter().collect::<Vec<&Run>>());
        let comparison = compare(&a, &b, &Options::default()).unwrap();
        let is_told = |is_changed: bool| {
            comparison.paths.iter().any(|one| {
                (one.path.as_deref() == Some(CHANGED)) == is_changed
                    && one.verdict != Verdict::NoDifference
            })
        };
        counts[0] += usize::from(is_told(true));
        counts[1] += usize::from(is_told(false));
    }
    counts
}

#[test]
fn mean_of_looks_shows_what_their_median_hides_and_rows_show_most() {
    let of = |shown| detections(1, shown, 4, 1.1);
    let (median, mean, rows) = (of(Shown::Median), of(Shown::Mean), of(Shown::Rows));
    let all = format!("{median:?} {mean:?} {rows:?}");
    assert!(rows[0] > mean[0] && mean[0] > median[0], "{all}");
    assert!(rows[0] >= 80, "{all}");
    assert!(
        [median, mean, rows].iter().all(|counts| counts[1] <= 8),
        "{all}"
    );
}

#[test]
fn equal_sides_on_a_machine_of_two_speeds_are_not_told_apart() {
    for shown in [Shown::Median, Shown::Mean, Shown::Rows] {
        let [of_one, of_others] = detections(2, shown, 3, 1.0);
        assert!(of_one + of_others <= 8, "{shown:?}: {of_one} {of_others}");
    }
}
