//! Tests that no published row is passed over, and of what is paired with what.

use tollgate_papers as papers;
use tollgate_run::{Interval, Source, fixture::run_of};

use super::*;

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
    let in_tables: usize = papers::all()
        .iter()
        .flat_map(|paper| &paper.tables)
        .map(|table| table.rows.len())
        .sum();
    let in_text = published::ALL.iter().filter(|row| !row.of.contains('/'));
    let rows = in_tables + in_text.count();
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
