//! Profiles whose numbers can be told by hand, and intervals that hold what they are to hold.

use tollgate_run::{
    Cell, Column, Interval, Measured as Number, Row, RowKind, Table, Unit, fixture::run_of,
    present::plain_row,
};
use tollgate_trace::traffic::{Stretch, Traffic};

use super::costs::{Component, Estimated};
use super::estimate::weights;
use super::*;

/// A generator of numbers that is the same every time (Steele, Lea and Flood 2014: SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly from 0 to 1.
    fn even(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Normal, by the sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.even()).sum::<f64>() - 6.0
    }
}

const MEMORY: [f64; 4] = [1.0, 1_001.0, 4_001.0, 8_001.0];

fn known(value: f64) -> Estimated {
    Estimated {
        value,
        ..Estimated::ZERO
    }
}

/// Costs of which nothing is uncertain: 100 ns and 0.1 ns for each byte of moving data, 900 ns of a protocol.
fn exact() -> Costs {
    let part = |name: &str, cost: &dyn Fn(f64) -> f64| Component {
        name: name.to_owned(),
        category: name.to_owned(),
        cells: MEMORY.iter().map(|size| known(cost(*size))).collect(),
    };
    Costs {
        sizes: MEMORY.into(),
        parts: vec![
            part("DataMove", &|size| 100.0 + 0.1 * size),
            part("ProtSpec", &|_| 900.0),
        ],
        totals: MEMORY
            .iter()
            .map(|size| known(1_000.0 + 0.1 * size))
            .collect(),
    }
}

fn traffic(stretches: &[&[(Protocol, u32, u64)]]) -> Traffic {
    let stretches = stretches.iter().map(|messages| {
        let mut stretch = Stretch::default();
        for (protocol, size, n) in *messages {
            stretch.add(*protocol, *size, *n);
        }
        stretch
    });
    Traffic::new(stretches.collect())
}

#[test]
fn between_sizes_a_cost_lies_on_the_line_and_beyond_it_goes_on() {
    assert_eq!(weights(&MEMORY, 0.0), (0, 1.0, 0.0));
    assert_eq!(weights(&MEMORY, 1.0), (0, 1.0, 0.0));
    assert_eq!(weights(&MEMORY, 501.0), (0, 0.5, 0.5));
    assert_eq!(weights(&MEMORY, 1_001.0), (1, 1.0, 0.0));
    assert_eq!(weights(&MEMORY, 8_001.0), (2, 0.0, 1.0));
    assert_eq!(weights(&MEMORY, 12_001.0), (2, -1.0, 2.0));
}

#[test]
fn shares_and_means_are_those_told_by_hand() {
    let costs = exact();
    let messages = traffic(&[&[(Protocol::Tcp, 1, 90), (Protocol::Tcp, 10_001, 10)]]);
    let load = Load::of(&messages, &[(Protocol::Tcp, &costs)]);
    // 90 messages of 1,000.1 ns, 10 of 2,000.1; of which 90 times 100.1 and 10 times 1,100.1 touch data.
    let whole = 90.0 * 1_000.1 + 10.0 * 2_000.1;
    let touching = 90.0 * 100.1 + 10.0 * 1_100.1;
    let share = load.ratio(&[1.0, 0.0], Per::Parts(&[1.0, 1.0])).unwrap();
    assert!((share.value - touching / whole).abs() < 1e-12);
    let mean = load.ratio(&[1.0, 1.0], Per::Message).unwrap();
    assert!((mean.value - whole / 100.0).abs() < 1e-9);
    // Nothing of the costs is uncertain: the mean has the standard error of 100 messages.
    let deviation =
        (0.9 * (1_000.1 - mean.value).powi(2) + 0.1 * (2_000.1 - mean.value).powi(2)).sqrt();
    let half_width = mean.interval.unwrap().high - mean.value;
    assert!((half_width / (1.96 * deviation / 10.0) - 1.0).abs() < 1e-3);
    assert_eq!(mean.from_trace, 1.0);
    // A benchmark has no trace to be uncertain of.
    let benchmark = Load::benchmark(Protocol::Tcp, &costs, 4_001.0);
    let share = benchmark
        .ratio(&[1.0, 0.0], Per::Parts(&[1.0, 1.0]))
        .unwrap();
    assert!((share.value - 500.1 / 1_400.1).abs() < 1e-12);
    assert_eq!(share.interval, None);
    assert_eq!(load.ratio(&[1.0, 0.0], Per::Parts(&[0.0, 0.0])), None);
}

