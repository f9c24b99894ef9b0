//! `wolman-transmit` and `wolman-receive`: the ledger of one path in one mode ([`crate::ledgers`]) in the rows of Wolman, Voelker and
//! Thekkath 1994, and in the path's own spans, with its closure and what bears on trust.
//!
//! It must never compute a time that the ledger does not give.

use tollgate_analysis::summary::anatomy::DISABLED_GATES;
use tollgate_gate::span::Position;
use tollgate_gate::{Direction, Gate, Span, WolmanRow};
use tollgate_kernel::Plan;
use tollgate_measure::stack_memory::{MTU, mtu};
use tollgate_measure::{Figure, Host, Ledger, Verdict};
use tollgate_run::{
    Cell, Interval, Measured, Placement, Row, RowKind, Segment, Table, TrustKind, TrustLine, Unit,
    Waiting, format, present,
};

use super::wolman_paths::{MOST_PERTURBED, PathRows};
use super::wolman_rows::{WolmanLabel, labels};
use crate::layout::{between_percents, ends, layer, lengths, percent, segment_kind};
use crate::ledgers::{Hosts, Ledgers};

/// The share of messages that should be joined.
const LEAST_COVERAGE: f64 = 0.99;

/// The ledger of one path in one direction.
pub(super) struct LedgerTables<'a> {
    pub(super) direction: Direction,
    /// The path, and the mode where the path is shown in several.
    pub(super) name: String,
    /// The host whose spans are shown, where there are two.
    pub(super) host: Option<Host>,
    pub(super) ledgers: &'a Ledgers,
}

