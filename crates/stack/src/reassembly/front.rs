//! Headers of fragments, as far as reassembly needs them: what the two versions of IP differ in.
//!
//! The fields by which fragments belong together are those of RFC 791 for IPv4. Over IPv6 the protocol is none of them: that
//! of the first fragment counts, whatever the others say (RFC 8200, 4.5).

use super::{LONGEST, Reason};
use crate::buffer::Frame;
use crate::tcp::ecn::CE;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::RangeInclusive;
use tollgate_wire::{ipv4, ipv6};

/// Bits of the codepoint of explicit congestion notification (RFC 3168, 5).
const ECN_BITS: u8 = 0b11;

/// The headers of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    V4(FrontV4),
    V6(FrontV6),
}

/// The header of a fragment of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrontV4 {
    pub(crate) header: ipv4::Header,
    /// It was sent to an address of ours alone, by the link, too.
    pub(crate) unicast: bool,
}

/// The headers of a fragment of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrontV6 {
    pub(crate) header: ipv6::Header,
    pub(crate) fragment: ipv6::Fragment,
    /// Bytes of extension headers in front of the fragment header.
    pub(crate) extensions: u16,
    /// The number that the fragment header says of what it carries.
    pub(crate) protocol: u8,
    /// The place of the byte that names the fragment header, counted from the fixed header's beginning.
    pub(crate) named_at: u16,
    /// It was sent to an address of ours, not to a group, by the link, too.
    pub(crate) unicast: bool,
}

/// The fields that fragments of one datagram have in common. Keys of one source lie together in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    identification: u32,
}

impl Key {
    /// All keys of a source.
    pub(super) fn all_of(source: IpAddr) -> RangeInclusive<Self> {
        let bound = |destination: IpAddr, number: u32| Self {
            source,
            destination,
            protocol: number as u8,
            identification: number,
        };
        // Addresses of IPv4 lie in front of those of IPv6.
        let last = Ipv6Addr::from_bits(u128::MAX);
        bound(Ipv4Addr::UNSPECIFIED.into(), 0)..=bound(last.into(), u32::MAX)
    }
}

impl Front {
    /// The place of the fragment in its datagram's payload, in bytes.
    pub(super) const fn offset(&self) -> u16 {
        match self {
            Self::V4(front) => front.header.fragment_offset(),
            Self::V6(front) => front.fragment.offset,
        }
    }

    /// Bytes of the datagram's payload in the packet.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::V4(front) => front.header.payload_len(),
            Self::V6(front) => {
                let headers = usize::from(front.extensions) + ipv6::FRAGMENT_LEN;
                usize::from(front.header.payload_len).saturating_sub(headers)
            }
        }
    }

    /// Tells whether more fragments follow.
    pub(super) const fn more_fragments(&self) -> bool {
        match self {
            Self::V4(front) => front.header.more_fragments(),
            Self::V6(front) => front.fragment.more,
        }
    }

    /// Tells whether it is not all of its datagram.
    pub(super) const fn is_fragment(&self) -> bool {
        match self {
            Self::V4(front) => front.header.is_fragment(),
            Self::V6(front) => !front.fragment.is_atomic(),
        }
    }

    /// The codepoint of explicit congestion notification (RFC 3168, 5).
    pub(super) const fn codepoint(&self) -> u8 {
        ECN_BITS
            & match self {
                Self::V4(front) => front.header.tos,
                Self::V6(front) => front.header.traffic_class,
            }
    }

    /// Bytes of headers that the length field of the whole datagram counts.
    fn counted(&self) -> usize {
        match self {
            Self::V4(front) => front.header.header_len.into(),
            Self::V6(front) => front.extensions.into(),
        }
    }

    pub(super) fn key(&self) -> Key {
        match self {
            Self::V4(FrontV4 { header, .. }) => Key {
                source: header.source.into(),
                destination: header.destination.into(),
                protocol: header.protocol,
                identification: header.identification.into(),
            },
            Self::V6(front) => Key {
                source: front.header.source.into(),
                destination: front.header.destination.into(),
                protocol: 0,
                identification: front.fragment.identification,
            },
        }
    }

    /// Checks that hold for a packet on its own.
    ///
    /// # Errors
    /// The [`Reason`] why it cannot be a fragment.
    pub(crate) fn check(&self, frame: &Frame, payload_at: u16) -> Result<(), Reason> {
        let len = self.len();
        if self.is_fragment() && len == 0 {
            Err(Reason::Empty)
        } else if self.more_fragments() && !len.is_multiple_of(8) {
            Err(Reason::Misaligned)
        } else if self.counted() + usize::from(self.offset()) + len > LONGEST {
            Err(Reason::TooLong)
        } else if usize::from(payload_at) + len > usize::from(frame.len) {
            Err(Reason::Truncated)
        } else {
            Ok(())
        }
    }

    /// The headers of a whole datagram of `len` bytes from those of its first fragment, if its length can be expressed. It is
    /// marked if one of its fragments is.
    pub(super) fn whole(self, len: usize, is_marked: bool) -> Option<Self> {
        let counted = u16::try_from(self.counted() + len).ok()?;
        let mark = if is_marked { CE } else { 0 };
        Some(match self {
            Self::V4(FrontV4 { header, unicast }) => Self::V4(FrontV4 {
                header: ipv4::Header {
                    tos: header.tos | mark,
                    total_len: counted,
                    flags_and_offset: header.flags_and_offset
                        & !(ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK),
                    ..header
                },
                unicast,
            }),
            Self::V6(first) => Self::V6(FrontV6 {
                header: ipv6::Header {
                    traffic_class: first.header.traffic_class | mark,
                    payload_len: counted,
                    ..first.header
                },
                ..first
            }),
        })
    }
}
