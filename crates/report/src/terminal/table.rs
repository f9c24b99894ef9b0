//! Tables in columns: decimal points under each other, units under the headings, remarks underneath.
//!
//! A table that is wider than the terminal is cut into blocks that repeat the row labels; nothing is left out.

use std::collections::BTreeSet;
use std::ops::Range;

use tollgate_run::{Cell, Row, RowKind, Table};

use super::{GAP, Ink, Page, clean, pad_left, pad_right, width, wrap_words};
use crate::cells::{Footnotes, formatted_columns};
use crate::format::{FormattedColumn, fraction_width};

/// One column ready to print: the heading, the unit and a text for each row.
struct Texts {
    name: String,
    unit: &'static str,
    /// Aligned at the decimal point, all of one width.
    cells: Vec<String>,
}

/// One row label with the row's manner.
struct Label {
    mark: &'static str,
    mark_ink: Ink,
    text: String,
    ink: Ink,
    note: String,
}

impl Page {
    pub(super) fn table(&mut self, table: &Table) {
        self.line("");
        self.wrap(Ink::Bold, "", 0, &table.title);
        let shown = formatted_columns(table);
        let notes = Footnotes::of(table);
        let spans = table.rows.iter().any(|row| is_span(row.kind));
        let mut labels: Vec<Label> = Vec::new();
        let mut texts: Vec<Vec<CellText>> = vec![Vec::new(); table.columns.len()];
        for (row, marks) in table.rows.iter().zip(&notes.rows) {
            labels.push(label(row, spans, marks.label));
            // Those of single spans are left to the other renderers, because they would double the length of a ledger.
            let p99 = !is_span(row.kind) && row.cells.iter().any(|cell| p99(cell).is_some());
            if p99 {
                labels.push(label_of_p99(row, spans));
            }
            for (at, texts) in texts.iter_mut().enumerate() {
                let cell = row.cells.get(at).zip(marks.cells.get(at));
                texts.push(cell.map_or_else(CellText::default, |(cell, mark)| {
                    cell_text(cell, shown[at], *mark)
                }));
                if p99 {
                    let number = row.cells.get(at).and_then(self::p99);
                    let number = number.map_or_else(String::new, |ns| shown[at].number(ns));
                    texts.push(CellText {
                        number,
                        ..CellText::default()
                    });
                }
            }
        }
        let columns: Vec<Texts> = table
            .columns
            .iter()
            .zip(&shown)
            .zip(texts)
            .map(|((column, shown), texts)| Texts {
                name: clean(&column.name),
                unit: shown.name,
                cells: align(texts),
            })
            .collect();
        self.blocks(&labels, &columns);
        if spans {
            let legend = "▇ processing   ▒ queueing";
            let legend = self.ink(Ink::Faint, &format!("  {legend}"));
            self.line(&legend);
        }
        for (at, note) in notes.texts.iter().enumerate() {
            self.wrap(Ink::Faint, &format!("  [{}] ", at + 1), 6, note);
        }
    }

    /// Prints the columns, in as many blocks as the width demands.
    fn blocks(&mut self, labels: &[Label], columns: &[Texts]) {
        let widths: Vec<usize> = columns.iter().map(column_width).collect();
        // A label that leaves no room for a column is broken into several lines.
        let room = widths.iter().max().map_or(0, |widest| GAP + widest);
        let label_width = labels
            .iter()
            .map(|l| width(l.mark) + width(&l.text))
            .max()
            .unwrap_or(0)
            .min(self.width.saturating_sub(room))
            .max(8);
        let note_width = labels
            .iter()
            .map(|label| width(&label.note))
            .max()
            .unwrap_or(0);
        let ranges = fit_evenly(&widths, self.width.saturating_sub(label_width));
        let last = ranges.len().saturating_sub(1);
        let mut notes_shown = note_width == 0;
        for (at, range) in ranges.into_iter().enumerate() {
            let used = label_width
                + range
                    .clone()
                    .map(|column| GAP + widths[column])
                    .sum::<usize>();
            let with_notes = at == last && note_width > 0 && used + GAP + note_width <= self.width;
            notes_shown |= with_notes;
            self.block(labels, columns, &widths, range, label_width, with_notes);
        }
        if !notes_shown {
            // Tables of several paths have the same row for each of them: it is explained once.
            let mut explained = BTreeSet::new();
            let noted = labels.iter().filter(|label| !label.note.is_empty());
            for label in
                noted.filter(|label| explained.insert((label.text.trim_start(), &label.note)))
            {
                let lead = format!("  {}: ", label.text.trim_start());
                let hang = width(&lead).min(self.width / 2);
                self.wrap(Ink::Faint, &lead, hang, &label.note);
            }
        }
    }

