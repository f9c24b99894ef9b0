//! Explicit congestion notification (RFC 3168, RFC 9768): a router marks a packet instead of dropping it, the receiver tells, the sender slows down.
//!
//! Owns the agreement in the handshake, the receiver's echo and the sender's answer. A connection that has agreed keeps its state in its
//! [`Extension`](crate::tcp::slow::extension::Extension): its segments leave by the general way, where TCP's and IP's bits are written behind
//! the template. On the way in the predicted path needs to know nothing: a mark makes [`crate::tcp::fast`] miss by one bit of the
//! mask that finds IPv4 anyway, an echo by the flags.
//!
//! [`accurate`] has, where both ends take more accurate feedback, the counters that replace echo and answer, and nothing that arrives is
//! predicted: each segment bears a counter. Controllers learn of marks as they do without it, once in a window.
//!
//! It must never mark what is sent again, a probe of a closed window, or a segment without data as ECN-capable (6.1.4 to 6.1.6), nor
//! slow down twice in one window (6.1.2).

mod accurate;

use crate::buffer::{Frame, Transmissions};
use crate::config::Ecn as Mechanism;
use crate::stack::{Active, Stack};
use crate::tcp::milestone::Milestone;
use crate::tcp::slow::segment::Segment;
use crate::tcp::slow::syn::Syn;
use crate::tcp::tcb::{State, flag, rare};
use accurate::{Accurate, Feedback};
use core::hint::cold_path;
use tollgate_checksum::Checksum;
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;
use tollgate_wire::tcp::{AccurateEcn, Flags, Header, TIMESTAMP_OPTION_LEN};

/// The place where the IP header lies in a frame.
const ETHERNET: usize = 14;
/// The place where the TCP header lies in a frame whose IP header has no options, or over IPv6 no extension headers.
const TCP: usize = 34;
const TCP_OVER_IPV6: usize = 54;
/// ECT(0): the codepoint of segments that may be marked (RFC 3168, 5).
const ECT0: u8 = 0b10;
/// CE, which a router has set; both bits of the field.
pub(crate) const CE: u8 = 0b11;
/// The AE bit in the byte of the data offset (RFC 9768, 3.1.1).
const AE: u8 = 1;
/// AE, CWR and ECE of a SYN that asks for more accurate feedback (RFC 9768, 3.1.1).
const ASKS_ACCURATE: u8 = 0b111;
/// CWR and ECE: a SYN that asks for classic feedback (RFC 3168, 6.1.1).
const ASKS_CLASSIC: u8 = 0b011;
/// ECE alone, by which the answer to a SYN agrees on classic feedback.
const ECE: u8 = 0b001;
const AGREES_CLASSIC: u8 = ECE;
/// SYNs that ask for more accurate feedback before one goes without the bits (RFC 9768, 3.1.4.1).
const ACCURATE_TRIES: u32 = 2;

/// Bits of a SYN: AE, CWR and ECE in the lowest bits, whether it is an answer, and its packet's codepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setup(u8);

impl Setup {
    /// A SYN that neither asks for anything nor agrees.
    pub(crate) const NONE: Self = Self(0);
    const ANSWER: u8 = 1 << 3;
    const CODEPOINT: u32 = 4;

    /// That of a SYN's header.
    pub(crate) fn of(header: &Header) -> Self {
        let answer = header.flags.has(Flags::ACK);
        Self(accurate::bits_of(header) | if answer { Self::ANSWER } else { 0 })
    }

    /// With the codepoint of its packet, which its type of service ends with.
    pub(crate) const fn with_service(self, service: u8) -> Self {
        Self(self.0 | (service & CE) << Self::CODEPOINT)
    }

    /// Tells whether any of the three bits is set.
    #[inline(always)]
    pub(crate) const fn says_something(self) -> bool {
        self.bits() != 0
    }

    const fn bits(self) -> u8 {
        self.0 & ASKS_ACCURATE
    }

    const fn codepoint(self) -> u8 {
        self.0 >> Self::CODEPOINT
    }

