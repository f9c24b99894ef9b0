//! The protocol of guest, plugin and host: the markers in the guest's code, the port on which the guest speaks, and
//! its messages.
//!
//! The guest writes lines of text to QEMU's debug console, one `out` instruction for each byte: no driver of the guest
//! is involved, so the channel works from the first process on and its text is never mixed with the kernel's messages.

use std::fmt;
use std::str::FromStr;

/// The port of QEMU's debug console (`isa-debugcon`).
pub const PORT: u16 = 0xe9;

/// The bytes before a marker's number: `nopl disp32(%rax)`, which does nothing on any processor.
pub const MARKER_PREFIX: [u8; 3] = [0x0f, 0x1f, 0x80];

/// A point in the guest's own code that the plugin recognises: an instruction that does nothing, with one of these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Marker {
    /// The plugin may begin to follow calls; before, it does not look at what is executed.
    Arm = 0x7467_0001,
    /// A region begins: what is executed from here on is counted. Regions are numbered from 0 in the order of their begins.
    Begin = 0x7467_0002,
    /// The region ends.
    End = 0x7467_0003,
}

impl Marker {
    /// The marker that an instruction is, when it is one.
    #[must_use]
    pub fn from_instruction(bytes: &[u8]) -> Option<Self> {
        let number = bytes.strip_prefix(&MARKER_PREFIX)?;
        let number = u32::from_le_bytes(number.try_into().ok()?);
        [Self::Arm, Self::Begin, Self::End]
            .into_iter()
            .find(|marker| *marker as u32 == number)
    }
}

/// Workload of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "host", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "host", serde(rename_all = "kebab-case"))]
pub enum Workload {
    /// A request, and a response of the same size, both ends blocking.
    RequestResponse,
    /// A message in one direction that the other end reads and acknowledges, and an idle moment before the next one:
    /// the common path of Clark et al. 1989, where one end only receives data and the other only acknowledgments.
    OneWay,
}

impl Workload {
    /// The name in the plan and in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestResponse => "request-response",
            Self::OneWay => "one-way",
        }
    }
}

/// Precedes each task on the kernel's command line. What the kernel itself does not understand reaches the first process, too.
pub const TASK_PREFIX: &str = "task:";

/// Precedes the names of functions, separated by commas, that the kernel itself is to time after the tasks, in turns of the
/// first task.
pub const TRACE_PREFIX: &str = "trace:";

/// Task of the guest, as it stands on the kernel's command line behind [`TASK_PREFIX`]: `WORKLOAD:SIZE:COUNT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Workload of the ends.
    pub workload: Workload,
    /// Bytes of a message.
    pub size: usize,
    /// Round trips or messages that are counted; some go before, uncounted.
    pub count: u32,
}

/// The file with the guest's commands, one to a line; it carries them out in the place of tasks.
pub const COMMANDS: &str = "commands";

/// Something that the guest does for the host apart from counting, as it stands in [`COMMANDS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestCommand {
    /// Runs a program as this user, `run USER WORD...`; no word has a blank in it.
    Run {
        /// The user's number, which is also that of the group.
        user: u32,
        /// The program and its arguments.
        args: Vec<String>,
    },
    /// The same, and kills it (SIGKILL) as soon as a BPF program is attached, `kill USER WORD...`.
    Kill {
        /// The user's number, which is also that of the group.
        user: u32,
        /// The program and its arguments.
        args: Vec<String>,
    },
    /// Runs a program and writes a value to a file in the midst of it, `during PATH VALUE THREAD USER WORD...`: as soon as a BPF
    /// program is attached and the program has a thread whose name begins like this.
    During {
        /// The file, which is there.
        path: String,
        /// Value that is written, without a blank.
        value: String,
        /// Beginning of the thread's name.
        thread: String,
        /// The user's number, which is also that of the group.
        user: u32,
        /// The program and its arguments.
        args: Vec<String>,
    },
    /// Says what is left in the kernel of BPF programs, `leftovers`; what the kernel is about to free, it is given time for.
    Leftovers,
    /// Writes a value to a file, `write PATH VALUE`.
    Write {
        /// The file, which is there.
        path: String,
        /// Value that is written.
        value: String,
    },
    /// Lets a directory look empty from now on, `hide PATH`.
    Hide {
        /// The directory.
        path: String,
    },
}

