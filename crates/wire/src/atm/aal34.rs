//! PDUs of AAL3/4 (ITU-T I.363.3): SAR-PDUs of 48 bytes with a CRC-10, and the header and trailer of the CPCS-PDU in them.

use super::PAYLOAD;
use crate::{Malformed, be16};
use tollgate_checksum::crc;

/// Bytes of the SAR header: segment type (2 bits), sequence number (4), multiplexing identification (10).
pub const SAR_HEADER: usize = 2;

/// Bytes of the SAR trailer: length indication (6 bits), CRC-10.
pub const SAR_TRAILER: usize = 2;

/// Bytes of a CPCS-PDU that a SAR-PDU carries at most.
pub const SAR_PAYLOAD: usize = PAYLOAD - SAR_HEADER - SAR_TRAILER;

/// Bytes of the CPCS header: common part indicator, beginning tag, buffer allocation size.
pub const CPCS_HEADER: usize = 4;

/// Bytes of the CPCS trailer: alignment, end tag, length.
pub const CPCS_TRAILER: usize = 4;

/// The length of a CPCS-PDU is a multiple of so many bytes.
pub const ALIGNMENT: usize = 4;

/// The length indication of an end of message that aborts it.
const ABORT: u8 = 63;

/// Sequence numbers count modulo 16.
pub const SEQUENCE_MODULUS: u8 = 16;

/// Part of a CPCS-PDU that a SAR-PDU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// COM: neither the first nor the last.
    Continuation,
    /// EOM: the last of several.
    End,
    /// BOM: the first of several.
    Beginning,
    /// SSM: the only one.
    Single,
}

impl Segment {
    /// The segment type's two bits.
    const fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0b00,
            Self::End => 0b01,
            Self::Beginning => 0b10,
            Self::Single => 0b11,
        }
    }

    const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0b00 => Self::Continuation,
            0b01 => Self::End,
            0b10 => Self::Beginning,
            _ => Self::Single,
        }
    }

    /// Tells whether a SAR-PDU of this type can carry `len` bytes.
    ///
    /// All but the last are full; a CPCS-PDU has 4 bytes in its last one at least, and 8 if it has but one.
    const fn can_carry(self, len: usize) -> bool {
        match self {
            Self::Beginning | Self::Continuation => len == SAR_PAYLOAD,
            Self::End => len >= 4 && len <= SAR_PAYLOAD && len.is_multiple_of(ALIGNMENT),
            Self::Single => len >= 8 && len <= SAR_PAYLOAD && len.is_multiple_of(ALIGNMENT),
        }
    }
}

/// The header of a SAR-PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SarHeader {
    /// The part of a CPCS-PDU.
    pub segment: Segment,
    /// Sequence number, 0 to 15.
    pub sequence: u8,
    /// Multiplexing identification, 10 bits: CPCS-PDUs of different numbers may be interleaved on a channel.
    pub multiplexing: u16,
}

/// A SAR-PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SarPdu<'a> {
    /// Its header.
    pub header: SarHeader,
    /// Its part of the CPCS-PDU: as many bytes as the length indication says. Nothing in an abort.
    pub payload: &'a [u8],
}

impl<'a> SarPdu<'a> {
    /// Reads the payload of a cell.
    ///
    /// # Errors
    /// [`Malformed::Check`] when the CRC-10 does not hold, [`Malformed::Length`] for a length indication that the segment type
    /// cannot have.
    #[inline]
    pub fn parse(pdu: &'a [u8; PAYLOAD]) -> Result<Self, Malformed> {
        if !crc::crc10_holds(pdu) {
            return Err(Malformed::Check);
        }
        Self::parse_unchecked(pdu)
    }

