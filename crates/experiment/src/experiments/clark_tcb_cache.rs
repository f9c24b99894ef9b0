//! `clark-tcb-cache`: how often the one-entry cache holds the connection of a segment, by the kind of traffic; beside Clark, Jacobson,
//! Romkey and Salwen 1989, "Checksums and TCBs".
//!
//! The stacks count it themselves, while both run in one thread: nothing is timed, and every number is exact. A capture that was given
//! is told host by host, with the stack's own keys; without one, mixed traffic that is made here stands for it.

use std::time::Duration;

use tollgate_budget::hosts::Hosts;
use tollgate_budget::scenario::MTU;
use tollgate_papers as papers;
use tollgate_run::{
    Cell, Column, PathId, Placement, Row, Source, Table, Unit, Waiting, Workload, format, present,
};
use tollgate_workload::config::{Config, Demux, Nagle, Receive, Segmentation, Transmit};
use tollgate_workload::{Mechanisms, Spec, find};

use super::{Content, Experiment, Reported, Uses, uses};
use crate::claim::{Evidence, Finding, FindingText};
use crate::context::{Context, Options, Replayed};
use crate::error::Error;
use crate::prediction;

const TABLE: &str = "clark-1989/tcb-cache";

/// Tells whether readers wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readers {
    /// They read what has arrived.
    Late,
    /// They wait with a posted buffer, and so say which connection is next (Partridge and Pink 1993).
    Waiting,
}

/// Order in which connections send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// One connection after the other.
    InTurn,
    /// Any of them, by a generator with a fixed seed.
    Random,
}

/// Traffic over several connections at once.
struct Pattern {
    connections: usize,
    /// Bytes of a message, each way.
    message: usize,
    order: Order,
}

const PATTERNS: [Pattern; 9] = [
    pattern(1, 16_384, Order::InTurn),
    pattern(1, 64, Order::InTurn),
    pattern(2, 16_384, Order::InTurn),
    pattern(10, 16_384, Order::InTurn),
    pattern(100, 16_384, Order::InTurn),
    pattern(2, 64, Order::Random),
    pattern(10, 64, Order::Random),
    pattern(100, 64, Order::Random),
    pattern(10, 1_400, Order::InTurn),
];

const fn pattern(connections: usize, message: usize, order: Order) -> Pattern {
    Pattern {
        connections,
        message,
        order,
    }
}

/// Mixed traffic, as of a machine in use: bulk transfers, terminals, and connections that carry one request each.
const BULK: usize = 2;
const TERMINALS: usize = 8;
/// The most messages that a bulk transfer sends before anybody else does.
const BULK_RUN: usize = 8;
const MIXED: &str = "Mixed: 2 bulk transfers, 8 terminals, connections for one message";
/// TIME-WAIT of mixed traffic is short, so that as many connections end as begin.
const MSL: Duration = Duration::from_millis(2);
/// Time between two turns of it, in nanoseconds.
const BETWEEN: u64 = 100_000;
/// Hosts of a capture that have a row of their own.
const HOSTS: usize = 5;

/// Messages of a pattern, and operations of a session.
const MESSAGES: usize = 5_000;
/// Bytes of a write of the stream.
const WRITE: usize = 65_536;
/// Bytes of a message that has a connection of its own.
const SMALL: usize = 64;

/// Hits of the one-entry cache.
pub(super) struct ClarkTcbCache;

