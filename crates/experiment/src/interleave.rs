//! Runs the variants of a comparison side by side.
//!
//! The order is Wolman's method made fair to a machine that drifts: in a repetition every variant is opened anew at every size (or
//! in every second one, when time is short and opening it takes long), and then they take turns at one size after the other, in several
//! [`slices`] each. Who comes first is drawn, of variants and of sizes ([`crate::order`]). So
//! what is compared, paths and sizes, was measured within the same seconds: a processor that is slower for some of them is so for all,
//! and is not taken for what a size costs. Where that would take more than [`MOST_OPEN`] sessions at once, the sizes make groups, each
//! with small ones and large ones.
//!
//! When there is a time budget, a short pilot measures what an iteration of each variant costs, and the slow ones run fewer
//! iterations (see [`shares`]); later blocks are cut further when the machine turns out to be slower than the pilot said. The pilot
//! and the first blocks have a part of the time each, not a number of iterations: on a busy machine one may take 10 ms. How
//! many iterations were run is kept with the numbers.
//!
//! This module takes times and keeps them. It decides neither what is compared nor what is said of it.

use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use rustix::time::ClockId;
use tollgate_run::{Mode, Offload, PathId, Workload, format, path_and_mode};
use tollgate_workload::{
    CellFaults, LinkKind, Mechanisms, Session, Sockets, Spec, Transport, carries_datagrams,
    find_with_mtu,
};

use crate::context::{Context, ITERATIONS, REPETITIONS};
use crate::control::between_slices;
use crate::error::Error;
use crate::order::Order;
use crate::outcome::{Measurement, Outcome};
use crate::sampled::processor_ns;

/// Slices of each variant in a repetition at a size.
///
/// Of a stream there are fewer and longer ones. Its slice begins with an empty pipe, and until the receive buffer is full each write
/// goes its way alone: over loopback on one core, with writes of 64 bytes, the first 125 take 4 us each and all others 0.5.
pub(crate) const fn slices(workload: Workload) -> u64 {
    match workload {
        Workload::Rr | Workload::Crr => 4,
        Workload::Stream => 2,
    }
}
/// Iterations of a pilot's second slice. The first has one, which may have to wait for a processor.
const PILOT: u64 = 32;
/// The part of the time that the pilot may take.
const PILOT_SHARE: f64 = 0.1;
/// Nanoseconds of an iteration from which on it is slow.
const SLOW_NS: f64 = 1_000_000.0;
/// Iterations at the start of a slice that are not timed, where they are slow: it matters little then whether caches are warm.
const WARMUP_OF_SLOW: u32 = 1;
/// A pilot that took less is run once more for about this long: a stream for longer than its pipe takes to fill (see [`slices`]).
const fn pilot_ns(workload: Workload) -> f64 {
    match workload {
        Workload::Rr | Workload::Crr => 200_000.0,
        Workload::Stream => 4_000_000.0,
    }
}
/// With less time than this for an experiment, sessions that are dear to open serve [`DEAR_SERVES`] repetitions.
const SHORT: Duration = Duration::from_secs(20);
/// A session is dear to open when that takes more than this part of what it runs in a repetition.
const DEAR: f64 = 0.1;
/// Repetitions that a dear session serves. More would leave fewer than three sessions: where its memory lies, a session keeps for
/// life, and one session alone would have that taken for what a path costs.
const DEAR_SERVES: u32 = 2;
/// The most sessions that are open at once when they are opened anew: each takes descriptors, and often a thread or a process.
pub(crate) const MOST_OPEN: usize = 128;
/// Descriptors of a session at most: sockets, namespaces and memory, and of `crr` its listeners.
const fn descriptors(workload: Workload) -> u64 {
    match workload {
        Workload::Rr | Workload::Stream => 8,
        Workload::Crr => 24,
    }
}

/// The most sessions at once when time is short, within half of the descriptors that the process may have: opening a group anew for
/// each size would take the time. No limit allows any number.
fn most_open(workload: Workload, limit: Option<u64>) -> usize {
    let fit = limit.map(|limit| limit / 2 / descriptors(workload));
    fit.map_or(usize::MAX, |fit| usize::try_from(fit).unwrap_or(usize::MAX))
}

