//! The anatomy of a round trip as an SVG file of its own, for a README or a slide.
//!
//! It follows light and dark, fetches nothing and runs no script; everything that comes from the run is escaped.

use tollgate_analysis::summary::anatomy;
use tollgate_run::Run;

use crate::html::standalone_anatomy;

/// Renders the anatomy of the run; none where the run has no ledger.
#[must_use]
pub fn render(run: &Run) -> Option<String> {
    anatomy(run).map(|anatomy| standalone_anatomy(&anatomy))
}
