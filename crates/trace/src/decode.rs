//! From a captured packet to the datagram in it, and from a datagram to its ports and its user data.
//!
//! Lengths are those of the headers, so that a packet of which only the front was captured counts whole. Must never keep a
//! reference to the packet.

use std::net::IpAddr;

use tollgate_wire::ethernet::{self, EtherType};
use tollgate_wire::tcp::Flags;
use tollgate_wire::{Malformed, SeqNumber, cooked, ipv4, ipv6, tcp, udp, vlan};

use crate::capture::{LinkType, Packet};
use crate::rows::{End, Protocol};

/// The reason why there is no message in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// Its link type is not known.
    LinkType(LinkType),
    /// It carries no IP.
    NotIp,
    /// It carries neither TCP nor UDP.
    Protocol,
    /// Its headers contradict themselves.
    Malformed,
    /// Its headers were not captured whole.
    HeadersCut,
}

impl From<Malformed> for Ignored {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::Truncated => Self::HeadersCut,
            Malformed::Version
            | Malformed::Length
            | Malformed::Field
            | Malformed::Option
            | Malformed::Check => Self::Malformed,
        }
    }
}

/// Part of a datagram that a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentRange {
    /// Identification that the fragments of one datagram have in common, besides addresses and protocol.
    pub identification: u32,
    /// The offset in the datagram's payload, in bytes.
    pub offset: u16,
    /// Tells whether more parts follow.
    pub more: bool,
}

/// An IP datagram, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// IANA's number of the protocol.
    pub protocol: u8,
    /// From whom.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// Captured bytes of the payload.
    pub payload: &'a [u8],
    /// Bytes of the payload on the wire.
    pub len: u32,
    /// Anomaly of its length, which all lengths within it follow.
    pub anomaly: Option<LengthAnomaly>,
    /// The part of a datagram, when it is not all of it.
    pub part: Option<FragmentRange>,
}

/// Anomaly of a datagram's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthAnomaly {
    /// IP names more than the frame held on the wire: the payload ends with the frame.
    BeyondFrame,
    /// It is longer than IP's own field can say (RFC 2675).
    Jumbogram,
}

/// Header that a host's loopback interface writes in front of IPv4 and of IPv6: the number of the address family.
/// That is 2 everywhere for the first. For the second it is 10 on Linux, 24 on NetBSD and OpenBSD, 28 on FreeBSD and
/// 30 on macOS.
const FAMILY_IPV4: u32 = 2;
const FAMILIES_IPV6: [u32; 4] = [10, 24, 28, 30];
const ETHERTYPE_IPV4: u16 = 0x0800;

/// The datagram in a packet.
#[inline]
pub fn datagram<'a>(packet: &Packet<'a>) -> Result<Datagram<'a>, Ignored> {
    let bytes = packet.bytes;
    let (ethertype, header_len) = match packet.link {
        LinkType::Ethernet => match ethernet::Header::parse(bytes)?.ethertype {
            EtherType::Ipv4 => (ETHERTYPE_IPV4, ethernet::HEADER_LEN),
            other => tagged(other.to_u16(), bytes, ethernet::HEADER_LEN)?,
        },
        LinkType::CookedV1 => tagged(cooked::v1_protocol(bytes)?, bytes, cooked::V1_LEN)?,
        LinkType::CookedV2 => tagged(cooked::v2_protocol(bytes)?, bytes, cooked::V2_LEN)?,
        LinkType::Null | LinkType::Loop => (family(packet)?, 4),
        LinkType::Raw | LinkType::Ipv4 | LinkType::Ipv6 => match bytes.first() {
            None => return Err(Ignored::HeadersCut),
            Some(first) if first >> 4 == 4 => (ETHERTYPE_IPV4, 0),
            Some(first) if first >> 4 == 6 => (ipv6::ETHERTYPE, 0),
            Some(_) => return Err(Ignored::Malformed),
        },
        LinkType::Other(_) => return Err(Ignored::LinkType(packet.link)),
    };
    let network = bytes.get(header_len..).ok_or(Ignored::HeadersCut)?;
    let on_wire = packet.wire_len.saturating_sub(header_len as u32);
    match ethertype {
        ETHERTYPE_IPV4 => version_4(network, on_wire),
        ipv6::ETHERTYPE => version_6(network, on_wire),
        _ => Err(Ignored::NotIp),
    }
}

/// Behind the VLAN tags, if there are any.
fn tagged(ethertype: u16, bytes: &[u8], header_len: usize) -> Result<(u16, usize), Ignored> {
    let rest = bytes.get(header_len..).unwrap_or_default();
    let (ethertype, tags) = vlan::skip_tags(ethertype, rest).ok_or(Ignored::HeadersCut)?;
    Ok((ethertype, header_len + tags))
}

fn family(packet: &Packet<'_>) -> Result<u16, Ignored> {
    let word = packet.bytes.first_chunk().ok_or(Ignored::HeadersCut)?;
    let little = u32::from_le_bytes(*word);
    // Nobody says in which order the capturing host wrote it; families are small numbers.
    let family = if little > u32::from(u16::MAX) {
        little.swap_bytes()
    } else {
        little
    };
    match family {
        FAMILY_IPV4 => Ok(ETHERTYPE_IPV4),
        family if FAMILIES_IPV6.contains(&family) => Ok(ipv6::ETHERTYPE),
        _ => Err(Ignored::NotIp),
    }
}

