//! A client of DHCP for IPv4 (RFC 2131, 2132, 3442, 4361, 6842).
//!
//! A [`Client`] asks for an address, gives it to the stack when no other host has it (RFC 5227), and keeps it by renewing its
//! lease. Address, routes and MTU of a lease are the stack's while the lease lasts, and no longer. It lies in this crate since it
//! sends from an address that no socket can have, 0.0.0.0; otherwise it is an application of UDP and of [`crate::addresses`].
//!
//! Like the stack it does no I/O: [`Client::poll`] is called beside [`Active::poll`], and by [`Client::next_deadline`]. Its
//! random numbers come from its seed.
//!
//! ```text
//! INIT --DISCOVER--> SELECTING --OFFER, REQUEST--> REQUESTING --ACK--> probing --no conflict--> BOUND
//!   ^--------------- NAK, no answer, conflict (DECLINE), expiry ------------|                     | T1
//!   |<------------------------- REBINDING <--T2-- RENEWING <--------------------------------------'
//! ```
//!
//! The first offer that is whole is taken. INIT-REBOOT and INFORM are not there: nothing is kept over a restart. DHCP
//! authentication (RFC 3118) is not there either, so whoever is on the link can be the server. The client must never
//! take an answer to another transaction or another client, nor touch an address or a route that it has not brought.

mod message;

pub use message::{Kind, MAX_NAME_SERVERS, MAX_ROUTES, Reply};

use crate::addresses::{AddressState, Route};
use crate::random::Random;
use crate::socket::Error;
use crate::stack::{Active, Stack};
use crate::time::Instant;
use crate::udp::UdpId;
use alloc::vec::Vec;
use core::mem;
use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use core::time::Duration;
use message::{Ask, Request, client_id};
use tollgate_gate::Recorder;

/// RFC 2131, 4.1: the port of servers.
pub const SERVER_PORT: u16 = 67;
/// RFC 2131, 4.1: the port of clients.
pub const CLIENT_PORT: u16 = 68;
/// RFC 2131, 4.1: the first time between retransmissions; each is twice the one before.
const FIRST_WAIT: Duration = Duration::from_secs(4);
/// RFC 2131, 4.1: the longest time between them.
const LONGEST_WAIT: Duration = Duration::from_secs(64);
/// RFC 2131, 4.1: retransmissions are spread uniformly by this to either side.
const SPREAD: Duration = Duration::from_secs(1);
/// RFC 2131, 3.1: REQUESTs without an answer before the client begins anew.
const REQUESTS: u8 = 4;
/// RFC 2131, 4.4.1: the client begins after a random time of one to ten seconds.
const START: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// RFC 2131, 3.1: time to wait after a DECLINE, at least.
const AFTER_DECLINE: Duration = Duration::from_secs(10);
/// RFC 2131, 4.4.5: the shortest time between REQUESTs that renew.
const RENEW_WAIT: Duration = Duration::from_secs(60);
/// RFC 2131, 3.3: a lease without end.
const INFINITE: u32 = u32::MAX;
/// Bytes of the smallest MTU that is taken from a server. RFC 2132, 5.1 allows 68; what every host takes (RFC 791) is
/// enough, and a liar can do less harm.
const SMALLEST_MTU: u16 = 576;

/// State of a client (RFC 2131, 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits until it begins.
    Init,
    /// Waits for an offer.
    Selecting,
    /// Waits for the acknowledgment of an offer.
    Requesting,
    /// Has an acknowledgment, and asks whether another host has the address.
    Probing,
    /// Has a lease.
    Bound,
    /// Has a lease, and asks its server to prolong it.
    Renewing,
    /// Has a lease, and asks all servers to prolong it.
    Rebinding,
    /// The application has released the lease.
    Released,
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The address.
    pub address: Ipv4Addr,
    /// Bits of the address that name its network. Where the server does not tell, those of the address's class.
    pub prefix_len: u8,
    /// The server.
    pub server: Ipv4Addr,
    /// Routes that the server names; those that the stack refuses are not used.
    pub routes: Vec<Route>,
    /// Name servers, for whoever resolves names.
    pub name_servers: Vec<Ipv4Addr>,
    /// The MTU of the link, in bytes, if the server names one that is used.
    pub mtu: Option<u16>,
    /// When renewing begins. `None` in all three is without end.
    pub renew_at: Option<Instant>,
    /// When rebinding begins.
    pub rebind_at: Option<Instant>,
    /// When the lease ends.
    pub expires_at: Option<Instant>,
}

