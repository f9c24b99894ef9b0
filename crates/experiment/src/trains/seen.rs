//! What slices see of packets at a span, and what is known of a span and of a size by all of them.
//!
//! It owns how times of packets become work and waiting, and what of them counts; it must never know where times come from.

use std::collections::BTreeMap;

use tollgate_gate::span::Place;
use tollgate_gate::{Direction, Gate, Kind, Span, SpanTable};
use tollgate_stats::interquartile_mean;

use super::by_slice::{BySlice, Known};
use super::laden::{Laden, Price};

/// Passages of gates between two packets at a gate, which nobody subtracts: the one before passes both gates of the span.
const BETWEEN: f64 = 2.0;

/// The time of one packet, or of one message, at a span, in nanoseconds; the cost of gates is still in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Way {
    /// When it came.
    pub(super) from: f64,
    /// When it left.
    pub(super) to: f64,
    /// What the gates themselves cost within.
    pub(super) probes: f64,
    /// How often gates were passed within.
    pub(super) passages: u64,
    /// Whether it left on another processor.
    pub(super) handed_over: bool,
}

impl Way {
    fn net(&self) -> f64 {
        self.to - self.from - self.probes
    }

    /// The same on a machine that is not as slow; what gates cost is known for that machine already.
    fn faster(&mut self, slowness: f64) {
        self.from /= slowness;
        self.to /= slowness;
    }
}

/// What of a slice counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Counts {
    /// Each response by itself.
    #[default]
    Each,
    /// The mean of the usual ones: the clock is too coarse to tell a single one.
    Mean,
}

/// What a slice saw of a span: the packets of its responses, and messages as a whole.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// By response and by place in it; none where the packet was not seen at both gates.
    pub(super) packets: Vec<Vec<Option<Way>>>,
    /// Requests and responses as a whole; none that was not seen at both gates.
    pub(super) requests: Vec<Option<Way>>,
    pub(super) responses: Vec<Option<Way>>,
    /// The places of the usual round trips.
    pub(super) usual: Vec<usize>,
    pub(super) counts: Counts,
    /// Those round trips, where they tell how slow all was for the gates.
    pub(super) laden: Option<Laden>,
    pub(super) lost: u64,
    pub(super) strange: u64,
    pub(super) acknowledgments: u64,
}

impl Seen {
    /// The same on a machine that is not as slow.
    pub(super) fn faster(mut self, slowness: f64) -> Self {
        let packets = self.packets.iter_mut().flatten();
        let messages = self.requests.iter_mut().chain(&mut self.responses);
        for way in packets.chain(messages).flatten() {
            way.faster(slowness);
        }
        if let Some(laden) = &mut self.laden {
            laden.faster(slowness);
        }
        self
    }
}

/// The packets at one span at one size.
#[derive(Debug, Clone, Default)]
pub(crate) struct AtSpan {
    /// Nanoseconds of work for each packet that went straight through, by response.
    pub(super) work: BySlice,
    /// The mean wait of a response's packets, by response.
    wait: BySlice,
    /// The same by place in the response.
    wait_by_place: Vec<BySlice>,
    /// From the packet before to this one at the first gate, by place.
    gaps: Vec<BySlice>,
    /// The round trips of each slice that was added, where they tell how slow it was.
    slices: Vec<Option<Laden>>,
    /// The mean time of messages as a whole in the usual round trips of a slice.
    requests: BySlice,
    responses: BySlice,
    /// Round trips with the span's gates, and those without any that followed.
    pub(super) beside: (Vec<f64>, Vec<f64>),
}

