//! Trains over Tollgate's own stack: slices with the two gates of a span, in turn with slices without.

use std::time::{Duration, Instant};

use tollgate_gate::span::Place;
use tollgate_gate::{Gate, GateSet, STACK, Span};
use tollgate_workload::stack_memory::trains::{Passed, Recording, StackTrains, WARM_UP};
use tollgate_workload::trains::Trains;
use tollgate_workload::{Error, Mode};

use super::{AtSize, Measured, Plan, Seen, Subject, Way};
use crate::context::Context;

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
    let pilot = Instant::now();
    for &response in plan.sizes {
        trains.run(response, 1, &mut |_| ())?;
    }
    let round_trips = plan.paced(
        pilot.elapsed() / (1 + WARM_UP),
        SLICES * STACK.spans().len(),
        WARM_UP,
    );
    let mut longest = Duration::ZERO;
    for round in 0..plan.rounds {
        let round_begun = Instant::now();
        let over = plan
            .within
            .is_some_and(|within| begun.elapsed() + longest > within);
        // The first round is always gone through; another only when there is time for it.
        if context.cancel.is_raised() || (round > 0 && over) {
            break;
        }
        let left = plan
            .within
            .map_or(longest * (plan.rounds - round), |within| {
                within.saturating_sub(begun.elapsed())
            });
        for (index, span) in STACK.spans().iter().enumerate() {
            if context.cancel.is_raised() {
                break;
            }
            context.tell(&format!("{}, {}", Subject::Stack.label(), span.name), left);
            let at = (round as usize + index) % plan.sizes.len().max(1);
            let cost = trains.passage_ns(span.from, plan.sizes[at], round_trips)?;
            measured.probes.entry(span.from).or_default().extend(cost);
            let probe = measured.probe_ns(span.from);
            for (size, &response) in measured.sizes.iter_mut().zip(plan.sizes) {
                let mut times = Vec::new();
                let recording = trains.gated(active(span), response, round_trips, &mut |ns| {
                    times.push(ns);
                })?;
                size.spans[index].beside.0.append(&mut times);
                size.add(index, span, &seen(span, &recording, &trains, probe));
                trains.run(response, round_trips, &mut |ns| times.push(ns))?;
                size.spans[index].beside.1.extend(&times);
                size.ungated.extend(times);
                if span.place == Place::OnTheWay {
                    // A posted reader has a packet when it is queued, and passes no gate to take it.
                    let seen_at = match span.to {
                        Gate::SocketInBegin => Gate::SocketQueued,
                        gate => gate,
                    };
                    let gates = GateSet::of(&[FIRST, seen_at]);
                    let recording = trains.gated(gates, response, round_trips, &mut |_| ())?;
                    reach(size, span.to, &recording, &trains, probe);
                }
            }
        }
        longest = longest.max(round_begun.elapsed());
    }
    Ok(measured)
}

/// Adds how long after the first gate the messages of a slice came to `gate`.
fn reach(size: &mut AtSize, gate: Gate, recording: &Recording, trains: &StackTrains, probe: f64) {
    let reached = size.reached.entry(gate).or_default();
    for message in &recording.messages {
        if let (Some(from), Some(to)) = (message.whole.at(FIRST), message.whole.at(gate)) {
            let ns = trains.clock().ns_between(from, to) - probe;
            if message.response {
                reached.1.push(ns);
            } else {
                reached.0.push(ns);
            }
        }
    }
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
        Some(Way {
            from: clock.ns_between(begun, from),
            to: clock.ns_between(begun, to),
            probes: probe * recording.passages_between(from, to) as f64,
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
