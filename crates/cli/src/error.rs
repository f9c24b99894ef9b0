//! Errors of the command: one line each of what was tried, what went wrong and what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Stopped by Ctrl-C, as shells number it: 128 and the signal.
pub(crate) const INTERRUPTED: u8 = 130;

/// Errors of the command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A file that is given is not a run that can be read.
    #[error("{}", of_file(path, error))]
    Input {
        /// The file.
        path: PathBuf,
        /// Defect of the file.
        error: tollgate_report::json::ReadError,
    },
    /// The arguments contradict each other.
    #[error("{0}")]
    Usage(String),
    /// The reader of standard output has gone away.
    #[error("standard output was closed")]
    Closed,
    /// Standard output cannot be written to.
    #[error("cannot write to standard output: {0}; send it to a place that takes it")]
    Stdout(io::Error),
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] tollgate_report::WriteError),
    /// The run cannot become JSON.
    #[error(transparent)]
    Json(#[from] tollgate_report::json::RenderError),
    /// Other data cannot become JSON.
    #[error("cannot write JSON: {0}; this is a defect of Tollgate, please report it")]
    Serialise(#[from] serde_json::Error),
    /// The run's parts contradict each other.
    #[error("the run contradicts itself: {0}; this is a defect of Tollgate, please report it")]
    Run(#[from] tollgate_run::RunError),
    /// A scenario that is counted failed.
    #[error(transparent)]
    Scenario(#[from] tollgate_budget::Error),
    /// The counts of a kernel cannot be read.
    #[error(transparent)]
    Counts(#[from] tollgate_qemu::Error),
    /// Subject of an observation that is not there.
    #[error(transparent)]
    Scope(#[from] tollgate_kernel::scope::ScopeError),
    /// Traffic cannot be observed.
    #[error("traffic was to be observed with BPF programs in the kernel: {reason}; {advice}")]
    Observe {
        /// Reason of the failure.
        reason: String,
        /// Advice to the user.
        advice: &'static str,
    },
    /// Another host cannot be reached, or was lost, or cannot be waited for.
    #[error(transparent)]
    Remote(#[from] tollgate_workload::Error),
    /// A server cannot go on.
    #[error("serving: {}", of_server(.0))]
    Serve(io::Error),
    /// Nobody can be served on a port.
    #[error("serving on port {port}: {error}; name another port, or see who has it (ss -ltnp)")]
    Port {
        /// The port.
        port: u16,
        /// Reason of the failure.
        error: io::Error,
    },
    /// The files of a directory cannot be served.
    #[error("the files of {} cannot be served: {error}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Reason of the failure.
        error: io::Error,
    },
    /// Tollgate's stack cannot be set up beside the kernel.
    #[error(transparent)]
    Tap(#[from] tollgate_link::host::BesideError),
    /// Tollgate's stack cannot share an interface with the host.
    #[error(transparent)]
    Share(#[from] tollgate_link::OpenError),
    /// Tollgate's stack cannot have its address.
    #[error(transparent)]
    Duplicate(#[from] tollgate_link::DuplicateAddress),
    /// The stack cannot have such a configuration.
    #[error(transparent)]
    Config(#[from] tollgate_workload::config::InvalidConfig),
    /// Held-out sizes cannot be measured.
    #[error(transparent)]
    Experiment(#[from] tollgate_experiment::Error),
    /// A trace, or a store of runs.
    #[cfg(feature = "sql")]
    #[error(transparent)]
    Trace(#[from] tollgate_table::Error),
    /// Packets cannot be captured.
    #[cfg(feature = "sql")]
    #[error("packets were to be captured: {0}")]
    Live(#[from] tollgate_kernel::live::LiveError),
    /// Captured packets cannot be written.
    #[cfg(feature = "sql")]
    #[error("{0}; `tollgate trace import` reads the files there")]
    Ring(#[from] tollgate_trace::ring::RingError),
    /// A key could not be read or made.
    #[cfg(feature = "sql")]
    #[error(
        "the key in {path} cannot be read: {reason}; it is to hold 32 bytes: head -c 32 /dev/urandom > {path}"
    )]
    Key {
        /// The path of the key.
        path: String,
        /// Reason of the failure.
        reason: String,
    },
    /// This build knows no tables.
    #[cfg(not(feature = "sql"))]
    #[error(
        "`tollgate {0}` was left out when this command was built; `make traces` builds one that has it, target/traces/tollgate"
    )]
    NoTables(&'static str),
    /// This build saves no runs.
    #[cfg(not(feature = "sql"))]
    #[error(
        "--save {0}: stores of runs were left out when this command was built; `make traces` builds one that has them, \
         target/traces/tollgate, and its `runs add {0} FILE` takes files that --json wrote"
    )]
    NoSaving(String),
    /// This build has no traces but those that are built in.
    #[cfg(not(feature = "sql"))]
    #[error(
        "the trace {0} cannot be read: traces of captures were left out when this command was built; `make traces` builds one that has them, \
         target/traces/tollgate; kay-lan and kay-wan are built in"
    )]
    NoStoredTraces(String),
    /// Measurements that make no profile.
    #[error(transparent)]
    Profile(#[from] tollgate_analysis::profile::NoProfile),
    /// No signal handler could be set.
    #[error("cannot prepare for Ctrl-C: {0}")]
    Signals(io::Error),
}

/// The error with the file that it is about, once.
fn of_file(path: &Path, error: &tollgate_report::json::ReadError) -> String {
    use tollgate_report::json::ReadError;
    match error {
        ReadError::Io { .. } => error.to_string(),
        ReadError::NotARun { .. }
        | ReadError::Newer { .. }
        | ReadError::Damaged(_)
        | ReadError::Contradiction(_) => format!("cannot read the run {path:?}: {error}"),
    }
}

/// The reason why a server ended, and what it means.
fn of_server(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) if number == rustix::io::Errno::NODEV.raw_os_error() => {
            format!("{error}: its device was deleted (ip link del); start it again")
        }
        _ => error.to_string(),
    }
}

impl Error {
    /// The exit code that tells of it.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) | Self::Input { .. } | Self::Scope(_) => ExitCode::from(2),
            // Whoever closed the pipe has what it wanted.
            Self::Closed => ExitCode::SUCCESS,
            Self::Experiment(tollgate_experiment::Error::Stopped) => ExitCode::from(INTERRUPTED),
            _ => ExitCode::from(1),
        }
    }
}