/// Events that a client counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that nothing could be sent for, since there was no frame.
    pub not_sent: u64,
    /// Messages that are no server's, or contradict themselves.
    pub malformed: u64,
    /// Messages for others, for other transactions, or not awaited.
    pub ignored: u64,
    /// Refusals that were believed.
    pub naks: u64,
    /// Addresses that another host had.
    pub conflicts: u64,
    /// Leases that ended.
    pub expired: u64,
    /// Routes that the stack refused.
    pub routes_refused: u64,
}

/// A client of DHCP, for one stack.
#[derive(Debug)]
pub struct Client {
    random: Random,
    state: State,
    socket: Option<UdpId>,
    xid: u32,
    /// When the first message of this attempt was sent.
    began: Instant,
    /// Seconds since then, as the last message had them.
    secs: u16,
    /// When the last REQUEST was sent: leases count from there.
    requested_at: Instant,
    /// When something is due; none while an event is waited for.
    due: Option<Instant>,
    /// Messages sent in this state.
    tries: u8,
    /// The lease, or what is to become one.
    lease: Option<Lease>,
    /// Routes that are in the stack by the lease.
    applied: Vec<Route>,
    counters: Counters,
}

/// The bits of the network's name in an address's class (RFC 791, 3.2).
const fn class_prefix(address: Ipv4Addr) -> u8 {
    match address.octets()[0] {
        0..=127 => 8,
        128..=191 => 16,
        _ => 24,
    }
}