#[test]
fn two_full_segments_in_one_save_what_the_second_costs_besides_its_bytes() {
    let costs = exact();
    let messages = traffic(&[&[
        (Protocol::Tcp, 1_448, 10),
        (Protocol::Tcp, 1, 10),
        (Protocol::Udp, 1_448, 7),
    ]]);
    let load = Load::of(
        &messages,
        &[(Protocol::Tcp, &costs), (Protocol::Udp, &costs)],
    );
    let saved = load
        .in_pairs(|size| (1_420.0..=1_460.0).contains(&size))
        .unwrap();
    // Five segments less, of 1,000 ns each; datagrams stay.
    let whole = 10.0 * 1_000.1 + 17.0 * 1_144.8;
    assert!(
        (saved.value - 5.0 * 1_000.0 / whole).abs() < 1e-12,
        "{saved:?}"
    );
    let none = load.in_pairs(|_| false).unwrap();
    assert_eq!((none.value, none.interval), (0.0, None));
}

#[test]
fn both_protocols_count_in_the_proportion_of_the_trace() {
    let costs = exact();
    let mut slow = exact();
    for total in &mut slow.totals {
        total.value *= 3.0;
    }
    for part in &mut slow.parts {
        part.cells.iter_mut().for_each(|cell| cell.value *= 3.0);
    }
    let messages = traffic(&[&[(Protocol::Tcp, 1, 1), (Protocol::Udp, 1, 3)]]);
    let load = Load::of(
        &messages,
        &[(Protocol::Tcp, &costs), (Protocol::Udp, &slow)],
    );
    let mean = load.ratio(&[1.0, 1.0], Per::Message).unwrap().value;
    assert!((mean - 1_000.1 * (1.0 + 3.0 * 3.0) / 4.0).abs() < 1e-9);
}

#[test]
fn what_hangs_together_is_less_certain() {
    let costs = exact();
    let alone: &[&[(Protocol, u32, u64)]] =
        &[&[(Protocol::Tcp, 1, 400), (Protocol::Tcp, 8_001, 400)]];
    let bursts: Vec<Vec<(Protocol, u32, u64)>> = (0..8)
        .map(|at| vec![(Protocol::Tcp, if at % 2 == 0 { 1 } else { 8_001 }, 100)])
        .collect();
    let bursts: Vec<&[(Protocol, u32, u64)]> = bursts.iter().map(Vec::as_slice).collect();
    let half_width = |stretches: &[&[(Protocol, u32, u64)]]| {
        let messages = traffic(stretches);
        let load = Load::of(&messages, &[(Protocol::Tcp, &costs)]);
        let mean = load.ratio(&[1.0, 1.0], Per::Message).unwrap();
        mean.interval.unwrap().high - mean.value
    };
    // Eight bursts tell as much as eight messages do, not as eight hundred: sqrt(100 8/7) by the jackknife, and t of 7 degrees.
    let wider = half_width(&bursts) / half_width(alone);
    assert!(
        (wider - (800.0_f64 / 7.0).sqrt() * 2.365 / 1.96).abs() < 0.05,
        "{wider}"
    );
}

/// Categories of the simulated machine: shares of 600 ns that each message takes, and ns for each byte.
const SIMULATED: [(&str, f64, f64); 4] = [
    ("Checksum", 0.05, 0.02),
    ("DataMove", 0.15, 0.08),
    ("OpSys", 0.5, 0.0),
    ("ProtSpec", 0.3, 0.01),
];

fn truth(category: usize, size: f64) -> f64 {
    let (_, share, byte) = SIMULATED[category];
    600.0 * share + byte * size
}

