//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::StringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueHint};
use tollgate_experiment::context::{Options, Replayed};
use tollgate_kernel::filter::Filter;
use tollgate_observe::{pace, summary};
use tollgate_run::{PathId, Placement, Waiting};
use tollgate_sampling::Categories;
use tollgate_workload::{CellFaults, LinkKind, Mechanisms, Nagle};

use crate::offered::{
    ablated_workloads, experiment_names, lists_of_sizes, numbers_of_cores, offering, paths,
    ways_of_waiting,
};
use crate::output;
use crate::values::{
    Colour, Json, Sizes, ablated, capture, categories, cores, duration, experiment, filter,
    line_rate, path, percent, short_duration, sizes, wait,
};
use crate::wrap::wrapped;

mod derived;
mod remote;
pub(crate) mod shared;
mod spans;
mod switches;

pub(crate) use derived::{Compare, Estimate, Papers, Predict, Runs};
pub(crate) use remote::{RemoteArgs, token};
pub(crate) use switches::{SetArgs, Switches};

/// Lines behind the help of the whole command, for a build with the kernel's gates and with traces and runs, or without.
fn after_help(has_gates: bool, has_tables: bool) -> String {
    let left_out = [
        (!has_gates).then_some(
            "Left out of this build: the kernel's gates, without which observe does nothing; `make report` builds them, target/release/tollgate.",
        ),
        (!has_tables).then_some("Left out of this build: trace and runs; `make traces` builds them."),
    ];
    let mut lines =
        vec!["Exit codes: 0 done, 1 the measurement failed, 2 bad usage, 130 stopped by Ctrl-C."];
    lines.extend(left_out.into_iter().flatten());
    lines.push("Start with `tollgate report --quick`.");
    lines.join("\n")
}

/// Shows where every nanosecond of TCP/IP goes: measures the Linux kernel, Tollgate's own stack and smoltcp side by side.
#[derive(Debug, Parser)]
#[command(
    name = "tollgate",
    version = env!("TOLLGATE_VERSION"),
    term_width = output::help_width(),
    after_help = after_help(cfg!(feature = "bpf"), cfg!(feature = "sql"))
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Heading of the options that every command takes.
const FOR_ALL: &str = "Options of every command";
/// Heading of the options of `observe` that choose traffic.
const TRAFFIC: &str = "Traffic";

/// Arguments that every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct GlobalArgs {
    /// Colours on standard output; NO_COLOR is heeded.
    #[arg(long, global = true, help_heading = FOR_ALL, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    pub(crate) color: Colour,
    /// No progress and no notes on standard error, only errors.
    #[arg(short, long, global = true, help_heading = FOR_ALL, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print all tables and remarks; say what runs, even without a terminal.
    #[arg(short, long, global = true, help_heading = FOR_ALL, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure this host: print one screen, write one page and the numbers behind it.
    Report(Report),
    /// Request-response on one connection, by the size of the message.
    Rr(Workload),
    /// Connect, request, response, close, by the size of the message.
    Crr(Workload),
    /// Bytes one way on one connection, by the size of a write.
    Stream(Workload),
    /// Each mechanism of Tollgate's stack switched, one at a time: its effect in time and in instructions.
    Ablate(Ablate),
    /// The experiments: list them, or run some.
    #[command(subcommand)]
    Experiment(ExperimentCommand),
    /// Be the other end for `--to` of another host, or serve files, echoes and more to any client, until Ctrl-C.
    Serve(Box<crate::serve::args::Serve>),
    /// Traffic that is already there: where its time goes, by samples (needs root).
    Observe(Observe),
    /// Captures of traffic: message sizes, flows, caches of connections, SQL.
    #[cfg(feature = "sql")]
    #[command(subcommand)]
    Trace(crate::trace::args::TraceCommand),
    /// Left out of this build.
    #[cfg(not(feature = "sql"))]
    #[command(hide = true)]
    Trace {
        /// Arguments that are not understood.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<std::ffi::OsString>,
    },
    /// Runs that --save keeps: list them, ask them in SQL, add and get files.
    #[cfg(feature = "sql")]
    #[command(subcommand)]
    Runs(crate::runs::args::RunsCommand),
    /// Left out of this build.
    #[cfg(not(feature = "sql"))]
    #[command(hide = true)]
    Runs {
        /// Arguments that are not understood.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<std::ffi::OsString>,
    },
    /// Print a saved run: its one screen, or any of its tables.
    Show(Show),
    /// Two runs, before and after: what became worse, what better, and in what the machines differ.
    Compare(Compare),
    /// Predict from a run: the cost of a message, a packet and a byte, and what follows for a line.
    Predict(Predict),
    /// The rows of the five papers beside those of a run.
    Papers(Papers),
    /// Estimate where the time goes on the traffic of a trace, and what would be saved there (measuring needs root).
    Estimate(Estimate),
    /// Check what can be measured here, and what would make it better.
    Doctor(Doctor),
    /// Print what completes commands and options in a shell; `make install` puts it where shells look.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one for each command, into a directory; `make install` puts them where man looks.
    Man {
        /// The directory; it must exist.
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        into: PathBuf,
    },
    /// Run one scenario, under Callgrind.
    #[command(name = SCENARIO, hide = true)]
    Scenario(Scenario),
}