    /// The feedback that a SYN asks a host for (RFC 9768, table 2 and 3.1.3). One that knows of classic feedback only does not look at AE.
    const fn asked(self, mechanism: Mechanism) -> Mechanism {
        match (mechanism, self.bits()) {
            (Mechanism::Off, _) | (_, 0) => Mechanism::Off,
            (Mechanism::Accurate, ASKS_CLASSIC) => Mechanism::Classic,
            (Mechanism::Accurate, _) => Mechanism::Accurate,
            (Mechanism::Classic, bits) if bits & ASKS_CLASSIC == ASKS_CLASSIC => Mechanism::Classic,
            (Mechanism::Classic, _) => Mechanism::Off,
        }
    }

    /// The feedback that the answer to a SYN agrees on which asked for `asked` (RFC 9768, table 2 and 3.1.3; RFC 3168, 6.1.1). An answer
    /// with the bits of the SYN is that of a host that sends them back as they are.
    const fn agreed(self, asked: Mechanism) -> Mechanism {
        match (asked, self.bits()) {
            (Mechanism::Off, _) => Mechanism::Off,
            (Mechanism::Accurate, 0 | ASKS_ACCURATE) => Mechanism::Off,
            (Mechanism::Accurate, AGREES_CLASSIC) => Mechanism::Classic,
            (Mechanism::Accurate, _) => Mechanism::Accurate,
            (Mechanism::Classic, bits) if bits & ASKS_CLASSIC == AGREES_CLASSIC => {
                Mechanism::Classic
            }
            (Mechanism::Classic, _) => Mechanism::Off,
        }
    }
}

/// CWR and ECE of the three bits.
pub(crate) const fn flags_of(bits: u8) -> Flags {
    Flags(bits << 6)
}

/// Tells whether AE is one of the three bits.
pub(crate) const fn has_ae(bits: u8) -> bool {
    bits >> 2 != 0
}

/// Bits and option of our SYN.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct SynSays {
    /// CWR and ECE.
    pub(in crate::tcp) flags: Flags,
    /// AE.
    pub(in crate::tcp) accurate: bool,
    pub(in crate::tcp) option: Option<AccurateEcn>,
}

impl SynSays {
    const fn bits(bits: u8, option: Option<AccurateEcn>) -> Self {
        Self {
            flags: flags_of(bits),
            accurate: has_ae(bits),
            option,
        }
    }
}

/// State of a connection that asks for explicit congestion notification, or has agreed on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ecn {
    /// A mark has arrived that the peer has not reacted to: every segment says so (ECE, 6.1.3).
    echoes: bool,
    /// The window was reduced: the next new segment says so (CWR, 6.1.2).
    tells_reduced: bool,
    /// Behind what was sent when the window was reduced last, until that is acknowledged.
    reduced_up_to: Option<Milestone>,
    /// Behind what was sent as ECN-capable, while that is not acknowledged.
    marked_up_to: Option<SeqNumber>,
    /// Behind what was sent otherwise, while that is not acknowledged: with a SYN, as a probe of a window, or again with new data behind it.
    sent_up_to: Option<SeqNumber>,
    /// Counters of more accurate feedback, where that is asked for or agreed on.
    accurate: Option<Accurate>,
}

impl Ecn {
    /// State for a kind of feedback, if it is any.
    fn of(mechanism: Mechanism) -> Option<Self> {
        let accurate = (mechanism == Mechanism::Accurate).then_some(Accurate::NEW);
        (mechanism != Mechanism::Off).then_some(Self {
            accurate,
            ..Self::NEW
        })
    }

    /// AE, CWR and ECE of a segment that is sent when nothing is sent any more but answers: the counter, or the echo.
    pub(crate) const fn bits(&self) -> u8 {
        match &self.accurate {
            Some(accurate) => accurate.counter(),
            None if self.echoes => ECE,
            None => 0,
        }
    }

    /// Packets that the peer has found marked, where it counts them (RFC 9768).
    pub(crate) fn marked_packets(&self) -> Option<u32> {
        self.accurate.map(|accurate| accurate.marked_packets())
    }

    const NEW: Self = Self {
        echoes: false,
        tells_reduced: false,
        reduced_up_to: None,
        marked_up_to: None,
        sent_up_to: None,
        accurate: None,
    };
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

    #[cold]
    fn change_accurate(&mut self, index: usize, change: impl FnOnce(&mut Accurate)) {
        self.change_ecn(index, |ecn| {
            if let Some(accurate) = &mut ecn.accurate {
                change(accurate);
            }
        });
    }

