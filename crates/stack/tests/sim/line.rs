//! A server, its client and a flood on one line of a stated rate, in virtual time.
//!
//! Client and server have a pool each, so that the server's frames are its own. Between them lies a full duplex line that
//! takes time for every frame by its length. The flood's frames share the direction to the server with the client's. The
//! server's answers to made-up hosts take their time on the line, and only the flood hears them.

use crate::common::{MTU, PORT, config};
use crate::craft;
use crate::scene::{A, B, victim};
use std::collections::VecDeque;
use std::net::{SocketAddr, SocketAddrV4};
use tollgate_stack::{
    Active, Config, ConnId, Error, Frame, Instant, Link, ListenerId, Pool, Received, SocketOption,
    Stack, State,
};
use tollgate_wire::ethernet::{self, EtherType};
use tollgate_wire::tcp::{Flags, Header};
use tollgate_wire::{SeqNumber, arp, icmp, ipv4};

/// Bits per second of the line, in each direction.
pub const LINE_RATE: u64 = 1_000_000_000;
/// Frame times from one frame of a flood to the next: a flood takes a tenth of the line.
pub const FLOOD_INTERVAL_FRAMES: u64 = 10;
/// Nanoseconds from one end of the line to the other, beside the time that a frame takes to be sent.
pub const PROPAGATION: u64 = 10_000;
/// Bytes that wait for each direction of the line; a frame that finds them full is lost.
pub const LINE_QUEUE: u64 = 256 * 1024;
/// Frames that wait in front of a host whose pool is empty; a frame that finds them full is lost.
pub const RING: usize = 256;
/// Frames of the server's pool.
pub const FRAMES: usize = 1024;
/// Frames of a flood: ten times the pool.
pub const FLOOD: u32 = 10 * FRAMES as u32;
/// Bytes of a request, and of its response.
pub const MESSAGE: usize = 64;

pub const MILLISECOND: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;

/// Nanoseconds that a frame of `len` bytes takes on the line (IEEE 802.3: at least 60 bytes, then the frame check sequence of
/// 4 bytes, preamble and delimiter of 8 and the gap of 12).
const fn frame_time(len: usize) -> u64 {
    let len = if len < 60 { 60 } else { len };
    (len as u64 + 24) * 8 * SECOND / LINE_RATE
}

/// Bytes of a flood's longest frame: a segment with a timestamp and without payload.
const FLOOD_FRAME: usize = 14 + 20 + 32;
/// Nanoseconds between two frames of a flood.
pub const FLOOD_INTERVAL: u64 = FLOOD_INTERVAL_FRAMES * frame_time(FLOOD_FRAME);
/// Nanoseconds that a flood lasts.
pub const FLOOD_TIME: u64 = FLOOD as u64 * FLOOD_INTERVAL;

/// One direction of the line.
#[derive(Debug, Default)]
struct Direction {
    free_at: u64,
    on_way: VecDeque<(u64, Vec<u8>)>,
    lost: u64,
}

impl Direction {
    fn send(&mut self, now: u64, frame: Vec<u8>) {
        let waiting = self.free_at.saturating_sub(now) * LINE_RATE / (8 * SECOND);
        if waiting > LINE_QUEUE {
            self.lost += 1;
            return;
        }
        self.free_at = self.free_at.max(now) + frame_time(frame.len());
        self.on_way.push_back((self.free_at + PROPAGATION, frame));
    }

    fn arrival(&self) -> Option<u64> {
        self.on_way.front().map(|&(at, _)| at)
    }

    fn arrived(&mut self, now: u64) -> Option<Vec<u8>> {
        let (_, frame) = self.on_way.pop_front_if(|&mut (at, _)| at <= now)?;
        Some(frame)
    }
}

/// A stack, its pool, and its end of the line.
pub struct Host {
    pub stack: Stack,
    pub pool: Pool,
    /// Frames of the pool that were free when there were fewest.
    pub least: usize,
    /// Frames that were lost because the pool was empty for too long.
    pub starved: u64,
    /// The line takes nothing.
    pub blocked: bool,
    ring: VecDeque<Vec<u8>>,
}

