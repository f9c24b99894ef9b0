//! Contents of a trace, as a finding, tables and lines of trust.

mod sizes;

use serde::Serialize;
use tollgate_papers as papers;
use tollgate_run::{
    Cell, Column, Row, RowKind, Source as Published, Table, Unit, format::counted, format::whole,
};
use tollgate_table::flows::FlowsOf;
use tollgate_table::import::Outcome;
use tollgate_table::location::Location;
use tollgate_table::session::Origin;
use tollgate_table::store::{Loss, Source};
use tollgate_table::tcb::{CachesOf, Host, Looked};
use tollgate_trace::rebuilt::Rebuilt;

pub(super) use sizes::sizes;

/// Finding, tables and lines of trust of a trace.
#[derive(Default)]
pub(super) struct TraceTables {
    pub(super) finding: String,
    pub(super) tables: Vec<Table>,
    pub(super) trust: Vec<String>,
}

fn table(id: &str, title: &str, columns: &[(&str, Unit)], rows: Vec<Row>) -> Table {
    let column = |(name, unit): &(&str, Unit)| Column {
        name: (*name).to_owned(),
        unit: *unit,
    };
    Table {
        id: id.to_owned(),
        title: title.to_owned(),
        columns: columns.iter().map(column).collect(),
        rows,
    }
}

fn row(label: impl Into<String>, cells: Vec<Cell>) -> Row {
    Row {
        label: label.into(),
        depth: 0,
        kind: RowKind::Plain,
        layer: None,
        note: None,
        cells,
    }
}

fn count(n: u64) -> Cell {
    Cell::exact(n as f64)
}

fn percent(share: f64) -> Cell {
    Cell::exact(share * 100.0)
}

/// A share of one in percent.
pub(super) fn share(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        100.0.. | ..=0.0 => format!("{percent:.0} %"),
        99.95.. | ..0.05 => format!("{percent:.2} %"),
        99.0.. | ..10.0 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// Remarks on the origin of a trace.
fn provenance(origin: &Origin) -> Vec<String> {
    match origin {
        Origin::Rebuilt(rebuilt) => vec![format!("{}: {}.", rebuilt.name(), rebuilt.remark())],
        Origin::Stored(trace) => {
            let sources = trace.sources();
            let mut lines = vec![held(sources, trace.location())];
            if sources.iter().any(|source| lost(source) > 0) {
                lines.push(
                    "Not all of the captures could be read: tollgate trace info says what is missing."
                        .to_owned(),
                );
            }
            if sources.iter().any(|source| source.anonymised) {
                lines.push("Addresses were replaced (Crypto-PAn).".to_owned());
            }
            lines
        }
    }
}

/// Octets and packets that could not be read.
fn lost(source: &Source) -> u64 {
    let Source { counts, damage, .. } = source;
    source.lost_bytes()
        + damage.without_interface
        + u64::from(damage.unreadable.is_some())
        + counts.malformed
        + counts.headers_cut
        + counts.unread_links()
}

/// Outcome of one file.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Imported {
    /// It is in the trace now.
    New(Box<Source>),
    /// It was there before.
    Known {
        /// Its name.
        name: String,
        /// The name under which it was imported.
        #[serde(rename = "known_as")]
        known: String,
    },
}

impl Imported {
    pub(super) fn of(name: String, outcome: Outcome) -> Self {
        match outcome {
            Outcome::Imported(source) => Self::New(source),
            Outcome::Known(known) => Self::Known { name, known },
        }
    }
}

/// The captures that are in the trace now.
fn new(imported: &[Imported]) -> impl Iterator<Item = &Source> {
    imported.iter().filter_map(|one| match one {
        Imported::New(source) => Some(source.as_ref()),
        Imported::Known { .. } => None,
    })
}

