//! The shapes that experiments share: columns by size, rows of variants, lines over size, published rows, and what is said
//! of an interleaved run's trust.

use tollgate_run::{
    Axis, Cell, Figure as Drawing, Layer, Point, Row, Scale, SegmentKind, Series, Table, TrustLine,
    Unit, format, present,
};
use tollgate_stats::{Samples, Timing};

use crate::interleave::slices;
use crate::outcome::{Figure, Outcome};

/// A table of the variants over the sizes, those that are absent included.
pub(crate) fn table_by_size(
    id: &str,
    title: &str,
    unit: Unit,
    outcome: &Outcome,
    figure: Figure,
) -> Table {
    let mut rows: Vec<Row> = outcome
        .matrix
        .variants
        .iter()
        .enumerate()
        .map(|(variant, who)| {
            let cells = (0..outcome.sizes.len())
                .map(|at| outcome.cell(variant, at, figure))
                .collect();
            present::plain_row(who.label(), cells)
        })
        .collect();
    rows.extend(outcome.matrix.unavailable.iter().map(|(label, reason)| {
        let cell = || Cell::NotAvailable {
            reason: reason.clone(),
        };
        present::plain_row(label, outcome.sizes.iter().map(|_| cell()).collect())
    }));
    Table {
        id: id.to_owned(),
        title: title.to_owned(),
        columns: present::size_columns(&outcome.sizes, unit),
        rows,
    }
}

/// The variants as lines over the size, on logarithmic axes.
pub(crate) fn lines_by_size(
    title: &str,
    x: &str,
    y: (&str, Unit),
    outcome: &Outcome,
    figure: Figure,
    published: Vec<Series>,
    command: &str,
) -> Drawing {
    let line = |variant: usize| {
        let points = outcome.sizes.iter().enumerate().filter_map(|(at, &size)| {
            let cell = outcome.cell(variant, at, figure);
            let measured = cell.measured()?;
            Some(Point {
                x: size as f64,
                y: measured.value,
                ci: measured.ci,
            })
        });
        Series {
            label: outcome.matrix.variants[variant].label(),
            points: points.collect(),
            published: false,
        }
    };
    let mut series: Vec<Series> = (0..outcome.matrix.variants.len())
        .map(line)
        .filter(|series| !series.points.is_empty())
        .collect();
    series.extend(published);
    Drawing::Lines {
        title: title.to_owned(),
        x: Axis {
            label: x.to_owned(),
            unit: Unit::Bytes,
            scale: Scale::Log,
        },
        y: Axis {
            label: y.0.to_owned(),
            unit: y.1,
            scale: Scale::Log,
        },
        series,
        command: command.to_owned(),
    }
}

/// Lines of trust of an interleaved run: counts, timing, failures.
pub(crate) fn trust(
    outcome: &Outcome,
    wanted: u64,
    repetitions: u32,
    what: &str,
) -> Vec<TrustLine> {
    let mut lines = Vec::new();
    let variants = outcome.matrix.variants.len();
    let full = wanted * u64::from(repetitions);
    let ran = || (0..variants).flat_map(|variant| outcome.operations(variant));
    let least = ran().min().unwrap_or(full);
    let is_short = least < full;
    let turns = if outcome.sequential {
        "one cell after the other in each repetition"
    } else {
        "in turn with all paths and sizes"
    };
    let over = if is_short {
        outcome.repetitions.clamp(1, repetitions)
    } else {
        repetitions
    };
    let mut text = format!(
        "each value is the median over {}, and ± or the range beside it is its 95 % interval between them; a cell has ",
        format::counted(over.into(), "repetition", "repetitions"),
    );
    if is_short {
        let most = ran().max().unwrap_or(least);
        text.push_str(&format!(
            "{} {what} on the slowest path to {} on the quickest, {turns}; ",
            format::whole(least),
            format::whole(most),
        ));
        text.push_str(&format!(
            "{} and {} were planned, and time was short",
            format::whole(full),
            format::counted(repetitions.into(), "repetition", "repetitions"),
        ));
    } else {
        text.push_str(&format!(
            "{} {what} in {} slices, {turns}",
            format::whole(full),
            slices(outcome.matrix.workload) * u64::from(repetitions),
        ));
    }
    lines.push(present::note(text));
    lines.extend(remarks(outcome, what));
    lines
}

