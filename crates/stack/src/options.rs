//! Options of a connection, for opening and later.

use crate::socket::{ConnId, Error};
use crate::stack::{Active, Stack};
use crate::tcp::deadline::{Deadline, Due};
use crate::tcp::slow::redundancy::{Checksums, SocketChecksums};
use crate::tcp::tcb::{QUIET_LOOKS, flag, rare};
use crate::time::ticks;
use core::net::Ipv4Addr;
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
}
