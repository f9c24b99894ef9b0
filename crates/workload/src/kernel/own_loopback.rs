//! A loopback of our own: a network namespace that nothing but a connection of ours lives in.
//!
//! What a loopback device does with segments, its MTU and how many travel as one skb, is a property of the device. The machine's own
//! loopback carries other people's traffic, so it is left as it is; a new namespace has a loopback of its own, which may be set up as
//! one likes. Nothing has to be given back: the namespace goes with the last socket and descriptor in it, however the process ends.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;

use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::PATH;
use crate::error::Error;

/// How a loopback device carries segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Device {
    /// Bytes of the largest IP packet.
    pub(super) mtu: u32,
    /// Segments that travel as one skb at most.
    pub(super) segments: u32,
}

/// Does `work` in a new network namespace whose loopback is up and set up as `device` says, on a thread of its own: a thread that has
/// left its namespace may not be able to come back. Gives what it made, and the namespace.
///
/// # Errors
/// [`Error::System`] when namespaces cannot be made here (it needs CAP_SYS_ADMIN), else what `work` gives.
pub(super) fn within<T: Send>(
    device: Device,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<(T, OwnedFd), Error> {
    let body = move || {
        let system = |doing| {
            move |error: io::Error| Error::System {
                path: PATH,
                doing,
                source: error,
            }
        };
        // SAFETY: a new network namespace takes no file, memory or signal away from this thread, which has just begun and ends
        // with this function.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
            .map_err(io::Error::from)
            .map_err(system("making a network namespace (needs CAP_SYS_ADMIN)"))?;
        set_up(device).map_err(system("setting up the namespace's loopback"))?;
        let namespace = File::open("/proc/thread-self/ns/net")
            .map_err(system("opening the network namespace"))?;
        Ok((work()?, OwnedFd::from(namespace)))
    };
    thread::scope(|scope| {
        scope.spawn(body).join().unwrap_or_else(|_| {
            Err(Error::Peer {
                path: PATH,
                reason: "the thread that makes the namespace has panicked".to_owned(),
            })
        })
    })
}

/// Brings the namespace's loopback up with these settings, by one message of rtnetlink (rtnetlink(7)).
fn set_up(device: Device) -> io::Result<()> {
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
    };
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // NETLINK_ROUTE is protocol 0.
        None,
    )?;
    send(&socket, &message(device), SendFlags::empty())?;
    let mut answer = [0; 256];
    let (got, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    outcome(&answer[..got])
}

const HEADER: usize = 16;
const LINK: usize = 16;
const ATTRIBUTE: usize = 8;

/// The message that sets up the loopback, which has index 1 in every namespace.
fn message(device: Device) -> [u8; HEADER + LINK + 2 * ATTRIBUTE] {
    let mut message = [0; HEADER + LINK + 2 * ATTRIBUTE];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        message[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&((HEADER + LINK + 2 * ATTRIBUTE) as u32).to_ne_bytes());
    put(&libc::RTM_NEWLINK.to_ne_bytes());
    put(&((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
    // Sequence number and port of the sender; struct ifinfomsg: family, padding, type.
    put(&[0; 8]);
    put(&[0; 4]);
    put(&1_i32.to_ne_bytes());
    put(&(libc::IFF_UP as u32).to_ne_bytes());
    put(&(libc::IFF_UP as u32).to_ne_bytes());
    for (kind, value) in [
        (libc::IFLA_MTU, device.mtu),
        (libc::IFLA_GSO_MAX_SEGS, device.segments),
    ] {
        put(&(ATTRIBUTE as u16).to_ne_bytes());
        put(&kind.to_ne_bytes());
        put(&value.to_ne_bytes());
    }
    message
}

/// What the kernel answered: a message of the type NLMSG_ERROR with 0 or a negative error number.
fn outcome(answer: &[u8]) -> io::Result<()> {
    let error = answer
        .get(HEADER..)
        .and_then(|rest| rest.first_chunk::<4>())
        .map(|number| i32::from_ne_bytes(*number));
    match error {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(-number)),
        None => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_has_its_attributes_where_the_kernel_looks_for_them() {
        let message = message(Device {
            mtu: 1_500,
            segments: 1,
        });
        assert_eq!(message[..4], (48_u32).to_ne_bytes());
        assert_eq!(message[20..24], 1_i32.to_ne_bytes());
        assert_eq!(message[34..36], libc::IFLA_MTU.to_ne_bytes());
        assert_eq!(message[36..40], 1_500_u32.to_ne_bytes());
        assert_eq!(message[44..48], 1_u32.to_ne_bytes());
    }

    #[test]
    fn answers_are_read() {
        let answer = |number: i32| {
            let mut answer = vec![0; HEADER];
            answer.extend(number.to_ne_bytes());
            answer
        };
        assert!(outcome(&answer(0)).is_ok());
        let refused = outcome(&answer(-libc::EPERM)).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
        assert!(outcome(&[0; 3]).is_err());
    }
}
