//! Trials of the kinds of hooks that no gate is taken with.
//!
//! Hooks of interfaces are tried on the loopback device of a network namespace of its own, which ends with the thread
//! that made it. Hooks of control groups are tried on the process's own, with programs that let everything pass.
//! Nothing stays attached.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::btf::{Btf, types};
use libbpf_rs::{ErrorKind, Object, ObjectBuilder, ProgramMut, TC_EGRESS, TcHookBuilder};
use perf_event_open_sys as sys;
use perf_event_open_sys::bindings::perf_event_attr;

use crate::gates::find;
use crate::hook_support::{HookSupport, Kind};
use crate::plan::KernelFeature;
use crate::programs::{Aligned, error_text, listen};
use crate::scope;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(
    env!("OUT_DIR"),
    "/hook_support.bpf.o"
)));

/// The loopback device is the first of every network namespace (LOOPBACK_IFINDEX of net/loopback.h).
const LOOPBACK: i32 = 1;
/// File with the number of the kernel's PMU for kprobes.
const KPROBE_TYPE: &str = "/sys/bus/event_source/devices/kprobe/type";
/// Function that sock_ops programs call to ask for stamps.
const STAMPS: &str = "bpf_sock_ops_enable_tx_tstamp";
/// A function that every kernel with TCP has.
const PROBED: &str = "tcp_v4_rcv";

/// Tries each kind. Takes some tens of milliseconds.
pub fn hook_support() -> Vec<HookSupport> {
    Kind::ALL
        .into_iter()
        .map(|kind| HookSupport {
            kind,
            support: match attempt(kind) {
                Ok(()) => KernelFeature::Works,
                Err(reason) => KernelFeature::Refused(reason),
            },
        })
        .collect()
}

fn attempt(kind: Kind) -> Result<(), String> {
    match kind {
        Kind::CgroupPackets => at_cgroup("cgroup_packets"),
        Kind::SocketOperations => at_cgroup("socket_operations"),
        Kind::SocketStamps => {
            let known = Btf::from_vmlinux()
                .is_ok_and(|kernel| kernel.type_by_name::<types::Func<'_>>(STAMPS).is_some());
            if known {
                load("socket_stamps").map(drop)
            } else {
                Err(format!(
                    "this kernel has no {STAMPS}, which came with Linux 6.15"
                ))
            }
        }
        Kind::TcExpress => in_new_namespace(|| {
            let object = load("tc_express")?;
            let program = the_program(&object, "tc_express")?;
            link(&program, libbpf_sys::BPF_TCX_EGRESS).map_err(|error| {
                let unknown = error.raw_os_error() == Some(libc::EINVAL);
                let hint = if unknown {
                    "; they came with Linux 6.6"
                } else {
                    ""
                };
                format!("{error}{hint}")
            })
        }),
        Kind::TcClassic => in_new_namespace(|| {
            let object = load("tc_classic")?;
            let program = the_program(&object, "tc_classic")?;
            let hook = |error| format!("{error:#}");
            // The discipline goes with the namespace.
            let mut clsact = TcHookBuilder::new(program.as_fd())
                .ifindex(LOOPBACK)
                .handle(1)
                .priority(1)
                .hook(TC_EGRESS);
            clsact.create().map_err(|error| match error.kind() {
                ErrorKind::NotFound => {
                    "this kernel has no clsact (the module sch_ingress)".to_owned()
                }
                _ => hook(error),
            })?;
            clsact.attach().map(drop).map_err(hook)
        }),
        Kind::Xdp => in_new_namespace(|| {
            let object = load("driver_receives")?;
            let program = the_program(&object, "driver_receives")?;
            link(&program, libbpf_sys::BPF_XDP).map_err(|error| error.to_string())
        }),
        Kind::Kprobes => kprobe(),
    }
}

/// Loads one program of the object.
fn load(name: &str) -> Result<Object, String> {
    listen();
    let mut open = ObjectBuilder::default()
        .name("tollgate_offers")
        .and_then(|builder| builder.open_memory(&OBJECT.0))
        .map_err(|error| error_text(&error))?;
    for mut program in open.progs_mut() {
        let wanted = program.name().to_string_lossy() == name;
        program.set_autoload(wanted);
    }
    open.load().map_err(|error| error_text(&error))
}

/// The program of this name, which was loaded.
fn the_program<'a>(object: &'a Object, name: &str) -> Result<ProgramMut<'a>, String> {
    find(object, name).ok_or_else(|| format!("there is no program {name}"))
}

