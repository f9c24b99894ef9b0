//! Echo and discard by UDP (RFC 862 and 863, each "UDP Based").
//!
//! It owns what is answered. It must never answer what may be an answer itself, and never wait: a datagram that cannot be sent now is
//! lost, as any may be.

use std::io;

use crate::pipe::TURNS;
use crate::sockets::{Sockets, unless_blocked};

/// Ports below are reserved (RFC 6335, 6). A datagram from one may be a service's, which would answer the answer, and so for ever
/// (CERT CA-1996-01).
const RESERVED: u16 = 1024;

/// Datagrams so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCounts {
    /// Datagrams that were received.
    pub received: u64,
    /// Datagrams that were sent back.
    pub answered: u64,
    /// Answers that there was no room for, or that the system refused.
    pub lost: u64,
    /// Datagrams that were not answered, since a service may have sent them.
    pub suspicious: u64,
}

/// The socket of a service.
#[derive(Debug)]
pub(crate) struct Bound<D> {
    pub(crate) socket: D,
    pub(crate) port: u16,
    /// Datagrams that come are sent back.
    pub(crate) echoes: bool,
    /// Datagrams may wait.
    pub(crate) incoming: bool,
}

impl<D: Copy> Bound<D> {
    /// Takes what waits, not for longer than others can wait. `served` are the ports of this server.
    pub(crate) fn go<S: Sockets<Datagrams = D>>(
        &mut self,
        sockets: &mut S,
        served: &[u16],
        scratch: &mut [u8],
        counts: &mut DatagramCounts,
    ) {
        // A system that goes on being short is asked again in a while.
        self.incoming = false;
        for _ in 0..TURNS {
            let taken = match unless_blocked(sockets.receive_from(self.socket, scratch)) {
                Ok(Some(taken)) => taken,
                Ok(None) => {
                    self.incoming = false;
                    return;
                }
                // It is about a datagram that has left, or the system is short: the next one may come all the same.
                Err(_) => continue,
            };
            self.incoming = true;
            counts.received += 1;
            let (ends, len) = taken;
            if !self.echoes {
                continue;
            }
            let from = ends.remote.port();
            if from < RESERVED || served.contains(&from) {
                counts.suspicious += 1;
                continue;
            }
            let sent: io::Result<()> = sockets.send_to(self.socket, ends, &scratch[..len]);
            match sent {
                Ok(()) => counts.answered += 1,
                Err(_) => counts.lost += 1,
            }
        }
    }
}