/// The cell of a mean over rounds.
fn mean(values: &[f64]) -> Cell {
    let mean = tollgate_stats::mean(values).unwrap();
    Cell::Value(tollgate_run::Measured {
        value: mean.value,
        ci: Some(mean.interval.into()),
        n: Some(mean.n),
        ..tollgate_run::Measured::default()
    })
}

/// Costs as a run would have them: in each round the machine is slower or faster by 3 %, and a share of the time is known from a number
/// of samples.
fn sampled(random: &mut Random, rounds: usize, samples: f64) -> Costs {
    let mut cells = vec![Vec::new(); SIMULATED.len()];
    let mut totals = Vec::new();
    for size in MEMORY {
        let whole: f64 = (0..SIMULATED.len()).map(|at| truth(at, size)).sum();
        let mut values = vec![Vec::new(); SIMULATED.len()];
        let mut wholes = Vec::new();
        for _ in 0..rounds {
            let speed = whole * (1.0 + 0.03 * random.normal());
            // Counts of samples by category, each as good as normal, then as shares of all of them.
            let counts: Vec<f64> = (0..SIMULATED.len())
                .map(|at| {
                    let mean = samples * truth(at, size) / whole;
                    mean + mean.sqrt() * random.normal()
                })
                .collect();
            let all: f64 = counts.iter().sum();
            for (values, count) in values.iter_mut().zip(&counts) {
                values.push(speed * count / all);
            }
            wholes.push(speed);
        }
        let as_read = |values: &[f64]| Estimated::of(&mean(values)).unwrap();
        for (cells, values) in cells.iter_mut().zip(&values) {
            cells.push(as_read(values));
        }
        totals.push(as_read(&wholes));
    }
    let parts = SIMULATED
        .iter()
        .zip(cells)
        .map(|((name, ..), cells)| Component {
            name: (*name).to_owned(),
            category: (*name).to_owned(),
            cells,
        });
    Costs {
        sizes: MEMORY.into(),
        parts: parts.collect(),
        totals,
    }
}

/// The kinds of stretches of the simulated traffic: how often each occurs, and the messages in it.
const KINDS: [(f64, &[(u32, u64)]); 3] = [
    (0.6, &[(40, 30), (400, 10)]),
    (0.3, &[(100, 20), (8_001, 2)]),
    (0.1, &[(8_001, 12), (1_400, 6)]),
];

/// Shares of 95 % intervals that cover the true value, over many runs and traces, for a share and for means.
fn coverage(rounds: usize, samples: f64, stretches: usize) -> [f64; 3] {
    const TRIES: usize = 1_000;
    let mut random = Random(1_996);
    let expected = |each: &dyn Fn(f64) -> f64| -> f64 {
        KINDS
            .iter()
            .map(|(often, messages)| {
                let sum = messages
                    .iter()
                    .map(|(size, n)| *n as f64 * each(f64::from(*size)));
                often * sum.sum::<f64>()
            })
            .sum()
    };
    let whole = |size: f64| -> f64 { (0..SIMULATED.len()).map(|at| truth(at, size)).sum() };
    let touching = |size: f64| truth(0, size) + truth(1, size);
    let all = expected(&whole);
    let wanted = [
        expected(&touching) / all,
        expected(&|size| truth(2, size)) / all,
        all / expected(&|_| 1.0),
    ];
    let mut held = [0.0; 3];
    for _ in 0..TRIES {
        let costs = sampled(&mut random, rounds, samples);
        let stretches = (0..stretches).map(|_| {
            let mut place = random.even();
            let kind = KINDS.iter().find(|(often, _)| {
                place -= often;
                place < 0.0
            });
            let mut stretch = Stretch::default();
            for (size, n) in kind.unwrap_or(&KINDS[2]).1 {
                stretch.add(Protocol::Tcp, *size, *n);
            }
            stretch
        });
        let messages = Traffic::new(stretches.collect());
        let load = Load::of(&messages, &[(Protocol::Tcp, &costs)]);
        let parts = [1.0; 4];
        let found = [
            load.ratio(&[1.0, 1.0, 0.0, 0.0], Per::Parts(&parts)),
            load.ratio(&[0.0, 0.0, 1.0, 0.0], Per::Parts(&parts)),
            load.ratio(&parts, Per::Message),
        ];
        for ((held, found), wanted) in held.iter_mut().zip(found).zip(wanted) {
            let interval = found.unwrap().interval.unwrap();
            if (interval.low..=interval.high).contains(&wanted) {
                *held += 1.0 / TRIES as f64;
            }
        }
    }
    held
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    // A run that is less certain than the trace, the other way round, and neither; ten rounds, and the four of a quick run. Of few
    // stretches the rare kind is missed too often for what is known of it: those intervals are a little short.
    let cases = [
        (10, 300.0, 2_000, 0.93),
        (10, 1e6, 200, 0.93),
        (10, 1e6, 60, 0.91),
        (4, 2_000.0, 200, 0.93),
    ];
    for (rounds, samples, stretches, least) in cases {
        let held = coverage(rounds, samples, stretches);
        println!("{rounds} rounds, {samples} samples, {stretches} stretches: {held:.3?}");
        assert!(
            held.iter().all(|held| (least..=0.985).contains(held)),
            "{rounds} rounds, {samples} samples, {stretches} stretches: {held:.3?}"
        );
    }
}

