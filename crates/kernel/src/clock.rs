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

/// CLOCK_MONOTONIC as BPF programs read it, in nanoseconds: without what a time namespace adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelClock {
    added_ns: i64,
}

impl KernelClock {
    /// The clock beside that of this process's time namespace.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self::beside(&fs::read_to_string(OFFSETS).unwrap_or_default())
    }

    fn beside(offsets: &str) -> Self {
        let added = offsets.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some("monotonic")).then_some(())?;
            let mut number = || words.next().and_then(|word| word.parse::<i64>().ok());
            Some(number()? * 1_000_000_000 + number()?)
        });
        Self {
            added_ns: added.unwrap_or(0),
        }
    }

    /// Nanoseconds now.
    #[must_use]
    pub fn now(self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        (now.tv_sec * 1_000_000_000 + now.tv_nsec - self.added_ns).cast_unsigned()
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
    fn what_a_time_namespace_adds_is_taken_off() {
        let added = |offsets| KernelClock::beside(offsets).added_ns;
        assert_eq!(
            added("monotonic           0         0\nboottime  7  0\n"),
            0
        );
        assert_eq!(
            added("boottime 7 0\nmonotonic         100         5\n"),
            100_000_000_005
        );
        assert_eq!(added("monotonic   -86400         0\n"), -86_400_000_000_000);
        assert_eq!(added(""), 0);
    }

    #[test]
    fn it_is_tried_here() {
        if let KernelFeature::Refused(reason) = clock() {
            println!("our clock is not the kernel's: {reason}");
        }
    }
}
