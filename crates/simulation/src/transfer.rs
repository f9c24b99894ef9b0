//! A transfer: what is sent over a line on some connections, and what came of it.

use crate::line::{Line, Stall};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;
use tollgate_link::fault::Fault;
use tollgate_link::memory::OwnedEnd;
use tollgate_stack::config::{InvalidConfig, Mechanisms};
use tollgate_stack::{Config, ConnId, Event, Instant, Pool, Received, Stack};
use tollgate_wire::ethernet::MacAddr;

/// Bytes of an IP packet at most.
const MTU: usize = 1500;
/// The port that the receiver listens on.
const PORT: u16 = 7;
/// When a transfer begins: not at the epoch, so that no time is zero.
const BEGIN: u64 = 1 << 40;
/// Bytes that an application gives or takes at once.
const CHUNK: usize = 65_536;
/// Bytes that a full frame takes on the line.
const FRAME: usize = MTU + 14;
/// Bytes of it that are headers: Ethernet, IP, and TCP with timestamps.
const HEADERS: usize = 14 + 20 + 32;
/// Polls of both hosts at one time at most. A line has a delay, so they have nothing to say to each other in it.
const TURNS: usize = 10_000;

/// A scenario: what is sent over which line, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// The line.
    pub line: Line,
    /// Connections that send at the same time.
    pub flows: usize,
    /// Virtual time from the opening of one to that of the next.
    pub opened_every: Duration,
    /// Work of each connection: messages, or all that its windows allow where there are none.
    pub messages: Option<Messages>,
    /// Mechanisms of both hosts.
    pub mechanisms: Mechanisms,
    /// Bytes that buffers begin with, where they are to grow; otherwise they hold what the line does from the beginning.
    pub buffers: Option<u32>,
    /// Virtual time that it lasts.
    pub lasts: Duration,
    /// Virtual time from one sample of the windows to the next.
    pub sampled_every: Duration,
    /// Number that random loss and the secrets of the hosts follow from.
    pub seed: u64,
}

/// Messages, one after the other on each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Bytes of each.
    pub bytes: usize,
    /// Virtual time from the arrival of one to the sending of the next.
    pub pause: Duration,
}

/// The congestion window of a flow at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window, bytes.
    pub congestion: u32,
    /// Slow start threshold, bytes.
    pub threshold: u32,
    /// Smoothed round trip time.
    pub round_trip: Duration,
}

/// Windows of all flows at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time since the beginning.
    pub at: Duration,
    /// Flow by flow.
    pub windows: Vec<Window>,
    /// Frames that the full queue has dropped until then.
    pub dropped: u64,
    /// Bytes that receivers have read until then, all flows together.
    pub delivered: u64,
}

/// Account of a flow at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Bytes that the receiver has read.
    pub delivered: u64,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// Timeouts.
    pub timeouts: u32,
    /// Fast retransmissions.
    pub fast_retransmits: u32,
    /// Tail loss probes.
    pub tail_probes: u32,
    /// Recoveries and timeouts that were undone.
    pub undone: u32,
}

/// Outcome of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Windows over time.
    pub samples: Vec<Sample>,
    /// Flow by flow.
    pub flows: Vec<Flow>,
    /// Frames that the full queue has dropped.
    pub dropped: u64,
    /// Frames that the line has marked.
    pub marked: u64,
    /// Frames that were lost at random.
    pub lost: u64,
    /// Time that each message took from the call that sent it until all of it was read, in the order of arrival.
    pub messages: Vec<Duration>,
    /// Bytes of payload that the line could have carried in that time, headers taken off.
    pub capacity: u64,
}

impl Outcome {
    /// Bytes of payload that arrived, all flows together.
    pub fn delivered(&self) -> u64 {
        self.flows.iter().map(|flow| flow.delivered).sum()
    }

    /// The part of the line's capacity that arrived as payload, once: 0 to 1.
    pub fn utilisation(&self) -> f64 {
        self.delivered() as f64 / self.capacity as f64
    }

    /// Fairness of the flows (Jain, Chiu and Hawe 1984): 1 when all got the same, 1/n when one of n got all.
    pub fn fairness(&self) -> f64 {
        let squares: f64 = self
            .flows
            .iter()
            .map(|flow| (flow.delivered as f64).powi(2))
            .sum();
        (self.delivered() as f64).powi(2) / (self.flows.len() as f64 * squares)
    }
}

