//! Comparisons of simulated runs whose truth is known, with fixed seeds.

mod two_speeds;
mod unnamed_cores;
mod without_intervals;

use tollgate_run::{Cell, Control, Cores, Interval, Measured};
use tollgate_stats as stats;

use super::tests::{control, known, run, two};
use super::*;

/// A generator with a seed (SplitMix64; Steele, Lea and Flood 2014), so that what is simulated is the same everywhere.
struct Dice(u64);

impl Dice {
    /// Uniform in (0, 1).
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + 1e-17
    }

    /// Normal, by Box and Muller's method.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Draws the excess above 1 of a Pareto distribution with a finite mean and an infinite variance.
    fn pareto(&mut self) -> f64 {
        self.uniform().powf(-1.0 / 1.5) - 1.0
    }
}

/// Distribution of the slices of a row.
#[derive(Debug, Clone, Copy)]
enum Noise {
    /// A little, symmetrically.
    Quiet,
    /// With the tails of a Pareto distribution, as when others run in between.
    Tails,
    /// Each slice half of the one before, as on a machine that drifts.
    Drifting,
    /// In two modes, as when a reader is found awake or asleep.
    Modes,
}

const NOISES: [Noise; 4] = [Noise::Quiet, Noise::Tails, Noise::Drifting, Noise::Modes];

/// Slices of a full run, and of a quick one.
const SLICES: usize = 24;

fn number(noise: Noise, truth: f64, dice: &mut Dice) -> Measured {
    let mut last = 0.0;
    let slices: Vec<f64> = (0..SLICES)
        .map(|_| {
            truth
                * match noise {
                    Noise::Quiet => 1.0 + 0.01 * dice.normal(),
                    Noise::Tails => 1.0 + 0.02 * dice.pareto(),
                    Noise::Drifting => {
                        last = 0.5 * last + 0.015 * dice.normal();
                        1.0 + last
                    }
                    Noise::Modes => {
                        let asleep = if dice.uniform() < 0.3 { 1.25 } else { 1.0 };
                        asleep * (1.0 + 0.02 * dice.normal())
                    }
                }
        })
        .collect();
    let estimate = stats::median(&slices).unwrap();
    Measured {
        value: estimate.value,
        ci: Some(Interval {
            low: estimate.interval.low,
            high: estimate.interval.high,
        }),
        ..Measured::default()
    }
}

/// A run of 200 numbers of all kinds of noise, `slower(row)` times their truth. On top of its slices, all of a run is off by
/// about 2 % (the machine's clock and neighbours), and each number by 3 % (where things lie in memory), every 20th by 9 %.
fn simulated(dice: &mut Dice, slower: impl Fn(usize) -> f64) -> Run {
    let machine = (0.02 * dice.normal()).exp();
    let rows: Vec<(String, Vec<Cell>)> = (0..25)
        .map(|row| {
            let cells = (0..8)
                .map(|column| {
                    let off = if dice.uniform() < 0.05 { 0.09 } else { 0.03 };
                    let truth = 1_000.0 * machine * slower(row) * (off * dice.normal()).exp();
                    Cell::Value(number(NOISES[(row + column) % 4], truth, dice))
                })
                .collect();
            (format!("row {row}"), cells)
        })
        .collect();
    let rows: Vec<(&str, Vec<Cell>)> = rows
        .iter()
        .map(|(label, cells)| (label.as_str(), cells.clone()))
        .collect();
    run(Unit::Nanoseconds, &rows)
}

#[test]
fn equal_runs_with_all_kinds_of_noise_show_no_difference_in_95_of_100() {
    const PAIRS: usize = 300;
    let mut dice = Dice(1989);
    let clean = (0..PAIRS)
        .filter(|_| {
            let (a, b) = (simulated(&mut dice, |_| 1.0), simulated(&mut dice, |_| 1.0));
            let comparison = two(&a, &b, &Options::default()).unwrap();
            assert_eq!(comparison.judged, 200);
            is_clean(&comparison)
        })
        .count();
    assert!(clean * 100 >= PAIRS * 95, "{clean} of {PAIRS}");
}

