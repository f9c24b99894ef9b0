//! The way in of everything over IPv6 that was not predicted: header, extension headers, protocol (RFC 8200, 4).

use super::addresses::is_unicast;
use crate::buffer::Frame;
use crate::counters::Drop;
use crate::stack::{Active, Stack};
use alloc::vec::Vec;
use core::mem;
use core::net::Ipv6Addr;
use tollgate_gate::Recorder;
use tollgate_wire::ethernet;
use tollgate_wire::icmpv6::{Message, Unreachable};
use tollgate_wire::ipv6::chain::{Chain, Refusal, follow};
use tollgate_wire::ipv6::{self, protocol};

/// A packet that has come to its destination, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) header: ipv6::Header,
    /// It was sent to an address of ours, not to a group, by the link, too.
    pub(crate) unicast: bool,
    /// It came in fragments, or with the header of one (RFC 6980, 5).
    pub(crate) fragmented: bool,
    /// It asked routers on the way to look at it (RFC 2711).
    pub(crate) router_alert: bool,
}

impl Stack {
    /// Tells whether a packet to this address is for this host, and whether that is a single host's; nothing where it is not.
    fn destination_kind(&self, address: Ipv6Addr) -> Option<bool> {
        let addresses = &self.ipv6.addresses;
        if address.is_multicast() {
            addresses.is_member(address).then_some(false)
        } else {
            addresses.is_ours(address).then_some(true)
        }
    }
}

impl<R: Recorder> Active<'_, R> {
    pub(crate) fn ipv6_input(&mut self, frame: Frame, link_unicast: bool) {
        if !self.stack.ipv6.is_on() {
            return self.drop_frame(frame.id, Drop::UnknownProtocol);
        }
        let packet = &self.pool.frame(&frame)[ethernet::HEADER_LEN..];
        let header = match ipv6::Header::parse(packet) {
            Ok(header) => header,
            Err(_) => return self.drop_frame(frame.id, Drop::Malformed),
        };
        let source = header.source;
        let from_host = source.is_unspecified()
            || is_unicast(source) && !self.stack.ipv6.addresses.is_ours(source);
        let Some(unicast) = self
            .stack
            .destination_kind(header.destination)
            .filter(|_| from_host)
        else {
            return self.drop_frame(frame.id, Drop::NotForUs);
        };
        let mut arrived = Arrived {
            header,
            unicast: unicast && link_unicast,
            fragmented: false,
            router_alert: false,
        };
        let payload = &packet[ipv6::HEADER_LEN..][..usize::from(header.payload_len)];
        match follow(header.next_header, payload, false) {
            Ok(chain) => match chain.fragment {
                Some(fragment) => self.fragment_input_v6(&arrived, chain, fragment, frame),
                None => {
                    arrived.fragmented = chain.was_atomic;
                    arrived.router_alert = chain.router_alert;
                    self.ipv6_packet(&arrived, chain, frame);
                }
            },
            Err(refusal) => {
                self.refuse(&arrived, refusal, &frame);
                self.drop_frame(frame.id, Drop::Malformed);
            }
        }
    }

    /// Tells the sender of a packet what is wrong with its extension headers, if it is to be told.
    pub(super) fn refuse(&mut self, arrived: &Arrived, refusal: Refusal, frame: &Frame) {
        let Refusal::Problem {
            code,
            pointer,
            also_group,
        } = refusal
        else {
            return;
        };
        if arrived.unicast || also_group {
            let problem = Message::ParameterProblem { code, pointer };
            self.icmpv6_error_about_frame(arrived, frame, problem);
        }
    }

    /// A whole packet in one frame.
    fn ipv6_packet(&mut self, arrived: &Arrived, chain: Chain, frame: Frame) {
        let at = ethernet::HEADER_LEN + ipv6::HEADER_LEN + chain.offset;
        let len = usize::from(arrived.header.payload_len) - chain.offset;
        let header = &arrived.header;
        match chain.protocol {
            protocol::TCP if arrived.unicast && !header.source.is_unspecified() => {
                let ends = (header.source, header.destination);
                self.segment_in_frame(ends.into(), (frame, header.traffic_class), at, len, true);
            }
            protocol::TCP => self.drop_frame(frame.id, Drop::NotForUs),
            protocol::UDP => {
                if !self.udp_input_frame_v6(header, &frame, (at, len)) && arrived.unicast {
                    let reason = Message::DestinationUnreachable(Unreachable::Port);
                    self.icmpv6_error_about_frame(arrived, &frame, reason);
                }
                self.pool.release(frame.id);
            }
            protocol::ICMP => {
                let bytes = self.take_ipv6_payload(&frame, at, len);
                self.icmpv6_input(arrived, &bytes);
                self.stack.scratch = bytes;
                self.pool.release(frame.id);
            }
            protocol::NO_NEXT_HEADER => self.pool.release(frame.id),
            _ => {
                if arrived.unicast {
                    let problem = Message::ParameterProblem {
                        code: 1,
                        pointer: chain.named_at as u32,
                    };
                    self.icmpv6_error_about_frame(arrived, &frame, problem);
                }
                self.drop_frame(frame.id, Drop::UnknownProtocol);
            }
        }
    }

    /// Copies what a packet carries into the stack's scratch room.
    fn take_ipv6_payload(&mut self, frame: &Frame, at: usize, len: usize) -> Vec<u8> {
        let mut bytes = mem::take(&mut self.stack.scratch);
        bytes.clear();
        bytes.extend_from_slice(&self.pool.frame(frame)[at..at + len]);
        bytes
    }
}
