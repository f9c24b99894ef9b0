//! `ablation` and `stream-ablation`: round trips, or a stream, with one mechanism of Tollgate's stack switched at a time, against those
//! with the default of each.
//!
//! Each setting is paired with the default in rounds of its own ([`paired`]): both are opened anew and take turns within a few
//! milliseconds. An effect in time is the median of the rounds' quotients. The effect in instructions is exact: Callgrind counts the
//! same operations in virtual time ([`mechanisms`]). It must never hold a list of mechanisms.

mod trust;

use std::time::Duration;

use tollgate_budget::mechanisms::{self, MechanismCounts, OPERATIONS};
use tollgate_run::{
    Cell, Column, Figure as Drawing, ForestRow, Interval, Measured, Mode, PathId, Ratio, Source,
    Table, Unit, Workload, format, present,
};
use tollgate_workload::config::ChecksumPolicy;
use tollgate_workload::{Mechanisms, find};

use super::{Content, Experiment, Reported, Uses};
use crate::claim::{Evidence, Finding, FindingText, Refusal};
use crate::context::{Context, Options};
use crate::counting;
use crate::error::Error;
use crate::interleave::{Matrix, Switched, Variant};
use crate::outcome::Figure;
use crate::paired::sessions::{self as paired, Pair, Paired};

/// Sizes unless given: those of Wolman, Voelker and Thekkath 1994 at which the costs of a packet and of a byte part, and one of
/// many segments.
const SIZES: [usize; 5] = [4, 200, 1_400, 8_000, 65_536];
/// Sizes of a write unless given: many in a segment's bytes, a full segment, and writes of several.
const WRITES: [usize; 4] = [64, 1_448, 16_384, 65_536];
/// The paths that run Tollgate's stack, the one that is measured unless others are named first.
const PATHS: [PathId; 5] = [
    PathId::StackMemory,
    PathId::StackShm,
    PathId::StackTap,
    PathId::StackPacket,
    PathId::StackXdp,
];
/// The part of the remaining time that counting may take at most.
const COUNTING: u32 = 2;
/// Rough duration of counting, for the progress.
const TAKES: Duration = Duration::from_secs(10);
/// Switches that the finding names at most.
const NAMED: usize = 3;
/// Words of a cell whose interval holds no change.
const NO_DIFFERENCE: &str = "no difference";
/// The reason why `stack-shm` has no counts.
const WAITS: &str = "ends that wait for each other execute as many instructions as the wait lasts; stack-memory is counted";

/// Mechanisms, one at a time, under this workload.
pub(super) struct Ablation {
    name: &'static str,
    title: &'static str,
    summary: &'static str,
    reported: Reported,
    workload: Workload,
}

/// Round trips.
pub(super) const RR: Ablation = Ablation {
    name: "ablation",
    title: "What each mechanism is worth",
    summary: "round trips with one mechanism of Tollgate's stack switched at a time: time with intervals, instructions exact",
    reported: Reported::Full,
    workload: Workload::Rr,
};
/// A stream.
pub(super) const STREAM: Ablation = Ablation {
    name: "stream-ablation",
    title: "What each mechanism is worth to a stream",
    summary: "a stream with one mechanism of Tollgate's stack switched at a time: time with intervals, instructions exact",
    reported: Reported::ByName,
    workload: Workload::Stream,
};

/// Words for an operation of a workload, and its time.
#[derive(Debug, Clone, Copy)]
struct Operation {
    /// Its name.
    name: &'static str,
    /// Several of it.
    names: &'static str,
    /// The time that tables show, and its heading.
    figure: Figure,
    unit: Unit,
    heading: &'static str,
}

impl Operation {
    const fn of(workload: Workload) -> Self {
        match workload {
            Workload::Stream => Self {
                name: "write",
                names: "writes",
                figure: Figure::PerByte,
                unit: Unit::NanosecondsPerByte,
                heading: "each byte",
            },
            Workload::Rr | Workload::Crr => Self {
                name: "round trip",
                names: "round trips",
                figure: Figure::Median,
                unit: Unit::Nanoseconds,
                heading: "round trip",
            },
        }
    }
}

impl Experiment for Ablation {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn paper(&self) -> Option<Source> {
        None
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn reported(&self) -> Reported {
        self.reported
    }

    fn mechanisms(&self) -> Uses {
        Uses::Own("switches each mechanism by itself, against its default")
    }

    fn weight(&self) -> u32 {
        6
    }

