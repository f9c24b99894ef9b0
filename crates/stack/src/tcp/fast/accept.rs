//! Changes of a segment that was predicted, and of any acknowledgment.
//!
//! A predicted segment changes exactly what the full state machine would. It need not write every field that the state
//! machine writes, and this is why (`tests/differential.rs` holds both against each other, byte by byte):
//!
//! | field | here | why it is the same |
//! |---|---|---|
//! | `rcv_nxt`, receive queue, `rx_free` | [`advance`], [`receive_queue`] | the same functions |
//! | `unacked`, `ack_deadline` | set | the same, through [`Deadline::set`] |
//! | `snd_una`, send queue, `rtt`, `rto`, `rtx_deadline` | [`take_acknowledgment`] | the same function |
//! | `ts_recent` | set when `unacked` is 0 | RFC 7323, 4.3; the segment begins at `rcv_nxt` |
//! | `snd_wnd`, `max_snd_wnd` | [`Tcb::take_window`] | the same function; no window is older, see `snd_wl1` |
//! | `snd_wl1` | not written | it means something only while it lies ahead of `rcv_nxt` (`WL1_AHEAD`), and then nothing is predicted |
//! | `recover` | not written | it means something only until it is passed (`RECOVER`), which [`take_acknowledgment`] sees |
//! | `snd_max`, `backoff`, `dup_acks` | not written | while they mean something (`LOSS`, `RECOVERY`, a duplicate) nothing is predicted |
//! | `cwnd`, `CWND_LIMITED` | [`take_acknowledgment`] | the flag is cleared by the acknowledgment that uses it |
//! | `fin_seq`, out of order queue | not written | while a FIN or a segment waits for what is missing nothing is predicted |
//! | `keep_looks`, `keep_deadline` | not written | while a probe is out nothing is predicted; before that the timer looks at [`Tcb::moved`] |
//! | `user_deadline` | not written | it is set by a timeout, and while one is recovered from nothing is predicted |
//! | `ts_seen`, `ts_seen_at` | not written | the timer looks at `ts_recent` |

use crate::buffer::{FrameId, Pool};
use crate::socket::readiness;
use crate::stack::Active;
use crate::tcp::cc::Controllers;
use crate::tcp::deadline::{DELAYED_UP_TO, Deadline, Due};
use crate::tcp::receive_queue;
use crate::tcp::recovery::probe;
use crate::tcp::recovery::rto::Floor;
use crate::tcp::tcb::{Tcb, flag};
use crate::time::Instant;
use crate::timer::Wheel;
use core::hint::cold_path;
use core::num::NonZeroU64;
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;

/// Fields of a segment that has passed every check.
pub(super) struct Says {
    pub(super) ack: SeqNumber,
    pub(super) window: u32,
    pub(super) ts_value: u32,
}

/// Takes in timestamp, window and acknowledgment.
#[inline(always)]
pub(super) fn accept(
    tcb: &mut Tcb,
    pool: &mut Pool,
    (wheel, controllers): (&mut Wheel, &mut Controllers),
    index: usize,
    now: Instant,
    says: Says,
    floor: Floor,
) -> u8 {
    // RFC 7323, 4.3: only a segment that begins at or before the last acknowledgment sent moves TS.Recent.
    if tcb.unacked == 0 {
        tcb.ts_recent = says.ts_value;
    }
    tcb.take_window(says.window);
    if says.ack == tcb.snd_una {
        return 0;
    }
    take_acknowledgment(
        tcb,
        pool,
        (wheel, controllers),
        index,
        now,
        (says.ack, None),
        floor,
    )
}

/// The snd_una side of a new acknowledgment: frees what it covers, measures the round trip, opens cwnd. Returns what the
/// connection has become ready for.
#[inline(always)]
fn take_acknowledgment(
    tcb: &mut Tcb,
    pool: &mut Pool,
    (wheel, controllers): (&mut Wheel, &mut Controllers),
    index: usize,
    now: Instant,
    (ack, echo): (SeqNumber, Option<u32>),
    floor: Floor,
) -> u8 {
    // Karn: only what was sent once is timed, here by the last frame that is acknowledged. While a segment is predicted
    // nothing in flight was sent twice, so only others look at the timestamp that is echoed.
    let head = tcb.tx_head;
    let (timed, again) = match pool.meta_if(head) {
        Some(meta) if meta.tx_end == ack => {
            debug_assert!(head != tcb.unsent, "what is acknowledged was sent");
            tcb.tx_head = meta.tx_next;
            let timed = meta.sent_once_at;
            pool.release(head);
            (timed, timed.is_none())
        }
        _ => release_acknowledged(tcb, pool, ack),
    };
    let acked = ack - tcb.snd_una;
    tcb.acknowledge_up_to(ack);
    // Before the round trip is taken in, so that nothing of the acknowledgment is kept for later.
    let ready = if tcb.is_any(flag::CWND_LIMITED | flag::RECOVER, readiness::WANT_WRITE) {
        cold_path();
        act_on_flags(tcb, controllers, index, now, (ack, acked, timed))
    } else {
        0
    };
    if let Some(sent_at) = timed {
        tcb.rtt.update(now.as_nanos().wrapping_sub(sent_at.get()));
        tcb.rto = tcb.rtt.rto(floor);
    } else if again
        && let Some(echo) = echo
        && let Some(took) = tcb.age_of(echo, now.tick())
    {
        tcb.rtt.update(took);
        tcb.rto = tcb.rtt.rto(floor);
    }
    // RFC 6298, 5.2 and 5.3.
    if ack == tcb.snd_nxt {
        tcb.rtx_deadline = Deadline::NONE;
    } else {
        cold_path();
        restart_retransmission(tcb, wheel, index, now);
    }
    ready
}

