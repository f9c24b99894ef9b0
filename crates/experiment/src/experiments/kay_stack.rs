//! `kay-stack`: the time of Tollgate's stack to receive a message and send it back, by category and size, TCP and UDP; after Kay and
//! Pasquale 1996, figures 2 to 4 and 7 to 12. The kernel's are in `kay-breakdown` and `kay-detail`.
//!
//! A span of the stack's ledger belongs to the foremost of its categories. One pass copies and sums, so Checksum and DataMove are one
//! row. It must never split a span: what no gate tells apart stays together.

use std::rc::Rc;
use std::time::Duration;

use tollgate_gate::{Category, Direction, Span};
use tollgate_measure::Verdict;
use tollgate_measure::stack_memory::{MTU, mtu};
use tollgate_run::{
    Cell, Column, Figure, PathId, Row, RowKind, Source, Table, TrustLine, Unit, Workload, format,
    present,
};
use tollgate_workload::Transport;

use super::kay_breakdown::{LARGEST_SMALL, fact_at, lines, source};
use super::wolman_ledger::{LedgerTables, measured};
use super::{Content, Experiment, Reported, Uses, uses};
use crate::claim::{Evidence, Finding, FindingText};
use crate::context::{Context, Options};
use crate::echoes;
use crate::error::Error;
use crate::ledgers::{self, Ledgers};
use crate::turns;

const PATH: PathId = PathId::StackMemory;
/// Protocols, each with its name and the share of the time that is left for it.
const PROTOCOLS: [(Transport, &str, f64); 2] =
    [(Transport::Tcp, "TCP", 0.5), (Transport::Udp, "UDP", 1.0)];
/// For each size and protocol; with less, fewer sizes are measured.
const EACH: Duration = Duration::from_millis(150);
/// The fewest sizes, unless the user gives them.
const FEWEST: usize = 6;
/// Sizes that the tables of parts show, of those that were measured.
const SHOWN: usize = 6;
/// The groups of categories that gates tell apart.
const GROUPS: [(&str, &[Category]); 4] = [
    (
        "Checksum and DataMove",
        &[Category::Checksum, Category::DataMove],
    ),
    ("ProtSpec", &[Category::ProtSpec]),
    ("DataStruct", &[Category::DataStruct]),
    ("OpSys", &[Category::OpSys]),
];
/// The place of the group that touches data.
const TOUCHING: usize = 0;
/// The reason why a time that is not above zero has no number.
const TOO_SHORT: &str = "too short to be told from nothing";

/// Time of our stack by category.
pub(super) struct KayStack;

impl Experiment for KayStack {
    fn name(&self) -> &'static str {
        "kay-stack"
    }

    fn title(&self) -> &'static str {
        "Time in Tollgate's stack by category"
    }

    fn paper(&self) -> Option<Source> {
        source("Figs. 2 to 4 and 7 to 12, sections V and VIII")
    }

    fn summary(&self) -> &'static str {
        "our stack's time by Kay and Pasquale's categories and their parts, TCP and UDP, 40 sizes, from ledgers"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet { but: &[] }
    }

    fn weight(&self) -> u32 {
        3
    }

    fn concerns(&self, options: &Options) -> bool {
        options.want_stack_memory()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        if !context.options.want_stack_memory() {
            return Err(Error::NothingToRun {
                workload: Workload::Rr,
                asked: context.options.restrictions(),
            });
        }
        let count = affordable(context.remaining());
        let sizes = context.options.sizes_or(&echoes::default_sizes(count));
        let mut protocols = Vec::new();
        for (transport, name, share) in PROTOCOLS {
            let ledgers = ledgers::of_stack_over(self.name(), transport, &sizes, share, context)?;
            protocols.push(Protocol { name, ledgers });
        }
        let all = || protocols.iter();
        let tables = all()
            .map(Protocol::times)
            .chain(all().map(Protocol::shares))
            .chain(all().map(Protocol::parts))
            .chain([touching(&protocols)]);
        let figures = all()
            .filter_map(|one| one.time_figure(usize::MAX, command))
            .chain(all().filter_map(|one| one.share_figure(command)))
            .chain(all().filter_map(|one| one.time_figure(LARGEST_SMALL, command)))
            .chain(all().flat_map(|one| one.part_figures(command)));
        let mut trust: Vec<TrustLine> = all().flat_map(Protocol::trust).collect();
        if context.options.sizes.is_none() && count < echoes::SIZES {
            trust.push(present::note(format!(
                "to end in time, cut to {count} of {} sizes; --size kay has them all",
                echoes::SIZES
            )));
        }
        trust.extend(uses::note(&context.options));
        trust.extend(notes(&protocols));
        Ok(Content {
            finding: finding(&protocols),
            tables: tables.collect(),
            figures: figures.collect(),
            trust,
        })
    }
}

