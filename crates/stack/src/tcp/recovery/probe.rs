//! Tail loss probes (RFC 8985, 7): when nothing tells of the last segments of a flight, one is sent before the retransmission
//! timer fires, so that the answer lets RACK find what is lost.
//!
//! Owns when a probe is due, what it is, and what its acknowledgment means. The deadline is kept nowhere: it follows from that of the
//! retransmission timer, from which the time of the last progress is known, and from the last segment's record. So the predicted
//! path neither sets nor clears it. The wheel's entry is moved where more than one segment comes to be in flight ([`arm`]). It must never probe while marks stand, a timeout is recovered from, or a probe is out.
//!
//! A lone segment is probed when the retransmission timer fires. RFC 8985, 7.2 adds the longest delay of an acknowledgment to two round
//! trips; the floor under the timeout's variation stands for that delay, and then the timeout is the earlier one.

use crate::buffer::{FrameId, Pool};
use crate::config::TailProbe;
use crate::likely::unlikely;
use crate::stack::{Active, Stack};
use crate::tcp::deadline::{self, Due};
use crate::tcp::milestone::Milestone;
use crate::tcp::slow::segment::Segment;
use crate::tcp::tcb::{Tcb, rare};
use crate::time::{Instant, Tick};
use crate::timer::Wheel;
use core::hint::cold_path;
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::{Flags, SackBlock};

/// A probe that is out, valid while [`rare::PROBE`] (RFC 8985, 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// TLP.end_seq.
    pub(crate) end: SeqNumber,
    /// TLP.is_retrans: where the segment begins that was sent again.
    pub(crate) again: Option<SeqNumber>,
    /// SND.UNA when it was sent, and since when nothing had been acknowledged then.
    pub(crate) progress: (SeqNumber, Option<Tick>),
}

/// Meaning of an acknowledgment for the probe that is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Nothing yet.
    Open,
    /// Nothing was lost.
    Unneeded,
    /// The probe has repaired a loss.
    Repaired,
}

impl Probe {
    /// RFC 8985, 7.4.2.
    fn answer(&self, ack: SeqNumber, duplicate: Option<SackBlock>, is_bare: bool) -> Answer {
        if ack.before(self.end) {
            return Answer::Open;
        }
        let Some(start) = self.again else {
            return Answer::Unneeded;
        };
        let twice = duplicate.is_some_and(|block| {
            block.start.at_or_before(start) && self.end.at_or_before(block.end)
        });
        if twice {
            Answer::Unneeded
        } else if self.end.before(ack) {
            Answer::Repaired
        } else if is_bare {
            Answer::Unneeded
        } else {
            Answer::Open
        }
    }
}

/// The last segment that was sent.
fn last_sent(tcb: &Tcb, pool: &Pool) -> FrameId {
    if tcb.unsent.is_none() {
        return tcb.tx_tail;
    }
    let mut id = tcb.tx_head;
    while let Some(meta) = pool.meta_if(id)
        && meta.tx_next != tcb.unsent
    {
        id = meta.tx_next;
    }
    id
}

impl Stack {
    /// Tells whether a probe may be sent when its time has come: selective acknowledgments, nothing sacked, lost or probed for, and no
    /// timeout (RFC 8985, 7.2); something was acknowledged since the last probe that was sent after it (7.3).
    fn may_probe(&self, index: usize) -> bool {
        const BUSY: u32 =
            rare::RECOVERY | rare::SCOREBOARD | rare::LOSS | rare::PERSIST | rare::PROBE;
        let tcb = &self.tcbs[index];
        let probed = self.recovery(index).and_then(|state| state.probed_up_to);
        self.config.mechanisms.tail_probe == TailProbe::On
            && tcb.rare & (BUSY | rare::SACK_PERMITTED) == rare::SACK_PERMITTED
            && tcb.state.is_synchronized()
            // Without a round trip a probe is due after a second, when the retransmission timer fires.
            && tcb.rtt.is_known()
            && tcb.in_flight() != 0
            && tcb.backoff == 0
            && probed.is_none_or(|end| end.is_passed(tcb))
    }

    /// When a probe is due, while one may be sent (RFC 8985, 7.2): two round trips after the last new segment or acknowledgment.
    pub(in crate::tcp) fn probe_due(&self, pool: &Pool, index: usize) -> Option<Tick> {
        let tcb = &self.tcbs[index];
        let at = self.probe_not_before(pool, index)?;
        let last = pool.meta_if(last_sent(tcb, pool))?;
        let sent = last.sent_once_at.map_or(at, |sent| {
            let sent = Instant::from_nanos(sent.get()).tick();
            sent.after(tcb.rtt.probe_timeout())
        });
        let timeout = tcb.rtx_deadline.tick()?;
        let later = if at.before(sent) { sent } else { at };
        Some(if timeout.before(later) {
            timeout
        } else {
            later
        })
    }

