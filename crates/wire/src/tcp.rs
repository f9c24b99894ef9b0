//! TCP headers and options (RFC 9293, 3.1; RFC 7323; RFC 2018).

use crate::{Malformed, SeqNumber, be16, be32};
use core::fmt;
use core::ops::{BitOr, BitOrAssign};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of the longest header.
pub const MAX_HEADER_LEN: usize = 60;
/// Bytes of the timestamp option with the two NOPs that align it (RFC 7323, appendix A).
pub const TIMESTAMP_OPTION_LEN: usize = 12;
/// Bytes of the options of a usual SYN ([`Options::of_common_syn`]).
pub const SYN_OPTIONS_LEN: usize = 20;
/// The first four bytes of the aligned timestamp option: NOP, NOP, kind 8, length 10.
pub const TIMESTAMP_LAYOUT: [u8; 4] = [1, 1, 8, 10];

/// The alternate checksum that leaves checksums out: "Redundant Checksum Avoidance", number 3 of IANA's "TCP Alternate Checksum
/// Numbers", registered by Kay. 0 to 2 are the TCP checksum and Fletcher's (RFC 1146).
pub const NO_CHECKSUM: u8 = 3;
/// Bytes of an alternate checksum data option without data, with the two NOPs that align it.
pub const CHECKSUM_DATA_LEN: usize = 4;
/// Option of RFC 1146 for data of another checksum: kind 15.
pub const EMPTY_CHECKSUM_DATA: [u8; CHECKSUM_DATA_LEN] = [1, 1, 15, 2];

/// The control bits.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronize sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push function.
    pub const PSH: Self = Self(0x08);
    /// Acknowledgment field is significant.
    pub const ACK: Self = Self(0x10);
    /// Urgent pointer field is significant.
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Tells whether all bits of `other` are set.
    #[inline(always)]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Tells whether any bit of `other` is set.
    #[inline(always)]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Flags {
    type Output = Self;
    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    #[inline(always)]
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(Flags, &str); 8] = [
            (Flags::FIN, "FIN"),
            (Flags::SYN, "SYN"),
            (Flags::RST, "RST"),
            (Flags::PSH, "PSH"),
            (Flags::ACK, "ACK"),
            (Flags::URG, "URG"),
            (Flags::ECE, "ECE"),
            (Flags::CWR, "CWR"),
        ];
        let mut first = true;
        for (flag, name) in NAMES {
            if self.has(flag) {
                if !first {
                    f.write_str("|")?;
                }
                f.write_str(name)?;
                first = false;
            }
        }
        if first { f.write_str("-") } else { Ok(()) }
    }
}

/// A timestamp option (RFC 7323, 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// The sender's clock.
    pub value: u32,
    /// The receiver's clock as the sender last saw it.
    pub echo: u32,
}

/// Most blocks that a header has room for (RFC 2018, 3).
pub const MAX_SACK_BLOCKS: usize = 4;

/// Bytes of sequence that a selective acknowledgment tells of: from the first to the one behind the last (RFC 2018, 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackBlock {
    /// Sequence number of the first byte.
    pub start: SeqNumber,
    /// Sequence number behind the last byte.
    pub end: SeqNumber,
}

/// The blocks of a selective acknowledgment, in their order (kind 5, RFC 2018).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [SackBlock; MAX_SACK_BLOCKS],
    count: u8,
}

impl SackBlocks {
    /// No block.
    pub const NONE: Self = Self {
        blocks: [SackBlock {
            start: SeqNumber(0),
            end: SeqNumber(0),
        }; MAX_SACK_BLOCKS],
        count: 0,
    };

    /// Puts a block behind the others. One that finds no room is left out.
    pub fn push(&mut self, block: SackBlock) {
        if let Some(place) = self.blocks.get_mut(usize::from(self.count)) {
            *place = block;
            self.count += 1;
        }
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.count)]
    }

    /// The blocks, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [SackBlock] {
        &mut self.blocks[..usize::from(self.count)]
    }

    /// Reads the blocks of an option behind kind and length; what is no whole block is left out.
    fn parse(bytes: &[u8]) -> Self {
        let mut blocks = Self::NONE;
        for block in bytes.chunks_exact(8) {
            blocks.push(SackBlock {
                start: SeqNumber(be32(block, 0)),
                end: SeqNumber(be32(block, 4)),
            });
        }
        blocks
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}

