//! Two hosts in one thread: their stacks, the pool and the cable between them, and real time.

use std::net::SocketAddrV4;

use tollgate_link::Side;
use tollgate_link::atm::{Adapter, Atm, Cable, MemoryLine};
use tollgate_link::memory::{End, Memory};
use tollgate_stack::counters::Counters;
use tollgate_stack::link::{BURST, Link};
use tollgate_stack::{
    Active, ConnId, Error as Refusal, Instant, ListenerId, Pool, Received, Stack, State,
};

use super::PATH;
use crate::cell_faults::CellCounts;
use crate::clock::now_ns;
use crate::error::Error;
use crate::slice::{Look, PATIENCE, Spin};
use crate::spec::Spec;
use crate::stack_datagrams::Datagrams;
use crate::stack_gates::{Gates, Ungated};
use crate::stack_host::{self, BACKLOG, CLIENT, Calls, POOL, PORT, SERVER};

/// One end.
struct Host {
    stack: Stack,
    /// Its connection; stale before the first is open and after it is closed.
    conn: Option<ConnId>,
    /// Its UDP socket, where messages are datagrams.
    datagrams: Option<Datagrams>,
}

impl Host {
    #[inline(always)]
    fn conn(&self) -> Result<ConnId, Error> {
        self.conn.ok_or_else(never_opened)
    }

    #[inline]
    fn datagrams(&self) -> Result<Datagrams, Error> {
        self.datagrams.ok_or_else(never_opened)
    }
}

#[cold]
fn never_opened() -> Error {
    Error::Closed {
        path: PATH,
        doing: "using a connection that was never opened",
    }
}

/// A cable between two hosts of one thread.
pub(super) trait Between {
    /// One end of it, for as long as a stack needs it.
    type End<'a>: Link
    where
        Self: 'a;

    fn end(&mut self, side: Side) -> Self::End<'_>;

    /// Counts of both adapters, where frames become cells.
    fn cell_counts(&self) -> Option<CellCounts> {
        None
    }
}

impl Between for Memory {
    type End<'a> = End<'a>;

    #[inline(always)]
    fn end(&mut self, side: Side) -> End<'_> {
        self.end(side)
    }
}

impl Between for Cable {
    type End<'a> = Atm<&'a mut Adapter, MemoryLine<'a>>;

    fn end(&mut self, side: Side) -> Self::End<'_> {
        self.end(side)
    }

    fn cell_counts(&self) -> Option<CellCounts> {
        let [client, server] = [Side::A, Side::B].map(|side| CellCounts::of(self.adapter(side)));
        Some(client.plus(&server))
    }
}

/// The time that both stacks are told, and the words that their keys and sequence numbers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    /// The clock's own time; its words are nobody else's.
    Real,
    /// A fixed step for each reading, and fixed words: the same calls do the same in every process.
    Virtual,
}

impl Time {
    /// The time of a reading; `last` is that of the one before.
    #[inline(always)]
    fn next(self, last: Instant) -> Instant {
        Instant::from_nanos(match self {
            Self::Real => now_ns(),
            Self::Virtual => last.as_nanos() + STEP_NS,
        })
    }
}

/// The step of [`Time::Virtual`] in nanoseconds: about a short round trip's time.
const STEP_NS: u64 = 500;
/// Turns without a byte after which both ends wait for a timer. What is under way arrives in two.
const IDLE_TURNS: u32 = 4;
/// The words of [`Time::Virtual`].
const SEED: [u64; 4] = [1, 2, 3, 4];

/// Both ends, side A being the client.
pub(super) struct Hosts<C = Memory> {
    time: Time,
    pool: Pool,
    client: Host,
    server: Host,
    cable: C,
    calls: Calls,
    listener: ListenerId,
    now: Instant,
}

/// Gives up when nothing has come through for as long as [`PATIENCE`] allows.
pub(super) struct Patience {
    spin: Spin,
    doing: &'static str,
}

