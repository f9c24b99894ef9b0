//! `wolman-transmit` and `wolman-receive`: what several paths have to show, joined row by row in one table, with one stacked bar
//! for each path and size, and the sentence of findings. It computes shares and sums; it measures nothing.

use tollgate_gate::{Direction, WolmanRow};
use tollgate_run::{
    Bar, Cell, Column, Figure, Measured, Row, RowKind, Segment, SegmentKind, Table, Unit, format,
    present,
};

use super::Experiment;
use super::wolman_rows::{Wolman, WolmanLabel, labels, manner, name, published_id};
use crate::claim::{Claim, Evidence, Finding, FindingText, Refusal};

/// The share of a round trip by which all gates together make it longer, from which on that stands before all else: the spans are
/// those of round trips of which gates are the larger part.
pub(super) const MOST_PERTURBED: f64 = 1.0;

/// The sizes of which the one is told in words, the first that was measured.
const STATED_SIZES: [usize; 3] = [200, 4, 1_400];

/// Results of one path. Everything that is by size is in the order of the sizes.
pub(super) struct PathRows {
    /// The path, and the host where there are two.
    pub(super) name: String,
    /// The path and its mode.
    pub(super) label: String,
    /// The paper's rows, in ns for each message.
    pub(super) lines: Vec<(WolmanLabel, Vec<Cell>)>,
    /// The path's own spans, and what else it has to show.
    pub(super) tables: Vec<Table>,
    /// The sum of the spans against the round trip without gates.
    pub(super) closure: Vec<Row>,
    /// The unattributed share of a round trip where the ledger does not close.
    pub(super) open: Vec<Option<f64>>,
    /// The share of a round trip by which all gates together make it longer, and half the width of its interval.
    pub(super) perturbed: Vec<Option<(f64, f64)>>,
    /// The spans of this direction.
    pub(super) messages: Vec<Option<Vec<Segment>>>,
    /// A round trip without gates, in ns, and all spans of it.
    pub(super) round_trips: Vec<Option<(f64, Vec<Segment>)>>,
}

impl PathRows {
    fn cell(&self, label: WolmanLabel, at: usize) -> Cell {
        let line = self.lines.iter().find(|(one, _)| *one == label);
        line.and_then(|(_, cells)| cells.get(at).cloned())
            .unwrap_or_else(|| Cell::NotAvailable {
                reason: "this path has no such row".to_owned(),
            })
    }

    /// Tells whether the round trip of a size is shown with these rows.
    fn has_round_trip(&self, at: usize) -> bool {
        self.round_trips.get(at).is_some_and(Option::is_some)
    }

    fn ns(&self, label: WolmanLabel, at: usize) -> Option<f64> {
        self.cell(label, at).number()
    }

    fn share(&self, label: WolmanLabel, at: usize) -> Option<f64> {
        share(self.ns(label, at), self.ns(WolmanLabel::Total, at))
    }

    /// A row as a part of the ledger of its size.
    fn evidence(&self, label: WolmanLabel, at: usize) -> Result<Evidence, Refusal> {
        let open = self.open.get(at).copied().flatten();
        Ok(Evidence::of(&self.cell(label, at))?.leaving(open))
    }

    /// A claim on the share that a row has of the whole.
    fn claim_share(&self, label: WolmanLabel, at: usize) -> Result<Claim, Refusal> {
        let total = self.evidence(WolmanLabel::Total, at)?.amount()?.value();
        self.evidence(label, at)?.times(100.0 / total).share()
    }
}

fn share(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    Some(100.0 * part? / whole.filter(|whole| *whole > 0.0)?)
}

/// The parts of all paths, in the order in which they are shown.
pub(super) struct CombinedTable<'a> {
    pub(super) wolman: &'a Wolman,
    pub(super) sizes: &'a [usize],
    pub(super) parts: &'a [PathRows],
}

