//! `wolman-transmit` and `wolman-receive` on the kernel's paths: the tables, figures and lines of trust of a run of rotating gates
//! ([`crate::kernel_gated`]) in the rows of Wolman, Voelker and Thekkath 1994, and in the kernel's own spans.

use tollgate_gate::ledger::{WolmanLabel, WolmanLine};
use tollgate_gate::span::Place;
use tollgate_gate::{Direction, Ledger, Span, WolmanRow};

use super::wolman::{
    between_percents, ends, labels, layer, lengths, manner, name, percent, segment_kind,
};
use crate::kernel_gated::{Ledgers, STATISTIC};
use crate::run::{
    Bar, Cell, Figure, Measured, Row, RowKind, Segment, Table, TrustKind, TrustLine, Unit,
};
use crate::shapes;
use crate::words;

/// A ledger closes when its sum lies within this share of the total.
const CLOSES: f64 = 0.03;
/// What gates may cost, as a share of the round trip.
const PERTURBS: f64 = 0.05;
/// The share of messages that should be joined.
const JOINS: f64 = 0.99;
/// Messages of a round trip.
const MESSAGES: f64 = 2.0;

/// What is shown of one path in one direction.
pub(super) struct Shown<'a> {
    pub(super) direction: Direction,
    pub(super) sizes: &'a [usize],
    pub(super) ledgers: &'a Ledgers,
}

