//! One host's side of a message's way: its gates, and which events and spans are its own.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;

use tollgate_gate::span::Place;
use tollgate_gate::{
    Gate, GateSet, JoinPlan, KERNEL, PacketId, Recorded, Span, SpanTable, TickScale, join,
};
use tollgate_kernel::{Event, Flow, Joiner, Namespace, Plan, Taken, Talk, Watch};
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
    /// By message, its flow and the sequence number behind its last byte.
    ends: HashMap<PacketId, (Flow, u32)>,
    pub(super) lost: u64,
}

impl Joined {
    /// Ties what was taken.
    pub(super) fn tie(joiner: &mut Joiner, taken: &Taken) -> Self {
        let tied = joiner.tie(&taken.events);
        let messages = joiner.messages();
        Self {
            tied,
            ends: messages.map(|(id, flow, end)| (id, (flow, end))).collect(),
            lost: taken.lost,
        }
    }

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

    /// When each of a slice's messages passed the gate first, by its number from 0: a retransmission of one that has come through
    /// changes nothing. None when it cannot be told which number a message has.
    fn times(&self, gate: Gate, slice: Numbered) -> Option<BTreeMap<u32, u64>> {
        let mut first: HashMap<PacketId, u64> = HashMap::new();
        for event in self.tied.events.iter().filter(|event| event.gate == gate) {
            let at = event.ticks.0;
            let known = first.entry(event.packet).or_insert(at);
            *known = at.min(*known);
        }
        let passed = || {
            first
                .iter()
                .map(|(id, &at)| Some((at, *self.ends.get(id)?)))
        };
        let (_, (flow, earliest)) = passed().min().flatten()?;
        let origin = if flow.is_of_socket() {
            slice.size.get()
        } else {
            earliest
        };
        let number = |(at, (_, end)): (u64, (Flow, u32))| {
            let number = end.wrapping_sub(origin) / slice.size;
            (number < slice.messages).then_some((number, at))
        };
        let times: BTreeMap<u32, u64> = passed()
            .map(|passage| passage.and_then(number))
            .collect::<Option<_>>()?;
        // The connection's sequence numbers tell of no message that it is the slice's first, so all have to be there up to the last.
        (flow.is_of_socket() || times.contains_key(&slice.messages.saturating_sub(1)))
            .then_some(times)
    }
}

/// The messages of one direction in a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbered {
    /// How many there are.
    pub(super) messages: u32,
    /// Bytes of each.
    pub(super) size: NonZeroU32,
}

/// The round trips of a slice that were seen at all four points of both hosts' borders, in an order that round trips can have. Both
/// hosts know a message by its number, so what one of them has missed costs that round trip only.
pub(super) fn exchanges(
    joined: &[Joined; 2],
    borders: [GateSet; 2],
    slice: Numbered,
) -> Vec<Exchange> {
    paired(joined, borders, slice).unwrap_or_default()
}

fn paired(
    [client, server]: &[Joined; 2],
    borders: [GateSet; 2],
    slice: Numbered,
) -> Option<Vec<Exchange>> {
    let out = |border: GateSet| border.iter().find(|&gate| is_out(gate));
    let inn = |border: GateSet| border.iter().find(|&gate| !is_out(gate));
    let client_out = client.times(out(borders[0])?, slice)?;
    let client_in = client.times(inn(borders[0])?, slice)?;
    let server_in = server.times(inn(borders[1])?, slice)?;
    let server_out = server.times(out(borders[1])?, slice)?;
    let exchange = |number: &u32| {
        Some(Exchange {
            client_out: *client_out.get(number)?,
            server_in: *server_in.get(number)?,
            server_out: *server_out.get(number)?,
            client_in: *client_in.get(number)?,
        })
    };
    let in_order = |earlier: Option<&u64>, later: Option<&u64>| {
        earlier
            .zip(later)
            .is_none_or(|(earlier, later)| earlier <= later)
    };
    // The round trip before is over at both hosts, whatever else is known of it.
    let behind = |number: u32| {
        number.checked_sub(1).is_none_or(|before| {
            in_order(client_in.get(&before), client_out.get(&number))
                && in_order(server_out.get(&before), server_in.get(&number))
        })
    };
    let holds = |number: &u32| {
        in_order(client_out.get(number), client_in.get(number))
            && in_order(server_in.get(number), server_out.get(number))
            && behind(*number)
            && behind(*number + 1)
    };
    let numbers = client_out.keys().filter(|number| holds(number));
    Some(numbers.filter_map(exchange).collect())
}

/// For the tests of this module and its neighbours.
#[cfg(test)]
mod tests {
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

    const SLICE: Numbered = Numbered {
        messages: 3,
        size: NonZeroU32::new(TALK.size).unwrap(),
    };
    const BORDERS: [GateSet; 2] = [GateSet::of(&[Gate::DriverOutBegin, Gate::IpInBegin]); 2];

