//! `wolman-transmit` and `wolman-receive` on the kernel's paths: the tables, figures and lines of trust of a run of rotating gates
//! ([`crate::kernel_gated`]) in the rows of Wolman, Voelker and Thekkath 1994, and in the kernel's own spans.

use tollgate_gate::ledger::{WolmanLabel, WolmanLine};
use tollgate_gate::span::Place;
use tollgate_gate::{Direction, Gate, Ledger, Span, WolmanRow};
use tollgate_stats::Interval;

use super::wolman::{between_percents, ends, labels, layer, lengths, percent, segment_kind};
use super::wolman_joined::Part;
use crate::claim;
use crate::kernel_gated::{FOLLOWED, Gated, Ledgers, Perturbation, SLEPT, STATISTIC, twinned};
use crate::run::{self, Cell, Measured, Row, RowKind, Segment, Table, TrustKind, TrustLine, Unit};
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
        let sizes = || (0..self.sizes.len()).map(|at| self.ledgers.at(at));
        Part {
            name: self.ledgers.path.to_string(),
            label: self.ledgers.label(),
            lines: labels(self.direction)
                .into_iter()
                .map(|label| (label, self.line_cells(label)))
                .collect(),
            tables: vec![self.spans(), self.gates()],
            closure: self.closure(),
            open: sizes()
                .map(|gated| {
                    let closure = gated?.closure()?;
                    (closure.abs() > CLOSES).then_some(closure)
                })
                .collect(),
            messages: sizes()
                .map(|gated| {
                    let ledger = gated?.usual()?;
                    Some(self.segments(ledger, 1.0, &|span| span.direction == self.direction))
                })
                .collect(),
            round_trips: sizes()
                .map(|gated| {
                    let ledger = gated?.usual()?;
                    Some((total(ledger)?, self.segments(ledger, MESSAGES, &|_| true)))
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

    fn cells(&self, cell: impl Fn(&Gated) -> Option<Cell>, reason: &str) -> Vec<Cell> {
        (0..self.sizes.len())
            .map(|at| {
                self.ledgers
                    .at(at)
                    .and_then(&cell)
                    .unwrap_or_else(|| self.missing(at, reason))
            })
            .collect()
    }

    fn line(&self, ledger: &Ledger, label: WolmanLabel) -> Option<f64> {
        let lines: Vec<WolmanLine> = ledger.wolman_rows(self.direction, STATISTIC);
        lines.iter().find(|line| line.label == label)?.ns
    }

    /// How far the sum of some spans of a round trip reaches to either side with 95 % confidence, in ns: as far as all of them together,
    /// which holds however they depend on each other. None where one of them has no interval.
    fn reach(&self, gated: &Gated, counts: impl Fn(&Span) -> bool) -> Option<f64> {
        let spans = self.ledgers.table.spans().iter().enumerate();
        spans
            .filter(|(_, span)| span.place != Place::Beside && counts(span))
            .map(|(index, _)| gated.reach(index))
            .sum()
    }

    /// Whether a span is part of one of the paper's rows.
    fn belongs(&self, span: &Span, label: WolmanLabel) -> bool {
        span.direction == self.direction
            && match label {
                WolmanLabel::Row(row) => span.wolman == Some(row),
                WolmanLabel::TcpTotal => span.wolman.is_some_and(WolmanRow::is_tcp),
                WolmanLabel::NotInPaper => span.wolman.is_none(),
                WolmanLabel::Total => true,
            }
    }

    /// One of the paper's rows.
    fn line_cells(&self, label: WolmanLabel) -> Vec<Cell> {
        self.cells(
            |gated| {
                let value = self.line(gated.usual()?, label)?;
                let reach = self.reach(gated, |span| self.belongs(span, label));
                Some(Cell::Value(Measured {
                    value,
                    ci: reach.map(|reach| around(value, reach / MESSAGES)),
                    n: Some(gated.all().join_stats().passages),
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
        let shown = (spans.iter().enumerate()).filter(|(_, span)| self.shows(span));
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
                |gated| {
                    let row = gated.all().rows().get(index).copied()?;
                    let value = gated.usual()?.own_per_unit_ns(index, STATISTIC)? / MESSAGES;
                    let net = row.net;
                    let reach = gated.reach(index).map(|reach| reach / MESSAGES);
                    Some(Cell::Value(Measured {
                        value,
                        ci: reach.map(|reach| around(value, reach)),
                        n: net.map(|net| net.n),
                        mean: net.map(|net| net.mean_ns),
                        p50: net.map(|net| net.p50_ns),
                        p99: net.map(|net| net.p99_ns),
                        p99_9: net.map(|net| net.p999_ns),
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

    /// What the gates of each span cost: by the round trip, and by a twin of the first.
    fn gates(&self) -> Table {
        let spans = self.ledgers.table.spans().iter().enumerate();
        let shown = spans.filter(|(_, span)| self.shows(span));
        let rows = shown.map(|(index, span)| {
            let probe = self.ledgers.in_place.by_twins().get(&twinned(span)[0]);
            Row {
                note: probe.map(|ns| {
                    format!(
                        "a passage of the first: {} by its twin",
                        words::duration(*ns)
                    )
                }),
                ..shapes::plain_row(
                    span.name,
                    self.cells(
                        |gated| {
                            let Perturbation {
                                share, interval, ..
                            } = gated.perturbation(index)?;
                            Some(Cell::Value(Measured {
                                value: 100.0 * share,
                                ci: interval.map(|interval| run::Interval {
                                    low: 100.0 * interval.low,
                                    high: 100.0 * interval.high,
                                }),
                                ..Measured::default()
                            }))
                        },
                        "the run was stopped before it came to this",
                    ),
                )
            }
        });
        Table {
            id: format!("gates-{}", self.ledgers.path),
            title: format!(
                "How much longer a round trip of {} is in a slice with the gates of a span",
                self.ledgers.label()
            ),
            columns: shapes::size_columns(self.sizes, Unit::Percent),
            rows: rows.collect(),
        }
    }

    /// Whether a span is shown in this direction; what lies between the directions is shown on the way in.
    fn shows(&self, span: &Span) -> bool {
        span.direction == self.direction
            || (self.direction == Direction::Rx && span.direction == Direction::Between)
    }

    /// The sum of both directions and the application against the round trip without gates.
    fn closure(&self) -> Vec<Row> {
        let stopped = "the run was stopped before it came to this";
        let row = |label: &str, kind, number: &dyn Fn(&Gated) -> Option<Cell>| Row {
            kind,
            ..shapes::plain_row(label, self.cells(number, stopped))
        };
        let text = |text| Some(Cell::Text { text });
        vec![
            row("sum of the spans", RowKind::Plain, &|gated| {
                let value = gated.usual()?.sum_ns(STATISTIC)?;
                let reach = self.reach(gated, |span| span.place == Place::OnTheWay);
                Some(Cell::Value(Measured {
                    value,
                    ci: reach.map(|reach| around(value, reach)),
                    ..Measured::default()
                }))
            }),
            row("unattributed", RowKind::Unattributed, &|gated| {
                let total = total(gated.usual()?)?;
                let share = gated.closure_interval();
                Some(Cell::Value(Measured {
                    value: gated.usual()?.unattributed_ns(STATISTIC)?,
                    ci: share.map(|share| run::Interval {
                        low: total * share.low,
                        high: total * share.high,
                    }),
                    ..Measured::default()
                }))
            }),
            row("round trip without gates", RowKind::Total, &|gated| {
                Some(Cell::exact(total(gated.usual()?)?))
            }),
            row("unattributed share of it", RowKind::Plain, &|gated| {
                text(percent(gated.closure()?))
            }),
            row("95 % interval of the share", RowKind::Plain, &|gated| {
                text(gated.closure_interval().map_or_else(
                    || "one round has none".to_owned(),
                    |interval| between_percents(interval.low, interval.high),
                ))
            }),
            row(
                "processor time of both ends, user",
                RowKind::Plain,
                &|gated| Some(Cell::exact(gated.used()?.user.as_nanos() as f64)),
            ),
            row(
                "processor time of both ends, system",
                RowKind::Plain,
                &|gated| Some(Cell::exact(gated.used()?.system.as_nanos() as f64)),
            ),
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

    /// Whether the sums close on the round trips without gates.
    fn closes(&self) -> Option<TrustLine> {
        let path = self.ledgers.path;
        let shares: Vec<(f64, Option<Interval>)> = (0..self.sizes.len())
            .filter_map(|at| {
                let gated = self.ledgers.at(at)?;
                Some((gated.closure()?, gated.closure_interval()))
            })
            .collect();
        let (low, high) = ends(&shares.iter().map(|(share, _)| *share).collect::<Vec<_>>())?;
        let worst = low.abs().max(high.abs());
        let holds = worst <= CLOSES;
        let known: Vec<Interval> = shares
            .iter()
            .filter_map(|(_, interval)| *interval)
            .collect();
        let within = if known.is_empty() {
            "how well that is known takes a second round to tell".to_owned()
        } else {
            let reach = known
                .iter()
                .map(|interval| (interval.high - interval.low) / 2.0)
                .fold(0.0, f64::max);
            let explained = known
                .iter()
                .filter(|interval| interval.contains(0.0))
                .count();
            format!(
                "which is known to ±{} at the worst; at {explained} of {} sizes the 95 % interval holds 0",
                percent(reach).trim_start_matches('+'),
                known.len()
            )
        };
        Some(TrustLine {
            kind: TrustKind::Closure,
            value: Some(100.0 * worst),
            unit: Unit::Percent,
            holds,
            text: if worst > 1.0 {
                format!("{path}: {}", claim::does_not_close(worst))
            } else {
                format!(
                    "{path}: {} on the round trip without gates: {} of it is unattributed, over the sizes, {within}",
                    if holds { "closes" } else { "does not close" },
                    between_percents(low, high)
                )
            },
        })
    }

    /// What the gates that disturb most make of a round trip.
    fn disturbs(&self) -> Option<TrustLine> {
        let path = self.ledgers.path;
        let worst = self.ledgers.worst_perturbation()?;
        let Perturbation {
            share,
            interval,
            rounds,
        } = worst.slice;
        let mut places: Vec<String> = worst
            .at
            .iter()
            .filter_map(|&(at, span)| {
                Some(format!("{span} at {}", words::size(*self.sizes.get(at)?)))
            })
            .collect();
        places.dedup();
        let interval = interval.map_or_else(String::new, |interval| {
            format!(
                " (95 % interval {})",
                between_percents(interval.low, interval.high)
            )
        });
        let longer = |share| percent(share).trim_start_matches('+').to_owned();
        Some(TrustLine {
            kind: TrustKind::Perturbation,
            value: Some(100.0 * share),
            unit: Unit::Percent,
            holds: share <= PERTURBS,
            text: format!(
                "{path}: of all spans and sizes the gates of {} disturb most and make a round trip of their slice {} longer{interval}, \
                 one that they follow {}, as told by {}, each at the place that others chose, by those gates at all sizes and that size under all gates",
                words::list(&places),
                longer(share),
                longer(worst.followed.share),
                words::counted(rounds as u64, "round", "rounds"),
            ),
        })
    }

    /// How far it can be trusted.
    pub(super) fn trust(&self) -> Vec<TrustLine> {
        let path = self.ledgers.path;
        let mut lines = Vec::new();
        lines.extend(self.closes());
        let usual = |at: usize| self.ledgers.at(at)?.usual();
        if let Some((low, high)) = self.over_sizes(|at| usual(at)?.unattributed_ns(STATISTIC)) {
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
        lines.extend(self.disturbs());
        let stats: Vec<_> = (0..self.sizes.len())
            .filter_map(|at| Some(self.ledgers.at(at)?.all().join_stats()))
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
        let probes: Vec<f64> = self.ledgers.in_place.by_twins().values().copied().collect();
        if let Some((low, high)) = ends(&probes) {
            let in_place = self.ledgers.in_place.told().map_or_else(
                || "which is subtracted".to_owned(),
                |told| {
                    format!(
                        "and {told} where it stands, by what it adds to the way across it, which is subtracted"
                    )
                },
            );
            let slowed = self.ledgers.slowed.map_or_else(String::new, |slowed| {
                format!(
                    "; all else takes {} longer with the gates, as the round trips beside show, which is taken off as well",
                    percent(slowed - 1.0)
                )
            });
            notes.push(format!(
                "{path}: each span is measured in slices with its two gates and no others, which by turns follow {FOLLOWED} round \
                 trips, with one on either side that does not count, and sleep through {SLEPT}; half a passage of each lies in the span; a passage costs {} to {} as measured in place by a twin, {in_place}{slowed}; times are means over the middle half of the round trips of \
                 each slice, percentiles are of all; gates were live {} ms after the start",
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

/// So far to either side.
fn around(value: f64, reach: f64) -> run::Interval {
    run::Interval {
        low: value - reach,
        high: value + reach,
    }
}

/// The round trip without gates.
fn total(ledger: &Ledger) -> Option<f64> {
    Some(ledger.sum_ns(STATISTIC)? + ledger.unattributed_ns(STATISTIC)?)
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
