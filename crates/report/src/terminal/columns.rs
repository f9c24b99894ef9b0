//! Texts in columns: what names a row at the left, its numbers behind.
//!
//! Rows that are wider than the terminal are cut into blocks that repeat the names. Where names leave no room for a number, each row
//! has its names on one line and its numbers, each behind its heading, on the next. Nothing is left out.

use super::table::fit_evenly;
use super::{GAP, Ink, Page, clean, pad_left, pad_right, width};

/// Space before each line.
const INDENT: usize = 2;

impl Page {
    /// Rows under their headings, which are the first. The first `names` columns stand at the left; a line is left free before a row.
    pub(super) fn columns<const N: usize>(
        &mut self,
        rows: &[[String; N]],
        names: usize,
        free: Option<usize>,
    ) {
        let widths: [usize; N] =
            std::array::from_fn(|at| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0));
        let named = INDENT + widths[..names].iter().sum::<usize>() + GAP * names.saturating_sub(1);
        let room = self.width.saturating_sub(named);
        let widest = widths[names..]
            .iter()
            .max()
            .map_or(0, |widest| GAP + widest);
        if widest > room {
            return self.under_their_names(rows, names, free);
        }
        for (block, range) in fit_evenly(&widths[names..], room).into_iter().enumerate() {
            if block > 0 {
                self.line("");
            }
            for (index, row) in rows.iter().enumerate() {
                if free == Some(index) {
                    self.line("");
                }
                let shown = (0..names).chain(names + range.start..names + range.end);
                let cells: Vec<String> = shown
                    .map(|at| {
                        let text = clean(&row[at]);
                        if at < names {
                            pad_right(&text, widths[at])
                        } else {
                            pad_left(&text, widths[at])
                        }
                    })
                    .collect();
                let ink = if index == 0 { Ink::Faint } else { Ink::Plain };
                let text = format!("  {}", cells.join("  "));
                let line = self.ink(ink, text.trim_end());
                self.line(&line);
            }
        }
    }

    /// Each row on a line of its names and a line of its numbers.
    fn under_their_names<const N: usize>(
        &mut self,
        rows: &[[String; N]],
        names: usize,
        free: Option<usize>,
    ) {
        let Some((headings, rows)) = rows.split_first() else {
            return;
        };
        for (index, row) in rows.iter().enumerate() {
            if free == Some(index + 1) {
                self.line("");
            }
            let cells = |range: std::ops::Range<usize>| -> Vec<String> {
                let cells = headings[range.clone()].iter().zip(&row[range]);
                cells
                    .filter(|(_, text)| !text.is_empty())
                    .map(|(heading, text)| clean(format!("{heading} {}", text.trim()).trim()))
                    .collect()
            };
            self.wrap(Ink::Plain, "  ", 4, &cells(0..names).join(" · "));
            self.listed(&cells(names..N));
        }
    }

    /// Texts behind each other, none of them broken, on as many lines as they need.
    fn listed(&mut self, texts: &[String]) {
        let mut line = String::new();
        for text in texts {
            if !line.is_empty() && width(&line) + 3 + width(text) > self.width {
                let full = self.ink(Ink::Faint, &line);
                self.line(&full);
                line.clear();
            }
            let lead = if line.is_empty() { "      " } else { " · " };
            line += lead;
            line += text;
        }
        if !line.is_empty() {
            let last = self.ink(Ink::Faint, &line);
            self.line(&last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: usize, name: &str) -> String {
        let mut page = Page {
            width,
            ..Page::new(60, false)
        };
        let rows = [
            ["", "mean us", "share", "n"],
            [name, "4.00", "50 %", "1,234"],
            ["  sum", "8.00", "", "2"],
        ];
        page.columns(&rows.map(|row| row.map(str::to_owned)), 1, Some(2));
        page.text
    }

    #[test]
    fn columns_without_room_follow_in_blocks_with_their_names() {
        assert_eq!(
            shown(40, "tcp"),
            "         mean us  share      n\n  tcp       4.00   50 %  1,234\n\n    sum     8.00             2\n"
        );
        assert_eq!(
            shown(23, "tcp"),
            "         mean us\n  tcp       4.00\n\n    sum     8.00\n\n         share      n\n  tcp     50 %  1,234\n\n    sum             2\n"
        );
    }

    #[test]
    fn numbers_stand_under_names_that_leave_them_no_room() {
        assert_eq!(
            shown(23, "a name of 22 letters.."),
            "  a name of 22\n    letters..\n      mean us 4.00\n      share 50 %\n      n 1,234\n\n  sum\n      mean us 8.00\n      n 2\n"
        );
    }
}
