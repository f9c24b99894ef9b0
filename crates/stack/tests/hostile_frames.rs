//! Frames that others made up, or changed on the way: none of them panics the stack, takes a frame from the pool for
//! good, or does anything to a connection that it does not belong to.

mod common;
#[path = "sim/craft.rs"]
mod craft;
#[path = "sim/scene.rs"]
mod scene;

use common::{PORT, config, pattern};
use proptest::prelude::*;
use scene::{A, B, MAC_A, MAC_B, Scene, numbers, victim};
use std::net::Ipv4Addr;
use tollgate_link::Side;
use tollgate_link::memory::Memory;
use tollgate_stack::{Instant, Link, Pool, Stack};
use tollgate_wire::ethernet::EtherType;
use tollgate_wire::tcp::{Flags, Header, Options, Timestamps};
use tollgate_wire::{SeqNumber, ipv4};

/// A frame that somebody else made up.
#[derive(Clone, Debug)]
enum Hostile {
    Raw(Vec<u8>),
    /// Behind our link address.
    Ethernet(u16, Vec<u8>),
    Ip {
        from: u32,
        protocol: u8,
        flags_and_offset: u16,
        id: u16,
        payload: Vec<u8>,
    },
    Icmp {
        head: [u8; 8],
        data: Vec<u8>,
    },
    Tcp {
        port: u16,
        flags: u8,
        seq: u32,
        ack: u32,
        window: u16,
        options: Vec<u8>,
        payload: Vec<u8>,
    },
    /// The last frame of the connection with one byte changed.
    Changed {
        at: prop::sample::Index,
        by: u8,
    },
    /// The last frame with its end cut off.
    Cut(prop::sample::Index),
}

fn hostile() -> impl Strategy<Value = Hostile> {
    let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
    prop_oneof![
        bytes(200).prop_map(Hostile::Raw),
        (
            prop_oneof![Just(0x0800u16), Just(0x0806), any::<u16>()],
            bytes(120)
        )
            .prop_map(|(t, o)| Hostile::Ethernet(t, o)),
        (
            any::<u32>(),
            prop_oneof![Just(1u8), Just(6), Just(17), any::<u8>()],
            any::<u16>(),
            0..4u16,
            bytes(160)
        )
            .prop_map(
                |(from, protocol, flags_and_offset, id, payload)| Hostile::Ip {
                    from,
                    protocol,
                    flags_and_offset,
                    id,
                    payload
                }
            ),
        (
            prop_oneof![Just(0u8), Just(3), Just(8), Just(11), Just(12), any::<u8>()],
            any::<[u8; 7]>(),
            bytes(80)
        )
            .prop_map(|(kind, rest, data)| {
                let mut head = [kind, 0, 0, 0, 0, 0, 0, 0];
                head[1] = rest[0] % 8;
                head[4..].copy_from_slice(&rest[3..]);
                Hostile::Icmp { head, data }
            }),
        (
            prop_oneof![Just(PORT), any::<u16>()],
            any::<u8>(),
            any::<(u32, u32, u16)>(),
            bytes(41),
            bytes(60)
        )
            .prop_map(
                |(port, flags, (seq, ack, window), options, payload)| Hostile::Tcp {
                    port,
                    flags,
                    seq,
                    ack,
                    window,
                    options,
                    payload
                }
            ),
        (any::<prop::sample::Index>(), 1..=255u8).prop_map(|(at, by)| Hostile::Changed { at, by }),
        any::<prop::sample::Index>().prop_map(Hostile::Cut),
    ]
}

/// A TCP segment with any options, in a frame.
fn segment(from: Ipv4Addr, header: &Header, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut frame = craft::tcp(MAC_B, from, B, header, &[options, payload].concat());
    // The options, padded with what follows, belong to the header; sums are made anew.
    let words = 5 + options.len() / 4;
    frame[14 + 20 + 12] = (words as u8) << 4;
    frame[14 + 20 + 16..14 + 20 + 18].fill(0);
    let tcp = &frame[34..];
    let sum =
        ipv4::pseudo_header(from, B, 6, tcp.len() as u16) + tollgate_checksum::sum_header(tcp);
    frame[14 + 20 + 16..14 + 20 + 18].copy_from_slice(&sum.finish().to_ne_bytes());
    frame
}

