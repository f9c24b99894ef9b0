//! Cells of ATM: the 53 bytes, their header at the user's side of the network (ITU-T I.361, 2.2) and what is in them.
//!
//! Owns the layout of cells, of the PDUs of AAL3/4 ([`aal34`]) and AAL5 ([`aal5`]), and of the LLC encapsulation of IP
//! ([`llc`]). Cutting PDUs into cells and putting them together needs state and lives in the link.

pub mod aal34;
pub mod aal5;
pub mod llc;

use crate::Malformed;
use tollgate_checksum::crc;

/// Bytes of a cell.
pub const CELL: usize = 53;

/// Bytes of its header, the header error control included.
pub const HEADER: usize = 5;

/// Bytes of its payload.
pub const PAYLOAD: usize = CELL - HEADER;

/// One cell, as it is on the line.
pub type Cell = [u8; CELL];

/// A virtual channel: the pair of numbers that a cell is switched by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Channel {
    /// Virtual path identifier.
    pub path: u8,
    /// Virtual channel identifier. Numbers up to 31 are the network's own (ITU-T I.361).
    pub channel: u16,
}

/// A cell's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Generic flow control, 4 bits; zero where it is not used.
    pub flow_control: u8,
    /// The virtual channel.
    pub channel: Channel,
    /// Payload type, 3 bits; see [`Header::is_user_data`] and [`Header::ends_pdu`].
    pub payload_type: u8,
    /// Cell loss priority: set in cells that a crowded network drops first.
    pub low_priority: bool,
}

impl Header {
    /// The header of a cell with user data; `end` is the indication between ATM users that AAL5 marks its last cell with.
    #[inline]
    #[must_use]
    pub const fn user_data(channel: Channel, end: bool) -> Self {
        Self {
            flow_control: 0,
            channel,
            payload_type: end as u8,
            low_priority: false,
        }
    }

    /// Reads the header of a cell.
    ///
    /// # Errors
    /// [`Malformed::Check`] when the header error control does not hold. Bits are not corrected: like a receiver in detection mode
    /// (ITU-T I.432.1), who reads this discards the cell.
    #[inline]
    pub fn parse(cell: &Cell) -> Result<Self, Malformed> {
        let [a, b, c, d, check, ..] = *cell;
        if crc::hec([a, b, c, d]) != check {
            return Err(Malformed::Check);
        }
        Ok(Self {
            flow_control: a >> 4,
            channel: Channel {
                path: a << 4 | b >> 4,
                channel: u16::from(b & 0xf) << 12 | u16::from(c) << 4 | u16::from(d >> 4),
            },
            payload_type: d >> 1 & 7,
            low_priority: d & 1 == 1,
        })
    }

    /// The header's bytes with their header error control. Bits of fields beyond their width are cut off.
    #[inline]
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER] {
        let Channel { path, channel } = self.channel;
        let [high, low] = channel.to_be_bytes();
        let four = [
            self.flow_control << 4 | path >> 4,
            path << 4 | high >> 4,
            high << 4 | low >> 4,
            low << 4 | (self.payload_type & 7) << 1 | u8::from(self.low_priority),
        ];
        let [a, b, c, d] = four;
        [a, b, c, d, crc::hec(four)]
    }

    /// Tells whether the cell carries user data and not the network's management or its own.
    #[inline]
    #[must_use]
    pub const fn is_user_data(&self) -> bool {
        self.payload_type & 4 == 0
    }

    /// Tells whether the cell ends a CPCS-PDU of AAL5 (ITU-T I.363.5: the ATM-user-to-ATM-user indication).
    #[inline]
    #[must_use]
    pub const fn ends_pdu(&self) -> bool {
        self.payload_type & 1 == 1
    }
}

/// A cell of this header and payload.
#[inline]
#[must_use]
pub fn cell(header: Header, payload: &[u8; PAYLOAD]) -> Cell {
    let mut cell = [0; CELL];
    cell[..HEADER].copy_from_slice(&header.to_bytes());
    cell[HEADER..].copy_from_slice(payload);
    cell
}

/// The payload of a cell.
#[inline]
#[must_use]
pub const fn payload(cell: &Cell) -> &[u8; PAYLOAD] {
    let [_, _, _, _, _, payload @ ..] = cell;
    payload
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn idle_cell_has_the_header_of_the_standard() {
        let idle = Header {
            flow_control: 0,
            channel: Channel {
                path: 0,
                channel: 0,
            },
            payload_type: 0,
            low_priority: true,
        };
        assert_eq!(idle.to_bytes(), [0, 0, 0, 1, 0x52]);
    }

    #[test]
    fn every_wrong_bit_of_a_header_is_found() {
        let channel = Channel {
            path: 3,
            channel: 0x1234,
        };
        let whole = cell(Header::user_data(channel, true), &[7; PAYLOAD]);
        assert_eq!(payload(&whole), &[7; PAYLOAD]);
        for bit in 0..8 * HEADER {
            let mut damaged = whole;
            damaged[bit / 8] ^= 0x80 >> (bit % 8);
            assert_eq!(Header::parse(&damaged), Err(Malformed::Check), "{bit}");
        }
    }

    proptest! {
        #[test]
        fn header_survives_the_way_out_and_in(
            flow_control in 0u8..16,
            path: u8,
            channel: u16,
            payload_type in 0u8..8,
            low_priority: bool,
        ) {
            let channel = Channel { path, channel };
            let header = Header { flow_control, channel, payload_type, low_priority };
            prop_assert_eq!(Header::parse(&cell(header, &[0; PAYLOAD])), Ok(header));
            prop_assert_eq!(header.is_user_data(), payload_type < 4);
        }
    }
}
