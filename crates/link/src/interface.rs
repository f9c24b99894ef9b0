//! An interface of the host that a link shares with the host: which frames are ours, and why it cannot be had.
//!
//! The link takes frames for its own addresses off the interface and leaves all others to the host. The host must not have these
//! addresses: it would answer segments that are ours by resets.

use crate::socket;
use crate::xdp::Mode;
use libc::c_int;
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::iter;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use tollgate_stack::link::MIN_MTU;
use tollgate_wire::ethernet::{self, MacAddr};
use tollgate_wire::{bpdu, ipv6};

/// The addresses of a stack on a shared interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Link address. One that is not the interface's own keeps the host from looking at the frames.
    pub mac: MacAddr,
    /// IPv4 address.
    pub ipv4: Ipv4Addr,
    /// IPv6 addresses, the global and the link-local one.
    pub ipv6: Option<[Ipv6Addr; 2]>,
}

/// The first bytes of link addresses of groups of IPv6 (RFC 2464, 7).
pub(crate) const GROUP: u16 = 0x3333;

impl Addresses {
    /// The first four bytes of the link address and the last two, as they are loaded from a frame by a big-endian load.
    pub(crate) const fn mac_parts(&self) -> (u32, u16) {
        parts(self.mac)
    }

    /// Link addresses of the groups by which hosts announce themselves on a LAN (IEEE 802.1D, 7.12.3), and by which neighbours find these
    /// addresses and defend their own (RFC 4861, 7.2; RFC 4862, 5.4).
    fn groups(&self) -> impl Iterator<Item = MacAddr> {
        let groups = self.ipv6.map(|[global, link_local]| {
            [
                ipv6::solicited_node(global),
                ipv6::solicited_node(link_local),
                ipv6::ALL_NODES,
            ]
        });
        let groups = groups.into_iter().flatten().map(ipv6::multicast_mac);
        iter::once(bpdu::BRIDGE_GROUP).chain(groups)
    }
}

/// The first four bytes of a link address and the last two.
const fn parts(mac: MacAddr) -> (u32, u16) {
    let [a, b, c, d, e, f] = mac.0;
    (u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([e, f]))
}

/// Places and values by which a frame is known for a host's announcement: a configuration unit that is older than its own maximum age
/// (IEEE 802.1D, 9.3.1; [`bpdu`]).
pub(crate) mod unit {
    use super::{bpdu, ethernet, parts};

    /// The group that it is sent to, in two parts.
    pub(crate) const GROUP: (u32, u16) = parts(bpdu::BRIDGE_GROUP);
    /// The largest number in the place of the EtherType that is a length (IEEE 802.3, 3.2.6).
    pub(crate) const LONGEST: u32 = 1500;
    /// Offset of both service access points.
    pub(crate) const SERVICE_POINTS: u32 = ethernet::HEADER_LEN as u32;
    /// The service access points of the spanning tree protocol.
    pub(crate) const SPANNING_TREE: u16 = 0x4242;
    const BODY: u32 = SERVICE_POINTS + bpdu::LLC_LEN as u32;
    /// Offset of its type.
    pub(crate) const TYPE: u32 = BODY + 3;
    /// The type of a configuration unit.
    pub(crate) const CONFIGURATION: u8 = 0;
    /// Offset of its age.
    pub(crate) const AGE: u32 = BODY + 27;
    /// Offset of its maximum age.
    pub(crate) const MAX_AGE: u32 = BODY + 29;
    /// Bytes up to the end of what is compared.
    pub(crate) const LEN: u32 = MAX_AGE + 2;
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
    /// The interface carries less.
    #[error(
        "an MTU of {mtu} bytes was asked for; {interface} carries {carries}: ask for no more, or raise it by \
         `ip link set {interface} mtu {mtu}`"
    )]
    BeyondInterface {
        /// The MTU in bytes.
        mtu: usize,
        /// The interface's name.
        interface: String,
        /// The interface's MTU in bytes.
        carries: usize,
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

/// Has an interface take frames for the link address and those of its groups, for as long as the packet socket lives. An interface
/// that knows addresses takes its own alone otherwise.
pub(crate) fn register(
    socket: impl AsFd,
    index: u32,
    addresses: &Addresses,
) -> Result<(), OpenError> {
    let join = |kind: c_int, mac: MacAddr, doing: &'static str| {
        let mut address = [0; 8];
        address[..6].copy_from_slice(&mac.0);
        let membership = libc::packet_mreq {
            mr_ifindex: index as c_int,
            mr_type: kind as u16,
            mr_alen: 6,
            mr_address: address,
        };
        socket::set(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            &membership,
        )
        .map_err(OpenError::while_doing(doing))
    };
    join(
        libc::PACKET_MR_UNICAST,
        addresses.mac,
        "registering the link address (PACKET_MR_UNICAST)",
    )?;
    addresses.groups().try_for_each(|group| {
        join(
            libc::PACKET_MR_MULTICAST,
            group,
            "registering a group's link address (PACKET_MR_MULTICAST)",
        )
    })
}

