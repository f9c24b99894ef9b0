//! `wolman-transmit` and `wolman-receive`: where a message's time goes in Tollgate's own stack, in the rows of Wolman,
//! Voelker and Thekkath 1994, Tables 2 and 3, beside the paper's numbers.
//!
//! Each gate is timed from the first one, with no other gate active, and a span is the difference of the means at its two gates.
//! So the spans sum to the whole message, whatever the processor overlaps. What the rows hold differs from the paper in
//! places, which the notes under the tables say.

use tollgate_gate::ledger::WolmanLabel;
use tollgate_gate::span::Place;
use tollgate_gate::{Direction, STACK, Span, WolmanRow};
use tollgate_workload::stack_memory::gated::Chain;
use tollgate_workload::{Mode, PathId, Workload};

use super::{Experiment, wolman_kernel};
use crate::context::{Context, Options, SIZES};
use crate::error::Error;
use crate::gated::{JUMBO_MTU, Ledgers};
use crate::published;
use crate::run::{
    self, Bar, Cell, Figure, Layer, Measured, Row, RowKind, Segment, SegmentKind, Source, Table,
    TrustKind, TrustLine, Unit,
};
use crate::shapes;
use crate::words;

/// The paths whose gates are the kernel's.
const KERNEL_PATHS: [PathId; 2] = [PathId::KernelLoopback, PathId::KernelVeth];
/// Messages of a round trip.
const MESSAGES: f64 = 2.0;
/// A ledger closes when its sum lies within this share of the total.
const CLOSES: f64 = 0.05;
const NANOSECONDS_PER_MICROSECOND: f64 = 1_000.0;

/// One direction of the paper's ledger.
#[derive(Clone, Copy)]
pub(super) struct Wolman {
    direction: Direction,
}

/// Table 2.
pub(super) const TRANSMIT: Wolman = Wolman {
    direction: Direction::Tx,
};

/// Table 3.
pub(super) const RECEIVE: Wolman = Wolman {
    direction: Direction::Rx,
};

impl Wolman {
    fn table_id(&self) -> &'static str {
        match self.direction {
            Direction::Tx => "wolman-1994/table-2",
            Direction::Rx | Direction::Between => "wolman-1994/table-3",
        }
    }

    fn way(&self) -> &'static str {
        match self.direction {
            Direction::Tx => "from send() to the link",
            Direction::Rx | Direction::Between => "from the link to the return of recv()",
        }
    }
}

impl Wolman {
    /// The paper's number in nanoseconds.
    fn then(&self, label: WolmanLabel, size: usize) -> Option<f64> {
        let table = published::table(self.table_id())?;
        let us = table.cell(published_id(label)?, &size.to_string())?;
        Some(us * NANOSECONDS_PER_MICROSECOND)
    }

    fn row(&self, label: WolmanLabel, sizes: usize, cell: impl Fn(usize) -> Cell) -> Row {
        let (kind, layer, depth) = manner(label, self.direction);
        Row {
            label: name(label, self.direction).to_owned(),
            depth,
            kind,
            layer,
            note: None,
            cells: (0..sizes).map(cell).collect(),
        }
    }

    /// The paper's table.
    fn published(&self, sizes: &[usize]) -> Table {
        let rows = match self.paper() {
            None => Vec::new(),
            Some(source) => labels(self.direction)
                .into_iter()
                .filter(|label| published_id(*label).is_some())
                .map(|label| {
                    self.row(label, sizes.len(), |at| {
                        shapes::published_cell(self.then(label, sizes[at]), &source)
                    })
                })
                .collect(),
        };
        Table {
            id: "published".to_owned(),
            title: "1994, DECstation 5000/200 on ATM, ULTRIX 4.2A".to_owned(),
            columns: shapes::size_columns(sizes, Unit::Nanoseconds),
            rows,
        }
    }
}

