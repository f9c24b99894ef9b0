//! The predicted path of the segments that move a connection from one state to the next and carry no data: SYNs, which are
//! [`super::predicted_syn`]'s, the acknowledgment that completes the handshake, a FIN, the acknowledgment of ours; and of our
//! FIN.
//!
//! [`super::predicted`] leaves every segment to others whose state or flags are not those of a data transfer. Of these, a
//! connection that goes as most do sees only segments that are next in order, acknowledge everything, and have the usual
//! layout. Whether a segment is such a one is found out here without looking at options, windows' edges, duplicates or
//! losses one by one; what it then means is what [`super::segment`] and [`super::acknowledgment`] do in any case. Nothing
//! is changed before every check has passed; whatever fails goes the general way untouched, and the reason is counted.
//! Which segments are taken is RFC 9293, 3.10.7.4, cut down to these.

use super::predicted::{be16, be32, key_of};
use super::predicted::{segment_is_intact, take_acknowledgment};
use super::predicted_syn::SYN_ACK;
use super::tcb::{Deadline, State, Tcb, flag, rare};
use super::template::STAMPED;
use super::time_wait::SLOT_BIT;
use crate::buffer::{Frame, RxChecksum};
use crate::config::Prediction;
use crate::counters::{ChangeMiss, Miss};
use crate::demux::FlowKey;
use crate::likely::unlikely;
use crate::stack::Active;
use core::hint::cold_path;
use tollgate_checksum::{Partial, Wide};
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::{Flags, TIMESTAMP_LAYOUT};

/// The IP packet's octets, no payload included.
const TOTAL_LEN: u16 = (STAMPED - 14) as u16;
/// Data offset of eight words, and ACK.
const STAMPED_ACK: u16 = 0x8010;
/// FIN in the word of data offset and flags.
const FIN: u16 = Flags::FIN.0 as u16;
/// PSH there, which is taken either way.
const PSH: u16 = Flags::PSH.0 as u16;

/// What a segment says that has passed every check.
struct Change {
    index: usize,
    ack: SeqNumber,
    /// The peer's window, scaled.
    window: u32,
    ts_value: u32,
    fin: bool,
}

/// A set of one state.
const fn bit(state: State) -> u16 {
    1 << state as u8
}

/// Whether nothing is going on with a connection but what its state says, and a segment with these flags moves it on.
#[inline(always)]
fn is_usual(tcb: &Tcb, ack: SeqNumber, fin: bool) -> bool {
    const ON_FIN: u16 = bit(State::Established) | bit(State::FinWait1) | bit(State::FinWait2);
    const ON_ACK: u16 = bit(State::SynReceived) | bit(State::FinWait1) | bit(State::LastAck);
    const BUSY: u16 = rare::RECOVERY
        | rare::LOSS
        | rare::PERSIST
        | rare::FIN_PENDING
        | rare::URGENT
        | rare::OUTDATED;
    // Once the peer's FIN has been taken it is nothing unusual that it was seen.
    let busy = match tcb.state {
        State::LastAck => BUSY,
        _ => BUSY | rare::FIN_SEEN,
    };
    let moves = bit(tcb.state) & if fin { ON_FIN } else { ON_ACK } != 0;
    moves
        && (ack == tcb.snd_nxt || tcb.state == State::Established)
        && tcb.rare & busy == 0
        && tcb.is(flag::TIMESTAMPS)
        && tcb.dup_acks | tcb.backoff == 0
        && tcb.unsent.is_none()
        && tcb.ooo_head.is_none()
        && !tcb.keep_deadline.is_set()
}

