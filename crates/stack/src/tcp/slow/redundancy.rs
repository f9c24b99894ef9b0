//! Checksum redundancy avoidance: connections without TCP checksums, where the link's CRC makes them redundant
//! (Kay and Pasquale 1996, VI), negotiated by the alternate checksum options of RFC 1146.
//!
//! # When a side is willing
//!
//! The link guards frames ([`Integrity`](crate::link::Integrity)), the next hop is the destination, and the evidence that the stack
//! asks for ([`LanEvidence`]) says that the peer is on the same LAN. Or the application has asked for it
//! ([`SocketChecksums::LeaveOut`]). Kay and Pasquale's receivers agree to whatever they are asked for. Here each side judges by
//! itself, so that one host which is deceived by proxy ARP leaves nothing out while the other knows of the router.
//!
//! # Negotiation
//!
//! Both SYNs carry kind 14 with number 3. That the server answers with the option does not tell it that the answer arrives: a
//! middlebox may strip it. So the client confirms, by kind 15 without data in its acknowledgments, under a right checksum.
//!
//! | state | what is known | sends | takes unsummed |
//! |---|---|---|---|
//! | [`Offered`](Agreement::Offered) | we are willing | sums | no |
//! | [`Answered`](Agreement::Answered) | the peer is willing; it may not know that we are | sums | no |
//! | [`Agreed`](Agreement::Agreed) | both know that both are willing; the peer may not know that we know | sums, confirms | yes |
//! | [`LeftOut`](Agreement::LeftOut) | the peer is in one of the last two states | no sums | yes |
//!
//! A SYN with the option leads from Offered to Answered, and a SYN that acknowledges ours to Agreed: its sender has seen ours.
//! Kind 15 says that its sender is Agreed, and leads to LeftOut. So does a segment without a checksum in Agreed, since only
//! LeftOut sends such. By this order of knowledge
//!
//! - nobody sends without a sum before the peer takes it;
//! - nobody takes a segment unverified from a peer that has not agreed: both options, or the confirmation, arrived under a checksum;
//! - whatever is stripped, mangled, lost or reordered leaves both sides summing, at worst one of them ready for the other.
//!
//! With a peer that does not know the options a connection stays Offered, which is as good as never asked. Kind 15 is sent
//! with acknowledgments that carry no data only: it needs no room in full segments. A SYN cookie holds no agreement.
//!
//! # Afterwards
//!
//! In Agreed and LeftOut a zero checksum field is taken, and any other is verified. So each side may return to sums whenever
//! it likes and need not tell. It does so after a retransmission timeout, since a device on the way may drop what
//! has no checksum; when ICMP tells of a router; when the evidence for the peer's link address is gone; when the application
//! says so. It goes on taking what the peer leaves out. What is summed never has zero in the field: a sum of zero is sent as
//! all ones, which is its other representation (RFC 1071), as in UDP.
//!
//! SYN and RST are always summed and verified (RFC 1146), and so are answers in TIME-WAIT and reassembled segments. The checksum
//! of the IP header is never left out. RFC 1146 wants a connection reset that brings data of a wrong length in kind 15; here
//! such an option is nobody's and skipped, so that a middlebox cannot end connections.
//!
//! # The way out
//!
//! With this policy payload is copied without a sum, and the template leaves the field zero. What must be summed is amended
//! on the slow transmit path, in a pass of its own: connections without sums are those that are to be fast.
//!
//! This module must never decide anything in a stack with another policy.

use crate::buffer::{Frame, PAYLOAD_OFFSET};
use crate::config::{ChecksumPolicy, LanEvidence};
use crate::demux::FlowKey;
use crate::ipv6::Addresses;
use crate::neighbour::Lookup;
use crate::socket::Error;
use crate::stack::{Active, Stack};
use crate::tcp::slow::segment::Segment;
use crate::tcp::tcb::{State, Tcb};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr};
use tollgate_checksum::Checksum;
use tollgate_gate::Recorder;
use tollgate_wire::tcp::{CHECKSUM_DATA_LEN, EMPTY_CHECKSUM_DATA, Flags, NO_CHECKSUM};
use tollgate_wire::{ethernet, ipv4, ipv6};

/// The checksums that a socket wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SocketChecksums {
    /// Those of the stack's policy.
    #[default]
    Policy,
    /// Made and verified, even where they are redundant.
    Keep,
    /// Left out, even where they are not redundant: for TCP when the peer is willing, too. A stack whose policy is not
    /// redundancy avoidance refuses it for TCP.
    LeaveOut,
}

