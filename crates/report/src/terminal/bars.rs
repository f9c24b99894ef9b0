//! Stacked bars in block characters: solid for processing, shaded for queueing.
//!
//! One bar is drawn span by span with numbers; several are drawn one line each, because the table beside them has the
//! numbers already.

use tollgate_run::{Bar, Segment, SegmentKind, Unit};

use super::{Ink, Page, clean, pad_left, pad_right, width};
use crate::format::{FormattedColumn, signed_percent};

/// The least room for bars, in characters.
const LEAST: usize = 10;

impl Page {
    pub(super) fn bars(&mut self, title: &str, unit: Unit, bars: &[Bar]) {
        self.line("");
        self.wrap(Ink::Bold, "", 0, title);
        let extents = bars.iter().map(extent);
        let shown = FormattedColumn::choose(unit, extents);
        match bars {
            [bar] => self.one_bar(bar, shown),
            bars => self.many_bars(bars, shown),
        }
    }

    /// A line for each span: name, length as a bar, number, share, kind.
    fn one_bar(&mut self, bar: &Bar, shown: FormattedColumn) {
        let total = bar.total_measured.unwrap_or_else(|| bar.sum());
        let name_width = bar
            .segments
            .iter()
            .map(|s| width(&s.label))
            .max()
            .unwrap_or(0)
            .max(12);
        let longest = bar.segments.iter().map(|s| s.value).fold(0.0, f64::max);
        let room = self.width.saturating_sub(name_width + 42).clamp(4, 60);
        for segment in &bar.segments {
            let length = cells(segment.value, longest, room);
            let blocks = solid_or_shaded(segment.kind).to_string().repeat(length);
            let kind = kind_name(segment.kind);
            let mut line = format!("  {}", pad_right(&clean(&segment.label), name_width));
            line += &format!("  {}", self.ink(ink(segment), &pad_right(&blocks, room)));
            line += &pad_left(&shown.with_unit(segment.value), 11);
            line += &pad_left(&share(segment.value, total), 9);
            line += &format!("   {kind}");
            self.line(&line);
        }
        let closing = closing(bar, shown);
        self.wrap(Ink::Plain, "  ", 2, &closing);
    }

    /// A line for each bar, all on one scale.
    fn many_bars(&mut self, bars: &[Bar], shown: FormattedColumn) {
        let label_width = bars.iter().map(|bar| width(&bar.label)).max().unwrap_or(0);
        let closings: Vec<String> = bars.iter().map(|bar| closing(bar, shown)).collect();
        let closing_width = closings.iter().map(|text| width(text)).max().unwrap_or(0);
        let beside = self.width.saturating_sub(label_width + closing_width + 6);
        // Where there is no room beside them, labels stand above their bars.
        let above = beside < LEAST;
        let room = if above {
            self.width.saturating_sub(closing_width + 4).max(1)
        } else {
            beside
        };
        let longest = bars.iter().map(extent).fold(0.0, f64::max);
        for (bar, closing) in bars.iter().zip(&closings) {
            let mut line = if above {
                self.wrap(Ink::Plain, "  ", 2, &bar.label);
                "  ".to_owned()
            } else {
                format!("  {}  ", pad_left(&clean(&bar.label), label_width))
            };
            let mut drawn = 0;
            let mut sum = 0.0;
            for segment in &bar.segments {
                sum += segment.value;
                // The ends are rounded, not the lengths, so that rounding errors do not add up.
                let end = cells(sum, longest, room);
                let length = end.saturating_sub(drawn);
                drawn = drawn.max(end);
                line += &self.ink(ink(segment), &blocks(segment.kind, length));
            }
            line += &" ".repeat(room.saturating_sub(drawn));
            self.line(&format!("{line}  {closing}"));
        }
        self.legend(bars);
    }

    /// The order of the spans in the bars, and what the characters mean.
    fn legend(&mut self, bars: &[Bar]) {
        let mut parts: Vec<(SegmentKind, String)> = Vec::new();
        for segment in bars.iter().flat_map(|bar| &bar.segments) {
            let part = (segment.kind, clean(&segment.label));
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        let parts: Vec<String> = parts
            .iter()
            .map(|(kind, label)| format!("{} {label}", solid_or_shaded(*kind)))
            .collect();
        self.wrap(
            Ink::Faint,
            "  ",
            2,
            &format!("from the left: {}", parts.join("  ")),
        );
        self.wrap(
            Ink::Faint,
            "  ",
            2,
            "▇ processing  ▒ queueing  ░ unattributed",
        );
    }
}

fn extent(bar: &Bar) -> f64 {
    bar.sum().max(bar.total_measured.unwrap_or(0.0))
}

/// Count of characters that stand for the value. A value above zero takes at least one when it stands alone.
fn cells(value: f64, longest: f64, room: usize) -> usize {
    if longest <= 0.0 || value <= 0.0 {
        return 0;
    }
    let exact = (value / longest).min(1.0) * room as f64;
    (exact.round() as usize).max(1)
}

/// A run of blocks. The last solid block is narrower, so that neighbours can be told apart without colours.
fn blocks(kind: SegmentKind, length: usize) -> String {
    match (kind, length) {
        (_, 0) => String::new(),
        (SegmentKind::Processing, length) => "█".repeat(length - 1) + "▉",
        (kind, length) => solid_or_shaded(kind).to_string().repeat(length),
    }
}

fn solid_or_shaded(kind: SegmentKind) -> char {
    match kind {
        SegmentKind::Processing => '▇',
        SegmentKind::Queueing => '▒',
        SegmentKind::Unattributed => '░',
    }
}

fn kind_name(kind: SegmentKind) -> &'static str {
    match kind {
        SegmentKind::Processing => "processing",
        SegmentKind::Queueing => "queueing",
        SegmentKind::Unattributed => "unattributed",
    }
}

fn ink(segment: &Segment) -> Ink {
    segment.layer.map_or(Ink::Faint, Ink::Of)
}

fn share(value: f64, total: f64) -> String {
    if total > 0.0 {
        format!("{:.1} %", value / total * 100.0)
    } else {
        String::new()
    }
}

/// The total of the bar, and its unattributed part. Parts that are in no layer are no spans.
fn closing(bar: &Bar, shown: FormattedColumn) -> String {
    match (bar.total_measured, bar.residual()) {
        (Some(total), Some(residual)) if total > 0.0 => {
            format!(
                "{}, residual {}",
                shown.with_unit(total),
                signed_percent(residual / total)
            )
        }
        _ if bar.segments.iter().any(|part| part.layer.is_some()) => {
            format!("{}, sum of spans", shown.with_unit(bar.sum()))
        }
        _ => shown.with_unit(bar.sum()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_end_in_a_narrower_block() {
        assert_eq!(blocks(SegmentKind::Processing, 3), "██▉");
        assert_eq!(blocks(SegmentKind::Queueing, 2), "▒▒");
        assert_eq!(blocks(SegmentKind::Processing, 0), "");
    }

    #[test]
    fn what_is_not_zero_can_be_seen() {
        assert_eq!(cells(0.001, 100.0, 40), 1);
        assert_eq!(cells(0.0, 100.0, 40), 0);
        assert_eq!(cells(100.0, 100.0, 40), 40);
        assert_eq!(cells(1.0, 0.0, 40), 0);
    }
}
