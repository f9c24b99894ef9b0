//! Errors of counting.

use std::path::PathBuf;

/// Error of counting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No scenario has this name.
    #[error("unknown scenario `{given}`; known: {known}")]
    UnknownScenario {
        /// The given text.
        given: String,
        /// The names that there are.
        known: String,
    },
    /// A scenario was given sizes and has messages of its own.
    #[error("the scenario {scenario} takes no sizes")]
    NoSizes {
        /// The name that was given.
        scenario: String,
    },
    /// A workload failed.
    #[cfg(feature = "bench")]
    #[error("the scenario failed: {0}")]
    Workload(#[from] tollgate_workload::Error),
    /// A stack refused its configuration.
    #[error("the scenario cannot be set up: {0}")]
    Config(#[from] tollgate_stack::config::InvalidConfig),
    /// A stack refused a call.
    #[error("the scenario failed: {0}")]
    Stack(#[from] tollgate_stack::Error),
    /// A scenario did not do what it is for, so its count would mean something else.
    #[error("the scenario {name} did not go as it must: {what}")]
    Derailed {
        /// The scenario.
        name: &'static str,
        /// The event.
        what: String,
    },
    /// Valgrind is not there.
    #[error(
        "valgrind was looked for on the PATH and not found: {0}; install it (Debian: apt-get install valgrind)"
    )]
    NoValgrind(std::io::Error),
    /// The program under Valgrind ended with an error.
    #[error("{scenario} under valgrind failed ({status}): {stderr}")]
    Failed {
        /// The scenario that ran.
        scenario: String,
        /// Its exit status.
        status: String,
        /// Its standard error.
        stderr: String,
    },
    /// The program under Valgrind was stopped at its deadline.
    #[error("{scenario} under valgrind did not end in time")]
    Late {
        /// The scenario that ran.
        scenario: String,
    },
    /// The program under Valgrind was stopped since the caller was.
    #[error("{scenario} under valgrind was stopped")]
    Stopped {
        /// The scenario that ran.
        scenario: String,
    },
    /// Valgrind's output is not what was expected.
    #[error("what valgrind wrote for {scenario} cannot be read: {what}")]
    Unreadable {
        /// The scenario that ran.
        scenario: String,
        /// The difference.
        what: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The budgets file is no TOML of the documented form.
    #[error("{path}: {what}", path = .path.display())]
    Budgets {
        /// The file.
        path: PathBuf,
        /// The defect.
        what: String,
    },
    /// A temporary file could not be made.
    #[error("a temporary file could not be made: {0}")]
    Temporary(std::io::Error),
}
