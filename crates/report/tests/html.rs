//! The HTML file: well-formed, self-contained, complete, escaped.

mod sample;

use proptest::prelude::*;
use tollgate_report::html::render;
use tollgate_run::{Cell, Figure, Interval, Point, Reading, Run, Table, fixture};

/// Elements that have no end tag.
const VOID: [&str; 3] = ["meta", "link", "br"];

/// Walks the tags of a document and returns the number of elements, or says what is wrong.
fn check_tags(html: &str) -> Result<usize, String> {
    let mut rest = html.strip_prefix("<!DOCTYPE html>").ok_or("no doctype")?;
    let mut open: Vec<String> = Vec::new();
    let mut count = 0;
    while let Some(start) = rest.find('<') {
        let (text, tag) = rest.split_at(start);
        if text.contains('>') && open.last().is_none_or(|name| name != "style") {
            return Err(format!("a bare > in {text:?}"));
        }
        let end = tag
            .find('>')
            .ok_or_else(|| format!("no end of the tag in {tag:.60}"))?;
        let inside = &tag[1..end];
        rest = &tag[end + 1..];
        if let Some(name) = inside.strip_prefix('/') {
            match open.pop() {
                Some(expected) if expected == name => {}
                other => return Err(format!("</{name}> closes {other:?}")),
            }
            continue;
        }
        count += 1;
        if inside.matches('"').count() % 2 != 0 {
            return Err(format!("an open attribute in <{inside}>"));
        }
        let name: String = inside
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric())
            .collect();
        if name.is_empty() {
            return Err(format!("no name in <{inside}>"));
        }
        if !inside.ends_with('/') && !VOID.contains(&name.as_str()) {
            open.push(name);
        }
    }
    if open.is_empty() {
        Ok(count)
    } else {
        Err(format!("left open: {open:?}"))
    }
}

/// The values of an attribute.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let key = format!(" {name}=\"");
    html.split(&key)
        .skip(1)
        .filter_map(|rest| Some(rest.split_once('"')?.0))
        .collect()
}

#[test]
fn the_tag_checker_finds_faults() {
    assert_eq!(check_tags("<!DOCTYPE html><p><b>x</b></p>"), Ok(2));
    for faulty in [
        "<p><b></p></b>",
        "<p>",
        "<p x=\"></p>",
        "a > b<p></p>",
        "<></p>",
    ] {
        assert!(
            check_tags(&format!("<!DOCTYPE html>{faulty}")).is_err(),
            "{faulty}"
        );
    }
}

#[test]
fn tags_are_balanced() {
    assert!(check_tags(&render(&sample::run())).unwrap() > 1_000);
}

#[test]
fn nothing_is_fetched() {
    let html = render(&sample::run());
    for address in [
        "http://",
        "https://",
        "src=",
        "@import",
        "url(//",
        "<script",
        "@font-face",
    ] {
        assert!(!html.contains(address), "{address}");
    }
    assert!(
        attributes(&html, "href")
            .iter()
            .all(|href| href.starts_with('#') || *href == "data:,")
    );
}

#[test]
fn ids_are_unique_and_links_lead_to_them() {
    check_links(&render(&sample::run()));
}

/// A browser opens what holds the target of a link, and not the target itself.
#[test]
fn links_lead_into_what_is_folded() {
    let html = render(&fixture::report());
    let folded: Vec<&str> = html
        .split("<details")
        .skip(1)
        .filter_map(|part| attributes(part.split('>').next()?, "id").first().copied())
        .collect();
    let links = attributes(&html, "href");
    assert!(links.contains(&"#belief"), "{links:?}");
    for link in links {
        assert!(!folded.contains(&link.trim_start_matches('#')), "{link}");
    }
}

/// A figure that is taken apart into a panel for each path, the first of which has nothing to draw.
#[test]
fn panels_beside_an_empty_one_have_their_background() {
    let mut run = sample::run();
    let Figure::Lines { x, series, .. } = &mut run.experiments[0].figures[0] else {
        panic!("the sample begins with lines");
    };
    let line = series[0].clone();
    *series = (0..9)
        .map(|number| tollgate_run::Series {
            label: format!("path-{}, mode {}", number / 3, number % 3),
            ..line.clone()
        })
        .collect();
    x.scale = tollgate_run::Scale::Log;
    for line in &mut series[..3] {
        for point in &mut line.points {
            point.x = 0.0;
        }
    }
    let html = render(&run);
    assert_eq!(html.matches("class=\"background\"").count(), 1);
    check_links(&html);
}

