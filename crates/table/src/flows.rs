//! The flows of a trace: how many, how long, how large, how they ended, and how many were alive at the same time.

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use serde::Serialize;

use crate::Error;
use crate::session::Session;

/// Points in time at which the flows that are alive are counted.
const POINTS: i64 = 24;

/// The flows of one protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// IANA's number of the protocol.
    pub protocol: u8,
    /// The count of flows.
    pub flows: u64,
    /// Packets, fragments each.
    pub packets: u64,
    /// Bytes of user data, repetitions included.
    pub bytes: u64,
    /// Messages as applications wrote them.
    pub writes: u64,
    /// Packets whose user data had all been sent before.
    pub again: u64,
    /// Flows whose beginning was captured.
    pub opened: u64,
    /// Flows that both ends closed.
    pub closed: u64,
    /// Flows that one end reset.
    pub reset: u64,
    /// Flows that were open at the end.
    pub open: u64,
    /// Flows that had to make room for others while they were open; what came of them later counts as other flows.
    pub evicted: u64,
    /// Durations from the first packet to the last, in seconds: median and 99th percentile, estimated by t-digest.
    pub duration_s: [f64; 2],
    /// Bytes of user data of a flow, likewise.
    pub flow_bytes: [f64; 2],
    /// Packets of a flow, likewise.
    pub flow_packets: [f64; 2],
}

/// Counts of flows alive at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alive {
    /// Seconds after the first packet.
    pub at_s: f64,
    /// TCP connections between their first and their last packet.
    pub tcp: u64,
    /// Flows of UDP likewise.
    pub udp: u64,
}

/// Summary of the flows of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowsOf {
    /// `tollgate-trace-flows`.
    pub schema: &'static str,
    /// 1.
    pub version: u32,
    /// Seconds from the first packet to the last.
    pub duration_s: f64,
    /// By protocol.
    pub groups: Vec<Group>,
    /// At points in time evenly apart.
    pub alive: Vec<Alive>,
}

/// The flows of a trace.
///
/// # Errors
/// When a query fails.
pub fn of(session: &Session) -> Result<FlowsOf, Error> {
    let groups = groups(session)?;
    let (first, last) = bounds(session)?;
    Ok(FlowsOf {
        schema: "tollgate-trace-flows",
        version: 1,
        duration_s: (last - first) as f64 / 1e9,
        groups,
        alive: alive(session, first, last)?,
    })
}

fn groups(session: &Session) -> Result<Vec<Group>, Error> {
    let sql = "WITH f AS (SELECT protocol, opened, ending, \
                 (CAST(last AS BIGINT) - CAST(first AS BIGINT)) / 1e9 AS seconds, \
                 packets_to_server + packets_to_client AS packets, bytes_to_server + bytes_to_client AS bytes, \
                 writes_to_server + writes_to_client AS writes, again_to_server + again_to_client AS again FROM flows) \
               SELECT protocol, count(*), sum(packets), sum(bytes), sum(writes), sum(again), \
                 count(*) FILTER (WHERE opened), count(*) FILTER (WHERE ending = 'closed'), \
                 count(*) FILTER (WHERE ending = 'reset'), count(*) FILTER (WHERE ending = 'open'), \
                 count(*) FILTER (WHERE ending = 'evicted'), \
                 approx_percentile_cont(seconds, 0.5), approx_percentile_cont(seconds, 0.99), \
                 approx_percentile_cont(CAST(bytes AS DOUBLE), 0.5), approx_percentile_cont(CAST(bytes AS DOUBLE), 0.99), \
                 approx_percentile_cont(CAST(packets AS DOUBLE), 0.5), approx_percentile_cont(CAST(packets AS DOUBLE), 0.99) \
               FROM f GROUP BY protocol ORDER BY protocol";
    let mut groups = Vec::new();
    for batch in session.query(sql)?.1 {
        let whole = (0..11).map(|at| whole(&batch, at));
        let whole = whole.collect::<Result<Vec<_>, Error>>()?;
        let real = (11..17).map(|at| real(&batch, at));
        let real = real.collect::<Result<Vec<_>, Error>>()?;
        for row in 0..batch.num_rows() {
            let count = |at: usize| whole[at][row].unsigned_abs();
            groups.push(Group {
                protocol: count(0) as u8,
                flows: count(1),
                packets: count(2),
                bytes: count(3),
                writes: count(4),
                again: count(5),
                opened: count(6),
                closed: count(7),
                reset: count(8),
                open: count(9),
                evicted: count(10),
                duration_s: [real[0][row], real[1][row]],
                flow_bytes: [real[2][row], real[3][row]],
                flow_packets: [real[4][row], real[5][row]],
            });
        }
    }
    Ok(groups)
}

/// The first and the last packet of all flows, in nanoseconds; zeros when there are none.
fn bounds(session: &Session) -> Result<(i64, i64), Error> {
    let sql = "SELECT coalesce(min(CAST(first AS BIGINT)), 0), coalesce(max(CAST(last AS BIGINT)), 0) FROM flows";
    let (_, batches) = session.query(sql)?;
    let batch = batches
        .iter()
        .find(|batch| batch.num_rows() > 0)
        .ok_or(Error::Tables("an aggregate has no row"))?;
    Ok((whole(batch, 0)?[0], whole(batch, 1)?[0]))
}

fn alive(session: &Session, first: i64, last: i64) -> Result<Vec<Alive>, Error> {
    let points: Vec<i64> = (0..POINTS)
        .map(|point| {
            first
                + ((i128::from(last) - i128::from(first)) * i128::from(point)
                    / i128::from(POINTS - 1)) as i64
        })
        .collect();
    let values: Vec<String> = points.iter().map(|point| format!("({point})")).collect();
    let sql = format!(
        "SELECT p.at, count(*) FILTER (WHERE f.protocol = 6), count(*) FILTER (WHERE f.protocol = 17) \
         FROM (VALUES {}) AS p(at) JOIN flows f ON CAST(f.first AS BIGINT) <= p.at AND CAST(f.last AS BIGINT) >= p.at \
         GROUP BY p.at ORDER BY p.at",
        values.join(", ")
    );
    let mut alive: Vec<Alive> = points
        .iter()
        .map(|point| Alive {
            at_s: (point - first) as f64 / 1e9,
            tcp: 0,
            udp: 0,
        })
        .collect();
    for batch in session.query(&sql)?.1 {
        let (at, tcp, udp) = (whole(&batch, 0)?, whole(&batch, 1)?, whole(&batch, 2)?);
        for row in 0..batch.num_rows() {
            if let Some(place) = points.iter().position(|point| *point == at[row]) {
                alive[place].tcp = tcp[row].unsigned_abs();
                alive[place].udp = udp[row].unsigned_abs();
            }
        }
    }
    Ok(alive)
}

/// A column of whole numbers.
fn whole(batch: &RecordBatch, at: usize) -> Result<Vec<i64>, Error> {
    let column = cast(batch.column(at), &DataType::Int64)?;
    Ok(column.as_primitive::<Int64Type>().values().to_vec())
}

fn real(batch: &RecordBatch, at: usize) -> Result<Vec<f64>, Error> {
    let column = cast(batch.column(at), &DataType::Float64)?;
    Ok(column.as_primitive::<Float64Type>().values().to_vec())
}
