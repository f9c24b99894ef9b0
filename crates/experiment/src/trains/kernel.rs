//! Trains over the kernel's paths: slices with two gates of the kernel, in turn with slices without.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::os::unix::process::parent_id;
use std::time::{Duration, Instant};

use tollgate_gate::span::Place;
use tollgate_gate::{Direction, Gate, GateSet, JoinPlan, Passage, Recorded, Span, TickScale, join};
use tollgate_kernel::join::train::{Exchange, Leg, Part, Tied, Trains as Joiner};
use tollgate_kernel::{
    Attached, Event, Gates, Plan as Hooks, Traffic, Watch, abilities, passage_cost,
};
use tollgate_stats::{interquartile, interquartile_mean};
use tollgate_workload::kernel::trains::{Carrier, KernelTrains, WARM_UP};
use tollgate_workload::trains::{REQUEST, SEGMENT, Trains};
use tollgate_workload::{Error, Mode, PathId};

use super::laden::{Laden, Price};
use super::seen::{Seen, Way};
use super::{Measured, Plan, Subject, active, packets, plain_mean};
use crate::context::Context;
use crate::kernel_gated::{self, InPlace, twinned};
use crate::rotation::Rotation;

/// Events that each processor has room for: a slice of the longest responses.
const ROOM: u32 = 1 << 14;
const SCALE: TickScale = TickScale::NANOSECONDS;
/// A size whose usual round trip takes so many times what it should was disturbed, and is run again: more than two gates cost, and
/// less than the smallest share of a processor that is taken away.
const DISTURBED: f64 = 1.25;
/// How long what gates cost where they stand is looked for on a path, and what that is called where it fails.
const CROSSING: Duration = Duration::from_millis(2_500);
const CROSSING_OF: &str = "what a gate costs";
/// Calls that do nothing beside a slice without gates.
const CALLS: usize = 64;
/// How often it is run again at most; a machine that has become slower is believed then.
const AGAIN: u32 = 2;
/// The reader of a train sleeps and wakes more than once in a response, so its waking is no gate of a packet's way: the wait for it
/// ends where the packet is copied.
const EXCEPT: GateSet = GateSet::of(&[Gate::ReaderRuns]);

/// Measures one way of carrying segments. Without gates only round trips are measured, and the result says why.
///
/// # Errors
/// When the ends cannot be opened.
pub(super) fn run(
    subject: Subject,
    carrier: Carrier,
    mode: Mode,
    plan: &Plan<'_>,
    shared: &mut Shared,
    context: &Context<'_>,
) -> Result<Measured, Error> {
    let begun = Instant::now();
    let in_place = shared.in_place(subject.path(), mode, plan.within, context);
    // The slices are to fit in what that has left.
    let plan = &plan.after(begun.elapsed());
    let begun = Instant::now();
    let trains = KernelTrains::open(subject.path(), carrier, mode)?;
    let (gates, table, without) = match &shared.loaded {
        Ok((gates, hooks)) => match hooks.table(EXCEPT) {
            Some(table) => (Some(gates), Some(table), None),
            None => (
                None,
                None,
                Some("this kernel has fewer than two of the hooks".to_owned()),
            ),
        },
        Err(reason) => (None, None, Some(reason.clone())),
    };
    let mut measured = Measured::new(subject, mode, table, plan.sizes.len());
    measured.settings = trains.settings();
    measured.without_gates = without;
    measured.in_place = in_place;
    let ends = trains.ends();
    let port = ends.far_ports.first().copied().unwrap_or(0);
    let mut run = Run {
        joiner: Joiner::new(port, ends.near, ends.far),
        watch: Watch {
            ports: ends.far_ports.clone(),
            threads: vec![ends.near, ends.far],
            // They pass between the gates of a train, and their passages are to be subtracted.
            acknowledgments: true,
        },
        trains,
        gates,
        measured,
        plan,
        round_trips: plan.round_trips,
        calls: Vec::new(),
    };
    if let Err(reason) = run.learn() {
        run.give_up_gates(&reason);
    }
    run.pace()?;
    if run.gates.is_some() {
        run.ungated(None);
    }
    let mut rotation = Rotation::new(context, plan.rounds, begun, plan.within);
    while let Some(round) = rotation.round() {
        // What runs beside the way belongs to no packet.
        let spans: Vec<_> = run
            .measured
            .spans()
            .filter(|(_, span)| span.place != Place::Beside)
            .collect();
        if spans.is_empty() && rotation.step(&subject.label()) {
            run.ungated(None);
        }
        for (index, span) in spans {
            if !rotation.step(&format!("{}, {}", subject.label(), span.name)) {
                break;
            }
            let before = run.measured.drift.last();
            let slice = run
                .twins(span, round.place(index, plan.sizes.len()))
                .and_then(|()| run.slice(span));
            match slice {
                Ok(slice) => {
                    let slowness = f64::midpoint(before, run.ungated(Some(index)));
                    run.add(index, span, slice, slowness);
                }
                Err(reason) => {
                    run.give_up_gates(&reason);
                    break;
                }
            }
        }
    }
    run.measured.call_ns = interquartile_mean(&run.calls);
    for size in &mut run.measured.sizes {
        size.turns_ns = run.measured.call_ns;
    }
    Ok(run.measured.at_usual_speed())
}

