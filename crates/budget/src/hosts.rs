//! Two stacks in one thread on a memory link: what every scenario counts on.

use crate::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tollgate_gate::{Off, Recorder};
use tollgate_link::Side;
use tollgate_link::memory::Memory;
use tollgate_stack::udp::UdpId;
use tollgate_stack::{
    Active, Config, ConnId, Event, Instant, ListenerId, MemoryArea, Pool, Received, Stack,
};
use tollgate_wire::ethernet::MacAddr;

/// The first port that the server listens on.
const PORT: u16 = 7;
/// Connections to one port at most: what the ephemeral ports hold without a long search for a free one.
const PER_PORT: usize = 14_000;
/// Connections that hold a frame at the same time, at most.
const BUSY: usize = 10_000;
/// Nanoseconds that pass for half a round trip.
const HALF_ROUND_TRIP: u64 = 100;

/// Both ends of a connection: the client's handle and the server's.
pub type Ends = (ConnId, ConnId);

/// UDP sockets at both ends.
#[derive(Clone, Copy, Debug)]
pub struct Datagrams {
    client: UdpId,
    server: UdpId,
    to: SocketAddr,
}

/// Two stacks, their pool, the cable between them, and virtual time.
#[derive(Debug)]
pub struct Hosts {
    /// The frames of both.
    pub pool: Pool,
    /// The stack that connects.
    pub client: Stack,
    /// The stack that listens.
    pub server: Stack,
    /// The link.
    pub cable: Memory,
    /// The time.
    pub now: Instant,
    listeners: Vec<ListenerId>,
    /// The server's address.
    server_ip: IpAddr,
    opened: usize,
}

impl Hosts {
    /// Hosts with `adjust`ed configurations and room for `connections`.
    ///
    /// # Errors
    /// The stack's refusal of the configuration.
    pub fn new(
        connections: usize,
        mtu: usize,
        adjust: impl Fn(&mut Config),
    ) -> Result<Self, Error> {
        Self::with_busy(connections, connections.min(BUSY), mtu, adjust)
    }

    /// Makes two hosts of which so many connections have something in flight at a time.
    ///
    /// # Errors
    /// The stack's refusal of the configuration.
    pub fn with_busy(
        connections: usize,
        busy: usize,
        mtu: usize,
        adjust: impl Fn(&mut Config),
    ) -> Result<Self, Error> {
        let now = Instant::from_nanos(1 << 40);
        let host = |n: u8| {
            let mac = MacAddr([2, 0, 0, 0, 0, n]);
            let mut config =
                Config::new(mac, Ipv4Addr::new(10, 0, 0, n), 24, [u64::from(n), 2, 3, 4]);
            config.max_connections = connections + 16;
            config.max_neighbours = 16;
            adjust(&mut config);
            Stack::new(config, mtu, now)
        };
        // A delayed acknowledgment keeps the frame that it is for.
        let frames = 4096 + 2 * busy;
        let mut pool = Pool::new(frames, Pool::frame_size_for(mtu));
        let (client, mut server) = (host(1)?, host(2)?);
        let server_ip = match server.config().ipv6.and_then(|ipv6| ipv6.address) {
            Some((address, _)) => address.into(),
            None => server.config().ip.into(),
        };
        let ports = connections.div_ceil(PER_PORT).max(1) as u16;
        let listeners: Result<_, _> = (0..ports)
            .map(|n| server.at(now, &mut pool).listen(PORT + n, 1024))
            .collect();
        Ok(Self {
            pool,
            client,
            server,
            cable: Memory::new(mtu),
            now,
            listeners: listeners?,
            server_ip,
            opened: 0,
        })
    }

    /// Places of the tables of both hosts.
    pub fn large_tables(&mut self) -> impl Iterator<Item = MemoryArea> {
        let hosts = [&self.client, &self.server];
        let tables = hosts.map(Stack::large_tables).into_iter().flatten();
        tables.chain(self.pool.large_tables())
    }

