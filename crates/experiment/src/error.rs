//! The reason why an experiment has nothing to show.

use std::time::Duration;

use tollgate_run::{Workload, format};

/// The reason why an experiment has nothing to show. What could be measured in part is no error: its cells say what is missing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No path fits the options.
    #[error(
        "no path runs {workload} as asked ({asked}); `tollgate doctor` lists what each path can do"
    )]
    NothingToRun {
        /// The workload that was to be run.
        workload: Workload,
        /// The restrictions, in words.
        asked: String,
    },
    /// Every path failed.
    #[error("{experiment}: nothing could be measured: {reason}")]
    NothingMeasured {
        /// The experiment's name.
        experiment: &'static str,
        /// The reason why the first of the paths failed.
        reason: String,
    },
    /// A transfer could not be simulated.
    #[error("nothing could be simulated: {reason}")]
    Simulation {
        /// The reason.
        reason: String,
    },
    /// It takes longer than the time that is left.
    #[error(
        "{experiment} takes {} at least, and has {}; give it more with --for, or leave --for out",
        format::duration(least.as_nanos() as f64),
        format::duration(left.as_nanos() as f64)
    )]
    NoTime {
        /// The experiment's name.
        experiment: &'static str,
        /// The least time.
        least: Duration,
        /// The time that is left.
        left: Duration,
    },
    /// The user stopped it before anything was measured.
    #[error("stopped before anything was measured")]
    Stopped,
    /// A session could not do what its path promised.
    #[error(transparent)]
    Workload(#[from] tollgate_workload::Error),
}
