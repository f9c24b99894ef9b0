//! Text and FIN of a segment (RFC 9293, 3.10.7.4, seventh and eighth): what is new goes to the receive queue, what came too early to
//! [`super::reassembly`].

use super::reassembly::{self, Piece};
use super::segment::{Disposition, Segment};
use crate::buffer::FrameId;
use crate::counters::Drop;
use crate::socket::readiness;
use crate::stack::Active;
use crate::tcp::receive_queue;
use crate::tcp::tcb::{State, rare};
use core::hint::cold_path;
use tollgate_gate::{Gate, PacketId, Recorder};
use tollgate_wire::tcp::{Flags, SackBlock};

impl<R: Recorder> Active<'_, R> {
    /// "Seventh, process the segment text" and "Eighth, check the FIN bit".
    pub(super) fn take_text(&mut self, index: usize, segment: &Segment, len: u16) -> Disposition {
        let header = &segment.header;
        let tcb = &mut self.stack.tcbs[index];
        let data_seq = if header.flags.has(Flags::SYN) {
            header.seq + 1
        } else {
            header.seq
        };
        let mut piece = Piece {
            id: segment.id,
            offset: segment.offset,
            len,
            seq: data_seq,
        };
        let fin = header.flags.has(Flags::FIN);
        let next = !tcb.rcv_nxt.before(piece.seq) && tcb.rcv_nxt.before(piece.end());
        if !tcb.state.may_receive() {
            // After the peer's FIN nothing more can be new (CLOSE-WAIT, CLOSING, LAST-ACK).
            return Disposition::Done;
        }
        if len != 0 && tcb.is_rare(rare::ORPHAN) && tcb.rcv_nxt.before(piece.end()) {
            // RFC 9293, 3.6, SHLD-3: data that nobody will read.
            self.send_reset_of(index);
            self.free_connection(index);
            return Disposition::Done;
        }
        if next && !receive_queue::takes(tcb, self.pool, segment.id, len, self.stack.behind) {
            // The sender asks again. What it acknowledged has been taken, so that our frames come back.
            return Disposition::Dropped(Drop::NoFrame);
        }
        if fin && !tcb.is_rare(rare::FIN_SEEN) {
            // A FIN beyond the window comes again.
            let at = piece.end();
            if at.at_or_before(tcb.rcv_edge) {
                tcb.fin_seq = at;
                tcb.rare |= rare::FIN_SEEN;
                tcb.predict();
            }
        }
        if piece.seq.before(tcb.rcv_nxt) && tcb.rcv_nxt.before(piece.end()) {
            self.stack.report_duplicate(index, piece.seq);
        }
        let tcb = &mut self.stack.tcbs[index];
        piece.trim_front(tcb.rcv_nxt);
        piece.trim_back(tcb.rcv_edge);
        if tcb.is_rare(rare::FIN_SEEN) {
            let end = tcb.fin_seq;
            piece.trim_back(end);
        }
        let mut kept = false;
        if piece.len != 0 {
            kept = true;
            if piece.seq == tcb.rcv_nxt && tcb.ooo_head.is_none() {
                self.take_in_order(index, piece);
            } else {
                tcb.out_of_order = tcb.out_of_order.saturating_add(1);
                self.stack.counters.out_of_order += 1;
                let arrived = SackBlock {
                    start: piece.seq,
                    end: piece.end(),
                };
                let kept = reassembly::insert(&mut self.stack.tcbs[index], self.pool, piece);
                // RFC 2018, 4: all of the block that it makes, also where a part has fallen out of the ranges that are told of.
                let whole = if kept != reassembly::Kept::Nothing
                    && self.stack.has_forgotten_ranges(index)
                {
                    reassembly::run_around(&self.stack.tcbs[index], self.pool, arrived)
                } else {
                    arrived
                };
                self.stack.report_arrival(index, (arrived, whole), kept);
                while let Some(mut ready) =
                    reassembly::take_ready(&mut self.stack.tcbs[index], self.pool)
                {
                    // Nothing counts that a peer has sent behind its own FIN.
                    let tcb = &self.stack.tcbs[index];
                    if tcb.is_rare(rare::FIN_SEEN) {
                        ready.trim_back(tcb.fin_seq);
                    }
                    if ready.len == 0 {
                        self.pool.release(ready.id);
                    } else {
                        self.take_in_order(index, ready);
                    }
                }
                self.stack.report_delivery(index);
                self.stack.tcbs[index].predict();
            }
        }
        let tcb = &self.stack.tcbs[index];
        if tcb.is_rare(rare::FIN_SEEN)
            && tcb.fin_seq == tcb.rcv_nxt
            && !tcb.is_rare(rare::FIN_RECEIVED)
        {
            self.fin_arrives(index);
        }
        if kept {
            Disposition::Kept
        } else {
            Disposition::Done
        }
    }

    /// Data in order goes to the receive queue. It is acknowledged by [`Self::finish`], when everything that is in order
    /// has been taken (RFC 9293, MUST-59).
    fn take_in_order(&mut self, index: usize, piece: Piece) {
        self.rec.pass(Gate::SocketQueued, PacketId(piece.seq.0));
        let owed = core::mem::take(&mut self.stack.tcbs[index].unacked);
        self.deliver(index, piece.id, piece.offset, piece.len);
        let tcb = &mut self.stack.tcbs[index];
        tcb.unacked = tcb.unacked.saturating_add(owed);
    }

    /// "Eighth, check the FIN bit".
    #[inline(always)]
    pub(in crate::tcp) fn fin_arrives(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        tcb.rcv_nxt += 1;
        tcb.rcv_edge = tcb.rcv_edge.latest(tcb.rcv_nxt);
        tcb.rare |= rare::FIN_RECEIVED;
        tcb.unacked = tcb.unacked.max(1);
        if tcb.ooo_head.is_some() {
            cold_path();
            let out_of_order = core::mem::replace(&mut tcb.ooo_head, FrameId::NONE);
            reassembly::release_chain(self.pool, out_of_order);
            self.stack.report_delivery(index);
            self.stack.tcbs[index].predict();
        }
        let tcb = &mut self.stack.tcbs[index];
        match tcb.state {
            State::SynReceived | State::Established => tcb.move_to(State::CloseWait),
            State::FinWait1 => tcb.move_to(State::Closing),
            State::FinWait2 => {
                // Acknowledged before the connection becomes a TIME-WAIT entry.
                let orphan = tcb.is_rare(rare::ORPHAN);
                self.acknowledge_now(index);
                if !orphan {
                    self.notify(index, readiness::END);
                }
                self.enter_time_wait(index);
                return;
            }
            _ => {}
        }
        self.notify(index, readiness::END | readiness::READABLE);
    }
}
