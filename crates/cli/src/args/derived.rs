//! The arguments of commands that make something of runs: compare them, predict from them, weight them, set them beside the papers.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::StringValueParser;
use clap::{Args, ValueHint};
use tollgate_trace::traffic::Messages;

use super::{Measuring, SetArgs};
use crate::nearest::unknown;
use crate::offered::{experiment_names, kinds_of_messages, offering};
use crate::values::{Json, amount, duration, line_rate, size};

/// `compare`
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 no regression, or --fail-on not given; 1 a regression; 2 a wrong call, or a file that is not a run."
)]
pub(crate) struct Compare {
    /// The run before: a file that --json wrote, or STORE#ID of one that --save keeps. Several runs of the same thing, by commas, show how
    /// much runs differ by themselves.
    #[arg(value_name = "BEFORE[,BEFORE2..]", value_parser = runs, value_hint = ValueHint::FilePath)]
    pub(crate) before: Runs,
    /// The run after, or several.
    #[arg(value_name = "AFTER[,AFTER2..]", value_parser = runs, value_hint = ValueHint::FilePath)]
    pub(crate) after: Runs,
    /// End with exit code 1 when a path or a row is significantly worse, and by more than this [default for what is shown: 5%].
    #[arg(long, value_name = "PERCENT", value_parser = threshold)]
    pub(crate) fail_on: Option<f64>,
    /// Only these experiments of the runs.
    #[arg(long = "experiment", value_name = "NAME,..", value_delimiter = ',', value_parser = offering(StringValueParser::new(), experiment_names))]
    pub(crate) experiments: Option<Vec<String>>,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// The runs of one side.
#[derive(Debug, Clone)]
pub(crate) struct Runs(pub(crate) Vec<PathBuf>);

fn runs(text: &str) -> Result<Runs, String> {
    let names = text.split(',').map(PathBuf::from).collect::<Vec<_>>();
    if names.iter().any(|name| name.as_os_str().is_empty()) {
        return Err("a run is to be named between commas".to_owned());
    }
    Ok(Runs(names))
}

/// `predict`
#[derive(Debug, Args)]
pub(crate) struct Predict {
    /// The run: a file that --json wrote, with rr-by-size or stream-by-write-size.
    #[arg(long, value_name = "RUN", value_hint = ValueHint::FilePath)]
    pub(crate) from: PathBuf,
    /// Bits per second of the line: 1G, 10G, 2.5G [default: 10G].
    #[arg(long, value_name = "RATE", value_parser = line_rate)]
    pub(crate) line_rate: Option<u64>,
    /// Bytes that memory moves in a second, read or written: 20G [default: measured here, when the run is of this machine].
    #[arg(long, value_name = "RATE", value_parser = memory)]
    pub(crate) memory: Option<f64>,
    /// Bytes per message or write to predict, each with a 90 % prediction interval [default: sizes between and beyond those that runs
    /// measure].
    #[arg(long = "size", value_name = "BYTES,..", value_delimiter = ',', value_parser = size)]
    pub(crate) sizes: Option<Vec<usize>>,
    /// Measure sizes and MTUs that the run does not have, here, and show by how much they are missed; takes the machine of the run.
    #[arg(long)]
    pub(crate) validate: bool,
    /// About how long --validate may measure, without what finds no time [default: 1min].
    #[arg(long = "for", value_name = "TIME", value_parser = duration, requires = "validate")]
    pub(crate) within: Option<Duration>,
    /// Write an HTML file, too.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `papers`
#[derive(Debug, Args)]
pub(crate) struct Papers {
    /// The run: a file that `tollgate report --json FILE` wrote [default: what is needed is measured now]. Two, by a comma, of processors
    /// at different frequencies show how Foong's streams scale with it.
    #[arg(long, value_name = "RUN[,RUN2]", value_parser = runs, value_hint = ValueHint::FilePath, conflicts_with = "set")]
    pub(crate) from: Option<Runs>,
    /// About how long to measure, when there is no run [default: 45s].
    #[arg(long = "for", value_name = "TIME", value_parser = duration, conflicts_with = "from")]
    pub(crate) within: Option<Duration>,
    #[command(flatten)]
    pub(crate) set: SetArgs,
    /// Write an HTML file, too.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// `estimate`
#[derive(Debug, Args)]
pub(crate) struct Estimate {
    /// A trace: a folder, s3://BUCKET/PREFIX, or kay-lan or kay-wan, which are rebuilt from published facts.
    #[arg(long, value_name = "TRACE", value_hint = ValueHint::DirPath)]
    pub(crate) trace: String,
    /// Count as a message of TCP: segments, as in Kay and Pasquale's traces, or what applications wrote.
    #[arg(long, value_name = "segments|writes", value_parser = offering(messages, kinds_of_messages), default_value = Messages::default().name())]
    pub(crate) messages: Messages,
    /// The run with the costs, a file that --json wrote [default: measured now, for half a minute]. It holds kay-breakdown and kay-detail,
    /// or for stack-memory wolman-transmit and wolman-receive.
    #[arg(long, value_name = "RUN", value_hint = ValueHint::FilePath, conflicts_with_all = ["sizes", "cores", "wait", "iterations", "repetitions", "quick", "within", "set"])]
    pub(crate) from: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
    #[command(flatten)]
    pub(crate) set: SetArgs,
    /// Write an HTML file, too.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: Option<PathBuf>,
}

fn messages(given: &str) -> Result<Messages, String> {
    let known = Messages::ALL.map(Messages::name);
    Messages::named(given).ok_or_else(|| unknown("kind of message", given, &known))
}

/// A share that is given in percent, with or without the sign.
fn threshold(given: &str) -> Result<f64, String> {
    let number = given.strip_suffix('%').unwrap_or(given).trim_end();
    number
        .parse::<f64>()
        .ok()
        .filter(|percent| (0.0..=1_000.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| {
            format!("unknown threshold `{given}`; give it in percent, as 5%, from 0% to 1000%")
        })
}

fn memory(given: &str) -> Result<f64, String> {
    amount(given)
        .filter(|rate| (1e6..=1e15).contains(rate))
        .ok_or_else(|| {
            format!("unknown bandwidth `{given}`; give bytes per second as 800M or 20G, from 1M to 1000T")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_read() {
        assert_eq!(threshold("5%"), Ok(0.05));
        assert_eq!(threshold("2.5"), Ok(0.025));
        for wrong in ["", "%", "-1%", "five", "1e9%"] {
            assert!(threshold(wrong).is_err(), "{wrong}");
        }
    }
}
