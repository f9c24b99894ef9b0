//! Profiles weighted with a trace: where the time goes on traffic as it is, and what an optimisation would save there (Kay and
//! Pasquale 1996, sections VII and VIII, figures 5 to 12).
//!
//! The costs of messages by size come from a run (`costs`), how many messages of each size there are from a trace; `estimate` weights
//! the one with the other and carries what is uncertain in both. Nothing is measured here, and no trace is read.

mod costs;
mod estimate;
mod savings;
mod show;
#[cfg(test)]
mod tests;
mod trust;

use tollgate_run::{Experiment, PathId, Run, format};
use tollgate_trace::rows::Protocol;
use tollgate_trace::traffic::{Messages, Stretch, Traffic};

use costs::{Costs, Measured};
use estimate::{Estimate, Load, Per};

/// Sizes to measure when a profile is all that is wanted, in bytes: most messages of most traces are small, so most of the sizes
/// are; 8,192 is the largest of Kay and Pasquale's.
const SIZES: [usize; 10] = [1, 64, 128, 200, 500, 1_000, 2_000, 4_000, 6_000, 8_192];
/// Sizes to measure besides where a trace has messages that are larger. The last is the longest segment on a loopback interface (a packet of
/// 65,535 bytes less 52 of headers), and fits into a datagram.
const LARGE_SIZES: [usize; 3] = [16_384, 32_768, 65_483];
/// The experiments that a profile of the kernel is made from.
pub const OF_KERNEL: [&str; 2] = ["kay-breakdown", "kay-detail"];
/// Those that a profile of our stack is made from.
pub const OF_STACK: [&str; 2] = ["wolman-transmit", "wolman-receive"];

/// The messages of a benchmark that stands beside the trace, in bytes: the largest of Kay and Pasquale's.
const BENCHMARK: f64 = 8_192.0;

/// The sizes to measure for a profile of this traffic.
#[must_use]
pub fn sizes(traffic: &Traffic) -> Vec<usize> {
    let of = |stretch: &Stretch| {
        let both =
            [Protocol::Tcp, Protocol::Udp].map(|protocol| stretch.of(protocol).keys().next_back());
        both.into_iter().flatten().max().copied()
    };
    let largest = traffic.stretches().iter().filter_map(of).max();
    let largest = largest.unwrap_or(0) as usize;
    let mut sizes = SIZES.to_vec();
    for size in LARGE_SIZES {
        // Costs between two sizes are known, those beyond the last are not.
        if sizes.last().is_some_and(|last| *last < largest) {
            sizes.push(size);
        }
    }
    sizes
}

/// Largest share of the user data in messages beyond the measured sizes: above it their cost is not stated, since it is
/// extrapolated.
const MOST_BEYOND: f64 = 0.5;

/// The share of messages, or of their octets, that are larger than the largest that was measured.
fn beyond(traffic: &Traffic, measured: &Measured, protocols: &[Protocol], of_octets: bool) -> f64 {
    let (mut beyond, mut all) = (0.0, 0.0);
    for &protocol in protocols {
        let Some(costs) = measured.of(protocol) else {
            continue;
        };
        for stretch in traffic.stretches() {
            for (size, n) in stretch.of(protocol) {
                let size = f64::from(*size);
                let amount = *n as f64 * if of_octets { size } else { 1.0 };
                all += amount;
                if size > costs.largest() {
                    beyond += amount;
                }
            }
        }
    }
    if all > 0.0 { beyond / all } else { 0.0 }
}

