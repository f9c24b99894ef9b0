//! Modes of `kay-breakdown` in everyday use: the time of the ends' processors, with both ends on two processors and on one,
//! sleeping or polling.
//!
//! The samples, idle ones among them, are brought to the processor time without the sampler by one factor. Their sum is held against
//! the clock, without the sampler, times the processors: what is left open is a row. It must never spread that over the others.

use tollgate_run::{Cell, Column, Row, RowKind, Table, Unit, format, present};

use super::kay_breakdown::{cell_of, names};
use crate::claim::{self, Evidence, Finding};
use crate::echoes::{Echoes, Panel};
use crate::sampled::{Mean, Split};

/// Largest share of the time that may stay unattributed where a finding states a part of it.
const OPEN: f64 = 0.05;

/// A table for each path and protocol that ran in several modes.
pub(super) fn tables(echoes: &Echoes) -> Vec<Table> {
    let panels = echoes.panels.iter();
    let tables = panels.filter_map(|panel| {
        let modes = modes(echoes, panel);
        (modes.len() > 1).then(|| table(echoes, panel, &modes))
    });
    tables.collect()
}

/// Panels of one path and protocol in all modes, the everyday ones on two processors first.
fn modes<'a>(echoes: &'a Echoes, panel: &'a Panel) -> Vec<&'a Panel> {
    let same = |other: &&Panel| (other.path, other.transport) == (panel.path, panel.transport);
    let others = echoes.beside.iter().filter(same);
    others.chain([panel]).collect()
}

fn table(echoes: &Echoes, panel: &Panel, modes: &[&Panel]) -> Table {
    let sizes = modes.first().map_or(&[][..], |first| &first.sizes);
    let places: Vec<(&Panel, usize)> = sizes
        .iter()
        .flat_map(|size| {
            modes.iter().filter_map(move |mode| {
                let at = mode.sizes.iter().position(|one| one == size)?;
                Some((*mode, at))
            })
        })
        .collect();
    let row = |label: &str, kind: RowKind, figure: &dyn Fn(&Split) -> f64| {
        let cells = places.iter();
        let cells: Vec<Cell> = cells
            .map(|&(mode, at)| cell_of(mode, at, mode.mean(at, figure)))
            .collect();
        Row {
            kind,
            ..present::plain_row(label, cells)
        }
    };
    let mut rows: Vec<Row> = names(&echoes.categories)
        .enumerate()
        .map(|(at, name)| {
            row(name, RowKind::Processing, &move |split: &Split| {
                split.category_ns(at)
            })
        })
        .collect();
    rows.extend([
        row(
            "The application",
            RowKind::Processing,
            &Split::application_ns,
        ),
        row("Other programs", RowKind::Processing, &Split::foreign_ns),
        row("Idle", RowKind::Queueing, &Split::idle_ns),
        row("Left open", RowKind::Unattributed, &left_open_ns),
        row("Time of the processors", RowKind::Total, &|split| {
            split.whole_ns
        }),
    ]);
    let columns = places.iter().map(|(mode, at)| Column {
        name: format!("{}, {}", format::size(mode.sizes[*at]), mode.mode),
        unit: Unit::Nanoseconds,
    });
    let name = panel.name(echoes);
    Table {
        id: format!("modes-{}", name.to_lowercase().replace(", ", "-")),
        title: format!(
            "{name}: where the time of the ends' processors goes, for each message received and sent back"
        ),
        columns: columns.collect(),
        rows,
    }
}

/// Processor time that the samples do not explain.
fn left_open_ns(split: &Split) -> f64 {
    split.whole_ns - split.sampled_ns()
}

/// Says what part of their processors' time the first path's ends leave idle, in each mode but the first.
pub(super) fn say(echoes: &Echoes, finding: &mut Finding) {
    let Some(panel) = echoes.panels.first() else {
        return;
    };
    for mode in modes(echoes, panel) {
        if mode.mode == panel.mode {
            continue;
        }
        let (size, rounds) = (format::size(mode.sizes[0]), &mode.splits[0]);
        let share = |part: &dyn Fn(&Split) -> f64| {
            let shares: Vec<f64> = rounds
                .iter()
                .filter(|split| split.whole_ns > 0.0)
                .map(|split| 100.0 * part(split) / split.whole_ns)
                .collect();
            Mean::of(&shares)
        };
        let open = share(&left_open_ns).map(|open| open.value / 100.0);
        let closes = |evidence: Evidence| evidence.leaving(open.filter(|open| open.abs() > OPEN));
        let what = format!(
            "the idle time of {size} over {}, {}",
            panel.name(echoes),
            mode.mode
        );
        let idle = claim::mean(share(&Split::idle_ns), rounds).map(closes);
        let whole = claim::mean(mode.mean(0, |split| split.whole_ns), rounds).map(closes);
        let idle = finding.claim(what.clone(), idle.and_then(Evidence::share));
        let whole = finding.claim(what, whole.and_then(Evidence::amount));
        if let (Some(idle), Some(whole)) = (idle, whole) {
            finding.say(format!(
                "over {}, {}, that of {size} takes {} of the ends' processors, {} of it idle",
                panel.name(echoes),
                mode.mode,
                whole.duration(),
                idle.percent()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_run::{Mode, PathId, Placement, Waiting};

    use super::*;
    use crate::context::{Cancel, Context, Options, Silent};
    use crate::echoes;
    use crate::sampled::Sampled;

    #[test]
    fn rows_of_each_mode_sum_to_the_time_of_its_processors() {
        let options = Options {
            paths: Some(vec![PathId::KernelLoopback]),
            sizes: Some(vec![1]),
            ..Options::default()
        };
        let budget = Some(Duration::from_secs(2));
        let mut context = Context::new(options, budget, Cancel::default(), &Silent);
        context.begin("test", 1, 1);
        let echoes = echoes::of("test", &context).unwrap();
        let echoes = match &*echoes {
            Sampled::Measured(echoes) => echoes,
            Sampled::Unavailable(reason) => {
                tollgate_skip::skipped!("{reason}");
                return;
            }
        };
        let on_one = Mode {
            placement: Placement::OneCore,
            waiting: Waiting::Blocking,
        };
        // TCP and UDP, each in the same modes, those on two cores first.
        let tables = tables(echoes);
        assert_eq!(tables.len(), 2);
        let modes = modes(echoes, &echoes.panels[0]);
        assert!(modes.len() > 1 && modes.last().unwrap().mode == on_one);
        for table in tables {
            assert_eq!(table.columns.len(), modes.len(), "{}", table.title);
            for column in 0..modes.len() {
                let value = |row: &Row| match &row.cells[column] {
                    Cell::Value(measured) => measured.value,
                    other => panic!("{}: {other:?}", row.label),
                };
                let (whole, parts) = table.rows.split_last().unwrap();
                let sum: f64 = parts.iter().map(value).sum();
                assert!((sum / value(whole) - 1.0).abs() < 1e-6, "{sum} {whole:?}");
                // Processors that did nothing at all would be another's.
                assert!(
                    parts
                        .iter()
                        .any(|row| row.label == "OpSys" && value(row) > 0.0)
                );
            }
        }
    }
}
