//! The Linux kernel's gates, under two ends that run here.
//!
//! Owns the sessions, one for each size, and the gates. It must never judge a time.

use std::os::fd::AsRawFd;
use std::time::Duration;

use tollgate_gate::span::Position;
use tollgate_gate::{
    Gate, GateSet, JoinPlan, Passage, Recorded, SpanTable, TickScale, Ticks, join,
};
use tollgate_kernel::{
    ExtraCost, Fault, FaultKind, Injected, Joiner, Namespace, Plan, Side, Transfer, Watch,
};
use tollgate_run::{PathId, Waiting, Workload};
use tollgate_stats::Samples;
use tollgate_workload::gates::Keeper;
use tollgate_workload::{KernelEnds, Path, Session, Spec, Stamps, find};

use crate::faults::Delayed;
use crate::gated::{Gated, Ran, Reopened};
use crate::ledger::Split;
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
    table: SpanTable,
    /// Gone before the gates that it stands beside.
    injected: Option<Injected>,
    keeper: Keeper,
    ends: Vec<Ends>,
    open: Box<OpenEnds>,
    set: GateSet,
}

/// Opens a session of each size.
type OpenEnds = dyn Fn() -> Result<Vec<Ends>, String>;

/// A session of one size.
struct Ends {
    session: Box<dyn Session>,
    joiner: Joiner,
    watch: Watch,
}

impl Kernel {
    /// Opens a session for messages of each size on a path of the kernel, with the mode and the settings of `spec`, and loads the
    /// gates.
    ///
    /// # Errors
    /// The refusal by the kernel or the path, for people.
    pub fn open(path: PathId, spec: &Spec, sizes: &[usize]) -> Result<Self, String> {
        Self::open_with_extra_cost(path, spec, sizes, &ExtraCost::default())
    }

    /// Opens a path with gates that cost more than they must, to try the ledger.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_with_extra_cost(
        path: PathId,
        spec: &Spec,
        sizes: &[usize],
        cost: &ExtraCost,
    ) -> Result<Self, String> {
        let spec = |&size: &usize| Spec {
            size,
            ..spec.clone()
        };
        let specs: Vec<Spec> = sizes.iter().map(spec).collect();
        let path = find(path).ok_or_else(|| format!("{path} cannot be opened here"))?;
        let waiting = waiting(&specs);
        let open = move || specs.iter().map(|spec| Ends::open(path, spec)).collect();
        Self::load(Box::new(open), waiting, cost)
    }

    /// Opens a session for each of these, which may differ in sizes and in what their devices do, so that one interleaved run
    /// measures all of them. They wait in one way.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_each(path: Box<dyn Path>, specs: Vec<Spec>) -> Result<Self, String> {
        let waiting = waiting(&specs);
        let open = move || specs.iter().map(|spec| Ends::open(&*path, spec)).collect();
        Self::load(Box::new(open), waiting, &ExtraCost::default())
    }

    fn load(open: Box<OpenEnds>, waiting: Waiting, cost: &ExtraCost) -> Result<Self, String> {
        let keeper = Keeper::load_with_extra_cost(cost).map_err(|error| error.to_string())?;
        let table = table(keeper.plan(), waiting)?;
        let way = way(table)?;
        let mut kernel = Self {
            way,
            table,
            injected: None,
            keeper,
            ends: open()?,
            open,
            set: GateSet::EMPTY,
        };
        kernel.learn()?;
        Ok(kernel)
    }

    /// The spans between its gates.
    pub fn table(&self) -> SpanTable {
        self.table
    }

    /// The plan of its gates.
    pub fn plan(&self) -> &Plan {
        self.keeper.plan()
    }

    /// Puts a fault beside a gate, in slices with gates and without, until the result is dropped.
    ///
    /// # Errors
    /// The refusal by the kernel, or an order that is impossible, for people.
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
        self.enable(Probes::Active(GateSet::of(&[gate]).into()))?;
        for size in 0..self.ends.len() {
            self.run(size, LEARNED)?;
        }
        self.enable(Probes::Uninstrumented)
    }
}

impl Delayed for Kernel {
    fn delay(&mut self, delay: Option<(Gate, f64)>) -> Result<f64, String> {
        self.injected = None;
        if let Some((gate, ns)) = delay {
            self.injected = self.inject(Fault {
                gate,
                side: Side::Behind,
                kind: FaultKind::Delay(Duration::from_nanos(ns as u64)),
            })?;
        }
        Ok(delay.map_or(0.0, |(_, ns)| ns))
    }
}

