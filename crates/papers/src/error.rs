//! Errors of a file of published numbers.

use thiserror::Error;

/// The reason why a file of published numbers was refused.
#[derive(Debug, Error)]
pub(super) enum LoadError {
    /// Not TOML, or not the expected keys and types.
    #[error("cannot read the file: {0}")]
    Syntax(#[from] toml::de::Error),
    /// An id that must be unique occurs twice.
    #[error("{owner}: the id {id:?} occurs twice")]
    DuplicateId {
        /// The paper or table that holds the id.
        owner: String,
        /// The id.
        id: String,
    },
    /// A table's id does not begin with its paper's.
    #[error("the table id {table:?} does not begin with \"{paper}/\"")]
    ForeignTable {
        /// The paper's id.
        paper: String,
        /// The table's id.
        table: String,
    },
    /// A row has more or fewer cells than the table has columns.
    #[error("{table}: row {row:?} has {found} cells for {expected} columns")]
    CellCount {
        /// The table's id.
        table: String,
        /// The row's id.
        row: String,
        /// Columns of the table.
        expected: usize,
        /// Cells of the row.
        found: usize,
    },
    /// A reference to a row, column or fact that is not there.
    #[error("{owner}: {name:?} is named but not defined")]
    UnknownName {
        /// The paper or table that holds the reference.
        owner: String,
        /// The name that was not found.
        name: String,
    },
    /// Rows that are each other's parents.
    #[error("{table}: row {row:?} is nested in itself")]
    NestingCycle {
        /// The table's id.
        table: String,
        /// A row of the cycle.
        row: String,
    },
    /// A number that is infinite or not a number.
    #[error("{owner}: {name:?} holds a value that is not finite")]
    NotFinite {
        /// The paper or table.
        owner: String,
        /// The row or fact.
        name: String,
    },
}
