//! Sockets of Tollgate's stack over a link that can be waited for.
//!
//! It owns the stack with its pool and its link, reads the clock for it, and waits until a frame comes or a timer is due. The
//! stack's reasons become those of errno.

use std::collections::HashSet;
use std::hint;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;
use tollgate_link::huge_pages::ask_for;
use tollgate_link::{WaitMode, WaitOutcome, WaitableBeside, Waiter};
use tollgate_stack::config::InvalidConfig;
use tollgate_stack::socket::KeepAlive;
use tollgate_stack::udp::UdpId;
use tollgate_stack::{
    self as stack, Active, ConnId, Instant, ListenerId, Pool, Received, SocketOption, Stack, State,
};

use crate::sockets::{Ends, Event, Sockets};
use crate::{KEEP_COUNT, KEEP_IDLE, KEEP_INTERVAL};

/// Connections that may wait to be accepted.
const BACKLOG: u16 = 4096;
/// Part of the pool that is its reserve (`Pool::is_low`).
const RESERVE: usize = 8;
/// Part of the frames that nobody has, to which a send queue is kept while most of the pool is taken. So each queue that fills makes
/// the next ones shorter, and some frames stay for those who come (the dynamic thresholds of Choudhury and Hahne, 1998).
const SHARE: usize = 16;
/// Looks at the link for one at what is waited for beside it, and at whether the link has gone, which takes a system call.
const LOOKS: u32 = 16;

/// Sockets of a stack.
#[derive(Debug)]
pub struct StackSockets<L> {
    stack: Stack,
    pool: Pool,
    link: L,
    /// Questions by which connections find out that their peer has gone.
    keep_alive: KeepAlive,
    /// Connections whose send queue is kept to its share.
    limited: HashSet<ConnId>,
    waiter: Waiter,
    began: std::time::Instant,
}

impl<L: WaitableBeside> StackSockets<L> {
    /// A stack of this configuration on a link, of which it is told, with a pool of its own.
    ///
    /// # Errors
    /// Refusals of a configuration that is out of range.
    pub fn new(config: stack::Config, link: L, frames: usize) -> Result<Self, InvalidConfig> {
        let pool = Pool::new(frames, Pool::frame_size_for(link.mtu()));
        Self::with_pool(config, link, pool)
    }

