//! Two hosts at the ends of a path with faults, in virtual time. They know each other's link addresses.

use super::{PORT, config};
use std::net::IpAddr;
use tollgate_link::fault::{Fault, Faults};
use tollgate_link::memory::OwnedEnd;
use tollgate_stack::{Config, ConnId, Event, Info, Instant, Pool, Stack};

/// Bytes of an IP packet at most.
const MTU: usize = 1500;
/// Frames that the path and the hosts hold at most.
const FRAMES: usize = 8192;

/// A host and its end of the path.
pub struct Host {
    pub stack: Stack,
    pub link: Fault<OwnedEnd>,
}

/// Both ends, and a connection that the sender opens.
pub struct Path {
    pub sender: Host,
    pub receiver: Host,
    pub pool: Pool,
    pub now: Instant,
    pub conn: ConnId,
    pub accepted: Option<ConnId>,
}

impl Path {
    /// Hosts 1 and 2 with these addresses; `faults` are those of the way from the sender, and those of the way back.
    pub fn new(hosts: [(Config, IpAddr); 2], faults: [Faults; 2], seed: u64) -> Self {
        let now = Instant::from_nanos(1 << 40);
        let [near, far] = OwnedEnd::pair(MTU, FRAMES);
        let [forth, back] = faults;
        let mut pool = Pool::new(2 * FRAMES, Pool::frame_size_for(MTU));
        let [sender, receiver] = hosts;
        let (from, to) = (sender.1, receiver.1);
        let host = |config, end, faults, seed| Host {
            stack: Stack::new(config, MTU, now).unwrap(),
            link: Fault::on_transmit(end, faults, seed),
        };
        let mut sender = host(sender.0, near, forth, seed);
        let mut receiver = host(receiver.0, far, back, !seed);
        receiver.stack.at(now, &mut pool).listen(PORT, 4).unwrap();
        for (host, other, ip) in [(&mut sender, 2, to), (&mut receiver, 1, from)] {
            let mac = config(other).mac;
            host.stack.at(now, &mut pool).add_neighbour(ip, mac);
        }
        let conn = sender.stack.at(now, &mut pool).connect((to, PORT)).unwrap();
        Self {
            sender,
            receiver,
            pool,
            now,
            conn,
            accepted: None,
        }
    }

    /// Lets arrive what is due, lets both stacks work, and accepts.
    pub fn poll(&mut self) {
        for host in [&mut self.sender, &mut self.receiver] {
            host.link.set_now(self.now);
            host.link.poll(&mut self.pool);
        }
        for host in [&mut self.sender, &mut self.receiver] {
            host.stack.at(self.now, &mut self.pool).poll(&mut host.link);
        }
        let mut active = self.receiver.stack.at(self.now, &mut self.pool);
        while let Some(event) = active.next_event() {
            if let Event::Listener { listener, .. } = event {
                self.accepted = active.accept(listener).ok();
            }
        }
    }

    /// When something is due next at either end, or on the way.
    pub fn next_event(&self) -> Option<Instant> {
        let events = [&self.sender, &self.receiver].map(|host| {
            let link = host.link.next_event();
            [host.stack.next_deadline(self.now), link]
        });
        events.into_iter().flatten().flatten().min()
    }

    /// The account of the connection at the sender.
    pub fn info(&mut self) -> Info {
        let active = self.sender.stack.at(self.now, &mut self.pool);
        active.info(self.conn).unwrap()
    }
}
