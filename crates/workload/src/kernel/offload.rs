//! Offloads of a device: checksums, segmentation and reassembly, switched by the ioctl SIOCETHTOOL. Only a device that the run has
//! made itself is switched. Any device may be read.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use tollgate_kernel::ethtool;
use tollgate_run::{Offload, PathId};

use crate::error::Error;

const PATH: PathId = PathId::KernelVeth;

/// One feature: its name, and the commands of linux/ethtool.h that read and set it.
struct Feature {
    name: &'static str,
    get: u32,
    set: u32,
    /// Tells whether it belongs to segmentation, else to checksums.
    segments: bool,
}

/// In the order in which they are switched on; TCP segmentation needs checksums on the way out.
const FEATURES: [Feature; 5] = [
    Feature {
        name: "tx-checksum",
        get: 0x16,
        set: 0x17,
        segments: false,
    },
    Feature {
        name: "rx-checksum",
        get: 0x14,
        set: 0x15,
        segments: false,
    },
    Feature {
        name: "tso",
        get: 0x1e,
        set: 0x1f,
        segments: true,
    },
    Feature {
        name: "gso",
        get: 0x23,
        set: 0x24,
        segments: true,
    },
    Feature {
        name: "gro",
        get: 0x2b,
        set: 0x2c,
        segments: true,
    },
];

/// Switches a device of the calling thread's namespace, and reads back that it is so.
///
/// # Errors
/// When the kernel refuses a feature, or takes the command and leaves the feature as it was.
pub(crate) fn switch(device: &str, offload: Offload) -> Result<(), Error> {
    let (checksums, segments) = match offload {
        Offload::Usual => return Ok(()),
        Offload::Both => (true, true),
        Offload::Checksum => (true, false),
        Offload::Neither => (false, false),
    };
    let socket =
        datagram_socket().map_err(|error| Error::system(PATH, "making a socket", error))?;
    let wanted = |feature: &Feature| {
        if feature.segments {
            segments
        } else {
            checksums
        }
    };
    // Off goes the other way round, so that nothing is taken along with what it needs.
    let off = FEATURES.iter().rev().filter(|feature| !wanted(feature));
    let on = FEATURES.iter().filter(|feature| wanted(feature));
    for feature in off.chain(on) {
        ethtool::feature(&socket, device, feature.set, u32::from(wanted(feature)))
            .map_err(|error| refused(device, feature, &error.to_string()))?;
    }
    for feature in &FEATURES {
        let is = ethtool::feature(&socket, device, feature.get, 0)
            .map_err(|error| refused(device, feature, &error.to_string()))?;
        if (is != 0) != wanted(feature) {
            return Err(refused(device, feature, "the kernel left it as it was"));
        }
    }
    Ok(())
}

/// Name of a device's driver, in the calling thread's namespace.
///
/// # Errors
/// When there is no such device, or it has no driver that tells.
pub fn driver(device: &str) -> io::Result<String> {
    let [driver, _] = ethtool::driver(datagram_socket()?, device)?;
    Ok(driver)
}

/// Features of a device of the calling thread's namespace, by name.
///
/// # Errors
/// When there is no such device, or it does not tell.
pub fn features(device: &str) -> io::Result<Vec<(&'static str, bool)>> {
    let socket = datagram_socket()?;
    FEATURES
        .iter()
        .map(|feature| {
            Ok((
                feature.name,
                ethtool::feature(&socket, device, feature.get, 0)? != 0,
            ))
        })
        .collect()
}

pub(super) fn datagram_socket() -> rustix::io::Result<OwnedFd> {
    socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
}

fn refused(device: &str, feature: &Feature, reason: &str) -> Error {
    Error::Peer {
        path: PATH,
        reason: format!("{} of {device} cannot be switched: {reason}", feature.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_tells_its_features() {
        let names: Vec<&str> = features("lo")
            .unwrap()
            .iter()
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(names, ["tx-checksum", "rx-checksum", "tso", "gso", "gro"]);
        assert!(features("no-such-device").is_err());
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let error = switch("no-such-device", Offload::Neither).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("of no-such-device cannot be switched"),
            "{text}"
        );
        switch("no-such-device", Offload::Usual).unwrap();
    }
}
