//! Local ports of connections that are opened (RFC 6056, algorithm 4), TIME-WAITs that a new connection may end among them.

use super::time_wait::SLOT_BIT;
use crate::demux::{FlowKey, Search, Vacant};
use crate::socket::Error;
use crate::stack::Active;
use core::hint::cold_path;
use tollgate_gate::Recorder;

/// The number of the port behind this one, in a range of so many.
#[inline(always)]
const fn behind(port: u32, ports: u32) -> u32 {
    if port + 1 == ports { 0 } else { port + 1 }
}

impl<R: Recorder> Active<'_, R> {
    /// The key of a connection to `peer`, whose local port is zero, with a port that is free, or stands in TIME-WAIT and may be
    /// used again: its last segment is older than our clock's tick, so that the peer can tell the new SYN from old ones
    /// (RFC 6191).
    #[inline(always)]
    pub(super) fn free_local_port<const V6: bool>(
        &mut self,
        peer: FlowKey,
    ) -> Result<(FlowKey, Vacant), Error> {
        let label = if V6 { self.stack.label_of(peer) } else { peer };
        let (lowest, highest) = self.stack.config.ephemeral_ports;
        let ports = u32::from(highest - lowest) + 1;
        let mut port = self.stack.secrets.next_port_offset(label) % ports;
        for _ in 0..ports {
            let key = peer.to_port(lowest + port as u16);
            match self.stack.search_as::<V6>(key) {
                Search::Vacant(vacant) => return Ok((key, vacant)),
                Search::Found(slot) => {
                    cold_path();
                    if let Some(vacant) = self.use_again(key, slot) {
                        return Ok((key, vacant));
                    }
                }
            }
            port = behind(port, ports);
        }
        Err(Error::NoPort)
    }

    /// Chooses this port as the local one, if it is free.
    #[cold]
    pub(super) fn this_local_port(
        &mut self,
        peer: FlowKey,
        port: u16,
    ) -> Result<(FlowKey, Vacant), Error> {
        if port == 0 {
            return Err(Error::BadAddress);
        }
        let key = peer.to_port(port);
        let vacant = match self.stack.search(key) {
            Search::Vacant(vacant) => Some(vacant),
            Search::Found(slot) => self.use_again(key, slot),
        };
        vacant.map(|vacant| (key, vacant)).ok_or(Error::InUse)
    }

    /// Ends the TIME-WAIT in `slot`, if it is one that may be ended for a new connection.
    fn use_again(&mut self, key: FlowKey, slot: u32) -> Option<Vacant> {
        let index = (slot & SLOT_BIT != 0).then_some(slot & !SLOT_BIT)?;
        let old = self.stack.time_wait.get(index)?;
        let reusable =
            self.stack.config.timestamps && old.timestamps && self.now.tick().since(old.since) >= 2;
        if !reusable {
            return None;
        }
        self.forget_time_wait(index);
        match self.stack.search(key) {
            Search::Vacant(vacant) => Some(vacant),
            Search::Found(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Pool;
    use crate::config::Config;
    use crate::stack::Stack;
    use crate::time::Instant;
    use alloc::vec::Vec;
    use core::net::{Ipv4Addr, SocketAddrV4};
    use tollgate_wire::ethernet::MacAddr;

    #[test]
    fn every_port_is_tried_whatever_the_offset() {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let mut config = Config::new(mac, Ipv4Addr::new(10, 0, 0, 1), 24, [1, 2, 3, 4]);
        config.ephemeral_ports = (60_000, 60_006);
        let mut pool = Pool::new(64, 2048);
        let to = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 80);
        for first in [0, 6, u32::MAX - 3, u32::MAX] {
            let mut stack = Stack::new(config, 1500, Instant::from_nanos(1 << 40)).unwrap();
            let peer = FlowKey::new((*to.ip(), to.port()), (config.ip, 0));
            stack.secrets.set_next_port_offset(peer, first);
            let mut active = stack.at(Instant::from_nanos(1 << 40), &mut pool);
            let mut ports: Vec<u16> = (0..7)
                .map(|_| {
                    let conn = active.connect(to).unwrap();
                    active.info(conn).unwrap().local.port()
                })
                .collect();
            ports.sort_unstable();
            assert!(ports.into_iter().eq(60_000..=60_006), "from {first}");
            assert_eq!(active.connect(to), Err(Error::NoPort));
        }
    }
}
