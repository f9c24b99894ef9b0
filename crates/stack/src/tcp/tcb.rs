//! The transmission control block: two cache lines that the predicted path touches, and a cold rest.
//!
//! Line one holds what input compares and moves, line two the queues, the header template and the deadlines. An
//! assertion at compile time holds them there. Everything a connection needs beyond its buffers is in here, so that an
//! idle connection costs this and its entries in the demultiplexer and the timing wheel.

use super::marks::Marks;
use crate::buffer::{CACHE_LINE, FrameId};
use crate::config::{Config, LossRecovery, MtuProbing, Nagle, Prediction};
use crate::demux::{FlowHash, FlowKey};
use crate::tcp::deadline::Deadline;
use crate::tcp::recovery::rto::{HIGHEST_FLOOR, INITIAL_RTO, Rtt};
use crate::time::{Tick, ticks};
use core::hint::cold_path;
use core::mem::offset_of;
use core::net::Ipv4Addr;
use tollgate_checksum::Checksum;
use tollgate_wire::SeqNumber;
use tollgate_wire::ethernet::MacAddr;
use tollgate_wire::tcp::Flags;

/// The states of RFC 9293, 3.3.2. LISTEN lives in a `crate::tcp::slow::listener::Listener` and TIME-WAIT in a
/// `crate::tcp::slow::time_wait::TimeWait`, which need far less room; both appear here so that the eleven are one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum State {
    /// No connection.
    #[default]
    Closed,
    /// Waiting for a request from any peer.
    Listen,
    /// A SYN was sent.
    SynSent,
    /// A SYN was received and one was sent.
    SynReceived,
    /// Data flow.
    Established,
    /// The user closed; our FIN is on its way.
    FinWait1,
    /// Our FIN is acknowledged; the peer's is awaited.
    FinWait2,
    /// The peer closed; the user has not.
    CloseWait,
    /// Both closed at once; the acknowledgment of our FIN is awaited.
    Closing,
    /// The peer closed, then the user; the acknowledgment of our FIN is awaited.
    LastAck,
    /// Both are done; old segments are waited out.
    TimeWait,
}

impl State {
    /// Tells whether the handshake is complete and a peer knows the connection.
    pub const fn is_synchronized(self) -> bool {
        !matches!(
            self,
            State::Closed | State::Listen | State::SynSent | State::SynReceived
        )
    }

    /// Tells whether the user may still send.
    #[inline(always)]
    pub const fn may_send(self) -> bool {
        matches!(self, State::Established | State::CloseWait)
    }

    /// Data offset and flags of the segment that a connection in this state waits for when it has the timestamp option.
    #[inline(always)]
    const fn predicted_with_timestamps(self) -> u16 {
        match self {
            State::Established => PREDICTED_WITH_TIMESTAMPS,
            State::SynReceived | State::FinWait1 | State::LastAck => ACK_MOVES,
            State::FinWait2 => FIN_MOVES,
            State::SynSent | State::CloseWait | State::Closing => NOTHING_MOVES,
            State::Closed | State::Listen | State::TimeWait => UNPREDICTABLE,
        }
    }

    /// Tells whether data may still arrive.
    pub const fn may_receive(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }
}

/// Bits of [`Tcb::flags`]: those that the data path looks at.
pub(crate) mod flag {
    /// The timestamp option is on (RFC 7323).
    pub(crate) const TIMESTAMPS: u8 = 1;
    /// Nagle's algorithm is off (RFC 9293, 3.7.4).
    pub(crate) const NO_DELAY: u8 = 1 << 1;
    /// The congestion window, not the application, limits the sender, so it may grow (RFC 9293, 3.7.2; RFC 7661).
    pub(crate) const CWND_LIMITED: u8 = 1 << 2;
    /// Frames do not go straight to the device queue when the template is written: the next hop's link address is not
    /// known, the headers are to be amended ([`super::rare::AMENDED`]), a partial segment waits for more, or the connection is
    /// paced.
    pub(crate) const SLOW_TRANSMIT: u8 = 1 << 3;
    /// The connection is in the list of those with events.
    pub(crate) const LISTED: u8 = 1 << 4;
    /// `recover` has not been passed: duplicate acknowledgments may be those of an earlier loss (RFC 6582, 3.2, step 2).
    pub(crate) const RECOVER: u8 = 1 << 5;
    /// Our FIN has been queued: nothing more may be sent.
    pub(crate) const FIN_QUEUED: u8 = 1 << 6;
    /// Nothing has been sent since `quiet_since`, and nothing is in flight.
    pub(crate) const QUIET: u8 = 1 << 7;
}

