//! UDP (RFC 768, RFC 1122 4.1).

use crate::counters::Drop;
use crate::socket::Error;
use crate::stack::Active;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use tollgate_checksum::sum_header;
use tollgate_gate::Recorder;
use tollgate_wire::icmp::{Message, Unreachable};
use tollgate_wire::{ipv4, udp};

/// Octets that a socket holds for its reader.
const QUEUE_OCTETS: usize = 256 * 1024;
/// The longest payload: what an IP datagram holds beside both headers.
const MAX_PAYLOAD: usize = 65_535 - 20 - udp::HEADER_LEN;

/// A UDP socket's handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpId {
    index: u32,
    generation: u16,
}

#[derive(Debug)]
pub(crate) struct UdpSocket {
    port: u16,
    generation: u16,
    queue: VecDeque<(SocketAddrV4, Vec<u8>)>,
    queued: usize,
    error: Option<Error>,
}

impl<R: Recorder> Active<'_, R> {
    /// Opens a UDP socket on `port`, or on a free port when it is 0.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NoPort`].
    pub fn udp_bind(&mut self, port: u16) -> Result<UdpId, Error> {
        let taken =
            |stack: &crate::Stack, port: u16| stack.udp.iter().flatten().any(|s| s.port == port);
        let port = match port {
            0 => (49_152..=65_535)
                .find(|&p| !taken(self.stack, p))
                .ok_or(Error::NoPort)?,
            port if taken(self.stack, port) => return Err(Error::InUse),
            port => port,
        };
        self.stack.udp_generation = self.stack.udp_generation.wrapping_add(1);
        let generation = self.stack.udp_generation;
        let socket = UdpSocket {
            port,
            generation,
            queue: VecDeque::new(),
            queued: 0,
            error: None,
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

    /// Closes the socket.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub fn udp_close(&mut self, id: UdpId) -> Result<(), Error> {
        self.udp_socket(id)?;
        self.stack.udp[id.index as usize] = None;
        Ok(())
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// An ICMP error that came for an earlier datagram (once), [`Error::TooLong`] for more than 65,507 octets,
    /// [`Error::BadAddress`] for port 0, [`Error::NoFrame`] when the pool or the device queue has no room.
    pub fn udp_send(&mut self, id: UdpId, to: SocketAddrV4, payload: &[u8]) -> Result<(), Error> {
        let socket = self.udp_socket(id)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let port = socket.port;
        if payload.len() > MAX_PAYLOAD {
            return Err(Error::TooLong);
        }
        if to.port() == 0 {
            return Err(Error::BadAddress);
        }
        let len = (udp::HEADER_LEN + payload.len()) as u16;
        let mut header = udp::Header {
            source_port: port,
            destination_port: to.port(),
            len,
            no_checksum: false,
        }
        .to_bytes();
        let ends = (self.stack.config.ip, *to.ip());
        let sum = ipv4::pseudo_header(ends.0, ends.1, ipv4::protocol::UDP, len)
            + sum_header(&header)
            + self.stack.kernel.sum(payload);
        // A checksum of zero is sent as all ones: zero says that there is none.
        let checksum = match sum.finish().to_ne_bytes() {
            [0, 0] => [0xff, 0xff],
            octets => octets,
        };
        header[6..8].copy_from_slice(&checksum);
        let sent = self.ip_output(ipv4::protocol::UDP, ends, [&header, payload]);
        if sent { Ok(()) } else { Err(Error::NoFrame) }
    }

    /// Takes the next datagram: who sent it, and its octets.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is none, an ICMP error that came for a datagram of ours (once).
    pub fn udp_receive(&mut self, id: UdpId) -> Result<(SocketAddrV4, Vec<u8>), Error> {
        let socket = self.udp_socket(id)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let (from, octets) = socket.queue.pop_front().ok_or(Error::WouldBlock)?;
        socket.queued -= octets.len();
        Ok((from, octets))
    }

    pub(crate) fn udp_input(&mut self, ip: &ipv4::Header, octets: &[u8], unicast: bool) {
        let Ok(header) = udp::Header::parse(octets) else {
            self.stack.counters.dropped(Drop::Malformed);
            return;
        };
        let datagram = &octets[..usize::from(header.len)];
        if !header.no_checksum {
            let pseudo =
                ipv4::pseudo_header(ip.source, ip.destination, ipv4::protocol::UDP, header.len);
            if !(pseudo + self.stack.kernel.sum(datagram)).is_valid() {
                self.stack.counters.dropped(Drop::Checksum);
                return;
            }
        }
        let Some(socket) = self
            .stack
            .udp
            .iter_mut()
            .flatten()
            .find(|s| s.port == header.destination_port)
        else {
            self.stack.counters.dropped(Drop::NoSocket);
            if unicast {
                self.icmp_error(
                    ip,
                    octets,
                    Message::DestinationUnreachable(Unreachable::Port),
                );
            }
            return;
        };
        let payload = &datagram[udp::HEADER_LEN..];
        if socket.queued + payload.len() > QUEUE_OCTETS {
            self.stack.counters.dropped(Drop::QueueFull);
            return;
        }
        socket.queued += payload.len();
        socket.queue.push_back((
            SocketAddrV4::new(ip.source, header.source_port),
            payload.to_vec(),
        ));
    }

    /// RFC 1122, 4.1.3.3: an ICMP error is passed to the socket that sent the datagram.
    pub(crate) fn error_for_udp(&mut self, message: Message, remote: (Ipv4Addr, u16), local: u16) {
        let error = match message {
            Message::DestinationUnreachable(Unreachable::Port) => Error::Refused,
            Message::DestinationUnreachable(_) => Error::Unreachable,
            _ => return,
        };
        let _ = remote;
        if let Some(socket) = self
            .stack
            .udp
            .iter_mut()
            .flatten()
            .find(|s| s.port == local)
        {
            socket.error = Some(error);
        }
    }
}
