//! Rounds of sessions: a variant against its control, both opened anew.
//!
//! In a round both are opened, with the buffers of their applications at places that are drawn. Then they take turns: one, the other,
//! the other, the one. So a slope in time falls on both alike. Who is opened first and who takes the first turn is drawn as well. The
//! faster of a session's two slices counts, since other work on the processor only ever adds time (Chen and Revels, "Robust benchmarking
//! in noisy environments", 2016).
//!
//! It owns what sessions showed. It must never decide which cell is next.

use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate_run::{Workload, format};
use tollgate_stats::{self as stats, Estimate, Samples, StatsError};
use tollgate_workload::{Session, placed};

use super::{Limits, Rounds};
use crate::context::{Context, ITERATIONS};
use crate::control::between_slices;
use crate::error::Error;
use crate::interleave::Matrix;
use crate::outcome::Outcome;

/// Time that a slice takes at least, unless fewer iterations are wanted. Slices of a session repeat each other within 1 %, and sessions
/// do not, so short slices leave time for many sessions.
const SLICE_NS: f64 = 150_000.0;
/// The part of what opening both sessions takes that a slice runs at least: a round of four slices then runs as long as it opens.
const OF_OPENING: f64 = 0.25;
/// Iterations of a pilot's first slice: one, since it may have to wait for a timer.
const PILOT: u64 = 1;
/// A pilot goes on, by twice as many iterations, until a slice takes this long.
const PILOT_NS: u64 = 100_000;
/// Round trips at the start of a slice that are not timed, where one takes longer than [`SLOW_NS`].
const WARMUP_OF_SLOW: u32 = 0;
/// See [`WARMUP_OF_SLOW`]: they wait for timers, and caches that others have emptied are no matter.
const SLOW_NS: f64 = 1_000_000.0;
/// The seed of orders and places, the same in every run.
const SEED: u64 = 18;

/// A variant at a size, and the control that it is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pair {
    /// Place of the variant in the matrix.
    pub(crate) variant: usize,
    /// Place of its control.
    pub(crate) control: usize,
    /// Place of the size.
    pub(crate) at: usize,
}

/// Results of all rounds.
#[derive(Debug, Clone)]
pub(crate) struct Paired {
    /// Time of each variant by itself. A control's sessions are those of all pairs.
    pub(crate) outcome: Outcome,
    /// The pairs, each with its quotients.
    pub(crate) pairs: Vec<(Pair, Vec<f64>)>,
}

impl Paired {
    /// Quotient of a variant's time and its control's.
    ///
    /// # Errors
    /// [`StatsError::TooFew`] of fewer than six rounds.
    pub(crate) fn ratio(&self, variant: usize, at: usize) -> Result<Estimate, StatsError> {
        let mut pairs = self.pairs.iter();
        let found = pairs.find(|(pair, _)| pair.variant == variant && pair.at == at);
        stats::median(found.map_or(&[], |(_, quotients)| quotients))
    }

    /// The fewest and the most rounds of a pair.
    pub(crate) fn rounds(&self) -> Option<[usize; 2]> {
        let rounds = || self.pairs.iter().map(|(_, quotients)| quotients.len());
        rounds()
            .min()
            .zip(rounds().max())
            .map(|(least, most)| [least, most])
    }
}

