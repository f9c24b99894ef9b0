//! MSG_ZEROCOPY: the kernel sends from the user's memory and says on the socket's error queue when it no longer needs it
//! (Documentation/networking/msg_zerocopy.rst).
//!
//! It owns the count of what is under way. It never sends and never waits.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sends and completions of one socket.
#[derive(Debug, Default)]
pub(super) struct Completions {
    sent: u64,
    done: u64,
    /// Completions for which the kernel copied after all.
    copied: u64,
}

/// SO_EE_ORIGIN_ZEROCOPY, linux/errqueue.h.
const ORIGIN_ZEROCOPY: u8 = 5;
/// SO_EE_CODE_ZEROCOPY_COPIED, linux/errqueue.h.
const CODE_COPIED: u8 = 1;
/// Room for control messages: one extended error with the offender's address.
const CONTROL: usize = 128;

#[repr(C, align(8))]
struct Control([u8; CONTROL]);

impl Completions {
    /// Lets this socket send without copying.
    pub(super) fn enable(socket: BorrowedFd<'_>) -> io::Result<()> {
        let on: libc::c_int = 1;
        // SAFETY: the option's value is an int that lives during the call.
        let set = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ZEROCOPY,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
        if set == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// One more send has been accepted.
    pub(super) fn sent(&mut self) {
        self.sent += 1;
    }

    /// Sends whose memory the kernel still needs.
    pub(super) fn under_way(&self) -> u64 {
        self.sent - self.done.min(self.sent)
    }

    /// Completions for which the kernel copied after all, and all completions.
    pub(super) fn copied(&self) -> (u64, u64) {
        (self.copied, self.done)
    }

    /// Reads the completions that are there, without waiting.
    pub(super) fn reap(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        while let Some((first, last, copied)) = read_one(socket)? {
            let completed = u64::from(last.wrapping_sub(first)) + 1;
            self.done += completed;
            if copied {
                self.copied += completed;
            }
        }
        Ok(())
    }
}

/// One notification: the first and the last send that it is about, and whether the kernel copied. `None` when there is none.
fn read_one(socket: BorrowedFd<'_>) -> io::Result<Option<(u32, u32, bool)>> {
    let mut control = Control([0; CONTROL]);
    // SAFETY: a message header of zeros is a valid one: null pointers with zero lengths.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header and the room that it points to live during the call.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    if got < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock => Ok(None),
            _ => Err(error),
        };
    }
    // SAFETY: the kernel has filled the header in.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !at.is_null() {
        // SAFETY: not null, so within the control messages that the kernel has written.
        let header = unsafe { at.read_unaligned() };
        let error_queue = (header.cmsg_level, header.cmsg_type) == (libc::SOL_IP, libc::IP_RECVERR);
        if error_queue {
            // SAFETY: the data lie behind the header, within the same room.
            let data = unsafe { libc::CMSG_DATA(at) };
            // SAFETY: what follows such a header is an extended error.
            let error = unsafe { data.cast::<libc::sock_extended_err>().read_unaligned() };
            if error.ee_origin == ORIGIN_ZEROCOPY {
                let copied = error.ee_code == CODE_COPIED;
                return Ok(Some((error.ee_info, error.ee_data, copied)));
            }
        }
        // SAFETY: `at` is a header within the message.
        at = unsafe { libc::CMSG_NXTHDR(&raw const message, at) };
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        "a notification on the error queue is not about a send without a copy",
    ))
}
