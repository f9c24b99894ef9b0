//! The anatomy of a round trip: the spans of each path's ledger in the order of the way, by the part of the system that takes
//! them, and what they leave open of the round trip without gates.
//!
//! It reads the tables of `wolman-transmit` and `wolman-receive` and the round trips of `rr-by-size`. It must never hide what a
//! ledger leaves open.

use tollgate_run::{
    Cell, Experiment, Interval, Layer, Measured, Mode, PathId, Placement, Row, RowKind, Run, Table,
    Waiting, format, path_and_mode,
};

/// Label of the row of a closure that has the cost of disabled gates.
pub const DISABLED_GATES: &str = "of it disabled gates in the code";
/// Label of that row in runs of earlier versions.
const DISABLED_GATES_BEFORE: &str = "of it asleep gates in the code";
/// Label of the row of a closure that has the sum of all spans.
pub(super) const SUM: &str = "sum of the spans";
/// Messages in a round trip: the tables tell spans for one.
pub(super) const MESSAGES: f64 = 2.0;
/// The sizes of which one is shown, the first that was measured.
const SIZES: [usize; 4] = [200, 4, 64, 1_400];

/// Part of a round trip. It has one letter and colour in every picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The program between its receive and its send.
    Application,
    /// The system-call or socket interface.
    Socket,
    /// TCP with its checksum and demultiplexing.
    Tcp,
    /// IP.
    Ip,
    /// The driver of the device, and what the link does itself.
    Driver,
    /// The queue in front of the device.
    DeviceQueue,
    /// The queue from the driver to IP.
    IpQueue,
    /// Waking the reader until it runs again.
    Wakeup,
}

impl Stage {
    /// All of them, from the program down; waiting last.
    pub const ALL: [Self; 8] = [
        Self::Application,
        Self::Socket,
        Self::Tcp,
        Self::Ip,
        Self::Driver,
        Self::DeviceQueue,
        Self::IpQueue,
        Self::Wakeup,
    ];

    /// The name in legends.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::Socket => "socket",
            Self::Tcp => "TCP",
            Self::Ip => "IP",
            Self::Driver => "driver",
            Self::DeviceQueue => "device queue",
            Self::IpQueue => "IP queue",
            Self::Wakeup => "wakeup",
        }
    }

    /// Tells whether the message waits there.
    #[must_use]
    pub const fn waits(self) -> bool {
        match self {
            Self::DeviceQueue | Self::IpQueue | Self::Wakeup => true,
            Self::Application | Self::Socket | Self::Tcp | Self::Ip | Self::Driver => false,
        }
    }

    /// The part to which a row of a ledger belongs.
    fn of(row: &Row) -> Option<Self> {
        match row.layer? {
            Layer::Socket if row.label == "application" => Some(Self::Application),
            // From the wakeup to the return of the system call that slept.
            Layer::Socket if row.label == "resume" => Some(Self::Wakeup),
            Layer::Socket => Some(Self::Socket),
            Layer::Tcp => Some(Self::Tcp),
            Layer::Ip => Some(Self::Ip),
            Layer::Device | Layer::Driver if row.kind == RowKind::Queueing => {
                Some(Self::DeviceQueue)
            }
            Layer::Link if row.kind == RowKind::Queueing => Some(Self::IpQueue),
            Layer::Device | Layer::Driver | Layer::Link => Some(Self::Driver),
            Layer::Scheduler => Some(Self::Wakeup),
        }
    }
}

/// One part of the way that a round trip passes without leaving it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// The part of the way.
    pub part: Stage,
    /// Its spans, by their names.
    pub spans: Vec<String>,
    /// The time in a round trip, in ns; noise may bring it below zero.
    pub ns: f64,
    /// Half the 95 % interval of `ns`, at most.
    pub half_width: f64,
}

/// A round trip of one path in one mode.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundTrip {
    /// The path.
    pub path: PathId,
    /// The placement of its ends and their way of waiting.
    pub mode: Mode,
    /// The round trip without gates, in ns.
    pub total: Measured,
    /// The way there and back, one message like the other; empty where the path has no ledger.
    pub stretches: Vec<Stretch>,
    /// The cost of gates that are compiled in and disabled, in ns: the spans include it, the round trip without gates does not.
    pub disabled_ns: f64,
    /// The unattributed time in ns: the round trip and the cost of disabled gates, less all spans. It is below zero where the spans
    /// sum to more, and none without a ledger.
    pub open_ns: Option<f64>,
    /// The verdict of the ledger on its closure, in words.
    pub verdict: Option<String>,
}

