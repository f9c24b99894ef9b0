//! Names of paths, workloads and modes: what is written in runs, tables and on the command line.
//!
//! It owns the words; what they stand for is done elsewhere.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A name that is none of those known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{given}`; known: {known}")]
pub struct Unknown {
    /// The kind of name: "path", "workload", "placement", "waiting".
    pub what: &'static str,
    /// The name that was given.
    pub given: String,
    /// The names that exist, separated by commas.
    pub known: String,
}

/// Gives an enum of names its `ALL`, `name`, `Display` and `FromStr`.
#[macro_export]
macro_rules! names {
    ($type:ident, $what:literal, $($variant:ident => $name:literal),+) => {
        impl $type {
            /// All of them, in the order in which tables show them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name that users write and read.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::Unknown;

            fn from_str(given: &str) -> Result<Self, $crate::Unknown> {
                Self::ALL.iter().copied().find(|one| one.name() == given).ok_or_else(|| $crate::Unknown {
                    what: $what,
                    given: given.to_owned(),
                    known: Self::ALL.iter().map(|one| one.name()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

/// Work of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Request-response on one connection: `size` bytes there, `size` bytes back. An iteration is a round trip.
    Rr,
    /// Connect, request, response, close. An iteration is all of it, until both ends have seen the other's FIN.
    Crr,
    /// One way: an iteration is one write of `size` bytes. The slice ends when the reader has read all and said so with
    /// a byte of its own.
    Stream,
}

/// Placement of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Both ends on the same core.
    OneCore,
    /// Each end on a core of its own.
    TwoCores,
}

/// Waiting of one end for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// It sleeps until it is woken.
    Blocking,
    /// It asks again and again.
    BusyPoll,
}

/// The name of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathId {
    /// Linux TCP over 127.0.0.1.
    KernelLoopback,
    /// Linux TCP between two network namespaces over a veth pair.
    KernelVeth,
    /// Linux TCP to another host, where `tollgate serve` runs the other end.
    KernelRemote,
    /// Two of Tollgate's stacks in one thread over a memory link.
    StackMemory,
    /// Two of Tollgate's stacks in two processes over shared memory.
    StackShm,
    /// One of Tollgate's stacks over a tap device, Linux TCP at the other end.
    StackTap,
    /// One of Tollgate's stacks on a veth pair by a packet socket, Linux TCP at the other end.
    StackPacket,
    /// One of Tollgate's stacks on a veth pair by AF_XDP, Linux TCP at the other end.
    StackXdp,
    /// Two smoltcp interfaces in one thread over a memory link.
    PeerSmoltcp,
    /// Two processes that copy messages through shared memory with no protocol at all: the floor of `stack-shm`.
    BareShm,
}

/// One way in which a path can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mode {
    /// The placement of the ends.
    pub placement: Placement,
    /// Waiting of the ends.
    pub waiting: Waiting,
}

/// Offloads by the devices of a path for the protocol; [`Offload::Usual`] leaves them as the kernel makes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offload {
    /// Devices as the kernel makes them.
    #[default]
    Usual,
    /// They take checksums off the protocol, and segmentation both ways: TSO, GSO and GRO are on.
    Both,
    /// They take checksums off the protocol; each segment passes alone.
    Checksum,
    /// The protocol computes every checksum, and each segment passes alone.
    Neither,
}

names!(Workload, "workload", Rr => "rr", Crr => "crr", Stream => "stream");
names!(Placement, "placement", OneCore => "one-core", TwoCores => "two-cores");
names!(Waiting, "waiting", Blocking => "blocking", BusyPoll => "busy-poll");
names!(Offload, "offload", Usual => "usual", Both => "both", Checksum => "checksum", Neither => "neither");
names!(PathId, "path",
    KernelLoopback => "kernel-loopback",
    KernelVeth => "kernel-veth",
    KernelRemote => "kernel-remote",
    StackMemory => "stack-memory",
    StackShm => "stack-shm",
    StackTap => "stack-tap",
    StackPacket => "stack-packet",
    StackXdp => "stack-xdp",
    PeerSmoltcp => "peer-smoltcp",
    BareShm => "bare-shm");

impl PathId {
    /// Tells whether one of Tollgate's stacks has Linux at the other end of a link. Such a session makes devices and namespaces.
    #[must_use]
    pub const fn is_stack_beside_linux(self) -> bool {
        matches!(self, Self::StackTap | Self::StackPacket | Self::StackXdp)
    }

    /// Tells whether the path runs over sockets of the kernel.
    #[must_use]
    pub const fn is_kernel(self) -> bool {
        matches!(
            self,
            Self::KernelLoopback | Self::KernelVeth | Self::KernelRemote
        )
    }
}

impl Mode {
    /// The mode in tables and sentences, like `2 cores, polling`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match (self.placement, self.waiting) {
            (Placement::OneCore, Waiting::Blocking) => "1 core, blocking",
            (Placement::OneCore, Waiting::BusyPoll) => "1 core, polling",
            (Placement::TwoCores, Waiting::Blocking) => "2 cores, blocking",
            (Placement::TwoCores, Waiting::BusyPoll) => "2 cores, polling",
        }
    }

    /// The mode by the names of its parts, like `two-cores busy-poll`.
    fn spelled(self) -> String {
        format!("{} {}", self.placement, self.waiting)
    }

    /// All modes.
    pub const ALL: [Self; 4] = {
        const fn mode(placement: Placement, waiting: Waiting) -> Mode {
            Mode { placement, waiting }
        }
        [
            mode(Placement::TwoCores, Waiting::Blocking),
            mode(Placement::TwoCores, Waiting::BusyPoll),
            mode(Placement::OneCore, Waiting::Blocking),
            mode(Placement::OneCore, Waiting::BusyPoll),
        ]
    };
}