impl Patience {
    /// One more turn without an end.
    #[inline]
    pub(super) fn turn(&mut self) -> Result<(), Error> {
        match self.spin.turn() {
            Look::Go | Look::Around => Ok(()),
            Look::Late => Err(Error::Timeout {
                path: PATH,
                doing: self.doing,
                seconds: PATIENCE.as_secs(),
            }),
        }
    }
}

impl Hosts {
    /// Hosts on a cable that hands whole frames over.
    ///
    /// # Errors
    /// Those of [`Hosts::on`], and [`Error::Unsupported`] for a link of cells.
    pub(super) fn new(spec: &Spec, mtu: usize, time: Time) -> Result<Self, Error> {
        if spec.link.aal().is_some() {
            return Err(Error::Unsupported {
                path: PATH,
                asked: format!("this measurement over the link {}", spec.link),
                has: "links of whole frames".to_owned(),
            });
        }
        Self::on(Memory::new(mtu), spec, mtu, time)
    }
}

impl<C: Between> Hosts<C> {
    pub(super) fn on(mut cable: C, spec: &Spec, mtu: usize, time: Time) -> Result<Self, Error> {
        let now = match time {
            Time::Real => Instant::from_nanos(now_ns()),
            Time::Virtual => Instant::from_nanos(STEP_NS),
        };
        let mut stack = |host, side| {
            let link = &mut cable.end(side);
            match time {
                Time::Real => stack_host::stack(PATH, spec, host, link, now),
                Time::Virtual => stack_host::seeded_stack(PATH, spec, host, link, now, SEED),
            }
        };
        let mut pool = Pool::new(POOL, Pool::frame_size_for(mtu));
        let (client, mut server) = (stack(CLIENT, Side::A)?, stack(SERVER, Side::B)?);
        let listener = server
            .at(now, &mut pool)
            .listen(PORT, BACKLOG)
            .map_err(|error| Error::stack(PATH, "listening", error))?;
        let host = |stack| Host {
            stack,
            conn: None,
            datagrams: None,
        };
        Ok(Self {
            time,
            pool,
            client: host(client),
            server: host(server),
            cable,
            calls: Calls::of(spec),
            listener,
            now,
        })
    }

    /// Makers and verifiers of checksums, at the client, in words.
    pub(super) fn checksums(&self, spec: &Spec) -> String {
        stack_host::checksums(spec, &self.client.stack, self.client.conn)
    }

    /// Counts of both adapters of its cable.
    pub(super) fn cell_counts(&self) -> Option<CellCounts> {
        self.cable.cell_counts()
    }

    /// Reads the clock for the calls that follow.
    #[inline(always)]
    pub(super) fn read_clock(&mut self) {
        self.now = self.time.next(self.now);
    }

    /// The time that both stacks are told, in nanoseconds.
    #[cfg(test)]
    pub(super) fn elapsed_ns(&self) -> u64 {
        self.now.as_nanos()
    }

    /// Moves virtual time on to what is due next: nobody counts the turns of two ends that wait for each other's timers.
    fn skip_waiting(&mut self) {
        if self.time == Time::Virtual {
            let deadlines =
                [&self.client, &self.server].map(|one| one.stack.next_deadline(self.now));
            if let Some(next) = deadlines.into_iter().flatten().min() {
                self.now = self.now.max(next);
            }
        }
    }

    pub(super) const fn patience(&self, doing: &'static str) -> Patience {
        Patience {
            spin: Spin::new(64),
            doing,
        }
    }

