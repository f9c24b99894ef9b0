//! Bytes from a file or from standard input: decompressed where they are compressed, and hashed as they come out of that.
//!
//! Owns the one buffer that packets are looked at in. Must never hold more of the input than twice the longest block.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use flate2::read::MultiGzDecoder;

/// Bytes that are read at once, and that the buffer has room for unless a block is longer than half of that.
const BUFFER: usize = 1 << 20;
/// The longest block that is looked at whole. The longest packet that is known to occur (a "big TCP" segment on a loopback
/// interface) is a thirtieth of it.
pub const LONGEST: usize = 16 << 20;

/// Compression of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Compression {
    /// By the first bytes.
    fn of(front: &[u8]) -> Self {
        match front {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::Plain,
        }
    }

    /// The name as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// Identity of a capture's content, independent of its name and its compression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// BLAKE3 of all bytes, decompressed, in hexadecimal.
    pub hash: String,
    /// Number of bytes.
    pub bytes: u64,
    /// Number of bytes as they were read.
    pub packed_bytes: u64,
}

impl Content {
    /// The content of all that `source` gives; nothing when `goes_on`, which is asked now and then, wanted no more.
    ///
    /// # Errors
    /// Errors of `source`.
    pub fn of(source: impl Read, goes_on: &mut dyn FnMut() -> bool) -> io::Result<Option<Self>> {
        let mut input = Input::new(source)?;
        while input.drain()? {
            if !goes_on() {
                return Ok(None);
            }
        }
        Ok(Some(input.content()))
    }
}

