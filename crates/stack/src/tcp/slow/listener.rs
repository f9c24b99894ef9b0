//! A listener: a port that connections are accepted on, with its queue and backlog, and the calls that concern it
//! (RFC 9293, 3.10.1: passive open).

use crate::demux::FlowKey;
use crate::options::Open;
use crate::ready::Entry;
use crate::socket::{ConnId, Error, Event, ListenerId, readiness};
use crate::stack::{Active, Stack};
use crate::tcp::slow::extension::Particular;
use crate::tcp::slow::fast_open::Early;
use crate::tcp::slow::handshake::check_numbers;
use crate::tcp::slow::redundancy::SocketChecksums;
use crate::tcp::tcb::{State, Tcb, rare};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::cold_path;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tollgate_gate::Recorder;

/// No connection, where the index of one is expected.
const NONE: u32 = u32::MAX;

/// Index of no listener: that of a connection whose listener was closed before its handshake was complete. Another listener may have
/// taken the place.
const CLOSED: u32 = u32::MAX - 1;

/// Complete connections that nobody has accepted, in the order in which they came. Each names its neighbours in
/// [`Tcb::token`], which no application has set yet, so a connection joins and leaves without a walk or an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unaccepted {
    first: u32,
    last: u32,
    len: usize,
}

impl Unaccepted {
    const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
        len: 0,
    };

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The connections in it, of which there are no more than counted twice.
    pub(in crate::tcp) fn walk(&self, tcbs: &[Tcb]) -> Vec<usize> {
        let next = |&index: &usize| tcbs.get(index).map(|tcb| tcb.neighbours()[1] as usize);
        core::iter::successors(Some(self.first as usize), next)
            .take_while(|&index| index < tcbs.len())
            .take(2 * self.len + 2)
            .collect()
    }

    const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a connection, which is in no list, behind the others.
    #[inline(always)]
    pub(crate) fn push(&mut self, tcbs: &mut [Tcb], index: usize) {
        let previous = self.last;
        self.last = index as u32;
        tcbs[index].set_neighbours([previous, NONE]);
        match tcbs.get_mut(previous as usize) {
            Some(tcb) => tcb.set_neighbours([tcb.neighbours()[0], index as u32]),
            None => self.first = index as u32,
        }
        self.len += 1;
    }

    /// Takes a connection out that is in this list.
    #[inline(always)]
    pub(crate) fn remove(&mut self, tcbs: &mut [Tcb], index: usize) {
        let [previous, next] = tcbs[index].neighbours();
        match tcbs.get_mut(previous as usize) {
            Some(tcb) => tcb.set_neighbours([tcb.neighbours()[0], next]),
            None => self.first = next,
        }
        match tcbs.get_mut(next as usize) {
            Some(tcb) => tcb.set_neighbours([previous, tcb.neighbours()[1]]),
            None => self.last = previous,
        }
        self.len -= 1;
    }

    /// Takes the first connection out.
    fn pop(&mut self, tcbs: &mut [Tcb]) -> Option<usize> {
        let index = self.first as usize;
        let [_, next] = tcbs.get(index)?.neighbours();
        self.first = next;
        match tcbs.get_mut(next as usize) {
            Some(tcb) => tcb.set_neighbours([NONE, tcb.neighbours()[1]]),
            None => self.last = NONE,
        }
        self.len -= 1;
        Some(index)
    }
}

impl Tcb {
    /// Tells whether a connection that nobody has accepted cannot be accepted yet.
    pub(in crate::tcp) fn is_half_open(&self) -> bool {
        self.state == State::SynReceived && !self.is_rare(rare::FAST_OPEN)
    }

    /// Indexes of the previous and the next connection in the list of [`Unaccepted`] that it is in.
    #[inline(always)]
    const fn neighbours(&self) -> [u32; 2] {
        [self.token as u32, (self.token >> 32) as u32]
    }

    #[inline(always)]
    const fn set_neighbours(&mut self, [previous, next]: [u32; 2]) {
        self.token = previous as u64 | (next as u64) << 32;
    }
}

