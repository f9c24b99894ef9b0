//! An interface that is shared with the host, by a packet socket (packet(7)) with a virtio-net header in front of each frame.
//!
//! A filter lets in what is for our addresses before the kernel copies it; the host goes on as before. Frames are received into the
//! pool by recvmmsg(2), as many as came last time, and sent by sendmmsg(2) past the queueing discipline. Segments that follow each
//! other leave as one message, a train (`virtio`). No ring is mapped: a block of `TPACKET_V3` waits for a millisecond,
//! `TPACKET_V2` takes one more copy, and neither holds a frame of 64 KB without as much memory for each.
//!
//! Large frames, which the kernel has put together (GRO) or not cut yet (TSO of a veth pair's other end), are cut where they lie
//! (`inlet` in `virtio`). That takes a readv(2) for each frame, so an interface that gives none is read by recvmmsg(2) soon. The
//! first large one that comes after all is lost, and the interface is read one by one from then on.
//!
//! The kernel hands over frames whose checksum is only begun, where they have not left the host, and says so.
//!
//! The link address is registered with the interface as long as the socket lives, and over IPv6 those of its groups. So whatever ends the process, the kernel takes all
//! of it away. This module never changes a setting of the interface, and never switches it to promiscuous mode itself.
#![allow(unsafe_code)]

mod filter;
mod outgoing;

use crate::integrity;
use crate::interface::{self, Addresses, OpenError};
use crate::socket;
use crate::take::PLACED_AT;
use crate::virtio::header;
use crate::virtio::inlet::{End, Inlet, next_burst};
use crate::virtio::train;
use crate::wait::{WaitOutcome, Waitable, WaitableBeside, pause_beside, wait_among, wait_for};
use libc::c_int;
use outgoing::Outgoing;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;
use tollgate_stack::buffer::{Frame, FrameId, Pool, RxChecksum};
use tollgate_stack::config::Segmentation;
use tollgate_stack::link::{BURST, Integrity, Link, MAX_MTU};
use tollgate_wire::ethernet;

/// Pause before what had no room is tried again: a full device queue and an empty pool wake nobody.
const PAUSE: Duration = Duration::from_millis(1);

/// Frames after which the kernel is taken to give no large ones.
const FEW: u32 = 256;
/// Never: it has given one.
const FOR_GOOD: u32 = u32::MAX;

/// Counts so far, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Given to the kernel.
    pub sent: u64,
    /// Taken from the kernel.
    pub received: u64,
    /// Lost: the kernel refused them, since the interface is down or gone.
    pub refused: u64,
    /// Trains, each of several frames that were given to the kernel as one.
    pub trains: u64,
    /// Trains that the kernel did not take, and whose frames it was given alone: its interface takes none as long, or was short of room.
    pub taken_apart: u64,
    /// Large frames of the kernel, each cut into several.
    pub large: u64,
    /// Lost: longer than the MTU allows, or than the interface carries.
    pub too_long: u64,
    /// Lost: segments of a large frame for which the pool had no frame to spare.
    pub cut_off: u64,
    /// Bursts of which a part was left with the stack, since the device's queue or the socket had no room.
    pub full: u64,
    /// Times that frames were left in the socket because the pool had none to spare.
    pub no_frame: u64,
    /// Lost by the kernel: the socket had no room for them.
    pub dropped: u64,
}

/// A packet socket on an interface.
#[derive(Debug)]
pub struct Packet {
    fd: OwnedFd,
    mtu: usize,
    integrity: Integrity,
    /// Frames that the next `receive` takes at most ([`next_burst`]).
    burst: usize,
    /// The obstacle that keeps frames from moving, for `wait`.
    blocked: Blocked,
    inlet: Inlet,
    /// Frames that are read one by one until many are by one call: [`FOR_GOOD`] where the kernel gives large ones, of which such a call
    /// has no place for all segments.
    until_batches: u32,
    /// The interface was deleted.
    gone: Cell<bool>,
    outgoing: Outgoing,
    stats: Stats,
}

