//! `clark-instructions`: the instructions of each operation on the common path of Tollgate's own stack, counted exactly by
//! Callgrind, and of a stock Linux kernel, counted exactly in QEMU when somebody did that, beside the counts of Clark,
//! Jacobson, Romkey and Salwen 1989.

use std::time::Duration;

use tollgate_budget::clark::{self, ClarkRow};
use tollgate_papers as papers;
use tollgate_qemu::counts::Counts;
use tollgate_run::{Cell, Column, Row, Source, Table, TrustLine, Unit, format, present};

use super::{Content, Experiment, Reported, Uses};
use crate::claim::{Evidence, Finding, FindingText, Refusal};
use crate::context::{Context, Options};
use crate::counting;
use crate::error::Error;
use crate::layout;

mod bars;
mod linux;
mod pieces;

const TABLE: &str = "clark-1989/operations";
/// Usual duration of counting, for the progress.
const TAKES: Duration = Duration::from_secs(5);

/// Instructions per operation.
pub(super) struct ClarkInstructions;

impl Experiment for ClarkInstructions {
    fn name(&self) -> &'static str {
        "clark-instructions"
    }

    fn title(&self) -> &'static str {
        "Instructions on the common path"
    }

    fn paper(&self) -> Option<Source> {
        papers::source(TABLE)
    }

    fn summary(&self) -> &'static str {
        "instructions of each operation in Tollgate's stack and in Linux, beside the counts of 1989"
    }

    fn reported(&self) -> Reported {
        Reported::Full
    }

    fn mechanisms(&self) -> Uses {
        Uses::Own("counts the instructions of the default mechanisms, which have budgets")
    }

    fn weight(&self) -> u32 {
        0
    }

    fn concerns(&self, options: &Options) -> bool {
        options.want_stack_memory()
    }

    /// It counts the same whatever the options are.
    fn command(&self, _: &Options) -> String {
        layout::command(self.name(), &Options::default())
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        context.tell("counting under valgrind", TAKES);
        let counted = counting::counted(self.name(), context, context.remaining(), clark::clark)?;
        let linux = context.linux_counts.as_ref();
        let mut tables = vec![table(&counted, linux)];
        if let Ok(rows) = &counted {
            tables.extend(pieces::input(rows));
            tables.extend(pieces::costliest(rows));
        }
        tables.extend(linux.map(linux::table));
        Ok(Content {
            finding: finding(&counted, linux),
            figures: [bars::figure(&counted, linux, command)]
                .into_iter()
                .chain(linux.map(|counts| linux::figure(counts, "make qemu")))
                .collect(),
            tables,
            trust: trust(&counted, linux),
        })
    }
}

/// The rows of ours that the paper has under the same id.
const OURS: [&str; 10] = [
    "tcp-input-receiver",
    "tcp-output",
    "ip-input",
    "ip-output",
    "buffer-send",
    "buffer-receive",
    "buffer-ack",
    "timer-set",
    "timer-clear",
    "timer-reset",
];

/// The paper's row for one of ours, by the row's id there; `None` where the paper has no such operation.
fn published_row(ours: &str) -> Option<&str> {
    Some(match ours {
        // Each acknowledgment has a timestamp here, so each gives an estimate of the round trip. The larger count holds half of one: in
        // 1989 every other packet brought one.
        "tcp-input-sender" => "tcp-input-sender-most",
        // The paper has no count where the connection is that of the last packet, and estimates the hash.
        "tcb-lookup-hash" => "tcb-lookup",
        id => OURS.iter().copied().find(|ours| *ours == id)?,
    })
}

fn published_count(ours: &str) -> Option<f64> {
    papers::table(TABLE)?.cell(published_row(ours)?, "instructions")
}

/// The paper's rows in its order, for when our stack could not be counted: the label, and the ids there and here.
fn published_rows() -> Vec<(String, String, &'static str)> {
    let rows = papers::table(TABLE).map_or(&[][..], |table| &table.rows);
    rows.iter()
        .map(|row| {
            let ours = match row.id.as_str() {
                "tcp-input-sender-most" => "tcp-input-sender",
                "tcb-lookup" => "tcb-lookup-hash",
                id => OURS
                    .iter()
                    .copied()
                    .find(|ours| *ours == id)
                    .unwrap_or_default(),
            };
            (row.label().to_owned(), row.id.clone(), ours)
        })
        .collect()
}

/// The published number, and the quotients of today's numbers by it.
fn published_and_ratios(published: Option<f64>, today: &[&Cell], source: &Source) -> Vec<Cell> {
    let Some(published) = published else {
        return vec![Cell::text("-"); 1 + today.len()];
    };
    let mut cells = vec![present::published_cell(Some(published), source)];
    cells.extend(today.iter().map(|cell| match cell.number() {
        Some(now) => Cell::exact(now / published),
        None => (*cell).clone(),
    }));
    cells
}

