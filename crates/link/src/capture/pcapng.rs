//! Writes pcapng files (IETF draft-ietf-opsawg-pcapng): one section, one interface, enhanced packet blocks.
//!
//! Blocks are little-endian on every machine, so that the same frames give the same file. This module must not know where
//! frames come from, nor look into them.

use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;

const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;

/// Timestamps count nanoseconds: 10^-9 s.
const NANOSECONDS: u8 = 9;

/// First header of the frames of a file, by the number of the tcpdump group's list of link types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum LinkType {
    /// An Ethernet header.
    Ethernet = 1,
    /// The header that Linux writes in place of any interface's own, version 2.
    CookedV2 = 276,
}

/// Direction of a frame, as seen from the interface (the low two bits of `epb_flags`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    /// Received.
    Inbound = 1,
    /// Transmitted.
    Outbound = 2,
}

/// One frame to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970-01-01 UTC.
    pub nanos: u64,
    /// The direction.
    pub direction: Direction,
    /// Its bytes, or the first of them; at most the snap length of them are kept.
    pub bytes: &'a [u8],
    /// Bytes on the wire, at least as many as are given.
    pub wire_len: u32,
    /// A comment that is shown with it; empty for none, cut at 65,535 bytes.
    pub comment: &'a str,
}

/// Begins a file: appends a section and an interface called `name` that keeps `snaplen` bytes (0: all) of its frames, which are
/// of `link`, to `out`.
pub fn begin(out: &mut Vec<u8>, name: &str, link: LinkType, snaplen: u32) {
    block(out, SECTION_HEADER, |out| {
        put32(out, BYTE_ORDER_MAGIC);
        // Version 1.0.
        out.extend_from_slice(&[1, 0, 0, 0]);
        // Nothing is known about the section's length yet.
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        option(
            out,
            SHB_USERAPPL,
            concat!("Tollgate ", env!("CARGO_PKG_VERSION")).as_bytes(),
        );
        option(out, OPT_END, &[]);
    });
    block(out, INTERFACE_DESCRIPTION, |out| {
        put16(out, link as u16);
        put16(out, 0);
        put32(out, snaplen);
        option(out, IF_NAME, name.as_bytes());
        option(out, IF_TSRESOL, &[NANOSECONDS]);
        option(out, OPT_END, &[]);
    });
}

/// Appends one frame, of which at most `snaplen` bytes (0: all) are kept, to `out`.
pub fn packet(out: &mut Vec<u8>, packet: &Packet<'_>, snaplen: u32) {
    let limit = if snaplen == 0 {
        usize::MAX
    } else {
        snaplen as usize
    };
    let kept = &packet.bytes[..packet.bytes.len().min(limit)];
    block(out, ENHANCED_PACKET, |out| {
        // Interface 0; then the time's upper half first.
        put32(out, 0);
        put32(out, (packet.nanos >> 32) as u32);
        put32(out, packet.nanos as u32);
        put32(out, kept.len() as u32);
        put32(out, packet.wire_len);
        out.extend_from_slice(kept);
        pad(out, kept.len());
        option(out, EPB_FLAGS, &(packet.direction as u32).to_le_bytes());
        if !packet.comment.is_empty() {
            option(out, OPT_COMMENT, packet.comment.as_bytes());
        }
        option(out, OPT_END, &[]);
    });
}

/// A block: type, length, body, and the length once more.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put32(out, kind);
    put32(out, 0);
    body(out);
    let length = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    put32(out, length);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    put16(out, code);
    put16(out, value.len() as u16);
    out.extend_from_slice(value);
    pad(out, value.len());
}

/// Fills what follows `len` bytes up to the next multiple of four.
fn pad(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&[0; 3][..len.next_multiple_of(4) - len]);
}

fn put16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// A file that is being written, for those who have frames but no link.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    block: Vec<u8>,
    snaplen: u32,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file for an interface called `name`; see [`begin`].
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn new(mut out: W, name: &str, link: LinkType, snaplen: u32) -> io::Result<Self> {
        let mut block = Vec::with_capacity(2048);
        begin(&mut block, name, link, snaplen);
        out.write_all(&block)?;
        Ok(Self {
            bytes: block.len() as u64,
            out,
            block,
            snaplen,
        })
    }

    /// Bytes of the file so far.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes one frame.
    ///
    /// # Errors
    /// Errors of the output; the file may then end in the middle of a block.
    pub fn write(&mut self, what: &Packet<'_>) -> io::Result<()> {
        self.block.clear();
        packet(&mut self.block, what, self.snaplen);
        self.out.write_all(&self.block)?;
        self.bytes += self.block.len() as u64;
        Ok(())
    }

    /// Flushes the output and gives it back.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
pub(super) mod tests;
