//! The predicted path of the segments that move a connection from one state to the next and carry no data: SYNs, which are
//! [`crate::tcp::fast::syn`]'s, the acknowledgment that completes the handshake, a FIN, and the acknowledgment of ours.
//!
//! [`crate::tcp::fast::receive`] leaves every segment to others whose state or flags are not those of a data transfer. Of these, a
//! connection that goes as most do sees only segments that are next in order, acknowledge everything, and have the usual
//! layout. Whether a segment is such a one is found out here without looking at options, windows' edges, duplicates or
//! losses one by one; what it then means is what [`crate::tcp::slow::segment`] and [`crate::tcp::slow::acknowledgment`] do in any case. Nothing
//! is changed before every check has passed; whatever fails goes the general way untouched, and the reason is counted.
//! Which segments are taken is RFC 9293, 3.10.7.4, cut down to these.

use super::header;
use crate::buffer::{Frame, Pool};
use crate::compiled::Verify;
use crate::config::Prediction;
use crate::counters::{HandshakeMiss, Miss};
use crate::demux::Search;
use crate::likely::unlikely;
use crate::stack::{Active, Stack};
use crate::tcp::deadline::Deadline;
use crate::tcp::fast::syn::{SYN, SYN_ACK, expect_syn, expect_syn_ack};
use crate::tcp::slow::syn::Syn;
use crate::tcp::tcb::{ACK_MOVES, FIN_MOVES, PREDICTED_WITH_TIMESTAMPS, PSH, State, Tcb, rare};
use crate::tcp::template::STAMPED;
use crate::time::Instant;
use core::hint::cold_path;
use tollgate_checksum::Accumulator;
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;

/// The IP packet's bytes, no payload included.
const TOTAL_LEN: u16 = (STAMPED - header::ETHERNET) as u16;

/// Fields of a segment that has passed every check.
pub(in crate::tcp) struct AckFields {
    ack: SeqNumber,
    /// The peer's window, scaled.
    window: u32,
    ts_value: u32,
}

/// Transition that a segment asks for that has passed every check.
pub(in crate::tcp) enum Handshake {
    /// An acknowledgment of everything.
    Acknowledgment(AckFields),
    /// A FIN.
    Fin(AckFields),
    /// A SYN that acknowledges ours.
    SynAck(Syn),
}

impl Stack {
    /// Takes a segment that is not of a data transfer when it moves its connection on in the usual way; otherwise has changed
    /// nothing and says why it was not predicted.
    #[inline(never)]
    pub(in crate::tcp) fn handshake_predicted<R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        rec: R,
        index: usize,
        frame: &Frame,
    ) -> Result<(), Miss> {
        let Some(tcb) = self.tcbs.get(index) else {
            cold_path();
            return Err(Miss::Flags);
        };
        if self.config.mechanisms.prediction != Prediction::Bidirectional {
            cold_path();
            return Err(Miss::Flags);
        }
        let handshake = expect_handshake(pool, frame, tcb, self.must_verify(frame));
        let mut stack = Active {
            stack: self,
            pool,
            now,
            rec,
        };
        match handshake {
            Ok(Handshake::Acknowledgment(fields)) => stack.acknowledgment_moves(index, fields),
            Ok(Handshake::Fin(fields)) => stack.fin_moves(index, fields),
            Ok(Handshake::SynAck(syn)) => stack.syn_ack_moves(index, &syn),
            Err(reason) => {
                cold_path();
                self.counters.handshake_miss(reason);
                return Err(Miss::Flags);
            }
        }
        pool.release(frame.id);
        self.counters.predicted_handshakes += 1;
        Ok(())
    }

    /// Like [`Stack::handshake_predicted`] for a segment that belongs to no connection, as `search` says.
    #[inline(never)]
    pub(in crate::tcp) fn syn_predicted<R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        rec: R,
        frame: &Frame,
        search: Search,
    ) -> Result<(), Miss> {
        if self.config.mechanisms.prediction != Prediction::Bidirectional {
            cold_path();
            return Err(Miss::NoConnection);
        }
        let syn = expect_syn(pool.frame(frame), SYN, self.must_verify(frame));
        let mut stack = Active {
            stack: self,
            pool,
            now,
            rec,
        };
        // By reference: SYNs are large.
        let opened = match &syn {
            Ok((key, syn)) => stack.syn_opens(*key, syn, search),
            Err(reason) => Err(*reason),
        };
        if let Err(reason) = opened {
            cold_path();
            self.counters.handshake_miss(reason);
            return Err(Miss::NoConnection);
        }
        pool.release(frame.id);
        self.counters.predicted_handshakes += 1;
        Ok(())
    }

    /// Tells whether the checksum of a frame's segment is to be verified.
    #[inline(always)]
    fn must_verify(&self, frame: &Frame) -> bool {
        self.compiled.verify != Verify::None && !frame.checksum.is_verified()
    }
}

