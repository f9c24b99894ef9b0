//! Packets of IPv6 that others made up: none of them panics the stack, takes a frame for good, or ends a connection that it
//! does not belong to.

mod common;

use common::{PORT, Pair, address_v6, config_v6, pattern};
use proptest::prelude::*;
use std::net::Ipv6Addr;
use tollgate_checksum::sum_header;
use tollgate_link::Side;
use tollgate_stack::{Config, Link};
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::ipv6::{self, Fragment, protocol};

/// A host that takes what routers advertise.
fn host(n: u8) -> Config {
    let mut config = config_v6(n);
    if let Some(ipv6) = &mut config.ipv6 {
        ipv6.router_advertisements = true;
    }
    config
}

/// A packet behind its fixed header.
#[derive(Clone, Debug)]
enum Hostile {
    Raw(u8, Vec<u8>),
    /// A message of ICMPv6 with its checksum.
    Icmp(u8, u8, Vec<u8>),
    Fragment {
        id: u32,
        next: u8,
        offset: u16,
        more: bool,
        part: Vec<u8>,
    },
}

#[derive(Clone, Debug)]
struct Packet {
    source: Ipv6Addr,
    destination: Ipv6Addr,
    hop_limit: u8,
    what: Hostile,
}

fn packet() -> impl Strategy<Value = Packet> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    let next = || {
        let known = [0u8, 6, 17, 43, 44, 58, 60];
        prop_oneof![prop::sample::select(known.to_vec()), any::<u8>()]
    };
    let types = [1u8, 2, 3, 4, 128, 130, 133, 134, 135, 136, 137, 143];
    let what = prop_oneof![
        (next(), bytes(120)).prop_map(|(next, bytes)| Hostile::Raw(next, bytes)),
        (prop::sample::select(types.to_vec()), 0..2u8, bytes(120))
            .prop_map(|(kind, code, bytes)| Hostile::Icmp(kind, code, bytes)),
        (0..3u32, next(), 0..5u16, any::<bool>(), bytes(60)).prop_map(
            |(id, next, words, more, mut part)| {
                if more {
                    part.resize(part.len() & !7, 0);
                }
                let offset = if words == 4 { 0xfff8 } else { words * 8 };
                Hostile::Fragment {
                    id,
                    next,
                    offset,
                    more,
                    part,
                }
            }
        ),
    ];
    let groups = [
        address_v6(2),
        address_v6(2),
        ipv6::ALL_NODES,
        ipv6::solicited_node(address_v6(2)),
    ];
    let sources = [
        address_v6(9),
        address_v6(77),
        Ipv6Addr::UNSPECIFIED,
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9),
    ];
    (
        prop::sample::select(sources.to_vec()),
        prop::sample::select(groups.to_vec()),
        prop_oneof![Just(255u8), any::<u8>()],
        what,
    )
        .prop_map(|(source, destination, hop_limit, what)| Packet {
            source,
            destination,
            hop_limit,
            what,
        })
}

impl Packet {
    fn frame(&self, to: MacAddr) -> Vec<u8> {
        let (source, destination) = (self.source, self.destination);
        let (next_header, payload) = match &self.what {
            Hostile::Raw(next, bytes) => (*next, bytes.clone()),
            Hostile::Icmp(kind, code, body) => {
                let mut message = vec![*kind, *code, 0, 0];
                message.extend(body);
                let len = message.len() as u32;
                let sum = ipv6::pseudo_header(source, destination, protocol::ICMP, len)
                    + sum_header(&message);
                message[2..4].copy_from_slice(&sum.finish().to_ne_bytes());
                (protocol::ICMP, message)
            }
            Hostile::Fragment {
                id,
                next,
                offset,
                more,
                part,
            } => {
                let fragment = Fragment {
                    offset: *offset,
                    more: *more,
                    identification: *id,
                };
                let bytes = [&fragment.to_bytes(*next)[..], part].concat();
                (protocol::FRAGMENT, bytes)
            }
        };
        let header = ipv6::Header {
            traffic_class: 0,
            flow_label: 0,
            payload_len: payload.len() as u16,
            next_header,
            hop_limit: self.hop_limit,
            source,
            destination,
        };
        let link = ethernet::Header {
            destination: if destination.is_multicast() {
                ipv6::multicast_mac(destination)
            } else {
                to
            },
            source: MacAddr([2, 9, 9, 9, 9, 9]),
            ethertype: EtherType::Ipv6,
        };
        [&link.to_bytes()[..], &header.to_bytes(), &payload].concat()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn made_up_packets_of_ipv6_harm_nobody(
        packets in prop::collection::vec(packet(), 1..60),
        wait in 0..80_000_000_000u64,
    ) {
        let mut pair = Pair::with(host(1), host(2), 1500);
        let listener = pair.listen();
        let client = pair.a().connect((address_v6(2), PORT)).unwrap();
        pair.settle();
        let server = pair.b().accept(listener).unwrap();
        let to = pair.b.config().mac;
        for packet in &packets {
            let frame = pair.pool.frame_from(&packet.frame(to)).unwrap();
            let mut cable = pair.cable.end(Side::A);
            cable.transmit(&mut pair.pool, &mut vec![frame]);
            pair.settle();
            pair.b.check_consistency(&pair.pool).unwrap();
        }
        pair.pass(wait);
        // The connection's host is on the link, and nobody spoke for it.
        let bytes = pattern(5000, 1);
        pair.a().send(client, &bytes).unwrap();
        pair.pass(5_000_000_000);
        prop_assert_eq!(pair.read_b(server), bytes);
        pair.a().abort(client).unwrap();
        pair.b().abort(server).unwrap();
        // Fragments are given up after a minute. What that says waits for a neighbour that is asked for three times, and a router may
        // have made a minute of the time between.
        pair.pass(250_000_000_000);
        pair.a.check_consistency(&pair.pool).unwrap();
        pair.b.check_consistency(&pair.pool).unwrap();
        prop_assert_eq!(pair.pool.available(), pair.pool.capacity());
    }
}