impl LedgerTables<'_> {
    /// The rows to stand beside the other paths.
    pub(super) fn part(&self) -> PathRows {
        let mut tables = vec![self.spans()];
        if self.direction == Direction::Tx && self.host != Some(Host::Remote) {
            tables.push(self.gates());
        }
        PathRows {
            name: self.name.clone(),
            label: self.ledgers.label(),
            lines: labels(self.direction)
                .into_iter()
                .map(|label| (label, self.line(label)))
                .collect(),
            tables,
            // The client has the round trip, and its closure.
            closure: match self.host {
                Some(Host::Remote) => Vec::new(),
                Some(Host::Local) | None => self.closure(),
            },
            open: self.by_size(|ledger| {
                let closure = ledger.closure;
                let open = closure.verdict(self.ledgers.limit()) == Verdict::DoesNotClose;
                open.then_some(closure.left.ns / closure.of_ns)
            }),
            perturbed: self.by_size(|ledger| Some(perturbed(ledger))),
            messages: (0..self.ledgers.sizes.len())
                .map(|at| self.message(at))
                .collect(),
            round_trips: (0..self.ledgers.sizes.len())
                .map(|at| self.round_trip(at))
                .collect(),
        }
    }

    fn by_size<T>(&self, of: impl Fn(&Ledger) -> Option<T>) -> Vec<Option<T>> {
        let sizes = 0..self.ledgers.sizes.len();
        sizes.map(|at| of(self.ledgers.at(at)?)).collect()
    }

    /// A row of cells; `reason` says why there is none at a size that has a ledger.
    fn cells(&self, reason: &str, cell: impl Fn(usize) -> Option<Cell>) -> Vec<Cell> {
        let sizes = self.ledgers.sizes.iter().enumerate();
        let cells = sizes.map(|(at, sized)| match &sized.ledger {
            Ok(_) => cell(at).unwrap_or_else(|| Cell::NotAvailable {
                reason: reason.to_owned(),
            }),
            Err(reason) => Cell::NotAvailable {
                reason: reason.clone(),
            },
        });
        cells.collect()
    }

    /// A figure of round trips, told for each message.
    fn per_message(&self, at: usize, figure: Figure) -> Cell {
        let joined = self.ledgers.sizes[at].joined;
        measured(self.ledgers.per_message(figure), Some(joined))
    }

    /// One of the paper's rows.
    fn line(&self, label: WolmanLabel) -> Vec<Cell> {
        let belongs = |host: Option<Host>, span: &Span| {
            host == self.host
                && span.direction == self.direction
                && match label {
                    WolmanLabel::Row(row) => span.wolman == Some(row),
                    WolmanLabel::TcpTotal => span.wolman.is_some_and(WolmanRow::is_tcp),
                    WolmanLabel::NotInPaper => span.wolman.is_none(),
                    WolmanLabel::Total => true,
                }
        };
        self.cells(self.missing_in(label), |at| {
            Some(self.per_message(at, self.ledgers.sum(at, belongs)?))
        })
    }

    /// The reason why there is no such row.
    fn missing_in(&self, label: WolmanLabel) -> &'static str {
        match (&self.ledgers.plan, label) {
            (_, WolmanLabel::Row(WolmanRow::Mcopy)) => {
                "retransmission keeps a reference to the buffer, so there is no such copy"
            }
            (_, WolmanLabel::Row(WolmanRow::Wakeup)) => "the reader polls, so nobody is woken",
            (None, label) if self.ledgers.hosts.is_some() => {
                missing_in_kernel(label).unwrap_or("no span of this host's way belongs to it")
            }
            (None, WolmanLabel::NotInPaper) => {
                "the reader's buffer is posted, so no message waits in the socket"
            }
            (Some(plan), label) => missing_in_kernel(label).unwrap_or_else(|| {
                let joined = plan.boundaries().iter().any(|one| one.hook.is_none());
                if joined {
                    "a boundary of it is not resolved here, so it lies within a row whose spans are joined"
                } else {
                    "no span of this way belongs to it"
                }
            }),
            (None, _) => "no span of this way belongs to it",
        }
    }

    /// The spans that are shown in this direction, each once, in the order of the way; what lies between the directions is shown
    /// on the way in.
    fn shown(&self) -> Vec<Span> {
        let shows = |host: Option<Host>, span: &Span| {
            host == self.host
                && (span.direction == self.direction
                    || (self.direction == Direction::Rx && span.direction == Direction::Between))
        };
        let mut spans: Vec<Span> = Vec::new();
        for stretch in self.ledgers.stretches(shows) {
            let span = self.ledgers.spans[stretch];
            if !spans.contains(&span) {
                spans.push(span);
            }
        }
        spans
    }

    /// The path's spans, one by one, each less the spans inside it.
    fn spans(&self) -> Table {
        Table {
            id: format!("spans-{}", self.id()),
            title: format!("The spans of {}, per message", self.ledgers.label()),
            columns: self.columns(Unit::Nanoseconds),
            rows: self.span_rows(),
        }
    }

    /// The rows of the spans in this direction.
    pub(super) fn span_rows(&self) -> Vec<Row> {
        let rows = self.shown().into_iter().map(|span| Row {
            label: span.name.to_owned(),
            depth: u8::from(span.position == Position::Inside),
            kind: match span.kind {
                tollgate_gate::Kind::Processing => RowKind::Processing,
                tollgate_gate::Kind::Queueing => RowKind::Queueing,
            },
            layer: Some(layer(span.layer)),
            note: Some(self.between(&span)),
            cells: self.cells("", |at| {
                let figure = self
                    .ledgers
                    .sum(at, |host, one| host == self.host && *one == span)?;
                Some(self.per_message(at, figure))
            }),
        });
        rows.collect()
    }

    fn between(&self, span: &Span) -> String {
        format!(
            "{} -> {}",
            self.hook(self.host, span.from),
            self.hook(self.host, span.to)
        )
    }

    /// The hook of a gate, in the kernel; the gate's own name, in our stack.
    fn hook(&self, host: Option<Host>, gate: Gate) -> &str {
        match (&self.ledgers.plan, &self.ledgers.hosts, host) {
            (Some(plan), ..) => hook(plan, gate),
            (None, Some(hosts), Some(host)) => hosts.boundaries(host).hook(gate).unwrap_or("none"),
            (None, ..) => gate.name(),
        }
    }

    pub(super) fn columns(&self, unit: Unit) -> Vec<tollgate_run::Column> {
        let sizes: Vec<usize> = self.ledgers.sizes.iter().map(|sized| sized.size).collect();
        present::size_columns(&sizes, unit)
    }

    pub(super) fn id(&self) -> String {
        self.name.replace(' ', "-")
    }

    /// Table of the cost of each gate in a round trip, wherever it falls.
    fn gates(&self) -> Table {
        let mut rows = Vec::new();
        let stations = self.ledgers.sizes.iter().find_map(|sized| {
            let ledger = sized.ledger.as_ref().ok()?;
            Some(ledger.way().stations().collect::<Vec<_>>())
        });
        for (place, station) in stations.into_iter().flatten().enumerate() {
            let host = self.ledgers.hosts.as_ref().map(|_| station.host);
            let kernel = self.ledgers.plan.is_some() || host.is_some();
            let label = match host {
                Some(host) => format!("{}: {}", host.name(), station.gate.name()),
                None => station.gate.name().to_owned(),
            };
            rows.push(Row {
                note: kernel.then(|| self.hook(host, station.gate).to_owned()),
                ..present::plain_row(
                    label,
                    self.cells("", |at| {
                        let cost = self.ledgers.at(at)?.gates.get(place)?;
                        Some(measured(cost.whole, None))
                    }),
                )
            });
        }
        Table {
            id: format!("gates-{}", self.id()),
            title: format!(
                "How much longer each gate makes a round trip of {}",
                self.ledgers.label()
            ),
            columns: self.columns(Unit::Nanoseconds),
            rows,
        }
    }

    /// The sum of all spans against the round trip without gates.
    pub(super) fn closure(&self) -> Vec<Row> {
        let row = |label: &str, kind, of: &dyn Fn(&Ledger) -> Option<Cell>| Row {
            kind,
            ..present::plain_row(label, self.cells("", |at| of(self.ledgers.at(at)?)))
        };
        let figure = |figure| Some(measured(figure, None));
        let mut rows = vec![row("sum of the spans", RowKind::Plain, &|ledger| {
            let all: Vec<usize> = (0..ledger.way().spans()).collect();
            figure(ledger.sum_of(&all))
        })];
        let mut ledgers = (0..self.ledgers.sizes.len()).filter_map(|at| self.ledgers.at(at));
        if ledgers.any(|ledger| ledger.disabled.is_some()) {
            rows.push(row(DISABLED_GATES, RowKind::Plain, &|ledger| {
                figure(ledger.disabled?)
            }));
        }
        rows.extend([
            row("left open", RowKind::Unattributed, &|ledger| {
                figure(ledger.closure.left)
            }),
            row("round trip without gates", RowKind::Total, &|ledger| {
                figure(ledger.total)
            }),
            row("verdict", RowKind::Plain, &|ledger| {
                Some(Cell::Text {
                    text: self.verdict(ledger),
                })
            }),
            row("all gates together add", RowKind::Plain, &|ledger| {
                figure(ledger.perturbation)
            }),
            row(
                "of it elsewhere than beside them",
                RowKind::Plain,
                &|ledger| figure(ledger.elsewhere),
            ),
        ]);
        let too_few = "too few blocks have slices without a gate between two others";
        rows.push(present::plain_row(
            "coarse spans that differ from the sum of their parts",
            self.cells(too_few, |at| {
                let text = coarse(self.ledgers.at(at)?)?;
                Some(Cell::Text { text })
            }),
        ));
        rows
    }

    /// The verdict on the closure, in words, with what is left open at the most, or with its interval.
    fn verdict(&self, ledger: &Ledger) -> String {
        let closure = ledger.closure;
        let half_width = percent(closure.left.half_width / closure.of_ns);
        let left = format!(
            "{:.1} +-{half_width}",
            100.0 * closure.left.ns / closure.of_ns
        );
        match closure.verdict(self.ledgers.limit()) {
            Verdict::Closes => format!("closes within {}", percent(closure.most_open())),
            Verdict::DoesNotClose => format!("does not close: {left}"),
            Verdict::CannotTell { times } => {
                format!("cannot tell: {left}; takes {times:.1} times as long")
            }
        }
    }

    /// The spans of a message in this direction, as lengths.
    fn message(&self, at: usize) -> Option<Vec<Segment>> {
        let wanted = |host, span: &Span| host == self.host && span.direction == self.direction;
        self.segments(at, 1.0 / self.ledgers.messages(), wanted)
    }

    /// A round trip, and its spans as lengths; the client has it where there are two hosts.
    pub(super) fn round_trip(&self, at: usize) -> Option<(f64, Vec<Segment>)> {
        let total = self.ledgers.at(at)?.total.ns;
        let shows = self.host != Some(Host::Remote);
        shows.then(|| Some((total, self.segments(at, 1.0, |_, _| true)?)))?
    }

    /// Some spans of so much of a round trip, as lengths.
    fn segments(
        &self,
        at: usize,
        part: f64,
        wanted: impl Fn(Option<Host>, &Span) -> bool,
    ) -> Option<Vec<Segment>> {
        let ledger = self.ledgers.at(at)?;
        let stretches = self.ledgers.stretches(wanted);
        let times = stretches.iter().map(|&one| ledger.spans[one].ns * part);
        let lengths = lengths(times.collect());
        let mut segments: Vec<Segment> = Vec::new();
        let mut of: Vec<(Option<Host>, Span)> = Vec::new();
        for (stretch, value) in stretches.into_iter().zip(lengths) {
            let (host, span) = (self.ledgers.host_of(stretch), self.ledgers.spans[stretch]);
            if let Some(known) = of.iter().position(|one| *one == (host, span)) {
                segments[known].value += value;
                continue;
            }
            of.push((host, span));
            segments.push(Segment {
                label: match host {
                    Some(host) => format!("{}: {}", host.name(), span.name),
                    None => span.name.to_owned(),
                },
                layer: Some(layer(span.layer)),
                kind: segment_kind(span.kind),
                value,
            });
        }
        Some(segments)
    }

    /// The lines of trust.
    pub(super) fn trust(&self) -> Vec<TrustLine> {
        self.trust_with(self.notes())
    }

    /// The lines of trust, with these notes among them.
    pub(super) fn trust_with(&self, notes: Vec<String>) -> Vec<TrustLine> {
        let mut lines = Vec::new();
        lines.extend(self.closes());
        lines.extend(self.disturbs());
        disturbed_first(&mut lines);
        lines.push(self.lost());
        lines.extend(self.coverage());
        lines.extend(self.fitted().into_iter().chain(notes).map(present::note));
        for sized in &self.ledgers.sizes {
            if let Err(reason) = &sized.ledger {
                lines.push(present::warning(format!(
                    "{}: no ledger at {}: {reason}",
                    self.name,
                    format::size(sized.size)
                )));
            }
        }
        if self.ledgers.stopped {
            lines.push(present::warning(format!(
                "{}: the run was stopped; what is shown was measured until then",
                self.name
            )));
        }
        lines
    }

    /// Tells whether the sums close on the round trips without gates.
    fn closes(&self) -> Option<TrustLine> {
        let limit = self.ledgers.limit();
        let sizes = self.ledgers.sizes.iter();
        let closures: Vec<_> = sizes
            .filter_map(|sized| Some((sized.size, sized.ledger.as_ref().ok()?)))
            .map(|(size, ledger)| (size, ledger, ledger.closure.verdict(limit)))
            .collect();
        let worst = closures.iter().map(|(_, ledger, _)| {
            let closure = ledger.closure;
            (
                closure.left.ns / closure.of_ns,
                closure.left.half_width / closure.of_ns,
            )
        });
        let worst = worst.max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()))?;
        let of = |wanted: fn(Verdict) -> bool| {
            let sizes = closures.iter().filter(|(_, _, verdict)| wanted(*verdict));
            sizes
                .map(|(size, _, _)| format::size(*size))
                .collect::<Vec<_>>()
        };
        let open = of(|verdict| verdict == Verdict::DoesNotClose);
        let unknown = of(|verdict| matches!(verdict, Verdict::CannotTell { .. }));
        let closed = closures.len() - open.len() - unknown.len();
        let mut text = format!(
            "{}: closes at {closed} of {}",
            self.name,
            format::counted(closures.len() as u64, "size", "sizes")
        );
        if !open.is_empty() {
            text.push_str(&format!(", does not close at {}", format::list(&open)));
        }
        if !unknown.is_empty() {
            text.push_str(&format!(", cannot tell at {}", format::list(&unknown)));
        }
        text.push_str(&format!(
            "; at the worst {:.1} +-{} of the round trip without gates is left open",
            100.0 * worst.0,
            percent(worst.1)
        ));
        let names = |ledger: &Ledger| {
            let spans = ledger
                .unseen_by_closure()
                .map(|one| self.ledgers.spans[one].name);
            let mut names: Vec<String> = spans.map(str::to_owned).collect();
            names.dedup();
            names
        };
        // The size whose closure sees least.
        let blind = closures.iter().map(|(_, ledger, _)| names(ledger));
        let shorter = match blind.max_by_key(Vec::len).filter(|names| !names.is_empty()) {
            Some(names) => format!(
                "spans shorter than its interval ({}), or ",
                format::list(&names)
            ),
            None => String::new(),
        };
        text.push_str(&format!(
            "; a closure cannot see {shorter}time in the wrong span (`tollgate doctor --self-test` can)"
        ));
        Some(TrustLine {
            kind: TrustKind::Closure,
            value: Some(100.0 * worst.0.abs()),
            unit: Unit::Percent,
            holds: open.is_empty() && unknown.is_empty(),
            text,
        })
    }

    /// The line of trust on the gates' cost in a round trip.
    fn disturbs(&self) -> Option<TrustLine> {
        let shares = self.by_size(|ledger| Some(perturbed(ledger)));
        let shares: Vec<(f64, f64)> = shares.into_iter().flatten().collect();
        disturbs(&self.name, self.ledgers.spans.len(), &shares)
    }

    fn lost(&self) -> TrustLine {
        let lost: u64 = self.ledgers.sizes.iter().map(|sized| sized.lost).sum();
        TrustLine {
            kind: TrustKind::EventsLost,
            value: Some(lost as f64),
            unit: Unit::Count,
            holds: lost == 0,
            text: format!(
                "{}: {} lost",
                self.name,
                format::counted(lost, "event", "events")
            ),
        }
    }

    fn coverage(&self) -> Option<TrustLine> {
        let sizes = self.ledgers.sizes.iter();
        let rates = sizes.clone().filter(|sized| sized.messages > 0);
        let rate = rates
            .map(|sized| sized.joined as f64 / sized.messages as f64)
            .reduce(f64::min)?;
        let messages: u64 = sizes.clone().map(|sized| sized.messages).sum();
        let joined: u64 = sizes.map(|sized| sized.joined).sum();
        Some(TrustLine {
            kind: TrustKind::JoinRate,
            value: Some(100.0 * rate),
            unit: Unit::Percent,
            holds: rate >= LEAST_COVERAGE && joined <= messages,
            text: match messages.checked_sub(joined) {
                Some(missed) => format!(
                    "{}: at each size at least {:.2} % of the messages were seen at every gate that was there; {} of {} were not",
                    self.name,
                    100.0 * rate,
                    format::whole(missed),
                    format::whole(messages)
                ),
                // Packets of one message were taken for messages.
                None => format!(
                    "{}: {} messages were seen at every gate and {} were sent, so packets were taken for messages",
                    self.name,
                    format::whole(joined),
                    format::whole(messages)
                ),
            },
        })
    }

    /// The note on how spans and costs are found.
    fn fitted(&self) -> Option<String> {
        let blocks = self.by_size(|ledger| Some((ledger.blocks, ledger.slices)));
        let (blocks, slices) = blocks.into_iter().flatten().next()?;
        let sessions = if self.ledgers.anew {
            "each block has sessions of its own"
        } else {
            "all blocks are of one session, and another may differ by more"
        };
        Some(format!(
            "{}: {slices} slices in {blocks} blocks at each size, with random sets of gates and without any; spans and gate costs are fitted \
             together; intervals (95 %) are from a bootstrap over the blocks and hold what is not known of where a gate's \
             cost falls; {sessions}",
            self.name
        ))
    }

    /// The notes on the numbers, and on their differences from the paper's.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        match (&self.ledgers.plan, &self.ledgers.hosts) {
            (Some(plan), _) => self.kernel_notes(plan, &mut notes),
            (None, Some(hosts)) => self.hosts_notes(hosts, &mut notes),
            (None, None) => self.stack_notes(&mut notes),
        }
        notes
    }

    fn stack_notes(&self, notes: &mut Vec<String>) {
        let sizes = self
            .ledgers
            .sizes
            .iter()
            .filter(|sized| sized.ledger.is_ok());
        let jumbo: Vec<String> = sizes
            .filter(|sized| mtu(sized.size) > MTU)
            .map(|sized| format::size(sized.size))
            .collect();
        if !jumbo.is_empty() {
            notes.push(format!(
                "messages of {} are timed with larger packets than {MTU} bytes, since gate by gate a message must be one segment (in 1994, \
                 8,000 bytes went in two)",
                format::list(&jumbo)
            ));
        }
        notes.push(
            match self.direction {
                Direction::Tx => {
                    "the payload is summed while send() copies it, so that pass is in User; TCP checksum is the writing of the \
                     headers from their template with that sum folded in"
                }
                Direction::Rx | Direction::Between => {
                    "the payload is summed while it is copied into the reader's buffer, so TCP checksum holds that copy, too"
                }
            }
            .to_owned(),
        );
        notes.push(
            "gates read the clock in order, which drains the processor, so that the costs of several gates add up; spans of a few \
             nanoseconds are what the code between two such readings takes"
                .to_owned(),
        );
    }

    fn hosts_notes(&self, hosts: &Hosts, notes: &mut Vec<String>) {
        let name = &self.name;
        notes.push(format!(
            "{name}: the hosts' clocks are not compared: each span is a difference on its own host's clock, and the clocks' offset falls out \
             of what lies between the hosts both ways; one way alone is known within bounds only, from the fastest messages in both \
             directions, whatever the clocks' offset and their rates (up to 1,000 ppm apart)"
        ));
        for host in Host::BOTH {
            for boundary in hosts.boundaries(host).iter() {
                let why = match (&boundary.hook, boundary.unseen) {
                    (None, _) => boundary.missed.join("; "),
                    (Some(hook), true) if boundary.gate != Gate::SocketOutEnd => {
                        format!("not every message was seen at {hook}")
                    }
                    (Some(_), _) => continue,
                };
                notes.push(format!(
                    "{name}: the boundary {} of the {} is not resolved, and its rows are joined: {why}",
                    boundary.gate.name(),
                    host.name()
                ));
            }
        }
        notes.push(format!(
            "{name}: gates were live on both hosts {} ms after the start",
            hosts.start_up.as_millis()
        ));
    }

    fn kernel_notes(&self, plan: &Plan, notes: &mut Vec<String>) {
        let name = &self.name;
        notes.push(match self.direction {
            Direction::Tx => format!(
                "{name}: TCP segment holds the copy from the user, which Wolman counted under User, since no hook lies between \
                 them; a message keeps its buffer for retransmission, so there is no mcopy; what send() does after its \
                 segment has reached the reader's socket is in no sum"
            ),
            Direction::Rx | Direction::Between => format!(
                "{name}: the way in begins where the driver has queued the segment for IP; demultiplexing is in TCP segment; \
                 User begins when the reader runs; the application's own time is shown and is in no row of the paper"
            ),
        });
        let mode = self.ledgers.mode;
        if self.direction == Direction::Rx
            && (mode.placement, mode.waiting) == (Placement::TwoCores, Waiting::Blocking)
        {
            notes.push(format!(
                "{name}: the reader's processor is idle while it waits, so Wakeup holds the interrupt that wakes it, its way out of \
                 idleness, and the switch to the reader; nobody works on the message meanwhile"
            ));
        }
        if !plan.has_programs() {
            notes.push(format!(
                "{name}: no program could be loaded, so what the kernel stamps for sockets (SO_TIMESTAMPING) stands for its gates"
            ));
        }
        for boundary in plan.boundaries().iter().filter(|one| one.hook.is_none()) {
            let missed = boundary.missed.iter();
            let reasons: Vec<&str> = missed.map(|(_, reason)| reason.as_str()).collect();
            notes.push(format!(
                "{name}: the boundary {} is not resolved, and its rows are joined: {}",
                boundary.gate.name(),
                reasons.join("; ")
            ));
        }
    }
}

