//! Errors of traces and runs.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use datafusion::error::DataFusionError;
use tollgate_trace::capture::Refused;

use crate::bucket;

/// Error of a trace, or of runs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory of the trace.
    #[error("{}: cannot {what}: {source}", .path.display())]
    File {
        /// The attempted operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The source of an import.
    #[error(
        "{name}: {source}; tollgate trace import reads pcap and pcapng, plain or in gzip or zstd"
    )]
    Refused {
        /// The source's name.
        name: String,
        /// The reason, with the format that was found.
        source: Refused,
    },
    /// The source could not be read again to its end.
    #[error("{name}: cannot be read: {source}; nothing of it was kept")]
    Source {
        /// The source's name.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
    /// There is no such trace.
    #[error(
        "{0}: no trace is there; tollgate trace import FILE --into {0} makes one, and kay-lan and kay-wan are built in"
    )]
    NoTrace(String),
    /// There is something else.
    #[error("{0}: holds files and is no trace; give --into a new or an empty location")]
    Foreign(String),
    /// Another import is at work.
    #[error(
        "{0}: another import writes to this trace; wait for it, or give --into another location"
    )]
    Busy(String),
    /// Made by another version.
    #[error(
        "{path}: was made by another version of tollgate ({found}, this one knows {known}); import the captures again"
    )]
    Version {
        /// The file that says so.
        path: String,
        /// Its version.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// A file that describes the trace is damaged.
    #[error("{path}: is damaged: {source}; remove its directory and import the capture again")]
    Manifest {
        /// The file.
        path: String,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// A table could not be written.
    #[error("the table of {table} could not be written: {source}")]
    Write {
        /// The table.
        table: &'static str,
        /// The error of the reader.
        source: parquet::errors::ParquetError,
    },
    /// It could not be asked how long the tables are.
    #[error("{location}: the length of a table cannot be read: {source}; nothing was kept")]
    Measure {
        /// The trace.
        location: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A query on a trace.
    #[error("{}; {COLUMNS}", query_failed(.0))]
    Query(Box<DataFusionError>),
    /// A query on runs.
    #[error("{}; {COLUMNS_OF_RUNS}", query_failed(.0))]
    RunsQuery(Box<DataFusionError>),
    /// A table that is not there. A query would take it for one without rows.
    #[error(
        "{0}: is not there, and every answer would lack its rows; bring it back, or remove its folder and add what it was made of again"
    )]
    NoTable(String),
    /// Nobody listens where a cluster's scheduler should.
    #[error(
        "{scheduler}: no scheduler answers there: {source}; start ballista-scheduler, or leave --engine out to ask on this machine"
    )]
    Scheduler {
        /// The scheduler.
        scheduler: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A scheduler that does not say how its jobs are.
    #[error(
        "{scheduler}: the scheduler does not say how far its jobs are: {reason}; start ballista-scheduler 55 without --disable-rest-api"
    )]
    Silent {
        /// The scheduler.
        scheduler: String,
        /// The reason.
        reason: String,
    },
    /// A query on a cluster.
    #[error("{scheduler}: the query failed: {}", on_cluster(source))]
    Cluster {
        /// The scheduler.
        scheduler: String,
        /// The error of DataFusion.
        source: Box<DataFusionError>,
    },
    /// A trace that a scheduler does not find.
    #[error(
        "{scheduler}: the scheduler finds {found} of the {held} messages of {location}; it and each executor read the trace's files themselves: \
         share its folder with them, under the same absolute path"
    )]
    Unseen {
        /// The scheduler.
        scheduler: String,
        /// The trace.
        location: String,
        /// The messages that it finds.
        found: u64,
        /// Those that there are.
        held: u64,
    },
    /// A cluster without executors.
    #[error(
        "{scheduler}: no executor was registered for {}; start ballista-executor for the scheduler {authority} (docs/trace.md), or leave \
         --engine out to ask on this machine",
        seconds(*.waited)
    )]
    NoExecutors {
        /// The scheduler.
        scheduler: String,
        /// Its host and port.
        authority: String,
        /// The time that was waited for one.
        waited: Duration,
    },
    /// A query that makes no progress.
    #[error(
        "{scheduler}: the query made no progress for {}: {}{done}; {}",
        seconds(*.waited),
        lost.as_deref().map(|lost| format!("{lost}; ")).unwrap_or_default(),
        stalled(lost.is_some(), *booked)
    )]
    Stalled {
        /// The scheduler.
        scheduler: String,
        /// The time without progress.
        waited: Duration,
        /// The executors and tasks that were lost.
        lost: Option<String>,
        /// The progress before, in words.
        done: String,
        /// Tells whether executors stay booked for tasks that are no more.
        booked: bool,
    },
    /// A query that lost executors each time.
    #[error(
        "{scheduler}: the query was submitted {times} times and lost executors each time: {lost}; see in their logs why they ended, often for \
         want of memory"
    )]
    Losses {
        /// The scheduler.
        scheduler: String,
        /// The count of submissions.
        times: usize,
        /// The executors and tasks that were lost.
        lost: String,
    },
    /// The user wants no more of a query on a cluster.
    #[error("stopped; {0} was asked to end the query")]
    Interrupted(String),
    /// A trace that is in no file.
    #[error(
        "{0} is built in and in no file that executors could read; leave --engine out, or name the directory of a trace"
    )]
    NotStored(&'static str),
    /// A trace in a bucket, for a cluster.
    #[error(
        "{0}: executors of a cluster, as they are published, read no buckets; leave --engine out, or copy the trace to a folder that they share"
    )]
    InBucket(String),
    /// The query machine could not be started.
    #[error("cannot start the threads of a query: {0}")]
    Threads(io::Error),
    /// A table is not as this version writes it.
    #[error("the tables are not as this version writes them: {0}; import the captures again")]
    Tables(&'static str),
    /// A folder or a bucket.
    #[error("{location}: cannot {what} it: {}", of_location(location, source))]
    Location {
        /// The attempted operation.
        what: &'static str,
        /// The location.
        location: String,
        /// The error of the store.
        source: object_store::Error,
    },
    /// There is no such bucket.
    #[error(
        "{location}: there is no bucket {bucket} at {endpoint}; make it there first, or see to its name, AWS_REGION and AWS_ENDPOINT_URL"
    )]
    NoBucket {
        /// The location in it.
        location: String,
        /// Its name.
        bucket: String,
        /// The server.
        endpoint: String,
    },
    /// There is no store of runs.
    #[error(
        "{0}: no runs are there; tollgate report --save {0} makes a store, and tollgate runs add {0} FILE"
    )]
    NoStore(String),
    /// There is something else.
    #[error("{0}: holds something else than runs; give --save a new or an empty location")]
    ForeignStore(String),
    /// The file that marks a store is damaged.
    #[error("{path}: is damaged: {source}; restore it, or save into another store")]
    StoreMark {
        /// The file.
        path: String,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// A store of another version.
    #[error(
        "{location}: its runs are of version {found}, this tollgate knows {known}; use the newer one for it"
    )]
    StoreVersion {
        /// The store.
        location: String,
        /// Its version.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// A run that the store does not have.
    #[error("{location}: no run `{id}`: {why}; tollgate runs list {location} names them")]
    NoRun {
        /// The id that was requested.
        id: String,
        /// The location.
        location: String,
        /// The reason why it is none.
        why: &'static str,
    },
    /// The user wants no more.
    #[error("stopped; nothing of {name} was kept")]
    Stopped {
        /// The source that was being imported.
        name: String,
    },
}

