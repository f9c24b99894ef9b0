//! Stacked bars: processing solid, queueing hatched, what no span explains in grey, the residual against the
//! independently measured total as a dashed frame.

use tollgate_run::{Bar, Layer, Segment, SegmentKind, Unit};

use super::lines::linear_ticks;
use super::markup::{Markup, at, cut, escape, text_width};
use super::{palette, typographic, unit_name};
use crate::format::{FormattedColumn, signed_percent};

const WIDTH: f64 = 1000.0;
const TOP: f64 = 6.0;
const BAR: f64 = 30.0;
const PITCH: f64 = 44.0;
const FONT: f64 = 13.0;
/// Width of semibold text over that of regular text.
const BOLD: f64 = 1.12;
/// Room for the labels. A label that is wider stands on two lines.
const LABEL: f64 = 230.0;
/// From one line of a label to the next.
const LINE: f64 = 15.0;
/// White between neighbouring segments.
const SEAM: f64 = 1.5;
/// Opacity that sets a part off from the one before it.
const PALE: &str = " opacity=\"0.55\"";

/// Scale from lengths to positions.
struct Layout {
    left: f64,
    right: f64,
    longest: f64,
}

impl Layout {
    fn x(&self, value: f64) -> f64 {
        self.left + value / self.longest * (self.right - self.left)
    }
}

/// Draws the legend and the bars. Returns a remark for the caption.
pub(super) fn draw(out: &mut Markup, title: &str, unit: Unit, bars: &[Bar]) -> Option<String> {
    let extent = |bar: &Bar| bar.sum().max(bar.total_measured.unwrap_or(0.0));
    let longest = bars.iter().map(extent).fold(0.0, f64::max);
    if longest <= 0.0 || !longest.is_finite() {
        out.raw("<p class=\"missing\">There is nothing to draw: no bar has a length.</p>\n");
        return None;
    }
    let shown = FormattedColumn::choose(unit, bars.iter().map(extent));
    let widest = bars
        .iter()
        .flat_map(|bar| label_lines(&bar.label))
        .map(|line| text_width(line, FONT * BOLD))
        .fold(0.0, f64::max);
    let layout = Layout {
        left: widest.clamp(30.0, LABEL) + 10.5,
        right: WIDTH - 190.0,
        longest,
    };
    let bottom = TOP + PITCH * bars.len() as f64;
    legend(out, bars);
    out.raw_format(format_args!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Figure\"><svg class=\"chart\" \
         viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">\n",
        at(bottom + 28.0),
        escape(&spoken(title, bars, shown)),
    ));
    axis(out, &layout, shown, bottom);
    for (row, bar) in bars.iter().enumerate() {
        draw_bar(
            out,
            &layout,
            shown,
            bar,
            TOP + PITCH * row as f64 + (PITCH - BAR) / 2.0,
        );
    }
    out.raw("</svg></div>\n");
    bars.iter().any(|bar| bar.total_measured.is_some()).then(|| {
        "The upright stroke is the total measured without gates; the residual is that total less all spans.".to_owned()
    })
}

fn axis(out: &mut Markup, layout: &Layout, shown: FormattedColumn, bottom: f64) {
    out.raw("<g class=\"axis\">");
    let ticks = linear_ticks(layout.longest, 8);
    let rule = |tick: &f64| format!("M{} {}V{}", at(layout.x(*tick)), at(TOP), at(bottom));
    let rules: String = ticks.iter().map(rule).collect();
    out.raw_format(format_args!("<path class=\"grid\" d=\"{rules}\"/>"));
    for (at_tick, tick) in ticks.iter().enumerate() {
        let x = layout.x(*tick);
        // The last tick carries the unit; its number stays centred under the tick.
        let unit = if at_tick + 1 == ticks.len() {
            unit_name(shown.name)
        } else {
            ""
        };
        let unit = if unit.is_empty() {
            String::new()
        } else {
            format!("\u{a0}{}", escape(unit))
        };
        let number = tick_label(shown, *tick);
        out.raw_format(format_args!(
            "<text x=\"{}\" y=\"{}\">{}{unit}</text>",
            at(x - text_width(&number, FONT) / 2.0),
            at(bottom + 18.0),
            escape(&number),
        ));
    }
    out.raw_format(format_args!(
        "<path class=\"base\" d=\"M{} {}V{}\"/></g>\n",
        at(layout.left),
        at(TOP),
        at(bottom),
    ));
}

/// The number of a tick: ticks are round, so trailing zeros say nothing.
pub(super) fn tick_label(shown: FormattedColumn, tick: f64) -> String {
    let number = shown.number(tick);
    let short = if number.contains('.') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        &number
    };
    typographic(short)
}

