//! A tap device of Linux: the kernel's own TCP/IP at the other end, with a virtio-net header in front of each frame.
//!
//! A frame is read into the pool by one system call, and so are up to 64 KB of segments that the kernel's sockets send (`inlet`,
//! `cut`). What is sent is written out of the pool: segments that follow each other leave as one train by one call (`train`), any
//! other frame by a call of its own. Checksums are offloaded as by a NIC. Frames that the kernel made on this host, or has verified,
//! arrive as [`RxChecksum::Verified`](tollgate_stack::buffer::RxChecksum::Verified). Those of TCP that is sent are left to the kernel
//! (`unfinished`) where the stack wants it, and others are complete; the header says which.
//!
//! The device lives in the network namespace of the thread that makes it, and goes with the link. So a process that is killed leaves
//! none behind. Address, MTU and state of the kernel's end are set up by whoever makes the device; this module never does.
//!
//! A link to a device that was deleted loses what it is given, counted, and says that it [is gone](Waitable::is_gone).
#![allow(unsafe_code)]

mod device;

use crate::virtio::header;
use crate::virtio::inlet::{End, Inlet, next_burst};
use crate::virtio::train::{self, Train};
use crate::virtio::unfinished;
use crate::wait::{WaitOutcome, Waitable, WaitableBeside, pause_beside, wait_among, wait_for};
pub use device::Offloads;
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use tollgate_stack::buffer::{Frame, Pool};
use tollgate_stack::config::Segmentation;
use tollgate_stack::link::{Integrity, Link, MAX_MTU, MIN_MTU};
use tollgate_wire::ethernet;

/// Pause before a pool that had no frame to spare is asked again: about a tick of the stack's timers.
const STARVED_PAUSE: Duration = Duration::from_millis(1);

/// A tap device cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The kernel takes no such name.
    #[error(
        "a device cannot be called {name:?}; use 1 to 15 characters without blanks and slashes"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The stack cannot have such an MTU.
    #[error("an MTU of {mtu} bytes was asked for; it is {MIN_MTU} to {MAX_MTU}")]
    Mtu {
        /// The MTU in bytes.
        mtu: usize,
    },
    /// A system call failed.
    #[error("{doing}: {source}{}", advice(*.source))]
    System {
        /// Action that failed.
        doing: &'static str,
        /// The system's reason.
        source: Errno,
    },
}

/// Advice against an error of the system.
fn advice(source: Errno) -> &'static str {
    match source {
        Errno::ACCESS | Errno::PERM => {
            "; run as root (or with CAP_NET_ADMIN and access to /dev/net/tun)"
        }
        Errno::NOENT | Errno::NODEV | Errno::NXIO => {
            "; load the driver (modprobe tun) or pass the device into the container (--device /dev/net/tun)"
        }
        Errno::BUSY => "; another process has a device of this name",
        _ => "",
    }
}

/// Counts so far, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Given to the kernel.
    pub sent: u64,
    /// Taken from the kernel.
    pub received: u64,
    /// Lost: the kernel refused them, since the device is down or its memory short.
    pub refused: u64,
    /// Trains, each of several frames that were given to the kernel as one.
    pub trains: u64,
    /// Large frames that were taken from the kernel, each of several of those counted above.
    pub large: u64,
    /// Taken frames of which bytes had to be copied, since a large one was not cut where it was expected.
    pub moved: u64,
    /// System calls that gave frames to the kernel.
    pub writes: u64,
    /// System calls that asked the kernel for frames, answered or not.
    pub reads: u64,
    /// Lost: longer than the MTU allows.
    pub too_long: u64,
    /// Lost: segments of a large frame for which the pool had no frame to spare.
    pub cut_off: u64,
    /// Bursts that were left with the stack, since the device had no room.
    pub full: u64,
    /// Times that frames were left in the device because the pool had none to spare.
    pub no_frame: u64,
}

/// Our end of a tap device.
#[derive(Debug)]
pub struct Tap {
    fd: OwnedFd,
    name: String,
    mtu: usize,
    integrity: Integrity,
    /// Frames that the next `receive` reads at most ([`next_burst`]).
    burst: usize,
    /// The last `transmit` left frames behind.
    wants_room: bool,
    /// The last `receive` left frames in the device because the pool had none to spare.
    starved: bool,
    /// The device was deleted.
    gone: bool,
    /// Segments leave in trains.
    gathers: bool,
    /// Linux completes checksums of TCP.
    completes: bool,
    inlet: Inlet,
    stats: Stats,
}