/// The fewest iterations of a variant in a repetition while there is time. When it is over one must do.
const LEAST: u64 = 8;
/// Fewer iterations than this in a repetition are one slice: each slice begins with round trips that are not timed.
const ONE_SLICE: u64 = 64;
/// Sessions that are always opened, so that there is something at every size, and an interval beside it.
const ALWAYS: u32 = 2;
/// Sessions that are planned at least: an interval of two is too wide to tell anything.
const PLANNED: u32 = 3;

/// A path in one of the ways in which it can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) path: PathId,
    pub(crate) mode: Mode,
    /// The largest IP packet in bytes; that of the options unless given.
    pub(crate) mtu: Option<usize>,
    /// The link between Tollgate's stacks; that of the options unless given.
    pub(crate) link: Option<LinkKind>,
    /// Offloads of the path's devices.
    pub(crate) offload: Offload,
    /// Messages of request-response are datagrams, also where the options do not say so.
    pub(crate) datagrams: bool,
    /// A mechanism of Tollgate's stack that has another value than the options say.
    pub(crate) switched: Option<Switched>,
}

/// Mechanisms of one variant, instead of those of the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switched {
    /// All of them.
    pub(crate) mechanisms: Mechanisms,
    /// The value that the variant is named after, in words; those that are not defaults, by name, unless given.
    pub(crate) label: Option<&'static str>,
}

impl Variant {
    /// The path as it is.
    pub(crate) const fn new(path: PathId, mode: Mode) -> Self {
        Self {
            path,
            mode,
            mtu: None,
            link: None,
            offload: Offload::Usual,
            datagrams: false,
            switched: None,
        }
    }

    /// The one whose row has this name, of those that run as the path usually is.
    pub(crate) fn named(label: &str) -> Option<Self> {
        path_and_mode(label).map(|(path, mode)| Self::new(path, mode))
    }

    /// The name of the row: the path, how it is run, and what is not as it usually is.
    pub(crate) fn label(&self) -> String {
        let mut label = format!("{}, {}", self.path, self.mode.words());
        if let Some(mtu) = self.mtu {
            label.push_str(&format!(", MTU {mtu}"));
        }
        if let Some(link) = self.link {
            label.push_str(&format!(", link {link}"));
        }
        match self.offload {
            Offload::Usual => {}
            Offload::Both => label.push_str(", all offloaded"),
            Offload::Checksum => label.push_str(", no segmentation offload"),
            Offload::Neither => label.push_str(", nothing offloaded"),
        }
        if self.datagrams {
            label.push_str(", UDP");
        }
        if let Some(switched) = &self.switched {
            match switched.label {
                Some(words) => label.push_str(&format!(", {words}")),
                None => switched
                    .mechanisms
                    .changed()
                    .for_each(|(name, value)| label.push_str(&format!(", {name}={value}"))),
            }
        }
        label
    }

    /// Spec of a session of it.
    pub(crate) fn spec(&self, workload: Workload, size: usize, context: &Context<'_>) -> Spec {
        let usual = context.options.mechanisms;
        Spec::new(workload, size)
            .with_mode(self.mode.placement, self.mode.waiting)
            .with_mechanisms(self.switched.map_or(usual, |switched| switched.mechanisms))
            .with_link(self.link.unwrap_or(context.options.link))
            .with_cells(match self.link {
                None => context.options.cells,
                Some(_) => CellFaults::NONE,
            })
            .reversed(context.options.reverse)
            .over(Sockets {
                offload: self.offload,
                transport: if self.datagrams || context.options.datagrams {
                    Transport::Udp
                } else {
                    Transport::Tcp
                },
                ..Sockets::PLAIN
            })
    }

    /// Opens a session of it; none when there is no such path here.
    pub(crate) fn open(
        &self,
        spec: &Spec,
        context: &Context<'_>,
    ) -> Option<Result<Box<dyn Session>, tollgate_workload::Error>> {
        // A way to a service has the MTU that is asked for already.
        let asked = context.options.mtu.filter(|_| !context.is_way(self.path));
        match self.mtu.or(asked) {
            None => context.path(self.path).map(|path| path.open(spec)),
            Some(mtu) => find_with_mtu(self.path, mtu).map(|path| path.open(spec)),
        }
    }

