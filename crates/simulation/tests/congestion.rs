//! Congestion control over a bottleneck: windows over time, fairness, and how a first slow start ends.

use std::fmt::Write;
use std::num::NonZeroU64;
use std::time::Duration;
use tollgate_simulation::{CongestionControl, Line, Outcome, Probability, Transfer};

const MSS: u32 = 1448;

fn line(megabits: u64, round_trip: u64) -> Line {
    let rate = NonZeroU64::new(megabits * 1_000_000).expect("not zero");
    Line::new(rate, Duration::from_millis(round_trip))
}

fn transfer(kind: CongestionControl, line: Line, seconds: u64) -> Transfer {
    let mut transfer = Transfer::new(line, Duration::from_secs(seconds));
    transfer.mechanisms.congestion = kind;
    transfer
}

fn run(transfer: &Transfer) -> Outcome {
    transfer
        .run()
        .expect("the scenario is one that the stack takes")
}

/// A line whose queue holds sixteen bandwidth-delay products: what slow start adds in the round trip until it is noticed has room
/// there, and so have the five rounds of conservative slow start, each of which adds a quarter.
fn long_queue() -> Line {
    let line = line(20, 40);
    Line {
        queue: 16 * line.bandwidth_delay_product(),
        ..line
    }
}

#[test]
fn hystart_ends_slow_start_before_the_queue_overflows() {
    let outcome = run(&transfer(CongestionControl::Cubic, long_queue(), 4));
    assert_eq!(outcome.dropped, 0);
    let last = outcome.samples.last().expect("there are samples");
    assert_ne!(last.windows[0].threshold, u32::MAX, "slow start goes on");
    // NewReno goes on until frames are dropped.
    let outcome = run(&transfer(CongestionControl::NewReno, long_queue(), 4));
    assert!(outcome.dropped != 0);
    for sample in &outcome.samples {
        let window = sample.windows.first();
        assert!(sample.dropped != 0 || window.is_none_or(|w| w.threshold == u32::MAX));
    }
}

#[test]
fn hystart_drops_less_where_the_queue_is_short() {
    let dropped = |kind| {
        let line = Line {
            queue: 2 * line(100, 20).bandwidth_delay_product(),
            ..line(100, 20)
        };
        run(&transfer(kind, line, 1)).dropped
    };
    let (cubic, newreno) = (
        dropped(CongestionControl::Cubic),
        dropped(CongestionControl::NewReno),
    );
    assert!(4 * cubic < 3 * newreno, "{cubic} and {newreno}");
}

/// The window of CUBIC from its first segment on, as long as nothing is lost.
#[test]
fn window_of_cubic_without_loss() {
    let outcome = run(&transfer(CongestionControl::Cubic, long_queue(), 4));
    assert_eq!(outcome.dropped, 0);
    let mut text = String::new();
    for sample in outcome.samples.iter().skip(5).step_by(5) {
        let window = sample.windows[0];
        let phase = match window.threshold {
            u32::MAX => "slow start",
            _ => "congestion avoidance",
        };
        writeln!(
            text,
            "{:>5} ms {:>4} segments, round trip {:>3} ms, {phase}",
            sample.at.as_millis(),
            window.congestion / MSS,
            window.round_trip.as_millis(),
        )
        .expect("a string takes it");
    }
    insta::assert_snapshot!(text);
}

/// Jain's index of fairness, utilisation of the line, and the worst flow's part of a fair share.
fn share_of_64(kind: CongestionControl, recovery: &str) -> (f64, f64, f64) {
    const FLOWS: usize = 64;
    let mut transfer = Transfer {
        flows: FLOWS,
        opened_every: Duration::from_millis(10),
        ..transfer(kind, line(50, 20), 12)
    };
    let set = transfer.mechanisms.set("recovery", recovery);
    set.expect("there is such a recovery");
    let outcome = run(&transfer);
    let fair = outcome.delivered() as f64 / FLOWS as f64;
    let worst = outcome.flows.iter().map(|flow| flow.delivered).min();
    (
        outcome.fairness(),
        outcome.utilisation(),
        worst.expect("there are flows") as f64 / fair,
    )
}

#[test]
fn sixty_four_flows_share_a_line_and_fill_it() {
    for &kind in CongestionControl::ALL {
        for recovery in ["sack", "newreno"] {
            let (fairness, utilisation, worst) = share_of_64(kind, recovery);
            assert!(fairness > 0.85, "{kind:?}, {recovery}: {fairness}");
            assert!(utilisation > 0.95, "{kind:?}, {recovery}: {utilisation}");
            assert!(worst > 0.2, "{kind:?}, {recovery}: {worst}");
        }
    }
}

#[test]
fn cubic_is_no_slower_than_newreno_where_segments_are_lost_at_random() {
    let utilisation = |kind| {
        let line = Line {
            loss: Probability::from_ppm(1_000).expect("less than a million"),
            ..line(20, 40)
        };
        run(&transfer(kind, line, 20)).utilisation()
    };
    let (cubic, newreno) = (
        utilisation(CongestionControl::Cubic),
        utilisation(CongestionControl::NewReno),
    );
    assert!(cubic >= newreno, "{cubic} and {newreno}");
}

#[test]
fn transfer_runs_the_same_way_each_time() {
    let mut lossy = transfer(CongestionControl::Cubic, line(20, 40), 2);
    lossy.line.loss = Probability::from_ppm(10_000).expect("less than a million");
    let once = run(&lossy);
    assert_eq!(once, run(&lossy));
    lossy.seed += 1;
    assert_ne!(once, run(&lossy));
}

#[test]
fn transfer_that_is_too_short_says_so() {
    let short = Transfer {
        lasts: Duration::from_millis(10),
        ..Transfer::new(line(20, 40), Duration::from_secs(1))
    };
    let error = short.run().expect_err("no connection can be open by then");
    assert_eq!(
        error.to_string(),
        "0 of 1 connections were opened in 10ms; let it last longer"
    );
}
