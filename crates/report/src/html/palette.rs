//! Colours: one for each layer in every figure, one with a marker for each line, in light and dark.
//!
//! The colours of the layers stay apart for readers without one kind of cone, and text on them has a contrast of at
//! least 4.5 to 1 (WCAG 2, 1.4.3); the tests compute both.

use std::collections::BTreeMap;
use std::fmt::Write;

use tollgate_run::{Layer, Run, SegmentKind};

use super::panels::{self, Drawing};

/// A colour in both themes, as `#rrggbb`.
#[derive(Debug, Clone, Copy)]
struct Pair {
    light: &'static str,
    dark: &'static str,
}

const fn pair(light: &'static str, dark: &'static str) -> Pair {
    Pair { light, dark }
}

/// The page's own colours by the names of their CSS variables.
const PAGE: [(&str, Pair); 11] = [
    ("paper", pair("#ffffff", "#14171b")),
    ("raised", pair("#f6f7f8", "#1c2026")),
    ("ink", pair("#15181c", "#e9ebee")),
    ("soft", pair("#525a65", "#a9b1bc")),
    ("rule", pair("#d9dde2", "#343a43")),
    ("strong-rule", pair("#15181c", "#c9ced5")),
    ("grid", pair("#e6e9ed", "#282d35")),
    ("link-ink", pair("#174f8f", "#8fc1f5")),
    ("doubt", pair("#9a3306", "#f5a97f")),
    ("doubt-paper", pair("#fdf3ec", "#2c211c")),
    ("rest", pair("#c9ced5", "#4a525d")),
];

/// The fill of a layer.
fn fill(layer: Layer) -> Pair {
    match layer {
        Layer::Socket => pair("#1f5fa8", "#4a8fdd"),
        Layer::Tcp => pair("#cd4418", "#e8683a"),
        Layer::Ip => pair("#eda81c", "#f2b83d"),
        Layer::Device => pair("#0b806b", "#2fb39a"),
        Layer::Driver => pair("#b773b5", "#c987c7"),
        Layer::Link => pair("#7cc4ec", "#a4dbfa"),
        Layer::Scheduler => pair("#7a2350", "#a8376f"),
    }
}

/// The ink of text on the fill.
fn ink(layer: Layer) -> Pair {
    const BLACK: &str = "#0d0f11";
    const WHITE: &str = "#ffffff";
    match layer {
        Layer::Socket | Layer::Tcp | Layer::Device => pair(WHITE, BLACK),
        Layer::Ip | Layer::Driver | Layer::Link => pair(BLACK, BLACK),
        Layer::Scheduler => pair(WHITE, WHITE),
    }
}

/// The colours of lines, in the order in which lines first appear.
const LINES: [Pair; 6] = [
    pair("#b8400f", "#f08a5d"),
    pair("#1f5fa8", "#6aa9ee"),
    pair("#0b7a66", "#45c4ab"),
    pair("#8b3f89", "#d79bd5"),
    pair("#4d5560", "#aeb6c0"),
    pair("#7a6200", "#e0bd4a"),
];

/// The CSS that defines every colour, for both themes.
pub(super) fn style() -> String {
    let theme = |choose: fn(Pair) -> &'static str| {
        let mut css = String::new();
        for (name, colour) in PAGE {
            let _ = write!(css, "--{name}:{};", choose(colour));
        }
        for layer in Layer::ALL {
            let name = layer.name();
            let _ = write!(
                css,
                "--{name}:{};--on-{name}:{};",
                choose(fill(layer)),
                choose(ink(layer))
            );
        }
        for (at, colour) in LINES.iter().enumerate() {
            let _ = write!(css, "--line-{at}:{};", choose(*colour));
        }
        css
    };
    let mut css = format!(
        ":root{{color-scheme:light dark;{}}}\n@media (prefers-color-scheme:dark){{:root{{{}}}}}\n\
         @media print{{:root{{color-scheme:light;{}}}}}\n",
        theme(|colour| colour.light),
        theme(|colour| colour.dark),
        theme(|colour| colour.light),
    );
    for layer in Layer::ALL {
        let name = layer.name();
        let _ = writeln!(
            css,
            ".fill-{name}{{fill:var(--{name})}}.chart .on-{name}{{fill:var(--on-{name})}}"
        );
    }
    css.push_str(".fill-application{fill:var(--soft)}.chart .on-application{fill:var(--paper)}\n");
    for at in 0..LINES.len() {
        let _ = writeln!(css, ".line-{at}{{--c:var(--line-{at})}}");
    }
    css
}

