//! Measures where the processor time of kernel workloads goes, by sampling: several subjects side by side, in rounds.
//!
//! A round gives every subject one slice with the sampler and a shorter one without, in random order, so that what is compared was
//! measured within the same seconds. Samples tell how processor time is shared out; how much there is to share out is what the
//! process's clock counted without the sampler, since a timer's interrupt may cost more than what it interrupts. A subject's figure
//! is the mean over the rounds, each brought to the speed that was usual ([`crate::drift`]); its standard error is that of the
//! rounds' figures. Where this machine does not allow sampling, the reason is kept and nothing
//! is measured in its place.
//!
//! This module takes times and keeps them. It decides neither what is compared nor what is said of it.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tollgate_run::{Cell, Interval, Measured, PathId};
use tollgate_sampling::{
    Breakdown, CallPaths, Categories, Classifier, Clock, Mode, Profile, RATE, Sampler, Symbols,
    TaskKind,
};
use tollgate_stats as stats;
use tollgate_workload::cores::Cores;
use tollgate_workload::{Session, Spec, find};

use crate::context::Context;
use crate::control::between_slices;
use crate::drift::Drift;
use crate::error::Error;
use crate::order::Order;

mod trust;

/// Rounds when there is time for them. Many short ones rather than a few long ones: a stream between two processors keeps to one way
/// of taking turns for tens of milliseconds, so that longer slices hardly differ less.
const ROUNDS: u32 = 24;
/// The fewest, whatever the time: a standard error needs some.
const LEAST_ROUNDS: u32 = 4;
/// The most, where the error decides how many there are.
const MOST_ROUNDS: u32 = 4 * ROUNDS;
/// The shortest slice that is worth its start.
const SHORTEST: Duration = Duration::from_millis(15);
/// A slice without the sampler is this part of one with it.
const PLAIN: f64 = 0.3;
/// The fewest operations of a slice, so that starting and ending it does not count.
const LEAST_OPERATIONS: u64 = 256;
/// Operations of a pilot.
const PILOT: u64 = 16;
/// A pilot that took less is run again for this long.
const PILOT_NS: f64 = 2e6;

/// Something whose processor time is measured.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    /// Its name in progress and warnings.
    pub(crate) label: String,
    pub(crate) path: PathId,
    pub(crate) spec: Spec,
}

/// One slice with the sampler.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    pub(crate) profile: Profile,
    pub(crate) operations: u64,
    /// User bytes that were carried.
    pub(crate) bytes: u64,
    /// Processor time of this process, as its clock has it.
    cpu_ns: f64,
    /// The processor time of each operation in the neighbouring slice without the sampler.
    plain_ns: f64,
    /// The elapsed time of each operation in that slice.
    plain_elapsed_ns: f64,
    /// The slowness of the machine in this round, over the mean.
    slowness: f64,
}

/// Measurement of one subject.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) rounds: Vec<Round>,
    /// The reason why it failed.
    pub(crate) failure: Option<String>,
    /// The session's settings, as names and values.
    pub(crate) settings: Vec<(&'static str, String)>,
}

/// Measurements of all subjects.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) subjects: Vec<Subject>,
    pub(crate) observed: Vec<Observed>,
    pub(crate) call_paths: CallPaths,
    pub(crate) clock: Clock,
    /// Samples per second and processor.
    pub(crate) rate: u32,
    /// Processors that are sampled, those of all subjects.
    processors: Vec<usize>,
    /// The drift of the machine's speed from round to round.
    pub(crate) drift: Drift,
    /// The user stopped it.
    pub(crate) stopped: bool,
}

/// Result of sampling, where this machine allows it.
#[derive(Debug)]
pub(crate) enum Sampled<T> {
    /// The measurement.
    Measured(T),
    /// This machine does not allow sampling; the reason, and what would.
    Unavailable(String),
}

/// Says whether what was measured so far is known well enough.
pub(crate) type Judge<'a> = &'a mut dyn FnMut(&Survey) -> bool;

/// Measures the subjects, for `each` unless there is less time.
///
/// # Errors
/// Those of [`survey_until`].
pub(crate) fn survey(
    experiment: &'static str,
    subjects: Vec<Subject>,
    each: Duration,
    context: &Context<'_>,
) -> Result<Sampled<Survey>, Error> {
    measure(experiment, subjects, each, None, context)
}

