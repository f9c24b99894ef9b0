//! UDP (RFC 768, RFC 1122 4.1).
//!
//! # Bounds
//!
//! Datagrams that wait for their readers are copies, no frames of the pool, and are charged what they cost in memory.
//! A socket holds at most 256 KiB, all sockets together a quarter of the pool's bytes. A socket whose queue is
//! empty may take one datagram in any case, so that others cannot shut it out, nor a tiny pool all of them.

use crate::counters::Drop;
use crate::icmp::Trouble;
use crate::socket::Error;
use crate::stack::Active;
use crate::tcp::report::SoftError;
use crate::tcp::slow::redundancy::SocketChecksums;
use crate::time::Instant;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use core::time::Duration;
use tollgate_checksum::{Partial, sum_header};
use tollgate_gate::Recorder;
use tollgate_wire::icmp::{Message, Unreachable};
use tollgate_wire::{ipv4, ipv6, udp};

/// Bytes of memory that a socket's queue may take.
const QUEUE_BYTES: usize = 256 * 1024;
/// Bytes of memory that a datagram takes beside its payload: an entry of a queue that has grown to twice its need, and
/// what an allocator adds to a block in header and rounding.
const OVERHEAD: usize = 2 * size_of::<Queued>() + 32;
/// The longest payload: what an IP datagram holds beside both headers.
const MAX_PAYLOAD: usize = 65_535 - 20 - udp::HEADER_LEN;
/// Destinations about which a socket believes ICMP errors: those that it sent to last.
const DESTINATIONS: usize = 8;
/// Time for which a destination is remembered. Errors take a round trip, or the time of a router's questions.
const LATELY: Duration = Duration::from_secs(60);
/// Ports that are given out: the dynamic ones of RFC 6335, 6.
const FIRST_PORT: u16 = 49_152;
const PORTS: u16 = u16::MAX - FIRST_PORT + 1;

/// A datagram and who sent it.
type Queued = (SocketAddr, Vec<u8>);

/// A UDP socket's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpId {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
pub(crate) struct UdpSocket {
    port: u16,
    generation: u32,
    queue: VecDeque<Queued>,
    /// Bytes that the queue is charged.
    charged: usize,
    checksums: SocketChecksums,
    /// The latest error about a datagram, until the application takes it.
    error: Option<Error>,
    /// The last destinations and the times of their last datagrams; the next place to be written.
    destinations: [Option<(SocketAddr, Instant)>; DESTINATIONS],
    next_destination: usize,
}

impl UdpSocket {
    /// Remembers that a datagram goes to `to`.
    fn sends(&mut self, to: SocketAddr, now: Instant) {
        let known = self.destinations.iter_mut().flatten();
        if let Some((_, last)) = known.into_iter().find(|(known, _)| *known == to) {
            *last = now;
            return;
        }
        self.destinations[self.next_destination] = Some((to, now));
        self.next_destination = (self.next_destination + 1) % DESTINATIONS;
    }

    /// Tells whether a datagram went to `to` lately.
    fn has_sent(&self, to: SocketAddr, now: Instant) -> bool {
        let mut known = self.destinations.iter().flatten();
        known.any(|&(known, last)| known == to && now - last <= LATELY)
    }
}

/// Bytes that a datagram with this payload is charged.
const fn charge(payload: usize) -> usize {
    payload + OVERHEAD
}

