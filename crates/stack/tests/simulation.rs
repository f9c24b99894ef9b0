//! Every scenario of the simulation, a few seeds each; `TOLLGATE_SIM_SEEDS` says how many.
//!
//! A failure prints the command that runs its seed again.

mod sim;

use sim::{Scenario, scenario};

/// Runs the scenarios of a family.
fn hold(scenarios: Vec<Scenario>) {
    let seeds = match std::env::var("TOLLGATE_SIM_SEEDS") {
        Ok(text) => text.parse().expect("TOLLGATE_SIM_SEEDS is a number"),
        // `make test` makes 20 of each besides, in optimised code.
        Err(_) => 2,
    };
    for scenario in &scenarios {
        for seed in 0..seeds {
            let _replay = sim::Replay::new(&scenario.name, seed);
            match sim::run(scenario, seed, false) {
                Ok(summary) => assert!(summary.frames != 0, "nothing was sent"),
                Err(failure) => panic!("{} failed with seed {seed}: {failure}", scenario.name),
            }
        }
    }
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
fn every_mechanism_may_be_switched() {
    hold(scenario::mechanisms());
}

#[test]
fn what_runs_short_comes_back() {
    hold(scenario::resources());
}

#[test]
fn a_seed_runs_the_same_way_each_time() {
    let scenario = scenario::by_name("everything").expect("there is such a scenario");
    let runs = [0, 1].map(|_| sim::run(&scenario, 3, false).expect("the seed holds"));
    assert_eq!(runs[0], runs[1]);
    assert_ne!(
        runs[0],
        sim::run(&scenario, 4, false).expect("the seed holds")
    );
}

#[test]
fn the_scenarios_do_what_their_names_say() {
    let run = |name: &str, seed| {
        let scenario = scenario::by_name(name).expect("there is such a scenario");
        sim::run(&scenario, seed, false).expect("the seed holds")
    };
    let hurt = (0..4).map(|seed| run("loss-20", seed).hurt).sum::<u64>();
    let sent = (0..4).map(|seed| run("loss-20", seed).frames).sum::<u64>();
    assert!(hurt * 10 > sent, "{hurt} of {sent} frames were lost");
    assert_eq!(run("clean", 0).hurt, 0);
    assert_eq!(run("clean", 0).retransmits, 0);
    assert_eq!(run("prediction-off", 0).predicted, 0);
    assert!(run("clean", 0).predicted > 0);
}