/// A host's end of the line: bytes go in and out.
struct LineEnd<'a> {
    ring: &'a mut VecDeque<Vec<u8>>,
    out: Vec<Vec<u8>>,
    blocked: bool,
}

impl Link for LineEnd<'_> {
    fn mtu(&self) -> usize {
        MTU
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        if !self.blocked {
            for frame in frames.drain(..) {
                self.out.push(pool.frame(&frame).to_vec());
                pool.release(frame.id);
            }
        }
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        while let Some(front) = self.ring.front()
            && let Ok(frame) = pool.frame_from(front)
        {
            frames.push(frame);
            self.ring.pop_front();
        }
    }
}

impl Host {
    fn new(config: Config, frames: usize, now: u64) -> Self {
        Self {
            stack: Stack::new(config, MTU, Instant::from_nanos(now)).expect("the configuration"),
            pool: Pool::new(frames, Pool::frame_size_for(MTU)),
            least: frames,
            starved: 0,
            blocked: false,
            ring: VecDeque::new(),
        }
    }

    fn arrive(&mut self, frame: Vec<u8>) {
        if self.ring.len() < RING {
            self.ring.push_back(frame);
        } else {
            self.starved += 1;
        }
    }

    /// Polls the stack once and returns what it sent.
    fn poll(&mut self, now: u64) -> Vec<Vec<u8>> {
        let mut end = LineEnd {
            ring: &mut self.ring,
            out: Vec::new(),
            blocked: self.blocked,
        };
        self.stack
            .at(Instant::from_nanos(now), &mut self.pool)
            .poll(&mut end);
        self.least = self.least.min(self.pool.available());
        end.out
    }

    fn deadline(&self, now: u64) -> u64 {
        // A deadline that has come is one for the next tick (2^20 ns): this host was polled just now.
        self.stack
            .next_deadline(Instant::from_nanos(now))
            .map_or(u64::MAX, |at| at.as_nanos().max(now + (1 << 20)))
    }

    fn send(&mut self, now: u64, conn: ConnId, owed: &mut Vec<u8>) {
        if owed.is_empty() {
            return;
        }
        let sent = self
            .stack
            .at(Instant::from_nanos(now), &mut self.pool)
            .send(conn, owed);
        match sent {
            Ok(taken) => {
                assert_eq!(taken, owed.len(), "a message is one segment");
                owed.clear();
            }
            Err(error) => assert_eq!(error, Error::WouldBlock),
        }
    }

    fn receive(&mut self, now: u64, conn: ConnId, into: &mut Vec<u8>) {
        let mut buffer = [0; 4096];
        let mut stack = self.stack.at(Instant::from_nanos(now), &mut self.pool);
        while let Ok(Received::Data(n)) = stack.receive(conn, &mut buffer) {
            into.extend_from_slice(&buffer[..n]);
        }
    }
}

/// Everything that a flood hears of the line.
#[derive(Debug, Default)]
pub struct Heard {
    /// The header of the last segment of the measured connection to the server.
    pub client: Option<Header>,
    /// The header of the last segment that the server sent to a made-up host.
    pub answer: Option<Header>,
    /// The sequence number of the last SYN among them.
    pub iss: Option<SeqNumber>,
    /// ICMP errors that the server sent to made-up hosts.
    pub icmp_errors: u64,
}

/// The frame of a flood, from its number and what was heard on the line.
pub type Make = Box<dyn FnMut(u32, &Heard) -> Vec<u8>>;

struct Flood {
    make: Make,
    interval: u64,
    next_at: u64,
    sent: u32,
}

