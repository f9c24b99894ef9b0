//! `tollgate report`, `rr`, `crr`, `stream`, `ablate` and `experiment run`: runs experiments and puts out what they show. `tollgate estimate`
//! has its costs measured here.
//!
//! Output files are checked before anything is measured, and written when all is done. When JSON goes to standard output
//! nothing else does.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use tollgate_analysis::claim::{REFUSED, UNAVAILABLE};
use tollgate_analysis::papers::{self, Extent};
use tollgate_budget::valgrind::{Program, scenario_output};
use tollgate_experiment::conduct::conduct;
use tollgate_experiment::context::{Context, Options};
use tollgate_experiment::experiments::{self, Experiment, Uses};
use tollgate_experiment::noise::Noise;
use tollgate_gate::{Clock, Source};
use tollgate_qemu::counts::Counts;
use tollgate_report::terminal::{self, Detail, Rest};
use tollgate_run::{self as run, Host, Run, Schema, Tool, VERSION, format};
use tollgate_sampling::limit;
use tollgate_workload::remote::KernelRemote;
use tollgate_workload::stack_to::StackTo;
use tollgate_workload::{LinkKind, Mechanisms};

use crate::alone;
use crate::args::{
    self, Ablate, Estimate, GlobalArgs, Measuring, Report, RunExperiments, SCENARIO, Scenario,
    Workload,
};
use crate::error::{Error, INTERRUPTED};
use crate::interrupt;
use crate::output::{self, print, say};
use crate::progress::ProgressLine;
use crate::save::Store;
use crate::values::Sink;

/// The device whose offloads are described: that of `kernel-loopback`.
const LOOPBACK: &str = "lo";

/// Time that `--quick` allows for the measurements, so that all of it ends within 20 s.
const QUICK: Duration = Duration::from_secs(17);
/// Time that a full report allows for the measurements, so that all of it ends within 5 minutes.
const FULL: Duration = Duration::from_secs(270);

/// Time that `tollgate ablate` allows for the measurements by default, so that all of it ends within a minute.
const ABLATE: Duration = Duration::from_secs(50);

/// Time that `tollgate papers` measures for by default.
const PAPERS: Duration = Duration::from_secs(45);

/// Job of one command: what is measured, and what is printed and written.
struct Job<'a> {
    experiments: Vec<&'static dyn Experiment>,
    /// The experiments that were left out because of the options, each with the reason.
    refusals: Vec<String>,
    measuring: &'a Measuring,
    options: Options,
    html: Option<&'a PathBuf>,
    json: Option<PathBuf>,
    output: Output,
    linux_counts: Option<&'a PathBuf>,
    budget: Option<Duration>,
    /// No experiment is left out where the time is spent.
    needs_all: bool,
    papers: Papers,
}

/// Form in which a run is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// On one screen.
    Screen,
    /// Experiment by experiment.
    Experiments(Detail),
}

/// Part of the papers that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Papers {
    /// Nothing: each experiment shows its own.
    Separate,
    /// A page on all of them, at the end.
    Page,
    /// All of it, in the place of the experiments.
    Alone,
}

/// `tollgate report`.
pub(crate) fn report(report: &Report, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let options = report.set.add_to(report.measuring.options())?;
    let all = experiments::of_report(report.measuring.quick);
    let (experiments, refusals) = runnable(all, &options);
    let job = Job {
        needs_all: false,
        experiments,
        refusals,
        measuring: &report.measuring,
        options,
        html: Some(&report.out),
        json: match &report.measuring.json.to {
            None => Some(report.out.with_extension("json")),
            Some(_) => file_of(&report.measuring),
        },
        output: Output::Screen,
        linux_counts: report.counted.linux_counts.as_ref(),
        budget: Some(budget(&report.measuring).unwrap_or(FULL)),
        papers: Papers::Page,
    };
    job.run(global)
}

/// The experiments that have something to measure as asked, and why others are left out: those of our stack that do not run with the
/// mechanisms that were set. What runs nothing of our stack stays as it is.
fn runnable(
    all: impl Iterator<Item = &'static dyn Experiment>,
    options: &Options,
) -> (Vec<&'static dyn Experiment>, Vec<String>) {
    let (mut wanted, mut refusals) = (Vec::new(), Vec::new());
    let unset = Options {
        mechanisms: Mechanisms {
            nagle: options.mechanisms.nagle,
            ..Mechanisms::DEFAULT
        },
        ..options.clone()
    };
    for experiment in all.filter(|one| one.concerns(&unset)) {
        match experiments::why_not(experiment, options) {
            Some(reason) if experiment.mechanisms() != Uses::NoStack => refusals.push(format!(
                "{} is left out beside --set: it {reason}",
                experiment.name()
            )),
            _ => wanted.push(experiment),
        }
    }
    (wanted, refusals)
}