/// Bits of [`Tcb::rare`].
pub(crate) mod rare {
    /// Loss recovery is under way until `recover` is acknowledged (RFC 6582).
    pub(crate) const RECOVERY: u32 = 1;
    /// The application holds no handle any more.
    pub(crate) const ORPHAN: u32 = 1 << 1;
    /// The connection sits in its listener's accept queue or on the way to it.
    pub(crate) const UNACCEPTED: u32 = 1 << 2;
    /// The last thing that stopped the sender was a zero (or too small) window: probes are due (RFC 9293, 3.8.6.1).
    pub(crate) const PERSIST: u32 = 1 << 3;
    /// The FIN is owed: there was no frame for it.
    pub(crate) const FIN_PENDING: u32 = 1 << 4;
    /// The peer's FIN was seen; `fin_seq` says where.
    pub(crate) const FIN_SEEN: u32 = 1 << 6;
    /// Header prediction is switched off, or until the handshake is complete: a SYN was sent again.
    pub(crate) const UNPREDICTED: u32 = 1 << 7;
    /// `snd_nxt` went back to `snd_una`, and everything up to `snd_max` is sent again (go-back-N).
    pub(crate) const LOSS: u32 = 1 << 5;
    /// The stack keeps something for the connection beside its TCB: an
    /// [`Extension`](crate::tcp::slow::extension::Extension), or a congestion controller's state.
    pub(crate) const EXTENSION: u32 = 1 << 8;
    /// Urgent data has not been read to its end: reads stop there (RFC 9293, 3.8.5).
    pub(crate) const URGENT: u32 = 1 << 9;
    /// TS.Recent has become too old to judge by (RFC 7323, 5.5).
    pub(crate) const OUTDATED: u32 = 1 << 11;
    /// Segments carry more than the template writes: urgent pointer, Diffserv field.
    pub(crate) const AMENDED: u32 = 1 << 10;
    /// A mechanism asks for another way out than the predicted one.
    pub(crate) const SENT_IN_GENERAL: u32 = 1 << 12;
    /// A segment that came out of order has set the send window: `snd_wl1` lies after `rcv_nxt`. Otherwise `snd_wl1` means
    /// nothing, since every segment that begins at `rcv_nxt` or after it is newer.
    pub(crate) const WL1_AHEAD: u32 = 1 << 13;
    /// The connection is in the list of those whose output waits for room in the device queue.
    pub(crate) const OUTPUT_LISTED: u32 = 1 << 14;
    /// The peer's FIN has been received: nothing more will arrive.
    pub(crate) const FIN_RECEIVED: u32 = 1 << 15;
    /// Both ends take selective acknowledgments (RFC 2018, 2). Before the peer's SYN has arrived: ours permits them.
    pub(crate) const SACK_PERMITTED: u32 = 1 << 16;
    /// Every acknowledgment is to be selective: something is out of order, or has arrived twice.
    pub(crate) const SACK_DUE: u32 = 1 << 17;
    /// The stack keeps a [`super::super::recovery::Recovery`] for the connection.
    pub(crate) const RECOVERY_STATE: u32 = 1 << 18;
    /// Frames of the send queue bear marks: [`super::super::recovery::scoreboard`].
    pub(crate) const SCOREBOARD: u32 = 1 << 19;
    /// The application has corked the connection: a partial segment waits for more ([`crate::SocketOption::Cork`]).
    pub(crate) const CORKED: u32 = 1 << 20;
    /// The application has said that more follows what it sent last ([`crate::Boundary::More`]).
    pub(crate) const MORE: u32 = 1 << 21;
    /// Closing resets the connection ([`crate::SocketOption::AbortOnClose`]).
    pub(crate) const ABORT_ON_CLOSE: u32 = 1 << 22;
    /// The connection's SYN is not that of most: its [`Extension`](crate::tcp::slow::extension::Extension) says how.
    pub(crate) const OWN_SYN: u32 = 1 << 23;
    /// [`super::Tcb::low_water`] is set.
    pub(crate) const LOW_WATER: u32 = 1 << 24;
    /// The connection carries data before its handshake is complete ([`crate::tcp::slow::fast_open`]).
    pub(crate) const FAST_OPEN: u32 = 1 << 25;
    /// Nagle's algorithm is on again when the handshake is complete.
    pub(crate) const NAGLE_LATER: u32 = 1 << 26;
    /// A tail loss probe is out: [`super::super::recovery::probe`].
    pub(crate) const PROBE: u32 = 1 << 27;
    /// The size that the path takes is searched for, or was: [`crate::tcp::slow::mtu_search`].
    pub(crate) const MTU_SEARCH: u32 = 1 << 28;
    /// A probe of that size is queued or out.
    pub(crate) const MTU_PROBE: u32 = 1 << 29;
    /// Each segment of the peer bears a counter of marks (RFC 9768): [`super::super::ecn`].
    pub(crate) const ACCURATE_ECN: u32 = 1 << 30;
    /// Output is spread over the round trip: [`crate::tcp::cc`].
    pub(crate) const PACED: u32 = 1 << 31;
}

