//! One end of a path over any link that can be waited for: a stack with its pool and its end of the link, and how it waits.
//!
//! It owns what an application does with its stack. It never knows who is at the other end of the link.

mod client;
mod datagrams;

use std::net::SocketAddr;
use std::time::Duration;

use tollgate_link::{
    InterfaceConfig, Side, WaitMode, WaitOutcome, Waitable, Waiter, has_addresses,
};
use tollgate_run::{Mode, PathId, Placement, Waiting};
use tollgate_stack::link::BURST;
use tollgate_stack::{
    Active, ConnId, Error as Refusal, Instant, ListenerId, Pool, Received, Stack, State,
};

use crate::clock::now_ns;
use crate::error::Error;
use crate::input::InputCounts;
use crate::slice::{Look, PATIENCE, Spin};
use crate::spec::Spec;
use crate::stack_datagrams::Datagrams;
use crate::stack_gates::{Gates, Ungated};
use crate::stack_host::{self, BACKLOG, Calls, PORT};

pub(crate) use client::{Client, Peer};

/// Calls of the stack between two readings of the clock while busy polling: some hundred nanoseconds, against timers that
/// count in milliseconds.
const CALLS_PER_READING: u32 = 32;
/// Bytes of the IP and TCP headers with the timestamp option, over IPv4.
const HEADERS: usize = 20 + 20 + 12;
/// Bytes of these over IPv6.
const HEADERS_V6: usize = 40 + 20 + 12;
/// Bytes of the largest IP packet.
const LARGEST: usize = u16::MAX as usize;
/// Turns of the polling loop between two looks at the other end.
const TURNS: u32 = 1 << 16;
/// The side that gates know it by.
const SIDE: Side = Side::A;
/// The longest sleep before an end looks whether the other still lives.
const NAP: Duration = Duration::from_millis(50);

/// Modes in which such an end runs. Polling on one core, both ends would fight for it.
pub(crate) const MODES: [Mode; 3] = [
    Mode {
        placement: Placement::TwoCores,
        waiting: Waiting::BusyPoll,
    },
    Mode {
        placement: Placement::TwoCores,
        waiting: Waiting::Blocking,
    },
    Mode {
        placement: Placement::OneCore,
        waiting: Waiting::Blocking,
    },
];

/// One end.
pub(crate) struct End<L> {
    path: PathId,
    stack: Stack,
    pool: Pool,
    link: L,
    conn: Option<ConnId>,
    datagrams: Option<Datagrams>,
    calls: Calls,
    waiter: Waiter,
    nagle: bool,
    /// Bytes of a full segment.
    segment: usize,
    /// The end of a stream so far that fills no segment, where segments leave together ([`End::stream`]).
    tail: Vec<u8>,
    now: Instant,
    /// Calls until the clock is read again.
    calls_left: u32,
}

/// Waits for one thing to happen; see [`End::wait`].
pub(crate) struct Wait {
    spin: Spin,
    patience: Duration,
    slept: Duration,
    /// The sleep after which it looks whether the other end still lives.
    look_at: Duration,
    doing: &'static str,
}

impl Wait {
    pub(crate) const fn new(doing: &'static str) -> Self {
        Self::within(PATIENCE, doing)
    }

    pub(crate) const fn within(patience: Duration, doing: &'static str) -> Self {
        Self {
            spin: Spin::within(TURNS, patience),
            patience,
            slept: Duration::ZERO,
            look_at: NAP,
            doing,
        }
    }

    #[cold]
    fn late(&self, path: PathId) -> Error {
        Error::Timeout {
            path,
            doing: self.doing,
            seconds: self.patience.as_secs(),
        }
    }
}

#[cold]
fn never_opened(path: PathId) -> Error {
    Error::Closed {
        path,
        doing: "using a connection that was never opened",
    }
}

