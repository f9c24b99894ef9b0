//! What a run of rotating gates on two hosts ([`crate::remote`]) has to show: one table of both hosts' spans that closes on the
//! client's round trip, the bounds of each way between them, and how far all of it can be trusted.

use tollgate_gate::ledger::WolmanLabel;
use tollgate_gate::span::Place;
use tollgate_gate::{Direction, Ledger, Span, WolmanRow};
use tollgate_run::{
    Bar, Cell, Figure, Interval, Layer, Measured, PathId, Row, RowKind, Segment, SegmentKind,
    Table, TrustKind, TrustLine, Unit, format, present,
};
use tollgate_stats as stats;

use super::wolman_joined::Part;
use super::wolman_rows::labels;
use crate::claim::{Evidence, Finding, Refusal};
use crate::remote::{Bounds, Host, STATISTIC, Sized, TwoHosts, directions, failures};
use crate::shapes::{between_percents, ends, layer, lengths, percent, segment_kind};

/// A ledger closes when its sum lies within this share of the total.
const CLOSES: f64 = 0.03;
/// What gates may cost, as a share of the round trip.
const PERTURBS: f64 = 0.05;
/// The share of messages that should be joined.
const JOINS: f64 = 0.99;
const STOPPED: &str = "the run was stopped before it came to this";
const NETWORK: &str = "network and clocks";

/// What is shown of a run.
pub(super) struct Shown<'a> {
    pub(super) sizes: &'a [usize],
    pub(super) hosts: &'a TwoHosts,
}

/// How a host's part of a round trip is called.
fn part_name(host: Host, direction: Direction) -> String {
    let part = match direction {
        Direction::Between => "application",
        Direction::Tx | Direction::Rx => direction.name(),
    };
    format!("{}, {part}", host.name())
}

/// `2.1 us to 4.0 us`.
fn range(bounds: Bounds) -> String {
    format!(
        "{} to {}",
        format::duration(bounds.low),
        format::duration(bounds.high)
    )
}

