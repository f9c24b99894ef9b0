//! Prints the way of a message over `stack-memory`, and what sampling costs, to try gates by hand.
//!
//! `cargo run --release -p tollgate-workload --example gates -- [size] [one in] [rounds] [1 for ordered readings] [mtu] [run]`

use std::num::NonZeroU32;
use std::process::ExitCode;

use tollgate_gate::STACK;
use tollgate_workload::stack_memory::gated::{Gating, Reading, chained, sampling_cost};
use tollgate_workload::{Error, Placement, Spec, Waiting, Workload};

fn main() -> ExitCode {
    let numbers: Vec<u32> = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse().ok())
        .collect();
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let mtu = number(4, 1500) as usize;
    let gating = Gating {
        mtu,
        one_in: NonZeroU32::new(number(1, 64)).unwrap_or(NonZeroU32::MIN),
        run: NonZeroU32::new(number(5, 32)).unwrap_or(NonZeroU32::MIN),
        rounds: number(2, 20),
        reading: if number(3, 0) == 1 {
            Reading::Ordered
        } else {
            Reading::Plain
        },
        ..Gating::default()
    };
    let spec = Spec::new(Workload::Rr, number(0, 80) as usize)
        .with_mode(Placement::OneCore, Waiting::BusyPoll);
    match print(&spec, &gating) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn print(spec: &Spec, gating: &Gating) -> Result<(), Error> {
    let chain = chained(spec, gating)?;
    println!(
        "{} bytes, one round trip in {} recorded: {} of them",
        spec.size,
        gating.one_in,
        chain.recorded()
    );
    let of = |value: Option<f64>| value.unwrap_or(f64::NAN);
    for (index, span) in STACK.spans().iter().enumerate() {
        println!(
            "{:<10} {:<14} {:>9.1} ns per message",
            span.direction.name(),
            span.name,
            of(chain.own_ns(index))
        );
    }
    println!(
        "two messages of {:.1} ns; ungated {:.1} ns, unattributed {:.1} ns = {:.1} %",
        of(chain.message_ns()),
        of(chain.ungated_ns()),
        of(chain.unattributed_ns()),
        100.0 * of(chain.closure())
    );
    println!(
        "perturbation {:.1} %; lost {}; joined {:.2} %; probe {:.1} ns",
        100.0 * of(chain.perturbation()),
        chain.join_stats().lost,
        100.0 * of(chain.join_stats().join_rate()),
        of(chain.probe_ns())
    );
    let cost = sampling_cost(spec, gating)?;
    if let Some(ratio) = cost.ratio() {
        println!(
            "sampling: {:+.2} % of the round trip, 95 % between {:+.2} % and {:+.2} %, {} pairs of slices",
            100.0 * (ratio.median - 1.0),
            100.0 * (ratio.low - 1.0),
            100.0 * (ratio.high - 1.0),
            cost.with_ns.len()
        );
    }
    Ok(())
}
