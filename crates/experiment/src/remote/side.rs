//! One host's side of a message's way: its gates, and which events and spans are its own.

use std::collections::HashMap;

use tollgate_gate::span::Place;
use tollgate_gate::{
    Gate, GateSet, JoinPlan, KERNEL, PacketId, Recorded, Span, SpanTable, TickScale, join,
};
use tollgate_kernel::{Event, Namespace, Plan, Taken, Talk, Watch};
use tollgate_workload::gates::Keeper;
use tollgate_workload::remote::{FarGates, KernelRemote, RemoteSession};
use tollgate_workload::{Session, Stamps};

use super::Host;
use super::clocks::Exchange;

pub(super) const SCALE: TickScale = TickScale::NANOSECONDS;

/// Whether a gate is passed by what a host sends, as far as its driver. Where a driver hands a packet to the other end's queue is
/// the first that the receiver has of it.
const fn is_out(gate: Gate) -> bool {
    (gate as u8) < Gate::DriverOutEnd as u8
}

/// Whether a span lies within one host, and is on the way.
pub(crate) fn is_own(span: &Span) -> bool {
    matches!(span.place, Place::OnTheWay) && is_out(span.from) == is_out(span.to)
}

/// The gates that are attached to see a span.
pub(super) fn attached_for(span: &Span) -> GateSet {
    let gates = span.gates();
    if gates.contains(Gate::ApplicationEnd) {
        // It ends where the answer begins.
        gates
            .without(Gate::ApplicationEnd)
            .with(Gate::SocketOutBegin)
    } else {
        gates
    }
}

/// A boundary: which hook takes it, or why none does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Boundary {
    pub(crate) gate: Gate,
    pub(crate) hook: Option<String>,
    pub(crate) missed: Vec<String>,
    /// There is a hook, and no message was seen at it.
    pub(crate) unseen: bool,
}

/// A host's boundaries, in the order of the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Boundaries(Vec<Boundary>);

impl Boundaries {
    fn of(plan: &Plan) -> Self {
        let boundary = |boundary: &tollgate_kernel::Boundary| Boundary {
            gate: boundary.gate,
            hook: boundary.hook.map(|hook| hook.name.to_owned()),
            missed: (boundary.missed.iter())
                .map(|(hook, reason)| format!("{}: {reason}", hook.name))
                .collect(),
            unseen: false,
        };
        Self(plan.boundaries().iter().map(boundary).collect())
    }

    fn told(gates: &FarGates) -> Self {
        let boundary = |told: &tollgate_workload::remote::FarBoundary| Boundary {
            gate: told.gate,
            hook: told.hook.clone(),
            missed: told.missed.clone(),
            unseen: false,
        };
        Self(gates.boundaries().iter().map(boundary).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Boundary> {
        self.0.iter()
    }

    /// The name of the hook that takes a gate.
    pub(crate) fn hook(&self, gate: Gate) -> Option<&str> {
        // The application ends where the answer begins.
        let gate = match gate {
            Gate::ApplicationEnd => Gate::SocketOutBegin,
            gate => gate,
        };
        let boundary = self.0.iter().find(|boundary| boundary.gate == gate)?;
        boundary.hook.as_deref()
    }

    /// The gates that have a hook and see messages.
    pub(super) fn gates(&self) -> GateSet {
        (self.0.iter())
            .filter(|boundary| boundary.hook.is_some() && !boundary.unseen)
            .map(|boundary| boundary.gate)
            // It runs beside the way.
            .filter(|&gate| gate != Gate::SocketOutEnd)
            .collect()
    }

    /// The last gate that what is sent passes here.
    pub(super) fn last_out(&self) -> Option<Gate> {
        self.gates().iter().rfind(|&gate| is_out(gate))
    }

    /// The first gate that what is received passes here.
    fn first_in(&self) -> Option<Gate> {
        self.gates().iter().find(|&gate| !is_out(gate))
    }

    /// The gates between which lies what the other host and the network have.
    pub(super) fn border(&self) -> GateSet {
        self.last_out().into_iter().chain(self.first_in()).collect()
    }
}

/// Who switches a host's gates.
enum Switch {
    Here(Box<Keeper>),
    There(FarGates),
}

/// One host.
pub(super) struct Side {
    pub(super) host: Host,
    pub(super) boundaries: Boundaries,
    switch: Switch,
}

/// What the ends that stamp here share with their sessions.
fn stamps(session: &RemoteSession) -> Option<&Stamps> {
    session.kernel_ends().map(|ends| ends.stamps)
}

impl Side {
    pub(super) fn client() -> Result<Self, String> {
        let keeper = Keeper::load().map_err(|error| error.to_string())?;
        Ok(Self {
            host: Host::Client,
            boundaries: Boundaries::of(keeper.plan()),
            switch: Switch::Here(Box::new(keeper)),
        })
    }

    pub(super) fn server(remote: &KernelRemote) -> Result<Self, String> {
        let gates = remote.gates().map_err(|error| error.to_string())?;
        Ok(Self {
            host: Host::Server,
            boundaries: Boundaries::told(&gates),
            switch: Switch::There(gates),
        })
    }

    pub(super) fn into_boundaries(self) -> Boundaries {
        self.boundaries
    }

    /// Says whose packets and threads are recorded here; the server knows by itself.
    pub(super) fn watch(&self, talk: Talk) -> Result<(), String> {
        match &self.switch {
            Switch::Here(keeper) => {
                let watch = Watch {
                    ports: vec![talk.far_port],
                    threads: vec![talk.near],
                    acknowledgments: false,
                };
                keeper.watch(&watch).map_err(|error| error.to_string())
            }
            Switch::There(_) => Ok(()),
        }
    }

    pub(super) fn attach<'a>(
        &mut self,
        gates: GateSet,
        twins: bool,
        sessions: impl Iterator<Item = &'a RemoteSession>,
    ) -> Result<(), String> {
        match &mut self.switch {
            Switch::Here(keeper) => keeper
                .attach(gates, twins, &[Namespace::Own], sessions.filter_map(stamps))
                .map_err(|error| error.to_string()),
            Switch::There(far) => far.attach(gates, twins).map_err(|error| error.to_string()),
        }
    }

    pub(super) fn detach<'a>(
        &mut self,
        sessions: impl Iterator<Item = &'a RemoteSession>,
    ) -> Result<(), String> {
        match &mut self.switch {
            Switch::Here(keeper) => {
                keeper.detach(sessions.filter_map(stamps));
                Ok(())
            }
            Switch::There(far) => far.detach().map_err(|error| error.to_string()),
        }
    }

