//! A wrapper around any link that writes every frame, in both directions, to a pcapng file.
//!
//! A frame is written when it has crossed the link: one that the inner link had no room for is written when it has.
//! Writing must never disturb the traffic. After the first write error the rest of the frames are only counted, and
//! [`Capture::finish`] reports it.

pub mod pcapng;

use pcapng::{Direction, LinkType, Packet};
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::time::Duration;
use tollgate_stack::buffer::{Frame, Pool};
use tollgate_stack::config::Segmentation;
use tollgate_stack::link::{Integrity, Link};
use tollgate_stack::time::Instant;

/// Configuration of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Config {
    /// Name of the interface in the file.
    pub name: String,
    /// Bytes kept of each frame; 0 keeps all.
    pub snaplen: u32,
    /// Time of [`Instant::ZERO`], since 1970-01-01 UTC.
    pub epoch: Duration,
}

/// Counts of the frames written so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Frames received that were written.
    pub inbound: u64,
    /// Frames transmitted that were written.
    pub outbound: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Frames that were not written since the file could not be.
    pub lost: u64,
}

/// The file could not be written to its end.
#[derive(Debug, thiserror::Error)]
#[error("the capture ends after {written} frames and lacks {lost}: {source}", written = .stats.inbound + .stats.outbound, lost = .stats.lost)]
pub struct CaptureError {
    /// Counts of the frames written before.
    pub stats: Stats,
    /// The first error.
    pub source: io::Error,
}

/// A link whose frames are written to a file.
///
/// Dropping it writes what is still buffered; [`finish`](Self::finish) does so too and says whether that went well.
pub struct Capture<L, W: Write> {
    inner: L,
    file: File<W>,
    clock: Option<Box<dyn FnMut() -> Instant>>,
}

impl<L: Link, W: Write> Capture<L, W> {
    /// Writes what crosses `inner` to `out`, which need not be buffered. Time stands still until
    /// [`set_now`](Self::set_now) moves it.
    pub fn new(inner: L, out: W, config: &Config) -> Self {
        Self {
            inner,
            file: File::new(out, config),
            clock: None,
        }
    }

    /// Like [`new`](Self::new), with a clock that is read once for every burst.
    pub fn with_clock(
        inner: L,
        out: W,
        config: &Config,
        clock: impl FnMut() -> Instant + 'static,
    ) -> Self {
        Self {
            clock: Some(Box::new(clock)),
            ..Self::new(inner, out, config)
        }
    }

    /// The time that the frames from now on are stamped with; a clock overrules it.
    pub const fn set_now(&mut self, now: Instant) {
        self.file.now = now;
    }

    /// Attaches `comment` to the next frame that is written.
    pub fn comment(&mut self, comment: &str) {
        comment.clone_into(&mut self.file.comment);
    }

    /// Counts of the frames written so far; some of them may still be buffered.
    pub const fn stats(&self) -> &Stats {
        &self.file.stats
    }

    /// The link inside.
    pub const fn inner(&self) -> &L {
        &self.inner
    }

    /// The link inside, to be changed.
    pub const fn inner_mut(&mut self) -> &mut L {
        &mut self.inner
    }

    /// Writes what is buffered and ends the file.
    ///
    /// # Errors
    /// [`CaptureError`] with the first error when some frame could not be written.
    pub fn finish(mut self) -> Result<Stats, CaptureError> {
        if self.file.error.is_none() {
            self.file.error = self.file.out.flush().err();
        }
        let stats = self.file.stats;
        match self.file.error.take() {
            None => Ok(stats),
            Some(source) => Err(CaptureError { stats, source }),
        }
    }

    fn read_clock(&mut self) {
        if let Some(clock) = &mut self.clock {
            self.file.now = clock();
        }
    }
}

impl<L: Link, W: Write> Link for Capture<L, W> {
    fn mtu(&self) -> usize {
        self.inner.mtu()
    }

    fn integrity(&self) -> Integrity {
        self.inner.integrity()
    }

    fn set_segmentation(&mut self, segmentation: Segmentation) {
        self.inner.set_segmentation(segmentation);
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        if frames.is_empty() {
            return self.inner.transmit(pool, frames);
        }
        self.read_clock();
        // The frames are gone when it is known how many the link took: write them down first, keep those that went.
        self.file.stage(pool, frames, Direction::Outbound);
        let offered = frames.len();
        self.inner.transmit(pool, frames);
        self.file.stats.outbound += self.file.commit(offered.saturating_sub(frames.len()));
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        let before = frames.len();
        self.inner.receive(pool, frames);
        if frames.len() > before {
            self.read_clock();
            self.file.stage(pool, &frames[before..], Direction::Inbound);
            self.file.stats.inbound += self.file.commit(frames.len() - before);
        }
    }
}

impl<L: fmt::Debug, W: Write> fmt::Debug for Capture<L, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("inner", &self.inner)
            .field("stats", &self.file.stats)
            .finish_non_exhaustive()
    }
}

/// The file, and the blocks that are about to be written to it.
struct File<W: Write> {
    out: BufWriter<W>,
    snaplen: u32,
    epoch: u64,
    now: Instant,
    comment: String,
    blocks: Vec<u8>,
    /// The end of each block in `blocks`.
    ends: Vec<usize>,
    stats: Stats,
    error: Option<io::Error>,
}

impl<W: Write> File<W> {
    fn new(out: W, config: &Config) -> Self {
        let mut file = Self {
            out: BufWriter::with_capacity(1 << 16, out),
            snaplen: config.snaplen,
            epoch: u64::try_from(config.epoch.as_nanos()).unwrap_or(u64::MAX),
            now: Instant::ZERO,
            comment: String::new(),
            blocks: Vec::new(),
            ends: Vec::new(),
            stats: Stats::default(),
            error: None,
        };
        pcapng::begin(
            &mut file.blocks,
            &config.name,
            LinkType::Ethernet,
            config.snaplen,
        );
        file.ends.push(file.blocks.len());
        file.commit(1);
        file
    }

    /// Makes the blocks of `frames`.
    fn stage(&mut self, pool: &Pool, frames: &[Frame], direction: Direction) {
        self.blocks.clear();
        self.ends.clear();
        if self.error.is_some() {
            return;
        }
        let nanos = self.epoch.saturating_add(self.now.as_nanos());
        for (index, frame) in frames.iter().enumerate() {
            let comment = if index == 0 { &*self.comment } else { "" };
            let bytes = pool.frame(frame);
            let packet = Packet {
                nanos,
                direction,
                bytes,
                wire_len: bytes.len() as u32,
                comment,
            };
            pcapng::packet(&mut self.blocks, &packet, self.snaplen);
            self.ends.push(self.blocks.len());
        }
    }

    /// Writes the first `count` blocks and says how many frames that were; 0 when they could not be written.
    fn commit(&mut self, count: usize) -> u64 {
        if count == 0 {
            return 0;
        }
        if self.error.is_none() {
            let end = self
                .ends
                .get(count - 1)
                .copied()
                .unwrap_or(self.blocks.len());
            match self.out.write_all(&self.blocks[..end]) {
                Ok(()) => {
                    self.comment.clear();
                    self.stats.bytes += end as u64;
                    return count as u64;
                }
                Err(error) => self.error = Some(error),
            }
        }
        self.stats.lost += count as u64;
        0
    }
}

#[cfg(test)]
mod tests;
