//! The scoreboard: which segments of the send queue the peer has, which are lost, and which of these are on their way again
//! (RFC 6675, 2 to 5; RFC 8985, 6.2; RFC 9937).
//!
//! Marks lie in the frames' records ([`Transmissions`]); this state has their sums, so that the bytes in flight are known without a
//! walk. Which frames lie one behind the other and are sacked stands in [`super::runs`], so that a block finds its place without a
//! walk as well. Originals were sent in the order of their sequence numbers, and so is everything that goes again after a timeout;
//! retransmissions of what is marked as lost stand in a queue in the order in which they were sent. So RACK looks at the two heads, and
//! each frame is looked at once for each time that it was sent.
//!
//! While marks stand, the TCB's congestion window is wider by the bytes that are no longer in flight ([`Scoreboard::credit`]): all
//! output holds what lies between `snd_una` and `snd_nxt` against it and needs to know nothing of marks. It must never leave a mark
//! in a frame that the sums do not have: `Tcb::assert_consistent` recomputes them in every simulation.

mod marking;

use super::prr::Prr;
use super::runs::Runs;
use super::undo::Undo;
use crate::buffer::{FrameId, Pool, Transmissions};
use crate::config::Undo as Mechanism;
use crate::stack::{Active, Stack};
use crate::tcp::deadline::Due;
use crate::tcp::recovery::rto::backed_off;
use crate::tcp::slow::segment::Segment;
use crate::tcp::tcb::{Tcb, rare};
use crate::time::{Instant, Tick};
use alloc::collections::VecDeque;
use marking::{acknowledge_frames, mark_block, split_blocks};
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::SackBlocks;

const SACKED: u8 = Transmissions::SACKED;
const LOST: u8 = Transmissions::LOST;
const RESENT: u8 = Transmissions::RESENT;

/// A place in the send queue. It stands while its sequence number is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    seq: SeqNumber,
    id: FrameId,
}

impl Cursor {
    /// The first frame at or behind the place that is still queued.
    fn frame(self, tcb: &Tcb) -> FrameId {
        if tcb.snd_una.at_or_before(self.seq) && self.id.is_some() {
            self.id
        } else {
            tcb.tx_head
        }
    }
}

/// A retransmission on its way.
#[derive(Clone, Copy, Debug)]
struct Resent {
    seq: SeqNumber,
    id: FrameId,
    /// `Meta::resent_at`, which tells it from a later one.
    at: u32,
}

/// Sums of the marks, and places to go on from.
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    /// Bytes that the peer has behind `snd_una`.
    pub(crate) sacked: u32,
    /// Frames that are sacked.
    pub(crate) sacked_frames: u32,
    /// Bytes of `sacked` that lie before `unsent`, valid while [`rare::LOSS`].
    pub(crate) passed: u32,
    /// Bytes that are lost, whether they were sent again or not.
    pub(crate) lost: u32,
    /// Bytes of these that are on their way again.
    pub(crate) resent: u32,
    /// The congestion window without credit.
    pub(crate) window: u32,
    /// SND.NXT when PRR counted last.
    counted: SeqNumber,
    /// Before this every frame was judged by when it was sent last, but for those in `retransmissions`.
    judged: Cursor,
    /// A timeout was for nothing: before `unsent` lie frames that were sent before it, and others that were sent after it. Valid while
    /// [`rare::LOSS`].
    pub(super) out_of_order: bool,
    /// Before this nothing lost waits to be sent again.
    repaired: Cursor,
    /// Frames that are sacked and lie one behind the other.
    runs: Runs,
    /// Blocks of the acknowledgment before, which need not be marked again.
    known: SackBlocks,
    /// Retransmissions in the order in which they were sent.
    retransmissions: VecDeque<Resent>,
    /// Behind everything that was sent again. Until it is acknowledged nothing is predicted: which transmission was acknowledged is
    /// looked at in general.
    resent_up_to: Option<SeqNumber>,
    /// When losses were looked for last, and RACK's window then, nanoseconds.
    pub(crate) looked: (Instant, u64),
    /// The timer is RACK's, not the retransmission timeout.
    pub(crate) reordering_timer: bool,
}

/// News of one acknowledgment.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    /// Bytes delivered, cumulatively or selectively.
    delivered: u32,
    /// Something was marked as lost.
    lost: bool,
}