fn cell(value: f64, error: f64) -> Cell {
    Cell::Value(Number {
        value,
        ci: Some(Interval {
            low: value * (1.0 - error),
            high: value * (1.0 + error),
        }),
        n: Some(10),
        ..Number::default()
    })
}

fn table(id: &str, columns: &[&str], rows: Vec<Row>) -> Table {
    Table {
        id: id.to_owned(),
        title: String::new(),
        columns: columns
            .iter()
            .map(|name| Column {
                name: (*name).to_owned(),
                unit: Unit::Nanoseconds,
            })
            .collect(),
        rows,
    }
}

fn experiment(name: &str, command: &str, tables: Vec<Table>) -> Experiment {
    Experiment {
        name: name.to_owned(),
        title: String::new(),
        paper: None,
        finding: "Not available here: not allowed.".to_owned(),
        command: format!("tollgate experiment run {name}{command}"),
        tables,
        figures: Vec::new(),
        trust: Vec::new(),
    }
}

const SIZES_OF_RUN: [u32; 4] = [1, 500, 2_000, 8_192];

/// ns of the categories of a message, of which the parts of OpSys are a third and two thirds.
fn categories(size: u32) -> [f64; 3] {
    [300.0 + 0.1 * f64::from(size), 3_000.0, 1_200.0]
}

fn breakdown(protocol: &str) -> Table {
    let rows = SIZES_OF_RUN.map(|size| {
        let [moved, system, protocols] = categories(size);
        let total = moved + system + protocols;
        let cells = [moved, system, protocols, total, 100.0 * moved / total];
        plain_row(
            format::size(size as usize),
            cells.map(|value| cell(value, 0.02)).into(),
        )
    });
    let columns = ["DataMove", "OpSys", "ProtSpec", "Total", "Touching data"];
    table(&format!("time-{protocol}"), &columns, rows.into())
}

fn detail(protocol: &str) -> Table {
    let row = |label: &str, depth, ns: &dyn Fn(u32) -> f64| Row {
        depth,
        kind: RowKind::Plain,
        ..plain_row(label, [1, 8_192].map(|size| cell(ns(size), 0.02)).into())
    };
    let rows = vec![
        row("DataMove", 0, &|size| categories(size)[0]),
        row("User-kernel copy", 1, &|size| categories(size)[0]),
        row("OpSys", 0, &|_| 3_000.0),
        row("Wakeup", 1, &|_| 1_000.0),
        row("System call", 1, &|_| 1_500.0),
        row("ProtSpec", 0, &|_| 1_200.0),
        row("Total", 0, &|size| categories(size).iter().sum()),
    ];
    table(&format!("parts-{protocol}"), &["1 B", "8,192 B"], rows)
}