impl Experiment for Wolman {
    fn name(&self) -> &'static str {
        match self.direction {
            Direction::Tx => "wolman-transmit",
            Direction::Rx | Direction::Between => "wolman-receive",
        }
    }

    fn title(&self) -> &'static str {
        match self.direction {
            Direction::Tx => "Where the time goes: transmit",
            Direction::Rx | Direction::Between => "Where the time goes: receive",
        }
    }

    fn paper(&self) -> Option<Source> {
        shapes::source(self.table_id())
    }

    fn summary(&self) -> &'static str {
        match self.direction {
            Direction::Tx => {
                "the layers of the kernel and of stack-memory on the way out, by size, beside the DECstation's of 1994"
            }
            Direction::Rx | Direction::Between => {
                "the layers of the kernel and of stack-memory on the way in, by size, beside the DECstation's of 1994"
            }
        }
    }

    /// Whichever comes first measures for both.
    fn weight(&self) -> u32 {
        match self.direction {
            Direction::Tx => 8,
            Direction::Rx | Direction::Between => 1,
        }
    }

    fn concerns(&self, options: &Options) -> bool {
        options.want_stack_memory() || !kernel_modes(options).is_empty()
    }

    fn run(&self, context: &mut Context<'_>) -> Result<run::Experiment, Error> {
        let sizes = context.options.sizes_or(&SIZES);
        let command = shapes::command(self.name(), &context.options);
        let mut shown = Gathered::default();
        for (path, mode) in kernel_modes(&context.options) {
            match context.kernel_ledgers(self.name(), path, mode, &sizes) {
                Ok(ledgers) => shown.add_kernel(
                    &wolman_kernel::Shown {
                        direction: self.direction,
                        sizes: &sizes,
                        ledgers: &ledgers,
                    },
                    &command,
                ),
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(error) => shown.leave_out(path, error),
            }
        }
        if context.options.want_stack_memory() {
            let ledgers = context.ledgers(self.name(), &sizes)?;
            let stack = Shown {
                wolman: self,
                sizes: &sizes,
                ledgers: &ledgers,
            };
            shown.add_stack(&stack, &command);
        }
        shown.finish(self, &sizes, command)
    }
}

/// The kernel's paths that are wanted, each in the first of its ways that fits.
fn kernel_modes(options: &Options) -> Vec<(PathId, Mode)> {
    KERNEL_PATHS
        .iter()
        .filter(|&&path| options.wants(path))
        .filter_map(|&path| {
            let capabilities = tollgate_workload::find(path)?.capabilities();
            Some((path, options.modes(&capabilities).first().copied()?))
        })
        .collect()
}

/// What several paths have to show.
#[derive(Default)]
struct Gathered {
    findings: Vec<String>,
    tables: Vec<Table>,
    figures: Vec<Figure>,
    trust: Vec<TrustLine>,
    /// The first reason why a path was left out.
    refused: Option<Error>,
}

impl Gathered {
    fn add_kernel(&mut self, shown: &wolman_kernel::Shown<'_>, command: &str) {
        self.findings.extend(shown.finding());
        self.tables.extend(shown.tables());
        self.figures.extend(shown.figures(command));
        self.trust.extend(shown.trust());
    }

    fn leave_out(&mut self, path: PathId, error: Error) {
        self.trust
            .push(shapes::warning(format!("{path} is left out: {error}")));
        self.refused.get_or_insert(error);
    }

    /// The stack's tables come first: readers compare with them.
    fn add_stack(&mut self, shown: &Shown<'_>, command: &str) {
        self.findings.insert(0, shown.finding());
        self.tables
            .splice(0..0, [shown.today(), shown.shares(), shown.closure()]);
        let mut figures = vec![shown.by_span(command)];
        if shown.wolman.direction == Direction::Tx {
            figures.push(shown.round_trips(command));
        }
        self.figures.splice(0..0, figures);
        self.trust.splice(0..0, shown.trust());
    }