/// The gates' programs and the hooks that they take, or why there are none.
type Loaded = Result<(Gates, Hooks), String>;

/// What passages of gates cost where they stand, against what their twins show; or why that is not known.
pub(super) type Crossed = Result<InPlace, String>;

/// What all subjects of a run have in common.
pub(super) struct Shared {
    loaded: Loaded,
    /// By path and mode; other ways of carrying segments pass the same hooks.
    in_place: Vec<((PathId, Mode), Crossed)>,
}

impl Shared {
    /// Finds out what the kernel allows and loads the programs.
    pub(super) fn load() -> Self {
        Self {
            loaded: load(),
            in_place: Vec::new(),
        }
    }

    /// Why there are no gates.
    pub(super) fn without_gates(&self) -> Option<&str> {
        self.loaded.as_ref().err().map(String::as_str)
    }

    /// What gates cost on this path, found out when it is asked for first; none without gates.
    fn in_place(
        &mut self,
        path: PathId,
        mode: Mode,
        within: Option<Duration>,
        context: &Context<'_>,
    ) -> Option<Crossed> {
        if self.without_gates().is_some() {
            return None;
        }
        let at = (path, mode);
        if let Some((_, known)) = self.in_place.iter().find(|(of, _)| *of == at) {
            return Some(known.clone());
        }
        let within = within.map_or(CROSSING, |within| CROSSING.min(within / 3));
        let known = kernel_gated::in_place(CROSSING_OF, path, mode, within, context)
            .map_err(|error| error.to_string());
        self.in_place.push((at, known.clone()));
        Some(known)
    }
}

fn load() -> Loaded {
    let abilities = abilities();
    let hooks = Hooks::choose(&abilities, Traffic::Others);
    if hooks.gates().is_empty() {
        let reason = abilities.types.reason().or(abilities.tracepoints.reason());
        return Err(reason
            .unwrap_or("this kernel has none of the hooks")
            .to_owned());
    }
    let gates = Gates::load(&hooks, ROOM).map_err(|error| error.to_string())?;
    Ok((gates, hooks))
}

struct Run<'a> {
    trains: KernelTrains,
    gates: Option<&'a Gates>,
    joiner: Joiner,
    watch: Watch,
    measured: Measured,
    plan: &'a Plan<'a>,
    round_trips: u32,
    /// What a call that does nothing takes, in nanoseconds, by slice without gates.
    calls: Vec<f64>,
}

fn exchange(response: usize, round_trips: u32) -> Exchange {
    Exchange {
        messages: round_trips + WARM_UP,
        request: REQUEST as u32,
        response: response as u32,
        segment: SEGMENT as u32,
    }
}

