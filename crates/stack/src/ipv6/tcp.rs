//! Services of IPv6 to TCP: from both addresses to the key of a connection and back, and segments that have no template.

use super::output::HEADERS;
use crate::buffer::{Frame, PAYLOAD_OFFSET, RxChecksum};
use crate::counters::Drop;
use crate::demux::FlowKey;
use crate::destinations::{Destinations, ends};
use crate::stack::{Active, Stack};
use crate::tcp::slow::listener::ports_of;
use crate::tcp::slow::untemplated::Body;
use crate::tcp::tcb::{State, rare};
use crate::tcp::template::front_v6;
use alloc::vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tollgate_checksum::{Partial, sum_header};
use tollgate_gate::Recorder;
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::tcp::{self, Header};
use tollgate_wire::{ipv4, ipv6};

/// The addresses of a segment: where it comes from, and where it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Addresses {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

impl From<(Ipv4Addr, Ipv4Addr)> for Addresses {
    fn from((source, destination): (Ipv4Addr, Ipv4Addr)) -> Self {
        Self::V4(source, destination)
    }
}

impl From<(Ipv6Addr, Ipv6Addr)> for Addresses {
    fn from((source, destination): (Ipv6Addr, Ipv6Addr)) -> Self {
        Self::V6(source, destination)
    }
}

impl Addresses {
    /// The sum of the pseudo header of a segment of `len` bytes.
    pub(crate) fn pseudo_header(self, len: usize) -> Partial {
        match self {
            Self::V4(source, destination) => {
                ipv4::pseudo_header(source, destination, ipv4::protocol::TCP, len as u16)
            }
            Self::V6(source, destination) => {
                ipv6::pseudo_header(source, destination, ipv6::protocol::TCP, len as u32)
            }
        }
    }
}

impl Stack {
    /// The key of packets from `remote` to `local`, whose pair of addresses is entered where it is not known. Nothing where there
    /// is no room for it.
    pub(crate) fn enter_key(
        &mut self,
        remote: (Ipv6Addr, u16),
        local: (Ipv6Addr, u16),
    ) -> Option<FlowKey> {
        let ends = ends(remote.0, local.0);
        let id = match self.destinations.find(&ends) {
            Some(id) => id,
            None => {
                if self.destinations.is_full() {
                    self.sweep_destinations();
                }
                // Without a router nothing is sent there: the unspecified address says so, until one advertises itself.
                let next_hop = self.ipv6.routers.next_hop(remote.0);
                let next_hop = next_hop.unwrap_or(Ipv6Addr::UNSPECIFIED);
                self.destinations
                    .enter(ends, next_hop, self.link_mtu, self.config.mac)?
            }
        };
        Some(self.destinations.key(id).with_ports(remote.1, local.1))
    }

    /// The key of a connection that may be there.
    pub(super) fn known_key(
        &self,
        remote: (Ipv6Addr, u16),
        local: (Ipv6Addr, u16),
    ) -> Option<FlowKey> {
        let id = self.destinations.find(&ends(remote.0, local.0))?;
        Some(self.destinations.key(id).with_ports(remote.1, local.1))
    }

    /// Lets go of the pairs that no connection and no TIME-WAIT names.
    #[cold]
    fn sweep_destinations(&mut self) {
        let mut named = vec![false; self.destinations.ids().count()];
        let connections = self.tcbs.iter().map(|tcb| tcb.key);
        let waiting = self.time_wait.iter().map(|(_, entry)| entry.key);
        for id in connections.chain(waiting).filter_map(FlowKey::pair) {
            if let Some(named) = named.get_mut(id as usize) {
                *named = true;
            }
        }
        // It is made of a pair as well, and serves until the tick ends.
        self.forget_templates();
        self.destinations
            .sweep(|id| named.get(id as usize).is_some_and(|&named| named));
    }

    /// The key that hashes of a key are made of: the same for IPv4, and for IPv6 one that names the addresses and not their id.
    #[inline]
    pub(crate) fn label_of(&self, key: FlowKey) -> FlowKey {
        match key.pair() {
            None => key,
            Some(id) => self.destinations.label(id, key.ports),
        }
    }

    /// The flow label of a connection's segments (RFC 6437, 3). Of the hash under which the table has the connection it says nothing.
    pub(crate) fn flow_label(&self, key: FlowKey) -> u32 {
        self.secrets.flow_label(self.label_of(key))
    }

