//! Tests of predictions from a run whose costs are known.

use tollgate_run::fixture::run_of;

use super::*;

/// Round trips of 7,000 ns and 0.15 ns a byte, and writes of 400 ns and 0.1 ns a byte; over `stack-memory` also 150 ns a packet.
fn run() -> Run {
    let sizes: [u16; 8] = [4, 20, 80, 200, 500, 1_400, 4_000, 8_000];
    let row = |label: &str, cost: &dyn Fn(f64) -> f64| {
        plain_row(
            label,
            sizes
                .iter()
                .map(|&size| Cell::exact(cost(f64::from(size))))
                .collect(),
        )
    };
    let table = |id: &str, unit, rows| Table {
        id: id.to_owned(),
        title: String::new(),
        columns: sizes
            .iter()
            .map(|&size| column(&format::size(usize::from(size)), unit))
            .collect(),
        rows,
    };
    let experiment = |name: &str, table| Experiment {
        name: name.to_owned(),
        title: String::new(),
        paper: None,
        finding: String::new(),
        command: String::new(),
        tables: vec![table],
        figures: Vec::new(),
        trust: Vec::new(),
    };
    let loopback = |size: f64| 7_000.0 + 0.15 * size;
    let memory = |size: f64| {
        700.0 + 0.02 * size + 150.0 * model::packets(size, fit::segment(fit::USUAL_MTU))
    };
    let trips = table(
        "round-trips",
        Unit::Nanoseconds,
        vec![
            row("kernel-loopback, 2 cores, polling", &loopback),
            row("kernel-loopback, 2 cores, blocking", &|size| {
                loopback(size) + 50_000.0
            }),
            row("stack-memory, 1 core, polling", &memory),
        ],
    );
    let streams = table(
        "cost",
        Unit::NanosecondsPerByte,
        vec![
            row("kernel-loopback, 1 core, blocking", &|size| {
                400.0 / size + 0.1
            }),
            row("kernel-loopback, 2 cores, polling", &|size| {
                400.0 / size + 1.0
            }),
        ],
    );
    let mut run = run_of(vec![
        experiment("rr-by-size", trips),
        experiment("stream-by-write-size", streams),
    ]);
    run.clock.hz = 2e9;
    run
}

fn predicted(memory: Option<f64>) -> Experiment {
    let options = Options {
        from: "run.json".to_owned(),
        sizes: None,
        line_rate: LINE_RATE,
        memory,
    };
    predict(&run(), &options, None).unwrap()
}

/// The numbers of a row.
fn numbers(experiment: &Experiment, table: &str, row: &str) -> Vec<Option<f64>> {
    let table = experiment
        .tables
        .iter()
        .find(|one| one.id == table)
        .unwrap();
    let row = table
        .rows
        .iter()
        .find(|one| one.label.starts_with(row))
        .unwrap();
    row.cells
        .iter()
        .map(|cell| cell.number().map(|number| (number * 1e4).round() / 1e4))
        .collect()
}

#[test]
fn costs_of_the_run_are_found_and_sizes_left_out_are_told() {
    let experiment = predicted(None);
    assert!(experiment.command.contains("--from run.json"));
    assert_eq!(
        numbers(
            &experiment,
            "round-trip-costs",
            "kernel-loopback, 2 cores, polling"
        ),
        [Some(7_000.0), None, None, Some(0.15), Some(0.0), Some(0.0)]
    );
    assert_eq!(
        numbers(&experiment, "round-trip-costs", "stack-memory"),
        [
            Some(850.0),
            Some(150.0),
            None,
            Some(0.02),
            Some(0.0),
            Some(0.0)
        ]
    );
    assert_eq!(
        numbers(&experiment, "held-out", "stack-memory"),
        [Some(0.0); 8].map(|zero| zero.map(|zero: f64| zero.abs()))
    );
}

