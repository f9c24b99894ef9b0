//! Programs are run here as the kernel runs them (linux/filter.h), and held against what a filter says of a packet.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use super::*;
use crate::filter::tests::any_filter;

/// A packet, as the socket has it.
#[derive(Clone, Debug)]
struct Packet {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    ports: (u16, u16),
    /// Of version 4: bytes of options, and where in its datagram it begins.
    options: u8,
    offset: u16,
    loops: bool,
    outgoing: bool,
}

impl Packet {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut bytes = vec![0; 20];
                bytes[0] = 0x45 + self.options / 4;
                bytes[6..8].copy_from_slice(&(self.offset | 0x4000).to_be_bytes());
                bytes[9] = self.protocol;
                bytes[12..16].copy_from_slice(&source.octets());
                bytes[16..20].copy_from_slice(&destination.octets());
                bytes.resize(20 + usize::from(self.options), 0);
                bytes
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let mut bytes = vec![0; 8];
                bytes[0] = 0x60;
                bytes[6] = self.protocol;
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
                bytes
            }
            _ => unreachable!("both ends are of one family"),
        };
        bytes.extend(self.ports.0.to_be_bytes());
        bytes.extend(self.ports.1.to_be_bytes());
        bytes.extend([0; 16]);
        bytes
    }

    fn ancillary(&self, what: i32) -> u32 {
        match what {
            libc::SKF_AD_PROTOCOL if self.source.is_ipv4() => 0x0800,
            libc::SKF_AD_PROTOCOL => 0x86dd,
            libc::SKF_AD_PKTTYPE if self.outgoing => 4,
            libc::SKF_AD_PKTTYPE => 0,
            libc::SKF_AD_HATYPE if self.loops => 772,
            libc::SKF_AD_HATYPE => 1,
            _ => unreachable!("not loaded"),
        }
    }

    /// Tells whether the filter passes it.
    fn passes(&self, filter: &Filter) -> bool {
        let whole = self.offset & 0x1fff == 0 || self.source.is_ipv6();
        match filter {
            Filter::Net(side, net, bits) => {
                let bits_of = |address: IpAddr| match address {
                    IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
                    IpAddr::V6(v6) => v6.to_bits(),
                };
                let shift = 128 - u32::from(*bits);
                let within = |address: IpAddr| {
                    address.is_ipv4() == net.is_ipv4()
                        && (bits_of(address) ^ bits_of(*net))
                            .checked_shr(shift)
                            .unwrap_or(0)
                            == 0
                };
                on(*side, within(self.source), within(self.destination))
            }
            Filter::Ports(side, first, last) => {
                let within = |port: u16| (*first..=*last).contains(&port);
                whole
                    && matches!(self.protocol, 6 | 17)
                    && on(*side, within(self.ports.0), within(self.ports.1))
            }
            Filter::Ip => self.source.is_ipv4(),
            Filter::Ip6 => self.source.is_ipv6(),
            Filter::Tcp => self.protocol == 6,
            Filter::Udp => self.protocol == 17,
            Filter::Not(one) => !self.passes(one),
            Filter::And(one, other) => self.passes(one) && self.passes(other),
            Filter::Or(one, other) => self.passes(one) || self.passes(other),
        }
    }
}

fn on(side: Side, source: bool, destination: bool) -> bool {
    match side {
        Side::Source => source,
        Side::Destination => destination,
        Side::Either => source || destination,
    }
}

/// Bytes that the program keeps of a packet.
fn run(program: &[sock_filter], packet: &Packet) -> u32 {
    let bytes = packet.bytes();
    let (mut a, mut x, mut at) = (0_u32, 0_u32, 0);
    loop {
        let one = program[at];
        at += 1;
        let load = |from: u32, width: usize| {
            let from = from as usize;
            let bytes = &bytes[from..from + width];
            bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
        };
        let width = match one.code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            _ => 1,
        };
        let branch = |yes: bool| usize::from(if yes { one.jt } else { one.jf });
        match (one.code & 0x07, one.code & 0xf0) {
            (0x00, _) if one.code & 0xe0 == 0x20 && one.k >= 0xffff_f000 => {
                a = packet.ancillary(one.k as i32 - libc::SKF_AD_OFF);
            }
            (0x00, _) if one.code & 0xe0 == 0x20 => a = load(one.k, width),
            (0x00, _) if one.code & 0xe0 == 0x40 => a = load(x + one.k, width),
            (0x01, _) => x = (load(one.k, 1) & 0xf) * 4,
            (0x04, 0x50) => a &= one.k,
            (0x05, 0x00) => at += one.k as usize,
            (0x05, 0x10) => at += branch(a == one.k),
            (0x05, 0x20) => at += branch(a > one.k),
            (0x05, 0x30) => at += branch(a >= one.k),
            (0x05, 0x40) => at += branch(a & one.k != 0),
            (0x06, _) => return one.k,
            _ => unreachable!("code {:#x}", one.code),
        }
    }
}

