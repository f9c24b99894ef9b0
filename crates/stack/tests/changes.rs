//! Connections come and go on the predicted path, and as they do without it.

mod common;

use common::{MTU, PORT, Pair, config};
use proptest::prelude::*;
use std::net::{Ipv4Addr, SocketAddrV4};
use tollgate_checksum::sum_header;
use tollgate_link::Side;
use tollgate_stack::config::{Demux, FinAcknowledgment, Mechanisms, Prediction};
use tollgate_stack::counters::HandshakeMiss;
use tollgate_stack::{
    Active, ConnId, Error, Event, Frame, Instant, Link, ListenerId, Pool, Received, State,
};

/// A link that notes what is sent.
struct Noting<'a, L> {
    link: L,
    side: Side,
    sent: &'a mut Vec<(Side, Vec<u8>)>,
}

impl<L: Link> Link for Noting<'_, L> {
    fn mtu(&self) -> usize {
        self.link.mtu()
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        for frame in frames.iter() {
            self.sent.push((self.side, pool.frame(frame).to_vec()));
        }
        self.link.transmit(pool, frames);
    }

    fn receive(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        self.link.receive(pool, frames);
    }
}

/// A link on which one frame arrives.
struct One(Option<Frame>);

impl Link for One {
    fn mtu(&self) -> usize {
        MTU
    }

    fn transmit(&mut self, pool: &mut Pool, frames: &mut Vec<Frame>) {
        for frame in frames.drain(..) {
            pool.release(frame.id);
        }
    }

    fn receive(&mut self, _pool: &mut Pool, frames: &mut Vec<Frame>) {
        frames.extend(self.0.take());
    }
}

/// Two hosts whose frames and events are noted.
struct Noted {
    pair: Pair,
    sent: Vec<(Side, Vec<u8>)>,
    events: Vec<(Side, Event)>,
    listener: ListenerId,
}

impl Noted {
    fn new(prediction: Prediction, demux: Demux) -> Self {
        Self::with(|mechanisms| {
            mechanisms.prediction = prediction;
            mechanisms.demux = demux;
        })
    }

    fn with(change: impl Fn(&mut Mechanisms)) -> Self {
        let host = |n| {
            let mut config = config(n);
            change(&mut config.mechanisms);
            config
        };
        let mut pair = Pair::with(host(1), host(2), MTU);
        let (a, b) = (pair.a.config().mac, pair.b.config().mac);
        pair.a().add_neighbour(Ipv4Addr::new(10, 0, 0, 2), b);
        pair.b().add_neighbour(Ipv4Addr::new(10, 0, 0, 1), a);
        let listener = pair.b().listen(PORT, 16).unwrap();
        Self {
            pair,
            sent: Vec::new(),
            events: Vec::new(),
            listener,
        }
    }

    fn at(&mut self, side: Side) -> Active<'_> {
        match side {
            Side::A => self.pair.a(),
            Side::B => self.pair.b(),
        }
    }

    fn poll(&mut self, side: Side) {
        let Pair {
            a,
            b,
            pool,
            cable,
            now,
        } = &mut self.pair;
        let stack = match side {
            Side::A => a,
            Side::B => b,
        };
        let mut stack = stack.at(*now, pool);
        stack.poll(&mut Noting {
            link: cable.end(side),
            side,
            sent: &mut self.sent,
        });
        while let Some(event) = stack.next_event() {
            self.events.push((side, event));
        }
    }

    fn connect(&mut self) -> ConnId {
        let to = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), PORT);
        self.at(Side::A).connect(to).unwrap()
    }

    fn settle(&mut self) {
        for _ in 0..8 {
            self.poll(Side::A);
            self.poll(Side::B);
        }
    }

    fn open(&mut self) -> (ConnId, ConnId) {
        let client = self.connect();
        self.settle();
        let listener = self.listener;
        (client, self.at(Side::B).accept(listener).unwrap())
    }

    /// Segments that moved a connection on by prediction, at both ends.
    fn changes(&self) -> (u64, u64) {
        let of = |stack: &tollgate_stack::Stack| stack.counters().predicted_handshakes;
        (of(&self.pair.a), of(&self.pair.b))
    }

    fn missed(&self) -> u64 {
        let of = |stack: &tollgate_stack::Stack| stack.counters().misses.iter().sum::<u64>();
        of(&self.pair.a) + of(&self.pair.b)
    }
}

