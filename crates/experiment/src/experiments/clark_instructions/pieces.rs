//! TCP input piece by piece, the costliest path as a sum, and the worth of a header template, beside Clark et al. 1989, "A First Case
//! Study", "Some Speed Predictions" and "An Optimization Example".
//!
//! Pieces are told by function, so each instruction is in one of them and together they are the whole. It never splits what the
//! compiler has made one.

use tollgate_budget::clark::{self, ClarkRow, PIECES};
use tollgate_papers as papers;
use tollgate_run::{Cell, Column, Row, RowKind, Table, Unit, present};

use crate::claim::{Evidence, Finding};

/// The paper's table of TCP input by its parts.
const INPUT: &str = "clark-1989/tcp-input";
/// The paper's sum over the path of a packet with control information.
const PATH: &str = "clark-1989/costliest-path";
/// Pieces of ours that the paper counts in other layers.
const ELSEWHERE: [&str; 2] = ["buffers", "timers"];

fn column(name: &str) -> Column {
    Column {
        name: name.to_owned(),
        unit: Unit::Instructions,
    }
}

/// The paper's number in a cell; a dash where it has none.
fn published(table: &str, row: &str, column: &str) -> Cell {
    let value = papers::table(table).and_then(|table| table.cell(row, column));
    match value.zip(papers::source(table)) {
        Some((value, source)) => present::published_cell(Some(value), &source),
        None => Cell::text("-"),
    }
}

fn counted(rows: &[ClarkRow], end: &str, piece: &str) -> Option<f64> {
    clark::piece(rows, end, piece).map(|row| row.instructions)
}

/// The sum of an end's pieces for which `is_it` says yes; `None` when one of them was not counted.
fn sum(rows: &[ClarkRow], end: &str, is_it: impl Fn(&str) -> bool) -> Option<f64> {
    let pieces = PIECES.iter().filter(|(piece, _)| is_it(piece));
    pieces.map(|(piece, _)| counted(rows, end, piece)).sum()
}

fn cell(value: Option<f64>) -> Cell {
    value.map_or_else(
        || Cell::NotAvailable {
            reason: "it was not counted".to_owned(),
        },
        Cell::exact,
    )
}

/// TCP input of both ends by its pieces; `None` where none was counted.
pub(super) fn input(rows: &[ClarkRow]) -> Option<Table> {
    rows.iter().find(|row| clark::is_piece(row))?;
    let row = |label: &str, theirs: Option<&str>, ours: [Cell; 2]| {
        let then = |column| theirs.map_or(Cell::text("-"), |row| published(INPUT, row, column));
        let [receiver, sender] = ours;
        let cells = vec![
            receiver,
            then("receiver"),
            sender,
            then("sender-least"),
            then("sender-most"),
        ];
        present::plain_row(label, cells)
    };
    let mut shown: Vec<Row> = Vec::new();
    for (piece, label) in PIECES {
        let ours = ["receiver", "sender"].map(|end| cell(counted(rows, end, piece)));
        let elsewhere = ELSEWHERE.contains(&piece);
        let note = match piece {
            "common" => Some("what is no other piece: checks, prediction, the turn of poll()"),
            "rtt" => Some("in 1989 44 for every other packet, so 22 for each"),
            _ if elsewhere => Some("in 1989 counted apart from TCP: see the operations"),
            _ => None,
        };
        shown.push(Row {
            note: note.map(str::to_owned),
            ..row(label, (!elsewhere).then_some(piece), ours)
        });
        if piece == "common" {
            let reason = "the path is compiled into poll() and has no entry of its own";
            let missing = || Cell::NotAvailable {
                reason: reason.to_owned(),
            };
            shown.push(row(
                "  of which entry and exit",
                Some("entry"),
                [missing(), missing()],
            ));
        }
    }
    shown.push(Row {
        kind: RowKind::Total,
        ..row(
            "Total",
            Some("total"),
            ["receiver", "sender"].map(|end| cell(sum(rows, end, |_| true))),
        )
    });
    Some(Table {
        id: "tcp-input".to_owned(),
        title: "TCP input by its pieces".to_owned(),
        columns: vec![
            column("Receiver of data"),
            column("Receiver, 1989"),
            column("Sender of data"),
            column("Sender, least, 1989"),
            column("Sender, most, 1989"),
        ],
        rows: shown,
    })
}

/// Our parts of the costliest path: the paper's row, and the count.
fn path(rows: &[ClarkRow]) -> Vec<(&'static str, &'static str, Option<f64>)> {
    let whole = |id: &str| {
        let row = rows.iter().find(|row| row.id == id);
        row.map(|row| row.instructions)
    };
    vec![
        (
            "tcp-input",
            "TCP input, sender of data",
            sum(rows, "sender", |piece| !ELSEWHERE.contains(&piece)),
        ),
        ("ip-input", "IP, packet receipt", whole("ip-input")),
        (
            "tcb-lookup",
            "TCB lookup by the hash",
            whole("tcb-lookup-hash"),
        ),
        (
            "buffer-ack",
            "Buffers, acknowledgment",
            counted(rows, "sender", "buffers"),
        ),
        ("timer-reset", "Timers", counted(rows, "sender", "timers")),
    ]
}