/// Measures the subjects until they are known well enough, as long as there is time: `each` gives the length of slices, of which
/// there are at least [`LEAST_ROUNDS`] and at most [`MOST_ROUNDS`] of every subject.
///
/// # Errors
/// [`Error::Stopped`] when the user stopped it before anything was measured, [`Error::NothingMeasured`] when every subject
/// failed.
pub(crate) fn survey_until(
    experiment: &'static str,
    subjects: Vec<Subject>,
    each: Duration,
    enough: Judge<'_>,
    context: &Context<'_>,
) -> Result<Sampled<Survey>, Error> {
    measure(experiment, subjects, each, Some(enough), context)
}

fn measure(
    experiment: &'static str,
    mut subjects: Vec<Subject>,
    each: Duration,
    enough: Option<Judge<'_>>,
    context: &Context<'_>,
) -> Result<Sampled<Survey>, Error> {
    for subject in &mut subjects {
        subject.spec.mechanisms.nagle = context.options.mechanisms.nagle;
    }
    let cpus = processors(&subjects)?;
    let opened = Symbols::read()
        .map_err(|error| error.to_string())
        .and_then(
            |symbols| match Sampler::open(&cpus, context.options.rate.unwrap_or(RATE)) {
                Ok(sampler) => Ok((symbols, sampler)),
                Err(error) => Err(error.to_string()),
            },
        );
    let (symbols, sampler) = match opened {
        Ok(opened) => opened,
        Err(reason) => return Ok(Sampled::Unavailable(reason)),
    };
    let mut tour = Tour {
        context,
        survey: Survey {
            observed: subjects.iter().map(|_| Observed::default()).collect(),
            subjects,
            call_paths: CallPaths::new(symbols),
            clock: sampler.clock(),
            rate: sampler.rate(),
            processors: cpus,
            drift: Drift::default(),
            stopped: false,
        },
        sampler,
        sessions: Vec::new(),
        costs: Vec::new(),
    };
    let toured = tour.open().and_then(|()| tour.rounds(each, enough));
    if let Err(reason) = toured {
        return Err(Error::NothingMeasured { experiment, reason });
    }
    let mut survey = tour.survey;
    survey.stopped = context.cancel.is_raised();
    if survey.observed.iter().all(|one| one.rounds.is_empty()) {
        let failure = survey.observed.iter().find_map(|one| one.failure.clone());
        return Err(match failure {
            Some(reason) if !survey.stopped => Error::NothingMeasured { experiment, reason },
            _ => Error::Stopped,
        });
    }
    Ok(Sampled::Measured(survey))
}

/// The processors on which any of the subjects runs.
fn processors(subjects: &[Subject]) -> Result<Vec<usize>, tollgate_workload::Error> {
    let mut cpus = Vec::new();
    for subject in subjects {
        let cores = Cores::choose(subject.spec.placement)?;
        for cpu in [cores.client, cores.server] {
            if !cpus.contains(&cpu) {
                cpus.push(cpu);
            }
        }
    }
    Ok(cpus)
}

/// A survey under way.
struct Tour<'a> {
    context: &'a Context<'a>,
    survey: Survey,
    sampler: Sampler,
    sessions: Vec<Option<Box<dyn Session>>>,
    /// ns per operation of each subject; infinite where it failed.
    costs: Vec<f64>,
}

