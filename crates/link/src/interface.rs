//! An interface of the host that a link shares with the host: which frames are ours, and why it cannot be had.
//!
//! The link takes frames for its own addresses off the interface and leaves all others to the host. The host must not have these
//! addresses: it would answer segments that are ours by resets.

use crate::socket;
use crate::xdp::Mode;
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use tollgate_stack::link::MIN_MTU;
use tollgate_wire::ethernet::MacAddr;

/// The addresses of a stack on a shared interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Link address. One that is not the interface's own keeps the host from looking at the frames.
    pub mac: MacAddr,
    /// IPv4 address.
    pub ipv4: Ipv4Addr,
}

impl Addresses {
    /// The first four bytes of the link address and the last two, as they are loaded from a frame by a big-endian load.
    pub(crate) const fn mac_parts(&self) -> (u32, u16) {
        let [a, b, c, d, e, f] = self.mac.0;
        (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]))
    }
}

/// An interface cannot be shared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The link cannot carry such an MTU.
    #[error("an MTU of {mtu} bytes was asked for; this link carries {MIN_MTU} to {most}")]
    Mtu {
        /// The MTU in bytes.
        mtu: usize,
        /// The largest that the link carries.
        most: usize,
    },
    /// There is no such interface in this network namespace.
    #[error(
        "there is no interface {name:?} in this network namespace; `ip link` lists those that there are"
    )]
    Missing {
        /// Its name.
        name: String,
    },
    /// None of the modes of AF_XDP can be had.
    #[error("{}", of_modes(refused))]
    Modes {
        /// Those that were tried, and why not.
        refused: Vec<(Mode, Self)>,
    },
    /// A system call failed.
    #[error("{doing}: {source}{}", advice(doing, *.source))]
    System {
        /// Action that failed.
        doing: &'static str,
        /// The system's reason.
        source: Errno,
    },
}

impl OpenError {
    /// Names the action whose system call failed.
    pub(crate) const fn while_doing(doing: &'static str) -> impl Fn(Errno) -> Self + Copy {
        move |source| Self::System { doing, source }
    }
}

/// The reasons of all modes; one, where all have the same.
fn of_modes(refused: &[(Mode, OpenError)]) -> String {
    match refused {
        [] => "no mode of AF_XDP was asked for".to_owned(),
        [(_, first), rest @ ..] if rest.iter().all(|(_, reason)| reason == first) => {
            first.to_string()
        }
        all => {
            let reasons: Vec<String> = all
                .iter()
                .map(|(mode, reason)| format!("{mode}: {reason}"))
                .collect();
            reasons.join("; ")
        }
    }
}

/// Loading a program, which takes more than a socket does.
pub(crate) const LOADING: &str = "loading the XDP program";
/// Binding a queue, which takes time after another socket has left it.
pub(crate) const BINDING: &str = "binding an XDP socket to a queue";

/// Advice against an error of the system.
fn advice(doing: &str, source: Errno) -> &'static str {
    match source {
        Errno::PERM | Errno::ACCESS if doing == LOADING => {
            "; run as root (or with CAP_BPF and CAP_NET_ADMIN): a user namespace does not do for programs"
        }
        Errno::PERM | Errno::ACCESS => {
            "; run as root (or with CAP_NET_RAW and CAP_NET_ADMIN), or in a user namespace of its own (unshare -rn)"
        }
        Errno::BUSY if doing == BINDING => {
            "; another socket has this queue: end the program that has it"
        }
        Errno::BUSY | Errno::EXIST => {
            "; another XDP program is attached: `ip link` shows it, `ip link set DEVICE xdp off` takes it off"
        }
        Errno::AFNOSUPPORT => "; use a kernel with CONFIG_XDP_SOCKETS and CONFIG_PACKET",
        Errno::NOBUFS | Errno::NOMEM => {
            "; raise the limit on locked memory (ulimit -l), or take a smaller pool"
        }
        _ => "",
    }
}

/// The index of an interface of the calling thread's network namespace.
pub(crate) fn index_of(name: &str, socket: impl AsFd) -> Result<u32, OpenError> {
    match name_to_index(socket, name) {
        Ok(index) => Ok(index),
        Err(Errno::NODEV | Errno::INVAL | Errno::NAMETOOLONG) => Err(OpenError::Missing {
            name: name.to_owned(),
        }),
        Err(source) => Err(OpenError::System {
            doing: "looking for the interface",
            source,
        }),
    }
}

/// Has an interface take frames for a link address, for as long as the packet socket lives. An interface that knows addresses takes
/// its own alone otherwise.
pub(crate) fn register(socket: impl AsFd, index: u32, mac: MacAddr) -> Result<(), OpenError> {
    let mut address = [0; 8];
    address[..6].copy_from_slice(&mac.0);
    let membership = libc::packet_mreq {
        mr_ifindex: index as libc::c_int,
        mr_type: libc::PACKET_MR_UNICAST as u16,
        mr_alen: 6,
        mr_address: address,
    };
    socket::set(
        socket,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &membership,
    )
    .map_err(OpenError::while_doing(
        "registering the link address (PACKET_MR_UNICAST)",
    ))
}

