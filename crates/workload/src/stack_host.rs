//! Set-up of the stack for its paths, so that all run the same one.
//!
//! Mechanisms are those of the spec at both ends, checksums in software by the best kernel of the processor, timestamps on. Socket buffers
//! begin as large as those of `peer-smoltcp`, which keep their size; ours grow, as those of Linux do, but with `tuning=off`.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddrV4};

use tollgate_checksum::Kernel;
use tollgate_gate::Recorder;
use tollgate_link::{Addresses, InterfaceConfig, atm};
use tollgate_run::PathId;
use tollgate_stack::config::{
    ChecksumKernel, ChecksumPolicy, CongestionControl, Nagle, Receive, Transmit, Tuning,
};
use tollgate_stack::{
    Active, Config, ConnId, Error as Refusal, Instant, Link, Pool, Received, SocketOption, Stack,
};
use tollgate_wire::ethernet::MacAddr;

use crate::error::Error;
use crate::link_kind::LinkKind;
use crate::spec::Spec;

/// Bytes of each socket buffer, and of the buffer that a reader of a stream posts.
pub(crate) const BUFFER: usize = 64 * 1024;
/// Bytes of each socket buffer where Linux is at the other end, whose own grow: the content of a line while both ends take turns.
const BUFFER_BESIDE_LINUX: usize = 512 * 1024;
/// Bytes of each socket buffer where the device's queue is a ring of packets: fewer segments of the default MTU than the 256 that the
/// ring of a veth device holds.
const BUFFER_OF_RINGS: usize = 256 * 1024;
/// Segments that a socket buffer holds at least: with fewer in flight both ends wait for each other's acknowledgments.
const SEGMENTS: usize = 4;
/// The largest IP packet unless told otherwise, in bytes.
pub(crate) const DEFAULT_MTU: usize = 1500;
/// Frames in a pool: several windows both ways.
pub(crate) const POOL: usize = 1024;
/// The share of a stack's frames that a connection's full buffers may hold.
const SHARE: usize = 4;
/// The server's port.
pub(crate) const PORT: u16 = 7;
/// Connections that may wait to be accepted.
pub(crate) const BACKLOG: u16 = 16;
/// Connections in TIME-WAIT; the oldest makes room, so that a run of any length stays within this.
const TIME_WAITS: usize = 1024;

/// Leading bits of an address that name the network of both ends.
pub(crate) const PREFIX: u8 = 24;

/// The host numbers of the two ends.
pub(crate) const CLIENT: u8 = 1;
/// See [`CLIENT`].
pub(crate) const SERVER: u8 = 2;

/// Bytes of each socket buffer on a path whose IP packets have at most `mtu` bytes.
fn buffer(path: PathId, mtu: usize) -> usize {
    let usual = match path {
        PathId::StackTap | PathId::StackPacket => BUFFER_BESIDE_LINUX,
        PathId::StackXdp => BUFFER_OF_RINGS,
        PathId::KernelLoopback
        | PathId::KernelVeth
        | PathId::KernelRemote
        | PathId::StackMemory
        | PathId::StackShm
        | PathId::PeerSmoltcp
        | PathId::BareShm => BUFFER,
    };
    usual.max(SEGMENTS * mtu)
}

/// The addresses of an end, for a link that shares an interface.
pub(crate) const fn addresses(host: u8) -> Addresses {
    Addresses {
        mac: mac(host),
        ipv4: address(host),
        ipv6: None,
    }
}

/// The pool of one end of a link with this MTU.
pub(crate) fn pool(path: PathId, mtu: usize) -> Pool {
    Pool::new(pool_frames(path, mtu), Pool::frame_size_for(mtu))
}

/// Frames of the pool of one end of a link with this MTU.
pub(crate) fn pool_frames(path: PathId, mtu: usize) -> usize {
    let frames = SHARE * buffer(path, mtu) / mtu.max(1);
    frames.clamp(POOL, 4 * POOL)
}

