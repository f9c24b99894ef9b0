//! Tests that no published row is passed over, and of what is paired with what.

use tollgate_papers as papers;
use tollgate_run::{Interval, Source, fixture::run_of};

use super::*;

mod experiments;

fn published(value: f64) -> Cell {
    Cell::Published {
        value,
        source: Source {
            authors: "Wolman, Voelker and Thekkath".to_owned(),
            year: 1994,
            place: "Table 2".to_owned(),
        },
    }
}

/// A number with an interval.
fn known(value: f64) -> Cell {
    Cell::Value(Measured {
        value,
        ci: Some(Interval {
            low: 0.9 * value,
            high: 1.1 * value,
        }),
        ..Measured::default()
    })
}

fn column(name: &str, unit: Unit) -> Column {
    Column {
        name: name.to_owned(),
        unit,
    }
}

fn transmit() -> Experiment {
    Experiment {
        name: "wolman-transmit".to_owned(),
        title: String::new(),
        paper: None,
        finding: String::new(),
        command: String::new(),
        tables: vec![Table {
            id: "compared".to_owned(),
            title: String::new(),
            columns: vec![
                column("1994", Unit::Nanoseconds),
                column("share", Unit::Percent),
                column("kernel-loopback", Unit::Nanoseconds),
                column("share", Unit::Percent),
            ],
            rows: vec![
                plain_row(
                    "User",
                    vec![
                        published(67_000.0),
                        published(22.6),
                        Cell::exact(537.0),
                        known(45.2),
                    ],
                ),
                plain_row(
                    "IP",
                    vec![
                        published(35_000.0),
                        published(11.8),
                        Cell::exact(300.0),
                        Cell::NotAvailable {
                            reason: "none".to_owned(),
                        },
                    ],
                ),
            ],
        }],
        figures: Vec::new(),
        trust: Vec::new(),
    }
}

#[test]
fn every_published_table_is_known_and_every_experiment_exists() {
    for table in papers::all().iter().flat_map(|paper| &paper.tables) {
        assert!(
            counterparts::TABLES.iter().any(|(id, _)| *id == table.id),
            "{} is not listed",
            table.id
        );
    }
    for (id, _) in counterparts::TABLES {
        assert!(papers::table(id).is_some(), "{id} is not published");
    }
}

#[test]
fn every_published_row_is_told_or_says_why_not() {
    let empty = beside(&run_of(Vec::new()), Extent::Whole);
    let tables = papers::all().iter().flat_map(|paper| &paper.tables);
    let in_tables = tables.flat_map(|table| {
        let rows = table.rows.iter();
        rows.filter(|row| !published::has(&table.id, &row.id))
    });
    let rows = in_tables.count() + published::ALL.len() + published::UNLIKE.len();
    let silent = empty
        .tables
        .iter()
        .flat_map(|table| &table.rows)
        .filter(|row| matches!(row.cells[..], [Cell::NotAvailable { .. }]))
        .count();
    assert_eq!(silent, rows);
    assert!(run_of(vec![empty]).check().is_ok());
}

