//! Tags go in and out, other LANs stay out, and every frame comes back to the pool.

use super::*;
use crate::memory::OwnedEnd;
use std::net::{Ipv4Addr, SocketAddrV4};
use tollgate_stack::buffer::RxChecksum;
use tollgate_stack::{Config, Instant, Received, Stack, State};
use tollgate_wire::ethernet::MacAddr;

/// A link that takes as many frames as it has room for, and gives what it was loaded with.
#[derive(Debug, Default)]
struct Wire {
    room: usize,
    sent: Vec<Vec<u8>>,
    loaded: Vec<Frame>,
}

impl Link for Wire {
    fn mtu(&self) -> usize {
        1504
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        let count = frames.len().min(self.room);
        self.room -= count;
        for frame in frames.drain(..count) {
            self.sent.push(pool.frame(&frame).to_vec());
            pool.release(frame.id);
        }
    }

    fn receive(&mut self, _: &mut Pool, frames: &mut Vec<Frame>) {
        frames.append(&mut self.loaded);
    }
}

fn scene() -> (Pool, Vlan<Wire>) {
    let wire = Wire {
        room: usize::MAX,
        ..Wire::default()
    };
    (
        Pool::new(16, Pool::frame_size_for(1500)),
        Vlan::new(wire, 5).unwrap(),
    )
}

fn bytes(front: &[u8]) -> Vec<u8> {
    let addresses: Vec<u8> = (1..=12).collect();
    [&addresses, front, &[8, 0, 0x45, 77][..]].concat()
}

/// A frame with these bytes, which begin at `offset`.
fn frame(pool: &mut Pool, bytes: &[u8], offset: usize) -> Frame {
    let id = pool.alloc().unwrap();
    pool.bytes_mut(id)[offset..offset + bytes.len()].copy_from_slice(bytes);
    Frame {
        id,
        offset: offset as u16,
        len: bytes.len() as u16,
        checksum: RxChecksum::Verified,
    }
}

/// IEEE 802.1Q, 9.3: the tag stands behind both addresses; priority 0, not eligible for being dropped.
#[test]
fn tag_goes_in_where_there_is_room_and_where_there_is_none() {
    for offset in [0, 3, 4, 64] {
        let (mut pool, mut link) = scene();
        let free = pool.available();
        let frame = frame(&mut pool, &bytes(&[]), offset);
        let mut frames = vec![frame];
        link.transmit(&mut pool, &mut frames);
        assert!(frames.is_empty());
        assert_eq!(link.inner().sent, [bytes(&[0x81, 0, 0, 5])]);
        assert_eq!(link.stats().sent, 1);
        assert_eq!(pool.available(), free);
    }
    assert_eq!(scene().1.mtu(), 1500);
}

/// Retransmission sends the same frame again: what the stack still holds is not changed.
#[test]
fn held_frame_is_copied() {
    let (mut pool, mut link) = scene();
    let kept = frame(&mut pool, &bytes(&[]), 64);
    let (id, at) = (kept.id, usize::from(kept.offset));
    pool.retain(id);
    link.transmit(&mut pool, &mut vec![kept]);
    assert_eq!(link.inner().sent, [bytes(&[0x81, 0, 0, 5])]);
    assert_eq!(pool.bytes_mut(id)[at..at + 16], bytes(&[]));
    pool.release(id);
    assert_eq!(pool.available(), 16);
}

/// IEEE 802.1Q, 9.6: twelve bits name the LAN; priority and eligibility do not count.
#[test]
fn frames_of_our_lan_come_in_and_no_others() {
    let (mut pool, mut link) = scene();
    for tag in [
        &[0x81, 0, 0, 5][..],
        &[0x81, 0, 0xf0, 5],
        &[0x81, 0, 0, 6],
        &[0x81, 0, 1, 5],
        &[0x81, 0, 0, 0],
        &[0x88, 0xa8, 0, 5],
        &[],
    ] {
        let frame = frame(&mut pool, &bytes(tag), 8);
        link.inner_mut().loaded.push(frame);
    }
    let short = frame(&mut pool, &[1; 15], 0);
    link.inner_mut().loaded.push(short);
    let mut frames = Vec::new();
    link.receive(&mut pool, &mut frames);
    assert_eq!(frames.len(), 2);
    for frame in frames {
        assert_eq!(pool.frame(&frame), bytes(&[]));
        assert_eq!(frame.checksum, RxChecksum::Verified);
        pool.release(frame.id);
    }
    let stats = *link.stats();
    assert_eq!((stats.received, stats.others, stats.untagged), (2, 3, 3));
    assert_eq!(pool.available(), 16);
}

