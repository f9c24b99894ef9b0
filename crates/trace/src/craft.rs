//! Packets and files for tests.

use std::net::{Ipv4Addr, Ipv6Addr};

use tollgate_wire::ipv4::{Header, protocol};
use tollgate_wire::tcp::{self, Flags};
use tollgate_wire::{SeqNumber, udp};

pub const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// A TCP segment of `size` bytes of user data.
pub fn segment(ports: (u16, u16), seq: u32, flags: Flags, size: usize) -> Vec<u8> {
    let mut head = [0; tcp::MAX_HEADER_LEN];
    let header = tcp::Header {
        source_port: ports.0,
        destination_port: ports.1,
        seq: SeqNumber(seq),
        ack: SeqNumber(0),
        header_len: 20,
        flags,
        window: 1_000,
        urgent: 0,
        accurate_ecn: false,
        options: tcp::Options::default(),
    };
    let len = header.emit(&mut head);
    let mut out = head[..len].to_vec();
    out.resize(len + size, 0xda);
    out
}

/// A UDP datagram of `size` bytes of user data.
pub fn udp(ports: (u16, u16), size: usize) -> Vec<u8> {
    let header = udp::Header {
        source_port: ports.0,
        destination_port: ports.1,
        len: (8 + size) as u16,
        no_checksum: true,
    };
    let mut out = header.to_bytes().to_vec();
    out.resize(8 + size, 0xda);
    out
}

/// An IPv4 packet from A to B, or from B to A.
pub fn ipv4(from_a: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
    fragment(from_a, protocol, payload, 0, 0)
}

/// A part of a datagram; `word` is the flags and the offset in units of 8 bytes.
pub fn fragment(
    from_a: bool,
    protocol: u8,
    payload: &[u8],
    word: u16,
    identification: u16,
) -> Vec<u8> {
    let (source, destination) = if from_a { (A, B) } else { (B, A) };
    let header = Header {
        header_len: 20,
        tos: 0,
        total_len: (20 + payload.len()) as u16,
        identification,
        flags_and_offset: word,
        ttl: 64,
        protocol,
        source,
        destination,
    };
    [&header.to_bytes()[..], payload].concat()
}

/// An IPv6 packet.
pub fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x60, 0, 0, 0];
    out.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    out.extend_from_slice(&[next_header, 64]);
    out.extend_from_slice(&Ipv6Addr::from(1).octets());
    out.extend_from_slice(&Ipv6Addr::from(2).octets());
    [&out[..], payload].concat()
}

pub fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![2; 12];
    out.extend_from_slice(&ethertype.to_be_bytes());
    [&out[..], payload].concat()
}

/// A frame with a TCP segment from A to B, or from B to A.
pub fn tcp_frame(from_a: bool, seq: u32, flags: Flags, size: usize) -> Vec<u8> {
    let ports = if from_a { (1_000, 80) } else { (80, 1_000) };
    let payload = segment(ports, seq, flags, size);
    ethernet(0x0800, &ipv4(from_a, protocol::TCP, &payload))
}

/// The header of a pcap file with microseconds, of this link type.
pub fn pcap_header(link: u32, swapped: bool) -> Vec<u8> {
    // The versions are halves of a word: 2 comes first in either order.
    let version = if swapped { 0x0002_0004 } else { 0x0004_0002 };
    let words = [0xa1b2_c3d4_u32, version, 0, 0, 65_535, link];
    let bytes = |word: u32| {
        if swapped {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        }
    };
    words.into_iter().flat_map(bytes).collect()
}

/// The first record's time, in seconds.
pub const EPOCH: u32 = 1_700_000_000;

/// A record of a pcap file, captured `ms` milliseconds after [`EPOCH`]; `cut` bytes of the packet were not captured.
pub fn pcap_record(ms: u32, packet: &[u8], cut: usize, swapped: bool) -> Vec<u8> {
    let captured = packet.len() - cut;
    let words = [
        EPOCH + ms / 1_000,
        ms % 1_000 * 1_000,
        captured as u32,
        packet.len() as u32,
    ];
    let bytes = |word: u32| {
        if swapped {
            word.to_be_bytes()
        } else {
            word.to_le_bytes()
        }
    };
    let mut out: Vec<u8> = words.into_iter().flat_map(bytes).collect();
    out.extend_from_slice(&packet[..captured]);
    out
}

/// A pcap file of Ethernet with these packets, a millisecond apart.
pub fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut out = pcap_header(1, false);
    for (at, packet) in packets.iter().enumerate() {
        out.extend_from_slice(&pcap_record(at as u32, packet, 0, false));
    }
    out
}

/// A block of a pcapng file.
pub fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let len = (body.len() + 12) as u32;
    let mut out = kind.to_le_bytes().to_vec();
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&body);
    out.extend_from_slice(&len.to_le_bytes());
    out
}

pub fn section() -> Vec<u8> {
    let mut body = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    body.extend_from_slice(&[1, 0, 0, 0]);
    body.extend_from_slice(&u64::MAX.to_le_bytes());
    block(0x0a0d_0d0a, &body)
}

/// An interface of this link type, with these options.
pub fn interface(link: u16, options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body = link.to_le_bytes().to_vec();
    body.extend_from_slice(&[0, 0, 0, 0, 0, 0]);
    for (code, value) in options {
        body.extend_from_slice(&code.to_le_bytes());
        body.extend_from_slice(&(value.len() as u16).to_le_bytes());
        body.extend_from_slice(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    block(1, &body)
}

/// A packet of this interface, with a time in the interface's unit.
pub fn enhanced(interface: u32, time: u64, packet: &[u8]) -> Vec<u8> {
    let len = packet.len() as u32;
    let words = [interface, (time >> 32) as u32, time as u32, len, len];
    let mut body: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    body.extend_from_slice(packet);
    block(6, &body)
}
