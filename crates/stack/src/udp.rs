//! UDP (RFC 768, RFC 1122 4.1): the sockets' calls, and the general path of what comes and goes.
//!
//! Most datagrams never get here: `predicted` takes those that come, and `template` sends those to a destination that is known.
//! Both do what the general path would do.
//!
//! # Bounds
//!
//! Datagrams that wait for their readers are copies, no frames of the pool, and are charged what they cost in memory.
//! A socket holds at most 256 KiB, all sockets together a quarter of the pool's bytes. A socket whose queue is
//! empty may take one datagram in any case, so that others cannot shut it out, nor a tiny pool all of them.

mod header;
mod predicted;
mod sockets;
mod template;

use crate::buffer::{Frame, Pool};
use crate::counters::Drop;
use crate::icmp::{Quote, Trouble};
use crate::link::Link;
use crate::socket::{Error, Posted};
use crate::stack::{Active, Stack};
use crate::tcp::report::SoftError;
use crate::tcp::slow::redundancy::SocketChecksums;
use alloc::vec::Vec;
use core::hint::cold_path;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
pub(crate) use sockets::Sockets;
use sockets::{Arrived, Enqueued};
pub use sockets::{DatagramEnds, UdpId};
use tollgate_checksum::{Partial, sum_header};
use tollgate_gate::{Gate, PacketId, Recorder};
use tollgate_wire::ethernet::{self, EtherType};
use tollgate_wire::icmp::{Message, Unreachable};
use tollgate_wire::ipv6::chain::follow;
use tollgate_wire::{ipv4, ipv6, udp};

/// The longest payload: what an IP datagram holds beside both headers.
const MAX_PAYLOAD: usize = 65_535 - 20 - udp::HEADER_LEN;
/// Ports that are given out: the dynamic ones of RFC 6335, 6.
const FIRST_PORT: u16 = 49_152;
const PORTS: u16 = u16::MAX - FIRST_PORT + 1;
/// The key of a datagram at the gates of the predicted paths: it has no number of its own. Whoever records tells them apart by turns.
const UNNUMBERED: PacketId = PacketId(0);

/// The field of a checksum. One of zero is sent as all ones: zero says that there is none (RFC 768).
#[inline(always)]
fn checksum(sum: Partial) -> [u8; 2] {
    match u16::from_ne_bytes(sum.finish().to_ne_bytes()) {
        0 => [0xff, 0xff],
        sum => sum.to_ne_bytes(),
    }
}

/// Addresses of a packet that a datagram came in.
#[derive(Clone, Copy)]
enum Packet {
    V4 { source: Ipv4Addr, to: Ipv4Addr },
    V6 { source: Ipv6Addr, to: Ipv6Addr },
}

impl Packet {
    const fn of_v4(ip: &ipv4::Header) -> Self {
        Self::V4 {
            source: ip.source,
            to: ip.destination,
        }
    }

    const fn of_v6(ip: &ipv6::Header) -> Self {
        Self::V6 {
            source: ip.source,
            to: ip.destination,
        }
    }

    const fn source(self) -> IpAddr {
        match self {
            Self::V4 { source, .. } => IpAddr::V4(source),
            Self::V6 { source, .. } => IpAddr::V6(source),
        }
    }

    /// The address of ours that it was sent to, or the one from which its sender is answered.
    #[inline]
    fn local(self, stack: &Stack) -> IpAddr {
        match self {
            Self::V4 { to, .. } if stack.is_ours(to) => to.into(),
            Self::V4 { source, .. } => stack.source_to(source).into(),
            Self::V6 { to, .. } if !to.is_multicast() => to.into(),
            Self::V6 { source, .. } => {
                let local = stack.ipv6.addresses.source_for(source);
                local.unwrap_or(Ipv6Addr::UNSPECIFIED).into()
            }
        }
    }

    fn pseudo_header(self, len: u16) -> Partial {
        match self {
            Self::V4 { source, to } => ipv4::pseudo_header(source, to, ipv4::protocol::UDP, len),
            Self::V6 { source, to } => {
                ipv6::pseudo_header(source, to, ipv6::protocol::UDP, len.into())
            }
        }
    }
}

/// Fate of a datagram that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// It waits for its reader.
    Queued,
    /// It is dropped, and counted.
    Dropped,
    /// No socket is at its port, which is counted. Its checksum is right.
    NoSocket,
}

