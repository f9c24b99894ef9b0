//! Hit rates of demultiplexing: how often the connection of a segment is found at once. Measured for the one-entry
//! cache of Clark et al. 1989, for lists by a hash with the last used connection first, and for the table of
//! Tollgate's own stack.
//!
//! Keys, their comparison, the hash and the table are the stack's ([`tollgate_stack::demux`]). Each host that
//! receives has a cache and tables of its own, as it would in life.
//!
//! [`Replay`] gives them the segments of a capture; [`TcbCaches`] must never know where they come from.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr};

use tollgate_stack::demux::{FlowKey, Table};
use tollgate_wire::tcp::Flags;

use crate::capture::{Capture, Damage, Refused};
use crate::rows::{End, Ends, FlowRow, MessageRow, PacketRow, Protocol, Rows};
use crate::{Counts, Importer, Settings};

/// The numbers of lists that are tried, as powers of two. Clark et al. 1989, "Checksums and TCBs", think of 8 bits.
pub const LIST_BITS: [u32; 5] = [0, 4, 6, 8, 10];
/// Connections of one host that the stack's table holds. When it is full, further ones are looked for and not found, and
/// that is counted.
const TABLE: usize = 4_096;
/// The key of the hash. There is nobody here who could guess it.
const HASH_KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

/// Counts of lookups in lists, or in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Lookups whose connection was the first that was compared.
    pub at_first: u64,
    /// Connections that were compared in all lookups.
    pub compared: u64,
}

/// Counts of one host, or of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Segments received.
    pub segments: u64,
    /// Segments of the same connection as the one before.
    pub hits: u64,
    /// Connections, each when its first segment came.
    pub connections: u64,
    /// The most connections at the same time.
    pub most_alive: u64,
    /// Lookups in lists, for each of [`LIST_BITS`].
    pub lists: [Lookups; LIST_BITS.len()],
    /// Lookups in the stack's table, of segments of connections that it holds.
    pub table: Lookups,
    /// Connections for which the table had no room.
    pub without_room: u64,
}

impl CacheCounts {
    /// The share of segments that the one-entry cache served; nothing when there was none.
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.segments > 0).then(|| self.hits as f64 / self.segments as f64)
    }

    fn add(&mut self, other: &Self) {
        let Self {
            segments,
            hits,
            connections,
            most_alive,
            lists,
            table,
            without_room,
        } = other;
        self.segments += segments;
        self.hits += hits;
        self.connections += connections;
        self.most_alive = self.most_alive.max(*most_alive);
        for (mine, theirs) in self.lists.iter_mut().zip(lists) {
            mine.at_first += theirs.at_first;
            mine.compared += theirs.compared;
        }
        self.table.at_first += table.at_first;
        self.table.compared += table.compared;
        self.without_room += without_room;
    }
}

/// One end of a connection: both may be at one host, which then has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Side {
    flow: u64,
    /// Tells whether it is the server's.
    server: bool,
}

/// One end of a connection at its host. A flow never comes back, so what is gone is remembered: late segments of it are looked for, and
/// open nothing.
enum Tcb {
    Alive {
        key: FlowKey,
        /// Tells whether this end, and the other, has sent a FIN.
        finished: [bool; 2],
        /// Tells whether the table holds it.
        in_table: bool,
    },
    Gone,
}

struct Host {
    counts: CacheCounts,
    cached: Option<FlowKey>,
    tcbs: HashMap<Side, Tcb>,
    /// The end that is alive under each key. A later connection between the same ends takes its place, as it would at the host.
    sides: HashMap<FlowKey, Side>,
    alive: u64,
    /// For each of [`LIST_BITS`], the lists, the last used connection at their end.
    lists: [HashMap<u32, Vec<FlowKey>>; LIST_BITS.len()],
    table: Table,
    /// The connections in the table, by slot.
    slots: Vec<FlowKey>,
    free: Vec<u32>,
}

