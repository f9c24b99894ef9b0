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

/// CC-2. RFC 9406, 4.2: slow start ends when round trips grow, before anything is lost.
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

/// CC-2. RFC 9406, 4.2: where the queue is too short for that, less is lost.
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

/// CC-1. RFC 9438, 4.2 and 4.10; RFC 9406, 4.2: the window of CUBIC from its first segment on, as long as nothing is lost.
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

/// CC-3. RFC 9438, 4.6 and 4.7; RFC 5681, 3.1: windows over time of both controllers where frames are lost at random: CUBIC keeps 0.7 of a
/// window, NewReno half, and CUBIC is back sooner.
#[test]
fn windows_with_loss() {
    let mut text = String::new();
    for &kind in CongestionControl::ALL {
        let lossy = Line {
            loss: Probability::from_ppm(300).expect("less than a million"),
            ..line(20, 40)
        };
        let outcome = run(&transfer(kind, lossy, 12));
        writeln!(
            text,
            "{kind:?}: {:.3} of the line, {} lost, {} dropped",
            outcome.utilisation(),
            outcome.lost,
            outcome.dropped
        )
        .expect("a string takes it");
        for sample in outcome.samples.iter().skip(5).step_by(8) {
            let window = sample.windows[0];
            let threshold = match window.threshold {
                u32::MAX => "none".to_owned(),
                bytes => (bytes / MSS).to_string(),
            };
            writeln!(
                text,
                "{:>6} ms {:>4} segments, threshold {threshold}",
                sample.at.as_millis(),
                window.congestion / MSS,
            )
            .expect("a string takes it");
        }
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

/// CC-6. RFC 9438, 5.3 and 5.4: flows of one controller share a line, none starves, and the line stays full.
#[test]
fn sixty_four_flows_share_a_line_and_fill_it() {
    for &kind in CongestionControl::ALL {
        for recovery in ["sack", "newreno"] {
            let (fairness, utilisation, worst) = share_of_64(kind, recovery);
            assert!(fairness > 0.85, "{kind:?}, {recovery}: {fairness}");
            assert!(utilisation > 0.95, "{kind:?}, {recovery}: {utilisation}");
            // A share is less than three segments in a round trip: who loses them all waits for a timer. None starves.
            assert!(worst > 0.05, "{kind:?}, {recovery}: {worst}");
        }
    }
}

/// Sixty-four flows over a line that marks from half of its queue on, with explicit congestion notification or without.
fn share_of_64_marked(kind: CongestionControl, ecn: &str) -> Outcome {
    const FLOWS: usize = 64;
    let line = Line {
        mark_from: Some(line(50, 40).bandwidth_delay_product() / 2),
        ..line(50, 40)
    };
    let mut transfer = Transfer {
        flows: FLOWS,
        opened_every: Duration::from_millis(10),
        ..transfer(kind, line, 4)
    };
    let set = transfer.mechanisms.set("ecn", ecn);
    set.expect("there is such a value");
    run(&transfer)
}

/// ECN-9. RFC 3168, 5: marks in place of drops: the line is shared and full, and next to nothing is sent again.
#[test]
fn sixty_four_flows_share_a_line_that_marks() {
    for &kind in CongestionControl::ALL {
        let (with, without) = (
            share_of_64_marked(kind, "classic"),
            share_of_64_marked(kind, "off"),
        );
        assert!(with.marked != 0 && without.marked == 0);
        let again =
            |outcome: &Outcome| -> u32 { outcome.flows.iter().map(|flow| flow.retransmits).sum() };
        let (few, many) = (again(&with), again(&without));
        println!(
            "{kind:?}: {few} and {many} sent again, fairness {} and {}, utilisation {} and {}",
            with.fairness(),
            without.fairness(),
            with.utilisation(),
            without.utilisation()
        );
        assert!(4 * few < many, "{kind:?}: {few} and {many} sent again");
        assert!(with.fairness() > 0.85, "{kind:?}: {}", with.fairness());
        assert!(with.utilisation() > 0.9, "{kind:?}: {}", with.utilisation());
        let worst = with.flows.iter().map(|flow| flow.delivered).min();
        assert!(worst.is_some_and(|bytes| bytes * 64 * 10 > with.delivered()));
    }
}

/// ACC-11. RFC 9768, 3.2.2.5: counted marks serve as well as echoed ones.
#[test]
fn sixty_four_flows_share_a_line_that_counts_marks() {
    let sums = |ecn| {
        let outcome = share_of_64_marked(CongestionControl::Cubic, ecn);
        let again: u32 = outcome.flows.iter().map(|flow| flow.retransmits).sum();
        (outcome, again)
    };
    let ((counted, few), (_, many)) = (sums("accurate"), sums("off"));
    assert!(counted.marked != 0);
    assert!(4 * few < many, "{few} and {many} sent again");
    assert!(counted.fairness() > 0.85, "{}", counted.fairness());
    assert!(counted.utilisation() > 0.9, "{}", counted.utilisation());
}

/// CC-4. RFC 9438, 4.3: CUBIC gets at least as much as Reno would, in its Reno-friendly region.
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