/// The hidden command by which the program runs itself under Callgrind.
pub(crate) const SCENARIO: &str = "__scenario";

/// `__scenario`
#[derive(Debug, Args)]
pub(crate) struct Scenario {
    /// The scenario's name.
    pub(crate) name: String,
    /// Operations.
    pub(crate) count: u64,
    /// Bytes of a message, for the scenario that has several sizes.
    #[arg(value_delimiter = ',')]
    pub(crate) sizes: Vec<usize>,
}

/// The commands on experiments.
#[derive(Debug, Subcommand)]
pub(crate) enum ExperimentCommand {
    /// List the experiments.
    List(List),
    /// Run experiments by name.
    Run(Box<RunExperiments>),
}

/// `show`
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The run: a file that `report` or --json wrote, or STORE#ID of one that --save keeps.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) run: PathBuf,
    /// Experiments of it, each with all its tables, or single tables [default: the run on one screen].
    #[arg(value_name = "EXPERIMENT[/TABLE]", value_parser = offering(StringValueParser::new(), experiment_names))]
    pub(crate) parts: Vec<String>,
    /// Print all: every table, and all that bears on trust.
    #[arg(long)]
    pub(crate) full: bool,
    /// Write the figure of where a round trip goes as SVG, instead.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["parts", "full"])]
    pub(crate) svg: Option<PathBuf>,
}

/// `report`
#[derive(Debug, Args)]
pub(crate) struct Report {
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    /// The HTML file; the run goes beside it as JSON, unless --json names another place.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, default_value = "tollgate-report.html")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) set: SetArgs,
    #[command(flatten)]
    pub(crate) counted: Counted,
}

/// Counts that were made before, by other means.
#[derive(Debug, Clone, Args)]
pub(crate) struct Counted {
    /// Show these instructions of a Linux kernel in clark-instructions; `make qemu` counts them.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) linux_counts: Option<PathBuf>,
}

/// `rr`, `crr`, `stream`
#[derive(Debug, Args)]
pub(crate) struct Workload {
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    /// Then run it under all gates of the kernel, and say how many messages and segments they follow from end to end (needs root).
    #[arg(long, conflicts_with_all = ["host", "mtu", "reverse", "udp"])]
    pub(crate) gates: bool,
    #[command(flatten)]
    pub(crate) switches: Switches,
    /// Write an HTML file, too.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: Option<PathBuf>,
}

/// `ablate`
#[derive(Debug, Args)]
// It switches each mechanism by itself, this one, too, and has neither ledgers nor a line.
#[command(
    mut_arg("nagle", |nagle| nagle.hide(true)),
    mut_arg("gentle", |gentle| gentle.hide(true)),
    mut_arg("line_rate", |rate| rate.hide(true)),
    mut_arg("paths", |paths| paths.help("Only these paths of Tollgate's stack, in this order [default: stack-memory]")),
    mut_arg("iterations", |most| most.help("Iterations of a round at most [default: 20000]")),
    mut_arg("repetitions", |most| {
        most.help("Rounds of each change at most, each with sessions of its own [default: as many as find time]")
    }),
    mut_arg("within", |time| {
        time.help("End within about this time, with fewer rounds where time is short: 1min, 10min [default: 50s]")
    }),
)]
pub(crate) struct Ablate {
    /// Under round trips, or under a stream [default: rr].
    #[arg(long, value_name = "rr|stream", value_parser = offering(ablated, ablated_workloads))]
    pub(crate) workload: Option<tollgate_run::Workload>,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    /// Write an HTML file, too.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: Option<PathBuf>,
}