/// The MTU of a stack where nothing else is asked for, in bytes: that of Ethernet (RFC 894).
pub const USUAL_MTU: usize = 1_500;

/// The MTU of a stack on an interface of the calling thread's network namespace: the one that is asked for, or else the lower one of
/// [`USUAL_MTU`] and what the interface carries. Opening a link refuses more than that.
///
/// # Errors
/// [`OpenError::Missing`], and those of the system.
pub fn mtu_on(interface: &str, asked: Option<usize>) -> Result<usize, OpenError> {
    match asked {
        Some(mtu) => Ok(mtu),
        None => Ok(carried_by(interface, socket_to_look_by()?)?.min(USUAL_MTU)),
    }
}

/// A socket by which interfaces are looked at.
pub(crate) fn socket_to_look_by() -> Result<OwnedFd, OpenError> {
    socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(OpenError::while_doing("making a socket"))
}

/// The MTU of an interface.
fn carried_by(interface: &str, socket: impl AsFd) -> Result<usize, OpenError> {
    match socket::mtu(socket, interface) {
        Ok(mtu) => Ok(usize::try_from(mtu).unwrap_or(0)),
        Err(Errno::NODEV | Errno::INVAL | Errno::NAMETOOLONG) => Err(OpenError::Missing {
            name: interface.to_owned(),
        }),
        Err(source) => Err(OpenError::System {
            doing: "asking for the interface's MTU (SIOCGIFMTU)",
            source,
        }),
    }
}

