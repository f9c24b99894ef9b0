//! Explicit congestion notification (RFC 3168): a router marks a packet instead of dropping it, the receiver tells, the sender slows down.
//!
//! Owns the agreement in the handshake, the receiver's echo and the sender's answer. A connection that has agreed keeps its state in its
//! [`Extension`](crate::tcp::slow::extension::Extension): its segments leave by the general way, where TCP's and IP's bits are written behind
//! the template. On the way in the predicted path needs to know nothing: a mark makes [`crate::tcp::fast`] miss by one bit of the
//! mask that finds IPv4 anyway, an echo by the flags.
//!
//! It must never mark what is sent again, a probe of a closed window, or a segment without data as ECN-capable (6.1.4 to 6.1.6), nor
//! slow down twice in one window (6.1.2).

use crate::buffer::Frame;
use crate::config::Ecn as Mechanism;
use crate::stack::{Active, Stack};
use crate::tcp::slow::segment::Segment;
use crate::tcp::slow::syn::Syn;
use crate::tcp::tcb::{State, rare};
use core::hint::cold_path;
use tollgate_checksum::Checksum;
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::Flags;

/// The place where the IP header lies in a frame.
const ETHERNET: usize = 14;
/// The place where the TCP header lies in a frame whose IP header has no options, or over IPv6 no extension headers.
const TCP: usize = 34;
const TCP_OVER_IPV6: usize = 54;
/// ECT(0): the codepoint of segments that may be marked (RFC 3168, 5).
const ECT0: u8 = 0b10;
/// CE, which a router has set; both bits of the field.
pub(crate) const CE: u8 = 0b11;
/// Flags of a SYN that asks for it (RFC 3168, 6.1.1).
const SETUP: Flags = Flags(Flags::ECE.0 | Flags::CWR.0);

/// State of a connection that asks for explicit congestion notification, or has agreed on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ecn {
    /// A mark has arrived that the peer has not reacted to: every segment says so (ECE, 6.1.3).
    echoes: bool,
    /// The window was reduced: the next new segment says so (CWR, 6.1.2).
    tells_reduced: bool,
    /// Behind what was sent when the window was reduced last, until that is acknowledged.
    reduced_up_to: Option<SeqNumber>,
    /// Behind what was sent as ECN-capable, while that is not acknowledged.
    marked_up_to: Option<SeqNumber>,
}

impl Ecn {
    const NEW: Self = Self {
        echoes: false,
        tells_reduced: false,
        reduced_up_to: None,
        marked_up_to: None,
    };
}

/// Tells whether a SYN asks for it, or the answer to one agrees (6.1.1). An answer with both flags is that of a peer that sends the flags
/// of a SYN back as they are.
pub(crate) fn is_setup(flags: Flags) -> bool {
    let expected = if flags.has(Flags::ACK) {
        Flags::ECE
    } else {
        SETUP
    };
    flags.0 & SETUP.0 == expected.0
}

impl Stack {
    /// The state of a connection that asks for it or has it.
    pub(crate) fn ecn(&self, index: usize) -> Option<Ecn> {
        self.extension(index).and_then(|extension| extension.ecn)
    }

    #[cold]
    fn change_ecn(&mut self, index: usize, change: impl FnOnce(&mut Ecn)) {
        self.change_extension(index, |extension| {
            if let Some(ecn) = &mut extension.ecn {
                change(ecn);
            }
        });
    }

    fn set_ecn(&mut self, index: usize, ecn: Option<Ecn>) {
        self.change_extension(index, |extension| extension.ecn = ecn);
    }

    /// Flags of a SYN beside its own.
    pub(in crate::tcp) fn ecn_of_syn(&self, index: usize) -> Flags {
        match (self.ecn(index), self.tcbs[index].state) {
            (None, _) => Flags(0),
            (Some(_), State::SynSent) => SETUP,
            (Some(_), _) => Flags::ECE,
        }
    }

    /// A SYN is to be sent again. What was not answered may have been dropped for its flags: then it goes without, and nothing is agreed
    /// on any more (6.1.1.1).
    #[cold]
    pub(in crate::tcp) fn syn_unanswered(&mut self, index: usize) {
        if self.tcbs[index].state == State::SynSent && self.ecn(index).is_some() {
            self.set_ecn(index, None);
        }
    }

    /// The peer's SYN has been taken in: agrees, or learns that the peer does not.
    #[cold]
    #[inline(never)]
    pub(in crate::tcp) fn agree_on_ecn(&mut self, index: usize, syn: &Syn) {
        if self.config.mechanisms.ecn == Mechanism::Off {
            return;
        }
        let opened_by_us = self.tcbs[index].state == State::SynSent;
        let asked = self.ecn(index).is_some();
        if !syn.ecn && asked {
            self.set_ecn(index, None);
        } else if syn.ecn && !asked && !opened_by_us {
            self.set_ecn(index, Some(Ecn::NEW));
        }
    }

    /// A connection is opened: the SYN asks for it.
    #[inline(always)]
    pub(in crate::tcp) fn ask_for_ecn(&mut self, index: usize) {
        if self.config.mechanisms.ecn != Mechanism::Off {
            cold_path();
            self.set_ecn(index, Some(Ecn::NEW));
        }
    }

    /// Tells whether the window was reduced for what is still in flight, so that another sign of congestion in it says nothing new.
    pub(in crate::tcp) fn is_reduced(&self, index: usize) -> bool {
        let una = self.tcbs[index].snd_una;
        let up_to = self.ecn(index).and_then(|ecn| ecn.reduced_up_to);
        up_to.is_some_and(|end| una.before(end))
    }