/// Obstacle that the last calls met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocked {
    Nothing,
    /// The socket had no room for frames to be sent; it tells when it has.
    Socket,
    /// The device's queue had none, or the pool no frame for what has arrived: nobody tells.
    Silently,
}

impl Packet {
    /// Bytes that may wait in each direction of the socket, as Linux counts them: a window of small segments with their overhead.
    pub const BUFFER: usize = 8 << 20;

    /// Takes what is for these addresses off an interface of the calling thread's network namespace, and sends IP packets of at most
    /// `mtu` bytes there ([`mtu_on`](crate::mtu_on)).
    ///
    /// # Errors
    /// [`OpenError::Missing`], [`OpenError::Mtu`] for one that no stack can have, [`OpenError::BeyondInterface`] for more than the
    /// interface carries, and those of the system: it takes CAP_NET_RAW, and CAP_NET_ADMIN for large socket buffers.
    pub fn open(interface: &str, addresses: Addresses, mtu: usize) -> Result<Self, OpenError> {
        interface::check_mtu(mtu, MAX_MTU)?;
        let fd = socket::raw(libc::AF_PACKET)
            .map_err(OpenError::while_doing("making a packet socket"))?;
        let index = interface::index_of(interface, &fd)?;
        interface::check_mtu_of(interface, &fd, mtu)?;
        let on: c_int = 1;
        for (option, doing) in [
            (
                libc::PACKET_VNET_HDR,
                "asking for virtio-net headers (PACKET_VNET_HDR)",
            ),
            (
                libc::PACKET_QDISC_BYPASS,
                "sending past the queueing discipline (PACKET_QDISC_BYPASS)",
            ),
            (
                libc::PACKET_IGNORE_OUTGOING,
                "leaving out what the host sends (PACKET_IGNORE_OUTGOING)",
            ),
        ] {
            socket::set(&fd, libc::SOL_PACKET, option, &on)
                .map_err(OpenError::while_doing(doing))?;
        }
        // Without CAP_NET_ADMIN the system's limits hold, and what has no room is counted.
        if sockopt::set_socket_recv_buffer_size_force(&fd, Self::BUFFER).is_err() {
            sockopt::set_socket_recv_buffer_size(&fd, Self::BUFFER)
                .map_err(OpenError::while_doing("enlarging the socket's buffer"))?;
        }
        if sockopt::set_socket_send_buffer_size_force(&fd, Self::BUFFER).is_err() {
            sockopt::set_socket_send_buffer_size(&fd, Self::BUFFER)
                .map_err(OpenError::while_doing("enlarging the socket's buffer"))?;
        }
        // A socket of no protocol receives nothing: no frame passes before the filter is there.
        socket::attach_filter(&fd, &filter::program(&addresses))
            .map_err(OpenError::while_doing("attaching the filter"))?;
        interface::register(&fd, index, &addresses)?;
        let bound = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: index as c_int,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        socket::bind(&fd, &bound).map_err(OpenError::while_doing(
            "binding the socket to the interface",
        ))?;
        Ok(Self::over(fd, mtu).with_integrity(integrity::of_interface(interface, index)))
    }

    /// A link over a socket that is ready.
    fn over(fd: OwnedFd, mtu: usize) -> Self {
        Self {
            fd,
            mtu,
            integrity: Integrity::Unprotected,
            burst: 1,
            blocked: Blocked::Nothing,
            inlet: Inlet::new(),
            until_batches: FEW,
            gone: Cell::new(false),
            outgoing: Outgoing::new(),
            stats: Stats::default(),
        }
    }

    /// States the protection of frames, for whoever knows more of this link than the link does: that frames of a veth pair do not leave the
    /// memory of this host, or that an adapter has no CRC of its own. Stacks ask when they are made
    /// ([`Config::for_link`](tollgate_stack::Config::for_link)).
    #[must_use]
    pub const fn with_integrity(mut self, integrity: Integrity) -> Self {
        self.integrity = integrity;
        self
    }