    /// The name in a sentence.
    pub(crate) fn phrase(&self) -> String {
        format!("{} ({})", self.path, self.mode.words())
    }
}

/// Variants to compare, and those left out, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Matrix {
    pub(crate) workload: Workload,
    pub(crate) variants: Vec<Variant>,
    pub(crate) unavailable: Vec<(String, String)>,
}

impl Matrix {
    /// All paths that the options want, in their order or in that of [`PathId::ALL`].
    ///
    /// # Errors
    /// [`Error::NothingToRun`] when none fits.
    pub(crate) fn of(workload: Workload, context: &Context<'_>) -> Result<Self, Error> {
        let options = &context.options;
        let ids: Vec<PathId> = options.paths.clone().unwrap_or_else(|| {
            let has_host = |id: PathId| id != PathId::KernelRemote || options.to.is_some();
            let fits = |id: &PathId| options.wants(*id) && has_host(*id);
            PathId::ALL.iter().copied().filter(fits).collect()
        });
        let (mut variants, mut unavailable) = (Vec::new(), Vec::new());
        for path in ids {
            let Some(found) = context.path(path) else {
                unavailable.push((path.to_string(), no_such_path(path)));
                continue;
            };
            if options
                .mtu
                .is_some_and(|mtu| find_with_mtu(path, mtu).is_none())
            {
                unavailable.push((path.to_string(), format!("{path} has an MTU of its own")));
                continue;
            }
            if options.datagrams && !carries_datagrams(path) {
                unavailable.push((path.to_string(), format!("{path} carries no datagrams")));
                continue;
            }
            let capabilities = found.capabilities();
            if !capabilities.workloads.contains(&workload) {
                if options.paths.is_some() {
                    let has: Vec<String> = capabilities
                        .workloads
                        .iter()
                        .map(ToString::to_string)
                        .collect();
                    unavailable.push((
                        path.to_string(),
                        format!(
                            "{path} does not run {workload}; it runs {}",
                            format::list(&has)
                        ),
                    ));
                }
                continue;
            }
            let modes = options.modes(&capabilities);
            if modes.is_empty() {
                let has: Vec<String> = capabilities.modes.iter().map(ToString::to_string).collect();
                unavailable.push((
                    path.to_string(),
                    format!("{path} runs {} only", format::list(&has)),
                ));
            }
            variants.extend(modes.into_iter().map(|mode| Variant::new(path, mode)));
        }
        if variants.is_empty() {
            return Err(Error::NothingToRun {
                workload,
                asked: options.restrictions(),
            });
        }
        Ok(Self {
            workload,
            variants,
            unavailable,
        })
    }
}

/// The reason why there is no path of this name.
fn no_such_path(path: PathId) -> String {
    match path {
        PathId::KernelRemote => "kernel-remote takes a host that serves: --to HOST".to_owned(),
        _ => format!("this build of tollgate does not have the path {path}"),
    }
}

/// Runs the matrix over the sizes.
///
/// # Errors
/// [`Error::Stopped`] when the user stopped it before anything was measured, [`Error::NothingMeasured`] when every variant
/// failed at every size.
pub(crate) fn run(
    experiment: &'static str,
    matrix: Matrix,
    sizes: &[usize],
    context: &Context<'_>,
) -> Result<Outcome, Error> {
    let opener = |who: &Variant, spec: &Spec| who.open(spec, context);
    let mut run = InterleavedRun::new(matrix, sizes, context, &opener);
    run.pilot();
    run.repetitions();
    run.outcome.stopped = context.cancel.is_raised();
    let outcome = run.outcome;
    if outcome.is_empty() {
        return Err(match outcome.first_failure() {
            Some(reason) if !outcome.stopped => Error::NothingMeasured { experiment, reason },
            _ => Error::Stopped,
        });
    }
    Ok(outcome)
}