/// The client's address, and the port of its datagrams.
pub(crate) fn client_address() -> SocketAddrV4 {
    SocketAddrV4::new(address(CLIENT), PORT)
}

/// The place where the server listens.
pub(crate) fn server_address() -> SocketAddrV4 {
    SocketAddrV4::new(address(SERVER), PORT)
}

/// The link address of an end.
const fn mac(host: u8) -> MacAddr {
    MacAddr([0x02, 0, 0, 0, 0, host])
}

/// The adapter of an end, where its frames become cells.
pub(crate) fn adapter(spec: &Spec, host: u8) -> Option<atm::Config> {
    let peer = match host {
        CLIENT => SERVER,
        _ => CLIENT,
    };
    let aal = spec.link.aal()?;
    Some(atm::Config {
        kernel: kernel_of_link(spec),
        noise: spec.cells.noise(),
        when_full: spec.cells.when_full(),
        seed: spec.cells.seed(host == SERVER),
        ..atm::Config::new(aal, mac(host), mac(peer))
    })
}

/// Bytes of the largest IP packet: those of the link, or the path's own.
///
/// # Errors
/// [`Error::Unsupported`] when both ask for another one than the usual.
pub(crate) fn mtu(path: PathId, spec: &Spec, own: usize) -> Result<usize, Error> {
    match spec.link.mtu() {
        None => Ok(own),
        Some(mtu) if own == DEFAULT_MTU => Ok(mtu),
        Some(mtu) => Err(Error::Unsupported {
            path,
            asked: format!("an MTU of {own} bytes over the link {}", spec.link),
            has: format!("its own {mtu} bytes"),
        }),
    }
}

/// The address of an end.
pub(crate) const fn address(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host)
}

/// The stack of one end of a link.
///
/// # Errors
/// [`Error::Stack`] for a link whose MTU no stack can have.
pub(crate) fn stack(
    path: PathId,
    spec: &Spec,
    host: u8,
    link: &mut impl Link,
    now: Instant,
) -> Result<Stack, Error> {
    seeded_stack(path, spec, host, link, now, random_words())
}

/// Like [`stack`], for so many connections at a time.
///
/// # Errors
/// Those of [`stack`].
pub(crate) fn stack_for(
    path: PathId,
    spec: &Spec,
    host: u8,
    link: &mut impl Link,
    now: Instant,
    connections: usize,
) -> Result<Stack, Error> {
    let mut config = Config::new(mac(host), address(host), PREFIX, random_words());
    config.max_connections = connections;
    configured(path, spec, config, link, now)
}

/// The stack of one end whose ports and sequence numbers follow from `seed`.
///
/// # Errors
/// Those of [`stack`].
pub(crate) fn seeded_stack(
    path: PathId,
    spec: &Spec,
    host: u8,
    link: &mut impl Link,
    now: Instant,
    seed: [u64; 4],
) -> Result<Stack, Error> {
    let mut config = Config::new(mac(host), address(host), PREFIX, seed);
    config.max_connections = TIME_WAITS;
    configured(path, spec, config, link, now)
}

/// The stack at a place beside the kernel of this host.
///
/// # Errors
/// Those of [`stack`].
pub(crate) fn stack_beside(
    path: PathId,
    spec: &Spec,
    place: InterfaceConfig,
    link: &mut impl Link,
    now: Instant,
) -> Result<Stack, Error> {
    let mut config = place.config();
    config.max_connections = TIME_WAITS;
    configured(path, spec, config, link, now)
}

/// A stack with what is the same on all paths.
fn configured(
    path: PathId,
    spec: &Spec,
    mut config: Config,
    link: &mut impl Link,
    now: Instant,
) -> Result<Stack, Error> {
    config.max_time_wait = TIME_WAITS;
    config.max_neighbours = 16;
    let buffer = buffer(path, link.mtu()) as u32;
    config.send_buffer = buffer;
    config.receive_buffer = buffer;
    config.kernel = Kernel::best();
    config.mechanisms = spec.mechanisms;
    let config = config.for_link(link);
    Stack::new(config, link.mtu(), now).map_err(|error| Error::stack(path, "making a stack", error))
}