/// Panics where an id is there twice, or a link leads nowhere.
fn check_links(html: &str) {
    let mut ids = attributes(html, "id");
    for href in attributes(html, "href")
        .iter()
        .filter_map(|href| href.strip_prefix('#'))
    {
        assert!(ids.contains(&href), "{href}");
    }
    for class in html.split("url(#").skip(1) {
        let id = class.split_once(')').unwrap().0;
        assert!(ids.contains(&id), "{id}");
    }
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[test]
fn every_part_of_the_run_is_there() {
    let html = render(&sample::run());
    let run = sample::run();
    let figures = html.matches("<figure ").count();
    assert!(figures > 0);
    assert_eq!(html.matches("</figcaption>").count(), figures);
    // Each drawing has words for those who cannot see it.
    let drawings = html.matches("<svg class=\"chart").count();
    assert!(drawings >= figures);
    assert_eq!(html.matches("role=\"img\" aria-label=\"").count(), drawings);
    for experiment in &run.experiments {
        assert!(html.contains(&experiment.title), "{}", experiment.title);
        assert!(html.contains(&experiment.command), "{}", experiment.command);
        for line in &experiment.trust {
            assert!(html.contains(line.text.split(' ').next().unwrap()));
        }
        for table in &experiment.tables {
            assert!(html.contains(&table.title.replace('"', "&quot;")));
        }
    }
    for warning in &run.warnings {
        assert!(html.contains(warning));
    }
    // The dashed line of published numbers, the hatched spans, the residual's frame.
    for part in [
        "class=\"series line-4 published\"",
        "url(#wait-scheduler)",
        "class=\"residual\"",
    ] {
        assert!(html.contains(part), "{part}");
    }
}

#[test]
fn percentiles_are_on_hovering_in_first_tables_only() {
    let mut run = sample::run();
    let with = |tables: &[Table]| {
        let rows = tables.iter().flat_map(|table| &table.rows);
        let cells = rows.flat_map(|row| &row.cells);
        let measured = cells.filter_map(|cell| cell.measured());
        measured.filter(|one| one.p99.is_some()).count()
    };
    let first: usize = run
        .experiments
        .iter()
        .map(|one| with(&one.tables[..one.tables.len().min(1)]))
        .sum();
    for experiment in &mut run.experiments {
        let again = experiment.tables.first().cloned().map(|table| Table {
            id: format!("{}-again", table.id),
            ..table
        });
        experiment.tables.extend(again);
    }
    assert!(first > 0);
    assert_eq!(render(&run).matches("<td title=\"").count(), first);
}

#[test]
fn queues_of_the_first_figure_have_the_hatching_of_their_layers() {
    let html = render(&fixture::report());
    let figure = &html[html.find("class=\"chart anatomy\"").unwrap()..];
    let figure = &figure[..figure.find("</svg>").unwrap()];
    for (span, layer) in [("device.queue", "device"), ("ip.queue", "link")] {
        let hatching = format!("fill=\"url(#wait-{layer})\"");
        let own: Vec<&str> = figure
            .split("<rect")
            .filter(|rect| rect.contains(&format!("({span})</title>")))
            .collect();
        assert!(!own.is_empty(), "{span}");
        assert!(
            own.iter().all(|rect| rect.contains(&hatching)),
            "{span}: {own:?}"
        );
    }
}

#[test]
fn remarks_stand_once_on_the_page() {
    let mut run = fixture::report();
    let mut line = run.experiments[0].trust[0].clone();
    line.text = "a remark of its own".to_owned();
    for experiment in &mut run.experiments {
        experiment.trust.push(line.clone());
    }
    assert_eq!(render(&run).matches("a remark of its own").count(), 1);
}

#[test]
fn headings_of_tables_have_a_scope() {
    let html = render(&sample::run());
    assert_eq!(
        html.matches("<th").count() - html.matches("<thead").count(),
        html.matches("<th scope=\"").count()
    );
}

/// A run whose every visible text is `text`.
fn run_that_says(text: &str) -> Run {
    let mut run = sample::run();
    run.command = text.into();
    run.warnings = vec![text.into()];
    run.tool.name = text.into();
    run.host.kernel = Reading::Value { value: text.into() };
    run.host.cpu_model = Reading::NotAvailable {
        reason: text.into(),
    };
    run.clock.source = text.into();
    for experiment in &mut run.experiments {
        for field in [
            &mut experiment.title,
            &mut experiment.finding,
            &mut experiment.command,
        ] {
            *field = text.into();
        }
        for table in &mut experiment.tables {
            table.title = text.into();
            table
                .columns
                .iter_mut()
                .for_each(|column| column.name = text.into());
            for row in &mut table.rows {
                row.label = text.into();
                row.note = Some(text.into());
                if let Some(cell) = row.cells.first_mut() {
                    *cell = Cell::text(text);
                }
                if let Some(cell) = row.cells.last_mut() {
                    *cell = Cell::NotAvailable {
                        reason: text.into(),
                    };
                }
            }
        }
        for figure in &mut experiment.figures {
            match figure {
                Figure::Lines {
                    title,
                    x,
                    y,
                    series,
                    command,
                } => {
                    for field in [title, &mut x.label, &mut y.label, command] {
                        *field = text.into();
                    }
                    series.iter_mut().for_each(|line| line.label = text.into());
                }
                Figure::StackedBars {
                    title,
                    bars,
                    command,
                    ..
                } => {
                    *title = text.into();
                    *command = text.into();
                    for bar in bars {
                        bar.label = text.into();
                        bar.segments
                            .iter_mut()
                            .for_each(|segment| segment.label = text.into());
                    }
                }
                Figure::Forest {
                    title,
                    panels,
                    rows,
                    command,
                } => {
                    for field in [title, command].into_iter().chain(panels) {
                        *field = text.into();
                    }
                    for row in rows {
                        row.label = text.into();
                        for ratio in row.panels.iter_mut().flatten() {
                            ratio.label = text.into();
                        }
                    }
                }
            }
        }
        experiment
            .trust
            .iter_mut()
            .for_each(|line| line.text = text.into());
    }
    run
}

#[test]
fn markup_in_names_stays_text() {
    let html = render(&run_that_says(
        "</title></style><script>alert(1)</script>\"'&<!--",
    ));
    assert!(!html.contains("<script") && !html.contains("<!--"));
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    check_tags(&html).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_text_breaks_the_document(text in "(\\PC|[<>&\"'/= \\n\\t\\x00-\\x1f]){0,24}") {
        let plain = check_tags(&render(&run_that_says("x")));
        let html = render(&run_that_says(&text));
        // Labels that are too wide are not drawn, so the number of elements may differ, but never the balance.
        prop_assert!(plain.is_ok());
        prop_assert!(check_tags(&html).is_ok(), "{:?}", check_tags(&html));
    }

    #[test]
    fn no_number_breaks_a_figure(numbers in prop::collection::vec(any::<f64>(), 8)) {
        let mut run = sample::run();
        for figure in run.experiments.iter_mut().flat_map(|experiment| &mut experiment.figures) {
            match figure {
                Figure::Lines { series, .. } => {
                    for line in series {
                        let point = |pair: &[f64]| Point {
                            x: pair[0],
                            y: pair[1],
                            ci: Some(Interval { low: pair[1], high: pair[0] }),
                        };
                        line.points = numbers.chunks(2).map(point).collect();
                    }
                }
                Figure::StackedBars { bars, .. } => {
                    for (bar, number) in bars.iter_mut().zip(&numbers) {
                        bar.total_measured = Some(*number);
                    }
                }
                Figure::Forest { rows, .. } => {
                    let ratios = rows.iter_mut().flat_map(|row| row.panels.iter_mut().flatten());
                    for (ratio, pair) in ratios.zip(numbers.chunks(2).cycle()) {
                        ratio.value = pair[0];
                        ratio.ci = Some(Interval { low: pair[1], high: pair[0] });
                    }
                }
            }
        }
        prop_assert!(check_tags(&render(&run)).is_ok());
    }
}

#[test]
fn figures_without_anything_to_draw_say_so() {
    let mut run = sample::run();
    for figure in run
        .experiments
        .iter_mut()
        .flat_map(|experiment| &mut experiment.figures)
    {
        match figure {
            Figure::Lines { series, .. } => series.clear(),
            Figure::StackedBars { bars, .. } => bars.clear(),
            Figure::Forest { rows, .. } => rows.clear(),
        }
    }
    let html = render(&run);
    assert_eq!(
        html.matches("There is nothing to draw").count(),
        html.matches("<figure ").count()
    );
}

#[test]
fn numbers_at_the_ends_of_what_a_number_can_be_are_left_out_and_counted() {
    let mut run = sample::run();
    let Figure::Lines { series, .. } = &mut run.experiments[0].figures[0] else {
        panic!("not lines")
    };
    let ends = [
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
        f64::INFINITY,
        f64::NAN,
        -1.0,
    ];
    for (point, end) in series[0].points.iter_mut().zip(ends) {
        point.y = end;
    }
    series[1].points[0].ci = Some(Interval {
        low: f64::NAN,
        high: f64::INFINITY,
    });
    let html = render(&run);
    assert!(html.contains("6 points are not drawn"));
    assert!(!html.contains("NaN") && !html.contains("inf "));
}

#[test]
fn points_that_a_log_axis_cannot_show_are_counted() {
    let mut run = sample::run();
    let Figure::Lines { series, .. } = &mut run.experiments[0].figures[0] else {
        panic!("not lines")
    };
    series[0].points[0].y = 0.0;
    assert!(render(&run).contains("1 point is not drawn"));
}
