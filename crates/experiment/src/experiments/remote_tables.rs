//! Tables of the ledgers of round trips to another host ([`crate::ledgers::of_hosts`]), beside their Wolman rows. One holds both
//! hosts' spans in the order of the way, one the bounds of each way between them.
//!
//! It must never compute a time that the ledger does not give, and never divide what lies between the hosts.

use tollgate_gate::Direction;
use tollgate_measure::remote::{Bounds, OneWay};
use tollgate_measure::{Host, Verdict};
use tollgate_run::{
    Bar, Cell, Figure, Layer, PathId, Row, RowKind, Table, TrustLine, Unit, format, present,
};

use super::wolman_ledger::{LedgerTables as OneHost, measured};
use super::wolman_paths::PathRows;
use crate::claim::{Evidence, Finding};
use crate::layout::{layer, segment_kind};
use crate::ledgers::{Hosts, Ledgers};

/// Tables of a run.
pub(super) struct RemoteTables<'a> {
    pub(super) ledgers: &'a Ledgers,
    pub(super) hosts: &'a Hosts,
}

/// The directions of a host in the order in which a round trip passes them.
const fn directions(host: Host) -> [Direction; 3] {
    match host {
        Host::Local => [Direction::Tx, Direction::Rx, Direction::Between],
        Host::Remote => [Direction::Rx, Direction::Between, Direction::Tx],
    }
}

/// Name of a host's part of a round trip.
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

impl<'a> RemoteTables<'a> {
    /// None where the ledgers are not of two hosts.
    pub(super) fn of(ledgers: &'a Ledgers) -> Option<Self> {
        let hosts = ledgers.hosts.as_ref()?;
        Some(Self { ledgers, hosts })
    }

