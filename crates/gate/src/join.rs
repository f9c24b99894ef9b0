//! Events joined to passages: what one packet did at every gate.
//!
//! The recorders of the sender and of the receiver, or one that both share, give their events; those of one
//! [`PacketId`] become one [`Passage`]. The rules, where a packet passes a gate more than once:
//!
//! - **On the way out the first time counts** (`socket.out.begin` to `driver.out.end`): a retransmission does not move the
//!   moment at which the message set out, so waiting for a timeout is part of the packet's time on the way.
//! - **On the way in the try that came furthest counts**, the last one among equals (`driver.in.begin` to
//!   `socket.queue.in`): a segment that was damaged, or a duplicate that TCP threw away, does not lend its times to the
//!   one that reached the socket. A try begins when a packet passes a gate that lies at or before the last one it
//!   passed.
//! - **At the reader the last time counts** (`socket.in.begin`, `socket.in.end`).
//!
//! A passage ends with the last active gate. After that a gate that is still empty may be filled for a short time,
//! since two processors may note the two ends of a hand-over in the wrong order; the first active gate begins a new
//! passage; everything else is a repetition, and counted. A passage also ends when the application sends anew under its
//! id (an ACK has the id of the data that follows it), or when nothing was heard of it for the plan's maximum age, so
//! that sequence numbers may come round.
//!
//! This module never discards in silence: what does not join is counted in [`JoinStats`].

use std::collections::HashMap;
use std::time::Duration;

use crate::id::Gate;
use crate::record::Event;
use crate::recorder::PacketId;
use crate::set::GateSet;
use crate::ticks::{TickScale, Ticks};

/// The number of gates.
pub const GATES: usize = Gate::ALL.len();

/// When one packet passed each gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The packet.
    pub packet: PacketId,
    at: [Option<Ticks>; GATES],
}

impl Passage {
    /// When it passed `gate`; none when it was not seen there.
    #[inline]
    pub const fn at(&self, gate: Gate) -> Option<Ticks> {
        self.at[gate as usize]
    }

    /// The gates that it was seen at.
    pub fn gates(&self) -> GateSet {
        Gate::ALL
            .iter()
            .copied()
            .filter(|&gate| self.at(gate).is_some())
            .collect()
    }

    /// The number of gates that it was seen at strictly between two others, in the order of the way.
    pub fn stamps_between(&self, from: Gate, to: Gate) -> usize {
        self.at
            .get(from as usize + 1..to as usize)
            .map_or(0, |between| between.iter().flatten().count())
    }
}

/// Events that a recorder kept.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// The events, in any order.
    pub events: &'a [Event],
    /// Events that it had no room for.
    pub lost: u64,
}

/// Plan by which events are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinPlan {
    /// The gates that were active. Events of others are left aside.
    pub active: GateSet,
    /// Ticks of silence after which a passage is over.
    pub max_age: u64,
    /// Ticks after the last gate in which a gate that is still empty may be filled.
    pub slack: u64,
}

impl JoinPlan {
    /// The plan for `active` gates and a clock of `scale`: one second of silence, 100 microseconds of slack.
    pub const fn new(active: GateSet, scale: TickScale) -> Self {
        Self {
            active,
            max_age: scale.ticks_in(Duration::from_secs(1)),
            slack: scale.ticks_in(Duration::from_micros(100)),
        }
    }
}

/// Counts of the events by their fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinStats {
    /// Events of active gates that were read.
    pub events: u64,
    /// Events that the recorders had no room for.
    pub lost: u64,
    /// Passages.
    pub passages: u64,
    /// Passages seen at the first and at the last active gate.
    pub complete: u64,
    /// Passages seen at no gate of the receiver, although one is active.
    pub only_out: u64,
    /// Passages seen at no gate of the sender, although one is active.
    pub only_in: u64,
    /// Events of a gate that the packet had passed before, or passed again after its passage had ended.
    pub repeated: u64,
}

impl JoinStats {
    /// Passages that lack the first or the last active gate.
    pub const fn unmatched(&self) -> u64 {
        self.passages - self.complete
    }

    /// The share of passages that are complete; none when there is no passage.
    pub fn join_rate(&self) -> Option<f64> {
        (self.passages > 0).then(|| self.complete as f64 / self.passages as f64)
    }

    /// Adds the counts of another join.
    pub fn merge(&mut self, other: &Self) {
        self.events += other.events;
        self.lost += other.lost;
        self.passages += other.passages;
        self.complete += other.complete;
        self.only_out += other.only_out;
        self.only_in += other.only_in;
        self.repeated += other.repeated;
    }
}

/// Passages, and what became of the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// The passages, in the order in which they ended.
    pub passages: Vec<Passage>,
    /// The counts.
    pub stats: JoinStats,
}

