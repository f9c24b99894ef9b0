//! Runs that are read from files.

use std::path::Path;

use tollgate_experiment::run::Run;

use crate::error::Error;

/// The run in this file.
///
/// # Errors
/// [`Error::Input`], which names the file.
pub(crate) fn run(path: &Path) -> Result<Run, Error> {
    tollgate_report::json::read(path).map_err(|error| Error::Input {
        path: path.to_owned(),
        error,
    })
}