fn draw_bar(out: &mut Markup, layout: &Layout, shown: FormattedColumn, bar: &Bar, y: f64) {
    let base = y + BAR / 2.0 + FONT * 0.36;
    out.raw_format(format_args!(
        "<g class=\"bar\"><text text-anchor=\"end\" class=\"bar-label\"><title>{}</title>",
        escape(&bar.label),
    ));
    let lines = label_lines(&bar.label);
    for (number, line) in lines.iter().enumerate() {
        let shift = LINE * (number as f64 - (lines.len() - 1) as f64 / 2.0);
        out.raw_format(format_args!(
            "<tspan x=\"{}\" y=\"{}\">{}</tspan>",
            at(layout.left - 10.0),
            at(base + shift),
            escape(&cut(line, FONT * BOLD, LABEL)),
        ));
    }
    out.raw("</text>");
    let mut sum = 0.0;
    for (place, segment) in bar.segments.iter().enumerate() {
        let start = layout.x(sum);
        sum += segment.value;
        let shade = if is_part(segment) && place % 2 == 1 {
            PALE
        } else {
            ""
        };
        draw_segment(out, segment, shown, bar, (start, layout.x(sum), y), shade);
    }
    let mut end = layout.x(sum);
    let mut words = shown.with_unit(sum);
    let mut residual_words = String::new();
    if let (Some(total), Some(residual)) = (bar.total_measured, bar.residual())
        && total > 0.0
    {
        let x = layout.x(total);
        residual_words = format!(
            "residual {}",
            typographic(&signed_percent(residual / total))
        );
        let title = format!(
            "{}: measured without gates {}, sum of the spans {}, {residual_words}",
            bar.label,
            typographic(&shown.with_unit(total)),
            typographic(&shown.with_unit(sum)),
        );
        out.raw_format(format_args!("<g><title>{}</title>", escape(&title)));
        if x - end > 1.0 {
            out.raw_format(format_args!(
                "<rect class=\"residual\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                at(end),
                at(y + 0.5),
                at(x - end),
                at(BAR - 1.0),
            ));
        }
        // Inside the bar the mark shows only above and below, where it hides nothing.
        let mark = if x < end - 1.0 {
            format!("M{0} {1}v5M{0} {2}v5", at(x), at(y - 5.0), at(y + BAR))
        } else {
            format!("M{} {}v{}", at(x), at(y - 5.0), at(BAR + 10.0))
        };
        out.raw_format(format_args!(
            "<path class=\"total-mark\" d=\"{mark}\"/></g>"
        ));
        end = end.max(x);
        words = shown.with_unit(total);
    }
    out.raw_format(format_args!(
        "<text x=\"{}\" y=\"{}\"><tspan class=\"bar-total\">{}</tspan><tspan class=\"quiet\" dx=\"8\">{}</tspan></text></g>\n",
        at(end + 10.0),
        at(base),
        escape(&typographic(&words)),
        escape(&residual_words),
    ));
}

/// The label on one line, or on two where it is wider than its room: labels differ at their ends, so no end is cut off.
fn label_lines(label: &str) -> Vec<&str> {
    let fits = |text: &str| text_width(text, FONT * BOLD) <= LABEL;
    if fits(label) {
        return vec![label];
    }
    // Behind the last comma that leaves room for the first line, else behind such a blank.
    let breaks = |mark: char| {
        let mut places = label.match_indices(mark).map(|(at, _)| at + 1);
        places.rfind(|&at| fits(label[..at].trim_end()))
    };
    match breaks(',').or_else(|| breaks(' ')) {
        Some(at) => vec![label[..at].trim_end(), label[at..].trim_start()],
        None => vec![label],
    }
}

fn draw_segment(
    out: &mut Markup,
    segment: &Segment,
    shown: FormattedColumn,
    bar: &Bar,
    (start, end, y): (f64, f64, f64),
    shade: &str,
) {
    let width = (end - start - SEAM).max(0.4);
    let whole = bar.total_measured.unwrap_or_else(|| bar.sum());
    let share = if whole > 0.0 {
        format!(", {:.1} %", segment.value / whole * 100.0)
    } else {
        String::new()
    };
    let kind = match segment.kind {
        SegmentKind::Processing => ", processing",
        SegmentKind::Queueing => ", queueing",
        SegmentKind::Unattributed => "",
    };
    let value = typographic(&shown.with_unit(segment.value));
    let title = format!("{}: {value}{}{kind}", segment.label, typographic(&share));
    out.raw_format(format_args!(
        "<rect x=\"{}\" y=\"{}\" width=\"{width:.2}\" height=\"{BAR}\" {}{shade}><title>{}</title></rect>",
        at(start),
        at(y),
        palette::paint(segment.layer, segment.kind),
        escape(&title),
    ));
    let number = typographic(&shown.number(segment.value));
    let with_number = format!("{} {number}", segment.label);
    let fits = |text: &str| text_width(text, FONT - 1.0) + 10.0 <= width;
    let label = if fits(&with_number) {
        with_number
    } else if fits(&segment.label) {
        segment.label.clone()
    } else {
        return;
    };
    let (x, base) = (start + width / 2.0, y + BAR / 2.0 + FONT * 0.34);
    let class = match (segment.kind, segment.layer) {
        (SegmentKind::Processing, Some(layer)) => format!("on-{}", layer.name()),
        (SegmentKind::Unattributed, _) | (_, None) => "on-paper".to_owned(),
        (SegmentKind::Queueing, Some(_)) => {
            // Text cannot be read on hatching: it stands on a plate of the page's colour.
            let plate = text_width(&label, FONT - 1.0) + 6.0;
            out.raw_format(format_args!(
                "<rect class=\"plate\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"18\" rx=\"3\"/>",
                at(x - plate / 2.0),
                at(y + BAR / 2.0 - 9.0),
                at(plate),
            ));
            "on-paper".to_owned()
        }
    };
    out.raw_format(format_args!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" class=\"segment-label {class}\">{}</text>",
        at(x),
        at(base),
        escape(&label),
    ));
}

