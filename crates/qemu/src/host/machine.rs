//! The machine: QEMU with the options that make every run the same, started, watched, and always ended.
//!
//! `-icount shift=0,sleep=off` lets one nanosecond pass with each instruction, so that interrupts come at the same
//! instruction in every run and the guest's clocks count instructions. Everything random is off.
//!
//! This setting alone leaves a race in QEMU: its main loop moves an idle guest's clock on to the next timer. It may look when the
//! processor has halted already but the instructions since its last account are not yet added. They are then counted beside the
//! time that was skipped. With `rr=record` the two take turns under a lock of their own. The record itself is discarded.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Error;
use crate::protocol::{Message, TASK_PREFIX, TRACE_PREFIX, Task};

const QEMU: &str = "qemu-system-x86_64";
const PACKAGE: &str = "qemu-system-x86";
/// Interval at which the machine is checked.
const PATIENCE: Duration = Duration::from_millis(20);
/// Bytes of the console that are shown after a failure.
const LAST_WORDS: usize = 400;

/// A machine that can be started.
#[derive(Debug, Clone)]
pub struct Machine<'a> {
    /// The kernel's image.
    pub image: &'a Path,
    /// The initial file system.
    pub initrd: &'a Path,
    /// The plugin that counts; none to run undisturbed.
    pub plugin: Option<&'a Path>,
    /// Tasks of the guest.
    pub tasks: &'a [Task],
    /// Functions of the kernel that it is to time itself, after the tasks.
    pub traced: &'a [&'a str],
    /// The time after which the machine is stopped.
    pub limit: Duration,
}

/// Output of the machine when it had ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Messages of the guest.
    pub messages: Vec<Message>,
    /// Output of the plugin; empty without one.
    pub tally: String,
}

/// The first line of what QEMU says of itself.
///
/// # Errors
/// [`Error::NoProgram`]; [`Error::Version`] when it cannot load the plugin.
pub fn version() -> Result<String, Error> {
    let output = Command::new(QEMU)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(missing)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default().to_owned();
    if speaks_version_1(&line) {
        Ok(line)
    } else {
        Err(Error::Version { found: line })
    }
}

/// Tells whether a QEMU that says this of itself loads plugins of version 1.
fn speaks_version_1(line: &str) -> bool {
    let numbers = line
        .split_whitespace()
        .find(|word| word.starts_with(|letter: char| letter.is_ascii_digit()));
    let mut numbers = numbers
        .unwrap_or_default()
        .split('.')
        .map_while(|number| number.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        return false;
    };
    (4, 2) <= (major, minor) && (major, minor) < (9, 0)
}

fn missing(source: std::io::Error) -> Error {
    match source.kind() {
        std::io::ErrorKind::NotFound => Error::NoProgram {
            program: QEMU,
            package: PACKAGE,
        },
        _ => Error::File {
            path: PathBuf::from(QEMU),
            source,
        },
    }
}

/// Ends QEMU whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Machine<'_> {
    /// Runs the machine to its end, or until `stop` is raised.
    ///
    /// # Errors
    /// When QEMU is missing, does not start, or does not end in time; when the guest failed or fell silent.
    pub fn run(&self, stop: &AtomicBool) -> Result<Outcome, Error> {
        let temporary = tempfile::tempdir().map_err(Error::file(&std::env::temp_dir()))?;
        let place = |name: &str| temporary.path().join(name);
        let (said, console, tally, errors) = (
            place("said"),
            place("console"),
            place("tally"),
            place("errors"),
        );
        let arguments = self.arguments(&said, &console, &tally);
        attend(&arguments, &console, &errors, self.limit, stop)?;
        let messages = heard(&said, &console)?;
        let tally = if self.plugin.is_some() {
            read(&tally)
        } else {
            String::new()
        };
        Ok(Outcome { messages, tally })
    }

    fn arguments(&self, said: &Path, console: &Path, tally: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = [
            "-nodefaults -no-reboot -display none -monitor none",
            // From version 7.1 on this machine would hand the kernel a random seed.
            "-machine pc-i440fx-7.0 -m 512 -smp 1 -accel tcg",
            "-cpu max,-rdrand,-rdseed",
            "-icount shift=0,sleep=off,rr=record,rrfile=/dev/null",
            "-rtc base=2020-01-01,clock=vm",
            "-device isa-debugcon,chardev=said",
        ]
        .iter()
        .flat_map(|part| part.split(' '))
        .map(OsString::from)
        .collect();
        arguments.extend(["-chardev".into(), joined("file,id=said,path=", said)]);
        arguments.extend(["-serial".into(), joined("file:", console)]);
        if let Some(plugin) = self.plugin {
            let mut file = joined("file=", plugin);
            file.push(joined(",out=", tally));
            arguments.extend(["-plugin".into(), file]);
        }
        let mut line =
            String::from("console=ttyS0 quiet panic=-1 nokaslr norandmaps random.trust_cpu=off --");
        for task in self.tasks {
            line.push_str(&format!(" {TASK_PREFIX}{task}"));
        }
        if !self.traced.is_empty() {
            line.push_str(&format!(" {TRACE_PREFIX}{}", self.traced.join(",")));
        }
        arguments.extend([
            "-kernel".into(),
            self.image.into(),
            "-initrd".into(),
            self.initrd.into(),
        ]);
        arguments.extend(["-append".into(), line.into()]);
        arguments
    }
}