#[test]
fn every_segment_of_a_usual_connection_is_predicted() {
    for demux in [Demux::CacheHash, Demux::Hash, Demux::List] {
        let mut hosts = Noted::new(Prediction::Bidirectional, demux);
        for _ in 0..3 {
            let (client, server) = hosts.open();
            hosts.at(Side::A).close(client).unwrap();
            hosts.settle();
            assert_eq!(hosts.at(Side::B).state(server), State::CloseWait);
            hosts.at(Side::B).close(server).unwrap();
            hosts.settle();
        }
        // At the client SYN-ACK, the FIN's acknowledgment, FIN; at the server SYN, ACK, FIN, the FIN's acknowledgment.
        assert_eq!(hosts.changes(), (9, 12), "{demux:?}");
        assert_eq!(hosts.missed(), 0);
        assert_eq!(hosts.pair.a.time_waits(), 3);
        assert_eq!(hosts.pair.a.connections() + hosts.pair.b.connections(), 0);
        assert_eq!(hosts.pair.pool.available(), hosts.pair.pool.capacity());
        let lookups = hosts.pair.b.counters();
        assert!(lookups.cache_hits() <= 12);
    }
}

/// Flags of the segments that a side has sent from the `from`th on.
fn flags(hosts: &Noted, side: Side, from: usize) -> Vec<u8> {
    let of_side = hosts.sent[from..]
        .iter()
        .filter(|(sender, _)| *sender == side);
    of_side.map(|(_, frame)| frame[47]).collect()
}

/// ACK, and with FIN.
const ACK: u8 = 0x10;
const FIN_ACK: u8 = 0x11;

#[test]
fn who_closes_at_once_acknowledges_by_a_fin() {
    for prediction in [Prediction::Bidirectional, Prediction::Off] {
        let mut hosts = Noted::new(prediction, Demux::CacheHash);
        let (client, server) = hosts.open();
        let before = hosts.sent.len();
        hosts.at(Side::A).close(client).unwrap();
        hosts.poll(Side::A);
        hosts.poll(Side::B);
        assert!(hosts.events.iter().any(|(side, event)| *side == Side::B
            && matches!(event, Event::Connection { ready, .. } if ready.end())));
        assert_eq!(flags(&hosts, Side::B, before), []);
        hosts.at(Side::B).close(server).unwrap();
        hosts.settle();
        assert_eq!(
            flags(&hosts, Side::A, before),
            [FIN_ACK, ACK],
            "{prediction:?}"
        );
        assert_eq!(flags(&hosts, Side::B, before), [FIN_ACK], "{prediction:?}");
        assert_eq!(hosts.pair.a.time_waits(), 1);
        assert_eq!(hosts.pair.a.connections() + hosts.pair.b.connections(), 0);
        assert_eq!(hosts.pair.pool.available(), hosts.pair.pool.capacity());
    }
}

