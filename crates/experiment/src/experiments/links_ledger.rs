//! `links-ledger`: where a round trip of our stack with the kernel goes, over each link: our stack span by span, the driver both
//! ways, and the wait for the link and the other end.
//!
//! Our end alone has gates ([`crate::ledgers::of_link`]). It must never compute a time that the ledger does not give.

use std::rc::Rc;

use tollgate_gate::{Direction, Layer, Span};
use tollgate_measure::Figure;
use tollgate_run::{
    Bar, Cell, Column, Figure as Drawing, Interval, Mode, PathId, Placement, Row, Source, Table,
    TrustLine, Unit, Waiting, format, present,
};

use super::wolman_ledger::{LedgerTables, disturbed_first, measured};
use super::{Content, Experiment, Reported, Uses, uses};
use crate::claim::{Evidence, Finding, Refusal};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::layout::percent;
use crate::ledgers::{self, Ledgers, Sized};

/// The links, with the kernel at the other end.
const PATHS: [PathId; 3] = [PathId::StackTap, PathId::StackPacket, PathId::StackXdp];
/// Sizes unless given: a request, and a message that fills its segment.
const SIZES: [usize; 2] = [64, 1_400];
/// The mode of every link.
const POLLING: Mode = Mode {
    placement: Placement::TwoCores,
    waiting: Waiting::BusyPoll,
};
/// The mode that the first link has besides.
const SLEEPING: Mode = Mode {
    placement: Placement::TwoCores,
    waiting: Waiting::Blocking,
};

/// A part of a round trip.
struct Portion {
    name: &'static str,
    has: fn(&Span) -> bool,
}

const PORTIONS: [Portion; 4] = [
    Portion {
        name: "our stack",
        has: |span| {
            !matches!(span.layer, Layer::Driver | Layer::Link)
                && span.direction != Direction::Between
        },
    },
    Portion {
        name: "driver",
        has: |span| span.layer == Layer::Driver,
    },
    Portion {
        name: "link and other end",
        has: |span| span.layer == Layer::Link,
    },
    Portion {
        name: "application",
        has: |span| span.layer != Layer::Link && span.direction == Direction::Between,
    },
];

/// The ledger of our stack by link.
pub(super) struct LinksLedger;

impl Experiment for LinksLedger {
    fn name(&self) -> &'static str {
        "links-ledger"
    }

    fn title(&self) -> &'static str {
        "Where a round trip over a link goes"
    }

    fn paper(&self) -> Option<Source> {
        None
    }

    fn summary(&self) -> &'static str {
        "spans of our stack, of the driver and of the wait for the other end, over each link with the kernel"
    }

    fn reported(&self) -> Reported {
        Reported::Full
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet { but: &[] }
    }

    fn weight(&self) -> u32 {
        3
    }

    fn concerns(&self, options: &Options) -> bool {
        !wanted(options).is_empty()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(&SIZES);
        let wanted = wanted(&context.options);
        let mut trust: Vec<TrustLine> = Vec::new();
        let (mut measured, mut failed): (Vec<Rc<Ledgers>>, _) = (Vec::new(), None);
        for (at, &(path, mode)) in wanted.iter().enumerate() {
            let share = 1.0 / (wanted.len() - at) as f64;
            match ledgers::of_link(self.name(), (path, mode), &sizes, share, context) {
                Ok(ledgers) => measured.push(ledgers),
                // What was measured before is shown.
                Err(Error::Stopped) => break,
                Err(error) => {
                    trust.push(present::warning(format!("{path} is left out: {error}")));
                    failed.get_or_insert(error);
                }
            }
        }
        if measured.is_empty() {
            return Err(failed.unwrap_or(Error::Stopped));
        }
        for ledgers in &measured {
            trust.extend(shown(ledgers, Direction::Rx).trust_with(Vec::new()));
        }
        trust.extend(
            measured
                .iter()
                .filter_map(|one| sleeps(one))
                .map(present::note),
        );
        trust.extend(uses::note(&context.options));
        trust.extend(notes(&measured).into_iter().map(present::note));
        disturbed_first(&mut trust);
        Ok(Content {
            finding: finding(&measured).finish(),
            tables: tables(&measured, &sizes),
            figures: figure(&measured, command).into_iter().collect(),
            trust,
        })
    }
}