/// Stream that a line of a guest's program was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Out,
    /// Its standard error.
    Err,
}

/// Message of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Something to know about the machine: its name and its value.
    Fact(String, String),
    /// A region was counted: the task, and by how much the guest's own clock (the TSC) moved.
    Region(Task, u64),
    /// The kernel timed a function of its own: its name, its calls, and the nanoseconds in it and below.
    Traced(String, u64, u64),
    /// A function of the kernel: its address and its name.
    Symbol(u64, String),
    /// A program wrote a line.
    Line(Stream, String),
    /// A command has been carried out, with this outcome: `exit status: 0` for a program that succeeded.
    Ended(String),
    /// The guest could not go on.
    Failed(String),
    /// The guest is done.
    Done,
}

/// A text that is none of what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable(pub String);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} cannot be read", self.0)
    }
}

impl std::error::Error for Unreadable {}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        [Self::RequestResponse, Self::OneWay]
            .into_iter()
            .find(|workload| workload.name() == text)
            .ok_or_else(|| Unreadable(text.to_owned()))
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.workload, self.size, self.count)
    }
}

impl FromStr for Task {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let unreadable = || Unreadable(text.to_owned());
        let mut parts = text.split(':');
        let mut next = || parts.next().ok_or_else(unreadable);
        let task = Self {
            workload: next()?.parse()?,
            size: next()?.parse().map_err(|_| unreadable())?,
            count: next()?.parse().map_err(|_| unreadable())?,
        };
        match parts.next() {
            None => Ok(task),
            Some(_) => Err(unreadable()),
        }
    }
}

impl fmt::Display for GuestCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { user, args } => write!(f, "run {user} {}", args.join(" ")),
            Self::Kill { user, args } => write!(f, "kill {user} {}", args.join(" ")),
            Self::During {
                path,
                value,
                thread,
                user,
                args,
            } => write!(
                f,
                "during {path} {value} {thread} {user} {}",
                args.join(" ")
            ),
            Self::Leftovers => f.write_str("leftovers"),
            Self::Write { path, value } => write!(f, "write {path} {value}"),
            Self::Hide { path } => write!(f, "hide {path}"),
        }
    }
}

impl FromStr for GuestCommand {
    type Err = Unreadable;

    fn from_str(line: &str) -> Result<Self, Unreadable> {
        let unreadable = || Unreadable(line.to_owned());
        let mut parts = line.splitn(3, ' ');
        let mut next = || parts.next().ok_or_else(unreadable);
        let args = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let user = |text: &str| text.parse().map_err(|_| unreadable());
        match next()? {
            "run" => Ok(Self::Run {
                user: user(next()?)?,
                args: args(next()?),
            }),
            "kill" => Ok(Self::Kill {
                user: user(next()?)?,
                args: args(next()?),
            }),
            "during" => {
                let path = next()?.to_owned();
                let mut rest = next()?.splitn(4, ' ');
                let mut next = || rest.next().ok_or_else(unreadable);
                Ok(Self::During {
                    path,
                    value: next()?.to_owned(),
                    thread: next()?.to_owned(),
                    user: user(next()?)?,
                    args: args(next()?),
                })
            }
            "leftovers" => Ok(Self::Leftovers),
            "write" => Ok(Self::Write {
                path: next()?.to_owned(),
                value: next()?.to_owned(),
            }),
            "hide" => Ok(Self::Hide {
                path: next()?.to_owned(),
            }),
            _ => Err(unreadable()),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fact(name, value) => write!(f, "fact {name} {value}"),
            Self::Region(task, clock) => write!(f, "region {task} {clock}"),
            Self::Traced(name, calls, ns) => write!(f, "traced {calls} {ns} {name}"),
            Self::Symbol(address, name) => write!(f, "symbol {address:x} {name}"),
            Self::Line(Stream::Out, line) => write!(f, "out {line}"),
            Self::Line(Stream::Err, line) => write!(f, "err {line}"),
            Self::Ended(outcome) => write!(f, "ended {outcome}"),
            Self::Failed(reason) => write!(f, "failed {reason}"),
            Self::Done => f.write_str("done"),
        }
    }
}

impl FromStr for Message {
    type Err = Unreadable;