/// The kernel by which a link that copies frames sums them on the way (Wolman et al. 1994, 4.1.1). A posted reader's copy
/// verifies the checksum already, and with separate passes no copy does.
pub(crate) fn kernel_of_link(spec: &Spec) -> Option<Kernel> {
    let mechanisms = &spec.mechanisms;
    let sums = mechanisms.checksum == ChecksumPolicy::Always
        && mechanisms.receive == Receive::Queued
        && mechanisms.checksum_kernel == ChecksumKernel::Integrated;
    sums.then(Kernel::best)
}

/// Numbers that nobody else knows: the standard library seeds its hashers by the system's source.
pub(crate) fn random_words() -> [u64; 4] {
    [(); 4].map(|()| RandomState::new().hash_one(0u8))
}

/// Switches Nagle's algorithm, and sends what it has held back when it is off. At the end of a stream it is off for a
/// moment, so that the last short segment leaves; a user who knows the end does the same.
pub(crate) fn set_nagle(
    path: PathId,
    active: &mut Active<'_>,
    conn: ConnId,
    on: bool,
) -> Result<(), Error> {
    active
        .set_option(conn, SocketOption::NoDelay(!on))
        .map_err(|error| Error::stack(path, "ending a stream", error))
}

/// Calls of an application to its stack: [`Receive`] and [`Transmit`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls {
    receive: Receive,
    transmit: Transmit,
    verify: bool,
}

impl Calls {
    pub(crate) const fn of(spec: &Spec) -> Self {
        Self {
            receive: spec.mechanisms.receive,
            transmit: spec.mechanisms.transmit,
            verify: spec.verify,
        }
    }

    /// Queues what the stack takes of `data`, and gives how much that was.
    ///
    /// # Errors
    /// Those of [`Active::send`].
    #[inline(always)]
    pub(crate) fn send<R: Recorder>(
        self,
        active: &mut Active<'_, R>,
        conn: ConnId,
        data: &[u8],
    ) -> Result<usize, Refusal> {
        match self.transmit {
            Transmit::Copy => active.send(conn, data),
            Transmit::ZeroCopy => self.send_buffers(active, conn, data),
        }
    }

    /// Sends as many bytes from buffers of the pool, a full segment in each. What an application computes there, or a device
    /// puts there, is not written again: the buffers keep what lies in them, unless bytes are compared.
    #[inline(never)]
    fn send_buffers<R: Recorder>(
        self,
        active: &mut Active<'_, R>,
        conn: ConnId,
        data: &[u8],
    ) -> Result<usize, Refusal> {
        let mut sent = 0;
        for piece in data.chunks(active.mss(conn)?.max(1)) {
            let Ok(mut buffer) = active.pool().buffer(piece.len()) else {
                break;
            };
            if self.verify {
                active
                    .pool()
                    .payload_mut(&mut buffer)
                    .copy_from_slice(piece);
            }
            match active.send_buffer(conn, buffer) {
                Ok(()) => sent += piece.len(),
                Err((error, buffer)) => {
                    active.pool().free(buffer);
                    if error != Refusal::WouldBlock {
                        return Err(error);
                    }
                    break;
                }
            }
        }
        if sent == 0 {
            return Err(Refusal::WouldBlock);
        }
        Ok(sent)
    }

    /// Polls, and reads what is there into `buffer`.
    ///
    /// # Errors
    /// Those of [`Active::receive`].
    #[inline(always)]
    pub(crate) fn poll_receive<R: Recorder, L: Link>(
        self,
        active: &mut Active<'_, R>,
        link: &mut L,
        conn: ConnId,
        buffer: &mut [u8],
    ) -> Result<Received, Refusal> {
        match self.receive {
            Receive::Posted => active.poll_receive(link, conn, buffer),
            Receive::Queued => {
                active.poll(link);
                active.receive(conn, buffer)
            }
        }
    }
}

