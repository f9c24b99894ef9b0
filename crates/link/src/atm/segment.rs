//! Segmentation: a payload becomes the cells of one CPCS-PDU of AAL3/4 (ITU-T I.363.3) or AAL5 (I.363.5).

use super::Aal;
use tollgate_checksum::crc::Crc32;
use tollgate_wire::atm::aal34::{self, SAR_PAYLOAD, SarHeader, SarPdu, Segment};
use tollgate_wire::atm::{self, Cell, Channel, Header, PAYLOAD, aal5};

/// The multiplexing identification of every PDU: one sender uses a channel's direction.
pub(super) const MULTIPLEXING: u16 = 0;

/// Cuts one payload after the other into cells.
#[derive(Debug)]
pub struct Segmenter {
    aal: Aal,
    channel: Channel,
    /// The CPCS-PDU.
    pdu: Vec<u8>,
    /// Bytes of it that are in cells.
    cut: usize,
    /// Beginning and end tag of AAL3/4: another one for each PDU.
    tag: u8,
    sequence: u8,
}

impl Segmenter {
    /// Makes cells of this channel.
    #[must_use]
    pub const fn new(aal: Aal, channel: Channel) -> Self {
        Self {
            aal,
            channel,
            pdu: Vec::new(),
            cut: 0,
            tag: 0,
            sequence: 0,
        }
    }

    /// Begins the PDU of `parts`, one behind the other; cells of the one before that were not taken are forgotten.
    ///
    /// Tells whether there is such a PDU: `false`, and nothing done, for a payload of more than 65,535 bytes or of none.
    pub fn begin(&mut self, parts: [&[u8]; 2]) -> bool {
        let [front, rest] = parts;
        let len = match u16::try_from(front.len() + rest.len()) {
            Ok(0) | Err(_) => return false,
            Ok(len) => len,
        };
        self.cut = 0;
        self.pdu.clear();
        match self.aal {
            Aal::Aal34 => {
                self.tag = self.tag.wrapping_add(1);
                self.pdu
                    .extend_from_slice(&aal34::cpcs_header(self.tag, len));
                self.fill(parts, aal34::cpcs_len(len.into()) - aal34::CPCS_TRAILER);
                self.pdu
                    .extend_from_slice(&aal34::cpcs_trailer(self.tag, len));
            }
            Aal::Aal5 => {
                self.fill(parts, aal5::pdu_len(len.into()) - aal5::TRAILER);
                self.pdu.extend_from_slice(&aal5::trailer(len));
                let mut crc = Crc32::new();
                crc.update(&self.pdu);
                self.pdu.extend_from_slice(&crc.finish().to_be_bytes());
            }
        }
        true
    }

    /// Appends the payload, and zeros until the PDU has `len` bytes.
    fn fill(&mut self, [front, rest]: [&[u8]; 2], len: usize) {
        self.pdu.extend_from_slice(front);
        self.pdu.extend_from_slice(rest);
        self.pdu.resize(len, 0);
    }

    /// Cells of the PDU that have not been taken.
    #[must_use]
    pub const fn left(&self) -> usize {
        let each = match self.aal {
            Aal::Aal34 => SAR_PAYLOAD,
            Aal::Aal5 => PAYLOAD,
        };
        (self.pdu.len() - self.cut).div_ceil(each)
    }
}

impl Iterator for Segmenter {
    type Item = Cell;

    #[inline]
    fn next(&mut self) -> Option<Cell> {
        let first = self.cut == 0;
        let left = self.pdu.get(self.cut..).filter(|left| !left.is_empty())?;
        match self.aal {
            Aal::Aal34 => {
                let payload = &left[..left.len().min(SAR_PAYLOAD)];
                let last = payload.len() == left.len();
                let segment = match (first, last) {
                    (true, true) => Segment::Single,
                    (true, false) => Segment::Beginning,
                    (false, true) => Segment::End,
                    (false, false) => Segment::Continuation,
                };
                let header = SarHeader {
                    segment,
                    sequence: self.sequence,
                    multiplexing: MULTIPLEXING,
                };
                self.sequence = (self.sequence + 1) % aal34::SEQUENCE_MODULUS;
                self.cut += payload.len();
                let pdu = SarPdu { header, payload }.to_bytes();
                Some(atm::cell(Header::user_data(self.channel, false), &pdu))
            }
            Aal::Aal5 => {
                let payload = left.first_chunk()?;
                let last = left.len() == PAYLOAD;
                self.cut += PAYLOAD;
                Some(atm::cell(Header::user_data(self.channel, last), payload))
            }
        }
    }
}
