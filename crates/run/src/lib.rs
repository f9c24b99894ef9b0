//! The run as data: everything that one invocation measured, with the host that it was measured on.
//!
//! This crate owns the schema that every renderer reads and that is saved as one JSON file. It holds numbers and
//! words only: it measures nothing (apart from reading the host's description), formats nothing, and knows no
//! renderer. `docs/run-schema.md` documents each field; a test fails when a field is missing there.
//!
//! Rules that hold everywhere: durations are nanoseconds unless a [`Unit`] says otherwise; what could not be
//! measured is an explicit `not_available` with its reason; a number is never NaN or infinite (see [`Run::check`]).

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use tollgate_stats as stats;

pub use forest::{ForestRow, Ratio};
pub use host::{Host, Mitigation, Setting};
pub use names::{
    Mode, Offload, PathId, Placement, Unknown, Waiting, Workload, path_and_mode,
    with_words_of_modes,
};
pub use network::Network;
pub use time::{Timestamp, TimestampError};

#[cfg(feature = "fixture")]
pub mod fixture;
mod forest;
pub mod format;
mod host;
mod names;
mod network;
pub mod observation;
pub mod present;
mod time;

/// The version of the schema that this build writes, and the highest that it reads. Version 1 is read, too: its fields `far` and
/// `yardsticks` are `remote` and `controls` now.
pub const VERSION: u32 = 2;

/// The name in the field `schema`, by which a file is recognised as a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Schema {
    /// A run of Tollgate.
    #[serde(rename = "tollgate.run")]
    TollgateRun,
}

/// Everything that one invocation measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Always `tollgate.run`.
    pub schema: Schema,
    /// Version of the schema, see [`VERSION`].
    pub version: u32,
    /// The program that measured.
    pub tool: Tool,
    /// When the run began.
    pub started: Timestamp,
    /// Duration of the run, in seconds.
    pub elapsed_s: f64,
    /// The command line that made the run.
    pub command: String,
    /// Tells whether the run was shortened, so that its intervals are wider.
    pub quick: bool,
    /// The machine.
    pub host: Host,
    /// The host at the other end, where it is another.
    #[serde(default, alias = "far", skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteEnd>,
    /// The clock that the times were read from.
    pub clock: Clock,
    /// Control benchmarks of the machine, experiment by experiment; those that could not be timed are left out.
    #[serde(default, alias = "yardsticks", skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<Control>,
    /// Experiments, in the order in which they are shown.
    pub experiments: Vec<Experiment>,
    /// Warnings that the reader must know before trusting any number of this run.
    pub warnings: Vec<String>,
}

/// The host at the other end, as its server describes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RemoteEnd {
    /// The host and the port of its server, as the user named them.
    pub address: String,
    /// The version of its server.
    pub server: String,
    /// The machine.
    pub host: Host,
}

/// The program that measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// `tollgate`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The commit that it was built from, when the build knew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
}

/// A fact that was read, or the reason why it could not be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reading<T> {
    /// The fact.
    Value {
        /// Value that was read.
        value: T,
    },
    /// It could not be read; nothing is guessed in its place.
    NotAvailable {
        /// The reason why not, for people.
        reason: String,
    },
}

/// The clock that the times were read from, and what it costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Its name, like `tsc` or `monotonic_raw`.
    pub source: String,
    /// Ticks per second.
    pub hz: f64,
    /// Cost of one reading, in nanoseconds.
    pub read_cost_ns: f64,
    /// The smallest difference that two readings showed, in nanoseconds.
    pub resolution_ns: f64,
}

/// Something that neither the kernel nor Tollgate's stack is part of, timed again and again while an experiment ran: what moves it
/// is the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// The experiment between whose slices it was looked at.
    pub experiment: String,
    /// Number of processors that it takes.
    pub cores: Cores,
    /// The path whose round trips of 4 bytes were timed.
    pub path: String,
    /// The median of all samples of it, in nanoseconds; a sample is the median of some thousand round trips.
    pub median_ns: f64,
    /// A quarter of the samples lies below this.
    pub low_ns: f64,
    /// A quarter of the samples lies above this.
    pub high_ns: f64,
    /// The geometric mean of all samples; none of a run that an older version saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<ControlMean>,
    /// Looks.
    pub n: u64,
}

/// The mean of a control benchmark over an experiment: a median has one speed where the machine changes between two.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ControlMean {
    /// The geometric mean, in nanoseconds.
    pub ns: f64,
    /// The standard error of its logarithm.
    pub error: f64,
}

