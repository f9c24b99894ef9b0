//! The kernel's end of a link's device: its address, MTU and state, set by `ip` of iproute2.
//!
//! It works in the network namespace of the calling thread. It changes only the device that it is told of, which takes all of it
//! along when it goes.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};
use std::str::FromStr;

use crate::tap::{CreateError, Tap};

/// The kernel's end of a device cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// `ip` cannot be run.
    #[error("running `ip` (install iproute2): {0}")]
    NoIp(io::Error),
    /// `ip` refused.
    #[error("`ip {arguments}` failed: {reason}")]
    Refused {
        /// Its arguments.
        arguments: String,
        /// Its error message.
        reason: String,
    },
    /// All networks that are chosen from belong to devices.
    #[error("all 256 networks of devices are in use; name another one (--network ADDRESS/30)")]
    NoNetwork,
}

/// Lets the process have as many descriptors as the system allows it: each connection of the kernel's takes one. Where that is not
/// to be had, connections are refused at the present limit, and counted.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    );
}

/// Runs `ip` in the calling thread's namespace.
///
/// # Errors
/// Those of `ip`, in its words.
pub fn ip(arguments: &[&str]) -> Result<(), SetupError> {
    output_of_ip(arguments).map(|_| ())
}

/// Output of `ip` in the calling thread's namespace.
///
/// # Errors
/// Those of `ip`, in its words.
pub fn output_of_ip(arguments: &[&str]) -> Result<Vec<u8>, SetupError> {
    let done = Command::new("ip")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(SetupError::NoIp)?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    Err(SetupError::Refused {
        arguments: arguments.join(" "),
        reason: String::from_utf8_lossy(&done.stderr).trim().to_owned(),
    })
}

/// Gives a device its address and MTU, and brings it up.
///
/// # Errors
/// Those of `ip`, in its words.
pub fn bring_up(device: &str, address: Ipv4Addr, prefix: u8, mtu: usize) -> Result<(), SetupError> {
    let address = format!("{address}/{prefix}");
    ip(&["address", "add", &address, "dev", device])?;
    ip(&["link", "set", device, "mtu", &mtu.to_string(), "up"])
}

/// A stack cannot be put beside the kernel.
#[derive(Debug, thiserror::Error)]
pub enum BesideError {
    /// There is no device.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The kernel's end of the device cannot be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// Names of devices; the kernel puts in the first number that is free.
const NAMES: &str = "tollgate%d";

/// A tap device beside the kernel, which is up, and its network.
///
/// The device has no life of its own: it goes with its descriptor, and takes address and routes along, also after SIGKILL.
#[derive(Debug)]
pub struct Beside {
    /// Our end.
    pub tap: Tap,
    /// Its network.
    pub network: Network,
    /// Its network over IPv6, where the host speaks that.
    pub ipv6: Option<NetworkV6>,
}

impl Beside {
    /// Makes a device for IP packets of `mtu` bytes, gives the kernel the first address of each network, and brings it up. The
    /// network over IPv4 is the device's own ([`Network::of_device`]) unless one is given.
    ///
    /// # Errors
    /// [`BesideError`]; it takes CAP_NET_ADMIN.
    pub fn open(network: Option<Network>, mtu: usize) -> Result<Self, BesideError> {
        let tap = Tap::create(NAMES, mtu)?;
        let network = match network {
            Some(network) => network,
            None => Network::of_device(tap.name())?,
        };
        bring_up(tap.name(), network.kernel(), network.prefix(), mtu)?;
        let ipv6 = NetworkV6::of_device(tap.name()).filter(|_| mtu >= LEAST_MTU_V6);
        if let Some(ipv6) = ipv6 {
            let address = format!("{}/{}", ipv6.kernel(), NetworkV6::PREFIX);
            // Nobody else is on the network, so nobody is asked whether he has the address.
            ip(&["address", "add", &address, "dev", tap.name(), "nodad"])?;
        }
        Ok(Self { tap, network, ipv6 })
    }
}

/// A network of two hosts: the kernel has the first address and a stack the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: Ipv4Addr,
    prefix: u8,
}

/// Leading bits of a network that has room for two hosts and no more.
const PAIR: u8 = 30;

