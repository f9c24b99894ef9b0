//! Counts repeat to the instruction, and what stands between two gates is counted, no more and no less.

use std::path::Path;
use tollgate_budget::Error;
use tollgate_budget::valgrind::Program;

fn program() -> Program {
    Program::new(
        Path::new(env!("CARGO_BIN_EXE_tollgate-budget")),
        ["scenario"],
    )
}

/// Tells whether Valgrind is here; if not, says that the test was left out.
fn valgrind_is_here() -> bool {
    let here = std::process::Command::new("valgrind")
        .arg("--version")
        .output()
        .is_ok();
    if !here {
        tollgate_skip::skipped!("valgrind is not on the PATH");
    }
    here
}

#[test]
fn a_count_repeats_to_the_instruction() {
    if !valgrind_is_here() {
        return;
    }
    let first = program().count("rr-64", 50).unwrap();
    let second = program().count("rr-64", 50).unwrap();
    assert_eq!(first, second);
    assert_eq!(first.done.operations, 50);
    assert!(first.collected > 50 * 100, "{first:?}");
}

#[cfg(feature = "bench")]
#[test]
fn mechanism_counts_repeat_to_the_instruction_and_hardly_depend_on_other_sizes() {
    use tollgate_budget::mechanisms::count;
    use tollgate_run::Workload::{Rr, Stream};
    if !valgrind_is_here() {
        return;
    }
    let [first, _] = [Rr, Stream].map(|workload| {
        let [first, second] =
            [(); 2].map(|()| count(&program(), workload, &[4, 3_000], 8).unwrap());
        assert_eq!(first, second);
        first
    });
    let other = count(&program(), Rr, &[3_000, 4], 8).unwrap();
    // Memory lies elsewhere then, and a load that crosses a page takes another way.
    let is_near = |one: &[f64], other: &[f64]| {
        let pairs = one.iter().zip(other.iter().rev());
        pairs.for_each(|(one, other)| assert!((one - other).abs() < 1e-3 * one, "{one} {other}"));
    };
    is_near(&first.defaults, &other.defaults);
    for (one, other) in first.switched.iter().zip(&other.switched) {
        is_near(&one.instructions, &other.instructions);
    }
    let off = |name: &str| {
        let mut all = first.switched.iter();
        let found = all.find(|one| one.name == name && one.value == "off");
        found.unwrap().instructions[0]
    };
    assert!(off("prediction") > first.defaults[0]);
    assert!(off("checksum") < first.defaults[0]);
}

#[test]
fn a_hundred_instructions_between_gates_are_counted_as_a_hundred() {
    if !valgrind_is_here() {
        return;
    }
    let pair = program().pair_cost().unwrap();
    let ruler = program().count("ruler", 10).unwrap();
    assert_eq!(ruler.per_operation(pair), 100.0);
}

#[test]
fn a_profile_adds_up_to_the_count() {
    if !valgrind_is_here() {
        return;
    }
    let counted = program().count("rr-64", 20).unwrap();
    let (done, profile) = program().profile("rr-64", 20).unwrap();
    assert_eq!(done, counted.done);
    assert_eq!(profile.total(), counted.collected);
    // Without optimisation most of it is small functions of the standard library, called and not inlined.
    assert!(profile.within(|name| name.contains("tollgate_stack::")) > profile.total() / 10);
}

#[test]
fn what_the_program_says_is_passed_on() {
    if !valgrind_is_here() {
        return;
    }
    let error = program().count("no-such-scenario", 1).unwrap_err();
    assert!(matches!(error, Error::Failed { .. }));
    assert!(
        error
            .to_string()
            .contains("unknown scenario `no-such-scenario`; known: empty, "),
        "{error}"
    );
}

#[test]
fn every_scenario_goes_as_it_must() {
    for scenario in tollgate_budget::scenario::SCENARIOS {
        // Those with a hundred thousand connections take long without optimisation.
        if ["rr-64-among-100k", "open-last", "idle-100k"].contains(&scenario.name) {
            continue;
        }
        let done = tollgate_budget::run_scenario(scenario.name, 40).unwrap();
        assert!(done.operations >= 40, "{}: {done:?}", scenario.name);
    }
}

#[test]
fn a_count_is_stopped_with_its_caller() {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    if !valgrind_is_here() {
        return;
    }
    let stopped = program().stopped_by(Arc::new(AtomicBool::new(true)));
    let error = stopped.count("rr-64", 50).unwrap_err();
    assert!(matches!(error, Error::Stopped { .. }), "{error}");
}

#[test]
fn a_count_is_stopped_at_its_deadline() {
    if !valgrind_is_here() {
        return;
    }
    let late = program().until(Some(std::time::Instant::now()));
    let error = late.count("rr-64", 50).unwrap_err();
    assert!(matches!(error, Error::Late { .. }), "{error}");
}
