//! The capture that `mixed` writes.

use std::io::{self, Write};
use std::net::Ipv4Addr;

use tollgate_wire::SeqNumber;
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::ipv4::{self, protocol};
use tollgate_wire::tcp::{self, Flags};

/// Sizes of user data, drawn from.
const SIZES: [u16; 8] = [0, 0, 100, 200, 517, 1_448, 1_448, 1_448];
/// Ports of servers.
const PORTS: [u16; 6] = [80, 443, 443, 443, 8_080, 22];
/// The first packet's time, in seconds.
const EPOCH: u64 = 1_700_000_000;

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % bound
    }

    fn one_of(&mut self, list: &[u16]) -> u16 {
        list[self.below(list.len() as u64) as usize]
    }
}

/// One end: its address, its port, and where its next segment begins.
struct End {
    address: Ipv4Addr,
    port: u16,
    next: SeqNumber,
}

/// Writes a pcap of `packets` segments, headers only, each of a random one of `flows` connections.
pub fn write(flows: u32, packets: u32, out: &mut impl Write) -> io::Result<()> {
    let mut random = Random(7);
    let mut ends: Vec<[End; 2]> = (0..flows)
        .map(|flow| {
            let host = random.below(1_000) as u16;
            let [high, low] = host.to_be_bytes();
            [
                End {
                    address: Ipv4Addr::from_bits(0x0a00_0000 | (flow & 0x00ff_ffff)),
                    port: 32_768 + random.below(28_000) as u16,
                    next: SeqNumber(0),
                },
                End {
                    address: Ipv4Addr::new(192, 168, high, low),
                    port: random.one_of(&PORTS),
                    next: SeqNumber(0),
                },
            ]
        })
        .collect();
    // Microseconds, of Ethernet.
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        out.write_all(&word.to_le_bytes())?;
    }
    let mut us = EPOCH * 1_000_000;
    for _ in 0..packets {
        let [client, server] = &mut ends[random.below(flows.into()) as usize];
        us += 1 + random.below(39);
        let (from, to) = match random.below(2) {
            0 => (client, server),
            _ => (server, client),
        };
        let size = random.one_of(&SIZES);
        let pushed = !matches!(size, 0 | 1_448) || random.below(5) == 0;
        let frame = segment(from, to, size, pushed);
        from.next += u32::from(size);
        let captured = frame.len() as u32;
        for word in [
            (us / 1_000_000) as u32,
            (us % 1_000_000) as u32,
            captured,
            captured + u32::from(size),
        ] {
            out.write_all(&word.to_le_bytes())?;
        }
        out.write_all(&frame)?;
    }
    Ok(())
}

/// The frame of a segment, without its user data.
fn segment(from: &End, to: &End, size: u16, pushed: bool) -> Vec<u8> {
    let header = tcp::Header {
        source_port: from.port,
        destination_port: to.port,
        seq: from.next,
        ack: to.next,
        header_len: tcp::HEADER_LEN as u8,
        flags: if pushed {
            Flags::ACK | Flags::PSH
        } else {
            Flags::ACK
        },
        window: 1_000,
        urgent: 0,
        accurate_ecn: false,
        options: tcp::Options::default(),
    };
    let mut head = [0; tcp::MAX_HEADER_LEN];
    let len = header.emit(&mut head);
    let datagram = ipv4::Header {
        header_len: ipv4::HEADER_LEN as u8,
        tos: 0,
        total_len: (ipv4::HEADER_LEN + len) as u16 + size,
        identification: 0,
        flags_and_offset: ipv4::DONT_FRAGMENT,
        ttl: 64,
        protocol: protocol::TCP,
        source: from.address,
        destination: to.address,
    };
    let frame = ethernet::Header {
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        ethertype: EtherType::Ipv4,
    };
    [&frame.to_bytes()[..], &datagram.to_bytes(), &head[..len]].concat()
}
