//! The packets of a capture file, pcap or pcapng, one after the other.
//!
//! Owns the formats of files. A damaged place is skipped: the reader looks for the next record or block that fits together,
//! and counts what lies between. Must never trust a length, nor look into a packet.

mod pcap;
mod pcapng;

use std::fmt;
use std::io::{self, Read};

use serde::{Deserialize, Serialize};

use crate::input::{Compression, Content, Input};

/// First header of a packet: a LINKTYPE of the tcpdump group's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LinkType {
    /// BSD loopback: the address family in the capturing host's byte order (0).
    Null,
    /// Ethernet (1).
    Ethernet,
    /// Raw IP, version 4 or 6 (101, and the 12 and 14 of older systems).
    Raw,
    /// OpenBSD loopback: the address family in network byte order (108).
    Loop,
    /// Linux cooked, version 1 (113).
    CookedV1,
    /// Raw IPv4 (228).
    Ipv4,
    /// Raw IPv6 (229).
    Ipv6,
    /// Linux cooked, version 2 (276).
    CookedV2,
    /// Any other.
    Other(u16),
}

impl LinkType {
    /// From its number.
    pub const fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Null,
            1 => Self::Ethernet,
            12 | 14 | 101 => Self::Raw,
            108 => Self::Loop,
            113 => Self::CookedV1,
            228 => Self::Ipv4,
            229 => Self::Ipv6,
            276 => Self::CookedV2,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "loopback (0)",
            Self::Ethernet => "Ethernet (1)",
            Self::Raw => "raw IP (101)",
            Self::Loop => "loopback (108)",
            Self::CookedV1 => "Linux cooked (113)",
            Self::Ipv4 => "raw IPv4 (228)",
            Self::Ipv6 => "raw IPv6 (229)",
            Self::CookedV2 => "Linux cooked v2 (276)",
            Self::Other(number) => return write!(f, "link type {number}"),
        })
    }
}

/// One packet as it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970-01-01 UTC.
    pub time_ns: i64,
    /// First header of it.
    pub link: LinkType,
    /// Bytes on the wire.
    pub wire_len: u32,
    /// The bytes that were captured.
    pub bytes: &'a [u8],
}

/// Damage of a file: the bytes that could not be read, and oddities of the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Damage {
    /// Places where records or blocks did not fit together.
    pub places: u64,
    /// Bytes that were skipped there.
    #[serde(alias = "skipped_octets")]
    pub skipped_bytes: u64,
    /// Bytes of a last record or block that is not whole.
    #[serde(alias = "cut_octets")]
    pub cut_bytes: u64,
    /// Packets of interfaces that the file does not describe; they are left out.
    pub without_interface: u64,
    /// Packets without a time of their own; they have that of the packet before.
    pub without_time: u64,
    /// Packets captured at least [`CLOCK_STEP_NS`] before the one in front of them.
    pub clock_steps: u64,
    /// The reason why the file could not be read to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// Times that go back this far mean that the clock was set; less is the order in which processors hand packets over.
pub const CLOCK_STEP_NS: i64 = 1_000_000_000;

/// A file that is no capture.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It could not be read at all.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is empty.
    #[error("is empty: it holds no byte, and no packet")]
    Empty,
    /// It ends within the header of a capture.
    #[error(
        "is a {format} that ends within its header, after {bytes} bytes; no packet of it is there"
    )]
    HeaderCut {
        /// pcap or pcapng.
        format: &'static str,
        /// All that there is of it.
        bytes: usize,
    },
    /// It begins with none of the marks of a capture.
    #[error(
        "is neither pcap nor pcapng: it begins with {front:02x?}{}",
        match .compression { Compression::Plain => "", Compression::Gzip => " inside gzip", Compression::Zstd => " inside zstd" }
    )]
    Unknown {
        /// Its first bytes.
        front: Vec<u8>,
        /// Compression that they were in.
        compression: Compression,
    },
    /// It is of a version that nobody has described.
    #[error("is a {format} of version {found}; version {known} is what is read")]
    Version {
        /// pcap or pcapng.
        format: &'static str,
        /// Its major version.
        found: u16,
        /// The one that is read.
        known: u16,
    },
    /// It is a pcap of a variant with longer records.
    #[error("is a pcap of the variant {0:08x}, which is not read; editcap -F pcapng converts it")]
    Variant(u32),
}

/// Result of reading a little of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// The next packet.
    Packet(Packet<'a>),
    /// Something else: a block that is no packet, or bytes that fit nothing. There may be more.
    Other,
    /// The end.
    End,
}

/// Next finding of a format's reader.
enum Next {
    /// A packet, whose bytes lie in the window from `at` on.
    Packet {
        time_ns: i64,
        link: LinkType,
        wire_len: u32,
        at: usize,
        len: usize,
        /// Bytes of the record or block.
        whole: usize,
    },
    /// Something else, some of which was consumed: at most what the window held.
    Skipped,
    /// The end, or nothing more that fits together.
    End,
}

