//! `tollgate trace`: captures of traffic. Arguments, progress and exit codes; what is done with captures is in the crates
//! below.

pub(crate) mod args;
mod capture;
mod show;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use tollgate_report::terminal::render_tables;
use tollgate_run::format::counted;
use tollgate_table::answer::Answer;
use tollgate_table::cluster::{self, QueryEvent, Watch};
use tollgate_table::import::{self, Options};
use tollgate_table::prefix::Prefix;
use tollgate_table::session::{Origin, Session};
use tollgate_table::store::Writable;
use tollgate_table::{flows, sizes, tcb};
use tollgate_trace::anonymise::KEY_LEN;
use tollgate_trace::flows::Limits;

use crate::args::GlobalArgs;
use crate::error::{Error, INTERRUPTED};
use crate::progress::ProgressLine as Progress;
use crate::values::Json;
use crate::{answered, interrupt, output, results};
use args::{
    Cache, EngineArgs, Flows, Import, ImportArgs, Info, Sizes, Sql, TraceArg, TraceCommand,
};
use show::TraceTables;

/// Runs a command on traces.
pub(crate) fn run(command: &TraceCommand, global: &GlobalArgs) -> Result<ExitCode, Error> {
    match command {
        TraceCommand::Import(import) => run_import(import, global),
        TraceCommand::Capture(args) => capture::run(args, global),
        TraceCommand::Info(info) => run_info(info, global),
        TraceCommand::Sizes(sizes) => heeded(run_sizes(sizes, global)),
        TraceCommand::Flows(flows) => heeded(run_flows(flows, global)),
        TraceCommand::Cache(cache) => run_cache(cache, global),
        TraceCommand::Sql(sql) => heeded(run_sql(sql, global)),
    }
}

/// The exit code of a query that Ctrl-C ended; all else stays as it is.
fn heeded(outcome: Result<ExitCode, Error>) -> Result<ExitCode, Error> {
    match outcome {
        Err(Error::Trace(error @ tollgate_table::Error::Interrupted(_))) => {
            output::say(&error.to_string());
            Ok(ExitCode::from(INTERRUPTED))
        }
        other => other,
    }
}

fn run_import(import: &Import, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let options = options(&import.how)?;
    let cancel = interrupt::prepare()?;
    let mut trace = Writable::open(&import.into)?;
    let mut outcomes = Vec::new();
    let mut failed = None;
    for path in &import.files {
        let mut told = 0;
        let mut goes_on = |packets: u64| {
            // Every ten million packets, a few seconds.
            if global.verbose > 0 && packets / 10_000_000 > told {
                told = packets / 10_000_000;
                output::say(&format!(
                    "{}: {} so far",
                    path.display(),
                    counted(packets, "packet", "packets")
                ));
            }
            !cancel.is_raised()
        };
        let outcome = if path == Path::new("-") {
            import::stream(io::stdin().lock(), "-", &options, &mut trace, &mut goes_on)
        } else {
            import::file(path, &options, &mut trace, &mut goes_on)
        };
        match outcome {
            Ok(outcome) => outcomes.push((path.display().to_string(), outcome)),
            // What was imported before is told, and kept.
            Err(error) => {
                let stopped = cancel.is_raised();
                if stopped {
                    output::say(&error.to_string());
                } else if import.files.len() > 1 {
                    output::say(&format!("error: {error}"));
                }
                failed = Some(error);
                if stopped {
                    break;
                }
            }
        }
    }
    let imported = outcomes.into_iter();
    let imported: Vec<show::Imported> = imported
        .map(|(name, outcome)| show::Imported::of(name, outcome))
        .collect();
    let loss = show::loss(&imported);
    if !imported.is_empty() || failed.is_none() {
        let shown = show::import(&imported, &import.into);
        give(&imported, &import.json, global, |_| shown)?;
        // The tables say it, too.
        if let Some(loss) = &loss
            && !results::has_tables(&import.json, global)
        {
            output::say(loss);
        }
    }
    match failed {
        None if loss.is_some() && !import.lenient => Ok(ExitCode::FAILURE),
        None => Ok(ExitCode::SUCCESS),
        Some(_) if cancel.is_raised() => Ok(ExitCode::from(INTERRUPTED)),
        // It has been told among the others.
        Some(_) if import.files.len() > 1 => Ok(ExitCode::FAILURE),
        Some(error) => Err(error.into()),
    }
}

