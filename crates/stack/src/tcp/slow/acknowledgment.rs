//! "Fifth, check the ACK field" (RFC 9293, 3.10.7.4): what an acknowledgment that was not predicted means for what was
//! sent.
//!
//! New acknowledgments, duplicates and the loss that three of them mean (RFC 5681, RFC 6582), the send window, the
//! acknowledgment of a FIN, and a path that takes only smaller packets (RFC 1191).

use crate::buffer::Transmissions;
use crate::stack::Active;
use crate::tcp::cc;
use crate::tcp::deadline::{Deadline, Due};
use crate::tcp::recovery::rto::backed_off;
use crate::tcp::slow::segment::Segment;
use crate::tcp::slow::syn::{set_mss, set_mss_to};
use crate::tcp::tcb::{State, Tcb, flag, rare};
use core::hint::cold_path;
use tollgate_checksum::Partial;
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::{Flags, Header};

/// Duplicate acknowledgments that mean a loss (RFC 5681, 3.2).
const DUPLICATES: u8 = 3;
/// Recovery from a loss, a fast one or one from a timeout.
const RECOVERS: u32 = rare::RECOVERY | rare::LOSS;

impl<R: Recorder> Active<'_, R> {
    /// "Fifth, check the ACK field", for synchronized states. False: the segment is dropped.
    pub(in crate::tcp) fn acknowledgment_arrives(
        &mut self,
        index: usize,
        segment: &Segment,
    ) -> bool {
        let header = &segment.header;
        let ack = header.ack;
        let tcb = &mut self.stack.tcbs[index];
        // After a timeout snd_nxt went back, but what was sent before may still be acknowledged.
        let sent = tcb.highest_sent();
        // RFC 5961, 5.2: SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT.
        let oldest = tcb.snd_una - tcb.max_snd_wnd.max(u32::from(u16::MAX));
        if !ack.within(oldest, sent) {
            self.challenge(index);
            return false;
        }
        // RFC 7323, 4.3: the segment that spans the last acknowledgment sent moves TS.Recent. It is looked at here, since a
        // segment that is discarded must change nothing.
        let stamps = header
            .options
            .timestamps
            .filter(|_| tcb.is(flag::TIMESTAMPS));
        if let Some(stamps) = stamps
            && header.seq.at_or_before(tcb.rcv_nxt)
            && tcb.unacked == 0
        {
            tcb.take_timestamp(stamps.value, self.now.tick());
        }
        if tcb.is_rare(rare::PERSIST) && !tcb.is_rare(rare::ORPHAN) {
            // RFC 9293, MUST-37: a peer that answers probes keeps the connection open. An application that is gone cannot
            // end it, so for its connection only progress counts (RFC 6429, 4).
            self.progress(index);
        }
        let tcb = &self.stack.tcbs[index];
        let advances = tcb.snd_una.before(ack);
        let echo = stamps.map(|stamps| stamps.echo);
        let selective = tcb.is_rare(rare::SACK_PERMITTED);
        let probed = tcb.is_rare(rare::PROBE);
        let acked = if advances { ack - tcb.snd_una } else { 0 };
        let outstanding = tcb
            .is_rare(rare::ACCURATE_ECN)
            .then(|| self.outstanding(index, ack));
        let tcb = &self.stack.tcbs[index];
        let told = header.options.sack.is_some() || tcb.is_rare(rare::SCOREBOARD);
        let recovers = tcb.is_rare(RECOVERS);
        let mut grows = false;
        if advances
            && tcb.rare & (rare::LOSS | rare::RECOVERY_STATE) == rare::LOSS | rare::RECOVERY_STATE
        {
            self.judge_timeout(index, ack, echo);
        }
        if selective && told {
            grows = self.selective_acknowledgment(index, segment, advances, |this| {
                this.new_acknowledgment(index, ack, echo);
            });
            self.stack.tcbs[index].keep_probes_answered();
        } else if advances {
            self.new_acknowledgment(index, ack, echo);
        } else if selective {
            self.stack.tcbs[index].keep_probes_answered();
        } else {
            self.maybe_duplicate(index, segment);
        }
        if recovers && !grows && !self.stack.tcbs[index].is_rare(RECOVERS) {
            self.stack.has_recovered(index);
        }
        if probed && self.stack.tcbs[index].is_rare(rare::PROBE) {
            self.probe_answered(index, segment, acked);
        }
        if self.stack.tcbs[index].is_rare(rare::MTU_PROBE) {
            self.mtu_probe_answered(index);
        }
        if let Some(outstanding) = outstanding {
            cold_path();
            self.take_counter(index, segment, acked, outstanding);
        } else if header.flags.has(Flags::ECE) {
            self.congestion_echoed(index, acked);
        }
        self.window_update(index, header, advances);
        self.acknowledged_fin(index);
        true
    }

    fn new_acknowledgment(&mut self, index: usize, ack: SeqNumber, echo: Option<u32>) {
        let tcb = &mut self.stack.tcbs[index];
        while tcb.unsent.is_some() && self.pool.meta(tcb.unsent).tx_end.at_or_before(ack) {
            tcb.unsent = self.pool.meta(tcb.unsent).tx_next;
        }
        tcb.snd_nxt = tcb.snd_nxt.latest(ack);
        let acked = ack - tcb.snd_una;
        // With a scoreboard all that a recovery does to the window is decided there.
        let marked = tcb.is_rare(rare::SCOREBOARD);
        let limited = tcb.is(flag::CWND_LIMITED) || tcb.is_rare(rare::LOSS);
        let recovering = tcb.is_rare(rare::RECOVERY);
        // In a recovery the window moves by the rules below, otherwise with the acknowledgment.
        if limited && !recovering {
            tcb.flags |= flag::CWND_LIMITED;
        } else {
            tcb.flags &= !flag::CWND_LIMITED;
        }
        tcb.dup_acks = 0;
        // The application has answered: its answers carry acknowledgments.
        tcb.quick = 0;
        // Karn (RFC 6298, 5): the timeout stays backed off until something is timed. Window probes say nothing of the path.
        let backoff = core::mem::take(&mut tcb.backoff);
        if !tcb.is_rare(rare::PERSIST) {
            let longest = self.stack.max_rto.min(u32::from(u16::MAX));
            tcb.rto = backed_off(tcb.rto, backoff, longest) as u16;
        }
        self.acknowledged(index, ack, echo);
        self.progress(index);
        let tcb = &mut self.stack.tcbs[index];
        if recovering && !marked {
            if tcb.recover.at_or_before(ack) {
                tcb.rare &= !rare::RECOVERY;
                let window = tcb.ssthresh;
                cc::on_recovered(tcb);
                if self.mtu_recovery_ends(index) {
                    self.stack.tcbs[index].cwnd = window;
                }
            } else {
                // RFC 6582, 3.2, step 3: a partial acknowledgment names the next hole.
                cc::on_partial_ack(tcb, acked);
                self.retransmit_first(index);
            }
        }
        let tcb = &mut self.stack.tcbs[index];
        // A segment that has grown since it was sent first ends behind that, and is sent again all the same.
        let once = u8::from(tcb.tx_head != tcb.unsent);
        let first = self.pool.meta_if(tcb.tx_head);
        let again = first.is_some_and(|first| first.transmissions.count() > once);
        if tcb.is_rare(rare::LOSS) && tcb.snd_max.at_or_before(ack) && !again {
            tcb.rare &= !rare::LOSS;
            let end = tcb.snd_nxt;
            self.timeout_is_over(index, end);
        }
        self.stack.tcbs[index].predict();
    }

    /// RFC 5681, 2: a duplicate acknowledgment has no data, the same window, and finds something outstanding.
    fn maybe_duplicate(&mut self, index: usize, segment: &Segment) {
        let header = &segment.header;
        let tcb = &mut self.stack.tcbs[index];
        let window = u32::from(header.window) << tcb.snd_shift;
        let duplicate = segment.len == 0
            && !header.flags.any(Flags::SYN | Flags::FIN)
            && header.ack == tcb.snd_una
            && window == tcb.snd_wnd
            && tcb.in_flight() != 0
            && !tcb.is_rare(rare::PERSIST);
        tcb.keep_probes_answered();
        if !duplicate {
            return;
        }
        if tcb.is_rare(rare::RECOVERY) {
            cc::on_duplicate_in_recovery(tcb);
            return;
        }
        tcb.dup_acks = tcb.dup_acks.saturating_add(1);
        tcb.predict();
        if tcb.dup_acks < DUPLICATES {
            // RFC 3042: limited transmit, outside of the congestion window and without changing it.
            let window = tcb.cwnd;
            tcb.cwnd += u32::from(tcb.dup_acks) * u32::from(tcb.mss);
            self.output(index);
            self.stack.tcbs[index].cwnd = window;
        } else if tcb.dup_acks == DUPLICATES && !tcb.is(flag::RECOVER) && !tcb.is_rare(rare::LOSS) {
            let alone = tcb.is_rare(rare::MTU_PROBE) && self.mtu_probe_is_missing(index);
            let tcb = &mut self.stack.tcbs[index];
            // RFC 6582, 3.2, step 2: only when nothing sent before the last recovery is still out.
            tcb.remember_recovery(tcb.snd_nxt);
            tcb.rare |= rare::RECOVERY;
            tcb.fast_retransmits = tcb.fast_retransmits.saturating_add(1);
            let flight = tcb.in_flight();
            if !alone {
                self.stack.controllers.on_loss(tcb, index, flight);
                self.stack.window_reduced(index);
            }
            let tcb = &mut self.stack.tcbs[index];
            cc::on_fast_retransmit(tcb);
            tcb.predict();
            self.stack.counters.fast_retransmits += 1;
            self.retransmit_first(index);
        }
    }

    /// "the send window should be updated" (3.10.7.4), never by an old segment.
    fn window_update(&mut self, index: usize, header: &Header, advances: bool) {
        let tcb = &mut self.stack.tcbs[index];
        tcb.check_wl1();
        let ahead = tcb.is_rare(rare::WL1_AHEAD);
        // What begins before rcv_nxt is older than what moved that.
        let newest = if ahead { tcb.snd_wl1 } else { tcb.rcv_nxt };
        // Who acknowledges more than ever before speaks last, also in a probe, whose sequence number goes back.
        let latest = advances || newest.at_or_before(header.seq);
        if header.ack.before(tcb.snd_una) || !latest {
            return;
        }
        if tcb.rcv_nxt.before(header.seq) {
            tcb.snd_wl1 = newest.latest(header.seq);
            tcb.rare |= rare::WL1_AHEAD;
        }
        tcb.take_window(u32::from(header.window) << tcb.snd_shift);
        if tcb.is_rare(rare::PERSIST) && self.window_suffices(index) {
            let tcb = &mut self.stack.tcbs[index];
            tcb.rare &= !rare::PERSIST;
            tcb.backoff = 0;
            tcb.rtx_deadline = Deadline::NONE;
            // The probe may have been thrown away for want of room: it goes again with what follows it.
            self.forget_losses(index);
            self.stack.tcbs[index].go_back();
            self.settle_if_marked(index);
        }
        self.stack.tcbs[index].predict();
    }

    /// Tells whether what waits for the window may be sent (RFC 9293, 3.8.6.2.1). While it may not, the timer that overrides that
    /// goes on, whatever the peer sends.
    fn window_suffices(&self, index: usize) -> bool {
        let tcb = &self.stack.tcbs[index];
        let Some(first) = self.pool.meta_if(tcb.tx_head) else {
            return tcb.snd_wnd != 0;
        };
        let rest = first.tx_end - tcb.snd_una;
        tcb.snd_wnd >= rest.min(tcb.max_snd_wnd / 2).max(1)
    }

    /// The transitions of a FIN of ours that is acknowledged.
    #[inline(always)]
    pub(in crate::tcp) fn acknowledged_fin(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        let fin_acknowledged =
            tcb.is(flag::FIN_QUEUED) && tcb.tx_head.is_none() && !tcb.is_rare(rare::FIN_PENDING);
        if !fin_acknowledged {
            return;
        }
        match tcb.state {
            State::FinWait1 => {
                tcb.move_to(State::FinWait2);
                if tcb.is_rare(rare::ORPHAN) {
                    self.start_fin_wait_2(index);
                }
            }
            State::Closing => self.enter_time_wait(index),
            State::LastAck => self.closed(index),
            _ => {}
        }
    }

    /// Cuts the frames of the send queue to `mss` bytes of payload. No frame of it is marked as lost.
    pub(in crate::tcp) fn cut_queue(&mut self, index: usize, mss: u16) {
        self.release_front(index, mss);
        let mut id = self.stack.tcbs[index].tx_head;
        while let Some(meta) = self.pool.meta_if(id) {
            // What the peer has goes nowhere any more.
            if meta.tx_len > mss
                && !meta.transmissions.is(Transmissions::SACKED)
                && (self.pool.is_low() || !self.split(index, id, mss))
            {
                // Without a frame for the rest the segment stays too long and is tried again after a timeout.
                break;
            }
            id = self.pool.meta(id).tx_next;
        }
        self.stack.open_coalescing(self.pool, index);
    }

    /// Lets go of the acknowledged part of the first frame where that is longer than `mss`, so that no frame is acknowledged whole when it
    /// is cut.
    fn release_front(&mut self, index: usize, mss: u16) {
        let tcb = &self.stack.tcbs[index];
        let (first, una) = (tcb.tx_head, tcb.snd_una);
        let Some(meta) = self.pool.meta_if(first) else {
            return;
        };
        if meta.tx_len <= mss || !meta.tx_seq.before(una) {
            return;
        }
        let acknowledged = (una - meta.tx_seq) as u16;
        if acknowledged == meta.tx_len {
            // Its FIN is all that is left.
            self.stack.frame_is_cut(index, meta.tx_seq);
            let meta = self.pool.meta_mut(first);
            meta.tx_seq = una;
            meta.tx_len = 0;
            meta.tx_sum = Partial::ZERO.into();
        } else if self.split(index, first, acknowledged) {
            let next = self.pool.meta(first).tx_next;
            let tcb = &mut self.stack.tcbs[index];
            tcb.tx_head = next;
            if tcb.unsent == first {
                tcb.unsent = next;
            }
            self.pool.release(first);
        } else {
            return;
        }
        if self.stack.tcbs[index].is_rare(rare::RECOVERY_STATE) {
            let (tcb, state) = self.stack.recovery_of(index);
            state.board.rewind(tcb);
        }
    }

    /// The path of a connection is taken to be as wide as the link again (RFC 1191, 6.3; RFC 8201, 5.3): segments become longer, unless the
    /// connection searches for their size itself.
    #[cold]
    pub(crate) fn path_is_wider(&mut self, index: usize) {
        let tcb = &mut self.stack.tcbs[index];
        if !tcb.state.is_synchronized() || tcb.is_rare(rare::MTU_SEARCH) {
            return;
        }
        let link = match tcb.key.pair() {
            None => self.stack.mtu,
            Some(_) => self.stack.ipv6.mtu,
        };
        set_mss(tcb, self.pool.bound_mtu(link));
        self.stack.open_coalescing(self.pool, index);
    }

    /// The path takes only packets of `mtu` bytes (RFC 1191): segments become smaller, and what is queued is cut.
    pub(crate) fn path_mtu(&mut self, index: usize, mtu: u16) {
        self.mtu_is_told(index, mtu);
        let tcb = &mut self.stack.tcbs[index];
        let before = tcb.mss;
        set_mss(tcb, self.pool.bound_mtu(mtu));
        if tcb.mss >= before {
            set_mss_to(tcb, before);
            return;
        }
        let mss = tcb.mss;
        self.forget_losses(index);
        self.cut_queue(index, mss);
        let tcb = &mut self.stack.tcbs[index];
        if tcb.in_flight() == 0 || !tcb.state.is_synchronized() {
            self.settle_if_marked(index);
            return;
        }
        // RFC 1191, 6.4: all that was too long is lost. It goes again at once, one segment and then as acknowledgments
        // arrive; no congestion is meant, so the window of before is soon reached again.
        tcb.ssthresh = tcb.ssthresh.min(tcb.cwnd).max(2 * u32::from(tcb.mss));
        tcb.cwnd = u32::from(tcb.mss);
        tcb.rare &= !rare::RECOVERY;
        tcb.dup_acks = 0;
        tcb.go_back();
        let rto = u32::from(tcb.rto);
        self.settle_if_marked(index);
        self.set_due(index, Due::Retransmission, rto);
        self.output(index);
    }
}

impl Tcb {
    /// The segment that set the window from ahead has been reached: what comes is newer again.
    pub(in crate::tcp) fn check_wl1(&mut self) {
        if self.is_rare(rare::WL1_AHEAD) && self.snd_wl1.at_or_before(self.rcv_nxt) {
            self.rare &= !rare::WL1_AHEAD;
            self.predict();
        }
    }
}
