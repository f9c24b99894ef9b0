//! Experiments, the run they fill, statistics and the published numbers.

pub mod published;
pub mod run;
pub mod stats;