/// Count of sizes that fit the time.
fn affordable(remaining: Option<Duration>) -> usize {
    remaining.map_or(echoes::SIZES, |remaining| {
        let each = EACH.as_nanos() * PROTOCOLS.len() as u128;
        usize::try_from(remaining.as_nanos() / each)
            .unwrap_or(echoes::SIZES)
            .clamp(FEWEST, echoes::SIZES)
    })
}

/// The group of a span; none of the application's turn.
fn group_of(span: &Span) -> Option<usize> {
    let foremost = span.kay_pasquale.first()?;
    GROUPS
        .iter()
        .position(|(_, categories)| categories.contains(foremost))
}

/// Tells whether a span is the stack's.
fn is_stack(span: &Span) -> bool {
    span.direction != Direction::Between
}

/// Tells whether a cell has a number above zero whose interval has bounds.
fn is_told(cell: &Cell) -> bool {
    cell.measured().is_some_and(|measured| {
        let has_bounds = |ci: tollgate_run::Interval| ci.low.is_finite() && ci.high.is_finite();
        measured.value > 0.0 && measured.ci.is_some_and(has_bounds)
    })
}

fn column(name: impl Into<String>, unit: Unit) -> Column {
    Column {
        name: name.into(),
        unit,
    }
}

/// One protocol.
struct Protocol {
    name: &'static str,
    ledgers: Rc<Ledgers>,
}

impl Protocol {
    fn sizes(&self) -> Vec<usize> {
        self.ledgers.sizes.iter().map(|sized| sized.size).collect()
    }

    fn id(&self, what: &str) -> String {
        format!("{what}-{}", self.name.to_lowercase())
    }

    /// Heading of its tables and figures.
    fn titled(&self, title: &str) -> String {
        format!("{}, {PATH}: {title}", self.name)
    }

    /// A cell, or why there is none: what is not above zero has none, and what is `absent` for that reason.
    fn cell(&self, at: usize, cell: Option<Cell>, absent: &str) -> Cell {
        let reason = match (cell, &self.ledgers.sizes[at].ledger) {
            (Some(cell), _) if is_told(&cell) => return cell,
            (Some(_), _) => TOO_SHORT,
            (None, Err(reason)) => reason,
            (None, Ok(_)) => absent,
        };
        Cell::NotAvailable {
            reason: reason.to_owned(),
        }
    }

    /// The time of some spans for each message that is received and sent back.
    fn time(&self, at: usize, wanted: impl Fn(&Span) -> bool) -> Cell {
        let time = self.ledgers.sum(at, |_, span| wanted(span));
        let joined = self.ledgers.sizes[at].joined;
        let cell = time.map(|time| measured(self.ledgers.per_message(time), Some(joined)));
        self.cell(at, cell, "no span of this way belongs to it")
    }

    /// The share of the groups before this place in the time of the stack.
    fn share(&self, at: usize, wanted: impl Fn(usize) -> bool) -> Cell {
        let is_in = |span: &Span| group_of(span).is_some_and(&wanted);
        let share = self.ledgers.share(at, is_in, is_stack);
        // Beyond the whole is what leaves less than nothing.
        let share = share.filter(|share| share.value <= 100.0);
        self.cell(at, share.map(Cell::Value), TOO_SHORT)
    }

    fn touching(&self, at: usize) -> Cell {
        self.share(at, |group| group == TOUCHING)
    }

    /// Rows by size.
    fn by_size(&self, cells: impl Fn(usize) -> Vec<Cell>) -> Vec<Row> {
        let sizes = self.sizes().into_iter().enumerate();
        sizes
            .map(|(at, size)| present::plain_row(format::size(size), cells(at)))
            .collect()
    }

