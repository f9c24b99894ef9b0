//! A ring of capture files: live packets go into one file after the other, and the oldest go when there are too many.
//!
//! Owns the files until [`Ring::finish`] hands them over. Must never write into a file that is there already. What a killed
//! capture leaves are files that import reads, the last one perhaps with a cut end.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_link::capture::pcapng::{Direction, LinkType, Packet, Writer};
use tollgate_wire::cooked::{V2, V2_LEN};

/// When a file ends, and how many are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes after which the next file begins; none is never.
    pub bytes: Option<u64>,
    /// Time after which it does, by the packets' own.
    pub time: Option<Duration>,
    /// Files that are kept; none is all.
    pub files: Option<NonZeroUsize>,
}

/// A file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the capture cannot be written to {}: {source}", path.display())]
pub struct RingError {
    /// The file.
    pub path: PathBuf,
    /// Error of the system.
    pub source: io::Error,
}

/// A packet from the network header on, and what is known of its link.
#[derive(Clone, Copy, Debug)]
pub struct LivePacket<'a> {
    /// When; nanoseconds since 1970-01-01 UTC.
    pub nanos: u64,
    /// Captured bytes of it.
    pub bytes: &'a [u8],
    /// Length on the wire.
    pub wire_len: u32,
    /// Tells whether this host sent it.
    pub outgoing: bool,
    /// Header in place of its link header.
    pub link: V2<'a>,
}

struct Open {
    path: PathBuf,
    writer: Writer<BufWriter<File>>,
    began: u64,
}

/// The ring.
pub struct Ring {
    directory: PathBuf,
    stem: String,
    interface: String,
    snaplen: u32,
    rotation: Rotation,
    open: Option<Open>,
    /// Those that are complete, the oldest first.
    complete: VecDeque<PathBuf>,
    begun: u64,
    removed: u64,
    frame: Vec<u8>,
}

/// Files that a ring left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The files, the oldest first.
    pub files: Vec<PathBuf>,
    /// Number of older ones that were removed.
    pub removed: u64,
}