impl Tour<'_> {
    fn fail(&mut self, at: usize, error: &tollgate_workload::Error) {
        if !self.context.cancel.is_raised() {
            let failure = &mut self.survey.observed[at].failure;
            failure.get_or_insert_with(|| error.to_string());
        }
        self.sessions[at] = None;
        self.costs[at] = f64::INFINITY;
    }

    fn open(&mut self) -> Result<(), String> {
        let subjects = self.survey.subjects.clone();
        for (at, subject) in subjects.iter().enumerate() {
            self.sessions.push(None);
            self.costs.push(f64::INFINITY);
            if self.context.cancel.is_raised() {
                continue;
            }
            between_slices(
                self.context,
                "pilot",
                self.context.remaining().unwrap_or_default(),
            );
            let Some(path) = find(subject.path) else {
                continue;
            };
            match path.open(&subject.spec) {
                Ok(session) => self.sessions[at] = Some(session),
                Err(error) => {
                    self.fail(at, &error);
                    continue;
                }
            }
            let Some(session) = &mut self.sessions[at] else {
                continue;
            };
            // With the sampler, as the slices whose length it gives; what it saw is of no use.
            self.sampler.start().map_err(|error| error.to_string())?;
            let cost = pilot(session.as_mut());
            self.sampler.stop().map_err(|error| error.to_string())?;
            self.sampler
                .drain(&mut self.survey.call_paths, &mut Profile::default());
            match cost {
                Ok(ns) => self.costs[at] = ns,
                Err(error) => self.fail(at, &error),
            }
        }
        Ok(())
    }

    fn rounds(&mut self, each: Duration, mut enough: Option<Judge<'_>>) -> Result<(), String> {
        let running = self.costs.iter().filter(|cost| cost.is_finite()).count();
        let count = u32::try_from(running.max(1)).unwrap_or(u32::MAX);
        let budget = self.context.remaining().map(|left| left / count);
        let each = budget.map_or(each, |budget| budget.min(each));
        let longest = Duration::from_secs_f64(self.sampler.longest_s());
        let whole = each.div_f64(1.0 + PLAIN);
        let rounds = (whole.as_nanos() / SHORTEST.as_nanos()) as u32;
        let rounds = rounds.clamp(LEAST_ROUNDS, ROUNDS);
        let slice = (whole / rounds).min(longest).max(Duration::from_millis(1));
        let begun = Instant::now();
        let expected = each * count;
        let most = enough.as_ref().map_or(rounds, |_| MOST_ROUNDS);
        let mut order = Order::new();
        for round in 0..most {
            // The least number is made however slow the machine turns out to be.
            if round >= LEAST_ROUNDS
                && (self.context.remaining() == Some(Duration::ZERO)
                    || enough.as_mut().is_some_and(|enough| enough(&self.survey)))
            {
                return Ok(());
            }
            for at in order.of(self.sessions.len()) {
                if self.context.cancel.is_raised() {
                    return Ok(());
                }
                let what = format!(
                    "{} of {rounds}, {}",
                    round + 1,
                    self.survey.subjects[at].label
                );
                between_slices(
                    self.context,
                    &what,
                    expected.saturating_sub(begun.elapsed()),
                );
                self.slice(at, slice)?;
            }
            self.note_speed(round as usize);
        }
        Ok(())
    }

    /// Finds out how slow the machine was in a round, by the slices of all subjects without the sampler, and brings all rounds to
    /// the speed that was usual so far.
    fn note_speed(&mut self, round: usize) {
        let observed = &mut self.survey.observed;
        let plain_ns: Vec<_> = observed
            .iter()
            .map(|one| Some(one.rounds.get(round)?.plain_ns))
            .collect();
        let before = self.survey.drift.mean();
        let slowness = self.survey.drift.note(&plain_ns);
        let usual = self.survey.drift.mean();
        for one in observed {
            for (at, one) in one.rounds.iter_mut().enumerate() {
                one.slowness = if at == round {
                    slowness / usual
                } else {
                    one.slowness * before / usual
                };
            }
        }
    }

    /// One slice of one subject without the sampler, and one with it.
    fn slice(&mut self, at: usize, time: Duration) -> Result<(), String> {
        let iterations = (time.as_nanos() as f64 / self.costs[at]) as u64;
        let Some(session) = &mut self.sessions[at] else {
            return Ok(());
        };
        let iterations = iterations.max(LEAST_OPERATIONS);
        let fewer = ((iterations as f64 * PLAIN) as u64).max(LEAST_OPERATIONS);
        let cpu = processor_ns(ClockId::ProcessCPUTime);
        let mut plain = session.new_samples();
        if let Err(error) = session.run(fewer, &mut plain) {
            self.fail(at, &error);
            return Ok(());
        }
        let plain_ns = (processor_ns(ClockId::ProcessCPUTime) - cpu) / fewer as f64;
        let plain_elapsed_ns = plain.elapsed_ns() as f64 / fewer as f64;
        let mut samples = session.new_samples();
        let mut profile = Profile::default();
        let cpu = processor_ns(ClockId::ProcessCPUTime);
        self.sampler.start().map_err(|error| error.to_string())?;
        let outcome = session.run(iterations, &mut samples);
        self.sampler.stop().map_err(|error| error.to_string())?;
        let cpu_ns = processor_ns(ClockId::ProcessCPUTime) - cpu;
        self.survey.observed[at].settings = session.settings();
        self.sampler
            .drain(&mut self.survey.call_paths, &mut profile);
        if let Err(error) = outcome {
            self.fail(at, &error);
            return Ok(());
        }
        let observed = &mut self.survey.observed[at];
        observed.rounds.push(Round {
            profile,
            operations: samples.operations(),
            bytes: samples.bytes(),
            cpu_ns,
            plain_ns,
            plain_elapsed_ns,
            slowness: 1.0,
        });
        // What the pilot found changes as caches and congestion windows warm up.
        self.costs[at] = samples.elapsed_ns().max(1) as f64 / samples.operations().max(1) as f64;
        Ok(())
    }
}

