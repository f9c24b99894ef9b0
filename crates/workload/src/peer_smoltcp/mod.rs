//! `peer-smoltcp`: two smoltcp 0.14 interfaces in one thread over an in-memory link, the counterpart of `stack-memory`.
//!
//! It is run as well as a careful user of smoltcp could run it:
//! - Ethernet medium, IP MTU 1500, IPv4; checksums computed and verified in software at both ends (smoltcp's default).
//! - The link hands frames over without copying them, see `wire`.
//! - Socket buffers of 64 KiB each way; delayed ACKs as smoltcp has them (10 ms); no congestion control and no timestamps,
//!   which are smoltcp's defaults here and spare it work. Nagle's algorithm as the spec
//!   has it, off by default.
//! - Polled only when there is something to do: `poll_ingress_single` while frames have arrived, `poll_egress` after the
//!   application has written, as often as the message has segments. Never the whole `poll`, which would ask both for
//!   work that is known not to be there. Time is real, read once per round trip and once per turn where
//!   more than one is needed.
//! - Received data is copied into the user's buffer, as recv(2) and Tollgate's queued receive do.
//! - `crr`: smoltcp allows a socket in TIME-WAIT to connect anew, from another local port. So one socket per end serves all
//!   connections and no time is spent on the 10 s of TIME-WAIT. Sockets left in TIME-WAIT would be scanned for each frame,
//!   which would make smoltcp much slower; this is the kinder choice. The ACK of the server's SYN travels with the
//!   request. Local ports go round 49152..=65535.
//! - `stream`: writes gather in the send buffer and are sent when it is half full: of 8, 16, 32 and
//!   60 KiB the fastest for writes of 64 and 1,400 bytes, and close to 60 KiB, the fastest, for 8,000 (one machine, under
//!   load); at the end Nagle's algorithm is switched off for a
//!   moment so that the last short segment leaves, as a user would who knows the end.

mod wire;

#[cfg(test)]
mod tests;

use std::time::Duration;

use smoltcp::iface::{
    Config, Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet, SocketStorage,
};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};
use tollgate_run::{Mode, PathId, Placement, Waiting, Workload};
use tollgate_stats::{Samples, Timing};

use crate::clock::now_ns;
use crate::cores::{Cores, Pinned};
use crate::error::Error;
use crate::laps::Laps;
use crate::link_kind::LinkKind;
use crate::path::{Capabilities, Path, Session};
use crate::payload::{STREAM_SEED, check, fill, request_seed, response_seed};
use crate::slice::PATIENCE;
use crate::spec::Spec;

use wire::{LinkEnd, MTU, link};

const PATH: PathId = PathId::PeerSmoltcp;

/// Bytes of each socket buffer.
const BUFFER: usize = 64 * 1024;
/// User bytes of a full segment: no options on data segments.
const MSS: usize = MTU - 40;
/// Bytes of a stream that gather before they are sent.
const GATHER: usize = BUFFER / 2;
/// The server's port.
const PORT: u16 = 7;
/// The first local port of the client, and how many it goes round.
const LOCAL_PORTS: (u16, u16) = (49152, 16384);

/// The path `peer-smoltcp`.
#[derive(Debug, Clone, Copy)]
pub struct PeerSmoltcp;

impl Path for PeerSmoltcp {
    fn id(&self) -> PathId {
        PATH
    }

    /// One thread runs both ends and never waits, which counts as polling on one core.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            workloads: Workload::ALL,
            modes: &[Mode {
                placement: Placement::OneCore,
                waiting: Waiting::BusyPoll,
            }],
            round_trip_timing: Timing::Batch(16),
            stream_timing: Timing::Batch(16),
            links: &[LinkKind::Ethernet],
        }
    }

    fn open(&self, spec: &Spec) -> Result<Box<dyn Session>, Error> {
        Ok(Box::new(SmoltcpSession::open(spec)?))
    }
}

/// smoltcp's time: microseconds of the workload's clock.
fn now() -> Instant {
    Instant::from_micros((now_ns() / 1000) as i64)
}

fn refused(what: &str, why: impl std::fmt::Display) -> Error {
    Error::Peer {
        path: PATH,
        reason: format!("{what}: {why}"),
    }
}