/// The share of a round trip by which all gates together make it longer, and half the width of its interval.
fn perturbed(ledger: &Ledger) -> (f64, f64) {
    let (all, of_ns) = (ledger.perturbation, ledger.total.ns);
    (all.ns / of_ns, all.half_width / of_ns)
}

/// The line of trust on what so many gates add to the round trip of each size. It does not hold where they add more than the round trip
/// has, whatever the interval says.
fn disturbs(name: &str, gates: usize, shares: &[(f64, f64)]) -> Option<TrustLine> {
    let (low, high) = ends(&shares.iter().map(|(share, _)| *share).collect::<Vec<_>>())?;
    let half_width = shares.iter().map(|(_, half)| *half).fold(0.0, f64::max);
    let beyond = |(share, half): &(f64, f64)| share - half > MOST_PERTURBED;
    let holds = !shares.iter().any(beyond);
    let more = if holds {
        ""
    } else {
        ", more than the round trip itself"
    };
    Some(TrustLine {
        kind: TrustKind::Perturbation,
        value: Some(100.0 * high),
        unit: Unit::Percent,
        holds,
        text: format!(
            "{name}: all gates together make a round trip {} longer (+-{} at most){more}; a slice carries a few of {gates}, and what they \
             add is found by comparing slices with and without each",
            between_percents(low, high),
            percent(half_width)
        ),
    })
}