    fn block(
        &mut self,
        labels: &[Label],
        columns: &[Texts],
        widths: &[usize],
        range: Range<usize>,
        label_width: usize,
        with_notes: bool,
    ) {
        let header = |text: fn(&Texts) -> &str| {
            let mut line = " ".repeat(label_width);
            for at in range.clone() {
                line += &" ".repeat(GAP);
                line += &pad_left(text(&columns[at]), widths[at]);
            }
            line
        };
        for line in [header(|column| &column.name), header(|column| column.unit)] {
            if !line.trim().is_empty() {
                let line = self.ink(Ink::Faint, line.trim_end());
                self.line(&line);
            }
        }
        for (row, label) in labels.iter().enumerate() {
            let mut line = self.ink(label.mark_ink, label.mark);
            let room = label_width - width(label.mark);
            let indent = label.text.len() - label.text.trim_start().len();
            let (lead, words) = label.text.split_at(indent);
            let mut parts = if width(&label.text) <= room {
                vec![words.to_owned()]
            } else {
                wrap_words(words, room.saturating_sub(indent + 1))
            };
            let last = parts.pop().unwrap_or_default();
            for (at, part) in parts.iter().enumerate() {
                let hang = if at == 0 { "" } else { " " };
                line += &self.ink(label.ink, &format!("{lead}{hang}{part}"));
                self.line(&line);
                line = " ".repeat(width(label.mark));
            }
            let hang = if parts.is_empty() { "" } else { " " };
            line += &self.ink(label.ink, &pad_right(&format!("{lead}{hang}{last}"), room));
            for at in range.clone() {
                line += &" ".repeat(GAP);
                line += &self.ink(label.ink, &pad_left(&columns[at].cells[row], widths[at]));
            }
            if with_notes && !label.note.is_empty() {
                line += &" ".repeat(GAP);
                line += &self.ink(Ink::Faint, &label.note);
            }
            self.line(&line);
        }
    }
}

/// Tells whether rows of this kind are told apart by a mark.
fn is_span(kind: RowKind) -> bool {
    matches!(kind, RowKind::Processing | RowKind::Queueing)
}

fn label(row: &Row, spans: bool, footnote: Option<usize>) -> Label {
    let footnote = footnote.map_or(String::new(), |mark| format!(" [{mark}]"));
    let mark = match row.kind {
        RowKind::Processing => "▇ ",
        RowKind::Queueing => "▒ ",
        _ if spans => "  ",
        _ => "",
    };
    let ink = match row.kind {
        RowKind::Total => Ink::Bold,
        _ if row.cells.is_empty() => Ink::Bold,
        _ => Ink::Plain,
    };
    Label {
        mark,
        mark_ink: row.layer.map_or(Ink::Plain, Ink::Of),
        text: "  ".repeat(usize::from(row.depth).min(8)) + &clean(&row.label) + &footnote,
        ink,
        note: row.note.as_deref().map(clean).unwrap_or_default(),
    }
}

/// The 99th percentile, where the cell has one.
fn p99(cell: &Cell) -> Option<f64> {
    cell.measured()?.p99
}

/// The label of the row of 99th percentiles under a row.
fn label_of_p99(row: &Row, spans: bool) -> Label {
    Label {
        mark: if spans { "  " } else { "" },
        mark_ink: Ink::Plain,
        text: "  ".repeat(usize::from(row.depth).min(8) + 1) + "p99",
        ink: Ink::Faint,
        note: String::new(),
    }
}

/// Text of a cell.
#[derive(Debug, Clone, Default)]
struct CellText {
    /// The number, or words.
    number: String,
    /// The 95 % interval, after the number.
    error: String,
    /// The footnote's mark, after all.
    mark: String,
}

fn cell_text(cell: &Cell, shown: FormattedColumn, mark: Option<usize>) -> CellText {
    let mark = mark.map_or(String::new(), |mark| format!(" [{mark}]"));
    let plain = |number| CellText {
        number,
        ..CellText::default()
    };
    match cell {
        Cell::Value(measured) => CellText {
            number: shown.number(measured.value),
            error: measured.ci.map_or_else(String::new, |ci| {
                format!(" {}", shown.error(measured.value, ci))
            }),
            mark: String::new(),
        },
        Cell::Published { value, .. } => CellText {
            mark,
            ..plain(shown.number(*value))
        },
        Cell::NotAvailable { .. } => CellText {
            mark,
            ..plain("n/a".to_owned())
        },
        Cell::Text { text } => plain(clean(text)),
    }
}

