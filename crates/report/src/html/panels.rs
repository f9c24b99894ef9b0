//! Small multiples: figures of one kind side by side on one scale, and one figure with many lines taken apart by path.
//!
//! The run keeps each figure; only their drawing is joined here.

use tollgate_run::{Axis, Figure, Series};

use super::lines::{self, Background, Chart, Sheet};
use super::markup::{Markup, capitalised};
use super::palette::LineStyles;

/// More lines than this are taken apart.
const MOST_LINES: usize = 8;

/// A figure of lines.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a Axis,
    pub(super) y: &'a Axis,
    pub(super) series: &'a [Series],
}

/// Drawing of one figure.
pub(super) enum Drawing<'a> {
    /// Stacked bars or a forest plot, as the run has them.
    Whole(&'a Figure),
    /// Lines with the same axes.
    Lines(Vec<Lines<'a>>),
}

/// The figures of an experiment, those of lines with the same axes joined, in the order of their first ones.
pub(super) fn join(figures: &[Figure]) -> Vec<Drawing<'_>> {
    let mut drawings: Vec<Drawing<'_>> = Vec::new();
    for figure in figures {
        let Figure::Lines {
            title,
            x,
            y,
            series,
            command: _,
        } = figure
        else {
            drawings.push(Drawing::Whole(figure));
            continue;
        };
        let lines = Lines {
            title,
            x,
            y,
            series,
        };
        let same = |one: &&mut Drawing<'_>| match one {
            Drawing::Lines(others) => others.iter().all(|other| {
                let few = other.series.len().max(series.len()) <= MOST_LINES;
                few && (other.x, other.y) == (x, y)
            }),
            Drawing::Whole(_) => false,
        };
        match drawings.iter_mut().find(same) {
            Some(Drawing::Lines(others)) => others.push(lines),
            _ => drawings.push(Drawing::Lines(vec![lines])),
        }
    }
    drawings
}

/// Words behind which the part of a title stands that differs.
const LEADING: [&str; 9] = ["of", "in", "at", "by", "for", "with", "over", "on", "and"];

