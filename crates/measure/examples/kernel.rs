//! The ledger of a kernel path at some sizes, printed: `kernel PATH SECONDS SIZE...`, as root.

use std::process::ExitCode;
use std::time::Duration;

use tollgate_measure::gated::{self, Amount};
use tollgate_measure::kernel::Kernel;
use tollgate_measure::ledger::Split;
use tollgate_measure::schedule::Sets;
use tollgate_measure::{Ledger, Limit};
use tollgate_workload::{Mode, PathId, Placement, Waiting};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kernel: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, seconds, sizes @ ..] = arguments.as_slice() else {
        return Err("give PATH SECONDS SIZE...".to_owned());
    };
    let path: PathId = path.parse().map_err(|_| format!("{path} is no path"))?;
    let seconds: u64 = seconds.parse().map_err(|_| "SECONDS is no number")?;
    let sizes: Vec<usize> = sizes
        .iter()
        .map(|size| size.parse().unwrap_or(64))
        .collect();
    let mode = Mode {
        placement: Placement::OneCore,
        waiting: Waiting::Blocking,
    };
    let mut kernel = Kernel::open(path, mode, &sizes)?;
    // DELAY is GATE=NS: a delay behind that gate.
    let fault = std::env::var("DELAY").ok().and_then(|text| {
        let (name, ns) = text.split_once('=')?;
        let gate = tollgate_gate::Gate::ALL
            .iter()
            .find(|gate| gate.name() == name)?;
        Some(tollgate_kernel::Fault {
            gate: *gate,
            side: tollgate_kernel::Side::Behind,
            kind: tollgate_kernel::FaultKind::Delay(Duration::from_nanos(ns.parse().ok()?)),
        })
    });
    let _injected = fault.map(|fault| kernel.inject(fault)).transpose()?;
    let amount = Amount {
        round_trips: 64,
        least_blocks: 8,
        time: Duration::from_secs(seconds),
        sets: Sets::USUAL,
        seed: 1,
    };
    let measured = gated::run(&mut kernel, &amount, || true);
    let splits = vec![
        Split {
            least: 0.5,
            most: 0.5
        };
        gated::Gated::way(&kernel).len()
    ];
    for (size, sized) in sizes.iter().zip(measured) {
        if let Some(reason) = sized.failure {
            println!("{size} B: {reason}");
            continue;
        }
        let way = gated::Gated::way(&kernel).clone();
        let ledger =
            Ledger::fit(&way, &splits, &sized.slices, 1).map_err(|error| error.to_string())?;
        println!(
            "{size} B: round trip {:.0} +- {:.0} ns, {} blocks, {} slices, joined {:.4}",
            ledger.total.ns,
            ledger.total.half_width,
            ledger.blocks,
            ledger.slices,
            sized.joined as f64 / sized.messages as f64
        );
        for (place, span) in ledger.spans.iter().enumerate() {
            let gate = &ledger.gates[place];
            println!(
                "  {:18} span {:7.0} +- {:4.0}   beside {:5.0} +- {:4.0}   whole {:5.0} +- {:4.0}",
                way.gates()[place].name(),
                span.ns,
                span.half_width,
                gate.beside.ns,
                gate.beside.half_width,
                gate.whole.ns,
                gate.whole.half_width
            );
        }
        let left = ledger.closure.left;
        println!(
            "  left {:.0} +- {:.0} ns ({:.1} %), {:?}; elsewhere {:.0} +- {:.0}; all gates add {:.0} +- {:.0}",
            left.ns,
            left.half_width,
            100.0 * left.ns / ledger.total.ns,
            ledger.closure.verdict(Limit::ONE_CORE),
            ledger.elsewhere.ns,
            ledger.elsewhere.half_width,
            ledger.perturbation.ns,
            ledger.perturbation.half_width
        );
    }
    Ok(())
}
