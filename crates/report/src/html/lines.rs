//! Lines over a common axis: labels at the lines' ends, confidence intervals as thin strokes, published numbers dashed.

use tollgate_run::{Axis, Interval, Point, Scale, Series};

use super::bars::tick_label;
use super::markup::{Markup, at, cut, escape, text_width};
use super::palette::LineStyles;
use super::{typographic, unit_name};
use crate::format::{FormattedColumn, alone};

const LEFT: f64 = 62.0;
const TOP: f64 = 34.0;
const FONT: f64 = 13.0;
/// Width of the semibold names of lines over that of regular text.
const BOLD: f64 = 1.12;
/// Most room for the names of lines.
const LABELS: f64 = 380.0;
/// Factor by which an axis exceeds the data.
const MARGIN: f64 = 1.04;
/// Factor by which an interval widens an axis beyond the points at most; the rest of it is cut off.
const REACH: f64 = 3.0;
/// A line in a panel with more points than this has no markers.
const MOST_MARKERS: usize = 16;
/// The least distance between the baselines of two labels.
const LABEL_PITCH: f64 = 19.0;
/// Above this number of distinct places on the horizontal axis, ticks stand at round numbers and not at the data.
const MOST_DATA_TICKS: usize = 14;

/// Sheet that a chart is drawn on.
#[derive(Clone, Copy)]
pub(super) struct Sheet {
    width: f64,
    height: f64,
    /// Tells whether lines bear their names at their ends; else a legend names them.
    named: bool,
}

impl Sheet {
    /// A figure of its own.
    pub(super) const WHOLE: Self = Self {
        width: 1000.0,
        height: 440.0,
        named: true,
    };
    /// One of several, side by side.
    pub(super) const PANEL: Self = Self {
        width: 480.0,
        height: 290.0,
        named: false,
    };

    /// The position of the horizontal axis.
    const fn bottom(self) -> f64 {
        self.height - 56.0
    }
}

/// Content of a figure of lines.
#[derive(Clone, Copy)]
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a Axis,
    pub(super) y: &'a Axis,
    pub(super) series: &'a [Series],
    /// Lines of other panels, which are within the axes, too.
    pub(super) context: &'a [Series],
    pub(super) background: Background<'a>,
}

/// Lines behind those of a figure.
#[derive(Clone, Copy)]
pub(super) enum Background<'a> {
    Nothing,
    /// The context, under this name for the panels beside it.
    Context(&'a str),
    /// The drawing of the first of the panels, which has this name and the same axes.
    Same(&'a str),
}

/// An axis ready to place values.
struct Placed {
    scale: Scale,
    low: f64,
    high: f64,
    /// The positions of `low` and `high` in the drawing.
    from: f64,
    to: f64,
    shown: FormattedColumn,
}

impl Placed {
    fn share(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
            Scale::Linear => (value - self.low) / (self.high - self.low),
        }
    }

    fn position(&self, value: f64) -> f64 {
        self.from + self.share(value) * (self.to - self.from)
    }

    /// Like [`Self::position`], but never outside the axis: for the ends of intervals.
    fn within(&self, value: f64) -> f64 {
        let value = if self.scale == Scale::Log {
            value.max(self.low)
        } else {
            value
        };
        self.position(value)
            .clamp(self.from.min(self.to), self.from.max(self.to))
    }
}

/// A chart with its axes placed; the labels stand to the right of `right`.
struct Frame<'a> {
    chart: Chart<'a>,
    x: Placed,
    y: Placed,
    right: f64,
    sheet: Sheet,
}