/// A Fast Open option (kind 34, RFC 7413, 4.1.1): a cookie of 4 to 16 bytes, an even number, or the request for one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FastOpenCookie {
    bytes: [u8; 16],
    len: u8,
}

impl FastOpenCookie {
    /// The request for a cookie.
    pub const REQUEST: Self = Self {
        bytes: [0; 16],
        len: 0,
    };

    /// A cookie of eight bytes.
    pub const fn of_eight(cookie: [u8; 8]) -> Self {
        let [a, b, c, d, e, f, g, h] = cookie;
        Self {
            bytes: [a, b, c, d, e, f, g, h, 0, 0, 0, 0, 0, 0, 0, 0],
            len: 8,
        }
    }

    /// The cookie's bytes; none are a request.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Reads an option behind kind and length. One of another length is ignored.
    fn parse(cookie: &[u8]) -> Option<Self> {
        let mut bytes = [0; 16];
        let even = cookie.len().is_multiple_of(2);
        let legal = cookie.is_empty() || cookie.len() >= 4;
        bytes.get_mut(..cookie.len())?.copy_from_slice(cookie);
        (even && legal).then_some(Self {
            bytes,
            len: cookie.len() as u8,
        })
    }
}

impl fmt::Debug for FastOpenCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_slice() {
            [] => f.write_str("request"),
            cookie => {
                for byte in cookie {
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

/// An AccECN option (RFC 9768, 3.2.3): the lowest 24 bits of the receiver's counters of payload bytes, those that are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AccurateEcn {
    /// Bytes of packets that bore ECT(0).
    pub ect0: Option<u32>,
    /// Bytes of packets that bore CE.
    pub ce: Option<u32>,
    /// Bytes of packets that bore ECT(1).
    pub ect1: Option<u32>,
}

impl AccurateEcn {
    /// Bytes of the longest option.
    const MAX_LEN: usize = 11;
    /// AccECN0: ECT(0), CE, ECT(1).
    const ORDER_0: u8 = 172;
    /// AccECN1: ECT(1), CE, ECT(0).
    const ORDER_1: u8 = 174;

    /// Bytes of the option with padding to whole words.
    pub fn padded_len(&self) -> usize {
        self.emit().1.next_multiple_of(4)
    }

    /// Reads an option of any length: the whole fields that it holds, of which three mean something.
    fn parse(option: &[u8]) -> Self {
        let mut fields = option[2..].chunks_exact(3).map(|field| {
            u32::from(field[0]) << 16 | u32::from(field[1]) << 8 | u32::from(field[2])
        });
        let (first, ce, last) = (fields.next(), fields.next(), fields.next());
        let (ect0, ect1) = match option[0] {
            Self::ORDER_0 => (first, last),
            _ => (last, first),
        };
        Self { ect0, ce, ect1 }
    }

    /// The option and its bytes. Fields can be left out only behind the last one: those in front of it are told, too.
    fn emit(&self) -> ([u8; Self::MAX_LEN], usize) {
        let (kind, first, last) = match (self.ect0, self.ect1) {
            (None, Some(_)) => (Self::ORDER_1, self.ect1, None),
            _ => (Self::ORDER_0, self.ect0, self.ect1),
        };
        let fields = [first, self.ce, last];
        let count = 3 - fields
            .iter()
            .rev()
            .take_while(|field| field.is_none())
            .count();
        let mut option = [0; Self::MAX_LEN];
        let len = 2 + 3 * count;
        option[..2].copy_from_slice(&[kind, len as u8]);
        for (place, field) in option[2..len].chunks_exact_mut(3).zip(fields) {
            place.copy_from_slice(&field.unwrap_or(0).to_be_bytes()[1..]);
        }
        (option, len)
    }
}

/// The options that the stack understands; unknown ones are skipped (RFC 9293, 3.2, MUST-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// Maximum segment size that the sender accepts, bytes (kind 2).
    pub mss: Option<u16>,
    /// Shift of the sender's window (kind 3), as sent: may exceed 14.
    pub window_scale: Option<u8>,
    /// Timestamps (kind 8).
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgments are understood (kind 4).
    pub sack_permitted: bool,
    /// Selective acknowledgment (kind 5).
    pub sack: Option<SackBlocks>,
    /// Number of the checksum that the sender asks for (kind 14, RFC 1146).
    pub alternate_checksum: Option<u8>,
    /// Alternate checksum data are there and empty (kind 15, RFC 1146): as long as [`NO_CHECKSUM`] has them.
    pub empty_checksum_data: bool,
    /// Fast Open (kind 34, RFC 7413).
    pub fast_open: Option<FastOpenCookie>,
    /// Bytes that have arrived by codepoint (kinds 172 and 174, RFC 9768, 3.2.3).
    pub accurate_ecn: Option<AccurateEcn>,
}

impl Options {
    /// The receiver's timestamp that a segment echoes (TSecr of RFC 7323, 3.2), where it has the option.
    pub fn echo(&self) -> Option<u32> {
        Some(self.timestamps?.echo)
    }