impl CombinedTable<'_> {
    fn direction(&self) -> Direction {
        self.wolman.direction
    }

    /// The place of the size that is told in words.
    fn stated(&self) -> usize {
        let measured = |&at: &usize| {
            let mut parts = self.parts.iter();
            parts.any(|part| part.ns(WolmanLabel::Total, at).is_some())
        };
        STATED_SIZES
            .iter()
            .filter_map(|wanted| self.sizes.iter().position(|size| size == wanted))
            .chain(0..self.sizes.len())
            .find(measured)
            .unwrap_or(0)
    }

    fn size(&self, at: usize) -> String {
        format::whole(self.sizes.get(at).copied().unwrap_or(0) as u64)
    }

    fn published(&self, label: WolmanLabel, at: usize) -> Option<f64> {
        self.wolman.published_ns(label, *self.sizes.get(at)?)
    }

    fn published_share(&self, label: WolmanLabel, at: usize) -> Option<f64> {
        share(
            self.published(label, at),
            self.published(WolmanLabel::Total, at),
        )
    }

    fn published_cell(&self, label: WolmanLabel, value: Option<f64>) -> Cell {
        match (published_id(label), self.wolman.paper()) {
            (Some(_), Some(source)) => present::published_cell(value, &source),
            _ => Cell::NotAvailable {
                reason: "the paper has no such row".to_owned(),
            },
        }
    }

    pub(super) fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.compared(), self.by_size()];
        tables.extend(self.parts.iter().flat_map(|part| part.tables.clone()));
        tables.push(self.closure());
        tables
    }

    /// One size: the paper's rows, and for each path the time and its share of the whole.
    fn compared(&self) -> Table {
        let at = self.stated();
        let column = |name: &str, unit| Column {
            name: name.to_owned(),
            unit,
        };
        let mut columns = vec![
            column("1994", Unit::Nanoseconds),
            column("share", Unit::Percent),
        ];
        for part in self.parts {
            columns.push(column(&part.name, Unit::Nanoseconds));
            columns.push(column("share", Unit::Percent));
        }
        let rows = labels(self.direction()).into_iter().map(|label| {
            let mut cells = vec![
                self.published_cell(label, self.published(label, at)),
                self.published_cell(label, self.published_share(label, at)),
            ];
            for part in self.parts {
                let time = part.cell(label, at);
                let share = match (&time, part.share(label, at)) {
                    (Cell::Value(measured), Some(share)) if measured.value != 0.0 => {
                        Cell::Value(Measured {
                            n: measured.n,
                            ..measured.times(share / measured.value)
                        })
                    }
                    (_, Some(share)) => Cell::exact(share),
                    (Cell::NotAvailable { .. }, None) => time.clone(),
                    (_, None) => Cell::NotAvailable {
                        reason: "the sum of the spans is not above zero".to_owned(),
                    },
                };
                cells.extend([time, share]);
            }
            self.row(label, cells)
        });
        Table {
            id: "compared".to_owned(),
            title: format!(
                "A message of {} bytes on each path, {}",
                self.size(at),
                self.wolman.way()
            ),
            rows: rows.collect(),
            columns,
        }
    }

    fn row(&self, label: WolmanLabel, cells: Vec<Cell>) -> Row {
        let (kind, layer, depth) = manner(label, self.direction());
        Row {
            label: name(label, self.direction()).to_owned(),
            depth,
            kind,
            layer,
            note: None,
            cells,
        }
    }

    /// All sizes: below each of the paper's rows what every path takes for it.
    fn by_size(&self) -> Table {
        let mut rows = Vec::new();
        for label in labels(self.direction()) {
            rows.push(Row {
                kind: RowKind::Plain,
                layer: None,
                depth: 0,
                ..self.row(label, Vec::new())
            });
            let below = |who: &str, cells| Row {
                label: who.to_owned(),
                depth: 1,
                ..self.row(label, cells)
            };
            if published_id(label).is_some() {
                let cells = (0..self.sizes.len())
                    .map(|at| self.published_cell(label, self.published(label, at)))
                    .collect();
                rows.push(below("1994", cells));
            }
            rows.extend(self.parts.iter().map(|part| {
                let cells = (0..self.sizes.len()).map(|at| part.cell(label, at));
                below(&part.name, cells.collect())
            }));
        }
        Table {
            id: "by-size".to_owned(),
            title: "The same by size".to_owned(),
            columns: present::size_columns(self.sizes, Unit::Nanoseconds),
            rows,
        }
    }

    /// The sum of both directions against the round trip without gates.
    fn closure(&self) -> Table {
        let mut rows = Vec::new();
        // A host that takes no total has its part in that of the other one.
        for part in self.parts.iter().filter(|part| !part.closure.is_empty()) {
            rows.push(present::plain_row(part.label.clone(), Vec::new()));
            rows.extend(part.closure.iter().cloned().map(|row| Row {
                depth: row.depth + 1,
                ..row
            }));
        }
        Table {
            id: "closure".to_owned(),
            title: "Both directions, there and back, against the round trip without gates"
                .to_owned(),
            columns: present::size_columns(self.sizes, Unit::Nanoseconds),
            rows,
        }
    }

    pub(super) fn figures(&self, command: &str) -> Vec<Figure> {
        let stacked = |title: String, unit, bars: Vec<Bar>| {
            (!bars.is_empty()).then(|| Figure::StackedBars {
                title,
                unit,
                bars,
                command: command.to_owned(),
            })
        };
        let mut figures = vec![
            stacked(
                format!("A message, {}, by span", self.wolman.way()),
                Unit::Nanoseconds,
                self.bars(|part, at| Some((None, part.messages.get(at)?.clone()?))),
            ),
            stacked(
                format!(
                    "Shares of a message of {} bytes, today and in 1994",
                    self.size(self.stated())
                ),
                Unit::Percent,
                self.shares(),
            ),
        ];
        if self.direction() == Direction::Tx {
            figures.push(stacked(
                "A round trip, both directions and the application, by span".to_owned(),
                Unit::Nanoseconds,
                self.bars(|part, at| {
                    let (total, segments) = part.round_trips.get(at)?.clone()?;
                    Some((Some(total), segments))
                }),
            ));
        }
        figures.into_iter().flatten().collect()
    }

    /// A bar for each path: at all sizes when there is but one path, else at the least, the told and the largest size.
    fn bars(
        &self,
        of: impl Fn(&PathRows, usize) -> Option<(Option<f64>, Vec<Segment>)>,
    ) -> Vec<Bar> {
        let mut places: Vec<usize> = (0..self.sizes.len()).collect();
        if self.parts.len() > 1 {
            let last = places.len().saturating_sub(1);
            places.retain(|&at| at == 0 || at == self.stated() || at == last);
        }
        let mut bars = Vec::new();
        for at in places {
            for part in self.parts {
                let size = format::size(self.sizes[at]);
                bars.extend(of(part, at).map(|(total_measured, segments)| Bar {
                    label: match self.parts.len() {
                        1 => size,
                        _ => format!("{size}, {}", part.name),
                    },
                    total_measured,
                    segments,
                }));
            }
        }
        bars
    }

    /// The told size: what each span has of its path's whole, and each row of the paper of its own.
    fn shares(&self) -> Vec<Bar> {
        let at = self.stated();
        let mut bars = Vec::new();
        let published: Vec<Segment> = labels(self.direction())
            .into_iter()
            .filter(|label| matches!(label, WolmanLabel::Row(_)))
            .filter_map(|label| {
                let (kind, layer, _) = manner(label, self.direction());
                Some(Segment {
                    label: name(label, self.direction()).to_owned(),
                    layer,
                    kind: match kind {
                        RowKind::Queueing => SegmentKind::Queueing,
                        _ => SegmentKind::Processing,
                    },
                    value: self.published_share(label, at)?,
                })
            })
            .collect();
        if !published.is_empty() {
            bars.push(Bar {
                label: "1994".to_owned(),
                total_measured: None,
                segments: published,
            });
        }
        for part in self.parts {
            let Some(Some(segments)) = part.messages.get(at) else {
                continue;
            };
            let whole: f64 = segments.iter().map(|segment| segment.value).sum();
            if whole > 0.0 {
                let scaled = segments.iter().cloned().map(|segment| Segment {
                    value: 100.0 * segment.value / whole,
                    ..segment
                });
                bars.push(Bar {
                    label: part.name.clone(),
                    total_measured: None,
                    segments: scaled.collect(),
                });
            }
        }
        bars
    }

    /// Says the time of each path and its largest part, and compares them with the paper.
    pub(super) fn finding(&self) -> FindingText {
        let at = self.stated();
        let doing = match self.direction() {
            Direction::Tx => "sending",
            Direction::Rx | Direction::Between => "receiving",
        };
        let mut finding = Finding::default();
        self.perturbed(at, &mut finding);
        let mut takes = Vec::new();
        for part in self.parts {
            let total = part.evidence(WolmanLabel::Total, at);
            let what = format!("{doing} {} bytes on {}", self.size(at), part.name);
            if let Some(total) = finding.claim(what, total.and_then(Evidence::amount)) {
                takes.push(format!(
                    "{} on {}{}",
                    total.duration(),
                    part.name,
                    self.most(part, at, &mut finding)
                ));
            }
        }
        if !takes.is_empty() {
            finding.say(format!(
                "{doing} {} bytes takes {}",
                self.size(at),
                format::list(&takes)
            ));
            if let Some(published) = self.published(WolmanLabel::Total, at) {
                finding.say(format!(
                    "in 1994 it took {}{}",
                    format::duration(published),
                    self.most_published(at)
                ));
            }
        }
        self.checksums(&mut finding);
        finding.finish()
    }

    /// Says first of all on which paths gates add more than the round trip has.
    fn perturbed(&self, at: usize, finding: &mut Finding) {
        let mut paths = Vec::new();
        for part in self.parts {
            let Some((share, half)) = part.perturbed.get(at).copied().flatten() else {
                continue;
            };
            // Each of two hosts has the same round trips.
            if share - half > MOST_PERTURBED && part.has_round_trip(at) {
                paths.push(format!(
                    "{:.0} % (+-{:.0}) on {}",
                    100.0 * share,
                    100.0 * half,
                    part.name
                ));
            }
        }
        if !paths.is_empty() {
            finding.say(format!(
                "all gates together make a round trip of {} bytes longer by {}",
                self.size(at),
                format::list(&paths)
            ));
        }
    }

    /// Says the share of the checksum in the largest message, now and in 1994.
    fn checksums(&self, finding: &mut Finding) {
        let checksum = WolmanLabel::Row(WolmanRow::Checksum);
        let last = self.sizes.len().saturating_sub(1);
        let Some(published) = self.published_share(checksum, last) else {
            return;
        };
        let mut shares = Vec::new();
        for part in self.parts {
            // A path without such a row says so in its table.
            if part.ns(checksum, last).is_none() {
                continue;
            }
            let what = format!(
                "the checksum's share at {} bytes on {}",
                self.size(last),
                part.name
            );
            if let Some(share) = finding.claim(what, part.claim_share(checksum, last)) {
                shares.push(format!("{} on {}", share.percent(), part.name));
            }
        }
        if !shares.is_empty() {
            finding.say(format!(
                "at {} bytes the checksum has {} (1994: {published:.0} %)",
                self.size(last),
                format::list(&shares)
            ));
        }
    }

    /// The row of a path with the largest share, in brackets; nothing where it cannot be told.
    fn most(&self, part: &PathRows, at: usize, finding: &mut Finding) -> String {
        let Some(label) = self.largest(|label| part.share(label, at)) else {
            return String::new();
        };
        let name = name(label, self.direction());
        let what = format!("what takes most on {}", part.name);
        match finding.claim(what, part.claim_share(label, at)) {
            Some(share) => {
                let largest = largest(share.interval().low);
                format!(" ({largest} {name}, {})", share.percent())
            }
            None => String::new(),
        }
    }

    /// The largest row of the paper, in brackets.
    fn most_published(&self, at: usize) -> String {
        let share = |label| self.published_share(label, at);
        self.largest(share)
            .and_then(|label| Some((label, share(label)?)))
            .map_or_else(String::new, |(label, share)| {
                let (largest, name) = (largest(share), name(label, self.direction()));
                format!(" ({largest} {name}, {share:.0} %)")
            })
    }

    fn largest(&self, share: impl Fn(WolmanLabel) -> Option<f64>) -> Option<WolmanLabel> {
        labels(self.direction())
            .into_iter()
            .filter(|label| matches!(label, WolmanLabel::Row(_) | WolmanLabel::NotInPaper))
            .filter_map(|label| Some((label, share(label)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(label, _)| label)
    }
}

/// Words before the largest part of a whole, which has at least so many hundredths of it.
fn largest(share: f64) -> &'static str {
    if share > 50.0 {
        "most of it"
    } else {
        "the largest part"
    }
}