    /// Figs. 2 and 4.
    fn times(&self) -> Table {
        let groups = GROUPS.iter();
        let mut columns: Vec<Column> = groups
            .map(|(name, _)| column(*name, Unit::Nanoseconds))
            .collect();
        columns.push(column("Total", Unit::Nanoseconds));
        columns.push(column(
            format!("{} of it", GROUPS[TOUCHING].0),
            Unit::Percent,
        ));
        Table {
            id: self.id("categories"),
            title: self.titled("time of the stack for each message received and sent back"),
            columns,
            rows: self.by_size(|at| {
                let groups = (0..GROUPS.len())
                    .map(|group| self.time(at, |span| group_of(span) == Some(group)));
                groups
                    .chain([self.time(at, is_stack), self.touching(at)])
                    .collect()
            }),
        }
    }

    /// Fig. 3.
    fn shares(&self) -> Table {
        // The last group would be the whole.
        let groups = &GROUPS[..GROUPS.len() - 1];
        Table {
            id: self.id("shares"),
            title: self.titled("cumulative shares, each category with those before it"),
            columns: (groups.iter())
                .map(|(name, _)| column(*name, Unit::Percent))
                .collect(),
            rows: self.by_size(|at| {
                (0..groups.len())
                    .map(|last| self.share(at, |group| group <= last))
                    .collect()
            }),
        }
    }

    /// Names of the spans of a group, each once, in the order of the way.
    fn names(&self, group: usize) -> Vec<&'static str> {
        let mut names = Vec::new();
        for span in self.ledgers.spans.iter() {
            if group_of(span) == Some(group) && !names.contains(&span.name) {
                names.push(span.name);
            }
        }
        names
    }

    /// A span of both directions.
    fn part(&self, at: usize, group: usize, name: &str) -> Cell {
        self.time(at, |span| {
            group_of(span) == Some(group) && span.name == name
        })
    }

    /// Figs. 7 to 12.
    fn parts(&self) -> Table {
        let sizes = self.sizes();
        let places = present::some(sizes.len(), SHOWN);
        let row = |label: &str, depth: u8, kind, cell: &dyn Fn(usize) -> Cell| Row {
            depth,
            kind,
            ..present::plain_row(label, places.iter().map(|&at| cell(at)).collect())
        };
        let mut rows = Vec::new();
        for (group, (name, _)) in GROUPS.iter().enumerate() {
            rows.push(row(name, 0, RowKind::Total, &|at| {
                self.time(at, |span| group_of(span) == Some(group))
            }));
            for part in self.names(group) {
                rows.push(row(part, 1, RowKind::Plain, &|at| {
                    self.part(at, group, part)
                }));
            }
        }
        rows.push(row("Total", 0, RowKind::Total, &|at| {
            self.time(at, is_stack)
        }));
        let shown: Vec<usize> = places.iter().map(|&at| sizes[at]).collect();
        Table {
            id: self.id("spans"),
            title: self.titled("the spans of each category, both directions"),
            columns: present::size_columns(&shown, Unit::Nanoseconds),
            rows,
        }
    }

    /// Lines over the sizes up to `most`; those of fewer than two points are left out.
    fn figure(
        &self,
        (title, y): (&str, (&str, Unit)),
        most: usize,
        named: &[(&str, &dyn Fn(usize) -> Cell)],
        command: &str,
    ) -> Option<Figure> {
        let sizes: Vec<usize> = self.sizes();
        let places: Vec<usize> = (0..sizes.len()).filter(|&at| sizes[at] <= most).collect();
        let at: Vec<usize> = places.iter().map(|&at| sizes[at]).collect();
        let series = named
            .iter()
            .filter_map(|(name, cell)| turns::line(name, &at, places.iter().map(|&at| cell(at))));
        lines(self.titled(title), y, series.collect(), command)
    }

    fn time_figure(&self, most: usize, command: &str) -> Option<Figure> {
        let cells: Vec<_> = (0..GROUPS.len())
            .map(|group| move |at| self.time(at, |span| group_of(span) == Some(group)))
            .collect();
        let title = match most {
            usize::MAX => "time by category",
            _ => "time by category, small messages",
        };
        let y = ("Time for each message", Unit::Nanoseconds);
        self.figure((title, y), most, &named(&cells), command)
    }

    fn share_figure(&self, command: &str) -> Option<Figure> {
        let cells: Vec<_> = (0..GROUPS.len() - 1)
            .map(|last| move |at| self.share(at, |group| group <= last))
            .collect();
        let title = "cumulative shares, each line with those below it";
        let y = ("Share of the time", Unit::Percent);
        self.figure((title, y), usize::MAX, &named(&cells), command)
    }

    /// A figure for each group of several spans.
    fn part_figures(&self, command: &str) -> Vec<Figure> {
        let groups = GROUPS.iter().enumerate();
        let figures = groups.filter_map(|(group, (label, _))| {
            let names = self.names(group);
            let cells: Vec<_> = names
                .iter()
                .map(|name| move |at| self.part(at, group, name))
                .collect();
            let parts = names.iter().zip(&cells);
            let parts: Vec<(&str, &dyn Fn(usize) -> Cell)> = parts
                .map(|(name, cell)| (*name, cell as &dyn Fn(usize) -> Cell))
                .collect();
            let y = ("Time for each message", Unit::Nanoseconds);
            (parts.len() > 1)
                .then(|| self.figure((*label, y), usize::MAX, &parts, command))
                .flatten()
        });
        figures.collect()
    }

    /// Share of the round trip that its ledger leaves open, where it does not close.
    fn open(&self, at: usize) -> Option<f64> {
        let closure = self.ledgers.at(at)?.closure;
        let open = closure.verdict(self.ledgers.limit()) == Verdict::DoesNotClose;
        open.then_some(closure.left.ns / closure.of_ns)
    }

    fn trust(&self) -> Vec<TrustLine> {
        let ledger = LedgerTables {
            direction: Direction::Tx,
            name: self.name.to_owned(),
            host: None,
            ledgers: &self.ledgers,
        };
        ledger.trust_with(Vec::new())
    }
}

