//! What a passage of a kernel's gate costs where it stands, for gates whose own round trips cannot tell: those of trains
//! ([`crate::trains`]).
//!
//! Gates are crossed in rounds ([`passage`]), and their twins measured beside. Gates sleep through a part of a slice's round trips, so
//! that the slice is disturbed less ([`ends`]). Times are of the usual round trips ([`usual`]).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tollgate_gate::{Gate, GateSet, Span, SpanTable, TickScale};
use tollgate_kernel::{Attached, Gates, Plan, Traffic, abilities, passage_cost};
use tollgate_stats::interquartile_mean;
use tollgate_workload::trains::SEGMENT;
use tollgate_workload::{Mode, Naps, PathId, Waiting, Wanted};

use crate::context::Context;
use crate::error::Error;
use crate::rotation::{self, Amount, Rotation};

mod ends;
mod passage;
mod usual;

use ends::Ends;
pub(crate) use passage::InPlace;
use passage::{Crossed, Crossing};

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
/// Bytes of the messages that gates are crossed by where nothing else is measured.
const CROSSED_SIZE: usize = 200;
/// Round trips before each slice that are not timed; gates see them all the same.
const WARM_UP: u32 = 16;
/// Round trips of a slice that count, between two naps of its gates.
pub(crate) const FOLLOWED: u64 = 14;
/// A slice with gates has so many times as many round trips as one without, since its gates see one of so many.
const SEES_ONE_OF: u64 = 6;
/// Round trips that its gates sleep through between those that they see, with one on each side that does not count.
pub(crate) const SLEPT: u64 = (SEES_ONE_OF - 1) * (FOLLOWED + 2);
const SCALE: TickScale = TickScale::NANOSECONDS;

/// What the messages of one size show.
#[derive(Default)]
struct Gated {
    /// The gates that were crossed, round by round.
    rounds: Vec<Vec<Crossed>>,
    /// Why it failed.
    failure: Option<String>,
}

/// Why a path has no gates here, as an experiment's failure.
fn refused(experiment: &'static str, reason: impl ToString) -> Error {
    Error::NothingMeasured {
        experiment,
        reason: reason.to_string(),
    }
}

/// Finds what passages of the path's gates cost where they stand, for those whose own round trips cannot tell: times of other gates are
/// to be brought to it.
///
/// # Errors
/// [`Error::NothingMeasured`] when the kernel allows no gates, or round trips failed.
pub(crate) fn in_place(
    experiment: &'static str,
    path: PathId,
    mode: Mode,
    within: Duration,
    context: &Context<'_>,
) -> Result<InPlace, Error> {
    let begun = Instant::now();
    let mut run = Run::open(experiment, path, mode, &[CROSSED_SIZE], context)?;
    let crossings = passage::crossings(run.table, &run.plan);
    let mut rotation = Rotation::new(context, AMOUNT.rounds, begun, Some(within));
    while let Some(round) = rotation.round() {
        run.begin_round();
        for crossing in &crossings {
            if !rotation.step(&format!("{path}, what a gate costs")) {
                break;
            }
            run.twins(0, crossing.gate);
            run.across(round, crossing);
        }
    }
    let mut failures = run.sizes.iter().filter_map(|gated| gated.failure.clone());
    match failures.next() {
        Some(reason) => Err(refused(experiment, reason)),
        None => Ok(run.finish()),
    }
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
    sizes: Vec<Gated>,
    plan: Plan,
    table: SpanTable,
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
                .map(|&size| Ends::open(path, mode, size, context.options.nagle))
                .collect(),
            sizes: sizes.iter().map(|_| Gated::default()).collect(),
            plan,
            table,
            round_trips: AMOUNT.round_trips(context.options.iterations),
            probes: BTreeMap::new(),
        };
        for (at, ends) in run.ends.iter().enumerate() {
            if let Err(reason) = ends {
                run.sizes[at].failure = Some(reason.clone());
            }
        }
        run.learn();
        Ok(run)
    }

    fn begin_round(&mut self) {
        for gated in &mut self.sizes {
            gated.rounds.push(Vec::new());
        }
    }

    /// Does something at one size; a failure is noted there, and the size is left alone from then on.
    fn at(
        &mut self,
        at: usize,
        work: impl FnOnce(Option<&Gates>, &mut Ends, &mut Gated) -> Result<(), String>,
    ) {
        let gated = &mut self.sizes[at];
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
        let own = self.plan.own_calls();
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
        for gated in &mut self.sizes {
            gated.failure.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Learns where messages begin in the sequence numbers of each connection.
    fn learn(&mut self) {
        let border = self.table.gates();
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
        for (gated, took) in self.sizes.iter_mut().zip(took) {
            if let (Some(crossed), Some(round)) =
                (crossing.crossed(took, by_twins_ns), gated.rounds.last_mut())
            {
                round.push(crossed);
            }
        }
    }

    /// Whether a message of the size at this place fits into one segment of Ethernet.
    fn is_of_one_segment(&self, at: usize) -> bool {
        let size = self.ends[at].as_ref().map(|ends| ends.joiner.talk().size);
        size.is_ok_and(|size| size as usize <= SEGMENT)
    }

    fn finish(self) -> InPlace {
        let most = self.sizes.iter().map(|gated| gated.rounds.len()).max();
        let rounds: Vec<Vec<Crossed>> = (0..most.unwrap_or(0))
            .map(|at| {
                let sizes = self.sizes.iter().filter_map(|gated| gated.rounds.get(at));
                sizes.flatten().cloned().collect()
            })
            .collect();
        let by_twins = self.probes.iter();
        let by_twins = by_twins
            .filter_map(|(&gate, costs)| Some((gate, interquartile_mean(costs)?)))
            .collect();
        InPlace::of(&rounds, &self.plan, by_twins)
    }
}
