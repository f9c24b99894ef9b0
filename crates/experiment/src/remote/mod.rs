//! The way of a message to another host and of its answer back, span by span on both hosts: run once, shown by several
//! experiments.
//!
//! Gates rotate over the spans of both hosts: a slice carries the two gates of one span, on the host that has it, and a slice
//! without any follows. The two hosts' clocks are never compared: each span is a difference on its own host's clock. What lies
//! between the hosts is measured in slices of its own with the last gate out and the first gate in on both hosts; the clocks'
//! offset falls out of it ([`clocks`]). So all parts of a round trip are measured, and their sum is held against the round trip
//! that the client has measured without gates.
//!
//! A host's events are those of its own side: of what it sends as far as its driver, of what it receives from its driver on. Both
//! ends may be on one machine, whose kernel shows every packet to both hosts' gates; what is the other side's is left aside.

mod clocks;
mod side;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tollgate_gate::distribution::Distribution;
use tollgate_gate::{Direction, Gate, GateSet, Ledger, Scope, Slice, Span, Statistic};
use tollgate_kernel::Talk;
use tollgate_kernel::join::Counts;
use tollgate_run::{Mode, Waiting, Workload, format};
use tollgate_stats::Samples;
use tollgate_workload::remote::{KernelRemote, RemoteSession};
use tollgate_workload::{Session, Spec};

use crate::context::Context;
use crate::error::Error;
use crate::rotation::{Amount, Rotation};

pub(crate) use clocks::Bounds;
use side::{Joined, SCALE, Side};

pub(crate) use side::{Boundaries, is_own};

/// Which number of a distribution stands for it: a processor that is taken away now and then moves it little.
pub(crate) const STATISTIC: Statistic = Statistic::TrimmedMean;
/// Slices at one size, and how often the rotation is gone through without a time budget.
const AMOUNT: Amount = Amount {
    round_trips: 256,
    least_round_trips: 32,
    rounds: 16,
};
/// Round trips after gates were attached or detached, before a slice begins.
const WARM_UP: u64 = 16;

/// One of the two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    /// The one that asks, and takes the total.
    Client,
    /// The one that answers.
    Server,
}

impl Host {
    pub(crate) const BOTH: [Self; 2] = [Self::Client, Self::Server];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// What is known of one way between the hosts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ways {
    /// By slice: the bounds of the mean time there, and back, and of what the server's clock is ahead.
    slices: Vec<clocks::OneWay>,
    /// Slices whose times no two clocks of even rates could have shown.
    pub(crate) uneven: u64,
}

impl Ways {
    /// The slice in the middle, by the middles of its bounds: a processor that is taken away in some of them does not move it.
    fn middle(&self, of: impl Fn(&clocks::OneWay) -> Bounds) -> Option<Bounds> {
        let mut bounds: Vec<Bounds> = self.slices.iter().map(of).collect();
        bounds.sort_by(|a, b| a.middle_ns().total_cmp(&b.middle_ns()));
        bounds.get(bounds.len() / 2).copied()
    }

    /// The mean time from the client's last gate to the server's first one, in nanoseconds, as the middle slice bounds it.
    pub(crate) fn there(&self) -> Option<Bounds> {
        self.middle(|way| way.there)
    }

    /// The mean time from the server's last gate to the client's first one, in nanoseconds, as the middle slice bounds it.
    pub(crate) fn back(&self) -> Option<Bounds> {
        self.middle(|way| way.back)
    }

    /// What the server's clock was ahead in the last slice, in nanoseconds.
    pub(crate) fn ahead(&self) -> Option<Bounds> {
        self.slices.last().map(|way| way.ahead)
    }
}

/// The round trips of one size.
#[derive(Debug, Clone)]
pub(crate) struct Sized {
    /// What each host has of a round trip, in the order of [`Host::BOTH`].
    ledgers: [Ledger; 2],
    /// The time between the hosts both ways together, probes subtracted.
    pub(crate) network: Distribution,
    /// The same as the mean of each slice.
    pub(crate) network_slices: Vec<f64>,
    pub(crate) ways: Ways,
    /// Round trips of slices between the hosts that were not seen at all four points.
    pub(crate) unpaired: u64,
    /// Round trips without gates.
    ungated: Distribution,
    /// By step of the rotation: the round trips of slices with its gates, and of those without that followed.
    beside: BTreeMap<String, (Distribution, Distribution)>,
    pub(crate) counts: Counts,
    /// Why it failed.
    pub(crate) failure: Option<String>,
}

