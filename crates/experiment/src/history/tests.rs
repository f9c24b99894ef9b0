//! That no published row is passed over, and what is paired with what.

use super::*;
use crate::experiments;
use crate::run::{Clock, Host, Schema, Source, Tool};

fn run(experiments: Vec<Experiment>) -> Run {
    Run {
        schema: Schema::TollgateRun,
        version: 1,
        tool: Tool {
            name: "tollgate".to_owned(),
            version: "0.1.0".to_owned(),
            git: None,
        },
        started: std::time::SystemTime::UNIX_EPOCH.into(),
        elapsed_s: 1.0,
        command: String::new(),
        quick: false,
        host: Host::read_from(std::path::Path::new("no such tree")),
        far: None,
        clock: Clock {
            source: "tsc".to_owned(),
            hz: 1e9,
            read_cost_ns: 10.0,
            resolution_ns: 1.0,
        },
        experiments,
        warnings: Vec::new(),
    }
}

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
                        Cell::exact(45.2),
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
    for table in published::all().iter().flat_map(|paper| &paper.tables) {
        assert!(
            counterparts::TABLES.iter().any(|(id, _)| *id == table.id),
            "{} is not listed",
            table.id
        );
    }
    for (id, counterpart) in counterparts::TABLES {
        assert!(published::table(id).is_some(), "{id} is not published");
        if let Counterpart::Shown { by, .. } = counterpart {
            assert!(experiments::find(by).is_some(), "{by}");
        }
    }
}

#[test]
fn every_published_row_is_told_or_says_why_not() {
    let empty = history(&run(Vec::new()));
    let rows: usize = published::all()
        .iter()
        .flat_map(|paper| &paper.tables)
        .map(|table| table.rows.len())
        .sum();
    let silent = empty
        .tables
        .iter()
        .flat_map(|table| &table.rows)
        .filter(|row| matches!(row.cells[..], [Cell::NotAvailable { .. }]))
        .count();
    assert_eq!(silent, rows);
    assert!(run(vec![empty]).check().is_ok());
}

#[test]
fn shares_are_compared_where_a_paper_gives_them() {
    let told = history(&run(vec![transmit()]));
    let table = told
        .tables
        .iter()
        .find(|one| one.id == "wolman-1994-table-2")
        .unwrap();
    assert_eq!(table.rows.len(), 1, "{table:?}");
    assert_eq!(table.rows[0].label, "User, kernel-loopback");
    assert_eq!(table.columns[1].unit, Unit::Percent);
    assert_eq!(table.rows[0].cells[2].number(), Some(2.0));
    assert!(
        told.finding.contains("User, kernel-loopback"),
        "{}",
        told.finding
    );
    assert!(
        told.finding.contains("takes 45.2 % and took 22.6 %"),
        "{}",
        told.finding
    );
    assert!(run(vec![told]).check().is_ok());
}