/// Puts the decimal points of the numbers of a column under each other, the errors to the right of all numbers, and the marks of
/// footnotes to the right of those. Words stand at the right edge.
fn align(texts: Vec<CellText>) -> Vec<String> {
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let fraction = |text: &str| {
        if is_number(text) {
            fraction_width(text)
        } else {
            0
        }
    };
    let widest = |of: &dyn Fn(&CellText) -> usize| texts.iter().map(of).max().unwrap_or(0);
    let fractions = widest(&|text| fraction(&text.number));
    let errors = widest(&|text| width(&text.error));
    let marks = widest(&|text| width(&text.mark));
    let pad = |text: &CellText| match text.number.as_str() {
        "" => String::new(),
        number if is_number(number) => {
            let fill = fractions - fraction(number);
            number.to_owned()
                + &" ".repeat(fill)
                + &pad_right(&text.error, errors)
                + &pad_right(&text.mark, marks)
        }
        words => words.to_owned() + &pad_right(&text.mark, marks),
    };
    align_right(texts.iter().map(pad).collect())
}

fn align_right(texts: Vec<String>) -> Vec<String> {
    let widest = texts.iter().map(|text| width(text)).max().unwrap_or(0);
    texts
        .into_iter()
        .map(|text| pad_left(&text, widest))
        .collect()
}

fn column_width(column: &Texts) -> usize {
    let cells = column
        .cells
        .iter()
        .map(|text| width(text))
        .max()
        .unwrap_or(0);
    cells.max(width(&column.name)).max(width(column.unit))
}

/// Cuts the columns into blocks that fit into `space`; a column that is too wide gets a block of its own.
fn fit(widths: &[usize], space: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let (mut start, mut used) = (0, 0);
    for (at, column) in widths.iter().enumerate() {
        if at > start && used + GAP + column > space {
            ranges.push(start..at);
            (start, used) = (at, 0);
        }
        used += GAP + column;
    }
    ranges.push(start..widths.len());
    ranges
}

/// Like [`fit`], in as many blocks, but with blocks of about the same width.
pub(super) fn fit_evenly(widths: &[usize], space: usize) -> Vec<Range<usize>> {
    let mut best = fit(widths, space);
    for narrower in (0..space).rev() {
        let ranges = fit(widths, narrower);
        if ranges.len() > best.len() {
            break;
        }
        best = ranges;
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn decimal_points_stand_under_each_other() {
        let text = |(number, mark): (&str, &str)| CellText {
            number: number.to_owned(),
            mark: mark.to_owned(),
            ..CellText::default()
        };
        let texts = [
            ("0.340", ""),
            ("5.70", ""),
            ("14.1", ""),
            ("n/a", " [1]"),
            ("1,234", ""),
            ("2.0", " [2]"),
            ("", ""),
        ];
        assert_eq!(
            align(texts.map(text).to_vec()),
            [
                "    0.340    ",
                "    5.70     ",
                "   14.1      ",
                "      n/a [1]",
                "1,234        ",
                "    2.0   [2]",
                "             "
            ]
            .map(|text| text.to_owned())
        );
    }

    #[test]
    fn blocks_are_of_about_the_same_width() {
        assert_eq!(fit(&[8; 8], 75), [0..7, 7..8]);
        assert_eq!(fit_evenly(&[8; 8], 75), [0..4, 4..8]);
        assert_eq!(fit_evenly(&[8; 8], 80).len(), 1);
    }

    #[test]
    fn rows_of_the_same_name_and_note_are_explained_once() {
        let label = |text: &str, note: &str| Label {
            mark: "",
            mark_ink: Ink::Plain,
            text: text.to_owned(),
            ink: Ink::Plain,
            note: note.to_owned(),
        };
        let note = "ip.in.begin -> demux.begin, which is too long to stand beside the row of a narrow table";
        let labels = [
            label("ip", note),
            label("  ip", note),
            label(
                "ip",
                "elsewhere something else, which is no shorter than that of the others, and so stands below",
            ),
        ];
        let mut page = Page {
            text: String::new(),
            width: 80,
            colour: false,
        };
        page.blocks(&labels, &[]);
        assert_eq!(page.text.matches("  ip: ").count(), 2, "{}", page.text);
    }

    proptest! {
        #[test]
        fn every_column_is_in_one_block(widths in prop::collection::vec(0_usize..60, 0..20), space in 0_usize..100) {
            let ranges = fit(&widths, space);
            let all: Vec<usize> = ranges.iter().cloned().flatten().collect();
            prop_assert_eq!(all, (0..widths.len()).collect::<Vec<_>>());
            for range in ranges {
                let used: usize = range.clone().map(|at| GAP + widths[at]).sum();
                prop_assert!(used <= space || range.len() == 1);
            }
        }
    }
}