    fn finish(
        mut self,
        wolman: &Wolman,
        sizes: &[usize],
        command: String,
    ) -> Result<run::Experiment, Error> {
        if self.tables.is_empty() {
            return Err(self.refused.unwrap_or(Error::NothingToRun {
                workload: Workload::Rr,
                asked: "the paths that have gates".to_owned(),
            }));
        }
        self.tables.insert(1, wolman.published(sizes));
        Ok(run::Experiment {
            name: wolman.name().to_owned(),
            title: wolman.title().to_owned(),
            paper: wolman.paper(),
            finding: self.findings.join(" "),
            command,
            tables: self.tables,
            figures: self.figures,
            trust: self.trust,
        })
    }
}

/// The labels of one direction in the order of the paper, its sum below the rows of TCP.
pub(super) fn labels(direction: Direction) -> Vec<WolmanLabel> {
    let mut labels = Vec::new();
    let rows = WolmanRow::of(direction);
    for (at, &row) in rows.iter().enumerate() {
        labels.push(WolmanLabel::Row(row));
        if row.is_tcp() && !rows.get(at + 1).is_some_and(|next| next.is_tcp()) {
            labels.push(WolmanLabel::TcpTotal);
        }
    }
    labels.extend([WolmanLabel::NotInPaper, WolmanLabel::Total]);
    labels
}

/// The id of a label's row in the published tables; none when it is not in the paper.
fn published_id(label: WolmanLabel) -> Option<&'static str> {
    Some(match label {
        WolmanLabel::Row(row) => match row {
            WolmanRow::User => "user",
            WolmanRow::Checksum => "tcp.checksum",
            WolmanRow::Mcopy => "tcp.mcopy",
            WolmanRow::Segment => "tcp.segment",
            WolmanRow::Ip => "ip",
            WolmanRow::Atm => "atm",
            WolmanRow::Ipq => "ipq",
            WolmanRow::Wakeup => "wakeup",
        },
        WolmanLabel::TcpTotal => "tcp",
        WolmanLabel::NotInPaper => return None,
        WolmanLabel::Total => "total",
    })
}

/// The name of a row: the paper's, and what it is today where that differs.
pub(super) fn name(label: WolmanLabel, direction: Direction) -> &'static str {
    match label {
        WolmanLabel::Row(WolmanRow::Checksum) => "TCP checksum",
        WolmanLabel::Row(WolmanRow::Mcopy) => "TCP mcopy",
        WolmanLabel::Row(WolmanRow::Segment) => "TCP segment",
        WolmanLabel::Row(WolmanRow::Atm) => "ATM (driver)",
        WolmanLabel::NotInPaper => match direction {
            Direction::Tx => "device queue",
            Direction::Rx | Direction::Between => "socket queue",
        },
        WolmanLabel::Row(_) | WolmanLabel::TcpTotal | WolmanLabel::Total => label.name(),
    }
}

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

pub(super) fn manner(label: WolmanLabel, direction: Direction) -> (RowKind, Option<Layer>, u8) {
    match label {
        WolmanLabel::Row(row) => match row {
            WolmanRow::User => (RowKind::Processing, Some(Layer::Socket), 0),
            WolmanRow::Checksum | WolmanRow::Mcopy | WolmanRow::Segment => {
                (RowKind::Processing, Some(Layer::Tcp), 1)
            }
            WolmanRow::Ip => (RowKind::Processing, Some(Layer::Ip), 0),
            WolmanRow::Atm => (RowKind::Processing, Some(Layer::Driver), 0),
            WolmanRow::Ipq => (RowKind::Queueing, Some(Layer::Link), 0),
            WolmanRow::Wakeup => (RowKind::Queueing, Some(Layer::Scheduler), 0),
        },
        WolmanLabel::NotInPaper => {
            let layer = match direction {
                Direction::Tx => Layer::Device,
                Direction::Rx | Direction::Between => Layer::Socket,
            };
            (RowKind::Queueing, Some(layer), 0)
        }
        WolmanLabel::TcpTotal | WolmanLabel::Total => (RowKind::Total, None, 0),
    }
}

