//! What a comparison says of runs whose truth is known.

use tollgate_run::{
    Cell, Column, Cores, Experiment, Host, Interval, Measured, Mitigation, Reading, Row, RowKind,
    Setting, Table, Yardstick, fixture::run_of,
};
use tollgate_stats as stats;

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

    /// What exceeds 1 in a Pareto distribution: its mean is finite and its variance is not.
    fn pareto(&mut self) -> f64 {
        self.uniform().powf(-1.0 / 1.5) - 1.0
    }
}

/// How the slices of a row vary.
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

fn host() -> Host {
    let none = || "not read in this test".to_owned();
    Host {
        kernel: Reading::Value {
            value: "6.1.0".to_owned(),
        },
        cpu_model: Reading::NotAvailable { reason: none() },
        cores: Reading::Value { value: 2 },
        mitigations: Reading::Value {
            value: vec![Mitigation {
                name: "spectre_v2".to_owned(),
                state: "Vulnerable".to_owned(),
            }],
        },
        governor: Reading::NotAvailable { reason: none() },
        frequency_hz: Reading::NotAvailable { reason: none() },
        memory_bytes: Reading::NotAvailable { reason: none() },
        hypervisor: Reading::NotAvailable { reason: none() },
        sysctls: Some(Reading::Value {
            value: vec![Setting {
                name: "net.core.busy_poll".to_owned(),
                state: "0".to_owned(),
            }],
        }),
        offloads: None,
    }
}

/// A run of one table: rows by columns, each cell with this unit.
fn run(unit: Unit, rows: &[(&str, Vec<Cell>)]) -> Run {
    let columns = rows.first().map_or(0, |(_, cells)| cells.len());
    let rows = rows.iter().map(|(label, cells)| Row {
        label: (*label).to_owned(),
        depth: 0,
        kind: RowKind::Plain,
        layer: None,
        note: None,
        cells: cells.clone(),
    });
    let table = Table {
        id: "round-trips".to_owned(),
        title: String::new(),
        columns: (0..columns)
            .map(|at| Column {
                name: format!("{} B", 4 * (at + 1)),
                unit,
            })
            .collect(),
        rows: rows.collect(),
    };
    Run {
        command: "tollgate report".to_owned(),
        host: host(),
        ..run_of(vec![Experiment {
            name: "rr-by-size".to_owned(),
            title: "Round trips by size".to_owned(),
            paper: None,
            finding: String::new(),
            command: String::new(),
            tables: vec![table],
            figures: Vec::new(),
            trust: Vec::new(),
        }])
    }
}

