//! Errors of workloads: the attempted operation, the cause, the advice.

use std::io;

use tollgate_run::PathId;
use tollgate_stats::MixedTimings;

/// The failure of a workload.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that stands for no path, workload, placement or way of waiting.
    #[error(transparent)]
    Unknown(#[from] tollgate_run::Unknown),
    /// The path exists, but does not run what the spec asks for.
    #[error("{path} does not run {asked}; it has: {has}")]
    Unsupported {
        /// The path that was asked.
        path: PathId,
        /// The requested workload or mode.
        asked: String,
        /// The workloads or modes that it has.
        has: String,
    },
    /// The number of bytes per message is outside what a workload can carry.
    #[error("size {size} is out of range; a message has 1 to {max} bytes")]
    Size {
        /// The size that was asked for, in bytes.
        size: usize,
        /// The largest size, in bytes.
        max: usize,
    },
    /// A message is too large for one datagram.
    #[error("size {size} is out of range; a datagram has 1 to {max} bytes")]
    Datagram {
        /// The size that was asked for, in bytes.
        size: usize,
        /// The largest size, in bytes.
        max: usize,
    },
    /// The timing asked for cannot be carried out.
    #[error("a batch of 0 operations was asked for; use at least 1")]
    EmptyBatch,
    /// The process may not run on as many cores as the placement needs.
    #[error(
        "two cores are needed and this process may use {allowed}; widen its affinity (taskset, cpuset) or use one core"
    )]
    Cores {
        /// The count of CPUs in the affinity mask.
        allowed: usize,
    },
    /// A system call failed.
    #[error("{path}: {doing}: {source}")]
    System {
        /// The path that was being driven.
        path: PathId,
        /// The operation under way.
        doing: &'static str,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// One of Tollgate's own stacks, or a link between two, refused a call.
    #[error("{path}: {doing}: {reason}")]
    Stack {
        /// The path that was being driven.
        path: PathId,
        /// The operation under way.
        doing: &'static str,
        /// The reason that the stack gave.
        reason: String,
    },
    /// Nothing moved for as long as a session is patient.
    #[error(
        "{path}: no progress for {seconds} s while {doing}; is the machine overloaded, or the path filtered?"
    )]
    Timeout {
        /// The path that was being driven.
        path: PathId,
        /// The event that did not come.
        doing: &'static str,
        /// The time that was waited, in seconds.
        seconds: u64,
    },
    /// The machine does not have, or does not allow, what a way of sending takes.
    #[error("{path}: {what} is not available: {reason}")]
    Unavailable {
        /// The path that was being opened.
        path: PathId,
        /// The facility that is missing.
        what: &'static str,
        /// The obstacle, and the remedy.
        reason: String,
    },
    /// A device of ours is there no more.
    #[error(
        "{path}: its device {device} is gone from its network namespace: somebody deleted it (ip link del); whatever was not told \
         before is lost, so run it again"
    )]
    Vanished {
        /// The path that was being driven.
        path: PathId,
        /// The device's name in its namespace.
        device: &'static str,
    },
    /// The other end closed while it was still needed.
    #[error("{path}: the other end closed the connection while {doing}")]
    Closed {
        /// The path that was being driven.
        path: PathId,
        /// The operation under way.
        doing: &'static str,
    },
    /// Bytes arrived that are not those that were sent.
    #[error("{path}: {what} {message} differs from what was sent, first at byte {offset}")]
    Corrupt {
        /// The path that was being driven.
        path: PathId,
        /// "request", "response" or "stream".
        what: &'static str,
        /// The number of the message since the session was opened, from 0.
        message: u64,
        /// The offset of the first wrong byte.
        offset: u64,
    },
    /// The other end, a thread or a process, reported a failure or died.
    #[error("{path}: the other end failed: {reason}")]
    Peer {
        /// The path that was being driven.
        path: PathId,
        /// Its error, or the way it died.
        reason: String,
    },
    /// The session was told to stop in the middle of a slice.
    #[error("{path}: stopped in the middle of a slice")]
    Stopped {
        /// The path that was being driven.
        path: PathId,
    },
    /// The session failed before; its two ends no longer agree on where they are.
    #[error("{path}: this session failed before; open a new one")]
    Poisoned {
        /// The path that was being driven.
        path: PathId,
    },
    /// A second process was asked for in a program whose `main` does not call `maybe_run`.
    #[error(
        "{path} needs a second process; the program's main must call tollgate_workload::maybe_run() first"
    )]
    NoChildEntry {
        /// The path that was being opened.
        path: PathId,
    },
    /// A child was started with orders that it cannot follow.
    #[error("the child process cannot start: {reason}")]
    ChildOrders {
        /// The defect of the orders.
        reason: String,
    },
    /// Another host was to do something, and did not.
    #[error("kernel-remote: {doing} {host}: {reason}; {advice}")]
    Remote {
        /// The host, as the user named it.
        host: String,
        /// The operation under way.
        doing: &'static str,
        /// The reason.
        reason: String,
        /// The advice.
        advice: &'static str,
    },
    /// Samples that were taken in different ways cannot be put together.
    #[error(transparent)]
    Timing(#[from] MixedTimings),
}

impl Error {
    /// Assigns the failure to another path, which uses the means of the path that failed.
    #[must_use]
    pub(crate) fn on(mut self, other: PathId) -> Self {
        match &mut self {
            Self::Unsupported { path, .. }
            | Self::System { path, .. }
            | Self::Stack { path, .. }
            | Self::Timeout { path, .. }
            | Self::Vanished { path, .. }
            | Self::Unavailable { path, .. }
            | Self::Closed { path, .. }
            | Self::Corrupt { path, .. }
            | Self::Peer { path, .. }
            | Self::Stopped { path }
            | Self::Poisoned { path }
            | Self::NoChildEntry { path } => *path = other,
            Self::Unknown(_)
            | Self::Size { .. }
            | Self::EmptyBatch
            | Self::Datagram { .. }
            | Self::Cores { .. }
            | Self::ChildOrders { .. }
            | Self::Remote { .. }
            | Self::Timing(_) => {}
        }
        self
    }

    /// Wraps a system call's error with what was being done on which path.
    pub(crate) fn system(path: PathId, doing: &'static str, source: impl Into<io::Error>) -> Self {
        Self::System {
            path,
            doing,
            source: source.into(),
        }
    }

    /// Wraps what a stack or its link said.
    #[cold]
    pub(crate) fn stack(path: PathId, doing: &'static str, reason: impl std::fmt::Display) -> Self {
        Self::Stack {
            path,
            doing,
            reason: reason.to_string(),
        }
    }
}