    /// A stack of this configuration on a link, with the pool whose frames the link moves.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with_pool(
        config: stack::Config,
        mut link: L,
        mut pool: Pool,
    ) -> Result<Self, InvalidConfig> {
        let mtu = link.mtu();
        let config = config.for_link(&mut link);
        let stack = Stack::new(config, mtu, Instant::ZERO)?;
        // A kernel without them refuses, and many connections take longer then.
        let _ = ask_for(stack.large_tables().into_iter().chain(pool.large_tables()));
        Ok(Self {
            stack,
            pool,
            link,
            keep_alive: KeepAlive {
                idle: KEEP_IDLE,
                interval: KEEP_INTERVAL,
                count: KEEP_COUNT,
            },
            limited: HashSet::new(),
            waiter: Waiter::new(WaitMode::Block),
            began: std::time::Instant::now(),
        })
    }

    /// Lets later connections ask their peers at other times whether they are still there.
    pub const fn set_keep_alive(&mut self, keep_alive: KeepAlive) {
        self.keep_alive = keep_alive;
    }

    /// Waits in this way from now on, in place of sleeping.
    pub fn set_wait_mode(&mut self, mode: WaitMode) {
        self.waiter = Waiter::new(mode);
    }

    /// The way in which it waits, with counts.
    pub const fn waiter(&self) -> &Waiter {
        &self.waiter
    }

    /// The stack.
    pub const fn stack(&self) -> &Stack {
        &self.stack
    }

    /// The pool of its frames.
    pub const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The link.
    pub const fn link(&self) -> &L {
        &self.link
    }

    /// The link, to be changed.
    pub const fn link_mut(&mut self) -> &mut L {
        &mut self.link
    }

    /// The link and the pool, for a link that gives frames back.
    pub const fn link_and_pool(&mut self) -> (&mut L, &mut Pool) {
        (&mut self.link, &mut self.pool)
    }

    fn now(&self) -> Instant {
        let nanos = self.began.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The stack at the present time.
    pub fn active(&mut self) -> Active<'_> {
        let now = self.now();
        self.stack.at(now, &mut self.pool)
    }

    fn poll(&mut self) {
        let now = self.now();
        self.stack.at(now, &mut self.pool).poll(&mut self.link);
    }

    /// Appends the events that the stack has to tell.
    fn take_events(&mut self, events: &mut Vec<Event>) {
        let mut active = self.active();
        while let Some(event) = active.next_event() {
            events.push(match event {
                stack::Event::Listener { token, .. } => Event::Incoming { token },
                stack::Event::Connection { ready, token, .. } => Event::Ready {
                    token,
                    writable: ready.writable() || ready.connected() || ready.closed(),
                },
                stack::Event::Datagrams { token, .. } => Event::Datagrams { token },
            });
        }
    }

    /// The stack's addresses, with this port.
    fn addresses_with(&self, port: u16) -> Vec<SocketAddr> {
        let config = self.stack.config();
        let ipv6 = config.ipv6.and_then(|ipv6| ipv6.address);
        let addresses = [Some(config.ip.into()), ipv6.map(|(ip, _)| ip.into())];
        let addresses = addresses.into_iter().flatten();
        addresses.map(|ip| SocketAddr::new(ip, port)).collect()
    }

    /// Tells whether most of the pool is taken.
    fn is_scarce(&self) -> bool {
        self.pool.available() < self.pool.capacity() / 2
    }

    /// Keeps the send queue of a connection to its share while most of the pool is taken, and no longer. Peers that read nothing would
    /// have all frames otherwise.
    #[cold]
    fn limit_send_queue(&mut self, conn: ConnId) -> io::Result<()> {
        let bytes = if self.is_scarce() {
            self.limited.insert(conn);
            let reserve = self.pool.capacity() / RESERVE;
            let frames = self.pool.available().saturating_sub(reserve) / SHARE;
            let mss = self.active().mss(conn).map_err(in_errno)?;
            u32::try_from(frames * mss).unwrap_or(u32::MAX)
        } else if self.limited.remove(&conn) {
            self.stack.config().send_buffer
        } else {
            return Ok(());
        };
        let option = SocketOption::SendBuffer(bytes);
        self.active().set_option(conn, option).map_err(in_errno)
    }

    /// Opens a connection's account with its options.
    fn keep(&mut self, conn: ConnId, token: u64) -> io::Result<ConnId> {
        let keep_alive = self.keep_alive;
        let mut active = self.active();
        active.set_token(conn, token).map_err(in_errno)?;
        for option in [
            SocketOption::NoDelay(true),
            SocketOption::KeepAlive(Some(keep_alive)),
        ] {
            active.set_option(conn, option).map_err(in_errno)?;
        }
        Ok(conn)
    }
}

/// A reason of the stack in the words of errno.
pub fn in_errno(error: stack::Error) -> io::Error {
    match error {
        stack::Error::WouldBlock => Errno::AGAIN,
        stack::Error::NotConnected => Errno::NOTCONN,
        stack::Error::Shutdown => Errno::PIPE,
        stack::Error::Reset => Errno::CONNRESET,
        stack::Error::Refused => Errno::CONNREFUSED,
        stack::Error::TimedOut => Errno::TIMEDOUT,
        stack::Error::Unreachable => Errno::HOSTUNREACH,
        stack::Error::Aborted => Errno::CONNABORTED,
        stack::Error::InUse => Errno::ADDRINUSE,
        stack::Error::NoPort => Errno::ADDRNOTAVAIL,
        stack::Error::TableFull => Errno::NFILE,
        stack::Error::NoFrame => Errno::NOBUFS,
        stack::Error::TooLong => Errno::MSGSIZE,
        stack::Error::BadAddress | stack::Error::BadOption => Errno::INVAL,
    }
    .into()
}