#[test]
fn rows_that_take_twice_as_long_are_found_and_only_those() {
    const PAIRS: usize = 40;
    let mut dice = Dice(1994);
    let (mut found, mut wrong, mut there) = (0, 0, 0);
    for _ in 0..PAIRS {
        let a = simulated(&mut dice, |_| 1.0);
        let b = simulated(&mut dice, |row| if row < 3 { 2.0 } else { 1.0 });
        let comparison = two(&a, &b, &Options::default()).unwrap();
        for row in &comparison.rows {
            let slowed = ["row 0", "row 1", "row 2"].contains(&row.place.row.as_str());
            there += usize::from(slowed);
            match row.verdict {
                Verdict::Regression if slowed => found += 1,
                Verdict::Regression | Verdict::Improvement => wrong += 1,
                Verdict::Slight | Verdict::NoDifference | Verdict::NotJudged { .. } => {}
            }
        }
    }
    // Where runs differ by 5 %, some rows by 13 %, less cannot be told with confidence from a single run of each.
    assert!(found * 10 >= there * 7, "{found} of {there}");
    // The false discovery rate is a share of what is told.
    assert!(
        wrong * 100 <= (found + wrong) * 5,
        "{wrong} false alarms beside {found}"
    );
}

fn is_clean(comparison: &Comparison) -> bool {
    let paths = comparison.paths.iter().map(|one| &one.verdict);
    let all = paths.chain(comparison.rows.iter().map(|row| &row.verdict));
    all.into_iter()
        .all(|verdict| *verdict == Verdict::NoDifference)
}

/// The paths of a simulated run, all on one processor, with their round trips in nanoseconds.
const PATHS: [(&str, f64); 6] = [
    ("kernel-loopback, 1 core, polling", 14_000.0),
    ("kernel-veth, 1 core, polling", 19_000.0),
    ("kernel-remote, 1 core, polling", 31_000.0),
    ("stack-memory", 120.0),
    ("stack-shm, 1 core, polling", 900.0),
    ("peer-smoltcp", 270.0),
];

/// Variation between equal runs, as standard deviations of the logarithm of a quotient of two of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Between {
    /// All rows of a run together.
    run: f64,
    /// All rows of a path together.
    path: f64,
    /// The control benchmark, of which each path feels its own share.
    benchmark: f64,
    /// All rows of `stack-shm` together.
    restless: f64,
    /// Times that one path in three varies by itself as much as the others.
    third: f64,
}

/// Rows scatter by so much from run to run, and this is what their intervals say.
const ROWS: f64 = 0.01;
/// A quotient has the variance of two numbers.
const ONE_OF_TWO: f64 = std::f64::consts::FRAC_1_SQRT_2;

/// A run of six paths at eight sizes.
fn paths_run(dice: &mut Dice, between: Between, slower: impl Fn(&str) -> f64) -> Run {
    let together = ONE_OF_TWO * between.run * dice.normal();
    let benchmark = ONE_OF_TWO * between.benchmark * dice.normal();
    let rows: Vec<(&str, Vec<Cell>)> = PATHS
        .iter()
        .enumerate()
        .map(|(at, (path, ns))| {
            let feels = at as f64 / 5.0;
            let own = ONE_OF_TWO
                * match path.starts_with("stack-shm") {
                    true if between.restless > 0.0 => between.restless,
                    _ if between.third > 0.0 && at % 3 == 2 => between.path * between.third,
                    _ => between.path,
                }
                * dice.normal();
            let cells = (0..8)
                .map(|_| {
                    let row = ONE_OF_TWO * ROWS * dice.normal();
                    let log = together + own + feels * benchmark + row;
                    let value = ns * slower(path) * log.exp();
                    known(value, 1.96 * ONE_OF_TWO * ROWS * value)
                })
                .collect();
            (*path, cells)
        })
        .collect();
    let mut shown = control(Cores::One, "peer-smoltcp", 270.0 * benchmark.exp());
    shown.low_ns = shown.median_ns * (-between.benchmark).exp();
    shown.high_ns = shown.median_ns * between.benchmark.exp();
    Run {
        controls: vec![shown],
        ..run(Unit::Nanoseconds, &rows)
    }
}

