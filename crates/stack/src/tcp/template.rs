//! Headers from a template (Clark et al. 1989, "An Optimization Example").
//!
//! The constant part of the headers of a connection's segments is made once. The first bytes of the link header and
//! the sums of the constant bytes lie in the TCB, the bytes that all connections share in the stack. Addresses and
//! ports are those of an incoming packet turned round. The rest is written over them segment by segment.

use super::tcb::{Tcb, flag};
use crate::buffer::PAYLOAD_OFFSET;
use crate::config::Config;
use crate::destinations::Destination;
use tollgate_checksum::{Accumulator, sum_header};
use tollgate_wire::SeqNumber;
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::tcp::{self, Flags, Timestamps};
use tollgate_wire::{ipv4, ipv6};

/// Bytes of Ethernet, IPv4 and TCP headers without options.
pub(crate) const PLAIN: usize = 54;
/// Bytes of all headers with the timestamp option.
pub(crate) const STAMPED: usize = 66;
/// Bytes of Ethernet, IPv6 and TCP headers without options, and with the timestamp option.
pub(crate) const PLAIN_V6: usize = 74;
pub(crate) const STAMPED_V6: usize = 86;

/// Offset of the TCP header behind Ethernet and a header of IPv4 without options.
pub(crate) const TCP: usize = 34;
/// Offset of the TCP header behind Ethernet and IPv6.
pub(crate) const TCP_V6: usize = 54;

/// Header bytes that all connections share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    /// Bytes 6 to 15: our link address, IPv4, version and type of service.
    pub(crate) link: [u8; 10],
    /// Bytes 8 to 13 of a frame with IPv6: the rest of our link address, and the type.
    link_v6: [u8; 6],
    /// Hop limit of packets of IPv6.
    hop_limit: u8,
    /// Bytes 20 to 23 as a number: don't fragment, TTL, protocol.
    rest: u64,
    /// Tells whether both checksums are made here.
    checksums: bool,
    /// Tells whether that of IP is, where that of TCP is not. Two fields, so that the first costs no more than alone.
    ip_checksum: bool,
}

impl Common {
    pub(crate) fn new(config: &Config) -> Self {
        let [a, b, c, d, e, f] = config.mac.0;
        let rest = u32::from_be_bytes([0x40, 0, config.ttl, ipv4::protocol::TCP]);
        Self {
            link: [a, b, c, d, e, f, 0x08, 0x00, 0x45, 0x00],
            link_v6: [c, d, e, f, 0x86, 0xdd],
            hop_limit: config.ttl,
            rest: u64::from(rest),
            checksums: config.sums_segments(),
            ip_checksum: config.mechanisms.checksum.sums_ip(),
        }
    }

    /// Sets the hop limit of packets of IPv6.
    pub(crate) const fn set_hop_limit(&mut self, hop_limit: u8) {
        self.hop_limit = hop_limit;
    }
}

/// Header fields that vary from segment to segment.
#[derive(Clone, Copy)]
pub(crate) struct Varying {
    pub(crate) seq: SeqNumber,
    pub(crate) flags: Flags,
    /// The tick, for the timestamp.
    pub(crate) tick: u32,
    /// Bytes of payload, as many as a segment holds.
    pub(crate) len: u32,
    /// Their sum.
    pub(crate) sum: Accumulator,
}

impl Tcb {
    /// The window as it goes on the wire. It is offered in steps of a segment or half the buffer (RFC 9293, 3.8.6.2.2) and never taken back.
    #[inline(always)]
    pub(in crate::tcp) fn offer_window(&mut self) -> u16 {
        let edge = self.rcv_nxt + self.rx_free;
        if edge.signed_distance(self.rcv_edge) >= i32::from(self.window_step) {
            self.rcv_edge = edge;
        }
        // The shift was chosen so that the buffer's size fits.
        ((self.rcv_edge - self.rcv_nxt) >> self.rcv_shift) as u16
    }
}

/// Writes what lies in front of the sequence number, checksums apart, for an IP packet of `total_len` bytes.
#[inline(always)]
pub(super) fn write_front<const N: usize>(
    head: &mut [u8; N],
    tcb: &Tcb,
    common: &Common,
    total_len: u32,
) {
    let put8 = |head: &mut [u8; N], at: usize, word: u64| {
        head[at..at + 8].copy_from_slice(&word.to_ne_bytes())
    };
    head[..8].copy_from_slice(&tcb.link);
    head[8..16].copy_from_slice(&common.link[2..]);
    // Length; identification zero, since the datagram is atomic (RFC 6864, 4.1); don't fragment; TTL; protocol.
    put8(head, 16, (u64::from(total_len) << 48 | common.rest).to_be());
    put8(head, 26, tcb.key.addresses().rotate_left(32));
    head[34..38].copy_from_slice(&tcb.key.ports.rotate_left(16).to_ne_bytes());
}