/// The way in which a connection has checksums, or why it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// Made and verified: the stack's policy.
    Policy,
    /// Left out: the stack's policy.
    PolicyOff,
    /// Left out: both sides have agreed, and the link guards what passes between them.
    Redundant,
    /// Left out: both sides have agreed, and the application wants it so.
    Asked,
    /// Made and verified: the two sides have not come to an agreement yet.
    Negotiating,
    /// Made and verified: the peer has not agreed.
    Declined,
    /// Made and verified: the link does not guard frames.
    Unguarded,
    /// Made and verified: a router lies between.
    Routed,
    /// Made and verified: nothing proves that the peer is on the same LAN.
    Unproven,
    /// Made and verified: a SYN cookie holds no agreement.
    Cookie,
    /// Made and verified: the application wants it so.
    Kept,
    /// Made, and verified where the peer makes them: a retransmission timer expired without them.
    TimedOut,
}

impl Checksums {
    /// Tells whether our segments have checksums.
    pub const fn are_made(self) -> bool {
        !matches!(self, Self::PolicyOff | Self::Redundant | Self::Asked)
    }

    /// The reason in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Policy => "kept: the stack's policy",
            Self::PolicyOff => "left out: the stack's policy",
            Self::Redundant => "left out: the link's own check makes them redundant",
            Self::Asked => "left out: the application asked for it",
            Self::Negotiating => "kept: both ends have not agreed yet",
            Self::Declined => "kept: the peer has not agreed",
            Self::Unguarded => "kept: the link does not check frames",
            Self::Routed => "kept: a router lies between",
            Self::Unproven => "kept: nothing proves that the peer is on the same LAN",
            Self::Cookie => "kept: opened by a SYN cookie",
            Self::Kept => "kept: the application asked for it",
            Self::TimedOut => "kept: a retransmission timer expired without them",
        }
    }
}

impl fmt::Display for Checksums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The state of a connection's negotiation, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Agreement {
    /// None: the stack has another policy.
    None = 0,
    /// See the table above.
    Offered,
    Answered,
    Agreed,
    LeftOut,
    /// Not willing, for these reasons.
    Unguarded,
    Routed,
    Unproven,
    Cookie,
    Kept,
    /// Returned to sums after both had agreed, for these reasons.
    TimedOut,
    RouterFound,
    ProofLost,
    Withdrawn,
}

impl Agreement {
    /// Every state, by its number.
    const ALL: [Self; 14] = [
        Self::None,
        Self::Offered,
        Self::Answered,
        Self::Agreed,
        Self::LeftOut,
        Self::Unguarded,
        Self::Routed,
        Self::Unproven,
        Self::Cookie,
        Self::Kept,
        Self::TimedOut,
        Self::RouterFound,
        Self::ProofLost,
        Self::Withdrawn,
    ];

    /// The state with this number.
    pub(crate) const fn from_number(number: u8) -> Self {
        if (number as usize) < Self::ALL.len() {
            Self::ALL[number as usize]
        } else {
            Self::None
        }
    }

    /// Tells whether segments are summed in a pass of their own.
    pub(crate) const fn is_summed_apart(self) -> bool {
        !matches!(self, Self::None | Self::LeftOut)
    }

    /// Tells whether segments with a zero checksum field are taken as they are.
    pub(crate) const fn takes_unsummed(self) -> bool {
        match self {
            Self::Agreed
            | Self::LeftOut
            | Self::TimedOut
            | Self::RouterFound
            | Self::ProofLost
            | Self::Withdrawn => true,
            Self::None
            | Self::Offered
            | Self::Answered
            | Self::Unguarded
            | Self::Routed
            | Self::Unproven
            | Self::Cookie
            | Self::Kept => false,
        }
    }
}

impl Tcb {
    /// Tells whether the peer may leave checksums out, and has left out that of the segment whose checksum field this is.
    #[inline(always)]
    pub(crate) const fn takes_unsummed(&self, field: [u8; 2]) -> bool {
        matches!(field, [0, 0]) && self.marks.agreement().takes_unsummed()
    }

    /// Tells whether segments are summed in a pass of their own.
    pub(crate) const fn is_summed_apart(&self) -> bool {
        self.marks.agreement().is_summed_apart()
    }

    /// Tells whether a segment without a checksum would say something new.
    pub(in crate::tcp) fn waits_for_unsummed(&self) -> bool {
        self.marks.agreement() == Agreement::Agreed
    }

    /// Tells whether segments leave without checksums.
    pub(in crate::tcp) fn leaves_checksums_out(&self) -> bool {
        self.marks.agreement() == Agreement::LeftOut
    }

