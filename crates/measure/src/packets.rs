//! Responses of several packets: what the ledger of a message needs to know of the packets before its last one.
//!
//! **Observation.** An order of one packet, and its response of n packets. `T` is the mean round trip by the application's clock. A
//! message's time at a gate is that of its first byte where the send begins, that of its last packet behind that, and the return of
//! the last read at the end. So the times between neighbouring gates of a set lie one behind the other, round trip after round trip,
//! however packets overlap: they telescope, as those of a message of one packet do. Each packet of the response has its own times as
//! well.
//!
//! **Model.** The way of the last byte has the spans of [`crate::ledger`]. A gate is passed n times in a response, and the passages of
//! packets before the last one, of packets that follow or of acknowledgments fall into some of these times, which are counted:
//!
//! ```text
//! T(A)   = tau (1 + m) + alpha + sum over g in A of K(g) + e
//! d(a,b) = sum of sigma from a to b, (1 + m) + after(a) + before(b) + sum over g in A of p(g; a,b) k(g) + e
//! ```
//!
//! - `p(g; a,b)` is the number of passages of gate g strictly between, by anything. `k(g) = (after(g) + before(g)) / 2` is the cost of
//!   one of them, since both messages of a round trip pass a gate: one passage costs as much as another of its gate. Two costs, of a
//!   first and of a following passage, cannot be told apart, since those that follow lie beside the gate as the last one does. Where
//!   they differ, time moves between neighbouring spans; their sum and the closure stay.
//! - `K(g)` is the whole effect of all n passages; sets are random, so it is not confounded.
//! - A span holds the waits behind the packets before: where each packet goes all the way before the next one begins, as on one core
//!   of the kernel, nearly all of a long response lies in the span before the gate that packets pass one by one.
//!
//! **Closure.** `tau + alpha - sum(sigma)`, as for one packet. `tau` comes from slices without gates and the spans from slices with
//! them, so a passage that is not counted, a span that is left out and a gate that slows packets elsewhere leave it open.
//!
//! **Packets.** A time of a packet between two gates that are neighbours of the way is *work* when the packet before had left the span
//! and the same processor went on with it; else it is a *wait*, and how much of it was work is not known. Spans that are queues by
//! their kind are waits always. Packets that pass both gates together are one piece, and share its time. What gates add to a packet's
//! time is `after` of the one and `before` of the other, and every passage within. These rows sum to nothing, since packets are under way at once;
//! their intervals come from the draws of the same bootstrap.
//!
//! On two cores a passage within a time may cost it nothing, since another core makes it; such ends leave more open.
//!
//! It must never choose a packet by its time, and never attach a gate or run a round trip: [`kernel`] and [`stack`] do that.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tollgate_gate::join::GATES;
use tollgate_gate::{Gate, GateSet, Kind, PacketId, Span, SpanTable, TickScale, Ticks};

use crate::trips::Message;
use crate::way::{Host, Stations, Way};

pub mod kernel;
pub mod stack;
#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;

/// A time of packets at a span of the way, which is given by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketTime {
    /// Work on a packet that went straight through.
    Work(usize),
    /// Wait of a packet, mean over a response.
    Wait(usize),
    /// Wait of the packet at the second place in its response, from 0.
    WaitOf(usize, usize),
    /// Time since the packet before at the gate where the span begins, for the packet at the second place.
    Gap(usize, usize),
}

impl PacketTime {
    /// The places of the gates that it lies between, on a way of so many.
    pub(crate) const fn ends(self, gates: usize) -> (usize, usize) {
        match self {
            Self::Work(span) | Self::Wait(span) | Self::WaitOf(span, _) => {
                (span, (span + 1) % gates)
            }
            Self::Gap(span, _) => (span, span),
        }
    }
}

/// Packets of a slice, beyond its messages' times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Crossings {
    /// For each time between neighbouring gates of the set, the passages within by others than the message, for each round trip: the
    /// gate's place on the way, and how many.
    pub within: Vec<Vec<(usize, f64)>>,
    /// Times of packets.
    pub times: Vec<(PacketTime, Crossing)>,
}

/// A time of packets: its mean in a slice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Crossing {
    /// The mean with what gates add, in nanoseconds.
    pub ns: f64,
    /// Share of the packets that it is of: at either end of such a time lies a part of a passage.
    pub share: f64,
    /// Passages strictly within: the gate's place on the way, and how many.
    pub gates: Vec<(usize, f64)>,
}

