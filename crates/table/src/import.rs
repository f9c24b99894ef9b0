//! A capture into a trace.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use tollgate_trace::anonymise::{Anonymiser, KEY_LEN};
use tollgate_trace::capture::Capture;
use tollgate_trace::flows::Limits;
use tollgate_trace::input::Content;
use tollgate_trace::{Importer, Settings};

use crate::Error;
use crate::schema::VERSION;
use crate::store::{Source, Stored, TableFiles, Writable};
use crate::writer::{Files, Writer};

/// The most packets between two looks at whether the user wants more.
const PACKETS_BETWEEN_CHECKS: u64 = 1 << 16;

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The limits of flows and writes.
    pub limits: Limits,
    /// The key with which addresses are replaced.
    pub key: Option<[u8; KEY_LEN]>,
}

/// Outcome of an import.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is in the trace now.
    Imported(Box<Source>),
    /// It was in the trace already, under this name.
    Known(String),
}

/// Imports the file at `path`. `goes_on` is told the number of packets so far, several times a second, and says whether to go on.
///
/// # Errors
/// The file's, the trace's, or [`Error::Stopped`]; nothing of the file is in the trace then.
pub fn file(
    path: &Path,
    options: &Options,
    trace: &mut Writable,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Outcome, Error> {
    let open = || {
        File::open(path).map_err(|source| Error::File {
            what: "open",
            path: path.to_owned(),
            source,
        })
    };
    let name = path.display().to_string();
    let opened = open()?;
    let metadata = opened.metadata().map_err(|source| Error::Source {
        name: name.clone(),
        source,
    })?;
    // Reading it twice is worth it only where it may be one of those that are there. One that was packed otherwise is told by its hash
    // when it has been read.
    let same_size = |source: &Source| [source.bytes, source.packed_bytes].contains(&metadata.len());
    if metadata.is_file() && trace.trace().sources().iter().any(same_size) {
        let content = Content::of(open()?, &mut || goes_on(0))
            .map_err(|source| Error::Source {
                name: name.clone(),
                source,
            })?
            .ok_or_else(|| Error::Stopped { name: name.clone() })?;
        if let Some(known) = trace.trace().find(&content.hash) {
            return Ok(Outcome::Known(known.name.clone()));
        }
    }
    stream(opened, &name, options, trace, goes_on)
}

/// Imports all that `source` gives; as [`file`] does.
///
/// # Errors
/// Those of [`file`].
pub fn stream(
    source: impl Read,
    name: &str,
    options: &Options,
    trace: &mut Writable,
    goes_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Outcome, Error> {
    let mut capture = Capture::new(source).map_err(|source| Error::Refused {
        name: name.to_owned(),
        source,
    })?;
    let (format, compression) = (capture.format(), capture.compression());
    let stopped = || Error::Stopped {
        name: name.to_owned(),
    };
    let unreadable = |source| Error::Source {
        name: name.to_owned(),
        source,
    };
    let pending = trace.begin()?;
    let ordinal = pending.ordinal();
    let mut writer = Writer::new(Files::new(pending.files()?)?);
    let mut importer = Importer::new(Settings {
        limits: options.limits,
        anonymiser: options.key.as_ref().map(Anonymiser::new),
        first_flow: u64::from(ordinal) << 32,
    });
    while importer.read(&mut capture, PACKETS_BETWEEN_CHECKS, &mut writer)? {
        if !goes_on(importer.packets()) {
            return Err(stopped());
        }
    }
    let packets = importer.packets();
    let counts = importer.finish(&mut writer)?;
    while capture.drain().map_err(unreadable)? {
        if !goes_on(packets) {
            return Err(stopped());
        }
    }
    let (content, damage) = capture.finish().map_err(unreadable)?;
    if let Some(known) = trace.trace().find(&content.hash) {
        return Ok(Outcome::Known(known.name.clone()));
    }
    let tables = writer.finish()?.finish()?;
    let stored = stored(&tables).map_err(|source| Error::Measure {
        location: trace.trace().location().to_string(),
        source,
    })?;
    let source = Source {
        schema: "tollgate-trace-source".to_owned(),
        version: VERSION,
        name: name.to_owned(),
        hash: content.hash,
        bytes: content.bytes,
        packed_bytes: content.packed_bytes,
        stored,
        format: format.to_owned(),
        compression: compression.name().to_owned(),
        anonymised: options.key.is_some(),
        pause_ns: options.limits.pause_ns,
        ordinal,
        counts,
        damage,
    };
    trace.commit(pending, tables, source, &mut || goes_on(packets))
}

/// Sizes of these tables, in bytes.
fn stored([packets, messages, flows]: &TableFiles) -> io::Result<Stored> {
    Ok(Stored {
        packets: packets.metadata()?.len(),
        messages: messages.metadata()?.len(),
        flows: flows.metadata()?.len(),
    })
}