/// The paths that are wanted, each with its modes: polling, and for the first link sleeping as well; where the options name a mode, those
/// that fit.
fn wanted(options: &Options) -> Vec<(PathId, Mode)> {
    let is_wanted = |path: &PathId| options.paths.is_none() || options.wants(*path);
    let named = options.placement.is_some() || options.waiting.is_some();
    let modes = |path: PathId| {
        let modes = options.capabilities(path).map(|can| options.modes(&can));
        let mut modes = modes.unwrap_or_default();
        let usual = |mode: &Mode| *mode == POLLING || (*mode == SLEEPING && path == PATHS[0]);
        modes.retain(|mode| named || usual(mode));
        modes.into_iter().map(move |mode| (path, mode))
    };
    PATHS
        .into_iter()
        .filter(is_wanted)
        .flat_map(modes)
        .collect()
}

/// The tables of a ledger, from which those of both directions are put together.
fn shown(ledgers: &Ledgers, direction: Direction) -> LedgerTables<'_> {
    LedgerTables {
        direction,
        name: ledgers.label(),
        host: None,
        ledgers,
    }
}

fn tables(all: &[Rc<Ledgers>], sizes: &[usize]) -> Vec<Table> {
    let mut tables: Vec<Table> = (0..sizes.len()).map(|at| parts(all, sizes, at)).collect();
    tables.extend(all.iter().map(|ledgers| spans(ledgers)));
    let mut closure = Vec::new();
    for ledgers in all {
        closure.push(present::plain_row(ledgers.label(), Vec::new()));
        let rows = shown(ledgers, Direction::Tx).closure();
        closure.extend(rows.into_iter().map(deeper));
    }
    tables.push(Table {
        id: "closure".to_owned(),
        title: "The sum of the spans against the round trip without gates".to_owned(),
        columns: present::size_columns(sizes, Unit::Nanoseconds),
        rows: closure,
    });
    tables
}

/// The parts of a round trip at the size at this place, a row for each path and mode.
fn parts(all: &[Rc<Ledgers>], sizes: &[usize], at: usize) -> Table {
    let names = std::iter::once("round trip").chain(PORTIONS.iter().map(|part| part.name));
    let row = |ledgers: &Rc<Ledgers>| {
        let missing = |ledgers: &Ledgers| Cell::NotAvailable {
            reason: ledgers.sizes[at]
                .ledger
                .as_ref()
                .err()
                .cloned()
                .unwrap_or_default(),
        };
        let total = ledgers.at(at).map(|ledger| measured(ledger.total, None));
        let figures = PORTIONS.iter().map(|part| cell(ledgers, at, part));
        let cells = std::iter::once(total).chain(figures);
        present::plain_row(
            ledgers.label(),
            cells
                .map(|cell| cell.unwrap_or_else(|| missing(ledgers)))
                .collect(),
        )
    };
    let size = format::bytes(sizes[at]);
    Table {
        id: format!("parts-{}", sizes[at]),
        title: format!("Where a round trip of {size} goes"),
        columns: names
            .map(|name| Column {
                name: name.to_owned(),
                unit: Unit::Nanoseconds,
            })
            .collect(),
        rows: all.iter().map(row).collect(),
    }
}

fn cell(ledgers: &Ledgers, at: usize, part: &Portion) -> Option<Cell> {
    let sum = ledgers.sum(at, |_, span| (part.has)(span))?;
    Some(measured(sum, Some(ledgers.sizes[at].joined)))
}