/// PSH in the word of data offset and flags. A segment of a data transfer is predicted with it set, whether it is or not, so
/// [`Tcb::predicted`] without it matches none.
pub(crate) const PSH: u16 = Flags::PSH.0 as u16;

/// [`Tcb::predicted`] when no segment may be predicted.
pub(crate) const UNPREDICTABLE: u16 = 0;

/// The header word (data offset, flags) of a predicted segment with the timestamp option: 8 words, ACK, and PSH, which
/// is taken as set.
pub(crate) const PREDICTED_WITH_TIMESTAMPS: u16 = 0x8018;
/// The header word of a predicted segment without options: 5 words, ACK, and PSH.
pub(crate) const PREDICTED_WITHOUT_OPTIONS: u16 = 0x5018;
/// The header word of an acknowledgment or a FIN that moves a connection with the timestamp option on to its next state.
pub(crate) const ACK_MOVES: u16 = PREDICTED_WITH_TIMESTAMPS & !PSH;
pub(crate) const FIN_MOVES: u16 = ACK_MOVES | Flags::FIN.0 as u16;
/// Its data offset alone, which no segment has: nothing is unusual, but the state's end is not predicted. All values that
/// stand for a connection with the timestamp option have this bit.
const NOTHING_MOVES: u16 = 0x8000;

/// Bytes by which the header of IPv6 is longer than that of IPv4 without options.
pub(crate) const IPV6_HEADER_EXCESS: u8 = 20;

/// Interval at which a connection is checked that has nothing due: 9.8 hours.
pub(crate) const LOOK: u32 = 1 << 25;
/// Bits of [`Tcb::rare`] with which no segment is predicted.
const UNPREDICTED_INPUT: u32 = rare::RECOVERY
    | rare::ACCURATE_ECN
    | rare::SCOREBOARD
    | rare::PROBE
    | rare::MTU_PROBE
    | rare::LOSS
    | rare::PERSIST
    | rare::UNPREDICTED
    | rare::URGENT
    | rare::OUTDATED
    | rare::FAST_OPEN
    | rare::WL1_AHEAD;
/// Looks of the keepalive timer in the silence that a connection may keep before it is probed. Segments that are predicted
/// do not set that timer, so silence is told to an eighth.
pub(crate) const QUIET_LOOKS: u8 = 8;
/// Ticks between answers to segments that are not acceptable: 0.5 s.
pub(crate) const ANSWER_INTERVAL: u32 = 477;

