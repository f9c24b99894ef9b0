//! The options of a stack that shares an interface with its host, of `serve` and of the commands that take `--to`.

use std::net::Ipv4Addr;

use clap::Args;
use tollgate_link::Place;
use tollgate_link::xdp::Checksums;
use tollgate_workload::stack_to::Shared;

use crate::error::Error;

/// Heading of the options that are for Tollgate's stack.
pub(crate) const STACK: &str = "Tollgate's stack";
/// Says what a path takes that shares an interface.
pub(crate) const SHARES: &str = "stack-packet and stack-xdp share an interface with the host: name it and an address there, --on eth0 --address 192.0.2.7/24";
/// Says that no path shares one.
pub(crate) const SHARES_NOT: &str = "--on is for --path stack-packet and stack-xdp, which share an interface with the host; leave it out, or name one of these";
/// Says that no path needs checksums to be believed.
pub(crate) const TRUSTS_NOT: &str = "--trust-checksums is for --path stack-xdp; leave it out: the others are told which checksums are unfinished";

/// An interface, and the place of our stack there.
#[derive(Debug, Clone, Args)]
pub(crate) struct SharedArgs {
    /// Interface that stack-packet and stack-xdp share with the host, such as eth0.
    #[arg(long, value_name = "INTERFACE", requires = "address", help_heading = STACK)]
    on: Option<String>,
    /// The stack's address there, one that the host does not have, with the bits of its network.
    #[arg(long, value_name = "ADDR/BITS", value_parser = address, requires = "on", help_heading = STACK)]
    address: Option<(Ipv4Addr, u8)>,
    /// The router from there to other networks.
    #[arg(long, value_name = "ADDR", requires = "on", help_heading = STACK)]
    gateway: Option<Ipv4Addr>,
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
    /// [`Error::Usage`] without these, and for an address that the host has.
    pub(crate) fn interface(&self) -> Result<Shared, Error> {
        let (Some(on), Some((address, prefix))) = (&self.on, self.address) else {
            return Err(Error::Usage(SHARES.to_owned()));
        };
        let place = Place {
            address,
            prefix,
            gateway: self.gateway,
            ipv6: None,
        };
        if place.is_of_host() {
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
}

fn address(given: &str) -> Result<(Ipv4Addr, u8), String> {
    let refused =
        || format!("`{given}` is no address with the bits of its network, such as 192.0.2.7/24");
    let (address, bits) = given.split_once('/').ok_or_else(refused)?;
    let address: Ipv4Addr = address.parse().map_err(|_| refused())?;
    let bits: u8 = bits.parse().map_err(|_| refused())?;
    (1..=30)
        .contains(&bits)
        .then_some((address, bits))
        .ok_or_else(refused)
}
