//! Cyclic redundancy checks of ATM: the header's HEC, CRC-10 of AAL3/4 and CRC-32 of AAL5.
//!
//! Owns which polynomial, start and end value each standard asks for; the table-driven arithmetic is that of the `crc` crate.
//! `crc32fast` computes the CRC-32 of Ethernet, whose bits are reflected; AAL5 sends the high bit first. It must never know what
//! a cell or a PDU means beyond the bits that a check covers.

use crc::{CRC_8_I_432_1, CRC_10_ATM, CRC_32_BZIP2, Crc, Digest, Table};

/// Bytes of a SAR-PDU of AAL3/4, of which the last ten bits are the CRC (ITU-T I.363.3).
pub const SAR_PDU: usize = 48;

/// Bits of the last but one byte of a SAR-PDU that CRC-10 covers; the rest of it and the last byte hold the CRC.
const COVERED: u32 = 6;

/// The generator of CRC-10 without its highest term: x^9 + x^5 + x^4 + x + 1 (ITU-T I.363.3).
const POLYNOMIAL_10: u16 = CRC_10_ATM.poly;

static HEC: Crc<u8, Table<1>> = Crc::<u8, Table<1>>::new(&CRC_8_I_432_1);
static TEN: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_10_ATM);
/// The CRC-32 of AAL5 is that of bzip2: high bit first, all ones at the start and inverted at the end.
static THIRTY_TWO: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_BZIP2);

/// The header error control of the first four bytes of a cell: CRC-8 with x^8 + x^2 + x + 1, to which 0x55 is added
/// (ITU-T I.432.1).
#[must_use]
pub fn hec(header: [u8; 4]) -> u8 {
    HEC.checksum(&header)
}

/// The CRC-10 that belongs into the last ten bits of a SAR-PDU, whatever they hold now (ITU-T I.363.3).
#[must_use]
pub fn crc10(pdu: &[u8; SAR_PDU]) -> u16 {
    let (covered, last) = pdu.split_at(SAR_PDU - 2);
    let mut crc = TEN.checksum(covered) ^ (u16::from(last[0] >> (8 - COVERED)) << (10 - COVERED));
    for _ in 0..COVERED {
        crc = (crc << 1) ^ if crc & 0x200 == 0 { 0 } else { POLYNOMIAL_10 };
    }
    crc & 0x3ff
}

/// Tells whether the CRC-10 in the last ten bits of a SAR-PDU is that of the bits in front of it.
#[must_use]
pub fn crc10_holds(pdu: &[u8; SAR_PDU]) -> bool {
    // The remainder of a message with its CRC behind it is zero.
    TEN.checksum(pdu) == 0
}

/// A CRC-32 of AAL5 in the making (ITU-T I.363.5).
#[derive(Clone)]
pub struct Crc32(Digest<'static, u32, Table<16>>);

impl Crc32 {
    /// The CRC-32 of no bytes yet.
    #[must_use]
    pub fn new() -> Self {
        Self(THIRTY_TWO.digest())
    }

    /// Goes on with `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The CRC-32 of all bytes so far.
    #[must_use]
    pub fn finish(self) -> u32 {
        self.0.finalize()
    }
}

impl Default for Crc32 {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Crc32 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Crc32")
            .field(&self.clone().finish())
            .finish()
    }
}