    /// Reads the options of a SYN that offers an MSS, window scaling and timestamps in one of the two orders in which most
    /// hosts write them: MSS, selective acknowledgments, timestamps, window scale; or MSS, window scale, timestamps.
    /// [`Options::emit`] and Linux write both. Nothing for any other order.
    #[inline(always)]
    pub fn of_common_syn(bytes: &[u8; SYN_OPTIONS_LEN]) -> Option<Self> {
        // NOP, kind 3, length 3, and the shift in the last byte.
        const WINDOW_SCALE: u32 = 0x0001_0303;
        // Kind 4, length 2, kind 8, length 10.
        const SACK_THEN_TIMESTAMPS: u32 = 0x0402_080a;
        if be16(bytes, 0) != 0x0204 {
            return None;
        }
        let (second, last) = (be32(bytes, 4), be32(bytes, 16));
        let (shift, value_at, sack_permitted) =
            if second == SACK_THEN_TIMESTAMPS && last >> 8 == WINDOW_SCALE {
                (last as u8, 8, true)
            } else if second >> 8 == WINDOW_SCALE && bytes[8..12] == TIMESTAMP_LAYOUT {
                (second as u8, 12, false)
            } else {
                return None;
            };
        Some(Self {
            mss: Some(be16(bytes, 2)),
            window_scale: Some(shift),
            timestamps: Some(Timestamps {
                value: be32(bytes, value_at),
                echo: be32(bytes, value_at + 4),
            }),
            sack_permitted,
            sack: None,
            alternate_checksum: None,
            empty_checksum_data: false,
            fast_open: None,
            accurate_ecn: None,
        })
    }

    /// Reads the options between the fixed header and the payload.
    pub fn parse(mut bytes: &[u8]) -> Result<Self, Malformed> {
        let mut options = Self::default();
        // What every segment of most connections carries and nothing else.
        if bytes.len() == TIMESTAMP_OPTION_LEN && bytes[..4] == TIMESTAMP_LAYOUT {
            options.timestamps = Some(Timestamps {
                value: be32(bytes, 4),
                echo: be32(bytes, 8),
            });
            return Ok(options);
        }
        if let Some(options) = bytes.as_array().and_then(Self::of_common_syn) {
            return Ok(options);
        }
        while let Some((&kind, rest)) = bytes.split_first() {
            match kind {
                0 => break,
                1 => {
                    bytes = rest;
                    continue;
                }
                _ => {}
            }
            // MUST-7: an illegal option length must not crash.
            let Some(&len) = rest.first() else {
                return Err(Malformed::Option);
            };
            let len = usize::from(len);
            if len < 2 || len > bytes.len() {
                return Err(Malformed::Option);
            }
            let (option, after) = bytes.split_at(len);
            match (kind, len) {
                (2, 4) => options.mss = Some(be16(option, 2)),
                (3, 3) => options.window_scale = Some(option[2]),
                (4, 2) => options.sack_permitted = true,
                (8, 10) => {
                    options.timestamps = Some(Timestamps {
                        value: be32(option, 2),
                        echo: be32(option, 6),
                    });
                }
                (2 | 3 | 4 | 8, _) => return Err(Malformed::Option),
                (5, 10 | 18 | 26 | 34) => options.sack = Some(SackBlocks::parse(&option[2..])),
                (14, 3) => options.alternate_checksum = Some(option[2]),
                (15, 2) => options.empty_checksum_data = true,
                (172 | 174, _) => options.accurate_ecn = Some(AccurateEcn::parse(option)),
                (34, _) => options.fast_open = FastOpenCookie::parse(&option[2..]),
                _ => {}
            }
            bytes = after;
        }
        Ok(options)
    }

