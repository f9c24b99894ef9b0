//! The end of connections: out of the table, into TIME-WAIT, onto the free list.

use crate::buffer::{FrameId, Pool};
use crate::socket::{Error, readiness};
use crate::stack::{Active, Stack};
use crate::tcp::deadline::{Deadline, Due};
use crate::tcp::slow::reassembly::release_chain;
use crate::tcp::slow::time_wait::{SLOT_BIT, TimeWait};
use crate::tcp::tcb::{State, Tcb, flag, rare};
use core::hint::cold_path;
use tollgate_gate::Recorder;

/// Releases the frames of a send queue from `id` on.
#[inline(always)]
fn release_sent(pool: &mut Pool, mut id: FrameId) {
    while let Some(meta) = pool.meta_if(id) {
        let next = meta.tx_next;
        pool.release(id);
        id = next;
    }
}

impl Stack {
    /// Puts a connection's place on the free list. Every handle on it is stale from now on. Its entry in the wheel stays: the
    /// next connection in this place takes it over, or it fires and finds nothing due.
    #[inline(always)]
    fn free_place(&mut self, index: usize) {
        if self.cached == index {
            self.cached = usize::MAX;
        }
        let tcb = &mut self.tcbs[index];
        self.counters.queued_before += tcb.queued();
        // Marks in the lists of events and of waiting output stay, so that no index stands there twice.
        let listed = (tcb.flags & flag::LISTED, tcb.rare & rare::OUTPUT_LISTED);
        let generation = tcb.generation.wrapping_add(1);
        let (armed, next_hop) = (tcb.armed, tcb.next_hop);
        *tcb = Tcb::FREE;
        // The place stays in the list of its next hop.
        tcb.next_hop = next_hop;
        tcb.generation = generation;
        (tcb.flags, tcb.rare) = listed;
        tcb.armed = armed;
        self.free.push(index as u32);
        self.open_connections -= 1;
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Takes the connection out of the table: no segment finds it any more.
    #[inline]
    pub(crate) fn detach(&mut self, index: usize) {
        let hash = self.stack.tcbs[index].hash;
        self.stack.table.remove(hash, index as u32);
        self.forget_cached(index);
    }

    pub(crate) fn forget_cached(&mut self, index: usize) {
        if self.stack.cached == index {
            self.stack.cached = usize::MAX;
        }
    }

    /// Releases everything that the send side holds.
    #[inline]
    pub(crate) fn release_send_queue(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        let first = tcb.tx_head;
        tcb.tx_head = FrameId::NONE;
        tcb.unsent = FrameId::NONE;
        tcb.tx_tail = FrameId::NONE;
        release_sent(self.pool, first);
        if self.stack.tcbs[index].is_rare(rare::SCOREBOARD) {
            cold_path();
            self.stack.clear_scoreboard(index);
        }
        if self.stack.chains.is_some() {
            cold_path();
            self.stack.release_chain(index);
        }
    }

    /// Releases everything that the receive side holds.
    #[cold]
    pub(crate) fn release_receive_queues(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        let queued = core::mem::replace(&mut tcb.rx_head, FrameId::NONE);
        release_chain(self.pool, queued);
        self.release_out_of_order(index);
    }

    /// Releases what came out of order.
    pub(crate) fn release_out_of_order(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        let out_of_order = core::mem::replace(&mut tcb.ooo_head, FrameId::NONE);
        release_chain(self.pool, out_of_order);
    }

    /// Ends a connection with everything that it holds.
    pub(crate) fn free_connection(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        if !matches!(tcb.state, State::Closed | State::TimeWait) {
            if tcb.is_rare(rare::UNACCEPTED | rare::FAST_OPEN) {
                cold_path();
                self.stack.leave_listener(index);
            }
            let hash = self.stack.tcbs[index].hash;
            self.stack.table.remove(hash, index as u32);
        }
        self.free_detached(index);
    }

    /// Frees a connection that no segment finds any more.
    #[inline(always)]
    fn free_detached(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        let sent = tcb.tx_head;
        // Where payload lies in mbufs, it is sent in general.
        let holds = tcb.rx_head.is_some()
            || tcb.ooo_head.is_some()
            || tcb.is_rare(rare::EXTENSION | rare::RECOVERY_STATE | rare::SENT_IN_GENERAL);
        if holds {
            cold_path();
            self.release_receive_queues(index);
            self.stack.forget_extension(index);
            self.stack.forget_recovery(index);
            self.stack.release_chain(index);
        }
        release_sent(self.pool, sent);
        self.stack.free_place(index);
    }

    /// Ends a connection with an error. The application, if there is one, learns of it and gives the handle back.
    pub(crate) fn kill(&mut self, index: usize, error: Error) {
        let tcb = &self.stack.tcbs[index];
        if tcb.is_rare(rare::ORPHAN) || tcb.is_rare(rare::UNACCEPTED) {
            self.free_connection(index);
            return;
        }
        self.stack.fast_open_failed(index, error, self.now);
        self.stack.forget_early(index);
        // What has been acknowledged may still be read (RFC 9293, 3.10.7.4, lets it be flushed; Linux and BSD keep it).
        self.release_send_queue(index);
        self.release_out_of_order(index);
        if self.stack.tcbs[index].state != State::TimeWait {
            self.detach(index);
        }
        let tcb = &mut self.stack.tcbs[index];
        tcb.state = State::Closed;
        tcb.marks.set_error(error.code());
        tcb.predict();
        for deadline in [
            &mut tcb.rtx_deadline,
            &mut tcb.ack_deadline,
            &mut tcb.keep_deadline,
            &mut tcb.user_deadline,
        ] {
            *deadline = Deadline::NONE;
        }
        self.notify(
            index,
            readiness::CLOSED | readiness::READABLE | readiness::WRITABLE,
        );
    }

    /// The connection is over on both sides and only TIME-WAIT remains (RFC 9293, 3.6.1).
    pub(crate) fn enter_time_wait(&mut self, index: usize) {
        self.keep_in_time_wait(index, false);
    }

    /// The connection has no application, and the peer's FIN has been waited for long enough: what is needed to answer one is kept, as of
    /// a connection in TIME-WAIT.
    pub(crate) fn end_fin_wait_2(&mut self, index: usize) {
        self.keep_in_time_wait(index, true);
    }

    fn keep_in_time_wait(&mut self, index: usize, fin_is_due: bool) {
        let tick = self.now.tick();
        let until = tick.after(self.stack.periods.time_wait);
        if let Some(oldest) = self.stack.time_wait.must_go() {
            self.forget_time_wait(oldest);
        }
        let tcb = &self.stack.tcbs[index];
        let hash = tcb.hash;
        let mut entry = TimeWait::new((tcb.key, hash), tcb.snd_nxt, tcb.rcv_nxt, tick, until);
        entry.ts_recent = tcb.ts_recent;
        entry.ts_offset = tcb.ts_offset;
        entry.window = ((tcb.rcv_edge - tcb.rcv_nxt) >> tcb.rcv_shift).min(0xffff) as u16;
        entry.timestamps = tcb.is(flag::TIMESTAMPS);
        entry.fin_is_due = fin_is_due;
        if let Some(ecn) = self.stack.ecn(index) {
            entry.ecn_bits = ecn.bits();
        }
        let waiting = self.stack.time_wait.insert(entry);
        self.stack
            .table
            .replace(hash, index as u32, waiting | SLOT_BIT);
        self.forget_cached(index);
        let tcb = &mut self.stack.tcbs[index];
        tcb.state = State::TimeWait;
        if tcb.is_rare(rare::ORPHAN) {
            self.free_detached(index);
            return;
        }
        tcb.predict();
        for deadline in [
            &mut tcb.rtx_deadline,
            &mut tcb.ack_deadline,
            &mut tcb.keep_deadline,
            &mut tcb.user_deadline,
        ] {
            *deadline = Deadline::NONE;
        }
        self.release_send_queue(index);
        self.notify(index, readiness::CLOSED);
    }

    /// Lets a connection in TIME-WAIT go.
    pub(crate) fn forget_time_wait(&mut self, index: u32) {
        let Some(entry) = self.stack.time_wait.get(index) else {
            return;
        };
        let hash = entry.hash;
        self.stack.table.remove(hash, index | SLOT_BIT);
        self.stack.time_wait.remove(index);
    }

    /// In FIN-WAIT-2 without an application the peer's FIN is not waited for forever.
    #[inline(always)]
    pub(crate) fn start_fin_wait_2(&mut self, index: usize) {
        self.set_due(index, Due::GiveUp, self.stack.periods.fin_wait_2);
    }
}