/// Reading of the clock, remarks of sessions, and what failed or was left out.
pub(crate) fn remarks(outcome: &Outcome, what: &str) -> Vec<TrustLine> {
    let mut lines = Vec::new();
    let variants = outcome.matrix.variants.len();
    let batched: Vec<String> = (0..variants)
        .filter_map(|variant| match outcome.timing(variant)? {
            Timing::Each => None,
            Timing::Batch(_) => Some(outcome.matrix.variants[variant].path.to_string()),
        })
        .collect();
    if !batched.is_empty() {
        let mut names = batched;
        names.dedup();
        lines.push(present::note(format!(
            "on {} the clock is read once for a batch of {what}, so percentiles are those of the batches' means",
            format::list(&names)
        )));
    }
    lines.extend(settings(outcome).into_iter().map(present::note));
    lines.extend((0..variants).filter_map(|variant| cells(outcome, variant).map(present::note)));
    lines.extend((0..variants).filter_map(|variant| lost(outcome, variant)));
    lines.extend(outcome.failures().into_iter().map(|(variant, reason)| {
        present::warning(format!("{} failed: {reason}", variant.label()))
    }));
    if outcome.stopped {
        lines.push(present::warning(
            "the run was stopped; what is shown was measured until then",
        ));
    }
    lines
}

/// Cells of a variant, and those that met faults; none where whole frames move.
fn cells(outcome: &Outcome, variant: usize) -> Option<String> {
    let all = outcome.measurements[variant].iter();
    let all = all.filter_map(|one| one.cells.as_ref());
    let sum = all.copied().reduce(|sum, one| sum.plus(&one))?;
    let whole = format::whole;
    Some(format!(
        "cells of both ends beside {}: {} sent, {} lost by the line, {} with a wrong bit, {} lost by a full FIFO; dropped by receivers: {} for a \
         wrong header, {} for a wrong CRC, {} for a gap",
        outcome.matrix.variants[variant].phrase(),
        whole(sum.sent),
        whole(sum.lost),
        whole(sum.damaged),
        whole(sum.overflowed),
        whole(sum.bad_headers),
        whole(sum.bad_crcs),
        whole(sum.gaps),
    ))
}

/// Datagrams of a variant that were lost; none where all were answered.
fn lost(outcome: &Outcome, variant: usize) -> Option<TrustLine> {
    let samples = outcome.measurements[variant].iter();
    let lost = samples
        .filter_map(|one| one.samples.as_ref())
        .map(Samples::lost);
    let lost: u64 = lost.sum();
    let trips: u64 = outcome.operations(variant).sum();
    (lost > 0).then(|| TrustLine {
        value: Some(lost as f64),
        unit: Unit::Count,
        ..present::warning(format!(
            "{} of {} without an answer beside {}: sent again, and left out of all times",
            format::counted(lost, "datagram", "datagrams"),
            outcome.matrix.variants[variant].phrase(),
            format::counted(trips, "round trip", "round trips"),
        ))
    })
}

