//! Tests of what is computed from a run, as the terminal shows it: predictions, and the papers beside the run.

mod sample;

use tollgate_analysis::papers::{Extent, beside};
use tollgate_experiment::predict;
use tollgate_report::terminal::{Detail, render};
use tollgate_run::Run;

fn with(part: tollgate_run::Experiment) -> Run {
    let run = Run {
        experiments: vec![part],
        ..sample::run()
    };
    run.check().unwrap();
    run
}

#[test]
fn predictions_at_120_columns() {
    let options = predict::Options {
        from: "run.json".to_owned(),
        sizes: None,
        line_rate: predict::LINE_RATE,
        memory: Some(20e9),
    };
    let part = predict::predict(&sample::run(), &options, None).unwrap();
    insta::assert_snapshot!(render(&with(part), Detail::Whole, 120, false));
}

#[test]
fn then_and_now_at_120_columns() {
    let part = beside(&sample::run(), Extent::Whole);
    insta::assert_snapshot!(render(&with(part), Detail::Whole, 120, false));
}

#[test]
fn the_papers_page_at_120_columns() {
    let part = beside(&sample::run(), Extent::Page);
    insta::assert_snapshot!(render(&with(part), Detail::Whole, 120, false));
}
