//! The gates of Tollgate's own stack at one end of a link, with a socket of the kernel at the other end.
//!
//! Between the driver's hand-over of a request and the call that finds its response lies the other end, with the link both ways:
//! one span, which is waiting.
//!
//! Owns the sessions, one for each size. It must never judge a time.

use tollgate_gate::{Gate, TickScale};
use tollgate_run::{Mode, PathId, Workload};
use tollgate_workload::stack_gates::PASSED;
use tollgate_workload::{Mechanisms, Session, Spec, StackGates, find, gate_clock};

use crate::faults::{Delayed, Waits};
use crate::gated::{Gated, Ran};
use crate::ledger::Split;
use crate::schedule::Probes;
use crate::way::Way;

/// Round trips before each slice that are not timed: the other copy of the code ran last, and the other end slept.
const WARM_UP: u32 = 16;

/// Sleeps of our end in some round trips. In the others its response was there before it slept: on one core the other end, woken by
/// the request, ran within the driver's call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sleeps {
    /// Number of sleeps.
    pub sleeps: u64,
    /// Number of round trips.
    pub round_trips: u64,
}

impl Sleeps {
    /// Sleeps in a round trip.
    pub fn share(self) -> f64 {
        self.sleeps as f64 / self.round_trips.max(1) as f64
    }

    fn add(&mut self, sleeps: u64, round_trips: u64) {
        self.sleeps += sleeps;
        self.round_trips += round_trips;
    }
}

/// Sessions over a link, one for each size.
pub struct StackLink {
    way: Way,
    sessions: Vec<Box<dyn Session>>,
    /// Of each size, without gates and with.
    sleeps: Vec<[Sleeps; 2]>,
    probes: Probes,
    waits: Waits,
}

impl StackLink {
    /// Opens a session for messages of each size, with these mechanisms at our end.
    ///
    /// # Errors
    /// The refusal by the path, for people: one that cannot be opened here, or whose end has no gates of our stack.
    pub fn open(
        path: PathId,
        mode: Mode,
        mechanisms: Mechanisms,
        sizes: &[usize],
    ) -> Result<Self, String> {
        let way = Way::of_one_end(PASSED.iter().collect()).map_err(|error| error.to_string())?;
        let found = find(path).ok_or_else(|| format!("{path} cannot be opened here"))?;
        let open = |&size: &usize| {
            let spec = Spec {
                warmup: WARM_UP,
                ..Spec::new(Workload::Rr, size)
                    .with_mode(mode.placement, mode.waiting)
                    .with_mechanisms(mechanisms)
            };
            let mut session = found.open(&spec).map_err(|error| error.to_string())?;
            match session.stack_gates() {
                Some(_) => Ok(session),
                None => Err(format!("{path} has no gates of our stack at one end alone")),
            }
        };
        Ok(Self {
            way,
            sessions: sizes.iter().map(open).collect::<Result<_, String>>()?,
            sleeps: vec![Default::default(); sizes.len()],
            probes: Probes::Uninstrumented,
            waits: Waits::default(),
        })
    }

    /// Sleeps of our end in all round trips so far of the size at this place, without gates and with.
    pub fn sleeps(&self, size: usize) -> [Sleeps; 2] {
        self.sleeps.get(size).copied().unwrap_or_default()
    }

    fn gates(&mut self, size: usize) -> Result<&mut dyn StackGates, String> {
        let session = self.sessions.get_mut(size);
        let gates = session.and_then(|session| session.stack_gates());
        gates.ok_or_else(|| "there is no session of that size".to_owned())
    }
}

impl Delayed for StackLink {
    /// The code has the delay compiled in for either case, so that code with and without one is laid out alike.
    fn delay(&mut self, delay: Option<(Gate, f64)>) -> Result<f64, String> {
        let fault = self.waits.fault(delay);
        for size in 0..self.sessions.len() {
            self.gates(size)?.set_fault(Some(fault));
        }
        Ok(delay.map_or(0.0, |_| fault.wait.ns()))
    }
}

impl Gated for StackLink {
    fn way(&self) -> &Way {
        &self.way
    }

    fn splits(&self) -> Vec<Split> {
        vec![Split::Alike(0); self.way.len()]
    }

    fn sizes(&self) -> usize {
        self.sessions.len()
    }

    fn has_disabled(&self) -> bool {
        true
    }

    fn batch(&self) -> usize {
        1
    }

    fn scale(&self) -> TickScale {
        gate_clock().scale()
    }

    fn enable(&mut self, probes: Probes) -> Result<(), String> {
        self.probes = probes;
        Ok(())
    }

    fn run(&mut self, size: usize, round_trips: u64) -> Result<Ran, String> {
        let scale = self.scale();
        let set = self.probes.active();
        let gates = (self.probes != Probes::Uninstrumented).then_some(set);
        let mut round_trips_ns = Vec::new();
        let session = self.gates(size)?;
        let recorded = session.slice(gates, round_trips, &mut |ns| round_trips_ns.push(ns));
        let recorded = recorded.map_err(|error| error.to_string())?;
        let ran = Ran::of(recorded, set, scale, 1, round_trips_ns);
        let sleeps = session.sleeps();
        self.sleeps[size][usize::from(gates.is_some())].add(sleeps, round_trips);
        Ok(ran)
    }
}