/// A connection. It is copied only from one that is prepared, when a place is opened or becomes free: eight moves of a vector,
/// where field by field they are a hundred.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Tcb {
    // Line one: what input compares and moves.
    /// Addresses and ports as they lie in an incoming packet.
    pub(crate) key: FlowKey,
    pub(crate) rcv_nxt: SeqNumber,
    pub(crate) snd_una: SeqNumber,
    pub(crate) snd_nxt: SeqNumber,
    /// Bytes that the peer lets be outstanding, scaled.
    pub(crate) snd_wnd: u32,
    /// Congestion window, bytes (RFC 5681).
    pub(crate) cwnd: u32,
    /// TS.Recent (RFC 7323, 4.3).
    pub(crate) ts_recent: u32,
    /// The right edge of the window that the peer has been told; it never moves left (RFC 9293, SHLD-14).
    pub(crate) rcv_edge: SeqNumber,
    /// Offset that is added to the tick to make our timestamp (RFC 7323, 5.4).
    pub(crate) ts_offset: u32,
    /// Data offset and flags that the next segment is predicted to have, or [`UNPREDICTABLE`]. It is predictable only
    /// while nothing is out of order, lost or urgent, so one compare stands for all of these. With [`PSH`] it is that of a
    /// data transfer, which stands for ESTABLISHED, too; without, of the segment that ends the connection's state.
    pub(crate) predicted: u16,
    /// Bytes by which the offered window grows at least: a full segment or half of the buffer, whichever is less
    /// (RFC 9293, 3.8.6.2.2).
    pub(crate) window_step: u16,
    /// Bytes of payload in a full segment that we send, options taken off.
    pub(crate) mss: u16,
    /// Shift of the windows that the peer sends.
    pub(crate) snd_shift: u8,
    /// Shift of the windows that we send.
    pub(crate) rcv_shift: u8,
    pub(crate) state: State,
    /// Segments with data received since the last acknowledgment was sent.
    pub(crate) unacked: u8,
    pub(crate) events: u8,
    pub(crate) flags: u8,
    /// Smoothed round trip time and its variation.
    pub(crate) rtt: Rtt,

    // Line two: queues, template, deadlines.
    /// The oldest frame that is not acknowledged, sent or not.
    pub(crate) tx_head: FrameId,
    /// The first frame that has not been sent.
    pub(crate) unsent: FrameId,
    /// The last frame.
    pub(crate) tx_tail: FrameId,
    /// The sequence number after everything that was queued.
    pub(crate) snd_end: SeqNumber,
    pub(crate) rx_head: FrameId,
    pub(crate) rx_tail: FrameId,
    /// Bytes that the receive queue still has room for. A frame counts for half of what it holds at least, so this is below
    /// zero (modulo 2^32) when a peer has filled its window by small segments.
    pub(crate) rx_free: u32,
    /// Bytes that may be queued for sending and not acknowledged.
    pub(crate) snd_limit: u32,
    /// Header template: the link header's first bytes, which are the next hop's address and the first two of ours. The
    /// other constant bytes are the stack's, or are the key's turned round. Over IPv6 the link header is the destination's, and this is
    /// the IPv6 header's front ([`front_v6`](crate::tcp::template::front_v6)).
    pub(crate) link: [u8; 8],
    /// Bytes of the longest message that goes out predicted: a full segment or the send buffer, or zero while none does.
    pub(crate) sendable: u16,
    /// Header template: the constant part of the TCP checksum, folded.
    pub(crate) tcp_sum: u16,
    /// Header template: the IP checksum of a header whose length is zero.
    pub(crate) ip_checksum: Checksum,
    /// Retransmission timeout, ticks.
    pub(crate) rto: u16,
    pub(crate) rtx_deadline: Deadline,
    pub(crate) ack_deadline: Deadline,
    /// Which life of this place it is. Handles name it, and every life takes two.
    pub(crate) generation: u32,
    /// When the connection's entry in the wheel fires; no later than any deadline. A connection that ends leaves its entry
    /// to the next one in this place.
    pub(crate) armed: Tick,

    // Cold.
    /// Count of bytes below `snd_una` and `rcv_nxt`, in units of 2^32.
    pub(crate) wraps: [u16; 2],
    pub(crate) iss: SeqNumber,
    pub(crate) irs: SeqNumber,
    /// SND.MAX, valid while [`rare::LOSS`]: the sequence number after everything that was ever sent.
    pub(crate) snd_max: SeqNumber,
    /// SND.WL1, valid while [`rare::WL1_AHEAD`]. SND.WL2 is not needed: it is never after `snd_una`, and what acknowledges
    /// less than that is not looked at.
    pub(crate) snd_wl1: SeqNumber,
    /// The largest window that the peer ever offered (RFC 9293, 3.8.6.2.1).
    pub(crate) max_snd_wnd: u32,
    pub(crate) ssthresh: u32,
    /// RFC 6582: the sequence number after everything sent when the last recovery began, valid while [`rare::RECOVERY`]
    /// or [`flag::RECOVER`].
    pub(crate) recover: SeqNumber,
    pub(crate) rare: u32,
    pub(crate) ooo_head: FrameId,
    pub(crate) rcv_limit: u32,
    /// The place where the peer's FIN lies, valid once [`rare::FIN_SEEN`].
    pub(crate) fin_seq: SeqNumber,
    /// Keepalive, user timeout, FIN-WAIT-2: whichever is earliest of the rare ones.
    pub(crate) keep_deadline: Deadline,
    pub(crate) user_deadline: Deadline,
    pub(crate) keep_idle: u32,
    pub(crate) keep_interval: u32,
    pub(crate) keep_count: u8,
    pub(crate) marks: Marks,
    pub(crate) peer_mss: u16,
    /// Bytes that may be queued and never sent before the application is refused; `u32::MAX` where only the buffer counts.
    pub(crate) low_water: u32,
    /// [`Tcb::moved`] when the keepalive timer last looked.
    pub(crate) keep_seen: u32,
    /// When the last segment without data that was not acceptable was answered.
    pub(crate) answered: Tick,
    pub(crate) next_hop: Ipv4Addr,
    /// Index of the listener that the connection came by.
    pub(crate) listener: u32,
    pub(crate) retransmits: u32,
    pub(crate) timeouts: u16,
    pub(crate) fast_retransmits: u16,
    pub(crate) out_of_order: u32,
    pub(crate) dup_acks: u8,
    pub(crate) backoff: u8,
    /// Segments that are still acknowledged at once ([`crate::tcp::slow::quick`]).
    pub(crate) quick: u8,
    /// The key's hash, under which the table has the connection.
    pub(crate) hash: FlowHash,
    /// Looks of the keepalive timer since anything was received; from [`QUIET_LOOKS`] on each sends a probe.
    pub(crate) keep_looks: u8,
    /// Bytes by which the IP header of every segment is longer than 20: options, or [`IPV6_HEADER_EXCESS`].
    pub(crate) ip_options: u8,
    /// Low bits of the tick since which [`flag::QUIET`] holds.
    pub(crate) quiet_since: u16,
    /// TS.Recent when it was last looked at, and since when it has been that.
    pub(crate) ts_seen: u32,
    pub(crate) ts_seen_at: Tick,
    /// Number that the application knows the connection by; until it is accepted, its neighbours in its listener's list
    /// ([`crate::tcp::slow::listener::Unaccepted`]).
    pub(crate) token: u64,
}

