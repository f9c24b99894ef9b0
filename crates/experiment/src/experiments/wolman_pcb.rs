//! `wolman-pcb`: what it costs to find the connection of a segment among few and among many, in a list, in the hash table and in the
//! one-entry cache; beside Wolman, Voelker and Thekkath 1994, section 3.
//!
//! A lookup is told from round trips of two stacks in one thread, always on the connection that was opened last: the list compares
//! all others before it. Round trips whose every lookup hits the cache are the control; half the difference is one lookup. Messages
//! are read from the socket queue, since a reader that waits puts its connection into the cache.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tollgate_budget::hosts::{Ends, Hosts};
use tollgate_budget::scenario::MTU;
use tollgate_papers as papers;
use tollgate_run::{Cell, Column, Figure, Row, Source, Table, Unit, format, present};
use tollgate_workload::Mechanisms;
use tollgate_workload::config::{Demux, Nagle, Receive, Segmentation, Transmit};

use super::{Content, Experiment, Reported, Uses, uses};
use crate::claim::{Evidence, Finding, FindingText};
use crate::context::{Context, Options};
use crate::error::Error;
use crate::turns::{self, Operation, Repeat, Rounds};

/// Open connections. The paper has the first and the fourth.
const CONNECTIONS: [usize; 6] = [20, 50, 250, 1_000, 10_000, 100_000];
/// Numbers of connections where there is less time than [`SHORT`].
const FEW: [usize; 4] = [20, 50, 250, 1_000];
/// Opening 100,000 connections alone takes a good part of this.
const SHORT: Duration = Duration::from_secs(8);
/// Bytes of a message.
const MESSAGE: usize = 64;
/// Lookups of a round trip: one at each end.
const LOOKUPS: f64 = 2.0;

const NANOSECONDS_PER_MICROSECOND: f64 = 1_000.0;

/// A way of finding the connection: its name, how it is set, and the connections that round trips take in turn.
const WAYS: [(&str, Demux, usize); 4] = [
    ("cache hit", Demux::CacheHash, 1),
    ("list", Demux::List, 1),
    ("hash", Demux::Hash, 1),
    ("cache miss, hash", Demux::CacheHash, 2),
];
const HIT: usize = 0;
const LIST: usize = 1;
const HASH: usize = 2;

/// The cost of finding a connection.
pub(super) struct WolmanPcb;

impl Experiment for WolmanPcb {
    fn name(&self) -> &'static str {
        "wolman-pcb"
    }

    fn title(&self) -> &'static str {
        "Finding the connection of a segment"
    }

    fn paper(&self) -> Option<Source> {
        let paper = papers::paper("wolman-1994")?;
        Some(papers::source_at(paper, "section 3"))
    }

    fn summary(&self) -> &'static str {
        "a lookup among 20 to 100,000 connections: list, hash, one-entry cache hit and missed"
    }

    fn reported(&self) -> Reported {
        Reported::ByName
    }

    fn mechanisms(&self) -> Uses {
        Uses::AsSet {
            but: &[
                Demux::NAME,
                Receive::NAME,
                Transmit::NAME,
                Segmentation::NAME,
            ],
        }
    }

    fn weight(&self) -> u32 {
        2
    }

    fn concerns(&self, options: &Options) -> bool {
        options.want_stack_memory()
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let short = context.remaining().is_some_and(|left| left < SHORT);
        let connections: &[usize] = if short { &FEW } else { &CONNECTIONS };
        among(connections, context, command)
    }
}

/// Both stacks with their connections: one layout of memory, in which each way of finding them is timed once.
struct Layout {
    hosts: Hosts,
    ends: Vec<Ends>,
    /// Ways that have been timed in it.
    timed: [bool; WAYS.len()],
}

/// The layout of the round under way.
type Opened = Rc<RefCell<Option<Layout>>>;

