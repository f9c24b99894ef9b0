//! Every scenario of the simulation, a few seeds each, and a part of the matrix; `TOLLGATE_SIM_SEEDS` says how many.
//!
//! A failure prints the command that runs its seed again.

mod sim;

use sim::matrix::{self, Settings};
use sim::{Scenario, Summary, scenario};
use std::collections::HashSet;
use tollgate_stack::Config;
use tollgate_stack::config::{Mechanisms, Nagle, Segmentation};
use tollgate_wire::ethernet::MacAddr;

/// Parts of the matrix: one runs for each seed.
const PARTS: u64 = 55;

fn seeds() -> u64 {
    match std::env::var("TOLLGATE_SIM_SEEDS") {
        Ok(text) => text.parse().expect("TOLLGATE_SIM_SEEDS is a number"),
        // `make test` makes 20 of each scenario besides, and the whole matrix, in optimised code.
        Err(_) => 2,
    }
}

fn run(scenario: &Scenario, seed: u64) -> Summary {
    let _replay = sim::Replay::new(scenario, seed);
    sim::run(scenario, seed, false)
        .unwrap_or_else(|failure| panic!("{} failed with seed {seed}: {failure}", scenario.title()))
}

/// Runs the scenarios of a family.
fn hold(scenarios: Vec<Scenario>) {
    for scenario in &scenarios {
        for seed in 0..seeds() {
            assert!(run(scenario, seed).frames != 0, "nothing was sent");
        }
    }
}

/// A part of the matrix: some scenarios of each variant, others in each part.
fn part_of_matrix(part: u64) -> Vec<Scenario> {
    let rows = matrix::variants().into_iter().enumerate();
    let chosen = rows.flat_map(|(line, settings)| {
        let row = matrix::row(&settings).into_iter().enumerate();
        row.filter(move |(column, _)| (line as u64 + *column as u64) % PARTS == part % PARTS)
    });
    chosen.map(|(_, scenario)| scenario).collect()
}

fn with(name: &str, settings: &[&str]) -> Scenario {
    let settings = Settings::parse(settings.iter().copied()).expect("they are settings");
    let mut all = scenario::all().into_iter();
    let scenario = all.find(|scenario| scenario.name == name);
    scenario
        .expect("there is such a scenario")
        .with_settings(settings)
}

#[test]
fn whatever_the_cable_does_every_byte_arrives_once() {
    hold(scenario::links());
}

#[test]
fn windows_and_packets_may_have_any_size() {
    hold(scenario::sizes());
}

#[test]
fn hosts_may_offer_what_they_like() {
    hold(scenario::options());
}

#[test]
fn any_loop_may_copy_and_sum() {
    hold(scenario::kernels());
}

#[test]
fn what_runs_short_comes_back() {
    hold(scenario::resources());
}

/// A part of the matrix for each seed.
#[test]
fn mechanisms_run_every_scenario_in_turn() {
    for seed in 0..seeds() {
        for scenario in part_of_matrix(seed) {
            assert!(run(&scenario, seed).frames != 0, "nothing was sent");
        }
    }
}

#[test]
fn parts_are_the_matrix_of_every_value_and_every_scenario() {
    let parts: Vec<HashSet<String>> = (0..PARTS)
        .map(part_of_matrix)
        .map(|part| part.iter().map(Scenario::title).collect())
        .collect();
    let all: HashSet<String> = parts.iter().flatten().cloned().collect();
    assert_eq!(all.len(), parts.iter().map(HashSet::len).sum::<usize>());
    let families = [
        scenario::links(),
        scenario::sizes(),
        scenario::options(),
        scenario::resources(),
    ];
    for (name, value) in Mechanisms::SWITCHES
        .iter()
        .filter(|switch| switch.name != Segmentation::NAME)
        .flat_map(|switch| switch.values.iter().map(|value| (switch.name, *value)))
    {
        for scenario in families.iter().flatten() {
            let runs = all.contains(&format!("{} with {name}={value}", scenario.name));
            // What hosts have by themselves runs with every scenario, too.
            let own = Mechanisms::HOST.settings().any(|own| own == (name, value));
            assert!(runs || own, "{} with {name}={value}", scenario.name);
        }
    }
}

