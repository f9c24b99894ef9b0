//! An odd but legal peer becomes good: everything must arrive, both ways, and every frame come back.
//!
//! `TOLLGATE_RANDOM_RUNS` says how many seeds of each setting are run. A failure prints the command that replays a seed.

mod random;

use random::liveness::{self, Setting, run};
use tollgate_stack::config::Ecn;

/// Runs of a setting in `cargo test`.
const RUNS: u64 = 30;

/// Seeds that failed once, with what they found.
const REGRESSIONS: &[(&str, u64)] = &[
    // What was sent before a timeout counted as never sent after a window that shrank opened again.
    ("bare-shrinking", 4),
    ("bare-shrinking-loss", 1),
    ("bare-shrinking-loss", 4),
    // Segments that nobody took for too long, as they were shorter than what nearly every path takes.
    ("bare-black-hole", 2915),
    ("bare-black-hole", 374),
    // A window that shrank to nothing over what was in flight was probed by all of the first segment.
    ("bare-black-hole", 7858),
];

fn named(name: &str) -> Setting {
    liveness::setting(name).expect("there is such a setting")
}

fn replay(setting: &Setting, seed: u64) -> String {
    random::replay_command("liveness", &setting.label(), "prediction-off", seed)
}

/// Says which of the seeds fail.
fn hold(setting: &Setting, seeds: impl Iterator<Item = u64>) {
    let run = |seed| {
        run(setting, seed, false)
            .map(|_| ())
            .map_err(|failure| failure.to_string())
    };
    random::hold(setting.name, seeds, run, |seed| replay(setting, seed));
}

#[test]
fn windows_that_close_and_open_stop_nothing() {
    hold(&named("windows"), 0..random::runs(RUNS));
}

#[test]
fn loss_and_reordering_stop_nothing() {
    hold(&named("loss"), 0..random::runs(RUNS));
}

#[test]
fn windows_that_shrink_stop_nothing() {
    hold(&named("shrinking"), 0..random::runs(RUNS));
}

#[test]
fn windows_that_shrink_while_segments_are_lost_stop_nothing() {
    hold(&named("shrinking-loss"), 0..random::runs(RUNS));
}

/// RFC 7413, 4.2: whether the peer takes the data of a SYN or not, nothing is missing.
#[test]
fn data_in_syns_stops_nothing() {
    hold(&named("early"), 0..random::runs(RUNS));
}

/// RFC 4821, 7.7: a path that drops long packets in silence stops nothing.
#[test]
fn black_holes_stop_nothing() {
    hold(&named("black-hole"), 0..random::runs(RUNS));
}

#[test]
fn windows_that_shrink_and_loss_stop_nothing_over_ipv6() {
    hold(&named("shrinking-loss-ipv6"), 0..random::runs(RUNS));
}

#[test]
fn regressions_do_not_return() {
    for &(name, seed) in REGRESSIONS {
        hold(&named(name), std::iter::once(seed));
    }
}

#[test]
fn odd_peers_leave_the_stack_consistent() {
    for setting in &liveness::SETTINGS {
        for seed in 0..random::runs(RUNS) {
            // A run that fails is another test's.
            if let Ok(summary) = run(setting, seed, false)
                && let Some(found) = summary.inconsistency
            {
                panic!("seed {seed}: {found}\n  replay: {}", replay(setting, seed));
            }
        }
    }
}

#[test]
fn odd_peers_do_what_their_settings_say() {
    let sum = |name: &str| {
        let mut sum = (0, 0, 0);
        for summary in (0..30).filter_map(|seed| run(&named(name), seed, false).ok()) {
            sum.0 += summary.frames;
            sum.1 += summary.lost;
            sum.2 += summary.shrunk;
        }
        sum
    };
    let (frames, lost, shrunk) = sum("windows");
    assert!(frames > 1000 && lost == 0 && shrunk == 0);
    let (frames, lost, shrunk) = sum("loss");
    assert!(
        lost * 40 > frames && shrunk == 0,
        "{lost} of {frames} were lost"
    );
    let (_, lost, shrunk) = sum("shrinking");
    assert!(lost == 0 && shrunk > 30, "{shrunk} times windows shrank");
}

/// Selective acknowledgments and both kinds of feedback of marks are agreed on in many runs, and used.
#[test]
fn odd_peers_negotiate_what_peers_of_today_do() {
    let (mut selective, mut classic, mut accurate) = (0, 0, 0);
    let (mut marked, mut told, mut reneged) = (0, 0, 0);
    for setting in &liveness::SETTINGS {
        for summary in (0..20).filter_map(|seed| run(setting, seed, false).ok()) {
            selective += u64::from(summary.selective);
            classic += u64::from(summary.feedback == Some(Ecn::Classic));
            accurate += u64::from(summary.feedback == Some(Ecn::Accurate));
            marked += summary.marked;
            told += summary.told;
            reneged += summary.reneged;
        }
    }
    assert!(selective > 50, "{selective} runs with selective ones");
    assert!(classic > 10 && accurate > 10, "{classic} and {accurate}");
    assert!(marked > 500, "{marked} frames were marked");
    assert!(told > 500 && reneged > 10, "{told} and {reneged}");
}

/// A bare setting is one of before: nothing new is negotiated.
#[test]
fn bare_settings_negotiate_none_of_it() {
    for seed in 0..10 {
        let summary = run(&named("bare-loss"), seed, false).unwrap();
        let told = (summary.selective, summary.feedback, summary.marked);
        assert_eq!(told, (false, None, 0));
    }
}
