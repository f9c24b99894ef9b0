//! A stack of ours beside the kernel of this host: its configuration and its sockets, over any link to the kernel.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use tollgate_link::WaitableBeside;
use tollgate_link::host::Network;
use tollgate_stack::Config;
use tollgate_stack::config::InvalidConfig;
use tollgate_wire::ethernet::MacAddr;

use crate::stack::StackSockets;

/// Our link address. Nobody but the kernel is on the link.
const MAC: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);
/// Frames of the pool: 32 MB where IP packets have 1,500 bytes.
const FRAMES: usize = 16 * 1024;

/// Sockets of a stack at its address of the network, over its end of the device or a wrapper around that.
///
/// # Errors
/// [`InvalidConfig`] for an address that no stack can have.
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