impl<L: Waitable> End<L> {
    /// The stack of `host` on its side of a link for IP packets of at most `mtu` bytes, with the pool whose frames the link moves.
    pub(crate) fn new(
        path: PathId,
        spec: &Spec,
        (mut link, pool): (L, Pool),
        mtu: usize,
        host: u8,
    ) -> Result<Self, Error> {
        let now = Instant::from_nanos(now_ns());
        let stack = stack_host::stack(path, spec, host, &mut link, now)?;
        Ok(Self::of(path, spec, stack, (link, pool), mtu, now))
    }

    /// A stack at a place beside the kernel of this host, once its addresses are its own. One that has IPv6 there speaks it alone.
    ///
    /// # Errors
    /// [`Error::Stack`] for an address that a neighbour has.
    pub(crate) fn beside(
        path: PathId,
        spec: &Spec,
        (mut link, pool): (L, Pool),
        mtu: usize,
        place: InterfaceConfig,
    ) -> Result<Self, Error> {
        let now = Instant::from_nanos(now_ns());
        let stack = stack_host::stack_beside(path, spec, place, &mut link, now)?;
        let mut end = Self::of(path, spec, stack, (link, pool), mtu, now);
        if place.ipv6.is_some() {
            end.segment = mtu.saturating_sub(HEADERS_V6).max(1);
        }
        let mut wait = Wait::new("trying its addresses for duplicates");
        let taken = |error| Error::stack(path, "trying its addresses for duplicates", error);
        while !has_addresses(&end.stack).map_err(taken)? {
            end.wait(&mut wait, &mut || Ok(()))?;
            end.poll();
        }
        Ok(end)
    }

    fn of(
        path: PathId,
        spec: &Spec,
        stack: Stack,
        (link, pool): (L, Pool),
        mtu: usize,
        now: Instant,
    ) -> Self {
        Self {
            path,
            stack,
            pool,
            link,
            conn: None,
            datagrams: None,
            calls: Calls::of(spec),
            waiter: Waiter::new(match spec.waiting {
                Waiting::Blocking => WaitMode::Block,
                Waiting::BusyPoll => WaitMode::Poll,
            }),
            nagle: spec.nagle(),
            segment: mtu.saturating_sub(HEADERS).max(1),
            tail: Vec::new(),
            now,
            calls_left: CALLS_PER_READING,
        }
    }

    /// Bytes of a full segment.
    pub(crate) const fn segment(&self) -> usize {
        self.segment
    }

    /// Bytes of a full segment of the connection, as the stack cuts them.
    #[cfg(test)]
    pub(crate) fn mss(&mut self) -> usize {
        let conn = self.conn.unwrap();
        self.active().mss(conn).unwrap()
    }

    /// Tells whether a message of this size travels in one segment.
    pub(crate) const fn is_one_segment(&self, size: usize) -> bool {
        size > 0 && size <= self.segment
    }

    /// The segments that this end's stack has taken in.
    pub(crate) fn input_counts(&self) -> InputCounts {
        InputCounts::of(self.stack.counters())
    }

    /// Makers and verifiers of this end's checksums, in words; its mechanisms are those of `spec`.
    pub(crate) fn checksums(&self, spec: &Spec) -> String {
        stack_host::checksums(spec, &self.stack, self.conn)
    }

