//! The rows of the table: what is counted, the bar, and what others need for the same.

use crate::Error;
use crate::profile::{Instruction, Profile, Sources};
use crate::scenario;
use crate::valgrind::Program;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use tollgate_stack::Stack;

/// Bar that a value must not exceed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// This.
    AtMost(f64),
    /// A multiple of the value of another row.
    Times(f64, &'static str),
    /// This much more than the value of another row.
    More(f64, &'static str),
    /// Nothing is asked.
    None,
}

/// Source of a row's value.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// Instructions per operation of a scenario.
    Count(&'static str),
    /// A count without the C library's copying.
    CountWithoutCopy(&'static str),
    /// Instructions per operation of a scenario, those alone that `belongs` says yes to.
    Part(&'static str, fn(&Instruction) -> bool),
    /// Instructions of a round trip that write or compare deadlines, per setting or clearing of one.
    DeadlineWrites,
    /// Instructions of a round trip that set deadlines, per setting.
    DeadlineSets,
    /// Instructions of a round trip that clear or compare deadlines, per clearing.
    DeadlineClears,
    /// Instructions of TCP input per operation of a scenario that are this piece of it.
    Input(&'static str, Piece),
    /// The memory of a TCB and its entries.
    ConnectionBytes,
    /// Growth of the resident memory.
    ConnectionResident,
}

/// A row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its key in the budgets file.
    pub id: &'static str,
    /// The counted operation.
    pub what: &'static str,
    /// Unit of bar, budget and value.
    pub unit: &'static str,
    /// The bar.
    pub bar: Bar,
    /// The figures of others, from the issue that sets the bar.
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

/// Tells whether an instruction sets a deadline.
fn is_deadline_set(one: &Instruction) -> bool {
    one.frames.iter().any(|frame| {
        frame.function.ends_with("Deadline::set") || frame.function.ends_with("Tick::after")
    })
}

/// Tells whether an instruction starts the retransmission timer anew while it runs.
fn is_timer_reset(one: &Instruction) -> bool {
    one.frames
        .iter()
        .any(|frame| frame.function.ends_with("restart_retransmission"))
}

/// A piece of TCP input, as Clark et al. cut theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// All other code.
    Common,
    /// The buffer pool, which Clark et al. count apart.
    Buffers,
    /// Deadlines and the wheel, which Clark et al. count apart.
    Timers,
    /// Data into their place.
    Sequencing,
    /// The window field.
    Window,
    /// The congestion window.
    Congestion,
    /// The estimate of the round trip.
    RoundTrip,
    /// The acknowledgment: what it covers leaves the send queue.
    Acknowledgment,
}

impl Piece {
    /// All but [`Piece::Common`], which has what they leave.
    const TOLD: [Self; 7] = [
        Self::Buffers,
        Self::Timers,
        Self::Sequencing,
        Self::Window,
        Self::Congestion,
        Self::RoundTrip,
        Self::Acknowledgment,
    ];

    /// The piece that an instruction belongs to: the first whose function it is, inlined ones included.
    fn of(one: &Instruction) -> Self {
        let within = |piece: Self| -> bool {
            let is = |name: &str| match piece {
                Self::Common => true,
                Self::Buffers => name.contains("tollgate_stack::buffer::Pool"),
                Self::Timers => {
                    name.contains("tollgate_stack::timer::")
                        || name.ends_with("Deadline::set")
                        || name.ends_with("Tick::after")
                }
                Self::Sequencing => {
                    name.contains("::receive_queue::") || name.ends_with("::advance")
                }
                Self::Window => name.ends_with("take_window") || name.contains("::window_of"),
                Self::Congestion => name.contains("::congestion::"),
                Self::RoundTrip => name.contains("::rto::"),
                Self::Acknowledgment => {
                    name.ends_with("::take_acknowledgment")
                        || name.ends_with("::release_acknowledged")
                }
            };
            one.frames.iter().any(|frame| is(&frame.function))
        };
        let mut told = Self::TOLD.into_iter();
        told.find(|&piece| within(piece)).unwrap_or(Self::Common)
    }
}

/// Tells whether a symbol copies memory.
fn is_copy(symbol: &str) -> bool {
    symbol.contains("memcpy") || symbol.contains("memmove")
}

/// Settings and clearings of a deadline in a round trip: at each end one retransmission is set and cleared, and one
/// delayed acknowledgment.
const DEADLINES_IN_A_ROUND_TRIP: u64 = 8;
/// Settings among them, as many as clearings.
const SETTINGS_IN_A_ROUND_TRIP: u64 = DEADLINES_IN_A_ROUND_TRIP / 2;

/// Connections whose resident memory is measured.
const RESIDENT_CONNECTIONS: usize = 100_000;

/// Every row, in the order of the table.
pub const ROWS: &[Row] = &[
    row(
        "rr-64",
        "round trip, 64 B, everything",
        Bar::AtMost(1_150.0),
        "smoltcp 4,600; lwIP 5,000; Clark's parts ~1,400",
    ),
    row(
        "rr-64-events",
        "  by poll, next_event and receive",
        Bar::AtMost(1_500.0),
        "",
    ),
    row("rr-64-ipv6", "  over IPv6", Bar::More(60.0, "rr-64"), ""),
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
        "udp-rr-64",
        "round trip over UDP, 64 B",
        Bar::Times(1.0, "rr-64"),
        "",
    ),
    row(
        "udp-rr-64-queued",
        "  by poll and receive",
        Bar::Times(1.0, "rr-64-events"),
        "",
    ),
    row(
        "udp-rr-64-ipv6",
        "  over IPv6",
        Bar::More(60.0, "udp-rr-64"),
        "",
    ),
    row("udp-rr-1400", "  1,400 B", Bar::Times(1.0, "rr-1400"), ""),
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
            "Clark's parts ~370",
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
        Bar::AtMost(6_500.0),
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
            Bar::AtMost(320.0),
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
    row("lookup-cached", "TCB lookup, cached", Bar::None, ""),
    row("lookup-hashed", "  by hash", Bar::None, "Clark ~25"),
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
    row(
        "tap-trains-in",
        "tap: segment of a large frame in",
        Bar::None,
        "",
    ),
];

const fn piece(id: &'static str, scenario: &'static str, piece: Piece) -> Row {
    Row {
        source: Source::Input(scenario, piece),
        ..row(id, "piece of TCP input", Bar::None, "")
    }
}

const RECEIVER: &str = "tcp-input-receiver";
const SENDER: &str = "tcp-input-sender";

/// Rows that stand beside Clark's and have no budget: the whole that they are pieces of has one.
pub(crate) const PIECES: &[Row] = &[
    piece("receiver-common", RECEIVER, Piece::Common),
    piece("receiver-sequencing", RECEIVER, Piece::Sequencing),
    piece("receiver-ack", RECEIVER, Piece::Acknowledgment),
    piece("receiver-window", RECEIVER, Piece::Window),
    piece("receiver-congestion-window", RECEIVER, Piece::Congestion),
    piece("receiver-rtt", RECEIVER, Piece::RoundTrip),
    piece("receiver-buffers", RECEIVER, Piece::Buffers),
    piece("receiver-timers", RECEIVER, Piece::Timers),
    piece("sender-common", SENDER, Piece::Common),
    piece("sender-sequencing", SENDER, Piece::Sequencing),
    piece("sender-ack", SENDER, Piece::Acknowledgment),
    piece("sender-window", SENDER, Piece::Window),
    piece("sender-congestion-window", SENDER, Piece::Congestion),
    piece("sender-rtt", SENDER, Piece::RoundTrip),
    piece("sender-buffers", SENDER, Piece::Buffers),
    piece("sender-timers", SENDER, Piece::Timers),
    Row {
        source: Source::DeadlineSets,
        ..row("timer-set", "timer set", Bar::None, "Clark 35")
    },
    Row {
        source: Source::DeadlineClears,
        ..row("timer-clear", "timer cleared", Bar::None, "Clark 17")
    },
    Row {
        source: Source::Part("timer-reset", is_timer_reset),
        ..row("timer-reset", "timer reset", Bar::None, "Clark 41")
    },
    Row {
        source: Source::CountWithoutCopy("tcp-output-untemplated"),
        ..row(
            "tcp-output-untemplated",
            "TCP output without a template",
            Bar::None,
            "",
        )
    },
];

/// The row with this key.
pub fn find(id: &str) -> Option<&'static Row> {
    ROWS.iter().chain(PIECES).find(|row| row.id == id)
}

/// Profiled part of a scenario's instructions.
struct Profiled {
    operations: u64,
    profile: Profile,
}

impl Profiled {
    /// Instructions of an operation for which `is_it` says yes.
    fn each(&self, is_it: impl Fn(&Instruction) -> bool) -> f64 {
        self.profile.count(is_it) as f64 / self.operations as f64
    }
}

/// The profile of each scenario that rows look into.
type Profiles = BTreeMap<&'static str, Profiled>;

impl Row {
    /// The scenario whose profile it looks into.
    fn profiled(&self) -> Option<&'static str> {
        match self.source {
            Source::CountWithoutCopy(name) | Source::Part(name, _) | Source::Input(name, _) => {
                Some(name)
            }
            Source::DeadlineWrites | Source::DeadlineSets | Source::DeadlineClears => Some("rr-64"),
            Source::Count(_) | Source::ConnectionBytes | Source::ConnectionResident => None,
        }
    }

    /// Finds the value. `pair` is [`Program::pair_cost`].
    ///
    /// # Errors
    /// The failure of the count.
    fn measure(&self, program: &Program, pair: u64, profiles: &Profiles) -> Result<f64, Error> {
        let counted = |name: &'static str| -> Result<f64, Error> {
            let count = program.count(name, scenario::find(name)?.count)?;
            Ok(count.per_operation(pair))
        };
        let unreadable = |name: &str, what: String| Error::Unreadable {
            scenario: name.to_owned(),
            what,
        };
        let profiled = |name: &'static str| -> Result<&Profiled, Error> {
            let found = profiles.get(name);
            found.ok_or_else(|| unreadable(name, "it was not profiled".to_owned()))
        };
        let deadlines = |is_wanted: fn(&Instruction) -> bool| -> Result<f64, Error> {
            let round_trip = profiled("rr-64")?;
            let writes = deadline_writes(&round_trip.profile, is_wanted)
                .map_err(|what| unreadable("rr-64", what))?;
            Ok(writes as f64 / round_trip.operations as f64)
        };
        let sets = || -> Result<f64, Error> { Ok(profiled("rr-64")?.each(is_deadline_set)) };
        match self.source {
            Source::Count(name) => counted(name),
            Source::CountWithoutCopy(name) => {
                let whole = counted(name)?;
                let copy = |one: &Instruction| one.frames.iter().any(|at| is_copy(&at.function));
                Ok(whole - profiled(name)?.each(copy))
            }
            Source::Part(name, belongs) => Ok(profiled(name)?.each(belongs)),
            Source::DeadlineWrites => Ok(deadlines(|_| true)? / DEADLINES_IN_A_ROUND_TRIP as f64),
            Source::DeadlineSets => Ok(sets()? / SETTINGS_IN_A_ROUND_TRIP as f64),
            Source::DeadlineClears => {
                let clears = deadlines(|one| !is_deadline_set(one))?;
                Ok(clears / SETTINGS_IN_A_ROUND_TRIP as f64)
            }
            // Switching the counting on and off is nobody's piece, so the rest is found from the whole without it.
            Source::Input(name, Piece::Common) => {
                let told = profiled(name)?.each(|one| Piece::of(one) != Piece::Common);
                Ok(counted(name)? - told)
            }
            Source::Input(name, piece) => Ok(profiled(name)?.each(|one| Piece::of(one) == piece)),
            Source::ConnectionBytes => Ok(Stack::bytes_per_connection() as f64),
            Source::ConnectionResident => {
                let bytes = scenario::resident_bytes(RESIDENT_CONNECTIONS)?;
                Ok(bytes as f64 / (2 * RESIDENT_CONNECTIONS) as f64)
            }
        }
    }
}

