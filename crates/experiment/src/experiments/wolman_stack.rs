//! `wolman-transmit` and `wolman-receive` on `stack-memory`: the tables, figures and lines of trust of the stack's own gates
//! ([`crate::gated`]) in the rows of Wolman, Voelker and Thekkath 1994.

use tollgate_gate::ledger::WolmanLabel;
use tollgate_gate::span::Place;
use tollgate_gate::{Direction, Kind, Layer, STACK, Span, WolmanRow};
use tollgate_workload::PathId;
use tollgate_workload::stack_memory::gated::Chain;

use super::wolman::{
    Wolman, between_percents, ends, labels, layer, lengths, percent, segment_kind,
};
use super::wolman_joined::Part;
use crate::claim;
use crate::gated::{JUMBO_MTU, Ledgers};
use crate::run::{
    Cell, Interval, Measured, Row, RowKind, Segment, Table, TrustKind, TrustLine, Unit,
};
use crate::shapes;
use crate::words;

/// Messages of a round trip.
const MESSAGES: f64 = 2.0;
/// A ledger closes when its sum lies within this share of the total.
const CLOSES: f64 = 0.05;

/// Why there is no such row today.
fn absent(label: WolmanLabel) -> &'static str {
    match label {
        WolmanLabel::Row(WolmanRow::Mcopy) => {
            "retransmission keeps a reference to the buffer, so there is no such copy"
        }
        WolmanLabel::Row(WolmanRow::Wakeup) => "the reader polls, so nobody is woken",
        _ => "the run was stopped before it came to this",
    }
}

/// What an experiment shows.
pub(super) struct Shown<'a> {
    pub(super) wolman: &'a Wolman,
    pub(super) sizes: &'a [usize],
    pub(super) ledgers: &'a Ledgers,
}