/// The cell of an operation of Linux.
fn linux_cell(counts: &Counts, ours: &str) -> Cell {
    match linux::operation(counts, ours) {
        Some(operation) => Cell::exact(operation.each()),
        None => Cell::NotAvailable {
            reason: linux::missing(ours).to_owned(),
        },
    }
}

/// A row of the operations: our stack, Linux when it was counted, the paper, and the quotients by it.
fn operation_row(
    label: String,
    today: Cell,
    ours: &str,
    published: Option<f64>,
    linux: Option<&Counts>,
    source: &Source,
) -> Row {
    let linux = linux.map(|counts| linux_cell(counts, ours));
    let now: Vec<&Cell> = [&today].into_iter().chain(&linux).collect();
    let published = published_and_ratios(published, &now, source);
    let cells = now.into_iter().cloned().chain(published).collect();
    present::plain_row(label, cells)
}

fn table(counted: &Result<Vec<ClarkRow>, String>, linux: Option<&Counts>) -> Table {
    let column = |name: &str, unit| Column {
        name: name.to_owned(),
        unit,
    };
    let mut columns = vec![column("Tollgate", Unit::Instructions)];
    columns.extend(linux.map(|_| column("Linux", Unit::Instructions)));
    columns.push(column("1989", Unit::Instructions));
    columns.push(column("Tollgate / 1989", Unit::Ratio));
    columns.extend(linux.map(|_| column("Linux / 1989", Unit::Ratio)));
    let rows = match (counted, papers::source(TABLE)) {
        (Ok(rows), Some(source)) => rows
            .iter()
            .filter(|row| !clark::is_piece(row))
            .map(|row| {
                let published = published_count(&row.id);
                let today = Cell::exact(row.instructions);
                let shown =
                    operation_row(row.label.clone(), today, &row.id, published, linux, &source);
                let there = linux.and_then(|counts| linux::operation(counts, &row.id));
                let note = match there {
                    Some(operation) => format!("{}; Linux: {}", row.counted, operation.counted),
                    None => row.counted.clone(),
                };
                Row {
                    note: Some(note),
                    ..shown
                }
            })
            .chain(pieces::template_saves(rows).map(|saved| {
                let label = "What the template saves of TCP output".to_owned();
                Row {
                    note: Some(
                        "TCP output without a template less that with one; predicted output writes from the template, so both go together; the paper \
                         prints no count of it"
                            .to_owned(),
                    ),
                    ..operation_row(label, Cell::exact(saved), "template", None, linux, &source)
                }
            }))
            .collect(),
        (Err(reason), Some(source)) => published_rows()
            .into_iter()
            .map(|(label, theirs, ours)| {
                let published =
                    papers::table(TABLE).and_then(|table| table.cell(&theirs, "instructions"));
                let missing = Cell::NotAvailable {
                    reason: reason.clone(),
                };
                operation_row(label, missing, ours, published, linux, &source)
            })
            .collect(),
        (_, None) => Vec::new(),
    };
    Table {
        id: "operations".to_owned(),
        title: "Instructions of each operation".to_owned(),
        columns,
        rows,
    }
}

/// The operations that the finding tells of.
const STATED: [(&str, &str); 5] = [
    ("tcp-input-receiver", "TCP input of a data segment"),
    ("tcp-input-sender", "of an acknowledgment"),
    ("tcp-output", "TCP output"),
    ("ip-input", "IP input"),
    ("tcb-lookup-hash", "the lookup of the connection"),
];

fn finding(counted: &Result<Vec<ClarkRow>, String>, linux: Option<&Counts>) -> FindingText {
    let mut finding = Finding::default();
    let ours = |id: &str| match counted {
        Ok(rows) => {
            let row = rows.iter().find(|row| row.id == id);
            row.map(|row| Evidence::exact(row.instructions).amount())
        }
        Err(reason) => Some(Err(Refusal::NotMeasured(reason.clone()))),
    };
    let told = STATED.into_iter().filter_map(|(id, what)| {
        let published = format::whole(published_count(id)? as u64);
        let ours =
            ours(id).and_then(|ours| finding.claim("the instructions of Tollgate's stack", ours));
        let there = linux.and_then(|counts| linux::operation(counts, id));
        let there = there.map(|there| Evidence::exact(there.each()).amount());
        let there = there.and_then(|there| finding.claim("those of Linux", there));
        let counts = [
            ours.map(|ours| ours.count()),
            there.map(|there| format!("in Linux {}", there.count())),
        ];
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        (!counts.is_empty()).then(|| {
            format!(
                "{what} {} (Clark et al. {} {published})",
                counts.join(", "),
                if id == "tcb-lookup-hash" {
                    "estimated"
                } else {
                    "counted"
                }
            )
        })
    });
    let told: Vec<String> = told.collect();
    if !told.is_empty() {
        finding.say(format!("instructions today: {}", format::list(&told)));
    }
    if let Ok(rows) = counted {
        pieces::say(rows, &mut finding);
    }
    if let Some(counts) = linux {
        linux::say(counts, &mut finding);
    }
    finding.finish()
}