enum Format {
    Pcap(pcap::Reader),
    Pcapng(pcapng::Reader),
}

/// The format of a capture whose header is not whole, as its first word tells.
fn cut_header(window: &[u8]) -> Option<&'static str> {
    let word = *window.first_chunk()?;
    if window.len() >= pcap::HEADER_LEN {
        None
    } else if u32::from_le_bytes(word) == pcapng::SECTION {
        Some("pcapng")
    } else {
        pcap::magic(word).map(|_| "pcap")
    }
}

/// A capture that is being read.
pub struct Capture<R: Read> {
    input: Input<R>,
    format: Format,
    damage: Damage,
    /// Bytes of the record or block in which the last packet lies, to be consumed.
    behind: usize,
    last_ns: Option<i64>,
}

impl<R: Read> Capture<R> {
    /// Looks at the first bytes of `source`.
    ///
    /// # Errors
    /// [`Refused`] when that is no capture.
    pub fn new(source: R) -> Result<Self, Refused> {
        let mut input = Input::new(source)?;
        input.have(pcap::HEADER_LEN);
        let window = input.window();
        if window.is_empty() {
            return Err(match input.error() {
                Some(error) => Refused::Read(io::Error::new(error.kind(), error.to_string())),
                None => Refused::Empty,
            });
        }
        let of_version = |format, found, known| {
            if found == known {
                Ok(())
            } else {
                Err(Refused::Version {
                    format,
                    found,
                    known,
                })
            }
        };
        let format = if let Some(format) = cut_header(window) {
            return Err(Refused::HeaderCut {
                format,
                bytes: window.len(),
            });
        } else if pcapng::begins(window) {
            let found = pcapng::version(window).unwrap_or(pcapng::VERSION);
            of_version("pcapng", found, pcapng::VERSION)?;
            Format::Pcapng(pcapng::Reader::default())
        } else if let Some(variant) = pcap::variant(window) {
            return Err(Refused::Variant(variant));
        } else if let Some((reader, found)) = pcap::Reader::new(window) {
            of_version("pcap", found, pcap::VERSION)?;
            input.consume(pcap::HEADER_LEN);
            Format::Pcap(reader)
        } else {
            return Err(Refused::Unknown {
                front: window[..window.len().min(8)].to_vec(),
                compression: input.compression(),
            });
        };
        Ok(Self {
            input,
            format,
            damage: Damage::default(),
            behind: 0,
            last_ns: None,
        })
    }

    /// Reads a little: a packet, or some of what is none.
    #[inline]
    pub fn step(&mut self) -> Step<'_> {
        self.input.consume(self.behind);
        self.behind = 0;
        let last = self.last_ns.unwrap_or(0);
        let next = match &mut self.format {
            Format::Pcap(reader) => reader.next(&mut self.input, &mut self.damage),
            Format::Pcapng(reader) => reader.next(&mut self.input, &mut self.damage, last),
        };
        match next {
            Next::Packet {
                time_ns,
                link,
                wire_len,
                at,
                len,
                whole,
            } => {
                self.behind = whole;
                if time_ns < last.saturating_sub(CLOCK_STEP_NS) && self.last_ns.is_some() {
                    self.damage.clock_steps += 1;
                }
                self.last_ns = Some(time_ns);
                Step::Packet(Packet {
                    time_ns,
                    link,
                    wire_len,
                    bytes: &self.input.window()[at..at + len],
                })
            }
            Next::Skipped => Step::Other,
            Next::End => Step::End,
        }
    }

    /// Damage found so far.
    pub const fn damage(&self) -> &Damage {
        &self.damage
    }

    /// The format, for people.
    pub const fn format(&self) -> &'static str {
        match &self.format {
            Format::Pcap(_) => "pcap",
            Format::Pcapng(_) => "pcapng",
        }
    }

    /// Compression of the file.
    pub const fn compression(&self) -> Compression {
        self.input.compression()
    }

    /// Reads on for the hash, a little of what follows the last packet; false at the source's end.
    ///
    /// # Errors
    /// Errors of the source, but for bytes that cannot be decompressed.
    pub fn drain(&mut self) -> io::Result<bool> {
        self.input.drain()
    }

    /// Reads the source to its end, for its hash, and says what it holds and what of it could not be read.
    ///
    /// # Errors
    /// Those of [`Self::drain`].
    pub fn finish(mut self) -> io::Result<(Content, Damage)> {
        while self.drain()? {}
        let mut damage = self.damage;
        damage.unreadable = self.input.error().map(ToString::to_string);
        Ok((self.input.content(), damage))
    }
}

#[cfg(test)]
mod tests;
