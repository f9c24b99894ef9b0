//! Boundaries that an application gives its bytes: more follow at once, or a record ends.
//!
//! A partial segment waits while the application has corked the connection or has said with its last call that more follows
//! (Linux: TCP_CORK, MSG_MORE). It does not wait for ever (RFC 9293, 3.9.1.2, MUST-60): [`CEILING`] after nothing is in flight any
//! more it goes as it is. Behind the end of a record (MSG_EOR) nothing is put into the same segment; it is marked by PSH.
//!
//! Meanwhile segments leave by the general path of output, so that the predicted one need not look. This module must never hold
//! back a full segment or a FIN.

use crate::buffer::Meta;
use crate::socket::{ConnId, Error};
use crate::stack::Active;
use crate::tcp::deadline::{Deadline, Due};
use crate::tcp::tcb::{Tcb, flag, rare};
use crate::time::ticks;
use core::time::Duration;
use tollgate_gate::Recorder;
use tollgate_wire::tcp::Flags;

/// Time for which a partial segment waits for more when nothing is in flight; Linux waits as long.
const CEILING: Duration = Duration::from_millis(200);
/// Bits of [`Tcb::rare`] with which a partial segment waits.
const HELD: u32 = rare::CORKED | rare::MORE;

/// Follow-up of the bytes of one call ([`Active::send_with`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// More follows soon: a partial segment waits for it, 200 ms at most while nothing is in flight (MSG_MORE). The next call
    /// without this ends the wait.
    More,
    /// A record ends: what is sent later goes into other segments (MSG_EOR).
    EndOfRecord,
}

impl Tcb {
    /// Tells whether a partial segment at the end of the send queue waits for more.
    #[inline(always)]
    pub(in crate::tcp) fn holds_partial(&self, meta: &Meta) -> bool {
        self.is_rare(HELD)
            && meta.tx_len < self.mss
            && meta.tx_next.is_none()
            && meta.transmissions.is_none()
            && !meta.tx_flags.has(Flags::FIN)
    }

    /// Tells whether a partial segment waits for more, with nothing else that would ever move.
    pub(in crate::tcp) fn waits_for_more(&self) -> bool {
        self.is_rare(HELD)
            && !self.is_rare(rare::PERSIST | rare::LOSS)
            && self.in_flight() == 0
            && self.unsent.is_some()
    }

    /// Something is sent: the retransmission timer, which also ends the wait, is free for it.
    pub(in crate::tcp) fn stop_waiting_for_more(&mut self) {
        if self.waits_for_more() {
            self.rtx_deadline = Deadline::NONE;
        }
    }

    /// Sets the bits with which a partial segment waits, and what follows from them.
    fn hold(&mut self, bits: u32) {
        if bits == 0 {
            self.stop_waiting_for_more();
        }
        self.rare = self.rare & !HELD | bits;
        self.choose_transmit_path();
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Like [`Active::send`], with what follows.
    ///
    /// # Errors
    /// Those of [`Active::send`].
    pub fn send_with(
        &mut self,
        conn: ConnId,
        data: &[u8],
        boundary: Boundary,
    ) -> Result<usize, Error> {
        let index = self.stack.index(conn)?;
        if data.is_empty() && boundary == Boundary::More {
            return Ok(0);
        }
        let corked = self.stack.tcbs[index].rare & rare::CORKED;
        let more = match boundary {
            Boundary::More => rare::MORE,
            Boundary::EndOfRecord => 0,
        };
        self.stack.tcbs[index].hold(corked | more);
        self.queue_and_send(index, data, boundary == Boundary::EndOfRecord)
    }

    /// A call ends the wait that [`Boundary::More`] has begun. The caller sees to it that what was held goes, also where it is refused.
    #[cold]
    pub(crate) fn more_has_come(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        tcb.hold(tcb.rare & rare::CORKED);
    }

    /// Corks the connection, or lets go what was held.
    pub(crate) fn cork(&mut self, index: usize, on: bool) {
        let bits = if on { rare::CORKED } else { 0 };
        self.stack.tcbs[index].hold(bits);
        self.stack.open_coalescing(self.pool, index);
        self.output(index);
    }

    /// Queues and sends by turns, where the application is refused before the send buffer is full: what leaves makes room. The
    /// last bytes may end a record.
    #[cold]
    pub(crate) fn queue_and_send(
        &mut self,
        index: usize,
        data: &[u8],
        record: bool,
    ) -> Result<usize, Error> {
        let mut taken = 0;
        loop {
            let (queued, part) = match self.queue_up_to_mark(index, &data[taken..]) {
                Ok(queued) => queued,
                Err(_) if taken != 0 => return Ok(taken),
                Err(error) => {
                    // Something may have been held for what is refused.
                    self.output(index);
                    return Err(error);
                }
            };
            taken += queued;
            if record && taken == data.len() {
                self.end_record(index);
            }
            self.output(index);
            if taken == data.len() || queued < part {
                return Ok(taken);
            }
        }
    }

    /// Queues bytes as far as the low water mark allows; returns how many, and how many it allowed.
    pub(in crate::tcp) fn queue_up_to_mark(
        &mut self,
        index: usize,
        data: &[u8],
    ) -> Result<(usize, usize), Error> {
        let tcb = &self.stack.tcbs[index];
        let unsent = tcb.snd_end - tcb.highest_sent();
        let room = tcb.low_water.saturating_sub(unsent) as usize;
        let part = &data[..data.len().min(room)];
        let queued = self.queue_apart(index, part)?;
        if part.is_empty() && !data.is_empty() {
            self.want_room(index, false);
            return Err(Error::WouldBlock);
        }
        Ok((queued, part.len()))
    }

    /// Marks the last bytes that were queued as the end of a record, if they have not been sent.
    pub(crate) fn end_record(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        if tcb.unsent.is_some() && !tcb.is(flag::FIN_QUEUED) {
            let meta = self.pool.meta_mut(tcb.tx_tail);
            meta.tx_flags |= Flags::PSH;
            meta.tx_limit = 0;
        }
    }

    /// A partial segment waits for more. While something is in flight its acknowledgment looks again.
    pub(in crate::tcp) fn wait_for_more(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        if tcb.waits_for_more() && !tcb.rtx_deadline.is_set() {
            self.set_due(index, Due::Retransmission, ticks(CEILING));
        }
    }

    /// More did not come: the partial segment goes as it is.
    pub(in crate::tcp) fn send_partial(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        let held = tcb.rare & HELD;
        tcb.hold(0);
        self.output(index);
        self.stack.tcbs[index].hold(held);
    }
}
