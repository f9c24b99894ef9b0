//! Messages: what is read of them, what is refused, and that nothing of any bytes panics.

use super::message::{Ask, FIXED, Request};
use super::{Kind, MAX_NAME_SERVERS, MAX_ROUTES, Reply};
use crate::addresses::Route;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use proptest::prelude::*;
use tollgate_wire::Malformed;
use tollgate_wire::ethernet::MacAddr;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);

/// A message of a server with these options, the fields of the server's and the file's name empty.
fn reply(options: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; FIXED];
    bytes[..8].copy_from_slice(&[2, 1, 6, 0, 1, 2, 3, 4]);
    bytes[16..20].copy_from_slice(&[10, 0, 0, 5]);
    bytes[28..34].copy_from_slice(&MAC.0);
    bytes[236..].copy_from_slice(&[99, 130, 83, 99]);
    bytes.extend_from_slice(options);
    bytes
}

fn parse(options: &[u8]) -> Result<Reply, Malformed> {
    Reply::parse(&reply(options))
}

/// RFC 2132, 3.3, 3.5, 3.8, 5.1, 9.2, 9.6, 9.7.
#[test]
fn options_are_read() {
    let bytes = [
        53, 1, 5, 0, 54, 4, 10, 0, 0, 1, 51, 4, 0, 0, 14, 16, 1, 4, 255, 255, 240, 0, 3, 8, 10, 0,
        0, 1, 10, 0, 0, 2, 6, 4, 9, 9, 9, 9, 26, 2, 5, 120, 58, 4, 0, 0, 0, 9, 59, 4, 0, 0, 0, 10,
        255, 1,
    ];
    let reply = parse(&bytes).unwrap();
    let expected = Reply {
        kind: Kind::Ack,
        xid: 0x0102_0304,
        client: MAC,
        client_id: None,
        address: Ipv4Addr::new(10, 0, 0, 5),
        server: Some(Ipv4Addr::new(10, 0, 0, 1)),
        prefix_len: Some(20),
        router: Some(Ipv4Addr::new(10, 0, 0, 1)),
        routes: None,
        name_servers: vec![Ipv4Addr::new(9, 9, 9, 9)],
        mtu: Some(1400),
        lease: Some(3600),
        renewal: Some(9),
        rebinding: Some(10),
    };
    assert_eq!(reply, expected);
}

/// RFC 3442: the example of its page 4, and a network on the link; RFC 3396, 7: pieces of one option are joined.
#[test]
fn classless_routes_are_read_in_pieces() {
    let bytes = [
        53, 1, 2, 121, 7, 24, 10, 229, 0, 10, 229, 0, 121, 14, 128, 0, 10, 0, 0, 1, 17, 10, 27,
        255, 0, 0, 0, 0,
    ];
    // The second piece begins with the last byte of the first route's router.
    let reply = parse(&bytes).unwrap();
    let route = |destination: [u8; 4], prefix_len, gateway: Option<[u8; 4]>| Route {
        destination: destination.into(),
        prefix_len,
        gateway: gateway.map(Into::into),
    };
    let expected = vec![
        route([10, 229, 0, 0], 24, Some([10, 229, 0, 128])),
        route([0, 0, 0, 0], 0, Some([10, 0, 0, 1])),
        // Bits behind the prefix are cleared.
        route([10, 27, 128, 0], 17, None),
    ];
    assert_eq!(reply.routes, Some(expected));
}

/// RFC 2132, 9.3: options go on in the file's name, then in the server's.
#[test]
fn overloaded_fields_hold_options() {
    let mut bytes = reply(&[53, 1, 5, 52, 1, 3, 255]);
    bytes[108..114].copy_from_slice(&[51, 4, 0, 0, 0, 8]);
    bytes[114] = 255;
    bytes[44..50].copy_from_slice(&[54, 4, 10, 0, 0, 3]);
    let reply = Reply::parse(&bytes).unwrap();
    assert_eq!(
        (reply.lease, reply.server),
        (Some(8), Some(Ipv4Addr::new(10, 0, 0, 3)))
    );
}