/// An error with its reasons, each once, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(reason) = next {
        let reason_text = reason.to_string();
        if !text.contains(&reason_text) {
            text.push_str(": ");
            text.push_str(&reason_text);
        }
        next = reason.source();
    }
    one_line(&text)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Describes an error of a location, with advice.
fn of_location(location: &str, error: &object_store::Error) -> String {
    if location.starts_with("s3://") {
        bucket::describe(error)
    } else {
        chain(error)
    }
}

/// Message of DataFusion, without the trace of its own code.
fn query_failed(error: &DataFusionError) -> String {
    format!("the query failed: {}", error.strip_backtrace())
}

/// Advice for a query that names columns or tables that do not exist.
const COLUMNS: &str =
    "`SELECT * FROM messages LIMIT 5` shows what there is, and docs/trace.md each column";
/// Likewise of a store of runs.
const COLUMNS_OF_RUNS: &str =
    "`SELECT * FROM numbers LIMIT 5` shows what there is, and docs/runs.md each column";

/// Message of a cluster about a query that failed, with advice.
fn on_cluster(error: &DataFusionError) -> String {
    let said = one_line(&error.strip_backtrace());
    let any = |signs: &[&str]| signs.iter().any(|sign| said.contains(sign));
    let advice = match error.find_root() {
        DataFusionError::Plan(_) | DataFusionError::SQL(..) | DataFusionError::SchemaError(..) => {
            COLUMNS
        }
        _ if any(&["same major version"]) => {
            "install the version of ballista-scheduler and ballista-executor that docs/trace.md names"
        }
        _ if any(&["No such file", "NotFound", "not found", "does not exist"]) => {
            "executors read the trace's files themselves: share its folder with each of them, under the same absolute path"
        }
        _ if any(&["Permission denied", "PermissionDenied"]) => {
            "executors read the trace's files themselves: let the user that they run as read its folder"
        }
        _ if any(&[
            "transport error",
            "connect error",
            "Connection refused",
            "FetchFailed",
            "fetch partition",
        ]) =>
        {
            "this machine and the executors fetch rows from each executor: see that its address and ports can be reached, and --external-host"
        }
        _ => "the logs of the scheduler and of the executors say more",
    };
    format!("{said}; {advice}")
}

/// Advice for a query that makes no progress.
fn stalled(lost: bool, booked: bool) -> &'static str {
    match (lost, booked) {
        (_, true) => {
            "executors stay booked for it until they are started again; with pull-staged scheduling they do not (docs/trace.md)"
        }
        (true, false) => "see in the executors' logs why they ended, and ask again",
        (false, false) => {
            "others may use the executors, or a task takes longer: --cluster-timeout gives it more time"
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", time.as_secs_f64())
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        Self::Query(Box::new(error))
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::Query(Box::new(error.into()))
    }
}
