//! The small trait behind which kernel sockets, Tollgate's own sockets and peers stand.

use std::fmt;
use std::os::fd::BorrowedFd;

use tollgate_gate::{GateSet, Recorded};
use tollgate_kernel::Namespace;
use tollgate_run::{Mode, PathId, Workload};
use tollgate_stats::{Samples, Timing};

use crate::cell_faults::CellCounts;
use crate::error::Error;
use crate::input::InputCounts;
use crate::link_kind::LinkKind;
use crate::spec::Spec;
use crate::stack_gates::Fault;
use crate::stamps::Stamps;

/// Capabilities of a path: its workloads, modes, timings and links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The workloads that it runs.
    pub workloads: &'static [Workload],
    /// The ways in which it runs them, the usual one first.
    pub modes: &'static [Mode],
    /// The default timing of rr and crr: operations per reading of the clock.
    pub round_trip_timing: Timing,
    /// The default timing of stream.
    pub stream_timing: Timing,
    /// The links that its two stacks can be joined by.
    pub links: &'static [LinkKind],
}

impl Capabilities {
    /// Tells whether the path runs this workload in this way.
    pub fn allows(&self, spec: &Spec) -> bool {
        self.workloads.contains(&spec.workload)
            && self.modes.contains(&mode_of(spec))
            && self.links.contains(&spec.link)
    }

    /// The timing that a session for this spec will have.
    pub fn timing(&self, spec: &Spec) -> Timing {
        spec.timing.unwrap_or(match spec.workload {
            Workload::Rr | Workload::Crr => self.round_trip_timing,
            Workload::Stream => self.stream_timing,
        })
    }

    /// Refuses what the path cannot do.
    ///
    /// # Errors
    /// Those of [`Spec::check`], and [`Error::Unsupported`] which names what the path has.
    pub fn check(&self, path: PathId, spec: &Spec) -> Result<(), Error> {
        spec.check()?;
        if !self.workloads.contains(&spec.workload) {
            return Err(Error::Unsupported {
                path,
                asked: spec.workload.to_string(),
                has: join(self.workloads, ", "),
            });
        }
        if !self.modes.contains(&mode_of(spec)) {
            return Err(Error::Unsupported {
                path,
                asked: mode_of(spec).to_string(),
                // A mode's own words have a comma.
                has: join(self.modes, "; "),
            });
        }
        if !self.links.contains(&spec.link) {
            return Err(Error::Unsupported {
                path,
                asked: format!("over the link {}", spec.link),
                has: join(self.links, ", "),
            });
        }
        if spec.reverse && !(spec.workload == Workload::Stream && reverses(path)) {
            return Err(Error::Unsupported {
                path,
                asked: format!("{} towards the timed end", spec.workload),
                has: "stream over kernel-loopback, kernel-veth, stack-tap, stack-packet and stack-xdp".to_owned(),
            });
        }
        spec.sockets.check(path, spec)
    }
}

/// Tells whether a path has streams from the other end to the timed one ([`Spec::reverse`]).
pub const fn reverses(path: PathId) -> bool {
    match path {
        PathId::KernelLoopback
        | PathId::KernelVeth
        | PathId::StackTap
        | PathId::StackPacket
        | PathId::StackXdp => true,
        PathId::KernelRemote
        | PathId::StackMemory
        | PathId::StackShm
        | PathId::PeerSmoltcp
        | PathId::BareShm => false,
    }
}

fn mode_of(spec: &Spec) -> Mode {
    Mode {
        placement: spec.placement,
        waiting: spec.waiting,
    }
}

fn join<T: fmt::Display>(items: &[T], between: &str) -> String {
    items
        .iter()
        .map(T::to_string)
        .collect::<Vec<_>>()
        .join(between)
}

/// A way on which two ends talk.
pub trait Path: Sync {
    /// Its name.
    fn id(&self) -> PathId;

    /// The path's capabilities.
    fn capabilities(&self) -> Capabilities;

    /// Brings both ends up: connection established, the peer's thread or process started and asleep.
    ///
    /// The session stays on the thread that opened it, since a child process dies with the thread that started it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for what the path cannot do; else what the system refused.
    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error>;
}

/// Identification of a session's two ends for the kernel: threads and ports.
#[derive(Debug, Clone)]
pub struct KernelEnds<'a> {
    /// The thread of the end that is timed.
    pub client: u32,
    /// The thread of the other end.
    pub server: u32,
    /// The ports that the other end listens on, or listened on before it was connected.
    pub server_ports: Vec<u16>,
    /// The network namespaces of the ends where they are not that of the process.
    pub namespaces: Vec<BorrowedFd<'a>>,
    /// The boundaries of calls that the ends stamp themselves.
    pub stamps: &'a Stamps,
}

impl KernelEnds<'_> {
    /// The network namespaces in which gates see both ends.
    pub fn networks(&self) -> Vec<Namespace<'_>> {
        if self.namespaces.is_empty() {
            return vec![Namespace::Own];
        }
        self.namespaces
            .iter()
            .map(|&fd| Namespace::Of(fd))
            .collect()
    }
}

/// Round trips of a session past the gates of our stack, at the end that is timed.
pub trait StackGates {
    /// Puts a fault behind a gate, or takes it away, from the next slice on.
    fn set_fault(&mut self, fault: Option<Fault>);

    /// Number of times that the timed end slept in the round trips of the last slice.
    fn sleeps(&self) -> u64;

    /// Runs a slice through the code without gates, or past these, timed by the clock of [`gate_clock`](crate::gate_clock); `lap` gets the time of each round trip, in nanoseconds. The
    /// packet of each event is the number of its round trip in the slice.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for another workload than rr and for messages of more than one segment; else what went wrong on the
    /// path, after which the session only gives [`Error::Poisoned`].
    fn slice(
        &mut self,
        gates: Option<GateSet>,
        round_trips: u64,
        lap: &mut dyn FnMut(f64),
    ) -> Result<Recorded<'_>, Error>;
}

/// Two ends that are connected and wait for a slice of work. Between slices they burn no CPU.
pub trait Session {
    /// Runs `iterations` iterations and adds what they took to `samples`. An iteration is one round trip (rr, crr), or one
    /// write (stream).
    ///
    /// The calling thread is pinned for the time of the call where the path pins its ends.
    ///
    /// # Errors
    /// [`Error::Timing`] when `samples` is timed otherwise than the session; else what went wrong on the path, after which
    /// the session only gives [`Error::Poisoned`].
    fn run(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error>;

    /// The session's timing: operations per reading of the clock.
    fn timing(&self) -> Timing;

    /// The settings needed to repeat this session: the congestion control, Nagle, cores, as names and values.
    fn settings(&self) -> Vec<(&'static str, String)>;

    /// The threads and ports that the kernel's gates watch for this session; `None` where the kernel carries none of it.
    fn kernel_ends(&self) -> Option<KernelEnds<'_>> {
        None
    }

    /// Round trips past the gates of our stack; `None` where the timed end has none, or is measured otherwise.
    fn stack_gates(&mut self) -> Option<&mut dyn StackGates> {
        None
    }

    /// The segments that both ends have taken in since the session was opened, the timed end's first; `None` where Tollgate's stack
    /// carries none of it. To be asked between slices.
    fn input_counts(&self) -> Option<[InputCounts; 2]> {
        None
    }

    /// Counts of both adapters since the session was opened, where frames become cells. To be asked between slices.
    fn cell_counts(&self) -> Option<CellCounts> {
        None
    }

    /// Empty samples of this session's timing.
    fn new_samples(&self) -> Samples {
        Samples::new(self.timing())
    }
}