    /// Lets time pass.
    #[inline(always)]
    pub fn tick(&mut self, nanos: u64) {
        self.now = Instant::from_nanos(self.now.as_nanos() + nanos);
    }

    /// One turn of the client.
    #[inline(always)]
    pub fn poll_client(&mut self) {
        self.client
            .at(self.now, &mut self.pool)
            .poll(&mut self.cable.end(Side::A));
    }

    /// One turn of the server.
    #[inline(always)]
    pub fn poll_server(&mut self) {
        self.server
            .at(self.now, &mut self.pool)
            .poll(&mut self.cable.end(Side::B));
    }

    /// Polls both until nothing moves.
    #[inline(always)]
    pub fn settle(&mut self) {
        loop {
            self.poll_client();
            self.poll_server();
            let waiting = self.client.device_queue_len() + self.server.device_queue_len();
            if self.cable.is_idle() && waiting == 0 {
                return;
            }
        }
    }

    /// The client's next event.
    #[inline(always)]
    pub fn client_event(&mut self) -> Option<Event> {
        self.client.at(self.now, &mut self.pool).next_event()
    }

    /// The server's next event.
    #[inline(always)]
    pub fn server_event(&mut self) -> Option<Event> {
        self.server.at(self.now, &mut self.pool).next_event()
    }

