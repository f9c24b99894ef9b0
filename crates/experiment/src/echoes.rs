//! The processor time of echoes over kernel sockets, by size of the message, TCP and UDP: what `kay-breakdown` and `kay-detail`
//! show.
//!
//! The echoes are those of Kay and Pasquale 1996, section IV. A message is received and one of equal size is sent back; only
//! processor time in the kernel counts. 40 sizes are evenly spaced from 1 byte to 8,192 bytes. Both ends of an echo do that, so its
//! time is halved. For the paper's categories they share a processor unless the user wants two. One that sleeps and wakes is not
//! idle then, and all of its time is processing. The other modes are measured at a few sizes, with idle processors' time as well.

use std::rc::Rc;
use std::time::Duration;

use tollgate_run::{Mode, PathId, Placement, Waiting, Workload, format, present};
use tollgate_sampling::{Categories, Classifier};
use tollgate_workload::cores::Cores;
use tollgate_workload::{Sockets, Spec, Transport, find};

use crate::context::{Context, Options};
use crate::error::Error;
use crate::sampled::{self, Mean, Sampled, Split, Subject, Survey};

/// Message sizes, section IV.
pub(crate) const SIZES: usize = 40;
/// The largest, in bytes.
const LARGEST: usize = 8_192;
/// For each size and protocol, when nobody is in a hurry: 4 % of the time is then known within 4 %. The error decides whether it
/// becomes less or more.
const EACH: Duration = Duration::from_millis(1_600);
/// With less for each, fewer sizes are measured: a hundredth of the time is then some 140 samples, and the standard errors of the
/// categories average to some 4.5 %, below the bar.
const LEAST: Duration = Duration::from_millis(800);
/// The bar for the relative standard error of the mean, section IV: "Experiments are repeated at least 100 times at the same message
/// size to obtain statistical significance in the results (the average percentage of standard error over all categories is less
/// than 5%)." Ours is that of the mean over the rounds, each of which is hundreds of echoes.
pub(crate) const STANDARD_ERROR: f64 = 0.05;
/// A category that takes less than this share of the time has no error worth the name; in 1996 such operations were `Other`, "too
/// small to measure", which is a difference and has no error of its own either.
const NEGLIGIBLE: f64 = 0.01;
/// The fewest sizes, unless the user gives them.
const FEWEST: usize = 6;
/// The sizes of the modes beside the first.
const BESIDE: usize = 3;

/// One protocol on one path in one mode.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) path: PathId,
    pub(crate) transport: Transport,
    pub(crate) mode: Mode,
    pub(crate) sizes: Vec<usize>,
    /// The rounds of each size.
    pub(crate) splits: Vec<Vec<Split>>,
    /// The reason why there are none, by size.
    pub(crate) failures: Vec<Option<String>>,
    /// The place of the first size among the survey's subjects.
    pub(crate) first: usize,
}

/// All that was measured.
#[derive(Debug)]
pub(crate) struct Echoes {
    pub(crate) survey: Survey,
    pub(crate) categories: Categories,
    pub(crate) sizes: Vec<usize>,
    /// The count of sizes without a limit of time.
    pub(crate) wanted: usize,
    pub(crate) panels: Vec<Panel>,
    /// The protocols and paths in the other modes, at a few of the sizes.
    pub(crate) beside: Vec<Panel>,
    /// The reason why there are fewer modes than the options want.
    pub(crate) unseated: Option<String>,
}

/// The paths over sockets of the kernel that the options allow.
pub(crate) fn kernel_paths(options: &Options) -> Vec<PathId> {
    PathId::ALL
        .iter()
        .copied()
        .filter(|&path| path.is_kernel() && options.wants(path) && find(path).is_some())
        .filter(|&path| mode(path, options).is_some())
        .collect()
}

/// The mode of a path for the paper's categories: on one core and blocking, unless the options want otherwise.
pub(crate) fn mode(path: PathId, options: &Options) -> Option<Mode> {
    let modes = modes(path, options);
    let usual = Mode {
        placement: Placement::OneCore,
        waiting: Waiting::Blocking,
    };
    modes
        .iter()
        .copied()
        .find(|&mode| mode == usual)
        .or_else(|| modes.first().copied())
}

/// The modes of a path that the options want.
fn modes(path: PathId, options: &Options) -> Vec<Mode> {
    find(path).map_or_else(Vec::new, |path| options.modes(&path.capabilities()))
}

