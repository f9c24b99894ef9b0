//! Trains of segments over `stack-memory`, with gates or without.
//!
//! Both ends run on one thread in turn, so a message's events lie between two places of the traces that are known: nothing has to
//! be guessed. A segment is known by its sequence number. The link is asked once for a burst, so the gates of a burst (the device
//! queue's end, the driver on the way out, the link's asking) are passages of every segment in it.

use tollgate_gate::join::GATES;
use tollgate_gate::record::Plain;
use tollgate_gate::{Clock, Event, Gate, GateSet, PacketId, Recorder, Ticks, Trace};
use tollgate_link::Side;

use super::PATH;
use super::hosts::{Gates, Hosts, Ungated};
use crate::cores::{Cores, Pinned};
use crate::error::Error;
use crate::now::gate_clock;
use crate::spec::{Placement, Spec, Waiting, Workload};
use crate::stack_host;
use crate::trains::{MTU, REQUEST, SEGMENT, Trains, ask, asked, check};

/// Round trips that a slice makes before those that are timed.
pub const WARM_UP: u32 = 4;
/// Events that each end has room for in a slice; those beyond are counted as lost.
const CAPACITY: usize = 1 << 16;

/// When one segment, or one message as a whole, passed the gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    at: [Option<Ticks>; GATES],
}

impl Passed {
    const NOWHERE: Self = Self { at: [None; GATES] };

    /// When it passed `gate`; none when it was not seen there.
    pub const fn at(&self, gate: Gate) -> Option<Ticks> {
        self.at[gate as usize]
    }

    fn first(&mut self, gate: Gate, ticks: Ticks) {
        self.at[gate as usize].get_or_insert(ticks);
    }

    fn last(&mut self, gate: Gate, ticks: Ticks) {
        self.at[gate as usize] = Some(ticks);
    }
}

/// A message on its way from one end to the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// Whether it is a response.
    pub response: bool,
    /// Its segments in their order.
    pub segments: Vec<Passed>,
    /// The message: its first byte where the send begins, its last segment from there, the return of the last read at the end.
    pub whole: Passed,
}

/// What a slice with gates recorded.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The messages in their order: request, response, request, and so on.
    pub messages: Vec<Carried>,
    /// Events that found no room.
    pub lost: u64,
    /// Events of data that belong to no segment.
    pub strange: u64,
    /// When any gate was passed at either end, in order.
    passed: Vec<Ticks>,
}

impl Recording {
    /// When the first gate was passed.
    pub fn begun(&self) -> Ticks {
        self.passed.first().copied().unwrap_or_default()
    }

    /// The passages of gates from one moment to before another: what the gates themselves added to the time between.
    pub fn passages_between(&self, from: Ticks, to: Ticks) -> usize {
        let before = |at: Ticks| self.passed.partition_point(|&other| other < at);
        before(to).saturating_sub(before(from))
    }

    /// All passages of gates.
    pub const fn passages(&self) -> usize {
        self.passed.len()
    }
}

/// Two of our stacks, one of which asks the other.
pub struct StackTrains {
    ends: Ends,
    gating: Gating,
    cores: Cores,
    clock: Clock,
    /// Where the next request and the next response begin; learnt when the ends are opened.
    begins: (u32, u32),
}

/// The stacks and the applications on them.
struct Ends {
    hosts: Hosts,
    request: [u8; REQUEST],
    out: Vec<u8>,
    inn: Vec<u8>,
    message: u64,
}

/// The gates of both ends.
struct Gating {
    near: Trace<Plain>,
    far: Trace<Plain>,
}

/// What the two ends have recorded so far.
type Mark = (usize, usize);

impl Gating {
    fn start(&mut self, active: GateSet) {
        for trace in [&mut self.near, &mut self.far] {
            trace.clear();
            trace.set_active(active);
        }
    }

    fn mark(&self) -> Mark {
        (self.near.events().len(), self.far.events().len())
    }
}

impl Gates for Gating {
    const FREQUENT: bool = false;

    type Recorder<'a> = &'a mut Trace<Plain>;

    #[inline(always)]
    fn at(&mut self, side: Side) -> &mut Trace<Plain> {
        match side {
            Side::A => &mut self.near,
            Side::B => &mut self.far,
        }
    }

