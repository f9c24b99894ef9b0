//! The world of a run: two stacks, their cable, their applications, and virtual time that jumps from event to event.

use super::end::{Broken, End, Host, Plan, compare};
use super::network::{Plug, cable};
use super::random::Random;
use super::scenario::{Behaviour, Scenario, Wrap};
use super::trace::Trace;
use std::cell::RefCell;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;
use std::time::Duration;
use tollgate_link::Side;
use tollgate_link::fault::{Faults, Probability};
use tollgate_link::memory::Memory;
use tollgate_stack::{
    Config, Error, Event, Instant, Link, ListenerId, Open, Pool, Received, Stack,
};
use tollgate_wire::ethernet::MacAddr;

/// The port that host B listens on.
const PORT: u16 = 7;
/// Bytes that connections are opened with at most.
const MOST_EARLY: u64 = 2_500;
/// Nanoseconds of the stacks' tick.
const TICK: u64 = 1 << 20;
/// A run that takes longer, in virtual time, has failed.
const LONGEST: Duration = Duration::from_secs(6 * 3600);
/// Longest time of a run in which no application gets any further.
const STALLED: Duration = Duration::from_secs(20 * 60);
/// Neighbours are told again so often, where they are not asked for.
const NEIGHBOURS: Duration = Duration::from_secs(300);

/// Outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Bytes carried, both directions of all connections.
    pub bytes: u64,
    /// Frames that the hosts sent.
    pub frames: u64,
    /// Frames that the cable lost or damaged.
    pub hurt: u64,
    /// Virtual time from the first SYN to the end of the last TIME-WAIT.
    pub took: Duration,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Segments that were predicted.
    pub predicted: u64,
    /// Times that virtual time moved on and nothing was to be done.
    pub idle_steps: u64,
    /// Reads that found data, not posted before the poll that received it.
    pub queued_reads: u64,
    /// Reads that were posted and filled.
    pub posted_reads: u64,
    /// Writes that the stack copied, and writes of buffers of the pool.
    pub writes: [u64; 2],
    /// Frames whose checksum the link completed.
    pub completed: u64,
    /// Segments that were taken without a checksum.
    pub unverified: u64,
    /// Frames that the line marked instead of letting them wait unnoticed.
    pub marked: u64,
}

/// Runs a seed of a scenario.
///
/// # Errors
/// A description of the failure, with the state of every connection.
pub fn run(scenario: &Scenario, seed: u64, trace: bool) -> Result<Summary, String> {
    let mut world = World::new(scenario, seed, trace);
    let outcome = world.go();
    match outcome {
        Ok(summary) => Ok(summary),
        Err(broken) => Err(world.explain(&broken)),
    }
}

struct World<'a> {
    scenario: &'a Scenario,
    behaviour: Behaviour,
    arp: bool,
    random: Random,
    pool: Pool,
    stacks: [Stack; 2],
    plugs: [Plug; 2],
    begin: Instant,
    now: Instant,
    /// The client's ends on host A and, once accepted, the server's on host B.
    ends: [Vec<Option<End>>; 2],
    plans: Vec<Plan>,
    /// When each connection is opened by A, and its local port once it is.
    opens: Vec<(Instant, Option<u16>)>,
    outage: Option<(Instant, bool)>,
    told_neighbours: Instant,
    /// Progress of the applications together, and the time since when.
    progress: (u64, Instant),
    steps: u64,
    idle_steps: u64,
    posted_reads: u64,
}

fn config(scenario: &Scenario, random: &mut Random, host: usize) -> Config {
    let mac = MacAddr([2, 0, 0, 0, 0, host as u8 + 1]);
    let seed = [random.next(), random.next(), random.next(), random.next()];
    let mut config = Config::new(mac, address(host), 24, seed);
    config.max_connections = 64;
    config.max_time_wait = 64;
    config.max_neighbours = 8;
    config.connect_timeout = Duration::from_secs(2 * 3600);
    config.user_timeout = Duration::from_secs(2 * 3600);
    config.kernel = tollgate_checksum::Kernel::UNROLLED;
    scenario.configure(&mut config, host);
    config
}

fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, host as u8 + 1)
}

