//! Fragments of IPv6, in (RFC 8200, 4.5): what is checked of each, and what becomes of a packet that is whole again.
//!
//! An atomic fragment is none of these: it is handled as the packet that it is, apart from all others of its identification
//! (RFC 6946, 4). Neighbour discovery is not taken from fragments (RFC 6980, 5).

use super::icmp::MOST_QUOTED;
use super::input::Arrived;
use crate::buffer::Frame;
use crate::counters::Drop;
use crate::reassembly::{Datagram, Front, FrontV6, Reason};
use crate::stack::Active;
use alloc::vec::Vec;
use tollgate_gate::Recorder;
use tollgate_wire::icmpv6::{self, Message, Unreachable};
use tollgate_wire::ipv6::chain::{Chain, Refusal, follow};
use tollgate_wire::ipv6::{self, Fragment, protocol};
use tollgate_wire::{ethernet, tcp, udp};

/// Codes of a parameter problem: a field that is wrong (RFC 4443, 3.4), and a first fragment that ends before its headers do (RFC
/// 7112, 5).
const ERRONEOUS_FIELD: u8 = 0;
const INCOMPLETE_CHAIN: u8 = 3;
/// The place of the payload length, counted from the fixed header's beginning.
const PAYLOAD_LEN_AT: u32 = 4;

/// Bytes of an upper layer's header that a first fragment has to have.
const fn least_header(protocol: u8) -> usize {
    match protocol {
        protocol::TCP => tcp::HEADER_LEN,
        protocol::UDP => udp::HEADER_LEN,
        protocol::ICMP => icmpv6::HEADER_LEN,
        _ => 0,
    }
}

