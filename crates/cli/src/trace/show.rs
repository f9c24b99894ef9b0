//! What was found in a trace, as a finding, tables, and how far to trust them.

use serde::Serialize;
use tollgate_experiment::published;
use tollgate_experiment::run::{Cell, Column, Row, RowKind, Source as Published, Table, Unit};
use tollgate_experiment::words::{counted, whole};
use tollgate_table::Bin;
use tollgate_table::flows::FlowsOf;
use tollgate_table::import::Outcome;
use tollgate_table::place::Place;
use tollgate_table::session::Origin;
use tollgate_table::sizes::{Group, Kind, Reach, SizesOf};
use tollgate_table::store::Source;
use tollgate_table::tcb::{CachesOf, Host, Looked};
use tollgate_trace::rebuilt::Rebuilt;

/// What is shown.
#[derive(Default)]
pub(super) struct Shown {
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

/// What must be said of where a trace comes from.
fn provenance(origin: &Origin) -> Vec<String> {
    match origin {
        Origin::Rebuilt(rebuilt) => vec![format!("{}: {}.", rebuilt.name(), rebuilt.remark())],
        Origin::Stored(trace) => {
            let sources = trace.sources();
            let mut lines = vec![held(sources, trace.place())];
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
    damage.skipped_octets
        + damage.cut_octets
        + damage.without_interface
        + u64::from(damage.unreadable.is_some())
        + counts.malformed
        + counts.headers_cut
        + counts.unknown_links.values().sum::<u64>()
}

/// What became of one file.
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

pub(super) fn import(imported: &[Imported], into: &Place) -> Shown {
    let new: Vec<Source> = imported
        .iter()
        .filter_map(|one| match one {
            Imported::New(source) => Some(source.as_ref().clone()),
            Imported::Known { .. } => None,
        })
        .collect();
    let mut shown = captures(&new);
    let sum = |of: fn(&Source) -> u64| new.iter().map(of).sum();
    shown.finding = if new.is_empty() {
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

pub(super) fn info(sources: &[Source], place: &Place) -> Shown {
    let mut shown = captures(sources);
    shown.finding = held(sources, place);
    shown
}

/// What a trace holds, in a sentence.
fn held(sources: &[Source], place: &Place) -> String {
    let packets = sources.iter().map(|source| source.counts.packets).sum();
    format!(
        "{place}: {}, {}.",
        counted(sources.len() as u64, "capture", "captures"),
        counted(packets, "packet", "packets")
    )
}

/// Captures, what they held, and what of them could not be read.
fn captures(sources: &[Source]) -> Shown {
    let held = sources.iter().map(|source| {
        let counts = &source.counts;
        let (tcp, udp) = (&counts.tcp, &counts.udp);
        row(
            &source.name,
            vec![
                count(counts.packets),
                count(tcp.packets),
                count(tcp.octets),
                count(tcp.flows),
                count(udp.packets),
                count(udp.octets),
                count(udp.flows),
                count(counts.messages),
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
    ];
    let mut shown = Shown::default();
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

/// What is to be said of one capture besides its counts.
fn remarks(source: &Source) -> Vec<String> {
    let Source { counts, damage, .. } = source;
    let mut lines = Vec::new();
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
        damage.skipped_octets,
        "octet was skipped there",
        "octets were skipped there",
    );
    say(
        damage.cut_octets,
        "octet at the end is no whole packet",
        "octets at the end are no whole packet",
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
        "datagram of TCP or UDP was put together from fragments",
        "datagrams of TCP and UDP were put together from fragments",
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
        "time octets of a connection are missing or come late",
        "times octets of a connection are missing or come late",
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

/// What is known of a rebuilt trace.
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

pub(super) fn rebuilt(info: &RebuiltInfo) -> Shown {
    Shown {
        finding: format!(
            "{}: {}.",
            info.name,
            counted(info.messages, "message", "messages")
        ),
        tables: Vec::new(),
        trust: vec![format!("{}.", info.rebuilt)],
    }
}

pub(super) fn sizes(sizes: &SizesOf, origin: &Origin, bins: bool) -> Shown {
    let mut trust = provenance(origin);
    match &sizes.local {
        Some(list) => trust.push(format!("LAN is between two addresses within {}; WAN is all else.", list.join(", "))),
        None => trust.push("LAN and WAN cannot be told apart by replaced addresses; --lan names prefixes as they were replaced.".to_owned()),
    }
    trust.push(
        "A TCP write is what an application wrote as far as segments show it: up to PSH, FIN, a gap, a pause, or user data of the other end."
            .to_owned(),
    );
    trust.push(
        "A share is one of TCP and UDP together: in the row of TCP's segments these beside the datagrams, in the others TCP's writes."
            .to_owned(),
    );
    let columns = [
        ("messages", Unit::Count),
        ("share", Unit::Percent),
        ("p50", Unit::Bytes),
        ("p90", Unit::Bytes),
        ("p99", Unit::Bytes),
        ("largest", Unit::Bytes),
        ("< 200 B", Unit::Percent),
        ("<= 500 B", Unit::Percent),
        ("7 to 9 KiB", Unit::Percent),
    ];
    let mut rows = Vec::new();
    for group in shown_groups(sizes) {
        rows.push(row(
            format!("{}{}", reach(group.reach), group.kind.name()),
            vec![
                count(group.messages),
                percent(group.share),
                count(group.p50.into()),
                count(group.p90.into()),
                count(group.p99.into()),
                count(group.largest.into()),
                percent(group.below_200),
                percent(group.at_most_500),
                percent(group.near_8k),
            ],
        ));
    }
    rows.extend(kay_rows());
    let mut tables = vec![table("sizes", "User data of a message", &columns, rows)];
    if bins {
        tables.push(bin_table(sizes));
    }
    Shown {
        finding: sizes_finding(sizes),
        tables,
        trust,
    }
}

/// The groups of LAN and WAN where there are both, else those of all.
fn shown_groups(sizes: &SizesOf) -> Vec<&Group> {
    let has = |reach: Reach| sizes.groups.iter().any(|group| group.reach == reach);
    let both = has(Reach::Lan) && has(Reach::Wan);
    let only = sizes.local.is_some() && !both;
    sizes
        .groups
        .iter()
        .filter(|group| {
            both || only && group.reach != Reach::All || !only && group.reach == Reach::All
        })
        .collect()
}

const fn reach(reach: Reach) -> &'static str {
    match reach {
        Reach::Lan => "LAN, ",
        Reach::Wan => "WAN, ",
        Reach::All => "all, ",
    }
}

/// What Kay and Pasquale published of the same.
fn kay_rows() -> Vec<Row> {
    let fact = |id: &str| published::fact(&format!("kay-pasquale-1996/{id}"));
    let cell = |value: Option<f64>, place: &str| match value {
        Some(value) => Cell::Published {
            value,
            source: Published {
                authors: "Kay and Pasquale".to_owned(),
                year: 1996,
                place: place.to_owned(),
            },
        },
        None => Cell::text(""),
    };
    let value = |id: &str| fact(id).map(|fact| fact.value);
    let none = || Cell::text("");
    let of = |label: &str, share, p50, below_200, at_most_500, near_8k| {
        row(
            label,
            vec![
                none(),
                cell(share, "II"),
                cell(p50, "II"),
                none(),
                none(),
                none(),
                cell(below_200, "II"),
                cell(at_most_500, "II"),
                cell(near_8k, "II"),
            ],
        )
    };
    vec![
        of(
            "1992 LAN, UDP",
            value("lan-udp-share"),
            value("lan-udp-median"),
            value("lan-udp-small-share"),
            None,
            value("lan-udp-large-share"),
        ),
        of(
            "1992 LAN, TCP",
            value("lan-udp-share").map(|udp| 100.0 - udp),
            value("lan-tcp-median"),
            value("lan-tcp-small-share"),
            None,
            None,
        ),
        of(
            "1993 WAN, TCP's share; all",
            value("wan-tcp-share"),
            None,
            None,
            value("wan-small-share"),
            None,
        ),
    ]
}

fn bin_table(sizes: &SizesOf) -> Table {
    let groups = shown_groups(sizes);
    let last = groups
        .iter()
        .map(|group| group.bins.len())
        .max()
        .unwrap_or(0);
    let columns: Vec<Column> = groups
        .iter()
        .map(|group| Column {
            name: format!("{}{}", reach(group.reach), group.kind.name()),
            unit: Unit::Percent,
        })
        .collect();
    let rows = (0..last).map(|at| {
        let bin = groups.iter().find_map(|group| group.bins.get(at));
        let cells = groups.iter().map(|group| {
            let share = group.bins.get(at).map_or(0.0, |bin| bin.share);
            percent(share)
        });
        row(bin.map_or_else(String::new, bounds), cells.collect())
    });
    Table {
        id: "bins".to_owned(),
        title: "Messages by size, share of each kind".to_owned(),
        columns,
        rows: rows.collect(),
    }
}

fn bounds(bin: &Bin) -> String {
    if bin.from == bin.to {
        format!("{} B", whole(bin.from.into()))
    } else {
        format!("{} to {} B", whole(bin.from.into()), whole(bin.to.into()))
    }
}

fn sizes_finding(sizes: &SizesOf) -> String {
    let groups = shown_groups(sizes);
    // Segments are how writes travel; the finding is about what was written.
    let most = groups
        .iter()
        .filter(|group| group.kind != Kind::TcpSegment)
        .max_by_key(|group| group.messages);
    let Some(most) = most else {
        return "There are no messages.".to_owned();
    };
    let where_ = match most.reach {
        Reach::Lan => "On the LAN ",
        Reach::Wan => "On the WAN ",
        Reach::All => "",
    };
    let kind = match most.kind {
        Kind::UdpDatagram => "UDP",
        Kind::TcpSegment | Kind::TcpWrite => "TCP",
    };
    let of_all = format!("{where_}{} of the messages are {kind}", share(most.share));
    match &most.modes {
        Some(modes) => format!(
            "{of_all}; their sizes are bimodal: {} are below {}, most of them {}, and {} are above {}, most of them {}.",
            share(modes.below),
            counted(modes.between.from.into(), "byte", "bytes"),
            bounds(&modes.small),
            share(modes.above),
            whole(modes.between.to.into()),
            bounds(&modes.large),
        ),
        None => format!(
            "{of_all}; half of them have at most {}, and {} less than 200.",
            counted(most.p50.into(), "byte", "bytes"),
            share(most.below_200)
        ),
    }
}

pub(super) fn flows(flows: &FlowsOf, origin: &Origin) -> Shown {
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
    Shown {
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

pub(super) fn caches(caches: &CachesOf, origin: &Origin) -> Shown {
    let mut trust = provenance(origin);
    let Some(all) = &caches.all else {
        return Shown {
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
    Shown {
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

/// What Clark et al. measured.
fn clark_rows() -> Vec<Row> {
    let Some(measured) = published::table("clark-1989/tcb-cache") else {
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
