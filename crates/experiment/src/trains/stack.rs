//! Trains over Tollgate's own stack: slices with the two gates of a span, in turn with slices without.

use std::time::Instant;

use tollgate_gate::span::Place;
use tollgate_gate::{Clock, Gate, GateSet, STACK, Span};
use tollgate_stats as stats;
use tollgate_workload::stack_memory::trains::{Passed, Recording, StackTrains, WARM_UP};
use tollgate_workload::trains::Trains;
use tollgate_workload::{Error, Mode};

use super::seen::{AtSize, Counts, Seen, Way};
use super::{Added, Measured, Plan, Subject, packets, plain_mean};
use crate::context::Context;
use crate::rotation::Rotation;

/// Where the time of a message begins.
pub(super) const FIRST: Gate = Gate::SocketOutBegin;
/// Where it ends.
pub(super) const LAST: Gate = Gate::SocketInEnd;
/// Slices for each span: with its gates, with all of them asleep, without any, with the first gate and its last one.
const SLICES: usize = 4;
/// A round trip that takes so many times what those of its slice usually take was disturbed. Some take half as long again by what is
/// to be done in them, and are to count.
const DISTURBED: f64 = 2.0;

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
    // What is measured first is held against this slice, too.
    let mut usual = Vec::with_capacity(plan.sizes.len());
    for &response in plan.sizes {
        usual.push(usual_ns(&ungated(&mut trains, response, round_trips)?));
    }
    measured.drift.note(&usual);
    let mut added = Added::new();
    let mut rotation = Rotation::new(context, plan.rounds, begun, plan.within);
    while rotation.round().is_some() {
        if !rotation.step(&format!("{}, what gates add", Subject::Stack.label())) {
            break;
        }
        added.calibrate(&mut trains, measured.drift.last())?;
        for (index, span) in STACK.spans().iter().enumerate() {
            if !rotation.step(&format!("{}, {}", Subject::Stack.label(), span.name)) {
                break;
            }
            let passage_ns = added.passage_ns();
            let mut slice = Vec::with_capacity(plan.sizes.len());
            for &response in plan.sizes {
                let gates = Gates {
                    passage_ns,
                    span_ns: added.span_ns(index, packets(response)),
                };
                slice.push(AtOneSize::run(
                    &mut trains,
                    span,
                    response,
                    round_trips,
                    gates,
                )?);
            }
            let usual: Vec<_> = slice.iter().map(|one| usual_ns(&one.ungated)).collect();
            let slowness = measured.drift.note(&usual);
            for (size, one) in measured.sizes.iter_mut().zip(slice) {
                one.add_to(size, (index, span), slowness, passage_ns);
            }
        }
    }
    for (size, &response) in measured.sizes.iter_mut().zip(plan.sizes) {
        size.turns_ns = added.turns_ns(packets(response));
    }
    measured.added = Some(added);
    Ok(measured.at_usual_speed())
}

/// What gates add to a time, in nanoseconds on a machine as it was in the first slice.
#[derive(Debug, Clone, Copy)]
struct Gates {
    /// By each passage.
    passage_ns: f64,
    /// By the two of a span that times it.
    span_ns: f64,
}

/// The times of round trips without gates, in nanoseconds.
fn ungated(trains: &mut StackTrains, response: usize, round_trips: u32) -> Result<Vec<f64>, Error> {
    let mut times = Vec::with_capacity(round_trips as usize);
    trains.run(response, round_trips, &mut |ns| times.push(ns))?;
    Ok(times)
}

/// The places of the usual ones among times: those that nothing has disturbed.
fn usual(times: &[f64]) -> Vec<usize> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let most = stats::middle(&sorted).map_or(0.0, |ns| DISTURBED * ns);
    (0..times.len()).filter(|&at| times[at] <= most).collect()
}

/// The mean of the usual ones. The steps of the clock are not small against a round trip, so a mean of those in the middle would lie
/// where most of the steps are.
fn usual_ns(times: &[f64]) -> Option<f64> {
    let usual: Vec<f64> = usual(times).into_iter().map(|at| times[at]).collect();
    plain_mean(&usual)
}

/// What one size saw in the slices of a span, on the machine as it was.
struct AtOneSize {
    seen: Seen,
    gated: Vec<f64>,
    asleep: Vec<f64>,
    ungated: Vec<f64>,
    /// How requests and responses came to the last gate of a span on the way.
    reached: [Option<Reached>; 2],
}

