//! Events: what a connection is ready for, and what waits to be taken.
//!
//! It owns their words. When one is told is for [`Active::next_event`](crate::Active::next_event).

use super::{ConnId, ListenerId};
use crate::udp::UdpId;

/// Set of operations that a connection is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Readiness(pub(super) u8);

pub(crate) mod readiness {
    pub(crate) const READABLE: u8 = 1;
    pub(crate) const WRITABLE: u8 = 2;
    pub(crate) const CONNECTED: u8 = 4;
    pub(crate) const END: u8 = 8;
    pub(crate) const CLOSED: u8 = 16;
    pub(crate) const URGENT: u8 = 32;
    pub(crate) const SOFT_ERROR: u8 = 64;
    /// Not an event: the application was refused and waits for room.
    pub(crate) const WANT_WRITE: u8 = 128;
}

impl Readiness {
    /// There is something to read, or the end.
    pub const fn readable(self) -> bool {
        self.0 & (readiness::READABLE | readiness::END) != 0
    }

    /// There is room to send.
    pub const fn writable(self) -> bool {
        self.0 & readiness::WRITABLE != 0
    }

    /// The handshake is complete.
    pub const fn connected(self) -> bool {
        self.0 & readiness::CONNECTED != 0
    }

    /// The peer has closed its direction.
    pub const fn end(self) -> bool {
        self.0 & readiness::END != 0
    }

    /// The connection is over: [`Active::close`](crate::Active::close) tells why and gives the handle back.
    pub const fn closed(self) -> bool {
        self.0 & readiness::CLOSED != 0
    }

    /// There is trouble that has not ended the connection: [`Active::soft_error`](crate::Active::soft_error) tells which.
    pub const fn soft_error(self) -> bool {
        self.0 & readiness::SOFT_ERROR != 0
    }

    /// The peer has sent urgent data, or more of it: [`Info::urgent`](crate::Info::urgent) tells how much.
    pub const fn urgent(self) -> bool {
        self.0 & readiness::URGENT != 0
    }
}

/// Something that happened since the last call of [`Active::next_event`](crate::Active::next_event).
///
/// Events are edge-triggered: each is told once. A server's loop is
///
/// ```
/// # use tollgate_stack::{Active, ConnId, Error, Event, Pool};
/// # fn serve(_: &mut Active<'_>, _: ConnId, _: tollgate_stack::socket::Readiness) {}
/// # fn turn(stack: &mut Active<'_>) -> Result<(), Error> {
/// while let Some(event) = stack.next_event() {
///     match event {
///         Event::Listener { listener, .. } => {
///             let conn = stack.accept(listener)?;
///             stack.set_token(conn, 1)?;
///         }
///         Event::Connection { conn, ready, .. } => serve(stack, conn, ready),
///         Event::Datagrams { socket, .. } => {
///             while let Ok((from, datagram)) = stack.udp_receive(socket) {
///                 stack.udp_send(socket, from, &datagram)?;
///             }
///         }
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection is ready for something.
    Connection {
        /// Which connection.
        conn: ConnId,
        /// Operations that it is ready for.
        ready: Readiness,
        /// The connection's token ([`Active::set_token`](crate::Active::set_token)).
        token: u64,
    },
    /// Connections wait to be accepted. It is told once until [`Active::accept`](crate::Active::accept) is called, and again after each call
    /// that leaves connections behind.
    Listener {
        /// Which listener.
        listener: ListenerId,
        /// The listener's token ([`Active::set_listener_token`](crate::Active::set_listener_token)).
        token: u64,
    },
    /// Datagrams have come to a UDP socket, or an error about one that it sent: [`Active::udp_receive`](crate::Active::udp_receive) tells, until it would block.
    Datagrams {
        /// Which socket.
        socket: UdpId,
        /// The socket's token ([`Active::udp_set_token`](crate::Active::udp_set_token)).
        token: u64,
    },
}