/// Draws the figure. Returns a remark for the caption, when points had to be left out.
pub(super) fn draw(
    out: &mut Markup,
    styles: &LineStyles,
    chart: Chart<'_>,
    sheet: Sheet,
) -> Option<String> {
    let lines: Vec<(&Series, Vec<Point>)> = chart
        .series
        .iter()
        .map(|line| (line, drawable(line, chart)))
        .filter(|(_, points)| !points.is_empty())
        .collect();
    let given: usize = chart.series.iter().map(|line| line.points.len()).sum();
    let drawn: usize = lines.iter().map(|(_, points)| points.len()).sum();
    if lines.is_empty() {
        out.raw("<p class=\"missing\">There is nothing to draw: no line has a point on these axes.</p>\n");
        return None;
    }
    let context: Vec<Vec<Point>> = chart
        .context
        .iter()
        .map(|line| drawable(line, chart))
        .collect();
    let all = || {
        let own = lines.iter().map(|(_, points)| points);
        own.chain(&context).flatten()
    };
    let (ys, beyond) = heights(chart.y, &all().copied().collect::<Vec<_>>());
    let y = place(chart.y, ys, sheet.bottom(), TOP, true);
    let label_room = match sheet.named {
        false => 0.0,
        true => lines
            .iter()
            .map(|(line, points)| label_width(line, points, y.shown))
            .fold(60.0, f64::max)
            .min(LABELS),
    };
    let right = sheet.width - label_room - 26.0;
    let xs: Vec<f64> = all().map(|point| point.x).collect();
    let x = place(chart.x, xs.clone(), LEFT + 12.0, right, false);
    let frame = Frame {
        chart,
        x,
        y,
        right,
        sheet,
    };
    out.raw_format(format_args!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Figure\"><svg class=\"chart lines\" \
         viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
        sheet.width,
        sheet.height,
        escape(&spoken(chart, &lines)),
    ));
    draw_axes(out, &frame, &x_ticks(chart.x, xs, &frame.x));
    let ends: Vec<f64> = lines
        .iter()
        .map(|(_, points)| frame.y.position(points[points.len() - 1].y))
        .collect();
    let label_ys = spread_labels(&ends, TOP, sheet.bottom());
    match chart.background {
        Background::Nothing => {}
        Background::Context(name) => {
            let drawn = context.iter().filter(|points| !points.is_empty());
            let paths: String = drawn.map(|points| path(points, &frame)).collect();
            out.raw_format(format_args!(
                "<path class=\"background\" id=\"{name}\" d=\"{paths}\"/>\n"
            ));
        }
        Background::Same(name) => {
            out.raw_format(format_args!("<use href=\"#{name}\"/>\n"));
        }
    }
    for ((line, points), label_y) in lines.iter().zip(label_ys) {
        out.raw_format(format_args!(
            "<g class=\"series {}{}\">",
            styles.class(&line.label),
            if line.published { " published" } else { "" },
        ));
        draw_line(out, styles, line, points, &frame);
        if sheet.named {
            draw_label(out, line, points, &frame, label_y);
        }
        out.raw("</g>\n");
    }
    out.raw("</svg></div>\n");
    let missing = given - drawn;
    let mut remarks = Vec::new();
    if missing > 0 {
        let points = if missing == 1 {
            "point is"
        } else {
            "points are"
        };
        remarks.push(format!(
            "{missing} {points} not drawn, having no place on these axes, which begin at zero or, logarithmic ones, above it."
        ));
    }
    if beyond {
        remarks
            .push("Intervals that reach far beyond the points are cut off at the axis.".to_owned());
    }
    (!remarks.is_empty()).then(|| remarks.join(" "))
}

/// The values that the vertical axis is to hold: the points, and the ends of their intervals as far as they reach; and whether one
/// reaches farther. An end at zero or below has no place on a logarithmic axis.
fn heights(axis: &Axis, points: &[Point]) -> (Vec<f64>, bool) {
    let mut heights: Vec<f64> = points.iter().map(|point| point.y).collect();
    let least = heights.iter().copied().fold(f64::INFINITY, f64::min) / REACH;
    let most = heights.iter().copied().fold(f64::NEG_INFINITY, f64::max) * REACH;
    let ends = points.iter().filter_map(|point| point.ci);
    let ends: Vec<f64> = ends
        .flat_map(|ci| [ci.low, ci.high])
        .filter(|end| has_place(axis, *end))
        .collect();
    let too_low = |end: f64| axis.scale == Scale::Log && end < least;
    let beyond = ends.iter().any(|&end| too_low(end) || end > most);
    heights.extend(ends.into_iter().map(|end| match too_low(end) {
        true => least,
        false => end.min(most),
    }));
    (heights, beyond)
}

