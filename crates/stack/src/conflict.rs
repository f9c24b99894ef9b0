//! Address conflict detection (RFC 5227): asking whether another host has an address, announcing and defending it.
//!
//! A state machine without I/O: it says what to send, and takes the ARP packets that the stack hears. An address is *probed*
//! three times, one to two seconds apart, and is ours two seconds after the last probe (2.1.1). Then it is *announced* twice
//! (2.3) and *held*. Whoever claims a held address is answered with an announcement, at most once in ten seconds (2.4). A
//! second claim within that time takes an address that was probed away (2.4 b), and none that the application is certain of
//! (2.4 c).
//!
//! This module must never decide which addresses are ours beyond that, nor touch a connection.

use crate::random::Random;
use crate::time::Instant;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;
use tollgate_wire::arp::{Operation, Packet};
use tollgate_wire::ethernet::MacAddr;

/// RFC 5227, 1.1: `PROBE_WAIT`, the longest wait before the first probe.
const PROBE_WAIT: Duration = Duration::from_secs(1);
/// RFC 5227, 1.1: `PROBE_NUM`.
const PROBES: u8 = 3;
/// RFC 5227, 1.1: `PROBE_MIN`.
const PROBE_MIN: Duration = Duration::from_secs(1);
/// RFC 5227, 1.1: `PROBE_MAX`.
const PROBE_MAX: Duration = Duration::from_secs(2);
/// RFC 5227, 1.1: `ANNOUNCE_WAIT`, from the last probe to the first announcement.
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);
/// RFC 5227, 1.1: `ANNOUNCE_NUM`.
const ANNOUNCEMENTS: u8 = 2;
/// RFC 5227, 1.1: `ANNOUNCE_INTERVAL`.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
/// RFC 5227, 1.1: `DEFEND_INTERVAL`.
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

/// Stage of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Probes are left to be sent, or with none left an answer to them is waited for.
    Probing { left: u8 },
    /// Ours; announcements are left to be sent.
    Announcing { left: u8 },
    /// Ours.
    Held,
    /// Another host's.
    Lost,
}

/// A claim to an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// The address and the bits of its prefix.
    pub(crate) own: (Ipv4Addr, u8),
    pub(crate) stage: Stage,
    /// When the next packet is sent, or the address is ours.
    due: Instant,
    /// When the address was defended last.
    defended: Option<Instant>,
    /// True when the address was given without a probe: it is never given up.
    certain: bool,
}

/// Work that a claim asks for.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Broadcast a probe for the address.
    Probe(Ipv4Addr),
    /// The address is ours: announce it.
    Assign((Ipv4Addr, u8)),
    /// Broadcast an announcement of the address.
    Announce(Ipv4Addr),
    /// The address was ours, and is another host's.
    GiveUp(Ipv4Addr),
}

/// All claims.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    list: Vec<Claim>,
}

/// A random time between two.
fn between(least: Duration, most: Duration, random: &mut Random) -> Duration {
    let span = (most - least).as_nanos() as u32;
    least + Duration::from_nanos(random.below(span).into())
}

impl Claims {
    pub(crate) const fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.list.iter()
    }

    /// Begins to ask for an address.
    pub(crate) fn probe(&mut self, own: (Ipv4Addr, u8), now: Instant, random: &mut Random) {
        self.list.push(Claim {
            own,
            stage: Stage::Probing { left: PROBES },
            due: now + between(Duration::ZERO, PROBE_WAIT, random),
            defended: None,
            certain: false,
        });
    }

    /// Begins to announce an address that is ours.
    pub(crate) fn announce(&mut self, own: (Ipv4Addr, u8)) {
        self.list.push(Claim {
            own,
            stage: Stage::Announcing {
                left: ANNOUNCEMENTS,
            },
            due: Instant::ZERO,
            defended: None,
            certain: true,
        });
    }

    /// Forgets an address; says whether it was known.
    pub(crate) fn remove(&mut self, ip: Ipv4Addr) -> bool {
        let before = self.list.len();
        self.list.retain(|claim| claim.own.0 != ip);
        self.list.len() != before
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Option<Instant> {
        let waits = |claim: &&Claim| {
            matches!(
                claim.stage,
                Stage::Probing { .. } | Stage::Announcing { .. }
            )
        };
        let waiting = self.list.iter().filter(waits);
        waiting.map(|claim| claim.due).min()
    }

    /// The next thing that is due, until there is none.
    pub(crate) fn poll(&mut self, now: Instant, random: &mut Random) -> Option<Action> {
        self.list
            .iter_mut()
            .filter(|claim| claim.due <= now)
            .find_map(|claim| claim.advance(now, random))
    }

    /// Takes an ARP packet that was heard; `mac` is our link address.
    pub(crate) fn hear(&mut self, packet: &Packet, mac: MacAddr, now: Instant) -> Option<Action> {
        if packet.sender_mac == mac {
            return None;
        }
        let claim = self.list.iter_mut().find(|claim| claim.is_met(packet))?;
        match claim.stage {
            Stage::Probing { .. } => {
                claim.stage = Stage::Lost;
                None
            }
            Stage::Lost => None,
            Stage::Announcing { .. } | Stage::Held => {
                let lately = claim
                    .defended
                    .is_some_and(|defended| now - defended < DEFEND_INTERVAL);
                if !lately {
                    claim.defended = Some(now);
                    return Some(Action::Announce(claim.own.0));
                }
                if claim.certain {
                    return None;
                }
                claim.stage = Stage::Lost;
                Some(Action::GiveUp(claim.own.0))
            }
        }
    }
}

impl Claim {
    /// Tells whether a packet of another host claims the address, or probes for it while we do (RFC 5227, 2.1.1).
    fn is_met(&self, packet: &Packet) -> bool {
        let probes = packet.operation == Operation::Request
            && packet.sender_ip.is_unspecified()
            && packet.target_ip == self.own.0;
        packet.sender_ip == self.own.0 || probes && matches!(self.stage, Stage::Probing { .. })
    }

    /// Goes on to the next stage, which is due.
    fn advance(&mut self, now: Instant, random: &mut Random) -> Option<Action> {
        match &mut self.stage {
            Stage::Probing { left: 0 } => {
                let left = ANNOUNCEMENTS - 1;
                self.stage = Stage::Announcing { left };
                self.due = now + ANNOUNCE_INTERVAL;
                Some(Action::Assign(self.own))
            }
            Stage::Probing { left } => {
                *left -= 1;
                self.due = now
                    + match *left {
                        0 => ANNOUNCE_WAIT,
                        _ => between(PROBE_MIN, PROBE_MAX, random),
                    };
                Some(Action::Probe(self.own.0))
            }
            Stage::Announcing { left } => {
                *left -= 1;
                if *left == 0 {
                    self.stage = Stage::Held;
                }
                self.due = now + ANNOUNCE_INTERVAL;
                Some(Action::Announce(self.own.0))
            }
            Stage::Held | Stage::Lost => None,
        }
    }
}
