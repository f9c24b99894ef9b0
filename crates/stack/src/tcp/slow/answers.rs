//! Answers to segments that are not taken: acknowledgments, challenges (RFC 5961), RSTs (RFC 9293, 3.10.7.1).
//!
//! Anybody can provoke them, so each kind has a limit: acknowledgments for each connection ([`Tcb::may_answer`]), RSTs of
//! the host and answers in TIME-WAIT apart from each other. This module must never change a connection but for that limit.
//!
//! [`Tcb::may_answer`]: crate::tcp::tcb::Tcb::may_answer

use crate::demux::FlowKey;
use crate::limit::RateLimit;
use crate::stack::Active;
use crate::tcp::slow::segment::Segment;
use crate::tcp::tcb::{Tcb, flag, rare};
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::{Flags, Header, Options, Timestamps};

/// RSTs in answer to segments that no connection takes, and answers by connections in TIME-WAIT, in a period of 0.27 s: each
/// kind has a limit of its own, so that a flood of one kind leaves the other (RFC 5961, 7).
const ANSWERS_PER_PERIOD: u32 = 200;
const PERIOD: u32 = 256;

/// A limit for one of these kinds.
pub(crate) const fn answer_limit() -> RateLimit {
    RateLimit::new(ANSWERS_PER_PERIOD, PERIOD)
}

impl Tcb {
    /// The sequence number of a segment without data: SND.MAX, or the end of the peer's window where a probe of it went further. A peer
    /// that has not taken the probe drops what lies outside, and may not look at what it acknowledges (RFC 9293, 3.10.7.4).
    pub(in crate::tcp) fn acceptable_sequence(&self) -> SeqNumber {
        let sent = self.highest_sent();
        let end = self.snd_una + self.snd_wnd;
        if self.is_rare(rare::PERSIST) && end.before(sent) {
            end
        } else {
            sent
        }
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Acknowledges in answer to a segment that is not acceptable: always data, and a FIN, that were sent again or are a probe, a made-up
    /// number and a SYN (RFC 5961, 7) only so often.
    pub(in crate::tcp) fn answer_unacceptable(&mut self, index: usize, segment: &Segment) {
        let tick = self.now.tick();
        let tcb = &mut self.stack.tcbs[index];
        let distance = segment.header.seq.signed_distance(tcb.rcv_nxt);
        let near = distance.unsigned_abs() <= 1 << 20;
        let again = segment.len != 0 || segment.header.flags.has(Flags::FIN);
        if (near && again) || tcb.may_answer(tick) {
            self.acknowledge(index);
        }
    }

    pub(in crate::tcp) fn challenge(&mut self, index: usize) {
        if self.stack.tcbs[index].may_answer(self.now.tick()) {
            self.stack.counters.challenge_acks += 1;
            self.acknowledge(index);
        } else {
            self.stack.counters.challenge_acks_limited += 1;
        }
    }

    /// Sends a RST that the peer of a connection accepts.
    pub(crate) fn send_reset_of(&mut self, index: usize) {
        let tcb = &self.stack.tcbs[index];
        let header = Header {
            source_port: tcb.local_port(),
            destination_port: tcb.remote_port(),
            // After a timeout snd_nxt went back; what was sent before it may have arrived.
            seq: tcb.acceptable_sequence(),
            ack: tcb.rcv_nxt,
            header_len: 0,
            flags: Flags::RST | Flags::ACK,
            window: 0,
            urgent: 0,
            accurate_ecn: false,
            options: Options {
                // RFC 7323, 3.2: a RST should carry them, too.
                timestamps: tcb.is(flag::TIMESTAMPS).then(|| Timestamps {
                    value: self.now.tick().0.wrapping_add(tcb.ts_offset),
                    echo: tcb.ts_recent,
                }),
                ..Options::default()
            },
        };
        self.stack.counters.resets_sent += 1;
        let way = self.way_of(index);
        self.send_header(way, &header);
    }

    /// Answers a segment that no connection takes with a RST (3.10.7.1), never a RST with a RST.
    pub(in crate::tcp) fn reset_in_answer(&mut self, key: FlowKey, segment: &Segment) {
        let header = &segment.header;
        let random = &mut self.stack.secrets.random;
        if header.flags.has(Flags::RST) || !self.stack.refusals.allow(self.now, random) {
            return;
        }
        let (seq, ack, flags) = if header.flags.has(Flags::ACK) {
            (header.ack, SeqNumber(0), Flags::RST)
        } else {
            (
                SeqNumber(0),
                header.seq + segment.seq_len(),
                Flags::RST | Flags::ACK,
            )
        };
        let answer = Header {
            source_port: header.destination_port,
            destination_port: header.source_port,
            seq,
            ack,
            header_len: 0,
            flags,
            window: 0,
            urgent: 0,
            accurate_ecn: false,
            options: Options::default(),
        };
        self.stack.counters.resets_sent += 1;
        self.send_unconnected(key, &answer);
    }
}