/// A run that holds nothing to weight, or a trace that has nothing to weight it with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoProfile {
    /// The run has not sampled the kernel.
    #[error(
        "a profile was to be made from the costs in `kay-breakdown`, and the run holds none; make one as root with `tollgate experiment run \
         kay-breakdown kay-detail --json run.json`, or leave --from out to measure now, or give --path stack-memory when the run holds \
         `wolman-transmit` and `wolman-receive`"
    )]
    NoBreakdown,
    /// The run tried to sample the kernel and could not.
    #[error(
        "a profile was to be made from the costs in `kay-breakdown`, and the run holds none: {finding} `tollgate doctor` says what would \
         change that"
    )]
    NotSampled {
        /// The finding of the experiment.
        finding: String,
    },
    /// The run has no costs of the stack.
    #[error(
        "a profile of stack-memory was to be made from `wolman-transmit` and `wolman-receive`, and the run does not hold both; make one with \
         `tollgate experiment run wolman-transmit wolman-receive --path stack-memory --json run.json`, or leave --from out"
    )]
    NoSpans,
    /// The run has costs of other paths.
    #[error(
        "the run has no costs of {path}; it has those of {held}: name one with --path, or leave --path out"
    )]
    NoSuchPath {
        /// The path that was asked for.
        path: PathId,
        /// The paths that it holds.
        held: String,
    },
    /// Costs by size need sizes.
    #[error(
        "the table {table} of the run holds fewer than two sizes, so nothing is known of what lies between; measure with more"
    )]
    TooFewSizes {
        /// The table's id.
        table: String,
    },
    /// A table is not as this program writes it.
    #[error("the table {table} of the run is not as this version writes it; measure anew")]
    Unreadable {
        /// The table's id.
        table: String,
    },
    /// Spans come out below zero, so they are not told apart.
    #[error(
        "the spans of {category} come out below zero at {size} by more than a twentieth of a message: the machine was disturbed while they were \
         measured, and shares of them mean nothing; measure again when it is quieter, with a release build"
    )]
    Disturbed {
        /// The category.
        category: String,
        /// The size of the message.
        size: String,
    },
    /// The trace has no messages whose costs are known.
    #[error(
        "the trace {trace} has no messages of {protocols}, whose costs the run holds; there is nothing to weight them with"
    )]
    NoMessages {
        /// The trace's name.
        trace: String,
        /// The protocols.
        protocols: String,
    },
}

/// A trace as a profile needs it.
#[derive(Debug, Clone, Copy)]
pub struct TraceOf<'a> {
    /// The name that the user gave.
    pub name: &'a str,
    /// The remark to show wherever the trace is shown.
    pub remark: Option<&'a str>,
    /// The definition of a message of TCP.
    pub messages: Messages,
    /// The messages.
    pub traffic: &'a Traffic,
    /// The messages where nothing but bounds is known of sizes: all at the lower bound, and all at the upper.
    pub bounds: Option<(&'a Traffic, &'a Traffic)>,
}

/// Source of the run with the costs.
#[derive(Debug, Clone, Copy)]
pub enum Origin<'a> {
    /// It was there, and the user calls it so.
    Run(&'a str),
    /// It was measured for the profile, with these flags of the command, each with a space before it.
    Measured(&'a str),
}

/// One way to look at the messages: a column of the tables.
struct View<'a> {
    name: String,
    protocols: &'static [Protocol],
    /// The messages beside their costs by category; or why there are none.
    load: Result<Load<'a>, String>,
    /// The messages beside their costs by the parts of the categories.
    parts: Result<Load<'a>, String>,
}

/// TCP, UDP, and both.
const PROTOCOLS: [&[Protocol]; 3] = [
    &[Protocol::Tcp],
    &[Protocol::Udp],
    &[Protocol::Tcp, Protocol::Udp],
];

/// All that is shown is made from this.
struct Profile<'a> {
    trace: TraceOf<'a>,
    origin: Origin<'a>,
    measured: &'a Measured,
    /// TCP, UDP, and both in the proportion of the trace.
    views: Vec<View<'a>>,
    /// A benchmark with messages of one size, by protocol.
    benchmarks: Vec<View<'a>>,
    /// The size of those messages, in bytes.
    benchmark: f64,
}

/// Weights the costs that the run holds with the messages of the trace. Without a path, that of the first costs of the kernel in
/// the run.
///
/// # Errors
/// [`NoProfile`].
pub fn profile(
    run: &Run,
    path: Option<PathId>,
    trace: TraceOf<'_>,
    origin: Origin<'_>,
) -> Result<Experiment, NoProfile> {
    let measured = costs::read(run, path)?;
    let protocols: Vec<Protocol> = measured.categories.iter().map(|(one, _)| *one).collect();
    if protocols
        .iter()
        .all(|protocol| trace.traffic.messages(*protocol) == 0)
    {
        return Err(NoProfile::NoMessages {
            trace: trace.name.to_owned(),
            protocols: names(&protocols),
        });
    }
    let profile = Profile::new(trace, origin, &measured);
    Ok(profile.shown(run))
}