/// Processor time so far by one of the system's clocks of it, in ns.
pub(crate) fn processor_ns(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Cost of an operation, in ns.
fn pilot(session: &mut dyn Session) -> Result<f64, tollgate_workload::Error> {
    let mut operations = PILOT;
    loop {
        let mut samples = session.new_samples();
        session.run(operations, &mut samples)?;
        let ns = samples.elapsed_ns().max(1) as f64;
        let cost = ns / operations as f64;
        let more = (PILOT_NS / cost) as u64;
        if more <= 2 * operations {
            return Ok(cost);
        }
        operations = more;
    }
}

impl Round {
    /// ns for each unit of weight, so that all samples of this process last as long as its operations do without the sampler, on
    /// the machine as it usually was.
    fn ns_per_weight(&self) -> f64 {
        match self.own_weight() {
            0 => 0.0,
            own => self.normalised_ns() * self.operations as f64 / own as f64,
        }
    }

    /// Processor time of an operation without the sampler, on the machine as it usually was, in ns.
    fn normalised_ns(&self) -> f64 {
        self.plain_ns / self.slowness
    }

    /// Processor time of both ends for each time that passed, without the sampler: 1 is one processor busy all the time.
    pub(crate) fn utilisation(&self) -> f64 {
        self.plain_ns / self.plain_elapsed_ns.max(1.0)
    }

    /// Bytes per second, without the sampler.
    pub(crate) fn throughput(&self) -> f64 {
        let each = self.bytes as f64 / self.operations.max(1) as f64;
        each * 1e9 / self.plain_elapsed_ns.max(1.0)
    }

    fn own_weight(&self) -> u64 {
        let count = |mode| self.profile.count(TaskKind::Workload, mode).weight;
        count(Mode::Kernel) + count(Mode::User)
    }
}

/// A round's samples by category, in ns.
#[derive(Debug, Clone)]
pub(crate) struct Split {
    pub(crate) breakdown: Breakdown,
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    ns_per_weight: f64,
    /// Weights of samples on the processors that the ends run on: idle, and of other processes.
    idle: u64,
    foreign: u64,
    /// The time of these processors, by the clock and without the sampler, in ns.
    pub(crate) whole_ns: f64,
}

impl Split {
    /// The workload's samples of a round, without those of others.
    fn new(round: &Round, breakdown: Breakdown) -> Self {
        Self {
            breakdown,
            operations: round.operations,
            bytes: round.bytes,
            ns_per_weight: round.ns_per_weight(),
            idle: 0,
            foreign: 0,
            whole_ns: 0.0,
        }
    }

    /// A weight of this round's breakdown in ns.
    pub(crate) fn ns(&self, weight: u64) -> f64 {
        weight as f64 * self.ns_per_weight
    }

    /// ns of the category at this place; behind the last, of what no rule covers.
    pub(crate) fn category_ns(&self, category: usize) -> f64 {
        let count = match self.breakdown.shares.get(category) {
            Some(share) => share.count,
            None => self.breakdown.other,
        };
        self.ns(count.weight)
    }

    /// ns of the programs that talk, and of what this process does to measure.
    pub(crate) fn application_ns(&self) -> f64 {
        self.ns(self.breakdown.user.weight + self.breakdown.excluded.weight)
    }

    /// ns of other processes on the ends' processors.
    pub(crate) fn foreign_ns(&self) -> f64 {
        self.ns(self.foreign)
    }

    /// ns in which the ends' processors were idle.
    pub(crate) fn idle_ns(&self) -> f64 {
        self.ns(self.idle)
    }

    /// ns of all of these.
    pub(crate) fn sampled_ns(&self) -> f64 {
        self.total_ns() + self.application_ns() + self.foreign_ns() + self.idle_ns()
    }

    /// ns of all categories and of what no rule covers.
    pub(crate) fn total_ns(&self) -> f64 {
        self.ns(self.breakdown.total().weight)
    }
}

impl Survey {
    /// The rounds of a subject by category.
    pub(crate) fn splits(&self, subject: usize, classifier: &mut Classifier) -> Vec<Split> {
        self.splits_since(subject, 0, classifier)
    }

    /// The rounds of a subject by category, from this round on.
    pub(crate) fn splits_since(
        &self,
        subject: usize,
        round: usize,
        classifier: &mut Classifier,
    ) -> Vec<Split> {
        let cpus = processors(&self.subjects[subject..=subject]).unwrap_or_default();
        let split = |round: &Round| {
            let all = classifier.breakdown(&self.call_paths, &round.profile);
            let split = Split::new(round, all);
            let here = if cpus.len() == self.processors.len() {
                split.breakdown.clone()
            } else {
                classifier
                    .breakdown_where(&self.call_paths, &round.profile, |cpu| cpus.contains(&cpu))
            };
            let elapsed_ns = round.plain_elapsed_ns / round.slowness * round.operations as f64;
            Split {
                idle: here.idle.weight,
                foreign: here.foreign.weight,
                whole_ns: cpus.len() as f64 * elapsed_ns,
                ..split
            }
        };
        let rounds = &self.observed[subject].rounds;
        rounds.iter().skip(round).map(split).collect()
    }

    /// The rounds of a subject by category, of those samples only that another classifier gives to one of its categories.
    pub(crate) fn splits_of(
        &self,
        subject: usize,
        (cut, piece): (&mut Classifier, usize),
        classifier: &mut Classifier,
    ) -> Vec<Split> {
        let mut split = |round: &Round| {
            let mut pieces = cut.pieces(&self.call_paths, &round.profile);
            let breakdown = classifier.breakdown(&self.call_paths, &pieces.swap_remove(piece));
            Split::new(round, breakdown)
        };
        let rounds = self.observed[subject].rounds.iter();
        rounds.map(&mut split).collect()
    }

    /// All samples together.
    pub(crate) fn all(&self) -> Profile {
        let mut all = Profile::default();
        for round in self.observed.iter().flat_map(|one| &one.rounds) {
            all.merge(&round.profile);
        }
        all
    }

    /// Samples by category, all subjects together.
    pub(crate) fn breakdown(&self, categories: &Categories) -> Breakdown {
        Classifier::new(categories.clone()).breakdown(&self.call_paths, &self.all())
    }

    /// The processor time of this process by its samples, over that by its clock: 1 when they agree.
    pub(crate) fn agreement(&self) -> Option<f64> {
        if self.clock != Clock::CpuClock {
            return None;
        }
        let rounds = || self.observed.iter().flat_map(|one| &one.rounds);
        let cpu: f64 = rounds().map(|round| round.cpu_ns).sum();
        let own: f64 = rounds().map(|round| round.own_weight() as f64).sum();
        (cpu > 0.0).then(|| own / cpu)
    }

    /// The processor time of an operation with the sampler over that without: the geometric mean over neighbouring slices.
    pub(crate) fn perturbation(&self) -> Option<stats::Estimate> {
        let rounds = self.observed.iter().flat_map(|one| &one.rounds);
        let (with, without): (Vec<f64>, Vec<f64>) = rounds
            .map(|round| {
                (
                    round.cpu_ns / round.operations.max(1) as f64,
                    round.plain_ns,
                )
            })
            .unzip();
        stats::ratio(&with, &without).ok()
    }
}

/// A mean over rounds with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mean {
    pub(crate) value: f64,
    /// The standard error of the mean; none for a single round.
    pub(crate) error: Option<f64>,
    pub(crate) interval: Option<stats::Interval>,
    pub(crate) rounds: u64,
}

