//! Addresses and ports of a TCB, as its key has them.

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
}