/// Receiving a packet with control information, all layers together; `None` where pieces were not counted.
pub(super) fn costliest(rows: &[ClarkRow]) -> Option<Table> {
    rows.iter().find(|row| clark::is_piece(row))?;
    let parts = path(rows);
    let row = |label: &str, theirs: &str, ours: Option<f64>| {
        let then = ["least", "most"].map(|column| published(PATH, theirs, column));
        let cells = [cell(ours)].into_iter().chain(then).collect();
        present::plain_row(label, cells)
    };
    let total = parts.iter().map(|(.., ours)| *ours).sum();
    let mut shown: Vec<Row> = parts
        .iter()
        .map(|(theirs, label, ours)| row(label, theirs, *ours))
        .collect();
    shown.push(Row {
        kind: RowKind::Total,
        note: Some(
            "the paper prints about 335 and not which of its counts it added: those that it names make 344 or 366".to_owned(),
        ),
        ..row("Total", "total", total)
    });
    Some(Table {
        id: "costliest-path".to_owned(),
        title: "Receiving a packet with control information".to_owned(),
        columns: vec![
            column("Tollgate"),
            column("1989, with TCP's 191"),
            column("1989, with TCP's 213"),
        ],
        rows: shown,
    })
}

/// Instructions of TCP output that a header template saves.
pub(super) fn template_saves(rows: &[ClarkRow]) -> Option<f64> {
    let of = |id: &str| {
        let row = rows.iter().find(|row| row.id == id);
        row.map(|row| row.instructions)
    };
    Some(of("tcp-output-untemplated")? - of("tcp-output")?)
}

/// The sum and the template in words.
pub(super) fn say(rows: &[ClarkRow], finding: &mut Finding) {
    let total: Option<f64> = path(rows).into_iter().map(|(.., ours)| ours).sum();
    let claim = |finding: &mut Finding, what: &str, value: Option<f64>| {
        finding.claim(what, Evidence::exact(value?).amount())
    };
    if let Some(total) = claim(finding, "the costliest path", total) {
        finding.say(format!(
            "receiving a packet with control information takes {} in all (Clark et al. about 335)",
            total.count()
        ));
    }
    if let Some(saved) = claim(finding, "what a template saves", template_saves(rows)) {
        finding.say(format!(
            "a header template, with the predicted output that rests on it, saves {} instructions of TCP output",
            saved.count()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<ClarkRow> {
        let row = |id: String, instructions| ClarkRow {
            id,
            label: String::new(),
            instructions,
            counted: String::new(),
        };
        let pieces = ["receiver", "sender"].into_iter().flat_map(|end| {
            (PIECES.into_iter().zip(1..))
                .map(move |((piece, _), n)| row(format!("{end}-{piece}"), f64::from(n)))
        });
        let others = [
            ("ip-input", 20.0),
            ("tcb-lookup-hash", 30.0),
            ("tcp-output", 160.0),
            ("tcp-output-untemplated", 210.0),
        ];
        pieces
            .chain(others.map(|(id, count)| row(id.to_owned(), count)))
            .collect()
    }

    fn numbers(table: &Table, label: &str) -> Vec<Option<f64>> {
        let row = table.rows.iter().find(|row| row.label == label).unwrap();
        row.cells.iter().map(Cell::number).collect()
    }

    #[test]
    fn pieces_stand_beside_the_papers_and_make_the_whole() {
        let table = input(&rows()).unwrap();
        let common = numbers(&table, "Common path");
        let published = Some(154.0);
        assert_eq!(
            common,
            [Some(1.0), published, Some(1.0), published, published]
        );
        assert_eq!(
            numbers(&table, "Acknowledgment"),
            [Some(3.0), None, Some(3.0), Some(9.0), Some(9.0)]
        );
        assert_eq!(numbers(&table, "Buffers")[1..2], [None]);
        assert_eq!(
            numbers(&table, "Total"),
            [
                Some(36.0),
                Some(186.0),
                Some(36.0),
                Some(191.0),
                Some(213.0)
            ]
        );
        assert!(input(&[]).is_none() && costliest(&[]).is_none());
    }

    #[test]
    fn nothing_is_counted_twice_on_the_costliest_path() {
        let table = costliest(&rows()).unwrap();
        // TCP without its buffers (7) and timers (8), IP, the lookup, and those two.
        assert_eq!(numbers(&table, "TCP input, sender of data")[0], Some(21.0));
        assert_eq!(
            numbers(&table, "Total"),
            [Some(86.0), Some(335.0), Some(335.0)]
        );
        let mut finding = Finding::default();
        say(&rows(), &mut finding);
        assert_eq!(
            finding.finish(),
            "Receiving a packet with control information takes 86 in all (Clark et al. about 335). A header template, with the predicted \
             output that rests on it, saves 50 instructions of TCP output."
        );
    }

    #[test]
    fn pieces_and_the_costliest_path_are_set_beside_the_papers() {
        use tollgate_analysis::papers::{Extent, beside};
        let shown = tollgate_run::Experiment {
            name: "clark-instructions".to_owned(),
            title: String::new(),
            paper: None,
            finding: String::new(),
            command: String::new(),
            tables: [input(&rows()), costliest(&rows())]
                .into_iter()
                .flatten()
                .collect(),
            figures: Vec::new(),
            trust: Vec::new(),
        };
        let run = tollgate_run::fixture::run_of(vec![shown]);
        let beside = beside(&run, Extent::Whole);
        let count = |id: &str| {
            let table = beside.tables.iter().find(|table| table.id == id);
            table.map(|table| table.rows.len())
        };
        // Three pieces of the receiver and five of the sender; the sum of the path with its five parts.
        assert_eq!(count("clark-1989-tcp-input"), Some(8));
        assert_eq!(count("clark-1989-costliest-path"), Some(6));
    }

    #[test]
    fn what_was_not_counted_makes_no_sum() {
        let mut some = rows();
        some.retain(|row| row.id != "sender-timers" && row.id != "tcp-output");
        let table = costliest(&some).unwrap();
        assert_eq!(numbers(&table, "Total")[0], None);
        assert_eq!(template_saves(&some), None);
    }
}
