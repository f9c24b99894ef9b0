//! An account of a connection, like Linux's TCP_INFO.
//!
//! It is worked out when it is asked for: from sequence numbers, deadlines, and what lies beside the TCBs. The predicted path
//! counts nothing for it. So it has no numbers of segments and no times of a segment that was acknowledged; `docs/stack.md` says
//! of each field of Linux's structure where it is here, or why it is not. Nothing here may change a connection.

use crate::config::{DelayedAck, Mechanisms, Nagle};
use crate::socket::{ConnId, Error};
use crate::stack::Active;
use crate::tcp::slow::fast_open_client::FastOpen;
use crate::tcp::slow::redundancy::Checksums;
use crate::tcp::tcb::{QUIET_LOOKS, State, Tcb, flag, rare};
use crate::time::Tick;
use core::net::SocketAddr;
use core::time::Duration;
use tollgate_gate::Recorder;
use tollgate_wire::tcp;

/// State of congestion control and loss recovery (Linux: `tcpi_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionState {
    /// Nothing looks lost.
    Open,
    /// Duplicate or selective acknowledgments have come, and nothing is taken for lost yet.
    Disorder,
    /// Something lost is sent again, and the window comes down (RFC 5681, 3.2; RFC 9937).
    Recovery,
    /// The retransmission timer has fired, and everything is sent again (RFC 5681, 3.1).
    Loss,
}

/// Account of a connection, like Linux's TCP_INFO. Sizes are bytes of payload where Linux counts segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// State.
    pub state: State,
    /// Our address and port.
    pub local: SocketAddr,
    /// The peer's address and port.
    pub remote: SocketAddr,
    /// Tells whether the timestamp option is on.
    pub timestamps: bool,
    /// Shift of the windows that the peer sends.
    pub send_window_shift: u8,
    /// Shift of the windows that we send.
    pub receive_window_shift: u8,
    /// Bytes of payload in a full segment that we send.
    pub mss: u16,
    /// Bytes of payload in a full segment of the peer's: the MSS that we offer, less the options of every segment.
    pub receive_mss: u16,
    /// Smoothed round trip time; zero when none was measured.
    pub rtt: Duration,
    /// Its variation.
    pub rtt_variation: Duration,
    /// Retransmission timeout, rounded up to the timer's tick.
    pub rto: Duration,
    /// The shortest round trip of the last 150 to 300 s, of those that the stack keeps: while the congestion window limits what is sent, and
    /// while something is lost or out of order.
    pub min_rtt: Option<Duration>,
    /// Longest delay of an acknowledgment that we owe; zero where they are not delayed.
    pub ack_delay: Duration,
    /// Timeouts in a row without an answer: the retransmission timeout is doubled so often.
    pub backoff: u8,
    /// Probes of a closed window or of a silent peer that have not been answered.
    pub probes: u8,
    /// State of congestion control and loss recovery.
    pub congestion_state: CongestionState,
    /// Congestion window, bytes.
    pub congestion_window: u32,
    /// Slow start threshold, bytes; `u32::MAX` when there was no loss.
    pub slow_start_threshold: u32,
    /// Bytes that the peer lets be outstanding.
    pub send_window: u32,
    /// Bytes that we let be outstanding.
    pub receive_window: u32,
    /// Bytes sent and not acknowledged.
    pub in_flight: u32,
    /// Bytes that the peer has beyond what it acknowledges, as it says selectively.
    pub sacked: u32,
    /// Bytes that are taken for lost.
    pub lost: u32,
    /// Bytes of these that are on their way again.
    pub resent: u32,
    /// Time since the oldest segment was sent last that is not acknowledged.
    pub oldest_unacknowledged: Option<Duration>,
    /// Bytes queued and never sent.
    pub unsent: u32,
    /// Bytes received in order that the application has not read.
    pub unread: u32,
    /// Bytes that may be queued for sending, acknowledged ones apart.
    pub send_buffer: u32,
    /// Bytes that may be queued for reading.
    pub receive_buffer: u32,
    /// Bytes acknowledged by the peer, the SYN's and FIN's apart.
    pub bytes_acknowledged: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
    /// Bytes sent, those sent again counted as often.
    pub bytes_sent: u64,
    /// Bytes sent again.
    pub bytes_retransmitted: u64,
    /// Bytes that the peer has, acknowledged or selectively.
    pub bytes_delivered: u64,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// Retransmission timeouts.
    pub timeouts: u16,
    /// Fast retransmissions.
    pub fast_retransmits: u16,
    /// Segments that arrived out of order.
    pub out_of_order: u32,
    /// Segments that arrived again.
    pub duplicates: u32,
    /// Segments that the peer says it has twice (D-SACK, RFC 2883).
    pub reported_duplicates: u32,
    /// Time by which a segment may arrive late without being taken for lost, once reordering was seen (RFC 8985, 6.2).
    pub reordering_window: Option<Duration>,
    /// Recoveries that were undone, since nothing had been lost (RFC 4015; RFC 2883, 5).
    pub undone_recoveries: u32,
    /// Tail loss probes that were sent (RFC 8985, 7).
    pub tail_probes: u32,
    /// Explicit congestion notification is agreed on (RFC 3168).
    pub ecn: bool,
    /// Outcome of opening the connection with data (RFC 7413).
    pub fast_open: FastOpen,
    /// Packets that the peer has found marked, where it counts them (RFC 9768); nothing with classic feedback or none.
    pub marked_packets: Option<u32>,
    /// Bytes per second at which segments are sent, where the connection is paced.
    pub pacing_rate: Option<u64>,
    /// Both ends take selective acknowledgments (RFC 2018).
    pub selective_acknowledgments: bool,
    /// Bytes that are left to be read up to the end of the peer's urgent data, arrived or not (RFC 9293, MUST-33); 0 when
    /// nothing is urgent.
    pub urgent: u32,
    /// Diffserv codepoint of the segments that we send.
    pub diffserv: u8,
    /// The mechanisms of the connection: those of its stack, and its own choice of Nagle's algorithm.
    pub mechanisms: Mechanisms,
    /// Checksums of the connection, or why it has none.
    pub checksums: Checksums,
}