/// Sentence on the part of the captures that could not be read, where it is too much to be passed over.
pub(super) fn loss(imported: &[Imported]) -> Option<String> {
    let lossy: Vec<(&Source, Loss)> = new(imported)
        .filter_map(|source| Some((source, source.loss()?)))
        .collect();
    let mut sentences = Vec::new();
    if lossy.len() > 1 {
        sentences.push(format!(
            "{} of {} captures could not be read whole.",
            lossy.len(),
            imported.len()
        ));
    }
    let each = lossy.iter();
    sentences.extend(each.map(|(source, loss)| format!("{}.", lost_of(source, *loss))));
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// Part of a capture that could not be read.
fn lost_of(source: &Source, loss: Loss) -> String {
    let Source { name, damage, .. } = source;
    let lost = || {
        format!(
            "{} of its {} fit no packet",
            whole(source.lost_bytes()),
            counted(source.bytes, "byte", "bytes")
        )
    };
    match (loss, &damage.unreadable) {
        (Loss::All, _) if source.counts.packets > 0 => {
            let packets = counted(source.counts.packets, "packet", "packets");
            format!("Nothing of {name} could be read: none of its {packets} is known")
        }
        (Loss::All, None) => format!("Nothing of {name} could be read: {}", lost()),
        (Loss::All, Some(reason)) => format!("Nothing of {name} could be read: {reason}"),
        (Loss::Much, _) => {
            let part = share(source.lost_bytes() as f64 / source.bytes.max(1) as f64);
            format!("{part} of {name} could not be read: {}", lost())
        }
        (Loss::End, None) => {
            let cut = counted(damage.cut_bytes, "byte", "bytes");
            format!("The end of {name} is missing: its last {cut} are no whole packet")
        }
        (Loss::End, Some(reason)) => format!("The end of {name} could not be read: {reason}"),
    }
}

pub(super) fn import(imported: &[Imported], into: &Location) -> TraceTables {
    let new: Vec<Source> = new(imported).cloned().collect();
    let mut shown = captures(&new);
    let sum = |of: fn(&Source) -> u64| new.iter().map(of).sum();
    let is_lossy = loss(imported).is_some();
    shown.finding = if let [source] = new.as_slice()
        && source.counts.packets == 0
        && !is_lossy
    {
        format!("{} holds no packet, and is in {into}.", source.name)
    } else if new.is_empty() {
        format!("Nothing new for {into}.")
    } else {
        format!(
            "{}, {} on {} are in {into}.",
            counted(sum(|source| source.counts.packets), "packet", "packets"),
            counted(sum(|source| source.counts.messages), "message", "messages"),
            counted(
                sum(|source| source.counts.tcp.flows + source.counts.udp.flows),
                "flow",
                "flows"
            ),
        )
    };
    if let Some(loss) = loss(imported) {
        shown.finding = format!("{loss} {}", shown.finding);
        shown.trust.push(
            "What could not be read is missing in all counts; --lenient takes that for success."
                .to_owned(),
        );
    }
    for one in imported {
        if let Imported::Known { name, known } = one {
            shown.trust.push(format!(
                "{name} is in the trace already{}; it was not counted twice.",
                if name == known {
                    String::new()
                } else {
                    format!(", as {known}")
                }
            ));
        }
    }
    shown
}

pub(super) fn info(sources: &[Source], location: &Location) -> TraceTables {
    let mut shown = captures(sources);
    shown.finding = held(sources, location);
    shown
}

/// Contents of a trace, in a sentence.
fn held(sources: &[Source], location: &Location) -> String {
    let packets = sources.iter().map(|source| source.counts.packets).sum();
    format!(
        "{location}: {}, {}.",
        counted(sources.len() as u64, "capture", "captures"),
        counted(packets, "packet", "packets")
    )
}

/// Octets that each of so many takes.
fn each(bytes: u64, of: u64) -> Cell {
    match of {
        0 => Cell::text(""),
        of => Cell::exact(bytes as f64 / of as f64),
    }
}

/// Captures, what they held, and what of them could not be read.
fn captures(sources: &[Source]) -> TraceTables {
    let held = sources.iter().map(|source| {
        let counts = &source.counts;
        let (tcp, udp) = (&counts.tcp, &counts.udp);
        row(
            &source.name,
            vec![
                count(counts.packets),
                count(tcp.packets),
                count(tcp.bytes),
                count(tcp.flows),
                count(udp.packets),
                count(udp.bytes),
                count(udp.flows),
                count(counts.messages),
                each(source.stored.messages, counts.messages),
            ],
        )
    });
    let columns = [
        ("packets", Unit::Count),
        ("TCP", Unit::Count),
        ("TCP user data", Unit::Bytes),
        ("TCP flows", Unit::Count),
        ("UDP", Unit::Count),
        ("UDP user data", Unit::Bytes),
        ("UDP flows", Unit::Count),
        ("messages", Unit::Count),
        ("stored, each", Unit::Bytes),
    ];
    let mut shown = TraceTables::default();
    if !sources.is_empty() {
        shown
            .tables
            .push(table("captures", "Captures", &columns, held.collect()));
    }
    for source in sources {
        shown.trust.extend(
            remarks(source)
                .into_iter()
                .map(|line| format!("{}: {line}", source.name)),
        );
    }
    shown
}

/// Remarks on one capture besides its counts.
fn remarks(source: &Source) -> Vec<String> {
    let Source { counts, damage, .. } = source;
    let mut lines = Vec::new();
    let lost = source.lost_bytes();
    if lost > 0 {
        lines.push(format!(
            "{} of its {} fit no packet ({}).",
            whole(lost),
            counted(source.bytes, "byte", "bytes"),
            share(lost as f64 / source.bytes.max(1) as f64)
        ));
    } else if counts.packets == 0 {
        lines.push("it holds no packet.".to_owned());
    }
    let mut say = |n: u64, one: &str, many: &str| {
        if n > 0 {
            lines.push(format!("{}.", counted(n, one, many)));
        }
    };
    say(
        damage.places,
        "damaged place was passed over",
        "damaged places were passed over",
    );
    say(
        damage.skipped_bytes,
        "byte was skipped there",
        "bytes were skipped there",
    );
    say(
        damage.cut_bytes,
        "byte at the end is no whole packet",
        "bytes at the end are no whole packet",
    );
    say(
        damage.without_interface,
        "packet is of an interface that the file does not describe, and was left out",
        "packets are of interfaces that the file does not describe, and were left out",
    );
    say(
        damage.without_time,
        "packet has no time of its own; it has that of the packet before",
        "packets have no time of their own; they have that of the packet before",
    );
    say(
        damage.clock_steps,
        "time the clock went back by a second or more",
        "times the clock went back by a second or more",
    );
    say(
        counts.cut_packets,
        "packet was captured in part; its size is that of its headers",
        "packets were captured in part; their sizes are those of their headers",
    );
    say(
        counts.beyond_frame,
        "packet names more bytes than its frame held on the wire; its payload ends with the frame",
        "packets name more bytes than their frames held on the wire; their payload ends with the frame",
    );
    say(
        counts.headers_cut,
        "packet ends within its headers, and was left out",
        "packets end within their headers, and were left out",
    );
    say(
        counts.malformed,
        "packet contradicts itself, and was left out",
        "packets contradict themselves, and were left out",
    );
    for (link, n) in &counts.unknown_links {
        let what = format!("of {link}, which is not read");
        say(
            *n,
            &format!("packet is {what}"),
            &format!("packets are {what}"),
        );
    }
    say(counts.not_ip, "packet is no IP", "packets are no IP");
    say(
        counts.other_protocols,
        "packet is neither TCP nor UDP",
        "packets are neither TCP nor UDP",
    );
    say(
        counts.fragments,
        "packet is an IP fragment",
        "packets are IP fragments",
    );
    say(
        counts.reassembled,
        "datagram was put together from fragments",
        "datagrams were put together from fragments",
    );
    say(
        counts.incomplete,
        "datagram lacks fragments, and was left out",
        "datagrams lack fragments, and were left out",
    );
    say(
        counts.contradictory,
        "datagram has fragments that contradict each other, and was left out",
        "datagrams have fragments that contradict each other, and were left out",
    );
    say(
        counts.duplicate_fragments,
        "fragment came twice",
        "fragments came twice",
    );
    say(
        counts.gaps,
        "time bytes of a connection are missing or come late",
        "times bytes of a connection are missing or come late",
    );
    say(
        counts.evicted_flows,
        "flow made room for others while it was open; what came of it later counts as another flow",
        "flows made room for others while they were open; what came of them later counts as other flows",
    );
    if let Some(reason) = &damage.unreadable {
        lines.push(format!("it could not be read to its end: {reason}."));
    }
    lines
}

/// Facts of a rebuilt trace.
#[derive(Serialize)]
pub(super) struct RebuiltInfo {
    name: &'static str,
    messages: u64,
    rebuilt: &'static str,
}

impl RebuiltInfo {
    pub(super) fn of(rebuilt: Rebuilt) -> Self {
        Self {
            name: rebuilt.name(),
            messages: rebuilt.messages(),
            rebuilt: rebuilt.remark(),
        }
    }
}

pub(super) fn rebuilt(info: &RebuiltInfo) -> TraceTables {
    TraceTables {
        finding: format!(
            "{}: {}.",
            info.name,
            counted(info.messages, "message", "messages")
        ),
        tables: Vec::new(),
        trust: vec![format!("{}.", info.rebuilt)],
    }
}

pub(super) fn flows(flows: &FlowsOf, origin: &Origin) -> TraceTables {
    let name = |protocol: u8| if protocol == 6 { "TCP" } else { "UDP" };
    let held = flows.groups.iter().map(|group| {
        let numbers = [
            group.flows,
            group.packets,
            group.bytes,
            group.writes,
            group.again,
            group.opened,
            group.closed,
            group.reset,
            group.open,
            group.evicted,
        ];
        row(name(group.protocol), numbers.map(count).to_vec())
    });
    let columns = [
        ("flows", Unit::Count),
        ("packets", Unit::Count),
        ("user data", Unit::Bytes),
        ("messages", Unit::Count),
        ("sent again", Unit::Count),
        ("opened", Unit::Count),
        ("closed", Unit::Count),
        ("reset", Unit::Count),
        ("still open", Unit::Count),
        ("evicted", Unit::Count),
    ];
    let each = flows.groups.iter().map(|group| {
        let pairs = [
            group.duration_s.map(|s| s * 1e9),
            group.flow_bytes,
            group.flow_packets,
        ];
        let cells = pairs.iter().flatten().map(|number| Cell::exact(*number));
        row(name(group.protocol), cells.collect())
    });
    let each_columns = [
        ("duration, p50", Unit::Nanoseconds),
        ("duration, p99", Unit::Nanoseconds),
        ("user data, p50", Unit::Bytes),
        ("user data, p99", Unit::Bytes),
        ("packets, p50", Unit::Count),
        ("packets, p99", Unit::Count),
    ];
    let alive = flows.alive.iter().map(|alive| {
        row(
            format!("{:.3} s", alive.at_s),
            vec![count(alive.tcp), count(alive.udp)],
        )
    });
    let alive_columns = [("TCP", Unit::Count), ("UDP", Unit::Count)];
    let most = flows.alive.iter().map(|alive| alive.tcp).max().unwrap_or(0);
    let all: u64 = flows.groups.iter().map(|group| group.flows).sum();
    let mut trust = provenance(origin);
    trust.push("Percentiles of flows are estimated by t-digest.".to_owned());
    trust.push("A flow is alive from its first packet to its last.".to_owned());
    TraceTables {
        finding: format!(
            "{} in {:.3} s; at most {} alive at the times below.",
            counted(all, "flow", "flows"),
            flows.duration_s,
            counted(most, "TCP connection was", "TCP connections were")
        ),
        tables: vec![
            table("flows", "Flows", &columns, held.collect()),
            table("each", "Of a flow", &each_columns, each.collect()),
            table(
                "alive",
                "Flows alive over time",
                &alive_columns,
                alive.collect(),
            ),
        ],
        trust,
    }
}

pub(super) fn caches(caches: &CachesOf, origin: &Origin) -> TraceTables {
    let mut trust = provenance(origin);
    let Some(all) = &caches.all else {
        return TraceTables {
            finding: "There is no TCP.".to_owned(),
            tables: Vec::new(),
            trust,
        };
    };
    trust.push(
        "Every host that receives has a cache and tables of its own; keys, hash and table are those of Tollgate's stack. A connection is in the \
         lists from its first segment until both ends have sent a FIN and the last is acknowledged, or one sends a RST."
            .to_owned(),
    );
    if matches!(origin, Origin::Rebuilt(_)) {
        trust.push(
            "The order of a rebuilt trace is made up, so these hit ratios say nothing of 1992 or 1993.".to_owned(),
        );
    }
    if all.without_room > 0 {
        trust.push(format!(
            "{} found no room in the stack's table.",
            counted(all.without_room, "connection", "connections")
        ));
    }
    let of = |host: &Host| {
        vec![
            count(host.segments),
            count(host.connections),
            count(host.most_alive),
            percent(host.hit_ratio),
        ]
    };
    let mut rows = vec![row("all hosts", of(all))];
    for host in &caches.hosts {
        let address = host.address.map(|address| address.to_string());
        rows.push(row(address.unwrap_or_default(), of(host)));
    }
    if caches.more_hosts > 0 {
        trust.push(format!(
            "{} not listed; --top lists more.",
            counted(caches.more_hosts, "more host is", "more hosts are")
        ));
    }
    rows.extend(clark_rows());
    let columns = [
        ("segments received", Unit::Count),
        ("connections", Unit::Count),
        ("most at once", Unit::Count),
        ("one-entry cache hits", Unit::Percent),
    ];
    let looked = |looked: &Looked| {
        let label = match looked.lists {
            Some(lists) => counted(lists.into(), "list", "lists"),
            None => "the stack's table".to_owned(),
        };
        row(
            label,
            vec![percent(looked.at_first), Cell::exact(looked.compared)],
        )
    };
    let lists_columns = [
        ("found at first", Unit::Percent),
        ("connections compared", Unit::None),
    ];
    TraceTables {
        finding: format!(
            "The one-entry cache finds the connection of {} of the segments; Clark et al. 1989 measured 93.2 % on a workstation and 89.8 % on a mail server.",
            share(all.hit_ratio)
        ),
        tables: vec![
            table("cache", "The one-entry cache of TCBs", &columns, rows),
            table(
                "lists",
                "Lists by a hash, the last used connection first; all hosts",
                &lists_columns,
                all.looked.iter().map(looked).collect(),
            ),
        ],
        trust,
    }
}

/// Rows of what Clark et al. measured.
fn clark_rows() -> Vec<Row> {
    let Some(measured) = papers::table("clark-1989/tcb-cache") else {
        return Vec::new();
    };
    let cell = |host: &str, column: &str| match measured.cell(host, column) {
        Some(value) => Cell::Published {
            value,
            source: Published {
                authors: "Clark et al.".to_owned(),
                year: 1989,
                place: "Checksums and TCBs, p. 26".to_owned(),
            },
        },
        None => Cell::text(""),
    };
    [
        ("workstation", "1989, workstation"),
        ("mail-server", "1989, mail server"),
    ]
    .into_iter()
    .map(|(host, label)| {
        row(
            label,
            vec![
                cell(host, "packets"),
                cell(host, "connections"),
                Cell::text(""),
                cell(host, "hit-ratio"),
            ],
        )
    })
    .collect()
}