impl Shown<'_> {
    /// A number of the size at this place with its interval; none when it was not measured.
    fn number(&self, at: usize, number: impl Fn(&Chain) -> Option<f64>) -> Option<Cell> {
        Some(Cell::Value(Measured {
            value: number(self.ledgers.chain(at)?)?,
            ci: self.ledgers.interval(at, number).map(Interval::from),
            ..Measured::default()
        }))
    }

    /// The same of what is told per message.
    fn per_message(&self, at: usize, number: impl Fn(&Chain) -> Option<f64>) -> Option<Cell> {
        let messages = self.ledgers.chain(at)?.least_messages();
        Some(match self.number(at, number)? {
            Cell::Value(measured) => Cell::Value(Measured {
                n: Some(messages),
                ..measured
            }),
            other => other,
        })
    }

    fn missing(&self, label: WolmanLabel, at: usize) -> Cell {
        let failure = self.ledgers.sizes[at].failure.clone();
        Cell::NotAvailable {
            reason: failure.unwrap_or_else(|| absent(label).to_owned()),
        }
    }

    /// What is shown beside the other paths.
    pub(super) fn part(&self) -> Part {
        let direction = self.wolman.direction;
        let cells = |label| {
            let cell = |at: usize| {
                self.per_message(at, |chain| line_ns(chain, direction, label))
                    .unwrap_or_else(|| self.missing(label, at))
            };
            (0..self.sizes.len()).map(cell).collect()
        };
        let chains = || (0..self.sizes.len()).map(|at| self.ledgers.chain(at));
        Part {
            name: PathId::StackMemory.to_string(),
            label: PathId::StackMemory.to_string(),
            lines: labels(direction)
                .into_iter()
                .map(|label| (label, cells(label)))
                .collect(),
            tables: vec![self.spans()],
            closure: self.closure(),
            open: chains()
                .map(|chain| chain?.closure().filter(|closure| closure.abs() > CLOSES))
                .collect(),
            messages: chains()
                .map(|chain| Some(segments(chain?, 1.0, |one| one == direction)))
                .collect(),
            round_trips: chains()
                .map(|chain| {
                    let chain = chain?;
                    Some((chain.ungated_ns()?, round_trip(chain)))
                })
                .collect(),
        }
    }

    /// The stack's own spans, one by one.
    fn spans(&self) -> Table {
        let spans = STACK.spans().iter().enumerate();
        let own = spans.filter(|(_, span)| span.direction == self.wolman.direction);
        let rows = own.map(|(index, span)| Row {
            label: span.name.to_owned(),
            depth: u8::from(span.place == Place::Inside),
            kind: match span.kind {
                Kind::Processing => RowKind::Processing,
                Kind::Queueing => RowKind::Queueing,
            },
            layer: Some(layer(span.layer)),
            note: Some(format!("{} -> {}", span.from.name(), span.to.name())),
            cells: (0..self.sizes.len())
                .map(|at| {
                    match self.per_message(at, |chain| chain.own_ns(index)) {
                        Some(cell) => cell,
                        None if self.ledgers.chain(at).is_some() => Cell::NotAvailable {
                            reason: "its gates are not passed on this way; its time, if any, is in the span around it"
                                .to_owned(),
                        },
                        None => self.missing(WolmanLabel::Total, at),
                    }
                })
                .collect(),
        });
        Table {
            id: format!("spans-{}", PathId::StackMemory),
            title: format!("The spans of {}, per message", PathId::StackMemory),
            columns: shapes::size_columns(self.sizes, Unit::Nanoseconds),
            rows: rows.collect(),
        }
    }

    /// The sizes that have packets of a larger MTU than the usual one.
    fn large_packets(&self) -> Option<String> {
        let sizes: Vec<String> = self
            .ledgers
            .sizes
            .iter()
            .filter(|gated| gated.mtu == JUMBO_MTU)
            .map(|gated| words::size(gated.size))
            .collect();
        (!sizes.is_empty()).then(|| words::list(&sizes))
    }

    /// The sum of both directions against the round trip without gates.
    fn closure(&self) -> Vec<Row> {
        let row = |label: &str, kind, cell: &dyn Fn(usize) -> Option<Cell>| Row {
            kind,
            ..shapes::plain_row(
                label,
                (0..self.sizes.len())
                    .map(|at| cell(at).unwrap_or_else(|| self.missing(WolmanLabel::Total, at)))
                    .collect(),
            )
        };
        vec![
            row("sum of the spans, two messages", RowKind::Plain, &|at| {
                self.number(at, |chain| Some(MESSAGES * chain.sum_ns()?))
            }),
            row("applications, two turns", RowKind::Plain, &|at| {
                self.number(at, |chain| Some(MESSAGES * chain.application_ns()?))
            }),
            row("unattributed", RowKind::Unattributed, &|at| {
                self.number(at, Chain::unattributed_ns)
            }),
            row("round trip without gates", RowKind::Total, &|at| {
                self.number(at, Chain::ungated_ns)
            }),
            row("unattributed share of it", RowKind::Plain, &|at| {
                Some(Cell::Text {
                    text: percent(self.ledgers.chain(at)?.closure()?),
                })
            }),
        ]
    }

    /// The least and the most of what a number is over the sizes.
    fn over_sizes(&self, number: impl Fn(&Chain) -> Option<f64>) -> Option<(f64, f64)> {
        let values: Vec<f64> = (0..self.sizes.len())
            .filter_map(|at| number(self.ledgers.chain(at)?))
            .collect();
        ends(&values)
    }

    pub(super) fn trust(&self) -> Vec<TrustLine> {
        let mut lines = self.figures_of_trust();
        lines.extend(self.how_it_was_measured().into_iter().map(shapes::note));
        for gated in &self.ledgers.sizes {
            if let Some(reason) = &gated.failure {
                lines.push(shapes::warning(format!(
                    "{} failed: {reason}",
                    words::size(gated.size)
                )));
            }
        }
        if self.ledgers.stopped {
            lines.push(shapes::warning(
                "the run was stopped; what is shown was measured until then",
            ));
        }
        lines
    }

    /// Closure, residual, perturbation, events lost, join rate.
    fn figures_of_trust(&self) -> Vec<TrustLine> {
        let mut lines = Vec::new();
        if let Some((low, high)) = self.over_sizes(Chain::closure) {
            let worst = low.abs().max(high.abs());
            let holds = worst <= CLOSES;
            lines.push(TrustLine {
                kind: TrustKind::Closure,
                value: Some(100.0 * worst),
                unit: Unit::Percent,
                holds,
                text: if worst > 1.0 {
                    claim::does_not_close(worst)
                } else {
                    format!(
                        "{} on the round trip without gates: {} of it is unattributed, over the sizes",
                        if holds { "closes" } else { "does not close" },
                        between_percents(low, high)
                    )
                },
            });
        }
        if let Some((low, high)) = self.over_sizes(Chain::unattributed_ns) {
            lines.push(TrustLine {
                kind: TrustKind::Residual,
                value: Some(if high.abs() > low.abs() { high } else { low }),
                unit: Unit::Nanoseconds,
                holds: true,
                text: format!(
                    "the unattributed time is {} to {} of a round trip: what else the gates disturb",
                    words::duration(low),
                    words::duration(high)
                ),
            });
        }
        if let Some((low, high)) = self.over_sizes(Chain::perturbation) {
            lines.push(TrustLine {
                kind: TrustKind::Perturbation,
                value: Some(100.0 * if high.abs() > low.abs() { high } else { low }),
                unit: Unit::Percent,
                holds: true,
                text: format!(
                    "slices in which every round trip is recorded, two gates at a time, take {} longer",
                    between_percents(low, high)
                ),
            });
        }
        let lost: u64 = (0..self.sizes.len())
            .filter_map(|at| Some(self.ledgers.chain(at)?.join_stats().lost))
            .sum();
        lines.push(TrustLine {
            kind: TrustKind::EventsLost,
            value: Some(lost as f64),
            unit: Unit::Count,
            holds: lost == 0,
            text: format!("{} events lost", words::whole(lost)),
        });
        if let Some((low, _)) = self.over_sizes(|chain| chain.join_stats().join_rate()) {
            lines.push(TrustLine {
                kind: TrustKind::JoinRate,
                value: Some(100.0 * low),
                unit: Unit::Percent,
                holds: low >= 0.98,
                text: format!(
                    "at least {:.2} % of the messages joined from the first gate to the other",
                    100.0 * low
                ),
            });
        }
        lines
    }

    /// What the numbers are, and where they differ from the paper's.
    fn how_it_was_measured(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let chains = || (0..self.sizes.len()).filter_map(|at| self.ledgers.chain(at));
        let messages = words::range(chains().map(Chain::least_messages));
        let probes = self.over_sizes(Chain::probe_ns);
        if let (Some(messages), Some((low, high))) = (messages, probes) {
            notes.push(format!(
                "each gate is timed from the first one, over {messages} messages of each size; a span is the difference \
                 of the means at its two gates, so the spans sum to the message; means are those of the middle half of \
                 the slices; a passage adds {} to {}, as a further gate on the way shows, which is subtracted: the \
                 processor does other things while it reads the clock",
                words::duration(low),
                words::duration(high)
            ));
        }
        if let Some((low, high)) = self.over_sizes(Chain::asleep) {
            notes.push(format!(
                "with all gates asleep the code that has them takes {} longer than the code without; times are brought to the latter",
                between_percents(low - 1.0, high - 1.0)
            ));
        }
        if let Some(chain) = chains().next() {
            notes.push(format!(
                "the clock's step is {}; means of many are known better than that, but a span shorter than the step is \
                 printed as it came out, with its sign (figures take what is below zero off its neighbours)",
                words::duration(chain.clock().resolution_ns())
            ));
        }
        if let Some(sizes) = self.large_packets() {
            notes.push(format!(
                "messages of {sizes} are timed with MTU {JUMBO_MTU}, since gate by gate a message must be one segment; the \
                 default MTU of 1500 would cut them into several (in 1994, 8,000 bytes went in two)"
            ));
        }
        notes.push(
            match self.wolman.direction {
                Direction::Tx => {
                    "the payload is summed while send() copies it, so that pass is in User; TCP checksum is the writing of \
                     the headers from their template with that sum folded in"
                }
                Direction::Rx | Direction::Between => {
                    "the payload is summed while it is copied into the reader's buffer, so TCP checksum holds that copy, \
                     too"
                }
            }
            .to_owned(),
        );
        notes
    }
}

