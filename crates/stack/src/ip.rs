//! Ethernet and IPv4, in and out (RFC 791, 894, 1122).
//!
//! The way in for everything that was not predicted: link address, IP header, reassembly, protocol. The way out for
//! everything that has no template: route, fragmentation, neighbour, device queue.

use crate::buffer::{Frame, FrameId, PAYLOAD_OFFSET, RxChecksum};
use crate::config::LanEvidence;
use crate::conflict;
use crate::counters::Drop;
use crate::demux::FlowKey;
use crate::icmp::Quote;
use crate::lan;
use crate::neighbour::{Action, Cache, Heard, Lookup, Update};
use crate::next_hops::NextHops;
use crate::parts::copy_parts;
use crate::reassembly::{Datagram, Expired, Front, FrontV4, Outcome, Room};
use crate::socket::Error;
use crate::stack::{Active, Stack};
use crate::tcp::slow::time_wait::SLOT_BIT;
use crate::tcp::tcb::{State, Tcb};
use alloc::vec::Vec;
use core::mem;
use core::net::{IpAddr, Ipv4Addr};
use tollgate_gate::Recorder;
use tollgate_wire::bpdu::{self, BRIDGE_GROUP, Bpdu};
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::icmp::{Message, Unreachable};
use tollgate_wire::source_route::{Received, SourceRoute};
use tollgate_wire::{arp, ipv4};

/// Source and destination of a packet.
type Ends = (Ipv4Addr, Ipv4Addr);

