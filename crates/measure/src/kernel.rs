//! The Linux kernel's gates, under two ends that run here.
//!
//! Owns the sessions, one for each size, and the gates. It must never judge a time.

use tollgate_gate::span::Place;
use tollgate_gate::{Gate, GateSet, JoinPlan, Passage, Recorded, TickScale, Ticks, join};
use tollgate_kernel::{Fault, Injected, Joiner, Plan, Talk, Watch};
use tollgate_stats::Samples;
use tollgate_workload::gates::Keeper;
use tollgate_workload::{Mode, PathId, Session, Spec, Stamps, Waiting, Workload, find};

use crate::gated::{Gated, Ran};
use crate::schedule::Probes;
use crate::way::Way;

/// Round trips before each slice that are not timed.
const WARM_UP: u32 = 16;
/// Round trips from which it is learned where messages begin.
const LEARNED: u64 = 24;
const SCALE: TickScale = TickScale::NANOSECONDS;

/// Sessions over kernel sockets, and the kernel's gates.
pub struct Kernel {
    way: Way,
    keeper: Keeper,
    ends: Vec<Ends>,
    set: GateSet,
}

/// A session of one size.
struct Ends {
    session: Box<dyn Session>,
    joiner: Joiner,
    watch: Watch,
}

impl Kernel {
    /// Opens a session of each size on a path of the kernel, and loads the gates.
    ///
    /// # Errors
    /// What the kernel refuses, or the path, for people.
    pub fn open(path: PathId, mode: Mode, sizes: &[usize]) -> Result<Self, String> {
        let keeper = Keeper::load().map_err(|error| error.to_string())?;
        let way = way(keeper.plan(), mode)?;
        let ends = sizes.iter().map(|&size| Ends::open(path, mode, size));
        let mut kernel = Self {
            way,
            keeper,
            ends: ends.collect::<Result<_, _>>()?,
            set: GateSet::EMPTY,
        };
        kernel.learn()?;
        Ok(kernel)
    }

    /// The plan of its gates.
    pub fn plan(&self) -> &Plan {
        self.keeper.plan()
    }

    /// Puts a fault beside a gate, in slices with gates and without, until the result is dropped.
    ///
    /// # Errors
    /// What the kernel refused, or an order that cannot be had, for people.
    pub fn inject(&self, fault: Fault) -> Result<Option<Injected>, String> {
        let mut sessions = self
            .ends
            .iter()
            .filter_map(|ends| ends.session.kernel_ends());
        let Some(first) = sessions.next() else {
            return Err("no session is open".to_owned());
        };
        let injected = self.keeper.inject(fault, &first.networks());
        injected.map_err(|error| error.to_string())
    }

    /// Learns where messages begin in the sequence numbers of each connection.
    fn learn(&mut self) -> Result<(), String> {
        let gate = [Gate::TcpOutBegin, Gate::IpOutBegin, Gate::DeviceQueueIn]
            .into_iter()
            .find(|gate| self.way.gates().contains(gate));
        let Some(gate) = gate else { return Ok(()) };
        self.enable(Probes::Active(GateSet::of(&[gate])))?;
        for size in 0..self.ends.len() {
            self.run(size, LEARNED)?;
        }
        self.enable(Probes::Absent)
    }
}

/// The way that the plan's gates make.
fn way(plan: &Plan, mode: Mode) -> Result<Way, String> {
    let except = match mode.waiting {
        Waiting::Blocking => GateSet::EMPTY,
        // Nobody sleeps, so nobody is woken.
        Waiting::BusyPoll => GateSet::of(&[Gate::ReaderRuns]),
    };
    let table = plan
        .table(except)
        .ok_or("this kernel has fewer than two of the hooks")?;
    let spans = table.spans().iter();
    let on_the_way = spans.filter(|span| span.place == Place::OnTheWay);
    Way::new(on_the_way.map(|span| span.from).collect()).map_err(|error| error.to_string())
}

impl Gated for Kernel {
    fn way(&self) -> &Way {
        &self.way
    }

    fn sizes(&self) -> usize {
        self.ends.len()
    }

    fn scale(&self) -> TickScale {
        SCALE
    }

    fn has_asleep(&self) -> bool {
        // What is not wanted is detached.
        false
    }

    fn batch(&self) -> usize {
        1
    }

    fn enable(&mut self, probes: Probes) -> Result<(), String> {
        let set = probes.active();
        let sessions = || {
            self.ends
                .iter()
                .filter_map(|ends| ends.session.kernel_ends())
        };
        let stamps: Vec<&Stamps> = sessions().map(|ends| ends.stamps).collect();
        self.set = set;
        if set.is_empty() {
            self.keeper.detach(stamps);
            return Ok(());
        }
        // All sessions of a path share their namespaces.
        let Some(first) = sessions().next() else {
            return Err("no session is open".to_owned());
        };
        let attached = self.keeper.attach(set, false, &first.networks(), stamps);
        attached.map_err(|error| error.to_string())
    }

    fn run(&mut self, size: usize, round_trips: u64) -> Result<Ran, String> {
        let ends = &mut self.ends[size];
        if !self.set.is_empty() {
            let watched = self.keeper.watch(&ends.watch);
            watched.map_err(|error| error.to_string())?;
        }
        let mut samples = ends.session.new_samples();
        let ran = ends.session.run(round_trips, &mut samples);
        ran.map_err(|error| error.to_string())?;
        let passages = if self.set.is_empty() {
            Vec::new()
        } else {
            ends.passages(&self.keeper, self.set)
        };
        Ok(Ran {
            round_trips_ns: times(&samples),
            passages,
            messages: 2 * round_trips,
            packets: None,
        })
    }
}

impl Ends {
    fn open(path: PathId, mode: Mode, size: usize) -> Result<Self, String> {
        let spec = Spec {
            warmup: WARM_UP,
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

    /// Passages of the messages of the last slice's timed part.
    fn passages(&mut self, keeper: &Keeper, set: GateSet) -> Vec<Passage> {
        let Some(ends) = self.session.kernel_ends() else {
            return Vec::new();
        };
        let taken = keeper.take(ends.stamps, self.joiner.talk());
        let since = Ticks(ends.stamps.timed_from());
        let tied = self.joiner.tie(&taken.events);
        let recorded = Recorded {
            events: &tied.events,
            lost: taken.lost,
        };
        let mut passages = join([recorded], JoinPlan::new(set, SCALE)).passages;
        passages.retain(|passage| {
            let gates = set.iter().filter_map(|gate| passage.at(gate));
            gates.min().is_some_and(|first| first >= since)
        });
        passages
    }
}

/// Each round trip, in nanoseconds.
fn times(samples: &Samples) -> Vec<f64> {
    let buckets = samples.buckets();
    let times = buckets.flat_map(|(ns, count)| std::iter::repeat_n(ns as f64, count as usize));
    times.collect()
}