    /// Reads the payload of a cell whose CRC-10 is not looked at.
    ///
    /// # Errors
    /// [`Malformed::Length`] for a length indication that the segment type cannot have.
    #[inline]
    pub fn parse_unchecked(pdu: &'a [u8; PAYLOAD]) -> Result<Self, Malformed> {
        let front = be16(pdu, 0);
        let segment = Segment::from_bits((front >> 14) as u8);
        let header = SarHeader {
            segment,
            sequence: (front >> 10 & 0xf) as u8,
            multiplexing: front & 0x3ff,
        };
        let indication = pdu[PAYLOAD - SAR_TRAILER] >> 2;
        let len = match (segment, indication) {
            (Segment::End, ABORT) => 0,
            (_, indication) if segment.can_carry(indication.into()) => indication.into(),
            _ => return Err(Malformed::Length),
        };
        let payload = &pdu[SAR_HEADER..SAR_HEADER + len];
        Ok(Self { header, payload })
    }

    /// The bytes of the PDU with its CRC-10, zeros behind a short payload. What is longer than [`SAR_PAYLOAD`] is cut off.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; PAYLOAD] {
        let mut pdu = [0; PAYLOAD];
        let SarHeader {
            segment,
            sequence,
            multiplexing,
        } = self.header;
        let front = u16::from(segment.bits()) << 14
            | u16::from(sequence % SEQUENCE_MODULUS) << 10
            | multiplexing & 0x3ff;
        pdu[..SAR_HEADER].copy_from_slice(&front.to_be_bytes());
        let len = self.payload.len().min(SAR_PAYLOAD);
        pdu[SAR_HEADER..SAR_HEADER + len].copy_from_slice(&self.payload[..len]);
        let indication = match (segment, len) {
            (Segment::End, 0) => ABORT,
            _ => len as u8,
        };
        pdu[PAYLOAD - SAR_TRAILER] = indication << 2;
        let [high, low] = crc::crc10(&pdu).to_be_bytes();
        pdu[PAYLOAD - SAR_TRAILER] |= high;
        pdu[PAYLOAD - 1] = low;
        pdu
    }

    /// Tells whether the sender gives its CPCS-PDU up.
    #[inline]
    #[must_use]
    pub const fn is_abort(&self) -> bool {
        matches!(self.header.segment, Segment::End) && self.payload.is_empty()
    }
}

/// Bytes of the CPCS-PDU for a payload of `len` bytes.
#[must_use]
pub const fn cpcs_len(len: usize) -> usize {
    CPCS_HEADER + len.next_multiple_of(ALIGNMENT) + CPCS_TRAILER
}

/// The header of a CPCS-PDU that carries `len` bytes; sizes are in bytes (common part indicator 0).
#[must_use]
pub const fn cpcs_header(tag: u8, len: u16) -> [u8; CPCS_HEADER] {
    let [high, low] = len.to_be_bytes();
    [0, tag, high, low]
}

/// The trailer of a CPCS-PDU that carries `len` bytes.
#[must_use]
pub const fn cpcs_trailer(tag: u8, len: u16) -> [u8; CPCS_TRAILER] {
    let [high, low] = len.to_be_bytes();
    [0, tag, high, low]
}

/// The reason why a CPCS-PDU is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpcsError {
    /// Header and trailer have different tags: the end is another PDU's.
    Tags,
    /// The lengths in header and trailer, and the bytes that came, contradict each other.
    Length,
    /// The common part indicator or the alignment byte is not zero.
    Field,
}

