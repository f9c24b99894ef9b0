//! Explicit congestion notification at a peer (RFC 3168, RFC 9768): what it asks for and agrees on, what it tells of marks, and what
//! it says of those that it is told of.

use tollgate_checksum::sum_header;
use tollgate_stack::config::Ecn;
use tollgate_wire::ethernet;
use tollgate_wire::tcp::{AccurateEcn, Flags, Header};

/// Codepoints of the IP header (RFC 3168, 5).
pub const NOT_ECT: u8 = 0b00;
/// Segments that may be marked bear one of two.
pub const ECT0: u8 = 0b10;
pub const ECT1: u8 = 0b01;
/// A router has marked it.
pub const CE: u8 = 0b11;
/// Offsets of the type of service and of the header's checksum in a packet of IPv4.
const SERVICE: usize = 1;
const CHECKSUM: usize = 10;
/// The counter of packets at the beginning (RFC 9768, 3.2.1).
pub const FIRST_COUNTER: u8 = 5;
/// Marks that are told of at once (RFC 9768, 3.2.2.5.1).
const URGENT: u8 = 2;

/// AE, CWR and ECE of a segment.
pub fn bits_of(header: &Header) -> u8 {
    u8::from(header.accurate_ecn) << 2 | header.flags.0 >> 6
}

/// A header with these bits.
pub fn with_bits(header: Header, bits: u8) -> Header {
    Header {
        accurate_ecn: bits & 0b100 != 0,
        flags: Flags(header.flags.0 & 0x3f | bits << 6),
        ..header
    }
}

/// A frame of IPv4 whose packet bears this codepoint.
pub fn with_codepoint(mut frame: Vec<u8>, codepoint: u8) -> Vec<u8> {
    let packet = &mut frame[ethernet::HEADER_LEN..];
    packet[SERVICE] = packet[SERVICE] & !CE | codepoint;
    packet[CHECKSUM..CHECKSUM + 2].fill(0);
    let header_len = usize::from(packet[0] & 0xf) * 4;
    let sum = sum_header(&packet[..header_len]).finish();
    packet[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_ne_bytes());
    frame
}

/// State of one connection.
#[derive(Clone, Debug)]
pub struct Marks {
    /// Feedback that the peer asks for and agrees on at most.
    asks: Ecn,
    /// Feedback that both have agreed on.
    pub agreed: Ecn,
    /// The answer to a SYN tells of this codepoint, as if something on the path had changed it.
    arrived_as: u8,
    /// The codepoint of data.
    codepoint: u8,
    /// The peer sends counters of bytes.
    sends_options: bool,
    /// ECE is on (RFC 3168, 6.1.3).
    echoes: bool,
    /// r.cep.
    pub packets: u32,
    /// r.e0b, r.ceb and r.e1b.
    bytes: (u32, u32, u32),
    /// Marks since the last segment went.
    untold: u8,
    /// The next acknowledgment tells of the codepoint of the answer to the SYN (RFC 9768, 3.2.2.1).
    confirms: bool,
    /// The next new data says that the window was reduced (RFC 3168, 6.1.2).
    reduced: bool,
    /// An echo below this number is of the window that was reduced.
    reduced_up_to: u32,
}

impl Marks {
    pub fn new(asks: Ecn, arrived_as: u8, codepoint: u8, sends_options: bool) -> Self {
        Self {
            asks,
            agreed: Ecn::Off,
            arrived_as,
            codepoint,
            sends_options,
            echoes: false,
            packets: FIRST_COUNTER.into(),
            bytes: (1, 0, 1),
            untold: 0,
            confirms: false,
            reduced: false,
            reduced_up_to: 0,
        }
    }

    /// A peer that neither asks for it nor agrees on it.
    pub fn off() -> Self {
        Self::new(Ecn::Off, NOT_ECT, NOT_ECT, false)
    }