/// The path and the mode that a row or a heading of a run names: `kernel-loopback, 2 cores, polling`. None where it names anything
/// beside, like an MTU. Older runs write `kernel-loopback two-cores busy-poll`, which is read, too.
///
/// ```
/// use tollgate_run::{Mode, PathId, Placement, Waiting, path_and_mode};
/// let mode = Mode { placement: Placement::OneCore, waiting: Waiting::Blocking };
/// assert_eq!(path_and_mode("kernel-veth, 1 core, blocking"), Some((PathId::KernelVeth, mode)));
/// assert_eq!(path_and_mode("kernel-veth one-core blocking"), Some((PathId::KernelVeth, mode)));
/// assert_eq!(path_and_mode("kernel-veth, 1 core, blocking, MTU 9000"), None);
/// ```
#[must_use]
pub fn path_and_mode(label: &str) -> Option<(PathId, Mode)> {
    let end = label.find([',', ' '])?;
    let (path, mode) = label.split_at(end);
    let mode = mode.trim_start_matches([',', ' ']);
    let named = |one: &&Mode| one.words() == mode || one.spelled() == mode;
    Some((path.parse().ok()?, *Mode::ALL.iter().find(named)?))
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.words())
    }
}

/// Puts [`Mode::words`] in place of the spelling of older runs.
///
/// ```
/// use tollgate_run::with_words_of_modes;
/// assert_eq!(with_words_of_modes("kernel-veth two-cores busy-poll"), "kernel-veth, 2 cores, polling");
/// assert_eq!(with_words_of_modes("4 B, one-core blocking: 2 us"), "4 B, 1 core, blocking: 2 us");
/// ```
#[must_use]
pub fn with_words_of_modes(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    for mode in Mode::ALL {
        let spelled = mode.spelled();
        if text.contains(&spelled) {
            let words = format!(", {}", mode.words());
            let replaced = text.replace(&format!(", {spelled}"), &words);
            text = Cow::Owned(replaced.replace(&format!(" {spelled}"), &words));
        }
    }
    text
}