/// A scenario's profile, and its operations.
fn profile(program: &Program, name: &str) -> Result<Profiled, Error> {
    let (done, profile) = program.profile(name, scenario::find(name)?.count.min(2_000))?;
    Ok(Profiled {
        operations: done.operations,
        profile,
    })
}

/// Wanted instructions that set, clear or compare a deadline: those that set one, and those whose source line, or the line of a call that
/// was inlined around them, names a deadline or the wheel entry's time. The stack's look at the tick once a turn is not among
/// them.
fn deadline_writes(profile: &Profile, is_wanted: fn(&Instruction) -> bool) -> Result<u64, String> {
    let sources = Sources::read(profile, |file| file.contains("crates/stack/src/"))?;
    let names = ["_deadline", ".armed", "self.arm(", "Deadline::at"];
    let is_named = |one: &Instruction| {
        one.frames.iter().any(|frame| {
            frame.line.as_ref().is_some_and(|line| {
                let text = sources.text(line).trim();
                !text.starts_with("//") && names.iter().any(|name| text.contains(name))
            })
        })
    };
    let count = profile.count(|one| is_wanted(one) && (is_deadline_set(one) || is_named(one)));
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
        values.insert(row.id, row.measure(program, 0, &Profiles::new())?);
    }
    let pair = program.pair_cost()?;
    let mut names: Vec<&'static str> = rest.iter().filter_map(Row::profiled).collect();
    names.sort_unstable();
    names.dedup();
    let profiles: Profiles = by_two(&names, |&name| Ok((name, profile(program, name)?)))?
        .into_iter()
        .collect();
    values.extend(by_two(&rest, |row| {
        Ok((row.id, row.measure(program, pair, &profiles)?))
    })?);
    Ok(values)
}

