//! The program of classic BPF that lets in what is for us (the kernel's networking/filter documentation).
//!
//! Frames begin with their Ethernet header here. These pass, and nothing else:
//!
//! - IPv4 and IPv6 for an address of ours that was sent to our link address;
//! - ARP that asks for our address or answers us;
//! - solicitations and advertisements of an IPv6 address of ours that were sent to a group: questions for us, and the word of a
//!   neighbour that has the address which we try;
//! - units of the spanning tree protocol by which hosts announce themselves (`lan` in the stack), and none of bridges.
//!
//! It must never pass what belongs to the host, which may be in our groups and in VLANs.

use crate::interface::{Addresses, GROUP, unit};
use crate::jumps::Jumps;
use libc::sock_filter;
use tollgate_wire::ethernet::EtherType;
use tollgate_wire::icmpv6::Discovery;
use tollgate_wire::ipv6::protocol;

// Offsets in a frame (RFC 791, 3.1; RFC 826; RFC 8200, 3; RFC 4861, 4.3 and 4.4).
const MAC_FRONT: u32 = 0;
const MAC_BACK: u32 = 4;
const ETHER_TYPE: u32 = 12;
const IPV4_DESTINATION: u32 = 30;
const ARP_TARGET: u32 = 38;
const NEXT_HEADER: u32 = 20;
const IPV6_DESTINATION: u32 = 38;
const ICMPV6_TYPE: u32 = 54;
const NDP_TARGET: u32 = 62;

/// The tag of a VLAN that the kernel has taken off a frame, 0 where there was none (`SKF_AD_VLAN_TAG`).
const VLAN_TAG: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG) as u32;
/// Bits of a tag that name the VLAN: 0 for none, where a tag bears a priority alone (IEEE 802.1Q, 6.9).
const VLAN_ID: u32 = 0xfff;

/// All bytes of a frame.
const ALL: u32 = u32::MAX;
/// A jump whose distance is not known yet.
const LATER: u8 = u8::MAX;

/// Places that jumps lead to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Arp,
    Compare,
    Ipv6,
    Group,
    Target,
    CompareIpv6,
    LinkLocal,
    Unit,
    All,
    Nothing,
}

/// A program that is being written.
#[derive(Default)]
struct Code {
    instructions: Vec<sock_filter>,
    jumps: Jumps<Label>,
}

impl Code {
    fn put(&mut self, code: u32, k: u32, (jt, jf): (u8, u8)) {
        self.instructions.push(sock_filter {
            // The codes of classic BPF are 16 bits wide.
            code: code as u16,
            jt,
            jf,
            k,
        });
    }

    /// Loads from a place in the frame. A load beyond its end drops it.
    fn load(&mut self, width: u32, at: u32) {
        self.put(libc::BPF_LD | width | libc::BPF_ABS, at, (0, 0));
    }

    fn jump(&mut self, condition: u32, k: u32, distances: (u8, u8), to: Label) {
        self.jumps.jump(self.instructions.len(), to);
        self.put(libc::BPF_JMP | condition, k, distances);
    }

    fn go(&mut self, to: Label) {
        self.jump(libc::BPF_JA, 0, (0, 0), to);
    }

    fn go_if(&mut self, loaded: u32, to: Label) {
        self.jump(libc::BPF_JEQ, loaded, (LATER, 0), to);
    }

    fn go_unless(&mut self, loaded: u32, to: Label) {
        self.jump(libc::BPF_JEQ, loaded, (0, LATER), to);
    }

    /// Goes on for our link address alone.
    fn need_mac(&mut self, (front, back): (u32, u16), otherwise: Label) {
        self.load(libc::BPF_W, MAC_FRONT);
        self.go_unless(front, otherwise);
        self.load(libc::BPF_H, MAC_BACK);
        self.go_unless(back.into(), Label::Nothing);
    }

    /// Goes on at `All` for a host's announcement, else at `Nothing`. The EtherType is loaded.
    fn take_announcement(&mut self) {
        self.jump(libc::BPF_JGT, unit::LONGEST, (LATER, 0), Label::Nothing);
        self.need_mac(unit::GROUP, Label::Nothing);
        self.load(libc::BPF_H, unit::SERVICE_POINTS);
        self.go_unless(unit::SPANNING_TREE.into(), Label::Nothing);
        self.load(libc::BPF_B, unit::TYPE);
        self.go_unless(unit::CONFIGURATION.into(), Label::Nothing);
        self.load(libc::BPF_H, unit::MAX_AGE);
        self.put(libc::BPF_MISC | libc::BPF_TAX, 0, (0, 0));
        self.load(libc::BPF_H, unit::AGE);
        let is_older = libc::BPF_JGT | libc::BPF_X;
        self.jump(is_older, 0, (0, LATER), Label::Nothing);
        self.go(Label::All);
    }