impl Ring {
    /// A ring of files STEM-00001.pcapng and so on in `directory`, of packets of the interface called `interface`, of which
    /// `snaplen` bytes from the network header on are kept. The first packet begins the first file.
    pub fn new(
        directory: &Path,
        stem: &str,
        interface: &str,
        snaplen: u32,
        rotation: Rotation,
    ) -> Self {
        Self {
            directory: directory.to_owned(),
            stem: stem.to_owned(),
            interface: interface.to_owned(),
            snaplen: snaplen.saturating_add(V2_LEN as u32),
            rotation,
            open: None,
            complete: VecDeque::new(),
            begun: 0,
            removed: 0,
            frame: Vec::new(),
        }
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// [`RingError`], after which the ring is of no use.
    pub fn write(&mut self, packet: &LivePacket<'_>) -> Result<(), RingError> {
        if self
            .open
            .as_ref()
            .is_some_and(|open| self.is_over(open, packet.nanos))
        {
            self.close()?;
        }
        if self.open.is_none() {
            self.open = Some(self.begin(packet.nanos)?);
        }
        self.frame.clear();
        self.frame.extend_from_slice(&packet.link.emit());
        self.frame.extend_from_slice(packet.bytes);
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let packet = Packet {
            nanos: packet.nanos,
            direction: if packet.outgoing {
                Direction::Outbound
            } else {
                Direction::Inbound
            },
            bytes: &self.frame,
            wire_len: packet.wire_len.saturating_add(V2_LEN as u32),
            comment: "",
        };
        let outcome = open.writer.write(&packet);
        outcome.map_err(at(&open.path))
    }

    /// Ends the last file and hands all over.
    ///
    /// # Errors
    /// [`RingError`] when the last file could not be written to its end; those before are there.
    pub fn finish(mut self) -> Result<Left, RingError> {
        self.close()?;
        Ok(Left {
            files: self.complete.into(),
            removed: self.removed,
        })
    }

    fn is_over(&self, open: &Open, nanos: u64) -> bool {
        let Rotation { bytes, time, .. } = self.rotation;
        let lasted = Duration::from_nanos(nanos.saturating_sub(open.began));
        bytes.is_some_and(|most| open.writer.bytes() >= most)
            || time.is_some_and(|most| lasted >= most)
    }

    fn begin(&mut self, began: u64) -> Result<Open, RingError> {
        self.begun += 1;
        let name = format!("{}-{:05}.pcapng", self.stem, self.begun);
        let path = self.directory.join(name);
        let file = File::create_new(&path).map_err(at(&path))?;
        let file = BufWriter::with_capacity(1 << 17, file);
        let (link, name) = (LinkType::CookedV2, &self.interface);
        let writer = Writer::new(file, name, link, self.snaplen).map_err(at(&path))?;
        Ok(Open {
            path,
            writer,
            began,
        })
    }

    fn close(&mut self) -> Result<(), RingError> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        open.writer.finish().map_err(at(&open.path))?;
        self.complete.push_back(open.path);
        // The file that comes next is one of them.
        let most = self.rotation.files.map_or(usize::MAX, NonZeroUsize::get);
        while self.complete.len() > most {
            if let Some(oldest) = self.complete.pop_front() {
                fs::remove_file(&oldest).map_err(at(&oldest))?;
                self.removed += 1;
            }
        }
        Ok(())
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> RingError {
    let path = path.to_owned();
    move |source| RingError { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Capture;
    use crate::craft;
    use crate::rows::InMemory;
    use crate::{Importer, Settings};
    use tollgate_wire::ipv4::protocol::UDP;

    /// UDP datagrams of `size` bytes, a millisecond apart, of which 100 bytes are kept.
    fn write(ring: &mut Ring, count: u64, size: usize) {
        let datagram = craft::ipv4(true, UDP, &craft::udp((5_000, 53), size));
        for at in 0..count {
            let packet = LivePacket {
                nanos: 1_700_000_000_000_000_000 + at * 1_000_000,
                bytes: &datagram[..datagram.len().min(100)],
                wire_len: datagram.len() as u32,
                outgoing: at % 2 == 0,
                link: V2 {
                    protocol: 0x0800,
                    interface: 1,
                    hardware: 1,
                    kind: 0,
                    sender: &[1, 2, 3, 4, 5, 6],
                },
            };
            ring.write(&packet).unwrap();
        }
    }

    fn ring(directory: &Path, rotation: Rotation) -> Ring {
        Ring::new(directory, "one", "eth0", 100, rotation)
    }

    fn messages(file: &Path) -> Vec<u32> {
        let mut capture = Capture::new(File::open(file).unwrap()).unwrap();
        let mut importer = Importer::new(Settings::default());
        let mut rows = InMemory::default();
        while importer.read(&mut capture, 100, &mut rows) == Ok(true) {}
        let Ok(counts) = importer.finish(&mut rows);
        assert_eq!(counts.cut_packets, counts.packets);
        rows.messages.iter().map(|(row, _)| row.size).collect()
    }

    #[test]
    fn what_is_written_is_imported_with_the_sizes_that_it_had() {
        let directory = tempfile::tempdir().unwrap();
        let mut ring = ring(directory.path(), Rotation::default());
        write(&mut ring, 5, 900);
        let left = ring.finish().unwrap();
        assert_eq!((left.files.len(), left.removed), (1, 0));
        assert_eq!(messages(&left.files[0]), [900; 5]);
    }

    #[test]
    fn files_turn_by_size_and_the_oldest_go() {
        let directory = tempfile::tempdir().unwrap();
        let rotation = Rotation {
            bytes: Some(1_000),
            files: NonZeroUsize::new(3),
            ..Rotation::default()
        };
        let mut ring = ring(directory.path(), rotation);
        write(&mut ring, 100, 900);
        let left = ring.finish().unwrap();
        assert_eq!(left.files.len(), 3);
        assert!(left.removed > 5);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
        let sizes = left
            .files
            .iter()
            .map(|file| fs::metadata(file).unwrap().len());
        // A packet more than was asked for, at most.
        assert!(sizes.max() < Some(1_000 + 200));
        assert!(left.files.is_sorted());
    }

    #[test]
    fn files_turn_by_time() {
        let directory = tempfile::tempdir().unwrap();
        let rotation = Rotation {
            time: Some(Duration::from_millis(10)),
            ..Rotation::default()
        };
        let mut ring = ring(directory.path(), rotation);
        write(&mut ring, 25, 900);
        let left = ring.finish().unwrap();
        let counts: Vec<usize> = left.files.iter().map(|file| messages(file).len()).collect();
        assert_eq!(counts, [10, 10, 5]);
    }

    #[test]
    fn without_packets_there_are_no_files_and_foreign_ones_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let none = ring(directory.path(), Rotation::default());
        assert_eq!(none.finish().unwrap(), Left::default());
        fs::write(directory.path().join("one-00001.pcapng"), "dear").unwrap();
        let mut taken = ring(directory.path(), Rotation::default());
        let error = taken.begin(0).err().unwrap();
        assert!(error.to_string().contains("one-00001.pcapng"));
        assert_eq!(
            fs::read(directory.path().join("one-00001.pcapng")).unwrap(),
            b"dear"
        );
    }
}