/// `tollgate rr`, `crr` or `stream`: the experiment of that workload, and with `--gates` that of its gates.
pub(crate) fn workload(
    experiment: &str,
    gates: &str,
    workload: &Workload,
    global: &GlobalArgs,
) -> Result<ExitCode, Error> {
    let options = workload.remote.add_to(workload.measuring.options())?;
    let options = workload.switches.add_to(options)?;
    if options.reverse && experiment != "stream-by-write-size" {
        return Err(Error::Usage(
            "--reverse turns a stream around; rr and crr go both ways, leave it out".to_owned(),
        ));
    }
    if options.datagrams && experiment != "rr-by-size" {
        return Err(Error::Usage(
            "--udp sends requests and responses as datagrams; crr and stream need connections, leave it out".to_owned(),
        ));
    }
    let mut wanted = vec![experiments::find(experiment)];
    if workload.gates {
        let gated = experiments::find(gates).filter(|one| one.concerns(&options));
        if gated.is_none() {
            return Err(Error::Usage(format!(
                "--gates looks at the kernel's own paths, and none runs as asked ({}); name kernel-loopback or kernel-veth, or leave \
                 --gates out",
                options.restrictions()
            )));
        }
        wanted.push(gated);
    }
    let job = Job {
        needs_all: false,
        refusals: Vec::new(),
        experiments: wanted.into_iter().flatten().collect(),
        measuring: &workload.measuring,
        options,
        html: workload.out.as_ref(),
        json: file_of(&workload.measuring),
        output: Output::Experiments(Detail::Brief),
        linux_counts: None,
        budget: budget(&workload.measuring),
        papers: Papers::Separate,
    };
    job.run(global)
}

/// `tollgate ablate`.
pub(crate) fn ablate(args: &Ablate, global: &GlobalArgs) -> Result<ExitCode, Error> {
    if let Some(name) = args.measuring.without_ablation().first() {
        return Err(Error::Usage(format!(
            "ablate makes no ledger and knows no line; leave {name} out"
        )));
    }
    let options = args.measuring.options();
    let name = match args.workload {
        Some(run::Workload::Stream) => "stream-ablation",
        _ => "ablation",
    };
    let wanted = experiments::find(name).filter(|one| one.concerns(&options));
    let Some(ablation) = wanted else {
        return Err(Error::Usage(format!(
            "ablate switches mechanisms of Tollgate's stack, each against its default, and nothing as asked runs that ({}); name \
             stack-memory or stack-shm, or leave --path, --cores, --wait and --nagle out",
            options.restrictions()
        )));
    };
    let job = Job {
        needs_all: false,
        refusals: Vec::new(),
        experiments: vec![ablation],
        measuring: &args.measuring,
        options,
        html: args.out.as_ref(),
        json: file_of(&args.measuring),
        output: Output::Experiments(Detail::Brief),
        linux_counts: None,
        budget: Some(budget(&args.measuring).unwrap_or(ABLATE)),
        papers: Papers::Separate,
    };
    job.run(global)
}