fn options(how: &ImportArgs) -> Result<Options, Error> {
    Ok(Options {
        limits: Limits {
            pause_ns: how.write_gap.as_nanos() as i64,
            ..Limits::default()
        },
        key: key(how)?,
    })
}

/// The key that is in the file, or one that nobody will know.
fn key(how: &ImportArgs) -> Result<Option<[u8; KEY_LEN]>, Error> {
    let path = match &how.key {
        Some(path) => path.as_path(),
        None if how.anonymise => Path::new("/dev/urandom"),
        None => return Ok(None),
    };
    let mut key = [0; KEY_LEN];
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut key))
        .map_err(|error| Error::Key {
            path: path.display().to_string(),
            reason: match error.kind() {
                io::ErrorKind::UnexpectedEof => "it is shorter".to_owned(),
                _ => error.to_string(),
            },
        })?;
    Ok(Some(key))
}

fn run_info(info: &Info, global: &GlobalArgs) -> Result<ExitCode, Error> {
    match Origin::named(&info.which.name)? {
        Origin::Stored(trace) => give(trace.sources(), &info.json, global, |sources| {
            show::info(sources, trace.location())
        })?,
        Origin::Rebuilt(rebuilt) => give(
            &show::RebuiltInfo::of(rebuilt),
            &info.json,
            global,
            show::rebuilt,
        )?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_sizes(args: &Sizes, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let session = open(&args.which, &args.engine, global)?;
    let local: Vec<Prefix> = args.local();
    // The usual prefixes say nothing of replaced addresses.
    let known = args.lan.is_some() || !session.origin().is_anonymised();
    let sizes = sizes::of(&session, known.then_some(local.as_slice()))?;
    give(&sizes, &args.json, global, |sizes| {
        show::sizes(sizes, session.origin(), args.bins)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn run_flows(args: &Flows, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let session = open(&args.which, &args.engine, global)?;
    let flows = flows::of(&session)?;
    give(&flows, &args.json, global, |flows| {
        show::flows(flows, session.origin())
    })?;
    Ok(ExitCode::SUCCESS)
}

fn run_cache(args: &Cache, global: &GlobalArgs) -> Result<ExitCode, Error> {
    if args.engine.is_some() {
        return Err(Error::Usage(
            "`trace cache` runs on no cluster: it reads packets one after the other, in their order; leave --engine out".to_owned(),
        ));
    }
    let session = Session::open(Origin::named(&args.which.name)?)?;
    let caches = tcb::of(&session, args.top)?;
    give(&caches, &args.json, global, |caches| {
        show::caches(caches, session.origin())
    })?;
    Ok(ExitCode::SUCCESS)
}

fn run_sql(args: &Sql, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let session = open(&args.which, &args.engine, global)?;
    let rows = session.query(&args.query)?;
    let answer = Answer::of(&rows.0, &rows.1)?;
    answered::show(&answer, &args.json, global)?;
    Ok(ExitCode::SUCCESS)
}

/// Opens a trace where queries are to run. Ctrl-C ends those on a cluster there as well.
fn open(which: &TraceArg, engine_args: &EngineArgs, global: &GlobalArgs) -> Result<Session, Error> {
    let origin = Origin::named(&which.name)?;
    let Some(engine) = &engine_args.engine else {
        return Ok(Session::open(origin)?);
    };
    let progress = Progress::new(global);
    let quiet = global.quiet;
    let watch = Watch {
        limit: engine_args.cluster_timeout.unwrap_or(cluster::LIMIT),
        cancel: interrupt::prepare()?,
        on_event: Box::new(move |event| match event {
            QueryEvent::Progress(now) => progress.tell(&now.stages(), &now.tasks(), now.share()),
            QueryEvent::Resubmitted(why) if !quiet => progress.say(why),
            QueryEvent::Resubmitted(_) => {}
            QueryEvent::Ended => progress.finish(),
        }),
    };
    Ok(Session::watched(engine, origin, watch)?)
}

/// Writes what was found as JSON, or shows it.
fn give<T: Serialize + ?Sized>(
    found: &T,
    json: &Json,
    global: &GlobalArgs,
    show: impl FnOnce(&T) -> TraceTables,
) -> Result<(), Error> {
    results::put(
        json,
        global,
        || Ok(serde_json::to_string_pretty(found)? + "\n"),
        || {
            let shown = show(found);
            render_tables(
                &shown.finding,
                &shown.tables,
                &shown.trust,
                output::width(),
                output::colour(global.color),
            )
        },
    )
}
