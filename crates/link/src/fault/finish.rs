//! Checksums that the sender has left unfinished, since the frame does not leave its host: they are finished before a frame is damaged.
//!
//! The field holds the sum of the pseudo-header alone then, and says nothing of the data. A receiver that verified it after the damage
//! would take one damaged frame out of 65,536, where a checksum finds every change of neighbouring bits.

use tollgate_checksum::{Kernel, Partial};
use tollgate_wire::ethernet::{self, EtherType};
use tollgate_wire::{ipv4, ipv6};

const IP: usize = ethernet::HEADER_LEN;

/// Finishes the checksum of a frame with TCP or UDP. Others, fragments, and packets with extension headers are left as they are.
pub(super) fn finish_checksum(frame: &mut [u8]) {
    let Some((start, end, protocol, pseudo)) = transport(frame) else {
        return;
    };
    let field = start
        + match protocol {
            // RFC 9293, 3.1; RFC 768.
            ipv4::protocol::TCP => 16,
            ipv4::protocol::UDP => 6,
            _ => return,
        };
    let Some(segment) = frame.get_mut(start..end).filter(|_| field + 2 <= end) else {
        return;
    };
    segment[field - start..][..2].fill(0);
    let sum = (pseudo + Kernel::best().sum(segment)).finish();
    frame[field..field + 2].copy_from_slice(&sum.to_ne_bytes());
}

/// Places where the segment of a frame begins and ends, its protocol, and the sum of its pseudo-header.
fn transport(frame: &[u8]) -> Option<(usize, usize, u8, Partial)> {
    let packet = frame.get(IP..)?;
    match ethernet::Header::parse(frame).ok()?.ethertype {
        EtherType::Ipv4 => {
            let ip = ipv4::Header::parse_front(packet).ok()?;
            let head = usize::from(packet[0] & 0xf) * 4;
            let len = usize::from(ip.total_len).checked_sub(head)?;
            let fragment = u16::from_be_bytes([packet[6], packet[7]]);
            if fragment & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK) != 0 {
                return None;
            }
            let pseudo = ipv4::pseudo_header(ip.source, ip.destination, ip.protocol, len as u16);
            Some((IP + head, IP + head + len, ip.protocol, pseudo))
        }
        EtherType::Ipv6 => {
            let ip = ipv6::Header::parse_front(packet).ok()?;
            let start = IP + ipv6::HEADER_LEN;
            let len = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
            let next = packet[6];
            let pseudo = ipv6::pseudo_header(ip.source, ip.destination, next, len as u32);
            Some((start, start + len, next, pseudo))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame whose checksum is the sum of its pseudo-header, as Linux leaves it.
    fn unfinished(v6: bool, protocol: u8) -> Vec<u8> {
        let (head, len) = (if v6 { 40 } else { 20 }, 41_usize);
        let mut frame = vec![0; IP + head + len];
        for (at, byte) in frame.iter_mut().enumerate() {
            *byte = (at * 37) as u8;
        }
        let ip = &mut frame[IP..];
        if v6 {
            ip[0] = 0x60;
            ip[4..6].copy_from_slice(&(len as u16).to_be_bytes());
            ip[6] = protocol;
        } else {
            ip[0] = 0x45;
            ip[2..4].copy_from_slice(&((head + len) as u16).to_be_bytes());
            ip[6..8].fill(0);
            ip[9] = protocol;
        }
        frame[12..14].copy_from_slice(if v6 { &[0x86, 0xdd] } else { &[8, 0] });
        let (start, _, _, pseudo) = transport(&frame).unwrap();
        let field = start + if protocol == 6 { 16 } else { 6 };
        frame[field..field + 2].copy_from_slice(&pseudo.fold().to_ne_bytes());
        frame
    }

    fn is_valid(frame: &[u8]) -> bool {
        let (start, end, _, pseudo) = transport(frame).unwrap();
        (pseudo + Kernel::best().sum(&frame[start..end])).is_valid()
    }

    #[test]
    fn a_finished_checksum_is_valid_until_a_bit_flips() {
        for v6 in [false, true] {
            for protocol in [ipv4::protocol::TCP, ipv4::protocol::UDP] {
                let mut frame = unfinished(v6, protocol);
                let (start, end, ..) = transport(&frame).unwrap();
                assert!(!is_valid(&frame));
                finish_checksum(&mut frame);
                assert!(is_valid(&frame), "{v6} {protocol}");
                for at in start..end {
                    for bit in 0..8 {
                        let mut damaged = frame.clone();
                        damaged[at] ^= 1 << bit;
                        assert!(!is_valid(&damaged), "{v6} {protocol} {at} {bit}");
                    }
                }
            }
        }
    }

    #[test]
    fn damage_meets_finished_checksums_of_frames_that_are_vouched_for() {
        use crate::fault::{Fault, Faults, Probability};
        use crate::{Side, memory::Memory};
        use tollgate_stack::buffer::{Pool, RxChecksum};
        use tollgate_stack::link::Link as _;

        let damage = Faults {
            corrupt: Probability::ALWAYS,
            ..Faults::default()
        };
        for checksum in [RxChecksum::Verified, RxChecksum::Unknown] {
            let sent = unfinished(false, ipv4::protocol::TCP);
            let mut whole = sent.clone();
            if checksum == RxChecksum::Verified {
                finish_checksum(&mut whole);
            }
            let mut pool = Pool::new(8, 2048);
            let mut cable = Memory::with_capacity(1500, 8);
            let mut fault = Fault::on_transmit(cable.end(Side::A), damage, 1);
            let mut frame = pool.frame_from(&sent).unwrap();
            frame.checksum = checksum;
            fault.transmit(&mut pool, &mut vec![frame]);
            let mut arrived = Vec::new();
            cable.end(Side::B).receive(&mut pool, &mut arrived);
            let damaged = pool.frame(&arrived[0]);
            let flips: u32 = whole
                .iter()
                .zip(damaged)
                .map(|(one, other)| (one ^ other).count_ones())
                .sum();
            assert!((1..=3).contains(&flips), "{checksum:?}: {flips} bits");
        }
    }

    #[test]
    fn other_frames_are_left_alone() {
        let mut others = vec![vec![], vec![0; 13], vec![0; 60]];
        let mut fragment = unfinished(false, ipv4::protocol::TCP);
        fragment[IP + 7] = 1;
        others.push(fragment);
        others.push(unfinished(false, ipv4::protocol::ICMP));
        let mut short = unfinished(true, ipv4::protocol::TCP);
        short.truncate(IP + 50);
        others.push(short);
        for mut frame in others {
            let before = frame.clone();
            finish_checksum(&mut frame);
            assert_eq!(frame, before);
        }
    }
}