impl Experiment for ClarkTcbCache {
    fn name(&self) -> &'static str {
        "clark-tcb-cache"
    }

    fn title(&self) -> &'static str {
        "The one-entry cache of connections"
    }

    fn paper(&self) -> Option<Source> {
        papers::source(TABLE)
    }

    fn summary(&self) -> &'static str {
        "segments whose connection the cache holds: bulk, many flows, requests, mixed traffic, a capture (--capture)"
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
        1
    }

    fn concerns(&self, options: &Options) -> bool {
        options.want_stack_memory()
    }

    /// It counts the same whatever the options are, but for the mechanisms and the capture.
    fn command(&self, options: &Options) -> String {
        let counted = Options {
            mechanisms: own(options.mechanisms),
            replayed: options.replayed.clone(),
            ..Options::default()
        };
        crate::layout::command(self.name(), &counted)
    }

    fn measure(&self, context: &mut Context<'_>, _: &str) -> Result<Content, Error> {
        let mechanisms = own(context.options.mechanisms);
        let session = |label, workload, size| session(label, workload, size, mechanisms);
        let mut counted = vec![
            session("A stream on one connection", Workload::Stream, WRITE),
            session("A connection for each request", Workload::Crr, SMALL),
        ];
        for pattern in &PATTERNS {
            if context.cancel.is_raised() {
                return Err(Error::Stopped);
            }
            counted.push(pattern.counted(mechanisms));
        }
        counted.push(mixed(mechanisms));
        let replayed = context.options.replayed.as_ref();
        let mut content = Content {
            finding: finding(&counted, replayed),
            tables: vec![table(&counted, replayed)],
            figures: Vec::new(),
            trust: vec![
                present::note(format!(
                    "segments that arrive at both ends of stack-memory are counted over {} messages; nothing is timed or lost, and the \
                     generator's seed is fixed",
                    format::whole(MESSAGES as u64)
                )),
                present::note(
                    "a reader that waits says which connection is next, and the stack puts it into the cache; the paper's stack had no such \
                     hint",
                ),
                of_capture(replayed),
            ],
        };
        content.trust.extend(uses::note(&context.options));
        Ok(content)
    }
}

/// The mechanisms of all stacks here: with the cache, and messages that leave at once.
const fn own(set: Mechanisms) -> Mechanisms {
    Mechanisms {
        demux: Demux::CacheHash,
        nagle: Nagle::Off,
        ..set
    }
}

/// Segments that arrived, and those whose connection was in the cache; or why they are not known.
type Hit = Result<(u64, u64), String>;

/// Counts of one kind of traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counted {
    label: String,
    /// With late readers; none where there are no such.
    late: Option<Hit>,
    waiting: Hit,
}

/// One session of a workload over `stack-memory`, whose readers wait.
fn session(label: &str, workload: Workload, size: usize, mechanisms: Mechanisms) -> Counted {
    let spec = Spec::new(workload, size)
        .with_mode(Placement::OneCore, Waiting::BusyPoll)
        .with_mechanisms(mechanisms);
    let path = PathId::StackMemory;
    let hits = find(path)
        .ok_or_else(|| format!("this build has no {path}"))
        .and_then(|path| {
            prediction::count(path, &spec, MESSAGES as u64).map_err(|error| error.to_string())
        });
    Counted {
        label: label.to_owned(),
        late: None,
        waiting: hits.map(|hits| (hits.segments(), hits.cache_hits())),
    }
}

impl Pattern {
    fn label(&self) -> String {
        let order = match self.order {
            Order::InTurn => "in turn",
            Order::Random => "at random",
        };
        let message = format::bytes(self.message);
        match self.connections {
            1 => format!("1 connection, {message} each way"),
            many => format!("{many} connections {order}, {message} each way"),
        }
    }

    fn counted(&self, mechanisms: Mechanisms) -> Counted {
        Counted {
            label: self.label(),
            late: Some(self.count(Readers::Late, mechanisms)),
            waiting: self.count(Readers::Waiting, mechanisms),
        }
    }

    fn count(&self, readers: Readers, mechanisms: Mechanisms) -> Hit {
        let fail = |error: tollgate_budget::Error| error.to_string();
        let adjust = |config: &mut Config| config.mechanisms = mechanisms;
        let mut hosts = Hosts::new(self.connections, MTU, adjust).map_err(fail)?;
        let ends = hosts.connect_many(self.connections).map_err(fail)?;
        let (message, mut buffer) = (vec![7; self.message], vec![0; self.message]);
        let mut exchange = |hosts: &mut Hosts, pair| match readers {
            Readers::Late => hosts.queued_round_trip(pair, &message, &mut buffer),
            Readers::Waiting => hosts.round_trip(pair, &message, &mut buffer),
        };
        // Windows are open and addresses are known after the first turn.
        for &pair in &ends {
            exchange(&mut hosts, pair);
        }
        let before = cache_counts(&hosts);
        let mut state = SEED;
        for turn in 0..MESSAGES {
            let next = match self.order {
                Order::InTurn => turn,
                Order::Random => random(&mut state),
            };
            exchange(&mut hosts, ends[next % ends.len()]);
        }
        let after = cache_counts(&hosts);
        Ok((after.0 - before.0, after.1 - before.1))
    }
}