    /// Each mechanism is held against its default, so others than the defaults leave nothing to compare with.
    fn concerns(&self, options: &Options) -> bool {
        !paths(options).is_empty() && options.mechanisms == Mechanisms::DEFAULT
    }

    fn measure(&self, context: &mut Context<'_>, command: &str) -> Result<Content, Error> {
        let sizes = context.options.sizes_or(match self.workload {
            Workload::Stream => &WRITES,
            Workload::Rr | Workload::Crr => &SIZES,
        });
        let settings = settings(&paths(&context.options));
        let matrix = matrix(self.workload, &settings, context)?;
        let is_counted = matrix.variants.iter().any(is_counted);
        let given = context.remaining().filter(|_| is_counted);
        let counted = if is_counted {
            context.tell("counting under valgrind", TAKES);
            let limit = context.remaining().map(|left| left / COUNTING);
            counting::counted(self.name(), context, limit, |program| {
                mechanisms::count(program, self.workload, &sizes, OPERATIONS)
            })?
        } else {
            Err(WAITS.to_owned())
        };
        let pairs = pairs(settings.len(), matrix.variants.len(), sizes.len());
        let paired = paired::run(self.name(), matrix, pairs, &sizes, context);
        let paired = paired.map_err(|error| with_counting(error, given))?;
        let ablation = Effects {
            settings,
            paired,
            counted,
        };
        Ok(Content {
            finding: ablation.finding(),
            tables: vec![ablation.effects(), ablation.measured()],
            figures: ablation.figure(command).into_iter().collect(),
            trust: ablation.trust(),
        })
    }
}

/// Tells the least time with that of counting, and the time that both had: counting may take its part of whatever is given.
fn with_counting(error: Error, given: Option<Duration>) -> Error {
    match (error, given) {
        (
            Error::NoTime {
                experiment, least, ..
            },
            Some(left),
        ) => Error::NoTime {
            experiment,
            least: least * COUNTING / (COUNTING - 1),
            left,
        },
        (error, _) => error,
    }
}

/// A mechanism with a value that is not its default.
#[derive(Debug, Clone)]
struct Setting {
    name: String,
    value: String,
    mechanisms: Mechanisms,
}

impl Setting {
    /// The setting as `--set` takes it.
    fn label(&self) -> String {
        format!("{}={}", self.name, self.value)
    }
}

/// Every value of every mechanism that is not the default. The kernel, at the other end of a real link, drops segments without checksums.
fn settings(paths: &[(PathId, Mode)]) -> Vec<Setting> {
    let to_kernel = paths.iter().any(|&(path, _)| is_to_kernel(path));
    Mechanisms::each()
        .filter(|(.., mechanisms)| !(to_kernel && mechanisms.checksum == ChecksumPolicy::Off))
        .map(|(name, value, mechanisms)| Setting {
            name: name.to_owned(),
            value: value.to_owned(),
            mechanisms,
        })
        .collect()
}

/// The paths to measure, each in the first of its modes that fits.
fn paths(options: &Options) -> Vec<(PathId, Mode)> {
    let wanted = options.paths.as_deref().unwrap_or(&PATHS[..1]);
    wanted
        .iter()
        .filter(|path| PATHS.contains(path))
        .filter_map(|&path| {
            let mode = options
                .modes(&find(path)?.capabilities())
                .first()
                .copied()?;
            Some((path, mode))
        })
        .collect()
}

/// Tells whether the other end is a socket of the kernel.
const fn is_to_kernel(path: PathId) -> bool {
    matches!(
        path,
        PathId::StackTap | PathId::StackPacket | PathId::StackXdp
    )
}

/// Tells whether the instructions of this variant's path can be counted.
fn is_counted(variant: &Variant) -> bool {
    variant.path == PathId::StackMemory
}

/// Variants of a path before those of the settings: the default, and once more the default, which shows what chance does.
const DEFAULTS: usize = 2;

/// Each path with its defaults, then with each of the settings.
fn matrix(
    workload: Workload,
    settings: &[Setting],
    context: &Context<'_>,
) -> Result<Matrix, Error> {
    let mut variants = Vec::new();
    for (path, mode) in paths(&context.options) {
        let switched = settings.iter().map(|setting| setting.mechanisms);
        let all = [Mechanisms::DEFAULT; DEFAULTS].into_iter().chain(switched);
        variants.extend(all.map(|mechanisms| Variant {
            switched: Some(Switched {
                mechanisms,
                label: None,
            }),
            ..Variant::new(path, mode)
        }));
    }
    if variants.is_empty() {
        return Err(Error::NothingToRun {
            workload,
            asked: context.options.restrictions(),
        });
    }
    Ok(Matrix {
        workload,
        variants,
        unavailable: Vec::new(),
    })
}

/// Every variant but the defaults against the default of its path, at each size.
fn pairs(settings: usize, variants: usize, sizes: usize) -> Vec<Pair> {
    let of_path = DEFAULTS + settings;
    let held = (0..variants).filter(|variant| !variant.is_multiple_of(of_path));
    held.flat_map(|variant| {
        (0..sizes).map(move |at| Pair {
            variant,
            control: variant - variant % of_path,
            at,
        })
    })
    .collect()
}

/// Measurements and counts.
struct Effects {
    settings: Vec<Setting>,
    paired: Paired,
    /// The counts of `stack-memory`, or why there are none.
    counted: Result<MechanismCounts, String>,
}

impl Effects {
    const fn operation(&self) -> Operation {
        Operation::of(self.paired.outcome.matrix.workload)
    }

