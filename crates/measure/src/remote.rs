//! A client here, a server on another host, and the gates of both.
//!
//! A round trip passes the client's gates on its way out, the server's gates, and the client's gates on its way in. Each end attaches
//! the gates of a set that lie on its side. A time between two gates of one host is a difference on its clock. The time from one host
//! to the other and back is the client's difference less the server's, so the offset of their clocks falls out (`Way::times`). Their
//! rates are taken for one: they differ by 500 ppm at most (RFC 5905, section 11.3), and a span of the server by as much.
//!
//! Owns the sessions, one for each size, and the gates. It must never compare the clocks of the hosts, but for the bounds of
//! [`Remote::one_way`], and never judge a time.

use tollgate_gate::span::Position;
use tollgate_gate::{Gate, GateSet, JoinPlan, Passage, Recorded, Span, SpanTable, TickScale, join};
use tollgate_kernel::Transfer;
use tollgate_run::{Mode, Waiting, Workload};
use tollgate_stats::Samples;
use tollgate_workload::remote::{KernelRemote, RemoteSession};
use tollgate_workload::{Session, Spec};

use crate::gated::{Gated, Ran};
use crate::kernel::times;
use crate::ledger::Split;
use crate::schedule::Probes;
use crate::trips;
use crate::way::{Host, Station, Stations, Way, is_out};

mod clocks;
mod numbering;
mod side;
#[cfg(test)]
mod synthetic;

pub use clocks::{Bounds, OneWay};
pub use side::{Boundaries, Boundary};

use clocks::RoundTripStamps;
use numbering::{Numbering, Numbers, gates_of_all};
use side::Side;

/// Round trips before each slice that are not timed.
const WARM_UP: u32 = 16;
/// Round trips from which it is learned where messages begin, and which gates see all of them.
const LEARNED: u64 = 24;
const SCALE: TickScale = TickScale::NANOSECONDS;

/// Sessions with a server on another host, and the gates of both hosts.
pub struct Remote {
    way: Way,
    /// The client, then the server.
    sides: [Side; 2],
    tables: [SpanTable; 2],
    ends: Vec<Ends>,
    set: Stations,
}

/// A session of one size.
struct Ends {
    session: RemoteSession,
    /// The numberings of the events of the client and of the server.
    numberings: [Numbering; 2],
    /// Round trips so far.
    sent: u32,
}

/// A slice with gates.
struct Watched {
    round_trips_ns: Vec<f64>,
    passages: Vec<Passage>,
    lost: u64,
    /// The gates that saw every message, on each host.
    of_all: [GateSet; 2],
}

impl Remote {
    /// Opens a session for messages of each size with a server, and loads the gates of both hosts.
    ///
    /// # Errors
    /// The refusal by a kernel or the server, for people.
    pub fn open(
        remote: &KernelRemote,
        mode: Mode,
        nagle: bool,
        sizes: &[usize],
    ) -> Result<Self, String> {
        let mut sides = [Side::client()?, Side::server(remote)?];
        let ends = sizes.iter().map(|&size| {
            let spec = Spec {
                warmup: WARM_UP,
                ..Spec::new(Workload::Rr, size)
                    .with_mode(mode.placement, mode.waiting)
                    .with_nagle(nagle)
            };
            Ends::open(remote, &spec)
        });
        let mut ends: Vec<Ends> = ends.collect::<Result<_, _>>()?;
        let except = match mode.waiting {
            Waiting::Blocking => GateSet::EMPTY,
            // Nobody sleeps, so nobody is woken.
            Waiting::BusyPoll => GateSet::of(&[Gate::ReaderRuns]),
        };
        let seen = learn(&mut sides, &mut ends)?;
        for (side, seen) in sides.iter_mut().zip(seen) {
            side.boundaries
                .keep(seen.iter().filter(|&gate| !except.contains(gate)).collect());
        }
        let tables = sides.each_ref().map(|side| side.boundaries.table());
        let [Some(client), Some(server)] = tables else {
            return Err("a host has fewer than two gates that see every message".to_owned());
        };
        let gates = sides
            .each_ref()
            .map(|side| side.boundaries.gates().iter().collect::<Vec<_>>());
        let [of_client, of_server] = &gates;
        let way = Way::of_two_hosts(of_client, of_server).map_err(|error| error.to_string())?;
        Ok(Self {
            way,
            sides,
            tables: [client, server],
            ends,
            set: Stations::default(),
        })
    }

