//! One socket on one queue of the interface, with its four rings.

use super::Mode;
use super::memory::Memory;
use super::ring::{Consumer, Producer};
use crate::interface::{BINDING, OpenError};
use crate::socket;
use libc::{c_int, xdp_desc};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Entries of the ring of frames to be sent, and of that of frames that have arrived: more than a veth queue holds.
pub(super) const FRAMES: u32 = 512;
/// Entries of the other rings: every frame that a socket has.
const ALL_FRAMES: u32 = 2 * FRAMES;

/// Patience with a queue that the kernel still takes away from a socket that was closed, and pause between two tries.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);

/// A socket that is bound.
#[derive(Debug)]
pub(super) struct Queue {
    fd: OwnedFd,
    /// Frames for the kernel to receive into.
    pub(super) fill: Producer<u64>,
    /// Frames that were sent.
    pub(super) completed: Consumer<u64>,
    pub(super) received: Consumer<xdp_desc>,
    pub(super) sent: Producer<xdp_desc>,
    /// Frames that the kernel has to receive into.
    pub(super) filled: u32,
}

/// The memory of a socket.
pub(super) enum Share<'a> {
    /// It registers the memory, and says in which way frames move.
    First(Mode),
    /// It shares all that with this one.
    With(BorrowedFd<'a>),
}

impl Queue {
    /// Binds a socket of the calling thread's namespace to a queue of an interface; none when the interface has no such queue.
    pub(super) fn bind(
        index: u32,
        queue: u32,
        memory: &Memory,
        (frame_size, headroom): (usize, u32),
        share: &Share<'_>,
    ) -> Result<Option<Self>, OpenError> {
        let fd =
            socket::raw(libc::AF_XDP).map_err(OpenError::while_doing("making an XDP socket"))?;
        let (flags, shared) = match share {
            Share::First(mode) => {
                let (addr, len) = memory.parts();
                let registered = libc::xdp_umem_reg {
                    addr,
                    len,
                    chunk_size: frame_size as u32,
                    headroom,
                    flags: 0,
                    tx_metadata_len: 0,
                };
                socket::set(&fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registered).map_err(
                    OpenError::while_doing("registering the pool with the kernel (XDP_UMEM_REG)"),
                )?;
                let way = match mode {
                    Mode::ZeroCopy => libc::XDP_ZEROCOPY,
                    Mode::Native | Mode::Generic => libc::XDP_COPY,
                };
                (way | libc::XDP_USE_NEED_WAKEUP, 0)
            }
            Share::With(first) => (libc::XDP_SHARED_UMEM, first.as_raw_fd().unsigned_abs()),
        };
        let rings = OpenError::while_doing("making the rings of an XDP socket");
        for (option, size) in [
            (libc::XDP_UMEM_FILL_RING, ALL_FRAMES),
            (libc::XDP_UMEM_COMPLETION_RING, ALL_FRAMES),
            (libc::XDP_RX_RING, FRAMES),
            (libc::XDP_TX_RING, FRAMES),
        ] {
            socket::set(&fd, libc::SOL_XDP, option, &(size as c_int)).map_err(rings)?;
        }
        let offsets: libc::xdp_mmap_offsets =
            socket::get(&fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS).map_err(rings)?;
        let fill = Producer::map(&fd, libc::XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, ALL_FRAMES);
        let completed = Consumer::map(
            &fd,
            libc::XDP_UMEM_PGOFF_COMPLETION_RING,
            &offsets.cr,
            ALL_FRAMES,
        );
        let received = Consumer::map(&fd, libc::XDP_PGOFF_RX_RING as u64, &offsets.rx, FRAMES);
        let sent = Producer::map(&fd, libc::XDP_PGOFF_TX_RING as u64, &offsets.tx, FRAMES);
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags,
            sxdp_ifindex: index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: shared,
        };
        let began = Instant::now();
        loop {
            match socket::bind(&fd, &address) {
                Ok(()) => break,
                Err(Errno::INVAL) if queue > 0 => return Ok(None),
                Err(Errno::BUSY) if began.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                Err(source) => {
                    return Err(OpenError::System {
                        doing: BINDING,
                        source,
                    });
                }
            }
        }
        Ok(Some(Self {
            fill: fill.map_err(rings)?,
            completed: completed.map_err(rings)?,
            received: received.map_err(rings)?,
            sent: sent.map_err(rings)?,
            fd,
            filled: 0,
        }))
    }

    /// Lets the kernel send what is in the ring, where it asks for that.
    pub(super) fn wake_sender(&self) -> Result<(), Errno> {
        if !self.sent.wants_wakeup() {
            return Ok(());
        }
        send(&self.fd, &[], SendFlags::DONTWAIT).map(|_| ())
    }

    /// Lets the kernel look into the fill ring, where it asks for that.
    pub(super) fn wake_receiver(&self) -> Result<(), Errno> {
        if !self.fill.wants_wakeup() {
            return Ok(());
        }
        let mut nothing: [u8; 0] = [];
        recv(&self.fd, &mut nothing, RecvFlags::DONTWAIT).map(|_| ())
    }

    /// The kernel's own counts.
    pub(super) fn statistics(&self) -> Result<libc::xdp_statistics, Errno> {
        socket::get(&self.fd, libc::SOL_XDP, libc::XDP_STATISTICS)
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
