//! `tollgate show`: a saved run on one screen, or by its tables, or any part of it.

use std::process::ExitCode;

use tollgate_analysis::summary::summary;
use tollgate_report::svg;
use tollgate_report::terminal::{self, Detail, Rest};
use tollgate_run::{Experiment, Run, Table};

use crate::args::{GlobalArgs, Show};
use crate::error::Error;
use crate::nearest::unknown;
use crate::{input, output};

/// `tollgate show`.
pub(crate) fn run(args: &Show, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let run = input::run(&args.run)?;
    if let Some(file) = &args.svg {
        let figure = svg::render(&run).ok_or_else(|| {
            Error::Usage(format!(
                "{} has no ledger, so there is no figure of a round trip; give a run of `tollgate report`",
                args.run.display()
            ))
        })?;
        tollgate_report::write_file(file, figure)?;
        return Ok(ExitCode::SUCCESS);
    }
    // What is left out is told to be had by --verbose.
    let full = args.full || global.verbose > 0;
    let (width, colour) = (output::width(), output::colour(global.color));
    let text = match args.parts.as_slice() {
        [] if full => terminal::render(&run, Detail::Whole, width, colour),
        [] if is_short(&run) => terminal::render(&run, Detail::Tables, width, colour),
        [] => {
            let name = args.run.display().to_string();
            let rest = Rest {
                json: Some(&name),
                html: None,
            };
            terminal::render_screen(&run, &rest, width, colour)
        }
        parts => {
            let detail = if full { Detail::Whole } else { Detail::Tables };
            let mut texts = Vec::new();
            for part in parts {
                let (experiment, table) = find(&run, part)?;
                texts.push(terminal::render_experiment(
                    experiment, table, detail, width, colour,
                ));
            }
            texts.join("\n")
        }
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Tells whether the tables of a run say more than its screen would: it has one experiment, or nothing that the screen shows.
fn is_short(run: &Run) -> bool {
    run.experiments.len() < 2 || summary(run).is_empty()
}

/// The experiment that a name means, and with `NAME/TABLE` the table.
fn find<'a>(run: &'a Run, part: &str) -> Result<(&'a Experiment, Option<&'a Table>), Error> {
    let (name, table) = match part.split_once('/') {
        Some((name, table)) => (name, Some(table)),
        None => (part, None),
    };
    let names: Vec<&str> = run
        .experiments
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let mut all = run.experiments.iter();
    let experiment = all
        .find(|one| one.name == name)
        .ok_or_else(|| Error::Usage(unknown("experiment of this run", name, &names)))?;
    let Some(id) = table else {
        return Ok((experiment, None));
    };
    let ids: Vec<&str> = experiment
        .tables
        .iter()
        .map(|one| one.id.as_str())
        .collect();
    let mut tables = experiment.tables.iter();
    let what = format!("table of {name}");
    let table = tables
        .find(|one| one.id == id)
        .ok_or_else(|| Error::Usage(unknown(&what, id, &ids)))?;
    Ok((experiment, Some(table)))
}