    /// Writes the options, padded to whole words, and returns how many bytes they take. One that there is no room for is left out.
    /// Selective acknowledgments are the last ones: as many blocks as there is room for.
    pub fn emit(&self, out: &mut [u8; MAX_HEADER_LEN - HEADER_LEN]) -> usize {
        let mut len = 0;
        let mut put = |head: &[u8], body: &[u8]| {
            let end = len + head.len() + body.len();
            if let Some(place) = out.get_mut(len..end) {
                place[..head.len()].copy_from_slice(head);
                place[head.len()..].copy_from_slice(body);
                len = end;
            }
        };
        if let Some(mss) = self.mss {
            put(&[2, 4], &mss.to_be_bytes());
        }
        // With selective acknowledgments timestamps come before the window's scale: without padding, as in most SYNs today.
        let stamps = self.timestamps.map(|stamps| {
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&stamps.value.to_be_bytes());
            bytes[4..].copy_from_slice(&stamps.echo.to_be_bytes());
            bytes
        });
        if self.sack_permitted {
            match stamps {
                Some(stamps) => put(&[4, 2, 8, 10], &stamps),
                None => put(&[1, 1, 4, 2], &[]),
            }
        }
        if let Some(shift) = self.window_scale {
            put(&[1, 3, 3], &[shift]);
        }
        if let Some(stamps) = stamps
            && !self.sack_permitted
        {
            put(&TIMESTAMP_LAYOUT, &stamps);
        }
        if let Some(number) = self.alternate_checksum {
            put(&[1, 14, 3], &[number]);
        }
        if self.empty_checksum_data {
            put(&EMPTY_CHECKSUM_DATA, &[]);
        }
        if let Some(cookie) = self.fast_open {
            let bytes = cookie.as_slice();
            // Padding in front of it, so that whole words are left.
            let padding = (2 + bytes.len()).next_multiple_of(4) - 2 - bytes.len();
            let head = [1, 1, 34, 2 + bytes.len() as u8];
            put(&head[2 - padding..], bytes);
        }
        if let Some(counters) = self.accurate_ecn {
            let (option, bytes) = counters.emit();
            let padding = bytes.next_multiple_of(4) - bytes;
            // Without room it is left out whole (RFC 9768, 3.2.3.3).
            put(&[1; 3][..padding], &option[..bytes]);
        }
        let Some(sack) = self.sack else {
            return len;
        };
        let room = (out.len() - len).saturating_sub(4) / 8;
        let blocks = sack.as_slice();
        let blocks = &blocks[..blocks.len().min(room)];
        if !blocks.is_empty() {
            let option = 2 + 8 * blocks.len();
            out[len..len + 4].copy_from_slice(&[1, 1, 5, option as u8]);
            len += 4;
            for block in blocks {
                out[len..len + 4].copy_from_slice(&block.start.0.to_be_bytes());
                out[len + 4..len + 8].copy_from_slice(&block.end.0.to_be_bytes());
                len += 8;
            }
        }
        len
    }
}