    /// Bytes that may wait in the socket until they are received: fewer than [`Packet::BUFFER`] where the system's limit is lower.
    pub fn buffer(&self) -> usize {
        // Linux doubles what it is asked for, to have room for its records.
        sockopt::socket_recv_buffer_size(&self.fd).map_or(0, |bytes| bytes / 2)
    }

    /// Counts so far.
    pub fn stats(&mut self) -> &Stats {
        // Reading them makes the kernel count from zero. A socket that cannot be asked has nothing to tell.
        if let Ok(new) =
            socket::get::<libc::tpacket_stats>(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS)
        {
            self.stats.dropped += u64::from(new.tp_drops);
        }
        &self.stats
    }

    /// Bytes of the longest frame.
    const fn longest(&self) -> usize {
        ethernet::HEADER_LEN + self.mtu
    }

    /// Notes whether the interface was deleted; one that is down may come up again.
    #[cold]
    fn look_for_interface(&self) {
        // A socket that cannot tell is taken for one that is bound.
        let bound = socket::name::<libc::sockaddr_ll>(&self.fd);
        if bound.is_ok_and(|bound| bound.sll_ifindex < 0) {
            self.gone.set(true);
        }
    }

    /// Appends one frame that has been received, or counts why it is lost.
    #[inline]
    fn arrived(
        &mut self,
        pool: &mut Pool,
        frames: &mut Vec<Frame>,
        id: FrameId,
        read: usize,
        checksum: RxChecksum,
    ) {
        match read.checked_sub(header::LEN) {
            Some(len) if len <= self.longest() && PLACED_AT + len <= pool.frame_size() => {
                self.stats.received += 1;
                frames.push(Frame {
                    id,
                    offset: PLACED_AT as u16,
                    len: len as u16,
                    checksum,
                });
            }
            Some(_) | None => {
                self.stats.too_long += 1;
                pool.release(id);
            }
        }
    }

    /// Receives as many frames as there are ids, and gives how many came.
    fn receive_into(
        &mut self,
        pool: &mut Pool,
        frames: &mut Vec<Frame>,
        ids: &[FrameId],
    ) -> Result<usize, Errno> {
        // One byte more than a frame may have: Linux cuts what does not fit without a word.
        let room = (self.longest() + 1).min(pool.frame_size() - PLACED_AT);
        let frame_size = pool.frame_size();
        let region = pool.start_of_region();
        let mut headers = [header::COMPLETE; BURST];
        let headers_at = headers.as_mut_ptr();
        let mut parts = [[EMPTY; 2]; BURST];
        let mut messages = [NO_MESSAGE; BURST];
        for (at, id) in ids.iter().enumerate() {
            let place = region.wrapping_add(id.index() * frame_size + PLACED_AT);
            parts[at] = [
                libc::iovec {
                    iov_base: headers_at.wrapping_add(at).cast(),
                    iov_len: header::LEN,
                },
                libc::iovec {
                    iov_base: place.cast(),
                    iov_len: room,
                },
            ];
        }
        let parts_at = parts.as_mut_ptr();
        for (at, message) in messages[..ids.len()].iter_mut().enumerate() {
            message.msg_hdr.msg_iov = parts_at.wrapping_add(at).cast();
            message.msg_hdr.msg_iovlen = 2;
        }
        // SAFETY: each message points to two parts, which are a header of its own and a frame of its own. The frames were just taken
        // from the pool, so nobody else refers to them, and `room` bytes from `PLACED_AT` on lie within each.
        let count = unsafe { socket::receive_messages(&self.fd, &mut messages[..ids.len()]) }?;
        for ((message, id), header) in messages[..count].iter().zip(ids).zip(&headers) {
            let said = header::Received::of(header);
            if said.kind != header::Kind::Whole {
                self.until_batches = FOR_GOOD;
            }
            self.arrived(pool, frames, *id, message.msg_len as usize, said.checksum);
        }
        Ok(count)
    }
}