const _: () = {
    assert!(
        offset_of!(Tcb, tx_head) == CACHE_LINE,
        "line one of the TCB is not a cache line"
    );
    assert!(
        offset_of!(Tcb, wraps) == 2 * CACHE_LINE,
        "line two of the TCB is not a cache line"
    );
    assert!(
        size_of::<Tcb>() == 4 * CACHE_LINE,
        "the TCB has outgrown four cache lines"
    );
};

impl Tcb {
    /// A free connection.
    pub(crate) const FREE: Self = Self {
        key: FlowKey {
            remote: 0,
            local: 0,
            ports: 0,
        },
        rcv_nxt: SeqNumber(0),
        snd_una: SeqNumber(0),
        snd_nxt: SeqNumber(0),
        snd_wnd: 0,
        cwnd: 0,
        ts_recent: 0,
        rcv_edge: SeqNumber(0),
        ts_offset: 0,
        predicted: UNPREDICTABLE,
        window_step: 0,
        mss: 0,
        snd_shift: 0,
        rcv_shift: 0,
        state: State::Closed,
        unacked: 0,
        events: 0,
        flags: 0,
        armed: Tick(0),
        rtt: Rtt::UNKNOWN,
        tx_head: FrameId::NONE,
        unsent: FrameId::NONE,
        tx_tail: FrameId::NONE,
        snd_end: SeqNumber(0),
        rx_head: FrameId::NONE,
        rx_tail: FrameId::NONE,
        rx_free: 0,
        snd_limit: 0,
        link: [0; 8],
        sendable: 0,
        tcp_sum: 0,
        ip_checksum: Checksum::from_ne_bytes([0; 2]),
        rtx_deadline: Deadline::NONE,
        ack_deadline: Deadline::NONE,
        generation: 0,
        rto: 0,
        wraps: [0; 2],
        iss: SeqNumber(0),
        irs: SeqNumber(0),
        snd_max: SeqNumber(0),
        snd_wl1: SeqNumber(0),
        max_snd_wnd: 0,
        ssthresh: u32::MAX,
        recover: SeqNumber(0),
        rare: 0,
        ooo_head: FrameId::NONE,
        rcv_limit: 0,
        fin_seq: SeqNumber(0),
        keep_deadline: Deadline::NONE,
        user_deadline: Deadline::NONE,
        keep_idle: 0,
        keep_interval: 0,
        keep_count: 0,
        marks: Marks::NONE,
        peer_mss: 536,
        low_water: u32::MAX,
        keep_seen: 0,
        answered: Tick(0),
        next_hop: Ipv4Addr::UNSPECIFIED,
        listener: u32::MAX,
        retransmits: 0,
        timeouts: 0,
        fast_retransmits: 0,
        out_of_order: 0,
        dup_acks: 0,
        backoff: 0,
        quick: 0,
        hash: FlowHash::NONE,
        keep_looks: 0,
        quiet_since: 0,
        ip_options: 0,
        ts_seen: 0,
        ts_seen_at: Tick(0),
        token: 0,
    };