impl Tap {
    /// Makes a device in the calling thread's network namespace. `%d` in `name` stands for the first number that is free. `mtu`
    /// must be the one that the device is given.
    ///
    /// # Errors
    /// Those of the system: it takes CAP_NET_ADMIN in the namespace.
    pub fn create(name: &str, mtu: usize) -> Result<Self, CreateError> {
        if !(MIN_MTU..=MAX_MTU).contains(&mtu) {
            return Err(CreateError::Mtu { mtu });
        }
        let (fd, name) = device::make(name)?;
        Ok(Self::of(fd, name, mtu))
    }

    /// The link over a descriptor that does not block and gives and takes one frame with its virtio-net header a call: a queue of a
    /// device that another process has made, or one end of a pair of sockets that keep messages apart. Devices must have been made
    /// with the features of [`Tap::create`].
    pub fn of(fd: OwnedFd, name: String, mtu: usize) -> Self {
        Self {
            fd,
            name,
            mtu,
            integrity: Integrity::Unprotected,
            burst: 1,
            wants_room: false,
            starved: false,
            gone: false,
            gathers: true,
            completes: false,
            inlet: Inlet::new(),
            stats: Stats::default(),
        }
    }

    /// States the protection of frames, for whoever knows more of this link than the link does: that nothing carries frames from the
    /// kernel's end out of the memory of this host. Stacks ask when they are made
    /// ([`Config::for_link`](tollgate_stack::Config::for_link)).
    #[must_use]
    pub const fn with_integrity(mut self, integrity: Integrity) -> Self {
        self.integrity = integrity;
        self
    }

    /// Name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks the kernel to leave that work to us from now on, and no other. A device begins with [`Offloads::LargeFrames`].
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_offloads(&self, offloads: Offloads) -> Result<(), CreateError> {
        device::offer(&self.fd, offloads)
    }

    /// Counts so far.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Bytes of the longest frame.
    const fn longest(&self) -> usize {
        ethernet::HEADER_LEN + self.mtu
    }

    /// Notes why the kernel did not take or give a frame; tells whether it may do so later.
    #[cold]
    fn failed(&mut self, error: Errno) {
        // A descriptor whose device was deleted (tun_chr_read_iter, tun_chr_write_iter).
        self.gone |= error == Errno::BADFD;
    }

    /// Writes one frame.
    #[inline]
    fn write(&self, pool: &mut Pool, frame: &Frame) -> Result<(), Errno> {
        let bytes = pool.frame_mut(frame);
        let header = if self.completes {
            unfinished::leave(bytes)
        } else {
            header::COMPLETE
        };
        let parts = [IoSlice::new(&header), IoSlice::new(bytes)];
        rustix::io::writev(&self.fd, &parts).map(|_| ())
    }