const EMPTY: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};
/// A message without name, parts and control data.
const NO_MESSAGE: libc::mmsghdr = {
    // SAFETY: all of it is integers and pointers, for which zero is a value.
    unsafe { std::mem::zeroed() }
};

impl AsFd for Packet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Link for Packet {
    #[inline(always)]
    fn mtu(&self) -> usize {
        self.mtu
    }

    fn integrity(&self) -> Integrity {
        self.integrity
    }

    fn set_segmentation(&mut self, segmentation: Segmentation) {
        self.outgoing.gathers = segmentation == Segmentation::Gso;
    }

    fn complete_checksums(&mut self, wanted: bool) -> bool {
        self.outgoing.completes = wanted;
        wanted
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.blocked = Blocked::Nothing;
        // Frames up to `alone` leave one by one.
        let (mut done, mut alone) = (0, 0);
        while done < frames.len() {
            let (offered, longest) = if done < alone {
                (&frames[done..alone], 1)
            } else {
                (&frames[done..], train::MOST)
            };
            let (sent, outcome) = self.outgoing.send(&self.fd, pool, offered, longest);
            self.stats.sent += sent.frames as u64;
            self.stats.trains += sent.trains as u64;
            done += sent.frames;
            match outcome {
                Ok(()) => {}
                // Nothing is wrong with its frames: the interface takes no trains.
                Err(Errno::INVAL) if sent.next > 1 => self.outgoing.gathers = false,
                Err(Errno::INTR) => {}
                // The queue is full, or the interface does not take so long a train (its `gso_max_size`, `gso_max_segs`): Linux would
                // cut it, and drops it instead where frames pass the queueing discipline. A frame alone tells.
                Err(Errno::NOBUFS) if sent.next > 1 => {
                    self.stats.taken_apart += 1;
                    alone = done + sent.next;
                }
                Err(error @ (Errno::AGAIN | Errno::NOBUFS)) => {
                    self.stats.full += 1;
                    self.blocked = if error == Errno::AGAIN {
                        Blocked::Socket
                    } else {
                        Blocked::Silently
                    };
                    break;
                }
                Err(error) => {
                    // Those of one message are lost, as on any line that is cut.
                    let lost = sent.next.min(frames.len() - done);
                    if error == Errno::MSGSIZE {
                        self.stats.too_long += lost as u64;
                    } else {
                        self.stats.refused += lost as u64;
                        self.look_for_interface();
                    }
                    done += lost;
                }
            }
        }
        for frame in frames.drain(..done) {
            pool.release(frame.id);
        }
    }

    #[inline]
    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        if self.until_batches != 0 {
            return self.receive_each(pool, frames);
        }
        let mut ids = [None; BURST];
        let wanted = self.burst;
        let mut taken = 0;
        for id in &mut ids[..wanted] {
            *id = pool.alloc_for_receive();
            if id.is_none() {
                break;
            }
            taken += 1;
        }
        if taken < wanted {
            self.starves();
        } else if self.blocked == Blocked::Silently {
            self.blocked = Blocked::Nothing;
        }
        let Some(first) = ids[0] else { return };
        let ids: [FrameId; BURST] = ids.map(|id| id.unwrap_or(first));
        let ids = &ids[..taken];
        let came = match self.receive_into(pool, frames, ids) {
            Ok(came) => came,
            Err(Errno::AGAIN | Errno::INTR) => 0,
            Err(_) => {
                self.look_for_interface();
                0
            }
        };
        for id in &ids[came..] {
            pool.release(*id);
        }
        self.burst = next_burst(wanted, came);
    }
}