    /// What was recorded on this side since the last time.
    pub(super) fn take(&self, session: &RemoteSession, talk: Talk) -> Result<Taken, String> {
        let mut taken = match &self.switch {
            Switch::Here(keeper) => stamps(session)
                .map(|stamps| keeper.take(stamps, talk))
                .unwrap_or_default(),
            Switch::There(far) => far.take(session).map_err(|error| error.to_string())?,
        };
        taken.events.retain(|event| self.is_own(event, talk));
        Ok(taken)
    }

    /// Whether an event is of this side: on one machine the other side's are seen, too.
    fn is_own(&self, event: &Event, talk: Talk) -> bool {
        let (thread, sends_to_far) = match self.host {
            Host::Client => (talk.near, true),
            Host::Server => (talk.far, false),
        };
        match (event.flow(), event.gate()) {
            (_, None) => false,
            (None, Some(_)) => event.thread == thread,
            (Some(flow), Some(gate)) => {
                let to_far = flow.destination() == talk.far_port;
                (to_far == sends_to_far) == is_out(gate)
            }
        }
    }

    /// Leaves out the gates that saw nothing, and gives the spans between the others.
    pub(super) fn settle(&mut self, seen: GateSet) -> Result<SpanTable, String> {
        for boundary in &mut self.boundaries.0 {
            boundary.unseen = boundary.hook.is_some() && !seen.contains(boundary.gate);
        }
        let mut gates = self.boundaries.gates();
        if gates.contains(Gate::SocketOutBegin) {
            gates = gates.with(Gate::ApplicationEnd);
        }
        let border = self.boundaries.border();
        let table = KERNEL.joined(gates).filter(|_| border.iter().count() == 2);
        table.ok_or_else(|| {
            let missed = self.boundaries.iter().find_map(|one| one.missed.first());
            format!(
                "the {} has no gates on both ways{}",
                self.host.name(),
                missed.map_or_else(String::new, |reason| format!(" ({reason})"))
            )
        })
    }
}

/// What one side recorded in a slice, tied to messages.
pub(super) struct Joined {
    pub(super) tied: tollgate_kernel::join::Tied,
    pub(super) lost: u64,
}

impl Joined {
    /// The gates at which messages were seen.
    pub(super) fn gates(&self) -> GateSet {
        self.tied.events.iter().map(|event| event.gate).collect()
    }

    /// The passages through these gates.
    pub(super) fn passages(&self, gates: GateSet) -> tollgate_gate::Joined {
        let recorded = Recorded {
            events: &self.tied.events,
            lost: self.lost,
        };
        join([recorded], JoinPlan::new(gates, SCALE))
    }

    /// When each message passed the gate first, in their order: a retransmission of one that has come through changes nothing.
    fn times(&self, gate: Gate) -> Vec<u64> {
        let mut first: HashMap<PacketId, u64> = HashMap::new();
        for event in self.tied.events.iter().filter(|event| event.gate == gate) {
            let at = event.ticks.0;
            let known = first.entry(event.packet).or_insert(at);
            *known = at.min(*known);
        }
        let mut times: Vec<u64> = first.into_values().collect();
        times.sort_unstable();
        times
    }
}

