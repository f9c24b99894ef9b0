//! Faults D1 to D4 and D8 on this machine: what is put in comes back where it was put, and nowhere else.
//!
//! Nine of ten delays have to come back, since intervals hold the truth in 95 of 100 cases. A busy machine makes intervals
//! wider, and does not decide. Where programs do not load the kernel's tests are skipped.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate_gate::{Gate, TickScale};
use tollgate_measure::faults::{self, Delayed, MeasuredDelay};
use tollgate_measure::gated::{Amount, Gated, Ran};
use tollgate_measure::ledger::Split;
use tollgate_measure::schedule::{Probes, Sets};
use tollgate_measure::stack_link::StackLink;
use tollgate_measure::stack_memory::StackMemory;
use tollgate_measure::way::Way;
use tollgate_run::{Mode, PathId, Placement, Waiting};
use tollgate_workload::cores::Fifo;

/// Attached gates are seen by everybody, so the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The scheduling of two ends on one core; none where it is refused, which is said.
fn fifo() -> Option<Fifo> {
    Fifo::begin()
        .inspect_err(|reason| tollgate_skip::skipped!("SCHED_FIFO: {reason}"))
        .ok()
}

fn amount(round_trips: u64) -> Amount {
    Amount {
        round_trips,
        least_blocks: 8,
        time: Duration::ZERO,
        sets: Sets::DEFAULT,
        seed: 1,
    }
}

/// Puts a delay behind each gate, and looks at what comes back. All delays are held against one control, so a control whose
/// interval misses the truth, as one of twenty does, lets many delays fail together. What fails is therefore measured once more,
/// with a control of its own; what fails twice is a fault.
fn delays_come_back(gated: &mut impl Delayed, ns: f64, amount: &Amount) {
    let again = Amount {
        seed: amount.seed + 1,
        ..*amount
    };
    let Err(first) = try_delays(gated, ns, amount) else {
        return;
    };
    if let Err(second) = try_delays(gated, ns, &again) {
        panic!("failed twice: {first}\n{second}");
    }
}

fn try_delays(gated: &mut impl Delayed, ns: f64, amount: &Amount) -> Result<(), String> {
    in_place(&measured_delays(gated, ns, amount)?)
}

fn measured_delays(
    gated: &mut impl Delayed,
    ns: f64,
    amount: &Amount,
) -> Result<Vec<(Gate, MeasuredDelay)>, String> {
    let gates = gated.way().gates().to_vec();
    let tried = faults::delays(gated, &gates, ns, amount, || true).map_err(|e| e.to_string())?;
    let shown: Vec<(Gate, MeasuredDelay)> = tried
        .into_iter()
        .filter_map(|one| Some((one.gate, one.shown.ok()?)))
        .collect();
    // One gate may stand where no delay can be put.
    if shown.len() + 1 < gates.len() {
        return Err(format!("{} of {} gates", shown.len(), gates.len()));
    }
    Ok(shown)
}

fn in_place(shown: &[(Gate, MeasuredDelay)]) -> Result<(), String> {
    let wrong: Vec<_> = shown
        .iter()
        .filter(|(_, one)| !one.was_put_in() || !one.is_in_place())
        .collect();
    if wrong.len() > shown.len().div_ceil(10) {
        return Err(format!("out of place: {wrong:#?}"));
    }
    let strayed: usize = shown.iter().map(|(_, one)| one.strayed.len()).sum();
    let others: usize = shown.iter().map(|(_, one)| one.others).sum();
    if 10 * strayed > others {
        return Err(format!("{strayed} of {others} strayed: {shown:#?}"));
    }
    Ok(())
}

/// D2, 300 ns.
#[test]
fn delays_in_the_stack_come_back_in_their_spans() {
    let _turn = turn();
    let mut stack = StackMemory::open(&[64], false).unwrap();
    delays_come_back(&mut stack, 300.0, &amount(256));
}

/// D2 at one end of a link, 3 us. On one core no delay hides in a wait, as long as each end works while the other sleeps.
#[test]
fn delays_at_one_end_of_a_link_come_back_in_their_spans() {
    let _turn = turn();
    let Some(_fifo) = fifo() else {
        return;
    };
    let mode = Mode {
        placement: Placement::OneCore,
        waiting: Waiting::Blocking,
    };
    let mut link = match StackLink::open(PathId::StackTap, mode, false, &[64]) {
        Ok(link) => link,
        Err(reason) => return tollgate_skip::skipped!("{reason}"),
    };
    delays_come_back(&mut link, 3_000.0, &amount(64));
}

/// A stack whose delays are put behind the next gate of the way.
struct Misplaced(StackMemory);

impl Gated for Misplaced {
    fn way(&self) -> &Way {
        self.0.way()
    }

    fn splits(&self) -> Vec<Split> {
        self.0.splits()
    }

    fn sizes(&self) -> usize {
        self.0.sizes()
    }