    /// What a host saw, by message: when it came out, and when one came in.
    struct Seen {
        host: Host,
        /// A socket numbers its own messages in a slice; what programs see has the connection's sequence numbers.
        by_socket: bool,
        out: [Vec<u64>; 3],
        inn: [Vec<u64>; 3],
    }

    impl Seen {
        fn joined(&self) -> Joined {
            let is_client = self.host == Host::Client;
            let flow = |there: bool| match self.by_socket {
                true => Flow::of_socket(PORT, there),
                false if there => Flow {
                    ports: 40_000 << 16 | u32::from(PORT),
                    addresses: 1,
                },
                false => Flow {
                    ports: u32::from(PORT) << 16 | 40_000,
                    addresses: 1,
                },
            };
            // Sequence numbers run over within the slice.
            let origin = if self.by_socket { 0 } else { u32::MAX - 5 };
            let sides = [
                (Gate::DriverOutBegin, is_client, &self.out),
                (Gate::IpInBegin, !is_client, &self.inn),
            ];
            let events = sides.into_iter().flat_map(|(gate, there, times)| {
                times.iter().zip(0u32..).flat_map(move |(times, number)| {
                    let seq = origin.wrapping_add(number * TALK.size);
                    let passed = move |&at| Event::of_packet(at, gate, flow(there), seq, TALK.size);
                    times.iter().map(passed)
                })
            });
            let taken = Taken {
                events: events.collect(),
                lost: 0,
            };
            Joined::tie(&mut Joiner::new(TALK), &taken)
        }
    }

    fn client(by_socket: bool) -> Seen {
        Seen {
            host: Host::Client,
            by_socket,
            out: [vec![10], vec![30], vec![50]],
            inn: [vec![20], vec![40], vec![60]],
        }
    }

    fn server(by_socket: bool) -> Seen {
        Seen {
            host: Host::Server,
            by_socket,
            out: [vec![1_015], vec![1_035], vec![1_055]],
            inn: [vec![1_012], vec![1_032], vec![1_052]],
        }
    }

    /// When the paired round trips began.
    fn paired_at(client: &Seen, server: &Seen) -> Vec<u64> {
        let exchanges = exchanges(&[client.joined(), server.joined()], BORDERS, SLICE);
        for exchange in &exchanges {
            assert_eq!(exchange.both_ways_ns(), 7.0, "{exchange:?}");
        }
        exchanges.iter().map(|one| one.client_out).collect()
    }

    #[test]
    fn round_trips_are_paired_by_their_numbers_whoever_saw_them() {
        for (near, far) in [(false, false), (true, true), (false, true), (true, false)] {
            assert_eq!(paired_at(&client(near), &server(far)), [10, 30, 50]);
        }
    }

    #[test]
    fn a_stamp_that_is_left_out_costs_one_round_trip() {
        for missing in 0..3 {
            let mut kept = vec![10, 30, 50];
            kept.remove(missing);
            for (near, far) in [(false, false), (true, true), (false, true), (true, false)] {
                // Of what programs saw, all is dropped when it does not tell which message was the first.
                let kept_of = |by_socket| match (by_socket, missing) {
                    (true, _) | (false, 1) => kept.clone(),
                    (false, _) => Vec::new(),
                };
                let (mut one, mut other) = (client(near), server(far));
                one.inn[missing].clear();
                assert_eq!(paired_at(&one, &other), kept_of(near), "{missing}");
                other.out[missing].clear();
                assert_eq!(paired_at(&client(near), &other), kept_of(far), "{missing}");
            }
        }
    }

    #[test]
    fn a_second_passage_changes_nothing() {
        let mut again = server(false);
        again.out[0].push(1_020);
        assert_eq!(paired_at(&client(false), &again), [10, 30, 50]);
    }

    #[test]
    fn round_trips_that_overlap_are_none() {
        // A stamp that came late is taken for one of the next message.
        let mut late = client(true);
        late.out[1] = vec![10, 30];
        late.out[0].clear();
        assert_eq!(paired_at(&late, &server(true)), [50]);
        let mut overlapping = client(true);
        overlapping.inn[0] = vec![31];
        assert_eq!(paired_at(&overlapping, &server(true)), [50]);
        let mut backwards = server(true);
        backwards.inn[2] = vec![1_056];
        assert_eq!(paired_at(&client(true), &backwards), [10, 30]);
    }

    #[test]
    fn more_messages_than_were_sent_are_none() {
        let fewer = Numbered {
            messages: 2,
            ..SLICE
        };
        let joined = [client(true).joined(), server(true).joined()];
        assert!(exchanges(&joined, BORDERS, fewer).is_empty());
    }
}