impl<'a> Profile<'a> {
    fn new(trace: TraceOf<'a>, origin: Origin<'a>, measured: &'a Measured) -> Self {
        let largest = measured.categories.iter().map(|(_, costs)| costs.largest());
        let benchmark = largest.fold(BENCHMARK, f64::min);
        let views = PROTOCOLS.map(|protocols| View {
            name: names(protocols),
            protocols,
            load: load(&trace, measured, &measured.categories, protocols),
            parts: load(&trace, measured, &measured.parts, protocols),
        });
        let benchmarks = [(Protocol::Tcp, PROTOCOLS[0]), (Protocol::Udp, PROTOCOLS[1])];
        let benchmarks = benchmarks.map(|(protocol, protocols)| {
            let of = |costs: &'a [(Protocol, Costs)]| match costs_of(costs, protocol) {
                Some(costs) => Ok(Load::benchmark(protocol, costs, benchmark)),
                None => Err(unmeasured(measured, protocol)),
            };
            View {
                name: format!(
                    "{} of {}",
                    protocol.name(),
                    format::size(benchmark as usize)
                ),
                protocols,
                load: of(&measured.categories),
                parts: of(&measured.parts),
            }
        });
        Self {
            trace,
            origin,
            measured,
            views: views.into(),
            benchmarks: benchmarks.into(),
            benchmark,
        }
    }

    /// The names of the categories, which are the same for all protocols of a run.
    fn categories(&self) -> Vec<&'a str> {
        let first = self.measured.categories.first();
        let parts = first.into_iter().flat_map(|(_, costs)| &costs.parts);
        parts.map(|part| part.name.as_str()).collect()
    }

    /// The share of some categories in the time of a view: each with its factor.
    fn share(&self, view: &View<'_>, factor: impl Fn(&str) -> f64) -> Result<Estimate, String> {
        let load = view.load.as_ref().map_err(Clone::clone)?;
        let names = self.categories();
        let factors: Vec<f64> = names.iter().map(|name| factor(name)).collect();
        let all = vec![1.0; names.len()];
        load.ratio(&factors, Per::Parts(&all))
            .ok_or_else(|| "no time was measured".to_owned())
    }

    /// The share that touches data.
    fn touching(&self, view: &View<'_>) -> Result<Estimate, String> {
        self.share(view, |name| f64::from(u8::from(costs::touches_data(name))))
    }
}

fn costs_of(costs: &[(Protocol, Costs)], protocol: Protocol) -> Option<&Costs> {
    let mut all = costs.iter();
    all.find(|(one, _)| *one == protocol)
        .map(|(_, costs)| costs)
}

/// `TCP and UDP`.
fn names(protocols: &[Protocol]) -> String {
    let names: Vec<String> = protocols.iter().map(|one| one.name().to_owned()).collect();
    format::list(&names)
}

fn unmeasured(measured: &Measured, protocol: Protocol) -> String {
    format!(
        "the run holds no costs of {} over {}",
        protocol.name(),
        measured.path
    )
}

/// The messages of some protocols beside their costs, or why they cannot be had.
fn load<'a>(
    trace: &TraceOf<'_>,
    measured: &Measured,
    costs: &'a [(Protocol, Costs)],
    protocols: &[Protocol],
) -> Result<Load<'a>, String> {
    let mut of = Vec::new();
    for &protocol in protocols {
        if trace.traffic.messages(protocol) == 0 {
            continue;
        }
        match costs_of(costs, protocol) {
            Some(costs) => of.push((protocol, costs)),
            None => return Err(unmeasured(measured, protocol)),
        }
    }
    let share = beyond(trace.traffic, measured, protocols, true);
    if share > MOST_BEYOND {
        let largest = of.iter().map(|(_, costs)| costs.largest());
        return Err(format!(
            "{} % of its user data is in messages larger than {}, the largest that was measured",
            format::significant(100.0 * share),
            format::size(largest.fold(0.0, f64::max) as usize)
        ));
    }
    let load = Load::of(trace.traffic, &of);
    if load.is_empty() {
        return Err(format!(
            "{} has no messages of {}",
            trace.name,
            names(protocols)
        ));
    }
    Ok(load)
}
