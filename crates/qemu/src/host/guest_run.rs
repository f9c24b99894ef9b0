//! A visit to a stock kernel: programs of the host are run in a machine with that kernel, and what they say is brought back.
//!
//! Nothing is counted and no time means anything here; QEMU translates as fast as it can. Owns the machine, which ends in every case.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::Error;
use super::initrd::{self, Entry};
use super::kernel::Kernel;
use super::machine::{attend, heard, joined};
use crate::protocol::{COMMANDS, GuestCommand, Message, Stream};

/// A file that the guest has, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// The path in the guest, without a leading slash.
    pub to: String,
    /// The path here.
    pub from: PathBuf,
}

/// Inputs of a guest run.
#[derive(Debug, Clone)]
pub struct GuestRun<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// The guest's first program, linked statically.
    pub guest: &'a Path,
    /// Other files in the guest's file system.
    pub files: &'a [Carried],
    /// Commands that are carried out there, one after the other.
    pub commands: &'a [GuestCommand],
    /// Virtual processors.
    pub processors: u32,
    /// The time after which the machine is stopped.
    pub limit: Duration,
}

/// Outcome of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The standard output of its program.
    pub out: String,
    /// The standard error.
    pub err: String,
    /// Its end: `exit status: 0` for a program that succeeded.
    pub outcome: String,
}

/// A program and the shared libraries that it is linked with, as the dynamic linker finds them here.
///
/// # Errors
/// When `ldd` is missing or a library cannot be found.
pub fn with_libraries(program: &Path, to: &str) -> Result<Vec<Carried>, Error> {
    let output = Command::new("ldd")
        .arg(program)
        .env("LC_ALL", "C")
        .output()
        .map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => Error::NoProgram {
                program: "ldd",
                package: "libc-bin",
            },
            _ => Error::File {
                path: PathBuf::from("ldd"),
                source,
            },
        })?;
    let output_text = String::from_utf8_lossy(&output.stdout);
    let libraries = libraries(&output_text).map_err(|line| Error::Library {
        program: program.to_owned(),
        line: line.to_owned(),
    })?;
    let mut files = vec![Carried {
        to: to.to_owned(),
        from: program.to_owned(),
    }];
    files.extend(libraries.into_iter().map(|path| Carried {
        to: path.trim_start_matches('/').to_owned(),
        from: PathBuf::from(path),
    }));
    Ok(files)
}

/// The libraries in what `ldd` says; the line of one that was not found is the error.
fn libraries(output_text: &str) -> Result<Vec<&str>, &str> {
    let mut found = Vec::new();
    for line in output_text.lines().map(str::trim) {
        if line.ends_with("not found") {
            return Err(line);
        }
        let path = line.split_once("=> ").map_or(line, |(_, path)| path);
        // The kernel's own library has no file, and a program without libraries says so in words.
        if path.starts_with('/') {
            found.extend(path.split_whitespace().next());
        }
    }
    Ok(found)
}