impl Stack {
    /// Puts the datagram at the beginning of `bytes` into the queue of the socket at its port, if there is room. All queues together may
    /// be charged `together` bytes.
    fn udp_take(&mut self, packet: Packet, bytes: &[u8], verified: bool, together: usize) -> Taken {
        let Some((front, Ok(header))) = bytes
            .first_chunk::<{ udp::HEADER_LEN }>()
            .map(|front| (front, udp::Header::parse(bytes)))
        else {
            return self.udp_drop(Drop::Malformed);
        };
        let payload = &bytes[udp::HEADER_LEN..usize::from(header.len)];
        if header.no_checksum {
            if matches!(packet, Packet::V6 { .. }) {
                // RFC 8200, 8.1: one without a checksum is discarded.
                return self.udp_drop(Drop::Checksum);
            }
            self.counters.unverified += u64::from(!payload.is_empty());
        }
        let datagram = Arrived {
            ends: DatagramEnds {
                remote: SocketAddr::new(packet.source(), header.source_port),
                local: packet.local(self),
            },
            payload,
            // Where the link vouches for it, the checksum may be one that the sender has left to its device.
            ahead: (!header.no_checksum && !verified)
                .then(|| (packet.pseudo_header(header.len) + sum_header(front)).into()),
            kernel: self.compiled.kernel,
        };
        let Some(slot) = self.udp.slot_at(header.destination_port) else {
            if !datagram.is_intact() {
                return self.udp_drop(Drop::Checksum);
            }
            self.counters.dropped(Drop::NoSocket);
            return Taken::NoSocket;
        };
        match self.udp.enqueue(slot, &datagram, together, &mut self.ready) {
            Enqueued::Yes => Taken::Queued,
            Enqueued::Damaged => self.udp_drop(Drop::Checksum),
            Enqueued::Full => self.udp_drop(Drop::QueueFull),
        }
    }

