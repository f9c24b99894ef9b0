//! Tells whether costs hold where the fit has not seen them: sizes between and beyond those of the run, and MTUs that it does not
//! have, measured here and now beside sizes that it has.
//!
//! A machine is not today what it was when the run was made. So the sizes of the run, the anchors, are measured again, in turn with
//! those that are new, and costs are fitted to what the anchors take now. What they take now of what they took then is shown: that is
//! the machine's, and what is left is the model's. How well a new size is known at all, by its interval and by what one half of the
//! repetitions says of it over what the other half says, is the machine's, too: no prediction can be told to be better than that.
//!
//! For MTUs, costs come from some sizes at the usual MTU of this very measurement as well.
//!
//! This module decides what is measured and holds it; [`super::validated`] shows it.

use tollgate_run::{Cell, Mode, Offload, PathId, Placement, Run, Waiting, Workload};
use tollgate_stats as stats;

use crate::context::{Context, Options};
use crate::error::Error;
use crate::interleave::{self, Matrix, Variant};
use crate::outcome::{Figure, Outcome};

use super::fit::{MTUS, USUAL_MTU};
use super::interval::Point;
use super::packets::Packets;

/// The reason why a part was not measured.
const NO_TIME: &str = "no time was left for it (--for)";

/// Sizes of messages that no run of the usual sizes has: between those and beyond them.
pub(super) const SIZES: [usize; 8] = [40, 120, 300, 1_000, 2_500, 6_000, 12_000, 16_000];
/// Sizes of writes that no run of the usual sizes has.
pub(super) const WRITES: [usize; 6] = [96, 512, 2_048, 8_192, 32_768, 131_072];
/// Sizes at every MTU: the first five are fitted at the usual one, the others are not.
const AT_MTU: [usize; 9] = [4, 200, 1_400, 4_000, 8_000, 1_000, 2_500, 6_000, 12_000];
/// Number of sizes of [`AT_MTU`] that are fitted.
const FITTED_AT_MTU: usize = 5;
/// Repetitions: more and shorter ones than of an experiment, so that anchors and new sizes lie near each other in time.
const REPETITIONS: u32 = 6;

/// Measurements of a validation.
#[derive(Debug)]
pub struct Validation {
    /// Round trips of the run's ways; or why there are none.
    pub(super) trips: Result<MeasuredSizes, String>,
    /// Streams of the run's ways; or why there are none.
    pub(super) streams: Result<MeasuredSizes, String>,
    /// Round trips at other MTUs; or why there are none.
    pub(super) mtus: Result<Outcome, String>,
}

/// Ways of the run, measured at sizes that it has and at others.
#[derive(Debug)]
pub(super) struct MeasuredSizes {
    /// Each of some of the ways at all sizes.
    outcomes: Vec<Outcome>,
    sizes: Vec<usize>,
    /// Sizes that the run has.
    anchors: Vec<usize>,
    figure: Figure,
}

impl MeasuredSizes {
    /// Finds the outcome, the variant and the place of the size where the way with this label was measured at this size.
    fn find(&self, label: &str, size: usize) -> Option<(&Outcome, usize, usize)> {
        let at = self.sizes.iter().position(|&one| one == size)?;
        self.outcomes.iter().find_map(|outcome| {
            let mut variants = outcome.matrix.variants.iter();
            let way = variants.position(|one| one.label() == label)?;
            Some((outcome, way, at))
        })
    }

    /// The measured time of a whole message in nanoseconds, with its interval: of the way with this label, at this size.
    pub(super) fn cell(&self, label: &str, size: usize) -> Option<Cell> {
        let (outcome, way, at) = self.find(label, size)?;
        let cell = outcome.cell(way, at, self.figure);
        let whole = match self.figure {
            Figure::PerByte | Figure::ProcessorPerByte => size as f64,
            Figure::Median | Figure::Rate => 1.0,
        };
        Some(match cell {
            Cell::Value(measured) => Cell::Value(measured.times(whole)),
            other => other,
        })
    }

    /// The measured times of the anchors, the sizes ascending.
    pub(super) fn points(&self, label: &str) -> Vec<Point> {
        let point = |&size: &usize| Point::of(size as f64, &self.cell(label, size)?);
        self.anchors.iter().filter_map(point).collect()
    }

    /// The error of the time of a size, as a share: half its 95 % interval, or its failure to repeat ([`Outcome::repeats`]),
    /// whichever is larger.
    pub(super) fn known_within(&self, label: &str, size: usize) -> Option<f64> {
        let (outcome, way, at) = self.find(label, size)?;
        let cell = outcome.cell(way, at, self.figure);
        let interval = cell.measured().and_then(|measured| {
            let ci = measured.ci?;
            Some((ci.high - ci.low) / 2.0 / measured.value)
        });
        let repeats = outcome.repeats(way, at, self.figure)?;
        Some(interval.map_or(repeats, |interval| interval.max(repeats)))
    }

    /// The sizes that the run does not have.
    pub(super) fn new_sizes(&self) -> impl Iterator<Item = usize> + '_ {
        let sizes = self.sizes.iter().copied();
        sizes.filter(|size| !self.anchors.contains(size))
    }

    /// The measured time of the anchors over their time in the run: the median; none where none was measured.
    pub(super) fn drift(&self, label: &str, later_run: &[(f64, f64)]) -> Option<f64> {
        let same_run = self.points(label);
        let mut quotients: Vec<f64> = same_run
            .iter()
            .filter_map(|is| {
                let (_, was) = later_run.iter().find(|(one, _)| *one == is.size)?;
                Some(is.ns / was)
            })
            .collect();
        quotients.sort_by(f64::total_cmp);
        stats::middle(&quotients)
    }
}

