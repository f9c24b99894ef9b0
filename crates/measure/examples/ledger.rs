//! The ledger of a path at some sizes, printed: `ledger PATH PLACEMENT WAITING SECONDS SIZE...`. Kernel paths need root.
//!
//! `DELAY=GATE:NS` in the environment puts a delay behind a gate.

use std::process::ExitCode;
use std::time::Duration;

use tollgate_gate::Gate;
use tollgate_measure::faults::Delayed;
use tollgate_measure::gated::{self, Amount, Gated, Sized};
use tollgate_measure::kernel::Kernel;
use tollgate_measure::schedule::Sets;
use tollgate_measure::stack_memory::StackMemory;
use tollgate_measure::{Figure, Limit};
use tollgate_run::{PathId, Placement, Waiting, Workload};
use tollgate_workload::{Mechanisms, Spec};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ledger: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, placement, waiting, seconds, sizes @ ..] = arguments.as_slice() else {
        return Err("give PATH PLACEMENT WAITING SECONDS SIZE...".to_owned());
    };
    let path: PathId = path.parse().map_err(|_| format!("{path} is no path"))?;
    let spec = Spec::new(Workload::Rr, 0).with_mode(
        named(Placement::ALL, placement)?,
        named(Waiting::ALL, waiting)?,
    );
    let seconds: u64 = seconds.parse().map_err(|_| "SECONDS is no number")?;
    let sizes: Vec<usize> = sizes
        .iter()
        .map(|size| size.parse().map_err(|_| format!("{size} is no size")))
        .collect::<Result<_, _>>()?;
    let limit = match spec.placement {
        Placement::OneCore => Limit::ONE_CORE,
        _ => Limit::TWO_CORES,
    };
    let delay = delay()?;
    let amount = |round_trips| Amount {
        round_trips,
        least_blocks: 8,
        time: Duration::from_secs(seconds),
        sets: Sets::DEFAULT,
        seed: 1,
    };
    if path == PathId::StackMemory {
        let mut stack = StackMemory::open(&sizes, Mechanisms::DEFAULT)?;
        hold_up(&mut stack, delay)?;
        let measured = gated::run(&mut stack, &amount(256), || true);
        print(&stack, &sizes, &measured, limit)
    } else {
        let mut kernel = Kernel::open(path, &spec, &sizes)?;
        hold_up(&mut kernel, delay)?;
        let measured = gated::run(&mut kernel, &amount(64), || true);
        print(&kernel, &sizes, &measured, limit)
    }
}

fn hold_up(gated: &mut impl Delayed, delay: Option<(Gate, f64)>) -> Result<(), String> {
    if let Some((gate, ns)) = delay {
        let alone_ns = gated.delay(Some((gate, ns)))?;
        println!("delay of {alone_ns:.1} ns behind {}", gate.name());
    }
    Ok(())
}

/// Reads the requested delay: a gate, and the nanoseconds behind it.
fn delay() -> Result<Option<(Gate, f64)>, String> {
    let Ok(text) = std::env::var("DELAY") else {
        return Ok(None);
    };
    let parsed = text.split_once(':').and_then(|(name, ns)| {
        let gate = Gate::ALL.iter().find(|gate| gate.name() == name)?;
        Some((*gate, ns.parse().ok()?))
    });
    parsed
        .map(Some)
        .ok_or_else(|| format!("DELAY={text} is not GATE:NS"))
}

fn named<T: Copy + ToString>(all: &[T], name: &str) -> Result<T, String> {
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    let found = names.iter().position(|one| one == name);
    found
        .map(|at| all[at])
        .ok_or_else(|| format!("{name} is none of {}", names.join(", ")))
}

fn print(
    gated: &impl Gated,
    sizes: &[usize],
    measured: &[Sized],
    limit: Limit,
) -> Result<(), String> {
    let way = gated.way();
    for (size, sized) in sizes.iter().zip(measured) {
        let ledger = sized.ledger(gated, 1).map_err(|error| error.to_string())?;
        println!(
            "{size} B: round trip {}, {} blocks, {} slices, joined {:.4}",
            text(ledger.total),
            ledger.blocks,
            ledger.slices,
            sized.join_rate().unwrap_or(0.0)
        );
        for ((gate, span), cost) in way.gates().iter().zip(&ledger.spans).zip(&ledger.gates) {
            println!(
                "  {:22} span {:>16}   beside {:>16}   whole {:>16}",
                gate.name(),
                text(*span),
                text(cost.beside),
                text(cost.whole)
            );
        }
        let left = ledger.closure.left;
        println!(
            "  left open {} ({:.1} %), {:?}; disabled {}; elsewhere {}; all gates add {}",
            text(left),
            100.0 * left.ns / ledger.total.ns,
            ledger.closure.verdict(limit),
            ledger.disabled.map_or_else(|| "-".to_owned(), text),
            text(ledger.elsewhere),
            text(ledger.perturbation)
        );
    }
    Ok(())
}

fn text(figure: Figure) -> String {
    format!("{:.1} +-{:.1}", figure.ns, figure.half_width)
}
