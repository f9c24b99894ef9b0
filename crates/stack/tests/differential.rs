//! Random scripts against the stack with its default mechanisms and with others: what it sends and answers must not differ.
//!
//! `TOLLGATE_RANDOM_RUNS` says how many scripts of each setting are played. A failure prints the command that replays a seed
//! with its frames; `--seeds 100000` instead of `--seed` there makes 100,000 runs.

mod random;

use random::differential::{self, Equal, Versus, by_name};
use random::play::Deed;
use random::script::{SETTINGS, Script, Setting, WIDEST, setting};
use std::collections::BTreeSet;
use tollgate_stack::State;
use tollgate_stack::config::Mechanisms;
use tollgate_wire::tcp::{Flags, Header};

/// Runs of a setting in `cargo test`; `make test` runs ten times as many in optimized code with the same assertions.
const RUNS: u64 = 20;

/// Seeds that failed once, with what they found.
const REGRESSIONS: &[(&str, &str, u64)] = &[
    // The window of an older segment was taken, since it was predicted.
    ("bare-wide", "prediction-off", 44),
    // A predicted acknowledgment of a sender that the congestion window limits left the mark of it.
    ("bare-widest", "prediction-off", 26),
    ("bare-widest", "prediction-off", 48),
    // Predicted segments do not put keepalive off.
    ("bare-widest", "prediction-off", 171),
    ("bare-widest", "prediction-off", 547),
    // The peer sends again from where it was acknowledged, which is not the same place when windows differ.
    ("bare-widest", "posted-prediction-off", 77_425),
    // Small writes went behind a segment that waits, beyond what the window takes: nobody noticed that the window holds it now, nor
    // cut it where half of the window is open.
    ("bare-windows", "buffers-mbufs", 1092),
    ("bare-plain", "buffers-mbufs", 8295),
    // A small write made enough for a probe of the path's MTU, which was not sent.
    ("bare-windows", "buffers-mbufs", 3659),
    // Connections over IPv6 were found by the cache only.
    ("bare-widest-ipv6", "demux-hash", 6168),
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

/// Plays the scripts of every setting with the default mechanisms and with all others of which so much must be equal.
fn equal(what: Equal) {
    let all = differential::all();
    let compared: Vec<_> = all.iter().filter(|one| one.equal == what).collect();
    assert!(!compared.is_empty());
    for versus in compared {
        for setting in &SETTINGS {
            hold(
                setting,
                0..random::runs(RUNS),
                |script| differential::compare(script, versus).map(|_| ()),
                |seed| random::replay_command("differential", setting.name, &versus.name, seed),
            );
        }
    }
}

#[test]
fn mechanisms_change_no_frame() {
    equal(Equal::Everything);
}

#[test]
fn checksums_are_left_to_a_link_only_where_the_mechanisms_say_so() {
    let setting = &SETTINGS[0];
    let left = |name, value| {
        let mut mechanisms = Mechanisms::DEFAULT;
        mechanisms.set(name, value).unwrap();
        let seeds = 0..random::runs(RUNS);
        let scripts = seeds.map(|seed| differential::script(setting, seed));
        scripts
            .map(|script| differential::completed(&script, mechanisms))
            .sum::<u64>()
    };
    assert!(left("checksum-offload", "on") > 1_000);
    assert_eq!(left("checksum-offload", "off"), 0);
    assert_eq!(left("checksum", "redundancy-avoidance"), 0);
}

#[test]
fn checksum_policy_changes_checksums_only() {
    equal(Equal::ButChecksums);
}

#[test]
fn mechanisms_that_acknowledge_otherwise_change_no_stream() {
    equal(Equal::Streams);
}

#[test]
fn every_value_of_every_mechanism_is_played() {
    let names: BTreeSet<_> = differential::all()
        .into_iter()
        .map(|one| one.name)
        .collect();
    for (name, value, _) in Mechanisms::each() {
        assert!(names.contains(&format!("{name}-{value}")));
    }
}

#[test]
fn scripts_leave_the_stack_consistent() {
    // Each of the others keeps something twice that the default does not have.
    for (name, share) in [
        ("default", 1),
        ("delayed-ack-off", 2),
        ("buffers-mbufs", 2),
        ("timers-list", 2),
    ] {
        let versus = versus(name);
        for setting in &SETTINGS {
            hold(
                setting,
                0..random::runs(RUNS) / share,
                |script| differential::consistent(script, &versus).map(|_| ()),
                |seed| random::replay_command("consistency", setting.name, name, seed),
            );
        }
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
fn early_scripts_send_data_in_syns() {
    let setting = setting("early").expect("there is such a setting");
    let with_data = |seed: &u64| {
        let script = differential::script(&setting, *seed);
        let record = random::play::play(&script, Default::default(), Default::default());
        record.deeds.iter().any(|(_, deed)| match deed {
            // Behind 34 bytes lies TCP; the frame is longer than its header.
            Deed::Sent(raw) if raw.len() > 54 => {
                raw[47] == Flags::SYN.0 && raw.len() > 34 + usize::from(raw[46] >> 4) * 4
            }
            _ => false,
        })
    };
    let found = (0..60).filter(with_data).count();
    assert!(found > 10, "{found} of 60 scripts sent data in a SYN");
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

/// A script over IPv6 is played as any other: connections open, and bytes are read.
#[test]
fn scripts_over_ipv6_open_connections_and_read() {
    let setting = setting("widest-ipv6").expect("there is such a setting");
    let (mut established, mut read) = (0, 0);
    for seed in 0..50 {
        let script = differential::script(&setting, seed);
        let record = random::play::play(&script, Default::default(), Default::default());
        for (_, deed) in &record.deeds {
            match deed {
                Deed::State(State::Established) => established += 1,
                Deed::Read(bytes) => read += bytes.len(),
                _ => {}
            }
        }
    }
    assert!(established > 40, "{established} connections were opened");
    assert!(read > 20_000, "{read} bytes were read");
}

/// Frames of the stack in the scripts of a setting, played with their own mechanisms: with ranges, with counters of marks, with an echo,
/// and ECN-capable.
fn frames_of(setting: &Setting) -> [usize; 4] {
    let mut found = [0; 4];
    for seed in 0..60 {
        let script = differential::script(setting, seed);
        let record = random::play::play(&script, script.setup.mechanisms, Default::default());
        for (_, deed) in &record.deeds {
            // TCP's header lies behind 34 bytes.
            if let Deed::Sent(raw) = deed
                && raw.get(23) == Some(&6)
                && let Ok(header) = Header::parse(&raw[34..])
                && !header.flags.has(Flags::SYN)
            {
                let is = [
                    header.options.sack.is_some(),
                    header.options.accurate_ecn.is_some(),
                    header.flags.has(Flags::ECE),
                    raw[15] & 3 != 0,
                ];
                for (count, is) in found.iter_mut().zip(is) {
                    *count += usize::from(is);
                }
            }
        }
    }
    found
}

/// Selective acknowledgments and explicit congestion notification are negotiated and used; a bare script has neither.
#[test]
fn scripts_use_what_today_is_negotiated() {
    let found = frames_of(&WIDEST);
    assert!(found.iter().all(|&count| count > 20), "{found:?}");
    let bare = setting("bare-widest").expect("there is such a setting");
    assert_eq!(frames_of(&bare), [0; 4]);
}
