//! Results, as JSON where `--json` wants it, and as tables for people.

use crate::args::GlobalArgs;
use crate::error::Error;
use crate::output;
use crate::values::{Json, Sink};

/// Checks that the file of `--json` can be written, before the time is spent whose outcome goes there.
///
/// # Errors
/// Those of [`tollgate_report::check_writable`].
pub(crate) fn check_writable(json: &Json) -> Result<(), Error> {
    match &json.to {
        Some(Sink::File(path)) => Ok(tollgate_report::check_writable(path)?),
        Some(Sink::Stdout) | None => Ok(()),
    }
}

/// Tells whether tables are printed: JSON on standard output takes their place, and `--quiet` leaves them out beside a file.
pub(crate) fn has_tables(json: &Json, global: &GlobalArgs) -> bool {
    match json.to {
        None => true,
        Some(Sink::File(_)) => !global.quiet,
        Some(Sink::Stdout) => false,
    }
}

/// Writes the JSON where `--json` wants it, and prints the tables unless [`has_tables`] denies them.
///
/// # Errors
/// Those of both functions, of [`output::print`] and of [`tollgate_report::write_file`].
pub(crate) fn put(
    json: &Json,
    global: &GlobalArgs,
    rendered: impl FnOnce() -> Result<String, Error>,
    tables: impl FnOnce() -> String,
) -> Result<(), Error> {
    match &json.to {
        Some(Sink::Stdout) => output::print(&rendered()?)?,
        // The file comes first: a reader of the tables that goes away must not keep it from being written.
        Some(Sink::File(path)) => tollgate_report::write_file(path, rendered()?)?,
        None => {}
    }
    if has_tables(json, global) {
        output::print(&tables())?;
    }
    Ok(())
}