/// Settings of the sessions, a sentence for each path: those that all of its modes and sizes have in common. The processors, which
/// go with the placement, come first.
fn settings(outcome: &Outcome) -> Vec<String> {
    const CORES: &str = "cores";
    let variants = &outcome.matrix.variants;
    let mut placed: Vec<(&str, &str)> = Vec::new();
    let mut paths: Vec<(String, Vec<(&str, &str)>)> = Vec::new();
    for (variant, who) in variants.iter().enumerate() {
        for measurement in &outcome.measurements[variant] {
            let all = &measurement.settings;
            if all.is_empty() {
                continue;
            }
            let rest = || {
                all.iter()
                    .filter(|(name, _)| *name != CORES)
                    .map(|(name, value)| (*name, value.as_str()))
            };
            for (_, value) in all.iter().filter(|(name, _)| *name == CORES) {
                let place = (who.mode.placement.name(), value.as_str());
                if !placed.contains(&place) {
                    placed.push(place);
                }
            }
            let path = who.path.to_string();
            match paths.iter_mut().find(|(name, _)| *name == path) {
                None => paths.push((path, rest().collect())),
                Some((_, common)) => common.retain(|one| rest().any(|other| other == *one)),
            }
        }
    }
    let mut sentences = Vec::new();
    if !placed.is_empty() {
        let places: Vec<String> = placed
            .iter()
            .map(|(placement, cores)| format!("{} on {cores}", placement.replace('-', " ")))
            .collect();
        sentences.push(format!(
            "ends are pinned to processors: {}",
            places.join(", ")
        ));
    }
    sentences.extend(
        paths
            .into_iter()
            .filter(|(_, common)| !common.is_empty())
            .map(|(path, common)| {
                let words: Vec<String> = common
                    .iter()
                    .map(|(name, value)| format!("{name} {value}"))
                    .collect();
                format!("{path}: {}", words.join(", "))
            }),
    );
    sentences
}

/// The command that repeats an experiment with the options that differ from the usual.
pub(crate) fn command(name: &str, options: &crate::context::Options) -> String {
    format!("tollgate experiment run {name}{}", options.flags())
}

pub(crate) fn layer(layer: tollgate_gate::Layer) -> Layer {
    use tollgate_gate::Layer as Gate;
    match layer {
        Gate::Socket => Layer::Socket,
        Gate::Tcp => Layer::Tcp,
        Gate::Ip => Layer::Ip,
        Gate::Device => Layer::Device,
        Gate::Driver => Layer::Driver,
        Gate::Link => Layer::Link,
        Gate::Scheduler => Layer::Scheduler,
    }
}

pub(crate) const fn segment_kind(kind: tollgate_gate::Kind) -> SegmentKind {
    match kind {
        tollgate_gate::Kind::Processing => SegmentKind::Processing,
        tollgate_gate::Kind::Queueing => SegmentKind::Queueing,
    }
}

/// The times as lengths: one below zero gets none, and what it lacks is taken off those after it, then off those before it.
/// So the sum stays, unless it is below zero itself.
pub(crate) fn lengths(mut times: Vec<f64>) -> Vec<f64> {
    let mut owed = 0.0;
    let mut take = |time: &mut f64| {
        let left = *time + owed;
        owed = left.min(0.0);
        *time = left.max(0.0);
    };
    times.iter_mut().for_each(&mut take);
    times.iter_mut().rev().for_each(&mut take);
    times
}

/// The least and the most.
pub(crate) fn ends(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    Some((low, high))
}

/// `-1.2 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// `-1.2 % to 3.4 %`.
pub(crate) fn between_percents(low: f64, high: f64) -> String {
    format!("{} to {}", percent(low), percent(high))
}

#[cfg(test)]
mod tests {
    use tollgate_run::{Mode, PathId, Placement, Waiting, Workload};
    use tollgate_workload::{Mechanisms, Nagle};

    use super::*;
    use crate::context::Options;
    use crate::interleave::{Matrix, Variant};

    #[test]
    fn the_command_carries_what_is_not_usual() {
        assert_eq!(
            command("crr", &Options::default()),
            "tollgate experiment run crr"
        );
        let options = Options {
            paths: Some(vec![PathId::StackMemory, PathId::PeerSmoltcp]),
            sizes: Some(vec![4, 20]),
            placement: Some(Placement::OneCore),
            mechanisms: Mechanisms {
                nagle: Nagle::On,
                ..Mechanisms::DEFAULT
            },
            ..Options::default()
        };
        assert_eq!(
            command("crr", &options),
            "tollgate experiment run crr --path stack-memory,peer-smoltcp --size 4,20 --cores 1 --nagle"
        );
    }

