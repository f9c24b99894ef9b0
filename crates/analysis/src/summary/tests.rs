use tollgate_run::{Measured, Placement, fixture};

use super::*;

/// A round trip of 1,000 ns with these stretches.
fn round_trip(stretches: &[(Stage, f64)], open_ns: f64) -> RoundTrip {
    let stretch = |(part, ns): &(Stage, f64)| Stretch {
        part: *part,
        spans: vec![part.name().to_owned()],
        ns: *ns,
        half_width: 10.0,
    };
    RoundTrip {
        path: tollgate_run::PathId::KernelLoopback,
        mode: tollgate_run::Mode::ALL[0],
        total: Measured {
            value: 1_000.0,
            ..Measured::default()
        },
        stretches: stretches.iter().map(stretch).collect(),
        disabled_ns: 0.0,
        open_ns: Some(open_ns),
        verdict: None,
    }
}

#[test]
fn anatomy_of_a_report_has_each_mode_of_the_kernel_and_the_stack() {
    let anatomy = anatomy(&fixture::report()).unwrap();
    assert_eq!(anatomy.size, 200);
    let names: Vec<String> = anatomy
        .round_trips
        .iter()
        .map(|one| format!("{}, {}", one.path, one.mode.words()))
        .collect();
    assert_eq!(
        names,
        [
            "kernel-loopback, 2 cores, blocking",
            "kernel-loopback, 2 cores, polling",
            "kernel-loopback, 1 core, blocking",
            "stack-shm, 2 cores, polling",
            "stack-memory, 1 core, polling",
        ]
    );
    for one in anatomy
        .round_trips
        .iter()
        .filter(|one| !one.stretches.is_empty())
    {
        let sum: f64 = one.stretches.iter().map(|stretch| stretch.ns).sum();
        let whole = one.total.value + one.disabled_ns;
        // The table's numbers are rounded.
        let off = (sum + one.open_ns.unwrap() - whole).abs();
        assert!(off < 2e-3 * whole, "{}: {off}", one.path);
        let lengths: f64 = one.lengths().iter().sum();
        assert!((lengths - sum).abs() < 1e-6 * sum);
    }
}

#[test]
fn anatomy_needs_a_ledger() {
    assert_eq!(anatomy(&fixture::run_of(Vec::new())), None);
}

#[test]
fn shares_hold_what_the_ledger_leaves_open() {
    let one = round_trip(&[(Stage::Tcp, 300.0), (Stage::Socket, 600.0)], 100.0);
    let share = one.share(Stage::Tcp).unwrap();
    assert!((share.low - 19.0).abs() < 1e-9 && (share.high - 41.0).abs() < 1e-9);
    assert_eq!(one.share(Stage::Wakeup), None);
}

#[test]
fn largest_part_is_told_only_where_the_open_rest_cannot_change_it() {
    let parts = [(Stage::Tcp, 300.0), (Stage::Socket, 600.0)];
    assert_eq!(round_trip(&parts, 100.0).largest(), Some(Stage::Socket));
    assert_eq!(round_trip(&parts, 200.0).largest(), None);
    assert_eq!(round_trip(&parts, -200.0).largest(), None);
}

#[test]
fn findings_of_a_report_answer_in_one_sentence_each() {
    let summary = summary(&fixture::report());
    let texts: Vec<&str> = summary
        .findings
        .iter()
        .map(|one| one.text.as_str())
        .collect();
    insta::assert_snapshot!(texts.join("\n"));
    for text in texts {
        assert!(text.split_whitespace().count() <= 25, "{text}");
    }
    assert_eq!(summary.refused, None);
}

#[test]
fn findings_that_rest_on_too_little_are_refused_with_the_reason() {
    let mut run = fixture::report();
    let crr = run
        .experiments
        .iter_mut()
        .find(|one| one.name == "crr")
        .unwrap();
    for row in &mut crr.tables[0].rows {
        for cell in &mut row.cells {
            if let Cell::Value(measured) = cell {
                measured.n = Some(48);
            }
        }
    }
    let summary = summary(&run);
    assert!(summary.findings.iter().all(|one| one.experiment != "crr"));
    assert_eq!(
        summary.refused.as_deref(),
        Some("This run cannot tell what a connection takes (48 operations, fewer than 1,000).")
    );
}