/// The modes of a path that are measured, the first of them in full, and why others that nobody asked for by name are not.
fn seated(path: PathId, options: &Options) -> (Vec<Mode>, Option<String>) {
    let first = mode(path, options);
    let mut refusal = None;
    let modes = modes(path, options)
        .into_iter()
        .filter(|&mode| {
            if Some(mode) == first || options.placement.is_some() {
                return true;
            }
            let refused = Cores::choose(mode.placement).err();
            let seated = refused.is_none();
            refusal = refusal.take().or(refused);
            seated
        })
        .collect();
    (modes, refusal.map(|error| error.to_string()))
}

/// Message sizes, evenly spaced from 1 byte to 8,192.
pub(crate) fn default_sizes(count: usize) -> Vec<usize> {
    (0..count)
        .map(|at| 1 + ((LARGEST - 1) * at + (count - 1) / 2) / (count - 1).max(1))
        .collect()
}

/// Measures.
///
/// # Errors
/// [`Error::NothingToRun`], and as [`sampled::survey`].
pub(crate) fn of(
    experiment: &'static str,
    context: &Context<'_>,
) -> Result<Rc<Sampled<Echoes>>, Error> {
    context.once(|_| true, || run(experiment, context))
}

fn run(experiment: &'static str, context: &Context<'_>) -> Result<Sampled<Echoes>, Error> {
    let options = &context.options;
    let paths = kernel_paths(options);
    if paths.is_empty() {
        return Err(Error::NothingToRun {
            workload: Workload::Rr,
            asked: options.restrictions(),
        });
    }
    let transports = [Transport::Tcp, Transport::Udp];
    let lines = paths.len() * transports.len();
    let others: usize = paths
        .iter()
        .map(|&path| seated(path, options).0.len().saturating_sub(1))
        .sum();
    let others = others * transports.len() * BESIDE;
    let sizes = match &options.sizes {
        Some(sizes) => sizes.clone(),
        None => default_sizes(affordable(context.remaining(), lines, others)),
    };
    let few: Vec<usize> = present::some(sizes.len(), BESIDE)
        .into_iter()
        .map(|at| sizes[at])
        .collect();
    let mut subjects = Vec::with_capacity(lines * sizes.len() + others);
    let (mut panels, mut beside) = (Vec::new(), Vec::new());
    let mut unseated = None;
    for &path in &paths {
        let first = mode(path, options);
        let (modes, refusal) = seated(path, options);
        unseated = unseated.or(refusal);
        for transport in transports {
            for &mode in &modes {
                let (to, sizes) = if Some(mode) == first {
                    (&mut panels, &sizes)
                } else {
                    (&mut beside, &few)
                };
                to.push(Panel::new(path, transport, mode, sizes, &mut subjects));
            }
        }
    }
    let categories = options.categories.clone().unwrap_or_else(Categories::kay);
    let mut classifier = Classifier::new(categories.clone());
    let mut enough = |survey: &Survey| {
        for panel in &mut panels {
            panel.take(survey, &mut classifier);
        }
        known(&panels, categories.categories.len())
    };
    let survey = match sampled::survey_until(experiment, subjects, EACH, &mut enough, context)? {
        Sampled::Measured(survey) => survey,
        Sampled::Unavailable(reason) => return Ok(Sampled::Unavailable(reason)),
    };
    for panel in panels.iter_mut().chain(&mut beside) {
        // Anew: what was usual in the whole run is known only now.
        panel.splits = vec![Vec::new(); panel.sizes.len()];
        panel.take(&survey, &mut classifier);
        panel.failures = (panel.first..panel.first + panel.sizes.len())
            .map(|at| survey.observed[at].failure.clone())
            .collect();
    }
    Ok(Sampled::Measured(Echoes {
        wanted: options.sizes.as_ref().map_or(SIZES, Vec::len),
        survey,
        categories,
        sizes,
        panels,
        beside,
        unseated,
    }))
}

/// Count of sizes of each line that fit the time, beside so many others.
fn affordable(remaining: Option<Duration>, lines: usize, others: usize) -> usize {
    let Some(remaining) = remaining else {
        return SIZES;
    };
    let remaining = remaining.saturating_sub(LEAST * u32::try_from(others).unwrap_or(u32::MAX));
    let each = LEAST.as_nanos() * lines.max(1) as u128;
    usize::try_from(remaining.as_nanos() / each)
        .unwrap_or(SIZES)
        .clamp(FEWEST, SIZES)
}

/// Tells whether the standard error of every category, averaged over the sizes, is below the bar on every panel. That asks more than the
/// average over all of them, which is what the bar is for: with time left, the small ones become better known too.
fn known(panels: &[Panel], categories: usize) -> bool {
    let average = |errors: Vec<f64>| errors.iter().sum::<f64>() / errors.len() as f64;
    panels.iter().all(|panel| {
        (0..categories)
            .map(|category| panel.relative_errors(category))
            .filter(|errors| !errors.is_empty())
            .all(|errors| average(errors) < STANDARD_ERROR)
    })
}

