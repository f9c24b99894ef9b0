//! `tollgate predict` and `tollgate papers`: a part that is computed from a run that was measured before, put out like a run.
//! With --validate, predictions are held against what is measured now.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tollgate_analysis::papers::{self, Extent};
use tollgate_analysis::scaling;
use tollgate_experiment::context::{Cancel, Context, Options};
use tollgate_experiment::noise::Noise;
use tollgate_experiment::predict::{self, Validation, memory};
use tollgate_report::terminal::Detail;
use tollgate_run::{self as run, Experiment, Run, VERSION};

use crate::args::{GlobalArgs, Papers, Predict};
use crate::error::{Error, INTERRUPTED};
use crate::progress::ProgressLine;
use crate::values::Json;
use crate::{alone, input, interrupt, measure, output, results};

/// Time that --validate takes by default.
const VALIDATION: Duration = Duration::from_secs(60);

/// Warning of a validation that was cut short.
const STOPPED: &str =
    "the validation was stopped by the user; what is shown of it was measured until then";

/// `tollgate predict`.
pub(crate) fn predict(asked: &Predict, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let mut run = input::run(&asked.from)?;
    let options = predict::Options {
        from: asked.from.display().to_string(),
        sizes: asked.sizes.clone(),
        line_rate: asked.line_rate.unwrap_or(predict::LINE_RATE),
        memory: asked
            .memory
            .or_else(|| is_this_machine(&run).then(memory::bandwidth)),
    };
    let part = |run: &Run, validation: Option<&Validation>| {
        predict::predict(run, &options, validation).map_err(|error| Error::Usage(error.to_string()))
    };
    let mut predicted = part(&run, None)?;
    let mut stopped = false;
    if asked.validate {
        results::check_writable(&asked.json)?;
        let cancel = interrupt::prepare()?;
        let validation = validate(&mut run, asked, &cancel, global)?;
        stopped = cancel.is_raised();
        if stopped {
            run.warnings.push(STOPPED.to_owned());
        }
        predicted = part(&run, Some(&validation))?;
    }
    let shown = show(run, predicted, &asked.json, asked.out.as_ref(), global)?;
    Ok(if stopped {
        ExitCode::from(INTERRUPTED)
    } else {
        shown
    })
}

/// Measures what the run does not hold; what disturbed that is added to the run's warnings.
fn validate(
    run: &mut Run,
    args: &Predict,
    cancel: &Cancel,
    global: &GlobalArgs,
) -> Result<Validation, Error> {
    if !is_this_machine(run) {
        return Err(Error::Usage(format!(
            "held-out sizes were to be measured for {}, which another machine made, or another kernel; validate it there",
            args.from.display()
        )));
    }
    let alone = alone::claim();
    let noise = Noise::begin();
    let progress = ProgressLine::new(global);
    let budget = Some(args.within.unwrap_or(VALIDATION));
    let mut context = Context::new(Options::default(), budget, cancel.clone(), &progress);
    let measured = predict::validate(run, &mut context);
    progress.finish();
    let cores = run.host.cores.value().copied().unwrap_or(1);
    let disturbed = alone.err().into_iter().chain(noise.end(cores));
    run.warnings
        .extend(disturbed.map(|warning| format!("while held-out sizes were measured: {warning}")));
    Ok(measured?)
}

/// `tollgate papers`.
pub(crate) fn papers(asked: &Papers, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let Some(from) = &asked.from else {
        return measure::papers(asked, global);
    };
    let files: Vec<String> = from
        .0
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let (run, mut part) = match from.0.as_slice() {
        [one] => {
            let run = input::run(one)?;
            let part = papers::beside(&run, Extent::Whole);
            (run, part)
        }
        [first, second] => {
            let (first, second) = (input::run(first)?, input::run(second)?);
            let part = scaling::scaling(&first, &second)
                .map_err(|error| Error::Usage(error.to_string()))?;
            (first, part)
        }
        more => {
            return Err(Error::Usage(format!(
                "--from takes one run, or two of different frequencies; {} were given",
                more.len()
            )));
        }
    };
    part.command = papers::command(&files.join(","));
    show(run, part, &asked.json, asked.out.as_ref(), global)
}

/// Tells whether the run comes from a machine like this one, so that what is measured here belongs to it.
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
pub(crate) fn show(
    source: Run,
    part: Experiment,
    json: &Json,
    html: Option<&PathBuf>,
    global: &GlobalArgs,
) -> Result<ExitCode, Error> {
    let run = Run {
        version: VERSION,
        command: part.command.clone(),
        experiments: vec![part],
        ..source
    };
    run.check()?;
    if let Some(path) = html {
        tollgate_report::write_file(path, tollgate_report::html::render(&run))?;
    }
    results::put(
        json,
        global,
        || Ok(tollgate_report::json::render(&run)?),
        || {
            tollgate_report::terminal::render(
                &run,
                Detail::Whole,
                output::width(),
                output::colour(global.color),
            )
        },
    )?;
    Ok(ExitCode::SUCCESS)
}
