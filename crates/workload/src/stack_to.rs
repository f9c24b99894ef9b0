//! Our stack to a server of anybody's: beside the kernel of this host, and an echo or a discard behind it.
//!
//! Over `stack-tap` the device is in the network namespace of the process, and the kernel is our router. So the server may be on this
//! host or on any that this one forwards packets to. Over `stack-packet` and `stack-xdp` our stack has an address of its own on an
//! interface of the host, and reaches what is on that network and behind its router. All carry both versions of IP. Nothing but the bytes of the workload crosses: rr,
//! of connections and of datagrams, and crr take an echo (RFC 862), streams a discard (RFC 863), and streams that come to us a chargen (RFC 864).

use std::net::{IpAddr, SocketAddr};

use tollgate_link::host::Beside;
use tollgate_link::packet::Packet;
use tollgate_link::xdp::{self, Mode, Xdp};
use tollgate_link::{InterfaceConfig, Waitable, mtu_on};
use tollgate_run::{PathId, Workload};
use tollgate_stack::Pool;
use tollgate_stats::{Samples, Timing};

use crate::cores::Cores;
use crate::error::Error;
use crate::path::{Capabilities, Path, Session};
use crate::remote::Target;
use crate::slice::OtherEnd;
use crate::spec::Spec;
use crate::stack_end::{Client, End, Peer};
use crate::stack_host::{self, DEFAULT_MTU};
use crate::stack_link;

pub use tollgate_link::xdp::Checksums;

/// An interface that our stack shares with the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// Its name.
    pub interface: String,
    /// Our place on its network.
    pub place: InterfaceConfig,
    /// Checksums of what AF_XDP receives.
    pub checksums: Checksums,
}

/// The way on which our stack reaches the networks of its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// By a tap device beside the kernel.
    Tap,
    /// By a packet socket on an interface.
    Packet(Shared),
    /// By AF_XDP on an interface.
    Xdp(Shared),
}

impl Way {
    /// The path of this way.
    pub const fn path(&self) -> PathId {
        match self {
            Self::Tap => PathId::StackTap,
            Self::Packet(_) => PathId::StackPacket,
            Self::Xdp(_) => PathId::StackXdp,
        }
    }
}

/// The path to a server.
#[derive(Debug, Clone)]
pub struct StackTo {
    way: Way,
    to: SocketAddr,
    mtu: Option<usize>,
}

impl StackTo {
    /// The path to this server. Over a tap device a loopback address stands for this host, which our stack reaches by the kernel's
    /// address on the link; the server must listen there.
    ///
    /// # Errors
    /// [`Error::Remote`] when the name is not known, and [`Error::Unsupported`] for a server over IPv6 where our stack has no such
    /// address.
    pub fn new(way: Way, target: &Target) -> Result<Self, Error> {
        let to = target.resolve()?;
        match &way {
            Way::Packet(shared) | Way::Xdp(shared)
                if to.is_ipv6() && shared.place.ipv6.is_none() =>
            {
                Err(Error::Unsupported {
                    path: way.path(),
                    asked: format!("a server at {}", to.ip()),
                    has: "IPv4 alone without an address of IPv6; add --address 2001:db8::7/64"
                        .to_owned(),
                })
            }
            Way::Tap | Way::Packet(_) | Way::Xdp(_) => Ok(Self { way, to, mtu: None }),
        }
    }

    /// The path with IP packets of at most `mtu` bytes. Without, they have at most 1,500 bytes, or what the interface carries if that
    /// is less ([`mtu_on`]).
    #[must_use]
    pub const fn with_mtu(mut self, mtu: Option<usize>) -> Self {
        self.mtu = mtu;
        self
    }

    /// Our place on the network of an interface, over the server's version of IP alone, and its address in words.
    fn on(&self, shared: &Shared) -> (InterfaceConfig, String) {
        let place = InterfaceConfig {
            ipv6: shared.place.ipv6.filter(|_| self.to.is_ipv6()),
            ..shared.place
        };
        let ours: IpAddr = match place.ipv6 {
            Some(ipv6) => ipv6.address.into(),
            None => place.address.into(),
        };
        (place, format!("{}, as {ours}", shared.interface))
    }

    /// Our place beside the kernel, over the server's version of IP alone, and the server's address as seen from there.
    fn beside(&self, beside: &Beside) -> Result<(InterfaceConfig, SocketAddr), Error> {
        let here = self.to.ip().is_loopback();
        match (self.to.ip(), beside.ipv6) {
            (IpAddr::V4(server), _) => {
                let server = if here {
                    beside.network.kernel()
                } else {
                    server
                };
                let to = SocketAddr::new(server.into(), self.to.port());
                Ok((beside.network.into(), to))
            }
            (IpAddr::V6(server), Some(network)) => {
                let server = if here { network.kernel() } else { server };
                let to = SocketAddr::new(server.into(), self.to.port());
                Ok((beside.into(), to))
            }
            (IpAddr::V6(_), None) => Err(Error::Unsupported {
                path: self.way.path(),
                asked: format!("a server at {}", self.to.ip()),
                has: "IPv4 here, since this host has IPv6 switched off".to_owned(),
            }),
        }
    }

