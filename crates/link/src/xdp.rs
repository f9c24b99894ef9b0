//! An interface that is shared with the host, by AF_XDP (the kernel's networking/af_xdp): the pool's memory is what the kernel copies
//! frames to and from, or what the interface reads and writes itself.
//!
//! An XDP program steers what is for our addresses to one socket for each queue; the host goes on with all else. Busy polling takes no
//! system call to receive, and one for a burst to send. Modes are tried from the fastest on, each with a program and sockets of its own,
//! and with flags that leave the kernel no choice.
//!
//! A frame that is to be sent is counted until the kernel has done with it, and so are frames for the kernel to receive into:
//! [`Xdp::KEPT`] of the pool's. What the kernel loses for want of them it counts.
//!
//! The link address is registered with the interface, and over IPv6 those of its groups. It may look at no other frames than those for its own.
//!
//! Whatever ends the process, the kernel closes the sockets and detaches the program. This module never changes a setting of the
//! interface.
#![allow(unsafe_code)]

mod memory;
mod program;
mod queue;
mod ring;

use crate::integrity;
use crate::interface::{self, Addresses, OpenError};
use crate::socket;
use crate::wait::{WaitOutcome, Waitable, WaitableBeside, pause_beside, wait_among};
use libc::xdp_desc;
use memory::Memory;
use program::{Attached, Sockets};
use queue::{Queue, Share};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::cell::Cell;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tollgate_stack::buffer::{Frame, FrameId, Pool, RxChecksum};
use tollgate_stack::link::{BURST, Integrity, Link};
use tollgate_wire::ethernet;

/// Bytes in front of a received frame that the kernel takes (`XDP_PACKET_HEADROOM`).
const KERNEL_HEADROOM: usize = 256;
/// Bytes more that we ask for, so that the payload of a TCP segment with timestamps (14 + 20 + 32 bytes of headers) begins at a cache
/// line.
const HEADROOM: usize = 62;
/// Bytes of the largest frame of the pool: a page.
const LARGEST_FRAME: usize = 4096;
/// Pause before what had no room is tried again: a full device queue and an empty pool wake nobody.
const PAUSE: Duration = Duration::from_millis(1);

/// A way in which frames move between the interface and the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The interface's driver reads and writes the pool.
    ZeroCopy,
    /// The driver runs the program, and the kernel copies.
    Native,
    /// The kernel runs the program behind the driver, and copies.
    Generic,
}

impl Mode {
    /// All modes, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::ZeroCopy, Self::Native, Self::Generic];
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroCopy => "native without a copy",
            Self::Native => "native with a copy",
            Self::Generic => "generic with a copy",
        })
    }
}

/// Transport checksums of what arrives. AF_XDP does not say what the kernel knows of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// The stack verifies them.
    Verify,
    /// All that arrives was made on this host and has not left it, as on a veth pair. Its checksums may be only begun, and the link
    /// says [`Integrity::Memory`].
    Trust,
}

/// Settings of a link.
#[derive(Clone, Copy, Debug)]
pub struct Config<'a> {
    /// Name of the interface.
    pub interface: &'a str,
    /// Addresses whose frames are taken off it.
    pub addresses: Addresses,
    /// Bytes of the largest IP packet ([`mtu_on`](crate::mtu_on)), [`Xdp::LARGEST_MTU`] at most.
    pub mtu: usize,
    /// Frames of the pool besides [`Xdp::KEPT`].
    pub frames: usize,
    /// Transport checksums of what arrives.
    pub checksums: Checksums,
    /// Modes to be tried, in this order.
    pub modes: &'a [Mode],
}

/// Counts so far, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Given to the kernel.
    pub sent: u64,
    /// Taken from the kernel.
    pub received: u64,
    /// Lost: the kernel or the device refused them.
    pub refused: u64,
    /// Lost: longer than the MTU allows.
    pub too_long: u64,
    /// Bursts of which a part was left with the stack, since the ring had no room.
    pub full: u64,
    /// Times that the kernel was given fewer frames to receive into than it should have, since the pool had none to spare.
    pub no_frame: u64,
    /// Lost by the kernel: it had no frame to receive into, or the frame was too long for one (`XDP_STATISTICS`).
    pub dropped: u64,
    /// Lost by the kernel: the ring of frames that have arrived was full.
    pub ring_full: u64,
    /// Times that the kernel had no frame to receive into.
    pub fill_empty: u64,
    /// Descriptors of ours that the kernel refused.
    pub invalid: u64,
}