    /// Writes the first frame and those that make a train with it, and gives how many that are. Where some went before it, a train that
    /// more segments may join is left behind: a call for a few segments takes nearly as long as one for many.
    fn write_train(
        &self,
        pool: &mut Pool,
        (own, rest): (&Frame, &[Frame]),
        before: usize,
    ) -> Option<(usize, Result<(), Errno>)> {
        let first = pool.frame(own);
        let Some(mut train) = Train::begin(first) else {
            return Some((1, self.write(pool, own)));
        };
        let headers = train.headers().len();
        let mut payloads = [&first[headers..]; train::MOST];
        let mut count = 1;
        for (place, frame) in payloads[1..].iter_mut().zip(rest) {
            let frame = pool.frame(frame);
            if !train.take(frame) {
                break;
            }
            *place = &frame[headers..];
            count += 1;
        }
        if before > 0 && count == 1 + rest.len() && train.may_grow() {
            return None;
        }
        if count == 1 {
            return Some((1, self.write(pool, own)));
        }
        let header = train.finish();
        let mut parts = [IoSlice::new(&header); 2 + train::MOST];
        parts[1] = IoSlice::new(train.headers());
        for (part, payload) in parts[2..].iter_mut().zip(&payloads[..count]) {
            *part = IoSlice::new(payload);
        }
        let outcome = rustix::io::writev(&self.fd, &parts[..2 + count]);
        Some((count, outcome.map(|_| ())))
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Link for Tap {
    #[inline(always)]
    fn mtu(&self) -> usize {
        self.mtu
    }

    fn integrity(&self) -> Integrity {
        self.integrity
    }

    fn set_segmentation(&mut self, segmentation: Segmentation) {
        self.gathers = segmentation == Segmentation::Gso;
    }

    fn complete_checksums(&mut self, wanted: bool) -> bool {
        self.completes = wanted;
        wanted
    }

    #[inline]
    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.wants_room = false;
        let mut done = 0;
        while let Some((first, rest)) = frames[done..].split_first() {
            let written = if self.gathers && frames.len() > 1 {
                self.write_train(pool, (first, rest), done)
            } else {
                Some((1, self.write(pool, first)))
            };
            let Some((count, outcome)) = written else {
                self.wants_room = true;
                break;
            };
            self.stats.writes += 1;
            match outcome {
                Ok(()) => {
                    self.stats.sent += count as u64;
                    self.stats.trains += u64::from(count > 1);
                }
                Err(Errno::AGAIN | Errno::INTR) => {
                    self.wants_room = true;
                    self.stats.full += 1;
                    break;
                }
                // Nothing is wrong with its frames: the kernel takes no trains.
                Err(Errno::INVAL) if count > 1 => {
                    self.gathers = false;
                    continue;
                }
                Err(error) => {
                    self.failed(error);
                    self.stats.refused += count as u64;
                }
            }
            done += count;
        }
        for frame in frames.drain(..done) {
            pool.release(frame.id);
        }
    }

    #[inline]
    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        let before = frames.len();
        let longest = self.longest();
        let burst = self
            .inlet
            .receive(self.fd.as_fd(), pool, longest, self.burst, frames);
        self.stats.reads += burst.passed as u64;
        self.stats.too_long += burst.refused as u64;
        self.starved = burst.end == End::NoFrame;
        match burst.end {
            End::Enough => {}
            End::Nothing => self.stats.reads += 1,
            End::NoFrame => self.stats.no_frame += 1,
            End::Failed(error) => {
                self.stats.reads += 1;
                self.failed(error);
            }
        }
        self.stats.received += (frames.len() - before) as u64;
        let cuts = self.inlet.cuts();
        self.stats.large = cuts.large;
        self.stats.moved = cuts.moved;
        self.stats.cut_off = cuts.lost;
        self.burst = next_burst(self.burst, burst.passed);
    }
}

impl Waitable for Tap {
    /// Sleeps in ppoll(2). After a `receive` for which the pool had no frame to spare, it waits a millisecond at most and does not
    /// look at the device, which would be readable all the time.
    fn wait(&self, timeout: Duration) -> WaitOutcome {
        if self.gone {
            return WaitOutcome::PeerGone;
        }
        if self.starved {
            std::thread::sleep(timeout.min(STARVED_PAUSE));
            return WaitOutcome::Ready;
        }
        wait_for(self.fd.as_fd(), self.wants_room, timeout)
    }

    fn is_gone(&self) -> bool {
        self.gone
    }

    fn gathers(&self) -> bool {
        self.gathers
    }
}

impl WaitableBeside for Tap {
    /// Sleeps in ppoll(2) as [`Waitable::wait`] does.
    fn wait_beside(&self, other: BorrowedFd<'_>, timeout: Duration) -> (WaitOutcome, bool) {
        if self.gone {
            return (WaitOutcome::PeerGone, false);
        }
        if self.starved {
            return pause_beside(other, timeout.min(STARVED_PAUSE));
        }
        let link = std::iter::once(self.fd.as_fd());
        wait_among(link, self.wants_room, Some(other), timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_cannot_be_are_refused_with_advice() {
        for name in ["", "sixteen-letters-", "a b", "a/b", "a\0b"] {
            let refused = Tap::create(name, 1500).unwrap_err();
            assert!(matches!(refused, CreateError::Name { .. }), "{refused}");
        }
        let refused = Tap::create("tollgate0", MAX_MTU + 1).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "an MTU of 65345 bytes was asked for; it is 68 to 65344"
        );
        let refused = CreateError::System {
            doing: "opening /dev/net/tun",
            source: Errno::NOENT,
        };
        assert_eq!(
            refused.to_string(),
            "opening /dev/net/tun: No such file or directory (os error 2); load the driver (modprobe tun) or pass the device into \
             the container (--device /dev/net/tun)"
        );
    }
}