    /// Tells whether a segment that was taken before comes again with a checksum, so that the peer has returned to them since:
    /// our acknowledgments without one may not arrive. One that was only late on its way has no newer timestamp.
    pub(in crate::tcp) fn misses_acknowledgments(&self, segment: &Segment) -> bool {
        let is_newer = segment
            .header
            .options
            .timestamps
            .is_none_or(|stamps| stamps.value.wrapping_sub(self.ts_recent) as i32 > 0);
        self.leaves_checksums_out() && segment.len != 0 && !segment.unsummed && is_newer
    }

    /// Tells whether a segment is the handshake's last one with its confirmation, overtaken by data.
    pub(in crate::tcp) fn is_late_confirmation(&self, segment: &Segment) -> bool {
        let header = &segment.header;
        header.options.empty_checksum_data
            && header.flags == Flags::ACK
            && header.seq == self.irs + 1
            && header.ack.within(self.iss + 1, self.snd_una)
    }

    /// Changes the state, and with it the way out.
    fn set_agreement(&mut self, agreement: Agreement) {
        self.marks.set_agreement(agreement);
        self.choose_transmit_path();
    }

    /// The number in the option of a SYN that is sent now.
    pub(in crate::tcp) fn alternate_checksum(&self) -> Option<u8> {
        let asks = match self.marks.agreement() {
            Agreement::Offered => self.state == State::SynSent,
            Agreement::Answered => true,
            _ => false,
        };
        asks.then_some(NO_CHECKSUM)
    }
}

impl Stack {
    /// The state in which a connection to `remote` by way of `next_hop` begins.
    pub(in crate::tcp) fn first_agreement(
        &self,
        remote: Ipv4Addr,
        next_hop: Ipv4Addr,
    ) -> Agreement {
        match self.config.mechanisms.checksum {
            ChecksumPolicy::Always | ChecksumPolicy::Off => Agreement::None,
            ChecksumPolicy::RedundancyAvoidance if !self.config.integrity.guards() => {
                Agreement::Unguarded
            }
            ChecksumPolicy::RedundancyAvoidance if !self.is_direct(remote, next_hop) => {
                Agreement::Routed
            }
            ChecksumPolicy::RedundancyAvoidance => Agreement::Offered,
        }
    }

    /// The state in which a connection over IPv6 begins: there is no evidence of one LAN for it, so checksums are made.
    pub(in crate::tcp) const fn agreement_over_ipv6(&self) -> Agreement {
        match self.config.mechanisms.checksum {
            ChecksumPolicy::Always | ChecksumPolicy::Off => Agreement::None,
            ChecksumPolicy::RedundancyAvoidance => Agreement::Unproven,
        }
    }

    /// Tells whether packets for `destination` are handed to it, and it is on our network.
    fn is_direct(&self, destination: Ipv4Addr, next_hop: Ipv4Addr) -> bool {
        destination == next_hop && self.config.is_local(destination)
    }

    /// Tells whether the application of a connection has asked for no checksums.
    fn asks(&self, index: usize) -> bool {
        self.extension(index)
            .is_some_and(|extension| extension.asks_unsummed)
    }

    /// Returns a connection to sums that has left them out, or is about to.
    pub(crate) fn keep_checksums(&mut self, index: usize, reason: Agreement) {
        let is_of_the_path = matches!(reason, Agreement::RouterFound | Agreement::ProofLost);
        if is_of_the_path && self.asks(index) {
            return;
        }
        let tcb = &mut self.tcbs[index];
        match tcb.marks.agreement() {
            Agreement::Agreed | Agreement::LeftOut => tcb.set_agreement(reason),
            Agreement::Offered | Agreement::Answered => tcb.set_agreement(match reason {
                Agreement::Cookie => Agreement::Cookie,
                Agreement::RouterFound => Agreement::Routed,
                Agreement::ProofLost => Agreement::Unproven,
                Agreement::Withdrawn => Agreement::Kept,
                // Nothing was left out yet.
                _ => return,
            }),
            _ => {}
        }
    }

    /// The link address of a connection's next hop is another, which has not announced itself. What is not agreed yet is judged
    /// when the peer answers: it may announce itself until then.
    pub(crate) fn proof_is_lost(&mut self, index: usize) {
        if self.tcbs[index].marks.agreement().takes_unsummed() {
            self.keep_checksums(index, Agreement::ProofLost);
        }
    }