const SEED: u64 = 1_989;

/// The next number of a linear congruential generator (Knuth, "Seminumerical Algorithms", 3.3.4, MMIX), its upper bits.
fn random(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as usize
}

/// Segments of both ends, and those that the cache served.
fn cache_counts(hosts: &Hosts) -> (u64, u64) {
    let counters = [hosts.client.counters(), hosts.server.counters()];
    let segments = counters
        .map(|one| one.predicted + one.predicted_handshakes + one.misses.iter().sum::<u64>());
    let hits = counters.map(tollgate_workload::counters::Counters::cache_hits);
    (segments.iter().sum(), hits.iter().sum())
}

/// Mixed traffic, with late readers and with readers that wait.
fn mixed(mechanisms: Mechanisms) -> Counted {
    let count = |readers| mix(readers, MESSAGES, mechanisms).map_err(|error| error.to_string());
    Counted {
        label: MIXED.to_owned(),
        late: Some(count(Readers::Late)),
        waiting: count(Readers::Waiting),
    }
}

/// One turn in ten is a connection for one message, five are a terminal's message, and four are a run of a bulk transfer.
fn mix(
    readers: Readers,
    messages: usize,
    mechanisms: Mechanisms,
) -> Result<(u64, u64), tollgate_budget::Error> {
    let open = BULK + TERMINALS;
    let mut hosts = Hosts::new(open + 16, MTU, |config| {
        config.mechanisms = mechanisms;
        config.msl = MSL;
    })?;
    let ends = hosts.connect_many(open)?;
    let (data, mut buffer) = (vec![7; 16_384], vec![0; 16_384]);
    let mut exchange = |hosts: &mut Hosts, pair, bytes: usize| match readers {
        Readers::Late => hosts.queued_round_trip(pair, &data[..bytes], &mut buffer),
        Readers::Waiting => hosts.round_trip(pair, &data[..bytes], &mut buffer),
    };
    // Windows are open and addresses are known after the first message.
    for &pair in &ends {
        exchange(&mut hosts, pair, SMALL);
    }
    let before = cache_counts(&hosts);
    let mut state = SEED;
    let mut sent = 0;
    while sent < messages {
        let (kind, which) = (random(&mut state) % 10, random(&mut state));
        sent += match kind {
            0 => {
                let pair = hosts.connect()?;
                exchange(&mut hosts, pair, SMALL);
                hosts.close(pair)?;
                1
            }
            1..6 => {
                let terminal = ends[BULK + which % TERMINALS];
                exchange(&mut hosts, terminal, SMALL);
                1
            }
            _ => {
                let run = 1 + random(&mut state) % BULK_RUN;
                for _ in 0..run {
                    exchange(&mut hosts, ends[which % BULK], data.len());
                }
                run
            }
        };
        hosts.tick(BETWEEN);
        hosts.settle();
        hosts.drain_events();
    }
    let after = cache_counts(&hosts);
    Ok((after.0 - before.0, after.1 - before.1))
}

/// The capture that was given, or what stands for one.
fn of_capture(replayed: Option<&Replayed>) -> tollgate_run::TrustLine {
    let Some(Replayed {
        file,
        damaged_places,
        ..
    }) = replayed
    else {
        return present::note(
            "no capture was given (`--capture FILE`), and the paper's machines were in use for days: the row of mixed traffic is made here, \
             by a generator with a fixed seed, and its mixture is ours",
        );
    };
    let said = format!(
        "{file} is replayed by the stack's own keys, with a cache for each host that received"
    );
    match damaged_places {
        0 => present::note(said),
        places => present::warning(format!(
            "{said}; it is damaged at {}, and what lies there is left out",
            format::counted(*places, "place", "places")
        )),
    }
}

