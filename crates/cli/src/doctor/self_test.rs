//! `tollgate doctor --self-test`: faults that are known, and what the ledger shows of them on this machine.
//!
//! Owns what is tried, when it counts as shown, and the page. What is measured is `tollgate_measure::faults`'s.

use std::fmt::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;
use tollgate_experiment::context::Progress;
use tollgate_kernel::{ExtraCost, Fault, FaultKind, Side};
use tollgate_measure::faults::{self, Dearer, Delayed, MeasuredDelay, Tried};
use tollgate_measure::gated::{Amount, Gated};
use tollgate_measure::kernel::Kernel;
use tollgate_measure::schedule::Sets;
use tollgate_measure::stack_memory::StackMemory;
use tollgate_measure::{Figure, Limit, NoLedger, Verdict};
use tollgate_run::{Mode, PathId, Placement, Waiting, Workload};
use tollgate_workload::cores::Fifo;
use tollgate_workload::{Mechanisms, Spec};

use crate::args::{Doctor, GlobalArgs};
use crate::error::{Error, INTERRUPTED};
use crate::progress::ProgressLine;
use crate::{alone, interrupt, output, results};

/// Bytes of a message.
const SIZE: usize = 64;
/// Duration of a whole self-test.
const USUALLY: Duration = Duration::from_secs(105);
/// Duration of a quick self-test.
const USUALLY_QUICK: Duration = Duration::from_secs(15);
/// Blocks of slices of each fault.
const BLOCKS: u32 = 12;
/// Blocks of a quick self-test.
const QUICK_BLOCKS: u32 = 10;
/// The share of delays that have to come back in their place, whose intervals hold in 95 of 100 cases, and the share of other spans
/// that may move. Their intervals hold all together in 95 of 100 cases; more than chance is what a delay does to other code.
const IN_PLACE: f64 = 0.9;
const MOVED: f64 = 0.1;
/// Delays behind the kernel's gates, in nanoseconds.
const KERNEL_DELAYS: [f64; 2] = [3_000.0, 300.0];
/// Delays behind those of the own stack.
const STACK_DELAYS: [f64; 2] = [300.0, 30.0];

/// Gates that cost more than they have to.
const COSTS: [(&str, ExtraCost); 3] = [
    (
        "200 ns behind each stamp",
        ExtraCost {
            before: Duration::ZERO,
            behind: Duration::from_nanos(200),
            touches_32_kib: false,
        },
    ),
    (
        "10 us before each stamp",
        ExtraCost {
            before: Duration::from_micros(10),
            behind: Duration::ZERO,
            touches_32_kib: false,
        },
    ),
    (
        "32 KiB read behind each stamp",
        ExtraCost {
            before: Duration::ZERO,
            behind: Duration::ZERO,
            touches_32_kib: true,
        },
    ),
];

/// All that was tried.
#[derive(Debug, Serialize)]
struct SelfTest {
    schema: &'static str,
    version: u32,
    /// Tells whether the ledger showed what was put in, as often as it has to.
    passed: bool,
    /// Tells whether only the longest delay of two paths was tried.
    quick: bool,
    delays: Vec<Delays>,
    costs: Option<Costs>,
    /// Trials that were left out, and why.
    left_out: Vec<String>,
    /// Disturbances of the trials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// One length of delay behind each gate of a path.
#[derive(Debug, Serialize)]
struct Delays {
    path: PathId,
    asked_ns: f64,
    rows: Vec<Delay>,
    /// Gates that no delay can be put behind, with the reason.
    refused: Vec<String>,
}

/// Delay as the ledger shows it; figures are of a round trip, which passes the gate twice.
#[derive(Debug, Serialize)]
struct Delay {
    gate: &'static str,
    alone_ns: f64,
    round_trip_grew: Value,
    span_grew: Value,
    /// Half the width of the span's interval in the ledger.
    span_half_width_ns: f64,
    others_moved: Vec<&'static str>,
    others: usize,
    closure: &'static str,
    /// The growth of what the closure leaves open; 0 is predicted.
    closure_grew: Value,
    closure_kept: bool,
    /// Tells whether that growth is known to less than the delay.
    closure_known: bool,
    /// Tells whether the interval of the span's growth holds the delay itself, with no allowance for what its program costs.
    exact: bool,
    judgement: Judgement,
}

/// A value with half the width of its 95 % interval.
#[derive(Debug, Clone, Copy, Serialize)]
struct Value {
    value: f64,
    half_width: f64,
}

impl From<Figure> for Value {
    fn from(figure: Figure) -> Self {
        Self {
            value: figure.ns,
            half_width: figure.half_width,
        }
    }
}

/// Verdict of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Judgement {
    /// The span grew by the delay, and by no more than the round trip.
    InPlace,
    /// It is not.
    Wrong,
    /// The span's interval is wider than half of the delay, or than all of it below a microsecond.
    TooWide,
    /// The round trip did not grow by the delay, so the fault was not what it was to be.
    NotPutIn,
}

