//! The way of a message through the Linux kernel, span by span, by message size: run once, shown by several experiments.
//!
//! Gates rotate. A slice carries the two gates of one span and runs every size once; a slice without gates comes before it and another
//! follows, so that the round trip that the spans must sum to is measured on both sides of each of them. Gates sleep through a part of a
//! slice's round trips, so that the slice is disturbed less ([`ends`]). What a passage costs is measured in place by twins of the span's gates, scaled to what
//! gates add where they stand ([`passage`]), and half of each gate's is subtracted ([`rounds`]).
//!
//! What is told as the time of a span, and what the spans are summed to, is of the usual round trips ([`usual`]); percentiles and
//! the join rate are of all that gates followed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tollgate_gate::{
    Gate, GateSet, Joined, Ledger, Scope, Slice, Span, SpanTable, Statistic, TickScale,
};
use tollgate_kernel::join::Counts;
use tollgate_kernel::{Attached, Gates, Plan, Traffic, abilities, passage_cost};
use tollgate_stats::{Interval, interquartile, interquartile_mean};
use tollgate_workload::trains::SEGMENT;
use tollgate_workload::{Mode, Naps, PathId, Usage, Waiting, Wanted};

use crate::context::Context;
use crate::error::Error;
use crate::rotation::{self, Amount, Rotation};
use crate::words;

mod ends;
mod passage;
mod perturbation;
mod rounds;
mod usual;

use ends::{Ends, times};
pub(crate) use passage::InPlace;
use passage::{Crossed, Crossing};
pub(crate) use perturbation::Perturbation;
use perturbation::{Longer, Places};
use rounds::{Round, Spanned, Ungated};

/// Events that each processor has room for: those of a slice a few times over. It is gone through again and again, so it has to
/// stay in the second cache, or writing an event would wait for memory.
const ROOM: u32 = 1 << 11;
/// Slices at one size, and how often the rotation is gone through without a time budget: short ones and many rounds, whose differences
/// tell how well the sums are known.
const AMOUNT: Amount = Amount {
    round_trips: 64,
    least_round_trips: 24,
    rounds: 32,
};
/// Times that it is to be gone through at least when time is short; slices are made shorter for it.
const LEAST_ROUNDS: u32 = 4;
/// Gates whose cost is measured where they stand in each round.
const CROSSED: usize = 4;
/// Round trips before each slice that are not timed; gates see them all the same.
const WARM_UP: u32 = 16;
/// Round trips of a slice that count, between two naps of its gates.
pub(crate) const FOLLOWED: u64 = 14;
/// A slice with gates has so many times as many round trips as one without, since its gates see one of so many.
const SEES_ONE_OF: u64 = 6;
/// Round trips that its gates sleep through between those that they see, with one on each side that does not count.
pub(crate) const SLEPT: u64 = (SEES_ONE_OF - 1) * (FOLLOWED + 2);
/// Which number of the usual round trips stands for them: the one whose parts sum to the whole.
pub(crate) const STATISTIC: Statistic = Statistic::Mean;
const SCALE: TickScale = TickScale::NANOSECONDS;

/// The messages of one size.
#[derive(Debug, Clone)]
pub(crate) struct Gated {
    /// Every message.
    all: Ledger,
    /// Those of the usual round trips: the spans and the round trip that they must sum to.
    usual: Ledger,
    rounds: Vec<Round>,
    /// What passages cost against what their twins show.
    in_place: InPlace,
    /// The processor time of both ends in slices without gates, and the round trips of these.
    used: (Usage, u64),
    /// What became of the events before they were joined.
    pub(crate) counts: Counts,
    /// Why it failed.
    pub(crate) failure: Option<String>,
}

/// The messages of all sizes on one path.
#[derive(Debug, Clone)]
pub(crate) struct Ledgers {
    pub(crate) path: PathId,
    pub(crate) mode: Mode,
    /// Which boundary was taken by which hook.
    pub(crate) plan: Plan,
    pub(crate) table: SpanTable,
    /// In the order of the sizes.
    pub(crate) sizes: Vec<Gated>,
    /// What passages cost.
    pub(crate) in_place: InPlace,
    /// How many times as long gates made everything but themselves; none where nothing tells.
    pub(crate) slowed: Option<f64>,
    /// How long it took from the first look at the kernel until gates were live.
    pub(crate) start_up: Duration,
    /// The user stopped it.
    pub(crate) stopped: bool,
}

