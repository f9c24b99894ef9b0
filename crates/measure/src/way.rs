//! The way of a round trip: its gates in the order in which a message passes them, on one host or on two.

use tollgate_gate::{Gate, GateSet};

/// The host that a gate is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// This one: the client, where the server is another host.
    Local,
    /// The server, where it is another host.
    Remote,
}

impl Host {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Local, Self::Remote];

    /// The role of the host where there are two.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "client",
            Self::Remote => "server",
        }
    }
}

/// A gate on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Station {
    /// The host.
    pub host: Host,
    /// The gate.
    pub gate: Gate,
}

impl Station {
    /// Tells whether a request passes it, where there are two hosts; else a response does.
    pub(crate) const fn is_of_request(self) -> bool {
        matches!(self.host, Host::Local) == is_out(self.gate)
    }
}

/// Tells whether what a host sends passes a gate, as far as its driver.
///
/// Tells whether a gate is on the way out. A driver's hand-over to the queue of the other end is the receiver's first gate.
pub const fn is_out(gate: Gate) -> bool {
    (gate as u8) < Gate::DriverOutEnd as u8
}

/// A set of gates on one host or on two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stations {
    local: GateSet,
    remote: GateSet,
}

impl Stations {
    /// The gates of one host.
    pub const fn on(self, host: Host) -> GateSet {
        match host {
            Host::Local => self.local,
            Host::Remote => self.remote,
        }
    }

    /// Tells whether a gate is in it.
    pub const fn contains(self, station: Station) -> bool {
        self.on(station.host).contains(station.gate)
    }

    /// Number of gates on both hosts.
    pub const fn len(self) -> usize {
        self.local.len() + self.remote.len()
    }

    /// Tells whether there is no gate on either host.
    pub const fn is_empty(self) -> bool {
        self.local.is_empty() && self.remote.is_empty()
    }
}

impl From<GateSet> for Stations {
    fn from(local: GateSet) -> Self {
        Self {
            local,
            remote: GateSet::EMPTY,
        }
    }
}

impl FromIterator<Station> for Stations {
    fn from_iter<I: IntoIterator<Item = Station>>(stations: I) -> Self {
        let mut set = Self::default();
        for Station { host, gate } in stations {
            match host {
                Host::Local => set.local = set.local.with(gate),
                Host::Remote => set.remote = set.remote.with(gate),
            }
        }
        set
    }
}

/// A closed way: behind the last gate lies the first gate of what is sent next.
///
/// On one host each message of a round trip passes all gates. Where the client's end alone has gates, a round trip passes them once:
/// those on its way out, then those on its way in. Over two hosts a round trip passes all gates once: those on the client's way out,
/// those of the server, then those on the client's way in.
///
/// Stretch `i` leads from gate `i` to the gate behind it. The last stretch leads from the last gate to the first gate, and is the
/// application's turn. Each stretch is a span of its own, but for the two between the hosts: these make one span, since only their
/// sum is known when the clocks of the hosts are not compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    gates: Vec<Gate>,
    hosts: Vec<Host>,
    /// The stretches that lead to the server and back to the client, where there are two hosts.
    between_hosts: Option<(usize, usize)>,
    /// Times that one round trip passes each gate.
    passages: usize,
}

/// A list of gates that is no way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoWay {
    /// Fewer gates than a comparison with and without one of them needs.
    #[error("a way needs at least {LEAST} gates, and {0} were given")]
    TooShort(usize),
    /// A gate that is there twice.
    #[error("the gate {} is there twice", .0.name())]
    Twice(Gate),
    /// A host of two on which no gate lies on its way out, or none on its way in.
    #[error("the {} has no gates on both its ways", .0.name())]
    OneWay(Host),
}

/// The fewest gates of a way: two stay when one of them is left out.
const LEAST: usize = 3;

impl Way {
    /// A way through these gates, in the order in which a message passes them.
    ///
    /// # Errors
    /// [`NoWay`] for fewer than three gates, or a gate that is there twice.
    pub fn new(gates: Vec<Gate>) -> Result<Self, NoWay> {
        if gates.len() < LEAST {
            return Err(NoWay::TooShort(gates.len()));
        }
        let mut seen = GateSet::EMPTY;
        for &gate in &gates {
            if seen.contains(gate) {
                return Err(NoWay::Twice(gate));
            }
            seen = seen.with(gate);
        }
        let hosts = vec![Host::Local; gates.len()];
        Ok(Self {
            gates,
            hosts,
            between_hosts: None,
            passages: 2,
        })
    }

