//! A filter as a program of classic BPF (the kernel's networking/filter documentation), which a packet socket runs on every
//! packet before it is copied.
//!
//! The program sees packets from the network header on, as those of a datagram packet socket are. Ports are those of TCP and UDP
//! whose header follows IP's at once; later fragments and what is behind IPv6 extension headers have none here, as in
//! pcap-filter(7). What a loopback interface sends is passed over, since it is received right after.

use std::net::IpAddr;

use libc::sock_filter;

use super::{Filter, Side, mask, words_of};

/// linux/filter.h: what a socket takes at most.
const LONGEST: usize = libc::BPF_MAXINSNS as usize;

const ETHERTYPE_IPV4: u32 = libc::ETH_P_IP as u32;
const ETHERTYPE_IPV6: u32 = libc::ETH_P_IPV6 as u32;
const TCP: u32 = libc::IPPROTO_TCP as u32;
const UDP: u32 = libc::IPPROTO_UDP as u32;

/// Offsets of the fields of RFC 791 and RFC 8200.
const V4_FRAGMENT: u32 = 6;
const V4_FRAGMENT_OFFSET: u32 = 0x1fff;
const V4_PROTOCOL: u32 = 9;
const V4_ADDRESSES: [u32; 2] = [12, 16];
const V6_PROTOCOL: u32 = 6;
const V6_ADDRESSES: [u32; 2] = [8, 24];
const V6_LEN: u32 = 40;

const fn ancillary(what: i32) -> u32 {
    (libc::SKF_AD_OFF + what) as u32
}

/// A filter that needs more instructions than the kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the filter takes {0} instructions, and the kernel takes no more than {LONGEST}; write a shorter one"
)]
pub struct TooLong(pub usize);

/// The program that keeps the first `keep` bytes of what `filter` passes (everything, without one), and nothing of the rest.
///
/// # Errors
/// [`TooLong`].
pub fn program(filter: Option<&Filter>, keep: u32) -> Result<Vec<sock_filter>, TooLong> {
    let mut code = Backwards::default();
    let drop = code.put(libc::BPF_RET | libc::BPF_K, 0);
    let pass = code.put(libc::BPF_RET | libc::BPF_K, keep);
    let filtered = match filter {
        Some(filter) => code.filter(filter, pass, drop),
        None => pass,
    };
    // What a loopback interface sends comes in by it again.
    code.equal(u32::from(libc::PACKET_OUTGOING), drop, filtered);
    let looped = code.load(libc::BPF_B | libc::BPF_ABS, ancillary(libc::SKF_AD_PKTTYPE));
    code.equal(u32::from(libc::ARPHRD_LOOPBACK), looped, filtered);
    code.load(libc::BPF_H | libc::BPF_ABS, ancillary(libc::SKF_AD_HATYPE));
    code.finish()
}

/// A program that passes nothing.
pub fn nothing() -> Vec<sock_filter> {
    let mut code = Backwards::default();
    code.put(libc::BPF_RET | libc::BPF_K, 0);
    code.0
}

/// The place of an instruction, counted from the end of the program.
type Address = usize;

/// The bytes that a jump under a condition can pass over, with one place left for the jump of the other branch.
const MAX_JUMP: usize = 254;

/// A program that is written from its end, since jumps go forward only and their targets are known then.
#[derive(Default)]
struct Backwards(Vec<sock_filter>);

impl Backwards {
    fn put(&mut self, code: u32, k: u32) -> Address {
        self.jump(code, k, 0, 0)
    }

    fn jump(&mut self, code: u32, k: u32, jt: u8, jf: u8) -> Address {
        // The codes of classic BPF are 16 bits wide.
        let code = code as u16;
        self.0.push(sock_filter { code, jt, jf, k });
        self.0.len() - 1
    }

    /// Loads what the instructions in front compare; goes on there.
    fn load(&mut self, how: u32, at: u32) -> Address {
        self.put(libc::BPF_LD | how, at)
    }

    /// Number of instructions between the next one and `to`.
    fn distance(&self, to: Address) -> usize {
        self.0.len() - to - 1
    }

    /// A place that a jump under a condition reaches, and that goes on at `to`.
    fn within_jump(&mut self, to: Address) -> Address {
        match self.distance(to) {
            distance if distance >= MAX_JUMP => {
                self.put(libc::BPF_JMP | libc::BPF_JA, distance as u32)
            }
            _ => to,
        }
    }

    fn test(&mut self, how: u32, k: u32, yes: Address, no: Address) -> Address {
        let (yes, no) = (self.within_jump(yes), self.within_jump(no));
        let (jt, jf) = (self.distance(yes) as u8, self.distance(no) as u8);
        self.jump(libc::BPF_JMP | libc::BPF_K | how, k, jt, jf)
    }

    fn equal(&mut self, k: u32, yes: Address, no: Address) -> Address {
        self.test(libc::BPF_JEQ, k, yes, no)
    }

