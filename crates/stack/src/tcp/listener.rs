//! A listener: a port that connections are accepted on, with its queue and backlog.

use crate::demux::FlowKey;
use alloc::collections::VecDeque;
use core::net::Ipv4Addr;

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

/// The address and port that a packet with this key is addressed to.
pub(crate) fn local_end(key: FlowKey) -> (Ipv4Addr, u16) {
    let [_, _, high, low] = key.ports.to_ne_bytes();
    let address = Ipv4Addr::from(key.local.to_ne_bytes());
    (address, u16::from_be_bytes([high, low]))
}
