//! `stack-xdp`: Tollgate's stack on one end of a veth pair by AF_XDP, with a socket of the kernel at the other end.
//!
//! Both ends are threads of this process. Our stack busy polls rings in memory, or sleeps in ppoll(2); the kernel's end is that of
//! `kernel-veth`. The link takes the fastest mode that the device has, which is told. AF_XDP does not say that a checksum is only
//! begun, so the path trusts its link: every frame was made on this host. Segments pass one by one, since a frame of the pool holds
//! no more than one.

use tollgate_link::xdp::{Checksums, Config, Mode, Xdp};
use tollgate_run::{Offload, PathId};
use tollgate_stack::Pool;

use crate::error::Error;
use crate::path::{Capabilities, Path, Session};
use crate::spec::Spec;
use crate::stack_host::{self, CLIENT, DEFAULT_MTU};
use crate::stack_link::{self, Character, KernelSide, LinkSession};
use crate::stack_veth::{KERNEL_DEVICE, OUR_DEVICE, OurSide};

const PATH: PathId = PathId::StackXdp;
/// Offloads of the kernel's device: each segment passes alone, with a checksum that is only begun.
const OFFLOAD: Offload = Offload::Checksum;

/// The path `stack-xdp`.
#[derive(Debug, Clone, Copy)]
pub struct StackXdp {
    mtu: usize,
}

impl StackXdp {
    /// The path with an IP MTU of 1500 bytes, that of `kernel-veth`.
    pub const DEFAULT: Self = Self::with_mtu(DEFAULT_MTU);

    /// The path with IP packets of at most `mtu` bytes, 68 to [`Xdp::LARGEST_MTU`]; another number is refused when a session is
    /// opened.
    pub const fn with_mtu(mtu: usize) -> Self {
        Self { mtu }
    }
}

impl Path for StackXdp {
    fn id(&self) -> PathId {
        PATH
    }

    fn capabilities(&self) -> Capabilities {
        stack_link::CAPABILITIES
    }

    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error> {
        stack_link::check(PATH, spec)?;
        let side = KernelSide::new(PATH, KERNEL_DEVICE)?;
        // The sockets keep the namespace of our end.
        let ours = OurSide::join(&side, self.mtu, OFFLOAD)?;
        let (link, pool) = ours.within(|| xdp(self.mtu, &Mode::ALL))?;
        side.bring_up(self.mtu)?;
        let mut told = vec![(
            "link",
            format!(
                "AF_XDP on a veth pair, {}; the kernel's checksums are only begun and trusted, its segments pass one by one",
                link.mode()
            ),
        )];
        told.extend(
            link.refused()
                .iter()
                .map(|(mode, reason)| ("mode that is not there", format!("{mode}: {reason}"))),
        );
        let session = LinkSession::open(spec, side, (link, pool), self.mtu)?;
        Ok(Box::new(session.with_settings(told)))
    }
}

/// Makes the link, and says what it is like.
///
/// # Errors
/// Those of [`StackXdp::open`].
pub(crate) fn character(mtu: usize) -> Result<Character, Error> {
    let side = KernelSide::new(PATH, KERNEL_DEVICE)?;
    let (link, _pool) = OurSide::join(&side, mtu, OFFLOAD)?.within(|| xdp(mtu, &Mode::ALL))?;
    let reasons = link.refused().iter();
    Ok(Character::Xdp {
        mode: link.mode(),
        refused: reasons
            .map(|(mode, reason)| (*mode, reason.to_string()))
            .collect(),
    })
}

/// Sockets on our end, in whose namespace the calling thread is, and the pool in the memory that they share.
fn xdp(mtu: usize, modes: &[Mode]) -> Result<(Xdp, Pool), Error> {
    Xdp::open(&Config {
        interface: OUR_DEVICE,
        addresses: stack_host::addresses(CLIENT),
        mtu,
        frames: stack_host::pool_frames(PATH, mtu),
        checksums: Checksums::Trust,
        modes,
    })
    .map_err(|error| Error::stack(PATH, "making its link", error))
}

#[cfg(test)]
mod tests;