    #[inline(always)]
    fn active(&mut self) -> Active<'_> {
        self.stack.at(self.now, &mut self.pool)
    }

    #[inline(always)]
    fn read_clock(&mut self) {
        self.now = Instant::from_nanos(now_ns());
        self.calls_left = CALLS_PER_READING;
    }

    /// Counts a call of the stack; the clock is read when it is time.
    #[inline(always)]
    fn tick(&mut self) {
        self.calls_left -= 1;
        if self.calls_left == 0 {
            self.read_clock();
        }
    }

    /// Lets the stack send and take in what there is, at the present time.
    pub(crate) fn poll(&mut self) {
        self.read_clock();
        self.stack.at(self.now, &mut self.pool).poll(&mut self.link);
    }

    /// Waits a turn, for frames to arrive or a timer to run out. `around` is asked now and then whether to go on.
    #[inline(always)]
    pub(crate) fn wait(
        &mut self,
        wait: &mut Wait,
        around: &mut impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !self.waiter.looks_again(self.now) {
            return self.sleep(wait, around);
        }
        std::hint::spin_loop();
        match wait.spin.turn() {
            Look::Go => Ok(()),
            Look::Around if self.link.is_gone() => Err(self.gone(wait)),
            Look::Around => around(),
            Look::Late => Err(wait.late(self.path)),
        }
    }

    #[inline(never)]
    fn sleep(
        &mut self,
        wait: &mut Wait,
        around: &mut impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let due = self.stack.next_deadline(self.now);
        let outcome = self.waiter.sleep(&self.link, due, self.now, NAP);
        let before = self.now;
        self.read_clock();
        // A link may be ready again and again, and nothing comes of it.
        wait.slept += Duration::from_nanos(self.now.nanos_since(before));
        match outcome {
            WaitOutcome::PeerGone => {
                around()?;
                Err(self.gone(wait))
            }
            WaitOutcome::Ready | WaitOutcome::TimedOut if wait.slept >= wait.patience => {
                Err(wait.late(self.path))
            }
            WaitOutcome::Ready | WaitOutcome::TimedOut if wait.slept < wait.look_at => Ok(()),
            WaitOutcome::Ready | WaitOutcome::TimedOut => {
                wait.look_at = wait.slept + NAP;
                around()
            }
        }
    }

    #[cold]
    fn gone(&self, wait: &Wait) -> Error {
        Error::Closed {
            path: self.path,
            doing: wait.doing,
        }
    }

    #[inline(always)]
    fn conn(&self) -> Result<ConnId, Error> {
        self.conn.ok_or_else(|| never_opened(self.path))
    }

    pub(crate) fn listen(&mut self) -> Result<ListenerId, Error> {
        self.active()
            .listen(PORT, BACKLOG)
            .map_err(|error| Error::stack(self.path, "listening", error))
    }

    /// Connects and waits until the connection is established.
    pub(crate) fn connect(
        &mut self,
        to: SocketAddr,
        mut around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.read_clock();
        let path = self.path;
        let conn = self
            .active()
            .connect(to)
            .map_err(|error| Error::stack(path, "connecting", error))?;
        self.conn = Some(conn);
        let mut wait = Wait::new("connecting");
        loop {
            self.tick();
            self.stack.at(self.now, &mut self.pool).poll(&mut self.link);
            match self.stack.at(self.now, &mut self.pool).state(conn) {
                State::Established => return Ok(()),
                State::Closed => {
                    return Err(Error::Closed {
                        path: self.path,
                        doing: "connecting",
                    });
                }
                _ => self.wait(&mut wait, &mut around)?,
            }
        }
    }

    /// Waits for a connection.
    pub(crate) fn accept(
        &mut self,
        listener: ListenerId,
        mut around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut wait = Wait::new("waiting for a connection");
        loop {
            self.tick();
            self.stack.at(self.now, &mut self.pool).poll(&mut self.link);
            match self.active().accept(listener) {
                Ok(conn) => {
                    self.conn = Some(conn);
                    return Ok(());
                }
                Err(Refusal::WouldBlock) => self.wait(&mut wait, &mut around)?,
                Err(error) => return Err(Error::stack(self.path, "accepting", error)),
            }
        }
    }

    /// Queues the whole of `message`; the last of it leaves with the next call that polls.
    #[inline(always)]
    pub(crate) fn send(
        &mut self,
        message: &[u8],
        around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.send_past(&mut Ungated, message, around)
    }

    /// [`send`](Self::send) past gates. They see a message of one segment that goes at once.
    #[inline(always)]
    pub(crate) fn send_past(
        &mut self,
        gates: &mut impl Gates,
        message: &[u8],
        around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let conn = self.conn()?;
        if message.len() > self.segment && !self.link.gathers() {
            return self.send_chunks(conn, message, around);
        }
        let calls = self.calls;
        let recorder = gates.at(SIDE);
        let mut active = self.stack.recorded(self.now, &mut self.pool, recorder);
        let sent = calls.send(&mut active, conn, message);
        drop(active);
        match sent {
            Ok(taken) if taken == message.len() => Ok(()),
            Ok(taken) => self.send_rest(conn, &message[taken..], around),
            Err(Refusal::WouldBlock) => self.send_rest(conn, message, around),
            Err(error) => Err(Error::stack(self.path, "sending", error)),
        }
    }

    /// Sends a message of several segments piece by piece, so that the other end takes in the first while this one copies
    /// the next.
    #[inline(never)]
    fn send_chunks(
        &mut self,
        conn: ConnId,
        message: &[u8],
        around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut sent = 0;
        for piece in message.chunks(self.segment) {
            let calls = self.calls;
            match calls.send(&mut self.active(), conn, piece) {
                Ok(taken) if taken == piece.len() => sent += taken,
                Ok(taken) => {
                    sent += taken;
                    break;
                }
                Err(Refusal::WouldBlock) => break,
                Err(error) => return Err(Error::stack(self.path, "sending", error)),
            }
            self.tick();
            self.stack.at(self.now, &mut self.pool).poll(&mut self.link);
        }
        self.send_rest(conn, &message[sent..], around)
    }

    #[inline(never)]
    fn send_rest(
        &mut self,
        conn: ConnId,
        mut message: &[u8],
        mut around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut wait = Wait::new("sending");
        while !message.is_empty() {
            self.tick();
            self.stack.at(self.now, &mut self.pool).poll(&mut self.link);
            let calls = self.calls;
            match calls.send(&mut self.active(), conn, message) {
                Ok(taken) => {
                    message = &message[taken..];
                    wait = Wait::new("sending");
                }
                Err(Refusal::WouldBlock) => self.wait(&mut wait, &mut around)?,
                Err(error) => return Err(Error::stack(self.path, "sending", error)),
            }
        }
        Ok(())
    }

    /// Sends a part of a stream. Where segments leave together, the end that fills no segment waits for the next part, or for
    /// [`End::push`]: a short segment in the middle would end a train. Linux holds it back as well while others wait to leave
    /// (`tcp_should_autocork`).
    pub(crate) fn stream(
        &mut self,
        part: &[u8],
        mut around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !self.link.gathers() {
            self.send(part, &mut around)?;
            self.flush_bursts(BURST);
            return Ok(());
        }
        let mut left = part;
        if !self.tail.is_empty() {
            let (head, rest) = left.split_at(left.len().min(self.segment - self.tail.len()));
            self.tail.extend_from_slice(head);
            left = rest;
            if self.tail.len() == self.segment {
                self.send_tail(&mut around)?;
            }
        }
        let (full, tail) = left.split_at(left.len() - left.len() % self.segment);
        self.tail.extend_from_slice(tail);
        if !full.is_empty() {
            self.send(full, &mut around)?;
        }
        self.flush_bursts(((LARGEST - HEADERS) / self.segment).min(2 * BURST));
        Ok(())
    }

    /// Sends what waits for the next part of a stream.
    fn send_tail(&mut self, around: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
        if self.tail.is_empty() {
            return Ok(());
        }
        let mut tail = std::mem::take(&mut self.tail);
        let outcome = self.send(&tail, around);
        tail.clear();
        self.tail = tail;
        outcome
    }

    /// Polls when so many frames have gathered in the device queue.
    #[inline]
    fn flush_bursts(&mut self, burst: usize) {
        if self.stack.device_queue_len() >= burst {
            self.tick();
            self.stack.at(self.now, &mut self.pool).poll(&mut self.link);
        }
    }

    /// Fills `into` with what arrives, sending first what waits. The reader's buffer is posted.
    #[inline(always)]
    pub(crate) fn receive(
        &mut self,
        into: &mut [u8],
        around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.receive_past(&mut Ungated, into, around)
    }

    /// [`receive`](Self::receive) past gates.
    #[inline(always)]
    pub(crate) fn receive_past(
        &mut self,
        gates: &mut impl Gates,
        into: &mut [u8],
        mut around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut got = 0;
        let mut wait = Wait::new("receiving");
        while got < into.len() {
            let more = self.read_past(gates, &mut into[got..], &mut wait, &mut around)?;
            if more > 0 {
                wait = Wait::new("receiving");
            }
            got += more;
        }
        Ok(())
    }

    /// Reads what is there, at most as much as `into` holds; waits a turn and gives 0 when there is nothing.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        into: &mut [u8],
        wait: &mut Wait,
        around: &mut impl FnMut() -> Result<(), Error>,
    ) -> Result<usize, Error> {
        self.read_past(&mut Ungated, into, wait, around)
    }

    #[inline(always)]
    fn read_past(
        &mut self,
        gates: &mut impl Gates,
        into: &mut [u8],
        wait: &mut Wait,
        around: &mut impl FnMut() -> Result<(), Error>,
    ) -> Result<usize, Error> {
        let conn = self.conn()?;
        self.tick();
        let recorder = gates.at(SIDE);
        let mut active = self.stack.recorded(self.now, &mut self.pool, recorder);
        let received = self
            .calls
            .poll_receive(&mut active, &mut self.link, conn, into);
        drop(active);
        match received {
            Ok(Received::Data(count)) => {
                gates.returned(SIDE);
                Ok(count)
            }
            Ok(Received::Nothing) => {
                self.wait(wait, around)?;
                Ok(0)
            }
            Ok(Received::End) => Err(Error::Closed {
                path: self.path,
                doing: "receiving",
            }),
            Err(error) => Err(Error::stack(self.path, "receiving", error)),
        }
    }

    /// Waits until everything that was queued has left: Nagle's algorithm and full windows hold segments back, and between
    /// slices nobody polls.
    pub(crate) fn drain(
        &mut self,
        mut around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut wait = Wait::new("sending what is left");
        loop {
            self.poll();
            // A connection that is closed has nothing left.
            let info = self.conn.map(|conn| self.active().info(conn));
            let unsent = info.map_or(0, |info| info.map_or(0, |info| info.unsent));
            if unsent == 0 && self.stack.device_queue_len() == 0 && !self.link.is_sending() {
                return Ok(());
            }
            self.wait(&mut wait, &mut around)?;
        }
    }

    /// Waits until everything that was sent has been acknowledged.
    pub(crate) fn acknowledged(
        &mut self,
        mut around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let conn = self.conn()?;
        let path = self.path;
        let mut wait = Wait::new("waiting for acknowledgments");
        let mut left = u32::MAX;
        loop {
            self.poll();
            let info = self.active().info(conn);
            let info = info.map_err(|error| Error::stack(path, "sending", error))?;
            if info.state == State::Closed {
                return Err(Error::Closed {
                    path,
                    doing: "waiting for acknowledgments",
                });
            }
            let now = info.unsent + info.in_flight;
            if now == 0 {
                return Ok(());
            }
            if now != left {
                left = now;
                wait = Wait::new("waiting for acknowledgments");
            }
            self.wait(&mut wait, &mut around)?;
        }
    }

    /// Waits until the other end has closed its direction.
    pub(crate) fn receive_end(
        &mut self,
        mut around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let conn = self.conn()?;
        let mut wait = Wait::new("waiting for the end");
        loop {
            self.tick();
            let mut active = self.stack.at(self.now, &mut self.pool);
            match active.poll_receive(&mut self.link, conn, &mut [0]) {
                Ok(Received::End) => return Ok(()),
                Ok(Received::Nothing) => self.wait(&mut wait, &mut around)?,
                Ok(Received::Data(_)) => {
                    return Err(Error::stack(
                        self.path,
                        "waiting for the end",
                        "bytes came that nobody sent",
                    ));
                }
                Err(error) => return Err(Error::stack(self.path, "waiting for the end", error)),
            }
        }
    }

    /// Closes the connection; the FIN leaves with the next call that polls.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        let conn = self.conn()?;
        self.active()
            .close(conn)
            .map_err(|error| Error::stack(self.path, "closing", error))
    }

    /// Waits until no connection is left, TIME-WAIT apart: the other end's FIN has come and was acknowledged.
    pub(crate) fn closed(
        &mut self,
        mut around: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut wait = Wait::new("closing");
        loop {
            self.tick();
            self.stack.at(self.now, &mut self.pool).poll(&mut self.link);
            if self.stack.connections() == 0 {
                while self.active().next_event().is_some() {}
                return Ok(());
            }
            self.wait(&mut wait, &mut around)?;
        }
    }

    /// Ends the connection by a reset, where one is left, so that the other end has nothing to wait for.
    pub(crate) fn abort(&mut self) {
        let Some(conn) = self.conn.take() else { return };
        self.read_clock();
        // A connection that is closed refuses, and then nobody waits.
        if self.active().abort(conn).is_ok() {
            self.poll();
        }
    }

    /// Bytes that may wait to be read, as the buffer has grown to be.
    pub(crate) fn receive_buffer(&mut self) -> Result<usize, Error> {
        let conn = self.conn()?;
        let info = self.active().info(conn);
        let info = info.map_err(|error| Error::stack(self.path, "receiving", error))?;
        Ok(info.receive_buffer as usize)
    }

    /// The link.
    pub(crate) const fn link(&self) -> &L {
        &self.link
    }

    /// Sends all of a stream so far.
    pub(crate) fn push(&mut self, around: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
        self.send_tail(around)?;
        self.switch_nagle(true)
    }

    /// Switches Nagle's algorithm off, or to what the spec says.
    pub(crate) fn switch_nagle(&mut self, now: bool) -> Result<(), Error> {
        let (conn, nagle) = (self.conn()?, self.nagle && !now);
        stack_host::set_nagle(
            self.path,
            &mut self.stack.at(self.now, &mut self.pool),
            conn,
            nagle,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tollgate_run::Workload;
    use tollgate_stack::buffer::Frame;
    use tollgate_stack::link::Link;

    /// A line that is ready each time, and over which nothing comes or leaves.
    struct Restless {
        waits: Cell<u32>,
    }

    impl Link for Restless {
        fn mtu(&self) -> usize {
            stack_host::DEFAULT_MTU
        }

        fn transmit(&mut self, _pool: &mut Pool, _frames: &mut Vec<Frame>) {}

        fn receive(&mut self, _pool: &mut Pool, _frames: &mut Vec<Frame>) {}
    }

    impl Waitable for Restless {
        fn wait(&self, timeout: Duration) -> WaitOutcome {
            self.waits.set(self.waits.get() + 1);
            assert!(self.waits.get() < 5_000, "nobody looks around");
            std::thread::sleep(timeout.min(Duration::from_millis(1)));
            WaitOutcome::Ready
        }
    }

    #[test]
    fn end_looks_around_while_its_link_is_ready_for_nothing() {
        let path = PathId::StackPacket;
        let spec = Spec::new(Workload::Rr, 1).with_mode(Placement::OneCore, Waiting::Blocking);
        let mtu = stack_host::DEFAULT_MTU;
        let link = Restless {
            waits: Cell::new(0),
        };
        let pool = stack_host::pool(path, mtu);
        let mut end = End::new(path, &spec, (link, pool), mtu, stack_host::CLIENT).unwrap();
        let listener = end.listen().unwrap();
        let mut looks = 0;
        let outcome = end.accept(listener, || {
            looks += 1;
            match looks {
                3 => Err(never_opened(path)),
                _ => Ok(()),
            }
        });
        assert!(matches!(outcome, Err(Error::Closed { .. })));
    }
}