impl<R: Recorder> Active<'_, R> {
    /// Takes a segment that `miss` kept from being predicted when it moves a connection on in the usual way; says whether it
    /// did, and has changed nothing otherwise.
    pub(crate) fn change_predicted(&mut self, frame: &Frame, miss: Miss) -> bool {
        if self.stack.config.mechanisms.prediction != Prediction::Bidirectional {
            return false;
        }
        let outcome = match miss {
            Miss::Flags => self.acknowledgment_predicted(frame),
            Miss::NoConnection => self.syn_predicted(frame),
            _ => return false,
        };
        match outcome {
            Ok(()) => self.stack.counters.predicted_changes += 1,
            Err(reason) => self.stack.counters.change_miss(reason),
        }
        outcome.is_ok()
    }

    /// The index of the connection that a segment belongs to. It has been looked up before: with the cache it is there.
    #[inline(always)]
    pub(super) fn known(&self, key: FlowKey) -> Option<usize> {
        let stack = &*self.stack;
        match stack.tcbs.get(stack.cached) {
            Some(tcb) if tcb.key.is(key) => Some(stack.cached),
            _ => {
                cold_path();
                self.slot_of(key)
                    .filter(|slot| slot & SLOT_BIT == 0)
                    .map(|slot| slot as usize)
            }
        }
    }

    /// Takes an acknowledgment or a FIN, or leaves it to [`super::predicted_syn`].
    #[inline(always)]
    fn acknowledgment_predicted(&mut self, frame: &Frame) -> Result<(), ChangeMiss> {
        let Some(head) = self.pool.frame(frame).first_chunk::<STAMPED>() else {
            return Err(ChangeMiss::Payload);
        };
        let word = be16(head, 46);
        if word == SYN_ACK {
            return self.syn_ack_predicted(frame);
        }
        if unlikely(word & !(FIN | PSH) != STAMPED_ACK) {
            return Err(ChangeMiss::Flags);
        }
        let Change {
            index,
            ack,
            window,
            ts_value,
            fin,
        } = self.expect_change(frame, head)?;
        let Some(tcb) = self.stack.tcbs.get_mut(index) else {
            return Err(ChangeMiss::State);
        };
        let state = tcb.state;
        // RFC 7323, 4.3.
        if tcb.unacked == 0 {
            tcb.ts_recent = ts_value;
        }
        tcb.snd_wnd = window;
        if state == State::SynReceived {
            // The window of the SYN was not scaled; this one is.
            tcb.max_snd_wnd = window;
        }
        if fin {
            tcb.fin_seq = tcb.rcv_nxt;
            tcb.rare |= rare::FIN_SEEN;
        }
        if ack != tcb.snd_una {
            // A sign of life: the time to give up starts anew.
            tcb.user_deadline = Deadline::NONE;
            let min_rto = self.stack.min_rto;
            let ready = take_acknowledgment(tcb, self.pool, self.now, ack, min_rto);
            if unlikely(ready != 0) {
                self.notify(index, ready);
            }
        }
        if state == State::SynReceived {
            self.established(index);
        } else {
            self.acknowledged_fin(index);
        }
        if fin {
            self.fin_arrives(index);
            if self.stack.tcbs[index].state == State::CloseWait {
                self.acknowledge(index);
            }
        }
        self.pool.release(frame.id);
        Ok(())
    }

    /// Sends our FIN, which the state knows already, when it may go at once and nothing is queued before it; says whether it
    /// was so, and has changed nothing otherwise.
    pub(crate) fn fin_predicted(&mut self, index: usize) -> bool {
        const BUSY: u16 = rare::RECOVERY | rare::LOSS | rare::PERSIST;
        let stack = &mut *self.stack;
        let tcb = &mut stack.tcbs[index];
        let usual = tcb.unsent.is_none()
            && tcb.rare & BUSY == 0
            && tcb.state != State::SynReceived
            && tcb.in_flight() <= tcb.snd_wnd.min(tcb.cwnd)
            && stack.send_predictable
            && stack.config.mechanisms.prediction == Prediction::Bidirectional
            && stack.device.len() < stack.config.device_queue;
        if unlikely(!usual) {
            return false;
        }
        let Some(id) = self.pool.alloc() else {
            return false;
        };
        let seq = tcb.snd_nxt;
        let (meta, now) = (self.pool.meta_mut(id), self.now);
        meta.send_at_once((seq, seq + 1), 0, Wide::ZERO, Flags::FIN, now);
        if tcb.tx_head.is_none() {
            tcb.tx_head = id;
        } else {
            self.pool.meta_mut(tcb.tx_tail).tx_next = id;
        }
        tcb.tx_tail = id;
        tcb.snd_end = seq + 1;
        tcb.snd_nxt = seq + 1;
        tcb.flags &= !flag::CWND_LIMITED;
        // RFC 6298, 5.1.
        if !tcb.rtx_deadline.is_set() {
            let at = self.now.tick().after(tcb.rto);
            tcb.rtx_deadline = Deadline::at(at);
            self.arm(index, at);
        }
        self.emit(index, id, seq, Flags::FIN | Flags::ACK, 0, Wide::ZERO);
        true
    }

    /// The prediction. That the frame is an unfragmented TCP segment for us behind an intact IP header without options has
    /// been found out, and its flags.
    #[inline(always)]
    fn expect_change(&self, frame: &Frame, head: &[u8; STAMPED]) -> Result<Change, ChangeMiss> {
        let stack = &*self.stack;
        if unlikely(be16(head, 16) != TOTAL_LEN) {
            return Err(ChangeMiss::Payload);
        }
        if unlikely(head[54..58] != TIMESTAMP_LAYOUT) {
            return Err(ChangeMiss::OptionLayout);
        }
        let key = key_of(head);
        let index = self.known(key).ok_or(ChangeMiss::State)?;
        let tcb = stack.tcbs.get(index).ok_or(ChangeMiss::State)?;
        let fin = be16(head, 46) & FIN != 0;
        let ack = SeqNumber(be32(head, 42));
        if unlikely(!is_usual(tcb, ack, fin)) {
            return Err(ChangeMiss::State);
        }
        if unlikely(SeqNumber(be32(head, 38)) != tcb.rcv_nxt || tcb.rcv_edge == tcb.rcv_nxt) {
            return Err(ChangeMiss::Sequence);
        }
        if unlikely(ack - tcb.snd_una > tcb.in_flight()) {
            return Err(ChangeMiss::Acknowledgment);
        }
        let ts_value = be32(head, 58);
        if unlikely((ts_value.wrapping_sub(tcb.ts_recent) as i32) < 0) {
            return Err(ChangeMiss::Timestamp);
        }
        let window = u32::from(be16(head, 48)) << (tcb.snd_shift & 15);
        if unlikely(window == 0) {
            return Err(ChangeMiss::ZeroWindow);
        }
        let verify = stack.sums && frame.checksum != RxChecksum::Verified;
        if verify && unlikely(!segment_is_intact(head, TOTAL_LEN, Partial::ZERO)) {
            return Err(ChangeMiss::Checksum);
        }
        Ok(Change {
            index,
            ack,
            window,
            ts_value,
            fin,
        })
    }
}
