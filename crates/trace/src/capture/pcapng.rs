//! The pcapng format (IETF draft-ietf-opsawg-pcapng): sections of blocks; interfaces, each with its link type and its unit
//! of time; packets of one interface each. Other blocks are skipped.

use std::io::Read;

use super::{Damage, LinkType, Next};
use crate::input::{Input, LONGEST};

pub(super) const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// The major version of the format that is read (draft-ietf-opsawg-pcapng, 4.1).
pub(super) const VERSION: u16 = 1;
const INTERFACE: u32 = 1;
/// Obsolete, and still in old files.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
/// Bytes of the least block: type, length, and the length once more.
const LEAST: usize = 12;
/// Interfaces of one section that are remembered; more is no capture that anybody made.
const INTERFACES: usize = 65_536;
const OPTION_TIME_UNIT: u16 = 9;
const OPTION_TIME_OFFSET: u16 = 14;

/// From an interface's unit of time to nanoseconds.
#[derive(Clone, Copy)]
enum Unit {
    /// A multiple of nanoseconds.
    Times(i64),
    /// A fraction of a nanosecond.
    Part(i64),
    /// Two to the minus this, in seconds.
    Binary(u8),
}

impl Unit {
    /// Of the option `if_tsresol`.
    fn of(byte: u8) -> Self {
        let exponent = byte & 0x7f;
        match (byte & 0x80 != 0, exponent) {
            (true, _) => Self::Binary(exponent),
            (false, 0..=9) => Self::Times(10_i64.pow(9 - u32::from(exponent))),
            (false, _) => Self::Part(10_i64.pow(u32::from(exponent).min(27) - 9)),
        }
    }

    /// Nothing for what is more than 64 bits hold.
    #[inline]
    fn nanoseconds(self, time: u64) -> Option<i64> {
        match self {
            Self::Times(factor) => i64::try_from(time).ok()?.checked_mul(factor),
            Self::Part(divisor) => i64::try_from(time / divisor as u64).ok(),
            Self::Binary(bits) => i64::try_from((u128::from(time) * 1_000_000_000) >> bits).ok(),
        }
    }
}

#[derive(Clone, Copy)]
struct Interface {
    link: LinkType,
    snaplen: u32,
    unit: Unit,
    /// Nothing for what is more than 64 bits hold.
    offset_ns: Option<i64>,
}

/// State of the section so far.
#[derive(Default)]
pub(super) struct Reader {
    swapped: bool,
    /// In their order; nothing for one whose description is too short.
    interfaces: Vec<Option<Interface>>,
    /// The section is of a version that is not known.
    foreign: bool,
    /// The next block is still looked for.
    looking: bool,
}

/// Tells whether `front` is that of a section.
pub(super) fn begins(front: &[u8]) -> bool {
    byte_order(front).is_some()
}

/// The major version of the section at the front.
pub(super) fn version(front: &[u8]) -> Option<u16> {
    let word = *front.get(12..)?.first_chunk()?;
    Some(if byte_order(front)? {
        u16::from_be_bytes(word)
    } else {
        u16::from_le_bytes(word)
    })
}

/// Tells whether the section at the front is in the other byte order than little-endian.
fn byte_order(front: &[u8]) -> Option<bool> {
    let head: &[u8; 12] = front.first_chunk()?;
    let magic = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    let is_section = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) == SECTION;
    match magic {
        BYTE_ORDER_MAGIC if is_section => Some(false),
        _ if is_section && magic.swap_bytes() == BYTE_ORDER_MAGIC => Some(true),
        _ => None,
    }
}

