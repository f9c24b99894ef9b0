//! The chain of extension headers as a destination handles it (RFC 8200, 4).
//!
//! Headers are taken in the order in which they lie there, whatever that is (4.1), but for the hop-by-hop header, which
//! comes first or not at all. Options that are not known say themselves what becomes of the packet (4.2). A routing header
//! with segments left is refused, and type 0 with them (RFC 5095).
//!
//! This module must never look behind the first fragment header of a packet in parts: what lies there is whole only
//! after reassembly.

use super::{FRAGMENT_LEN, Fragment, extension, protocol};

/// Codes of a parameter problem (RFC 4443, 3.4).
const ERRONEOUS_FIELD: u8 = 0;
const UNKNOWN_HEADER: u8 = 1;
const UNKNOWN_OPTION: u8 = 2;

/// The option of one byte of padding, that of more, and a router's attention (RFC 8200, 4.2; RFC 2711), which a host has paid
/// already.
const PAD1: u8 = 0;
const PADN: u8 = 1;
const ROUTER_ALERT: u8 = 5;

/// Most extension headers that are followed in a packet (RFC 8504, 5.3 lets a host have such a limit).
const MOST_HEADERS: usize = 8;

/// Protocol behind the extension headers, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The protocol, or what the fragment header says that the fragmentable part begins with.
    pub protocol: u8,
    /// The place of the byte that names it, or the fragment header that the chain ends at, counted from the fixed header's
    /// beginning.
    pub named_at: usize,
    /// Bytes of the extension headers in front of it.
    pub offset: usize,
    /// The fragment header that the chain ends at.
    pub fragment: Option<Fragment>,
    /// Tells whether a fragment header was passed over that is all of its packet (RFC 6946).
    pub was_atomic: bool,
    /// Tells whether the hop-by-hop header has a router alert (RFC 2711).
    pub router_alert: bool,
}

/// The reason why a packet goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its sender is not told.
    Silent,
    /// It ends within a header. The sender is told of it where that is the first fragment of a packet (RFC 8200, 4.5).
    Incomplete,
    /// Its sender is told of a parameter problem (RFC 4443, 3.4).
    Problem {
        /// The kind of problem.
        code: u8,
        /// The place of the byte that it is about, counted from the fixed header's beginning.
        pointer: u32,
        /// Tells whether the sender is told where the packet was sent to a group, too.
        also_group: bool,
    },
}

/// Follows the extension headers in `payload`, which lies behind the fixed header, beginning with `next_header`. After
/// reassembly, `is_whole`, the payload is what the fragments have carried.
///
/// # Errors
/// A [`Refusal`] for a header that is no destination's to take.
pub fn follow(mut next_header: u8, payload: &[u8], is_whole: bool) -> Result<Chain, Refusal> {
    // The next header field of the fixed header (RFC 8200, 3).
    let mut named_at = 6;
    let mut offset = 0;
    let mut may_be_hop_by_hop = !is_whole;
    let mut was_atomic = false;
    let mut router_alert = false;
    for _ in 0..MOST_HEADERS {
        let rest = payload.get(offset..).unwrap_or_default();
        let at = super::HEADER_LEN + offset;
        match next_header {
            extension::HOP_BY_HOP if !may_be_hop_by_hop => {
                return Err(problem(UNKNOWN_HEADER, named_at));
            }
            extension::HOP_BY_HOP => router_alert = options(header(rest)?, at)?,
            extension::DESTINATION => _ = options(header(rest)?, at)?,
            extension::ROUTING => routing(header(rest)?, at)?,
            extension::FRAGMENT => {
                let (next, fragment) = Fragment::parse(rest).map_err(|_| Refusal::Incomplete)?;
                if !fragment.is_atomic() {
                    return Ok(Chain {
                        protocol: next,
                        named_at,
                        offset: offset + FRAGMENT_LEN,
                        fragment: Some(fragment),
                        was_atomic,
                        router_alert,
                    });
                }
                (next_header, named_at) = (next, at);
                offset += FRAGMENT_LEN;
                may_be_hop_by_hop = false;
                was_atomic = true;
                continue;
            }
            _ => {
                return Ok(Chain {
                    protocol: next_header,
                    named_at,
                    offset,
                    fragment: None,
                    was_atomic,
                    router_alert,
                });
            }
        }
        let taken = header(rest)?;
        offset += taken.len();
        (next_header, named_at) = (taken[0], at);
        may_be_hop_by_hop = false;
    }
    Err(Refusal::Silent)
}

/// Tells whether a number is that of an extension header: then an upper layer may lie behind it.
pub const fn is_extension(number: u8) -> bool {
    matches!(
        number,
        extension::HOP_BY_HOP | extension::DESTINATION | extension::ROUTING | protocol::FRAGMENT
    )
}

/// A problem of which members of a group do not tell.
const fn problem(code: u8, pointer: usize) -> Refusal {
    Refusal::Problem {
        code,
        pointer: pointer as u32,
        also_group: false,
    }
}