    /// The window was reduced, for whatever reason: the peer is told, and what is in flight is not reacted to again.
    #[cold]
    pub(in crate::tcp) fn window_reduced(&mut self, index: usize) {
        if self.ecn(index).is_none() {
            return;
        }
        let sent = self.tcbs[index].highest_sent();
        self.change_ecn(index, |ecn| {
            ecn.tells_reduced = true;
            ecn.reduced_up_to = Some(sent);
        });
    }
}

impl<R: Recorder> Active<'_, R> {
    /// A segment that is acceptable has arrived on a connection with it: takes the mark of the network in (6.1.3).
    #[cold]
    pub(in crate::tcp) fn take_congestion_mark(&mut self, index: usize, segment: &Segment) {
        if self.stack.ecn(index).is_none() || segment.len == 0 {
            return;
        }
        let reacted = segment.header.flags.has(Flags::CWR);
        let marked = segment.is_marked();
        self.stack.change_ecn(index, |ecn| {
            ecn.echoes = marked || ecn.echoes && !reacted;
        });
    }

    /// An acknowledgment of `acked` bytes has been taken in: where it echoes a mark the window is reduced, once for a window (6.1.2).
    #[cold]
    pub(in crate::tcp) fn congestion_echoed(&mut self, index: usize, acked: u32) {
        let Some(ecn) = self.stack.ecn(index) else {
            return;
        };
        let tcb = &self.stack.tcbs[index];
        if self.stack.is_reduced(index) {
            return;
        }
        let una = tcb.snd_una;
        if ecn.marked_up_to.is_none_or(|end| end.before(una - acked)) {
            // Nothing that this acknowledges could have been marked.
            return;
        }
        if !tcb.is_rare(rare::RECOVERY | rare::LOSS) {
            self.reduce_at_once(index, acked);
        }
        self.stack.window_reduced(index);
    }

    /// Writes both headers' bits into a segment whose headers say nothing of it.
    #[cold]
    pub(in crate::tcp) fn mark_segment(&mut self, index: usize, mut ecn: Ecn, frame: &Frame) {
        let sums = self.stack.config.mechanisms.checksum;
        let tcb = &self.stack.tcbs[index];
        let (una, probing) = (tcb.snd_una, tcb.is_rare(rare::PERSIST));
        let over_ipv6 = tcb.key.pair().is_some();
        let to_tcp = if over_ipv6 { TCP_OVER_IPV6 } else { TCP };
        let at = usize::from(frame.offset);
        let bytes = &mut self.pool.bytes_mut(frame.id)[at..];
        let Some((ip, head)) = bytes.split_at_mut_checked(to_tcp) else {
            return;
        };
        let Some(head) = head.first_chunk_mut::<20>() else {
            return;
        };
        let word = u16::from_be_bytes([head[12], head[13]]);
        let mut flags = Flags(head[13]);
        if flags.any(Flags::SYN | Flags::RST) {
            return;
        }
        let before = ecn;
        // The total length counts IPv4's header, the payload length does not count IPv6's.
        let ip_len = match over_ipv6 {
            false => u16::from_be_bytes([ip[ETHERNET + 2], ip[ETHERNET + 3]]).saturating_sub(20),
            true => u16::from_be_bytes([ip[ETHERNET + 4], ip[ETHERNET + 5]]),
        };
        let payload = u32::from(ip_len.saturating_sub(u16::from(head[12] >> 4) * 4));
        let seq = SeqNumber(u32::from_be_bytes([head[4], head[5], head[6], head[7]]));
        let fresh = ecn
            .marked_up_to
            .is_none_or(|end| end.at_or_before(seq) || end.before(una));
        if payload != 0 && fresh && !probing {
            ecn.marked_up_to = Some(seq + payload);
            if ecn.tells_reduced {
                ecn.tells_reduced = false;
                flags |= Flags::CWR;
            }
            let service = u16::from_be_bytes([ip[ETHERNET], ip[ETHERNET + 1]]);
            if over_ipv6 {
                // The traffic class lies four bits into the header (RFC 8200, 3), which has no checksum.
                ip[ETHERNET + 1] |= ECT0 << 4;
            } else {
                ip[ETHERNET + 1] |= ECT0;
                if sums.sums_ip() {
                    let checksum = Checksum::from_ne_bytes([ip[24], ip[25]])
                        .update(service, service | u16::from(ECT0));
                    ip[24..26].copy_from_slice(&checksum.to_ne_bytes());
                }
            }
        }
        if ecn.echoes {
            flags |= Flags::ECE;
        }
        let [offset, _] = word.to_be_bytes();
        let written = u16::from_be_bytes([offset, flags.0]);
        if written != word {
            head[13] = flags.0;
            if sums.sums_in_template() {
                let checksum = Checksum::from_ne_bytes([head[16], head[17]]).update(word, written);
                head[16..18].copy_from_slice(&checksum.to_ne_bytes());
            }
        }
        if ecn != before {
            self.stack.set_ecn(index, Some(ecn));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3168, 6.1.1: an ECN-setup SYN has both flags, an ECN-setup SYN-ACK has ECE and not CWR.
    #[test]
    fn setup_flags_of_syn_and_answer_differ() {
        let syn = |flags: u8| is_setup(Flags(Flags::SYN.0 | flags));
        let answer = |flags: u8| is_setup(Flags(Flags::SYN.0 | Flags::ACK.0 | flags));
        let (ece, cwr) = (Flags::ECE.0, Flags::CWR.0);
        assert_eq!(
            [syn(0), syn(ece), syn(cwr), syn(ece | cwr)],
            [false, false, false, true]
        );
        assert_eq!(
            [answer(0), answer(ece), answer(cwr), answer(ece | cwr)],
            [false, true, false, false]
        );
    }
}