impl AtOneSize {
    fn run(
        trains: &mut StackTrains,
        span: &Span,
        response: usize,
        round_trips: u32,
        gates: Gates,
    ) -> Result<Self, Error> {
        let with = |trains: &mut StackTrains, gates| {
            let mut times = Vec::with_capacity(round_trips as usize);
            let recording = trains.gated(gates, response, round_trips, &mut |ns| times.push(ns))?;
            Ok::<_, Error>((recording, times))
        };
        let (recording, gated) = with(trains, with_helpers(span.gates()))?;
        let seen = Seen {
            usual: usual(&gated),
            ..seen(span, &recording, trains, gates)
        };
        let (_, asleep) = with(trains, GateSet::EMPTY)?;
        let ungated = ungated(trains, response, round_trips)?;
        let reached = match span.place {
            Place::OnTheWay => {
                let (recording, times) = with(trains, GateSet::of(&[FIRST, seen_at(span.to)]))?;
                let usual = usual(&times);
                [false, true].map(|responses| {
                    Reached::of(span.to, responses, &recording, &usual, trains.clock())
                })
            }
            Place::Inside | Place::Beside => [None; 2],
        };
        Ok(Self {
            seen,
            gated,
            asleep,
            ungated,
            reached,
        })
    }

    /// Adds it to what is known of the size, brought to another speed.
    fn add_to(
        self,
        size: &mut AtSize,
        (index, span): (usize, &Span),
        slowness: f64,
        passage_ns: f64,
    ) {
        let faster =
            |times: Vec<f64>| -> Vec<f64> { times.into_iter().map(|ns| ns / slowness).collect() };
        size.add(index, span, &self.seen.faster(slowness));
        size.spans[index].beside.0.extend(faster(self.gated));
        size.asleep.extend(usual_ns(&faster(self.asleep)));
        let ungated = faster(self.ungated);
        size.add_ungated(Some(index), &ungated, usual_ns(&ungated));
        if span.place == Place::OnTheWay {
            let (requests, responses) = size.reached.entry(span.to).or_default();
            let net = |one: Reached| one.ns / slowness - passage_ns * one.passages;
            requests.extend(self.reached[0].map(net));
            responses.extend(self.reached[1].map(net));
        }
    }
}

/// How messages came to a gate, on average: how long after the first, in nanoseconds, and how many gates were passed until then.
#[derive(Debug, Clone, Copy)]
struct Reached {
    ns: f64,
    passages: f64,
}

impl Reached {
    /// The requests, or the responses, of usual round trips.
    fn of(
        gate: Gate,
        responses: bool,
        recording: &Recording,
        usual: &[usize],
        clock: &Clock,
    ) -> Option<Self> {
        let messages = recording.messages.iter();
        let messages: Vec<_> = messages
            .filter(|message| message.response == responses)
            .collect();
        let (mut times, mut passages) = (Vec::new(), Vec::new());
        for whole in usual
            .iter()
            .filter_map(|&at| Some(&messages.get(at)?.whole))
        {
            if let (Some(from), Some(to)) = (whole.at(FIRST), whole.at(gate)) {
                times.push(clock.ns_between(from, to));
                passages.push(recording.passages_between(from, to) as f64);
            }
        }
        Some(Self {
            ns: plain_mean(&times)?,
            passages: plain_mean(&passages)?,
        })
    }
}

/// The gate that shows when a packet comes to this one: a posted reader has a packet when it is queued, and passes no gate to take it.
pub(super) const fn seen_at(gate: Gate) -> Gate {
    match gate {
        Gate::SocketInBegin => Gate::SocketQueued,
        gate => gate,
    }
}

/// Some gates, and those that say which packets a burst holds and when a posted reader has one.
pub(super) fn with_helpers(mut gates: GateSet) -> GateSet {
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
fn seen(span: &Span, recording: &Recording, trains: &StackTrains, gates: Gates) -> Seen {
    let (clock, begun) = (trains.clock(), recording.begun());
    let way = |passed: &Passed| {
        let (from, to) = (passed.at(span.from)?, passed.at(span.to)?);
        let passages = recording.passages_between(from, to) as u64;
        // The span's own two are one of them; gates that are one passage add nothing.
        let probes = match passages.checked_sub(1) {
            Some(others) => gates.span_ns + gates.passage_ns * others as f64,
            None => 0.0,
        };
        Some(Way {
            from: clock.ns_between(begun, from),
            to: clock.ns_between(begun, to),
            probes,
            passages,
            handed_over: false,
        })
    };
    let mut seen = Seen {
        counts: Counts::Mean,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disturbed_a_round_trip_does_not_count_and_steps_of_the_clock_do() {
        let times = [130.0, 190.0, 130.0, 130.0, 9_000.0];
        assert_eq!(usual(&times), [0, 1, 2, 3]);
        assert_eq!(usual_ns(&times), Some(145.0));
        assert_eq!(usual_ns(&[]), None);
    }
}
