//! `tollgate compare`: reads two runs, says in what they differ, and tells a regression by the exit code.

use std::process::ExitCode;

use tollgate_analysis::comparison::{Options, THRESHOLD, compare};

use crate::args::{Compare, Manners};
use crate::error::Error;
use crate::values::Sink;
use crate::{input, output};

/// Compares, and ends with 1 when `--fail-on` was given and something became worse by more than that.
pub(crate) fn run(asked: &Compare, manners: &Manners) -> Result<ExitCode, Error> {
    let (before, after) = (input::run(&asked.before)?, input::run(&asked.after)?);
    let again = asked.again.as_deref().map(input::run).transpose()?;
    for name in asked.experiments.iter().flatten() {
        let held = [&before, &after].map(|run| run.experiments.iter().any(|one| one.name == *name));
        if held != [true, true] {
            return Err(Error::Usage(format!(
                "the experiment `{name}` was to be compared and is not in both runs; leave --experiment out to compare all that are"
            )));
        }
    }
    let options = Options {
        threshold: asked.fail_on.unwrap_or(THRESHOLD),
        experiments: asked.experiments.clone(),
    };
    let comparison = compare(&before, &after, again.as_ref(), &options)
        .map_err(|error| Error::Usage(error.to_string()))?;
    let json = || Ok::<_, Error>(serde_json::to_string_pretty(&comparison)? + "\n");
    match &asked.json.to {
        Some(Sink::Stdout) => output::print(&json()?)?,
        sink => {
            if let Some(Sink::File(path)) = sink {
                tollgate_report::write_file(path, json()?)?;
            }
            output::print(&tollgate_report::terminal::render_comparison(
                &comparison,
                output::width(),
                output::colour(manners.color),
            ))?;
        }
    }
    Ok(if asked.fail_on.is_some() && comparison.has_regressions() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