fn kernel_run() -> Run {
    let both = |table: fn(&str) -> Table| ["tcp", "udp"].map(table).into();
    run_of(vec![
        experiment("kay-breakdown", "", both(breakdown)),
        experiment("kay-detail", "", both(detail)),
    ])
}

const RUN: Origin<'static> = Origin::Run("run.json");

fn of<'a>(name: &'a str, traffic: &'a Traffic) -> TraceOf<'a> {
    TraceOf {
        name,
        remark: None,
        messages: Messages::Segments,
        traffic,
        bounds: None,
    }
}

fn value(shown: &Experiment, table: &str, row: &str, column: &str) -> f64 {
    let table = shown.tables.iter().find(|one| one.id == table).unwrap();
    let at = table.columns.iter().position(|one| one.name == column);
    let row = table.rows.iter().find(|one| one.label == row).unwrap();
    row.cells[at.unwrap()].number().unwrap()
}

#[test]
fn a_run_is_weighted_with_a_trace() {
    let messages = traffic(&[&[
        (Protocol::Tcp, 100, 60),
        (Protocol::Tcp, 1_448, 40),
        (Protocol::Udp, 8_192, 25),
    ]]);
    let shown = profile(&kernel_run(), None, of("office", &messages), RUN).unwrap();
    let ns = |size: u32| categories(size).iter().sum::<f64>();
    let near =
        |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found}, not {wanted}");
    let tcp = 60.0 * ns(100) + 40.0 * ns(1_448);
    let moved = 60.0 * categories(100)[0] + 40.0 * categories(1_448)[0];
    near(
        value(&shown, "aggregate", "DataMove", "TCP"),
        100.0 * moved / tcp,
    );
    near(
        value(&shown, "aggregate", "OpSys", "TCP"),
        100.0 * 300_000.0 / tcp,
    );
    let all = tcp + 25.0 * ns(8_192);
    let moved = moved + 25.0 * categories(8_192)[0];
    near(
        value(&shown, "aggregate", "Touching data", "TCP and UDP"),
        100.0 * moved / all,
    );
    near(
        value(&shown, "aggregate", "All else", "TCP and UDP"),
        100.0 - 100.0 * moved / all,
    );
    near(value(&shown, "aggregate", "ProtSpec", "cumulative"), 100.0);
    near(value(&shown, "messages", "TCP", "time each"), tcp / 100.0);
    near(value(&shown, "messages", "UDP", "user data each"), 8_192.0);
    near(
        value(&shown, "inside", "Wakeup", "TCP, of the category"),
        100.0 / 3.0,
    );
    // What no rule names a part for.
    near(
        value(&shown, "inside", "the rest", "UDP, of the category"),
        100.0 / 6.0,
    );
    near(
        value(
            &shown,
            "savings",
            "Operating system at half its cost",
            "TCP",
        ),
        50.0 * 300_000.0 / tcp,
    );
    near(
        value(&shown, "savings", "Nobody is woken", "TCP"),
        100.0 * 100_000.0 / tcp,
    );
    near(
        value(&shown, "savings", "Twice the MTU", "TCP"),
        100.0 * 20.0 * 4_500.0 / tcp,
    );
    run_of(vec![shown]).check().unwrap();
}

#[test]
fn the_finding_holds_the_benchmark_against_the_traffic() {
    let messages = traffic(&[&[(Protocol::Tcp, 1, 1), (Protocol::Udp, 8_192, 1)]]);
    let shown = profile(&kernel_run(), None, of("office", &messages), RUN).unwrap();
    insta::assert_snapshot!(
        shown.finding,
        @"On office, 86 % of the time over kernel-loopback goes to what does not touch data (TCP 93 %, UDP 79 %); in a benchmark with messages of 8,192 B it would be 79 % for TCP and 79 % for UDP."
    );
}

