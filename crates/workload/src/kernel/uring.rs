//! Sends through io_uring: one submission a write, with a copy (IORING_OP_SEND) or without one (IORING_OP_SEND_ZC); man page
//! io_uring_enter(2). It is the asynchronous sockets interface that Foong et al. 2003, section 6, asks for.
//!
//! It owns the ring, the written memory, and the count of sends whose memory the kernel still needs. It never receives. The
//! memory is given back only when the kernel needs none of it any more.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Instant;

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue};
use rustix::io::Errno;
use tollgate_run::PathId;

use crate::error::Error;
use crate::slice::{LOOK_AGAIN, PATIENCE};

/// Submissions that are under way at once.
const SUBMISSIONS: u32 = 4;
/// Room for completions: results, and notifications of sends without a copy.
const COMPLETIONS: u32 = 4_096;
/// Sends without a copy that may be under way; their notifications fit into the ring.
const MOST_UNDER_WAY: u64 = 1_024;
/// IORING_SEND_ZC_REPORT_USAGE, linux/io_uring.h: the notification says whether the kernel copied. Linux 6.2.
const REPORT_USAGE: u16 = 1 << 3;
/// IORING_NOTIF_USAGE_ZC_COPIED, linux/io_uring.h.
const COPIED: u32 = 1 << 31;
/// The sysctl that switches io_uring off (Documentation/admin-guide/sysctl/kernel.rst).
const SYSCTL: &str = "/proc/sys/kernel/io_uring_disabled";

/// Way in which the kernel takes the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taking {
    /// It copies them.
    Copy,
    /// It sends from the written memory.
    ZeroCopy,
}

/// A ring with the memory that is sent from.
pub(super) struct Uring {
    ring: IoUring,
    bytes: Vec<u8>,
    taking: Taking,
    /// Tells whether notifications are asked to say if the kernel copied.
    reports: bool,
    /// A send whose result has not come.
    pending: bool,
    /// Sends without a copy whose notification has not come.
    under_way: u64,
    done: u64,
    copied: u64,
}

impl Uring {
    /// A ring that sends from `bytes`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] with the reason: the sysctl, a seccomp filter, or a kernel without what it takes.
    pub(super) fn new(path: PathId, bytes: Vec<u8>, taking: Taking) -> Result<Self, Error> {
        let unavailable = |reason: String| Error::Unavailable {
            path,
            what: "io_uring",
            reason,
        };
        let mut builder = IoUring::builder();
        builder.setup_cqsize(COMPLETIONS);
        let ring = builder.build(SUBMISSIONS).map_err(|error| {
            let sysctl = std::fs::read_to_string(SYSCTL).ok();
            unavailable(reason(&error, sysctl.as_deref().map(str::trim)))
        })?;
        if !ring.params().is_feature_ext_arg() {
            return Err(unavailable(
                "waiting with a time limit takes Linux 5.11".to_owned(),
            ));
        }
        let mut probe = Probe::new();
        ring.submitter()
            .register_probe(&mut probe)
            .map_err(|error| unavailable(format!("its operations cannot be listed: {error}")))?;
        let (code, needs) = match taking {
            Taking::Copy => (opcode::Send::CODE, "sends take Linux 5.6"),
            Taking::ZeroCopy => (opcode::SendZc::CODE, "sends without a copy take Linux 6.0"),
        };
        if !probe.is_supported(code) {
            return Err(unavailable(needs.to_owned()));
        }
        Ok(Self {
            ring,
            bytes,
            taking,
            reports: true,
            pending: false,
            under_way: 0,
            done: 0,
            copied: 0,
        })
    }

    /// Bytes of the memory that is sent from.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Notifications for which the kernel copied after all, and all of them; `None` where they do not say.
    pub(super) fn copied(&self) -> Option<(u64, u64)> {
        (self.taking == Taking::ZeroCopy && self.reports).then_some((self.copied, self.done))
    }

