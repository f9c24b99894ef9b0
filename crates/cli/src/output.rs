//! Destinations of text: standard output without a panic when its reader goes away, standard error, colour and width.

use std::io::{self, IsTerminal, Write};

use crate::args::GlobalArgs;
use crate::error::Error;
use crate::values::{Colour, Json, Sink};

/// The width where there is no terminal.
const WIDTH: usize = 120;

/// Writes to standard output.
///
/// # Errors
/// [`Error::Closed`] when the reader has gone away, [`Error::Stdout`] for all else.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Error::Closed,
            _ => Error::Stdout(error),
        })
}

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
/// Those of both functions, of [`print()`] and of [`tollgate_report::write_file`].
pub(crate) fn put(
    json: &Json,
    global: &GlobalArgs,
    rendered: impl FnOnce() -> Result<String, Error>,
    tables: impl FnOnce() -> String,
) -> Result<(), Error> {
    match &json.to {
        Some(Sink::Stdout) => print(&rendered()?)?,
        // The file comes first: a reader of the tables that goes away must not keep it from being written.
        Some(Sink::File(path)) => tollgate_report::write_file(path, rendered()?)?,
        None => {}
    }
    if has_tables(json, global) {
        print(&tables())?;
    }
    Ok(())
}

/// A line for people on standard error. When nobody can read it, nobody misses it.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Tells whether standard output gets colours.
pub(crate) fn colour(choice: Colour) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    match choice {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => !set("NO_COLOR") && !dumb && io::stdout().is_terminal(),
    }
}

/// Columns of standard output: those of the variable COLUMNS, else of the terminal, else 120.
pub(crate) fn width() -> usize {
    let wanted = std::env::var("COLUMNS").ok();
    let terminal = || console::Term::stdout().size_checked();
    columns(wanted.as_deref(), || terminal().map(|(_, columns)| columns))
}

/// Columns of help, which nobody reads in lines of more than 100.
pub(crate) fn help_width() -> usize {
    width().min(100)
}

/// The wanted number of columns where it is one, else the terminal's.
fn columns(wanted: Option<&str>, terminal: impl FnOnce() -> Option<u16>) -> usize {
    let wanted = wanted.and_then(|columns| columns.parse().ok());
    let columns = wanted.filter(|columns| *columns > 0).or_else(terminal);
    columns.map_or(WIDTH, usize::from)
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn columns_that_are_wanted_win_over_the_terminal() {
        assert_eq!(columns(Some("60"), || Some(200)), 60);
        assert_eq!(columns(None, || Some(200)), 200);
        assert_eq!(columns(Some("many"), || Some(200)), 200);
        assert_eq!(columns(Some("0"), || Some(200)), 200);
        assert_eq!(columns(None, || None), 120);
    }
}
