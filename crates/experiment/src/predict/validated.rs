//! Result of a validation: predicted times, measured times, and the differences.

use tollgate_analysis::comparison::PRIOR;
use tollgate_run::{
    Cell, Measured, Offload, Row, Table, TrustLine, Unit, format, present, present::plain_row,
};

use crate::interleave::Variant;
use crate::outcome::{Figure, Outcome};

use super::fit::{self, CostModel, Costs};
use super::interval::{self, HELD, Point, Predicted, Teller};
use super::validate::{MeasuredSizes, Validation, is_fitted_at_mtu};
use super::{MEDIAN_BAR, Missed, WORST_BAR, Way, column, missing};

/// The least share of held-out sizes that intervals of [`HELD`] have to hold.
const LEAST_HELD: f64 = 0.85;

/// Part of the predictions that shows a validation.
pub(super) struct ValidationTables {
    pub(super) finding: String,
    pub(super) tables: Vec<Table>,
    pub(super) trust: Vec<TrustLine>,
}

pub(super) fn show(validation: &Validation, trips: &[Way], streams: &[Way]) -> ValidationTables {
    let mut tables = Vec::new();
    let mut predicted = Vec::new();
    let mut trust = vec![present::note(format!(
        "held-out sizes were measured now, in turn with the sizes of the run; what is predicted follows from costs fitted to what those \
         take now, the column now / then has what that is of what they took in the run; a time that was measured is itself \
         known within what stands there (half its 95 % interval, or by how much half of the repetitions differ from the others), so no \
         prediction can be told to be better; the bars are {:.0} % at the median and {:.0} % at most",
        100.0 * MEDIAN_BAR,
        100.0 * WORST_BAR
    ))];
    for (id, what, seen, ways) in [
        ("round-trips", "round trips", &validation.trips, trips),
        (
            "streams",
            "writes of a stream",
            &validation.streams,
            streams,
        ),
    ] {
        let seen = match seen {
            Ok(seen) => seen,
            Err(reason) => {
                trust.push(present::warning(format!("no held-out {what}: {reason}")));
                continue;
            }
        };
        let all = HeldOut::all(ways, seen);
        predicted.extend(finding(what, &all));
        trust.extend(verdict(what, &all));
        trust.extend(coverage(what, &all));
        let sizes: Vec<usize> = seen.new_sizes().collect();
        tables.push(missed(
            id,
            &format!("By how much {what} of held-out sizes are missed"),
            &sizes,
            &all,
        ));
        tables.push(numbers(
            id,
            &format!("The same {what}, predicted and measured"),
            &sizes,
            &all,
        ));
    }
    match &validation.mtus {
        Ok(outcome) => {
            let all = at_mtus(outcome);
            let sizes = outcome.sizes.clone();
            trust.extend(verdict("other MTUs", &all));
            trust.push(present::note(
                "for other MTUs costs are fitted to sizes at an MTU of 1500 that were measured in turn with the others; the machine's own \
                 loopback keeps its MTU, these run in network namespaces of their own",
            ));
            tables.push(missed(
                "mtus",
                "By how much round trips at other MTUs are missed",
                &sizes,
                &all,
            ));
            tables.push(numbers(
                "mtus",
                "The same round trips, predicted and measured",
                &sizes,
                &all,
            ));
        }
        Err(reason) => trust.push(present::warning(format!(
            "no other MTU was measured: {reason}"
        ))),
    }
    let finding = format::sentence(&predicted);
    ValidationTables {
        finding: if finding.is_empty() {
            "No held-out size could be measured.".to_owned()
        } else {
            finding
        },
        tables,
        trust,
    }
}

/// A way at sizes that its fit has not seen.
struct HeldOut {
    label: String,
    /// The time on the machine now over the time in the run.
    drift: Option<f64>,
    /// The errors of the measured times; none where they were not estimated.
    known: Option<Missed>,
    points: Vec<HeldPoint>,
}

/// A size that a fit has not seen.
struct HeldPoint {
    size: usize,
    /// The prediction from this session's own sizes, and that of the run; the second where there is one.
    same_run: Predicted,
    later_run: Option<Predicted>,
    measured: Cell,
}

impl HeldOut {
    /// All ways of a table that were measured.
    fn all(ways: &[Way], seen: &MeasuredSizes) -> Vec<Self> {
        let same_run: Vec<(Vec<Point>, CostModel)> = ways
            .iter()
            .map(|way| (seen.points(&way.label), way.cost_model))
            .collect();
        let same_run = interval::tellers(&same_run);
        let all = ways.iter().zip(same_run);
        all.filter_map(|(way, same_run)| Self::of(way, &same_run?, seen))
            .collect()
    }

    fn of(way: &Way, same_run: &Teller, seen: &MeasuredSizes) -> Option<Self> {
        let drift = seen.drift(&way.label, &way.points)?;
        let point = |size: usize| {
            Some(HeldPoint {
                size,
                same_run: same_run.at(size as f64),
                later_run: Some(way.teller.at_another_time(size as f64, PRIOR)),
                measured: seen.cell(&way.label, size)?,
            })
        };
        let sizes = seen.new_sizes();
        Some(Self {
            label: way.label.clone(),
            drift: Some(drift),
            known: Missed::of(sizes.filter_map(|size| seen.known_within(&way.label, size))),
            points: seen.new_sizes().filter_map(point).collect(),
        })
    }

