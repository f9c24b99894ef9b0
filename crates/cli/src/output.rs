//! Destinations of text: standard output without a panic when its reader goes away, standard error, colour and width.

use std::io::{self, IsTerminal, Write};

use crate::error::Error;
use crate::values::Colour;

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

/// Columns of standard output: those of the terminal, else of the variable COLUMNS, else 120.
pub(crate) fn width() -> usize {
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    console::Term::stdout()
        .size_checked()
        .map(|(_, columns)| usize::from(columns))
        .or_else(told)
        .unwrap_or(WIDTH)
}