impl Run<'_> {
    /// From here on only round trips are measured.
    fn give_up_gates(&mut self, reason: &str) {
        self.measured
            .without_gates
            .get_or_insert_with(|| reason.to_owned());
        self.measured.table = None;
        self.gates = None;
    }

    fn attach(&self, active: GateSet, twin: Option<Gate>) -> Result<Attached, String> {
        let gates = self.gates.ok_or("no gates are loaded")?;
        gates
            .watch(&self.watch)
            .map_err(|error| error.to_string())?;
        let ends = self.trains.ends();
        let namespaces = ends.networks();
        let attached = match twin {
            Some(gate) => gates.attach_twins(gate, &namespaces),
            None => gates.attach(active, &namespaces),
        };
        attached.map_err(|error| error.to_string())
    }

    /// Learns where messages begin in the sequence numbers.
    fn learn(&mut self) -> Result<(), String> {
        let Some(table) = self.measured.table else {
            return Ok(());
        };
        let gate = [Gate::TcpOutBegin, Gate::IpOutBegin, Gate::DeviceQueueIn]
            .into_iter()
            .find(|&gate| table.gates().contains(gate))
            .ok_or("no gate sees where messages begin")?;
        let attached = self.attach(GateSet::of(&[gate]), None)?;
        self.trains
            .run(SEGMENT, 1, &mut |_| ())
            .map_err(|error| error.to_string())?;
        drop(attached);
        let events = self.taken();
        if self.joiner.learn(&events.0, &exchange(SEGMENT, 1)) {
            Ok(())
        } else {
            Err("the gates saw nothing of the connection".to_owned())
        }
    }

    /// Chooses how many round trips a slice makes, by how long the sizes take without gates.
    fn pace(&mut self) -> Result<(), Error> {
        let begun = Instant::now();
        for &response in self.plan.sizes {
            self.trains.run(response, 1, &mut |_| ())?;
            self.joiner.advance(&exchange(response, 1));
        }
        let slices = 2 * self.measured.spans().count().max(1);
        self.round_trips = self
            .plan
            .paced(begun.elapsed() / (1 + WARM_UP), slices, WARM_UP);
        Ok(())
    }

    fn taken(&self) -> (Vec<Event>, u64) {
        match self.gates {
            None => (Vec::new(), 0),
            Some(gates) => {
                let taken = gates.take();
                (taken.events, taken.lost)
            }
        }
    }

    /// Measures what a passage of the span's first gate costs.
    fn twins(&mut self, span: &Span, at: usize) -> Result<(), String> {
        let [gate, _] = twinned(span);
        let attached = self.attach(GateSet::EMPTY, Some(gate))?;
        let (response, round_trips) = (self.plan.sizes[at], self.round_trips);
        let outcome = self.trains.run(response, round_trips, &mut |_| ());
        drop(attached);
        outcome.map_err(|error| error.to_string())?;
        self.joiner.advance(&exchange(response, round_trips));
        let slowness = self.measured.drift.last();
        if let Some(cost) = passage_cost(&self.taken().0) {
            let costs = self.measured.probes.entry(gate).or_default();
            costs.push(cost.middle_mean_ns / slowness);
        }
        Ok(())
    }

    /// The times of a slice's round trips at one size, in nanoseconds. By one rule with gates and without, a slice that something
    /// else has disturbed is not looked at but run again; of what gates saw of it nothing is left.
    fn undisturbed(&mut self, at: usize) -> Result<Vec<f64>, Error> {
        let response = self.plan.sizes[at];
        let mut again = 0;
        loop {
            let mut times = Vec::new();
            self.trains
                .run(response, self.round_trips, &mut |ns| times.push(ns))?;
            let expected = self.measured.drift.expected_ns(at);
            let disturbed = interquartile_mean(&times)
                .zip(expected)
                .is_some_and(|(ns, expected)| ns > DISTURBED * expected);
            if !disturbed || again == AGAIN {
                return Ok(times);
            }
            again += 1;
            self.measured.sizes[at].disturbed += 1;
            self.taken();
            self.joiner.advance(&exchange(response, self.round_trips));
        }
    }

    /// Every size once with the gates of a span: what they saw and the times of the round trips, by size.
    fn slice(&mut self, span: &'static Span) -> Result<Vec<(Seen, Vec<f64>)>, String> {
        let measured = &self.measured;
        let prices: BTreeMap<Gate, Price> = active(span)
            .iter()
            .filter_map(|gate| Some((gate, measured.price(gate)?)))
            .collect();
        let [first, _] = twinned(span);
        // A gate that nothing is known of yet costs what the span's first does.
        let price = |gate| prices.get(&gate).or(prices.get(&first)).copied();
        let price = |gate| price(gate).unwrap_or_default();
        let attached = self.attach(active(span), None)?;
        let mut slice = Vec::with_capacity(self.plan.sizes.len());
        for (at, &response) in self.plan.sizes.iter().enumerate() {
            let times = self.undisturbed(at).map_err(|error| error.to_string())?;
            let (events, lost) = self.taken();
            let exchange = exchange(response, self.round_trips);
            let tied = self.joiner.tie(&events, &exchange);
            let recorded = Recorded {
                events: &tied.events,
                lost,
            };
            let joined = join([recorded], JoinPlan::new(span.gates(), SCALE));
            let usual = usual(&times);
            let seen = Seen {
                lost,
                laden: laden(&times, &usual, &events, &exchange),
                usual,
                ..seen(span, &exchange, &tied, &joined.passages, price)
            };
            slice.push((seen, times));
        }
        drop(attached);
        Ok(slice)
    }

    /// Adds a slice that ran on a machine of this slowness.
    fn add(&mut self, index: usize, span: &Span, slice: Vec<(Seen, Vec<f64>)>, slowness: f64) {
        for (size, (seen, times)) in self.measured.sizes.iter_mut().zip(slice) {
            size.add(index, span, &seen.faster(slowness));
            let times = times.into_iter().map(|ns| ns / slowness);
            size.spans[index].beside.0.extend(times);
        }
    }

    /// Every size once without gates, beside the slice of a span when that is given; gives the slowness of the slice.
    fn ungated(&mut self, beside: Option<usize>) -> f64 {
        let mut slice = Vec::with_capacity(self.plan.sizes.len());
        for (at, &response) in self.plan.sizes.iter().enumerate() {
            let outcome = self.undisturbed(at);
            self.joiner.advance(&exchange(response, self.round_trips));
            let size = &mut self.measured.sizes[at];
            slice.push(outcome.unwrap_or_else(|error| {
                size.failure.get_or_insert_with(|| error.to_string());
                Vec::new()
            }));
        }
        let usual: Vec<_> = slice
            .iter()
            .map(|times| interquartile_mean(times))
            .collect();
        let slowness = self.measured.drift.note(&usual);
        self.calls.extend(call_ns().map(|ns| ns / slowness));
        for (size, mut times) in self.measured.sizes.iter_mut().zip(slice) {
            for ns in &mut times {
                *ns /= slowness;
            }
            size.add_ungated(beside, &times, interquartile_mean(&times));
        }
        slowness
    }
}