/// Tells whether a first fragment has all headers of its packet, to the upper layer's.
fn has_all_headers(next_header: u8, payload: &[u8]) -> bool {
    match follow(next_header, payload, true) {
        Ok(chain) => payload.len() - chain.offset >= least_header(chain.protocol),
        Err(Refusal::Incomplete) => false,
        // It is refused when it is whole.
        Err(Refusal::Silent | Refusal::Problem { .. }) => true,
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Takes a fragment whose extension headers `chain` has followed to `fragment`.
    pub(super) fn fragment_input_v6(
        &mut self,
        arrived: &Arrived,
        chain: Chain,
        fragment: Fragment,
        frame: Frame,
    ) {
        let at = ethernet::HEADER_LEN + ipv6::HEADER_LEN + chain.offset;
        let front = FrontV6 {
            header: arrived.header,
            fragment,
            extensions: (chain.offset - ipv6::FRAGMENT_LEN) as u16,
            protocol: chain.protocol,
            named_at: chain.named_at as u16,
            unicast: arrived.unicast,
        };
        if let Some((code, pointer)) = self.problem_of(&front, &frame, at) {
            if arrived.unicast {
                let problem = Message::ParameterProblem { code, pointer };
                self.icmpv6_error_about_frame(arrived, &frame, problem);
            }
            return self.drop_frame(frame.id, Drop::Reassembly);
        }
        if let Some(whole) = self.take_fragment(&Front::V6(front), frame, at) {
            self.gathered_input(arrived, whole);
        }
    }

    /// Code and pointer of what is wrong with a fragment, where its sender is told.
    fn problem_of(&self, front: &FrontV6, frame: &Frame, at: usize) -> Option<(u8, u32)> {
        match Front::V6(*front).check(frame, at as u16) {
            Err(Reason::Misaligned) => Some((ERRONEOUS_FIELD, PAYLOAD_LEN_AT)),
            Err(Reason::TooLong) => {
                // The field of the offset.
                let fragment_at = ipv6::HEADER_LEN + usize::from(front.extensions);
                Some((ERRONEOUS_FIELD, fragment_at as u32 + 2))
            }
            Err(_) => None,
            Ok(()) if front.fragment.offset != 0 => None,
            Ok(()) => {
                let headers = usize::from(front.extensions) + ipv6::FRAGMENT_LEN;
                let len = usize::from(front.header.payload_len) - headers;
                let part = &self.pool.frame(frame)[at..at + len];
                (!has_all_headers(front.protocol, part)).then_some((INCOMPLETE_CHAIN, 0))
            }
        }
    }

    /// A packet that was put together from fragments, the last of which has just arrived.
    fn gathered_input(&mut self, last: &Arrived, datagram: Datagram) {
        let Front::V6(front) = *datagram.front() else {
            return;
        };
        let mut quoted = self.headers_of(&front, &datagram);
        let bytes = self.gather(datagram);
        let room = MOST_QUOTED.saturating_sub(quoted.len());
        quoted.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let arrived = Arrived {
            header: front.header,
            unicast: last.unicast && front.unicast,
            fragmented: true,
            router_alert: false,
        };
        let extensions = u32::from(front.extensions);
        match follow(front.protocol, &bytes, true) {
            Ok(chain) if chain.fragment.is_some() => {
                self.stack.counters.dropped(Drop::Reassembly);
            }
            Ok(chain) => {
                let named_at = match chain.offset {
                    0 => u32::from(front.named_at),
                    _ => chain.named_at as u32 + extensions,
                };
                let payload = &bytes[chain.offset..];
                self.gathered_payload(&arrived, (chain.protocol, named_at), payload, &quoted);
            }
            Err(refusal) => {
                if let Refusal::Problem {
                    code,
                    pointer,
                    also_group,
                } = refusal
                    && (arrived.unicast || also_group)
                {
                    let pointer = pointer + extensions;
                    let problem = Message::ParameterProblem { code, pointer };
                    self.icmpv6_error(&arrived, &quoted, problem);
                }
                self.stack.counters.dropped(Drop::Malformed);
            }
        }
        self.stack.scratch = bytes;
    }

    /// Headers of the whole packet, up to where its fragmentable part begins, from the frame of its first fragment.
    fn headers_of(&self, front: &FrontV6, datagram: &Datagram) -> Vec<u8> {
        let mut headers = front.header.to_bytes().to_vec();
        if let Some(first) = datagram.fragments().first() {
            let start = ethernet::HEADER_LEN + ipv6::HEADER_LEN;
            let end = start + usize::from(front.extensions);
            let extensions = self.pool.frame(&first.frame).get(start..end);
            headers.extend_from_slice(extensions.unwrap_or_default());
        }
        if let Some(named) = headers.get_mut(usize::from(front.named_at)) {
            *named = front.protocol;
        }
        headers
    }

    /// The rest behind all extension headers of such a packet: of this protocol, which the byte at `named_at` names.
    fn gathered_payload(
        &mut self,
        arrived: &Arrived,
        (protocol, named_at): (u8, u32),
        payload: &[u8],
        quoted: &[u8],
    ) {
        let header = &arrived.header;
        let problem = match protocol {
            protocol::TCP if arrived.unicast && !header.source.is_unspecified() => {
                let ends = (header.source, header.destination);
                return self.tcp_input_gathered(ends.into(), header.traffic_class, payload);
            }
            protocol::TCP => return self.stack.counters.dropped(Drop::NotForUs),
            protocol::UDP if self.udp_input_v6(header, payload) => return,
            protocol::UDP => Message::DestinationUnreachable(Unreachable::Port),
            protocol::ICMP => return self.icmpv6_input(arrived, payload),
            protocol::NO_NEXT_HEADER => return,
            _ => {
                self.stack.counters.dropped(Drop::UnknownProtocol);
                Message::ParameterProblem {
                    code: 1,
                    pointer: named_at,
                }
            }
        };
        if arrived.unicast {
            self.icmpv6_error(arrived, quoted, problem);
        }
    }

    /// The time for a packet is up, whose first fragment lies in `frame`.
    pub(crate) fn fragment_timed_out_v6(&mut self, front: &FrontV6, frame: &Frame) {
        if front.unicast {
            let arrived = Arrived {
                header: front.header,
                unicast: true,
                fragmented: true,
                router_alert: false,
            };
            self.icmpv6_error_about_frame(&arrived, frame, Message::TimeExceeded(1));
        }
    }
}