impl Client {
    /// Makes a client that begins one to ten seconds after its first poll (RFC 2131, 4.4.1), so that hosts that start together do
    /// not ask together. `seed` is secret and random.
    pub fn new(seed: [u64; 2]) -> Self {
        Self {
            random: Random::new(seed),
            state: State::Init,
            socket: None,
            xid: 0,
            began: Instant::ZERO,
            secs: 0,
            requested_at: Instant::ZERO,
            due: None,
            tries: 0,
            lease: None,
            applied: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Makes the client begin with its next poll, if it has not begun yet.
    pub fn begin_at_once(&mut self) {
        if self.state == State::Init {
            self.due = Some(Instant::ZERO);
        }
    }

    /// State.
    pub const fn state(&self) -> State {
        self.state
    }

    /// The lease, while its address is the stack's.
    pub fn lease(&self) -> Option<&Lease> {
        match self.state {
            State::Bound | State::Renewing | State::Rebinding => self.lease.as_ref(),
            _ => None,
        }
    }

    /// Events since the client was made.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// When the client wants to be polled at the latest, should the stack hear nothing. A client that has never been polled says
    /// nothing here.
    pub fn next_deadline(&self) -> Option<Instant> {
        let expiry = self.lease.as_ref().and_then(|lease| lease.expires_at);
        self.due.into_iter().chain(expiry).min()
    }

    /// Takes what servers have sent, looks what became of the address, and does what is due. Called after [`Active::poll`].
    ///
    /// # Errors
    /// [`Error::InUse`] when the application has a socket at port 68.
    pub fn poll<R: Recorder>(&mut self, active: &mut Active<'_, R>) -> Result<(), Error> {
        if self.state == State::Released {
            return Ok(());
        }
        let socket = match self.socket {
            Some(socket) => socket,
            None => {
                let socket = active.udp_bind(CLIENT_PORT)?;
                active.udp_tell_nothing(socket)?;
                self.socket = Some(socket);
                socket
            }
        };
        if self.state == State::Init && self.due.is_none() {
            self.wait_to_begin(active.now, START.0);
        }
        loop {
            match active.udp_receive(socket) {
                Ok((from, bytes)) => self.hear(active, from, &bytes),
                Err(Error::WouldBlock) => break,
                // An ICMP error about a message of ours: the timers see to it.
                Err(_) => {}
            }
        }
        self.watch_address(active);
        self.do_what_is_due(active);
        Ok(())
    }

    /// Gives the lease back, and the address with it; the client does nothing more (RFC 2131, 4.4.6).
    pub fn release<R: Recorder>(&mut self, active: &mut Active<'_, R>) {
        if self.lease().is_some() {
            self.draw_xid();
            self.send(active, Ask::Release);
        }
        self.drop_lease(active);
        if let Some(socket) = self.socket.take() {
            // The handle is the client's own: it cannot be stale.
            let closed = active.udp_close(socket);
            debug_assert!(closed.is_ok());
        }
        self.state = State::Released;
        self.due = None;
    }

    fn draw_xid(&mut self) {
        self.xid = self.random.next() as u32;
    }

    fn wait_to_begin(&mut self, now: Instant, least: Duration) {
        let span = (START.1 - START.0).as_nanos() as u64;
        let fraction = u64::from(self.random.next() as u32);
        let more = Duration::from_nanos(((u128::from(span) * u128::from(fraction)) >> 32) as u64);
        self.due = Some(now + least + more);
        self.state = State::Init;
    }

    /// The time to the next retransmission (RFC 2131, 4.1).
    fn back_off(&mut self) -> Duration {
        let doublings = u32::from(self.tries.saturating_sub(1)).min(4);
        let wait = (FIRST_WAIT * (1 << doublings)).min(LONGEST_WAIT);
        let spread = self.random.below(2 * SPREAD.as_nanos() as u32);
        wait - SPREAD + Duration::from_nanos(spread.into())
    }

    /// Sends a message that belongs to the state.
    fn send<R: Recorder>(&mut self, active: &mut Active<'_, R>, ask: Ask) {
        let now = active.now;
        // RFC 2131, 3.1, step 3: a REQUEST for what is offered has the value of its DISCOVER.
        if ask != Ask::Request || self.lease().is_some() {
            self.secs = u16::try_from((now - self.began).as_secs()).unwrap_or(u16::MAX);
        }
        let lease = self.lease.as_ref();
        let holds = self.lease().is_some();
        let address = lease.map_or(Ipv4Addr::UNSPECIFIED, |lease| lease.address);
        let server = lease.map(|lease| lease.server);
        let is_renewal = ask == Ask::Request && holds;
        let owns = is_renewal || ask == Ask::Release;
        let message = Request {
            ask,
            xid: self.xid,
            secs: self.secs,
            mac: active.stack.config.mac,
            ciaddr: if owns { address } else { Ipv4Addr::UNSPECIFIED },
            // RFC 2131, table 5: neither in a renewal.
            requested: (!owns && ask != Ask::Discover).then_some(address),
            server: server.filter(|_| !is_renewal && ask != Ask::Discover),
        };
        let source = if owns { address } else { Ipv4Addr::UNSPECIFIED };
        // RFC 2131, 4.4.4: a release goes to the server whatever the state is, a renewal until T2.
        let is_unicast = match ask {
            Ask::Release => true,
            Ask::Request => is_renewal && self.state != State::Rebinding,
            Ask::Discover | Ask::Decline => false,
        };
        let to = server.filter(|_| is_unicast).unwrap_or(Ipv4Addr::BROADCAST);
        if ask == Ask::Request {
            self.requested_at = now;
        }
        let to = SocketAddrV4::new(to, SERVER_PORT);
        let sent = active.udp_send_as((source, CLIENT_PORT), to, &message.to_bytes());
        if sent {
            self.counters.sent += 1;
        } else {
            self.counters.not_sent += 1;
        }
    }

    fn do_what_is_due<R: Recorder>(&mut self, active: &mut Active<'_, R>) {
        let now = active.now;
        if let Some(expiry) = self.lease.as_ref().and_then(|lease| lease.expires_at)
            && now >= expiry
        {
            self.counters.expired += 1;
            self.begin_anew(active, START.0);
            return;
        }
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        match self.state {
            State::Init => {
                self.draw_xid();
                self.began = now;
                self.tries = 0;
                self.state = State::Selecting;
                self.ask_again(active, Ask::Discover);
            }
            State::Selecting => self.ask_again(active, Ask::Discover),
            State::Requesting if self.tries >= REQUESTS => self.begin_anew(active, START.0),
            State::Requesting => self.ask_again(active, Ask::Request),
            State::Bound => {
                self.draw_xid();
                self.began = now;
                self.state = State::Renewing;
                self.prolong(active);
            }
            State::Renewing | State::Rebinding => self.prolong(active),
            State::Probing | State::Released => self.due = None,
        }
    }

    fn ask_again<R: Recorder>(&mut self, active: &mut Active<'_, R>, ask: Ask) {
        self.tries = self.tries.saturating_add(1);
        self.send(active, ask);
        self.due = Some(active.now + self.back_off());
    }

    /// Asks for more time: the server until T2, then all. RFC 2131, 4.4.5: again after half of the time that is left.
    fn prolong<R: Recorder>(&mut self, active: &mut Active<'_, R>) {
        let now = active.now;
        let Some((rebind_at, expires_at)) = self
            .lease
            .as_ref()
            .and_then(|lease| lease.rebind_at.zip(lease.expires_at))
        else {
            self.due = None;
            return;
        };
        if now >= rebind_at {
            self.state = State::Rebinding;
        }
        self.send(active, Ask::Request);
        let end = match self.state {
            State::Rebinding => expires_at,
            _ => rebind_at,
        };
        self.due = Some((now + ((end - now) / 2).max(RENEW_WAIT)).min(end));
    }

    /// Takes a message of a server.
    fn hear<R: Recorder>(&mut self, active: &mut Active<'_, R>, from: SocketAddr, bytes: &[u8]) {
        let Ok(reply) = Reply::parse(bytes) else {
            self.counters.malformed += 1;
            return;
        };
        let mac = active.stack.config.mac;
        // RFC 6842, 3: an identifier that is repeated is ours.
        let identifier = reply.client_id.as_deref();
        let is_ours = reply.xid == self.xid
            && reply.client == mac
            && from.port() == SERVER_PORT
            && identifier.is_none_or(|id| id == client_id(mac));
        let server_is_chosen = self
            .lease
            .as_ref()
            .is_some_and(|lease| reply.server == Some(lease.server));
        match (self.state, reply.kind) {
            _ if !is_ours => self.counters.ignored += 1,
            (State::Selecting, Kind::Offer) => self.take_offer(active, &reply),
            (State::Requesting, Kind::Ack) if server_is_chosen => self.take_lease(active, &reply),
            (State::Renewing, Kind::Ack) if server_is_chosen => self.take_more_time(active, &reply),
            (State::Rebinding, Kind::Ack) => self.take_more_time(active, &reply),
            (State::Requesting | State::Renewing, Kind::Nak) if server_is_chosen => {
                self.counters.naks += 1;
                self.begin_anew(active, START.0);
            }
            (State::Rebinding, Kind::Nak) => {
                self.counters.naks += 1;
                self.begin_anew(active, START.0);
            }
            _ => self.counters.ignored += 1,
        }
    }

    /// Asks for what is offered.
    fn take_offer<R: Recorder>(&mut self, active: &mut Active<'_, R>, offer: &Reply) {
        let Some(lease) = self.lease_of(active.stack, offer, active.now) else {
            self.counters.ignored += 1;
            return;
        };
        // What holds is what is acknowledged: times do not run yet.
        self.lease = Some(Lease {
            renew_at: None,
            rebind_at: None,
            expires_at: None,
            ..lease
        });
        self.state = State::Requesting;
        self.tries = 0;
        self.ask_again(active, Ask::Request);
    }

    /// Asks other hosts whether they have the address that was acknowledged.
    fn take_lease<R: Recorder>(&mut self, active: &mut Active<'_, R>, ack: &Reply) {
        let lease = self.lease_of(active.stack, ack, self.requested_at);
        let offered = self.lease.as_ref().map(|lease| lease.address);
        let Some(lease) = lease.filter(|lease| Some(lease.address) == offered) else {
            self.counters.ignored += 1;
            return;
        };
        if active
            .probe_address(lease.address, lease.prefix_len)
            .is_err()
        {
            // The application has given it to the stack meanwhile.
            self.counters.ignored += 1;
            self.begin_anew(active, START.0);
            return;
        }
        self.lease = Some(lease);
        self.state = State::Probing;
        self.due = None;
    }

    /// Takes a lease that was prolonged.
    fn take_more_time<R: Recorder>(&mut self, active: &mut Active<'_, R>, ack: &Reply) {
        let lease = self.lease_of(active.stack, ack, self.requested_at);
        let held = self
            .lease
            .as_ref()
            .map(|lease| (lease.address, lease.prefix_len));
        let Some(lease) = lease.filter(|lease| Some(lease.address) == held.map(|held| held.0))
        else {
            self.counters.ignored += 1;
            return;
        };
        // The network of an address does not change while it is held.
        let prefix_len = held.map_or(lease.prefix_len, |held| held.1);
        self.lease = Some(Lease {
            prefix_len,
            ..lease
        });
        self.apply(active);
    }

    /// The lease that a message gives, its times from `from` on; none for one that no host can live with.
    fn lease_of(&mut self, stack: &Stack, reply: &Reply, from: Instant) -> Option<Lease> {
        let address = reply.address;
        let server = reply.server.filter(|server| !stack.is_broadcast(*server))?;
        let lease = reply.lease.filter(|&seconds| seconds != 0)?;
        let cannot_be = |ip: Ipv4Addr| ip.is_unspecified() || ip.is_multicast() || ip.is_loopback();
        if cannot_be(address) || cannot_be(server) || address.is_broadcast() || server == address {
            return None;
        }
        let routes = match &reply.routes {
            Some(routes) => routes.clone(),
            None => reply.router.map(Route::default_by).into_iter().collect(),
        };
        let times = (lease != INFINITE).then(|| {
            // RFC 2131, 4.4.5: half and seven eighths; T1 is earlier than T2, and that than the end.
            let t2 = reply.rebinding.filter(|&t2| t2 < lease);
            let t2 = t2.unwrap_or((u64::from(lease) * 7 / 8) as u32);
            let t1 = reply.renewal.filter(|&t1| t1 < t2);
            let t1 = t1.unwrap_or((lease / 2).min(t2));
            // "with some random fuzz": up to a thirty-second earlier.
            let fuzz = self.random.below(t1 / 32 + 1);
            [t1 - fuzz, t2, lease].map(|s| from + Duration::from_secs(s.into()))
        });
        Some(Lease {
            address,
            prefix_len: reply.prefix_len.unwrap_or(class_prefix(address)),
            server,
            routes,
            name_servers: reply.name_servers.clone(),
            mtu: reply.mtu.filter(|&mtu| mtu >= SMALLEST_MTU),
            renew_at: times.map(|times| times[0]),
            rebind_at: times.map(|times| times[1]),
            expires_at: times.map(|times| times[2]),
        })
    }

    /// Looks whether the address of the lease has become ours, or another host's.
    fn watch_address<R: Recorder>(&mut self, active: &mut Active<'_, R>) {
        let Some(address) = self.lease.as_ref().map(|lease| lease.address) else {
            return;
        };
        if matches!(
            self.state,
            State::Init | State::Selecting | State::Requesting
        ) {
            return;
        }
        let mut all = active.stack.addresses();
        let state = all.find(|own| own.address == address).map(|own| own.state);
        drop(all);
        match state {
            Some(AddressState::Assigned) if self.state == State::Probing => self.apply(active),
            Some(AddressState::Assigned | AddressState::Tentative) => {}
            // RFC 2131, 3.1, 5; RFC 5227, 2.4: the server is told.
            Some(AddressState::Duplicate) => {
                self.counters.conflicts += 1;
                self.send(active, Ask::Decline);
                self.begin_anew(active, AFTER_DECLINE);
            }
            // The application has taken it away.
            None => self.begin_anew(active, START.0),
        }
    }

    /// Gives the stack what the lease names.
    fn apply<R: Recorder>(&mut self, active: &mut Active<'_, R>) {
        let Some(lease) = &self.lease else {
            return;
        };
        self.state = State::Bound;
        self.tries = 0;
        self.due = lease.renew_at;
        let (gone, kept): (Vec<Route>, Vec<Route>) = mem::take(&mut self.applied)
            .into_iter()
            .partition(|route| !lease.routes.contains(route));
        self.applied = kept;
        for route in gone {
            remove_route(active, route);
        }
        for &route in &lease.routes {
            if self.applied.contains(&route) {
                continue;
            }
            match active.stack.add_route(route) {
                Ok(()) => self.applied.push(route),
                Err(_) => self.counters.routes_refused += 1,
            }
        }
        let most = active.stack.link_mtu;
        set_mtu(active, lease.mtu.unwrap_or(most).min(most));
    }

    /// Takes what the lease has brought from the stack.
    fn drop_lease<R: Recorder>(&mut self, active: &mut Active<'_, R>) {
        let Some(lease) = self.lease.take() else {
            return;
        };
        for route in mem::take(&mut self.applied) {
            remove_route(active, route);
        }
        if !matches!(self.state, State::Selecting | State::Requesting) {
            let most = active.stack.link_mtu;
            set_mtu(active, most);
            // The application may have taken it away before.
            if active.remove_address(lease.address).is_err() {
                debug_assert!(!active.stack.is_ours(lease.address));
            }
        }
    }

    /// Gives up what there is, and begins after `least` and a random time of at most nine seconds.
    fn begin_anew<R: Recorder>(&mut self, active: &mut Active<'_, R>, least: Duration) {
        self.drop_lease(active);
        self.wait_to_begin(active.now, least);
    }
}

/// Removes a route of the lease, unless the application has.
fn remove_route<R: Recorder>(active: &mut Active<'_, R>, route: Route) {
    if active.stack.remove_route(route).is_err() {
        debug_assert!(!active.stack.routes().contains(&route));
    }
}

/// Sets an MTU that is in the stack's range.
fn set_mtu<R: Recorder>(active: &mut Active<'_, R>, mtu: u16) {
    if mtu != active.stack.mtu() {
        let set = active.set_mtu(mtu);
        debug_assert!(set.is_ok());
    }
}

#[cfg(test)]
mod tests;