/// Refuses an MTU that an interface cannot carry: Linux would refuse each full segment by itself, and let those of a train out too long.
pub(crate) fn check_mtu_of(
    interface: &str,
    socket: impl AsFd,
    mtu: usize,
) -> Result<(), OpenError> {
    match carried_by(interface, socket)? {
        carries if mtu <= carries => Ok(()),
        carries => Err(OpenError::BeyondInterface {
            mtu,
            interface: interface.to_owned(),
            carries,
        }),
    }
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
    use tollgate_wire::bpdu::{Bpdu, Configuration, Time};

    /// Addresses of a stack over IPv4 alone.
    pub(crate) const OURS_V4: Addresses = Addresses {
        mac: MacAddr([0x02, 0, 0, 0xaa, 0xbb, 1]),
        ipv4: Ipv4Addr::new(10, 0, 0, 1),
        ipv6: None,
    };
    /// Addresses of a stack over both versions.
    pub(crate) const OURS: Addresses = Addresses {
        ipv6: Some([GLOBAL, LINK_LOCAL]),
        ..OURS_V4
    };
    const GLOBAL: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 2, 0x1bb, 0xaa07);
    const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfeaa, 0xbb01);
    /// Another address of the global one's solicited-node group.
    const SAME_GROUP: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 2, 0x2bb, 0xaa07);

    fn frame(mac: [u8; 6], ether_type: u16, at: usize, ipv4: Ipv4Addr, len: usize) -> Vec<u8> {
        let mut frame = vec![0; len];
        frame[..6].copy_from_slice(&mac);
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        frame[at..at + 4].copy_from_slice(&ipv4.octets());
        frame
    }

    /// A packet of IPv6 with this next header.
    fn packet(mac: [u8; 6], next_header: u8, to: Ipv6Addr, len: usize) -> Vec<u8> {
        let mut frame = vec![0; len];
        frame[..6].copy_from_slice(&mac);
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[20] = next_header;
        frame[38..54].copy_from_slice(&to.octets());
        frame
    }

    /// A message of ICMPv6 of this type about a target, to a group.
    fn message(kind: u8, group: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
        let mut frame = packet(ipv6::multicast_mac(group).0, 58, group, 78);
        frame[54] = kind;
        frame[62..].copy_from_slice(&target.octets());
        frame
    }

    /// All frames, with whether they are for a stack of these addresses.
    pub(crate) fn all(addresses: &Addresses) -> Vec<(&'static str, Vec<u8>, bool)> {
        let speaks = addresses.ipv6.is_some();
        let over_ipv6 = over_ipv6().into_iter();
        let over_ipv6 = over_ipv6.map(|(name, frame, is_ours)| (name, frame, is_ours && speaks));
        let frames = over_ipv4().into_iter().chain(units());
        frames.chain(over_ipv6).collect()
    }

    /// Units of the spanning tree protocol.
    fn units() -> Vec<(&'static str, Vec<u8>, bool)> {
        let frame = |unit: Bpdu| {
            let mut bytes = [0; bpdu::MAX_LEN];
            let len = unit.emit(&mut bytes);
            let mut frame = [&bpdu::BRIDGE_GROUP.0[..], &[2, 0, 0, 0, 0, 9, 0, len as u8]].concat();
            frame.extend(&bytes[..len]);
            // The least that an interface sends, without its CRC.
            frame.resize(60, 0);
            frame
        };
        let of_age = |seconds| Configuration {
            message_age: Time::seconds(seconds),
            max_age: Time::seconds(20),
            ..Configuration::default()
        };
        let announcement = frame(Bpdu::Configuration(of_age(21)));
        let changed = |at: usize, value: u8| {
            let mut frame = announcement.clone();
            frame[at] = value;
            frame
        };
        let mut cut = announcement.clone();
        cut.truncate(unit::LEN as usize - 1);
        vec![
            ("an announcement", announcement.clone(), true),
            ("a unit without half its age", cut, false),
            (
                "a bridge's unit",
                frame(Bpdu::Configuration(of_age(1))),
                false,
            ),
            (
                "a unit that has just grown too old",
                frame(Bpdu::Configuration(of_age(20))),
                false,
            ),
            ("a change", frame(Bpdu::TopologyChange), false),
            ("a rapid unit", frame(Bpdu::Rapid(of_age(21))), false),
            ("a unit to another group", changed(5, 0x0e), false),
            ("a frame of another protocol", changed(15, 0x43), false),
            ("a frame with an EtherType", changed(12, 0x88), false),
        ]
    }

    fn over_ipv6() -> Vec<(&'static str, Vec<u8>, bool)> {
        const TCP: u8 = 6;
        const HOP_BY_HOP: u8 = 0;
        const ROUTER: u8 = 134;
        const SOLICITS: u8 = 135;
        const ADVERTISES: u8 = 136;
        const REDIRECTS: u8 = 137;
        let mac = OURS.mac.0;
        let [mut front, mut back] = [mac; 2];
        front[0] = 0;
        back[5] = 2;
        let group = ipv6::solicited_node(GLOBAL);
        let all_nodes = ipv6::ALL_NODES;
        let changed = |mut frame: Vec<u8>, at: usize, byte: u8| {
            frame[at] = byte;
            frame
        };
        let tagged = |mut frame: Vec<u8>| {
            frame.splice(12..12, [0x81, 0, 0, 7]);
            frame
        };
        let cut = |frame: Vec<u8>| frame[..frame.len() - 1].to_vec();
        let mut frames = vec![
            ("a segment over IPv6", packet(mac, TCP, GLOBAL, 74), true),
            ("a header of IPv6", packet(mac, TCP, GLOBAL, 54), true),
            (
                "a segment to the link-local address",
                packet(mac, TCP, LINK_LOCAL, 74),
                true,
            ),
            (
                "a solicitation to our link address",
                packet(mac, 58, GLOBAL, 86),
                true,
            ),
            (
                "a header of IPv6 less a byte",
                cut(packet(mac, TCP, GLOBAL, 54)),
                false,
            ),
            (
                "another link address over IPv6",
                packet(front, TCP, GLOBAL, 74),
                false,
            ),
            (
                "another last byte over IPv6",
                packet(back, TCP, GLOBAL, 74),
                false,
            ),
            (
                "a segment by multicast",
                packet(ipv6::multicast_mac(group).0, TCP, GLOBAL, 78),
                false,
            ),
            (
                "a group at our link address",
                packet(mac, 58, group, 78),
                false,
            ),
            ("a VLAN's IPv6", tagged(packet(mac, TCP, GLOBAL, 74)), false),
            (
                "a solicitation of ours",
                message(SOLICITS, group, GLOBAL),
                true,
            ),
            (
                "a solicitation of our link-local address",
                message(SOLICITS, ipv6::solicited_node(LINK_LOCAL), LINK_LOCAL),
                true,
            ),
            (
                "a solicitation of another in our group",
                message(SOLICITS, group, SAME_GROUP),
                false,
            ),
            (
                "a solicitation less a byte",
                cut(message(SOLICITS, group, GLOBAL)),
                false,
            ),
            (
                "a solicitation behind a hop-by-hop header",
                changed(message(SOLICITS, group, GLOBAL), 20, HOP_BY_HOP),
                false,
            ),
            (
                "a solicitation by broadcast",
                changed(message(SOLICITS, group, GLOBAL), 0, 0xff),
                false,
            ),
            (
                "an advertisement of our address",
                message(ADVERTISES, all_nodes, GLOBAL),
                true,
            ),
            (
                "an advertisement of another",
                message(ADVERTISES, all_nodes, SAME_GROUP),
                false,
            ),
            (
                "a router's advertisement",
                message(ROUTER, all_nodes, GLOBAL),
                false,
            ),
            (
                "a redirect by multicast",
                message(REDIRECTS, all_nodes, GLOBAL),
                false,
            ),
        ];
        // Each word of an address counts.
        for address in [GLOBAL, LINK_LOCAL] {
            for word in 0..4 {
                let other = Ipv6Addr::from_bits(address.to_bits() ^ 1 << (32 * word));
                frames.push(("another IPv6 address", packet(mac, TCP, other, 74), false));
                frames.push((
                    "a solicitation of another address",
                    message(SOLICITS, group, other),
                    false,
                ));
            }
        }
        frames
    }

    fn over_ipv4() -> Vec<(&'static str, Vec<u8>, bool)> {
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
    fn mtu_is_what_is_asked_for_or_the_lower_of_the_interface_and_ethernet() {
        let missing = |name: &str| OpenError::Missing {
            name: name.to_owned(),
        };
        // The loopback interface of each namespace carries 65,536 bytes unless somebody lowers it.
        assert_eq!(mtu_on("lo", None), Ok(1_500));
        assert_eq!(mtu_on("lo", Some(1_400)), Ok(1_400));
        for name in ["no-such-one", "a-name-that-is-too-long-for-one", ""] {
            assert_eq!(mtu_on(name, None), Err(missing(name)));
        }
        let socket = socket_to_look_by().unwrap();
        assert_eq!(check_mtu_of("lo", &socket, 1_500), Ok(()));
        let refused = check_mtu_of("lo", &socket, 70_000).unwrap_err().to_string();
        assert!(
            refused.contains("70000 bytes") && refused.contains("lo carries 65536"),
            "{refused}"
        );
    }

    #[test]
    fn link_addresses_are_compared_in_two_parts() {
        let addresses = Addresses {
            mac: MacAddr([1, 2, 3, 4, 5, 6]),
            ipv4: Ipv4Addr::LOCALHOST,
            ipv6: None,
        };
        assert_eq!(addresses.mac_parts(), (0x0102_0304, 0x0506));
    }
}