impl Judgement {
    fn of(shown: &MeasuredDelay) -> Self {
        if !shown.was_put_in() {
            Self::NotPutIn
        } else if !shown.is_known() {
            Self::TooWide
        } else if shown.is_in_place() {
            Self::InPlace
        } else {
            Self::Wrong
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::InPlace => "in its place",
            Self::Wrong => "not as it is",
            Self::TooWide => "interval too wide",
            Self::NotPutIn => "not put in as asked",
        }
    }
}

/// Gates that cost more, on one path.
#[derive(Debug, Serialize)]
struct Costs {
    path: PathId,
    rows: Vec<Cost>,
}

/// Cost of dearer gates as the ledger shows it; figures are of a round trip.
#[derive(Debug, Serialize)]
struct Cost {
    added: &'static str,
    /// Time that all gates add to a round trip, over the round trip without them.
    perturbation: Value,
    whole_grew: Value,
    beside_grew: Value,
    elsewhere_grew: Value,
    spans_moved: Vec<&'static str>,
    spans: usize,
    closure: &'static str,
    /// The growth of what the closure leaves open.
    closure_grew: Value,
    shown: bool,
}

/// Tries all faults, and says what was shown.
pub(super) fn run(doctor: &Doctor, global: &GlobalArgs) -> Result<ExitCode, Error> {
    results::check_writable(&doctor.json)?;
    let cancel = interrupt::prepare()?;
    let alone = alone::claim();
    let progress = ProgressLine::new(global);
    let begun = Instant::now();
    let goes_on = |what: &str| {
        let spent = begun.elapsed();
        let usually = if doctor.quick { USUALLY_QUICK } else { USUALLY };
        let left = usually.saturating_sub(spent);
        progress.update(
            what,
            spent.as_secs_f64() / (spent + left).as_secs_f64(),
            left,
        );
        !cancel.is_raised()
    };
    let mut delays = Vec::new();
    let mut left_out = Vec::new();
    let (lengths, blocks) = if doctor.quick {
        (1, QUICK_BLOCKS)
    } else {
        (2, BLOCKS)
    };
    let paths = &[PathId::KernelLoopback, PathId::KernelVeth][..lengths];
    let fifo = Fifo::begin();
    for &path in paths {
        let opened = Kernel::open(path, &SPEC, &[SIZE]);
        match opened {
            Ok(kernel) if !takes_faults(&kernel) => {
                left_out.push(format!("{path}: {NEEDS_ROOT}"));
            }
            Ok(mut kernel) => match &fifo {
                Ok(_) => try_delays(
                    &mut kernel,
                    path,
                    &KERNEL_DELAYS[..lengths],
                    &amount(64, blocks),
                    &goes_on,
                    &mut delays,
                    &mut left_out,
                ),
                Err(reason) => left_out.push(format!("{path}: {NEEDS_FIFO}: {reason}")),
            },
            Err(reason) => left_out.push(format!("{path}: {reason}")),
        }
    }
    // Both ends of it are one thread, which others preempt where it may not run so.
    match StackMemory::open(&[SIZE], Mechanisms::DEFAULT) {
        Ok(mut stack) => {
            let path = PathId::StackMemory;
            try_delays(
                &mut stack,
                path,
                &STACK_DELAYS[..lengths],
                &amount(256, blocks),
                &goes_on,
                &mut delays,
                &mut left_out,
            );
        }
        Err(reason) => left_out.push(format!("{}: {reason}", PathId::StackMemory)),
    }
    drop(fifo);
    let costs = if doctor.quick {
        None
    } else {
        try_costs(PathId::KernelLoopback, &goes_on)
            .map_err(|reason| left_out.push(format!("dearer gates: {reason}")))
            .ok()
    };
    progress.finish();
    let stopped = cancel.is_raised();
    if stopped {
        left_out.push("what stands nowhere above: it was stopped by the user".to_owned());
        output::say("stopped; what was tried until then is shown");
    }
    let mut found = SelfTest::new(delays, costs, left_out, doctor.quick);
    found.warnings.extend(alone.err());
    results::put(
        &doctor.json,
        global,
        || json(&found),
        || found.text(output::colour(global.color)),
    )?;
    Ok(if stopped {
        ExitCode::from(INTERRUPTED)
    } else if found.passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Mode of the kernel's paths.
const SPEC: Spec = Spec::new(Workload::Rr, SIZE).with_mode(Placement::OneCore, Waiting::Blocking);

/// Mode in which a path is tried: the ends of `stack-memory` share a thread, and poll.
fn mode(path: PathId) -> Mode {
    Mode {
        placement: Placement::OneCore,
        waiting: match path {
            PathId::StackMemory => Waiting::BusyPoll,
            _ => Waiting::Blocking,
        },
    }
}

/// The reason why no fault can be put into the kernel.
const NEEDS_ROOT: &str =
    "faults are put in by programs in the kernel, which takes root: run it as root, with sudo";

/// The reason why both ends cannot take turns.
const NEEDS_FIFO: &str = "both ends are to run by SCHED_FIFO, which takes CAP_SYS_NICE";

/// Tells whether faults can be put into the kernel: without root gates are those that sockets have, and there are no programs.
fn takes_faults(kernel: &Kernel) -> bool {
    let fault = kernel.way().gates().first().map(|&gate| Fault {
        gate,
        side: Side::Behind,
        kind: FaultKind::Delay(Duration::from_nanos(1)),
    });
    fault.is_some_and(|fault| !matches!(kernel.inject(fault), Ok(None)))
}

fn json(found: &SelfTest) -> Result<String, Error> {
    Ok(serde_json::to_string_pretty(found)? + "\n")
}

const fn amount(round_trips: u64, blocks: u32) -> Amount {
    Amount {
        round_trips,
        least_blocks: blocks,
        time: Duration::ZERO,
        sets: Sets::DEFAULT,
        seed: 1,
    }
}

fn try_delays(
    gated: &mut impl Delayed,
    path: PathId,
    lengths: &[f64],
    amount: &Amount,
    goes_on: &impl Fn(&str) -> bool,
    delays: &mut Vec<Delays>,
    left_out: &mut Vec<String>,
) {
    let gates = gated.way().gates().to_vec();
    for &asked_ns in lengths {
        let what = format!("{path}, delays of {}", time(asked_ns));
        match faults::delays(gated, &gates, asked_ns, amount, || goes_on(&what)) {
            Ok(tried) => delays.push(Delays::new(path, asked_ns, tried)),
            Err(reason) => left_out.push(format!("{path}, {}: {reason}", time(asked_ns))),
        }
    }
}

fn try_costs(path: PathId, goes_on: &impl Fn(&str) -> bool) -> Result<Costs, String> {
    let costs = std::iter::once(ExtraCost::default()).chain(COSTS.map(|(_, cost)| cost));
    let mut kernels = costs
        .map(|cost| Kernel::open_with_extra_cost(path, &SPEC, &[SIZE], &cost))
        .collect::<Result<Vec<_>, _>>()?;
    if !kernels.iter().all(takes_faults) {
        return Err(NEEDS_ROOT.to_owned());
    }
    // Each block has sessions of its own, whose threads start from here.
    let _fifo = Fifo::begin().map_err(|reason| format!("{NEEDS_FIFO}: {reason}"))?;
    let ledgers = faults::in_turn(&mut kernels, &amount(64, BLOCKS), || {
        goes_on("gates that cost more")
    });
    let ledgers: Result<Vec<_>, NoLedger> = ledgers.into_iter().collect();
    let ledgers = ledgers.map_err(|reason| reason.to_string())?;
    let Some((control, dear)) = ledgers.split_first() else {
        return Err("nothing was measured".to_owned());
    };
    let rows = dear.iter().zip(COSTS).map(|(dear, (added, cost))| {
        let dearer = Dearer::of(control, dear).map_err(|reason| reason.to_string())?;
        Ok(Cost::new(added, &cost, &dearer))
    });
    Ok(Costs {
        path,
        rows: rows.collect::<Result<_, String>>()?,
    })
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Closes => "closes",
        Verdict::DoesNotClose => "does not close",
        Verdict::CannotTell { .. } => "cannot tell",
    }
}

impl Delays {
    fn new(path: PathId, asked_ns: f64, tried: Vec<Tried>) -> Self {
        let mut delays = Self {
            path,
            asked_ns,
            rows: Vec::new(),
            refused: Vec::new(),
        };
        for one in tried {
            match one.shown {
                Ok(shown) => delays.rows.push(Delay::new(&shown)),
                Err(reason) => delays.refused.push(reason.to_string()),
            }
        }
        delays
    }
}

impl Delay {
    fn new(shown: &MeasuredDelay) -> Self {
        Self {
            gate: shown.gate.name(),
            alone_ns: shown.alone_ns,
            round_trip_grew: shown.put_in.into(),
            span_grew: shown.span.into(),
            span_half_width_ns: shown.half_width,
            others_moved: shown.strayed.iter().map(|(gate, _)| gate.name()).collect(),
            others: shown.others,
            closure: verdict(shown.closure.verdict(Limit::ONE_CORE)),
            closure_grew: shown.closure_growth.into(),
            closure_kept: shown.keeps_closure(),
            closure_known: shown.closure_is_known(),
            exact: shown.is_exact(),
            judgement: Judgement::of(shown),
        }
    }
}

impl Cost {
    fn new(added: &'static str, cost: &ExtraCost, dearer: &Dearer) -> Self {
        let grew = |figure: &Figure| figure.ns > figure.half_width;
        let kept = dearer.strayed.len() as f64 <= (MOVED * dearer.spans as f64).ceil();
        let shown = if cost.touches_32_kib {
            grew(&dearer.elsewhere)
        } else if cost.before > Duration::ZERO {
            // The first line of any ledger has to say that it is of little use.
            dearer.perturbation.ns - dearer.perturbation.half_width > 1.0
        } else {
            grew(&dearer.beside) && grew(&dearer.whole) && kept && dearer.keeps_closure()
        };
        Self {
            added,
            perturbation: dearer.perturbation.into(),
            whole_grew: dearer.whole.into(),
            beside_grew: dearer.beside.into(),
            elsewhere_grew: dearer.elsewhere.into(),
            spans_moved: dearer.strayed.iter().map(|(gate, _)| gate.name()).collect(),
            spans: dearer.spans,
            closure: verdict(dearer.closure.verdict(Limit::ONE_CORE)),
            closure_grew: dearer.closure_growth.into(),
            shown,
        }
    }
}

/// Number of trials that hold, of how many.
#[derive(Clone, Copy)]
struct Share(usize, usize);

impl Share {
    fn is_at_least(self, share: f64) -> bool {
        self.0 as f64 >= share * self.1 as f64
    }
}

impl SelfTest {
    fn new(delays: Vec<Delays>, costs: Option<Costs>, left_out: Vec<String>, quick: bool) -> Self {
        let mut found = Self {
            schema: "tollgate.self-test",
            version: 1,
            passed: false,
            quick,
            delays,
            costs,
            left_out,
            warnings: Vec::new(),
        };
        let mut costs = found.costs.iter().flat_map(|costs| &costs.rows);
        found.passed = found.left_out.is_empty()
            && found.in_place().is_at_least(IN_PLACE)
            && found.closures_kept().is_at_least(IN_PLACE)
            && !Share(found.moved().0 + 1, found.moved().1).is_at_least(MOVED)
            && costs.all(|cost| cost.shown);
        found
    }

    fn rows(&self) -> impl Iterator<Item = &Delay> {
        self.delays.iter().flat_map(|delays| &delays.rows)
    }

    /// The rows that are so, of all.
    fn share(&self, is_so: impl Fn(&Delay) -> bool) -> Share {
        let shown = self.rows().filter(|row| is_so(row));
        Share(shown.count(), self.rows().count())
    }

    fn in_place(&self) -> Share {
        self.share(|row| row.judgement == Judgement::InPlace)
    }

    fn closures_kept(&self) -> Share {
        self.share(|row| row.closure_kept)
    }

    /// The other spans that moved.
    fn moved(&self) -> Share {
        let moved = self.rows().map(|row| row.others_moved.len()).sum();
        Share(moved, self.rows().map(|row| row.others).sum())
    }

    fn text(&self, colour: bool) -> String {
        let mark = |good: bool| match (good, colour) {
            (true, false) => "ok".to_owned(),
            (false, false) => "no".to_owned(),
            (true, true) => "\x1b[32mok\x1b[0m".to_owned(),
            (false, true) => "\x1b[1;31mno\x1b[0m".to_owned(),
        };
        let mut out = String::new();
        let (shown, moved) = (self.in_place(), self.moved());
        let _ = writeln!(
            out,
            "The ledger shows {} of {} known delays in their place; {} of {} other spans moved.",
            shown.0, shown.1, moved.0, moved.1
        );
        let kept = self.closures_kept();
        let known = self.share(|row| row.closure_kept && row.closure_known);
        let _ = writeln!(
            out,
            "{} of {} closures are what they were; {} of them are known to less than the delay.",
            kept.0, kept.1, known.0
        );
        let exact = self.share(|row| row.exact);
        let _ = writeln!(
            out,
            "{} of {} intervals (95 %) hold the delay itself, with no allowance for what its program costs (=).",
            exact.0, exact.1
        );
        for delays in &self.delays {
            let _ = writeln!(
                out,
                "\n{}, round trips of {SIZE} bytes, {}: {} behind each gate, twice in a round trip",
                delays.path,
                mode(delays.path),
                time(delays.asked_ns)
            );
            let _ = writeln!(
                out,
                "      {:24}{:>10}  {:>20}{:>20}  {:>20}{:>14}",
                "gate", "delay", "round trip grew", "its span grew", "closure grew", "others moved"
            );
            for row in &delays.rows {
                let _ = writeln!(
                    out,
                    "  {}  {:24}{:>10}  {:>20}{:>20} {}{:>20}{:>14}  {}{}",
                    mark(row.judgement == Judgement::InPlace && row.closure_kept),
                    row.gate,
                    time(row.alone_ns),
                    row.round_trip_grew.text(),
                    row.span_grew.text(),
                    if row.exact { '=' } else { ' ' },
                    row.closure_grew.text(),
                    format!("{} of {}", row.others_moved.len(), row.others),
                    row.judgement.text(),
                    if row.closure_kept {
                        ""
                    } else {
                        ", closure moved"
                    }
                );
            }
            for reason in &delays.refused {
                let _ = writeln!(out, "  --  {reason}");
            }
        }
        if let Some(costs) = &self.costs {
            let _ = writeln!(out, "\n{}: gates that cost more", costs.path);
            let _ = writeln!(
                out,
                "      {:32}{:>16}{:>20}{:>20}{:>20}{:>20}{:>13}",
                "added",
                "all gates add",
                "beside them grew",
                "elsewhere grew",
                "altogether grew",
                "closure grew",
                "spans moved"
            );
            for row in &costs.rows {
                let share = format!(
                    "{:.0} +-{:.0} %",
                    100.0 * row.perturbation.value,
                    100.0 * row.perturbation.half_width
                );
                let _ = writeln!(
                    out,
                    "  {}  {:32}{share:>16}{:>20}{:>20}{:>20}{:>20}{:>13}",
                    mark(row.shown),
                    row.added,
                    row.beside_grew.text(),
                    row.elsewhere_grew.text(),
                    row.whole_grew.text(),
                    row.closure_grew.text(),
                    format!("{} of {}", row.spans_moved.len(), row.spans)
                );
            }
        }
        if self.quick {
            let _ = writeln!(
                out,
                "\nNot tried: {}, shorter delays, and gates that cost more. Run it without --quick for those.",
                PathId::KernelVeth
            );
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "\nwarning: {warning}");
        }
        for reason in &self.left_out {
            let _ = writeln!(out, "\nLeft out: {reason}");
        }
        out
    }
}

impl Value {
    /// Both in one unit.
    fn text(self) -> String {
        let largest = self.value.abs().max(self.half_width);
        if largest < 1_000.0 {
            format!("{:.1} +-{:.1} ns", self.value, self.half_width)
        } else {
            format!("{:.2} +-{:.2} us", self.value / 1e3, self.half_width / 1e3)
        }
    }
}

/// A time that is exact.
fn time(ns: f64) -> String {
    if ns < 1_000.0 {
        format!("{ns:.0} ns")
    } else {
        format!("{:.2} us", ns / 1e3)
    }
}
