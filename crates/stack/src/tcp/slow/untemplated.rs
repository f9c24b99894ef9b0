//! Segments that the template does not serve: those of no connection, SYNs, and acknowledgments with more options.
//!
//! Owns how headers are written field by field, in front of a payload or alone, and by which way such a segment goes. It must never
//! look at what a segment means.

use crate::buffer::{Frame, FrameId, PAYLOAD_OFFSET, RxChecksum};
use crate::counters::Drop;
use crate::demux::FlowKey;
use crate::stack::Active;
use crate::tcp::tcb::rare;
use core::net::Ipv4Addr;
use tollgate_checksum::{Partial, sum_header};
use tollgate_gate::Recorder;
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::ipv4;
use tollgate_wire::source_route::SourceRoute;
use tollgate_wire::tcp::{self, Header};

/// Route of a segment without a template to its receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    to: To,
    by: By,
}

/// Payload of a segment that the template does not serve, in its place in a frame, which the segment takes over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body {
    pub(crate) id: FrameId,
    pub(crate) len: u16,
}

/// From which address to which a segment goes, and by way of whom.
#[derive(Clone, Copy, Debug)]
enum To {
    V4 {
        local: Ipv4Addr,
        remote: Ipv4Addr,
        next_hop: Ipv4Addr,
        /// The next hop's link address, when it need not be looked up.
        link: Option<[u8; 6]>,
    },
    /// The pair of addresses, which has a next hop.
    V6(u32),
}

/// By which way, and with what in its headers that few have.
#[derive(Clone, Copy, Debug)]
enum By {
    /// The route of most segments.
    Straight,
    /// The way back of the packet that is being answered, if it names one.
    Return,
    /// The route of this connection's segments, which are amended.
    Own(usize),
}

impl<R: Recorder> Active<'_, R> {
    /// Sends a segment without payload that the template does not serve.
    pub(crate) fn send_header(&mut self, way: Way, header: &Header) {
        self.send_segment(way, header, None);
    }

    /// Sends a segment that the template does not serve, with payload or without.
    pub(in crate::tcp) fn send_segment(&mut self, way: Way, header: &Header, body: Option<Body>) {
        if !self.device_has_room() {
            self.stack.counters.dropped(Drop::DeviceQueueFull);
            if let Some(body) = body {
                self.pool.release(body.id);
            }
            return;
        }
        let Way { to, by } = way;
        let (local, remote, next_hop, link) = match to {
            To::V4 {
                local,
                remote,
                next_hop,
                link,
            } => (local, remote, next_hop, link),
            To::V6(pair) => {
                if let Some(frame) = self.header_frame_v6(pair, header, body) {
                    let frame = match by {
                        By::Own(index) => self.amend(index, frame),
                        By::Straight | By::Return => frame,
                    };
                    self.hand_to_destination(pair, frame);
                }
                return;
            }
        };
        let Some(id) = body.map(|body| body.id).or_else(|| self.pool.alloc()) else {
            self.stack.counters.dropped(Drop::NoFrame);
            return;
        };
        let payload = body.map_or(0, |body| body.len);
        let mut segment = [0; tcp::MAX_HEADER_LEN];
        let len = header.emit(&mut segment);
        let sum = ipv4::pseudo_header(local, remote, ipv4::protocol::TCP, len as u16 + payload)
            + sum_header(&segment[..len])
            + self.sum_of(body);
        segment[16..18].copy_from_slice(&sum.finish().to_ne_bytes());
        let ip = ipv4::Header {
            header_len: 20,
            tos: 0,
            total_len: 20 + len as u16 + payload,
            identification: 0,
            flags_and_offset: ipv4::DONT_FRAGMENT,
            ttl: self.stack.config.ttl,
            protocol: ipv4::protocol::TCP,
            source: local,
            destination: remote,
        };
        let start = PAYLOAD_OFFSET - 34 - len;
        let bytes = &mut self.pool.bytes_mut(id)[start..PAYLOAD_OFFSET];
        if let Some(link) = link {
            bytes[..6].copy_from_slice(&link);
            bytes[6..16].copy_from_slice(&self.stack.template.link);
        } else {
            let ethernet = ethernet::Header {
                destination: MacAddr::default(),
                source: self.stack.config.mac,
                ethertype: EtherType::Ipv4,
            };
            bytes[..14].copy_from_slice(&ethernet.to_bytes());
        }
        bytes[14..34].copy_from_slice(&ip.to_bytes());
        bytes[34..34 + len].copy_from_slice(&segment[..len]);
        let frame = Frame {
            id,
            offset: start as u16,
            len: 34 + len as u16 + payload,
            checksum: RxChecksum::Unknown,
        };
        let frame = match (by, &self.stack.return_route) {
            (By::Own(index), _) => self.amend(index, frame),
            (By::Return, Some(route)) => {
                let route = *route;
                self.set_out(&route, frame)
            }
            (By::Straight, _) | (By::Return, None) => frame,
        };
        if link.is_some() {
            self.stack.device.push(frame);
        } else {
            self.link_output(next_hop, frame);
        }
    }

    /// The sum of a payload, which headers lie in front of.
    pub(crate) fn sum_of(&self, body: Option<Body>) -> Partial {
        let Some(Body { id, len }) = body else {
            return Partial::ZERO;
        };
        let payload = &self.pool.bytes(id)[PAYLOAD_OFFSET..][..usize::from(len)];
        self.stack.compiled.kernel.sum(payload)
    }

    /// Sends a segment without payload to where `key`'s packets come from.
    pub(crate) fn send_unconnected(&mut self, key: FlowKey, header: &Header) {
        let to = match key.pair() {
            Some(pair) => To::V6(pair),
            None => {
                let remote = Ipv4Addr::from(key.remote.to_ne_bytes());
                let first = self.stack.return_route.as_ref().map(SourceRoute::first);
                To::V4 {
                    local: Ipv4Addr::from(key.local.to_ne_bytes()),
                    remote,
                    next_hop: self.next_hop(first.unwrap_or(remote)),
                    link: None,
                }
            }
        };
        let by = By::Return;
        self.send_header(Way { to, by }, header);
    }

    /// The way of a connection's segments.
    pub(crate) fn way_of(&self, index: usize) -> Way {
        let tcb = &self.stack.tcbs[index];
        let by = if tcb.is_rare(rare::AMENDED) {
            By::Own(index)
        } else {
            By::Straight
        };
        let to = match tcb.key.pair() {
            Some(pair) => To::V6(pair),
            None => To::V4 {
                local: tcb.local_ip(),
                remote: tcb.remote_ip(),
                next_hop: tcb.next_hop,
                link: tcb.known_link(),
            },
        };
        Way { to, by }
    }
}