/// The lines of the groups.
fn named<F: Fn(usize) -> Cell>(cells: &[F]) -> Vec<(&'static str, &dyn Fn(usize) -> Cell)> {
    let named = GROUPS.iter().zip(cells);
    named
        .map(|((name, _), cell)| (*name, cell as &dyn Fn(usize) -> Cell))
        .collect()
}

/// The share of what touches data, and of the calls around it, at the smallest and at the largest size, beside the paper's text.
fn touching(protocols: &[Protocol]) -> Table {
    let sizes = protocols.first().map_or_else(Vec::new, Protocol::sizes);
    let rows = ends(sizes.len()).into_iter().map(|at| {
        let fact = match at {
            0 => "data-touching-1-byte",
            _ => "data-touching-large",
        };
        let ours = protocols.iter().map(|one| one.touching(at));
        let cells = ours.chain([fact_at(sizes[at], fact)]).collect();
        present::plain_row(format::size(sizes[at]), cells)
    });
    let columns = protocols.iter().map(|one| column(one.name, Unit::Percent));
    Table {
        id: "then-and-now".to_owned(),
        title: "Share of Checksum and DataMove, then and now".to_owned(),
        rows: rows.collect(),
        columns: columns.chain([column("1996", Unit::Percent)]).collect(),
    }
}

/// The first place and the last.
fn ends(len: usize) -> Vec<usize> {
    let mut ends: Vec<usize> = [0, len.saturating_sub(1)]
        .into_iter()
        .filter(|&at| at < len)
        .collect();
    ends.dedup();
    ends
}

fn finding(protocols: &[Protocol]) -> FindingText {
    let mut finding = Finding::default();
    for one in protocols {
        let mut parts = Vec::new();
        let sizes = one.sizes();
        for at in ends(sizes.len()) {
            let (size, name) = (format::size(sizes[at]), one.name);
            let total = Evidence::of(&one.time(at, is_stack)).and_then(Evidence::amount);
            let share = Evidence::of(&one.touching(at));
            let share = share.and_then(|share| share.leaving(one.open(at)).share());
            let total = finding.claim(format!("the time of {size} over {name}"), total);
            let what =
                format!("how much of {size} over {name} is in socket calls, copies and checksums");
            let share = finding.claim(what, share);
            if let (Some(total), Some(share)) = (total, share) {
                parts.push(format!(
                    "{} for {size}, {} of it in socket calls, copies and checksums",
                    total.duration(),
                    share.percent()
                ));
            }
        }
        if !parts.is_empty() {
            finding.say(format!(
                "to receive and send back a message over {} takes our stack {}",
                one.name,
                format::list(&parts)
            ));
        }
    }
    finding.finish()
}

