//! Names that a user gives to a process, a control group or an interface, resolved to the ids that the programs know.
//! Reads /proc and asks the kernel, changes nothing.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketType};

use crate::ethtool;

/// Something that was asked for cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum ScopeError {
    /// No such process.
    #[error("there is no process {0}")]
    Process(u32),
    /// Processes have other numbers here than the programs see.
    #[error(
        "tollgate runs in a process namespace of its own (a container), where process {0} has another number than the kernel's programs see; \
         run it outside, or with --cgroup instead of --pid"
    )]
    Namespace(u32),
    /// No such interface.
    #[error("there is no interface {name} in this network namespace; there are {known}")]
    Interface {
        /// Name that was asked for.
        name: String,
        /// Those that are there.
        known: String,
    },
    /// The kernel lists no interfaces.
    #[error("the interfaces of this network namespace cannot be listed: {0}")]
    Interfaces(#[source] io::Error),
    /// No cgroup2 hierarchy.
    #[error("no cgroup2 hierarchy is mounted here, and sockets belong to no other")]
    Hierarchy,
    /// No such control group.
    #[error("there is no control group {} ({source}); give its path below {}", path.display(), root.display())]
    Cgroup {
        /// Path that was tried.
        path: PathBuf,
        /// The mount point of cgroup2.
        root: PathBuf,
        /// Error of the system.
        #[source]
        source: io::Error,
    },
}

/// The process namespace in which all processes have a number, the one that programs see; `PROC_PID_INIT_INO` of linux/proc_ns.h.
const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;

/// The number by which programs know a process.
///
/// # Errors
/// [`ScopeError::Process`], [`ScopeError::Namespace`].
pub fn process(pid: u32) -> Result<u32, ScopeError> {
    let is_there = Path::new(&format!("/proc/{pid}")).is_dir();
    number(pid, is_there, process_namespace())
}

fn process_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(FIRST_NAMESPACE, |file| file.ino())
}

/// Tells whether processes and threads have the numbers here that programs see.
#[cfg(feature = "bpf")]
pub(crate) fn is_first_process_namespace() -> bool {
    process_namespace() == FIRST_NAMESPACE
}

fn number(pid: u32, is_there: bool, namespace: u64) -> Result<u32, ScopeError> {
    match is_there {
        false => Err(ScopeError::Process(pid)),
        true if namespace != FIRST_NAMESPACE => Err(ScopeError::Namespace(pid)),
        true => Ok(pid),
    }
}

/// The number of an interface of this network namespace.
///
/// # Errors
/// [`ScopeError::Interface`], [`ScopeError::Interfaces`].
pub fn interface(name: &str) -> Result<u32, ScopeError> {
    let mut all = interfaces()?;
    all.sort_by(|one, other| one.1.cmp(&other.1));
    let found = all.iter().find(|(_, known)| known == name);
    found.map(|(number, _)| *number).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|(_, name)| name.as_str()).collect();
        ScopeError::Interface {
            name: name.to_owned(),
            known: known.join(", "),
        }
    })
}

fn names(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Drivers of interfaces that wrap packets up, so that no gate finds the segment in what they send.
const TUNNELS: [&str; 20] = [
    "amt",
    "bareudp",
    "erspan",
    "geneve",
    "gre",
    "gretap",
    "gtp",
    "ip6erspan",
    "ip6gre",
    "ip6gretap",
    "ip6tnl",
    "ipip",
    "macsec",
    "ovpn",
    "sit",
    "vti",
    "vti6",
    "vxlan",
    "wireguard",
    "xfrm",
];

/// Interfaces of this network namespace by which segments go to other hosts and come from them: those with a device behind them, those
/// with a program (tun, tap), and tunnels.
///
/// # Errors
/// [`ScopeError::Interfaces`].
pub fn wires() -> Result<Vec<u32>, ScopeError> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)
        .map_err(|error| ScopeError::Interfaces(error.into()))?;
    let is_wire = |name: &str| {
        // Those without a driver lead nowhere but to this host.
        ethtool::driver(&socket, name)
            .is_ok_and(|[driver, bus]| TUNNELS.contains(&&*driver) || !matches!(&*bus, "" | "N/A"))
    };
    let all = interfaces()?.into_iter();
    Ok(all
        .filter(|(_, name)| is_wire(name))
        .map(|(number, _)| number)
        .collect())
}

