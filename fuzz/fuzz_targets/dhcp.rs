//! Any bytes as a message of a DHCP server, and any such messages to a client over a stack: nothing panics, what is kept has its
//! bounds, and when the client releases what it has, nothing of a lease is left.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::Ipv4Addr;
use std::time::Duration;
use tollgate_link::Side;
use tollgate_link::memory::Memory;
use tollgate_stack::dhcp::{Client, MAX_NAME_SERVERS, MAX_ROUTES, Reply};
use tollgate_stack::{Config, Instant, Link, Pool, Stack};
use tollgate_wire::ethernet::{self, EtherType, MacAddr};
use tollgate_wire::{ipv4, udp};

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// Bytes before the options.
const FIXED: usize = 240;

/// A frame with a message of a server to everybody.
fn frame(message: &[u8]) -> Vec<u8> {
    let link = ethernet::Header {
        destination: MacAddr::BROADCAST,
        source: MacAddr([2, 0, 0, 0, 0, 2]),
        ethertype: EtherType::Ipv4,
    };
    let datagram = udp::HEADER_LEN + message.len();
    let ip = ipv4::Header {
        header_len: 20,
        tos: 0,
        total_len: (ipv4::HEADER_LEN + datagram) as u16,
        identification: 1,
        flags_and_offset: 0,
        ttl: 64,
        protocol: ipv4::protocol::UDP,
        source: SERVER,
        destination: Ipv4Addr::BROADCAST,
    };
    let udp = udp::Header {
        source_port: 67,
        destination_port: 68,
        len: datagram as u16,
        no_checksum: true,
    };
    [
        &link.to_bytes()[..],
        &ip.to_bytes(),
        &udp.to_bytes(),
        message,
    ]
    .concat()
}

fuzz_target!(|input: (Vec<(u8, u16, [u8; 4], Vec<u8>)>, Vec<u8>)| {
    let (steps, any) = input;
    if let Ok(reply) = Reply::parse(&any) {
        assert!(reply.name_servers.len() <= MAX_NAME_SERVERS);
        assert!(reply.routes.is_none_or(|routes| routes.len() <= MAX_ROUTES));
    }
    let mut now = Instant::from_nanos(1 << 40);
    let mut pool = Pool::new(64, Pool::frame_size_for(1500));
    let mut cable = Memory::new(1500);
    let config = Config::new(MAC, Ipv4Addr::UNSPECIFIED, 32, [1, 2, 3, 4]);
    let mut stack = Stack::new(config, 1500, now).unwrap();
    let mut client = Client::new([1, 2]);
    client.begin_at_once();
    let mut xid = [0; 4];
    for (kind, seconds, address, options) in steps.into_iter().take(64) {
        now = now + Duration::from_secs(seconds.into());
        let mut message = vec![0; FIXED];
        message[..3].copy_from_slice(&[2, 1, 6]);
        message[4..8].copy_from_slice(&xid);
        message[16..20].copy_from_slice(&address);
        message[28..34].copy_from_slice(&MAC.0);
        message[236..].copy_from_slice(&[99, 130, 83, 99]);
        message.extend_from_slice(&[53, 1, kind % 8]);
        if kind & 8 != 0 {
            message.extend_from_slice(&[54, 4, 10, 0, 0, 2, 51, 4, 0, 0, 14, 16]);
        }
        message.extend_from_slice(&options[..options.len().min(900)]);
        if let Ok(sent) = pool.frame_from(&frame(&message)) {
            cable.end(Side::B).transmit(&mut pool, &mut vec![sent]);
        }
        let mut active = stack.at(now, &mut pool);
        active.poll(&mut cable.end(Side::A));
        client.poll(&mut active).unwrap();
        active.flush(&mut cable.end(Side::A));
        let mut heard = Vec::new();
        cable.end(Side::B).receive(&mut pool, &mut heard);
        for frame in heard {
            let bytes = pool.frame(&frame);
            if bytes.len() > 42 + FIXED && bytes[12..14] == [8, 0] {
                xid.copy_from_slice(&bytes[46..50]);
            }
            pool.release(frame.id);
        }
    }
    client.release(&mut stack.at(now, &mut pool));
    assert_eq!(stack.addresses().count(), 0);
    assert!(stack.routes().is_empty());
    assert_eq!(stack.mtu(), 1500);
});