impl Scoreboard {
    pub(super) fn new(tcb: &Tcb) -> Self {
        let first = Cursor {
            seq: tcb.snd_una,
            id: tcb.tx_head,
        };
        Self {
            sacked: 0,
            sacked_frames: 0,
            passed: 0,
            lost: 0,
            resent: 0,
            window: tcb.cwnd,
            counted: tcb.snd_nxt,
            judged: first,
            out_of_order: false,
            repaired: first,
            runs: Runs::new(tcb.snd_una),
            known: SackBlocks::NONE,
            retransmissions: VecDeque::new(),
            resent_up_to: None,
            looked: (Instant::ZERO, 0),
            reordering_timer: false,
        }
    }

    /// Bytes between `snd_una` and `snd_nxt` that are not in flight: sacked, or lost and not sent again (RFC 6675, 2, "Pipe").
    pub(crate) fn credit(&self, tcb: &Tcb) -> u32 {
        (self.delivered(tcb) + self.lost).saturating_sub(self.resent)
    }

    /// Bytes between `snd_una` and `snd_nxt` that are sacked.
    fn delivered(&self, tcb: &Tcb) -> u32 {
        if tcb.is_rare(rare::LOSS) {
            self.passed
        } else {
            self.sacked
        }
    }

    /// After a timeout, what the peer has is not sent again: output passes it over. Returns the bytes that it does.
    fn pass_sacked(&mut self, tcb: &mut Tcb, pool: &Pool) -> u32 {
        let before = self.passed;
        while tcb.is_rare(rare::LOSS)
            && let Some(meta) = pool.meta_if(tcb.unsent)
            && meta.transmissions.is(SACKED)
        {
            self.passed += meta.sequence_len();
            tcb.snd_nxt = tcb.snd_nxt.latest(meta.tx_end);
            tcb.unsent = meta.tx_next;
        }
        // It is not sent.
        self.counted += self.passed - before;
        self.passed - before
    }

    /// Tells whether no frame bears a mark.
    pub(crate) fn is_clear(&self) -> bool {
        self.sacked == 0 && self.lost == 0 && self.resent == 0
    }

    /// A frame that ends there was sent again.
    pub(super) fn was_resent(&mut self, end: SeqNumber) {
        let up_to = self.resent_up_to.unwrap_or(end);
        self.resent_up_to = Some(up_to.latest(end));
    }

    /// Forgets what was sent again where all of it is acknowledged.
    pub(super) fn forget_resent(&mut self, tcb: &Tcb) {
        self.resent_up_to = self.resent_up_to.filter(|end| tcb.snd_una.before(*end));
    }

    /// Takes back all losses: what was taken for lost is late, and its marks were taken off the frames.
    pub(super) fn forget_lost(&mut self, tcb: &Tcb) {
        self.lost = 0;
        self.resent = 0;
        self.retransmissions.clear();
        self.rewind(tcb);
    }

    /// Everything is looked at anew, from the first frame on.
    pub(in crate::tcp) fn rewind(&mut self, tcb: &Tcb) {
        let fresh = Self::new(tcb);
        self.judged = fresh.judged;
        self.repaired = fresh.repaired;
        self.known = SackBlocks::NONE;
    }

    /// Frame `gone` has been put into the one before it, `into`, and will be another's.
    pub(in crate::tcp) fn joined(&mut self, gone: FrameId, into: (SeqNumber, FrameId)) {
        let (seq, id) = into;
        for cursor in [&mut self.judged, &mut self.repaired] {
            if cursor.id == gone {
                *cursor = Cursor { seq, id };
            }
        }
    }

    /// Which frames are sacked one behind the other is found anew.
    fn forget_runs(&mut self, tcb: &Tcb) {
        self.runs = Runs::new(tcb.snd_una);
        self.known = SackBlocks::NONE;
    }

    /// The sequence number before which nothing that is lost waits to be sent again.
    pub(crate) fn repaired_up_to(&self, tcb: &Tcb) -> SeqNumber {
        self.repaired.seq.latest(tcb.snd_una)
    }

    /// A frame was sent again. Of those that were sent at one time the sequence number says which counts as later (RFC 8985, 6.2, step 2).
    fn enqueue(&mut self, resent: Resent) {
        let is_later = |other: &Resent| other.at == resent.at && resent.seq.before(other.seq);
        let later = self
            .retransmissions
            .iter()
            .rev()
            .take_while(|r| is_later(r));
        let place = self.retransmissions.len() - later.count();
        self.retransmissions.insert(place, resent);
    }