#[test]
fn what_states_nothing_is_missing_with_its_reason() {
    let mut run = fixture::report();
    run.experiments[1].finding = "Not available here: no root.".to_owned();
    let summary = summary(&run);
    assert_eq!(summary.missing, ["crr: not available here: no root."]);
}

#[test]
fn trust_counts_the_ledgers_that_close() {
    let summary = summary(&fixture::report());
    assert!(
        summary.trust[0].contains(" of 8 ledgers the layers sum to"),
        "{:?}",
        summary.trust
    );
    let one_core = anatomy(&fixture::report()).unwrap();
    assert!(
        one_core
            .round_trips
            .iter()
            .any(|one| one.mode.placement == Placement::OneCore)
    );
}

#[test]
fn control_that_was_looked_at_once_tells_no_variation() {
    let mut run = fixture::report();
    let said = |run: &Run| {
        let lines = summary(run).trust;
        lines.iter().any(|line| line.contains("own speed varied"))
    };
    assert!(said(&run));
    run.controls.iter_mut().for_each(|one| one.n = 1);
    assert!(!said(&run));
}

#[test]
fn runs_of_one_experiment_have_an_empty_summary() {
    assert!(!summary(&fixture::report()).is_empty());
    let mut run = fixture::report();
    run.experiments
        .retain(|one| one.name == "wolman-ledger-net");
    assert!(summary(&run).is_empty());
}

#[test]
fn share_of_tcp_that_may_be_anything_is_refused() {
    let mut run = fixture::report();
    let receive = run
        .experiments
        .iter_mut()
        .find(|one| one.name == "wolman-receive")
        .unwrap();
    let closure = receive
        .tables
        .iter_mut()
        .find(|table| table.id == "closure")
        .unwrap();
    for row in closure
        .rows
        .iter_mut()
        .filter(|row| row.kind == tollgate_run::RowKind::Unattributed)
    {
        row.cells.fill(Cell::exact(1e6));
    }
    let summary = summary(&run);
    assert!(
        summary
            .findings
            .iter()
            .all(|one| !one.text.contains("0 to 100 %")),
        "{:?}",
        summary.findings
    );
    assert!(
        summary
            .refused
            .unwrap()
            .contains("what TCP takes on one core")
    );
}

/// The numbers of the first row with this label; zero where a cell has none.
fn numbers(table: &tollgate_run::Table, label: &str) -> Vec<f64> {
    let row = table.rows.iter().find(|row| row.label == label).unwrap();
    row.cells
        .iter()
        .map(|cell| cell.number().unwrap_or(0.0))
        .collect()
}

#[test]
fn ledger_of_both_directions_adds_up_from_top_to_bottom() {
    let run = fixture::report();
    let table = ledger(&run, &anatomy(&run).unwrap()).unwrap();
    let names: Vec<&str> = table.columns.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "kernel-loopback, 2 cores, blocking",
            "kernel-loopback, 2 cores, polling",
            "kernel-loopback, 1 core, blocking",
            "stack-memory, 1 core, polling",
        ]
    );
    let of = |label: &str| numbers(&table, label);
    let (out, back) = (of("transmit, all spans"), of("receive, all spans"));
    let (sum, open, total) = (
        of("sum of the spans"),
        of("left open"),
        of("round trip without gates"),
    );
    let disabled = of("disabled gates");
    for at in 0..names.len() {
        // The numbers of a run have four digits.
        let near = |one: f64, other: f64| (one - other).abs() < 2e-3 * total[at];
        assert!(near(out[at] + back[at], sum[at]), "{}", names[at]);
        assert!(
            near(sum[at] - disabled[at] + open[at], total[at]),
            "{}",
            names[at]
        );
    }
    // Every span of every ledger stands once in its direction.
    let spans = table.rows.iter().filter(|row| row.layer.is_some());
    let sum_of_rows: f64 = spans.filter_map(|row| row.cells[3].number()).sum();
    assert!((sum_of_rows - out[3] - back[3]).abs() < 1e-6);
}

#[test]
fn ledger_of_a_span_that_one_path_has_stands_in_the_order_of_the_way() {
    let run = fixture::report();
    let table = ledger(&run, &anatomy(&run).unwrap()).unwrap();
    let place = |label: &str| {
        table
            .rows
            .iter()
            .position(|row| row.label == label)
            .unwrap()
    };
    assert!(place("demux") < place("wakeup + resume"));
    assert!(place("wakeup + resume") < place("application"));
    assert!(place("transmit, all spans") < place("ip.queue"));
}