/// Counts the pairs of equal sides, with so many runs each, in which a path or a row is judged different.
fn false_alarms(seed: u64, pairs: usize, runs: usize, between: Between) -> usize {
    let mut dice = Dice(seed);
    (0..pairs)
        .filter(|_| {
            let comparison = sides(&mut dice, runs, between, |_| 1.0);
            !is_clean(&comparison)
        })
        .count()
}

/// Compares sides of so many runs each, of which the second is slower.
fn sides(
    dice: &mut Dice,
    runs: usize,
    between: Between,
    slower: impl Fn(&str) -> f64,
) -> Comparison {
    let a: Vec<Run> = (0..runs)
        .map(|_| paths_run(dice, between, |_| 1.0))
        .collect();
    let b: Vec<Run> = (0..runs)
        .map(|_| paths_run(dice, between, &slower))
        .collect();
    let [a, b] = [&a, &b].map(|runs| runs.iter().collect::<Vec<&Run>>());
    compare(&a, &b, &Options::default()).unwrap()
}

/// In how many of so many pairs a path that takes so many times as long is told, and in how many of them anything else is.
fn found(seed: u64, pairs: usize, runs: usize, between: Between, factor: f64) -> (usize, usize) {
    let mut dice = Dice(seed);
    let (mut told, mut else_told) = (0, 0);
    for _ in 0..pairs {
        let slower = |path: &str| {
            if path.starts_with("kernel-veth") {
                factor
            } else {
                1.0
            }
        };
        let comparison = sides(&mut dice, runs, between, slower);
        let is_changed = |path: Option<&str>| path == Some("kernel-veth");
        let of = |one: &&PathChange| is_changed(one.path.as_deref());
        told +=
            usize::from(comparison.paths.iter().find(of).unwrap().verdict == Verdict::Regression);
        let verdicts = comparison
            .paths
            .iter()
            .map(|one| (one.path.clone(), &one.verdict))
            .chain(comparison.rows.iter().map(|row| {
                let path = row.place.row.split(',').next().unwrap();
                (Some(path.to_owned()), &row.verdict)
            }));
        let wrong = verdicts
            .filter(|(path, verdict)| {
                let claim = matches!(verdict, Verdict::Regression | Verdict::Improvement);
                claim && !is_changed(path.as_deref())
            })
            .count();
        else_told += usize::from(wrong > 0);
    }
    (told, else_told)
}

/// All rows of a run move together by 3 %.
const TOGETHER: Between = Between {
    run: 0.03,
    path: 0.0,
    benchmark: 0.0,
    restless: 0.0,
    third: 0.0,
};
/// All rows of a path do so, each path by itself.
const BY_PATH: Between = Between {
    run: 0.0,
    path: 0.03,
    benchmark: 0.0,
    restless: 0.0,
    third: 0.0,
};

#[test]
fn equal_runs_whose_rows_move_together_are_not_told_apart() {
    let alarms = false_alarms(1908, 20, 1, TOGETHER);
    assert!(alarms <= 1, "{alarms} of 20 pairs");
    let alarms = false_alarms(1925, 20, 3, TOGETHER);
    assert!(alarms <= 1, "{alarms} of 20 pairs of three runs a side");
}

#[test]
fn equal_runs_whose_paths_move_by_themselves_are_not_told_apart() {
    let alarms = false_alarms(1935, 20, 1, BY_PATH);
    assert!(alarms <= 1, "{alarms} of 20 pairs");
    let alarms = false_alarms(1947, 20, 3, BY_PATH);
    assert!(alarms <= 1, "{alarms} of 20 pairs of three runs a side");
}