/// Runs each pair of variants at each size.
///
/// # Errors
/// [`Error::Stopped`] when the user stopped it before anything was measured, [`Error::NothingMeasured`] when every variant
/// failed at every size.
pub(crate) fn run(
    experiment: &'static str,
    matrix: Matrix,
    pairs: Vec<Pair>,
    sizes: &[usize],
    context: &Context<'_>,
) -> Result<Paired, Error> {
    let begun = Instant::now();
    let until = context.remaining();
    let mut sessions = Sessions {
        context,
        outcome: Outcome::new(matrix, sizes.to_vec()),
        plans: vec![None; pairs.len()],
        pairs: pairs.clone(),
        random: ChaCha8Rng::seed_from_u64(SEED),
        begun,
        until,
        made: 0,
        rounds: 0,
    };
    let limits = Limits {
        until,
        most: context.options.repetitions,
    };
    let quotients = super::run(&mut sessions, pairs.len(), limits);
    let least = sessions.takes(ROUNDS);
    let mut outcome = sessions.outcome;
    outcome.stopped = context.cancel.is_raised();
    if outcome.is_empty() {
        return Err(match (outcome.first_failure(), until) {
            _ if outcome.stopped => Error::Stopped,
            (Some(reason), _) => Error::NothingMeasured { experiment, reason },
            (None, Some(left)) => Error::NoTime {
                experiment,
                least,
                left,
            },
            (None, None) => Error::Stopped,
        });
    }
    Ok(Paired {
        outcome,
        pairs: pairs.into_iter().zip(quotients).collect(),
    })
}

/// Rounds of each pair in the least time that tells something: two of the trial, and six that make an interval.
const ROUNDS: u32 = 8;
/// The most by which the fewest rounds may take longer than the time that there is.
const LATE: Duration = Duration::from_secs(5);

/// Manner in which a session of a pair is run.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// Iterations of a slice.
    iterations: u64,
    warmup: u32,
}

struct Sessions<'a> {
    context: &'a Context<'a>,
    outcome: Outcome,
    pairs: Vec<Pair>,
    /// Of each pair, its control's plan and the variant's; none before its pilot.
    plans: Vec<Option<[Plan; 2]>>,
    random: ChaCha8Rng,
    begun: Instant,
    /// The time that there is, from then on.
    until: Option<Duration>,
    /// Rounds of all pairs, those of the trial included.
    made: u32,
    /// Rounds of all pairs.
    rounds: u32,
}

impl Sessions<'_> {
    fn open(
        &self,
        variant: usize,
        at: usize,
        warmup: u32,
        places: [usize; 2],
    ) -> Result<Box<dyn Session>, Failure> {
        let who = &self.outcome.matrix.variants[variant];
        let mut spec = who
            .spec(
                self.outcome.matrix.workload,
                self.outcome.sizes[at],
                self.context,
            )
            .with_places(places);
        spec.warmup = warmup;
        match who.open(&spec, self.context) {
            Some(Ok(session)) => Ok(session),
            Some(Err(error)) => Err(Failure(variant, error.to_string())),
            None => Err(Failure(variant, format!("there is no {} here", who.path))),
        }
    }

    /// Finds how long slices of a pair are to be.
    fn pilot(&mut self, cell: usize) -> Result<[Plan; 2], Failure> {
        let pair = self.pairs[cell];
        let wanted = self.context.options.iterations.unwrap_or(ITERATIONS).max(2) / 2;
        let mut costs = [0.0; 2];
        let begun = Instant::now();
        let mut opening = Duration::ZERO;
        for (cost, variant) in costs.iter_mut().zip([pair.control, pair.variant]) {
            let before = begun.elapsed();
            let mut session = self.open(variant, pair.at, WARMUP_OF_SLOW, [0; 2])?;
            opening += begun.elapsed() - before;
            let mut iterations = PILOT;
            *cost = loop {
                let mut samples = session.new_samples();
                let ran = session.run(iterations, &mut samples);
                ran.map_err(|error| Failure(variant, error.to_string()))?;
                if samples.elapsed_ns() >= PILOT_NS || iterations >= wanted {
                    break samples.elapsed_ns().max(1) as f64 / iterations as f64;
                }
                iterations *= 2;
            };
            let measurement = &mut self.outcome.measurements[variant][pair.at];
            if measurement.settings.is_empty() {
                measurement.settings = session.settings();
            }
        }
        let slice = SLICE_NS.max(OF_OPENING * opening.as_nanos() as f64);
        let usual = tollgate_workload::Spec::new(self.outcome.matrix.workload, 1).warmup;
        Ok(costs.map(|cost| Plan {
            iterations: ((slice / cost) as u64).clamp(1, wanted),
            warmup: if cost > SLOW_NS {
                WARMUP_OF_SLOW
            } else {
                usual
            },
        }))
    }

    /// A round of a pair: what the variant takes over what its control does.
    fn pair(&mut self, cell: usize, is_trial: bool) -> Result<f64, Failure> {
        let pair = self.pairs[cell];
        let plans = match self.plans[cell] {
            Some(plans) => plans,
            None => {
                let plans = self.pilot(cell)?;
                self.plans[cell] = Some(plans);
                plans
            }
        };
        let places = [(); 2]
            .map(|()| placed::STEP * self.random.random_range(0..placed::PAGE / placed::STEP));
        let who = [pair.control, pair.variant];
        let first = usize::from(self.random.random::<bool>());
        let mut open = [None, None];
        for side in [first, 1 - first] {
            open[side] = Some(self.open(who[side], pair.at, plans[side].warmup, places)?);
        }
        let mut fastest = [f64::INFINITY; 2];
        // Either may come first, since the first slice finds all cold, and the third what its own has just left.
        let [a, b] = if self.random.random::<bool>() {
            [0, 1]
        } else {
            [1, 0]
        };
        for (slice, side) in (0..).zip([a, b, b, a]) {
            let Some(session) = &mut open[side] else {
                continue;
            };
            let mut samples = session.new_samples();
            let before = session.input_counts();
            let ran = session.run(plans[side].iterations, &mut samples);
            ran.map_err(|error| Failure(who[side], error.to_string()))?;
            let figure = figure(self.outcome.matrix.workload, &samples);
            fastest[side] = fastest[side].min(figure);
            if !is_trial {
                let measurement = &mut self.outcome.measurements[who[side]][pair.at];
                measurement.add_slice((self.rounds, slice), &samples);
                if let (Some(before), Some(after)) = (before, session.input_counts()) {
                    measurement.add_input(&before, &after);
                }
            }
        }
        self.rounds += 1;
        Ok(fastest[1] / fastest[0])
    }
}