fn among(connections: &[usize], context: &Context<'_>, command: &str) -> Result<Content, Error> {
    let mechanisms = context.options.mechanisms;
    let operations: Vec<Operation<'_>> = connections
        .iter()
        .flat_map(|&count| {
            let opened = Opened::default();
            (0..WAYS.len()).map(move |way| operation(way, count, mechanisms, &opened))
        })
        .collect();
    let taken = turns::measure(&operations, context)?;
    let view = View {
        connections,
        taken: taken.chunks(WAYS.len()).collect(),
    };
    let mut content = Content {
        finding: view.finding(),
        tables: vec![view.lookups(), view.per_connection(), view.round_trips()],
        figures: vec![view.figure(command)],
        trust: vec![
            present::note(format!(
                "a lookup is half of what a round trip of {} takes beyond one whose lookups hit the cache; both take turns in hosts that \
                 each round makes anew, and the error is that of the rounds' median",
                format::bytes(MESSAGE)
            )),
            present::note(
                "the paper's times are whole searches on a DECstation 5000/200; the list searches as theirs did, from one end to the other",
            ),
            present::note(
                "instructions of a lookup, cached and by hash, are counted by clark-instructions",
            ),
        ],
    };
    content.trust.extend(uses::note(&context.options));
    Ok(content)
}

/// Round trips on the connections that were opened last.
fn operation(
    way: usize,
    connections: usize,
    mechanisms: Mechanisms,
    opened: &Opened,
) -> Operation<'static> {
    let (label, demux, used) = WAYS[way];
    let opened = Rc::clone(opened);
    Operation {
        label: format!(
            "{label}, {}",
            format::counted(connections as u64, "connection", "connections")
        ),
        make: Box::new(move || {
            let mut layout = opened.borrow_mut();
            let layout = at_the_next(&mut layout, way, || open(connections, mechanisms))?;
            for stack in [&mut layout.hosts.client, &mut layout.hosts.server] {
                stack.set_demux(demux);
            }
            warm(&mut layout.hosts, last(&layout.ends, used));
            let opened = Rc::clone(&opened);
            let repeat: Repeat<'static> = Box::new(move |count| {
                if let Some(Layout { hosts, ends, .. }) = &mut *opened.borrow_mut() {
                    trips(hosts, last(ends, used), count);
                }
            });
            Ok(repeat)
        }),
    }
}

/// The layout in which `way` has not been timed yet: a new one where it has, since a round times each way once.
fn at_the_next(
    layout: &mut Option<Layout>,
    way: usize,
    open: impl FnOnce() -> Result<Layout, tollgate_budget::Error>,
) -> Result<&mut Layout, String> {
    // The old one goes first: both together may not fit.
    layout.take_if(|layout| layout.timed[way]);
    let layout = match layout {
        Some(layout) => layout,
        none => none.insert(open().map_err(|error| error.to_string())?),
    };
    layout.timed[way] = true;
    Ok(layout)
}

/// Hosts with these mechanisms, whose messages leave at once.
fn open(connections: usize, mechanisms: Mechanisms) -> Result<Layout, tollgate_budget::Error> {
    let mut hosts = Hosts::new(connections, MTU, |config| {
        config.mechanisms = Mechanisms {
            nagle: Nagle::Off,
            ..mechanisms
        };
    })?;
    let ends = hosts.connect_many(connections)?;
    Ok(Layout {
        hosts,
        ends,
        timed: [false; WAYS.len()],
    })
}

/// The connections that were opened last.
fn last(ends: &[Ends], used: usize) -> &[Ends] {
    &ends[ends.len().saturating_sub(used)..]
}

/// The first round trips of a connection open its windows.
fn warm(hosts: &mut Hosts, ends: &[Ends]) {
    trips(hosts, ends, 8);
}

fn trips(hosts: &mut Hosts, ends: &[Ends], count: u64) {
    let (message, mut buffer) = ([7; MESSAGE], [0; MESSAGE]);
    for &pair in ends.iter().cycle().take(count as usize) {
        hosts.queued_round_trip(pair, &message, &mut buffer);
    }
}

/// The paper's time of a search among so many connections, in nanoseconds.
fn published(connections: usize) -> Option<f64> {
    let fact = papers::fact(&format!("wolman-1994/pcb-search-{connections}"))?;
    Some(fact.value * NANOSECONDS_PER_MICROSECOND)
}

fn source() -> Option<Source> {
    WolmanPcb.paper()
}