/// The source itself, whose bytes are counted as they are read.
struct Raw<R> {
    source: R,
    bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for Raw<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.source.read(into) {
                Ok(n) => {
                    self.bytes.update(|bytes| bytes + n as u64);
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

enum Decoder<R: Read> {
    Plain(Front<R>),
    Gzip(Box<MultiGzDecoder<io::BufReader<Front<R>>>>),
    Zstd(zstd::stream::read::Decoder<'static, io::BufReader<Front<R>>>),
}

/// The bytes by which the compression was told, then the rest.
type Front<R> = io::Chain<io::Cursor<Vec<u8>>, Raw<R>>;

impl<R: Read> Read for Decoder<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(source) => source.read(into),
            Self::Gzip(source) => source.read(into),
            Self::Zstd(source) => source.read(into),
        }
    }
}

/// A source of bytes, with a window on what comes next.
pub struct Input<R: Read> {
    decoder: Decoder<R>,
    compression: Compression,
    hasher: blake3::Hasher,
    packed_bytes: Rc<Cell<u64>>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes in front of the window.
    offset: u64,
    ended: bool,
    error: Option<io::Error>,
}

impl<R: Read> Input<R> {
    /// Looks at the first bytes of `source`.
    ///
    /// # Errors
    /// Errors of `source` at its first bytes.
    pub fn new(source: R) -> io::Result<Self> {
        let packed_bytes = Rc::new(Cell::new(0));
        let mut raw = Raw {
            source,
            bytes: Rc::clone(&packed_bytes),
        };
        let mut front = vec![0; 4];
        let mut had = 0;
        while had < front.len() {
            match raw.read(&mut front[had..])? {
                0 => break,
                n => had += n,
            }
        }
        front.truncate(had);
        let compression = Compression::of(&front);
        let source = io::Cursor::new(front).chain(raw);
        let decoder = match compression {
            Compression::Plain => Decoder::Plain(source),
            Compression::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(
                io::BufReader::with_capacity(BUFFER / 4, source),
            ))),
            Compression::Zstd => Decoder::Zstd(zstd::stream::read::Decoder::with_buffer(
                io::BufReader::with_capacity(BUFFER / 4, source),
            )?),
        };
        Ok(Self {
            decoder,
            compression,
            hasher: blake3::Hasher::new(),
            packed_bytes,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            offset: 0,
            ended: false,
            error: None,
        })
    }

    /// Compression of the source.
    pub const fn compression(&self) -> Compression {
        self.compression
    }

    /// The bytes at hand, as many as were asked for last or more.
    #[inline]
    pub fn window(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Bytes in front of the window.
    #[inline]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The reason why the source ended before its end, if it did: it could not be read, or not be decompressed.
    pub const fn error(&self) -> Option<&io::Error> {
        self.error.as_ref()
    }

    /// Sees to it that `n` bytes (at most [`LONGEST`] and a little) are at hand; false when the source ends before.
    #[inline]
    pub fn have(&mut self, n: usize) -> bool {
        self.end - self.start >= n || self.fill(n)
    }

    /// Moves the window on by `n` bytes (at most those at hand).
    #[inline]
    pub fn consume(&mut self, n: usize) {
        let n = n.min(self.end - self.start);
        self.start += n;
        self.offset += n as u64;
    }

    #[cold]
    fn fill(&mut self, n: usize) -> bool {
        if self.start + n > self.buffer.len() && !self.ended {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            // With room for as much again, however often the window moves on by little, a byte is moved twice at most.
            if self.buffer.len() < 2 * n {
                self.buffer.resize(2 * n, 0);
            }
        }
        while self.end - self.start < n && !self.ended {
            match self.decoder.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(more) => {
                    self.hasher.update(&self.buffer[self.end..self.end + more]);
                    self.end += more;
                }
                Err(error) => {
                    self.ended = true;
                    self.error = Some(error);
                }
            }
        }
        self.end - self.start >= n
    }

    /// Reads on for the hash, and drops what it reads with the window; false at the source's end.
    ///
    /// # Errors
    /// Errors of the source. Bytes that cannot be decompressed are an end, and [`Self::error`] says so.
    pub fn drain(&mut self) -> io::Result<bool> {
        self.consume(usize::MAX);
        if self.have(1) {
            return Ok(true);
        }
        match (&self.error, self.compression) {
            (Some(error), Compression::Plain) => {
                Err(io::Error::new(error.kind(), error.to_string()))
            }
            _ => Ok(false),
        }
    }

    /// Content of the source so far.
    pub fn content(&self) -> Content {
        Content {
            hash: self.hasher.finalize().to_hex().to_string(),
            bytes: self.offset + (self.end - self.start) as u64,
            packed_bytes: self.packed_bytes.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn bytes(n: usize) -> Vec<u8> {
        (0..n).map(|at| (at * 7 % 251) as u8).collect()
    }

    fn read_all(source: &[u8]) -> (Vec<u8>, Option<String>) {
        let mut input = Input::new(source).unwrap();
        let mut out = Vec::new();
        while input.have(1) {
            let n = input.window().len().min(1000);
            out.extend_from_slice(&input.window()[..n]);
            input.consume(n);
        }
        let error = input.error().map(ToString::to_string);
        (out, error)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn what_is_compressed_reads_as_what_is_not() {
        let plain = bytes(3 << 20);
        assert_eq!(read_all(&plain), (plain.clone(), None));
        assert_eq!(read_all(&gzip(&plain)), (plain.clone(), None));
        let members = [gzip(&plain[..1000]), gzip(&plain[1000..])].concat();
        assert_eq!(read_all(&members), (plain.clone(), None));
        let zstd = zstd::stream::encode_all(&plain[..], 1).unwrap();
        assert_eq!(read_all(&zstd), (plain, None));
    }

    #[test]
    fn what_can_be_read_of_damaged_bytes_is_read_and_the_rest_is_told() {
        let plain = bytes(3 << 20);
        let mut cut = gzip(&plain);
        cut.truncate(cut.len() / 2);
        let (out, error) = read_all(&cut);
        assert!(!out.is_empty() && plain.starts_with(&out));
        assert!(error.is_some());
    }

    #[test]
    fn the_content_is_that_of_the_bytes_however_they_are_packed_and_looked_at() {
        let plain = bytes(3_000_000);
        let source = gzip(&plain);
        let content = |source: &[u8]| Content::of(source, &mut || true).unwrap().unwrap();
        let whole = content(&source);
        assert_eq!(
            (whole.bytes, whole.packed_bytes),
            (3_000_000, source.len() as u64)
        );
        assert_eq!(whole.hash, blake3::hash(&plain).to_hex().to_string());
        let zstd = zstd::stream::encode_all(&plain[..], 1).unwrap();
        for packed in [&plain, &zstd] {
            assert_eq!(content(packed).hash, whole.hash);
            assert_eq!(content(packed).packed_bytes, packed.len() as u64);
        }
        let mut input = Input::new(&source[..]).unwrap();
        assert!(input.have(10));
        while input.drain().unwrap() {}
        assert_eq!(input.content(), whole);
        assert_ne!(content(&plain[1..]).hash, whole.hash);
        assert_eq!(Content::of(&source[..], &mut || false).unwrap(), None);
    }

    #[test]
    fn a_block_longer_than_the_buffer_is_had_whole() {
        let plain = bytes(5 << 20);
        let mut input = Input::new(&plain[..]).unwrap();
        assert!(input.have(1));
        input.consume(3);
        assert!(input.have(4 << 20));
        assert_eq!(input.window()[..4 << 20], plain[3..3 + (4 << 20)]);
        assert!(!input.have(5 << 20));
        assert_eq!(input.window(), &plain[3..]);
        assert_eq!(input.offset(), 3);
    }
}