/// Numbers and names of the interfaces of this network namespace. Asked of the kernel: /sys shows the namespace in which it was mounted.
fn interfaces() -> Result<Vec<(u32, String)>, ScopeError> {
    // SAFETY: an array that is ours until it is freed below.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Err(ScopeError::Interfaces(io::Error::last_os_error()));
    }
    let entries = (0..).map(|at| {
        // SAFETY: at most at the last entry, which has no name.
        let entry = unsafe { list.add(at) };
        // SAFETY: as before.
        unsafe { entry.read() }
    });
    let interfaces = entries
        .take_while(|one| !one.if_name.is_null())
        .map(|one| {
            // SAFETY: a name that ends with a zero and lives until the array is freed.
            let name = unsafe { CStr::from_ptr(one.if_name) };
            (one.if_index, name.to_string_lossy().into_owned())
        })
        .collect();
    // SAFETY: from if_nameindex(), and not used from here on.
    unsafe { libc::if_freenameindex(list) };
    Ok(interfaces)
}

/// The ids of a control group of cgroup2 and of all below it. A path is looked for below the mount, or as it is when it lies there.
///
/// # Errors
/// [`ScopeError::Hierarchy`], [`ScopeError::Cgroup`].
pub fn cgroups(path: &Path) -> Result<Vec<u64>, ScopeError> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let root = hierarchy(&mounts).ok_or(ScopeError::Hierarchy)?;
    let path = if path.starts_with(&root) {
        path.to_owned()
    } else {
        root.join(path.strip_prefix("/").unwrap_or(path))
    };
    let mut ids = Vec::new();
    below(&path, &mut ids).map_err(|source| ScopeError::Cgroup {
        path: path.clone(),
        root,
        source,
    })?;
    Ok(ids)
}

pub(crate) fn hierarchy(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (path, kind) = (fields.nth(1)?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    })
}

fn below(directory: &Path, ids: &mut Vec<u64>) -> io::Result<()> {
    ids.push(fs::metadata(directory)?.ino());
    for entry in fs::read_dir(directory)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // A group that goes away meanwhile has nothing to observe.
            let _ = below(&entry.path(), ids);
        }
    }
    Ok(())
}

/// The number of this process's network namespace.
pub fn namespace() -> u32 {
    fs::metadata("/proc/self/ns/net").map_or(0, |file| file.ino() as u32)
}

/// The other network namespaces in which processes run, at most `most` of them.
pub fn other_namespaces(most: usize) -> Vec<OwnedFd> {
    let mut known = BTreeSet::from([u64::from(namespace())]);
    let mut namespaces = Vec::new();
    for pid in names("/proc")
        .iter()
        .filter(|name| name.parse::<u32>().is_ok())
    {
        let path = format!("/proc/{pid}/ns/net");
        let Ok(about) = fs::metadata(&path) else {
            continue;
        };
        if namespaces.len() < most
            && known.insert(about.ino())
            && let Ok(file) = fs::File::open(&path)
        {
            namespaces.push(file.into());
        }
    }
    namespaces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup2_hierarchy_is_found_among_others() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(hierarchy(mounts), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(hierarchy("tmpfs / tmpfs rw 0 0\n"), None);
    }

    #[test]
    fn what_is_not_there_is_named() {
        assert_eq!(
            interface("no/such")
                .unwrap_err()
                .to_string()
                .find("no/such"),
            Some(22)
        );
        assert!(process(u32::MAX).is_err());
        assert!(namespace() > 0);
    }

    #[test]
    fn process_of_another_namespace_is_refused() {
        assert_eq!(number(7, true, FIRST_NAMESPACE).unwrap(), 7);
        let error = number(7, true, FIRST_NAMESPACE + 5).unwrap_err();
        assert!(matches!(error, ScopeError::Namespace(7)), "{error}");
        let error = number(7, false, FIRST_NAMESPACE + 5).unwrap_err();
        assert!(matches!(error, ScopeError::Process(7)), "{error}");
    }

    #[test]
    fn control_groups_below_count_too() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("a/b")).unwrap();
        fs::write(directory.path().join("cgroup.procs"), "").unwrap();
        let mut ids = Vec::new();
        below(directory.path(), &mut ids).unwrap();
        assert_eq!(ids.len(), 3);
    }
}
