//! A small reader of its own, for either byte order, against which the writer is held.

use super::*;
use proptest::prelude::*;

/// One frame as it was read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::capture) struct Read {
    pub(in crate::capture) nanos: u64,
    pub(in crate::capture) flags: u32,
    pub(in crate::capture) bytes: Vec<u8>,
    pub(in crate::capture) original: usize,
    pub(in crate::capture) comment: String,
}

/// The file's interface name, snap length and frames.
pub(in crate::capture) type File = (String, u32, Vec<Read>);

struct Cursor<'a> {
    left: &'a [u8],
    big: bool,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, left) = self
            .left
            .split_at_checked(count)
            .ok_or("the file ends early")?;
        self.left = left;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, String> {
        let bytes = self.take(2)?.try_into().unwrap();
        Ok(if self.big {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        })
    }

    fn u32(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?.try_into().unwrap();
        Ok(if self.big {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        })
    }

    /// `count` bytes and the zeros behind them up to a multiple of four.
    fn padded(&mut self, count: usize) -> Result<&'a [u8], String> {
        let bytes = self.take(count)?;
        let padding = self.take(count.next_multiple_of(4) - count)?;
        if padding.iter().any(|&byte| byte != 0) {
            return Err("padding is not zero".into());
        }
        Ok(bytes)
    }

    fn options(&mut self) -> Result<Vec<(u16, Vec<u8>)>, String> {
        let mut options = Vec::new();
        loop {
            let (code, len) = (self.u16()?, self.u16()?);
            let value = self.padded(len.into())?.to_vec();
            if code == OPT_END {
                return if len == 0 && self.left.is_empty() {
                    Ok(options)
                } else {
                    Err("bytes behind the options".into())
                };
            }
            options.push((code, value));
        }
    }
}

fn value(options: &[(u16, Vec<u8>)], code: u16) -> Option<&[u8]> {
    options
        .iter()
        .find(|option| option.0 == code)
        .map(|option| &*option.1)
}

fn text(options: &[(u16, Vec<u8>)], code: u16) -> String {
    String::from_utf8(value(options, code).unwrap_or_default().to_vec()).unwrap()
}

pub(in crate::capture) fn read(file: &[u8]) -> Result<File, String> {
    let big = file.get(8..12) == Some(&BYTE_ORDER_MAGIC.to_be_bytes()[..]);
    let mut all = Cursor { left: file, big };
    let mut interface = None;
    let mut frames = Vec::new();
    let mut first = true;
    while !all.left.is_empty() {
        let (kind, length) = (all.u32()?, all.u32()? as usize);
        if !length.is_multiple_of(4) || length < 12 {
            return Err(format!("a block of {length} bytes"));
        }
        let mut body = Cursor {
            left: all.take(length - 12)?,
            big,
        };
        if all.u32()? as usize != length {
            return Err("the two lengths differ".into());
        }
        if first != (kind == SECTION_HEADER) {
            return Err("one section, at the beginning".into());
        }
        first = false;
        match kind {
            SECTION_HEADER => {
                assert_eq!(body.u32()?, BYTE_ORDER_MAGIC);
                assert_eq!((body.u16()?, body.u16()?), (1, 0));
                assert_eq!(body.take(8)?, [0xFF; 8]);
                assert!(text(&body.options()?, SHB_USERAPPL).starts_with("Tollgate "));
            }
            INTERFACE_DESCRIPTION => {
                assert_eq!((body.u16()?, body.u16()?), (LinkType::Ethernet as u16, 0));
                let snaplen = body.u32()?;
                let options = body.options()?;
                assert_eq!(value(&options, IF_TSRESOL), Some(&[9][..]));
                interface = Some((text(&options, IF_NAME), snaplen));
            }
            ENHANCED_PACKET => {
                assert_eq!(body.u32()?, 0);
                let nanos = u64::from(body.u32()?) << 32 | u64::from(body.u32()?);
                let (kept, original) = (body.u32()? as usize, body.u32()? as usize);
                let bytes = body.padded(kept)?.to_vec();
                let options = body.options()?;
                let mut flags = Cursor {
                    left: value(&options, EPB_FLAGS).ok_or("no flags")?,
                    big,
                };
                frames.push(Read {
                    nanos,
                    flags: flags.u32()?,
                    bytes,
                    original,
                    comment: text(&options, OPT_COMMENT),
                });
            }
            other => return Err(format!("block type {other}")),
        }
    }
    let (name, snaplen) = interface.ok_or("no interface")?;
    Ok((name, snaplen, frames))
}

#[test]
fn the_first_bytes_are_those_of_the_specification() {
    let mut out = Vec::new();
    begin(&mut out, "x", LinkType::Ethernet, 0);
    assert_eq!(out[..4], [0x0A, 0x0D, 0x0D, 0x0A]);
    assert_eq!(out[8..12], [0x4D, 0x3C, 0x2B, 0x1A]);
    assert_eq!(out[12..16], [1, 0, 0, 0]);
}

#[test]
fn a_long_comment_is_cut() {
    let mut out = Vec::new();
    begin(&mut out, "x", LinkType::Ethernet, 0);
    let comment = "y".repeat(70_000);
    packet(
        &mut out,
        &Packet {
            nanos: 0,
            direction: Direction::Inbound,
            bytes: &[1],
            wire_len: 1,
            comment: &comment,
        },
        0,
    );
    assert_eq!(read(&out).unwrap().2[0].comment.len(), 65_535);
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        name in "[a-z0-9 ]{0,20}",
        snaplen in prop_oneof![Just(0u32), 1u32..300],
        frames in proptest::collection::vec(
            (any::<u64>(), any::<bool>(), proptest::collection::vec(any::<u8>(), 0..200), "\\PC{0,12}"),
            0..20,
        ),
    ) {
        let mut writer = Writer::new(Vec::new(), &name, LinkType::Ethernet, snaplen).unwrap();
        let mut expected = Vec::new();
        for (nanos, inbound, bytes, comment) in &frames {
            let direction = if *inbound { Direction::Inbound } else { Direction::Outbound };
            let wire_len = bytes.len() as u32;
            writer.write(&Packet { nanos: *nanos, direction, bytes, wire_len, comment }).unwrap();
            let kept = if snaplen == 0 { bytes.len() } else { bytes.len().min(snaplen as usize) };
            expected.push(Read {
                nanos: *nanos,
                flags: if *inbound { 1 } else { 2 },
                bytes: bytes[..kept].to_vec(),
                original: bytes.len(),
                comment: comment.clone(),
            });
        }
        prop_assert_eq!(read(&writer.finish().unwrap()), Ok((name, snaplen, expected)));
    }
}
