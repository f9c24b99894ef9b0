//! The store of runs, in a folder or in a bucket.
//!
//! ```text
//! STORE/tollgate-runs.json          marks the store
//! STORE/ID/run.json                 the run as it was measured, docs/run-schema.md
//! STORE/ID/numbers.parquet          its tables
//! STORE/ID/settings.parquet
//! STORE/ID/runs.parquet             its row in the table of runs; it comes last, and a run is in the store when it is there
//! ```
//!
//! ID is when the run began and the hash of its JSON, so a run is in a store once. In a folder it is written under another name and
//! renamed when it is complete; in a bucket each object appears whole, the one that makes the run part of the store last. So
//! whoever reads sees a run whole or not at all.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use datafusion::prelude::{SessionConfig, SessionContext};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde::{Deserialize, Serialize};
use tollgate_run::{Run, Timestamp};

use super::columns::{OLDEST, Rows, Table, VERSION};
use crate::Error;
use crate::location::{Location, OpenLocation};
use crate::queries;

const MARK: &str = "tollgate-runs.json";
const SCHEMA: &str = "tollgate-runs";
const RUN: &str = "run.json";
/// Prefix of the names of incomplete directories.
const INCOMPLETE: &str = ".saving-";
/// Digits of the hash in a run's name: 48 bits, beside the second in which it began.
const DIGITS: usize = 12;

/// Content of the file that marks a store.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    schema: String,
    version: u32,
}

/// Outcome of saving a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saved {
    /// It is in the store now, under this name.
    New(String),
    /// It was there already.
    Known(String),
}

/// A store of runs.
#[derive(Debug)]
pub struct Store {
    opened: OpenLocation,
    /// The version of its tables.
    version: u32,
}

impl Store {
    /// Opens the store at `location`.
    ///
    /// # Errors
    /// [`Error::NoStore`], or a location that cannot be read.
    pub fn open(location: &Location) -> Result<Self, Error> {
        let missing = || Error::NoStore(location.to_string());
        if matches!(location, Location::Folder(folder) if !folder.is_dir()) {
            return Err(missing());
        }
        let opened = location.open()?;
        match version(&opened)? {
            Some(version) => Ok(Self { opened, version }),
            None => Err(opened.without(missing())),
        }
    }

    /// Opens the store at `location` to add to it, or makes one there.
    ///
    /// # Errors
    /// [`Error::ForeignStore`] when something else is there, or a location that cannot be written to.
    pub fn prepare(location: &Location) -> Result<Self, Error> {
        if let Location::Folder(folder) = location {
            fs::create_dir_all(folder).map_err(at("make the directory", folder))?;
        }
        let opened = location.open()?;
        if let Some(version) = version(&opened)? {
            return Ok(Self { opened, version });
        }
        if !opened.is_empty()? {
            return Err(Error::ForeignStore(location.to_string()));
        }
        let mark = Mark {
            schema: SCHEMA.to_owned(),
            version: VERSION,
        };
        let text = serde_json::to_vec_pretty(&mark).map_err(|source| damaged(&opened, source))?;
        opened.write(MARK, text)?;
        Ok(Self {
            opened,
            version: VERSION,
        })
    }

    /// The location.
    pub fn location(&self) -> &Location {
        self.opened.location()
    }

    /// Saves a run: `json` is the run as a file, `host` what the host that measured is called, where that is known.
    ///
    /// # Errors
    /// When the location cannot be written to; nothing of the run is in the store then.
    pub fn save(&self, run: &Run, json: &str, host: Option<&str>) -> Result<Saved, Error> {
        let id = id(run.started, json);
        if self.complete()?.contains(&id) {
            return Ok(Saved::Known(id));
        }
        let rows = Rows { id: &id, host, run };
        let mut objects = vec![(RUN, json.as_bytes().to_vec())];
        for table in Table::ALL {
            objects.push((table.file(), parquet(table, &rows, self.version)?));
        }
        match self.location() {
            Location::Folder(folder) => self.save_in_folder(folder, id, objects),
            Location::Bucket { .. } => {
                for (name, bytes) in objects {
                    self.opened.write(&format!("{id}/{name}"), bytes)?;
                }
                Ok(Saved::New(id))
            }
        }
    }

    fn save_in_folder(
        &self,
        folder: &Path,
        id: String,
        objects: Vec<(&str, Vec<u8>)>,
    ) -> Result<Saved, Error> {
        // Whoever saves waits here for others, so what is incomplete belongs to nobody.
        let mark = folder.join(MARK);
        let lock = File::open(&mark).map_err(at("open", &mark))?;
        lock.lock().map_err(at("lock", &mark))?;
        clear(folder)?;
        let directory = folder.join(&id);
        if directory.exists() {
            return Ok(Saved::Known(id));
        }
        let incomplete = tempfile::Builder::new()
            .prefix(INCOMPLETE)
            .tempdir_in(folder)
            .map_err(at("make a directory in", folder))?;
        for (name, bytes) in objects {
            let path = incomplete.path().join(name);
            let write = || {
                fs::write(&path, &bytes)?;
                File::open(&path)?.sync_all()
            };
            write().map_err(at("write", &path))?;
        }
        // Others may read it, as they may read what is around it.
        let readable = fs::metadata(folder)
            .and_then(|folder| fs::set_permissions(incomplete.path(), folder.permissions()));
        readable.map_err(at("open to others", incomplete.path()))?;
        fs::rename(incomplete.path(), &directory)
            .map_err(at("rename what is complete to", &directory))?;
        // It is not there any more under its first name.
        let _ = incomplete.keep();
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(at("write", folder))?;
        Ok(Saved::New(id))
    }