/// A time at which a connection opened by a stack of this configuration begins with sequence numbers that wrap soon.
fn time_of_wrap(config: Config, from: Instant) -> Instant {
    let mut pool = Pool::new(4, 2048);
    let mut stack = Stack::new(config, 1500, from).expect("the scenario's configuration is valid");
    stack
        .at(from, &mut pool)
        .add_neighbour(address(1), MacAddr([2, 0, 0, 0, 0, 2]));
    stack
        .at(from, &mut pool)
        .connect(SocketAddrV4::new(address(1), PORT))
        .expect("a connection can be opened");
    let mut cable = Memory::new(1500);
    stack.at(from, &mut pool).poll(&mut cable.end(Side::A));
    let mut frames = Vec::new();
    cable.end(Side::B).receive(&mut pool, &mut frames);
    let bytes = pool.frame(&frames[0]);
    let seq = u32::from_be_bytes([bytes[38], bytes[39], bytes[40], bytes[41]]);
    // The clock of sequence numbers counts every 4 us (RFC 6528).
    from + Duration::from_micros(4) * 4000u32.wrapping_neg().wrapping_sub(seq)
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, seed: u64, trace: bool) -> Self {
        let mut random = Random::new(&scenario.name, seed);
        let mut configs = [0, 1].map(|host| config(scenario, &mut random, host));
        let begin = Instant::from_nanos(match scenario.wrap {
            Wrap::Ticks => (1 << 52) - random.between(0, 3_000_000_000),
            _ => (1 << 40) + random.between(0, 1 << 40),
        });
        let begin = if scenario.wrap == Wrap::Sequence {
            time_of_wrap(configs[0], begin)
        } else {
            begin
        };
        let trace = trace.then(|| Rc::new(RefCell::new(Trace::new(begin))));
        let mtu = scenario.mtu[0].max(scenario.mtu[1]);
        let seeds = [random.next(), random.next()];
        let mut plugs = cable(mtu, scenario.faults(), seeds, trace.as_ref());
        let willing = scenario.completes().unwrap_or(random.one_in(4));
        for (config, plug) in configs.iter_mut().zip(&mut plugs) {
            plug.willing = willing;
            *config = config.for_link(plug);
        }
        let mut pool = Pool::new(
            scenario.pool,
            Pool::frame_size_for(scenario.mtu[0].max(scenario.mtu[1])),
        );
        let mut stacks = [0, 1].map(|host| {
            Stack::new(configs[host], scenario.mtu[host], begin)
                .expect("the scenario's configuration is valid")
        });
        let open = Open {
            fast_open: if scenario.early { 64 } else { 0 },
            ..Open::default()
        };
        stacks[1]
            .at(begin, &mut pool)
            .listen_with(PORT, 64, &open)
            .expect("the port is free");
        let connections = random.between(1, scenario.connections);
        let plans: Vec<Plan> = (0..connections)
            .map(|_| Plan::new(&mut random, scenario.bytes))
            .collect();
        let opens = (0..connections)
            .map(|n| {
                let later = if n == 0 {
                    Duration::ZERO
                } else {
                    random.up_to(Duration::from_millis(100))
                };
                (begin + later, None)
            })
            .collect();
        let ends = [0, 1].map(|_| (0..connections).map(|_| None).collect());
        let outage = (scenario.outage != Duration::ZERO).then_some((begin, true));
        let mut world = Self {
            scenario,
            behaviour: scenario.behaviour(),
            arp: scenario.arp(),
            random,
            pool,
            stacks,
            plugs,
            begin,
            now: begin,
            ends,
            plans,
            opens,
            outage,
            told_neighbours: begin,
            progress: (0, begin),
            steps: 0,
            idle_steps: 0,
            posted_reads: 0,
        };
        world.tell_neighbours();
        world
    }

    /// The place where a corrupted ARP packet would be believed, or ARP is not the matter, the hosts are told of each other.
    fn tell_neighbours(&mut self) {
        self.told_neighbours = self.now;
        if self.arp {
            return;
        }
        for host in [0, 1] {
            let mac = self.stacks[1 - host].config().mac;
            self.stacks[host]
                .at(self.now, &mut self.pool)
                .add_neighbour(address(1 - host), mac);
        }
    }

    fn go(&mut self) -> Result<Summary, Broken> {
        loop {
            self.steps += 1;
            let before = self.moved();
            self.switch_outage();
            let acted = self.settle()?;
            if let Some(offence) = self.plugs[0].offence() {
                return Err(offence);
            }
            if self.is_over() {
                return self.sum_up();
            }
            if !acted && self.moved() == before {
                self.idle_steps += 1;
            }
            // Deadlines that lead to nothing are allowed a stack whose timers re-arm lazily, but not without bound.
            if self.idle_steps > 2000 + 4 * self.moved() {
                return Err(format!("deadlines storm: {} idle steps", self.idle_steps));
            }
            let Some(next) = self.next_event() else {
                return Err("everything waits and nothing is due".to_owned());
            };
            self.now = next;
            let progress = self
                .ends
                .iter()
                .flatten()
                .flatten()
                .map(End::progress)
                .sum();
            if progress != self.progress.0 {
                self.progress = (progress, self.now);
            } else if self.now - self.progress.1 > STALLED {
                return Err("nobody gets any further".to_owned());
            }
            if self.now - self.begin > LONGEST {
                return Err("it takes too long".to_owned());
            }
            if self.now - self.told_neighbours > NEIGHBOURS {
                self.tell_neighbours();
            }
        }
    }

    fn moved(&self) -> u64 {
        self.plugs[0].moved + self.plugs[1].moved
    }

    /// Lets everything happen that happens at this time; returns whether an application did anything.
    fn settle(&mut self) -> Result<bool, Broken> {
        let mut acted_ever = false;
        let limit = 50_000 + 4 * self.scenario.bytes * self.scenario.connections;
        for _ in 0..limit {
            let before = self.moved();
            let mut acted = self.open()?;
            for host in [0, 1] {
                for plug in &mut self.plugs {
                    plug.set_now(self.now, &mut self.pool);
                }
                acted |= self.poll(host)?;
                acted |= self.serve(host)?;
                self.stacks[host]
                    .check_consistency(&self.pool)
                    .map_err(|found| format!("host {host}: {found}"))?;
            }
            acted_ever |= acted;
            let waiting = self
                .stacks
                .iter()
                .any(|stack| stack.device_queue_len() != 0);
            if !acted && self.moved() == before && !waiting {
                return Ok(acted_ever);
            }
        }
        Err("the hosts never fall silent".to_owned())
    }

    fn switch_outage(&mut self) {
        let Some((at, up)) = self.outage else { return };
        if at > self.now {
            return;
        }
        for (plug, faults) in self.plugs.iter_mut().zip(self.scenario.faults()) {
            let drop = if up { faults.drop } else { Probability::ALWAYS };
            plug.set_faults(Faults { drop, ..faults });
        }
        let most = if up {
            Duration::from_secs(2)
        } else {
            self.scenario.outage
        };
        // Outages end, so that the run does.
        let ends = self.now - self.begin > Duration::from_secs(120) && up;
        self.outage = (!ends).then_some((self.now + self.random.up_to(most), !up));
    }

    /// Opens connections whose time has come, again when their peer could not be found.
    fn open(&mut self) -> Result<bool, Broken> {
        let mut acted = false;
        for n in 0..self.opens.len() {
            if self.opens[n].0 > self.now || self.opens[n].1.is_some() {
                continue;
            }
            let mut stack = self.stacks[0].at(self.now, &mut self.pool);
            let to = SocketAddrV4::new(address(1), PORT);
            let early = if self.scenario.early {
                self.plans[n].first_bytes(MOST_EARLY)
            } else {
                Vec::new()
            };
            let opened = if early.is_empty() {
                stack.connect(to).map(|conn| (conn, 0))
            } else {
                stack.connect_with_data(to, &Open::default(), &early)
            };
            let (conn, taken) = match opened {
                Ok(opened) => opened,
                Err(Error::NoFrame) => {
                    self.opens[n].0 = self.now + Duration::from_millis(5);
                    continue;
                }
                Err(error) => return Err(format!("connect: {error}")),
            };
            let info = stack.info(conn).map_err(|e| format!("info: {e}"))?;
            stack
                .set_token(conn, n as u64)
                .map_err(|e| format!("token: {e}"))?;
            self.opens[n].1 = Some(info.local.port());
            let mut end = self.end(0, n, conn)?;
            end.has_written(&early[..taken]);
            self.ends[0][n] = Some(end);
            acted = true;
        }
        Ok(acted)
    }

    fn end(&mut self, host: usize, n: usize, conn: tollgate_stack::ConnId) -> Result<End, Broken> {
        let buffer = self.stacks[host].config().send_buffer;
        let random = self.random.fork();
        let end = End::new(
            conn,
            host,
            &self.plans[n],
            random,
            self.behaviour,
            buffer,
            self.now,
        );
        if self.behaviour.aborts {
            end.watch(&mut self.host(host))?;
        }
        Ok(end)
    }

    fn host(&mut self, host: usize) -> Host<'_> {
        Host {
            stack: &mut self.stacks[host],
            pool: &mut self.pool,
            now: self.now,
        }
    }

    /// Polls a host's stack, with a reader's buffer if one of its ends wants that.
    fn poll(&mut self, host: usize) -> Result<bool, Broken> {
        let now = self.now;
        let candidates = self.ends[host]
            .iter()
            .flatten()
            .filter(|end| end.may_post(now))
            .count() as u64;
        if candidates == 0 {
            self.stacks[host]
                .at(now, &mut self.pool)
                .poll(&mut self.plugs[host]);
            return Ok(false);
        }
        let chosen = self.random.between(0, candidates - 1) as usize;
        let mut posting = self.ends[host]
            .iter_mut()
            .flatten()
            .filter(|end| end.may_post(now));
        let Some(end) = posting.nth(chosen) else {
            return Ok(false);
        };
        let mut buffer = vec![0; end.read_size()];
        let mut stack = self.stacks[host].at(now, &mut self.pool);
        match stack.poll_receive(&mut self.plugs[host], end.conn(), &mut buffer) {
            Ok(received) => {
                end.took(received, &buffer, now)?;
                self.posted_reads += u64::from(matches!(received, Received::Data(_)));
                Ok(received != Received::Nothing)
            }
            Err(error) => {
                let mut host = Host {
                    stack: &mut self.stacks[host],
                    pool: &mut self.pool,
                    now,
                };
                end.failed(&mut host, error)
            }
        }
    }

    /// Takes events and new connections, and lets the applications act.
    fn serve(&mut self, host: usize) -> Result<bool, Broken> {
        let mut acted = false;
        while let Some(event) = self.host(host).at().next_event() {
            let (conn, ready, token) = match event {
                Event::Connection { conn, ready, token } => (conn, ready, token),
                Event::Datagrams { socket, .. } => panic!("{socket:?} was never opened"),
                Event::Listener { listener, .. } => {
                    self.accept(listener)?;
                    acted = true;
                    continue;
                }
            };
            let n = token as usize;
            let unreachable = self.reopen(host, n, ready.closed(), ready.connected());
            if unreachable {
                acted = true;
                continue;
            }
            match self.ends[host].get_mut(n).and_then(Option::as_mut) {
                Some(end) if end.conn() == conn => end.event(ready),
                _ => return Err(format!("an event of an unknown connection: {event:?}")),
            }
        }
        for end in self.ends[host].iter_mut().flatten() {
            let mut host = Host {
                stack: &mut self.stacks[host],
                pool: &mut self.pool,
                now: self.now,
            };
            acted |= end.act(&mut host)?;
        }
        Ok(acted)
    }

    /// An ARP that was lost three times makes the peer unreachable: the application tries again.
    fn reopen(&mut self, host: usize, n: usize, closed: bool, connected: bool) -> bool {
        // In an outage the server's link address is asked for in vain.
        let may_fail = self.arp || self.scenario.outage != Duration::ZERO;
        if !may_fail || host != 0 || !closed || connected {
            return false;
        }
        let Some(end) = self.ends[0].get_mut(n).and_then(Option::take) else {
            return false;
        };
        let mut stack = self.stacks[0].at(self.now, &mut self.pool);
        if stack.receive(end.conn(), &mut []) == Err(Error::Unreachable) {
            // The error is known.
            let _ = stack.close(end.conn());
            self.opens[n] = (self.now + Duration::from_secs(1), None);
            return true;
        }
        self.ends[0][n] = Some(end);
        false
    }

    /// Accepts one connection for each event of the listener; the next has to have an event of its own.
    fn accept(&mut self, listener: ListenerId) -> Result<(), Broken> {
        let mut stack = self.stacks[1].at(self.now, &mut self.pool);
        let conn = stack.accept(listener).map_err(|e| format!("accept: {e}"))?;
        let port = stack
            .info(conn)
            .map_err(|e| format!("info: {e}"))?
            .remote
            .port();
        let Some(n) = self.opens.iter().position(|open| open.1 == Some(port)) else {
            return Err(format!(
                "a connection from port {port}, which nobody opened"
            ));
        };
        stack
            .set_token(conn, n as u64)
            .map_err(|e| format!("token: {e}"))?;
        if self.ends[1][n].is_some() {
            return Err(format!("a second connection from port {port}"));
        }
        self.ends[1][n] = Some(self.end(1, n, conn)?);
        Ok(())
    }

    fn next_event(&self) -> Option<Instant> {
        // What is due in this tick was done; a deadline that has passed is due at the next.
        let next_tick = Instant::from_nanos((self.now.as_nanos() / TICK + 1) * TICK);
        let after_now = |at: Instant| if at <= self.now { next_tick } else { at };
        let stacks = self
            .stacks
            .iter()
            .filter_map(|stack| stack.next_deadline(self.now))
            .map(after_now);
        let plugs = self
            .plugs
            .iter()
            .filter_map(Plug::next_event)
            .map(after_now);
        let ends = self
            .ends
            .iter()
            .flatten()
            .flatten()
            .filter_map(|end| end.next_event(self.now));
        let opens = self
            .opens
            .iter()
            .filter(|open| open.1.is_none())
            .map(|open| after_now(open.0));
        let outage = self.outage.map(|(at, _)| after_now(at));
        stacks
            .chain(plugs)
            .chain(ends)
            .chain(opens)
            .chain(outage)
            .min()
    }

    fn is_over(&self) -> bool {
        let [a, b] = &self.ends;
        let done = |ends: &Vec<Option<End>>| {
            ends.iter()
                .all(|end| end.as_ref().is_some_and(End::is_over))
        };
        // With aborts a connection may end before the server's application has seen it.
        let aborts = self.behaviour.aborts;
        let done_b = if aborts {
            b.iter().flatten().all(End::is_over)
        } else {
            done(b)
        };
        let gone = self
            .stacks
            .iter()
            .all(|stack| stack.connections() == 0 && stack.time_waits() == 0);
        done(a) && done_b && gone && self.plugs.iter().all(Plug::is_idle)
    }

    fn sum_up(&mut self) -> Result<Summary, Broken> {
        if self.pool.available() != self.pool.capacity() {
            let missing = self.pool.capacity() - self.pool.available();
            return Err(format!("{missing} frames did not come back to the pool"));
        }
        let mut bytes = 0;
        let ends = || self.ends.iter().flatten().flatten();
        let queued_reads = ends().map(|end| end.queued_reads).sum();
        let writes = [
            ends().map(|end| end.copies).sum(),
            ends().map(|end| end.zero_copies).sum(),
        ];
        let [clients, servers] = std::mem::take(&mut self.ends);
        for pair in clients.into_iter().zip(servers) {
            if let (Some(client), Some(server)) = pair {
                bytes += compare(&[client, server])?;
            }
        }
        let stats = [0, 1].map(|host| *self.plugs[host].stats());
        let sum = |of: fn(&tollgate_stack::counters::Counters) -> u64| {
            self.stacks.iter().map(|s| of(s.counters())).sum()
        };
        Ok(Summary {
            bytes,
            frames: stats.iter().map(|s| s.offered).sum(),
            hurt: stats
                .iter()
                .map(|s| s.dropped + s.corrupted + s.truncated + s.queue_full + s.starved)
                .sum(),
            took: self.now - self.begin,
            retransmits: sum(|c| c.retransmits),
            predicted: sum(|c| c.predicted),
            idle_steps: self.idle_steps,
            queued_reads,
            posted_reads: self.posted_reads,
            writes,
            completed: self.plugs.iter().map(|plug| plug.completed).sum(),
            unverified: sum(|c| c.unverified),
            marked: stats.iter().map(|s| s.marked).sum(),
        })
    }

    /// The failure, and where everybody stands.
    fn explain(&mut self, broken: &str) -> String {
        let mut text = format!(
            "{broken}\n  after {:?} and {} steps",
            self.now - self.begin,
            self.steps
        );
        for host in [0, 1] {
            let ends = std::mem::take(&mut self.ends[host]);
            for (n, end) in ends.iter().enumerate() {
                let what = match end {
                    Some(end) => end.describe(&mut self.host(host)),
                    None => "not there".to_owned(),
                };
                // Writing to a String cannot fail.
                let _ = write!(text, "\n  {} {n}: {what}", ["a", "b"][host]);
            }
            let stack = &self.stacks[host];
            let _ = write!(
                text,
                "\n  {}: {} connections, {} in TIME-WAIT, deadline {:?}, {:?}",
                ["a", "b"][host],
                stack.connections(),
                stack.time_waits(),
                stack.next_deadline(self.now).map(|at| at - self.begin),
                stack.counters()
            );
        }
        let _ = write!(
            text,
            "\n  pool: {} of {} free",
            self.pool.available(),
            self.pool.capacity()
        );
        for (host, plug) in self.plugs.iter().enumerate() {
            let _ = write!(text, "\n  sent by {}: {:?}", ["a", "b"][host], plug.stats());
        }
        text
    }
}