/// Number of processors that the two ends of a path have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cores {
    /// One for both.
    One,
    /// One each.
    Two,
}

/// One experiment with all that it shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// The name on the command line, like `rr-by-size`; unique in the run.
    pub name: String,
    /// The heading.
    pub title: String,
    /// The published table or figure that the experiment repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<Source>,
    /// Finding: one sentence, computed from the numbers.
    pub finding: String,
    /// The command that makes this experiment.
    pub command: String,
    /// The tables.
    pub tables: Vec<Table>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Lines of trust, on how far the numbers can be relied on.
    pub trust: Vec<TrustLine>,
}

/// The place where a published number stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Source {
    /// The authors as they are cited, like `Kay and Pasquale`.
    pub authors: String,
    /// Year of publication.
    pub year: u16,
    /// The table, figure or section, like `Table 2`.
    pub place: String,
}

/// One sentence on how far an experiment can be trusted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrustLine {
    /// Subject of the line.
    pub kind: TrustKind,
    /// The number that the sentence states, when it states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Unit of `value`.
    #[serde(default)]
    pub unit: Unit,
    /// False when the reader must be warned: a ledger that does not close, events lost.
    pub holds: bool,
    /// The sentence.
    pub text: String,
}

/// Subject of a [`TrustLine`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrustKind {
    /// Tells whether the ledger closes on the total that was measured without gates.
    Closure,
    /// Time that the ledger leaves unexplained.
    Residual,
    /// Cost of the gates themselves.
    Perturbation,
    /// Events that were dropped before they could be read.
    EventsLost,
    /// The share of messages whose events were joined from end to end.
    JoinRate,
    /// Anything else that bears on trust.
    Note,
}

/// The unit of a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// A plain number or text.
    #[default]
    #[serde(rename = "none")]
    None,
    /// Nanoseconds: every duration of a run.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Nanoseconds per byte.
    #[serde(rename = "ns/byte")]
    NanosecondsPerByte,
    /// Instructions executed.
    #[serde(rename = "instructions")]
    Instructions,
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Bytes per second.
    #[serde(rename = "bytes/s")]
    BytesPerSecond,
    /// Events per second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Hundredths.
    #[serde(rename = "percent")]
    Percent,
    /// A quotient of two numbers of the same unit.
    #[serde(rename = "ratio")]
    Ratio,
    /// A number of things.
    #[serde(rename = "count")]
    Count,
    /// Processor cycles.
    #[serde(rename = "cycles")]
    Cycles,
}

/// The layer to which a span belongs. A layer has the same colour in every figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The system-call or socket interface.
    Socket,
    /// TCP.
    Tcp,
    /// IP.
    Ip,
    /// The queue in front of a device, or behind it.
    Device,
    /// The device's driver.
    Driver,
    /// The link between the two ends.
    Link,
    /// The scheduler: waking and switching.
    Scheduler,
}

impl Layer {
    /// All layers, from the application down, the scheduler last.
    pub const ALL: [Self; 7] = [
        Self::Socket,
        Self::Tcp,
        Self::Ip,
        Self::Device,
        Self::Driver,
        Self::Link,
        Self::Scheduler,
    ];

    /// The name in files and legends.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Tcp => "tcp",
            Self::Ip => "ip",
            Self::Device => "device",
            Self::Driver => "driver",
            Self::Link => "link",
            Self::Scheduler => "scheduler",
        }
    }
}

/// Meaning of a row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowKind {
    /// A span in which work is done.
    Processing,
    /// A span in which a packet waits.
    Queueing,
    /// A sum or an independently measured total.
    Total,
    /// The part of the total that no span explains.
    Unattributed,
    /// Any other row.
    Plain,
}