/// The title that all of them have in common, and what each has beside it.
pub(super) fn titles(lines: &[Lines<'_>]) -> (String, Vec<String>) {
    let words: Vec<Vec<&str>> = lines
        .iter()
        .map(|one| one.title.split(' ').collect())
        .collect();
    let shortest = words.iter().map(Vec::len).min().unwrap_or(0);
    let same = |at: &dyn Fn(&Vec<&str>) -> usize| {
        let word = |words: &Vec<&str>| words.get(at(words)).map(|word| word.to_string());
        words
            .windows(2)
            .all(|pair| word(&pair[0]) == word(&pair[1]))
    };
    let front = (0..shortest).take_while(|&n| same(&|_| n)).count();
    let back = (0..shortest - front)
        .take_while(|&n| same(&|words| words.len() - 1 - n))
        .count();
    let tidy = |text: String| text.trim_matches([',', ':', ' ']).to_owned();
    // A word that leads to what differs has nothing to lead to.
    let complete = |mut text: String| {
        while let Some((rest, last)) = text.rsplit_once(' ')
            && LEADING.contains(&last)
        {
            text = tidy(rest.to_owned());
        }
        text
    };
    let common = words.first().map_or_else(String::new, |words| {
        let (front, back) = (
            words[..front].join(" "),
            words[words.len() - back..].join(" "),
        );
        [tidy(front), tidy(back)]
            .into_iter()
            .map(complete)
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(": ")
    });
    // A name in front of a colon stays as it is.
    let common = match common.split(' ').next() {
        Some(name) if name.ends_with(':') => common,
        _ => capitalised(&common),
    };
    let own = words
        .iter()
        .map(|words| tidy(words[front..words.len() - back].join(" ")));
    let own = own.collect();
    (
        if common.is_empty() {
            lines[0].y.label.clone()
        } else {
            common
        },
        own,
    )
}

/// Draws figures with the same axes. Returns a remark for the caption, when points had to be left out.
pub(super) fn draw(out: &mut Markup, styles: &LineStyles, all: &[Lines<'_>]) -> Option<String> {
    match all {
        [one] if one.series.len() > MOST_LINES => apart(out, styles, *one),
        [one] => lines::draw(
            out,
            styles,
            Chart {
                title: one.title,
                x: one.x,
                y: one.y,
                series: one.series,
                context: &[],
                background: Background::Nothing,
            },
            Sheet::WHOLE,
        ),
        several => {
            let (_, titles) = titles(several);
            let panels = several.iter().zip(titles).map(|(one, title)| Panel {
                title,
                series: one.series.to_vec(),
            });
            let all: Vec<Series> = several.iter().flat_map(|one| one.series.to_vec()).collect();
            grid(
                out,
                styles,
                several[0],
                &all,
                panels.collect(),
                Behind::Nothing,
            )
        }
    }
}

struct Panel {
    title: String,
    series: Vec<Series>,
}

/// The path of a line, and how it is run.
fn path_and_rest(label: &str) -> (&str, &str) {
    label.split_once(", ").unwrap_or((label, label))
}

/// The name of a line in a figure of so many: in one panel for each path it bears no path.
pub(super) fn label_of(line: &Series, lines: usize) -> &str {
    let (path, rest) = path_and_rest(&line.label);
    match (lines > MOST_LINES, line.published) {
        (false, _) => &line.label,
        (true, true) => path,
        (true, false) => rest,
    }
}

/// One panel for each path; in each, the other lines stay in the background.
fn apart(out: &mut Markup, styles: &LineStyles, lines: Lines<'_>) -> Option<String> {
    let mut panels: Vec<Panel> = Vec::new();
    for line in lines.series {
        let (path, _) = path_and_rest(&line.label);
        let title = if line.published { "published" } else { path };
        let line = Series {
            label: label_of(line, lines.series.len()).to_owned(),
            ..line.clone()
        };
        match panels.iter_mut().find(|panel| panel.title == title) {
            Some(panel) => panel.series.push(line),
            None => panels.push(Panel {
                title: title.to_owned(),
                series: vec![line],
            }),
        }
    }
    let measured: Vec<Series> = lines
        .series
        .iter()
        .filter(|line| !line.published)
        .cloned()
        .collect();
    grid(out, styles, lines, &measured, panels, Behind::All)
}

/// Lines behind those of each panel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    Nothing,
    /// All lines that were measured.
    All,
}

/// Draws panels under one legend, on one scale, which is that of `all`; published numbers that go beyond widen that of their panel.
fn grid(
    out: &mut Markup,
    styles: &LineStyles,
    lines: Lines<'_>,
    all: &[Series],
    panels: Vec<Panel>,
    behind: Behind,
) -> Option<String> {
    let mut named: Vec<(&str, bool)> = Vec::new();
    for line in panels.iter().flat_map(|panel| &panel.series) {
        if !named.iter().any(|(label, _)| *label == line.label) {
            named.push((&line.label, line.published));
        }
    }
    out.raw("<ul class=\"legend\">");
    for (label, published) in named {
        out.raw_format(format_args!(
            "<li class=\"series {}{}\"><svg class=\"swatch\" aria-hidden=\"true\">{}</svg>",
            styles.class(label),
            if published { " published" } else { "" },
            styles.marker(label, (6.0, 6.0), ""),
        ));
        out.text(label).raw("</li>");
    }
    out.raw("</ul>\n<div class=\"panels\">\n");
    let mut remarks = Vec::new();
    let name = out.new_name();
    let published = |panel: &Panel| panel.series.iter().any(|line| line.published);
    // A panel without anything to draw has no background that others could refer to.
    let first = panels
        .iter()
        .position(|panel| !published(panel) && lines::have_place(&panel.series, lines.x, lines.y));
    for (number, panel) in panels.iter().enumerate() {
        let own = out.new_name();
        out.raw("<div class=\"panel\"><p class=\"panel-title\">")
            .text(&panel.title)
            .raw("</p>\n");
        let title = format!("{}: {}", lines.title, panel.title);
        let chart = Chart {
            title: &title,
            x: lines.x,
            y: lines.y,
            series: &panel.series,
            context: all,
            background: match behind {
                Behind::Nothing => Background::Nothing,
                Behind::All if published(panel) => Background::Context(&own),
                Behind::All if first == Some(number) => Background::Context(&name),
                Behind::All => Background::Same(&name),
            },
        };
        remarks.extend(lines::draw(out, styles, chart, Sheet::PANEL));
        out.raw("</div>\n");
    }
    out.raw("</div>\n");
    remarks.dedup();
    (!remarks.is_empty()).then(|| remarks.join(" "))
}

#[cfg(test)]
mod tests {
    use tollgate_run::{Scale, Unit};

    use super::*;

    #[test]
    fn titles_are_taken_apart_where_they_differ() {
        let axis = Axis {
            label: "Time".to_owned(),
            unit: Unit::Nanoseconds,
            scale: Scale::Linear,
        };
        let of = |title| Lines {
            title,
            x: &axis,
            y: &axis,
            series: &[],
        };
        let told =
            |all: &[&'static str]| titles(&all.iter().map(|title| of(title)).collect::<Vec<_>>());
        assert_eq!(
            told(&["TCP, lo: time by size", "UDP, lo: time by size"]),
            (
                "lo: time by size".to_owned(),
                vec!["TCP".to_owned(), "UDP".to_owned()]
            )
        );
        assert_eq!(
            told(&["Wait, loopback", "Wait, veth, GSO"]),
            (
                "Wait".to_owned(),
                vec!["loopback".to_owned(), "veth, GSO".to_owned()]
            )
        );
        assert_eq!(told(&["One", "Two"]).0, "Time");
        assert_eq!(
            told(&[
                "Wait within a response of 8 bytes",
                "Wait within a response of 64 bytes, GSO"
            ]),
            (
                "Wait within a response".to_owned(),
                vec!["8 bytes".to_owned(), "64 bytes, GSO".to_owned()]
            )
        );
        assert_eq!(
            told(&["TCP: time by category", "UDP: time by category"]).0,
            "Time by category"
        );
    }

    #[test]
    fn figures_with_other_axes_stay_apart() {
        let figure = |label: &str| Figure::Lines {
            title: label.to_owned(),
            x: Axis {
                label: label.to_owned(),
                unit: Unit::Bytes,
                scale: Scale::Log,
            },
            y: Axis {
                label: "y".to_owned(),
                unit: Unit::Bytes,
                scale: Scale::Log,
            },
            series: Vec::new(),
            command: String::new(),
        };
        let figures = [figure("a"), figure("b"), figure("a")];
        let sizes: Vec<usize> = join(&figures)
            .iter()
            .map(|one| match one {
                Drawing::Lines(lines) => lines.len(),
                Drawing::Whole(_) => 0,
            })
            .collect();
        assert_eq!(sizes, [2, 1]);
    }
}
