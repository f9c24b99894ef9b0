//! The place of a stack beside the kernel of its host: on the device between the two, or on an interface that the host has.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, UdpSocket};

use tollgate_stack::Config;
use tollgate_stack::config::Ipv6;
use tollgate_wire::ethernet::MacAddr;

use crate::Addresses;
use crate::host::{Beside, Network, NetworkV6};

/// The addresses of a stack on a network that the host is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address, which the host must not have.
    pub address: Ipv4Addr,
    /// Leading bits of an address that name the network.
    pub prefix: u8,
    /// The router to other networks.
    pub gateway: Option<Ipv4Addr>,
    /// Its place over IPv6, on the device between the two.
    pub ipv6: Option<NetworkV6>,
}

impl From<Network> for Place {
    /// The place beside the kernel, which is its router, over IPv4 alone.
    fn from(network: Network) -> Self {
        Self {
            address: network.stack(),
            prefix: network.prefix(),
            gateway: Some(network.kernel()),
            ipv6: None,
        }
    }
}

impl From<&Beside> for Place {
    /// The place beside the kernel, which is its router, over all that both speak.
    fn from(beside: &Beside) -> Self {
        Self {
            ipv6: beside.ipv6,
            ..beside.network.into()
        }
    }
}

impl Place {
    /// The addresses whose frames are the stack's. Its link address is made of the other one, so that neighbours know a stack that was
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
        // Numbers that nobody else knows: the standard library seeds its hashers by the system's source.
        let seed = [(); 4].map(|()| RandomState::new().hash_one(0u8));
        let mut config = Config::new(self.addresses().mac, self.address, self.prefix, seed);
        config.gateway = self.gateway;
        config.ipv6 = self.ipv6.map(|network| Ipv6 {
            address: Some((network.stack(), NetworkV6::PREFIX)),
            gateway: Some(network.kernel()),
            // The network has two hosts, whose addresses are told here.
            duplicate_checks: 0,
            router_advertisements: false,
            ..Ipv6::default()
        });
        config
    }
}
