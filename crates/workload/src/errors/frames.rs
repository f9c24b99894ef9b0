//! Frames as Tollgate's stack makes them: one end writes payloads of each kind, and what it gives to its link is kept.

use super::random::Random;
use crate::error::Error;
use crate::spec::Spec;
use crate::stack_host::{self, BACKLOG, CLIENT, POOL, PORT, SERVER};
use std::net::SocketAddrV4;
use tollgate_link::atm::MTU;
use tollgate_run::{PathId, Workload, names};
use tollgate_stack::buffer::{Frame, Pool};
use tollgate_stack::config::Mechanisms;
use tollgate_stack::{Active, ConnId, Instant, Link, ListenerId, Received, Stack};
use tollgate_wire::ethernet;

/// Messages of each kind and size.
const EACH: usize = 16;

/// Bytes of a message: two that fit into a cell or few, and two of many cells.
pub(super) const SIZES: [usize; 4] = [16, 200, 1_400, 8_000];

/// Between two steps of the stacks: longer than an acknowledgment is delayed, shorter than a retransmission takes.
const STEP_NS: u64 = 50_000_000;

/// Times that both ends are polled, at most, until a connection is open: some seconds, for addresses may have to be asked for twice.
const ANSWERS: usize = 64;

/// The kind of bytes that a frame carries. The Internet checksum knows bytes by their sum only, so it depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Payload {
    /// Uniform and independent.
    Random,
    /// Nothing but zeros.
    Zeros,
    /// English words in lines.
    Text,
}

names!(Payload, "payload", Random => "random", Zeros => "zeros", Text => "text");

/// Words of the text.
const WORDS: [&str; 24] = [
    "the",
    "of",
    "and",
    "segment",
    "to",
    "in",
    "is",
    "checksum",
    "that",
    "for",
    "acknowledgment",
    "it",
    "as",
    "was",
    "with",
    "window",
    "be",
    "by",
    "on",
    "not",
    "sequence",
    "this",
    "are",
    "header",
];

impl Payload {
    /// `len` bytes of this kind.
    #[must_use]
    pub fn bytes(self, len: usize, seed: u64) -> Vec<u8> {
        let mut random = Random::new(seed);
        match self {
            Self::Random => (0..len).map(|_| random.next() as u8).collect(),
            Self::Zeros => vec![0; len],
            Self::Text => {
                let mut text = Vec::with_capacity(len + 16);
                while text.len() < len {
                    text.extend_from_slice(WORDS[random.below(WORDS.len())].as_bytes());
                    text.push(if random.below(12) == 0 { b'\n' } else { b' ' });
                }
                text.truncate(len);
                text
            }
        }
    }
}

/// Two stacks with a connection between them, and the hand that carries their frames.
pub(super) struct Pair {
    pub(super) pool: Pool,
    client: Stack,
    server: Stack,
    listener: ListenerId,
    conns: Option<(ConnId, ConnId)>,
    now: Instant,
    wire: Hand,
}

/// A link that keeps what is sent until somebody takes it, and gives what is put there.
#[derive(Default)]
struct Hand {
    sent: Vec<Frame>,
    arrives: Vec<Frame>,
}

impl Link for Hand {
    fn mtu(&self) -> usize {
        MTU
    }

    fn transmit(&mut self, _pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.sent.append(frames);
    }

    fn receive(&mut self, _pool: &mut Pool, frames: &mut Vec<Frame>) {
        frames.append(&mut self.arrives);
    }
}

/// The path whose errors are told: the stacks are those of `stack-memory`.
const PATH: PathId = PathId::StackMemory;

impl Pair {
    /// Two stacks with these mechanisms, whose ports and sequence numbers follow from `seed`.
    pub(super) fn new(mechanisms: Mechanisms, seed: u64) -> Result<Self, Error> {
        let now = Instant::from_nanos(1 << 40);
        let spec = Spec::new(Workload::Rr, 1).with_mechanisms(mechanisms);
        let mut pool = Pool::new(POOL, Pool::frame_size_for(MTU));
        // Errors are put into frames here, behind every check but the stack's.
        let mut wire = Hand::default();
        let mut stack = |host: u8| {
            let words = [seed, u64::from(host), 0, 0];
            stack_host::seeded_stack(PATH, &spec, host, &mut wire, now, words)
        };
        let client = stack(CLIENT)?;
        let mut server = stack(SERVER)?;
        let listener = server
            .at(now, &mut pool)
            .listen(PORT, BACKLOG)
            .map_err(|error| Error::stack(PATH, "listening", error))?;
        let mut pair = Self {
            pool,
            client,
            server,
            listener,
            conns: None,
            now,
            wire,
        };
        pair.connect()?;
        Ok(pair)
    }

