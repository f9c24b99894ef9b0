//! The guest's file system: a cpio archive in the format `newc`, as the kernel unpacks it
//! (Documentation/driver-api/early-userspace/buffer-format.rst).
//!
//! Nothing in the archive depends on when or where it is made: the same files give the same bytes.

use std::io::{self, Write};

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;
const TRAILER: &str = "TRAILER!!!";

/// A file of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry<'a> {
    /// An empty directory.
    Directory {
        /// Its path without a leading slash.
        path: &'a str,
    },
    /// A program or any other file.
    File {
        /// Its path without a leading slash.
        path: &'a str,
        /// Its content.
        content: &'a [u8],
    },
    /// A character device.
    Device {
        /// Its path without a leading slash.
        path: &'a str,
        /// Its major number.
        major: u32,
        /// Its minor number.
        minor: u32,
    },
}

/// Writes the archive.
///
/// # Errors
/// Those of the writer; a file of 4 GiB or more.
pub fn write(out: &mut impl Write, entries: &[Entry<'_>]) -> io::Result<()> {
    let trailer = Entry::File {
        path: TRAILER,
        content: &[],
    };
    for (index, entry) in entries.iter().chain([&trailer]).enumerate() {
        // The trailer's number is of no matter; the others must differ.
        let number = u32::try_from(index + 1).map_err(io::Error::other)?;
        write_entry(out, number, entry)?;
    }
    Ok(())
}

fn write_entry(out: &mut impl Write, number: u32, entry: &Entry<'_>) -> io::Result<()> {
    let (path, mode, content, device) = match *entry {
        Entry::Directory { path } => (path, DIRECTORY, &[][..], (0, 0)),
        Entry::File { path, content } => (path, PROGRAM, content, (0, 0)),
        Entry::Device { path, major, minor } => (path, CHARACTER_DEVICE, &[][..], (major, minor)),
    };
    let mode = if path == TRAILER { 0 } else { mode };
    let size = u32::try_from(content.len()).map_err(io::Error::other)?;
    let name_size = u32::try_from(path.len() + 1).map_err(io::Error::other)?;
    // Number, mode, user, group, links, time, size, device, the device that it is, length of the name, checksum.
    let fields = [
        number, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, name_size, 0,
    ];
    out.write_all(b"070701")?;
    for field in fields {
        write!(out, "{field:08x}")?;
    }
    out.write_all(path.as_bytes())?;
    out.write_all(&[0])?;
    pad(out, 110 + path.len() + 1)?;
    out.write_all(content)?;
    pad(out, content.len())
}

/// Fills up to a multiple of four.
fn pad(out: &mut impl Write, length: usize) -> io::Result<()> {
    out.write_all(&[0; 3][..length.next_multiple_of(4) - length])
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, entries).unwrap();
        bytes
    }

    #[test]
    fn an_entry_is_a_header_a_name_and_the_content_each_filled_up() {
        let bytes = archive(&[Entry::File {
            path: "init",
            content: b"hello",
        }]);
        let text = String::from_utf8(bytes).unwrap();
        let header = concat!(
            "070701", "00000001", "000081ed", "00000000", "00000000", "00000001", "00000000",
            "00000005", "00000000", "00000000", "00000000", "00000000", "00000005", "00000000"
        );
        assert!(
            text.starts_with(&format!("{header}init\0\0hello\0\0\0070701")),
            "{text:?}"
        );
        assert!(text.ends_with("TRAILER!!!\0\0\0\0"), "{text:?}");
        assert_eq!(text.len() % 4, 0);
    }

    #[test]
    fn cpio_lists_what_was_written() {
        let Ok(mut cpio) = Command::new("cpio")
            .args(["--list", "--verbose", "--numeric-uid-gid", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .env("TZ", "UTC")
            .spawn()
        else {
            tollgate_skip::skipped!("cpio is not installed");
            return;
        };
        let bytes = archive(&[
            Entry::Directory { path: "dev" },
            Entry::Device {
                path: "dev/console",
                major: 5,
                minor: 1,
            },
            Entry::File {
                path: "init",
                content: &[7; 1_001],
            },
        ]);
        cpio.stdin.take().unwrap().write_all(&bytes).unwrap();
        let output = cpio.wait_with_output().unwrap();
        let listing = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Vec<&str>> = listing
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines.len(), 3, "{listing}");
        assert_eq!((lines[0][0], lines[0].last()), ("drwxr-xr-x", Some(&"dev")));
        assert_eq!(
            (lines[1][0], lines[1][4], lines[1][5]),
            ("crw-------", "5,", "1")
        );
        assert_eq!(
            (lines[2][0], lines[2][4], lines[2].last()),
            ("-rwxr-xr-x", "1001", Some(&"init"))
        );
    }
}