    #[inline(always)]
    fn returned(&mut self, side: Side) {
        self.at(side).pass(Gate::SocketInEnd, PacketId(0));
    }
}

impl Ends {
    fn prepare(&mut self, response: usize) {
        ask(&mut self.request, response);
        self.out.resize(response.max(self.out.len()), 1);
        self.inn.resize(response.max(self.inn.len()), 0);
    }

    fn round_trip<G: Gates>(
        &mut self,
        response: usize,
        gates: &mut G,
        between: &mut dyn FnMut(&mut G),
    ) -> Result<(), Error> {
        self.hosts.read_clock();
        let mut request = [0; REQUEST];
        self.hosts
            .carry(Side::A, &self.request, &mut request, gates)?;
        let length = asked(&request, PATH, self.message)?;
        self.message += 1;
        between(gates);
        self.hosts.carry(
            Side::B,
            &self.out[..length],
            &mut self.inn[..response],
            gates,
        )
    }
}

impl StackTrains {
    /// Connects the ends.
    ///
    /// # Errors
    /// What went wrong on the path.
    pub fn open() -> Result<Self, Error> {
        let spec =
            Spec::new(Workload::Rr, REQUEST).with_mode(Placement::OneCore, Waiting::BusyPoll);
        let mut hosts = Hosts::new(&spec, MTU)?;
        hosts.connect()?;
        hosts.accept()?;
        let clock = gate_clock();
        let trace = || Trace::new(clock, GateSet::EMPTY, CAPACITY);
        let mut trains = Self {
            ends: Ends {
                hosts,
                request: [0; REQUEST],
                out: Vec::new(),
                inn: Vec::new(),
                message: 0,
            },
            gating: Gating {
                near: trace(),
                far: trace(),
            },
            cores: Cores::choose(Placement::OneCore)?,
            clock,
            begins: (0, 0),
        };
        trains.learn()?;
        Ok(trains)
    }

    /// The clock of all times.
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Where the sequence numbers of both directions stand: what the first segment of each says.
    fn learn(&mut self) -> Result<(), Error> {
        self.gating.start(GateSet::of(&[Gate::TcpOutBegin]));
        self.ends.prepare(1);
        self.ends.round_trip(1, &mut self.gating, &mut |_| ())?;
        let begin = |trace: &Trace<Plain>| trace.events().first().map_or(0, |first| first.packet.0);
        self.begins = (
            begin(&self.gating.near).wrapping_add(REQUEST as u32),
            begin(&self.gating.far).wrapping_add(1),
        );
        Ok(())
    }

    fn warm_up(&mut self, response: usize) -> Result<(), Error> {
        check(response)?;
        self.ends.prepare(response);
        self.ends.hosts.catch_up();
        for _ in 0..WARM_UP {
            self.ends.round_trip(response, &mut Ungated, &mut |_| ())?;
        }
        self.went_by(WARM_UP, response);
        Ok(())
    }

    fn went_by(&mut self, round_trips: u32, response: usize) {
        let (request, answer) = &mut self.begins;
        *request = request.wrapping_add((REQUEST as u32).wrapping_mul(round_trips));
        *answer = answer.wrapping_add((response as u32).wrapping_mul(round_trips));
    }

    fn pinned(&self) -> Result<Pinned, Error> {
        Pinned::to(self.cores.near).map_err(|error| Error::system(PATH, "pinning a thread", error))
    }