/// The measured connection, on which requests and responses take turns.
struct Trips {
    client: ConnId,
    server: ConnId,
    /// Bytes that client and server have yet to send.
    owed: [Vec<u8>; 2],
    answer: Vec<u8>,
    done: u64,
    /// A request has been made and its response has not come.
    outstanding: bool,
    /// The client makes the next request when a response has come.
    asking: bool,
}

impl Trips {
    fn request(number: u64) -> Vec<u8> {
        number.to_be_bytes().repeat(MESSAGE / 8)
    }
}

/// A server with more room for connections than a flood has frames.
pub fn roomy() -> Config {
    let mut server = victim();
    server.max_connections = 16_384;
    server
}

/// A server that is flooded, its client, and the line between them.
pub struct World {
    pub now: u64,
    pub client: Host,
    pub server: Host,
    pub listener: ListenerId,
    /// Connections that the server has accepted beside the measured one, and their peers.
    pub accepted: Vec<(SocketAddr, ConnId)>,
    /// Connections that the client has opened beside the measured one.
    opened: Vec<ConnId>,
    /// The server accepts connections as they come.
    pub accepting: bool,
    pub heard: Heard,
    to_client: Direction,
    to_server: Direction,
    trips: Trips,
    flood: Option<Flood>,
}

impl World {
    /// A server with a pool of [`FRAMES`] frames, a client that is its router as well, and a connection between them.
    pub fn new(backlog: u16) -> Self {
        Self::with(roomy(), FRAMES, backlog)
    }

    /// A world with this configuration of the server and so many frames in its pool.
    pub fn with(server: Config, frames: usize, backlog: u16) -> Self {
        let now = 1 << 40;
        let mut client = Host::new(config(1), 4096, now);
        let mut server = Host::new(server, frames, now);
        let at = Instant::from_nanos(now);
        let listener = server.stack.at(at, &mut server.pool).listen(PORT, backlog);
        let conn = client
            .stack
            .at(at, &mut client.pool)
            .connect(SocketAddrV4::new(B, PORT))
            .expect("a connection");
        let mut world = Self {
            now,
            client,
            server,
            listener: listener.expect("the port is free"),
            accepted: Vec::new(),
            opened: Vec::new(),
            accepting: true,
            heard: Heard::default(),
            to_client: Direction::default(),
            to_server: Direction::default(),
            trips: Trips {
                client: conn,
                server: conn,
                owed: [Vec::new(), Vec::new()],
                answer: Vec::new(),
                done: 0,
                outstanding: false,
                asking: false,
            },
            flood: None,
        };
        world.pass(10 * MILLISECOND);
        let (_, server) = world.accepted.pop().expect("the handshake is complete");
        world.trips.server = server;
        for (host, conn) in [(true, conn), (false, server)] {
            let mut stack = if host { world.client() } else { world.server() };
            let set = stack.set_option(conn, SocketOption::NoDelay(true));
            set.expect("the connection is there");
        }
        world
    }