#[test]
fn equal_runs_keep_the_false_discovery_rate_over_many_pairs() {
    let both = Between {
        run: 0.03,
        path: 0.03,
        benchmark: 0.3,
        restless: 0.0,
        third: 0.0,
    };
    for (seed, runs, between) in [
        (1, 1, TOGETHER),
        (2, 1, BY_PATH),
        (3, 1, both),
        (4, 3, BY_PATH),
        (5, 3, both),
    ] {
        let alarms = false_alarms(seed, 300, runs, between);
        assert!(
            alarms <= 15,
            "{alarms} of 300 pairs: {between:?}, {runs} a side"
        );
    }
}

#[test]
fn a_path_a_tenth_slower_is_found_and_nothing_else_is() {
    // Where paths move by themselves, one false claim in twenty is what the false discovery rate allows.
    for (seed, runs, between, allowed) in [
        (1950, 1, TOGETHER, 0),
        (1957, 3, TOGETHER, 0),
        (1963, 3, BY_PATH, 1),
    ] {
        let (told, else_told) = found(seed, 10, runs, between, 1.1);
        assert!(told >= 8, "{told} of 10: {between:?}, {runs} a side");
        assert!(
            else_told <= allowed,
            "{else_told} of 10: {between:?}, {runs} a side"
        );
    }
}

#[test]
fn a_path_twice_as_slow_is_found_though_the_control_benchmark_is_restless() {
    let restless = Between {
        run: 0.02,
        path: 0.02,
        benchmark: 0.3,
        restless: 0.0,
        third: 0.0,
    };
    // With one run a side a benchmark that moved by 40 % leaves room for as much. With three a path that feels it is restless: few runs
    // show its slope.
    for (seed, runs, least) in [(1972, 1, 70), (1979, 3, 90)] {
        let (told, else_told) = found(seed, 100, runs, restless, 2.0);
        assert!(told >= least, "{told} of 100, {runs} a side");
        assert!(else_told <= 10, "{else_told} of 100, {runs} a side");
    }
}

#[test]
fn a_restless_path_takes_no_power_from_the_others() {
    let restless = Between {
        path: 0.03,
        restless: 0.5,
        ..Between::default()
    };
    let (told, else_told) = found(1999, 100, 3, restless, 1.1);
    assert!(told >= 80, "{told} of 100");
    assert!(else_told <= 5, "{else_told} of 100");
    let alarms = false_alarms(2003, 100, 3, restless);
    assert!(alarms <= 5, "{alarms} of 100 pairs");
}

/// Runs a side that the documentation shows.
const RUNS: [usize; 5] = [1, 2, 3, 4, 6];
const SIMULATED: usize = 300;

/// Each path by so much, and one in three by so many times that.
fn one_in_three(path: f64, third: f64) -> Between {
    Between {
        path,
        third,
        ..Between::default()
    }
}

#[test]
fn the_documented_table_is_what_is_simulated() {
    let scenarios = [
        ("all rows together by 3 %", TOGETHER),
        ("each path by 3 %", BY_PATH),
        (
            "each path by 3 %, one in three by 5.1 %",
            one_in_three(0.03, 1.7),
        ),
        (
            "each path by 3 %, one in three by 6 %",
            one_in_three(0.03, 2.0),
        ),
        (
            "each path by 3 %, one in three by 9 %",
            one_in_three(0.03, 3.0),
        ),
        ("each path by 6 %", one_in_three(0.06, 1.0)),
        (
            "each path by 3 %, control benchmark by 30 %",
            Between {
                benchmark: 0.3,
                ..BY_PATH
            },
        ),
    ];
    let percent = |count: usize| format!("{:.0}", 100.0 * count as f64 / SIMULATED as f64);
    let mut table = String::new();
    for (seed, (words, between)) in (2_026..).zip(scenarios) {
        let cells = RUNS.map(|runs| {
            let alarms = false_alarms(seed, SIMULATED, runs, between);
            let (told, _) = found(seed, SIMULATED, runs, between, 1.1);
            // One in twenty, and two standard deviations of the count. One run a side shows no path to be restless.
            let is_held = runs > 1 || between.third < 3.0;
            assert!(
                !is_held || alarms <= 22,
                "{alarms} of {SIMULATED} pairs: {words}, {runs} a side"
            );
            let quiet = [BY_PATH, TOGETHER].contains(&between);
            assert!(
                !quiet || runs < 3 || told * 10 >= SIMULATED * 8,
                "{told} of {SIMULATED}: {words}, {runs} a side"
            );
            format!("{} / {}", percent(alarms), percent(told))
        });
        table += &format!("| {words} | {} |\n", cells.join(" | "));
    }
    let page = include_str!("../../../../docs/compare.md");
    assert!(page.contains(&table), "docs/compare.md is to hold\n{table}");
}

