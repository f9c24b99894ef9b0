//! A stack of ours beside the kernel of this host: its configuration, over any link to the kernel, or on an interface that the kernel has.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, UdpSocket};

use tollgate_link::Addresses;
use tollgate_link::host::Network;
use tollgate_stack::Config;
use tollgate_wire::ethernet::MacAddr;

/// Our link address. Nobody but the kernel is on the link.
const MAC: MacAddr = MacAddr([0x02, 0, 0, 0, 0, 0x01]);
/// Frames of a pool: 32 MB where IP packets have 1,500 bytes.
pub const FRAMES: usize = 16 * 1024;

/// Configuration of a stack at its address of the network, with the kernel as its router.
pub fn config(network: Network) -> Config {
    let mut config = Config::new(MAC, network.stack(), network.prefix(), seed());
    config.gateway = Some(network.kernel());
    config
}

/// The place of a stack on an interface that the host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address, which the host must not have.
    pub address: Ipv4Addr,
    /// Leading bits of an address that name the network of the interface.
    pub prefix: u8,
    /// The router to other networks.
    pub gateway: Option<Ipv4Addr>,
}

impl Place {
    /// The addresses whose frames are the stack's. Its link address is made of the other one, so that neighbours know a server that was
    /// started again, and that two stacks on a network have two.
    pub const fn addresses(&self) -> Addresses {
        let [a, b, c, d] = self.address.octets();
        Addresses {
            mac: MacAddr([0x02, 0x54, a, b, c, d]),
            ipv4: self.address,
        }
    }

    /// Tells whether the host has the address itself, and would answer our peers by resets: its way to its own address begins there.
    /// A host may let sockets have addresses that are not its own, so that having one says nothing.
    pub fn is_of_host(&self) -> bool {
        let from = |socket: UdpSocket| {
            // Nothing is sent.
            socket.connect((self.address, 9))?;
            socket.local_addr()
        };
        let from = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(from);
        from.is_ok_and(|from| from.ip() == self.address)
    }

    /// Configuration of a stack at this place.
    pub fn config(&self) -> Config {
        let mut config = Config::new(self.addresses().mac, self.address, self.prefix, seed());
        config.gateway = self.gateway;
        config
    }
}

/// Numbers that nobody else knows: the standard library seeds its hashers by the system's source.
fn seed() -> [u64; 4] {
    [(); 4].map(|()| RandomState::new().hash_one(0u8))
}
