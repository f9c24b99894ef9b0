//! Frames made by hand: what an attacker, or a peer that follows a script, puts on the wire.

use std::net::Ipv4Addr;
use tollgate_checksum::sum_header;
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::tcp::{Flags, Header, MAX_HEADER_LEN, Options};
use tollgate_wire::{SeqNumber, ipv4};

/// An Ethernet frame around an IP packet.
pub fn ethernet(to: MacAddr, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let header = ethernet::Header {
        destination: to,
        source: MacAddr([2, 0, 0, 0, 0, 99]),
        ethertype,
    };
    [&header.to_bytes(), payload].concat()
}

/// An IP packet, whole or the fragment that `flags_and_offset` says, in a frame.
pub fn ip(
    to_mac: MacAddr,
    from: Ipv4Addr,
    to: Ipv4Addr,
    protocol: u8,
    identification: u16,
    flags_and_offset: u16,
    payload: &[u8],
) -> Vec<u8> {
    let header = ipv4::Header {
        header_len: 20,
        tos: 0,
        total_len: (20 + payload.len()) as u16,
        identification,
        flags_and_offset,
        ttl: 64,
        protocol,
        source: from,
        destination: to,
    };
    ethernet(
        to_mac,
        EtherType::Ipv4,
        &[&header.to_bytes(), payload].concat(),
    )
}

/// A TCP segment with no options.
pub fn header(from: u16, to: u16, flags: Flags, seq: SeqNumber, ack: SeqNumber) -> Header {
    Header {
        source_port: from,
        destination_port: to,
        seq,
        ack,
        header_len: 0,
        flags,
        window: 65_535,
        urgent: 0,
        accurate_ecn: false,
        options: Options::default(),
    }
}

/// A TCP segment with right checksums in a frame.
pub fn tcp(
    to_mac: MacAddr,
    from: Ipv4Addr,
    to: Ipv4Addr,
    header: &Header,
    payload: &[u8],
) -> Vec<u8> {
    let mut bytes = [0; MAX_HEADER_LEN];
    let len = header.emit(&mut bytes);
    let mut segment = [&bytes[..len], payload].concat();
    let sum = ipv4::pseudo_header(from, to, ipv4::protocol::TCP, segment.len() as u16)
        + sum_header(&segment);
    segment[16..18].copy_from_slice(&sum.finish().to_ne_bytes());
    ip(
        to_mac,
        from,
        to,
        ipv4::protocol::TCP,
        0,
        ipv4::DONT_FRAGMENT,
        &segment,
    )
}

/// An ICMP message with a right checksum in a frame: `head` is the header with a zero checksum.
pub fn icmp(to_mac: MacAddr, from: Ipv4Addr, to: Ipv4Addr, head: [u8; 8], data: &[u8]) -> Vec<u8> {
    let mut message = [&head[..], data].concat();
    let sum = sum_header(&message);
    message[2..4].copy_from_slice(&sum.finish().to_ne_bytes());
    ip(to_mac, from, to, ipv4::protocol::ICMP, 1, 0, &message)
}

/// The parts of a frame, when it is a TCP segment: addresses, header, payload.
pub fn parse_tcp(frame: &[u8]) -> Option<(ipv4::Header, Header, Vec<u8>)> {
    let packet = frame.get(ethernet::HEADER_LEN..)?;
    let ip = ipv4::Header::parse(packet).ok()?;
    if ip.protocol != ipv4::protocol::TCP {
        return None;
    }
    let segment = &packet[usize::from(ip.header_len)..usize::from(ip.total_len)];
    let header = Header::parse(segment).ok()?;
    Some((
        ip,
        header,
        segment[usize::from(header.header_len)..].to_vec(),
    ))
}
