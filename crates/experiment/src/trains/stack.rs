//! Trains over Tollgate's own stack: slices with the two gates of a span, in turn with slices without.

use std::time::Instant;

use tollgate_gate::span::Place;
use tollgate_gate::{Gate, GateSet, STACK, Span};
use tollgate_workload::stack_memory::trains::{Passed, Recording, StackTrains, WARM_UP};
use tollgate_workload::trains::Trains;
use tollgate_workload::{Error, Mode};

use super::{AtSize, Measured, Plan, Seen, Subject, Way, typical};
use crate::context::Context;
use crate::rotation::Rotation;

/// Where the time of a message begins.
const FIRST: Gate = Gate::SocketOutBegin;
/// Slices for each span: with its gates, without any, with the first gate and its last one.
const SLICES: usize = 3;

/// Measures `stack-memory`.
///
/// # Errors
/// When the ends cannot be opened.
pub(super) fn run(mode: Mode, plan: &Plan<'_>, context: &Context<'_>) -> Result<Measured, Error> {
    let begun = Instant::now();
    let mut trains = StackTrains::open()?;
    let mut measured = Measured::new(Subject::Stack, mode, Some(STACK), plan.sizes.len());
    measured.settings = trains.settings();
    measured.step_ns = trains.clock().resolution_ns();
    let pilot = Instant::now();
    for &response in plan.sizes {
        trains.run(response, 1, &mut |_| ())?;
    }
    let round_trips = plan.paced(
        pilot.elapsed() / (1 + WARM_UP),
        SLICES * STACK.spans().len(),
        WARM_UP,
    );
    let mut rotation = Rotation::new(context, plan.rounds, begun, plan.within);
    while let Some(round) = rotation.round() {
        for (index, span) in STACK.spans().iter().enumerate() {
            if !rotation.step(&format!("{}, {}", Subject::Stack.label(), span.name)) {
                break;
            }
            let at = round.place(index, plan.sizes.len());
            let cost = trains.passage_ns(span.from, plan.sizes[at], round_trips)?;
            let slowness = measured.drift.last();
            let cost = cost.map(|ns| ns / slowness);
            measured.probes.entry(span.from).or_default().extend(cost);
            let probe = measured.probe_ns(span.from);
            let mut slice = Vec::with_capacity(plan.sizes.len());
            for &response in plan.sizes {
                slice.push(AtOneSize::run(
                    &mut trains,
                    span,
                    response,
                    round_trips,
                    probe,
                )?);
            }
            let usual: Vec<_> = slice.iter().map(|one| typical(&one.ungated)).collect();
            let slowness = measured.drift.note(&usual);
            for (size, one) in measured.sizes.iter_mut().zip(slice) {
                one.add_to(size, index, span, slowness, probe);
            }
        }
    }
    Ok(measured.at_usual_speed())
}

/// What one size saw in the slices of a span, as it was measured.
struct AtOneSize {
    seen: Seen,
    gated: Vec<f64>,
    ungated: Vec<f64>,
    /// How long after the first gate the requests and the responses came to the last gate of a span on the way.
    reached: Option<(Vec<f64>, Vec<f64>)>,
}

impl AtOneSize {
    fn run(
        trains: &mut StackTrains,
        span: &Span,
        response: usize,
        round_trips: u32,
        probe: f64,
    ) -> Result<Self, Error> {
        let (mut gated, mut ungated) = (Vec::new(), Vec::new());
        let recording = trains.gated(active(span), response, round_trips, &mut |ns| {
            gated.push(ns);
        })?;
        let seen = seen(span, &recording, trains, probe);
        trains.run(response, round_trips, &mut |ns| ungated.push(ns))?;
        let reached = if span.place == Place::OnTheWay {
            // A posted reader has a packet when it is queued, and passes no gate to take it.
            let seen_at = match span.to {
                Gate::SocketInBegin => Gate::SocketQueued,
                gate => gate,
            };
            let gates = GateSet::of(&[FIRST, seen_at]);
            let recording = trains.gated(gates, response, round_trips, &mut |_| ())?;
            Some(reached(span.to, &recording, trains))
        } else {
            None
        };
        Ok(Self {
            seen,
            gated,
            ungated,
            reached,
        })
    }

    /// Adds it to what is known of the size, brought to another speed.
    fn add_to(self, size: &mut AtSize, index: usize, span: &Span, slowness: f64, probe: f64) {
        let faster = |times: Vec<f64>| times.into_iter().map(move |ns| ns / slowness);
        size.add(index, span, &self.seen.faster(slowness));
        size.spans[index].beside.0.extend(faster(self.gated));
        let ungated: Vec<f64> = faster(self.ungated).collect();
        size.add_ungated(Some(index), &ungated);
        if let Some((requests, responses)) = self.reached {
            let reached = size.reached.entry(span.to).or_default();
            reached.0.extend(faster(requests).map(|ns| ns - probe));
            reached.1.extend(faster(responses).map(|ns| ns - probe));
        }
    }
}

/// How long after the first gate the requests and the responses of a slice came to `gate`, a passage's cost included.
fn reached(gate: Gate, recording: &Recording, trains: &StackTrains) -> (Vec<f64>, Vec<f64>) {
    let (mut requests, mut responses) = (Vec::new(), Vec::new());
    for message in &recording.messages {
        if let (Some(from), Some(to)) = (message.whole.at(FIRST), message.whole.at(gate)) {
            let ns = trains.clock().ns_between(from, to);
            if message.response {
                responses.push(ns);
            } else {
                requests.push(ns);
            }
        }
    }
    (requests, responses)
}

/// The gates of a slice: those of the span, and those that say which packets a burst holds and when a posted reader has one.
fn active(span: &Span) -> GateSet {
    let mut gates = span.gates();
    if gates.contains(Gate::DriverOutBegin) || gates.contains(Gate::DriverOutEnd) {
        gates = gates.with(Gate::DeviceQueueIn);
    }
    if gates.contains(Gate::DriverInBegin) {
        gates = gates.with(Gate::IpInBegin);
    }
    if gates.contains(Gate::SocketInBegin) {
        gates = gates.with(Gate::SocketQueued);
    }
    gates
}

/// What a slice says of a span.
fn seen(span: &Span, recording: &Recording, trains: &StackTrains, probe: f64) -> Seen {
    let (clock, begun) = (trains.clock(), recording.begun());
    let way = |passed: &Passed| {
        let (from, to) = (passed.at(span.from)?, passed.at(span.to)?);
        let passages = recording.passages_between(from, to) as u64;
        Some(Way {
            from: clock.ns_between(begun, from),
            to: clock.ns_between(begun, to),
            probes: probe * passages as f64,
            passages,
            handed_over: false,
        })
    };
    let mut seen = Seen {
        lost: recording.lost,
        strange: recording.strange,
        ..Seen::default()
    };
    for message in &recording.messages {
        let whole = way(&message.whole);
        if message.response {
            seen.packets
                .push(message.segments.iter().map(way).collect());
            seen.responses.push(whole);
        } else {
            seen.requests.push(whole);
        }
    }
    seen
}