    fn one(&self, host: Host, direction: Direction) -> OneHost<'a> {
        OneHost {
            direction,
            name: format!("{}, {}", PathId::KernelRemote, host.name()),
            host: Some(host),
            ledgers: self.ledgers,
        }
    }

    /// The rows of both hosts for a message in one direction, to stand beside other paths.
    pub(super) fn path_rows(&self, direction: Direction) -> [PathRows; 2] {
        Host::BOTH.map(|host| self.one(host, direction).part())
    }

    /// The lines of trust.
    pub(super) fn trust(&self) -> Vec<TrustLine> {
        let whole = OneHost {
            name: PathId::KernelRemote.to_string(),
            ..self.one(Host::Local, Direction::Tx)
        };
        let mut lines = whole.trust();
        if let Some(ahead) = self.hosts.ways.iter().flatten().next().map(|way| way.ahead) {
            lines.push(TrustLine {
                value: Some(ahead.middle_ns()),
                unit: Unit::Nanoseconds,
                ..present::note(format!(
                    "{}: CLOCK_MONOTONIC of the server was {} ahead of the client's, known within {} either way",
                    PathId::KernelRemote,
                    format::duration(ahead.middle_ns()),
                    format::duration(ahead.half_ns())
                ))
            });
        }
        lines
    }

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

    fn sum(&self, at: usize, stretches: &[usize]) -> Option<Cell> {
        Some(measured(self.ledgers.at(at)?.sum_of(stretches), None))
    }

    /// The spans of one direction on one host, below their sum.
    fn host_rows(&self, host: Host, direction: Direction) -> Vec<Row> {
        let stretches =
            (self.ledgers).stretches(|of, span| of == Some(host) && span.direction == direction);
        let name = part_name(host, direction);
        if stretches.is_empty() {
            let reason = "no two gates lie within it here, so it is in a row beside it";
            return vec![present::plain_row(name, self.cells(reason, |_| None))];
        }
        let mut rows = vec![Row {
            kind: RowKind::Total,
            ..present::plain_row(name, self.cells("", |at| self.sum(at, &stretches)))
        }];
        rows.extend(stretches.iter().map(|&stretch| {
            let span = self.ledgers.spans[stretch];
            let hook = |gate| self.hosts.boundaries(host).hook(gate).unwrap_or("none");
            Row {
                depth: 1,
                kind: match segment_kind(span.kind) {
                    tollgate_run::SegmentKind::Queueing => RowKind::Queueing,
                    _ => RowKind::Processing,
                },
                layer: Some(layer(span.layer)),
                note: Some(format!("{} -> {}", hook(span.from), hook(span.to))),
                ..present::plain_row(span.name, self.cells("", |at| self.sum(at, &[stretch])))
            }
        }));
        rows
    }

    /// A way between the hosts, of which nobody can say more than bounds; its time is in the network's row.
    fn way_row(&self, label: &str, bounds: impl Fn(&OneWay) -> Bounds) -> Row {
        Row {
            layer: Some(Layer::Link),
            ..present::plain_row(label, self.way_cells(|way| Cell::text(range(bounds(way)))))
        }
    }

    fn way_cells(&self, cell: impl Fn(&OneWay) -> Cell) -> Vec<Cell> {
        let ways = self.hosts.ways.iter().map(|way| match way {
            Ok(way) => cell(way),
            Err(reason) => Cell::NotAvailable {
                reason: reason.clone(),
            },
        });
        ways.collect()
    }

    /// The row of the network, both ways.
    fn network_row(&self) -> Row {
        let between = self.ledgers.stretches(|host, _| host.is_none());
        Row {
            kind: RowKind::Queueing,
            layer: Some(Layer::Link),
            note: Some(
                "(in - out) of the client less (out - in) of the server, each on its own clock"
                    .to_owned(),
            ),
            ..present::plain_row(
                "network and clocks, both ways",
                self.cells("", |at| self.sum(at, &between)),
            )
        }
    }

    fn columns(&self, unit: Unit) -> Vec<tollgate_run::Column> {
        let sizes: Vec<usize> = self.ledgers.sizes.iter().map(|sized| sized.size).collect();
        present::size_columns(&sizes, unit)
    }

    /// Both hosts in the order of the way.
    pub(super) fn table(&self) -> Table {
        let [client_out, client_in, client_between] = directions(Host::Local);
        let mut rows = self.host_rows(Host::Local, client_out);
        rows.push(self.way_row("network there", |way| way.there));
        for direction in directions(Host::Remote) {
            rows.extend(self.host_rows(Host::Remote, direction));
        }
        rows.push(self.way_row("network back", |way| way.back));
        rows.extend(self.host_rows(Host::Local, client_in));
        rows.extend(self.host_rows(Host::Local, client_between));
        rows.push(self.network_row());
        rows.extend(self.one(Host::Local, Direction::Tx).closure());
        Table {
            id: "hosts".to_owned(),
            title: format!(
                "A round trip to {}, by host and span, {}",
                self.hosts.server, self.ledgers.mode
            ),
            columns: self.columns(Unit::Nanoseconds),
            rows,
        }
    }

    /// The bounds of each way as numbers.
    pub(super) fn ways(&self) -> Table {
        type End = fn(&OneWay) -> f64;
        let rows: [(&str, End); 4] = [
            ("there, at least", |way| way.there.low),
            ("there, at most", |way| way.there.high),
            ("back, at least", |way| way.back.low),
            ("back, at most", |way| way.back.high),
        ];
        let row = |(label, end): (&str, End)| {
            present::plain_row(label, self.way_cells(|way| Cell::exact(end(way))))
        };
        Table {
            id: "one-way".to_owned(),
            title: "What lies between the hosts, one way, in a slice with the gates beside it: bounds of the mean".to_owned(),
            columns: self.columns(Unit::Nanoseconds),
            rows: rows.into_iter().map(row).collect(),
        }
    }

    /// A bar for each size.
    pub(super) fn figure(&self, command: &str) -> Option<Figure> {
        let client = self.one(Host::Local, Direction::Tx);
        let sizes = self.ledgers.sizes.iter().enumerate();
        let bars: Vec<Bar> = sizes
            .filter_map(|(at, sized)| {
                let (total, segments) = client.round_trip(at)?;
                Some(Bar {
                    label: format::size(sized.size),
                    total_measured: Some(total),
                    segments,
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

    /// Says how a round trip divides at the first size that was measured.
    pub(super) fn say(&self, finding: &mut Finding) {
        let mut sizes = self.ledgers.sizes.iter();
        let measured = sizes.find_map(|sized| Some((sized, sized.ledger.as_ref().ok()?)));
        let Some((sized, ledger)) = measured else {
            return;
        };
        let what = format!("of a {}-byte round trip", format::whole(sized.size as u64));
        let closure = ledger.closure;
        let open = closure.verdict(self.ledgers.limit()) == Verdict::DoesNotClose;
        let open = open.then_some(closure.left.ns / closure.of_ns);
        let evidence = |figure: tollgate_measure::Figure| {
            let interval = tollgate_run::Interval {
                low: figure.ns - figure.half_width,
                high: figure.ns + figure.half_width,
            };
            Evidence::new(figure.ns, Some(interval), sized.messages / 2).leaving(open)
        };
        let between = self.ledgers.stretches(|host, _| host.is_none());
        let share = evidence(ledger.sum_of(&between)).times(100.0 / ledger.total.ns);
        let total = evidence(ledger.total).amount();
        let share = finding.claim(format!("the network's part {what}"), share.share());
        let total = finding.claim(format!("the time {what}"), total);
        if let (Some(share), Some(total)) = (share, total) {
            finding.say(format!(
                "{what} to {} of {} what lies between the hosts has {}",
                self.hosts.server,
                total.duration(),
                share.percent()
            ));
        }
    }
}