/// Sockets on the queues of an interface.
#[derive(Debug)]
pub struct Xdp {
    // The program first: what it steers to sockets that are closed would be lost.
    _attached: Attached,
    _sockets: Sockets,
    queues: Vec<Queue>,
    /// A packet socket that receives nothing and holds the link addresses.
    _address: OwnedFd,
    memory: Arc<Memory>,
    /// The ids of frames that the kernel has or had, by their place.
    ids: Vec<Option<FrameId>>,
    frame_shift: u32,
    mtu: usize,
    integrity: Integrity,
    mode: Mode,
    /// Modes that were tried before, and why they cannot be had.
    refused: Vec<(Mode, OpenError)>,
    checksum: RxChecksum,
    /// The last `transmit` left frames behind, since the ring was full.
    wants_room: bool,
    /// The device's queue was full.
    congested: bool,
    /// A queue has no frame to receive into.
    starved: bool,
    /// The interface was deleted.
    gone: Cell<bool>,
    /// The queue that is asked first by the next `receive`.
    turn: usize,
    stats: Stats,
}

impl Xdp {
    /// Frames of the pool that the kernel has to receive into, over all queues.
    pub const KEPT: usize = queue::FRAMES as usize;
    /// Bytes of the largest IP packet: one frame of the pool, a page, holds it with what the kernel keeps in front.
    pub const LARGEST_MTU: usize =
        LARGEST_FRAME - KERNEL_HEADROOM - HEADROOM - ethernet::HEADER_LEN;

    /// Takes what is for these addresses off every queue of an interface of the calling thread's network namespace, and makes the pool
    /// whose memory the kernel shares.
    ///
    /// # Errors
    /// [`OpenError::Missing`], [`OpenError::Mtu`], [`OpenError::BeyondInterface`], and [`OpenError::Modes`] with why each cannot be had: it takes CAP_NET_RAW, CAP_BPF and
    /// CAP_NET_ADMIN.
    pub fn open(config: &Config<'_>) -> Result<(Self, Pool), OpenError> {
        interface::check_mtu(config.mtu, Self::LARGEST_MTU)?;
        let needed = KERNEL_HEADROOM + HEADROOM + ethernet::HEADER_LEN + config.mtu;
        let frame_size = needed.max(2_048).next_power_of_two();
        let socket = interface::socket_to_look_by()?;
        let index = interface::index_of(config.interface, &socket)?;
        interface::check_mtu_of(config.interface, &socket, config.mtu)?;
        let (memory, mut pool) = Memory::new(config.frames + Self::KEPT, frame_size)?;
        let mut refused = Vec::new();
        for &mode in config.modes {
            match open_queues(config, index, mode, &memory, frame_size) {
                Ok((attached, sockets, queues)) => {
                    let mut link = Self {
                        _attached: attached,
                        _sockets: sockets,
                        queues,
                        _address: hold_addresses(index, &config.addresses)?,
                        memory,
                        ids: vec![None; pool.capacity()],
                        frame_shift: frame_size.trailing_zeros(),
                        mtu: config.mtu,
                        integrity: match config.checksums {
                            Checksums::Verify => integrity::of_interface(config.interface, index),
                            Checksums::Trust => Integrity::Memory,
                        },
                        mode,
                        refused,
                        checksum: match config.checksums {
                            Checksums::Verify => RxChecksum::Unknown,
                            Checksums::Trust => RxChecksum::Verified,
                        },
                        wants_room: false,
                        congested: false,
                        starved: false,
                        gone: Cell::new(false),
                        turn: 0,
                        stats: Stats::default(),
                    };
                    link.fill(&mut pool);
                    return Ok((link, pool));
                }
                Err(reason) => refused.push((mode, reason)),
            }
        }
        Err(OpenError::Modes { refused })
    }

    /// States the protection of frames, for whoever knows more of this link than the link does: that frames of a veth pair do not leave the
    /// memory of this host, or that an adapter has no CRC of its own. Stacks ask when they are made
    /// ([`Config::for_link`](tollgate_stack::Config::for_link)).
    #[must_use]
    pub const fn with_integrity(mut self, integrity: Integrity) -> Self {
        self.integrity = integrity;
        self
    }

    /// The way in which frames move.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Modes that were tried before, and why they cannot be had.
    pub fn refused(&self) -> &[(Mode, OpenError)] {
        &self.refused
    }

    /// Queues of the interface that have a socket: all of them.
    pub const fn queues(&self) -> usize {
        self.queues.len()
    }

