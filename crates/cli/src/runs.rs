//! `tollgate runs`: stores of runs, those that `--save` fills. Arguments and output; the store is in the crate below.

pub(crate) mod args;

use std::process::ExitCode;

use tollgate_report::json;
use tollgate_table::answer::Answer;
use tollgate_table::location::Location;
use tollgate_table::runs::{Saved, Store};

use crate::args::GlobalArgs;
use crate::error::Error;
use crate::{answered, input, output};
use args::{Add, Get, List, RunsCommand, Sql};

/// Query of `list`.
const LIST: &str = "SELECT run, started, coalesce(host, '') AS host, coalesce(kernel, '') AS kernel, numbers, command FROM runs \
                    ORDER BY started, run";

/// Runs a command on stores.
pub(crate) fn run(command: &RunsCommand, global: &GlobalArgs) -> Result<ExitCode, Error> {
    match command {
        RunsCommand::List(List { store, json }) => {
            answered::show(&ask(store, LIST)?, json, global)?;
        }
        RunsCommand::Sql(Sql { store, query, json }) => {
            answered::show(&ask(store, query)?, json, global)?;
        }
        RunsCommand::Get(Get { store, id }) => {
            output::print(&Store::open(&location(store))?.json(id)?)?;
        }
        RunsCommand::Add(add) => run_add(add, global)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(store: &str, query: &str) -> Result<Answer, Error> {
    let rows = Store::open(&location(store))?.query(query)?;
    Ok(Answer::of(&rows.0, &rows.1)?)
}

fn run_add(add: &Add, global: &GlobalArgs) -> Result<(), Error> {
    let runs = add.files.iter().map(|path| input::run(path));
    let runs = runs.collect::<Result<Vec<_>, Error>>()?;
    let store = Store::prepare(&location(&add.store))?;
    for (path, run) in add.files.iter().zip(&runs) {
        // Rendered anew, so that the same run has the same name however its file is indented.
        let saved = store.save(run, &json::render(run)?, add.host.as_deref())?;
        if !global.quiet {
            output::say(&format!(
                "{}: {}",
                path.display(),
                saved_text(&saved, store.location())
            ));
        }
    }
    Ok(())
}

/// The location with this name.
pub(crate) fn location(name: &str) -> Location {
    let Ok(location) = name.parse();
    location
}

/// Outcome of saving a run, in a sentence.
pub(crate) fn saved_text(saved: &Saved, location: &Location) -> String {
    match saved {
        Saved::New(id) => format!("saved as {id} in {location}"),
        Saved::Known(id) => format!("is in {location} already, as {id}; it was not saved twice"),
    }
}
