//! Writing a file as a whole or not at all.
//!
//! The contents go to a temporary file in the same folder, which then takes the target's name in one step. A failure
//! leaves neither a partial file nor the temporary one, and an older file stays as it was.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The reason why a file could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The path does not end in a file name.
    #[error("cannot write {path:?}: it does not name a file; give a path that ends in a file name")]
    NoFileName {
        /// The path as given.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot write {path:?}: {tried}: {source}; {advice}")]
    Io {
        /// The path as given.
        path: PathBuf,
        /// The step that failed.
        tried: &'static str,
        /// The advice.
        advice: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

/// Writes `contents` to `path`, replacing the file that may be there, atomically.
///
/// A new file gets the permissions that the process's umask allows; a replaced one keeps its own. A link is followed;
/// a device or a pipe is written to in place.
///
/// # Errors
/// [`WriteError`] says what was tried, what went wrong and what to do. Nothing partial is left behind.
pub fn write_file(path: &Path, contents: impl AsRef<[u8]>) -> Result<(), WriteError> {
    let failed = |tried| move |source| WriteError::io(path, tried, source);
    match Destination::of(path)? {
        Destination::Existing(target) => {
            std::fs::write(target, contents).map_err(failed("writing the contents"))
        }
        Destination::Named {
            target,
            permissions,
        } => {
            let mut file =
                temporary_beside(&target).map_err(failed("making a file in its folder"))?;
            file.write_all(contents.as_ref())
                .map_err(failed("writing the contents"))?;
            if let Some(permissions) = permissions {
                file.as_file()
                    .set_permissions(permissions)
                    .map_err(failed("keeping the permissions of the file that is there"))?;
            }
            file.as_file()
                .sync_all()
                .map_err(failed("bringing the contents to the disk"))?;
            match file.persist(target) {
                Ok(_) => Ok(()),
                Err(error) => Err(failed("renaming the finished file")(error.error)),
            }
        }
    }
}

/// Checks that [`write_file`] can write to `path`, before the work is done whose outcome is to be written there. What lies
/// at `path` is not touched.
///
/// # Errors
/// Those of [`write_file`].
pub fn check_writable(path: &Path) -> Result<(), WriteError> {
    let failed = |tried| move |source| WriteError::io(path, tried, source);
    match Destination::of(path)? {
        Destination::Existing(target) => std::fs::OpenOptions::new()
            .write(true)
            .open(target)
            .map(drop)
            .map_err(failed("opening it")),
        Destination::Named { target, .. } => temporary_beside(&target)
            .map(drop)
            .map_err(failed("making a file in its folder")),
    }
}

/// Tells whether [`write_file`] would write both paths to the same file: links are followed, and folders may be named in any way.
#[must_use]
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        // A new file has a folder at most.
        let new = |_| std::fs::canonicalize(folder_of(path)).map(|folder| folder.join(name));
        std::fs::canonicalize(path).or_else(new)
    };
    match (place(a), place(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

impl WriteError {
    fn io(path: &Path, tried: &'static str, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            tried,
            advice: advice(&source),
            source,
        }
    }
}

/// Target of a path.
enum Destination {
    /// A device or a pipe: a place to write to, not a name to take over.
    Existing(PathBuf),
    /// A name that a finished file takes, with the permissions of the file that has it now.
    Named {
        target: PathBuf,
        permissions: Option<std::fs::Permissions>,
    },
}

impl Destination {
    fn of(path: &Path) -> Result<Self, WriteError> {
        if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(WriteError::NoFileName {
                path: path.to_owned(),
            });
        }
        if path.is_dir() {
            let source = io::ErrorKind::IsADirectory.into();
            return Err(WriteError::io(path, "naming the file", source));
        }
        let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Ok(match std::fs::metadata(&target) {
            Ok(metadata) if !metadata.is_file() => Self::Existing(target),
            Ok(metadata) => Self::Named {
                target,
                permissions: Some(metadata.permissions()),
            },
            Err(_) => Self::Named {
                target,
                permissions: None,
            },
        })
    }
}

/// The folder that holds the file.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// An empty temporary file in the folder of `target`, deleted when dropped.
fn temporary_beside(target: &Path) -> io::Result<tempfile::NamedTempFile> {
    let folder = folder_of(target);
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tollgate-").suffix(".part");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "make the folder first, or give another path",
        io::ErrorKind::PermissionDenied => "give a path in a folder that you may write to",
        io::ErrorKind::ReadOnlyFilesystem => "give a path on a file system that is not read-only",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or give a path on another disk"
        }
        io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {
            "give the path of a file inside an existing folder"
        }
        _ => "give another path",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let name =
            |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        fs::read_dir(folder).unwrap().map(name).collect()
    }

    #[test]
    fn a_file_is_written_and_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        write_file(&path, "first").unwrap();
        write_file(&path, b"second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(names(folder.path()), ["run.json"]);
    }

    #[test]
    fn checking_tells_what_writing_would_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        check_writable(&path).unwrap();
        assert_eq!(names(folder.path()), [""; 0]);
        fs::write(&path, "old").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        for wrong in ["none/run.json", "run.json/below", "."] {
            let path = folder.path().join(wrong);
            // The name of the temporary file, at the end of some messages, is another each time.
            let start = |error: WriteError| {
                let text = error.to_string();
                text.split(" at path").next().unwrap_or_default().to_owned()
            };
            let checked = start(check_writable(&path).unwrap_err());
            assert_eq!(checked, start(write_file(&path, "x").unwrap_err()));
        }
        assert_eq!(names(folder.path()), ["run.json"]);
        check_writable(Path::new("/dev/null")).unwrap();
    }

    #[test]
    fn a_missing_folder_is_told_and_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let error = write_file(&folder.path().join("none/run.json"), "x").unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("none/run.json") && text.contains("make the folder first"),
            "{text}"
        );
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn a_folder_in_the_place_of_the_file_stays_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        fs::create_dir(&path).unwrap();
        let text = write_file(&path, "x").unwrap_err().to_string();
        assert!(text.contains("give the path of a file"), "{text}");
        assert_eq!(names(folder.path()), ["run.json"]);
        assert_eq!(names(&path), [""; 0]);
    }

    #[test]
    fn a_file_in_the_place_of_the_folder_is_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let error = write_file(&folder.path().join("file/run.json"), "x").unwrap_err();
        assert!(matches!(error, WriteError::Io { .. }), "{error}");
        assert_eq!(names(folder.path()), ["file"]);
    }

    #[test]
    fn a_path_without_a_file_name_is_refused() {
        for path in ["", "/", "..", "folder/"] {
            let error = write_file(Path::new(path), "x").unwrap_err();
            assert!(
                matches!(error, WriteError::NoFileName { .. }),
                "{path:?}: {error}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_and_a_device_stay_what_they_are() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_file(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        write_file(Path::new("/dev/null"), "gone").unwrap();
        assert!(
            fs::metadata("/dev/null")
                .unwrap()
                .file_type()
                .is_char_device()
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_replaced_file_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.json");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write_file(&path, "new").unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o640
        );
    }

    #[test]
    fn paths_of_one_file_are_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("in")).unwrap();
        fs::write(at("there"), "x").unwrap();
        std::os::unix::fs::symlink(at("there"), at("link")).unwrap();
        assert!(is_same_file(&at("new"), &at("in/../new")));
        assert!(is_same_file(&at("there"), &at("./link")));
        assert!(is_same_file(Path::new("new"), Path::new("./new")));
        assert!(!is_same_file(&at("new"), &at("in/new")));
        assert!(!is_same_file(&at("no/folder"), &at("no/other")));
    }
}