#[test]
fn who_does_not_close_acknowledges_in_the_next_turn() {
    for prediction in [Prediction::Bidirectional, Prediction::Off] {
        for tick in [0, 5_000_000] {
            let mut hosts = Noted::new(prediction, Demux::CacheHash);
            let (client, server) = hosts.open();
            let before = hosts.sent.len();
            hosts.at(Side::A).shutdown(client).unwrap();
            hosts.poll(Side::A);
            // Also when the time moves on in the turn that the FIN arrives in.
            hosts.pair.now = Instant::from_nanos(hosts.pair.now.as_nanos() + tick);
            hosts.poll(Side::B);
            assert_eq!(flags(&hosts, Side::B, before), []);
            let now = hosts.pair.now;
            assert_eq!(hosts.pair.b.next_deadline(now), Some(now));
            hosts.poll(Side::B);
            assert_eq!(flags(&hosts, Side::B, before), [ACK], "{prediction:?}");
            assert_ne!(hosts.pair.b.next_deadline(now), Some(now));
            hosts.settle();
            assert_eq!(flags(&hosts, Side::B, before), [ACK]);
            assert_eq!(hosts.at(Side::A).state(client), State::FinWait2);
            assert_eq!(hosts.at(Side::B).state(server), State::CloseWait);
        }
    }
}

#[test]
fn nobody_is_awaited_when_that_is_off() {
    for prediction in [Prediction::Bidirectional, Prediction::Off] {
        let mut hosts = Noted::with(|mechanisms| {
            mechanisms.prediction = prediction;
            mechanisms.fin = FinAcknowledgment::AtOnce;
        });
        let (client, server) = hosts.open();
        let before = hosts.sent.len();
        hosts.at(Side::A).close(client).unwrap();
        hosts.poll(Side::A);
        hosts.poll(Side::B);
        assert_eq!(flags(&hosts, Side::B, before), [ACK], "{prediction:?}");
        let now = hosts.pair.now;
        assert_ne!(hosts.pair.b.next_deadline(now), Some(now));
        hosts.at(Side::B).close(server).unwrap();
        hosts.settle();
        assert_eq!(flags(&hosts, Side::B, before), [ACK, FIN_ACK]);
        assert_eq!(hosts.pair.a.connections() + hosts.pair.b.connections(), 0);
    }
}

#[test]
fn one_is_awaited_and_the_others_are_acknowledged_at_once() {
    for prediction in [Prediction::Bidirectional, Prediction::Off] {
        let mut hosts = Noted::new(prediction, Demux::CacheHash);
        let pairs = [hosts.open(), hosts.open(), hosts.open()];
        let before = hosts.sent.len();
        for (client, _) in pairs {
            hosts.at(Side::A).close(client).unwrap();
        }
        hosts.poll(Side::A);
        hosts.poll(Side::B);
        assert_eq!(flags(&hosts, Side::B, before), [ACK, ACK], "{prediction:?}");
        // Who is awaited may go in another way than by closing.
        hosts.at(Side::B).abort(pairs[0].1).unwrap();
        hosts.settle();
        for (_, server) in &pairs[1..] {
            hosts.at(Side::B).close(*server).unwrap();
        }
        hosts.settle();
        assert_eq!(hosts.pair.a.connections() + hosts.pair.b.connections(), 0);
        assert_eq!(hosts.pair.pool.available(), hosts.pair.pool.capacity());
    }
}

#[test]
fn both_fins_at_once_and_a_fin_that_acknowledges_ours() {
    let mut hosts = Noted::new(Prediction::Bidirectional, Demux::CacheHash);
    let (client, server) = hosts.open();
    hosts.at(Side::A).shutdown(client).unwrap();
    hosts.at(Side::B).shutdown(server).unwrap();
    hosts.settle();
    // Neither FIN acknowledges the other: they cross in CLOSING, which is left to the state machine.
    assert_eq!(hosts.at(Side::A).close(client), Ok(()));
    assert_eq!(hosts.at(Side::B).close(server), Ok(()));
    assert_eq!(
        (hosts.pair.a.time_waits(), hosts.pair.b.time_waits()),
        (1, 1)
    );
    assert_eq!(hosts.pair.pool.available(), hosts.pair.pool.capacity());
}

