//! Prints the ledger of a round trip over `stack-memory`, and what sampling costs, to try gates by hand.
//!
//! `cargo run --release -p tollgate-workload --example gates -- [size] [one in] [rounds] [1 for ordered readings] [mtu]`

use std::num::NonZeroU32;
use std::process::ExitCode;

use tollgate_gate::Statistic;
use tollgate_workload::stack_memory::gated::{Gating, Reading, chained, gated, sampling_cost};
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
    let run = gated(spec, gating)?;
    let statistic = Statistic::TrimmedMean;
    println!(
        "{} bytes, one round trip in {} recorded: {} of them",
        spec.size, gating.one_in, run.recorded
    );
    println!(
        "{:<10} {:<14} {:>9} {:>9} {:>9} {:>9}",
        "", "span", "n", "own ns", "raw ns", "unmatched"
    );
    for (index, row) in run.ledger.rows().iter().enumerate() {
        println!(
            "{:<10} {:<14} {:>9} {:>9.1} {:>9.1} {:>9}",
            row.span.direction.name(),
            row.span.name,
            row.raw.map_or(0, |raw| raw.n),
            run.ledger
                .own_per_unit_ns(index, statistic)
                .unwrap_or(f64::NAN),
            row.raw.map_or(f64::NAN, |raw| raw.mean_ns),
            row.unmatched,
        );
    }
    let of = |value: Option<f64>| value.unwrap_or(f64::NAN);
    println!("sum {:.1} ns", of(run.ledger.sum_ns(statistic)));
    println!(
        "ungated mean {:.1} p50 {:.1} ns; unattributed {:.1} ns = {:.1} %",
        of(run.ledger.ungated().map(|total| total.mean_ns)),
        of(run.ledger.ungated().map(|total| total.p50_ns)),
        of(run.ledger.unattributed_ns(statistic)),
        100.0 * of(run.ledger.closure_by(statistic))
    );
    println!(
        "perturbation {:.1} %; lost {}; joined {:.2} %; probe {:.1} ns",
        100.0 * of(run.ledger.perturbation(statistic)),
        run.ledger.lost_events(),
        100.0 * of(run.ledger.join_rate()),
        run.probe_ns.iter().sum::<f64>() / run.probe_ns.len() as f64
    );
    if spec.size + 52 <= gating.mtu {
        let chain = chained(spec, gating)?;
        for span in run.ledger.table().spans() {
            println!(
                "{:<10} {:<14} {:>9.1} ns per message",
                span.direction.name(),
                span.name,
                of(chain.span_ns(span))
            );
        }
        println!(
            "gate by gate: two messages of {:.1} ns; ungated {:.1} ns, unattributed {:.1} ns",
            of(chain.message_ns()),
            of(chain.ungated_ns()),
            of(chain.unattributed_ns())
        );
    }
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