impl GuestRun<'_> {
    /// Boots the machine, lets the guest carry out its commands, and returns what came of each.
    ///
    /// # Errors
    /// Those of the machine, and when a command was not carried out.
    pub fn run(&self, stop: &AtomicBool) -> Result<Vec<Report>, Error> {
        let temporary = tempfile::tempdir().map_err(Error::file(&std::env::temp_dir()))?;
        let place = |name: &str| temporary.path().join(name);
        let (archive, said, console, errors) = (
            place("initrd"),
            place("said"),
            place("console"),
            place("errors"),
        );
        self.pack(&archive)?;
        let arguments = self.arguments(&archive, &said, &console);
        attend(&arguments, &console, &errors, self.limit, stop)?;
        let reports = reports(&heard(&said, &console)?);
        if reports.len() == self.commands.len() {
            Ok(reports)
        } else {
            Err(Error::Guest {
                reason: format!(
                    "{} commands were given and {} carried out",
                    self.commands.len(),
                    reports.len()
                ),
                console: String::new(),
            })
        }
    }

    /// Writes the guest's file system.
    fn pack(&self, archive: &Path) -> Result<(), Error> {
        let read = |path: &Path| fs::read(path).map_err(Error::file(path));
        let program = read(self.guest)?;
        let mut commands = String::new();
        for command in self.commands {
            commands.push_str(&format!("{command}\n"));
        }
        let mut contents = Vec::new();
        for file in self.files {
            contents.push(read(&file.from)?);
        }
        // A directory comes before what is in it, as it does in the order of their names.
        let mut directories: BTreeSet<&str> = ["dev", "proc", "sys"].into();
        for file in self.files {
            directories.extend(file.to.match_indices('/').map(|(end, _)| &file.to[..end]));
        }
        let mut entries: Vec<Entry<'_>> = directories
            .into_iter()
            .map(|path| Entry::Directory { path })
            .collect();
        entries.push(Entry::Device {
            path: "dev/console",
            major: 5,
            minor: 1,
        });
        entries.push(Entry::File {
            path: "init",
            content: &program,
        });
        entries.push(Entry::File {
            path: COMMANDS,
            content: commands.as_bytes(),
        });
        let files = self.files.iter().zip(&contents);
        entries.extend(files.map(|(file, content)| Entry::File {
            path: &file.to,
            content,
        }));
        let mut out = fs::File::create(archive).map_err(Error::file(archive))?;
        initrd::write(&mut out, &entries).map_err(Error::file(archive))
    }

    fn arguments(&self, archive: &Path, said: &Path, console: &Path) -> Vec<OsString> {
        let fixed = "-nodefaults -no-reboot -display none -monitor none -m 1024 -accel tcg -cpu max \
                     -device isa-debugcon,chardev=said";
        let mut arguments: Vec<OsString> = fixed.split(' ').map(OsString::from).collect();
        arguments.extend(["-smp".into(), self.processors.to_string().into()]);
        arguments.extend(["-chardev".into(), joined("file,id=said,path=", said)]);
        arguments.extend(["-serial".into(), joined("file:", console)]);
        arguments.extend(["-kernel".into(), self.kernel.image.clone().into()]);
        arguments.extend(["-initrd".into(), archive.into()]);
        // Whether the timer ticks is looked at against a clock of the host, which a busy host fails.
        let line = "console=ttyS0 quiet panic=-1 no_timer_check";
        arguments.extend(["-append".into(), line.into()]);
        arguments
    }
}

/// Puts together what came of each command.
fn reports(messages: &[Message]) -> Vec<Report> {
    let mut reports = Vec::new();
    let mut report = Report::default();
    for message in messages {
        match message {
            Message::Line(stream, line) => {
                let text = match stream {
                    Stream::Out => &mut report.out,
                    Stream::Err => &mut report.err,
                };
                text.push_str(line);
                text.push('\n');
            }
            Message::Ended(outcome) => {
                report.outcome.clone_from(outcome);
                reports.push(std::mem::take(&mut report));
            }
            Message::Fact(..)
            | Message::Region(..)
            | Message::Traced(..)
            | Message::Symbol(..)
            | Message::Failed(_)
            | Message::Done => {}
        }
    }
    reports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_with_a_file() {
        let output_text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x0000)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(
            libraries(output_text),
            Ok(vec![
                "/lib/x86_64-linux-gnu/libz.so.1",
                "/lib64/ld-linux-x86-64.so.2"
            ])
        );
        assert_eq!(libraries("\tstatically linked\n"), Ok(Vec::new()));
        assert_eq!(
            libraries("\tlibelf.so.1 => not found\n"),
            Err("libelf.so.1 => not found")
        );
    }

    #[test]
    fn what_was_said_belongs_to_the_errand_that_ends_next() {
        let line = |stream, text: &str| Message::Line(stream, text.to_owned());
        let ended = || Message::Ended("exit status: 0".to_owned());
        let reports = reports(&[
            line(Stream::Out, "{"),
            line(Stream::Out, "}"),
            line(Stream::Err, "careful"),
            ended(),
            ended(),
        ]);
        assert_eq!(reports.len(), 2);
        assert_eq!(
            (reports[0].out.as_str(), reports[0].err.as_str()),
            ("{\n}\n", "careful\n")
        );
        assert_eq!(reports[1].out, "");
    }
}