    fn client(&mut self) -> Active<'_> {
        self.client.at(self.now, &mut self.pool)
    }

    fn server(&mut self) -> Active<'_> {
        self.server.at(self.now, &mut self.pool)
    }

    /// Gives up a connection that is there, and opens another.
    pub(super) fn connect(&mut self) -> Result<(), Error> {
        if let Some((client, server)) = self.conns.take() {
            // One that is gone already cannot be given up.
            let _ = self.client().abort(client);
            let _ = self.server().abort(server);
        }
        self.settle();
        while self.client().next_event().is_some() {}
        while self.server().next_event().is_some() {}
        let to: SocketAddrV4 = stack_host::server_address();
        let refused = |error| Error::stack(PATH, "connecting", error);
        let client = self.client().connect(to).map_err(refused)?;
        for _ in 0..ANSWERS {
            self.settle();
            let listener = self.listener;
            if let Ok(server) = self.server().accept(listener) {
                self.conns = Some((client, server));
                return Ok(());
            }
        }
        Err(Error::Timeout {
            path: PATH,
            doing: "connecting",
            seconds: 0,
        })
    }

    /// Carries what both have to say for a while, time passing.
    pub(super) fn settle(&mut self) {
        for _ in 0..3 {
            self.now = Instant::from_nanos(self.now.as_nanos() + STEP_NS);
            let frames = self.poll_client(Vec::new());
            let frames = self.poll_server(frames);
            let frames = self.poll_client(frames);
            let frames = self.poll_server(frames);
            for frame in frames {
                self.pool.release(frame.id);
            }
        }
    }

    /// Gives frames to the client and takes what it sends.
    fn poll_client(&mut self, frames: Vec<Frame>) -> Vec<Frame> {
        self.wire.arrives = frames;
        self.client
            .at(self.now, &mut self.pool)
            .poll(&mut self.wire);
        std::mem::take(&mut self.wire.sent)
    }

    fn poll_server(&mut self, frames: Vec<Frame>) -> Vec<Frame> {
        self.wire.arrives = frames;
        self.server
            .at(self.now, &mut self.pool)
            .poll(&mut self.wire);
        std::mem::take(&mut self.wire.sent)
    }

    /// The frame that carries `message` from client to server, which is not given to it; `None` where the connection is not what
    /// it was.
    pub(super) fn frame(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let (client, _) = self.conns?;
        if self.client().send(client, message) != Ok(message.len()) {
            return None;
        }
        let frames = self.poll_client(Vec::new());
        if let [frame] = frames.as_slice()
            && self.pool.frame(frame).ends_with(message)
        {
            let bytes = self.pool.frame(frame).to_vec();
            for frame in frames {
                self.pool.release(frame.id);
            }
            return Some(bytes);
        }
        // A question for a link address, as a rule, which must be answered.
        for frame in self.poll_server(frames) {
            self.pool.release(frame.id);
        }
        None
    }

    /// Gives a frame to the server; what its application reads then, and acknowledgments go back. `None` where the connection is
    /// gone.
    pub(super) fn deliver(&mut self, bytes: &[u8], buffer: &mut [u8]) -> Option<usize> {
        let (_, server) = self.conns?;
        self.now = Instant::from_nanos(self.now.as_nanos() + STEP_NS);
        let frame = self.pool.frame_from(bytes).ok()?;
        self.wire.arrives = vec![frame];
        let mut active = self.server.at(self.now, &mut self.pool);
        let mut read = 0;
        loop {
            match active.poll_receive(&mut self.wire, server, &mut buffer[read..]) {
                Ok(Received::Data(count)) if count > 0 => read += count,
                Ok(Received::Nothing | Received::Data(_)) => break,
                Ok(Received::End) | Err(_) => return None,
            }
        }
        let frames = std::mem::take(&mut self.wire.sent);
        let more = self.poll_client(frames);
        for frame in more {
            self.pool.release(frame.id);
        }
        Some(read)
    }
}

/// Packets of each kind of payload and each size, in the order in which they were sent.
#[derive(Debug, Clone)]
pub struct Frames {
    /// IP packets by payload and size.
    packets: Vec<Vec<Vec<u8>>>,
}

impl Frames {
    /// Makes them, by a connection between two stacks; all of it follows from `seed`.
    ///
    /// # Errors
    /// Those of the stacks.
    pub fn make(seed: u64) -> Result<Self, Error> {
        let mut pair = Pair::new(Mechanisms::DEFAULT, seed)?;
        let mut packets = Vec::new();
        let mut buffer = vec![0; MTU];
        for &payload in Payload::ALL {
            for size in SIZES {
                let mut kept = Vec::new();
                for number in 0..EACH {
                    let message = payload.bytes(size, seed ^ (size * EACH + number) as u64);
                    let lost = || Error::stack(PATH, "making frames", "a message made no frame");
                    let mut frame = pair.frame(&message).ok_or_else(lost)?;
                    pair.deliver(&frame, &mut buffer);
                    pair.settle();
                    kept.push(frame.split_off(ethernet::HEADER_LEN));
                }
                packets.push(kept);
            }
        }
        Ok(Self { packets })
    }

    /// Two packets that were sent one after the other, with a payload of this kind.
    pub(super) fn two(&self, payload: Payload, random: &mut Random) -> (&[u8], &[u8]) {
        let kind = Payload::ALL
            .iter()
            .position(|known| *known == payload)
            .unwrap_or(0);
        let of_size = &self.packets[kind * SIZES.len() + random.below(SIZES.len())];
        let at = random.below(EACH - 1);
        (&of_size[at], &of_size[at + 1])
    }
}
