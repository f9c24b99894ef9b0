//! `tollgate compare`: reads the runs of two sides, says in what they differ, and tells a regression by the exit code.

use std::process::ExitCode;

use tollgate_analysis::comparison::{Options, THRESHOLD, compare};
use tollgate_report::terminal::Detail;
use tollgate_run::Run;

use crate::args::{Compare, GlobalArgs, Runs};
use crate::error::Error;
use crate::{input, output, results};

/// Compares, and ends with 1 when `--fail-on` was given and something became worse by more than that.
pub(crate) fn run(asked: &Compare, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let (before, after) = (read(&asked.before)?, read(&asked.after)?);
    for name in asked.experiments.iter().flatten() {
        let holds = |run: &Run| run.experiments.iter().any(|one| one.name == *name);
        if ![&before, &after].iter().all(|side| side.iter().any(holds)) {
            return Err(Error::Usage(format!(
                "the experiment `{name}` was to be compared and is not in both runs; leave --experiment out to compare all that are"
            )));
        }
    }
    for (names, runs) in [(&asked.before, &before), (&asked.after, &after)] {
        for (at, run) in runs.iter().enumerate() {
            if let Some(first) = runs[..at].iter().position(|other| other == run) {
                return Err(Error::Usage(format!(
                    "{} and {} are one run, which is no repetition of itself; give each run once on a side",
                    names.0[first].display(),
                    names.0[at].display()
                )));
            }
        }
    }
    let options = Options {
        threshold: asked.fail_on.unwrap_or(THRESHOLD),
        experiments: asked.experiments.clone(),
    };
    let [a, b] = [&before, &after].map(|side| side.iter().collect::<Vec<&Run>>());
    let comparison = compare(&a, &b, &options).map_err(|error| Error::Usage(error.to_string()))?;
    let json = || Ok(serde_json::to_string_pretty(&comparison)? + "\n");
    results::put(&asked.json, global, json, || {
        tollgate_report::terminal::render_comparison(
            &comparison,
            if global.verbose > 0 {
                Detail::Whole
            } else {
                Detail::Tables
            },
            output::width(),
            output::colour(global.color),
        )
    })?;
    if asked.fail_on.is_some() && comparison.judged == 0 {
        return Err(Error::Usage(
            "no row could be judged, so --fail-on cannot tell a regression; give runs whose rows have intervals".to_owned(),
        ));
    }
    Ok(if asked.fail_on.is_some() && comparison.has_regressions() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn read(runs: &Runs) -> Result<Vec<Run>, Error> {
    runs.0.iter().map(|file| input::run(file)).collect()
}
