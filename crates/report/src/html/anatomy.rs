//! The anatomy of a round trip: a bar for each path and mode, all to one scale, its parts in the order of the way, waiting hatched;
//! a bar that is short is drawn again under a magnifier.

use tollgate_analysis::summary::{Anatomy, RoundTrip, Stage};
use tollgate_run::{Layer, SegmentKind, Unit, format};

use super::markup::{Markup, at, escape, text_width};
use super::{palette, typographic};
use crate::format::{FormattedColumn, alone, signed_percent};

const WIDTH: f64 = 1000.0;
const BAR: f64 = 26.0;
const FONT: f64 = 13.0;
/// A bar shorter than this share of the width is drawn again, magnified.
const SHORT: f64 = 0.34;
/// From the line of a name to the line of its parts.
const LINE: f64 = 18.0;
/// Between a bar and its magnified form.
const LENS: f64 = 22.0;
/// From one round trip to the next.
const GAP: f64 = 22.0;
/// Kept free at the right for the residual of a bar whose spans sum to more.
const MARGIN: f64 = 4.0;

/// Draws the legend and the bars; the remark is for the caption.
pub(super) fn draw(out: &mut Markup, anatomy: &Anatomy) -> Option<String> {
    let longest = anatomy.round_trips.iter().map(extent).fold(0.0, f64::max);
    if longest <= 0.0 || !longest.is_finite() {
        out.raw("<p class=\"missing\">There is nothing to draw: no round trip has a length.</p>\n");
        return None;
    }
    legend(out);
    let mut drawing = Markup::default();
    let mut y = 4.0;
    for one in &anatomy.round_trips {
        y = round_trip(&mut drawing, one, longest, y) + GAP;
    }
    out.raw_format(format_args!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Figure\"><svg class=\"chart anatomy\" \
         viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">\n",
        at(y - GAP + 6.0),
        escape(&spoken(anatomy)),
    ));
    out.raw(&drawing.into_text()).raw("</svg></div>\n");
    let remark =
        "These round trips are those of the ledgers, measured separately from those by size.";
    let marked = anatomy.round_trips.iter().any(|one| one.open_ns.is_some());
    let gates = match anatomy.round_trips.iter().any(|one| one.disabled_ns > 0.0) {
        true => {
            " Disabled gates are measuring code that is off: spans include it, the round trip does not."
        }
        false => "",
    };
    Some(if marked {
        format!(
            "Dashed: what the ledger leaves open of the round trip without gates. An upright stroke marks that round trip where \
             the spans sum to more. A share is a range, since what is left open may belong to any part.{gates} {remark}"
        )
    } else {
        remark.to_owned()
    })
}

/// The bars as an SVG document of its own, with their legend.
pub(super) fn standalone(anatomy: &Anatomy, style: &str) -> String {
    let longest = anatomy.round_trips.iter().map(extent).fold(0.0, f64::max);
    let mut drawing = Markup::default();
    let mut x = 0.0;
    for part in Stage::ALL {
        drawing.raw_format(format_args!(
            "<rect x=\"{}\" y=\"6\" width=\"12\" height=\"12\" rx=\"2\" {}/><text x=\"{}\" y=\"16\">{}</text>\n",
            at(x),
            paint(part),
            at(x + 18.0),
            part.name(),
        ));
        x += 40.0 + text_width(part.name(), FONT);
    }
    drawing.raw_format(format_args!(
        "<text x=\"{}\" y=\"16\" class=\"quiet\">hatched: waiting · dashed: left open</text>\n",
        at(x)
    ));
    let mut y = 34.0;
    for one in &anatomy.round_trips {
        y = round_trip(&mut drawing, one, longest, y) + GAP;
    }
    let title = format!(
        "Where a round trip of {} goes, to scale",
        format::bytes(anatomy.size)
    );
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"-12 -34 {} {}\" role=\"img\" \
         aria-label=\"{}\">\n<style>{style}</style>\n{}<text x=\"0\" y=\"-10\" class=\"bar-label\">{title}</text>\n{}</svg>\n",
        WIDTH + 24.0,
        at(y + 30.0),
        escape(&spoken(anatomy)),
        palette::hatching(),
        drawing.into_text(),
    )
}

