//! The predicted path of input: one page, counted on its own.
//!
//! A segment is predicted when its connection is ESTABLISHED and nothing unusual is going on (`Tcb::predicted` stands
//! for all of that), when it is the next one in order, and when it acknowledges something in flight. Data, a pure
//! acknowledgment, data with a new acknowledgment, and a new window are all predicted, so that request-response traffic
//! is too, which 4.4BSD's prediction missed (Wolman et al. 1994, 3). Nothing is changed before every check has passed;
//! whatever fails goes to [`super::segment`] untouched, and the reason is counted.
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

use super::congestion;
use super::deadline::{DELAYED_UP_TO, Deadline, Due};
use super::receive_queue;
use super::rto::Floor;
use super::tcb::{PSH, Tcb, flag};
use super::template::{PLAIN, STAMPED};
use super::time_wait::SLOT_BIT;
use crate::buffer::{Frame, FrameId, Pool, RxChecksum, SUMMED_FROM};
use crate::compiled::{BY_CONNECTION, NONE};
use crate::config::Demux;
use crate::counters::Miss;
use crate::demux::{FlowKey, Search};
use crate::likely::{likely, unlikely};
use crate::socket::{Posted, readiness};
use crate::stack::{Active, Stack};
use crate::time::Instant;
use crate::timer::Wheel;
use core::hint::cold_path;
use core::num::NonZeroU64;
use tollgate_checksum::{Accumulator, Kernel, Partial, sum_header};
use tollgate_gate::{Gate, PacketId, Recorder};
use tollgate_wire::{SeqNumber, ipv4};

/// Data offset and flags of the two layouts, PSH set: what is predicted is told apart by it.
const PLAIN_OFFSET: u8 = 0x50;
/// NOP, NOP, kind 8, length 10.
const TIMESTAMP_LAYOUT: u32 = 0x0101_080a;

#[inline(always)]
pub(super) fn be16<const N: usize>(head: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([head[at], head[at + 1]])
}

/// Two bytes as they lie there.
#[inline(always)]
pub(super) fn ne16<const N: usize>(head: &[u8; N], at: usize) -> u16 {
    u16::from_ne_bytes(head[at..].first_chunk().copied().unwrap_or_default())
}