/// Meaning of a segment of a stacked bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentKind {
    /// A span in which work is done.
    Processing,
    /// A span in which a packet waits.
    Queueing,
    /// Time between the first gate and the last that no span explains.
    Unattributed,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Its name, unique in the experiment; used for file names and anchors.
    pub id: String,
    /// The heading.
    pub title: String,
    /// The columns to the right of the row labels.
    pub columns: Vec<Column>,
    /// The rows from top to bottom.
    pub rows: Vec<Row>,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The unit of every number in the column, published ones included.
    pub unit: Unit,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The label at the left.
    pub label: String,
    /// Depth at which the row is nested: 0 at the left edge.
    pub depth: u8,
    /// Meaning of the row.
    pub kind: RowKind,
    /// The layer, when the row is a span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<Layer>,
    /// A remark at the right, like the two gates that bound the span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// One cell for each column; or none at all, for a row that is a heading.
    pub cells: Vec<Cell>,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Cell {
    /// A number that was measured or computed in this run.
    Value(Measured),
    /// A number that was published.
    Published {
        /// The number, in the column's unit.
        value: f64,
        /// The place where it was published.
        source: Source,
    },
    /// A number that could not be had here.
    NotAvailable {
        /// The reason why not, for people.
        reason: String,
    },
    /// Words.
    Text {
        /// The words.
        text: String,
    },
}

/// A measured number with what is known of its spread, all in the column's unit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The number that is shown.
    pub value: f64,
    /// The 95 % confidence interval of `value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci: Option<Interval>,
    /// Number of observations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// Arithmetic mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// 99.9th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_9: Option<f64>,
}

/// A confidence interval: both ends or none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl From<stats::Interval> for Interval {
    fn from(interval: stats::Interval) -> Self {
        let stats::Interval { low, high } = interval;
        Self { low, high }
    }
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Figure {
    /// Lines over a common x axis.
    Lines {
        /// The heading.
        title: String,
        /// The horizontal axis.
        x: Axis,
        /// The vertical axis.
        y: Axis,
        /// The lines.
        series: Vec<Series>,
        /// The command that makes the figure.
        command: String,
    },
    /// Bars that are made of spans.
    StackedBars {
        /// The heading.
        title: String,
        /// The unit of every length.
        unit: Unit,
        /// The bars from top to bottom.
        bars: Vec<Bar>,
        /// The command that makes the figure.
        command: String,
    },
    /// Ratios to a reference, with the intervals of those that are estimates (a forest plot). Rows are subjects and panels are conditions,
    /// all on one logarithmic scale.
    Forest {
        /// The heading.
        title: String,
        /// The headings of the panels from left to right.
        panels: Vec<String>,
        /// The subjects from top to bottom.
        rows: Vec<ForestRow>,
        /// The command that makes the figure.
        command: String,
    },
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Quantity that is drawn along it.
    pub label: String,
    /// Its unit.
    pub unit: Unit,
    /// Scale from values to positions.
    pub scale: Scale,
}

/// Scale from values to positions on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Equal ratios take equal lengths.
    Log,
    /// Equal differences take equal lengths; the axis starts at zero.
    Linear,
}

/// A line of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The name written at the line's end.
    pub label: String,
    /// The points in the order in which they are joined.
    pub points: Vec<Point>,
    /// Tells whether the numbers were published and not measured in this run.
    pub published: bool,
}

/// A point of a line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Position on the horizontal axis, in its unit.
    pub x: f64,
    /// Position on the vertical axis, in its unit.
    pub y: f64,
    /// The 95 % confidence interval of `y`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci: Option<Interval>,
}

/// A bar that is made of spans.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// The label at the left.
    pub label: String,
    /// The total that was measured without gates. The residual, total less the sum of the segments, is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_measured: Option<f64>,
    /// The spans from left to right.
    pub segments: Vec<Segment>,
}

/// A span within a bar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// The name of the span.
    pub label: String,
    /// Its layer; none when the time is unattributed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<Layer>,
    /// Meaning of the segment.
    pub kind: SegmentKind,
    /// Its length, not negative.
    pub value: f64,
}

/// A run whose parts contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Two experiments, or two tables of one experiment, have the same name.
    #[error("the {what} {name:?} occurs twice; give each its own name")]
    Duplicate {
        /// `experiment` or `table`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A row has neither no cell nor one for each column.
    #[error(
        "row {row:?} of table {table:?} has {cells} cells for {columns} columns; give it one for each, or none"
    )]
    CellCount {
        /// The table's id.
        table: String,
        /// The row's label.
        row: String,
        /// Number of its cells.
        cells: usize,
        /// Number of columns of the table.
        columns: usize,
    },
    /// A segment of a bar has a length below zero or no finite length.
    #[error(
        "segment {segment:?} of bar {bar:?} has the length {value}; a length is finite and not negative"
    )]
    SegmentLength {
        /// The bar's label.
        bar: String,
        /// The segment's label.
        segment: String,
        /// The length, as text.
        value: String,
    },
    /// A row of a forest plot does not have ratios for each panel.
    #[error(
        "row {row:?} of a forest plot has ratios for {given} panels of {panels}; give it a list for each"
    )]
    PanelCount {
        /// The row's label.
        row: String,
        /// Number of its lists.
        given: usize,
        /// Number of panels of the figure.
        panels: usize,
    },
    /// A ratio of a forest plot has no place on a logarithmic scale.
    #[error("the ratio of {label:?} in row {row:?} is {value}; a ratio is finite and above zero")]
    Ratio {
        /// The row's label.
        row: String,
        /// The ratio's label.
        label: String,
        /// The ratio, as text.
        value: String,
    },
}

