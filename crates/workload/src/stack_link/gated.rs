//! Round trips of a [`LinkSession`] past the gates of our stack, in slices with gates and without.
//!
//! Our end has gates, and the kernel's has none here. A request passes those on the way out, and its response those on the way in.
//! Both get the number of their round trip, which follows from their sequence numbers: each message of a session is as long as
//! the others. So a round trip is one passage, from the call that sends to the return of the call that reads.
//!
//! It must never choose gates, and never judge a time.

use tollgate_gate::record::Ordered;
use tollgate_gate::{Clock, Event, GateSet, PacketId, Recorded};
use tollgate_link::Waitable;
use tollgate_run::Workload;

use super::LinkSession;
use crate::clock::gate_clock;
use crate::error::Error;
use crate::path::StackGates;
use crate::stack_gates::{Fault, Faulty, Passages, Ungated};

/// The gates of a session, and what they saw in the last slice.
pub(super) struct Gating {
    passages: Passages<Ordered>,
    clock: Clock,
    fault: Option<Fault>,
    /// Events of the last slice, with the numbers of round trips.
    events: Vec<Event>,
    /// Times that our end slept in the last slice.
    sleeps: u64,
}

impl Gating {
    pub(super) fn new() -> Self {
        let clock = gate_clock();
        Self {
            passages: Passages::new(clock),
            clock,
            fault: None,
            events: Vec::new(),
            sleeps: 0,
        }
    }
}

impl<L: Waitable> LinkSession<L> {
    fn slice_past(
        &mut self,
        gates: Option<GateSet>,
        round_trips: u64,
        lap: &mut dyn FnMut(f64),
    ) -> Result<u64, Error> {
        let Self {
            client,
            server,
            gating,
            ..
        } = self;
        let gating = gating.get_or_insert_with(Gating::new);
        let Gating {
            passages,
            clock,
            fault,
            ..
        } = gating;
        let clock = *clock;
        let lap = |last, now| lap(clock.ns_between(last, now));
        passages.start(gates.unwrap_or(GateSet::EMPTY));
        match (gates, fault) {
            (None, None) => client.slice_past(&mut Ungated, round_trips, &clock, lap, server),
            (Some(_), None) => client.slice_past(passages, round_trips, &clock, lap, server),
            (None, Some(fault)) => {
                let mut ungated = Ungated;
                let mut gates = Faulty::new(&mut ungated, fault);
                client.slice_past(&mut gates, round_trips, &clock, lap, server)
            }
            (Some(_), Some(fault)) => {
                let mut gates = Faulty::new(passages, fault);
                client.slice_past(&mut gates, round_trips, &clock, lap, server)
            }
        }
    }
}

impl<L: Waitable> StackGates for LinkSession<L> {
    fn set_fault(&mut self, fault: Option<Fault>) {
        self.gating.get_or_insert_with(Gating::new).fault = fault;
    }

    fn sleeps(&self) -> u64 {
        self.gating.as_ref().map_or(0, |gating| gating.sleeps)
    }

    fn slice(
        &mut self,
        gates: Option<GateSet>,
        round_trips: u64,
        lap: &mut dyn FnMut(f64),
    ) -> Result<Recorded<'_>, Error> {
        let path = self.side.path;
        if self.failed {
            return Err(Error::Poisoned { path });
        }
        let spec = self.client.spec();
        if spec.workload != Workload::Rr || !self.client.end.is_one_segment(spec.size) {
            return Err(Error::Unsupported {
                path,
                asked: format!("{} of {} bytes with gates", spec.workload, spec.size),
                has: format!(
                    "{} of one segment, at least a byte and at most {} bytes",
                    Workload::Rr,
                    self.client.end.segment()
                ),
            });
        }
        let size = u32::try_from(spec.size).unwrap_or(u32::MAX);
        let outcome = self.slice_past(gates, round_trips, lap);
        self.failed = outcome.is_err();
        let sleeps = outcome.map_err(|error| self.explain(error))?;
        let gating = self.gating.get_or_insert_with(Gating::new);
        gating.sleeps = sleeps;
        let recorded = gating.passages.recorded();
        gating.events = numbered(recorded.events, size);
        Ok(Recorded {
            events: &gating.events,
            lost: recorded.lost,
        })
    }
}

/// Events with the number of their round trip for a packet. What begins within a message is a part of one that was cut, and has no
/// number.
fn numbered(events: &[Event], size: u32) -> Vec<Event> {
    // Of each direction: the sequence number of the first message.
    let mut first: [Option<u32>; 2] = [None; 2];
    let number = |event: &Event| {
        let PacketId(seq) = event.packet;
        let first = first[usize::from(event.gate.is_of_sender())].get_or_insert(seq);
        let bytes = seq.wrapping_sub(*first);
        (bytes % size == 0).then(|| Event {
            packet: PacketId(bytes / size),
            ..*event
        })
    };
    events.iter().filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use tollgate_gate::{Gate, Ticks};

    use super::*;

    #[test]
    fn both_messages_of_a_round_trip_have_its_number_past_the_end_of_sequence_numbers() {
        let event = |gate, seq| Event {
            ticks: Ticks(0),
            packet: PacketId(seq),
            gate,
        };
        let events = [
            event(Gate::TcpOutBegin, u32::MAX - 50),
            event(Gate::TcpInBegin, 7_000),
            event(Gate::TcpOutBegin, 49),
            event(Gate::TcpInBegin, 7_060),
            event(Gate::TcpInBegin, 7_100),
        ];
        let numbers: Vec<(Gate, u32)> = numbered(&events, 100)
            .iter()
            .map(|event| (event.gate, event.packet.0))
            .collect();
        let expected = [
            (Gate::TcpOutBegin, 0),
            (Gate::TcpInBegin, 0),
            (Gate::TcpOutBegin, 1),
            (Gate::TcpInBegin, 1),
        ];
        assert_eq!(numbers, expected);
    }
}
