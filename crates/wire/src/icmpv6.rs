//! ICMPv6 (RFC 4443): echo and errors. What neighbour discovery says lies behind the header: [`crate::ndp`] reads it.

use crate::{Malformed, be16, be32};

/// Bytes of the header in front of an echo's data or an error's quoted packet.
pub const HEADER_LEN: usize = 8;

/// The reason why a destination cannot be reached (RFC 4443, 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// Code 0: no route.
    NoRoute,
    /// Code 1: administratively prohibited.
    Prohibited,
    /// Code 2: beyond the scope of the source address.
    BeyondScope,
    /// Code 3: the address.
    Address,
    /// Code 4: the port.
    Port,
    /// Any other code.
    Other(u8),
}

/// Messages of neighbour discovery (RFC 4861, 4), whose bodies [`crate::ndp`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// Type 133.
    RouterSolicitation,
    /// Type 134.
    RouterAdvertisement,
    /// Type 135.
    NeighbourSolicitation,
    /// Type 136.
    NeighbourAdvertisement,
    /// Type 137.
    Redirect,
}

impl Discovery {
    const ALL: [Self; 5] = [
        Self::RouterSolicitation,
        Self::RouterAdvertisement,
        Self::NeighbourSolicitation,
        Self::NeighbourAdvertisement,
        Self::Redirect,
    ];

    /// The type's number.
    pub const fn number(self) -> u8 {
        133 + self as u8
    }

    fn from_number(number: u8) -> Option<Self> {
        let index = number.checked_sub(Self::RouterSolicitation.number())?;
        Self::ALL.get(usize::from(index)).copied()
    }
}

/// A message. Data and quotations lie behind [`HEADER_LEN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Type 1.
    DestinationUnreachable(Unreachable),
    /// Type 2: the MTU of the next hop (RFC 4443, 3.2).
    PacketTooBig {
        /// Bytes.
        mtu: u32,
    },
    /// Type 3 with its code: 0 for the hop limit, 1 for reassembly.
    TimeExceeded(u8),
    /// Type 4.
    ParameterProblem {
        /// The kind of problem (RFC 4443, 3.4).
        code: u8,
        /// The byte of the packet that it is about.
        pointer: u32,
    },
    /// Type 128.
    EchoRequest {
        /// The identifier of the sender.
        identifier: u16,
        /// The sequence number of the echo.
        sequence: u16,
    },
    /// Type 129.
    EchoReply {
        /// The identifier of the sender.
        identifier: u16,
        /// The sequence number of the echo.
        sequence: u16,
    },
    /// Types 133 to 137, with the code, which must be 0.
    Discovery(Discovery, u8),
    /// Any other type and code.
    Other(u8, u8),
}

impl Message {
    /// Reads the header at the front of `bytes`. The checksum covers all of `bytes` and a pseudo header, and is the caller's to
    /// verify.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some((head, _)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::Truncated);
        };
        let (identifier, sequence) = (be16(head, 4), be16(head, 6));
        let word = be32(head, 4);
        Ok(match (head[0], head[1]) {
            (1, code) => Message::DestinationUnreachable(match code {
                0 => Unreachable::NoRoute,
                1 => Unreachable::Prohibited,
                2 => Unreachable::BeyondScope,
                3 => Unreachable::Address,
                4 => Unreachable::Port,
                other => Unreachable::Other(other),
            }),
            // RFC 4443, 3.2: the code is ignored.
            (2, _) => Message::PacketTooBig { mtu: word },
            (3, code) => Message::TimeExceeded(code),
            (4, code) => Message::ParameterProblem {
                code,
                pointer: word,
            },
            (128, 0) => Message::EchoRequest {
                identifier,
                sequence,
            },
            (129, 0) => Message::EchoReply {
                identifier,
                sequence,
            },
            (kind, code) => match Discovery::from_number(kind) {
                Some(kind) => Message::Discovery(kind, code),
                None => Message::Other(kind, code),
            },
        })
    }

    /// Tells whether it is an error and not information (RFC 4443, 2.1: types below 128).
    pub const fn is_error(&self) -> bool {
        match self {
            Message::DestinationUnreachable(_)
            | Message::PacketTooBig { .. }
            | Message::TimeExceeded(_)
            | Message::ParameterProblem { .. } => true,
            Message::EchoRequest { .. } | Message::EchoReply { .. } | Message::Discovery(..) => {
                false
            }
            Message::Other(kind, _) => *kind < 128,
        }
    }

    /// The header's bytes with a zero checksum field. What neighbour discovery says in the last four is not part of it.
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let pair =
            |identifier: u16, sequence: u16| u32::from(identifier) << 16 | u32::from(sequence);
        let (kind, code, word) = match *self {
            Message::DestinationUnreachable(reason) => {
                let code = match reason {
                    Unreachable::NoRoute => 0,
                    Unreachable::Prohibited => 1,
                    Unreachable::BeyondScope => 2,
                    Unreachable::Address => 3,
                    Unreachable::Port => 4,
                    Unreachable::Other(code) => code,
                };
                (1, code, 0)
            }
            Message::PacketTooBig { mtu } => (2, 0, mtu),
            Message::TimeExceeded(code) => (3, code, 0),
            Message::ParameterProblem { code, pointer } => (4, code, pointer),
            Message::EchoRequest {
                identifier,
                sequence,
            } => (128, 0, pair(identifier, sequence)),
            Message::EchoReply {
                identifier,
                sequence,
            } => (129, 0, pair(identifier, sequence)),
            Message::Discovery(kind, code) => (kind.number(), code, 0),
            Message::Other(kind, code) => (kind, code, 0),
        };
        let mut out = [kind, code, 0, 0, 0, 0, 0, 0];
        out[4..].copy_from_slice(&word.to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn types_have_the_numbers_of_the_rfc() {
        assert_eq!(Discovery::RouterSolicitation.number(), 133);
        assert_eq!(Discovery::Redirect.number(), 137);
        assert_eq!(Message::parse(&[0; 7]), Err(Malformed::Truncated));
        let too_big = Message::PacketTooBig { mtu: 1280 };
        assert_eq!(too_big.to_bytes(), [2, 0, 0, 0, 0, 0, 5, 0]);
        assert!(too_big.is_error());
        assert!(!Message::Other(130, 0).is_error());
    }

    proptest! {
        #[test]
        fn messages_survive_the_way_out_and_in(bytes: [u8; HEADER_LEN]) {
            let message = Message::parse(&bytes).unwrap();
            prop_assert_eq!(Message::parse(&message.to_bytes()), Ok(message));
            prop_assert_eq!(message.is_error(), bytes[0] < 128);
        }
    }
}
