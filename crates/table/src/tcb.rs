//! The one-entry cache of TCBs and lists by a hash over a trace: what Clark et al. 1989 measured on two hosts.

use std::collections::HashMap;
use std::net::IpAddr;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{UInt8Type, UInt16Type, UInt64Type};
use serde::Serialize;
use tollgate_trace::rows::{End, Ends, Protocol};
use tollgate_trace::tcb_cache::{CacheCounts, LIST_BITS, Lookups, TcbCaches};
use tollgate_wire::tcp::Flags;

use crate::Error;
use crate::session::Session;

/// Lookups in some structure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Looked {
    /// Lists by the hash; nothing for the stack's table.
    pub lists: Option<u32>,
    /// The share of segments whose connection was the first that was compared, from 0 to 1.
    pub at_first: f64,
    /// Connections that were compared for each segment, mean.
    pub compared: f64,
}

/// Segments and cache hits of one host, or of all of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Host {
    /// Its address; nothing for all hosts.
    pub address: Option<IpAddr>,
    /// TCP segments received.
    pub segments: u64,
    /// Connections.
    pub connections: u64,
    /// The most connections at the same time, at one host.
    pub most_alive: u64,
    /// The share of segments of the same connection as the one before, from 0 to 1.
    pub hit_ratio: f64,
    /// Lookups in lists, and in the stack's table.
    pub looked: Vec<Looked>,
    /// Connections for which the stack's table had no room.
    pub without_room: u64,
}

impl Host {
    fn of(address: Option<IpAddr>, counts: &CacheCounts) -> Option<Self> {
        let looked = |lists, lookups: &Lookups| Looked {
            lists,
            at_first: lookups.at_first as f64 / counts.segments.max(1) as f64,
            compared: lookups.compared as f64 / counts.segments.max(1) as f64,
        };
        let lists = LIST_BITS.iter().zip(&counts.lists);
        let lists = lists.map(|(bits, lookups)| looked(Some(1 << bits), lookups));
        Some(Self {
            address,
            segments: counts.segments,
            connections: counts.connections,
            most_alive: counts.most_alive,
            hit_ratio: counts.hit_ratio()?,
            looked: lists.chain([looked(None, &counts.table)]).collect(),
            without_room: counts.without_room,
        })
    }
}

/// The caches of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CachesOf {
    /// `tollgate-trace-cache`.
    pub schema: &'static str,
    /// 1.
    pub version: u32,
    /// All hosts together; nothing when there is no TCP.
    pub all: Option<Host>,
    /// The hosts that received most.
    pub hosts: Vec<Host>,
    /// The count of hosts that are not listed.
    pub more_hosts: u64,
}

/// The caches of the hosts of a trace, of which the `top` that received most are listed.
///
/// # Errors
/// When a query fails.
pub fn of(session: &Session, top: usize) -> Result<CachesOf, Error> {
    let mut ends: HashMap<u64, Ends> = HashMap::new();
    let sql = "SELECT flow, arrow_cast(client, 'Utf8'), client_port, arrow_cast(server, 'Utf8'), server_port FROM flows \
               WHERE protocol = 6";
    for batch in session.query(sql)?.1 {
        let flow = batch.column(0).as_primitive::<UInt64Type>();
        for row in 0..batch.num_rows() {
            let both = Ends {
                protocol: Protocol::Tcp,
                client: end(&batch, 1, row)?,
                server: end(&batch, 3, row)?,
            };
            ends.insert(flow.value(row), both);
        }
    }
    let mut caches = TcbCaches::default();
    session.in_order("SELECT flow, to_server, flags FROM packets", |batch| {
        let flow = batch.column(0).as_primitive::<UInt64Type>();
        let to_server = batch.column(1).as_boolean();
        let flags = batch.column(2).as_primitive::<UInt8Type>();
        for row in 0..batch.num_rows() {
            if let Some(ends) = ends.get(&flow.value(row)) {
                let flags = Flags(flags.value(row));
                caches.segment(flow.value(row), ends, to_server.value(row), flags);
            }
        }
        Ok(())
    })?;
    let hosts = caches.hosts();
    Ok(CachesOf {
        schema: "tollgate-trace-cache",
        version: 1,
        all: Host::of(None, &caches.all()),
        hosts: hosts
            .iter()
            .take(top)
            .filter_map(|(address, counts)| Host::of(Some(*address), counts))
            .collect(),
        more_hosts: hosts.len().saturating_sub(top) as u64,
    })
}

/// An address and the port in the column behind it.
fn end(batch: &RecordBatch, at: usize, row: usize) -> Result<End, Error> {
    let text = batch.column(at).as_string::<i32>().value(row);
    Ok(End {
        address: text
            .parse()
            .map_err(|_| Error::Tables("an address is none"))?,
        port: batch.column(at + 1).as_primitive::<UInt16Type>().value(row),
    })
}