impl Reopened for Kernel {
    fn reopen(&mut self) -> Result<(), String> {
        if self.injected.is_some() {
            return Err("a delay lies on the way of the sessions that are open".to_owned());
        }
        self.enable(Probes::Uninstrumented)?;
        self.ends.clear();
        self.ends = (self.open)()?;
        self.learn()
    }
}

fn waiting(specs: &[Spec]) -> Waiting {
    specs.first().map_or(Waiting::Blocking, |spec| spec.waiting)
}

/// The spans between the plan's gates.
fn table(plan: &Plan, waiting: Waiting) -> Result<SpanTable, String> {
    let except = match waiting {
        Waiting::Blocking => GateSet::EMPTY,
        // Nobody sleeps, so nobody is woken.
        Waiting::BusyPoll => GateSet::of(&[Gate::ReaderRuns]),
    };
    let table = plan.table(except);
    table.ok_or_else(|| "this kernel has fewer than two of the hooks".to_owned())
}

/// The way that they make.
fn way(table: SpanTable) -> Result<Way, String> {
    let spans = table.spans().iter();
    let on_the_way = spans.filter(|span| span.position == Position::OnTheWay);
    Way::new(on_the_way.map(|span| span.from).collect()).map_err(|error| error.to_string())
}

/// Gates by the code that reads the clock: programs, and system calls of our own.
pub(crate) fn splits(plan: &Plan, way: &Way) -> Vec<Split> {
    let own = plan.own_calls();
    let gates = way.gates().iter();
    gates
        .map(|&gate| Split::Alike(u8::from(own.contains(gate))))
        .collect()
}

impl Gated for Kernel {
    fn way(&self) -> &Way {
        &self.way
    }

    fn splits(&self) -> Vec<Split> {
        splits(self.keeper.plan(), &self.way)
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
        let ends: Vec<KernelEnds<'_>> = sessions().collect();
        let networks = networks(&ends);
        if networks.is_empty() {
            return Err("no session is open".to_owned());
        }
        let attached = self.keeper.attach(set, &networks, stamps);
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
        let (passages, lost) = if self.set.is_empty() {
            (Vec::new(), 0)
        } else {
            ends.passages(&self.keeper, self.set)
        };
        Ok(Ran {
            round_trips_ns: times(&samples),
            passages,
            messages: 2 * round_trips,
            lost,
            packets: None,
        })
    }
}

impl Ends {
    fn open(path: &dyn Path, spec: &Spec) -> Result<Self, String> {
        let size = spec.size;
        let spec = Spec {
            workload: Workload::Rr,
            warmup: WARM_UP,
            ..spec.clone()
        };
        let session = path.open(&spec).map_err(|error| error.to_string())?;
        let ends = session
            .kernel_ends()
            .ok_or_else(|| format!("the kernel carries nothing of {}", path.id()))?;
        let transfer = Transfer {
            server_port: ends.server_ports.first().copied().unwrap_or(0),
            client: ends.client,
            server: ends.server,
            size: u32::try_from(size).unwrap_or(u32::MAX),
        };
        let watch = Watch {
            ports: ends.server_ports.clone(),
            threads: vec![ends.client, ends.server],
            acknowledgments: false,
        };
        Ok(Self {
            session,
            joiner: Joiner::new(transfer),
            watch,
        })
    }

    /// Passages of the messages of the last slice's timed part, and the events that were lost in it.
    fn passages(&mut self, keeper: &Keeper, set: GateSet) -> (Vec<Passage>, u64) {
        let Some(ends) = self.session.kernel_ends() else {
            return (Vec::new(), 0);
        };
        let taken = keeper.take(ends.stamps, self.joiner.transfer());
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
        (passages, taken.lost)
    }
}

/// The network namespaces of sessions, each once: those over the same devices share theirs.
fn networks<'a>(sessions: &'a [KernelEnds<'_>]) -> Vec<Namespace<'a>> {
    let mut networks: Vec<Namespace<'a>> = Vec::new();
    let same = |a: &Namespace<'_>, b: &Namespace<'_>| match (a, b) {
        (Namespace::Own, Namespace::Own) => true,
        (Namespace::Of(a), Namespace::Of(b)) => a.as_raw_fd() == b.as_raw_fd(),
        (Namespace::Own, Namespace::Of(_)) | (Namespace::Of(_), Namespace::Own) => false,
    };
    for network in sessions.iter().flat_map(KernelEnds::networks) {
        if !networks.iter().any(|known| same(known, &network)) {
            networks.push(network);
        }
    }
    networks
}

/// Each round trip, in nanoseconds.
pub(crate) fn times(samples: &Samples) -> Vec<f64> {
    let buckets = samples.buckets();
    let times = buckets.flat_map(|(ns, count)| std::iter::repeat_n(ns, count as usize));
    times.collect()
}
