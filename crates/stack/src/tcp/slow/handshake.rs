//! The opening of connections: the active open, the answer to a SYN, cookies (RFC 9293, 3.5, 3.10.1). [`crate::tcp::slow::syn`]
//! reads and writes SYNs, [`crate::tcp::slow::listener`] listens and accepts, and [`crate::tcp::slow::lifecycle`] ends connections.

use crate::config::{Demux, Prediction};
use crate::counters::Drop;
use crate::demux::{FlowKey, Search, Vacant};
use crate::ipv6::addresses::is_unicast;
use crate::options::{MAX_DIFFSERV, Open};
use crate::socket::{ConnId, Error, readiness};
use crate::stack::{Active, Stack};
use crate::tcp::deadline::Deadline;
use crate::tcp::ecn::Setup;
use crate::tcp::isn::initial_sequence_number;
use crate::tcp::slow::cookie;
use crate::tcp::slow::extension::Particular;
use crate::tcp::slow::listener::ports_of;
use crate::tcp::slow::redundancy::{Agreement, SocketChecksums};
use crate::tcp::slow::syn::{LEAST_MSS, Syn, default_mss};
use crate::tcp::slow::time_wait::SLOT_BIT;
use crate::tcp::tcb::{LOOK, State, Tcb, flag, rare};
use crate::time::ticks;
use core::hint::cold_path;
use core::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use core::time::Duration;
use tollgate_gate::Recorder;
use tollgate_wire::SeqNumber;
use tollgate_wire::ethernet::MacAddr;
use tollgate_wire::source_route::SourceRoute;
use tollgate_wire::tcp::{Flags, Header, Options, Timestamps};

/// RFC 6298, 5.7: the timeout with which data begins when the SYN's timer expired.
const AFTER_SYN_LOSS_RTO: Duration = Duration::from_secs(3);

/// Outcome of an acknowledgment that came for a listener.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) enum Returned {
    /// One of our cookies: the index of the connection that it has become.
    Connection(usize),
    /// One of our cookies, and there is no room for its connection.
    NoRoom,
    /// Nothing of ours.
    NoCookie,
}

/// Checks the numbers that an open call names.
pub(in crate::tcp) fn check_numbers(open: &Open<'_>) -> Result<(), Error> {
    if open.diffserv > MAX_DIFFSERV || open.max_segment.is_some_and(|mss| mss < LEAST_MSS) {
        return Err(Error::BadOption);
    }
    Ok(())
}

impl Stack {
    /// Searches the table for `key`, of a connection or a TIME-WAIT.
    pub(crate) fn search(&self, key: FlowKey) -> Search {
        match key.pair() {
            None => self.search_as::<false>(key),
            Some(_) => self.search_as::<true>(key),
        }
    }

    /// The same, where it is known whether the key is one of IPv6.
    #[inline(always)]
    pub(crate) fn search_as<const V6: bool>(&self, key: FlowKey) -> Search {
        let label = if V6 { self.label_of(key) } else { key };
        self.table.search(label, |slot| {
            if slot & SLOT_BIT != 0 {
                self.time_wait
                    .get(slot & !SLOT_BIT)
                    .is_some_and(|waiting| waiting.key.is(key))
            } else {
                self.tcbs
                    .get(slot as usize)
                    .is_some_and(|tcb| tcb.key.is(key))
            }
        })
    }

    /// A place for a connection that none has had yet, unless there are as many as there may be.
    #[cold]
    #[inline(never)]
    fn new_place(&mut self) -> Option<u32> {
        if self.tcbs.len() >= self.config.max_connections {
            return None;
        }
        let place = self.tcbs.len() as u32;
        self.tcbs.push(Tcb::FREE);
        self.wheel.ensure(place);
        self.next_hops.add_place();
        Some(place)
    }
}

