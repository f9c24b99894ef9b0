//! Every parser on any octets; what a parser accepts comes back the same after it was written and parsed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_wire::tcp::MAX_HEADER_LEN;
use tollgate_wire::{
    arp, bpdu, cooked, ethernet, icmp, icmpv6, ipv4, ipv6, mld, ndp, tcp, udp, vlan,
};

fuzz_target!(|octets: &[u8]| {
    if let Ok(header) = ethernet::Header::parse(octets) {
        assert_eq!(header.to_bytes()[..], octets[..ethernet::HEADER_LEN]);
    }
    if let Ok(packet) = arp::Packet::parse(octets) {
        assert_eq!(arp::Packet::parse(&packet.to_bytes()), Ok(packet));
    }
    // By itself most inputs are no unit; behind an LLC header and the protocol's number more are.
    for bytes in [
        octets.to_vec(),
        [&[0x42, 0x42, 0x03, 0, 0], octets].concat(),
    ] {
        if let Ok(unit) = bpdu::Bpdu::parse(&bytes) {
            let mut out = [0; bpdu::MAX_LEN];
            let len = unit.emit(&mut out);
            assert_eq!(bpdu::Bpdu::parse(&out[..len]), Ok(unit));
        }
    }
    if let Ok(header) = ipv4::Header::parse(octets) {
        assert!(usize::from(header.header_len) + header.payload_len() <= octets.len());
        // Whether it is right does not matter here, only that it can be asked.
        let _ = ipv4::Header::checksum_is_valid(octets);
        if header.header_len == 20 {
            let mut packet = octets.to_vec();
            packet[..20].copy_from_slice(&header.to_bytes());
            assert_eq!(ipv4::Header::parse(&packet), Ok(header));
            assert!(ipv4::Header::checksum_is_valid(&packet));
        }
    }
    if let Ok(message) = icmp::Message::parse(octets) {
        assert_eq!(icmp::Message::parse(&message.to_bytes()), Ok(message));
    }
    if let Ok(header) = udp::Header::parse(octets) {
        assert!(usize::from(header.len) <= octets.len());
    }
    if let Ok(header) = tcp::Header::parse(octets) {
        let mut out = [0; MAX_HEADER_LEN];
        let len = header.emit(&mut out);
        let again = tcp::Header::parse(&out[..len]).expect("what was written can be parsed");
        assert_eq!(
            again,
            tcp::Header {
                header_len: len as u8,
                ..header
            }
        );
    }
    if let Ok(upper) = ipv6::upper(octets.first().copied().unwrap_or(0), octets) {
        assert!(upper.offset <= octets.len());
    }
    let next = octets.first().copied().unwrap_or(0);
    for is_whole in [false, true] {
        if let Ok(chain) = ipv6::chain::follow(next, octets, is_whole) {
            assert!(chain.offset <= octets.len());
        }
    }
    if let Ok(header) = ipv6::Header::parse(octets) {
        assert!(ipv6::HEADER_LEN + usize::from(header.payload_len) <= octets.len());
        let written = header.to_bytes();
        assert_eq!(ipv6::Header::parse_front(&written), Ok(header));
    }
    if let Ok((next, fragment)) = ipv6::Fragment::parse(octets) {
        let written = fragment.to_bytes(next);
        assert_eq!(ipv6::Fragment::parse(&written), Ok((next, fragment)));
    }
    if let Ok(message) = icmpv6::Message::parse(octets) {
        assert_eq!(icmpv6::Message::parse(&message.to_bytes()), Ok(message));
    }
    let mut out = [0; ndp::MAX_LEN];
    if let Ok(solicitation) = ndp::Solicitation::parse(octets) {
        let len = solicitation.emit(&mut out);
        assert_eq!(ndp::Solicitation::parse(&out[..len]), Ok(solicitation));
    }
    if let Ok(advertisement) = ndp::Advertisement::parse(octets) {
        let len = advertisement.emit(&mut out);
        assert_eq!(ndp::Advertisement::parse(&out[..len]), Ok(advertisement));
    }
    if let Ok(redirect) = ndp::Redirect::parse(octets) {
        assert!(!redirect.destination.is_multicast() && !redirect.target.is_multicast());
    }
    if let Ok(query) = mld::Query::parse(octets) {
        assert!(query.group.is_multicast() || query.group.is_unspecified());
    }
    if let Ok(advertisement) = ndp::RouterAdvertisement::parse(octets) {
        assert!(advertisement.options.count() <= octets.len() / 8);
    }
    if let Some((_, tags)) = vlan::skip_tags(0x8100, octets) {
        assert!(tags <= octets.len());
    }
    // An error is an answer, too.
    let _ = ipv6::Header::parse_front(octets);
    let _ = (cooked::v1_protocol(octets), cooked::v2_protocol(octets));
    if let Ok(options) = tcp::Options::parse(octets) {
        let mut out = [0; MAX_HEADER_LEN - tcp::HEADER_LEN];
        let len = options.emit(&mut out);
        // Aligned to words they may have no room in a header. None takes more than twice as much.
        if octets.len() <= out.len() / 2 {
            assert_eq!(tcp::Options::parse(&out[..len]), Ok(options));
        }
    }
});
