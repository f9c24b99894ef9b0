//! The pcap format (IETF draft-ietf-opsawg-pcap): a header, then records of a 16-byte header and a packet.

use std::io::Read;

use super::{Damage, LinkType, Next};
use crate::input::Input;

/// Bytes of the file's header.
pub(super) const HEADER_LEN: usize = 24;
const RECORD_LEN: usize = 16;
/// The longest packet that tcpdump and Wireshark write, whatever the header says.
const LONGEST: u32 = 262_144;
/// A record further away in time from the last good one is not believed when records are looked for.
const BELIEVED_S: u32 = 86_400;

/// The file's header.
pub(super) struct Reader {
    swapped: bool,
    /// Nanoseconds of the smaller unit of time: 1 or 1,000.
    unit: u32,
    link: LinkType,
    /// The longest record that is believed.
    longest: u32,
    last_s: Option<u32>,
    /// The next record is still looked for.
    looking: bool,
}

/// The header of a record.
#[derive(Clone, Copy)]
struct Record {
    seconds: u32,
    fraction: u32,
    captured: u32,
    on_wire: u32,
}

/// The magic of a variant whose records have longer headers (Kuznetzov's and IXIA's).
pub(super) fn variant(front: &[u8]) -> Option<u32> {
    let magic = u32::from_le_bytes(*front.first_chunk()?);
    [0xa1b2_cd34, 0x1c00_01ac, 0x1c00_0cac]
        .into_iter()
        .find(|known| magic == *known || magic == known.swap_bytes())
}

/// Tells whether a file that begins with these bytes is in the other byte order than little-endian, and the nanoseconds of its smaller unit
/// of time.
pub(super) fn magic(front: [u8; 4]) -> Option<(bool, u32)> {
    match u32::from_le_bytes(front) {
        0xa1b2_c3d4 => Some((false, 1_000)),
        0xa1b2_3c4d => Some((false, 1)),
        0xd4c3_b2a1 => Some((true, 1_000)),
        0x4d3c_b2a1 => Some((true, 1)),
        _ => None,
    }
}

/// The major version of the format that is read.
pub(super) const VERSION: u16 = 2;

impl Reader {
    /// Reads the header, if `front` begins with one, and its major version.
    pub(super) fn new(front: &[u8]) -> Option<(Self, u16)> {
        let header: &[u8; HEADER_LEN] = front.first_chunk()?;
        let (swapped, unit) = magic(*header.first_chunk()?)?;
        let snaplen = word(header, 16, swapped);
        // The upper bits tell of a frame check sequence.
        let link = word(header, 20, swapped) as u16;
        let version = [header[4], header[5]];
        let version = if swapped {
            u16::from_be_bytes(version)
        } else {
            u16::from_le_bytes(version)
        };
        let reader = Self {
            swapped,
            unit,
            link: LinkType::from_number(link),
            longest: snaplen.clamp(LONGEST, crate::input::LONGEST as u32),
            last_s: None,
            looking: false,
        };
        Some((reader, version))
    }

    #[inline]
    pub(super) fn next<R: Read>(&mut self, input: &mut Input<R>, damage: &mut Damage) -> Next {
        if self.looking {
            return self.next_record(input, damage);
        }
        if !input.have(RECORD_LEN) {
            return cut(input, damage);
        }
        let Some(record) = self.record(input.window(), 0) else {
            return self.skip(input, damage);
        };
        if !self.fits(&record) && !self.is_chained(&record, input) {
            return self.skip(input, damage);
        }
        let len = record.captured as usize;
        if !input.have(RECORD_LEN + len) {
            return cut(input, damage);
        }
        self.last_s = Some(record.seconds);
        Next::Packet {
            time_ns: i64::from(record.seconds) * 1_000_000_000
                + i64::from(record.fraction) * i64::from(self.unit),
            link: self.link,
            wire_len: record.on_wire.max(record.captured),
            at: RECORD_LEN,
            len,
            whole: RECORD_LEN + len,
        }
    }