/// Time of an operation of a slice, in nanoseconds. Of a stream it is a part of the whole: a write that only fills a buffer is as quick as
/// another one is slow, which empties it.
fn figure(workload: Workload, samples: &Samples) -> f64 {
    let ns = match workload {
        Workload::Stream => {
            let operations = samples.operations();
            (operations > 0).then(|| samples.elapsed_ns() as f64 / operations as f64)
        }
        Workload::Rr | Workload::Crr => samples.interquartile_mean_ns(),
    };
    ns.map_or(f64::NAN, |ns| ns.max(f64::MIN_POSITIVE))
}

/// The place of the variant that failed, and the reason.
struct Failure(usize, String);

impl Sessions<'_> {
    /// The time that so many rounds of each pair take, by those that were made.
    fn takes(&self, rounds: u32) -> Duration {
        let each = self.begun.elapsed() / self.made.max(1);
        each * rounds * self.pairs.len() as u32
    }
}

impl Rounds for Sessions<'_> {
    fn round(&mut self, cell: usize, is_trial: bool) -> Option<f64> {
        let at = self.pairs[cell].at;
        let what = format!(
            "{}{}",
            if is_trial { "trial, " } else { "" },
            format::size(self.outcome.sizes[at])
        );
        between_slices(
            self.context,
            &what,
            self.context.remaining().unwrap_or_default(),
        );
        self.made += 1;
        match self.pair(cell, is_trial) {
            Ok(quotient) => Some(quotient),
            Err(Failure(variant, reason)) => {
                // A signal that stops the run may reach a second process first.
                if !self.context.cancel.is_raised() {
                    let measurement = &mut self.outcome.measurements[variant][at];
                    measurement.failure.get_or_insert(reason);
                }
                None
            }
        }
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn is_stopped(&self) -> bool {
        let is_late = |until| self.now() > until + LATE;
        self.context.cancel.is_raised() || self.until.is_some_and(is_late)
    }
}