    /// Counts so far.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        // A socket that cannot be asked has nothing to tell.
        for counted in self.queues.iter().flat_map(Queue::statistics) {
            stats.dropped += counted.rx_dropped;
            stats.ring_full += counted.rx_ring_full;
            stats.fill_empty += counted.rx_fill_ring_empty_descs;
            stats.invalid += counted.rx_invalid_descs + counted.tx_invalid_descs;
        }
        stats
    }

    /// The frame at an address in the memory, and the place of the address in it.
    #[inline(always)]
    fn at(&self, address: u64) -> (Option<FrameId>, u16) {
        let index = (address >> self.frame_shift) as usize;
        let offset = address & ((1 << self.frame_shift) - 1);
        (self.ids.get(index).copied().flatten(), offset as u16)
    }

    #[inline(always)]
    fn address(&mut self, id: FrameId, offset: u16) -> u64 {
        if let Some(known) = self.ids.get_mut(id.index()) {
            *known = Some(id);
        }
        ((id.index() as u64) << self.frame_shift) + u64::from(offset)
    }

    /// Gives frames that the kernel has sent back to the pool.
    #[inline]
    fn complete(&mut self, pool: &mut Pool) {
        for number in 0..self.queues.len() {
            let mut any = false;
            while let Some(address) = self.queues[number].completed.pop() {
                any = true;
                if let (Some(id), _) = self.at(address) {
                    pool.release(id);
                }
            }
            if any {
                self.queues[number].completed.release();
            }
        }
    }

    /// Gives the kernel frames to receive into, as many as each queue should have.
    fn fill(&mut self, pool: &mut Pool) {
        self.starved = false;
        let share = (Self::KEPT / self.queues.len()).max(1) as u32;
        for number in 0..self.queues.len() {
            let mut any = false;
            while self.queues[number].filled < share {
                let Some(id) = pool.alloc_for_receive() else {
                    self.stats.no_frame += 1;
                    break;
                };
                let address = self.address(id, 0);
                let queue = &mut self.queues[number];
                if !queue.fill.push(address) {
                    pool.release(id);
                    break;
                }
                queue.filled += 1;
                any = true;
            }
            let queue = &self.queues[number];
            self.starved |= queue.filled == 0;
            if any {
                queue.fill.publish();
            }
            // A kernel that cannot look now will be asked again.
            let _ = queue.wake_receiver();
        }
    }

    /// Lets the kernel send what is in the rings, as long as it gets on.
    fn send(&mut self) {
        self.congested = false;
        for number in 0..self.queues.len() {
            let mut waiting = self.queues[number].sent.waiting();
            while waiting > 0 {
                let outcome = self.queues[number].wake_sender();
                let left = self.queues[number].sent.waiting();
                match outcome {
                    Ok(()) => break,
                    // A part has gone (the kernel takes 32 at a time), or the device's queue is full.
                    Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {}
                    // One frame was taken and lost, as by a device that is down.
                    Err(Errno::BUSY) => self.stats.refused += 1,
                    Err(error) => {
                        self.gone.set(self.gone.get() | (error == Errno::NXIO));
                        self.congested = true;
                        break;
                    }
                }
                if left == waiting {
                    self.congested = true;
                    break;
                }
                waiting = left;
            }
        }
    }

    /// Takes what has arrived at a queue, `room` frames at most.
    fn take(&mut self, number: usize, pool: &mut Pool, frames: &mut Vec<Frame>, room: usize) {
        let longest = ethernet::HEADER_LEN + self.mtu;
        let mut taken = 0;
        while taken < room {
            let Some(descriptor) = self.queues[number].received.pop() else {
                break;
            };
            taken += 1;
            let (Some(id), offset) = self.at(descriptor.addr) else {
                continue;
            };
            if descriptor.len as usize > longest {
                self.stats.too_long += 1;
                pool.release(id);
                continue;
            }
            self.stats.received += 1;
            frames.push(Frame {
                id,
                offset,
                len: descriptor.len as u16,
                checksum: self.checksum,
            });
        }
        if taken > 0 {
            let queue = &mut self.queues[number];
            queue.received.release();
            queue.filled = queue.filled.saturating_sub(taken as u32);
        }
    }
}

/// A packet socket without a protocol, which has the interface take frames for the link address and those of its groups.
fn hold_addresses(index: u32, addresses: &Addresses) -> Result<OwnedFd, OpenError> {
    let socket =
        socket::raw(libc::AF_PACKET).map_err(OpenError::while_doing("making a packet socket"))?;
    interface::register(&socket, index, addresses)?;
    Ok(socket)
}