    /// Boundaries of a host.
    pub const fn boundaries(&self, host: Host) -> &Boundaries {
        &self.sides[host as usize].boundaries
    }

    /// The span of a host that begins at a gate; none where the way leads to the other host.
    pub fn span_at(&self, station: Station) -> Option<&'static Span> {
        let spans = self.tables[station.host as usize].spans().iter();
        let mut on_the_way = spans.filter(|span| span.position == Position::OnTheWay);
        on_the_way.find(|span| span.from == station.gate && is_out(span.from) == is_out(span.to))
    }

    /// Bounds of the mean time of each way between the hosts, at the size at this place: from a slice with the gates at the hosts'
    /// borders, whose costs lie within.
    ///
    /// # Errors
    /// The failure, for people; also times that no two clocks of even rates could have shown.
    pub fn one_way(&mut self, size: usize, round_trips: u64) -> Result<OneWay, String> {
        let border = self.border();
        self.enable(Probes::Active(border))?;
        let watched = self.ends[size].watched(&self.sides, border, round_trips)?;
        let exchanges = trips::messages(&self.way, border, &watched.passages);
        let exchanges: Vec<RoundTripStamps> = exchanges
            .iter()
            .filter_map(|trip| match *trip.times.as_slice() {
                [client_out, server_in, server_out, client_in] => Some(RoundTripStamps {
                    client_out: client_out.0,
                    server_in: server_in.0,
                    server_out: server_out.0,
                    client_in: client_in.0,
                }),
                _ => None,
            })
            .collect();
        if exchanges.is_empty() {
            return Err("no round trip was seen at all four points".to_owned());
        }
        let bounds = clocks::one_way(&exchanges);
        bounds.ok_or_else(|| "no two clocks of even rates could have shown the times".to_owned())
    }

    /// The gates at both ends of what lies between the hosts.
    pub fn border(&self) -> Stations {
        let stations: Vec<Station> = self.way.stations().collect();
        let next = stations.iter().cycle().skip(1);
        let crossing = stations.iter().zip(next).filter(|(a, b)| a.host != b.host);
        crossing.flat_map(|(&a, &b)| [a, b]).collect()
    }
}

/// Numbers the messages of every session, and gives the gates of each host that saw all of them at every size.
fn learn(sides: &mut [Side; 2], ends: &mut [Ends]) -> Result<[GateSet; 2], String> {
    let all: Stations = Host::BOTH
        .into_iter()
        .flat_map(|host| {
            let gates = sides[host as usize].boundaries.gates();
            gates.iter().map(move |gate| Station { host, gate })
        })
        .collect();
    attach(sides, ends, all)?;
    let mut seen = Host::BOTH.map(|host| all.on(host));
    for ends in &mut *ends {
        ends.learn(sides)?;
        let watched = ends.watched(sides, all, LEARNED)?;
        for (seen, of_all) in seen.iter_mut().zip(watched.of_all) {
            *seen = seen.iter().filter(|&gate| of_all.contains(gate)).collect();
        }
    }
    attach(sides, ends, Stations::default())?;
    Ok(seen)
}

fn attach(sides: &mut [Side; 2], ends: &[Ends], set: Stations) -> Result<(), String> {
    for side in sides {
        let sessions = ends.iter().map(|ends| &ends.session);
        side.attach(set.on(side.host), sessions)?;
    }
    Ok(())
}

impl Ends {
    fn open(remote: &KernelRemote, spec: &Spec) -> Result<Self, String> {
        let session = remote
            .open_session(spec)
            .map_err(|error| error.to_string())?;
        let ends = session
            .kernel_ends()
            .ok_or("the kernel carries nothing of it")?;
        let transfer = Transfer {
            server_port: ends.server_ports.first().copied().unwrap_or(0),
            // A thread of the other host is nobody here.
            client: 0,
            server: 0,
            size: u32::try_from(spec.size).unwrap_or(u32::MAX),
        };
        let client = Transfer {
            client: ends.client,
            ..transfer
        };
        let server = Transfer {
            server: ends.server,
            ..transfer
        };
        Ok(Self {
            session,
            numberings: [
                Numbering::new(Host::Local, client),
                Numbering::new(Host::Remote, server),
            ],
            sent: 0,
        })
    }

