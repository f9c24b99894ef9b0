//! Prints which clock this machine offers, what a reading costs and how finely it divides time.

use tollgate_gate::Clock;
use tollgate_gate::clock::Source;

fn main() {
    let clock = Clock::calibrate();
    match clock.source() {
        Source::Tsc { hz } => println!(
            "source      invariant TSC, {hz} Hz within {:.2} ppm; kernel keeps time by {}",
            clock.error_ppm(),
            clock.kernel_clock().name()
        ),
        Source::MonotonicRaw { reason } => {
            println!("source      CLOCK_MONOTONIC_RAW, because {reason}");
        }
    }
    let cost = clock.cost_ns();
    println!(
        "reading     plain {:.1} ns, ordered {:.1} ns",
        cost.plain_ns, cost.ordered_ns
    );
    println!(
        "resolution  {:.2} ns, the step of the counter",
        clock.resolution_ns()
    );
}