/// Notes on what the categories hold.
fn notes(protocols: &[Protocol]) -> Vec<TrustLine> {
    let mut notes = vec![
        "a span is of the foremost of its categories. One pass copies and sums, and on the way out it lies in the socket call, so \
         Checksum and DataMove are one row; it also has the call, and the hand-over of frames by the link, which copies nothing"
            .to_owned(),
        "ErrorChk and Mbuf have no span of their own: checks lie in the socket call and in tcp, and a frame is taken within the \
         socket call. Both ends run in one thread, so nothing waits: what is between two layers is in DataStruct and OpSys"
            .to_owned(),
        "the kernel's rows (kay-breakdown, kay-detail) are processor time from samples; these are spans between gates, of which the \
         application's turn is left out"
            .to_owned(),
    ];
    let sizes = protocols.first().map_or_else(Vec::new, Protocol::sizes);
    if sizes.iter().any(|&size| mtu(size) > MTU) {
        let largest = sizes.iter().filter(|&&size| mtu(size) == MTU).max();
        let above = largest.map_or_else(String::new, |size| {
            format!(" above {}", format::size(*size))
        });
        notes.push(format!(
            "messages{above} are timed with larger packets than {MTU} bytes, since gate by gate a message is one packet; the paper's FDDI \
             had packets of up to 4,352 bytes"
        ));
    }
    notes.into_iter().map(present::note).collect()
}

#[cfg(test)]
mod tests {
    use tollgate_gate::STACK;

    use super::*;
    use crate::context::{Cancel, Silent};

    fn content(sizes: Vec<usize>) -> Content {
        let options = Options {
            paths: Some(vec![PATH]),
            sizes: Some(sizes),
            iterations: Some(2_560),
            ..Options::default()
        };
        let mut context = Context::new(options, None, Cancel::default(), &Silent);
        KayStack.measure(&mut context, "command").unwrap()
    }

    #[test]
    fn every_span_of_the_stack_is_of_one_group() {
        for span in STACK.spans() {
            let group = group_of(span).unwrap_or_else(|| panic!("{}", span.name));
            let foremost = span.kay_pasquale[0];
            let holding = GROUPS.iter().filter(|(_, all)| all.contains(&foremost));
            assert_eq!(holding.count(), 1, "{}", span.name);
            assert!(GROUPS[group].1.contains(&foremost));
        }
    }

    #[test]
    fn categories_add_up_to_the_total_and_spans_to_their_category() {
        let content = content(vec![1, 8_192]);
        let of = |id: &str| {
            let mut tables = content.tables.iter();
            tables.find(|table| table.id == id).unwrap()
        };
        for protocol in ["tcp", "udp"] {
            let table = of(&format!("categories-{protocol}"));
            assert_eq!(table.rows.len(), 2);
            for row in &table.rows {
                let numbers: Vec<_> = row.cells.iter().map(Cell::number).collect();
                let total = numbers[4].unwrap();
                // What is not above zero has no number.
                if let Some(parts) = numbers[..4].iter().copied().collect::<Option<Vec<f64>>>() {
                    assert!((parts.iter().sum::<f64>() - total).abs() < 1e-6 * total);
                }
                // A part that is too short leaves no share either.
                let Some(share) = row.cells[5].measured() else {
                    continue;
                };
                let interval = share.ci.unwrap();
                assert!(
                    0.0 <= interval.low && interval.low <= share.value,
                    "{share:?}"
                );
                assert!(share.value <= interval.high, "{share:?}");
                assert!(interval.high <= 100.0, "{share:?}");
            }
            let spans = of(&format!("spans-{protocol}"));
            let depth = |depth: u8| spans.rows.iter().filter(move |row| row.depth == depth);
            assert_eq!(depth(0).count(), GROUPS.len() + 1);
            assert!(depth(1).any(|row| row.label == "tcp.checksum"));
        }
        assert_eq!(of("then-and-now").columns.len(), 3);
        let numbers = content.tables.iter().flat_map(|table| &table.rows);
        let numbers = numbers
            .flat_map(|row| &row.cells)
            .filter_map(Cell::measured);
        assert!(numbers.into_iter().all(|one| one.value > 0.0));
    }

    #[test]
    fn larger_messages_than_a_packet_say_why_they_have_no_number() {
        let content = content(vec![4, 20_000]);
        let row = &content.tables[0].rows[1];
        assert!(
            matches!(&row.cells[0], Cell::NotAvailable { reason } if reason.contains("one segment"))
        );
    }

    #[test]
    fn little_time_gives_fewer_sizes() {
        assert_eq!(affordable(None), 40);
        assert_eq!(affordable(Some(Duration::from_secs(3))), 10);
        assert_eq!(affordable(Some(Duration::ZERO)), FEWEST);
    }
}
