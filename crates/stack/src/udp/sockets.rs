//! The UDP sockets of a stack, found by port, and the datagrams that wait for their readers.
//!
//! It owns the queues and what they may hold (see [Bounds](super#bounds)). It never sees a header.

use super::predicted::Flow;
use super::template::Template;
use crate::ready::Entry;
use crate::socket::{Error, Event};
use crate::tcp::slow::redundancy::SocketChecksums;
use crate::time::Instant;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::hint::cold_path;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use tollgate_checksum::{Accumulator, Kernel};

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
    pub(super) index: u32,
    generation: u32,
}

/// A destination that a socket sends to.
#[derive(Debug)]
pub(super) struct Destination {
    to: SocketAddr,
    /// When a datagram was sent there last.
    pub(super) last: Instant,
    pub(super) template: Template,
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
    /// The last destinations, [`DESTINATIONS`] at most, the one that was sent to last first.
    destinations: Vec<Destination>,
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

    /// A destination that is remembered, which becomes the first.
    #[inline(always)]
    pub(super) fn destination(&mut self, to: &SocketAddr) -> Option<&mut Destination> {
        let is_first = self
            .destinations
            .first()
            .is_some_and(|first| first.to == *to);
        if !is_first {
            cold_path();
            self.bring_to_front(to)?;
        }
        self.destinations.first_mut()
    }

    #[cold]
    #[inline(never)]
    fn bring_to_front(&mut self, to: &SocketAddr) -> Option<()> {
        let at = self.destinations.iter().position(|known| known.to == *to)?;
        self.destinations[..=at].rotate_right(1);
        Some(())
    }

    /// Remembers that a datagram goes to `to`; says whether one went there before.
    pub(super) fn sends(&mut self, to: SocketAddr, now: Instant) -> bool {
        if let Some(known) = self.destination(&to) {
            known.last = now;
            return true;
        }
        self.destinations.truncate(DESTINATIONS - 1);
        let new = Destination {
            to,
            last: now,
            template: Template::NONE,
        };
        self.destinations.insert(0, new);
        false
    }

    /// Forgets the templates of its datagrams.
    pub(super) fn forget_templates(&mut self) {
        for destination in &mut self.destinations {
            destination.template = Template::NONE;
        }
    }

    /// Tells whether a datagram went to `to` lately.
    fn has_sent(&self, to: SocketAddr, now: Instant) -> bool {
        let mut known = self.destinations.iter();
        known.any(|known| known.to == to && now - known.last <= LATELY)
    }

    /// Tells whether nothing is there for a reader, neither a datagram nor an error.
    #[inline]
    pub(super) fn has_nothing(&self) -> bool {
        self.queue.is_empty() && self.error.is_none()
    }
}

/// Bytes that a datagram with this payload is charged.
const fn charge(payload: usize) -> usize {
    payload + OVERHEAD
}

/// A datagram that has come.
pub(super) struct Arrived<'a> {
    pub(super) ends: DatagramEnds,
    pub(super) payload: &'a [u8],
    /// The sum of pseudo-header and UDP header, where the checksum is to be verified.
    pub(super) ahead: Option<Accumulator>,
    /// Kernel that copies and sums.
    pub(super) kernel: Kernel,
}

impl Arrived<'_> {
    /// Tells whether the checksum is right.
    pub(super) fn is_intact(&self) -> bool {
        let Some(ahead) = self.ahead else {
            return true;
        };
        ahead.add_partial(self.kernel.sum(self.payload)).is_valid()
    }
}

/// Copies payload to room of its length; says whether the checksum is right, where the sum `ahead` of it is given.
#[inline(always)]
pub(super) fn copy_verified(
    room: &mut [u8],
    payload: &[u8],
    ahead: Option<Accumulator>,
    kernel: Kernel,
) -> bool {
    if let Some(ahead) = ahead {
        let sum = kernel.copy_and_accumulate(room, payload);
        ahead.add(sum).is_valid()
    } else {
        room.copy_from_slice(payload);
        true
    }
}

/// Fate of a datagram for a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Enqueued {
    /// It waits for its reader.
    Yes,
    /// Its checksum is wrong.
    Damaged,
    /// There is no room for it.
    Full,
}

/// Every socket of a stack.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// The hosts and the port of the datagram that was predicted last.
    pub(super) flow: Flow,
    /// Tells whether a frame is first taken for a datagram: the last one was predicted to be one.
    pub(crate) first: bool,
    /// Number of the addresses, routes and link addresses that templates are made of, as they are.
    pub(super) version: u32,
    slots: Vec<Option<UdpSocket>>,
    /// Ports in their order, and the slots of their sockets.
    ports: Vec<(u16, u32)>,
    generation: u32,
    /// Bytes that all queues are charged.
    charged: usize,
    /// Buffers for datagrams that come, as long as they were when they were used last.
    spare: Vec<Vec<u8>>,
    /// Ends of the last datagram that went to a posted buffer.
    pub(super) posted: DatagramEnds,
}

impl Default for Sockets {
    fn default() -> Self {
        Self {
            flow: Flow::NONE,
            first: false,
            version: 0,
            slots: Vec::new(),
            ports: Vec::new(),
            generation: 0,
            charged: 0,
            spare: Vec::new(),
            posted: DatagramEnds {
                remote: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
                local: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            },
        }
    }
}

impl Sockets {
    /// Addresses, routes or link addresses have changed: neither the flow nor a template stands for what it was made of.
    pub(crate) fn forget(&mut self) {
        self.flow = Flow::NONE;
        self.version = self.version.wrapping_add(1);
    }

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
            destinations: Vec::new(),
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
        self.flow = Flow::NONE;
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