/// Measures, within the context's time; parts that find none are left out.
///
/// # Errors
/// [`Error::Stopped`] when the user stopped it before anything was measured.
pub fn validate(run: &Run, context: &mut Context<'_>) -> Result<Validation, Error> {
    context.options = Options {
        repetitions: Some(context.options.repetitions.unwrap_or(REPETITIONS)),
        ..context.options.clone()
    };
    let trips = Sweep {
        experiment: "rr-by-size",
        table: "round-trips",
        workload: Workload::Rr,
        sizes: &SIZES,
        figure: Figure::Median,
        title: "held-out round trips",
        weight: 4,
        weights: 10,
    }
    .measure(run, context);
    let streams = Sweep {
        experiment: "stream-by-write-size",
        table: "cost",
        workload: Workload::Stream,
        sizes: &WRITES,
        figure: Figure::PerByte,
        title: "held-out streams",
        weight: 4,
        weights: 6,
    }
    .measure(run, context);
    context.begin("held-out MTUs", 1, 1);
    let matrix = Matrix {
        workload: Workload::Rr,
        variants: at_mtus(&context.options),
        unavailable: Vec::new(),
    };
    let mut sizes = AT_MTU;
    sizes.sort_unstable();
    let mtus = match context.is_spent() {
        true => Ok(Err(NO_TIME.to_owned())),
        false => interleave::run("predict", matrix, &sizes, context).map(Ok),
    };
    let mtus = match mtus {
        Ok(mtus) => mtus,
        Err(Error::Stopped) if trips.is_err() && streams.is_err() => return Err(Error::Stopped),
        Err(error) => Err(error.to_string()),
    };
    Ok(Validation {
        trips,
        streams,
        mtus,
    })
}

/// The ways of a table of the run, to be measured at its sizes and at some that it lacks.
struct Sweep {
    experiment: &'static str,
    table: &'static str,
    workload: Workload,
    sizes: &'static [usize],
    figure: Figure,
    title: &'static str,
    /// Its share among the weights of all that is still to be measured.
    weight: u32,
    weights: u32,
}

impl Sweep {
    fn measure(&self, run: &Run, context: &mut Context<'_>) -> Result<MeasuredSizes, String> {
        let table = super::find(run, self.experiment, self.table)
            .ok_or_else(|| format!("the run holds no {}", self.experiment))?;
        if Packets::of(run, self.experiment) != Packets::default() {
            return Err(format!(
                "{} of the run was made with --mtu, --link or --udp, and other sizes are measured without",
                self.experiment
            ));
        }
        let anchors: Vec<usize> = table
            .columns
            .iter()
            .filter_map(|column| Some(tollgate_run::format::parse_size(&column.name)? as usize))
            .collect();
        let variants: Vec<Variant> = table
            .rows
            .iter()
            .filter_map(|row| Variant::named(&row.label))
            .filter(|one| context.options.wants(one.path))
            .collect();
        if variants.is_empty() || anchors.is_empty() {
            return Err(format!(
                "{} of the run holds no way and size to be measured here",
                self.experiment
            ));
        }
        let new = self.sizes.iter().copied();
        let mut sizes: Vec<usize> = new
            .filter(|size| !anchors.contains(size))
            .chain(anchors.iter().copied())
            .collect();
        sizes.sort_unstable();
        // As many ways as can be open at all sizes at once: what is predicted must take turns with what it is predicted from.
        let at_once = (interleave::MOST_OPEN / sizes.len()).max(1);
        let parts = variants.chunks(at_once);
        let weights = self.weights * parts.len() as u32;
        let mut outcomes = Vec::new();
        for (part, at) in parts.zip(0..) {
            if context.is_spent() {
                break;
            }
            context.begin(self.title, self.weight, weights - at * self.weight);
            let matrix = Matrix {
                workload: self.workload,
                variants: part.to_vec(),
                unavailable: Vec::new(),
            };
            let outcome = interleave::run("predict", matrix, &sizes, context);
            outcomes.push(outcome.map_err(|error| error.to_string())?);
        }
        if outcomes.is_empty() {
            return Err(NO_TIME.to_owned());
        }
        Ok(MeasuredSizes {
            outcomes,
            sizes,
            anchors,
            figure: self.figure,
        })
    }
}

/// The ways at several MTUs, the usual one of each first, since the others are predicted from it.
fn at_mtus(options: &Options) -> Vec<Variant> {
    let mode = |placement, waiting| Mode { placement, waiting };
    let sleeping = mode(Placement::OneCore, Waiting::Blocking);
    let polling = mode(Placement::OneCore, Waiting::BusyPoll);
    let ways = [
        (PathId::StackMemory, polling, Offload::Usual),
        (PathId::KernelVeth, sleeping, Offload::Checksum),
        (PathId::KernelVeth, sleeping, Offload::Usual),
        (PathId::KernelLoopback, sleeping, Offload::Usual),
    ];
    ways.into_iter()
        .filter(|(path, ..)| options.wants(*path))
        .flat_map(|(path, mode, offload)| {
            let all = std::iter::once(USUAL_MTU).chain(MTUS);
            all.map(move |mtu| Variant {
                mtu: Some(mtu),
                offload,
                ..Variant::new(path, mode)
            })
        })
        .collect()
}

/// Tells whether costs at the usual MTU are fitted to this size.
pub(super) fn is_fitted_at_mtu(size: usize) -> bool {
    AT_MTU[..FITTED_AT_MTU].contains(&size)
}
