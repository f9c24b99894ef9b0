//! What the gates of our own stack add to the times that are measured by them, where they stand.
//!
//! A twin shows how far two readings of the clock in a row are apart, which is the clock's time and not the gate's: where a gate
//! stands, the processor goes on with what comes behind while the clock is being read, and a gate more makes a round trip longer by
//! less than half of that. Two gates that are near each other, however, show at least what a twin shows, be there ever so little
//! between them. So it is differences that tell what is added:
//!
//! - **A passage** adds what round trips with gates take longer than those whose gates are all asleep, by the passages in them.
//! - **A span that its own two gates time** shows more, or less, than it takes: its time so, less the difference of the times at which a
//!   segment comes to the one gate and to the other when each is timed from the first gate of all. The one gate may cost a little
//!   more than the other, by each segment that has passed before; so of all segments it is the line through them that tells, where
//!   it has passed none.
//! - **The turns of the applications** are what is left of a round trip when both messages are taken out of it: from the return of a
//!   read to the next call that sends, the reading of the clock between round trips included. No span holds them.
//!
//! Each is known from many short slices in turn, as the mean of the middle half. A response of one segment and one of many take
//! different ways through the stack, so what is added to spans is measured of both, and so are the turns: where a loop over segments
//! has ended, what comes behind it begins later.
//!
//! It owns what is added; it must never look at the round trips on which the spans are to close.

use tollgate_gate::{Clock, Gate, GateSet, STACK, Span, Ticks};
use tollgate_stats::{self as stats, interquartile_mean};
use tollgate_workload::Error;
use tollgate_workload::stack_memory::trains::{Carried, Passed, Recording, StackTrains};
use tollgate_workload::trains::Trains;

use super::stack::{FIRST, LAST, seen_at, with_helpers};
use super::{packets, plain_mean};

/// Times that all slices are gone through in one calibration.
const REPEATS: u32 = 16;
/// Round trips of a slice.
const ROUND_TRIPS: u32 = 24;
/// A response of one segment, and one of several that stays in the nearest caches.
const RESPONSES: [usize; 2] = [256, 8_192];

/// The gates that show the turns of the applications, together with the whole way of the messages.
const TURNS: GateSet = GateSet::of(&[FIRST]);
const WHOLE: GateSet = GateSet::of(&[FIRST, LAST]);

/// What is known so far, in nanoseconds on a machine as it was in the first slice, through code with gates.
#[derive(Debug, Clone)]
pub(crate) struct Added {
    /// What a passage of a gate adds.
    passage: Vec<f64>,
    /// What a span's own two gates add to it, by span of the stack: in responses of one segment, and in those of more.
    spans: Vec<[Vec<f64>; 2]>,
    /// What the applications do in a round trip, through code without gates, likewise.
    turns: [Vec<f64>; 2],
}

/// A short slice.
struct Slice {
    gates: GateSet,
    recording: Recording,
    /// The mean of its round trips, in nanoseconds, and that of the slice before it, whose gates are all asleep.
    round_trip_ns: f64,
    asleep_ns: f64,
}

/// The slices of one size.
struct Slices {
    all: Vec<Slice>,
    /// The round trip with all gates asleep that is usual in them, in nanoseconds.
    asleep_ns: f64,
}

impl Added {
    /// Nothing is known yet.
    pub(super) fn new() -> Self {
        Self {
            passage: Vec::new(),
            spans: vec![<[Vec<f64>; 2]>::default(); STACK.spans().len()],
            turns: Default::default(),
        }
    }

    /// Learns more, on a machine of this slowness.
    ///
    /// # Errors
    /// What went wrong on the path.
    pub(super) fn calibrate(
        &mut self,
        trains: &mut StackTrains,
        slowness: f64,
    ) -> Result<(), Error> {
        for _ in 0..REPEATS {
            // Of responses of several segments first: what a passage adds is known by them.
            for &response in RESPONSES.iter().rev() {
                self.repeat(trains, response, slowness)?;
            }
        }
        Ok(())
    }

    /// All slices once at one size.
    fn repeat(
        &mut self,
        trains: &mut StackTrains,
        response: usize,
        slowness: f64,
    ) -> Result<(), Error> {
        let slices = Slices::run(trains, response)?;
        let clock = *trains.clock();
        if packets(response) > 1 {
            let added: Vec<f64> = slices.all.iter().filter_map(Slice::passage_ns).collect();
            self.passage
                .extend(interquartile_mean(&added).map(|ns| ns / slowness));
        }
        let passage_ns = self.passage_ns() * slowness;
        for (span, added) in STACK.spans().iter().zip(&mut self.spans) {
            let ns = OfSpan::of(span).added_ns(&slices, passage_ns, &clock);
            added[of(packets(response))].extend(ns.map(|ns| ns / slowness));
        }
        let whole = slices.of(WHOLE);
        let whole_ns = whole.and_then(|slice| both_ns(&slice.recording, &clock));
        let mut times = Vec::with_capacity(ROUND_TRIPS as usize);
        trains.run(response, ROUND_TRIPS, &mut |ns| times.push(ns))?;
        let turns = slices.of(TURNS).zip(whole_ns).zip(plain_mean(&times));
        let turns = turns.map(|((first, whole_ns), ungated_ns)| {
            // Two passages lie in either.
            (first.round_trip_ns - whole_ns) * ungated_ns / slices.asleep_ns / slowness
        });
        self.turns[of(packets(response))].extend(turns);
        Ok(())
    }