    fn from_str(line: &str) -> Result<Self, Unreadable> {
        let unreadable = || Unreadable(line.to_owned());
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let two = || rest.split_once(' ').ok_or_else(unreadable);
        Ok(match kind {
            "fact" => {
                let (name, value) = two()?;
                Self::Fact(name.to_owned(), value.to_owned())
            }
            "region" => {
                let (task, clock) = two()?;
                Self::Region(task.parse()?, clock.parse().map_err(|_| unreadable())?)
            }
            "traced" => {
                let (calls, rest) = two()?;
                let (ns, name) = rest.split_once(' ').ok_or_else(unreadable)?;
                let number = |text: &str| text.parse().map_err(|_| unreadable());
                Self::Traced(name.to_owned(), number(calls)?, number(ns)?)
            }
            "symbol" => {
                let (address, name) = two()?;
                let address = u64::from_str_radix(address, 16).map_err(|_| unreadable())?;
                Self::Symbol(address, name.to_owned())
            }
            "out" => Self::Line(Stream::Out, rest.to_owned()),
            "err" => Self::Line(Stream::Err, rest.to_owned()),
            "ended" => Self::Ended(rest.to_owned()),
            "failed" => Self::Failed(rest.to_owned()),
            "done" if rest.is_empty() => Self::Done,
            _ => return Err(unreadable()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_wire() {
        let task = Task {
            workload: Workload::OneWay,
            size: 1_400,
            count: 300,
        };
        for message in [
            Message::Fact(
                "mitigation".to_owned(),
                "spectre_v2: Retpolines, STIBP".to_owned(),
            ),
            Message::Region(task, 17),
            Message::Traced("tcp_v4_rcv".to_owned(), 80, 345_678),
            Message::Symbol(0xffff_ffff_8100_0000, "_stext".to_owned()),
            Message::Line(Stream::Out, "  \"schema\": 1,".to_owned()),
            Message::Line(Stream::Err, String::new()),
            Message::Ended("exit status: 0".to_owned()),
            Message::Failed("no loopback".to_owned()),
            Message::Done,
        ] {
            assert_eq!(message.to_string().parse(), Ok(message));
        }
    }

    #[test]
    fn errands_survive_the_archive() {
        for command in [
            GuestCommand::Run {
                user: 65_534,
                args: vec!["/bin/tollgate".to_owned(), "doctor".to_owned()],
            },
            GuestCommand::Kill {
                user: 0,
                args: vec!["/bin/tollgate".to_owned()],
            },
            GuestCommand::During {
                path: "/sys/devices/system/cpu/cpu1/online".to_owned(),
                value: "0".to_owned(),
                thread: "tg-peer".to_owned(),
                user: 0,
                args: vec!["/bin/tollgate".to_owned(), "rr".to_owned()],
            },
            GuestCommand::Hide {
                path: "/sys/kernel/btf".to_owned(),
            },
            GuestCommand::Leftovers,
            GuestCommand::Write {
                path: "/proc/sys/kernel/ftrace_enabled".to_owned(),
                value: "0".to_owned(),
            },
        ] {
            assert_eq!(command.to_string().parse(), Ok(command));
        }
        for line in [
            "",
            "run",
            "run root /bin/true",
            "run 0",
            "write /x",
            "during /x 0 thread",
            "during /x 0 thread root /bin/true",
            "hide",
            "walk 1 2",
        ] {
            assert!(line.parse::<GuestCommand>().is_err(), "{line:?}");
        }
    }

    #[test]
    fn what_is_no_message_is_told() {
        for line in [
            "",
            "done now",
            "region one-way:4 1",
            "region one-way:4:5:6 1",
            "symbol xyz f",
            "fact",
        ] {
            assert!(line.parse::<Message>().is_err(), "{line:?}");
        }
    }

    #[test]
    fn a_marker_is_an_instruction_of_seven_bytes() {
        assert_eq!(
            Marker::from_instruction(&[0x0f, 0x1f, 0x80, 2, 0, 0x67, 0x74]),
            Some(Marker::Begin)
        );
        assert_eq!(
            Marker::from_instruction(&[0x0f, 0x1f, 0x80, 9, 0, 0x67, 0x74]),
            None
        );
        assert_eq!(
            Marker::from_instruction(&[0x0f, 0x1f, 0x80, 2, 0, 0x67]),
            None
        );
        assert_eq!(Marker::from_instruction(&[0x90]), None);
    }
}
