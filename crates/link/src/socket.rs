//! Options and addresses of sockets whose families the safe wrappers do not know: those of `linux/if_packet.h` and `linux/if_xdp.h`.

use libc::{c_int, socklen_t};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// A value that the kernel reads or writes as bytes.
///
/// # Safety
/// Every bit pattern is a value, and none of its bytes is padding.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: an integer.
unsafe impl Plain for c_int {}
// SAFETY: integers, without padding between.
unsafe impl Plain for libc::packet_mreq {}
// SAFETY: two integers.
unsafe impl Plain for libc::tpacket_stats {}
// SAFETY: integers, without padding between.
unsafe impl Plain for libc::sockaddr_ll {}
// SAFETY: integers, without padding between.
unsafe impl Plain for libc::sockaddr_xdp {}
// SAFETY: integers of one size.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: integers of one size.
unsafe impl Plain for libc::xdp_statistics {}
// SAFETY: an integer.
unsafe impl Plain for libc::xdp_options {}
// SAFETY: two of 64 bits and four of 32, without padding between.
unsafe impl Plain for libc::xdp_umem_reg {}

fn errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// The outcome of a system call.
fn checked(outcome: c_int) -> Result<c_int, Errno> {
    if outcome < 0 {
        Err(errno())
    } else {
        Ok(outcome)
    }
}

/// A socket that does not block and is closed on exec.
pub(crate) fn raw(family: c_int) -> Result<OwnedFd, Errno> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes three numbers.
    let fd = checked(unsafe { libc::socket(family, kind, 0) })?;
    // SAFETY: the descriptor is new and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option.
pub(crate) fn set<T: Plain>(
    socket: impl AsFd,
    level: c_int,
    option: c_int,
    value: &T,
) -> Result<(), Errno> {
    // SAFETY: the kernel reads the value's bytes, which outlive the call.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as socklen_t,
        )
    };
    checked(outcome).map(|_| ())
}

/// Reads an option that has this size.
pub(crate) fn get<T: Plain>(socket: impl AsFd, level: c_int, option: c_int) -> Result<T, Errno> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to the value.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    checked(outcome)?;
    // SAFETY: every bit pattern is a value, and bytes that were not written are zero.
    Ok(unsafe { value.assume_init() })
}

/// Binds a socket.
pub(crate) fn bind<T: Plain>(socket: impl AsFd, address: &T) -> Result<(), Errno> {
    // SAFETY: the kernel reads the address's bytes, which outlive the call.
    let outcome = unsafe {
        libc::bind(
            socket.as_fd().as_raw_fd(),
            std::ptr::from_ref(address).cast(),
            size_of::<T>() as socklen_t,
        )
    };
    checked(outcome).map(|_| ())
}

/// The address that a socket is bound to.
pub(crate) fn name<T: Plain>(socket: impl AsFd) -> Result<T, Errno> {
    let mut address = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to the address.
    let outcome = unsafe {
        libc::getsockname(
            socket.as_fd().as_raw_fd(),
            address.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    checked(outcome)?;
    // SAFETY: as in `get`.
    Ok(unsafe { address.assume_init() })
}

/// The MTU of an interface of the socket's network namespace (netdevice(7)).
pub(crate) fn mtu(socket: impl AsFd, interface: &str) -> Result<c_int, Errno> {
    // SAFETY: all of ifreq is integers, and a union of such, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The name is ended by a zero.
    if interface.len() >= request.ifr_name.len() {
        return Err(Errno::NAMETOOLONG);
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: SIOCGIFMTU reads the name from the ifreq, which outlives the call, and writes the number to it.
    let outcome = unsafe {
        libc::ioctl(
            socket.as_fd().as_raw_fd(),
            libc::SIOCGIFMTU as _,
            &raw mut request,
        )
    };
    checked(outcome)?;
    // SAFETY: every bit pattern is a number, and the kernel has written this one.
    Ok(unsafe { request.ifr_ifru.ifru_mtu })
}

/// Lets a socket run this program of classic BPF on every frame before it is queued.
pub(crate) fn attach_filter(socket: impl AsFd, program: &[libc::sock_filter]) -> Result<(), Errno> {
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies the program, whose length is said, and writes nothing.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as socklen_t,
        )
    };
    checked(outcome).map(|_| ())
}

/// Receives several messages; gives how many.
///
/// # Safety
/// Memory that the messages point to must be valid for the kernel to write until the call returns, and nobody else may refer to it.
pub(crate) unsafe fn receive_messages(
    socket: impl AsFd,
    messages: &mut [libc::mmsghdr],
) -> Result<usize, Errno> {
    // SAFETY: the caller vouches for what the messages point to; as many as there are is said.
    let outcome = unsafe {
        libc::recvmmsg(
            socket.as_fd().as_raw_fd(),
            messages.as_mut_ptr(),
            messages.len() as u32,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
        )
    };
    checked(outcome).map(|count| count as usize)
}

/// Sends several messages; gives how many of them went.
///
/// # Safety
/// Memory that the messages point to must be valid for the kernel to read until the call returns.
pub(crate) unsafe fn send_messages(
    socket: impl AsFd,
    messages: &mut [libc::mmsghdr],
) -> Result<usize, Errno> {
    // SAFETY: the caller vouches for what the messages point to; as many as there are is said.
    let outcome = unsafe {
        libc::sendmmsg(
            socket.as_fd().as_raw_fd(),
            messages.as_mut_ptr(),
            messages.len() as u32,
            libc::MSG_DONTWAIT,
        )
    };
    checked(outcome).map(|count| count as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_set_and_read_back() {
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let on: c_int = 1;
        set(&socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &on).unwrap();
        let read: c_int = get(&socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE).unwrap();
        assert_eq!(read, 1);
        let refused = set(&socket, libc::SOL_SOCKET, -1, &on);
        assert_eq!(refused, Err(Errno::NOPROTOOPT));
    }
}
