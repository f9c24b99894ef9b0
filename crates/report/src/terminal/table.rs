//! Tables in columns: decimal points under each other, units under the headings, remarks underneath.
//!
//! A table that is wider than the terminal is cut into blocks that repeat the row labels; nothing is left out.

use std::collections::BTreeSet;
use std::ops::Range;

use tollgate_run::{Cell, Column, Row, RowKind, Table};

use super::{Ink, Page, clean, pad_left, pad_right, width};
use crate::cells::{Footnotes, RowMarks, half_width, has_spread, shown_columns};
use crate::format::{Shown, fraction_width, percent};

/// Space between columns.
const GAP: usize = 2;

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
        let shown = shown_columns(table);
        let notes = Footnotes::of(table);
        let spans = table.rows.iter().any(|row| is_span(row.kind));
        let labels: Vec<Label> = table
            .rows
            .iter()
            .zip(&notes.rows)
            .map(|(row, marks)| label(row, spans, marks.label))
            .collect();
        let columns: Vec<Texts> = table
            .columns
            .iter()
            .zip(&shown)
            .enumerate()
            .map(|(at, (column, shown))| {
                let text = |(row, marks): (&Row, &RowMarks)| match (
                    row.cells.get(at),
                    marks.cells.get(at),
                ) {
                    (Some(cell), Some(mark)) => cell_text(cell, *shown, *mark),
                    _ => String::new(),
                };
                let texts = table.rows.iter().zip(&notes.rows).map(text).collect();
                Texts {
                    name: clean(&column.name),
                    unit: shown.name,
                    cells: align(texts),
                }
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
        self.spread(table, &shown);
    }

    /// The confidence intervals and 99th percentiles, in the layout of the table that they belong to. Those of single
    /// spans are left to the other renderers, because they would double the length of a ledger.
    fn spread(&mut self, table: &Table, shown: &[Shown]) {
        let spread = |row: &&Row| row.cells.iter().any(has_spread);
        let rows: Vec<&Row> = table
            .rows
            .iter()
            .filter(spread)
            .filter(|row| !is_span(row.kind))
            .collect();
        let mut lines: Vec<(String, Vec<String>)> = Vec::new();
        // Whether there are lines of either kind.
        let mut shows = [false; 2];
        for row in &rows {
            let halves = row
                .cells
                .iter()
                .map(|cell| Some(percent(half_width(cell.measured()?)?)));
            let p99s = row
                .cells
                .iter()
                .zip(shown)
                .map(|(cell, shown)| Some(shown.number(cell.measured()?.p99?)));
            let both = [("±", halves.collect::<Vec<_>>()), ("p99", p99s.collect())];
            for ((what, texts), shows) in both.into_iter().zip(&mut shows) {
                if texts.iter().any(Option::is_some) {
                    *shows = true;
                    let texts = texts.into_iter().map(Option::unwrap_or_default).collect();
                    lines.push((format!("{}, {what}", clean(&row.label)), texts));
                }
            }
        }
        if !lines.is_empty() {
            let column = |(at, column): (usize, &Column)| Texts {
                name: clean(&column.name),
                unit: shown[at].name,
                cells: align_right(lines.iter().map(|(_, texts)| texts[at].clone()).collect()),
            };
            let columns: Vec<Texts> = table.columns.iter().enumerate().map(column).collect();
            let label = |(text, _): &(String, Vec<String>)| Label {
                mark: "",
                mark_ink: Ink::Plain,
                text: text.clone(),
                ink: Ink::Faint,
                note: String::new(),
            };
            let labels: Vec<Label> = lines.iter().map(label).collect();
            self.line("");
            self.wrap(
                Ink::Faint,
                "",
                0,
                match shows {
                    [true, false] => "Spread: half the 95 % confidence interval (±)",
                    [false, _] => "Spread: the 99th percentile",
                    [true, true] => {
                        "Spread: half the 95 % confidence interval (±) and the 99th percentile"
                    }
                },
            );
            self.blocks(&labels, &columns);
        }
        if table.rows.iter().filter(spread).count() > rows.len() {
            self.wrap(
                Ink::Faint,
                "",
                0,
                "The spread of each span is in the HTML file and in the JSON.",
            );
        }
    }

    /// Prints the columns, in as many blocks as the width demands.
    fn blocks(&mut self, labels: &[Label], columns: &[Texts]) {
        let label_width = labels
            .iter()
            .map(|l| width(l.mark) + width(&l.text))
            .max()
            .unwrap_or(0)
            .max(8);
        let widths: Vec<usize> = columns.iter().map(column_width).collect();
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
            line += &self.ink(
                label.ink,
                &pad_right(&label.text, label_width - width(label.mark)),
            );
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

/// Whether rows of this kind are told apart by a mark.
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

fn cell_text(cell: &Cell, shown: Shown, mark: Option<usize>) -> String {
    let mark = mark.map_or(String::new(), |mark| format!(" [{mark}]"));
    match cell {
        Cell::Value(measured) => shown.number(measured.value),
        Cell::Published { value, .. } => shown.number(*value) + &mark,
        Cell::NotAvailable { .. } => format!("n/a{mark}"),
        Cell::Text { text } => clean(text),
    }
}

/// Puts the decimal points of the numbers of a column under each other. Text stays at the right edge.
fn align(texts: Vec<String>) -> Vec<String> {
    // A footnote's mark stands to the right of all numbers.
    let split = |text: &str| match text.split_once(" [") {
        Some((number, mark)) => (number.to_owned(), format!(" [{mark}")),
        None => (text.to_owned(), String::new()),
    };
    let parts: Vec<(String, String)> = texts.iter().map(|text| split(text)).collect();
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let fraction = |text: &str| {
        if is_number(text) {
            fraction_width(text)
        } else {
            0
        }
    };
    let widest = parts
        .iter()
        .map(|(number, _)| fraction(number))
        .max()
        .unwrap_or(0);
    let widest_mark = parts.iter().map(|(_, mark)| width(mark)).max().unwrap_or(0);
    let pad = |(number, mark): (String, String)| match number.as_str() {
        "" => String::new(),
        text if is_number(text) => {
            let fill = widest - fraction(text);
            text.to_owned() + &" ".repeat(fill) + &pad_right(&mark, widest_mark)
        }
        text => text.to_owned() + &pad_right(&mark, widest_mark),
    };
    align_right(parts.into_iter().map(pad).collect())
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

/// As [`fit`], in as many blocks, but with blocks of about the same width.
fn fit_evenly(widths: &[usize], space: usize) -> Vec<Range<usize>> {
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
        let texts = ["0.340", "5.70", "14.1", "n/a [1]", "1,234", "2.0 [2]", ""]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(
            align(texts),
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