    /// Bits of a SYN, or of the answer to the one that was heard (RFC 3168, 6.1.1; RFC 9768, 3.1.1 and table 2).
    pub fn of_syn(&self, answers: bool) -> u8 {
        match (if answers { self.agreed } else { self.asks }, answers) {
            (Ecn::Off, _) => 0,
            (Ecn::Classic, false) => 0b011,
            (Ecn::Accurate, false) => 0b111,
            (Ecn::Classic, true) => 0b001,
            (Ecn::Accurate, true) => match self.arrived_as {
                ECT1 => 0b011,
                ECT0 => 0b100,
                CE => 0b110,
                _ => 0b010,
            },
        }
    }

    /// The stack's SYN, or its answer, has arrived.
    pub fn hear_syn(&mut self, header: &Header) {
        let bits = bits_of(header);
        let answers = header.flags.has(Flags::ACK);
        self.agreed = match (self.asks, answers) {
            (Ecn::Off, _) => Ecn::Off,
            (Ecn::Classic, false) if bits & 0b011 == 0b011 => Ecn::Classic,
            (Ecn::Classic, true) if bits & 0b011 == 0b001 => Ecn::Classic,
            (Ecn::Classic, _) => Ecn::Off,
            (Ecn::Accurate, false) => match bits {
                0 => Ecn::Off,
                0b011 => Ecn::Classic,
                _ => Ecn::Accurate,
            },
            (Ecn::Accurate, true) => match bits {
                0 | 0b111 => Ecn::Off,
                0b001 => Ecn::Classic,
                _ => Ecn::Accurate,
            },
        };
        self.confirms = answers && self.agreed == Ecn::Accurate;
    }

    /// A segment that is acceptable has arrived with so many bytes. Says whether it is to be acknowledged at once.
    pub fn arrive(&mut self, flags: Flags, codepoint: u8, len: u32) -> bool {
        match self.agreed {
            Ecn::Off => false,
            Ecn::Classic => {
                if len != 0 {
                    let reacted = flags.has(Flags::CWR);
                    self.echoes = codepoint == CE || self.echoes && !reacted;
                }
                false
            }
            Ecn::Accurate => {
                let counter = match codepoint {
                    ECT0 => &mut self.bytes.0,
                    CE => &mut self.bytes.1,
                    ECT1 => &mut self.bytes.2,
                    _ => &mut 0,
                };
                *counter += len;
                if codepoint == CE {
                    self.packets += 1;
                    self.untold = self.untold.saturating_add(1);
                }
                self.untold >= URGENT
            }
        }
    }

    /// A segment acknowledges everything before `ack`, while everything before `sent` has gone: an echo means that the window was reduced.
    pub fn hear_echo(&mut self, flags: Flags, ack: u32, sent: u32) {
        let echoed = self.agreed == Ecn::Classic && flags.has(Flags::ECE);
        if echoed && ack > self.reduced_up_to {
            self.reduced = true;
            self.reduced_up_to = sent;
        }
    }

    /// Bits of a segment that has new data, or has neither data nor ranges, or something else.
    pub fn of_segment(&mut self, has_new_data: bool, is_plain: bool) -> u8 {
        self.untold = 0;
        match self.agreed {
            Ecn::Off => 0,
            Ecn::Classic => {
                let reduced = has_new_data && std::mem::take(&mut self.reduced);
                u8::from(reduced) << 1 | u8::from(self.echoes)
            }
            Ecn::Accurate if std::mem::take(&mut self.confirms) && is_plain => 0b010,
            Ecn::Accurate => (self.packets % 8) as u8,
        }
    }

    /// Codepoint of a segment (RFC 3168, 6.1.4 and 6.1.5: of new data alone).
    pub fn codepoint(&self, has_new_data: bool) -> u8 {
        if has_new_data && self.agreed != Ecn::Off {
            self.codepoint
        } else {
            NOT_ECT
        }
    }

    /// The counters of a segment (RFC 9768, 3.2.3).
    pub fn option(&self) -> Option<AccurateEcn> {
        let (ect0, ce, ect1) = self.bytes;
        let sends = self.sends_options && self.agreed == Ecn::Accurate;
        sends.then_some(AccurateEcn {
            ect0: Some(ect0),
            ce: Some(ce),
            ect1: Some(ect1),
        })
    }
}
