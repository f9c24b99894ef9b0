//! The UDP sockets of a stack, found by port, and the datagrams that wait for their readers.
//!
//! It owns the queues and what they may hold (see [Bounds](super#bounds)). It never sees a header.

use crate::socket::Error;
use crate::tcp::slow::redundancy::SocketChecksums;
use crate::time::Instant;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

/// Bytes of memory that a socket's queue may take.
const QUEUE_BYTES: usize = 256 * 1024;
/// Bytes of memory that a datagram takes beside its payload: an entry of a queue that has grown to twice its need, and
/// what an allocator adds to a block in header and rounding.
const OVERHEAD: usize = 2 * size_of::<Queued>() + 32;
/// Destinations about which a socket believes ICMP errors: those that it sent to last.
const DESTINATIONS: usize = 8;
/// Time for which a destination is remembered. Errors take a round trip, or the time of a router's questions.
const LATELY: Duration = Duration::from_secs(60);
/// Buffers that are kept to be used again, and bytes that each may have: what a link of the usual MTU carries.
const SPARE: usize = 8;
const SPARE_BYTES: usize = 2048;

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
    pub(super) port: u16,
    generation: u32,
    queue: VecDeque<Queued>,
    /// Bytes that the queue is charged.
    charged: usize,
    pub(super) checksums: SocketChecksums,
    /// The latest error about a datagram, until the application takes it.
    pub(super) error: Option<Error>,
    /// The last destinations and the times of their last datagrams; the next place to be written.
    destinations: [Option<(SocketAddr, Instant)>; DESTINATIONS],
    next_destination: usize,
}

impl UdpSocket {
    /// Remembers that a datagram goes to `to`.
    pub(super) fn sends(&mut self, to: SocketAddr, now: Instant) {
        let known = self.destinations.iter_mut().flatten();
        if let Some((_, last)) = known.into_iter().find(|(known, _)| *known == to) {
            *last = now;
            return;
        }
        self.destinations[self.next_destination] = Some((to, now));
        self.next_destination = (self.next_destination + 1) % DESTINATIONS;
    }

    /// Tells whether a datagram went to `to` lately.
    pub(super) fn has_sent(&self, to: SocketAddr, now: Instant) -> bool {
        let mut known = self.destinations.iter().flatten();
        known.any(|&(known, last)| known == to && now - last <= LATELY)
    }
}

/// Bytes that a datagram with this payload is charged.
const fn charge(payload: usize) -> usize {
    payload + OVERHEAD
}

/// Room of the socket on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is some, in the socket of this slot.
    Free(u32),
    Full,
    NoSocket,
}

/// Every socket of a stack.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    slots: Vec<Option<UdpSocket>>,
    /// Ports in their order, and the slots of their sockets.
    ports: Vec<(u16, u32)>,
    generation: u32,
    /// Bytes that all queues are charged.
    charged: usize,
    /// Buffers for datagrams that come, as long as they were when they were used last.
    spare: Vec<Vec<u8>>,
}

impl Sockets {
    pub(super) fn is_taken(&self, port: u16) -> bool {
        self.place_of(port).is_ok()
    }

    fn place_of(&self, port: u16) -> Result<usize, usize> {
        self.ports.binary_search_by_key(&port, |&(port, _)| port)
    }

    /// Makes a socket on a port.
    ///
    /// # Errors
    /// [`Error::InUse`].
    pub(super) fn add(&mut self, port: u16) -> Result<UdpId, Error> {
        let Err(place) = self.place_of(port) else {
            return Err(Error::InUse);
        };
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
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
        let index = match self.slots.iter().position(Option::is_none) {
            Some(free) => {
                self.slots[free] = Some(socket);
                free
            }
            None => {
                self.slots.push(Some(socket));
                self.slots.len() - 1
            }
        } as u32;
        self.ports.insert(place, (port, index));
        Ok(UdpId { index, generation })
    }

