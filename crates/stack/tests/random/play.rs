//! Plays a script against one stack and records everything that the stack sends and answers.

use super::craft;
use super::ipv6;
use super::marks::CE;
use super::peer::{self, Peer, pattern};
use super::script::{Call, Opening, Script, Step};
use super::trace::{Trace, Way};
use super::wire::{MTU, Wire};
use std::net::SocketAddr;
use std::time::Duration;
use tollgate_stack::config::{Mechanisms, Nagle};
use tollgate_stack::link::Integrity;
use tollgate_stack::socket::{KeepAlive, Readiness};
use tollgate_stack::{
    Active, Config, ConnId, Error, Event, Instant, ListenerId, Open, Pool, Received, SocketOption,
    Stack, State,
};
use tollgate_wire::tcp::Flags;

/// Frames of the pool: more than any script holds, so that no run depends on where frames are held.
const FRAMES: usize = 2048;
/// Polls in one step of the clock. A keepalive of 200 ms for 200 s asks for a thousand.
const POLLS: usize = 4000;

/// An action of a stack, and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It sent a frame.
    Sent(Vec<u8>),
    /// A call returned so many bytes, or an error.
    Returned(&'static str, Result<usize, Error>),
    /// A read found these bytes.
    Read(Vec<u8>),
    /// A read found the end.
    End,
    /// An event told of these kinds of readiness.
    Event(u8),
    /// The connection changed its state.
    State(State),
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            posts: true,
            consistency: false,
            trace: false,
            completes: false,
            drains: false,
        }
    }
}

/// Bytes that one application got of one connection.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Stream {
    pub bytes: Vec<u8>,
    pub ended: bool,
    pub error: Option<Error>,
}

/// Everything that a stack did.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub deeds: Vec<(Instant, Deed)>,
    /// Segments that the peer sent: sequence number, length, and which of SYN, FIN and RST. The peer answers what the
    /// stack sends, so they differ between two runs whose windows differ.
    pub heard: Vec<(u32, u16, Flags)>,
    /// Streams that the applications got, connection by connection.
    pub streams: Vec<Stream>,
    /// The first contradiction in the stack's own records, when it was looked for.
    pub inconsistency: Option<String>,
    /// Bytes that came to a reader and are not those of the stream.
    pub wrong: Option<String>,
    pub predicted: u64,
    /// Frames whose checksum the link has completed.
    pub completed: u64,
}

impl Record {
    /// Tells whether a connection has timed out, or ended otherwise.
    pub fn ends(&self) -> bool {
        let timed_out = |stream: &Stream| stream.error == Some(Error::TimedOut);
        let closed = |(_, deed): &(Instant, Deed)| matches!(deed, Deed::State(State::Closed));
        self.streams.iter().any(timed_out) || self.deeds.iter().any(closed)
    }
}

/// Options of a script's play.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// Readers post their buffers where the script says so. Otherwise they poll and read.
    pub posts: bool,
    /// The stack is asked after each step whether it contradicts itself.
    pub consistency: bool,
    /// Every frame and call is printed.
    pub trace: bool,
    /// The link completes checksums where the mechanisms ask for it.
    pub completes: bool,
    /// Takes all buffers that there are: how many segments one holds depends on when they were acknowledged.
    pub drains: bool,
}

struct Player {
    stack: Stack,
    pool: Pool,
    wire: Wire,
    now: Instant,
    listener: ListenerId,
    peer: Peer,
    conn: Option<ConnId>,
    state: State,
    /// Bytes that the application has sent on the connection, and received.
    written: u32,
    read: u32,
    /// A reader has posted its buffer since events were looked at.
    posted: bool,
    /// A stray SYN may have begun a connection whose stream begins anywhere.
    strayed: bool,
    connections: u32,
    record: Record,
    watch: Watch,
    trace: Option<Trace>,
}

/// Plays a script against a stack with these mechanisms.
pub fn play(script: &Script, mechanisms: Mechanisms, watch: Watch) -> Record {
    let mut player = Player::new(script, mechanisms, watch);
    player.open(script, script.setup.opening, script.setup.answer_after);
    for (n, step) in script.steps.iter().enumerate() {
        if watch.trace {
            println!("{n:>4} {step:?}");
        }
        player.step(script, step);
        player.after_step();
    }
    player.record.predicted = player.stack.counters().predicted;
    player.record.completed = player.wire.completed;
    player.record
}