    /// A frame that is lost waits to be sent again.
    fn repair_from(&mut self, seq: SeqNumber, id: FrameId) {
        if seq.before(self.repaired.seq) {
            self.repaired = Cursor { seq, id };
        }
    }

    /// A frame leaves the sums, because it is acknowledged or its marks go. Whether it lies before `unsent` says `passed`.
    fn subtract(&mut self, marks: Transmissions, len: u32, passed: bool) {
        if marks.is(SACKED) {
            if passed {
                self.passed = self.passed.saturating_sub(len);
            }
            self.sacked = self.sacked.saturating_sub(len);
            self.sacked_frames = self.sacked_frames.saturating_sub(1);
        }
        if marks.is(LOST) {
            self.lost = self.lost.saturating_sub(len);
        }
        if marks.is(RESENT) {
            self.resent = self.resent.saturating_sub(len);
        }
    }
}

impl Stack {
    /// Tells whether the retransmission timer of a connection is RACK's.
    pub(in crate::tcp) fn waits_for_reordering(&self, index: usize) -> bool {
        let state = self.recovery(index);
        state.is_some_and(|state| state.board.reordering_timer)
    }
}

impl<R: Recorder> Active<'_, R> {
    /// An acknowledgment of a connection with selective acknowledgments: marks, judges, repairs. What it means for the send queue
    /// below `ack` has not been done yet where it `advances`; `advance` does that. Says whether RACK's window has grown.
    pub(in crate::tcp) fn selective_acknowledgment(
        &mut self,
        index: usize,
        segment: &Segment,
        advances: bool,
        advance: impl FnOnce(&mut Self),
    ) -> bool {
        let header = &segment.header;
        let shortest = self.stack.controllers.min_rtt_ns(index);
        let (now, pool) = (self.now, &mut *self.pool);
        let (tcb, state) = self.stack.recovery_of(index);
        if !tcb.is_rare(rare::SCOREBOARD) {
            state.board.window = tcb.cwnd;
            state.board.counted = tcb.snd_nxt;
            state.board.passed = 0;
            state.board.forget_runs(tcb);
            state.board.rewind(tcb);
            state.rack.begin(tcb);
        }
        state.rack.look(shortest);
        // Until the end of this function the window is the window.
        tcb.cwnd = state.board.window;
        let ack = header.ack;
        let echo = header.options.echo();
        let (blocks, duplicate) = split_blocks(tcb, ack, header.options.sack);
        if let Some(duplicate) = duplicate {
            state.reported_duplicates = state.reported_duplicates.saturating_add(1);
            if let Some(undo) = &mut state.undo {
                undo.report(duplicate);
            }
        }
        let mut news = News::default();
        if advances {
            news.delivered += acknowledge_frames(tcb, state, pool, ack, (now, echo));
        }
        let acknowledged = if advances { ack } else { tcb.snd_una };
        state.board.runs.acknowledge(acknowledged);
        let mut known = SackBlocks::NONE;
        for &block in blocks.as_slice() {
            let (delivered, whole) = mark_block(tcb, state, pool, block, (now, echo));
            news.delivered += delivered;
            if whole {
                known.push(block);
            }
        }
        state.board.known = known;
        let before = tcb.snd_una;
        if let Some(took) = state.rack.sample_ns() {
            let stack = &mut *self.stack;
            let tcb = &mut stack.tcbs[index];
            stack.controllers.take_round_trip(tcb, index, took, now);
        }
        if advances {
            // Outside of a recovery the controller opens the window with it.
            advance(self);
        }
        let (tcb, state) = self.stack.recovery_of(index);
        let grows = duplicate.is_some() && state.rack.duplicate_reported(tcb);
        let undone = self.undo_if_spurious(index, echo, advances);
        news.lost = self.detect_losses(index);
        let acked = if advances { ack - before } else { 0 };
        self.change_phase(index, &news, (acked, advances), undone);
        self.settle(index);
        self.repair(index);
        grows
    }

    /// RACK's timer has fired: judges anew.
    pub(in crate::tcp) fn reordering_timeout(&mut self, index: usize) {
        let longest = self.stack.max_rto;
        let (tcb, state) = self.stack.recovery_of(index);
        state.board.reordering_timer = false;
        tcb.cwnd = state.board.window;
        let rto = backed_off(tcb.rto, tcb.backoff, longest);
        self.set_due(index, Due::Retransmission, rto);
        let lost = self.detect_losses(index);
        let news = News { delivered: 0, lost };
        self.change_phase(index, &news, (0, false), false);
        self.settle(index);
        self.repair(index);
        self.output(index);
    }

    /// Everything that is not sacked is sent again from the first frame on (RFC 6675, 5.1; RFC 8985, 6.3): it is lost by being
    /// behind `unsent`, and needs no mark. A peer that has not kept what it had, as a first frame shows that is sacked, is believed
    /// nothing any more (RFC 2018, 8).
    pub(in crate::tcp) fn forget_losses(&mut self, index: usize) {
        if !self.stack.tcbs[index].is_rare(rare::RECOVERY_STATE) {
            return;
        }
        let pool = &mut *self.pool;
        let (tcb, state) = self.stack.recovery_of(index);
        state.board.out_of_order = false;
        if !tcb.is_rare(rare::SCOREBOARD) {
            return;
        }
        tcb.cwnd = state.board.window;
        let reneged = pool
            .meta_if(tcb.tx_head)
            .is_some_and(|first| first.transmissions.is(SACKED));
        let forgotten = if reneged {
            SACKED | LOST | RESENT
        } else {
            LOST | RESENT
        };
        let mut id = tcb.tx_head;
        while let Some(meta) = pool.meta_mut_if(id) {
            if meta.transmissions.is_none() {
                break;
            }
            meta.transmissions.unmark(forgotten);
            id = meta.tx_next;
        }
        state.board.lost = 0;
        state.board.resent = 0;
        state.board.passed = 0;
        if reneged {
            state.board.sacked = 0;
            state.board.sacked_frames = 0;
        }
        state.board.retransmissions.clear();
        state.board.reordering_timer = false;
        // What is sent from now on was not looked at.
        state.board.looked = (Instant::ZERO, 0);
        state.board.forget_runs(tcb);
        state.board.rewind(tcb);
        state.undo = None;
    }

    /// Writes down the window, widens it by what is not in flight, and says whether marks stand.
    pub(in crate::tcp) fn settle(&mut self, index: usize) {
        let pool = &*self.pool;
        let (tcb, state) = self.stack.recovery_of(index);
        state.board.window = tcb.cwnd;
        state.board.pass_sacked(tcb, pool);
        let up_to = state.board.resent_up_to;
        let told_apart = up_to.is_none_or(|end| end.at_or_before(tcb.snd_una));
        let waits = state.board.reordering_timer || tcb.is_rare(rare::RECOVERY);
        if state.board.is_clear() && told_apart && !waits {
            state.board.resent_up_to = None;
            tcb.rare &= !rare::SCOREBOARD;
            state.board.retransmissions.clear();
            self.stack.allow_probe(self.pool, index);
        } else {
            tcb.rare |= rare::SCOREBOARD;
            tcb.cwnd += state.board.credit(tcb);
        }
        self.stack.tcbs[index].predict();
    }

    /// Passes over what the peer has of what comes next, after a timeout. The window is wider by that.
    pub(in crate::tcp) fn pass_sacked(&mut self, index: usize) {
        if self.stack.tcbs[index].is_rare(rare::SCOREBOARD) {
            let pool = &*self.pool;
            let (tcb, state) = self.stack.recovery_of(index);
            tcb.cwnd += state.board.pass_sacked(tcb, pool);
        }
    }

    /// A frame that is sacked is split: it is no longer all of what its run names.
    #[cold]
    pub(in crate::tcp) fn sacked_frame_split(&mut self, index: usize) {
        let (tcb, state) = self.stack.recovery_of(index);
        state.board.forget_runs(tcb);
    }

    /// While marks stand, takes what is not in flight out of the window, until it is settled.
    pub(in crate::tcp) fn without_credit(&mut self, index: usize) {
        if self.stack.tcbs[index].is_rare(rare::SCOREBOARD) {
            let (tcb, state) = self.stack.recovery_of(index);
            tcb.cwnd = state.board.window;
        }
    }

    /// Settles where there is something to settle.
    pub(in crate::tcp) fn settle_if_marked(&mut self, index: usize) {
        if self.stack.tcbs[index].is_rare(rare::SCOREBOARD) {
            self.settle(index);
        }
    }

    /// RFC 8985, 6.2, step 5: marks what is lost, and sets the timer for what may soon be. Says whether anything was marked.
    fn detect_losses(&mut self, index: usize) -> bool {
        let longest = self.stack.max_rto;
        let (now, pool) = (self.now, &mut *self.pool);
        let (tcb, state) = self.stack.recovery_of(index);
        if tcb.is_rare(rare::PERSIST) {
            // When the window opens, everything goes again.
            return false;
        }
        let now_ns = now.as_nanos();
        let recovering = tcb.is_rare(rare::RECOVERY | rare::LOSS);
        // After a timeout everything goes again in order.
        let in_order = tcb.is_rare(rare::LOSS) && !state.board.out_of_order;
        let window =
            state
                .rack
                .window_ns(recovering, state.board.sacked_frames, tcb.rtt.smoothed_ns());
        let (board, rack) = (&mut state.board, &state.rack);
        board.looked = (now, window);
        let mut wait: Option<u64> = None;
        let mut marked = false;
        let mut id = board.judged.frame(tcb);
        // A frame whose marks were taken back was sent last at another time than its neighbours.
        let mut undecided = None;
        while id != tcb.unsent
            && let Some(meta) = pool.meta_mut_if(id)
        {
            if !meta.transmissions.is(SACKED | LOST) {
                let sent = meta.last_sent_ns(now);
                match rack.lost_in(sent, meta.tx_end, window, now_ns) {
                    Some(0) => {
                        meta.transmissions.mark(LOST);
                        board.lost += meta.sequence_len();
                        board.repair_from(meta.tx_seq, id);
                        marked = true;
                    }
                    left => {
                        wait = wait.into_iter().chain(left).min();
                        undecided.get_or_insert(Cursor {
                            seq: meta.tx_seq,
                            id,
                        });
                        if in_order || meta.sent_once_at.is_some() {
                            break;
                        }
                    }
                }
            }
            id = meta.tx_next;
        }
        let seq = pool.meta_if(id).map_or(tcb.snd_nxt, |meta| meta.tx_seq);
        board.judged = undecided.unwrap_or(Cursor { seq, id });
        while let Some(&first) = board.retransmissions.front() {
            let meta = pool.meta_mut(first.id);
            // A part of the first frame may be acknowledged.
            let is_head = first.id == tcb.tx_head && meta.tx_seq == first.seq;
            let alive = is_head || tcb.snd_una.at_or_before(first.seq);
            if alive && meta.transmissions.is(RESENT) && meta.resent_at == first.at {
                let sent = meta.last_sent_ns(now);
                match rack.lost_in(sent, meta.tx_end, window, now_ns) {
                    Some(0) => {
                        meta.transmissions.unmark(RESENT);
                        board.resent = board.resent.saturating_sub(meta.sequence_len());
                        board.repair_from(first.seq, first.id);
                        marked = true;
                    }
                    left => {
                        wait = wait.into_iter().chain(left).min();
                        break;
                    }
                }
            }
            board.retransmissions.pop_front();
        }
        if tcb.in_flight() == 0 {
            board.reordering_timer = false;
        } else if let Some(wait) = wait {
            board.reordering_timer = true;
            // One tick more, since the present one has begun.
            let ticks = (wait >> Tick::SHIFT) as u32 + 2;
            self.set_due(index, Due::Retransmission, ticks);
        } else if board.reordering_timer {
            board.reordering_timer = false;
            let rto = backed_off(tcb.rto, tcb.backoff, longest);
            self.set_due(index, Due::Retransmission, rto);
        }
        marked
    }

    /// Begins a recovery, goes on with one, or ends one. Outside of recoveries the controller has opened the window already.
    fn change_phase(
        &mut self,
        index: usize,
        news: &News,
        (acked, advances): (u32, bool),
        undone: bool,
    ) {
        let stamp = self.now.tick().0;
        let reduced = self.stack.is_reduced(index);
        let undoes = self.stack.config.mechanisms.undo == Mechanism::On;
        let (tcb, state) = self.stack.recovery_of(index);
        let una = tcb.snd_una;
        let mss = u32::from(tcb.mss);
        if tcb.is_rare(rare::RECOVERY) && tcb.recover.at_or_before(una) {
            tcb.rare &= !rare::RECOVERY;
            // RFC 9937, 6: the window is what the flight has come down to.
            tcb.cwnd = tcb.ssthresh;
            if let Some(undo) = &mut state.undo {
                undo.end = Some(tcb.snd_nxt);
            }
            self.mtu_recovery_ends(index);
        } else if news.lost && self.mtu_recovery_ends(index) {
            // More is lost than the probe of the path's MTU.
            let stack = &mut *self.stack;
            let tcb = &mut stack.tcbs[index];
            let flight = tcb.in_flight() + acked;
            stack.controllers.on_loss(tcb, index, flight);
            let (_, state) = self.stack.recovery_of(index);
            state.prr = Prr::begin(flight);
        }
        let (tcb, state) = self.stack.recovery_of(index);
        // After a timeout it is a retransmission that is lost, which is a second sign of congestion (RFC 5681, 4.3).
        let twice = tcb.is_rare(rare::LOSS);
        let begins =
            state.board.lost > state.board.resent && !tcb.is_rare(rare::RECOVERY) && !undone;
        let alone = begins && tcb.is_rare(rare::MTU_PROBE) && self.mtu_probe_is_lost_alone(index);
        let (tcb, state) = self.stack.recovery_of(index);
        if begins {
            // RFC 9937, 6: what was sacked before does not count, what this acknowledgment brought does.
            let flight = tcb.in_flight() + acked;
            let before = state
                .board
                .delivered(tcb)
                .saturating_sub(news.delivered.saturating_sub(acked));
            tcb.remember_recovery(tcb.highest_sent());
            tcb.rare |= rare::RECOVERY;
            tcb.rare &= !rare::PROBE;
            tcb.fast_retransmits = tcb.fast_retransmits.saturating_add(1);
            if !twice {
                state.undo = (undoes && !reduced && !alone)
                    .then(|| Undo::of_recovery(stamp.wrapping_add(tcb.ts_offset)));
            }
            state.prr = Prr::begin(flight.saturating_sub(before));
            state.board.counted = tcb.snd_nxt;
            let stack = &mut *self.stack;
            stack.counters.fast_retransmits += 1;
            let (tcb, controllers) = (&mut stack.tcbs[index], &mut stack.controllers);
            if twice {
                controllers.on_further_loss(tcb, index, flight);
                stack.window_reduced(index);
            } else if !alone && !reduced {
                // RFC 3168, 6.1.2: not twice in one window.
                controllers.on_loss(tcb, index, flight);
                stack.window_reduced(index);
            }
        }
        let (tcb, state) = self.stack.recovery_of(index);
        if tcb.is_rare(rare::RECOVERY) {
            // New data that went out since the last acknowledgment.
            state.prr.sent(tcb.snd_nxt - state.board.counted);
            state.board.counted = tcb.snd_nxt;
            let pipe = tcb.in_flight().saturating_sub(state.board.credit(tcb));
            let safe = advances && !news.lost;
            if news.delivered != 0 || begins {
                tcb.cwnd = state
                    .prr
                    .window(news.delivered, pipe, tcb.ssthresh, mss, safe);
            }
        }
    }

    /// Sends again what is lost, as far as the window allows (RFC 6675, 5, step C).
    fn repair(&mut self, index: usize) {
        loop {
            let room = self.device_has_room();
            let pool = &mut *self.pool;
            let (tcb, state) = self.stack.recovery_of(index);
            let board = &mut state.board;
            if !tcb.is_rare(rare::RECOVERY) || board.lost == board.resent || !room {
                return;
            }
            let mut id = board.repaired.frame(tcb);
            while id != tcb.unsent
                && let Some(meta) = pool.meta_if(id)
                && (!meta.transmissions.is(LOST) || meta.transmissions.is(RESENT))
            {
                id = meta.tx_next;
            }
            let lost = pool.meta_if(id).filter(|_| id != tcb.unsent);
            let Some(meta) = lost else {
                return;
            };
            let (seq, first_end) = (meta.tx_seq, meta.tx_end);
            board.repaired = Cursor { seq, id };
            let pipe = tcb.in_flight().saturating_sub(board.credit(tcb));
            let room = board.window.saturating_sub(pipe);
            if meta.sequence_len() > room {
                return;
            }
            let edge = (seq + room).earliest(tcb.snd_una + tcb.snd_wnd);
            self.join_to_send_again(index, id, edge);
            if !self.retransmit(index, id) {
                return;
            }
            let pool = &mut *self.pool;
            let (tcb, state) = self.stack.recovery_of(index);
            let meta = pool.meta_mut(id);
            let len = meta.sequence_len();
            meta.transmissions.mark(RESENT);
            state.board.resent += len;
            state.board.was_resent(meta.tx_end);
            state.board.enqueue(Resent {
                seq,
                id,
                at: meta.resent_at,
            });
            state.prr.sent(len);
            if let Some(undo) = &mut state.undo {
                undo.resend(meta.payload_block(), first_end);
            }
            // It is in flight again.
            tcb.cwnd = tcb.cwnd.saturating_sub(len);
        }
    }
}
