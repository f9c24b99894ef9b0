//! The ledger of responses of several packets at some sizes, printed: `packets PATH CARRIER SECONDS SIZE...`, the carrier being
//! `packets` or `gso` (`stack-memory` has packets only). Kernel paths need root.
//!
//! `DELAY=GATE:NS` in the environment puts a delay behind a gate.

use std::process::ExitCode;
use std::time::Duration;

use tollgate_gate::delay::Wait;
use tollgate_gate::{Gate, SpanTable};
use tollgate_kernel::{Fault, FaultKind, Side};
use tollgate_measure::gated::{self, Amount, Gated, Sized};
use tollgate_measure::packets::{self, kernel::KernelPackets, stack::StackPackets};
use tollgate_measure::schedule::Sets;
use tollgate_measure::{Figure, Limit, PacketTime};
use tollgate_run::{Mode, PathId, Placement, Waiting};
use tollgate_workload::kernel::per_packet::Carrier;
use tollgate_workload::stack_gates;
use tollgate_workload::{Mechanisms, gate_clock};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("packets: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [path, carrier, seconds, sizes @ ..] = arguments.as_slice() else {
        return Err("give PATH CARRIER SECONDS SIZE...".to_owned());
    };
    let path: PathId = path.parse().map_err(|_| format!("{path} is no path"))?;
    let carrier = match carrier.as_str() {
        "packets" => Carrier::Packets,
        "gso" => Carrier::Gso,
        other => return Err(format!("{other} is neither packets nor gso")),
    };
    let seconds: u64 = seconds.parse().map_err(|_| "SECONDS is no number")?;
    let sizes: Vec<usize> = sizes
        .iter()
        .map(|size| size.parse().map_err(|_| format!("{size} is no size")))
        .collect::<Result<_, _>>()?;
    let delay = delay()?;
    let amount = |round_trips| Amount {
        round_trips,
        least_blocks: 8,
        time: Duration::from_secs(seconds),
        sets: Sets::DEFAULT,
        seed: 1,
    };
    if path == PathId::StackMemory {
        let mut stack = StackPackets::open(&sizes, Mechanisms::DEFAULT)?;
        if let Some((gate, ns)) = delay {
            let wait = Wait::calibrate(gate_clock(), ns);
            println!("delay of {:.1} ns behind {}", wait.ns(), gate.name());
            stack.set_fault(Some(stack_gates::Fault { gate, wait }));
        }
        let measured = gated::run(&mut stack, &amount(128), || true);
        return print(stack.table(), &stack, &sizes, measured);
    }
    let mode = Mode {
        placement: Placement::OneCore,
        waiting: Waiting::Blocking,
    };
    let mut kernel = KernelPackets::open(path, carrier, mode, &sizes)?;
    let fault = delay.map(|(gate, ns)| Fault {
        gate,
        side: Side::Behind,
        kind: FaultKind::Delay(Duration::from_nanos(ns as u64)),
    });
    let _injected = fault.map(|fault| kernel.inject(fault)).transpose()?;
    let measured = gated::run(&mut kernel, &amount(32), || true);
    let lost: u64 = measured.iter().map(|sized| sized.lost).sum();
    println!("{lost} events lost, {} unmatched", kernel.unmatched());
    print(kernel.table(), &kernel, &sizes, measured)
}

/// A gate, and nanoseconds behind it.
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

fn print(
    table: SpanTable,
    gated: &impl Gated,
    sizes: &[usize],
    measured: Vec<Sized>,
) -> Result<(), String> {
    for (size, sized) in sizes.iter().zip(measured) {
        let ledger = match sized.ledger(gated, 1) {
            Ok(ledger) => ledger,
            Err(reason) => {
                println!("{size} B: {reason}");
                continue;
            }
        };
        println!(
            "{size} B: round trip {}, {} blocks, {} slices, joined {:.4}",
            text(ledger.total),
            ledger.blocks,
            ledger.slices,
            sized.joined as f64 / sized.messages as f64
        );
        let mut names = packets::on_the_way(table).map(|span| span.name);
        for (place, (gate, span)) in gated.way().gates().iter().zip(&ledger.spans).enumerate() {
            let time = |time| {
                ledger
                    .packets
                    .get(&time)
                    .map_or_else(|| "-".to_owned(), |&one| text(one))
            };
            println!(
                "  {:18} {:14} span {:>18}  work {:>15}  wait {:>18}  beside {:>15}  whole {:>18}  within {:.1}",
                gate.name(),
                names.next().unwrap_or("turn"),
                text(*span),
                time(PacketTime::Work(place)),
                time(PacketTime::Wait(place)),
                text(ledger.gates[place].beside),
                text(ledger.gates[place].whole),
                ledger.within[place]
            );
        }
        let left = ledger.closure.left;
        println!(
            "  left open {} ({:.1} %), {:?}; disabled {}; elsewhere {}; all gates add {}",
            text(left),
            100.0 * left.ns / ledger.total.ns,
            ledger.closure.verdict(Limit::ONE_CORE),
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
