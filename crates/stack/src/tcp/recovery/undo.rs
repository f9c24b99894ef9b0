//! Undo: windows come back that were reduced for nothing, since what was taken for lost was late (RFC 3522, 4015, 3708).
//!
//! Owns the evidence. The timestamp that an acknowledgment echoes is older than the retransmission (Eifel detection, RFC 3522), or the peer
//! reports that it has everything twice that was sent again (RFC 2883, 5; RFC 3708). The controller keeps what the windows were.
//! After a timeout that was for nothing output goes on with new data (Eifel response, RFC 4015). The timer takes the delay in as it does any round
//! trip: the estimate that RFC 4015, 3.2 makes of it at once would be that of a lost acknowledgment as well.
//!
//! It must never judge by what the network has doubled, nor twice by one reduction.

use crate::buffer::{Pool, Transmissions};
use crate::config::Undo as Mechanism;
use crate::stack::{Active, Stack};
use crate::tcp::cc;
use crate::tcp::recovery::Recovery;
use crate::tcp::tcb::{Tcb, flag, rare};
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::SackBlock;

const LOST: u8 = Transmissions::LOST;
const RESENT: u8 = Transmissions::RESENT;

/// Reason for which the windows were reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Segments that were taken for lost.
    Losses,
    /// The retransmission timer. The first acknowledgment that moves on is the one whose timestamp counts (RFC 3522, 3.2).
    Timeout,
}

/// Evidence that nothing was lost after all, and the windows of before are the right ones (RFC 4015; RFC 2883, 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undo {
    cause: Cause,
    /// Our timestamp when it began.
    began: u32,
    /// Behind the segment that was sent again first, as it was sent before.
    first: Option<SeqNumber>,
    /// From the first to the last byte that was sent again.
    range: Option<SackBlock>,
    /// Bytes sent again.
    resent: u32,
    /// Bytes within that range that the peer has reported to have twice.
    reported: u32,
    /// A timestamp has been looked at after the timeout.
    is_judged: bool,
    /// When more than this is acknowledged, no report of what was sent again will come any more. It is not known while the recovery goes on.
    pub(super) end: Option<SeqNumber>,
}

impl Undo {
    /// A recovery begins, with this timestamp.
    pub(super) fn of_recovery(began: u32) -> Self {
        Self::new(Cause::Losses, began)
    }

    fn new(cause: Cause, began: u32) -> Self {
        Self {
            cause,
            began,
            first: None,
            range: None,
            resent: 0,
            reported: 0,
            is_judged: false,
            end: None,
        }
    }

    /// A segment with this payload is sent again, whose first part ended at `first` when it was sent before.
    pub(super) fn resend(&mut self, payload: SackBlock, first: SeqNumber) {
        self.first.get_or_insert(first);
        let range = self.range.get_or_insert(payload);
        range.start = range.start.earliest(payload.start);
        range.end = range.end.latest(payload.end);
        self.resent = self.resent.saturating_add(payload.end - payload.start);
    }

    /// The peer has these bytes twice. The network may double what was never sent again: that says nothing of this recovery.
    pub(super) fn report(&mut self, duplicate: SackBlock) {
        let Some(range) = self.range else { return };
        if range.start.at_or_before(duplicate.start) && duplicate.start.before(range.end) {
            // Some peers count a FIN.
            let end = duplicate.end.earliest(range.end);
            self.reported = self.reported.saturating_add(end - duplicate.start);
        }
    }

    /// Tells whether all that was sent again has arrived twice.
    fn is_doubled(&self) -> bool {
        self.resent != 0 && self.reported >= self.resent
    }

    /// Tells whether an acknowledgment up to `una` covers the first segment that was sent again and echoes a timestamp from before.
    fn is_echo_older(&self, una: SeqNumber, echo: Option<u32>) -> bool {
        self.first.is_some_and(|end| end.at_or_before(una))
            && echo.is_some_and(|echo| (echo.wrapping_sub(self.began) as i32) < 0)
    }
}

/// A recovery was for nothing: what was taken for lost is late.
fn forget_lost(tcb: &mut Tcb, state: &mut Recovery, pool: &mut Pool) {
    tcb.rare &= !rare::RECOVERY;
    let mut id = tcb.tx_head;
    while id != tcb.unsent
        && let Some(meta) = pool.meta_mut_if(id)
    {
        meta.transmissions.unmark(LOST | RESENT);
        id = meta.tx_next;
    }
    state.board.forget_lost(tcb);
}