/// The first eight bytes of a connection's IPv6 headers without length and hop limit, in the order of this machine's numbers. They stand
/// in [`Tcb::link`].
pub(crate) const fn front_v6(label: u32) -> [u8; 8] {
    let word = 6 << 60 | (label as u64) << 32 | (ipv6::protocol::TCP as u64) << 8;
    word.to_ne_bytes()
}

/// The flow label in [`front_v6`].
const fn label_in(front: [u8; 8]) -> u32 {
    (u64::from_ne_bytes(front) >> 32) as u32 & ipv6::MAX_FLOW_LABEL
}

/// Writes what lies in front of the sequence number, checksum apart, for a segment of `tcp_len` bytes over IPv6.
#[inline(always)]
fn write_front_v6<const N: usize>(
    head: &mut [u8; N],
    tcb: &Tcb,
    common: &Common,
    destination: &Destination,
    tcp_len: u32,
) {
    // Version, label and protocol; length; hop limit.
    let word =
        u64::from_ne_bytes(tcb.link) | u64::from(tcp_len) << 16 | u64::from(common.hop_limit);
    head[..8].copy_from_slice(&destination.link);
    head[8..14].copy_from_slice(&common.link_v6);
    head[14..22].copy_from_slice(&word.to_be_bytes());
    // Addresses and ports are those of an incoming packet turned round.
    let (remote, local) = destination.ends.split_at(16);
    head[22..38].copy_from_slice(local);
    head[38..54].copy_from_slice(remote);
    head[54..58].copy_from_slice(&tcb.key.ports.rotate_left(16).to_ne_bytes());
}

/// Writes `N` bytes of headers, [`PLAIN`] or [`STAMPED`], from the template. The segment acknowledges everything.
#[inline(always)]
pub(crate) fn write<const N: usize>(
    head: &mut [u8; N],
    tcb: &mut Tcb,
    common: &Common,
    v: Varying,
) {
    write_at::<TCP, N>(head, tcb, common, None, v);
}

/// Writes `N` bytes of headers, [`PLAIN_V6`] or [`STAMPED_V6`], of a segment to a destination.
#[inline(always)]
pub(crate) fn write_v6<const N: usize>(
    head: &mut [u8; N],
    tcb: &mut Tcb,
    common: &Common,
    destination: &Destination,
    v: Varying,
) {
    write_at::<TCP_V6, N>(head, tcb, common, Some(destination), v);
}

/// Writes the headers of either version: of IPv6 for a destination, with `N` as [`write`] or [`write_v6`] has it.
#[inline(always)]
pub(crate) fn write_to<const N: usize>(
    head: &mut [u8; N],
    tcb: &mut Tcb,
    common: &Common,
    destination: Option<&Destination>,
    v: Varying,
) {
    match destination {
        None => write(head, tcb, common, v),
        Some(destination) => write_v6(head, tcb, common, destination, v),
    }
}

/// Writes the headers of a segment whose TCP header begins at `AT`: behind that of IPv4, or of IPv6 for a destination.
#[inline(always)]
fn write_at<const AT: usize, const N: usize>(
    head: &mut [u8; N],
    tcb: &mut Tcb,
    common: &Common,
    destination: Option<&Destination>,
    v: Varying,
) {
    let put4 = |head: &mut [u8; N], at: usize, word: u32| {
        head[at..at + 4].copy_from_slice(&word.to_ne_bytes())
    };
    let window = tcb.offer_window();
    let tcp_len = (N - AT) as u32 + v.len;
    let total_len = tcp_len + 20;
    match destination {
        None => write_front(head, tcb, common, total_len),
        Some(destination) => write_front_v6(head, tcb, common, destination, tcp_len),
    }

    let word = (((N - AT) / 4) as u32) << 28 | u32::from(v.flags.0) << 16 | u32::from(window);
    put4(head, AT + 4, v.seq.0.to_be());
    put4(head, AT + 8, tcb.rcv_nxt.0.to_be());
    put4(head, AT + 12, word.to_be());
    // Summed in host order: one byte swap for all.
    let mut sum =
        u64::from(v.seq.0) + u64::from(tcb.rcv_nxt.0) + u64::from(word) + u64::from(tcp_len);
    if N - AT == STAMPED - TCP {
        let value = v.tick.wrapping_add(tcb.ts_offset);
        put4(head, AT + 20, u32::from_ne_bytes(tcp::TIMESTAMP_LAYOUT));
        put4(head, AT + 24, value.to_be());
        put4(head, AT + 28, tcb.ts_recent.to_be());
        sum += u64::from(value) + u64::from(tcb.ts_recent);
    }
    let mut transport = [0; 2];
    let mut ip = [0; 2];
    if common.checksums {
        if AT == TCP {
            ip = tcb
                .ip_checksum
                .with_word((total_len as u16).to_be())
                .to_ne_bytes();
        }
        // Their sum is added with the fields', which leave room for it.
        sum += u64::from(tcb.tcp_sum.to_be());
        transport = Accumulator::from_be_sum(sum)
            .add(v.sum)
            .finish()
            .to_ne_bytes();
    } else if AT == TCP && common.ip_checksum {
        ip = tcb
            .ip_checksum
            .with_word((total_len as u16).to_be())
            .to_ne_bytes();
    }
    if AT == TCP {
        head[24..26].copy_from_slice(&ip);
    }
    // The urgent pointer is zero.
    put4(
        head,
        AT + 16,
        u32::from_ne_bytes([transport[0], transport[1], 0, 0]),
    );
    tcb.unacked = 0;
    tcb.ack_deadline = super::deadline::Deadline::NONE;
}