#[inline(always)]
pub(super) fn be32<const N: usize>(head: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

#[inline(always)]
fn ne32<const N: usize>(head: &[u8; N], at: usize) -> u32 {
    // A chunk and not its bytes one by one, so that a mask leaves it one load.
    u32::from_ne_bytes(head[at..].first_chunk().copied().unwrap_or_default())
}

#[inline(always)]
fn seq_of<const N: usize>(head: &[u8; N]) -> SeqNumber {
    SeqNumber(be32(head, 38))
}

#[inline(always)]
fn ack_of<const N: usize>(head: &[u8; N]) -> SeqNumber {
    SeqNumber(be32(head, 42))
}

#[inline(always)]
fn window_of<const N: usize>(head: &[u8; N], tcb: &Tcb) -> u32 {
    u32::from(be16(head, 48)).wrapping_shl(u32::from(tcb.snd_shift))
}

#[inline(always)]
pub(super) fn key_of<const N: usize>(head: &[u8; N]) -> FlowKey {
    FlowKey {
        remote: ne32(head, 26),
        local: ne32(head, 30),
        ports: ne32(head, 34),
    }
}

/// The timestamp's value, when the layout has one.
#[inline(always)]
fn stamp_of<const N: usize>(head: &[u8; N]) -> Option<u32> {
    (N == STAMPED).then(|| be32(head, N - 8))
}

/// Tells whether a frame is addressed to us and carries an unfragmented TCP segment behind an IPv4 header without options.
#[inline(always)]
fn is_tcp<const N: usize>(head: &[u8; N], mac_word: u64) -> bool {
    const TYPE_AND_VERSION: u32 = u32::from_ne_bytes([0x08, 0x00, 0x45, 0]);
    const NOT_THE_SERVICE: u32 = u32::from_ne_bytes([0xff, 0xff, 0xff, 0]);
    const TCP: u32 = u32::from_ne_bytes([0, 0, 0, ipv4::protocol::TCP]);
    // More fragments, fragment offset, reserved bit apart; protocol.
    const FRAGMENT_AND_PROTOCOL: u32 = u32::from_ne_bytes([0x3f, 0xff, 0, 0xff]);
    let to = u64::from_ne_bytes([
        head[0], head[1], head[2], head[3], head[4], head[5], head[6], head[7],
    ])
    .to_le()
        << 16;
    to == mac_word
        && ne32(head, 12) & NOT_THE_SERVICE == TYPE_AND_VERSION
        && ne32(head, 20) & FRAGMENT_AND_PROTOCOL == TCP
}

/// The prediction: what the segment must say, given the connection. Its flags and lengths have been checked.
#[inline(always)]
fn expect<const N: usize>(head: &[u8; N], tcb: &Tcb, len: u32) -> Result<Says, Miss> {
    if unlikely(seq_of(head) != tcb.rcv_nxt) {
        return Err(Miss::Sequence);
    }
    let ack = ack_of(head);
    let acked = ack - tcb.snd_una;
    if unlikely(acked > tcb.in_flight()) {
        return Err(Miss::Acknowledgment);
    }
    let stamp = stamp_of(head);
    if let Some(stamp) = stamp {
        if unlikely(be32(head, PLAIN) != TIMESTAMP_LAYOUT) {
            return Err(Miss::OptionLayout);
        }
        if unlikely((stamp.wrapping_sub(tcb.ts_recent) as i32) < 0) {
            return Err(Miss::Timestamp);
        }
    }
    let window = window_of(head, tcb);
    if unlikely(window == 0) {
        return Err(Miss::ZeroWindow);
    }
    if unlikely(len > tcb.rcv_edge - tcb.rcv_nxt) {
        return Err(Miss::BeyondWindow);
    }
    if unlikely(len | acked == 0) && window == tcb.snd_wnd {
        return Err(Miss::Duplicate);
    }
    Ok(Says {
        ack,
        window,
        ts_value: stamp.unwrap_or(tcb.ts_recent),
    })
}

impl Stack {
    /// Takes a frame when it is predicted; otherwise has changed nothing and says why.
    #[inline(always)]
    pub(crate) fn predicted<const VERIFY: u8, const COMMON: bool, R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        rec: R,
        frame: &Frame,
        posted: &mut Posted<'_>,
    ) -> Result<(), Miss> {
        match pool.frame(frame).first_chunk::<STAMPED>() {
            Some(head) if head[46] != PLAIN_OFFSET => {
                self.predicted_as::<STAMPED, VERIFY, COMMON, R>(pool, now, rec, frame, posted)
            }
            _ => self.predicted_without_stamp::<VERIFY, R>(pool, now, rec, frame, posted),
        }
    }

    /// Predicts segments without the timestamp option.
    #[inline(never)]
    fn predicted_without_stamp<const VERIFY: u8, R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        rec: R,
        frame: &Frame,
        posted: &mut Posted<'_>,
    ) -> Result<(), Miss> {
        self.predicted_as::<PLAIN, VERIFY, false, R>(pool, now, rec, frame, posted)
    }

    /// The path for headers of `N` bytes, [`PLAIN`] or [`STAMPED`].
    #[inline(always)]
    fn predicted_as<const N: usize, const VERIFY: u8, const COMMON: bool, R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        mut rec: R,
        frame: &Frame,
        posted: &mut Posted<'_>,
    ) -> Result<(), Miss> {
        let bytes = pool.frame(frame);
        let Some((head, behind)) = bytes.split_first_chunk::<N>() else {
            cold_path();
            return Err(Miss::Short);
        };
        let packet = if R::ON {
            PacketId(be32(head, 38))
        } else {
            PacketId(0)
        };
        rec.pass(Gate::IpInBegin, packet);
        if unlikely(!is_tcp(head, self.mac_word)) {
            return Err(Miss::NotTcp);
        }
        if unlikely(VERIFY != NONE && !ip_header_is_intact(head)) {
            return Err(Miss::NotTcp);
        }
        rec.pass(Gate::DemuxBegin, packet);
        let mut index = self.cached;
        let tcb = match self.tcbs.get_mut(index) {
            Some(tcb) if tcb.key.is(key_of(head)) => tcb,
            _ => {
                cold_path();
                match self.look_up(head) {
                    Search::Found(slot) if slot & SLOT_BIT == 0 => index = slot as usize,
                    nothing => return self.syn_predicted(pool, now, rec, frame, nothing),
                }
                self.tcbs.get_mut(index).ok_or(Miss::NoConnection)?
            }
        };
        rec.pass(Gate::TcpInBegin, packet);
        // Data offset and flags, PSH set either way. This also stands for the state.
        if unlikely(be16(head, 46) | PSH != tcb.predicted) {
            return self.handshake_predicted(pool, now, rec, index, frame);
        }
        // The IP length decides where the payload ends, not the frame's, which may be padded.
        let total_len = be16(head, 16);
        let payload = if likely(14 + usize::from(total_len) == bytes.len()) {
            behind
        } else {
            match bytes.get(N..14 + usize::from(total_len)) {
                Some(payload) => payload,
                None => return Err(Miss::Short),
            }
        };

        // Verify, and copy in the same pass when a reader has posted its buffer and is next in turn. A copy that is not
        // wanted after all lies beyond what the reader is told of.
        rec.pass(Gate::ChecksumInBegin, packet);
        let len = payload.len();
        let unsummed = VERIFY == BY_CONNECTION
            && tcb.takes_unsummed([head[50], head[51]])
            && !tcb.waits_for_unsummed();
        let verify = VERIFY != NONE && !unsummed && frame.checksum != RxChecksum::Verified;
        let room = if tcb.rx_head.is_none() {
            posted.room(index, len)
        } else {
            None
        };
        let direct = room.is_some();
        let intact = match room {
            Some(room) if verify => segment_is_intact(
                head,
                total_len,
                self.compiled.kernel.copy_and_sum(room, payload),
            ),
            Some(room) => {
                room.copy_from_slice(payload);
                true
            }
            // Whether it costs a frame is looked at in general.
            None if unlikely(len != 0 && pool.is_low()) => return Err(Miss::Reserve),
            None => {
                !verify
                    || segment_is_intact(
                        head,
                        total_len,
                        sum_in_place(self.compiled.kernel, frame, bytes, payload),
                    )
            }
        };
        if unlikely(!intact) {
            return Err(Miss::Checksum);
        }
        rec.pass(Gate::ChecksumInEnd, packet);
        let says = expect(head, tcb, len as u32)?;
        if !COMMON && unlikely(self.compiled.unidirectional && bidirectional(head, tcb, len)) {
            return Err(Miss::Bidirectional);
        }

        // Every check has passed: act.
        self.counters.predicted += 1;
        if VERIFY == BY_CONNECTION {
            self.counters.unverified += u64::from(unsummed && len != 0);
        }
        let mut ready = accept(tcb, pool, &mut self.wheel, index, now, says, self.floor);
        if len != 0 {
            rec.pass(Gate::SocketQueued, packet);
            let at = now.tick().after(self.delayed_ack);
            tcb.ack_deadline
                .set(at, &mut tcb.armed, &mut self.wheel, index);
        }
        if len == 0 {
            pool.release(frame.id);
        } else if direct {
            posted.filled += len;
            advance(tcb, len as u32);
            pool.release(frame.id);
        } else {
            receive_queue::push(tcb, pool, frame.id, frame.offset + N as u16, len as u16);
            advance(tcb, len as u32);
            ready |= readiness::READABLE;
        }
        // A new acknowledgment or a new window may let more out; every second segment is acknowledged (RFC 9293, 3.8.6.3).
        let ack_after = self.compiled.ack_after::<COMMON>();
        let follows = ready != 0 || tcb.unsent.is_some() || tcb.unacked >= ack_after;
        if !COMMON {
            self.trim_chain(pool, index);
        }
        if unlikely(follows) {
            Active {
                stack: self,
                pool,
                now,
                rec,
            }
            .follow_up::<COMMON>(index, ready);
        }
        Ok(())
    }

    /// The connection by the table (or the list), remembered for the next segment.
    #[inline(never)]
    fn look_up<const N: usize>(&mut self, head: &[u8; N]) -> Search {
        let key = key_of(head);
        self.counters.cache_misses += 1;
        let listed = match self.config.mechanisms.demux {
            Demux::CacheHash | Demux::Hash => None,
            Demux::List => self.tcbs.iter().position(|tcb| tcb.key == key),
        };
        let search = match listed {
            Some(index) => Search::Found(index as u32),
            None => self.search(key),
        };
        if let Search::Found(slot) = search
            && slot & SLOT_BIT == 0
            && self.config.mechanisms.demux == Demux::CacheHash
        {
            self.cached = slot as usize;
        }
        search
    }
}