/// The rows of a capture: all hosts, and those that received most.
fn rows_of(replayed: &Replayed) -> Vec<Row> {
    let row = |label: String, (segments, hits): (u64, u64)| {
        let cells = vec![
            Cell::exact(segments as f64),
            share(&Ok((segments, hits))),
            Cell::text("-"),
        ];
        present::plain_row(label, cells)
    };
    let count = replayed.hosts.len() as u64;
    let all = format!(
        "Captured: all of {}",
        format::counted(count, "host", "hosts")
    );
    let hosts = replayed.hosts.iter().take(HOSTS).map(|host| {
        let connections = format::counted(host.connections, "connection", "connections");
        let label = format!("Captured: {}, {connections}", host.address);
        row(label, (host.segments, host.hits))
    });
    std::iter::once(row(all, replayed.all))
        .chain(hosts)
        .collect()
}

/// The share of hits, in hundredths.
fn share(hit: &Hit) -> Cell {
    match hit {
        Ok((segments, hits)) => Cell::exact(100.0 * *hits as f64 / (*segments).max(1) as f64),
        Err(reason) => Cell::NotAvailable {
            reason: reason.clone(),
        },
    }
}

fn table(counted: &[Counted], replayed: Option<&Replayed>) -> Table {
    let mut rows: Vec<Row> = counted
        .iter()
        .map(|one| {
            let segments = one.late.as_ref().unwrap_or(&one.waiting);
            let cells = vec![
                match segments {
                    Ok((segments, _)) => Cell::exact(*segments as f64),
                    Err(reason) => Cell::NotAvailable {
                        reason: reason.clone(),
                    },
                },
                one.late.as_ref().map_or(Cell::text("-"), share),
                share(&one.waiting),
            ];
            present::plain_row(&one.label, cells)
        })
        .collect();
    rows.extend(replayed.map_or_else(Vec::new, rows_of));
    if let Some((published, source)) = papers::table(TABLE).zip(papers::source(TABLE)) {
        rows.extend(published.rows.iter().map(|row| {
            let cell = |column| present::published_cell(published.cell(&row.id, column), &source);
            let label = format!("1989: {}", row.label());
            let cells = vec![cell("packets"), cell("hit-ratio"), Cell::text("-")];
            present::plain_row(label, cells)
        }));
    }
    let column = |name: &str, unit| Column {
        name: name.to_owned(),
        unit,
    };
    Table {
        id: "hits".to_owned(),
        title: "Segments whose connection is that of the segment before".to_owned(),
        columns: vec![
            column("Segments", Unit::Count),
            column("In the cache", Unit::Percent),
            column("Readers wait", Unit::Percent),
        ],
        rows,
    }
}