    fn accurate(&self, index: usize) -> Option<Accurate> {
        self.ecn(index).and_then(|ecn| ecn.accurate)
    }

    fn set_ecn(&mut self, index: usize, ecn: Option<Ecn>) {
        self.change_extension(index, |extension| extension.ecn = ecn);
    }

    /// Bits and option of a connection's SYN. Of the answer to a SYN that was sent in vain the option goes first, then the bits (RFC 9768,
    /// 3.2.3.2.2).
    pub(in crate::tcp) fn ecn_of_syn(&self, index: usize) -> SynSays {
        let tcb = &self.tcbs[index];
        match (self.ecn(index), tcb.state) {
            (None, _) => SynSays::default(),
            (Some(ecn), State::SynSent) => match ecn.accurate {
                None => SynSays::bits(ASKS_CLASSIC, None),
                Some(_) if tcb.retransmits < ACCURATE_TRIES => SynSays::bits(ASKS_ACCURATE, None),
                Some(_) => SynSays::default(),
            },
            (Some(ecn), _) => match ecn.accurate {
                None => SynSays::bits(AGREES_CLASSIC, None),
                Some(accurate) if tcb.retransmits < ACCURATE_TRIES => {
                    let bits = accurate::handshake_bits(accurate.codepoint);
                    SynSays::bits(bits, accurate.answer_option())
                }
                Some(_) => SynSays::default(),
            },
        }
    }

    /// A SYN is to be sent again. What was not answered may have been dropped for its flags: then it goes without. Of classic feedback
    /// nothing is agreed on any more (RFC 3168, 6.1.1.1). More accurate feedback is asked for once more, and agreed on by whatever answer
    /// comes; a server whose answer went without the bits sends nothing as ECN-capable (RFC 9768, 3.1.4 and 3.1.5).
    #[cold]
    pub(in crate::tcp) fn syn_unanswered(&mut self, index: usize) {
        let Some(ecn) = self.ecn(index) else {
            return;
        };
        let tcb = &self.tcbs[index];
        let (opened_by_us, tries) = (tcb.state == State::SynSent, tcb.retransmits);
        if ecn.accurate.is_some() {
            self.change_accurate(index, |accurate| {
                accurate.sends_options &= opened_by_us;
                accurate.sends_capable &= opened_by_us || tries < ACCURATE_TRIES;
            });
        } else if opened_by_us {
            self.set_ecn(index, None);
        }
    }

    /// The peer's SYN has been taken in: agrees, or learns that the peer does not.
    #[cold]
    #[inline(never)]
    pub(in crate::tcp) fn agree_on_ecn(&mut self, index: usize, syn: &Syn) {
        let mechanism = self.config.mechanisms.ecn;
        let setup = syn.ecn;
        let before = self.ecn(index);
        let asked = match before {
            None => Mechanism::Off,
            Some(ecn) if ecn.accurate.is_some() => Mechanism::Accurate,
            Some(_) => Mechanism::Classic,
        };
        let opened_by_us = self.tcbs[index].state == State::SynSent;
        // A SYN that crosses ours is answered as any other, as long as we ask at all (RFC 9768, 3.1.2).
        let agreed = match (setup.0 & Setup::ANSWER != 0, opened_by_us) {
            (true, _) => setup.agreed(asked),
            (false, true) if before.is_none() => Mechanism::Off,
            (false, _) => setup.asked(mechanism),
        };
        let mut ecn = Ecn::of(agreed);
        if let (Some(ecn), Some(before)) = (&mut ecn, before) {
            ecn.sent_up_to = before.sent_up_to;
        }
        if let Some(Ecn {
            accurate: Some(accurate),
            ..
        }) = &mut ecn
        {
            if setup.0 & Setup::ANSWER != 0 {
                accurate.agreed(setup.bits(), setup.codepoint());
            } else {
                accurate.codepoint = setup.codepoint();
            }
        }
        if ecn.is_some() || before.is_some() {
            self.set_ecn(index, ecn);
        }
        let tcb = &mut self.tcbs[index];
        if agreed == Mechanism::Accurate {
            tcb.rare |= rare::ACCURATE_ECN;
        } else {
            tcb.rare &= !rare::ACCURATE_ECN;
        }
        tcb.predict();
    }