/// The reason why a transfer could not be simulated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stack refuses the configuration.
    #[error("the stack refuses {0:?}")]
    Config(InvalidConfig),
    /// The stack refuses something that an application does.
    #[error("a host of the simulation: {0:?}")]
    Host(tollgate_stack::Error),
    /// Not every connection was opened in the time given.
    #[error("{opened} of {flows} connections were opened in {lasts:?}; let it last longer")]
    NotOpened {
        /// Connections that were opened.
        opened: usize,
        /// Connections that were to be.
        flows: usize,
        /// Virtual time that they had.
        lasts: Duration,
    },
    /// A host sends without an end at one time.
    #[error("a host of the simulation never falls silent")]
    Endless,
}

impl From<InvalidConfig> for Error {
    fn from(error: InvalidConfig) -> Self {
        Self::Config(error)
    }
}

impl From<tollgate_stack::Error> for Error {
    fn from(error: tollgate_stack::Error) -> Self {
        Self::Host(error)
    }
}

/// A host and its end of the line.
struct Host {
    stack: Stack,
    link: Fault<OwnedEnd>,
}

impl Host {
    /// Lets go what is due at the other end when `line` is the line's time.
    fn carry(&mut self, line: Instant, pool: &mut Pool) {
        self.link.set_now(line);
        self.link.poll(pool);
    }

    fn poll(&mut self, now: Instant, pool: &mut Pool) {
        self.stack.at(now, pool).poll(&mut self.link);
    }

    /// Sends what waits for the link.
    fn flush(&mut self, now: Instant, pool: &mut Pool) {
        self.stack.at(now, pool).flush(&mut self.link);
    }

    fn is_silent(&self) -> bool {
        self.stack.device_queue_len() == 0
    }
}

/// A connection of the sender.
struct Sender {
    conn: ConnId,
    port: u16,
    /// When its next message is to be sent.
    next_message: Option<Instant>,
    /// When the message was sent that is on its way, and what will have been delivered when it has arrived.
    on_its_way: Option<(Instant, u64)>,
}

/// Both hosts and the time.
struct World {
    pool: Pool,
    sender: Host,
    receiver: Host,
    begin: Instant,
    stall: Option<Stall>,
    now: Instant,
    /// Connections of the sender, flow by flow.
    senders: Vec<Sender>,
    messages: Option<Messages>,
    /// Times that messages took.
    took: Vec<Duration>,
    accepted: usize,
    delivered: Vec<u64>,
    zeros: Vec<u8>,
    buffer: Vec<u8>,
}

impl Transfer {
    /// One flow over `line` for `lasts`, with the windows every round trip.
    pub fn new(line: Line, lasts: Duration) -> Self {
        Self {
            line,
            flows: 1,
            opened_every: Duration::ZERO,
            messages: None,
            mechanisms: Mechanisms::HOST,
            buffers: None,
            lasts,
            sampled_every: line.round_trip,
            seed: 1,
        }
    }

    /// Carries it out.
    ///
    /// # Errors
    /// [`Error`]: the scenario asks for what the stack does not take, or for too little time.
    pub fn run(&self) -> Result<Outcome, Error> {
        let mut world = World::new(self)?;
        let begin = world.now;
        let end = begin + self.lasts;
        let mut samples = Vec::new();
        let mut next_sample = begin;
        let mut next_open = begin;
        loop {
            while world.senders.len() < self.flows && world.now >= next_open {
                world.open()?;
                next_open = next_open + self.opened_every;
            }
            world.send_messages()?;
            world.settle()?;
            if world.now >= next_sample {
                samples.push(world.sample(world.now - begin)?);
                next_sample = next_sample + self.sampled_every;
            }
            if world.now >= end {
                break;
            }
            let next = world.next_event().unwrap_or(end);
            world.now = next.min(next_sample).min(end);
            if world.senders.len() < self.flows {
                world.now = world.now.min(next_open);
            }
        }
        if world.accepted < self.flows {
            return Err(Error::NotOpened {
                opened: world.accepted,
                flows: self.flows,
                lasts: self.lasts,
            });
        }
        world.outcome(self, samples)
    }

    /// Bytes of payload that the line carries in the time that the transfer lasts.
    fn capacity(&self) -> u64 {
        let lasts = match self.line.stall {
            Some(stall) => stall.line_time(self.lasts),
            None => self.lasts,
        };
        let bits = u128::from(self.line.bits_per_second.get()) * lasts.as_nanos();
        let frames = bits / (8_000_000_000 * FRAME as u128);
        frames as u64 * (FRAME - HEADERS) as u64
    }
}