    /// The runs in the store, the first that began first.
    ///
    /// # Errors
    /// When the location cannot be read.
    pub fn complete(&self) -> Result<Vec<String>, Error> {
        let names = self.opened.names()?;
        let ids = names.iter().filter_map(|name| {
            let (id, file) = name.split_once('/')?;
            (file == Table::Runs.file() && !id.starts_with('.')).then(|| id.to_owned())
        });
        Ok(ids.collect())
    }

    /// The JSON of the one run whose name begins with `id`, or of the last one when `id` is `last`.
    ///
    /// # Errors
    /// [`Error::NoRun`] when it names none, or several.
    pub fn json(&self, id: &str) -> Result<String, Error> {
        let ids = self.complete()?;
        let none = |why| Error::NoRun {
            id: id.to_owned(),
            location: self.location().to_string(),
            why,
        };
        let found = match id {
            "last" => ids.last().ok_or_else(|| none("there is no run"))?,
            _ => {
                let mut found = ids.iter().filter(|one| one.starts_with(id));
                let one = found.next().ok_or_else(|| none("no run begins so"))?;
                if found.next().is_some() {
                    return Err(none("several runs begin so"));
                }
                one
            }
        };
        let bytes = self
            .opened
            .read(&format!("{found}/{RUN}"))?
            .ok_or_else(|| none("its run.json is gone"))?;
        String::from_utf8(bytes).map_err(|_| none("its run.json is damaged"))
    }

    /// The rows of a query on the tables `runs`, `numbers` and `settings`.
    ///
    /// # Errors
    /// [`Error::RunsQuery`] when the query is not understood or fails, [`Error::NoTable`] when a run lacks a table.
    pub fn query(&self, sql: &str) -> Result<queries::Rows, Error> {
        let context = self.context()?;
        self.opened.ask(&context, sql).map_err(|error| match error {
            Error::Query(source) => Error::RunsQuery(source),
            other => other,
        })
    }

    fn context(&self) -> Result<SessionContext, Error> {
        let context = queries::context(SessionConfig::new());
        self.opened.reached_by(&context)?;
        let ids = self.complete()?;
        let files_of = |table: Table| -> Vec<String> {
            let files = ids.iter().map(|id| format!("{id}/{}", table.file()));
            files.collect()
        };
        self.opened.see_each(&Table::ALL.map(files_of).concat())?;
        for table in Table::ALL {
            let files = files_of(table);
            let urls = files.iter().map(|file| self.opened.url(file));
            let urls = urls.collect::<Result<Vec<_>, Error>>()?;
            let stored = table.schema_of(self.version);
            queries::register_renamed(&context, table.name(), stored, &table.schema(), &urls)?;
        }
        Ok(context)
    }
}

/// The version of the store there; none where nothing marks one.
fn version(opened: &OpenLocation) -> Result<Option<u32>, Error> {
    let Some(text) = opened.read(MARK)? else {
        return Ok(None);
    };
    let mark: Mark = serde_json::from_slice(&text).map_err(|source| damaged(opened, source))?;
    if mark.schema != SCHEMA {
        return Err(Error::ForeignStore(opened.location().to_string()));
    }
    if (OLDEST..=VERSION).contains(&mark.version) {
        return Ok(Some(mark.version));
    }
    Err(Error::StoreVersion {
        location: opened.location().to_string(),
        found: mark.version,
        known: VERSION,
    })
}

fn damaged(opened: &OpenLocation, source: serde_json::Error) -> Error {
    Error::StoreMark {
        path: format!("{}/{MARK}", opened.location()),
        source,
    }
}

/// The name of a run.
fn id(started: Timestamp, json: &str) -> String {
    let began = started.to_string().replace(['-', ':'], "");
    let hash = blake3::hash(json.as_bytes()).to_hex();
    format!("{began}-{}", &hash[..DIGITS])
}

/// The rows of a run's table as a Parquet file.
fn parquet(table: Table, rows: &Rows<'_>, version: u32) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Write {
        table: table.name(),
        source,
    };
    let properties = WriterProperties::builder()
        .set_compression(Compression::LZ4_RAW)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), table.schema_of(version), Some(properties))
        .map_err(failed)?;
    writer.write(&rows.of(table, version)?).map_err(failed)?;
    writer.into_inner().map_err(failed)
}

/// Clears away what a killed save left.
fn clear(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(at("list", folder))? {
        let entry = entry.map_err(at("list", folder))?;
        if entry.file_name().to_string_lossy().starts_with(INCOMPLETE) {
            let path = entry.path();
            fs::remove_dir_all(&path).map_err(at("clear away", &path))?;
        }
    }
    Ok(())
}

fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::File { what, path, source }
}
