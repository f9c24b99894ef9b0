//! Faults D1 to D4 and D8 on this machine: what is put in comes back where it was put, and nowhere else.
//!
//! Nine of ten delays have to come back, since intervals hold the truth in 95 of 100 cases, and as many closures have to be what they
//! were. A span has to be known to half of its delay, or to all of it below a microsecond: an interval that holds everything shows
//! nothing. Where programs do not load the kernel's tests are skipped.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate_gate::{Gate, TickScale};
use tollgate_measure::faults::{self, Delayed, MeasuredDelay, known_to};
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
type Judge = fn(&[(Gate, MeasuredDelay)]) -> Result<(), String>;

/// Puts a delay behind each gate, and looks at what comes back. All delays are held against one control, so a control whose
/// interval misses the truth, as one of twenty does, lets many delays fail together. What fails is therefore measured once more and
/// twice as long, with a control of its own; what fails twice is a fault. On a machine where spans of turns without any delay differ
/// as well, nothing is known of the ledger, and the test says so.
fn delays_come_back(gated: &mut impl Delayed, ns: f64, amount: &Amount, judge: Judge) {
    let mut failures = Vec::new();
    for longer in [1, 2] {
        let amount = Amount {
            seed: amount.seed + longer,
            least_blocks: longer as u32 * amount.least_blocks,
            ..*amount
        };
        match measured_delays(gated, ns, &amount).and_then(|shown| judge(&shown)) {
            Ok(()) => return,
            Err(failure) => failures.push(failure),
        }
        if let Err(restless) = turns_without_delays_are_alike(gated, ns, &amount) {
            println!("{}", failures.join("\n"));
            return tollgate_skip::skipped!("turns without a delay, held to {ns} ns: {restless}");
        }
    }
    panic!("failed twice: {}", failures.join("\n"));
}

/// Measures as [`delays_come_back`] does, without any delay: no span, no round trip and no closure may change, and each span has to
/// be known as well as with delays.
fn turns_without_delays_are_alike(
    gated: &mut impl Delayed,
    ns: f64,
    amount: &Amount,
) -> Result<(), String> {
    let to = |_: &Way, _| None;
    let shown = measured_delays(&mut Redirected { gated, to }, ns, amount)?;
    let outside = |holds: &dyn Fn(&MeasuredDelay) -> bool| {
        let outside = shown.iter().filter(|(_, one)| !holds(one)).count();
        (outside > shown.len().div_ceil(10)).then_some(outside)
    };
    let spans = shown.len();
    if let Some(changed) = outside(&|one| one.span.contains(0.0) && one.strayed.is_empty()) {
        return Err(format!("{changed} of {spans} times a span changed"));
    }
    if let Some(changed) = outside(&|one| one.put_in.contains(0.0) && one.keeps_closure()) {
        return Err(format!(
            "{changed} of {spans} times the round trip or its closure changed"
        ));
    }
    if let Some(wide) = outside(&|one| one.half_width <= one.passages as f64 * known_to(ns) * ns) {
        return Err(format!(
            "{wide} of {spans} spans are not known to {} of that",
            known_to(ns)
        ));
    }
    Ok(())
}

/// All that is asked of a delay.
fn in_place_and_known(shown: &[(Gate, MeasuredDelay)]) -> Result<(), String> {
    in_place_and_kept(shown)?;
    few(shown, MeasuredDelay::is_known, "not known")
}

/// All that is asked where a span is a wait of the other end, which differs by more than a delay.
fn in_place_and_kept(shown: &[(Gate, MeasuredDelay)]) -> Result<(), String> {
    in_place(shown)?;
    let kept = MeasuredDelay::keeps_closure;
    few(shown, kept, "closures that are not kept")
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

/// Ends whose delays are put behind another gate than the one that is asked for, or behind none.
struct Redirected<'a, G, F> {
    gated: &'a mut G,
    to: F,
}

impl<G: Gated, F> Gated for Redirected<'_, G, F> {
    fn way(&self) -> &Way {
        self.gated.way()
    }

    fn splits(&self) -> Vec<Split> {
        self.gated.splits()
    }

    fn sizes(&self) -> usize {
        self.gated.sizes()
    }

    fn has_disabled(&self) -> bool {
        self.gated.has_disabled()
    }

    fn batch(&self) -> usize {
        self.gated.batch()
    }

    fn enable(&mut self, probes: Probes) -> Result<(), String> {
        self.gated.enable(probes)
    }

    fn run(&mut self, size: usize, round_trips: u64) -> Result<Ran, String> {
        self.gated.run(size, round_trips)
    }

    fn scale(&self) -> TickScale {
        self.gated.scale()
    }
}