impl Stack {
    /// The neighbour cache, and the connections that use it without its seeing them.
    pub(crate) fn neighbours_and_users(&mut self) -> (&mut Cache<Ipv4Addr>, Users<'_>) {
        let users = Users {
            next_hops: &mut self.next_hops,
            tcbs: &mut self.tcbs,
            visited: &mut self.counters.neighbour_users_visited,
        };
        (&mut self.neighbours, users)
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Takes a frame that was not predicted.
    #[inline(never)]
    pub(crate) fn ethernet_input(&mut self, frame: Frame) {
        let header = match ethernet::Header::parse(self.pool.frame(&frame)) {
            Ok(header) => header,
            Err(_) => return self.drop_frame(frame.id, Drop::Malformed),
        };
        let ours = header.destination == self.stack.config.mac;
        if !ours && !header.destination.is_multicast() {
            return self.drop_frame(frame.id, Drop::NotForUs);
        }
        match header.ethertype {
            EtherType::Ipv4 => self.ip_input(frame, ours),
            EtherType::Arp => self.arp_input(frame),
            EtherType::Ipv6 => self.ipv6_input(frame, ours),
            EtherType::Other(_)
                if header.destination == BRIDGE_GROUP
                    && self.stack.config.mechanisms.lan_evidence == LanEvidence::SpanningTree =>
            {
                self.bpdu_input(&header, frame);
            }
            EtherType::Other(_) => self.drop_frame(frame.id, Drop::UnknownProtocol),
        }
    }

    fn ip_input(&mut self, frame: Frame, link_unicast: bool) {
        let packet = &self.pool.frame(&frame)[ethernet::HEADER_LEN..];
        let header = match ipv4::Header::parse(packet) {
            Ok(header) => header,
            Err(_) => return self.drop_frame(frame.id, Drop::Malformed),
        };
        let verify = self.stack.config.mechanisms.checksum.sums_ip();
        if verify && !ipv4::Header::checksum_is_valid(packet) {
            return self.drop_frame(frame.id, Drop::Checksum);
        }
        let ours = self.stack.is_ours(header.destination);
        let broadcast = !ours && self.stack.is_broadcast(header.destination);
        // RFC 1122, 3.3.6: what comes in a broadcast of the link is for this host only if it is addressed to all.
        let for_us = broadcast || ours && link_unicast;
        if !for_us || !self.is_another_host(header.source) {
            return self.drop_frame(frame.id, Drop::NotForUs);
        }
        let at = ethernet::HEADER_LEN + usize::from(header.header_len);
        if usize::from(header.header_len) > ipv4::HEADER_LEN {
            let packet = &self.pool.frame(&frame)[ethernet::HEADER_LEN..];
            match self.return_route_of(&header, packet) {
                Ok(route) => self.stack.return_route = route,
                Err(reason) => return self.drop_frame(frame.id, reason),
            }
        }
        if header.is_fragment() {
            self.fragment_input(header, frame, at, !broadcast);
        } else {
            self.datagram_input(&header, frame, at, !broadcast);
        }
        self.stack.return_route = None;
    }

    /// The way back that a packet with options names, if it does and that is taken.
    #[cold]
    fn return_route_of(
        &self,
        header: &ipv4::Header,
        packet: &[u8],
    ) -> Result<Option<SourceRoute>, Drop> {
        let options = &packet[ipv4::HEADER_LEN..usize::from(header.header_len)];
        match SourceRoute::received(options, header.source) {
            Received::None => Ok(None),
            Received::Completed(route) if self.stack.config.source_routes => Ok(route),
            Received::Completed(_) if self.is_routed(header, packet) => Ok(None),
            Received::Completed(_) => Err(Drop::SourceRoute),
            // We are no router (RFC 1122, 3.3.5).
            Received::Elsewhere => Err(Drop::NotForUs),
        }
    }

    /// Tells whether a packet is of a connection whose application has named a source route.
    fn is_routed(&self, header: &ipv4::Header, packet: &[u8]) -> bool {
        let Some([a, b, c, d]) = packet[usize::from(header.header_len)..].first_chunk::<4>() else {
            return false;
        };
        let key = FlowKey::new(
            (header.source, u16::from_be_bytes([*a, *b])),
            (header.destination, u16::from_be_bytes([*c, *d])),
        );
        header.protocol == ipv4::protocol::TCP
            && self.slot_of(key).is_some_and(|slot| {
                slot & SLOT_BIT == 0
                    && self
                        .stack
                        .extension(slot as usize)
                        .is_some_and(|extension| extension.route.is_some())
            })
    }

    /// Tells whether an address can be the source of a packet: RFC 1122, 3.2.1.3, it is always a unicast host's.
    pub(crate) fn is_another_host(&self, source: Ipv4Addr) -> bool {
        !(source.is_multicast()
            || source.is_unspecified()
            || source.is_loopback()
            || self.stack.is_broadcast(source)
            || self.stack.is_ours(source))
    }

    /// A whole datagram in one frame.
    fn datagram_input(&mut self, header: &ipv4::Header, frame: Frame, at: usize, unicast: bool) {
        match header.protocol {
            // RFC 9293, 3.9.2.3, MUST-57: TCP is for one host.
            ipv4::protocol::TCP if unicast => self.tcp_input(header, frame, at),
            ipv4::protocol::UDP => self.udp_input_frame(header, frame, at, unicast),
            ipv4::protocol::ICMP => {
                let bytes = self.take_payload(header, &frame, at);
                self.icmp_input(header, &bytes, unicast);
                self.give_back(bytes);
                self.pool.release(frame.id);
            }
            ipv4::protocol::TCP => self.drop_frame(frame.id, Drop::NotForUs),
            _ => {
                if unicast {
                    let quote = self.quote(header, &frame);
                    let reason = Message::DestinationUnreachable(Unreachable::Protocol);
                    self.icmp_error(header, &quote, reason);
                }
                self.drop_frame(frame.id, Drop::UnknownProtocol);
            }
        }
    }

    /// The payload of a datagram, copied into the stack's scratch room.
    fn take_payload(&mut self, header: &ipv4::Header, frame: &Frame, at: usize) -> Vec<u8> {
        let mut bytes = mem::take(&mut self.stack.scratch);
        bytes.clear();
        bytes.extend_from_slice(&self.pool.frame(frame)[at..at + header.payload_len()]);
        bytes
    }

    /// The quotation of a packet whose first bytes lie in a frame.
    pub(crate) fn quote(&self, header: &ipv4::Header, frame: &Frame) -> Quote {
        let packet = self.pool.frame(frame).get(ethernet::HEADER_LEN..);
        Quote::of(header, packet.unwrap_or_default())
    }

    fn give_back(&mut self, bytes: Vec<u8>) {
        self.stack.scratch = bytes;
    }

    fn fragment_input(&mut self, header: ipv4::Header, frame: Frame, at: usize, unicast: bool) {
        let front = FrontV4 { header, unicast };
        let Some(datagram) = self.take_fragment(&Front::V4(front), frame, at) else {
            return;
        };
        let Front::V4(FrontV4 { header: whole, .. }) = *datagram.front() else {
            return;
        };
        let first = datagram.fragments().first().map(|first| &first.frame);
        let quote = first.map_or(Quote::NOTHING, |frame| self.quote(&whole, frame));
        let bytes = self.gather(datagram);
        match whole.protocol {
            ipv4::protocol::TCP if unicast => {
                let ends = (whole.source, whole.destination);
                self.tcp_input_gathered(ends.into(), whole.tos, &bytes);
            }
            ipv4::protocol::UDP => self.udp_input(&whole, &bytes, unicast.then_some(&quote)),
            ipv4::protocol::ICMP => self.icmp_input(&whole, &bytes, unicast),
            ipv4::protocol::TCP => self.stack.counters.dropped(Drop::NotForUs),
            _ => {
                self.stack.counters.dropped(Drop::UnknownProtocol);
                if unicast {
                    let reason = Message::DestinationUnreachable(Unreachable::Protocol);
                    self.icmp_error(&whole, &quote, reason);
                }
            }
        }
        self.give_back(bytes);
    }

    /// Takes a fragment of either version, whose part of its datagram begins at `at` in the frame; the whole datagram, if it was
    /// the last one missing.
    pub(crate) fn take_fragment(
        &mut self,
        front: &Front,
        frame: Frame,
        at: usize,
    ) -> Option<Datagram> {
        let (pool, counters) = (&mut *self.pool, &mut self.stack.counters);
        let room = Room {
            frames: pool.capacity() / 4,
            may_grow: !pool.is_low(),
        };
        // Counts this one and those that have to make room.
        let release = &mut |frame: Frame| {
            counters.dropped(Drop::Reassembly);
            pool.release(frame.id);
        };
        let frame = (frame, at as u16);
        let reassembler = &mut self.stack.reassembler;
        match reassembler.push(front, frame, room, self.now, release) {
            Outcome::Held | Outcome::Dropped(_) => None,
            Outcome::Complete(datagram) => Some(datagram),
        }
    }

    /// The payload of a whole datagram in the stack's scratch room. Its frames are released.
    pub(crate) fn gather(&mut self, datagram: Datagram) -> Vec<u8> {
        let mut bytes = mem::take(&mut self.stack.scratch);
        bytes.clear();
        bytes.resize(datagram.len(), 0);
        datagram.copy_into(self.pool, &mut bytes);
        for frame in datagram.into_frames() {
            self.pool.release(frame.id);
        }
        bytes
    }

    pub(crate) fn reassembly_timers(&mut self) {
        let mut expired: Vec<Expired> = Vec::new();
        self.stack
            .reassembler
            .poll(self.now, &mut |datagram| expired.push(datagram));
        for datagram in expired {
            self.stack.counters.dropped(Drop::Reassembly);
            // RFC 1122, 3.3.2, and RFC 8200, 4.5: only when the first fragment is there to be quoted. Nothing is said of what was
            // sent to all (RFC 1122, 3.2.2).
            match datagram.first() {
                Some((Front::V4(front), fragment)) if front.unicast => {
                    let quote = self.quote(&front.header, &fragment.frame);
                    self.icmp_error(&front.header, &quote, Message::TimeExceeded(1));
                }
                Some((&Front::V6(front), fragment)) => {
                    self.fragment_timed_out_v6(&front, &fragment.frame);
                }
                Some((Front::V4(_), _)) | None => {}
            }
            for frame in datagram.into_frames() {
                self.pool.release(frame.id);
            }
        }
    }

    /// Bytes behind the IP header that one packet holds.
    pub(crate) fn ip_payload_limit(&self) -> usize {
        (usize::from(self.stack.mtu) - ipv4::HEADER_LEN)
            .min(self.pool.frame_size() - PAYLOAD_OFFSET)
    }

    /// Sends a datagram without a template, in fragments when it is longer than the link takes. Returns whether it was
    /// sent or waits for its neighbour.
    pub(crate) fn ip_output(&mut self, protocol: u8, ends: Ends, parts: [&[u8]; 2]) -> bool {
        let len = parts[0].len() + parts[1].len();
        if len + ipv4::HEADER_LEN > usize::from(u16::MAX) {
            return false;
        }
        let limit = self.ip_payload_limit();
        if len <= limit {
            return self.ip_output_whole(protocol, ends, len, |body| copy_parts(parts, 0, body));
        }
        let step = limit & !7;
        let identification = self.next_identification(protocol, ends);
        let mut offset = 0;
        while offset < len {
            let chunk = step.min(len - offset);
            let last = offset + chunk == len;
            let more = if last { 0 } else { ipv4::MORE_FRAGMENTS };
            let header = ipv4::Header {
                flags_and_offset: (offset / 8) as u16 | more,
                ..self.ip_header(protocol, ends, identification, chunk)
            };
            if !self.ip_packet(header, |body| copy_parts(parts, offset, body)) {
                return false;
            }
            offset += chunk;
        }
        true
    }

    /// Sends a datagram of `len` bytes, which `fill` writes, as [`Active::ip_output`] does. It has to fit into a packet
    /// ([`Active::ip_payload_limit`]).
    #[inline]
    pub(crate) fn ip_output_whole(
        &mut self,
        protocol: u8,
        ends: Ends,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        let identification = self.next_identification(protocol, ends);
        let header = self.ip_header(protocol, ends, identification, len);
        self.ip_packet(header, fill)
    }

    fn next_identification(&mut self, protocol: u8, (source, destination): Ends) -> u16 {
        let secrets = &mut self.stack.secrets;
        secrets.next_identification(source, destination, protocol)
    }

    pub(crate) fn ip_header(
        &self,
        protocol: u8,
        (source, destination): Ends,
        identification: u16,
        len: usize,
    ) -> ipv4::Header {
        ipv4::Header {
            header_len: 20,
            tos: 0,
            total_len: (ipv4::HEADER_LEN + len) as u16,
            identification,
            flags_and_offset: 0,
            ttl: self.stack.config.ttl,
            protocol,
            source,
            destination,
        }
    }

    /// Sends a packet whose payload `fill` writes. Returns whether it was sent or waits for its neighbour.
    #[inline]
    fn ip_packet(&mut self, header: ipv4::Header, fill: impl FnOnce(&mut [u8])) -> bool {
        let Some(id) = self.frame_to_send() else {
            return false;
        };
        let start = PAYLOAD_OFFSET - 34;
        let link = ethernet::Header {
            destination: MacAddr::default(),
            source: self.stack.config.mac,
            ethertype: EtherType::Ipv4,
        };
        let len = 14 + header.total_len;
        let bytes = &mut self.pool.bytes_mut(id)[start..start + usize::from(len)];
        bytes[..14].copy_from_slice(&link.to_bytes());
        bytes[14..34].copy_from_slice(&header.to_bytes());
        fill(&mut bytes[34..]);
        let frame = Frame {
            id,
            offset: start as u16,
            len,
            checksum: RxChecksum::Unknown,
        };
        let next_hop = self.next_hop(header.destination);
        self.link_output(next_hop, frame);
        true
    }

    /// Queues a frame for a neighbour, whose link address is put into it when it is known.
    pub(crate) fn link_output(&mut self, next_hop: Ipv4Addr, frame: Frame) {
        if self.stack.is_broadcast(next_hop) {
            return self.device_output(MacAddr::BROADCAST, frame);
        }
        match self.stack.neighbours.lookup(next_hop, self.now) {
            Lookup::Found(mac) => self.device_output(mac, frame),
            Lookup::Wait => self.wait_for_neighbour(next_hop, frame),
        }
    }

    /// Has a frame wait for the link address of a neighbour, which is asked for.
    #[cold]
    #[inline(never)]
    fn wait_for_neighbour(&mut self, next_hop: Ipv4Addr, frame: Frame) {
        let may_wait = self
            .may_wait_for_neighbours()
            .saturating_sub(self.stack.neighbours6.waiting());
        let neighbours = &mut self.stack.neighbours;
        let kept = neighbours.keep(next_hop, frame, may_wait, self.now);
        self.drop_unresolved(kept.refused.into_iter().chain(kept.dropped));
        if kept.lost {
            self.set_link_addresses(next_hop, MacAddr::default());
        }
        if kept.ask {
            self.ask_for(next_hop);
        }
    }

    /// Drops frames that may not wait for a link address.
    pub(crate) fn drop_unresolved(&mut self, frames: impl Iterator<Item = Frame>) {
        for frame in frames {
            self.drop_frame(frame.id, Drop::Unresolved);
        }
    }

    /// Takes a frame for a packet that goes out; none where the device's queue or the pool has no room, which is counted.
    pub(crate) fn frame_to_send(&mut self) -> Option<FrameId> {
        if !self.device_has_room() {
            self.stack.counters.dropped(Drop::DeviceQueueFull);
            return None;
        }
        let id = self.pool.alloc();
        if id.is_none() {
            self.stack.counters.dropped(Drop::NoFrame);
        }
        id
    }

    /// Frames that may wait for link addresses, in all: an eighth of the pool, and nothing of its reserve.
    pub(crate) fn may_wait_for_neighbours(&self) -> usize {
        if self.pool.is_low() {
            0
        } else {
            (self.pool.capacity() / 8).max(4)
        }
    }

    /// Queues a frame for a next hop whose link address stands in a template, or for one that is looked up.
    pub(crate) fn hand_to_link(&mut self, next_hop: Ipv4Addr, link: Option<[u8; 6]>, frame: Frame) {
        match link {
            Some(link) => self.device_output(MacAddr(link), frame),
            None => self.link_output(next_hop, frame),
        }
    }

    pub(crate) fn device_output(&mut self, mac: MacAddr, frame: Frame) {
        if !self.device_has_room() {
            return self.drop_frame(frame.id, Drop::DeviceQueueFull);
        }
        let at = usize::from(frame.offset);
        self.pool.bytes_mut(frame.id)[at..at + 6].copy_from_slice(&mac.0);
        self.stack.device.push(frame);
    }

    fn send_arp(&mut self, link_destination: MacAddr, packet: &arp::Packet) {
        let header = ethernet::Header {
            destination: link_destination,
            source: self.stack.config.mac,
            ethertype: EtherType::Arp,
        };
        let mut bytes = [0; ethernet::HEADER_LEN + arp::PACKET_LEN];
        bytes[..14].copy_from_slice(&header.to_bytes());
        bytes[14..].copy_from_slice(&packet.to_bytes());
        self.queue_bytes(&bytes);
        // Whoever hears the address hears the evidence for it as well.
        self.announce();
    }

    /// Takes a unit of the spanning tree protocol.
    #[cold]
    fn bpdu_input(&mut self, header: &ethernet::Header, frame: Frame) {
        let payload = &self.pool.frame(&frame)[ethernet::HEADER_LEN..];
        let unit = header
            .ethertype
            .payload_len()
            .and_then(|len| payload.get(..len))
            .map(Bpdu::parse);
        let Some(Ok(unit)) = unit else {
            return self.drop_frame(frame.id, Drop::Malformed);
        };
        self.pool.release(frame.id);
        if lan::is_announcement(&unit) {
            self.stack.announced_hosts.hear(header.source, self.now);
        }
    }

    /// Announces this host on the LAN, where the mechanism asks for it.
    fn announce(&mut self) {
        if self.stack.config.mechanisms.lan_evidence != LanEvidence::SpanningTree {
            return;
        }
        let mac = self.stack.config.mac;
        let mut unit = [0; bpdu::MAX_LEN];
        let len = lan::announcement(mac).emit(&mut unit);
        let header = ethernet::Header {
            destination: BRIDGE_GROUP,
            source: mac,
            ethertype: EtherType::Other(len as u16),
        };
        let mut bytes = [0; ethernet::HEADER_LEN + bpdu::MAX_LEN];
        bytes[..ethernet::HEADER_LEN].copy_from_slice(&header.to_bytes());
        bytes[ethernet::HEADER_LEN..].copy_from_slice(&unit);
        self.queue_bytes(&bytes[..ethernet::HEADER_LEN + len]);
    }

    /// Queues a whole frame for the link.
    pub(crate) fn queue_bytes(&mut self, bytes: &[u8]) {
        if !self.device_has_room() {
            self.stack.counters.dropped(Drop::DeviceQueueFull);
            return;
        }
        match self.pool.frame_from(bytes) {
            Ok(frame) => self.stack.device.push(frame),
            Err(_) => self.stack.counters.dropped(Drop::NoFrame),
        }
    }

    fn ask_for(&mut self, ip: Ipv4Addr) {
        let packet = arp::Packet {
            operation: arp::Operation::Request,
            sender_mac: self.stack.config.mac,
            sender_ip: self.stack.source_to(ip),
            target_mac: MacAddr::default(),
            target_ip: ip,
        };
        self.send_arp(MacAddr::BROADCAST, &packet);
    }

    /// RFC 826, "Packet Reception".
    fn arp_input(&mut self, frame: Frame) {
        let parsed = arp::Packet::parse(&self.pool.frame(&frame)[ethernet::HEADER_LEN..]);
        self.pool.release(frame.id);
        let Ok(packet) = parsed else {
            self.stack.counters.dropped(Drop::Malformed);
            return;
        };
        if !self.stack.claims.is_empty() {
            self.hear_claims(&packet);
        }
        let sender_is_host = packet.sender_mac.is_unicast()
            && !packet.sender_ip.is_unspecified()
            && !packet.sender_ip.is_multicast()
            && !self.stack.is_broadcast(packet.sender_ip)
            && !self.stack.is_ours(packet.sender_ip);
        if !sender_is_host {
            // A probe for an address has no sender yet (RFC 5227); it is still answered, to a single host.
            if packet.sender_ip.is_unspecified() && packet.sender_mac.is_unicast() {
                self.answer_arp(&packet);
            }
            return;
        }
        let for_us = self.stack.is_ours(packet.target_ip);
        let heard = if for_us && packet.operation == arp::Operation::Request {
            Heard::Request
        } else {
            Heard::Other
        };
        self.heard(packet.sender_ip, packet.sender_mac, heard);
        self.answer_arp(&packet);
    }

    /// Looks whether another host claims an address of ours (RFC 5227).
    #[cold]
    fn hear_claims(&mut self, packet: &arp::Packet) {
        let mac = self.stack.config.mac;
        if let Some(action) = self.stack.claims.hear(packet, mac, self.now) {
            self.do_for_claim(action);
        }
    }

    /// Does what is due about addresses and routes that were added or removed.
    #[cold]
    pub(crate) fn address_timers(&mut self) {
        self.choose_ways();
        let random = |stack: &mut Stack, now| {
            let Stack {
                claims, secrets, ..
            } = stack;
            claims.poll(now, &mut secrets.random)
        };
        while let Some(action) = random(self.stack, self.now) {
            self.do_for_claim(action);
        }
    }

    fn do_for_claim(&mut self, action: conflict::Action) {
        let (sender_ip, target_ip) = match action {
            conflict::Action::Probe(ip) => (Ipv4Addr::UNSPECIFIED, ip),
            conflict::Action::Announce(ip) => (ip, ip),
            conflict::Action::Assign(own) => {
                self.stack.assign(own);
                self.choose_ways();
                (own.0, own.0)
            }
            conflict::Action::GiveUp(ip) => return self.unassign(ip),
        };
        let packet = arp::Packet {
            operation: arp::Operation::Request,
            sender_mac: self.stack.config.mac,
            sender_ip,
            target_mac: MacAddr::default(),
            target_ip,
        };
        self.send_arp(MacAddr::BROADCAST, &packet);
    }

    fn answer_arp(&mut self, packet: &arp::Packet) {
        if packet.operation != arp::Operation::Request || !self.stack.is_ours(packet.target_ip) {
            return;
        }
        let answer = arp::Packet {
            operation: arp::Operation::Reply,
            sender_mac: self.stack.config.mac,
            sender_ip: packet.target_ip,
            target_mac: packet.sender_mac,
            target_ip: packet.sender_ip,
        };
        self.send_arp(packet.sender_mac, &answer);
    }

    /// A neighbour's link address was heard.
    fn heard(&mut self, ip: Ipv4Addr, mac: MacAddr, heard: Heard) {
        let (neighbours, mut users) = self.stack.neighbours_and_users();
        let is_held = &mut |ip| users.first(ip).is_some();
        let update = neighbours.heard(ip, mac, heard, is_held, self.now);
        match update {
            Update::Ignored | Update::Same | Update::Doubted => {}
            Update::Locked => self.stack.counters.arp_changes_limited += 1,
            Update::Known {
                changed,
                pending,
                evicted,
            } => {
                if let Some(evicted) = evicted {
                    self.set_link_addresses(evicted, MacAddr::default());
                }
                for frame in pending {
                    self.device_output(mac, frame);
                }
                if changed || heard == Heard::Configured {
                    self.set_link_addresses(ip, mac);
                }
            }
        }
    }

    /// Templates of connections by way of a neighbour learn its link address, or forget it when it is all zeros.
    fn set_link_addresses(&mut self, next_hop: Ipv4Addr, mac: MacAddr) {
        self.stack.forget_templates();
        let own = self.stack.config.mac;
        // A link address that is not known proves nothing yet; it is judged when it is.
        let is_doubtful = self.stack.config.mechanisms.lan_evidence == LanEvidence::SpanningTree
            && mac != MacAddr::default()
            && !self.stack.announced_hosts.knows(mac, self.now);
        let mut user = self.stack.neighbours_and_users().1.first(next_hop);
        while let Some(place) = user {
            self.stack.tcbs[place as usize].set_link(mac, own);
            if is_doubtful {
                self.stack.proof_is_lost(place as usize);
            }
            user = self.stack.neighbours_and_users().1.after(place);
        }
    }

    pub(crate) fn neighbour_timers(&mut self) {
        let mut actions = Vec::new();
        self.stack
            .neighbours
            .poll(self.now, &mut |action| actions.push(action));
        for action in actions {
            match action {
                Action::Ask(ip) => self.ask_for(ip),
                // A template that holds the address uses it unseen by the cache.
                Action::Stale(ip) => {
                    let (neighbours, mut users) = self.stack.neighbours_and_users();
                    if users.first(ip).is_some() {
                        neighbours.doubt(ip, self.now);
                    }
                }
                Action::Gone(ip) | Action::Silent(ip) => {
                    self.set_link_addresses(ip, MacAddr::default());
                }
                Action::Fail(ip, frames) => {
                    for frame in frames {
                        self.neighbour_is_missing(&frame);
                        self.drop_frame(frame.id, Drop::Unresolved);
                    }
                    self.next_hop_failed(ip);
                }
            }
        }
    }

    /// A neighbour did not answer: connections that were being opened by way of it fail (RFC 1122, 2.3.2.2).
    fn next_hop_failed(&mut self, ip: Ipv4Addr) {
        let mut user = self.stack.neighbours_and_users().1.first(ip);
        while let Some(place) = user {
            // A connection that is killed is none of the list's any more.
            user = self.stack.neighbours_and_users().1.after(place);
            let tcb = &self.stack.tcbs[place as usize];
            if tcb.state == State::SynSent && tcb.known_link().is_none() {
                self.kill(place as usize, Error::Unreachable);
            }
        }
    }

    /// Adds an answer to the neighbour cache without asking: for links whose other end is known.
    pub fn add_neighbour(&mut self, ip: impl Into<IpAddr>, mac: MacAddr) {
        match ip.into() {
            IpAddr::V4(ip) => self.heard(ip, mac, Heard::Configured),
            IpAddr::V6(ip) => self.configured_neighbour(ip, mac),
        }
    }
}

/// The connections whose templates hold link addresses.
pub(crate) struct Users<'a> {
    next_hops: &'a mut NextHops,
    tcbs: &'a mut [Tcb],
    visited: &'a mut u64,
}

impl Users<'_> {
    /// The first connection by way of `next_hop`.
    pub(crate) fn first(&mut self, next_hop: Ipv4Addr) -> Option<u32> {
        loop {
            let place = self.next_hops.first(next_hop)?;
            if self.visit(place) {
                return Some(place);
            }
        }
    }

    /// The next connection behind `place`, of the same next hop.
    pub(crate) fn after(&mut self, place: u32) -> Option<u32> {
        loop {
            let next = self.next_hops.after(place)?;
            if self.visit(next) {
                return Some(next);
            }
        }
    }

    /// Tells whether a place has a connection that sends by its template, and takes it out of its list otherwise.
    fn visit(&mut self, place: u32) -> bool {
        *self.visited += 1;
        let tcb = &mut self.tcbs[place as usize];
        let is_user = !matches!(tcb.state, State::Closed | State::TimeWait);
        if !is_user {
            tcb.next_hop = Ipv4Addr::UNSPECIFIED;
            self.next_hops.leave(place);
        }
        is_user
    }
}
