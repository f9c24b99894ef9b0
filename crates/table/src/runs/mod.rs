//! Runs in a store: what many invocations measured, on one host or on a fleet, as one set of tables.
//!
//! [`columns`] makes a run's rows; [`store`] keeps them, one run after the other, and opens them for SQL. docs/runs.md has the
//! tables, column by column.

pub mod columns;
pub mod store;

pub use columns::Table;
pub use store::{Saved, Store};