/// The gates that bound a row, where one pair does.
fn gates(label: WolmanLabel, direction: Direction) -> Option<String> {
    let wanted = match label {
        WolmanLabel::Row(row) => Some(row),
        WolmanLabel::NotInPaper => None,
        WolmanLabel::TcpTotal | WolmanLabel::Total => return None,
    };
    let mut spans = STACK
        .spans()
        .iter()
        .filter(|span| span.direction == direction && span.wolman == wanted);
    let first = spans.next()?;
    let last = spans.next_back().unwrap_or(first);
    Some(format!("{} -> {}", first.from.name(), last.to.name()))
}

pub(super) fn layer(layer: tollgate_gate::Layer) -> Layer {
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

/// What an experiment shows.
struct Shown<'a> {
    wolman: &'a Wolman,
    sizes: &'a [usize],
    ledgers: &'a Ledgers,
}

impl Shown<'_> {
    fn ns(&self, label: WolmanLabel, at: usize) -> Option<f64> {
        line_ns(self.ledgers.chain(at)?, self.wolman.direction, label)
    }

    fn then(&self, label: WolmanLabel, at: usize) -> Option<f64> {
        self.wolman.then(label, self.sizes[at])
    }

    fn row(&self, label: WolmanLabel, cell: impl Fn(usize) -> Cell) -> Row {
        self.wolman.row(label, self.sizes.len(), cell)
    }

    fn missing(&self, label: WolmanLabel, at: usize) -> Cell {
        let failure = self.ledgers.sizes[at].failure.clone();
        Cell::NotAvailable {
            reason: failure.unwrap_or_else(|| absent(label).to_owned()),
        }
    }

    fn today(&self) -> Table {
        let cell = |label, at: usize| match self.ns(label, at) {
            Some(value) => Cell::Value(Measured {
                value,
                n: self.ledgers.chain(at).map(Chain::least_messages),
                ..Measured::default()
            }),
            None => self.missing(label, at),
        };
        let rows = labels(self.wolman.direction).into_iter().map(|label| Row {
            note: gates(label, self.wolman.direction),
            ..self.row(label, |at| cell(label, at))
        });
        Table {
            id: "today".to_owned(),
            title: format!(
                "Today, stack-memory, {}, per message{}",
                self.wolman.way(),
                self.large_packets()
                    .map_or_else(String::new, |sizes| format!(
                        "; {sizes} in one segment, MTU {JUMBO_MTU}"
                    ))
            ),
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

    fn shares(&self) -> Table {
        let mut rows = Vec::new();
        for label in labels(self.wolman.direction) {
            if label == WolmanLabel::Total {
                continue;
            }
            let share = |part: Option<f64>, total: Option<f64>| {
                Some(100.0 * part? / total.filter(|total| *total > 0.0)?)
            };
            rows.push(self.row(label, |at| {
                match share(self.ns(label, at), self.ns(WolmanLabel::Total, at)) {
                    Some(value) => Cell::exact(value),
                    None if self.ns(label, at).is_some() => Cell::NotAvailable {
                        reason: "the sum of the spans is not above zero".to_owned(),
                    },
                    None => self.missing(label, at),
                }
            }));
            if published_id(label).is_some()
                && let Some(source) = self.wolman.paper()
            {
                let (_, _, depth) = manner(label, self.wolman.direction);
                rows.push(Row {
                    label: "in 1994".to_owned(),
                    depth: depth + 1,
                    kind: RowKind::Plain,
                    layer: None,
                    note: None,
                    cells: (0..self.sizes.len())
                        .map(|at| {
                            let then =
                                share(self.then(label, at), self.then(WolmanLabel::Total, at));
                            shapes::published_cell(then, &source)
                        })
                        .collect(),
                });
            }
        }
        Table {
            id: "shares".to_owned(),
            title: "Share of the total, today and in 1994".to_owned(),
            columns: shapes::size_columns(self.sizes, Unit::Percent),
            rows,
        }
    }

    /// The sum of both directions against the round trip without gates.
    fn closure(&self) -> Table {
        let row = |label: &str, kind, number: &dyn Fn(&Chain) -> Option<Cell>| Row {
            kind,
            ..shapes::plain_row(
                label,
                (0..self.sizes.len())
                    .map(|at| {
                        let cell = self.ledgers.chain(at).and_then(number);
                        cell.unwrap_or_else(|| self.missing(WolmanLabel::Total, at))
                    })
                    .collect(),
            )
        };
        Table {
            id: "closure".to_owned(),
            title: "Both directions, there and back, against the round trip without gates"
                .to_owned(),
            columns: shapes::size_columns(self.sizes, Unit::Nanoseconds),
            rows: vec![
                row("sum of the spans, two messages", RowKind::Plain, &|chain| {
                    Some(Cell::exact(MESSAGES * chain.sum_ns()?))
                }),
                row("unattributed", RowKind::Unattributed, &|chain| {
                    Some(Cell::exact(chain.unattributed_ns()?))
                }),
                row("round trip without gates", RowKind::Total, &|chain| {
                    Some(Cell::exact(chain.ungated_ns()?))
                }),
                row("unattributed share of it", RowKind::Plain, &|chain| {
                    Some(Cell::Text {
                        text: percent(chain.closure()?),
                    })
                }),
            ],
        }
    }

    /// The spans of this direction, per message.
    fn by_span(&self, command: &str) -> Figure {
        let bars = (0..self.sizes.len())
            .filter_map(|at| {
                let segments = segments(self.ledgers.chain(at)?, 1.0, |direction| {
                    direction == self.wolman.direction
                });
                Some(Bar {
                    label: words::size(self.sizes[at]),
                    total_measured: None,
                    segments,
                })
            })
            .collect();
        Figure::StackedBars {
            title: format!("A message {}, by span", self.wolman.way()),
            unit: Unit::Nanoseconds,
            bars,
            command: command.to_owned(),
        }
    }

    /// All spans of a round trip, with the round trip without gates.
    fn round_trips(&self, command: &str) -> Figure {
        let bars = (0..self.sizes.len())
            .filter_map(|at| {
                let chain = self.ledgers.chain(at)?;
                Some(Bar {
                    label: words::size(self.sizes[at]),
                    total_measured: chain.ungated_ns(),
                    segments: segments(chain, MESSAGES, |_| true),
                })
            })
            .collect();
        Figure::StackedBars {
            title: "A round trip over stack-memory, both directions, by span".to_owned(),
            unit: Unit::Nanoseconds,
            bars,
            command: command.to_owned(),
        }
    }

    /// How long it takes, how that compares, and what the largest row is.
    fn finding(&self) -> String {
        let Some(at) = [200, 4, 1_400]
            .iter()
            .filter_map(|wanted| self.sizes.iter().position(|size| size == wanted))
            .chain(0..self.sizes.len())
            .find(|&at| self.ns(WolmanLabel::Total, at).is_some())
        else {
            return "Nothing was measured.".to_owned();
        };
        let size = words::whole(self.sizes[at] as u64);
        let total = self.ns(WolmanLabel::Total, at).unwrap_or(f64::NAN);
        let mut text = format!(
            "A {size}-byte message takes {} {}",
            words::duration(total),
            self.wolman.way()
        );
        let then = self.then(WolmanLabel::Total, at);
        if let Some(then) = then {
            text.push_str(&format!(
                ", where it took {} in 1994, {} times as long",
                words::duration(then),
                words::significant(then / total)
            ));
        }
        let largest = labels(self.wolman.direction)
            .into_iter()
            .filter(|label| matches!(label, WolmanLabel::Row(_) | WolmanLabel::NotInPaper))
            .filter_map(|label| Some((label, self.ns(label, at)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((label, ns)) = largest {
            text.push_str(&format!(
                "; most of it is {} with {:.0} %",
                name(label, self.wolman.direction),
                100.0 * ns / total
            ));
            if let (Some(part), Some(whole)) = (self.then(label, at), then) {
                text.push_str(&format!(" (then {:.0} %)", 100.0 * part / whole));
            }
        }
        let last = self.sizes.len() - 1;
        let label = WolmanLabel::Row(WolmanRow::Checksum);
        if let (Some(part), Some(whole), Some(then), Some(then_whole)) = (
            self.ns(label, last),
            self.ns(WolmanLabel::Total, last),
            self.then(label, last),
            self.then(WolmanLabel::Total, last),
        ) {
            text.push_str(&format!(
                "; at {} bytes the checksum has {:.0} % (then {:.0} %)",
                words::whole(self.sizes[last] as u64),
                100.0 * part / whole,
                100.0 * then / then_whole
            ));
        }
        let open = self
            .ledgers
            .chain(at)
            .and_then(Chain::closure)
            .filter(|closure| closure.abs() > CLOSES);
        if let Some(closure) = open {
            text.push_str(&format!(
                "; the ledger does not close: {:.0} % of a {size}-byte round trip is unattributed",
                100.0 * closure
            ));
        }
        text.push('.');
        text
    }

    /// The least and the most of what a number is over the sizes.
    fn over_sizes(&self, number: impl Fn(&Chain) -> Option<f64>) -> Option<(f64, f64)> {
        let values: Vec<f64> = (0..self.sizes.len())
            .filter_map(|at| number(self.ledgers.chain(at)?))
            .collect();
        ends(&values)
    }

    fn trust(&self) -> Vec<TrustLine> {
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
                text: format!(
                    "{} on the round trip without gates: {} of it is unattributed, over the sizes",
                    if holds { "closes" } else { "does not close" },
                    between_percents(low, high)
                ),
            });
        }
        if let Some((low, high)) = self.over_sizes(Chain::unattributed_ns) {
            lines.push(TrustLine {
                kind: TrustKind::Residual,
                value: Some(if high.abs() > low.abs() { high } else { low }),
                unit: Unit::Nanoseconds,
                holds: true,
                text: format!(
                    "the unattributed time is {} to {} of a round trip: the applications' own part, and what the gates \
                     disturb",
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
        let probes = self.over_sizes(|chain| Some(chain.probe_ns()));
        if let (Some(messages), Some((low, high))) = (messages, probes) {
            notes.push(format!(
                "each gate is timed from the first one, over {messages} messages of each size; a span is the difference \
                 of the means at its two gates, so the spans sum to the message; means are those of the middle half of \
                 the slices; a passage costs {} to {} as \
                 measured in place, which is subtracted",
                words::duration(low),
                words::duration(high)
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

pub(super) const fn segment_kind(kind: tollgate_gate::Kind) -> SegmentKind {
    match kind {
        tollgate_gate::Kind::Processing => SegmentKind::Processing,
        tollgate_gate::Kind::Queueing => SegmentKind::Queueing,
    }
}

/// The times as lengths: one below zero gets none, and what it lacks is taken off those after it, then off those before it.
/// So the sum stays, unless it is below zero itself.
pub(super) fn lengths(mut times: Vec<f64>) -> Vec<f64> {
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
pub(super) fn ends(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    Some((low, high))
}

/// `-1.2 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// `-1.2 % to 3.4 %`.
pub(super) fn between_percents(low: f64, high: f64) -> String {
    format!("{} to {}", percent(low), percent(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_not_negative_and_keep_the_sum() {
        assert_eq!(lengths(vec![5.0, -2.0, 3.0]), [5.0, 0.0, 1.0]);
        assert_eq!(lengths(vec![5.0, -2.0, 1.0, -1.5]), [2.5, 0.0, 0.0, 0.0]);
        assert_eq!(lengths(vec![-1.0, -1.0, 4.0]), [0.0, 0.0, 2.0]);
        assert_eq!(lengths(vec![-1.0]), [0.0]);
        assert!(lengths(Vec::new()).is_empty());
    }

    #[test]
    fn every_row_of_the_paper_has_its_line() {
        for wolman in [&TRANSMIT, &RECEIVE] {
            let labels = labels(wolman.direction);
            for row in WolmanRow::of(wolman.direction) {
                let label = WolmanLabel::Row(*row);
                assert_eq!(labels.iter().filter(|one| **one == label).count(), 1);
            }
            let table = published::table(wolman.table_id()).unwrap();
            for label in labels {
                if let Some(id) = published_id(label) {
                    assert!(table.cell(id, "4").is_some(), "{id}");
                }
            }
        }
    }
}
