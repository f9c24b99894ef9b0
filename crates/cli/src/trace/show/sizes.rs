//! Sizes of messages, as a finding and tables: by scope, and beside what Kay and Pasquale published.

use tollgate_papers as papers;
use tollgate_run::{
    Cell, Column, Row, Source as Published, Table, Unit, format::counted, format::whole,
};
use tollgate_table::Bin;
use tollgate_table::session::Origin;
use tollgate_table::sizes::{Group, Kind, Scope, SizesOf};

use super::{TraceTables, count, percent, provenance, row, share, table};

/// Sizes of the messages of a trace.
pub(in crate::trace) fn sizes(sizes: &SizesOf, origin: &Origin, bins: bool) -> TraceTables {
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
        "By segments or by writes: shares of UDP and TCP together, as segments carry TCP or as it was written."
            .to_owned(),
    );
    let columns = [
        ("messages", Unit::Count),
        ("by segments", Unit::Percent),
        ("by writes", Unit::Percent),
        ("p50", Unit::Bytes),
        ("p90", Unit::Bytes),
        ("p99", Unit::Bytes),
        ("largest", Unit::Bytes),
        ("< 200 B", Unit::Percent),
        ("<= 500 B", Unit::Percent),
        ("7 to 9 KiB", Unit::Percent),
    ];
    let part = |share: Option<f64>| share.map_or_else(|| Cell::text(""), percent);
    let shown = shown_groups(sizes);
    let mut tables = Vec::new();
    for among in [Scope::Lan, Scope::Wan, Scope::All] {
        let of = shown.iter().filter(|group| group.scope == among);
        let mut rows: Vec<Row> = of
            .map(|group| {
                let cells = vec![
                    count(group.messages),
                    part(group.share_of_segments),
                    part(group.share_of_writes),
                    count(group.p50.into()),
                    count(group.p90.into()),
                    count(group.p99.into()),
                    count(group.largest.into()),
                    percent(group.below_200),
                    percent(group.at_most_500),
                    percent(group.near_8k),
                ];
                row(format!("{}{}", scope(among), group.kind.name()), cells)
            })
            .collect();
        if !rows.is_empty() {
            rows.extend(kay_rows(among));
            let (id, title) = match among {
                Scope::Lan => ("sizes-lan", "User data of a message, LAN"),
                Scope::Wan => ("sizes-wan", "User data of a message, WAN"),
                Scope::All => ("sizes", "User data of a message"),
            };
            tables.push(table(id, title, &columns, rows));
        }
    }
    if bins {
        tables.push(bin_table(sizes));
    }
    TraceTables {
        finding: sizes_finding(sizes),
        tables,
        trust,
    }
}

/// The groups of LAN and WAN where there are both, else those of all.
fn shown_groups(sizes: &SizesOf) -> Vec<&Group> {
    let has = |scope: Scope| sizes.groups.iter().any(|group| group.scope == scope);
    let both = has(Scope::Lan) && has(Scope::Wan);
    let only = sizes.local.is_some() && !both;
    sizes
        .groups
        .iter()
        .filter(|group| {
            both || only && group.scope != Scope::All || !only && group.scope == Scope::All
        })
        .collect()
}

const fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Lan => "LAN, ",
        Scope::Wan => "WAN, ",
        Scope::All => "all, ",
    }
}

/// Sizes that Kay and Pasquale published. They counted packets, of which several may carry one write.
fn kay_rows(among: Scope) -> impl Iterator<Item = Row> {
    let fact = |id: &str| papers::fact(&format!("kay-pasquale-1996/{id}"));
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
                none(),
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
    let lan = [
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
    ];
    let wan = [of(
        "1993 WAN, TCP's share; all",
        value("wan-tcp-share"),
        None,
        None,
        value("wan-small-share"),
        None,
    )];
    let lan = lan.into_iter().filter(move |_| among != Scope::Wan);
    lan.chain(wan.into_iter().filter(move |_| among != Scope::Lan))
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
            name: format!("{}{}", scope(group.scope), group.kind.name()),
            unit: Unit::Percent,
        })
        .collect();
    let rows = (0..last).map(|at| {
        // The last bin of a group ends with its largest size.
        let bins = groups.iter().filter_map(|group| group.bins.get(at));
        let bin = bins.max_by_key(|bin| bin.to);
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
    let where_ = match most.scope {
        Scope::Lan => "On the LAN ",
        Scope::Wan => "On the WAN ",
        Scope::All => "",
    };
    let kind = match most.kind {
        Kind::UdpDatagram => "UDP",
        Kind::TcpSegment | Kind::TcpWrite => "TCP",
    };
    let part = share(most.share_of_writes.unwrap_or(0.0));
    let of_all = format!("{where_}{part} of the messages are {kind}");
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