    #[test]
    fn settings_are_told_once_for_a_path_and_processors_once_for_a_placement() {
        let variant = |placement| {
            let mode = Mode {
                placement,
                waiting: Waiting::Blocking,
            };
            Variant::new(PathId::KernelLoopback, mode)
        };
        let matrix = Matrix {
            workload: Workload::Rr,
            variants: vec![variant(Placement::OneCore), variant(Placement::TwoCores)],
            unavailable: Vec::new(),
        };
        let mut outcome = Outcome::new(matrix, vec![4, 80]);
        let set = |cores: &str, lane: &str| {
            vec![
                ("nagle", "off".to_owned()),
                ("cores", cores.to_owned()),
                ("lane", lane.to_owned()),
            ]
        };
        outcome.measurements[0][0].settings = set("0", "4 bytes");
        outcome.measurements[0][1].settings = set("0", "80 bytes");
        outcome.measurements[1][0].settings = set("0 and 1", "4 bytes");
        assert_eq!(
            settings(&outcome),
            [
                "ends are pinned to processors: one core on 0, two cores on 0 and 1",
                "kernel-loopback: nagle off"
            ]
        );
    }

    #[test]
    fn trust_tells_what_was_run_and_not_what_was_planned() {
        let mode = Mode {
            placement: Placement::OneCore,
            waiting: Waiting::Blocking,
        };
        let matrix = Matrix {
            workload: Workload::Stream,
            variants: vec![Variant::new(PathId::KernelLoopback, mode)],
            unavailable: Vec::new(),
        };
        let mut outcome = Outcome::new(matrix, vec![4, 80]);
        for (at, writes) in [16, 300].into_iter().enumerate() {
            let mut samples = Samples::new(Timing::Each);
            (0..writes).for_each(|_| samples.record(100, 1));
            outcome.measurements[0][at].add_slice((0, 0), &samples);
        }
        outcome.repetitions = 2;
        let text = trust(&outcome, 12_000, 10, "writes").remove(0).text;
        assert!(text.contains("median over 2 repetitions"), "{text}");
        assert!(
            text.contains("a cell has 16 writes on the slowest path to 300"),
            "{text}"
        );
        assert!(
            text.contains("120,000 and 10 repetitions were planned"),
            "{text}"
        );
        let text = trust(&outcome, 8, 2, "writes").remove(0).text;
        assert!(text.contains("a cell has 16 writes in"), "{text}");
        assert!(!text.contains("planned"), "{text}");
    }

    #[test]
    fn datagrams_that_were_lost_are_told_with_their_number() {
        let mode = Mode {
            placement: Placement::OneCore,
            waiting: Waiting::Blocking,
        };
        let matrix = Matrix {
            workload: Workload::Rr,
            variants: vec![Variant::new(PathId::StackTap, mode)],
            unavailable: Vec::new(),
        };
        let mut outcome = Outcome::new(matrix, vec![4, 80]);
        for (at, count) in [2, 1].into_iter().enumerate() {
            let mut samples = Samples::new(Timing::Each);
            samples.record(100, 1);
            samples.add_lost(count);
            outcome.measurements[0][at].add_slice((0, 0), &samples);
        }
        let told = remarks(&outcome, "round trips");
        let told = told.iter().find(|line| line.value.is_some()).unwrap();
        assert_eq!(
            (told.value, told.unit, told.holds),
            (Some(3.0), Unit::Count, false)
        );
        assert!(
            told.text.starts_with("3 datagrams of stack-tap"),
            "{}",
            told.text
        );
        assert!(told.text.contains("beside 2 round trips"), "{}", told.text);

        let none = Outcome::new(outcome.matrix, vec![4]);
        assert!(
            remarks(&none, "round trips")
                .iter()
                .all(|line| line.value.is_none())
        );
    }

    #[test]
    fn lengths_are_not_negative_and_keep_the_sum() {
        assert_eq!(lengths(vec![5.0, -2.0, 3.0]), [5.0, 0.0, 1.0]);
        assert_eq!(lengths(vec![5.0, -2.0, 1.0, -1.5]), [2.5, 0.0, 0.0, 0.0]);
        assert_eq!(lengths(vec![-1.0, -1.0, 4.0]), [0.0, 0.0, 2.0]);
        assert_eq!(lengths(vec![-1.0]), [0.0]);
        assert!(lengths(Vec::new()).is_empty());
    }
}