#[test]
fn hostile_options_are_refused() {
    for options in [
        // None at all, an unknown type, one that is a client's.
        &[][..],
        &[53, 1, 99],
        &[53, 1, 1],
        // Lengths that leave the message or are wrong.
        &[53],
        &[53, 1],
        &[53, 2, 5],
        &[53, 0],
        &[53, 2, 5, 5],
        &[53, 1, 5, 51, 3, 0, 0, 1],
        &[53, 1, 5, 54, 0],
        &[53, 1, 5, 3, 0],
        &[53, 1, 5, 6, 5, 1, 2, 3, 4, 5],
        &[53, 1, 5, 26, 1, 9],
        // A mask with a hole; an overload of no field.
        &[53, 1, 5, 1, 4, 255, 0, 255, 0],
        &[53, 1, 5, 52, 1, 4],
        // A prefix that is too long; a network and a router that are cut off.
        &[53, 1, 5, 121, 9, 33, 1, 2, 3, 4, 1, 2, 3, 4],
        &[53, 1, 5, 121, 2, 24, 10],
        &[53, 1, 5, 121, 4, 8, 10, 1, 1],
    ] {
        assert!(parse(options).is_err(), "{options:?}");
    }
    let mut bootp = reply(&[53, 1, 5]);
    bootp[236] = 0;
    assert_eq!(Reply::parse(&bootp), Err(Malformed::Field));
    bootp.truncate(FIXED - 1);
    assert_eq!(Reply::parse(&bootp), Err(Malformed::Truncated));
}

#[test]
fn lists_have_bounds() {
    let mut options = vec![53, 1, 5];
    for n in 0..200u8 {
        options.extend_from_slice(&[121, 8, 24, 10, 0, n, 10, 0, 0, 1, 6, 4, 9, 9, 9, n]);
    }
    let reply = parse(&options).unwrap();
    assert_eq!(reply.routes.unwrap().len(), MAX_ROUTES);
    assert_eq!(reply.name_servers.len(), MAX_NAME_SERVERS);
}

proptest! {
    /// Whatever the bytes: no panic, and what is kept has its bounds.
    #[test]
    fn any_options_are_read_or_refused(
        options in proptest::collection::vec(any::<u8>(), 0..700),
        front in prop_oneof![Just(vec![]), Just(vec![53, 1, 5]), Just(vec![53, 1, 2, 52, 1, 3])],
    ) {
        let bytes = [front, options].concat();
        if let Ok(reply) = parse(&bytes) {
            prop_assert!(reply.prefix_len.is_none_or(|len| len <= 32));
            prop_assert!(reply.name_servers.len() <= MAX_NAME_SERVERS);
            for route in reply.routes.iter().flatten() {
                prop_assert!(route.prefix_len <= 32);
                let mask = crate::addresses::mask(route.prefix_len);
                prop_assert_eq!(u32::from(route.destination) & !mask, 0);
            }
        }
    }

    /// A client's message has the fixed part's layout, options that end, and is no server's message.
    #[test]
    fn requests_are_whole(xid: u32, secs: u16, address: u32, server: u32) {
        for ask in [Ask::Discover, Ask::Request, Ask::Decline, Ask::Release] {
            let request = Request {
                ask,
                xid,
                secs,
                mac: MAC,
                ciaddr: Ipv4Addr::UNSPECIFIED,
                requested: Some(address.into()),
                server: Some(server.into()),
            };
            let mut bytes = request.to_bytes();
            prop_assert!(bytes.len() >= 300 && bytes.len() <= 576 - 28);
            prop_assert_eq!(Reply::parse(&bytes), Err(Malformed::Field));
            // As if a server had sent it: everything is read but the type.
            bytes[0] = 2;
            prop_assert_eq!(&bytes[240..242], &[53, 1]);
            bytes[242] = 5;
            let read = Reply::parse(&bytes).unwrap();
            prop_assert_eq!((read.xid, read.client), (xid, MAC));
            prop_assert_eq!(read.server, Some(server.into()));
            prop_assert_eq!(read.client_id.unwrap(), super::client_id(MAC));
        }
    }
}