/// Joins what the recorders kept. All must have read the same clock.
pub fn join<'a>(recorded: impl IntoIterator<Item = Recorded<'a>>, plan: JoinPlan) -> Joined {
    let mut joined = Joined::default();
    let mut events: Vec<Event> = Vec::new();
    for part in recorded {
        joined.stats.lost += part.lost;
        events.extend(
            part.events
                .iter()
                .filter(|event| plan.active.contains(event.gate)),
        );
    }
    joined.stats.events = events.len() as u64;
    let (Some(first), Some(last)) = (plan.active.first(), plan.active.last()) else {
        return joined;
    };
    // At equal times the order of the way decides. Stable, so a recorder's own order stands otherwise.
    events.sort_by_key(|event| (event.ticks, event.gate));

    let mut joiner = Joiner {
        plan,
        first,
        last,
        open: HashMap::new(),
        joined,
    };
    for event in &events {
        joiner.take(event);
    }
    joiner.finish()
}

struct Joiner {
    plan: JoinPlan,
    first: Gate,
    last: Gate,
    open: HashMap<PacketId, Open>,
    joined: Joined,
}

impl Joiner {
    fn take(&mut self, event: &Event) {
        let verdict = match self.open.get_mut(&event.packet) {
            None => Verdict::Begins,
            Some(open) => open.judge(event, self.first, &self.plan),
        };
        match verdict {
            Verdict::Repeats => self.joined.stats.repeated += 1,
            Verdict::Belongs => {}
            Verdict::Begins => {
                let before = self.open.insert(event.packet, Open::new(event.ticks));
                if let Some(before) = before {
                    self.close(event.packet, before);
                }
            }
        }
        if verdict != Verdict::Repeats
            && let Some(open) = self.open.get_mut(&event.packet)
        {
            self.joined.stats.repeated += u64::from(open.note(event));
            if event.gate == self.last {
                open.ended = Some(event.ticks);
            }
        }
    }

    fn close(&mut self, packet: PacketId, open: Open) {
        let passage = Passage {
            packet,
            at: open.settle(),
        };
        let passed = passage.gates();
        let has = |gates: GateSet, out: bool| gates.iter().any(|gate| gate.is_of_sender() == out);
        let stats = &mut self.joined.stats;
        stats.passages += 1;
        stats.complete += u64::from(passed.contains(self.first) && passed.contains(self.last));
        stats.only_out += u64::from(has(self.plan.active, false) && !has(passed, false));
        stats.only_in += u64::from(has(self.plan.active, true) && !has(passed, true));
        self.joined.passages.push(passage);
    }

    fn finish(mut self) -> Joined {
        let mut rest: Vec<(PacketId, Open)> = self.open.drain().collect();
        // A map has no order of its own; the same events must give the same passages.
        rest.sort_by_key(|(packet, open)| (open.newest, packet.0));
        for (packet, open) in rest {
            self.close(packet, open);
        }
        self.joined
    }
}

/// Relation of an event to the open passage of its packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Belongs,
    Begins,
    Repeats,
}

/// One way from the link towards the socket.
#[derive(Clone, Copy, Default)]
struct Try {
    at: [Option<Ticks>; GATES],
    reached: Option<Gate>,
}

struct Open {
    /// Times at the gates of the sender and of the reader.
    at: [Option<Ticks>; GATES],
    best: Try,
    current: Try,
    newest: Ticks,
    ended: Option<Ticks>,
}

const fn is_arrival(gate: Gate) -> bool {
    !gate.is_of_sender() && gate as u8 <= Gate::SocketQueued as u8
}

impl Open {
    fn new(now: Ticks) -> Self {
        Self {
            at: [None; GATES],
            best: Try::default(),
            current: Try::default(),
            newest: now,
            ended: None,
        }
    }

    fn judge(&self, event: &Event, first: Gate, plan: &JoinPlan) -> Verdict {
        let elapsed = |since: Ticks| event.ticks.0.saturating_sub(since.0);
        let anew = event.gate == Gate::SocketOutBegin;
        if anew || elapsed(self.newest) > plan.max_age {
            return Verdict::Begins;
        }
        match self.ended {
            None => Verdict::Belongs,
            Some(ended) if !self.has(event.gate) && elapsed(ended) <= plan.slack => {
                Verdict::Belongs
            }
            Some(_) if event.gate == first => Verdict::Begins,
            Some(_) => Verdict::Repeats,
        }
    }

    fn has(&self, gate: Gate) -> bool {
        let i = gate as usize;
        self.at[i]
            .or(self.best.at[i])
            .or(self.current.at[i])
            .is_some()
    }

    /// Notes an event of this passage; whether the packet had passed the gate before.
    fn note(&mut self, event: &Event) -> bool {
        let repeated = self.has(event.gate);
        let i = event.gate as usize;
        self.newest = event.ticks;
        if is_arrival(event.gate) {
            if self
                .current
                .reached
                .is_some_and(|reached| event.gate <= reached)
            {
                self.settle_try();
            }
            self.current.at[i] = Some(event.ticks);
            self.current.reached = Some(event.gate);
        } else if !(event.gate.is_of_sender() && repeated) {
            self.at[i] = Some(event.ticks);
        }
        repeated
    }

    fn settle_try(&mut self) {
        let current = std::mem::take(&mut self.current);
        if current.reached >= self.best.reached {
            self.best = current;
        }
    }

    fn settle(mut self) -> [Option<Ticks>; GATES] {
        self.settle_try();
        let mut at = self.at;
        for (slot, arrival) in at.iter_mut().zip(self.best.at) {
            *slot = slot.or(arrival);
        }
        at
    }
}

#[cfg(test)]
mod tests;
