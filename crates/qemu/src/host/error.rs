//! Errors around the machine: the step, the reason, and the remedy.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// The failure of a count in QEMU.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program that is needed is not there.
    #[error("{program} was not found; install it: apt-get install {package}")]
    NoProgram {
        /// Its name.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A program ended with a failure.
    #[error("{program} failed ({status}): {said}")]
    Program {
        /// Program that was run.
        program: String,
        /// Its end: its exit code, or the signal that ended it.
        status: ExitStatus,
        /// The last that it said.
        said: String,
    },
    /// A library that a program is linked with is not on this machine.
    #[error("{program} cannot go into the machine: {line}; install the library")]
    Library {
        /// The program.
        program: PathBuf,
        /// Line of the dynamic linker about the library.
        line: String,
    },
    /// No package index knows a kernel of the wanted series.
    #[error(
        "apt knows no package linux-image-{series}.0-N-amd64; run apt-get update on Debian 12, or name a file with --kernel-deb"
    )]
    NoKernel {
        /// The series, like `6.1`.
        series: &'static str,
    },
    /// A downloaded package is not the one that the index describes.
    #[error(
        "{path} has the SHA-256 {found}, and the index of apt says {expected}; remove it and try again"
    )]
    Checksum {
        /// The file.
        path: PathBuf,
        /// Its checksum.
        found: String,
        /// Checksum that it should have.
        expected: String,
    },
    /// A package without a kernel in it.
    #[error("{path} holds no file boot/vmlinuz-*: it is no kernel package")]
    NoImage {
        /// The file.
        path: PathBuf,
    },
    /// A file or directory could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// This QEMU loads no plugin of the version that is spoken here.
    #[error(
        "{found}: the plugin speaks version 1 of the interface, which QEMU 4.2 to 8.2 has; install such a QEMU"
    )]
    Version {
        /// Version that QEMU reports.
        found: String,
    },
    /// The machine did not end in time.
    #[error("the machine did not end within {} s and was stopped; its last words: {console}", limit.as_secs())]
    Late {
        /// The time that it had.
        limit: Duration,
        /// The last lines of its console.
        console: String,
    },
    /// The user has asked to stop.
    #[error("stopped")]
    Stopped,
    /// The guest could not carry out its tasks.
    #[error("the guest failed: {reason}; its last words: {console}")]
    Guest {
        /// Its reason, or what is missing from what it said.
        reason: String,
        /// The last lines of its console.
        console: String,
    },
    /// The output of the plugin cannot be read.
    #[error("the plugin's counts cannot be read: {what}")]
    Tally {
        /// The fault.
        what: String,
    },
    /// The rules for the layers cannot be used.
    #[error("the rules for the layers cannot be used: {what}")]
    Rules {
        /// The fault.
        what: String,
    },
    /// A file of counts cannot be read.
    #[error("{path} holds no counts: {what}; write it with tollgate-qemu count --out FILE")]
    Counts {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
}

impl Error {
    /// For `map_err`: an error at `path`.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }
}