    /// A way out of the client's end and back into it, through these gates of that end.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn of_one_end(gates: Vec<Gate>) -> Result<Self, NoWay> {
        Ok(Self {
            passages: 1,
            ..Self::new(gates)?
        })
    }

    /// A way to another host and back, through these gates of the client and of the server; each in the order of [`Gate`].
    ///
    /// # Errors
    /// [`NoWay::OneWay`] when a host lacks gates on its way out or on its way in, [`NoWay::Twice`].
    pub fn of_two_hosts(client: &[Gate], server: &[Gate]) -> Result<Self, NoWay> {
        let mut stations: Vec<Station> = Vec::new();
        for (host, gates) in Host::BOTH.into_iter().zip([client, server]) {
            let twice = gates.windows(2).find(|pair| pair[0] >= pair[1]);
            if let Some(pair) = twice {
                return Err(NoWay::Twice(pair[1]));
            }
            let out = gates.iter().filter(|&&gate| is_out(gate)).count();
            if out == 0 || out == gates.len() {
                return Err(NoWay::OneWay(host));
            }
            stations.extend(gates.iter().map(|&gate| Station { host, gate }));
        }
        // Requests leave the client and enter the server; responses go the other way.
        stations.sort_by_key(|one| (!one.is_of_request(), !is_out(one.gate)));
        let hosts: Vec<Host> = stations.iter().map(|one| one.host).collect();
        let there = hosts.iter().take_while(|&&host| host == Host::Local);
        let there = there.count() - 1;
        let back = there + server.len();
        Ok(Self {
            gates: stations.iter().map(|one| one.gate).collect(),
            hosts,
            between_hosts: Some((there, back)),
            passages: 1,
        })
    }

    /// The gates in their order.
    pub fn gates(&self) -> &[Gate] {
        &self.gates
    }

    /// The gates in their order, with the hosts that they are on.
    pub fn stations(&self) -> impl ExactSizeIterator<Item = Station> {
        let stations = self.gates.iter().zip(&self.hosts);
        stations.map(|(&gate, &host)| Station { host, gate })
    }

    /// Number of gates, which is the number of stretches.
    pub fn len(&self) -> usize {
        self.gates.len()
    }

    /// Always false: a way has at least three gates.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Tells whether it leads to another host and back.
    pub const fn is_of_two_hosts(&self) -> bool {
        self.between_hosts.is_some()
    }

    /// Number of spans.
    pub fn spans(&self) -> usize {
        self.len() - usize::from(self.is_of_two_hosts())
    }

    /// The span that a stretch is, or is a part of.
    pub fn span_of(&self, stretch: usize) -> usize {
        match self.between_hosts {
            Some((there, back)) if stretch == back => there,
            Some((_, back)) if stretch > back => stretch - 1,
            _ => stretch,
        }
    }

    /// The span between the hosts, there and back; none on one host.
    pub fn span_between_hosts(&self) -> Option<usize> {
        self.between_hosts.map(|(there, _)| there)
    }

    /// Times that one round trip passes each gate.
    pub const fn passages(&self) -> usize {
        self.passages
    }

    /// The places on the way of the gates in a set, in the order of the way.
    pub fn places(&self, set: Stations) -> Vec<usize> {
        let places = self.stations().enumerate();
        places
            .filter(|(_, station)| set.contains(*station))
            .map(|(place, _)| place)
            .collect()
    }

    /// The spans from one place to another, round the end of the way where the second does not lie behind the first. Each comes with
    /// the share of it that lies there: a half for one way between the hosts, so that both ways are the whole.
    pub(crate) fn spans_between(
        &self,
        from: usize,
        to: usize,
    ) -> impl Iterator<Item = (usize, f64)> {
        let len = self.len();
        let count = (to + len - from - 1) % len + 1;
        (from..from + count).map(move |stretch| {
            let stretch = stretch % len;
            let (there, back) = self.between_hosts.unwrap_or((len, len));
            let halved = stretch == there || stretch == back;
            (self.span_of(stretch), if halved { 0.5 } else { 1.0 })
        })
    }

    /// The times that the gates at these places tell: each is the sum over the neighbours that it lists, by the place of the first
    /// of them in `places`. That is one pair, or the two whose gates are on different hosts.
    pub(crate) fn times(&self, places: &[usize]) -> Vec<Vec<usize>> {
        let mut times: Vec<Vec<usize>> = Vec::new();
        let mut crossing = None;
        for (pair, (from, to)) in neighbours(places).enumerate() {
            if self.hosts[from] == self.hosts[to] {
                times.push(vec![pair]);
                continue;
            }
            let at = *crossing.get_or_insert(times.len());
            if at == times.len() {
                times.push(Vec::new());
            }
            times[at].push(pair);
        }
        times
    }
}