/// A port in LISTEN.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The address of IPv4 that it listens on, or any; the unspecified one, which no packet goes to, for none.
    pub(crate) address: Option<Ipv4Addr>,
    /// That of IPv6.
    pub(crate) address_v6: Option<Ipv6Addr>,
    pub(crate) port: u16,
    /// Headers of its connections, where they say more than those of most.
    pub(in crate::tcp) particular: Option<Particular>,
    /// The checksums that its connections want.
    pub(in crate::tcp) checksums: SocketChecksums,
    pub(crate) generation: u32,
    /// Connections that may wait, complete and half open together.
    pub(crate) backlog: u16,
    /// Number of connections that are half open (SYN-RECEIVED).
    pub(crate) half_open: u32,
    /// Connections that can be accepted.
    pub(crate) queue: Unaccepted,
    /// Count of those, or accepted since, that carry data before their handshake is complete, where Fast Open is on.
    pub(in crate::tcp) early: Option<Box<Early>>,
    /// The application was told that connections wait, and has not accepted any since.
    told: bool,
    /// Number that its events carry.
    token: u64,
}

impl Listener {
    /// Tells whether it takes connections to `address` and `port`.
    pub(crate) fn takes(&self, address: Ipv4Addr, port: u16) -> bool {
        self.port == port && self.address.is_none_or(|own| own == address)
    }

    /// Tells whether it takes connections to an address of IPv6 and `port`.
    pub(crate) fn takes_v6(&self, address: Ipv6Addr, port: u16) -> bool {
        self.port == port && self.address_v6.is_none_or(|own| own == address)
    }

    /// Tells whether a connection could be both its and that of another on these addresses, each any, one or none, and `port`.
    pub(crate) fn collides(
        &self,
        (address, address_v6): (Option<Ipv4Addr>, Option<Ipv6Addr>),
        port: u16,
    ) -> bool {
        let overlaps = match (self.address, address) {
            (Some(own), Some(other)) => own == other && !own.is_unspecified(),
            (Some(one), None) | (None, Some(one)) => !one.is_unspecified(),
            (None, None) => true,
        };
        let overlaps_v6 = match (self.address_v6, address_v6) {
            (Some(own), Some(other)) => own == other && !own.is_unspecified(),
            (Some(one), None) | (None, Some(one)) => !one.is_unspecified(),
            (None, None) => true,
        };
        self.port == port && (overlaps || overlaps_v6)
    }

    /// Tells whether another half-open connection may be kept.
    pub(crate) fn has_room(&self) -> bool {
        self.half_open as usize + self.queue.len() < usize::from(self.backlog)
    }

    /// Tells whether another complete connection may be kept: one that comes by a cookie was never half open.
    pub(crate) fn may_queue(&self) -> bool {
        self.queue.len() < usize::from(self.backlog)
    }
}

