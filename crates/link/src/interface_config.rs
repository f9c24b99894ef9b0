//! The place of a stack beside the kernel of its host: on the device between the two, or on an interface that the host has.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use tollgate_stack::config::{InterfaceId, Ipv6};
use tollgate_stack::ipv6::{AddressState, link_local};
use tollgate_stack::{Config, Stack};
use tollgate_wire::ethernet::MacAddr;

use crate::Addresses;
use crate::host::{Beside, Network, NetworkV6};

/// The addresses of a stack on a network that the host is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceConfig {
    /// Its address, which the host must not have.
    pub address: Ipv4Addr,
    /// Leading bits of an address that name the network.
    pub prefix: u8,
    /// The router to other networks.
    pub gateway: Option<Ipv4Addr>,
    /// Its place over IPv6.
    pub ipv6: Option<InterfaceConfigV6>,
}

/// The addresses of a stack over IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceConfigV6 {
    /// Its global address, which the host must not have.
    pub address: Ipv6Addr,
    /// Leading bits of an address that name the network.
    pub prefix: u8,
    /// The router to other networks.
    pub gateway: Option<Ipv6Addr>,
    /// Neighbours are asked whether they have the addresses, which takes a second or two (RFC 4862, 5.4).
    pub is_tried: bool,
}

impl From<NetworkV6> for InterfaceConfigV6 {
    /// The place beside the kernel. The network has two hosts, whose addresses are told here.
    fn from(network: NetworkV6) -> Self {
        Self {
            address: network.stack(),
            prefix: NetworkV6::PREFIX,
            gateway: Some(network.kernel()),
            is_tried: false,
        }
    }
}

/// Another host has an address of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "another host of the network has {0} already; name an address that nobody has (the link-local one is made of the IPv4 address)"
)]
pub struct DuplicateAddress(pub Ipv6Addr);

/// Tells whether a stack has all of its IPv6 addresses, after they were tried for duplicates.
///
/// # Errors
/// [`DuplicateAddress`].
pub fn has_addresses(stack: &Stack) -> Result<bool, DuplicateAddress> {
    let mut has_all = true;
    for own in stack.ipv6_addresses() {
        match own.state {
            AddressState::Duplicate => return Err(DuplicateAddress(own.address)),
            AddressState::Tentative => has_all = false,
            AddressState::Preferred | AddressState::Deprecated => {}
        }
    }
    Ok(has_all)
}

impl From<Network> for InterfaceConfig {
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

impl From<&Beside> for InterfaceConfig {
    /// The place beside the kernel, which is its router, over all that both speak.
    fn from(beside: &Beside) -> Self {
        Self {
            ipv6: beside.ipv6.map(InterfaceConfigV6::from),
            ..beside.network.into()
        }
    }
}

impl InterfaceConfig {
    /// The addresses whose frames are the stack's. Its link address is made of the other one, so that neighbours know a stack that was
    /// started again, and that two stacks on a network have two.
    pub const fn addresses(&self) -> Addresses {
        let [a, b, c, d] = self.address.octets();
        let mac = MacAddr([0x02, 0x54, a, b, c, d]);
        Addresses {
            mac,
            ipv4: self.address,
            ipv6: match self.ipv6 {
                Some(ipv6) => Some([ipv6.address, link_local(mac)]),
                None => None,
            },
        }
    }

    /// The address that the host has itself, if any: it would answer our peers by resets. Its way to its own address begins there.
    /// A host may let sockets have addresses that are not its own, so that having one says nothing.
    pub fn of_host(&self) -> Option<IpAddr> {
        let is_of_host = |address: &IpAddr| {
            let any: IpAddr = match address {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let from = |socket: UdpSocket| {
                // Nothing is sent.
                socket.connect((*address, 9))?;
                socket.local_addr()
            };
            let from = UdpSocket::bind((any, 0)).and_then(from);
            from.is_ok_and(|from| from.ip() == *address)
        };
        let ipv6 = self.ipv6.map(|ipv6| ipv6.address.into());
        let addresses = [Some(self.address.into()), ipv6];
        addresses.into_iter().flatten().find(is_of_host)
    }

    /// Configuration of a stack at this place.
    pub fn config(&self) -> Config {
        // Numbers that nobody else knows: the standard library seeds its hashers by the system's source.
        let seed = [(); 4].map(|()| RandomState::new().hash_one(0u8));
        let mut config = Config::new(self.addresses().mac, self.address, self.prefix, seed);
        config.gateway = self.gateway;
        config.ipv6 = self.ipv6.map(|ipv6| {
            let usual = Ipv6::default();
            Ipv6 {
                address: Some((ipv6.address, ipv6.prefix)),
                gateway: ipv6.gateway,
                // A link that shares an interface takes what is for addresses that are known beforehand.
                interface_id: InterfaceId::LinkAddress,
                duplicate_checks: if ipv6.is_tried {
                    usual.duplicate_checks
                } else {
                    0
                },
                // Routers are told here, and such a link leaves their advertisements to the host.
                router_advertisements: false,
                ..usual
            }
        });
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_stack::Instant;

    #[test]
    fn links_are_told_of_the_addresses_that_the_stack_has() {
        let gateway = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
        let place = |is_tried| InterfaceConfig {
            address: Ipv4Addr::new(192, 0, 2, 7),
            prefix: 24,
            gateway: None,
            ipv6: Some(InterfaceConfigV6 {
                address: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7),
                prefix: 64,
                gateway: Some(gateway),
                is_tried,
            }),
        };
        for is_tried in [false, true] {
            let place = place(is_tried);
            let config = place.config();
            let ipv6 = config.ipv6.unwrap();
            assert_eq!(ipv6.gateway, Some(gateway));
            assert_eq!(ipv6.duplicate_checks, u8::from(is_tried));
            assert!(!ipv6.router_advertisements);
            let stack = Stack::new(config, 1500, Instant::ZERO).unwrap();
            let mut own: Vec<_> = stack.ipv6_addresses().map(|own| own.address).collect();
            own.sort();
            assert_eq!(own, place.addresses().ipv6.unwrap());
            assert_eq!(has_addresses(&stack), Ok(!is_tried));
        }
    }
}