/// A packet's times at the gates, and the processors that it was on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    at: [Option<(Ticks, u16)>; GATES],
}

impl Packet {
    /// A packet that was seen nowhere yet.
    pub const UNSEEN: Self = Self { at: [None; GATES] };

    /// Notes a passage.
    pub const fn pass(&mut self, gate: Gate, ticks: Ticks, processor: u16) {
        self.at[gate as usize] = Some((ticks, processor));
    }

    const fn at(&self, gate: Gate) -> Option<(Ticks, u16)> {
        self.at[gate as usize]
    }
}

/// The packets of a slice.
#[derive(Clone, Debug)]
pub struct Packets {
    /// The kinds of the way's spans.
    pub kinds: Kinds,
    /// Every passage of a gate, whatever passed, in order of time.
    pub passages: Vec<(Ticks, Gate)>,
    /// The packets of each response, by the id of the message.
    pub responses: HashMap<PacketId, Vec<Packet>>,
}

/// The kinds of the spans that packets cross, by their place on the way; none for those that messages cross only.
pub type Kinds = Arc<[Option<Kind>]>;

/// The way through a table's gates, and the kinds of its spans that packets cross.
///
/// # Errors
/// The reason why the table is no way, for people.
pub fn way(table: SpanTable) -> Result<(Way, Kinds), String> {
    let mut gates: Vec<Gate> = on_the_way(table).map(|span| span.from).collect();
    // What lies behind the last gate is the application's turn, whether the table has a span for it or not.
    let last = on_the_way(table).last().map(|span| span.to);
    gates.extend(last.filter(|&gate| gate != Gate::ApplicationEnd));
    let mut kinds: Vec<_> = on_the_way(table)
        .map(|span| of_packets(span).then_some(span.kind))
        .collect();
    kinds.resize(gates.len(), None);
    let way = Way::new(gates).map_err(|error| error.to_string())?;
    Ok((way, kinds.into()))
}

/// The spans of a table that a message crosses, in their order.
pub fn on_the_way(table: SpanTable) -> impl Iterator<Item = &'static Span> {
    let spans = table.spans().iter();
    spans.filter(|span| span.position == tollgate_gate::span::Position::OnTheWay)
}

/// Tells whether packets are seen at both ends of a span, and not only messages.
pub fn of_packets(span: &Span) -> bool {
    let of_messages = GateSet::of(&[
        Gate::SocketOutBegin,
        Gate::SocketInEnd,
        Gate::ApplicationEnd,
    ]);
    !of_messages.contains(span.from) && !of_messages.contains(span.to)
}

impl Packets {
    /// The passages and times of the packets of these messages.
    pub(crate) fn crossings(
        &self,
        way: &Way,
        set: Stations,
        chosen: &[Message],
        scale: TickScale,
    ) -> Crossings {
        let set = set.on(Host::Local);
        let places: HashMap<Gate, usize> = way.gates().iter().copied().zip(0..).collect();
        let within = self.within(&places, set.len(), chosen);
        let mut times: BTreeMap<PacketTime, Sum> = BTreeMap::new();
        let responses = || {
            chosen
                .iter()
                .filter_map(|message| self.responses.get(&message.packet))
        };
        for (span, (&from, kind)) in way.gates().iter().zip(&*self.kinds).enumerate() {
            let Some(kind) = *kind else { continue };
            let to = way.gates()[(span + 1) % way.len()];
            let observed = Observed {
                packets: self,
                places: &places,
                scale,
                span,
                ends: (from, to),
            };
            if !set.contains(from) {
                continue;
            }
            for response in responses() {
                observed.add_gaps(response, &mut times);
                if set.contains(to) {
                    observed.add_times(kind, response, &mut times);
                }
            }
        }
        let times = times.into_iter();
        let times = times.filter_map(|(time, sum)| Some((time, sum.mean()?)));
        Crossings {
            within,
            times: times.collect(),
        }
    }

    /// The passages strictly within each time between neighbouring gates.
    fn within(
        &self,
        places: &HashMap<Gate, usize>,
        gates: usize,
        chosen: &[Message],
    ) -> Vec<Vec<(usize, f64)>> {
        let round_trips = chosen.len() as f64 / 2.0;
        let mut within = vec![BTreeMap::new(); gates];
        for message in chosen {
            for (pair, counts) in message.times.windows(2).zip(&mut within) {
                for place in self.inside(places, pair[0], pair[1]) {
                    *counts.entry(place).or_insert(0.0) += 1.0 / round_trips;
                }
            }
        }
        within
            .into_iter()
            .map(|counts| counts.into_iter().collect())
            .collect()
    }