impl Player {
    fn new(script: &Script, mechanisms: Mechanisms, watch: Watch) -> Self {
        let setup = &script.setup;
        let seed = [setup.seed, 2, 3, 4];
        let mut config = Config::new(peer::STACK_MAC, peer::STACK, 24, seed);
        config.max_connections = 8;
        config.max_time_wait = 8;
        config.timestamps = setup.timestamps.0;
        config.window_scaling = setup.scaling.0;
        config.receive_buffer = setup.receive_buffer;
        config.send_buffer = 64 * 1024;
        config.mechanisms = mechanisms;
        config.ipv6 = setup.ipv6.then(ipv6::config);
        if !setup.no_delay {
            config.mechanisms.nagle = Nagle::On;
        }
        let now = Instant::from_nanos(1 << 40);
        let mut pool = Pool::new(FRAMES, Pool::frame_size_for(MTU));
        let mut wire = ipv6::wire(setup.ipv6);
        wire.willing = watch.completes;
        let config = Config {
            // That of the link is what redundancy avoidance asks for.
            integrity: Integrity::Crc,
            ..config.for_link(&mut wire)
        };
        let mut stack = Stack::new(config, MTU, now).expect("the configuration is valid");
        let mut active = stack.at(now, &mut pool);
        active.add_neighbour(peer::PEER, peer::PEER_MAC);
        if setup.ipv6 {
            active.add_neighbour(ipv6::PEER_V6, peer::PEER_MAC);
        }
        let listener = active.listen(peer::PORT, 4).expect("the port is free");
        Self {
            stack,
            pool,
            wire,
            now,
            listener,
            peer: Peer::new(setup, 40_000, 0),
            conn: None,
            state: State::Closed,
            written: 1,
            read: 1,
            posted: false,
            strayed: false,
            connections: 0,
            record: Record::default(),
            watch,
            trace: watch.trace.then(|| Trace::new(now)),
        }
    }