impl World {
    fn new(transfer: &Transfer) -> Result<Self, Error> {
        let (line, flows) = (&transfer.line, transfer.flows);
        let now = Instant::from_nanos(BEGIN);
        // What is on the line and in its queue, twice: recovery sends new data while it repairs.
        let path = 2 * (line.bandwidth_delay_product() + line.queue);
        let share = (path / flows.max(1)).max(64 * MTU);
        let buffer = u32::try_from(share).unwrap_or(1 << 30).min(1 << 30);
        let limit = 2 * path / FRAME + 4096;
        let host = |n: u8, link| -> Result<Host, Error> {
            let address = Ipv4Addr::new(10, 0, 0, n);
            let seed = [transfer.seed, u64::from(n), 3, 4];
            let mut config = Config::new(MacAddr([2, 0, 0, 0, 0, n]), address, 24, seed);
            config.max_connections = flows + 16;
            config.max_neighbours = 16;
            config.device_queue = limit.min(65_536);
            config.send_buffer = transfer.buffers.unwrap_or(buffer);
            config.receive_buffer = transfer.buffers.unwrap_or(buffer);
            config.max_send_buffer = buffer;
            config.max_receive_buffer = buffer;
            config.mechanisms = transfer.mechanisms;
            Ok(Host {
                stack: Stack::new(config, MTU, now)?,
                link,
            })
        };
        let [near, far] = OwnedEnd::pair(MTU, limit);
        let forth = Fault::on_transmit(near, line.forth(limit), transfer.seed);
        let back = Fault::on_transmit(far, line.back(limit), !transfer.seed);
        // Send queues and what has arrived out of order, in frames that may be half full, and both ways of the line.
        let frames = 2 * flows * share / 1024 + 2 * limit;
        let mut world = Self {
            pool: Pool::new(frames, Pool::frame_size_for(MTU)),
            sender: host(1, forth)?,
            receiver: host(2, back)?,
            begin: now,
            stall: line.stall,
            now,
            senders: Vec::new(),
            messages: transfer.messages,
            took: Vec::new(),
            accepted: 0,
            delivered: vec![0; flows],
            zeros: vec![0; CHUNK],
            buffer: vec![0; CHUNK],
        };
        let backlog = u16::try_from(flows).unwrap_or(u16::MAX);
        let receiver = &mut world.receiver.stack;
        receiver.at(now, &mut world.pool).listen(PORT, backlog)?;
        world.introduce();
        Ok(world)
    }

    /// Tells both hosts each other's link address, so that none of the first segments waits for it.
    fn introduce(&mut self) {
        let hosts = [&self.sender, &self.receiver];
        let [sender, receiver] =
            hosts.map(|host| (host.stack.config().ip, host.stack.config().mac));
        let mut stack = self.sender.stack.at(self.now, &mut self.pool);
        stack.add_neighbour(receiver.0, receiver.1);
        let mut stack = self.receiver.stack.at(self.now, &mut self.pool);
        stack.add_neighbour(sender.0, sender.1);
    }

    /// Opens the next flow.
    fn open(&mut self) -> Result<(), Error> {
        let to = SocketAddrV4::new(self.receiver.stack.config().ip, PORT);
        let mut stack = self.sender.stack.at(self.now, &mut self.pool);
        let conn = stack.connect(to)?;
        stack.set_token(conn, self.senders.len() as u64)?;
        self.senders.push(Sender {
            conn,
            port: stack.info(conn)?.local.port(),
            next_message: None,
            on_its_way: None,
        });
        Ok(())
    }

    /// The line's time, which stands still in a stall: what is on the line and in its queue keeps its spacing.
    fn line_now(&self) -> Instant {
        let since = self.now - self.begin;
        self.begin + self.stall.map_or(since, |stall| stall.line_time(since))
    }

    /// When the line has come to `line`.
    fn when_line_is_at(&self, line: Instant) -> Instant {
        let since = line - self.begin;
        self.begin + self.stall.map_or(since, |stall| stall.host_time(since))
    }

    /// Lets everything happen that happens at this time.
    fn settle(&mut self) -> Result<(), Error> {
        let line = self.line_now();
        for _ in 0..TURNS {
            self.sender.carry(line, &mut self.pool);
            self.receiver.carry(line, &mut self.pool);
            self.sender.poll(self.now, &mut self.pool);
            self.send()?;
            self.sender.flush(self.now, &mut self.pool);
            self.receiver.poll(self.now, &mut self.pool);
            self.receive()?;
            self.receiver.flush(self.now, &mut self.pool);
            if self.sender.is_silent() && self.receiver.is_silent() {
                return Ok(());
            }
        }
        Err(Error::Endless)
    }

