//! Our stack at one end of a link, the kernel's sockets at the other: the path over any link that can be waited for.
//!
//! The timed end is ours, a client. The other end is a thread with a socket of the kernel, which reads and answers what a slice orders.
//! It owns the kernel's side of the link as well: a network namespace with nothing but the link's device in it. A path over a link
//! makes the link there and opens a [`LinkSession`]; how frames move is the link's.

mod gated;

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;

use tollgate_link::xdp::Mode;
use tollgate_link::{Waitable, host};
use tollgate_run::{PathId, Workload};
use tollgate_stack::Pool;
use tollgate_stack::config::ChecksumPolicy;
use tollgate_stats::{Samples, Timing};

use crate::cores::Cores;
use crate::error::Error;
use crate::kernel::{
    Job, NO_CONGESTION, Options, ServerThread, accept, congestion_of, datagrams_with, listen_for,
};
use crate::link_kind::LinkKind;
use crate::namespace;
use crate::path::{Capabilities, Session, StackGates};
use crate::slice::{Control, OtherEnd};
use crate::spec::Spec;
use crate::stack_end::{Client, End, MODES};
use crate::stack_host::{self, CLIENT};

use gated::Gating;

/// Capabilities of every path over such a link.
pub(crate) const CAPABILITIES: Capabilities = Capabilities {
    workloads: Workload::ALL,
    modes: &MODES,
    round_trip_timing: Timing::Each,
    stream_timing: Timing::Batch(16),
    links: &[LinkKind::Ethernet],
};

/// The character of a link that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Character {
    /// A tap device.
    Tap,
    /// A packet socket.
    Packet {
        /// Bytes that may wait in the socket, as Linux counts them.
        buffer: usize,
        /// Bytes that were asked for.
        asked: usize,
    },
    /// AF_XDP.
    Xdp {
        /// The mode that was taken, the fastest of this device.
        mode: Mode,
        /// Faster ones, and why they cannot be had.
        refused: Vec<(Mode, String)>,
    },
}

/// Refuses what such a path cannot do.
///
/// # Errors
/// Those of [`Capabilities::check`]; [`Error::Unsupported`] for a stack without checksums, whose segments the kernel would drop.
pub(crate) fn check(path: PathId, spec: &Spec) -> Result<(), Error> {
    CAPABILITIES.check(path, spec)?;
    match spec.mechanisms.checksum {
        ChecksumPolicy::Always | ChecksumPolicy::RedundancyAvoidance => Ok(()),
        ChecksumPolicy::Off => Err(Error::Unsupported {
            path,
            asked: "without checksums: the kernel verifies them".to_owned(),
            has: "checksum=always, checksum=redundancy-avoidance".to_owned(),
        }),
    }
}

/// The kernel's side of a link: a network namespace with the link's device, an address on it, and nothing else.
#[derive(Debug)]
pub(crate) struct KernelSide {
    path: PathId,
    namespace: File,
    device: &'static str,
}

impl KernelSide {
    /// A new namespace for a device of this name.
    ///
    /// # Errors
    /// Those of the system; it takes root, or CAP_SYS_ADMIN.
    pub(crate) fn new(path: PathId, device: &'static str) -> Result<Self, Error> {
        Ok(Self {
            path,
            namespace: namespace::make(path)?,
            device,
        })
    }

    /// The path that it serves.
    pub(crate) const fn path(&self) -> PathId {
        self.path
    }

    /// Name of the device.
    pub(crate) const fn device(&self) -> &'static str {
        self.device
    }

    /// The inode by which its namespace is known.
    #[cfg(test)]
    pub(crate) fn inode(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        self.namespace.metadata().unwrap().ino()
    }

    /// Does something in the namespace, on a thread of its own.
    ///
    /// # Errors
    /// Those of the system, and those of the work.
    pub(crate) fn within<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        namespace::within(self.path, self.namespace.as_fd(), work)
    }

    /// Gives the device its address and MTU, and brings it up.
    ///
    /// # Errors
    /// Those of `ip`.
    pub(crate) fn bring_up(&self, mtu: usize) -> Result<(), Error> {
        self.within(|| {
            host::bring_up(self.device, self.address(), stack_host::PREFIX, mtu)
                .map_err(|error| namespace::set_up(self.path, error))
        })
    }

    /// The address of the kernel.
    pub(crate) fn address(&self) -> Ipv4Addr {
        *stack_host::server_address().ip()
    }
}