impl Panel {
    /// One without rounds, whose subjects join the others.
    fn new(
        path: PathId,
        transport: Transport,
        mode: Mode,
        sizes: &[usize],
        subjects: &mut Vec<Subject>,
    ) -> Self {
        let first = subjects.len();
        subjects.extend(sizes.iter().map(|&size| {
            // What is not timed would be sampled: no warm-up.
            let spec = Spec {
                warmup: 0,
                ..Spec::new(Workload::Rr, size)
            };
            Subject {
                label: format!("{path}, {mode}, {transport}, {}", format::bytes(size)),
                path,
                spec: spec.with_mode(mode.placement, mode.waiting).over(Sockets {
                    transport,
                    ..Sockets::PLAIN
                }),
            }
        }));
        Self {
            path,
            transport,
            mode,
            sizes: sizes.to_vec(),
            splits: vec![Vec::new(); sizes.len()],
            failures: Vec::new(),
            first,
        }
    }

    /// Sorts the rounds that it has not seen yet.
    fn take(&mut self, survey: &Survey, classifier: &mut Classifier) {
        for (at, splits) in self.splits.iter_mut().enumerate() {
            let more = survey.splits_since(self.first + at, splits.len(), classifier);
            splits.extend(more);
        }
    }

    /// The relative standard errors of a category, over the sizes at which it takes more than a negligible part.
    pub(crate) fn relative_errors(&self, category: usize) -> Vec<f64> {
        (0..self.splits.len())
            .filter_map(|at| {
                let mean = self.mean(at, |split| split.category_ns(category))?;
                let total = self.mean(at, Split::total_ns)?;
                (mean.value >= NEGLIGIBLE * total.value)
                    .then(|| mean.relative_error())
                    .flatten()
            })
            .collect()
    }

    /// The heading of its tables.
    pub(crate) fn name(&self, echoes: &Echoes) -> String {
        let protocol = self.transport.name().to_uppercase();
        if echoes.panels.iter().any(|other| other.path != self.path) {
            format!("{protocol}, {}", self.path)
        } else {
            protocol
        }
    }

    /// The mean over the rounds of a figure for each message that is received and sent back, at the size of this place.
    pub(crate) fn mean(&self, at: usize, figure: impl Fn(&Split) -> f64) -> Option<Mean> {
        let values: Vec<f64> = self.splits[at]
            .iter()
            .map(|split| figure(split) / messages(split))
            .collect();
        Mean::of(&values)
    }

    /// The mean of a share of the total, 0 to 100.
    pub(crate) fn percent(&self, at: usize, part: impl Fn(&Split) -> f64) -> Option<Mean> {
        let values: Vec<f64> = self.splits[at]
            .iter()
            .filter(|split| split.total_ns() > 0.0)
            .map(|split| 100.0 * part(split) / split.total_ns())
            .collect();
        Mean::of(&values)
    }
}

/// Messages that were received and sent back: two for each round trip, one at each end.
fn messages(split: &Split) -> f64 {
    2.0 * split.operations.max(1) as f64
}

/// ns of the categories that touch data.
pub(crate) fn touching_ns(categories: &Categories, split: &Split) -> f64 {
    let places = categories.categories.iter().enumerate();
    places
        .filter(|(_, category)| category.touches_data)
        .map(|(at, _)| split.category_ns(at))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_evenly_spaced_from_one_byte_to_the_largest() {
        let sizes = default_sizes(SIZES);
        assert_eq!((sizes[0], sizes[1], sizes[39]), (1, 211, 8_192));
        for pair in sizes.windows(2) {
            assert!((209..=211).contains(&(pair[1] - pair[0])), "{pair:?}");
        }
        assert_eq!(default_sizes(FEWEST).first(), Some(&1));
        assert_eq!(default_sizes(FEWEST).last(), Some(&8_192));
    }

    #[test]
    fn little_time_gives_fewer_sizes() {
        assert_eq!(affordable(None, 2, 0), 40);
        assert_eq!(affordable(Some(Duration::from_secs(100)), 2, 0), 40);
        assert_eq!(affordable(Some(Duration::from_secs(16)), 2, 0), 10);
        assert_eq!(affordable(Some(Duration::from_secs(16)), 2, 5), 7);
        assert_eq!(affordable(Some(Duration::ZERO), 2, 0), FEWEST);
    }
}