    /// Puts the flow label of a connection over IPv6 into its template.
    #[cold]
    pub(crate) fn label_flow(&mut self, index: usize) {
        let key = self.tcbs[index].key;
        if key.pair().is_some() {
            self.tcbs[index].link = front_v6(self.flow_label(key));
        }
    }

    /// The remote and the local end of a key.
    pub(crate) fn ends_of(&self, key: FlowKey) -> (SocketAddr, SocketAddr) {
        let (remote, local): (IpAddr, IpAddr) = match key.pair() {
            None => (
                Ipv4Addr::from(key.remote.to_ne_bytes()).into(),
                Ipv4Addr::from(key.local.to_ne_bytes()).into(),
            ),
            Some(id) => self.destinations.get(id).map_or(
                (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()),
                |pair| (pair.remote().into(), pair.local().into()),
            ),
        };
        let ports = ports_of(key);
        (
            SocketAddr::new(remote, ports.0),
            SocketAddr::new(local, ports.1),
        )
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Writes the headers of a segment between the addresses of a pair into a frame, which is that of its payload where it has one.
    pub(crate) fn header_frame_v6(
        &mut self,
        pair: u32,
        header: &Header,
        body: Option<Body>,
    ) -> Option<Frame> {
        let Some(destination) = self.stack.destinations.get(pair).copied() else {
            self.stack.counters.dropped(Drop::Unresolved);
            if let Some(body) = body {
                self.pool.release(body.id);
            }
            return None;
        };
        let Some(id) = body.map(|body| body.id).or_else(|| self.pool.alloc()) else {
            self.stack.counters.dropped(Drop::NoFrame);
            return None;
        };
        let payload = body.map_or(0, |body| body.len);
        let mut segment = [0; tcp::MAX_HEADER_LEN];
        let len = header.emit(&mut segment);
        let (local, remote) = (destination.local(), destination.remote());
        let [a, b] = header.destination_port.to_be_bytes();
        let [c, d] = header.source_port.to_be_bytes();
        let key = FlowKey {
            ports: u32::from_ne_bytes([a, b, c, d]),
            ..self.stack.destinations.key(pair)
        };
        let whole = len as u32 + u32::from(payload);
        let sum = ipv6::pseudo_header(local, remote, ipv6::protocol::TCP, whole)
            + sum_header(&segment[..len])
            + self.sum_of(body);
        segment[16..18].copy_from_slice(&sum.finish().to_ne_bytes());
        let ip = ipv6::Header {
            traffic_class: 0,
            flow_label: self.stack.flow_label(key),
            payload_len: whole as u16,
            next_header: ipv6::protocol::TCP,
            hop_limit: self.stack.ipv6.hop_limit,
            source: local,
            destination: remote,
        };
        let ethernet = ethernet::Header {
            destination: MacAddr::default(),
            source: self.stack.config.mac,
            ethertype: EtherType::Ipv6,
        };
        let start = PAYLOAD_OFFSET - HEADERS - len;
        let bytes = &mut self.pool.bytes_mut(id)[start..PAYLOAD_OFFSET];
        bytes[..14].copy_from_slice(&ethernet.to_bytes());
        bytes[14..HEADERS].copy_from_slice(&ip.to_bytes());
        bytes[HEADERS..].copy_from_slice(&segment[..len]);
        Some(Frame {
            id,
            offset: start as u16,
            len: (HEADERS + len) as u16 + payload,
            checksum: RxChecksum::Unknown,
        })
    }

    /// A neighbour did not answer: connections that were being opened by way of it fail, unless there is another way to their
    /// peers (RFC 4861, 7.3.3).
    pub(super) fn next_hop_v6_failed(&mut self, next_hop: Ipv6Addr) {
        let mut pair = self.stack.destinations.first_by(next_hop);
        while let Some(id) = pair {
            pair = self.stack.destinations.next_by(id);
            let remote = self.stack.destinations.get(id).map(|pair| pair.remote());
            let usual = remote.and_then(|remote| self.stack.ipv6.routers.next_hop(remote));
            if usual.is_some_and(|usual| usual != next_hop) {
                // The walk over the destinations, or what undoes redirects, hands it over.
                continue;
            }
            let list = Destinations::list_of(id);
            let mut user = self.stack.neighbours_and_users().1.first(list);
            while let Some(place) = user {
                // A connection that is killed is none of the list's any more.
                user = self.stack.neighbours_and_users().1.after(place);
                let tcb = &self.stack.tcbs[place as usize];
                if tcb.state == State::SynSent && !tcb.is_rare(rare::ORPHAN) {
                    self.kill(place as usize, crate::Error::Unreachable);
                }
            }
        }
    }
}