impl<L: WaitableBeside> Sockets for StackSockets<L> {
    type Conn = ConnId;
    type Listener = ListenerId;
    type Datagrams = UdpId;

    fn listen(&mut self, port: u16, token: u64) -> io::Result<(ListenerId, Vec<SocketAddr>)> {
        let mut active = self.active();
        let listener = active.listen(port, BACKLOG).map_err(in_errno)?;
        active
            .set_listener_token(listener, token)
            .map_err(in_errno)?;
        Ok((listener, self.addresses_with(port)))
    }

    fn accept(&mut self, listener: ListenerId, token: u64) -> io::Result<ConnId> {
        let conn = self.active().accept(listener).map_err(in_errno)?;
        self.keep(conn, token)
    }

    fn connect(&mut self, to: SocketAddr, token: u64) -> io::Result<ConnId> {
        let conn = self.active().connect(to).map_err(in_errno)?;
        self.keep(conn, token)
    }

    fn receive(&mut self, conn: ConnId, into: &mut [u8]) -> io::Result<usize> {
        match self.active().receive(conn, into).map_err(in_errno)? {
            Received::Data(count) => Ok(count),
            Received::End => Ok(0),
            Received::Nothing => Err(Errno::AGAIN.into()),
        }
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) -> io::Result<usize> {
        if self.is_scarce() || !self.limited.is_empty() {
            self.limit_send_queue(conn)?;
        }
        self.active().send(conn, bytes).map_err(in_errno)
    }

    fn failure(&mut self, conn: ConnId) -> io::Result<()> {
        let mut active = self.active();
        let info = active.info(conn).map_err(in_errno)?;
        if info.state == State::Closed && info.unread > 0 {
            // Reading tells the reason behind what is there. Closing our direction tells it now, and does nothing else to a connection
            // that is over; one whose direction was closed before may have ended well.
            match active.shutdown(conn) {
                Ok(()) | Err(stack::Error::Shutdown) => {}
                Err(error) => return Err(in_errno(error)),
            }
        }
        let outcome = active.receive(conn, &mut []);
        outcome.map_err(in_errno).map(|_| ())
    }

    fn unacknowledged(&mut self, conn: ConnId) -> io::Result<u64> {
        let info = self.active().info(conn).map_err(in_errno)?;
        if info.state == State::Closed {
            // Nobody will acknowledge what was.
            return Ok(0);
        }
        let sent = info.bytes_sent - info.bytes_retransmitted;
        Ok(sent.saturating_sub(info.bytes_acknowledged) + u64::from(info.unsent))
    }

    fn shutdown(&mut self, conn: ConnId) -> io::Result<()> {
        self.active().shutdown(conn).map_err(in_errno)
    }

    fn close(&mut self, conn: ConnId) {
        self.limited.remove(&conn);
        // The reason of a connection that was over has been told by then.
        let _ = self.active().close(conn);
    }

    fn abort(&mut self, conn: ConnId) {
        self.limited.remove(&conn);
        // A handle that is stale has nothing left to end.
        let _ = self.active().abort(conn);
    }

    fn bind(&mut self, port: u16, token: u64) -> io::Result<(UdpId, Vec<SocketAddr>)> {
        let mut active = self.active();
        let socket = active.udp_bind(port).map_err(in_errno)?;
        active.udp_set_token(socket, token).map_err(in_errno)?;
        let port = active.udp_port(socket).map_err(in_errno)?;
        Ok((socket, self.addresses_with(port)))
    }