/// One size of response.
#[derive(Debug, Clone, Default)]
pub(crate) struct AtSize {
    /// By span of the table.
    pub(crate) spans: Vec<AtSpan>,
    /// Round trips without gates.
    pub(crate) ungated: Vec<f64>,
    /// The mean of the usual ones among them, by slice.
    pub(super) usual_ungated: Vec<f64>,
    /// The same of round trips through code with gates, all of which are asleep, where that is told apart.
    pub(super) asleep: Vec<f64>,
    /// From the first gate to this one, for requests and for responses, where gates are timed so: the mean of a slice.
    pub(super) reached: BTreeMap<Gate, (Vec<f64>, Vec<f64>)>,
    /// What of a round trip no span holds, in nanoseconds: what the applications do in our stack, the ways into the kernel and out of it.
    pub(super) turns_ns: Option<f64>,
    /// Packets that should have been seen, and those that were at both gates of a span.
    pub(super) packets: (u64, u64),
    /// The same of messages.
    pub(super) messages: (u64, u64),
    /// Events that found no room, and events that belong to nothing.
    pub(super) lost: u64,
    pub(super) strange: u64,
    /// Passages of acknowledgments.
    pub(super) acknowledgments: u64,
    /// Slices that were disturbed and run again.
    pub(super) disturbed: u64,
    /// Why it failed.
    pub(crate) failure: Option<String>,
}

impl AtSpan {
    fn add(&mut self, span: &Span, seen: &Seen) {
        self.slices.push(seen.laden.clone());
        let slice = self.slice();
        for (to, ways) in [
            (&mut self.requests, &seen.requests),
            (&mut self.responses, &seen.responses),
        ] {
            let usual = seen.usual.iter().filter_map(|&at| *ways.get(at)?);
            let usual: Vec<Way> = usual.collect();
            for way in &usual {
                to.add(slice, way.net(), way.passages as f64);
            }
            to.by_its_mean();
        }
        match seen.counts {
            Counts::Each => {
                for response in &seen.packets {
                    self.add_response(span.kind, response);
                }
            }
            Counts::Mean => {
                for response in seen.usual.iter().filter_map(|&at| seen.packets.get(at)) {
                    self.add_response(span.kind, response);
                }
                for times in self.times() {
                    times.by_its_mean();
                }
            }
        }
    }

    /// The slice that was added last.
    const fn slice(&self) -> usize {
        self.slices.len().saturating_sub(1)
    }

    /// All times that gates tell.
    fn times(&mut self) -> impl Iterator<Item = &mut BySlice> {
        let by_place = self.wait_by_place.iter_mut().chain(&mut self.gaps);
        let of_packets = by_place.chain([&mut self.work, &mut self.wait]);
        of_packets.chain([&mut self.requests, &mut self.responses])
    }

    pub(super) fn add_response(&mut self, kind: Kind, packets: &[Option<Way>]) {
        let slice = self.slice();
        let most = packets.len().max(self.wait_by_place.len());
        self.wait_by_place.resize(most, BySlice::default());
        self.gaps.resize(most, BySlice::default());
        // Work, and the packets that share it.
        let (mut work, mut straight) = (0.0, 0_u32);
        let (mut waits, mut n) = (0.0, 0_u32);
        // Passages of gates within the one and the others.
        let (mut in_work, mut in_waits) = (0, 0);
        let mut before: Option<(Way, f64, bool)> = None;
        for (place, way) in packets.iter().enumerate() {
            let Some(way) = *way else {
                before = None;
                continue;
            };
            let (wait, went_straight) = match before {
                // One piece with the packet before.
                Some((last, wait, went_straight)) if last.from == way.from && last.to == way.to => {
                    straight += u32::from(went_straight);
                    (wait, went_straight)
                }
                last => {
                    let in_the_way = last.is_some_and(|(last, _, _)| way.from < last.to);
                    if kind == Kind::Queueing || way.handed_over || in_the_way {
                        (way.net(), false)
                    } else {
                        work += way.net();
                        in_work += way.passages;
                        straight += 1;
                        (0.0, true)
                    }
                }
            };
            if let Some((last, _, _)) = before {
                self.gaps[place].add(slice, way.from - last.from, BETWEEN);
            }
            let in_wait = if went_straight { 0 } else { way.passages };
            self.wait_by_place[place].add(slice, wait, in_wait as f64);
            waits += wait;
            in_waits += in_wait;
            n += 1;
            before = Some((way, wait, went_straight));
        }
        if straight > 0 {
            let each = f64::from(straight);
            self.work.add(slice, work / each, in_work as f64 / each);
        }
        if n > 0 {
            let each = f64::from(n);
            self.wait.add(slice, waits / each, in_waits as f64 / each);
        }
    }

    /// Work for each packet, in nanoseconds; none when no packet went straight through.
    pub(crate) fn work_ns(&self) -> Option<f64> {
        self.work.typical()
    }