#[test]
fn what_stands_elsewhere_in_the_run_is_found() {
    let row = |label: &str, values: &[f64]| {
        plain_row(label, values.iter().map(|&value| known(value)).collect())
    };
    let table = |id: &str, columns: &[(&str, Unit)], rows| Table {
        id: id.to_owned(),
        title: id.to_owned(),
        columns: columns
            .iter()
            .map(|(name, unit)| column(name, *unit))
            .collect(),
        rows,
    };
    let experiment = |name: &str, tables| Experiment {
        name: name.to_owned(),
        tables,
        ..transmit()
    };
    let times = [
        ("Checksum", Unit::Nanoseconds),
        ("ProtSpec", Unit::Nanoseconds),
        ("Total", Unit::Nanoseconds),
        ("Touching data", Unit::Percent),
    ];
    let rows = vec![
        row("1 B", &[0.0, 2_000.0, 8_000.0, 2.0]),
        row("8,192 B", &[100.0, 2_000.0, 10_000.0, 7.0]),
    ];
    let kay = experiment(
        "kay-breakdown",
        vec![table("time-tcp-kernel-loopback", &times, rows)],
    );
    let work = vec![row("receive: all layers", &[700.0, 500.0])];
    let columns = [("256 B", Unit::Nanoseconds), ("8,192 B", Unit::Nanoseconds)];
    let lehmann = experiment(
        "lehmann-processing",
        vec![table("work-kernel-loopback", &columns, work)],
    );
    let run_with = || run_of(vec![kay.clone(), lehmann.clone()]);
    let row = beside(&run_with(), Extent::Whole);
    let numbers = |id: &str, label: &str| {
        let table = row.tables.iter().find(|one| one.id == id).unwrap();
        let row = table.rows.iter().find(|row| row.label.starts_with(label));
        let cells = row.unwrap().cells.iter();
        cells.map(|cell| cell.number().unwrap()).collect::<Vec<_>>()
    };
    let text = "kay-pasquale-1996";
    assert_eq!(
        numbers(text, "touching data, message of 1 byte")[..2],
        [11.0, 2.0]
    );
    assert_eq!(
        numbers(text, "touching data, message of 8 KB")[..2],
        [70.0, 7.0]
    );
    assert_eq!(numbers(text, "checksum alone")[1], 1.0);
    // 20 us at 800 MHz, and 500 ns at the 1 GHz of this run's clock.
    let cycles = numbers(
        "lehmann-benz-2002-processing",
        "work for a packet, receiving",
    );
    assert_eq!(cycles[..2], [16_000.0, 500.0]);
    assert!(
        row.finding
            .contains("70.0 % in 1996 (Kay and Pasquale 1996), 7.00 % now"),
        "{}",
        row.finding
    );
    assert!(run_of(vec![row]).check().is_ok());
    let page = beside(&run_with(), Extent::Page);
    let ids: Vec<&str> = page.tables.iter().map(|table| table.id.as_str()).collect();
    assert_eq!(ids, ["kay-pasquale-1996", "lehmann-benz-2002"]);
    let row = &page.tables[1].rows[1];
    assert_eq!(
        row.cells[..2],
        [Cell::text("16,000 cycles"), Cell::text("500 cycles")]
    );
    assert!(run_of(vec![page]).check().is_ok());
}

#[test]
fn shares_are_compared_where_a_paper_gives_them() {
    let row = beside(&run_of(vec![transmit()]), Extent::Whole);
    let table = row
        .tables
        .iter()
        .find(|one| one.id == "wolman-1994-table-2")
        .unwrap();
    assert_eq!(table.rows.len(), 1, "{table:?}");
    assert_eq!(table.rows[0].label, "User, kernel-loopback");
    assert_eq!(table.columns[1].unit, Unit::Percent);
    assert_eq!(table.rows[0].cells[2].number(), Some(2.0));
    assert!(
        row.finding.contains("User, kernel-loopback"),
        "{}",
        row.finding
    );
    assert!(
        row.finding
            .contains("22.6 % in 1994 (Wolman, Voelker and Thekkath 1994), 45.2 % now"),
        "{}",
        row.finding
    );
    assert!(run_of(vec![row]).check().is_ok());
}

/// The tables of a whole history of one experiment with one table.
fn tables_of(name: &str, table: Table) -> Vec<Table> {
    let experiment = Experiment {
        name: name.to_owned(),
        tables: vec![table],
        ..transmit()
    };
    beside(&run_of(vec![experiment]), Extent::Whole).tables
}

#[test]
fn columns_are_paired_by_name_and_not_by_unit() {
    let ns = |name| column(name, Unit::Nanoseconds);
    let cells = [known(900.0), known(40.0), known(940.0), published(2e5)];
    let tables = tables_of(
        "clark-direct",
        Table {
            id: "costs".to_owned(),
            title: String::new(),
            columns: vec![
                ns("Per packet"),
                ns("Bytes of 1,460"),
                ns("Packet of 1,460 bytes"),
                ns("1989, 1,460 bytes"),
            ],
            rows: vec![plain_row("User-system copy", cells.to_vec())],
        },
    );
    let pairs = tables.iter().find(|one| one.id == "clark-1989-table-1");
    let rows = &pairs.unwrap().rows;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0].cells[1].number(), Some(940.0));
}