/// A line of the paper's table in nanoseconds per message; none when it has no span, or one that was not measured.
fn line_ns(chain: &Chain, direction: Direction, label: WolmanLabel) -> Option<f64> {
    let counts = |row: Option<WolmanRow>| match label {
        WolmanLabel::Row(wanted) => row == Some(wanted),
        WolmanLabel::TcpTotal => row.is_some_and(WolmanRow::is_tcp),
        WolmanLabel::NotInPaper => row.is_none(),
        WolmanLabel::Total => true,
    };
    let mut sum = None;
    for (at, span) in STACK.spans().iter().enumerate() {
        if span.direction != direction || !counts(span.wolman) {
            continue;
        }
        match chain.own_ns(at) {
            Some(ns) => sum = Some(sum.unwrap_or(0.0) + ns),
            // Its time, if any, is in the span around it.
            None if span.place == Place::Inside => {}
            None => return None,
        }
    }
    sum
}

/// The own times of the spans of so many messages, as segments that sum to the messages' time.
fn segments(chain: &Chain, messages: f64, wanted: impl Fn(Direction) -> bool) -> Vec<Segment> {
    let (spans, own): (Vec<&Span>, Vec<f64>) = STACK
        .spans()
        .iter()
        .enumerate()
        .filter(|(_, span)| wanted(span.direction))
        .filter_map(|(at, span)| Some((span, messages * chain.own_ns(at)?)))
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

/// Both messages of a round trip and what the applications do between them.
fn round_trip(chain: &Chain) -> Vec<Segment> {
    let mut all = segments(chain, MESSAGES, |_| true);
    let turns = chain.application_ns().map(|ns| MESSAGES * ns);
    all.extend(turns.filter(|ns| *ns > 0.0).map(|value| Segment {
        label: "application".to_owned(),
        layer: Some(layer(Layer::Socket)),
        kind: segment_kind(Kind::Processing),
        value,
    }));
    all
}

#[cfg(test)]
mod tests {
    use tollgate_workload::stack_memory::gated::{Gating, chained};
    use tollgate_workload::{Placement, Spec, Waiting, Workload};

    use super::*;

    #[test]
    fn a_round_trip_is_drawn_with_the_applications_turns() {
        let spec = Spec::new(Workload::Rr, 80).with_mode(Placement::OneCore, Waiting::BusyPoll);
        let gating = Gating {
            round_trips: 64,
            rounds: 1,
            ..Gating::default().of_every_round_trip()
        };
        let chain = chained(&spec, &gating).unwrap();
        let drawn: f64 = round_trip(&chain).iter().map(|segment| segment.value).sum();
        let messages = MESSAGES * chain.message_ns().unwrap();
        let turns = MESSAGES * chain.application_ns().unwrap();
        assert!(
            (drawn - messages.max(0.0) - turns.max(0.0)).abs() < 1e-6,
            "{drawn}"
        );
    }
}