    /// The peer's SYN has come again, in SYN-RECEIVED. Says whether it asks for the other kind of feedback, which ends the connection
    /// (RFC 9768, 3.1.5).
    #[cold]
    pub(in crate::tcp) fn syn_repeated(&mut self, index: usize, setup: Setup) -> bool {
        let Some(ecn) = self.ecn(index) else {
            return false;
        };
        if self.config.mechanisms.ecn != Mechanism::Accurate {
            return false;
        }
        let asks = setup.asked(Mechanism::Accurate);
        self.change_accurate(index, |accurate| {
            accurate.codepoint = setup.codepoint();
            // The first answer may have been lost for its option.
            accurate.sends_options = false;
            accurate.sends_capable &= asks != Mechanism::Off;
        });
        match ecn.accurate {
            Some(_) => asks == Mechanism::Classic,
            None => asks == Mechanism::Accurate,
        }
    }

    /// A connection is opened: the SYN asks for it.
    #[inline(always)]
    pub(in crate::tcp) fn ask_for_ecn(&mut self, index: usize) {
        if self.config.mechanisms.ecn != Mechanism::Off {
            cold_path();
            self.set_ecn(index, Ecn::of(self.config.mechanisms.ecn));
        }
    }

    /// Tells whether the window was reduced for what is still in flight, so that another sign of congestion in it says nothing new.
    pub(in crate::tcp) fn is_reduced(&self, index: usize) -> bool {
        let up_to = self.ecn(index).and_then(|ecn| ecn.reduced_up_to);
        up_to.is_some_and(|end| !end.is_reached(&self.tcbs[index]))
    }

    /// The window was reduced, for whatever reason: the peer is told, and what is in flight is not reacted to again.
    #[cold]
    pub(in crate::tcp) fn window_reduced(&mut self, index: usize) {
        if self.ecn(index).is_none() {
            return;
        }
        let tcb = &self.tcbs[index];
        let sent = Milestone::at(tcb, tcb.highest_sent());
        self.change_ecn(index, |ecn| {
            ecn.tells_reduced = ecn.accurate.is_none();
            ecn.reduced_up_to = Some(sent);
        });
    }

    /// The last reduction was for nothing and is taken back: another sign of congestion in what is in flight is a new one.
    #[cold]
    pub(in crate::tcp) fn reduction_undone(&mut self, index: usize) {
        if self.ecn(index).is_some() {
            self.change_ecn(index, |ecn| ecn.reduced_up_to = None);
        }
    }
}

impl Stack {
    /// Tells whether an acknowledgment is to carry an AccECN option.
    pub(in crate::tcp) fn owes_ecn_option(&self, index: usize) -> bool {
        let accurate = self.accurate(index);
        accurate.is_some_and(|accurate| accurate.owes_option())
    }

    /// The AccECN option of an acknowledgment with so many ranges, if it is to carry one.
    #[cold]
    pub(in crate::tcp) fn ecn_option(
        &mut self,
        index: usize,
        ranges: usize,
    ) -> Option<AccurateEcn> {
        let others = match self.tcbs[index].is(flag::TIMESTAMPS) {
            true => TIMESTAMP_OPTION_LEN,
            false => 0,
        };
        let mut option = None;
        self.change_accurate(index, |accurate| option = accurate.option(others, ranges));
        option
    }

    /// Tells whether what has arrived is to be acknowledged at once (RFC 9768, 3.2.2.5.1).
    #[cold]
    pub(in crate::tcp) fn is_mark_urgent(&self, index: usize) -> bool {
        let accurate = self.accurate(index);
        accurate.is_some_and(|accurate| accurate.is_urgent())
    }

    /// The answer to our SYN has come again: the acknowledgment of it tells of its codepoint (RFC 9768, 3.2.2.1).
    #[cold]
    pub(in crate::tcp) fn syn_answer_repeated(&mut self, index: usize, setup: Setup) {
        if setup.agreed(Mechanism::Accurate) == Mechanism::Accurate {
            self.change_accurate(index, |accurate| {
                accurate.agreed(setup.bits(), setup.codepoint());
            });
        }
    }