#[test]
fn what_would_be_told_is_told_with_the_probability_that_is_said() {
    const PAIRS: usize = 200;
    let mut dice = Dice(1995);
    for runs in [1, 3] {
        let mut told = 0;
        for _ in 0..PAIRS {
            let [a, mut b] = [(); 2].map(|()| -> Vec<Run> {
                (0..runs)
                    .map(|_| paths_run(&mut dice, BY_PATH, |_| 1.0))
                    .collect()
            });
            let judged = |b: &[Run]| {
                let [a, b] = [&a[..], b].map(|runs| runs.iter().collect::<Vec<&Run>>());
                let comparison = compare(&a, &b, &Options::default()).unwrap();
                let mut paths = comparison.paths.into_iter();
                paths
                    .find(|one| one.path.as_deref() == Some("kernel-veth"))
                    .unwrap()
            };
            let factor = 1.0 + judged(&b).smallest;
            for row in b
                .iter_mut()
                .flat_map(|run| &mut run.experiments[0].tables[0].rows)
            {
                if row.label.starts_with("kernel-veth") {
                    row.cells = row.cells.iter().map(|cell| times(cell, factor)).collect();
                }
            }
            told += usize::from(judged(&b).verdict != Verdict::NoDifference);
        }
        // A variance that is never made smaller errs on the side of more.
        assert!(
            (150..=190).contains(&told),
            "{told} of {PAIRS}, {runs} a side"
        );
    }
}

fn times(cell: &Cell, factor: f64) -> Cell {
    let Cell::Value(Measured {
        value,
        ci: Some(ci),
        ..
    }) = cell
    else {
        panic!("a number with an interval");
    };
    known(value * factor, (ci.high - value) * factor)
}

#[test]
fn false_discoveries_are_a_twentieth_beside_true_ones() {
    const PAIRS: usize = 200;
    let mut dice = Dice(2001);
    for runs in [2, 3, 6] {
        let mut shares = [0.0; 2];
        for _ in 0..PAIRS {
            let slower = |path: &str| {
                if path.starts_with("kernel-veth") {
                    2.0
                } else {
                    1.0
                }
            };
            let comparison = sides(&mut dice, runs, one_in_three(0.03, 2.0), slower);
            let paths = comparison.paths.iter().map(|one| {
                (
                    one.verdict.clone(),
                    one.path.as_deref() == Some("kernel-veth"),
                )
            });
            let rows = comparison.rows.iter().map(|row| {
                (
                    row.verdict.clone(),
                    row.place.row.starts_with("kernel-veth"),
                )
            });
            for (share, all) in shares
                .iter_mut()
                .zip([paths.collect::<Vec<_>>(), rows.collect()])
            {
                let told = || {
                    all.iter()
                        .filter(|(verdict, _)| *verdict != Verdict::NoDifference)
                };
                let wrong = told().filter(|(_, changed)| !changed).count();
                *share += wrong as f64 / told().count().max(1) as f64;
            }
        }
        let shares = shares.map(|share| share / PAIRS as f64);
        assert!(
            shares.iter().all(|share| *share <= 0.06),
            "{shares:?}, {runs} a side"
        );
    }
}
