//! A capture as tshark sees it, frame by frame.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use tollgate_trace::rows::Protocol;

use crate::frame::{Frame, Transport};

/// The fields asked for, in the order of [`Fields`].
const FIELDS: [&str; 21] = [
    "frame.encap_type",
    "frame.time_epoch",
    "frame.len",
    "frame.cap_len",
    "frame.protocols",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "tcp.stream",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.len",
    "tcp.flags",
    "tcp.hdr_len",
    "udp.stream",
    "udp.srcport",
    "udp.dstport",
    "udp.length",
    "ip.flags.mf",
    "ip.frag_offset",
];

/// Fragments are put together, segments are not; nothing is left out for a wrong checksum.
const PREFERENCES: [&str; 7] = [
    "ip.defragment:TRUE",
    "ipv6.defragment:TRUE",
    "ip.check_checksum:FALSE",
    "tcp.check_checksum:FALSE",
    "udp.check_checksum:FALSE",
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.analyze_sequence_numbers:TRUE",
];

/// Headers between an IP header and the header of TCP or UDP of the same datagram.
const EXTENSIONS: [&str; 5] = [
    "ipv6.hopopts",
    "ipv6.routing",
    "ipv6.fraghdr",
    "ipv6.dstopts",
    "ipv6.fragment",
];

/// Facts that tshark knows of a frame, besides those that are compared.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// Tells whether the frame is a packet; tshark also numbers some blocks of pcapng that are none.
    pub is_packet: bool,
    /// The protocols, outermost first.
    pub protocols: Vec<String>,
    /// Tells whether TCP or UDP is anywhere in the frame.
    pub any_transport: bool,
    /// Seconds and fraction of the time as they are printed: the fraction may have more than nine digits.
    pub printed_time: Option<(i64, i64)>,
    /// Bytes of the TCP header, as it says.
    pub tcp_header: Option<u32>,
    /// The frame is the first fragment of a datagram.
    pub is_first_fragment: bool,
}

impl Details {
    /// The headers in front of the first IP header.
    pub fn in_front(&self) -> &[String] {
        &self.protocols[..self.first_ip().unwrap_or(self.protocols.len())]
    }

    /// The protocol that the outermost datagram carries, and all behind it.
    pub fn carried(&self) -> &[String] {
        let at = self.first_ip().map_or(self.protocols.len(), |at| at + 1);
        let rest = &self.protocols[at..];
        let skipped = rest
            .iter()
            .take_while(|name| EXTENSIONS.contains(&name.as_str()))
            .count();
        &rest[skipped..]
    }

    fn first_ip(&self) -> Option<usize> {
        self.protocols
            .iter()
            .position(|name| name == "ip" || name == "ipv6")
    }
}

/// All of a capture.
#[derive(Default)]
pub struct Read {
    pub frames: Vec<(Frame, Details)>,
    /// The complaint, when it could not read to the end.
    pub stopped: Option<String>,
}

/// The version of tshark.
pub fn version() -> io::Result<String> {
    let output = Command::new("tshark")
        .arg("--version")
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().next().unwrap_or_default();
    Ok(first
        .split_whitespace()
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .unwrap_or_default()
        .trim_end_matches('.')
        .to_owned())
}

/// Reads the capture at `path`.
pub fn read(path: &Path) -> io::Result<Read> {
    let mut command = Command::new("tshark");
    command.args([
        "-n",
        "-T",
        "fields",
        "-E",
        "occurrence=f",
        "-E",
        "separator=/t",
    ]);
    PREFERENCES.iter().for_each(|preference| {
        command.args(["-o", preference]);
    });
    FIELDS.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let output = command
        .arg("-r")
        .arg(path)
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let frames = text.lines().map(line).collect();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let complaint = complaints.lines().find(|line| line.contains("tshark:"));
    let stopped = match complaint {
        _ if output.status.success() => None,
        Some(complaint) if complaint.contains("The file ") => Some(complaint.to_owned()),
        // A call that this version does not understand is not the file's fault.
        _ => return Err(io::Error::other(complaints.into_owned())),
    };
    Ok(Read { frames, stopped })
}