/// Opens a session of a variant; none when there is no such path here.
type Opener<'a> =
    dyn Fn(&Variant, &Spec) -> Option<Result<Box<dyn Session>, tollgate_workload::Error>> + 'a;

/// A run of a matrix under way.
struct InterleavedRun<'a> {
    context: &'a Context<'a>,
    opener: &'a Opener<'a>,
    wanted: u64,
    repetitions: u32,
    outcome: Outcome,
    /// Nanoseconds per iteration of each variant at each size, as the pilot found them; infinite where it failed.
    costs: Vec<Vec<f64>>,
    /// Nanoseconds that opening and closing the sessions of each size takes in a repetition, as the pilot found it.
    openings: Vec<f64>,
    /// Sessions that serve the next repetition too, by variant and size, those of the pilot first; none of those that failed.
    kept: Vec<Vec<Option<Box<dyn Session>>>>,
    /// Tells whether time is short.
    short: bool,
    order: Order,
}

impl<'a> InterleavedRun<'a> {
    fn new(
        matrix: Matrix,
        sizes: &[usize],
        context: &'a Context<'a>,
        opener: &'a Opener<'a>,
    ) -> Self {
        Self {
            wanted: context.options.iterations.unwrap_or(ITERATIONS).max(1),
            repetitions: context.options.repetitions.unwrap_or(REPETITIONS).max(1),
            context,
            opener,
            outcome: Outcome {
                sequential: context.options.is_sequential(),
                ..Outcome::new(matrix, sizes.to_vec())
            },
            costs: Vec::new(),
            openings: Vec::new(),
            kept: Vec::new(),
            short: false,
            order: Order::new(),
        }
    }

    /// Opens a session, or keeps the reason why there is none.
    fn open(&mut self, variant: usize, at: usize) -> Option<Box<dyn Session>> {
        let who = self.outcome.matrix.variants[variant];
        let workload = self.outcome.matrix.workload;
        let mut spec = who.spec(workload, self.outcome.sizes[at], self.context);
        let cost = self.costs[variant][at];
        if cost.is_finite() && cost > SLOW_NS {
            spec.warmup = WARMUP_OF_SLOW;
        }
        match (self.opener)(&who, &spec)? {
            Ok(session) => Some(session),
            Err(error) => {
                self.fail(variant, at, &error);
                None
            }
        }
    }

    fn fail(&mut self, variant: usize, at: usize, error: &tollgate_workload::Error) {
        // A signal that stops the run may reach a second process first.
        if !self.context.cancel.is_raised() {
            let measurement = &mut self.outcome.measurements[variant][at];
            measurement.failure.get_or_insert_with(|| error.to_string());
        }
    }

