//! What can go wrong with a trace, or with runs.

use std::io;
use std::path::PathBuf;

use tollgate_trace::capture::Refused;

/// What can go wrong with a trace, or with runs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory of the trace.
    #[error("{}: cannot {what}: {source}", .path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The source of an import.
    #[error(
        "{name}: {source}; tollgate trace import reads pcap and pcapng, plain or in gzip or zstd"
    )]
    Refused {
        /// The source's name.
        name: String,
        /// What it is instead.
        source: Refused,
    },
    /// The source could not be read again to its end.
    #[error("{name}: cannot be read: {source}; nothing of it was kept")]
    Source {
        /// The source's name.
        name: String,
        /// What went wrong.
        source: io::Error,
    },
    /// There is no such trace.
    #[error(
        "{0}: no trace is there; tollgate trace import FILE --into {0} makes one, and kay-lan and kay-wan are built in"
    )]
    NoTrace(String),
    /// There is something else.
    #[error("{0}: holds files and is no trace; give --into a new or an empty place")]
    Foreign(String),
    /// Another import is at work.
    #[error("{0}: another import writes to this trace; wait for it, or give --into another place")]
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
        /// What does not fit.
        source: serde_json::Error,
    },
    /// A table could not be written.
    #[error("the table of {table} could not be written: {source}")]
    Write {
        /// Which table.
        table: &'static str,
        /// What went wrong.
        source: parquet::errors::ParquetError,
    },
    /// It could not be asked how long the tables are.
    #[error("{place}: the length of a table cannot be read: {source}; nothing was kept")]
    Measure {
        /// The trace.
        place: String,
        /// What went wrong.
        source: io::Error,
    },
    /// A query.
    #[error("{}", told(.0))]
    Query(Box<datafusion::error::DataFusionError>),
    /// Nobody listens where a cluster's scheduler should.
    #[error(
        "{scheduler}: no scheduler answers there: {source}; start ballista-scheduler, or leave --engine out to ask on this machine"
    )]
    Scheduler {
        /// The scheduler.
        scheduler: String,
        /// What went wrong.
        source: io::Error,
    },
    /// A query on a cluster.
    #[error(
        "{scheduler}: the query failed: {}; executors read the trace's files themselves, so they have to see them under the same path",
        one_line(source.strip_backtrace())
    )]
    Cluster {
        /// The scheduler.
        scheduler: String,
        /// What went wrong.
        source: Box<datafusion::error::DataFusionError>,
    },
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
    #[error("{place}: cannot {what} it: {}{}", chain(source), advice(place))]
    Place {
        /// What was tried.
        what: &'static str,
        /// With which place.
        place: String,
        /// What went wrong.
        source: object_store::Error,
    },
    /// There is no store of runs.
    #[error(
        "{0}: no runs are there; tollgate report --save {0} makes a store, and tollgate runs add {0} FILE"
    )]
    NoStore(String),
    /// There is something else.
    #[error("{0}: holds something else than runs; give --save a new or an empty place")]
    ForeignStore(String),
    /// The file that marks a store is damaged.
    #[error("{path}: is damaged: {source}; restore it, or save into another store")]
    StoreMark {
        /// The file.
        path: String,
        /// What does not fit.
        source: serde_json::Error,
    },
    /// A store of another version.
    #[error(
        "{place}: its runs are of version {found}, this tollgate knows {known}; use the newer one for it"
    )]
    StoreVersion {
        /// The store.
        place: String,
        /// Its version.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// A run that the store does not have.
    #[error("{place}: no run `{id}`: {why}; tollgate runs list {place} names them")]
    NoRun {
        /// What was asked for.
        id: String,
        /// Where.
        place: String,
        /// Why it is none.
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
fn chain(error: &dyn std::error::Error) -> String {
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
    one_line(text)
}

fn one_line(text: String) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What to do about a place that fails.
fn advice(place: &str) -> &'static str {
    if place.starts_with("s3://") {
        "; see to AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and, for other servers than Amazon's, AWS_ENDPOINT_URL"
    } else {
        ""
    }
}

/// What DataFusion says, without the trace of where in its code that was.
fn told(error: &datafusion::error::DataFusionError) -> String {
    format!(
        "the query failed: {}; `SELECT * FROM messages LIMIT 5` shows what there is, and docs/trace.md each column",
        error.strip_backtrace()
    )
}

impl From<datafusion::error::DataFusionError> for Error {
    fn from(error: datafusion::error::DataFusionError) -> Self {
        Self::Query(Box::new(error))
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::Query(Box::new(error.into()))
    }
}