    /// The sender's applications give all that is taken.
    fn send(&mut self) -> Result<(), Error> {
        let mut stack = self.sender.stack.at(self.now, &mut self.pool);
        while let Some(event) = stack.next_event() {
            let Event::Connection { conn, token, ready } = event else {
                continue;
            };
            if self.messages.is_some() {
                let sender = &mut self.senders[token as usize];
                if ready.connected() {
                    sender.next_message = Some(self.now);
                }
            } else if ready.connected() || ready.writable() {
                loop {
                    match stack.send(conn, &self.zeros) {
                        Ok(_) => {}
                        Err(tollgate_stack::Error::WouldBlock) => break,
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        Ok(())
    }

    /// Messages whose time has come are sent.
    fn send_messages(&mut self) -> Result<(), Error> {
        let Some(Messages { bytes, .. }) = self.messages else {
            return Ok(());
        };
        for (flow, sender) in self.senders.iter_mut().enumerate() {
            if sender.next_message.is_none_or(|at| at > self.now) {
                continue;
            }
            sender.next_message = None;
            sender.on_its_way = Some((self.now, self.delivered[flow] + bytes as u64));
            let mut stack = self.sender.stack.at(self.now, &mut self.pool);
            let mut left = bytes;
            while left != 0 {
                left -= stack.send(sender.conn, &self.zeros[..left.min(CHUNK)])?;
            }
        }
        Ok(())
    }

    /// A message may have arrived on a connection.
    fn message_arrived(&mut self, flow: usize) {
        let (Some(messages), Some(sender)) = (self.messages, self.senders.get_mut(flow)) else {
            return;
        };
        let done = |&(_, end): &(Instant, u64)| self.delivered[flow] >= end;
        if let Some((sent, _)) = sender.on_its_way.take_if(|way| done(way)) {
            self.took.push(self.now - sent);
            sender.next_message = Some(self.now + messages.pause);
        }
    }

    /// The receiver's applications accept and read all that is there.
    fn receive(&mut self) -> Result<(), Error> {
        let mut arrived = Vec::new();
        let mut stack = self.receiver.stack.at(self.now, &mut self.pool);
        while let Some(event) = stack.next_event() {
            let (conn, flow) = match event {
                Event::Listener { listener, .. } => {
                    let conn = stack.accept(listener)?;
                    let port = stack.info(conn)?.remote.port();
                    let flow = self.senders.iter().position(|sender| sender.port == port);
                    let flow = flow.ok_or(tollgate_stack::Error::NotConnected)?;
                    stack.set_token(conn, flow as u64)?;
                    self.accepted += 1;
                    (conn, flow)
                }
                Event::Connection { conn, token, .. } => (conn, token as usize),
                Event::Datagrams { .. } => continue,
            };
            while let Received::Data(bytes) = stack.receive(conn, &mut self.buffer)? {
                self.delivered[flow] += bytes as u64;
            }
            arrived.push(flow);
        }
        for flow in arrived {
            self.message_arrived(flow);
        }
        Ok(())
    }

    fn next_event(&self) -> Option<Instant> {
        let hosts = [&self.sender, &self.receiver];
        let stacks = hosts.map(|host| host.stack.next_deadline(self.now));
        let links = hosts.map(|host| {
            let line = host.link.next_event()?;
            Some(self.when_line_is_at(line))
        });
        let messages = self.senders.iter().map(|sender| sender.next_message);
        // A deadline that has come leads to nothing before the next tick.
        let next = stacks
            .into_iter()
            .chain(links)
            .chain(messages)
            .flatten()
            .min()?;
        Some(next.max(self.now + Duration::from_nanos(1)))
    }

    fn sample(&mut self, at: Duration) -> Result<Sample, Error> {
        let stack = self.sender.stack.at(self.now, &mut self.pool);
        let windows = self.senders.iter().map(|sender| {
            stack.info(sender.conn).map(|info| Window {
                congestion: info.congestion_window,
                threshold: info.slow_start_threshold,
                round_trip: info.rtt,
            })
        });
        Ok(Sample {
            at,
            windows: windows.collect::<Result<_, _>>()?,
            dropped: self.sender.link.stats().queue_full,
            delivered: self.delivered.iter().sum(),
        })
    }

    fn outcome(mut self, transfer: &Transfer, samples: Vec<Sample>) -> Result<Outcome, Error> {
        let stack = self.sender.stack.at(self.now, &mut self.pool);
        let delivered = self.delivered.iter();
        let flows = self
            .senders
            .iter()
            .zip(delivered)
            .map(|(sender, &delivered)| {
                stack.info(sender.conn).map(|info| Flow {
                    delivered,
                    retransmits: info.retransmits,
                    timeouts: u32::from(info.timeouts),
                    fast_retransmits: u32::from(info.fast_retransmits),
                    tail_probes: info.tail_probes,
                    undone: info.undone_recoveries,
                })
            });
        let stats = *self.sender.link.stats();
        Ok(Outcome {
            samples,
            flows: flows.collect::<Result<_, _>>()?,
            dropped: stats.queue_full,
            marked: stats.marked,
            lost: stats.dropped,
            messages: self.took,
            capacity: transfer.capacity(),
        })
    }
}