    /// Goes on at `v4` or `v6` by the packet's protocol.
    fn family(&mut self, v4: Address, v6: Address, no: Address) -> Address {
        let other = self.equal(ETHERTYPE_IPV6, v6, no);
        self.equal(ETHERTYPE_IPV4, v4, other);
        self.load(
            libc::BPF_H | libc::BPF_ABS,
            ancillary(libc::SKF_AD_PROTOCOL),
        )
    }

    fn filter(&mut self, filter: &Filter, yes: Address, no: Address) -> Address {
        match filter {
            Filter::Net(side, net, bits) => self.net(*side, *net, *bits, yes, no),
            Filter::Ports(side, first, last) => self.ports(*side, (*first, *last), yes, no),
            Filter::Ip => self.family(yes, no, no),
            Filter::Ip6 => self.family(no, yes, no),
            Filter::Tcp => self.protocol(&[TCP], yes, yes, no),
            Filter::Udp => self.protocol(&[UDP], yes, yes, no),
            Filter::Not(one) => self.filter(one, no, yes),
            Filter::And(one, other) => {
                let yes = self.filter(other, yes, no);
                self.filter(one, yes, no)
            }
            Filter::Or(one, other) => {
                let no = self.filter(other, yes, no);
                self.filter(one, yes, no)
            }
        }
    }

    /// Goes on at `v4` or `v6` when the packet is of one of these protocols.
    fn protocol(&mut self, numbers: &[u32], v4: Address, v6: Address, no: Address) -> Address {
        let [v4, v6] = [(V4_PROTOCOL, v4), (V6_PROTOCOL, v6)].map(|(at, yes)| {
            let mut no = no;
            for number in numbers {
                no = self.equal(*number, yes, no);
            }
            self.load(libc::BPF_B | libc::BPF_ABS, at)
        });
        self.family(v4, v6, no)
    }

    fn net(&mut self, side: Side, net: IpAddr, bits: u8, yes: Address, no: Address) -> Address {
        let (_, address) = words_of(net);
        let masks = mask(bits);
        let (places, words) = match net {
            IpAddr::V4(_) => (V4_ADDRESSES, 1),
            IpAddr::V6(_) => (V6_ADDRESSES, 4),
        };
        let of_this_family = self.either(side, places, yes, no, |code, place, yes, no| {
            let mut yes = yes;
            for word in (0..words).rev() {
                let mask = u32::from_be_bytes(masks[word]);
                if mask != 0 {
                    code.equal(u32::from_be_bytes(address[word]) & mask, yes, no);
                    code.put(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask);
                    yes = code.load(libc::BPF_W | libc::BPF_ABS, place + 4 * word as u32);
                }
            }
            yes
        });
        match net {
            IpAddr::V4(_) => self.family(of_this_family, no, no),
            IpAddr::V6(_) => self.family(no, of_this_family, no),
        }
    }

    fn ports(&mut self, side: Side, range: (u16, u16), yes: Address, no: Address) -> Address {
        let (first, last) = (u32::from(range.0), u32::from(range.1));
        let port = |code: &mut Self, how: u32, place, yes, no| {
            let not_above = code.test(libc::BPF_JGT, last, no, yes);
            code.test(libc::BPF_JGE, first, not_above, no);
            code.load(libc::BPF_H | how, place)
        };
        // Source and destination port come first in both headers. That of IPv4 says how long it is.
        self.either(side, [0, 2], yes, no, |code, place, yes, no| {
            port(code, libc::BPF_IND, place, yes, no)
        });
        self.put(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0);
        let whole = self.0.len() - 1;
        self.test(libc::BPF_JSET, V4_FRAGMENT_OFFSET, no, whole);
        let v4 = self.load(libc::BPF_H | libc::BPF_ABS, V4_FRAGMENT);
        let v6 = self.either(
            side,
            [V6_LEN, V6_LEN + 2],
            yes,
            no,
            |code, place, yes, no| port(code, libc::BPF_ABS, place, yes, no),
        );
        self.protocol(&[TCP, UDP], v4, v6, no)
    }

    /// Tests the source, the destination or at least one of both.
    fn either(
        &mut self,
        side: Side,
        [source, destination]: [u32; 2],
        yes: Address,
        no: Address,
        mut test: impl FnMut(&mut Self, u32, Address, Address) -> Address,
    ) -> Address {
        match side {
            Side::Source => test(self, source, yes, no),
            Side::Destination => test(self, destination, yes, no),
            Side::Either => {
                let no = test(self, destination, yes, no);
                test(self, source, yes, no)
            }
        }
    }

    fn finish(mut self) -> Result<Vec<sock_filter>, TooLong> {
        if self.0.len() > LONGEST {
            return Err(TooLong(self.0.len()));
        }
        self.0.reverse();
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests;