/// The payload of a CPCS-PDU, whose size in header and trailer is exact.
///
/// # Errors
/// The first check that fails.
pub fn cpcs_payload(pdu: &[u8]) -> Result<&[u8], CpcsError> {
    let Some((header, rest)) = pdu.split_first_chunk::<CPCS_HEADER>() else {
        return Err(CpcsError::Length);
    };
    let Some((body, trailer)) = rest.split_last_chunk::<CPCS_TRAILER>() else {
        return Err(CpcsError::Length);
    };
    let (indicator, alignment) = (header[0], trailer[0]);
    if header[1] != trailer[1] {
        return Err(CpcsError::Tags);
    }
    let len = usize::from(be16(trailer, 2));
    if usize::from(be16(header, 2)) != len || cpcs_len(len) != pdu.len() {
        return Err(CpcsError::Length);
    }
    if indicator != 0 || alignment != 0 {
        return Err(CpcsError::Field);
    }
    body.get(..len).ok_or(CpcsError::Length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEGMENTS: [Segment; 4] = [
        Segment::Continuation,
        Segment::End,
        Segment::Beginning,
        Segment::Single,
    ];

    #[test]
    fn sar_pdu_has_the_layout_of_the_standard() {
        let header = SarHeader {
            segment: Segment::Beginning,
            sequence: 5,
            multiplexing: 0x155,
        };
        let pdu = SarPdu {
            header,
            payload: &[0xaa; SAR_PAYLOAD],
        };
        let bytes = pdu.to_bytes();
        // 10 0101 0101010101, and 44 in the six bits in front of the CRC.
        assert_eq!(bytes[..3], [0b1001_0101, 0b0101_0101, 0xaa]);
        assert_eq!(bytes[46] >> 2, 44);
        assert_eq!(SarPdu::parse(&bytes), Ok(pdu));
    }

    #[test]
    fn length_indications_out_of_range_are_refused() {
        for segment in SEGMENTS {
            let header = SarHeader {
                segment,
                sequence: 0,
                multiplexing: 0,
            };
            for len in 0..=SAR_PAYLOAD {
                let bytes = SarPdu {
                    header,
                    payload: &[1; SAR_PAYLOAD][..len],
                }
                .to_bytes();
                let fits = segment.can_carry(len) || (segment == Segment::End && len == 0);
                assert_eq!(SarPdu::parse(&bytes).is_ok(), fits, "{segment:?} {len}");
            }
        }
    }

    #[test]
    fn an_end_without_a_payload_aborts() {
        let header = SarHeader {
            segment: Segment::End,
            sequence: 1,
            multiplexing: 2,
        };
        let bytes = SarPdu {
            header,
            payload: &[],
        }
        .to_bytes();
        assert_eq!(bytes[46] >> 2, ABORT);
        assert!(SarPdu::parse(&bytes).unwrap().is_abort());
    }

    #[test]
    fn cpcs_checks_tags_lengths_and_fields() {
        // Five bytes of payload, three of padding.
        let whole = [0, 7, 0, 5, 1, 2, 3, 4, 5, 0, 0, 0, 0, 7, 0, 5];
        assert_eq!(cpcs_payload(&whole), Ok(&[1, 2, 3, 4, 5][..]));
        for (at, error) in [
            (0, CpcsError::Field),
            (1, CpcsError::Tags),
            (3, CpcsError::Length),
            (12, CpcsError::Field),
            (13, CpcsError::Tags),
            (15, CpcsError::Length),
        ] {
            let mut damaged = whole;
            damaged[at] ^= 0x40;
            assert_eq!(cpcs_payload(&damaged), Err(error), "{at}");
        }
        for len in 0..whole.len() {
            assert!(cpcs_payload(&whole[..len]).is_err());
        }
    }

    proptest! {
        #[test]
        fn sar_pdu_survives_the_way_out_and_in(
            kind in 0usize..4,
            sequence in 0u8..16,
            multiplexing in 0u16..1024,
            bytes in any::<[u8; 32]>(),
            short in 8usize..33,
        ) {
            let segment = SEGMENTS[kind];
            let header = SarHeader { segment, sequence, multiplexing };
            let full = [bytes[0]; SAR_PAYLOAD];
            let payload = match segment {
                Segment::Beginning | Segment::Continuation => &full[..],
                Segment::End | Segment::Single => &bytes[..short / 4 * 4],
            };
            let pdu = SarPdu { header, payload };
            let bytes = pdu.to_bytes();
            prop_assert_eq!(SarPdu::parse(&bytes), Ok(pdu));
        }

        #[test]
        fn any_cell_is_parsed_without_a_panic(front in any::<[u8; 32]>(), back in any::<[u8; 16]>()) {
            let mut pdu = [0; PAYLOAD];
            pdu[..32].copy_from_slice(&front);
            pdu[32..].copy_from_slice(&back);
            let crc = crc::crc10(&pdu);
            pdu[46] = pdu[46] & 0xfc | (crc >> 8) as u8;
            pdu[47] = crc as u8;
            if let Ok(parsed) = SarPdu::parse(&pdu) {
                let again = parsed.to_bytes();
                prop_assert_eq!(SarPdu::parse(&again), Ok(parsed));
            }
        }
    }
}
