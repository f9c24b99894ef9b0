//! Analyses of saved runs. They summarise one, compare two, weight a profile with a trace, and set the papers' numbers beside a
//! run. They also compare streams at two frequencies.
//!
//! Everything here is a pure function of runs that are there. It must never measure, and never read a file.

pub mod claim;
pub mod comparison;
pub mod papers;
pub mod profile;
pub mod scaling;
pub mod summary;
