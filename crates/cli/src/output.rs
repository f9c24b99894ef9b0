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