    /// Notes what a socket wants before its SYN is made.
    ///
    /// # Errors
    /// [`Error::BadOption`] for what the stack's policy does not allow.
    pub(crate) fn want_checksums(
        &mut self,
        index: usize,
        wish: SocketChecksums,
    ) -> Result<(), Error> {
        wish.check(self.config.mechanisms.checksum)?;
        match wish {
            SocketChecksums::Policy => {}
            SocketChecksums::Keep => self.keep_checksums(index, Agreement::Withdrawn),
            SocketChecksums::LeaveOut => {
                self.change_extension(index, |extension| extension.asks_unsummed = true);
                self.tcbs[index].set_agreement(Agreement::Offered);
            }
        }
        Ok(())
    }

    /// The way in which a connection has checksums.
    pub(crate) fn checksums_of(&self, index: usize) -> Checksums {
        let tcb = &self.tcbs[index];
        match tcb.marks.agreement() {
            Agreement::None => match self.config.mechanisms.checksum {
                ChecksumPolicy::Always | ChecksumPolicy::RedundancyAvoidance => Checksums::Policy,
                ChecksumPolicy::Off => Checksums::PolicyOff,
            },
            Agreement::Offered if tcb.state == State::SynSent => Checksums::Negotiating,
            Agreement::Offered => Checksums::Declined,
            Agreement::Answered | Agreement::Agreed => Checksums::Negotiating,
            Agreement::LeftOut if self.asks(index) => Checksums::Asked,
            Agreement::LeftOut => Checksums::Redundant,
            Agreement::Unguarded => Checksums::Unguarded,
            Agreement::Routed | Agreement::RouterFound => Checksums::Routed,
            Agreement::Unproven | Agreement::ProofLost => Checksums::Unproven,
            Agreement::Cookie => Checksums::Cookie,
            Agreement::Kept | Agreement::Withdrawn => Checksums::Kept,
            Agreement::TimedOut => Checksums::TimedOut,
        }
    }
}

impl SocketChecksums {
    /// Says whether a stack with this policy can do what a TCP socket wants.
    pub(crate) fn check(self, policy: ChecksumPolicy) -> Result<(), Error> {
        let possible = match self {
            Self::Policy => true,
            Self::Keep => policy != ChecksumPolicy::Off,
            Self::LeaveOut => policy == ChecksumPolicy::RedundancyAvoidance,
        };
        if possible {
            Ok(())
        } else {
            Err(Error::BadOption)
        }
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Tells whether the evidence that the stack asks for says that `next_hop` is on the same LAN.
    fn is_proven(&mut self, next_hop: Ipv4Addr) -> bool {
        match self.stack.config.mechanisms.lan_evidence {
            LanEvidence::Subnet => true,
            LanEvidence::SpanningTree => match self.stack.neighbours.lookup(next_hop, self.now) {
                Lookup::Found(mac) => self.stack.announced_hosts.knows(mac, self.now),
                Lookup::Wait => false,
            },
        }
    }

    /// Tells whether a datagram to `to` needs no checksum.
    pub(crate) fn is_redundant(&mut self, to: Ipv4Addr) -> bool {
        let config = &self.stack.config;
        if config.mechanisms.checksum != ChecksumPolicy::RedundancyAvoidance {
            return false;
        }
        let next_hop = self.next_hop(to);
        config.integrity.guards()
            && !to.is_multicast()
            && !self.stack.is_broadcast(to)
            && self.stack.is_direct(to, next_hop)
            && self.is_proven(next_hop)
    }

    /// Judges a connection whose peer is willing: goes on to `next`, or says why not.
    fn judge(&mut self, index: usize, next: Agreement) {
        let next_hop = self.stack.tcbs[index].next_hop;
        let willing = self.stack.asks(index) || self.is_proven(next_hop);
        let agreement = if willing { next } else { Agreement::Unproven };
        self.stack.tcbs[index].set_agreement(agreement);
    }

    /// The peer's SYN, which does not acknowledge ours, asks for an alternate checksum.
    #[cold]
    pub(in crate::tcp) fn alternate_checksum_offered(&mut self, index: usize, number: u8) {
        if number != NO_CHECKSUM {
            return;
        }
        if let Some(wish) = self.stack.wish_of_listener(index) {
            // It was checked when the listener was made.
            let _ = self.stack.want_checksums(index, wish);
        }
        if self.stack.tcbs[index].marks.agreement() == Agreement::Offered {
            self.judge(index, Agreement::Answered);
        }
    }

    /// The peer's SYN, which acknowledges ours, asks for an alternate checksum.
    #[cold]
    pub(in crate::tcp) fn alternate_checksum_answered(&mut self, index: usize, number: u8) {
        if number != NO_CHECKSUM {
            return;
        }
        match self.stack.tcbs[index].marks.agreement() {
            Agreement::Offered => self.judge(index, Agreement::Agreed),
            // Both have opened at the same time.
            Agreement::Answered => self.stack.tcbs[index].set_agreement(Agreement::Agreed),
            _ => {}
        }
    }

    /// An acceptable segment was unsummed, or carries the confirmation.
    #[cold]
    pub(in crate::tcp) fn agreement_confirmed(&mut self, index: usize, confirmation: bool) {
        let tcb = &mut self.stack.tcbs[index];
        let agreement = tcb.marks.agreement();
        if agreement == Agreement::Agreed || agreement == Agreement::Answered && confirmation {
            tcb.set_agreement(Agreement::LeftOut);
            self.stack.counters.unsummed_connections += 1;
        }
    }

    /// Tells whether a segment is to be taken unverified: its connection takes unsummed ones, and it is one.
    pub(in crate::tcp) fn is_unsummed(&self, key: FlowKey, flags: Flags, field: [u8; 2]) -> bool {
        !flags.any(Flags::SYN | Flags::RST)
            && field == [0, 0]
            && self
                .slot_of(key)
                .and_then(|slot| self.stack.tcbs.get(slot as usize))
                .is_some_and(|tcb| tcb.takes_unsummed(field))
    }

    /// Completes a segment that the template has left without a checksum: adds the confirmation while it is due, and the sum.
    pub(in crate::tcp) fn sum_apart(&mut self, index: usize, frame: Frame) -> Frame {
        let tcb = &self.stack.tcbs[index];
        let (remote, local) = self.stack.ends_of(tcb.key);
        let confirms = tcb.marks.agreement() == Agreement::Agreed;
        let kernel = self.stack.compiled.kernel;
        let bytes = self.pool.bytes_mut(frame.id);
        let at = usize::from(frame.offset);
        let mut len = usize::from(frame.len);
        if confirms && confirm(&mut bytes[at..PAYLOAD_OFFSET + CHECKSUM_DATA_LEN], len) {
            len += CHECKSUM_DATA_LEN;
        }
        let (ends, ip_len) = match (local.ip(), remote.ip()) {
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                (Addresses::V6(local, remote), ipv6::HEADER_LEN)
            }
            _ => (
                Addresses::V4(tcb.local_ip(), tcb.remote_ip()),
                ipv4::HEADER_LEN,
            ),
        };
        let segment = &mut bytes[at + ethernet::HEADER_LEN + ip_len..at + len];
        segment[16..18].copy_from_slice(&[0, 0]);
        let sum = ends.pseudo_header(segment.len()) + kernel.sum(segment);
        let field = match sum.finish().to_ne_bytes() {
            [0, 0] => [0xff, 0xff],
            sum => sum,
        };
        segment[16..18].copy_from_slice(&field);
        Frame {
            len: len as u16,
            ..frame
        }
    }
}

