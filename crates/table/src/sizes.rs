//! Sizes of messages: by protocol, by both definitions of a message, within the site and beyond it.

use std::collections::BTreeMap;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, UInt8Type, UInt32Type};
use serde::Serialize;

use crate::Error;
use crate::distribution::{Bin, Modes, Sizes};
use crate::prefix::Prefix;
use crate::session::Session;

/// Between whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Both ends lie within the prefixes.
    Lan,
    /// One end at least lies beyond.
    Wan,
    /// Anyone.
    All,
}

/// Definition of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The payload of a UDP datagram.
    UdpDatagram,
    /// The payload of a TCP segment.
    TcpSegment,
    /// A write of an application to a TCP connection, reconstructed from the segments.
    TcpWrite,
}

impl Kind {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UdpDatagram => "UDP datagrams",
            Self::TcpSegment => "TCP segments",
            Self::TcpWrite => "TCP writes",
        }
    }
}

/// The sizes of one group of messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// Between whom.
    pub scope: Scope,
    /// The definition of a message.
    pub kind: Kind,
    /// The count of messages.
    pub messages: u64,
    /// Of the datagrams and segments of the same scope, from 0 to 1; nothing for writes.
    pub share_of_segments: Option<f64>,
    /// Of the datagrams and writes of the same scope, from 0 to 1; nothing for segments.
    pub share_of_writes: Option<f64>,
    /// Bytes of user data in all.
    pub bytes: u64,
    /// Half of them are at most this large, in bytes.
    pub p50: u32,
    /// Nine of ten.
    pub p90: u32,
    /// 99 of a hundred.
    pub p99: u32,
    /// The largest.
    pub largest: u32,
    /// The share of less than 200 bytes, the bound of Kay and Pasquale 1996.
    pub below_200: f64,
    /// The share of at most 500 bytes, theirs for the WAN.
    pub at_most_500: f64,
    /// The share of 7,168 to 9,216 bytes: "approximately 8 kbytes".
    pub near_8k: f64,
    /// The two modes, when there are two.
    pub modes: Option<Modes>,
    /// Bins by powers of two.
    pub bins: Vec<Bin>,
}

impl Group {
    /// `segments` and `writes` are the messages of the same scope by either definition.
    fn of(scope: Scope, kind: Kind, sizes: &Sizes, segments: u64, writes: u64) -> Option<Self> {
        let among = |all: u64| sizes.messages() as f64 / all.max(1) as f64;
        Some(Self {
            scope,
            kind,
            messages: sizes.messages(),
            share_of_segments: (kind != Kind::TcpWrite).then(|| among(segments)),
            share_of_writes: (kind != Kind::TcpSegment).then(|| among(writes)),
            bytes: sizes.bytes(),
            p50: sizes.quantile(0.5)?,
            p90: sizes.quantile(0.9)?,
            p99: sizes.quantile(0.99)?,
            largest: sizes.largest()?,
            below_200: sizes.share(0, 200),
            at_most_500: sizes.share(0, 501),
            near_8k: sizes.share(7_168, 9_217),
            modes: sizes.modes(),
            bins: sizes.bins(),
        })
    }
}

/// The sizes of all messages of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizesOf {
    /// `tollgate-trace-sizes`.
    pub schema: &'static str,
    /// 3.
    pub version: u32,
    /// The prefixes of the site; none when no split was requested, or none is possible.
    pub local: Option<Vec<String>>,
    /// By scope, then by kind; groups without messages are left out.
    pub groups: Vec<Group>,
}

/// The sizes of the messages of a trace; within `local` is LAN, all else WAN.
///
/// # Errors
/// When the query fails.
pub fn of(session: &Session, local: Option<&[Prefix]>) -> Result<SizesOf, Error> {
    let (lan, join) = match local {
        Some(prefixes) => {
            let list = prefixes.iter().map(ToString::to_string);
            let list = list.collect::<Vec<_>>().join(",");
            let join = format!(
                "JOIN (SELECT flow, in_prefix(client, '{list}') AND in_prefix(server, '{list}') AS lan FROM flows) f \
                 ON m.flow = f.flow"
            );
            ("f.lan", join)
        }
        None => ("false", String::new()),
    };
    let sql = format!(
        "SELECT {lan} AS lan, m.protocol, m.is_segment, m.is_write, m.size, count(*) AS n FROM messages m {join} \
         GROUP BY 1, 2, 3, 4, 5"
    );
    let mut found: BTreeMap<(Scope, Kind), Sizes> = BTreeMap::new();
    for batch in session.query(&sql)?.1 {
        let counts = cast(batch.column(5), &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>();
        let lan = batch.column(0).as_boolean();
        let protocol = batch.column(1).as_primitive::<UInt8Type>();
        let is_segment = batch.column(2).as_boolean();
        let is_write = batch.column(3).as_boolean();
        let size = batch.column(4).as_primitive::<UInt32Type>();
        for row in 0..batch.num_rows() {
            let kinds: &[(Kind, bool)] = match protocol.value(row) {
                17 => &[(Kind::UdpDatagram, true)],
                _ => &[
                    (Kind::TcpSegment, is_segment.value(row)),
                    (Kind::TcpWrite, is_write.value(row)),
                ],
            };
            let scope = if lan.value(row) {
                Scope::Lan
            } else {
                Scope::Wan
            };
            for (kind, _) in kinds.iter().filter(|(_, counts)| *counts) {
                let n = counts.value(row).unsigned_abs();
                for scope in [scope, Scope::All] {
                    let sizes = found.entry((scope, *kind)).or_default();
                    sizes.add(size.value(row), n);
                }
            }
        }
    }
    let messages = |scope: Scope, kind: Kind| found.get(&(scope, kind)).map_or(0, Sizes::messages);
    let groups = found.iter().filter_map(|((scope, kind), sizes)| {
        let datagrams = messages(*scope, Kind::UdpDatagram);
        let segments = datagrams + messages(*scope, Kind::TcpSegment);
        let writes = datagrams + messages(*scope, Kind::TcpWrite);
        (local.is_some() || *scope == Scope::All)
            .then(|| Group::of(*scope, *kind, sizes, segments, writes))
            .flatten()
    });
    Ok(SizesOf {
        schema: "tollgate-trace-sizes",
        version: 3,
        local: local.map(|list| list.iter().map(ToString::to_string).collect()),
        groups: groups.collect(),
    })
}
