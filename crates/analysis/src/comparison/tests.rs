//! Comparisons of runs whose numbers are given.

use tollgate_run::{
    Cell, Column, Control, Cores, Experiment, Host, Interval, Measured, Mitigation, Network,
    PathId, Reading, Row, RowKind, Setting, Table, fixture::run_of,
};

use super::effects::LEAST;
use super::*;

/// Compares one run with another.
pub(super) fn two(a: &Run, b: &Run, options: &Options) -> Result<Comparison, ComparisonError> {
    compare(&[a], &[b], options)
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
        network: None,
    }
}

/// A run of one table: rows by columns, each cell with this unit.
pub(super) fn run(unit: Unit, rows: &[(&str, Vec<Cell>)]) -> Run {
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

pub(super) fn known(value: f64, half: f64) -> Cell {
    Cell::Value(Measured {
        value,
        ci: Some(Interval {
            low: value - half,
            high: value + half,
        }),
        ..Measured::default()
    })
}

#[test]
fn three_quiet_runs_a_side_find_a_tenth_even_when_most_rows_have_it() {
    let at = |slow: usize, factor: f64| {
        let cells = (0..100)
            .map(|at| known(1_000.0 * if at < slow { factor } else { 1.0 }, 2.0))
            .collect();
        run(Unit::Nanoseconds, &[("row", cells)])
    };
    for slow in [1, 30, 70, 100] {
        let (a, b) = (at(0, 1.0), at(slow, 1.1));
        let comparison = compare(&[&a; 3], &[&b; 3], &Options::default()).unwrap();
        let regressions = comparison.with(&Verdict::Regression).count();
        assert_eq!(regressions, slow, "{}", comparison.finding);
    }
}

#[test]
fn between_runs_is_a_prior_until_a_side_has_several() {
    let at = |factor: f64| {
        let cells = (0..8).map(|_| known(1_000.0 * factor, 1.0)).collect();
        run(Unit::Nanoseconds, &[("kernel-loopback", cells)])
    };
    let one = two(&at(1.0), &at(1.0), &Options::default()).unwrap();
    assert_eq!(one.between_runs.from, Origin::Prior);
    assert_eq!(one.between_runs.deviation, PRIOR);
    assert!(one.notes[0].contains("one run a side does not show"));
    let between = |factors: [f64; 4]| {
        let [a, b, c, d] = factors.map(at);
        let comparison = compare(&[&a, &b], &[&c, &d], &Options::default()).unwrap();
        assert_eq!(comparison.between_runs.from, Origin::Runs);
        (
            comparison.between_runs.deviation,
            comparison.between_runs.degrees,
        )
    };
    // Two degrees of the runs beside those of the prior and of what the rows are known by, for the mean of two runs a side.
    let within = (1e-3_f64.ln_1p() / 1.96).powi(2) + LEAST.powi(2);
    for factor in [1.0_f64, 1.03] {
        let (deviation, degrees) = between([1.0, factor, 1.0, factor]);
        let shown = factor.ln().powi(2) / 2.0;
        let expected = PRIOR * PRIOR / 2.0 + within / 8.0;
        let pooled = (PRIOR_DEGREES * expected + 2.0 * shown) / (PRIOR_DEGREES + 2.0);
        assert!(
            (deviation / pooled.max(shown).sqrt() - 1.0).abs() < 0.01,
            "{deviation}"
        );
        assert_eq!(degrees, PRIOR_DEGREES + 2.0);
    }
    // What runs of a path differ by is never made smaller.
    let (deviation, degrees) = between([1.0, 1.2, 1.0, 1.2]);
    assert!((deviation - 1.2_f64.ln() / 2.0_f64.sqrt()).abs() < 1e-9);
    assert_eq!(degrees, PRIOR_DEGREES + 2.0);
}

#[test]
fn what_all_paths_have_in_common_is_removed_as_far_as_runs_differ() {
    let at = |factor: f64| {
        let cells = |ns: f64| (0..8).map(|_| known(ns * factor, 0.001 * ns)).collect();
        let rows = [
            ("kernel-loopback", cells(10_000.0)),
            ("kernel-veth", cells(9_000.0)),
            ("stack-memory", cells(200.0)),
            ("peer-smoltcp", cells(400.0)),
        ];
        run(Unit::Nanoseconds, &rows)
    };
    let little = two(&at(1.0), &at(1.05), &Options::default()).unwrap();
    assert!(
        little.between_runs.together > 0.03,
        "{:?}",
        little.between_runs
    );
    let note = "all paths together cost +4.1 %";
    assert!(
        little.notes.iter().any(|one| one.contains(note)),
        "{:?}",
        little.notes
    );
    assert!(!little.has_regressions());
    let much = two(&at(1.0), &at(1.3), &Options::default()).unwrap();
    assert_eq!(much.between_runs.together, 0.0);
    let worse = |one: &&PathChange| one.verdict == Verdict::Regression;
    assert_eq!(
        much.paths.iter().filter(worse).count(),
        4,
        "{}",
        much.finding
    );
}

#[test]
fn paths_that_change_by_different_factors_hide_none_of_them() {
    let at = |factors: [f64; 6]| {
        let names = [
            "kernel-loopback",
            "kernel-veth",
            "kernel-remote",
            "stack-memory",
            "stack-shm",
            "peer-smoltcp",
        ];
        let row = |(name, factor)| (name, (0..8).map(|_| known(1e3 * factor, 1.0)).collect());
        let rows: Vec<(&str, Vec<Cell>)> = names.into_iter().zip(factors).map(row).collect();
        run(Unit::Nanoseconds, &rows)
    };
    let (a, b) = (at([1.0; 6]), at([1.2, 1.5, 2.0, 3.0, 0.5, 1.0]));
    let comparison = two(&a, &b, &Options::default()).unwrap();
    let verdicts: Vec<&Verdict> = comparison.paths.iter().map(|one| &one.verdict).collect();
    assert_eq!(verdicts[..4], [&Verdict::Regression; 4]);
    assert_eq!(
        verdicts[4..],
        [&Verdict::Improvement, &Verdict::NoDifference]
    );
}

#[test]
fn a_regression_is_significant_and_beyond_the_threshold() {
    let at = |values: [f64; 3], half: f64| {
        let [kernel, stack, peer] = values.map(|value| vec![known(value, half)]);
        let rows = [
            ("kernel-loopback", kernel),
            ("stack-memory", stack),
            ("peer-smoltcp", peer),
        ];
        run(Unit::Nanoseconds, &rows)
    };
    let verdicts = |half: f64, options: &Options| -> Vec<Verdict> {
        let (a, b) = (at([100.0; 3], half), at([140.0, 60.0, 101.0], half));
        let comparison = two(&a, &b, options).unwrap();
        let paths: Vec<Verdict> = comparison
            .paths
            .iter()
            .map(|one| one.verdict.clone())
            .collect();
        let rows: Vec<Verdict> = comparison.rows.into_iter().map(|row| row.verdict).collect();
        assert_eq!(paths, rows);
        rows
    };
    assert_eq!(
        verdicts(0.5, &Options::default()),
        [
            Verdict::Regression,
            Verdict::Improvement,
            Verdict::NoDifference
        ]
    );
    assert_eq!(
        verdicts(30.0, &Options::default()),
        [const { Verdict::NoDifference }; 3]
    );
    let lenient = Options {
        threshold: 0.45,
        experiments: None,
    };
    assert_eq!(verdicts(0.5, &lenient)[0], Verdict::Slight);
}

#[test]
fn a_change_lies_in_its_interval_in_the_direction_of_its_number() {
    let at = |unit, value| run(unit, &[("stack-memory", vec![known(value, 0.5)])]);
    for (unit, from, to) in [
        (Unit::Nanoseconds, 100.0, 150.0),
        (Unit::BytesPerSecond, 100.0, 60.0),
    ] {
        let comparison = two(&at(unit, from), &at(unit, to), &Options::default()).unwrap();
        let (row, path) = (&comparison.rows[0], &comparison.paths[0]);
        let interval = row.interval.unwrap();
        let change = row.change.unwrap();
        assert!(interval.low < change && change < interval.high, "{row:?}");
        assert!(interval.low * interval.high > 0.0, "{row:?}");
        assert_eq!(interval.of, IntervalOf::Quotient);
        // The cost of a path rises when its rate falls.
        assert!(path.low > 0.0 && path.low < path.change && path.change < path.high);
        // With a standard error of 3.2 % and 3.1 degrees of freedom: (3.1 + 1.0) of them.
        assert!((0.13..0.15).contains(&path.smallest), "{}", path.smallest);
        assert_eq!(comparison.smallest_change, Some(path.smallest));
    }
}

#[test]
fn rates_are_better_when_they_are_higher() {
    let at = |value: f64| run(Unit::BytesPerSecond, &[("row", vec![known(value, 0.5)])]);
    let compared = |a: f64, b: f64| {
        two(&at(a), &at(b), &Options::default()).unwrap().rows[0]
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
        two(&at(unit, 100.0), &at(unit, 110.0), &Options::default())
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

#[test]
fn the_reason_why_a_number_without_an_interval_is_not_judged_is_told() {
    let at = |value: f64| run(Unit::Nanoseconds, &[("row", vec![Cell::exact(value)])]);
    let none = run(Unit::Percent, &[("other", vec![known(1.0, 0.1)])]);
    let (one, other, below) = (at(100.0), at(110.0), at(-1.0));
    let judged = |a: &[&Run], b: &[&Run]| {
        let comparison = compare(a, b, &Options::default()).unwrap();
        (comparison.rows[0].verdict.clone(), comparison.finding)
    };
    let reason = |a: &[&Run], b: &[&Run], words: &str| {
        let (verdict, finding) = judged(a, b);
        assert!(
            matches!(verdict, Verdict::NotJudged { reason } if reason.contains(words)),
            "{verdict:?}"
        );
        assert!(finding.starts_with("No row could be judged"), "{finding}");
    };
    reason(&[&one], &[&other], "one run a side shows no spread");
    reason(&[&one, &none], &[&other, &none], "too few runs hold it");
    reason(&[&one, &below], &[&other, &one], "not above zero");
    let (verdict, _) = judged(&[&one, &other], &[&other, &one]);
    assert_eq!(verdict, Verdict::NoDifference);
    // An interval of some of the runs is no spread of all of them, not even one that reaches zero.
    let some = run(Unit::Nanoseconds, &[("row", vec![known(105.0, 200.0)])]);
    let (verdict, _) = judged(&[&one, &some], &[&other, &one]);
    assert_eq!(verdict, Verdict::NoDifference);
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
        let comparison = two(&of(a), &of(b), &Options::default()).unwrap();
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
    let comparison = two(&a, &b, &Options::default()).unwrap();
    let names = |places: &[CellKey]| {
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
    let error = two(&a, &b, &Options::default()).unwrap_err();
    assert!(
        error.to_string().contains("the first holds rr-by-size"),
        "{error}"
    );
    let only = Options {
        experiments: Some(vec!["crr".to_owned()]),
        ..Options::default()
    };
    assert!(two(&a, &a, &only).is_err());
}

#[test]
fn machines_of_one_side_are_to_be_alike() {
    let a = run(Unit::Nanoseconds, &[("row", vec![known(1.0, 0.1)])]);
    let mut other = a.clone();
    other.host.cores = Reading::Value { value: 4 };
    let comparison = compare(&[&a, &other], &[&a], &Options::default()).unwrap();
    let note = "the runs before are no repetitions of one another: their machines differ in cores";
    assert!(
        comparison.notes.iter().any(|one| one == note),
        "{:?}",
        comparison.notes
    );
    assert!(comparison.host.is_empty());
}

#[test]
fn differences_of_the_machines_are_listed() {
    let mut a = run(Unit::Nanoseconds, &[("row", vec![known(1.0, 0.1)])]);
    let mut b = a.clone();
    assert_eq!(two(&a, &b, &Options::default()).unwrap().host, []);
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
    let network = |netfilter_rules, qdisc: &str| Network {
        netfilter_rules,
        qdiscs: Reading::Value {
            value: vec![Setting {
                name: "eth0".to_owned(),
                state: qdisc.to_owned(),
            }],
        },
        xdp_programs: Reading::Value { value: 0 },
        tc_programs: Reading::Value { value: 0 },
        cgroup_programs: Reading::Value { value: 0 },
    };
    a.host.network = Some(network(Reading::Value { value: 0 }, "fq"));
    b.host.network = Some(network(Reading::Value { value: 1_000 }, "mq"));
    let comparison = two(&a, &b, &Options::default()).unwrap();
    let looked_at = |name: &str| comparison.host_looked_at.iter().any(|one| one == name);
    assert!(looked_at("kernel") && looked_at("sysctls") && looked_at("netfilter rules"));
    assert!(looked_at("XDP programs") && !looked_at("offloads"));
    let not_known = &comparison.host_not_known;
    assert!(
        not_known.iter().any(|one| one == "offloads"),
        "{not_known:?}"
    );
    let differences = comparison.host;
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
            "qdisc of eth0: fq -> mq",
            "netfilter rules: 0 -> 1000",
        ]
    );
}

/// A control benchmark that took so long, a quarter of its samples one part in a hundred longer or shorter.
pub(super) fn control(cores: Cores, path: &str, ns: f64) -> Control {
    Control {
        experiment: "rr-by-size".to_owned(),
        cores,
        path: path.to_owned(),
        median_ns: ns,
        low_ns: 0.99 * ns,
        high_ns: 1.01 * ns,
        mean: None,
        n: 20,
    }
}

/// A run of one path on one processor and one on two, `factors` times its time and that of the control benchmarks.
fn with_benchmarks(times: [f64; 2], benchmarks: [f64; 2]) -> Run {
    let row = |ns: f64| (0..8).map(|_| known(ns, 0.001 * ns)).collect();
    let rows = [
        (
            "kernel-loopback, 1 core, blocking",
            row(10_000.0 * times[0]),
        ),
        ("kernel-veth, 2 cores, polling", row(8_000.0 * times[1])),
    ];
    Run {
        controls: vec![
            control(Cores::One, "peer-smoltcp", 270.0 * benchmarks[0]),
            control(Cores::Two, "bare-shm", 130.0 * benchmarks[1]),
        ],
        ..run(Unit::Nanoseconds, &rows)
    }
}

#[test]
fn a_control_benchmark_is_a_covariate_of_the_rows_on_its_processors() {
    let compared = |times, benchmarks| {
        let a = with_benchmarks([1.0; 2], [1.0; 2]);
        let b = with_benchmarks(times, benchmarks);
        two(&a, &b, &Options::default()).unwrap()
    };
    let verdicts = |comparison: &Comparison| -> Vec<Verdict> {
        comparison
            .paths
            .iter()
            .map(|one| one.verdict.clone())
            .collect()
    };
    // Two processors that lie further apart now explain rows of two, and none of one.
    let further = compared([1.3, 1.4], [1.0, 2.0]);
    assert_eq!(
        verdicts(&further),
        [Verdict::Regression, Verdict::NoDifference]
    );
    assert!(
        further
            .notes
            .iter()
            .any(|note| note.contains("bare-shm was 100.0 % slower"))
    );
    // Without the benchmark both are told.
    assert_eq!(
        verdicts(&compared([1.3, 1.4], [1.0, 1.0])),
        [const { Verdict::Regression }; 2]
    );
    // What it cannot explain is found, also to the other side.
    assert_eq!(
        verdicts(&compared([3.0, 1.0], [1.3, 1.0]))[0],
        Verdict::Regression
    );
    assert_eq!(
        verdicts(&compared([0.5, 1.0], [1.3, 1.0]))[0],
        Verdict::Improvement
    );
    // Half of a move is removed, and the interval allows for none of it and for all.
    let moved = compared([1.0, 1.0], [1.2, 1.0]);
    assert!((moved.paths[0].change - (1.2_f64.powf(-0.5) - 1.0)).abs() < 0.002);
    assert!(moved.paths[0].low < 1.0 / 1.2 - 1.0 && moved.paths[0].high > 0.0);
    assert_eq!(moved.slopes[0].from, SlopeOrigin::Bounds);
    let quiet = compared([1.0, 1.0], [1.0, 1.0]);
    assert_eq!(quiet.machine.len(), 2);
    assert!(!quiet.notes.iter().any(|note| note.contains("peer-smoltcp")));
}

#[test]
fn a_control_benchmark_that_is_restless_within_runs_hides_no_doubled_path() {
    let restless = |mut run: Run| {
        for one in &mut run.controls {
            (one.low_ns, one.high_ns) = (0.5 * one.median_ns, 2.0 * one.median_ns);
        }
        run
    };
    let a = restless(with_benchmarks([1.0; 2], [1.0; 2]));
    let b = restless(with_benchmarks([2.0, 1.0], [1.0; 2]));
    let comparison = two(&a, &b, &Options::default()).unwrap();
    assert_eq!(
        comparison.paths[0].verdict,
        Verdict::Regression,
        "{:?}",
        comparison.paths
    );
    assert_eq!(comparison.paths[1].verdict, Verdict::NoDifference);
}

#[test]
fn runs_of_one_side_show_how_much_of_a_benchmark_a_row_feels() {
    let b_of = |feels: f64| {
        let at = |benchmark: f64| {
            let times = [benchmark.powf(feels), 1.0];
            with_benchmarks(times, [benchmark, 1.0])
        };
        let before = [1.0, 1.5, 0.7].map(at);
        let after = [1.2, 0.8, 1.6].map(at);
        let [a, b] = [&before, &after].map(|runs| runs.iter().collect::<Vec<_>>());
        let comparison = compare(&a, &b, &Options::default()).unwrap();
        assert!(!comparison.has_regressions(), "{}", comparison.finding);
        let slope = |path| comparison.slopes.iter().find(|one| one.path == Some(path));
        let slope = slope(PathId::KernelLoopback).unwrap();
        assert_eq!((slope.cores, slope.from), (Cores::One, SlopeOrigin::Runs));
        (slope.b, slope.deviation)
    };
    let (b, deviation) = b_of(0.8);
    assert!(
        (b - 0.8).abs() < 0.02 && deviation < 0.06,
        "{b} {deviation}"
    );
    assert!(b_of(0.0).0 < 0.02);
    // A row cannot feel more than all of it. What is then left over shows that the slope is known less well.
    let (b, deviation) = b_of(1.3);
    assert!(b == 1.0 && deviation > 0.06, "{b} {deviation}");
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
        let comparison = two(&a, &b, &Options::default()).unwrap();
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
    let comparison = two(&at(1.0), &at(50.0), &Options::default()).unwrap();
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
fn a_number_that_stands_as_time_and_as_rate_is_one_row() {
    let rows = |a: &Run, b: &Run| two(a, b, &Options::default()).unwrap().rows;
    let (a, b) = (known(2.0, 0.01), known(4.0, 0.01));
    let told = rows(
        &streams(a.clone(), turned_round),
        &streams(b.clone(), turned_round),
    );
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].verdict, Verdict::Regression);
    assert_eq!(told[0].place.table, "round-trips");
    assert_eq!(told[0].also.len(), 1);
    assert_eq!(told[0].also[0].table, "throughput");
    // The rate of as many bytes as the column says is that of the time, too.
    let of_all = |time: &Measured| {
        let Measured { value, ci, .. } = turned_round(time);
        Measured {
            value: 4.0 * value,
            ci,
            ..Measured::default()
        }
    };
    let told = rows(&streams(a.clone(), of_all), &streams(b.clone(), of_all));
    assert_eq!(told.len(), 1);
    // The median of an even number of slices has no exact reciprocal; a row of another name is to have one.
    let nearly = |time: &Measured| Measured {
        value: 1.01e9 / time.value,
        ..turned_round(time)
    };
    let told = rows(&streams(a.clone(), nearly), &streams(b.clone(), nearly));
    assert_eq!(told.len(), 1);
    let elsewhere = |cell: &Cell| {
        let mut run = streams(cell.clone(), nearly);
        run.experiments[0].tables[1].rows[0].label = "kernel-veth".to_owned();
        run
    };
    assert_eq!(rows(&elsewhere(&a), &elsewhere(&b)).len(), 2);
    // Another rate is another number, and where nothing is known of the time the rate is judged.
    let other = |time: &Measured| Measured {
        value: 1.5e9 / time.value,
        ..turned_round(time)
    };
    let told = rows(&streams(a.clone(), other), &streams(b.clone(), other));
    assert_eq!(told.len(), 2);
    let alone = |cell: &Cell| {
        let mut run = streams(cell.clone(), turned_round);
        if let Cell::Value(time) = &mut run.experiments[0].tables[0].rows[0].cells[0] {
            time.ci = None;
        }
        run
    };
    let told = rows(&alone(&a), &alone(&b));
    assert_eq!(told.len(), 2);
    assert_eq!(told[1].verdict, Verdict::Regression);
}

#[test]
fn a_fact_that_several_tables_show_is_one_row() {
    let at = |times: [f64; 2]| {
        let cells = times.map(|ns| known(ns, 0.01)).to_vec();
        let mut run = run(Unit::Nanoseconds, &[("kernel-loopback", cells)]);
        let mut again = run.experiments[0].tables[0].clone();
        again.id = "summary".to_owned();
        again.rows[0].label = "kernel-loopback, median".to_owned();
        run.experiments[0].tables.push(again.clone());
        // Another experiment shows the first of them once more.
        let mut other = run.experiments[0].clone();
        other.name = "wolman-receive".to_owned();
        again.rows[0].cells.truncate(1);
        again.columns.truncate(1);
        other.tables = vec![again];
        run.experiments.push(other);
        run
    };
    let told = two(&at([10.0, 20.0]), &at([10.0, 40.0]), &Options::default()).unwrap();
    assert_eq!(told.rows.len(), 2);
    assert_eq!(told.rows[0].also.len(), 2);
    assert_eq!(told.rows[1].also.len(), 1);
    assert_eq!(told.judged, 2);
    // Numbers that are equal in one run and not in the other are two facts, and so are equal numbers of one table.
    let told = two(&at([10.0, 10.0]), &at([10.0, 10.0]), &Options::default()).unwrap();
    assert_eq!(told.rows.len(), 2);
    let mut other = at([10.0, 20.0]);
    if let Cell::Value(cell) = &mut other.experiments[0].tables[1].rows[0].cells[0] {
        cell.value = 10.001;
    }
    let told = two(&at([10.0, 20.0]), &other, &Options::default()).unwrap();
    assert_eq!(told.rows.len(), 3);
}
