//! The kernel's sockets, by epoll(7).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};

use crate::sockets::{Ends, Event, Sockets};
use crate::{KEEP_COUNT, KEEP_IDLE, KEEP_INTERVAL};

/// Connections that may wait to be accepted; the kernel takes fewer where `net.core.somaxconn` says so.
const BACKLOG: i32 = 4096;
/// Events that are taken at once.
const EVENTS: usize = 256;
/// The bits of an epoll token that mark a listener, and a listener's that mark a socket of datagrams.
const LISTENER: u64 = 1 << 63;
const DATAGRAMS: u64 = 1 << 62;

/// Sockets of the kernel on one address.
#[derive(Debug)]
pub struct KernelSockets {
    epoll: OwnedFd,
    address: IpAddr,
    listeners: Vec<OwnedFd>,
    datagrams: Vec<OwnedFd>,
    /// Sockets by place; a place is used again.
    conns: Vec<Option<OwnedFd>>,
    free: Vec<u32>,
}

impl KernelSockets {
    /// Sockets that listen on this address.
    ///
    /// # Errors
    /// The system's.
    pub fn new(address: IpAddr) -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            address,
            listeners: Vec::new(),
            datagrams: Vec::new(),
            conns: Vec::new(),
            free: Vec::new(),
        })
    }

    /// A descriptor that can be read when there are events.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn socket(address: IpAddr, kind: SocketType) -> io::Result<OwnedFd> {
        let family = match address {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        Ok(net::socket_with(family, kind, flags, None)?)
    }

    /// Gives a connected or connecting socket its options and its place.
    fn keep(&mut self, socket: OwnedFd, token: u64) -> io::Result<u32> {
        sockopt::set_tcp_nodelay(&socket, true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, KEEP_IDLE)?;
        sockopt::set_tcp_keepintvl(&socket, KEEP_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&socket, u32::from(KEEP_COUNT))?;
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        epoll::add(
            &self.epoll,
            &socket,
            epoll::EventData::new_u64(token),
            flags,
        )?;
        let place = self.free.pop().unwrap_or_else(|| {
            self.conns.push(None);
            self.conns.len() as u32 - 1
        });
        self.conns[place as usize] = Some(socket);
        Ok(place)
    }

    fn conn(&self, place: u32) -> io::Result<&OwnedFd> {
        let conn = self.conns.get(place as usize).and_then(Option::as_ref);
        conn.ok_or_else(|| Errno::BADF.into())
    }

    fn give_back(&mut self, place: u32) -> Option<OwnedFd> {
        let socket = self.conns.get_mut(place as usize)?.take()?;
        self.free.push(place);
        Some(socket)
    }
}

/// Bytes in the send queue of a socket (SIOCOUTQ of tcp(7), which has the number of TIOCOUTQ).
#[allow(unsafe_code)]
fn unacknowledged(socket: &OwnedFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one integer, which outlives the call.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}

impl Sockets for KernelSockets {
    type Conn = u32;
    type Listener = u32;
    type Datagrams = u32;

    fn listen(&mut self, port: u16, token: u64) -> io::Result<(u32, Vec<SocketAddr>)> {
        let socket = Self::socket(self.address, SocketType::STREAM)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        net::bind(&socket, &SocketAddr::new(self.address, port))?;
        net::listen(&socket, BACKLOG)?;
        let address = SocketAddr::try_from(net::getsockname(&socket)?)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(token | LISTENER);
        epoll::add(&self.epoll, &socket, data, flags)?;
        self.listeners.push(socket);
        Ok((self.listeners.len() as u32 - 1, vec![address]))
    }

    fn accept(&mut self, listener: u32, token: u64) -> io::Result<u32> {
        let listener = self.listeners.get(listener as usize).ok_or(Errno::BADF)?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::accept_with(listener, flags)?;
        self.keep(socket, token)
    }

