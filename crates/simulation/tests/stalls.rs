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

/// A line that stalls goes on at its rate: frames that it held back keep their spacing.
#[test]
fn frames_of_a_stall_arrive_at_the_rate_of_the_line() {
    let megabits = 50;
    let rate = NonZeroU64::new(megabits * 1_000_000).expect("not zero");
    let (at, lasts) = (Duration::from_millis(350), Duration::from_millis(100));
    let line = Line::new(rate, Duration::from_millis(80));
    let line = Line {
        stall: Some(Stall { at, lasts }),
        // Nothing is dropped in the time that is looked at.
        queue: 8 * line.queue,
        ..line
    };
    let mut transfer = Transfer::new(line, Duration::from_millis(600));
    transfer.sampled_every = Duration::from_millis(1);
    let outcome = transfer
        .run()
        .expect("the scenario is one that the stack takes");
    // Nothing is lost or late, so what arrives is read at once.
    assert_eq!((outcome.dropped, outcome.flows[0].timeouts), (0, 0));
    let half_a_second = megabits * 1_000_000 / 8 / 2;
    assert!(outcome.capacity <= half_a_second, "{}", outcome.capacity);
    let a_millisecond = megabits * 1_000_000 / 8 / 1_000;
    for pair in outcome.samples.windows(2) {
        let arrived = pair[1].delivered - pair[0].delivered;
        assert!(
            arrived <= a_millisecond + 1_448,
            "{arrived} bytes in the millisecond before {:?}",
            pair[1].at
        );
    }
    let read_until = |time| {
        let sample = outcome.samples.iter().find(|sample| sample.at >= time);
        sample.expect("a sample each millisecond").delivered
    };
    let over = at + lasts;
    assert_eq!(read_until(at), read_until(over));
    assert!(read_until(over) < read_until(over + Duration::from_millis(20)));
}
