//! SO_TIMESTAMPING: the kernel notes when a socket's bytes join the device queue, are given to the driver, are acknowledged, and come
//! in, and tells it with the messages of the error queue and of recvmsg(2) (Documentation/networking/timestamping.rst). It takes no privilege.
//!
//! It owns the option and the reading of what comes of it. It never says which message a stamp belongs to.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_gate::{Gate, GateSet};

/// Flags of linux/net_tstamp.h: which stamps are made, that those of software are told, and that no payload comes with them.
const TX_SOFTWARE: libc::c_uint = 1 << 1;
const RX_SOFTWARE: libc::c_uint = 1 << 3;
const SOFTWARE: libc::c_uint = 1 << 4;
const TX_SCHED: libc::c_uint = 1 << 8;
const TX_ACK: libc::c_uint = 1 << 9;
const OPT_TSONLY: libc::c_uint = 1 << 11;
/// SO_EE_ORIGIN_TIMESTAMPING and the kinds of stamps, linux/errqueue.h.
const ORIGIN: u8 = 4;
const KIND_SND: u32 = 0;
const KIND_SCHED: u32 = 1;
const KIND_ACK: u32 = 2;
/// Room for control messages: a stamp and an extended error with the offender's address.
const CONTROL: usize = 256;
/// Usual time until the kernel stamps incoming bytes, and the longest wait for it.
const SETTLE: Duration = Duration::from_millis(2);
const SETTLES: Duration = Duration::from_secs(1);

#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Content of the control messages of one call.
#[derive(Default)]
struct Timestamps {
    /// CLOCK_REALTIME in nanoseconds.
    at: Option<u64>,
    kind: Option<u32>,
}

/// Has the kernel make these stamps from now on; none of them ends it.
pub(super) fn switch(socket: BorrowedFd<'_>, gates: GateSet) -> io::Result<()> {
    let of = |gate, flag| if gates.contains(gate) { flag } else { 0 };
    let mut flags = of(Gate::DeviceQueueIn, TX_SCHED)
        | of(Gate::DriverOutBegin, TX_SOFTWARE)
        | of(Gate::SocketQueued, TX_ACK)
        | of(Gate::DriverOutEnd, RX_SOFTWARE);
    if flags != 0 {
        flags |= SOFTWARE | OPT_TSONLY;
    }
    // SAFETY: the option's value is an int that lives during the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of_val(&flags) as libc::socklen_t,
        )
    };
    if set == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Waits until this kernel stamps what comes in; not for ever, and where that cannot be seen for as long as it mostly takes. The kernel
/// begins to, for all sockets alike, when a worker has run (net_enable_timestamp() in net/core/dev.c), which on a busy processor takes
/// its time; what comes in before has no stamp.
pub(super) fn settle() {
    let begun = Instant::now();
    loop {
        match stamps_what_comes_in() {
            Ok(true) => return,
            Ok(false) if begun.elapsed() < SETTLES => thread::sleep(SETTLE / 10),
            Ok(false) => return,
            Err(_) => return thread::sleep(SETTLE),
        }
    }
}

/// Tells whether a datagram to ourselves has a stamp.
fn stamps_what_comes_in() -> io::Result<bool> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(socket.local_addr()?)?;
    socket.set_read_timeout(Some(SETTLES))?;
    switch(socket.as_fd(), GateSet::of(&[Gate::DriverOutEnd]))?;
    socket.send(&[0])?;
    let (_, at) = recv(socket.as_fd(), &mut [0], 0)?;
    Ok(at.is_some())
}

/// Progress of bytes that were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// They passed this gate.
    Passed(Gate),
    /// The other end has acknowledged them.
    Acknowledged,
}

/// Reads the stamps of what was sent that are there, without waiting: what became of it, and CLOCK_REALTIME in nanoseconds.
pub(super) fn of_sends(socket: BorrowedFd<'_>, mut each: impl FnMut(Sent, u64)) -> io::Result<()> {
    loop {
        match receive(socket, &mut [], libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
            Ok((_, timestamps)) => match (timestamps.kind, timestamps.at) {
                (Some(KIND_SCHED), Some(at)) => each(Sent::Passed(Gate::DeviceQueueIn), at),
                (Some(KIND_SND), Some(at)) => each(Sent::Passed(Gate::DriverOutBegin), at),
                (Some(KIND_ACK), Some(at)) => each(Sent::Acknowledged, at),
                _ => {}
            },
        }
    }
}

/// Receives, and tells when the last of it came in (CLOCK_REALTIME in nanoseconds) where that was stamped.
pub(super) fn recv(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: libc::c_int,
) -> io::Result<(usize, Option<u64>)> {
    receive(socket, buffer, flags).map(|(got, timestamps)| (got, timestamps.at))
}

fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: libc::c_int,
) -> io::Result<(usize, Timestamps)> {
    let mut control = Control([0; CONTROL]);
    let mut room = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: a message header of zeros is a valid one: null pointers with zero lengths.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = &raw mut room;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = CONTROL;
    // SAFETY: the header, the buffer and the room that it points to live during the call.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    let mut timestamps = Timestamps::default();
    // SAFETY: the kernel has filled the header in.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !at.is_null() {
        // SAFETY: not null, so within the control messages that the kernel has written.
        let header = unsafe { at.read_unaligned() };
        // SAFETY: the data lie behind the header, within the same room.
        let data = unsafe { libc::CMSG_DATA(at) };
        match (header.cmsg_level, header.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => {
                // SAFETY: what follows such a header are three times, the first of them that of software.
                let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                // A time of 0 says that there is none.
                timestamps.at = Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
                    .filter(|&at| at != 0);
            }
            (libc::SOL_IP, libc::IP_RECVERR) => {
                // SAFETY: what follows such a header is an extended error.
                let error = unsafe { data.cast::<libc::sock_extended_err>().read_unaligned() };
                timestamps.kind = (error.ee_origin == ORIGIN).then_some(error.ee_info);
            }
            _ => {}
        }
        // SAFETY: `at` is a header within the message.
        at = unsafe { libc::CMSG_NXTHDR(&raw const message, at) };
    }
    Ok((got, timestamps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_once_it_has_settled_is_stamped() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(socket.local_addr().unwrap()).unwrap();
        switch(socket.as_fd(), GateSet::of(&[Gate::DriverOutEnd])).unwrap();
        settle();
        for _ in 0..8 {
            socket.send(&[0]).unwrap();
            let (got, at) = recv(socket.as_fd(), &mut [0], 0).unwrap();
            assert!(got == 1 && at.is_some());
        }
        switch(socket.as_fd(), GateSet::EMPTY).unwrap();
        socket.send(&[0]).unwrap();
        assert_eq!(recv(socket.as_fd(), &mut [0], 0).unwrap().1, None);
    }
}
