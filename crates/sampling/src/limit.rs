//! `kernel.perf_event_max_sample_rate`: the kernel lowers it for good when samples take it long, and every later profiler suffers.
//!
//! [`Limit::read`] notes it before sampling, [`Limit::put_back`] writes it again where that is allowed. It must never raise the
//! limit above what it found.

use std::fs;
use std::path::{Path, PathBuf};

const FILE: &str = "proc/sys/kernel/perf_event_max_sample_rate";
/// Rate that the kernel starts with (`kernel/events/core.c`, `DEFAULT_MAX_SAMPLE_RATE`).
pub const DEFAULT: u32 = 100_000;

/// The limit as it was found.
#[derive(Debug)]
pub struct Limit {
    file: PathBuf,
    found: Option<u32>,
}

/// Fate of the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is as it was found.
    Unchanged,
    /// The kernel had lowered it, and it is as it was found again.
    PutBack {
        /// Samples per second, as found.
        found: u32,
        /// Samples per second, as the kernel left it.
        lowered: u32,
    },
    /// The kernel has lowered it, and it could not be written.
    Lowered {
        /// Samples per second, as found.
        found: u32,
        /// Samples per second, as the kernel left it.
        lowered: u32,
    },
}

impl Limit {
    /// Reads the limit of this system.
    #[must_use]
    pub fn read() -> Self {
        Self::read_from(Path::new("/"))
    }

    /// Reads the limit under another root, for tests.
    #[must_use]
    pub fn read_from(root: &Path) -> Self {
        let file = root.join(FILE);
        let found = number(&file);
        Self { file, found }
    }

    /// The limit in samples per second; none where it cannot be read.
    #[must_use]
    pub const fn found(&self) -> Option<u32> {
        self.found
    }

    /// Writes the limit as it was found, where it is lower now.
    pub fn put_back(&self) -> Outcome {
        let (Some(found), Some(lowered)) = (self.found, number(&self.file)) else {
            return Outcome::Unchanged;
        };
        if lowered >= found {
            return Outcome::Unchanged;
        }
        let written = fs::write(&self.file, format!("{found}\n"));
        if written.is_ok() && number(&self.file) == Some(found) {
            Outcome::PutBack { found, lowered }
        } else {
            Outcome::Lowered { found, lowered }
        }
    }
}

fn number(file: &Path) -> Option<u32> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(text: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(FILE).parent().unwrap()).unwrap();
        fs::write(root.path().join(FILE), text).unwrap();
        root
    }

    #[test]
    fn limit_that_was_lowered_is_put_back() {
        let root = root("100000\n");
        let limit = Limit::read_from(root.path());
        assert_eq!(limit.put_back(), Outcome::Unchanged);
        fs::write(root.path().join(FILE), "7000\n").unwrap();
        let outcome = Outcome::PutBack {
            found: 100_000,
            lowered: 7_000,
        };
        assert_eq!(limit.put_back(), outcome);
        assert_eq!(number(&root.path().join(FILE)), Some(100_000));
    }

    #[test]
    fn limit_that_another_raised_stays() {
        let root = root("7000\n");
        let limit = Limit::read_from(root.path());
        fs::write(root.path().join(FILE), "100000\n").unwrap();
        assert_eq!(limit.put_back(), Outcome::Unchanged);
        assert_eq!(number(&root.path().join(FILE)), Some(100_000));
    }

    #[test]
    fn limit_that_cannot_be_read_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let limit = Limit::read_from(root.path());
        assert_eq!(
            (limit.found(), limit.put_back()),
            (None, Outcome::Unchanged)
        );
    }
}