    /// Takes a socket away, with what waits for it.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub(super) fn remove(&mut self, id: UdpId) -> Result<(), Error> {
        let socket = self.get(id)?;
        let (port, charged) = (socket.port, socket.charged);
        self.charged -= charged;
        self.slots[id.index as usize] = None;
        if let Ok(place) = self.place_of(port) {
            self.ports.remove(place);
        }
        Ok(())
    }

    /// The socket of a handle.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    #[inline]
    pub(super) fn get(&mut self, id: UdpId) -> Result<&mut UdpSocket, Error> {
        match self.slots.get_mut(id.index as usize) {
            Some(Some(socket)) if socket.generation == id.generation => Ok(socket),
            _ => Err(Error::NotConnected),
        }
    }

    /// The socket on a port.
    #[inline]
    pub(super) fn at(&mut self, port: u16) -> Option<&mut UdpSocket> {
        let (_, index) = self.ports[self.place_of(port).ok()?];
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// Finds the socket on a port for a datagram of so many bytes, where all queues together may be charged `together`. An empty queue
    /// takes one in any case.
    #[inline]
    pub(super) fn room_for(&mut self, port: u16, len: usize, together: usize) -> Room {
        let Ok(place) = self.place_of(port) else {
            return Room::NoSocket;
        };
        let (_, slot) = self.ports[place];
        let Some(Some(socket)) = self.slots.get(slot as usize) else {
            return Room::NoSocket;
        };
        let fits =
            socket.charged + charge(len) <= QUEUE_BYTES && self.charged + charge(len) <= together;
        if fits || socket.queue.is_empty() {
            Room::Free(slot)
        } else {
            Room::Full
        }
    }

    /// A buffer of so many bytes, with anything in it.
    #[inline]
    pub(super) fn buffer(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.resize(len, 0);
        buffer
    }

    /// Takes a buffer back.
    #[inline]
    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE && buffer.capacity() <= SPARE_BYTES {
            self.spare.push(buffer);
        }
    }

    /// Queues a datagram for the socket of a slot, which has room.
    #[inline]
    pub(super) fn queue(&mut self, slot: u32, from: SocketAddr, datagram: Vec<u8>) {
        let charge = charge(datagram.len());
        let Some(Some(socket)) = self.slots.get_mut(slot as usize) else {
            return;
        };
        socket.charged += charge;
        socket.queue.push_back((from, datagram));
        self.charged += charge;
    }

    /// Takes the datagram that is next, or the error that has come.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is none, and errors about earlier datagrams, once.
    #[inline]
    pub(super) fn take(&mut self, id: UdpId) -> Result<Queued, Error> {
        let socket = self.get(id)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let (from, datagram) = socket.queue.pop_front().ok_or(Error::WouldBlock)?;
        let charge = charge(datagram.len());
        socket.charged -= charge;
        self.charged -= charge;
        Ok((from, datagram))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, SocketAddrV4};

    const FROM: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 9));

    #[test]
    fn sockets_are_found_by_port_and_handles_go_stale() {
        let mut sockets = Sockets::default();
        let ids: Vec<UdpId> = [700, 5, 90]
            .into_iter()
            .map(|port| sockets.add(port).unwrap())
            .collect();
        assert_eq!(sockets.add(5), Err(Error::InUse));
        for port in [5, 90, 700] {
            assert_eq!(sockets.at(port).unwrap().port, port);
        }
        assert!(sockets.at(6).is_none());
        sockets.remove(ids[1]).unwrap();
        assert!(sockets.at(5).is_none() && !sockets.is_taken(5));
        assert_eq!(sockets.remove(ids[1]), Err(Error::NotConnected));
        let again = sockets.add(6).unwrap();
        // Its slot is that of the one before it, which the old handle does not open.
        assert_eq!(again.index, ids[1].index);
        assert_eq!(sockets.get(ids[1]).unwrap_err(), Error::NotConnected);
        assert_eq!(sockets.at(700).unwrap().port, 700);
    }

    #[test]
    fn buffers_are_used_again_within_their_bounds() {
        let mut sockets = Sockets::default();
        let id = sockets.add(5).unwrap();
        let mut buffer = sockets.buffer(1_400);
        buffer.fill(7);
        let place = buffer.as_ptr();
        sockets.queue(id.index, FROM, buffer);
        let (from, buffer) = sockets.take(id).unwrap();
        assert_eq!((from, buffer.len(), sockets.charged), (FROM, 1_400, 0));
        sockets.give_back(buffer);
        let again = sockets.buffer(4);
        assert_eq!((again.as_ptr(), again.len()), (place, 4));
        sockets.give_back(Vec::with_capacity(SPARE_BYTES + 1));
        assert!(sockets.spare.is_empty());
        for _ in 0..2 * SPARE {
            sockets.give_back(Vec::with_capacity(8));
        }
        assert_eq!(sockets.spare.len(), SPARE);
    }

    #[test]
    fn queues_take_what_their_bounds_allow_and_one_in_any_case() {
        let mut sockets = Sockets::default();
        let (full, other) = (sockets.add(5).unwrap(), sockets.add(6).unwrap());
        assert_eq!(sockets.room_for(7, 1, usize::MAX), Room::NoSocket);
        assert_eq!(sockets.room_for(5, 60_000, 10), Room::Free(full.index));
        let mut count = 0;
        while let Room::Free(slot) = sockets.room_for(5, 1_000, usize::MAX) {
            let buffer = sockets.buffer(1_000);
            sockets.queue(slot, FROM, buffer);
            count += 1;
        }
        assert_eq!(count, QUEUE_BYTES / charge(1_000));
        assert_eq!(sockets.room_for(5, 1_000, usize::MAX), Room::Full);
        assert_eq!(sockets.room_for(6, 1_000, 10), Room::Free(other.index));
        sockets.remove(full).unwrap();
        assert_eq!(sockets.charged, 0);
        assert_eq!(sockets.take(other), Err(Error::WouldBlock));
    }
}