impl RoundTrip {
    /// The time of one part in ns, with its half-width; none where the way has none of it.
    #[must_use]
    pub fn of(&self, part: Stage) -> Option<(f64, f64)> {
        let mine = || self.stretches.iter().filter(|one| one.part == part);
        let (ns, half) = (
            mine().map(|one| one.ns).sum(),
            mine().map(|one| one.half_width).sum(),
        );
        mine().next().map(|_| (ns, half))
    }

    /// The shares of the round trip between which a part lies, in hundredths: its interval, widened by what the ledger leaves
    /// open and by what disabled gates add, since either may belong to any part.
    #[must_use]
    pub fn share(&self, part: Stage) -> Option<Interval> {
        let (ns, half) = self.of(part)?;
        let slack = half + self.open_ns?.abs() + self.disabled_ns;
        let hundredths = |ns: f64| (100.0 * ns / self.total.value).clamp(0.0, 100.0);
        Some(Interval {
            low: hundredths(ns - slack),
            high: hundredths(ns + slack),
        })
    }

    /// [`share`](Self::share) in words: `24 to 28 %`; none without a ledger.
    #[must_use]
    pub fn share_in_words(&self, part: Stage) -> Option<String> {
        self.share(part).map(percents)
    }

    /// The part that takes most, where it does so whatever belongs to it of what is left open.
    #[must_use]
    pub fn largest(&self) -> Option<Stage> {
        let mut parts: Vec<(Stage, Interval)> = Stage::ALL
            .into_iter()
            .filter_map(|part| Some((part, self.share(part)?)))
            .collect();
        parts.sort_by(|a, b| (b.1.low + b.1.high).total_cmp(&(a.1.low + a.1.high)));
        let [(part, first), rest @ ..] = parts.as_slice() else {
            return None;
        };
        rest.iter()
            .all(|(_, other)| first.low > other.high)
            .then_some(*part)
    }

    /// The three parts that take most, in ns, the largest first.
    #[must_use]
    pub fn largest_stages(&self) -> Vec<(Stage, f64)> {
        let mut parts: Vec<(Stage, f64)> = Stage::ALL
            .into_iter()
            .filter_map(|part| Some((part, self.of(part)?.0)))
            .filter(|(_, ns)| *ns > 0.0)
            .collect();
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        parts.truncate(3);
        parts
    }

    /// The stretches as lengths of a picture: what is below zero is taken off its neighbours, so that the sum stays.
    #[must_use]
    pub fn lengths(&self) -> Vec<f64> {
        let mut lengths: Vec<f64> = self.stretches.iter().map(|one| one.ns).collect();
        let mut owed = 0.0;
        let mut take = |length: &mut f64| {
            let left = *length + owed;
            owed = left.min(0.0);
            *length = left.max(0.0);
        };
        lengths.iter_mut().for_each(&mut take);
        lengths.iter_mut().rev().for_each(&mut take);
        lengths
    }

    /// Tells whether both ends sleep or poll on processors of their own.
    #[must_use]
    pub fn is(&self, placement: Placement, waiting: Waiting) -> bool {
        self.mode == Mode { placement, waiting }
    }
}

/// `24 to 28 %`, or one number where the ends round to the same.
pub(super) fn percents(share: Interval) -> String {
    let (low, high) = (share.low.round(), share.high.round());
    if low == high {
        format!("{low:.0} %")
    } else {
        format!("{low:.0} to {high:.0} %")
    }
}

/// The round trips of one size, those over the kernel first, how people run first.
#[derive(Debug, Clone, PartialEq)]
pub struct Anatomy {
    /// Bytes each way.
    pub size: usize,
    /// The round trips; at least one of them has a ledger.
    pub round_trips: Vec<RoundTrip>,
}

/// The anatomy that a run shows: of its kernel path with most ledgers, and of our stack; none where it has no ledger.
#[must_use]
pub fn anatomy(run: &Run) -> Option<Anatomy> {
    let experiment = |name: &str| run.experiments.iter().find(|one| one.name == name);
    let transmit = experiment("wolman-transmit")?;
    let receive = experiment("wolman-receive")?;
    let closure = receive.tables.iter().find(|table| table.id == "closure")?;
    let sizes = SIZES
        .into_iter()
        .chain(closure.columns.iter().filter_map(size_of));
    for size in sizes {
        let Some(at) = column(closure, size) else {
            continue;
        };
        let mut round_trips: Vec<RoundTrip> = ledgers(closure)
            .filter_map(|(label, rows)| round_trip(label, rows, at, [transmit, receive]))
            .collect();
        if round_trips.is_empty() {
            continue;
        }
        keep_one_kernel_path(&mut round_trips);
        if let Some(rr) = experiment("rr-by-size") {
            round_trips.extend(without_ledger(rr, size));
        }
        round_trips.sort_by_key(|one| {
            let order = Mode::ALL.iter().position(|mode| *mode == one.mode);
            (!one.path.is_kernel(), order)
        });
        return Some(Anatomy { size, round_trips });
    }
    None
}

