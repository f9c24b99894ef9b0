//! One line for each frame that a host sends or takes in, when asked for.

use std::collections::HashMap;
use std::fmt::Write;
use tollgate_stack::Instant;
use tollgate_wire::ethernet::{self, EtherType};
use tollgate_wire::tcp::{Flags, Header};
use tollgate_wire::{SeqNumber, ipv4};

/// Event of a frame at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It gives it to the cable.
    Sends,
    /// It takes it from the cable.
    Gets,
}

/// The printer. Sequence numbers are counted from each direction's SYN.
#[derive(Debug)]
pub struct Trace {
    begin: Instant,
    first: HashMap<(u16, u16), SeqNumber>,
}

impl Trace {
    /// A trace of what happens from `begin` on.
    pub fn new(begin: Instant) -> Self {
        Self {
            begin,
            first: HashMap::new(),
        }
    }

    /// Prints a frame.
    pub fn frame(&mut self, now: Instant, host: usize, way: Way, bytes: &[u8]) {
        let name = ["a", "b"][host];
        let way = match way {
            Way::Sends => "sends",
            Way::Gets => " gets",
        };
        let text = self.describe(bytes);
        println!(
            "{:>16.9} {name} {way} {text}",
            (now - self.begin).as_secs_f64()
        );
    }

    fn describe(&mut self, bytes: &[u8]) -> String {
        let Ok(link) = ethernet::Header::parse(bytes) else {
            return format!("{} bytes, no Ethernet", bytes.len());
        };
        if link.ethertype != EtherType::Ipv4 {
            return format!("{:?}, {} bytes", link.ethertype, bytes.len());
        }
        let Ok(ip) = ipv4::Header::parse(&bytes[ethernet::HEADER_LEN..]) else {
            return format!("{} bytes, malformed IP", bytes.len());
        };
        if ip.protocol != ipv4::protocol::TCP || ip.is_fragment() {
            return format!("IP protocol {}, {} bytes", ip.protocol, ip.total_len);
        }
        let packet = &bytes[ethernet::HEADER_LEN + usize::from(ip.header_len)..];
        let segment = &packet[..ip.payload_len()];
        match Header::parse(segment) {
            Ok(header) => {
                let len = segment.len() - usize::from(header.header_len);
                let text = self.describe_tcp(&header, len);
                // RFC 3168, 5.
                text + ["", " ECT(1)", " ECT(0)", " CE"][usize::from(ip.tos & 3)]
            }
            Err(_) => format!("{} bytes, malformed TCP", segment.len()),
        }
    }

    fn describe_tcp(&mut self, header: &Header, len: usize) -> String {
        let ports = (header.source_port, header.destination_port);
        if header.flags.has(Flags::SYN) {
            self.first.insert(ports, header.seq);
        }
        let zero = SeqNumber(0);
        let first = self.first.get(&ports).copied().unwrap_or(zero);
        let peer = self.first.get(&(ports.1, ports.0)).copied().unwrap_or(zero);
        let seq = header.seq - first;
        let mut text = format!("{} > {} {:?} {seq}", ports.0, ports.1, header.flags);
        if len != 0 {
            // Writing to a String cannot fail.
            let _ = write!(text, "..{} ({len})", seq.wrapping_add(len as u32));
        }
        if header.flags.has(Flags::ACK) {
            let _ = write!(text, " ack {}", header.ack - peer);
        }
        let _ = write!(text, " win {}", header.window);
        if let Some(mss) = header.options.mss {
            let _ = write!(text, " mss {mss}");
        }
        if let Some(shift) = header.options.window_scale {
            let _ = write!(text, " scale {shift}");
        }
        if let Some(stamps) = header.options.timestamps {
            let _ = write!(text, " ts {} {}", stamps.value, stamps.echo);
        }
        let blocks = header.options.sack.as_ref();
        for block in blocks.map_or(&[][..], |blocks| blocks.as_slice()) {
            let _ = write!(text, " sack {}..{}", block.start - peer, block.end - peer);
        }
        if header.accurate_ecn {
            text.push_str(" AE");
        }
        text
    }
}
