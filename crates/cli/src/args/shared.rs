//! The options of a stack that shares an interface with its host, of `serve` and of the commands that take `--to`.

use std::net::{IpAddr, Ipv6Addr};

use clap::Args;
use tollgate_link::xdp::Checksums;
use tollgate_link::{InterfaceConfig, InterfaceConfigV6};
use tollgate_workload::stack_to::Shared;

use crate::error::Error;

/// Heading of the options that are for Tollgate's stack.
pub(crate) const STACK: &str = "Tollgate's stack";
/// Says what a path takes that shares an interface.
pub(crate) const SHARES: &str = "stack-packet and stack-xdp share an interface with the host: name it and an address there, --on eth0 --address 192.0.2.7/24";
/// Says that no path shares one.
pub(crate) const SHARES_NOT: &str = "--on is for --path stack-packet and stack-xdp, which share an interface with the host; leave it out, or name one of these";
/// Says that no path needs checksums to be believed.
pub(crate) const TRUSTS_NOT: &str = "--trust-checksums is for --path stack-xdp; leave it out: the others know which checksums are unfinished";

/// An interface, and the place of our stack there.
#[derive(Debug, Clone, Args)]
pub(crate) struct SharedArgs {
    /// Interface that stack-packet and stack-xdp share with the host, such as eth0.
    #[arg(long, value_name = "INTERFACE", requires = "address", help_heading = STACK)]
    on: Option<String>,
    /// The stack's address there, one that the host does not have, with the bits of its network; may be given once more for IPv6.
    #[arg(long, value_name = "ADDR/BITS", value_parser = address, requires = "on", help_heading = STACK)]
    address: Vec<(IpAddr, u8)>,
    /// The router from there to other networks; may be given once for each version of IP.
    #[arg(long, value_name = "ADDR", value_parser = gateway, requires = "on", help_heading = STACK)]
    gateway: Vec<IpAddr>,
    /// Believe the checksums of what stack-xdp receives, where all peers are on this host: its kernel leaves them unfinished, and AF_XDP does
    /// not say so.
    #[arg(long, requires = "on", help_heading = STACK)]
    trust_checksums: bool,
}

impl SharedArgs {
    /// Tells whether an interface is named.
    pub(crate) const fn is_given(&self) -> bool {
        self.on.is_some()
    }

    /// Tells whether checksums are believed.
    pub(crate) const fn trusts(&self) -> bool {
        self.trust_checksums
    }

    /// The interface that the stack shares with the host, and its place there.
    ///
    /// # Errors
    /// [`Error::Usage`] without these, for two of one version of IP, and for an address that the host has.
    pub(crate) fn interface(&self) -> Result<Shared, Error> {
        let on = self.on.as_ref();
        let on = on.ok_or_else(|| Error::Usage(SHARES.to_owned()))?;
        let place = self.interface_config().map_err(Error::Usage)?;
        if let Some(address) = place.of_host() {
            return Err(Error::Usage(format!(
                "the host has {address} itself, and would reset our connections; name an address of the network that nobody has"
            )));
        }
        Ok(Shared {
            interface: on.clone(),
            place,
            checksums: if self.trust_checksums {
                Checksums::Trust
            } else {
                Checksums::Verify
            },
        })
    }

    fn interface_config(&self) -> Result<InterfaceConfig, String> {
        let addresses = || self.address.iter().copied();
        let v4 = addresses().filter_map(|(address, bits)| match address {
            IpAddr::V4(address) => Some((address, bits)),
            IpAddr::V6(_) => None,
        });
        let v4 = at_most_one(v4, "--address", "IPv4")?;
        let v6 = addresses().filter_map(|(address, bits)| match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => Some((address, bits)),
        });
        let v6 = at_most_one(v6, "--address", "IPv6")?;
        let gateways = || self.gateway.iter().copied();
        let gateway_v4 = gateways().filter_map(|gateway| match gateway {
            IpAddr::V4(gateway) => Some(gateway),
            IpAddr::V6(_) => None,
        });
        let gateway_v4 = at_most_one(gateway_v4, "--gateway", "IPv4")?;
        let gateway_v6 = gateways().filter_map(|gateway| match gateway {
            IpAddr::V4(_) => None,
            IpAddr::V6(gateway) => Some(gateway),
        });
        let gateway_v6 = at_most_one(gateway_v6, "--gateway", "IPv6")?;
        let (address, prefix) = v4.ok_or(
            "the stack takes an IPv4 address, of which its link address is made; add --address 192.0.2.7/24",
        )?;
        if let (Some(gateway), None) = (gateway_v6, v6) {
            return Err(format!(
                "the gateway {gateway} is for IPv6, and the stack has no such address; add --address 2001:db8::7/64, or leave it out"
            ));
        }
        Ok(InterfaceConfig {
            address,
            prefix,
            gateway: gateway_v4,
            ipv6: v6.map(|(address, prefix)| InterfaceConfigV6 {
                address,
                prefix,
                gateway: gateway_v6,
                is_tried: true,
            }),
        })
    }
}

/// The value of an option for a version of IP, which is given once.
fn at_most_one<T>(
    mut given: impl Iterator<Item = T>,
    option: &str,
    version: &str,
) -> Result<Option<T>, String> {
    let one = given.next();
    match given.next() {
        None => Ok(one),
        Some(_) => Err(format!(
            "{option} is given twice for {version}; name one of each version at most"
        )),
    }
}

fn address(given: &str) -> Result<(IpAddr, u8), String> {
    let refused = || {
        format!(
            "`{given}` is no address with the bits of its network, such as 192.0.2.7/24 or 2001:db8::7/64"
        )
    };
    let (address, bits) = given.split_once('/').ok_or_else(refused)?;
    let address: IpAddr = address.parse().map_err(|_| refused())?;
    let bits: u8 = bits.parse().map_err(|_| refused())?;
    let most = match address {
        IpAddr::V4(_) => 30,
        IpAddr::V6(address) => {
            check_v6(address)?;
            if address.is_unicast_link_local() {
                return Err(format!(
                    "`{address}` is a link-local address, and the stack makes its own; name a global one"
                ));
            }
            127
        }
    };
    let is_network = (1..=most).contains(&bits);
    is_network.then_some((address, bits)).ok_or_else(|| {
        format!(
            "{}; the bits of the network are 1 to {most} with such an address",
            refused()
        )
    })
}

fn gateway(given: &str) -> Result<IpAddr, String> {
    let address = given
        .parse()
        .map_err(|_| format!("`{given}` is no address"))?;
    if let IpAddr::V6(address) = address {
        check_v6(address)?;
    }
    Ok(address)
}

/// Refuses what is no address of one host on a network.
fn check_v6(address: Ipv6Addr) -> Result<(), String> {
    let what = if address.is_multicast() {
        "a group's address"
    } else if address.is_unspecified() {
        "no host's address"
    } else if address.is_loopback() {
        "this host's own address"
    } else if address.to_ipv4_mapped().is_some() {
        "an IPv4 address in the form of IPv6"
    } else {
        return Ok(());
    };
    Err(format!(
        "`{address}` is {what}; name one of one host on the network"
    ))
}