fn extent(one: &RoundTrip) -> f64 {
    one.total.value.max(one.lengths().iter().sum())
}

/// The colour of a part; one in every figure.
const fn paint_of(part: Stage) -> Option<(Layer, SegmentKind)> {
    match part {
        Stage::Application => None,
        Stage::Socket => Some((Layer::Socket, SegmentKind::Processing)),
        Stage::Tcp => Some((Layer::Tcp, SegmentKind::Processing)),
        Stage::Ip => Some((Layer::Ip, SegmentKind::Processing)),
        Stage::Driver => Some((Layer::Driver, SegmentKind::Processing)),
        Stage::DeviceQueue => Some((Layer::Device, SegmentKind::Queueing)),
        Stage::IpQueue => Some((Layer::Link, SegmentKind::Queueing)),
        Stage::Wakeup => Some((Layer::Scheduler, SegmentKind::Queueing)),
    }
}

fn paint(part: Stage) -> String {
    paint_of(part).map_or_else(
        || "class=\"fill-application\"".to_owned(),
        |(layer, kind)| palette::paint(Some(layer), kind),
    )
}

fn legend(out: &mut Markup) {
    out.raw("<ul class=\"legend\">");
    for part in Stage::ALL {
        out.raw_format(format_args!(
            "<li><svg class=\"swatch\" aria-hidden=\"true\"><rect {}/></svg>{}</li>",
            paint(part),
            part.name(),
        ));
    }
    out.raw("<li class=\"key\">hatched: waiting</li><li>dashed: left open</li></ul>\n");
}

/// Draws one round trip from `y` down; returns where it ends.
fn round_trip(out: &mut Markup, one: &RoundTrip, longest: f64, y: f64) -> f64 {
    let shown = FormattedColumn::choose(Unit::Nanoseconds, [one.total.value]);
    let mut total = shown.with_unit(one.total.value);
    if let Some(ci) = one.total.ci {
        total = format!("{total} {}", shown.error(one.total.value, ci));
    }
    out.raw_format(format_args!(
        "<text x=\"0\" y=\"{}\"><tspan class=\"bar-label\">{}</tspan><tspan dx=\"10\" class=\"bar-total\">{}</tspan>",
        at(y + FONT),
        escape(&format!("{}, {}", one.path, one.mode.words())),
        escape(&typographic(&total)),
    ));
    // The shares of three parts are too long for the line of the name.
    let place = match one.stretches.is_empty() {
        true => "dx=\"14\"".to_owned(),
        false => format!("x=\"0\" dy=\"{}\"", at(LINE)),
    };
    out.raw_format(format_args!(
        "<tspan {place} class=\"quiet\">{}</tspan></text>\n",
        escape(&typographic(&largest(one))),
    ));
    let second_line = if one.stretches.is_empty() { 0.0 } else { LINE };
    let top = y + FONT + second_line + 8.0;
    let width = (WIDTH - MARGIN) * extent(one) / longest;
    bar(out, one, (0.0, top, width.max(1.0)), BAR);
    if one.stretches.is_empty() || width >= SHORT * WIDTH {
        return top + BAR;
    }
    let below = top + BAR + LENS;
    let full = WIDTH - MARGIN;
    out.raw_format(format_args!(
        "<path class=\"lens\" d=\"M0 {0}H{1}L{2} {3}H0Z\"/>",
        at(top + BAR),
        at(width.max(1.0)),
        at(full),
        at(below),
    ));
    let times = format!(
        "magnified {} times",
        format::whole((full / width).round() as u64)
    );
    out.raw_format(format_args!(
        "<text x=\"{}\" y=\"{}\" class=\"quiet\">{times}</text>\n",
        // At the left, where a narrow screen begins.
        at(width + 12.0),
        at(top + BAR + LENS - 6.0),
    ));
    bar(out, one, (0.0, below, full), BAR);
    below + BAR
}