    /// The places of each path's default.
    fn defaults(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.paired.outcome.matrix.variants.len()).step_by(DEFAULTS + self.settings.len())
    }

    /// The change in time against the path's default, in hundredths.
    fn change(&self, variant: usize, default: usize, at: usize) -> Cell {
        let ratio = match self.paired.ratio(variant, at) {
            Ok(ratio) => ratio,
            Err(reason) => {
                let outcome = &self.paired.outcome;
                let both = [variant, default].into_iter();
                let mut cells = both.map(|one| outcome.cell(one, at, Figure::Median));
                let failed = cells.find_map(|cell| match cell {
                    Cell::NotAvailable { reason } => Some(reason),
                    _ => None,
                });
                return unavailable(&failed.unwrap_or_else(|| reason.to_string()));
            }
        };
        let percent = |ratio: f64| 100.0 * (ratio - 1.0);
        Cell::Value(Measured {
            value: percent(ratio.value),
            ci: Some(Interval {
                low: percent(ratio.interval.low),
                high: percent(ratio.interval.high),
            }),
            n: Some(ratio.n),
            ..Measured::default()
        })
    }

    /// Instructions of an operation: of the default, and of the setting of this place.
    fn instructions(
        &self,
        variant: &Variant,
        setting: usize,
        at: usize,
    ) -> Result<(f64, f64), &str> {
        if !is_counted(variant) {
            return Err(WAITS);
        }
        let counts = self.counted.as_ref().map_err(String::as_str)?;
        let wanted = &self.settings[setting];
        let same = |name: &str, value: &str| name == wanted.name && value == wanted.value;
        let mut all = counts.switched.iter();
        let switched = all.find(|one| same(&one.name, &one.value));
        let pair =
            switched.and_then(|one| Some((*counts.defaults.get(at)?, *one.instructions.get(at)?)));
        pair.ok_or("the program that counted does not know this setting")
    }

    /// A row's label: the setting, with its path where there are several.
    fn label(&self, variant: usize, name: String) -> String {
        match self.defaults().count() {
            1 => name,
            _ => format!(
                "{name}, {}",
                self.paired.outcome.matrix.variants[variant].path
            ),
        }
    }

    /// Each setting: by how much the time of an operation changes at each size, and by how many instructions.
    fn effects(&self) -> Table {
        let mut rows = Vec::new();
        for default in self.defaults() {
            for (place, setting) in self.settings.iter().enumerate() {
                let variant = default + DEFAULTS + place;
                let cells = (0..self.paired.outcome.sizes.len()).flat_map(|at| {
                    let time = match self.change(variant, default, at) {
                        Cell::Value(change) if holds_zero(&change) => Cell::text(NO_DIFFERENCE),
                        cell => cell,
                    };
                    let who = &self.paired.outcome.matrix.variants[variant];
                    let more = match self.instructions(who, place, at) {
                        Ok((usual, switched)) => Cell::exact(switched - usual),
                        Err(reason) => unavailable(reason),
                    };
                    [time, more]
                });
                let cells = cells.collect();
                rows.push(present::plain_row(
                    self.label(variant, setting.label()),
                    cells,
                ));
            }
        }
        let columns = self.paired.outcome.sizes.iter().flat_map(|&size| {
            let size = format::size(size);
            [
                column(format!("{size}, time"), Unit::Percent),
                column(format!("{size}, instructions"), Unit::Count),
            ]
        });
        Table {
            id: "effects".to_owned(),
            title: format!(
                "Change of a {} when one mechanism is switched",
                self.operation().name
            ),
            columns: columns.collect(),
            rows,
        }
    }

