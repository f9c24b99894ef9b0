//! Reassembly: cells become payloads again, or are discarded with the reason counted.
//!
//! A payload comes out only when every check of its layer holds. AAL3/4 (ITU-T I.363.3): CRC-10 of each cell, sequence numbers, segment
//! types, tags, lengths. AAL5 (I.363.5): length and CRC-32. What cells hold is never trusted for more than its bytes.

use super::Aal;
use super::segment::MULTIPLEXING;
use tollgate_wire::Malformed;
use tollgate_wire::atm::aal5::{self, PduError};
use tollgate_wire::atm::aal34::{self, CPCS_HEADER, CpcsError, SEQUENCE_MODULUS, SarPdu, Segment};
use tollgate_wire::atm::{self, Cell, Channel, Header, PAYLOAD};

/// Bytes in front of a payload that its reader may write to, at least.
pub(super) const HEADROOM: usize = 16;

/// Counts of cells and PDUs so far, by their fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Cells that came.
    pub cells: u64,
    /// Payloads that came out.
    pub payloads: u64,
    /// Cells whose header error control did not hold.
    pub bad_header: u64,
    /// Cells of another channel, or without user data.
    pub other_channel: u64,
    /// Cells of AAL3/4 whose CRC-10 did not hold.
    pub bad_crc10: u64,
    /// Cells of AAL3/4 with a length that their segment type cannot have.
    pub bad_segment: u64,
    /// Cells of AAL3/4 with another multiplexing identification.
    pub other_multiplexing: u64,
    /// Cells of AAL3/4 that continue a PDU which has no beginning.
    pub no_beginning: u64,
    /// PDUs of AAL3/4 with a sequence number that is not the next one.
    pub bad_sequence: u64,
    /// PDUs of AAL3/4 that had no end when the next one began.
    pub no_end: u64,
    /// PDUs that their sender gave up.
    pub aborted: u64,
    /// PDUs of AAL3/4 with different tags at their beginning and end.
    pub bad_tags: u64,
    /// PDUs with a length that contradicts the bytes that came.
    pub bad_length: u64,
    /// PDUs with a field that is not zero as it should be.
    pub bad_field: u64,
    /// PDUs of AAL5 whose CRC-32 did not hold.
    pub bad_crc32: u64,
    /// PDUs of more bytes than the link carries.
    pub too_long: u64,
}

/// The PDU at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// None: AAL3/4 waits for a beginning.
    Idle,
    /// Some of it is there; of AAL3/4 the next cell has this sequence number.
    Partial { sequence: u8 },
    /// Too much of it was there: AAL5 waits for its end.
    Skipping,
    /// All of it: the payload has so many bytes.
    Complete { len: usize },
}

/// Puts cells of one channel together.
#[derive(Debug)]
pub struct Reassembler {
    aal: Aal,
    channel: Channel,
    /// Bytes of the longest payload.
    limit: usize,
    check_crc: bool,
    state: State,
    /// [`HEADROOM`] bytes, then the CPCS-PDU.
    buffer: Vec<u8>,
    stats: Stats,
}

impl Reassembler {
    /// Takes cells of `channel` whose payloads have `limit` bytes at most.
    #[must_use]
    pub fn new(aal: Aal, channel: Channel, limit: usize) -> Self {
        Self {
            aal,
            channel,
            limit: limit.min(aal5::MAX_PAYLOAD),
            check_crc: true,
            state: State::Idle,
            buffer: vec![0; HEADROOM],
            stats: Stats::default(),
        }
    }

    /// Takes CRC-10 and CRC-32 on trust: what is left are the checks of sequence, tags and length.
    #[must_use]
    pub const fn without_crc(mut self) -> Self {
        self.check_crc = false;
        self
    }

    /// Counts of cells and PDUs so far, by their fate.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Takes the next cell; the payload that it completes. A payload that is complete already is forgotten.
    #[inline]
    pub fn push(&mut self, cell: &Cell) -> Option<&[u8]> {
        if matches!(self.state, State::Complete { .. }) {
            self.state = State::Idle;
        }
        self.stats.cells += 1;
        let Ok(header) = Header::parse(cell) else {
            self.stats.bad_header += 1;
            return None;
        };
        if header.channel != self.channel || !header.is_user_data() {
            self.stats.other_channel += 1;
            return None;
        }
        match self.aal {
            Aal::Aal34 => self.push_aal34(atm::payload(cell)),
            Aal::Aal5 => self.push_aal5(atm::payload(cell), header.ends_pdu()),
        }
        self.payload()
    }

    /// The payload, when it is complete, until the next cell is taken.
    #[must_use]
    pub fn payload(&self) -> Option<&[u8]> {
        match self.state {
            State::Complete { len } => self.buffer.get(self.start()..self.start() + len),
            State::Idle | State::Partial { .. } | State::Skipping => None,
        }
    }

