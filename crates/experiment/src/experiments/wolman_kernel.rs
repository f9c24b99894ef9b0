//! `wolman-transmit` and `wolman-receive` on the kernel's paths: the tables, figures and lines of trust of a run of rotating gates
//! ([`crate::kernel_gated`]) in the rows of Wolman, Voelker and Thekkath 1994, and in the kernel's own spans.

use tollgate_gate::ledger::{WolmanLabel, WolmanLine};
use tollgate_gate::span::Place;
use tollgate_gate::{Direction, Gate, Ledger, Span, WolmanRow};

use super::wolman::{between_percents, ends, labels, layer, lengths, percent, segment_kind};
use super::wolman_joined::Part;
use crate::kernel_gated::{Ledgers, STATISTIC};
use crate::run::{Cell, Measured, Row, RowKind, Segment, Table, TrustKind, TrustLine, Unit};
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
    /// What is shown beside the other paths.
    pub(super) fn part(&self) -> Part {
        let ledgers = || (0..self.sizes.len()).map(|at| self.ledgers.ledger(at));
        Part {
            name: self.ledgers.path.to_string(),
            label: self.ledgers.label(),
            lines: labels(self.direction)
                .into_iter()
                .map(|label| (label, self.line_cells(label)))
                .collect(),
            spans: self.spans(),
            closure: self.closure(),
            open: ledgers()
                .map(|ledger| {
                    let closure = ledger?.closure_by(STATISTIC)?;
                    (closure.abs() > CLOSES).then_some(closure)
                })
                .collect(),
            messages: ledgers()
                .map(|ledger| {
                    Some(self.segments(ledger?, 1.0, &|span| span.direction == self.direction))
                })
                .collect(),
            round_trips: ledgers()
                .map(|ledger| {
                    let ledger = ledger?;
                    Some((
                        ledger.sum_ns(STATISTIC)? + ledger.unattributed_ns(STATISTIC)?,
                        self.segments(ledger, MESSAGES, &|_| true),
                    ))
                })
                .collect(),
        }
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

    /// One of the paper's rows.
    fn line_cells(&self, label: WolmanLabel) -> Vec<Cell> {
        self.cells(
            |ledger| {
                Some(Cell::Value(Measured {
                    value: self.line(ledger, label)?,
                    n: Some(ledger.join_stats().passages),
                    ..Measured::default()
                }))
            },
            self.absent(label),
        )
    }

    /// Why there is no such row.
    fn absent(&self, label: WolmanLabel) -> &'static str {
        let boundaries = self.ledgers.plan.boundaries();
        let joined = boundaries.iter().any(|boundary| boundary.hook.is_none());
        match absent(label) {
            Some(reason) => reason,
            None if joined && !self.ledgers.stopped => {
                "a boundary of it is not resolved here, so it lies within a row whose spans are joined"
            }
            None => "the run was stopped before it came to this",
        }
    }

    fn between(&self, span: &Span) -> String {
        let hook = |gate| {
            // The application ends where the answer begins.
            let gate = match gate {
                Gate::ApplicationEnd => Gate::SocketOutBegin,
                gate => gate,
            };
            self.ledgers
                .plan
                .hook(gate)
                .map_or("none", |hook| hook.name)
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
            id: format!("spans-{}", self.ledgers.path),
            title: format!("The spans of {}, per message", self.ledgers.label()),
            columns: shapes::size_columns(self.sizes, Unit::Nanoseconds),
            rows: rows.collect(),
        }
    }

    /// The sum of both directions and the application against the round trip without gates.
    fn closure(&self) -> Vec<Row> {
        let stopped = "the run was stopped before it came to this";
        let row = |label: &str, kind, number: &dyn Fn(&Ledger) -> Option<Cell>| Row {
            kind,
            ..shapes::plain_row(label, self.cells(number, stopped))
        };
        let statistic =
            |ledger: &Ledger| Some(ledger.sum_ns(STATISTIC)? + ledger.unattributed_ns(STATISTIC)?);
        vec![
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
        ]
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
        if !self.ledgers.plan.has_programs() {
            notes.push(format!(
                "{path}: no program could be loaded, so what the kernel stamps for sockets (SO_TIMESTAMPING) stands for its gates; \
                 such a stamp has no twin, so its cost is in the rows beside it"
            ));
        }
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

/// Why the kernel never has such a row.
pub(super) fn absent(label: WolmanLabel) -> Option<&'static str> {
    Some(match label {
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
        _ => return None,
    })
}