    fn at(&self, size: usize) -> Option<&HeldPoint> {
        self.points.iter().find(|point| point.size == size)
    }

    fn errors(&self) -> impl Iterator<Item = f64> + '_ {
        self.points.iter().filter_map(HeldPoint::error)
    }
}

impl HeldPoint {
    fn error(&self) -> Option<f64> {
        Some(self.same_run.ns / self.measured.measured()?.value - 1.0)
    }

    /// Tells whether an interval holds what was measured; none where either lacks.
    fn is_held(&self, predicted: Option<Predicted>) -> Option<bool> {
        predicted?.holds(self.measured.measured()?.value)
    }
}

/// Count of measured sizes that lie within their intervals.
struct Coverage {
    held: usize,
    all: usize,
}

impl Coverage {
    fn of(all: &[HeldOut], predicted: impl Fn(&HeldPoint) -> Option<Predicted>) -> Self {
        let points = all.iter().flat_map(|held| &held.points);
        let held: Vec<bool> = points
            .filter_map(|point| point.is_held(predicted(point)))
            .collect();
        Self {
            held: held.iter().filter(|held| **held).count(),
            all: held.len(),
        }
    }

    fn share(&self) -> f64 {
        self.held as f64 / self.all as f64
    }

    fn predicted(&self) -> String {
        format!(
            "{} of {} ({:.0} %)",
            format::whole(self.held as u64),
            format::whole(self.all as u64),
            100.0 * self.share()
        )
    }
}

/// The share of intervals that hold the measured time, against the promised one; none without intervals.
fn coverage(what: &str, all: &[HeldOut]) -> Option<TrustLine> {
    let same_run = Coverage::of(all, |point| Some(point.same_run));
    let later_run = Coverage::of(all, |point| point.later_run);
    if same_run.all == 0 || later_run.all == 0 {
        return None;
    }
    let text = format!(
        "{what}: of the intervals that are to hold {:.0} %, {} held what was measured, by what the sizes of the run take now; by the run \
         itself {}, when runs are taken to differ by {:.0} % as a whole",
        100.0 * HELD,
        same_run.predicted(),
        later_run.predicted(),
        100.0 * PRIOR
    );
    let is_enough = |coverage: &Coverage| coverage.share() >= LEAST_HELD;
    Some(if is_enough(&same_run) && is_enough(&later_run) {
        present::note(text)
    } else {
        present::warning(text)
    })
}

/// The ways at every MTU.
fn at_mtus(outcome: &Outcome) -> Vec<HeldOut> {
    let variants = &outcome.matrix.variants;
    let value = |way: usize, at: usize| outcome.value(way, at, Figure::Median);
    let usual_of = |one: &Variant| {
        let usual = Variant {
            mtu: Some(fit::USUAL_MTU),
            ..*one
        };
        variants.iter().position(|other| *other == usual)
    };
    let held = |(way, one): (usize, &Variant)| {
        let usual = usual_of(one)?;
        let points: Vec<(f64, f64)> = outcome
            .sizes
            .iter()
            .enumerate()
            .filter(|(_, size)| is_fitted_at_mtu(**size))
            .filter_map(|(at, &size)| Some((size as f64, value(usual, at)?)))
            .collect();
        let costs =
            Costs::fit(&points, cost_model(one).with_mtu(fit::USUAL_MTU))?.with_mtu(one.mtu?);
        let sizes = outcome.sizes.iter().enumerate();
        let points = sizes
            .filter(|(_, size)| way != usual || !is_fitted_at_mtu(**size))
            .map(|(at, &size)| {
                let predicted = Predicted {
                    ns: costs.at(size as f64),
                    interval: Err("an MTU's costs are those of another"),
                };
                HeldPoint {
                    size,
                    same_run: predicted,
                    later_run: None,
                    measured: outcome.cell(way, at, Figure::Median),
                }
            });
        Some(HeldOut {
            label: one.label(),
            drift: None,
            known: None,
            points: points.collect(),
        })
    };
    variants.iter().enumerate().filter_map(held).collect()
}

/// Model of a round trip, also where devices have offloads off.
fn cost_model(one: &Variant) -> CostModel {
    match one.offload {
        Offload::Usual | Offload::Both => super::trip(one.path.name(), super::Packets::default()),
        Offload::Checksum | Offload::Neither => CostModel::Alone(fit::segment(fit::USUAL_MTU)),
    }
}

fn percent(share: Option<f64>, reason: &str) -> Cell {
    share.map_or_else(|| missing(reason), |share| Cell::exact(100.0 * share))
}

