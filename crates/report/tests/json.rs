//! The run as JSON: its exact text, the way back, and what is refused.

mod sample;

use proptest::prelude::*;
use serde_json::Value;
use tollgate_report::json::{ReadError, RenderError, SaveError, parse, read, render, write};
use tollgate_run::{Cell, Run, VERSION};

#[test]
fn the_sample_as_json() {
    // One experiment of each shape keeps the snapshot readable.
    let mut run = sample::run();
    run.experiments.retain(|experiment| {
        ["breakdown-200", "clark-instructions"].contains(&experiment.name.as_str())
    });
    insta::assert_snapshot!(render(&run).unwrap());
}

#[test]
fn the_whole_sample_comes_back_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    write(&sample::run(), &path).unwrap();
    assert!(read(&path).unwrap() == sample::run());
}

fn altered(alter: impl FnOnce(&mut Value)) -> String {
    let mut value = serde_json::to_value(sample::run()).unwrap();
    alter(&mut value);
    value.to_string()
}

#[test]
fn a_newer_version_is_refused_with_advice_even_when_its_fields_are_unknown() {
    let text = altered(|run| {
        run["version"] = Value::from(VERSION + 1);
        run["host"] = Value::from("another shape");
    });
    let error = parse(&text).unwrap_err();
    assert!(matches!(error, ReadError::Newer { found } if found == u64::from(VERSION) + 1));
    let words = error.to_string();
    assert!(
        words.contains("version 3") && words.contains("newer tollgate"),
        "{words}"
    );
}

#[test]
fn what_is_not_a_run_is_told_apart_from_a_damaged_one() {
    for text in [
        "",
        "{}",
        "[1]",
        "null",
        "{\"schema\":\"other\",\"version\":1}",
        "{\"schema\":\"tollgate.run\",\"version\":0}",
    ] {
        assert!(
            matches!(parse(text), Err(ReadError::NotARun { .. })),
            "{text}"
        );
    }
    let damaged = altered(|run| run["elapsed_s"] = Value::from("long"));
    assert!(matches!(parse(&damaged), Err(ReadError::Damaged(_))));
    let short = altered(|run| {
        run["experiments"][0]["tables"][0]["rows"][0]["cells"]
            .as_array_mut()
            .unwrap()
            .pop();
    });
    assert!(matches!(parse(&short), Err(ReadError::Contradiction(_))));
}

#[test]
fn a_number_that_is_not_finite_is_named_and_no_file_is_made() {
    let mut run = sample::run();
    run.experiments[0].tables[0].rows[1].cells[2] = Cell::exact(f64::NAN);
    let error = render(&run).unwrap_err();
    let RenderError::NotFinite { place } = &error else {
        panic!("{error}")
    };
    assert_eq!(place, "experiments[0].tables[0].rows[1].cells[2].value");
    let folder = tempfile::tempdir().unwrap();
    let result = write(&run, &folder.path().join("run.json"));
    assert!(matches!(result, Err(SaveError::Render(_))));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Written again, as a store does, it is of the version whose names its fields have.
#[test]
fn runs_of_version_1_are_read_as_runs_of_today() {
    let mut run = sample::run();
    run.controls.push(tollgate_run::Control {
        experiment: "crr".to_owned(),
        cores: tollgate_run::Cores::One,
        path: "peer-smoltcp".to_owned(),
        median_ns: 277.0,
        low_ns: 275.0,
        high_ns: 279.0,
        mean: None,
        n: 92,
    });
    let text = render(&run).unwrap();
    assert!(text.contains("\"controls\""));
    let old = text
        .replace("\"controls\"", "\"yardsticks\"")
        .replace("\"version\": 2", "\"version\": 1");
    assert!(parse(&old).unwrap() == run);
}

#[test]
fn modes_of_older_runs_have_the_words_of_today() {
    let mut run = sample::run();
    let label = &mut run.experiments[0].tables[0].rows[0].label;
    *label = "kernel-loopback, 2 cores, polling".to_owned();
    let old = render(&run).unwrap().replace(
        "kernel-loopback, 2 cores, polling",
        "kernel-loopback two-cores busy-poll",
    );
    assert!(old.contains("busy-poll") && parse(&old).unwrap() == run);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = read("no/such/run.json".as_ref()).unwrap_err().to_string();
    assert!(
        error.contains("no/such/run.json") && error.contains("--json"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_finite_number_comes_back_exactly(number in any::<f64>().prop_filter("finite", |n| n.is_finite())) {
        let run = Run { elapsed_s: number, experiments: vec![], ..sample::run() };
        prop_assert_eq!(parse(&render(&run).unwrap()).unwrap().elapsed_s.to_bits(), number.to_bits());
    }

    #[test]
    fn cut_text_is_refused_and_never_panics(cut in 0.0_f64..0.999) {
        let run = Run { experiments: vec![], ..sample::run() };
        let text = render(&run).unwrap();
        let end = (text.trim_end().len() as f64 * cut) as usize;
        let whole = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= end).last().unwrap_or(0);
        prop_assert!(parse(&text[..whole]).is_err());
    }
}
