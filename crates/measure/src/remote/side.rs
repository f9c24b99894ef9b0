//! One host's gates: which there are, who switches them, and which events are of this host.
//!
//! It must never compare times, and never choose gates.

use tollgate_gate::{Gate, GateSet, KERNEL, SpanTable};
use tollgate_kernel::{Event, Namespace, Plan, Taken, Transfer, Watch};
use tollgate_workload::gates::Keeper;
use tollgate_workload::remote::{KernelRemote, RemoteBoundary, RemoteGates, RemoteSession};
use tollgate_workload::{SOCKET_STAMPED, STAMPED, Session, Stamps};

use crate::ledger::Split;
use crate::way::{Host, is_out};

/// A boundary: the hook that takes it, or the reasons why none does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boundary {
    /// The gate.
    pub gate: Gate,
    /// Name of the hook.
    pub hook: Option<String>,
    /// Reasons why finer hooks cannot be had.
    pub missed: Vec<String>,
    /// There is a hook, and not every message was seen at it.
    pub unseen: bool,
}

/// The boundaries of a host, in the order of the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Boundaries {
    all: Vec<Boundary>,
    /// There are programs, and not the callers alone.
    programs: bool,
}

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
        Self::new(plan.boundaries().iter().map(boundary).collect())
    }

    fn of_remote(gates: &RemoteGates) -> Self {
        let boundary = |told: &RemoteBoundary| Boundary {
            gate: told.gate,
            hook: told.hook.clone(),
            missed: told.missed.clone(),
            unseen: false,
        };
        Self::new(gates.boundaries().iter().map(boundary).collect())
    }

    fn new(all: Vec<Boundary>) -> Self {
        // Without programs nobody sees a reader begin to run, and with them every plan does.
        let programs = all
            .iter()
            .any(|one| one.gate == Gate::ReaderRuns && one.hook.is_some());
        Self { all, programs }
    }

    /// Each boundary.
    pub fn iter(&self) -> impl Iterator<Item = &Boundary> {
        self.all.iter()
    }

    /// The name of the hook that takes a gate.
    pub fn hook(&self, gate: Gate) -> Option<&str> {
        // The application ends where the answer begins.
        let gate = match gate {
            Gate::ApplicationEnd => Gate::SocketOutBegin,
            gate => gate,
        };
        let boundary = self.all.iter().find(|boundary| boundary.gate == gate)?;
        boundary.hook.as_deref()
    }

    /// The gates that have a hook and see every message.
    pub(super) fn gates(&self) -> GateSet {
        (self.all.iter())
            .filter(|boundary| boundary.hook.is_some() && !boundary.unseen)
            .map(|boundary| boundary.gate)
            // It runs beside the way.
            .filter(|&gate| gate != Gate::SocketOutEnd)
            .collect()
    }

    /// Leaves out the gates that did not see every message.
    pub(super) fn keep(&mut self, seen: GateSet) {
        for boundary in &mut self.all {
            boundary.unseen = boundary.hook.is_some() && !seen.contains(boundary.gate);
        }
    }

    /// The spans between its gates; none with fewer than two.
    pub(super) fn table(&self) -> Option<SpanTable> {
        let mut gates = self.gates();
        if gates.contains(Gate::SocketOutBegin) {
            gates = gates.with(Gate::ApplicationEnd);
        }
        KERNEL.joined(gates)
    }

    /// Gates by the code that reads the clock: programs of this host, and system calls of the ends on it.
    pub(super) fn split(&self, host: Host, gate: Gate) -> Split {
        let of_socket = !self.programs && SOCKET_STAMPED.contains(gate);
        let own = u8::from(STAMPED.contains(gate) || of_socket);
        Split::Alike(2 * host as u8 + own)
    }
}

/// Switch of a host's gates.
enum Switch {
    Here(Box<Keeper>),
    There(RemoteGates),
}

/// One host.
pub(super) struct Side {
    pub(super) host: Host,
    pub(super) boundaries: Boundaries,
    switch: Switch,
    /// Some gates are attached.
    attached: bool,
}

/// The stamps that the ends here share with their sessions.
fn stamps(session: &RemoteSession) -> Option<&Stamps> {
    session.kernel_ends().map(|ends| ends.stamps)
}

impl Side {
    pub(super) fn client() -> Result<Self, String> {
        let keeper = Keeper::load().map_err(|error| error.to_string())?;
        Ok(Self {
            host: Host::Local,
            boundaries: Boundaries::of(keeper.plan()),
            switch: Switch::Here(Box::new(keeper)),
            attached: false,
        })
    }

    pub(super) fn server(remote: &KernelRemote) -> Result<Self, String> {
        let gates = remote.gates().map_err(|error| error.to_string())?;
        Ok(Self {
            host: Host::Remote,
            boundaries: Boundaries::of_remote(&gates),
            switch: Switch::There(gates),
            attached: false,
        })
    }