    /// Opens a session over a link.
    fn over<L: Waitable + 'static>(
        &self,
        spec: &Spec,
        link: (L, Pool),
        (place, to): (InterfaceConfig, SocketAddr),
        device: String,
    ) -> Result<Box<dyn Session>, Error> {
        let path = self.way.path();
        let cores = Cores::choose(spec.placement)?;
        let mtu = link.0.mtu();
        let mut end = End::beside(path, spec, link, mtu, place)?;
        let refused = |error: Error| {
            let reason = format!(
                "{error}; name HOST:PORT of an echo for rr and crr, of a discard for stream, of a chargen for stream --reverse \
                 (tollgate serve --listen 0.0.0.0 --echo 7 --discard 9 --chargen 19)"
            );
            Error::stack(path, "connecting to the server of --to", reason)
        };
        match spec.workload {
            Workload::Rr if spec.is_datagrams() => {
                end.open_datagrams(spec, 0, to)?;
            }
            Workload::Rr | Workload::Stream => end.connect(to, || Ok(())).map_err(refused)?,
            Workload::Crr => {
                // That connection is to find out whether anybody is there.
                end.connect(to, || Ok(())).map_err(refused)?;
                end.close()?;
                end.closed(|| Ok(()))?;
            }
        }
        let timing = stack_link::CAPABILITIES.timing(spec);
        let client = Client::new(spec, timing, cores.client, end, vec![to]);
        let mut client = client.with_peer(Peer::Service);
        if spec.is_datagrams() {
            // This one is to find out whether anybody is there.
            client.datagrams(&mut Nobody).map_err(refused)?;
        }
        Ok(Box::new(ServiceSession {
            path,
            client,
            cores,
            to,
            device,
            failed: false,
        }))
    }
}

impl Path for StackTo {
    fn id(&self) -> PathId {
        self.way.path()
    }

    fn capabilities(&self) -> Capabilities {
        stack_link::CAPABILITIES
    }

    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error> {
        let path = self.way.path();
        stack_link::check(path, spec)?;
        let mtu = match &self.way {
            Way::Tap => self.mtu.unwrap_or(DEFAULT_MTU),
            Way::Packet(shared) | Way::Xdp(shared) => mtu_on(&shared.interface, self.mtu)
                .map_err(|error| Error::stack(path, MAKING, error))?,
        };
        match &self.way {
            Way::Tap => {
                let beside =
                    Beside::open(None, mtu).map_err(|error| Error::stack(path, MAKING, error))?;
                let device = format!("{}, beside the kernel", beside.tap.name());
                let where_to = self.beside(&beside)?;
                let link = (beside.tap, stack_host::pool(path, mtu));
                self.over(spec, link, where_to, device)
            }
            Way::Packet(shared) => {
                let (place, device) = self.on(shared);
                let link = Packet::open(&shared.interface, place.addresses(), mtu)
                    .map_err(|error| Error::stack(path, MAKING, error))?;
                let link = (link, stack_host::pool(path, mtu));
                self.over(spec, link, (place, self.to), device)
            }
            Way::Xdp(shared) => {
                let (place, device) = self.on(shared);
                let link = Xdp::open(&xdp::Config {
                    interface: &shared.interface,
                    addresses: place.addresses(),
                    mtu,
                    frames: stack_host::pool_frames(path, mtu),
                    checksums: shared.checksums,
                    modes: &Mode::ALL,
                })
                .map_err(|error| Error::stack(path, MAKING, error))?;
                let device = format!("{device} ({})", link.0.mode());
                self.over(spec, link, (place, self.to), device)
            }
        }
    }
}

/// The work that fails where a link cannot be made, in words.
const MAKING: &str = "making its link";

/// A server that is not told of slices.
struct Nobody;

impl OtherEnd for Nobody {
    fn begin(&mut self, _iterations: u64) -> Result<(), Error> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// A session of our stack with a server.
struct ServiceSession<L: Waitable> {
    path: PathId,
    client: Client<L>,
    cores: Cores,
    to: SocketAddr,
    /// The device in words.
    device: String,
    failed: bool,
}

impl<L: Waitable> Session for ServiceSession<L> {
    fn run(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Poisoned { path: self.path });
        }
        samples.check_timing(self.client.timing())?;
        let outcome = self.client.slice(iterations, samples, &mut Nobody);
        self.failed = outcome.is_err();
        outcome.map_err(|error| {
            self.client.end.poll();
            if self.client.end.link().is_gone() {
                return Error::Vanished {
                    path: self.path,
                    device: match self.path {
                        PathId::StackTap => "of the run",
                        _ => "that it shares",
                    },
                };
            }
            error
        })
    }

    fn timing(&self) -> Timing {
        self.client.timing()
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let spec = self.client.spec();
        let checksums = self.client.end.checksums(spec);
        let mtu = self.client.end.link().mtu();
        let mut settings = stack_host::settings(self.path, spec, mtu, checksums);
        settings.push(("cores", self.cores.describe()));
        settings.push(("server", self.to.to_string()));
        settings.push(("device", self.device.clone()));
        settings
    }
}

impl<L: Waitable> Drop for ServiceSession<L> {
    fn drop(&mut self) {
        self.client.end.abort();
    }
}

#[cfg(test)]
mod tests;
