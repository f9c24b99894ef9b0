//! Forest plots: a row for each subject and a panel for each condition, all on one logarithmic scale. A dot with its interval is an
//! estimate, full where the interval leaves out 1; a diamond is exact.

use tollgate_run::{ForestRow, Ratio, format};

use super::markup::{Markup, at, cut, escape, text_width};
use super::typographic;
use crate::forest::{Beyond, ForestScale, names};
use crate::format::significant;

const WIDTH: f64 = 1000.0;
const TOP: f64 = 26.0;
const PITCH: f64 = 22.0;
const FONT: f64 = 13.0;
/// Room for the labels; a wider one is cut.
const LABEL: f64 = 230.0;
/// Room between panels.
const GAP: f64 = 16.0;
/// Half the size of a mark.
const MARK: f64 = 4.0;

/// Draws the legend and the panels. Returns a remark for the caption.
pub(super) fn draw(
    out: &mut Markup,
    title: &str,
    panels: &[String],
    rows: &[ForestRow],
) -> Option<String> {
    if rows.iter().all(|row| row.panels.iter().all(Vec::is_empty)) {
        out.raw("<p class=\"missing\">There is nothing to draw: no row has a ratio.</p>\n");
        return None;
    }
    let scale = ForestScale::of(rows);
    let widest = rows
        .iter()
        .map(|row| text_width(&row.label, FONT))
        .fold(30.0, f64::max);
    let left = widest.min(LABEL) + 12.0;
    let step = (WIDTH - left) / panels.len().max(1) as f64;
    let bottom = TOP + PITCH * rows.len() as f64;
    legend(out, rows);
    out.raw_format(format_args!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Figure\"><svg class=\"chart forest\" viewBox=\"0 0 {WIDTH} {}\" \
         role=\"img\" aria-label=\"{}\">\n",
        at(bottom + 24.0),
        escape(&spoken(title, panels, rows)),
    ));
    for (number, row) in rows.iter().enumerate() {
        out.raw_format(format_args!(
            "<text class=\"row-label\" text-anchor=\"end\" x=\"{}\" y=\"{}\"><title>{}</title>{}</text>\n",
            at(left - 12.0),
            at(middle(number) + FONT * 0.36),
            escape(&row.label),
            escape(&cut(&row.label, FONT, LABEL)),
        ));
    }
    for (place, panel) in panels.iter().enumerate() {
        let from = left + step * place as f64;
        let frame = Frame {
            scale,
            from,
            to: from + step - GAP,
        };
        frame.axis(out, panel, bottom);
        for (number, row) in rows.iter().enumerate() {
            for ratio in row.panels.get(place).into_iter().flatten() {
                frame.mark(out, row, panel, ratio, middle(number));
            }
        }
    }
    out.raw("</svg></div>\n");
    let remark = "Marks to the right of the line at 1 are more than the reference, on a logarithmic scale; an arrow points to one beyond it.";
    Some(remark.to_owned())
}

/// The middle of a row.
fn middle(number: usize) -> f64 {
    TOP + PITCH * (number as f64 + 0.5)
}

/// A panel with its scale.
struct Frame {
    scale: ForestScale,
    from: f64,
    to: f64,
}

impl Frame {
    fn x(&self, share: f64) -> f64 {
        self.from + share * (self.to - self.from)
    }

    fn axis(&self, out: &mut Markup, panel: &str, bottom: f64) {
        out.raw_format(format_args!(
            "<g class=\"axis\"><text class=\"axis-title\" x=\"{}\" y=\"14\">{}</text>",
            at(self.from),
            escape(panel),
        ));
        let mut free_from = f64::NEG_INFINITY;
        // The reference has its number first; others stand where there is room.
        let reference = self.x(self.scale.share(1.0));
        for tick in self.scale.ticks() {
            let x = self.x(self.scale.share(tick));
            let number = typographic(&significant(tick));
            let half = text_width(&number, FONT) / 2.0 + 3.0;
            let crowds = tick != 1.0 && (x - reference).abs() < half + 12.0;
            if x - half < free_from || crowds {
                continue;
            }
            free_from = x + half;
            let class = if tick == 1.0 { "base" } else { "grid" };
            out.raw_format(format_args!(
                "<path class=\"{class}\" d=\"M{} {}V{}\"/><text text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>",
                at(x),
                at(TOP),
                at(bottom),
                at(x),
                at(bottom + 16.0),
                escape(&number),
            ));
        }
        out.raw("</g>\n");
    }

    fn mark(&self, out: &mut Markup, row: &ForestRow, panel: &str, ratio: &Ratio, y: f64) {
        let x = self.x(self.scale.share(ratio.value));
        let class = if ratio.shows_difference() {
            " class=\"shown\""
        } else {
            ""
        };
        out.raw_format(format_args!(
            "<g{class}><title>{}</title>",
            escape(&typographic(&format!(
                "{}, {panel}: {}",
                row.label,
                words(ratio)
            ))),
        ));
        let beyond = self.scale.beyond(ratio.value);
        if let Some(end) = beyond {
            let tip = match end {
                Beyond::Low => -2.0 * MARK,
                Beyond::High => 2.0 * MARK,
            };
            out.raw_format(format_args!(
                "<path class=\"beyond\" d=\"M{} {}v{}l{tip} -{MARK}z\"/></g>\n",
                at(x),
                at(y - MARK),
                2.0 * MARK,
            ));
            return;
        }
        match self.scale.interval(ratio) {
            Some([low, high]) => out.raw_format(format_args!(
                "<path class=\"interval\" d=\"M{} {}H{}\"/><circle cx=\"{}\" cy=\"{}\" r=\"{MARK}\"/>",
                at(self.x(low)),
                at(y),
                at(self.x(high)),
                at(x),
                at(y),
            )),
            None => out.raw_format(format_args!(
                "<path class=\"exact\" d=\"M{} {}l{MARK} {MARK}l-{MARK} {MARK}l-{MARK} -{MARK}z\"/>",
                at(x),
                at(y - MARK),
            )),
        };
        out.raw("</g>\n");
    }
}

