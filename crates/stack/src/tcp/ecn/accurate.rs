//! More accurate feedback (RFC 9768): the receiver counts the packets that were marked, and the sender follows its counter by three bits.
//!
//! Owns the counters of both directions, what the handshake says by its three bits, and which option an acknowledgment carries. It must
//! never take fewer packets for marked than were (3.2.2.5.2): where the three bits are ambiguous and no option tells, the largest count
//! counts that is possible. It must never stop telling the peer what arrives, whatever becomes of what is sent (3.1.5).

use tollgate_wire::tcp::{AccurateEcn, Header};

/// Codepoints of the IP header (RFC 3168, 5).
const ECT1: u8 = 0b01;
const ECT0: u8 = 0b10;
const CE: u8 = 0b11;

/// r.cep and s.cep at the beginning (RFC 9768, 3.2.1).
const FIRST_PACKETS: u32 = 5;
/// r.e0b, r.e1b and their counterparts at the beginning (RFC 9768, 3.2.1).
const FIRST_BYTES: u32 = 1;
/// Values of the three bits.
const CYCLE: u32 = 8;
/// Values of a field of the option.
const FIELD: u32 = 1 << 24;
/// Marks that must be told of at once while data is not acknowledged, and while none is (RFC 9768, 3.2.2.5.1).
const MARKS_WITH_DATA: u8 = 2;
const MARKS_WITHOUT_DATA: u8 = 3;
/// Bytes of a header's options.
const OPTIONS: usize = 40;

/// AE, CWR and ECE of a segment: the ACE field, or a word of the handshake.
pub(super) fn bits_of(header: &Header) -> u8 {
    u8::from(header.accurate_ecn) << 2 | header.flags.0 >> 6 & 1 | (header.flags.0 >> 7) << 1
}

/// The three bits that tell of a SYN's codepoint in its answer, and of the answer's in the acknowledgment of that (RFC 9768, table 2
/// above, and table 3).
pub(super) const fn handshake_bits(codepoint: u8) -> u8 {
    match codepoint {
        ECT1 => 0b011,
        ECT0 => 0b100,
        CE => 0b110,
        _ => 0b010,
    }
}

/// Tells whether a codepoint that these bits of the handshake tell of is another than that of our SYN or answer, which is Not-ECT: on such
/// a path nothing is sent as ECN-capable (RFC 9768, 3.2.2.3). Bits that tell of none say nothing.
const fn is_mangled(bits: u8) -> bool {
    matches!(bits, 0b011 | 0b100 | 0b110)
}

/// Payload bytes that have arrived, by codepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bytes {
    ect0: u32,
    ce: u32,
    ect1: u32,
}

impl Bytes {
    const FIRST: Self = Self {
        ect0: FIRST_BYTES,
        ce: 0,
        ect1: FIRST_BYTES,
    };

    /// An option with the counters that differ from `before`. Where CE is told, a counter is in front of it.
    fn told_since(self, before: Self) -> AccurateEcn {
        let field = |value: u32, before: u32| (value != before).then_some(value % FIELD);
        let mut told = AccurateEcn {
            ect0: field(self.ect0, before.ect0),
            ce: field(self.ce, before.ce),
            ect1: field(self.ect1, before.ect1),
        };
        let both = told.ect0.is_some() && told.ect1.is_some();
        if told.ect1.is_none() || both {
            told.ect0 = Some(self.ect0 % FIELD);
        }
        if both {
            told.ce = Some(self.ce % FIELD);
        }
        told
    }
}

/// Feedback of an acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Feedback {
    /// The ACE field.
    pub(super) ace: u8,
    pub(super) option: Option<AccurateEcn>,
    /// Packets that it acknowledges for the first time.
    pub(super) packets: u32,
    pub(super) mss: u32,
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accurate {
    /// r.cep: marked packets that have arrived.
    arrived: u32,
    /// r.e0b, r.ceb, r.e1b.
    bytes: Bytes,
    /// The counters when an option was sent last.
    told: Option<Bytes>,
    /// Marked packets that no segment has told of.
    untold: u8,
    /// The packet before was marked.
    was_marked: bool,
    /// An acknowledgment is to go at once.
    is_urgent: bool,
    /// s.cep: packets that the peer has found marked.
    marked: u32,
    /// s.ceb, as far as options tell.
    marked_bytes: u32,
    /// Codepoint of the peer's SYN, or of its answer.
    pub(super) codepoint: u8,
    /// The next acknowledgment tells of the answer's codepoint instead of the counter (3.2.2.1).
    pub(super) confirms: bool,
    /// The first feedback has been looked at (3.2.2.4).
    is_checked: bool,
    /// Segments may be ECN-capable.
    pub(super) sends_capable: bool,
    /// Feedback is listened to.
    listens: bool,
    /// Options are sent: none was lost with a SYN's answer (3.2.3.2.2).
    pub(super) sends_options: bool,
}

impl Accurate {
    pub(super) const NEW: Self = Self {
        arrived: FIRST_PACKETS,
        bytes: Bytes::FIRST,
        told: None,
        untold: 0,
        was_marked: false,
        is_urgent: false,
        marked: FIRST_PACKETS,
        marked_bytes: 0,
        codepoint: 0,
        confirms: false,
        is_checked: false,
        sends_capable: true,
        listens: true,
        sends_options: true,
    };

    /// Packets that were marked, since the beginning.
    pub(super) const fn marked_packets(&self) -> u32 {
        self.marked - FIRST_PACKETS
    }