/// The spans of a round trip, in the order of the way.
fn spans(ledgers: &Ledgers) -> Table {
    let mut rows = Vec::new();
    for (direction, heading) in [
        (Direction::Tx, "request, on the way out"),
        (Direction::Rx, "response, on the way in"),
    ] {
        rows.push(present::plain_row(heading, Vec::new()));
        rows.extend(
            shown(ledgers, direction)
                .span_rows()
                .into_iter()
                .map(deeper),
        );
    }
    let tables = shown(ledgers, Direction::Tx);
    Table {
        id: format!("spans-{}", tables.id()),
        title: format!("The spans of a round trip over {}", ledgers.label()),
        columns: tables.columns(Unit::Nanoseconds),
        rows,
    }
}

fn deeper(row: Row) -> Row {
    Row {
        depth: row.depth + 1,
        ..row
    }
}

/// One bar of spans for each path, mode and size.
fn figure(all: &[Rc<Ledgers>], command: &str) -> Option<Drawing> {
    let mut bars = Vec::new();
    for ledgers in all {
        for (at, sized) in ledgers.sizes.iter().enumerate() {
            let round_trip = shown(ledgers, Direction::Tx).round_trip(at);
            bars.extend(round_trip.map(|(total, segments)| Bar {
                label: format!("{}, {}", format::size(sized.size), ledgers.label()),
                total_measured: Some(total),
                segments,
            }));
        }
    }
    (!bars.is_empty()).then(|| Drawing::StackedBars {
        title: "A round trip by span, over each link".to_owned(),
        unit: Unit::Nanoseconds,
        bars,
        command: command.to_owned(),
    })
}

/// Says of each path, in its first mode, which part of the first size goes where. What a ledger leaves open may belong to any part, so
/// it widens their intervals.
fn finding(all: &[Rc<Ledgers>]) -> Finding {
    let mut finding = Finding::default();
    let mut said = Vec::new();
    for ledgers in all {
        let Some(ledger) = ledgers.at(0).filter(|_| !said.contains(&ledgers.path)) else {
            continue;
        };
        said.push(ledgers.path);
        let label = ledgers.label();
        let rests_on = ledgers.sizes[0].joined;
        let amount = |figure: Figure, open: f64| {
            let half_width = figure.half_width + open.abs();
            let interval = Interval {
                low: figure.ns - half_width,
                high: figure.ns + half_width,
            };
            (
                Evidence::new(figure.ns, Some(interval), rests_on).amount(),
                interval.high,
            )
        };
        let mut words = Vec::new();
        for part in &PORTIONS[..3] {
            let Some(sum) = ledgers.sum(0, |_, span| (part.has)(span)) else {
                continue;
            };
            let what = format!("{} over {label}", part.name);
            match amount(sum, ledger.closure.left.ns) {
                (Err(Refusal::BelowZero), most) if most > 0.0 => {
                    let most = format::duration(most);
                    words.push(format!("less than {most} {}", part.name));
                }
                (claim, _) => words.extend(
                    finding
                        .claim(what, claim)
                        .map(|time| format!("{} {}", time.duration(), part.name)),
                ),
            }
        }
        let what = format!("the round trip over {label}");
        if let Some(total) = finding.claim(what, amount(ledger.total, 0.0).0)
            && !words.is_empty()
        {
            finding.say(format!(
                "over {label} a round trip of {} takes {}: {}",
                format::bytes(ledgers.sizes[0].size),
                total.duration(),
                format::list(&words)
            ));
        }
    }
    finding
}

/// Says how often our end slept where it does. On one core the scheduler decides at each request whether the kernel's end runs at
/// once or when ours sleeps, so it decides which span the kernel's end lies in.
fn sleeps(ledgers: &Ledgers) -> Option<String> {
    if ledgers.mode.waiting != Waiting::Blocking {
        return None;
    }
    let of_size = |sized: &Sized| {
        let [without, with] = sized.sleeps?.map(|one| percent(one.share().min(1.0)));
        let size = format::bytes(sized.size);
        Some(format!(
            "{without} of round trips of {size} ({with} with gates)"
        ))
    };
    let of_sizes: Vec<String> = ledgers.sizes.iter().filter_map(of_size).collect();
    let others = match ledgers.mode.placement {
        Placement::OneCore => {
            "in the others the kernel's end ran first, mostly within the driver's call, whose span holds its time"
        }
        Placement::TwoCores => "in the others the response was there before",
    };
    (!of_sizes.is_empty()).then(|| {
        format!(
            "{}: our end slept in {}; {others}",
            ledgers.label(),
            format::list(&of_sizes)
        )
    })
}

