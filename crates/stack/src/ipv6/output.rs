//! The way out of everything over IPv6 that has no template: route, link address, device queue.

use super::NDP_HOP_LIMIT;
use crate::buffer::{Frame, PAYLOAD_OFFSET, RxChecksum};
use crate::counters::Drop;
use crate::neighbour::Lookup;
use crate::parts::copy_parts;
use crate::stack::Active;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use tollgate_gate::Recorder;
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::ipv6::{self, protocol};

/// Source and destination of a packet.
type Ends = (Ipv6Addr, Ipv6Addr);

/// Headers of a packet that goes out.
struct Outgoing<'a> {
    next_header: u8,
    /// Bytes of an extension header; none where there is no such header.
    extension: &'a [u8],
    ends: Ends,
    flow_label: u32,
    next_hop: Ipv6Addr,
}

/// Bytes in front of what IPv6 carries.
pub(crate) const HEADERS: usize = ethernet::HEADER_LEN + ipv6::HEADER_LEN;

impl<R: Recorder> Active<'_, R> {
    /// Bytes of a packet to a destination that is sent whole: what the path is known to take, and a frame.
    pub(crate) fn ipv6_mtu(&self, remote: Ipv6Addr, local: Ipv6Addr) -> u16 {
        let link = self.pool.bound_mtu(self.stack.ipv6.mtu);
        let pair = self
            .stack
            .destinations
            .find(&crate::destinations::ends(remote, local));
        let known = pair.and_then(|id| self.stack.destinations.get(id));
        known.map_or(link, |pair| pair.mtu.min(link))
    }

    /// Bytes behind the IPv6 header that one packet between these addresses holds.
    pub(crate) fn ipv6_payload_limit(&self, (source, destination): Ends) -> usize {
        usize::from(self.ipv6_mtu(destination, source)) - ipv6::HEADER_LEN
    }

    /// The flow label of what goes between two addresses, and between two ports where it has some (RFC 6437, 3).
    pub(crate) fn flow_label(
        &mut self,
        (source, destination): Ends,
        (from, to): (u16, u16),
    ) -> u32 {
        let ends = crate::destinations::ends(destination, source);
        let ports = u32::from(to) << 16 | u32::from(from);
        self.stack.secrets.flow_label_between(&ends, ports)
    }

    /// Sends a packet without a template, in fragments when it is longer than the path takes (RFC 8200, 4.5). Returns whether it was
    /// sent or waits for its neighbour.
    pub(crate) fn ipv6_output(
        &mut self,
        protocol: u8,
        flow: (Ends, u32),
        parts: [&[u8]; 2],
    ) -> bool {
        let (ends, flow_label) = flow;
        let len = parts[0].len() + parts[1].len();
        if len > usize::from(u16::MAX) {
            return false;
        }
        let limit = self.ipv6_payload_limit(ends);
        if len <= limit {
            return self.ipv6_output_whole(protocol, flow, len, |body| copy_parts(parts, 0, body));
        }
        let Some(next_hop) = self.next_hop_of(ends) else {
            return false;
        };
        let step = (limit - ipv6::FRAGMENT_LEN) & !7;
        let identification = self.stack.secrets.random.next() as u32;
        let mut offset = 0;
        while offset < len {
            let chunk = step.min(len - offset);
            let fragment = ipv6::Fragment {
                offset: offset as u16,
                more: offset + chunk < len,
                identification,
            };
            let header = fragment.to_bytes(protocol);
            let packet = Outgoing {
                next_header: protocol::FRAGMENT,
                extension: &header,
                ends,
                flow_label,
                next_hop,
            };
            if !self.ipv6_packet_output(&packet, chunk, |body| copy_parts(parts, offset, body)) {
                return false;
            }
            offset += chunk;
        }
        true
    }

    /// Sends a packet whose payload of `len` bytes `fill` writes, as [`Active::ipv6_output`] does. It has to fit
    /// ([`Active::ipv6_payload_limit`]).
    pub(crate) fn ipv6_output_whole(
        &mut self,
        protocol: u8,
        (ends, flow_label): (Ends, u32),
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        let Some(next_hop) = self.next_hop_of(ends) else {
            return false;
        };
        let packet = Outgoing {
            next_header: protocol,
            extension: &[],
            ends,
            flow_label,
            next_hop,
        };
        self.ipv6_packet_output(&packet, len, fill)
    }

    /// The next hop of a packet; one that has none is dropped.
    fn next_hop_of(&mut self, (source, destination): Ends) -> Option<Ipv6Addr> {
        let next_hop = self.first_hop(destination, source);
        if next_hop.is_none() {
            self.stack.counters.dropped(Drop::Unresolved);
        }
        next_hop
    }

    /// Sends a packet with `len` bytes behind its headers, which `fill` writes. Returns whether it was sent or waits for its neighbour.
    fn ipv6_packet_output(
        &mut self,
        packet: &Outgoing<'_>,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        let Some(id) = self.frame_to_send() else {
            return false;
        };
        let extra = packet.extension.len();
        let header = ipv6::Header {
            traffic_class: 0,
            flow_label: packet.flow_label,
            payload_len: (extra + len) as u16,
            next_header: packet.next_header,
            hop_limit: self.stack.ipv6.hop_limit,
            source: packet.ends.0,
            destination: packet.ends.1,
        };
        let start = PAYLOAD_OFFSET - HEADERS - extra;
        let link = self.link_header(MacAddr::default());
        let bytes = &mut self.pool.bytes_mut(id)[start..PAYLOAD_OFFSET + len];
        bytes[..14].copy_from_slice(&link);
        bytes[14..HEADERS].copy_from_slice(&header.to_bytes());
        bytes[HEADERS..HEADERS + extra].copy_from_slice(packet.extension);
        fill(&mut bytes[HEADERS + extra..]);
        let frame = Frame {
            id,
            offset: start as u16,
            len: (HEADERS + extra + len) as u16,
            checksum: RxChecksum::Unknown,
        };
        self.link_output_v6(packet.next_hop, frame);
        true
    }

    /// The link header of a frame of ours that carries IPv6.
    fn link_header(&self, destination: MacAddr) -> [u8; ethernet::HEADER_LEN] {
        let header = ethernet::Header {
            destination,
            source: self.stack.config.mac,
            ethertype: EtherType::Ipv6,
        };
        header.to_bytes()
    }

    /// Queues a message of neighbour discovery, which has its checksum, for a link address that is known or a group's.
    pub(super) fn queue_discovery(&mut self, link: MacAddr, ends: Ends, message: &[u8]) {
        let bytes = self.discovery_packet(link, ends, message);
        self.queue_bytes(&bytes[..HEADERS + message.len()]);
    }

    /// A message of neighbour discovery behind its headers.
    fn discovery_packet(
        &self,
        link: MacAddr,
        (source, destination): Ends,
        message: &[u8],
    ) -> [u8; HEADERS + tollgate_wire::ndp::MAX_LEN] {
        let mut bytes = [0; HEADERS + tollgate_wire::ndp::MAX_LEN];
        let header = ipv6::Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: message.len() as u16,
            next_header: protocol::ICMP,
            hop_limit: NDP_HOP_LIMIT,
            source,
            destination,
        };
        bytes[..14].copy_from_slice(&self.link_header(link));
        bytes[14..HEADERS].copy_from_slice(&header.to_bytes());
        let end = HEADERS + message.len();
        bytes[HEADERS..end].copy_from_slice(message);
        bytes
    }

    /// Queues a message of neighbour discovery, which has its checksum, for a neighbour whose link address is to be found out.
    pub(super) fn queue_discovery_unresolved(&mut self, ends: Ends, message: &[u8]) {
        let Some(id) = self.frame_to_send() else {
            return;
        };
        let bytes = self.discovery_packet(MacAddr::default(), ends, message);
        let len = HEADERS + message.len();
        let start = PAYLOAD_OFFSET - HEADERS;
        self.pool.bytes_mut(id)[start..start + len].copy_from_slice(&bytes[..len]);
        let frame = Frame {
            id,
            offset: start as u16,
            len: len as u16,
            checksum: RxChecksum::Unknown,
        };
        self.link_output_v6(ends.1, frame);
    }

    /// Queues a packet to a group.
    pub(super) fn queue_to_group(&mut self, header: &ipv6::Header, parts: &[&[u8]]) {
        let link = self.link_header(ipv6::multicast_mac(header.destination));
        let mut bytes = Vec::with_capacity(HEADERS + usize::from(header.payload_len));
        bytes.extend_from_slice(&link);
        bytes.extend_from_slice(&header.to_bytes());
        for part in parts {
            bytes.extend_from_slice(part);
        }
        self.queue_bytes(&bytes);
    }

    /// Queues a frame for a neighbour or a group, whose link address is put into it when it is known.
    pub(crate) fn link_output_v6(&mut self, next_hop: Ipv6Addr, frame: Frame) {
        if next_hop.is_multicast() {
            return self.device_output(ipv6::multicast_mac(next_hop), frame);
        }
        if next_hop.is_unspecified() {
            return self.drop_frame(frame.id, Drop::Unresolved);
        }
        match self.stack.neighbours6.lookup(next_hop, self.now) {
            Lookup::Found(mac) => self.device_output(mac, frame),
            Lookup::Wait => self.wait_for_neighbour_v6(next_hop, frame),
        }
    }

    /// Has a frame wait for the link address of a neighbour, which is asked for.
    #[cold]
    #[inline(never)]
    fn wait_for_neighbour_v6(&mut self, next_hop: Ipv6Addr, frame: Frame) {
        let may_wait = self
            .may_wait_for_neighbours()
            .saturating_sub(self.stack.neighbours.waiting());
        let neighbours = &mut self.stack.neighbours6;
        let kept = neighbours.keep(next_hop, frame, may_wait, self.now);
        self.drop_unresolved(kept.refused.into_iter().chain(kept.dropped));
        if kept.lost {
            self.set_links(next_hop, MacAddr::default());
        }
        if kept.ask {
            self.solicit(next_hop);
        }
    }

    /// Queues a frame for the next hop of a destination, and notes its link address there for the next one.
    pub(crate) fn hand_to_destination(&mut self, pair: u32, frame: Frame) {
        let Some(destination) = self.stack.destinations.get(pair) else {
            return self.drop_frame(frame.id, Drop::Unresolved);
        };
        let (link, next_hop) = (destination.known_link(), destination.next_hop);
        match link {
            Some(mac) => self.device_output(mac, frame),
            None => match self.stack.neighbours6.lookup(next_hop, self.now) {
                Lookup::Found(mac) => {
                    let own = self.stack.config.mac;
                    self.stack.destinations.set_link(pair, mac, own);
                    self.device_output(mac, frame);
                }
                Lookup::Wait => self.link_output_v6(next_hop, frame),
            },
        }
    }

    /// All destinations by way of a neighbour learn its link address, or forget it when it is all zeros.
    pub(super) fn set_links(&mut self, next_hop: Ipv6Addr, mac: MacAddr) {
        let own = self.stack.config.mac;
        self.stack.udp.forget();
        self.stack.destinations.set_links(next_hop, mac, own);
    }
}