/// `experiment list`
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `experiment run`
#[derive(Debug, Args)]
pub(crate) struct RunExperiments {
    /// The experiments; `tollgate experiment list` names them.
    #[arg(required = true, value_name = "NAME", value_parser = offering(experiment, experiment_names))]
    pub(crate) names: Vec<&'static str>,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
    #[command(flatten)]
    pub(crate) switches: Switches,
    /// Samples per second and processor, where processor time is sampled [default: 20000].
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(100..=49_000))]
    pub(crate) rate: Option<u32>,
    /// Give sampled processor time to the categories of this file.
    #[arg(long, value_name = "FILE", value_parser = categories, value_hint = ValueHint::FilePath)]
    pub(crate) categories: Option<Box<Categories>>,
    /// Tell the hosts' one-entry caches of this capture, pcap or pcapng, in clark-tcb-cache (needs `make traces`).
    #[arg(long, value_name = "FILE", value_parser = capture, value_hint = ValueHint::FilePath)]
    pub(crate) capture: Option<Box<Replayed>>,
    #[command(flatten)]
    pub(crate) counted: Counted,
    /// Write an HTML file, too.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: Option<PathBuf>,
}

/// `observe`
#[derive(Debug, Args)]
#[command(after_long_help = spans::help(output::help_width()))]
pub(crate) struct Observe {
    /// Only connections with one of these ports at either end.
    #[arg(long = "port", help_heading = TRAFFIC, value_name = "PORT,..", value_delimiter = ',')]
    pub(crate) ports: Vec<u16>,
    /// Only data that these processes send or receive.
    #[arg(long = "pid", help_heading = TRAFFIC, value_name = "PID,..", value_delimiter = ',')]
    pub(crate) pids: Vec<u32>,
    /// Only sockets made in this control group (cgroup2) or below it; its path, with or without the mount point.
    #[arg(long, help_heading = TRAFFIC, value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub(crate) cgroup: Option<PathBuf>,
    /// Only packets that leave or arrive by this interface.
    #[arg(long, help_heading = TRAFFIC, value_name = "NAME")]
    pub(crate) iface: Option<String>,
    /// Only packets that pass this filter, in the syntax of pcap-filter: host, net, port, portrange, src, dst, tcp, udp, ip, ip6, and, or,
    /// not.
    #[arg(long, help_heading = TRAFFIC, value_name = "FILTER", value_parser = filter)]
    pub(crate) filter: Option<Filter>,
    /// End after this time [default: at Ctrl-C].
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(crate) within: Option<Duration>,
    /// List passages that take at least this long, span by span: 1ms, 0.5ms.
    #[arg(long, value_name = "TIME", value_parser = short_duration)]
    pub(crate) slower_than: Option<Duration>,
    /// Sample 1 in N packets [default: by the traffic].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(pace::MOST)))]
    pub(crate) sample: Option<u32>,
    /// Limit of the cost, in percent of the busiest processor; the gates are on for a part of the time (duty cycle) to keep it.
    #[arg(long, value_name = "PERCENT", default_value_t = pace::BUDGET * 100.0, value_parser = percent)]
    pub(crate) overhead: f64,
    /// Leave the gates on all the time, but for some tens of milliseconds each 5 s in which they are calibrated. A service that is busy all
    /// the time loses 14 to 36 % of its throughput. Its queues grow by a time that cannot be subtracted from the rows.
    #[arg(long, conflicts_with = "overhead")]
    pub(crate) no_duty_cycle: bool,
    /// Number of pairs of processes, and in the JSON of sockets, that are listed.
    #[arg(long, value_name = "N", default_value_t = summary::SOCKETS)]
    pub(crate) top: usize,
    /// Write a JSON object for each interval on a line of its own, instead of the tables.
    #[arg(long, conflicts_with = "to")]
    pub(crate) json_stream: bool,
    /// Length of an interval of --json-stream.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s", requires = "json_stream")]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `doctor`
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Put known delays and known costs into this machine's gates, and show what the ledger makes of them: two minutes, as root.
    #[arg(long)]
    pub(crate) self_test: bool,
    /// Only the longest delays, over loopback and in our stack: within 20 seconds.
    #[arg(long, requires = "self_test")]
    pub(crate) quick: bool,
    /// Only this interface, and what stack-packet and stack-xdp have on it: each is opened and closed again (needs root). Some adapters
    /// begin anew for that, and are down for a moment.
    #[arg(long, value_name = "INTERFACE", conflicts_with = "self_test")]
    pub(crate) on: Option<String>,
    /// Only the links, as they are in this user namespace; the doctor itself asks for it.
    #[arg(long, hide = true, conflicts_with_all = ["self_test", "on"])]
    pub(crate) links_here: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// Choice of what is measured, and how much of it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Measuring {
    /// Only these paths, in this order.
    #[arg(long = "path", value_name = "PATH,..", value_delimiter = ',', value_parser = offering(path, paths))]
    paths: Option<Vec<PathId>>,
    /// Bytes per message or write; kay, lehmann and wolman stand for all sizes of that paper.
    #[arg(long = "size", value_name = "BYTES,..", value_delimiter = ',', value_parser = offering(sizes, lists_of_sizes))]
    sizes: Option<Vec<Sizes>>,
    /// Only with both ends on one core, or each on its own.
    #[arg(long, value_name = "1|2", value_parser = offering(cores, numbers_of_cores))]
    cores: Option<Placement>,
    /// Only with ends that sleep until they are woken, or that poll.
    #[arg(long, value_name = "block|poll", value_parser = offering(wait, ways_of_waiting))]
    wait: Option<Waiting>,
    /// Iterations of a repetition [default: 20000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    iterations: Option<u64>,
    /// Repetitions, each with sessions of its own [default: 6].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repetitions: Option<u32>,
    /// Bits per second of the line that packets are to keep up with: 1G, 10G, 2.5G [default: 10G].
    #[arg(long, value_name = "RATE", value_parser = line_rate)]
    line_rate: Option<u64>,
    /// Turn Nagle's algorithm on, on every path [default: off]. Responses of several packets are sent without it.
    #[arg(long)]
    nagle: bool,
    /// Two gates at a time in ledgers, not 3 to 5. They disturb a round trip less, and intervals of spans are wider in the same time.
    #[arg(long)]
    gentle: bool,
    /// End within 20 seconds, with fewer iterations where time is short.
    #[arg(long)]
    pub(crate) quick: bool,
    /// End within about this time, with fewer iterations where time is short, and without the experiments that find none: 10s, 2min.
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "quick")]
    pub(crate) within: Option<Duration>,
    /// Save the run in a store, too: a folder, or s3://BUCKET/PREFIX; `tollgate runs` reads it (needs `make traces`).
    #[arg(long, value_name = "STORE", value_hint = ValueHint::DirPath)]
    pub(crate) save: Option<String>,
    #[command(flatten)]
    pub(crate) json: Json,
}

