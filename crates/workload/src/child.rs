//! The second process of paths that have two: how it is started, ordered about, and ended.
//!
//! The program starts itself again (`/proc/self/exe`) with its orders in an environment variable: a role, the spec, and the
//! numbers of two inherited memory files, one with the [`Control`] and one for the role's own use. `main` calls
//! [`maybe_run`](crate::maybe_run) before anything else, which takes over in such a process. The child dies with the thread that started it
//! (PR_SET_PDEATHSIG, prctl(2)) and is reaped when [`Child`] is dropped.
//!
//! A new path with two processes adds its [`Role`] to the list in `paths`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use tollgate_gate::TscRate;
use tollgate_run::PathId;

use crate::clock::{self, gate_clock};
use crate::cores;
use crate::error::Error;
use crate::shared_memory::SharedMemory;
use crate::slice::{Control, OtherEnd, Server};
use crate::spec::Spec;

/// The environment variable that carries a child's orders, as JSON.
pub const ORDERS: &str = "TOLLGATE_CHILD";

/// Time that a child gets to end by itself before it is killed.
const GRACE: Duration = Duration::from_millis(200);

/// Something that a child process can be.
#[derive(Debug, Clone, Copy)]
pub struct Role {
    /// Its name in the orders.
    pub name: &'static str,
    /// The body: serves slices until [`Server::next_order`] gives `None`. Its error reaches the parent.
    pub serve: fn(ChildEnd<'_>) -> Result<(), Error>,
}

/// Resources of a role. The process is already pinned to its core.
#[derive(Debug)]
pub struct ChildEnd<'a> {
    /// The order for the session.
    pub spec: Spec,
    /// The role's own memory file.
    pub memory: OwnedFd,
    /// The words that both ends share; look at [`Control::is_quit`] in busy-polling loops.
    pub control: &'a Control,
    /// Takes the orders.
    pub server: Server<'a>,
    /// The core that it is pinned to.
    pub core: usize,
}

/// A child's orders.
#[derive(Debug, Serialize, Deserialize)]
struct Orders {
    role: String,
    spec: Spec,
    control: RawFd,
    memory: RawFd,
    core: usize,
    parent: i32,
    /// The rate of the TSC (ticks per second) and the bound on its error (millionths), where the parent reads it.
    tsc: Option<(u64, f64)>,
}

/// Tells whether `maybe_run` has been called in this process, so that a child of it will find its way.
static ENTRY: AtomicBool = AtomicBool::new(false);

/// Takes over when this process is such a child, with one of these roles; see [`maybe_run`](crate::maybe_run).
pub(crate) fn take_over(roles: &[Role]) -> Option<Result<(), Error>> {
    let Some(orders) = std::env::var_os(ORDERS) else {
        ENTRY.store(true, Ordering::Release);
        return None;
    };
    let Some(orders) = orders
        .to_str()
        .and_then(|text| serde_json::from_str::<Orders>(text).ok())
    else {
        return Some(Err(orders_error(format!(
            "{ORDERS} holds no orders that can be read; unset it"
        ))));
    };
    Some(run(&orders, roles))
}

fn orders_error(reason: String) -> Error {
    Error::ChildOrders { reason }
}

fn run(orders: &Orders, roles: &[Role]) -> Result<(), Error> {
    // The parent may have died before the child asked to die with it.
    if getppid().map(Pid::as_raw_nonzero).map(i32::from) != Some(orders.parent) {
        return Err(orders_error(
            "the process that started it is gone".to_owned(),
        ));
    }
    if let Some((hz, error_ppm)) = orders.tsc {
        clock::take_rate(TscRate { hz, error_ppm });
    }
    let control = SharedMemory::open(inherited(orders.control)?, size_of::<Control>())
        .map_err(|error| orders_error(format!("control memory: {error}")))?;
    let memory = inherited(orders.memory)?;
    let control = control_in(&control);
    let server = Server::new(control);
    let outcome = roles
        .iter()
        .find(|role| role.name == orders.role)
        .ok_or_else(|| orders_error(format!("unknown role `{}`", orders.role)))
        .and_then(|role| {
            cores::pin(orders.core).map_err(|error| {
                orders_error(format!("pinning to CPU {}: {error}", orders.core))
            })?;
            (role.serve)(ChildEnd {
                spec: orders.spec.clone(),
                memory,
                control,
                server: Server::new(control),
                core: orders.core,
            })
        });
    if let Err(error) = &outcome {
        server.fail(&error.to_string());
    }
    outcome
}

/// Takes over a descriptor that the parent has left open, and keeps it from any process further down.
fn inherited(number: RawFd) -> Result<OwnedFd, Error> {
    if number <= 2 {
        return Err(orders_error(format!(
            "descriptor {number} is one of the standard ones"
        )));
    }
    // SAFETY: only looked at here, to learn whether it is open; nothing else in this process uses it, since `main` has
    // done nothing before.
    let there = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl_setfd(there, FdFlags::CLOEXEC)
        .map_err(|error| orders_error(format!("descriptor {number}: {error}")))?;
    // SAFETY: it is open, as was just seen, and the parent left it open for this owner alone.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn control_in(memory: &SharedMemory) -> &Control {
    debug_assert!(memory.len() >= size_of::<Control>());
    // SAFETY: the mapping starts at a page, is at least as long as a control (checked where it is opened or created), lives
    // as long as the reference, and holds only atomics, for which every bit pattern is valid.
    unsafe { memory.as_ptr().cast::<Control>().as_ref() }
}