    /// The slot of the socket on a port.
    pub(super) fn slot_at(&self, port: u16) -> Option<u32> {
        let (_, slot) = self.ports[self.place_of(port).ok()?];
        Some(slot)
    }

    /// Tells whether no datagram waits at the socket of a slot.
    #[inline]
    pub(super) fn is_empty(&self, slot: u32) -> bool {
        let socket = self.slots.get(slot as usize).and_then(Option::as_ref);
        socket.is_none_or(|socket| socket.queue.is_empty())
    }

    /// The socket on a port, and its slot.
    fn at(&mut self, port: u16) -> Option<(u32, &mut UdpSocket)> {
        let slot = self.slot_at(port)?;
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

    /// Queues a datagram for the socket of a slot, where all queues together may be charged `together`, unless it is damaged. An empty
    /// queue takes one in any case. A socket that nothing waited for joins the list of those with events.
    #[inline(never)]
    pub(super) fn enqueue(
        &mut self,
        slot: u32,
        datagram: &Arrived<'_>,
        together: usize,
        ready: &mut VecDeque<Entry>,
    ) -> Enqueued {
        let Some(Some(socket)) = self.slots.get_mut(slot as usize) else {
            cold_path();
            return Enqueued::Full;
        };
        let len = datagram.payload.len();
        let charge = charge(len);
        let fits = socket.charged + charge <= QUEUE_BYTES && self.charged + charge <= together;
        if !fits && !socket.queue.is_empty() {
            cold_path();
            return if datagram.is_intact() {
                Enqueued::Full
            } else {
                Enqueued::Damaged
            };
        }
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.resize(len, 0);
        let Arrived { ahead, kernel, .. } = *datagram;
        if !copy_verified(&mut buffer, datagram.payload, ahead, kernel) {
            cold_path();
            self.give_back(buffer);
            return Enqueued::Damaged;
        }
        socket.list(slot, ready);
        socket.charged += charge;
        self.charged += charge;
        socket.queue.push_back((datagram.ends, buffer));
        Enqueued::Yes
    }

    /// Takes a buffer back.
    #[inline]
    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE && buffer.capacity() <= SPARE_BYTES {
            self.spare.push(buffer);
        }
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
    #[inline(always)]
    pub(super) fn take(&mut self, id: UdpId) -> Result<Queued, Error> {
        let socket = self.get(id)?;
        if let Some(error) = socket.error.take() {
            cold_path();
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

    /// A datagram of so many bytes comes for the socket of a slot.
    fn come(
        sockets: &mut Sockets,
        slot: u32,
        (len, together): (usize, usize),
        ready: &mut VecDeque<Entry>,
    ) -> Enqueued {
        let datagram = Arrived {
            ends: ENDS,
            payload: &vec![7; len],
            ahead: None,
            kernel: Kernel::UNROLLED,
        };
        sockets.enqueue(slot, &datagram, together, ready)
    }

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
    fn the_destinations_that_were_sent_to_last_are_remembered() {
        let (mut sockets, now) = (Sockets::default(), Instant::ZERO);
        let id = sockets.add(5).unwrap();
        let socket = sockets.get(id).unwrap();
        let to = |port| SocketAddr::new(FROM.ip(), port);
        for port in 0..DESTINATIONS as u16 {
            assert!(!socket.sends(to(port), now));
        }
        assert!(socket.sends(to(0), now));
        assert!(!socket.sends(to(99), now));
        let known: Vec<u16> = (0..100)
            .filter(|&port| socket.has_sent(to(port), now))
            .collect();
        assert_eq!(known, [0, 2, 3, 4, 5, 6, 7, 99]);
    }

    #[test]
    fn buffers_are_used_again_within_their_bounds() {
        let mut sockets = Sockets::default();
        let id = sockets.add(5).unwrap();
        let mut ready = VecDeque::new();
        let any = usize::MAX;
        come(&mut sockets, id.index, (1_400, any), &mut ready);
        let (ends, buffer) = sockets.take(id).unwrap();
        let place = buffer.as_ptr();
        assert_eq!((ends, buffer.len(), sockets.charged), (ENDS, 1_400, 0));
        sockets.give_back(buffer);
        come(&mut sockets, id.index, (4, any), &mut ready);
        let (_, again) = sockets.take(id).unwrap();
        assert_eq!((again.as_ptr(), again), (place, vec![7; 4]));
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
            come(&mut sockets, id.index, (1, usize::MAX), &mut ready);
        }
        assert_eq!(ready, [Entry::datagrams(id.index)]);
        let told = Some(Event::Datagrams {
            socket: id,
            token: 42,
        });
        ready.clear();
        assert_eq!(sockets.event(id.index), told);
        // What comes after it was told is told again, unless it is taken before.
        come(&mut sockets, id.index, (1, usize::MAX), &mut ready);
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
        assert_eq!(sockets.slot_at(7), None);
        let any = usize::MAX;
        let mut come = |sockets: &mut _, slot, len| come(sockets, slot, len, &mut ready);
        let mut count = 0;
        while come(&mut sockets, full.index, (1_000, any)) == Enqueued::Yes {
            count += 1;
        }
        assert_eq!(count, QUEUE_BYTES / charge(1_000));
        let again = come(&mut sockets, full.index, (1_000, any));
        assert_eq!(again, Enqueued::Full);
        // The one that nothing waits for takes any, and no other then.
        let first = come(&mut sockets, other.index, (60_000, 10));
        let second = come(&mut sockets, other.index, (1, 10));
        assert_eq!((first, second), (Enqueued::Yes, Enqueued::Full));
        let datagram = sockets.take(other).unwrap().1;
        assert_eq!(datagram.len(), 60_000);
        sockets.remove(full, &mut ready).unwrap();
        assert_eq!(sockets.charged, 0);
        assert_eq!(sockets.take(other), Err(Error::WouldBlock));
    }
}
