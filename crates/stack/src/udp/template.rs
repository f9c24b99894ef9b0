//! Output, predicted: datagrams to a destination that was sent to before, their headers from a template (Clark et al. 1989).
//!
//! A template is made of the address that is sent from, the route, the next hop's link address, the MTU and the socket's checksum
//! policy. It is made when a second datagram goes to a destination, so that whoever sends one to each of many pays for none. It serves while
//! these stay what they are: [`Stack::forget_templates`](crate::Stack) says when they change, and time is told by the neighbour
//! cache, which has to see that a neighbour is used ([`Cache::certain`](crate::neighbour::Cache::certain)). So a predicted datagram is
//! the one that would be sent in general.

use super::header::{HEADERS, HEADERS_V6};
use super::{UNNUMBERED, UdpId, checksum};
use crate::buffer::{Frame, FrameId, PAYLOAD_OFFSET, Pool, RxChecksum, Taken};
use crate::config::{ChecksumPolicy, HeaderTemplate, LanEvidence};
use crate::stack::{Active, Stack};
use crate::tcp::isn::Identifications;
use crate::tcp::slow::redundancy::SocketChecksums;
use crate::time::Instant;
use core::hint::cold_path;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use tollgate_checksum::{Accumulator, Partial, sum_header};
use tollgate_gate::{Gate, Recorder};
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::{ipv4, ipv6, udp};

/// Headers of a socket's datagrams to a destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Template {
    /// The headers with lengths, identification and checksums zero: of IPv4 the first [`HEADERS`] bytes, of IPv6 all.
    head: [u8; HEADERS_V6],
    /// Tells whether datagrams have a checksum.
    summed: bool,
    /// Bytes of payload that one packet holds.
    limit: u16,
    /// The sum of the IPv4 header, and that of pseudo-header and UDP header.
    ip_sum: Partial,
    sum: Partial,
    /// Of packets between the two addresses of IPv4.
    identifications: Identifications,
    /// The version of the stack's addresses and routes that it was made of.
    version: u32,
    /// It serves before this time.
    until: Instant,
    /// The address that the caller has named to send from.
    local: Option<IpAddr>,
}

impl Template {
    /// One that never serves.
    pub(super) const NONE: Self = Self {
        head: [0; HEADERS_V6],
        summed: true,
        limit: 0,
        ip_sum: Partial::ZERO,
        sum: Partial::ZERO,
        identifications: Identifications::NONE,
        version: 0,
        until: Instant::ZERO,
        local: None,
    };

    /// Writes the headers of a datagram of `len` bytes with the sum `sum`, which are `N` bytes.
    #[inline(always)]
    fn write<const N: usize>(
        &self,
        head: &mut [u8; N],
        len: u16,
        identification: u16,
        sum: Accumulator,
    ) {
        const { assert!(N == HEADERS || N == HEADERS_V6) };
        if let Some(front) = self.head.first_chunk::<N>() {
            *head = *front;
        }
        let len = len + udp::HEADER_LEN as u16;
        if N == HEADERS {
            let total_len = len + ipv4::HEADER_LEN as u16;
            let word = u32::from(total_len) << 16 | u32::from(identification);
            let ip = Accumulator::from_be_sum(word.into()).add_partial(self.ip_sum);
            head[16..20].copy_from_slice(&word.to_be_bytes());
            head[24..26].copy_from_slice(&ip.finish().to_ne_bytes());
        } else {
            head[18..20].copy_from_slice(&len.to_be_bytes());
        }
        head[N - 4..N - 2].copy_from_slice(&len.to_be_bytes());
        if self.summed {
            // The length stands in the pseudo-header, too.
            let sum = Accumulator::from_be_sum(2 * u64::from(len))
                .add(sum)
                .add_partial(self.sum);
            head[N - 2..].copy_from_slice(&checksum(sum.narrow()));
        }
    }
}