    fn pilot(&mut self) {
        let variants = self.outcome.matrix.variants.len();
        self.costs = vec![vec![f64::INFINITY; self.outcome.sizes.len()]; variants];
        self.openings = vec![0.0; self.outcome.sizes.len()];
        let short = self.context.remaining().filter(|left| *left < SHORT);
        // What a session may run in a repetition, when all get the same.
        let sessions = (variants * self.outcome.sizes.len()).max(1) as u32;
        let each = short.map(|left| left / self.repetitions / sessions);
        self.short = short.is_some();
        let nothing = || self.outcome.sizes.iter().map(|_| None).collect();
        self.kept = (0..variants).map(|_| nothing()).collect();
        let lasts = pilot_ns(self.outcome.matrix.workload);
        let left = self.context.remaining();
        let ends = left.map(|left| self.context.now() + left.mul_f64(PILOT_SHARE));
        let mut untried = sessions;
        // What opening and closing took, by variant, and the cells that are taken for like another one of the variant.
        let mut opened = vec![0.0; variants];
        let mut alike = Vec::new();
        for group in self.groups() {
            // They stay open together as in a repetition: sessions of a path may share what is dear to make, as a veth pair is.
            let mut open = Vec::new();
            for (variant, at) in group {
                if self.context.cancel.is_raised() {
                    return;
                }
                between_slices(
                    self.context,
                    "pilot",
                    self.context.remaining().unwrap_or_default(),
                );
                let begun = self.context.now();
                let room = ends.map(|ends| ends.saturating_duration_since(begun) / untried);
                untried = untried.saturating_sub(1).max(1);
                let mut known = self.costs[variant].iter().copied();
                if room == Some(Duration::ZERO)
                    && let Some(cost) = known.rfind(|cost| cost.is_finite())
                {
                    self.costs[variant][at] = cost;
                    alike.push((variant, at));
                    continue;
                }
                let Some(mut session) = self.open(variant, at) else {
                    continue;
                };
                let opening = self.context.now() - begun;
                let room = room.map_or(f64::INFINITY, |room| {
                    room.saturating_sub(opening).as_nanos() as f64
                });
                match pilot(session.as_mut(), self.wanted, lasts, room) {
                    Ok(ns) => self.costs[variant][at] = ns,
                    Err(error) => self.fail(variant, at, &error),
                }
                let measurement = &mut self.outcome.measurements[variant][at];
                measurement.settings = session.settings();
                let is_dear = each.is_some_and(|each| opening > each.mul_f64(DEAR));
                if is_dear && !self.context.options.is_sequential() {
                    measurement.session_serves(DEAR_SERVES);
                }
                open.push((variant, at, opening, session));
            }
            for (variant, at, opening, session) in open {
                let serves = self.outcome.measurements[variant][at].serves();
                let begun = self.context.now();
                if serves > 1 && self.costs[variant][at].is_finite() {
                    self.kept[variant][at] = Some(session);
                } else {
                    drop(session);
                }
                let whole = opening + (self.context.now() - begun);
                opened[variant] = whole.as_nanos() as f64 / f64::from(serves);
                self.openings[at] += opened[variant];
            }
        }
        for (variant, at) in alike {
            self.openings[at] += opened[variant];
        }
        if let Some(left) = self.context.remaining() {
            let opening = Duration::from_nanos(self.openings.iter().sum::<f64>() as u64);
            self.repetitions = repetitions_within(left, opening, (self.serves(), self.repetitions));
        }
    }

    /// Repetitions that the sessions serve which serve most.
    fn serves(&self) -> u32 {
        let all = self.outcome.measurements.iter().flatten();
        all.map(Measurement::serves).max().unwrap_or(1)
    }

    /// The iterations of each variant at each size in one repetition.
    fn plan(&self) -> Vec<Vec<u64>> {
        let flat: Vec<f64> = self.costs.iter().flatten().copied().collect();
        let opening: f64 = self.openings.iter().sum();
        let budget = self
            .context
            .remaining()
            .map(|left| (left / self.repetitions).as_nanos() as f64 - opening);
        let shares = shares(&flat, self.wanted, budget);
        shares
            .chunks(self.outcome.sizes.len().max(1))
            .map(<[u64]>::to_vec)
            .collect()
    }

    /// The variants at the places of sizes that take turns with each other: few groups, each with small sizes and large ones. Where
    /// only one session can be open at a time, each is a group.
    fn groups(&self) -> Vec<Vec<(usize, usize)>> {
        let variants = self.outcome.matrix.variants.len();
        let of_sizes = |sizes: &mut dyn Iterator<Item = usize>| -> Vec<(usize, usize)> {
            sizes
                .flat_map(|at| (0..variants).map(move |variant| (variant, at)))
                .collect()
        };
        let sizes = self.outcome.sizes.len();
        if self.context.options.is_sequential() {
            let all = of_sizes(&mut (0..sizes));
            return all.into_iter().map(|one| vec![one]).collect();
        }
        let most = if self.short {
            most_open(
                self.outcome.matrix.workload,
                getrlimit(Resource::Nofile).current,
            )
        } else {
            MOST_OPEN
        };
        let at_once = (most / variants.max(1)).max(1);
        let groups = sizes.div_ceil(at_once);
        (0..groups)
            .map(|first| of_sizes(&mut (first..sizes).step_by(groups)))
            .collect()
    }

