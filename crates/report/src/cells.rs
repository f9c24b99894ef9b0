//! Units and footnotes of a table's cells: a common unit for each column, and numbered footnotes.

use tollgate_run::{Cell, Column, Table, Unit};

use crate::format::FormattedColumn;

/// For each column how its numbers are shown.
///
/// Columns of the same unit share one prefix, chosen from the numbers that were measured, so that rows can be read
/// across; a column whose own middle lies a factor of a thousand or more away gets its own.
pub(crate) fn formatted_columns(table: &Table) -> Vec<FormattedColumn> {
    let own = |at: usize| numbers(table.rows.iter().filter_map(move |row| row.cells.get(at)));
    let of_unit = |unit: Unit| {
        let cells = table
            .rows
            .iter()
            .flat_map(|row| row.cells.iter().zip(&table.columns));
        numbers(
            cells
                .filter(move |(_, column)| column.unit == unit)
                .map(|(cell, _)| cell),
        )
    };
    let choose = |(at, column): (usize, &Column)| {
        let (own, all) = (own(at), of_unit(column.unit));
        let ratio = middle(&own) / middle(&all);
        let far = ratio.is_finite() && ratio > 0.0 && !(1e-3..1e3).contains(&ratio);
        FormattedColumn::choose(column.unit, if far { own } else { all })
    };
    table.columns.iter().enumerate().map(choose).collect()
}

/// The measured numbers among the cells, or the published ones where nothing was measured.
fn numbers<'a>(cells: impl Iterator<Item = &'a Cell>) -> Vec<f64> {
    let (mut measured, mut published) = (Vec::new(), Vec::new());
    for cell in cells {
        match cell {
            Cell::Value(number) => measured.push(number.value),
            Cell::Published { value, .. } => published.push(*value),
            Cell::NotAvailable { .. } | Cell::Text { .. } => {}
        }
    }
    if measured.is_empty() {
        published
    } else {
        measured
    }
}

/// The geometric middle between the least and the most, zeros aside; NaN when there is none.
fn middle(values: &[f64]) -> f64 {
    let sizes = || {
        values
            .iter()
            .map(|value| value.abs())
            .filter(|size| size.is_finite() && *size > 0.0)
    };
    sizes().fold(f64::INFINITY, f64::min).sqrt() * sizes().fold(0.0, f64::max).sqrt()
}

/// The remarks under a table, and the marks that point to them. Remarks are numbered from 1 in the order of use.
pub(crate) struct Footnotes {
    /// The remarks, each once.
    pub(crate) texts: Vec<String>,
    /// The marks of each row.
    pub(crate) rows: Vec<RowMarks>,
}

/// The marks of one row: one at the label where all cells have the same, else one at each cell that needs it.
pub(crate) struct RowMarks {
    pub(crate) label: Option<usize>,
    /// The footnotes, one for each cell of the row.
    pub(crate) cells: Vec<Option<usize>>,
}

impl Footnotes {
    pub(crate) fn of(table: &Table) -> Self {
        let mut texts: Vec<String> = Vec::new();
        let mut mark = |cell: &Cell| {
            let text = remark(cell)?;
            let at = texts
                .iter()
                .position(|known| *known == text)
                .unwrap_or_else(|| {
                    texts.push(text);
                    texts.len() - 1
                });
            Some(at + 1)
        };
        let rows = table.rows.iter().map(|row| {
            let cells: Vec<Option<usize>> = row.cells.iter().map(&mut mark).collect();
            match cells.first() {
                Some(Some(first))
                    if cells.len() > 1 && cells.iter().all(|m| *m == Some(*first)) =>
                {
                    RowMarks {
                        label: Some(*first),
                        cells: vec![None; cells.len()],
                    }
                }
                _ => RowMarks { label: None, cells },
            }
        });
        let rows = rows.collect();
        Self { texts, rows }
    }
}

/// The footnote of a cell.
fn remark(cell: &Cell) -> Option<String> {
    match cell {
        Cell::Published { source, .. } => Some(format!("published: {source}")),
        Cell::NotAvailable { reason } => Some(format!("not available: {reason}")),
        Cell::Value(_) | Cell::Text { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use tollgate_run::{Row, RowKind, Source};

    use super::*;

    fn table(rows: Vec<Vec<Cell>>) -> Table {
        let columns = rows[0]
            .iter()
            .map(|_| Column {
                name: "c".into(),
                unit: Unit::Nanoseconds,
            })
            .collect();
        let row = |cells| Row {
            label: "row".into(),
            depth: 0,
            kind: RowKind::Plain,
            layer: None,
            note: None,
            cells,
        };
        Table {
            id: "t".into(),
            title: "T".into(),
            columns,
            rows: rows.into_iter().map(row).collect(),
        }
    }

    fn published(value: f64) -> Cell {
        Cell::Published {
            value,
            source: Source {
                authors: "A".into(),
                year: 1994,
                place: "Table 2".into(),
            },
        }
    }

    fn missing(reason: &str) -> Cell {
        Cell::NotAvailable {
            reason: reason.into(),
        }
    }

    #[test]
    fn one_mark_serves_a_row_whose_cells_need_the_same() {
        let notes = Footnotes::of(&table(vec![
            vec![published(1.0), published(2.0)],
            vec![missing("why"), published(2.0)],
            vec![Cell::exact(1.0), missing("why")],
        ]));
        assert_eq!(
            notes.texts,
            ["published: A 1994, Table 2", "not available: why"]
        );
        let marks: Vec<_> = notes
            .rows
            .iter()
            .map(|row| (row.label, row.cells.clone()))
            .collect();
        assert_eq!(
            marks,
            [
                (Some(1), vec![None, None]),
                (None, vec![Some(2), Some(1)]),
                (None, vec![None, Some(2)]),
            ]
        );
    }

    #[test]
    fn columns_share_a_unit_unless_they_are_far_apart() {
        let names = |table: &Table| -> Vec<&str> {
            formatted_columns(table).iter().map(|s| s.name).collect()
        };
        let near = table(vec![vec![
            Cell::exact(900.0),
            Cell::exact(40_000.0),
            published(9e9),
        ]]);
        assert_eq!(names(&near), ["us", "us", "s"]);
        let far = table(vec![vec![
            Cell::exact(20.0),
            Cell::exact(50.0),
            Cell::exact(3e9),
        ]]);
        assert_eq!(names(&far), ["ns", "ns", "s"]);
    }
}