impl<G: Delayed, F: Fn(&Way, Gate) -> Option<Gate>> Delayed for Redirected<'_, G, F> {
    fn delay(&mut self, delay: Option<(Gate, f64)>) -> Result<f64, String> {
        let to = |(gate, ns)| Some(((self.to)(self.gated.way(), gate)?, ns));
        self.gated.delay(delay.and_then(to))
    }
}

/// Most round trips of a measurement that shall tell where a delay lies.
const MOST_ROUND_TRIPS: u64 = 4_096;

/// A delay that lies behind another gate than it is said to is found out, unless the machine is too busy to know how much the
/// spans grew: then intervals hold everything, and the test says so.
#[test]
fn delays_behind_another_gate_are_found_out_of_place() {
    let _turn = turn();
    let mut stack = StackMemory::open(&[64], Mechanisms::DEFAULT).unwrap();
    let next = |way: &Way, gate| {
        let gates = way.gates();
        let at = gates.iter().position(|&one| one == gate).unwrap();
        Some(gates[(at + 1) % gates.len()])
    };
    let mut misplaced = Redirected {
        gated: &mut stack,
        to: next,
    };
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

    /// D3, D4 and D8. One of twenty intervals misses the truth, so what fails is measured once more; what fails twice is a fault, but
    /// where gates that cost the same differ as well.
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
        let mut failures = Vec::new();
        for longer in [1, 3] {
            let [behind, before, touches] =
                beside_ordinary_gates([behind, before, touches], longer);
            match dearer_gates_are_told([&behind, &before, &touches]) {
                Ok(()) => return,
                Err(failure) => failures.push(failure),
            }
            let alike = beside_ordinary_gates([none; 3], longer);
            if let Some(restless) = alike.iter().find_map(difference) {
                println!("{}", failures.join("\n"));
                return tollgate_skip::skipped!("gates that cost the same differ: {restless}");
            }
        }
        panic!("failed twice: {}", failures.join("\n"));
    }

    /// Ledgers of gates with these costs beside ordinary ones.
    fn beside_ordinary_gates(costs: [ExtraCost; 3], longer: u64) -> [Dearer; 3] {
        let open = |cost| {
            Kernel::open_with_extra_cost(PathId::KernelLoopback, &SPEC, &[64], &cost).unwrap()
        };
        let [first, second, third] = costs;
        let mut kernels = [ExtraCost::default(), first, second, third].map(open);
        let amount = Amount {
            seed: longer,
            least_blocks: longer as u32 * amount(64).least_blocks,
            ..amount(64)
        };
        let ledgers = faults::in_turn(&mut kernels, &amount, || true);
        let ledgers: Vec<_> = ledgers.into_iter().map(Result::unwrap).collect();
        [1, 2, 3].map(|dear| Dearer::of(&ledgers[0], &ledgers[dear]).unwrap())
    }

    fn grows(figure: &Figure) -> bool {
        figure.ns > figure.half_width
    }

    fn dearer_gates_are_told([behind, before, touches]: [&Dearer; 3]) -> Result<(), String> {
        // A gate that costs more than the whole round trip.
        let is_large = before.perturbation.ns - before.perturbation.half_width > 1.0;
        let told = [
            (grows(&behind.beside), "spans hold the cost behind", behind),
            (behind.strayed.len() <= 2, "spans are left alone", behind),
            (behind.keeps_closure(), "the closure is what it was", behind),
            (is_large, "the perturbation is large", before),
            // What a gate evicts is missed beside it as well as elsewhere.
            (grows(&touches.whole), "evictions cost", touches),
            (grows(&touches.elsewhere), "they cost elsewhere", touches),
        ];
        match told.iter().find(|(holds, ..)| !holds) {
            None => Ok(()),
            Some((_, name, dearer)) => Err(format!("it does not hold that {name}: {dearer:#?}")),
        }
    }

    /// Nanoseconds of a round trip to which the cost elsewhere has to be known. What is evicted is a few lines of each of 13 spans.
    const ELSEWHERE_NS: f64 = 1_000.0;

    /// The first difference, where there should be none.
    fn difference(one: &Dearer) -> Option<String> {
        let figures = [
            ("the whole", one.whole),
            ("beside", one.beside),
            ("elsewhere", one.elsewhere),
            ("the closure", one.closure_growth),
        ];
        let changed = figures.iter().find(|(_, figure)| !figure.contains(0.0));
        let wide = (one.elsewhere.half_width > ELSEWHERE_NS).then_some(&figures[2]);
        let of = |(name, figure): &(&str, Figure)| {
            format!("{name} {:.0} ± {:.0} ns", figure.ns, figure.half_width)
        };
        let strayed = one.strayed.len();
        (changed.or(wide).map(of)).or_else(|| (strayed > 2).then(|| format!("{strayed} spans")))
    }
}
