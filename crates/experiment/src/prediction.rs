//! Input prediction as the stack counts it: which share of the segments was predicted, and the reasons of the others.
//!
//! It owns the counts of a session that nobody times, the table of those of an interleaved run, path by path and end by end, and
//! what a share looks like. The stacks keep these counts anyway, so they are exact. It must never count what opened a session.

use tollgate_run::{Cell, Measured, Row, RowKind, Table, Unit, present};
use tollgate_workload::counters::{HandshakeMiss, Miss};
use tollgate_workload::{InputCounts, Path, Spec};

use crate::outcome::Outcome;

/// The names of the two ends, the timed one's first.
const ENDS: [&str; 2] = ["client", "server"];

/// Iterations before a session is counted.
const WARM_UP: u64 = 64;

/// Runs so many iterations of a session and counts the segments of both ends; those before the first slice are not counted.
///
/// # Errors
/// Errors of the path.
pub(crate) fn count(
    path: &dyn Path,
    spec: &Spec,
    iterations: u64,
) -> Result<InputCounts, tollgate_workload::Error> {
    let mut session = path.open(spec)?;
    // Windows open, and the first round trips are measured.
    session.run(WARM_UP, &mut session.new_samples())?;
    let before = session.input_counts().unwrap_or_default();
    session.run(iterations, &mut session.new_samples())?;
    let after = session.input_counts().unwrap_or_default();
    let mut all = InputCounts::default();
    for (before, after) in before.iter().zip(&after) {
        all.add(&after.since(before));
    }
    Ok(all)
}

/// A share of the segments, in percent; exact.
pub(crate) fn share(counts: &InputCounts, part: u64) -> Cell {
    match counts.segments() {
        0 => Cell::NotAvailable {
            reason: "no segment arrived".to_owned(),
        },
        segments => Cell::Value(Measured {
            value: 100.0 * part as f64 / segments as f64,
            n: Some(segments),
            ..Measured::default()
        }),
    }
}

/// Makes the table, in hundredths of the segments of each end at each size; none where Tollgate's stack took none in.
pub(crate) fn table(outcome: &Outcome) -> Option<Table> {
    let mut rows = Vec::new();
    for (variant, sizes) in outcome.measurements.iter().enumerate() {
        if sizes.iter().all(|one| one.input.is_none()) {
            continue;
        }
        rows.push(present::plain_row(
            outcome.matrix.variants[variant].label(),
            Vec::new(),
        ));
        for (end, name) in ENDS.iter().enumerate() {
            let counts: Vec<InputCounts> = sizes
                .iter()
                .map(|one| {
                    one.input
                        .map_or_else(InputCounts::default, |both| both[end])
                })
                .collect();
            rows.extend(end_rows(name, &counts));
        }
    }
    (!rows.is_empty()).then(|| Table {
        id: "prediction".to_owned(),
        title: "Input prediction: predicted segments, and the reasons of misses".to_owned(),
        columns: present::size_columns(&outcome.sizes, Unit::Percent),
        rows,
    })
}

/// The rows of an end: what was predicted, and below it each reason that occurred.
fn end_rows(end: &str, counts: &[InputCounts]) -> Vec<Row> {
    let hits = |one: &InputCounts| one.predicted() + one.predicted_handshakes();
    let mut rows = vec![row(format!("{end}: predicted"), 1, counts, &hits)];
    let mut add = |label: String, depth: u8, part: &dyn Fn(&InputCounts) -> u64| {
        if counts.iter().any(|one| part(one) > 0) {
            rows.push(row(label, depth, counts, part));
        }
    };
    add(
        format!("{end}: of these, opening or closing"),
        2,
        &InputCounts::predicted_handshakes,
    );
    for reason in Miss::ALL {
        add(format!("{end}: missed, {}", reason.name()), 2, &|one| {
            one.misses(reason)
        });
        if reason == Miss::Flags {
            for reason in HandshakeMiss::ALL {
                let label = format!("{end}: not as opening or closing either, {}", reason.name());
                add(label, 3, &|one| one.handshake_misses(reason));
            }
        }
    }
    rows
}

fn row(
    label: String,
    depth: u8,
    counts: &[InputCounts],
    part: &dyn Fn(&InputCounts) -> u64,
) -> Row {
    Row {
        label,
        depth,
        kind: RowKind::Plain,
        layer: None,
        note: None,
        cells: counts.iter().map(|one| share(one, part(one))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use tollgate_run::{Mode, PathId, Placement, Waiting, Workload};
    use tollgate_workload::{Mechanisms, Session, find};

    use super::*;
    use crate::interleave::{Matrix, Variant};

    /// The table after some round trips of 200 bytes over `stack-memory` with these mechanisms.
    fn measured(workload: Workload, mechanisms: Mechanisms) -> Option<Table> {
        let mode = Mode {
            placement: Placement::OneCore,
            waiting: Waiting::BusyPoll,
        };
        let spec = Spec::new(workload, 200)
            .with_mode(mode.placement, mode.waiting)
            .with_mechanisms(mechanisms);
        let matrix = Matrix {
            workload,
            variants: vec![
                Variant::new(PathId::PeerSmoltcp, mode),
                Variant::new(PathId::StackMemory, mode),
            ],
            unavailable: Vec::new(),
        };
        let mut outcome = Outcome::new(matrix, vec![200]);
        for (variant, path) in [PathId::PeerSmoltcp, PathId::StackMemory]
            .into_iter()
            .enumerate()
        {
            let mut session: Box<dyn Session> = find(path)?.open(&spec).unwrap();
            let before = session.input_counts();
            let mut samples = session.new_samples();
            session.run(100, &mut samples).unwrap();
            if let Some((before, after)) = before.zip(session.input_counts()) {
                outcome.measurements[variant][0].add_input(&before, &after);
            }
        }
        table(&outcome)
    }

    fn value(table: &Table, label: &str) -> Option<f64> {
        let row = table.rows.iter().find(|row| row.label == label)?;
        row.cells[0].number()
    }

    #[test]
    fn round_trips_are_predicted_and_paths_without_our_stack_have_no_row() {
        let table = measured(Workload::Rr, Mechanisms::DEFAULT).unwrap();
        let labels: Vec<&str> = table.rows.iter().map(|row| row.label.as_str()).collect();
        assert_eq!(
            labels,
            [
                "stack-memory, 1 core, polling",
                "client: predicted",
                "server: predicted"
            ]
        );
        assert_eq!(value(&table, "client: predicted"), Some(100.0));
        assert_eq!(value(&table, "server: predicted"), Some(100.0));
    }

    #[test]
    fn misses_stand_by_reason_and_shares_are_of_all_segments() {
        let mut unidirectional = Mechanisms::DEFAULT;
        unidirectional.set("prediction", "unidirectional").unwrap();
        let table = measured(Workload::Rr, unidirectional).unwrap();
        let missed = value(&table, "client: missed, bidirectional").unwrap();
        let hits = value(&table, "client: predicted").unwrap();
        assert!(missed > 90.0, "{missed}");
        assert!((missed + hits - 100.0).abs() < 1e-9);
    }

    #[test]
    fn connections_show_what_opens_and_closes_them() {
        let table = measured(Workload::Crr, Mechanisms::DEFAULT).unwrap();
        let changes = value(&table, "server: of these, opening or closing").unwrap();
        assert!(changes > 10.0 && changes < 100.0, "{changes}");
    }
}