/// Sizes that a figure can show; nothing that is measured lies outside, and inside no arithmetic here overflows.
const SIZES: std::ops::RangeInclusive<f64> = 1e-30..=1e30;

/// Tells whether the value can be drawn on the axis.
fn has_place(axis: &Axis, value: f64) -> bool {
    match axis.scale {
        Scale::Log => SIZES.contains(&value),
        Scale::Linear => value == 0.0 || SIZES.contains(&value),
    }
}

/// Tells whether any of the lines has a point with a place on the axes.
pub(super) fn have_place(series: &[Series], x: &Axis, y: &Axis) -> bool {
    let mut points = series.iter().flat_map(|line| &line.points);
    points.any(|point| has_place(x, point.x) && has_place(y, point.y))
}

/// The points that have a place on the axes; of intervals those that are numbers.
fn drawable(line: &Series, chart: Chart<'_>) -> Vec<Point> {
    let finite = |ci: &Interval| ci.low.is_finite() && ci.high.is_finite();
    line.points
        .iter()
        .filter(|point| has_place(chart.x, point.x) && has_place(chart.y, point.y))
        .map(|point| Point {
            ci: point.ci.filter(finite),
            ..*point
        })
        .collect()
}

/// Chooses the range of an axis: it ends at the data, `beyond` a little after it, and a linear one begins at zero.
fn place(axis: &Axis, values: Vec<f64>, from: f64, to: f64, beyond: bool) -> Placed {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = match axis.scale {
        Scale::Log if beyond => (MARGIN.recip() * least, MARGIN * most),
        Scale::Log => (least, most),
        Scale::Linear => (0.0, MARGIN * most.max(0.0)),
    };
    // One value alone stands in the middle.
    let (low, high) = match axis.scale {
        _ if low < high => (low, high),
        Scale::Log => (low / 2.0, high * 2.0),
        Scale::Linear => (low, low + 1.0),
    };
    // On a linear axis the large numbers take the room, so they choose the unit.
    let shown = match axis.scale {
        Scale::Log => FormattedColumn::choose(axis.unit, values),
        Scale::Linear => FormattedColumn::choose(axis.unit, [least.abs().max(most.abs())]),
    };
    Placed {
        scale: axis.scale,
        low,
        high,
        from,
        to,
        shown,
    }
}

/// The power of ten that is not above the value.
fn decade(value: f64) -> f64 {
    10_f64.powf(value.log10().floor())
}

/// 1, 2, 5 times powers of ten within the range; only the powers where that would be crowded.
fn log_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let within = |tick: &f64| *tick >= low * 0.999_999 && *tick <= high * 1.000_001;
    let decades = || {
        let count = (high.log10() - low.log10()).ceil() as i32 + 1;
        let first = low.log10().floor() as i32;
        (0..=count).map(move |at| 10_f64.powi(first + at))
    };
    let fine: Vec<f64> = decades()
        .flat_map(|d| [d, 2.0 * d, 5.0 * d])
        .filter(within)
        .collect();
    if fine.len() <= most {
        return fine;
    }
    let coarse: Vec<f64> = decades().filter(within).collect();
    let every = coarse.len().div_ceil(most).max(1);
    coarse.into_iter().step_by(every).collect()
}