    /// The numbers behind the effects: time, change and instructions of each setting.
    fn measured(&self) -> Table {
        let mut rows = Vec::new();
        for default in self.defaults() {
            let who = self.paired.outcome.matrix.variants[default];
            let usual = |at: usize| match (is_counted(&who), &self.counted) {
                (true, Ok(counts)) => match counts.defaults.get(at) {
                    Some(count) => Cell::exact(*count),
                    None => unavailable("the program that counted does not know this size"),
                },
                (true, Err(reason)) => unavailable(reason),
                (false, _) => unavailable(WAITS),
            };
            let mut add = |variant: usize, name: String, count: &dyn Fn(usize) -> Cell| {
                let cells = (0..self.paired.outcome.sizes.len()).flat_map(|at| {
                    let figure = self.operation().figure;
                    let time = self.paired.outcome.cell(variant, at, figure);
                    let change = match variant == default {
                        true => Cell::text("-"),
                        false => self.change(variant, default, at),
                    };
                    [time, change, count(at)]
                });
                rows.push(present::plain_row(
                    self.label(variant, name),
                    cells.collect(),
                ));
            };
            add(default, "default".to_owned(), &usual);
            add(default + 1, "default, once more".to_owned(), &usual);
            for (place, setting) in self.settings.iter().enumerate() {
                add(
                    default + DEFAULTS + place,
                    setting.label(),
                    &|at| match self.instructions(&who, place, at) {
                        Ok((_, switched)) => Cell::exact(switched),
                        Err(reason) => unavailable(reason),
                    },
                );
            }
        }
        let Operation { unit, heading, .. } = self.operation();
        let columns = self.paired.outcome.sizes.iter().flat_map(|&size| {
            let size = format::size(size);
            [
                column(format!("{size}, {heading}"), unit),
                column(format!("{size}, change"), Unit::Percent),
                column(format!("{size}, instructions"), Unit::Instructions),
            ]
        });
        Table {
            id: "measured".to_owned(),
            title: match self.paired.outcome.matrix.workload {
                Workload::Stream => {
                    "Stream with each setting, and its change against the default".to_owned()
                }
                Workload::Rr | Workload::Crr => {
                    "Round trip with each setting, and its change against the default".to_owned()
                }
            },
            columns: columns.collect(),
            rows,
        }
    }

    /// Forest plot of all settings over all sizes: an operation with each against one with the default, in time and, where they were
    /// counted, in instructions.
    fn figure(&self, command: &str) -> Option<Drawing> {
        let mut rows = Vec::new();
        for default in self.defaults() {
            let who = self.paired.outcome.matrix.variants[default];
            for (place, setting) in self.settings.iter().enumerate() {
                let variant = default + DEFAULTS + place;
                let at_size = |at: usize| {
                    let time = self.paired.ratio(variant, at).ok().map(|ratio| Ratio {
                        label: "time".to_owned(),
                        value: ratio.value,
                        ci: Some(ratio.interval.into()),
                    });
                    let counted = self.instructions(&who, place, at).ok();
                    let counted = counted.map(|(usual, switched)| Ratio {
                        label: "instructions".to_owned(),
                        value: switched / usual,
                        ci: None,
                    });
                    let both = [time, counted].into_iter().flatten();
                    // A ratio of nothing has no place.
                    both.filter(|ratio| ratio.value.is_finite() && ratio.value > 0.0)
                        .collect()
                };
                let panels = (0..self.paired.outcome.sizes.len()).map(at_size);
                rows.push(ForestRow {
                    label: self.label(variant, setting.label()),
                    panels: panels.collect(),
                });
            }
        }
        let is_drawn = |row: &ForestRow| row.panels.iter().any(|panel| !panel.is_empty());
        let sizes = self.paired.outcome.sizes.iter();
        rows.iter().any(is_drawn).then(|| Drawing::Forest {
            title: match self.paired.outcome.matrix.workload {
                Workload::Stream => {
                    "A stream with one mechanism switched against the default, by size of a write"
                        .to_owned()
                }
                Workload::Rr | Workload::Crr => {
                    "A round trip with one mechanism switched against the default, by size of the message"
                        .to_owned()
                }
            },
            panels: sizes.map(|&size| format::size(size)).collect(),
            rows,
            command: command.to_owned(),
        })
    }