/// The ports that a packet with this key comes from, and that it is addressed to.
pub(crate) fn ports_of(key: FlowKey) -> (u16, u16) {
    let [a, b, c, d] = key.ports.to_ne_bytes();
    (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

/// The address of IPv4 and the port that a packet with this key is addressed to.
pub(crate) fn local_end(key: FlowKey) -> (Ipv4Addr, u16) {
    let [_, _, high, low] = key.ports.to_ne_bytes();
    let address = Ipv4Addr::from(key.local.to_ne_bytes());
    (address, u16::from_be_bytes([high, low]))
}

impl<R: Recorder> Active<'_, R> {
    /// Listens on a port. At most `backlog` connections wait for [`Active::accept`] or for their handshake; beyond that,
    /// SYNs are answered with cookies.
    ///
    /// # Errors
    /// [`Error::BadAddress`] for port 0, [`Error::InUse`].
    pub fn listen(&mut self, port: u16, backlog: u16) -> Result<ListenerId, Error> {
        self.listen_with(port, backlog, &Open::default())
    }

    /// Like [`Active::listen`], which takes connections over both versions of IP, in a particular way. A port may be listened on at several addresses by several listeners.
    ///
    /// # Errors
    /// Those of [`Active::listen`], [`Error::BadAddress`] also for a local address that is not the stack's, and
    /// [`Error::BadOption`] for a Diffserv codepoint above 63, a source route, a local port or checksums that cannot be had.
    pub fn listen_with(
        &mut self,
        port: u16,
        backlog: u16,
        open: &Open<'_>,
    ) -> Result<ListenerId, Error> {
        let (address, address_v6) = self.listened_on(open)?;
        if !open.source_route.is_empty() || open.local_port.is_some() {
            return Err(Error::BadOption);
        }
        let policy = self.stack.config.mechanisms.checksum;
        open.checksums.check(policy)?;
        if port == 0 {
            return Err(Error::BadAddress);
        }
        let mut others = self.stack.listeners.iter().flatten();
        if others.any(|l| l.collides((address, address_v6), port)) {
            return Err(Error::InUse);
        }
        self.stack.listener_generation = self.stack.listener_generation.wrapping_add(1);
        let generation = self.stack.listener_generation;
        let listener = Listener {
            address,
            address_v6,
            port,
            particular: Particular::of(open),
            checksums: open.checksums,
            generation,
            backlog: backlog.max(1),
            half_open: 0,
            queue: Unaccepted::EMPTY,
            early: Early::new(open.fast_open),
            told: false,
            token: 0,
        };
        let index = match self.stack.listeners.iter().position(Option::is_none) {
            Some(free) => {
                self.stack.listeners[free] = Some(listener);
                free
            }
            None => {
                self.stack.listeners.push(Some(listener));
                self.stack.announced.push(false);
                self.stack.listeners.len() - 1
            }
        };
        Ok(ListenerId {
            index: index as u32,
            generation,
        })
    }

    /// The addresses of both versions that an open call asks for, each any, one, or the unspecified for none. The unspecified
    /// address of IPv6 stands for any of both, and with [`Open::ipv6_only`] for any of IPv6; an address of IPv4 in IPv6's form
    /// for itself (RFC 4291, 2.5.5.2).
    fn listened_on(&self, open: &Open<'_>) -> Result<(Option<Ipv4Addr>, Option<Ipv6Addr>), Error> {
        const NONE_V4: Option<Ipv4Addr> = Some(Ipv4Addr::UNSPECIFIED);
        const NONE_V6: Option<Ipv6Addr> = Some(Ipv6Addr::UNSPECIFIED);
        check_numbers(open)?;
        let local = open.local.map(|local| local.to_canonical());
        match local {
            None | Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) if open.ipv6_only => Ok((NONE_V4, None)),
            None | Some(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => Ok((None, None)),
            Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) => Ok((None, NONE_V6)),
            Some(IpAddr::V4(_)) => Ok((self.local_for(open)?, NONE_V6)),
            Some(IpAddr::V6(local)) if self.stack.ipv6.addresses.is_ours(local) => {
                Ok((NONE_V4, Some(local)))
            }
            Some(IpAddr::V6(_)) => Err(Error::BadAddress),
        }
    }

    /// The listener that takes connections with this key, of either version.
    pub(crate) fn listener_for(&self, key: FlowKey) -> Option<u32> {
        let Some(pair) = key.pair() else {
            return self.listener_for_v4(key);
        };
        let local = self.stack.destinations.get(pair)?.local();
        let (_, port) = ports_of(key);
        let mut listeners = self.stack.listeners.iter();
        listeners
            .position(|l| l.as_ref().is_some_and(|l| l.takes_v6(local, port)))
            .map(|i| i as u32)
    }

    /// The listener that takes connections with this key of IPv4.
    #[inline]
    pub(crate) fn listener_for_v4(&self, key: FlowKey) -> Option<u32> {
        let (address, port) = local_end(key);
        self.stack
            .listeners
            .iter()
            .position(|l| l.as_ref().is_some_and(|l| l.takes(address, port)))
            .map(|i| i as u32)
    }

    /// Takes the next complete connection.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when there is none, [`Error::NotConnected`] when the listener is closed.
    pub fn accept(&mut self, listener: ListenerId) -> Result<ConnId, Error> {
        let stack = &mut *self.stack;
        let l = find(&mut stack.listeners, listener)?;
        l.told = false;
        let index = l.queue.pop(&mut stack.tcbs).ok_or(Error::WouldBlock)?;
        if !l.queue.is_empty() {
            // Who accepts one for each event gets an event for each.
            stack.announce(listener.index);
        }
        let tcb = &mut stack.tcbs[index];
        tcb.rare &= !rare::UNACCEPTED;
        tcb.token = 0;
        // What happened while it waited is told now.
        let pending = tcb.events;
        if pending != 0 {
            self.notify(index, pending);
        }
        Ok(self.stack.conn_id(index))
    }

    /// Sets the number that the listener's events carry; 0 until then.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when the listener is closed.
    pub fn set_listener_token(&mut self, listener: ListenerId, token: u64) -> Result<(), Error> {
        find(&mut self.stack.listeners, listener)?.token = token;
        Ok(())
    }

    /// The event of a listener that was announced, if connections still wait.
    #[cold]
    pub(crate) fn listener_event(&mut self, index: u32) -> Option<Event> {
        *self.stack.announced.get_mut(index as usize)? = false;
        let l = self.stack.listeners.get_mut(index as usize)?.as_mut()?;
        if l.queue.is_empty() {
            return None;
        }
        l.told = true;
        Some(Event::Listener {
            listener: ListenerId {
                index,
                generation: l.generation,
            },
            token: l.token,
        })
    }

    /// Stops listening; connections that nobody accepted are reset.
    ///
    /// # Errors
    /// [`Error::NotConnected`] when it was closed already.
    pub fn close_listener(&mut self, listener: ListenerId) -> Result<(), Error> {
        let l = find(&mut self.stack.listeners, listener)?;
        let (mut half_open, queue) = (l.half_open, l.queue);
        let mut early = l.early.as_ref().map_or(0, |early| early.open);
        // Before its connections go, which need not leave its lists then.
        self.stack.listeners[listener.index as usize] = None;
        let mut next = queue.first;
        for _ in 0..queue.len {
            let index = next as usize;
            let tcb = &self.stack.tcbs[index];
            [_, next] = tcb.neighbours();
            early -= u16::from(tcb.is_rare(rare::FAST_OPEN));
            self.send_reset_of(index);
            self.free_connection(index);
        }
        // Those that are half open stand in no list, nor do those that were accepted early: each would pay for it, and a listener is
        // closed once.
        let mut places = 0..self.stack.tcbs.len();
        while (half_open != 0 || early != 0)
            && let Some(index) = places.next()
        {
            let tcb = &mut self.stack.tcbs[index];
            if tcb.listener != listener.index {
                continue;
            }
            if tcb.is_half_open() && tcb.is_rare(rare::UNACCEPTED) {
                half_open -= 1;
                self.send_reset_of(index);
                self.free_connection(index);
            } else if tcb.is_rare(rare::FAST_OPEN) {
                early -= 1;
                tcb.listener = CLOSED;
            }
        }
        Ok(())
    }
}