    /// What a passage of a gate adds, in nanoseconds; nothing as long as nothing is known.
    pub(crate) fn passage_ns(&self) -> f64 {
        interquartile_mean(&self.passage).unwrap_or(0.0)
    }

    /// What the two gates of the span at this place add to its time in a response of so many packets, in nanoseconds; nothing where
    /// nothing is known.
    pub(super) fn span_ns(&self, index: usize, packets: usize) -> f64 {
        let of_span = self.spans.get(index);
        of_span
            .and_then(|by| interquartile_mean(&by[of(packets)]))
            .unwrap_or(0.0)
    }

    /// The least and the most that the two gates of a span add; none before anything is known.
    pub(crate) fn spans_ns(&self) -> Option<(f64, f64)> {
        let all = || {
            self.spans
                .iter()
                .flatten()
                .filter_map(|one| interquartile_mean(one))
        };
        Some((all().reduce(f64::min)?, all().reduce(f64::max)?))
    }

    /// What the applications do in a round trip with a response of so many packets, in nanoseconds, through code without gates; none before
    /// it is known.
    pub(crate) fn turns_ns(&self, packets: usize) -> Option<f64> {
        interquartile_mean(&self.turns[of(packets)])
    }

    /// Half of the 95 % interval of what gates add, in nanoseconds, where it is known least.
    pub(super) fn within_ns(&self) -> f64 {
        let of_spans = self.spans.iter().flatten();
        let within = of_spans.chain([&self.passage]).filter_map(|one| {
            let known = stats::by_batches(one, interquartile_mean)?;
            Some((known.high - known.low) / 2.0)
        });
        within.fold(0.0, f64::max)
    }

    /// The same on a machine that is so many times slower.
    pub(super) fn slower(&mut self, slowness: f64) {
        let all = self.spans.iter_mut().flatten();
        let all = all.chain(&mut self.turns).chain([&mut self.passage]);
        for ns in all.flatten() {
            *ns *= slowness;
        }
    }
}

/// The place in what is known of responses of one segment and of more.
const fn of(packets: usize) -> usize {
    if packets > 1 { 1 } else { 0 }
}

impl Slice {
    fn run(trains: &mut StackTrains, gates: GateSet, response: usize) -> Result<Self, Error> {
        let mut with = |gates| {
            let mut times = Vec::with_capacity(ROUND_TRIPS as usize);
            let recording = trains.gated(gates, response, ROUND_TRIPS, &mut |ns| times.push(ns))?;
            Ok::<_, Error>((recording, plain_mean(&times).unwrap_or(0.0)))
        };
        let (_, asleep_ns) = with(GateSet::EMPTY)?;
        let (recording, round_trip_ns) = with(gates)?;
        Ok(Self {
            gates,
            recording,
            round_trip_ns,
            asleep_ns,
        })
    }

    /// What each passage makes a round trip longer; none when nothing was passed.
    fn passage_ns(&self) -> Option<f64> {
        let passages = self.recording.passages() as f64 / f64::from(ROUND_TRIPS);
        (passages > 0.0).then(|| (self.round_trip_ns - self.asleep_ns) / passages)
    }
}

impl Slices {
    /// Runs all that tell something.
    fn run(trains: &mut StackTrains, response: usize) -> Result<Self, Error> {
        let of_spans = STACK
            .spans()
            .iter()
            .flat_map(|span| OfSpan::of(span).slices());
        let mut all: Vec<Slice> = Vec::new();
        // The first at a size finds caches cold, and is not looked at.
        Slice::run(trains, WHOLE, response)?;
        for gates in [TURNS, WHOLE].into_iter().chain(of_spans) {
            if !all.iter().any(|slice| slice.gates == gates) {
                all.push(Slice::run(trains, gates, response)?);
            }
        }
        let asleep: Vec<f64> = all.iter().map(|slice| slice.asleep_ns).collect();
        Ok(Self {
            asleep_ns: interquartile_mean(&asleep).unwrap_or(0.0),
            all,
        })
    }

    /// The one with these gates.
    fn of(&self, gates: GateSet) -> Option<&Slice> {
        self.all.iter().find(|slice| slice.gates == gates)
    }
}

/// From the first gate to the last in a request and its response together, on average.
fn both_ns(recording: &Recording, clock: &Clock) -> Option<f64> {
    let of = |response: bool| {
        let messages = recording.messages.iter();
        let times: Vec<f64> = messages
            .filter(|message| message.response == response)
            .filter_map(|message| {
                let (from, to) = (message.whole.at(FIRST)?, message.whole.at(LAST)?);
                Some(clock.ns_between(from, to))
            })
            .collect();
        plain_mean(&times)
    };
    Some(of(false)? + of(true)?)
}