#[test]
fn settings_are_those_of_both_hosts_whatever_the_scenario_has_by_itself() {
    let nagle = |settings: &[&str], host| {
        let mut config = Config::new(
            MacAddr([2, 0, 0, 0, 0, 1]),
            [10, 0, 0, 1].into(),
            24,
            [0; 4],
        );
        with("no-delay", settings).configure(&mut config, host);
        config.mechanisms.nagle
    };
    for host in [0, 1] {
        assert_eq!(nagle(&[], host), Nagle::Off);
        assert_eq!(nagle(&["nagle=on"], host), Nagle::On);
    }
}

#[test]
fn a_seed_runs_the_same_way_each_time() {
    let scenario = with("everything", &[]);
    let runs = [0, 1].map(|_| run(&scenario, 3));
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], run(&scenario, 4));
}

#[test]
fn the_scenarios_do_what_their_names_say() {
    let lossy = with("loss-20", &[]);
    let runs: Vec<_> = (0..4).map(|seed| run(&lossy, seed)).collect();
    let hurt = runs.iter().map(|run| run.hurt).sum::<u64>();
    let sent = runs.iter().map(|run| run.frames).sum::<u64>();
    assert!(hurt * 10 > sent, "{hurt} of {sent} frames were lost");
    let clean = run(&with("clean", &[]), 0);
    assert_eq!((clean.hurt, clean.retransmits), (0, 0));
    assert!(clean.predicted > 0);
}

/// Sums of a count over a few seeds of a scenario with a setting.
fn count(scenario: &Scenario, of: impl Fn(&Summary) -> u64) -> u64 {
    (0..6).map(|seed| of(&run(scenario, seed))).sum()
}

#[test]
fn prediction_that_is_off_predicts_nothing() {
    let predicted = |setting| count(&with("clean", &[setting]), |run| run.predicted);
    assert_eq!(predicted("prediction=off"), 0);
    assert!(predicted("prediction=unidirectional") > 0);
}

#[test]
fn applications_receive_as_the_mechanism_says() {
    for name in ["lossy", "small-pool"] {
        let posted = |settings: &[&str]| count(&with(name, settings), |run| run.posted_reads);
        let queued = |settings: &[&str]| count(&with(name, settings), |run| run.queued_reads);
        assert_eq!(posted(&["receive=queued"]), 0);
        assert!(queued(&["receive=queued"]) > 0);
        assert!(posted(&["receive=posted"]) > posted(&[]));
        assert!(posted(&[]) > 0 && queued(&[]) > 0);
    }
}

#[test]
fn applications_transmit_as_the_mechanism_says() {
    let writes = |settings: &[&str]| {
        let scenario = with("lossy", settings);
        [0, 1].map(|way| count(&scenario, |run| run.writes[way]))
    };
    let [copies, zero_copies] = writes(&["transmit=copy"]);
    assert!(copies > 0 && zero_copies == 0);
    let [copies, zero_copies] = writes(&["transmit=zero-copy"]);
    assert!(copies == 0 && zero_copies > 0);
    assert!(writes(&[]).iter().all(|&writes| writes > 0));
}

#[test]
fn link_completes_checksums_as_the_mechanism_says() {
    let completed = |settings: &[&str]| {
        let scenario = with("corruption", settings);
        (0..8)
            .map(|seed| run(&scenario, seed).completed)
            .filter(|&completed| completed > 0)
            .count()
    };
    assert_eq!(completed(&["checksum-offload=on"]), 8);
    assert_eq!(completed(&["checksum-offload=off"]), 0);
    assert!((1..8).contains(&completed(&[])));
}

#[test]
fn checksums_are_left_out_where_the_mechanism_says_so_and_the_crc_finds_damage() {
    let unverified = |settings: &[&str]| {
        let scenario = with("corruption", settings);
        count(&scenario, |run| run.unverified)
    };
    assert_eq!(unverified(&[]), 0);
    assert!(unverified(&["checksum=redundancy-avoidance"]) > 0);
    let both = [
        "checksum=redundancy-avoidance",
        "lan-evidence=spanning-tree",
    ];
    assert!(unverified(&both) > 0);
    let hurt = |settings: &[&str]| count(&with("corruption", settings), |run| run.hurt);
    assert!(hurt(&["checksum=redundancy-avoidance"]) > 0);
}

#[test]
fn narrow_line_marks_what_connections_with_ecn_send() {
    let marked = |setting| count(&with("narrow-line", &[setting]), |run| run.marked);
    assert_eq!(marked("ecn=off"), 0);
    assert!(marked("ecn=classic") > 0);
    assert!(marked("ecn=accurate") > 0);
}