    /// The answer to our SYN agrees by these bits, and bore this codepoint.
    pub(super) fn agreed(&mut self, bits: u8, codepoint: u8) {
        self.codepoint = codepoint;
        self.confirms = true;
        self.sends_capable &= !is_mangled(bits);
        if codepoint == CE {
            // However many marked answers come (3.2.2.2).
            self.arrived = FIRST_PACKETS + 1;
        }
    }

    /// The first acknowledgment of our answer, without data and ranges, bears these bits (RFC 9768, table 4).
    pub(super) fn confirmed(&mut self, bits: u8) {
        self.sends_capable &= !is_mangled(bits);
        match bits {
            0 => {
                self.sends_capable = false;
                self.listens = false;
            }
            0b110 => self.marked = FIRST_PACKETS + 1,
            _ => {}
        }
    }

    /// A packet that is acceptable has arrived, with so many bytes of payload (3.2).
    pub(super) fn arrive(&mut self, codepoint: u8, len: u32) {
        let marked = codepoint == CE;
        let counter = match codepoint {
            ECT0 => &mut self.bytes.ect0,
            ECT1 => &mut self.bytes.ect1,
            CE => &mut self.bytes.ce,
            _ => &mut 0,
        };
        *counter = counter.wrapping_add(len);
        if marked {
            self.arrived = self.arrived.wrapping_add(1);
            self.untold = self.untold.saturating_add(1);
        }
        let most = if len != 0 {
            MARKS_WITH_DATA
        } else {
            MARKS_WITHOUT_DATA
        };
        self.is_urgent = marked && (len != 0 && !self.was_marked || self.untold >= most);
        self.was_marked = marked;
    }

    /// Tells whether the packet that has arrived is to be acknowledged at once (3.2.2.5.1).
    pub(super) const fn is_urgent(&self) -> bool {
        self.is_urgent
    }

    /// The ACE field of a segment that is sent: the counter, or, without data and ranges, what the handshake owes.
    pub(super) fn send(&mut self, is_plain: bool) -> u8 {
        let confirms = core::mem::take(&mut self.confirms) && is_plain;
        self.untold = 0;
        self.is_urgent = false;
        if confirms {
            handshake_bits(self.codepoint)
        } else {
            self.counter()
        }
    }

    /// The ACE field that tells of the counter.
    pub(super) const fn counter(&self) -> u8 {
        (self.arrived % CYCLE) as u8
    }

    /// The option of our answer to a SYN: one counter, which is not zero (3.2.3.2.1).
    pub(super) fn answer_option(&self) -> Option<AccurateEcn> {
        self.sends_options.then_some(AccurateEcn {
            ect0: Some(FIRST_BYTES),
            ..AccurateEcn::default()
        })
    }

    /// Tells whether an acknowledgment is to carry an option: a counter has moved since the last one.
    pub(super) fn owes_option(&self) -> bool {
        self.sends_options && self.told != Some(self.bytes)
    }

    /// The option of an acknowledgment that has so many bytes of other options, selective acknowledgments apart, and so many ranges. Two
    /// ranges come first (3.2.3.3). It has all counters that have ever moved, or, where there is no room, those that have since
    /// the last one.
    pub(super) fn option(&mut self, others: usize, ranges: usize) -> Option<AccurateEcn> {
        if !self.owes_option() {
            return None;
        }
        let ranges = match ranges.min(2) {
            0 => 0,
            ranges => 4 + 8 * ranges,
        };
        let room = OPTIONS - others - ranges;
        let since = self.told.unwrap_or(Bytes::FIRST);
        let option = [Bytes::FIRST, since]
            .map(|since| self.bytes.told_since(since))
            .into_iter()
            .find(|option| option.padded_len() <= room)?;
        self.told = Some(self.bytes);
        Some(option)
    }

    /// Takes in an acknowledgment that is not older than another. Returns the packets that it newly tells to be marked (3.2.2.2,
    /// 3.2.2.5.2; appendix A.2).
    pub(super) fn take(&mut self, feedback: Feedback) -> u32 {
        let Feedback {
            ace,
            option,
            packets,
            mss,
        } = feedback;
        if !core::mem::replace(&mut self.is_checked, true) && ace == 0 {
            // 3.2.2.4: it begins at five, and something has cleared it.
            self.sends_capable = false;
            self.listens = false;
        }
        let least = (u32::from(ace) + CYCLE - self.marked % CYCLE) % CYCLE;
        let most = match packets.checked_sub(least) {
            Some(more) => packets - more % CYCLE,
            None => least,
        };
        let bytes = option.and_then(|option| option.ce).map(|ce| {
            let bytes = (ce + FIELD - self.marked_bytes % FIELD) % FIELD;
            self.marked_bytes = self.marked_bytes.wrapping_add(bytes);
            bytes
        });
        let newly = match (option, bytes) {
            (None, _) => most,
            // A counter that is left out has not moved.
            (Some(_), None | Some(0)) => least,
            (Some(_), Some(bytes)) => {
                if most == 0 {
                    // 3.2.3.2.5: something has changed one of the two.
                    self.sends_capable = false;
                }
                // No packet has more bytes than a full one: so many marked ones there were at least.
                let full = bytes.div_ceil(mss.max(1)).saturating_sub(least);
                (least + full.next_multiple_of(CYCLE)).min(most)
            }
        };
        self.marked = self.marked.wrapping_add(newly);
        if self.listens { newly } else { 0 }
    }
}

#[cfg(test)]
mod tests;