/// Each place with the next one; the first follows the last.
pub(crate) fn neighbours(places: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let next = places.iter().cycle().skip(1);
    places.iter().copied().zip(next.copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(count: usize) -> Vec<Gate> {
        Gate::ALL[..count].to_vec()
    }

    #[test]
    fn spans_between_places_go_round_the_end() {
        let way = Way::new(gates(4)).unwrap();
        let between = |from, to| {
            let spans = way.spans_between(from, to);
            spans
                .map(|(span, share)| {
                    assert_eq!(share, 1.0);
                    span
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(between(0, 1), [0]);
        assert_eq!(between(1, 3), [1, 2]);
        assert_eq!(between(3, 0), [3]);
        assert_eq!(between(2, 1), [2, 3, 0]);
        assert_eq!(between(2, 2), [2, 3, 0, 1]);
    }

    #[test]
    fn a_way_has_each_gate_once_and_three_at_least() {
        assert_eq!(Way::new(gates(2)), Err(NoWay::TooShort(2)));
        let mut twice = gates(3);
        twice.push(twice[1]);
        assert_eq!(Way::new(twice.clone()), Err(NoWay::Twice(twice[1])));
    }

    #[test]
    fn places_are_in_the_order_of_the_way() {
        let mut backwards = gates(5);
        backwards.reverse();
        let way = Way::new(backwards).unwrap();
        let set = GateSet::of(&[Gate::ALL[0], Gate::ALL[3]]);
        assert_eq!(way.places(set.into()), [1, 4]);
    }

    const CLIENT: [Gate; 4] = [
        Gate::SocketOutBegin,
        Gate::DriverOutBegin,
        Gate::IpInBegin,
        Gate::SocketInEnd,
    ];
    const SERVER: [Gate; 3] = [Gate::SocketOutBegin, Gate::DriverOutEnd, Gate::SocketInEnd];

    #[test]
    fn two_hosts_are_passed_in_the_order_of_a_round_trip() {
        let way = Way::of_two_hosts(&CLIENT, &SERVER).unwrap();
        let stations: Vec<(Host, Gate)> = way.stations().map(|one| (one.host, one.gate)).collect();
        let expected = [
            (Host::Local, Gate::SocketOutBegin),
            (Host::Local, Gate::DriverOutBegin),
            (Host::Remote, Gate::DriverOutEnd),
            (Host::Remote, Gate::SocketInEnd),
            (Host::Remote, Gate::SocketOutBegin),
            (Host::Local, Gate::IpInBegin),
            (Host::Local, Gate::SocketInEnd),
        ];
        assert_eq!(stations, expected);
        assert_eq!((way.spans(), way.span_between_hosts()), (6, Some(1)));
        let spans: Vec<usize> = (0..way.len()).map(|stretch| way.span_of(stretch)).collect();
        assert_eq!(spans, [0, 1, 2, 3, 1, 4, 5]);
    }

    #[test]
    fn a_host_of_two_needs_gates_on_both_its_ways() {
        let out = [Gate::SocketOutBegin];
        let refused = Way::of_two_hosts(&out, &SERVER);
        assert_eq!(refused, Err(NoWay::OneWay(Host::Local)));
        let refused = Way::of_two_hosts(&CLIENT, &[Gate::SocketInEnd]);
        assert_eq!(refused, Err(NoWay::OneWay(Host::Remote)));
    }

    #[test]
    fn times_that_cross_to_the_other_host_are_one_sum() {
        let way = Way::of_two_hosts(&CLIENT, &SERVER).unwrap();
        assert_eq!(
            way.times(&[0, 1, 3, 4, 6]),
            [vec![0], vec![1, 3], vec![2], vec![4]]
        );
        // Of one host alone, every time is known by its clock.
        assert_eq!(way.times(&[0, 6]), [[0], [1]]);
        assert_eq!(way.times(&[2, 4]), [[0], [1]]);
        assert_eq!(way.times(&[0, 2]), [[0, 1]]);
    }

    #[test]
    fn both_ways_between_the_hosts_are_one_whole_span() {
        let way = Way::of_two_hosts(&CLIENT, &SERVER).unwrap();
        // From the client's last gate out to its first gate in lies all of the server, and both ways.
        let mut shares = vec![0.0; way.spans()];
        for (span, share) in way.spans_between(1, 5) {
            shares[span] += share;
        }
        assert_eq!(shares, [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    }
}
