//! Rows, columns and remarks that tables and trust share.
//!
//! It owns how a plain row, a column of a size and a published number look; it must never compute a number.

use super::{Cell, Column, Row, RowKind, Source, TrustKind, TrustLine, Unit, format};

/// A column for each size.
#[must_use]
pub fn size_columns(sizes: &[usize], unit: Unit) -> Vec<Column> {
    sizes
        .iter()
        .map(|&size| Column {
            name: format::size(size),
            unit,
        })
        .collect()
}

/// A row that is no span.
#[must_use]
pub fn plain_row(label: impl Into<String>, cells: Vec<Cell>) -> Row {
    Row {
        label: label.into(),
        depth: 0,
        kind: RowKind::Plain,
        layer: None,
        note: None,
        cells,
    }
}

/// A published cell, or why there is none.
#[must_use]
pub fn published_cell(value: Option<f64>, source: &Source) -> Cell {
    match value {
        Some(value) => Cell::Published {
            value,
            source: source.clone(),
        },
        None => Cell::NotAvailable {
            reason: format!("{source} has no number here"),
        },
    }
}

/// A remark that holds.
#[must_use]
pub fn note(text: impl Into<String>) -> TrustLine {
    TrustLine {
        kind: TrustKind::Note,
        value: None,
        unit: Unit::None,
        holds: true,
        text: text.into(),
    }
}

/// A remark that the reader must be warned by.
#[must_use]
pub fn warning(text: impl Into<String>) -> TrustLine {
    TrustLine {
        holds: false,
        ..note(text)
    }
}

/// The first, the last and some places between, evenly.
#[must_use]
pub fn some(len: usize, count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count)
        .map(|at| (len - 1) * at / (count - 1).max(1))
        .collect();
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_places_are_the_ends_and_between() {
        assert_eq!(some(40, 3), [0, 19, 39]);
        assert_eq!(some(2, 3), [0, 1]);
        assert_eq!(some(1, 3), [0]);
    }
}