#[inline(always)]
fn ip_header_is_intact<const N: usize>(head: &[u8; N]) -> bool {
    head[14..34]
        .first_chunk::<20>()
        .is_some_and(|header| Accumulator::of(header).is_valid())
}

/// Tells whether pseudo-header, TCP header with its option, and payload are intact. Addresses and TCP header lie next to each
/// other.
#[inline(always)]
pub(super) fn segment_is_intact<const N: usize>(
    head: &[u8; N],
    total_len: u16,
    payload: Partial,
) -> bool {
    let length_and_protocol =
        Partial::from_be_word(total_len - 20 + u16::from(ipv4::protocol::TCP));
    let sum = Accumulator::of_parts(payload, length_and_protocol);
    match head[26..].first_chunk::<{ STAMPED - 26 }>() {
        Some(stamped) => sum.then(stamped).is_valid(),
        None => head[26..]
            .first_chunk::<{ PLAIN - 26 }>()
            .is_some_and(|plain| sum.then(plain).is_valid()),
    }
}

/// Data with a new acknowledgment, which unidirectional prediction does not know.
#[inline(always)]
fn bidirectional<const N: usize>(head: &[u8; N], tcb: &Tcb, len: usize) -> bool {
    ack_of(head) != tcb.snd_una && len != 0
}

