//! `clark-instructions`: the instructions of each operation on the common path of Tollgate's own stack, counted exactly by
//! Callgrind, beside the counts of Clark, Jacobson, Romkey and Salwen 1989.

use tollgate_budget::clark::{self, ClarkRow};

use super::Experiment;
use crate::context::{Context, Options};
use crate::error::Error;
use crate::published;
use crate::run::{self, Cell, Column, Row, Source, Table, TrustLine, Unit};
use crate::shapes;
use crate::words;

const TABLE: &str = "clark-1989/operations";
/// What counting takes, roughly, for the progress.
const TAKES: std::time::Duration = std::time::Duration::from_secs(5);

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
        shapes::source(TABLE)
    }

    fn summary(&self) -> &'static str {
        "instructions of each operation in Tollgate's stack, by Callgrind, beside the counts of 1989"
    }

    fn weight(&self) -> u32 {
        0
    }

    fn concerns(&self, options: &Options) -> bool {
        options.want_stack_memory()
    }

    fn run(&self, context: &mut Context<'_>) -> Result<run::Experiment, Error> {
        context.tell("counting under valgrind", TAKES);
        let counted = match &context.counter {
            Some(program) => clark::clark(program).map_err(|error| match error {
                tollgate_budget::Error::NoValgrind(_) => {
                    "valgrind is not installed; apt-get install valgrind".to_owned()
                }
                error => error.to_string(),
            }),
            None => Err("this program cannot run itself under valgrind".to_owned()),
        };
        // A signal that stops the run reaches valgrind, too.
        if counted.is_err() && context.cancel.is_raised() {
            return Err(Error::Stopped);
        }
        let command = shapes::command(self.name(), &Options::default());
        Ok(run::Experiment {
            name: self.name().to_owned(),
            title: self.title().to_owned(),
            paper: self.paper(),
            finding: finding(&counted),
            command,
            tables: vec![table(&counted)],
            figures: Vec::new(),
            trust: trust(&counted),
        })
    }
}

/// What the paper counted for one of our rows, by the row's id there; `None` where the paper has no such operation.
fn published_row(ours: &str) -> Option<&'static str> {
    Some(match ours {
        "tcp-input-receiver" => "tcp-input-receiver",
        "tcp-input-sender" => "tcp-input-sender-least",
        "tcp-output" => "tcp-output",
        "ip-input" => "ip-input",
        "ip-output" => "ip-output",
        "buffer-send" => "buffer-send",
        "buffer-receive" => "buffer-receive",
        "buffer-ack" => "buffer-ack",
        "timer-set" => "timer-set",
        "timer-clear" => "timer-clear",
        "timer-reset" => "timer-reset",
        "tcb-lookup" | "tcb-lookup-hash" => "tcb-lookup",
        _ => return None,
    })
}

fn published_count(ours: &str) -> Option<f64> {
    published::table(TABLE)?.cell(published_row(ours)?, "instructions")
}

/// The paper's rows in its order, for when nothing could be counted.
fn published_rows(reason: &str) -> Vec<Row> {
    let (Some(table), Some(source)) = (published::table(TABLE), shapes::source(TABLE)) else {
        return Vec::new();
    };
    let missing = || Cell::NotAvailable {
        reason: reason.to_owned(),
    };
    table
        .rows
        .iter()
        .map(|row| {
            let then = table.cell(&row.id, "instructions");
            let cells = vec![missing(), shapes::published_cell(then, &source), missing()];
            shapes::plain_row(row.label(), cells)
        })
        .collect()
}

fn counted_row(row: &ClarkRow, source: &Source) -> Row {
    let (then, ratio) = match published_count(&row.id) {
        Some(count) => (
            shapes::published_cell(Some(count), source),
            Cell::exact(row.instructions / count),
        ),
        None => (Cell::text("-"), Cell::text("-")),
    };
    Row {
        note: Some(row.counted.clone()),
        ..shapes::plain_row(
            row.label.clone(),
            vec![Cell::exact(row.instructions), then, ratio],
        )
    }
}

fn table(counted: &Result<Vec<ClarkRow>, String>) -> Table {
    let column = |name: &str, unit| Column {
        name: name.to_owned(),
        unit,
    };
    let rows = match (counted, shapes::source(TABLE)) {
        (Ok(rows), Some(source)) => rows.iter().map(|row| counted_row(row, &source)).collect(),
        (Err(reason), _) => published_rows(reason),
        (Ok(_), None) => Vec::new(),
    };
    Table {
        id: "operations".to_owned(),
        title: "Instructions of each operation".to_owned(),
        columns: vec![
            column("Today", Unit::Instructions),
            column("1989", Unit::Instructions),
            column("Today / 1989", Unit::Ratio),
        ],
        rows,
    }
}

fn finding(counted: &Result<Vec<ClarkRow>, String>) -> String {
    let rows = match counted {
        Ok(rows) => rows,
        Err(reason) => return format!("Nothing was counted: {reason}."),
    };
    let count = |id: &str| Some(rows.iter().find(|row| row.id == id)?.instructions);
    let told: Vec<String> = [
        ("tcp-input-receiver", "TCP input of a data segment"),
        ("tcp-input-sender", "of an acknowledgment"),
        ("tcp-output", "TCP output"),
        ("ip-input", "IP input"),
        ("tcb-lookup", "the lookup of the connection"),
    ]
    .into_iter()
    .filter_map(|(id, what)| {
        let (now, then) = (count(id)?, published_count(id)?);
        Some(format!(
            "{what} {} (Clark et al. counted {})",
            words::whole(now.round() as u64),
            words::whole(then as u64)
        ))
    })
    .collect();
    format!("Instructions today: {}.", words::list(&told))
}

fn trust(counted: &Result<Vec<ClarkRow>, String>) -> Vec<TrustLine> {
    match counted {
        Ok(_) => vec![
            shapes::note(
                "counted by Callgrind in this program, exact and the same in every run; an instruction today may do more or \
                 less than one of the 68020 class that was counted in 1989",
            ),
            shapes::note(
                "TCP and IP headers come from one template and one check covers both, so what was TCP's and IP's is cut \
                 otherwise than in 1989; what was counted stands beside each row",
            ),
        ],
        Err(reason) => vec![shapes::warning(format!("nothing was counted: {reason}"))],
    }
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
        let table = table(&counted);
        assert_eq!(table.rows[0].cells[0].number(), Some(93.0));
        assert_eq!(table.rows[0].cells[1].number(), Some(186.0));
        assert_eq!(table.rows[0].cells[2].number(), Some(0.5));
        assert_eq!(table.rows[1].cells[1], Cell::text("-"));
        assert_eq!(
            finding(&counted),
            "Instructions today: TCP input of a data segment 93 (Clark et al. counted 186)."
        );
    }

    #[test]
    fn without_counts_the_papers_stand_alone_and_the_reason_is_told() {
        let counted = Err("valgrind is not installed; apt-get install valgrind".to_owned());
        let table = table(&counted);
        assert_eq!(table.rows.len(), 13);
        assert!(
            matches!(&table.rows[0].cells[0], Cell::NotAvailable { reason } if reason.contains("apt-get"))
        );
        assert_eq!(table.rows[0].cells[1].number(), Some(186.0));
        assert!(finding(&counted).contains("apt-get install valgrind"));
        assert!(!trust(&counted)[0].holds);
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
            "tcb-lookup",
            "tcb-lookup-hash",
        ] {
            assert!(published_count(id).is_some(), "{id}");
        }
    }
}