    /// When a probe may be due: that is so unless a segment has been sent since the last acknowledgment. To find out the queue is walked.
    fn probe_not_before(&self, pool: &Pool, index: usize) -> Option<Tick> {
        let tcb = &self.tcbs[index];
        let timeout = tcb.rtx_deadline.tick()?;
        if !self.may_probe(index) {
            return None;
        }
        if is_lone(tcb, pool) {
            return Some(timeout);
        }
        // The timer was set by the first segment of the flight, or by the last acknowledgment.
        let progress = Tick(timeout.0.wrapping_sub(u32::from(tcb.rto)));
        let at = progress.after(tcb.rtt.probe_timeout());
        Some(if timeout.before(at) { timeout } else { at })
    }

    /// When it is to be looked for a probe that is due, at `now` or later.
    pub(in crate::tcp) fn next_probe(&self, pool: &Pool, index: usize, now: Tick) -> Option<Tick> {
        let at = self.probe_not_before(pool, index)?;
        if at.reached(now) {
            self.probe_due(pool, index)
        } else {
            Some(at)
        }
    }
}

/// Tells whether one segment is in flight.
fn is_lone(tcb: &Tcb, pool: &Pool) -> bool {
    let first = pool.meta_if(tcb.tx_head);
    first.is_none_or(|first| first.tx_next == tcb.unsent)
}

/// Sees to it that the wheel's entry fires no later than a probe is due. Called where more than one segment is, or comes to be, in flight.
#[inline(always)]
pub(in crate::tcp) fn arm(tcb: &mut Tcb, wheel: &mut Wheel, index: usize, now: Instant) {
    let at = now.tick().after(tcb.rtt.probe_timeout());
    if at.before(tcb.armed) {
        cold_path();
        move_entry(tcb, wheel, index, at);
    }
}

#[cold]
#[inline(never)]
fn move_entry(tcb: &mut Tcb, wheel: &mut Wheel, index: usize, at: Tick) {
    if tcb.is_rare(rare::SACK_PERMITTED) {
        tcb.armed = at;
        wheel.insert(index as u32, at);
    }
}

impl Stack {
    /// [`arm`] after output, unless what it has left in flight is one segment.
    #[inline(always)]
    pub(in crate::tcp) fn arm_probe(&mut self, pool: &Pool, index: usize, now: Instant) {
        let tcb = &mut self.tcbs[index];
        let at = now.tick().after(tcb.rtt.probe_timeout());
        if unlikely!(at.before(tcb.armed)) && !is_lone(tcb, pool) {
            move_entry(tcb, &mut self.wheel, index, at);
        }
    }
}

impl Stack {
    /// Since when nothing that is in flight was acknowledged: the retransmission timer was set by the first segment of the flight or by
    /// the last acknowledgment, unless a probe has set it anew. Asked before the timer is cleared, and before it is backed off.
    pub(in crate::tcp) fn unanswered_since(&self, index: usize) -> Option<Tick> {
        let tcb = &self.tcbs[index];
        let probe = self.recovery(index).and_then(|state| state.probe);
        let probe = probe.filter(|_| tcb.is_rare(rare::PROBE));
        match probe.map(|probe| probe.progress) {
            Some((una, since)) if una == tcb.snd_una => since,
            _ => {
                let timeout = tcb.rtx_deadline.tick()?;
                Some(Tick(timeout.0.wrapping_sub(u32::from(tcb.rto))))
            }
        }
    }

