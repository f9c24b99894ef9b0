//! The links to Linux, tried: each is made as its path makes it, and carries verified round trips. Those that share an interface with the
//! host are also opened on one that is there, and closed again.
//!
//! It says what a link is like on this machine. What to think of it is for whoever asks.

use std::net::Ipv4Addr;

use tollgate_link::packet::Packet;
pub use tollgate_link::xdp::Mode;
use tollgate_link::xdp::{Checksums, Config, Xdp};
use tollgate_link::{InterfaceConfig, OpenError, mtu_on};
use tollgate_run::{PathId, Placement, Waiting, Workload};
use tollgate_stats::Samples;

use crate::error::Error;
use crate::path::Path;
use crate::spec::Spec;
pub use crate::stack_link::Character;
use crate::{stack_packet, stack_tap, stack_xdp};

/// Round trips that prove that a link works.
const TRIAL: u64 = 16;

/// A link that was tried.
#[derive(Debug)]
pub struct TriedLink {
    /// The path over it.
    pub path: PathId,
    /// The link in one word.
    pub name: &'static str,
    /// Its character, or the reason why it is not there.
    pub outcome: Result<Character, Error>,
}

/// Tries every link.
#[must_use]
pub fn try_links() -> Vec<TriedLink> {
    let mtu = crate::stack_host::DEFAULT_MTU;
    let tap = stack_tap::character(mtu);
    let packet = stack_packet::character(mtu);
    let xdp = stack_xdp::character(mtu);
    vec![
        tried("tap", &stack_tap::StackTap::DEFAULT, tap),
        tried("packet", &stack_packet::StackPacket::DEFAULT, packet),
        tried("xdp", &stack_xdp::StackXdp::DEFAULT, xdp),
    ]
}

fn tried(name: &'static str, path: &dyn Path, made: Result<Character, Error>) -> TriedLink {
    TriedLink {
        path: path.id(),
        name,
        outcome: made.and_then(|character| carries(path).map(|()| character)),
    }
}

/// Compares the bytes of a few round trips.
fn carries(path: &dyn Path) -> Result<(), Error> {
    let spec = Spec::new(Workload::Rr, 64)
        .with_mode(Placement::OneCore, Waiting::Blocking)
        .verified();
    let mut session = path.open(&spec)?;
    session.run(TRIAL, &mut Samples::new(session.timing()))
}

/// Address of the stack of a trial: one for documentation, which no host has and nobody sends to (RFC 5737, TEST-NET-1).
const NOBODY: InterfaceConfig = InterfaceConfig {
    address: Ipv4Addr::new(192, 0, 2, 1),
    prefix: 24,
    gateway: None,
    ipv6: None,
};

/// Links that were opened on an interface of the calling thread's namespace, and closed again.
#[derive(Debug)]
pub struct OpenedLinks {
    /// Bytes of the largest IP packet.
    pub mtu: usize,
    /// Bytes that may wait in a packet socket, and bytes that were asked for.
    pub packet: Result<(usize, usize), OpenError>,
    /// Queues that AF_XDP has in each mode, from the fastest on.
    pub xdp: Vec<(Mode, Result<usize, OpenError>)>,
}

/// Opens each link that shares an interface with the host, AF_XDP in each mode, and closes it again. Nothing is sent. What is attached is
/// for an address that nobody has. Some drivers begin anew when a program is attached to them and when it goes, for which their
/// interface is down for a moment.
///
/// # Errors
/// [`OpenError::Missing`], and those of the system.
pub fn open_links_on(interface: &str) -> Result<OpenedLinks, OpenError> {
    let usual = mtu_on(interface, None)?;
    let addresses = NOBODY.addresses();
    let packet = Packet::open(interface, addresses, usual);
    let xdp = Mode::ALL.map(|mode| {
        let config = Config {
            interface,
            addresses,
            mtu: usual,
            frames: 0,
            checksums: Checksums::Verify,
            modes: &[mode],
        };
        let outcome = Xdp::open(&config).map(|(link, _pool)| link.queues());
        (mode, outcome)
    });
    Ok(OpenedLinks {
        mtu: usual,
        packet: packet.map(|link| (link.buffer(), Packet::BUFFER)),
        xdp: xdp.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_tried_by_name_and_say_what_they_are_like() {
        let tried = try_links();
        let names: Vec<&str> = tried.iter().map(|link| link.name).collect();
        assert_eq!(names, ["tap", "packet", "xdp"]);
        for link in tried {
            match link.outcome {
                Ok(Character::Tap) => assert_eq!(link.path, PathId::StackTap),
                Ok(Character::Packet { buffer, .. }) => assert!(buffer > 0),
                Ok(Character::Xdp { mode, refused }) => {
                    assert!(refused.iter().all(|(other, _)| *other != mode));
                }
                Err(reason) => tollgate_skip::skipped!("{reason}"),
            }
        }
    }
}
