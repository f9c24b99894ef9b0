//! The system calls: the memory that programs share with us, links, and what the kernel counts.

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::Error;
use crate::hook::Netfilter;

/// A map of the programs, mapped into this process.
pub struct Mapped {
    start: NonNull<c_void>,
    length: usize,
}

// SAFETY: the memory is shared with the kernel anyway and is only touched through atomics or volatile copies.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps so many bytes of a map, rounded up to whole pages.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses.
    pub fn new(fd: BorrowedFd<'_>, length: usize) -> Result<Self, Error> {
        let page = rustix::param::page_size();
        let length = length.div_ceil(page) * page;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                fd,
                0,
            )
        };
        let start = start.map_err(|error| Error::system("mapping the programs' memory", error))?;
        let start = NonNull::new(start)
            .ok_or_else(|| Error::load("mapping the programs' memory", "it lies at address 0"))?;
        Ok(Self { start, length })
    }

    /// The address of the value at this place.
    ///
    /// # Panics
    /// When the place lies beyond the mapping.
    pub fn slot<T>(&self, index: usize) -> NonNull<T> {
        assert!((index + 1) * size_of::<T>() <= self.length);
        // SAFETY: the slot lies within the mapping, as was just checked.
        unsafe { self.start.cast::<T>().add(index) }
    }

    /// Overwrites what the memory begins with.
    pub fn write<T>(&self, value: T) {
        let slot = self.slot::<T>(0);
        // SAFETY: the slot is aligned (a page begins there) and within the mapping. The programs may read half of the old and
        // half of the new value; they do not depend on more than a word.
        unsafe { slot.write_volatile(value) };
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr(), self.length) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Among netfilter's hooks ours come where nobody has changed the packet yet (out) or will any more (in).
/// No two of a hook may have the same priority, so each of [`RANKS`] ranks is taken by whoever comes first: by programs that sample
/// traffic, and by gates.
const fn priority(hook: Netfilter, rank: u8) -> i32 {
    let first = match hook {
        Netfilter::LocalOut => i32::MIN + 1,
        Netfilter::LocalIn => i32::MAX - ALL_RANKS as i32,
    };
    first + rank as i32
}

/// Ranks of our programs at one hook that measure or observe.
const RANKS: u8 = 34;
/// Ranks of faults on either side of them.
const FAULT_RANKS: u8 = 8;
/// All ranks of our programs at one hook.
const ALL_RANKS: u8 = FAULT_RANKS + RANKS + FAULT_RANKS;

/// The ranks that a program may take.
#[derive(Clone, Copy, Debug)]
pub enum Ranks {
    /// Those of faults before the gates.
    BeforeGates,
    /// Those of programs that measure or observe.
    Gates,
    /// Those of faults behind the gates.
    BehindGates,
}

impl Ranks {
    /// The first rank and the one behind the last.
    const fn bounds(self) -> (u8, u8) {
        match self {
            Self::BeforeGates => (0, FAULT_RANKS),
            Self::Gates => (FAULT_RANKS, FAULT_RANKS + RANKS),
            Self::BehindGates => (FAULT_RANKS + RANKS, ALL_RANKS),
        }
    }
}

/// Attaches a netfilter program in the calling thread's namespace; it is detached when the result is closed. By hand, since
/// libbpf's program cannot be lent to the thread that is in the other namespace.
fn link_netfilter(
    program: BorrowedFd<'_>,
    family: i32,
    hook: Netfilter,
    rank: u8,
) -> io::Result<OwnedFd> {
    let mut options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as u64,
        ..Default::default()
    };
    options.__bindgen_anon_1.netfilter =
        libbpf_sys::bpf_link_create_opts__bindgen_ty_1__bindgen_ty_5 {
            pf: family as u32,
            hooknum: hook.number() as u32,
            priority: priority(hook, rank),
            flags: 0,
        };
    // SAFETY: the options are a whole value that says its own size, and live longer than the call.
    let link = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            0,
            libbpf_sys::BPF_NETFILTER,
            &raw const options,
        )
    };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: the descriptor is new and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

/// Attaches netfilter programs one right behind the other, at the first ranks that nobody else has; all or none.
///
/// # Errors
/// The message of the kernel, or that all ranks are taken, for people.
pub fn link_at_free_ranks(
    programs: &[BorrowedFd<'_>],
    family: i32,
    hook: Netfilter,
    ranks: Ranks,
) -> Result<Vec<OwnedFd>, String> {
    let (begin, end) = ranks.bounds();
    for first in begin..=end - programs.len() as u8 {
        let links = programs
            .iter()
            .zip(first..)
            .map(|(&program, rank)| link_netfilter(program, family, hook, rank));
        match links.collect::<io::Result<Vec<OwnedFd>>>() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            outcome => return outcome.map_err(|error| error.to_string()),
        }
    }
    Err(format!(
        "the {} places that programs of ours may have there are taken by others that measure or observe",
        end - begin
    ))
}

/// Number of times that the kernel has left out a program because it was running already on that processor; 0 when it
/// does not tell.
pub fn missed_runs(program: BorrowedFd<'_>) -> u64 {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    // SAFETY: the kernel writes at most `length` bytes into `info`, whose fields are integers.
    let outcome = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_raw_fd(),
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if outcome == 0 {
        info.recursion_misses
    } else {
        0
    }
}
