//! Features that need no programs. Probes whether this process's CLOCK_MONOTONIC is the one that the kernel's gates
//! read, and whether the kernel stamps for sockets.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

use crate::plan::{KernelFeature, KernelFeatures};

const OFFSETS: &str = "/proc/self/timens_offsets";

/// A time namespace (time_namespaces(7)) moves the clock that processes see, and not that of BPF programs.
pub(crate) fn clock() -> KernelFeature {
    match fs::read_to_string(OFFSETS) {
        Ok(text) => judge(&text),
        // A kernel without time namespaces has one clock for all.
        Err(error) if error.kind() == io::ErrorKind::NotFound => KernelFeature::Works,
        Err(error) => KernelFeature::Refused(format!("{OFFSETS} cannot be read: {error}")),
    }
}

/// Asks for the stamps that plans use, on a socket that is closed again.
pub(crate) fn sockets() -> KernelFeature {
    let tried = || -> Result<(), String> {
        let socket =
            UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
        // TX_SOFTWARE, RX_SOFTWARE, SOFTWARE, TX_SCHED, TX_ACK and OPT_TSONLY of linux/net_tstamp.h.
        let flags: libc::c_uint = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 8 | 1 << 9 | 1 << 11;
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
            Err(io::Error::last_os_error().to_string())
        }
    };
    match tried() {
        Ok(()) => KernelFeature::Works,
        Err(reason) => KernelFeature::Refused(format!(
            "time stamps of sockets (SO_TIMESTAMPING) were tried and refused: {reason}"
        )),
    }
}

/// Features that need no programs, with the reason why programs cannot be had.
pub(crate) fn without_programs(reason: &str) -> KernelFeatures {
    KernelFeatures {
        clock: clock(),
        sockets: sockets(),
        ..KernelFeatures::none(reason)
    }
}

/// Judges lines of a clock's name, seconds and nanoseconds.
fn judge(offsets: &str) -> KernelFeature {
    let moved = offsets.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some("monotonic") && words.any(|word| word != "0")
    });
    if moved {
        KernelFeature::Refused(
            "this process is in a time namespace whose clock is not the kernel's".to_owned(),
        )
    } else {
        KernelFeature::Works
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_clock_is_refused() {
        assert!(
            judge("monotonic           0         0\nboottime            7         0\n").works()
        );
        assert!(
            !judge("monotonic           0         5\nboottime            0         0\n").works()
        );
        assert!(!judge("monotonic       -86400         0\n").works());
        assert!(judge("").works());
    }

    #[test]
    fn it_is_tried_here() {
        if let KernelFeature::Refused(reason) = clock() {
            println!("our clock is not the kernel's: {reason}");
        }
    }
}
