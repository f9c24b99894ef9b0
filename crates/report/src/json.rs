//! The run as JSON: `docs/run-schema.md`.
//!
//! Fields come in the order of the types, so that two files can be compared line by line.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use tollgate_run::{Run, RunError, VERSION, with_words_of_modes};

use crate::{WriteError, write_file};

/// The reason why a run could not be turned into JSON.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The run contradicts itself.
    #[error("cannot write the run as JSON: {0}")]
    Contradiction(#[from] RunError),
    /// A number is NaN or infinite, which JSON cannot say.
    #[error(
        "cannot write the run as JSON: the number at {place} is not finite; an experiment must say not_available \
         where it has no number"
    )]
    NotFinite {
        /// The way to the number, like `experiments[0].tables[1].rows[2].cells[0].value`.
        place: String,
    },
    /// The serialiser refused.
    #[error("cannot write the run as JSON: {0}; this is a defect of Tollgate, please report it")]
    Serialise(#[from] serde_json::Error),
}

/// The reason why a run could not be saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// It could not be turned into JSON.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// The reason why a run could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file could not be read.
    #[error(
        "cannot read the run {path:?}: {source}; give the path of a file that tollgate wrote with --json"
    )]
    Io {
        /// The path as given.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The text is not a run.
    #[error("this is not a run: {problem}; give a file that tollgate wrote with --json")]
    NotARun {
        /// The defect.
        problem: String,
    },
    /// The text is a run that a newer Tollgate wrote.
    #[error(
        "this run has version {found} of the schema tollgate.run, and this tollgate reads up to {VERSION}; read it \
         with the newer tollgate that wrote it, or update this one"
    )]
    Newer {
        /// The version in the file.
        found: u64,
    },
    /// The text claims to be a run of a known version, but a field is wrong.
    #[error("this run is damaged: {0}; make it again with tollgate")]
    Damaged(serde_json::Error),
    /// The run contradicts itself.
    #[error("this run is damaged: {0}; make it again with tollgate")]
    Contradiction(#[from] RunError),
}

/// The run as indented JSON, ending in a line feed.
///
/// # Errors
/// The run contradicts itself, or holds a number that is not finite.
pub fn render(run: &Run) -> Result<String, RenderError> {
    run.check()?;
    // No field of the schema is ever null, so a null is a number that JSON cannot write.
    if let Some(place) = find_null(&serde_json::to_value(run)?) {
        return Err(RenderError::NotFinite { place });
    }
    let mut text = serde_json::to_string_pretty(run)?;
    text.push('\n');
    Ok(text)
}

/// Saves the run at `path`, atomically.
///
/// # Errors
/// Those of [`render`] and [`write_file`]; nothing partial is left behind.
pub fn write(run: &Run, path: &Path) -> Result<(), SaveError> {
    Ok(write_file(path, render(run)?)?)
}

/// Reads a run from the file at `path`.
///
/// # Errors
/// The file cannot be read, or as [`parse`].
pub fn read(path: &Path) -> Result<Run, ReadError> {
    let text = std::fs::read_to_string(path).map_err(|source| ReadError::Io {
        path: path.to_owned(),
        source,
    })?;
    parse(&text)
}

/// Reads a run from JSON text. One of an older version becomes one of [`VERSION`].
///
/// # Errors
/// The text is not JSON, not a run, a run of a newer schema, or a run with wrong fields.
pub fn parse(text: &str) -> Result<Run, ReadError> {
    /// The fields that are looked at before all others, in every version.
    #[derive(Deserialize)]
    struct Head {
        schema: String,
        version: u64,
    }
    let head: Head = serde_json::from_str(text).map_err(|error| ReadError::NotARun {
        problem: error.to_string(),
    })?;
    if head.schema != "tollgate.run" {
        let problem = format!("its schema is {:?}, not \"tollgate.run\"", head.schema);
        return Err(ReadError::NotARun { problem });
    }
    match head.version {
        0 => {
            return Err(ReadError::NotARun {
                problem: "its version is 0; versions begin at 1".into(),
            });
        }
        found if found > u64::from(VERSION) => return Err(ReadError::Newer { found }),
        _ => {}
    }
    // Names of modes are plain letters, so they stand in the JSON text as they are.
    let mut run: Run =
        serde_json::from_str(&with_words_of_modes(text)).map_err(ReadError::Damaged)?;
    run.check()?;
    // Its fields have the names of this version now, and would be written under them.
    run.version = VERSION;
    Ok(run)
}

/// The way to the first null.
fn find_null(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Array(values) => values.iter().enumerate().find_map(|(at, value)| {
            let rest = find_null(value)?;
            Some(format!("[{at}]{}{rest}", dot(&rest)))
        }),
        Value::Object(map) => map.iter().find_map(|(name, value)| {
            let rest = find_null(value)?;
            Some(format!("{name}{}{rest}", dot(&rest)))
        }),
        _ => None,
    }
}

fn dot(rest: &str) -> &'static str {
    if rest.is_empty() || rest.starts_with('[') {
        ""
    } else {
        "."
    }
}
