//! Options of a connection, for opening and later.

use crate::socket::{ConnId, Error};
use crate::stack::{Active, Stack};
use crate::tcp::deadline::{Deadline, Due};
use crate::tcp::slow::redundancy::{Checksums, SocketChecksums};
use crate::tcp::tcb::{QUIET_LOOKS, flag, rare};
use crate::time::{Tick, ticks};
use core::net::{IpAddr, Ipv4Addr};
use core::num::NonZeroU8;
use core::time::Duration;
use tollgate_gate::Recorder;

/// Options that a connection is opened with, or a listener for all of its connections. The defaults ask for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Open<'a> {
    /// Our address: one of the stack's. Without it an active open takes the first, or the best for the peer, a passive one any
    /// (RFC 9293, 3.9.1.1). A passive one takes an unspecified address, too: that of IPv4 stands for any of IPv4, that of IPv6
    /// for any of both.
    pub local: Option<IpAddr>,
    /// A passive open takes connections over IPv6 alone, where it would take those over both (RFC 3493, 5.3).
    pub ipv6_only: bool,
    /// Our port, not 0. Without it the stack chooses one. For active opens only: a listener's is an argument of its own.
    pub local_port: Option<u16>,
    /// The Diffserv codepoint, 0 to 63, from the SYN on; see [`SocketOption::Diffserv`].
    pub diffserv: u8,
    /// Hops that segments may take, from the SYN on, where it is not the stack's own number.
    pub ttl: Option<NonZeroU8>,
    /// The largest MSS, 64 or more: of what we send and of what our SYN offers, which is less where the link asks for it
    /// (TCP_MAXSEG).
    pub max_segment: Option<u16>,
    /// Connections of a listener that may carry data before their handshake is complete (Fast Open, RFC 7413); 0 is none. An
    /// application must stand a request that comes twice (6.1). For listeners only.
    pub fast_open: u16,
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
    /// A partial segment waits for more until this is set back (TCP_CORK). It waits 200 ms at most while nothing is in flight, and
    /// never for a FIN. Meanwhile segments leave by the general path of output.
    Cork(bool),
    /// The next 16 segments are acknowledged at once, up to the first that acknowledges an answer (TCP_QUICKACK); or none is. The
    /// stack does so by itself when a peer had to wait for a delayed acknowledgment.
    QuickAcknowledgments(bool),
    /// Bytes queued for sending, 4,096 to 2^30. The buffer does not grow by itself any more.
    SendBuffer(u32),
    /// Bytes that may be queued and never sent before the application is refused, at least one; it is told to write when half of
    /// them are left (TCP_NOTSENT_LOWAT). `None` leaves it to the send buffer.
    NotSentLowWater(Option<u32>),
    /// Keepalive probes after `idle`, every `interval`, given up after `count` (RFC 9293, 3.8.4; off by default).
    KeepAlive(Option<KeepAlive>),
    /// Give up after so long without progress (RFC 9293, 3.9.1); `None` is the stack's default. It is not told to the peer: of
    /// RFC 5482 this is the local timeout. A silent peer is given up after it as well, where keepalive would wait longer.
    /// It begins when data is sent; one retransmission may be answered, however short it is.
    UserTimeout(Option<Duration>),
    /// Closing resets the connection and throws away what is queued (SO_LINGER with no time). Who wants to wait for delivery calls
    /// [`Active::shutdown`] and closes after the event that says that the connection is over.
    AbortOnClose(bool),
    /// The Diffserv codepoint (RFC 2474) of every segment from now on, 0 to 63; 0 by default (RFC 9293, 3.9.1.9). With
    /// another one segments leave by the general path of output.
    Diffserv(u8),
    /// Hops that every segment may take from now on (RFC 9293, 3.9.2, MUST-49); `None` is the stack's default. With another number
    /// segments leave by the general path of output.
    TimeToLive(Option<NonZeroU8>),
    /// Tell of soft errors by an event (RFC 9293, 3.9.1.8, SHLD-20); on by default.
    Reports(bool),
    /// Return to checksums, where they are left out ([`SocketChecksums::Keep`]). What else a socket may want is said when it is opened
    /// ([`Open::checksums`]), since both ends have to agree.
    Checksums(SocketChecksums),
}

