//! `tollgate predict` and `tollgate history`: a part that is computed from a run that was measured before, put out like a run.

use std::path::PathBuf;
use std::process::ExitCode;

use tollgate_experiment::predict::{self, memory};
use tollgate_experiment::run::{Experiment, Run, VERSION};
use tollgate_experiment::{history, run};

use crate::args::{History, Json, Manners, Predict, Sink};
use crate::error::Error;
use crate::{input, output};

/// `tollgate predict`.
pub(crate) fn predict(asked: &Predict, manners: &Manners) -> Result<ExitCode, Error> {
    let run = input::run(&asked.from)?;
    let options = predict::Options {
        line_rate: asked.line_rate.unwrap_or(predict::LINE_RATE),
        memory: asked
            .memory
            .or_else(|| is_this_machine(&run).then(memory::bandwidth)),
    };
    let part = predict::predict(&run, &options).map_err(|error| Error::Usage(error.to_string()))?;
    show(run, part, &asked.json, asked.out.as_ref(), manners)
}

/// `tollgate history`.
pub(crate) fn history(asked: &History, manners: &Manners) -> Result<ExitCode, Error> {
    let run = input::run(&asked.from)?;
    let part = history::history(&run);
    show(run, part, &asked.json, asked.out.as_ref(), manners)
}

/// Whether the run comes from a machine like this one, so that what is measured here belongs to it.
fn is_this_machine(run: &Run) -> bool {
    let here = run::Host::read();
    here.cpu_model.value().is_some()
        && (here.cpu_model, here.kernel, here.memory_bytes)
            == (
                run.host.cpu_model.clone(),
                run.host.kernel.clone(),
                run.host.memory_bytes.clone(),
            )
}

/// Puts out the run with this part in the place of what it measured.
fn show(
    source: Run,
    part: Experiment,
    json: &Json,
    html: Option<&PathBuf>,
    manners: &Manners,
) -> Result<ExitCode, Error> {
    let run = Run {
        version: VERSION,
        command: part.command.clone(),
        experiments: vec![part],
        ..source
    };
    run.check()?;
    if let Some(Sink::File(path)) = &json.to {
        tollgate_report::write_file(path, tollgate_report::json::render(&run)?)?;
    }
    if let Some(path) = html {
        tollgate_report::write_file(path, tollgate_report::html::render(&run))?;
    }
    match &json.to {
        Some(Sink::Stdout) => output::print(&tollgate_report::json::render(&run)?)?,
        Some(Sink::File(_)) | None => output::print(&tollgate_report::terminal::render(
            &run,
            output::width(),
            output::colour(manners.color),
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}