impl Network {
    /// The network of a device whose name ends in this number: 198.18.NUMBER.0/30. The block 198.18.0.0/15 is set aside for
    /// measuring between networks (RFC 2544, C.2.2), so no host beyond has such an address.
    ///
    /// # Errors
    /// [`SetupError::NoNetwork`] for a name without a number, or with one above 255.
    pub fn of_device(name: &str) -> Result<Self, SetupError> {
        let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        let number: u8 = digits.parse().map_err(|_| SetupError::NoNetwork)?;
        Ok(Self {
            first: Ipv4Addr::new(198, 18, number, 0),
            prefix: PAIR,
        })
    }

    /// Address of the kernel.
    pub fn kernel(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.first) + 1)
    }

    /// Address of the stack.
    pub fn stack(&self) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.first) + 2)
    }

    /// Leading bits of an address that name the network.
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }
}

/// Bytes of the packets that every link of IPv6 carries (RFC 8200, 5).
const LEAST_MTU_V6: usize = 1280;

/// A network of two hosts over IPv6: the kernel has the first address and a stack the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkV6 {
    number: u8,
}

impl NetworkV6 {
    /// Leading bits of an address that name the network.
    pub const PREFIX: u8 = 64;

    /// The network of a device whose name ends in this number: 2001:2:0:NUMBER::/64. The block 2001:2::/48 is set aside for measuring
    /// between networks (RFC 5180; RFC 6890, 2.2.3), as 198.18.0.0/15 is. There is none where the kernel does not speak IPv6 on the device.
    pub fn of_device(name: &str) -> Option<Self> {
        let off = std::fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"));
        if off.ok()?.trim() != "0" {
            return None;
        }
        let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
        Some(Self {
            number: digits.parse().ok()?,
        })
    }

    /// Address of the kernel.
    pub fn kernel(&self) -> Ipv6Addr {
        self.host(1)
    }

    /// Address of the stack.
    pub fn stack(&self) -> Ipv6Addr {
        self.host(2)
    }

    fn host(&self, host: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 2, 0, self.number.into(), 0, 0, 0, host)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "`{given}` is no network; give the first address and its bits, such as 10.9.8.0/30"
            )
        };
        let (first, prefix) = given.split_once('/').ok_or_else(refused)?;
        let first: Ipv4Addr = first.parse().map_err(|_| refused())?;
        let prefix: u8 = prefix.parse().map_err(|_| refused())?;
        let hosts = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
        let usable = (8..=PAIR).contains(&prefix)
            && u32::from(first) & hosts == 0
            && !first.is_loopback()
            && !first.is_multicast()
            && !first.is_unspecified();
        usable.then_some(Self { first, prefix }).ok_or_else(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_have_a_kernel_and_a_stack() {
        let network = Network::of_device("tollgate7").unwrap();
        assert_eq!(network.to_string(), "198.18.7.0/30");
        assert_eq!(network.kernel(), Ipv4Addr::new(198, 18, 7, 1));
        assert_eq!(network.stack(), Ipv4Addr::new(198, 18, 7, 2));
        assert!(matches!(
            Network::of_device("tollgate256"),
            Err(SetupError::NoNetwork)
        ));
        assert!(matches!(
            Network::of_device("tollgate"),
            Err(SetupError::NoNetwork)
        ));
    }

    #[test]
    fn networks_over_ipv6_have_a_kernel_and_a_stack() {
        let network = NetworkV6 { number: 171 };
        assert_eq!(network.kernel().to_string(), "2001:2:0:ab::1");
        assert_eq!(network.stack().to_string(), "2001:2:0:ab::2");
        assert_eq!(NetworkV6::of_device("no-such-device7"), None);
    }

    #[test]
    fn what_is_no_network_is_refused() {
        assert_eq!(
            "10.9.8.0/24".parse::<Network>().unwrap().stack(),
            Ipv4Addr::new(10, 9, 8, 2)
        );
        for given in [
            "10.9.8.0",
            "10.9.8.1/30",
            "10.9.8.0/31",
            "10.9.8.0/0",
            "127.0.0.0/30",
            "a/30",
            "224.0.0.0/24",
        ] {
            assert!(given.parse::<Network>().is_err(), "{given}");
        }
    }
}