    fn has_disabled(&self) -> bool {
        self.0.has_disabled()
    }

    fn batch(&self) -> usize {
        self.0.batch()
    }

    fn enable(&mut self, probes: Probes) -> Result<(), String> {
        self.0.enable(probes)
    }

    fn run(&mut self, size: usize, round_trips: u64) -> Result<Ran, String> {
        self.0.run(size, round_trips)
    }

    fn scale(&self) -> TickScale {
        self.0.scale()
    }
}

impl Delayed for Misplaced {
    fn delay(&mut self, delay: Option<(Gate, f64)>) -> Result<f64, String> {
        let next = delay.map(|(gate, ns)| {
            let gates = self.0.way().gates();
            let at = gates.iter().position(|&one| one == gate).unwrap();
            (gates[(at + 1) % gates.len()], ns)
        });
        self.0.delay(next)
    }
}

/// Most round trips of a measurement that shall tell where a delay lies.
const MOST_ROUND_TRIPS: u64 = 4_096;

/// A delay that lies behind another gate than it is said to is found out, unless the machine is too busy to know how much the
/// spans grew: then intervals hold everything, and the test says so.
#[test]
fn delays_behind_another_gate_are_found_out_of_place() {
    let _turn = turn();
    let mut misplaced = Misplaced(StackMemory::open(&[64], false).unwrap());
    let mut round_trips = 256;
    let shown = loop {
        let shown = measured_delays(&mut misplaced, 300.0, &amount(round_trips)).unwrap();
        match in_place(&shown) {
            Err(found) if found.starts_with("out of place") => return,
            _ if round_trips < MOST_ROUND_TRIPS => round_trips *= 4,
            _ => break shown,
        }
    };
    let spans = shown.len();
    let known = shown
        .iter()
        .filter(|(_, one)| one.span.half_width < one.alone_ns / 2.0)
        .count();
    assert!(
        2 * known < spans,
        "{known} of {spans} spans are known, and no delay is out of place"
    );
    tollgate_skip::skipped!(
        "the machine is too busy: {known} of {spans} spans are known to a quarter of what was put in"
    );
}

#[cfg(feature = "bpf")]
mod kernel {
    use tollgate_kernel::{ExtraCost, kernel_features};
    use tollgate_measure::faults::Dearer;
    use tollgate_measure::kernel::Kernel;
    use tollgate_run::Workload;
    use tollgate_workload::Spec;

    use super::*;

    const SPEC: Spec = Spec::new(Workload::Rr, 64).with_mode(Placement::OneCore, Waiting::Blocking);

    /// Tells whether programs load; the test is skipped when they do not.
    fn programs_load() -> bool {
        let kernel_features = kernel_features();
        let reason = kernel_features.tracepoints.reason();
        if let Some(reason) = reason {
            tollgate_skip::skipped!("{reason}");
        }
        reason.is_none()
    }

    /// D1, 3 us.
    #[test]
    fn delays_in_the_kernel_come_back_in_their_spans() {
        let _turn = turn();
        if !programs_load() {
            return;
        }
        let Some(_fifo) = fifo() else {
            return;
        };
        for path in [PathId::KernelLoopback, PathId::KernelVeth] {
            let mut kernel = Kernel::open(path, &SPEC, &[64]).unwrap();
            delays_come_back(&mut kernel, 3_000.0, &amount(64));
        }
    }

    /// D3, D4 and D8.
    #[test]
    fn dearer_gates_show_as_such_and_leave_spans_alone() {
        let _turn = turn();
        if !programs_load() {
            return;
        }
        let Some(_fifo) = fifo() else {
            return;
        };
        let none = ExtraCost::default();
        let behind = ExtraCost {
            behind: Duration::from_nanos(200),
            ..none
        };
        let before = ExtraCost {
            before: Duration::from_micros(10),
            ..none
        };
        let touches = ExtraCost {
            touches_32_kib: true,
            ..none
        };
        let open = |cost| {
            Kernel::open_with_extra_cost(PathId::KernelLoopback, &SPEC, &[64], &cost).unwrap()
        };
        let mut kernels = [none, behind, before, touches].map(open);
        let ledgers = faults::in_turn(&mut kernels, &amount(64), || true);
        let ledgers: Vec<_> = ledgers.into_iter().map(Result::unwrap).collect();
        let [behind, before, touches] =
            [1, 2, 3].map(|dear| Dearer::of(&ledgers[0], &ledgers[dear]).unwrap());
        assert!(behind.beside.ns > behind.beside.half_width, "{behind:#?}");
        assert!(behind.strayed.len() <= 2, "{behind:#?}");
        let least = before.perturbation.ns - before.perturbation.half_width;
        assert!(least > 1.0, "{before:#?}");
        // What a gate evicts is missed beside it as well as elsewhere.
        assert!(touches.whole.ns > touches.whole.half_width, "{touches:#?}");
    }
}