    /// The complete payload from byte `skip` on, with `front` written before it: at most [`HEADROOM`] and `skip` bytes.
    pub(super) fn with_front(&mut self, skip: usize, front: &[u8]) -> Option<&[u8]> {
        let State::Complete { len } = self.state else {
            return None;
        };
        let end = self.start() + len;
        let from = (self.start() + skip).checked_sub(front.len())?;
        let whole = self.buffer.get_mut(from..end)?;
        whole.get_mut(..front.len())?.copy_from_slice(front);
        Some(whole)
    }

    /// Forgets the payload that is complete.
    pub(super) fn take(&mut self) {
        self.state = State::Idle;
    }

    /// The place of the payload in the buffer.
    const fn start(&self) -> usize {
        match self.aal {
            Aal::Aal34 => HEADROOM + CPCS_HEADER,
            Aal::Aal5 => HEADROOM,
        }
    }

    fn push_aal34(&mut self, pdu: &[u8; PAYLOAD]) {
        let parsed = match self.check_crc {
            true => SarPdu::parse(pdu),
            false => SarPdu::parse_unchecked(pdu),
        };
        let sar = match parsed {
            Ok(sar) => sar,
            // The gap that it leaves is found by the sequence number.
            Err(Malformed::Check) => {
                self.stats.bad_crc10 += 1;
                return;
            }
            Err(_) => {
                self.stats.bad_segment += 1;
                return;
            }
        };
        if sar.header.multiplexing != MULTIPLEXING {
            self.stats.other_multiplexing += 1;
            return;
        }
        match sar.header.segment {
            Segment::Beginning | Segment::Single => {
                if matches!(self.state, State::Partial { .. }) {
                    self.stats.no_end += 1;
                }
                self.begin();
            }
            Segment::Continuation | Segment::End => match self.state {
                State::Partial { sequence } if sequence == sar.header.sequence => {}
                State::Partial { .. } => {
                    self.stats.bad_sequence += 1;
                    self.state = State::Idle;
                    return;
                }
                State::Idle | State::Skipping | State::Complete { .. } => {
                    self.stats.no_beginning += 1;
                    return;
                }
            },
        }
        if sar.is_abort() {
            self.stats.aborted += 1;
            self.state = State::Idle;
            return;
        }
        if !self.append(sar.payload, aal34::cpcs_len(self.limit)) {
            self.state = State::Idle;
            return;
        }
        match sar.header.segment {
            Segment::Beginning | Segment::Continuation => {
                let sequence = (sar.header.sequence + 1) % SEQUENCE_MODULUS;
                self.state = State::Partial { sequence };
            }
            Segment::Single | Segment::End => self.finish_aal34(),
        }
    }

    fn finish_aal34(&mut self) {
        let refused = match aal34::cpcs_payload(&self.buffer[HEADROOM..]) {
            Ok(payload) if payload.len() <= self.limit => {
                self.state = State::Complete { len: payload.len() };
                self.stats.payloads += 1;
                return;
            }
            Ok(_) => &mut self.stats.too_long,
            Err(CpcsError::Tags) => &mut self.stats.bad_tags,
            Err(CpcsError::Length) => &mut self.stats.bad_length,
            Err(CpcsError::Field) => &mut self.stats.bad_field,
        };
        *refused += 1;
        self.state = State::Idle;
    }

    fn push_aal5(&mut self, pdu: &[u8; PAYLOAD], end: bool) {
        match self.state {
            State::Skipping if end => {
                self.state = State::Idle;
                return;
            }
            State::Skipping => return,
            State::Idle | State::Complete { .. } => self.begin(),
            State::Partial { .. } => {}
        }
        if !self.append(pdu, aal5::pdu_len(self.limit)) {
            self.state = if end { State::Idle } else { State::Skipping };
            return;
        }
        if !end {
            self.state = State::Partial { sequence: 0 };
            return;
        }
        let pdu = &self.buffer[HEADROOM..];
        let payload = match self.check_crc {
            true => aal5::payload(pdu),
            false => aal5::payload_unchecked(pdu),
        };
        let refused = match payload {
            Ok(payload) if payload.len() <= self.limit => {
                self.state = State::Complete { len: payload.len() };
                self.stats.payloads += 1;
                return;
            }
            Ok(_) => &mut self.stats.too_long,
            Err(PduError::Length) => &mut self.stats.bad_length,
            Err(PduError::Field) => &mut self.stats.bad_field,
            Err(PduError::Crc) => &mut self.stats.bad_crc32,
        };
        *refused += 1;
        self.state = State::Idle;
    }

    fn begin(&mut self) {
        self.buffer.truncate(HEADROOM);
        self.state = State::Idle;
    }

    /// Appends a part of a PDU of `limit` bytes at most; `false`, and counted, when it is longer.
    fn append(&mut self, part: &[u8], limit: usize) -> bool {
        let fits = self.buffer.len() + part.len() <= HEADROOM + limit;
        match fits {
            true => self.buffer.extend_from_slice(part),
            false => self.stats.too_long += 1,
        }
        fits
    }
}
