//! Faults D1 to D4 and D8 on this machine: what is put in comes back where it was put, and nowhere else.
//!
//! Nine of ten delays have to come back, since intervals hold the truth in 95 of 100 cases, and as many closures have to be what they
//! were. A span has to be known to half of its delay, or to all of it below a microsecond: an interval that holds everything shows
//! nothing. Where programs do not load the kernel's tests are skipped.

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
use tollgate_workload::Mechanisms;
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

/// Judges delays behind each gate.
type Judge = fn(&[(Gate, MeasuredDelay)]) -> Result<(), Failure>;

/// Failure of delays behind each gate.
enum Failure {
    /// The ledger shows another thing than what was put in.
    Wrong(String),
    /// All may be right, and the intervals are too wide to know.
    Unknown(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Wrong(text) | Self::Unknown(text)) = self;
        f.write_str(text)
    }
}

/// Puts a delay behind each gate, and looks at what comes back. All delays are held against one control, so a control whose
/// interval misses the truth, as one of twenty does, lets many delays fail together. What fails is therefore measured once more and
/// twice as long, with a control of its own; what fails twice is a fault. Intervals that are too wide are one as well, but where others
/// are busy.
fn delays_come_back(gated: &mut impl Delayed, ns: f64, amount: &Amount, judge: Judge) {
    let again = Amount {
        seed: amount.seed + 1,
        least_blocks: 2 * amount.least_blocks,
        ..*amount
    };
    let Err(first) = try_delays(gated, ns, amount, judge) else {
        return;
    };
    match (try_delays(gated, ns, &again, judge), others_are_busy()) {
        (Ok(()), _) => {}
        (Err(Failure::Unknown(second)), Some(busy)) => {
            println!("{second}");
            tollgate_skip::skipped!("{busy}: spans are not known well enough with {ns} ns");
        }
        (Err(second), _) => panic!("failed twice: {first}\n{second}"),
    }
}

/// The load, where more threads ask for processors than there are.
fn others_are_busy() -> Option<String> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = load.split(' ').next()?.parse().ok()?;
    // Not those that this thread may run on: a path has pinned it.
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let processors = stat.lines().filter(|line| {
        let number = line.strip_prefix("cpu");
        number.is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
    });
    let processors = processors.count();
    (load > processors as f64).then(|| format!("a load of {load} on {processors} processors"))
}

fn try_delays(
    gated: &mut impl Delayed,
    ns: f64,
    amount: &Amount,
    judge: Judge,
) -> Result<(), Failure> {
    judge(&measured_delays(gated, ns, amount).map_err(Failure::Wrong)?)
}

/// All that is asked of a delay.
fn in_place_and_known(shown: &[(Gate, MeasuredDelay)]) -> Result<(), Failure> {
    in_place_and_kept(shown)?;
    few(shown, MeasuredDelay::is_known, "not known").map_err(Failure::Unknown)
}