impl Stack {
    /// Sends a datagram when it is predicted; says whether it was, and has changed nothing otherwise.
    #[inline(always)]
    pub(super) fn send_datagram_predicted<R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        rec: R,
        id: UdpId,
        (local, to): (Option<IpAddr>, &SocketAddr),
        payload: &[u8],
    ) -> bool {
        if to.is_ipv4() {
            self.send_datagram_predicted_as::<HEADERS, R>(pool, now, rec, id, (local, to), payload)
        } else {
            self.send_datagram_predicted_as::<HEADERS_V6, R>(
                pool,
                now,
                rec,
                id,
                (local, to),
                payload,
            )
        }
    }

    /// Sends it with `N` bytes of headers, [`HEADERS`] or [`HEADERS_V6`].
    #[inline(never)]
    fn send_datagram_predicted_as<const N: usize, R: Recorder>(
        &mut self,
        pool: &mut Pool,
        now: Instant,
        mut rec: R,
        id: UdpId,
        (local, to): (Option<IpAddr>, &SocketAddr),
        payload: &[u8],
    ) -> bool {
        let version = self.udp.version;
        let Ok(socket) = self.udp.get(id) else {
            cold_path();
            return false;
        };
        let Some(destination) = socket.destination(to) else {
            cold_path();
            return false;
        };
        let template = &destination.template;
        if now >= template.until
            || template.version != version
            || template.local != local
            || payload.len() > usize::from(template.limit)
            || self.device.len() >= self.config.device_queue
        {
            cold_path();
            return false;
        }
        let Some(Taken {
            id,
            meta,
            head,
            payload: room,
        }) = pool.take::<N>(FrameId::NONE, payload.len())
        else {
            cold_path();
            return false;
        };
        meta.refs = 1;
        let sum = if template.summed {
            self.compiled.kernel.copy_and_accumulate(room, payload)
        } else {
            room.copy_from_slice(payload);
            Accumulator::ZERO
        };
        rec.pass(Gate::TcpOutBegin, UNNUMBERED);
        let identification = if N == HEADERS {
            self.secrets.next_of(template.identifications)
        } else {
            0
        };
        let len = payload.len() as u16;
        rec.pass(Gate::ChecksumOutBegin, UNNUMBERED);
        template.write(head, len, identification, sum);
        rec.pass(Gate::ChecksumOutEnd, UNNUMBERED);
        destination.last = now;
        rec.pass(Gate::IpOutBegin, UNNUMBERED);
        self.device.push(Frame {
            id,
            offset: (PAYLOAD_OFFSET - N) as u16,
            len: N as u16 + len,
            checksum: RxChecksum::Unknown,
        });
        rec.pass(Gate::DeviceQueueIn, UNNUMBERED);
        true
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Makes the template of datagrams to a destination over IPv4 that one was just sent to, if they have anything in common.
    #[cold]
    pub(super) fn prepare_datagrams_v4(
        &mut self,
        id: UdpId,
        (local, source): (Option<IpAddr>, Ipv4Addr),
        to: SocketAddrV4,
    ) {
        let Ok(socket) = self.stack.udp.get(id) else {
            return;
        };
        let (port, wish) = (socket.port, socket.checksums);
        let mechanisms = &self.stack.config.mechanisms;
        // Whether a neighbour has proven to be on the same LAN is looked at for each datagram.
        let is_proven_each_time = wish == SocketChecksums::Policy
            && mechanisms.checksum == ChecksumPolicy::RedundancyAvoidance
            && mechanisms.lan_evidence == LanEvidence::SpanningTree;
        let next_hop = self.next_hop(*to.ip());
        if mechanisms.template != HeaderTemplate::On
            || is_proven_each_time
            || self.stack.is_broadcast(next_hop)
        {
            return;
        }
        let Some((mac, until)) = self.stack.neighbours.certain(next_hop, self.now) else {
            return;
        };
        let ip = ipv4::Header {
            total_len: 0,
            ..self.ip_header(ipv4::protocol::UDP, (source, *to.ip()), 0, 0)
        };
        let mut ip = ip.to_bytes();
        ip[10..12].fill(0);
        let datagram = header_to(port, to.port());
        let pseudo = ipv4::pseudo_header(source, *to.ip(), ipv4::protocol::UDP, 0);
        let mut template = Template {
            summed: !self.leaves_checksum_out(wish, *to.ip()),
            limit: (self.ip_payload_limit() - udp::HEADER_LEN) as u16,
            ip_sum: sum_header(&ip),
            sum: pseudo + sum_header(&datagram),
            identifications: self.stack.secrets.identifications(
                source,
                *to.ip(),
                ipv4::protocol::UDP,
            ),
            version: self.stack.udp.version,
            until,
            local,
            ..Template::NONE
        };
        let link = self.link_header_to(mac, EtherType::Ipv4);
        write_parts(&mut template.head, [&link, &ip, &datagram]);
        self.keep_template(id, to.into(), template);
    }

    /// Makes the template of datagrams to a destination over IPv6 that one was just sent to, if they have anything in common.
    #[cold]
    pub(super) fn prepare_datagrams_v6(
        &mut self,
        id: UdpId,
        (local, source): (Option<IpAddr>, Ipv6Addr),
        to: (Ipv6Addr, u16),
    ) {
        let Ok(socket) = self.stack.udp.get(id) else {
            return;
        };
        let port = socket.port;
        if self.stack.config.mechanisms.template != HeaderTemplate::On || to.0.is_multicast() {
            return;
        }
        let Some(next_hop) = self.first_hop(to.0, source) else {
            return;
        };
        let Some((mac, until)) = self.stack.neighbours6.certain(next_hop, self.now) else {
            return;
        };
        // An address becomes ours or deprecated, and another one the source.
        let until = match self.stack.ipv6.addresses.next() {
            Some(next) => until.min(next),
            None => until,
        };
        let ip = ipv6::Header {
            traffic_class: 0,
            flow_label: self.flow_label((source, to.0), (port, to.1)),
            payload_len: 0,
            next_header: ipv6::protocol::UDP,
            hop_limit: self.stack.ipv6.hop_limit,
            source,
            destination: to.0,
        };
        let datagram = header_to(port, to.1);
        let pseudo = ipv6::pseudo_header(source, to.0, ipv6::protocol::UDP, 0);
        let mut template = Template {
            limit: (self.ipv6_payload_limit((source, to.0)) - udp::HEADER_LEN) as u16,
            sum: pseudo + sum_header(&datagram),
            version: self.stack.udp.version,
            until,
            local,
            ..Template::NONE
        };
        let link = self.link_header_to(mac, EtherType::Ipv6);
        write_parts(&mut template.head, [&link, &ip.to_bytes(), &datagram]);
        self.keep_template(id, to.into(), template);
    }

    fn link_header_to(&self, mac: MacAddr, ethertype: EtherType) -> [u8; ethernet::HEADER_LEN] {
        let header = ethernet::Header {
            destination: mac,
            source: self.stack.config.mac,
            ethertype,
        };
        header.to_bytes()
    }

    fn keep_template(&mut self, id: UdpId, to: SocketAddr, template: Template) {
        let socket = self.stack.udp.get(id);
        if let Some(destination) = socket.ok().and_then(|socket| socket.destination(&to)) {
            destination.template = template;
        }
    }
}

/// The UDP header between two ports, without length and checksum.
fn header_to(source_port: u16, destination_port: u16) -> [u8; udp::HEADER_LEN] {
    let header = udp::Header {
        source_port,
        destination_port,
        len: 0,
        no_checksum: true,
    };
    header.to_bytes()
}

/// Writes headers one behind the other.
fn write_parts(head: &mut [u8; HEADERS_V6], parts: [&[u8]; 3]) {
    let mut at = 0;
    for part in parts {
        head[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}