    /// Says whose packets and threads are recorded here; the server knows by itself.
    pub(super) fn watch(&self, transfer: Transfer) -> Result<(), String> {
        match &self.switch {
            Switch::Here(keeper) => {
                let watch = Watch {
                    ports: vec![transfer.server_port],
                    threads: vec![transfer.client],
                    acknowledgments: false,
                };
                keeper.watch(&watch).map_err(|error| error.to_string())
            }
            Switch::There(_) => Ok(()),
        }
    }

    /// Attaches these gates instead of those before.
    pub(super) fn attach<'a>(
        &mut self,
        gates: GateSet,
        sessions: impl Iterator<Item = &'a RemoteSession>,
    ) -> Result<(), String> {
        if gates.is_empty() && !self.attached {
            return Ok(());
        }
        self.attached = !gates.is_empty();
        match &mut self.switch {
            Switch::Here(keeper) => {
                let stamps = sessions.filter_map(stamps);
                if gates.is_empty() {
                    keeper.detach(stamps);
                    return Ok(());
                }
                keeper
                    .attach(gates, &[Namespace::Own], stamps)
                    .map_err(|error| error.to_string())
            }
            Switch::There(far) => {
                let done = if gates.is_empty() {
                    far.detach()
                } else {
                    far.attach(gates)
                };
                done.map_err(|error| error.to_string())
            }
        }
    }

    /// Takes the events recorded on this side since the last time.
    pub(super) fn take(
        &self,
        session: &RemoteSession,
        transfer: Transfer,
    ) -> Result<Taken, String> {
        let mut taken = match &self.switch {
            Switch::Here(keeper) => stamps(session)
                .map(|stamps| keeper.take(stamps, transfer))
                .unwrap_or_default(),
            Switch::There(far) => far.take(session).map_err(|error| error.to_string())?,
        };
        taken
            .events
            .retain(|event| is_own(self.host, event, transfer));
        Ok(taken)
    }
}

/// Tells whether an event is of this host: where both ends are on one machine, its kernel shows each host the other one's as well.
fn is_own(host: Host, event: &Event, transfer: Transfer) -> bool {
    let (thread, sends_to_far) = match host {
        Host::Local => (transfer.client, true),
        Host::Remote => (transfer.server, false),
    };
    match (event.flow(), event.gate()) {
        (_, None) => false,
        (None, Some(_)) => event.thread == thread,
        (Some(flow), Some(gate)) => {
            let to_far = flow.destination() == transfer.server_port;
            (to_far == sends_to_far) == is_out(gate)
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_kernel::Flow;

    use super::*;

    const PORT: u16 = 7;
    const TRANSFER: Transfer = Transfer {
        server_port: PORT,
        client: 11,
        server: 22,
        size: 4,
    };

    #[test]
    fn events_of_the_other_host_are_left_out() {
        let there = Flow {
            ports: 40_000 << 16 | u32::from(PORT),
            addresses: 0,
        };
        let back = Flow {
            ports: u32::from(PORT) << 16 | 40_000,
            addresses: 0,
        };
        for (event, of_client) in [
            (Event::of_packet(1, Gate::DriverOutBegin, there, 0, 4), true),
            (Event::of_packet(1, Gate::DriverOutEnd, there, 0, 4), false),
            (Event::of_packet(1, Gate::IpInBegin, there, 0, 4), false),
            (Event::of_packet(1, Gate::TcpOutBegin, back, 0, 4), false),
            (Event::of_stream(1, Gate::SocketQueued, back, 4), true),
            (Event::of_thread(1, Gate::SocketOutBegin, 11), true),
            (Event::of_thread(1, Gate::SocketOutBegin, 22), false),
        ] {
            assert_eq!(
                is_own(Host::Local, &event, TRANSFER),
                of_client,
                "{event:?}"
            );
            assert_eq!(
                is_own(Host::Remote, &event, TRANSFER),
                !of_client,
                "{event:?}"
            );
        }
        let other = Event::of_thread(1, Gate::SocketOutBegin, 33);
        assert!(!is_own(Host::Local, &other, TRANSFER) && !is_own(Host::Remote, &other, TRANSFER));
    }

    #[test]
    fn gates_that_do_not_see_every_message_are_left_out() {
        let boundary = |gate| Boundary {
            gate,
            hook: Some("a hook".to_owned()),
            missed: Vec::new(),
            unseen: false,
        };
        let gates = [
            Gate::SocketOutBegin,
            Gate::DriverOutBegin,
            Gate::IpInBegin,
            Gate::SocketInEnd,
        ];
        let mut boundaries = Boundaries::new(gates.map(boundary).to_vec());
        assert_eq!(boundaries.gates(), GateSet::of(&gates));
        boundaries.keep(GateSet::of(&gates).without(Gate::IpInBegin));
        let table = boundaries.table().unwrap();
        assert!(!table.gates().contains(Gate::IpInBegin));
        assert!(table.gates().contains(Gate::ApplicationEnd));
    }
}