/// Adds the confirmation to a packet of `len` bytes, behind which there is room, if it is an acknowledgment and nothing else.
/// Says whether it did.
fn confirm(packet: &mut [u8], len: usize) -> bool {
    const IP: usize = ethernet::HEADER_LEN;
    const TCP: usize = IP + ipv4::HEADER_LEN;
    let header_len = usize::from(packet[TCP + 12] >> 4) * 4;
    if packet[TCP + 13] != Flags::ACK.0 || TCP + header_len != len {
        return false;
    }
    packet[len..len + CHECKSUM_DATA_LEN].copy_from_slice(&EMPTY_CHECKSUM_DATA);
    packet[TCP + 12] += (CHECKSUM_DATA_LEN as u8 / 4) << 4;
    let before = (len - IP) as u16;
    let after = before + CHECKSUM_DATA_LEN as u16;
    let checksum = Checksum::from_ne_bytes([packet[IP + 10], packet[IP + 11]]);
    packet[IP + 2..IP + 4].copy_from_slice(&after.to_be_bytes());
    packet[IP + 10..IP + 12].copy_from_slice(&checksum.update(before, after).to_ne_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_their_numbers() {
        for (number, agreement) in Agreement::ALL.into_iter().enumerate() {
            assert_eq!(agreement as usize, number);
            assert_eq!(Agreement::from_number(number as u8), agreement);
        }
        assert_eq!(Agreement::from_number(15), Agreement::None);
    }

    /// A sender of unsummed segments has agreed to take them, and nobody sends both ways.
    #[test]
    fn what_is_left_out_is_taken() {
        for agreement in Agreement::ALL {
            let sends_unsummed = agreement == Agreement::LeftOut;
            assert!(!sends_unsummed || agreement.takes_unsummed());
            assert!(!sends_unsummed || !agreement.is_summed_apart());
        }
    }
}