/// Puts the lines first that say that gates add more than a round trip has, whatever path they are of.
pub(super) fn disturbed_first(lines: &mut [TrustLine]) {
    lines.sort_by_key(|line| line.kind != TrustKind::Perturbation || line.holds);
}

/// The coarse spans that differ from the sum of their parts, of how many, and the one that differs most; none where there are none.
fn coarse(ledger: &Ledger) -> Option<String> {
    let all = ledger.coarse();
    let differ = all.iter().filter(|one| one.differs);
    let most = differ
        .clone()
        .max_by(|a, b| a.left.ns.abs().total_cmp(&b.left.ns.abs()));
    let Some(most) = most else {
        return (!all.is_empty()).then(|| format!("none of {}", all.len()));
    };
    let gates = ledger.way().gates();
    let (from, to) = (gates[most.ends.0], gates[most.ends.1]);
    Some(format!(
        "{} of {}: most from {} to {}, by {:.0} +-{:.0} ns",
        differ.count(),
        all.len(),
        from.name(),
        to.name(),
        most.left.ns,
        most.left.half_width
    ))
}

/// A figure as a cell.
pub(super) fn measured(figure: Figure, n: Option<u64>) -> Cell {
    Cell::Value(Measured {
        value: figure.ns,
        ci: Some(Interval {
            low: figure.ns - figure.half_width,
            high: figure.ns + figure.half_width,
        }),
        n,
        ..Measured::default()
    })
}

