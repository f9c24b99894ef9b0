//! ICMPv6 (RFC 4443): answers echoes, sends errors, and tells sockets of errors that come in.
//!
//! Errors about TCP are believed only where they quote a sequence number in flight (RFC 5927, 4.1).

use super::input::Arrived;
use crate::buffer::Frame;
use crate::counters::Drop;
use crate::icmp::{Echo, Trouble};
use crate::stack::{Active, Stack};
use crate::tcp::report::SoftError;
use core::net::Ipv6Addr;
use tollgate_checksum::sum_header;
use tollgate_gate::Recorder;
use tollgate_wire::icmpv6::{HEADER_LEN, Message, Unreachable};
use tollgate_wire::ipv6::chain::{follow, is_extension};
use tollgate_wire::ipv6::{self, protocol};
use tollgate_wire::{SeqNumber, ethernet, icmp, mld};

/// Bytes of an error with what it quotes, headers included: as much as every link carries (RFC 4443, 2.4, c).
pub(super) const MOST_QUOTED: usize = ipv6::MIN_MTU as usize - ipv6::HEADER_LEN - HEADER_LEN;

/// Tells whether a packet carries an error of ICMPv6, or a later part of what may be one.
fn carries_error(packet: &[u8]) -> bool {
    let Some((&next_header, rest)) = packet.get(6).zip(packet.get(ipv6::HEADER_LEN..)) else {
        return false;
    };
    let Ok(mut chain) = follow(next_header, rest, false) else {
        return false;
    };
    if let Some(fragment) = chain.fragment {
        if fragment.offset != 0 {
            return chain.protocol == protocol::ICMP || is_extension(chain.protocol);
        }
        let Ok(behind) = follow(chain.protocol, &rest[chain.offset..], true) else {
            return false;
        };
        chain.protocol = behind.protocol;
        chain.offset += behind.offset;
    }
    chain.protocol == protocol::ICMP && rest.get(chain.offset).is_none_or(|&kind| kind < 128)
}

impl Stack {
    /// Notes that the path between a pair of addresses takes only packets of `mtu` bytes (RFC 8201, 4).
    pub(crate) fn narrow_path(&mut self, pair: u32, mtu: u16) {
        if let Some(destination) = self.destinations.get_mut(pair) {
            destination.mtu = destination.mtu.min(mtu.max(ipv6::MIN_MTU));
        }
    }
}