#[test]
fn what_lies_beyond_the_measured_sizes_is_said() {
    let messages = traffic(&[&[(Protocol::Tcp, 8_192, 3), (Protocol::Tcp, 24_576, 1)]]);
    let shown = profile(&kernel_run(), None, of("office", &messages), RUN).unwrap();
    assert_eq!(
        value(&shown, "messages", "TCP", "beyond the sizes measured"),
        25.0
    );
    assert_eq!(value(&shown, "messages", "TCP", "of the user data"), 50.0);
    let stated = shown
        .trust
        .iter()
        .find(|line| line.text.contains("larger than any"));
    assert!(stated.is_some_and(|line| {
        !line.holds
            && line
                .text
                .starts_with("25.0 % of the messages, with 50.0 % of the user data")
    }));
    // The cost goes on by 0.1 ns for each byte.
    let mean = value(&shown, "messages", "TCP", "time each");
    let ns = |size: f64| 4_500.0 + 0.1 * size;
    assert!((mean - (3.0 * ns(8_192.0) + ns(24_576.0)) / 4.0).abs() < 1e-9);
}

#[test]
fn a_trace_without_one_protocol_shows_the_other() {
    let messages = traffic(&[&[(Protocol::Udp, 100, 5)]]);
    let shown = profile(&kernel_run(), None, of("names", &messages), RUN).unwrap();
    let aggregate = &shown.tables[1];
    assert!(matches!(
        &aggregate.rows[0].cells[0],
        Cell::NotAvailable { reason } if reason == "names has no messages of TCP"
    ));
    assert!(aggregate.rows[0].cells[1].number().is_some());
    assert!(shown.finding.contains("(UDP alone)"), "{}", shown.finding);
}

#[test]
fn what_makes_no_profile_says_what_would() {
    let messages = traffic(&[&[(Protocol::Tcp, 1, 1)]]);
    let refused = |run: &Run, path, messages: &Traffic| {
        profile(run, path, of("office", messages), RUN)
            .unwrap_err()
            .to_string()
    };
    let error = refused(&run_of(Vec::new()), None, &messages);
    assert!(
        error.contains("`tollgate experiment run kay-breakdown kay-detail --json run.json`"),
        "{error}"
    );
    let unavailable = run_of(vec![experiment(
        "kay-breakdown",
        "",
        vec![table("not-available", &["Time"], Vec::new())],
    )]);
    let error = refused(&unavailable, None, &messages);
    assert!(
        error.contains("not allowed") && error.contains("doctor"),
        "{error}"
    );
    let error = refused(&kernel_run(), Some(PathId::KernelVeth), &messages);
    assert!(
        error.contains("no costs of kernel-veth; it has those of kernel-loopback"),
        "{error}"
    );
    let error = refused(&kernel_run(), Some(PathId::StackMemory), &messages);
    assert!(error.contains("--path stack-memory"), "{error}");
    let error = refused(&kernel_run(), None, &Traffic::default());
    assert!(
        error.contains("office has no messages of TCP and UDP"),
        "{error}"
    );
    let mut one = breakdown("tcp");
    one.rows.truncate(1);
    let error = refused(
        &run_of(vec![experiment("kay-breakdown", "", vec![one])]),
        None,
        &messages,
    );
    assert!(error.contains("fewer than two sizes"), "{error}");
}

#[test]
fn a_path_is_chosen_by_its_name() {
    let messages = traffic(&[&[(Protocol::Tcp, 1, 1)]]);
    let tables = || {
        vec![
            breakdown("tcp-kernel-loopback"),
            breakdown("tcp-kernel-veth"),
        ]
    };
    let both = run_of(vec![experiment("kay-breakdown", "", tables())]);
    for path in [PathId::KernelLoopback, PathId::KernelVeth] {
        let shown = profile(&both, Some(path), of("office", &messages), RUN).unwrap();
        assert!(
            shown.finding.contains(&format!("over {path} ")),
            "{}",
            shown.finding
        );
    }
    let alone = run_of(vec![experiment(
        "kay-breakdown",
        " --path kernel-veth",
        vec![breakdown("tcp")],
    )]);
    let shown = profile(&alone, None, of("office", &messages), RUN).unwrap();
    assert!(
        shown.finding.contains("over kernel-veth "),
        "{}",
        shown.finding
    );
}