    /// Runs round trips with the gates in `active`; `each` gets their times in nanoseconds. Each begins where the one before it ends.
    ///
    /// # Errors
    /// [`Error::Size`], else what went wrong on the path.
    pub fn gated(
        &mut self,
        active: GateSet,
        response: usize,
        round_trips: u32,
        each: &mut dyn FnMut(f64),
    ) -> Result<Recording, Error> {
        let _pinned = self.pinned()?;
        self.warm_up(response)?;
        self.gating.start(active);
        let mut marks = Vec::with_capacity(1 + 2 * round_trips as usize);
        marks.push(self.gating.mark());
        let mut begun = self.clock.now();
        for _ in 0..round_trips {
            self.ends
                .round_trip(response, &mut self.gating, &mut |gating| {
                    marks.push(gating.mark());
                })?;
            marks.push(self.gating.mark());
            let ended = self.clock.now();
            each(self.clock.ns_between(begun, ended));
            begun = ended;
        }
        let Gating { near, far } = &self.gating;
        let mut recording = Recording {
            messages: Vec::with_capacity(marks.len()),
            lost: near.lost() + far.lost(),
            strange: 0,
            passed: Vec::new(),
        };
        let events = near.events().iter().chain(far.events());
        recording.passed = events.map(|event| event.ticks).collect();
        recording.passed.sort_unstable();
        for (number, legs) in marks.windows(2).enumerate() {
            let (near, far) = (
                &self.gating.near.events()[legs[0].0..legs[1].0],
                &self.gating.far.events()[legs[0].1..legs[1].1],
            );
            let is_response = number % 2 == 1;
            let carried = if is_response {
                carried(far, near, self.begins.1, response, &mut recording.strange)
            } else {
                carried(near, far, self.begins.0, REQUEST, &mut recording.strange)
            };
            recording.messages.push(Carried {
                response: is_response,
                ..carried
            });
            if is_response {
                self.went_by(1, response);
            }
        }
        Ok(recording)
    }
}

/// What the events of the sender and those of the receiver say of one message whose first byte has the number `begin`.
fn carried(out: &[Event], inn: &[Event], begin: u32, bytes: usize, strange: &mut u64) -> Carried {
    let count = bytes.div_ceil(SEGMENT);
    let mut segments = vec![Passed::NOWHERE; count];
    let mut whole = Passed::NOWHERE;
    let place = |packet: PacketId| {
        let into = packet.0.wrapping_sub(begin) as usize;
        (into < bytes).then_some(into / SEGMENT)
    };
    // Segments in the device queue.
    let mut queued: Vec<usize> = Vec::new();
    for event in out {
        match event.gate {
            Gate::SocketOutBegin => whole.first(event.gate, event.ticks),
            Gate::DriverOutBegin | Gate::DriverOutEnd => {
                whole.last(event.gate, event.ticks);
                for &index in &queued {
                    segments[index].first(event.gate, event.ticks);
                }
                if event.gate == Gate::DriverOutEnd {
                    queued.clear();
                }
            }
            Gate::TcpOutBegin
            | Gate::ChecksumOutBegin
            | Gate::ChecksumOutEnd
            | Gate::IpOutBegin
            | Gate::DeviceQueueIn => match place(event.packet) {
                Some(index) => {
                    segments[index].first(event.gate, event.ticks);
                    if event.gate == Gate::TcpOutBegin {
                        whole.first(event.gate, event.ticks);
                    }
                    if event.gate == Gate::DeviceQueueIn {
                        queued.push(index);
                    }
                }
                // An acknowledgment has the number of the data that will follow it.
                None => *strange += u64::from(event.packet.0 != begin.wrapping_add(bytes as u32)),
            },
            // The sender asks the link, too, for acknowledgments.
            _ => {}
        }
    }
    let mut asked = None;
    for event in inn {
        match event.gate {
            Gate::DriverInBegin => {
                whole.last(event.gate, event.ticks);
                asked = Some(event.ticks);
            }
            Gate::SocketInEnd => whole.last(event.gate, event.ticks),
            Gate::IpInBegin
            | Gate::DemuxBegin
            | Gate::TcpInBegin
            | Gate::ChecksumInBegin
            | Gate::ChecksumInEnd
            | Gate::SocketQueued
            | Gate::SocketInBegin => match place(event.packet) {
                Some(index) => {
                    segments[index].last(event.gate, event.ticks);
                    // A posted reader has the payload as soon as it is queued; what did not fit its buffer it takes later.
                    if event.gate == Gate::SocketQueued {
                        segments[index].last(Gate::SocketInBegin, event.ticks);
                    }
                    if event.gate == Gate::IpInBegin
                        && let Some(asked) = asked
                    {
                        segments[index].last(Gate::DriverInBegin, asked);
                    }
                }
                None => *strange += 1,
            },
            // The receiver sends acknowledgments.
            _ => {}
        }
    }
    if let Some(last) = segments.last() {
        for (to, from) in whole.at.iter_mut().zip(last.at) {
            *to = to.or(from);
        }
    }
    Carried {
        response: false,
        segments,
        whole,
    }
}