    fn label(&mut self, label: Label) {
        self.jumps.place(label, self.instructions.len());
    }

    fn give(&mut self, bytes: u32) {
        self.put(libc::BPF_RET | libc::BPF_K, bytes, (0, 0));
    }

    fn finish(mut self) -> Vec<sock_filter> {
        for (at, distance) in self.jumps.distances() {
            let jump = &mut self.instructions[at];
            // The program is short.
            match (jump.jt, jump.jf) {
                (LATER, _) => jump.jt = distance as u8,
                (_, LATER) => jump.jf = distance as u8,
                _ => jump.k = distance as u32,
            }
        }
        self.instructions
    }
}

/// The program for these addresses.
pub(super) fn program(addresses: &Addresses) -> Vec<sock_filter> {
    let mac = addresses.mac_parts();
    let mut code = Code::default();
    code.load(libc::BPF_W, VLAN_TAG);
    code.put(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, VLAN_ID, (0, 0));
    code.go_unless(0, Label::Nothing);
    code.load(libc::BPF_H, ETHER_TYPE);
    code.go_if(EtherType::Arp.to_u16().into(), Label::Arp);
    let otherwise = match addresses.ipv6 {
        Some(_) => Label::Ipv6,
        None => Label::Unit,
    };
    code.go_unless(EtherType::Ipv4.to_u16().into(), otherwise);
    code.need_mac(mac, Label::Nothing);
    code.load(libc::BPF_W, IPV4_DESTINATION);
    code.go(Label::Compare);
    code.label(Label::Arp);
    code.load(libc::BPF_W, ARP_TARGET);
    code.label(Label::Compare);
    code.go_if(addresses.ipv4.to_bits(), Label::All);
    code.go(Label::Nothing);
    if let Some([global, link_local]) = addresses.ipv6 {
        let index = |code: &mut Code, at| code.put(libc::BPF_LDX | libc::BPF_IMM, at, (0, 0));
        code.label(Label::Ipv6);
        code.go_unless(EtherType::Ipv6.to_u16().into(), Label::Unit);
        code.need_mac(mac, Label::Group);
        index(&mut code, IPV6_DESTINATION);
        code.go(Label::CompareIpv6);
        code.label(Label::Group);
        code.load(libc::BPF_H, MAC_FRONT);
        code.go_unless(GROUP.into(), Label::Nothing);
        code.load(libc::BPF_B, NEXT_HEADER);
        code.go_unless(protocol::ICMP.into(), Label::Nothing);
        code.load(libc::BPF_B, ICMPV6_TYPE);
        code.go_if(
            Discovery::NeighbourSolicitation.number().into(),
            Label::Target,
        );
        code.go_unless(
            Discovery::NeighbourAdvertisement.number().into(),
            Label::Nothing,
        );
        code.label(Label::Target);
        index(&mut code, NDP_TARGET);
        for (here, address, otherwise) in [
            (Label::CompareIpv6, global, Label::LinkLocal),
            (Label::LinkLocal, link_local, Label::Nothing),
        ] {
            code.label(here);
            // The last word first: it differs where any does, mostly.
            for word in (0..4).rev() {
                let at = libc::BPF_LD | libc::BPF_W | libc::BPF_IND;
                code.put(at, 4 * word, (0, 0));
                code.go_unless((address.to_bits() >> (96 - 32 * word)) as u32, otherwise);
            }
            code.go(Label::All);
        }
    }
    code.label(Label::Unit);
    code.take_announcement();
    code.label(Label::All);
    code.give(ALL);
    code.label(Label::Nothing);
    code.give(0);
    code.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::frames;
    use crate::socket;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn what_is_for_us_passes_and_nothing_else() {
        for addresses in [frames::OURS_V4, frames::OURS] {
            // The kernel runs the program on datagrams of any family.
            let (ours, theirs) = UnixDatagram::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            socket::attach_filter(&ours, &program(&addresses)).unwrap();
            for (name, frame, is_ours) in frames::all(&addresses) {
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
}
