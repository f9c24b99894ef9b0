//! Addresses and ports of a TCB, as its key has them, and the address of its next hop.

use super::Tcb;
use core::net::Ipv4Addr;

impl Tcb {
    /// The peer's address, of IPv4.
    pub(crate) fn remote_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.key.remote.to_ne_bytes())
    }

    /// Our address, of IPv4.
    pub(crate) fn local_ip(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.key.local.to_ne_bytes())
    }

    /// The peer's port.
    pub(crate) fn remote_port(&self) -> u16 {
        let [high, low, _, _] = self.key.ports.to_ne_bytes();
        u16::from_be_bytes([high, low])
    }

    /// Our port.
    pub(crate) fn local_port(&self) -> u16 {
        let [_, _, high, low] = self.key.ports.to_ne_bytes();
        u16::from_be_bytes([high, low])
    }

    /// The next hop's link address, if it is known. Over IPv6 it is the destination's, and never stands here.
    pub(crate) fn known_link(&self) -> Option<[u8; 6]> {
        let address = self.link_address();
        (address != [0; 6]).then_some(address)
    }

    /// The next hop's link address, or zeros.
    pub(crate) fn link_address(&self) -> [u8; 6] {
        if self.key.pair().is_some() {
            return [0; 6];
        }
        let [a, b, c, d, e, f, ..] = self.link;
        [a, b, c, d, e, f]
    }
}