/// A ratio in words.
fn words(ratio: &Ratio) -> String {
    let value = significant(ratio.value);
    match ratio.ci {
        Some(ci) => format!(
            "{} x {value} (95 %: {} to {})",
            ratio.label,
            significant(ci.low),
            significant(ci.high)
        ),
        None => format!("{} x {value}", ratio.label),
    }
}

fn legend(out: &mut Markup, rows: &[ForestRow]) {
    let swatch = |mark: &str| {
        format!(
            "<svg class=\"swatch forest\" viewBox=\"0 0 12 12\" aria-hidden=\"true\">{mark}</svg>"
        )
    };
    let list =
        |names: Vec<&str>| format::list(&names.into_iter().map(str::to_owned).collect::<Vec<_>>());
    out.raw("<ul class=\"legend\">");
    let estimates = list(names(rows, false));
    if !estimates.is_empty() {
        for (class, what) in [("shown", "95 % interval without 1"), ("", "no difference")] {
            out.raw("<li>")
                .raw(&swatch(&format!(
                    "<g class=\"{class}\"><circle cx=\"6\" cy=\"6\" r=\"4\"/></g>"
                )))
                .text(&format!("{estimates}: {what}"))
                .raw("</li>");
        }
    }
    let exact = list(names(rows, true));
    if !exact.is_empty() {
        out.raw("<li>")
            .raw(&swatch(
                "<path class=\"exact\" d=\"M6 2l4 4l-4 4l-4 -4z\"/>",
            ))
            .text(&format!("{exact}, exact"))
            .raw("</li>");
    }
    out.raw("</ul>\n");
}

/// The figure in words, for those who cannot see it: what differs in each panel.
fn spoken(title: &str, panels: &[String], rows: &[ForestRow]) -> String {
    let panels = panels.iter().enumerate().map(|(place, panel)| {
        let differ = rows.iter().flat_map(|row| {
            let ratios = row.panels.get(place).into_iter().flatten();
            let ratios = ratios.filter(|ratio| ratio.shows_difference());
            ratios.map(move |ratio| format!("{} {}", row.label, words(ratio)))
        });
        let differ: Vec<String> = differ.collect();
        match differ.is_empty() {
            true => format!("{panel}: no difference"),
            false => format!("{panel}: {}", differ.join(", ")),
        }
    });
    let panels: Vec<String> = panels.collect();
    format!("Forest plot. {title}. {}.", panels.join("; "))
}

#[cfg(test)]
mod tests {
    use tollgate_run::Interval;

    use super::*;

    fn ratio(label: &str, value: f64, ci: Option<(f64, f64)>) -> Ratio {
        Ratio {
            label: label.to_owned(),
            value,
            ci: ci.map(|(low, high)| Interval { low, high }),
        }
    }

    fn drawn(panels: &[&str], rows: &[ForestRow]) -> String {
        let mut out = Markup::default();
        let panels: Vec<String> = panels.iter().map(|panel| (*panel).to_owned()).collect();
        draw(&mut out, "Title", &panels, rows);
        out.into_text()
    }

    #[test]
    fn every_ratio_of_every_panel_has_its_mark() {
        let rows = [
            ForestRow {
                label: "demux=<list>".to_owned(),
                panels: vec![
                    vec![
                        ratio("time", 1.2, Some((1.1, 1.3))),
                        ratio("instructions", 1.5, None),
                    ],
                    vec![ratio("time", 1.0, Some((0.9, 1.1)))],
                ],
            },
            ForestRow {
                label: "nagle=on".to_owned(),
                panels: vec![vec![], vec![ratio("time", 1e5, Some((9e4, 1.1e5)))]],
            },
        ];
        let html = drawn(&["4 B", "8,000 B"], &rows);
        let (_, chart) = html.split_once("class=\"chart forest\"").unwrap();
        let count = |what: &str| chart.matches(what).count();
        assert_eq!(count("<circle"), 2);
        assert_eq!(count("class=\"exact\""), 1);
        assert_eq!(count("class=\"beyond\""), 1);
        assert_eq!(count("class=\"row-label\""), 2);
        assert_eq!(count("class=\"axis-title\""), 2);
        // Those whose interval holds 1 are not full.
        assert_eq!(count("<g class=\"shown\">"), 3);
        assert!(!html.contains("<list>") && html.contains("demux=&lt;list&gt;"));
    }

    #[test]
    fn plot_without_a_ratio_says_so() {
        let rows = [ForestRow {
            label: "row".to_owned(),
            panels: vec![vec![]],
        }];
        assert!(drawn(&["4 B"], &rows).contains("There is nothing to draw"));
    }
}