/// The extension header at the front, whose second byte says how long it is.
fn header(rest: &[u8]) -> Result<&[u8], Refusal> {
    let len = rest.get(1).map(|&words| 8 + 8 * usize::from(words));
    len.and_then(|len| rest.get(..len))
        .ok_or(Refusal::Incomplete)
}

/// A routing header (RFC 8200, 4.4): without segments left it is passed over.
fn routing(header: &[u8], at: usize) -> Result<(), Refusal> {
    match header[3] {
        0 => Ok(()),
        _ => Err(problem(ERRONEOUS_FIELD, at + 2)),
    }
}

/// Takes the options of a hop-by-hop or destination options header (RFC 8200, 4.2); says whether one is a router alert.
fn options(header: &[u8], at: usize) -> Result<bool, Refusal> {
    let mut router_alert = false;
    let mut place = 2;
    while let Some(&kind) = header.get(place) {
        if kind == PAD1 {
            place += 1;
            continue;
        }
        let Some(&len) = header.get(place + 1) else {
            return Err(problem(ERRONEOUS_FIELD, at + place));
        };
        let end = place + 2 + usize::from(len);
        if end > header.len() {
            return Err(problem(ERRONEOUS_FIELD, at + place + 1));
        }
        let pointer = (at + place) as u32;
        // The two bits of highest order.
        match (kind, kind >> 6) {
            (ROUTER_ALERT, _) => router_alert = true,
            (PADN, _) | (_, 0) => {}
            (_, 1) => return Err(Refusal::Silent),
            (_, action) => {
                return Err(Refusal::Problem {
                    code: UNKNOWN_OPTION,
                    pointer,
                    also_group: action == 2,
                });
            }
        }
        place = end;
    }
    Ok(router_alert)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_are_passed_over_to_the_protocol() {
        // Hop-by-hop with a router alert, destination options with padding, routing without segments left, UDP.
        let payload = [
            60, 0, 5, 2, 0, 0, 1, 0, 43, 0, 1, 4, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 9, 9,
        ];
        assert_eq!(
            follow(0, &payload, false),
            Ok(Chain {
                protocol: 17,
                named_at: 56,
                offset: 24,
                fragment: None,
                was_atomic: false,
                router_alert: true,
            })
        );
        // The hop-by-hop header comes first (RFC 8200, 4.1).
        let behind = [0, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(follow(60, &behind, false), Err(problem(UNKNOWN_HEADER, 40)));
        assert_eq!(follow(0, &payload, true), Err(problem(UNKNOWN_HEADER, 6)));
        assert_eq!(follow(60, &payload[..7], false), Err(Refusal::Incomplete));
    }

    /// RFC 5095, 3: processed as any unknown type.
    #[test]
    fn routing_of_type_0_is_refused_at_its_type() {
        let payload = [
            17, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(
            follow(43, &payload, false),
            Err(problem(ERRONEOUS_FIELD, 42))
        );
    }

    /// RFC 8200, 4.2: the action is in the two bits of highest order.
    #[test]
    fn unknown_options_say_what_becomes_of_the_packet() {
        let with = |kind: u8| follow(60, &[17, 0, kind, 1, 0, 1, 1, 0], false);
        let told = |also_group| {
            Err(Refusal::Problem {
                code: UNKNOWN_OPTION,
                pointer: 42,
                also_group,
            })
        };
        assert!(with(0x1e).is_ok());
        assert_eq!(with(0x5e), Err(Refusal::Silent));
        assert_eq!(with(0x9e), told(true));
        assert_eq!(with(0xde), told(false));
    }

    /// RFC 6946, 4: it is no matter of reassembly.
    #[test]
    fn atomic_fragment_is_passed_over() {
        let payload = [17, 0, 0, 0, 0, 0, 0, 7, 9];
        let chain = follow(44, &payload, false).unwrap();
        assert_eq!(
            (chain.protocol, chain.offset, chain.fragment),
            (17, 8, None)
        );
        assert!(chain.was_atomic);
        let part = [60, 0, 0, 1, 0, 0, 0, 7, 9];
        let chain = follow(44, &part, false).unwrap();
        assert_eq!((chain.protocol, chain.offset, chain.named_at), (60, 8, 6));
        assert!(chain.fragment.is_some() && !chain.was_atomic);
    }

    #[test]
    fn chain_without_end_is_given_up() {
        let payload = [60, 0, 1, 4, 0, 0, 0, 0].repeat(MOST_HEADERS + 1);
        assert_eq!(follow(60, &payload, false), Err(Refusal::Silent));
    }

    proptest! {
        #[test]
        fn chain_ends_within_the_payload(
            next: u8,
            payload in prop::collection::vec(any::<u8>(), 0..80),
            is_whole: bool,
        ) {
            match follow(next, &payload, is_whole) {
                Ok(chain) => {
                    prop_assert!(chain.offset <= payload.len());
                    prop_assert!(chain.fragment.is_some() || !is_extension(chain.protocol));
                }
                Err(Refusal::Problem { pointer, .. }) => {
                    prop_assert!((pointer as usize) < 40 + payload.len());
                }
                Err(Refusal::Silent | Refusal::Incomplete) => {}
            }
        }
    }
}