/// The markers of lines around the origin.
const MARKERS: [&str; 4] = [
    "<circle r=\"4\"/>",
    "<rect x=\"-3.7\" y=\"-3.7\" width=\"7.4\" height=\"7.4\"/>",
    "<path d=\"M0 -5.2l4.8 8.4h-9.6z\"/>",
    "<path d=\"M0 -5l5 5l-5 5l-5 -5z\"/>",
];

/// The hatching of each layer, for queueing, and the markers of lines; referred to by every figure.
pub(super) fn patterns() -> String {
    let mut svg = "<svg class=\"patterns\" width=\"0\" height=\"0\" aria-hidden=\"true\" focusable=\"false\">".to_owned();
    svg += &hatching();
    svg += "<defs>\n";
    for (at, marker) in MARKERS.iter().enumerate() {
        let _ = writeln!(svg, "<g id=\"m{at}\">{marker}</g>");
    }
    svg + "</defs></svg>\n"
}

/// The hatching of each layer.
pub(super) fn hatching() -> String {
    let mut defs = "<defs>\n".to_owned();
    for layer in Layer::ALL {
        let name = layer.name();
        let _ = writeln!(
            defs,
            "<pattern id=\"wait-{name}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" class=\"fill-{name}\" opacity=\"0.22\"/>\
             <rect width=\"2.4\" height=\"6\" class=\"fill-{name}\"/></pattern>"
        );
    }
    defs + "</defs>\n"
}

/// The attribute that paints a span: solid for processing, hatched for queueing, grey for what no layer explains.
pub(super) fn paint(layer: Option<Layer>, kind: SegmentKind) -> String {
    match (layer, kind) {
        (Some(layer), SegmentKind::Queueing) => format!("fill=\"url(#wait-{})\"", layer.name()),
        (Some(layer), SegmentKind::Processing) => format!("class=\"fill-{}\"", layer.name()),
        _ => "class=\"fill-rest\"".to_owned(),
    }
}

/// A small square in the paint of a span, for tables and legends.
pub(super) fn swatch(layer: Option<Layer>, kind: SegmentKind) -> String {
    format!(
        "<svg class=\"swatch\" aria-hidden=\"true\"><rect {}/></svg>",
        paint(layer, kind)
    )
}

/// Colours and markers of lines: the same label has the same ones in every figure of a run.
pub(super) struct LineStyles {
    by_label: BTreeMap<String, LineStyle>,
}

/// Colour and marker of a line, as numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct LineStyle {
    colour: usize,
    marker: usize,
}

impl LineStyles {
    /// Gives the labels of all lines of the run their styles in the order of their first appearance, measured ones first, so that the
    /// published ones take the later colours.
    ///
    /// Lines of one figure have different colours while there are enough of them: long lines have no markers.
    pub(super) fn of(run: &Run) -> Self {
        // The labels of each figure, and whether each was published.
        let mut figures: Vec<Vec<(&str, bool)>> = Vec::new();
        for experiment in &run.experiments {
            for drawing in panels::join(&experiment.figures) {
                let Drawing::Lines(lines) = drawing else {
                    continue;
                };
                let named = lines.iter().flat_map(|one| {
                    let lines = one.series.len();
                    let name = move |line| panels::label_of(line, lines);
                    one.series
                        .iter()
                        .map(move |line| (name(line), line.published))
                });
                figures.push(named.collect());
            }
        }
        let mut by_label: BTreeMap<String, LineStyle> = BTreeMap::new();
        for published in [false, true] {
            let all = figures.iter().flatten();
            for (label, _) in all.filter(|(_, other)| *other == published) {
                if by_label.contains_key(*label) {
                    continue;
                }
                let beside = figures
                    .iter()
                    .filter(|figure| figure.iter().any(|(other, _)| other == label));
                let taken: Vec<LineStyle> = beside
                    .flatten()
                    .filter_map(|(other, _)| by_label.get(*other).copied())
                    .collect();
                by_label.insert((*label).to_owned(), free_style(by_label.len(), &taken));
            }
        }
        Self { by_label }
    }

