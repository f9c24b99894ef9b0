//! The command line of `serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use tollgate_link::WaitMode;
use tollgate_link::fault::Faults;
use tollgate_link::host::Network;
use tollgate_workload::Mechanisms;
use tollgate_workload::config::ChecksumPolicy;
use tollgate_workload::remote::{PORT, first_address};

use crate::args::shared::{SHARES, SHARES_NOT, STACK, SharedArgs, TRUSTS_NOT};
use crate::args::token;
use crate::error::Error;
use crate::offered::{offering, settings};
use crate::values::{Setting, listen, mechanism, mechanisms_help, mtu};

/// Heading of the options that choose services.
const SERVICES: &str = "Services, in place of the other end for --to";

/// The TCP/IP that serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServePath {
    /// The kernel's.
    Kernel,
    /// Tollgate's stack on a tap device beside the kernel (needs root).
    StackTap,
    /// Tollgate's stack on an interface that the kernel has, by a packet socket (needs root).
    StackPacket,
    /// Tollgate's stack on an interface that the kernel has, by AF_XDP (needs root).
    StackXdp,
}

/// The waiting of our stack for its link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServeWait {
    /// Sleep until a frame comes or a timer is due.
    #[default]
    Block,
    /// Look again and again, which takes a processor for itself.
    Poll,
    /// Poll for 50 us after each frame, and then sleep.
    Adaptive,
}

impl From<ServeWait> for WaitMode {
    fn from(wait: ServeWait) -> Self {
        match wait {
            ServeWait::Block => Self::Block,
            ServeWait::Poll => Self::Poll,
            ServeWait::Adaptive => Self::Adaptive,
        }
    }
}

/// A port whose connections go on to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forward {
    pub(crate) port: u16,
    pub(crate) to: SocketAddr,
}

/// An address to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listen {
    address: SocketAddr,
    /// The port was named.
    has_port: bool,
}

impl Listen {
    fn parse(given: &str) -> Result<Self, String> {
        Ok(Self {
            address: listen(given)?,
            has_port: given.parse::<SocketAddr>().is_ok(),
        })
    }
}

/// `serve`
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Wait for clients here: an address of this host. 0.0.0.0 stands for all of them, `[::]` for those of IPv6, too, and port 0 for a free one. Services have ports of their own [default: 127.0.0.1:8655].
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = Listen::parse)]
    listen: Option<Listen>,
    /// End when the first client is gone.
    #[arg(long)]
    pub(crate) once: bool,
    /// Serve only clients that give this [default: the variable TOLLGATE_TOKEN].
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// The TCP/IP that serves.
    #[arg(long, value_enum, default_value_t = ServePath::Kernel, help_heading = SERVICES)]
    pub(crate) path: ServePath,
    /// Serve the files of this directory by HTTP/1.1.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = SERVICES)]
    pub(crate) http: Option<PathBuf>,
    /// The port of --http [default: 8080 of the kernel's, 80 of our stack's].
    #[arg(long, value_name = "PORT", requires = "http", help_heading = SERVICES)]
    http_port: Option<u16>,
    /// Send back what comes to this port, by TCP or UDP (RFC 862).
    #[arg(long, value_name = "PORT", help_heading = SERVICES)]
    pub(crate) echo: Option<u16>,
    /// Throw away what comes to this port, by TCP or UDP (RFC 863).
    #[arg(long, value_name = "PORT", help_heading = SERVICES)]
    pub(crate) discard: Option<u16>,
    /// Send lines of characters from this port, by TCP alone (RFC 864).
    #[arg(long, value_name = "PORT", help_heading = SERVICES)]
    pub(crate) chargen: Option<u16>,
    /// Join each connection to this port to one of the kernel's to HOST:PORT; may be given more than once.
    #[arg(long, value_name = "PORT=HOST:PORT", value_parser = forward, help_heading = SERVICES)]
    pub(crate) forward: Vec<Forward>,
    /// Join each connection to this port of 127.0.0.1 to one of the stack's to HOST:PORT, so that any program is its client. May be
    /// given more than once.
    #[arg(long, value_name = "PORT=HOST:PORT", value_parser = forward, help_heading = STACK)]
    pub(crate) outward: Vec<Forward>,
    /// Network of the kernel, which has its first address, and the stack, which has its second [default: 198.18.N.0/30 for the
    /// device tollgateN].
    #[arg(long, value_name = "ADDR/BITS", value_parser = network, help_heading = STACK)]
    pub(crate) network: Option<Network>,
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    /// Switch mechanisms of the stack: congestion=newreno,segmentation=per-packet.
    #[arg(long = "set", value_name = "NAME=VALUE,..", value_delimiter = ',', value_parser = offering(mechanism, settings), long_help = mechanisms_help(), help_heading = STACK)]
    set: Vec<Setting>,
    /// Bytes of the largest IP packet [default: 1500, or what --on carries if that is less].
    #[arg(long, value_name = "BYTES", value_parser = mtu, help_heading = STACK)]
    pub(crate) mtu: Option<usize>,
    /// The waiting for frames [default: block].
    #[arg(long, value_enum, help_heading = STACK)]
    pub(crate) wait: Option<ServeWait>,
    /// Lose, damage and delay frames in both directions: drop=0.01,duplicate=0.01,reorder=0.02,corrupt=0.001,delay=10ms.
    #[arg(long, value_name = "NAME=VALUE,..", value_parser = faults, help_heading = STACK)]
    pub(crate) faults: Option<Faults>,
    /// Choose the frames that meet faults by this number.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "faults", help_heading = STACK)]
    pub(crate) fault_seed: u64,
}