impl Reader {
    #[inline]
    pub(super) fn next<R: Read>(
        &mut self,
        input: &mut Input<R>,
        damage: &mut Damage,
        last_ns: i64,
    ) -> Next {
        if self.looking {
            return self.next_record(input, damage);
        }
        if !input.have(LEAST) {
            return cut(input, damage);
        }
        if let Some(swapped) = byte_order(input.window()) {
            self.swapped = swapped;
        }
        let Some((kind, len)) = self.head(input.window(), 0) else {
            return self.skip(input, damage);
        };
        if !input.have(len) {
            return self.cut_or_skip(input, damage);
        }
        let block = &input.window()[..len];
        if self.word(block, len - 4) as usize != len {
            return self.skip(input, damage);
        }
        let body = &block[8..len - 4];
        let next = match kind {
            SECTION => {
                self.interfaces.clear();
                self.foreign = version(block) != Some(VERSION);
                if self.foreign {
                    damage.places += 1;
                    damage.skipped_bytes += len as u64;
                }
                None
            }
            _ if self.foreign => {
                damage.skipped_bytes += len as u64;
                None
            }
            ENHANCED_PACKET => self.enhanced(body, damage, len),
            SIMPLE_PACKET => self.simple(body, damage, len, last_ns),
            PACKET => self.obsolete(body, damage, len),
            INTERFACE => {
                if self.interfaces.len() < INTERFACES {
                    // One that cannot be read keeps its place, since packets name interfaces by number.
                    self.interfaces.push(self.interface(body));
                }
                None
            }
            _ => None,
        };
        next.unwrap_or_else(|| {
            input.consume(len);
            Next::Skipped
        })
    }

    /// Type and length of the block at `at`, if its length can be one.
    fn head(&self, window: &[u8], at: usize) -> Option<(u32, usize)> {
        let head: &[u8; 8] = window.get(at..)?.first_chunk()?;
        let len = self.word(head, 4) as usize;
        (len.is_multiple_of(4) && (LEAST..=LONGEST).contains(&len))
            .then(|| (self.word(head, 0), len))
    }

    fn interface(&self, body: &[u8]) -> Option<Interface> {
        let mut interface = Interface {
            link: LinkType::from_number(self.half(body.get(..2)?)),
            snaplen: self.word(body.get(4..8)?, 0),
            unit: Unit::of(6),
            offset_ns: Some(0),
        };
        let mut options = &body[8..];
        while let Some(head) = options.first_chunk::<4>() {
            let (code, len) = (self.half(&head[..2]), usize::from(self.half(&head[2..])));
            let Some(value) = options.get(4..4 + len).filter(|_| code != 0) else {
                break;
            };
            match (code, value) {
                (OPTION_TIME_UNIT, [byte]) => interface.unit = Unit::of(*byte),
                (OPTION_TIME_OFFSET, bytes) => {
                    if let Some(bytes) = bytes.as_array::<8>() {
                        let low = i64::from(self.word(bytes, if self.swapped { 4 } else { 0 }));
                        let high = i64::from(self.word(bytes, if self.swapped { 0 } else { 4 }));
                        interface.offset_ns = (high << 32 | low).checked_mul(1_000_000_000);
                    }
                }
                _ => {}
            }
            options = options
                .get(4 + len.next_multiple_of(4)..)
                .unwrap_or_default();
        }
        Some(interface)
    }

    #[inline]
    fn enhanced(&self, body: &[u8], damage: &mut Damage, whole: usize) -> Option<Next> {
        let head: &[u8; 20] = body.first_chunk()?;
        let time = u64::from(self.word(head, 4)) << 32 | u64::from(self.word(head, 8));
        let lengths = (self.word(head, 12), self.word(head, 16));
        let interface = self.word(head, 0);
        self.packet(interface, time, lengths, 20, body, damage, whole)
    }