/// `tollgate experiment run`.
pub(crate) fn experiments(run: &RunExperiments, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let wanted = |one: &&'static dyn Experiment| run.names.contains(&one.name());
    let options = Options {
        rate: run.rate,
        categories: run.categories.as_deref().cloned(),
        replayed: run.capture.as_deref().cloned(),
        ..run
            .switches
            .add_to(run.remote.add_to(run.measuring.options())?)?
    };
    if options.replayed.is_some() && !run.names.contains(&"clark-tcb-cache") {
        return Err(Error::Usage(
            "--capture is for clark-tcb-cache, which is not among the experiments".to_owned(),
        ));
    }
    all_run_with_mechanisms(run, &options)?;
    if options.link != LinkKind::Ethernet {
        all_take(
            run,
            |one| one.takes_link(),
            "chooses the links between stacks by itself, or has none; --link is for",
        )?;
    }
    if options.mtu.is_some() {
        all_take(
            run,
            |one| one.takes_mtu(),
            "chooses the MTU of each path by itself; --mtu is for",
        )?;
    }
    if options.reverse {
        all_take(
            run,
            |one| one.takes_reverse(),
            "has a direction of its own; --reverse is for",
        )?;
    }
    if options.datagrams {
        all_take(
            run,
            |one| one.takes_datagrams(),
            "has a transport of its own; --udp is for",
        )?;
    }
    if let Some(idle) = experiments::all()
        .iter()
        .find(|one| wanted(one) && !one.concerns(&options))
    {
        return Err(Error::Usage(format!(
            "{} has nothing to measure as asked ({}); leave {}--path, --cores and --wait out",
            idle.name(),
            options.restrictions(),
            if options.to.is_some() { "--to, " } else { "" }
        )));
    }
    let job = Job {
        needs_all: false,
        refusals: Vec::new(),
        experiments: experiments::all().iter().copied().filter(wanted).collect(),
        measuring: &run.measuring,
        options,
        html: run.out.as_ref(),
        json: file_of(&run.measuring),
        output: Output::Experiments(Detail::Tables),
        linux_counts: run.counted.linux_counts.as_ref(),
        budget: budget(&run.measuring),
        papers: Papers::Separate,
    };
    job.run(global)
}

/// Refuses mechanisms where an experiment does not run with them, with those that do.
fn all_run_with_mechanisms(run: &RunExperiments, options: &Options) -> Result<(), Error> {
    let wanted = experiments::all()
        .iter()
        .filter(|one| run.names.contains(&one.name()));
    let mut refused =
        wanted.filter_map(|one| Some((one.name(), experiments::why_not(*one, options)?)));
    let Some((name, reason)) = refused.next() else {
        return Ok(());
    };
    let set: Vec<&str> = options.stack_mechanisms().map(|(name, _)| name).collect();
    Err(Error::Usage(format!(
        "{name} {reason}; --set {} is for {}",
        set.join(","),
        experiments::that_take(&set).join(", ")
    )))
}

/// Refuses an option where an experiment does not take it, with those that do.
fn all_take(
    run: &RunExperiments,
    takes: impl Fn(&dyn Experiment) -> bool,
    reason: &str,
) -> Result<(), Error> {
    let all = experiments::all();
    let Some(other) = all
        .iter()
        .find(|one| run.names.contains(&one.name()) && !takes(**one))
    else {
        return Ok(());
    };
    let known: Vec<&str> = all
        .iter()
        .filter(|one| takes(**one))
        .map(|one| one.name())
        .collect();
    Err(Error::Usage(format!(
        "{} {reason} {}",
        other.name(),
        known.join(", ")
    )))
}

/// `tollgate papers` without a run: measures what has counterparts in the papers, and no more.
pub(crate) fn papers(asked: &args::Papers, global: &GlobalArgs) -> Result<ExitCode, Error> {
    let measuring = Measuring::within(asked.within.unwrap_or(PAPERS), asked.json.clone());
    let names = papers::experiments();
    let options = asked.set.add_to(measuring.options())?;
    let of_papers = experiments::all().iter().copied();
    let of_papers = of_papers.filter(|one| names.contains(&one.name()));
    let (experiments, refusals) = runnable(of_papers, &options);
    let job = Job {
        needs_all: false,
        refusals,
        experiments,
        measuring: &measuring,
        options,
        html: asked.out.as_ref(),
        json: file_of(&measuring),
        output: Output::Experiments(Detail::Tables),
        linux_counts: None,
        budget: budget(&measuring),
        papers: Papers::Alone,
    };
    job.run(global)
}

/// Measures what `tollgate estimate` needs, where no run is given: the experiments by name, with these options. Without a run, the exit
/// code that tells why.
pub(crate) fn measured(
    names: &[&str],
    estimate: &Estimate,
    options: Options,
    global: &GlobalArgs,
) -> Result<(Option<Run>, ExitCode), Error> {
    let job = Job {
        needs_all: true,
        refusals: Vec::new(),
        experiments: names
            .iter()
            .filter_map(|name| experiments::find(name))
            .collect(),
        measuring: &estimate.measuring,
        options,
        html: estimate.out.as_ref(),
        json: file_of(&estimate.measuring),
        output: Output::Experiments(Detail::Whole),
        linux_counts: None,
        papers: Papers::Separate,
        budget: Some(budget(&estimate.measuring).unwrap_or(QUICK)),
    };
    let Outcome { run, store, code } = job.measure(global)?;
    if let (Some(run), Some(store)) = (&run, store) {
        store.save(run, global)?;
    }
    Ok((run, code))
}

