//! What runs say: one in short, two of them compared, one weighted with a trace, the papers' numbers beside one,
//! streams of two at two frequencies.
//!
//! Everything here is a pure function of runs that are there. It must never measure, and never read a file.

pub mod claim;
pub mod comparison;
pub mod papers;
pub mod profile;
pub mod scaling;
pub mod summary;