    #[inline(always)]
    fn client(&mut self) -> Active<'_> {
        self.client.stack.at(self.now, &mut self.pool)
    }

    #[inline(always)]
    fn server(&mut self) -> Active<'_> {
        self.server.stack.at(self.now, &mut self.pool)
    }

    /// Lets one end send and take in what there is.
    #[inline(always)]
    pub(super) fn poll(&mut self, side: Side) {
        let stack = match side {
            Side::A => &mut self.client.stack,
            Side::B => &mut self.server.stack,
        };
        stack
            .at(self.now, &mut self.pool)
            .poll(&mut self.cable.end(side));
    }

    /// Delayed ACKs have come due since the last slice; sent now, before the other end looks at its timers, they prevent
    /// retransmissions that only the pause caused.
    pub(super) fn catch_up(&mut self) {
        self.read_clock();
        for side in [Side::A, Side::B, Side::A] {
            self.poll(side);
        }
    }

    /// Carries a message from one end to the other: sent, polled, received into the reader's posted buffer.
    #[inline(always)]
    pub(super) fn carry<G: Gates>(
        &mut self,
        from: Side,
        message: &[u8],
        into: &mut [u8],
        gates: &mut G,
    ) -> Result<(), Error> {
        if G::FREQUENT {
            self.carry_here(from, message, into, gates)
        } else {
            self.carry_there(from, message, into, gates)
        }
    }

    #[inline(never)]
    fn carry_there<G: Gates>(
        &mut self,
        from: Side,
        message: &[u8],
        into: &mut [u8],
        gates: &mut G,
    ) -> Result<(), Error> {
        self.carry_here(from, message, into, gates)
    }

    #[inline(always)]
    fn carry_here<G: Gates>(
        &mut self,
        from: Side,
        message: &[u8],
        into: &mut [u8],
        gates: &mut G,
    ) -> Result<(), Error> {
        let (to, calls) = (from.other(), self.calls);
        let (tx, rx) = match from {
            Side::A => (&mut self.client, &mut self.server),
            Side::B => (&mut self.server, &mut self.client),
        };
        let (sender, receiver) = (tx.conn()?, rx.conn()?);
        let mut active = tx.stack.recorded(self.now, &mut self.pool, gates.at(from));
        let sent = taken(calls.send(&mut active, sender, message))?;
        active.flush(&mut self.cable.end(from));
        drop(active);
        let mut active = rx.stack.recorded(self.now, &mut self.pool, gates.at(to));
        let got = calls.poll_receive(&mut active, &mut self.cable.end(to), receiver, into);
        let got = received(got)?;
        drop(active);
        if got > 0 {
            gates.returned(to);
        }
        if got == into.len() {
            return Ok(());
        }
        self.carry_on(from, &message[sent..], &mut into[got..], gates)
    }

    /// The rest of a message that did not go through at once: windows fill, addresses are resolved.
    #[inline(never)]
    fn carry_on<G: Gates>(
        &mut self,
        from: Side,
        mut message: &[u8],
        into: &mut [u8],
        gates: &mut G,
    ) -> Result<(), Error> {
        let (to, calls) = (from.other(), self.calls);
        let mut got = 0;
        let mut idle = 0;
        let mut patience = self.patience("carrying a message");
        while got < into.len() {
            patience.turn()?;
            self.read_clock();
            if idle == IDLE_TURNS {
                self.skip_waiting();
                idle = 0;
            }
            let (tx, rx) = match from {
                Side::A => (&mut self.client, &mut self.server),
                Side::B => (&mut self.server, &mut self.client),
            };
            let (sender, receiver) = (tx.conn()?, rx.conn()?);
            let mut active = tx.stack.recorded(self.now, &mut self.pool, gates.at(from));
            active.poll(&mut self.cable.end(from));
            if !message.is_empty() {
                let sent = taken(calls.send(&mut active, sender, message))?;
                message = &message[sent..];
                active.poll(&mut self.cable.end(from));
            }
            drop(active);
            let mut active = rx.stack.recorded(self.now, &mut self.pool, gates.at(to));
            let into = &mut into[got..];
            let more = calls.poll_receive(&mut active, &mut self.cable.end(to), receiver, into);
            let more = received(more)?;
            drop(active);
            idle += 1;
            if more > 0 {
                gates.returned(to);
                got += more;
                idle = 0;
                patience = self.patience("carrying a message");
            }
        }
        Ok(())
    }

    /// Opens a UDP socket at each end.
    pub(super) fn open_datagrams(&mut self, spec: &Spec) -> Result<(), Error> {
        let (client, server) = (stack_host::client_address(), stack_host::server_address());
        let open = |active: &mut Active<'_>, from: SocketAddrV4, to: SocketAddrV4| {
            Datagrams::open(PATH, spec, active, from.port(), to.into())
        };
        self.client.datagrams = Some(open(&mut self.client(), client, server)?);
        self.server.datagrams = Some(open(&mut self.server(), server, client)?);
        Ok(())
    }

    /// Carries a datagram from one end to the other: sent, polled, copied into the reader's buffer.
    #[inline]
    pub(super) fn carry_datagram<G: Gates>(
        &mut self,
        from: Side,
        message: &[u8],
        into: &mut [u8],
        gates: &mut G,
    ) -> Result<(), Error> {
        let to = from.other();
        let (tx, rx) = match from {
            Side::A => (&mut self.client, &mut self.server),
            Side::B => (&mut self.server, &mut self.client),
        };
        let (sender, receiver) = (tx.datagrams()?, rx.datagrams()?);
        let mut patience = Patience {
            spin: Spin::new(64),
            doing: "carrying a datagram",
        };
        let mut sent = false;
        loop {
            let mut active = tx.stack.recorded(self.now, &mut self.pool, gates.at(from));
            sent = sent || sender.send(PATH, &mut active, message)?;
            active.flush(&mut self.cable.end(from));
            drop(active);
            let mut active = rx.stack.recorded(self.now, &mut self.pool, gates.at(to));
            let received =
                receiver.poll_receive(PATH, &mut active, &mut self.cable.end(to), into)?;
            drop(active);
            if received {
                gates.returned(to);
                return Ok(());
            }
            patience.turn()?;
            self.now = self.time.next(self.now);
            let mut active = tx.stack.at(self.now, &mut self.pool);
            active.poll(&mut self.cable.end(from));
        }
    }

    /// Connects the client: SYN there, SYN and ACK back, ACK into the cable.
    pub(super) fn connect(&mut self) -> Result<(), Error> {
        let conn = self
            .client()
            .connect(stack_host::server_address())
            .map_err(|error| Error::stack(PATH, "connecting", error))?;
        self.client.conn = Some(conn);
        self.poll(Side::A);
        self.poll(Side::B);
        self.poll(Side::A);
        let mut patience = self.patience("connecting");
        while self.client().state(conn) != State::Established {
            patience.turn()?;
            self.read_clock();
            self.poll(Side::B);
            self.poll(Side::A);
        }
        Ok(())
    }

    /// Takes the connection at the server, when its handshake is complete.
    pub(super) fn accept(&mut self) -> Result<(), Error> {
        let mut patience = self.patience("accepting");
        loop {
            self.poll(Side::B);
            if self.accepted()? {
                return Ok(());
            }
            patience.turn()?;
            self.read_clock();
            self.poll(Side::A);
        }
    }

    fn accepted(&mut self) -> Result<bool, Error> {
        let listener = self.listener;
        match self.server().accept(listener) {
            Ok(conn) => {
                self.server.conn = Some(conn);
                Ok(true)
            }
            Err(Refusal::WouldBlock) => Ok(false),
            Err(error) => Err(Error::stack(PATH, "accepting", error)),
        }
    }

    /// The first message of a connection that the server has not accepted yet: the ACK of its SYN comes with it.
    pub(super) fn first_request(&mut self, message: &[u8], into: &mut [u8]) -> Result<(), Error> {
        let conn = self.client.conn()?;
        let calls = self.calls;
        let sent = taken(calls.send(&mut self.client(), conn, message))?;
        self.poll(Side::A);
        self.accept()?;
        let conn = self.server.conn()?;
        let got = received(self.server().receive(conn, into))?;
        if got == into.len() {
            return Ok(());
        }
        self.carry_on(Side::A, &message[sent..], &mut into[got..], &mut Ungated)
    }

    /// Closes from the client: FIN there, FIN and ACK back, ACK there. The near end keeps the TIME-WAIT.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        let (client, server) = (self.client.conn()?, self.server.conn()?);
        let closed = |result: Result<(), Refusal>| {
            result.map_err(|error| Error::stack(PATH, "closing", error))
        };
        closed(self.client().close(client))?;
        self.poll(Side::A);
        let mut patience = self.patience("closing");
        loop {
            self.poll(Side::B);
            match self.server().receive(server, &mut [0]) {
                Ok(Received::End) => break,
                Ok(Received::Nothing) => {}
                Ok(Received::Data(_)) => {
                    return Err(Error::stack(PATH, "closing", "bytes came that nobody sent"));
                }
                Err(error) => return Err(Error::stack(PATH, "closing", error)),
            }
            patience.turn()?;
            self.read_clock();
            self.poll(Side::A);
        }
        closed(self.server().close(server))?;
        loop {
            self.poll(Side::B);
            self.poll(Side::A);
            self.poll(Side::B);
            if self.client.stack.connections() + self.server.stack.connections() == 0 {
                break;
            }
            patience.turn()?;
            self.read_clock();
        }
        while self.client().next_event().is_some() {}
        while self.server().next_event().is_some() {}
        Ok(())
    }

    /// Writes what the client's send buffer takes of `data` and gives how much that was.
    #[inline]
    pub(super) fn offer(&mut self, data: &[u8]) -> Result<usize, Error> {
        let conn = self.client.conn()?;
        let calls = self.calls;
        taken(calls.send(&mut self.client(), conn, data))
    }

    /// Tells whether the client's device queue holds a burst.
    #[inline]
    pub(super) fn burst_has_gathered(&self) -> bool {
        self.client.stack.device_queue_len() >= BURST
    }

    /// Reads what has arrived at the server, at most as much as `buffer` holds.
    #[inline]
    pub(super) fn take(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let conn = self.server.conn()?;
        let mut active = self.server.stack.at(self.now, &mut self.pool);
        let link = &mut self.cable.end(Side::B);
        received(self.calls.poll_receive(&mut active, link, conn, buffer))
    }

    /// Switches Nagle's algorithm at the client.
    pub(super) fn set_nagle(&mut self, on: bool) -> Result<(), Error> {
        let conn = self.client.conn()?;
        stack_host::set_nagle(PATH, &mut self.client(), conn, on)
    }

    /// Connections in TIME-WAIT at the client.
    #[cfg(test)]
    pub(super) fn time_waits(&self) -> usize {
        self.client.stack.time_waits()
    }

    /// The counters of the two stacks, the client end's first.
    pub(super) fn counters(&self) -> [&Counters; 2] {
        [self.client.stack.counters(), self.server.stack.counters()]
    }
}

/// Bytes that a send took; 0 is no error.
#[inline(always)]
fn taken(result: Result<usize, Refusal>) -> Result<usize, Error> {
    match result {
        Ok(count) => Ok(count),
        Err(Refusal::WouldBlock) => Ok(0),
        Err(error) => Err(Error::stack(PATH, "sending", error)),
    }
}

/// Bytes that a read gave; 0 is no error, the end of the stream is.
#[inline(always)]
fn received(result: Result<Received, Refusal>) -> Result<usize, Error> {
    match result {
        Ok(Received::Data(count)) => Ok(count),
        Ok(Received::Nothing) => Ok(0),
        Ok(Received::End) => Err(Error::Closed {
            path: PATH,
            doing: "receiving",
        }),
        Err(error) => Err(Error::stack(PATH, "receiving", error)),
    }
}
