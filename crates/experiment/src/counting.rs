//! Counts of instructions within the time of an experiment: Valgrind, its absence and its lateness in words.
//!
//! It must never estimate a count.

use std::time::{Duration, Instant};

use tollgate_budget::valgrind::Program;
use tollgate_run::format;

use crate::context::Context;
use crate::error::Error;

/// Counts by `count` within `limit`, or says why there are no counts; `experiment` is what takes its time when run alone.
///
/// # Errors
/// [`Error::Stopped`] when the user stopped it, which ends Valgrind.
pub(crate) fn counted<T>(
    experiment: &str,
    context: &Context<'_>,
    limit: Option<Duration>,
    count: impl FnOnce(&Program) -> Result<T, tollgate_budget::Error>,
) -> Result<Result<T, String>, Error> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    let counted = match &context.counter {
        Some(program) => {
            let program = program
                .clone()
                .until(deadline)
                .stopped_by(context.cancel.flag());
            count(&program).map_err(|error| match error {
            tollgate_budget::Error::Late { .. } => format!(
                "counting did not end within the {} that the run's limit left for it; `tollgate experiment run {experiment}` takes its \
                 time",
                format::duration(limit.unwrap_or_default().as_nanos() as f64)
            ),
            tollgate_budget::Error::NoValgrind(_) => {
                "valgrind is not installed; apt-get install valgrind".to_owned()
            }
            error => error.to_string(),
        })
        }
        None => Err("this program cannot run itself under valgrind".to_owned()),
    };
    if counted.is_err() && context.cancel.is_raised() {
        return Err(Error::Stopped);
    }
    Ok(counted)
}