/// One scenario of the instruction counts, in this process, which Callgrind watches.
pub(crate) fn scenario(scenario: &Scenario) -> Result<ExitCode, Error> {
    print(&scenario_output(
        &scenario.name,
        scenario.count,
        &scenario.sizes,
    )?)?;
    Ok(ExitCode::SUCCESS)
}

/// The file that JSON is to go to, where one is named.
fn file_of(measuring: &Measuring) -> Option<PathBuf> {
    match &measuring.json.to {
        Some(Sink::File(path)) => Some(path.clone()),
        Some(Sink::Stdout) | None => None,
    }
}

fn budget(measuring: &Measuring) -> Option<Duration> {
    if measuring.quick {
        Some(QUICK)
    } else {
        measuring.within
    }
}

/// Outcome of measuring, with its exit code.
struct Outcome {
    /// Nothing when everything failed, or the user stopped it before anything was measured.
    run: Option<Run>,
    /// The store that it is saved in.
    store: Option<Store>,
    code: ExitCode,
}

impl Job<'_> {
    fn run(&self, global: &GlobalArgs) -> Result<ExitCode, Error> {
        let Outcome { run, store, code } = self.measure(global)?;
        let Some(run) = run else {
            return Ok(code);
        };
        // A reader that goes away must not keep the files from being written.
        let printed = self.print(&run, global);
        if let Some(path) = &self.json {
            written(path, &tollgate_report::json::render(&run)?, global)?;
        }
        if let Some(path) = self.html {
            written(path, &tollgate_report::html::render(&run), global)?;
        }
        if let Some(store) = store {
            store.save(&run, global)?;
        }
        printed?;
        Ok(code)
    }

    fn measure(&self, global: &GlobalArgs) -> Result<Outcome, Error> {
        let file = self.json.as_ref();
        for path in self.html.into_iter().chain(file) {
            tollgate_report::check_writable(path)?;
        }
        if let (Some(html), Some(file)) = (self.html, file)
            && tollgate_report::is_same_file(html, file)
        {
            return Err(Error::Usage(format!(
                "--out and --json both name {}; give them different files",
                html.display()
            )));
        }
        let store = self.measuring.save.as_deref().map(Store::prepare);
        let store = store.transpose()?;
        let linux_counts = self
            .linux_counts
            .map(|path| Counts::load(path))
            .transpose()?;
        let to = self.options.to.as_ref();
        let way = self.options.way_to_a_service();
        let service = to.zip(way).map(|(to, way)| {
            StackTo::new(way, to).map(|service| service.with_mtu(self.options.mtu))
        });
        let service = service.transpose()?;
        let remote = to
            .filter(|_| service.is_none())
            .map(|host| KernelRemote::connect(host, &tool_words()))
            .transpose()?;
        let cancel = interrupt::prepare()?;
        let begun = Instant::now();
        let started = SystemTime::now();
        let alone = alone::claim();
        let sampling = limit::Limit::read();
        let noise = Noise::begin();
        let host = Host::read().with_network(
            LOOPBACK,
            tollgate_workload::kernel::features(LOOPBACK).map_err(|error| error.to_string()),
        );
        let clock = Clock::calibrate();
        let progress = ProgressLine::new(global);
        let budget = self.budget.map(|time| time.saturating_sub(begun.elapsed()));
        let mut context = Context::new(self.options.clone(), budget, cancel.clone(), &progress);
        context.counter = Program::this([SCENARIO]).ok();
        context.linux_counts = linux_counts;
        context.remote = remote;
        context.service = service;
        context.needs_all = self.needs_all;
        let conducted = conduct(&self.experiments, &mut context);
        progress.finish();

        let mut warnings = warnings(&clock);
        warnings.extend(self.refusals.iter().cloned());
        warnings.extend(alone.err());
        warnings.extend(left_changed(sampling.put_back()));
        warnings.extend(noise.end(host.cores.value().copied().unwrap_or(1)));
        if !conducted.stopped.is_empty() {
            warnings.push(format!(
                "the run was stopped by the user; left out or cut short: {}",
                conducted.stopped.join(", ")
            ));
        }
        for (name, error) in &conducted.failed {
            warnings.push(format!("{name} failed: {error}"));
            say(&format!("error: {error}"));
        }
        let mut failed = !conducted.failed.is_empty();
        if !conducted.left_out.is_empty() {
            warnings.push(format!(
                "no time was left for {}; --for with a longer time measures them",
                format::list(
                    &conducted
                        .left_out
                        .iter()
                        .map(|name| (*name).to_owned())
                        .collect::<Vec<_>>()
                )
            ));
        }
        // What is stopped by the user has its own exit code.
        if conducted.failed.is_empty()
            && !conducted.shown.is_empty()
            && !conducted.shown.iter().any(has_measured)
        {
            say("error: nothing could be measured; the reasons stand in the tables");
            failed = true;
        }
        let mut remote_end = None;
        if let Some(remote) = &context.remote {
            match remote_end_of(remote) {
                Ok(end) => remote_end = Some(end),
                Err(warning) => warnings.push(warning),
            }
            if let Some(error) = remote.lost() {
                if !failed {
                    say(&format!("error: {error}"));
                }
                warnings.push(error.to_string());
                failed = true;
            }
        }
        if conducted.shown.is_empty() {
            if conducted.failed.is_empty() && !global.quiet {
                say("stopped before anything was measured");
            }
            return Ok(Outcome {
                run: None,
                store,
                code: exit_code(cancel.is_raised(), true),
            });
        }
        let mut run = Run {
            schema: Schema::TollgateRun,
            version: VERSION,
            tool: tool(),
            started: started.into(),
            elapsed_s: begun.elapsed().as_secs_f64(),
            command: command_line(),
            quick: self.measuring.quick,
            host,
            remote: remote_end,
            clock: clock_of(&clock),
            controls: conducted.controls,
            experiments: conducted.shown,
            warnings,
        };
        match self.papers {
            Papers::Separate => {}
            Papers::Page => {
                let mut page = papers::beside(&run, Extent::Page);
                if let Some(file) = &self.json {
                    page.command = papers::command(&file.display().to_string());
                }
                run.experiments.push(page);
            }
            Papers::Alone => {
                let mut whole = papers::beside(&run, Extent::Whole);
                whole.command.clone_from(&run.command);
                run.experiments = vec![whole];
            }
        }
        run.check()?;
        Ok(Outcome {
            run: Some(run),
            store,
            code: exit_code(cancel.is_raised(), failed),
        })
    }

    fn print(&self, run: &Run, global: &GlobalArgs) -> Result<(), Error> {
        match self.measuring.json.to {
            Some(Sink::Stdout) => return print(&tollgate_report::json::render(run)?),
            Some(Sink::File(_)) if global.quiet => return Ok(()),
            Some(Sink::File(_)) | None => {}
        }
        let (width, colour) = (output::width(), output::colour(global.color));
        let shape = match self.output {
            _ if global.verbose > 0 => Output::Experiments(Detail::Whole),
            shape => shape,
        };
        let text = match shape {
            Output::Screen => {
                let [html, json] = [self.html, self.json.as_ref()]
                    .map(|path| path.map(|path| path.display().to_string()));
                let rest = Rest {
                    html: html.as_deref(),
                    json: json.as_deref(),
                };
                terminal::render_screen(run, &rest, width, colour)
            }
            Output::Experiments(detail) => terminal::render(run, detail, width, colour),
        };
        print(&text)
    }
}