impl<R: Recorder> Active<'_, R> {
    /// An acknowledgment of everything that ends a connection's state.
    #[inline(always)]
    fn acknowledgment_moves(&mut self, index: usize, fields: AckFields) {
        let Some(tcb) = self.stack.tcbs.get_mut(index) else {
            return;
        };
        match tcb.state {
            // Nobody will ask what the last acknowledgment said.
            State::LastAck if tcb.is_rare(rare::ORPHAN) => self.free_connection(index),
            State::FinWait1 if tcb.is_rare(rare::ORPHAN) => self.fin_acknowledged(index, fields),
            State::SynReceived => {
                // The window of the SYN was not scaled; this one is.
                (tcb.snd_wnd, tcb.max_snd_wnd) = (0, 0);
                self.apply_ack_fields(index, fields);
                self.established(index);
            }
            _ => {
                self.apply_ack_fields(index, fields);
                self.acknowledged_fin(index);
            }
        }
    }

    /// Our FIN has been acknowledged, and nobody will send or ask any more: how long it took tells nothing.
    #[inline(always)]
    fn fin_acknowledged(&mut self, index: usize, fields: AckFields) {
        self.release_send_queue(index);
        let tcb = &mut self.stack.tcbs[index];
        if tcb.unacked == 0 {
            tcb.ts_recent = fields.ts_value;
        }
        tcb.take_window(fields.window);
        tcb.acknowledge_up_to(fields.ack);
        tcb.rtx_deadline = Deadline::NONE;
        tcb.move_to(State::FinWait2);
        self.start_fin_wait_2(index);
    }

    /// The peer's FIN, next in order.
    #[inline(always)]
    fn fin_moves(&mut self, index: usize, fields: AckFields) {
        let Some(tcb) = self.stack.tcbs.get_mut(index) else {
            return;
        };
        tcb.fin_seq = tcb.rcv_nxt;
        tcb.rare |= rare::FIN_SEEN;
        match tcb.state {
            State::Established => {
                self.apply_ack_fields(index, fields);
                self.fin_arrives(index);
                if !self.stack.await_close(index) {
                    cold_path();
                    self.acknowledge(index);
                }
            }
            // It acknowledges ours, and nobody will send or ask any more.
            State::FinWait1 if tcb.is_rare(rare::ORPHAN) => {
                if tcb.unacked == 0 {
                    tcb.ts_recent = fields.ts_value;
                }
                tcb.acknowledge_up_to(fields.ack);
                tcb.move_to(State::FinWait2);
                self.fin_arrives(index);
            }
            State::FinWait1 => {
                self.apply_ack_fields(index, fields);
                self.acknowledged_fin(index);
                self.fin_arrives(index);
            }
            _ => {
                self.apply_ack_fields(index, fields);
                self.fin_arrives(index);
            }
        }
    }

    /// Timestamp, window and acknowledgment of a segment.
    #[inline(always)]
    fn apply_ack_fields(&mut self, index: usize, fields: AckFields) {
        let tcb = &mut self.stack.tcbs[index];
        // RFC 7323, 4.3.
        if tcb.unacked == 0 {
            tcb.ts_recent = fields.ts_value;
        }
        tcb.take_window(fields.window);
        if fields.ack != tcb.snd_una {
            // A sign of life: the time to give up starts anew.
            tcb.user_deadline = Deadline::NONE;
            self.acknowledged(index, fields.ack, None);
        }
    }
}

/// The prediction. That the frame is an unfragmented TCP segment for us behind an intact IP header without options, and of
/// this connection, has been found out.
#[inline(always)]
fn expect_handshake(
    pool: &Pool,
    frame: &Frame,
    tcb: &Tcb,
    verify: bool,
) -> Result<Handshake, HandshakeMiss> {
    const ACK: u16 = ACK_MOVES.to_be();
    const FIN: u16 = FIN_MOVES.to_be();
    const ANSWER: u16 = SYN_ACK.to_be();
    if usize::from(frame.len) < STAMPED {
        cold_path();
        return Err(HandshakeMiss::Payload);
    }
    let Some(head) = pool.head::<STAMPED>(frame) else {
        cold_path();
        return Err(HandshakeMiss::Payload);
    };
    match header::offset_and_flags_ne(head) & !PSH.to_be() {
        ACK => expect::<false>(head, tcb, verify).map(Handshake::Acknowledgment),
        FIN => expect::<true>(head, tcb, verify).map(Handshake::Fin),
        ANSWER => expect_syn_ack(pool.frame(frame), tcb, verify).map(Handshake::SynAck),
        _ => Err(HandshakeMiss::Flags),
    }
}

