//! A session of one size under gates: its slices, and what gates saw of them as passages of messages.
//!
//! Gates follow a part of a slice's round trips and sleep through the rest ([`tollgate_workload::Naps`]), so what they saw comes in turns.
//! Each is joined for itself, since nothing is under way where it begins and ends. It owns the session; it must never judge times.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use tollgate_gate::{Gate, GateSet, JoinPlan, Joined, PacketId, Passage, Recorded, Ticks, join};
use tollgate_kernel::join::Counts;
use tollgate_kernel::{Gates, Joiner, Taken, Talk, Watch};
use tollgate_workload::gates::event_of;
use tollgate_workload::{Mode, PathId, Session, Spec, Turn, Workload, find};

use super::usual::{self, Trip};
use super::{SCALE, WARM_UP};

/// A session of one size, and how its events are joined.
pub(super) struct Ends {
    pub(super) session: Box<dyn Session>,
    pub(super) joiner: Joiner,
    pub(super) watch: Watch,
}

impl Ends {
    pub(super) fn open(path: PathId, mode: Mode, size: usize, nagle: bool) -> Result<Self, String> {
        let spec = Spec {
            warmup: WARM_UP,
            nagle,
            ..Spec::new(Workload::Rr, size).with_mode(mode.placement, mode.waiting)
        };
        let path = find(path).ok_or_else(|| format!("{path} cannot be opened here"))?;
        let session = path.open(&spec).map_err(|error| error.to_string())?;
        let ends = session
            .kernel_ends()
            .ok_or_else(|| format!("the kernel carries nothing of {}", path.id()))?;
        let talk = Talk {
            far_port: ends.far_ports.first().copied().unwrap_or(0),
            near: ends.near,
            far: ends.far,
            size: u32::try_from(size).unwrap_or(u32::MAX),
        };
        let watch = Watch {
            ports: ends.far_ports.clone(),
            threads: vec![ends.near, ends.far],
            acknowledgments: false,
        };
        Ok(Self {
            session,
            joiner: Joiner::new(talk),
            watch,
        })
    }

    /// What the gates and the ends themselves have recorded since the last time.
    pub(super) fn take(&self, gates: Option<&Gates>) -> Taken {
        let mut taken = gates.map(Gates::take).unwrap_or_default();
        let stamps = self.session.kernel_ends().map(|ends| ends.stamps.take());
        let talk = self.joiner.talk();
        let stamps = stamps.into_iter().flatten();
        taken
            .events
            .extend(stamps.map(|stamp| event_of(&stamp, talk)));
        taken
    }

    /// The times of the last slice in which gates were awake.
    fn turns(&self) -> Vec<Turn> {
        let ends = self.session.kernel_ends();
        ends.map_or_else(Vec::new, |ends| ends.stamps.turns())
    }

    /// When the warm-up of the last slice was over.
    pub(super) fn timed_from(&self) -> Ticks {
        let ends = self.session.kernel_ends();
        Ticks(ends.map_or(0, |ends| ends.stamps.timed_from()))
    }

    pub(super) fn run(&mut self, round_trips: u64) -> Result<(), String> {
        let mut samples = self.session.new_samples();
        let ran = self.session.run(round_trips, &mut samples);
        ran.map_err(|error| error.to_string())
    }

    /// A slice whose passages are joined at these gates.
    pub(super) fn pass(
        &mut self,
        gates: Option<&Gates>,
        joined_at: GateSet,
        round_trips: u64,
    ) -> Result<Passed, String> {
        self.run(round_trips)?;
        let taken = self.take(gates);
        let plan = JoinPlan::new(joined_at, SCALE);
        let mut passed = Passed {
            round_trips: 0,
            passages: Vec::new(),
            joined: Joined::default(),
            turns: Vec::new(),
            counts: Counts::default(),
        };
        let mut counted = Vec::new();
        for turn in self.turns() {
            let awake = taken.events.iter();
            let awake: Vec<_> = awake
                .filter(|event| turn.awake.contains(&event.ktime))
                .copied()
                .collect();
            let tied = self.joiner.tie(&awake);
            passed.counts.merge(&tied.counts);
            passed.round_trips += turn.round_trips;
            counted.extend(begun_within(&tied.events, &turn.counted));
            let seen = Recorded {
                events: &tied.events,
                lost: 0,
            };
            passed
                .turns
                .push((join([seen], plan).passages, turn.counted));
        }
        let mut passages: BTreeMap<Gate, f64> = BTreeMap::new();
        for event in &counted {
            *passages.entry(event.gate).or_default() += 1.0 / passed.round_trips as f64;
        }
        passed.passages = passages.into_iter().collect();
        let counted = Recorded {
            events: &counted,
            lost: taken.lost,
        };
        passed.joined = join([counted], plan);
        Ok(passed)
    }
}

/// The events of the messages whose first one lies in this time.
fn begun_within(
    events: &[tollgate_gate::Event],
    within: &Range<u64>,
) -> impl Iterator<Item = tollgate_gate::Event> {
    let mut begun: HashMap<PacketId, Ticks> = HashMap::new();
    for event in events {
        let first = begun.entry(event.packet).or_insert(event.ticks);
        *first = event.ticks.min(*first);
    }
    let counts = move |event: &&tollgate_gate::Event| within.contains(&begun[&event.packet].0);
    events.iter().filter(counts).copied()
}

/// What a slice with gates has left.
pub(super) struct Passed {
    /// Those that were followed and count.
    pub(super) round_trips: u64,
    /// How often each gate was passed in one of these.
    pub(super) passages: Vec<(Gate, f64)>,
    /// Their messages.
    pub(super) joined: Joined,
    /// By the times in which gates were awake, all messages of each, and when those began that count.
    turns: Vec<(Vec<Passage>, Range<u64>)>,
    pub(super) counts: Counts,
}

impl Passed {
    /// The usual ones of the round trips that count.
    pub(super) fn usual(&self, ends: (Gate, Gate)) -> Vec<Trip> {
        let turns = self.turns.iter();
        let trips =
            turns.flat_map(|(passages, counted)| usual::trips(passages, ends, counted, SCALE));
        usual::usual(trips.collect())
    }
}

#[cfg(test)]
mod tests {
    use tollgate_gate::Event;

    use super::*;

    #[test]
    fn a_message_counts_by_when_it_began() {
        let event = |packet, gate, at| Event {
            ticks: Ticks(at),
            packet: PacketId(packet),
            gate,
        };
        let events = [
            event(1, Gate::IpOutBegin, 99),
            event(2, Gate::IpOutBegin, 100),
            event(1, Gate::DeviceQueueIn, 110),
            // Of a message that begins in time, what comes later counts; and the order does not matter.
            event(3, Gate::DeviceQueueIn, 230),
            event(3, Gate::IpOutBegin, 199),
            event(4, Gate::IpOutBegin, 200),
            event(2, Gate::DeviceQueueIn, 120),
        ];
        let counted: Vec<Event> = begun_within(&events, &(100..200)).collect();
        assert_eq!(counted, [events[1], events[3], events[4], events[6]]);
    }
}
