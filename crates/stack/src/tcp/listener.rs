//! A listener: a port that connections are accepted on, with its queue and backlog.

use crate::demux::FlowKey;
use alloc::collections::VecDeque;

/// A port in LISTEN.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) port: u16,
    pub(crate) generation: u16,
    /// Connections that may wait, complete and half open together.
    pub(crate) backlog: u16,
    /// Half-open connections (SYN-RECEIVED).
    pub(crate) half_open: u16,
    /// Complete connections that nobody has accepted yet.
    pub(crate) queue: VecDeque<u32>,
}

impl Listener {
    /// Whether another half-open connection may be kept.
    pub(crate) fn has_room(&self) -> bool {
        usize::from(self.half_open) + self.queue.len() < usize::from(self.backlog)
    }

    /// Whether another complete connection may be kept: one that comes by a cookie was never half open.
    pub(crate) fn may_queue(&self) -> bool {
        self.queue.len() < usize::from(self.backlog)
    }
}

/// The port that a packet with this key is addressed to.
pub(crate) fn local_port(key: FlowKey) -> u16 {
    let [_, _, high, low] = key.ports.to_ne_bytes();
    u16::from_be_bytes([high, low])
}
