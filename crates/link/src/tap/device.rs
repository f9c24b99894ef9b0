//! Making a tap device by the ioctls of `linux/if_tun.h`.
//!
//! The device belongs to the network namespace of the thread that makes it. It is not persistent: Linux takes it away with its
//! last descriptor, however the process ends.

use super::CreateError;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode, Setter, Updater, ioctl, opcode};
use std::ffi::{c_int, c_short, c_uint};
use std::os::fd::OwnedFd;

/// Frames with their Ethernet header (`IFF_TAP`).
const TAP: c_short = 0x0002;
/// No packet information in front of a frame (`IFF_NO_PI`).
const NO_PI: c_short = 0x1000;
/// A virtio-net header in front of each frame (`IFF_VNET_HDR`).
const VNET_HDR: c_short = 0x4000;
/// We take frames whose checksum is not complete (`TUN_F_CSUM`), large ones of TCP over IPv4 and IPv6 (`TUN_F_TSO4`,
/// `TUN_F_TSO6`), and those whose first segment has CWR (`TUN_F_TSO_ECN`).
const CSUM: usize = 0x01;
const TSO4: usize = 0x02;
const TSO6: usize = 0x04;
const TSO_ECN: usize = 0x08;

const SET_INTERFACE: Opcode = opcode::write::<c_int>(b'T', 202);
const SET_OFFLOAD: Opcode = opcode::write::<c_uint>(b'T', 208);
const SET_HEADER: Opcode = opcode::write::<c_int>(b'T', 216);

/// Bytes of a device's name with the zero behind it (`IFNAMSIZ`).
pub(super) const NAME: usize = 16;

/// `struct ifreq`: a name, and a union whose largest member has 24 bytes on 64-bit machines.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Request {
    name: [u8; NAME],
    flags: c_short,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<Request>() == 40);

/// Work that Linux leaves to the device: what we take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offloads {
    /// None: every frame is one segment with complete checksums.
    Nothing,
    /// Checksums that are not complete.
    Checksums,
    /// Large frames besides, which stand for several segments.
    LargeFrames,
}

impl Offloads {
    const fn features(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Checksums => CSUM,
            Self::LargeFrames => CSUM | TSO4 | TSO6 | TSO_ECN,
        }
    }
}

/// An error of the system's.
fn refused(doing: &'static str) -> impl Fn(Errno) -> CreateError {
    move |source| CreateError::System { doing, source }
}

/// Tells Linux what we take.
pub(super) fn offer(fd: &OwnedFd, offer: Offloads) -> Result<(), CreateError> {
    // SAFETY: TUNSETOFFLOAD takes the features as its argument.
    let set = unsafe { IntegerSetter::<SET_OFFLOAD>::new_usize(offer.features()) };
    // SAFETY: as above.
    unsafe { ioctl(fd, set) }.map_err(refused("taking offloads (TUNSETOFFLOAD)"))
}

/// Makes a device of this name and gives its descriptor, which does not block, and the device's name.
pub(super) fn make(name: &str) -> Result<(OwnedFd, String), CreateError> {
    if name.is_empty() || name.len() >= NAME || name.contains(['\0', '/', ' ']) {
        return Err(CreateError::Name {
            name: name.to_owned(),
        });
    }
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/dev/net/tun", flags, Mode::empty())
        .map_err(refused("opening /dev/net/tun"))?;
    let mut request = Request {
        name: [0; NAME],
        flags: TAP | NO_PI | VNET_HDR,
        rest: [0; 22],
    };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads an ifreq with name and flags, and writes the device's name to it.
    let set = unsafe { Updater::<SET_INTERFACE, Request>::new(&mut request) };
    // SAFETY: as above; the request outlives the call.
    unsafe { ioctl(&fd, set) }.map_err(refused("making a tap device (TUNSETIFF)"))?;
    let length = crate::virtio::header::LEN as c_int;
    // SAFETY: TUNSETVNETHDRSZ reads an int.
    let set = unsafe { Setter::<SET_HEADER, c_int>::new(length) };
    // SAFETY: as above.
    unsafe { ioctl(&fd, set) }.map_err(refused("setting the header's length (TUNSETVNETHDRSZ)"))?;
    offer(&fd, Offloads::LargeFrames)?;
    let end = request.name.iter().position(|&byte| byte == 0);
    let name = String::from_utf8_lossy(&request.name[..end.unwrap_or(NAME)]).into_owned();
    Ok((fd, name))
}
