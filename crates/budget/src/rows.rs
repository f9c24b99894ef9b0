//! The rows of the table: what is counted, the bar, and what others need for the same.

use crate::Error;
use crate::profile::{Instruction, Profile, Sources};
use crate::scenario;
use crate::valgrind::Program;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use tollgate_stack::Stack;

/// What a value must not exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// This.
    AtMost(f64),
    /// So many times the value of another row.
    Times(f64, &'static str),
    /// Nothing is asked.
    None,
}

/// How a row's value is found.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// Instructions per operation of a scenario.
    Count(&'static str),
    /// The same without the C library's copying.
    CountWithoutCopy(&'static str),
    /// Instructions per operation of a scenario, those alone that `belongs` says yes to.
    Part(&'static str, fn(&Instruction) -> bool),
    /// Instructions of a round trip that write or compare deadlines, per setting or clearing of one.
    DeadlineWrites,
    /// What the TCB and its entries take.
    ConnectionBytes,
    /// Growth of the resident memory.
    ConnectionResident,
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its key in the budgets file.
    pub id: &'static str,
    /// What is counted.
    pub what: &'static str,
    /// Unit of bar, budget and value.
    pub unit: &'static str,
    /// The bar.
    pub bar: Bar,
    /// What others need, from the issue that sets the bar.
    pub others: &'static str,
    source: Source,
}

const INSTRUCTIONS: &str = "instructions";
const BYTES: &str = "bytes";

const fn row(id: &'static str, what: &'static str, bar: Bar, others: &'static str) -> Row {
    Row {
        id,
        what,
        unit: INSTRUCTIONS,
        bar,
        others,
        source: Source::Count(id),
    }
}

/// Tells whether an instruction is the pool's.
fn is_pool(one: &Instruction) -> bool {
    one.frames
        .iter()
        .any(|frame| frame.function.contains("tollgate_stack::buffer::Pool"))
}

/// Tells whether an instruction is the wheel's.
fn is_wheel(one: &Instruction) -> bool {
    one.frames
        .iter()
        .any(|frame| frame.function.contains("tollgate_stack::timer::"))
}

/// Tells whether an instruction is the wheel's and puts a timer in its place, not takes it out of another.
fn is_wheel_insertion(one: &Instruction) -> bool {
    is_wheel(one)
        && one
            .frames
            .iter()
            .all(|frame| !frame.function.ends_with("Wheel::unlink"))
}

/// Tells whether a symbol copies memory.
fn is_copy(symbol: &str) -> bool {
    symbol.contains("memcpy") || symbol.contains("memmove")
}

/// Settings and clearings of a deadline in a round trip: at each end one retransmission is set and cleared, and one
/// delayed acknowledgment.
const DEADLINES_IN_A_ROUND_TRIP: u64 = 8;

/// Connections whose resident memory is measured.
const RESIDENT_CONNECTIONS: usize = 100_000;

/// Every row, in the order of the table.
pub const ROWS: &[Row] = &[
    row(
        "rr-64",
        "round trip, 64 B, everything",
        Bar::AtMost(1_150.0),
        "smoltcp 4,600; lwIP 5,000; Clark ~1,400",
    ),
    row(
        "rr-64-copy-only",
        "  checksums off",
        Bar::AtMost(1_000.0),
        "",
    ),
    row(
        "rr-1400",
        "round trip, 1,400 B",
        Bar::AtMost(2_000.0),
        "smoltcp 6,700; lwIP 7,600",
    ),
    row(
        "rr-64-among-100k",
        "  64 B among 100,000 connections",
        Bar::Times(1.02, "rr-64"),
        "smoltcp 700 times; Linux 1.3",
    ),
    row(
        "rr-64-around-10k",
        "  64 B going round 10,000",
        Bar::Times(1.30, "rr-64"),
        "lwIP 50 times",
    ),
    row(
        "receive-path",
        "receive path without checksum",
        Bar::AtMost(190.0),
        "Clark 335",
    ),
    Row {
        source: Source::CountWithoutCopy("send-path"),
        ..row(
            "send-path",
            "send path without copy, checksum",
            Bar::AtMost(190.0),
            "Clark ~370",
        )
    },
    row(
        "idle-0",
        "idle poll, no socket",
        Bar::AtMost(60.0),
        "lwIP 62",
    ),
    row(
        "idle-1",
        "  1 connection",
        Bar::AtMost(60.0),
        "smoltcp 154 per socket",
    ),
    row("idle-1k", "  1,000 connections", Bar::AtMost(60.0), ""),
    row("idle-100k", "  100,000 connections", Bar::AtMost(60.0), ""),
    row(
        "stream-16k",
        "stream per 1,448 B, 16 KiB writes",
        Bar::AtMost(1_350.0),
        "smoltcp 4,570; lwIP 5,260",
    ),
    row(
        "stream-64",
        "  64 B writes, Nagle on",
        Bar::AtMost(3_000.0),
        "smoltcp 7,900; lwIP 17,600",
    ),
    row(
        "open-close",
        "connect, 1 B each way, close",
        Bar::AtMost(6_000.0),
        "smoltcp 14,800; lwIP 19,000",
    ),
    row("open-first", "open, first 1,000", Bar::None, ""),
    row(
        "open-last",
        "open, last 1,000 of 100,000",
        Bar::Times(1.10, "open-first"),
        "",
    ),
    Row {
        source: Source::DeadlineWrites,
        ..row(
            "deadline",
            "timer set or clear, data path",
            Bar::AtMost(6.0),
            "Clark 35 and 17",
        )
    },
    Row {
        source: Source::Part("wheel-insert", is_wheel_insertion),
        ..row(
            "wheel-insert",
            "wheel insert",
            Bar::AtMost(40.0),
            "Clark 35",
        )
    },
    Row {
        source: Source::Part("wheel-cancel", is_wheel),
        ..row("wheel-cancel", "  cancel", Bar::AtMost(40.0), "Clark 17")
    },
    Row {
        source: Source::Part("wheel-insert", is_wheel),
        ..row(
            "wheel-move",
            "  move, insert and cancel together",
            Bar::None,
            "Clark 41",
        )
    },
    Row {
        unit: BYTES,
        source: Source::ConnectionBytes,
        ..row(
            "connection-octets",
            "idle connection, by its parts",
            Bar::AtMost(384.0),
            "lwIP 240; smoltcp 408; Linux 3,900",
        )
    },
    Row {
        unit: BYTES,
        source: Source::ConnectionResident,
        ..row(
            "connection-resident",
            "  resident, of 100,000",
            Bar::AtMost(384.0),
            "gVisor 5,500",
        )
    },
    row(
        "tcp-input-receiver",
        "TCP input, data at its receiver",
        Bar::None,
        "Clark 186",
    ),
    row(
        "tcp-input-sender",
        "TCP input, ACK at the sender",
        Bar::None,
        "Clark 191 to 213",
    ),
    Row {
        source: Source::CountWithoutCopy("tcp-output"),
        ..row(
            "tcp-output",
            "TCP output with send()",
            Bar::None,
            "Clark 235",
        )
    },
    row("ip-in", "IP in", Bar::None, "Clark 57"),
    row("ip-out", "IP out", Bar::None, "Clark 61"),
    row("lookup-cached", "TCB lookup, cached", Bar::None, "Clark 25"),
    row("lookup-hashed", "  by hash", Bar::None, ""),
    Row {
        source: Source::Part("send-data", is_pool),
        ..row(
            "buffer-send",
            "buffers, sending data",
            Bar::None,
            "Clark 40",
        )
    },
    Row {
        source: Source::Part("receive-data", is_pool),
        ..row("buffer-receive", "  receiving data", Bar::None, "Clark 35")
    },
    Row {
        source: Source::Part("receive-ack", is_pool),
        ..row("buffer-ack", "  receiving an ACK", Bar::None, "Clark 30")
    },
];

/// The row with this key.
pub fn find(id: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.id == id)
}

impl Row {
    /// Finds the value. `pair` is [`Program::pair_cost`].
    ///
    /// # Errors
    /// What went wrong with the count.
    pub fn measure(&self, program: &Program, pair: u64) -> Result<f64, Error> {
        match self.source {
            Source::Count(name) => Ok(program
                .count(name, scenario::find(name)?.count)?
                .per_operation(pair)),
            Source::CountWithoutCopy(name) => {
                let whole = program
                    .count(name, scenario::find(name)?.count)?
                    .per_operation(pair);
                let (done, profile) = profile(program, name)?;
                let copy = profile.within(is_copy) as f64 / done as f64;
                Ok(whole - copy)
            }
            Source::Part(name, belongs) => {
                let (done, profile) = profile(program, name)?;
                Ok(profile.count(belongs) as f64 / done as f64)
            }
            Source::DeadlineWrites => {
                let (done, profile) = profile(program, "rr-64")?;
                let count = deadline_writes(&profile).map_err(|what| Error::Unreadable {
                    scenario: "rr-64".to_owned(),
                    what,
                })?;
                Ok(count as f64 / (done * DEADLINES_IN_A_ROUND_TRIP) as f64)
            }
            Source::ConnectionBytes => Ok(Stack::bytes_per_connection() as f64),
            Source::ConnectionResident => {
                let bytes = scenario::resident_bytes(RESIDENT_CONNECTIONS)?;
                Ok(bytes as f64 / (2 * RESIDENT_CONNECTIONS) as f64)
            }
        }
    }
}

/// A scenario's profile, and its operations.
fn profile(program: &Program, name: &str) -> Result<(u64, Profile), Error> {
    let (done, profile) = program.profile(name, scenario::find(name)?.count.min(2_000))?;
    Ok((done.operations, profile))
}

/// Instructions that set, clear or compare a deadline: those whose source line, or the line of a call that was inlined
/// around them, names a deadline or the wheel entry's time, and the arithmetic of ticks for it. The stack's look at the
/// tick once a turn is not among them.
fn deadline_writes(profile: &Profile) -> Result<u64, String> {
    let sources = Sources::read(profile, |file| file.contains("crates/stack/src/"))?;
    let names = ["_deadline", ".armed", "self.arm(", "Deadline::at"];
    let count = profile.count(|one| {
        one.frames.iter().any(|frame| {
            frame.function.ends_with("Tick::after")
                || frame.line.as_ref().is_some_and(|line| {
                    let text = sources.text(line).trim();
                    !text.starts_with("//") && names.iter().any(|name| text.contains(name))
                })
        })
    });
    if count == 0 {
        Err("no instruction of a deadline was found".to_owned())
    } else {
        Ok(count)
    }
}

/// Finds the values of `rows`, two at a time.
///
/// # Errors
/// The first that failed.
pub fn measure_all(program: &Program, rows: &[Row]) -> Result<BTreeMap<&'static str, f64>, Error> {
    let mut values = BTreeMap::new();
    // Resident memory first: what is freed later would be used again and not be seen to grow.
    let (first, rest): (Vec<Row>, Vec<Row>) = rows
        .iter()
        .partition(|row| matches!(row.source, Source::ConnectionResident));
    for row in first {
        values.insert(row.id, row.measure(program, 0)?);
    }
    let pair = program.pair_cost()?;
    let queue = Mutex::new(rest.iter());
    let work = || {
        let mut values = Vec::new();
        loop {
            let next = queue
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .next();
            let Some(row) = next else {
                return Ok(values);
            };
            values.push((row.id, row.measure(program, pair)?));
        }
    };
    let results: Vec<Result<_, Error>> = thread::scope(|scope| {
        let handles = [scope.spawn(work), scope.spawn(work)];
        handles
            .map(|handle| {
                handle
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .into()
    });
    for result in results {
        values.extend(result?);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_own_key_and_its_scenario() {
        for (n, row) in ROWS.iter().enumerate() {
            assert!(
                ROWS[..n].iter().all(|other| other.id != row.id),
                "{} is there twice",
                row.id
            );
            if let Source::Count(name) | Source::CountWithoutCopy(name) | Source::Part(name, _) =
                row.source
            {
                assert!(scenario::find(name).is_ok(), "{name} is no scenario");
            }
            if let Bar::Times(_, other) = row.bar {
                assert!(find(other).is_some(), "{other} is no row");
            }
        }
    }
}