    /// The class that sets the colour.
    pub(super) fn class(&self, label: &str) -> String {
        format!("line-{}", self.style(label).colour)
    }

    /// The marker of the line at a place, filled with the line's colour; who points at it reads the words, if there are any.
    pub(super) fn marker(&self, label: &str, (x, y): (f64, f64), words: &str) -> String {
        use super::markup::{at, escape};
        let marker = self.style(label).marker;
        let (x, y) = (at(x), at(y));
        match words {
            "" => format!("<use href=\"#m{marker}\" x=\"{x}\" y=\"{y}\"/>"),
            words => format!(
                "<use href=\"#m{marker}\" x=\"{x}\" y=\"{y}\"><title>{}</title></use>",
                escape(words)
            ),
        }
    }

    fn style(&self, label: &str) -> LineStyle {
        self.by_label.get(label).copied().unwrap_or_default()
    }
}

/// The first style from `number` on that is not taken and whose colour is taken least often.
fn free_style(number: usize, taken: &[LineStyle]) -> LineStyle {
    let style = |number: usize| LineStyle {
        colour: number % LINES.len(),
        // Shifted where colours and markers would come round together.
        marker: (number + number / (2 * LINES.len())) % MARKERS.len(),
    };
    let often = |one: &LineStyle| {
        let same = taken.iter().filter(|other| other.colour == one.colour);
        same.count()
    };
    (number..number + LINES.len() * MARKERS.len())
        .map(style)
        .filter(|one| !taken.contains(one))
        .min_by_key(often)
        .unwrap_or_else(|| style(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rgb = [f64; 3];

    /// Linear light of an sRGB colour (IEC 61966-2-1).
    fn linear(colour: &str) -> Rgb {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.040_45 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        [channel(1), channel(3), channel(5)]
    }

    fn luminance([r, g, b]: Rgb) -> f64 {
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    /// WCAG 2 contrast ratio.
    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(linear(a)), luminance(linear(b)));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// CIELAB under D65.
    fn lab([r, g, b]: Rgb) -> Rgb {
        let f = |t: f64| {
            if t > 0.008_856 {
                t.cbrt()
            } else {
                7.787 * t + 16.0 / 116.0
            }
        };
        let x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.950_47);
        let y = f(luminance([r, g, b]));
        let z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.088_83);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// Full vision, and vision without one kind of cone: Machado, Oliveira and Fernandes 2009, severity 1.
    const VISIONS: [[Rgb; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ],
    ];

    fn seen(colour: &str, vision: &[Rgb; 3]) -> Rgb {
        let light = linear(colour);
        vision.map(|row| {
            row.iter()
                .zip(light)
                .map(|(a, b)| a * b)
                .sum::<f64>()
                .clamp(0.0, 1.0)
        })
    }

    fn page(name: &str) -> Pair {
        PAGE.iter().find(|(known, _)| *known == name).unwrap().1
    }

    fn both(a: Pair, b: Pair) -> [f64; 2] {
        [contrast(a.light, b.light), contrast(a.dark, b.dark)]
    }

    #[test]
    fn contrast_of_black_on_white_is_21() {
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
    }

    #[test]
    fn text_can_be_read_in_both_themes() {
        for paper in ["paper", "raised"] {
            for text in ["ink", "soft", "link-ink", "doubt"] {
                assert!(
                    both(page(text), page(paper)).iter().all(|c| *c >= 4.5),
                    "{text} on {paper}"
                );
            }
        }
        assert!(
            both(page("doubt"), page("doubt-paper"))
                .iter()
                .all(|c| *c >= 4.5)
        );
        assert!(both(page("ink"), page("rest")).iter().all(|c| *c >= 4.5));
        for line in LINES {
            assert!(
                both(line, page("paper")).iter().all(|c| *c >= 4.5),
                "{line:?}"
            );
        }
        for layer in Layer::ALL {
            assert!(
                both(ink(layer), fill(layer)).iter().all(|c| *c >= 4.5),
                "{layer:?}"
            );
        }
    }

    #[test]
    fn layers_stay_apart_for_every_kind_of_colour_vision() {
        let themes: [fn(Pair) -> &'static str; 2] = [|pair| pair.light, |pair| pair.dark];
        for theme in themes {
            for vision in &VISIONS {
                for (at, a) in Layer::ALL.iter().enumerate() {
                    for b in &Layer::ALL[at + 1..] {
                        let [a_lab, b_lab] =
                            [a, b].map(|layer| lab(seen(theme(fill(*layer)), vision)));
                        let distance = a_lab
                            .iter()
                            .zip(b_lab)
                            .map(|(p, q)| (p - q).powi(2))
                            .sum::<f64>()
                            .sqrt();
                        assert!(
                            distance > 12.0,
                            "{a:?} and {b:?}: {distance:.1} in {vision:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn lines_of_one_figure_have_different_colours() {
        let axis = |label: &str| tollgate_run::Axis {
            label: label.to_owned(),
            unit: tollgate_run::Unit::Bytes,
            scale: tollgate_run::Scale::Log,
        };
        let figure = |title: &str, labels: &[&str]| tollgate_run::Figure::Lines {
            title: title.to_owned(),
            x: axis(title),
            y: axis("y"),
            series: labels
                .iter()
                .map(|label| tollgate_run::Series {
                    label: (*label).to_owned(),
                    published: false,
                    points: Vec::new(),
                })
                .collect(),
            command: String::new(),
        };
        let mut run = tollgate_run::fixture::report();
        run.experiments.truncate(1);
        // By their numbers alone, a and g, and b and h, would have the same colours.
        let of_all = ["a", "b", "c", "d", "e", "f", "g", "h"];
        run.experiments[0].figures = vec![
            figure("first", &["a", "b", "c"]),
            figure("second", &["d", "e", "f"]),
            figure("third", &["a", "g", "b", "h"]),
        ];
        let styles = LineStyles::of(&run);
        let colours = |labels: &[&str]| {
            let all = labels.iter().map(|label| styles.style(label).colour);
            all.collect::<std::collections::BTreeSet<usize>>().len()
        };
        for labels in [
            &["a", "b", "c"][..],
            &["d", "e", "f"],
            &["a", "g", "b", "h"],
        ] {
            assert_eq!(colours(labels), labels.len(), "{labels:?}");
        }
        // Beside more lines than colours, two that share another figure have different ones.
        let many = ["a", "b", "c", "d", "e", "f", "x", "y"];
        run.experiments[0].figures = vec![
            figure("first", &["a", "b", "c", "d", "e", "f"]),
            figure("second", &["x"]),
            figure("third", &["p", "q", "r", "s", "t"]),
            figure("fourth", &many),
            figure("fifth", &["x", "y"]),
        ];
        let styles = LineStyles::of(&run);
        assert_ne!(styles.style("x").colour, styles.style("y").colour);
        // More lines than colours differ in colour or marker.
        run.experiments[0].figures = vec![figure("all", &of_all)];
        let styles = LineStyles::of(&run);
        for (at, a) in of_all.iter().enumerate() {
            for b in &of_all[at + 1..] {
                assert_ne!(styles.style(a), styles.style(b), "{a} and {b}");
            }
        }
        assert_eq!(colours(&of_all), LINES.len());
    }
}