fn known(value: f64, half: f64) -> Cell {
    Cell::Value(Measured {
        value,
        ci: Some(Interval {
            low: value - half,
            high: value + half,
        }),
        ..Measured::default()
    })
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
fn two_runs_of_the_same_thing_show_no_difference_in_95_of_100() {
    const PAIRS: usize = 300;
    let mut dice = Dice(1989);
    let clean = (0..PAIRS)
        .filter(|_| {
            let (a, b) = (simulated(&mut dice, |_| 1.0), simulated(&mut dice, |_| 1.0));
            let comparison = compare(&a, &b, None, &Options::default()).unwrap();
            assert_eq!(comparison.judged, 200);
            comparison
                .rows
                .iter()
                .all(|row| row.verdict == Verdict::NoDifference)
        })
        .count();
    assert!(clean * 100 >= PAIRS * 95, "{clean} of {PAIRS}");
}

#[test]
fn twice_as_much_is_found_and_only_where_it_is() {
    const PAIRS: usize = 40;
    let mut dice = Dice(1994);
    let (mut found, mut wrong, mut there) = (0, 0, 0);
    for _ in 0..PAIRS {
        let a = simulated(&mut dice, |_| 1.0);
        let b = simulated(&mut dice, |row| if row < 3 { 2.0 } else { 1.0 });
        let comparison = compare(&a, &b, None, &Options::default()).unwrap();
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
    assert!(wrong * 100 <= PAIRS * 5, "{wrong} false alarms in {PAIRS}");
}

#[test]
fn on_a_quiet_machine_a_tenth_is_found_even_when_most_rows_have_it() {
    let at = |slow: usize, factor: f64| {
        let cells = (0..100)
            .map(|at| known(1_000.0 * if at < slow { factor } else { 1.0 }, 2.0))
            .collect();
        run(Unit::Nanoseconds, &[("row", cells)])
    };
    for slow in [1, 30, 70, 100] {
        let comparison = compare(&at(0, 1.0), &at(slow, 1.1), None, &Options::default()).unwrap();
        let regressions = comparison.with(&Verdict::Regression).count();
        assert_eq!(regressions, slow, "{}", comparison.finding);
    }
}

#[test]
fn a_repeated_run_tells_how_much_runs_differ() {
    let mut dice = Dice(1996);
    let noisy = |dice: &mut Dice| {
        let cells = (0..200)
            .map(|_| known(1_000.0 * (0.05 * dice.normal()).exp(), 1.0))
            .collect();
        run(Unit::Nanoseconds, &[("row", cells)])
    };
    let (a, b, again) = (noisy(&mut dice), noisy(&mut dice), noisy(&mut dice));
    let measured = compare(&a, &b, Some(&again), &Options::default()).unwrap();
    // The quotient of two numbers that are each off by 5 %.
    let share = measured.between_runs.share;
    assert!((0.055..0.085).contains(&share), "{share}");
    assert_eq!(measured.between_runs.from, Origin::Repeated);
    assert_eq!(measured.between_runs.rows, 200);
    assert!(!measured.has_regressions(), "{}", measured.finding);
    assert!(measured.notes[0].contains("as the repeated run shows in 200 rows"));
}

#[test]
fn a_regression_is_significant_and_beyond_the_threshold() {
    let a = run(
        Unit::Nanoseconds,
        &[(
            "row",
            vec![
                known(100.0, 0.5),
                known(100.0, 30.0),
                known(100.0, 0.5),
                known(100.0, 0.5),
            ],
        )],
    );
    let b = run(
        Unit::Nanoseconds,
        &[(
            "row",
            vec![
                known(140.0, 0.5),
                known(140.0, 30.0),
                known(60.0, 0.5),
                known(101.0, 0.5),
            ],
        )],
    );
    let verdicts = |options: &Options| -> Vec<Verdict> {
        let comparison = compare(&a, &b, None, options).unwrap();
        comparison.rows.into_iter().map(|row| row.verdict).collect()
    };
    assert_eq!(
        verdicts(&Options::default()),
        [
            Verdict::Regression,
            Verdict::NoDifference,
            Verdict::Improvement,
            Verdict::NoDifference
        ]
    );
    let lenient = Options {
        threshold: 0.45,
        experiments: None,
    };
    assert_eq!(verdicts(&lenient)[0], Verdict::Slight);
}

#[test]
fn rates_are_better_when_they_are_higher() {
    let at = |value: f64| run(Unit::BytesPerSecond, &[("row", vec![known(value, 0.5)])]);
    let compared = |a: f64, b: f64| {
        compare(&at(a), &at(b), None, &Options::default())
            .unwrap()
            .rows[0]
            .verdict
            .clone()
    };
    assert_eq!(compared(100.0, 70.0), Verdict::Regression);
    assert_eq!(compared(100.0, 150.0), Verdict::Improvement);
}

#[test]
fn counts_of_instructions_are_exact_and_others_without_an_interval_are_not_judged() {
    let at = |unit, value: f64| run(unit, &[("row", vec![Cell::exact(value)])]);
    let compared = |unit| {
        compare(
            &at(unit, 100.0),
            &at(unit, 110.0),
            None,
            &Options::default(),
        )
        .unwrap()
        .rows[0]
            .verdict
            .clone()
    };
    assert_eq!(compared(Unit::Instructions), Verdict::Regression);
    assert!(matches!(
        compared(Unit::Nanoseconds),
        Verdict::NotJudged { .. }
    ));
    assert!(matches!(compared(Unit::Percent), Verdict::NotJudged { .. }));
}

/// A number that is not above zero has no quotient, and is compared by the difference.
#[test]
fn numbers_without_a_quotient_are_compared_by_their_difference() {
    let number = |value, half| {
        Cell::Value(Measured {
            value,
            ci: Some(Interval {
                low: value - half,
                high: value + half,
            }),
            ..Measured::default()
        })
    };
    let verdict = |a, b| {
        let of = |cell| run(Unit::Nanoseconds, &[("ip", vec![cell])]);
        let comparison = compare(&of(a), &of(b), None, &Options::default()).unwrap();
        let change = &comparison.rows[0];
        assert_eq!(change.change.is_none(), change.a <= 0.0);
        (change.verdict.clone(), comparison.finding)
    };
    let (worse, finding) = verdict(number(-143.0, 698.0), number(12_735.0, 700.0));
    assert_eq!(worse, Verdict::Regression);
    assert!(finding.contains("from -143 ns to 12.7 us"), "{finding}");
    let (better, _) = verdict(number(12_735.0, 700.0), number(-143.0, 698.0));
    assert_eq!(better, Verdict::Improvement);
    let (same, _) = verdict(number(-143.0, 698.0), number(300.0, 700.0));
    assert_eq!(same, Verdict::NoDifference);
}

#[test]
fn what_only_one_run_holds_is_listed() {
    let a = run(
        Unit::Nanoseconds,
        &[
            ("both", vec![known(1.0, 0.1)]),
            ("first", vec![known(1.0, 0.1)]),
        ],
    );
    let b = run(
        Unit::Nanoseconds,
        &[
            ("second", vec![known(1.0, 0.1)]),
            ("both", vec![known(1.0, 0.1)]),
            ("both", vec![known(2.0, 0.1)]),
        ],
    );
    let comparison = compare(&a, &b, None, &Options::default()).unwrap();
    let names = |places: &[Place]| {
        places
            .iter()
            .map(|place| place.row.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(comparison.rows.len(), 1);
    assert_eq!(names(&comparison.only_a), ["first"]);
    assert_eq!(names(&comparison.only_b), ["second", "both (2)"]);
}

#[test]
fn runs_without_a_common_row_are_refused() {
    let a = run(Unit::Nanoseconds, &[("one", vec![known(1.0, 0.1)])]);
    let b = run(Unit::Nanoseconds, &[("other", vec![known(1.0, 0.1)])]);
    let error = compare(&a, &b, None, &Options::default()).unwrap_err();
    assert!(
        error.to_string().contains("the first holds rr-by-size"),
        "{error}"
    );
    let only = Options {
        experiments: Some(vec!["crr".to_owned()]),
        ..Options::default()
    };
    assert!(compare(&a, &a, None, &only).is_err());
}

#[test]
fn differences_of_the_machines_are_listed() {
    let a = run(Unit::Nanoseconds, &[("row", vec![known(1.0, 0.1)])]);
    let mut b = a.clone();
    assert_eq!(compare(&a, &b, None, &Options::default()).unwrap().host, []);
    b.host.kernel = Reading::Value {
        value: "6.12.0".to_owned(),
    };
    b.host.mitigations = Reading::Value {
        value: vec![Mitigation {
            name: "spectre_v2".to_owned(),
            state: "Mitigation: Retpolines".to_owned(),
        }],
    };
    b.host.sysctls = Some(Reading::Value {
        value: vec![Setting {
            name: "net.core.busy_read".to_owned(),
            state: "50".to_owned(),
        }],
    });
    b.host.offloads = Some(Reading::Value { value: Vec::new() });
    let differences = compare(&a, &b, None, &Options::default()).unwrap().host;
    let told: Vec<String> = differences
        .iter()
        .map(|one| format!("{}: {} -> {}", one.name, one.a, one.b))
        .collect();
    assert_eq!(
        told,
        [
            "kernel: 6.1.0 -> 6.12.0",
            "mitigation spectre_v2: Vulnerable -> Mitigation: Retpolines",
            "sysctl net.core.busy_poll: 0 -> not there",
            "sysctl net.core.busy_read: not there -> 50",
            "offloads: not recorded by the tollgate that made this run -> read",
        ]
    );
}

/// A yardstick that took so long, a quarter of its looks one part in a hundred longer or shorter.
fn yardstick(cores: Cores, path: &str, ns: f64) -> Yardstick {
    Yardstick {
        experiment: "rr-by-size".to_owned(),
        cores,
        path: path.to_owned(),
        median_ns: ns,
        low_ns: 0.99 * ns,
        high_ns: 1.01 * ns,
        n: 20,
    }
}

#[test]
fn what_the_machine_explains_is_not_taken_for_a_regression() {
    let at = |one_core: f64, two_cores: f64, (one_yard, two_yards): (f64, f64)| {
        let row = |ns: f64| (0..8).map(|_| known(ns, 0.5)).collect();
        let rows = [
            ("stack-memory, 1 core, polling", row(100.0 * one_core)),
            (
                "kernel-loopback, 1 core, blocking",
                row(10_000.0 * one_core),
            ),
            (
                "kernel-loopback, 2 cores, polling",
                row(8_000.0 * two_cores),
            ),
        ];
        Run {
            yardsticks: vec![
                yardstick(Cores::One, "peer-smoltcp", 270.0 * one_yard),
                yardstick(Cores::Two, "bare-shm", 130.0 * two_yards),
            ],
            ..run(Unit::Nanoseconds, &rows)
        }
    };
    let compared = |one_core, two_cores, yards| {
        let (a, b) = (at(1.0, 1.0, (1.0, 1.0)), at(one_core, two_cores, yards));
        compare(&a, &b, None, &Options::default()).unwrap()
    };
    let regressions = |comparison: &Comparison| comparison.with(&Verdict::Regression).count();
    // Two processors that lie further apart now: rows of two are explained, rows of one are not.
    let further = compared(1.3, 1.4, (1.0, 4.0));
    assert_eq!(regressions(&further), 16, "{}", further.finding);
    assert!(
        further
            .notes
            .iter()
            .any(|note| note.contains("300.0 % slower")),
        "{:?}",
        further.notes
    );
    // A processor that is slower explains both.
    assert_eq!(regressions(&compared(1.4, 1.4, (1.45, 1.0))), 0);
    // What it does not explain is found, also to the other side.
    assert_eq!(regressions(&compared(2.0, 2.0, (1.3, 1.0))), 24);
    let quicker = compared(0.7, 0.7, (1.3, 1.0));
    assert_eq!(quicker.with(&Verdict::Improvement).count(), 24);
    let quiet = compared(1.0, 1.0, (1.0, 1.0));
    assert_eq!(quiet.machine.len(), 2);
    assert!(!quiet.notes.iter().any(|note| note.contains("peer-smoltcp")));
}

#[test]
fn a_span_is_known_no_better_than_the_clocks_step() {
    let at = |kind, ns: f64| {
        let mut run = run(Unit::Nanoseconds, &[("row", vec![known(ns, 0.01)])]);
        run.experiments[0].tables[0].rows[0].kind = kind;
        run.clock.resolution_ns = 10.0;
        run
    };
    let compared = |kind, from, to| {
        let (a, b) = (at(kind, from), at(kind, to));
        let comparison = compare(&a, &b, None, &Options::default()).unwrap();
        comparison.rows[0].verdict.clone()
    };
    assert_eq!(
        compared(RowKind::Processing, 2.0, 5.0),
        Verdict::NoDifference
    );
    assert_eq!(compared(RowKind::Plain, 2.0, 5.0), Verdict::Regression);
    assert_eq!(
        compared(RowKind::Processing, 200.0, 500.0),
        Verdict::Regression
    );
}

#[test]
fn what_is_left_over_has_no_better_and_no_worse() {
    let at = |left: f64| {
        let mut run = run(
            Unit::Nanoseconds,
            &[
                ("whole", vec![known(100.0, 0.5)]),
                ("left", vec![known(left, 0.5)]),
            ],
        );
        run.experiments[0].tables[0].rows[1].kind = RowKind::Unattributed;
        run
    };
    let comparison = compare(&at(1.0), &at(50.0), None, &Options::default()).unwrap();
    assert_eq!(comparison.judged, 1);
    assert!(matches!(
        comparison.rows[1].verdict,
        Verdict::NotJudged { .. }
    ));
}

/// A run of streams: the time per byte, and the bytes per second that `rate` makes of it.
fn streams(time: Cell, rate: impl Fn(&Measured) -> Measured) -> Run {
    let turned = match &time {
        Cell::Value(time) => Cell::Value(rate(time)),
        other => other.clone(),
    };
    let mut run = run(Unit::NanosecondsPerByte, &[("kernel-loopback", vec![time])]);
    let mut rates = run.experiments[0].tables[0].clone();
    rates.id = "throughput".to_owned();
    rates.columns[0].unit = Unit::BytesPerSecond;
    rates.rows[0].cells = vec![turned];
    run.experiments[0].tables.push(rates);
    run
}

fn turned_round(time: &Measured) -> Measured {
    Measured {
        value: 1e9 / time.value,
        ci: time.ci.map(|ci| Interval {
            low: 1e9 / ci.high,
            high: 1e9 / ci.low,
        }),
        ..Measured::default()
    }
}

#[test]
fn a_number_that_stands_as_time_and_as_rate_is_judged_once() {
    let verdicts = |a: &Run, b: &Run| {
        let comparison = compare(a, b, None, &Options::default()).unwrap();
        let verdicts = comparison.rows.into_iter().map(|row| row.verdict);
        (comparison.judged, verdicts.collect::<Vec<_>>())
    };
    let (a, b) = (known(2.0, 0.01), known(4.0, 0.01));
    let (judged, told) = verdicts(
        &streams(a.clone(), turned_round),
        &streams(b.clone(), turned_round),
    );
    assert_eq!(judged, 1);
    let reason = "the same number is judged as a time";
    assert_eq!(told, [Verdict::Regression, Verdict::NotJudged { reason }]);
    // The rate of as many bytes as the column says is that of the time, too.
    let of_all = |time: &Measured| {
        let Measured { value, ci, .. } = turned_round(time);
        Measured {
            value: 4.0 * value,
            ci,
            ..Measured::default()
        }
    };
    let (judged, _) = verdicts(&streams(a.clone(), of_all), &streams(b.clone(), of_all));
    assert_eq!(judged, 1);
    // The median of an even number of slices does not turn round exactly; a row of another name is to do so.
    let nearly = |time: &Measured| Measured {
        value: 1.01e9 / time.value,
        ..turned_round(time)
    };
    let (judged, _) = verdicts(&streams(a.clone(), nearly), &streams(b.clone(), nearly));
    assert_eq!(judged, 1);
    let elsewhere = |cell: &Cell| {
        let mut run = streams(cell.clone(), nearly);
        run.experiments[0].tables[1].rows[0].label = "kernel-veth".to_owned();
        run
    };
    let (judged, _) = verdicts(&elsewhere(&a), &elsewhere(&b));
    assert_eq!(judged, 2);
    // Another rate is another number, and where nothing is known of the time the rate is judged.
    let other = |time: &Measured| Measured {
        value: 1.5e9 / time.value,
        ..turned_round(time)
    };
    let (judged, _) = verdicts(&streams(a.clone(), other), &streams(b.clone(), other));
    assert_eq!(judged, 2);
    let alone = |cell: &Cell| {
        let mut run = streams(cell.clone(), turned_round);
        if let Cell::Value(time) = &mut run.experiments[0].tables[0].rows[0].cells[0] {
            time.ci = None;
        }
        run
    };
    let (judged, told) = verdicts(&alone(&a), &alone(&b));
    assert_eq!(judged, 1);
    assert_eq!(told[1], Verdict::Regression);
}
