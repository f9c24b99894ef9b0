//! Exact instruction counts by Callgrind, held against budgets, and ratios of times within one run.
//!
//! A *scenario* ([`scenario`]) is a piece of work on two stacks over a memory link. [`valgrind`] runs a program on itself
//! under Callgrind, so that exactly the scenario's operations are counted. [`rows`] says which counts the table shows and
//! their bars, [`budgets`] holds what was recorded, [`table`] sets one against the other. [`clark`] counts the parts of a
//! packet's way as Clark, Jacobson, Romkey and Salwen (1989) did. [`mechanisms`] counts a round trip with each mechanism switched.
//! [`mod@bench`] takes the ratios of times.
//!
//! Counts are those of the machine code that runs, libraries included; they repeat to the instruction. This crate never
//! corrects a count by a number that it has not counted.
#![deny(unsafe_code)]

#[cfg(feature = "bench")]
pub mod bench;
pub mod budgets;
#[allow(unsafe_code)]
pub mod callgrind;
pub mod clark;
mod error;
pub mod hosts;
#[cfg(feature = "bench")]
pub mod mechanisms;
pub mod profile;
pub mod rows;
pub mod scenario;
pub mod table;
pub mod toggle;
pub mod valgrind;
pub mod without_gates;

pub use error::Error;
pub use scenario::run_scenario;