/// Errors by size, and how they stand to the bars.
fn missed(id: &str, title: &str, sizes: &[usize], all: &[HeldOut]) -> Table {
    let drifts = all.iter().any(|held| held.drift.is_some());
    let mut columns = Vec::new();
    if drifts {
        columns.push(column("now / then", Unit::Ratio));
    }
    columns.extend(present::size_columns(sizes, Unit::Percent));
    columns.push(column("median", Unit::Percent));
    columns.push(column("at most", Unit::Percent));
    if drifts {
        columns.push(column("known within, median", Unit::Percent));
        columns.push(column("at most", Unit::Percent));
    }
    let row = |held: &HeldOut| {
        let mut cells: Vec<Cell> = held.drift.into_iter().map(Cell::exact).collect();
        cells.extend(sizes.iter().map(|&size| match held.at(size) {
            Some(point) => percent(point.error(), "it was not measured"),
            None => missing("the costs are fitted to it"),
        }));
        let all = Missed::of(held.errors());
        let none = "nothing was measured";
        cells.push(percent(all.map(|missed| missed.median), none));
        cells.push(percent(all.map(|missed| missed.worst), none));
        if drifts {
            let once = "there was one repetition";
            cells.push(percent(held.known.map(|missed| missed.median), once));
            cells.push(percent(held.known.map(|missed| missed.worst), once));
        }
        plain_row(&held.label, cells)
    };
    Table {
        id: format!("missed-{id}"),
        title: title.to_owned(),
        columns,
        rows: all.iter().map(row).collect(),
    }
}

/// Table of predicted and measured times.
fn numbers(id: &str, title: &str, sizes: &[usize], all: &[HeldOut]) -> Table {
    let mut rows: Vec<Row> = Vec::new();
    for held in all {
        let line = |name: &str, of: &dyn Fn(&HeldPoint) -> Result<Cell, &'static str>| {
            let cells = sizes.iter().map(|&size| match held.at(size) {
                Some(point) => of(point).unwrap_or_else(missing),
                None => missing("the costs are fitted to it"),
            });
            plain_row(format!("{}: {name}", held.label), cells.collect())
        };
        type Of = fn(&HeldPoint) -> Result<f64, &'static str>;
        let of = |of: Of| move |point: &HeldPoint| of(point).map(Cell::exact);
        rows.push(line("predicted", &of(|point| Ok(point.same_run.ns))));
        if held
            .points
            .iter()
            .any(|point| point.same_run.interval.is_ok())
        {
            rows.push(line(
                "at least",
                &of(|point| Ok(point.same_run.interval?.0)),
            ));
            rows.push(line("at most", &of(|point| Ok(point.same_run.interval?.1))));
        }
        rows.push(line("measured", &|point| {
            Ok(match &point.measured {
                // Percentiles are not what is predicted.
                Cell::Value(Measured { value, ci, n, .. }) => Cell::Value(Measured {
                    value: *value,
                    ci: *ci,
                    n: *n,
                    ..Measured::default()
                }),
                other => other.clone(),
            })
        }));
    }
    Table {
        id: format!("predicted-{id}"),
        title: title.to_owned(),
        columns: present::size_columns(sizes, Unit::Nanoseconds),
        rows,
    }
}

/// Loopback first, since the bars are for it; else all ways.
fn finding(what: &str, all: &[HeldOut]) -> Option<String> {
    let of = |prefix: &str| {
        let ways = all.iter().filter(|held| held.label.starts_with(prefix));
        Missed::of(ways.flat_map(HeldOut::errors))
    };
    let (path, missed) = ["kernel-loopback", ""]
        .into_iter()
        .find_map(|path| Some((path, of(path)?)))?;
    let path = match path {
        "" => String::new(),
        path => format!(" over {path}"),
    };
    Some(format!(
        "{what} of sizes that the run does not have{path} are predicted within {:.1} % at the median and {:.1} % at most (bars: {:.0} % and {:.0} %: {})",
        100.0 * missed.median,
        100.0 * missed.worst,
        100.0 * MEDIAN_BAR,
        100.0 * WORST_BAR,
        if missed.is_met() { "met" } else { "missed" },
    ))
}

/// Names the ways that meet the bars, and those that do not.
fn verdict(what: &str, all: &[HeldOut]) -> Option<TrustLine> {
    let known = || {
        all.iter()
            .filter_map(|held| Some((held, Missed::of(held.errors())?)))
    };
    let poor: Vec<String> = known()
        .filter(|(_, missed)| !missed.is_met())
        .map(|(held, missed)| {
            let predicted = |missed: Missed| {
                let Missed { median, worst } = missed;
                format!("{:.1} % and {:.1} %", 100.0 * median, 100.0 * worst)
            };
            match held.known.filter(|known| !known.is_met()) {
                Some(known) => format!(
                    "{} ({}, where what was measured is itself known within {})",
                    held.label,
                    predicted(missed),
                    predicted(known)
                ),
                None => format!("{} ({})", held.label, predicted(missed)),
            }
        })
        .collect();
    let n = known().count();
    if n == 0 {
        return None;
    }
    let met = format!(
        "{what}: {} of {} within the bars",
        format::whole((n - poor.len()) as u64),
        format::counted(n as u64, "way", "ways")
    );
    Some(if poor.is_empty() {
        present::note(met)
    } else {
        present::warning(format!("{met}; not {}", format::list(&poor)))
    })
}