fn trust(counted: &Result<Vec<ClarkRow>, String>, linux: Option<&Counts>) -> Vec<TrustLine> {
    let mut lines = match counted {
        Ok(_) => vec![
            present::note(
                "Tollgate's stack is counted by Callgrind in this program, exact and the same in every run; an instruction \
                 today may do more or less than one of the Intel 80386 that was counted in 1989",
            ),
            present::note(
                "each acknowledgment brings an estimate of the round trip here; in 1989 every other packet did, so the 213 instructions of the \
                 sender hold half of one, 22 of 44",
            ),
            present::note(
                "TCP and IP headers come from one template and one check covers both, so what was TCP's and IP's is cut \
                 otherwise than in 1989; what was counted stands beside each row",
            ),
        ],
        Err(reason) => vec![present::warning(format!(
            "Tollgate's stack was not counted: {reason}"
        ))],
    };
    match linux {
        Some(counts) => lines.extend(linux::trust(counts)),
        None => lines.push(present::note(
            "a stock Linux kernel's instructions are counted by make qemu, and shown here with --linux-counts FILE",
        )),
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, instructions: f64) -> ClarkRow {
        ClarkRow {
            id: id.to_owned(),
            label: format!("label of {id}"),
            instructions,
            counted: "from here to there".to_owned(),
        }
    }

    #[test]
    fn counts_stand_beside_the_papers() {
        let counted = Ok(vec![
            row("tcp-input-receiver", 93.0),
            row("wheel-insert", 20.0),
        ]);
        let table = table(&counted, None);
        assert_eq!(table.rows[0].cells[0].number(), Some(93.0));
        assert_eq!(table.rows[0].cells[1].number(), Some(186.0));
        assert_eq!(table.rows[0].cells[2].number(), Some(0.5));
        assert_eq!(table.rows[1].cells[1], Cell::text("-"));
        assert_eq!(
            finding(&counted, None),
            "Instructions today: TCP input of a data segment 93 (Clark et al. counted 186)."
        );
    }

    #[test]
    fn without_counts_the_papers_stand_alone_and_the_reason_is_told() {
        let counted = Err("valgrind is not installed; apt-get install valgrind".to_owned());
        let table = table(&counted, None);
        assert_eq!(table.rows.len(), 13);
        assert!(
            matches!(&table.rows[0].cells[0], Cell::NotAvailable { reason } if reason.contains("apt-get"))
        );
        assert_eq!(table.rows[0].cells[1].number(), Some(186.0));
        assert!(finding(&counted, None).contains("apt-get install valgrind"));
        assert!(!trust(&counted, None)[0].holds);
    }

    #[test]
    fn linux_stands_between_our_stack_and_the_paper() {
        let counted = Ok(vec![
            row("tcp-input-receiver", 93.0),
            row("timer-clear", 4.0),
        ]);
        let linux = linux::tests::sample();
        let shown = table(&counted, Some(&linux));
        let names: Vec<&str> = shown
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "Tollgate",
                "Linux",
                "1989",
                "Tollgate / 1989",
                "Linux / 1989"
            ]
        );
        let numbers: Vec<_> = shown.rows[0]
            .cells
            .iter()
            .map(|cell| cell.number().unwrap())
            .collect();
        assert_eq!(numbers[..4], [93.0, 1_173.0, 186.0, 0.5]);
        assert!(
            shown.rows[0]
                .note
                .as_ref()
                .unwrap()
                .ends_with("; Linux: from here to there")
        );
        assert!(
            matches!(&shown.rows[1].cells[1], Cell::NotAvailable { reason } if reason.contains("run out"))
        );
        assert!(matches!(&shown.rows[1].cells[4], Cell::NotAvailable { .. }));
        assert!(
            finding(&counted, Some(&linux))
                .starts_with("Instructions today: TCP input of a data segment 93, in Linux 1,173 (Clark et al. counted 186). A 4-byte")
        );
        let alone = table(&Err("no valgrind".to_owned()), Some(&linux));
        assert_eq!(alone.rows.len(), 13);
        assert_eq!(alone.rows[0].cells[1].number(), Some(1_173.0));
        assert_eq!(alone.rows[0].cells[2].number(), Some(186.0));
    }

    #[test]
    fn every_published_row_exists() {
        for id in [
            "tcp-input-receiver",
            "tcp-input-sender",
            "tcp-output",
            "ip-input",
            "ip-output",
            "buffer-send",
            "buffer-receive",
            "buffer-ack",
            "timer-set",
            "timer-clear",
            "timer-reset",
            "tcb-lookup-hash",
        ] {
            assert!(published_count(id).is_some(), "{id}");
        }
        // The paper says that a cache of one connection takes very few instructions, and not how many.
        assert!(published_count("tcb-lookup").is_none());
    }
}