/// Refuses an MTU that the link cannot carry.
pub(crate) const fn check_mtu(mtu: usize, most: usize) -> Result<(), OpenError> {
    if mtu < MIN_MTU || mtu > most {
        return Err(OpenError::Mtu { mtu, most });
    }
    Ok(())
}

/// Frames that programs are tried on, with whether they are for us.
#[cfg(test)]
pub(crate) mod frames {
    use super::*;

    pub(crate) const OURS: Addresses = Addresses {
        mac: MacAddr([0x02, 0, 0, 0xaa, 0xbb, 1]),
        ipv4: Ipv4Addr::new(10, 0, 0, 1),
    };

    fn frame(mac: [u8; 6], ether_type: u16, at: usize, ipv4: Ipv4Addr, len: usize) -> Vec<u8> {
        let mut frame = vec![0; len];
        frame[..6].copy_from_slice(&mac);
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        frame[at..at + 4].copy_from_slice(&ipv4.octets());
        frame
    }

    pub(crate) fn all() -> Vec<(&'static str, Vec<u8>, bool)> {
        const IPV4: u16 = 0x0800;
        const ARP: u16 = 0x0806;
        let (mac, ipv4) = (OURS.mac.0, OURS.ipv4);
        let broadcast = [0xff; 6];
        let other = Ipv4Addr::new(10, 0, 0, 2);
        let [mut front, mut back] = [mac; 2];
        front[0] = 0;
        back[5] = 2;
        let mut short = frame(mac, IPV4, 30, ipv4, 34);
        short.truncate(33);
        vec![
            ("a segment for us", frame(mac, IPV4, 30, ipv4, 60), true),
            ("a header for us", frame(mac, IPV4, 30, ipv4, 34), true),
            ("half a header", short, false),
            ("another address", frame(mac, IPV4, 30, other, 60), false),
            (
                "another link address",
                frame(front, IPV4, 30, ipv4, 60),
                false,
            ),
            ("another last byte", frame(back, IPV4, 30, ipv4, 60), false),
            ("a broadcast", frame(broadcast, IPV4, 30, ipv4, 60), false),
            (
                "a question for us",
                frame(broadcast, ARP, 38, ipv4, 42),
                true,
            ),
            ("an answer to us", frame(mac, ARP, 38, ipv4, 60), true),
            (
                "another's question",
                frame(broadcast, ARP, 38, other, 42),
                false,
            ),
            ("IPv6", frame(mac, 0x86dd, 38, ipv4, 60), false),
            ("a VLAN's frame", frame(mac, 0x8100, 30, ipv4, 60), false),
            ("a link address", mac.to_vec(), false),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_advice_for_what_failed() {
        let text = |doing, source| OpenError::System { doing, source }.to_string();
        assert_eq!(
            text(LOADING, Errno::PERM),
            "loading the XDP program: Operation not permitted (os error 1); run as root (or with CAP_BPF and CAP_NET_ADMIN): a \
             user namespace does not do for programs"
        );
        assert!(text("making a packet socket", Errno::PERM).contains("unshare -rn"));
        assert!(text(BINDING, Errno::BUSY).contains("another socket"));
        assert!(text("attaching the XDP program", Errno::BUSY).contains("xdp off"));
        let busy = |source| OpenError::System {
            doing: BINDING,
            source,
        };
        let modes = |refused: &[(Mode, OpenError)]| {
            OpenError::Modes {
                refused: refused.to_vec(),
            }
            .to_string()
        };
        let same = [
            (Mode::Native, busy(Errno::BUSY)),
            (Mode::Generic, busy(Errno::BUSY)),
        ];
        assert_eq!(modes(&same), busy(Errno::BUSY).to_string());
        let other = [
            (Mode::ZeroCopy, busy(Errno::OPNOTSUPP)),
            (Mode::Native, busy(Errno::BUSY)),
        ];
        let text = modes(&other);
        assert!(
            text.starts_with("native without a copy: binding")
                && text.contains("; native with a copy: "),
            "{text}"
        );
        assert_eq!(
            check_mtu(67, 1_500).unwrap_err().to_string(),
            "an MTU of 67 bytes was asked for; this link carries 68 to 1500"
        );
        assert_eq!(check_mtu(1_500, 1_500), Ok(()));
    }

    #[test]
    fn link_addresses_are_compared_in_two_parts() {
        let addresses = Addresses {
            mac: MacAddr([1, 2, 3, 4, 5, 6]),
            ipv4: Ipv4Addr::LOCALHOST,
        };
        assert_eq!(addresses.mac_parts(), (0x0102_0304, 0x0506));
    }
}