    /// A recovery no longer keeps probes back: the wheel's entry fires no later than one is due, counted from before that.
    #[cold]
    pub(in crate::tcp) fn allow_probe(&mut self, pool: &Pool, index: usize) {
        if let Some(at) = self.probe_not_before(pool, index) {
            deadline::arm(at, &mut self.tcbs[index].armed, &mut self.wheel, index);
        }
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Sends a probe: new data where there is some and the peer's window takes it, else the last segment again (RFC 8985, 7.3). The
    /// congestion window is not asked.
    #[cold]
    pub(in crate::tcp) fn send_tail_probe(&mut self, index: usize) {
        let since = self.stack.unanswered_since(index);
        let rto = u32::from(self.stack.tcbs[index].rto);
        if !self.device_has_room() {
            // The line is not idle: the next time is soon enough.
            self.set_due(index, Due::Retransmission, rto);
            return;
        }
        let tcb = &self.stack.tcbs[index];
        let new = self.pool.meta_if(tcb.unsent).filter(|meta| {
            meta.transmissions.is_none() && meta.tx_end - tcb.snd_una <= tcb.snd_wnd
        });
        let again = match new {
            Some(_) => {
                self.send_extension(index, tcb.unsent);
                None
            }
            None => {
                let id = last_sent(tcb, self.pool);
                let Some(meta) = self.pool.meta_if(id) else {
                    return;
                };
                let start = meta.tx_seq;
                if !self.retransmit(index, id) {
                    // There is no frame for it. The timer fires when it would have, and what it sends may take one of the reserve.
                    let (tcb, state) = self.stack.recovery_of(index);
                    state.probed_up_to = Some(Milestone::at(tcb, tcb.snd_nxt));
                    return;
                }
                Some(start)
            }
        };
        self.set_due(index, Due::Retransmission, rto);
        let (tcb, state) = self.stack.recovery_of(index);
        let end = tcb.snd_nxt;
        state.probe = Some(Probe {
            end,
            again,
            progress: (tcb.snd_una, since),
        });
        state.probed_up_to = Some(Milestone::at(tcb, end));
        state.probes = state.probes.saturating_add(1);
        if again.is_some() {
            state.board.was_resent(end);
        }
        tcb.rare |= rare::PROBE;
        tcb.predict();
        self.stack.counters.tail_probes += 1;
    }

    /// An acknowledgment has been taken in while a probe was out: finds out what it says of the probe (RFC 8985, 7.4). What the probe
    /// has repaired was lost to congestion all the same. `acked` bytes were acknowledged.
    #[cold]
    pub(in crate::tcp) fn probe_answered(&mut self, index: usize, segment: &Segment, acked: u32) {
        let (tcb, state) = self.stack.recovery_of(index);
        let Some(probe) = state.probe else {
            return;
        };
        let header = &segment.header;
        let is_bare = acked == 0
            && segment.len == 0
            && header.options.sack.is_none()
            && !header.flags.any(Flags::SYN | Flags::FIN);
        let told = header.options.sack;
        let first = told.and_then(|blocks| blocks.as_slice().first().copied());
        let duplicate = first.filter(|block| block.end.at_or_before(header.ack));
        let answer = probe.answer(header.ack, duplicate, is_bare);
        if answer == Answer::Open {
            return;
        }
        state.probe = None;
        state.board.forget_resent(tcb);
        tcb.rare &= !rare::PROBE;
        let repaired = answer == Answer::Repaired && !tcb.is_rare(rare::RECOVERY | rare::LOSS);
        if repaired && !self.stack.is_reduced(index) {
            self.reduce_at_once(index, acked);
            self.stack.window_reduced(index);
        }
        self.stack.tcbs[index].predict();
        self.stack.arm_probe(self.pool, index, self.now);
    }

    /// The network is congested and nothing has to be repaired: the window is what the controller makes of it.
    pub(in crate::tcp) fn reduce_at_once(&mut self, index: usize, acked: u32) {
        self.without_credit(index);
        let stack = &mut *self.stack;
        let tcb = &mut stack.tcbs[index];
        let flight = tcb.in_flight() + acked;
        stack.controllers.on_loss(tcb, index, flight);
        tcb.cwnd = tcb.cwnd.min(tcb.ssthresh);
        self.settle_if_marked(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(start: u32, end: u32) -> Option<SackBlock> {
        Some(SackBlock {
            start: SeqNumber(start),
            end: SeqNumber(end),
        })
    }

    /// RFC 8985, 7.4.2, branch by branch.
    #[test]
    fn answers_are_those_of_the_rfc() {
        let new = Probe {
            end: SeqNumber(3000),
            again: None,
            progress: (SeqNumber(1000), None),
        };
        assert_eq!(new.answer(SeqNumber(2999), None, false), Answer::Open);
        assert_eq!(new.answer(SeqNumber(3000), None, false), Answer::Unneeded);
        let again = Probe {
            again: Some(SeqNumber(2000)),
            ..new
        };
        let answer = |ack, duplicate, is_bare| again.answer(SeqNumber(ack), duplicate, is_bare);
        assert_eq!(answer(3000, None, false), Answer::Open);
        assert_eq!(answer(3000, block(2000, 3000), false), Answer::Unneeded);
        assert_eq!(answer(3000, block(1000, 2000), false), Answer::Open);
        assert_eq!(answer(3000, None, true), Answer::Unneeded);
        assert_eq!(answer(3001, None, false), Answer::Repaired);
        assert_eq!(answer(3001, block(2000, 3000), false), Answer::Unneeded);
    }
}