/// Runs QEMU to its end, or until `stop` is raised; `console` is where the guest's console goes.
pub(super) fn attend(
    arguments: &[OsString],
    console: &Path,
    errors: &Path,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let stderr = fs::File::create(errors).map_err(Error::file(errors))?;
    let child = Command::new(QEMU)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .map_err(missing)?;
    let mut running = Running(child);
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = running.0.try_wait().map_err(Error::file(Path::new(QEMU)))? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        if begun.elapsed() > limit {
            return Err(Error::Late {
                limit,
                console: last_words(console),
            });
        }
        std::thread::sleep(PATIENCE);
    };
    if status.success() {
        Ok(())
    } else {
        Err(Error::Program {
            program: QEMU.to_owned(),
            status,
            said: last_words(errors),
        })
    }
}

/// Messages of the guest, which are in the file `said`.
pub(super) fn heard(said: &Path, console: &Path) -> Result<Vec<Message>, Error> {
    messages(&read(said)).map_err(|reason| Error::Guest {
        reason,
        console: last_words(console),
    })
}

/// The option's text before a path.
pub(super) fn joined(before: &str, path: &Path) -> OsString {
    let mut text = OsString::from(before);
    text.push(path);
    text
}

/// Messages of the guest, when it came to its end.
fn messages(said: &str) -> Result<Vec<Message>, String> {
    let mut messages = Vec::new();
    for line in said.lines() {
        match line.parse() {
            Ok(Message::Failed(reason)) => return Err(reason),
            Ok(message) => messages.push(message),
            Err(unreadable) => return Err(unreadable.to_string()),
        }
    }
    match messages.pop() {
        Some(Message::Done) => Ok(messages),
        Some(_) => Err("it fell silent before its end".to_owned()),
        None => Err("it said nothing".to_owned()),
    }
}

/// The text of a file; nothing when there is none.
fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    // A file that is missing or cut short shows in what is missing from it.
    let _ = fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The end of a text for people, on one line.
fn last_words(path: &Path) -> String {
    let text = read(path);
    let readable: String = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    let words: Vec<&str> = readable.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().rev().nth(LAST_WORDS) {
        Some((place, _)) => format!("...{}", &line[place..]),
        None if line.is_empty() => "none".to_owned(),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Workload;

    #[test]
    fn a_guest_that_did_not_come_to_its_end_is_told() {
        assert_eq!(
            messages("fact kernel 6.1\ndone\n").map(|all| all.len()),
            Ok(1)
        );
        assert_eq!(messages("").unwrap_err(), "it said nothing");
        assert_eq!(
            messages("fact kernel 6.1\n").unwrap_err(),
            "it fell silent before its end"
        );
        assert_eq!(
            messages("failed no loopback\ndone\n").unwrap_err(),
            "no loopback"
        );
        assert!(
            messages("fact kernel 6.1\nregi")
                .unwrap_err()
                .contains("regi")
        );
    }

    #[test]
    fn plugins_of_version_1_are_loaded_by_some_versions() {
        for (line, expected) in [
            (
                "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)",
                true,
            ),
            ("QEMU emulator version 4.2.0", true),
            ("QEMU emulator version 8.2.10", true),
            ("QEMU emulator version 9.0.0", false),
            ("QEMU emulator version 10.0.2", false),
            ("QEMU emulator version 4.1.9", false),
            ("", false),
        ] {
            assert_eq!(speaks_version_1(line), expected, "{line}");
        }
    }

    #[test]
    fn the_options_keep_chance_out_and_tell_the_tasks() {
        let machine = Machine {
            image: Path::new("vmlinuz"),
            initrd: Path::new("initrd"),
            plugin: Some(Path::new("plugin.so")),
            tasks: &[Task {
                workload: Workload::OneWay,
                size: 4,
                count: 10,
            }],
            traced: &["tcp_v4_rcv", "ip_rcv"],
            limit: Duration::from_secs(1),
        };
        let arguments =
            machine.arguments(Path::new("said"), Path::new("console"), Path::new("tally"));
        let arguments: Vec<_> = arguments
            .iter()
            .map(|text| text.to_string_lossy())
            .collect();
        let line = arguments.join(" ");
        for part in [
            "-icount shift=0,sleep=off,rr=record,rrfile=/dev/null",
            "-smp 1",
            "-rdrand,-rdseed",
            "-machine pc-i440fx-7.0",
            "-rtc base=2020-01-01,clock=vm",
            "-plugin file=plugin.so,out=tally",
            "-chardev file,id=said,path=said",
            " nokaslr norandmaps random.trust_cpu=off -- task:one-way:4:10 trace:tcp_v4_rcv,ip_rcv",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
    }

    #[test]
    fn last_words_are_short_and_on_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("console");
        assert_eq!(last_words(&path), "none");
        fs::write(
            &path,
            format!("\x1b[2J\r\n{}\nKernel panic\n", "x ".repeat(600)),
        )
        .unwrap();
        let words = last_words(&path);
        assert!(
            words.starts_with("...") && words.ends_with("x Kernel panic") && words.len() < 420,
            "{words}"
        );
    }
}