impl Mean {
    /// The mean of the rounds' figures; `None` without any.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        match stats::mean(values) {
            Ok(estimate) => Some(Self {
                value: estimate.value,
                error: Some(
                    (estimate.interval.high - estimate.value) / stats::student_t(estimate.n - 1),
                ),
                interval: Some(estimate.interval),
                rounds: estimate.n,
            }),
            Err(_) => values.first().filter(|x| x.is_finite()).map(|&value| Self {
                value,
                error: None,
                interval: None,
                rounds: 1,
            }),
        }
    }

    /// The cell of a table.
    pub(crate) fn cell(&self) -> Cell {
        Cell::Value(Measured {
            value: self.value,
            ci: self.interval(),
            n: Some(self.rounds),
            ..Measured::default()
        })
    }

    /// The 95 % confidence interval.
    pub(crate) fn interval(&self) -> Option<Interval> {
        self.interval.map(|interval| Interval {
            low: interval.low,
            high: interval.high,
        })
    }

    /// The standard error as a part of the mean, 0 to 1 and above.
    pub(crate) fn relative_error(&self) -> Option<f64> {
        (self.value > 0.0).then_some(self.error? / self.value)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_run::{Placement, Waiting, Workload};

    use super::*;
    use crate::context::{Cancel, Options, Silent};

    fn echo(size: usize) -> Subject {
        Subject {
            label: format!("{size}"),
            path: PathId::KernelLoopback,
            spec: Spec::new(Workload::Rr, size).with_mode(Placement::OneCore, Waiting::Blocking),
        }
    }

    /// A survey, or why this machine gives none.
    fn surveyed(subjects: Vec<Subject>, budget: Duration) -> Option<Survey> {
        let mut context =
            Context::new(Options::default(), Some(budget), Cancel::default(), &Silent);
        context.begin("test", 1, 1);
        match survey("test", subjects, Duration::from_secs(1), &context).unwrap() {
            Sampled::Measured(survey) => Some(survey),
            Sampled::Unavailable(reason) => {
                tollgate_skip::skipped!("{reason}");
                None
            }
        }
    }

    #[test]
    fn subjects_take_turns_and_every_round_has_samples() {
        let Some(survey) = surveyed(vec![echo(1), echo(8_192)], Duration::from_millis(600)) else {
            return;
        };
        for observed in &survey.observed {
            assert!(observed.rounds.len() >= LEAST_ROUNDS as usize);
            assert!(observed.rounds.iter().all(|round| round.plain_ns > 0.0));
            assert!(
                observed
                    .rounds
                    .iter()
                    .all(|round| round.profile.samples() > 0)
            );
        }
        let mut classifier = Classifier::new(Categories::kay());
        let splits = survey.splits(1, &mut classifier);
        let all: f64 = (0..=7)
            .map(|category| splits[0].category_ns(category))
            .sum();
        assert!((all - splits[0].total_ns()).abs() < 1.0);
        assert!(survey.breakdown(&Categories::kay()).covered() > Some(0.9));
        assert!(survey.perturbation().is_some());
    }

    #[test]
    fn a_subject_that_fails_leaves_the_others() {
        let mut wrong = echo(1);
        wrong.spec = wrong.spec.with_mode(Placement::OneCore, Waiting::BusyPoll);
        let Some(survey) = surveyed(vec![wrong, echo(1)], Duration::from_millis(200)) else {
            return;
        };
        let failure = survey.observed[0].failure.as_deref();
        assert!(failure.is_some_and(|reason| reason.contains("does not run")));
        assert!(!survey.observed[1].rounds.is_empty());
    }

    #[test]
    fn a_standard_error_is_that_of_the_mean() {
        let mean = Mean::of(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(mean.value, 2.5);
        // The deviation is sqrt(5/3), over sqrt(4).
        assert!((mean.error.unwrap() - 0.645_497).abs() < 1e-4);
        assert!((mean.relative_error().unwrap() - 0.258_199).abs() < 1e-4);
        assert_eq!(Mean::of(&[7.0]).unwrap().error, None);
        assert_eq!(Mean::of(&[]), None);
    }
}
