//! Redirects (RFC 4861, 8): a router says that another neighbour is the better first hop for a destination.
//!
//! Each changes one entry of the destination cache, that of the addresses that it is about, and only where it comes from the
//! first hop that the entry has. Any host on the link can forge that; where [`Ipv6::redirects`](super::Ipv6::redirects) is
//! off, none is taken. The entry stays until routers or prefixes become others, the neighbour does not answer, or nobody uses
//! it and others need the room.

use super::addresses::is_unicast;
use super::input::Arrived;
use crate::demux::FlowKey;
use crate::stack::Active;
use core::net::Ipv6Addr;
use tollgate_gate::Recorder;
use tollgate_wire::ndp::Redirect;

impl<R: Recorder> Active<'_, R> {
    /// Takes a redirect; says whether it is valid (RFC 4861, 8.1).
    pub(super) fn redirect_input(&mut self, arrived: &Arrived, message: &[u8]) -> bool {
        let Ok(redirect) = Redirect::parse(message) else {
            return false;
        };
        let (router, local) = (arrived.header.source, arrived.header.destination);
        if !router.is_unicast_link_local() || !arrived.unicast {
            return false;
        }
        let (remote, target) = (redirect.destination, redirect.target);
        if self.first_hop(remote, local) != Some(router) {
            return false;
        }
        let takes = self
            .stack
            .ipv6
            .config
            .is_some_and(|config| config.redirects);
        let addresses = &self.stack.ipv6.addresses;
        if !takes || !is_unicast(target) || addresses.is_ours(target) {
            return true;
        }
        let key = self.stack.enter_key((remote, 0), (local, 0));
        let Some(pair) = key.and_then(FlowKey::pair) else {
            return true;
        };
        let own = self.stack.config.mac;
        self.stack.destinations.redirect(pair, target, own);
        if let Some(mac) = redirect.target_link {
            self.neighbour_named(target, mac);
        }
        true
    }

    /// The neighbour that packets between two addresses are handed to: that of their destination, where there is one.
    pub(crate) fn first_hop(&self, remote: Ipv6Addr, local: Ipv6Addr) -> Option<Ipv6Addr> {
        let key = self.stack.known_key((remote, 0), (local, 0));
        let pair = key.and_then(FlowKey::pair);
        let known = pair.and_then(|id| self.stack.destinations.get(id));
        let known = known.map(|pair| pair.next_hop);
        known
            .filter(|next_hop| !next_hop.is_unspecified())
            .or_else(|| self.stack.ipv6.routers.next_hop(remote))
    }

    /// Tells whether no neighbour is known that packets to an address can be handed to.
    pub(crate) fn has_no_route(&self, remote: Ipv6Addr) -> bool {
        self.stack.ipv6.routers.next_hop(remote).is_none()
    }

    /// A neighbour does not answer: what it was named for goes the usual way again (RFC 4861, 7.3.3).
    pub(super) fn undo_redirects(&mut self, target: Ipv6Addr) {
        let own = self.stack.config.mac;
        self.stack.udp.forget();
        let mut pair = self.stack.destinations.first_by(target);
        while let Some(id) = pair {
            // One that goes another way is none of the list's any more.
            pair = self.stack.destinations.next_by(id);
            let remote = self.stack.destinations.get(id).map(|pair| pair.remote());
            let usual = remote.and_then(|remote| self.stack.ipv6.routers.next_hop(remote));
            if let Some(next_hop) = usual {
                self.stack.destinations.redirect(id, next_hop, own);
            }
        }
    }
}