/// Says what the cache serves of one bulk flow and at the least, where readers are late.
fn finding(counted: &[Counted], replayed: Option<&Replayed>) -> FindingText {
    let mut finding = Finding::default();
    let mut shares: Vec<(&str, f64)> = Vec::new();
    for one in counted {
        let Some(Ok((segments, hits))) = one.late else {
            continue;
        };
        let share = Evidence::counted(hits, segments).share();
        if let Some(share) = finding.claim(format!("the cache's hits, {}", one.label), share) {
            shares.push((&one.label, share.value()));
        }
    }
    let least = shares.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((most, least)) = shares.first().zip(least) {
        let published = papers::table(TABLE).map_or_else(Vec::new, |table| {
            let rows = table.rows.iter();
            let shares = rows.filter_map(|row| table.cell(&row.id, "hit-ratio"));
            shares.map(|share| format!("{share:.1} %")).collect()
        });
        finding.say(format!(
            "the one-entry cache serves {:.1} % of the segments of one bulk flow, {:.1} % with {} (1989: {})",
            most.1,
            least.1,
            least.0,
            format::list(&published)
        ));
    }
    if let Some(Replayed { file, all, .. }) = replayed {
        let share = Evidence::counted(all.1, all.0).share();
        if let Some(share) = finding.claim(format!("the cache's hits in {file}"), share) {
            finding.say(format!("in {file} it serves {:.1} %", share.value()));
        }
    }
    finding.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::ReplayedHost;

    fn ratio(hit: &Hit) -> f64 {
        let (segments, hits) = *hit.as_ref().unwrap();
        hits as f64 / segments as f64
    }

    #[test]
    fn one_flow_hits_and_many_that_take_turns_miss_once_a_burst() {
        let stream = session("bulk", Workload::Stream, WRITE, Mechanisms::DEFAULT);
        assert!(ratio(&stream.waiting) > 0.999);
        let of = |connections, message, order, readers| {
            ratio(&pattern(connections, message, order).count(readers, Mechanisms::DEFAULT))
        };
        // A segment each way for each message, each another connection's.
        assert_eq!(of(10, 64, Order::InTurn, Readers::Late), 0.0);
        let random = of(10, 64, Order::Random, Readers::Late);
        assert!((random - 0.1).abs() < 0.02, "{random}");
        // Who waits says which connection is next.
        assert_eq!(of(10, 64, Order::Random, Readers::Waiting), 1.0);
        // Bursts of twelve segments and their acknowledgments.
        assert!(of(10, 16_384, Order::InTurn, Readers::Late) > 0.85);
    }

    #[test]
    fn mixed_traffic_repeats_and_misses_where_connections_change() {
        let of =
            |readers| mix(readers, 300, Mechanisms::DEFAULT).map_err(|error| error.to_string());
        let late = of(Readers::Late);
        assert_eq!(late, of(Readers::Late));
        assert!((0.5..0.99).contains(&ratio(&late)), "{late:?}");
        assert!(ratio(&of(Readers::Waiting)) > ratio(&late));
    }

    #[test]
    fn mechanisms_that_are_set_are_counted_with_and_stand_in_the_command() {
        let mut set = Mechanisms::DEFAULT;
        set.set("delayed-ack", "off").unwrap();
        let segments = |mechanisms| {
            let hit = pattern(10, 16_384, Order::InTurn).count(Readers::Late, mechanisms);
            hit.unwrap().0
        };
        // Each segment is acknowledged by itself.
        let (every_other, each) = (segments(Mechanisms::DEFAULT), segments(set));
        assert!(each > every_other, "{each} {every_other}");
        let options = Options {
            mechanisms: set,
            sizes: Some(vec![4]),
            ..Options::default()
        };
        assert_eq!(
            ClarkTcbCache.command(&options),
            "tollgate experiment run clark-tcb-cache --set delayed-ack=off"
        );
    }

    #[test]
    fn hosts_of_a_capture_have_rows_and_the_command_names_it() {
        let host = |n: u8, segments, hits| ReplayedHost {
            address: [10, 0, 0, n].into(),
            segments,
            hits,
            connections: 3,
        };
        let replayed = Replayed {
            file: "lan.pcap".to_owned(),
            hosts: (1..=7).map(|n| host(n, 2_000, 1_500)).collect(),
            all: (14_000, 10_500),
            damaged_places: 0,
        };
        let table = table(&[], Some(&replayed));
        // All, those with most, and the paper's two machines.
        assert_eq!(table.rows.len(), 1 + HOSTS + 2);
        assert_eq!(table.rows[0].label, "Captured: all of 7 hosts");
        assert_eq!(table.rows[1].label, "Captured: 10.0.0.1, 3 connections");
        assert_eq!(table.rows[1].cells[1].number(), Some(75.0));
        let said: String = finding(&[], Some(&replayed)).into();
        assert_eq!(said, "In lan.pcap it serves 75.0 %.");
        let options = Options {
            replayed: Some(replayed),
            sizes: Some(vec![4]),
            ..Options::default()
        };
        assert_eq!(
            ClarkTcbCache.command(&options),
            "tollgate experiment run clark-tcb-cache --capture lan.pcap"
        );
    }

    #[test]
    fn counts_repeat_and_the_papers_machines_stand_below() {
        let once = vec![PATTERNS[3].counted(Mechanisms::DEFAULT)];
        assert_eq!(once, vec![PATTERNS[3].counted(Mechanisms::DEFAULT)]);
        let table = table(&once, None);
        assert_eq!(table.rows[1].cells[1].number(), Some(93.2));
        assert_eq!(table.rows[2].cells[0].number(), Some(121_676.0));
    }
}
