//! The terminal's text, whole, for the sample run at two widths; and what must hold at every width.

mod sample;
mod whole;

use std::time::UNIX_EPOCH;

use tollgate_report::terminal::{Detail, Rest, render_screen};
use tollgate_run::{Cell, Experiment, Figure, Interval, Run, Timestamp, fixture};

/// The whole of a run.
fn render(run: &Run, width: usize, colour: bool) -> String {
    tollgate_report::terminal::render(run, Detail::Whole, width, colour)
}

const REST: Rest<'_> = Rest {
    html: Some("tollgate-report.html"),
    json: Some("tollgate-report.json"),
};

#[test]
fn screen_of_a_report_at_100_columns() {
    let text = render_screen(&fixture::report(), &REST, 100, false);
    assert!(text.lines().count() <= 60, "{}", text.lines().count());
    insta::assert_snapshot!(text);
}

#[test]
fn screen_of_a_report_at_60_columns() {
    let text = render_screen(&fixture::report(), &REST, 60, false);
    assert!(text.lines().count() <= 60, "{}", text.lines().count());
    insta::assert_snapshot!(text);
}

/// A run of a restless machine, with two warnings.
#[test]
fn screen_of_a_whole_report_has_60_lines_with_all_findings() {
    let run = whole::whole();
    assert!(run.warnings.len() >= 2 && run.experiments.len() >= 20);
    for width in [60, 72, 80, 100, 200] {
        let text = render_screen(&run, &REST, width, false);
        let lines = text.lines().count();
        assert!(lines <= 60, "{width}: {lines}");
        assert!(text.contains("\n6 "), "{width}: {text}");
    }
}

#[test]
fn findings_that_find_no_room_are_counted() {
    let mut run = whole::whole();
    let long = "the machine did what nobody expects of a machine that has nothing else to do";
    run.warnings = vec![long.to_owned(); 6];
    let text = render_screen(&run, &REST, 60, false);
    assert!(text.lines().count() <= 60, "{text}");
    assert!(
        !text.contains("\n6 ") && text.contains("more, in the files below"),
        "{text}"
    );
}

/// A whole report has 21 experiments.
#[test]
fn screen_of_many_experiments_has_60_lines() {
    let mut run = fixture::report();
    let one = run.experiments[0].clone();
    for at in 0..16 {
        run.experiments.push(Experiment {
            name: format!("one-experiment-{at}"),
            ..one.clone()
        });
    }
    for width in [60, 72, 80, 100, 200] {
        let lines = render_screen(&run, &REST, width, false).lines().count();
        assert!(lines <= 60, "{width}: {lines}");
    }
}

#[test]
fn screen_is_no_wider_than_the_terminal() {
    for width in [60, 72, 80, 100, 200] {
        for line in render_screen(&fixture::report(), &REST, width, false).lines() {
            assert!(line.chars().count() <= width, "{width}: {line:?}");
        }
    }
}

#[test]
fn round_trips_without_a_ledger_fit_a_narrow_terminal() {
    let mut run = fixture::report();
    let rr = run
        .experiments
        .iter_mut()
        .find(|one| one.name == "rr-by-size")
        .unwrap();
    for cell in rr.tables[0].rows.iter_mut().flat_map(|row| &mut row.cells) {
        if let Cell::Value(measured) = cell {
            measured.ci = Some(Interval {
                low: 0.4 * measured.value,
                high: 1.1 * measured.value,
            });
        }
    }
    let text = render_screen(&run, &REST, 60, false);
    assert!(
        text.contains("(no ledger)") && text.contains(" to "),
        "{text}"
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 60, "{line:?}");
    }
}

#[test]
fn bars_with_long_labels_fit_a_narrow_terminal() {
    let mut run = sample::run();
    let figures = run.experiments.iter_mut().flat_map(|one| &mut one.figures);
    for figure in figures {
        if let Figure::StackedBars { bars, .. } = figure {
            for (bar, mode) in bars.iter_mut().zip(["blocking", "polling", "other"]) {
                bar.label = format!("1,400 B, kernel-loopback, 2 cores, {mode}");
            }
        }
    }
    let text = render(&run, 60, false);
    assert!(
        text.contains("1,400 B, kernel-loopback, 2 cores, polling"),
        "{text}"
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 60, "{line:?}");
    }
}

#[test]
fn brief_experiments_have_one_table_and_one_line_of_trust() {
    let mut run = sample::run();
    run.experiments.truncate(1);
    let brief = tollgate_report::terminal::render(&run, Detail::Brief, 100, false);
    let tables = &run.experiments[0].tables;
    assert!(brief.contains(&tables[0].title));
    for other in &tables[1..] {
        assert!(!brief.contains(&other.title) && brief.contains(&other.id));
    }
}

#[test]
fn the_sample_at_120_columns() {
    insta::assert_snapshot!(render(&sample::run(), 120, false));
}

#[test]
fn the_sample_at_80_columns() {
    insta::assert_snapshot!(render(&sample::run(), 80, false));
}

/// Removes ANSI colours.
fn without_colour(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once('m').map_or(part, |(_, rest)| rest)
    })
}

#[test]
fn colours_change_nothing_but_the_colour() {
    let coloured = render(&sample::run(), 100, true);
    let trimmed = |text: &str| {
        text.lines()
            .map(str::trim_end)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert!(coloured.contains("\x1b[1m"));
    assert_eq!(
        trimmed(&without_colour(&coloured)),
        trimmed(&render(&sample::run(), 100, false))
    );
    assert!(!render(&sample::run(), 100, false).contains('\x1b'));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [60, 80, 97, 120, 200] {
        for line in render(&sample::run(), width, false).lines() {
            assert!(line.chars().count() <= width, "{width}: {line:?}");
        }
    }
}

#[test]
fn other_widths_are_brought_into_range() {
    let run = sample::run();
    assert_eq!(render(&run, 0, false), render(&run, 60, false));
    assert_eq!(render(&run, usize::MAX, false), render(&run, 200, false));
}

#[test]
fn the_finding_comes_before_the_tables() {
    let text = render(&sample::run(), 200, false);
    for experiment in sample::run().experiments {
        let place = |part: &str| {
            text.find(part)
                .unwrap_or_else(|| panic!("{part:?} is missing"))
        };
        for table in &experiment.tables {
            assert!(place(&experiment.finding) < place(&table.title));
        }
    }
}

#[test]
fn nothing_but_the_head_comes_of_an_empty_run() {
    let run = Run {
        experiments: vec![],
        warnings: vec![],
        ..sample::run()
    };
    assert!(render(&run, 80, false).starts_with("Tollgate 0.1.0 · Linux 6.18.44"));
}

#[test]
fn names_cannot_move_the_cursor() {
    let mut run = sample::run();
    run.started = Timestamp::from(UNIX_EPOCH);
    run.experiments[0].tables[0].rows[0].label = "evil\x1b[2J\r".into();
    run.experiments[0].tables[0].rows[0].cells[0] = Cell::text("\x07\n");
    run.experiments[3].title = "\x1b]0;title\x07".into();
    let text = render(&run, 120, false);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
}