/// One interface with its one socket.
struct Side {
    link: LinkEnd,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    address: IpAddress,
}

impl Side {
    fn new(mut link: LinkEnd, host: u8, nagle: bool) -> Result<Self, Error> {
        let hardware = HardwareAddress::Ethernet(EthernetAddress([0x02, 0, 0, 0, 0, host]));
        let mut config = Config::new(hardware);
        // Initial sequence numbers and ports need not be secret here, but both ends should differ.
        config.random_seed = now_ns() ^ (u64::from(host) << 56);
        let mut interface = Interface::new(config, &mut link, now());
        let address = IpAddress::v4(10, 0, 0, host);
        let mut full = false;
        interface
            .update_ip_addrs(|addresses| full = addresses.push(IpCidr::new(address, 24)).is_err());
        if full {
            return Err(refused("address", "the interface takes none"));
        }
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(nagle);
        let mut sockets = SocketSet::new(vec![SocketStorage::EMPTY]);
        let handle = sockets.add(socket);
        Ok(Self {
            link,
            interface,
            sockets,
            handle,
            address,
        })
    }

    #[inline]
    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut::<Socket<'static>>(self.handle)
    }

    /// Takes in the frames that have arrived.
    #[inline]
    fn ingress(&mut self, now: Instant) {
        while self.link.has_arrived() {
            let result = self
                .interface
                .poll_ingress_single(now, &mut self.link, &mut self.sockets);
            if let PollIngressSingleResult::None = result {
                return;
            }
        }
    }

    /// Sends at most `most` segments.
    #[inline]
    fn egress(&mut self, now: Instant, most: usize) {
        for _ in 0..most {
            if self
                .interface
                .poll_egress(now, &mut self.link, &mut self.sockets)
                == PollResult::None
            {
                return;
            }
        }
    }

    fn listen(&mut self) -> Result<(), Error> {
        self.socket()
            .listen(PORT)
            .map_err(|error| refused("listening", error))
    }

    fn connect(&mut self, remote: IpAddress, local_port: u16) -> Result<(), Error> {
        let socket = self.sockets.get_mut::<Socket<'static>>(self.handle);
        socket
            .connect(self.interface.context(), (remote, PORT), local_port)
            .map_err(|error| refused("connecting", error))
    }

    /// Writes what the send buffer takes of `data` and gives how much that was.
    #[inline]
    fn send(&mut self, data: &[u8]) -> Result<usize, Error> {
        self.socket()
            .send_slice(data)
            .map_err(|error| refused("sending", error))
    }

    /// Reads what is there, at most as much as `buffer` holds.
    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.socket()
            .recv_slice(buffer)
            .map_err(|error| refused("receiving", error))
    }
}

/// Gives up when nothing has come through for as long as [`PATIENCE`] allows.
struct Deadline {
    at: Option<Instant>,
    doing: &'static str,
}

impl Deadline {
    const fn new(doing: &'static str) -> Self {
        Self { at: None, doing }
    }

    /// The time, and one more turn without an end.
    fn turn(&mut self) -> Result<Instant, Error> {
        let now = now();
        let patience = Duration::from_secs(PATIENCE.as_secs()).into();
        let at = *self.at.get_or_insert(now + patience);
        if now >= at {
            return Err(Error::Timeout {
                path: PATH,
                doing: self.doing,
                seconds: PATIENCE.as_secs(),
            });
        }
        Ok(now)
    }
}

/// Carries a message from one end to the other: written, sent, received, read.
#[inline]
fn carry(
    mut now: Instant,
    from: &mut Side,
    to: &mut Side,
    message: &[u8],
    into: &mut [u8],
) -> Result<(), Error> {
    let segments = message.len().div_ceil(MSS);
    let (mut sent, mut got) = (0, 0);
    let mut deadline = Deadline::new("carrying a message");
    loop {
        if sent < message.len() {
            sent += from.send(&message[sent..])?;
        }
        from.egress(now, segments);
        to.ingress(now);
        got += to.recv(&mut into[got..])?;
        if got >= message.len() {
            return Ok(());
        }
        // More than fits the buffers, or an address to be resolved first: the other end has to have its say.
        to.egress(now, usize::MAX);
        from.ingress(now);
        now = deadline.turn()?;
    }
}

