//! Sockets that never block, as an event-driven server uses them: those of the kernel, and those of Tollgate's stack.
//!
//! It owns the one trait that both implement, and the words for what went wrong, which are errno's. It must never know what a
//! service says.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Something that happened since the last wait. Events are edge-triggered: each is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Connections wait to be accepted by the listener of this token; more may wait than one.
    Incoming {
        /// The token of [`Sockets::listen`].
        token: u64,
    },
    /// A connection may have become ready to be read or written, or is over. Only trying tells.
    Ready {
        /// The token of [`Sockets::accept`] or [`Sockets::connect`].
        token: u64,
        /// It is connected and has room to send, or is over.
        writable: bool,
    },
    /// Datagrams may have come.
    Datagrams {
        /// The token of [`Sockets::bind`].
        token: u64,
    },
}

/// Ends of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The other end.
    pub remote: SocketAddr,
    /// Our address, where the socket knows it (RFC 1122, 4.1.3.5); the route's else.
    pub local: Option<IpAddr>,
}

/// A TCP/IP with sockets that never block.
///
/// A call that cannot be carried out now fails with [`io::ErrorKind::WouldBlock`], and an event tells when to try again. All other
/// errors are the system's, or are told in its words.
pub trait Sockets {
    /// A connection.
    type Conn: Copy + Debug;
    /// A listener.
    type Listener: Copy + Debug;
    /// A socket of datagrams.
    type Datagrams: Copy + Debug;

    /// Listens on a port, and gives the addresses with it.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], and the system's.
    fn listen(&mut self, port: u16, token: u64) -> io::Result<(Self::Listener, Vec<SocketAddr>)>;

    /// Takes a connection that waits, whose events bear `token` from now on.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when none waits, and the system's.
    fn accept(&mut self, listener: Self::Listener, token: u64) -> io::Result<Self::Conn>;

    /// Begins to connect. The first writable event tells that it is done; sending or receiving tells why it failed.
    ///
    /// # Errors
    /// The system's.
    fn connect(&mut self, to: SocketAddr, token: u64) -> io::Result<Self::Conn>;

    /// Reads what has arrived, at least one byte; 0 is the end.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is nothing yet; the reason when the connection is over.
    fn receive(&mut self, conn: Self::Conn, into: &mut [u8]) -> io::Result<usize>;

    /// Queues bytes to be sent, and gives how many were taken, at least one.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is no room; the reason when the connection is over.
    fn send(&mut self, conn: Self::Conn, bytes: &[u8]) -> io::Result<usize>;

    /// Tells why a connection is over, without reading or sending: for who can do neither now.
    ///
    /// # Errors
    /// The reason.
    fn failure(&mut self, conn: Self::Conn) -> io::Result<()>;

    /// Bytes that were taken to be sent and that the peer has not acknowledged.
    ///
    /// # Errors
    /// The system's.
    fn unacknowledged(&mut self, conn: Self::Conn) -> io::Result<u64>;

    /// Closes our direction, behind what is queued. A connection must be connected.
    ///
    /// # Errors
    /// The reason when the connection is over.
    fn shutdown(&mut self, conn: Self::Conn) -> io::Result<()>;

    /// Gives the connection back; what is queued is still sent. No event bears its token any more.
    fn close(&mut self, conn: Self::Conn);

    /// Ends the connection by a reset.
    fn abort(&mut self, conn: Self::Conn);

    /// Opens a socket for datagrams on a port, and gives the addresses with it.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`], and the system's.
    fn bind(&mut self, port: u16, token: u64) -> io::Result<(Self::Datagrams, Vec<SocketAddr>)>;

    /// Takes the next datagram: its ends, and its bytes. Those for which `into` has no room are lost.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is none; the reason why an earlier one was not delivered.
    fn receive_from(
        &mut self,
        socket: Self::Datagrams,
        into: &mut [u8],
    ) -> io::Result<(Ends, usize)>;

    /// Sends a datagram from one of its ends to the other.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] or ENOBUFS when there is no room, and the system's.
    fn send_to(&mut self, socket: Self::Datagrams, ends: Ends, bytes: &[u8]) -> io::Result<()>;

    /// Waits for events, for `timeout` at most or until `beside` can be read, and appends those that there are. Signals end the
    /// wait early.
    ///
    /// # Errors
    /// [`rustix::io::Errno::NODEV`] when the link has gone, and the system's.
    fn wait(
        &mut self,
        events: &mut Vec<Event>,
        timeout: Duration,
        beside: Option<BorrowedFd<'_>>,
    ) -> io::Result<()>;
}

/// One connection as a service sees it.
pub(crate) trait Stream {
    /// See [`Sockets::receive`].
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// See [`Sockets::send`].
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// See [`Sockets::failure`].
    fn failure(&mut self) -> io::Result<()>;

    /// See [`Sockets::unacknowledged`].
    fn unacknowledged(&mut self) -> io::Result<u64>;

    /// See [`Sockets::shutdown`].
    fn shutdown(&mut self) -> io::Result<()>;
}

/// A connection with its sockets.
pub(crate) struct Handle<'a, S: Sockets> {
    pub(crate) sockets: &'a mut S,
    pub(crate) conn: S::Conn,
}

impl<S: Sockets> Stream for Handle<'_, S> {
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.sockets.receive(self.conn, into)
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sockets.send(self.conn, bytes)
    }

    fn failure(&mut self) -> io::Result<()> {
        self.sockets.failure(self.conn)
    }

    fn unacknowledged(&mut self) -> io::Result<u64> {
        self.sockets.unacknowledged(self.conn)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.sockets.shutdown(self.conn)
    }
}

/// `None` where the call would block.
pub(crate) fn unless_blocked<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A stream whose other end is a script.
    pub(crate) struct Script {
        incoming: Vec<u8>,
        read: usize,
        /// The other end closes its direction behind the script.
        ends: bool,
        /// Bytes that can be sent.
        pub(crate) room: usize,
        pub(crate) sent: Vec<u8>,
        pub(crate) shut: bool,
        /// It is over, which is told behind the script.
        pub(crate) fails: bool,
        pub(crate) unacknowledged: u64,
    }

    impl Script {
        pub(crate) fn new(incoming: &[u8], ends: bool) -> Self {
            Self {
                incoming: incoming.to_vec(),
                read: 0,
                ends,
                room: usize::MAX,
                sent: Vec::new(),
                shut: false,
                fails: false,
                unacknowledged: 0,
            }
        }

        /// More arrives.
        pub(crate) fn arrive(&mut self, bytes: &[u8]) {
            self.incoming.extend_from_slice(bytes);
        }

        /// Bytes that have arrived and were not read.
        pub(crate) const fn left(&self) -> usize {
            self.incoming.len() - self.read
        }
    }

    impl Stream for Script {
        fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.left().min(into.len());
            if count == 0 {
                self.failure()?;
            }
            if count == 0 && !self.ends {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            into[..count].copy_from_slice(&self.incoming[self.read..self.read + count]);
            self.read += count;
            Ok(count)
        }

        fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.failure()?;
            let count = self.room.min(bytes.len());
            if count == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.room -= count;
            self.sent.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn failure(&mut self) -> io::Result<()> {
            if self.fails {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            Ok(())
        }

        fn unacknowledged(&mut self) -> io::Result<u64> {
            Ok(self.unacknowledged)
        }

        fn shutdown(&mut self) -> io::Result<()> {
            self.shut = true;
            Ok(())
        }
    }
}