    /// Hands the kernel up to `len` bytes from `at` on; gives how many it took.
    ///
    /// # Errors
    /// Those of send(2), and `ETIME` when nothing moved for [`PATIENCE`].
    pub(super) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        at: usize,
        len: usize,
        flags: i32,
    ) -> rustix::io::Result<usize> {
        loop {
            let asked = self.reports;
            match self.send_once(socket, at, len, flags) {
                // Linux 6.0 and 6.1 send without a copy and do not know this flag.
                Err(Errno::INVAL) if self.taking == Taking::ZeroCopy && asked && self.done == 0 => {
                    self.reports = false;
                }
                // Pinned memory has a limit: notifications make room.
                Err(Errno::NOBUFS | Errno::NOMEM) if self.under_way > 0 => {
                    self.settle(self.under_way - 1)?;
                }
                outcome => return outcome,
            }
        }
    }

    fn send_once(
        &mut self,
        socket: BorrowedFd<'_>,
        at: usize,
        len: usize,
        flags: i32,
    ) -> rustix::io::Result<usize> {
        if self.under_way >= MOST_UNDER_WAY {
            self.settle(MOST_UNDER_WAY / 2)?;
        }
        let piece = &self.bytes[at..at + len];
        let length = u32::try_from(piece.len()).unwrap_or(u32::MAX);
        let socket = Fd(socket.as_raw_fd());
        let entry = match self.taking {
            Taking::Copy => opcode::Send::new(socket, piece.as_ptr(), length)
                .flags(flags)
                .build(),
            Taking::ZeroCopy => opcode::SendZc::new(socket, piece.as_ptr(), length)
                .flags(flags)
                .zc_flags(if self.reports { REPORT_USAGE } else { 0 })
                .build(),
        };
        self.push(&entry)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(result) = self.drain() {
                return match result {
                    0.. => Ok(result.unsigned_abs() as usize),
                    _ => Err(Errno::from_raw_os_error(-result)),
                };
            }
            if Instant::now() >= deadline {
                return Err(Errno::TIME);
            }
            self.enter()?;
        }
    }

    fn push(&mut self, entry: &squeue::Entry) -> rustix::io::Result<()> {
        // SAFETY: the entry points into `self.bytes`, which is neither changed nor freed while the kernel may read it:
        // `Drop` waits for the results and notifications, and leaves the memory to the kernel where they do not come.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.map_err(|_| Errno::BUSY)?;
        self.pending = true;
        Ok(())
    }

    /// Submits what was pushed and waits for a completion, or until it is time to look again.
    fn enter(&mut self) -> rustix::io::Result<()> {
        let limit = Timespec::new().nsec(LOOK_AGAIN.subsec_nanos());
        let arguments = SubmitArgs::new().timespec(&limit);
        match self.ring.submitter().submit_with_args(1, &arguments) {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::TIME | Errno::INTR) => Ok(()),
                Some(errno) => Err(errno),
                None => Err(Errno::IO),
            },
        }
    }

    /// Reads the completions that are there; gives the result of the send that was pending.
    fn drain(&mut self) -> Option<i32> {
        let mut outcome = None;
        for entry in self.ring.completion() {
            let (flags, result) = (entry.flags(), entry.result());
            if cqueue::notif(flags) {
                self.under_way = self.under_way.saturating_sub(1);
                self.done += 1;
                if self.reports && result.cast_unsigned() & COPIED != 0 {
                    self.copied += 1;
                }
            } else {
                self.pending = false;
                outcome = Some(result);
                if cqueue::more(flags) {
                    self.under_way += 1;
                }
            }
        }
        outcome
    }

    /// Waits until the kernel needs the memory of at most `most` sends.
    ///
    /// # Errors
    /// `ETIME` when nothing moved for [`PATIENCE`], and what io_uring_enter(2) refused.
    pub(super) fn settle(&mut self, most: u64) -> rustix::io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.drain();
            if self.under_way <= most {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Errno::TIME);
            }
            self.enter()?;
        }
    }
}

impl Drop for Uring {
    /// The socket is shut down before, so whatever is under way ends.
    fn drop(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while (self.pending || self.under_way > 0) && Instant::now() < deadline {
            if self.enter().is_err() {
                break;
            }
            self.drain();
        }
        if self.pending || self.under_way > 0 {
            mem::forget(mem::take(&mut self.bytes));
        }
    }
}

/// The reason why io_uring_setup(2) fails, and what to do, by its error and the sysctl's value.
fn reason(error: &io::Error, sysctl: Option<&str>) -> String {
    match (error.raw_os_error(), sysctl) {
        (Some(libc::ENOSYS), None) => {
            "this kernel, or a seccomp filter, does not have it".to_owned()
        }
        (Some(libc::EPERM), Some(value @ ("1" | "2"))) => format!(
            "sysctl kernel.io_uring_disabled is {value}; 0 allows it to everybody (sysctl kernel.io_uring_disabled=0)"
        ),
        (Some(libc::EPERM | libc::EACCES | libc::ENOSYS), _) => format!(
            "{error}: a seccomp filter, as containers have it, or another security module does not allow io_uring_setup"
        ),
        (Some(libc::ENOMEM), _) => {
            format!("{error}: the limit on locked memory may be too low (ulimit -l)")
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_sysctl_or_the_filter() {
        let of = |code, sysctl| reason(&io::Error::from_raw_os_error(code), sysctl);
        assert!(of(libc::EPERM, Some("2")).starts_with("sysctl kernel.io_uring_disabled is 2"));
        assert!(of(libc::EPERM, Some("0")).contains("seccomp"));
        assert!(of(libc::EPERM, None).contains("seccomp"));
        assert!(of(libc::ENOSYS, None).contains("this kernel"));
        assert!(of(libc::ENOMEM, Some("0")).contains("locked memory"));
    }

    /// Lets io_uring_setup(2) fail with EPERM on the calling thread, as the filters of containers do.
    fn forbid() {
        let word = |code: u32, jump: u8, k: u32| libc::sock_filter {
            code: code as u16,
            jt: 0,
            jf: jump,
            k,
        };
        let filter = [
            // The number of the call is the first word of seccomp_data.
            word(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            word(
                libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
                1,
                libc::SYS_io_uring_setup as u32,
            ),
            word(
                libc::BPF_RET | libc::BPF_K,
                0,
                libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
            ),
            word(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: the option takes numbers only.
        let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        assert_eq!(set, 0);
        // SAFETY: the program and the filter that it points to live during the call.
        let set = unsafe {
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            )
        };
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
    }

    #[test]
    fn a_seccomp_filter_is_named_as_the_reason() {
        let refused = std::thread::spawn(|| {
            forbid();
            Uring::new(PathId::KernelLoopback, vec![0; 64], Taking::Copy)
                .err()
                .map(|error| error.to_string())
        });
        let told = refused.join().unwrap().expect("refused");
        assert!(
            told.starts_with("kernel-loopback: io_uring is not available"),
            "{told}"
        );
    }
}