/// The notes on what the spans hold.
fn notes(all: &[Rc<Ledgers>]) -> Vec<String> {
    let has = |path| all.iter().any(|one| one.path == path);
    let mut notes = Vec::new();
    if has(PathId::StackTap) {
        notes.push(
            "stack-tap: the driver's write(2) holds what the kernel does with our frame, up to its socket: a tap has no queue in that \
             direction",
        );
    }
    if has(PathId::StackPacket) {
        notes.push(
            "stack-packet: the driver's sendmmsg(2) holds what the kernel does with our frame as far as our processor does it",
        );
    }
    notes.push(
        "link and other end is waiting: from the driver's hand-over of the request until the call that finds the response; the kernel's \
         end has no gates here",
    );
    notes.push(
        "the driver's way in is the one call that finds the response; calls that find nothing are waiting",
    );
    notes.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use tollgate_gate::{Gate, STACK};

    use super::*;
    use crate::context::{Cancel, Silent};

    #[test]
    fn each_span_is_of_one_part() {
        for span in STACK.spans() {
            let parts = PORTIONS.iter().filter(|part| (part.has)(span));
            assert_eq!(parts.count(), 1, "{}", span.name);
        }
        let between = STACK
            .spans()
            .iter()
            .find(|span| span.from == Gate::DriverOutEnd);
        assert!((PORTIONS[2].has)(between.unwrap()));
    }

    #[test]
    fn a_round_trip_over_a_tap_has_a_ledger() {
        let options = Options {
            paths: Some(vec![PathId::StackTap]),
            placement: Some(Placement::OneCore),
            sizes: Some(vec![64]),
            iterations: Some(64),
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        let content = match LinksLedger.measure(&mut context, "") {
            Ok(content) => content,
            Err(reason) => return tollgate_skip::skipped!("{reason}"),
        };
        let ids: Vec<&str> = content.tables.iter().map(|one| &*one.id).collect();
        assert_eq!(ids.len(), 3, "{ids:?}");
        assert_eq!(ids[0], "parts-64");
        // The parts are those of the spans: what both sum to is the same.
        let sum = |table: &Table| -> f64 {
            let cells = table.rows.iter().flat_map(|row| &row.cells);
            cells.filter_map(Cell::number).sum()
        };
        let round_trip = content.tables[0].rows[0].cells[0].number().unwrap();
        let parts = sum(&content.tables[0]) - round_trip;
        let spans = sum(&content.tables[1]);
        assert!((parts - spans).abs() < 1e-6 * spans, "{parts} {spans}");
        assert!(round_trip > 1_000.0, "{round_trip}");
        let says = |line: &TrustLine| line.text.contains("our end slept in ");
        assert_eq!(content.trust.iter().filter(|line| says(line)).count(), 1);
    }

    #[test]
    fn every_link_polls_and_the_first_sleeps_as_well() {
        let mut options = Options::default();
        let modes = [
            (PathId::StackTap, POLLING),
            (PathId::StackTap, SLEEPING),
            (PathId::StackPacket, POLLING),
            (PathId::StackXdp, POLLING),
        ];
        assert_eq!(wanted(&options), modes);
        options.placement = Some(Placement::OneCore);
        assert!(
            wanted(&options)
                .iter()
                .all(|(_, mode)| mode.placement == Placement::OneCore)
        );
        options.paths = Some(vec![PathId::KernelVeth]);
        assert_eq!(wanted(&options), []);
    }
}