#[test]
fn shares_that_cannot_be_are_left_out() {
    let mut shown = transmit();
    shown.tables[0].rows[0].cells[3] = known(115.0);
    let tables = beside(&run_of(vec![shown]), Extent::Whole).tables;
    assert!(tables.iter().all(|one| one.id != "wolman-1994-table-2"));
}

#[test]
fn finding_states_no_share_that_its_interval_does_not_tell() {
    let said = |width: f64| {
        let mut shown = transmit();
        shown.tables[0].rows[0].cells[3] = Cell::Value(Measured {
            value: 45.2,
            ci: Some(Interval {
                low: 45.2 - width / 2.0,
                high: 45.2 + width / 2.0,
            }),
            ..Measured::default()
        });
        beside(&run_of(vec![shown]), Extent::Whole).finding
    };
    assert!(said(60.0).contains("45.2 % now"), "{}", said(60.0));
    assert!(!said(1e6).contains("45.2 % now"), "{}", said(1e6));
}

#[test]
fn means_are_held_against_means() {
    let mut today = known(14_000.0);
    if let Cell::Value(measured) = &mut today {
        measured.mean = Some(15_000.0);
    }
    let table = |id: &str, label: &str, cell| Table {
        id: id.to_owned(),
        title: String::new(),
        columns: vec![column("4 B", Unit::Nanoseconds)],
        rows: vec![plain_row(label, vec![cell])],
    };
    let experiment = Experiment {
        name: "rr-by-size".to_owned(),
        tables: vec![
            table("round-trips", "kernel-loopback, 2 cores, blocking", today),
            table("published", "Ethernet", published(1e6)),
        ],
        ..transmit()
    };
    let tables = beside(&run_of(vec![experiment]), Extent::Whole).tables;
    let pairs = tables.iter().find(|one| one.id == "wolman-1994-table-1");
    assert_eq!(pairs.unwrap().rows[0].cells[1].number(), Some(15_000.0));
}

#[test]
fn savings_may_be_below_zero_and_say_what_saves() {
    let below = Cell::Value(Measured {
        value: -3.0,
        ..Measured::default()
    });
    let tables = tables_of(
        "wolman-elimination",
        Table {
            id: "savings".to_owned(),
            title: String::new(),
            columns: vec![
                column("1994", Unit::Percent),
                column("stack-memory", Unit::Percent),
            ],
            rows: vec![plain_row("4 B", vec![published(0.1), below])],
        },
    );
    let pairs = tables.iter().find(|one| one.id == "wolman-1994-table-7");
    let rows = &pairs.unwrap().rows;
    assert_eq!(rows[0].label, "Saved without checksums, 4 B, stack-memory");
    assert_eq!(rows[0].cells[1].number(), Some(-3.0));
}

#[test]
fn a_number_counts_once_on_however_many_paths_it_has_a_counterpart() {
    let mut experiment = transmit();
    let table = &mut experiment.tables[0];
    table
        .columns
        .push(column("stack-memory", Unit::Nanoseconds));
    table.columns.push(column("share", Unit::Percent));
    for row in &mut table.rows {
        row.cells.extend([known(10.0), known(5.0)]);
    }
    let run = run_of(vec![experiment]);
    let counted = |extent| {
        let finding = beside(&run, extent).finding;
        finding
            .split_once(" numbers of the papers have")
            .unwrap()
            .0
            .to_owned()
    };
    assert_eq!(counted(Extent::Page), "2");
    assert_eq!(counted(Extent::Whole), "2");
}

