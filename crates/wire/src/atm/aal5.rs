//! PDUs of AAL5 (ITU-T I.363.5): padding and a trailer of eight bytes that ends with a CRC-32 over all in front of it.
//!
//! The last cell of a PDU is marked in its header ([`Header::ends_pdu`](super::Header::ends_pdu)).

use super::PAYLOAD;
use crate::{be16, be32};
use tollgate_checksum::crc;

/// Bytes of the trailer: user-to-user indication, common part indicator, length, CRC-32.
pub const TRAILER: usize = 8;

/// Bytes of the CRC-32 at the end of the trailer.
const CRC: usize = 4;

/// The largest payload of a PDU (the length field has 16 bits).
pub const MAX_PAYLOAD: usize = u16::MAX as usize;

/// Bytes of the PDU for a payload of `len` bytes: whole cells.
#[must_use]
pub const fn pdu_len(len: usize) -> usize {
    (len + TRAILER).next_multiple_of(PAYLOAD)
}

/// The trailer without its CRC, for a payload of `len` bytes.
#[must_use]
pub const fn trailer(len: u16) -> [u8; TRAILER - CRC] {
    let [high, low] = len.to_be_bytes();
    [0, 0, high, low]
}

/// The reason why a PDU is discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PduError {
    /// The length in the trailer contradicts the number of cells, or is zero, which aborts the PDU.
    Length,
    /// The CRC-32 does not hold.
    Crc,
    /// The common part indicator is not zero.
    Field,
}

/// The payload of a PDU that ends with its trailer.
///
/// # Errors
/// The first check that fails: length, then CRC-32.
pub fn payload(pdu: &[u8]) -> Result<&[u8], PduError> {
    let payload = payload_unchecked(pdu)?;
    match crc_holds(pdu) {
        true => Ok(payload),
        false => Err(PduError::Crc),
    }
}

/// The payload of a PDU whose CRC-32 is not looked at.
///
/// # Errors
/// [`PduError::Length`] and [`PduError::Field`].
pub fn payload_unchecked(pdu: &[u8]) -> Result<&[u8], PduError> {
    let Some((body, trailer)) = pdu.split_last_chunk::<TRAILER>() else {
        return Err(PduError::Length);
    };
    let len = usize::from(be16(trailer, 2));
    if len == 0 || pdu_len(len) != pdu.len() {
        return Err(PduError::Length);
    }
    if trailer[1] != 0 {
        return Err(PduError::Field);
    }
    body.get(..len).ok_or(PduError::Length)
}

/// Tells whether the CRC-32 at the end of a PDU is that of the bytes in front of it.
#[must_use]
pub fn crc_holds(pdu: &[u8]) -> bool {
    match pdu.split_last_chunk::<CRC>() {
        Some((covered, field)) => crc::crc32(covered) == be32(field, 0),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An example of ITU-T I.363.5: 40 bytes of zeros.
    fn example() -> [u8; PAYLOAD] {
        let mut pdu = [0; PAYLOAD];
        pdu[40..44].copy_from_slice(&trailer(40));
        pdu[44..].copy_from_slice(&0x864d_7f99_u32.to_be_bytes());
        pdu
    }

    #[test]
    fn the_standards_example_is_taken() {
        assert_eq!(payload(&example()), Ok(&[0; 40][..]));
    }

    #[test]
    fn every_wrong_bit_is_found() {
        for bit in 0..8 * PAYLOAD {
            let mut damaged = example();
            damaged[bit / 8] ^= 0x80 >> (bit % 8);
            assert!(payload(&damaged).is_err(), "{bit}");
        }
    }

    #[test]
    fn length_must_fit_the_cells() {
        for len in 0..=u16::MAX {
            let mut pdu = example();
            pdu[40..44].copy_from_slice(&trailer(len));
            let crc = crc::crc32(&pdu[..44]);
            pdu[44..].copy_from_slice(&crc.to_be_bytes());
            let fits = (1..=40).contains(&len);
            assert_eq!(payload(&pdu).is_ok(), fits, "{len}");
        }
        assert_eq!(payload(&[0; 7]), Err(PduError::Length));
        assert!(!crc_holds(&[0; 3]));
    }
}