    pub fn client(&mut self) -> Active<'_> {
        self.client
            .stack
            .at(Instant::from_nanos(self.now), &mut self.client.pool)
    }

    pub fn server(&mut self) -> Active<'_> {
        self.server
            .stack
            .at(Instant::from_nanos(self.now), &mut self.server.pool)
    }

    /// The measured connection: the client's handle and the server's.
    pub fn measured(&self) -> (ConnId, ConnId) {
        (self.trips.client, self.trips.server)
    }

    /// Opens another connection to the server.
    pub fn connect(&mut self) -> ConnId {
        let conn = self.client().connect(SocketAddrV4::new(B, PORT));
        let conn = conn.expect("a connection");
        self.opened.push(conn);
        self.work_client();
        conn
    }

    /// The server's handle of the client's connection `conn`, once it has accepted it.
    pub fn accepted_as(&mut self, conn: ConnId) -> Option<ConnId> {
        let local = self.client().info(conn).ok()?.local;
        let (_, conn) = self.accepted.iter().find(|&&(from, _)| from == local)?;
        Some(*conn)
    }

    /// Begins a flood of `make`'s frames towards the server, one every [`FLOOD_INTERVAL`].
    pub fn begin_flood(&mut self, make: Make) {
        self.begin_flood_every(FLOOD_INTERVAL, make);
    }

    /// Begins a flood of `make`'s frames towards the server, one every `interval` nanoseconds.
    pub fn begin_flood_every(&mut self, interval: u64, make: Make) {
        self.flood = Some(Flood {
            make,
            interval,
            next_at: self.now + interval,
            sent: 0,
        });
    }

    /// Ends the flood; returns how many frames of it were sent.
    pub fn end_flood(&mut self) -> u32 {
        self.flood.take().map_or(0, |flood| flood.sent)
    }

    /// Lets requests and responses take turns for `nanos`; returns how many round trips were completed.
    pub fn round_trips(&mut self, nanos: u64) -> u64 {
        let before = self.trips.done;
        self.trips.asking = true;
        self.pass(nanos);
        self.trips.asking = false;
        self.trips.done - before
    }

    /// Lets time pass: frames arrive, timers fire, the flood goes on.
    pub fn pass(&mut self, nanos: u64) {
        let end = self.now + nanos;
        self.work_client();
        self.work_server();
        let mut deadlines = [
            self.client.deadline(self.now),
            self.server.deadline(self.now),
        ];
        loop {
            let arrivals = [self.to_client.arrival(), self.to_server.arrival()];
            let flood = self.flood.as_ref().map(|flood| flood.next_at);
            let next = arrivals
                .into_iter()
                .chain([flood])
                .flatten()
                .chain(deadlines)
                .min();
            let Some(next) = next.filter(|&next| next <= end) else {
                self.now = end;
                return;
            };
            self.now = next;
            self.send_flood();
            let mut due = deadlines.map(|deadline| deadline <= next);
            while let Some(frame) = self.to_client.arrived(next) {
                due[0] |= self.at_client_end(frame);
            }
            while let Some(frame) = self.to_server.arrived(next) {
                self.server.arrive(frame);
                due[1] = true;
            }
            if due[0] {
                self.work_client();
                deadlines[0] = self.client.deadline(self.now);
            }
            if due[1] {
                self.work_server();
                deadlines[1] = self.server.deadline(self.now);
            }
        }
    }

    /// Lets the server work now.
    pub fn work_server(&mut self) {
        // The application's calls may ask for another poll, and so may a delayed acknowledgment of a FIN.
        for _ in 0..4 {
            for frame in self.server.poll(self.now) {
                self.to_client.send(self.now, frame);
            }
            self.serve();
            let waits = self.server.stack.device_queue_len() > 0;
            let due = self
                .server
                .stack
                .next_deadline(Instant::from_nanos(self.now));
            if !waits && due.is_none_or(|at| at.as_nanos() > self.now) {
                return;
            }
        }
    }

    /// Lets the client work now.
    pub fn work_client(&mut self) {
        for _ in 0..4 {
            for frame in self.client.poll(self.now) {
                self.overhear(&frame);
                self.to_server.send(self.now, frame);
            }
            self.ask();
            let waits = self.client.stack.device_queue_len() > 0;
            let due = self
                .client
                .stack
                .next_deadline(Instant::from_nanos(self.now));
            if !waits && due.is_none_or(|at| at.as_nanos() > self.now) {
                return;
            }
        }
    }

    /// The server's application: it accepts, answers the measured connection, and leaves the others alone.
    fn serve(&mut self) {
        let listener = self.listener;
        while self.accepting
            && let Ok(conn) = self.server().accept(listener)
        {
            let from = self.server().info(conn).expect("it is there").remote;
            self.accepted.push((from, conn));
        }
        let trips = &mut self.trips;
        if trips.outstanding {
            let owed = &mut trips.owed[1];
            self.server.receive(self.now, trips.server, owed);
            // A response goes when its request is whole.
            if owed.len() >= MESSAGE {
                self.server.send(self.now, trips.server, owed);
            }
        }
    }

    /// The client takes responses and makes requests; it reads nothing before the first one.
    fn ask(&mut self) {
        let trips = &mut self.trips;
        if trips.outstanding {
            self.client
                .receive(self.now, trips.client, &mut trips.answer);
        }
        if trips.answer.len() >= MESSAGE {
            assert_eq!(trips.answer, Trips::request(trips.done));
            trips.answer.clear();
            trips.done += 1;
            trips.outstanding = false;
        }
        if trips.asking && !trips.outstanding {
            trips.owed[0] = Trips::request(trips.done);
            trips.outstanding = true;
        }
        let trips = &mut self.trips;
        self.client.send(self.now, trips.client, &mut trips.owed[0]);
    }

    fn send_flood(&mut self) {
        while let Some(flood) = &mut self.flood
            && flood.next_at <= self.now
        {
            let frame = (flood.make)(flood.sent, &self.heard);
            assert!(
                frame.len() <= FLOOD_FRAME,
                "the flood takes a tenth at most"
            );
            flood.sent += 1;
            flood.next_at += flood.interval;
            self.to_server.send(self.now, frame);
        }
    }

    /// Notes what a flood may know of the measured connection.
    fn overhear(&mut self, frame: &[u8]) {
        let measured = self.trips.client;
        if let Some((_, header, _)) = craft::parse_tcp(frame)
            && let Ok(info) = self.client().info(measured)
            && header.source_port == info.local.port()
        {
            self.heard.client = Some(header);
        }
    }

    /// A frame at the client's end of the line. Returns whether it is the client's.
    fn at_client_end(&mut self, frame: Vec<u8>) -> bool {
        let link = ethernet::Header::parse(&frame).expect("an Ethernet header");
        let payload = &frame[ethernet::HEADER_LEN..];
        let to = match link.ethertype {
            EtherType::Arp => arp::Packet::parse(payload).expect("ARP").target_ip,
            _ => ipv4::Header::parse(payload).expect("IPv4").destination,
        };
        if to == A {
            self.client.arrive(frame);
            return true;
        }
        if let Some((_, header, _)) = craft::parse_tcp(&frame) {
            if header.flags.has(Flags::SYN) {
                self.heard.iss = Some(header.seq);
            }
            self.heard.answer = Some(header);
        }
        if link.ethertype == EtherType::Ipv4
            && payload[9] == ipv4::protocol::ICMP
            && let Ok(icmp::Message::DestinationUnreachable(_)) =
                icmp::Message::parse(&payload[ipv4::HEADER_LEN..])
        {
            self.heard.icmp_errors += 1;
        }
        false
    }

    /// Closes what is open, lets everything time out, and says that every frame is back in both pools.
    #[track_caller]
    pub fn ends_well(mut self) {
        self.end_flood();
        self.pass(SECOND);
        let (client, server) = self.measured();
        assert_eq!(self.client().close(client), Ok(()));
        self.pass(SECOND);
        // The last request may never have been read.
        let mut rest = Vec::new();
        self.server.receive(self.now, server, &mut rest);
        assert_eq!(self.server().close(server), Ok(()));
        for (_, conn) in std::mem::take(&mut self.accepted) {
            if self.server().state(conn) != State::Closed {
                assert_eq!(self.server().abort(conn), Ok(()));
            }
        }
        for conn in std::mem::take(&mut self.opened) {
            // Its end may have been told already.
            let _ = self.client().abort(conn);
        }
        self.work_server();
        self.work_client();
        // Longer than the user timeout, the longest of all, and TIME-WAIT.
        self.pass(1200 * SECOND);
        let open = [&self.client, &self.server].map(|host| host.stack.connections());
        assert_eq!(open, [0, 0], "connections are left");
        let held =
            [&self.client, &self.server].map(|host| host.pool.capacity() - host.pool.available());
        assert_eq!(held, [0, 0], "frames are held");
    }
}