impl<R: Recorder> Active<'_, R> {
    /// Account of the connection.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub fn info(&self, conn: ConnId) -> Result<Info, Error> {
        let index = self.stack.index(conn)?;
        let tcb = &self.stack.tcbs[index];
        let below = |wraps: u16, now: u32, first: u32| {
            (u64::from(wraps) << 32 | u64::from(now)).saturating_sub(u64::from(first) + 1)
        };
        let recovery = self.stack.recovery(index);
        let (remote, local) = self.stack.ends_of(tcb.key);
        let board = recovery.filter(|_| tcb.is_rare(rare::SCOREBOARD));
        let board = board.map(|state| &state.board);
        let (sacked, lost, resent) = board.map_or((0, 0, 0), |b| (b.sacked, b.lost, b.resent));
        let fin_acknowledged = tcb.is(flag::FIN_QUEUED)
            && tcb.snd_una == tcb.snd_end
            && tcb.tx_head.is_none()
            && !tcb.is_rare(rare::FIN_PENDING);
        let bytes_acknowledged = below(tcb.wraps[0], tcb.snd_una.0, tcb.iss.0)
            .saturating_sub(u64::from(fin_acknowledged));
        let unacknowledged = tcb.unacknowledged_bytes();
        let bytes_retransmitted = recovery.map_or(0, |state| state.bytes_retransmitted);
        Ok(Info {
            state: tcb.state,
            local,
            remote,
            timestamps: tcb.is(flag::TIMESTAMPS),
            send_window_shift: tcb.snd_shift,
            receive_window_shift: tcb.rcv_shift,
            mss: tcb.mss,
            receive_mss: self.offered_mss(index) - (tcb.header_len() - tcp::HEADER_LEN) as u16,
            rtt: Duration::from_nanos(tcb.rtt.smoothed_ns()),
            rtt_variation: Duration::from_nanos(tcb.rtt.variation_ns()),
            rto: Duration::from_nanos(u64::from(tcb.rto) << Tick::SHIFT),
            min_rtt: self
                .stack
                .controllers
                .min_rtt_ns(index)
                .map(Duration::from_nanos),
            ack_delay: match self.stack.config.mechanisms.delayed_ack {
                DelayedAck::On => self.stack.config.delayed_ack,
                DelayedAck::Off => Duration::ZERO,
            },
            backoff: tcb.backoff,
            probes: tcb.unanswered_probes(),
            congestion_state: tcb.congestion_state(),
            congestion_window: board.map_or(tcb.cwnd, |board| board.window),
            slow_start_threshold: tcb.ssthresh,
            send_window: tcb.snd_wnd,
            receive_window: tcb.rcv_edge - tcb.rcv_nxt,
            in_flight: tcb.in_flight(),
            sacked,
            lost,
            resent,
            oldest_unacknowledged: self.oldest_unacknowledged(tcb),
            unsent: tcb.snd_end - tcb.highest_sent(),
            unread: tcb.rcv_nxt
                - u32::from(tcb.is_rare(rare::FIN_RECEIVED))
                - tcb.consumed(self.pool),
            send_buffer: tcb.snd_limit,
            receive_buffer: tcb.rcv_limit,
            bytes_acknowledged,
            bytes_received: below(tcb.wraps[1], tcb.rcv_nxt.0, tcb.irs.0)
                .saturating_sub(u64::from(tcb.is_rare(rare::FIN_RECEIVED))),
            bytes_sent: bytes_acknowledged + u64::from(unacknowledged) + bytes_retransmitted,
            bytes_retransmitted,
            bytes_delivered: bytes_acknowledged + u64::from(sacked),
            retransmits: tcb.retransmits,
            timeouts: tcb.timeouts,
            fast_retransmits: tcb.fast_retransmits,
            out_of_order: tcb.out_of_order,
            duplicates: recovery.map_or(0, |state| state.duplicates),
            reported_duplicates: recovery.map_or(0, |state| state.reported_duplicates),
            reordering_window: recovery.and_then(|state| state.reordering_window(tcb)),
            undone_recoveries: recovery.map_or(0, |state| state.undone),
            tail_probes: recovery.map_or(0, |state| state.probes),
            ecn: self.stack.ecn(index).is_some() && tcb.state != State::SynSent,
            fast_open: self.stack.fast_open_outcome(index),
            marked_packets: self
                .stack
                .ecn(index)
                .filter(|_| tcb.state != State::SynSent)
                .and_then(|ecn| ecn.marked_packets()),
            pacing_rate: self.stack.controllers.pacing_rate(tcb, index),
            selective_acknowledgments: tcb.is_rare(rare::SACK_PERMITTED),
            urgent: self.stack.urgent_left(self.pool, index),
            diffserv: self.stack.extension(index).map_or(0, |u| u.diffserv >> 2),
            mechanisms: Mechanisms {
                nagle: if tcb.is(flag::NO_DELAY) && !tcb.is_rare(rare::NAGLE_LATER) {
                    Nagle::Off
                } else {
                    Nagle::On
                },
                ..self.stack.config.mechanisms
            },
            checksums: self.stack.checksums_of(index),
        })
    }
    /// Time since the oldest segment was sent last that is not acknowledged.
    fn oldest_unacknowledged(&self, tcb: &Tcb) -> Option<Duration> {
        let first = self.pool.meta_if(tcb.tx_head)?;
        if first.transmissions.is_none() {
            return None;
        }
        let sent = first.last_sent_ns(self.now);
        Some(Duration::from_nanos(
            self.now.as_nanos().saturating_sub(sent),
        ))
    }
}

impl Tcb {
    /// Bytes of payload that were sent and are not acknowledged: neither a SYN nor a FIN counts.
    fn unacknowledged_bytes(&self) -> u32 {
        let sent = self.highest_sent();
        let fin = self.is(flag::FIN_QUEUED)
            && !self.is_rare(rare::FIN_PENDING)
            && sent == self.snd_end
            && self.tx_head.is_some();
        let syn = self.snd_una == self.iss;
        (sent - self.snd_una).saturating_sub(u32::from(fin) + u32::from(syn))
    }

    /// Probes of a closed window, or keepalive probes, without an answer.
    fn unanswered_probes(&self) -> u8 {
        if self.is_rare(rare::PERSIST) {
            self.backoff
        } else {
            (self.keep_looks + 1).saturating_sub(QUIET_LOOKS)
        }
    }

    fn congestion_state(&self) -> CongestionState {
        if self.is_rare(rare::LOSS) {
            CongestionState::Loss
        } else if self.is_rare(rare::RECOVERY) {
            CongestionState::Recovery
        } else if self.dup_acks != 0 || self.is_rare(rare::SCOREBOARD) {
            CongestionState::Disorder
        } else {
            CongestionState::Open
        }
    }
}