fn legend(out: &mut Markup, bars: &[Bar]) {
    let segments = || bars.iter().flat_map(|bar| &bar.segments);
    let used = |layer: &Layer| segments().any(|segment| segment.layer == Some(*layer));
    out.raw("<ul class=\"legend\">");
    for layer in Layer::ALL.into_iter().filter(used) {
        let own = || segments().filter(move |segment| segment.layer == Some(layer));
        let solid = own().any(|segment| segment.kind != SegmentKind::Queueing);
        let kind = if solid {
            SegmentKind::Processing
        } else {
            SegmentKind::Queueing
        };
        out.raw("<li>")
            .raw(&palette::swatch(Some(layer), kind))
            .text(layer.name())
            .raw("</li>");
    }
    if segments().any(|segment| segment.layer.is_none() && !is_part(segment)) {
        out.raw("<li>")
            .raw(&palette::swatch(None, SegmentKind::Unattributed))
            .raw("unattributed</li>");
    }
    if segments().all(is_part) {
        // Short ones carry no name.
        let longest = bars.iter().max_by_key(|bar| bar.segments.len());
        let names: Vec<&str> = longest
            .iter()
            .flat_map(|bar| &bar.segments)
            .map(|segment| segment.label.as_str())
            .collect();
        out.raw("<li>")
            .text(&format!("from the left: {}", names.join(", ")))
            .raw("</li></ul>\n");
        return;
    }
    out.raw(
        "<li class=\"key\"><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"key-solid\"/>\
         </svg>solid: processing</li><li><svg class=\"swatch\" \
         aria-hidden=\"true\"><path class=\"key-hatch\" d=\"M0 4L4 0M0 9L9 0M2 12L12 2M7 12L12 7\"/></svg>hatched: \
         queueing</li></ul>\n",
    );
}

/// Tells whether it is work of all layers, which its label names: a category of what is done.
fn is_part(segment: &Segment) -> bool {
    segment.layer.is_none() && segment.kind == SegmentKind::Processing
}

/// The figure in words, for those who cannot see it.
fn spoken(title: &str, bars: &[Bar], shown: FormattedColumn) -> String {
    let bar = |bar: &Bar| {
        let total = bar.total_measured.unwrap_or_else(|| bar.sum());
        let largest = bar
            .segments
            .iter()
            .max_by(|a, b| a.value.total_cmp(&b.value));
        let largest = largest.map_or(String::new(), |segment| {
            format!(
                ", the largest span is {} with {}",
                segment.label,
                shown.with_unit(segment.value)
            )
        });
        format!("{}: {}{largest}", bar.label, shown.with_unit(total))
    };
    let bars: Vec<String> = bars.iter().map(bar).collect();
    format!("Stacked bars. {title}. {}.", bars.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_labels_stand_on_two_lines_and_lose_nothing() {
        assert_eq!(label_lines("200 B, stack-memory"), ["200 B, stack-memory"]);
        assert_eq!(
            label_lines("1,400 B, kernel-loopback, 2 cores, blocking"),
            ["1,400 B, kernel-loopback,", "2 cores, blocking"]
        );
        assert_eq!(
            label_lines("checksum without any comma in its long name"),
            ["checksum without any", "comma in its long name"]
        );
        assert_eq!(label_lines(""), [""]);
    }

    #[test]
    fn labels_that_differ_at_their_ends_are_drawn_apart() {
        let bar = |mode: &str| Bar {
            label: format!("200 B, kernel-loopback, 2 cores, {mode}"),
            segments: Vec::new(),
            total_measured: Some(100.0),
        };
        let mut out = Markup::default();
        draw(
            &mut out,
            "Bars",
            Unit::Nanoseconds,
            &[bar("blocking"), bar("polling")],
        );
        let html = out.into_text();
        assert!(!html.contains('…'), "{html}");
        assert!(
            html.contains(">2 cores, blocking</tspan>")
                && html.contains(">2 cores, polling</tspan>")
        );
    }
}
