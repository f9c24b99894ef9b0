//! Urgent data (RFC 9293, 3.8.5; RFC 6093): a point in the stream, up to which its reader is asked to hurry.
//!
//! Urgent bytes are delivered in line, whatever their number. The application is told by an event that there are some,
//! [`Info::urgent`](crate::Info::urgent) says how many are left, and a read never goes past the last of them, so that the
//! boundary is marked.

use crate::buffer::Pool;
use crate::socket::{ConnId, Error, readiness};
use crate::stack::{Active, Stack};
use crate::tcp::tcb::{Tcb, rare};
use tollgate_gate::Recorder;
use tollgate_wire::tcp::Header;

impl Stack {
    /// Bytes from the next that will be read up to the end of the urgent data, whether they have arrived or not; 0 when
    /// there is none.
    pub(crate) fn urgent_left(&self, pool: &Pool, index: usize) -> u32 {
        let tcb = &self.tcbs[index];
        if !tcb.is_rare(rare::URGENT) {
            return 0;
        }
        let Some(up) = self.extension(index).and_then(|extension| extension.rcv_up) else {
            return 0;
        };
        // A pointer may lie beyond the last byte of all.
        let end = if tcb.is_rare(rare::FIN_RECEIVED) {
            up.earliest(tcb.fin_seq)
        } else {
            up
        };
        let consumed = tcb.consumed(pool);
        if consumed.before(end) {
            end - consumed
        } else {
            0
        }
    }

    /// Bytes of `wanted` that may be read in one go: none beyond the end of the urgent data. At that end, which the
    /// last read has reached, the connection is as others again.
    #[cold]
    pub(crate) fn up_to_mark(&mut self, pool: &Pool, index: usize, wanted: usize) -> usize {
        match self.urgent_left(pool, index) {
            0 => {
                self.change_extension(index, |extension| extension.rcv_up = None);
                let tcb = &mut self.tcbs[index];
                tcb.rare &= !rare::URGENT;
                tcb.predict();
                wanted
            }
            left => wanted.min(left as usize),
        }
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Like [`Active::send`], with the bytes that are taken marked as urgent: their segments carry the urgent pointer, which
    /// points behind the last of them. Where they cannot be sent at once, the peer is told of them all the same.
    ///
    /// New applications should not use this (RFC 9293, SHLD-13): what becomes of it on the way is uncertain.
    ///
    /// # Errors
    /// Those of [`Active::send`].
    pub fn send_urgent(&mut self, conn: ConnId, data: &[u8]) -> Result<usize, Error> {
        let index = self.stack.index(conn)?;
        self.more_has_come(index);
        let queued = self.queue_up_to_mark(index, data);
        let Ok((taken @ 1.., _)) = queued else {
            self.output(index);
            return queued.map(|(none, _)| none);
        };
        let up = self.stack.tcbs[index].snd_end;
        self.stack
            .change_extension(index, |extension| extension.snd_up = Some(up));
        self.output(index);
        if self.stack.tcbs[index].unsent.is_some() {
            self.acknowledge(index);
        }
        Ok(taken)
    }

    /// "Sixth, check the URG bit": RCV.UP only moves forward, and the user is told of each advance (MUST-32).
    pub(in crate::tcp) fn urgent_arrives(&mut self, index: usize, header: &Header) {
        let tcb: &Tcb = &self.stack.tcbs[index];
        let up = header.seq + u32::from(header.urgent);
        let known = self
            .stack
            .extension(index)
            .and_then(|extension| extension.rcv_up);
        if !tcb.state.may_receive()
            || up.at_or_before(tcb.consumed(self.pool))
            || known.is_some_and(|known| up.at_or_before(known))
        {
            return;
        }
        self.stack
            .change_extension(index, |extension| extension.rcv_up = Some(up));
        let tcb = &mut self.stack.tcbs[index];
        tcb.rare |= rare::URGENT;
        tcb.predict();
        self.notify(index, readiness::URGENT);
    }
}