impl<R: Recorder> Active<'_, R> {
    pub(super) fn icmpv6_input(&mut self, arrived: &Arrived, bytes: &[u8]) {
        let header = &arrived.header;
        let pseudo = ipv6::pseudo_header(
            header.source,
            header.destination,
            protocol::ICMP,
            bytes.len() as u32,
        );
        if !(pseudo + self.stack.compiled.kernel.sum(bytes)).is_valid() {
            self.stack.counters.dropped(Drop::Checksum);
            return;
        }
        let Ok(message) = Message::parse(bytes) else {
            self.stack.counters.dropped(Drop::Malformed);
            return;
        };
        let data = &bytes[HEADER_LEN..];
        match message {
            Message::EchoRequest {
                identifier,
                sequence,
            } if !header.source.is_unspecified() => {
                // RFC 4443, 4.2: one to a group is answered, from an address of ours.
                let from = if arrived.unicast {
                    Some(header.destination)
                } else {
                    self.stack.ipv6.addresses.source_for(header.source)
                };
                let reply = Message::EchoReply {
                    identifier,
                    sequence,
                };
                if let Some(from) = from {
                    self.icmpv6_output((from, header.source), reply, data);
                }
            }
            Message::EchoRequest { .. } => self.stack.counters.dropped(Drop::Malformed),
            Message::EchoReply {
                identifier,
                sequence,
            } => self.keep_echo(Echo {
                from: header.source.into(),
                identifier,
                sequence,
                data: data.to_vec(),
            }),
            Message::DestinationUnreachable(_)
            | Message::PacketTooBig { .. }
            | Message::TimeExceeded(_)
            | Message::ParameterProblem { .. } => self.icmpv6_error_input(message, data),
            Message::Discovery(kind, code) => self.discovery_input(arrived, kind, code, bytes),
            Message::Other(mld::QUERY, 0) => self.listener_query(arrived, bytes),
            Message::Other(..) => self.stack.counters.dropped(Drop::UnknownProtocol),
        }
    }

    /// Sends a message with its checksum.
    pub(crate) fn icmpv6_output(
        &mut self,
        ends: (Ipv6Addr, Ipv6Addr),
        message: Message,
        data: &[u8],
    ) -> bool {
        let mut header = message.to_bytes();
        let len = (HEADER_LEN + data.len()) as u32;
        let sum = ipv6::pseudo_header(ends.0, ends.1, protocol::ICMP, len)
            + sum_header(&header)
            + self.stack.compiled.kernel.sum(data);
        header[2..4].copy_from_slice(&sum.finish().to_ne_bytes());
        self.ipv6_output(protocol::ICMP, ends, [&header, data])
    }

    /// Tells the sender of a packet what is wrong with it, quoting what of it lies in one frame.
    pub(super) fn icmpv6_error_about_frame(
        &mut self,
        arrived: &Arrived,
        frame: &Frame,
        message: Message,
    ) {
        let packet = &self.pool.frame(frame)[ethernet::HEADER_LEN..];
        let len = ipv6::HEADER_LEN + usize::from(arrived.header.payload_len);
        let mut quoted = [0; MOST_QUOTED];
        let len = len.min(packet.len()).min(MOST_QUOTED);
        quoted[..len].copy_from_slice(&packet[..len]);
        self.icmpv6_error(arrived, &quoted[..len], message);
    }

    /// Tells the sender of a packet what is wrong with it, quoting `packet` (RFC 4443, 2.4).
    pub(crate) fn icmpv6_error(&mut self, arrived: &Arrived, packet: &[u8], message: Message) {
        let header = &arrived.header;
        let is_error = carries_error(packet);
        // RFC 4443, 2.4, e: never about an error, nor to what is not a single host's address.
        if is_error || header.source.is_unspecified() || header.source.is_multicast() {
            return;
        }
        let random = &mut self.stack.secrets.random;
        if !self.stack.icmp_errors.allow(self.now, random) {
            self.stack.counters.icmp_errors_limited += 1;
            return;
        }
        let from = if arrived.unicast {
            Some(header.destination)
        } else {
            self.stack.ipv6.addresses.source_for(header.source)
        };
        if let Some(from) = from {
            self.icmpv6_output((from, header.source), message, packet);
        }
    }

    /// Notes that the path from our source to `remote` takes only packets of `mtu` bytes (RFC 8201, 4).
    pub(crate) fn path_takes(&mut self, remote: Ipv6Addr, mtu: u16) {
        let Some(local) = self.stack.ipv6.addresses.source_for(remote) else {
            return;
        };
        let pair = self
            .stack
            .enter_key((remote, 0), (local, 0))
            .and_then(crate::demux::FlowKey::pair);
        if let Some(destination) = pair.and_then(|id| self.stack.destinations.get_mut(id)) {
            destination.mtu = destination.mtu.min(mtu.max(ipv6::MIN_MTU));
        }
    }

    /// A router says that the path takes only packets of `mtu` bytes (RFC 8201). Less than every link carries is no reason
    /// to send less than that (RFC 8200, 5; RFC 8201, 4).
    pub(crate) fn packet_too_big(&mut self, index: usize, pair: u32, mtu: u16) {
        let mtu = mtu.max(ipv6::MIN_MTU);
        self.stack.narrow_path(pair, mtu);
        self.path_mtu(index, mtu.min(self.stack.ipv6.mtu));
    }

    /// An error about something that we sent.
    fn icmpv6_error_input(&mut self, message: Message, quoted: &[u8]) {
        let implausible = |stack: &mut Stack| stack.counters.dropped(Drop::IcmpImplausible);
        let Ok(header) = ipv6::Header::parse_front(quoted) else {
            self.stack.counters.dropped(Drop::Malformed);
            return;
        };
        let rest = &quoted[ipv6::HEADER_LEN..];
        let Ok(chain) = follow(header.next_header, rest, false) else {
            return implausible(self.stack);
        };
        let Some(ports) = rest.get(chain.offset..).and_then(|p| p.first_chunk::<8>()) else {
            self.stack.counters.dropped(Drop::Malformed);
            return;
        };
        if !self.stack.ipv6.addresses.is_ours(header.source) {
            return implausible(self.stack);
        }
        let local = u16::from_be_bytes([ports[0], ports[1]]);
        let remote = u16::from_be_bytes([ports[2], ports[3]]);
        let trouble = match message {
            Message::DestinationUnreachable(reason) => {
                let soft = SoftError::Unreachable(match reason {
                    Unreachable::NoRoute => icmp::Unreachable::Network,
                    Unreachable::Address => icmp::Unreachable::Host,
                    Unreachable::Port => icmp::Unreachable::Port,
                    Unreachable::Prohibited => icmp::Unreachable::Other(1),
                    Unreachable::BeyondScope => icmp::Unreachable::Other(2),
                    Unreachable::Other(code) => icmp::Unreachable::Other(code),
                });
                match reason {
                    Unreachable::Port => Trouble::Refused(soft),
                    _ => Trouble::Soft(soft),
                }
            }
            Message::PacketTooBig { mtu } => Trouble::TooBig(mtu.min(u32::from(u16::MAX)) as u16),
            Message::TimeExceeded(code) => Trouble::Soft(SoftError::TimeExceeded(code)),
            Message::ParameterProblem { code, .. } => {
                let soft = SoftError::ParameterProblem(code);
                // RFC 4443, 3.4: the next header, which is TCP, is not known there.
                match code {
                    1 => Trouble::Refused(soft),
                    _ => Trouble::Soft(soft),
                }
            }
            Message::EchoRequest { .. }
            | Message::EchoReply { .. }
            | Message::Discovery(..)
            | Message::Other(..) => return,
        };
        let key = self
            .stack
            .known_key((header.destination, remote), (header.source, local));
        match (chain.protocol, key) {
            (protocol::UDP, _) => {
                self.error_for_udp(trouble, (header.destination.into(), remote), local);
            }
            (protocol::TCP, Some(key)) => {
                let seq = SeqNumber(u32::from_be_bytes([ports[4], ports[5], ports[6], ports[7]]));
                self.trouble_for_tcp(trouble, key, seq);
            }
            _ => implausible(self.stack),
        }
    }
}
