//! A trace in a folder or in a bucket.
//!
//! ```text
//! TRACE/trace.json                  marks it
//! TRACE/NAME/source.json            a capture that was imported: what it is, what it held, what of it could not be read
//! TRACE/NAME/packets.parquet        its tables
//! TRACE/NAME/messages.parquet
//! TRACE/NAME/flows.parquet
//! ```
//!
//! A capture is known by the hash of its bytes and in a trace once, whatever it is called and was packed with. It is in the trace when
//! its `source.json` is there, which comes last or together with all else: whoever reads sees it whole or not at all. How it gets
//! there is in [`writable`].

mod writable;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_trace::Counts;
use tollgate_trace::capture::Damage;

use crate::Error;
use crate::location::{Location, OpenLocation};
use crate::schema::{OLDEST, Table, VERSION};

pub(crate) use writable::TableFiles;
pub use writable::Writable;

const MARK: &str = "trace.json";
const SOURCE: &str = "source.json";

/// Content of the file that marks a trace.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    schema: String,
    version: u32,
}

/// A capture that was imported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// `tollgate-trace-source`.
    pub schema: String,
    /// [`VERSION`].
    pub version: u32,
    /// The capture's name, `-` for standard input.
    pub name: String,
    /// BLAKE3 of its bytes, decompressed.
    pub hash: String,
    /// The count of these bytes.
    #[serde(alias = "octets")]
    pub bytes: u64,
    /// The count of bytes before decompression.
    #[serde(alias = "packed_octets")]
    pub packed_bytes: u64,
    /// pcap or pcapng.
    pub format: String,
    /// plain, gzip or zstd.
    pub compression: String,
    /// Tells whether the addresses were replaced.
    pub anonymised: bool,
    /// The silence that ends a write, in nanoseconds.
    pub pause_ns: i64,
    /// Its flows are numbered from this times 2^32 on.
    pub ordinal: u32,
    /// The counts of packets, messages and flows in it.
    pub counts: Counts,
    /// The counts of packets and bytes that could not be read.
    pub damage: Damage,
    /// The sizes of its tables.
    pub stored: Stored,
}

/// Bytes of the tables of one capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Of `packets.parquet`.
    pub packets: u64,
    /// Of `messages.parquet`.
    pub messages: u64,
    /// Of `flows.parquet`.
    pub flows: u64,
}

/// Part of a capture that could not be read, where it is too large to ignore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of it.
    All,
    /// More than a tenth of its bytes.
    Much,
    /// Its end.
    End,
}

impl Source {
    /// Bytes that fit no packet.
    pub const fn lost_bytes(&self) -> u64 {
        self.damage.skipped_bytes + self.damage.cut_bytes
    }

    /// Tells whether too much of it could not be read.
    pub fn loss(&self) -> Option<Loss> {
        let Self { counts, damage, .. } = self;
        let lost = self.lost_bytes();
        let is_cut = damage.cut_bytes > 0 || damage.unreadable.is_some();
        let unread = counts.malformed + counts.headers_cut + counts.unread_links();
        if counts.packets == 0 && (lost > 0 || is_cut || damage.without_interface > 0)
            || counts.packets > 0 && unread == counts.packets
        {
            Some(Loss::All)
        } else if lost > self.bytes / 10 {
            Some(Loss::Much)
        } else {
            is_cut.then_some(Loss::End)
        }
    }
}

/// A trace.
#[derive(Debug)]
pub struct Trace {
    opened: Arc<OpenLocation>,
    sources: Vec<Source>,
    /// By the hash of a capture, the directory of its tables.
    tables: BTreeMap<String, String>,
    /// The directories whose captures are known.
    read: BTreeSet<String>,
}

impl Trace {
    /// Opens the trace at `location`.
    ///
    /// # Errors
    /// [`Error::NoTrace`], or something of it that cannot be read.
    pub fn open(location: &Location) -> Result<Self, Error> {
        let missing = || Error::NoTrace(location.to_string());
        if matches!(location, Location::Folder(folder) if !folder.is_dir()) {
            return Err(missing());
        }
        let opened = location.open()?;
        if !is_marked(&opened)? {
            return Err(opened.without(missing()));
        }
        Self::of(opened)
    }