/// The round trips of a slice at both hosts' borders; none when not all of them were seen at all four points, in an order that a
/// round trip can have.
pub(super) fn exchanges(
    joined: &[Joined; 2],
    borders: [GateSet; 2],
    round_trips: u64,
) -> Option<Vec<Exchange>> {
    let [client, server] = joined;
    let out = |border: GateSet| border.iter().find(|&gate| is_out(gate));
    let inn = |border: GateSet| border.iter().find(|&gate| !is_out(gate));
    let client_out = client.times(out(borders[0])?);
    let client_in = client.times(inn(borders[0])?);
    let server_in = server.times(inn(borders[1])?);
    let server_out = server.times(out(borders[1])?);
    let all = [&client_out, &client_in, &server_in, &server_out];
    if all.iter().any(|times| times.len() as u64 != round_trips) {
        return None;
    }
    let exchanges: Vec<Exchange> = (0..client_out.len())
        .map(|at| Exchange {
            client_out: client_out[at],
            server_in: server_in[at],
            server_out: server_out[at],
            client_in: client_in[at],
        })
        .collect();
    let ordered = exchanges
        .iter()
        .all(|e| e.client_out <= e.client_in && e.server_in <= e.server_out);
    let apart = exchanges.windows(2).all(|pair| {
        pair[0].client_in <= pair[1].client_out && pair[0].server_out <= pair[1].server_in
    });
    (ordered && apart).then_some(exchanges)
}

/// For the tests of this module and its neighbours.
#[cfg(test)]
mod tests {
    use tollgate_gate::Ticks;
    use tollgate_kernel::Flow;

    use super::*;

    const PORT: u16 = 7;
    const TALK: Talk = Talk {
        far_port: PORT,
        near: 11,
        far: 22,
        size: 4,
    };

    fn side(host: Host) -> Side {
        let gates = Keeper::load().map(Box::new);
        Side {
            host,
            boundaries: Boundaries::default(),
            switch: Switch::Here(gates.unwrap()),
        }
    }

    #[test]
    fn each_side_keeps_its_own_events() {
        let there = Flow {
            ports: 40_000 << 16 | u32::from(PORT),
            addresses: 0,
        };
        let back = Flow {
            ports: u32::from(PORT) << 16 | 40_000,
            addresses: 0,
        };
        let (client, server) = (side(Host::Client), side(Host::Server));
        for (event, of_client) in [
            (Event::of_packet(1, Gate::DriverOutBegin, there, 0, 4), true),
            (Event::of_packet(1, Gate::DriverOutEnd, there, 0, 4), false),
            (Event::of_packet(1, Gate::IpInBegin, there, 0, 4), false),
            (Event::of_packet(1, Gate::TcpOutBegin, back, 0, 4), false),
            (Event::of_stream(1, Gate::SocketQueued, back, 4), true),
            (Event::of_thread(1, Gate::SocketOutBegin, 11), true),
            (Event::of_thread(1, Gate::SocketOutBegin, 22), false),
        ] {
            assert_eq!(client.is_own(&event, TALK), of_client, "{event:?}");
            assert_eq!(server.is_own(&event, TALK), !of_client, "{event:?}");
        }
        let other = Event::of_thread(1, Gate::SocketOutBegin, 33);
        assert!(!client.is_own(&other, TALK) && !server.is_own(&other, TALK));
    }

    #[test]
    fn what_crosses_from_host_to_host_is_no_span_of_either() {
        for span in KERNEL.spans() {
            let crosses = span.name == "driver" || span.name == "send.return";
            assert_eq!(is_own(span), !crosses, "{}", span.name);
        }
    }

    fn joined(out: &[u64], inn: &[u64]) -> Joined {
        let mut tied = tollgate_kernel::join::Tied::default();
        let times = out.iter().map(|&at| (Gate::DriverOutBegin, at));
        let times = times.chain(inn.iter().map(|&at| (Gate::IpInBegin, at)));
        for (number, (gate, at)) in times.enumerate() {
            tied.events.push(tollgate_gate::Event {
                ticks: Ticks(at),
                packet: PacketId(number as u32),
                gate,
            });
        }
        Joined { tied, lost: 0 }
    }

    #[test]
    fn round_trips_are_paired_by_their_order_or_not_at_all() {
        let borders = [GateSet::of(&[Gate::DriverOutBegin, Gate::IpInBegin]); 2];
        let client = || joined(&[10, 30], &[20, 40]);
        let server = || joined(&[1_015, 1_035], &[1_012, 1_032]);
        let paired = exchanges(&[client(), server()], borders, 2).unwrap();
        assert_eq!(
            paired[1],
            Exchange {
                client_out: 30,
                server_in: 1_032,
                server_out: 1_035,
                client_in: 40
            }
        );
        assert_eq!(paired[1].both_ways_ns(), 7.0);
        let mut again = server();
        let mut late = again.tied.events[0];
        late.ticks = Ticks(1_020);
        again.tied.events.push(late);
        assert_eq!(exchanges(&[client(), again], borders, 2), Some(paired));
        // One is missing, there is one too many, or they overlap.
        assert!(exchanges(&[client(), joined(&[1_015], &[1_012, 1_032])], borders, 2).is_none());
        assert!(exchanges(&[client(), server()], borders, 3).is_none());
        assert!(exchanges(&[joined(&[10, 15], &[20, 40]), server()], borders, 2).is_none());
    }
}
