//! `stack-tap`: Tollgate's stack over a tap device, with a socket of the kernel at the other end.
//!
//! Both ends are threads of this process. Our stack busy polls the device, or sleeps in ppoll(2); the kernel's end is that of
//! `kernel-veth`. What the kernel does with a frame that our stack sends, up to its socket, it does within our write(2), on our
//! processor: the device has no queue in that direction.

use tollgate_link::tap::Tap;
use tollgate_run::PathId;
use tollgate_stack::link::Integrity;

use crate::error::Error;
use crate::path::{Capabilities, Path, Session};
use crate::spec::Spec;
use crate::stack_host::{self, DEFAULT_MTU};
use crate::stack_link::{self, Character, KernelSide, LinkSession};

const PATH: PathId = PathId::StackTap;
/// The name of the device, in its namespace.
const DEVICE: &str = "tollgate0";

/// The path `stack-tap`.
#[derive(Debug, Clone, Copy)]
pub struct StackTap {
    mtu: usize,
}

impl StackTap {
    /// The path with an IP MTU of 1500 bytes, that of `kernel-veth`.
    pub const DEFAULT: Self = Self::with_mtu(DEFAULT_MTU);

    /// The path with IP packets of at most `mtu` bytes, 68 to 65,344; another number is refused when a session is opened.
    pub const fn with_mtu(mtu: usize) -> Self {
        Self { mtu }
    }
}

impl Path for StackTap {
    fn id(&self) -> PathId {
        PATH
    }

    fn capabilities(&self) -> Capabilities {
        stack_link::CAPABILITIES
    }

    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error> {
        stack_link::check(PATH, spec)?;
        let side = KernelSide::new(PATH, DEVICE)?;
        let link = side.within(|| tap(self.mtu))?;
        side.bring_up(self.mtu)?;
        let link = (link, stack_host::pool(PATH, self.mtu));
        Ok(Box::new(LinkSession::open(spec, side, link, self.mtu)?))
    }
}

/// Makes the link, and says what it is like.
///
/// # Errors
/// Those of [`StackTap::open`].
pub(crate) fn character(mtu: usize) -> Result<Character, Error> {
    KernelSide::new(PATH, DEVICE)?.within(|| tap(mtu))?;
    Ok(Character::Tap)
}

/// A device in the calling thread's namespace.
fn tap(mtu: usize) -> Result<Tap, Error> {
    Tap::create(DEVICE, mtu)
        // The kernel's end is in a namespace without another device.
        .map(|tap| tap.with_integrity(Integrity::Memory))
        .map_err(|error| Error::stack(PATH, "making its link", error))
}

#[cfg(test)]
mod tests;