#[test]
fn a_line_is_held_against_a_stream() {
    let experiment = predicted(None);
    // At 10 Gb/s a byte has 0.8 ns: 0.7 are left for 400 ns a write. 8,000 B take 1,200 ns, so 6.67 GB/s.
    let row = numbers(&experiment, "line", "kernel-loopback, 1 core");
    assert_eq!(row[0].map(f64::round), Some(6_666_666_667.0));
    assert_eq!(row[1], Some(572.0));
    // Interpolated between the 500 and the 1,400 bytes that were measured it is much the same.
    assert!((540.0..600.0).contains(&row[2].unwrap()), "{row:?}");
    assert_eq!(row[3], Some(0.0375));
    assert_eq!(row[4], Some(0.1875));
    // 1 ns a byte is too slow.
    assert_eq!(
        numbers(&experiment, "line", "kernel-loopback, 2 cores")[1],
        None
    );
    assert_eq!(
        numbers(&experiment, "line", "kernel-loopback, 2 cores")[2],
        None
    );
    assert!(
        experiment
            .finding
            .contains("fills 10.0 Gb/s with writes of 577 bytes or more"),
        "{}",
        experiment.finding
    );
}

#[test]
fn packets_are_those_that_the_run_was_made_with() {
    let with = |flags: &str| {
        let mut run = run();
        run.experiments[0].command = format!("tollgate experiment run rr-by-size {flags}");
        run
    };
    let packets = |flags: &str| Packets::of(&with(flags), TRIPS);
    assert_eq!(packets(""), Packets::default());
    let memory = |flags| trip("stack-memory, 1 core, polling", packets(flags));
    assert_eq!(memory("--mtu 9000"), CostModel::Packets(8_948.0));
    assert_eq!(memory("--link fddi"), CostModel::Packets(4_300.0));
    assert_eq!(memory("--link ethernet"), CostModel::Packets(1_448.0));
    assert_eq!(memory("--udp"), CostModel::Packets(1_480.0));
    let loopback = |flags| trip("kernel-loopback, 2 cores, polling", packets(flags));
    assert_eq!(loopback("--mtu 1500"), CostModel::Together(1_448.0));
    assert_eq!(loopback(""), CostModel::Together(LOOPBACK));
    let options = Options {
        from: "run.json".to_owned(),
        sizes: None,
        line_rate: LINE_RATE,
        memory: None,
    };
    let shown = predict(&with("--mtu 9000"), &options, None).unwrap();
    let effects = shown.tables.iter().find(|one| one.id == "effects").unwrap();
    assert!(effects.rows.iter().all(|row| !row.label.contains("MTU")));
    assert!(shown.trust[0].text.contains("packets, of 8,948 bytes,"));
}

#[test]
fn effects_are_those_of_the_costs() {
    let experiment = predicted(None);
    assert_eq!(
        numbers(
            &experiment,
            "effects",
            "MTU 9000 for 1500, 8,000 B, stack-memory"
        )[0],
        Some(5.0 * 150.0)
    );
    assert_eq!(
        numbers(&experiment, "effects", "no waking, 4 B")[0],
        Some(50_000.0)
    );
    assert_eq!(
        numbers(
            &experiment,
            "effects",
            "no byte touched, 8,000 B, kernel-loopback, 2 cores, polling"
        )[0],
        Some(1_200.0)
    );
    assert_eq!(
        numbers(&experiment, "effects", "checksum and"),
        [None, None]
    );
}

#[test]
fn memory_bounds_a_stream() {
    let experiment = predicted(Some(40e9));
    let row = numbers(&experiment, "memory", "two copies");
    assert_eq!((row[0], row[1]), (Some(4.0), Some(10e9)));
    assert!((row[2].unwrap() - 66.666_7).abs() < 1e-3);
    assert!(
        predicted(None)
            .tables
            .iter()
            .all(|table| table.id != "memory")
    );
}

