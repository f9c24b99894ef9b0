//! Goodput of the default mechanisms where segments are lost or change places, beside what RFC 9438 expects and what the line carries.

use std::num::NonZeroU64;
use std::time::Duration;
use tollgate_simulation::{Line, Mechanisms, Probability, Transfer};

const MSS: f64 = 1448.0;
const ROUND_TRIP: f64 = 0.02;
/// Seeds of each mean.
const SEEDS: u64 = 3;
const SECONDS: u64 = 8;
/// Seeds of a test that looks at each; the tenth carried five times the formula before.
const SEEDS_IN_A_ROW: u64 = 12;

fn line() -> Line {
    line_of(100)
}

fn line_of(megabits: u64) -> Line {
    let rate = NonZeroU64::new(megabits * 1_000_000).expect("not zero");
    Line::new(rate, Duration::from_secs_f64(ROUND_TRIP))
}

fn part(ppm: u32) -> Probability {
    Probability::from_ppm(ppm).expect("at most a million")
}

/// Mean goodput in bits per second, and the part of the line's capacity that it is.
fn goodput(line: Line, mechanisms: Mechanisms) -> (f64, f64) {
    let runs = (0..SEEDS).map(|seed| {
        let transfer = Transfer {
            mechanisms,
            seed,
            ..Transfer::new(line, Duration::from_secs(SECONDS))
        };
        let outcome = transfer
            .run()
            .expect("the scenario is one that the stack takes");
        let rate = outcome.delivered() as f64 * 8.0 / SECONDS as f64;
        (rate, outcome.utilisation())
    });
    let sum = runs.fold((0.0, 0.0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
    (sum.0 / SEEDS as f64, sum.1 / SEEDS as f64)
}

/// Mean rate of CUBIC at a loss of `p` segments, bits per second: the larger of the window of RFC 9438, 5.1, figure 5, and that of
/// the AIMD that its Reno-friendly region follows (4.3, figure 3).
fn expected(p: f64) -> f64 {
    let cubic = 1.054 * ROUND_TRIP.powf(0.75) / p.powf(0.75);
    let (alpha, beta) = (3.0 * 0.3 / 1.7, 0.7);
    let aimd = (alpha * (1.0 + beta) / (2.0 * (1.0 - beta) * p)).sqrt();
    cubic.max(aimd) * MSS * 8.0 / ROUND_TRIP
}

/// CC-5. RFC 9438, 5.1, figure 5, and 4.3: the mean rate at a loss rate is what the formulas say.
#[test]
fn random_loss_costs_no_more_than_the_formula_says() {
    for ppm in [1_000, 10_000] {
        let lossy = Line {
            loss: part(ppm),
            ..line()
        };
        let (rate, _) = goodput(lossy, Mechanisms::DEFAULT);
        let expected = expected(f64::from(ppm) / 1e6);
        assert!(
            rate >= 0.95 * expected,
            "{ppm} ppm: {rate:.0} of {expected:.0}"
        );
    }
}

/// SACK-8. RFC 8985, 6.2: segments that change places are not taken for lost.
#[test]
fn reordering_costs_nothing_to_speak_of() {
    let reordered = Line {
        reorder: part(20_000),
        ..line()
    };
    let (_, share) = goodput(reordered, Mechanisms::DEFAULT);
    assert!(share >= 0.95, "{share}");
    let mut newreno = Mechanisms::DEFAULT;
    newreno
        .set("recovery", "newreno")
        .expect("there is such a recovery");
    let (_, without) = goodput(reordered, newreno);
    assert!(
        without < 0.8,
        "{without}: duplicates are told from losses without help"
    );
}

/// RFC 9438, 4.6: each recovery takes its part from the window. Where acknowledgments are lost as well, one recovery follows the other, and
/// what the last one had sacked stands between the oldest and the newest segment: it was let out by no window, and is no measure of one.
#[test]
fn recoveries_in_a_row_reduce_the_window_each_time() {
    for pacing in ["on", "off"] {
        let mut mechanisms = Mechanisms::DEFAULT;
        mechanisms
            .set("pacing", pacing)
            .expect("there is such a value");
        for seed in 1..=SEEDS_IN_A_ROW {
            let transfer = Transfer {
                mechanisms,
                seed,
                ..Transfer::new(
                    Line {
                        loss: part(50_000),
                        loss_back: part(50_000),
                        ..line()
                    },
                    Duration::from_secs(4),
                )
            };
            let outcome = transfer
                .run()
                .expect("the scenario is one that the stack takes");
            let rate = outcome.delivered() as f64 * 8.0 / 4.0;
            // Both senders of the formula are steady; a transfer begins with a window that is yet to come down.
            let expected = expected(0.05);
            assert!(
                rate < 2.0 * expected,
                "pacing {pacing}, seed {seed}: {rate:.0} of {expected:.0}"
            );
        }
    }
}

#[test]
fn heavy_loss_is_stood_better_than_by_newreno() {
    let lossy = Line {
        loss: part(50_000),
        ..line()
    };
    let mut newreno = Mechanisms::DEFAULT;
    for name in ["recovery", "congestion"] {
        newreno.set(name, "newreno").expect("there is such a value");
    }
    let (ours, theirs) = (
        goodput(lossy, Mechanisms::DEFAULT).0,
        goodput(lossy, newreno).0,
    );
    assert!(ours > theirs, "{ours:.0} and {theirs:.0}");
}

/// CC-5. RFC 9438, 5.1, on a line of 10 Gb/s. What limits the window is the loss, and the formula knows nothing of the line.
#[test]
fn random_loss_costs_no_more_on_a_fast_line() {
    for ppm in [1_000, 10_000] {
        let lossy = Line {
            loss: part(ppm),
            ..line_of(10_000)
        };
        let (rate, _) = goodput(lossy, Mechanisms::DEFAULT);
        let expected = expected(f64::from(ppm) / 1e6);
        assert!(
            rate >= 0.95 * expected,
            "{ppm} ppm: {rate:.0} of {expected:.0}"
        );
    }
}

/// SACK-8. RFC 8985, 6.2, on a line of 10 Gb/s, where a window of 17,000 segments has some hundred holes at any time: what it costs
/// to find them must not grow with the window. Once the window is open the line is full.
#[test]
fn reordering_costs_nothing_to_speak_of_on_a_fast_line() {
    let reordered = Line {
        reorder: part(20_000),
        ..line_of(10_000)
    };
    let lasts = Duration::from_millis(800);
    let transfer = Transfer::new(reordered, lasts);
    let outcome = transfer
        .run()
        .expect("the scenario is one that the stack takes");
    let opened = Duration::from_millis(400);
    let sample = outcome
        .samples
        .iter()
        .find(|sample| sample.at >= opened)
        .expect("there is a sample each round trip");
    let delivered = (outcome.delivered() - sample.delivered) as f64;
    let part = (lasts - sample.at).as_secs_f64() / lasts.as_secs_f64();
    let share = delivered / (outcome.capacity as f64 * part);
    assert!(share >= 0.95, "{share}");
}