/// A session of our stack with a socket of the kernel.
pub(crate) struct LinkSession<L: Waitable> {
    // Ends first: its thread may sleep on a socket.
    server: ServerThread,
    client: Client<L>,
    side: KernelSide,
    cores: Cores,
    congestion: String,
    mtu: usize,
    /// Settings that the path adds.
    settings: Vec<(&'static str, String)>,
    /// None before the first slice past gates.
    gating: Option<Gating>,
    failed: bool,
}

impl<L: Waitable> LinkSession<L> {
    /// Brings both ends up: ours on `link`, whose IP packets have at most `mtu` bytes, with the pool whose frames it moves; the
    /// kernel's on the side's device.
    ///
    /// # Errors
    /// Those of the system and of the stack.
    pub(crate) fn open(
        spec: &Spec,
        side: KernelSide,
        link: (L, Pool),
        mtu: usize,
    ) -> Result<Self, Error> {
        let path = side.path;
        let cores = Cores::choose(spec.placement)?;
        let options = Options::of(spec);
        let (listeners, addresses) = side
            .within(|| listen_for(spec.workload, &options, side.address().into()))
            .map_err(|error| error.on(path))?;
        let mut end = End::new(path, spec, link, mtu, CLIENT)?;
        // The kernel answers the handshake by itself.
        end.connect(addresses[0], || Ok(()))?;
        let server =
            accept(&listeners[0], spec.waiting, &Control::new()).map_err(|error| error.on(path))?;
        let mut congestion = congestion_of(server.fd()).map_err(|error| error.on(path))?;
        let (job, listeners, wakes) = match spec.workload {
            Workload::Rr if spec.is_datagrams() => {
                // That connection was to resolve the addresses.
                end.close()?;
                end.poll();
                drop(server);
                end.closed(|| Ok(()))?;
                let ours = stack_host::client_address();
                let (server, to) = side
                    .within(|| datagrams_with(&options, side.address(), ours))
                    .map_err(|error| error.on(path))?;
                end.open_datagrams(spec, ours.port(), to.into())?;
                congestion = NO_CONGESTION.to_owned();
                // It does not learn from our end that the session is over.
                let wakes = server.again()?;
                (Job::Connection(server), Vec::new(), Some(wakes))
            }
            Workload::Rr | Workload::Stream => {
                // A process that is killed leaves no connection behind, which would keep the namespace for minutes.
                server.reset_on_close().map_err(|error| error.on(path))?;
                let wakes = server.again()?;
                (Job::Connection(server), Vec::new(), Some(wakes))
            }
            Workload::Crr => {
                // That connection was to resolve the addresses.
                end.close()?;
                end.poll();
                drop(server);
                end.closed(|| Ok(()))?;
                (Job::Listeners, listeners, None)
            }
        };
        let server = ServerThread::start(path, spec, options, cores.server, job, listeners, wakes)?;
        let timing = CAPABILITIES.timing(spec);
        Ok(Self {
            client: Client::new(spec, timing, cores.client, end, addresses),
            server,
            side,
            cores,
            congestion,
            mtu,
            settings: Vec::new(),
            gating: None,
            failed: false,
        })
    }

    /// Adds settings of the path's own.
    pub(crate) fn with_settings(mut self, settings: Vec<(&'static str, String)>) -> Self {
        self.settings = settings;
        self
    }

    /// The kernel's side.
    #[cfg(test)]
    pub(crate) const fn side(&self) -> &KernelSide {
        &self.side
    }

    /// The reason behind a failure: without its device a path fails in some way of its own.
    fn explain(&mut self, error: Error) -> Error {
        self.client.end.poll();
        if self.client.end.link().is_gone() {
            return Error::Vanished {
                path: self.side.path,
                device: self.side.device,
            };
        }
        // When the other end has failed, its reason says more than the closed connection on this side.
        self.server.check().err().unwrap_or(error)
    }
}

impl<L: Waitable> Session for LinkSession<L> {
    fn run(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Poisoned {
                path: self.side.path,
            });
        }
        samples.check_timing(self.client.timing())?;
        let outcome = self.client.slice(iterations, samples, &mut self.server);
        self.failed = outcome.is_err();
        outcome.map_err(|error| self.explain(error))
    }

    fn timing(&self) -> Timing {
        self.client.timing()
    }

    fn stack_gates(&mut self) -> Option<&mut dyn StackGates> {
        Some(self)
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let spec = self.client.spec();
        let checksums = self.client.end.checksums(spec);
        let mut settings = stack_host::settings(self.side.path, spec, self.mtu, checksums);
        settings.push(("congestion of the kernel's end", self.congestion.clone()));
        settings.push(("cores", self.cores.describe()));
        settings.push((
            "ends",
            "our stack and a socket of the kernel, two threads".to_owned(),
        ));
        settings.push((
            "device",
            format!("{}, in a network namespace of its own", self.side.device()),
        ));
        if spec.workload == Workload::Stream {
            settings.push((
                "writes",
                if self.client.end.link().gathers() {
                    "gathered into full segments, which leave in trains"
                } else {
                    "gathered into full segments, which leave one by one"
                }
                .to_owned(),
            ));
        }
        settings.extend(self.settings.iter().cloned());
        settings
    }
}

impl<L: Waitable> Drop for LinkSession<L> {
    fn drop(&mut self) {
        self.server.control().quit();
        // The other end may sleep in a call on its socket, which returns then.
        self.client.end.abort();
    }
}

#[cfg(test)]
pub(crate) mod tests;
