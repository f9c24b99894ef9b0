//! Connections between the same two processes, as one.
//!
//! Pure: sockets in, pairs of processes out.

use std::collections::{BTreeMap, HashMap};

use tollgate_run::observation::{Process, ProcessPair, Socket};

/// The two ends of a connection; the other is missing where it was not seen, since it is on another host or found no room.
type Ends<'a> = (&'a Socket, Option<&'a Socket>);

/// Pairs the sockets by connection, in their order. Equal connections in two namespaces have their ends in one each.
fn connections(sockets: &[Socket]) -> Vec<Ends<'_>> {
    let mut at: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    for (index, one) in sockets.iter().enumerate() {
        at.entry((&one.local, &one.remote)).or_default().push(index);
    }
    let mut taken = vec![false; sockets.len()];
    let mut found = Vec::new();
    for (index, one) in sockets.iter().enumerate() {
        if taken[index] {
            continue;
        }
        taken[index] = true;
        let turned = at.get(&(one.remote.as_str(), one.local.as_str()));
        let others = turned.into_iter().flatten().copied();
        let others = others.filter(|&other| !taken[other]);
        let is_near = |&other: &usize| sockets[other].namespace == one.namespace;
        let other = others.clone().find(is_near).or(others.clone().next());
        if let Some(other) = other {
            taken[other] = true;
        }
        found.push((one, other.map(|other| &sockets[other])));
    }
    found
}

/// An end of connections: a process, or the address of one that was not seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Process(u32, String),
    Address(String),
}

impl End {
    fn of(socket: &Socket) -> Self {
        match socket.pid {
            0 => Self::Address(address(&socket.local).to_owned()),
            pid => Self::Process(pid, socket.process.clone()),
        }
    }

    fn process(self) -> Option<Process> {
        match self {
            Self::Process(pid, name) => Some(Process { pid, name }),
            Self::Address(_) => None,
        }
    }
}

/// The address of an end without its port.
fn address(end: &str) -> &str {
    end.rsplit_once(':').map_or(end, |(address, _)| address)
}

/// Two ends as one: the address and the port where they have the same, and a star for what differs.
fn common(one: &str, other: &str) -> String {
    match (one == other, address(one) == address(other)) {
        (true, _) => one.to_owned(),
        (false, true) => format!("{}:*", address(one)),
        (false, false) => "*".to_owned(),
    }
}

/// Sums of the connections between two ends. The first in the order of [`End`] is `ends[0]`.
#[derive(Default)]
struct Sums {
    /// Address and port of each end.
    at: [String; 2],
    /// Waiting at each end.
    queueing: [i64; 2],
    connections: u64,
    n: u64,
    processing: i64,
    slow: u64,
    retransmitted: u64,
}

impl Sums {
    /// Adds a connection, whose ends are in order unless `turned`.
    fn add(&mut self, (one, other): Ends<'_>, turned: bool) {
        let (first, second) = if turned { (1, 0) } else { (0, 1) };
        let places = [(first, &one.local), (second, &one.remote)];
        for (place, end) in places {
            self.at[place] = match self.connections {
                0 => end.clone(),
                _ => common(&self.at[place], end),
            };
        }
        self.queueing[first] += one.queueing_ns;
        self.queueing[second] += other.map_or(0, |other| other.queueing_ns);
        self.connections += 1;
        // A message passes both ends, and is counted at each.
        self.n += one.n.max(other.map_or(0, |other| other.n));
        self.slow += one.slow.max(other.map_or(0, |other| other.slow));
        self.processing += one.processing_ns + other.map_or(0, |other| other.processing_ns);
        let again = one.retransmitted + other.map_or(0, |other| other.retransmitted);
        self.retransmitted += u64::from(again);
    }
}