/// A TCP header with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Of the first byte of payload (of the SYN when it is set).
    pub seq: SeqNumber,
    /// Sequence number that the sender expects next.
    pub ack: SeqNumber,
    /// Bytes of header and options.
    pub header_len: u8,
    /// The control bits.
    pub flags: Flags,
    /// The window as on the wire, unscaled.
    pub window: u16,
    /// The urgent pointer.
    pub urgent: u16,
    /// AE, the ninth control bit (RFC 9768, 3.1.1).
    pub accurate_ecn: bool,
    /// The options.
    pub options: Options,
}

impl Header {
    /// Reads the header at the front of `segment`.
    pub fn parse(segment: &[u8]) -> Result<Self, Malformed> {
        let mut header = Self::parse_front(segment)?;
        let Some(options) = segment.get(HEADER_LEN..usize::from(header.header_len)) else {
            return Err(Malformed::Truncated);
        };
        header.options = Options::parse(options)?;
        Ok(header)
    }

    /// Reads the fixed header at the front of `segment`, of which only the front may have been captured. Options are
    /// counted in `header_len` and not read.
    #[inline]
    pub fn parse_front(segment: &[u8]) -> Result<Self, Malformed> {
        let Some((head, _)) = segment.split_first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::Truncated);
        };
        let header_len = (head[12] >> 4) * 4;
        if usize::from(header_len) < HEADER_LEN {
            return Err(Malformed::Length);
        }
        Ok(Self {
            source_port: be16(head, 0),
            destination_port: be16(head, 2),
            seq: SeqNumber(be32(head, 4)),
            ack: SeqNumber(be32(head, 8)),
            header_len,
            flags: Flags(head[13]),
            window: be16(head, 14),
            urgent: be16(head, 18),
            accurate_ecn: head[12] & 1 != 0,
            options: Options::default(),
        })
    }

    /// Writes header and options with a zero checksum field; returns their bytes (`header_len` is computed).
    pub fn emit(&self, out: &mut [u8; MAX_HEADER_LEN]) -> usize {
        let (fixed, rest) = out.split_at_mut(HEADER_LEN);
        let mut options = [0; MAX_HEADER_LEN - HEADER_LEN];
        let options_len = self.options.emit(&mut options);
        rest[..options_len].copy_from_slice(&options[..options_len]);
        let len = HEADER_LEN + options_len;
        fixed[0..2].copy_from_slice(&self.source_port.to_be_bytes());
        fixed[2..4].copy_from_slice(&self.destination_port.to_be_bytes());
        fixed[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        fixed[8..12].copy_from_slice(&self.ack.0.to_be_bytes());
        fixed[12] = ((len / 4) as u8) << 4 | u8::from(self.accurate_ecn);
        fixed[13] = self.flags.0;
        fixed[14..16].copy_from_slice(&self.window.to_be_bytes());
        fixed[16..18].copy_from_slice(&[0, 0]);
        fixed[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_with_all_options_survives_the_way_out_and_in() {
        let header = Header {
            source_port: 80,
            destination_port: 50_000,
            seq: SeqNumber(0xfeed_beef),
            ack: SeqNumber(7),
            header_len: 60,
            flags: Flags::SYN | Flags::ACK,
            window: 65_535,
            urgent: 0,
            accurate_ecn: true,
            options: Options {
                mss: Some(1460),
                window_scale: Some(7),
                timestamps: Some(Timestamps { value: 1, echo: 2 }),
                sack_permitted: true,
                sack: None,
                alternate_checksum: Some(NO_CHECKSUM),
                empty_checksum_data: true,
                fast_open: Some(FastOpenCookie::of_eight([1, 2, 3, 4, 5, 6, 7, 8])),
                accurate_ecn: None,
            },
        };
        let mut out = [0; MAX_HEADER_LEN];
        let len = header.emit(&mut out);
        assert_eq!(len, 60);
        assert_eq!(Header::parse(&out[..len]), Ok(header));
        for cut in 0..len {
            assert!(Header::parse(&out[..cut]).is_err());
        }
    }

    /// Beside timestamps three blocks find room, without them four (RFC 2018, 3).
    #[test]
    fn selective_acknowledgments_fill_the_room_that_is_left() {
        let block = |n: u32| SackBlock {
            start: SeqNumber(u32::MAX - 5) + 20 * n,
            end: SeqNumber(u32::MAX - 5) + (20 * n + 10),
        };
        let mut sack = SackBlocks::NONE;
        (0..6).for_each(|n| sack.push(block(n)));
        assert_eq!(sack.as_slice().len(), MAX_SACK_BLOCKS);
        for (timestamps, room, bytes) in [
            (Some(Timestamps { value: 1, echo: 2 }), 3, 40),
            (None, 4, 36),
        ] {
            let options = Options {
                timestamps,
                sack: Some(sack),
                ..Options::default()
            };
            let mut out = [0; MAX_HEADER_LEN - HEADER_LEN];
            let len = options.emit(&mut out);
            assert_eq!(len, bytes);
            let read = Options::parse(&out[..len]).unwrap();
            assert_eq!(read.timestamps, timestamps);
            assert_eq!(read.sack.unwrap().as_slice(), &sack.as_slice()[..room]);
        }
    }

    /// RFC 9768, 3.2.3: fields are left out from the end; an option of another length has the whole fields that fit; without room there
    /// is none.
    #[test]
    fn options_without_room_are_left_out() {
        let all = Options {
            mss: Some(1460),
            window_scale: Some(7),
            timestamps: Some(Timestamps { value: 1, echo: 2 }),
            sack_permitted: true,
            sack: None,
            alternate_checksum: Some(3),
            empty_checksum_data: true,
            fast_open: FastOpenCookie::parse(&[9; 14]),
            accurate_ecn: None,
        };
        let mut out = [0; MAX_HEADER_LEN - HEADER_LEN];
        let len = all.emit(&mut out);
        let without = Options {
            fast_open: None,
            ..all
        };
        assert_eq!((len, Options::parse(&out[..len])), (28, Ok(without)));
    }

    #[test]
    fn accurate_ecn_options_of_every_length_are_read() {
        let counters = |ect0, ce, ect1| AccurateEcn { ect0, ce, ect1 };
        for (told, len) in [
            (counters(Some(1), None, None), 8),
            (counters(Some(0xab_cdef), Some(2), None), 8),
            (counters(Some(1), Some(2), Some(3)), 12),
            (counters(None, None, Some(3)), 8),
            (counters(None, Some(9), Some(0xff_ffff)), 8),
            (counters(None, None, None), 4),
        ] {
            let options = Options {
                accurate_ecn: Some(told),
                ..Options::default()
            };
            let mut out = [0; MAX_HEADER_LEN - HEADER_LEN];
            assert_eq!(options.emit(&mut out), len);
            assert_eq!(Options::parse(&out[..len]), Ok(options));
        }
        let read = |bytes: &[u8]| Options::parse(bytes).unwrap().accurate_ecn;
        assert_eq!(read(&[172, 4, 9, 9]), Some(counters(None, None, None)));
        let mut long = [7; 16];
        long[..2].copy_from_slice(&[174, 16]);
        let sevens = Some(0x07_0707);
        assert_eq!(read(&long), Some(counters(sevens, sevens, sevens)));
        let crowded = Options {
            mss: Some(1460),
            window_scale: Some(7),
            timestamps: Some(Timestamps { value: 1, echo: 2 }),
            sack_permitted: true,
            fast_open: Some(FastOpenCookie::of_eight([0; 8])),
            accurate_ecn: Some(counters(Some(1), Some(2), Some(3))),
            ..Options::default()
        };
        let mut out = [0; MAX_HEADER_LEN - HEADER_LEN];
        let len = crowded.emit(&mut out);
        assert_eq!(Options::parse(&out[..len]).unwrap().accurate_ecn, None);
    }

    /// An option of another length holds no blocks, and is skipped as an unknown one.
    #[test]
    fn selective_acknowledgments_of_other_lengths_are_skipped() {
        for len in [2, 3, 9, 11, 17, 35, 38] {
            let mut bytes = [1; 40];
            bytes[0] = 5;
            bytes[1] = len;
            assert_eq!(Options::parse(&bytes).unwrap().sack, None, "{len}");
        }
    }

    /// The two orders are also read one by one: when an end of options follows them.
    #[test]
    fn usual_orders_are_read_as_any_other() {
        let ours = [
            2, 4, 5, 180, 1, 3, 3, 7, 1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8,
        ];
        let linux = [
            2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 7,
        ];
        for (bytes, sack_permitted) in [(ours, false), (linux, true)] {
            let common = Options::of_common_syn(&bytes).unwrap();
            assert_eq!(common.sack_permitted, sack_permitted);
            let mut longer = [0; SYN_OPTIONS_LEN + 4];
            longer[..SYN_OPTIONS_LEN].copy_from_slice(&bytes);
            assert_eq!(Options::parse(&longer), Ok(common));
            assert_eq!(Options::parse(&bytes), Ok(common));
            for at in [0, 1, 4, 5, 6] {
                let mut other = bytes;
                other[at] ^= 0x40;
                assert_eq!(Options::of_common_syn(&other), None);
            }
        }
    }

    #[test]
    fn illegal_option_lengths_are_refused() {
        assert_eq!(Options::parse(&[2]), Err(Malformed::Option));
        assert_eq!(Options::parse(&[2, 0]), Err(Malformed::Option));
        assert_eq!(Options::parse(&[2, 1, 0, 0]), Err(Malformed::Option));
        assert_eq!(Options::parse(&[2, 5, 1, 1]), Err(Malformed::Option));
        assert_eq!(
            Options::parse(&[8, 9, 0, 0, 0, 0, 0, 0, 0]),
            Err(Malformed::Option)
        );
    }

    /// RFC 7413, 4.1.1: a cookie has 4 to 16 bytes, an even number; an option of another length is ignored.
    #[test]
    fn fast_open_options_of_illegal_lengths_are_ignored() {
        for len in 0..=18u8 {
            let mut bytes = [1; 20];
            bytes[0] = 34;
            bytes[1] = 2 + len;
            let legal = len % 2 == 0 && (len == 0 || (4..=16).contains(&len));
            let read = Options::parse(&bytes).unwrap().fast_open;
            let cookie = &bytes[2..][..usize::from(len)];
            assert_eq!(read.is_some(), legal, "{len}");
            assert!(read.is_none_or(|read| read.as_slice() == cookie));
            if let Some(read) = read {
                let options = Options {
                    fast_open: Some(read),
                    ..Options::default()
                };
                let mut out = [0; MAX_HEADER_LEN - HEADER_LEN];
                let written = options.emit(&mut out);
                assert!(written.is_multiple_of(4));
                assert_eq!(Options::parse(&out[..written]), Ok(options));
            }
        }
    }

    /// Other lengths than those of RFC 1146 are nobody's: who does not know the options would not look at them either.
    #[test]
    fn checksum_options_of_other_lengths_are_skipped() {
        let read = |bytes: &[u8]| Options::parse(bytes).unwrap();
        assert_eq!(read(&[14, 3, 3, 1]).alternate_checksum, Some(NO_CHECKSUM));
        assert!(read(&EMPTY_CHECKSUM_DATA).empty_checksum_data);
        for bytes in [
            &[14, 4, 3, 3][..],
            &[14, 2, 1, 1],
            &[15, 3, 9, 1],
            &[15, 4, 0, 0],
        ] {
            assert_eq!(read(bytes), Options::default());
        }
    }

    #[test]
    fn unknown_options_are_skipped_and_the_end_ends() {
        let options = Options::parse(&[253, 4, 9, 9, 1, 2, 4, 5, 180, 0, 77]).unwrap();
        assert_eq!(options.mss, Some(1460));
    }

    #[test]
    fn flags_print_their_names() {
        extern crate std;
        assert_eq!(std::format!("{:?}", Flags::SYN | Flags::ACK), "SYN|ACK");
        assert_eq!(std::format!("{:?}", Flags::default()), "-");
    }
}