#[test]
fn switched_off_it_predicts_nothing() {
    for prediction in [Prediction::Unidirectional, Prediction::Off] {
        let mut hosts = Noted::new(prediction, Demux::CacheHash);
        let (client, server) = hosts.open();
        hosts.at(Side::A).close(client).unwrap();
        hosts.settle();
        hosts.at(Side::B).close(server).unwrap();
        hosts.settle();
        assert_eq!(hosts.changes(), (0, 0));
        assert_eq!(hosts.pair.a.time_waits(), 1);
    }
}

/// The second connection takes over the first one's entry in the timing wheel, which fires too early for it.
#[test]
fn a_syn_is_sent_again_in_a_place_that_was_used_before() {
    let mut hosts = Noted::new(Prediction::Bidirectional, Demux::CacheHash);
    let (client, server) = hosts.open();
    hosts.at(Side::A).close(client).unwrap();
    hosts.settle();
    hosts.at(Side::B).close(server).unwrap();
    hosts.settle();
    let pass = |hosts: &mut Noted, ms: u64| {
        for _ in 0..ms {
            hosts.pair.now = Instant::from_nanos(hosts.pair.now.as_nanos() + 1_000_000);
            hosts.poll(Side::A);
        }
    };
    pass(&mut hosts, 600);
    hosts.connect();
    hosts.poll(Side::A);
    let sent = hosts.sent.len();
    pass(&mut hosts, 990);
    assert_eq!(hosts.sent.len(), sent);
    pass(&mut hosts, 20);
    assert_eq!(hosts.sent.len(), sent + 1);
    // Sequence number and flags are those of the first SYN.
    assert_eq!(hosts.sent[sent].1[34..48], hosts.sent[sent - 1].1[34..48]);
}

/// Sets bytes of a frame with a TCP segment and makes its checksums right.
fn altered(frame: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    let len = u16::from_be_bytes([frame[16], frame[17]]) - 20;
    frame[24..26].fill(0);
    let sum = sum_header(&frame[14..34]).finish().to_ne_bytes();
    frame[24..26].copy_from_slice(&sum);
    frame[50..52].fill(0);
    let pseudo = sum_header(&[0, 6, (len >> 8) as u8, len as u8]);
    let end = 34 + usize::from(len);
    let mut whole = frame[26..end].to_vec();
    whole.resize(whole.len().next_multiple_of(4), 0);
    let sum = (sum_header(&whole) + pseudo).finish().to_ne_bytes();
    frame[50..52].copy_from_slice(&sum);
    frame
}

/// Gives a frame to the server.
fn give(pair: &mut Pair, bytes: &[u8]) {
    let frame = pair.pool.frame_from(bytes).unwrap();
    pair.b
        .at(pair.now, &mut pair.pool)
        .poll(&mut One(Some(frame)));
}