impl<R: Recorder> Active<'_, R> {
    /// Opens a connection to `remote`. The [`crate::socket::Readiness::connected`] event tells when it stands.
    ///
    /// # Errors
    /// [`Error::BadAddress`] for an address that is no other host's or a zero port, [`Error::NoPort`] when every port
    /// is taken for this peer, [`Error::TableFull`], [`Error::NoFrame`]; [`Error::Unreachable`] where no address of ours serves it, or over IPv6 no
    /// router.
    pub fn connect(&mut self, remote: impl Into<SocketAddr>) -> Result<ConnId, Error> {
        match remote.into() {
            SocketAddr::V4(remote) => {
                let wish = SocketChecksums::Policy;
                let local = (self.stack.source_to(*remote.ip()), None);
                self.connect_v4(local, remote, (None, wish), &None, None)
            }
            SocketAddr::V6(remote) => self.connect_v6(remote, &Open::default(), None),
        }
    }

    /// Like [`Active::connect`], in a particular way.
    ///
    /// # Errors
    /// Those of [`Active::connect`], [`Error::BadAddress`] also for a local address that is not the stack's and for local port 0,
    /// [`Error::InUse`] when the local port has a connection to `remote` or has had one lately (TIME-WAIT), and
    /// [`Error::BadOption`] for a Diffserv codepoint above 63 or a source route that has too many hops or leaves no room.
    pub fn connect_with(
        &mut self,
        remote: impl Into<SocketAddr>,
        open: &Open<'_>,
    ) -> Result<ConnId, Error> {
        self.connect_particularly(remote.into(), open, None)
    }

    /// [`Active::connect_with`], and where there is `early` data, Fast Open as far as it goes.
    #[inline(always)]
    pub(in crate::tcp) fn connect_particularly(
        &mut self,
        remote: SocketAddr,
        open: &Open<'_>,
        early: Option<&[u8]>,
    ) -> Result<ConnId, Error> {
        let remote = match remote {
            SocketAddr::V4(remote) => remote,
            SocketAddr::V6(remote) => return self.connect_v6(remote, open, early),
        };
        let local = self.local_for(open)?;
        let local = local.unwrap_or_else(|| self.stack.source_to(*remote.ip()));
        let route = match open.source_route {
            [] => None,
            hops => Some(SourceRoute::loose(hops).ok_or(Error::BadOption)?),
        };
        let specified = (Particular::of(open), open.checksums);
        self.connect_v4((local, open.local_port), remote, specified, &route, early)
    }

    /// Opens a connection over IPv6. An address of IPv4 in IPv6's form is that of IPv4 (RFC 4291, 2.5.5.2): the connection is one
    /// over IPv4.
    fn connect_v6(
        &mut self,
        remote: SocketAddrV6,
        open: &Open<'_>,
        early: Option<&[u8]>,
    ) -> Result<ConnId, Error> {
        if let Some(mapped) = remote.ip().to_ipv4_mapped() {
            return self.connect_mapped(SocketAddrV4::new(mapped, remote.port()), open, early);
        }
        let ours = self.stack.ipv6.addresses.is_ours(*remote.ip());
        if ours || !is_unicast(*remote.ip()) || remote.port() == 0 {
            return Err(Error::BadAddress);
        }
        check_numbers(open)?;
        if !open.source_route.is_empty() {
            return Err(Error::BadOption);
        }
        let ipv6 = &self.stack.ipv6;
        let local = match open.local {
            Some(IpAddr::V6(local)) if ipv6.addresses.is_ours(local) => local,
            Some(_) => return Err(Error::BadAddress),
            None => {
                let source = ipv6.addresses.source_for(*remote.ip());
                source.ok_or(Error::Unreachable)?
            }
        };
        ipv6.routers
            .next_hop(*remote.ip())
            .ok_or(Error::Unreachable)?;
        let peer = self
            .stack
            .enter_key((*remote.ip(), remote.port()), (local, 0))
            .ok_or(Error::TableFull)?;
        let specified = (Particular::of(open), open.checksums);
        self.open_actively::<true>((peer, open.local_port), specified, &None, early)
    }

    /// A connection over IPv4 whose address came in IPv6's form.
    #[inline(never)]
    fn connect_mapped(
        &mut self,
        remote: SocketAddrV4,
        open: &Open<'_>,
        early: Option<&[u8]>,
    ) -> Result<ConnId, Error> {
        self.connect_particularly(remote.into(), open, early)
    }

    #[inline(always)]
    fn connect_v4(
        &mut self,
        (local, port): (Ipv4Addr, Option<u16>),
        remote: SocketAddrV4,
        specified: (Option<Particular>, SocketChecksums),
        route: &Option<SourceRoute>,
        early: Option<&[u8]>,
    ) -> Result<ConnId, Error> {
        let peer = FlowKey::new((*remote.ip(), remote.port()), (local, 0));
        // What connections to this address were opened for lately need not be looked at again.
        let known = self.stack.tcb_template.is_for(peer, self.now.tick());
        if remote.port() == 0 {
            return Err(Error::BadAddress);
        }
        if !known {
            cold_path();
            self.check_ends(local, *remote.ip())?;
        }
        self.open_actively::<false>((peer, port), specified, route, early)
    }

    /// Opens a connection with the key `peer`, whose local port is zero, from `port` or any.
    #[inline(always)]
    fn open_actively<const V6: bool>(
        &mut self,
        (peer, port): (FlowKey, Option<u16>),
        (particular, checksums): (Option<Particular>, SocketChecksums),
        route: &Option<SourceRoute>,
        early: Option<&[u8]>,
    ) -> Result<ConnId, Error> {
        let (key, vacant) = match port {
            None => self.free_local_port::<V6>(peer)?,
            Some(port) => self.this_local_port(peer, port)?,
        };
        let index = self.open(key, vacant)?;
        let iss = initial_sequence_number(vacant, self.now);
        self.stack.tcbs[index].move_to(State::SynSent);
        let refused = checksums != SocketChecksums::Policy
            && self.stack.want_checksums(index, checksums).is_err();
        if refused || !self.specify(index, &particular, route) {
            self.free_connection(index);
            return Err(Error::BadOption);
        }
        self.stack.ask_for_ecn(index);
        if let Some(data) = early {
            self.choose_fast_open(index, data);
        }
        let begun = self.begin(index, iss, |this| match early {
            Some(data) => this.send_syn_with_data(index, data),
            None => this.send_syn(index),
        });
        if !begun {
            cold_path();
            self.free_connection(index);
            return Err(Error::NoFrame);
        }
        Ok(self.stack.conn_id(index))
    }

    /// Checks that a connection can be opened from `local` to `remote`: the host has an address, and `remote` is another host's. What
    /// comes from any other is dropped, so no answer would arrive.
    #[cold]
    fn check_ends(&self, local: Ipv4Addr, remote: Ipv4Addr) -> Result<(), Error> {
        if !self.is_another_host(remote) {
            return Err(Error::BadAddress);
        }
        if local.is_unspecified() {
            return Err(Error::Unreachable);
        }
        Ok(())
    }

    /// The local address that an open call asks for, its parameters checked.
    pub(in crate::tcp) fn local_for(&self, open: &Open<'_>) -> Result<Option<Ipv4Addr>, Error> {
        check_numbers(open)?;
        match open.local.map(|local| local.to_canonical()) {
            None => Ok(None),
            Some(IpAddr::V4(local)) if self.stack.is_ours(local) => Ok(Some(local)),
            Some(_) => Err(Error::BadAddress),
        }
    }

    /// Sets the extension that a connection is opened with; says whether a segment has room for the route.
    #[inline(always)]
    fn specify(
        &mut self,
        index: usize,
        particular: &Option<Particular>,
        route: &Option<SourceRoute>,
    ) -> bool {
        if let Some(particular) = particular {
            self.stack.specify(index, particular);
        }
        match route {
            Some(route) => self.go_by(index, *route),
            None => true,
        }
    }

    /// Sets the extension of a passive connection: what its listener was opened with, and the way back. Where a segment has
    /// no room for the route, the answer goes straight.
    #[inline(always)]
    fn specify_passive(&mut self, index: usize, particular: &Option<Particular>) {
        if particular.is_some() || self.stack.return_route.is_some() {
            cold_path();
            let route = self.stack.return_route;
            self.specify(index, particular, &route);
        }
    }

    /// The slot under `key`, of a connection or a TIME-WAIT.
    pub(crate) fn slot_of(&self, key: FlowKey) -> Option<u32> {
        let stack = &*self.stack;
        match stack.tcbs.get(stack.cached) {
            Some(tcb) if tcb.key.is(key) => Some(stack.cached as u32),
            _ => match stack.search(key) {
                Search::Found(slot) => Some(slot),
                Search::Vacant(_) => None,
            },
        }
    }

    /// Takes a free TCB and puts it into the table, where the search for its key has just ended. The caller sees to it that it
    /// has an entry in the wheel.
    #[inline(always)]
    pub(crate) fn open(&mut self, key: FlowKey, vacant: Vacant) -> Result<usize, Error> {
        let tick = self.now.tick();
        if !self.stack.tcb_template.is_for(key, tick) {
            cold_path();
            self.prepare(key);
        }
        let stack = &mut *self.stack;
        let place = match stack.free.pop() {
            Some(free) => free,
            None => stack.new_place().ok_or(Error::TableFull)?,
        };
        let index = place as usize;
        if stack.table.insert_at(vacant, place).is_err() {
            cold_path();
            stack.free.push(place);
            return Err(Error::TableFull);
        }
        stack.open_connections += 1;
        let tcb = &mut stack.tcbs[index];
        // Where the free TCB stands in a list already, it must not be put in again. Its entry in the wheel is this
        // connection's, if it is still there.
        let (generation, listed, left) = (tcb.generation, (tcb.flags, tcb.rare), tcb.armed);
        let next_hop = tcb.next_hop;
        stack.tcb_template.write(tcb, key);
        tcb.generation = generation;
        tcb.flags |= listed.0;
        tcb.rare |= listed.1;
        tcb.hash = vacant.hash();
        if tcb.next_hop != next_hop {
            cold_path();
            stack.next_hops.change(place, tcb.next_hop);
        }
        if stack.wheel.is_armed(place) {
            tcb.armed = left;
        }
        // The next segment of a connection is likely to follow soon.
        if stack.config.mechanisms.demux == Demux::CacheHash {
            stack.cached = index;
        }
        Ok(index)
    }

    /// Puts the next hop's link address into the template, if it is known.
    pub(crate) fn fill_link_address(&mut self, index: usize) {
        let next_hop = self.stack.tcbs[index].next_hop;
        match self.stack.neighbours.lookup(next_hop, self.now) {
            crate::neighbour::Lookup::Found(mac) => self.set_link_address(index, mac),
            crate::neighbour::Lookup::Wait => self.set_link_address(index, MacAddr::default()),
        }
    }

    pub(crate) fn set_link_address(&mut self, index: usize, mac: MacAddr) {
        self.stack.tcbs[index].set_link(mac, self.stack.config.mac);
    }

    /// A SYN for a port that somebody listens on (RFC 9293, 3.10.7.2). A connection that follows directly on one in
    /// TIME-WAIT, which would have sent `last` next, begins behind that (MAY-2). Where it is kept, `before_answer` is done first.
    pub(crate) fn syn_for_listener(
        &mut self,
        listener: u32,
        key: FlowKey,
        syn: &Syn,
        last: Option<SeqNumber>,
        before_answer: impl FnOnce(&mut Self, usize),
    ) {
        let room = self.takes_half_open(listener);
        match self.stack.search(key) {
            Search::Vacant(vacant) if room => {
                let offer = syn.options.alternate_checksum;
                self.half_open(listener, (key, vacant), (syn, offer), last, before_answer);
            }
            _ => self.send_cookie(listener, key, syn),
        }
    }

    /// Tells whether a listener keeps another half-open connection. Where the pool is low it does not: cookies cost nothing.
    #[inline(always)]
    pub(in crate::tcp) fn takes_half_open(&self, listener: u32) -> bool {
        let listener = self.stack.listeners.get(listener as usize);
        !self.pool.is_low() && matches!(listener, Some(Some(l)) if l.has_room())
    }

    /// Answers a SYN for a listener that has room; `before_answer` is done when it has been taken. The alternate checksum that it asks for is an argument of its own: a predicted one
    /// asks for none, and then nothing of it is compiled.
    #[inline(always)]
    pub(in crate::tcp) fn half_open(
        &mut self,
        listener: u32,
        (key, vacant): (FlowKey, Vacant),
        (syn, alternate_checksum): (&Syn, Option<u8>),
        last: Option<SeqNumber>,
        before_answer: impl FnOnce(&mut Self, usize),
    ) {
        let Ok(index) = self.open(key, vacant) else {
            cold_path();
            // What would return a cookie finds no place, either.
            return self.stack.counters.dropped(Drop::TableFull);
        };
        let stack = &mut *self.stack;
        let mut particular = false;
        if let Some(Some(l)) = stack.listeners.get_mut(listener as usize) {
            l.half_open += 1;
            particular = l.particular.is_some();
        }
        let tcb = &mut stack.tcbs[index];
        tcb.move_to(State::SynReceived);
        tcb.listener = listener;
        tcb.rare |= rare::UNACCEPTED;
        let iss = match (initial_sequence_number(vacant, self.now), last) {
            (iss, Some(last)) if iss.at_or_before(last) => last + 1,
            (iss, _) => iss,
        };
        if particular || self.stack.return_route.is_some() {
            cold_path();
            self.take_particular_syn(index, listener, syn);
        } else {
            self.take_syn(index, syn);
        }
        if let Some(number) = alternate_checksum {
            self.alternate_checksum_offered(index, number);
        }
        before_answer(self, index);
        if !self.begin(index, iss, |this| this.send_syn(index)) {
            cold_path();
            self.free_connection(index);
        }
    }

    /// Takes a peer's SYN where the listener was opened in a particular way, or the SYN came by one.
    #[cold]
    #[inline(never)]
    fn take_particular_syn(&mut self, index: usize, listener: u32, syn: &Syn) {
        let listener = self.stack.listeners.get(listener as usize);
        let particular = listener.and_then(|l| l.as_ref()?.particular);
        self.specify_passive(index, &particular);
        let key = self.stack.tcbs[index].key;
        let limited = particular.map_or(*syn, |own| own.limit(syn, key));
        self.take_syn(index, &limited);
    }

    /// The peer's SYN acknowledges ours (RFC 9293, 3.10.7.3): the connection stands, and the SYN is to be acknowledged.
    #[inline(always)]
    pub(in crate::tcp) fn syn_acknowledged(
        &mut self,
        index: usize,
        syn: &Syn,
        alternate_checksum: Option<u8>,
    ) {
        self.take_answer(index, syn, alternate_checksum);
        self.established(index);
        self.stack.tcbs[index].unacked = 1;
    }

    /// Takes in what the answer to our SYN says.
    #[inline(always)]
    pub(in crate::tcp) fn take_answer(
        &mut self,
        index: usize,
        syn: &Syn,
        alternate_checksum: Option<u8>,
    ) {
        self.take_syn(index, syn);
        if let Some(number) = alternate_checksum {
            self.alternate_checksum_answered(index, number);
        }
        self.acknowledged(index, syn.ack, None);
    }

    /// The handshake is complete.
    #[inline(always)]
    pub(crate) fn established(&mut self, index: usize) {
        let stack = &mut *self.stack;
        let tcb = &mut stack.tcbs[index];
        tcb.user_deadline = Deadline::NONE;
        tcb.backoff = 0;
        if tcb.retransmits != 0 {
            cold_path();
            // RFC 5681, 3.1: after the loss of a SYN the initial window is one segment.
            tcb.cwnd = u32::from(tcb.mss);
            // The peer's may be, too, and then it waits for each acknowledgment.
            tcb.acknowledge_quickly();
            // RFC 6298, 5.7: when the timer expired for a SYN, data begins with a timeout of 3 s.
            tcb.rto = ticks(AFTER_SYN_LOSS_RTO).min(stack.max_rto) as u16;
        } else {
            tcb.rtt.syn_acknowledged(self.now);
            if tcb.rtt.is_known() {
                tcb.rto = tcb.rtt.rto(stack.floor);
            }
        }
        // A SYN's window is not scaled (RFC 7323, 2.2). With a long MSS the peer has no room for a second segment.
        if tcb.rcv_edge - tcb.rcv_nxt < 2 * u32::from(tcb.mss) {
            cold_path();
            tcb.acknowledge_quickly();
        }
        tcb.move_to(if tcb.is(flag::FIN_QUEUED) {
            cold_path();
            State::FinWait1
        } else {
            State::Established
        });
        if tcb.is_rare(rare::UNACCEPTED) {
            stack.queue_to_accept(index);
        } else {
            self.notify(index, readiness::CONNECTED | readiness::WRITABLE);
        }
    }

    /// After [`Active::established`] on the general path: where our SYN was sent more than once, `echo`, the timestamp that the peer has
    /// answered, says which it was, so the round trip is known all the same (RFC 7323, 4.1). Such an answer is never predicted.
    pub(in crate::tcp) fn answered_after_loss(&mut self, index: usize, echo: Option<u32>) {
        let Stack {
            tcbs,
            config,
            floor,
            ..
        } = &mut *self.stack;
        let tcb = &mut tcbs[index];
        if tcb.retransmits == 0 {
            return;
        }
        if tcb.is(flag::TIMESTAMPS)
            && let Some(took) = echo.and_then(|echo| tcb.age_of(echo, self.now.tick()))
        {
            tcb.rtt.update(took);
            tcb.rto = tcb.rtt.rto(*floor);
        }
        if config.mechanisms.prediction != Prediction::Off {
            tcb.rare &= !rare::UNPREDICTED;
        }
        tcb.predict();
    }

    /// The MSS that a connection's SYN offers.
    pub(crate) fn offered_mss(&self, index: usize) -> u16 {
        let own = self.stack.max_segment(index).unwrap_or(u16::MAX);
        self.mss_for(self.stack.tcbs[index].key).min(own)
    }

    /// The MSS that we offer: what fits into a packet without options (RFC 9293, 3.7.1; RFC 6691), and that into a frame.
    pub(crate) fn our_mss(&self) -> u16 {
        self.pool.bound_mtu(self.stack.mtu) - 40
    }

    /// The MSS that we offer to the peer of this key.
    pub(crate) fn mss_for(&self, key: FlowKey) -> u16 {
        match key.pair() {
            None => self.our_mss(),
            // RFC 8200, 8.3: of the link, since the peer's packets may come another way.
            Some(_) => self.pool.bound_mtu(self.stack.ipv6.mtu) - 60,
        }
    }

    /// Answers a SYN without keeping anything. Where what returns the cookie could not be queued it is not answered at all, so that the
    /// client tries again: one that has its answer would wait for ever where the server is to speak first.
    fn send_cookie(&mut self, listener: u32, key: FlowKey, syn: &Syn) {
        self.stack.counters.dropped(Drop::SynBacklog);
        let listener = self.stack.listeners.get(listener as usize);
        let listener = listener.and_then(Option::as_ref);
        if !listener.is_some_and(|l| l.may_queue()) {
            return;
        }
        self.stack.counters.syn_cookies_sent += 1;
        let tick = self.now.tick();
        let most = listener.and_then(|l| l.particular?.max_segment());
        let our_mss = self.mss_for(key).min(most.unwrap_or(u16::MAX));
        let options = &syn.options;
        let mss = options.mss.unwrap_or_else(|| default_mss(key));
        let label = self.stack.label_of(key);
        let seq = self
            .stack
            .cookies
            .make(&self.stack.secrets, label, syn.seq, mss, self.now);
        let config = &self.stack.config;
        let shift = options.window_scale.filter(|_| config.window_scaling);
        let stamps = options
            .timestamps
            .filter(|_| config.timestamps)
            .map(|t| Timestamps {
                value: cookie::stamp(tick.0, shift)
                    .wrapping_add(self.stack.secrets.timestamp_offset(label)),
                echo: t.value,
            });
        let answer = Header {
            source_port: ports_of(key).1,
            destination_port: ports_of(key).0,
            seq,
            ack: syn.seq + 1,
            header_len: 0,
            flags: Flags::SYN | Flags::ACK,
            window: config.receive_buffer.min(0xffff) as u16,
            urgent: 0,
            accurate_ecn: false,
            options: Options {
                mss: Some(our_mss),
                // Without timestamps there is nowhere to keep the shift.
                window_scale: (stamps.is_some() && shift.is_some())
                    .then_some(config.window_shift()),
                timestamps: stamps,
                ..Options::default()
            },
        };
        self.send_unconnected(key, &answer);
    }

    /// Makes a connection of an acknowledgment that returns one of our cookies.
    pub(in crate::tcp) fn open_from_cookie(
        &mut self,
        listener: u32,
        key: FlowKey,
        header: &Header,
    ) -> Returned {
        let Some(mss) = self.stack.cookies.check(
            &self.stack.secrets,
            self.stack.label_of(key),
            header.seq - 1,
            header.ack - 1,
            self.now,
        ) else {
            return Returned::NoCookie;
        };
        let Some(particular) = self.stack.listeners[listener as usize]
            .as_ref()
            .and_then(|l| l.may_queue().then_some(l.particular))
        else {
            return Returned::NoRoom;
        };
        let Search::Vacant(vacant) = self.stack.search(key) else {
            return Returned::NoCookie;
        };
        let Ok(index) = self.open(key, vacant) else {
            return Returned::NoRoom;
        };
        self.stack.label_flow(index);
        self.specify_passive(index, &particular);
        let ts_offset = self.stack.tcbs[index].ts_offset;
        let stamps = header.options.timestamps;
        let shift = stamps.and_then(|t| cookie::shift_in(t.echo.wrapping_sub(ts_offset)));
        let syn = Syn {
            seq: header.seq - 1,
            ack: header.ack,
            window: header.window,
            options: Options {
                mss: Some(mss),
                window_scale: shift,
                timestamps: stamps,
                ..Options::default()
            },
            ecn: Setup::NONE,
        };
        let syn = particular.map_or(syn, |own| own.limit(&syn, key));
        self.take_syn(index, &syn);
        let look = self.now.tick().after(LOOK);
        self.stack.wheel.insert(index as u32, look);
        self.stack.tcbs[index].armed = look;
        let iss = header.ack - 1;
        let tcb = &mut self.stack.tcbs[index];
        tcb.move_to(State::SynReceived);
        tcb.listener = listener;
        tcb.rare |= rare::UNACCEPTED;
        tcb.iss = iss;
        tcb.snd_una = iss + 1;
        tcb.snd_nxt = iss + 1;
        tcb.snd_end = iss + 1;
        tcb.snd_wnd = u32::from(header.window) << tcb.snd_shift;
        tcb.max_snd_wnd = tcb.snd_wnd;
        let stack = &mut *self.stack;
        if let Some(l) = stack.listeners[listener as usize].as_mut() {
            l.half_open += 1;
        }
        self.stack.counters.syn_cookies_accepted += 1;
        self.stack.keep_checksums(index, Agreement::Cookie);
        self.established(index);
        Returned::Connection(index)
    }
}