#[cfg(test)]
mod tests {
    use tollgate_run::PathId;

    use super::*;
    use crate::experiments::wolman_rows::TRANSMIT;
    use tollgate_run::Interval;

    /// A path whose rows take 1, 2, 3 ... times `ns` at every size.
    fn part(path: PathId, ns: f64) -> PathRows {
        let mut lines = Vec::new();
        let (mut next, mut tcp, mut total) = (0.0, 0.0, 0.0);
        for label in labels(Direction::Tx) {
            let value = match label {
                WolmanLabel::TcpTotal => tcp,
                WolmanLabel::Total => total,
                WolmanLabel::Row(_) | WolmanLabel::NotInPaper => {
                    next += ns;
                    total += next;
                    if matches!(label, WolmanLabel::Row(row) if row.is_tcp()) {
                        tcp += next;
                    }
                    next
                }
            };
            let cell = Cell::Value(Measured {
                value,
                ci: Some(Interval {
                    low: 0.9 * value,
                    high: 1.1 * value,
                }),
                n: Some(1_000),
                ..Measured::default()
            });
            lines.push((label, vec![cell; 2]));
        }
        let segments = vec![Segment {
            label: "all".to_owned(),
            layer: None,
            kind: SegmentKind::Processing,
            value: total,
        }];
        PathRows {
            name: path.to_string(),
            label: path.to_string(),
            lines,
            tables: vec![Table {
                id: format!("spans-{path}"),
                title: String::new(),
                columns: Vec::new(),
                rows: Vec::new(),
            }],
            closure: vec![present::plain_row("sum", vec![Cell::exact(1.0); 2])],
            open: vec![None; 2],
            perturbed: vec![Some((0.3, 0.05)); 2],
            messages: vec![Some(segments.clone()); 2],
            round_trips: vec![Some((2.0 * total, segments)); 2],
        }
    }