/// The CRC-32 of AAL5 over `bytes` (ITU-T I.363.5).
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    THIRTY_TWO.checksum(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The remainder of `bits` times x^width by the generator, bit by bit, from `start`.
    fn reference(bits: impl Iterator<Item = bool>, width: u32, generator: u64, start: u64) -> u64 {
        let mask = (1 << width) - 1;
        bits.fold(start, |crc, bit| {
            let high = crc >> (width - 1) & 1 == 1;
            (crc << 1 & mask) ^ if high != bit { generator } else { 0 }
        })
    }

    fn bits(bytes: &[u8]) -> impl Iterator<Item = bool> + '_ {
        let one = |byte: &u8| {
            let byte = *byte;
            (0..8).rev().map(move |bit| byte >> bit & 1 == 1)
        };
        bytes.iter().flat_map(one)
    }

    fn pdu(bytes: &[u8]) -> [u8; SAR_PDU] {
        let mut pdu = [0; SAR_PDU];
        pdu.copy_from_slice(bytes);
        pdu
    }

    #[test]
    fn check_values_are_those_of_the_catalogue() {
        assert_eq!(crc32(b"123456789"), 0xfc89_1918);
        assert_eq!(TEN.checksum(b"123456789"), 0x199);
        assert_eq!(HEC.checksum(b"123456789"), 0xa1);
    }

    /// ITU-T I.363.5, appendix: 40 bytes of payload, a full cell with UU and CPI zero and a length of 40.
    #[test]
    fn crc32_is_that_of_the_standards_examples() {
        let counting: Vec<u8> = (1..=40).collect();
        for (payload, crc) in [
            (&[0; 40][..], 0x864d_7f99),
            (&[0xff; 40][..], 0xc55e_457a),
            (&counting[..], 0xbf67_1ed0),
        ] {
            let pdu = [payload, &[0, 0, 0, 40]].concat();
            assert_eq!(crc32(&pdu), crc, "{crc:08x}");
        }
    }

    /// ITU-T I.432.1: an idle cell's header is 00 00 00 01 with an HEC of 52.
    #[test]
    fn hec_of_an_idle_cell_is_the_standards() {
        assert_eq!(hec([0, 0, 0, 1]), 0x52);
    }

    #[test]
    fn crc10_finds_every_change_of_one_and_of_two_bits() {
        let mut whole = pdu(&[0x5a; SAR_PDU]);
        let crc = crc10(&whole);
        whole[46] = whole[46] & 0xfc | (crc >> 8) as u8;
        whole[47] = crc as u8;
        assert!(crc10_holds(&whole));
        for first in 0..8 * SAR_PDU {
            for second in first..8 * SAR_PDU {
                let mut damaged = whole;
                damaged[first / 8] ^= 0x80 >> (first % 8);
                if second > first {
                    damaged[second / 8] ^= 0x80 >> (second % 8);
                }
                assert!(!crc10_holds(&damaged), "{first} {second}");
            }
        }
    }

    proptest! {
        #[test]
        fn crc10_equals_bit_by_bit(bytes in proptest::collection::vec(any::<u8>(), SAR_PDU)) {
            let whole = pdu(&bytes);
            let covered = bits(&whole).take(8 * SAR_PDU - 10);
            let crc = crc10(&whole);
            prop_assert_eq!(u64::from(crc), reference(covered, 10, 0x233, 0));
            let stored = u16::from_be_bytes([whole[46] & 3, whole[47]]);
            prop_assert_eq!(crc10_holds(&whole), stored == crc);
        }

        #[test]
        fn crc10_holds_with_the_crc_in_its_place(bytes in proptest::collection::vec(any::<u8>(), SAR_PDU)) {
            let mut whole = pdu(&bytes);
            let crc = crc10(&whole);
            whole[46] = whole[46] & 0xfc | (crc >> 8) as u8;
            whole[47] = crc as u8;
            prop_assert!(crc10_holds(&whole));
            prop_assert_eq!(crc10(&whole), crc);
        }

        #[test]
        fn crc32_equals_bit_by_bit_however_it_is_cut(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            at in any::<prop::sample::Index>(),
        ) {
            let expected = reference(bits(&bytes), 32, 0x04c1_1db7, 0xffff_ffff) as u32 ^ 0xffff_ffff;
            prop_assert_eq!(crc32(&bytes), expected);
            let (first, rest) = bytes.split_at(at.index(bytes.len() + 1));
            let mut crc = Crc32::new();
            crc.update(first);
            crc.update(rest);
            prop_assert_eq!(crc.finish(), expected);
        }

        #[test]
        fn hec_equals_bit_by_bit(header in any::<[u8; 4]>()) {
            prop_assert_eq!(u64::from(hec(header)), reference(bits(&header), 8, 0x07, 0) ^ 0x55);
        }
    }
}