#[test]
fn what_may_be_zero_tells_no_change() {
    let pair = |low: f64, high: f64| Pair {
        label: "row".to_owned(),
        unit: Unit::Nanoseconds,
        published_cell: published(185_000.0),
        published: 185_000.0,
        measured: Measured {
            value: 14.3,
            ci: Some(Interval { low, high }),
            ..Measured::default()
        },
        again: false,
    };
    assert_eq!(changed(&[pair(-7.4, 36.0)]), None);
    assert!(matches!(
        pair(-7.4, 36.0).quotient(),
        Cell::NotAvailable { .. }
    ));
    let known = changed(&[pair(14.0, 14.6), pair(-7.4, 36.0)]);
    assert_eq!(known.as_deref(), Some("Now 12,937 times quicker"));
}

/// A table with these columns, and rows of a label and cells.
fn table_of(id: &str, columns: Vec<Column>, rows: Vec<(&str, Vec<Cell>)>) -> Table {
    let rows = rows.into_iter();
    Table {
        id: id.to_owned(),
        title: id.to_owned(),
        columns,
        rows: rows.map(|(label, cells)| plain_row(label, cells)).collect(),
    }
}

fn missing(reason: &str) -> Cell {
    Cell::NotAvailable {
        reason: reason.to_owned(),
    }
}

/// The labels and reasons of a paper's rows without a counterpart.
fn refused<'a>(tables: &'a [Table], paper: &str) -> Vec<(&'a str, &'a str)> {
    let id = format!("{paper}-without");
    let table = tables.iter().find(|one| one.id == id).unwrap();
    let rows = table.rows.iter();
    rows.filter_map(|row| match &row.cells[0] {
        Cell::NotAvailable { reason } => Some((row.label.as_str(), reason.as_str())),
        _ => None,
    })
    .collect()
}

#[test]
fn pieces_of_tcp_input_are_compared_at_both_ends_without_their_total() {
    let columns = [
        "Receiver of data",
        "Receiver, 1989",
        "Sender of data",
        "Sender, most, 1989",
    ];
    let columns = columns.map(|name| column(name, Unit::Instructions));
    let row = |ours: Cell, then| vec![ours.clone(), published(then), ours, published(then)];
    let rows = vec![
        ("Common path", row(known(60.0), 154.0)),
        ("  of which entry and exit", row(missing("no entry"), 15.0)),
        ("Total", row(known(90.0), 213.0)),
    ];
    let tables = tables_of(
        "clark-instructions",
        table_of("tcp-input", columns.into(), rows),
    );
    let pairs = tables.iter().find(|one| one.id == "clark-1989-tcp-input");
    let labels = pairs.unwrap().rows.iter().map(|row| row.label.as_str());
    assert_eq!(
        labels.collect::<Vec<_>>(),
        [
            "Common path, at the receiver of data",
            "Common path, at the sender of data"
        ]
    );
    let refused = refused(&tables, "clark-1989");
    assert!(refused.contains(&("of which entry and exit", "no entry")));
    let total = refused.iter().find(|(label, _)| *label == "Total").unwrap();
    assert!(total.1.contains("buffers and timers"), "{}", total.1);
}

#[test]
fn an_experiment_without_its_numbers_gives_its_own_reason() {
    let columns = vec![
        column("Tollgate", Unit::Instructions),
        column("1989", Unit::Instructions),
    ];
    let rows = vec![("Set a timer", vec![missing("no valgrind"), published(35.0)])];
    let tables = tables_of("clark-instructions", table_of("operations", columns, rows));
    let refused = refused(&tables, "clark-1989");
    assert!(
        refused.contains(&("Set a timer", "no valgrind")),
        "{refused:?}"
    );
}