/// Tells whether an experiment has a number that was measured.
fn has_measured(one: &run::Experiment) -> bool {
    if one.finding.starts_with(UNAVAILABLE) {
        return false;
    }
    let has = |table: &run::Table| {
        let mut cells = table.rows.iter().flat_map(|row| &row.cells);
        cells.any(|cell| cell.measured().is_some())
    };
    match one.tables.as_slice() {
        [] => !one.figures.is_empty(),
        // Nothing can be told, and what would tell it has no number.
        [first, ..] if one.finding.starts_with(REFUSED) => has(first),
        all => all.iter().any(has),
    }
}

fn written(path: &Path, contents: &str, global: &GlobalArgs) -> Result<(), Error> {
    tollgate_report::write_file(path, contents)?;
    if !global.quiet {
        say(&format!("wrote {}", path.display()));
    }
    Ok(())
}

fn exit_code(stopped: bool, failed: bool) -> ExitCode {
    match (stopped, failed) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    }
}

/// Change that this run leaves on the machine.
fn left_changed(limit: limit::Outcome) -> Option<String> {
    match limit {
        limit::Outcome::Unchanged => None,
        limit::Outcome::PutBack { found, lowered } => Some(format!(
            "while processors were sampled the kernel lowered kernel.perf_event_max_sample_rate from {found} to {lowered}, so samples \
             were fewer than asked for; it is {found} again"
        )),
        limit::Outcome::Lowered { found, lowered } => Some(format!(
            "while processors were sampled the kernel lowered kernel.perf_event_max_sample_rate from {found} to {lowered}, and it stays so; \
             as root: sysctl kernel.perf_event_max_sample_rate={found}"
        )),
    }
}

