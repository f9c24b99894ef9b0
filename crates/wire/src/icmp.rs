//! ICMP (RFC 792, 1122): echo and the errors that concern a transport.

use crate::{Malformed, be16};

/// Bytes of the header in front of an echo's data or an error's quoted datagram.
pub const HEADER_LEN: usize = 8;

/// The reason why a destination cannot be reached (RFC 792, RFC 1122 3.2.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// Code 0.
    Network,
    /// Code 1.
    Host,
    /// Code 2.
    Protocol,
    /// Code 3.
    Port,
    /// Code 4: fragmentation needed; the MTU of the next hop (RFC 1191), 0 when it did not say.
    FragmentationNeeded {
        /// Bytes.
        next_hop_mtu: u16,
    },
    /// Any other code.
    Other(u8),
}

/// An ICMP message. Data and quotations lie behind [`HEADER_LEN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Type 8.
    EchoRequest {
        /// The identifier of the sender.
        identifier: u16,
        /// The sequence number of the echo.
        sequence: u16,
    },
    /// Type 0.
    EchoReply {
        /// The identifier of the sender.
        identifier: u16,
        /// The sequence number of the echo.
        sequence: u16,
    },
    /// Type 3.
    DestinationUnreachable(Unreachable),
    /// Type 11 with its code.
    TimeExceeded(u8),
    /// Type 12 with its code.
    ParameterProblem(u8),
    /// Any other type and code.
    Other(u8, u8),
}

impl Message {
    /// Reads the header at the front of `bytes`. The checksum covers all of `bytes` and is the caller's to verify.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let Some((head, _)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::Truncated);
        };
        let (identifier, sequence) = (be16(head, 4), be16(head, 6));
        Ok(match (head[0], head[1]) {
            (0, 0) => Message::EchoReply {
                identifier,
                sequence,
            },
            (8, 0) => Message::EchoRequest {
                identifier,
                sequence,
            },
            (3, code) => Message::DestinationUnreachable(match code {
                0 => Unreachable::Network,
                1 => Unreachable::Host,
                2 => Unreachable::Protocol,
                3 => Unreachable::Port,
                4 => Unreachable::FragmentationNeeded {
                    next_hop_mtu: sequence,
                },
                other => Unreachable::Other(other),
            }),
            (11, code) => Message::TimeExceeded(code),
            (12, code) => Message::ParameterProblem(code),
            (kind, code) => Message::Other(kind, code),
        })
    }

    /// The header's bytes with a zero checksum field.
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let (kind, code, low, high) = match *self {
            Message::EchoReply {
                identifier,
                sequence,
            } => (0, 0, identifier, sequence),
            Message::EchoRequest {
                identifier,
                sequence,
            } => (8, 0, identifier, sequence),
            Message::DestinationUnreachable(reason) => match reason {
                Unreachable::Network => (3, 0, 0, 0),
                Unreachable::Host => (3, 1, 0, 0),
                Unreachable::Protocol => (3, 2, 0, 0),
                Unreachable::Port => (3, 3, 0, 0),
                Unreachable::FragmentationNeeded { next_hop_mtu } => (3, 4, 0, next_hop_mtu),
                Unreachable::Other(code) => (3, code, 0, 0),
            },
            Message::TimeExceeded(code) => (11, code, 0, 0),
            Message::ParameterProblem(code) => (12, code, 0, 0),
            Message::Other(kind, code) => (kind, code, 0, 0),
        };
        let mut out = [kind, code, 0, 0, 0, 0, 0, 0];
        out[4..6].copy_from_slice(&low.to_be_bytes());
        out[6..8].copy_from_slice(&high.to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_way_out_and_in() {
        for message in [
            Message::EchoRequest {
                identifier: 7,
                sequence: 9,
            },
            Message::EchoReply {
                identifier: 7,
                sequence: 9,
            },
            Message::DestinationUnreachable(Unreachable::Port),
            Message::DestinationUnreachable(Unreachable::FragmentationNeeded {
                next_hop_mtu: 1400,
            }),
            Message::TimeExceeded(1),
            Message::ParameterProblem(0),
            Message::Other(13, 0),
        ] {
            assert_eq!(Message::parse(&message.to_bytes()), Ok(message));
        }
        assert_eq!(Message::parse(&[0; 7]), Err(Malformed::Truncated));
    }
}