/// The field of a checksum. One of zero is sent as all ones: zero says that there is none (RFC 768).
fn checksum(sum: Partial) -> [u8; 2] {
    match sum.finish().to_ne_bytes() {
        [0, 0] => [0xff, 0xff],
        bytes => bytes,
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Opens a UDP socket on `port`, or, when it is 0, on a free one from 49,152 on, the search for which begins anywhere
    /// (RFC 6056, 3.3.1).
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NoPort`].
    pub fn udp_bind(&mut self, port: u16) -> Result<UdpId, Error> {
        let taken =
            |stack: &crate::Stack, port: u16| stack.udp.iter().flatten().any(|s| s.port == port);
        let port = match port {
            0 => {
                let first = self.stack.secrets.random.below(PORTS.into()) as u16;
                (0..PORTS)
                    .map(|n| FIRST_PORT + (first + n) % PORTS)
                    .find(|&p| !taken(self.stack, p))
                    .ok_or(Error::NoPort)?
            }
            port if taken(self.stack, port) => return Err(Error::InUse),
            port => port,
        };
        self.stack.udp_generation = self.stack.udp_generation.wrapping_add(1);
        let generation = self.stack.udp_generation;
        let socket = UdpSocket {
            port,
            generation,
            queue: VecDeque::new(),
            charged: 0,
            checksums: SocketChecksums::Policy,
            error: None,
            destinations: [None; DESTINATIONS],
            next_destination: 0,
        };
        let index = match self.stack.udp.iter().position(Option::is_none) {
            Some(free) => {
                self.stack.udp[free] = Some(socket);
                free
            }
            None => {
                self.stack.udp.push(Some(socket));
                self.stack.udp.len() - 1
            }
        };
        Ok(UdpId {
            index: index as u32,
            generation,
        })
    }

    fn udp_socket(&mut self, id: UdpId) -> Result<&mut UdpSocket, Error> {
        match self.stack.udp.get_mut(id.index as usize) {
            Some(Some(socket)) if socket.generation == id.generation => Ok(socket),
            _ => Err(Error::NotConnected),
        }
    }

    /// The socket's port.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub fn udp_port(&mut self, id: UdpId) -> Result<u16, Error> {
        self.udp_socket(id).map(|socket| socket.port)
    }

    /// Says which checksums the socket's datagrams are to have. Every policy allows any of them: a datagram says itself whether it has
    /// one (RFC 768). Those that arrive are taken either way.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub fn udp_set_checksums(
        &mut self,
        id: UdpId,
        checksums: SocketChecksums,
    ) -> Result<(), Error> {
        self.udp_socket(id)?.checksums = checksums;
        Ok(())
    }

    /// Closes the socket.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub fn udp_close(&mut self, id: UdpId) -> Result<(), Error> {
        let charged = self.udp_socket(id)?.charged;
        self.stack.udp_charged -= charged;
        self.stack.udp[id.index as usize] = None;
        Ok(())
    }

    /// Sends a datagram. ICMP errors about earlier ones are told by [`Active::udp_receive`] alone.
    ///
    /// # Errors
    /// [`Error::TooLong`] for more than 65,507 bytes, [`Error::BadAddress`] for port 0, [`Error::NoFrame`] when the pool
    /// or the device queue has no room, [`Error::Unreachable`] where no address of ours can reach that one.
    pub fn udp_send(
        &mut self,
        id: UdpId,
        to: impl Into<SocketAddr>,
        payload: &[u8],
    ) -> Result<(), Error> {
        let to: SocketAddr = to.into();
        // An address of IPv4 in IPv6's form is that of IPv4 (RFC 4291, 2.5.5.2).
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let now = self.now;
        let socket = self.udp_socket(id)?;
        let port = socket.port;
        if payload.len() > MAX_PAYLOAD {
            return Err(Error::TooLong);
        }
        if to.port() == 0 {
            return Err(Error::BadAddress);
        }
        let wish = socket.checksums;
        socket.sends(to, now);
        let len = (udp::HEADER_LEN + payload.len()) as u16;
        let to = match to {
            SocketAddr::V4(to) => to,
            SocketAddr::V6(to) => return self.udp_send_v6(port, (*to.ip(), to.port()), payload),
        };
        // A CRC does not cover how fragments are put together (RFC 4963).
        let is_whole = ipv4::HEADER_LEN + usize::from(len) <= usize::from(self.stack.mtu);
        let no_checksum = match wish {
            SocketChecksums::Policy => is_whole && self.is_redundant(*to.ip()),
            SocketChecksums::Keep => false,
            SocketChecksums::LeaveOut => true,
        };
        let from = (self.stack.source_to(*to.ip()), port);
        if self.udp_send_summed(from, to, payload, !no_checksum) {
            Ok(())
        } else {
            Err(Error::NoFrame)
        }
    }

    /// Sends a datagram from any address and port, with a checksum; says whether it was sent or waits for its neighbour.
    pub(crate) fn udp_send_from(
        &mut self,
        from: (Ipv4Addr, u16),
        to: SocketAddrV4,
        payload: &[u8],
    ) -> bool {
        self.udp_send_summed(from, to, payload, true)
    }

    fn udp_send_summed(
        &mut self,
        (source, port): (Ipv4Addr, u16),
        to: SocketAddrV4,
        payload: &[u8],
        summed: bool,
    ) -> bool {
        let len = udp::HEADER_LEN + payload.len();
        let ends = (source, *to.ip());
        let mut header = udp::Header {
            source_port: port,
            destination_port: to.port(),
            len: len as u16,
            no_checksum: !summed,
        }
        .to_bytes();
        let ahead = ipv4::pseudo_header(ends.0, ends.1, ipv4::protocol::UDP, len as u16)
            + sum_header(&header);
        let kernel = self.stack.compiled.kernel;
        if len <= self.ip_payload_limit() {
            return self.ip_output_whole(ipv4::protocol::UDP, ends, len, |body| {
                let (head, room) = body.split_at_mut(udp::HEADER_LEN);
                if summed {
                    let sum = ahead + kernel.copy_and_sum(room, payload);
                    header[6..8].copy_from_slice(&checksum(sum));
                } else {
                    room.copy_from_slice(payload);
                }
                head.copy_from_slice(&header);
            });
        }
        // The first fragment has the sum of them all.
        if summed {
            header[6..8].copy_from_slice(&checksum(ahead + kernel.sum(payload)));
        }
        self.ip_output(ipv4::protocol::UDP, ends, [&header, payload])
    }

    /// Sends a datagram over IPv6, where the checksum is compulsory (RFC 8200, 8.1).
    fn udp_send_v6(&mut self, port: u16, to: (Ipv6Addr, u16), payload: &[u8]) -> Result<(), Error> {
        let addresses = &self.stack.ipv6.addresses;
        let source = addresses.source_for(to.0).ok_or(Error::Unreachable)?;
        let len = udp::HEADER_LEN + payload.len();
        let mut header = udp::Header {
            source_port: port,
            destination_port: to.1,
            len: len as u16,
            no_checksum: false,
        }
        .to_bytes();
        let sum = ipv6::pseudo_header(source, to.0, ipv6::protocol::UDP, len as u32)
            + sum_header(&header)
            + self.stack.compiled.kernel.sum(payload);
        header[6..8].copy_from_slice(&checksum(sum));
        let ends = (source, to.0);
        let sent = self.ipv6_output(ipv6::protocol::UDP, ends, [&header, payload]);
        if sent { Ok(()) } else { Err(Error::NoFrame) }
    }

    /// Takes the next datagram: who sent it, and its bytes.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is none, and, once, [`Error::Refused`] or [`Error::Unreachable`] when an ICMP error
    /// came about a datagram that this socket has sent in the last minute, to one of the 8 destinations that it sent to
    /// last (RFC 1122, 4.1.3.3).
    pub fn udp_receive(&mut self, id: UdpId) -> Result<(SocketAddr, Vec<u8>), Error> {
        let socket = self.udp_socket(id)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let (from, bytes) = socket.queue.pop_front().ok_or(Error::WouldBlock)?;
        let charge = charge(bytes.len());
        socket.charged -= charge;
        self.stack.udp_charged -= charge;
        Ok((from, bytes))
    }

    /// Takes a datagram, whose checksum the link may have verified.
    pub(crate) fn udp_input(
        &mut self,
        ip: &ipv4::Header,
        bytes: &[u8],
        unicast: bool,
        verified: bool,
    ) {
        let Ok(header) = udp::Header::parse(bytes) else {
            self.stack.counters.dropped(Drop::Malformed);
            return;
        };
        let datagram = &bytes[..usize::from(header.len)];
        // Where the link vouches for it, the checksum may be one that the sender has left to its device.
        if !header.no_checksum && !verified {
            let pseudo =
                ipv4::pseudo_header(ip.source, ip.destination, ipv4::protocol::UDP, header.len);
            if !(pseudo + self.stack.compiled.kernel.sum(datagram)).is_valid() {
                self.stack.counters.dropped(Drop::Checksum);
                return;
            }
        } else if header.no_checksum && datagram.len() > udp::HEADER_LEN {
            self.stack.counters.unverified += 1;
        }
        let from = SocketAddrV4::new(ip.source, header.source_port);
        let payload = &datagram[udp::HEADER_LEN..];
        if !self.udp_deliver(from.into(), header.destination_port, payload) && unicast {
            let reason = Message::DestinationUnreachable(Unreachable::Port);
            self.icmp_error(ip, bytes, reason);
        }
    }

    /// Takes a datagram over IPv6, which came with `packet`'s headers; says whether a socket is at its port.
    pub(crate) fn udp_input_v6(&mut self, ip: &ipv6::Header, bytes: &[u8], verified: bool) -> bool {
        let Ok(header) = udp::Header::parse(bytes) else {
            self.stack.counters.dropped(Drop::Malformed);
            return true;
        };
        let datagram = &bytes[..usize::from(header.len)];
        let pseudo = ipv6::pseudo_header(
            ip.source,
            ip.destination,
            ipv6::protocol::UDP,
            header.len.into(),
        );
        // RFC 8200, 8.1: one without a checksum is discarded.
        let intact = verified || (pseudo + self.stack.compiled.kernel.sum(datagram)).is_valid();
        if header.no_checksum || !intact {
            self.stack.counters.dropped(Drop::Checksum);
            return true;
        }
        let from = SocketAddr::new(ip.source.into(), header.source_port);
        let payload = &datagram[udp::HEADER_LEN..];
        self.udp_deliver(from, header.destination_port, payload)
    }

    /// Puts a datagram into the queue of the socket at its port, if there is room; says whether there is such a socket.
    fn udp_deliver(&mut self, from: SocketAddr, port: u16, payload: &[u8]) -> bool {
        let mut sockets = self.stack.udp.iter_mut().flatten();
        let Some(socket) = sockets.find(|s| s.port == port) else {
            self.stack.counters.dropped(Drop::NoSocket);
            return false;
        };
        let charge = charge(payload.len());
        let together = self.pool.capacity() * self.pool.frame_size() / 4;
        let has_room =
            socket.charged + charge <= QUEUE_BYTES && self.stack.udp_charged + charge <= together;
        if !has_room && !socket.queue.is_empty() {
            self.stack.counters.dropped(Drop::QueueFull);
            return true;
        }
        socket.charged += charge;
        self.stack.udp_charged += charge;
        socket.queue.push_back((from, payload.to_vec()));
        true
    }

    /// RFC 1122, 4.1.3.3: an ICMP error is passed to the socket that sent the datagram. That it did is looked at: the quoted
    /// ports are easily guessed.
    pub(crate) fn error_for_udp(&mut self, trouble: Trouble, remote: (IpAddr, u16), local: u16) {
        let error = match trouble {
            Trouble::Refused(SoftError::Unreachable(Unreachable::Port)) => Some(Error::Refused),
            Trouble::Refused(SoftError::Unreachable(_))
            | Trouble::Soft(SoftError::Unreachable(_)) => Some(Error::Unreachable),
            Trouble::TooBig(_) if remote.0.is_ipv4() => Some(Error::Unreachable),
            // What is sent from now on is cut to fit (RFC 8201, 5.2).
            Trouble::TooBig(_) => None,
            Trouble::Refused(_) | Trouble::Soft(_) => return,
        };
        let (remote, now) = (SocketAddr::new(remote.0, remote.1), self.now);
        let mut sockets = self.stack.udp.iter_mut().flatten();
        match sockets.find(|s| s.port == local && s.has_sent(remote, now)) {
            Some(socket) => socket.error = error.or(socket.error),
            None => {
                self.stack.counters.dropped(Drop::IcmpImplausible);
                return;
            }
        }
        if let (Trouble::TooBig(mtu), IpAddr::V6(remote)) = (trouble, remote.ip()) {
            self.path_takes(remote, mtu);
        }
    }
}