/// Writes headers without a template, over IPv6 for a destination and with a hop limit, each checksum summed anew: the baseline that a template is measured against.
pub(crate) fn write_field_by_field(
    bytes: &mut [u8],
    tcb: &mut Tcb,
    config: &Config,
    destination: Option<(&Destination, u8)>,
    v: Varying,
    checksum: bool,
) -> usize {
    let link = ethernet::Header {
        destination: MacAddr(tcb.link_address()),
        source: config.mac,
        ethertype: EtherType::Ipv4,
    };
    let window = tcb.offer_window();
    tcb.unacked = 0;
    tcb.ack_deadline = super::deadline::Deadline::NONE;
    let header = tcp::Header {
        source_port: tcb.local_port(),
        destination_port: tcb.remote_port(),
        seq: v.seq,
        ack: tcb.rcv_nxt,
        header_len: 0,
        flags: v.flags,
        window,
        urgent: 0,
        accurate_ecn: false,
        options: tcp::Options {
            timestamps: tcb.is(flag::TIMESTAMPS).then_some(Timestamps {
                value: v.tick.wrapping_add(tcb.ts_offset),
                echo: tcb.ts_recent,
            }),
            ..tcp::Options::default()
        },
    };
    let mut transport = [0; tcp::MAX_HEADER_LEN];
    let transport_len = header.emit(&mut transport);
    let tcp_len = transport_len as u16 + v.len as u16;
    if let Some((destination, hop_limit)) = destination {
        let (source, to) = (destination.local(), destination.remote());
        let ip = ipv6::Header {
            traffic_class: 0,
            flow_label: label_in(tcb.link),
            payload_len: tcp_len,
            next_header: ipv6::protocol::TCP,
            hop_limit,
            source,
            destination: to,
        };
        if checksum {
            let sum = ipv6::pseudo_header(source, to, ipv6::protocol::TCP, tcp_len.into())
                + sum_header(&transport[..transport_len])
                + v.sum.narrow();
            transport[16..18].copy_from_slice(&sum.finish().to_ne_bytes());
        }
        let link = ethernet::Header {
            ethertype: EtherType::Ipv6,
            ..link
        };
        let headers = TCP_V6 + transport_len;
        let start = PAYLOAD_OFFSET - headers;
        bytes[start..start + 14].copy_from_slice(&link.to_bytes());
        bytes[start + 14..start + TCP_V6].copy_from_slice(&ip.to_bytes());
        bytes[start + TCP_V6..start + headers].copy_from_slice(&transport[..transport_len]);
        return headers;
    }
    let ip = ipv4::Header {
        header_len: 20,
        tos: 0,
        total_len: 20 + tcp_len,
        identification: 0,
        flags_and_offset: ipv4::DONT_FRAGMENT,
        ttl: config.ttl,
        protocol: ipv4::protocol::TCP,
        source: tcb.local_ip(),
        destination: tcb.remote_ip(),
    };
    let headers = ethernet::HEADER_LEN + ipv4::HEADER_LEN + transport_len;
    let start = PAYLOAD_OFFSET - headers;
    if checksum {
        let sum = ipv4::pseudo_header(ip.source, ip.destination, ipv4::protocol::TCP, tcp_len)
            + sum_header(&transport[..transport_len])
            + v.sum.narrow();
        transport[16..18].copy_from_slice(&sum.finish().to_ne_bytes());
    }
    bytes[start..start + 14].copy_from_slice(&link.to_bytes());
    bytes[start + 14..start + 34].copy_from_slice(&ip.to_bytes());
    bytes[start + 34..start + 34 + transport_len].copy_from_slice(&transport[..transport_len]);
    headers
}
