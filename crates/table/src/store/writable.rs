//! Adding captures to a trace.
//!
//! In a folder one process adds at a time, and holds a lock meanwhile. The directory of a capture is written under another name and
//! renamed when it is complete; what a killed import leaves is cleared away by the next one.
//!
//! In a bucket many may add at the same time. Each capture has a directory of its own, named by its ordinal, which belongs to whoever
//! makes the object `importing.json` in it first. Tables are written to files without a name on this machine, which go with the
//! process, and sent when they are complete; `source.json` comes last. What a killed import leaves there nobody sees, and
//! nobody else gets its ordinal.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use super::{MARK, SOURCE, Source, Trace, is_marked, mark};
use crate::Error;
use crate::import::Outcome;
use crate::location::{Location, OpenLocation};
use crate::schema::Table;

/// Prefix of the names of incomplete directories.
const INCOMPLETE: &str = ".importing-";
/// Digits of the hash in the name of a folder's directory: 128 bits.
const DIGITS: usize = 32;
/// Object that names the owner of a directory in a bucket.
const OWNER: &str = "importing.json";

/// The files of a capture's tables, in the order of [`Table::ALL`].
pub(crate) type TableFiles = [File; Table::ALL.len()];

/// A trace to which captures are added.
#[derive(Debug)]
pub struct Writable {
    trace: Trace,
    /// Of a trace in a folder; locked until it is closed.
    _lock: Option<File>,
}

impl Writable {
    /// Opens the trace at `location`, or makes one.
    ///
    /// # Errors
    /// [`Error::Busy`] when another process adds captures to a folder, [`Error::Foreign`] when there is something else.
    pub fn open(location: &Location) -> Result<Self, Error> {
        match location {
            Location::Folder(folder) => {
                let lock = prepare(folder)?;
                Ok(Self {
                    trace: Trace::of(location.open()?)?,
                    _lock: Some(lock),
                })
            }
            Location::Bucket { .. } => {
                let opened = location.open()?;
                if !is_marked(&opened)? {
                    // Somebody else may have made one just now.
                    if !opened.is_empty()? && !is_marked(&opened)? {
                        return Err(Error::Foreign(location.to_string()));
                    }
                    opened.write(MARK, mark().into_bytes())?;
                }
                Ok(Self {
                    trace: Trace::of(opened)?,
                    _lock: None,
                })
            }
        }
    }

    /// The trace.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// A location for the tables of a capture that is being imported; it goes with the value.
    pub(crate) fn begin(&self) -> Result<Pending, Error> {
        let ordinals = self.trace.sources.iter().map(|source| source.ordinal);
        let next = ordinals.max().map_or(0, |last| last + 1);
        match self.trace.location() {
            Location::Folder(folder) => {
                let directory = tempfile::Builder::new()
                    .prefix(INCOMPLETE)
                    .tempdir_in(folder)
                    .map_err(at("make a directory in", folder))?;
                Ok(Pending::Folder {
                    ordinal: next,
                    folder: folder.clone(),
                    directory,
                })
            }
            Location::Bucket { .. } => Ok(Pending::Bucket(Own::claim(&self.trace.opened, next)?)),
        }
    }

    /// Adds a capture whose tables are complete in these files, unless somebody else has added it meanwhile.
    pub(crate) fn commit(
        &mut self,
        pending: Pending,
        files: TableFiles,
        source: Source,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Outcome, Error> {
        let path = format!("{}/{SOURCE}", self.trace.location());
        let text = serde_json::to_string_pretty(&source)
            .map_err(|source| Error::Manifest { path, source })?
            + "\n";
        let directory = match pending {
            Pending::Folder {
                folder, directory, ..
            } => rename(&folder, directory, &files, &text, &source.hash)?,
            Pending::Bucket(mut own) => {
                if !own.send(files, goes_on)? {
                    return Err(Error::Stopped { name: source.name });
                }
                self.trace.refresh()?;
                if let Some(known) = self.trace.find(&source.hash) {
                    return Ok(Outcome::Known(known.name.clone()));
                }
                own.complete(text)?
            }
        };
        self.trace.add(directory, source.clone());
        Ok(Outcome::Imported(Box::new(source)))
    }
}

/// A capture that is being imported.
#[derive(Debug)]
pub(crate) enum Pending {
    /// Into a folder.
    Folder {
        ordinal: u32,
        folder: PathBuf,
        /// In the folder, under a name that nobody looks at.
        directory: TempDir,
    },
    /// Into a bucket.
    Bucket(Own),
}

impl Pending {
    /// The capture's ordinal.
    pub(crate) const fn ordinal(&self) -> u32 {
        match self {
            Self::Folder { ordinal, .. } => *ordinal,
            Self::Bucket(own) => own.ordinal,
        }
    }