struct SmoltcpSession {
    spec: Spec,
    timing: Timing,
    cores: Cores,
    client: Side,
    server: Side,
    out: Vec<u8>,
    inn: Vec<u8>,
    /// Messages (rr, crr) since the session was opened.
    message: u64,
    /// Connections since the session was opened.
    connections: u64,
    /// Bytes written to the stream, and read from it, since the session was opened.
    written: u64,
    read: u64,
    failed: bool,
}

impl SmoltcpSession {
    fn open(spec: &Spec) -> Result<Self, Error> {
        let capabilities = PeerSmoltcp.capabilities();
        capabilities.check(PATH, spec)?;
        let (client, server) = link();
        let mut session = Self {
            timing: capabilities.timing(spec),
            cores: Cores::choose(spec.placement)?,
            client: Side::new(client, 1, spec.nagle())?,
            server: Side::new(server, 2, spec.nagle())?,
            out: vec![0; spec.size],
            inn: vec![0; spec.size.max(BUFFER)],
            message: 0,
            connections: 0,
            written: 0,
            read: 0,
            failed: false,
            spec: spec.clone(),
        };
        session.server.listen()?;
        match spec.workload {
            Workload::Rr | Workload::Stream => session.connect(now())?,
            // One connection beforehand, so that the addresses are resolved.
            Workload::Crr => {
                session.connect(now())?;
                session.close(now())?;
            }
        }
        Ok(session)
    }

    /// Lets both ends do all there is to do until `so`.
    #[cold]
    fn turn_until(
        &mut self,
        doing: &'static str,
        mut so: impl FnMut(&mut Side, &mut Side) -> bool,
    ) -> Result<(), Error> {
        let mut deadline = Deadline::new(doing);
        while !so(&mut self.client, &mut self.server) {
            let now = deadline.turn()?;
            self.client.egress(now, usize::MAX);
            self.server.ingress(now);
            self.server.egress(now, usize::MAX);
            self.client.ingress(now);
        }
        Ok(())
    }

    /// Connects from the next local port: SYN there, SYN and ACK back. The last ACK travels with the first data.
    fn connect(&mut self, now: Instant) -> Result<(), Error> {
        let (first, count) = LOCAL_PORTS;
        let port = first + (self.connections % u64::from(count)) as u16;
        self.connections += 1;
        let remote = self.server.address;
        self.client.connect(remote, port)?;
        self.client.egress(now, 1);
        self.server.ingress(now);
        self.server.egress(now, 1);
        self.client.ingress(now);
        if self.client.socket().state() == State::Established {
            return Ok(());
        }
        self.turn_until("connecting", |client, _| {
            client.socket().state() == State::Established
        })
    }

    /// Closes from the client: FIN there, FIN and ACK back, ACK there. The far end listens again after that.
    fn close(&mut self, now: Instant) -> Result<(), Error> {
        self.client.socket().close();
        self.client.egress(now, 1);
        self.server.ingress(now);
        if self.server.socket().may_recv() || self.server.socket().state() != State::CloseWait {
            self.turn_until("closing", |_, server| {
                server.socket().state() == State::CloseWait
            })?;
        }
        self.server.socket().close();
        self.server.egress(now, 1);
        self.client.ingress(now);
        self.client.egress(now, 1);
        self.server.ingress(now);
        if self.server.socket().state() != State::Closed {
            self.turn_until("closing", |_, server| {
                server.socket().state() == State::Closed
            })?;
        }
        self.server.listen()
    }

    #[inline]
    fn round_trip(&mut self) -> Result<(), Error> {
        let now = now();
        let message = self.message;
        self.message += 1;
        let size = self.spec.size;
        let corrupt = |what| {
            move |offset| Error::Corrupt {
                path: PATH,
                what,
                message,
                offset,
            }
        };
        if self.spec.workload == Workload::Crr {
            self.connect(now)?;
        }
        if self.spec.verify {
            fill(&mut self.out, request_seed(message), 0);
        }
        carry(
            now,
            &mut self.client,
            &mut self.server,
            &self.out,
            &mut self.inn[..size],
        )?;
        if self.spec.verify {
            check(&self.inn[..size], request_seed(message), 0).map_err(corrupt("request"))?;
            fill(&mut self.out, response_seed(message), 0);
        }
        carry(
            now,
            &mut self.server,
            &mut self.client,
            &self.out,
            &mut self.inn[..size],
        )?;
        if self.spec.verify {
            check(&self.inn[..size], response_seed(message), 0).map_err(corrupt("response"))?;
        }
        if self.spec.workload == Workload::Crr {
            self.close(now)?;
        }
        Ok(())
    }

