//! Buffers that begin small and grow with what the line takes.

use std::num::NonZeroU64;
use std::time::Duration;
use tollgate_simulation::{Line, Mechanisms, Outcome, Transfer};
use tollgate_stack::config::Tuning;

/// Bytes that buffers begin with, as small as Linux's.
const SMALL: u32 = 64 * 1024;

/// A gigabit per second and a round trip of 50 ms: 6.25 MB are on the line.
fn line() -> Line {
    let rate = NonZeroU64::new(1_000_000_000).expect("not zero");
    Line::new(rate, Duration::from_millis(50))
}

fn run(tuning: Tuning, buffers: Option<u32>, seconds: u64) -> Outcome {
    let transfer = Transfer {
        mechanisms: Mechanisms {
            tuning,
            ..Mechanisms::HOST
        },
        buffers,
        ..Transfer::new(line(), Duration::from_secs(seconds))
    };
    transfer
        .run()
        .expect("the scenario is one that the stack takes")
}

/// Both buffers grow to what is needed within two seconds, and the line is full from then on.
#[test]
fn small_buffers_grow_until_they_fill_the_line() {
    // The same run to the packet, so the difference is what its third second carries.
    let [two, three] = [2, 3].map(|seconds| run(Tuning::On, Some(SMALL), seconds));
    let carried = three.delivered() - two.delivered();
    let capacity = three.capacity - two.capacity;
    assert!(
        carried as f64 > 0.95 * capacity as f64,
        "{carried} of {capacity} bytes"
    );
}

/// Without it a round trip carries what the smaller buffer holds.
#[test]
fn small_buffers_stay_small_where_they_may_not_grow() {
    let outcome = run(Tuning::Off, Some(SMALL), 2);
    let rounds = 2000 / 50;
    assert!(outcome.delivered() <= u64::from(SMALL) * rounds);
}
