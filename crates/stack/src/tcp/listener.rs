//! A listener: a port that connections are accepted on, with its queue and backlog, and the calls that concern it
//! (RFC 9293, 3.10.1: passive open).

use super::tcb::{State, rare};
use crate::demux::FlowKey;
use crate::options::Open;
use crate::socket::{ConnId, Error, ListenerId};
use crate::stack::Active;
use alloc::collections::VecDeque;
use core::net::Ipv4Addr;
use tollgate_gate::Recorder;

/// A port in LISTEN.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The address that it listens on, or any.
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) port: u16,
    /// The Diffserv field of its connections, as it lies in the IP header.
    pub(crate) diffserv: u8,
    pub(crate) generation: u16,
    /// Connections that may wait, complete and half open together.
    pub(crate) backlog: u16,
    /// Half-open connections (SYN-RECEIVED).
    pub(crate) half_open: u16,
    /// Complete connections that nobody has accepted yet.
    pub(crate) queue: VecDeque<u32>,
}

impl Listener {
    /// Whether it takes connections to `address` and `port`.
    pub(crate) fn takes(&self, address: Ipv4Addr, port: u16) -> bool {
        self.port == port && self.address.is_none_or(|own| own == address)
    }

    /// Whether a connection could be both its and that of another on `address`, or any, and `port`.
    pub(crate) fn collides(&self, address: Option<Ipv4Addr>, port: u16) -> bool {
        address.map_or(self.port == port, |address| self.takes(address, port))
    }

    /// Whether another half-open connection may be kept.
    pub(crate) fn has_room(&self) -> bool {
        usize::from(self.half_open) + self.queue.len() < usize::from(self.backlog)
    }

    /// Whether another complete connection may be kept: one that comes by a cookie was never half open.
    pub(crate) fn may_queue(&self) -> bool {
        self.queue.len() < usize::from(self.backlog)
    }
}

/// The port that a packet with this key comes from.
pub(crate) fn remote_port(key: FlowKey) -> u16 {
    let [high, low, _, _] = key.ports.to_ne_bytes();
    u16::from_be_bytes([high, low])
}

/// The address and port that a packet with this key is addressed to.
pub(crate) fn local_end(key: FlowKey) -> (Ipv4Addr, u16) {
    let [_, _, high, low] = key.ports.to_ne_bytes();
    let address = Ipv4Addr::from(key.local.to_ne_bytes());
    (address, u16::from_be_bytes([high, low]))
}

impl<R: Recorder> Active<'_, R> {
    /// Listens on a port. At most `backlog` connections wait for [`Active::accept`] or for their handshake; beyond that,
    /// SYNs are answered with cookies.
    ///
    /// # Errors
    /// [`Error::BadAddress`] for port 0, [`Error::InUse`].
    pub fn listen(&mut self, port: u16, backlog: u16) -> Result<ListenerId, Error> {
        self.listen_with(port, backlog, &Open::default())
    }

    /// As [`Active::listen`], in a particular way. A port may be listened on at several addresses by several listeners.
    ///
    /// # Errors
    /// As [`Active::listen`], [`Error::BadAddress`] also for a local address that is not the stack's, and
    /// [`Error::BadOption`] for a Diffserv codepoint above 63 or a source route.
    pub fn listen_with(
        &mut self,
        port: u16,
        backlog: u16,
        open: &Open<'_>,
    ) -> Result<ListenerId, Error> {
        let address = self.local_for(open)?;
        if !open.source_route.is_empty() {
            return Err(Error::BadOption);
        }
        if port == 0 {
            return Err(Error::BadAddress);
        }
        let mut others = self.stack.listeners.iter().flatten();
        if others.any(|l| l.collides(address, port)) {
            return Err(Error::InUse);
        }
        self.stack.listener_generation = self.stack.listener_generation.wrapping_add(1);
        let generation = self.stack.listener_generation;
        let listener = Listener {
            address,
            port,
            diffserv: open.diffserv << 2,
            generation,
            backlog: backlog.max(1),
            half_open: 0,
            queue: Default::default(),
        };
        let index = match self.stack.listeners.iter().position(Option::is_none) {
            Some(free) => {
                self.stack.listeners[free] = Some(listener);
                free
            }
            None => {
                self.stack.listeners.push(Some(listener));
                self.stack.listeners.len() - 1
            }
        };
        Ok(ListenerId {
            index: index as u32,
            generation,
        })
    }

    /// The listener that takes connections with this key.
    #[inline]
    pub(crate) fn listener_for(&self, key: FlowKey) -> Option<u32> {
        let (address, port) = local_end(key);
        self.stack
            .listeners
            .iter()
            .position(|l| l.as_ref().is_some_and(|l| l.takes(address, port)))
            .map(|i| i as u32)
    }

    /// Takes the next complete connection.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is none, [`Error::NotConnected`] when the listener is closed.
    pub fn accept(&mut self, listener: ListenerId) -> Result<ConnId, Error> {
        let Some(Some(l)) = self.stack.listeners.get_mut(listener.index as usize) else {
            return Err(Error::NotConnected);
        };
        if l.generation != listener.generation {
            return Err(Error::NotConnected);
        }
        let index = l.queue.pop_front().ok_or(Error::WouldBlock)? as usize;
        let tcb = &mut self.stack.tcbs[index];
        tcb.rare &= !rare::UNACCEPTED;
        let generation = tcb.generation;
        // What happened while it waited is told now.
        let pending = tcb.events;
        if pending != 0 {
            self.notify(index, pending);
        }
        Ok(ConnId {
            index: index as u32,
            generation,
        })
    }

    /// Stops listening; connections that nobody accepted are reset.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when it was closed already.
    pub fn close_listener(&mut self, listener: ListenerId) -> Result<(), Error> {
        match self.stack.listeners.get_mut(listener.index as usize) {
            Some(place)
                if place
                    .as_ref()
                    .is_some_and(|l| l.generation == listener.generation) =>
            {
                *place = None
            }
            _ => return Err(Error::NotConnected),
        }
        for index in 0..self.stack.tcbs.len() {
            let tcb = &self.stack.tcbs[index];
            if tcb.state != State::Closed
                && tcb.listener == listener.index
                && tcb.is_rare(rare::UNACCEPTED)
            {
                self.send_reset_of(index);
                self.free_connection(index);
            }
        }
        Ok(())
    }
}