    /// A connection that is being opened on a host of this configuration.
    pub(crate) fn fresh(config: &Config) -> Self {
        Self {
            rcv_shift: if config.window_scaling {
                config.window_shift()
            } else {
                0
            },
            flags: {
                let no_delay = match config.mechanisms.nagle {
                    Nagle::Off => flag::NO_DELAY,
                    Nagle::On => 0,
                };
                let timestamps = if config.timestamps {
                    flag::TIMESTAMPS
                } else {
                    0
                };
                no_delay | timestamps
            },
            // But for the peer's window, which its SYN tells.
            predicted: match (config.timestamps, config.mechanisms.prediction) {
                (true, Prediction::Bidirectional | Prediction::Unidirectional) => NOTHING_MOVES,
                (false, _) | (true, Prediction::Off) => UNPREDICTABLE,
            },
            rare: {
                let input = match config.mechanisms.prediction {
                    Prediction::Off => rare::UNPREDICTED,
                    Prediction::Bidirectional | Prediction::Unidirectional => 0,
                };
                let output = match config.mechanisms.allow_fast_send() {
                    true => 0,
                    false => rare::SENT_IN_GENERAL,
                };
                let sack = match config.mechanisms.recovery {
                    LossRecovery::Sack => rare::SACK_PERMITTED,
                    LossRecovery::NewReno => 0,
                };
                let search = match config.mechanisms.mtu_probing {
                    MtuProbing::BlackHole | MtuProbing::Off => 0,
                    MtuProbing::Always => rare::MTU_SEARCH,
                };
                input | output | sack | search
            },
            // Both are far below what the field holds.
            rto: ticks(INITIAL_RTO.max(config.min_rto.min(HIGHEST_FLOOR))) as u16,
            rx_free: config.receive_buffer,
            rcv_limit: config.receive_buffer,
            snd_limit: config.send_buffer,
            ..Self::FREE
        }
    }

    /// Bytes sent and not acknowledged.
    #[inline(always)]
    pub(crate) fn in_flight(&self) -> u32 {
        self.snd_nxt - self.snd_una
    }

    /// Everything before `ack` is acknowledged: moves SND.UNA on, and counts its wraps.
    #[inline(always)]
    pub(crate) fn acknowledge_up_to(&mut self, ack: SeqNumber) {
        if ack.0 < ack - self.snd_una {
            cold_path();
            self.wraps[0] = self.wraps[0].wrapping_add(1);
        }
        self.snd_una = ack;
    }

    /// Sequence number up to which the peer's window and the congestion window let data out.
    #[inline(always)]
    pub(crate) fn send_edge(&self) -> SeqNumber {
        self.snd_una + self.snd_wnd.min(self.cwnd)
    }

    /// Bytes of payload that were given to the connection for sending, acknowledged or not.
    #[inline(always)]
    pub(crate) fn queued(&self) -> u64 {
        let fin = self.is(flag::FIN_QUEUED) && !self.is_rare(rare::FIN_PENDING);
        let all = if self.wraps[0] == 0 {
            u64::from(self.snd_una - self.iss) + u64::from(self.snd_end - self.snd_una)
        } else {
            cold_path();
            self.sequence_used()
        };
        // A connection that is given up early has not queued its SYN.
        all.saturating_sub(1 + u64::from(fin))
    }

    /// Tells whether an application that was refused has enough room, once `ack` is acknowledged and output has sent what it may:
    /// half of the send buffer, or of what may be unsent where that is less than the buffer.
    pub(crate) fn is_worth_writing(&self, ack: SeqNumber) -> bool {
        if self.is_rare(rare::LOW_WATER) {
            let unsent = self.snd_end - self.highest_sent();
            let usable = self.snd_wnd.min(self.cwnd);
            let usable = usable.saturating_sub(self.highest_sent() - ack);
            return unsent.saturating_sub(usable) <= self.low_water / 2;
        }
        self.snd_end - ack <= self.snd_limit / 2
    }

