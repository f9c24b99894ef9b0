//! Renders a run: terminal tables, one HTML file, JSON, CSV.
//!
//! Every renderer is a pure function from the run to text, so that the same run always gives the same bytes. This
//! crate measures nothing, decides nothing about the numbers, and never prints; only [`write_file`] and the
//! functions of [`json`] that take a path touch the file system.

pub mod csv;
pub mod html;
pub mod json;
pub mod svg;
pub mod terminal;

mod cells;
mod file;
mod forest;
mod format;

pub use file::{WriteError, check_writable, is_same_file, write_file};