    #[test]
    fn paths_stand_side_by_side_and_one_below_the_other() {
        let parts = [
            part(PathId::KernelLoopback, 100.0),
            part(PathId::StackMemory, 1.0),
        ];
        let joined = CombinedTable {
            wolman: &TRANSMIT,
            sizes: &[4, 200],
            parts: &parts,
        };
        let tables = joined.tables();
        let compared = &tables[0];
        let names: Vec<&str> = compared.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "1994",
                "share",
                "kernel-loopback",
                "share",
                "stack-memory",
                "share"
            ]
        );
        for row in &compared.rows {
            // The same rows in another unit have the same shares.
            let close = |a: f64, b: f64| (a - b).abs() < 1e-9 * a.abs().max(1.0);
            let number = |at: usize| row.cells[at].number().unwrap();
            assert!(close(number(2), 100.0 * number(4)), "{}", row.label);
            assert!(close(number(3), number(5)), "{}", row.label);
        }
        let total = compared.rows.last().unwrap();
        assert_eq!(total.cells[1].number(), Some(100.0));
        let by_size = &tables[1];
        let user: Vec<&str> = by_size.rows[..4].iter().map(|r| r.label.as_str()).collect();
        assert_eq!(user, ["User", "1994", "kernel-loopback", "stack-memory"]);
        assert_eq!(tables.last().unwrap().rows.len(), 4);
    }

    #[test]
    fn every_path_has_its_bar_and_its_clause() {
        let parts = [
            part(PathId::KernelLoopback, 100.0),
            part(PathId::StackMemory, 1.0),
        ];
        let joined = CombinedTable {
            wolman: &TRANSMIT,
            sizes: &[4, 200],
            parts: &parts,
        };
        let figures = joined.figures("tollgate");
        let labels = |figure: &Figure| match figure {
            Figure::StackedBars { bars, .. } => {
                bars.iter().map(|b| b.label.clone()).collect::<Vec<_>>()
            }
            Figure::Lines { .. } | Figure::Forest { .. } => Vec::new(),
        };
        assert_eq!(
            labels(&figures[0]),
            [
                "4 B, kernel-loopback",
                "4 B, stack-memory",
                "200 B, kernel-loopback",
                "200 B, stack-memory"
            ]
        );
        assert_eq!(
            labels(&figures[1]),
            ["1994", "kernel-loopback", "stack-memory"]
        );
        let Figure::StackedBars { bars, .. } = &figures[1] else {
            panic!("bars");
        };
        for bar in bars {
            assert!(
                (bar.sum() - 100.0).abs() < 1.0,
                "{}: {}",
                bar.label,
                bar.sum()
            );
        }
        let finding = joined.finding();
        for clause in [
            "on kernel-loopback (the largest part device queue, 22 to 28 %)",
            "on stack-memory (the largest part",
            ". In 1994 it took",
        ] {
            assert!(finding.contains(clause), "{clause}: {finding}");
        }
    }

    /// D4: the first thing that a run says, of the size that is stated.
    #[test]
    fn perturbation_above_100_percent_is_the_first_clause() {
        let mut heavy = part(PathId::KernelLoopback, 100.0);
        heavy.perturbed = vec![Some((0.3, 0.05)), Some((15.28, 0.11))];
        let mut unknown = part(PathId::KernelVeth, 100.0);
        unknown.perturbed = vec![Some((1.05, 0.1)); 2];
        let parts = [unknown, heavy];
        let finding = |sizes| {
            let joined = CombinedTable {
                wolman: &TRANSMIT,
                sizes,
                parts: &parts,
            };
            joined.finding()
        };
        let heavy = finding(&[4, 200]);
        assert!(
            heavy.starts_with(
                "All gates together make a round trip of 200 bytes longer by 1528 % (+-11) on kernel-loopback."
            ),
            "{heavy}"
        );
        let light = finding(&[200, 8_000]);
        assert!(light.starts_with("Sending 200 bytes takes"), "{light}");
    }

    #[test]
    fn a_ledger_that_does_not_close_is_told_as_such_and_not_as_a_time() {
        let mut open = part(PathId::KernelLoopback, 100.0);
        open.open = vec![Some(0.07), Some(-11.66)];
        let parts = [open, part(PathId::StackMemory, 1.0)];
        let finding = |size| {
            let joined = CombinedTable {
                wolman: &TRANSMIT,
                sizes: &[size, 8_000],
                parts: &parts,
            };
            joined.finding()
        };
        let at_200 = finding(200);
        assert!(
            at_200.contains(
                "sending 200 bytes on kernel-loopback (7.0 % of the whole is unattributed)"
            ),
            "{at_200}"
        );
        assert!(!at_200.contains(" us on kernel-loopback"), "{at_200}");
        assert!(!at_200.contains("1166"), "{at_200}");
        assert!(
            at_200.contains("on stack-memory (the largest part"),
            "{at_200}"
        );
    }
}