/// The pairs of processes that these sockets connect, the dearest first.
pub(crate) fn pairs(sockets: &[Socket]) -> Vec<ProcessPair> {
    let mut sums: BTreeMap<[End; 2], Sums> = BTreeMap::new();
    for (one, other) in connections(sockets) {
        let seen = End::of(one);
        let opposite = other.map_or_else(|| End::Address(address(&one.remote).to_owned()), End::of);
        let turned = opposite < seen;
        let ends = if turned {
            [opposite, seen]
        } else {
            [seen, opposite]
        };
        sums.entry(ends).or_default().add((one, other), turned);
    }
    let mut pairs: Vec<ProcessPair> = sums
        .into_iter()
        .map(|([first, second], sums)| {
            let [at_first, at_second] = sums.at;
            let ends = [(first, at_first), (second, at_second)];
            let [waited_for, other] = match sums.queueing[1] > sums.queueing[0] {
                true => {
                    let [first, second] = ends;
                    [second, first]
                }
                false => ends,
            };
            ProcessPair {
                waited_for: waited_for.0.process(),
                waited_for_at: waited_for.1,
                other: other.0.process(),
                other_at: other.1,
                connections: sums.connections,
                n: sums.n,
                processing_ns: sums.processing,
                queueing_ns: sums.queueing.iter().sum(),
                slow: sums.slow,
                retransmitted: sums.retransmitted,
            }
        })
        .collect();
    pairs.sort_by_key(|pair| std::cmp::Reverse(pair.processing_ns));
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket([local, remote]: [&str; 2], pid: u32, queueing_ns: i64) -> Socket {
        Socket {
            local: local.to_owned(),
            remote: remote.to_owned(),
            namespace: 7,
            pid,
            process: format!("process-{pid}"),
            n: 10,
            stands_for: 100,
            processing_ns: 1_000,
            queueing_ns,
            slow: 1,
            retransmitted: 2,
        }
    }

    /// Both ends of a connection of process 41 from this port to process 42 at port 6379.
    fn connection(port: u16) -> [Socket; 2] {
        let client = format!("127.0.0.1:{port}");
        [
            socket([&client, "127.0.0.1:6379"], 41, 20),
            socket(["127.0.0.1:6379", &client], 42, 300),
        ]
    }

    #[test]
    fn connections_of_one_pair_of_processes_are_one_pair() {
        let sockets: Vec<Socket> = (40_000..40_050).flat_map(connection).collect();
        let pairs = pairs(&sockets);
        assert_eq!(pairs.len(), 1);
        let pair = &pairs[0];
        let pid = |process: &Option<Process>| process.as_ref().map(|one| one.pid);
        assert_eq!(
            (pid(&pair.waited_for), pid(&pair.other)),
            (Some(42), Some(41))
        );
        assert_eq!(
            (
                pair.waited_for_at.as_str(),
                pair.other_at.as_str(),
                pair.connections
            ),
            ("127.0.0.1:6379", "127.0.0.1:*", 50)
        );
        // Each message passes both ends and is one sample.
        assert_eq!((pair.n, pair.slow, pair.retransmitted), (500, 50, 200));
        assert_eq!((pair.processing_ns, pair.queueing_ns), (100_000, 16_000));
    }

    #[test]
    fn one_connection_keeps_its_ports() {
        let pairs = pairs(&connection(40_000));
        assert_eq!(
            [&*pairs[0].waited_for_at, &*pairs[0].other_at],
            ["127.0.0.1:6379", "127.0.0.1:40000"]
        );
    }

    #[test]
    fn processes_that_were_not_seen_are_apart_by_address() {
        let to = |remote: &str| socket(["10.0.0.1:80", remote], 42, 5);
        let sockets = [
            to("10.0.0.2:5000"),
            to("10.0.0.2:5001"),
            to("[2001:db8::2]:5000"),
        ];
        let pairs = pairs(&sockets);
        let mut found: Vec<(u64, &str)> = pairs
            .iter()
            .map(|one| (one.connections, &*one.other_at))
            .collect();
        found.sort_unstable();
        assert_eq!(found, [(1, "[2001:db8::2]:5000"), (2, "10.0.0.2:*")]);
        assert!(pairs.iter().all(|one| one.other.is_none()));
    }

    #[test]
    fn other_processes_are_other_pairs_and_the_dearest_comes_first() {
        let mut sockets = connection(40_000).to_vec();
        let mut other = connection(40_001);
        (other[1].pid, other[1].processing_ns) = (43, 9_000);
        sockets.extend(other);
        let pairs = pairs(&sockets);
        let of: Vec<i64> = pairs.iter().map(|one| one.processing_ns).collect();
        assert_eq!(of, [10_000, 2_000]);
    }

    #[test]
    fn ends_of_equal_connections_in_two_namespaces_are_paired_there() {
        let mut sockets = connection(40_000).to_vec();
        for mut one in connection(40_000) {
            (one.namespace, one.pid) = (8, one.pid + 100);
            sockets.insert(1, one);
        }
        let found = connections(&sockets);
        assert_eq!(found.len(), 2);
        for (one, other) in found {
            assert_eq!(Some(one.namespace), other.map(|other| other.namespace));
        }
    }
}