impl Run {
    /// Checks what the types cannot say: names are unique, rows are as wide as their table, lengths are not negative.
    ///
    /// # Errors
    /// The first contradiction that is found.
    pub fn check(&self) -> Result<(), RunError> {
        let mut names = BTreeSet::new();
        for experiment in &self.experiments {
            if !names.insert(&experiment.name) {
                let name = experiment.name.clone();
                return Err(RunError::Duplicate {
                    what: "experiment",
                    name,
                });
            }
            let mut ids = BTreeSet::new();
            for table in &experiment.tables {
                if !ids.insert(&table.id) {
                    let name = table.id.clone();
                    return Err(RunError::Duplicate {
                        what: "table",
                        name,
                    });
                }
                table.check()?;
            }
            for figure in &experiment.figures {
                figure.check()?;
            }
        }
        Ok(())
    }
}

impl Table {
    fn check(&self) -> Result<(), RunError> {
        let wrong = |row: &&Row| !row.cells.is_empty() && row.cells.len() != self.columns.len();
        match self.rows.iter().find(wrong) {
            None => Ok(()),
            Some(row) => Err(RunError::CellCount {
                table: self.id.clone(),
                row: row.label.clone(),
                cells: row.cells.len(),
                columns: self.columns.len(),
            }),
        }
    }
}

impl Figure {
    fn check(&self) -> Result<(), RunError> {
        match self {
            Self::Lines { .. } => Ok(()),
            Self::StackedBars { bars, .. } => Self::check_bars(bars),
            Self::Forest { panels, rows, .. } => {
                rows.iter().try_for_each(|row| row.check(panels.len()))
            }
        }
    }

    fn check_bars(bars: &[Bar]) -> Result<(), RunError> {
        for bar in bars {
            for segment in &bar.segments {
                if !segment.value.is_finite() || segment.value < 0.0 {
                    return Err(RunError::SegmentLength {
                        bar: bar.label.clone(),
                        segment: segment.label.clone(),
                        value: segment.value.to_string(),
                    });
                }
            }
        }
        Ok(())
    }
}

impl Bar {
    /// The sum of the segments.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.segments.iter().map(|segment| segment.value).sum()
    }

    /// The measured total less the sum of the segments: what the bar leaves unexplained.
    #[must_use]
    pub fn residual(&self) -> Option<f64> {
        self.total_measured.map(|total| total - self.sum())
    }
}

impl Measured {
    /// The number and all that is known of its spread times a factor above zero.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let scaled = |value: Option<f64>| value.map(|value| factor * value);
        Self {
            value: factor * self.value,
            ci: self.ci.map(|ci| Interval {
                low: factor * ci.low,
                high: factor * ci.high,
            }),
            n: self.n,
            mean: scaled(self.mean),
            p50: scaled(self.p50),
            p99: scaled(self.p99),
            p99_9: scaled(self.p99_9),
        }
    }
}

impl Cell {
    /// A number without a spread, like an exact count.
    #[must_use]
    pub fn exact(value: f64) -> Self {
        Self::Value(Measured {
            value,
            ..Measured::default()
        })
    }

    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The measured number with its spread, when the cell holds one.
    #[must_use]
    pub fn measured(&self) -> Option<&Measured> {
        match self {
            Self::Value(measured) => Some(measured),
            Self::Published { .. } | Self::NotAvailable { .. } | Self::Text { .. } => None,
        }
    }

    /// The number of the cell, measured or published.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Value(measured) => Some(measured.value),
            Self::Published { value, .. } => Some(*value),
            Self::NotAvailable { .. } | Self::Text { .. } => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, {}", self.authors, self.year, self.place)
    }
}

impl<T> Reading<T> {
    /// The fact, if it could be read.
    #[must_use]
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value { value } => Some(value),
            Self::NotAvailable { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