impl Measuring {
    /// The options that are given and that `ablate` has no use for, as they are typed.
    pub(crate) fn without_ablation(&self) -> Vec<&'static str> {
        let given = [
            (self.gentle, "--gentle"),
            (self.line_rate.is_some(), "--line-rate"),
        ];
        given
            .into_iter()
            .filter_map(|(is_given, name)| is_given.then_some(name))
            .collect()
    }

    /// All that can be measured, within about this time.
    pub(crate) fn within(time: Duration, json: Json) -> Self {
        Self {
            paths: None,
            sizes: None,
            cores: None,
            wait: None,
            iterations: None,
            repetitions: None,
            line_rate: None,
            nagle: false,
            gentle: false,
            quick: false,
            within: Some(time),
            save: None,
            json,
        }
    }

    /// Options of an experiment.
    pub(crate) fn options(&self) -> Options {
        let sizes = self.sizes.clone().map(|given| {
            let mut sizes: Vec<usize> = given.into_iter().flat_map(|one| one.0).collect();
            sizes.sort_unstable();
            sizes.dedup();
            sizes
        });
        let paths = self.paths.clone().map(|given| {
            let mut paths: Vec<PathId> = Vec::new();
            for path in given {
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
            paths
        });
        Options {
            paths,
            sizes,
            placement: self.cores,
            waiting: self.wait,
            iterations: self.iterations,
            repetitions: self.repetitions,
            rate: None,
            categories: None,
            to: None,
            shared: None,
            line_rate: self.line_rate,
            mechanisms: Mechanisms {
                nagle: if self.nagle { Nagle::On } else { Nagle::Off },
                ..Mechanisms::DEFAULT
            },
            link: LinkKind::Ethernet,
            cells: CellFaults::NONE,
            mtu: None,
            replayed: None,
            gentle: self.gentle,
            reverse: false,
            datagrams: false,
        }
    }
}

