//! Random scripts against the stack with its default mechanisms and with others: what it sends and answers must not differ.
//!
//! `TOLLGATE_RANDOM_RUNS` says how many scripts of each setting are played. A failure prints the command that replays a seed
//! with its frames; `--seeds 100000` instead of `--seed` there makes 100,000 runs.

mod random;

use random::differential::{self, Versus, by_name};
use random::play::Deed;
use random::script::{SETTINGS, Script, Setting, WIDEST, setting};
use std::collections::BTreeSet;
use tollgate_stack::State;

/// Runs of a setting in `cargo test`.
const RUNS: u64 = 60;

/// Seeds that failed once, with what they found.
const REGRESSIONS: &[(&str, &str, u64)] = &[
    // The window of an older segment was taken, since it was predicted.
    ("wide", "prediction-off", 44),
    // A predicted acknowledgment of a sender that the congestion window limits left the mark of it.
    ("widest", "prediction-off", 26),
    ("widest", "prediction-off", 48),
    // Predicted segments do not put keepalive off.
    ("widest", "prediction-off", 171),
    ("widest", "prediction-off", 547),
    // The peer sends again from where it was acknowledged, which is not the same place when windows differ.
    ("widest", "posted-prediction-off", 77_425),
];

fn versus(name: &str) -> Versus {
    by_name(name).expect("there are such mechanisms")
}

/// Runs the scripts of seeds and says which of them fail.
fn hold(
    setting: &Setting,
    seeds: impl Iterator<Item = u64>,
    run: impl Fn(&Script) -> Result<(), String>,
    replay: impl Fn(u64) -> String,
) {
    let run = |seed| run(&differential::script(setting, seed));
    random::hold(setting.name, seeds, run, replay);
}

/// The same records, whatever the script.
fn equal(names: &[&str]) {
    for name in names {
        let versus = versus(name);
        for setting in &SETTINGS {
            hold(
                setting,
                0..random::runs(RUNS),
                |script| differential::compare(script, &versus).map(|_| ()),
                |seed| random::replay_command("differential", setting.name, name, seed),
            );
        }
    }
}

#[test]
fn prediction_changes_no_frame() {
    equal(&["prediction-off"]);
}

#[test]
fn unidirectional_prediction_changes_no_frame() {
    equal(&["prediction-unidirectional"]);
}

#[test]
fn prediction_with_posted_buffers_changes_no_stream() {
    equal(&["posted-prediction-off"]);
}

#[test]
fn demultiplexing_changes_no_frame() {
    equal(&["demux-hash", "demux-list"]);
}

#[test]
fn header_template_changes_no_frame() {
    equal(&["template-off"]);
}

#[test]
fn retransmission_by_copy_changes_no_frame() {
    equal(&["retransmit-copy"]);
}

#[test]
fn all_mechanisms_together_change_no_frame() {
    equal(&["baseline"]);
}

#[test]
fn checksum_policy_changes_checksums_only() {
    equal(&["checksum-off"]);
}

#[test]
fn fin_acknowledgment_changes_no_stream() {
    equal(&["fin-at-once"]);
}

#[test]
fn scripts_leave_the_stack_consistent() {
    for setting in &SETTINGS {
        hold(
            setting,
            0..random::runs(RUNS),
            |script| differential::consistent(script).map(|_| ()),
            |seed| random::replay_command("consistency", setting.name, "prediction-off", seed),
        );
    }
}

#[test]
fn regressions_do_not_return() {
    for &(name, other, seed) in REGRESSIONS {
        let setting = setting(name).expect("there is such a setting");
        hold(
            &setting,
            std::iter::once(seed),
            |script| differential::compare(script, &versus(other)).map(|_| ()),
            |seed| random::replay_command("differential", name, other, seed),
        );
    }
}

#[test]
fn script_of_a_seed_plays_the_same_way_each_time() {
    let play = |seed| {
        let script = differential::script(&WIDEST, seed);
        random::play::play(&script, Default::default(), Default::default()).deeds
    };
    assert!(play(5) == play(5));
    assert!(play(5) != play(6));
}

#[test]
fn scripts_range_as_widely_as_their_setting_says() {
    let mut states = BTreeSet::new();
    let mut predicted = 0;
    let mut read = 0;
    for seed in 0..100 {
        let script = differential::script(&WIDEST, seed);
        let record = random::play::play(&script, Default::default(), Default::default());
        predicted += record.predicted;
        for (_, deed) in &record.deeds {
            match deed {
                Deed::State(state) => _ = states.insert(format!("{state:?}")),
                Deed::Read(bytes) => read += bytes.len(),
                Deed::Sent(_) | Deed::Returned(..) | Deed::End | Deed::Event(_) => {}
            }
        }
    }
    for state in [
        State::Established,
        State::CloseWait,
        State::LastAck,
        State::FinWait1,
        State::FinWait2,
        State::Closing,
        State::TimeWait,
        State::Closed,
    ] {
        assert!(
            states.contains(&format!("{state:?}")),
            "no script comes to {state:?}"
        );
    }
    assert!(predicted > 500, "{predicted} segments were predicted");
    assert!(read > 50_000, "{read} bytes were read");
}