/// How it is found what a span's own two gates add to it.
struct OfSpan<'a> {
    span: &'a Span,
    /// The gates that help to see it; they are passed in all slices.
    helpers: GateSet,
}

impl<'a> OfSpan<'a> {
    fn of(span: &'a Span) -> Self {
        let helpers = with_helpers(span.gates()).iter();
        Self {
            span,
            helpers: helpers
                .filter(|&gate| !span.gates().contains(gate))
                .fold(GateSet::EMPTY, GateSet::with),
        }
    }

    /// With its own two gates, and with each of them timed from the first gate.
    fn slices(&self) -> [GateSet; 3] {
        let by_first = |gate| {
            let gates = GateSet::of(&[FIRST, seen_at(gate)]);
            with_helpers(gates).union(self.helpers)
        };
        [
            with_helpers(self.span.gates()),
            by_first(self.span.from),
            by_first(self.span.to),
        ]
    }

    /// What the three slices tell, when a passage adds so much; none of a span that packets do not pass, or whose gates are one passage.
    fn added_ns(&self, slices: &Slices, passage_ns: f64, clock: &Clock) -> Option<f64> {
        let [own, from, to] = self.slices().map(|gates| slices.of(gates));
        let (own, from, to) = (own?, from?, to?);
        // The machine changes its speed from slice to slice.
        let slowness = |slice: &Slice| slice.asleep_ns / slices.asleep_ns;
        let Span {
            from: first,
            to: last,
            ..
        } = self.span;
        let own = by_segment(own, slowness(own), clock, |_, segment| {
            let (from, to) = (segment.at(*first)?, segment.at(*last)?);
            (from < to).then_some((from, to))
        });
        let by_first = |slice, gate: Gate| {
            by_segment(slice, slowness(slice), clock, |message, segment| {
                Some((message.whole.at(FIRST)?, segment.at(gate)?))
            })
        };
        let (from, to) = (by_first(from, *first), by_first(to, *last));
        let own = own.into_iter().enumerate();
        let points: Vec<(f64, f64)> = own
            .filter_map(|(place, own)| {
                let (from, to) = ((*from.get(place)?)?, (*to.get(place)?)?);
                // The span's own two are one passage of those within it.
                let own = own?.net_ns(passage_ns) + passage_ns;
                let takes = to.net_ns(passage_ns) - from.net_ns(passage_ns);
                Some((place as f64, own - takes))
            })
            .collect();
        match points.as_slice() {
            [] => None,
            [(_, ns)] => Some(*ns),
            points => Some(stats::line(points)?.intercept),
        }
    }
}

/// A time of the segments at one place of responses, on average, and the passages of gates within it.
#[derive(Debug, Clone, Copy)]
struct Time {
    ns: f64,
    passages: f64,
}

impl Time {
    fn net_ns(self, passage_ns: f64) -> f64 {
        self.ns - passage_ns * self.passages
    }
}

/// A time of segments, by their place in responses, on a machine that is not of this slowness.
fn by_segment(
    slice: &Slice,
    slowness: f64,
    clock: &Clock,
    ends: impl Fn(&Carried, &Passed) -> Option<(Ticks, Ticks)>,
) -> Vec<Option<Time>> {
    let recording = &slice.recording;
    let responses = || recording.messages.iter().filter(|message| message.response);
    let most = responses().map(|message| message.segments.len()).max();
    (0..most.unwrap_or(0))
        .map(|place| {
            let seen =
                responses().filter_map(|message| ends(message, message.segments.get(place)?));
            let (times, passages): (Vec<f64>, Vec<f64>) = seen
                .map(|(from, to)| {
                    let passages = recording.passages_between(from, to) as f64;
                    (clock.ns_between(from, to), passages)
                })
                .unzip();
            Some(Time {
                ns: plain_mean(&times)? / slowness,
                passages: plain_mean(&passages)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gates_add_is_learnt_of_every_span_of_packets() {
        let mut trains = StackTrains::open().unwrap();
        let mut added = Added::new();
        assert_eq!((added.passage_ns(), added.span_ns(1, 1)), (0.0, 0.0));
        assert_eq!((added.spans_ns(), added.turns_ns(1)), (None, None));
        added.calibrate(&mut trains, 1.0).unwrap();
        let repeats = REPEATS as usize;
        assert_eq!(added.passage.len(), repeats);
        assert_eq!(added.turns.each_ref().map(Vec::len), [repeats; 2]);
        for (span, known) in STACK.spans().iter().zip(&added.spans) {
            // A posted reader has a segment when it is queued: the queue is one passage.
            let passed = super::super::of_packets(span) && span.name != "socket.queue";
            let expected = if passed { repeats } else { 0 };
            for of_size in known {
                assert_eq!(of_size.len(), expected, "{}", span.name);
            }
        }
        let (before, turns) = (added.passage_ns(), added.turns_ns(2).unwrap());
        added.slower(2.0);
        assert!((added.passage_ns() - 2.0 * before).abs() < 1e-9);
        assert!((added.turns_ns(2).unwrap() - 2.0 * turns).abs() < 1e-9);
        assert!(added.within_ns() > 0.0);
    }
}