    fn repetitions(&mut self) {
        let plan = self.plan();
        let variants = self.outcome.matrix.variants.len().max(1) as f64;
        let expected = |&(variant, at): &(usize, usize)| -> f64 {
            let cost = self.costs[variant][at];
            let running = if cost.is_finite() {
                plan[variant][at] as f64 * cost
            } else {
                0.0
            };
            running + self.openings[at] / variants
        };
        let groups: Vec<(Vec<(usize, usize)>, f64)> = self
            .groups()
            .into_iter()
            .map(|group| {
                let takes = group.iter().map(expected).sum();
                (group, takes)
            })
            .collect();
        let one: f64 = groups.iter().map(|(_, takes)| takes).sum();
        let mut left = one * f64::from(self.repetitions);
        let serves = self.serves();
        for repetition in 0..self.repetitions {
            if repetition >= ALWAYS * serves && self.context.remaining() == Some(Duration::ZERO) {
                return;
            }
            for place in self.order.of(groups.len()) {
                let (group, takes) = &groups[place];
                if self.context.cancel.is_raised() {
                    return;
                }
                // Never more than was planned, and less when the machine is slower than the pilot said.
                let scale = self.context.remaining().map_or(1.0, |time| {
                    (time.as_nanos() as f64 / left.max(1.0)).min(1.0)
                });
                self.group(repetition, group, &plan, scale, left);
                left -= takes;
            }
            self.outcome.repetitions = repetition + 1;
        }
    }

    /// The session of a variant at a size in this repetition: the one that was kept, or a new one; none where it failed.
    fn session(&mut self, repetition: u32, variant: usize, at: usize) -> Option<Box<dyn Session>> {
        let kept = self.kept[variant][at].take();
        let serves = self.outcome.measurements[variant][at].serves();
        if kept.is_some() || !repetition.is_multiple_of(serves) {
            return kept;
        }
        let failed = self.outcome.measurements[variant][at].failure.is_some();
        if failed || !self.costs[variant][at].is_finite() {
            return None;
        }
        let session = self.open(variant, at)?;
        let measurement = &mut self.outcome.measurements[variant][at];
        if measurement.settings.is_empty() {
            measurement.settings = session.settings();
        }
        Some(session)
    }

    /// A group of variants and sizes in one repetition.
    fn group(
        &mut self,
        repetition: u32,
        group: &[(usize, usize)],
        plan: &[Vec<u64>],
        scale: f64,
        left: f64,
    ) {
        let mut group = group.to_vec();
        self.order.shuffle_groups(&mut group, |&(_, at)| at);
        let mut open = Vec::new();
        for (variant, at) in group {
            let session = self.session(repetition, variant, at);
            open.push((variant, at, scaled(plan[variant][at], scale), session));
        }
        let begun = Instant::now();
        let slices = slices(self.outcome.matrix.workload);
        'slices: for slice in 0..slices {
            self.order.shuffle_groups(&mut open, |&(_, at, ..)| at);
            for (variant, at, iterations, place) in &mut open {
                let (variant, at) = (*variant, *at);
                let Some(session) = place else { continue };
                if self.context.cancel.is_raised() {
                    return;
                }
                let slices = if *iterations < ONE_SLICE { 1 } else { slices };
                let mut share = slice_of(*iterations, slice, slices);
                if share == 0 {
                    continue;
                }
                if self.context.remaining() == Some(Duration::ZERO) {
                    // Each has had a slice by then. A machine that is slower than the pilot said would else take the time over and over.
                    if slice > 0 {
                        break 'slices;
                    }
                    share = 1;
                }
                let spent = begun.elapsed().as_nanos() as f64;
                let what = format!(
                    "{} of {}, {}",
                    repetition + 1,
                    self.repetitions,
                    format::size(self.outcome.sizes[at])
                );
                between_slices(
                    self.context,
                    &what,
                    Duration::from_nanos((left - spent).max(0.0) as u64),
                );
                let mut samples = session.new_samples();
                let before = session.input_counts();
                let cells = session.cell_counts();
                // The timed end runs on the thread that calls it.
                let used = processor_ns(ClockId::ThreadCPUTime);
                match session.run(share, &mut samples) {
                    Ok(()) => {
                        let used = processor_ns(ClockId::ThreadCPUTime) - used;
                        let measurement = &mut self.outcome.measurements[variant][at];
                        measurement.add_slice((repetition, slice), &samples);
                        measurement.add_processor_time((repetition, slice), used, samples.bytes());
                        if let (Some(before), Some(after)) = (before, session.input_counts()) {
                            measurement.add_input(&before, &after);
                        }
                        if let (Some(before), Some(after)) = (cells, session.cell_counts()) {
                            measurement.add_cells(&after.since(&before));
                        }
                    }
                    Err(error) => {
                        self.fail(variant, at, &error);
                        *place = None;
                    }
                }
            }
        }
        for (variant, at, _, session) in open {
            let serves = self.outcome.measurements[variant][at].serves();
            if !(repetition + 1).is_multiple_of(serves) {
                self.kept[variant][at] = session;
            }
        }
    }
}