/// Attaches a program as a mode asks, and binds a socket to each queue; all or nothing.
fn open_queues(
    config: &Config<'_>,
    index: u32,
    mode: Mode,
    memory: &Memory,
    frame_size: usize,
) -> Result<(Attached, Sockets, Vec<Queue>), OpenError> {
    let sockets = Sockets::new()?;
    let attached = Attached::new(&config.addresses, &sockets, index, mode)?;
    let layout = (frame_size, HEADROOM as u32);
    let mut queues: Vec<Queue> = Vec::new();
    for number in 0..program::QUEUES {
        let share = match queues.first() {
            None => Share::First(mode),
            Some(first) => Share::With(first.as_fd()),
        };
        let Some(queue) = Queue::bind(index, number, memory, layout, &share)? else {
            break;
        };
        sockets.set(number, queue.as_fd())?;
        queues.push(queue);
    }
    Ok((attached, sockets, queues))
}

impl Link for Xdp {
    #[inline(always)]
    fn mtu(&self) -> usize {
        self.mtu
    }

    fn integrity(&self) -> Integrity {
        self.integrity
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.wants_room = false;
        self.complete(pool);
        if self.gone.get() || !self.memory.is_of(pool) {
            self.stats.refused += frames.len() as u64;
            frames.drain(..).for_each(|frame| pool.release(frame.id));
            return;
        }
        let mut given = 0;
        for frame in frames.iter() {
            let addr = self.address(frame.id, frame.offset);
            let descriptor = xdp_desc {
                addr,
                len: frame.len.into(),
                options: 0,
            };
            // All leave by one queue, so that they stay in order.
            if !self.queues[0].sent.push(descriptor) {
                self.wants_room = true;
                self.stats.full += 1;
                break;
            }
            given += 1;
        }
        // Their counts are the link's until the kernel has sent them.
        frames.drain(..given).for_each(drop);
        self.stats.sent += given as u64;
        self.queues[0].sent.publish();
        self.send();
        self.complete(pool);
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        if !self.memory.is_of(pool) {
            return;
        }
        if self.is_sending() {
            self.send();
        }
        self.complete(pool);
        let count = self.queues.len();
        let before = frames.len();
        for step in 0..count {
            let room = BURST.saturating_sub(frames.len() - before);
            self.take((self.turn + step) % count, pool, frames, room);
        }
        self.turn = (self.turn + 1) % count;
        if frames.len() > before || self.starved {
            self.fill(pool);
        }
    }
}

impl Xdp {
    /// The outcome of a wait. A socket whose interface was deleted says so once, and wakes nobody.
    fn judged(&self, outcome: WaitOutcome) -> WaitOutcome {
        if outcome != WaitOutcome::Ready {
            let mut errors = self.queues.iter().map(sockopt::socket_error);
            if errors.any(|error| error.is_ok_and(|error| error.is_err())) {
                self.gone.set(true);
                return WaitOutcome::PeerGone;
            }
        }
        outcome
    }
}

impl WaitableBeside for Xdp {
    /// Sleeps in ppoll(2) as [`Waitable::wait`] does.
    fn wait_beside(&self, other: BorrowedFd<'_>, timeout: Duration) -> (WaitOutcome, bool) {
        if self.gone.get() {
            return (WaitOutcome::PeerGone, false);
        }
        if self.congested || self.starved {
            return pause_beside(other, timeout.min(PAUSE));
        }
        let fds = self.queues.iter().map(AsFd::as_fd);
        let (outcome, other) = wait_among(fds, self.wants_room, Some(other), timeout);
        (self.judged(outcome), other)
    }
}

impl Waitable for Xdp {
    /// Sleeps in ppoll(2), which also lets the kernel send what is left. Where the device's queue or the pool was the obstacle, it
    /// sleeps a millisecond at most, since nobody tells when that is over.
    fn wait(&self, timeout: Duration) -> WaitOutcome {
        if self.gone.get() {
            return WaitOutcome::PeerGone;
        }
        if self.congested || self.starved {
            std::thread::sleep(timeout.min(PAUSE));
            return WaitOutcome::Ready;
        }
        let fds = self.queues.iter().map(AsFd::as_fd);
        let (outcome, _) = wait_among(fds, self.wants_room, None, timeout);
        self.judged(outcome)
    }

    fn kept(&self) -> usize {
        self.queues.iter().map(|queue| queue.filled as usize).sum()
    }

    fn is_sending(&self) -> bool {
        self.queues.iter().any(|queue| queue.sent.waiting() > 0)
    }

    fn is_gone(&self) -> bool {
        self.gone.get()
    }
}
