//! Local ports of connections that are opened (RFC 6056, algorithm 4), TIME-WAITs that a new connection may end among them.

use super::time_wait::SLOT_BIT;
use crate::demux::{FlowKey, Search, Vacant};
use crate::socket::Error;
use crate::stack::Active;
use core::hint::cold_path;
use tollgate_gate::Recorder;

/// All ports of a range, which is never empty, from one of them on.
#[inline(always)]
fn ports_from(offset: u32, (lowest, highest): (u16, u16)) -> impl Iterator<Item = u16> {
    let ports = u32::from(highest - lowest) + 1;
    let first = offset % ports;
    (first..ports)
        .chain(0..first)
        .map(move |at| lowest + at as u16)
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
        let offset = self.stack.secrets.next_port_offset(label);
        for port in ports_from(offset, self.stack.config.ephemeral_ports) {
            let key = peer.to_port(port);
            match self.stack.search_as::<V6>(key) {
                Search::Vacant(vacant) => return Ok((key, vacant)),
                Search::Found(slot) => {
                    cold_path();
                    if let Some(vacant) = self.use_again(key, slot) {
                        return Ok((key, vacant));
                    }
                }
            }
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
    use alloc::vec::Vec;

    #[test]
    fn every_port_is_tried_once_whatever_the_offset() {
        for offset in [0, 1, 6, u32::MAX - 3, u32::MAX] {
            let mut ports: Vec<u16> = ports_from(offset, (60_000, 60_006)).collect();
            ports.sort_unstable();
            assert!(ports.into_iter().eq(60_000..=60_006), "from {offset}");
        }
        assert_eq!(ports_from(u32::MAX, (0xffff, 0xffff)).next(), Some(0xffff));
    }
}
