//! The UDP sockets of a stack, found by port, and the datagrams that wait for their readers.
//!
//! It owns the queues and what they may hold (see [Bounds](super#bounds)). It never sees a header.

use crate::ready::Entry;
use crate::socket::{Error, Event};
use crate::tcp::slow::redundancy::SocketChecksums;
use crate::time::Instant;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
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

/// Ends of a datagram that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramEnds {
    /// Address and port of the sender.
    pub remote: SocketAddr,
    /// The address of this host that it was sent to. For one that was sent to several hosts, the address from which the sender is
    /// answered, unspecified where there is none (RFC 1122, 4.1.3.5).
    pub local: IpAddr,
}

/// A datagram and its ends.
type Queued = (DatagramEnds, Vec<u8>);

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
    /// The number that its events carry.
    pub(super) token: u64,
    /// It stands in the list of those with events, or never does.
    pub(super) listed: bool,
    /// The latest error about a datagram, until the application takes it.
    error: Option<Error>,
    /// The last destinations and the times of their last datagrams; the next place to be written.
    destinations: [Option<(SocketAddr, Instant)>; DESTINATIONS],
    next_destination: usize,
}

impl UdpSocket {
    /// Has something to tell: joins the list of those with events.
    #[inline]
    fn list(&mut self, slot: u32, ready: &mut VecDeque<Entry>) {
        if !self.listed {
            self.listed = true;
            ready.push_back(Entry::datagrams(slot));
        }
    }

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
    fn has_sent(&self, to: SocketAddr, now: Instant) -> bool {
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
    pub(crate) fn is_taken(&self, port: u16) -> bool {
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
            token: 0,
            listed: false,
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

    /// Takes a socket away, with what waits for it, also in the list of those with events.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the handle is stale.
    pub(super) fn remove(&mut self, id: UdpId, ready: &mut VecDeque<Entry>) -> Result<(), Error> {
        let socket = self.get(id)?;
        let (port, charged) = (socket.port, socket.charged);
        if socket.listed {
            ready.retain(|&entry| entry != Entry::datagrams(id.index));
        }
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

    /// The socket on a port, and its slot.
    fn at(&mut self, port: u16) -> Option<(u32, &mut UdpSocket)> {
        let (_, slot) = self.ports[self.place_of(port).ok()?];
        Some((slot, self.slots.get_mut(slot as usize)?.as_mut()?))
    }

    /// Something is wrong with a datagram from this port to `to`: the socket is to tell `error`, if it has sent there lately. Says whether
    /// it has.
    pub(super) fn fails(
        &mut self,
        (port, to): (u16, SocketAddr),
        now: Instant,
        error: Error,
        ready: &mut VecDeque<Entry>,
    ) -> bool {
        let Some((slot, socket)) = self.at(port) else {
            return false;
        };
        if !socket.has_sent(to, now) {
            return false;
        }
        socket.error = Some(error);
        socket.list(slot, ready);
        true
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

    /// Queues a datagram for the socket of a slot, which has room. One that nothing was in joins the list of those with events.
    #[inline]
    pub(super) fn queue(
        &mut self,
        slot: u32,
        (ends, datagram): Queued,
        ready: &mut VecDeque<Entry>,
    ) {
        let charge = charge(datagram.len());
        let Some(Some(socket)) = self.slots.get_mut(slot as usize) else {
            return;
        };
        socket.list(slot, ready);
        socket.charged += charge;
        socket.queue.push_back((ends, datagram));
        self.charged += charge;
    }

    /// The event of a socket that stood in the list of those with events, if there still is something to tell.
    #[cold]
    pub(crate) fn event(&mut self, slot: u32) -> Option<Event> {
        let socket = self.slots.get_mut(slot as usize)?.as_mut()?;
        socket.listed = false;
        let has_something = !socket.queue.is_empty() || socket.error.is_some();
        has_something.then_some(Event::Datagrams {
            socket: UdpId {
                index: slot,
                generation: socket.generation,
            },
            token: socket.token,
        })
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
        let (ends, datagram) = socket.queue.pop_front().ok_or(Error::WouldBlock)?;
        let charge = charge(datagram.len());
        socket.charged -= charge;
        self.charged -= charge;
        Ok((ends, datagram))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use core::net::{Ipv4Addr, SocketAddrV4};

    const FROM: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 9));
    const ENDS: DatagramEnds = DatagramEnds {
        remote: FROM,
        local: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
    };

    #[test]
    fn sockets_are_found_by_port_and_handles_go_stale() {
        let (mut sockets, mut ready) = (Sockets::default(), VecDeque::new());
        let ids: Vec<UdpId> = [700, 5, 90]
            .into_iter()
            .map(|port| sockets.add(port).unwrap())
            .collect();
        assert_eq!(sockets.add(5), Err(Error::InUse));
        for port in [5, 90, 700] {
            assert_eq!(sockets.at(port).unwrap().1.port, port);
        }
        assert!(sockets.at(6).is_none());
        sockets.remove(ids[1], &mut ready).unwrap();
        assert!(sockets.at(5).is_none() && !sockets.is_taken(5));
        let again = sockets.remove(ids[1], &mut ready);
        assert_eq!(again, Err(Error::NotConnected));
        let again = sockets.add(6).unwrap();
        // Its slot is that of the one before it, which the old handle does not open.
        assert_eq!(again.index, ids[1].index);
        assert_eq!(sockets.get(ids[1]).unwrap_err(), Error::NotConnected);
        assert_eq!(sockets.at(700).unwrap().1.port, 700);
    }

    #[test]
    fn buffers_are_used_again_within_their_bounds() {
        let mut sockets = Sockets::default();
        let id = sockets.add(5).unwrap();
        let mut buffer = sockets.buffer(1_400);
        buffer.fill(7);
        let place = buffer.as_ptr();
        sockets.queue(id.index, (ENDS, buffer), &mut VecDeque::new());
        let (ends, buffer) = sockets.take(id).unwrap();
        assert_eq!((ends, buffer.len(), sockets.charged), (ENDS, 1_400, 0));
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
    fn sockets_stand_in_the_list_once_and_tell_while_they_have_something() {
        let (mut sockets, mut ready) = (Sockets::default(), VecDeque::new());
        let id = sockets.add(5).unwrap();
        sockets.get(id).unwrap().token = 42;
        for _ in 0..3 {
            sockets.queue(id.index, (ENDS, vec![1]), &mut ready);
        }
        assert_eq!(ready, [Entry::datagrams(id.index)]);
        let told = Some(Event::Datagrams {
            socket: id,
            token: 42,
        });
        ready.clear();
        assert_eq!(sockets.event(id.index), told);
        // What comes after it was told is told again, unless it is taken before.
        sockets.queue(id.index, (ENDS, vec![2]), &mut ready);
        assert_eq!(ready.len(), 1);
        while sockets.take(id).is_ok() {}
        ready.clear();
        assert_eq!(sockets.event(id.index), None);
        // An error counts, one that is for nobody does not.
        let (now, other) = (Instant::ZERO, SocketAddr::new(FROM.ip(), 10));
        sockets.get(id).unwrap().sends(FROM, now);
        assert!(!sockets.fails((5, other), now, Error::Refused, &mut ready));
        assert!(ready.is_empty());
        assert!(sockets.fails((5, FROM), now, Error::Refused, &mut ready));
        assert_eq!(ready, [Entry::datagrams(id.index)]);
        // A socket leaves nothing behind for the next one in its slot.
        sockets.remove(id, &mut ready).unwrap();
        assert!(ready.is_empty());
        assert_eq!(sockets.event(id.index), None);
    }

    #[test]
    fn queues_take_what_their_bounds_allow_and_one_in_any_case() {
        let (mut sockets, mut ready) = (Sockets::default(), VecDeque::new());
        let (full, other) = (sockets.add(5).unwrap(), sockets.add(6).unwrap());
        assert_eq!(sockets.room_for(7, 1, usize::MAX), Room::NoSocket);
        assert_eq!(sockets.room_for(5, 60_000, 10), Room::Free(full.index));
        let mut count = 0;
        while let Room::Free(slot) = sockets.room_for(5, 1_000, usize::MAX) {
            let buffer = sockets.buffer(1_000);
            sockets.queue(slot, (ENDS, buffer), &mut ready);
            count += 1;
        }
        assert_eq!(count, QUEUE_BYTES / charge(1_000));
        assert_eq!(sockets.room_for(5, 1_000, usize::MAX), Room::Full);
        assert_eq!(sockets.room_for(6, 1_000, 10), Room::Free(other.index));
        sockets.remove(full, &mut ready).unwrap();
        assert_eq!(sockets.charged, 0);
        assert_eq!(sockets.take(other), Err(Error::WouldBlock));
    }
}
