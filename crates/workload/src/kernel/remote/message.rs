//! Messages between client and server: a request, then its answer.

use serde::{Deserialize, Serialize};
use tollgate_gate::Gate;
use tollgate_kernel::{Event, Flow};

use crate::spec::Spec;

/// Request of a client. The first is [`Request::Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    /// To be served.
    Hello {
        /// The client's version, for people.
        tool: String,
        /// The server's token.
        token: Option<String>,
    },
    /// A session; its ports are opened.
    Open {
        /// The specification of the session.
        spec: Spec,
    },
    /// The client has connected where it must; the other end is to start.
    Start {
        /// The session.
        session: u32,
    },
    /// A slice.
    Begin {
        /// The session.
        session: u32,
        /// Its iterations, warm-up included.
        iterations: u64,
    },
    /// To hear when the slice is done.
    Finish {
        /// The session.
        session: u32,
    },
    /// To hear whether the other end has failed.
    Status {
        /// The session.
        session: u32,
    },
    /// The session is over.
    Close {
        /// The session.
        session: u32,
    },
    /// The server's hook plan; its programs are loaded.
    Gates,
    /// These gates attached instead of those before.
    Attach {
        /// Their names.
        gates: Vec<String>,
    },
    /// No gates.
    Detach,
    /// Asks for the events recorded for this session since the last time.
    Take {
        /// The session.
        session: u32,
    },
}

/// Answer of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Response {
    /// The client is served.
    Welcome {
        /// The server's version, for people.
        tool: String,
        /// The description of its host; this crate does not look into it.
        host: serde_json::Value,
    },
    /// The client is not served.
    Refused {
        /// The reason why not.
        why: Refusal,
    },
    /// A session is there.
    Opened {
        /// Its number.
        session: u32,
        /// The ports that the client connects to.
        ports: Vec<u16>,
    },
    /// The other end has started.
    Started {
        /// Its thread.
        thread: u32,
        /// The processor that it is pinned to.
        core: usize,
    },
    /// The request was carried out.
    Done,
    /// The hook plan.
    Plan {
        /// In the order of the way.
        boundaries: Vec<BoundaryMessage>,
    },
    /// The recorded events.
    Taken {
        /// The events.
        events: Vec<EventMessage>,
        /// Events that were lost.
        lost: u64,
    },
    /// The request could not be carried out.
    Failed {
        /// The reason, in words.
        reason: String,
    },
}

/// The reason why a client is not served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Refusal {
    /// Another is being served.
    Busy {
        /// The client that is being served.
        client: String,
    },
    /// It did not say what the server wants to hear.
    Token,
}

/// A boundary of the server's hook plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BoundaryMessage {
    /// The gate's name.
    pub(super) gate: String,
    /// The hook that takes it; none when it stays unresolved.
    pub(super) hook: Option<String>,
    /// The reason why finer hooks could not be had.
    pub(super) missed: Vec<String>,
}

/// Identification of the passage at a gate: a packet or a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Who {
    /// A packet.
    #[serde(rename = "p")]
    Packet,
    /// All bytes before one.
    #[serde(rename = "s")]
    Stream,
    /// A thread.
    #[serde(rename = "t")]
    Thread,
}

/// A passage of a gate as the server's kernel noted it, as a list of values: the time on the server's clock in ns, the gate's name,
/// who, ports, addresses, sequence number, bytes, thread, processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EventMessage(u64, String, Who, u32, u32, u32, u32, u32, u16);

impl EventMessage {
    /// Of an event; none when its gate has no name.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let who = match event.flow() {
            None => Who::Thread,
            Some(_) if event.is_up_to() => Who::Stream,
            Some(_) => Who::Packet,
        };
        Some(Self(
            event.ktime,
            event.gate()?.name().to_owned(),
            who,
            event.ports,
            event.addresses,
            event.seq,
            event.len,
            event.thread,
            event.cpu,
        ))
    }

    /// The event; none for a gate that this build does not know.
    pub(super) fn event(&self) -> Option<Event> {
        let Self(ktime, gate, who, ports, addresses, seq, len, thread, cpu) = self;
        let gate = gate_named(gate)?;
        let flow = Flow {
            ports: *ports,
            addresses: *addresses,
        };
        let mut event = match who {
            Who::Packet => Event::of_packet(*ktime, gate, flow, *seq, *len),
            Who::Stream => Event::of_stream(*ktime, gate, flow, *seq),
            Who::Thread => Event::of_thread(*ktime, gate, *thread),
        }
        .by(*thread);
        event.cpu = *cpu;
        Some(event)
    }
}

/// The gate of this name.
pub(super) fn gate_named(name: &str) -> Option<Gate> {
    Gate::ALL.iter().copied().find(|gate| gate.name() == name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_cross_unchanged(
            ktime in any::<u64>(), gate in 0..Gate::ALL.len(), kind in 0..3,
            ports in any::<u32>(), addresses in any::<u32>(), seq in any::<u32>(), len in any::<u32>(),
            thread in any::<u32>(), cpu in any::<u16>(),
        ) {
            let (gate, flow) = (Gate::ALL[gate], Flow { ports, addresses });
            let mut event = match kind {
                0 => Event::of_packet(ktime, gate, flow, seq, len),
                1 => Event::of_stream(ktime, gate, flow, seq),
                _ => Event::of_thread(ktime, gate, thread),
            }
            .by(thread);
            event.cpu = cpu;
            let text = serde_json::to_string(&EventMessage::of(&event).unwrap()).unwrap();
            let read: EventMessage = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read.event(), Some(event));
        }
    }

    #[test]
    fn a_gate_that_is_not_known_is_no_event() {
        let text = r#"[1,"socket.sideways","p",0,0,0,0,0,0]"#;
        let read: EventMessage = serde_json::from_str(text).unwrap();
        assert_eq!(read.event(), None);
    }
}
