//! What can go wrong with a trace.

use std::io;
use std::path::PathBuf;

use tollgate_trace::capture::Refused;

/// What can go wrong with a trace.
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
        "{}: no trace is there; tollgate trace import FILE --into {} makes one, and kay-lan and kay-wan are built in",
        .0.display(), .0.display()
    )]
    NoTrace(PathBuf),
    /// There is something else.
    #[error("{}: holds files and is no trace; give --into a new or an empty directory", .0.display())]
    Foreign(PathBuf),
    /// Another import is at work.
    #[error("{}: another import writes to this trace; wait for it, or give --into another directory", .0.display())]
    Busy(PathBuf),
    /// Made by another version.
    #[error("{}: was made by another version of tollgate ({found}, this one knows {known}); import the captures again", .path.display())]
    Version {
        /// The file that says so.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// A file that describes the trace is damaged.
    #[error("{}: is damaged: {source}; remove its directory and import the capture again", .path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
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
    /// A query.
    #[error("{}", told(.0))]
    Query(Box<datafusion::error::DataFusionError>),
    /// The query machine could not be started.
    #[error("cannot start the threads of a query: {0}")]
    Threads(io::Error),
    /// A table is not as this version writes it.
    #[error("the tables are not as this version writes them: {0}; import the captures again")]
    Tables(&'static str),
    /// The user wants no more.
    #[error("stopped; nothing of {name} was kept")]
    Stopped {
        /// The source that was being imported.
        name: String,
    },
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
