//! `tollgate completions` and `tollgate man`: what shells and man need, made from the definition of the command line.
//!
//! It must never hold a word on an option of its own: help, completions and manual say the same.

use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory};

use crate::args::{self, Cli};
use crate::error::Error;
use crate::wrap::wrapped;
use crate::{offered, output};

/// Columns of a page's text: man formats for 80, and indents text by 7 (man-pages(7)).
const COLUMNS: usize = 72;

/// Prints the completions for a shell.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Error> {
    let mut command = offered::shown(visible(&Cli::command()));
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes `tollgate.1` and a page for each command into an existing directory.
pub(crate) fn pages(into: &Path) -> Result<ExitCode, Error> {
    let mut command = visible(&args::command(COLUMNS)).disable_help_subcommand(true);
    command.build();
    page(&command, into)?;
    Ok(ExitCode::SUCCESS)
}

/// The command without the commands that are hidden from people: completions would offer them.
fn visible(command: &Command) -> Command {
    let mut visible =
        Command::new(command.get_name().to_owned()).args(command.get_arguments().cloned());
    if let Some(about) = command.get_about() {
        visible = visible.about(about.clone());
    }
    if let Some(about) = command.get_long_about() {
        visible = visible.long_about(about.clone());
    }
    if let Some(after) = command.get_after_help() {
        visible = visible.after_help(wrapped(&after.to_string(), COLUMNS));
    }
    if let Some(after) = command.get_after_long_help() {
        visible = visible.after_long_help(wrapped(&after.to_string(), COLUMNS));
    }
    if let Some(version) = command.get_version() {
        visible = visible.version(version.to_owned());
    }
    let below = command.get_subcommands().filter(|one| !one.is_hide_set());
    visible.subcommands(below.map(self::visible))
}

/// The page of a command, and those of the commands below it.
fn page(command: &Command, into: &Path) -> Result<(), Error> {
    let manual = clap_mangen::Man::new(command.clone());
    let path = into.join(manual.get_filename());
    let mut text = Vec::new();
    let rendered = manual.render(&mut text);
    rendered.map_err(|error| Error::Usage(format!("{}: {error}", path.display())))?;
    let text = with_lines_kept(&String::from_utf8_lossy(&text));
    tollgate_report::write_file(&path, text)?;
    for below in command.get_subcommands() {
        page(below, into)?;
    }
    Ok(())
}

/// The page with the lines of what stands after the options as they are: man would fill them, tables, too.
fn with_lines_kept(page: &str) -> String {
    const HEADING: &str = ".SH EXTRA\n";
    let Some((before, rest)) = page.split_once(HEADING) else {
        return page.to_owned();
    };
    let (extra, behind) = match rest.find("\n.SH ") {
        Some(at) => rest.split_at(at + 1),
        None => (rest, ""),
    };
    format!("{before}{HEADING}.nf\n{extra}.fi\n{behind}")
}