fn published_cell(value: Option<f64>) -> Cell {
    source().map_or(Cell::text("-"), |source| {
        present::published_cell(value, &source)
    })
}

fn column(name: &str, unit: Unit) -> Column {
    Column {
        name: name.to_owned(),
        unit,
    }
}

/// Measurements, by number of connections and then by way.
struct View<'a> {
    connections: &'a [usize],
    taken: Vec<&'a [Rounds]>,
}

impl View<'_> {
    fn row(&self, at: usize, cells: Vec<Cell>) -> Row {
        let label = format::counted(self.connections[at] as u64, "connection", "connections");
        present::plain_row(label, cells)
    }

    /// A lookup beyond a hit of the cache, by round.
    fn lookup(&self, at: usize, way: usize) -> Rounds {
        let rounds = self.taken[at];
        rounds[way].each(&rounds[HIT], |ns, hit| (ns - hit) / LOOKUPS)
    }

    fn lookups(&self) -> Table {
        let names = WAYS.iter().skip(LIST).map(|(name, ..)| *name);
        let columns = std::iter::once("1994").chain(names);
        let rows = (0..self.connections.len()).map(|at| {
            let then = published_cell(published(self.connections[at]));
            let ours = (LIST..WAYS.len()).map(|way| self.lookup(at, way).cell());
            self.row(at, std::iter::once(then).chain(ours).collect())
        });
        Table {
            id: "lookups".to_owned(),
            title: "A lookup, beyond a hit of the cache".to_owned(),
            columns: columns
                .map(|name| column(name, Unit::Nanoseconds))
                .collect(),
            rows: rows.collect(),
        }
    }

    /// Table of the time that each further connection adds to a search of the list, between two numbers of them.
    fn per_connection(&self) -> Table {
        let then = papers::fact("wolman-1994/pcb-search-per-entry");
        let then = then.map(|fact| fact.value * NANOSECONDS_PER_MICROSECOND);
        let at_thousand = self.connections.iter().position(|&count| count == 1_000);
        let last = self.connections.len().saturating_sub(1);
        let middle = at_thousand.unwrap_or(last);
        let rows = [(0, middle, then), (middle, last, None)]
            .into_iter()
            .filter(|(from, to, _)| from < to)
            .map(|(from, to, then)| {
                let (few, many) = (self.connections[from], self.connections[to]);
                let added = (many - few) as f64;
                let slope = self
                    .lookup(to, LIST)
                    .each(&self.lookup(from, LIST), |many, few| (many - few) / added);
                let label = format!(
                    "From {} to {} connections",
                    format::whole(few as u64),
                    format::whole(many as u64)
                );
                present::plain_row(label, vec![published_cell(then), slope.cell()])
            });
        Table {
            id: "per-connection".to_owned(),
            title: "What one more connection adds to a search of the list".to_owned(),
            columns: ["1994, at most", "list"]
                .map(|name| column(name, Unit::Nanoseconds))
                .into(),
            rows: rows.collect(),
        }
    }

    fn round_trips(&self) -> Table {
        let rows = (0..self.connections.len()).map(|at| {
            let cells = self.taken[at].iter().map(Rounds::cell);
            self.row(at, cells.collect())
        });
        let names = WAYS
            .iter()
            .map(|(name, ..)| column(name, Unit::Nanoseconds));
        Table {
            id: "round-trips".to_owned(),
            title: "Round trips with these lookups at both ends".to_owned(),
            columns: names.collect(),
            rows: rows.collect(),
        }
    }

    fn figure(&self, command: &str) -> Figure {
        let places = 0..self.connections.len();
        let series = WAYS.iter().enumerate().filter_map(|(way, (name, ..))| {
            let cells = places.clone().map(|at| self.taken[at][way].cell());
            turns::line(name, self.connections, cells)
        });
        turns::figure(
            "Round trips over the number of connections",
            ("Open connections", Unit::Count),
            ("Round trip", Unit::Nanoseconds),
            series.collect(),
            command,
        )
    }

    /// Says what a lookup takes among 1,000 connections, or among the most that there are.
    fn finding(&self) -> FindingText {
        let mut finding = Finding::default();
        let thousand = self.connections.iter().position(|&count| count == 1_000);
        let Some(at) = thousand.or(self.connections.len().checked_sub(1)) else {
            return finding.finish();
        };
        let among = format::whole(self.connections[at] as u64);
        let takes = [(LIST, "in a list"), (HASH, "in the hash table")].map(|(way, place)| {
            let cell = self.lookup(at, way).cell();
            let claim = Evidence::of(&cell).and_then(Evidence::amount);
            let claim = finding.claim(format!("a lookup {place} among {among} connections"), claim);
            claim.map(|claim| format!("{} {place}", claim.duration()))
        });
        let takes: Vec<String> = takes.into_iter().flatten().collect();
        if !takes.is_empty() {
            let then = published(self.connections[at]).map_or_else(String::new, |ns| {
                format!(" (1994, list: {})", format::duration(ns))
            });
            finding.say(format!(
                "beyond a hit of the cache, a lookup among {among} connections takes {}{then}",
                format::list(&takes)
            ));
        }
        finding.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Cancel, Silent};

    fn context() -> Context<'static> {
        let options = Options {
            iterations: Some(32),
            repetitions: Some(1),
            ..Options::default()
        };
        Context::new(options, None, Cancel::default(), &Silent)
    }

    #[test]
    fn every_way_has_a_round_trip_and_the_papers_stand_beside() {
        let content = among(&[20, 1_000], &context(), "command").unwrap();
        let [lookups, slope, round_trips] = &content.tables[..] else {
            panic!("three tables");
        };
        assert_eq!(lookups.rows[0].cells[0].number(), Some(26_000.0));
        assert_eq!(lookups.rows[1].cells[0].number(), Some(1_280_000.0));
        assert_eq!(slope.rows[0].cells[0].number(), Some(1_300.0));
        let cells = round_trips.rows.iter().flat_map(|row| &row.cells);
        assert!(cells.into_iter().all(|cell| cell.number().unwrap() > 0.0));
    }

    #[test]
    fn ways_hit_and_miss_the_cache_as_they_are_named() {
        let Layout {
            mut hosts, ends, ..
        } = open(20, Mechanisms::DEFAULT).unwrap();
        for (name, demux, used) in WAYS {
            hosts.server.set_demux(demux);
            let ends = last(&ends, used);
            warm(&mut hosts, ends);
            let before = hosts.server.counters().cache_hits();
            trips(&mut hosts, ends, 10);
            let hits = hosts.server.counters().cache_hits() - before;
            assert_eq!(hits, if name == "cache hit" { 10 } else { 0 }, "{name}");
        }
    }

    #[test]
    fn hosts_run_the_mechanisms_that_are_set() {
        let unpredicted = Mechanisms {
            prediction: tollgate_workload::config::Prediction::Off,
            ..Mechanisms::DEFAULT
        };
        for (mechanisms, is_predicted) in [(Mechanisms::DEFAULT, true), (unpredicted, false)] {
            let Layout {
                mut hosts, ends, ..
            } = open(20, mechanisms).unwrap();
            trips(&mut hosts, last(&ends, 1), 10);
            assert_eq!(hosts.server.counters().predicted > 0, is_predicted);
        }
    }

    #[test]
    fn ways_of_a_round_share_hosts_that_the_next_round_makes_anew() {
        let mut layout = None;
        // Time goes on in hosts with each round trip, and begins anew in others.
        let mut time_in = |way: usize| {
            let layout = at_the_next(&mut layout, way, || open(20, Mechanisms::DEFAULT)).unwrap();
            let before = layout.hosts.now;
            trips(&mut layout.hosts, last(&layout.ends, 1), 1);
            before
        };
        let rounds = [[2, 0, 3, 1], [1, 3, 2, 0]].map(|round| round.map(&mut time_in));
        assert!(rounds[0].is_sorted_by(|one, next| one < next));
        assert_eq!(rounds[0], rounds[1]);
    }

    #[test]
    fn numbers_of_connections_that_the_paper_lacks_have_no_published_time() {
        assert_eq!(published(20), Some(26_000.0));
        assert_eq!(published(100_000), None);
    }
}