/// Reason why parsing ended the program: help was asked for, or the usage is wrong.
pub(crate) struct Stop(clap::Error);

/// The commands, with the page on spans in so many columns.
pub(crate) fn command(columns: usize) -> clap::Command {
    Cli::command().mut_subcommand("observe", |observe| {
        observe.after_long_help(spans::help(columns))
    })
}

/// Parses the command line.
pub(crate) fn parse() -> Result<Cli, Stop> {
    Cli::try_parse().map_err(Stop)
}

impl Stop {
    /// The option whose value was refused, with what sets it off from the reason; empty for an operand.
    fn option(&self) -> String {
        match self.0.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(shown)) if shown.starts_with('-') => {
                let name = shown.split([' ', '=', '[']).next().unwrap_or_default();
                format!("{name}: ")
            }
            _ => String::new(),
        }
    }

    /// The help, wrapped to so many columns.
    fn help(&self, columns: usize) -> String {
        let help = self.0.render();
        match output::colour(Colour::Auto) {
            true => wrapped(&help.ansi().to_string(), columns),
            false => wrapped(&help.to_string(), columns),
        }
    }

    /// Prints what is to be said, a value that was refused in one line.
    pub(crate) fn print(&self) -> ExitCode {
        let refused = match self.0.kind() {
            ErrorKind::ValueValidation => std::error::Error::source(&self.0),
            _ => None,
        };
        match refused {
            Some(reason) => output::say(&format!("error: {}{reason}", self.option())),
            // When nobody can read it, nobody misses it.
            None if self.0.use_stderr() => drop(self.0.print()),
            None => drop(output::print(&self.help(output::help_width()))),
        }
        match self.0.exit_code() {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::from(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{Sink, listen, size};

    fn parsed(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    fn measuring(line: &str) -> Measuring {
        match parsed(line).unwrap().command {
            Command::Rr(workload) => workload.measuring,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_names_what_was_left_out_and_what_builds_it() {
        let lines = |gates, tables| {
            let text = after_help(gates, tables);
            let lines = text.lines().filter(|line| line.starts_with("Left out"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(lines(true, true).is_empty());
        let [gates] = lines(false, true).try_into().unwrap();
        assert!(gates.contains("the kernel's gates") && gates.contains("`make report`"));
        let [tables] = lines(true, false).try_into().unwrap();
        assert!(tables.contains("trace and runs") && tables.contains("`make traces`"));
        assert_eq!(lines(false, false), [gates, tables]);
        let shown = Cli::command().get_after_help().unwrap().to_string();
        assert_eq!(
            shown.contains("gates"),
            cfg!(not(feature = "bpf")),
            "{shown}"
        );
        assert_eq!(
            shown.contains("trace"),
            cfg!(not(feature = "sql")),
            "{shown}"
        );
    }

    /// A command and those below it.
    fn with_commands_below(command: clap::Command) -> Vec<clap::Command> {
        let below: Vec<_> = command.get_subcommands().cloned().collect();
        let below = below.into_iter().flat_map(with_commands_below);
        std::iter::once(command.clone()).chain(below).collect()
    }

    #[test]
    fn help_fits_the_columns() {
        for columns in [60, 80, 100] {
            let mut cli = Cli::command().term_width(columns);
            cli.build();
            let commands = with_commands_below(cli);
            assert!(commands.len() > 20);
            for mut command in commands {
                for help in [command.render_help(), command.render_long_help()] {
                    let help = wrapped(&help.to_string(), columns);
                    // A word may be longer than what is left beside the names of options.
                    let is_long =
                        |line: &&str| line.chars().count() > columns && line.trim().contains(' ');
                    let long: Vec<&str> = help.lines().filter(is_long).collect();
                    assert!(
                        long.is_empty(),
                        "{columns} {}: {long:#?}",
                        command.get_name()
                    );
                }
            }
        }
    }

    #[test]
    fn lists_are_read_and_put_in_order() {
        let options = measuring(
            "tollgate rr --path stack-memory,peer-smoltcp,stack-memory --size 200,4,200 --cores 1 --wait poll",
        )
        .options();
        assert_eq!(
            options.paths.unwrap(),
            [PathId::StackMemory, PathId::PeerSmoltcp]
        );
        assert_eq!(options.sizes.unwrap(), [4, 200]);
        assert_eq!(options.placement, Some(Placement::OneCore));
        assert_eq!(options.waiting, Some(Waiting::BusyPoll));
    }

    #[test]
    fn json_goes_to_standard_output_unless_a_file_is_named() {
        assert_eq!(measuring("tollgate rr").json.to, None);
        assert_eq!(measuring("tollgate rr --json").json.to, Some(Sink::Stdout));
        assert_eq!(
            measuring("tollgate rr --json -").json.to,
            Some(Sink::Stdout)
        );
        assert_eq!(
            measuring("tollgate rr --json --quick").json.to,
            Some(Sink::Stdout)
        );
        assert_eq!(
            measuring("tollgate rr --json run.json").json.to,
            Some(Sink::File("run.json".into()))
        );
    }

    #[test]
    fn json_does_not_swallow_an_experiment() {
        let error = parsed("tollgate experiment run --json crr rr-by-size").unwrap_err();
        assert!(error.to_string().contains("put --json last"), "{error}");
    }

    #[test]
    fn times_are_read() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("1.5min"), Ok(Duration::from_secs(90)));
        for wrong in ["", "s", "-1s", "10h", "0s", "1e9s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_server_listens_where_it_is_told() {
        assert_eq!(listen("0.0.0.0").unwrap().to_string(), "0.0.0.0:8655");
        assert_eq!(listen("192.0.2.1:0").unwrap().port(), 0);
        assert_eq!(listen("::1").unwrap().to_string(), "[::1]:8655");
        assert_eq!(listen("[::]:7").unwrap().to_string(), "[::]:7");
        for wrong in ["", "box", "[::1]", "1.2.3.4:x", "1.2.3"] {
            assert!(listen(wrong).unwrap_err().contains("ADDR:PORT"), "{wrong}");
        }
    }

    #[test]
    fn line_rates_are_read() {
        assert_eq!(line_rate("10G"), Ok(10_000_000_000));
        assert_eq!(line_rate("2.5G"), Ok(2_500_000_000));
        assert_eq!(line_rate("1000000"), Ok(1_000_000));
        for wrong in ["", "G", "-1G", "1", "10X", "1e99"] {
            assert!(line_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_of_papers_are_sizes() {
        let options = measuring("tollgate rr --size kay,4").options();
        let sizes = options.sizes.unwrap();
        assert_eq!(
            (sizes.len(), sizes[0], sizes[1], sizes[40]),
            (41, 1, 4, 8_192)
        );
        let error = sizes_of("clark");
        assert!(error.contains("kay (the 40 of"), "{error}");
        assert_eq!(crate::values::sizes("4k"), Ok(Sizes(vec![4_096])));
    }

    fn sizes_of(given: &str) -> String {
        sizes(given).unwrap_err()
    }

    #[test]
    fn sizes_have_bounds() {
        assert_eq!(size("1"), Ok(1));
        assert_eq!(size("4k"), Ok(4_096));
        assert_eq!(size("64K"), Ok(65_536));
        assert_eq!(size("1M"), Ok(1_048_576));
        for wrong in [
            "0",
            "-4",
            "k",
            "4kB",
            "1025k",
            "2M",
            "99999999999999M",
            "1048577",
        ] {
            assert!(size(wrong).unwrap_err().contains("1 to 1048576"), "{wrong}");
        }
    }
}