    /// Makes the files of its tables.
    pub(crate) fn files(&self) -> Result<TableFiles, Error> {
        let file = |table: Table| match self {
            Self::Folder { directory, .. } => {
                let path = directory.path().join(table.file());
                File::create_new(&path).map_err(at("make a table", &path))
            }
            Self::Bucket(_) => {
                tempfile::tempfile().map_err(at("make a table in", &std::env::temp_dir()))
            }
        };
        let [packets, messages, flows] = Table::ALL;
        Ok([file(packets)?, file(messages)?, file(flows)?])
    }
}

/// Prepares a folder, and locks it.
fn prepare(folder: &Path) -> Result<File, Error> {
    fs::create_dir_all(folder).map_err(at("make the directory", folder))?;
    let path = folder.join(MARK);
    if !path.exists() && names(folder)?.iter().any(|name| !name.starts_with('.')) {
        return Err(Error::Foreign(folder.display().to_string()));
    }
    let lock = File::options()
        .read(true)
        .append(true)
        .create(true)
        .open(&path)
        .map_err(at("open", &path))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(Error::Busy(folder.display().to_string())),
        Err(TryLockError::Error(source)) => return Err(at("lock", &path)(source)),
    }
    if lock.metadata().map_err(at("read", &path))?.len() == 0 {
        fs::write(&path, mark()).map_err(at("write", &path))?;
    }
    for name in names(folder)? {
        if name.starts_with(INCOMPLETE) {
            let path = folder.join(name);
            fs::remove_dir_all(&path).map_err(at("clear away", &path))?;
        }
    }
    Ok(lock)
}

/// Makes a complete directory part of a folder, and gives its name there.
fn rename(
    folder: &Path,
    tables: TempDir,
    files: &TableFiles,
    text: &str,
    hash: &str,
) -> Result<String, Error> {
    for file in files {
        file.sync_all().map_err(at("write", tables.path()))?;
    }
    let manifest = tables.path().join(SOURCE);
    fs::write(&manifest, text).map_err(at("write", &manifest))?;
    File::open(&manifest)
        .and_then(|file| file.sync_all())
        .map_err(at("write", &manifest))?;
    let name = hash.get(..DIGITS).unwrap_or(hash).to_owned();
    let directory = folder.join(&name);
    fs::rename(tables.path(), &directory).map_err(at("rename its tables to", &directory))?;
    // It is not there any more under its first name.
    let _ = tables.keep();
    File::open(folder)
        .and_then(|file| file.sync_all())
        .map_err(at("write", folder))?;
    Ok(name)
}

/// A directory of a bucket that is ours. What is in it goes with the value unless it was completed.
#[derive(Debug)]
pub(crate) struct Own {
    opened: Arc<OpenLocation>,
    ordinal: u32,
    /// The content of [`OWNER`].
    claim: Vec<u8>,
    /// The names of the objects sent so far.
    sent: Vec<String>,
}

impl Own {
    /// Makes the directory of the first ordinal from `least` on that nobody has.
    fn claim(opened: &Arc<OpenLocation>, least: u32) -> Result<Self, Error> {
        let taken = opened.directories()?;
        let taken = taken.iter().filter_map(|name| name.parse::<u32>().ok());
        let mut ordinal = taken.max().map_or(least, |last| least.max(last + 1));
        let claim = claim();
        while !opened.create(&name(ordinal, OWNER), claim.clone())? {
            ordinal += 1;
        }
        Ok(Self {
            opened: Arc::clone(opened),
            ordinal,
            sent: vec![name(ordinal, OWNER)],
            claim,
        })
    }

    /// Sends the tables; false when `goes_on` wanted no more.
    fn send(
        &mut self,
        files: TableFiles,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Error> {
        for (table, mut file) in Table::ALL.into_iter().zip(files) {
            let name = name(self.ordinal, table.file());
            if !goes_on() || !self.opened.upload(&name, &mut file, goes_on)? {
                return Ok(false);
            }
            self.sent.push(name);
        }
        Ok(true)
    }

    /// Makes the capture part of the trace, and gives the name of its directory.
    fn complete(mut self, source: String) -> Result<String, Error> {
        // A bucket that does not know the condition gives the same ordinal to all who ask at once; the last of them has it.
        if self.opened.read(&name(self.ordinal, OWNER))?.as_deref() != Some(&self.claim) {
            self.sent.clear();
            return Err(Error::Busy(self.opened.location().to_string()));
        }
        let name = name(self.ordinal, SOURCE);
        // It may be there even when the bucket could not say so.
        self.sent.push(name.clone());
        self.opened.write(&name, source.into_bytes())?;
        self.sent.clear();
        Ok(directory(self.ordinal))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // From the last to the first: without its tables no capture is to be seen, and until the claim goes nobody else has the
        // directory. When one cannot be removed those before it stay.
        for name in self.sent.iter().rev() {
            if self.opened.remove(name).is_err() {
                return;
            }
        }
    }
}

/// The directory of an ordinal.
fn directory(ordinal: u32) -> String {
    format!("{ordinal:08}")
}

fn name(ordinal: u32, file: &str) -> String {
    format!("{}/{file}", directory(ordinal))
}

/// Makes a claim that is unique to an import and says when it began.
fn claim() -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let claim = serde_json::json!({
        "schema": "tollgate-trace-import",
        "version": 1,
        "began_unix_s": now.unwrap_or_default().as_secs(),
        "token": format!("{:016x}", RandomState::new().hash_one(std::process::id())),
    });
    format!("{claim:#}\n").into_bytes()
}

/// Lists the names in a directory.
fn names(directory: &Path) -> Result<Vec<String>, Error> {
    let read = || -> io::Result<Vec<String>> {
        fs::read_dir(directory)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    };
    read().map_err(at("list", directory))
}

fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::File { what, path, source }
}
