use proptest::prelude::*;
use tollgate_wire::ipv4::protocol::{TCP, UDP};

use super::*;
use crate::craft;

fn packet(link: LinkType, bytes: &[u8]) -> Packet<'_> {
    Packet {
        time_ns: 0,
        link,
        wire_len: bytes.len() as u32,
        bytes,
    }
}

fn size(packet: &Packet<'_>) -> Result<u32, Ignored> {
    transport(&datagram(packet)?).map(|transport| transport.size)
}

#[test]
fn user_data_is_found_behind_every_link_header() {
    let v4 = craft::ipv4(true, UDP, &craft::udp((1, 2), 30));
    let v6 = craft::ipv6(UDP, &craft::udp((1, 2), 30));
    let behind = |front: &[u8], packet: &[u8]| [front, packet].concat();
    let v1 = [0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0];
    let tagged = behind(&[0, 7, 0x88, 0xa8, 0, 8], &[]);
    let cases = [
        (LinkType::Ethernet, craft::ethernet(0x0800, &v4)),
        (LinkType::Ethernet, craft::ethernet(0x86dd, &v6)),
        (
            LinkType::Ethernet,
            craft::ethernet(0x8100, &behind(&[0, 7, 8, 0], &v4)),
        ),
        (
            LinkType::Ethernet,
            craft::ethernet(0x8100, &[&tagged[..], &[0x86, 0xdd], &v6].concat()),
        ),
        (LinkType::Raw, v4.clone()),
        (LinkType::Raw, v6.clone()),
        (LinkType::Ipv4, v4.clone()),
        (LinkType::Ipv6, v6.clone()),
        (LinkType::CookedV1, [&v1[..], &[8, 0], &v4].concat()),
        (
            LinkType::CookedV2,
            [&[0x86, 0xdd][..], &[0; 18], &v6].concat(),
        ),
        (LinkType::Null, behind(&[2, 0, 0, 0], &v4)),
        (LinkType::Null, behind(&[0, 0, 0, 30], &v6)),
        (LinkType::Loop, behind(&[0, 0, 0, 24], &v6)),
    ];
    for (at, (link, bytes)) in cases.iter().enumerate() {
        assert_eq!(size(&packet(*link, bytes)), Ok(30), "case {at}: {link}");
    }
    let other = packet(LinkType::Other(147), &v4);
    assert_eq!(size(&other), Err(Ignored::LinkType(LinkType::Other(147))));
    let arp = craft::ethernet(0x0806, &[0; 28]);
    assert_eq!(size(&packet(LinkType::Ethernet, &arp)), Err(Ignored::NotIp));
}

#[test]
fn sizes_are_those_of_the_headers() {
    // Padding of a short frame.
    let mut frame = craft::ethernet(0x0800, &craft::ipv4(true, UDP, &craft::udp((1, 2), 1)));
    frame.resize(60, 0);
    assert_eq!(size(&packet(LinkType::Ethernet, &frame)), Ok(1));
    // Captured in part.
    let segment = craft::segment((1, 2), 0, Flags::ACK, 1_000);
    let frame = craft::ethernet(0x0800, &craft::ipv4(true, TCP, &segment));
    let cut = Packet {
        bytes: &frame[..54],
        ..packet(LinkType::Ethernet, &frame)
    };
    assert_eq!(size(&cut), Ok(1_000));
    let shorter = Packet {
        bytes: &frame[..53],
        ..cut
    };
    assert_eq!(size(&shorter), Err(Ignored::HeadersCut));
    // As a host captures what its device will cut into segments: no total length.
    let mut whole = frame.clone();
    whole[16..18].copy_from_slice(&[0, 0]);
    assert_eq!(size(&packet(LinkType::Ethernet, &whole)), Ok(1_000));
}

#[test]
fn contradictions_are_told() {
    let mut datagram = craft::udp((1, 2), 10);
    datagram[4..6].copy_from_slice(&100_u16.to_be_bytes());
    let bytes = craft::ipv4(true, UDP, &datagram);
    assert_eq!(
        size(&packet(LinkType::Raw, &bytes)),
        Err(Ignored::Malformed)
    );
    let mut segment = craft::segment((1, 2), 0, Flags::ACK, 0);
    segment[12] = 0xf0;
    let bytes = craft::ipv4(true, TCP, &segment);
    assert_eq!(
        size(&packet(LinkType::Raw, &bytes)),
        Err(Ignored::Malformed)
    );
    let bytes = craft::ipv4(true, 1, &[0; 8]);
    assert_eq!(size(&packet(LinkType::Raw, &bytes)), Err(Ignored::Protocol));
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_ignored(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        number in prop::sample::select(vec![0_u16, 1, 101, 108, 113, 228, 229, 276, 9]),
        more in 0..2_000_u32,
    ) {
        let packet = Packet {
            time_ns: 0,
            link: LinkType::from_number(number),
            wire_len: bytes.len() as u32 + more,
            bytes: &bytes,
        };
        if let Ok(datagram) = datagram(&packet) {
            prop_assert!(datagram.payload.len() <= datagram.len as usize);
            if let Ok(transport) = transport(&datagram) {
                prop_assert!(transport.size < datagram.len);
            }
        }
    }
}