    /// The same, and how well it is known when what a passage of a gate costs is known so well.
    pub(crate) fn work(&self, within_ns: f64) -> Option<Known> {
        self.work.known(within_ns)
    }

    /// Waiting of a packet, in nanoseconds.
    pub(crate) fn wait_ns(&self) -> Option<f64> {
        self.wait.typical()
    }

    /// The same, and how well it is known when what a passage of a gate costs is known so well.
    pub(crate) fn wait(&self, within_ns: f64) -> Option<Known> {
        self.wait.known(within_ns)
    }

    /// Waiting by place in the response, in nanoseconds.
    pub(crate) fn wait_by_place_ns(&self) -> Vec<Option<f64>> {
        self.wait_by_place.iter().map(BySlice::typical).collect()
    }

    /// The same, and how well it is known when what a passage of a gate costs is known so well.
    pub(crate) fn wait_by_place(&self, within_ns: f64) -> Vec<Option<Known>> {
        let places = self.wait_by_place.iter();
        places.map(|one| one.known(within_ns)).collect()
    }

    /// From the packet before to this one at the first gate, by place, in nanoseconds; none at the first.
    pub(crate) fn gaps_ns(&self) -> Vec<Option<f64>> {
        self.gaps.iter().map(BySlice::typical).collect()
    }

    /// The same, and how well it is known when what a passage of a gate costs is known so well.
    pub(crate) fn gaps(&self, within_ns: f64) -> Vec<Option<Known>> {
        let places = self.gaps.iter();
        places.map(|one| one.known(within_ns)).collect()
    }

    /// All times at a machine that is so many times slower, and what gates timed so many times.
    fn slower(&mut self, slowness: f64, gated: f64) {
        for ns in self.beside.0.iter_mut().chain(&mut self.beside.1) {
            *ns *= slowness;
        }
        for all in self.times() {
            all.slower(|_| gated);
        }
    }

    /// How many times as slow as a round trip without gates, which takes so many nanoseconds, each slice was beside its gates; none
    /// where a slice does not tell it.
    fn slowed(
        &self,
        ungated_ns: f64,
        price: impl Fn(Gate) -> Option<Price>,
    ) -> impl Iterator<Item = Option<f64>> {
        let slices = self.slices.iter();
        slices.map(move |laden| laden.as_ref()?.slowed(ungated_ns, &price))
    }

    /// What the gates cost: the round trip with them over the one without, less 1.
    pub(super) fn perturbation(&self) -> Option<f64> {
        Some(interquartile_mean(&self.beside.0)? / interquartile_mean(&self.beside.1)? - 1.0)
    }
}