/// Where gates disturb most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Worst {
    /// The sizes and the spans that one half of the rounds and the other have chosen.
    pub(crate) at: [(usize, &'static str); 2],
    /// By how much a slice's round trips are longer.
    pub(crate) slice: Perturbation,
    /// By how much those are that gates follow.
    pub(crate) followed: Perturbation,
}

impl Gated {
    fn new(table: SpanTable) -> Self {
        Self {
            all: Ledger::new(table, Scope::RoundTrip),
            usual: Ledger::new(table, Scope::RoundTrip),
            rounds: Vec::new(),
            in_place: InPlace::default(),
            used: (Usage::default(), 0),
            counts: Counts::default(),
            failure: None,
        }
    }

    /// Every message, for percentiles and counts.
    pub(crate) const fn all(&self) -> &Ledger {
        &self.all
    }

    /// The usual round trips; none when nothing was measured.
    pub(crate) fn usual(&self) -> Option<&Ledger> {
        self.usual.ungated().map(|_| &self.usual)
    }

    /// Processor time of both ends for a round trip without gates; none where it was not measured.
    pub(crate) fn used(&self) -> Option<Usage> {
        let (used, round_trips) = self.used;
        let each = |time: Duration| time.div_f64(round_trips as f64);
        (round_trips > 0).then(|| Usage {
            user: each(used.user),
            system: each(used.system),
        })
    }

    /// The share of the round trip that the sum of the spans leaves open, signed.
    pub(crate) fn closure(&self) -> Option<f64> {
        self.usual()?.closure_by(STATISTIC)
    }

    /// Its 95 % interval, from how much the rounds differ; none of fewer than two.
    pub(crate) fn closure_interval(&self) -> Option<Interval> {
        let total = self.usual()?.ungated()?.mean_ns;
        let (value, interval) = rounds::residual(&self.rounds, self.usual.table(), &self.in_place)?;
        let at = self.closure()?;
        Some(Interval {
            low: at + (interval.low - value) / total,
            high: at + (interval.high - value) / total,
        })
    }

    /// How far the time of the span at this place reaches to either side with 95 % confidence, in nanoseconds for each round trip,
    /// from how much the rounds differ; none of fewer than two.
    pub(crate) fn reach(&self, index: usize) -> Option<f64> {
        rounds::reach(&self.rounds, self.usual.table(), index, &self.in_place)
    }

    /// What the gates of the span at this place cost: the round trip with them over those without on both sides, less 1, and its
    /// 95 % interval where there were rounds enough for one.
    pub(crate) fn perturbation(&self, index: usize) -> Option<Perturbation> {
        let rounds = self.rounds.iter();
        let longer = rounds.filter_map(|round| round.longer(index, |spanned| spanned.gated));
        Perturbation::of(&longer.collect::<Vec<_>>())
    }
}

/// Why a path has no gates here, as an experiment's failure.
fn refused(experiment: &'static str, reason: impl ToString) -> Error {
    Error::NothingMeasured {
        experiment,
        reason: reason.to_string(),
    }
}

/// Runs gated round trips over the sizes, for as long as `until` when that is given.
///
/// # Errors
/// [`Error::NothingMeasured`] when the kernel allows no gates or every size failed, [`Error::Stopped`] when nothing was
/// measured before the user stopped it.
pub(crate) fn run(
    experiment: &'static str,
    path: PathId,
    mode: Mode,
    sizes: &[usize],
    until: Option<Duration>,
    context: &Context<'_>,
) -> Result<Ledgers, Error> {
    let begun = Instant::now();
    let mut run = Run::open(experiment, path, mode, sizes, context)?;
    let table = run.ledgers.table;
    if let Some(until) = until {
        // A gate is crossed in two slices, which take about as long as a span's turn.
        let turns = LEAST_ROUNDS * (table.spans().len() + CROSSED) as u32;
        run.round_trips = run
            .round_trips
            .min(run.affordable(until.saturating_sub(begun.elapsed()) / turns));
    }
    let rounds = AMOUNT.rounds(context.options.iterations, run.round_trips);
    let crossings = passage::crossings(table, &run.ledgers.plan);
    // What a span's last gate costs is to be known before its turn comes to be the first of another.
    let at_ends: GateSet = table.spans().iter().flat_map(twinned).collect();
    for gate in at_ends.iter() {
        run.twins(0, gate);
    }
    let mut rotation = Rotation::new(context, rounds, begun, until);
    while let Some(round) = rotation.round() {
        run.begin_round();
        for (index, span) in table.spans().iter().enumerate() {
            if !rotation.step(&format!("{path}, {}", span.name)) {
                break;
            }
            run.twins(round.place(index, sizes.len()), twinned(span)[0]);
            run.slice(index, span);
        }
        for step in 0..CROSSED.min(crossings.len()) {
            let crossing = &crossings[(CROSSED * round.0 as usize + step) % crossings.len()];
            if !rotation.step(&format!("{path}, what a gate costs")) {
                break;
            }
            run.across(round, crossing);
        }
    }
    run.ledgers.stopped = rotation.is_stopped();
    let ledgers = run.finish();
    if ledgers.sizes.iter().all(|sized| sized.usual().is_none()) {
        let reason = ledgers.sizes.iter().find_map(|sized| sized.failure.clone());
        return Err(reason.map_or(Error::Stopped, |reason| refused(experiment, reason)));
    }
    Ok(ledgers)
}

/// The gates whose passages lie within a span, the one from behind the clock and the other until it, by the gates whose twins tell what
/// they cost.
pub(crate) fn twinned(span: &Span) -> [Gate; 2] {
    [span.from, span.to].map(|gate| match gate {
        // The application ends with the call that sends the answer, and a call that returns is stamped as one that begins.
        Gate::ApplicationEnd | Gate::SocketOutEnd => Gate::SocketOutBegin,
        gate => gate,
    })
}

/// The gates to attach for passages at these.
fn hooks_of(gates: GateSet) -> GateSet {
    // The end of the application's time is the call that sends the answer.
    if gates.contains(Gate::ApplicationEnd) {
        gates.with(Gate::SocketOutBegin)
    } else {
        gates
    }
}

struct Run {
    /// None where the plan needs no programs.
    gates: Option<Gates>,
    ends: Vec<Result<Ends, String>>,
    ledgers: Ledgers,
    round_trips: u64,
    /// By gate, what its passages cost in each round.
    probes: BTreeMap<Gate, Vec<f64>>,
}

impl Run {
    /// Opens a session of each size, and learns where messages begin.
    fn open(
        experiment: &'static str,
        path: PathId,
        mode: Mode,
        sizes: &[usize],
        context: &Context<'_>,
    ) -> Result<Self, Error> {
        let begun = Instant::now();
        let abilities = abilities();
        let plan = Plan::choose(&abilities, Traffic::Ours);
        let except = match mode.waiting {
            Waiting::Blocking => GateSet::EMPTY,
            // Nobody sleeps, so nobody is woken.
            Waiting::BusyPoll => GateSet::of(&[Gate::ReaderRuns]),
        };
        let table = plan.table(except).ok_or_else(|| {
            let reason = abilities.tracepoints.reason();
            refused(
                experiment,
                reason.unwrap_or("this kernel has fewer than two of the hooks"),
            )
        })?;
        let gates = plan
            .has_programs()
            .then(|| Gates::load(&plan, ROOM))
            .transpose()
            .map_err(|error| refused(experiment, error))?;
        let mut run = Self {
            gates,
            ends: sizes
                .iter()
                .map(|&size| Ends::open(path, mode, size))
                .collect(),
            ledgers: Ledgers {
                path,
                mode,
                plan,
                table,
                sizes: vec![Gated::new(table); sizes.len()],
                in_place: InPlace::default(),
                slowed: None,
                start_up: Duration::ZERO,
                stopped: false,
            },
            round_trips: AMOUNT.round_trips(context.options.iterations),
            probes: BTreeMap::new(),
        };
        for (at, ends) in run.ends.iter().enumerate() {
            if let Err(reason) = ends {
                run.ledgers.sizes[at].failure = Some(reason.clone());
            }
        }
        run.learn();
        run.ledgers.start_up = begun.elapsed();
        Ok(run)
    }

    fn begin_round(&mut self) {
        for gated in &mut self.ledgers.sizes {
            gated.rounds.push(Round::new(self.ledgers.table));
        }
    }

    /// Does something at one size; a failure is noted there, and the size is left alone from then on.
    fn at(
        &mut self,
        at: usize,
        work: impl FnOnce(Option<&Gates>, &mut Ends, &mut Gated) -> Result<(), String>,
    ) {
        let gated = &mut self.ledgers.sizes[at];
        if gated.failure.is_some() {
            return;
        }
        let Ok(ends) = &mut self.ends[at] else {
            return;
        };
        let gates = self.gates.as_ref();
        if let Err(reason) = gates
            .map_or(Ok(()), |gates| gates.watch(&ends.watch))
            .map_err(|error| error.to_string())
            .and_then(|()| work(gates, ends, gated))
        {
            gated.failure = Some(reason);
        }
    }

    /// The namespaces in which the sessions run are those of the first that is open: all sessions of a path share them.
    ///
    /// What the plan leaves to those who call, the ends stamp from their next slice on.
    fn attach(&self, gates: GateSet, twins: bool) -> Result<Option<Attached>, String> {
        let own = self.ledgers.plan.own_calls();
        let wanted = Wanted {
            gates: gates.iter().filter(|&gate| own.contains(gate)).collect(),
            twins,
        };
        let naps = self.gates.as_ref().map(|gates| Naps {
            gates: gates.doze(),
            followed: FOLLOWED,
            slept: SLEPT,
        });
        self.want(wanted, naps);
        let Some(programs) = &self.gates else {
            return Ok(None);
        };
        let ends = self
            .ends
            .iter()
            .find_map(|ends| ends.as_ref().ok()?.session.kernel_ends())
            .ok_or("no session is open")?;
        let namespaces = ends.networks();
        match (twins, gates.first()) {
            (true, Some(gate)) => programs.attach_twins(gate, &namespaces),
            _ => programs.attach(gates, &namespaces),
        }
        .map(Some)
        .map_err(|error| error.to_string())
    }

    /// Says what the ends of all sessions stamp, and how gates sleep.
    fn want(&self, wanted: Wanted, naps: Option<Naps>) {
        for ends in self.ends.iter().flatten() {
            if let Some(kernel) = ends.session.kernel_ends() {
                kernel.stamps.want(wanted);
                kernel.stamps.nap(naps.clone());
            }
        }
    }

    /// Detaches the gates; the ends stamp nothing any more.
    fn detach(&self, attached: Option<Attached>) {
        drop(attached);
        self.want(Wanted::default(), None);
    }

    fn fail_all(&mut self, reason: &str) {
        for gated in &mut self.ledgers.sizes {
            gated.failure.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Learns where messages begin in the sequence numbers of each connection.
    fn learn(&mut self) {
        let border = self.ledgers.table.gates();
        let gate = [Gate::TcpOutBegin, Gate::IpOutBegin, Gate::DeviceQueueIn]
            .into_iter()
            .find(|&gate| border.contains(gate));
        let attached = match gate {
            Some(gate) => self.attach(GateSet::of(&[gate]), false),
            None => return,
        };
        match attached {
            Err(reason) => self.fail_all(&reason),
            Ok(attached) => {
                for at in 0..self.ends.len() {
                    self.at(at, |gates, ends, _| {
                        ends.run(AMOUNT.least_round_trips)?;
                        ends.joiner.tie(&ends.take(gates).events);
                        Ok(())
                    });
                }
                self.detach(attached);
            }
        }
    }

    /// The round trips of a slice with gates.
    const fn gated_round_trips(&self) -> u64 {
        SEES_ONE_OF * self.round_trips
    }

    /// How many round trips each size has time for without gates, when a span's turn may take so long: two slices that share them, a
    /// longer one with gates, and one of twins at one size; never fewer than a slice needs.
    fn affordable(&mut self, turn: Duration) -> u64 {
        let begun = Instant::now();
        if let Some(span) = self.ledgers.table.spans().first() {
            match self.attach(span.gates(), false) {
                Ok(attached) => self.detach(attached),
                Err(reason) => self.fail_all(&reason),
            }
        }
        let attaching = begun.elapsed();
        let begun = Instant::now();
        for at in 0..self.ends.len() {
            self.at(at, |_, ends, _| {
                ends.run(AMOUNT.least_round_trips).map(drop)
            });
        }
        let pilot = begun.elapsed().as_secs_f64().max(1e-9);
        let slices = 1.0 + SEES_ONE_OF as f64 + 1.0 / self.ends.len().max(1) as f64;
        let warm_up = u64::from(WARM_UP);
        let slice = turn.saturating_sub(2 * attaching).as_secs_f64() / slices;
        let fits = slice / pilot * (AMOUNT.least_round_trips + warm_up) as f64;
        (fits as u64)
            .saturating_sub(warm_up)
            .max(AMOUNT.least_round_trips)
    }

    /// Measures what a passage of the gate costs.
    fn twins(&mut self, at: usize, gate: Gate) {
        let attached = match self.attach(GateSet::of(&[gate]), true) {
            Ok(attached) => attached,
            Err(reason) => return self.fail_all(&reason),
        };
        let round_trips = self.round_trips;
        let mut cost = None;
        self.at(at, |gates, ends, _| {
            ends.run(round_trips)?;
            let since = ends.timed_from();
            let mut events = ends.take(gates).events;
            events.retain(|event| event.ticks() >= since);
            cost = passage_cost(&events);
            Ok(())
        });
        self.detach(attached);
        if let Some(cost) = cost {
            let costs = self.probes.entry(gate).or_default();
            costs.push(cost.middle_mean_ns);
        }
    }

    /// What a passage of the gate cost by its twin when that was measured last, in nanoseconds: it drifts with the machine as the
    /// spans do.
    fn known_probe(&self, gate: Gate) -> f64 {
        let costs = self.probes.get(&gate);
        costs.and_then(|costs| costs.last()).copied().unwrap_or(0.0)
    }

    /// Every size with the gates of a span, and without any before and after, since the machine is quicker or slower within a tenth of a
    /// second.
    fn slice(&mut self, index: usize, span: &'static Span) {
        let half = self.round_trips / 2;
        let before: Vec<_> = (0..self.ends.len())
            .map(|at| self.without(at, half))
            .collect();
        let attached = match self.attach(hooks_of(span.gates()), false) {
            Ok(attached) => attached,
            Err(reason) => return self.fail_all(&reason),
        };
        for at in 0..self.ends.len() {
            self.with(at, index, span);
        }
        self.detach(attached);
        for (at, before) in before.into_iter().enumerate() {
            let after = self.without(at, self.round_trips - half);
            let gated = &mut self.ledgers.sizes[at];
            let round = gated.rounds.last_mut();
            if let Some(spanned) = round.and_then(|round| round.spans[index].as_mut()) {
                spanned.ungated = Ungated::of(&before, &after);
            }
            let times = [before, after].concat();
            for &ns in &times {
                gated.all.add_ungated_ns(ns);
            }
            for ns in interquartile(times, |ns| *ns) {
                gated.usual.add_ungated_ns(ns);
            }
        }
    }

    /// The times of round trips without gates; none of a size that failed.
    fn without(&mut self, at: usize, round_trips: u64) -> Vec<f64> {
        let mut without = Vec::new();
        self.at(at, |_, ends, gated| {
            ends.take_usage();
            without = times(&ends.run(round_trips)?);
            gated.used.0 += ends.take_usage();
            gated.used.1 += round_trips + u64::from(WARM_UP);
            Ok(())
        });
        without
    }

    /// One size with the gates of a span, which are attached.
    fn with(&mut self, at: usize, index: usize, span: &'static Span) {
        let probes_ns = twinned(span).map(|gate| self.known_probe(gate));
        let round_trips = self.gated_round_trips();
        self.at(at, |gates, ends, gated| {
            let passed = ends.pass(gates, span.gates(), round_trips)?;
            gated.counts.merge(&passed.counts);
            let mut slice = Slice {
                active: span.gates(),
                units: passed.round_trips,
                probe_ns: probes_ns[0],
                scale: SCALE,
            };
            gated.all.add_slice(&slice, &passed.joined);
            let ends = (span.from, span.to);
            let usual = passed.usual(ends);
            let times = (
                usual::mean_ns(&usual, ends, SCALE),
                usual::whole_ns(&usual),
                interquartile_mean(&times(&passed.samples)),
            );
            if let ((Some(raw), Some(followed), Some(whole)), Some(round)) =
                (times, gated.rounds.last_mut())
            {
                round.spans[index] = Some(Spanned {
                    raw,
                    probes: probes_ns.map(|ns| 2.0 * ns),
                    passages: passed.passages,
                    followed,
                    gated: whole,
                    ungated: None,
                });
            }
            slice.units = usual.len() as u64;
            let passages = usual.into_iter().flat_map(|trip| trip.messages).collect();
            gated.usual.add_slice(
                &slice,
                &Joined {
                    passages,
                    ..Joined::default()
                },
            );
            Ok(())
        });
    }

    /// The way across a gate at every size of one segment, with it and without: what it costs where it stands. Larger messages are
    /// acknowledged on the way, and the gate would cost that, too; they have to do where there are no others.
    fn across(&mut self, turn: rotation::Round, crossing: &Crossing) {
        let slices = crossing.slices();
        let round_trips = self.gated_round_trips();
        let any_of_one_segment = (0..self.ends.len()).any(|at| self.is_of_one_segment(at));
        let mut took = vec![[None; 2]; self.ends.len()];
        for step in 0..slices.len() {
            // Who goes first changes, or drift would count as cost.
            let slice = turn.place(step, slices.len());
            let active = slices[slice];
            let attached = match self.attach(hooks_of(active), false) {
                Ok(attached) => attached,
                Err(reason) => return self.fail_all(&reason),
            };
            for (at, took) in took.iter_mut().enumerate() {
                if any_of_one_segment && !self.is_of_one_segment(at) {
                    continue;
                }
                self.at(at, |gates, ends, _| {
                    let passed = ends.pass(gates, active, round_trips)?;
                    took[slice] = crossing.took(|ends| passed.usual(ends), SCALE);
                    Ok(())
                });
            }
            self.detach(attached);
        }
        let by_twins_ns = 2.0 * self.known_probe(crossing.gate);
        for (gated, took) in self.ledgers.sizes.iter_mut().zip(took) {
            if let (Some(crossed), Some(round)) =
                (crossing.crossed(took, by_twins_ns), gated.rounds.last_mut())
            {
                round.crossed.push(crossed);
            }
        }
    }

    /// Whether a message of the size at this place fits into one segment of Ethernet.
    fn is_of_one_segment(&self, at: usize) -> bool {
        let size = self.ends[at].as_ref().map(|ends| ends.joiner.talk().size);
        size.is_ok_and(|size| size as usize <= SEGMENT)
    }

    fn finish(mut self) -> Ledgers {
        let table = self.ledgers.table;
        let sizes = &mut self.ledgers.sizes;
        let most = sizes.iter().map(|gated| gated.rounds.len()).max();
        let rounds: Vec<Vec<Crossed>> = (0..most.unwrap_or(0))
            .map(|at| {
                let sizes = sizes.iter().filter_map(|gated| gated.rounds.get(at));
                sizes.flat_map(|round| round.crossed.clone()).collect()
            })
            .collect();
        let by_twins = self.probes.iter();
        let by_twins = by_twins
            .filter_map(|(&gate, costs)| Some((gate, interquartile_mean(costs)?)))
            .collect();
        let in_place = InPlace::of(&rounds, &self.ledgers.plan, by_twins);
        for gated in sizes.iter_mut() {
            for ledger in [&mut gated.all, &mut gated.usual] {
                ledger.scale_probes(|index| {
                    let rounds = &gated.rounds;
                    rounds::subtracted(rounds, table, index, &in_place).unwrap_or(1.0)
                });
            }
            gated.in_place = in_place.clone();
        }
        let all = sizes.iter().flat_map(|gated| &gated.rounds);
        self.ledgers.slowed = rounds::slowed(all, &in_place);
        self.ledgers.in_place = in_place;
        self.ledgers
    }
}

impl Ledgers {
    /// The size at this place, if anything was measured.
    pub(crate) fn at(&self, at: usize) -> Option<&Gated> {
        self.sizes.get(at).filter(|gated| gated.usual().is_some())
    }

    /// Where gates disturb most, and by how much; none of fewer than two rounds.
    pub(crate) fn worst_perturbation(&self) -> Option<Worst> {
        let of_slices = self.longer(|spanned| spanned.gated);
        let most = of_slices.most()?;
        Some(Worst {
            at: most.map(|(at, index)| (at, self.table.spans()[index].name)),
            slice: of_slices.told_at(most)?,
            followed: self.longer(|spanned| spanned.followed).told_at(most)?,
        })
    }

    /// Of each round, at each size and with the gates of each span.
    fn longer(&self, which: impl Fn(&Spanned) -> f64 + Copy) -> Longer {
        let rounds = self.sizes.iter().map(|gated| gated.rounds.len()).max();
        let spans = 0..self.table.spans().len();
        let at = |gated: &Gated, round: usize, index| gated.rounds.get(round)?.longer(index, which);
        let places = |round| -> Places {
            let of = |gated| spans.clone().map(|index| at(gated, round, index)).collect();
            self.sizes.iter().map(of).collect()
        };
        Longer((0..rounds.unwrap_or(0)).map(places).collect())
    }

    /// The path and the way in which it was run.
    pub(crate) fn label(&self) -> String {
        format!("{}, {}", self.path, self.mode)
    }

    /// The sizes that failed, and why.
    pub(crate) fn failures<'a>(
        &'a self,
        sizes: &'a [usize],
    ) -> impl Iterator<Item = (String, &'a str)> {
        sizes
            .iter()
            .zip(&self.sizes)
            .filter_map(|(&size, gated)| Some((words::size(size), gated.failure.as_deref()?)))
    }
}
