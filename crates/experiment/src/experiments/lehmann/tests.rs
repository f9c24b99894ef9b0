use std::fmt::Write as _;

use tollgate_run::Experiment as Shown;

use super::*;
use crate::per_packet::tests::fixed;

/// The words and numbers that a reader would see.
fn text(shown: &Shown) -> String {
    let mut text = format!("{}\n", shown.finding);
    for table in &shown.tables {
        let names: Vec<&str> = table.columns.iter().map(|one| one.name.as_str()).collect();
        let _ = writeln!(
            text,
            "\n[{}] {}: {}",
            table.id,
            table.title,
            names.join(" | ")
        );
        for row in &table.rows {
            let cells: Vec<String> = row
                .cells
                .iter()
                .map(|cell| match cell {
                    Cell::Value(number) => format::significant(number.value),
                    Cell::Published { value, .. } => {
                        format!("{} (published)", format::significant(*value))
                    }
                    Cell::NotAvailable { reason } => format!("n/a: {reason}"),
                    Cell::Text { text } => text.clone(),
                })
                .collect();
            let _ = writeln!(text, "  {}: {}", row.label, cells.join(" | "));
        }
    }
    for line in &shown.trust {
        let _ = writeln!(text, "{} {}", if line.holds { " " } else { "!" }, line.text);
    }
    text
}

fn show(view: &View, per_packet: &PerPacket, options: &Options) -> Shown {
    let command = view.command(options);
    view.headed((view.parts)(per_packet, options, &command), command)
}

#[test]
fn the_views_of_fixed_numbers() {
    let (per_packet, options) = (fixed(), Options::default());
    insta::assert_snapshot!("bandwidth", text(&show(&BANDWIDTH, &per_packet, &options)));
    insta::assert_snapshot!(
        "processing",
        text(&show(&PROCESSING, &per_packet, &options))
    );
    insta::assert_snapshot!("queues", text(&show(&QUEUES, &per_packet, &options)));
    insta::assert_snapshot!("budget", text(&show(&BUDGET, &per_packet, &options)));
}

#[test]
fn mechanisms_that_are_set_stand_below_the_tables() {
    let mut options = Options {
        paths: Some(vec![tollgate_run::PathId::StackMemory]),
        sizes: Some(vec![4_096]),
        iterations: Some(1),
        ..Options::default()
    };
    options.mechanisms.set("demux", "list").unwrap();
    let cancel = crate::context::Cancel::default();
    let mut context = Context::new(options, None, cancel, &crate::context::Silent);
    let shown = BUDGET.run(&mut context).unwrap();
    assert!(
        shown.command.ends_with(" --set demux=list"),
        "{}",
        shown.command
    );
    let mut lines = shown.trust.iter();
    assert!(
        lines.any(|line| line.text.contains("demux list")),
        "{:?}",
        shown.trust
    );
}

#[test]
fn work_of_a_ledger_that_does_not_close_is_not_stated() {
    let mut per_packet = fixed();
    for size in per_packet
        .measured
        .iter_mut()
        .flat_map(|one| &mut one.sizes)
    {
        if let Some(ledger) = &mut size.ledger {
            ledger.closure.left.ns = 700.0;
        }
    }
    for view in [&PROCESSING, &QUEUES, &BUDGET] {
        let said = show(view, &per_packet, &Options::default()).finding;
        assert!(said.starts_with("This run cannot tell"), "{said}");
        assert!(
            said.contains("4.7 % of the whole is unattributed"),
            "{said}"
        );
    }
}

#[test]
fn work_is_never_below_zero() {
    let per_packet = per_packet::tests::fixed_with_work(-3.0);
    let shown = show(&PROCESSING, &per_packet, &Options::default());
    let work = shown.tables.iter().find(|one| one.id.starts_with("work-"));
    let cells = work.unwrap().rows.iter().map(|row| &row.cells[0]);
    let below: Vec<&Cell> = cells
        .filter(|cell| matches!(cell, Cell::Text { text } if text.starts_with("below ")))
        .collect();
    // Two layers with 20 ns of half-width, and their sums with 0.5.
    assert_eq!(
        below,
        [
            &Cell::text("below 17.0 ns"),
            &Cell::text("below 1.00 ns"),
            &Cell::text("below 17.0 ns"),
            &Cell::text("below 1.00 ns")
        ]
    );
    for figure in &shown.figures {
        let tollgate_run::Figure::Lines { series, .. } = figure else {
            panic!("lines");
        };
        assert!(series.iter().all(|line| line.points.is_empty()));
    }
}

#[test]
fn all_swept_sizes_are_drawn() {
    let mut per_packet = fixed();
    per_packet.fewer = true;
    let known = per_packet.measured[0].sizes[0].round_trip.unwrap();
    per_packet.measured[0].swept = (1..=256).map(|at| (at * 256, known)).collect();
    let shown = show(&BANDWIDTH, &per_packet, &Options::default());
    let tollgate_run::Figure::Lines { series, .. } = &shown.figures[0] else {
        panic!("lines");
    };
    assert_eq!(series[0].points.len(), 256);
    let said = shown
        .trust
        .iter()
        .any(|line| line.text.contains("all of the paper's sizes"));
    assert!(said);
}

#[test]
fn a_faster_line_breaks_at_a_layer() {
    let options = Options {
        line_rate: Some(100_000_000_000),
        ..Options::default()
    };
    let shown = show(&BUDGET, &fixed(), &options);
    assert!(
        shown.finding.contains("breaks it at send: tcp"),
        "{}",
        shown.finding
    );
    assert!(shown.command.ends_with("--line-rate 100000000000"));
}

#[test]
fn many_sizes_become_few_columns() {
    let all: Vec<usize> = (1..=256).map(|at| at * 256).collect();
    let chosen: Vec<usize> = columns(&all).into_iter().map(|at| all[at]).collect();
    assert_eq!(chosen, COLUMNS);
    assert_eq!(columns(&[4, 20]), [0, 1]);
}