/// A bar of this length; parts that have room bear their name.
fn bar(out: &mut Markup, one: &RoundTrip, (left, top, width): (f64, f64, f64), height: f64) {
    let scale = width / extent(one);
    let mut from = left;
    if one.stretches.is_empty() {
        out.raw_format(format_args!(
            "<rect class=\"fill-rest\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{height}\"/>\n",
            at(left),
            at(top),
            at(width.max(1.5)),
        ));
        return;
    }
    out.raw("<g class=\"bar\">\n");
    for (stretch, length) in one.stretches.iter().zip(one.lengths()) {
        let wide = length * scale;
        let value = alone(Unit::Nanoseconds, stretch.ns);
        let title = format!(
            "{}: {} ({})",
            stretch.part.name(),
            typographic(&value),
            stretch.spans.join(", ")
        );
        out.raw_format(format_args!(
            "<rect x=\"{:.2}\" y=\"{}\" width=\"{:.2}\" height=\"{height}\" {}><title>{}</title></rect>",
            from,
            at(top),
            (wide - 1.0).max(0.3),
            paint(stretch.part),
            escape(&title),
        ));
        let name = stretch.part.name();
        if text_width(name, FONT - 1.0) + 12.0 <= wide {
            label(out, stretch.part, name, (from + wide / 2.0, top), height);
        }
        out.raw("\n");
        from += wide;
    }
    out.raw("</g>\n");
    let end = left + one.total.value * scale;
    if end - from > 1.0 {
        out.raw_format(format_args!(
            "<rect class=\"residual\" x=\"{:.2}\" y=\"{}\" width=\"{:.2}\" height=\"{}\"/>\n",
            from,
            at(top + 0.5),
            end - from,
            at(height - 1.0),
        ));
    } else if from - end > 1.0 {
        out.raw_format(format_args!(
            "<path class=\"total-mark\" d=\"M{:.2} {}v{}\"/>\n",
            end,
            at(top - 4.0),
            at(height + 8.0),
        ));
    }
}

fn label(out: &mut Markup, part: Stage, name: &str, (middle, top): (f64, f64), height: f64) {
    let class = match paint_of(part) {
        Some((layer, SegmentKind::Processing)) => format!("on-{}", layer.name()),
        Some(_) => {
            // Text cannot be read on hatching: it stands on a plate of the page's colour.
            let plate = text_width(name, FONT - 1.0) + 8.0;
            out.raw_format(format_args!(
                "<rect class=\"plate\" x=\"{:.1}\" y=\"{}\" width=\"{:.1}\" height=\"18\" rx=\"3\"/>",
                middle - plate / 2.0,
                at(top + height / 2.0 - 9.0),
                plate,
            ));
            "on-paper".to_owned()
        }
        None => "on-application".to_owned(),
    };
    out.raw_format(format_args!(
        "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\" class=\"segment-label {class}\">{name}</text>",
        middle,
        at(top + height / 2.0 + FONT * 0.34),
    ));
}

/// The three largest parts and what is left open, in words.
fn largest(one: &RoundTrip) -> String {
    if one.stretches.is_empty() {
        return "no ledger: the round trip alone".to_owned();
    }
    let words = one.largest_stages().into_iter().map(|(part, ns)| {
        let share = one.share_in_words(part);
        let share = share.map_or(String::new(), |share| format!(" ({share})"));
        format!("{} {}{share}", part.name(), alone(Unit::Nanoseconds, ns))
    });
    let mut words: Vec<String> = words.collect();
    let share = |ns: f64| signed_percent(ns / one.total.value);
    if one.disabled_ns > 0.0 {
        words.push(format!("disabled gates {}", share(one.disabled_ns)));
    }
    words.extend(one.open_ns.map(|open| format!("left open {}", share(open))));
    words.join(" · ")
}

/// The figure in words, for those who cannot see it.
fn spoken(anatomy: &Anatomy) -> String {
    let one = |one: &RoundTrip| {
        format!(
            "{}, {}: {}, {}",
            one.path,
            one.mode.words(),
            alone(Unit::Nanoseconds, one.total.value),
            largest(one)
        )
    };
    let all: Vec<String> = anatomy.round_trips.iter().map(one).collect();
    format!(
        "Bars. Where a round trip of {} goes. {}.",
        format::bytes(anatomy.size),
        all.join("; ")
    )
}
