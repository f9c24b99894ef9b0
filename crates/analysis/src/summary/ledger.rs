//! One table of a whole round trip: the spans of both directions, what they leave open, and the round trip without gates, for each
//! path of the anatomy.
//!
//! It reads the tables of `wolman-transmit` and `wolman-receive`, which tell spans for one message. Rows add up from top to bottom;
//! it must never leave out a span.

use tollgate_run::{
    Cell, Column, Interval, Measured, Row, RowKind, Run, Table, Unit, format, present,
};

use super::anatomy::{self, Anatomy, MESSAGES};

/// A ledger of the run: its closure at the size of the anatomy, and its spans by direction.
struct Ledger<'a> {
    label: &'a str,
    closure: &'a [Row],
    directions: [&'a Table; 2],
}

/// Headings of the two directions, each with the label of its sum.
const DIRECTIONS: [(&str, &str); 2] = [
    ("transmit: from send() to the driver", "transmit"),
    ("receive: from the driver to the next send()", "receive"),
];

/// The table; none where the run has no ledger.
#[must_use]
pub fn ledger(run: &Run, anatomy: &Anatomy) -> Option<Table> {
    let experiment = |name: &str| run.experiments.iter().find(|one| one.name == name);
    let both = [
        experiment("wolman-transmit")?,
        experiment("wolman-receive")?,
    ];
    let closure = both[1].tables.iter().find(|table| table.id == "closure")?;
    let at = anatomy::column(closure, anatomy.size)?;
    let shown = |label: &str| {
        anatomy.round_trips.iter().any(|one| {
            !one.stretches.is_empty() && label == format!("{}, {}", one.path, one.mode.words())
        })
    };
    let mut ledgers: Vec<Ledger<'_>> = anatomy::ledgers(closure)
        .filter(|(label, _)| shown(label))
        .filter_map(|(label, closure)| {
            let title = anatomy::spans_title(label);
            let table = |one: usize| both[one].tables.iter().find(|table| table.title == title);
            Some(Ledger {
                label,
                closure,
                directions: [table(0)?, table(1)?],
            })
        })
        .collect();
    let place = |label: &str| {
        let mut all = anatomy.round_trips.iter();
        all.position(|one| label == format!("{}, {}", one.path, one.mode.words()))
    };
    ledgers.sort_by_key(|one| place(one.label));
    let mut rows = Vec::new();
    for (direction, (heading, name)) in DIRECTIONS.into_iter().enumerate() {
        rows.push(present::plain_row(heading, Vec::new()));
        rows.extend(spans(&ledgers, direction, at));
        let sums = ledgers.iter().map(|one| sum(one.directions[direction], at));
        rows.push(Row {
            kind: RowKind::Total,
            ..present::plain_row(format!("{name}, all spans"), sums.collect())
        });
    }
    rows.push(present::plain_row("both directions", Vec::new()));
    let of = |is_it: &dyn Fn(&Row) -> bool| -> Vec<Cell> {
        let cell = |one: &Ledger<'_>| {
            one.closure
                .iter()
                .find(|row| is_it(row))?
                .cells
                .get(at)
                .cloned()
        };
        ledgers
            .iter()
            .map(|one| cell(one).unwrap_or_else(none))
            .collect()
    };
    let closing = |label: &str, kind, note: &str, cells| Row {
        depth: 1,
        kind,
        note: (!note.is_empty()).then(|| note.to_owned()),
        ..present::plain_row(label, cells)
    };
    rows.push(closing(
        "sum of the spans",
        RowKind::Plain,
        "",
        of(&|row| row.label == anatomy::SUM),
    ));
    let disabled = of(&|row| anatomy::is_disabled_gates(row));
    if disabled.iter().any(|cell| cell.number().is_some()) {
        let note =
            "to subtract: the spans include code of gates that are off, the round trip does not";
        rows.push(closing("disabled gates", RowKind::Plain, note, disabled));
    }
    let note = "to add: in no span; below zero where the spans sum to more";
    rows.push(closing(
        "left open",
        RowKind::Unattributed,
        note,
        of(&|row| row.kind == RowKind::Unattributed),
    ));
    rows.push(closing(
        "round trip without gates",
        RowKind::Total,
        "",
        of(&|row| row.kind == RowKind::Total),
    ));
    let verdict = |row: &Row| matches!(row.cells.get(at), Some(Cell::Text { .. }));
    rows.push(closing("verdict", RowKind::Plain, "", of(&verdict)));
    let columns = ledgers.iter().map(|one| Column {
        name: one.label.to_owned(),
        unit: Unit::Nanoseconds,
    });
    (!ledgers.is_empty()).then(|| Table {
        id: "both-directions".to_owned(),
        title: format!(
            "Both directions of a round trip of {}, there and back",
            format::bytes(anatomy.size)
        ),
        columns: columns.collect(),
        rows,
    })
}

fn none() -> Cell {
    Cell::text("-")
}

/// The spans of a direction in the order of the way: those of the first ledger, and behind its neighbour each that others have.
fn spans(ledgers: &[Ledger<'_>], direction: usize, at: usize) -> Vec<Row> {
    let mut order: Vec<&Row> = Vec::new();
    for ledger in ledgers {
        let mut place = 0;
        for row in &ledger.directions[direction].rows {
            match order.iter().position(|known| is_same(known, row)) {
                Some(known) => place = known + 1,
                None => {
                    order.insert(place, row);
                    place += 1;
                }
            }
        }
    }
    let row = |span: &&Row| {
        let cell = |one: &Ledger<'_>| {
            let mut rows = one.directions[direction].rows.iter();
            rows.find(|row| is_same(row, span))?
                .cells
                .get(at)
                .map(both_messages)
        };
        Row {
            label: span.label.clone(),
            depth: span.depth + 1,
            kind: span.kind,
            layer: span.layer,
            note: None,
            cells: ledgers
                .iter()
                .map(|one| cell(one).unwrap_or_else(none))
                .collect(),
        }
    };
    order.iter().map(row).collect()
}

fn is_same(one: &Row, other: &Row) -> bool {
    (&one.label, one.depth) == (&other.label, other.depth)
}

/// A cell of one message for the two of a round trip.
fn both_messages(cell: &Cell) -> Cell {
    match cell {
        Cell::Value(measured) => Cell::Value(Measured {
            value: MESSAGES * measured.value,
            ci: measured.ci.map(|ci| Interval {
                low: MESSAGES * ci.low,
                high: MESSAGES * ci.high,
            }),
            n: measured.n,
            ..Measured::default()
        }),
        other => other.clone(),
    }
}

/// The sum of a direction. Its interval is as wide as those of its spans together, which holds whatever they share.
fn sum(table: &Table, at: usize) -> Cell {
    let spans: Vec<&Measured> = table
        .rows
        .iter()
        .filter_map(|row| row.cells.get(at)?.measured())
        .collect();
    if spans.is_empty() {
        return none();
    }
    let total =
        |of: &dyn Fn(&Measured) -> f64| MESSAGES * spans.iter().map(|one| of(one)).sum::<f64>();
    let end = |of: fn(Interval) -> f64| total(&|one| one.ci.map_or(one.value, of));
    Cell::Value(Measured {
        value: total(&|one| one.value),
        ci: Some(Interval {
            low: end(|ci| ci.low),
            high: end(|ci| ci.high),
        }),
        ..Measured::default()
    })
}
