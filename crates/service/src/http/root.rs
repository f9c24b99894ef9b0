//! The directory whose files are served, and the part of a file that is sent.
//!
//! The kernel itself keeps every way within the directory (openat2(2), RESOLVE_BENEATH): no link and no race leads out.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::answer::Status;

/// The file that stands for its directory.
const INDEX: &str = "index.html";

/// Times that a file is tried to be opened while its directories are moved about.
const TRIES: usize = 8;

/// A directory whose files are served.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
}

/// File or folder that a target names.
#[derive(Debug)]
pub(super) enum Found {
    File(Document),
    /// A directory, which is named with a slash at its end.
    Directory,
}

/// A file, as it is now.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) file: File,
    pub(super) length: u64,
    pub(super) modified: SystemTime,
    /// Its validator: changes when the file does (RFC 9110, 8.8.3).
    pub(super) tag: String,
    /// It is the file that stands for the directory that was asked for.
    pub(super) index: bool,
}

/// A part of a file that is to be sent.
#[derive(Debug)]
pub(super) struct FileRange {
    file: File,
    at: u64,
    pub(super) left: u64,
}

impl Root {
    /// Opens a directory.
    ///
    /// # Errors
    /// Those of the system; [`Errno::NOSYS`] where the kernel cannot keep a way within a directory (before Linux 5.6).
    pub fn open(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = Self {
            directory: rustix::fs::open(directory, flags, Mode::empty())?,
        };
        root.open_beneath(Path::new("."))?;
        Ok(root)
    }

    fn open_beneath(&self, path: &Path) -> Result<OwnedFd, Errno> {
        // Without O_NONBLOCK a pipe would keep the loop waiting for its writer.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..TRIES {
            match rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), within) {
                // Somebody moves directories about, or has a lease on the file and holds on to it.
                Err(Errno::AGAIN | Errno::INTR) => {}
                outcome => return outcome,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Opens what a target names.
    pub(super) fn find(&self, path: &Path, directory: bool) -> Result<Found, Status> {
        let within = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let opened = self.open_beneath(within).map_err(status)?;
        let stat = rustix::fs::fstat(&opened).map_err(status)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if directory => Err(Status::NotFound),
            FileType::RegularFile => Ok(Found::File(Document::new(opened, &stat, false))),
            FileType::Directory if !directory => Ok(Found::Directory),
            FileType::Directory => {
                let opened = self.open_beneath(&within.join(INDEX)).map_err(status)?;
                let stat = rustix::fs::fstat(&opened).map_err(status)?;
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => Ok(Found::File(Document::new(opened, &stat, true))),
                    _ => Err(Status::NotFound),
                }
            }
            _ => Err(Status::NotFound),
        }
    }
}

/// The answer where a file cannot be opened.
fn status(error: Errno) -> Status {
    match error {
        Errno::ACCESS | Errno::PERM | Errno::XDEV => Status::Forbidden,
        Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::NXIO => {
            Status::NotFound
        }
        Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM => Status::Unavailable,
        _ => Status::InternalError,
    }
}

impl Document {
    fn new(file: OwnedFd, stat: &Stat, index: bool) -> Self {
        let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
        let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
        let length = u64::try_from(stat.st_size).unwrap_or(0);
        Self {
            file: file.into(),
            length,
            modified: SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos),
            tag: format!("\"{seconds:x}.{nanos:x}-{length:x}\""),
            index,
        }
    }

    /// The part from `at` on of `left` bytes.
    pub(super) fn part(self, at: u64, left: u64) -> FileRange {
        FileRange {
            file: self.file,
            at,
            left,
        }
    }
}

impl FileRange {
    /// Reads what is next, at most as much as `into` holds.
    ///
    /// # Errors
    /// Those of the system. A file that has become shorter than its length was told cannot be sent: only ending the connection
    /// tells the peer (RFC 9112, 8).
    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(into.len());
        match self.file.read_at(&mut into[..wanted], self.at)? {
            0 => Err(Errno::IO.into()),
            count => Ok(count),
        }
    }

    /// Moves on behind bytes that were sent.
    pub(super) const fn advance(&mut self, count: usize) {
        self.at += count as u64;
        self.left -= count as u64;
    }
}