#[test]
fn the_spans_of_our_stack_are_its_parts() {
    let spans = |direction: tollgate_gate::Direction, tcp: f64| {
        let spans = tollgate_gate::STACK.spans().iter();
        let rows = spans
            .filter(|span| span.direction == direction)
            .map(|span| {
                let cells = [4.0, 8_000.0].map(|size| match span.name {
                    "tcp.checksum" => Cell::NotAvailable {
                        reason: "not passed".to_owned(),
                    },
                    "socket" => Cell::exact(10.0 + 0.01 * size),
                    "tcp" => Cell::exact(tcp),
                    _ => Cell::exact(10.0),
                });
                plain_row(span.name, cells.into())
            });
        vec![table(
            "spans-stack-memory",
            &["4 B", "8,000 B"],
            rows.collect(),
        )]
    };
    let stack = |tcp: f64| {
        run_of(vec![
            experiment(
                "wolman-transmit",
                "",
                spans(tollgate_gate::Direction::Tx, tcp),
            ),
            experiment(
                "wolman-receive",
                "",
                spans(tollgate_gate::Direction::Rx, tcp),
            ),
        ])
    };
    let messages = traffic(&[&[(Protocol::Tcp, 4, 100)]]);
    let shown = profile(
        &stack(10.0),
        Some(PathId::StackMemory),
        of("office", &messages),
        RUN,
    )
    .unwrap();
    let rows = tollgate_gate::STACK.spans().iter().filter(|span| {
        span.name != "tcp.checksum" && span.direction != tollgate_gate::Direction::Between
    });
    let wanted = 10.0 * rows.count() as f64 + 2.0 * 0.04;
    assert!((value(&shown, "messages", "TCP", "time each") - wanted).abs() < 1e-9);
    assert!(
        shown
            .trust
            .iter()
            .any(|line| !line.holds && line.text.contains("no intervals"))
    );
    // UDP has no gates there.
    let messages = traffic(&[&[(Protocol::Tcp, 4, 100), (Protocol::Udp, 4, 100)]]);
    let shown = profile(
        &stack(10.0),
        Some(PathId::StackMemory),
        of("office", &messages),
        RUN,
    )
    .unwrap();
    assert!(matches!(
        &shown.tables[0].rows[1].cells[2],
        Cell::NotAvailable { reason } if reason == "the run holds no costs of UDP over stack-memory"
    ));
    // Below zero is no time.
    let refused = profile(
        &stack(-100.0),
        Some(PathId::StackMemory),
        of("office", &messages),
        RUN,
    );
    let error = refused.unwrap_err().to_string();
    assert!(
        error.starts_with("the spans of ProtSpec come out below zero at 4 B"),
        "{error}"
    );
}

#[test]
fn sizes_reach_as_far_as_the_trace_does() {
    let of = |largest: u32| {
        let mut stretch = Stretch::default();
        stretch.add(Protocol::Udp, 20, 5);
        stretch.add(Protocol::Tcp, largest, 1);
        sizes(&Traffic::new(vec![Stretch::default(), stretch]))
    };
    assert_eq!(of(8_192), SIZES);
    assert_eq!(of(8_193)[10..], [16_384]);
    assert_eq!(of(40_000)[10..], [16_384, 32_768, 65_483]);
    assert_eq!(sizes(&Traffic::default()), SIZES);
}

#[test]
fn the_command_under_a_profile_gives_the_same_page() {
    let messages = traffic(&[&[(Protocol::Tcp, 100, 60)]]);
    let command = |name: &str, of_messages, origin| {
        let trace = TraceOf {
            messages: of_messages,
            ..of(name, &messages)
        };
        profile(&kernel_run(), None, trace, origin).unwrap().command
    };
    assert_eq!(
        command("office", Messages::Segments, RUN),
        "tollgate estimate --trace office --from run.json"
    );
    assert_eq!(
        command("my office", Messages::Writes, Origin::Run("runs/a b.json")),
        "tollgate estimate --trace 'my office' --messages writes --from 'runs/a b.json'"
    );
    assert_eq!(
        command(
            "office",
            Messages::Segments,
            Origin::Measured(" --size 1,8192")
        ),
        "tollgate estimate --trace office --size 1,8192"
    );
}
