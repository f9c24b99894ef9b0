//! Counts of messages by size in a trace, by protocol and by stretch of its time: the weights of costs.

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, UInt8Type, UInt32Type};
use tollgate_trace::rows::Protocol;
use tollgate_trace::traffic::{Messages, Stretch, Traffic};

use crate::Error;
use crate::session::Session;

/// Stretches of time that a trace is cut into: enough that their spread is known, few enough that what hangs together mostly lies
/// in one.
const STRETCHES: i64 = 64;

/// The messages of a trace by one definition.
///
/// # Errors
/// When a query fails.
pub fn of(session: &Session, messages: Messages) -> Result<Traffic, Error> {
    let holds = match messages {
        Messages::Segments => "is_segment",
        Messages::Writes => "is_write",
    };
    // Every stretch is as long as the others; the last instant lies in the last one.
    let sql = format!(
        "SELECT least((CAST(m.time AS BIGINT) - t.oldest) / (1 + (t.newest - t.oldest) / {STRETCHES}), {STRETCHES} - 1) AS stretch, \
         m.protocol, m.size, count(*) AS n \
         FROM messages m CROSS JOIN (SELECT CAST(min(time) AS BIGINT) AS oldest, CAST(max(time) AS BIGINT) AS newest FROM messages) t \
         WHERE m.{holds} GROUP BY 1, 2, 3"
    );
    let mut stretches = vec![Stretch::default(); STRETCHES as usize];
    for batch in session.query(&sql)?.1 {
        let stretch = cast(batch.column(0), &DataType::Int64)?;
        let stretch = stretch.as_primitive::<Int64Type>();
        let protocol = batch.column(1).as_primitive::<UInt8Type>();
        let size = batch.column(2).as_primitive::<UInt32Type>();
        let counts = cast(batch.column(3), &DataType::Int64)?;
        let counts = counts.as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let protocol = match protocol.value(row) {
                17 => Protocol::Udp,
                _ => Protocol::Tcp,
            };
            let place = stretch.value(row).clamp(0, STRETCHES - 1) as usize;
            stretches[place].add(protocol, size.value(row), counts.value(row).unsigned_abs());
        }
    }
    Ok(Traffic::new(stretches))
}