    fn at(&mut self) -> Active<'_> {
        self.stack.at(self.now, &mut self.pool)
    }

    fn note(&mut self, deed: Deed) {
        if self.watch.trace && !matches!(deed, Deed::Sent(_)) {
            match &deed {
                Deed::Read(bytes) => println!("{:>18} reads {} bytes", "", bytes.len()),
                other => println!("{:>18} {other:?}", ""),
            }
        }
        self.record.deeds.push((self.now, deed));
    }

    fn poll(&mut self) {
        self.stack.at(self.now, &mut self.pool).poll(&mut self.wire);
        self.hear();
    }

    /// The peer takes in what the stack sent.
    fn hear(&mut self) {
        // What a segment made due may wait for the next turn's flush.
        self.stack
            .at(self.now, &mut self.pool)
            .flush(&mut self.wire);
        let mut answered = false;
        for raw in std::mem::take(&mut self.wire.from_stack) {
            if let Some(trace) = &mut self.trace {
                trace.frame(self.now, 0, Way::Sends, &raw);
            }
            if let Some((ip, header, payload)) = craft::parse_tcp(&raw) {
                self.peer.hear(&header, ip.tos & CE, payload.len());
            } else if let Some(answer) = peer::link_answer(&raw) {
                self.wire.to_stack.push(answer);
                answered = true;
            }
            self.note(Deed::Sent(raw));
        }
        if answered {
            self.poll();
        }
    }

    fn put(&mut self, raw: Vec<u8>) {
        if let Some(trace) = &mut self.trace {
            trace.frame(self.now, 0, Way::Gets, &raw);
        }
        if let Some((_, header, payload)) = craft::parse_tcp(&raw) {
            let marks = header.flags.0 & (Flags::SYN | Flags::FIN | Flags::RST).0;
            let len = payload.len() as u16;
            self.record.heard.push((header.seq.0, len, Flags(marks)));
        }
        self.wire.to_stack.push(raw);
    }

    fn inject(&mut self, raw: Vec<u8>) {
        self.put(raw);
        self.poll();
    }

    /// A handshake. Where the stack does not take part in it, it is no worse than any other segment.
    fn open(&mut self, script: &Script, opening: Opening, answer_after: u64) {
        self.connections += 1;
        self.record.streams.push(Stream::default());
        (self.written, self.read) = (1, 1);
        if opening == Opening::Passive {
            let syn = self.peer.syn(self.now, false);
            self.inject(syn);
            self.pass(answer_after);
        } else {
            let to = SocketAddr::new(ipv6::peer(script.setup.ipv6), self.peer.port);
            let opened = match script.setup.early {
                None => self.at().connect(to).map(|conn| (conn, 0)),
                Some((bytes, _)) => {
                    let data: Vec<u8> = (1..=bytes).map(pattern).collect();
                    let open = Open::default();
                    self.at().connect_with_data(to, &open, &data)
                }
            };
            match opened {
                Ok((conn, taken)) => {
                    self.conn = Some(conn);
                    self.written += taken as u32;
                }
                Err(error) => self.note(Deed::Returned("connect", Err(error))),
            }
            self.poll();
            self.pass(answer_after);
            if opening == Opening::Simultaneous {
                let syn = self.peer.syn(self.now, false);
                self.inject(syn);
            }
        }
        if self.peer.knows_stack() {
            let answer = match opening {
                Opening::Passive => self.peer.complete(self.now),
                Opening::Active | Opening::Simultaneous => self.peer.syn(self.now, true),
            };
            self.inject(answer);
        }
        if script.setup.answer_after > 1_000_000_000 {
            // After so long either side may have repeated itself.
            self.pass(1_000_000);
        }
        self.after_step();
    }

    fn step(&mut self, script: &Script, step: &Step) {
        match *step {
            Step::Segment(segment) => {
                let raw = self.peer.segment(self.now, &segment);
                if segment.waits {
                    self.put(raw);
                } else {
                    self.inject(raw);
                }
            }
            Step::Repeat(back) => {
                if let Some(raw) = self.peer.repeat(back) {
                    self.strayed |= raw
                        .get(47)
                        .is_some_and(|flags| Flags(*flags).has(Flags::SYN));
                    self.inject(raw);
                }
            }
            Step::Reset(off) => {
                let raw = self.peer.stray(Flags::RST, i32::from(off));
                self.inject(raw);
            }
            Step::Syn(off) => {
                self.strayed = true;
                let raw = self.peer.stray(Flags::SYN, i32::from(off));
                self.inject(raw);
            }
            Step::Deaf(frames) => self.peer.deaf = frames,
            Step::Call(call) => self.call(&call),
            Step::Pass(nanos) => self.pass(nanos),
            Step::Open(opening, same) => {
                if matches!(self.state, State::Closed | State::TimeWait) {
                    self.call(&Call::Close);
                }
                if self.conn.is_none() {
                    let port = self.peer.port + u16::from(!same);
                    self.peer = Peer::new(&script.setup, port, self.connections);
                    self.open(script, opening, 100_000);
                }
            }
        }
    }

    /// Lets time pass from deadline to deadline.
    fn pass(&mut self, nanos: u64) {
        let end = Instant::from_nanos(self.now.as_nanos() + nanos);
        for _ in 0..POLLS {
            let Some(next) = self.stack.next_deadline(self.now) else {
                break;
            };
            if next > end {
                break;
            }
            if next > self.now {
                self.now = next;
            } else {
                // What is due now was done, or waits for another turn.
                self.poll();
                if self
                    .stack
                    .next_deadline(self.now)
                    .is_some_and(|at| at <= self.now)
                {
                    let tick = Instant::from_nanos(((self.now.as_nanos() >> 20) + 1) << 20);
                    self.now = tick.min(end);
                }
            }
            self.poll();
        }
        self.now = end;
        self.poll();
    }

    fn call(&mut self, call: &Call) {
        let Some(conn) = self.conn else { return };
        let mut buffer = [0; 4096];
        match *call {
            Call::Send(len) => {
                let data: Vec<u8> = (self.written..self.written + len).map(pattern).collect();
                let sent = self.at().send(conn, &data);
                self.written += sent.map_or(0, |taken| taken as u32);
                self.note(Deed::Returned("send", sent));
            }
            Call::SendBuffer(len) => self.send_buffer(conn, len),
            Call::Receive(len) => {
                let found = self.at().receive(conn, &mut buffer[..usize::from(len)]);
                self.found(found, &buffer);
            }
            Call::PollReceive(len) if !self.watch.posts => {
                self.poll();
                let found = self.at().receive(conn, &mut buffer[..usize::from(len)]);
                self.found(found, &buffer);
            }
            Call::PollReceive(len) => {
                self.posted = true;
                let found = self.stack.at(self.now, &mut self.pool).poll_receive(
                    &mut self.wire,
                    conn,
                    &mut buffer[..usize::from(len)],
                );
                self.found(found, &buffer);
                self.hear();
            }
            Call::ReceiveBuffer => match self.at().receive_buffer(conn) {
                Ok(Some(buffer)) => {
                    let raw = self.pool.payload(&buffer).to_vec();
                    self.pool.free(buffer);
                    self.found(Ok(Received::Data(raw.len())), &raw);
                    if self.watch.drains {
                        return self.call(call);
                    }
                }
                Ok(None) => self.found(Ok(Received::End), &[]),
                Err(Error::WouldBlock) => self.found(Ok(Received::Nothing), &[]),
                Err(error) => self.found(Err(error), &[]),
            },
            Call::Shutdown => {
                let done = self.at().shutdown(conn).map(|()| 0);
                self.note(Deed::Returned("shutdown", done));
            }
            Call::Close => {
                let done = self.at().close(conn).map(|()| 0);
                self.conn = None;
                self.note(Deed::Returned("close", done));
            }
            Call::Abort => {
                let done = self.at().abort(conn).map(|()| 0);
                self.conn = None;
                self.note(Deed::Returned("abort", done));
            }
            Call::NoDelay(on) => self.set(conn, SocketOption::NoDelay(on)),
            Call::KeepAlive(idle, interval, count) => {
                let ms = |ms: u32| Duration::from_millis(u64::from(ms));
                let keep = KeepAlive {
                    idle: ms(idle),
                    interval: ms(interval),
                    count,
                };
                self.set(conn, SocketOption::KeepAlive(Some(keep)));
            }
            Call::UserTimeout(ms) => {
                let time = Duration::from_millis(u64::from(ms));
                self.set(conn, SocketOption::UserTimeout(Some(time)));
            }
        }
        self.poll();
    }

    fn set(&mut self, conn: ConnId, option: SocketOption) {
        let done = self.at().set_option(conn, option).map(|()| 0);
        self.note(Deed::Returned("set_option", done));
    }

    fn send_buffer(&mut self, conn: ConnId, len: u16) {
        let Ok(mut buffer) = self.pool.buffer(usize::from(len)) else {
            return;
        };
        let written = self.written;
        for (at, byte) in self.pool.payload_mut(&mut buffer).iter_mut().enumerate() {
            *byte = pattern(written + at as u32);
        }
        let done = match self.at().send_buffer(conn, buffer) {
            Ok(()) => Ok(usize::from(len)),
            Err((error, buffer)) => {
                self.pool.free(buffer);
                Err(error)
            }
        };
        self.written += done.map_or(0, |taken| taken as u32);
        self.note(Deed::Returned("send_buffer", done));
    }

    fn found(&mut self, found: Result<Received, Error>, buffer: &[u8]) {
        let stream = self.record.streams.last_mut().expect("one was opened");
        match found {
            Ok(Received::Data(len)) => {
                let bytes = buffer[..len].to_vec();
                for (byte, at) in bytes.iter().zip(self.read..) {
                    if *byte != pattern(at) && !self.strayed && self.record.wrong.is_none() {
                        self.record.wrong = Some(format!("byte {at} is {byte}"));
                    }
                }
                self.read += len as u32;
                stream.bytes.extend_from_slice(&bytes);
                self.note(Deed::Read(bytes));
            }
            Ok(Received::Nothing) => self.note(Deed::Returned("receive", Ok(0))),
            Ok(Received::End) => {
                stream.ended = true;
                self.note(Deed::End);
            }
            Err(error) => {
                stream.error = Some(error);
                self.note(Deed::Returned("receive", Err(error)));
            }
        }
    }

    /// Accepts, takes events, notes the state.
    fn after_step(&mut self) {
        if self.conn.is_none()
            && let Ok(conn) = self
                .stack
                .at(self.now, &mut self.pool)
                .accept(self.listener)
        {
            self.conn = Some(conn);
            self.note(Deed::Returned("accept", Ok(0)));
        }
        let posted = std::mem::take(&mut self.posted);
        while let Some(event) = self.at().next_event() {
            // A reader whose buffer is posted is told of data by its call, and need not be by an event.
            let Event::Connection { ready, .. } = event else {
                // It is accepted before events are asked for.
                continue;
            };
            let told = kinds(ready) & if posted { !1 } else { !0 };
            if told != 0 {
                self.note(Deed::Event(told));
            }
        }
        if let Some(conn) = self.conn {
            let state = self.stack.at(self.now, &mut self.pool).state(conn);
            if state != self.state {
                self.state = state;
                self.note(Deed::State(state));
            }
        }
        if self.watch.consistency
            && self.record.inconsistency.is_none()
            && let Err(found) = self.stack.check_consistency(&self.pool)
        {
            self.record.inconsistency = Some(found.to_string());
        }
    }
}

/// The kinds of readiness as bits; the first is data.
fn kinds(ready: Readiness) -> u8 {
    [
        ready.readable(),
        ready.writable(),
        ready.connected(),
        ready.end(),
        ready.closed(),
        ready.soft_error(),
        ready.urgent(),
    ]
    .into_iter()
    .enumerate()
    .map(|(n, is)| u8::from(is) << n)
    .sum()
}