    fn obsolete(&self, body: &[u8], damage: &mut Damage, whole: usize) -> Option<Next> {
        let head: &[u8; 20] = body.first_chunk()?;
        let time = u64::from(self.word(head, 4)) << 32 | u64::from(self.word(head, 8));
        let lengths = (self.word(head, 12), self.word(head, 16));
        let interface = u32::from(self.half(&head[..2]));
        self.packet(interface, time, lengths, 20, body, damage, whole)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the fields of one block, by one caller each"
    )]
    #[inline]
    fn packet(
        &self,
        interface: u32,
        time: u64,
        (captured, on_wire): (u32, u32),
        at: usize,
        body: &[u8],
        damage: &mut Damage,
        whole: usize,
    ) -> Option<Next> {
        let Some(Some(interface)) = self.interfaces.get(interface as usize) else {
            damage.without_interface += 1;
            return None;
        };
        let len = captured as usize;
        let offset_ns = |time_ns: i64| time_ns.checked_add(interface.offset_ns?);
        let time_ns = interface.unit.nanoseconds(time).and_then(offset_ns);
        let Some(time_ns) = time_ns.filter(|_| len <= body.len() - at) else {
            damage.places += 1;
            damage.skipped_bytes += whole as u64;
            return None;
        };
        Some(Next::Packet {
            time_ns,
            link: interface.link,
            wire_len: on_wire.max(captured),
            at: 8 + at,
            len,
            whole,
        })
    }

    /// A packet of the first interface, without a time.
    fn simple(&self, body: &[u8], damage: &mut Damage, whole: usize, last_ns: i64) -> Option<Next> {
        let head: &[u8; 4] = body.first_chunk()?;
        let Some(Some(interface)) = self.interfaces.first() else {
            damage.without_interface += 1;
            return None;
        };
        damage.without_time += 1;
        let wire_len = self.word(head, 0);
        let snaplen = match interface.snaplen {
            0 => usize::MAX,
            limit => limit as usize,
        };
        Some(Next::Packet {
            time_ns: last_ns,
            link: interface.link,
            wire_len,
            at: 12,
            len: (wire_len as usize).min(snaplen).min(body.len() - 4),
            whole,
        })
    }

    /// The block at the front names a length that the input does not have: it is the last and cut off, unless blocks follow
    /// that fit together, in which case the length is wrong.
    #[cold]
    fn cut_or_skip<R: Read>(&mut self, input: &mut Input<R>, damage: &mut Damage) -> Next {
        if self.next_block(input.window()).is_some() {
            return self.skip(input, damage);
        }
        cut(input, damage)
    }

    /// Begins to look for the next block that fits together.
    #[cold]
    fn skip<R: Read>(&mut self, input: &mut Input<R>, damage: &mut Damage) -> Next {
        damage.places += 1;
        self.looking = true;
        self.next_record(input, damage)
    }

    /// Looks for it in what the window holds.
    #[cold]
    fn next_record<R: Read>(&mut self, input: &mut Input<R>, damage: &mut Damage) -> Next {
        // A block longer than this is not looked for.
        const LOOKED_FOR: usize = 1 << 18;
        let before = input.offset();
        let more = input.have(2 * LOOKED_FOR);
        let mut next = Next::Skipped;
        match self.next_block(input.window()) {
            Some(at) => {
                input.consume(at);
                self.looking = false;
            }
            None if more => input.consume(input.window().len() - LOOKED_FOR),
            None => {
                input.consume(usize::MAX);
                next = Next::End;
            }
        }
        damage.skipped_bytes += input.offset() - before;
        next
    }

    /// Finds the first block of a known type behind the front whose two lengths agree.
    fn next_block(&self, window: &[u8]) -> Option<usize> {
        (1..window.len().saturating_sub(LEAST - 1)).find(|&at| {
            let rest = &window[at..];
            // A section may change the byte order.
            let reader = byte_order(rest).map(|swapped| Self {
                swapped,
                ..Self::default()
            });
            let reader = reader.as_ref().unwrap_or(self);
            reader.head(window, at).is_some_and(|(kind, len)| {
                matches!(
                    kind,
                    SECTION | INTERFACE | PACKET | SIMPLE_PACKET | ENHANCED_PACKET
                ) && rest.len() >= len
                    && reader.word(rest, len - 4) as usize == len
            })
        })
    }

    #[inline]
    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        let word = bytes
            .get(at..)
            .and_then(|rest| rest.first_chunk())
            .map_or(0, |word| u32::from_le_bytes(*word));
        if self.swapped {
            word.swap_bytes()
        } else {
            word
        }
    }

    #[inline]
    fn half(&self, bytes: &[u8]) -> u16 {
        let half = bytes
            .first_chunk()
            .map_or(0, |half| u16::from_le_bytes(*half));
        if self.swapped {
            half.swap_bytes()
        } else {
            half
        }
    }
}

/// The rest of the input is no whole block.
#[cold]
fn cut<R: Read>(input: &mut Input<R>, damage: &mut Damage) -> Next {
    damage.cut_bytes += input.window().len() as u64;
    input.consume(usize::MAX);
    Next::End
}