/// Attaches a program to the loopback device of the thread's namespace, and detaches it again.
fn link(program: &ProgramMut<'_>, at: libbpf_sys::bpf_attach_type) -> io::Result<()> {
    // SAFETY: both descriptors are plain numbers, and options need not be given.
    let link = unsafe {
        libbpf_sys::bpf_link_create(program.as_fd().as_raw_fd(), LOOPBACK, at, std::ptr::null())
    };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: the descriptor is new and nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(link) });
    Ok(())
}

/// Attaches a program to the control group of this process, and detaches it again.
fn at_cgroup(name: &str) -> Result<(), String> {
    let path = own_cgroup()?;
    let group = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let object = load(name)?;
    the_program(&object, name)?
        .attach_cgroup(group.as_raw_fd())
        .map(drop)
        .map_err(|error| format!("{}: {error:#}", path.display()))
}

/// The directory of this process's control group in the cgroup2 hierarchy.
fn own_cgroup() -> Result<PathBuf, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let root = scope::hierarchy(&read("/proc/self/mounts")?)
        .ok_or("no cgroup2 hierarchy is mounted here")?;
    Ok(inside(&root, &read("/proc/self/cgroup")?))
}

/// The directory of the cgroup2 line of `/proc/self/cgroup` below the mount.
fn inside(root: &Path, own: &str) -> PathBuf {
    let line = own.lines().find_map(|line| line.strip_prefix("0::"));
    let path = root.join(line.unwrap_or_default().trim_start_matches('/'));
    // In a container the path may be one that is not seen from here; the mount's top is that of the container then.
    if path.is_dir() { path } else { root.to_owned() }
}

/// Runs `work` in a network namespace of its own, on a thread of its own.
fn in_new_namespace(work: impl FnOnce() -> Result<(), String> + Send) -> Result<(), String> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                // SAFETY: only the thread's network namespace changes, and the thread ends with the work.
                match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
                    0 => work(),
                    _ => Err(format!(
                        "making a network namespace to try it in: {}",
                        io::Error::last_os_error()
                    )),
                }
            })
            .join()
            .unwrap_or_else(|_| Err("the thread that tries has panicked".to_owned()))
    })
}

/// Opens a kprobe, which is disabled, and closes it again.
fn kprobe() -> Result<(), String> {
    let Ok(number) = fs::read_to_string(KPROBE_TYPE) else {
        return Err("this kernel has none (CONFIG_KPROBE_EVENTS)".to_owned());
    };
    let function = CString::new(PROBED).map_err(|error| error.to_string())?;
    let mut attributes = perf_event_attr {
        size: size_of::<perf_event_attr>() as u32,
        type_: number
            .trim()
            .parse()
            .map_err(|_| format!("{KPROBE_TYPE} holds no number: {number:?}"))?,
        ..perf_event_attr::default()
    };
    attributes.set_disabled(1);
    attributes.__bindgen_anon_3.kprobe_func = function.as_ptr() as u64;
    // SAFETY: the attributes and the name that they point to live during the call.
    let event = unsafe { sys::perf_event_open(&mut attributes, -1, 0, -1, 0) };
    if event < 0 {
        return Err(io::Error::last_os_error().to_string());
    }
    // SAFETY: the descriptor is new and nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(event) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_control_group_is_below_the_mount_or_its_top() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        fs::create_dir_all(root.join("user/one")).unwrap();
        let of = |own: &str| inside(root, own);
        assert_eq!(of("3:cpu:/x\n0::/user/one\n"), root.join("user/one"));
        assert_eq!(of("0::/\n"), root);
        assert_eq!(of("0::/elsewhere\n"), root);
        assert_eq!(of("3:cpu:/x\n"), root);
    }

    #[test]
    fn every_kind_is_tried_and_refusals_have_a_reason() {
        let hook_support = hook_support();
        assert_eq!(hook_support.len(), Kind::ALL.len());
        for hook_support in hook_support {
            match hook_support.support {
                KernelFeature::Works => {}
                KernelFeature::Refused(reason) => {
                    println!("{}: {reason}", hook_support.kind.name());
                    assert!(!reason.is_empty());
                }
            }
        }
    }
}
