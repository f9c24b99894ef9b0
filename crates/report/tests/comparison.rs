//! The text of a comparison, whole, for the sample run and one that differs from it in known ways.

mod sample;

use std::collections::BTreeSet;

use tollgate_analysis::comparison::{Options, compare};
use tollgate_report::terminal::{Detail, render_comparison};
use tollgate_run::{Cell, Cores, Reading, Run};

/// The sample with the kernel half slower and the stack in memory a third quicker, a newer kernel, processors that lie further apart, and
/// without its last experiment.
fn changed() -> Run {
    let mut run = sample::run();
    for row in &mut run.experiments[0].tables[0].rows {
        let factor = match row.label.as_str() {
            "kernel-loopback" => 1.5,
            "stack-memory" => 0.67,
            _ => 1.0,
        };
        for cell in &mut row.cells {
            if let Cell::Value(measured) = cell {
                measured.value *= factor;
                if let Some(ci) = &mut measured.ci {
                    ci.low *= factor;
                    ci.high *= factor;
                }
            }
        }
    }
    for control in &mut run.controls {
        if control.cores == Cores::Two {
            control.median_ns *= 1.2;
            control.low_ns *= 1.2;
            control.high_ns *= 1.2;
        }
    }
    run.host.kernel = Reading::Value {
        value: "6.19.0".into(),
    };
    run.experiments.pop();
    run
}

#[test]
fn a_comparison_at_100_columns() {
    let comparison = compare(&[&sample::run()], &[&changed()], &Options::default()).unwrap();
    assert!(comparison.has_regressions());
    insta::assert_snapshot!(render_comparison(&comparison, Detail::Tables, 100, false));
}

#[test]
fn comparison_is_no_wider_than_the_terminal_and_loses_no_number() {
    let comparison = compare(&[&sample::run()], &[&changed()], &Options::default()).unwrap();
    let shown = |width| render_comparison(&comparison, Detail::Whole, width, false);
    let numbers = |text: &str| {
        let words = text
            .split_whitespace()
            .map(|word| word.trim_end_matches([',', ';', '.']));
        let numbers = words.filter(|word| word.contains(char::is_numeric));
        numbers.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let all = numbers(&shown(200));
    for width in [60, 80, 100] {
        let text = shown(width);
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
        let lost: Vec<_> = all.difference(&numbers(&text)).cloned().collect();
        assert!(lost.is_empty(), "{width}: {lost:?}\n{text}");
    }
}

#[test]
fn a_run_and_itself() {
    let comparison = compare(&[&sample::run()], &[&sample::run()], &Options::default()).unwrap();
    assert!(!comparison.has_regressions());
    let text = render_comparison(&comparison, Detail::Tables, 100, false);
    assert!(text.starts_with("None of"), "{text}");
    assert!(text.contains("The machines are described alike"), "{text}");
}

#[test]
fn long_lists_of_what_one_side_lacks_are_counted() {
    let before = sample::run();
    let mut after = sample::run();
    let table = after.experiments[0].tables[0].clone();
    for at in 0..20 {
        let mut more = table.clone();
        more.id = format!("more-{at}");
        after.experiments[0].tables.push(more);
    }
    let comparison = compare(&[&before], &[&after], &Options::default()).unwrap();
    let lines = |detail| {
        let text = render_comparison(&comparison, detail, 100, false);
        let (_, only) = text.split_once("Only in the run after").unwrap();
        let (only, _) = only.split_once("\n\n").unwrap();
        (only.lines().count(), only.contains("--verbose lists them"))
    };
    assert_eq!(lines(Detail::Tables), (2, true));
    let (all, folded) = lines(Detail::Whole);
    assert!(all > 20 && !folded, "{all}");
}
