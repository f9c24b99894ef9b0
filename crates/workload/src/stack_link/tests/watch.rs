//! Frames that pass the kernel's device, as a packet socket in its namespace sees them.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, eth, recv, socket_with, sockopt,
};
use tollgate_wire::tcp::Flags;

use super::host::{Host, OURS, Subject};

/// Bytes that may wait in the socket: all frames of a test.
const BUFFER: usize = 64 << 20;
// Offsets in an IPv4 packet and in a segment, and numbers of options (RFC 791, 3.1; RFC 9293, 3.1; RFC 1146).
const IP: usize = 14;
const SOURCE: usize = IP + 12;
const DATA_OFFSET: usize = 12;
const FLAGS: usize = 13;
const OPTIONS: usize = 20;
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const ALTERNATE_CHECKSUM: u8 = 14;

/// A socket that has a copy of every frame since it was made.
pub(super) struct Watch(OwnedFd);

/// A segment with SYN.
#[derive(Debug)]
pub(super) struct Syn {
    /// Our stack sent it.
    pub(super) is_ours: bool,
    /// It acknowledges the other end's.
    pub(super) is_answer: bool,
    /// The number in its option of alternate checksums.
    pub(super) alternate_checksum: Option<u8>,
}

impl Watch {
    pub(super) fn new<L: Subject>(host: &Host<L>) -> Self {
        let socket = host.beside(|| {
            let socket = socket_with(
                AddressFamily::PACKET,
                SocketType::RAW,
                SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
                Some(eth::ALL),
            )?;
            sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER)?;
            Ok(socket)
        });
        Self(socket.join().unwrap().unwrap())
    }

    /// The SYNs of IPv4 that have passed since the last call.
    pub(super) fn syns(&self) -> Vec<Syn> {
        let mut frame = [0; 256];
        let mut syns = Vec::new();
        loop {
            match recv(&self.0, &mut frame[..], RecvFlags::empty()) {
                Ok((len, _)) => syns.extend(syn(&frame[..len])),
                Err(Errno::WOULDBLOCK) => return syns,
                Err(error) => panic!("watching: {error}"),
            }
        }
    }
}

/// The SYN that a frame holds.
fn syn(frame: &[u8]) -> Option<Syn> {
    // IPv4 without options, and TCP.
    let is_tcp = frame.get(12..15)? == [0x08, 0x00, 0x45] && *frame.get(IP + 9)? == 6;
    let segment = frame.get(IP + 20..).filter(|_| is_tcp)?;
    let flags = Flags(*segment.get(FLAGS)?);
    if !flags.has(Flags::SYN) {
        return None;
    }
    let header = 4 * usize::from(segment[DATA_OFFSET] >> 4);
    let mut options = segment.get(OPTIONS..header)?;
    let mut alternate_checksum = None;
    while let [kind, rest @ ..] = options {
        options = match *kind {
            END => break,
            NO_OPERATION => rest,
            kind => {
                let len = usize::from(rest[0]);
                if kind == ALTERNATE_CHECKSUM {
                    assert_eq!((len, alternate_checksum), (3, None), "{frame:?}");
                    alternate_checksum = Some(rest[1]);
                }
                &options[len..]
            }
        };
    }
    Some(Syn {
        is_ours: frame[SOURCE..][..4] == OURS.ip().octets(),
        is_answer: flags.has(Flags::ACK),
        alternate_checksum,
    })
}
