//! Network namespaces of a run's own: made, entered, and set up by `ip` of iproute2.
//!
//! They have no names: threads that end at once make them, and they live as long as a descriptor, a socket or a device of this process
//! is in them. So whatever ends the process, SIGKILL too, the kernel takes all of it away. A later run has nothing to look for.

use std::fs::File;
use std::os::fd::BorrowedFd;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use tollgate_link::host::{self, SetupError};
use tollgate_run::PathId;

use crate::error::Error;

/// The calling thread's network namespace.
pub(crate) fn own(path: PathId) -> Result<File, Error> {
    File::open("/proc/thread-self/ns/net")
        .map_err(|error| Error::system(path, "opening a network namespace", error))
}

/// A new network namespace without a name.
pub(crate) fn make(path: PathId) -> Result<File, Error> {
    on_a_thread(path, || {
        // SAFETY: the thread gets a network namespace of its own and shares everything else as before.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.map_err(|error| {
            Error::system(
                path,
                "making a network namespace (it takes root, or CAP_SYS_ADMIN)",
                error,
            )
        })?;
        own(path)
    })
}

/// Moves the calling thread into a namespace.
pub(crate) fn enter(path: PathId, namespace: BorrowedFd<'_>) -> Result<(), Error> {
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
        .map_err(|error| Error::system(path, "entering a network namespace", error))
}

/// Does something in a namespace, on a thread of its own.
pub(crate) fn within<T: Send>(
    path: PathId,
    namespace: BorrowedFd<'_>,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    on_a_thread(path, || {
        enter(path, namespace)?;
        work()
    })
}

/// Runs `work` on a thread of its own, whose namespace ends with it.
fn on_a_thread<T: Send>(
    path: PathId,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    std::thread::scope(|scope| {
        scope.spawn(work).join().unwrap_or_else(|_| {
            Err(Error::Peer {
                path,
                reason: "a thread in its namespace has panicked".to_owned(),
            })
        })
    })
}

/// Runs `ip` in the calling thread's namespace.
pub(crate) fn ip(path: PathId, arguments: &[&str]) -> Result<(), Error> {
    host::ip(arguments).map_err(|error| set_up(path, error))
}

/// The failure to set up a device of a path.
pub(crate) fn set_up(path: PathId, error: SetupError) -> Error {
    match error {
        SetupError::NoIp(error) => Error::system(path, "running `ip` (install iproute2)", error),
        error => Error::Peer {
            path,
            reason: error.to_string(),
        },
    }
}

/// Holders of a network namespace: processes and threads in it, descriptors, mounts.
#[cfg(test)]
pub(crate) fn holders(inode: u64) -> Vec<String> {
    let name = format!("net:[{inode}]");
    let mut found = Vec::new();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(
        mounts
            .lines()
            .filter(|line| line.contains(&name))
            .map(str::to_owned),
    );
    // Processes come and go while they are looked through.
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let process = process.path();
        let tasks = std::fs::read_dir(process.join("task"))
            .into_iter()
            .flatten()
            .flatten();
        let descriptors = std::fs::read_dir(process.join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        found.extend(
            tasks
                .map(|task| task.path().join("ns/net"))
                .chain(descriptors.map(|entry| entry.path()))
                .filter(|path| {
                    std::fs::read_link(path).is_ok_and(|to| to.as_os_str() == name.as_str())
                })
                .map(|path| path.display().to_string()),
        );
    }
    found
}