/// Predicts an acknowledgment, or a FIN.
#[inline(always)]
fn expect<const FIN: bool>(
    head: &[u8; STAMPED],
    tcb: &Tcb,
    verify: bool,
) -> Result<AckFields, HandshakeMiss> {
    if header::total_len(head) != TOTAL_LEN {
        cold_path();
        return Err(HandshakeMiss::Payload);
    }
    if !header::has_timestamp_layout(head) {
        cold_path();
        return Err(HandshakeMiss::OptionLayout);
    }
    let ack = header::acknowledgment(head);
    if !moves_on::<FIN>(tcb, ack) {
        cold_path();
        return Err(HandshakeMiss::State);
    }
    if header::sequence(head) != tcb.rcv_nxt || tcb.rcv_edge == tcb.rcv_nxt {
        cold_path();
        return Err(HandshakeMiss::Sequence);
    }
    if FIN && unlikely!(ack - tcb.snd_una > tcb.in_flight()) {
        return Err(HandshakeMiss::Acknowledgment);
    }
    let ts_value = header::timestamp(head).unwrap_or(tcb.ts_recent);
    if (ts_value.wrapping_sub(tcb.ts_recent) as i32) < 0 {
        cold_path();
        return Err(HandshakeMiss::Timestamp);
    }
    let window = header::window(head, tcb);
    if window == 0 {
        cold_path();
        return Err(HandshakeMiss::ZeroWindow);
    }
    if verify
        && unlikely!(!header::is_intact::<0, _>(
            head,
            TOTAL_LEN,
            Accumulator::ZERO
        ))
        && !leaves_out(tcb, head)
    {
        return Err(HandshakeMiss::Checksum);
    }
    Ok(AckFields {
        ack,
        window,
        ts_value,
    })
}

/// Tells whether a segment has no checksum, and its connection takes such ones and has nothing to learn from that.
#[cold]
fn leaves_out(tcb: &Tcb, head: &[u8; STAMPED]) -> bool {
    tcb.takes_unsummed(header::checksum(head)) && !tcb.waits_for_unsummed()
}

/// Tells whether nothing is going on with a connection but what its state says, and an acknowledgment of everything moves it on,
/// or a FIN with one; a FIN moves an established connection on whatever it acknowledges.
#[inline(always)]
fn moves_on<const FIN: bool>(tcb: &Tcb, ack: SeqNumber) -> bool {
    // Where the peer's FIN was seen already, out of order, another is unusual.
    const BUSY_FOR_FIN: u32 = rare::FIN_PENDING | rare::FIN_SEEN;
    let all = ack == tcb.snd_nxt;
    let expected = if FIN {
        tcb.rare & BUSY_FOR_FIN == 0
            && match tcb.predicted {
                FIN_MOVES => all,
                PREDICTED_WITH_TIMESTAMPS => true,
                ACK_MOVES => all && tcb.state == State::FinWait1,
                _ => false,
            }
    } else {
        all && tcb.rare & rare::FIN_PENDING == 0 && tcb.predicted == ACK_MOVES
    };
    expected && tcb.backoff == 0 && tcb.unsent.is_none() && !tcb.keep_deadline.is_set()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use core::net::{Ipv4Addr, SocketAddrV4};
    use tollgate_wire::ethernet::MacAddr;

    /// Bytes that the connection has sent before, of which the last are not acknowledged.
    const SENT: u64 = 5 << 32;

    /// Counts of what was sent stay right where the acknowledgment of the last FIN passes 2^32.
    #[test]
    fn acknowledgment_of_an_orphans_fin_counts_wraps() {
        for with_fin in [false, true] {
            let own = Ipv4Addr::new(10, 0, 0, 1);
            let config = Config::new(MacAddr([2, 0, 0, 0, 0, 1]), own, 24, [1, 2, 3, 4]);
            let now = Instant::from_nanos(1 << 40);
            let mut pool = Pool::new(16, 2048);
            let mut stack = Stack::new(config, 1500, now).unwrap();
            let peer = Ipv4Addr::new(10, 0, 0, 2);
            let mut active = stack.at(now, &mut pool);
            active.add_neighbour(peer, MacAddr([2, 0, 0, 0, 0, 2]));
            active.connect(SocketAddrV4::new(peer, 7)).unwrap();
            let tcb = &mut active.stack.tcbs[0];
            tcb.iss = SeqNumber(9);
            tcb.wraps[0] = 4;
            tcb.snd_una = SeqNumber(u32::MAX - 99);
            tcb.snd_end = SeqNumber(10);
            tcb.snd_nxt = tcb.snd_end;
            tcb.state = State::FinWait1;
            tcb.flags |= crate::tcp::tcb::flag::FIN_QUEUED;
            tcb.rare |= rare::ORPHAN;
            // SYN and FIN are no bytes.
            assert_eq!(tcb.queued(), SENT - 1);
            let fields = AckFields {
                ack: tcb.snd_end,
                window: 1000,
                ts_value: tcb.ts_recent,
            };
            if with_fin {
                active.fin_moves(0, fields);
            } else {
                active.fin_acknowledged(0, fields);
                active.free_connection(0);
            }
            assert_eq!(active.stack.counters.queued_before, SENT - 1);
        }
    }
}
