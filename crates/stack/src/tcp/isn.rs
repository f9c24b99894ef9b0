//! Secrets and what is drawn from them: initial sequence numbers (RFC 6528), timestamp offsets (RFC 7323, 5.4), ports
//! (RFC 6056, algorithm 3).

use crate::demux::{FlowKey, Sip};
use crate::time::Instant;
use tollgate_wire::SeqNumber;

/// Keys for each purpose, drawn from the stack's seed so that knowing one tells nothing of the others.
#[derive(Clone, Debug)]
pub(crate) struct Secrets {
    table: [u64; 2],
    isn: Sip,
    timestamp: Sip,
    port: Sip,
    cookie: Sip,
    identification: u16,
    port_counter: u32,
}

impl Secrets {
    pub(crate) fn new(seed: [u64; 4]) -> Self {
        let draw = |purpose: u32| {
            let half = |which: u32| {
                let label = FlowKey {
                    remote: purpose,
                    local: which,
                    ports: 0,
                };
                Sip::new([seed[0], seed[1]]).flow::<2, 4>(label)
                    ^ Sip::new([seed[2], seed[3]]).flow::<2, 4>(label)
            };
            [half(0), half(1)]
        };
        Self {
            table: draw(0),
            isn: Sip::new(draw(1)),
            timestamp: Sip::new(draw(2)),
            port: Sip::new(draw(3)),
            cookie: Sip::new(draw(4)),
            identification: draw(5)[0] as u16,
            port_counter: 0,
        }
    }

    pub(crate) const fn table_key(&self) -> [u64; 2] {
        self.table
    }

    pub(crate) const fn first_identification(&self) -> u16 {
        self.identification
    }

    /// ISN = M + F(localip, localport, remoteip, remoteport, secretkey), where M is a clock of 4 us (RFC 6528, 3).
    pub(crate) fn isn(&self, key: FlowKey, now: Instant) -> SeqNumber {
        let clock = (now.as_nanos() / 4000) as u32;
        SeqNumber(clock.wrapping_add(self.isn.flow::<2, 4>(key) as u32))
    }

    /// What is added to the clock in our timestamps, for all connections of the two addresses (RFC 7323, 5.4).
    pub(crate) fn timestamp_offset(&self, key: FlowKey) -> u32 {
        self.timestamp.flow::<2, 4>(FlowKey { ports: 0, ..key }) as u32
    }

    /// The first port to try for a connection to a peer; each call moves on (RFC 6056, 3.3.3).
    pub(crate) fn next_port_offset(&mut self, key: FlowKey) -> u32 {
        self.port_counter = self.port_counter.wrapping_add(1);
        (self.port.flow::<2, 4>(key) as u32).wrapping_add(self.port_counter)
    }

    /// The keyed part of a SYN cookie.
    pub(crate) fn cookie(&self, key: FlowKey, salt: u32) -> u32 {
        let first = self.cookie.flow::<2, 4>(key);
        let label = FlowKey {
            remote: first as u32,
            local: (first >> 32) as u32,
            ports: salt,
        };
        self.cookie.flow::<2, 4>(label) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_differ_by_connection_and_move_with_the_clock() {
        let secrets = Secrets::new([1, 2, 3, 4]);
        let key = FlowKey {
            remote: 1,
            local: 2,
            ports: 3,
        };
        let other = FlowKey { ports: 4, ..key };
        let at = |us: u64| Instant::from_nanos(us * 1000);
        assert_ne!(secrets.isn(key, at(0)), secrets.isn(other, at(0)));
        assert_eq!(secrets.isn(key, at(4000)) - secrets.isn(key, at(0)), 1000);
        assert_ne!(
            Secrets::new([1, 2, 3, 5]).isn(key, at(0)),
            secrets.isn(key, at(0))
        );
    }
}