    fn run(&mut self, round_trips: u64) -> Result<(Samples, Numbers), String> {
        let mut samples = self.session.new_samples();
        self.session
            .run(round_trips, &mut samples)
            .map_err(|error| error.to_string())?;
        let numbers = Numbers {
            before: self.sent,
            warm_up: WARM_UP,
            measured: u32::try_from(round_trips).unwrap_or(u32::MAX - WARM_UP),
        };
        self.sent = self
            .sent
            .wrapping_add(numbers.warm_up)
            .wrapping_add(numbers.measured);
        Ok((samples, numbers))
    }

    fn learn(&mut self, sides: &[Side; 2]) -> Result<(), String> {
        sides[0].watch(self.numberings[0].transfer())?;
        self.run(LEARNED)?;
        for (side, numbering) in sides.iter().zip(&mut self.numberings) {
            let taken = side.take(&self.session, numbering.transfer())?;
            numbering.learn(&taken.events);
        }
        Ok(())
    }

    /// Runs a slice with gates.
    fn watched(
        &mut self,
        sides: &[Side; 2],
        set: Stations,
        round_trips: u64,
    ) -> Result<Watched, String> {
        sides[0].watch(self.numberings[0].transfer())?;
        let (samples, numbers) = self.run(round_trips)?;
        let timed_from = self
            .session
            .kernel_ends()
            .map_or(0, |ends| ends.stamps.timed_from());
        let mut watched = Watched {
            round_trips_ns: times(&samples),
            passages: Vec::new(),
            lost: 0,
            of_all: [GateSet::EMPTY; 2],
        };
        for (side, numbering) in sides.iter().zip(&mut self.numberings) {
            let host = side.host;
            if set.on(host).is_empty() {
                continue;
            }
            let taken = side.take(&self.session, numbering.transfer())?;
            let tied = numbering.tie(&taken.events, numbers, timed_from);
            watched.lost += taken.lost;
            watched.of_all[host as usize] = gates_of_all(&tied, numbers.measured);
            let (requests, responses): (Vec<_>, Vec<_>) =
                tied.iter().partition(|event| event.packet.0 % 2 == 0);
            for (events, is_out_way) in [
                (requests, host == Host::Local),
                (responses, host == Host::Remote),
            ] {
                let gates = set.on(host).iter();
                let gates = gates.filter(|&gate| is_out(gate) == is_out_way).collect();
                let recorded = Recorded {
                    events: &events,
                    lost: 0,
                };
                let joined = join([recorded], JoinPlan::new(gates, SCALE));
                watched.passages.extend(joined.passages);
            }
        }
        Ok(watched)
    }
}

impl Gated for Remote {
    fn way(&self) -> &Way {
        &self.way
    }

    fn splits(&self) -> Vec<Split> {
        let split = |Station { host, gate }| self.boundaries(host).split(host, gate);
        self.way.stations().map(split).collect()
    }

    fn sizes(&self) -> usize {
        self.ends.len()
    }

    fn scale(&self) -> TickScale {
        SCALE
    }

    fn has_disabled(&self) -> bool {
        // What is not wanted is detached.
        false
    }

    fn batch(&self) -> usize {
        1
    }

    fn enable(&mut self, probes: Probes) -> Result<(), String> {
        self.set = probes.stations();
        attach(&mut self.sides, &self.ends, self.set)
    }

    fn run(&mut self, size: usize, round_trips: u64) -> Result<Ran, String> {
        let ends = &mut self.ends[size];
        if self.set.is_empty() {
            let (samples, _) = ends.run(round_trips)?;
            return Ok(Ran {
                round_trips_ns: times(&samples),
                ..Ran::default()
            });
        }
        let watched = ends.watched(&self.sides, self.set, round_trips)?;
        Ok(Ran {
            round_trips_ns: watched.round_trips_ns,
            passages: watched.passages,
            messages: 2 * round_trips,
            lost: watched.lost,
            packets: None,
        })
    }
}