    /// Sequence numbers that were used, more than 2^32 perhaps.
    #[cold]
    #[inline(never)]
    fn sequence_used(&self) -> u64 {
        let acknowledged = u64::from(self.wraps[0]) << 32 | u64::from(self.snd_una.0);
        acknowledged + u64::from(self.snd_end - self.snd_una) - u64::from(self.iss.0)
    }

    /// SND.MAX: the sequence number after everything that was ever sent, which is that of a segment without data.
    pub(crate) fn highest_sent(&self) -> SeqNumber {
        if self.is_rare(rare::LOSS) {
            self.snd_nxt.latest(self.snd_max)
        } else {
            self.snd_nxt
        }
    }

    #[inline(always)]
    pub(crate) const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Tells whether one of `flags` is set, or one of `events`, which lie next to each other: looked at in one load.
    #[inline(always)]
    pub(crate) const fn is_any(&self, flags: u8, events: u8) -> bool {
        u16::from_le_bytes([self.events, self.flags]) & u16::from_le_bytes([events, flags]) != 0
    }

    pub(crate) const fn is_rare(&self, bit: u32) -> bool {
        self.rare & bit != 0
    }

    /// Everything that was sent and is not acknowledged is to be sent again, from the first on, as the windows open. What
    /// it means for the congestion window is the caller's to say.
    pub(crate) fn go_back(&mut self) {
        let sent = self.highest_sent();
        if sent != self.snd_una {
            self.snd_max = sent;
            self.rare |= rare::LOSS;
            self.remember_recovery(sent);
        }
        self.rare &= !rare::PROBE;
        self.unsent = self.tx_head;
        self.snd_nxt = self.snd_una;
        self.predict();
    }

    /// RFC 6582, 3.2, step 2: until something after `sent` is acknowledged, duplicate acknowledgments may come from what is
    /// sent again.
    pub(crate) fn remember_recovery(&mut self, sent: SeqNumber) {
        self.recover = sent;
        self.flags |= flag::RECOVER;
    }

    /// Takes the peer's window (RFC 9293, 3.10.7.4) and keeps the largest (3.8.6.2.1).
    #[inline(always)]
    pub(crate) fn take_window(&mut self, window: u32) {
        if window > self.snd_wnd {
            cold_path();
            self.window_grows(window);
        }
        self.snd_wnd = window;
    }

    #[cold]
    #[inline(never)]
    fn window_grows(&mut self, window: u32) {
        self.max_snd_wnd = self.max_snd_wnd.max(window);
    }

    /// Tells whether a keepalive probe is out. The answer is looked at by the full state machine: whatever it says, it is one.
    pub(crate) const fn is_probed(&self) -> bool {
        self.keep_looks >= QUIET_LOOKS
    }

    /// A number that changes with everything that a predicted segment changes. Two states in 2^32 share one, and then a
    /// keepalive probe is sent early.
    pub(crate) fn moved(&self) -> u32 {
        let parts = [self.rcv_nxt.0, self.snd_una.0, self.snd_wnd];
        parts.into_iter().fold(0, |sum: u32, part| {
            (sum ^ part).wrapping_mul(0x9e37_79b1).rotate_left(15)
        })
    }

    /// Tells whether a segment without data that is not acceptable may be answered now: once in half a second for each
    /// connection. What one connection draws then says nothing of another (RFC 5961, 7).
    pub(crate) fn may_answer(&mut self, now: Tick) -> bool {
        let allowed = now.0.wrapping_sub(self.answered.0) >= ANSWER_INTERVAL;
        if allowed {
            self.answered = now;
        }
        allowed
    }

    /// Sets the next hop's link address, all zeros when it is not known, and the first two bytes of ours.
    pub(crate) fn set_link(&mut self, next_hop: MacAddr, own: MacAddr) {
        let ([a, b, c, d, e, f], [g, h, ..]) = (next_hop.0, own.0);
        self.link = [a, b, c, d, e, f, g, h];
        self.choose_transmit_path();
    }

    /// Sets [`flag::SLOW_TRANSMIT`] to what it stands for. Called whenever something of that changes.
    pub(crate) fn choose_transmit_path(&mut self) {
        let general = self.is_rare(rare::AMENDED | rare::CORKED | rare::MORE | rare::PACED);
        if general || self.is_summed_apart() || self.known_link().is_none() {
            self.flags |= flag::SLOW_TRANSMIT;
        } else {
            self.flags &= !flag::SLOW_TRANSMIT;
        }
        self.predict_sending();
    }

