//! Protection of frames by an interface that is shared with the host: a CRC, where its hardware makes one and verifies one.
//!
//! Linux does not say so of an interface. It is taken from what the interface is: an Ethernet device of hardware on a bus on which network
//! adapters with a wire of their own sit. Whatever else there is moves frames through memory to some place that nothing tells: veth,
//! tap, bridges, bonds, VLANs, and the devices of hypervisors. An access point makes the CRC of a wireless frame anew. Those are
//! [`Integrity::Unprotected`] unless whoever opens the link knows better.
//!
//! Files below /sys are those of the network namespace in which it was mounted, which may have another interface of this name. So they
//! count only where number and link address are those of ours.

use crate::socket;
use libc::c_int;
use std::fs;
use std::path::Path;
use tollgate_stack::link::Integrity;
use tollgate_wire::ethernet::MacAddr;

/// Interfaces of the namespace in which it was mounted (Documentation/ABI/testing/sysfs-class-net).
const INTERFACES: &str = "/sys/class/net";
/// Buses of network adapters. Those of hypervisors (virtio, vmbus, xen) and of test devices (netdevsim) are others.
const BUSES: [&str; 3] = ["pci", "usb", "platform"];
/// Entries that wireless devices have: that of cfg80211, and that of older drivers.
const WIRELESS: [&str; 2] = ["phy80211", "wireless"];

/// An interface as the kernel tells it in the calling thread's namespace.
#[derive(Clone, Copy, Debug)]
struct Identity {
    index: u32,
    is_ethernet: bool,
    mac: MacAddr,
}

/// The protection of frames on an interface of the calling thread's namespace; none where it cannot be looked at.
pub(crate) fn of_interface(name: &str, index: u32) -> Integrity {
    match identity(index) {
        Some(identity) => of_device(&Path::new(INTERFACES).join(name), &identity),
        None => Integrity::Unprotected,
    }
}

/// Asks the kernel by a packet socket that receives nothing.
fn identity(index: u32) -> Option<Identity> {
    let socket = socket::raw(libc::AF_PACKET).ok()?;
    let bound = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: index as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    socket::bind(&socket, &bound).ok()?;
    let named: libc::sockaddr_ll = socket::name(&socket).ok()?;
    let (mac, _) = named.sll_addr.split_first_chunk()?;
    Some(Identity {
        index,
        is_ethernet: named.sll_hatype == libc::ARPHRD_ETHER && named.sll_halen == 6,
        mac: MacAddr(*mac),
    })
}

/// The protection by the device that a directory describes, if it is the one that is meant.
fn of_device(directory: &Path, identity: &Identity) -> Integrity {
    let says = |file: &str, value: String| {
        fs::read_to_string(directory.join(file)).is_ok_and(|said| said.trim() == value)
    };
    let is_it =
        says("ifindex", identity.index.to_string()) && says("address", identity.mac.to_string());
    let is_wireless = || WIRELESS.iter().any(|entry| directory.join(entry).exists());
    let bus = || fs::canonicalize(directory.join("device/subsystem")).ok();
    let is_adapter = || {
        bus().is_some_and(|bus| {
            let name = bus.file_name();
            BUSES.iter().any(|known| name == Some(known.as_ref()))
        })
    };
    if identity.is_ethernet && is_it && !is_wireless() && is_adapter() {
        Integrity::Crc
    } else {
        Integrity::Unprotected
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;
    use tempfile::TempDir;

    const IDENTITY: Identity = Identity {
        index: 7,
        is_ethernet: true,
        mac: MacAddr([0x02, 0, 0, 0xaa, 0xbb, 1]),
    };

    /// Directories as sysfs has them: an interface of this bus.
    struct Sysfs(TempDir);

    impl Sysfs {
        fn new(bus: Option<&str>) -> Self {
            let root = tempfile::tempdir().unwrap();
            let interface = root.path().join("eth0");
            fs::create_dir(&interface).unwrap();
            fs::write(interface.join("ifindex"), "7\n").unwrap();
            fs::write(interface.join("address"), "02:00:00:aa:bb:01\n").unwrap();
            if let Some(bus) = bus {
                let device = root.path().join("device");
                let bus = root.path().join("bus").join(bus);
                fs::create_dir(&device).unwrap();
                fs::create_dir_all(&bus).unwrap();
                symlink(&bus, device.join("subsystem")).unwrap();
                symlink(&device, interface.join("device")).unwrap();
            }
            Self(root)
        }

        fn interface(&self) -> PathBuf {
            self.0.path().join("eth0")
        }

        fn tells(&self, identity: &Identity) -> Integrity {
            of_device(&self.interface(), identity)
        }
    }

    #[test]
    fn hardware_on_a_bus_of_adapters_has_a_crc() {
        for (bus, expected) in [
            (Some("pci"), Integrity::Crc),
            (Some("usb"), Integrity::Crc),
            (Some("platform"), Integrity::Crc),
            (Some("virtio"), Integrity::Unprotected),
            (Some("vmbus"), Integrity::Unprotected),
            (None, Integrity::Unprotected),
        ] {
            let sysfs = Sysfs::new(bus);
            assert_eq!(sysfs.tells(&IDENTITY), expected, "{bus:?}");
        }
    }

    #[test]
    fn wireless_devices_are_unprotected() {
        for entry in WIRELESS {
            let sysfs = Sysfs::new(Some("pci"));
            assert_eq!(sysfs.tells(&IDENTITY), Integrity::Crc);
            fs::create_dir(sysfs.interface().join(entry)).unwrap();
            assert_eq!(sysfs.tells(&IDENTITY), Integrity::Unprotected, "{entry}");
        }
    }

    /// An interface of another namespace, or one that is no Ethernet.
    #[test]
    fn other_interfaces_of_the_name_are_not_believed() {
        let sysfs = Sysfs::new(Some("pci"));
        let others = [
            Identity {
                index: 8,
                ..IDENTITY
            },
            Identity {
                mac: MacAddr([0x02, 0, 0, 0xaa, 0xbb, 2]),
                ..IDENTITY
            },
            Identity {
                is_ethernet: false,
                ..IDENTITY
            },
        ];
        assert_eq!(sysfs.tells(&IDENTITY), Integrity::Crc);
        for other in others {
            assert_eq!(sysfs.tells(&other), Integrity::Unprotected, "{other:?}");
        }
        let nowhere = sysfs.0.path().join("eth1");
        assert_eq!(of_device(&nowhere, &IDENTITY), Integrity::Unprotected);
    }

    #[test]
    fn kernel_names_the_loopback_as_no_ethernet() {
        // The loopback is the first interface of every namespace.
        match identity(1) {
            Some(identity) => assert!(!identity.is_ethernet, "{identity:?}"),
            None => tollgate_skip::skipped!("no packet socket can be made (CAP_NET_RAW)"),
        }
    }
}