fn any_packet() -> impl Strategy<Value = Packet> {
    // Few values, so that filters hit.
    let address = prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from)
    ];
    let protocol = prop_oneof![Just(1), Just(6), Just(17)];
    let options = (0..=10_u8).prop_map(|words| words * 4);
    let offset = prop_oneof![Just(0), any::<u16>()];
    (
        address,
        any::<[u8; 16]>(),
        protocol,
        any::<(u16, u16)>(),
        options,
        offset,
        any::<(bool, bool)>(),
    )
        .prop_map(
            |(source, other, protocol, ports, options, offset, (loops, outgoing))| Packet {
                source,
                destination: match source {
                    IpAddr::V4(_) => Ipv4Addr::new(other[0], other[1], other[2], other[3]).into(),
                    IpAddr::V6(_) => other.into(),
                },
                protocol,
                ports,
                options,
                offset,
                loops,
                outgoing,
            },
        )
}

/// The filter, with addresses and ports of the packet where it would hardly ever hit.
fn aimed(filter: Filter, packet: &Packet, at: &mut u32) -> Filter {
    *at = at.rotate_right(3);
    let aim = *at & 1 == 1;
    match filter {
        Filter::Net(side, _, bits) if aim => {
            let most = if packet.source.is_ipv4() { 32 } else { 128 };
            Filter::Net(side, packet.source, bits.min(most))
        }
        Filter::Ports(side, first, last) if aim => {
            Filter::Ports(side, first.min(packet.ports.1), last.max(packet.ports.1))
        }
        Filter::Not(one) => Filter::Not(Box::new(aimed(*one, packet, at))),
        Filter::And(one, other) => Filter::And(
            Box::new(aimed(*one, packet, at)),
            Box::new(aimed(*other, packet, at)),
        ),
        Filter::Or(one, other) => Filter::Or(
            Box::new(aimed(*one, packet, at)),
            Box::new(aimed(*other, packet, at)),
        ),
        other => other,
    }
}

proptest! {
    #[test]
    fn programs_pass_what_filters_pass(filter in any_filter(), packet in any_packet(), mut aim in any::<u32>()) {
        let filter = aimed(filter, &packet, &mut aim);
        let program = program(Some(&filter), 96).unwrap();
        let passes = packet.passes(&filter) && !(packet.loops && packet.outgoing);
        prop_assert_eq!(run(&program, &packet), if passes { 96 } else { 0 });
    }
}

fn packet() -> Packet {
    Packet {
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        protocol: 6,
        ports: (4_000, 80),
        options: 0,
        offset: 0,
        loops: false,
        outgoing: false,
    }
}

#[test]
fn without_a_filter_all_passes_but_what_a_loopback_sends() {
    let all = program(None, 64).unwrap();
    for (loops, outgoing, kept) in [
        (false, false, 64),
        (false, true, 64),
        (true, false, 64),
        (true, true, 0),
    ] {
        let packet = Packet {
            loops,
            outgoing,
            ..packet()
        };
        assert_eq!(run(&all, &packet), kept);
    }
    assert_eq!(run(&nothing(), &packet()), 0);
}

#[test]
fn long_filters_jump_far_and_those_that_are_too_long_are_refused() {
    let text = |ports: u16| {
        let ports: Vec<String> = (0..ports).map(|port| format!("port {port}")).collect();
        ports.join(" or ")
    };
    let filter = Filter::parse(&text(100)).unwrap();
    let program = program(Some(&filter), 1).unwrap();
    assert!(program.len() > 1_000);
    for (port, kept) in [(0, 1), (80, 1), (99, 1), (100, 0)] {
        let packet = Packet {
            ports: (4_000, port),
            ..packet()
        };
        assert_eq!(run(&program, &packet), kept, "{port}");
    }
    let filter = Filter::parse(&text(1_000)).unwrap();
    let error = super::program(Some(&filter), 1).unwrap_err();
    assert!(error.0 > LONGEST);
}