fn size_of(column: &tollgate_run::Column) -> Option<usize> {
    format::parse_size(&column.name).map(|bytes| bytes as usize)
}

pub(super) fn column(table: &Table, size: usize) -> Option<usize> {
    table
        .columns
        .iter()
        .position(|column| size_of(column) == Some(size))
}

/// The ledgers of a closure table: the heading of each, and its rows.
pub(super) fn ledgers(closure: &Table) -> impl Iterator<Item = (&str, &[Row])> {
    let headed = closure.rows.chunk_by(|_, next| next.depth > 0);
    headed.filter_map(|rows| {
        rows.split_first()
            .map(|(head, rows)| (head.label.as_str(), rows))
    })
}

/// The title of the tables that have the spans of a ledger.
pub(super) fn spans_title(label: &str) -> String {
    format!("The spans of {label}, per message")
}

/// Tells whether a row of a closure has the cost of disabled gates.
pub(super) fn is_disabled_gates(row: &Row) -> bool {
    [DISABLED_GATES, DISABLED_GATES_BEFORE].contains(&row.label.as_str())
}

fn round_trip(
    label: &str,
    closure: &[Row],
    at: usize,
    directions: [&Experiment; 2],
) -> Option<RoundTrip> {
    let (path, mode) = path_and_mode(label)?;
    let cell = |kind: RowKind| closure.iter().find(|row| row.kind == kind)?.cells.get(at);
    let mut total = cell(RowKind::Total)?.measured()?.clone();
    let title = spans_title(label);
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut messages = None;
    for direction in directions {
        let table = direction.tables.iter().find(|table| table.title == title)?;
        for row in &table.rows {
            // A span that could not be measured leaves its time open.
            let (Some(part), Some(measured)) = (Stage::of(row), row.cells.get(at)?.measured())
            else {
                continue;
            };
            messages = messages.or(measured.n);
            let half = measured.ci.map_or(0.0, |ci| (ci.high - ci.low) / 2.0);
            let (ns, half_width) = (MESSAGES * measured.value, MESSAGES * half);
            match stretches.last_mut().filter(|last| last.part == part) {
                Some(last) => {
                    last.ns += ns;
                    last.half_width += half_width;
                    last.spans.push(row.label.clone());
                }
                None => stretches.push(Stretch {
                    part,
                    spans: vec![row.label.clone()],
                    ns,
                    half_width,
                }),
            }
        }
    }
    total.n = total.n.or(messages);
    let disabled = closure.iter().find(|row| is_disabled_gates(row));
    let disabled = disabled.and_then(|row| row.cells.get(at)?.number());
    let open_ns = cell(RowKind::Unattributed)?.number()?;
    let verdict = closure.iter().find_map(|row| match row.cells.get(at) {
        Some(Cell::Text { text }) => Some(text.clone()),
        _ => None,
    });
    Some(RoundTrip {
        path,
        mode,
        total,
        stretches,
        disabled_ns: disabled.unwrap_or(0.0),
        open_ns: Some(open_ns),
        verdict,
    })
}

/// Keeps the kernel path with most ledgers, the first of several; paths of the kernel differ little, and a picture of all says
/// less.
fn keep_one_kernel_path(round_trips: &mut Vec<RoundTrip>) {
    let count = |path: PathId| round_trips.iter().filter(|one| one.path == path).count();
    let kernel = PathId::ALL.iter().copied().filter(|path| path.is_kernel());
    let most = kernel.rev().max_by_key(|path| count(*path));
    round_trips.retain(|one| !one.path.is_kernel() || Some(one.path) == most);
}

/// Our stack between two processors, which has no ledger: its round trip alone.
fn without_ledger(rr: &Experiment, size: usize) -> Option<RoundTrip> {
    let table = rr.tables.first()?;
    let at = column(table, size)?;
    table.rows.iter().find_map(|row| {
        let (path, mode) = path_and_mode(&row.label)?;
        let wanted = path == PathId::StackShm && mode.waiting == Waiting::BusyPoll;
        let total = row.cells.get(at)?.measured()?.clone();
        wanted.then_some(RoundTrip {
            path,
            mode,
            total,
            stretches: Vec::new(),
            disabled_ns: 0.0,
            open_ns: None,
            verdict: None,
        })
    })
}