impl Shown<'_> {
    fn cells(&self, cell: impl Fn(&Sized) -> Option<Cell>, reason: &str) -> Vec<Cell> {
        self.hosts
            .sizes
            .iter()
            .map(|sized| {
                cell(sized).unwrap_or_else(|| Cell::NotAvailable {
                    reason: sized.failure.clone().unwrap_or_else(|| reason.to_owned()),
                })
            })
            .collect()
    }

    fn row(&self, label: &str, kind: RowKind, number: impl Fn(&Sized) -> Option<f64>) -> Row {
        Row {
            kind,
            ..present::plain_row(
                label,
                self.cells(|sized| Some(Cell::exact(number(sized)?)), STOPPED),
            )
        }
    }

    /// The spans of one direction on one host, below their sum.
    fn part_rows(&self, host: Host, direction: Direction) -> Vec<Row> {
        let spans = own(self.ledger_at(host), direction);
        if spans.is_empty() {
            return vec![present::plain_row(
                part_name(host, direction),
                self.cells(
                    |_| None,
                    "no two gates lie within it here, so it is in a row beside it",
                ),
            )];
        }
        let sum = |sized: &Sized| {
            let ledger = sized.ledger(host);
            spans.iter().try_fold(0.0, |sum, &(index, _)| {
                Some(sum + ledger.own_per_unit_ns(index, STATISTIC)?)
            })
        };
        let mut rows = vec![self.row(&part_name(host, direction), RowKind::Total, sum)];
        rows.extend(
            spans
                .iter()
                .map(|&(index, span)| self.span_row(host, index, span, 1)),
        );
        rows
    }

    fn span_row(&self, host: Host, index: usize, span: &Span, depth: u8) -> Row {
        let between = |host| {
            let boundaries = self.hosts.boundaries(host);
            let hook = |gate| boundaries.hook(gate).unwrap_or("none");
            format!("{} -> {}", hook(span.from), hook(span.to))
        };
        let note = between(host);
        // Once is enough where both hosts have the same.
        let said = depth > 0 && host == Host::Server && note == between(Host::Client);
        Row {
            label: span.name.to_owned(),
            depth,
            kind: match span.kind {
                tollgate_gate::Kind::Processing => RowKind::Processing,
                tollgate_gate::Kind::Queueing => RowKind::Queueing,
            },
            layer: Some(layer(span.layer)),
            note: (!said).then_some(note),
            cells: self.cells(
                |sized| {
                    let ledger = sized.ledger(host);
                    let value = ledger.own_per_unit_ns(index, STATISTIC)?;
                    let net = ledger.rows().get(index)?.net;
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
                STOPPED,
            ),
        }
    }

    /// The spans are the same at every size.
    fn ledger_at(&self, host: Host) -> Option<&Ledger> {
        self.hosts.sizes.first().map(|sized| sized.ledger(host))
    }

    /// A way between the hosts, of which nobody can say more than bounds; its time is in the network's row.
    fn way_row(&self, label: &str, bounds: impl Fn(&Sized) -> Option<Bounds>) -> Row {
        Row {
            layer: Some(Layer::Link),
            ..present::plain_row(
                label,
                self.cells(
                    |sized| Some(Cell::text(range(bounds(sized)?))),
                    "no slice could be bounded",
                ),
            )
        }
    }

    /// What lies between the hosts both ways, with the interval of its slices' means.
    fn network_row(&self) -> Row {
        Row {
            kind: RowKind::Queueing,
            layer: Some(Layer::Link),
            note: Some(
                "(in - out) of the client less (out - in) of the server, each on its own clock"
                    .to_owned(),
            ),
            ..present::plain_row(
                format!("{NETWORK}, both ways"),
                self.cells(
                    |sized| {
                        Some(Cell::Value(Measured {
                            value: sized.network.trimmed_mean_ns()?,
                            ci: stats::mean(&sized.network_slices)
                                .ok()
                                .map(|mean| Interval {
                                    low: mean.interval.low,
                                    high: mean.interval.high,
                                }),
                            n: Some(sized.network.n()),
                            p50: sized.network.quantile_ns(0.5),
                            p99: sized.network.quantile_ns(0.99),
                            ..Measured::default()
                        }))
                    },
                    "no slice had all its round trips at all four points",
                ),
            )
        }
    }

    /// The sum of all parts against the round trip without gates.
    pub(super) fn closure(&self) -> Vec<Row> {
        let share = self.cells(|sized| Some(Cell::text(percent(closure(sized)?))), STOPPED);
        vec![
            self.row(
                "sum of both hosts and the network",
                RowKind::Plain,
                Sized::sum_ns,
            ),
            self.row("unattributed", RowKind::Unattributed, |sized| {
                Some(sized.total_ns()? - sized.sum_ns()?)
            }),
            self.row("round trip without gates", RowKind::Total, Sized::total_ns),
            present::plain_row("unattributed share of it", share),
        ]
    }

    /// Both hosts in the order of the way.
    pub(super) fn table(&self) -> Table {
        let [client_out, client_in, client_between] = directions(Host::Client);
        let mut rows = self.part_rows(Host::Client, client_out);
        rows.push(self.way_row("network there", |sized| sized.ways.there()));
        for direction in directions(Host::Server) {
            rows.extend(self.part_rows(Host::Server, direction));
        }
        rows.push(self.way_row("network back", |sized| sized.ways.back()));
        rows.extend(self.part_rows(Host::Client, client_in));
        rows.extend(self.part_rows(Host::Client, client_between));
        rows.push(self.network_row());
        rows.extend(self.closure());
        Table {
            id: "hosts".to_owned(),
            title: format!(
                "A round trip to {}, by host and span, {}",
                self.hosts.server, self.hosts.mode
            ),
            columns: present::size_columns(self.sizes, Unit::Nanoseconds),
            rows,
        }
    }

    /// The bounds of each way as numbers.
    pub(super) fn ways(&self) -> Table {
        let ends = [("at least", false), ("at most", true)];
        let rows = [("there", true), ("back", false)].map(|(way, there)| {
            ends.map(|(end, high)| {
                self.row(&format!("{way}, {end}"), RowKind::Plain, |sized| {
                    let bounds = match there {
                        true => sized.ways.there()?,
                        false => sized.ways.back()?,
                    };
                    Some(if high { bounds.high } else { bounds.low })
                })
            })
        });
        Table {
            id: "one-way".to_owned(),
            title: "What lies between the hosts, one way: bounds of the mean, in the middle slice"
                .to_owned(),
            columns: present::size_columns(self.sizes, Unit::Nanoseconds),
            rows: rows.into_iter().flatten().collect(),
        }
    }

    /// The spans of one direction on one host, as segments.
    fn segments(
        &self,
        sized: &Sized,
        host: Host,
        direction: Direction,
    ) -> (Vec<Segment>, Vec<f64>) {
        own(Some(sized.ledger(host)), direction)
            .into_iter()
            .filter_map(|(index, span)| {
                let value = sized.ledger(host).own_per_unit_ns(index, STATISTIC)?;
                let segment = Segment {
                    label: format!("{}: {}", host.name(), span.name),
                    layer: Some(layer(span.layer)),
                    kind: segment_kind(span.kind),
                    value: 0.0,
                };
                Some((segment, value))
            })
            .unzip()
    }

    /// All of a round trip, as segments.
    fn whole(&self, sized: &Sized) -> Option<Vec<Segment>> {
        let (mut segments, mut values) = (Vec::new(), Vec::new());
        for host in Host::BOTH {
            for direction in directions(host) {
                let (more, of) = self.segments(sized, host, direction);
                segments.extend(more);
                values.extend(of);
            }
        }
        segments.push(Segment {
            label: NETWORK.to_owned(),
            layer: Some(Layer::Link),
            kind: SegmentKind::Queueing,
            value: 0.0,
        });
        values.push(sized.network.trimmed_mean_ns()?);
        Some(filled(segments, values))
    }

    /// A bar for each size.
    pub(super) fn figure(&self, command: &str) -> Option<Figure> {
        let bars: Vec<Bar> = (self.sizes.iter().zip(&self.hosts.sizes))
            .filter_map(|(&size, sized)| {
                Some(Bar {
                    label: format::size(size),
                    total_measured: Some(sized.total_ns()?),
                    segments: self.whole(sized)?,
                })
            })
            .collect();
        (!bars.is_empty()).then(|| Figure::StackedBars {
            title: format!("A round trip to {}, by host and span", self.hosts.server),
            unit: Unit::Nanoseconds,
            bars,
            command: command.to_owned(),
        })
    }

    /// What one host has of a message in one direction, beside other paths.
    pub(super) fn part(&self, host: Host, direction: Direction) -> Part {
        let name = format!("{}, {}", PathId::KernelRemote, host.name());
        let spans = own(self.ledger_at(host), direction);
        let rows = spans
            .iter()
            .map(|&(index, span)| self.span_row(host, index, span, 0));
        let lines = labels(direction).into_iter().map(|label| {
            let cells = self.cells(
                |sized| {
                    let ledger = sized.ledger(host);
                    let lines = ledger.wolman_rows(direction, STATISTIC);
                    Some(Cell::Value(Measured {
                        value: lines.iter().find(|line| line.label == label)?.ns?,
                        n: Some(ledger.join_stats().passages),
                        ..Measured::default()
                    }))
                },
                absent(label),
            );
            (label, cells)
        });
        Part {
            name: name.clone(),
            label: format!("{name}, {}", self.hosts.mode),
            lines: lines.collect(),
            tables: vec![Table {
                id: format!("spans-{}-{}", PathId::KernelRemote, host.name()),
                title: format!("The spans of {name}, per message"),
                columns: present::size_columns(self.sizes, Unit::Nanoseconds),
                rows: rows.collect(),
            }],
            closure: match host {
                Host::Client => self.closure(),
                Host::Server => Vec::new(),
            },
            open: (self.hosts.sizes.iter())
                .map(|sized| match host {
                    Host::Client => closure(sized).filter(|share| share.abs() > CLOSES),
                    Host::Server => None,
                })
                .collect(),
            messages: (self.hosts.sizes.iter())
                .map(|sized| {
                    let (segments, values) = self.segments(sized, host, direction);
                    Some(filled(segments, values))
                })
                .collect(),
            round_trips: (self.hosts.sizes.iter())
                .map(|sized| match host {
                    Host::Client => Some((sized.total_ns()?, self.whole(sized)?)),
                    Host::Server => None,
                })
                .collect(),
        }
    }

    fn over_sizes(&self, number: impl Fn(&Sized) -> Option<f64>) -> Option<(f64, f64)> {
        let values: Vec<f64> = self.hosts.sizes.iter().filter_map(number).collect();
        ends(&values)
    }

    /// How far it can be trusted.
    pub(super) fn trust(&self) -> Vec<TrustLine> {
        let path = PathId::KernelRemote;
        let mut lines = Vec::new();
        if let Some((low, high)) = self.over_sizes(closure) {
            let worst = low.abs().max(high.abs());
            let holds = worst <= CLOSES;
            lines.push(TrustLine {
                kind: TrustKind::Closure,
                value: Some(100.0 * worst),
                unit: Unit::Percent,
                holds,
                text: format!(
                    "{path}: {} on the client's round trip without gates: {} of it is unattributed, over the sizes",
                    if holds { "closes" } else { "does not close" },
                    between_percents(low, high)
                ),
            });
        }
        let residual = |sized: &Sized| Some(sized.total_ns()? - sized.sum_ns()?);
        if let Some((low, high)) = self.over_sizes(residual) {
            lines.push(TrustLine {
                kind: TrustKind::Residual,
                value: Some(if high.abs() > low.abs() { high } else { low }),
                unit: Unit::Nanoseconds,
                holds: true,
                text: format!(
                    "{path}: the unattributed time is {} to {} of a round trip",
                    format::duration(low),
                    format::duration(high)
                ),
            });
        }
        let worst: Vec<(String, f64)> = (self.hosts.sizes.iter())
            .filter_map(Sized::worst_perturbation)
            .collect();
        let shares: Vec<f64> = worst.iter().map(|(_, share)| *share).collect();
        if let Some((low, high)) = ends(&shares) {
            let of = worst.iter().find(|(_, share)| *share == high);
            lines.push(TrustLine {
                kind: TrustKind::Perturbation,
                value: Some(100.0 * high),
                unit: Unit::Percent,
                holds: high <= PERTURBS,
                text: format!(
                    "{path}: the gates that disturb most make a round trip {} longer, over the sizes; the most it is with those of {}",
                    between_percents(low, high),
                    of.map_or("none", |(step, _)| step)
                ),
            });
        }
        lines.extend(self.joining());
        let ahead = (self.hosts.sizes.iter()).find_map(|sized| sized.ways.ahead());
        if let Some(ahead) = ahead {
            lines.push(TrustLine {
                value: Some(ahead.middle_ns()),
                unit: Unit::Nanoseconds,
                ..present::note(format!(
                    "{path}: CLOCK_MONOTONIC of the server was {} ahead of the client's, known within {} either way",
                    format::duration(ahead.middle_ns()),
                    format::duration(ahead.half_ns())
                ))
            });
        }
        lines.extend(self.notes().into_iter().map(present::note));
        for (size, reason) in failures(self.hosts, self.sizes) {
            lines.push(present::warning(format!("{path}: {size} failed: {reason}")));
        }
        if self.hosts.stopped {
            lines.push(present::warning(format!(
                "{path}: the run was stopped; what is shown was measured until then"
            )));
        }
        lines
    }

    /// What was lost, and what was not joined.
    fn joining(&self) -> Vec<TrustLine> {
        let path = PathId::KernelRemote;
        let stats = || {
            (self.hosts.sizes.iter())
                .flat_map(|sized| Host::BOTH.map(|host| sized.ledger(host).join_stats()))
        };
        let lost: u64 = stats().map(|stats| stats.lost).sum();
        let mut lines = vec![TrustLine {
            kind: TrustKind::EventsLost,
            value: Some(lost as f64),
            unit: Unit::Count,
            holds: lost == 0,
            text: format!(
                "{path}: {} lost on both hosts",
                format::counted(lost, "event", "events")
            ),
        }];
        let rate = stats()
            .filter_map(|stats| stats.join_rate())
            .reduce(f64::min);
        if let Some(rate) = rate {
            let unmatched: u64 = stats().map(|stats| stats.unmatched()).sum();
            lines.push(TrustLine {
                kind: TrustKind::JoinRate,
                value: Some(100.0 * rate),
                unit: Unit::Percent,
                holds: rate >= JOINS,
                text: format!(
                    "{path}: at least {:.2} % of the messages were seen at both gates of the span that was measured; {} were not",
                    100.0 * rate,
                    format::whole(unmatched)
                ),
            });
        }
        let unpaired: u64 = self.hosts.sizes.iter().map(|sized| sized.unpaired).sum();
        let paired: u64 = self.hosts.sizes.iter().map(|sized| sized.network.n()).sum();
        let share = paired as f64 / (paired + unpaired).max(1) as f64;
        lines.push(TrustLine {
            kind: TrustKind::JoinRate,
            value: Some(100.0 * share),
            unit: Unit::Percent,
            holds: share >= JOINS,
            text: format!(
                "{path}: {:.2} % of the round trips between the hosts were seen at all four points, on both hosts",
                100.0 * share
            ),
        });
        lines
    }

    fn notes(&self) -> Vec<String> {
        let path = PathId::KernelRemote;
        let mut notes = vec![format!(
            "{path}: the hosts' clocks are not compared: each span is a difference on its own host's clock, and the clocks' offset \
             falls out of what lies between the hosts both ways; one way alone is known within bounds only, from the fastest \
             messages in both directions, whatever the clocks' offset and their rates (up to 1,000 ppm apart)"
        )];
        let uneven: u64 = self.hosts.sizes.iter().map(|sized| sized.ways.uneven).sum();
        if uneven > 0 {
            notes.push(format!(
                "{path}: in {} no two clocks of even rates could have shown the times, which bound no one-way time there",
                format::counted(uneven, "slice", "slices")
            ));
        }
        for host in Host::BOTH {
            let costs: Vec<f64> = self.hosts.probes(host).values().copied().collect();
            if let Some((low, high)) = ends(&costs) {
                notes.push(format!(
                    "{path}: a passage of a gate of the {} costs {} to {} as measured in place by a twin, which is subtracted",
                    host.name(),
                    format::duration(low),
                    format::duration(high)
                ));
            }
            for boundary in self.hosts.boundaries(host).iter() {
                let why = match (&boundary.hook, boundary.unseen) {
                    (None, _) => boundary.missed.join("; "),
                    (Some(hook), true) if boundary.gate != tollgate_gate::Gate::SocketOutEnd => {
                        format!("no message was seen at {hook}")
                    }
                    (Some(_), _) => continue,
                };
                notes.push(format!(
                    "{path}: the boundary {} of the {} is not resolved, and its rows are joined: {why}",
                    boundary.gate.name(),
                    host.name()
                ));
            }
        }
        notes.push(format!(
            "{path}: each span is measured in slices with its two gates and no others, on the host that has it; means are those \
             without the longest hundredth; gates were live on both hosts {} ms after the start",
            self.hosts.start_up.as_millis()
        ));
        notes
    }

    /// Says how a round trip divides at the first size that was measured.
    pub(super) fn say(&self, finding: &mut Finding) {
        let mut sizes = self.sizes.iter().zip(&self.hosts.sizes);
        let measured = sizes.find_map(|(size, sized)| {
            sized.sum_ns()?;
            Some((size, sized, sized.total_ns().filter(|total| *total > 0.0)?))
        });
        let Some((size, sized, total)) = measured else {
            return;
        };
        let what = format!("of a {}-byte round trip", format::whole(*size as u64));
        let open = closure(sized).filter(|share| share.abs() > CLOSES);
        let between = stats::mean(&sized.network_slices)
            .map_err(|_| Refusal::NoInterval)
            .and_then(|mean| {
                let trips = sized.network.n();
                Evidence::new(mean.value, Some(mean.interval.into()), trips)
                    .leaving(open)
                    .times(100.0 / total)
                    .share()
            });
        if let Some(share) = finding.claim(format!("the network's part {what}"), between) {
            finding.say(format!(
                "{what} to {} of {} what lies between the hosts has {}",
                self.hosts.server,
                format::duration(total),
                share.percent()
            ));
        }
    }
}