fn tool() -> Tool {
    Tool {
        name: "tollgate".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        git: option_env!("TOLLGATE_GIT").map(str::to_owned),
    }
}

/// The program and its version, for the server.
pub(crate) fn tool_words() -> String {
    let tool = tool();
    format!("{} {}", tool.name, tool.version)
}

/// The host at the other end, or why nothing can be told of it.
fn remote_end_of(remote: &KernelRemote) -> Result<run::RemoteEnd, String> {
    let address = remote.target().to_string();
    match serde_json::from_value(remote.host().clone()) {
        Ok(host) => Ok(run::RemoteEnd {
            address,
            server: remote.tool().to_owned(),
            host,
        }),
        Err(error) => Err(format!(
            "what {address} tells of its host is not understood: {error}; install the same version on both hosts"
        )),
    }
}

/// The command line as it could be typed again.
fn command_line() -> String {
    let given = std::env::args_os().skip(1);
    typed(given.map(|word| word.to_string_lossy().into_owned()))
}

/// Words as they could be typed again. A token is not for those who read the run.
fn typed(given: impl Iterator<Item = String>) -> String {
    const TOKEN: &str = "--token";
    let mut line = "tollgate".to_owned();
    let mut hidden = false;
    for word in given {
        let output = match word.split_once('=') {
            _ if hidden => "...".to_owned(),
            Some((TOKEN, _)) => format!("{TOKEN}=..."),
            _ => format::quoted(&word),
        };
        hidden = word == TOKEN && !hidden;
        line.push(' ');
        line.push_str(&output);
    }
    line
}

fn clock_of(clock: &Clock) -> run::Clock {
    let (source, hz) = match clock.source() {
        Source::Tsc { hz } => ("tsc", hz as f64),
        Source::MonotonicRaw { .. } => ("monotonic_raw", 1e9),
    };
    run::Clock {
        source: source.to_owned(),
        hz,
        read_cost_ns: clock.cost_ns().plain_ns,
        resolution_ns: clock.resolution_ns(),
    }
}

/// Warnings that are known before the run begins.
fn warnings(clock: &Clock) -> Vec<String> {
    let mut warnings = Vec::new();
    if cfg!(debug_assertions) {
        warnings.push(
            "this is a debug build: its own stack and smoltcp are many times slower than in a release build; use \
             cargo build --release"
                .to_owned(),
        );
    }
    if let Source::MonotonicRaw { reason } = clock.source() {
        warnings.push(format!(
            "times are read from CLOCK_MONOTONIC_RAW, which costs more: {reason}"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_leaves_out_what_does_not_run_with_the_mechanisms_that_are_set() {
        let names = |options: &Options| {
            let (wanted, refusals) = runnable(experiments::of_report(false), options);
            let names: Vec<&str> = wanted.iter().map(|one| one.name()).collect();
            (names, refusals)
        };
        let (all, none) = names(&Options::default());
        assert!(all.contains(&"ablation") && none.is_empty());
        let mut options = Options::default();
        options.mechanisms.set("demux", "list").unwrap();
        let (with_set, refusals) = names(&options);
        // The kernel's experiments stay, and those that take the setting.
        for name in [
            "rr-by-size",
            "wolman-receive",
            "lehmann-queues",
            "kay-breakdown",
        ] {
            assert!(with_set.contains(&name), "{name}");
        }
        assert!(!with_set.contains(&"ablation"));
        assert_eq!(with_set.len() + refusals.len(), all.len());
        let of_ablation = "ablation is left out beside --set: it switches each mechanism";
        let mut of = refusals.iter();
        assert!(
            of.any(|reason| reason.starts_with(of_ablation)),
            "{refusals:?}"
        );
    }

    #[test]
    fn a_token_is_not_in_the_run() {
        let line = |words: &[&str]| typed(words.iter().map(|word| (*word).to_owned()));
        let output = line(&["rr", "--token", "--token", "--to", "a b"]);
        assert_eq!(output, "tollgate rr --token ... --to 'a b'");
        assert_eq!(line(&["--token=secret"]), "tollgate --token=...");
    }
}