impl Stack {
    /// The network says that it is congested: a reduction stays that was, perhaps, for nothing.
    #[cold]
    pub(in crate::tcp) fn keep_reduction(&mut self, index: usize) {
        if self.tcbs[index].is_rare(rare::RECOVERY_STATE) {
            let (_, state) = self.recovery_of(index);
            state.undo = None;
        }
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Goes back to the windows of before where nothing was lost: the first segment that was sent again is acknowledged by a timestamp
    /// from before that (RFC 3522, RFC 4015), or the peer reports all that was sent again to have arrived twice (RFC 2883, 5), or
    /// nothing had to be sent again.
    pub(in crate::tcp) fn undo_if_spurious(
        &mut self,
        index: usize,
        echo: Option<u32>,
        advances: bool,
    ) -> bool {
        let pool = &mut *self.pool;
        let (tcb, state) = self.stack.recovery_of(index);
        let Some(undo) = state.undo else {
            return false;
        };
        // After a timeout the first acknowledgment has been judged ([`Active::judge_timeout`]).
        let advances = advances && undo.cause == Cause::Losses;
        let recovering = tcb.is_rare(rare::RECOVERY) && advances;
        let older = recovering && undo.is_echo_older(tcb.snd_una, echo);
        // All that was taken for lost has arrived before it was sent again.
        let early = recovering && undo.first.is_none() && state.board.lost == 0;
        if !(older || early || undo.is_doubled()) {
            if undo.end.is_some_and(|end| end.before(tcb.snd_una)) {
                state.undo = None;
            }
            return false;
        }
        state.undo = None;
        state.undone = state.undone.saturating_add(1);
        forget_lost(tcb, state, pool);
        let stack = &mut *self.stack;
        stack.controllers.on_undo(&mut stack.tcbs[index], index);
        stack.reduction_undone(index);
        true
    }

    /// The retransmission timer has fired for the first time since something was acknowledged: from now on it is looked for signs that it
    /// was for nothing. Later timeouts of the same segment leave the time of the first, which is the time that the windows of before
    /// belong to.
    #[cold]
    pub(in crate::tcp) fn suspect_timeout(&mut self, index: usize, first: bool) {
        if !first || self.stack.config.mechanisms.undo == Mechanism::Off {
            return;
        }
        let stamp = self.now.tick().0;
        let (tcb, state) = self.stack.recovery_of(index);
        let began = stamp.wrapping_add(tcb.ts_offset);
        state.undo = Some(Undo::new(Cause::Timeout, began));
    }

    /// A segment with this payload is sent again after a timeout, whose first part ended at `first` before.
    #[cold]
    pub(in crate::tcp) fn note_sent_again(
        &mut self,
        index: usize,
        payload: SackBlock,
        first: SeqNumber,
    ) {
        if !self.stack.tcbs[index].is_rare(rare::RECOVERY_STATE) {
            return;
        }
        let (_, state) = self.stack.recovery_of(index);
        if let Some(undo) = &mut state.undo {
            undo.resend(payload, first);
        }
    }

    /// After a timeout an acknowledgment up to `ack` arrives that moves on, which has not been taken in. When the timeout was for nothing,
    /// everything is as if it had not been, but that the window opens by slow start (RFC 4015, 3.2).
    #[cold]
    pub(in crate::tcp) fn judge_timeout(
        &mut self,
        index: usize,
        ack: SeqNumber,
        echo: Option<u32>,
    ) {
        let (tcb, state) = self.stack.recovery_of(index);
        let Some(undo) = &mut state.undo else {
            return;
        };
        if undo.cause != Cause::Timeout || undo.is_judged {
            return;
        }
        undo.is_judged = true;
        if !undo.is_echo_older(ack, echo) {
            return;
        }
        state.undo = None;
        state.undone = state.undone.saturating_add(1);
        // More may have been sent since than before the timeout.
        let sent = tcb.highest_sent();
        let flight = sent - tcb.snd_una;
        self.without_credit(index);
        let (tcb, state) = self.stack.recovery_of(index);
        forget_lost(tcb, state, self.pool);
        state.board.out_of_order = true;
        while let Some(meta) = self.pool.meta_if(tcb.unsent)
            && meta.tx_end.at_or_before(sent)
        {
            tcb.unsent = meta.tx_next;
        }
        state.board.passed = state.board.sacked;
        match self.pool.meta_if(tcb.unsent) {
            // It has grown since it was sent, and goes again whole.
            Some(meta) if meta.tx_seq.before(sent) => tcb.snd_nxt = meta.tx_seq,
            _ => {
                tcb.rare &= !rare::LOSS;
                tcb.snd_nxt = sent;
            }
        }
        // What is acknowledged was sent before the timer was backed off, and no duplicate comes from what was sent again in vain.
        tcb.backoff = 0;
        tcb.flags &= !flag::RECOVER;
        let stack = &mut *self.stack;
        let (tcb, controllers) = (&mut stack.tcbs[index], &mut stack.controllers);
        if controllers.on_undo(tcb, index) {
            // Less than RFC 4015, 3.2 would be no window for a full segment where little was in flight.
            tcb.cwnd = tcb.cwnd.min(flight + cc::initial_window(tcb.mss));
        }
        stack.reduction_undone(index);
        self.settle_if_marked(index);
        self.stack.tcbs[index].predict();
    }

    /// All that was sent before a timeout is acknowledged: reports of what was sent again may follow until `end` is.
    #[cold]
    pub(in crate::tcp) fn timeout_is_over(&mut self, index: usize, end: SeqNumber) {
        if !self.stack.tcbs[index].is_rare(rare::RECOVERY_STATE) {
            return;
        }
        let (_, state) = self.stack.recovery_of(index);
        if let Some(undo) = &mut state.undo {
            undo.end = Some(end);
        }
    }
}