impl Sized {
    pub(crate) fn ledger(&self, host: Host) -> &Ledger {
        &self.ledgers[host as usize]
    }

    /// The round trip without gates, in nanoseconds; none when none was run.
    pub(crate) fn total_ns(&self) -> Option<f64> {
        self.ungated.trimmed_mean_ns()
    }

    /// The sum of all parts, in nanoseconds; none when a part was not measured.
    pub(crate) fn sum_ns(&self) -> Option<f64> {
        let mut sum = self.network.trimmed_mean_ns()?;
        for ledger in &self.ledgers {
            sum += ledger.sum_ns(STATISTIC)?;
        }
        Some(sum)
    }

    /// The step of the rotation whose gates disturb most, and the share by which they lengthen a round trip.
    pub(crate) fn worst_perturbation(&self) -> Option<(String, f64)> {
        let share = |(gated, ungated): &(Distribution, Distribution)| {
            Some(gated.trimmed_mean_ns()? / ungated.trimmed_mean_ns()? - 1.0)
        };
        (self.beside.iter())
            .filter_map(|(step, both)| Some((step.clone(), share(both)?)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// The round trips of all sizes.
#[derive(Debug, Clone)]
pub(crate) struct TwoHosts {
    pub(crate) mode: Mode,
    /// The server, as the user named it.
    pub(crate) server: String,
    /// What each host's kernel allows, in the order of [`Host::BOTH`].
    boundaries: [Boundaries; 2],
    /// In the order of the sizes.
    pub(crate) sizes: Vec<Sized>,
    /// What a passage of each gate costs, in nanoseconds, in the order of [`Host::BOTH`].
    probes: [BTreeMap<Gate, f64>; 2],
    /// How long it took until gates were live.
    pub(crate) start_up: Duration,
    /// The user stopped it.
    pub(crate) stopped: bool,
}

impl TwoHosts {
    pub(crate) const fn boundaries(&self, host: Host) -> &Boundaries {
        &self.boundaries[host as usize]
    }

    pub(crate) const fn probes(&self, host: Host) -> &BTreeMap<Gate, f64> {
        &self.probes[host as usize]
    }
}

/// Why there are no ledgers, as an experiment's failure.
fn refused(experiment: &'static str, reason: impl ToString) -> Error {
    Error::NothingMeasured {
        experiment,
        reason: reason.to_string(),
    }
}

/// Runs gated round trips over the sizes, for as long as `until` when that is given.
///
/// # Errors
/// [`Error::NothingMeasured`] when a host allows no gates or every size failed, [`Error::Stopped`] when nothing was measured before
/// the user stopped it.
pub(crate) fn of(
    experiment: &'static str,
    mode: Mode,
    sizes: &[usize],
    context: &Context<'_>,
) -> Result<Rc<TwoHosts>, Error> {
    let Some(server) = &context.remote else {
        return Err(Error::NothingMeasured {
            experiment,
            reason: "kernel-remote takes a host that serves: --to HOST".to_owned(),
        });
    };
    context.once(
        |known: &TwoHosts| known.mode == mode,
        || {
            let until = context.remaining().map(|left| left / 2);
            run(experiment, server, mode, sizes, until, context)
        },
    )
}

fn run(
    experiment: &'static str,
    remote: &KernelRemote,
    mode: Mode,
    sizes: &[usize],
    until: Option<Duration>,
    context: &Context<'_>,
) -> Result<TwoHosts, Error> {
    let begun = Instant::now();
    let sides = [
        Side::client().map_err(|error| refused(experiment, error))?,
        Side::server(remote).map_err(|error| refused(experiment, error))?,
    ];
    let mut run = Run {
        sides,
        ends: sizes
            .iter()
            .map(|&size| Ends::open(remote, mode, size, context.options.nagle))
            .collect(),
        sizes: Vec::new(),
        probes: Default::default(),
        round_trips: AMOUNT.round_trips(context.options.iterations),
    };
    let without = match mode.waiting {
        Waiting::Blocking => GateSet::EMPTY,
        // Nobody sleeps, so nobody is woken.
        Waiting::BusyPoll => GateSet::of(&[Gate::ReaderRuns]),
    };
    let tables = run
        .learn(without)
        .map_err(|reason| refused(experiment, reason))?;
    run.sizes = sizes
        .iter()
        .map(|_| Sized {
            ledgers: tables.map(|table| Ledger::new(table, Scope::Message)),
            network: Distribution::new(),
            network_slices: Vec::new(),
            ways: Ways::default(),
            unpaired: 0,
            ungated: Distribution::new(),
            beside: BTreeMap::new(),
            counts: Counts::default(),
            failure: None,
        })
        .collect();
    for (sized, ends) in run.sizes.iter_mut().zip(&run.ends) {
        sized.failure = ends.as_ref().err().cloned();
    }
    let start_up = begun.elapsed();
    let steps: Vec<Step> = Host::BOTH
        .into_iter()
        .flat_map(|host| {
            let spans = tables[host as usize].spans().iter();
            spans
                .filter(|span| is_own(span))
                .map(move |span| Step::Span(host, span))
        })
        .chain([Step::Between])
        .collect();
    if let Some(until) = until {
        // With its slices without gates, and those that tell what a passage costs.
        let slices = 3 * steps.len() as u32;
        let fits = run.affordable(until.saturating_sub(begun.elapsed()) / slices);
        run.round_trips = run.round_trips.min(fits);
    }
    // What a span's last gate costs is to be known before its turn comes to be the first of another.
    for step in &steps {
        for (host, gate) in run.twinned(*step) {
            run.twins(0, host, gate);
        }
    }
    let rounds = AMOUNT.rounds(context.options.iterations, run.round_trips);
    let mut rotation = Rotation::new(context, rounds, begun, until);
    while let Some(round) = rotation.round() {
        for (index, step) in steps.iter().enumerate() {
            if !rotation.step(&format!("kernel-remote, {}", step.name())) {
                break;
            }
            let at = round.place(index, sizes.len());
            for (host, gate) in run.twinned(*step) {
                run.twins(at, host, gate);
            }
            run.step(*step);
        }
    }
    let probes = Host::BOTH.map(|host| {
        let known = run.probes[host as usize].keys();
        known
            .map(|&gate| (gate, run.probe_ns(host, gate)))
            .collect()
    });
    let measured = run.sizes.iter().any(|sized| sized.total_ns().is_some());
    if !measured {
        let reason = run.sizes.iter().find_map(|sized| sized.failure.clone());
        return Err(reason.map_or(Error::Stopped, |reason| refused(experiment, reason)));
    }
    Ok(TwoHosts {
        mode,
        server: remote.target().to_string(),
        boundaries: run.sides.map(Side::into_boundaries),
        sizes: run.sizes,
        probes,
        start_up,
        stopped: rotation.is_stopped(),
    })
}

/// What a slice measures.
#[derive(Clone, Copy)]
enum Step {
    /// A span of one host.
    Span(Host, &'static Span),
    /// What lies between the hosts.
    Between,
}

impl Step {
    fn name(&self) -> String {
        match self {
            Self::Span(host, span) => {
                format!("{}, {}, {}", host.name(), span.direction.name(), span.name)
            }
            Self::Between => "between the hosts".to_owned(),
        }
    }
}

/// A session of one size, and how the events of each host are joined.
struct Ends {
    session: RemoteSession,
    talks: [Talk; 2],
    joiners: [tollgate_kernel::Joiner; 2],
}

impl Ends {
    fn open(remote: &KernelRemote, mode: Mode, size: usize, nagle: bool) -> Result<Self, String> {
        let spec = Spec {
            warmup: 0,
            nagle,
            ..Spec::new(Workload::Rr, size).with_mode(mode.placement, mode.waiting)
        };
        let session = remote
            .open_session(&spec)
            .map_err(|error| error.to_string())?;
        let ends = session
            .kernel_ends()
            .ok_or("the kernel carries nothing of it")?;
        let talk = Talk {
            far_port: ends.far_ports.first().copied().unwrap_or(0),
            // A thread of the other host is nobody here.
            near: 0,
            far: 0,
            size: u32::try_from(size).unwrap_or(u32::MAX),
        };
        let talks = [
            Talk {
                near: ends.near,
                ..talk
            },
            Talk {
                far: ends.far,
                ..talk
            },
        ];
        Ok(Self {
            session,
            talks,
            joiners: talks.map(tollgate_kernel::Joiner::new),
        })
    }

    fn run(&mut self, round_trips: u64) -> Result<Samples, String> {
        let mut samples = self.session.new_samples();
        self.session
            .run(round_trips, &mut samples)
            .map_err(|error| error.to_string())?;
        Ok(samples)
    }

    /// What a host has recorded since the last time, tied to messages.
    fn take(&mut self, side: &Side) -> Result<Joined, String> {
        let host = side.host as usize;
        let taken = side.take(&self.session, self.talks[host])?;
        Ok(Joined::tie(&mut self.joiners[host], &taken))
    }
}

struct Run {
    sides: [Side; 2],
    ends: Vec<Result<Ends, String>>,
    sizes: Vec<Sized>,
    /// By host and gate, what its passages cost in each round.
    probes: [BTreeMap<Gate, Vec<f64>>; 2],
    round_trips: u64,
}

impl Run {
    /// Does something at one size; a failure is noted there, and the size is left alone from then on.
    fn at(
        &mut self,
        at: usize,
        work: impl FnOnce(&[Side; 2], &mut Ends, &mut Sized) -> Result<(), String>,
    ) {
        let (Some(sized), Some(Ok(ends))) = (self.sizes.get_mut(at), self.ends.get_mut(at)) else {
            return;
        };
        if sized.failure.is_some() {
            return;
        }
        let outcome = self.sides[Host::Client as usize]
            .watch(ends.talks[Host::Client as usize])
            .and_then(|()| work(&self.sides, ends, sized));
        sized.failure = outcome.err();
    }

    /// Attaches gates on the hosts that have some, does something at every size, and detaches them.
    fn with(
        &mut self,
        gates: [GateSet; 2],
        twins: bool,
        only: Option<usize>,
        mut work: impl FnMut(&[Side; 2], &mut Ends, &mut Sized) -> Result<(), String>,
    ) {
        let sessions = || self.ends.iter().flatten().map(|ends| &ends.session);
        let mut outcome = Ok(());
        for (side, gates) in self.sides.iter_mut().zip(gates) {
            if outcome.is_ok() && !gates.is_empty() {
                outcome = side.attach(gates, twins, sessions());
            }
        }
        if let Err(reason) = &outcome {
            self.fail_all(reason);
        }
        for at in 0..self.ends.len() {
            if only.is_none_or(|only| only == at) {
                self.at(at, |sides, ends, sized| {
                    ends.run(WARM_UP)?;
                    for (side, gates) in sides.iter().zip(gates) {
                        if !gates.is_empty() {
                            ends.take(side)?;
                        }
                    }
                    work(sides, ends, sized)
                });
            }
        }
        let sessions = || self.ends.iter().flatten().map(|ends| &ends.session);
        for (side, gates) in self.sides.iter_mut().zip(gates) {
            if !gates.is_empty()
                && let Err(reason) = side.detach(sessions())
            {
                outcome = Err(reason);
            }
        }
        if let Err(reason) = outcome {
            self.fail_all(&reason);
        }
    }

    fn fail_all(&mut self, reason: &str) {
        for sized in &mut self.sizes {
            sized.failure.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Learns which of the gates messages are seen at, and where messages begin in the sequence numbers; gives each host's spans,
    /// but for those at the gates in `without`.
    fn learn(&mut self, without: GateSet) -> Result<[tollgate_gate::SpanTable; 2], String> {
        let sessions = || self.ends.iter().flatten().map(|ends| &ends.session);
        for side in &mut self.sides {
            let all = side.boundaries.gates();
            side.attach(all, false, sessions())?;
        }
        let mut seen = [GateSet::EMPTY; 2];
        let mut outcome = Ok(());
        for ends in self.ends.iter_mut().flatten() {
            outcome = self.sides[0]
                .watch(ends.talks[0])
                .and_then(|()| ends.run(AMOUNT.least_round_trips).map(drop));
            for (side, seen) in self.sides.iter().zip(&mut seen) {
                if outcome.is_ok() {
                    match ends.take(side) {
                        Ok(joined) => *seen = seen.union(joined.gates()),
                        Err(reason) => outcome = Err(reason),
                    }
                }
            }
            if outcome.is_err() {
                break;
            }
        }
        let sessions = || self.ends.iter().flatten().map(|ends| &ends.session);
        for side in &mut self.sides {
            side.detach(sessions())?;
        }
        outcome?;
        if let Some(Err(reason)) = self.ends.iter().find(|ends| ends.is_err())
            && self.ends.iter().all(Result::is_err)
        {
            return Err(reason.clone());
        }
        let [client, server] = &mut self.sides;
        let kept = seen.map(|seen| {
            let gates = seen.iter().filter(|&gate| !without.contains(gate));
            gates.collect()
        });
        Ok([client.settle(kept[0])?, server.settle(kept[1])?])
    }

    /// How many round trips each size has time for in a slice over all sizes; never fewer than a slice needs.
    fn affordable(&mut self, slice: Duration) -> u64 {
        let begun = Instant::now();
        for at in 0..self.ends.len() {
            self.at(at, |_, ends, _| {
                ends.run(AMOUNT.least_round_trips).map(drop)
            });
        }
        let pilot = begun.elapsed().as_secs_f64().max(1e-9);
        let fits = slice.as_secs_f64() / pilot * AMOUNT.least_round_trips as f64;
        (fits as u64).max(AMOUNT.least_round_trips)
    }

    /// The gates whose twins are measured in a step's turn.
    fn twinned(&self, step: Step) -> Vec<(Host, Gate)> {
        match step {
            Step::Span(host, span) => vec![(host, twinned(span)[0])],
            Step::Between => Host::BOTH
                .iter()
                .filter_map(|&host| Some((host, self.sides[host as usize].boundaries.last_out()?)))
                .collect(),
        }
    }

    /// Measures what a passage of the gate costs, at one size.
    fn twins(&mut self, at: usize, host: Host, gate: Gate) {
        let mut gates = [GateSet::EMPTY; 2];
        gates[host as usize] = GateSet::of(&[gate]);
        let round_trips = self.round_trips;
        let mut cost = None;
        self.with(gates, true, Some(at), |sides, ends, _| {
            ends.run(round_trips)?;
            let side = &sides[host as usize];
            let taken = side.take(&ends.session, ends.talks[host as usize])?;
            cost = tollgate_kernel::passage_cost(&taken.events);
            Ok(())
        });
        if let Some(cost) = cost {
            let known = self.probes[host as usize].entry(gate).or_default();
            known.push(cost.median_ns);
        }
    }

    /// What a passage of the gate costs, as known so far: the median of the rounds.
    fn probe_ns(&self, host: Host, gate: Gate) -> f64 {
        let known = self.probes[host as usize].get(&gate);
        let mut costs = known.cloned().unwrap_or_default();
        costs.sort_by(f64::total_cmp);
        costs.get(costs.len() / 2).copied().unwrap_or(0.0)
    }

    /// Every size once with the gates of a step and once without any.
    fn step(&mut self, step: Step) {
        let round_trips = self.round_trips;
        let probes: Vec<f64> = match step {
            // Half a passage of each gate lies within.
            Step::Span(host, span) => (twinned(span).iter())
                .map(|&gate| 0.5 * self.probe_ns(host, gate))
                .collect(),
            Step::Between => (self.twinned(step).into_iter())
                .map(|(host, gate)| self.probe_ns(host, gate))
                .collect(),
        };
        let mut gates = [GateSet::EMPTY; 2];
        match step {
            Step::Span(host, span) => gates[host as usize] = side::attached_for(span),
            Step::Between => {
                for (side, gates) in self.sides.iter().zip(&mut gates) {
                    *gates = side.boundaries.border();
                }
            }
        }
        let name = step.name();
        self.with(gates, false, None, |sides, ends, sized| {
            let samples = ends.run(round_trips)?;
            match step {
                Step::Span(host, span) => {
                    let joined = ends.take(&sides[host as usize])?;
                    sized.counts.merge(&joined.tied.counts);
                    let slice = Slice {
                        active: span.gates(),
                        units: round_trips,
                        probe_ns: probes.iter().sum(),
                        scale: SCALE,
                    };
                    sized.ledgers[host as usize].add_slice(&slice, &joined.passages(span.gates()));
                }
                Step::Between => {
                    let [client, server] = sides;
                    let joined = [ends.take(client)?, ends.take(server)?];
                    let borders = [client.boundaries.border(), server.boundaries.border()];
                    let messages = side::Numbered {
                        messages: u32::try_from(round_trips).unwrap_or(u32::MAX),
                        size: NonZeroU32::new(ends.talks[0].size).unwrap_or(NonZeroU32::MIN),
                    };
                    sized.between(&joined, borders, messages, &probes);
                }
            }
            let beside = sized.beside.entry(name.clone()).or_default();
            each_ns(&samples, |ns| beside.0.record_ns(ns));
            Ok(())
        });
        self.with([GateSet::EMPTY; 2], false, None, |_, ends, sized| {
            let samples = ends.run(round_trips)?;
            let beside = sized.beside.entry(name.clone()).or_default();
            each_ns(&samples, |ns| {
                sized.ungated.record_ns(ns);
                beside.1.record_ns(ns);
            });
            Ok(())
        });
    }
}

impl Sized {
    /// Adds a slice with the gates at both hosts' borders.
    fn between(
        &mut self,
        joined: &[Joined; 2],
        borders: [GateSet; 2],
        messages: side::Numbered,
        probes: &[f64],
    ) {
        for joined in joined {
            self.counts.merge(&joined.tied.counts);
        }
        let exchanges = side::exchanges(joined, borders, messages);
        self.unpaired += u64::from(messages.messages) - exchanges.len() as u64;
        if exchanges.is_empty() {
            return;
        }
        // A passage out of the client lies on the way there, one out of the server on the way back.
        let there = probes.first().copied().unwrap_or(0.0);
        let back = probes.get(1).copied().unwrap_or(0.0);
        let mut slice = Distribution::new();
        for exchange in &exchanges {
            slice.record_ns(exchange.both_ways_ns() - there - back);
        }
        self.network_slices.extend(slice.trimmed_mean_ns());
        self.network.merge(&slice);
        match clocks::one_way(&exchanges).map(|way| way.less(there, back)) {
            Some(way) => self.ways.slices.push(way),
            None => self.ways.uneven += 1,
        }
    }
}

/// The gates whose passages lie within a span, the one from behind the clock and the other until it, by the gates whose twins tell what
/// they cost.
fn twinned(span: &Span) -> [Gate; 2] {
    [span.from, span.to].map(|gate| match gate {
        // The application ends with the call that sends the answer, and a call that returns is stamped as one that begins.
        Gate::ApplicationEnd | Gate::SocketOutEnd => Gate::SocketOutBegin,
        gate => gate,
    })
}

/// Adds a slice's round trips.
fn each_ns(samples: &Samples, mut add: impl FnMut(f64)) {
    for (ns, count) in samples.buckets() {
        for _ in 0..count {
            add(ns as f64);
        }
    }
}

/// The directions of a host's spans, in the order in which a round trip passes them there.
pub(crate) const fn directions(host: Host) -> [Direction; 3] {
    match host {
        Host::Client => [Direction::Tx, Direction::Rx, Direction::Between],
        Host::Server => [Direction::Rx, Direction::Between, Direction::Tx],
    }
}

/// The name of a size that failed, and why.
pub(crate) fn failures<'a>(
    hosts: &'a TwoHosts,
    sizes: &'a [usize],
) -> impl Iterator<Item = (String, &'a str)> {
    sizes
        .iter()
        .zip(&hosts.sizes)
        .filter_map(|(&size, sized)| Some((format::size(size), sized.failure.as_deref()?)))
}