/// Options of a connection as they stand ([`Stack::settings`]). Times are rounded up to the timers' tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// [`SocketOption::NoDelay`].
    pub no_delay: bool,
    /// [`SocketOption::Cork`].
    pub cork: bool,
    /// Segments that are still acknowledged at once ([`SocketOption::QuickAcknowledgments`]).
    pub quick_acknowledgments: u8,
    /// [`SocketOption::SendBuffer`].
    pub send_buffer: u32,
    /// Bytes queued for reading ([`Config::receive_buffer`](crate::Config::receive_buffer)).
    pub receive_buffer: u32,
    /// [`SocketOption::NotSentLowWater`].
    pub not_sent_low_water: Option<u32>,
    /// [`SocketOption::KeepAlive`].
    pub keep_alive: Option<KeepAlive>,
    /// [`SocketOption::UserTimeout`]; `None` is the stack's default.
    pub user_timeout: Option<Duration>,
    /// [`SocketOption::AbortOnClose`].
    pub abort_on_close: bool,
    /// [`SocketOption::Diffserv`].
    pub diffserv: u8,
    /// [`SocketOption::TimeToLive`]; `None` is the stack's default.
    pub ttl: Option<NonZeroU8>,
    /// [`Open::max_segment`].
    pub max_segment: Option<u16>,
    /// [`SocketOption::Reports`].
    pub reports: bool,
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

impl Stack {
    /// The options of a connection as they stand.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub fn settings(&self, conn: ConnId) -> Result<Settings, Error> {
        let index = self.index(conn)?;
        let tcb = &self.tcbs[index];
        let own = self.extension(index).copied().unwrap_or_default();
        let duration = |ticks: u32| Duration::from_nanos(u64::from(ticks) << Tick::SHIFT);
        Ok(Settings {
            no_delay: tcb.is(flag::NO_DELAY) && !tcb.is_rare(rare::NAGLE_LATER),
            cork: tcb.is_rare(rare::CORKED),
            quick_acknowledgments: tcb.quick,
            send_buffer: tcb.snd_limit,
            receive_buffer: tcb.rcv_limit,
            not_sent_low_water: tcb.is_rare(rare::LOW_WATER).then_some(tcb.low_water),
            keep_alive: (tcb.keep_idle != 0).then(|| KeepAlive {
                idle: duration(tcb.keep_idle),
                interval: duration(tcb.keep_interval),
                count: tcb.keep_count,
            }),
            user_timeout: own.user_timeout.map(duration),
            abort_on_close: tcb.is_rare(rare::ABORT_ON_CLOSE),
            diffserv: own.diffserv >> 2,
            ttl: own.ttl,
            max_segment: own.max_segment,
            reports: !own.no_reports,
        })
    }

    /// Checksums of a connection, or why it has none: the same as [`Info::checksums`](crate::Info::checksums).
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
    /// [`Error::NotConnected`] when the handle is stale, [`Error::BadOption`] for a Diffserv codepoint above 63, a low
    /// water mark of 0, and checksums that cannot be had.
    pub fn set_option(&mut self, conn: ConnId, option: SocketOption) -> Result<(), Error> {
        let index = self.stack.index(conn)?;
        let tcb = &mut self.stack.tcbs[index];
        match option {
            SocketOption::NoDelay(on) if tcb.is_rare(rare::NAGLE_LATER) => {
                // It is off until the handshake is complete, whatever is asked for.
                if on {
                    tcb.rare &= !rare::NAGLE_LATER;
                }
            }
            SocketOption::NoDelay(on) => {
                tcb.flags = if on {
                    tcb.flags | flag::NO_DELAY
                } else {
                    tcb.flags & !flag::NO_DELAY
                };
                self.output(index);
            }
            SocketOption::Cork(on) => self.cork(index, on),
            SocketOption::QuickAcknowledgments(on) => tcb.set_quick_acknowledgments(on),
            SocketOption::NotSentLowWater(Some(0)) => return Err(Error::BadOption),
            SocketOption::NotSentLowWater(bytes) => {
                tcb.low_water = bytes.unwrap_or(u32::MAX);
                if tcb.low_water == u32::MAX {
                    tcb.rare &= !rare::LOW_WATER;
                } else {
                    tcb.rare |= rare::LOW_WATER;
                }
                self.stack.open_coalescing(self.pool, index);
                self.room_may_be_there(index);
            }
            SocketOption::AbortOnClose(on) => {
                tcb.rare = if on {
                    tcb.rare | rare::ABORT_ON_CLOSE
                } else {
                    tcb.rare & !rare::ABORT_ON_CLOSE
                };
            }
            SocketOption::SendBuffer(bytes) => {
                tcb.snd_limit = bytes.clamp(4096, 1 << 30);
                tcb.predict_sending();
                self.stack
                    .change_extension(index, |extension| extension.send_buffer_chosen = true);
                self.stack.open_coalescing(self.pool, index);
                self.room_may_be_there(index);
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
                self.set_user_timeout(index, timeout.map(|timeout| ticks(timeout).max(1)));
            }
            SocketOption::Diffserv(codepoint) if codepoint > MAX_DIFFSERV => {
                return Err(Error::BadOption);
            }
            SocketOption::Diffserv(codepoint) => self
                .stack
                .change_extension(index, |extension| extension.diffserv = codepoint << 2),
            SocketOption::TimeToLive(ttl) => self
                .stack
                .change_extension(index, |extension| extension.ttl = ttl),
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
}