#[test]
fn frames_that_find_no_room_go_first() {
    let (mut pool, mut link) = scene();
    link.inner_mut().room = 1;
    let mut frames: Vec<Frame> = (0..3)
        .map(|n| frame(&mut pool, &[&bytes(&[])[..], &[n]].concat(), 64))
        .collect();
    link.transmit(&mut pool, &mut frames);
    assert!(frames.is_empty());
    let last = frame(&mut pool, &[&bytes(&[])[..], &[3]].concat(), 64);
    frames.push(last);
    // There is still no room: the stack keeps it.
    link.transmit(&mut pool, &mut frames);
    assert_eq!((frames.len(), link.inner().sent.len()), (1, 1));
    link.inner_mut().room = 1;
    link.receive(&mut pool, &mut Vec::new());
    assert_eq!(link.inner().sent.len(), 2);
    link.inner_mut().room = 2;
    link.transmit(&mut pool, &mut frames);
    let order: Vec<u8> = link.inner().sent.iter().map(|sent| sent[20]).collect();
    assert_eq!(order, [0, 1, 2, 3]);
    assert_eq!(pool.available(), 16);
}

#[test]
fn frames_without_a_copy_stay_with_the_stack() {
    let (mut pool, mut link) = scene();
    let mut frames: Vec<Frame> = (0..16).map(|_| frame(&mut pool, &bytes(&[]), 64)).collect();
    let kept: Vec<_> = frames.iter().map(|frame| frame.id).collect();
    for &id in &kept {
        pool.retain(id);
    }
    link.transmit(&mut pool, &mut frames);
    assert_eq!((frames.len(), link.stats().no_frame), (16, 1));
    // One that is free serves all, one after the other.
    let one = frames.remove(0);
    pool.release(one.id);
    pool.release(kept[0]);
    for left in (0..15).rev() {
        link.transmit(&mut pool, &mut frames);
        assert_eq!(frames.len(), left);
    }
    for &id in &kept[1..] {
        pool.release(id);
    }
    assert_eq!(link.inner().sent.len(), 15);
    assert_eq!(pool.available(), 16);
}

#[test]
fn numbers_of_no_lan_are_refused() {
    for number in [0, 4095, u16::MAX] {
        let refused = Vlan::new(Wire::default(), number).unwrap_err();
        assert_eq!(refused, NoSuchLan(number));
    }
}

fn stack(host: u8) -> Stack {
    let mac = MacAddr([2, 0, 0, 0, 0, host]);
    let address = Ipv4Addr::new(10, 0, 0, host);
    let config = Config::new(mac, address, 24, [host.into(), 2, 3, 4]);
    Stack::new(config, 1500, Instant::from_nanos(1)).unwrap()
}

/// Opens a connection between two stacks on LANs of these numbers, over one cable, and sends bytes; tells what came and what the
/// server's end counted.
fn talk(numbers: [u16; 2], data: &[u8]) -> (Vec<u8>, Stats) {
    let mut pool = Pool::new(512, Pool::frame_size_for(1500));
    let [a, b] = OwnedEnd::pair(1500 + TAG, 16);
    let mut links = [
        Vlan::new(a, numbers[0]).unwrap(),
        Vlan::new(b, numbers[1]).unwrap(),
    ];
    let (mut client, mut server) = (stack(1), stack(2));
    let mut now = Instant::from_nanos(1);
    let listener = server.at(now, &mut pool).listen(7, 4).unwrap();
    let to = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 7);
    let conn = client.at(now, &mut pool).connect(to).unwrap();
    let (mut sent, mut accepted, mut came) = (0, None, Vec::new());
    let mut buffer = [0; 4096];
    for _ in 0..5_000 {
        now = now + Duration::from_millis(1);
        let mut active = client.at(now, &mut pool);
        active.poll(&mut links[0]);
        if active.state(conn) == State::Established
            && sent < data.len()
            && let Ok(count) = active.send(conn, &data[sent..])
        {
            sent += count;
        }
        active.flush(&mut links[0]);
        let mut active = server.at(now, &mut pool);
        active.poll(&mut links[1]);
        accepted = accepted.or_else(|| active.accept(listener).ok());
        if let Some(server_conn) = accepted {
            while let Ok(Received::Data(count)) = active.receive(server_conn, &mut buffer) {
                came.extend_from_slice(&buffer[..count]);
            }
        }
        if came.len() == data.len() {
            break;
        }
    }
    (came, *links[1].stats())
}

#[test]
fn stacks_of_one_lan_talk_and_those_of_two_do_not() {
    let data: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
    let (came, stats) = talk([5, 5], &data);
    assert!(came == data, "{} bytes, {stats:?}", came.len());
    assert!(stats.received > 130 && stats.others == 0, "{stats:?}");
    assert_eq!((stats.bad_length, stats.no_frame), (0, 0));
    let (came, stats) = talk([5, 6], &data);
    assert!(came.is_empty());
    assert!(stats.received == 0 && stats.others > 0, "{stats:?}");
}