#[inline]
fn version_4(network: &[u8], on_wire: u32) -> Result<Datagram<'_>, Ignored> {
    let header = ipv4::Header::parse_front(network)?;
    let header_len = u32::from(header.header_len);
    let (total_len, anomaly) = match u32::from(header.total_len) {
        0 => (on_wire, None),
        len if len > on_wire => (on_wire, Some(LengthAnomaly::BeyondFrame)),
        len => (len, None),
    };
    let len = total_len
        .checked_sub(header_len)
        .ok_or(Ignored::Malformed)?;
    Ok(Datagram {
        protocol: header.protocol,
        source: header.source.into(),
        destination: header.destination.into(),
        payload: captured(network, header_len as usize, len)?,
        len,
        anomaly,
        part: header.is_fragment().then(|| FragmentRange {
            identification: header.identification.into(),
            offset: header.fragment_offset(),
            more: header.more_fragments(),
        }),
    })
}

#[inline]
fn version_6(network: &[u8], on_wire: u32) -> Result<Datagram<'_>, Ignored> {
    let header = ipv6::Header::parse_front(network)?;
    let behind = on_wire.saturating_sub(ipv6::HEADER_LEN as u32);
    let stated = u32::from(header.payload_len);
    let most = if stated == 0 { behind } else { stated };
    let rest = captured(network, ipv6::HEADER_LEN, most.min(behind))?;
    let upper = ipv6::upper(header.next_header, rest)?;
    let (len, anomaly) = match (stated, upper.jumbo_len) {
        (0, None) => (behind, None),
        (0, Some(len)) if len > behind => (behind, Some(LengthAnomaly::BeyondFrame)),
        (0, Some(len)) => (len, Some(LengthAnomaly::Jumbogram)),
        (len, _) if len > behind => (behind, Some(LengthAnomaly::BeyondFrame)),
        (len, _) => (len, None),
    };
    let len = len
        .checked_sub(upper.offset as u32)
        .ok_or(Ignored::Malformed)?;
    let rest = &rest[..rest.len().min(upper.offset + len as usize)];
    Ok(Datagram {
        protocol: upper.protocol,
        source: header.source.into(),
        destination: header.destination.into(),
        payload: &rest[upper.offset..],
        len,
        anomaly,
        part: upper
            .fragment
            // An atomic fragment is a whole packet (RFC 6946).
            .filter(|fragment| fragment.more || fragment.offset != 0)
            .map(|fragment| FragmentRange {
                identification: fragment.identification,
                offset: fragment.offset,
                more: fragment.more,
            }),
    })
}

/// Captured bytes among the `len` bytes behind a header, without the padding of a short frame.
#[inline]
fn captured(network: &[u8], header_len: usize, len: u32) -> Result<&[u8], Ignored> {
    let rest = network.get(header_len..).ok_or(Ignored::HeadersCut)?;
    Ok(&rest[..rest.len().min(len as usize)])
}

/// Fields of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Of the first byte of user data, or of the SYN.
    pub seq: SeqNumber,
    /// The control bits.
    pub flags: Flags,
}

/// A segment or datagram with its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// The sender.
    pub source: End,
    /// The receiver.
    pub destination: End,
    /// Bytes of user data on the wire.
    pub size: u32,
    /// Fields of the TCP header; nothing for UDP.
    pub segment: Option<Segment>,
}

impl Transport {
    /// TCP or UDP.
    pub const fn protocol(&self) -> Protocol {
        match self.segment {
            Some(_) => Protocol::Tcp,
            None => Protocol::Udp,
        }
    }
}

/// Ports and user data of a whole datagram.
#[inline]
pub fn transport(datagram: &Datagram<'_>) -> Result<Transport, Ignored> {
    let (ports, size, segment) = match datagram.protocol {
        ipv4::protocol::TCP => {
            let header = tcp::Header::parse_front(datagram.payload)?;
            let size = datagram
                .len
                .checked_sub(header.header_len.into())
                .ok_or(Ignored::Malformed)?;
            let segment = Segment {
                seq: header.seq,
                flags: header.flags,
            };
            (
                (header.source_port, header.destination_port),
                size,
                Some(segment),
            )
        }
        ipv4::protocol::UDP => {
            let header = udp::Header::parse_front(datagram.payload)?;
            let len = match (u32::from(header.len), datagram.anomaly) {
                // RFC 2675, 4.
                (0, Some(LengthAnomaly::Jumbogram)) => datagram.len,
                (len, Some(LengthAnomaly::BeyondFrame)) => len.min(datagram.len),
                (len, _) => len,
            };
            let size = len
                .checked_sub(udp::HEADER_LEN as u32)
                .filter(|_| len <= datagram.len)
                .ok_or(Ignored::Malformed)?;
            ((header.source_port, header.destination_port), size, None)
        }
        _ => return Err(Ignored::Protocol),
    };
    Ok(Transport {
        source: End {
            address: datagram.source,
            port: ports.0,
        },
        destination: End {
            address: datagram.destination,
            port: ports.1,
        },
        size,
        segment,
    })
}

#[cfg(test)]
mod tests;