#[test]
fn a_row_of_savings_is_compared_with_the_rows_of_the_same_networks() {
    let columns = vec![column("4 B", Unit::Percent)];
    let below = Cell::Value(Measured {
        value: -30.0,
        ..Measured::default()
    });
    let rows = vec![
        (
            "kernel-veth, 2 cores, blocking of kernel-loopback",
            vec![known(9.0)],
        ),
        ("stack-memory, atm-aal34 of ethernet", vec![below]),
        ("ATM of Ethernet, 1994", vec![published(47.0)]),
    ];
    let tables = tables_of("wolman-networks", table_of("savings", columns, rows));
    let pairs = tables.iter().find(|one| one.id == "wolman-1994-table-1");
    let [row] = &pairs.unwrap().rows[..] else {
        panic!("one pair: {pairs:?}");
    };
    assert_eq!(
        row.label,
        "Saved by ATM against Ethernet, 4 B, stack-memory"
    );
    assert_eq!(row.cells[1].number(), Some(-30.0));
}

#[test]
fn copies_with_sums_are_not_compared_with_copies_alone() {
    let columns = ["Packet of 1,460 bytes", "1989, 1,460 bytes"];
    let columns = columns.map(|name| column(name, Unit::Nanoseconds));
    let copy = "User-system copy out with its sum, socket calls";
    let rows = vec![
        (copy, vec![known(300.0), published(2e5)]),
        (
            "TCP + IP + ARP protocols",
            vec![known(90.0), published(1e5)],
        ),
    ];
    let tables = tables_of(
        "clark-direct",
        table_of("costs-stack", columns.into(), rows),
    );
    let pairs = tables.iter().find(|one| one.id == "clark-1989-table-1");
    let [row] = &pairs.unwrap().rows[..] else {
        panic!("one pair: {pairs:?}");
    };
    assert_eq!(
        row.label,
        "TCP + IP + ARP protocols, packet of 1,460 bytes in Tollgate's stack"
    );
    assert!(
        refused(&tables, "clark-1989")
            .iter()
            .any(|(label, _)| *label == copy)
    );
}

#[test]
fn a_number_of_the_text_counts_once_on_however_many_paths() {
    let columns = ["unidirectional", "bidirectional"].map(|name| column(name, Unit::Percent));
    let rows = vec![("8,000 B", vec![known(100.0), known(100.0)])];
    let experiment = Experiment {
        name: "wolman-prediction".to_owned(),
        tables: vec![table_of("predicted", columns.into(), rows)],
        ..transmit()
    };
    let shown = beside(&run_of(vec![experiment]), Extent::Whole);
    let text = shown.tables.iter().find(|one| one.id == "wolman-1994");
    assert_eq!(text.unwrap().rows.len(), 2);
    assert!(shown.finding.starts_with("1 number "), "{}", shown.finding);
}

#[test]
fn loads_on_memory_are_those_of_both_ends_together() {
    let columns = ["Within the last cache", "Beyond it"].map(|name| column(name, Unit::Ratio));
    let rows = vec![("Both ends, today", vec![known(0.5), known(4.0)])];
    let tables = tables_of("foong-hz", table_of("memory-traffic", columns.into(), rows));
    let text = tables.iter().find(|one| one.id == "foong-2003").unwrap();
    let numbers = text.rows.iter().map(|row| row.cells[0].number().unwrap());
    let numbers: Vec<f64> = numbers.collect();
    // 2.5 and 2.5 within the cache; 5.6 and 4.7 beyond it.
    assert!((numbers[0] - 5.0).abs() < 1e-9 && (numbers[1] - 10.3).abs() < 1e-9);
}

#[test]
fn a_label_has_the_heading_that_it_stands_below() {
    let columns = ["Tollgate", "1989"].map(|name| column(name, Unit::Instructions));
    let cells = |then| vec![known(5.0), published(then)];
    let rows = vec![
        ("Timer", Vec::new()),
        ("set", cells(35.0)),
        ("TCP output", cells(235.0)),
    ];
    let mut table = table_of("operations", columns.into(), rows);
    table.rows[1].depth = 1;
    let tables = tables_of("clark-instructions", table);
    let pairs = tables.iter().find(|one| one.id == "clark-1989-operations");
    let labels = pairs.unwrap().rows.iter().map(|row| row.label.as_str());
    assert_eq!(
        labels.collect::<Vec<_>>(),
        [
            "Timer: set, in Tollgate's stack",
            "TCP output, in Tollgate's stack"
        ]
    );
}
