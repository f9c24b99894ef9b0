//! `stack-packet`: Tollgate's stack on one end of a veth pair by a packet socket, with a socket of the kernel at the other end.
//!
//! Both ends are threads of this process. Our stack busy polls the socket, or sleeps in ppoll(2); the kernel's end is that of
//! `kernel-veth`. The kernel takes what our stack sends as far as a queue of our processor within our sendmmsg(2), and works on it
//! before that returns. Its checksums are only begun, and the socket says so; its segments travel one by one.

use tollgate_link::packet::Packet;
use tollgate_run::{Offload, PathId};
use tollgate_stack::link::Integrity;

use crate::error::Error;
use crate::path::{Capabilities, Path, Session};
use crate::spec::Spec;
use crate::stack_host::{self, CLIENT, DEFAULT_MTU};
use crate::stack_link::{self, Character, KernelSide, LinkSession};
use crate::stack_veth::{KERNEL_DEVICE, OUR_DEVICE, OurSide};

const PATH: PathId = PathId::StackPacket;
/// Offloads of the kernel's device: segments pass uncut, with a checksum that is only begun.
const OFFLOAD: Offload = Offload::Usual;

/// The path `stack-packet`.
#[derive(Debug, Clone, Copy)]
pub struct StackPacket {
    mtu: usize,
}

impl StackPacket {
    /// The path with an IP MTU of 1500 bytes, that of `kernel-veth`.
    pub const DEFAULT: Self = Self::with_mtu(DEFAULT_MTU);

    /// The path with IP packets of at most `mtu` bytes, 68 to 65,344; another number is refused when a session is opened.
    pub const fn with_mtu(mtu: usize) -> Self {
        Self { mtu }
    }
}

impl Path for StackPacket {
    fn id(&self) -> PathId {
        PATH
    }

    fn capabilities(&self) -> Capabilities {
        stack_link::CAPABILITIES
    }

    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error> {
        stack_link::check(PATH, spec)?;
        let side = KernelSide::new(PATH, KERNEL_DEVICE)?;
        // The socket keeps the namespace of our end.
        let ours = OurSide::join(&side, self.mtu, OFFLOAD)?;
        let link = ours.within(|| packet(self.mtu))?;
        side.bring_up(self.mtu)?;
        let link = (link, stack_host::pool(PATH, self.mtu));
        let told = vec![(
            "link",
            "a packet socket on a veth pair; the kernel's checksums are only begun, its segments not cut".to_owned(),
        )];
        let session = LinkSession::open(spec, side, link, self.mtu)?;
        Ok(Box::new(session.with_settings(told)))
    }
}

/// Makes the link, and says what it is like.
///
/// # Errors
/// Those of [`StackPacket::open`].
pub(crate) fn character(mtu: usize) -> Result<Character, Error> {
    let side = KernelSide::new(PATH, KERNEL_DEVICE)?;
    let link = OurSide::join(&side, mtu, OFFLOAD)?.within(|| packet(mtu))?;
    Ok(Character::Packet {
        buffer: link.buffer(),
        asked: Packet::BUFFER,
    })
}

/// A socket on our end, in whose namespace the calling thread is.
fn packet(mtu: usize) -> Result<Packet, Error> {
    Packet::open(OUR_DEVICE, stack_host::addresses(CLIENT), mtu)
        // The pair's other end is in a namespace without another device.
        .map(|link| link.with_integrity(Integrity::Memory))
        .map_err(|error| Error::stack(PATH, "making its link", error))
}

#[cfg(test)]
mod tests;