/// Maps the items by `work`, two at a time, in any order.
///
/// # Errors
/// The first that failed.
fn by_two<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let queue = Mutex::new(items.iter());
    let take = || {
        let mut made = Vec::new();
        loop {
            let next = queue
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .next();
            let Some(item) = next else {
                return Ok(made);
            };
            made.push(work(item)?);
        }
    };
    let results: Vec<Result<_, Error>> = thread::scope(|scope| {
        let handles = [scope.spawn(take), scope.spawn(take)];
        handles
            .map(|handle| {
                handle
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .into()
    });
    let mut all = Vec::new();
    for result in results {
        all.extend(result?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_own_key_and_its_scenario() {
        let rows: Vec<&Row> = ROWS.iter().chain(PIECES).collect();
        for (n, row) in rows.iter().enumerate() {
            assert!(
                rows[..n].iter().all(|other| other.id != row.id),
                "{} is there twice",
                row.id
            );
            let counted = match row.source {
                Source::Count(name) => Some(name),
                _ => row.profiled(),
            };
            if let Some(name) = counted {
                assert!(scenario::find(name).is_ok(), "{name} is no scenario");
            }
            if let Bar::Times(_, other) | Bar::More(_, other) = row.bar {
                assert!(find(other).is_some(), "{other} is no row");
            }
        }
    }

    /// An instruction within these functions, innermost first.
    fn within(functions: &[&str]) -> Instruction {
        Instruction {
            count: 1,
            frames: functions
                .iter()
                .map(|&function| crate::profile::Frame {
                    function: function.to_owned(),
                    line: None,
                })
                .collect(),
        }
    }

    #[test]
    fn pieces_of_tcp_input_go_to_the_first_function_that_is_theirs() {
        let outer = "tollgate_stack::tcp::predicted::take_acknowledgment";
        for (functions, piece) in [
            (
                vec!["tollgate_stack::buffer::Pool::release", outer],
                Piece::Buffers,
            ),
            (
                vec!["tollgate_stack::time::Tick::after", outer],
                Piece::Timers,
            ),
            (
                vec!["tollgate_stack::tcp::rto::Rtt::update", outer],
                Piece::RoundTrip,
            ),
            (
                vec!["tollgate_stack::tcp::congestion::on_ack", outer],
                Piece::Congestion,
            ),
            (vec![outer], Piece::Acknowledgment),
            (
                vec!["tollgate_stack::tcp::receive_queue::push"],
                Piece::Sequencing,
            ),
            (
                vec!["tollgate_stack::tcp::tcb::Tcb::take_window"],
                Piece::Window,
            ),
            (vec!["tollgate_stack::stack::Stack::poll"], Piece::Common),
        ] {
            assert_eq!(Piece::of(&within(&functions)), piece, "{functions:?}");
        }
    }

    #[test]
    fn settings_of_a_deadline_are_not_taken_off_its_clearings() {
        // The lines of a setting do not name a deadline, so no source is looked at.
        let set = within(&["tollgate_stack::tcp::deadline::Deadline::set", "receive"]);
        let profile = Profile::of(vec![set, within(&["receive"])]);
        assert_eq!(deadline_writes(&profile, |_| true), Ok(1));
        let clears = deadline_writes(&profile, |one| !is_deadline_set(one));
        assert!(clears.is_err(), "{clears:?}");
    }

    #[test]
    fn work_is_done_once_for_each_item_and_the_first_failure_is_told() {
        let items: Vec<u32> = (0..100).collect();
        let mut made = by_two(&items, |&item| Ok(item)).unwrap();
        made.sort_unstable();
        assert_eq!(made, items);
        let failed = by_two(&items, |&item| match item {
            50 => Err(Error::Unreadable {
                scenario: "50".to_owned(),
                what: "torn".to_owned(),
            }),
            item => Ok(item),
        });
        assert!(failed.unwrap_err().to_string().contains("torn"));
    }
}
