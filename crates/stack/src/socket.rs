//! The sockets' plain interface: listen, accept, connect, send, receive, shutdown, close, abort, readiness, options, info.
//!
//! Calls never block: what cannot be done now is an error that says so, and [`Active::next_event`] tells when it can.

mod error;
mod event;

use crate::buffer::{Buffer, PAYLOAD_OFFSET, Pool};
use crate::config::Demux;
pub use crate::info::{CongestionState, Info};
use crate::likely::{likely, unlikely};
pub use crate::options::{KeepAlive, Open, Settings, SocketOption};
use crate::ready::{Entry, Subject};
use crate::stack::{Active, Stack};
use crate::tcp::tcb::{State, Tcb, UNPREDICTABLE, flag, rare};
use core::hint::cold_path;
use core::mem;
use tollgate_gate::{Gate, PacketId, Recorder};

pub use error::Error;
pub(crate) use event::readiness;
pub use event::{Event, Readiness};

/// A connection's handle. It goes stale when the connection is closed or aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// A listener's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// Ticks between looks for frames at most: 0.27 s.
const RAREST_LOOK: u32 = 256;

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes, at least one.
    Data(usize),
    /// Nothing yet.
    Nothing,
    /// Everything that the peer sent has been read, and it has closed its direction.
    End,
}

/// A reader's buffer for the time of one poll.
pub(crate) struct Posted<'a> {
    index: usize,
    buffer: &'a mut [u8],
    pub(crate) filled: usize,
}

impl<'a> Posted<'a> {
    #[inline(always)]
    pub(crate) fn none() -> Self {
        Self {
            index: usize::MAX,
            buffer: &mut [],
            filled: 0,
        }
    }

    #[inline(always)]
    fn new(index: usize, buffer: &'a mut [u8]) -> Self {
        Self {
            index,
            buffer,
            filled: 0,
        }
    }

    /// That of a UDP socket, by its slot, for one datagram.
    #[inline(always)]
    pub(crate) fn by_datagram_socket(slot: u32, buffer: &'a mut [u8]) -> Self {
        Self::new(Self::of_slot(slot), buffer)
    }

    /// The index of a UDP socket, which no connection has, nor [`Posted::none`].
    #[inline(always)]
    const fn of_slot(slot: u32) -> usize {
        usize::MAX - 1 - slot as usize
    }

    /// Room for a datagram of `len` bytes for the UDP socket of a slot, when its reader has that much and none yet.
    #[inline(always)]
    pub(crate) fn room_for_datagram(&mut self, slot: u32, len: usize) -> Option<&mut [u8]> {
        if self.index != Self::of_slot(slot) {
            return None;
        }
        self.buffer.get_mut(..len)
    }

    /// A datagram of `len` bytes is in the buffer, which takes no other.
    #[inline(always)]
    pub(crate) fn take_datagram(&mut self, len: usize) {
        self.index = usize::MAX;
        self.filled = len;
    }

    /// Tells whether the reader of a UDP socket has got a datagram.
    #[inline(always)]
    pub(crate) const fn has_datagram(&self) -> bool {
        self.index == usize::MAX
    }

    /// Room for the next `len` bytes of connection `index`, when its reader has that much.
    #[inline(always)]
    pub(crate) fn room(&mut self, index: usize, len: usize) -> Option<&mut [u8]> {
        if self.index != index {
            return None;
        }
        self.buffer.get_mut(self.filled..)?.get_mut(..len)
    }
}

impl Stack {
    /// The index of a live connection.
    #[inline(always)]
    pub(crate) fn index(&self, conn: ConnId) -> Result<usize, Error> {
        let index = conn.index as usize;
        match self.tcbs.get(index) {
            Some(tcb) if likely!(tcb.generation == conn.generation) => Ok(index),
            _ => {
                cold_path();
                Err(Error::NotConnected)
            }
        }
    }

