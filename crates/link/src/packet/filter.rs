//! The program of classic BPF that lets in what is for us (the kernel's networking/filter documentation).
//!
//! Frames begin with their Ethernet header here. IPv4 for our address that was sent to our link address passes, and ARP that asks for
//! our address or answers us; nothing else does. It must never pass what belongs to the host.

use crate::interface::Addresses;
use libc::sock_filter;
use tollgate_wire::ethernet::EtherType;

// Offsets in a frame (RFC 791, 3.1; RFC 826).
const MAC_FRONT: u32 = 0;
const MAC_BACK: u32 = 4;
const ETHER_TYPE: u32 = 12;
const IPV4_DESTINATION: u32 = 30;
const ARP_TARGET: u32 = 38;

/// All bytes of a frame.
const ALL: u32 = u32::MAX;

const fn load(width: u32, at: u32) -> sock_filter {
    instruction(libc::BPF_LD | width | libc::BPF_ABS, at, 0, 0)
}

const fn equal(to: u32, yes: u8, no: u8) -> sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, to, yes, no)
}

const fn give(bytes: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, bytes, 0, 0)
}

const fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter {
        // The codes of classic BPF are 16 bits wide.
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// The program for these addresses. A load beyond the frame's end drops it.
pub(super) fn program(addresses: &Addresses) -> [sock_filter; 13] {
    let (front, back) = addresses.mac_parts();
    let arp = EtherType::Arp.to_u16().into();
    let ipv4 = EtherType::Ipv4.to_u16().into();
    // Jumps are counted from the next instruction. The last two give all or nothing.
    [
        load(libc::BPF_H, ETHER_TYPE),
        equal(arp, 7, 0),
        equal(ipv4, 0, 9),
        load(libc::BPF_W, MAC_FRONT),
        equal(front, 0, 7),
        load(libc::BPF_H, MAC_BACK),
        equal(back.into(), 0, 5),
        load(libc::BPF_W, IPV4_DESTINATION),
        instruction(libc::BPF_JMP | libc::BPF_JA, 1, 0, 0),
        load(libc::BPF_W, ARP_TARGET),
        equal(addresses.ipv4.to_bits(), 0, 1),
        give(ALL),
        give(0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::frames;
    use crate::socket;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn what_is_for_us_passes_and_nothing_else() {
        // The kernel runs the program on datagrams of any family.
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        socket::attach_filter(&ours, &program(&frames::OURS)).unwrap();
        for (name, frame, is_ours) in frames::all() {
            // A datagram that the filter drops is refused or lost, by kernel.
            let _ = theirs.send(&frame);
            let mut got = [0; 128];
            match ours.recv(&mut got) {
                Ok(len) => assert!(is_ours && got[..len] == frame, "{name} passes"),
                Err(_) => assert!(!is_ours, "{name} is dropped"),
            }
        }
    }
}