    /// Takes every event that waits.
    pub fn drain_events(&mut self) {
        while self.client_event().is_some() {}
        while self.server_event().is_some() {}
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// The stack's refusal.
    #[inline(always)]
    pub fn connect(&mut self) -> Result<Ends, Error> {
        let which = self.opened % self.listeners.len();
        self.opened += 1;
        let to = SocketAddr::new(self.server_ip, PORT + which as u16);
        let client = self.client.at(self.now, &mut self.pool).connect(to)?;
        self.settle();
        let server = self
            .server
            .at(self.now, &mut self.pool)
            .accept(self.listeners[which])?;
        Ok((client, server))
    }

    /// Opens `count` connections.
    ///
    /// # Errors
    /// The stack's refusal.
    pub fn connect_many(&mut self, count: usize) -> Result<Vec<Ends>, Error> {
        let mut ends = Vec::with_capacity(count);
        for _ in 0..count {
            ends.push(self.connect()?);
            self.tick(HALF_ROUND_TRIP);
            self.drain_events();
        }
        Ok(ends)
    }

    /// Closes a connection at both ends, the client first.
    ///
    /// # Errors
    /// Those of the stack.
    #[inline(always)]
    pub fn close(&mut self, (client, server): Ends) -> Result<(), Error> {
        self.client.at(self.now, &mut self.pool).close(client)?;
        self.poll_client();
        self.poll_server();
        while self.server_event().is_some() {}
        self.server.at(self.now, &mut self.pool).close(server)?;
        self.settle();
        while self.client_event().is_some() {}
        Ok(())
    }

    /// Opens a UDP socket at each end.
    ///
    /// # Errors
    /// The stack's refusal.
    pub fn bind_datagrams(&mut self) -> Result<Datagrams, Error> {
        Ok(Datagrams {
            client: self.client.at(self.now, &mut self.pool).udp_bind(PORT)?,
            server: self.server.at(self.now, &mut self.pool).udp_bind(PORT)?,
            to: SocketAddr::new(self.server_ip, PORT),
        })
    }

    /// A datagram to the server and one back, both applications' calls included: `udp_send`, `flush` and `udp_poll_receive` at each end.
    /// Tells whether both came whole.
    #[inline(always)]
    pub fn datagram_round_trip(
        &mut self,
        ends: Datagrams,
        message: &[u8],
        buffer: &mut [u8],
    ) -> bool {
        let a = &mut self.client.at(self.now, &mut self.pool);
        let mut whole = a.udp_send(ends.client, ends.to, message).is_ok();
        a.flush(&mut self.cable.end(Side::A));
        let b = &mut self.server.at(self.now, &mut self.pool);
        let received = b.udp_poll_receive(&mut self.cable.end(Side::B), ends.server, buffer);
        let Ok((from, _)) = received else {
            return false;
        };
        self.tick(HALF_ROUND_TRIP);
        let b = &mut self.server.at(self.now, &mut self.pool);
        whole &= b.udp_send(ends.server, from.remote, buffer).is_ok();
        b.flush(&mut self.cable.end(Side::B));
        let a = &mut self.client.at(self.now, &mut self.pool);
        let received = a.udp_poll_receive(&mut self.cable.end(Side::A), ends.client, buffer);
        self.tick(HALF_ROUND_TRIP);
        whole && received.is_ok_and(|(_, len)| len == message.len())
    }

    /// Makes one through the sockets' queues: `udp_send`, `poll` and `udp_receive_into` at each end.
    #[inline(always)]
    pub fn queued_datagram_round_trip(
        &mut self,
        ends: Datagrams,
        message: &[u8],
        buffer: &mut [u8],
    ) -> bool {
        let a = &mut self.client.at(self.now, &mut self.pool);
        let mut whole = a.udp_send(ends.client, ends.to, message).is_ok();
        a.poll(&mut self.cable.end(Side::A));
        let b = &mut self.server.at(self.now, &mut self.pool);
        b.poll(&mut self.cable.end(Side::B));
        let Ok((from, _)) = b.udp_receive_into(ends.server, buffer) else {
            return false;
        };
        whole &= b.udp_send(ends.server, from, buffer).is_ok();
        b.poll(&mut self.cable.end(Side::B));
        self.tick(HALF_ROUND_TRIP);
        let a = &mut self.client.at(self.now, &mut self.pool);
        a.poll(&mut self.cable.end(Side::A));
        let received = a.udp_receive_into(ends.client, buffer);
        self.tick(HALF_ROUND_TRIP);
        whole && received.is_ok_and(|(_, len)| len == message.len())
    }

    /// A request and its response, both applications' calls included: `send`, `flush` and a `poll_receive` at each end.
    #[inline(always)]
    pub fn round_trip(&mut self, ends: Ends, message: &[u8], buffer: &mut [u8]) {
        self.recorded_round_trip(ends, message, buffer, || Off);
    }

    /// Makes a round trip with a recorder at both ends.
    #[inline(always)]
    pub fn recorded_round_trip<R: Recorder>(
        &mut self,
        (client, server): Ends,
        message: &[u8],
        buffer: &mut [u8],
        recorder: impl Fn() -> R,
    ) {
        let a = &mut self.client.recorded(self.now, &mut self.pool, recorder());
        a.send(client, message).expect("there is room");
        a.flush(&mut self.cable.end(Side::A));
        self.receive_server(server, message.len(), buffer, &recorder);
        self.tick(HALF_ROUND_TRIP);
        let b = &mut self.server.recorded(self.now, &mut self.pool, recorder());
        b.send(server, &buffer[..message.len()])
            .expect("there is room");
        b.flush(&mut self.cable.end(Side::B));
        self.receive_client(client, message.len(), buffer, &recorder);
        self.tick(HALF_ROUND_TRIP);
    }

    /// A request and its response through the socket queues: each end reads after its message has arrived, so no reader that waits
    /// says which connection is next.
    pub fn queued_round_trip(&mut self, (client, server): Ends, message: &[u8], buffer: &mut [u8]) {
        self.client
            .at(self.now, &mut self.pool)
            .send(client, message)
            .expect("there is room");
        let mut got = 0;
        while got < message.len() {
            self.poll_client();
            self.poll_server();
            let mut stack = self.server.at(self.now, &mut self.pool);
            if let Ok(Received::Data(n)) = stack.receive(server, &mut buffer[got..message.len()]) {
                got += n;
            }
        }
        self.tick(HALF_ROUND_TRIP);
        self.server
            .at(self.now, &mut self.pool)
            .send(server, &buffer[..message.len()])
            .expect("there is room");
        let mut got = 0;
        while got < message.len() {
            self.poll_server();
            self.poll_client();
            let mut stack = self.client.at(self.now, &mut self.pool);
            if let Ok(Received::Data(n)) = stack.receive(client, &mut buffer[got..message.len()]) {
                got += n;
            }
        }
        self.tick(HALF_ROUND_TRIP);
        self.drain_events();
    }

    /// A request and its response as event loops make them: each end polls, takes its events, reads where there is something to read,
    /// answers what is complete, and flushes. Its reads are of the whole buffer, which tells it that nothing is left.
    #[inline(always)]
    pub fn event_round_trip(
        &mut self,
        (client, server): Ends,
        message: &[u8],
        buffer: &mut [u8],
    ) -> usize {
        let stack = &mut self.client.at(self.now, &mut self.pool);
        stack.send(client, message).expect("there is room");
        stack.flush(&mut self.cable.end(Side::A));
        let stack = &mut self.server.at(self.now, &mut self.pool);
        stack.poll(&mut self.cable.end(Side::B));
        let got = read_ready(stack, server, buffer);
        stack.send(server, &buffer[..got]).expect("there is room");
        stack.flush(&mut self.cable.end(Side::B));
        self.tick(HALF_ROUND_TRIP);
        let stack = &mut self.client.at(self.now, &mut self.pool);
        stack.poll(&mut self.cable.end(Side::A));
        let got = read_ready(stack, client, buffer);
        self.tick(HALF_ROUND_TRIP);
        got
    }

    /// Bytes that the server reads from `conn` into a posted buffer; 0 when nothing has arrived.
    #[inline(always)]
    pub fn read(&mut self, conn: ConnId, buffer: &mut [u8]) -> usize {
        let server = &mut self.server.at(self.now, &mut self.pool);
        match server.poll_receive(&mut self.cable.end(Side::B), conn, buffer) {
            Ok(Received::Data(bytes)) => bytes,
            _ => 0,
        }
    }

    #[inline(always)]
    fn receive_server<R: Recorder>(
        &mut self,
        conn: ConnId,
        len: usize,
        buffer: &mut [u8],
        recorder: &impl Fn() -> R,
    ) {
        let mut got = 0;
        while got < len {
            let mut stack = self.server.recorded(self.now, &mut self.pool, recorder());
            match stack.poll_receive(&mut self.cable.end(Side::B), conn, &mut buffer[got..len]) {
                Ok(Received::Data(n)) => got += n,
                _ => self.poll_client(),
            }
        }
    }

    #[inline(always)]
    fn receive_client<R: Recorder>(
        &mut self,
        conn: ConnId,
        len: usize,
        buffer: &mut [u8],
        recorder: &impl Fn() -> R,
    ) {
        let mut got = 0;
        while got < len {
            let mut stack = self.client.recorded(self.now, &mut self.pool, recorder());
            match stack.poll_receive(&mut self.cable.end(Side::A), conn, &mut buffer[got..len]) {
                Ok(Received::Data(n)) => got += n,
                _ => self.poll_server(),
            }
        }
    }

    /// Datagrams that either end predicted.
    pub fn predicted_datagrams(&self) -> u64 {
        let of = |stack: &Stack| stack.counters().predicted_datagrams;
        of(&self.client) + of(&self.server)
    }

    /// Segments that either end did not predict.
    pub fn misses(&self) -> u64 {
        let of = |stack: &Stack| stack.counters().misses.iter().sum::<u64>();
        of(&self.client) + of(&self.server)
    }
}

/// Takes all events and reads once for each connection that is readable; the bytes that `conn` had.
#[inline(always)]
fn read_ready(stack: &mut Active<'_>, conn: ConnId, buffer: &mut [u8]) -> usize {
    let mut got = 0;
    while let Some(event) = stack.next_event() {
        if let Event::Connection {
            conn: ready_conn,
            ready,
            ..
        } = event
            && ready.readable()
            && let Ok(Received::Data(bytes)) = stack.receive(ready_conn, buffer)
            && ready_conn == conn
        {
            got = bytes;
        }
    }
    got
}