impl Hostile {
    fn frame(&self, last: &[u8]) -> Vec<u8> {
        let stranger = Ipv4Addr::new(203, 0, 113, 5);
        match self {
            Hostile::Raw(bytes) => bytes.clone(),
            Hostile::Ethernet(kind, bytes) => {
                craft::ethernet(MAC_B, EtherType::from_u16(*kind), bytes)
            }
            Hostile::Ip {
                from,
                protocol,
                flags_and_offset,
                id,
                payload,
            } => craft::ip(
                MAC_B,
                Ipv4Addr::from(*from),
                B,
                *protocol,
                *id,
                *flags_and_offset,
                payload,
            ),
            Hostile::Icmp { head, data } => craft::icmp(MAC_B, stranger, B, *head, data),
            Hostile::Tcp {
                port,
                flags,
                seq,
                ack,
                window,
                options,
                payload,
            } => {
                let header =
                    craft::header(4711, *port, Flags(*flags), SeqNumber(*seq), SeqNumber(*ack));
                segment(
                    stranger,
                    &Header {
                        window: *window,
                        ..header
                    },
                    options,
                    payload,
                )
            }
            Hostile::Changed { at, by } => {
                let mut frame = last.to_vec();
                let at = at.index(frame.len());
                frame[at] ^= by;
                frame
            }
            Hostile::Cut(at) => last[..at.index(last.len())].to_vec(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn made_up_frames_do_nothing_to_a_connection(frames in prop::collection::vec(hostile(), 1..120)) {
        let mut scene = Scene::new(victim(), 512);
        for burst in frames.chunks(4) {
            scene.pair.a().send(scene.client, &pattern(200, 9)).unwrap();
            scene.sent.extend(pattern(200, 9));
            scene.pair.poll_a();
            let mut real = Vec::new();
            scene.pair.cable.end(Side::B).receive(&mut scene.pair.pool, &mut real);
            let last = real.last().map_or_else(|| vec![0; 60], |frame| scene.pair.pool.frame(frame).to_vec());
            let burst: Vec<_> = burst.iter().map(|hostile| hostile.frame(&last)).collect();
            scene.inject(Side::B, &burst);
            scene.pair.cable.end(Side::A).transmit(&mut scene.pair.pool, &mut real);
            scene.stream(100);
        }
        // The neighbour that a made-up ARP may have told lies about speaks for itself.
        let now = scene.pair.now;
        scene.pair.b.at(now, &mut scene.pair.pool).add_neighbour(A, MAC_A);
        scene.ends_well();
    }

    /// Segments in the connection's own name and near its own numbers may end it, and do nothing worse.
    #[test]
    fn segments_near_the_window_do_no_worse_than_end_the_connection(
        segments in prop::collection::vec(
            (any::<u8>(), -70_000i32..70_000, -3000i32..3000, any::<u16>(), any::<Option<i8>>(), 0usize..1400),
            1..150,
        ),
        close in any::<bool>(),
    ) {
        let mut scene = Scene::new(victim(), 256);
        let last = scene.overhear();
        let stamps = last.options.timestamps.unwrap();
        if close {
            scene.pair.b().shutdown(scene.server).unwrap();
        }
        for (flags, seq, ack, window, stamp, len) in segments {
            let header = Header {
                window,
                options: Options {
                    timestamps: stamp.map(|by| Timestamps {
                        value: stamps.value.wrapping_add_signed(i32::from(by)),
                        echo: stamps.echo,
                    }),
                    ..Options::default()
                },
                ..craft::header(
                    last.source_port,
                    PORT,
                    Flags(flags),
                    SeqNumber(last.seq.0.wrapping_add_signed(seq / 16 * 8)),
                    SeqNumber(last.ack.0.wrapping_add_signed(ack / 8)),
                )
            };
            scene.inject(Side::B, &[craft::tcp(MAC_B, A, B, &header, &vec![1; len])]);
            scene.pair.now = Instant::from_nanos(scene.pair.now.as_nanos() + 3_000_000);
            // It may be refused by now.
            let _ = scene.pair.b().send(scene.server, &[7; 300]);
            scene.pair.poll_b();
            scene.pair.poll_a();
            let free = scene.pair.pool.available();
            prop_assert!(free <= scene.pair.pool.capacity());
        }
        // Ends that an attacker has pulled apart are given up by their applications.
        let _ = scene.pair.a().abort(scene.client);
        let _ = scene.pair.b().abort(scene.server);
        scene.give_up();
    }
}

/// A stack that is polled by nobody else keeps nothing that it does not name.
#[test]
fn a_stack_alone_with_noise_gives_every_frame_back() {
    let now = Instant::from_nanos(1 << 40);
    let mut pool = Pool::new(64, 2048);
    let mut stack = Stack::new(config(2), 1500, now).unwrap();
    let mut cable = Memory::new(1500);
    let mut next = numbers(8);
    for n in 0..20_000u64 {
        let bytes: Vec<u8> = (0..next() % 120).map(|_| next() as u8).collect();
        let mut frame = vec![
            pool.frame_from(&craft::ethernet(MAC_B, EtherType::Ipv4, &bytes))
                .unwrap(),
        ];
        cable.end(Side::A).transmit(&mut pool, &mut frame);
        stack
            .at(Instant::from_nanos(now.as_nanos() + n * 1000), &mut pool)
            .poll(&mut cable.end(Side::B));
    }
    assert_eq!(pool.available(), pool.capacity());
    assert_eq!(stack.counters().frames_in, 20_000);
}