    /// The first acknowledgment of our answer to a SYN has arrived (RFC 9768, 3.2.2.1).
    #[cold]
    pub(in crate::tcp) fn handshake_confirmed(&mut self, index: usize, segment: &Segment) {
        let bits = accurate::bits_of(&segment.header);
        let plain = segment.len == 0 && segment.header.options.sack.is_none();
        self.change_accurate(index, |accurate| {
            if plain {
                accurate.confirmed(bits);
            }
        });
    }
}

impl Stack {
    fn sacked_segments(&self, index: usize) -> u32 {
        let state = self.recovery(index);
        state.map_or(0, |state| state.board.sacked_frames)
    }
}

/// Segments that the peer was not known to have when an acknowledgment came, and those that it was.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp) struct Outstanding {
    /// Segments that the acknowledgment covers and that were not sacked.
    covered: u32,
    /// Segments that were sacked and that it does not cover.
    sacked: u32,
}

impl<R: Recorder> Active<'_, R> {
    /// Segments before an acknowledgment up to `ack` is taken in.
    #[cold]
    pub(in crate::tcp) fn outstanding(&self, index: usize, ack: SeqNumber) -> Outstanding {
        let mut found = Outstanding {
            covered: 0,
            sacked: self.stack.sacked_segments(index),
        };
        let tcb = &self.stack.tcbs[index];
        let mut id = tcb.tx_head;
        while let Some(meta) = self.pool.meta_if(id)
            && !meta.transmissions.is_none()
            && meta.tx_end.at_or_before(ack)
        {
            if meta.transmissions.is(Transmissions::SACKED) {
                found.sacked = found.sacked.saturating_sub(1);
            } else {
                found.covered += 1;
            }
            id = meta.tx_next;
        }
        found
    }

    /// An acknowledgment has been taken in that newly covers `acked` bytes, with these segments outstanding before: where it tells of
    /// marked packets the window is reduced, once for a window (RFC 9768, 3.1.5; RFC 3168, 6.1.2). One that brings nothing new may be older
    /// than another (RFC 9768, appendix A.1).
    #[cold]
    pub(in crate::tcp) fn take_counter(
        &mut self,
        index: usize,
        segment: &Segment,
        acked: u32,
        outstanding: Outstanding,
    ) {
        let sacked = self.stack.sacked_segments(index);
        let tcb = &self.stack.tcbs[index];
        let newly = outstanding.covered + sacked.saturating_sub(outstanding.sacked);
        // A part of a segment is news, too.
        let packets = newly.max(u32::from(acked != 0));
        let is_next = segment.len != 0 && segment.header.seq == tcb.rcv_nxt;
        if packets == 0 && !is_next {
            return;
        }
        let mss = u32::from(tcb.mss);
        let feedback = Feedback {
            ace: accurate::bits_of(&segment.header),
            option: segment.header.options.accurate_ecn,
            packets,
            mss,
        };
        let mut newly = 0;
        self.stack
            .change_accurate(index, |accurate| newly = accurate.take(feedback));
        if newly != 0 {
            self.congestion_told(index, acked);
        }
    }

    /// The network is congested, by what an acknowledgment of `acked` bytes says: the window is reduced, once for a window of data, and
    /// what reduced it already is not taken back.
    fn congestion_told(&mut self, index: usize, acked: u32) {
        self.stack.keep_reduction(index);
        if self.stack.is_reduced(index) {
            return;
        }
        if !self.stack.tcbs[index].is_rare(rare::RECOVERY | rare::LOSS) {
            self.reduce_at_once(index, acked);
        }
        self.stack.window_reduced(index);
    }

    /// A segment that is acceptable has arrived on a connection with it: takes the mark of the network in (6.1.3).
    #[cold]
    pub(in crate::tcp) fn take_congestion_mark(&mut self, index: usize, segment: &Segment) {
        let Some(ecn) = self.stack.ecn(index) else {
            return;
        };
        if ecn.accurate.is_some() {
            let (codepoint, len) = (segment.service & CE, u32::from(segment.len));
            return self
                .stack
                .change_accurate(index, |accurate| accurate.arrive(codepoint, len));
        }
        if segment.len == 0 {
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
        let una = self.stack.tcbs[index].snd_una;
        // Otherwise nothing that this acknowledges could have been marked.
        if ecn
            .marked_up_to
            .is_some_and(|end| (una - acked).at_or_before(end))
        {
            self.congestion_told(index, acked);
        }
    }

    /// Writes both headers' bits into a segment whose headers say nothing of it.
    #[cold]
    pub(in crate::tcp) fn mark_segment(&mut self, index: usize, mut ecn: Ecn, frame: &Frame) {
        let sums = self.stack.config.mechanisms.checksum;
        let tcb = &self.stack.tcbs[index];
        let (una, probing) = (tcb.snd_una, tcb.is_rare(rare::PERSIST));
        let ranges = tcb.is_rare(rare::SACK_DUE);
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
        if flags.has(Flags::RST) {
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
        ecn.sent_up_to = ecn.sent_up_to.filter(|end| una.before(*end));
        if flags.has(Flags::SYN) {
            if payload != 0 {
                ecn.sent_up_to = Some(seq + 1 + payload);
                self.stack.set_ecn(index, Some(ecn));
            }
            return;
        }
        let fresh = ecn
            .marked_up_to
            .is_none_or(|end| end.at_or_before(seq) || end.before(una))
            && ecn.sent_up_to.is_none_or(|end| end.at_or_before(seq));
        let capable = ecn.accurate.is_none_or(|accurate| accurate.sends_capable);
        if payload != 0 && fresh && !probing && capable {
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
        } else if payload != 0 {
            let end = seq + payload;
            ecn.sent_up_to = Some(ecn.sent_up_to.map_or(end, |before| before.latest(end)));
        }
        if ecn.echoes {
            flags |= Flags::ECE;
        }
        let [mut offset, _] = word.to_be_bytes();
        if let Some(accurate) = &mut ecn.accurate {
            let ace = accurate.send(payload == 0 && !ranges && !flags.has(Flags::FIN));
            offset = offset & !AE | ace >> 2;
            flags = Flags(flags.0 & !(Flags::ECE | Flags::CWR).0 | ace << 6);
        }
        let written = u16::from_be_bytes([offset, flags.0]);
        if written != word {
            [head[12], head[13]] = [offset, flags.0];
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
    use Mechanism::{Accurate, Classic, Off};

    fn setup(bits: u8) -> Setup {
        Setup(bits)
    }

    /// RFC 9768, table 2 and 3.1.3; RFC 3168, 6.1.1: the feedback that a server takes up, by AE, CWR and ECE of the SYN.
    #[test]
    fn server_takes_up_what_it_knows() {
        let by_bits = |mechanism| [0, 1, 2, 3, 4, 5, 6, 7].map(|bits| setup(bits).asked(mechanism));
        assert_eq!(by_bits(Off), [Off; 8]);
        assert_eq!(
            by_bits(Classic),
            [Off, Off, Off, Classic, Off, Off, Off, Classic]
        );
        assert_eq!(
            by_bits(Accurate),
            [
                Off, Accurate, Accurate, Classic, Accurate, Accurate, Accurate, Accurate
            ]
        );
    }

    /// RFC 9768, table 2 and 3.1.3; RFC 3168, 6.1.1: the feedback that a client takes up, by AE, CWR and ECE of the answer.
    #[test]
    fn client_takes_up_what_the_answer_says() {
        let by_bits = |asked| [0, 1, 2, 3, 4, 5, 6, 7].map(|bits| setup(bits).agreed(asked));
        assert_eq!(by_bits(Off), [Off; 8]);
        assert_eq!(
            by_bits(Classic),
            [Off, Classic, Off, Off, Off, Classic, Off, Off]
        );
        assert_eq!(
            by_bits(Accurate),
            [
                Off, Classic, Accurate, Accurate, Accurate, Accurate, Accurate, Off
            ]
        );
    }

    #[test]
    fn setup_keeps_bits_and_codepoint_apart() {
        for codepoint in 0..4 {
            let setup = setup(0b101).with_service(0xfc | codepoint);
            assert_eq!((setup.bits(), setup.codepoint()), (0b101, codepoint));
        }
        assert!(!Setup::NONE.with_service(CE).says_something());
    }
}
