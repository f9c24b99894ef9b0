//! Options of a connection, for opening and later, and an account of a connection like Linux's TCP_INFO.

use crate::config::{Mechanisms, Nagle};
use crate::socket::{ConnId, Error};
use crate::stack::{Active, Stack};
use crate::tcp::deadline::{Deadline, Due};
use crate::tcp::slow::redundancy::{Checksums, SocketChecksums};
use crate::tcp::tcb::{QUIET_LOOKS, State, flag, rare};
use crate::time::{Tick, ticks};
use core::net::{Ipv4Addr, SocketAddrV4};
use core::time::Duration;
use tollgate_gate::Recorder;

/// Options that a connection is opened with, or a listener for all of its connections. The defaults ask for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Open<'a> {
    /// Our address: one of the stack's. Without it an active open takes the first, a passive one any (RFC 9293, 3.9.1.1).
    pub local: Option<Ipv4Addr>,
    /// Our port, not 0. Without it the stack chooses one. For active opens only: a listener's is an argument of its own.
    pub local_port: Option<u16>,
    /// The Diffserv codepoint, 0 to 63, from the SYN on; see [`SocketOption::Diffserv`].
    pub diffserv: u8,
    /// Hosts by way of which every segment goes, in order, at most 9 (RFC 9293, 3.9.2.1; RFC 791, loose source and record
    /// route). For active opens only: accepted connections go back the way that they came, where the stack takes source
    /// routes ([`Config::source_routes`](crate::Config::source_routes)).
    pub source_route: &'a [Ipv4Addr],
    /// The checksums that the socket wants.
    pub checksums: SocketChecksums,
}

/// A socket option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOption {
    /// Nagle's algorithm off (RFC 9293, 3.7.4, MUST-17).
    NoDelay(bool),
    /// Bytes queued for sending, 4,096 to 2^30.
    SendBuffer(u32),
    /// Keepalive probes after `idle`, every `interval`, given up after `count` (RFC 9293, 3.8.4; off by default).
    KeepAlive(Option<KeepAlive>),
    /// Give up after so long without progress (RFC 9293, 3.9.1); `None` is the stack's default.
    UserTimeout(Option<Duration>),
    /// The Diffserv codepoint (RFC 2474) of every segment from now on, 0 to 63; 0 by default (RFC 9293, 3.9.1.9). With
    /// another one segments leave by the general path of output.
    Diffserv(u8),
    /// Tell of soft errors by an event (RFC 9293, 3.9.1.8, SHLD-20); on by default.
    Reports(bool),
    /// Return to checksums, where they are left out ([`SocketChecksums::Keep`]). What else a socket may want is said when it is opened
    /// ([`Open::checksums`]), since both ends have to agree.
    Checksums(SocketChecksums),
}

/// The largest Diffserv codepoint (RFC 2474, 3: six bits).
pub(crate) const MAX_DIFFSERV: u8 = 63;

/// Keepalive probing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silence before the first probe, which comes up to an eighth later (RFC 9293, MUST-28: the default is at least two
    /// hours; here it has no default).
    pub idle: Duration,
    /// Silence between probes.
    pub interval: Duration,
    /// Probes without an answer before the connection is given up, 1 to 247.
    pub count: u8,
}

/// Account of a connection, like Linux's TCP_INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// State.
    pub state: State,
    /// Our address and port.
    pub local: SocketAddrV4,
    /// The peer's address and port.
    pub remote: SocketAddrV4,
    /// Tells whether the timestamp option is on.
    pub timestamps: bool,
    /// Shift of the windows that the peer sends.
    pub send_window_shift: u8,
    /// Shift of the windows that we send.
    pub receive_window_shift: u8,
    /// Bytes of payload in a full segment that we send.
    pub mss: u16,
    /// Smoothed round trip time; zero when none was measured.
    pub rtt: Duration,
    /// Its variation.
    pub rtt_variation: Duration,
    /// Retransmission timeout, rounded up to the timer's tick.
    pub rto: Duration,
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
    /// Bytes queued and not sent.
    pub unsent: u32,
    /// Bytes acknowledged by the peer, the SYN's and FIN's apart.
    pub bytes_acknowledged: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
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
    /// Recoveries that were undone, since nothing had been lost (RFC 4015; RFC 2883, 5).
    pub undone_recoveries: u32,
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

impl Stack {
    /// Checksums of a connection, or why it has none: the same as [`Info::checksums`].
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub fn checksums(&self, conn: ConnId) -> Result<Checksums, Error> {
        self.index(conn).map(|index| self.checksums_of(index))
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Sets the number that the connection's events carry.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub fn set_token(&mut self, conn: ConnId, token: u64) -> Result<(), Error> {
        let index = self.stack.index(conn)?;
        let tcb = &mut self.stack.tcbs[index];
        if tcb.is_rare(rare::UNACCEPTED) {
            // No application has this handle yet.
            return Err(Error::NotConnected);
        }
        tcb.token = token;
        Ok(())
    }