fn hook(plan: &Plan, gate: Gate) -> &'static str {
    // The application ends where the answer begins.
    let gate = match gate {
        Gate::ApplicationEnd => Gate::SocketOutBegin,
        gate => gate,
    };
    plan.hook(gate).map_or("none", |hook| hook.name)
}

/// The reason why the kernel never has such a row.
pub(super) fn missing_in_kernel(label: WolmanLabel) -> Option<&'static str> {
    Some(match label {
        WolmanLabel::Row(WolmanRow::Checksum) => {
            "this path leaves the checksum to a device that does not exist, so nobody computes it; wolman-offload tells what it takes"
        }
        WolmanLabel::NotInPaper => {
            "a reader that waits is woken at once, so what a message waits in the socket is under Wakeup"
        }
        WolmanLabel::Row(WolmanRow::Atm) => {
            "the driver of the sender carries the segment into the queue of IP; it is on the way out"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(shares: &[(f64, f64)]) -> TrustLine {
        disturbs("kernel-loopback", 13, shares).unwrap()
    }

    /// D4: gates that add more than the round trip has stand before all else.
    #[test]
    fn perturbation_above_100_percent_is_the_first_line_of_trust() {
        let heavy = line(&[(0.3, 0.1), (15.28, 0.11)]);
        assert!(!heavy.holds);
        assert!(heavy.text.contains("1528.0 % longer"), "{}", heavy.text);
        assert!(
            heavy.text.contains("more than the round trip itself"),
            "{}",
            heavy.text
        );
        // An interval that reaches below tells nothing.
        for shares in [[(0.3, 0.1)], [(1.05, 0.1)]] {
            let line = line(&shares);
            assert!(line.holds && !line.text.contains("more than"), "{line:?}");
        }
        let mut lines = vec![
            present::warning("does not close"),
            line(&[(0.3, 0.1)]),
            heavy.clone(),
            present::note("a note"),
        ];
        disturbed_first(&mut lines);
        assert_eq!(lines[0].text, heavy.text);
        assert_eq!(lines[1].text, "does not close");
    }
}