impl Serve {
    /// Token that clients must give.
    pub(crate) fn token(&self) -> Option<String> {
        token(self.token.as_ref())
    }

    /// Address of the kernel to listen on.
    pub(crate) fn listen(&self) -> SocketAddr {
        let local = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT);
        self.listen.map_or(local, |listen| listen.address)
    }

    /// Tells whether any service is asked for.
    pub(crate) fn has_services(&self) -> bool {
        let ports = [self.echo, self.discard, self.chargen];
        let joined = !self.forward.is_empty() || !self.outward.is_empty();
        self.http.is_some() || joined || ports.iter().any(Option::is_some)
    }

    /// Sets the mechanisms that are named.
    ///
    /// # Errors
    /// [`Error::Usage`] for those that are not the stack's alone, and for a stack without checksums.
    pub(crate) fn switch(&self, mechanisms: &mut Mechanisms) -> Result<(), Error> {
        let usage = |words: &str| Err(Error::Usage(words.to_owned()));
        for setting in &self.set {
            if ["receive", "transmit", "nagle"].contains(&setting.name()) {
                return usage(
                    "receive, transmit and nagle are what applications choose, and services choose one way; leave them out of --set",
                );
            }
            setting
                .apply(mechanisms)
                .map_err(|reason| Error::Usage(format!("--set: {reason}")))?;
        }
        if mechanisms.checksum == ChecksumPolicy::Off {
            return usage(
                "checksum=off: peers would drop all that the stack sends; name checksum=always or checksum=redundancy-avoidance",
            );
        }
        Ok(())
    }

    /// The port of HTTP.
    pub(crate) fn http_port(&self) -> u16 {
        self.http_port.unwrap_or(match self.path {
            ServePath::Kernel => 8080,
            ServePath::StackTap | ServePath::StackPacket | ServePath::StackXdp => 80,
        })
    }

    /// Refuses what does not go together.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        let usage = |words: &str| Err(Error::Usage(words.to_owned()));
        let services = self.has_services();
        let shares = matches!(self.path, ServePath::StackPacket | ServePath::StackXdp);
        match self.path {
            ServePath::StackTap | ServePath::StackPacket | ServePath::StackXdp if !services => {
                usage(
                    "Tollgate's stack takes a service: name --http DIR, --echo, --discard, --chargen, --forward or --outward",
                )
            }
            _ if shares && !self.shared.is_given() => usage(SHARES),
            _ if !shares && self.shared.is_given() => usage(SHARES_NOT),
            _ if shares && self.network.is_some() => usage(
                "--network is for the device of --path stack-tap; leave it out: --address has the network of --on",
            ),
            _ if self.shared.trusts() && self.path != ServePath::StackXdp => usage(TRUSTS_NOT),
            ServePath::Kernel
                if self.faults.is_some()
                    || self.mtu.is_some()
                    || self.network.is_some()
                    || !self.outward.is_empty()
                    || !self.set.is_empty()
                    || self.wait.is_some() =>
            {
                usage(
                    "--faults, --mtu, --network, --outward, --set and --wait are for Tollgate's stack; add --path stack-tap, or leave them out",
                )
            }
            ServePath::StackTap | ServePath::StackPacket | ServePath::StackXdp
                if self.listen.is_some() =>
            {
                usage(
                    "--listen is for --path kernel; leave it out: Tollgate's stack has an address of its own, and --outward listens on 127.0.0.1",
                )
            }
            _ if services && self.listen.is_some_and(|listen| listen.has_port) => usage(
                "services have ports of their own, as in --echo 7; leave the port out of --listen ADDR",
            ),
            _ if services && (self.once || self.token.is_some()) => usage(
                "--once and --token are for the other end of --to, which a server of other services is not; leave them out",
            ),
            ServePath::Kernel
            | ServePath::StackTap
            | ServePath::StackPacket
            | ServePath::StackXdp => {
                let mut would_be = Mechanisms::HOST;
                self.switch(&mut would_be)
            }
        }
    }
}

fn forward(given: &str) -> Result<Forward, String> {
    let refused = || format!("`{given}` is no PORT=HOST:PORT, such as 2222=127.0.0.1:22");
    let (port, to) = given.split_once('=').ok_or_else(refused)?;
    let port = port.parse().ok().filter(|&port| port != 0);
    Ok(Forward {
        port: port.ok_or_else(refused)?,
        to: first_address(to).map_err(|reason| format!("{to}: {reason}"))?,
    })
}

fn network(given: &str) -> Result<Network, String> {
    given.parse()
}

fn faults(given: &str) -> Result<Faults, String> {
    given
        .parse()
        .map_err(|error: tollgate_link::fault::FaultsError| error.to_string())
}