    /// The switches that add most instructions at the smallest size, or the one that adds most time where they were not counted; and the
    /// one that adds most time at the largest.
    fn finding(&self) -> FindingText {
        let mut finding = Finding::default();
        let Some(default) = self.defaults().next() else {
            return finding.finish();
        };
        let who = &self.paired.outcome.matrix.variants[default];
        let size = format::bytes(self.paired.outcome.sizes[0]);
        let name = self.operation().name;
        let mut counts: Vec<(f64, f64, &Setting)> = self
            .settings
            .iter()
            .enumerate()
            .filter_map(|(place, setting)| {
                let (usual, switched) = self.instructions(who, place, 0).ok()?;
                Some((switched - usual, usual, setting))
            })
            .collect();
        counts.sort_by(|a, b| b.0.total_cmp(&a.0));
        counts.truncate(NAMED);
        let added = counts.iter().filter(|count| count.0 > 0.0);
        let mut amounts = Vec::new();
        for (more, usual, setting) in added {
            let more = Evidence::exact(*more).amount();
            let usual = Evidence::exact(*usual).amount();
            let more = finding.claim("the instructions that are added", more);
            let usual = finding.claim(format!("the instructions of a {name}"), usual);
            if let Some((more, usual)) = more.zip(usual) {
                amounts.push((setting.label(), more.count(), usual.count()));
            }
        }
        match (amounts.first(), counts.is_empty(), &self.counted) {
            (Some((_, _, usual)), ..) => {
                let labels: Vec<_> = amounts.iter().map(|(label, ..)| label.clone()).collect();
                let more: Vec<_> = amounts.iter().map(|(_, more, _)| more.clone()).collect();
                finding.say(format!(
                    "most is added by {}: {} instructions more than the {usual} of a {name} of {size}",
                    format::list(&labels),
                    format::list(&more)
                ));
            }
            (None, false, _) => {
                finding.say(format!("no switch adds instructions to a {name} of {size}"))
            }
            (None, true, reason) => {
                if let (Err(reason), true) = (reason, is_counted(who)) {
                    let why = Refusal::NotMeasured(reason.clone());
                    finding.refuse("how many instructions a switch adds", &why);
                }
                self.slowest(default, 0, &mut finding);
            }
        }
        // A switch may matter at large sizes alone.
        match self.paired.outcome.sizes.len() {
            0 | 1 => {}
            sizes => self.slowest(default, sizes - 1, &mut finding),
        }
        finding.finish()
    }

    /// Says which setting takes most time against the default at a size.
    fn slowest(&self, default: usize, at: usize, finding: &mut Finding) {
        let size = format::bytes(self.paired.outcome.sizes[at]);
        let ratios = self
            .settings
            .iter()
            .enumerate()
            .filter_map(|(place, setting)| {
                let variant = default + DEFAULTS + place;
                Some((self.paired.ratio(variant, at).ok()?.value, variant, setting))
            });
        let Some((_, variant, setting)) = ratios.max_by(|a, b| a.0.total_cmp(&b.0)) else {
            finding.refuse(
                format!("which switch adds most time at {size}"),
                &Refusal::NoInterval,
            );
            return;
        };
        let operations = |one: usize| self.paired.outcome.measurements[one][at].operations();
        let fewest = operations(variant).min(operations(default));
        let claim = self.paired.ratio(variant, at);
        let claim = claim.map_err(|_| Refusal::NoInterval).and_then(|ratio| {
            Evidence::new(ratio.value, Some(ratio.interval.into()), fewest).amount()
        });
        let what = format!("how much time {} adds at {size}", setting.label());
        if let Some(claim) = finding.claim(what, claim) {
            finding.say(match claim.speed() {
                Some(speed) => format!(
                    "most time is added by {}: a {} of {size} is {speed} with it",
                    setting.label(),
                    self.operation().name
                ),
                None => format!("no switch shows a difference in time at {size}"),
            });
        }
    }
}

fn column(name: String, unit: Unit) -> Column {
    Column { name, unit }
}

fn unavailable(reason: &str) -> Cell {
    Cell::NotAvailable {
        reason: reason.to_owned(),
    }
}

/// Tells whether the interval of a change holds none.
fn holds_zero(change: &Measured) -> bool {
    change.ci.is_some_and(|ci| ci.low <= 0.0 && 0.0 <= ci.high)
}

#[cfg(test)]
mod tests;