impl Shown<'_> {
    fn way(&self) -> &'static str {
        match self.direction {
            Direction::Tx => "from send() to the queue of IP",
            Direction::Rx | Direction::Between => "from the queue of IP to the return of recv()",
        }
    }

    fn id(&self, table: &str) -> String {
        format!("{table}-{}", self.ledgers.path)
    }

    /// The tables of this path.
    pub(super) fn tables(&self) -> Vec<Table> {
        vec![self.rows(), self.spans(), self.closure()]
    }

    fn missing(&self, at: usize, reason: &str) -> Cell {
        let failure = self
            .ledgers
            .sizes
            .get(at)
            .and_then(|gated| gated.failure.clone());
        Cell::NotAvailable {
            reason: failure.unwrap_or_else(|| reason.to_owned()),
        }
    }

    fn cells(&self, cell: impl Fn(&Ledger) -> Option<Cell>, reason: &str) -> Vec<Cell> {
        (0..self.sizes.len())
            .map(|at| {
                self.ledgers
                    .ledger(at)
                    .and_then(&cell)
                    .unwrap_or_else(|| self.missing(at, reason))
            })
            .collect()
    }

    fn line(&self, ledger: &Ledger, label: WolmanLabel) -> Option<f64> {
        let lines: Vec<WolmanLine> = ledger.wolman_rows(self.direction, STATISTIC);
        lines.iter().find(|line| line.label == label)?.ns
    }

    /// The paper's rows.
    fn rows(&self) -> Table {
        let rows = labels(self.direction).into_iter().map(|label| {
            let (kind, layer, depth) = manner(label, self.direction);
            Row {
                label: name(label, self.direction).to_owned(),
                depth,
                kind,
                layer,
                note: self.hooks(label),
                cells: self.cells(
                    |ledger| {
                        Some(Cell::Value(Measured {
                            value: self.line(ledger, label)?,
                            n: Some(ledger.join_stats().passages),
                            ..Measured::default()
                        }))
                    },
                    absent(label),
                ),
            }
        });
        Table {
            id: self.id("today"),
            title: format!(
                "Today, {}, {}, per message",
                self.ledgers.label(),
                self.way()
            ),
            columns: shapes::size_columns(self.sizes, Unit::Nanoseconds),
            rows: rows.collect(),
        }
    }

    /// The hooks that bound a row.
    fn hooks(&self, label: WolmanLabel) -> Option<String> {
        let wanted = match label {
            WolmanLabel::Row(row) => Some(row),
            WolmanLabel::NotInPaper => None,
            WolmanLabel::TcpTotal | WolmanLabel::Total => return None,
        };
        let spans: Vec<&Span> = self
            .ledgers
            .table
            .spans()
            .iter()
            .filter(|span| span.place == Place::OnTheWay)
            .filter(|span| span.direction == self.direction && span.wolman == wanted)
            .collect();
        let parts: Vec<String> = spans
            .iter()
            .map(|span| format!("{}: {}", span.name, self.between(span)))
            .collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn between(&self, span: &Span) -> String {
        let hook = |gate| match self.ledgers.plan.hook(gate) {
            Some(hook) => hook.name,
            None => "sys_enter",
        };
        format!("{} -> {}", hook(span.from), hook(span.to))
    }

    /// The kernel's spans, one by one.
    fn spans(&self) -> Table {
        let spans = self.ledgers.table.spans();
        let shown = spans.iter().enumerate().filter(|(_, span)| {
            span.direction == self.direction
                || (self.direction == Direction::Rx && span.direction == Direction::Between)
        });
        let rows = shown.map(|(index, span)| Row {
            label: match span.place {
                Place::Beside => format!("({}, beside the way)", span.name),
                Place::OnTheWay | Place::Inside => span.name.to_owned(),
            },
            depth: 0,
            kind: match span.place {
                Place::Beside => RowKind::Plain,
                Place::OnTheWay | Place::Inside => match span.kind {
                    tollgate_gate::Kind::Processing => RowKind::Processing,
                    tollgate_gate::Kind::Queueing => RowKind::Queueing,
                },
            },
            layer: Some(layer(span.layer)),
            note: Some(self.between(span)),
            cells: self.cells(
                |ledger| {
                    let row = ledger.rows().get(index).copied()?;
                    let value = ledger.own_per_unit_ns(index, STATISTIC)? / MESSAGES;
                    let net = row.net;
                    Some(Cell::Value(Measured {
                        value,
                        n: net.map(|net| net.n),
                        mean: net.map(|net| net.mean_ns),
                        p50: net.map(|net| net.p50_ns),
                        p99: net.map(|net| net.p99_ns),
                        p99_9: net.map(|net| net.p999_ns),
                        ..Measured::default()
                    }))
                },
                "the run was stopped before it came to this",
            ),
        });
        Table {
            id: self.id("spans"),
            title: format!(
                "The same by the kernel's own spans, {}",
                self.ledgers.label()
            ),
            columns: shapes::size_columns(self.sizes, Unit::Nanoseconds),
            rows: rows.collect(),
        }
    }

    /// The sum of both directions and the application against the round trip without gates.
    fn closure(&self) -> Table {
        let stopped = "the run was stopped before it came to this";
        let row = |label: &str, kind, number: &dyn Fn(&Ledger) -> Option<Cell>| Row {
            kind,
            ..shapes::plain_row(label, self.cells(number, stopped))
        };
        let statistic =
            |ledger: &Ledger| Some(ledger.sum_ns(STATISTIC)? + ledger.unattributed_ns(STATISTIC)?);
        Table {
            id: self.id("closure"),
            title: format!(
                "Both directions and the application, there and back, against the round trip without gates, {}",
                self.ledgers.label()
            ),
            columns: shapes::size_columns(self.sizes, Unit::Nanoseconds),
            rows: vec![
                row("sum of the spans", RowKind::Plain, &|ledger| {
                    Some(Cell::exact(ledger.sum_ns(STATISTIC)?))
                }),
                row("unattributed", RowKind::Unattributed, &|ledger| {
                    Some(Cell::exact(ledger.unattributed_ns(STATISTIC)?))
                }),
                row("round trip without gates", RowKind::Total, &|ledger| {
                    Some(Cell::exact(statistic(ledger)?))
                }),
                row("unattributed share of it", RowKind::Plain, &|ledger| {
                    Some(Cell::Text {
                        text: percent(ledger.closure_by(STATISTIC)?),
                    })
                }),
            ],
        }
    }

    /// The spans of this direction as bars, and with the way out also those of the whole round trip.
    pub(super) fn figures(&self, command: &str) -> Vec<Figure> {
        let bars = |wanted: &dyn Fn(&Span) -> bool, messages: f64, total: bool| {
            (0..self.sizes.len())
                .filter_map(|at| {
                    let ledger = self.ledgers.ledger(at)?;
                    Some(Bar {
                        label: words::size(self.sizes[at]),
                        total_measured: if total {
                            Some(ledger.sum_ns(STATISTIC)? + ledger.unattributed_ns(STATISTIC)?)
                        } else {
                            None
                        },
                        segments: self.segments(ledger, messages, wanted),
                    })
                })
                .collect()
        };
        let mut figures = vec![Figure::StackedBars {
            title: format!("A message on {} {}, by span", self.ledgers.path, self.way()),
            unit: Unit::Nanoseconds,
            bars: bars(&|span| span.direction == self.direction, 1.0, false),
            command: command.to_owned(),
        }];
        if self.direction == Direction::Tx {
            figures.push(Figure::StackedBars {
                title: format!(
                    "A round trip over {}, both directions and the application, by span",
                    self.ledgers.path
                ),
                unit: Unit::Nanoseconds,
                bars: bars(&|_| true, MESSAGES, true),
                command: command.to_owned(),
            });
        }
        figures
    }

    fn segments(
        &self,
        ledger: &Ledger,
        messages: f64,
        wanted: &dyn Fn(&Span) -> bool,
    ) -> Vec<Segment> {
        let spans = self.ledgers.table.spans().iter().enumerate();
        let (spans, own): (Vec<&Span>, Vec<f64>) = spans
            .filter(|(_, span)| span.place != Place::Beside && wanted(span))
            .filter_map(|(index, span)| {
                let per_unit = ledger.own_per_unit_ns(index, STATISTIC)?;
                Some((span, per_unit / MESSAGES * messages))
            })
            .unzip();
        spans
            .into_iter()
            .zip(lengths(own))
            .map(|(span, value)| Segment {
                label: span.name.to_owned(),
                layer: Some(layer(span.layer)),
                kind: segment_kind(span.kind),
                value,
            })
            .collect()
    }

    /// How long it takes, and what takes most of it.
    pub(super) fn finding(&self) -> Option<String> {
        let at = [200, 4, 1_400]
            .iter()
            .filter_map(|wanted| self.sizes.iter().position(|size| size == wanted))
            .chain(0..self.sizes.len())
            .find(|&at| self.ledgers.ledger(at).is_some())?;
        let ledger = self.ledgers.ledger(at)?;
        let total = self.line(ledger, WolmanLabel::Total)?;
        let (label, most) = labels(self.direction)
            .into_iter()
            .filter(|label| matches!(label, WolmanLabel::Row(_) | WolmanLabel::NotInPaper))
            .filter_map(|label| Some((label, self.line(ledger, label)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1))?;
        let size = words::whole(self.sizes[at] as u64);
        let mut text = format!(
            "On {} a {size}-byte message takes {} {}; most of it is {} with {:.0} %",
            self.ledgers.path,
            words::duration(total),
            self.way(),
            name(label, self.direction),
            100.0 * most / total
        );
        if let Some(closure) = ledger
            .closure_by(STATISTIC)
            .filter(|closure| closure.abs() > CLOSES)
        {
            text.push_str(&format!(
                "; its ledger does not close: {} of a round trip is unattributed",
                percent(closure)
            ));
        }
        text.push('.');
        Some(text)
    }

    fn over_sizes(&self, number: impl Fn(usize) -> Option<f64>) -> Option<(f64, f64)> {
        let values: Vec<f64> = (0..self.sizes.len()).filter_map(number).collect();
        ends(&values)
    }

    /// How far it can be trusted.
    pub(super) fn trust(&self) -> Vec<TrustLine> {
        let path = self.ledgers.path;
        let mut lines = Vec::new();
        let ledger = |at: usize| self.ledgers.ledger(at);
        if let Some((low, high)) = self.over_sizes(|at| ledger(at)?.closure_by(STATISTIC)) {
            let worst = low.abs().max(high.abs());
            let holds = worst <= CLOSES;
            lines.push(TrustLine {
                kind: TrustKind::Closure,
                value: Some(100.0 * worst),
                unit: Unit::Percent,
                holds,
                text: format!(
                    "{path}: {} on the round trip without gates: {} of it is unattributed, over the sizes",
                    if holds { "closes" } else { "does not close" },
                    between_percents(low, high)
                ),
            });
        }
        if let Some((low, high)) = self.over_sizes(|at| ledger(at)?.unattributed_ns(STATISTIC)) {
            lines.push(TrustLine {
                kind: TrustKind::Residual,
                value: Some(if high.abs() > low.abs() { high } else { low }),
                unit: Unit::Nanoseconds,
                holds: true,
                text: format!(
                    "{path}: the unattributed time is {} to {} of a round trip",
                    words::duration(low),
                    words::duration(high)
                ),
            });
        }
        let worst: Vec<(&str, f64)> = (self.ledgers.sizes.iter())
            .filter_map(|gated| gated.worst_perturbation())
            .collect();
        let shares: Vec<f64> = worst.iter().map(|(_, share)| *share).collect();
        if let Some((low, high)) = ends(&shares) {
            let span = (worst.iter())
                .find(|(_, share)| *share == high)
                .map_or("", |(span, _)| *span);
            lines.push(TrustLine {
                kind: TrustKind::Perturbation,
                value: Some(100.0 * high),
                unit: Unit::Percent,
                holds: high <= PERTURBS,
                text: format!(
                    "{path}: the gates of the span that disturb most make a round trip {} longer, over the sizes; the most it is \
                     with those of {span}",
                    between_percents(low, high)
                ),
            });
        }
        let stats: Vec<_> = (0..self.sizes.len())
            .filter_map(|at| Some(ledger(at)?.join_stats()))
            .collect();
        let lost: u64 = stats.iter().map(|stats| stats.lost).sum();
        lines.push(TrustLine {
            kind: TrustKind::EventsLost,
            value: Some(lost as f64),
            unit: Unit::Count,
            holds: lost == 0,
            text: format!("{path}: {} events lost", words::whole(lost)),
        });
        if let Some(rate) = stats
            .iter()
            .filter_map(|stats| stats.join_rate())
            .reduce(f64::min)
        {
            let unmatched: u64 = stats.iter().map(|stats| stats.unmatched()).sum();
            lines.push(TrustLine {
                kind: TrustKind::JoinRate,
                value: Some(100.0 * rate),
                unit: Unit::Percent,
                holds: rate >= JOINS,
                text: format!(
                    "{path}: at least {:.2} % of the messages were seen at both gates of the span that was measured; {} were not",
                    100.0 * rate,
                    words::whole(unmatched)
                ),
            });
        }
        lines.extend(self.notes().into_iter().map(shapes::note));
        for (size, reason) in self.ledgers.failures(self.sizes) {
            lines.push(shapes::warning(format!("{path}: {size} failed: {reason}")));
        }
        if self.ledgers.stopped {
            lines.push(shapes::warning(format!(
                "{path}: the run was stopped; what is shown was measured until then"
            )));
        }
        lines
    }

    fn notes(&self) -> Vec<String> {
        let path = self.ledgers.path;
        let mut notes = Vec::new();
        let probes: Vec<f64> = self.ledgers.probes.values().copied().collect();
        if let Some((low, high)) = ends(&probes) {
            notes.push(format!(
                "{path}: each span is measured in slices with its two gates and no others; a passage costs {} to {} as \
                 measured in place by a twin, which is subtracted; means are those without the longest hundredth; gates were \
                 live {} ms after the start",
                words::duration(low),
                words::duration(high),
                self.ledgers.start_up.as_millis()
            ));
        }
        notes.push(match self.direction {
            Direction::Tx => format!(
                "{path}: TCP segment holds the copy from the user, which Wolman counted under User, since no hook lies between \
                 them; a message keeps its buffer for retransmission, so there is no mcopy; what send() does after its \
                 segment has reached the reader's socket runs beside the way and is in no sum"
            ),
            Direction::Rx | Direction::Between => format!(
                "{path}: the way in begins where the driver has queued the segment for IP; demultiplexing is in TCP segment; \
                 User begins when the reader runs; the application's own time is shown and is in no row of the paper"
            ),
        });
        for boundary in self.ledgers.plan.boundaries() {
            let reasons: Vec<&str> = boundary
                .missed
                .iter()
                .map(|(_, reason)| reason.as_str())
                .collect();
            if boundary.hook.is_none() {
                notes.push(format!(
                    "{path}: the boundary {} is not resolved, and its rows are joined: {}",
                    boundary.gate.name(),
                    reasons.join("; ")
                ));
            }
        }
        notes
    }
}

/// Why the kernel has no such row.
fn absent(label: WolmanLabel) -> &'static str {
    match label {
        WolmanLabel::Row(WolmanRow::Mcopy) => {
            "retransmission keeps a reference to the buffer, so there is no such copy"
        }
        WolmanLabel::Row(WolmanRow::Checksum) => {
            "this path leaves the checksum to a device that does not exist, so nobody computes it"
        }
        WolmanLabel::NotInPaper => {
            "a reader that waits is woken at once, so what a message waits in the socket is under Wakeup"
        }
        WolmanLabel::Row(WolmanRow::Wakeup) => "the reader polls, so nobody is woken",
        WolmanLabel::Row(WolmanRow::Atm) => {
            "the driver of the sender carries the segment into the queue of IP; it is on the way out"
        }
        _ => "the run was stopped before it came to this",
    }
}