#[test]
fn each_reason_not_to_predict_a_fin_is_counted_and_the_fin_still_judged() {
    let word = |frame: &[u8], at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
    type Alter<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;
    let plus = |at: usize, more: u32| {
        move |frame: &[u8]| {
            let word = word(frame, at).wrapping_add(more);
            altered(frame, at, &word.to_be_bytes())
        }
    };
    let cases: [(HandshakeMiss, State, Alter<'_>); 8] = [
        // URG is taken, but not predicted.
        (HandshakeMiss::Flags, State::CloseWait, &|f| {
            altered(f, 47, &[0x31])
        }),
        (HandshakeMiss::OptionLayout, State::CloseWait, &|f| {
            let mut stamps = [8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1];
            stamps[2..10].copy_from_slice(&f[58..66]);
            altered(f, 54, &stamps)
        }),
        (HandshakeMiss::Payload, State::CloseWait, &|f| {
            let mut longer = f.to_vec();
            longer.push(7);
            altered(&longer, 16, &[0, 53])
        }),
        (HandshakeMiss::Sequence, State::Established, &plus(38, 1)),
        (
            HandshakeMiss::Acknowledgment,
            State::Established,
            &plus(42, 1),
        ),
        (
            HandshakeMiss::Timestamp,
            State::Established,
            &plus(58, u32::MAX),
        ),
        (HandshakeMiss::ZeroWindow, State::CloseWait, &|f| {
            altered(f, 48, &[0, 0])
        }),
        (HandshakeMiss::Checksum, State::Established, &|f| {
            let mut wrong = f.to_vec();
            wrong[51] ^= 1;
            wrong
        }),
    ];
    for (reason, state, alter) in cases {
        let mut hosts = Noted::new(Prediction::Bidirectional, Demux::CacheHash);
        let (client, server) = hosts.open();
        hosts.at(Side::A).close(client).unwrap();
        hosts.poll(Side::A);
        let fin = hosts.sent.last().unwrap().1.clone();
        assert_eq!(fin.len(), 66);
        hosts.pair.cable.drain(&mut hosts.pair.pool);
        let before = hosts.changes();
        give(&mut hosts.pair, &alter(&fin));
        assert_eq!(hosts.changes(), before, "{reason:?}");
        let counters = hosts.pair.b.counters();
        assert_eq!(counters.handshake_misses(reason), 1, "{reason:?}");
        assert_eq!(
            counters.handshake_misses.iter().sum::<u64>(),
            1,
            "{reason:?}"
        );
        assert_eq!(hosts.at(Side::B).state(server), state, "{reason:?}");
        // The FIN as it was sent is taken, unless it was already, or was seen in another place.
        if reason != HandshakeMiss::Sequence {
            give(&mut hosts.pair, &fin);
            assert_eq!(hosts.at(Side::B).state(server), State::CloseWait);
        }
    }
}

#[test]
fn each_reason_not_to_predict_a_syn_is_counted() {
    type Alter<'a> = &'a dyn Fn(&[u8]) -> Vec<u8>;
    let cases: [(HandshakeMiss, usize, Alter<'_>); 6] = [
        (HandshakeMiss::Flags, 1, &|f| altered(f, 47, &[0x0a])),
        (HandshakeMiss::OptionLayout, 1, &|f| {
            altered(f, 70, &[3, 3, 3, 1])
        }),
        (HandshakeMiss::Payload, 1, &|f| {
            let mut longer = f.to_vec();
            longer.push(7);
            altered(&longer, 16, &[0, 61])
        }),
        (HandshakeMiss::Address, 0, &|f| {
            altered(f, 26, &[224, 0, 0, 1])
        }),
        (HandshakeMiss::State, 0, &|f| altered(f, 36, &[0, 99])),
        (HandshakeMiss::Checksum, 0, &|f| {
            let mut wrong = f.to_vec();
            wrong[51] ^= 1;
            wrong
        }),
    ];
    for (reason, opened, alter) in cases {
        let mut hosts = Noted::new(Prediction::Bidirectional, Demux::CacheHash);
        hosts.connect();
        hosts.poll(Side::A);
        let syn = hosts.sent.last().unwrap().1.clone();
        hosts.pair.cable.drain(&mut hosts.pair.pool);
        give(&mut hosts.pair, &alter(&syn));
        let counters = hosts.pair.b.counters();
        assert_eq!(counters.predicted_handshakes, 0, "{reason:?}");
        assert_eq!(counters.handshake_misses(reason), 1, "{reason:?}");
        assert_eq!(
            counters.handshake_misses.iter().sum::<u64>(),
            1,
            "{reason:?}"
        );
        assert_eq!(hosts.pair.b.connections(), opened, "{reason:?}");
    }
}

#[test]
fn a_syn_as_linux_writes_it_is_predicted() {
    let mut hosts = Noted::new(Prediction::Bidirectional, Demux::CacheHash);
    hosts.connect();
    hosts.poll(Side::A);
    let syn = hosts.sent.last().unwrap().1.clone();
    hosts.pair.cable.drain(&mut hosts.pair.pool);
    let mut options = [
        2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    options[2..4].copy_from_slice(&1400u16.to_be_bytes());
    give(&mut hosts.pair, &altered(&syn, 54, &options));
    assert_eq!(hosts.changes().1, 1);
    assert_eq!(hosts.pair.b.connections(), 1);
}

/// Step of a user or of the world.
#[derive(Clone, Copy, Debug)]
enum Step {
    Connect,
    Accept,
    Poll(Side),
    Send(Side),
    Read(Side),
    Shutdown(Side),
    Close(Side),
    Pass(u32),
    /// Every frame on the cable is lost.
    Lose,
}

fn step() -> impl Strategy<Value = Step> {
    let side = || prop_oneof![Just(Side::A), Just(Side::B)];
    prop_oneof![
        2 => Just(Step::Connect),
        3 => Just(Step::Accept),
        12 => side().prop_map(Step::Poll),
        2 => side().prop_map(Step::Send),
        2 => side().prop_map(Step::Read),
        2 => side().prop_map(Step::Shutdown),
        3 => side().prop_map(Step::Close),
        3 => (0u32..400).prop_map(Step::Pass),
        1 => Just(Step::Lose),
    ]
}

/// Everything that can be seen of what the steps do.
#[derive(Debug, PartialEq)]
struct Seen {
    sent: Vec<(Side, Vec<u8>)>,
    events: Vec<(Side, Event)>,
    answers: Vec<Result<usize, Error>>,
    left: (usize, usize, usize, usize),
}

fn run(steps: &[Step], prediction: Prediction) -> Seen {
    let mut hosts = Noted::new(prediction, Demux::CacheHash);
    let mut conns: [Vec<ConnId>; 2] = [Vec::new(), Vec::new()];
    let mut answers = Vec::new();
    let which = |side| usize::from(side == Side::B);
    for &step in steps {
        hosts.pair.now = Instant::from_nanos(hosts.pair.now.as_nanos() + 1_000);
        match step {
            Step::Connect => conns[0].push(hosts.connect()),
            Step::Accept => {
                let listener = hosts.listener;
                conns[1].extend(hosts.at(Side::B).accept(listener));
            }
            Step::Poll(side) => hosts.poll(side),
            Step::Send(side) => {
                if let Some(&conn) = conns[which(side)].last() {
                    answers.push(hosts.at(side).send(conn, b"seven"));
                }
            }
            Step::Read(side) => {
                if let Some(&conn) = conns[which(side)].last() {
                    let read = hosts.at(side).receive(conn, &mut [0; 64]);
                    answers.push(read.map(|read| match read {
                        Received::Data(bytes) => bytes,
                        Received::Nothing => 1_000,
                        Received::End => 1_001,
                    }));
                }
            }
            Step::Shutdown(side) => {
                if let Some(&conn) = conns[which(side)].last() {
                    answers.push(hosts.at(side).shutdown(conn).map(|()| 0));
                }
            }
            Step::Close(side) => {
                if let Some(conn) = conns[which(side)].pop() {
                    answers.push(hosts.at(side).close(conn).map(|()| 0));
                }
            }
            Step::Pass(ms) => {
                let now = hosts.pair.now.as_nanos() + u64::from(ms) * 1_000_000;
                hosts.pair.now = Instant::from_nanos(now);
            }
            Step::Lose => hosts.pair.cable.drain(&mut hosts.pair.pool),
        }
    }
    let Noted {
        pair, sent, events, ..
    } = hosts;
    Seen {
        left: (
            pair.a.connections(),
            pair.b.connections(),
            pair.a.time_waits(),
            pair.b.time_waits(),
        ),
        sent,
        events,
        answers,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Prediction is a short way to the same end: byte for byte on the wire, event for event at the sockets.
    #[test]
    fn nobody_can_tell_whether_it_was_predicted(steps in prop::collection::vec(step(), 1..120)) {
        prop_assert_eq!(run(&steps, Prediction::Bidirectional), run(&steps, Prediction::Off));
    }
}