    fn udp_drop(&mut self, reason: Drop) -> Taken {
        self.counters.dropped(reason);
        Taken::Dropped
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Opens a UDP socket on `port`, or, when it is 0, on a free one from 49,152 on, the search for which begins anywhere
    /// (RFC 6056, 3.3.1).
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NoPort`].
    pub fn udp_bind(&mut self, port: u16) -> Result<UdpId, Error> {
        let port = match port {
            0 => {
                let first = self.stack.secrets.random.below(PORTS.into()) as u16;
                (0..PORTS)
                    .map(|n| FIRST_PORT + (first + n) % PORTS)
                    .find(|&port| !self.stack.udp.is_taken(port))
                    .ok_or(Error::NoPort)?
            }
            port => port,
        };
        self.stack.udp.add(port)
    }

    /// The socket's port.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub fn udp_port(&mut self, id: UdpId) -> Result<u16, Error> {
        self.stack.udp.get(id).map(|socket| socket.port)
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
        let socket = self.stack.udp.get(id)?;
        socket.checksums = checksums;
        socket.forget_templates();
        Ok(())
    }

    /// Sets the number that the socket's events carry; 0 until then.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub fn udp_set_token(&mut self, id: UdpId, token: u64) -> Result<(), Error> {
        self.stack.udp.get(id)?.token = token;
        Ok(())
    }

    /// Never tells events of the socket: it is the stack's own, and asked in any case.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub(crate) fn udp_tell_nothing(&mut self, id: UdpId) -> Result<(), Error> {
        self.stack.udp.get(id)?.listed = true;
        Ok(())
    }

    /// Closes the socket.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub fn udp_close(&mut self, id: UdpId) -> Result<(), Error> {
        self.stack.udp.remove(id, &mut self.stack.ready)
    }

    /// Sends a datagram. ICMP errors about earlier ones are told by [`Active::udp_receive`] alone.
    ///
    /// # Errors
    /// [`Error::TooLong`] for more than 65,507 bytes, [`Error::BadAddress`] for port 0, an address of this host, one of a loopback,
    /// the unspecified one and a group of IPv4, [`Error::NoFrame`] when the pool or the device queue has no room,
    /// [`Error::Unreachable`] where no address of ours can reach that one or no router is known.
    pub fn udp_send(
        &mut self,
        id: UdpId,
        to: impl Into<SocketAddr>,
        payload: &[u8],
    ) -> Result<(), Error> {
        self.udp_send_by(id, None, &to.into(), payload)
    }

    /// Sends a datagram from an address of this host, such as the one that a question came to (RFC 1122, 4.1.3.5).
    ///
    /// # Errors
    /// Those of [`Active::udp_send`], and [`Error::BadAddress`] where `local` is no address of this host or not of the version of `to`.
    pub fn udp_send_from(
        &mut self,
        id: UdpId,
        local: IpAddr,
        to: impl Into<SocketAddr>,
        payload: &[u8],
    ) -> Result<(), Error> {
        self.udp_send_by(id, Some(local), &to.into(), payload)
    }

    #[inline(always)]
    fn udp_send_by(
        &mut self,
        id: UdpId,
        local: Option<IpAddr>,
        to: &SocketAddr,
        payload: &[u8],
    ) -> Result<(), Error> {
        let ends = (local, to);
        self.rec.pass(Gate::SocketOutBegin, UNNUMBERED);
        let rec = self.rec.lend();
        if self
            .stack
            .send_datagram_predicted(self.pool, self.now, rec, id, ends, payload)
        {
            return Ok(());
        }
        self.udp_send_in_general(id, ends, payload)
    }

    #[inline(never)]
    fn udp_send_in_general(
        &mut self,
        id: UdpId,
        (local, to): (Option<IpAddr>, &SocketAddr),
        payload: &[u8],
    ) -> Result<(), Error> {
        if payload.len() > MAX_PAYLOAD {
            return Err(Error::TooLong);
        }
        if to.port() == 0 {
            return Err(Error::BadAddress);
        }
        // An address of IPv4 in IPv6's form is that of IPv4 (RFC 4291, 2.5.5.2).
        match to.ip().to_canonical() {
            IpAddr::V4(ip) => {
                let source = self.stack.source_of_datagram_v4(local, ip)?;
                let to = SocketAddrV4::new(ip, to.port());
                if self.udp_send_v4(id, source, to, payload)? {
                    self.prepare_datagrams_v4(id, (local, source), to);
                }
            }
            IpAddr::V6(ip) => {
                let source = self.stack.source_of_datagram_v6(local, ip)?;
                let to = (ip, to.port());
                if self.udp_send_v6(id, source, to, payload)? {
                    self.prepare_datagrams_v6(id, (local, source), to);
                }
            }
        }
        Ok(())
    }

    /// Sends a datagram over IPv4; says whether the socket remembers one to the same destination.
    fn udp_send_v4(
        &mut self,
        id: UdpId,
        source: Ipv4Addr,
        to: SocketAddrV4,
        payload: &[u8],
    ) -> Result<bool, Error> {
        let socket = self.stack.udp.get(id)?;
        let (port, wish) = (socket.port, socket.checksums);
        let again = socket.sends(to.into(), self.now);
        // A CRC does not cover how fragments are put together (RFC 4963).
        let len = ipv4::HEADER_LEN + udp::HEADER_LEN + payload.len();
        let is_whole = len <= usize::from(self.stack.mtu);
        let may_leave_out = is_whole || wish != SocketChecksums::Policy;
        let no_checksum = may_leave_out && self.leaves_checksum_out(wish, *to.ip());
        if self.udp_send_summed((source, port), to, payload, !no_checksum) {
            Ok(again)
        } else {
            Err(Error::NoFrame)
        }
    }

    /// Tells whether a datagram that is sent whole has no checksum.
    fn leaves_checksum_out(&mut self, wish: SocketChecksums, to: Ipv4Addr) -> bool {
        match wish {
            SocketChecksums::Policy => self.is_redundant(to),
            SocketChecksums::Keep => false,
            SocketChecksums::LeaveOut => true,
        }
    }

    /// Sends a datagram from any address and port, with a checksum; says whether it was sent or waits for its neighbour.
    pub(crate) fn udp_send_as(
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

    /// Sends a datagram over IPv6, where the checksum is compulsory (RFC 8200, 8.1); says whether the socket remembers one to the same
    /// destination.
    fn udp_send_v6(
        &mut self,
        id: UdpId,
        source: Ipv6Addr,
        to: (Ipv6Addr, u16),
        payload: &[u8],
    ) -> Result<bool, Error> {
        let socket = self.stack.udp.get(id)?;
        let port = socket.port;
        let again = socket.sends(to.into(), self.now);
        let len = udp::HEADER_LEN + payload.len();
        let mut header = udp::Header {
            source_port: port,
            destination_port: to.1,
            len: len as u16,
            no_checksum: false,
        }
        .to_bytes();
        let ahead = ipv6::pseudo_header(source, to.0, ipv6::protocol::UDP, len as u32)
            + sum_header(&header);
        let kernel = self.stack.compiled.kernel;
        let ends = (source, to.0);
        let flow = (ends, self.flow_label(ends, (port, to.1)));
        let sent = if len <= self.ipv6_payload_limit(ends) {
            self.ipv6_output_whole(ipv6::protocol::UDP, flow, len, |body| {
                let (head, room) = body.split_at_mut(udp::HEADER_LEN);
                let sum = ahead + kernel.copy_and_sum(room, payload);
                header[6..8].copy_from_slice(&checksum(sum));
                head.copy_from_slice(&header);
            })
        } else {
            header[6..8].copy_from_slice(&checksum(ahead + kernel.sum(payload)));
            self.ipv6_output(ipv6::protocol::UDP, flow, [&header, payload])
        };
        if sent {
            Ok(again)
        } else {
            Err(self.reason_not_sent(to.0.into()))
        }
    }

    /// Takes the next datagram: who sent it, and its bytes.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is none, and, once, [`Error::Refused`] or [`Error::Unreachable`] when an ICMP error
    /// came about a datagram that this socket has sent in the last minute, to one of the 8 destinations that it sent to
    /// last, or no neighbour answered that it was for (RFC 1122, 4.1.3.3).
    pub fn udp_receive(&mut self, id: UdpId) -> Result<(SocketAddr, Vec<u8>), Error> {
        let (ends, datagram) = self.stack.udp.take(id)?;
        Ok((ends.remote, datagram))
    }

    /// Takes the next datagram: its ends, and its bytes. [`Active::udp_send_from`] answers from the address that was asked.
    ///
    /// # Errors
    /// Those of [`Active::udp_receive`].
    pub fn udp_receive_ends(&mut self, id: UdpId) -> Result<(DatagramEnds, Vec<u8>), Error> {
        self.stack.udp.take(id)
    }

    /// Takes the next datagram into `into`, which costs no memory: who sent it, and how many bytes it had. Those for which `into` has no
    /// room are lost.
    ///
    /// # Errors
    /// Those of [`Active::udp_receive`].
    pub fn udp_receive_into(
        &mut self,
        id: UdpId,
        into: &mut [u8],
    ) -> Result<(SocketAddr, usize), Error> {
        let (ends, len) = self.udp_receive_ends_into(id, into)?;
        Ok((ends.remote, len))
    }

    /// Takes the next datagram into `into`, as [`Active::udp_receive_into`] does: its ends, and how many bytes it had.
    ///
    /// # Errors
    /// Those of [`Active::udp_receive`].
    #[inline]
    pub fn udp_receive_ends_into(
        &mut self,
        id: UdpId,
        into: &mut [u8],
    ) -> Result<(DatagramEnds, usize), Error> {
        let (ends, datagram) = self.stack.udp.take(id)?;
        let len = datagram.len();
        let taken = len.min(into.len());
        into[..taken].copy_from_slice(&datagram[..taken]);
        self.stack.udp.give_back(datagram);
        Ok((ends, len))
    }

    /// Polls with the reader's buffer posted: a datagram that comes while none waits is copied straight from its frame into `into`, in the
    /// pass that verifies its checksum. Then takes the next datagram: its ends, and how many bytes it had. Those for which `into`
    /// has no room are lost. What lies in `into` behind the datagram is undefined. An error that comes with a datagram is told by
    /// the next call.
    ///
    /// # Errors
    /// Those of [`Active::udp_receive`].
    #[inline(always)]
    pub fn udp_poll_receive<L: Link>(
        &mut self,
        link: &mut L,
        id: UdpId,
        into: &mut [u8],
    ) -> Result<(DatagramEnds, usize), Error> {
        if self.stack.udp.get(id)?.has_nothing() {
            let mut posted = Posted::by_datagram_socket(id.index, into);
            self.poll_once(link, &mut posted);
            if posted.has_datagram() {
                return Ok((self.stack.udp.posted, posted.filled));
            }
        } else {
            cold_path();
            self.poll(link);
        }
        self.udp_receive_ends_into(id, into)
    }

    /// Takes a datagram that was put together; `quote` is what an error about it quotes, where its sender is to be told of one.
    pub(crate) fn udp_input(&mut self, ip: &ipv4::Header, bytes: &[u8], quote: Option<&Quote>) {
        let together = bytes_together(self.pool);
        let taken = self
            .stack
            .udp_take(Packet::of_v4(ip), bytes, false, together);
        if taken == Taken::NoSocket
            && let Some(quote) = quote
        {
            let reason = Message::DestinationUnreachable(Unreachable::Port);
            self.icmp_error(ip, quote, reason);
        }
    }

    /// Takes a datagram out of a frame, where it begins at `at`.
    pub(crate) fn udp_input_frame(
        &mut self,
        ip: &ipv4::Header,
        frame: Frame,
        at: usize,
        unicast: bool,
    ) {
        let together = bytes_together(self.pool);
        let verified = frame.checksum.is_verified();
        let bytes = &self.pool.frame(&frame)[at..at + ip.payload_len()];
        let taken = self
            .stack
            .udp_take(Packet::of_v4(ip), bytes, verified, together);
        if taken == Taken::NoSocket && unicast {
            let quote = self.quote(ip, &frame);
            let reason = Message::DestinationUnreachable(Unreachable::Port);
            self.icmp_error(ip, &quote, reason);
        }
        self.pool.release(frame.id);
    }

    /// Takes a datagram over IPv6 that was put together; says whether a socket is at its port.
    pub(crate) fn udp_input_v6(&mut self, ip: &ipv6::Header, bytes: &[u8]) -> bool {
        let together = bytes_together(self.pool);
        let packet = Packet::of_v6(ip);
        self.stack.udp_take(packet, bytes, false, together) != Taken::NoSocket
    }

    /// Takes a datagram over IPv6 out of a frame, where it begins at `at` and has at most `len` bytes; says whether a socket is at its port.
    pub(crate) fn udp_input_frame_v6(
        &mut self,
        ip: &ipv6::Header,
        frame: &Frame,
        (at, len): (usize, usize),
    ) -> bool {
        let together = bytes_together(self.pool);
        let verified = frame.checksum.is_verified();
        let bytes = &self.pool.frame(frame)[at..at + len];
        self.stack
            .udp_take(Packet::of_v6(ip), bytes, verified, together)
            != Taken::NoSocket
    }

    /// RFC 1122, 4.1.3.3: an ICMP error is passed to the socket that sent the datagram. That it did is looked at: the quoted
    /// ports are easily guessed.
    pub(crate) fn error_for_udp(&mut self, trouble: Trouble, remote: (IpAddr, u16), local: u16) {
        let error = match trouble {
            Trouble::Refused(SoftError::Unreachable(Unreachable::Port)) => Error::Refused,
            Trouble::Refused(_) | Trouble::Soft(_) | Trouble::TooBig(_) => Error::Unreachable,
        };
        let remote = SocketAddr::new(remote.0, remote.1);
        if !self.udp_fails((local, remote), error) {
            self.stack.counters.dropped(Drop::IcmpImplausible);
        }
    }

    /// Something is wrong with a datagram from this port: its socket is told. Says whether it has sent there lately.
    fn udp_fails(&mut self, (local, remote): (u16, SocketAddr), error: Error) -> bool {
        let stack = &mut *self.stack;
        stack
            .udp
            .fails((local, remote), self.now, error, &mut stack.ready)
    }

    /// The neighbour that a frame waits for does not answer: the socket that sent the datagram in it is told (RFC 1122, 2.3.2.2 and
    /// 4.1.3.3; RFC 4861, 7.2.2).
    pub(crate) fn neighbour_is_missing(&mut self, frame: &Frame) {
        if let Some(ends) = ends_of_datagram(self.pool.frame(frame)) {
            // Where its socket does not remember it, it has sent to many others since.
            let _ = self.udp_fails(ends, Error::Unreachable);
        }
    }
}

/// Bytes that the queues of all sockets may be charged.
#[inline(always)]
fn bytes_together(pool: &Pool) -> usize {
    pool.capacity() * pool.frame_size() / 4
}

/// Our port and the remote end of the datagram that begins in a frame of ours.
fn ends_of_datagram(frame: &[u8]) -> Option<(u16, SocketAddr)> {
    let link = ethernet::Header::parse(frame).ok()?;
    let packet = frame.get(ethernet::HEADER_LEN..)?;
    let (to, datagram): (IpAddr, &[u8]) = match link.ethertype {
        EtherType::Ipv4 => {
            let header = ipv4::Header::parse(packet).ok()?;
            if header.protocol != ipv4::protocol::UDP || header.fragment_offset() != 0 {
                return None;
            }
            let at = usize::from(header.header_len);
            (header.destination.into(), packet.get(at..)?)
        }
        EtherType::Ipv6 => {
            let header = ipv6::Header::parse(packet).ok()?;
            let rest = packet.get(ipv6::HEADER_LEN..)?;
            let chain = follow(header.next_header, rest, false).ok()?;
            let is_first = chain.fragment.is_none_or(|fragment| fragment.offset == 0);
            if chain.protocol != ipv6::protocol::UDP || !is_first {
                return None;
            }
            (header.destination.into(), rest.get(chain.offset..)?)
        }
        EtherType::Arp | EtherType::Other(_) => return None,
    };
    let [a, b, c, d] = *datagram.first_chunk::<4>()?;
    let remote = SocketAddr::new(to, u16::from_be_bytes([c, d]));
    Some((u16::from_be_bytes([a, b]), remote))
}
