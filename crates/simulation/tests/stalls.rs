//! A line that holds everything back for longer than the timeout: what undo is worth (RFC 3522, 4015).

use std::num::NonZeroU64;
use std::time::Duration;
use tollgate_simulation::{CongestionControl, Line, Outcome, Stall, Transfer};

/// Six seconds of a transfer, of which the line stalls for one.
fn stalled(congestion: CongestionControl, undo: &str) -> Outcome {
    let rate = NonZeroU64::new(50_000_000).expect("not zero");
    let line = Line {
        stall: Some(Stall {
            at: Duration::from_secs(2),
            lasts: Duration::from_secs(1),
        }),
        ..Line::new(rate, Duration::from_millis(80))
    };
    let mut transfer = Transfer::new(line, Duration::from_secs(6));
    transfer.mechanisms.congestion = congestion;
    let set = transfer.mechanisms.set("undo", undo);
    set.expect("there is such a value");
    transfer
        .run()
        .expect("the scenario is one that the stack takes")
}

/// The threshold of slow start at the end, bytes.
fn threshold(outcome: &Outcome) -> u32 {
    let last = outcome.samples.last().expect("there are samples");
    last.windows[0].threshold
}

/// UNDO-1. RFC 4015, 3.2: after a timeout that a delay has caused the windows of before come back, and nothing that was sent once is sent
/// again but the first segment.
#[test]
fn timeout_that_a_stall_has_caused_is_undone() {
    for &congestion in CongestionControl::ALL {
        let (with, without) = (stalled(congestion, "on"), stalled(congestion, "off"));
        let (flow, other) = (with.flows[0], without.flows[0]);
        assert!(
            flow.timeouts != 0 && other.timeouts != 0,
            "{flow:?} {other:?}"
        );
        assert!(flow.undone != 0, "{congestion:?}: {flow:?}");
        assert_eq!(other.undone, 0);
        assert!(flow.retransmits < other.retransmits, "{flow:?} {other:?}");
        assert!(threshold(&with) > threshold(&without), "{congestion:?}");
        assert!(with.delivered() >= without.delivered(), "{congestion:?}");
    }
}