/// The unattributed share of a round trip.
fn closure(sized: &Sized) -> Option<f64> {
    let total = sized.total_ns().filter(|total| *total > 0.0)?;
    Some((total - sized.sum_ns()?) / total)
}

/// A ledger's own spans of one direction, with their places: what crosses to the other host is measured by nobody alone.
fn own(ledger: Option<&Ledger>, direction: Direction) -> Vec<(usize, &'static Span)> {
    let Some(ledger) = ledger else {
        return Vec::new();
    };
    let spans = ledger.table().spans().iter().enumerate();
    spans
        .filter(|(_, span)| {
            span.direction == direction
                && span.place == Place::OnTheWay
                && crate::remote::is_own(span)
        })
        .collect()
}

fn filled(mut segments: Vec<Segment>, values: Vec<f64>) -> Vec<Segment> {
    for (segment, value) in segments.iter_mut().zip(lengths(values)) {
        segment.value = value;
    }
    segments
}

/// Why a host has no such row.
fn absent(label: WolmanLabel) -> &'static str {
    match label {
        WolmanLabel::Row(WolmanRow::Atm) => "a driver lies between the hosts, in network and clocks",
        WolmanLabel::Row(WolmanRow::Checksum) => {
            "no hook tells it from the rest of TCP, and most devices take it off the kernel"
        }
        label => super::wolman_ledger::absent_in_kernel(label).unwrap_or(
            "a boundary of it is not resolved here, so it lies within a row whose spans are joined, or between the hosts",
        ),
    }
}