/// What a call that does nothing takes, in nanoseconds, as round trips are timed. Between their clock and the gates at their ends lie a
/// way into the kernel, that of the call that sends, and a way out of it, that of the call that reads: those of one call.
fn call_ns() -> Option<f64> {
    let times: Vec<f64> = (0..CALLS)
        .map(|_| {
            let begun = Instant::now();
            black_box(parent_id());
            begun.elapsed().as_nanos() as f64
        })
        .collect();
    interquartile_mean(&times)
}

/// The places of the round trips of the middle half: means of their spans sum to the mean of their times.
fn usual(times: &[f64]) -> Vec<usize> {
    let numbered = times.iter().copied().enumerate().collect();
    interquartile(numbered, |(_, ns): &(usize, f64)| *ns)
        .into_iter()
        .map(|(at, _)| at)
        .collect()
}

/// What the usual round trips of a slice took and how often they passed each gate; none when there are none. All round trips of a slice
/// are alike in how often they do, those of its warm-up too.
fn laden(times: &[f64], usual: &[usize], events: &[Event], exchange: &Exchange) -> Option<Laden> {
    let usual: Vec<f64> = usual.iter().map(|&at| times[at]).collect();
    let mut passages: BTreeMap<Gate, f64> = BTreeMap::new();
    let each = 1.0 / f64::from(exchange.messages);
    for gate in events.iter().filter_map(Event::gate) {
        *passages.entry(gate).or_default() += each;
    }
    Some(Laden {
        round_trip_ns: plain_mean(&usual)?,
        passages: passages.into_iter().collect(),
    })
}

/// What the passages of a slice say of a span.
fn seen(
    span: &Span,
    exchange: &Exchange,
    tied: &Tied,
    passages: &[Passage],
    price: impl Fn(Gate) -> Price,
) -> Seen {
    let places = packets(exchange.response as usize);
    // The warm-up is not looked at.
    let warm = |message: u32| message >= WARM_UP;
    let counted = exchange.messages - WARM_UP;
    let mut seen = Seen {
        packets: vec![vec![None; places]; counted as usize],
        requests: vec![None; counted as usize],
        responses: vec![None; counted as usize],
        strange: tied.counts.strange,
        acknowledgments: tied.acknowledgments,
        ..Seen::default()
    };
    // After its last response the asking end asks no more.
    if span.direction == Direction::Between {
        seen.responses.pop();
    }
    let begun = passages
        .iter()
        .filter_map(|passage| passage.at(span.from))
        .min()
        .unwrap_or_default();
    for passage in passages {
        let (Some(from), Some(to)) = (passage.at(span.from), passage.at(span.to)) else {
            continue;
        };
        let inside = || tied.passages_between(passage.packet, (span.from, from), (span.to, to));
        let way = |first: bool| Way {
            from: SCALE.ns_between(begun, from),
            to: SCALE.ns_between(begun, to),
            probes: Price::of(inside(), first, &price),
            passages: inside().count() as u64,
            handed_over: tied
                .handed_over(passage.packet, span.from, span.to)
                .unwrap_or(false),
        };
        match exchange.part(passage.packet) {
            Some(Part::Segment {
                leg: Leg::Response,
                message,
                index,
            }) if warm(message) => {
                seen.packets[(message - WARM_UP) as usize][index as usize] = Some(way(index == 0));
            }
            Some(Part::Message { leg, message }) if warm(message) => {
                let messages = match leg {
                    Leg::Request => &mut seen.requests,
                    Leg::Response => &mut seen.responses,
                };
                if let Some(slot) = messages.get_mut((message - WARM_UP) as usize) {
                    slot.get_or_insert(way(true));
                }
            }
            _ => {}
        }
    }
    seen
}
