//! A trace on disk.
//!
//! ```text
//! DIR/trace.json                    marks the directory, and is the lock of those who write
//! DIR/HASH/source.json              a capture that was imported: what it is, what it held, what of it could not be read
//! DIR/HASH/packets.parquet          its tables
//! DIR/HASH/messages.parquet
//! DIR/HASH/flows.parquet
//! ```
//!
//! HASH is that of the capture's octets, so a capture is in a trace once, whatever its name. Its directory is written
//! under another name and renamed when it is complete: whoever reads sees it whole or not at all, and what a killed import
//! leaves is cleared away by the next one.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tollgate_trace::Counts;
use tollgate_trace::capture::Damage;
use tollgate_trace::input::Content;

use crate::Error;
use crate::schema::VERSION;

const MARK: &str = "trace.json";
const SOURCE: &str = "source.json";
/// What the names of directories begin with that are not complete.
const INCOMPLETE: &str = ".importing-";
/// Digits of the hash in a directory's name: 128 bits.
const DIGITS: usize = 32;

/// What marks a trace.
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
    /// What the capture was called, `-` for standard input.
    pub name: String,
    /// BLAKE3 of its octets as they were read.
    pub hash: String,
    /// How many there were.
    pub octets: u64,
    /// pcap or pcapng.
    pub format: String,
    /// plain, gzip or zstd.
    pub compression: String,
    /// Whether the addresses were replaced.
    pub anonymised: bool,
    /// The silence that ends a write, in nanoseconds.
    pub pause_ns: i64,
    /// Its flows are numbered from this times 2^32 on.
    pub ordinal: u32,
    /// What it held.
    pub counts: Counts,
    /// What of it could not be read.
    pub damage: Damage,
}

/// A trace.
#[derive(Debug)]
pub struct Trace {
    directory: PathBuf,
    sources: Vec<Source>,
}

impl Trace {
    /// Opens the trace in `directory`.
    ///
    /// # Errors
    /// [`Error::NoTrace`], or a file of it that cannot be read.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let mark = directory.join(MARK);
        match fs::read(&mark) {
            Ok(text) => check(&mark, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::NoTrace(directory.to_owned()));
            }
            Err(source) => {
                return Err(Error::File {
                    what: "read",
                    path: mark,
                    source,
                });
            }
        }
        let mut sources = Vec::new();
        for name in names(directory)? {
            let path = directory.join(&name).join(SOURCE);
            if name.starts_with('.') || !path.is_file() {
                continue;
            }
            let text = fs::read(&path).map_err(|source| Error::File {
                what: "read",
                path: path.clone(),
                source,
            })?;
            check(&path, &text)?;
            let source: Source =
                serde_json::from_slice(&text).map_err(|source| Error::Manifest { path, source })?;
            sources.push(source);
        }
        sources.sort_by(|one, other| {
            let key = |source: &Source| (source.counts.first_ns, source.ordinal);
            key(one).cmp(&key(other))
        });
        Ok(Self {
            directory: directory.to_owned(),
            sources,
        })
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The captures in it, in the order of their first packets.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The directory of a capture's tables.
    pub fn tables_of(&self, source: &Source) -> PathBuf {
        self.directory.join(short(&source.hash))
    }

    /// The capture with this content, if it is in the trace.
    pub fn find(&self, content: &Content) -> Option<&Source> {
        self.sources
            .iter()
            .find(|source| short(&source.hash) == short(&content.hash))
    }
}

/// A trace to which captures are added. Nobody else adds any meanwhile.
#[derive(Debug)]
pub struct Writable {
    trace: Trace,
    /// Locked until it is closed.
    _lock: File,
}

impl Writable {
    /// Opens the trace in `directory`, or makes one.
    ///
    /// # Errors
    /// [`Error::Busy`] when another process adds captures, [`Error::Foreign`] when the directory holds something else.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let at = |what, path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { what, path, source }
        };
        fs::create_dir_all(directory).map_err(at("make the directory", directory))?;
        let mark = directory.join(MARK);
        if !mark.exists() && names(directory)?.iter().any(|name| !name.starts_with('.')) {
            return Err(Error::Foreign(directory.to_owned()));
        }
        let lock = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(&mark)
            .map_err(at("open", &mark))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::Busy(directory.to_owned())),
            Err(TryLockError::Error(source)) => return Err(at("lock", &mark)(source)),
        }
        if lock.metadata().map_err(at("read", &mark))?.len() == 0 {
            let text = serde_json::json!({"schema": "tollgate-trace", "version": VERSION});
            fs::write(&mark, format!("{text:#}\n")).map_err(at("write", &mark))?;
        }
        for name in names(directory)? {
            if name.starts_with(INCOMPLETE) {
                let path = directory.join(name);
                fs::remove_dir_all(&path).map_err(at("clear away", &path))?;
            }
        }
        Ok(Self {
            trace: Trace::open(directory)?,
            _lock: lock,
        })
    }

    /// What is in it.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The ordinal of the next capture.
    pub fn next_ordinal(&self) -> u32 {
        let ordinals = self.trace.sources.iter().map(|source| source.ordinal);
        ordinals.max().map_or(0, |last| last + 1)
    }

    /// A directory for the tables of a capture that is being imported; it goes with the value.
    pub(crate) fn begin(&self) -> Result<TempDir, Error> {
        tempfile::Builder::new()
            .prefix(INCOMPLETE)
            .tempdir_in(&self.trace.directory)
            .map_err(|source| Error::File {
                what: "make a directory in",
                path: self.trace.directory.clone(),
                source,
            })
    }

    /// Adds a capture whose tables are complete in `tables`.
    pub(crate) fn commit(&mut self, tables: TempDir, source: Source) -> Result<(), Error> {
        let directory = self.trace.directory.join(short(&source.hash));
        let at = |what, path: &Path| {
            let path = path.to_owned();
            move |source| Error::File { what, path, source }
        };
        let manifest = tables.path().join(SOURCE);
        let text = serde_json::to_string_pretty(&source).map_err(|source| Error::Manifest {
            path: manifest.clone(),
            source,
        })?;
        fs::write(&manifest, text + "\n").map_err(at("write", &manifest))?;
        File::open(&manifest)
            .and_then(|file| file.sync_all())
            .map_err(at("write", &manifest))?;
        fs::rename(tables.path(), &directory).map_err(at("rename its tables to", &directory))?;
        // It is not there any more under its first name.
        let _ = tables.keep();
        File::open(&self.trace.directory)
            .and_then(|file| file.sync_all())
            .map_err(at("write", &self.trace.directory))?;
        self.trace.sources.push(source);
        Ok(())
    }
}

fn short(hash: &str) -> &str {
    hash.get(..DIGITS).unwrap_or(hash)
}

/// Whether a file is one of this version.
fn check(path: &Path, text: &[u8]) -> Result<(), Error> {
    let mark: Mark = serde_json::from_slice(text).map_err(|source| Error::Manifest {
        path: path.to_owned(),
        source,
    })?;
    if mark.version != VERSION {
        return Err(Error::Version {
            path: path.to_owned(),
            found: mark.version,
            known: VERSION,
        });
    }
    Ok(())
}

/// What a directory holds.
fn names(directory: &Path) -> Result<Vec<String>, Error> {
    let read = || -> io::Result<Vec<String>> {
        fs::read_dir(directory)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    };
    read().map_err(|source| Error::File {
        what: "list",
        path: directory.to_owned(),
        source,
    })
}