/// Tells who makes and verifies the checksums of an end.
pub(crate) fn checksums(spec: &Spec, stack: &Stack, conn: Option<ConnId>) -> String {
    match spec.mechanisms.checksum {
        ChecksumPolicy::Always if spec.is_datagrams() => in_software(spec),
        ChecksumPolicy::RedundancyAvoidance if spec.is_datagrams() => {
            let come = match stack.counters().unverified {
                0 => "none has come without",
                _ => "some have come without",
            };
            format!("redundancy avoidance, of datagrams {come}")
        }
        ChecksumPolicy::Always if stack.completes_checksums() => {
            "left to Linux on the way out, verified where Linux does not vouch for them".to_owned()
        }
        ChecksumPolicy::Always => in_software(spec),
        ChecksumPolicy::RedundancyAvoidance => agreed(stack, conn),
        ChecksumPolicy::Off => "off".to_owned(),
    }
}

/// Tells by which kernel of the processor both ends make and verify checksums.
pub(crate) fn in_software(spec: &Spec) -> String {
    let kernel = spec.mechanisms.checksum_kernel.kernel(Kernel::best());
    format!("software, both ends, {}", kernel.name())
}

/// Tells what came of redundancy avoidance at one end: how its connection has checksums, unless that is over already.
fn agreed(stack: &Stack, conn: Option<ConnId>) -> String {
    let agreed = stack.counters().unsummed_connections;
    match conn.and_then(|conn| stack.checksums(conn).ok()) {
        Some(how) => format!("redundancy avoidance, {how}"),
        None if agreed == 0 => "redundancy avoidance, no connection has agreed".to_owned(),
        None => format!("redundancy avoidance, left out by {agreed} connections"),
    }
}

/// The settings that all paths of our stack have, for a table's notes. `checksums` says who makes those ([`checksums`]).
pub(crate) fn settings(
    path: PathId,
    spec: &Spec,
    mtu: usize,
    checksums: String,
) -> Vec<(&'static str, String)> {
    const TOLD_ANYWAY: [&str; 4] = [
        ChecksumPolicy::NAME,
        CongestionControl::NAME,
        Nagle::NAME,
        Receive::NAME,
    ];
    let changed = spec.mechanisms.changed();
    let changed = changed
        .filter(|(name, _)| !TOLD_ANYWAY.contains(name))
        .map(|(name, value)| (name, value.to_owned()));
    let grows = match spec.mechanisms.tuning {
        Tuning::On => " at first, they grow with what a connection carries",
        Tuning::Off => "",
    };
    let mut settings = if spec.is_datagrams() {
        vec![
            ("transport", spec.sockets.transport.to_string()),
            ("mtu", mtu.to_string()),
            ("checksums", checksums),
            (Receive::NAME, spec.mechanisms.receive.name().to_owned()),
        ]
    } else {
        vec![
            (
                CongestionControl::NAME,
                spec.mechanisms.congestion.name().to_owned(),
            ),
            spec.nagle_setting(),
            ("mtu", mtu.to_string()),
            (
                "socket buffers",
                format!("{} bytes{grows}", buffer(path, mtu)),
            ),
            ("checksums", checksums),
            ("timestamps", "on".to_owned()),
            (Receive::NAME, spec.mechanisms.receive.name().to_owned()),
        ]
    };
    settings.extend(changed);
    if spec.link != LinkKind::Ethernet {
        let fifos = match spec.link.aal() {
            Some(_) => format!(
                "{}, FIFOs of {} and {} cells, {}",
                spec.cells,
                atm::TRANSMIT_FIFO,
                atm::RECEIVE_FIFO,
                match spec.cells.when_full() {
                    atm::WhenFull::Wait => "the line waits",
                    atm::WhenFull::Lose => "a full one loses cells",
                }
            ),
            None => String::new(),
        };
        settings.push(("link", format!("{}{fifos}", spec.link)));
    }
    settings
}