    /// The places of the gates that are passed strictly between two moments.
    fn inside(
        &self,
        places: &HashMap<Gate, usize>,
        from: Ticks,
        to: Ticks,
    ) -> impl Iterator<Item = usize> {
        let begin = self.passages.partition_point(|&(at, _)| at <= from);
        let end = self.passages.partition_point(|&(at, _)| at < to);
        let inside = self.passages.get(begin..end).unwrap_or_default();
        inside
            .iter()
            .filter_map(|(_, gate)| places.get(gate).copied())
    }
}

/// A sum over packets: of times, and of the passages in them.
#[derive(Default)]
struct Sum {
    ns: f64,
    times: f64,
    packets: f64,
    gates: BTreeMap<usize, f64>,
}

impl Sum {
    fn add(&mut self, time: &Crossing) {
        self.ns += time.ns;
        self.times += 1.0;
        for &(place, count) in &time.gates {
            *self.gates.entry(place).or_default() += count;
        }
    }

    fn mean(self) -> Option<Crossing> {
        let each = |sum: f64| sum / self.packets;
        (self.packets > 0.0).then(|| Crossing {
            ns: each(self.ns),
            share: each(self.times),
            gates: self
                .gates
                .into_iter()
                .map(|(place, count)| (place, each(count)))
                .collect(),
        })
    }
}

/// A span that both gates of are in the set, or the first one.
struct Observed<'a> {
    packets: &'a Packets,
    places: &'a HashMap<Gate, usize>,
    scale: TickScale,
    span: usize,
    ends: (Gate, Gate),
}

/// Passage of a packet through a span.
#[derive(Clone)]
struct Became {
    from: Ticks,
    to: Ticks,
    /// Its wait; none when it went straight through.
    wait: Option<Crossing>,
}

impl Observed<'_> {
    /// A time between two passages.
    fn crossing(&self, from: Ticks, to: Ticks) -> Crossing {
        let inside = self.packets.inside(self.places, from, to);
        Crossing {
            ns: self.scale.ns_between(from, to),
            share: 1.0,
            gates: inside.map(|place| (place, 1.0)).collect(),
        }
    }

    /// The times between packets where the span begins.
    fn add_gaps(&self, response: &[Packet], times: &mut BTreeMap<PacketTime, Sum>) {
        let (gate, _) = self.ends;
        for (pair, place) in response.windows(2).zip(1..) {
            let (Some((before, _)), Some((this, _))) = (pair[0].at(gate), pair[1].at(gate)) else {
                continue;
            };
            let sum = times.entry(PacketTime::Gap(self.span, place)).or_default();
            sum.packets += 1.0;
            // Packets of one piece pass at once.
            if this != before {
                sum.add(&self.crossing(before, this));
            }
        }
    }

    /// Work and waits.
    fn add_times(&self, kind: Kind, response: &[Packet], times: &mut BTreeMap<PacketTime, Sum>) {
        let mut before: Option<Became> = None;
        for (place, packet) in response.iter().enumerate() {
            let both = packet.at(self.ends.0).zip(packet.at(self.ends.1));
            let Some(((from, on), (to, then_on))) = both else {
                before = None;
                continue;
            };
            let became = match before {
                // One piece with the packet before.
                Some(last) if (last.from, last.to) == (from, to) => last,
                last => {
                    let in_the_way = last.is_some_and(|last| from < last.to);
                    let crossing = self.crossing(from, to);
                    let waited = kind == Kind::Queueing || on != then_on || in_the_way;
                    if !waited {
                        let work = times.entry(PacketTime::Work(self.span)).or_default();
                        work.add(&crossing);
                    }
                    Became {
                        from,
                        to,
                        wait: waited.then_some(crossing),
                    }
                }
            };
            if became.wait.is_none() {
                times
                    .entry(PacketTime::Work(self.span))
                    .or_default()
                    .packets += 1.0;
            }
            for time in [
                PacketTime::Wait(self.span),
                PacketTime::WaitOf(self.span, place),
            ] {
                let sum = times.entry(time).or_default();
                sum.packets += 1.0;
                if let Some(wait) = &became.wait {
                    sum.add(wait);
                }
            }
            before = Some(became);
        }
    }
}