impl Trains for StackTrains {
    fn run(
        &mut self,
        response: usize,
        round_trips: u32,
        each: &mut dyn FnMut(f64),
    ) -> Result<(), Error> {
        let _pinned = self.pinned()?;
        self.warm_up(response)?;
        let mut begun = self.clock.now();
        for _ in 0..round_trips {
            self.ends.round_trip(response, &mut Ungated, &mut |_| ())?;
            let ended = self.clock.now();
            each(self.clock.ns_between(begun, ended));
            begun = ended;
        }
        self.went_by(round_trips, response);
        Ok(())
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let spec =
            Spec::new(Workload::Rr, REQUEST).with_mode(Placement::OneCore, Waiting::BusyPoll);
        let mut settings = stack_host::settings(&spec, MTU);
        settings.push(("cores", self.cores.describe()));
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(gate: Gate, packet: u32, ticks: u64) -> Event {
        Event {
            ticks: Ticks(ticks),
            packet: PacketId(packet),
            gate,
        }
    }

    #[test]
    fn a_burst_passes_its_gates_together() {
        let begin = u32::MAX - 100;
        let second = begin.wrapping_add(SEGMENT as u32);
        let out = [
            event(Gate::SocketOutBegin, begin, 1),
            event(Gate::DeviceQueueIn, begin, 10),
            event(Gate::DeviceQueueIn, second, 20),
            event(Gate::DriverOutBegin, 0, 30),
            event(Gate::DriverOutEnd, 0, 40),
        ];
        let inn = [
            event(Gate::DriverInBegin, 0, 50),
            event(Gate::IpInBegin, begin, 60),
            event(Gate::IpInBegin, second, 80),
            event(Gate::IpInBegin, begin - 5_000, 90),
            event(Gate::SocketInEnd, 0, 99),
        ];
        let mut strange = 0;
        let carried = carried(&out, &inn, begin, SEGMENT + 1, &mut strange);
        let at = |index: usize, gate| carried.segments[index].at(gate).map(|ticks| ticks.0);
        assert_eq!(at(0, Gate::DeviceQueueIn), Some(10));
        assert_eq!(at(1, Gate::DeviceQueueIn), Some(20));
        for index in [0, 1] {
            assert_eq!(at(index, Gate::DriverOutEnd), Some(40));
            assert_eq!(at(index, Gate::DriverInBegin), Some(50));
        }
        assert_eq!(at(1, Gate::IpInBegin), Some(80));
        assert_eq!(carried.whole.at(Gate::IpInBegin), Some(Ticks(80)));
        assert_eq!(carried.whole.at(Gate::SocketOutBegin), Some(Ticks(1)));
        assert_eq!(carried.whole.at(Gate::SocketInEnd), Some(Ticks(99)));
        assert_eq!(strange, 1);
    }

    #[test]
    fn every_segment_of_a_train_is_seen_at_every_gate() {
        let mut trains = StackTrains::open().unwrap();
        for response in [256, 8_192, 65_536] {
            for gates in [
                [Gate::TcpOutBegin, Gate::IpOutBegin],
                [Gate::IpInBegin, Gate::SocketQueued],
                [Gate::SocketQueued, Gate::SocketInBegin],
            ] {
                let mut times = 0;
                let recording = trains
                    .gated(GateSet::of(&gates), response, 3, &mut |_| times += 1)
                    .unwrap();
                assert_eq!((times, recording.lost), (3, 0));
                assert_eq!(recording.strange, 0, "{response}");
                let responses: Vec<&Carried> = recording
                    .messages
                    .iter()
                    .filter(|message| message.response)
                    .collect();
                assert_eq!(responses.len(), 3);
                for message in responses {
                    assert_eq!(message.segments.len(), response.div_ceil(SEGMENT));
                    for segment in &message.segments {
                        assert!(gates.iter().all(|&gate| segment.at(gate).is_some()));
                    }
                }
            }
            trains.run(response, 2, &mut |_| ()).unwrap();
        }
        let gates = GateSet::of(&[Gate::SocketOutBegin, Gate::SocketInEnd]);
        let recording = trains.gated(gates, 256, 3, &mut |_| ()).unwrap();
        assert_eq!(recording.passages(), 2 * 2 * 3);
        let asleep = trains.gated(GateSet::EMPTY, 256, 3, &mut |_| ()).unwrap();
        assert_eq!((asleep.passages(), asleep.messages.len()), (0, 6));
    }
}
