//! UDP (RFC 768).

use crate::{Malformed, be16};

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

/// A UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender's port (0 when it wants no answer).
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Bytes of header and payload.
    pub len: u16,
    /// Tells whether the sender left the checksum out (a zero field).
    pub no_checksum: bool,
}

impl Header {
    /// Reads the header at the front of `datagram` and checks its length against the datagram's.
    #[inline]
    pub fn parse(datagram: &[u8]) -> Result<Self, Malformed> {
        let header = Self::parse_front(datagram)?;
        if usize::from(header.len) < HEADER_LEN {
            return Err(Malformed::Length);
        }
        if datagram.len() < usize::from(header.len) {
            return Err(Malformed::Truncated);
        }
        Ok(header)
    }

    /// Reads the header at the front of `datagram`, of which only the front may have been captured: the length is not held
    /// against anything. It is zero in a jumbogram (RFC 2675, 4).
    #[inline]
    pub fn parse_front(datagram: &[u8]) -> Result<Self, Malformed> {
        let Some((head, _)) = datagram.split_first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::Truncated);
        };
        Ok(Self {
            source_port: be16(head, 0),
            destination_port: be16(head, 2),
            len: be16(head, 4),
            no_checksum: head[6] == 0 && head[7] == 0,
        })
    }

    /// The header's bytes with a zero checksum field.
    #[inline]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        out[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        out[4..6].copy_from_slice(&self.len.to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_survives_the_way_out_and_in() {
        let header = Header {
            source_port: 53,
            destination_port: 4096,
            len: 12,
            no_checksum: true,
        };
        let mut datagram = [0u8; 12];
        datagram[..8].copy_from_slice(&header.to_bytes());
        assert_eq!(Header::parse(&datagram), Ok(header));
        assert_eq!(Header::parse(&datagram[..11]), Err(Malformed::Truncated));
        datagram[5] = 7;
        assert_eq!(Header::parse(&datagram), Err(Malformed::Length));
    }
}