/// Cost of an iteration in ns, without the warm-up: of one, then of so many that they last `lasts_ns`, while they fit into `room_ns`.
fn pilot(
    session: &mut dyn Session,
    wanted: u64,
    lasts_ns: f64,
    room_ns: f64,
) -> Result<f64, tollgate_workload::Error> {
    let mut cost = |iterations: u64| -> Result<f64, tollgate_workload::Error> {
        let mut samples = session.new_samples();
        session.run(iterations, &mut samples)?;
        Ok(samples.elapsed_ns().max(1) as f64 / iterations as f64)
    };
    let (mut ran, mut ns) = (1, cost(1)?);
    for lasts in [PILOT as f64 * ns, lasts_ns] {
        let more = ((lasts.min(room_ns) / ns) as u64).min(wanted);
        if more > ran {
            (ran, ns) = (more, cost(more)?);
        }
    }
    Ok(ns)
}

/// Repetitions within the time that is `left` when opening the sessions of one takes `opening`: so many that opening takes half of the
/// time at most, but those of [`PLANNED`] sessions, which serve so many each, where so many are wanted. More would leave each repetition
/// too little to run.
fn repetitions_within(left: Duration, opening: Duration, (serves, wanted): (u32, u32)) -> u32 {
    let fit = left.div_duration_f64(opening.max(Duration::from_nanos(1))) / 2.0;
    (fit as u32).clamp((PLANNED * serves).min(wanted), wanted)
}

/// The iterations that each of several things may run when one iteration of each costs `costs` nanoseconds, each is wanted
/// `wanted` times, and all together may take `budget` nanoseconds.
///
/// Each gets the same time, and what the quick ones leave over goes to the slow ones: the cheap run all their iterations, the
/// dear as many as fit, and none fewer than a small number. What cannot be run has an infinite cost and gets none.
fn shares(costs: &[f64], wanted: u64, budget: Option<f64>) -> Vec<u64> {
    let budget = budget.map(|budget| budget.max(0.0));
    let full = |cost: f64| cost * wanted as f64;
    let finite = || costs.iter().copied().filter(|cost| cost.is_finite());
    let cap = match budget {
        Some(budget) if finite().map(full).sum::<f64>() > budget => {
            let (mut low, mut high) = (0.0, budget);
            for _ in 0..60 {
                let middle = f64::midpoint(low, high);
                if finite().map(|cost| full(cost).min(middle)).sum::<f64>() > budget {
                    high = middle;
                } else {
                    low = middle;
                }
            }
            low
        }
        _ => f64::INFINITY,
    };
    costs
        .iter()
        .map(|&cost| {
            if cost.is_finite() {
                ((cap / cost) as u64).clamp(LEAST.min(wanted), wanted)
            } else {
                0
            }
        })
        .collect()
}

fn scaled(iterations: u64, scale: f64) -> u64 {
    let least = LEAST.min(iterations);
    ((iterations as f64 * scale) as u64).clamp(least, iterations)
}

/// The iterations of one of several slices, which together give `iterations`.
fn slice_of(iterations: u64, slice: u64, slices: u64) -> u64 {
    if slice >= slices {
        return 0;
    }
    iterations / slices + u64::from(slice < iterations % slices)
}

#[cfg(test)]
mod tests;
