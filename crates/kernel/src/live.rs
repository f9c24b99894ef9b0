//! Packets off an interface, live: a packet socket with a ring that the kernel writes to (packet(7), `TPACKET_V3`).
//!
//! It owns the socket and the mapped ring, which go when it is dropped, and with them all that this does to the system.
//! Packets begin at the network header (a datagram packet socket), so interfaces of any kind look alike. What the kernel had no
//! room for is counted by the kernel and asked for here; it must never be left out in silence.

mod ring;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libc::{c_int, sock_filter, sock_fprog, socklen_t};
use ring::Ring;

use crate::filter::{Filter, classic};

/// The longest time that packets wait in a block of the ring that is not full.
pub const DELAY: Duration = Duration::from_millis(100);

/// Bytes of a block of the ring, and how many there are: what comes in a tenth of a second at 10 million packets of the usual
/// 128 bytes each per second has room in half of it.
const BLOCK: usize = 1 << 20;
const BLOCKS: usize = 64;

/// Choice of the packets to be captured.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The interface's index; none is all interfaces of this network namespace.
    pub interface: Option<u32>,
    /// Filter of the packets to be kept; none keeps everything.
    pub filter: Option<&'a Filter>,
    /// Bytes that are kept of each packet, counted from the network header; at least 1.
    pub snaplen: u32,
}

/// The reason why nothing can be captured.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The filter is too long.
    #[error(transparent)]
    Filter(#[from] classic::TooLong),
    /// This process may not.
    #[error(
        "packets of all processes are seen with the capability CAP_NET_RAW only; run this as root"
    )]
    NotAllowed,
    /// A step failed.
    #[error("{doing}: {source}")]
    System {
        /// Step that failed.
        doing: &'static str,
        /// Error of the system.
        source: io::Error,
    },
}

/// A packet in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When it was seen; nanoseconds since 1970-01-01 UTC.
    pub nanos: u64,
    /// Captured bytes, from the network header on.
    pub bytes: &'a [u8],
    /// Length on the wire, from there on.
    pub wire_len: u32,
    /// The protocol, as in an Ethernet header.
    pub protocol: u16,
    /// The index of the interface.
    pub interface: u32,
    /// Kind of that interface (ARPHRD_ of linux/if_arp.h).
    pub hardware: u16,
    /// For whom it is (PACKET_ of linux/if_packet.h).
    pub kind: u8,
    /// The sender's address on the link.
    pub sender: &'a [u8],
}

impl Packet<'_> {
    /// Tells whether this host sends it.
    pub const fn is_outgoing(&self) -> bool {
        self.kind == libc::PACKET_OUTGOING
    }
}

/// Counts of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets that passed the filter, those that were dropped among them.
    pub passed: u64,
    /// Of these, the packets that the ring had no room for.
    pub dropped: u64,
}

/// A capture that is under way.
#[derive(Debug)]
pub struct Live {
    ring: Ring,
    socket: OwnedFd,
    tally: Tally,
}

impl Live {
    /// Begins.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn begin(ask: &Ask<'_>) -> Result<Self, LiveError> {
        let program = classic::program(ask.filter, ask.snaplen.max(1))?;
        let at = |doing| move |source| LiveError::System { doing, source };
        // Of no protocol, so that nothing comes before the filter and the ring are there.
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: a call without pointers.
        let number = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if number < 0 {
            let error = io::Error::last_os_error();
            return Err(match error.kind() {
                io::ErrorKind::PermissionDenied => LiveError::NotAllowed,
                _ => at("make a packet socket")(error),
            });
        }
        // SAFETY: the descriptor is new, and nobody else knows it.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        attach(&socket, &program).map_err(at("give the filter to the packet socket"))?;
        let version = libc::tpacket_versions::TPACKET_V3 as c_int;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)
            .map_err(at("choose the ring's layout, TPACKET_V3"))?;
        let layout = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: BLOCKS as u32,
            // Blocks are filled with packets as long as they are; the kernel wants a size that divides a block all the same.
            tp_frame_size: 1 << 11,
            tp_frame_nr: (BLOCKS * (BLOCK >> 11)) as u32,
            tp_retire_blk_tov: DELAY.as_millis() as u32,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &layout)
            .map_err(at("make the packet socket's ring of 64 MiB"))?;
        let ring = Ring::map(&socket, BLOCK, BLOCKS).map_err(at("map the packet socket's ring"))?;
        bind(&socket, ask.interface.unwrap_or(0))
            .map_err(at("bind the packet socket to the interface"))?;
        Ok(Self {
            ring,
            socket,
            tally: Tally::default(),
        })
    }

    /// Waits until there are packets to take, at most `most`; signals end it early.
    ///
    /// # Errors
    /// When the interface went down or away.
    pub fn wait(&self, most: Duration) -> io::Result<()> {
        if self.ring.is_ready() {
            return Ok(());
        }
        let mut asked = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let most = most.as_millis().min(1_000) as c_int;
        // SAFETY: one structure, which lives through the call.
        if unsafe { libc::poll(&raw mut asked, 1, most) } < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(()),
                _ => Err(error),
            };
        }
        if asked.revents & libc::POLLERR != 0 {
            let mut error: c_int = 0;
            get(&self.socket, libc::SOL_SOCKET, libc::SO_ERROR, &mut error)?;
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
        }
        Ok(())
    }

    /// Gives the packets that are there, in the order in which they came, at most a ring full of them. Says whether there were any.
    ///
    /// # Errors
    /// Errors of `each`; the packets behind are lost then.
    pub fn take<E>(&mut self, each: impl FnMut(&Packet<'_>) -> Result<(), E>) -> Result<bool, E> {
        self.ring.take(each)
    }

    /// Lets nothing more pass. Packets that passed before can be taken [`DELAY`] later.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn stop(&mut self) -> io::Result<()> {
        attach(&self.socket, &classic::nothing())
    }

    /// Counts of the kernel since the beginning.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn tally(&mut self) -> io::Result<Tally> {
        let mut since = libc::tpacket_stats_v3 {
            tp_packets: 0,
            tp_drops: 0,
            tp_freeze_q_cnt: 0,
        };
        // The kernel's counters begin again with each question.
        let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        get(&self.socket, level, name, &mut since)?;
        self.tally.passed += u64::from(since.tp_packets);
        self.tally.dropped += u64::from(since.tp_drops);
        Ok(self.tally)
    }
}

fn attach(socket: &OwnedFd, program: &[sock_filter]) -> io::Result<()> {
    let program = sock_fprog {
        len: program.len() as u16,
        // The kernel copies it and writes nothing.
        filter: program.as_ptr().cast_mut(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

fn bind(socket: &OwnedFd, interface: u32) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: interface as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of_val(&address) as socklen_t;
    // SAFETY: the address lives through the call, and has this length.
    let outcome = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    done(outcome)
}

/// Sets an option whose value is a structure of the kernel's.
fn set<T: Copy>(socket: &OwnedFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: the value lives through the call, and has this length.
    done(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, len) })
}

/// Reads an option whose value is a structure of integers.
fn get<T: Copy>(socket: &OwnedFd, level: c_int, name: c_int, value: &mut T) -> io::Result<()> {
    let mut len = size_of::<T>() as socklen_t;
    let value = std::ptr::from_mut(value).cast();
    // SAFETY: the value lives through the call and has this length; any bytes are integers.
    done(unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, value, &raw mut len) })
}

fn done(outcome: c_int) -> io::Result<()> {
    match outcome {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
