//! The first part of the page on spans as help of `observe`: `docs/spans.md` without its marks, as wide as the terminal. The words of a
//! report's first screen, which follow there, are not of `observe`.

/// The page.
const PAGE: &str = include_str!("../../../../docs/spans.md");

/// Columns between two cells.
const GAP: usize = 2;

/// The part of the page that says which span holds what.
fn part() -> &'static str {
    PAGE.split_once("\n## ").map_or(PAGE, |(part, _)| part)
}

/// This part in at most `width` columns, but for paragraphs, which stand in one line each.
///
/// Tables are aligned where they fit. Otherwise each row has two lines: its span and the first cell, and the gates below.
pub(super) fn help(width: usize) -> String {
    let text = part().replace('`', "");
    let blocks = text.trim_end().split("\n\n").map(|block| {
        if block.starts_with('|') {
            let rows: Vec<Vec<&str>> = block.lines().filter_map(cells).collect();
            table(&rows, width)
        } else {
            block.trim_start_matches("# ").replace('\n', " ")
        }
    });
    blocks.collect::<Vec<_>>().join("\n\n")
}

/// The cells of a row; none for the line below the head.
fn cells(row: &str) -> Option<Vec<&str>> {
    let row = row.trim().trim_matches('|');
    (!row.starts_with("--")).then(|| row.split('|').map(str::trim).collect())
}

fn table(rows: &[Vec<&str>], width: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let longest = |at| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .map(|cell: &&str| cell.len())
            .max()
    };
    let widths: Vec<usize> = (0..columns).map(|at| longest(at).unwrap_or(0)).collect();
    let fits = widths.iter().map(|one| one + GAP).sum::<usize>() <= width + GAP;
    let lines = rows.iter().enumerate().map(|(at, row)| {
        if fits {
            let cells = row.iter().zip(&widths);
            let line: String = cells
                .map(|(cell, wide)| format!("{cell:0$}", wide + GAP))
                .collect();
            return line.trim_end().to_owned();
        }
        match row.as_slice() {
            [head, ..] if at == 0 => format!("{head}:"),
            [what, span, ""] => format!("  {span}: {what}"),
            [what, span, gates] => format!("  {span}: {what}\n      {gates}"),
            other => other.join(" "),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_aligned_where_they_fit_and_stacked_where_not() {
        let rows = [
            vec!["on the way", "span", "gates"],
            vec!["a tap", "ip", "in to out"],
            vec!["tc", "ip", ""],
        ];
        assert_eq!(
            table(&rows, 27),
            "on the way  span  gates\na tap       ip    in to out\ntc          ip"
        );
        assert_eq!(
            table(&rows, 26),
            "on the way:\n  ip: a tap\n      in to out\n  ip: tc"
        );
        assert_eq!(cells("|----|---|"), None);
    }

    #[test]
    fn tables_of_spans_fit_60_columns_and_keep_every_word() {
        for width in [60, 80, 100] {
            let text = help(width);
            let tables = text.split("\n\n").filter(|block| block.contains('\n'));
            assert_eq!(tables.clone().count(), 2);
            for line in tables.flat_map(str::lines) {
                assert!(line.len() <= width, "{width}: {line}");
            }
            let marks = |c: char| c.is_whitespace() || "|`#:-".contains(c);
            let words = |text: &str| {
                let mut words: Vec<String> = text
                    .split(marks)
                    .filter(|word| !word.is_empty())
                    .map(str::to_owned)
                    .collect();
                words.sort();
                words
            };
            let (page, shown) = (words(part()), words(&text));
            let missing: Vec<&String> = page.iter().filter(|word| !shown.contains(word)).collect();
            // Heads of the columns go where rows are stacked.
            assert!(
                missing
                    .iter()
                    .all(|word| ["span", "from", "gate", "to"].contains(&word.as_str())),
                "{missing:?}"
            );
        }
    }
}