impl AtSize {
    pub(super) fn new(spans: usize) -> Self {
        Self {
            spans: vec![AtSpan::default(); spans],
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, index: usize, span: &Span, seen: &Seen) {
        self.lost += seen.lost;
        self.strange += seen.strange;
        self.acknowledgments += seen.acknowledgments;
        if of_packets(span) {
            for response in &seen.packets {
                self.packets.0 += response.len() as u64;
                self.packets.1 += response.iter().flatten().count() as u64;
            }
        }
        if span.place == Place::OnTheWay {
            let messages = || seen.requests.iter().chain(&seen.responses);
            self.messages.0 += messages().count() as u64;
            self.messages.1 += messages().flatten().count() as u64;
        }
        self.spans[index].add(span, seen);
    }

    /// Adds a slice without gates, beside the slice of a span when that is given, and the mean of its usual round trips.
    pub(super) fn add_ungated(
        &mut self,
        beside: Option<usize>,
        times_ns: &[f64],
        usual_ns: Option<f64>,
    ) {
        if let Some(span) = beside.and_then(|index| self.spans.get_mut(index)) {
            span.beside.1.extend(times_ns);
        }
        self.ungated.extend(times_ns);
        self.usual_ungated.extend(usual_ns);
    }

    /// How many times as long a round trip takes with all gates asleep as through code without any; none where that is not told apart.
    pub(super) fn asleep(&self) -> Option<f64> {
        Some(interquartile_mean(&self.asleep)? / interquartile_mean(&self.usual_ungated)?)
    }

    /// Takes off what gates made slower beside themselves and what disturbed a slice, where slices tell it; gives how many times as long
    /// all took in each of them.
    pub(super) fn as_without_gates(&mut self, price: impl Fn(Gate) -> Option<Price>) -> Vec<f64> {
        let Some(ungated_ns) = self.round_trip_ns() else {
            return Vec::new();
        };
        let mut told = Vec::new();
        for span in &mut self.spans {
            let slowed: Vec<_> = span.slowed(ungated_ns, &price).collect();
            told.extend(slowed.iter().flatten());
            for times in span.times() {
                times.slower(|slice| slowed.get(slice).copied().flatten().map_or(1.0, f64::recip));
            }
        }
        told
    }

    /// All times at a machine that is so many times slower, and those that gates saw through code without gates.
    pub(super) fn slower(&mut self, slowness: f64) {
        let gated = slowness / self.asleep().unwrap_or(1.0);
        for span in &mut self.spans {
            span.slower(slowness, gated);
        }
        let reached = self.reached.values_mut();
        let reached = reached.flat_map(|(requests, responses)| [requests, responses]);
        for ns in reached.flatten() {
            *ns *= gated;
        }
        self.turns_ns = self.turns_ns.map(|ns| ns * slowness);
        let whole = [&mut self.ungated, &mut self.usual_ungated, &mut self.asleep];
        for ns in whole.into_iter().flatten() {
            *ns *= slowness;
        }
    }

    /// The round trip without gates, in nanoseconds.
    pub(crate) fn round_trip_ns(&self) -> Option<f64> {
        interquartile_mean(&self.usual_ungated)
    }

    /// What the way of a request's last byte, and that of a response's, take in a span, in nanoseconds; none where it was not
    /// measured. Where [`Self::turns_ns`] is given it is in none of them.
    pub(crate) fn whole_ns(&self, index: usize, span: &Span) -> Option<(f64, f64)> {
        if !self.reached.is_empty() {
            let (from, to) = (self.reached_ns(span.from)?, self.reached_ns(span.to)?);
            return Some((to.0 - from.0, to.1 - from.1));
        }
        let seen = self.spans.get(index)?;
        let responses = match span.direction {
            Direction::Between => 0.0,
            Direction::Tx | Direction::Rx => seen.responses.typical()?,
        };
        Some((seen.requests.typical()?, responses))
    }

    /// From the first gate to this one, for a request and for a response.
    pub(super) fn reached_ns(&self, gate: Gate) -> Option<(f64, f64)> {
        if gate == Gate::SocketOutBegin {
            return Some((0.0, 0.0));
        }
        let (requests, responses) = self.reached.get(&gate)?;
        Some((
            interquartile_mean(requests)?,
            interquartile_mean(responses)?,
        ))
    }

    /// The way of the last byte of request and response, in nanoseconds; none where a span was not measured.
    pub(crate) fn sum_ns(&self, table: SpanTable) -> Option<f64> {
        let spans = table.spans().iter().enumerate();
        spans
            .filter(|(_, span)| span.place == Place::OnTheWay)
            .map(|(index, span)| {
                self.whole_ns(index, span)
                    .map(|(request, response)| request + response)
            })
            .sum()
    }

    /// What of a round trip no span holds, as far as it was measured, in nanoseconds.
    pub(crate) const fn turns_ns(&self) -> Option<f64> {
        self.turns_ns
    }

    /// What the sum and what no span holds leave open of the round trip, signed, in nanoseconds.
    pub(crate) fn open_ns(&self, table: SpanTable) -> Option<f64> {
        Some(self.round_trip_ns()? - self.sum_ns(table)? - self.turns_ns.unwrap_or(0.0))
    }

    /// The part of the round trip that is left open, signed.
    pub(crate) fn closure(&self, table: SpanTable) -> Option<f64> {
        Some(self.open_ns(table)? / self.round_trip_ns()?)
    }
}

/// Whether packets are seen at both gates of a span, and not only messages.
pub(crate) fn of_packets(span: &Span) -> bool {
    let packets = |gate: Gate| {
        !matches!(
            gate,
            Gate::SocketOutBegin | Gate::SocketInEnd | Gate::ApplicationEnd | Gate::SocketOutEnd
        )
    };
    packets(span.from) && packets(span.to) && span.place != Place::Beside
}