    /// Sets an option.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale, [`Error::BadOption`] for a Diffserv codepoint above 63 and
    /// for checksums that cannot be had.
    pub fn set_option(&mut self, conn: ConnId, option: SocketOption) -> Result<(), Error> {
        let index = self.stack.index(conn)?;
        let tcb = &mut self.stack.tcbs[index];
        match option {
            SocketOption::NoDelay(on) => {
                tcb.flags = if on {
                    tcb.flags | flag::NO_DELAY
                } else {
                    tcb.flags & !flag::NO_DELAY
                };
                self.output(index);
            }
            SocketOption::SendBuffer(bytes) => {
                tcb.snd_limit = bytes.clamp(4096, 1 << 30);
                self.stack.open_coalescing(self.pool, index);
            }
            SocketOption::KeepAlive(None) => {
                tcb.keep_idle = 0;
                tcb.keep_deadline = Deadline::NONE;
                tcb.keep_probes_answered();
            }
            SocketOption::KeepAlive(Some(keep)) => {
                tcb.keep_idle = ticks(keep.idle).max(1);
                tcb.keep_interval = ticks(keep.interval).max(1);
                tcb.keep_count = keep.count.clamp(1, u8::MAX - QUIET_LOOKS);
                tcb.keep_probes_answered();
                tcb.keep_seen = tcb.moved();
                let look = tcb.keep_look_interval();
                self.set_due(index, Due::KeepAlive, look);
            }
            SocketOption::UserTimeout(timeout) => {
                tcb.user_timeout = timeout.map_or(0, |t| ticks(t).max(1))
            }
            SocketOption::Diffserv(codepoint) if codepoint > MAX_DIFFSERV => {
                return Err(Error::BadOption);
            }
            SocketOption::Diffserv(codepoint) => self
                .stack
                .change_extension(index, |extension| extension.diffserv = codepoint << 2),
            SocketOption::Reports(on) => self
                .stack
                .change_extension(index, |extension| extension.no_reports = !on),
            SocketOption::Checksums(SocketChecksums::Policy) => {}
            SocketOption::Checksums(wish @ SocketChecksums::Keep) => {
                self.stack.want_checksums(index, wish)?;
            }
            SocketOption::Checksums(SocketChecksums::LeaveOut) => return Err(Error::BadOption),
        }
        Ok(())
    }

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
        let fin_acknowledged = tcb.is(flag::FIN_QUEUED)
            && tcb.snd_una == tcb.snd_end
            && tcb.tx_head.is_none()
            && !tcb.is_rare(rare::FIN_PENDING);
        Ok(Info {
            state: tcb.state,
            local: SocketAddrV4::new(tcb.local_ip(), tcb.local_port()),
            remote: SocketAddrV4::new(tcb.remote_ip(), tcb.remote_port()),
            timestamps: tcb.is(flag::TIMESTAMPS),
            send_window_shift: tcb.snd_shift,
            receive_window_shift: tcb.rcv_shift,
            mss: tcb.mss,
            rtt: Duration::from_nanos(tcb.rtt.smoothed_ns()),
            rtt_variation: Duration::from_nanos(tcb.rtt.variation_ns()),
            rto: Duration::from_nanos(u64::from(tcb.rto) << Tick::SHIFT),
            congestion_window: match recovery {
                Some(state) if tcb.is_rare(rare::SCOREBOARD) => state.board.window,
                _ => tcb.cwnd,
            },
            slow_start_threshold: tcb.ssthresh,
            send_window: tcb.snd_wnd,
            receive_window: tcb.rcv_edge - tcb.rcv_nxt,
            in_flight: tcb.in_flight(),
            unsent: tcb.snd_end - tcb.snd_nxt,
            bytes_acknowledged: below(tcb.wraps[0], tcb.snd_una.0, tcb.iss.0)
                .saturating_sub(u64::from(fin_acknowledged)),
            bytes_received: below(tcb.wraps[1], tcb.rcv_nxt.0, tcb.irs.0)
                .saturating_sub(u64::from(tcb.is_rare(rare::FIN_RECEIVED))),
            retransmits: tcb.retransmits,
            timeouts: tcb.timeouts,
            fast_retransmits: tcb.fast_retransmits,
            out_of_order: tcb.out_of_order,
            duplicates: recovery.map_or(0, |state| state.duplicates),
            undone_recoveries: recovery.map_or(0, |state| state.undone),
            selective_acknowledgments: tcb.is_rare(rare::SACK_PERMITTED),
            urgent: self.stack.urgent_left(self.pool, index),
            diffserv: self.stack.extension(index).map_or(0, |u| u.diffserv >> 2),
            mechanisms: Mechanisms {
                nagle: if tcb.is(flag::NO_DELAY) {
                    Nagle::Off
                } else {
                    Nagle::On
                },
                ..self.stack.config.mechanisms
            },
            checksums: self.stack.checksums_of(index),
        })
    }
}
