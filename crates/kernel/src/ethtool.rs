//! Interfaces asked and told by the ioctl SIOCETHTOOL, in the network namespace of the socket.

use std::os::fd::{AsFd, AsRawFd};
use std::{io, mem, ptr};

/// Value of a feature, as one command of linux/ethtool.h reads or sets it.
///
/// # Errors
/// Refusals of the kernel.
pub fn feature(socket: impl AsFd, interface: &str, command: u32, data: u32) -> io::Result<u32> {
    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    let mut value = Value { command, data };
    // SAFETY: commands of features read and write an ethtool_value.
    unsafe { run(socket, interface, &mut value)? };
    Ok(value.data)
}

/// Name of an interface's driver, and the place of its device on a bus; both may be empty.
///
/// # Errors
/// Refusals of the kernel; an interface may have no driver.
pub fn driver(socket: impl AsFd, interface: &str) -> io::Result<[String; 2]> {
    /// `struct ethtool_drvinfo`: what ends with a zero, or is full.
    #[repr(C)]
    struct Driver {
        command: u32,
        driver: [u8; 32],
        versions: [u8; 64],
        bus: [u8; 32],
        rest: [u8; 64],
    }
    const _: () = assert!(size_of::<Driver>() == 196);
    const GET_DRIVER: u32 = 3;
    let mut driver = Driver {
        command: GET_DRIVER,
        driver: [0; 32],
        versions: [0; 64],
        bus: [0; 32],
        rest: [0; 64],
    };
    // SAFETY: the command fills an ethtool_drvinfo.
    unsafe { run(socket, interface, &mut driver)? };
    Ok([driver.driver, driver.bus].map(|text| {
        let end = text.iter().position(|&byte| byte == 0);
        String::from_utf8_lossy(&text[..end.unwrap_or(text.len())]).into_owned()
    }))
}

/// Runs the command that an argument begins with.
///
/// # Safety
/// The argument is the structure that its command takes.
unsafe fn run<T>(socket: impl AsFd, interface: &str, argument: &mut T) -> io::Result<()> {
    // SAFETY: all of ifreq is integers, and a union of such, for which zero is a value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request
        .ifr_name
        .iter_mut()
        .zip(interface.bytes().take(room))
    {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = ptr::from_mut(argument).cast();
    // SAFETY: SIOCETHTOOL takes an ifreq with the name of an interface, ended by a zero, and a pointer to the command's argument; both
    // outlive the call.
    let done = unsafe {
        libc::ioctl(
            socket.as_fd().as_raw_fd(),
            libc::SIOCETHTOOL as _,
            &raw mut request,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