    fn connect(&mut self, to: SocketAddr, token: u64) -> io::Result<u32> {
        let socket = Self::socket(to.ip(), SocketType::STREAM)?;
        match net::connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => self.keep(socket, token),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&mut self, conn: u32, into: &mut [u8]) -> io::Result<usize> {
        let (read, _) = net::recv(self.conn(conn)?, into, RecvFlags::empty())?;
        Ok(read)
    }

    fn send(&mut self, conn: u32, bytes: &[u8]) -> io::Result<usize> {
        Ok(net::send(self.conn(conn)?, bytes, SendFlags::NOSIGNAL)?)
    }

    fn failure(&mut self, conn: u32) -> io::Result<()> {
        Ok(sockopt::socket_error(self.conn(conn)?)??)
    }

    fn unacknowledged(&mut self, conn: u32) -> io::Result<u64> {
        unacknowledged(self.conn(conn)?)
    }

    fn shutdown(&mut self, conn: u32) -> io::Result<()> {
        Ok(net::shutdown(self.conn(conn)?, Shutdown::Write)?)
    }

    fn close(&mut self, conn: u32) {
        drop(self.give_back(conn));
    }

    fn abort(&mut self, conn: u32) {
        if let Some(socket) = self.give_back(conn) {
            // A socket that cannot linger is closed all the same.
            let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
        }
    }

    fn bind(&mut self, port: u16, token: u64) -> io::Result<(u32, Vec<SocketAddr>)> {
        let socket = Self::socket(self.address, SocketType::DGRAM)?;
        net::bind(&socket, &SocketAddr::new(self.address, port))?;
        let address = SocketAddr::try_from(net::getsockname(&socket)?)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        let data = epoll::EventData::new_u64(token | LISTENER | DATAGRAMS);
        epoll::add(&self.epoll, &socket, data, flags)?;
        self.datagrams.push(socket);
        Ok((self.datagrams.len() as u32 - 1, vec![address]))
    }

    fn receive_from(&mut self, socket: u32, into: &mut [u8]) -> io::Result<(Ends, usize)> {
        let socket = self.datagrams.get(socket as usize).ok_or(Errno::BADF)?;
        let (_, len, from) = net::recvfrom(socket, into, RecvFlags::empty())?;
        let from = from.ok_or(Errno::DESTADDRREQ)?;
        let ends = Ends {
            remote: from.try_into()?,
            local: None,
        };
        Ok((ends, len))
    }

    fn send_to(&mut self, socket: u32, ends: Ends, bytes: &[u8]) -> io::Result<()> {
        let socket = self.datagrams.get(socket as usize).ok_or(Errno::BADF)?;
        net::sendto(socket, bytes, SendFlags::NOSIGNAL, &ends.remote)?;
        Ok(())
    }

    fn wait(
        &mut self,
        events: &mut Vec<Event>,
        timeout: Duration,
        beside: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        let timeout = Timespec::try_from(timeout).ok();
        let mut polled = vec![PollFd::new(&self.epoll, PollFlags::IN)];
        polled.extend(beside.map(|other| PollFd::from_borrowed_fd(other, PollFlags::IN)));
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Err(Errno::INTR) => return Ok(()),
            outcome => outcome?,
        };
        let mut ready = Vec::with_capacity(EVENTS);
        let now = Timespec::default();
        match epoll::wait(&self.epoll, spare_capacity(&mut ready), Some(&now)) {
            Err(Errno::INTR) => return Ok(()),
            outcome => outcome?,
        };
        let over = epoll::EventFlags::ERR | epoll::EventFlags::HUP;
        for found in &ready {
            let (token, flags) = (found.data.u64(), found.flags);
            events.push(if token & LISTENER == 0 {
                Event::Ready {
                    token,
                    writable: flags.intersects(epoll::EventFlags::OUT | over),
                }
            } else if token & DATAGRAMS == 0 {
                Event::Incoming {
                    token: token & !LISTENER,
                }
            } else {
                Event::Datagrams {
                    token: token & !(LISTENER | DATAGRAMS),
                }
            });
        }
        Ok(())
    }
}