/// All that is asked where a span is a wait of the other end, which differs by more than a delay.
fn in_place_and_kept(shown: &[(Gate, MeasuredDelay)]) -> Result<(), Failure> {
    in_place(shown).map_err(Failure::Wrong)?;
    let kept = MeasuredDelay::keeps_closure;
    few(shown, kept, "closures that are not kept").map_err(Failure::Wrong)
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

/// Refuses more than one of ten that are not so.
fn few(
    shown: &[(Gate, MeasuredDelay)],
    is_so: impl Fn(&MeasuredDelay) -> bool,
    name: &str,
) -> Result<(), String> {
    let others: Vec<_> = shown.iter().filter(|(_, one)| !is_so(one)).collect();
    if others.len() > shown.len().div_ceil(10) {
        return Err(format!("{name}: {others:#?}"));
    }
    Ok(())
}

fn in_place(shown: &[(Gate, MeasuredDelay)]) -> Result<(), String> {
    let exact = shown.iter().filter(|(_, one)| one.is_exact()).count();
    println!(
        "{exact} of {} intervals hold the length of the delay by itself",
        shown.len()
    );
    let is_there = |one: &MeasuredDelay| one.was_put_in() && one.is_in_place();
    few(shown, is_there, "out of place")?;
    let strayed: usize = shown.iter().map(|(_, one)| one.strayed.len()).sum();
    let others: usize = shown.iter().map(|(_, one)| one.others).sum();
    if 10 * strayed > others {
        return Err(format!("{strayed} of {others} strayed: {shown:#?}"));
    }
    Ok(())
}

/// D2, 300 and 30 ns. Both ends are one thread, which nobody preempts by SCHED_FIFO.
#[test]
fn delays_in_the_stack_come_back_in_their_spans() {
    let _turn = turn();
    let _fifo = Fifo::begin().ok();
    let mut stack = StackMemory::open(&[64], Mechanisms::DEFAULT).unwrap();
    for ns in [300.0, 30.0] {
        delays_come_back(&mut stack, ns, &amount(256), in_place_and_known);
    }
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
    let mut link = match StackLink::open(PathId::StackTap, mode, Mechanisms::DEFAULT, &[64]) {
        Ok(link) => link,
        Err(reason) => return tollgate_skip::skipped!("{reason}"),
    };
    delays_come_back(&mut link, 3_000.0, &amount(64), in_place_and_kept);
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
    let mut misplaced = Misplaced(StackMemory::open(&[64], Mechanisms::DEFAULT).unwrap());
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
    use tollgate_measure::Figure;
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

    /// D1, 3 us and 300 ns.
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
            for ns in [3_000.0, 300.0] {
                delays_come_back(&mut kernel, ns, &amount(64), in_place_and_known);
            }
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
        let behind_cost = ExtraCost {
            behind: Duration::from_nanos(200),
            ..none
        };
        let before_cost = ExtraCost {
            before: Duration::from_micros(10),
            ..none
        };
        let touches_cost = ExtraCost {
            touches_32_kib: true,
            ..none
        };
        let open = |cost| {
            Kernel::open_with_extra_cost(PathId::KernelLoopback, &SPEC, &[64], &cost).unwrap()
        };
        let mut kernels = [none, behind_cost, before_cost, touches_cost].map(open);
        let ledgers = faults::in_turn(&mut kernels, &amount(64), || true);
        let ledgers: Vec<_> = ledgers.into_iter().map(Result::unwrap).collect();
        let [behind, before, touches] =
            [1, 2, 3].map(|dear| Dearer::of(&ledgers[0], &ledgers[dear]).unwrap());
        assert!(behind.beside.ns > behind.beside.half_width, "{behind:#?}");
        assert!(behind.strayed.len() <= 2, "{behind:#?}");
        let least = before.perturbation.ns - before.perturbation.half_width;
        assert!(least > 1.0, "{before:#?}");
        let grows = |figure: &Figure| figure.ns > figure.half_width;
        // What a gate evicts is missed beside it as well as elsewhere.
        assert!(grows(&touches.whole), "{touches:#?}");
        // D3: the closure is what it was. One of twenty intervals misses that, and another run's has to hold it then.
        let again = |cost| {
            let longer = Amount {
                seed: 2,
                least_blocks: 24,
                ..amount(64)
            };
            let mut kernels = [none, cost].map(open);
            let ledgers = faults::in_turn(&mut kernels, &longer, || true);
            let ledgers: Vec<_> = ledgers.into_iter().map(Result::unwrap).collect();
            Dearer::of(&ledgers[0], &ledgers[1]).unwrap()
        };
        let keeps = behind.keeps_closure() || again(behind_cost).keeps_closure();
        assert!(keeps, "{behind:#?}");
        // D8: what is missed elsewhere is a few lines of each span, so a short run may not tell it.
        if !grows(&touches.elsewhere) {
            let touches = again(touches_cost);
            match others_are_busy() {
                _ if grows(&touches.elsewhere) => {}
                Some(busy) => {
                    tollgate_skip::skipped!("{busy}: what gates evict elsewhere is not told from 0")
                }
                None => panic!("{touches:#?}"),
            }
        }
    }
}
