//! Two stacks in one thread on a memory link: what every scenario counts on.

use std::net::{Ipv4Addr, SocketAddrV4};
use tollgate_link::Side;
use tollgate_link::memory::Memory;
use tollgate_stack::{Config, ConnId, Instant, ListenerId, Pool, Received, Stack};
use tollgate_wire::ethernet::MacAddr;

/// The port that the server listens on.
pub const PORT: u16 = 7;

/// Two stacks, their pool, the cable between them, and virtual time.
pub struct Hosts {
    pub pool: Pool,
    pub client: Stack,
    pub server: Stack,
    pub cable: Memory,
    pub now: Instant,
    pub listener: ListenerId,
}

impl Hosts {
    /// Hosts with `adjust`ed configurations and room for `connections`.
    pub fn new(connections: usize, mtu: usize, adjust: impl Fn(&mut Config)) -> Self {
        let now = Instant::from_nanos(1 << 40);
        let host = |n: u8| {
            let mac = MacAddr([2, 0, 0, 0, 0, n]);
            let mut config = Config::new(mac, Ipv4Addr::new(10, 0, 0, n), 24, [u64::from(n), 2, 3, 4]);
            config.max_connections = connections + 16;
            config.max_neighbours = 16;
            adjust(&mut config);
            Stack::new(config, mtu, now).expect("the scenario's configuration is valid")
        };
        let mut pool = Pool::new(8192, Pool::frame_size_for(mtu));
        let (client, mut server) = (host(1), host(2));
        let listener = server.at(now, &mut pool).listen(PORT, 1024).expect("the port is free");
        Self { pool, client, server, cable: Memory::new(mtu), now, listener }
    }

    /// Lets time pass.
    #[inline(always)]
    pub fn tick(&mut self, nanos: u64) {
        self.now = Instant::from_nanos(self.now.as_nanos() + nanos);
    }

    #[inline(always)]
    pub fn poll_client(&mut self) {
        self.client.at(self.now, &mut self.pool).poll(&mut self.cable.end(Side::A));
    }

    #[inline(always)]
    pub fn poll_server(&mut self) {
        self.server.at(self.now, &mut self.pool).poll(&mut self.cable.end(Side::B));
    }

    /// Polls both until nothing moves.
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

    /// Opens a connection; returns both ends' handles.
    pub fn connect(&mut self) -> (ConnId, ConnId) {
        let to = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), PORT);
        let client = self.client.at(self.now, &mut self.pool).connect(to).expect("a connection can be opened");
        self.settle();
        let server = self.server.at(self.now, &mut self.pool).accept(self.listener).expect("it was accepted");
        while self.client.at(self.now, &mut self.pool).next_event().is_some() {}
        while self.server.at(self.now, &mut self.pool).next_event().is_some() {}
        (client, server)
    }

    /// A request and its response, both applications' calls included.
    #[inline(always)]
    pub fn round_trip(&mut self, (client, server): (ConnId, ConnId), message: &[u8], buffer: &mut [u8]) {
        let a = &mut self.client.at(self.now, &mut self.pool);
        a.send(client, message).expect("there is room");
        a.poll(&mut self.cable.end(Side::A));
        self.receive_server(server, message.len(), buffer);
        self.tick(100);
        let b = &mut self.server.at(self.now, &mut self.pool);
        b.send(server, &buffer[..message.len()]).expect("there is room");
        b.poll(&mut self.cable.end(Side::B));
        self.receive_client(client, message.len(), buffer);
        self.tick(100);
    }

    #[inline(always)]
    fn receive_server(&mut self, conn: ConnId, len: usize, buffer: &mut [u8]) {
        let mut got = 0;
        while got < len {
            let mut stack = self.server.at(self.now, &mut self.pool);
            match stack.poll_receive(&mut self.cable.end(Side::B), conn, &mut buffer[got..len]) {
                Ok(Received::Data(n)) => got += n,
                _ => self.poll_client(),
            }
        }
    }

    #[inline(always)]
    fn receive_client(&mut self, conn: ConnId, len: usize, buffer: &mut [u8]) {
        let mut got = 0;
        while got < len {
            let mut stack = self.client.at(self.now, &mut self.pool);
            match stack.poll_receive(&mut self.cable.end(Side::A), conn, &mut buffer[got..len]) {
                Ok(Received::Data(n)) => got += n,
                _ => self.poll_server(),
            }
        }
    }
}