    fn receive_from(&mut self, socket: UdpId, into: &mut [u8]) -> io::Result<(Ends, usize)> {
        let taken = self.active().udp_receive_ends_into(socket, into);
        let (ends, len) = taken.map_err(in_errno)?;
        let ends = Ends {
            remote: ends.remote,
            local: Some(ends.local),
        };
        Ok((ends, len.min(into.len())))
    }

    fn send_to(&mut self, socket: UdpId, ends: Ends, bytes: &[u8]) -> io::Result<()> {
        let mut active = self.active();
        let sent = match ends.local {
            Some(local) => active.udp_send_from(socket, local, ends.remote, bytes),
            None => active.udp_send(socket, ends.remote, bytes),
        };
        sent.map_err(in_errno)
    }

    fn wait(
        &mut self,
        events: &mut Vec<Event>,
        timeout: Duration,
        beside: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let until = self.now() + timeout;
        let mut looks = 0_u32;
        loop {
            self.poll();
            self.take_events(events);
            let now = self.now();
            self.waiter.saw(self.stack.counters().frames_in, now);
            if !events.is_empty() || now >= until {
                return Ok(());
            }
            let (outcome, readable) = if self.waiter.looks_again(now) {
                looks += 1;
                if !looks.is_multiple_of(LOOKS) {
                    hint::spin_loop();
                    continue;
                }
                match beside {
                    Some(other) => self.link.wait_beside(other, Duration::ZERO),
                    None => (self.link.wait(Duration::ZERO), false),
                }
            } else {
                let due = self.stack.next_deadline(now);
                let left = Duration::from_nanos(until.nanos_since(now));
                let waiter = &mut self.waiter;
                match beside {
                    Some(other) => waiter.sleep_beside(&self.link, other, due, now, left),
                    None => (waiter.sleep(&self.link, due, now, left), false),
                }
            };
            if outcome == WaitOutcome::PeerGone || self.link.is_gone() {
                return Err(Errno::NODEV.into());
            }
            if readable {
                let now = self.now();
                self.waiter.found(now);
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::io::Write as _;
    use std::net::Ipv4Addr;
    use std::os::fd::AsFd as _;
    use tollgate_link::Waitable as _;
    use tollgate_link::tap::Tap;
    use tollgate_stack::config::Segmentation;
    use tollgate_wire::ethernet::MacAddr;

    /// Two stacks on a line, and a connection from the first to the second.
    fn pair() -> ([StackSockets<Tap>; 2], [ConnId; 2]) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let ends = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let mut number = 0;
        let [mut a, mut b] = [ends.0, ends.1].map(|end| {
            number += 1;
            let mac = MacAddr([2, 0, 0, 0, 0, number]);
            let ip = Ipv4Addr::new(10, 0, 0, number);
            let config = stack::Config::new(mac, ip, 24, [7; 4]);
            StackSockets::new(config, Tap::of(end, String::new(), 1500), 64).unwrap()
        });
        let (listener, at) = b.listen(7, 0).unwrap();
        let client = a.connect(at[0], 0).unwrap();
        let mut sockets = [a, b];
        let server = until(&mut sockets, |[_, b]| b.accept(listener, 0).ok());
        (sockets, [client, server])
    }

    /// Lets both stacks go on until there is something.
    fn until<T>(
        sockets: &mut [StackSockets<Tap>; 2],
        mut look: impl FnMut(&mut [StackSockets<Tap>; 2]) -> Option<T>,
    ) -> T {
        for _ in 0..10_000 {
            for one in sockets.iter_mut() {
                one.wait(&mut Vec::new(), Duration::from_millis(1), None)
                    .unwrap();
            }
            if let Some(found) = look(sockets) {
                return found;
            }
        }
        panic!("it never came");
    }

    #[test]
    fn failures_are_told_before_what_is_left_to_be_read() {
        for is_reset in [true, false] {
            let (mut sockets, [client, server]) = pair();
            until(&mut sockets, |[a, _]| a.send(client, &[1; 1000]).ok());
            until(&mut sockets, |[_, b]| {
                let info = b.active().info(server).unwrap();
                (info.unread == 1000).then_some(())
            });
            if is_reset {
                sockets[0].abort(client);
            } else {
                sockets[0].shutdown(client).unwrap();
                until(&mut sockets, |[_, b]| {
                    (b.active().info(server).unwrap().state == State::CloseWait).then_some(())
                });
                sockets[1].shutdown(server).unwrap();
            }
            until(&mut sockets, |[_, b]| {
                (b.active().info(server).unwrap().state == State::Closed).then_some(())
            });
            let failure = sockets[1].failure(server);
            let failure = failure.map_err(|error| error.raw_os_error());
            let reset = Some(Errno::CONNRESET.raw_os_error());
            assert_eq!(failure, if is_reset { Err(reset) } else { Ok(()) });
            assert_eq!(sockets[1].unacknowledged(server).unwrap(), 0);
            // The bytes are still there.
            assert_eq!(sockets[1].receive(server, &mut [0; 2000]).unwrap(), 1000);
        }
    }

    /// A silent peer is waited for after something has come.
    #[test]
    fn waiting_is_as_it_is_chosen() {
        for mode in [WaitMode::Block, WaitMode::Poll, WaitMode::Adaptive] {
            let (mut sockets, [client, server]) = pair();
            sockets[1].waiter = Waiter::with_window(mode, Waiter::WINDOW);
            until(&mut sockets, |[a, _]| a.send(client, &[1; 1000]).ok());
            until(&mut sockets, |[_, b]| {
                b.receive(server, &mut [0; 2000]).ok()
            });
            let (_other, beside) = io::pipe().map(|(read, write)| (write, read)).unwrap();
            let before = sockets[1].waiter().counts();
            // Something has come, whatever time has passed since.
            let now = sockets[1].now();
            sockets[1].waiter.found(now);
            let wait = Duration::from_millis(50);
            let mut events = Vec::new();
            sockets[1]
                .wait(&mut events, wait, Some(beside.as_fd()))
                .unwrap();
            assert_eq!(events, []);
            let counts = sockets[1].waiter().counts();
            let slept = counts.sleeps > before.sleeps;
            let looked = counts.looks > before.looks;
            let expected = match mode {
                WaitMode::Block => (true, false),
                WaitMode::Poll => (false, true),
                WaitMode::Adaptive => (true, true),
            };
            assert_eq!((slept, looked), expected, "{mode:?} {counts:?}");
        }
    }

    #[test]
    fn whatever_the_way_of_waiting_others_are_heard() {
        for mode in [WaitMode::Block, WaitMode::Poll, WaitMode::Adaptive] {
            let ([mut a, _b], _) = pair();
            a.set_wait_mode(mode);
            let (beside, mut write) = io::pipe().unwrap();
            write.write_all(b"x").unwrap();
            // What has come before is no reason to return.
            a.wait(&mut Vec::new(), Duration::ZERO, None).unwrap();
            // Whoever does not hear it is here for an hour.
            let hour = Duration::from_secs(3_600);
            let mut events = Vec::new();
            a.wait(&mut events, hour, Some(beside.as_fd())).unwrap();
            assert_eq!(events, [], "{mode:?}");
        }
    }

    #[test]
    fn the_link_sends_segments_as_the_stack_is_configured() {
        for &segmentation in Segmentation::ALL {
            let (end, _other) = socketpair(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            )
            .unwrap();
            let tap = Tap::of(end, String::new(), 1500);
            let mac = MacAddr([2, 0, 0, 0, 0, 1]);
            let mut config = stack::Config::new(mac, Ipv4Addr::new(10, 0, 0, 1), 24, [7; 4]);
            config.mechanisms.segmentation = segmentation;
            let sockets = StackSockets::new(config, tap, 64).unwrap();
            let trains = segmentation == Segmentation::Gso;
            assert_eq!(sockets.link().gathers(), trains, "{segmentation:?}");
        }
    }
}