/// The listener that this handle stands for.
fn find(listeners: &mut [Option<Listener>], id: ListenerId) -> Result<&mut Listener, Error> {
    match listeners.get_mut(id.index as usize) {
        Some(Some(listener)) if listener.generation == id.generation => Ok(listener),
        _ => Err(Error::NotConnected),
    }
}

impl Stack {
    /// Puts a listener into the list of those with events, unless it is there.
    #[inline(always)]
    fn announce(&mut self, listener: u32) {
        if let Some(announced @ false) = self.announced.get_mut(listener as usize) {
            *announced = true;
            self.ready.push_back(Entry::listener(listener));
        }
    }

    /// A connection that was half open until now waits to be accepted. It has events to tell when it is.
    #[inline(always)]
    pub(in crate::tcp) fn queue_to_accept(&mut self, index: usize) {
        let tcb = &mut self.tcbs[index];
        tcb.events |= readiness::CONNECTED | readiness::WRITABLE;
        let listener = tcb.listener;
        let Some(Some(l)) = self.listeners.get_mut(listener as usize) else {
            cold_path();
            return;
        };
        l.half_open = l.half_open.saturating_sub(1);
        l.queue.push(&mut self.tcbs, index);
        if !l.told {
            self.announce(listener);
        }
    }

    /// The checksums that a connection's listener wants, while nobody has accepted it.
    pub(in crate::tcp) fn wish_of_listener(&self, index: usize) -> Option<SocketChecksums> {
        let tcb = &self.tcbs[index];
        if !tcb.is_rare(rare::UNACCEPTED) {
            return None;
        }
        let listener = self.listeners.get(tcb.listener as usize)?.as_ref()?;
        Some(listener.checksums)
    }

    /// A connection that nobody accepted leaves its listener.
    #[cold]
    pub(in crate::tcp) fn leave_listener(&mut self, index: usize) {
        let tcb = &self.tcbs[index];
        if !tcb.is_rare(rare::UNACCEPTED) {
            return self.forget_early(index);
        }
        let half_open = tcb.is_half_open();
        if let Some(Some(l)) = self.listeners.get_mut(tcb.listener as usize) {
            if half_open {
                l.half_open = l.half_open.saturating_sub(1);
            } else {
                l.queue.remove(&mut self.tcbs, index);
            }
        }
        self.forget_early(index);
    }
}
