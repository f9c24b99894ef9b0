//! A stack of ours beside the kernel of this host: a tap device in the namespace of whoever asks, with an address for the kernel.
//!
//! The device has no life of its own: it goes with its descriptor, and takes address and routes along, also after SIGKILL.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use tollgate_link::WaitableBeside;
use tollgate_link::host::{self, Network, SetupError};
use tollgate_link::tap::{CreateError, Tap};
use tollgate_stack::Config;
use tollgate_stack::config::InvalidConfig;
use tollgate_wire::ethernet::MacAddr;

use crate::stack::StackSockets;

/// Names of devices; the kernel puts in the first number that is free.
const NAMES: &str = "tollgate%d";
/// Our link address. Nobody but the kernel is on the link.
const MAC: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);
/// Frames of the pool: 32 MB where IP packets have 1,500 bytes.
const FRAMES: usize = 16 * 1024;

/// A stack beside the kernel cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapError {
    /// There is no device.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The kernel's end of the device cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The stack does not take what it is to be.
    #[error(transparent)]
    Config(#[from] InvalidConfig),
}

/// A device that is up, and its network.
#[derive(Debug)]
pub struct Beside {
    /// Our end.
    pub tap: Tap,
    /// Its network.
    pub network: Network,
}

impl Beside {
    /// Makes a device for IP packets of `mtu` bytes, gives the kernel the first address of the network, and brings it up. The
    /// network is the device's own ([`Network::of_device`]) unless one is given.
    ///
    /// # Errors
    /// [`TapError`]; it takes CAP_NET_ADMIN.
    pub fn open(network: Option<Network>, mtu: usize) -> Result<Self, TapError> {
        let tap = Tap::create(NAMES, mtu)?;
        let network = match network {
            Some(network) => network,
            None => Network::of_device(tap.name())?,
        };
        host::bring_up(tap.name(), network.kernel(), network.prefix(), mtu)?;
        Ok(Self { tap, network })
    }
}

/// Sockets of a stack at its address of the network, over its end of the device or a wrapper around that.
///
/// # Errors
/// [`TapError::Config`].
pub fn sockets<L: WaitableBeside>(
    network: Network,
    link: L,
) -> Result<StackSockets<L>, InvalidConfig> {
    StackSockets::new(config(network), link, FRAMES)
}

/// Configuration of a stack at its address of the network, with the kernel as its router.
pub fn config(network: Network) -> Config {
    let mut config = Config::new(MAC, network.stack(), network.prefix(), seed());
    config.gateway = Some(network.kernel());
    config
}

/// Numbers that nobody else knows: the standard library seeds its hashers by the system's source.
fn seed() -> [u64; 4] {
    [(); 4].map(|()| RandomState::new().hash_one(0u8))
}