impl Host {
    fn new() -> Self {
        Self {
            counts: CacheCounts::default(),
            cached: None,
            tcbs: HashMap::new(),
            sides: HashMap::new(),
            alive: 0,
            lists: Default::default(),
            table: Table::new(TABLE, HASH_KEY),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    fn open(&mut self, side: Side, key: FlowKey) {
        if let Some(before) = self.sides.get(&key).copied() {
            self.close(before);
        }
        self.sides.insert(key, side);
        let hash = self.table.hash(key);
        let slot = self.free.last().copied().unwrap_or(self.slots.len() as u32);
        let in_table = self.table.insert(hash, slot).is_ok();
        if in_table {
            match self.free.pop() {
                Some(slot) => self.slots[slot as usize] = key,
                None => self.slots.push(key),
            }
        } else {
            self.counts.without_room += 1;
        }
        let tcb = Tcb::Alive {
            key,
            finished: [false; 2],
            in_table,
        };
        self.tcbs.insert(side, tcb);
        self.counts.connections += 1;
        self.alive += 1;
        self.counts.most_alive = self.counts.most_alive.max(self.alive);
    }

    fn receive(&mut self, side: Side, key: FlowKey) {
        if !self.tcbs.contains_key(&side) {
            self.open(side, key);
        }
        let is_gone = matches!(self.tcbs.get(&side), Some(Tcb::Gone));
        self.counts.segments += 1;
        self.counts.hits += u64::from(self.cached.is_some_and(|cached| cached.is(key)));
        self.cached = Some(key);
        let hash = self.table.hash(key);
        for ((lists, counts), bits) in self
            .lists
            .iter_mut()
            .zip(&mut self.counts.lists)
            .zip(LIST_BITS)
        {
            let list = lists.entry(hash.list(bits)).or_default();
            let position = list.iter().rev().position(|held| held.is(key));
            counts.compared += position.map_or(list.len(), |before| before + 1) as u64;
            counts.at_first += u64::from(position == Some(0));
            match position {
                Some(0) => {}
                Some(before) => {
                    let at = list.len() - 1 - before;
                    list[at..].rotate_left(1);
                }
                None if is_gone => {}
                None => list.push(key),
            }
        }
        let (slots, mut compared) = (&self.slots, 0);
        let found = self.table.find(hash, |slot| {
            compared += 1;
            slots[slot as usize].is(key)
        });
        if found.is_some() {
            self.counts.table.compared += compared;
            self.counts.table.at_first += u64::from(compared == 1);
        }
    }

    /// Takes a segment's control bits; `own` when this end sent it. The end that sent the last FIN has its connection until something
    /// comes back: the acknowledgment of it.
    fn follow(&mut self, side: Side, flags: Flags, own: bool) {
        let Some(Tcb::Alive { finished, .. }) = self.tcbs.get_mut(&side) else {
            return;
        };
        finished[usize::from(!own)] |= flags.has(Flags::FIN);
        let is_over = *finished == [true, true] && !own;
        if is_over || flags.has(Flags::RST) {
            self.close(side);
        }
    }

    fn close(&mut self, side: Side) {
        let Some(Tcb::Alive { key, in_table, .. }) = self.tcbs.insert(side, Tcb::Gone) else {
            return;
        };
        self.alive -= 1;
        self.sides.remove(&key);
        let hash = self.table.hash(key);
        for (lists, bits) in self.lists.iter_mut().zip(LIST_BITS) {
            if let Some(list) = lists.get_mut(&hash.list(bits)) {
                list.retain(|held| !held.is(key));
            }
        }
        let slots = &self.slots;
        let slot = self.table.find(hash, |slot| slots[slot as usize].is(key));
        if in_table && let Some(slot) = slot {
            self.table.remove(hash, slot);
            self.free.push(slot);
        }
    }
}

/// All hosts that receive.
#[derive(Default)]
pub struct TcbCaches {
    hosts: HashMap<IpAddr, Host>,
    /// IPv6 addresses as the stack's key, which is of IPv4, can hold them: numbers in 0.0.0.0/8, where no host is.
    numbers: HashMap<IpAddr, u32>,
}

impl TcbCaches {
    /// Takes a segment of a flow, in the order in which they were captured.
    pub fn segment(&mut self, flow: u64, ends: &Ends, to_server: bool, flags: Flags) {
        let (from, to) = if to_server {
            (ends.client, ends.server)
        } else {
            (ends.server, ends.client)
        };
        let key = FlowKey::new((self.number(from), from.port), (self.number(to), to.port));
        let receiver = self.hosts.entry(to.address).or_insert_with(Host::new);
        let side = |server| Side { flow, server };
        receiver.receive(side(to_server), key);
        receiver.follow(side(to_server), flags, false);
        if let Some(sender) = self.hosts.get_mut(&from.address) {
            sender.follow(side(!to_server), flags, true);
        }
    }

    fn number(&mut self, end: End) -> Ipv4Addr {
        match end.address {
            IpAddr::V4(v4) => v4,
            v6 => {
                let next = self.numbers.len() as u32;
                Ipv4Addr::from_bits(*self.numbers.entry(v6).or_insert(next))
            }
        }
    }

    /// Counts of each host, those with most segments first.
    pub fn hosts(&self) -> Vec<(IpAddr, CacheCounts)> {
        let mut hosts: Vec<_> = self
            .hosts
            .iter()
            .map(|(address, host)| (*address, host.counts))
            .collect();
        hosts.sort_by_key(|(address, counts)| (std::cmp::Reverse(counts.segments), *address));
        hosts
    }

    /// Counts of all hosts together; the most connections alive are those of one host.
    pub fn all(&self) -> CacheCounts {
        let mut all = CacheCounts::default();
        self.hosts.values().for_each(|host| all.add(&host.counts));
        all
    }
}

/// A capture that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It is no capture.
    #[error("{0}")]
    Refused(#[from] Refused),
    /// It could not be read on.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
}

/// The caches of the hosts of a capture, and what was read of it.
pub struct Replay {
    /// The caches.
    pub caches: TcbCaches,
    /// Counts of the packets.
    pub counts: Counts,
    /// Damage of the file.
    pub damage: Damage,
}

impl Replay {
    /// Reads a capture whole, and gives its TCP segments to the hosts that received them, in the order of the file.
    ///
    /// # Errors
    /// [`ReplayError`] when it is no capture, or its source fails.
    pub fn of(source: impl Read) -> Result<Self, ReplayError> {
        let mut capture = Capture::new(source)?;
        let mut importer = Importer::new(Settings::default());
        let mut kept = Kept::default();
        let Ok(counts) =
            read(&mut importer, &mut capture, &mut kept).and_then(|()| importer.finish(&mut kept));
        let (_, damage) = capture.finish()?;
        let mut caches = TcbCaches::default();
        for (flow, to_server, flags) in kept.segments {
            if let Some(ends) = kept.flows.get(&flow) {
                caches.segment(flow, ends, to_server, flags);
            }
        }
        Ok(Self {
            caches,
            counts,
            damage,
        })
    }
}

/// Packets that are read at once.
const AT_ONCE: u64 = 1 << 16;

fn read(
    importer: &mut Importer,
    capture: &mut Capture<impl Read>,
    kept: &mut Kept,
) -> Result<(), Infallible> {
    while importer.read(capture, AT_ONCE, kept)? {}
    Ok(())
}

/// Segments of a capture, until the ends of their flows are known: that is when the flows end.
#[derive(Default)]
struct Kept {
    segments: Vec<(u64, bool, Flags)>,
    flows: HashMap<u64, Ends>,
}

impl Rows for Kept {
    type Error = Infallible;

    fn packet(&mut self, row: &PacketRow) -> Result<(), Infallible> {
        self.segments
            .push((row.flow, row.to_server, Flags(row.flags)));
        Ok(())
    }

    fn message(&mut self, _: &MessageRow, _: &Ends) -> Result<(), Infallible> {
        Ok(())
    }

    fn flow(&mut self, row: &FlowRow) -> Result<(), Infallible> {
        if row.ends.protocol == Protocol::Tcp {
            self.flows.insert(row.flow, row.ends);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(port: u16, v6: bool) -> Ends {
        let address = |n: u8| -> IpAddr {
            if v6 {
                format!("2001:db8::{n}").parse().unwrap()
            } else {
                Ipv4Addr::new(10, 0, 0, n).into()
            }
        };
        Ends {
            protocol: Protocol::Tcp,
            client: End {
                address: address(1),
                port,
            },
            server: End {
                address: address(2),
                port: 80,
            },
        }
    }

    const ACK: Flags = Flags::ACK;

    #[test]
    fn the_cache_hits_when_a_connection_goes_on() {
        for v6 in [false, true] {
            let mut caches = TcbCaches::default();
            for port in [1, 1, 1, 2, 1, 1] {
                caches.segment(port.into(), &ends(port, v6), true, ACK);
            }
            let counts = caches.all();
            assert_eq!(
                (counts.segments, counts.hits, counts.connections),
                (6, 3, 2)
            );
            assert_eq!(counts.most_alive, 2);
            // One list: its first is what the cache would be, but for a connection's first segment.
            assert_eq!(counts.lists[0].at_first, 3);
            // 0 + 1 + 1 + 1 + 2 + 1.
            assert_eq!(counts.lists[0].compared, 6);
            assert_eq!(counts.table.at_first, 6);
        }
    }

    #[test]
    fn replayed_capture_is_counted_as_its_segments_are() {
        use crate::craft;
        let of_two = [1_000, 1_001, 1_001, 1_000, 1_000].map(|port| {
            let payload = craft::segment((port, 80), 1, ACK, 10);
            let tcp = tollgate_wire::ipv4::protocol::TCP;
            craft::ethernet(0x0800, &craft::ipv4(true, tcp, &payload))
        });
        let datagram = craft::ipv4(
            true,
            tollgate_wire::ipv4::protocol::UDP,
            &craft::udp((5, 6), 9),
        );
        let mut frames = of_two.to_vec();
        frames.insert(2, craft::ethernet(0x0800, &datagram));
        frames.push(craft::tcp_frame(false, 1, ACK, 0));
        let replay = Replay::of(&craft::pcap(&frames)[..]).unwrap();
        let hosts = replay.caches.hosts();
        let counts = |at: usize| (hosts[at].1.segments, hosts[at].1.hits);
        // The datagram is nobody's segment, and so does not take the cache.
        assert_eq!((counts(0), counts(1)), ((5, 2), (1, 0)));
        assert_eq!(hosts[0].0, IpAddr::V4(craft::B));
        assert_eq!((replay.counts.packets, replay.damage.places), (7, 0));
        assert!(matches!(
            Replay::of(&b"no capture at all, but bytes"[..]),
            Err(ReplayError::Refused(_))
        ));
    }

    #[test]
    fn each_host_has_its_own_cache() {
        let mut caches = TcbCaches::default();
        for _ in 0..3 {
            caches.segment(1, &ends(1, false), true, ACK);
            caches.segment(1, &ends(1, false), false, ACK);
        }
        let hosts = caches.hosts();
        assert_eq!(hosts.len(), 2);
        assert!(
            hosts
                .iter()
                .all(|(_, counts)| (counts.segments, counts.hits) == (3, 2))
        );
    }

    #[test]
    fn a_connection_is_gone_when_both_ends_have_finished_or_one_resets() {
        let mut caches = TcbCaches::default();
        for flow in 0..100_u16 {
            let ends = ends(flow, false);
            caches.segment(flow.into(), &ends, true, Flags::SYN);
            caches.segment(flow.into(), &ends, false, Flags::SYN | ACK);
            if flow % 2 == 0 {
                caches.segment(flow.into(), &ends, true, Flags::FIN | ACK);
                caches.segment(flow.into(), &ends, false, Flags::FIN | ACK);
                caches.segment(flow.into(), &ends, true, ACK);
                // Late, and of nothing that is there.
                caches.segment(flow.into(), &ends, true, ACK);
            } else {
                caches.segment(flow.into(), &ends, true, Flags::RST);
            }
        }
        let counts = caches.all();
        assert_eq!(counts.connections, 200);
        assert_eq!(counts.most_alive, 1);
        assert_eq!(counts.without_room, 0);
        // Nothing is left that a later segment were compared with.
        let before = counts.lists[0].compared;
        caches.segment(100, &ends(100, false), true, Flags::SYN);
        assert_eq!(caches.all().lists[0].compared, before);
    }

    #[test]
    fn connection_between_the_same_ends_takes_the_place_of_one_that_was_never_closed() {
        let mut caches = TcbCaches::default();
        // More than the table holds.
        for flow in 0..5_000 {
            caches.segment(flow, &ends(1, false), true, Flags::SYN);
            caches.segment(flow, &ends(1, false), false, Flags::SYN | ACK);
        }
        let counts = caches.all();
        assert_eq!(counts.connections, 10_000);
        assert_eq!((counts.most_alive, counts.without_room), (1, 0));
    }

    #[test]
    fn a_host_that_talks_to_itself_has_both_ends() {
        let mut caches = TcbCaches::default();
        let of = |port| Ends {
            server: End {
                address: ends(port, false).client.address,
                port: 80,
            },
            ..ends(port, false)
        };
        for port in 0..50_u16 {
            let ends = of(port);
            let mut both = |there, flags| caches.segment(port.into(), &ends, there, flags);
            both(true, Flags::SYN);
            both(false, Flags::SYN | ACK);
            both(true, ACK);
            both(true, Flags::FIN | ACK);
            both(false, Flags::FIN | ACK);
            both(true, ACK);
        }
        let counts = caches.all();
        assert_eq!((counts.segments, counts.connections), (300, 100));
        assert_eq!((counts.most_alive, counts.without_room), (2, 0));
        // In the table every segment finds its end.
        assert_eq!(counts.table.at_first, 300);
    }
}