/// A child process that serves slices. Dropping it ends and reaps it.
#[derive(Debug)]
pub struct Child {
    path: PathId,
    process: std::process::Child,
    control: SharedMemory,
}

impl Child {
    /// Starts this program again in the role, pinned to `core`, with `memory` inherited.
    ///
    /// # Errors
    /// [`Error::NoChildEntry`] when this program's `main` does not call [`maybe_run`](crate::maybe_run); else what the system says.
    pub fn spawn(
        path: PathId,
        role: &str,
        spec: &Spec,
        memory: BorrowedFd<'_>,
        core: usize,
    ) -> Result<Self, Error> {
        if !ENTRY.load(Ordering::Acquire) {
            return Err(Error::NoChildEntry { path });
        }
        let control = SharedMemory::create("tollgate-control", size_of::<Control>())
            .map_err(|error| Error::system(path, "making the control memory", error))?;
        // Copies with high numbers: the originals could be among the standard three.
        let copies = [control.as_fd(), memory].map(|fd| {
            rustix::io::fcntl_dupfd_cloexec(fd, 3)
                .map_err(|e| Error::system(path, "duplicating memfd", e))
        });
        let [control_copy, memory_copy] = copies;
        let (control_copy, memory_copy) = (control_copy?, memory_copy?);
        let orders = Orders {
            role: role.to_owned(),
            spec: spec.clone(),
            control: control_copy.as_raw_fd(),
            memory: memory_copy.as_raw_fd(),
            core,
            parent: getpid().as_raw_nonzero().into(),
            tsc: gate_clock().rate().map(|rate| (rate.hz, rate.error_ppm)),
        };
        let orders = serde_json::to_string(&orders).map_err(|error| {
            Error::system(path, "writing a child's orders", io::Error::from(error))
        })?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(format!("tollgate-{role}"))
            .env(ORDERS, orders)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let (control_fd, memory_fd) = (control_copy.as_raw_fd(), memory_copy.as_raw_fd());
        let prepare = move || {
            for number in [control_fd, memory_fd] {
                // SAFETY: both copies are open until the parent has spawned, and the child has the same numbers.
                let fd = unsafe { BorrowedFd::borrow_raw(number) };
                fcntl_setfd(fd, FdFlags::empty())?;
            }
            set_parent_process_death_signal(Some(Signal::KILL))?;
            Ok(())
        };
        // SAFETY: between fork and exec `prepare` only makes system calls; it allocates nothing and takes no lock.
        unsafe { command.pre_exec(prepare) };
        let process = command
            .spawn()
            .map_err(|error| Error::system(path, "starting a second process", error))?;
        Ok(Self {
            path,
            process,
            control,
        })
    }

    /// The words that both ends share.
    pub fn control(&self) -> &Control {
        control_in(&self.control)
    }

    /// The child's process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Orders a slice and waits until the child stands ready.
    ///
    /// # Errors
    /// Those of [`Control::begin`].
    pub fn begin(&mut self, iterations: u64) -> Result<(), Error> {
        let process = &mut self.process;
        control_in(&self.control).begin(self.path, iterations, || alive(process))
    }

    /// Waits until the child has finished the slice.
    ///
    /// # Errors
    /// Those of [`Control::finish`].
    pub fn finish(&mut self) -> Result<(), Error> {
        let process = &mut self.process;
        control_in(&self.control).finish(self.path, || alive(process))
    }

    /// Tells whether the child still runs and has not failed; to be asked now and then while busy polling.
    ///
    /// # Errors
    /// [`Error::Peer`] with how it died or what it said.
    pub fn check(&mut self) -> Result<(), Error> {
        let path = self.path;
        if let Some(reason) = self.control().failure() {
            return Err(Error::Peer { path, reason });
        }
        alive(&mut self.process).map_err(|reason| Error::Peer { path, reason })
    }
}

/// Tells whether the process still runs, else how it ended.
fn alive(process: &mut std::process::Child) -> Result<(), String> {
    match process.try_wait() {
        Ok(None) => Ok(()),
        Ok(Some(status)) => Err(format!("the second process ended ({status})")),
        Err(error) => Err(format!("the second process cannot be asked: {error}")),
    }
}

impl OtherEnd for Child {
    fn begin(&mut self, iterations: u64) -> Result<(), Error> {
        self.begin(iterations)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.finish()
    }

    fn check(&mut self) -> Result<(), Error> {
        self.check()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.control().quit();
        let deadline = Instant::now() + GRACE;
        while matches!(self.process.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                // It fails only for a process that has ended, and then the wait below reaps it.
                let _ = self.process.kill();
                let _ = self.process.wait();
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_run::{Placement, Waiting, Workload};

    #[test]
    fn a_program_without_the_entry_starts_no_child() {
        let spec = Spec::new(Workload::Rr, 4).with_mode(Placement::TwoCores, Waiting::BusyPoll);
        let memory = SharedMemory::create("tollgate-test", 4096).unwrap();
        let error =
            Child::spawn(PathId::BareShm, "bare-shm", &spec, memory.as_fd(), 0).unwrap_err();
        assert_eq!(
            error.to_string(),
            "bare-shm needs a second process; the program's main must call tollgate_workload::maybe_run() first"
        );
    }

    #[test]
    fn standard_descriptors_and_closed_ones_are_not_taken_over() {
        for number in [-1, 0, 1, 2, 1_000_000] {
            assert!(
                matches!(inherited(number), Err(Error::ChildOrders { .. })),
                "{number}"
            );
        }
    }
}