/// A step of 1, 2, 2.5 or 5 times a power of ten that divides `length` into at most about `most` parts.
fn linear_step(length: f64, most: usize) -> f64 {
    if length <= 0.0 || !length.is_finite() {
        return 1.0;
    }
    let raw = length / most as f64;
    let decade = decade(raw);
    let factor = [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .find(|factor| factor * decade >= raw * 0.999_999);
    factor.unwrap_or(10.0) * decade
}

/// Round numbers from zero to at most `high`.
pub(super) fn linear_ticks(high: f64, most: usize) -> Vec<f64> {
    let step = linear_step(high, most);
    let count = (high / step * 1.000_001).floor() as usize;
    (0..=count).map(|at| at as f64 * step).collect()
}

/// Ticks at the data where they are few, else at round numbers; those whose labels would touch are left out.
fn x_ticks(axis: &Axis, mut xs: Vec<f64>, placed: &Placed) -> Vec<f64> {
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let ticks = match axis.scale {
        _ if xs.len() <= MOST_DATA_TICKS => xs,
        Scale::Log => log_ticks(placed.low, placed.high, 12),
        Scale::Linear => between(placed, 10),
    };
    let mut kept: Vec<f64> = Vec::new();
    let mut free_from = f64::NEG_INFINITY;
    for tick in ticks {
        let half = text_width(&tick_label(placed.shown, tick), FONT) / 2.0 + 4.0;
        let x = placed.position(tick);
        if x - half >= free_from {
            kept.push(tick);
            free_from = x + half;
        }
    }
    kept
}

/// Round numbers between the ends of a linear axis.
fn between(placed: &Placed, most: usize) -> Vec<f64> {
    let step = linear_step(placed.high - placed.low, most);
    let first = (placed.low / step * 0.999_999).ceil();
    let count = ((placed.high / step * 1.000_001).floor() - first).max(0.0) as usize;
    (0..=count).map(|at| (first + at as f64) * step).collect()
}

fn draw_axes(out: &mut Markup, frame: &Frame<'_>, x_ticks: &[f64]) {
    let Frame {
        chart,
        x,
        y,
        right,
        sheet,
    } = frame;
    let bottom = sheet.bottom();
    let y_ticks = match y.scale {
        Scale::Log => log_ticks(y.low, y.high, if sheet.named { 11 } else { 7 }),
        Scale::Linear => between(y, 6),
    };
    let end = at(right + 6.0);
    let rule = |tick: &f64| format!("M{LEFT} {}H{end}", at(y.position(*tick)));
    let rules: String = y_ticks.iter().map(rule).collect();
    let mark = |tick: &f64| format!("M{} {bottom}v5", at(x.position(*tick)));
    let marks: String = x_ticks.iter().map(mark).collect();
    out.raw_format(format_args!(
        "<g class=\"axis\"><path class=\"grid\" d=\"{rules}\"/><path class=\"base\" d=\"{marks}M{LEFT} {bottom}H{end}\"/>\
         <g text-anchor=\"end\">"
    ));
    for tick in y_ticks {
        out.raw_format(format_args!(
            "<text x=\"{}\" y=\"{}\">{}</text>",
            at(LEFT - 8.0),
            at(y.position(tick) + FONT * 0.35),
            escape(&tick_label(y.shown, tick)),
        ));
    }
    out.raw_format(format_args!(
        "<text class=\"axis-title\" x=\"{end}\" y=\"{}\">{}</text></g><g text-anchor=\"middle\">",
        at(bottom + 44.0),
        escape(&axis_title(chart.x, x.shown)),
    ));
    for tick in x_ticks {
        out.raw_format(format_args!(
            "<text x=\"{}\" y=\"{}\">{}</text>",
            at(x.position(*tick)),
            at(bottom + 20.0),
            escape(&tick_label(x.shown, *tick)),
        ));
    }
    out.raw_format(format_args!(
        "</g><text class=\"axis-title\" x=\"4\" y=\"14\">{}</text></g>\n",
        escape(&axis_title(chart.y, y.shown)),
    ));
}

fn axis_title(axis: &Axis, shown: FormattedColumn) -> String {
    match unit_name(shown.name) {
        "" => axis.label.clone(),
        unit => format!("{} ({unit})", axis.label),
    }
}

/// The points as a path.
fn path(points: &[Point], frame: &Frame<'_>) -> String {
    let point = |point: &Point| {
        let (x, y) = (frame.x.position(point.x), frame.y.position(point.y));
        format!("{} {}", at(x), at(y))
    };
    let points: Vec<String> = points.iter().map(point).collect();
    format!("M{}", points.join("L"))
}

fn draw_line(
    out: &mut Markup,
    styles: &LineStyles,
    line: &Series,
    points: &[Point],
    frame: &Frame<'_>,
) {
    let Frame {
        chart,
        x,
        y,
        right: _,
        sheet: _,
    } = frame;
    out.raw_format(format_args!(
        "<path class=\"stroke\" d=\"{}\"/>",
        path(points, frame)
    ));
    let interval = |point: &Point| {
        let ci = point.ci?;
        let (low, high) = (y.within(ci.low), y.within(ci.high));
        Some(format!(
            "M{} {}V{}",
            at(x.position(point.x)),
            at(low),
            at(high)
        ))
    };
    let intervals: String = points.iter().filter_map(interval).collect();
    if !intervals.is_empty() {
        out.raw_format(format_args!("<path class=\"interval\" d=\"{intervals}\"/>"));
    }
    if !frame.sheet.named && points.len() > MOST_MARKERS {
        return;
    }
    for point in points {
        let place = (x.position(point.x), y.position(point.y));
        let words = point_words(line, point, *chart, frame.sheet);
        out.raw(&styles.marker(&line.label, place, &words));
    }
}

fn point_words(line: &Series, point: &Point, chart: Chart<'_>, sheet: Sheet) -> String {
    let interval = point.ci.map_or(String::new(), |ci| {
        let shown = FormattedColumn::choose(chart.y.unit, [point.y]);
        format!(" ({} to {})", shown.number(ci.low), shown.number(ci.high))
    });
    let (x, y) = (alone(chart.x.unit, point.x), alone(chart.y.unit, point.y));
    let name = match sheet.named {
        true => format!("{}, ", line.label),
        // In a panel the legend tells it by its colour.
        false => String::new(),
    };
    format!("{name}{}: {}{interval}", typographic(&x), typographic(&y))
}

fn label_words(points: &[Point], shown: FormattedColumn) -> String {
    typographic(&shown.with_unit(points[points.len() - 1].y))
}

fn label_width(line: &Series, points: &[Point], shown: FormattedColumn) -> f64 {
    text_width(&line.label, FONT * BOLD) + text_width(&label_words(points, shown), FONT) + 8.0
}

/// The name at the line's end with its last value, joined to the end by a hairline where it had to move.
fn draw_label(out: &mut Markup, line: &Series, points: &[Point], frame: &Frame<'_>, label_y: f64) {
    let Frame {
        chart: _,
        x,
        y,
        right,
        sheet,
    } = frame;
    let last = points[points.len() - 1];
    let (end_x, end_y) = (x.position(last.x), y.position(last.y));
    if (label_y - end_y).abs() > 1.0 || right - end_x > 1.0 {
        let elbow = right + 6.0;
        out.raw_format(format_args!(
            "<path class=\"leader\" d=\"M{} {}L{} {}L{} {}\"/>",
            at(end_x + 6.0),
            at(end_y),
            at(elbow.max(end_x + 6.0)),
            at(end_y),
            at(right + 18.0),
            at(label_y),
        ));
    }
    let value = label_words(points, y.shown);
    let room = sheet.width - right - 24.0 - text_width(&value, FONT) - 8.0;
    out.raw_format(format_args!(
        "<text x=\"{}\" y=\"{}\"><title>{}</title><tspan class=\"name\">{}</tspan><tspan class=\"quiet\" \
         dx=\"7\">{}</tspan></text>",
        at(right + 21.0),
        at(label_y + FONT * 0.35),
        escape(&line.label),
        escape(&cut(&line.label, FONT * BOLD, room)),
        escape(&value),
    ));
}

/// Moves labels apart until none overlap, each as near to its place as the others allow, in the same order.
fn spread_labels(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let pitch = LABEL_PITCH.min((bottom - top) / wanted.len().max(1) as f64);
    // Groups of touching labels: each is (sum of the places wanted for its first label, number of labels).
    let mut groups: Vec<(f64, usize)> = Vec::new();
    let first_of = |group: &(f64, usize)| {
        let room = (group.1 - 1) as f64 * pitch;
        (group.0 / group.1 as f64).clamp(top, (bottom - room).max(top))
    };
    for label in &order {
        let mut group = (wanted[*label], 1);
        while let Some(above) = groups.last() {
            if first_of(above) + above.1 as f64 * pitch <= first_of(&group) {
                break;
            }
            // The lower group's labels want to be `above.1` places below the joint group's first.
            group = (
                above.0 + group.0 - (above.1 * group.1) as f64 * pitch,
                above.1 + group.1,
            );
            groups.pop();
        }
        groups.push(group);
    }
    let mut placed = vec![0.0; wanted.len()];
    let places = groups
        .iter()
        .flat_map(|group| (0..group.1).map(move |at| first_of(group) + at as f64 * pitch));
    for (label, place) in order.into_iter().zip(places) {
        placed[label] = place;
    }
    placed
}

/// The figure in words, for those who cannot see it.
fn spoken(chart: Chart<'_>, lines: &[(&Series, Vec<Point>)]) -> String {
    let line = |(line, points): &(&Series, Vec<Point>)| {
        let (first, last) = (points[0], points[points.len() - 1]);
        format!(
            "{}: {} at {}, {} at {}",
            line.label,
            alone(chart.y.unit, first.y),
            alone(chart.x.unit, first.x),
            alone(chart.y.unit, last.y),
            alone(chart.x.unit, last.x),
        )
    };
    let lines: Vec<String> = lines.iter().map(line).collect();
    format!("Lines. {}. {}.", chart.title, lines.join("; "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(a: &[f64], b: &[f64]) -> bool {
        a.len() == b.len()
            && a.iter()
                .zip(b)
                .all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs().max(1e-9))
    }

    #[test]
    fn ticks_are_round() {
        assert!(close(
            &log_ticks(100.0, 2_000.0, 11),
            &[100.0, 200.0, 500.0, 1_000.0, 2_000.0]
        ));
        assert!(close(
            &log_ticks(1.0, 1e6, 11),
            &[1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]
        ));
        assert!(close(
            &linear_ticks(7.3, 8),
            &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
        ));
        assert!(close(&linear_ticks(0.0, 8), &[0.0]));
    }

    #[test]
    fn axes_are_not_stretched_by_intervals_that_tell_nothing() {
        let axis = |scale| Axis {
            label: "y".to_owned(),
            unit: tollgate_run::Unit::Nanoseconds,
            scale,
        };
        let point = |y: f64, low: f64, high: f64| Point {
            x: 1.0,
            y,
            ci: Some(Interval { low, high }),
        };
        let (ys, beyond) = heights(
            &axis(Scale::Log),
            &[point(10.0, 1e-6, 1e14), point(20.0, 19.0, 22.0)],
        );
        assert!(beyond);
        assert!(
            close(&ys, &[10.0, 20.0, 10.0 / REACH, 60.0, 19.0, 22.0]),
            "{ys:?}"
        );
        let (ys, beyond) = heights(&axis(Scale::Linear), &[point(10.0, 0.0, 12.0)]);
        assert!(!beyond);
        assert!(close(&ys, &[10.0, 0.0, 12.0]), "{ys:?}");
    }

    #[test]
    fn labels_that_have_room_stay() {
        assert_eq!(spread_labels(&[200.0, 100.0], 0.0, 400.0), [200.0, 100.0]);
        assert_eq!(spread_labels(&[100.0, 100.0], 0.0, 400.0), [90.5, 109.5]);
        assert_eq!(spread_labels(&[400.0, 399.0], 0.0, 400.0), [400.0, 381.0]);
    }

    proptest! {
        #[test]
        fn labels_never_overlap_nor_leave_the_figure(wanted in prop::collection::vec(0.0_f64..400.0, 1..30)) {
            let placed = spread_labels(&wanted, 0.0, 400.0);
            let pitch = LABEL_PITCH.min(400.0 / wanted.len() as f64);
            let mut sorted = placed.clone();
            sorted.sort_by(f64::total_cmp);
            prop_assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= pitch - 1e-6), "{sorted:?}");
            prop_assert!(sorted[0] >= -1e-6 && sorted[sorted.len() - 1] <= 400.0 + 1e-6, "{sorted:?}");
        }

        #[test]
        fn log_ticks_lie_in_the_range_and_are_few(low in 1e-6_f64..1e6, ratio in 1.1_f64..1e9) {
            let ticks = log_ticks(low, low * ratio, 11);
            prop_assert!(ticks.len() <= 12);
            prop_assert!(ticks.iter().all(|tick| *tick >= low * 0.999 && *tick <= low * ratio * 1.001));
        }

        #[test]
        fn a_step_divides_a_length_into_few_parts(length in 1e-9_f64..1e12) {
            let parts = length / linear_step(length, 6);
            prop_assert!((2.0..=6.001).contains(&parts), "{parts}");
        }
    }
}