/// One line of fields.
fn line(line: &str) -> (Frame, Details) {
    let mut fields = line.split('\t').map(|it| (!it.is_empty()).then_some(it));
    let fields: [Option<&str>; FIELDS.len()] = std::array::from_fn(|_| fields.next().flatten());
    let [
        encapsulation,
        time,
        wire_len,
        captured,
        protocols,
        rest @ ..,
    ] = fields;
    let [
        v4_source,
        v4_destination,
        v6_source,
        v6_destination,
        rest @ ..,
    ] = rest;
    let (tcp, rest) = rest.split_at(6);
    let (udp, rest) = rest.split_at(4);
    let number = |field: Option<&str>| field.and_then(|it| it.parse::<u32>().ok());
    let mut details = Details {
        is_packet: encapsulation.is_some(),
        protocols: protocols
            .unwrap_or_default()
            .split(':')
            .map(str::to_owned)
            .collect(),
        any_transport: tcp[0].is_some() || udp[0].is_some(),
        printed_time: time.and_then(printed),
        tcp_header: number(tcp[5]),
        is_first_fragment: matches!(rest[0], Some("1" | "True")) && rest[1] == Some("0"),
    };
    details.protocols.retain(|name| !name.is_empty());
    let is_v4 = details.first_ip().map(|at| details.protocols[at] == "ip");
    let addresses = match is_v4 {
        Some(true) => (v4_source, v4_destination),
        Some(false) => (v6_source, v6_destination),
        None => (None, None),
    };
    let address = |field: Option<&str>| field.and_then(|it| it.parse::<IpAddr>().ok());
    let addresses = address(addresses.0).zip(address(addresses.1));
    let port = |field: Option<&str>| field.and_then(|it| it.parse::<u16>().ok());
    let transport = match details.carried().first().map(String::as_str) {
        Some("tcp") => number(tcp[0]).map(|flow| Transport {
            protocol: Protocol::Tcp,
            addresses,
            ports: port(tcp[1]).zip(port(tcp[2])),
            size: number(tcp[3]).map(i64::from),
            flags: tcp[4].and_then(control_bits),
            flow: flow.into(),
        }),
        Some("udp") => number(udp[0]).map(|flow| Transport {
            protocol: Protocol::Udp,
            addresses,
            ports: port(udp[1]).zip(port(udp[2])),
            size: number(udp[3]).map(|len| i64::from(len) - 8),
            flags: None,
            flow: flow.into(),
        }),
        _ => None,
    };
    let frame = Frame {
        time_ns: details.printed_time.and_then(nanoseconds),
        wire_len: number(wire_len).unwrap_or_default(),
        captured: number(captured).unwrap_or_default(),
        transport,
    };
    (frame, details)
}

/// The eight control bits of a number like 0x0018; the bits above are reserved, or AccECN's.
fn control_bits(field: &str) -> Option<u8> {
    let digits = field.strip_prefix("0x")?;
    Some(u16::from_str_radix(digits, 16).ok()? as u8)
}

/// Seconds and nanoseconds as tshark prints them, each with its sign.
fn printed(field: &str) -> Option<(i64, i64)> {
    let (sign, digits) = match field.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, field),
    };
    let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = format!("{fraction:0<9}");
    Some((
        sign * seconds.parse::<i64>().ok()?,
        sign * fraction.parse::<i64>().ok()?,
    ))
}

fn nanoseconds((seconds, fraction): (i64, i64)) -> Option<i64> {
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_with_fraction_or_below_zero_is_read() {
        let read = |field| printed(field).and_then(nanoseconds);
        assert_eq!(read("1.5"), Some(1_500_000_000));
        assert_eq!(read("12.000000001"), Some(12_000_000_001));
        assert_eq!(read("-0.25"), Some(-250_000_000));
        assert_eq!(read("7"), Some(7_000_000_000));
        assert_eq!(printed("3.1001001001"), Some((3, 1_001_001_001)));
        assert_eq!((read(""), read("99999999999.0")), (None, None));
    }

    #[test]
    fn outermost_segment_is_the_one_compared() {
        let text = "1\t1.0\t90\t90\teth:ethertype:ipv6:ipv6.hopopts:tcp\t\t\t::1\t::2\t3\t80\t99\t6\t0x0118\t20";
        let (frame, details) = line(text);
        let transport = frame.transport.unwrap();
        assert_eq!(transport.ports, Some((80, 99)));
        assert_eq!((transport.size, transport.flags), (Some(6), Some(0x18)));
        assert_eq!(details.in_front(), ["eth", "ethertype"]);
        let inner = "1\t1.0\t90\t90\teth:ethertype:ip:gre:ip:tcp\t1.1.1.1\t2.2.2.2\t\t\t3\t80\t99\t6\t0x0018";
        let (frame, details) = line(inner);
        assert!(frame.transport.is_none() && details.any_transport);
        assert_eq!(details.carried(), ["gre", "ip", "tcp"]);
    }
}
