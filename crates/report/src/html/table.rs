//! Tables: numbers at the right with their points under each other and their errors beside them, units under the headings, remarks
//! underneath. The first table of an experiment has percentiles on hovering. In folded tables they would be up to a third of the bytes;
//! they are in the run's JSON.

use tollgate_run::{Cell, Measured, Row, RowKind, SegmentKind, Table};

use super::markup::{Markup, capitalised, escape};
use super::{micro, palette, typographic, unit_name};
use crate::cells::{Footnotes, formatted_columns};
use crate::format::{FormattedColumn, fraction_width, group_thousands};

/// Text that cells show on hovering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hover {
    /// Mean and percentiles, where a cell has them.
    Percentiles,
    /// None.
    Nothing,
}

pub(super) fn draw(out: &mut Markup, number: usize, table: &Table, hover: Hover) {
    let shown = formatted_columns(table);
    let notes = Footnotes::of(table);
    let fractions: Vec<usize> = (0..table.columns.len())
        .map(|at| widest_fraction(table, at, shown[at]))
        .collect();
    out.raw_format(format_args!(
        "<div class=\"table\" id=\"table-{number}\">\n<p class=\"caption\" id=\"caption-{number}\"><b>Table {number}</b> {}</p>\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" \
         aria-labelledby=\"caption-{number}\">\n<table aria-labelledby=\"caption-{number}\">\n<thead><tr><td></td>",
        escape(&table.title)
    ));
    for (column, shown) in table.columns.iter().zip(&shown) {
        out.raw("<th scope=\"col\">").text(&column.name);
        if !shown.name.is_empty() {
            out.raw_format(format_args!(
                "<span class=\"unit\">{}</span>",
                escape(unit_name(shown.name))
            ));
        }
        out.raw("</th>");
    }
    out.raw("</tr></thead>\n<tbody>\n");
    for (row, marks) in table.rows.iter().zip(&notes.rows) {
        row_label(out, row, table.columns.len() + 1, marks.label);
        for (at, (cell, mark)) in row.cells.iter().zip(&marks.cells).enumerate() {
            if let (Some(shown), Some(fraction)) = (shown.get(at), fractions.get(at)) {
                draw_cell(out, cell, *shown, *fraction, (*mark, hover));
            }
        }
        out.raw("</tr>\n");
    }
    out.raw("</tbody>\n</table>\n</div>\n");
    if !notes.texts.is_empty() {
        out.raw("<ol class=\"notes\">\n");
        for note in &notes.texts {
            out.element("li", &capitalised(note)).raw("\n");
        }
        out.raw("</ol>\n");
    }
    out.raw("</div>\n");
}

/// The start of a row with its label: the colour of its layer, its kind, its footnote, and its remark underneath.
fn row_label(out: &mut Markup, row: &Row, width: usize, mark: Option<usize>) {
    let class = match row.kind {
        _ if row.cells.is_empty() => "heading",
        RowKind::Total => "sum",
        RowKind::Unattributed => "unattributed",
        _ => "",
    };
    if class.is_empty() {
        out.raw("<tr>");
    } else {
        out.raw_format(format_args!("<tr class=\"{class}\">"));
    }
    out.raw("<th scope=\"row\"");
    if row.cells.is_empty() {
        out.raw_format(format_args!(" colspan=\"{width}\""));
    }
    if row.depth > 0 {
        out.raw_format(format_args!(" style=\"--depth:{}\"", row.depth.min(8)));
    }
    out.raw(">");
    let segment = match row.kind {
        RowKind::Processing => row.layer.map(|_| SegmentKind::Processing),
        RowKind::Queueing => row.layer.map(|_| SegmentKind::Queueing),
        RowKind::Unattributed => Some(SegmentKind::Unattributed),
        RowKind::Total | RowKind::Plain => None,
    };
    if let Some(kind) = segment {
        out.raw(&palette::swatch(row.layer, kind));
    }
    out.text(&row.label);
    match row.kind {
        RowKind::Processing => out.raw(" <span class=\"spoken\">processing</span>"),
        RowKind::Queueing => out.raw(" <span class=\"kind\">queueing</span>"),
        _ => out,
    };
    if let Some(mark) = mark {
        out.raw_format(format_args!("<sup>{mark}</sup>"));
    }
    if let Some(note) = &row.note {
        let class = if segment.is_some() {
            "note beside"
        } else {
            "note"
        };
        out.raw_format(format_args!(
            "<span class=\"{class}\">{}</span>",
            escape(&note.replace("->", "→"))
        ));
    }
    out.raw("</th>");
}

fn draw_cell(
    out: &mut Markup,
    cell: &Cell,
    shown: FormattedColumn,
    fraction: usize,
    (mark, hover): (Option<usize>, Hover),
) {
    let mark = mark.map_or(String::new(), |mark| format!("<sup>{mark}</sup>"));
    match cell {
        Cell::Value(measured) => {
            let title = match hover {
                Hover::Percentiles => percentiles(measured, shown),
                Hover::Nothing => String::new(),
            };
            match title.is_empty() {
                true => out.raw("<td>"),
                false => out.raw_format(format_args!("<td title=\"{}\">", escape(&title))),
            };
            out.text(&aligned(&shown.number(measured.value), fraction));
            if let Some(ci) = measured.ci {
                let error = typographic(&shown.error(measured.value, ci));
                out.raw("<small>").text(&error).raw("</small>");
            }
        }
        Cell::Published { value, .. } => {
            out.raw("<td class=\"published\">")
                .text(&aligned(&shown.number(*value), fraction))
                .raw(&mark);
        }
        Cell::NotAvailable { .. } => {
            out.raw("<td class=\"missing\">n/a").raw(&mark);
        }
        Cell::Text { text } => {
            out.raw("<td class=\"words\">").text(&micro(text));
        }
    }
    out.raw("</td>");
}

/// The number with as much blank behind it as brings its point under that of the others: a figure space is as wide as
/// a digit, a punctuation space as wide as a point.
fn aligned(number: &str, fraction: usize) -> String {
    let own = fraction_width(number);
    let mut text = typographic(number);
    if own == 0 && fraction > 0 {
        text.push('\u{2008}');
    }
    let digits = fraction.saturating_sub(own.max(1));
    text.extend(std::iter::repeat_n('\u{2007}', digits));
    text
}

fn widest_fraction(table: &Table, at: usize, shown: FormattedColumn) -> usize {
    let number = |row: &Row| Some(fraction_width(&shown.number(row.cells.get(at)?.number()?)));
    table.rows.iter().filter_map(number).max().unwrap_or(0)
}

/// The mean and the percentiles of a cell, where it holds them: its error stands beside it.
fn percentiles(measured: &Measured, shown: FormattedColumn) -> String {
    let Measured {
        mean,
        p99,
        p99_9,
        n,
        ..
    } = measured;
    if p99.is_none() {
        return String::new();
    }
    let mut parts = Vec::new();
    for (name, part) in [("mean", mean), ("p99", p99), ("p99.9", p99_9)] {
        if let Some(part) = part {
            parts.push(format!("{name} {}", typographic(&shown.with_unit(*part))));
        }
    }
    if let Some(n) = n {
        parts.push(format!("n = {}", group_thousands(&n.to_string())));
    }
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_bring_the_points_under_each_other() {
        assert_eq!(aligned("0.340", 4), "0.340");
        assert_eq!(aligned("14.1", 4), "14.1\u{2007}\u{2007}");
        assert_eq!(aligned("1,234", 4), "1,234\u{2008}\u{2007}\u{2007}\u{2007}");
        assert_eq!(aligned("-7", 0), "−7");
    }
}