    /// The next segment is most likely for the connection whose reader waits: it takes the place of the last one's in the
    /// cache, when there is one (the send/receive cache of Partridge and Pink 1993 for an application that says what it
    /// waits for).
    #[inline(always)]
    fn expect(&mut self, index: usize) {
        // A connection that is over still has its key, which may be another's by now.
        let attached = self.tcbs[index].predicted != UNPREDICTABLE;
        if attached && self.config.mechanisms.demux == Demux::CacheHash {
            self.cached = index;
        }
    }

    pub(crate) fn conn_id(&self, index: usize) -> ConnId {
        ConnId {
            index: index as u32,
            generation: self.tcbs[index].generation,
        }
    }
}

/// The error that a connection ended with, or `otherwise`.
fn ended(tcb: &Tcb, otherwise: Error) -> Error {
    Error::from_code(tcb.marks.error()).unwrap_or(otherwise)
}

impl<R: Recorder> Active<'_, R> {
    /// Queues bytes for sending and sends what may be sent now; returns how many were taken, at least one unless
    /// `data` is empty.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when the send buffer or the pool has no room, or the handshake is not complete;
    /// [`Error::Shutdown`] after [`Active::shutdown`]; the reason when the connection is over.
    #[inline(always)]
    pub fn send(&mut self, conn: ConnId, data: &[u8]) -> Result<usize, Error> {
        let index = self.stack.index(conn)?;
        self.rec.pass(
            Gate::SocketOutBegin,
            PacketId(self.stack.tcbs[index].snd_end.0),
        );
        let predicted = if self.stack.tcbs[index].unsent.is_none() {
            self.stack
                .send_predicted(self.pool, self.now, self.rec.lend(), index, data)
        } else {
            self.stack.coalesce(self.pool, index, data)
        };
        if likely!(predicted) {
            return Ok(data.len());
        }
        self.send_in_general(index, data)
    }

    #[inline(never)]
    fn send_in_general(&mut self, index: usize, data: &[u8]) -> Result<usize, Error> {
        // One test for both.
        if self.stack.tcbs[index].is_rare(rare::MORE | rare::LOW_WATER) {
            cold_path();
            return self.send_apart(index, data);
        }
        let taken = self.queue(index, data)?;
        self.output(index);
        Ok(taken)
    }

    /// [`Active::send`] where the application has said of earlier bytes that more follow, or has a low water mark.
    #[cold]
    #[inline(never)]
    fn send_apart(&mut self, index: usize, data: &[u8]) -> Result<usize, Error> {
        self.more_has_come(index);
        self.queue_and_send(index, data, false)
    }

    /// Queues bytes for sending; returns how many.
    #[inline(always)]
    pub(crate) fn queue(&mut self, index: usize, data: &[u8]) -> Result<usize, Error> {
        let tcb = &self.stack.tcbs[index];
        if !tcb.state.may_send() && !tcb.sends_early() || tcb.is(flag::FIN_QUEUED) {
            return Err(self.cannot_send(index));
        }
        let queued = tcb.snd_end - tcb.snd_una;
        let room = tcb.snd_limit.saturating_sub(queued) as usize;
        let taken = self.append(index, data, room);
        if taken < data.len() {
            return self.queue_rest(index, data, taken, room);
        }
        Ok(taken)
    }

    /// [`Active::queue`] for calls that are rare, compiled apart.
    #[cold]
    #[inline(never)]
    pub(crate) fn queue_apart(&mut self, index: usize, data: &[u8]) -> Result<usize, Error> {
        self.queue(index, data)
    }

    /// `taken` bytes found place where there is `room` for so many in the send buffer: what comes of the rest.
    #[cold]
    #[inline(never)]
    fn queue_rest(
        &mut self,
        index: usize,
        data: &[u8],
        taken: usize,
        room: usize,
    ) -> Result<usize, Error> {
        if taken == room && self.tune_send_buffer(index) {
            return match self.queue_apart(index, &data[taken..]) {
                Ok(more) => Ok(taken + more),
                Err(_) if taken != 0 => Ok(taken),
                Err(error) => Err(error),
            };
        }
        self.want_room(index, taken < room);
        if taken == 0 {
            return Err(Error::WouldBlock);
        }
        Ok(taken)
    }

    /// The application was refused: it will be told when there is room in the send buffer, or, when it is for want of
    /// frames, when there are some.
    pub(crate) fn want_room(&mut self, index: usize, for_frames: bool) {
        self.stack.tcbs[index].events |= readiness::WANT_WRITE;
        if for_frames {
            self.want_frames(index);
        }
    }

    /// An option may have made room: an application that was refused is told by the rule of acknowledgments.
    #[cold]
    pub(crate) fn room_may_be_there(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        if tcb.is_worth_writing(tcb.snd_una) {
            self.tell_of_room(index);
        }
    }

    /// Tells an application that was refused that it may write.
    #[cold]
    fn tell_of_room(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        if tcb.events & readiness::WANT_WRITE != 0 {
            tcb.events &= !readiness::WANT_WRITE;
            self.notify(index, readiness::WRITABLE);
        }
    }

    /// The connection is looked at again when there are frames: its application was refused, or it owes a FIN.
    #[cold]
    pub(crate) fn want_frames(&mut self, index: usize) {
        if self.stack.want_frames.is_empty() {
            self.stack.frames_check = (self.now.tick().after(1), 1);
        }
        self.stack.want_frames.insert(index as u32);
    }

    /// Tells those who were refused for want of frames that there are some, and sends the FINs that are owed. Every poll of another tick looks; where nothing
    /// else asks for a poll, looks become rarer, so that a pool that stays empty keeps nobody busy.
    #[cold]
    pub(crate) fn look_for_frames(&mut self) {
        if self.pool.is_low() {
            let (at, interval) = self.stack.frames_check;
            let now = self.now.tick();
            if at.reached(now) {
                let interval = (2 * interval).min(RAREST_LOOK);
                self.stack.frames_check = (now.after(interval), interval);
            }
            return;
        }
        let waiting = mem::take(&mut self.stack.want_frames);
        for index in waiting {
            let index = index as usize;
            // Others have taken the place of some.
            if self.stack.tcbs[index].is_rare(rare::FIN_PENDING) {
                // Where the frames are gone again by now, it waits anew.
                self.append_fin(index);
                self.output(index);
            }
            self.tell_of_room(index);
        }
    }

    #[cold]
    fn cannot_send(&self, index: usize) -> Error {
        let tcb = &self.stack.tcbs[index];
        match tcb.state {
            State::SynSent | State::SynReceived => Error::WouldBlock,
            _ if tcb.is(flag::FIN_QUEUED) => Error::Shutdown,
            _ => ended(tcb, Error::NotConnected),
        }
    }

    /// The pool that the stack was joined with: buffers to be sent come from it, and buffers that were received go back.
    #[inline(always)]
    pub fn pool(&mut self) -> &mut Pool {
        self.pool
    }

    /// Bytes of payload in a full segment that is sent now: [`Info::mss`] alone.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    #[inline(always)]
    pub fn mss(&self, conn: ConnId) -> Result<usize, Error> {
        let index = self.stack.index(conn)?;
        Ok(usize::from(self.stack.tcbs[index].mss))
    }

    /// Queues a buffer for sending without copying it. Its payload is summed here, so it must not be changed afterwards
    /// (it cannot: the handle moves).
    ///
    /// # Errors
    /// Those of [`Active::send`], and [`Error::TooLong`] when it is longer than [`Info::mss`]; the buffer is returned with the
    /// error.
    pub fn send_buffer(&mut self, conn: ConnId, buffer: Buffer) -> Result<(), (Error, Buffer)> {
        let index = match self.stack.index(conn) {
            Ok(index) => index,
            Err(error) => return Err((error, buffer)),
        };
        let tcb = &self.stack.tcbs[index];
        self.rec.pass(Gate::SocketOutBegin, PacketId(tcb.snd_end.0));
        if !tcb.state.may_send() && !tcb.sends_early() || tcb.is(flag::FIN_QUEUED) {
            return Err((self.cannot_send(index), buffer));
        }
        if buffer.len() > usize::from(tcb.mss) {
            return Err((Error::TooLong, buffer));
        }
        if tcb.snd_limit.saturating_sub(tcb.snd_end - tcb.snd_una) < u32::from(buffer.len) {
            self.want_room(index, false);
            return Err((Error::WouldBlock, buffer));
        }
        if tcb.is_rare(rare::MORE | rare::LOW_WATER) {
            cold_path();
            if tcb.snd_end - tcb.highest_sent() >= tcb.low_water {
                self.want_room(index, false);
                return Err((Error::WouldBlock, buffer));
            }
            self.more_has_come(index);
        }
        let queued = self.queue_buffer(index, buffer);
        self.output(index);
        queued
    }

    /// Queues a buffer that the send buffer has room for.
    #[inline(always)]
    fn queue_buffer(&mut self, index: usize, buffer: Buffer) -> Result<(), (Error, Buffer)> {
        if buffer.is_empty() {
            self.pool.free(buffer);
            return Ok(());
        }
        if self.pool.is_low() {
            // The buffer itself is a frame; what it would keep from others is the reserve.
            self.want_room(index, true);
            return Err((Error::WouldBlock, buffer));
        }
        // Headers are written in front of the payload: that takes headroom, and a frame that nobody else holds.
        if usize::from(buffer.offset) == PAYLOAD_OFFSET && !self.pool.is_shared(buffer.id) {
            let sum = self
                .stack
                .compiled
                .copy_kernel
                .sum(self.pool.payload(&buffer));
            if self.stack.chains.is_some() {
                cold_path();
                let mut bytes = mem::take(&mut self.stack.scratch);
                bytes.clear();
                bytes.extend_from_slice(self.pool.payload(&buffer));
                self.append_to_chain(index, self.stack.tcbs[index].snd_end, &bytes);
                self.stack.scratch = bytes;
            }
            self.append_frame(index, buffer.id, buffer.len, sum);
        } else {
            let mut copy = match self.pool.buffer(buffer.len()) {
                Ok(copy) => copy,
                Err(_) => {
                    self.want_room(index, true);
                    return Err((Error::WouldBlock, buffer));
                }
            };
            let mut bytes = mem::take(&mut self.stack.scratch);
            bytes.clear();
            bytes.extend_from_slice(self.pool.payload(&buffer));
            let sum = self
                .stack
                .compiled
                .copy_kernel
                .copy_and_sum(self.pool.payload_mut(&mut copy), &bytes);
            if self.stack.chains.is_some() {
                cold_path();
                self.append_to_chain(index, self.stack.tcbs[index].snd_end, &bytes);
            }
            self.stack.scratch = bytes;
            self.pool.free(buffer);
            self.append_frame(index, copy.id, copy.len, sum);
        }
        Ok(())
    }

    /// Reads bytes that have arrived. A read ends where urgent data ends ([`Info::urgent`]).
    ///
    /// # Errors
    /// The reason when the connection is over and nothing is left to read.
    #[inline(always)]
    pub fn receive(&mut self, conn: ConnId, buffer: &mut [u8]) -> Result<Received, Error> {
        let index = self.stack.index(conn)?;
        let tcb = &mut self.stack.tcbs[index];
        // A request or a response of one segment, read whole. A read must end where urgent data ends.
        if likely!(!tcb.is_rare(rare::URGENT))
            && let Some((payload, first)) = tcb.only_received(self.pool)
            && let Some(room) = buffer.get_mut(..payload.len())
        {
            self.rec.pass(Gate::SocketInBegin, PacketId(first.0));
            let read = payload.len();
            room.copy_from_slice(payload);
            tcb.take_only(self.pool, read);
            self.window_may_open(index);
            self.rec.pass(Gate::SocketInEnd, PacketId(first.0));
            return Ok(Received::Data(read));
        }
        self.receive_in_general(index, buffer)
    }

    #[inline(never)]
    fn receive_in_general(&mut self, index: usize, buffer: &mut [u8]) -> Result<Received, Error> {
        if self.stack.tcbs[index].rx_head.is_none() {
            return self.nothing_to_read(index);
        }
        if buffer.is_empty() {
            return Ok(Received::Nothing);
        }
        let read = self.drain_queue(index, buffer);
        Ok(Received::Data(read))
    }

    fn nothing_to_read(&self, index: usize) -> Result<Received, Error> {
        let tcb = &self.stack.tcbs[index];
        let over = if tcb.is_rare(rare::FIN_RECEIVED) && tcb.marks.error() == 0 {
            Ok(Received::End)
        } else {
            match Error::from_code(tcb.marks.error()) {
                Some(error) => Err(error),
                None if tcb.state == State::Closed => Err(Error::NotConnected),
                None => return Ok(Received::Nothing),
            }
        };
        // A posted buffer without room leaves what has arrived in the queue.
        if tcb.rx_head.is_some() {
            return Ok(Received::Nothing);
        }
        over
    }

    /// Copies from the receive queue and opens the window by it.
    #[inline(never)]
    fn drain_queue(&mut self, index: usize, mut buffer: &mut [u8]) -> usize {
        if self.stack.tcbs[index].is_rare(rare::URGENT) {
            cold_path();
            let readable = self.stack.up_to_mark(self.pool, index, buffer.len());
            buffer = &mut buffer[..readable];
        }
        let tcb = &mut self.stack.tcbs[index];
        let mut filled = 0;
        let first = self.pool.meta(tcb.rx_head).rx_seq;
        self.rec.pass(Gate::SocketInBegin, PacketId(first.0));
        while filled < buffer.len() && tcb.rx_head.is_some() {
            let id = tcb.rx_head;
            let meta = *self.pool.meta(id);
            let len = usize::from(meta.rx_len).min(buffer.len() - filled);
            let start = usize::from(meta.rx_offset);
            buffer[filled..filled + len].copy_from_slice(&self.pool.bytes(id)[start..start + len]);
            filled += len;
            if let Some(id) = tcb.take_received(self.pool, len as u16) {
                self.pool.release(id);
            }
        }
        self.window_may_open(index);
        self.rec.pass(Gate::SocketInEnd, PacketId(first.0));
        filled
    }

    /// Takes the next buffer of received bytes without copying them. Give it back with [`Pool::free`](crate::Pool::free)
    /// or send it on.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is nothing yet; `Ok(None)` is the end; the reason when the connection is over.
    pub fn receive_buffer(&mut self, conn: ConnId) -> Result<Option<Buffer>, Error> {
        let index = self.stack.index(conn)?;
        let tcb = &self.stack.tcbs[index];
        let id = tcb.rx_head;
        if id.is_none() {
            return match self.nothing_to_read(index)? {
                Received::End => Ok(None),
                Received::Nothing | Received::Data(_) => Err(Error::WouldBlock),
            };
        }
        let meta = self.pool.meta(id);
        let mut buffer = Buffer {
            id,
            offset: meta.rx_offset,
            len: meta.rx_len,
        };
        if tcb.is_rare(rare::URGENT) {
            buffer.len = self.stack.up_to_mark(self.pool, index, buffer.len()) as u16;
        }
        let tcb = &mut self.stack.tcbs[index];
        if tcb.take_received(self.pool, buffer.len).is_none() {
            // The rest of the frame lies behind the urgent data and stays in the queue.
            self.pool.retain(id);
        }
        self.window_may_open(index);
        Ok(Some(buffer))
    }

    /// Polls with the reader's buffer posted: bytes that arrive in order for `conn` are copied straight from their
    /// frame into `buffer`, in the pass that verifies their checksum. What lies in `buffer` behind the bytes that are
    /// reported is undefined: a segment that turned out damaged or out of place may have been copied there.
    ///
    /// # Errors
    /// Those of [`Active::receive`].
    #[inline(always)]
    pub fn poll_receive<L: crate::Link>(
        &mut self,
        link: &mut L,
        conn: ConnId,
        buffer: &mut [u8],
    ) -> Result<Received, Error> {
        let index = self.stack.index(conn)?;
        if self.stack.tcbs[index].rx_head.is_some() {
            cold_path();
            self.poll_once(link, &mut Posted::none());
            return self.receive_in_general(index, buffer);
        }
        if self.stack.cached != index {
            cold_path();
            self.stack.expect(index);
        }
        let mut posted = Posted::new(index, buffer);
        self.poll_once(link, &mut posted);
        let filled = posted.filled;
        // What did not fit, or came by the full state machine, lies in the queue behind what was copied directly.
        if filled < buffer.len() && unlikely!(self.stack.tcbs[index].rx_head.is_some()) {
            return Ok(Received::Data(
                filled + self.drain_queue(index, &mut buffer[filled..]),
            ));
        }
        if filled == 0 {
            return self.nothing_to_read(index);
        }
        Ok(Received::Data(filled))
    }

    /// Closes our direction: what is queued is sent, then a FIN. Reading goes on.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when there is nothing to close; [`Error::Shutdown`] when it is closed already.
    pub fn shutdown(&mut self, conn: ConnId) -> Result<(), Error> {
        let index = self.stack.index(conn)?;
        let tcb = &self.stack.tcbs[index];
        if tcb.is(flag::FIN_QUEUED) {
            return Err(Error::Shutdown);
        }
        match tcb.state {
            State::Established | State::SynReceived | State::CloseWait => {
                self.queue_fin(index);
                Ok(())
            }
            State::SynSent => Err(Error::WouldBlock),
            _ => Err(ended(tcb, Error::NotConnected)),
        }
    }

    /// Ends the application's part: the handle is given back, what is queued is still sent, and the connection closes in
    /// the background. When bytes that arrived were not read, the peer is told by a RST (RFC 9293, 3.6, SHLD-3). So it is with
    /// [`SocketOption::AbortOnClose`].
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale; the reason when the connection had ended with one.
    pub fn close(&mut self, conn: ConnId) -> Result<(), Error> {
        let index = self.stack.index(conn)?;
        let tcb = &mut self.stack.tcbs[index];
        let error = match tcb.marks.error() {
            0 => None,
            code => Error::from_code(code),
        };
        tcb.rare |= rare::ORPHAN;
        // The handle goes stale now, whatever the connection still has to do.
        tcb.generation = tcb.generation.wrapping_add(1);
        match tcb.state {
            State::Closed | State::Listen | State::TimeWait => self.free_connection(index),
            State::SynSent => self.free_connection(index),
            _ if tcb.rx_head.is_some() => self.reset_and_free(index),
            State::SynReceived | State::Established | State::CloseWait => {
                if !self.stack.tcbs[index].is(flag::FIN_QUEUED) {
                    self.queue_fin(index);
                }
            }
            State::FinWait1 | State::FinWait2 | State::Closing | State::LastAck
                if tcb.is_rare(rare::ABORT_ON_CLOSE) =>
            {
                self.reset_and_free(index);
            }
            State::FinWait2 => self.start_fin_wait_2(index),
            State::FinWait1 | State::Closing | State::LastAck => {}
        }
        error.map_or(Ok(()), Err)
    }

    /// Ends the connection at once with a RST; what was queued is lost.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub fn abort(&mut self, conn: ConnId) -> Result<(), Error> {
        let index = self.stack.index(conn)?;
        // RFC 9293, 3.10.5: in CLOSING, LAST-ACK and TIME-WAIT everything was said.
        match self.stack.tcbs[index].state {
            State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait => {
                self.send_reset_of(index);
            }
            State::Closed
            | State::Listen
            | State::SynSent
            | State::Closing
            | State::LastAck
            | State::TimeWait => {}
        }
        self.stack.tcbs[index].generation = self.stack.tcbs[index].generation.wrapping_add(1);
        self.free_connection(index);
        // Many may be aborted at once and none opened after them.
        self.stack.wheel.cancel(index as u32);
        Ok(())
    }

    /// The next thing that happened: what a connection is ready for now, or that connections or datagrams wait to be taken.
    pub fn next_event(&mut self) -> Option<Event> {
        while let Some(entry) = self.stack.ready.pop_front() {
            let index = match entry.subject() {
                Subject::Connection(index) => index,
                Subject::Listener(index) => match self.listener_event(index) {
                    None => continue,
                    event => return event,
                },
                Subject::Datagrams(index) => match self.stack.udp.event(index) {
                    None => continue,
                    event => return event,
                },
            };
            let Some(tcb) = self.stack.tcbs.get_mut(index) else {
                continue;
            };
            tcb.flags &= !flag::LISTED;
            if tcb.is_rare(rare::UNACCEPTED) {
                // Told when it is accepted.
                continue;
            }
            let ready = Readiness(tcb.events & !readiness::WANT_WRITE);
            tcb.events &= readiness::WANT_WRITE;
            if ready == Readiness::default() || tcb.is_rare(rare::ORPHAN) {
                continue;
            }
            let token = tcb.token;
            return Some(Event::Connection {
                conn: self.stack.conn_id(index),
                ready,
                token,
            });
        }
        None
    }

    /// Notes that something happened to a connection.
    #[inline(always)]
    pub(crate) fn notify(&mut self, index: usize, what: u8) {
        let tcb = &mut self.stack.tcbs[index];
        tcb.events |= what;
        if !tcb.is(flag::LISTED) {
            tcb.flags |= flag::LISTED;
            self.stack.ready.push_back(Entry::connection(index));
        }
    }

    /// The connection's state; [`State::Closed`] when the handle is stale.
    pub fn state(&self, conn: ConnId) -> State {
        self.stack
            .index(conn)
            .map_or(State::Closed, |index| self.stack.tcbs[index].state)
    }

    /// Puts a FIN behind everything that is queued and changes the state (RFC 9293, 3.10.4).
    #[inline(always)]
    fn queue_fin(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        tcb.flags |= flag::FIN_QUEUED;
        tcb.move_to(match tcb.state {
            State::CloseWait => State::LastAck,
            // From SYN-RECEIVED the FIN waits in the queue until the handshake is complete.
            State::SynReceived => State::SynReceived,
            _ => State::FinWait1,
        });
        let predicted = self
            .stack
            .fin_predicted(self.pool, self.now, &mut self.rec, index);
        if !predicted {
            cold_path();
            self.send_fin_in_general(index);
        }
    }

    /// Queues a FIN that is not predicted, or a RST in its place where the application has closed and wants that.
    #[inline(never)]
    fn send_fin_in_general(&mut self, index: usize) {
        const ABORTS: u32 = rare::ORPHAN | rare::ABORT_ON_CLOSE;
        if self.stack.tcbs[index].rare & ABORTS == ABORTS {
            self.reset_and_free(index);
            return;
        }
        self.append_fin(index);
        self.output(index);
    }

    /// Ends a connection by a RST.
    #[cold]
    #[inline(never)]
    fn reset_and_free(&mut self, index: usize) {
        self.send_reset_of(index);
        self.free_connection(index);
    }
}