    #[inline]
    fn record(&self, window: &[u8], at: usize) -> Option<Record> {
        let header: &[u8; RECORD_LEN] = window.get(at..)?.first_chunk()?;
        Some(Record {
            seconds: word(header, 0, self.swapped),
            fraction: word(header, 4, self.swapped),
            captured: word(header, 8, self.swapped),
            on_wire: word(header, 12, self.swapped),
        })
    }

    /// Tells whether a record leads to another one, or to the end of the file, although its fraction is a second or more: some
    /// writers count on, and some put nanoseconds under the mark of microseconds. The time is right when the fraction is
    /// carried into the seconds.
    #[cold]
    fn is_chained<R: Read>(&self, record: &Record, input: &mut Input<R>) -> bool {
        let is_sane = |record: &Record| {
            (1..=self.longest).contains(&record.captured) && record.captured <= record.on_wire
        };
        let end = RECORD_LEN + record.captured as usize;
        if !is_sane(record) || record.on_wire > self.longest {
            return false;
        }
        if !input.have(end + RECORD_LEN) {
            return input.window().len() == end;
        }
        self.record(input.window(), end).is_some_and(|next| {
            is_sane(&next) && next.seconds.abs_diff(record.seconds) <= BELIEVED_S
        })
    }

    /// Tells whether a record may be one at all.
    #[inline]
    fn fits(&self, record: &Record) -> bool {
        record.captured <= self.longest
            && u64::from(record.fraction) * u64::from(self.unit) < 1_000_000_000
    }

    /// Tells whether a record at a place that was found by looking is one, behind another of this time, if there was one.
    fn is_believed(&self, record: &Record, behind: Option<u32>) -> bool {
        behind.is_none_or(|seconds| record.seconds.abs_diff(seconds) <= BELIEVED_S)
            && self.fits(record)
            && record.captured > 0
            && record.captured <= record.on_wire
            && record.on_wire <= self.longest
    }

    /// Begins to look for the next place where a record is followed by another or by the end of the file.
    #[cold]
    fn skip<R: Read>(&mut self, input: &mut Input<R>, damage: &mut Damage) -> Next {
        damage.places += 1;
        self.looking = true;
        self.next_record(input, damage)
    }

    /// Looks for it in what the window holds, or at the next that might be one.
    #[cold]
    fn next_record<R: Read>(&mut self, input: &mut Input<R>, damage: &mut Damage) -> Next {
        let before = input.offset();
        let window = input.window();
        let found = (0..window.len().saturating_sub(RECORD_LEN)).find(|&at| {
            self.record(window, at)
                .is_some_and(|record| self.is_believed(&record, self.last_s))
        });
        let at = found.unwrap_or(window.len().saturating_sub(RECORD_LEN));
        // Past what was looked at, but for a record that only begins there.
        input.consume(at);
        let mut next = Next::Skipped;
        if found.is_some() {
            if self.is_followed(input) {
                self.looking = false;
            } else {
                input.consume(1);
            }
        } else if !input.have(input.window().len() + 1) {
            input.consume(usize::MAX);
            next = Next::End;
        }
        damage.skipped_bytes += input.offset() - before;
        next
    }

    /// Tells whether the record at the window's front is followed by a record, or by nothing.
    fn is_followed<R: Read>(&self, input: &mut Input<R>) -> bool {
        let Some(record) = self.record(input.window(), 0) else {
            return false;
        };
        let end = RECORD_LEN + record.captured as usize;
        if input.have(end + RECORD_LEN) {
            self.record(input.window(), end)
                .is_some_and(|next| self.is_believed(&next, Some(record.seconds)))
        } else {
            input.window().len() == end
        }
    }
}

/// The rest of the input is no whole record.
#[cold]
fn cut<R: Read>(input: &mut Input<R>, damage: &mut Damage) -> Next {
    damage.cut_bytes += input.window().len() as u64;
    input.consume(usize::MAX);
    Next::End
}

#[inline]
fn word<const N: usize>(bytes: &[u8; N], at: usize, swapped: bool) -> u32 {
    let word = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if swapped { word.swap_bytes() } else { word }
}