    fn of(opened: OpenLocation) -> Result<Self, Error> {
        let mut trace = Self {
            opened: Arc::new(opened),
            sources: Vec::new(),
            tables: BTreeMap::new(),
            read: BTreeSet::new(),
        };
        trace.refresh()?;
        Ok(trace)
    }

    /// Reads what has come since it was read last.
    fn refresh(&mut self) -> Result<(), Error> {
        let mut directories = self.opened.directories()?;
        directories.retain(|directory| !self.read.contains(directory));
        let name = |directory: &String| format!("{directory}/{SOURCE}");
        let names: Vec<String> = directories.iter().map(name).collect();
        let texts = self.opened.read_each(&names)?;
        let mut found = Vec::new();
        for ((directory, name), text) in directories.into_iter().zip(names).zip(texts) {
            // Where there is none, somebody is at work, was killed, or keeps something else.
            let Some(text) = text else { continue };
            let path = format!("{}/{name}", self.location());
            check(&path, &text)?;
            let source: Source =
                serde_json::from_slice(&text).map_err(|source| Error::Manifest { path, source })?;
            found.push((directory, source));
        }
        // Of those who imported the same capture at the same time, who began first.
        found.sort_by_key(|(_, source)| source.ordinal);
        for (directory, source) in found {
            self.add(directory, source);
        }
        self.sources.sort_by(|one, other| {
            let key = |source: &Source| (source.counts.first_ns, source.ordinal);
            key(one).cmp(&key(other))
        });
        Ok(())
    }

    /// Takes up a capture, unless it is there.
    fn add(&mut self, directory: String, source: Source) {
        if !self.tables.contains_key(&source.hash) {
            self.tables.insert(source.hash.clone(), directory.clone());
            self.sources.push(source);
        }
        self.read.insert(directory);
    }

    /// The location.
    pub fn location(&self) -> &Location {
        self.opened.location()
    }

    /// The captures in it, in the order of their first packets; those that were added since it was opened come last.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Sees that all tables of all captures are there.
    ///
    /// # Errors
    /// [`Error::NoTable`] for the first that is not.
    pub(crate) fn see_tables(&self) -> Result<(), Error> {
        let directories = self.tables.values();
        let files: Vec<String> = directories
            .flat_map(|directory| Table::ALL.map(|table| format!("{directory}/{}", table.file())))
            .collect();
        self.opened.see_each(&files)
    }

    /// The addresses of the tables of these captures, for queries that [`Self::opened`] is reached by.
    pub(crate) fn urls(&self, table: Table, sources: &[Source]) -> Result<Vec<String>, Error> {
        let directories = sources
            .iter()
            .filter_map(|source| self.tables.get(&source.hash));
        directories
            .map(|directory| self.opened.url(&format!("{directory}/{}", table.file())))
            .collect()
    }

    pub(crate) fn opened(&self) -> &OpenLocation {
        &self.opened
    }

    /// The capture whose bytes have this hash, if it is in the trace.
    pub fn find(&self, hash: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.hash == hash)
    }
}

/// Tells whether a location is marked as a trace.
fn is_marked(opened: &OpenLocation) -> Result<bool, Error> {
    let Some(text) = opened.read(MARK)? else {
        return Ok(false);
    };
    check(&format!("{}/{MARK}", opened.location()), &text)?;
    Ok(true)
}

/// Content of the file that marks a trace of this version.
fn mark() -> String {
    let mark = serde_json::json!({"schema": "tollgate-trace", "version": VERSION});
    format!("{mark:#}\n")
}

/// Tells whether a file is of a version that is read.
fn check(path: &str, text: &[u8]) -> Result<(), Error> {
    let mark: Mark = serde_json::from_slice(text).map_err(|source| Error::Manifest {
        path: path.to_owned(),
        source,
    })?;
    if !(OLDEST..=VERSION).contains(&mark.version) {
        return Err(Error::Version {
            path: path.to_owned(),
            found: mark.version,
            known: VERSION,
        });
    }
    Ok(())
}