/// The sum of a payload that stays where it is, or what the link knows of it.
#[inline(never)]
fn sum_in_place(kernel: Kernel, frame: &Frame, bytes: &[u8], payload: &[u8]) -> Partial {
    match frame.checksum {
        // The link's sum ends with the frame; padding, if any, is not the segment's.
        RxChecksum::Complete(sum) if payload.as_ptr_range().end == bytes.as_ptr_range().end => {
            sum.sub(sum_header(&bytes[SUMMED_FROM..bytes.len() - payload.len()]))
        }
        _ => kernel.sum(payload),
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Does the work that a predicted segment makes due: tells the application, sends what it made room for,
    /// acknowledges.
    #[inline(never)]
    fn follow_up<const COMMON: bool>(&mut self, index: usize, ready: u8) {
        if ready != 0 {
            self.notify(index, ready);
        }
        if self.stack.tcbs[index].unsent.is_some() {
            self.output(index);
        }
        if self.stack.tcbs[index].unacked >= self.stack.compiled.ack_after::<COMMON>() {
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
            &mut stack.wheel,
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

/// Fields of a segment that has passed every check.
struct Says {
    ack: SeqNumber,
    window: u32,
    ts_value: u32,
}

/// Takes in timestamp, window and acknowledgment.
#[inline(always)]
fn accept(
    tcb: &mut Tcb,
    pool: &mut Pool,
    wheel: &mut Wheel,
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
    take_acknowledgment(tcb, pool, wheel, index, now, (says.ack, None), floor)
}

/// The snd_una side of a new acknowledgment: frees what it covers, measures the round trip, opens cwnd. Returns what the
/// connection has become ready for.
#[inline(always)]
fn take_acknowledgment(
    tcb: &mut Tcb,
    pool: &mut Pool,
    wheel: &mut Wheel,
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
    if unlikely(ack.0 < acked) {
        tcb.wraps[0] = tcb.wraps[0].wrapping_add(1);
    }
    tcb.snd_una = ack;
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
    if likely(ack == tcb.snd_nxt) {
        tcb.rtx_deadline = Deadline::NONE;
    } else {
        restart_retransmission(tcb, wheel, index, now);
    }
    if unlikely(tcb.is_any(flag::CWND_LIMITED | flag::RECOVER, readiness::WANT_WRITE)) {
        if tcb.is(flag::RECOVER) && tcb.recover.before(ack) {
            tcb.flags &= !flag::RECOVER;
        }
        if tcb.is(flag::CWND_LIMITED) {
            // Until output is held back by it again.
            tcb.flags &= !flag::CWND_LIMITED;
            congestion::on_ack(tcb, acked);
        }
        // Told only to an application that was refused, and when it is worth its while.
        if tcb.events & readiness::WANT_WRITE != 0 && tcb.snd_end - ack <= tcb.snd_limit / 2 {
            tcb.events &= !readiness::WANT_WRITE;
            return readiness::WRITABLE;
        }
    }
    0
}

/// RFC 6298, 5.3: the timer starts anew with each acknowledgment, and earlier than before when the timeout has become
/// shorter.
#[inline(never)]
fn restart_retransmission(tcb: &mut Tcb, wheel: &mut Wheel, index: usize, now: Instant) {
    let at = now.tick().after(u32::from(tcb.rto));
    tcb.rtx_deadline.set(at, &mut tcb.armed, wheel, index);
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
fn advance(tcb: &mut Tcb, len: u32) {
    tcb.rcv_nxt += len;
    if unlikely(tcb.rcv_nxt.0 < len) {
        tcb.wraps[1] = tcb.wraps[1].wrapping_add(1);
    }
    tcb.unacked += 1;
}