    /// Offset of the TCP header in the frames of its segments, where the IP header has no options.
    pub(crate) const fn tcp_at(&self) -> usize {
        match self.key.pair() {
            None => 34,
            Some(_) => 54,
        }
    }

    /// Tells whether segments get their headers, with timestamps, from the template and go straight to the device queue, as far as
    /// the mechanisms allow it.
    #[inline(always)]
    pub(crate) const fn transmits_fast(&self) -> bool {
        self.flags & (flag::SLOW_TRANSMIT | flag::TIMESTAMPS) == flag::TIMESTAMPS
    }

    /// Bytes of TCP header in every segment of an established connection.
    #[inline(always)]
    pub(crate) const fn header_len(&self) -> usize {
        if self.flags & flag::TIMESTAMPS != 0 {
            32
        } else {
            20
        }
    }

    /// Changes the state, and what is predicted.
    #[inline(always)]
    pub(crate) fn move_to(&mut self, state: State) {
        self.state = state;
        if self.predicted & NOTHING_MOVES != 0 {
            // Nothing else that it stands for has changed.
            self.predicted = state.predicted_with_timestamps();
            self.predict_sending();
        } else {
            cold_path();
            self.predict();
        }
    }

    /// Sets `predicted` to what the state allows. Called whenever something that it stands for changes.
    #[inline(never)]
    pub(crate) fn predict(&mut self) {
        let clean = self.rare & UNPREDICTED_INPUT == 0
            && self.rare & (rare::FIN_SEEN | rare::FIN_RECEIVED) != rare::FIN_SEEN
            && self.dup_acks | self.quick == 0
            && !self.is_probed()
            && self.ooo_head.is_none()
            && self.snd_wnd != 0;
        self.predicted = match (clean, self.is(flag::TIMESTAMPS)) {
            (false, _) => UNPREDICTABLE,
            (true, true) => self.state.predicted_with_timestamps(),
            (true, false) if self.state == State::Established => PREDICTED_WITHOUT_OPTIONS,
            (true, false) => UNPREDICTABLE,
        };
        self.predict_sending();
    }

    /// Sets `sendable` to what state, mechanisms, MSS and send buffer allow. Called whenever one of them changes.
    #[inline(always)]
    pub(crate) fn predict_sending(&mut self) {
        let eligible = self.predicted == PREDICTED_WITH_TIMESTAMPS
            && !self.is(flag::SLOW_TRANSMIT)
            && !self.is_rare(rare::SENT_IN_GENERAL | rare::SACK_DUE);
        self.sendable = if !eligible {
            0
        } else if self.snd_limit < u32::from(self.mss) {
            self.snd_limit as u16
        } else {
            self.mss
        };
    }

    /// Bytes of the longest message that goes out predicted over IPv6, once the next hop is known and where the send buffer takes it.
    /// `sendable` is zero there, since such a connection has [`flag::SLOW_TRANSMIT`].
    #[inline(always)]
    pub(crate) const fn sendable_v6(&self) -> u16 {
        const GENERAL: u32 = rare::AMENDED
            | rare::CORKED
            | rare::MORE
            | rare::PACED
            | rare::SENT_IN_GENERAL
            | rare::SACK_DUE;
        let eligible = self.predicted == PREDICTED_WITH_TIMESTAMPS
            && self.rare & GENERAL == 0
            && self.marks.is_none();
        if eligible { self.mss } else { 0 }
    }

    /// Every acknowledgment is to tell of ranges from now on, or none is. None goes out predicted meanwhile.
    pub(crate) fn set_sack_due(&mut self, due: bool) {
        if due {
            self.rare |= rare::SACK_DUE;
        } else {
            self.rare &= !rare::SACK_DUE;
        }
        self.predict_sending();
    }

    /// The earliest tick at which anything is due.
    pub(crate) fn earliest_deadline(&self) -> Option<Tick> {
        [
            self.rtx_deadline,
            self.ack_deadline,
            self.keep_deadline,
            self.user_deadline,
        ]
        .into_iter()
        .filter_map(Deadline::tick)
        .reduce(|a, b| if b.before(a) { b } else { a })
    }
}

mod ends;
#[cfg(test)]
mod tests;
mod timestamps;