#[test]
fn a_path_beyond_what_memory_allows_is_marked_and_named() {
    let marks = |experiment: &Experiment| -> Vec<Cell> {
        let table = experiment.tables.iter().find(|one| one.id == "memory");
        let rows = table.unwrap().rows.iter();
        rows.map(|row| row.cells[3].clone()).collect()
    };
    let named = |experiment: &Experiment| {
        let mut lines = experiment.trust.iter();
        lines
            .find(|line| line.text.starts_with("more than memory"))
            .cloned()
    };
    // The best stream over kernel sockets carries 6.67 GB/s; the limits are 10, 7.1 and 8.5 GB/s, then 5, 3.6 and 4.3.
    let within = predicted(Some(40e9));
    assert_eq!(marks(&within), vec![Cell::text("-"); 3]);
    assert_eq!(named(&within), None);
    let beyond = predicted(Some(20e9));
    for mark in marks(&beyond) {
        let Cell::Text { text } = mark else {
            panic!("{mark:?}");
        };
        assert!(text.starts_with("! kernel-loopback"), "{text}");
    }
    let line = named(&beyond).expect("a line names it");
    assert!(!line.holds);
    assert!(
        line.text.contains("kernel-loopback") && line.text.contains("3.57 GB/s"),
        "{}",
        line.text
    );
}

#[test]
fn the_papers_predictions_come_out_of_the_same_arithmetic() {
    let experiment = predicted(None);
    let table = experiment
        .tables
        .iter()
        .find(|one| one.id == "papers")
        .unwrap();
    assert_eq!(table.rows.len(), 7);
    for row in &table.rows {
        let [printed, computed] = [0, 1].map(|at| row.cells[at].number().unwrap());
        assert!(
            (computed / printed - 1.0).abs() < 0.01,
            "{}: {printed} {computed}",
            row.label
        );
    }
}

#[test]
fn a_run_without_sizes_is_refused() {
    let mut run = run();
    run.experiments.clear();
    let options = Options {
        from: "run.json".to_owned(),
        sizes: None,
        line_rate: LINE_RATE,
        memory: None,
    };
    let error = predict(&run, &options, None).unwrap_err();
    assert!(
        error.to_string().contains("experiment run rr-by-size"),
        "{error}"
    );
}

#[test]
fn held_out_sizes_and_mtus_are_measured_and_held_against_what_is_predicted() {
    use crate::context::{Cancel, Context, Options as Measuring, Silent};
    let measuring = Measuring {
        paths: Some(vec![tollgate_run::PathId::StackMemory]),
        iterations: Some(16),
        repetitions: Some(2),
        ..Measuring::default()
    };
    let mut context = Context::new(measuring, None, Cancel::default(), &Silent);
    let mut run = run();
    let validation = validate(&run, &mut context).unwrap();
    let options = Options {
        from: "run.json".to_owned(),
        sizes: None,
        line_rate: LINE_RATE,
        memory: None,
    };
    let predicted = predict(&run, &options, Some(&validation)).unwrap();
    let missed = numbers(&predicted, "missed-round-trips", "stack-memory");
    // The drift, eight sizes, the median and the worst, and the same of how well they are known.
    assert_eq!(missed.len(), 13);
    assert!(missed.iter().all(Option::is_some), "{missed:?}");
    assert!(missed[10].unwrap() >= missed[9].unwrap());
    assert!(missed[12].unwrap() >= missed[11].unwrap());
    let table = |id: &str| predicted.tables.iter().find(|one| one.id == id).unwrap();
    let mtus = table("missed-mtus");
    let labels: Vec<&str> = mtus.rows.iter().map(|row| row.label.as_str()).collect();
    let way = "stack-memory, 1 core, polling, MTU";
    assert_eq!(
        labels,
        [1_500, 3_000, 9_000].map(|mtu| format!("{way} {mtu}"))
    );
    // Sizes that the costs are fitted to have no error at the usual MTU, and have one at the others.
    assert!(mtus.rows[0].cells[0].number().is_none() && mtus.rows[1].cells[0].number().is_some());
    assert_eq!(table("predicted-round-trips").rows.len(), 2);
    assert!(predicted.command.ends_with("--validate"));
    run.experiments = vec![predicted];
    run.check().unwrap();
}

#[test]
fn memory_moves_something() {
    assert!(memory::bandwidth() > 0.0);
}
