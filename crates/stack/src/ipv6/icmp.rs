//! ICMPv6 (RFC 4443): answers echoes, sends errors, and tells sockets of errors that come in.
//!
//! Errors about TCP are believed only where they quote a sequence number in flight (RFC 5927, 4.1).

use super::addresses::is_unicast;
use super::input::Arrived;
use crate::buffer::Frame;
use crate::counters::Drop;
use crate::demux::FlowKey;
use crate::icmp::{Echo, Trouble};
use crate::stack::{Active, Stack};
use crate::tcp::report::SoftError;
use crate::time::Instant;
use core::net::Ipv6Addr;
use tollgate_checksum::sum_header;
use tollgate_gate::Recorder;
use tollgate_wire::icmpv6::{HEADER_LEN, Message, Unreachable};
use tollgate_wire::ipv6::chain::{follow, is_extension};
use tollgate_wire::ipv6::{self, Fragment, protocol};
use tollgate_wire::{SeqNumber, ethernet, icmp, mld};

/// Bytes of an error with what it quotes, headers included: as much as every link carries (RFC 4443, 2.4, c).
pub(super) const MOST_QUOTED: usize = ipv6::MIN_MTU as usize - ipv6::HEADER_LEN - HEADER_LEN;
/// The first type of a message that is no error (RFC 4443, 2.1).
const FIRST_INFORMATIONAL: u8 = 128;
/// The type of a redirect (RFC 4861, 4.5).
const REDIRECT: u8 = 137;
/// The type of an echo request (RFC 4443, 4.1).
const ECHO_REQUEST: u8 = 128;

/// Tells whether a packet carries an error of ICMPv6 or a redirect, or a later part of what may be one (RFC 4443, 2.4, e). What is
/// wrong with its extension headers does not matter.
fn carries_error(packet: &[u8]) -> bool {
    let Some((&next_header, rest)) = packet.get(6).zip(packet.get(ipv6::HEADER_LEN..)) else {
        return false;
    };
    let (mut number, mut rest) = (next_header, rest);
    loop {
        let len = match number {
            protocol::ICMP => {
                let brings_errors = |&kind: &u8| kind >= FIRST_INFORMATIONAL && kind != REDIRECT;
                return !rest.first().is_some_and(brings_errors);
            }
            protocol::FRAGMENT => ipv6::FRAGMENT_LEN,
            _ if is_extension(number) => 8 * (1 + rest.get(1).map_or(0, |&len| usize::from(len))),
            _ => return false,
        };
        let Some((header, behind)) = rest.split_at_checked(len) else {
            return false;
        };
        if number == protocol::FRAGMENT
            && Fragment::parse(header).is_ok_and(|(_, fragment)| fragment.offset != 0)
        {
            return header[0] == protocol::ICMP || is_extension(header[0]);
        }
        (number, rest) = (header[0], behind);
    }
}

impl Stack {
    /// Notes that the path between a pair of addresses takes only packets of `mtu` bytes (RFC 8201, 4).
    pub(crate) fn narrow_path(&mut self, pair: u32, mtu: u16, now: Instant) {
        self.destinations.narrow(pair, mtu, now);
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
        // It may say anything of addresses, routers, neighbours and paths.
        self.stack.udp.forget();
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
            // RFC 9777, 5.1.1: the code is ignored.
            Message::Other(mld::QUERY, _) => self.listener_query(arrived, bytes),
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
        let flow = (ends, self.flow_label(ends, (0, 0)));
        self.ipv6_output(protocol::ICMP, flow, [&header, data])
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

    /// Notes that the path between these addresses takes only packets of `mtu` bytes (RFC 8201, 4).
    fn path_takes(&mut self, (local, remote): (Ipv6Addr, Ipv6Addr), mtu: u16) {
        let key = self.stack.enter_key((remote, 0), (local, 0));
        if let Some(pair) = key.and_then(FlowKey::pair) {
            self.stack.narrow_path(pair, mtu, self.now);
        }
    }

    /// A router says that the path of a connection takes only packets of `mtu` bytes (RFC 8201).
    pub(crate) fn packet_too_big(&mut self, index: usize, pair: u32, mtu: u16) {
        self.stack.narrow_path(pair, mtu, self.now);
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
        // A fragment other than the first has no ports.
        let is_later = chain.fragment.is_some_and(|fragment| fragment.offset != 0);
        if !self.stack.ipv6.addresses.is_ours(header.source) || is_later {
            return implausible(self.stack);
        }
        let local = u16::from_be_bytes([ports[0], ports[1]]);
        let remote = u16::from_be_bytes([ports[2], ports[3]]);
        let identifier = u16::from_be_bytes([ports[4], ports[5]]);
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
            // RFC 8201, 4: one of less than every link carries is discarded.
            Message::PacketTooBig { mtu } if mtu < u32::from(ipv6::MIN_MTU) => {
                return implausible(self.stack);
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
        let ends = (header.source, header.destination);
        let is_sent_to = is_unicast(ends.1) || ends.1.is_multicast();
        match (chain.protocol, trouble, key) {
            // A socket that serves many does not remember all. Who makes a message up has to know a port that is open here, and gets
            // packets cut that go to the address in the quotation, no others (RFC 8201, 4 and 5.2).
            (protocol::UDP, Trouble::TooBig(mtu), _)
                if is_sent_to && self.stack.udp.is_taken(local) =>
            {
                self.path_takes(ends, mtu);
            }
            (protocol::ICMP, Trouble::TooBig(mtu), _)
                if is_sent_to
                    && ports[0] == ECHO_REQUEST
                    && self.stack.echoes.has_sent(identifier) =>
            {
                self.path_takes(ends, mtu);
            }
            (protocol::UDP, Trouble::Refused(_) | Trouble::Soft(_), _) => {
                self.error_for_udp(trouble, (header.destination.into(), remote), local);
            }
            (protocol::TCP, _, Some(key)) => {
                let seq = SeqNumber(u32::from_be_bytes([ports[4], ports[5], ports[6], ports[7]]));
                self.trouble_for_tcp(trouble, key, seq);
            }
            _ => implausible(self.stack),
        }
    }
}