impl Packet {
    /// Receives frame by frame, and cuts those that the kernel has put together of several.
    fn receive_each(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        if self.blocked == Blocked::Silently {
            self.blocked = Blocked::Nothing;
        }
        let before = frames.len();
        let longest = self.longest();
        let burst = self
            .inlet
            .receive(self.fd.as_fd(), pool, longest, self.burst, frames);
        match burst.end {
            End::Enough | End::Nothing | End::Failed(Errno::INTR) => {}
            End::NoFrame => self.starves(),
            End::Failed(_) => self.look_for_interface(),
        }
        self.stats.received += (frames.len() - before) as u64;
        self.stats.too_long += burst.refused as u64;
        let cuts = self.inlet.cuts();
        self.stats.cut_off = cuts.lost;
        if cuts.large != self.stats.large {
            self.stats.large = cuts.large;
            self.until_batches = FOR_GOOD;
        } else if self.until_batches != FOR_GOOD {
            self.until_batches = self.until_batches.saturating_sub(burst.passed as u32);
        }
        self.burst = next_burst(self.burst, burst.passed);
    }

    /// Notes that the pool has no frame for what has arrived.
    fn starves(&mut self) {
        self.stats.no_frame += 1;
        if self.blocked == Blocked::Nothing {
            self.blocked = Blocked::Silently;
        }
    }

    fn wants_room(&self) -> bool {
        self.blocked == Blocked::Socket
    }

    /// The outcome of a wait. An error of an interface that went down is taken off, so that the next wait sleeps. It comes before the
    /// interface is deleted, which wakes nobody.
    fn judged(&self, outcome: WaitOutcome) -> WaitOutcome {
        if outcome == WaitOutcome::Ready {
            return outcome;
        }
        let lost = outcome == WaitOutcome::PeerGone && sockopt::socket_error(&self.fd).is_err();
        self.look_for_interface();
        if lost || self.gone.get() {
            return WaitOutcome::PeerGone;
        }
        match outcome {
            WaitOutcome::PeerGone => WaitOutcome::Ready,
            WaitOutcome::Ready | WaitOutcome::TimedOut => outcome,
        }
    }
}

impl WaitableBeside for Packet {
    /// Sleeps in ppoll(2) as [`Waitable::wait`] does.
    fn wait_beside(&self, other: BorrowedFd<'_>, timeout: Duration) -> (WaitOutcome, bool) {
        if self.gone.get() {
            return (WaitOutcome::PeerGone, false);
        }
        if self.blocked == Blocked::Silently {
            return pause_beside(other, timeout.min(PAUSE));
        }
        let link = std::iter::once(self.fd.as_fd());
        let (outcome, other) = wait_among(link, self.wants_room(), Some(other), timeout);
        (self.judged(outcome), other)
    }
}

impl Waitable for Packet {
    /// Sleeps in ppoll(2). Where the device's queue or the pool was the obstacle, it sleeps a millisecond at most, since nobody
    /// tells when that is over. An interface that is down has nothing to wait for, and comes up or not.
    fn wait(&self, timeout: Duration) -> WaitOutcome {
        if self.gone.get() {
            return WaitOutcome::PeerGone;
        }
        if self.blocked == Blocked::Silently {
            std::thread::sleep(timeout.min(PAUSE));
            return WaitOutcome::Ready;
        }
        self.judged(wait_for(self.fd.as_fd(), self.wants_room(), timeout))
    }

    fn is_gone(&self) -> bool {
        self.gone.get()
    }