/// Work that an acknowledgment makes for few connections: it ends what a loss has left, opens the congestion window, tells an
/// application that was refused that it may write. Returns what the connection has become ready for.
#[cold]
#[inline(never)]
fn act_on_flags(
    tcb: &mut Tcb,
    controllers: &mut Controllers,
    index: usize,
    now: Instant,
    (ack, acked, timed): (SeqNumber, u32, Option<NonZeroU64>),
) -> u8 {
    if tcb.is(flag::RECOVER) && tcb.recover.before(ack) {
        tcb.flags &= !flag::RECOVER;
    }
    if tcb.is(flag::CWND_LIMITED) {
        // Until output is held back by it again.
        tcb.flags &= !flag::CWND_LIMITED;
        controllers.on_ack(tcb, index, acked, now, timed);
    }
    // Told only when it is worth its while.
    if tcb.events & readiness::WANT_WRITE != 0 && tcb.is_worth_writing(ack) {
        tcb.events &= !readiness::WANT_WRITE;
        return readiness::WRITABLE;
    }
    0
}

/// RFC 6298, 5.3: the timer starts anew with each acknowledgment, and earlier than before when the timeout has become
/// shorter.
#[inline(never)]
fn restart_retransmission(tcb: &mut Tcb, wheel: &mut Wheel, index: usize, now: Instant) {
    let at = now.tick().after(u32::from(tcb.rto));
    tcb.rtx_deadline.set(at, &mut tcb.armed, wheel, index);
    probe::arm(tcb, wheel, index, now);
}

/// Frees every frame that `ack` covers; returns when the last of them was sent, if all were sent once, and whether one was
/// sent again. What waited behind a segment that was sent again was on its way for longer than a round trip.
#[inline(never)]
fn release_acknowledged(
    tcb: &mut Tcb,
    pool: &mut Pool,
    ack: SeqNumber,
) -> (Option<NonZeroU64>, bool) {
    let mut timed = None;
    let mut again = false;
    let mut head = tcb.tx_head;
    while head != tcb.unsent {
        let meta = pool.meta_mut(head);
        if !meta.tx_end.at_or_before(ack) {
            break;
        }
        timed = meta.sent_once_at;
        again |= timed.is_none();
        let next = meta.tx_next;
        pool.release(head);
        head = next;
    }
    tcb.tx_head = head;
    (timed.filter(|_| !again), again)
}

/// `len` bytes in order are with their reader.
#[inline(always)]
pub(super) fn advance(tcb: &mut Tcb, len: u32) {
    tcb.rcv_nxt += len;
    if tcb.rcv_nxt.0 < len {
        cold_path();
        tcb.wraps[1] = tcb.wraps[1].wrapping_add(1);
    }
    tcb.unacked += 1;
}

impl<R: Recorder> Active<'_, R> {
    /// Does the work that a predicted segment makes due: tells the application, sends what it made room for,
    /// acknowledges.
    #[inline(never)]
    pub(super) fn follow_up<const VERIFY: u8, const COMMON: bool>(
        &mut self,
        index: usize,
        ready: u8,
    ) {
        if ready != 0 {
            self.notify(index, ready);
        }
        let ack_after = self.stack.compiled.ack_after::<VERIFY, COMMON>();
        let mut tcb = &self.stack.tcbs[index];
        if tcb.unsent.is_some() {
            self.output(index);
            tcb = &self.stack.tcbs[index];
        }
        if tcb.unacked >= ack_after {
            self.acknowledge(index);
        }
    }

    /// The snd_una side of a new acknowledgment, for segments that were not predicted, with the timestamp that it echoes.
    #[inline(always)]
    pub(crate) fn acknowledged(&mut self, index: usize, ack: SeqNumber, echo: Option<u32>) {
        let stack = &mut *self.stack;
        let ready = take_acknowledgment(
            &mut stack.tcbs[index],
            self.pool,
            (&mut stack.wheel, &mut stack.controllers),
            index,
            self.now,
            (ack, echo),
            stack.floor,
        );
        if ready != 0 {
            self.notify(index, ready);
        }
    }

    /// Payload in order goes to the receive queue, for segments that were not predicted.
    pub(crate) fn deliver(&mut self, index: usize, id: FrameId, offset: u16, len: u16) {
        let tcb = &mut self.stack.tcbs[index];
        receive_queue::push(tcb, self.pool, id, offset, len);
        advance(tcb, u32::from(len));
        self.set_due(index, Due::Acknowledgment, self.stack.delayed_ack);
        self.notify(index, readiness::READABLE);
        if self.stack.tcbs[index].unacked >= DELAYED_UP_TO {
            self.acknowledge(index);
        }
    }
}