    /// One write of the stream; what has gathered is sent when it is enough.
    #[inline]
    fn write(&mut self) -> Result<(), Error> {
        if self.spec.verify {
            fill(&mut self.out, STREAM_SEED, self.written);
        }
        let mut done = self.client.send(&self.out)?;
        self.written += self.spec.size as u64;
        let mut deadline = Deadline::new("sending a stream");
        while done < self.spec.size {
            let now = deadline.turn()?;
            self.move_stream(now)?;
            done += self.client.send(&self.out[done..])?;
        }
        if self.client.socket().send_queue() >= GATHER {
            self.move_stream(now())?;
        }
        Ok(())
    }

    /// Sends what has gathered, reads it at the other end, and brings its ACKs back.
    fn move_stream(&mut self, now: Instant) -> Result<(), Error> {
        self.client.egress(now, usize::MAX);
        self.server.ingress(now);
        loop {
            let got = self.server.recv(&mut self.inn)?;
            if got == 0 {
                break;
            }
            if self.spec.verify {
                check(&self.inn[..got], STREAM_SEED, self.read).map_err(|offset| {
                    Error::Corrupt {
                        path: PATH,
                        what: "stream",
                        message: 0,
                        offset,
                    }
                })?;
            }
            self.read += got as u64;
        }
        self.server.egress(now, usize::MAX);
        self.client.ingress(now);
        Ok(())
    }

    /// Brings the rest of the stream over; then the reader says with one byte that it has read all.
    fn finish_stream(&mut self) -> Result<(), Error> {
        self.client.socket().set_nagle_enabled(false);
        let mut deadline = Deadline::new("ending a stream");
        while self.read < self.written {
            let now = deadline.turn()?;
            self.move_stream(now)?;
        }
        self.client.socket().set_nagle_enabled(self.spec.nagle());
        carry(now(), &mut self.server, &mut self.client, &[1], &mut [0])
    }

    fn slice(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        let _pinned = Pinned::to(self.cores.client)
            .map_err(|error| Error::system(PATH, "pinning a thread", error))?;
        let size = self.spec.size as u64;
        // Delayed ACKs have come due since the last slice; sent now, they prevent retransmissions that only the pause caused.
        let now = now();
        self.client.egress(now, usize::MAX);
        self.server.ingress(now);
        self.server.egress(now, usize::MAX);
        self.client.ingress(now);
        match self.spec.workload {
            Workload::Rr | Workload::Crr => {
                for _ in 0..self.spec.warmup {
                    self.round_trip()?;
                }
                let mut laps = Laps::start(self.timing, samples)?;
                for _ in 0..iterations {
                    self.round_trip()?;
                    laps.lap(samples);
                }
                laps.finish(samples, 2 * iterations * size, false);
            }
            Workload::Stream => {
                let mut laps = Laps::start(self.timing, samples)?;
                for _ in 0..iterations {
                    self.write()?;
                    laps.lap(samples);
                }
                laps.flush(samples);
                self.finish_stream()?;
                laps.finish(samples, iterations * size, true);
            }
        }
        Ok(())
    }
}

impl Session for SmoltcpSession {
    fn run(&mut self, iterations: u64, samples: &mut Samples) -> Result<(), Error> {
        if self.failed {
            return Err(Error::Poisoned { path: PATH });
        }
        samples.check_timing(self.timing)?;
        let outcome = self.slice(iterations, samples);
        self.failed = outcome.is_err();
        outcome
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("congestion", "none".to_owned()),
            self.spec.nagle_setting(),
            ("cores", self.cores.describe()),
            ("ends", "one thread".to_owned()),
            ("mtu", MTU.to_string()),
            ("socket buffers", format!("{BUFFER} bytes")),
            ("checksums", "software, both ends".to_owned()),
            ("timestamps", "off".to_owned()),
        ]
    }
}