    fn gathers(&self) -> bool {
        self.outgoing.gathers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::frames;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    /// Reads one by one, and many by one call.
    const READING: [u32; 2] = [FOR_GOOD, 0];

    /// Two links that are joined by sockets of another family, which keep messages apart as packet sockets do.
    fn pair(buffer: usize, until_batches: u32) -> [Packet; 2] {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        [a, b].map(|fd| {
            sockopt::set_socket_send_buffer_size(&fd, buffer).unwrap();
            let mut link = Packet::over(fd, 1_500);
            link.until_batches = until_batches;
            link
        })
    }

    fn burst(pool: &mut Pool, numbers: std::ops::Range<usize>) -> Vec<Frame> {
        numbers
            .map(|number| {
                let bytes = [number as u8; 200];
                pool.frame_from(&bytes[..60 + number % 100]).unwrap()
            })
            .collect()
    }

    #[test]
    fn full_queues_keep_what_has_no_room_and_lose_nothing() {
        const FRAMES: usize = 100;
        for reading in READING {
            let mut pool = Pool::new(2 * FRAMES + 64, 2048);
            let [mut a, mut b] = pair(4_096, reading);
            let mut waiting = burst(&mut pool, 0..FRAMES);
            let mut arrived = Vec::new();
            a.transmit(&mut pool, &mut waiting);
            assert!(!waiting.is_empty());
            assert_eq!(a.stats.full, 1);
            assert_eq!(a.wait(Duration::from_millis(1)), WaitOutcome::TimedOut);
            for _ in 0..10 * FRAMES {
                b.receive(&mut pool, &mut arrived);
                a.transmit(&mut pool, &mut waiting);
            }
            assert_eq!((waiting.len(), arrived.len()), (0, FRAMES));
            for (number, frame) in arrived.iter().enumerate() {
                let bytes = pool.frame(frame);
                assert_eq!(bytes.len(), 60 + number % 100);
                assert!(bytes.iter().all(|byte| *byte == number as u8));
            }
            assert_eq!((a.stats.sent, b.stats.received), (100, 100));
            arrived.drain(..).for_each(|frame| pool.release(frame.id));
            assert_eq!(pool.available(), pool.capacity());
        }
    }

    #[test]
    fn scarce_pools_leave_frames_in_the_socket() {
        for reading in READING {
            let mut sender = Pool::new(32, 2048);
            let mut pool = Pool::new(8, 2048);
            let [mut a, mut b] = pair(1 << 16, reading);
            let mut waiting = burst(&mut sender, 0..20);
            a.transmit(&mut sender, &mut waiting);
            assert!(waiting.is_empty());
            let mut arrived = Vec::new();
            for _ in 0..4 {
                b.receive(&mut pool, &mut arrived);
            }
            assert!(pool.is_scarce());
            assert!(b.stats.no_frame > 0);
            // Nobody tells when the pool has frames again.
            assert_eq!(b.wait(Duration::from_micros(1)), WaitOutcome::Ready);
            let mut got = 0;
            for _ in 0..20 {
                got += arrived.len();
                arrived.drain(..).for_each(|frame| pool.release(frame.id));
                b.receive(&mut pool, &mut arrived);
            }
            assert_eq!(got + arrived.len(), 20);
        }
    }

    #[test]
    fn frames_beyond_the_mtu_are_lost_and_counted() {
        for reading in READING {
            let mut pool = Pool::new(16, 2048);
            let [mut a, mut b] = pair(1 << 16, reading);
            let longest = pool.frame_from(&[1; 1_514]).unwrap();
            let longer = pool.frame_from(&[2; 1_515]).unwrap();
            let last = pool.frame_from(&[3; 60]).unwrap();
            a.transmit(&mut pool, &mut vec![longest, longer, last]);
            let mut arrived = Vec::new();
            for _ in 0..3 {
                b.receive(&mut pool, &mut arrived);
            }
            let lengths: Vec<u16> = arrived.iter().map(|frame| frame.len).collect();
            assert_eq!(lengths, [1_514, 60]);
            assert_eq!(b.stats.too_long, 1);
        }
    }

    #[test]
    fn interfaces_that_cannot_be_shared_are_refused() {
        let refused = Packet::open("lo", frames::OURS, MAX_MTU + 1).unwrap_err();
        assert!(
            matches!(refused, OpenError::Mtu { most: MAX_MTU, .. }),
            "{refused}"
        );
        // Without CAP_NET_RAW there is no socket to look by.
        match Packet::open("no-such-device", frames::OURS, 1_500).unwrap_err() {
            OpenError::Missing { name } => assert_eq!(name, "no-such-device"),
            refused => assert!(refused.to_string().contains("CAP_NET_RAW"), "{refused}"),
        }
    }
}
